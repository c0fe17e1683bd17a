/* bench_json.c - what a bench measured as one JSON object a kernel. */
#include <math.h>
#include <time.h>

#include "driver/bench.h"
#include "passes/explain.h"

static void put_key(ir_text *out, const char *name) {
  ir_text_json(out, name);
  ir_text_put(out, ":");
}

static void put_text(ir_text *out, const char *name, const char *text) {
  put_key(out, name);
  if (text)
    ir_text_json(out, text);
  else
    ir_text_put(out, "null");
}

static void put_number(ir_text *out, const char *name, double value) {
  put_key(out, name);
  if (isfinite(value))
    ir_text_printf(out, "%.9g", value);
  else
    ir_text_put(out, "null");
}

static void put_timing(ir_text *out, const char *name, const bench_timing *t) {
  put_key(out, name);
  if (!t->runs) {
    ir_text_put(out, "null");
    return;
  }
  ir_text_printf(out,
                 "{\"median_ms\":%.9g,\"quartiles_ms\":[%.9g,%.9g],\"best_ms\":%.9g,\"runs\":%d,",
                 t->median, t->low, t->high, t->best, t->runs);
  if (t->once > 0) {
    put_number(out, "once_ms", t->once);
    ir_text_put(out, ",");
  }
  put_number(out, "cover", t->cover < 0 ? NAN : t->cover);
  ir_text_put(out, ",");
  put_text(out, "branch", *t->branch ? t->branch : NULL);
  ir_text_put(out, "}");
}

static void put_check(ir_text *out, const bench_verdict *v) {
  ir_text_printf(out, "\"check\":{\"done\":%s,\"right\":%s,", v->done ? "true" : "false",
                 v->done && v->right ? "true" : "false");
  put_number(out, "error", v->error);
  ir_text_put(out, ",");
  put_text(out, "how", v->done ? v->how : v->why);
  ir_text_put(out, "}");
}

static void put_point(ir_text *out, const bench_point *p) {
  ir_text_put(out, "{");
  if (p->swept)
    ir_text_printf(out, "\"density\":%.9g,\"gran\":\"%dx%d\",", p->mask.density, p->mask.rows,
                   p->mask.cols);
  else
    ir_text_put(out, "\"density\":null,\"gran\":null,");
  put_text(out, "left_out", p->left_out);
  ir_text_put(out, ",");
  put_timing(out, "spc", &p->ours);
  ir_text_put(out, ",");
  put_timing(out, "dense", &p->dense);
  ir_text_put(out, ",");
  put_check(out, &p->check);
  ir_text_put(out, "}");
}

static void put_row(ir_text *out, const bench_row *r) {
  ir_text_put(out, "{");
  put_text(out, "statement", r->candidate->target->name);
  ir_text_put(out, ",");
  put_text(out, "label", r->candidate->label);
  ir_text_put(out, ",");
  put_text(out, "verdict", pass_explain_verdict(r->candidate->verdict));
  ir_text_put(out, ",");
  put_text(out, "left_out", r->left_out);
  ir_text_put(out, ",");
  put_number(out, "cover", r->cover < 0 ? NAN : r->cover);
  ir_text_put(out, ",");
  put_number(out, "predicted_microseconds", r->predicted);
  ir_text_put(out, ",");
  put_number(out, "measured_microseconds", r->left_out ? NAN : r->measured);
  ir_text_put(out, ",");
  put_number(out, "kernel_microseconds", r->left_out ? NAN : r->whole);
  ir_text_put(out, "}");
}

static void put_break_evens(bench *b, ir_text *out) {
  put_key(out, "break_even");
  ir_text_put(out, "[");
  for (int i = 0; i < b->grans.count && b->dense; i++) {
    const bench_mask *gran = &b->grans.at[i];
    ir_text_printf(out, "%s{\"gran\":\"%dx%d\",\"density\":%.9g}", i ? "," : "", gran->rows,
                   gran->cols, bench_break_even(b, gran->rows, gran->cols));
  }
  ir_text_put(out, "]");
}

static void put_sizes(bench *b, ir_text *out) {
  put_key(out, "sizes");
  ir_text_put(out, "{");
  for (int d = 0; d < b->s->program->dims.count; d++) {
    if (d) ir_text_put(out, ",");
    put_key(out, b->s->program->dims.at[d]->name);
    ir_text_printf(out, "%lld", (long long)b->sizes[d]);
  }
  ir_text_put(out, "}");
}

void bench_json(bench *b, ir_text *out) {
  ir_text_put(out, "{");
  put_text(out, "kernel", b->kernel->name);
  ir_text_put(out, ",");
  put_text(out, "target", b->target->name);
  ir_text_put(out, ",");
  put_text(out, "device", b->cuda ? rt_cuda_name(b->cuda) : cg_cpu_host());
  ir_text_printf(out, ",\"threads\":%d,\"caches\":\"%s\",\"time\":%lld,\n ", rt_pool_size(b->pool),
                 b->cold ? "cold" : "warm", (long long)time(NULL));
  put_sizes(b, out);
  ir_text_put(out, ",\n \"points\":[");
  for (int i = 0; i < b->points.count; i++) {
    ir_text_put(out, i ? ",\n  " : "\n  ");
    put_point(out, &b->points.at[i]);
  }
  ir_text_put(out, "],\n ");
  put_break_evens(b, out);
  ir_text_put(out, ",\n \"candidates\":[");
  for (int i = 0; i < b->rows.count; i++) {
    ir_text_put(out, i ? ",\n  " : "\n  ");
    put_row(out, &b->rows.at[i]);
  }
  ir_text_put(out, "]}");
}
