/* What a plan says of itself and of its last run. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/codegen.h"
#include "tests/unit/driver_open.h"

enum { T = 32, D = 24, F = 128 };

#define LAYER                                                                                      \
  "spx 1; dim T: dyn; dim D: dyn; dim F: dyn; kernel k { in x: f32[T,D]; in W: f32[D,F]; in V: "   \
  "f32[F,D];"                                                                                      \
  " let h[t,f] = relu(sum[d] x[t,d]*W[d,f]) ~ zeros(dynamic, density=0.02..0.3);"                  \
  " out y[t,o] = sum[f] h[t,f]*V[f,o]; } "
static const char layer[] = LAYER, lists[] = LAYER "schedule k { compact h axis=f gran=4x1; }";

typedef struct scene {
  spc_context *context;
  spc_program *program;
  spc_plan *plan;
  spc_tensor tensors[4];
} scene;

static scene scene_of(const char *backend, const char *text, const spc_program_options *given) {
  static float x[T * D], w[D * F], v[F * D], y[T * D];
  scene s;
  s.plan = open_plan(backend, 2, text, given, &s.context, &s.program);
  for (int i = 0; i < T * D; i++) x[i] = 1;
  s.tensors[0] = f32_matrix("x", x, T, D);
  s.tensors[1] = f32_matrix("W", w, D, F);
  s.tensors[2] = f32_matrix("V", v, F, D);
  s.tensors[3] = f32_matrix("y", y, T, D);
  return s;
}

static void scene_free(scene *s) { close_plan(s->plan, s->program, s->context); }

/* The first `live` neurons are not zero, for every token. */
static void set_live(scene *s, int live) {
  float *w = s->tensors[1].values;
  for (int i = 0; i < D * F; i++) w[i] = i % F < live ? 1 : -1;
}

static void expect_cover(scene *s, int live, const char *call) {
  spc_guard_info g = {.struct_size = sizeof g};
  double cover = (double)live / F;
  cr_assert_eq(spc_plan_guard(s->plan, 0, &g, NULL), SPC_OK);
  cr_expect_str_eq(g.tensor, "h");
  cr_expect_float_eq(g.cover, cover, 2e-5, "%s, %d: %g", call, live, g.cover);
  cr_expect_eq(g.branch, cover >= g.break_even ? SPC_BRANCH_DENSE : SPC_BRANCH_SPARSE, "%s, %d",
               call, live);
}

Test(driver_stats, covers_and_branches_of_the_last_run) {
  if (!cg_cpu_available()) cr_skip("no LLVM");
  scene s = scene_of("cpu", lists, NULL);
  spc_error err = SPC_ERROR_INIT;
  spc_guard_info g = {.struct_size = sizeof g};
  cr_assert_eq(spc_plan_guard(s.plan, 0, &g, &err), SPC_OK, "%s", err.message);
  cr_expect(g.cover == -1 && g.branch == SPC_BRANCH_NONE, "nothing has run");
  cr_expect(g.break_even > 0 && g.break_even <= 1, "%g", g.break_even);
  size_t bytes;
  cr_assert_eq(spc_plan_prepare(s.plan, &err), SPC_OK);
  cr_assert_eq(spc_workspace(s.plan, s.tensors, 4, &bytes, &err), SPC_OK);
  void *room = aligned_alloc(256, bytes + 256 - bytes % 256);
  bool branch[3] = {0};
  for (int live = 0; live <= F; live += 16) {
    set_live(&s, live);
    cr_assert_eq(spc_run(s.plan, s.tensors, 4, &err), SPC_OK, "%s", err.message);
    expect_cover(&s, live, "spc_run");
    set_live(&s, F - live);
    cr_assert_eq(spc_enqueue(s.plan, s.tensors, 4, room, bytes, NULL, &err), SPC_OK);
    expect_cover(&s, F - live, "spc_enqueue");
    cr_assert_eq(spc_plan_guard(s.plan, 0, &g, &err), SPC_OK);
    branch[g.branch] = true;
  }
  cr_expect(branch[SPC_BRANCH_SPARSE] && branch[SPC_BRANCH_DENSE], "both were taken");
  free(room);
  scene_free(&s);
}

/* ---- how much of an operand is stored --------------------------------------------------------------- */
enum { R = 48, C = 40, P = 24 };

/* The first `kept` columns of every row; the result of a product with ones. */
static spc_tensor set_stored(const char *name, int kept) {
  static int32_t pos[R + 1], crd[R * C];
  static float vals[R * C];
  spc_tensor t = f32_matrix(name, vals, R, C);
  for (int i = 0; i <= R; i++) pos[i] = i * kept;
  for (int i = 0; i < R * kept; i++) crd[i] = i % kept, vals[i] = (float)(i % 7 - 3);
  t.value_count = t.crd_count[1] = R * kept;
  t.pos[1] = pos;
  t.crd[1] = crd;
  t.pos_count[1] = R + 1;
  return t;
}

static void expect_rows(const spc_tensor *a, const float *y, const char *what) {
  const int32_t *pos = a->pos[1];
  const float *vals = a->values;
  for (int i = 0; i < R; i++) {
    float want = 0;
    for (int p = pos[i]; p < pos[i + 1]; p++) want += vals[p];
    for (int o = 0; o < P; o++) cr_assert_eq(y[i * P + o], want, "%s: %d, %d: %g", what, i, o, y[i * P + o]);
  }
}

static void expect_share(spc_plan *plan, double cover, bool *taken) {
  spc_guard_info g = {.struct_size = sizeof g};
  cr_assert_eq(spc_plan_guard(plan, 0, &g, NULL), SPC_OK);
  cr_expect_str_eq(g.tensor, "A");
  cr_expect_float_eq(g.cover, cover, 2e-5, "%g: %g", cover, g.cover);
  cr_expect_eq(g.branch, cover >= g.break_even ? SPC_BRANCH_DENSE : SPC_BRANCH_SPARSE, "%g", cover);
  taken[g.branch] = true;
}

Test(driver_stats, a_hint_of_what_is_stored_is_never_a_promise) {
  if (!cg_cpu_available()) cr_skip("no LLVM");
  static const char *const hints[] = {"", "~ zeros(static, density=0.05)", "~ zeros(static, density=0.9)", "~ zeros(static, density=0.05) const"};
  static float b[C * P], y[R * P];
  for (int i = 0; i < C * P; i++) b[i] = 1;
  for (int h = 0; h < IR_COUNT(hints); h++) {
    char text[256];
    spc_context *context;
    spc_program *program;
    snprintf(text, sizeof text, "spx 1; dim I: dyn; dim K: dyn; dim N: dyn; kernel k { in A: f32[I,K] as csr %s; in B: f32[K,N];"
             " out y[i,n] = sum[k] A[i,k]*B[k,n]; }", hints[h]);
    spc_plan *plan = open_plan("cpu", 2, text, NULL, &context, &program);
    spc_error err = SPC_ERROR_INIT;
    bool taken[3] = {0};
    cr_assert_eq(spc_plan_prepare(plan, &err), SPC_OK);
    for (int kept = 0; kept <= C; kept += 4) {
      spc_tensor t[] = {set_stored("A", kept), f32_matrix("B", b, C, P), f32_matrix("y", y, R, P)};
      size_t bytes;
      memset(y, 0xff, sizeof y);
      cr_assert_eq(spc_run(plan, t, 3, &err), SPC_OK, "%s", err.message);
      expect_rows(&t[0], y, "spc_run");
      expect_share(plan, (double)kept / C, taken);
      memset(y, 0xff, sizeof y);
      cr_assert_eq(spc_workspace(plan, t, 3, &bytes, &err), SPC_OK);
      cr_expect_geq(bytes, sizeof(float) * R * C, "A written out has its place: %zu", bytes);
      void *room = aligned_alloc(256, bytes + 256 - bytes % 256);
      memset(room, 0xff, bytes);
      cr_assert_eq(spc_enqueue(plan, t, 3, room, bytes, NULL, &err), SPC_OK, "%s", err.message);
      free(room);
      expect_rows(&t[0], y, "spc_enqueue");
      expect_share(plan, (double)kept / C, taken);
    }
    cr_expect(taken[SPC_BRANCH_SPARSE] && taken[SPC_BRANCH_DENSE], "%s: both were taken", hints[h]);
    close_plan(plan, program, context);
  }
}

Test(driver_stats, what_takes_too_much_scratch_is_not_written_out) {
  if (!cg_cpu_available()) cr_skip("no LLVM");
  enum { ROWS = 1 << 20, COLUMNS = 1 << 20 };
  static int32_t pos[ROWS + 1], crd[1] = {7};
  static float vals[1] = {2}, b[COLUMNS], y[ROWS];
  spc_context *context;
  spc_program *program;
  spc_plan *plan = open_plan("cpu", 1, "spx 1; dim I: dyn; dim K: dyn; dim N: dyn; kernel k { in A: f32[I,K] as csr; in B: f32[K,N];"
                             " out y[i,n] = sum[k] A[i,k]*B[k,n]; }", NULL, &context, &program);
  spc_error err = SPC_ERROR_INIT;
  spc_tensor t[] = {f32_matrix("A", vals, ROWS, COLUMNS), f32_matrix("B", b, COLUMNS, 1), f32_matrix("y", y, ROWS, 1)};
  size_t bytes;
  for (int i = 4; i <= ROWS; i++) pos[i] = 1;
  b[7] = 21;
  t[0].value_count = t[0].crd_count[1] = 1;
  t[0].pos[1] = pos;
  t[0].crd[1] = crd;
  t[0].pos_count[1] = ROWS + 1;
  cr_assert_eq(spc_plan_prepare(plan, &err), SPC_OK);
  cr_assert_eq(spc_workspace(plan, t, 3, &bytes, &err), SPC_OK, "%s", err.message);
  cr_expect_lt(bytes, (size_t)1 << 30, "%zu", bytes);
  void *room = aligned_alloc(256, bytes + 256 - bytes % 256);
  cr_assert_eq(spc_enqueue(plan, t, 3, room, bytes, NULL, &err), SPC_OK, "%s", err.message);
  cr_expect(y[2] == 0 && y[3] == 42 && y[4] == 0);
  free(room);
  close_plan(plan, program, context);
}

Test(driver_stats, a_plan_describes_itself) {
  if (!cg_cpu_available()) cr_skip("no LLVM");
  spc_program_options options = {
      .struct_size = sizeof options, .reproducible = 1, .batch_invariant = 0};
  scene s = scene_of("cpu", lists, &options);
  spc_error err = SPC_ERROR_INIT;
  spc_plan_info info = {.struct_size = sizeof info};
  cr_assert_eq(spc_plan_describe(s.plan, &info, &err), SPC_OK);
  cr_expect(info.reproducible && !info.batch_invariant && !info.prepared && !info.not_enqueued);
  cr_expect(!strcmp(info.kernel, "k") && !strcmp(info.backend, "cpu") && info.guard_count == 1);
  cr_assert_gt(info.launch_count, 2);
  bool dense = false, sparse = false;
  for (int i = 0; i < info.launch_count; i++) {
    spc_launch_info l = {.struct_size = sizeof l};
    cr_assert_eq(spc_plan_launch(s.plan, i, &l, &err), SPC_OK);
    cr_expect(l.stage[0] && l.kernel[0] && l.entry[0] && !l.is_library);
    cr_expect_eq(l.guard < 0, l.branch == SPC_BRANCH_NONE);
    dense = dense || l.branch == SPC_BRANCH_DENSE;
    sparse = sparse || l.branch == SPC_BRANCH_SPARSE;
  }
  cr_expect(dense && sparse);
  spc_launch_info past = {.struct_size = sizeof past};
  spc_guard_info none = {.struct_size = sizeof none};
  cr_expect_eq(spc_plan_launch(s.plan, info.launch_count, &past, &err), SPC_INVALID_ARGUMENT);
  cr_expect_eq(spc_plan_guard(s.plan, 1, &none, &err), SPC_INVALID_ARGUMENT);
  cr_expect_eq(spc_plan_guard(s.plan, -1, &none, &err), SPC_INVALID_ARGUMENT);
  spc_plan_info small = {.struct_size = offsetof(spc_plan_info, batch_invariant),
                         .batch_invariant = 77};
  cr_expect_eq(spc_plan_describe(s.plan, &small, &err), SPC_OK);
  cr_expect(small.reproducible && small.batch_invariant == 77, "no more than the struct holds");
  cr_assert_eq(spc_plan_prepare(s.plan, &err), SPC_OK);
  cr_assert_eq(spc_plan_describe(s.plan, &info, &err), SPC_OK);
  cr_expect(info.prepared);
  scene_free(&s);
  options.reproducible = 0;
  options.batch_invariant = 1;
  s = scene_of("cpu", layer, &options);
  cr_assert_eq(spc_plan_describe(s.plan, &info, &err), SPC_OK);
  cr_expect(!info.reproducible && info.batch_invariant && info.guard_count == 0,
            "a row's bits depend on no cover");
  scene_free(&s);
  s = scene_of("interp", lists, NULL);
  cr_assert_eq(spc_plan_describe(s.plan, &info, &err), SPC_OK);
  cr_expect(info.launch_count == 0 && info.guard_count == 0 && info.not_enqueued);
  cr_assert_eq(spc_run(s.plan, s.tensors, 4, &err), SPC_OK);
  scene_free(&s);
}
