/* page_plot.c - two plots as SVG: what each stage does of what the machine could (a roofline), and
 * where a list stops to pay (time against cover). */
#include <math.h>

#include "driver/page.h"
#include "passes/explain.h"
#include "passes/stage.h"

enum { WIDTH = 560, HEIGHT = 320, LEFT = 64, RIGHT = 16, TOP = 16, BOTTOM = 46 };

typedef struct scale {
  double low, high, from, to;
  bool logarithmic;
} scale;

static double at(const scale *s, double value) {
  double share = s->logarithmic ? log(value / s->low) / log(s->high / s->low)
                                : (value - s->low) / (s->high - s->low);
  return s->from + (s->to - s->from) * share;
}

static void put_text(page *p, double x, double y, const char *anchor, const char *class,
                     const char *text) {
  ir_text_printf(&p->out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" class=\"%s\">", x, y,
                 anchor, class);
  page_put(p, text);
  page_raw(p, "</text>\n");
}

static void put_line(page *p, double x1, double y1, double x2, double y2, const char *class) {
  ir_text_printf(&p->out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"%s\"/>\n",
                 x1, y1, x2, y2, class);
}

static void put_tick(page *p, const scale *s, bool upright, double value, const char *text) {
  double place = at(s, value);
  if (upright) {
    put_line(p, LEFT, place, WIDTH - RIGHT, place, "grid");
    put_text(p, LEFT - 7, place + 4, "end", "tick", text);
  } else {
    put_line(p, place, TOP, place, HEIGHT - BOTTOM, "grid");
    put_text(p, place, HEIGHT - BOTTOM + 16, "middle", "tick", text);
  }
}

/* Powers of ten on a logarithmic scale, five steps on another. */
static void put_ticks(page *p, const scale *s, bool upright) {
  if (s->logarithmic) {
    for (int power = (int)ceil(log10(s->low) - 1e-9); power <= (int)floor(log10(s->high) + 1e-9);
         power++)
      put_tick(p, s, upright, pow(10, power), ir_format_text(p->arena, "%g", pow(10, power)));
    return;
  }
  double step = pow(10, floor(log10(s->high / 5)));
  while (s->high / step > 6) step *= s->high / step > 12 ? 2.5 : 2;
  for (double value = 0; value <= s->high * 1.0001; value += step)
    put_tick(p, s, upright, value, ir_format_text(p->arena, "%.4g", value));
}

static void open_plot(page *p, const scale *x, const scale *y, const char *across, const char *up,
                      const char *what) {
  ir_text_printf(&p->out, "<figure><svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", WIDTH,
                 HEIGHT);
  page_put(p, what);
  page_raw(p, "\">\n");
  put_ticks(p, x, false);
  put_ticks(p, y, true);
  ir_text_printf(&p->out, "<path class=\"axis\" d=\"M%d %dV%dH%d\"/>\n", LEFT, TOP, HEIGHT - BOTTOM,
                 WIDTH - RIGHT);
  put_text(p, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 8, "middle", "label", across);
  ir_text_printf(&p->out,
                 "<text transform=\"translate(14,%.1f) rotate(-90)\" text-anchor=\"middle\">",
                 (TOP + HEIGHT - BOTTOM) / 2.0);
  page_put(p, up);
  page_raw(p, "</text>\n");
}

static void close_plot(page *p, const char *caption) {
  page_raw(p, "</svg><figcaption>");
  page_put(p, caption);
  page_raw(p, "</figcaption></figure>\n");
}

/* ---- roofline -------------------------------------------------------------------------------- */
typedef struct work {
  const pass_context *context;
  IR_VEC(const ir_index *) indices;
  IR_VEC(const ir_tensor *) tensors;
  double points, bytes;
} work;

static void count_tensor(work *w, const ir_tensor *tensor) {
  for (int i = 0; i < w->tensors.count; i++)
    if (w->tensors.at[i] == tensor) return;
  IR_PUSH(w->context->arena, &w->tensors, tensor);
  w->bytes += pass_tensor_bytes(w->context, tensor);
}

static bool count_node(void *user, ir_expr *e) {
  work *w = user;
  if (e->kind == IR_ACCESS) count_tensor(w, e->tensor);
  if (e->kind != IR_INDEX) return true;
  for (int i = 0; i < w->indices.count; i++)
    if (w->indices.at[i] == e->index) return true;
  IR_PUSH(w->context->arena, &w->indices, e->index);
  return true;
}

/* All ragged rows together lie in the segments: who counts them does not count these. */
static bool holds_ragged(const work *w, const ir_index *segment) {
  for (int i = 0; i < w->indices.count; i++)
    if (w->indices.at[i]->segment == segment) return true;
  return false;
}

static work work_of(const pass_context *context, const ir_stmt *stmt) {
  work w = {.context = context, .points = 1};
  count_tensor(&w, stmt->target);
  for (int d = 0; d < stmt->target->rank; d++) ir_expr_walk(stmt->subs[d], count_node, &w);
  ir_expr_walk(stmt->value, count_node, &w);
  for (int i = 0; i < w.indices.count; i++)
    if (!holds_ragged(&w, w.indices.at[i])) w.points *= pass_index_assumed(context, w.indices.at[i]);
  return w;
}

static double peak_of(const page *p, ir_dtype dtype) {
  const pass_profile *f = p->profile;
  if (p->target->kind == IR_TARGET_CPU) {
    double core = p->target->vector_bits == 512   ? f->fma512_gflops
                  : p->target->vector_bits == 256 ? f->fma256_gflops
                                                  : f->fma128_gflops;
    return core * f->units / 1000 / (dtype == IR_F64 ? 2 : 1);
  }
  if (dtype == IR_F64) return f->fma64_tflops;
  if (ir_dtype_bytes(dtype) == 1) return f->mma8_tflops;
  if (ir_dtype_bytes(dtype) == 2)
    return f->wgmma16_tflops > 0 ? f->wgmma16_tflops : f->mma16_tflops;
  return f->fma32_tflops;
}

typedef struct dot {
  const char *name;
  double intensity, rate, peak;
} dot;

static bool dot_of(page *p, const pass_context *context, const ir_kernel *kernel,
                   const ir_stage *stage, dot *out) {
  if (stage->kind != IR_STAGE_COMPUTE || !stage->stmts.count || stage->microseconds <= 0)
    return false;
  const ir_stmt *stmt = ir_stage_stmt(stage);
  const ir_candidate *chosen = pass_candidate_of(kernel, stage);
  work w = work_of(context, stmt);
  bool listed = chosen && chosen->axis && !(stage->when.list && stage->when.above);
  double flops = 2 * w.points * (listed && chosen->cover > 0 ? chosen->cover : 1);
  const ir_tensor *operand = w.tensors.count > 1 ? w.tensors.at[1] : stmt->target;
  if (flops <= 0 || w.bytes <= 0 || operand->dtype == IR_NONE) return false;
  *out = (dot){stage->name, flops / w.bytes, flops / stage->microseconds / 1e6,
               peak_of(p, operand->dtype)};
  return out->peak > 0;
}

/* A number in a circle; to the right of its place where another circle would hide it. */
static void put_dot(page *p, double x, double y, int number, double *places) {
  enum { RADIUS = 9, STEP = 2 * RADIUS + 2 };
  double cx = x;
  for (int i = 0; i < number; i++)
    if (hypot(places[2 * i] - cx, places[2 * i + 1] - y) < STEP) cx = places[2 * i] + STEP, i = -1;
  places[2 * number] = cx, places[2 * number + 1] = y;
  ir_text_printf(
      &p->out,
      "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%d\" class=\"dot\"/><text x=\"%.1f\" y=\"%.1f\" "
      "text-anchor=\"middle\" class=\"number\">%d</text>\n",
      cx, y, RADIUS, cx, y + 4, number + 1);
}

static void put_roofline(page *p, const ir_kernel *kernel, const dot *dots, int count) {
  double peak = 0,
         bandwidth = p->profile->bandwidth_gbs / 1000; /* TB/s: TFLOP/s at 1 flop a byte */
  scale x = {0, 0, LEFT, WIDTH - RIGHT, true}, y = {0, 0, HEIGHT - BOTTOM, TOP, true};
  for (int i = 0; i < count; i++) peak = dots[i].peak > peak ? dots[i].peak : peak;
  double ridge = peak / bandwidth;
  x.low = ridge / 300, x.high = ridge * 60;
  y.low = peak / 1000, y.high = peak * 2;
  for (int i = 0; i < count; i++) {
    if (dots[i].intensity < x.low) x.low = dots[i].intensity / 2;
    if (dots[i].intensity > x.high) x.high = dots[i].intensity * 2;
    if (dots[i].rate < y.low) y.low = dots[i].rate / 2;
    if (dots[i].rate > y.high) y.high = dots[i].rate * 2;
  }
  open_plot(p, &x, &y, "operations a byte of operands", "TFLOP/s", "roofline");
  double start = y.low / bandwidth > x.low ? y.low / bandwidth : x.low;
  ir_text_printf(&p->out, "<path class=\"roof\" d=\"M%.1f %.1fL%.1f %.1fH%d\"/>\n", at(&x, start),
                 at(&y, start * bandwidth), at(&x, ridge), at(&y, peak), WIDTH - RIGHT);
  put_text(p, WIDTH - RIGHT - 4, at(&y, peak) - 6, "end", "label",
           ir_format_text(p->arena, "%.3g TFLOP/s", peak));
  put_text(p, at(&x, start * 6) + 8, at(&y, start * 6 * bandwidth) + 14, "start", "label",
           ir_format_text(p->arena, "%.0f GB/s", p->profile->bandwidth_gbs));
  double *places = IR_NEW_ARRAY(p->arena, double, 2 * count + 1);
  for (int i = 0; i < count; i++) {
    put_dot(p, at(&x, dots[i].intensity), at(&y, dots[i].rate), i, places);
    put_text(p, WIDTH - RIGHT - 8, HEIGHT - BOTTOM - 12 - 16 * (count - 1 - i), "end", "strong",
             ir_format_text(p->arena, "%d  %s, %.3g TFLOP/s", i + 1, dots[i].name, dots[i].rate));
  }
  close_plot(
      p, ir_format_text(
             p->arena,
             "Each stage of %s by the predicted time, against the profile of %s: the slope is "
             "memory, the level the peak of its operands' dtype. Work that lists skip is not "
             "counted. Of circles that would hide one another the later ones stand to the right.",
             kernel->name, p->profile->name));
}

/* ---- break-even ------------------------------------------------------------------------------ */
/* The sparse way is affine in the cover: time = nothing + slope * cover. */
typedef struct line {
  double nothing, slope, dense, meets; /* meets: where it costs as much as dense */
} line;

static line line_of(const ir_kernel *kernel, const ir_candidate *c) {
  line l = {.dense = pass_explain_dense_time(kernel, c)};
  double here = c->microseconds;
  bool two = c->guarded && c->break_even < 1 && fabs(c->break_even - c->cover) > 0.02;
  if (two)
    l.slope = (l.dense - here) / (c->break_even - c->cover);
  else if (c->cover > 0)
    l.slope = (here - c->index_microseconds) / c->cover;
  l.nothing = here - l.slope * c->cover;
  l.meets = c->guarded ? c->break_even : l.slope > 0 ? (l.dense - l.nothing) / l.slope : 1;
  return l;
}

static const char *verdict_text(page *p, const ir_candidate *c, const line *l) {
  if (c->guarded)
    return "Ring: the break-even that the guard compares with, at run time; in the shaded part "
           "lists run.";
  if (c->verdict == IR_CHOSEN)
    return "No guard stands here: the choice was made when it was compiled.";
  return ir_format_text(
      p->arena, "Lists were not chosen: over the densities that are assumed they take %s. %s",
      page_time(p, c->expected),
      l->meets > 0 && l->meets < 1 ? "Left of the ring they would be faster." : "");
}

/* The lines' names, at the end where the lines are farther apart, on the sides that look away from
 * the other line. */
static void put_names(page *p, const scale *y, const line *l, const char *dense,
                      const char *sparse) {
  double nothing = fmax(l->nothing, 0), full = l->nothing + l->slope;
  bool right = fabs(full - l->dense) >= fabs(nothing - l->dense);
  bool above = (right ? full : nothing) > l->dense; /* the sparse line's end */
  double place = right ? WIDTH - RIGHT - 6 : LEFT + 10;
  const char *anchor = right ? "end" : "start";
  double below = fmin(at(y, right ? full : nothing) + 18, HEIGHT - BOTTOM - 6);
  put_text(p, place, at(y, l->dense) + (above ? 18 : -8), anchor, "strong", dense);
  put_text(p, place, above ? at(y, right ? full : nothing) - 8 : below, anchor, "strong", sparse);
}

static void put_break_even(page *p, const ir_kernel *kernel, const ir_candidate *c) {
  line l = line_of(kernel, c);
  double full = l.nothing + l.slope, most = l.dense > full ? l.dense : full;
  bool meets = l.meets > 0 && l.meets <= 1;
  scale x = {0, 1, LEFT, WIDTH - RIGHT, false}, y = {0, most * 1.12, HEIGHT - BOTTOM, TOP, false};
  open_plot(p, &x, &y, "cover: share of micro-tiles that hold a non-zero", "microseconds",
            "break-even");
  if (c->guarded && meets)
    ir_text_printf(&p->out,
                   "<rect class=\"band\" x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\"/>\n", LEFT,
                   TOP, at(&x, l.meets) - LEFT, HEIGHT - BOTTOM - TOP);
  put_line(p, at(&x, 0), at(&y, l.nothing > 0 ? l.nothing : 0), at(&x, 1), at(&y, full), "sparse");
  put_line(p, at(&x, 0), at(&y, l.dense), at(&x, 1), at(&y, l.dense), "dense");
  put_names(p, &y, &l, ir_format_text(p->arena, "dense, %s", page_time(p, l.dense)),
            ir_format_text(p->arena, "lists of %s", c->operand->name));
  if (meets) {
    ir_text_printf(&p->out, "<circle class=\"mark\" cx=\"%.1f\" cy=\"%.1f\" r=\"7\"/>\n",
                   at(&x, l.meets), at(&y, l.dense));
    put_text(p, at(&x, l.meets) + (l.meets < 0.2 ? 10 : -10), at(&y, l.dense) + 24,
             l.meets < 0.2 ? "start" : "end", "strong", ir_format_text(p->arena, "%.3g", l.meets));
  }
  ir_text_printf(&p->out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"5\" class=\"dot\"/>\n",
                 at(&x, c->cover), at(&y, c->microseconds));
  close_plot(p,
             ir_format_text(
                 p->arena,
                 "%s: time against cover, by the model (%s). Dot: the cover that is assumed, %.2g, "
                 "from a density of %.3g. %s",
                 c->target->name, c->label, c->cover, c->density, verdict_text(p, c, &l)));
}

/* The lists that were chosen, else the best that were not. */
static const ir_candidate *lists_for(const ir_kernel *kernel, const ir_tensor *target) {
  const ir_candidate *best = NULL;
  for (int i = 0; i < kernel->candidates.count; i++) {
    const ir_candidate *c = kernel->candidates.at[i];
    if (c->target != target || !c->operand || !c->axis || c->microseconds <= 0) continue;
    if (c->verdict == IR_CHOSEN) return c;
    if (!best || c->expected < best->expected) best = c;
  }
  return best;
}

void page_plots(page *p, const ir_kernel *kernel) {
  pass_options options = {.target = p->target, .sizes = p->sizes};
  pass_context context = {p->s->program, p->arena, ir_sink_new(p->arena), &options, p->profile};
  dot *dots = IR_NEW_ARRAY(p->arena, dot, kernel->stages.count + 1);
  int count = 0;
  if (p->target->kind == IR_TARGET_INTERP) return;
  for (int i = 0; i < kernel->stages.count; i++)
    count += dot_of(p, &context, kernel, kernel->stages.at[i], &dots[count]);
  page_raw(p, "<h3>What it costs, and when lists pay</h3>\n<div class=\"figures\">\n");
  if (count) put_roofline(p, kernel, dots, count);
  for (int i = 0; i < kernel->candidates.count; i++) {
    const ir_candidate *c = kernel->candidates.at[i];
    if (c == lists_for(kernel, c->target)) put_break_even(p, kernel, c);
  }
  page_raw(p, "</div>\n");
}
