/* Tiered programs: generic code at once, tuned code taken by spc_plan_prepare and by nothing else.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/codegen.h"
#include "tests/unit/driver_open.h"

enum { T = 33, D = 40, F = 64 };
static const char text[] =
    "spx 1; dim T: dyn; dim D: dyn; dim F: dyn; dim Q: dyn;"
    " kernel layer { in x: f32[T,D]; in W: f32[D,F]; in V: f32[F,D];"
    " let h[t,f] = relu(sum[d] x[t,d]*W[d,f]) ~ zeros(dynamic, density=0.02..0.3);"
    " out y[t,o] = sum[f] h[t,f]*V[f,o]; } schedule layer { compact h axis=f gran=4x1; }"
    " kernel ramp { in x: f32[T]; out y[q] = (sum[t] x[t]) * cast[f32](q) : f32[Q]; }"
    " kernel add { in A: f32[T,T] as csr; in B: f32[T,T] as csr; out C[i,j] = A[i,j] + B[i,j] as "
    "csr; }";
static float x[T * D], W[D * F], V[F * D], y[T * D], want[T * D];

typedef struct stand {
  spc_context *context;
  spc_program *program;
  spc_plan *plan;
  spc_tensor t[4];
  spc_error err;
} stand;

static void fill(void) {
  for (int i = 0; i < T * D; i++) x[i] = (float)(i % 5);
  for (int i = 0; i < D * F; i++) W[i] = (float)(i % F % 3 ? -1 : i % 4);
  for (int i = 0; i < F * D; i++) V[i] = (float)(i % 7 - 3);
}

static stand stand_of(const char *backend, int tiered) {
  stand s = {.err = SPC_ERROR_INIT};
  spc_program_options options = {.struct_size = sizeof options, .tiered = tiered};
  fill();
  s.plan = open_kernel(backend, 2, text, "layer", &options, &s.context, &s.program);
  s.t[0] = f32_matrix("x", x, T, D);
  s.t[1] = f32_matrix("W", W, D, F);
  s.t[2] = f32_matrix("V", V, F, D);
  s.t[3] = f32_matrix("y", y, T, D);
  return s;
}

static void stand_free(stand *s) { close_plan(s->plan, s->program, s->context); }

static spc_plan_info described(const spc_plan *plan) {
  spc_plan_info info = {.struct_size = sizeof info};
  cr_assert_eq(spc_plan_describe(plan, &info, NULL), SPC_OK);
  return info;
}

static void runs(stand *s, const char *what) {
  memset(y, 0xff, sizeof y);
  cr_assert_eq(spc_run(s->plan, s->t, 4, &s->err), SPC_OK, "%s: %s", what, s->err.message);
  cr_expect(!memcmp(y, want, sizeof y), "%s: spc_run", what);
  memset(y, 0xff, sizeof y);
  cr_assert_eq(spc_plan_reserve(s->plan, s->t, 4, &s->err), SPC_OK, "%s: %s", what, s->err.message);
  cr_assert_eq(spc_enqueue(s->plan, s->t, 4, NULL, 0, NULL, &s->err), SPC_OK, "%s: %s", what,
               s->err.message);
  cr_expect(!memcmp(y, want, sizeof y), "%s: spc_enqueue", what);
}

Test(driver_tiers, what_runs_changes_in_prepare_alone) {
  stand s = stand_of("interp", 1); /* no tiers: and what is right */
  cr_expect_eq(spc_program_tuned(s.program, 0), 1);
  cr_expect_eq(described(s.plan).tier, SPC_TIER_TUNED);
  cr_assert_eq(spc_run(s.plan, s.t, 4, &s.err), SPC_OK, "%s", s.err.message);
  memcpy(want, y, sizeof y);
  stand_free(&s);
  if (!cg_cpu_available()) cr_skip("no LLVM");
  s = stand_of("cpu", 1);
  cr_expect_eq(described(s.plan).tier, SPC_TIER_GENERIC);
  cr_assert_eq(spc_plan_prepare(s.plan, &s.err), SPC_OK, "%s", s.err.message);
  spc_tier first = described(s.plan).tier; /* the tuned one may have come by now */
  runs(&s, "the first tier");
  cr_assert_eq(spc_program_tuned(s.program, -1), 1);
  runs(&s, "while the tuned tier waits");
  cr_expect_eq(described(s.plan).tier, first, "nothing changes before spc_plan_prepare");
  cr_expect_eq(described(s.plan).tuned_ready, first == SPC_TIER_GENERIC);
  size_t generic = described(s.plan).reserved_bytes;
  cr_expect_gt(generic, 0);
  cr_assert_eq(spc_plan_prepare(s.plan, &s.err), SPC_OK, "%s", s.err.message);
  spc_plan_info info = described(s.plan);
  cr_expect(info.tier == SPC_TIER_TUNED && info.prepared && !info.tuned_ready);
  if (first == SPC_TIER_GENERIC) cr_expect_eq(info.reserved_bytes, 0, "its workspace is another");
  runs(&s, "the tuned tier");
  cr_expect_str_eq(described(s.plan).kernel, "layer");
  spc_guard_info guard = {.struct_size = sizeof guard};
  if (info.guard_count) {
    cr_assert_eq(spc_plan_guard(s.plan, 0, &guard, NULL), SPC_OK);
    cr_expect_neq(guard.branch, SPC_BRANCH_NONE, "what the tuned run found");
  }
  spc_plan *later;
  cr_assert_eq(spc_plan_new(s.program, "layer", NULL, 0, &later, &s.err), SPC_OK);
  cr_expect_eq(described(later).tier, SPC_TIER_TUNED, "plans that are made now");
  spc_plan_free(later);
  stand_free(&s);
}

Test(driver_tiers, sizes_and_kernels_without_enqueue_go_along) {
  if (!cg_cpu_available()) cr_skip("no LLVM");
  stand s = stand_of("cpu", 1);
  spc_size size = {"Q", 5};
  spc_plan *ramp, *add;
  float in[3] = {1, 2, 3}, out[5];
  spc_tensor t[2] = {f32_matrix("x", in, 3, 1), f32_matrix("y", out, 5, 1)};
  t[0].rank = t[1].rank = 1;
  cr_assert_eq(spc_plan_new(s.program, "ramp", &size, 1, &ramp, &s.err), SPC_OK, "%s",
               s.err.message);
  cr_assert_eq(spc_plan_new(s.program, "add", NULL, 0, &add, &s.err), SPC_OK, "%s", s.err.message);
  for (int tuned = 0; tuned < 2; tuned++) {
    cr_assert_eq(spc_plan_prepare(ramp, &s.err), SPC_OK, "%s", s.err.message);
    cr_expect_eq(spc_plan_prepare(add, &s.err), SPC_UNAVAILABLE);
    cr_assert_eq(spc_run(ramp, t, 2, &s.err), SPC_OK, "%s", s.err.message);
    for (int q = 0; q < 5; q++) cr_expect_eq(out[q], (float)(6 * q));
    spc_program_tuned(s.program, -1);
  }
  cr_expect_eq(spc_plan_prepare(add, &s.err), SPC_UNAVAILABLE);
  cr_expect_eq(described(add).tier, SPC_TIER_TUNED);
  cr_expect_eq(described(ramp).tier, SPC_TIER_TUNED);
  spc_plan_free(ramp);
  spc_plan_free(add);
  stand_free(&s);
}

Test(driver_tiers, programs_end_while_their_second_tier_compiles) {
  if (!cg_cpu_available()) cr_skip("no LLVM");
  for (int i = 0; i < 3; i++) {
    stand s = stand_of("cpu", 1);
    if (i) spc_program_tuned(s.program, i * 3000);
    stand_free(&s);
  }
}

/* The two tiers add up in orders of their own. */
Test(driver_tiers, promised_bits_are_of_one_tier) {
  if (!cg_cpu_available()) cr_skip("no LLVM");
  for (int promise = 0; promise < 2; promise++) {
    stand s = {.err = SPC_ERROR_INIT};
    spc_program_options options = {.struct_size = sizeof options, .tiered = 1, .reproducible = !promise, .batch_invariant = promise};
    s.plan = open_kernel("cpu", 2, "spx 1; dim T: dyn; kernel k { in x: f32[T]; out y[] = sum[t] x[t]; }", "k", &options, &s.context, &s.program);
    cr_expect_eq(described(s.plan).tier, SPC_TIER_TUNED);
    cr_expect_eq(spc_program_tuned(s.program, 0), 1);
    stand_free(&s);
  }
}
