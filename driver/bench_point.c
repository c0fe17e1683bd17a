/* bench_point.c - repetitions of one point by turns: new values, then every side once, in an order
 * that rotates, until there are enough runs or the time is up. */
#include <stdlib.h>

#include "driver/bench.h"

enum { LEAST_RUNS = 5, SIDES = 2 };
static const double PATIENCE = 10; /* so many times its time a point may take for the least runs */

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static double quantile(const double *sorted, int count, double share) {
  double at = share * (count - 1);
  int low = (int)at;
  return low + 1 < count ? sorted[low] + (at - low) * (sorted[low + 1] - sorted[low]) : sorted[low];
}

static bench_timing summary(double *times, int count) {
  qsort(times, (size_t)count, sizeof *times, by_size);
  return (bench_timing){.runs = count,
                        .median = quantile(times, count, 0.5),
                        .low = quantile(times, count, 0.25),
                        .high = quantile(times, count, 0.75),
                        .best = times[0],
                        .cover = -1,
                        .branch = ""};
}

/* What the guard said and how much the list covered, from one more run. */
static spc_status take_stats(bench_side *side, bench_timing *timing) {
  rt_stats stats = {0};
  ir_bindings results = {0};
  SPC_TRY(bench_side_bind(side));
  SPC_TRY(bench_side_fetch(side, &results, &stats));
  for (int i = 0; i < stats.stages.count && i < side->kernel->stages.count; i++) {
    const ir_stage *stage = side->kernel->stages.at[i];
    if (stats.stages.at[i].cover > timing->cover) timing->cover = stats.stages.at[i].cover;
    if (stage->when.list && stats.stages.at[i].ran)
      timing->branch = stage->when.above ? "dense" : "sparse";
  }
  return SPC_OK;
}

typedef struct turns {
  bench *b;
  bench_point *point;
  bench_side *sides[SIDES];
  double *times[SIDES];
  int count, done;
} turns;

static spc_status repetition(turns *t) {
  const char *why = "";
  if (t->point->swept && bench_data_fill(t->b, &t->point->mask, t->done == 0, &why)) {
    t->point->left_out = ir_strdup(t->b->arena, why);
    return SPC_OK;
  }
  for (int k = 0; k < t->count; k++) {
    int side = (k + t->done) % t->count;
    SPC_TRY(t->done && !t->point->swept ? SPC_OK : bench_side_update(t->sides[side]));
    SPC_TRY(bench_side_time(t->sides[side], &t->times[side][t->done]));
  }
  t->done++;
  return SPC_OK;
}

spc_status bench_point_measure(bench *b, bench_point *point, double seconds) {
  turns t = {.b = b, .point = point, .sides = {b->ours, b->dense}, .count = b->dense ? 2 : 1};
  double begin = drv_now_ms();
  b->ours->once_timed = false;
  for (int i = 0; i < t.count; i++) t.times[i] = IR_NEW_ARRAY(b->arena, double, b->runs + 1);
  while (t.done < b->runs && !point->left_out) {
    double spent = (drv_now_ms() - begin) / 1e3;
    if (t.done && spent > seconds && (t.done >= LEAST_RUNS || spent > PATIENCE * seconds)) break;
    SPC_TRY(repetition(&t));
  }
  if (point->left_out) return SPC_OK;
  point->ours = summary(t.times[0], t.done);
  point->ours.once = b->ours->once_timed ? b->ours->once : 0;
  if (b->dense) point->dense = summary(t.times[1], t.done);
  SPC_TRY(bench_check(b, &point->check));
  return take_stats(b->ours, &point->ours);
}
