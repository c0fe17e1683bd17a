/* bench_candidates.c - every candidate that `explain` lists, run: predicted beside measured.
 *
 * Each is compiled anew with the choice pinned to it and its guard held at sparse, and timed on the
 * same operands: zeros of the density and granularity that the estimates took.  The time of a
 * candidate is that of its statement's stages: detection, guard and product. */
#include <math.h>

#include "driver/bench.h"

enum { STAGE_RUNS = 7 };
static const double MOST_SECONDS = 2; /* of one candidate */

static const ir_candidate *chosen_of(const ir_kernel *kernel, const char *target) {
  for (int i = 0; i < kernel->candidates.count; i++) {
    const ir_candidate *c = kernel->candidates.at[i];
    if (c->verdict == IR_CHOSEN && !strcmp(c->target->name, target)) return c;
  }
  return NULL;
}

static bool computes(const ir_stage *stage, const ir_candidate *candidate) {
  for (int i = 0; i < stage->stmts.count; i++)
    if (stage->kind == IR_STAGE_COMPUTE && stage->stmts.at[i]->target == candidate->target)
      return true;
  const ir_list *list = stage->kind == IR_STAGE_DETECT  ? stage->detects
                        : stage->kind == IR_STAGE_GUARD ? stage->reads.at[0]
                                                        : NULL;
  return list && list->tensor == candidate->operand && list->strip == candidate->strip;
}

/* The least of some runs: stages are timed one by one, and waiting between them adds noise. */
static spc_status time_stages(bench_side *side, const ir_candidate *candidate, bench_row *row) {
  for (int r = 0; r < STAGE_RUNS; r++) {
    rt_stats stats = {0};
    ir_bindings results = {0};
    double sum = 0;
    SPC_TRY(bench_side_fetch(side, &results, &stats));
    for (int i = 0; i < stats.stages.count && i < side->kernel->stages.count; i++) {
      if (!stats.stages.at[i].ran || !computes(side->kernel->stages.at[i], candidate)) continue;
      sum += 1e3 * stats.stages.at[i].milliseconds;
      if (stats.stages.at[i].cover >= 0 && candidate->axis) row->cover = stats.stages.at[i].cover;
    }
    if (!r || sum < row->measured) row->measured = sum;
  }
  return SPC_OK;
}

static spc_status time_whole(bench_side *side, bench_row *row) {
  double begin = drv_now_ms(), milliseconds;
  for (int r = 0; r < side->b->runs && (r < 3 || drv_now_ms() - begin < 1e3 * MOST_SECONDS); r++) {
    SPC_TRY(bench_side_time(side, &milliseconds));
    if (!r || 1e3 * milliseconds < row->whole) row->whole = 1e3 * milliseconds;
  }
  return SPC_OK;
}

static spc_status run_pinned(bench *b, bench_side *side, const char *label, bench_row *row) {
  const ir_candidate *taken = chosen_of(side->kernel, row->candidate->target->name);
  if (!taken || strcmp(taken->label, label)) {
    row->left_out = ir_format_text(b->arena, "it cannot be taken here%s%s",
                                   *row->candidate->why ? ": " : "", row->candidate->why);
    return SPC_OK;
  }
  SPC_TRY(bench_side_bind(side));
  SPC_TRY(time_whole(side, row));
  SPC_TRY(time_stages(side, taken, row));
  row->predicted = bench_side_predicted(side, taken, row->cover);
  return SPC_OK;
}

/* A candidate that cannot be compiled is left out with the reason, the others still run. */
static spc_status measure(bench *b, const ir_candidate *candidate) {
  pass_pin pin = {candidate->target->name, candidate->label};
  bench_row row = {.candidate = candidate, .predicted = candidate->microseconds, .cover = -1};
  bench_want want = {.label = candidate->label, .pin = &pin, .quiet = true};
  bench_side *side = NULL;
  spc_status status = SPC_OK;
  if (candidate->operand && !candidate->axis && !strcmp(candidate->row, "loop"))
    row.left_out = candidate->why;
  else if (bench_side_open(b, &want, &side))
    row.left_out = "it does not compile";
  else
    status = run_pinned(b, side, candidate->label, &row);
  bench_side_close(side);
  IR_PUSH(b->arena, &b->rows, row);
  return status;
}

/* What the hint of an input says that estimates go by; false: it has none. */
static bool hinted_mask(const ir_tensor *tensor, bench_mask *mask) {
  const ir_pattern *pattern = &tensor->pattern;
  double low = pattern->density_low, high = pattern->density_high;
  if (tensor->role != IR_ROLE_IN || high <= 0) return false;
  mask->density = low > 0 ? sqrt(low * high) : high / 2;
  mask->rows = pattern->gran_rows > 0 ? pattern->gran_rows : 1;
  mask->cols = pattern->gran_cols > 0 ? pattern->gran_cols : 1;
  return true;
}

/* What the estimates took, where they took anything. */
bench_mask bench_assumed_mask(const ir_kernel *kernel) {
  bench_mask mask = {.density = 0.1, .rows = 1, .cols = 1};
  for (int i = 0; i < kernel->tensors.count; i++)
    if (hinted_mask(kernel->tensors.at[i], &mask)) break;
  for (int i = kernel->candidates.count; i-- > 0;) {
    const ir_candidate *c = kernel->candidates.at[i];
    if (!c->operand || !c->axis) continue;
    const ir_pattern *pattern = &c->operand->pattern;
    mask.density = c->density;
    mask.rows = pattern->gran_rows > 0 ? pattern->gran_rows : 1;
    mask.cols = pattern->gran_cols > 0 ? pattern->gran_cols : 1;
  }
  return mask;
}

spc_status bench_candidates(bench *b) {
  bench_mask mask = bench_assumed_mask(b->ours->kernel);
  const char *why = "";
  if (bench_sweeps(b)) {
    if (bench_data_fill(b, &mask, true, &why)) {
      bench_note(b, "no candidates: %s", why);
      return SPC_OK;
    }
    bench_note(b, "candidates: %.3g %% kept, zeros of %dx%d", 100 * mask.density, mask.rows,
               mask.cols);
  }
  for (int i = 0; i < b->ours->kernel->candidates.count; i++)
    SPC_TRY(measure(b, b->ours->kernel->candidates.at[i]));
  return SPC_OK;
}
