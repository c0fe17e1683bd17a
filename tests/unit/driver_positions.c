/* Positions of 32 and 64 bits through the public interface: either is taken, results come as asked,
 * places beyond 2^31 are reached, and structs of before the field keep their size. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include <criterion/criterion.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "codegen/codegen.h"
#include "tests/unit/driver_open.h"

static const char spmv[] = "spx 1; dim N: dyn; dim M: dyn; kernel spmv { in A: f32[N,M] as csr;"
                           " in x: f32[M]; out y[i] = sum[j] A[i,j]*x[j]; }",
                  add[] = "spx 1; dim N: dyn; dim M: dyn; kernel add { in A: f32[N,M] as csr;"
                          " in B: f32[N,M] as csr; out C[i,j] = A[i,j] + B[i,j] as csr; }";

typedef struct scene {
  spc_context *context;
  spc_program *program;
  spc_plan *plan;
} scene;

static scene scene_of(const char *backend, const char *text, const char *positions) {
  scene s = {0};
  spc_program_options options = {.struct_size = sizeof options, .positions = positions};
  s.plan = open_plan(backend, 1, text, &options, &s.context, &s.program);
  return s;
}

static void scene_free(scene *s) {
  close_plan(s->plan, s->program, s->context);
}

static spc_tensor vector(const char *name, float *values, int64_t n) {
  spc_tensor t = {.struct_size = sizeof t, .name = name, .dtype = "f32", .rank = 1};
  t.shape[0] = t.value_count = n;
  t.values = values;
  return t;
}

static spc_tensor csr(const char *name, int64_t columns, void *pos, void *crd, float *values,
                      int64_t stored, const char *index) {
  spc_tensor t = {.struct_size = sizeof t, .name = name, .dtype = "f32", .rank = 2};
  t.shape[0] = 2;
  t.shape[1] = columns;
  t.pos[1] = pos;
  t.pos_count[1] = 3;
  t.crd[1] = crd;
  t.crd_count[1] = t.value_count = stored;
  t.values = values;
  t.index_dtype = index;
  return t;
}

static int32_t narrow_pos[] = {0, 2, 3}, narrow_crd[] = {0, 2, 1};
static int64_t wide_pos[] = {0, 2, 3}, wide_crd[] = {0, 2, 1};

Test(driver_positions, a_run_takes_and_gives_either_width) {
  static const char *const backends[] = {"interp", "cpu"}, *const widths[] = {NULL, "i32", "i64"};
  float va[] = {1, 2, 3};
  for (int n = 0; n < 2 * 3 * 4; n++) {
    const char *backend = backends[n & 1], *compiled = widths[n / 2 % 3];
    bool wide_in = n / 6 & 1, wide_out = n / 12 & 1;
    if (n & 1 && !cg_cpu_available()) continue;
    scene s = scene_of(backend, add, compiled);
    int64_t pos[3] = {0}, crd[4] = {0};
    float values[4];
    spc_error err = SPC_ERROR_INIT;
    spc_tensor t[3] = {
        wide_in ? csr("A", 3, wide_pos, wide_crd, va, 3, "i64")
                : csr("A", 3, narrow_pos, narrow_crd, va, 3, "i32"),
        csr("B", 3, narrow_pos, narrow_crd, va, 3, "i32"),
        csr("C", 3, pos, crd, values, 4, wide_out ? "i64" : "i32"),
    };
    cr_assert_eq(spc_run(s.plan, t, 3, &err), SPC_OK, "%s: %s", backend, err.message);
    const int32_t *pos32 = (const void *)pos, *crd32 = (const void *)crd;
    cr_expect_eq(wide_out ? pos[2] : pos32[2], 3);
    cr_expect_eq(wide_out ? crd[1] : crd32[1], 2);
    cr_expect_eq(values[1], 4);
    scene_free(&s);
  }
}

Test(driver_positions, what_does_not_fit_is_said) {
  int64_t far[] = {0, (int64_t)1 << 40, 1};
  float va[] = {1, 2, 3}, x[1] = {0}, y[2];
  spc_error err = SPC_ERROR_INIT;
  if (!cg_cpu_available()) cr_skip_test("no LLVM");
  scene s = scene_of("cpu", spmv, NULL);
  spc_tensor t[3] = {csr("A", ((int64_t)1 << 40) + 1, wide_pos, far, va, 3, "i64"),
                     vector("x", x, ((int64_t)1 << 40) + 1), vector("y", y, 2)};
  cr_expect_eq(spc_run(s.plan, t, 3, &err), SPC_INVALID_INPUT);
  cr_expect(strstr(err.message, "does not fit in i32"), "%s", err.message);
  t[0].index_dtype = "i16";
  cr_expect_eq(spc_run(s.plan, t, 3, &err), SPC_INVALID_ARGUMENT);
  cr_assert_eq(spc_plan_prepare(s.plan, &err), SPC_OK, "%s", err.message);
  t[0] = csr("A", 1, wide_pos, wide_crd, va, 3, "i64");
  t[1] = vector("x", x, 1);
  cr_expect_eq(spc_enqueue(s.plan, t, 3, NULL, 0, NULL, &err), SPC_INVALID_INPUT);
  cr_expect(strstr(err.message, "positions of i32"), "%s", err.message);
  spc_program_options odd = {.struct_size = sizeof odd, .positions = "i8"};
  spc_program *none;
  cr_expect_eq(spc_program_from_text(s.context, spmv, strlen(spmv), &odd, &none, &err),
               SPC_INVALID_ARGUMENT);
  scene_free(&s);
}

/* As callers were built before `index_dtype`: the elements lie closer. */
Test(driver_positions, structs_without_the_field_are_taken) {
  enum { BEFORE = offsetof(spc_tensor, index_dtype) };
  float va[] = {1, 2, 3}, x[] = {1, 10, 100}, y[2] = {0};
  spc_tensor now[3] = {csr("A", 3, narrow_pos, narrow_crd, va, 3, "i64"), vector("x", x, 3),
                       vector("y", y, 2)};
  _Alignas(spc_tensor) char then[3 * BEFORE];
  for (int i = 0; i < 3; i++) {
    now[i].struct_size = BEFORE;
    memcpy(then + i * BEFORE, &now[i], BEFORE);
  }
  scene s = scene_of("interp", spmv, NULL);
  spc_error err = SPC_ERROR_INIT;
  cr_assert_eq(spc_run(s.plan, (spc_tensor *)(void *)then, 3, &err), SPC_OK, "%s", err.message);
  cr_expect(y[0] == 201 && y[1] == 30);
  scene_free(&s);
}

/* The rows lie behind 2^31 entries that nobody reads and the system never gives memory for. */
Test(driver_positions, entries_beyond_2_to_31) {
  const int64_t first = ((int64_t)1 << 31) + 5, stored = first + 3;
  const size_t bytes[2] = {(size_t)stored * sizeof(int64_t), (size_t)stored * sizeof(float)};
  void *at[2];
  if (!cg_cpu_available()) cr_skip_test("no LLVM");
  for (int i = 0; i < 2; i++) {
    at[i] = mmap(NULL, bytes[i], PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at[i] == MAP_FAILED) cr_skip_test("no room for 26 GB of addresses");
  }
  int64_t *crd = at[0], pos[] = {first, first + 2, first + 3};
  float *values = at[1], x[] = {1, 10, 100}, y[2] = {0};
  for (int i = 0; i < 3; i++) {
    crd[first + i] = wide_crd[i];
    values[first + i] = (float)(i + 1);
  }
  scene s = scene_of("cpu", spmv, "i64");
  spc_tensor t[3] = {csr("A", 3, pos, crd, values, stored, "i64"), vector("x", x, 3),
                     vector("y", y, 2)};
  spc_error err = SPC_ERROR_INIT;
  cr_assert_eq(spc_plan_prepare(s.plan, &err), SPC_OK, "%s", err.message);
  cr_assert_eq(spc_enqueue(s.plan, t, 3, NULL, 0, NULL, &err), SPC_OK, "%s", err.message);
  cr_expect(y[0] == 201 && y[1] == 30, "%g %g", (double)y[0], (double)y[1]);
  scene_free(&s);
  for (int i = 0; i < 2; i++) munmap(at[i], bytes[i]);
}
