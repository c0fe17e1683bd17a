/* bench_table.c - the text of `spc bench`, printed as it is measured. */
#include <math.h>

#include "driver/bench.h"
#include "passes/cost.h"
#include "passes/explain.h"

static const char *time_text(bench *b, double milliseconds) {
  return pass_time_text(b->arena, 1e3 * milliseconds);
}

static const bench_point *next_point(const bench *b, int rows, int cols, int *i);

static const char *timing_text(bench *b, const bench_timing *t) {
  return ir_format_text(b->arena, "%s (%.0f %%)", time_text(b, t->median),
                        t->median > 0 ? 100 * (t->high - t->low) / t->median : 0.0);
}

void bench_table_head(bench *b) {
  ir_text line = ir_text_new(b->arena);
  pass_explain_line(b->ours->program, b->ours->kernel, &line);
  puts(line.data);
  printf("  %s, caches %s", b->cuda ? rt_cuda_name(b->cuda) : cg_cpu_host(),
         b->cold ? "cold" : "warm");
  int threads = rt_pool_size(b->pool);
  if (b->backend == DRV_CPU) printf(", %d thread%s", threads, threads == 1 ? "" : "s");
  printf("; at most %d runs by turns, median (quartile range); every run has another mask\n",
         b->runs);
  for (int i = 0; i < b->notes.count; i++) printf("  %s\n", b->notes.at[i]);
  b->notes.count = 0;
  printf("\n  %8s %8s  %-18s %-18s %8s %7s %7s %5s  %s\n", "kept", "zeros of", "spc", "dense",
         "speed-up", "cover", "branch", "runs", "check");
  fflush(stdout);
}

static const char *check_text(bench *b, const bench_verdict *v) {
  if (!v->done) return ir_format_text(b->arena, "not checked: %s", v->why);
  return ir_format_text(b->arena, "%s, error %.1e", v->right ? "right" : "WRONG", v->error);
}

void bench_table_point(bench *b, const bench_point *p) {
  const char *kept =
      p->swept ? ir_format_text(b->arena, "%.3g %%", 100 * p->mask.density) : "as bound";
  const char *gran = p->swept ? ir_format_text(b->arena, "%dx%d", p->mask.rows, p->mask.cols) : "-";
  if (p->left_out) {
    printf("  %8s %8s  left out: %s\n", kept, gran, p->left_out);
    return;
  }
  bool both = p->dense.runs > 0;
  const char *cover = p->ours.cover >= 0 ? ir_format_text(b->arena, "%.2g", p->ours.cover) : "-";
  printf("  %8s %8s  %-18s %-18s %8s %7s %7s %5d  %s\n", kept, gran, timing_text(b, &p->ours),
         both ? timing_text(b, &p->dense) : "-",
         both ? ir_format_text(b->arena, "%.3g", p->dense.median / p->ours.median) : "-", cover,
         *p->ours.branch ? p->ours.branch : "-", p->ours.runs, check_text(b, &p->check));
  if (p->check.done && !p->check.right) printf("           %s\n", p->check.why);
  fflush(stdout);
}

static void put_break_even(bench *b, const bench_mask *gran) {
  int i = -1;
  if (!next_point(b, gran->rows, gran->cols, &i)) return;
  double at = bench_break_even(b, gran->rows, gran->cols);
  printf("  zeros of %dx%d: ", gran->rows, gran->cols);
  if (at <= 0)
    puts("not faster than dense at any density measured");
  else if (at >= 1)
    puts("faster than dense at every density measured");
  else
    printf("faster than dense up to %.2g %% kept\n", 100 * at);
}

static void put_once(bench *b) {
  double least = 0, most = 0;
  for (int i = 0; i < b->points.count; i++) {
    double once = b->points.at[i].ours.once;
    if (once > 0 && (least == 0 || once < least)) least = once;
    if (once > most) most = once;
  }
  if (most <= 0) return;
  printf("  made once from const inputs (spc_plan_pack), not in these times: %s",
         time_text(b, least));
  if (most > 1.05 * least) printf(" to %s", time_text(b, most));
  puts("");
}

void bench_table_end(bench *b) {
  const bench_point *first = NULL;
  for (int i = 0; i < b->points.count && !first; i++)
    if (b->points.at[i].check.done) first = &b->points.at[i];
  puts("");
  if (b->dense)
    for (int i = 0; i < b->grans.count; i++) put_break_even(b, &b->grans.at[i]);
  put_once(b);
  if (first) printf("  checked: %s\n", first->check.how);
}

static int label_width(const bench *b) {
  int width = 34;
  for (int i = 0; i < b->rows.count; i++) {
    int length = (int)strlen(b->rows.at[i].candidate->label);
    if (length > width) width = length;
  }
  return width;
}

void bench_table_candidates(bench *b) {
  for (int i = 0; i < b->notes.count; i++) printf("\n  %s\n", b->notes.at[i]);
  b->notes.count = 0;
  int width = label_width(b);
  printf("\n  %-10s %-*s %-10s %7s %10s %10s %6s  %s\n", "statement", width, "candidate", "verdict",
         "cover", "predicted", "measured", "ratio", "kernel");
  for (int i = 0; i < b->rows.count; i++) {
    const bench_row *r = &b->rows.at[i];
    printf("  %-10s %-*s %-10s ", r->candidate->target->name, width, r->candidate->label,
           pass_explain_verdict(r->candidate->verdict));
    if (r->left_out) {
      printf("not run: %s\n", r->left_out);
      continue;
    }
    const char *cover = r->cover >= 0 ? ir_format_text(b->arena, "%.2g", r->cover) : "-";
    printf("%7s %10s %10s %6.2f  %s\n", cover, pass_time_text(b->arena, r->predicted),
           pass_time_text(b->arena, r->measured), r->measured / fmax(1e-9, r->predicted),
           pass_time_text(b->arena, r->whole));
  }
}

/* ---- break-even ------------------------------------------------------------------------------ */
/* Less than this share apart counts as even: two sides that run the same code differ by as much. */
static const double EVEN = 0.04;

static double gain(const bench_point *p) { return log(p->dense.median / p->ours.median); }

static const bench_point *next_point(const bench *b, int rows, int cols, int *i) {
  while (++*i < b->points.count) {
    const bench_point *p = &b->points.at[*i];
    bool both = p->swept && !p->left_out && p->dense.runs && p->ours.median > 0;
    if (both && p->mask.rows == rows && p->mask.cols == cols) return p;
  }
  return NULL;
}

static double crossing(const bench_point *faster, const bench_point *p) {
  if (gain(p) >= 0) return p->mask.density;
  double share = gain(faster) / (gain(faster) - gain(p));
  return exp(log(faster->mask.density) +
             share * (log(p->mask.density) - log(faster->mask.density)));
}

/* One point that is not faster may be noise; two in a row, or the last one, are the end of it. */
double bench_break_even(const bench *b, int rows, int cols) {
  const bench_point *faster = NULL, *p, *after = NULL;
  for (int i = -1; (p = next_point(b, rows, cols, &i));) {
    if (gain(p) > EVEN)
      faster = p, after = NULL;
    else if (!after)
      after = p;
    else
      break;
  }
  if (!faster) return 0;
  return after ? crossing(faster, after) : 1;
}
