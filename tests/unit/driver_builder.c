/* Programs put together by calls: the same IR as from text, the same diagnostics. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/api.h"

static spc_context *context_new(void) {
  spc_context *context = NULL;
  spc_context_options options = {.struct_size = sizeof options, .backend = "interp"};
  cr_assert_eq(spc_context_new(&options, &context, NULL), SPC_OK);
  return context;
}

/* ---- shorthand ------------------------------------------------------------------------------- */
/* A name, an integer, or a sum of two: "f", "128", "E+1". */
static spc_expr atom(spc_builder *b, const char *text) {
  char part[64];
  const char *plus = strchr(text, '+');
  if (plus) {
    snprintf(part, sizeof part, "%.*s", (int)(plus - text), text);
    return spc_build_binary(b, "+", atom(b, part), atom(b, plus + 1));
  }
  return text[0] >= '0' && text[0] <= '9' ? spc_build_integer(b, atoll(text))
                                          : spc_build_name(b, text);
}

/* Parts of "t,d". */
static int atoms(spc_builder *b, const char *list, spc_expr *out) {
  char copy[100], *rest = copy;
  int count = 0;
  snprintf(copy, sizeof copy, "%s", list);
  while (rest && *rest) {
    char *comma = strchr(rest, ',');
    if (comma) *comma = 0;
    out[count++] = atom(b, rest);
    rest = comma ? comma + 1 : NULL;
  }
  return count;
}

static spc_expr at(spc_builder *b, const char *name, const char *list) {
  spc_expr subs[8];
  int count = atoms(b, list, subs);
  return spc_build_access(b, name, subs, count);
}

static spc_expr times(spc_builder *b, spc_expr x, spc_expr y) {
  return spc_build_binary(b, "*", x, y);
}

static spc_expr sum(spc_builder *b, const char *index, spc_expr x) {
  return spc_build_reduce(b, "sum", &index, 1, x);
}

static spc_expr call(spc_builder *b, const char *function, spc_expr x) {
  return spc_build_call(b, function, &x, 1);
}

/* format: NULL, or "csr", "bsr(64,64)". */
static void in(spc_builder *b, const char *name, const char *dtype, const char *shape,
               const char *format, bool is_const) {
  spc_expr dims[8];
  long long args[2];
  int64_t format_args[2];
  char plain[20];
  spc_declaration d = {.struct_size = sizeof d, .name = name, .dtype = dtype, .is_const = is_const};
  d.rank = atoms(b, shape, dims);
  d.shape = dims;
  if (format) {
    d.format = plain;
    d.format_argument_count = sscanf(format, "%19[a-z_](%lld,%lld)", plain, &args[0], &args[1]) - 1;
    for (int i = 0; i < d.format_argument_count; i++) format_args[i] = args[i];
    d.format_arguments = format_args;
  }
  spc_build_input(b, &d);
}

static spc_statement stmt(spc_builder *b, bool is_output, const char *name, const char *list,
                          spc_expr *subs, spc_expr value) {
  spc_statement s = {.struct_size = sizeof s, .is_output = is_output, .name = name, .value = value};
  s.rank = atoms(b, list, subs);
  s.subscripts = subs;
  return s;
}

static spc_hint density(double low, double high) {
  return (spc_hint){
      .struct_size = sizeof(spc_hint), .has_density = 1, .density_low = low, .density_high = high};
}

/* ---- the examples ---------------------------------------------------------------------------- */
static void ffn(spc_builder *b) {
  spc_expr s[8];
  spc_hint hint = density(0.02, 0.15);
  spc_build_dyn(b, "T", 0, 8192);
  spc_build_dim(b, "D", spc_build_integer(b, 4096));
  spc_build_dim(b, "F", spc_build_integer(b, 16384));
  spc_build_kernel(b, "ffn");
  in(b, "x", "bf16", "T,D", NULL, false);
  in(b, "W1", "bf16", "D,F", NULL, true);
  in(b, "W2", "bf16", "F,D", NULL, true);
  spc_statement h =
      stmt(b, false, "h", "t,f", s,
           call(b, "relu", sum(b, "d", times(b, at(b, "x", "t,d"), at(b, "W1", "d,f")))));
  h.dtype = "bf16";
  h.accumulator = "f32";
  h.hint = &hint;
  spc_build_statement(b, &h);
  spc_statement y =
      stmt(b, true, "y", "t,o", s, sum(b, "f", times(b, at(b, "h", "t,f"), at(b, "W2", "f,o"))));
  y.dtype = "bf16";
  y.accumulator = "f32";
  spc_build_statement(b, &y);
}

static void gated_ffn(spc_builder *b) {
  spc_expr s[8];
  spc_hint hint = density(0.05, 0.2);
  spc_build_dyn(b, "T", 0, 8192);
  spc_build_dim(b, "D", spc_build_integer(b, 2048));
  spc_build_dim(b, "F", spc_build_integer(b, 8192));
  spc_build_kernel(b, "gated_ffn");
  in(b, "x", "bf16", "T,D", NULL, false);
  in(b, "Wg", "bf16", "D,F", NULL, true);
  in(b, "Wu", "bf16", "D,F", "dense_t", true);
  in(b, "Wd", "bf16", "F,D", NULL, true);
  spc_expr x = at(b, "x", "t,d"), g = at(b, "g", "t,f");
  spc_statement gate =
      stmt(b, false, "g", "t,f", s, call(b, "relu", sum(b, "d", times(b, x, at(b, "Wg", "d,f")))));
  gate.hint = &hint;
  spc_build_statement(b, &gate);
  spc_statement up = stmt(b, false, "u", "t,f", s, sum(b, "d", times(b, x, at(b, "Wu", "d,f"))));
  up.condition = g;
  spc_build_statement(b, &up);
  spc_statement down =
      stmt(b, true, "y", "t,o", s,
           sum(b, "f", times(b, times(b, g, at(b, "u", "t,f")), at(b, "Wd", "f,o"))));
  spc_build_statement(b, &down);
}

static void spmm(spc_builder *b) {
  spc_expr s[8];
  spc_build_dyn(b, "I", 0, 0);
  spc_build_dyn(b, "K", 0, 0);
  spc_build_dyn(b, "N", 0, 0);
  spc_build_kernel(b, "spmm");
  in(b, "A", "f32", "I,K", "csr", false);
  in(b, "B", "f32", "K,N", NULL, false);
  spc_statement c =
      stmt(b, true, "C", "i,n", s, sum(b, "k", times(b, at(b, "A", "i,k"), at(b, "B", "k,n"))));
  spc_build_statement(b, &c);
  spc_build_kernel(b, "spmv");
  in(b, "A", "f32", "I,K", "csr", false);
  in(b, "x", "f32", "K", NULL, false);
  spc_statement y = stmt(b, true, "y", "i", s, times(b, at(b, "A", "i,k"), at(b, "x", "k")));
  y.assign = "+=";
  spc_build_statement(b, &y);
}

static void sddmm(spc_builder *b) {
  spc_expr s[8];
  spc_build_dyn(b, "I", 0, 0);
  spc_build_dyn(b, "J", 0, 0);
  spc_build_dyn(b, "K", 0, 0);
  spc_build_kernel(b, "sddmm");
  in(b, "S", "f32", "I,J", "csr", false);
  in(b, "A", "f32", "I,K", NULL, false);
  in(b, "B", "f32", "J,K", NULL, false);
  spc_statement c = stmt(
      b, true, "C", "i,j", s,
      times(b, at(b, "S", "i,j"), sum(b, "k", times(b, at(b, "A", "i,k"), at(b, "B", "j,k")))));
  c.like = "S";
  spc_build_statement(b, &c);
}

static void bsattn(spc_builder *b) {
  spc_expr s[8];
  const char *dims[] = {"B", "H", "S"};
  for (int i = 0; i < 3; i++) spc_build_dyn(b, dims[i], 0, 0);
  spc_build_kernel(b, "bsattn");
  in(b, "Q", "bf16", "B,H,S,128", NULL, false);
  in(b, "K", "bf16", "B,H,S,128", NULL, false);
  in(b, "V", "bf16", "B,H,S,128", NULL, false);
  in(b, "M", NULL, "S,S", "bsr(64,64)", false);
  spc_expr dot = sum(b, "d", times(b, at(b, "Q", "b,h,i,d"), at(b, "K", "b,h,j,d")));
  spc_statement p =
      stmt(b, false, "p", "b,h,i,j", s, times(b, spc_build_number(b, 0.08838835), dot));
  p.condition = spc_build_binary(b, "and", at(b, "M", "i,j"),
                                 spc_build_binary(b, "<=", atom(b, "j"), atom(b, "i")));
  p.fill = spc_build_number(b, (double)-INFINITY);
  spc_build_statement(b, &p);
  spc_statement a =
      stmt(b, false, "a", "b,h,i,j", s, spc_build_softmax(b, "j", at(b, "p", "b,h,i,j")));
  spc_build_statement(b, &a);
  spc_statement o = stmt(b, true, "O", "b,h,i,d", s,
                         sum(b, "j", times(b, at(b, "a", "b,h,i,j"), at(b, "V", "b,h,j,d"))));
  spc_build_statement(b, &o);
}

/* A gather in a subscript. */
static spc_expr gathered(spc_builder *b, const char *name, const char *last) {
  spc_expr subs[2] = {at(b, "perm", "r"), atom(b, last)};
  return spc_build_access(b, name, subs, 2);
}

static void moe(spc_builder *b) {
  spc_expr s[8], shape[2];
  spc_build_dyn(b, "T", 0, 8192);
  spc_build_dim(b, "D", spc_build_integer(b, 1024));
  spc_build_dim(b, "F", spc_build_integer(b, 4096));
  spc_build_dim(b, "E", spc_build_integer(b, 64));
  spc_build_dyn(b, "R", 0, 0);
  spc_build_kernel(b, "moe");
  in(b, "x", "bf16", "T,D", NULL, false);
  in(b, "off", "i32", "E+1", NULL, false);
  in(b, "perm", "i32", "R", NULL, false);
  in(b, "w", "f32", "R", NULL, false);
  in(b, "Wg", "bf16", "E,D,F", NULL, false);
  in(b, "Wu", "bf16", "E,D,F", NULL, false);
  in(b, "Wd", "bf16", "E,F,D", NULL, false);
  spc_build_ragged(b, "r", at(b, "off", "e"), at(b, "off", "e+1"));
  spc_expr x = gathered(b, "x", "d");
  spc_expr gate = call(b, "silu", sum(b, "d", times(b, x, at(b, "Wg", "e,d,f"))));
  spc_statement h =
      stmt(b, false, "h", "r,f", s, times(b, gate, sum(b, "d", times(b, x, at(b, "Wu", "e,d,f")))));
  spc_build_statement(b, &h);
  spc_expr down = sum(b, "f", times(b, at(b, "h", "r,f"), at(b, "Wd", "e,f,o")));
  spc_statement y = stmt(b, true, "y", "", s, times(b, at(b, "w", "r"), down));
  s[0] = at(b, "perm", "r");
  s[1] = atom(b, "o");
  y.rank = 2;
  y.assign = "+=";
  y.dtype = "bf16";
  y.accumulator = "f32";
  atoms(b, "T,D", shape);
  y.shape = shape;
  y.is_ordered = 1;
  spc_build_statement(b, &y);
}

static void topk(spc_builder *b) {
  spc_expr s[8];
  spc_hint hint = density(0.01, 0.01);
  spc_build_dyn(b, "T", 0, 8192);
  spc_build_dim(b, "D", spc_build_integer(b, 1024));
  spc_build_dim(b, "F", spc_build_integer(b, 4096));
  spc_build_kernel(b, "topk_ffn");
  in(b, "x", "f32", "T,D", NULL, false);
  in(b, "W1", "f32", "D,F", NULL, true);
  in(b, "W2", "f32", "F,D", NULL, true);
  spc_statement z =
      stmt(b, false, "z", "t,f", s,
           call(b, "relu", sum(b, "d", times(b, at(b, "x", "t,d"), at(b, "W1", "d,f")))));
  spc_build_statement(b, &z);
  spc_statement h = stmt(b, false, "h", "t,f", s, spc_build_topk(b, "f", at(b, "z", "t,f"), 8));
  h.hint = &hint;
  spc_build_statement(b, &h);
  spc_statement y =
      stmt(b, true, "y", "t,o", s, sum(b, "f", times(b, at(b, "h", "t,f"), at(b, "W2", "f,o"))));
  spc_build_statement(b, &y);
}

/* Operators, casts, sizes that are sums, statements by subscript arithmetic, every directive's
 * form. */
static const char odd[] =
    "spx 1; dim N: dyn % 8; dim M = 64;\n"
    "kernel k { in x: f32[N,M] ~ zeros(static, density=0.1, gran=1x8, axis=M) fill 0; in p: "
    "f32[2*N+4]; in q: i32[N];\n"
    " let a[i,j] = -p[2*i+3] - (x[i,j] - 1.5) / (2.0 + exp(x[i,j])) : f32;\n"
    " let c[i,j] = cast[f32](q[i]) * (a[i,j] - -3);\n"
    " let m[i] = max[j] c[i,j] on not (q[i] == 7 or q[i] > 1000000000000) fill -2.5e-7;\n"
    " out y[i] = sum[j] (c[i,j] * max(m[i], 0.25)); }\n"
    "schedule k for cpu { tile y i=32 j=16; fuse a into c; dense m; stages 3; }\n";

static void odd_ones(spc_builder *b) {
  spc_expr s[8], shape[2], i = atom(b, "i"), two = atom(b, "2");
  spc_expr zero = spc_build_integer(b, 0), q = at(b, "q", "i");
  spc_hint hint = density(0.1, 0.1);
  hint.is_static = 1;
  hint.rows = 1;
  hint.columns = 8;
  hint.axis = "M";
  spc_build_dyn(b, "N", 8, 0);
  spc_build_dim(b, "M", atom(b, "64"));
  spc_build_kernel(b, "k");
  shape[0] = atom(b, "N");
  shape[1] = atom(b, "M");
  spc_declaration x = {.struct_size = sizeof x, .name = "x", .dtype = "f32", .rank = 2};
  x.shape = shape;
  x.hint = &hint;
  x.fill = zero;
  spc_build_input(b, &x);
  spc_expr more = spc_build_binary(b, "+", times(b, two, atom(b, "N")), atom(b, "4"));
  spc_declaration p = {.struct_size = sizeof p, .name = "p", .dtype = "f32", .rank = 1};
  p.shape = &more;
  spc_build_input(b, &p);
  in(b, "q", "i32", "N", NULL, false);
  spc_expr third = spc_build_binary(b, "+", times(b, two, i), atom(b, "3"));
  spc_expr first = spc_build_unary(b, "-", spc_build_access(b, "p", &third, 1));
  spc_expr second = spc_build_binary(b, "-", at(b, "x", "i,j"), spc_build_number(b, 1.5));
  spc_expr under =
      spc_build_binary(b, "+", spc_build_number(b, 2), call(b, "exp", at(b, "x", "i,j")));
  spc_statement a = stmt(b, false, "a", "i,j", s,
                         spc_build_binary(b, "-", first, spc_build_binary(b, "/", second, under)));
  a.dtype = "f32";
  spc_build_statement(b, &a);
  spc_expr less = spc_build_binary(b, "-", at(b, "a", "i,j"), spc_build_integer(b, -3));
  spc_statement c = stmt(b, false, "c", "i,j", s, times(b, spc_build_cast(b, "f32", q), less));
  spc_build_statement(b, &c);
  const char *along = "j";
  spc_statement m =
      stmt(b, false, "m", "i", s, spc_build_reduce(b, "max", &along, 1, at(b, "c", "i,j")));
  m.condition = spc_build_unary(
      b, "not",
      spc_build_binary(b, "or", spc_build_binary(b, "==", q, atom(b, "7")),
                       spc_build_binary(b, ">", q, spc_build_integer(b, 1000000000000))));
  m.fill = spc_build_number(b, -2.5e-7);
  spc_build_statement(b, &m);
  spc_expr most[2] = {at(b, "m", "i"), spc_build_number(b, 0.25)};
  spc_statement y =
      stmt(b, true, "y", "i", s,
           sum(b, "j", times(b, at(b, "c", "i,j"), spc_build_call(b, "max", most, 2))));
  spc_build_statement(b, &y);
  spc_size tiles[2] = {{"i", 32}, {"j", 16}};
  spc_build_schedule(b, "k", "cpu");
  spc_directive d[4] = {{.kind = "tile", .tensor = "y", .sizes = tiles, .size_count = 2},
                        {.kind = "fuse", .tensor = "a", .into = "c"},
                        {.kind = "dense", .tensor = "m"},
                        {.kind = "stages", .number = 3}};
  for (int k = 0; k < 4; k++) {
    d[k].struct_size = sizeof *d;
    spc_build_directive(b, &d[k]);
  }
}

/* ---- the same IR ----------------------------------------------------------------------------- */
static const struct {
  const char *path, *text;
  void (*build)(spc_builder *);
} same[] = {{"ffn", NULL, ffn},     {"gated_ffn", NULL, gated_ffn}, {"spmm", NULL, spmm},
            {"sddmm", NULL, sddmm}, {"bsattn", NULL, bsattn},       {"moe", NULL, moe},
            {"topk", NULL, topk},   {NULL, odd, odd_ones}};

static char *ir_of(const spc_program *program) {
  ir_text text = ir_text_new(program->arena);
  ir_print(program->ir, &text);
  return text.data;
}

Test(driver_builder, makes_what_the_text_makes) {
  spc_context *context = context_new();
  for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
    spc_error err = SPC_ERROR_INIT;
    spc_builder *b;
    spc_program *built, *read;
    char path[300];
    cr_assert_eq(spc_builder_new(context, &b, &err), SPC_OK);
    same[i].build(b);
    cr_assert_eq(spc_program_from_builder(b, NULL, &built, &err), SPC_OK, "%s\n%s", err.message,
                 err.diagnostics);
    snprintf(path, sizeof path, "%s/examples/%s.spx", SPC_SOURCE_DIR, same[i].path);
    if (same[i].text)
      cr_assert_eq(
          spc_program_from_text(context, same[i].text, strlen(same[i].text), NULL, &read, &err),
          SPC_OK, "%s\n%s", err.message, err.diagnostics);
    else
      cr_assert_eq(spc_program_from_file(context, path, NULL, &read, &err), SPC_OK);
    char *one = ir_of(built), *other = ir_of(read);
    cr_expect(strlen(one) > 100 && !strcmp(one, other), "%s\n%s\n%s", spc_builder_text(b), one,
              other);
    spc_builder_free(b);
    cr_expect_str_eq(spc_program_kernel_name(built, 0), spc_program_kernel_name(read, 0));
    spc_program_free(built);
    spc_program_free(read);
  }
  spc_context_free(context);
}

Test(driver_builder, goes_on_after_a_program_was_made) {
  spc_context *context = context_new();
  spc_builder *b;
  spc_program *one, *two;
  spc_error err = SPC_ERROR_INIT;
  cr_assert_eq(spc_builder_new(context, &b, &err), SPC_OK);
  sddmm(b);
  cr_assert_eq(spc_program_from_builder(b, NULL, &one, &err), SPC_OK, "%s", err.message);
  spc_build_kernel(b, "copy");
  in(b, "x", "f32", "I", NULL, false);
  spc_expr s[8];
  spc_statement y = stmt(b, true, "y", "i", s, at(b, "x", "i"));
  spc_build_statement(b, &y);
  cr_assert_eq(spc_program_from_builder(b, NULL, &two, &err), SPC_OK, "%s", err.diagnostics);
  cr_expect(spc_program_kernel_count(one) == 1 && spc_program_kernel_count(two) == 2);
  spc_builder_free(b);
  spc_program_free(one);
  spc_program_free(two);
  spc_context_free(context);
}

/* ---- what the checker says, and what the builder says -----------------------------------------
 */
Test(driver_builder, diagnostics_are_those_of_the_text) {
  spc_context *context = context_new();
  spc_builder *b;
  spc_program *p;
  spc_error built = SPC_ERROR_INIT, read = SPC_ERROR_INIT;
  const char *text = "spx 1;\ndim N: dyn;\nkernel k {\n  in x: f32[N];\n  out y[i] = x[j];\n}\n";
  cr_assert_eq(spc_builder_new(context, &b, &built), SPC_OK);
  spc_expr s[8];
  spc_build_dyn(b, "N", 0, 0);
  spc_build_kernel(b, "k");
  in(b, "x", "f32", "N", NULL, false);
  spc_statement y = stmt(b, true, "y", "i", s, at(b, "x", "j"));
  spc_build_statement(b, &y);
  cr_expect_str_eq(spc_builder_text(b), text);
  cr_expect_eq(spc_program_from_builder(b, NULL, &p, &built), SPC_INVALID_INPUT);
  cr_expect_eq(spc_program_from_text(context, text, strlen(text), NULL, &p, &read),
               SPC_INVALID_INPUT);
  cr_expect_str_eq(built.message, read.message);
  cr_expect(strstr(built.diagnostics, "out y[i] = x[j];") && strstr(built.diagnostics, "^"));
  const char *one = strchr(built.diagnostics, ':'), *other = strchr(read.diagnostics, ':');
  cr_expect(one && other && !strncmp(one, other, strcspn(one, "<")), "%s", one);
  spc_builder_free(b);
  spc_context_free(context);
}

static void bad_name(spc_builder *b) { spc_build_kernel(b, "k; } kernel l"); }
static void no_name(spc_builder *b) { spc_build_dyn(b, NULL, 0, 0); }
static void outside(spc_builder *b) { in(b, "x", "f32", "3", NULL, false); }
static void outside_of_schedule(spc_builder *b) {
  spc_directive d = {.struct_size = sizeof d, .kind = "stages", .number = 2};
  spc_build_directive(b, &d);
}
static void stranger(spc_builder *b) { spc_build_dim(b, "N", 77); }
static void unknown_op(spc_builder *b) {
  spc_expr x = atom(b, "x");
  (void)spc_build_binary(b, "**", x, x);
}
static void no_size(spc_builder *b) {
  spc_build_dim(b, "N",
                times(b, spc_build_binary(b, "+", atom(b, "2"), atom(b, "3")), atom(b, "4")));
}
static void untyped(spc_builder *b) {
  spc_expr s[8];
  spc_build_kernel(b, "k");
  spc_statement y = stmt(b, true, "y", "i", s, atom(b, "1"));
  y.accumulator = "f32";
  spc_build_statement(b, &y);
}
static void small_struct(spc_builder *b) {
  spc_build_kernel(b, "k");
  spc_declaration d = {.struct_size = 8};
  spc_build_input(b, &d);
}
static void no_value(spc_builder *b) {
  spc_expr s[8];
  spc_build_kernel(b, "k");
  spc_statement y = stmt(b, true, "y", "i", s, 0);
  spc_build_statement(b, &y);
}
static void deep(spc_builder *b) {
  spc_expr x = atom(b, "x");
  for (int i = 0; i < 300; i++) x = spc_build_unary(b, "-", x);
}

static const struct {
  const char *words;
  void (*build)(spc_builder *);
} misuses[] = {{"spc_build_kernel: `name` is not a name", bad_name},
               {"spc_build_dyn: `name` is NULL", no_name},
               {"spc_build_input: no kernel is open", outside},
               {"spc_build_directive: no schedule is open", outside_of_schedule},
               {"spc_build_dim: `size` is no expression", stranger},
               {"spc_build_binary: `op` is one of", unknown_op},
               {"spc_build_dim: `size` is no subscript or size", no_size},
               {"spc_build_statement: `shape` and `accumulator` want `dtype`", untyped},
               {"spc_build_input: `declaration` is NULL, or its `struct_size`", small_struct},
               {"spc_build_statement: `value` is no expression", no_value},
               {"spc_build_unary: the expression nests deeper", deep}};

Test(driver_builder, the_first_misuse_is_answered_at_the_end) {
  spc_context *context = context_new();
  for (size_t i = 0; i < sizeof misuses / sizeof *misuses; i++) {
    spc_error err = SPC_ERROR_INIT;
    spc_builder *b;
    spc_program *p;
    cr_assert_eq(spc_builder_new(context, &b, &err), SPC_OK);
    misuses[i].build(b);
    spc_build_kernel(b, NULL); /* a second one changes nothing */
    cr_expect_eq(spc_program_from_builder(b, NULL, &p, &err), SPC_INVALID_ARGUMENT);
    cr_expect(p == NULL && strstr(err.message, misuses[i].words), "%s: %s", misuses[i].words,
              err.message);
    cr_expect_null(spc_builder_text(b));
    spc_builder_free(b);
  }
  spc_context_free(context);
}
