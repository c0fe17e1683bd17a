/* The public interface: from text to results on every back end that is here, and misuse. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codegen/codegen.h"
#include "spc.h"

static const char *const scale =
    "spx 1; dim N: dyn; kernel k { in x: f32[N]; in a: f32[]; out y[i] = a * x[i]; }";
static const char *const spmv = "spx 1; dim N: dyn; dim M: dyn; kernel spmv { in A: f32[N,M] as "
                                "csr; in x: f32[M]; out y[i] = sum[j] A[i,j]*x[j]; }";
static const char *const add =
    "spx 1; dim N: dyn; dim M: dyn; kernel add { in A: f32[N,M] as csr; in B: f32[N,M] as csr;"
    " out C[i,j] = A[i,j] + B[i,j] as csr; }";

static const char *backends[] = {"interp", "cpu"};
static int backend_count(void) { return cg_cpu_available() ? 2 : 1; }

static spc_context *context_of(const char *backend) {
  spc_context *context = NULL;
  spc_error err = SPC_ERROR_INIT;
  spc_context_options options = {.struct_size = sizeof options, .backend = backend, .threads = 2};
  cr_assert_eq(spc_context_new(&options, &context, &err), SPC_OK, "%s", err.message);
  return context;
}

static spc_program *program_of(spc_context *context, const char *text) {
  spc_program *program = NULL;
  spc_error err = SPC_ERROR_INIT;
  cr_assert_eq(spc_program_from_text(context, text, strlen(text), NULL, &program, &err), SPC_OK,
               "%s\n%s", err.message, err.diagnostics);
  return program;
}

static spc_plan *plan_of(spc_program *program) {
  spc_plan *plan = NULL;
  cr_assert_eq(spc_plan_new(program, NULL, NULL, 0, &plan, NULL), SPC_OK);
  return plan;
}

static spc_tensor vector(const char *name, float *values, int64_t n) {
  spc_tensor t = {.struct_size = sizeof t,
                  .name = name,
                  .dtype = "f32",
                  .rank = 1,
                  .values = values,
                  .value_count = n};
  t.shape[0] = n;
  return t;
}

static spc_tensor csr(const char *name, int64_t rows, int64_t cols, int32_t *pos, int32_t *crd,
                      float *values, int64_t n) {
  spc_tensor t = {.struct_size = sizeof t,
                  .name = name,
                  .dtype = "f32",
                  .rank = 2,
                  .values = values,
                  .value_count = n};
  t.shape[0] = rows;
  t.shape[1] = cols;
  t.pos[1] = pos;
  t.pos_count[1] = rows + 1;
  t.crd[1] = crd;
  t.crd_count[1] = n;
  return t;
}

Test(driver_api, runs_again_with_other_sizes) {
  for (int b = 0; b < backend_count(); b++) {
    spc_context *context = context_of(backends[b]);
    cr_expect_str_eq(spc_context_backend(context), backends[b]);
    spc_program *program = program_of(context, scale);
    spc_plan *plan = plan_of(program);
    cr_expect_str_eq(spc_program_kernel_name(program, 0), "k");
    for (int n = 0; n < 40; n += 13) {
      float x[40], y[40], a = 3;
      for (int i = 0; i < n; i++) x[i] = (float)i - 4;
      spc_tensor t[3] = {vector("y", y, n), vector("x", x, n), vector("a", &a, 1)};
      t[2].rank = 0;
      spc_error err = SPC_ERROR_INIT;
      cr_assert_eq(spc_run(plan, t, 3, &err), SPC_OK, "%s: %s", backends[b], err.message);
      for (int i = 0; i < n; i++) cr_expect_eq(y[i], 3 * x[i]);
    }
    spc_plan_free(plan);
    spc_program_free(program);
    spc_context_free(context);
  }
}

Test(driver_api, sparse_operands_and_computed_patterns) {
  int32_t pa[] = {0, 2, 2, 3}, ca[] = {0, 2, 1}, pb[] = {0, 1, 2, 2}, cb[] = {2, 0};
  float va[] = {1, 2, 3}, vb[] = {10, 20}, x[] = {1, 10, 100}, y[3];
  for (int b = 0; b < backend_count(); b++) {
    spc_context *context = context_of(backends[b]);
    spc_program *p = program_of(context, spmv), *q = program_of(context, add);
    spc_plan *plan = plan_of(p), *sum = plan_of(q);
    spc_error err = SPC_ERROR_INIT;
    spc_tensor t[3] = {csr("A", 3, 3, pa, ca, va, 3), vector("x", x, 3), vector("y", y, 3)};
    cr_assert_eq(spc_run(plan, t, 3, &err), SPC_OK, "%s", err.message);
    cr_expect(y[0] == 201 && y[1] == 0 && y[2] == 30);
    int32_t pc[4] = {-7, -7, -7, -7}, cc[4] = {-7, -7, -7, -7};
    float vc[4] = {-7, -7, -7, -7};
    spc_tensor u[3] = {csr("A", 3, 3, pa, ca, va, 3), csr("B", 3, 3, pb, cb, vb, 2),
                       csr("C", 3, 3, pc, cc, vc, 2)};
    cr_expect_eq(spc_run(sum, u, 3, &err), SPC_CAPACITY);
    cr_expect_eq(u[2].value_count, 4, "the needed count is %lld", (long long)u[2].value_count);
    for (int i = 0; i < 4; i++)
      cr_expect(pc[i] == -7 && cc[i] == -7 && vc[i] == -7, "too little room: nothing is written");
    u[2] = csr("C", 3, 3, pc, cc, vc, 4);
    cr_assert_eq(spc_run(sum, u, 3, &err), SPC_OK, "%s", err.message);
    cr_expect(pc[3] == 4 && cc[1] == 2 && vc[1] == 12 && vc[2] == 20);
    spc_plan_free(plan);
    spc_plan_free(sum);
    spc_program_free(p);
    spc_program_free(q);
    spc_context_free(context);
  }
}

Test(driver_api, every_failure_says_what_and_leaves_nothing) {
  spc_context *context = context_of("interp");
  spc_program *program = NULL;
  spc_plan *plan = NULL;
  spc_error err = SPC_ERROR_INIT;
  const char *bad = "spx 1; dim N: dyn; kernel k { in x: f32[N]; out y[i] = x[j]; }";
  cr_expect_eq(spc_program_from_text(context, bad, strlen(bad), NULL, &program, &err),
               SPC_INVALID_INPUT);
  cr_expect(program == NULL && strstr(err.diagnostics, "error[E") && strstr(err.diagnostics, "^"),
            "%s", err.diagnostics);
  cr_expect_eq(spc_program_from_text(NULL, bad, 1, NULL, &program, &err), SPC_INVALID_ARGUMENT);
  cr_expect(strstr(err.message, "context"));
  cr_expect_eq(spc_program_from_file(context, "/nowhere/at/all.spx", NULL, &program, &err), SPC_IO);
  cr_expect_eq(spc_context_new(NULL, NULL, &err), SPC_INVALID_ARGUMENT);
  spc_context_options options = {.struct_size = sizeof options, .backend = "abacus"};
  spc_context *none = NULL;
  cr_expect_eq(spc_context_new(&options, &none, &err), SPC_INVALID_ARGUMENT);
  cr_expect(none == NULL && strstr(err.message, "abacus"));
  program = program_of(context, scale);
  cr_expect_eq(spc_plan_new(program, "other", NULL, 0, &plan, &err), SPC_INVALID_ARGUMENT);
  spc_size wrong = {"Q", 3};
  cr_expect_eq(spc_plan_new(program, NULL, &wrong, 1, &plan, &err), SPC_INVALID_ARGUMENT);
  cr_expect(strstr(err.message, "Q"));
  plan = plan_of(program);
  float x[2] = {1, 2}, y[2], a = 1;
  spc_tensor t[3] = {vector("y", y, 2), vector("x", x, 2), vector("a", &a, 1)};
  cr_expect_eq(spc_run(plan, t, 3, &err), SPC_INVALID_INPUT, "a has rank 0");
  cr_expect(strstr(err.message, "`a`") && strstr(err.message, "rank"), "%s", err.message);
  t[2].rank = 0;
  t[1].dtype = "f64";
  cr_expect_eq(spc_run(plan, t, 3, &err), SPC_INVALID_INPUT);
  cr_expect(strstr(err.message, "dtype"), "%s", err.message);
  t[1].dtype = "f32";
  cr_expect_eq(spc_run(plan, t, 2, &err), SPC_INVALID_ARGUMENT);
  cr_expect(strstr(err.message, "`a`"), "%s", err.message);
  t[0].name = "z";
  cr_expect_eq(spc_run(plan, t, 3, &err), SPC_INVALID_ARGUMENT);
  t[0] = vector("y", y, 1);
  cr_expect_eq(spc_run(plan, t, 3, &err), SPC_INVALID_INPUT);
  cr_expect_eq(spc_run(NULL, t, 3, &err), SPC_INVALID_ARGUMENT);
  cr_expect_eq(spc_run(NULL, t, 3, NULL), SPC_INVALID_ARGUMENT, "the error is optional");
  spc_plan_free(plan);
  spc_plan_free(NULL);
  spc_program_free(program);
  spc_program_free(NULL);
  spc_context_free(context);
  spc_context_free(NULL);
}

static spc_status with_profile(spc_context *context, const char *figures, spc_error *err) {
  char path[] = "/tmp/spc-profile-XXXXXX";
  int file = mkstemp(path);
  cr_assert(file >= 0 && write(file, figures, strlen(figures)) == (ssize_t)strlen(figures) && !close(file));
  spc_program *program = NULL;
  spc_program_options options = {.struct_size = sizeof options, .profile = path};
  spc_status status = spc_program_from_text(context, scale, strlen(scale), &options, &program, err);
  cr_expect_eq(program == NULL, status != SPC_OK);
  spc_program_free(program);
  remove(path);
  return status;
}

Test(driver_api, takes_a_profile) {
  if (!cg_cpu_available()) cr_skip_test("no LLVM in this build");
  spc_context *context = context_of("cpu");
  spc_program *program = NULL;
  spc_error err = SPC_ERROR_INIT;
  spc_program_options none = {.struct_size = sizeof none, .profile = "/nowhere/at/all.profile"};
  cr_expect_eq(with_profile(context, "# mine\nbandwidth_gbs = 7\n", &err), SPC_OK, "%s", err.message);
  cr_expect_eq(with_profile(context, "bandwith_gbs = 7\n", &err), SPC_INVALID_INPUT);
  cr_expect(strstr(err.diagnostics, "did you mean `bandwidth_gbs`"), "%s", err.diagnostics);
  cr_expect_eq(spc_program_from_text(context, scale, strlen(scale), &none, &program, &err), SPC_IO);
  cr_expect(program == NULL && strstr(err.diagnostics, "/nowhere/at/all.profile"), "%s", err.diagnostics);
  spc_context_free(context);
}

Test(driver_api, statuses_have_names) {
  for (int s = -1; s < 80; s++) cr_expect(spc_status_name((spc_status)s)[0]);
  cr_expect_eq(spc_version_number(), SPC_VERSION_NUMBER);
}

/* ---- what a kernel takes and gives ----------------------------------------------------------- */
Test(driver_api, tells_tensors_and_shapes) {
  spc_context *context = context_of("interp");
  spc_program *program = program_of(
      context,
      "spx 1; dim N: dyn; dim M: dyn; dim Q: dyn; kernel k { in S: f32[N,4*M] as bsr(2,4); in x: "
      "bf16[M];"
      " in P: pattern[N,M] as csr; out C[i,j] = 2 * S[i,j] as like(S); out y[m] = x[m] : bf16;"
      " out z[q] = 1 : f32[Q]; }");
  spc_plan *plan = plan_of(program);
  spc_error err = SPC_ERROR_INIT;
  cr_assert_eq(spc_plan_tensor_count(plan), 6);
  spc_tensor_info info = {.struct_size = sizeof info};
  cr_assert_eq(spc_plan_tensor(plan, 0, &info, &err), SPC_OK);
  cr_expect(!strcmp(info.name, "S") && !strcmp(info.dtype, "f32") && !strcmp(info.format, "bsr") &&
            info.format_argument_count == 2 && info.format_arguments[1] == 4 && info.rank == 2 &&
            !info.is_output && info.level_count == 4 && !strcmp(info.levels[1], "compressed") &&
            !info.pattern_of);
  cr_assert_eq(spc_plan_tensor(plan, 2, &info, &err), SPC_OK);
  cr_expect(!strcmp(info.name, "P") && !info.dtype);
  cr_assert_eq(spc_plan_tensor(plan, 3, &info, &err), SPC_OK);
  cr_expect(info.is_output && info.pattern_of && !strcmp(info.pattern_of, "S"));
  info = (spc_tensor_info){.struct_size = offsetof(spc_tensor_info, rank), .rank = -7};
  cr_expect(spc_plan_tensor(plan, 1, &info, &err) == SPC_OK && info.rank == -7, "an older header");
  cr_expect_eq(spc_plan_tensor(plan, 6, &info, &err), SPC_INVALID_ARGUMENT);
  cr_expect_eq(spc_plan_tensor(plan, -1, &info, &err), SPC_INVALID_ARGUMENT);
  cr_expect_eq(spc_plan_tensor(NULL, 0, &info, &err), SPC_INVALID_ARGUMENT);
  spc_tensor t[5] = {vector("S", NULL, 6), vector("x", NULL, 3), vector("P", NULL, 6),
                     vector("y", NULL, 0), vector("C", NULL, 0)};
  t[0].rank = t[2].rank = 2;
  t[0].shape[1] = 12;
  t[0].value_count = 16;
  t[1].dtype = t[3].dtype = "bf16";
  t[2].dtype = NULL;
  t[2].shape[1] = 3;
  cr_assert_eq(spc_plan_shapes(plan, t, 5, &err), SPC_OK, "%s", err.message);
  cr_expect(t[3].rank == 1 && t[3].shape[0] == 3 && t[3].value_count == 3);
  cr_expect(t[4].rank == 2 && t[4].shape[0] == 6 && t[4].shape[1] == 12 && t[4].value_count == 16);
  cr_expect_eq(spc_plan_shapes(plan, t, 2, &err), SPC_INVALID_ARGUMENT);
  cr_expect(strstr(err.message, "`P` is missing"), "%s", err.message);
  t[4] = vector("z", NULL, 0);
  cr_expect_eq(spc_plan_shapes(plan, t, 5, &err), SPC_INVALID_INPUT, "nothing settles Q");
  cr_expect(strstr(err.message, "`z`") && strstr(err.message, "spc_plan_new"), "%s", err.message);
  t[2].shape[1] = 4;
  cr_expect_eq(spc_plan_shapes(plan, t, 4, &err), SPC_INVALID_INPUT);
  cr_expect(strstr(err.message, "`P`") || strstr(err.message, "`x`"), "%s", err.message);
  spc_plan_free(plan);
  spc_program_free(program);
  spc_context_free(context);
}
