/* bench_svg.c - a chart a kernel: time against the share that is kept, both in logarithms, one line
 * a granularity, the dense program dashed, a ring at each break-even. */
#include <math.h>

#include "driver/bench.h"

enum { WIDTH = 840, HEIGHT = 440, LEFT = 84, RIGHT = 236, TOP = 56, BOTTOM = 60 };
static const char *const colours[] = {"#1f6fb2", "#c8500a", "#2a8a3e", "#8a3fa0",
                                      "#a8841a", "#b02a5b", "#17808a", "#5b5b5b"};

typedef struct scale {
  double low, high; /* of the data */
  double from, to;  /* on the page */
} scale;

static double place(const scale *s, double value) {
  return s->from + (s->to - s->from) * log(value / s->low) / log(s->high / s->low);
}

static void widen(scale *s, double value) {
  if (value <= 0) return;
  if (s->low <= 0 || value < s->low) s->low = value;
  if (value > s->high) s->high = value;
}

static bool is_plotted(const bench_point *p) {
  return p->swept && !p->left_out && p->mask.density > 0 && p->ours.median > 0;
}

static void fit(const bench *b, scale *x, scale *y) {
  *x = (scale){.from = LEFT, .to = WIDTH - RIGHT};
  *y = (scale){.from = HEIGHT - BOTTOM, .to = TOP};
  for (int i = 0; i < b->points.count; i++) {
    const bench_point *p = &b->points.at[i];
    if (!is_plotted(p)) continue;
    widen(x, p->mask.density);
    widen(y, p->ours.median);
    widen(y, p->dense.median);
  }
  if (x->high <= x->low) x->low /= 2, x->high *= 2;
  y->low /= 1.25;
  y->high *= 1.25;
}

/* ---- axes ------------------------------------------------------------------------------------ */
static void put_label(ir_text *out, double x, double y, const char *anchor, const char *colour,
                      const char *text) {
  ir_text_printf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" fill=\"%s\">", x, y, anchor,
                 colour);
  for (; *text; text++) {
    if (*text == '<')
      ir_text_put(out, "&lt;");
    else if (*text == '&')
      ir_text_put(out, "&amp;");
    else
      ir_text_putn(out, text, 1);
  }
  ir_text_put(out, "</text>\n");
}

static void put_line(ir_text *out, double x1, double y1, double x2, double y2, const char *style) {
  ir_text_printf(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" %s/>\n", x1, y1, x2,
                 y2, style);
}

static const char *grid = "stroke=\"#ddd\"";

/* 1, 2 and 5 of each power of ten. */
static void put_ticks(ir_text *out, const scale *s, bool upright, double unit, const char *suffix) {
  static const double steps[] = {1, 2, 5};
  int first = (int)floor(log10(s->low)), last = (int)ceil(log10(s->high));
  for (int power = first; power <= last; power++)
    for (int i = 0; i < IR_COUNT(steps); i++) {
      double value = steps[i] * pow(10, power);
      if (value < s->low * 0.999 || value > s->high * 1.001) continue;
      double at = place(s, value);
      const char *text = ir_format_text(out->arena, "%.4g%s", unit * value, suffix);
      if (upright) {
        put_line(out, LEFT, at, WIDTH - RIGHT, at, grid);
        put_label(out, LEFT - 8, at + 4, "end", "#333", text);
      } else {
        put_line(out, at, TOP, at, HEIGHT - BOTTOM, grid);
        put_label(out, at, HEIGHT - BOTTOM + 18, "middle", "#333", text);
      }
    }
}

static void put_axes(const bench *b, ir_text *out, const scale *x, const scale *y) {
  put_ticks(out, x, false, 100, " %");
  put_ticks(out, y, true, 1, "");
  ir_text_printf(
      out, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"none\" stroke=\"#333\"/>\n",
      LEFT, TOP, WIDTH - RIGHT - LEFT, HEIGHT - BOTTOM - TOP);
  put_label(out, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 18, "middle", "#333",
            "share that is kept (values that are not zero)");
  ir_text_printf(out,
                 "<text transform=\"translate(22,%.1f) rotate(-90)\" text-anchor=\"middle\" "
                 "fill=\"#333\">time, ms (median)</text>\n",
                 (TOP + HEIGHT - BOTTOM) / 2.0);
  const char *device = b->cuda ? rt_cuda_name(b->cuda) : cg_cpu_host();
  put_label(out, LEFT, 22, "start", "#000",
            ir_format_text(out->arena, "%s on %s%s", b->kernel->name, device,
                           b->pool && rt_pool_size(b->pool) > 1 ? ", several threads" : ""));
  ir_text sizes = ir_text_new(out->arena);
  for (int d = 0; d < b->s->program->dims.count; d++)
    ir_text_printf(&sizes, "%s%s = %lld", d ? ", " : "", b->s->program->dims.at[d]->name,
                   (long long)b->sizes[d]);
  ir_text_printf(&sizes, "; caches %s; ring: break-even with dense", b->cold ? "cold" : "warm");
  put_label(out, LEFT, 42, "start", "#555", sizes.data);
}

/* ---- lines ----------------------------------------------------------------------------------- */
static bool same_gran(const bench_point *p, const bench_mask *gran) {
  return p->mask.rows == gran->rows && p->mask.cols == gran->cols;
}

static void put_place(ir_text *out, const scale *x, const scale *y, double density, double time) {
  ir_text_printf(out, "%.1f,%.1f ", place(x, density), place(y, time));
}

static int put_curve(const bench *b, const bench_mask *gran, const char *style, const scale *x,
                     const scale *y, ir_text *out) {
  int count = 0;
  ir_text_printf(out, "<polyline fill=\"none\" %s points=\"", style);
  for (int i = 0; i < b->points.count; i++) {
    const bench_point *p = &b->points.at[i];
    if (!is_plotted(p) || !same_gran(p, gran)) continue;
    put_place(out, x, y, p->mask.density, p->ours.median);
    count++;
  }
  ir_text_put(out, "\"/>\n");
  return count;
}

static double dense_time(const bench *b, double density) {
  double least = 0;
  for (int i = 0; i < b->points.count; i++) {
    const bench_point *p = &b->points.at[i];
    if (!is_plotted(p) || p->mask.density != density || !p->dense.runs) continue;
    if (least <= 0 || p->dense.median < least) least = p->dense.median;
  }
  return least;
}

static void put_dense(const bench *b, const char *style, const scale *x, const scale *y,
                      ir_text *out) {
  ir_text_printf(out, "<polyline fill=\"none\" %s points=\"", style);
  for (int d = 0; d < b->densities.count; d++) {
    double time = dense_time(b, b->densities.at[d]);
    if (time > 0) put_place(out, x, y, b->densities.at[d], time);
  }
  ir_text_put(out, "\"/>\n");
}

/* The height of the curve at a density between two of its points. */
static double height_at(const bench *b, const bench_mask *gran, double density) {
  const bench_point *last = NULL;
  for (int i = 0; i < b->points.count; i++) {
    const bench_point *p = &b->points.at[i];
    if (!is_plotted(p) || !same_gran(p, gran)) continue;
    if (last && p->mask.density >= density && last->mask.density <= density) {
      double share = log(density / last->mask.density) / log(p->mask.density / last->mask.density);
      return exp((1 - share) * log(last->ours.median) + share * log(p->ours.median));
    }
    last = p;
  }
  return 0;
}

/* Returns what the legend says of it. */
static const char *put_ring(const bench *b, const bench_mask *gran, const char *colour,
                            const scale *x, const scale *y, ir_text *out) {
  double at = bench_break_even(b, gran->rows, gran->cols);
  double height = at > 0 && at < 1 ? height_at(b, gran, at) : 0;
  if (!b->dense) return "";
  if (at >= 1) return ": faster";
  if (height <= 0) return ": not faster";
  ir_text_printf(out,
                 "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"6\" fill=\"none\" stroke=\"%s\" "
                 "stroke-width=\"2\"/>\n",
                 place(x, at), place(y, height), colour);
  return ir_format_text(out->arena, ": faster to %.2g %%", 100 * at);
}

void bench_svg_open(ir_text *out, int charts) {
  ir_text_printf(out,
                 "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                 "viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"12\">\n"
                 "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
                 WIDTH, HEIGHT * charts, WIDTH, HEIGHT * charts);
}

void bench_svg_close(ir_text *out) { ir_text_put(out, "</svg>\n"); }

static void put_legend(ir_text *out, int line, const char *style, const char *text) {
  double y = TOP + 12 + 20 * line;
  put_line(out, WIDTH - RIGHT + 14, y - 4, WIDTH - RIGHT + 40, y - 4, style);
  put_label(out, WIDTH - RIGHT + 46, y, "start", "#333", text);
}

static const char *dashed = "stroke=\"#333\" stroke-width=\"1.5\" stroke-dasharray=\"6 4\"";

void bench_svg(bench *b, int place_from_top, ir_text *out) {
  scale x, y;
  int lines = 0;
  fit(b, &x, &y);
  ir_text_printf(out, "<g transform=\"translate(0,%d)\">\n", HEIGHT * place_from_top);
  if (y.low > 0) {
    put_axes(b, out, &x, &y);
    for (int i = 0; i < b->grans.count; i++) {
      const bench_mask *gran = &b->grans.at[i];
      const char *colour = colours[i % IR_COUNT(colours)];
      const char *style = ir_format_text(out->arena, "stroke=\"%s\" stroke-width=\"2\"", colour);
      if (!put_curve(b, gran, style, &x, &y, out)) continue;
      const char *ring = put_ring(b, gran, colour, &x, &y, out);
      put_legend(out, lines++, style,
                 ir_format_text(out->arena, "zeros of %dx%d%s", gran->rows, gran->cols, ring));
    }
    if (b->dense) {
      put_dense(b, dashed, &x, &y, out);
      put_legend(out, lines, dashed, "dense");
    }
  } else {
    put_label(out, LEFT, TOP, "start", "#333",
              ir_format_text(out->arena, "%s: no density was swept", b->kernel->name));
  }
  ir_text_put(out, "</g>\n");
}
