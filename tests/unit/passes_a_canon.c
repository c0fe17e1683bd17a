/* passes_a_canon.c - what `canon` makes of values. */
#include <criterion/criterion.h>

#include "passes/contract.h"
#include "tests/unit/passes_a_run.h"

typedef struct value_case {
  const char *value, *want;
} value_case;

/* Over x, z : f32[I], a : f32[], w : f32[I,K], n : i32[I]. */
static a_run run_value(const char *value, const char *type) {
  char text[1024];
  snprintf(
      text, sizeof text,
      "spx 1; dim I: dyn; dim K: dyn; kernel t { in x: f32[I]; in z: f32[I]; in a: f32[]; "
      "in w: f32[I,K]; in v: f32[K]; in n: i32[I]; "
      "out use[i] = x[i] + z[i] + a + v[0] + cast[f32](n[i]) + sum[k] w[i,k]; out y[i] = %s %s; }",
      value, type);
  return a_run_passes(text, "canon");
}

static void expect_values(const value_case *cases, int count) {
  for (int i = 0; i < count; i++) {
    a_run run = run_value(cases[i].value, "");
    cr_assert_eq(run.status, SPC_OK, "%s: %s", cases[i].value, a_rendered(&run));
    cr_expect_str_eq(a_value(&run, "y"), cases[i].want, "%s: %s", cases[i].value,
                     a_value(&run, "y"));
    a_free(&run);
  }
}

Test(canon, folds_values) {
  static const value_case cases[] = {
      {"x[i] * (2 * 3)", "x[i] * 6.0_f32"},
      {"x[i] * 1 + 0", "x[i]"},
      {"x[i] / 1 - 0", "x[i]"},
      {"-(-x[i])", "x[i]"},
      {"relu(relu(x[i]))", "relu(x[i])"},
      {"max(x[i], 0)", "relu(x[i])"},
      {"max(x[i], x[i])", "x[i]"},
      {"x[i] * 0 + z[i]", "z[i]"},
      {"where(2 > 1, x[i], z[i])", "x[i]"},
      {"pow(x[i], 2)", "x[i] * x[i]"},
      {"max(x[i], -inf)", "x[i]"},
  };
  expect_values(cases, IR_COUNT(cases));
}

Test(canon, keeps_what_is_not_safe) {
  static const value_case cases[] = {
      {"x[i] - x[i]", "x[i] - x[i]"}, /* Inf - Inf */
      {"x[i] / x[i]", "x[i] / x[i]"},
      {"0 / x[i]", "0.0_f32 / x[i]"},
      {"min(x[i], 0)", "min(x[i], 0.0_f32)"},
  };
  expect_values(cases, IR_COUNT(cases));
}

Test(canon, reductions) {
  static const value_case cases[] = {
      {"sum[k] a * w[i,k]", "a[] * sum[k](w[i, k])"},
      {"sum[k] w[i,k] * x[i] * v[k]", "x[i] * sum[k](w[i, k] * v[k])"},
      {"sum[k] -w[i,k] * v[k]", "-sum[k](w[i, k] * v[k])"},
      {"max[k] a * w[i,k]", "max[k](a[] * w[i, k])"},
  };
  expect_values(cases, IR_COUNT(cases));
}

Test(canon, strict_nan_keeps_products_with_zero) {
  const char *text = "spx 1; dim I: dyn; kernel t { in x: f32[I]; out y[i] = x[i] * 0; }";
  pass_options options = {.target = ir_target_find("cpu"), .passes = "canon", .strict_nan = true};
  a_run run = a_run_with(text, &options);
  cr_assert_eq(run.status, SPC_OK);
  cr_expect_str_eq(a_value(&run, "y"), "x[i] * 0.0_f32");
  a_free(&run);
}

static const char *const compound[] = {
    "out y[i,j] = silu(sum[k] a[i,k]*b[k,j]) * (sum[k] a[i,k]*c[k,j])",
    "out y[i,j] = softmax[j](sum[k] a[i,k]*b[k,j])",
    "out y[i,j] = sum[k] softmax[k](a[i,k]) * b[k,j]",
    "out y[i,j] = topk[j](relu(sum[k] a[i,k]*b[k,j]), 2) + 1",
    "out y[i,j] = b[i,j] / sum[k] a[i,k]",
    "out y[i,j] = sum[k] a[i,k] * (max[l] b[k,l]) * c[k,j]",
    "out y[i,j] = (sum[k] exp(a[i,k] - (max[l] a[i,l]))) + c[i,j]",
};

Test(canon, leaves_three_shapes) {
  for (int i = 0; i < IR_COUNT(compound); i++) {
    char text[512];
    snprintf(text, sizeof text,
             "spx 1; dim N: dyn; kernel t { in a: bf16[N,N]; in b: bf16[N,N]; in c: bf16[N,N]; "
             "out u[i,j] = a[i,j] + b[i,j] + c[i,j]; %s; }",
             compound[i]);
    a_run run = a_run_passes(text, "canon");
    cr_assert_eq(run.status, SPC_OK, "%s: %s", compound[i], a_rendered(&run));
    for (int s = 0; s < run.kernel->stmts.count; s++) {
      const ir_stmt *stmt = run.kernel->stmts.at[s];
      cr_expect_neq(pass_shape_of(stmt), PASS_COMPOUND, "%s", compound[i]);
      if (stmt->target->role == IR_ROLE_TEMP) cr_expect_eq(stmt->target->dtype, IR_F32);
    }
    a_free(&run);
  }
}

Test(canon, a_hoisted_temporary_has_only_the_indices_it_needs) {
  a_run run = a_run_passes("spx 1; dim N: dyn; kernel t { in a: f32[N,N]; in b: f32[N,N]; "
                           "out y[i,j] = b[i,j] / sum[k] a[i,k]; }",
                           "canon");
  cr_assert_eq(run.status, SPC_OK, "%s", a_rendered(&run));
  ir_tensor *temporary = ir_tensor_named(run.kernel, "y.0");
  cr_assert_not_null(temporary);
  cr_expect_eq(temporary->rank, 1);
  a_free(&run);
}

Test(canon, a_condition_does_not_cut_a_softmax) {
  a_run run =
      a_run_passes("spx 1; dim N: dyn; kernel t { in a: f32[N,N]; in M: pattern[N,N] as csr; "
                   "out y[i,j] = softmax[j](sum[k] a[i,k]*a[j,k]) on M[i,j]; }",
                   "canon");
  cr_assert_eq(run.status, SPC_OK, "%s", a_rendered(&run));
  for (int s = 0; s < run.kernel->stmts.count; s++) {
    const ir_stmt *stmt = run.kernel->stmts.at[s];
    if (stmt->target->role == IR_ROLE_TEMP) cr_expect_null(stmt->cond, "%s", stmt->target->name);
  }
  a_free(&run);
}

Test(canon, equal_temporaries_become_one_and_unread_lets_go) {
  a_run run = a_run_passes("spx 1; dim N: dyn; kernel t { in a: f32[N,N]; let d[i] = a[i,0]; "
                           "out y[i] = (sum[k] a[i,k]) + exp(sum[k] a[i,k]); }",
                           "canon");
  cr_assert_eq(run.status, SPC_OK, "%s", a_rendered(&run));
  cr_expect_null(ir_tensor_named(run.kernel, "d"));
  cr_expect_str_eq(a_value(&run, "y"), "y.0[i] + exp(y.0[i])");
  a_free(&run);
}
