/* interp_ein_dot.c - the innermost loop of a sum of products of dense tensors, as strided walks.
 *
 * The same meaning as the general evaluator, some fifty times faster: subscripts that do not move
 * with the loop are evaluated once, the moving ones advance by a stride. */
#include "ir/interp_ein.h"

static node *strip_widening(node *n) {
  while (n->kind == IR_CAST && n->is_float && n->args[0]->is_float &&
         ir_dtype_rows[n->dtype].bits >= 32 &&
         ir_dtype_rows[n->args[0]->dtype].bits <= ir_dtype_rows[n->dtype].bits &&
         n->args[0]->kind == IR_ACCESS)
    n = n->args[0];
  return n;
}

static bool add_factor(dot *d, node *n, const ir_index *index, int slot) {
  n = strip_widening(n);
  if (n->kind == IR_OP && n->op == IR_OP_MUL && n->is_float)
    return add_factor(d, n->args[0], index, slot) && add_factor(d, n->args[1], index, slot);
  if (d->count == IR_COUNT(d->factor) || !n->is_float) return false;
  int64_t stride = 0;
  if (ir_expr_uses_index(n->expr, index)) {
    if (n->kind != IR_ACCESS || !n->tensor->dense) return false;
    for (int a = 0; a < n->count; a++) {
      if (n->sub_slot[a] == slot)
        stride += n->tensor->stride[a];
      else if (ir_expr_uses_index(n->expr->args[a], index))
        return false;
    }
  }
  d->factor[d->count] = n;
  d->moves[d->count] = ir_expr_uses_index(n->expr, index);
  d->stride[d->count++] = stride;
  return true;
}

void ein_compile_dot(interp *r, node *n) {
  if (n->reducer != IR_RED_SUM || !n->is_float || n->loop_count == 0) return;
  const loop *last = &n->loops[n->loop_count - 1];
  if (last->ragged && !last->inside) return;
  dot d = {0};
  if (!add_factor(&d, n->args[0], r->kernel->indices.at[last->slot], last->slot)) return;
  n->dot = IR_NEW(r->arena, dot);
  *n->dot = d;
}

/* The walk of one factor: its first position, or where it stands still its value. */
static bool start(interp *r, node *n, int slot, int64_t begin, int64_t end, const double **at) {
  int64_t p = 0;
  for (int a = 0; a < n->count; a++) {
    int64_t c = begin;
    if (n->sub_slot[a] == slot) {
      if (end > n->tensor->view.dim[a]) return false;
    } else if (!ein_subscript(r, n, a, &c)) {
      return false;
    }
    p += c * n->tensor->stride[a];
  }
  *at = n->tensor->f + p;
  return true;
}

static double products(const double *const *at, const int64_t *stride, int count, int64_t length,
                       bool strict) {
  double sum = 0;
  for (int64_t v = 0; v < length; v++) {
    double product = at[0][v * stride[0]];
    for (int f = 1; f < count; f++) {
      double factor = at[f][v * stride[f]];
      product = !strict && (product == 0 || factor == 0) ? 0 : product * factor;
    }
    sum += product;
  }
  return sum;
}

bool ein_dot(interp *r, node *n, int64_t begin, int64_t end, double *sum) {
  const dot *d = n->dot;
  const double *at[IR_COUNT(d->factor)];
  double still[IR_COUNT(d->factor)];
  int64_t length = end - begin;
  const loop *last = &n->loops[n->loop_count - 1];
  if (length <= 0) return true;
  for (int f = 0; f < d->count; f++) {
    if (d->moves[f]) {
      if (!start(r, d->factor[f], last->slot, begin, end, &at[f])) return false;
    } else {
      still[f] = node_float(r, d->factor[f]);
      at[f] = &still[f];
    }
  }
  r->steps += length - 1;
  if (!ein_step(r)) return true;
  *sum += products(at, d->stride, d->count, length, r->options && r->options->strict_nan);
  return true;
}
