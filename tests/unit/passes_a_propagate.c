/* passes_a_propagate.c - supports, samples, and what they must not claim. */
#include <criterion/criterion.h>

#include "passes/expr.h"
#include "tests/unit/passes_a_run.h"

#define DECLARATIONS                                                                               \
  "spx 1; dim N: dyn; kernel t { in S: f32[N,N] as csr; in R: f32[N,N] as csr; in A: f32[N,N]; "   \
  "in B: f32[N,N]; in M: pattern[N,N] as csr; in h: f32[N,N] ~ zeros(dynamic); "                   \
  "out use[i,j] = S[i,j] + R[i,j] + A[i,j] + B[i,j] + h[i,j] + where(M[i,j], 1, 0); "

static const char *condition(a_run *run, ir_expr *e) {
  ir_text text = ir_text_new(run->arena);
  if (e != NULL) ir_print_expr(e, &text);
  return e != NULL ? text.data : "anywhere";
}

typedef struct support_case {
  const char *statement, *want;
} support_case;

static const support_case supports[] = {
    {"out y[i,j] = S[i,j] * A[i,j]", "S[i, j] != 0.0_f32"},
    {"out y[i,j] = S[i,j] * R[i,j]", "S[i, j] != 0.0_f32 and R[i, j] != 0.0_f32"},
    {"out y[i,j] = S[i,j] + R[i,j]", "S[i, j] != 0.0_f32 or R[i, j] != 0.0_f32"},
    {"out y[i,j] = S[i,j] + A[i,j]", "anywhere"},
    {"out y[i,j] = S[i,j] + 1", "anywhere"},
    {"out y[i,j] = S[i,j] * 2", "S[i, j] != 0.0_f32"},
    {"out y[i,j] = S[i,j] / 2", "S[i, j] != 0.0_f32"},
    {"out y[i,j] = exp(S[i,j])", "anywhere"},
    {"out y[i,j] = tanh(S[i,j])", "S[i, j] != 0.0_f32"},
    {"out y[i,j] = max(S[i,j], 1)", "anywhere"},
    {"out y[i,j] = max(S[i,j], -1)", "S[i, j] != 0.0_f32"},
    {"out y[i,j] = where(M[i,j], A[i,j], 0)", "M[i, j]"},
    {"out y[i,j] = where(j <= i, A[i,j], 0)", "j <= i"},
    {"out y[i,j] = where(M[i,j], A[i,j], 1)", "anywhere"},
    {"out y[i,j] = A[i,j] on M[i,j] and j <= i", "M[i, j] and j <= i"},
    {"out y[i,j] = A[i,j] on M[i,j] fill 1", "anywhere"},
    {"out y[i,j] = h[i,j] * A[i,j]", "h[i, j] != 0.0_f32"},
    {"out y[i,j] = S[i,j] * sum[k] A[i,k]*B[k,j]", "S[i, j] != 0.0_f32"},
    {"out y[i,j] = sum[k] S[i,k]*R[k,j]", "any[k](S[i, k] != 0.0_f32 and R[k, j] != 0.0_f32)"},
    {"out y[i,j] = sum[k] S[i,k]*A[k,j]", "anywhere"},
    {"out y[i,j] = max[k] S[i,k]*R[k,j]", "anywhere"},
};

Test(propagate, supports) {
  for (int i = 0; i < IR_COUNT(supports); i++) {
    char text[1024];
    snprintf(text, sizeof text, DECLARATIONS "%s; }", supports[i].statement);
    a_run run = a_run_passes(text, "canon,propagate");
    cr_assert_eq(run.status, SPC_OK, "%s: %s", supports[i].statement, a_rendered(&run));
    const char *got = condition(&run, ir_tensor_named(run.kernel, "y")->def->support);
    cr_expect_str_eq(got, supports[i].want, "%s: %s", supports[i].statement, got);
    a_free(&run);
  }
}

Test(propagate, strict_nan_keeps_conditions_only) {
  const char *text = DECLARATIONS "let u[i,j] = A[i,j] + 1; out y[i,j] = S[i,j] * u[i,j]; "
                                  "out z[i,j] = A[i,j] on M[i,j]; }";
  pass_options options = {
      .target = ir_target_find("cpu"), .passes = "canon,propagate", .strict_nan = true};
  a_run run = a_run_with(text, &options);
  cr_assert_eq(run.status, SPC_OK, "%s", a_rendered(&run));
  cr_expect_null(ir_tensor_named(run.kernel, "y")->def->sample);
  cr_expect_null(ir_tensor_named(run.kernel, "u")->def->sample);
  cr_expect_not_null(ir_tensor_named(run.kernel, "z")->def->sample);
  a_free(&run);
}

static const support_case samples[] = {
    /* a factor is needed only where the other is not zero */
    {"let u[i,j] = sum[k] A[i,k]*B[k,j]; let g[i,j] = relu(A[i,j] - 1); out y[i,l] = sum[j] "
     "g[i,j]*u[i,j]*B[j,l]",
     "g[i, j] != 0.0_f32"},
    /* another reader needs all of it */
    {"let u[i,j] = sum[k] A[i,k]*B[k,j]; let g[i,j] = relu(A[i,j] - 1); out y[i,l] = sum[j] "
     "g[i,j]*u[i,j]*B[j,l]; "
     "out z[i,j] = u[i,j]",
     "anywhere"},
    /* two readers, two reasons */
    {"let u[i,j] = sum[k] A[i,k]*B[k,j]; out y[i,j] = S[i,j]*u[i,j]; out z[i,j] = R[i,j]*u[i,j]",
     "S[i, j] != 0.0_f32 or R[i, j] != 0.0_f32"},
    /* read under other names of indices */
    {"let u[i,j] = sum[k] A[i,k]*B[k,j]; out y[j,i] = S[j,i]*u[j,i]", "S[i, j] != 0.0_f32"},
    {"let u[i,j] = sum[k] A[i,k]*B[k,j]; out y[i,j] = S[i,j]*u[j,i]", "S[j, i] != 0.0_f32"},
    /* a sum hides nothing, an addition needs it */
    {"let u[i,j] = sum[k] A[i,k]*B[k,j]; out y[i,j] = S[i,j] + u[i,j]", "anywhere"},
    {"let u[i,j] = sum[k] A[i,k]*B[k,j]; out y[i,j] = where(M[i,j], u[i,j], 0)", "M[i, j]"},
    /* a topk looks at its whole row, wherever it is wanted */
    {"let u[i,j] = sum[k] A[i,k]*B[k,j]; out y[i,j] = topk[j](u[i,j], 2) on M[i,j]", "anywhere"},
    /* what depends on u cannot say where u is needed */
    {"let u[i,j] = sum[k] A[i,k]*B[k,j]; let g[i,j] = relu(u[i,j]); out y[i,l] = sum[j] "
     "g[i,j]*u[i,j]*B[j,l]",
     "anywhere"},
    {"let u[i,j] = (sum[k] A[i,k]*B[k,j]) on M[i,j] and j <= i fill -inf; out y[i,j] = "
     "where(M[i,j] and j <= i, exp(u[i,j]), 0)",
     "M[i, j] and j <= i"},
};

Test(propagate, samples) {
  for (int i = 0; i < IR_COUNT(samples); i++) {
    char text[1024];
    snprintf(text, sizeof text, DECLARATIONS "%s; }", samples[i].statement);
    a_run run = a_run_passes(text, "canon,propagate");
    cr_assert_eq(run.status, SPC_OK, "%s: %s", samples[i].statement, a_rendered(&run));
    const char *got = condition(&run, ir_tensor_named(run.kernel, "u")->def->sample);
    cr_expect_str_eq(got, samples[i].want, "%s: %s", samples[i].statement, got);
    a_free(&run);
  }
}

Test(propagate, marks_dynamic_zeros) {
  static const support_case cases[] = {
      {"relu(A[i,j])", "yes"},
      {"relu2(A[i,j]) * B[i,j]", "yes"},
      {"topk[j](A[i,j], 2)", "yes"},
      {"where(A[i,j] > 1, A[i,j], 0)", "yes"},
      {"step(A[i,j])", "yes"},
      {"abs(relu(A[i,j]))", "yes"},
      {"silu(A[i,j])", "no"},
      {"relu(A[i,j]) + B[i,j]", "no"},
      {"relu(A[i,j]) + relu(B[i,j])", "yes"},
      {"exp(relu(A[i,j]))", "no"},
      {"where(j <= i, A[i,j], 0)", "no"},
      {"relu(S[i,j])", "no"},
  };
  for (int i = 0; i < IR_COUNT(cases); i++) {
    char text[1024];
    snprintf(text, sizeof text,
             DECLARATIONS "let u[i,j] = %s; out y[i,l] = sum[j] u[i,j]*B[j,l]; }",
             cases[i].statement);
    a_run run = a_run_passes(text, "canon,propagate");
    cr_assert_eq(run.status, SPC_OK, "%s: %s", cases[i].statement, a_rendered(&run));
    bool dynamic = ir_tensor_named(run.kernel, "u")->pattern.zeros == IR_ZEROS_DYNAMIC;
    cr_expect_eq(dynamic, strcmp(cases[i].want, "yes") == 0, "%s", cases[i].statement);
    a_free(&run);
  }
}

Test(propagate, tells_what_it_found) {
  a_run run =
      a_run_passes(DECLARATIONS "let u[i,j] = sum[k] A[i,k]*B[k,j]; out y[i,j] = S[i,j]*u[i,j]; }",
                   "canon,propagate");
  cr_expect(a_says(&run, "R0401"));
  a_free(&run);
  run = a_run_passes(
      DECLARATIONS
      "let u[i,j] = silu(A[i,j]) ~ zeros(dynamic); out y[i,l] = sum[j] u[i,j]*B[j,l]; }",
      "canon,propagate");
  cr_expect(a_says(&run, "M0401"));
  a_free(&run);
  run = a_run_passes(
      DECLARATIONS
      "let u[i,j] = relu(A[i,j]) ~ zeros(dynamic); out y[i,l] = sum[j] u[i,j]*B[j,l]; }",
      "canon,propagate");
  cr_expect_not(a_says(&run, "M0401"));
  a_free(&run);
}

Test(propagate, a_fill_that_nobody_sees_goes) {
  a_run run = a_run_passes(
      DECLARATIONS "let p[i,j] = A[i,j] on M[i,j] fill -inf; let a[i,j] = softmax[j](p[i,j]); "
                   "out y[i,l] = sum[j] a[i,j]*B[j,l]; }",
      "canon,propagate");
  cr_assert_eq(run.status, SPC_OK, "%s", a_rendered(&run));
  cr_expect_eq(ir_tensor_named(run.kernel, "p")->def->fill, 0);
  cr_expect_str_eq(condition(&run, ir_tensor_named(run.kernel, "p")->def->support), "M[i, j]");
  cr_expect_str_eq(condition(&run, ir_tensor_named(run.kernel, "a")->def->support), "M[i, j]");
  a_free(&run);
}
