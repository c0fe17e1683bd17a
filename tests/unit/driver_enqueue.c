/* Runs on the caller's arrays and workspace: the same results as copying runs (misuse:
 * driver_misuse.c). */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/codegen.h"
#include "tests/unit/driver_open.h"

enum { ALIGN = 256, FENCE = 512, MOST = 6 };

/* ---- a kernel and its arrays ----------------------------------------------------------------- */
typedef struct scene {
  spc_context *context;
  spc_program *program;
  spc_plan *plan;
  spc_tensor tensors[MOST];
  int count;
  void *owned[4 * MOST];
  int owned_count;
  uint64_t random;
} scene;

static void *own(scene *s, size_t bytes) {
  void *at = calloc(1, bytes + 1);
  return s->owned[s->owned_count++] = at;
}

static scene scene_of(const char *backend, const char *text) {
  scene s = {.random = 7};
  s.plan = open_plan(backend, 2, text, NULL, &s.context, &s.program);
  return s;
}

static void tensors_free(scene *s) {
  while (s->owned_count > 0) free(s->owned[--s->owned_count]);
  s->count = 0;
}

static void scene_free(scene *s) {
  tensors_free(s);
  close_plan(s->plan, s->program, s->context);
}

static float uniform(scene *s) {
  s->random = s->random * 6364136223846793005u + 1442695040888963407u;
  return (float)(s->random >> 40) / (float)(1 << 24) - 0.5f;
}

static spc_tensor *dense(scene *s, const char *name, int rank, int64_t rows, int64_t columns) {
  spc_tensor *t = &s->tensors[s->count++];
  *t = (spc_tensor){.struct_size = sizeof *t, .name = name, .dtype = "f32", .rank = rank};
  t->shape[0] = rows;
  t->shape[1] = columns;
  t->value_count = rank == 2 ? rows * columns : rank ? rows : 1;
  float *values = own(s, sizeof(float) * (size_t)t->value_count);
  for (int64_t i = 0; i < t->value_count; i++) values[i] = uniform(s);
  t->values = values;
  return t;
}

static spc_tensor *csr(scene *s, const char *name, int64_t rows, int64_t columns, bool pattern) {
  spc_tensor *t = &s->tensors[s->count++];
  *t = (spc_tensor){.struct_size = sizeof *t, .name = name, .dtype = pattern ? NULL : "f32"};
  int32_t *pos = own(s, sizeof(int32_t) * (size_t)(rows + 1));
  int32_t *crd = own(s, sizeof(int32_t) * (size_t)(rows * columns));
  float *values = own(s, sizeof(float) * (size_t)(rows * columns));
  for (int64_t i = 0; i < rows; i++) {
    pos[i + 1] = pos[i];
    for (int64_t j = 0; j < columns; j++) {
      if (uniform(s) < 0.2f) continue;
      crd[pos[i + 1]] = (int32_t)j;
      values[pos[i + 1]++] = uniform(s);
    }
  }
  t->rank = 2;
  t->shape[0] = rows;
  t->shape[1] = columns;
  t->pos[1] = pos;
  t->pos_count[1] = rows + 1;
  t->crd[1] = crd;
  t->crd_count[1] = pos[rows];
  t->values = pattern ? NULL : values;
  t->value_count = pattern ? 0 : pos[rows];
  return t;
}

/* ---- the same as a copying run --------------------------------------------------------------- */
/* The last tensor is the output.  The workspace is poisoned, and fenced on both sides. */
static void runs_alike(scene *s, size_t room) {
  spc_error err = SPC_ERROR_INIT;
  spc_tensor *out = &s->tensors[s->count - 1];
  size_t bytes = sizeof(float) * (size_t)out->value_count, need;
  memset(out->values, 0xff, bytes);
  cr_assert_eq(spc_run(s->plan, s->tensors, s->count, &err), SPC_OK, "%s\n%s", err.message,
               err.diagnostics);
  void *want = own(s, bytes);
  memcpy(want, out->values, bytes);
  memset(out->values, 0xff, bytes);
  cr_assert_eq(spc_workspace(s->plan, s->tensors, s->count, &need, &err), SPC_OK, "%s",
               err.message);
  cr_assert(!room || need <= room, "%zu bytes, and %zu at the largest sizes", need, room);
  unsigned char *block = aligned_alloc(ALIGN, (need + 2 * FENCE + ALIGN - 1) / ALIGN * ALIGN);
  memset(block, 0xff, need + 2 * FENCE);
  cr_assert_eq(spc_enqueue(s->plan, s->tensors, s->count, block + FENCE, need, NULL, &err), SPC_OK,
               "%s\n%s", err.message, err.diagnostics);
  cr_expect(!bytes || !memcmp(want, out->values, bytes));
  for (int i = 0; i < FENCE; i++)
    cr_assert(block[i] == 0xff && block[FENCE + need + (size_t)i] == 0xff, "beside the workspace");
  if (need > 0) {
    cr_expect_eq(spc_enqueue(s->plan, s->tensors, s->count, block + FENCE, need - 1, NULL, &err),
                 SPC_CAPACITY);
    char number[40];
    snprintf(number, sizeof number, "take %zu", need);
    cr_expect(strstr(err.message, number), "%s", err.message);
  }
  free(block);
}

static const char layer[] =
    "spx 1; dim T: dyn; dim D: dyn; dim F: dyn; kernel k { in x: f32[T,D]; in W: f32[D,F]; in V: "
    "f32[F,D];"
    " let h[t,f] = relu(sum[d] x[t,d]*W[d,f]) ~ zeros(dynamic, density=0.02..0.3);"
    " out y[t,o] = sum[f] h[t,f]*V[f,o]; } schedule k { compact h axis=f gran=4x1; }";

static void layer_tensors(scene *s, int64_t t, int64_t d, int64_t f, int kept) {
  tensors_free(s);
  dense(s, "x", 2, t, d);
  float *w = dense(s, "W", 2, d, f)->values;
  float *x = s->tensors[0].values;
  for (int64_t i = 0; i < t * d; i++) x[i] = x[i] < 0 ? -x[i] : x[i];
  for (int64_t i = 0; i < d * f; i++) {
    float size = w[i] < 0 ? -w[i] : w[i];
    w[i] = (i % f) * 100 < (int64_t)kept * f ? size : -size;
  }
  dense(s, "V", 2, f, d);
  dense(s, "y", 2, t, d);
}

Test(driver_enqueue, any_mask_and_any_size) {
  if (!cg_cpu_available()) cr_skip("no LLVM");
  static const int64_t sizes[][3] = {
      {33, 17, 70}, {1, 1, 1}, {8, 64, 128}, {33, 17, 70}, {0, 5, 3}};
  scene s = scene_of("cpu", layer);
  size_t most;
  spc_error err = SPC_ERROR_INIT;
  cr_assert_eq(spc_plan_prepare(s.plan, &err), SPC_OK, "%s", err.message);
  cr_assert_eq(spc_plan_prepare(s.plan, &err), SPC_OK, "again");
  layer_tensors(&s, 33, 64, 128, 50);
  for (int i = 0; i < s.count; i++) s.tensors[i].values = NULL;
  cr_assert_eq(spc_workspace(s.plan, s.tensors, s.count, &most, &err), SPC_OK, "%s", err.message);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    for (int kept = 0; kept <= 100; kept += 25) {
      layer_tensors(&s, sizes[i][0], sizes[i][1], sizes[i][2], kept);
      runs_alike(&s, most);
    }
  scene_free(&s);
}

Test(driver_enqueue, stored_operands_and_results_like_them) {
  if (!cg_cpu_available()) cr_skip("no LLVM");
  scene s = scene_of(
      "cpu", "spx 1; dim N: dyn; dim M: dyn; dim K = 9; kernel k { in S: f32[N,M] as csr; in P: "
             "pattern[N,M] as csr; in A: f32[N,K]; in B: f32[M,K];"
             " let p[i,j] = sum[d] A[i,d]*B[j,d] on P[i,j];"
             " let q[i,j] = exp(p[i,j]) * S[i,j] as like(S);"
             " out C[i,j] = 2 * q[i,j] as like(S); }");
  spc_error err = SPC_ERROR_INIT;
  cr_assert_eq(spc_plan_prepare(s.plan, &err), SPC_OK, "%s", err.message);
  for (int64_t n = 1; n < 40; n += 19) {
    tensors_free(&s);
    csr(&s, "P", n, 23, true);
    dense(&s, "A", 2, n, 9);
    dense(&s, "B", 2, 23, 9);
    int64_t stored = csr(&s, "S", n, 23, false)->value_count;
    spc_tensor *c = dense(&s, "C", 2, n, 23);
    c->value_count = stored;
    runs_alike(&s, 0);
    size_t need;
    cr_assert_eq(spc_workspace(s.plan, s.tensors, s.count, &need, &err), SPC_OK);
    void *room = aligned_alloc(ALIGN, need + ALIGN);
    c->value_count = stored - 1;
    cr_expect_eq(spc_enqueue(s.plan, s.tensors, s.count, room, need, NULL, &err),
                 SPC_INVALID_INPUT);
    cr_expect(strstr(err.message, "`C`") && strstr(err.message, "value_count"), "%s", err.message);
    s.tensors[0].pos_count[1]--;
    cr_expect_eq(spc_enqueue(s.plan, s.tensors, s.count, room, need, NULL, &err),
                 SPC_INVALID_INPUT);
    cr_expect(strstr(err.message, "`P`") && strstr(err.message, "pos[1]"), "%s", err.message);
    free(room);
  }
  scene_free(&s);
}

/* ---- a workspace of the plan's ------------------------------------------------------------------
 */
static spc_status enqueued_without(scene *s, spc_error *err) {
  return spc_enqueue(s->plan, s->tensors, s->count, NULL, 0, NULL, err);
}

Test(driver_enqueue, a_plan_keeps_a_workspace_for_the_largest_sizes) {
  if (!cg_cpu_available()) cr_skip("no LLVM");
  static const int64_t sizes[][3] = {{33, 17, 70}, {1, 1, 1}, {33, 17, 70}, {7, 64, 20}};
  scene s = scene_of("cpu", layer);
  spc_error err = SPC_ERROR_INIT;
  spc_plan_info info = {.struct_size = sizeof info};
  cr_assert_eq(spc_plan_prepare(s.plan, &err), SPC_OK, "%s", err.message);
  layer_tensors(&s, 33, 64, 70, 50);
  cr_expect_eq(enqueued_without(&s, &err), SPC_CAPACITY);
  cr_expect(strstr(err.message, "spc_plan_reserve"), "%s", err.message);
  size_t bytes;
  cr_assert_eq(spc_workspace(s.plan, s.tensors, s.count, &bytes, &err), SPC_OK);
  for (int twice = 0; twice < 2; twice++)
    cr_assert_eq(spc_plan_reserve(s.plan, s.tensors, s.count, &err), SPC_OK, "%s", err.message);
  cr_assert_eq(spc_plan_describe(s.plan, &info, &err), SPC_OK);
  cr_expect_eq(info.reserved_bytes, bytes);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    layer_tensors(&s, sizes[i][0], sizes[i][1], sizes[i][2], 25);
    spc_tensor *y = &s.tensors[3];
    size_t size = (size_t)y->value_count * sizeof(float);
    float *want = malloc(size);
    cr_assert_eq(spc_run(s.plan, s.tensors, s.count, &err), SPC_OK, "%s", err.message);
    memcpy(want, y->values, size);
    memset(y->values, 0xff, size);
    cr_assert_eq(enqueued_without(&s, &err), SPC_OK, "%s", err.message);
    cr_expect(!memcmp(want, y->values, size));
    free(want);
  }
  layer_tensors(&s, 34, 64, 128, 50);
  cr_expect_eq(enqueued_without(&s, &err), SPC_CAPACITY);
  cr_expect(strstr(err.message, "the plan's workspace"), "%s", err.message);
  cr_assert_eq(spc_plan_reserve(s.plan, s.tensors, s.count, &err), SPC_OK, "%s", err.message);
  cr_expect_eq(enqueued_without(&s, &err), SPC_OK, "%s", err.message);
  scene_free(&s);
}

/* ---- what cannot be enqueued ----------------------------------------------------------------- */
Test(driver_enqueue, says_what_it_cannot) {
  spc_error err = SPC_ERROR_INIT;
  scene s = scene_of("interp", layer);
  cr_expect_eq(spc_plan_prepare(s.plan, &err), SPC_UNAVAILABLE);
  cr_expect(strstr(err.message, "interpreter") && strstr(err.message, "spc_run"), "%s",
            err.message);
  scene_free(&s);
  if (!cg_cpu_available()) cr_skip("no LLVM");
  s = scene_of("cpu",
               "spx 1; dim N: dyn; kernel add { in A: f32[N,N] as csr; in B: f32[N,N] as csr;"
               " out C[i,j] = A[i,j] + B[i,j] as csr; }");
  cr_expect_eq(spc_plan_prepare(s.plan, &err), SPC_UNAVAILABLE);
  cr_expect(strstr(err.message, "`add`") && strstr(err.message, "pattern"), "%s", err.message);
  scene_free(&s);
}
