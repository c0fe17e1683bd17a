/* The rules of IR: one broken program a rule; what the compiler breaks is its own fault. */
#include <criterion/criterion.h>

#include "ir/loop.h"

static ir_arena *arena;
static ir_sink *sink;
static void set_up(void) {
  arena = ir_arena_new();
  sink = ir_sink_new(arena);
}
static void tear_down(void) { ir_arena_free(arena); }
TestSuite(ir_verify, .init = set_up, .fini = tear_down);

typedef struct wrong {
  const char *body, *message;
} wrong;

static const char *frame(const char *body) {
  return ir_format_text(
      arena,
      "spc.ir 1; dim N : dyn; dim M = 8;\nkernel k {\n"
      "in a : f32[N, M]; in b : bf16[N]; in q : i32[N]; in m : pattern[N, M] as csr;\n"
      "index i : N; index j : M;\n%s\n}\n",
      body);
}

static void expect_all(const wrong *cases, int count) {
  for (int i = 0; i < count; i++) {
    sink = ir_sink_new(arena);
    ir_program *program = NULL;
    const char *text = frame(cases[i].body);
    spc_status status = ir_parse(arena, "t", text, strlen(text), sink, &program);
    ir_text out = ir_text_new(arena);
    ir_sink_render(sink, &out, false);
    cr_assert_eq(status, SPC_INVALID_INPUT, "case %d is accepted", i);
    cr_assert(strstr(out.data, "error[E0605]"), "case %d: %s", i, out.data);
    cr_assert(strstr(out.data, cases[i].message), "case %d: %s", i, out.data);
  }
}

Test(ir_verify, expressions) {
  static const wrong cases[] = {
      {"out y : f32[N]; stmt y[i] = sum[j](a[i, j]) + b[i] for i acc f32;",
       "are f32 and bf16; one needs a cast"},
      {"out y : f32[N]; stmt y[i] = a[i, j] for i acc f32;",
       "`j` is an index that nothing binds here"},
      {"out y : f32[N]; stmt y[i] = sum[i](a[i, 0]) for i acc f32;",
       "binds an index that is bound already"},
      {"out y : f32[N]; stmt y[i] = exp(cast[f32](exp(i))) for i acc f32;", "`exp` is for floats"},
      {"out y : f32[N]; stmt y[i] = where(i, 1.0_f32, 2.0_f32) for i acc f32;",
       "is a condition and must be b1"},
      {"out y : f32[N]; stmt y[i] = where(i < 3 and i, 1.0_f32, 2.0_f32) for i acc f32;",
       "one needs a cast"},
      {"out y : f32[N]; stmt y[i] = a[q[i], 0] for i acc f32;",
       "is a subscript and must be i64, not i32"},
      {"out y : f32[N]; stmt y[i] = sum[](a[i, 0]) for i acc f32;", "reduces over nothing"},
      {"out y : f32[N]; stmt y[i] = cast[f32x4](a[i, 0]) for i acc f32;",
       "only functions have them"},
      {"out y : f32[N]; stmt y[i] = cast[f32](any[j](a[i, j])) for i acc f32;",
       "reduces b1 values only"},
      {"out y : i64[N]; stmt y[i] = softmax[i](i) for i acc i64;", "is for floats"},
      {"out y : f32[N]; stmt y[i] = cast[f32](i) for i acc f32 on a[i, 0];",
       "is the condition and must be b1"}};
  expect_all(cases, IR_COUNT(cases));
}

Test(ir_verify, statements_and_tensors) {
  static const wrong cases[] = {
      {"out y : f32[N, N]; stmt y[i, i] = a[i, 0] for i acc f32;", "a bare index, each another"},
      {"out y : f32[N]; stmt y[i + 1] = a[i, 0] for i acc f32;", "says how values combine"},
      {"out y : f32[N]; stmt y[i] = a[i, 0] for i, i acc f32;", "ranges twice over `i`"},
      {"out y : f32[N]; stmt y[i] = a[i, 0] for i, j acc f32;", "ranges over its subscripts"},
      {"out y : f32[N]; stmt y[i] = i for i acc f32;", "the value is i64, the tensor f32"},
      {"out y : f32[N]; stmt y[i] = a[i, 0] for i acc f32 on a[i, 0];",
       "is the condition and must be b1"},
      {"out y : f32[N];", "no statement computes this output"},
      {"let y : f32[N] like z; let z : f32[N] like y;", "it is like itself"},
      {"let y : f32[N] like a;", "it is like a tensor of another rank"},
      {"let y : f32[i];", "`i` is an index that nothing binds here"},
      {"index r : max(N, 3) + abs(M);", "may use numbers and dims only"},
      {"index r : N in a[i];", "its offsets must be a vector of integers"},
      {"index r : N in q[r];", "its segment is not an index of the kernel, or itself"},
      {"let y : f32[N]; stmt y[i] argmax= a[i, 0] for i acc f32;",
       "a scatter cannot combine values this way"}};
  expect_all(cases, IR_COUNT(cases));
}

Test(ir_verify, tile_dialect) {
  static const wrong cases[] = {
      {"stage 0 s compute { row gemm_mna; }", "there is no kernel row `gemm_mna`"},
      {"stage 0 s compute { row loop; }", "it computes nothing"},
      {"stage 0 s detect { row loop; }", "it detects no list"},
      {"stage 0 s guard { row loop; }", "it guards no list"},
      {"stage 0 s convert { row loop; }", "the source of a conversion is missing"},
      {"let y : f32[N]; stmt y[i] = a[i, 0] for i acc f32; stage 1 s compute { row loop; computes "
       "y; } "
       "stage 1 r compute { row loop; computes y; }",
       "numbers of stages ascend"},
      {"let y : f32[N]; stmt y[i] = a[i, 0] for i acc f32; stage 1 s compute { row loop; computes "
       "y; tile i=0; }",
       "a tile size is at least 1"},
      {"list l { tensor a; axis j; axis_dim 1; strip 1; gran 1; strips N; capacity M; }",
       "it has counts and ids, or bits alone, or of a sample a verdict alone"},
      {"buf @c : i64[N] workspace; list l { tensor a; axis j; axis_dim 1; strip 1; gran 1; strips "
       "N; capacity M; "
       "counts @c; ids @c; }",
       "its counts must be i32"},
      {"list l { tensor a; axis j; axis_dim 2; strip 1; gran 1; strips N; capacity M; }",
       "not a dimension of the tensor"},
      {"buf @c : i32[N] vals of a;", "it is of another kind"},
      {"candidate 0 chosen { row gemm_nowhere; }", "there is no kernel row"}};
  expect_all(cases, IR_COUNT(cases));
}

Test(ir_verify, loop_dialect) {
  static const wrong cases[] = {
      {"func f { if 1 < 2 { let %v : i64 = 1; } let %w : i64 = %v; }",
       "a local is used outside its block"},
      {"func f { for %i = 0 .. 4 { } %i = 3; }", "a local is set outside its block"},
      {"func f { let %v : i64 = 1.0_f32; }", "must be i64, not f32"},
      {"func f { let %v : f32x4 = cast[f32x8](1.0_f32); }", "has 4 lanes, its value 8"},
      {"func f { let %v : f32x8 = cast[f32x8](1.0_f32) + cast[f32x4](1.0_f32); }",
       "vectors of different lengths"},
      {"func f { for %i = 0 .. 4 step 0 { } }", "the step of a loop is at least 1"},
      {"func f { for %i = 0_i32 .. 4 { } }", "the start of a loop and must be i64"},
      {"func f { while 1 { } }", "the condition of a loop and must be b1"},
      {"func f { buf @a.vals : f64[] vals of a; }", "does not have the dtype of its tensor"},
      {"func f { buf @m.pos : i32[] pos of m level 5; }",
       "a level that its tensor's format does not have"},
      {"func f { buf @a.vals : f32[] vals of a; @a.vals[0] = 1_i32; }",
       "a stored value and must be f32"},
      {"func f { buf @a.vals : f32[] vals of a; atomic @a.vals[0] = 1.0_f32; }",
       "an atomic store combines"},
      {"func f { buf @w : f32[1] workspace; }", "is no workspace of the kernel"},
      {"func f { local @w : f32[N] local; }", "a constant number of elements"},
      {"func f { parallel for %i = 0 .. 4 { } parallel for %j = 0 .. 4 { } }",
       "one parallel loop after `let`s"},
      {"func f { parallel for %i = 0 .. 4 { parallel for %j = 0 .. 4 { } } }",
       "a parallel loop inside another"},
      {"func f { let %v : i64 = i; }", "functions have locals only"},
      {"func f { let %v : f32 = a[0, 0]; }", "functions have buffers only"},
      {"func f { let %v : f32 = sum[j](1.0_f32); }", "functions have none"},
      {"func f { param %v : f32; }", "only fragments have parameters and a result"},
      {"func f { if true { local @w : f32[4] local; } @w[0] = 1.0_f32; }",
       "a buffer that the function does not declare"}};
  expect_all(cases, IR_COUNT(cases));
}

Test(ir_verify, what_a_pass_breaks_is_internal) {
  ir_program *program = ir_program_new(arena);
  ir_kernel *kernel = ir_kernel_new(program, "k");
  ir_tensor *y = ir_tensor_new(kernel, "y", IR_ROLE_OUT, IR_F32);
  ir_stmt *stmt = ir_stmt_new(kernel, y);
  stmt->value = ir_const_f(arena, IR_F32, 1);
  IR_PUSH(arena, &kernel->stmts, stmt);
  cr_assert_eq(ir_verify(program, sink), SPC_OK);
  stmt->value = NULL;
  cr_assert_eq(ir_verify(program, sink), SPC_INTERNAL);
  cr_assert_eq(sink->diags.at[0]->id, IR_DIAG_INTERNAL);
  stmt->value =
      ir_index_ref(arena, ir_index_new(ir_kernel_new(program, "other"), "i", ir_int(arena, 4)));
  cr_assert_eq(ir_verify(program, sink), SPC_INTERNAL);
  stmt->value = ir_const_f(arena, IR_F32, 1);
  y->def = NULL;
  cr_assert_eq(ir_verify(program, NULL), SPC_INTERNAL);
}
