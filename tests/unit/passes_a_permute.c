/* passes_a_permute.c - rules L1 to L4, and compact directives against them. */
#include <criterion/criterion.h>

#include "tests/unit/passes_a_run.h"

static const ir_axis *axis_named(const a_run *run, const char *tensor, const char *index) {
  const ir_stmt *stmt = ir_tensor_named(run->kernel, tensor)->def;
  for (int i = 0; i < stmt->axes.count; i++)
    if (strcmp(stmt->axes.at[i].index->name, index) == 0) return &stmt->axes.at[i];
  return NULL;
}

typedef struct axis_case {
  const char *statement, *index;
  bool invariant;
  const char *why; /* part of the reason */
} axis_case;

#define DECLARATIONS                                                                               \
  "spx 1; dim N: dyn; dim Q: dyn; dim G: dyn; kernel t { in A: f32[N,N]; in B: f32[N,N]; "         \
  "in x: f32[N+Q]; in w: f32[Q]; in p: i32[N]; in s: f32[N,N/4]; in v: f32[N]; "                   \
  "out use[i] = A[i,0] + B[i,0] + cast[f32](p[i]) + s[i,0] + v[i]; "

static const axis_case cases[] = {
    {"out y[i,j] = sum[k] A[i,k]*B[k,j]", "i", true, "own places"},
    {"out y[i,j] = sum[k] A[i,k]*B[k,j]", "k", true, "sum commutes"},
    {"out y[i] = max[k] A[i,k]", "k", true, "max commutes"},
    {"out y[i] = argmax[k] A[i,k]", "k", false, "first of equal"},
    {"out y[i] = argmax[k] A[i,k]", "i", true, ""},
    {"out y[i,j] = topk[j](A[i,j], 2)", "j", false, "first of equal"},
    {"out y[i,j] = topk[j](A[i,j], 2)", "i", true, ""},
    {"out y[i,j] = A[i,j] on j <= i", "j", true, "original"},
    {"out y[i,j] = sum[k] A[i,k]*s[j,k/4]", "k", true, "original"},
    {"out y[i] = A[p[i],0]", "i", true, ""},
    {"out y[p[i],j] += A[i,j] : f32[N,N] order(fixed)", "i", false, "ascending"},
    {"out y[p[i],j] += A[i,j] : f32[N,N] order(fixed)", "j", true, ""},
    {"out y[p[i],j] += A[i,j] : f32[N,N] atomic", "i", true, ""},
    {"out y[p[i],j] max= A[i,j] : f32[N,N] order(fixed)", "i", true, ""},
};

Test(permute, axes) {
  for (int i = 0; i < IR_COUNT(cases); i++) {
    char text[1024];
    snprintf(text, sizeof text, DECLARATIONS "%s; }", cases[i].statement);
    a_run run = a_run_passes(text, "canon,propagate,permute");
    cr_assert_eq(run.status, SPC_OK, "%s: %s", cases[i].statement, a_rendered(&run));
    const ir_axis *axis = axis_named(&run, "y", cases[i].index);
    cr_assert_not_null(axis, "%s", cases[i].statement);
    cr_expect_eq(axis->invariant, cases[i].invariant, "%s: %s", cases[i].statement, axis->why);
    cr_expect_not_null(strstr(axis->why, cases[i].why), "%s: %s", cases[i].statement, axis->why);
    a_free(&run);
  }
}

Test(permute, a_window_is_not_invariant) {
  a_run run =
      a_run_passes("spx 1; dim N: dyn; dim Q: dyn; kernel t { in x: f32[N+Q]; in w: f32[Q]; "
                   "out y[i] = sum[q] x[i+q]*w[q] : f32[N]; }",
                   "canon,permute");
  cr_assert_eq(run.status, SPC_OK, "%s", a_rendered(&run));
  cr_expect_not(axis_named(&run, "y", "i")->invariant);
  cr_expect_not(axis_named(&run, "y", "q")->invariant);
  cr_expect_not_null(strstr(axis_named(&run, "y", "q")->why, "x[i + q]"));
  a_free(&run);
}

Test(permute, compact_names_the_statement_that_depends_on_the_order) {
  a_run run =
      a_run_passes("spx 1; dim N: dyn; kernel t { in A: f32[N,N]; in B: f32[N,N]; "
                   "let h[i,j] = relu(sum[k] A[i,k]*B[k,j]); out y[i] = argmax[j] h[i,j]; } "
                   "schedule t { compact h axis=j gran=64x1; }",
                   "canon,permute");
  cr_expect_eq(run.status, SPC_INVALID_INPUT);
  cr_expect(a_says(&run, "E0501"));
  cr_expect_not_null(strstr(a_rendered(&run), "`y`"), "%s", a_rendered(&run));
  a_free(&run);
}

Test(permute, compact_on_a_free_axis_passes) {
  a_run run =
      a_run_passes("spx 1; dim N: dyn; kernel t { in A: f32[N,N]; in B: f32[N,N]; "
                   "let h[i,j] = relu(sum[k] A[i,k]*B[k,j]); out y[i,l] = sum[j] h[i,j]*B[j,l]; } "
                   "schedule t { compact h axis=j gran=64x1; }",
                   "canon,permute");
  cr_expect_eq(run.status, SPC_OK, "%s", a_rendered(&run));
  a_free(&run);
}
