/* passes_a_fuse.c - what is merged, what is not, and the reasons. */
#include <criterion/criterion.h>

#include "passes/contract.h"
#include "tests/unit/passes_a_run.h"

#define DECLARATIONS                                                                               \
  "spx 1; dim N: dyn; kernel t { in A: bf16[N,N]; in B: bf16[N,N]; in S: bf16[N,N] as csr; in x: " \
  "bf16[N]; "                                                                                      \
  "in q: i8[N,N]; in s: bf16[N,N/4]; in p: i32[N]; in M: pattern[N,N] as csr; "                    \
  "out use[i] = A[i,0] + B[i,0] + S[i,0] + x[i] + q[i,0] + s[i,0] + cast[bf16](p[i]) + "           \
  "where(M[i,0], 1, 0); "
#define EIN "canon,propagate,permute,fuse"

typedef struct fuse_case {
  const char *statements;
  const char *producer; /* gone after a merge */
  bool merged;
  const char *why; /* part of a reason on any statement */
} fuse_case;

static const fuse_case cases[] = {
    {"let u[i,j] = sum[k] A[i,k]*B[k,j]; out y[i,j] = relu(u[i,j] + x[j])", "u", true,
     "epilogue of `u`"},
    {"let u[i,j] = sum[k] A[i,k]*B[k,j]; out y[j,i] = relu(u[j,i])", "u", true, "epilogue of `u`"},
    {"let u[i,j] = sum[k] A[i,k]*B[k,j]; out y[i,j] = u[i,j] * u[i,j]", "u", false,
     "more than once"},
    {"let u[i,j] = sum[k] A[i,k]*B[k,j]; out y[i,j] = u[i,j]; out z[i,j] = u[i,j]", "u", false,
     "read by 2"},
    {"let u[i] = sum[k] A[i,k]*x[k]; out y[i,j] = u[i] + B[i,j]", "u", false,
     "summed again for every j"},
    {"let u[i,j] = sum[k] A[i,k]*B[k,j]; out y[i] = sum[j] u[i,j]*x[j]", "u", false,
     "reduction of its own"},
    {"let u[i,j] = sum[k] A[i,k]*B[k,j]; out y[i,j] = u[p[i],j]", "u", false, "computed positions"},
    {"let u[i,j] = topk[j](A[i,j], 3); out y[i,j] = u[i,j] + 1", "u", false, "whole row"},
    {"let u[i,j] = S[i,j] * sum[k] A[i,k]*B[k,j]; out y[i,j] = u[i,j] + x[j]", "u", false,
     "skipped"},
    {"let u[i,j] = (sum[k] A[i,k]*B[k,j]) on M[i,j] fill 1; out y[i,j] = u[i,j] + x[j]", "u", false,
     "condition"},
    {"let u[i,j] = (sum[k] A[i,k]*B[k,j]) on M[i,j]; out y[i,j] = u[i,j] + x[j] on M[i,j]", "u",
     true, "epilogue of"},
    {"let u[i,j] = A[i,j] + x[j]; out y[i,j] = exp(u[i,j])", "u", true, "one pass with `u`"},
    {"let u[i,j] = exp(A[i,j]); out y[i] = sum[j] u[i,j]", "u", true, "prologue `u`"},
    {"let u[i] = exp(x[i]); out y[i,j] = A[i,j] * u[i]", "u", false, "again for every j"},
    {"let u[j,k] = s[j,k/4]*q[j,k]; out y[i,j] = sum[k] A[i,k]*u[j,k]", "u", false, "one pass over memory"}, /* on a CPU */
    {"let u[j,k] = x[j]*q[j,k]; out y[i,j] = sum[k] A[i,k]*u[j,k]", "u", true, "prologue `u`"},
    {"let u[i,k] = A[i,k]*x[k]; out y[i,j] = sum[k] u[i,k]*B[k,j]", "u", false,
     "one pass over memory"},
    {"let h[i,k] = relu(A[i,k]); out y[i,j] = sum[k] h[i,k]*B[k,j]", "h", false, "index list"},
    {"let g[i,k] = relu(sum[j] A[i,j]*B[j,k]); let u[i,k] = sum[j] B[i,j]*A[j,k]; "
     "out y[i,j] = sum[k] g[i,k]*u[i,k]*B[k,j]",
     "u", true, "epilogue of `u`"},
};

static bool any_reason(const a_run *run, const char *part) {
  for (int i = 0; i < run->kernel->stmts.count; i++) {
    const char *why = run->kernel->stmts.at[i]->fused_why;
    if (why != NULL && strstr(why, part) != NULL) return true;
  }
  return false;
}

Test(fuse, merges_and_refusals) {
  for (int i = 0; i < IR_COUNT(cases); i++) {
    char text[1024];
    snprintf(text, sizeof text, DECLARATIONS "%s; }", cases[i].statements);
    a_run run = a_run_passes(text, EIN);
    cr_assert_eq(run.status, SPC_OK, "%s: %s", cases[i].statements, a_rendered(&run));
    bool gone = ir_tensor_named(run.kernel, cases[i].producer) == NULL;
    cr_expect_eq(gone, cases[i].merged, "%s", cases[i].statements);
    cr_expect(any_reason(&run, cases[i].why), "%s: no '%s' in %s", cases[i].statements,
              cases[i].why, a_stmt(&run, cases[i].producer));
    for (int s = 0; s < run.kernel->stmts.count; s++)
      cr_expect_neq(pass_shape_of(run.kernel->stmts.at[s]), PASS_COMPOUND, "%s",
                    cases[i].statements);
    a_free(&run);
  }
}

Test(fuse, a_gate_becomes_the_epilogue_of_what_it_gates) {
  a_run run = a_run_passes(
      DECLARATIONS "let g[i,k] = relu(sum[j] A[i,j]*B[j,k]); let u[i,k] = sum[j] B[i,j]*A[j,k]; "
                   "out y[i,j] = sum[k] g[i,k]*u[i,k]*B[k,j]; }",
      EIN);
  cr_assert_eq(run.status, SPC_OK, "%s", a_rendered(&run));
  const ir_tensor *product = ir_tensor_named(run.kernel, "y.0");
  cr_assert_not_null(product);
  cr_expect_eq(product->pattern.zeros, IR_ZEROS_DYNAMIC);
  cr_expect_eq(product->dtype, IR_BF16);
  cr_expect_not_null(product->def->sample);
  cr_expect_str_eq(a_value(&run, "y"), "sum[k](y.0[i, k] * B[k, j])");
  a_free(&run);
}

Test(fuse, f16_gates_stay_apart) {
  a_run run =
      a_run_passes("spx 1; dim N: dyn; kernel t { in A: f16[N,N]; in B: f16[N,N]; "
                   "let g[i,k] = relu(sum[j] A[i,j]*B[j,k]); let u[i,k] = sum[j] B[i,j]*A[j,k]; "
                   "out y[i,j] = sum[k] g[i,k]*u[i,k]*B[k,j]; }",
                   EIN);
  cr_assert_eq(run.status, SPC_OK, "%s", a_rendered(&run));
  cr_expect_not_null(ir_tensor_named(run.kernel, "u"));
  a_free(&run);
}

Test(fuse, captured_indices_are_renamed) {
  a_run run = a_run_passes(
      DECLARATIONS "let u[i,j] = sum[k] A[i,k]*B[k,j]; out y[i,k] = relu(u[i,k]); }", EIN);
  cr_assert_eq(run.status, SPC_OK, "%s", a_rendered(&run));
  cr_expect_str_eq(a_value(&run, "y"), "relu(sum[k_2](A[i, k_2] * B[k_2, k]))", "%s",
                   a_value(&run, "y"));
  a_free(&run);
}

Test(fuse, a_narrow_let_keeps_its_conversion) {
  a_run run = a_run_passes("spx 1; dim N: dyn; kernel t { in A: f32[N]; "
                           "let u[i] = A[i] * 3 : f8e4m3; out y[i] = cast[f32](u[i]) + A[i]; }",
                           EIN);
  cr_assert_eq(run.status, SPC_OK, "%s", a_rendered(&run));
  cr_expect_not_null(strstr(a_value(&run, "y"), "cast[f8e4m3]"), "%s", a_value(&run, "y"));
  a_free(&run);
}

Test(fuse, directives) {
  static const char *const kernel = DECLARATIONS
      "let h[i,k] = relu(sum[j] A[i,j]*B[j,k]); let v[i,k] = exp(A[i,k]); "
      "out y[i,j] = sum[k] h[i,k]*B[k,j]; out z[i,j] = sum[k] v[i,k]*B[k,j]; "
      "let w[i] = sum[j] A[i,j]; out c[i,j] = w[i] + A[i,j]; } schedule t { fuse %s; }";
  static const struct {
    const char *what;
    bool ok;
  } asked[] = {{"h into y", true},
               {"v into z", true},
               {"w into c", false},
               {"h into z", false},
               {"y into z", false}};
  for (int i = 0; i < IR_COUNT(asked); i++) {
    char text[1536];
    snprintf(text, sizeof text, kernel, asked[i].what);
    a_run run = a_run_passes(text, EIN);
    cr_expect_eq(run.status, asked[i].ok ? SPC_OK : SPC_INVALID_INPUT, "%s: %s", asked[i].what,
                 a_rendered(&run));
    cr_expect_eq(run.sink->errors > 0, !asked[i].ok, "%s", asked[i].what);
    a_free(&run);
  }
}

/* One statement has no more operations than its text can be read back with. */
Test(fuse, a_long_chain_becomes_several_kernels_that_can_be_read_back) {
  enum { LINKS = 1200 };
  ir_arena *arena = ir_arena_new();
  ir_text text = ir_text_new(arena), dump = ir_text_new(arena);
  ir_program *again;
  ir_text_put(&text, "spx 1; dim N: dyn; kernel t { in x: f32[N]; let a0[i] = x[i] : f32;");
  for (int i = 1; i <= LINKS; i++)
    ir_text_printf(&text, "let a%d[i] = relu(a%d[i] + 1) : f32;", i, i - 1);
  ir_text_printf(&text, "out y[i] = a%d[i] : f32; }", LINKS);
  a_run run = a_run_passes(text.data, NULL);
  cr_assert_eq(run.status, SPC_OK, "%s", a_rendered(&run));
  cr_expect(run.kernel->stmts.count > 1 && run.kernel->stmts.count < LINKS / 50, "%d statements",
            run.kernel->stmts.count);
  cr_expect(any_reason(&run, "in a row"));
  ir_print(run.program, &dump);
  cr_expect_eq(ir_parse(arena, "dump.ir", dump.data, dump.length, run.sink, &again), SPC_OK, "%s",
               a_rendered(&run));
  a_free(&run);
  ir_arena_free(arena);
}
