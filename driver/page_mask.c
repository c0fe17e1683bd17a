/* page_mask.c - where a tensor is not zero: a raster of its rows and columns, and its cover by the
 * micro-tiles of the lists that read it. */
#include <stdlib.h>

#include "driver/page.h"

enum { MOST_ROWS = 64, MOST_COLS = 128, CELL = 6 };

typedef struct raster {
  int rows, cols;     /* of the picture */
  int64_t high, wide; /* of the tensor, its last axis across */
  int64_t *count;     /* non-zeros a cell */
  int64_t strip, gran,
      across; /* micro-tiles: `strip` rows by `gran` columns; across: a row of them */
  unsigned char *tiles;
  int64_t nonzeros;
  const ir_view *view;
} raster;

static bool mark(void *user, const int64_t *at, int64_t position) {
  raster *r = user;
  const ir_view *view = r->view;
  if (view->dtype != IR_NONE && ir_dtype_load(view->dtype, view->vals.data, position) == 0)
    return true;
  int64_t row = 0, col = at[view->rank - 1];
  for (int d = 0; d + 1 < view->rank; d++) row = row * view->dim[d] + at[d];
  r->nonzeros++;
  r->count[row * r->rows / r->high * r->cols + col * r->cols / r->wide]++;
  if (r->tiles) r->tiles[row / r->strip * r->across + col / r->gran] = 1;
  return true;
}

/* The micro-tiles of the list that the chosen way reads the tensor by; rows are strips. */
static const ir_candidate *lists_of(const ir_kernel *kernel, const ir_tensor *tensor) {
  for (int i = 0; i < kernel->candidates.count; i++) {
    const ir_candidate *c = kernel->candidates.at[i];
    if (c->verdict == IR_CHOSEN && c->axis && c->operand && !strcmp(c->operand->name, tensor->name))
      return c;
  }
  return NULL;
}

static bool open_raster(page *p, const page_mask *m, const ir_candidate *c, raster *r) {
  const ir_view *v = &m->view;
  *r = (raster){.view = v, .high = 1};
  if (v->rank < 1) return false;
  for (int d = 0; d + 1 < v->rank; d++) r->high *= v->dim[d];
  r->wide = v->dim[v->rank - 1];
  if (r->high <= 0 || r->wide <= 0) return false;
  r->rows = r->high < MOST_ROWS ? (int)r->high : MOST_ROWS;
  r->cols = r->wide < MOST_COLS ? (int)r->wide : MOST_COLS;
  r->count = IR_NEW_ARRAY(p->arena, int64_t, r->rows * r->cols);
  if (!c || v->rank != 2) return true;
  r->strip = c->strip > 0 && c->strip_index ? c->strip : r->high;
  r->gran = c->gran > 0 ? c->gran : 1;
  r->across = (r->wide + r->gran - 1) / r->gran;
  r->tiles = calloc((size_t)((r->high + r->strip - 1) / r->strip), (size_t)r->across);
  return true;
}

static double cover_of(const raster *r) {
  int64_t all = (r->high + r->strip - 1) / r->strip * r->across, held = 0;
  for (int64_t i = 0; i < all; i++) held += r->tiles[i];
  return (double)held / (double)all;
}

/* Share of a cell's elements that are not zero. */
static double share_of(const raster *r, int i, int k) {
  int64_t high = (i + 1) * r->high / r->rows - i * r->high / r->rows;
  int64_t wide = (k + 1) * r->wide / r->cols - k * r->wide / r->cols;
  return (double)r->count[i * r->cols + k] / (double)(high * wide > 0 ? high * wide : 1);
}

static void put_cells(page *p, const raster *r) {
  double most = 0;
  for (int i = 0; i < r->rows; i++)
    for (int k = 0; k < r->cols; k++)
      if (share_of(r, i, k) > most) most = share_of(r, i, k);
  ir_text_printf(&p->out, "<rect class=\"empty\" width=\"%d\" height=\"%d\"/>\n", r->cols * CELL,
                 r->rows * CELL);
  for (int i = 0; i < r->rows; i++)
    for (int k = 0; k < r->cols; k++) {
      double share = share_of(r, i, k) / most;
      if (share > 0)
        ir_text_printf(&p->out,
                       "<rect class=\"cell\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" "
                       "opacity=\"%.2f\"/>\n",
                       k * CELL, i * CELL, CELL, CELL, 0.15 + 0.85 * share);
    }
}

static void put_mask(page *p, const ir_kernel *kernel, const page_mask *m) {
  raster r;
  const ir_candidate *c = lists_of(kernel, m->tensor);
  if (!open_raster(p, m, c, &r)) return;
  ir_view_walk(&m->view, mark, &r);
  ir_text_printf(&p->out,
                 "<figure><svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"non-zeros of ",
                 r.cols * CELL, r.rows * CELL);
  page_put(p, m->tensor->name);
  page_raw(p, "\">\n");
  put_cells(p, &r);
  page_raw(p, "</svg><figcaption><code>");
  page_put(p, m->tensor->name);
  page_raw(p, "</code> from <code>");
  page_put(p, m->source);
  ir_text_printf(&p->out, "</code>: %lld by %lld, %lld non-zeros, density %.3g.", (long long)r.high,
                 (long long)r.wide, (long long)r.nonzeros,
                 (double)r.nonzeros / ((double)r.high * (double)r.wide));
  if (r.tiles) {
    double cover = cover_of(&r);
    ir_text_printf(&p->out,
                   " Of its micro-tiles of %lld by %lld, %.3g %% hold one: a cover of %.3g",
                   (long long)r.strip, (long long)r.gran, 100 * cover, cover);
    if (c->guarded)
      ir_text_printf(&p->out, ", %s the break-even of %.3g, so the %s branch runs",
                     cover < c->break_even ? "below" : "at or above", c->break_even,
                     cover < c->break_even ? "sparse" : "dense");
    page_raw(p, ".");
  }
  page_raw(p, " Darker cells hold more.</figcaption></figure>\n");
  free(r.tiles);
}

void page_masks(page *p, const ir_kernel *kernel) {
  int shown = 0;
  for (int i = 0; i < p->masks.count; i++) {
    if (strcmp(p->masks.at[i].kernel, kernel->name)) continue;
    if (!shown++) page_raw(p, "<h3>Where the zeros are</h3>\n<div class=\"figures\">\n");
    put_mask(p, kernel, &p->masks.at[i]);
  }
  if (shown) page_raw(p, "</div>\n");
}
