/* IR text: what is printed can be read and prints the same; faults have places; nothing crashes. */
#include <criterion/criterion.h>
#include <math.h>

#include "ir/loop.h"
#include "ir/number.h"

static ir_arena *arena;
static ir_sink *sink;
static void set_up(void) {
  arena = ir_arena_new();
  sink = ir_sink_new(arena);
}
static void tear_down(void) { ir_arena_free(arena); }
TestSuite(ir_text, .init = set_up, .fini = tear_down);

static const char *print(const ir_program *program) {
  ir_text out = ir_text_new(arena);
  ir_print(program, &out);
  return out.data;
}

static const char *messages(void) {
  ir_text out = ir_text_new(arena);
  ir_sink_render(sink, &out, false);
  return out.data;
}

static ir_program *parse(const char *text) {
  ir_program *program = NULL;
  spc_status status = ir_parse(arena, "t.ir", text, strlen(text), sink, &program);
  return status == SPC_OK ? program : NULL;
}

static ir_program *must_parse(const char *text) {
  ir_program *program = parse(text);
  cr_assert_not_null(program, "%s", messages());
  return program;
}

/* Every field that a pass can set, each with something other than its default. */
static const char whole[] =
    "spc.ir 1;\ntarget sm_90a;\nafter 90 lower;\nstrict_nan;\nreproducible;\nbatch_invariant;\n"
    "dim T : dyn % 8 <= 8192;\ndim D = 64;\ndim F : dyn;\ndim E = 4;\n"
    "format blocks(8, 16) = [i,j] -> [ i/8: dense, j/16: compressed, i%8: dense, j%16: dense ];\n"
    "\nschedule k for sm_90 {\n  compact h axis=f gran=64x1 applied;\n  tile y t=128 o=64;\n  fuse "
    "h into y;\n"
    "  format h rank 2 = blocks(8, 16);\n  split y f=4;\n  dense y;\n  library y;\n  stages 4;\n  "
    "warps 8;\n}\n"
    "\nkernel k {\n  schedule 0;\n"
    "  in x : bf16[T, D] const;\n  in W : bf16[D, F] as dense_t;\n  in off : i32[E + 1];\n"
    "  in M : pattern[T, F] as csr;\n  in P : f32[T, D] as own [i,j] -> [ i: compressed, j/4: "
    "dense, j%4: packed(2,1) ];\n"
    "  let h : bf16[T, F] as csr ~ zeros(dynamic, density=0.02..0.15, gran=64x1, axis=1)\n    why "
    "\"it \\\"is\\\"\\nso\";\n"
    "  out y : f32[T, D] like x fill -inf;\n  out s : f32[D];\n  temp \"odd name\" : i64[T];\n"
    "  index t : T;\n  index f : F;\n  index d : D;\n  index o : D;\n  index e : E;\n  index r : T "
    "in off[e];\n"
    "  needs x dim 1 from 0 to D + 3 over d, o multiple 4;\n"
    "  stmt h[t, f] = relu(sum[d](x[t, d] * W[d, f]))\n    for t, f acc f32\n"
    "    on M[t, f] and not (f < t or f >= 3) fill -inf\n    sample M[t, f]\n    support "
    "any[d](x[t, d] != 0.0_bf16)\n"
    "    axis t invariant \"L1\"\n    axis d ordered reduction;\n"
    "  stmt y[t, o] = -cast[f32](x[t, o]) - (softmax[o](1.5_f32 - -0.1_f32) - topk[t](2e-30_f32, "
    "5)) * neg(3.0_f32)\n"
    "    for t, o acc f64 race fixed\n    everywhere fill 0.5\n    fused \"not\";\n"
    "  stmt s[cast[i64](off[0]) + f % 7] max= cast[f32](where(x[0, 0] > inf_bf16, x[t, 1], "
    "nan_bf16))\n"
    "    for t, f acc f32 race atomic;\n"
    "  stmt \"odd name\"[r] = argmax[d](x[r, d]) + cast[i64](E / 3 == e)\n    for r acc i64;\n"
    "  candidate 0 for y rejected {\n    label \"a\";\n    row loop;\n    fusion \"h\";\n    "
    "formats \"h=csr\";\n    operand h;\n"
    "    axis f;\n    strip_index t;\n    strip 64;\n    gran 1;\n    tile t=4 o=8;\n    density "
    "0.1;\n    cover 0.25;\n"
    "    microseconds 12.5;\n    index_microseconds 0.5;\n    asked;\n    guarded;\n    break_even "
    "0.375;\n    why \"slow\";\n  }\n"
    "  candidate 1 chosen {\n    label \"b\";\n  }\n"
    "  buf @h.counts : i32[(T + 63) / 64] workspace of h zeroed each life 0..3;\n  buf @h.ids : i32[] "
    "workspace;\n"
    "  buf @h.bits : i32[1] workspace;\n  buf @h.verdict : i32[1] workspace;\n  buf @h.break : "
    "f64[1] workspace;\n  buf @h.sums : f32[4096] workspace life 1..1;\n  buf @h.arrived : i32[132] workspace;\n"
    "  list h.f {\n    tensor h;\n    strip_index t;\n    axis f;\n    strip_dim 0;\n    axis_dim "
    "1;\n    strip 64;\n    gran 1;\n"
    "    strips (T + 63) / 64;\n    capacity F;\n    counts @h.counts;\n    ids @h.ids;\n    bits "
    "@h.bits;\n    sums @h.sums;\n    arrived @h.arrived;\n"
    "    verdict @h.verdict;\n    threshold @h.break;\n    break_even 0.3;\n    pairs;\n    fused;\n  }\n"
    "  stage 0 detect.h detect {\n    row loop;\n    detects h.f;\n    funcs k.detect;\n  }\n"
    "  stage 1 to compute {\n    row loop;\n    tile t=4;\n    computes y, s;\n    reads h.f;\n    "
    "when h.f above 0.35;\n"
    "    assembled;\n    stages_deep 3;\n    warps 4;\n    microseconds 1e-05;\n    runners_up 0, "
    "1;\n    why \"x\";\n  }\n"
    "  stage 2 c convert {\n    row loop;\n    source x;\n    dest y;\n  }\n"
    "  stage 3 apart compute {\n    row gemm_nspread_tma_128x64x64;\n    computes s;\n    reads h.f;\n  }\n"
    "  stage 4 whole compute {\n    row spread;\n    computes y;\n    reads h.f;\n    beside s;\n  }\n"
    "  stage 5 g guard {\n    row loop;\n    reads h.f;\n  }\n"
    "  func k.detect {\n    buf @x.vals : bf16[T * D] vals of x;\n    buf @h.counts;\n    buf "
    "@M.pos : i32[] pos of M level 1;\n"
    "    buf @M.crd : i32[] crd of M level 1;\n    let %n : i64 = T * 2;\n    parallel for %i = 0 "
    ".. T step 64 {\n"
    "      let %acc : f32x8 = cast[f32x8](0.0_f32);\n      let %none : b1;\n      local @tile : "
    "f32[64] local;\n"
    "      for %k = 0 .. %n - 1 {\n        %acc = %acc + cast[f32x8](@x.vals<8>[%i * D + %k, %k < "
    "3]);\n"
    "        if @M.pos[%k] == 0_i32 {\n          atomic @h.counts[%i / 64] += 1_i32;\n        } "
    "else {\n"
    "          @tile[0] = sum[](%acc);\n          prefetch @h.counts[%k + 16] early;\n          barrier;\n        }\n      }\n      while %n < 3 "
    "{\n        %n = %n + 1;\n      }\n"
    "      @tile[%i % 64] max= 1.0_f32 mask true;\n      note \"hello \\x01\";\n      vector for "
    "%v = 0 .. 8 {\n"
    "        @tile[%v] = 0.5_f32;\n      }\n      @tile[0] = 1.0_f32x8 mask 1_b1x8;\n    }\n  }\n"
    "  fragment k.frag {\n    buf @W.vals : bf16[] vals of W;\n    param %acc : f32;\n    param %m "
    ": i64;\n"
    "    let %t : f32 = max(%acc, 0.0_f32);\n    result %t * cast[f32](@W.vals[%m]);\n  }\n}\n";

Test(ir_text, every_field_prints_as_it_was_read) {
  ir_program *program = must_parse(whole);
  cr_assert_str_eq(print(program), whole);
  cr_assert_str_eq(print(must_parse(print(program))), whole);
}

Test(ir_text, a_clone_prints_the_same_and_keeps_places) {
  ir_program *program = must_parse(whole), *clone = ir_clone(arena, program);
  cr_assert_not_null(clone);
  cr_assert_str_eq(print(clone), whole);
  ir_stmt *from = program->kernels.at[0]->stmts.at[0], *to = clone->kernels.at[0]->stmts.at[0];
  cr_assert(to != from && to->span.begin == from->span.begin && to->span.file == from->span.file);
  cr_assert_eq(to->value->args[0]->span.begin, from->value->args[0]->span.begin);
}

Test(ir_text, cut_texts_are_refused_and_never_crash) {
  for (size_t length = 0; length + 3 < sizeof whole; length++) {
    ir_arena *scratch = ir_arena_new();
    ir_sink *own = ir_sink_new(scratch);
    ir_program *program = NULL;
    spc_status status = ir_parse(scratch, "t", whole, length, own, &program);
    cr_assert(status == SPC_OK || own->errors > 0, "at %zu", length);
    ir_arena_free(scratch);
  }
}

Test(ir_text, changed_texts_never_crash) {
  static const char marks[] = "[](){}<>=:;,+-*/%@~.\"0aZ_\x80 ";
  char text[sizeof whole];
  for (size_t at = 0; at + 1 < sizeof whole; at += 3) {
    memcpy(text, whole, sizeof whole);
    text[at] = marks[at % (sizeof marks - 1)];
    ir_arena *scratch = ir_arena_new();
    ir_program *program = NULL;
    if (ir_parse(scratch, "t", text, sizeof whole - 1, NULL, &program) == SPC_OK) {
      ir_text out = ir_text_new(scratch);
      ir_print(program, &out);
      ir_print_dot(program, &out);
    }
    ir_arena_free(scratch);
  }
}

Test(ir_text, faults_have_places_and_likely_fixes) {
  static const struct {
    const char *text, *message;
  } cases[] = {
      {"spc.ir 2;", "t.ir:1:8: error[E0604]: this compiler reads version 1"},
      {"spc.ir 1;\ndim N = 4\n", "t.ir:3:1: error[E0604]: expected `;`, found the end of the text"},
      {"spc.ir 1;\nkernel k { in x : f31[]; }",
       "t.ir:2:19: error[E0604]: no dtype is called `f31`"},
      {"spc.ir 1;\nkernel k { in x : f32[Q]; }", "no index or dim is called `Q`"},
      {"spc.ir 1;\ndim Tokens = 4;\nkernel k { in x : f32[Token]; }", "did you mean `Tokens`?"},
      {"spc.ir 1;\nkernel k { in x : f32[4]; out y : f32[]; stmt y[] = x[]; }",
       "`x` has 1 dimension, here are 0 subscripts"},
      {"spc.ir 1;\nkernel k { out y : f32[]; stmt y[] = 0.5; }",
       "states its type, as in `0.5_f32`"},
      {"spc.ir 1;\nkernel k { out y : f32[] as csr; }", "`csr` cannot be used here"},
      {"spc.ir 1;\nkernel \"k", "a quoted text ends on its own line"},
      {"spc.ir 1;\ndim N = 99999999999999999999;", "too many digits"},
      {"spc.ir 1;\nkernel k { func f { @a[0] = 1_i32; } }",
       "no buffer of this function is called `a`"}};
  for (int i = 0; i < IR_COUNT(cases); i++) {
    sink = ir_sink_new(arena);
    cr_assert_null(parse(cases[i].text), "case %d", i);
    cr_assert(strstr(messages(), cases[i].message), "case %d: %s", i, messages());
    cr_assert_eq(sink->errors, 1);
  }
}

Test(ir_text, deep_and_long_expressions_are_refused) {
  static const char *const parts[] = {"(", "1+", "-(", "not ", "neg("};
  for (int k = 0; k < IR_COUNT(parts); k++) {
    ir_text text = ir_text_new(arena);
    ir_text_put(&text, "spc.ir 1; kernel k { index i : ");
    for (int i = 0; i < 100000; i++) ir_text_put(&text, parts[k]);
    cr_assert_null(parse(text.data));
  }
  ir_text text = ir_text_new(arena);
  ir_text_put(&text, "spc.ir 1; kernel k { func f { ");
  for (int i = 0; i < 100000; i++) ir_text_put(&text, "if true { ");
  cr_assert_null(parse(text.data));
}

Test(ir_text, locals_with_one_name_are_told_apart) {
  ir_program *program = ir_program_new(arena);
  ir_kernel *kernel = ir_kernel_new(program, "k");
  ir_func *func = ir_func_new(kernel, "f");
  ir_builder b = {arena, func, &func->body};
  ir_var *first = ir_let(&b, "v", IR_I64, ir_int(arena, 1));
  ir_var *second = ir_let(&b, "v", IR_I64, ir_var_ref(arena, first));
  cr_assert_str_neq(first->name, second->name);
  second->name = "v"; /* as a pass that copies code may leave it */
  const char *text = print(program);
  cr_assert(strstr(text, "let %v : i64 = 1;\n    let %v_2 : i64 = %v;"));
  cr_assert_str_eq(print(must_parse(text)), text);
}

Test(ir_text, numbers_read_back_exactly) {
  static const double values[] = {0.1,      1.0 / 3,           5e-324, 1.7976931348623157e308,
                                  1e22,     123456789,         0.5,    16777217,
                                  1e-7,     3.141592653589793, 2,      1e5,
                                  123456.75};
  char buffer[IR_NUMBER_BYTES];
  for (int i = 0; i < IR_COUNT(values); i++) {
    double back = 0;
    const char *text = ir_number_print(values[i], buffer);
    cr_assert(ir_number_parse(text, strlen(text), &back) && back == values[i], "%s", text);
    cr_assert_leq(strlen(text), 24);
  }
  cr_assert_str_eq(ir_number_print(-INFINITY, buffer), "-inf");
  cr_assert_str_eq(ir_number_print(100000, buffer), "100000");
  static const char *const wrong[] = {"", ".5", "1.", "1e", "0x10", "1.5.2", "-1", "inf", "1,5"};
  double value;
  for (int i = 0; i < IR_COUNT(wrong); i++)
    cr_assert_not(ir_number_parse(wrong[i], strlen(wrong[i]), &value));
}

Test(ir_text, a_text_is_known_by_its_header) {
  static const char *const yes[] = {"spc.ir 1;", "// RUN: spc\n\n  spc.ir 1;", "\nspc.ir"};
  static const char *const no[] = {"", "spx 1;", "// spc.ir", "spc", "/ spc.ir"};
  for (int i = 0; i < IR_COUNT(yes); i++) cr_assert(ir_looks_like_ir(yes[i], strlen(yes[i])));
  for (int i = 0; i < IR_COUNT(no); i++) cr_assert_not(ir_looks_like_ir(no[i], strlen(no[i])));
}

Test(ir_text, expressions_keep_their_trees) {
  ir_kernel *kernel = ir_kernel_new(ir_program_new(arena), "k");
  ir_expr *i = ir_index_ref(arena, ir_index_new(kernel, "i", ir_int(arena, 9)));
  ir_expr *two = ir_int(arena, 2);
  ir_expr *inner = ir_apply(arena, IR_OP_SUB, i, two);
  const struct {
    ir_expr *e;
    const char *text;
  } cases[] = {
      {ir_apply(arena, IR_OP_SUB, i, inner), "i - (i - 2)"},
      {ir_apply(arena, IR_OP_SUB, inner, i), "i - 2 - i"},
      {ir_apply(arena, IR_OP_MUL, inner, i), "(i - 2) * i"},
      {ir_apply(arena, IR_OP_NEG, inner, NULL), "-(i - 2)"},
      {ir_op_new(arena, IR_OP_NEG, &two, 1), "neg(2)"},
      {ir_apply(arena, IR_OP_NOT, ir_apply(arena, IR_OP_LT, i, inner), NULL), "not i < i - 2"},
      {ir_apply(arena, IR_OP_MAX, i, two), "max(i, 2)"}};
  for (int k = 0; k < IR_COUNT(cases); k++) {
    ir_text out = ir_text_new(arena);
    ir_print_expr(cases[k].e, &out);
    cr_assert_str_eq(out.data, cases[k].text);
  }
}
