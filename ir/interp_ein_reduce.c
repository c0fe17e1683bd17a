/* interp_ein_reduce.c - reductions, softmax and topk.
 *
 * A reduction over nothing gives the identity.  argmax takes the first of the largest, a NaN counts
 * as larger than any number; over several indices it gives the row-major position. */
#include <math.h>
#include <stdlib.h>

#include "ir/interp_ein.h"

/* ---- reductions: compile ------------------------------------------------------------------- */
void ein_compile_reduce(interp *r, node *n, const ir_expr *e) {
  bool *outside = IR_NEW_ARRAY(r->arena, bool, r->kernel->indices.count);
  memcpy(outside, r->known, sizeof(bool) * (size_t)r->kernel->indices.count);
  n->reducer = e->reducer;
  n->loop_count = e->bound_count;
  n->loops = ein_loops(r, e->bound, e->bound_count);
  n->args = IR_NEW_ARRAY(r->arena, node *, 1);
  n->args[0] = ein_compile(r, e->args[0]);
  n->is_float = n->args[0]->is_float && ir_dtype_is_float(e->dtype);
  n->wrap = !ir_dtype_is_int(e->dtype) ? IR_NONE
            : ir_dtype_is_int(r->acc)  ? r->acc
                                       : ir_dtype_rows[e->dtype].accumulator;
  memcpy(r->known, outside, sizeof(bool) * (size_t)r->kernel->indices.count);
  ein_compile_drive(r, n);
  if (!n->drive) ein_compile_dot(r, n);
}

/* ---- reductions: evaluate ------------------------------------------------------------------ */
typedef struct total {
  node *n;
  double f;
  int64_t i;
  int64_t seen, best; /* argmax: elements seen, position of the largest */
} total;

static bool is_larger(double a, double b) { return isnan(a) ? !isnan(b) : a > b; }

static void add_argmax(interp *r, total *t) {
  node *body = t->n->args[0];
  int64_t place = t->n->loop_count == 1 ? r->at[t->n->loops[0].slot] : t->seen;
  if (body->is_float) {
    double value = node_float(r, body);
    if (t->seen && !is_larger(value, t->f)) return;
    t->f = value;
  } else {
    int64_t value = node_int(r, body);
    if (t->seen && value <= t->i) return;
    t->i = value;
  }
  t->best = place;
}

static void add_element(interp *r, void *user) {
  total *t = user;
  node *body = t->n->args[0];
  if (!ein_step(r)) return;
  if (t->n->reducer == IR_RED_ARGMAX) {
    add_argmax(r, t);
  } else if (t->n->is_float) {
    double value = node_float(r, body);
    if (t->n->reducer == IR_RED_SUM)
      t->f += value;
    else
      t->f = ir_op_rows[ir_reducer_rows[t->n->reducer].combine].eval((double[]){t->f, value});
  } else {
    int64_t value = t->n->dtype == IR_B1 ? node_true(r, body) : node_int(r, body);
    t->i = ir_op_rows[ir_reducer_rows[t->n->reducer].combine].eval_int((int64_t[]){t->i, value});
    if (t->n->wrap) t->i = ir_dtype_wrap(t->n->wrap, t->i);
  }
  t->seen++;
}

static void reduce_loop(interp *r, total *t, int depth) {
  node *n = t->n;
  if (depth == n->loop_count) {
    add_element(r, t);
    return;
  }
  int64_t begin, end;
  const loop *l = &n->loops[depth];
  ein_loop_range(r, l, &begin, &end);
  if (n->dot && depth == n->loop_count - 1 && ein_dot(r, n, begin, end, &t->f)) return;
  for (int64_t v = begin; v < end && !r->status; v++) {
    if (depth + 1 < n->loop_count && !ein_step(r)) return;
    if (ein_loop_set(r, l, v))
      reduce_loop(r, t, depth + 1);
    else if (n->reducer == IR_RED_ARGMAX)
      t->seen++;
  }
}

static total reduce(interp *r, node *n) {
  total t = {.n = n, .best = -1};
  if (n->reducer != IR_RED_ARGMAX) {
    if (n->is_float)
      t.f = ir_reducer_rows[n->reducer].identity;
    else
      t.i = ir_reducer_identity_int(n->reducer, n->dtype);
  }
  if (n->drive)
    ein_drive(r, n, add_element, &t);
  else
    reduce_loop(r, &t, 0);
  return t;
}

double reduce_float(interp *r, node *n) { return reduce(r, n).f; }

int64_t reduce_int(interp *r, node *n) {
  total t = reduce(r, n);
  return n->reducer == IR_RED_ARGMAX ? t.best : t.i;
}

/* ---- softmax and topk: compile --------------------------------------------------------------- */
typedef struct ranked {
  double value;
  int64_t whole, place; /* whole: of integers, whose value is 0 */
} ranked;

void ein_compile_row(interp *r, node *n, const ir_expr *e) {
  ir_index *along = e->bound[0];
  row *w = IR_NEW(r->arena, row);
  n->args = IR_NEW_ARRAY(r->arena, node *, 1);
  n->args[0] = ein_compile(r, e->args[0]);
  n->is_float = e->kind == IR_SOFTMAX || n->args[0]->is_float;
  n->i = e->i;
  n->loop_count = 1;
  n->loops = ein_loops(r, &along, 1);
  w->along = n->loops[0].slot;
  w->extent = n->loops[0].extent;
  if (n->is_float) w->value = IR_NEW_ARRAY(r->arena, double, w->extent);
  else w->whole = IR_NEW_ARRAY(r->arena, int64_t, w->extent);
  if (e->kind == IR_TOPK) w->scratch = IR_NEW_ARRAY(r->arena, ranked, w->extent);
  int count = r->kernel->indices.count;
  w->key = IR_NEW_ARRAY(r->arena, int64_t, count);
  w->key_slot = IR_NEW_ARRAY(r->arena, int, count);
  for (int i = 0; i < count; i++)
    if (i != w->along &&
        (i == n->loops[0].segment_slot || ir_expr_depends_on(e->args[0], r->kernel->indices.at[i])))
      w->key_slot[w->key_count++] = i;
  n->row = w;
}

/* ---- softmax and topk: evaluate -------------------------------------------------------------- */
static bool same_row(const interp *r, const row *w) {
  if (!w->valid) return false;
  for (int k = 0; k < w->key_count; k++)
    if (w->key[k] != r->at[w->key_slot[k]]) return false;
  return true;
}

static void softmax(row *w) {
  double largest = -INFINITY, sum = 0;
  for (int64_t j = w->begin; j < w->end; j++)
    if (isnan(w->value[j]))
      largest = w->value[j];
    else if (!isnan(largest) && w->value[j] > largest)
      largest = w->value[j];
  for (int64_t j = w->begin; j < w->end; j++) {
    w->value[j] = largest == -INFINITY ? 0 : exp(w->value[j] - largest);
    sum += w->value[j];
  }
  for (int64_t j = w->begin; j < w->end && largest != -INFINITY; j++) w->value[j] /= sum;
}

static int compare_ranked(const void *a, const void *b) {
  const ranked *x = a, *y = b;
  if (is_larger(x->value, y->value)) return -1;
  if (is_larger(y->value, x->value)) return 1;
  if (x->whole != y->whole) return x->whole > y->whole ? -1 : 1;
  return (x->place > y->place) - (x->place < y->place);
}

static void topk(row *w, int64_t k) {
  ranked *all = w->scratch;
  int64_t count = w->end - w->begin;
  if (count <= 0) return;
  for (int64_t i = 0, j = w->begin; i < count; i++, j++)
    all[i] = (ranked){w->value ? w->value[j] : 0, w->whole ? w->whole[j] : 0, j};
  qsort(all, (size_t)count, sizeof *all, compare_ranked);
  for (int64_t j = k > 0 ? k : 0; j < count; j++)
    if (w->value) w->value[all[j].place] = 0;
    else w->whole[all[j].place] = 0;
}

static void fill_row(interp *r, node *n) {
  row *w = n->row;
  int64_t here = r->at[w->along];
  const loop *l = &n->loops[0];
  loop inside = *l;
  inside.inside = l->ragged != NULL;
  ein_loop_range(r, &inside, &w->begin, &w->end);
  for (int64_t j = w->begin; j < w->end && ein_step(r); j++) {
    r->at[w->along] = j;
    if (w->value) w->value[j] = node_float(r, n->args[0]);
    else w->whole[j] = node_int(r, n->args[0]);
  }
  r->at[w->along] = here;
  if (n->kind == IR_SOFTMAX)
    softmax(w);
  else
    topk(w, n->i);
  for (int k = 0; k < w->key_count; k++) w->key[k] = r->at[w->key_slot[k]];
  w->valid = true;
}

double row_float(interp *r, node *n) {
  const row *w = n->row;
  if (!same_row(r, w)) fill_row(r, n);
  int64_t at = r->at[w->along];
  return w->value ? w->value[at] : (double)w->whole[at];
}

int64_t row_int(interp *r, node *n) {
  if (!same_row(r, n->row)) fill_row(r, n);
  return n->row->whole[r->at[n->row->along]];
}
