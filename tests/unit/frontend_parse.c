/* The parser and the formatter as a whole: recovery, limits, every prefix, idempotence. */
#include <stdlib.h>

#include "tests/unit/frontend_programs.h"

/* ---- recovery ------------------------------------------------------------------------------ */
static void expect_ids(const char *text, const ir_diag_id *ids, int count) {
  compiled c = compile(text);
  cr_assert_eq(c.sink->diags.count, count, "%s\n%s", text, messages(&c));
  for (int i = 0; i < count; i++)
    cr_assert_eq(c.sink->diags.at[i]->id, ids[i], "%d\n%s", i, messages(&c));
  cr_assert_eq(c.status, SPC_INVALID_INPUT);
  done(&c);
}

Test(frontend_parse, five_unrelated_errors_are_five_reports) {
  static const ir_diag_id syntax[] = {IR_DIAG_SYNTAX, IR_DIAG_SYNTAX, IR_DIAG_RESERVED,
                                      IR_DIAG_CHARACTER, IR_DIAG_NUMBER};
  expect_ids("spx 1;\ndim N: dyn;\ndim M dyn;\nkernel k {\n  in x: f32[N]\n  in relu: f32[M];\n  "
             "let h[i] = x[i] @ 2;\n  out y[i] = h[i] + relu[i];\n"
             "  out z[i] = 2x[i] + h[i];\n}\n",
             syntax, 5);
  static const ir_diag_id meaning[] = {IR_DIAG_UNBOUND_INDEX, IR_DIAG_INDEX_SIZES,
                                       IR_DIAG_UNKNOWN_NAME, IR_DIAG_DTYPE_MISMATCH,
                                       IR_DIAG_SPARSE_OUTPUT};
  expect_ids("spx 1;\ndim N: dyn;  dim M: dyn;\nkernel k {\n  in x: f32[N];  in w: f32[M];  in A: "
             "f32[N,M] as csr;  in n: i32[N];\n"
             "  out a[i] = A[i,j]*w[j];\n  out b[i] = x[i] + w[i];\n  let c[i] = xx[i] + 1;\n  out "
             "d[i] = n[i]*x[i];\n  out e[i,j] = A[i,j] + 1 as csr;\n"
             "  out f[i] = c[i]*2;\n}\n",
             meaning, 5);
  static const ir_diag_id mixed[] = {IR_DIAG_SIZE, IR_DIAG_SYNTAX, IR_DIAG_SCATTER_SHAPE,
                                     IR_DIAG_DIRECTIVE, IR_DIAG_TEST};
  expect_ids("spx 1;\ndim K = 100;  dim N: dyn;\nkernel a { in s: f32[K/8]; out y[i] = s[i]; "
             "}\nkernel b { in x: f32[N]; out y[i] = x[i]) ; }\n"
             "kernel c { in x: f32[N]; in p: i32[N]; out y[p[i]] += x[i]; }\nkernel d { in x: "
             "f32[N]; out y[i] = x[i]; }\n"
             "schedule d { dense q; }\ntest d { N=3; x = iot; expect y ~= ref; }\n",
             mixed, 5);
}

Test(frontend_parse, what_did_not_parse_declares_nothing_and_is_not_missed) {
  static const ir_diag_id one[] = {IR_DIAG_SYNTAX};
  expect_ids("spx 1; dim N = ; kernel k { in x: f32[N]; out y[i] = x[i]; }", one, 1);
  expect_ids("spx 1; dim N: dyn; kernel k { in x f32[N]; out y[i] = x[i]; } test k { N=2; x = "
             "iota; expect y ~= ref; }",
             one, 1);
  expect_ids("spx 1; dim N: dyn; kernel { in x: f32[N]; out y[i] = x[i]; } schedule k { dense y; }",
             one, 1);
  expect_ids("spx 1; dim N: dyn; kernel k { in x: f32[N] as mine; out y[i] = x[i]; } format mine = "
             "i -> [ i: dense ];",
             one, 1);
  expect_ids("spx 1;\ndim N: dyn;\nkernel k {\n  in x: f32[N];\n  let h[i] = x[2*i] + ;\n  out "
             "y[i] = h[i];\n}\n",
             one, 1);
  expect_ids("spx 1;\ndim N: dyn;\nkernel k {\n  in x: f32[N];\n  out y[i] = x[i];\nkernel l {\n  "
             "in x: f32[N];\n  out y[i] = x[i];\n}\n",
             one, 1);
}

Test(frontend_parse, many_errors_end) {
  ir_arena *arena = ir_arena_new();
  ir_text text = ir_text_new(arena);
  ir_text_put(&text, "spx 1;\n");
  for (int i = 0; i < 1000; i++) ir_text_put(&text, "dim = 3;\n");
  compiled c = compile(text.data);
  cr_assert_eq(c.status, SPC_INVALID_INPUT);
  cr_assert_leq(strlen(messages(&c)), 4200u);
  cr_assert_leq(c.sink->errors, 200);
  done(&c);
  ir_arena_free(arena);
}

/* ---- limits -------------------------------------------------------------------------------- */
static void expect_nesting(const char *open, const char *middle, const char *close, int count,
                           bool fits) {
  ir_arena *arena = ir_arena_new();
  ir_text text = ir_text_new(arena);
  ir_text_put(&text, "spx 1; dim N: dyn; kernel k { in x: f32[N]; out y[i] = ");
  for (int i = 0; i < count; i++) ir_text_put(&text, open);
  ir_text_put(&text, middle);
  for (int i = 0; i < count; i++) ir_text_put(&text, close);
  ir_text_put(&text, "; }");
  compiled c = compile(text.data);
  cr_assert_eq(c.status == SPC_OK, fits, "%d of %s\n%s", count, open, messages(&c));
  if (!fits) cr_assert_eq(c.sink->diags.at[0]->id, IR_DIAG_NESTING, "%s", messages(&c));
  if (!fits) cr_assert_eq(c.sink->diags.count, 1);
  done(&c);
  ir_arena_free(arena);
}

Test(frontend_parse, nesting_has_a_limit) {
  const char *const wraps[][2] = {
      {"(", ")"},      {"relu(", ")"}, {"-relu(", ")"},          {"x[i] + (", ")"},
      {"", " + x[i]"}, {"", "*x[i]"},  {"where(i > 2, 0, ", ")"}};
  for (int i = 0; i < IR_COUNT(wraps); i++) {
    expect_nesting(wraps[i][0], "x[i]", wraps[i][1], 60, true);
    expect_nesting(wraps[i][0], "x[i]", wraps[i][1], 300, false);
    expect_nesting(wraps[i][0], "x[i]", wraps[i][1], 20000, false);
  }
}

Test(frontend_parse, lists_have_a_limit) {
  compiled c = compile("spx 1; dim N: dyn; kernel k { in x: f32[N]; out y[i] = x[i]; } test k { x "
                       "= [[[[[[[[[1]]]]]]]]]; expect y ~= ref; }");
  cr_assert_eq(c.sink->diags.at[0]->id, IR_DIAG_NESTING, "%s", messages(&c));
  done(&c);
}

Test(frontend_parse, an_unknown_define_is_named) {
  const char *text = "spx 1; dim N: dyn; dim M = N+1; kernel k { in x: f32[M]; out y[i] = x[i]; }";
  fe_define defines[] = {{"Q", 1}, {"M", 1}};
  for (int i = 0; i < 2; i++) {
    compiled c = compile_with(text, strlen(text), &defines[i], 1);
    cr_assert_eq(c.sink->diags.count, 1, "%s", messages(&c));
    cr_assert_eq(c.sink->diags.at[0]->id, IR_DIAG_DEFINE, "%s", messages(&c));
    done(&c);
  }
}

/* ---- every prefix, every byte gone --------------------------------------------------------- */
static char *read_all(const char *path, size_t *length) {
  FILE *f = fopen(path, "rb");
  cr_assert_not_null(f, "%s", path);
  char *text = malloc(1 << 16);
  *length = fread(text, 1, (1 << 16) - 1, f);
  text[*length] = '\0';
  fclose(f);
  return text;
}

static void survive(const char *text, size_t length) {
  compiled c = compile_with(text, length, NULL, 0);
  ir_text out = ir_text_new(c.arena);
  fe_file *file = NULL;
  fe_parse(c.arena, "t", text, length, NULL, &file);
  fe_format(file, text, &out);
  cr_assert_eq(c.status == SPC_OK, c.program != NULL);
  cr_assert_eq(c.status == SPC_OK, c.sink->errors == 0, "%.*s\n%s", (int)length, text,
               messages(&c));
  done(&c);
}

static void survive_cuts(const char *text, size_t length, size_t step) {
  char *copy = malloc(length + 1);
  for (size_t n = 0; n <= length; n += step) survive(text, n);
  for (size_t n = 0; n < length; n += step) {
    memcpy(copy, text, n);
    memcpy(copy + n, text + n + 1, length - n - 1);
    survive(copy, length - 1);
  }
  free(copy);
}

static const char *const examples[] = {"bsattn", "bsr_linear",    "ffn",       "gated_ffn",
                                       "moe",    "pruned_linear", "qlin24",    "ragged",
                                       "sddmm",  "spmm",          "threshold", "topk"};

Test(frontend_parse, every_prefix, .timeout = 120) {
  for (int i = 0; i < IR_COUNT(frontend_programs); i++)
    survive_cuts(frontend_programs[i], strlen(frontend_programs[i]), 1);
  for (int i = 0; i < IR_COUNT(examples); i++) {
    size_t length;
    char path[512];
    snprintf(path, sizeof path, "%s/examples/%s.spx", SPC_SOURCE_DIR, examples[i]);
    char *text = read_all(path, &length);
    survive_cuts(text, length, 1);
    free(text);
  }
}

/* ---- slips --------------------------------------------------------------------------------- */
typedef struct slips {
  int wrong, once, most;
} slips;

static void slip(const char *text, size_t length, size_t gone, slips *s) {
  char *copy = malloc(length);
  memcpy(copy, text, gone);
  memcpy(copy + gone, text + gone + 1, length - gone - 1);
  compiled c = compile_with(copy, length - 1, NULL, 0);
  s->wrong += c.sink->errors > 0;
  s->once += c.sink->errors == 1;
  if (c.sink->errors > s->most) s->most = c.sink->errors;
  done(&c);
  free(copy);
}

/* A missing character is one report, nearly always. */
Test(frontend_parse, a_slip_is_one_report, .timeout = 120) {
  slips s = {0};
  for (int i = 0; i < IR_COUNT(examples); i++) {
    size_t length;
    char path[512];
    snprintf(path, sizeof path, "%s/examples/%s.spx", SPC_SOURCE_DIR, examples[i]);
    char *text = read_all(path, &length);
    for (size_t at = (size_t)(strstr(text, "spx 1;") - text) + 6; at < length; at++)
      slip(text, length, at, &s);
    free(text);
  }
  cr_assert_geq(s.once * 100, s.wrong * 97, "%d of %d", s.once, s.wrong);
  cr_assert_leq(s.most, 3);
}

/* ---- the formatter ------------------------------------------------------------------------- */
static const char *tree(ir_arena *arena, const char *text, size_t length, ir_text *formatted) {
  fe_file *file = NULL;
  ir_text out = ir_text_new(arena);
  cr_assert_eq(fe_parse(arena, "t", text, length, NULL, &file), SPC_OK, "%s", text);
  fe_format(file, text, formatted);
  fe_print_ast(file, NULL, &out);
  return out.data;
}

static void keep(const char *text, size_t length) {
  ir_arena *arena = ir_arena_new();
  ir_text once = ir_text_new(arena), twice = ir_text_new(arena);
  const char *before = tree(arena, text, length, &once),
             *after = tree(arena, once.data, once.length, &twice);
  cr_assert_str_eq(before, after, "%s", once.data);
  cr_assert_str_eq(once.data, twice.data, "%s", text);
  ir_arena_free(arena);
}

Test(frontend_format, the_same_tree_and_idempotent) {
  keep(frontend_tour, strlen(frontend_tour));
  for (int i = 0; i < IR_COUNT(frontend_programs); i++)
    keep(frontend_programs[i], strlen(frontend_programs[i]));
  for (int i = 0; i < IR_COUNT(examples); i++) {
    size_t length;
    char path[512];
    snprintf(path, sizeof path, "%s/examples/%s.spx", SPC_SOURCE_DIR, examples[i]);
    char *text = read_all(path, &length);
    keep(text, length);
    ir_arena *arena = ir_arena_new();
    ir_text out = ir_text_new(arena);
    tree(arena, text, length, &out);
    cr_assert_str_eq(out.data, text, "examples are in canonical form");
    ir_arena_free(arena);
    free(text);
  }
}

typedef struct pair {
  const char *before, *after;
} pair;
static const pair pairs[] = {
    {"spx 1;dim N:dyn%4<=8;", "spx 1;  dim N: dyn % 4 <= 8;\n"},
    {"spx 1 ;\n\n\n\ndim N=4*3 ;// size\n", "spx 1;\n\ndim N = 4*3;  // size\n"},
    {"spx 1;\nkernel k{in x:f32[N+1]as csr~zeros( dynamic ,density=0.1 .. 0.2)const;\n\n\n// "
     "note\nout y[ i ]=- 2*( x[i+1] )on i<=3 fill - inf:f32 acc f32;}",
     "spx 1;\nkernel k {\n  in x: f32[N+1] as csr ~ zeros(dynamic, density=0.1..0.2) const;\n\n  "
     "// note\n  out y[i] = -2 * (x[i+1]) on i <= 3 fill -inf : f32 acc f32;\n}\n"},
    {"spx 1;\nkernel k { out s=sum[i](x[i]+1)*max( a , b )-softmax[i](x[i])*sum[j]z[j]; }",
     "spx 1;\nkernel k { out s = sum[i] (x[i] + 1)*max(a, b) - softmax[i](x[i]) * sum[j] z[j]; "
     "}\n"},
    {"spx 1;\nkernel k {\n  out s =\n sum[i]\n\n x[i]; // end\n  // last\n  }",
     "spx 1;\nkernel k {\n  out s =\n      sum[i]\n      x[i];  // end\n  // last\n}\n"},
    {"spx 1;\nformat f(a , b)=[i,j]->[i/a:dense,j:packed(b , 1)];",
     "spx 1;\nformat f(a,b) = [i,j] -> [ i/a: dense, j: packed(b,1) ];\n"},
    {"spx 1;\nschedule k for sm_90{compact h axis = f gran= 64x1;format h=bsr( 4,4 );}",
     "spx 1;\nschedule k for sm_90 { compact h axis=f gran=64x1;  format h=bsr(4,4); }\n"},
    {"spx 1;\ntest k{N = 3 , M=4;x=randint( 0 ,1 ,2);z=[[1 ,2],[ - 3,4]];expect y~=ref , rtol = "
     "1e-3;}",
     "spx 1;\ntest k { N=3, M=4;  x = randint(0,1,2);  z = [[1,2],[-3,4]];  expect y ~= ref, "
     "rtol=1e-3; }\n"},
};

Test(frontend_format, canonical_form) {
  for (int i = 0; i < IR_COUNT(pairs); i++) {
    ir_arena *arena = ir_arena_new();
    ir_text out = ir_text_new(arena);
    tree(arena, pairs[i].before, strlen(pairs[i].before), &out);
    cr_expect_str_eq(out.data, pairs[i].after, "\n%s\nis not\n%s", out.data, pairs[i].after);
    ir_arena_free(arena);
  }
}
