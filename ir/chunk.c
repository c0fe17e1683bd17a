/* chunk.c - the size along which a kernel can be run piece by piece.
 *
 * A dynamic size whose index is the outermost one of every result, and along which no statement sums, shifts or counts: rows of the
 * results then depend on the same rows of the inputs, and on inputs without that size.  Whoever runs the kernel for some of the rows,
 * with that size set to their number, gets these rows. */
#include "ir/ir.h"

static bool is_size(const ir_expr *e, const ir_dim *dim) { return e && e->kind == IR_DIM && e->dim == dim; }

/* What no caller knows may have room for more rows than there are. */
static bool has_rows(const ir_tensor *t, const ir_dim *dim) {
  return t->rank > 0 && is_size(ir_tensor_extent(t, 0), dim);
}

static bool uses(const ir_expr *e, const ir_dim *dim) { return e && ir_expr_uses_dim(e, dim); }

/* Rows that are given or asked for follow one another in memory; or the size is none of the tensor's. */
static bool lies_in_rows(const ir_tensor *t, const ir_dim *dim) {
  for (int d = 0; d < t->rank; d++)
    if (uses(t->dim[d], dim) && (d > 0 || !has_rows(t, dim))) return false;
  if (!has_rows(t, dim)) return true;
  for (int l = 0; t->pitch[0] && l + 1 < t->rank; l++)
    if (uses(t->pitch[l], dim)) return false;
  bool dense = !t->format || ir_format_is_dense(t->format), given = t->role == IR_ROLE_IN || t->role == IR_ROLE_OUT;
  return dense && !t->like && !t->constant && !(given && t->format && t->format->level[0].dim != 0);
}

/* Nothing in e but rows `row` of tensors with rows depends on the size; row NULL: nothing at all does. */
static bool stays_in_row(const ir_expr *e, const ir_dim *dim, const ir_index *row) {
  int first = 0;
  if (!e) return true;
  if (is_size(e, dim)) return false;
  if (e->kind == IR_INDEX) return !uses(e->index->extent, dim);
  for (int i = 0; i < e->bound_count; i++)
    if (uses(e->bound[i]->extent, dim)) return false;
  if (e->kind == IR_ACCESS && has_rows(e->tensor, dim)) {
    if (!row || !ir_is_bare(e->args[0], row)) return false;
    first = 1;
  }
  for (int i = first; i < e->arg_count; i++)
    if (!stays_in_row(e->args[i], dim, row)) return false;
  return true;
}

/* *row: the statement's index of that size, NULL: it has none. */
static bool find_row(const ir_stmt *stmt, const ir_dim *dim, const ir_index **row) {
  *row = NULL;
  for (int i = 0; i < stmt->free.count; i++) {
    const ir_index *index = stmt->free.at[i];
    if (!uses(index->extent, dim)) continue;
    if (*row || index->offsets || !is_size(index->extent, dim)) return false;
    *row = index;
  }
  return true;
}

static bool is_by_rows(const ir_stmt *stmt, const ir_dim *dim) {
  const ir_index *row;
  if (!find_row(stmt, dim, &row)) return false;
  if (!row != !has_rows(stmt->target, dim) || (row && (ir_is_scatter(stmt) || !ir_is_bare(stmt->subs[0], row)))) return false;
  for (int d = row ? 1 : 0; d < stmt->target->rank; d++)
    if (!stays_in_row(stmt->subs[d], dim, row)) return false;
  return stays_in_row(stmt->value, dim, row) && stays_in_row(stmt->cond, dim, row) && stays_in_row(stmt->sample, dim, row) &&
         stays_in_row(stmt->support, dim, row);
}

static bool fits(const ir_kernel *kernel, const ir_dim *dim) {
  for (int i = 0; i < kernel->tensors.count; i++) {
    const ir_tensor *t = kernel->tensors.at[i];
    if (!lies_in_rows(t, dim) || (t->role == IR_ROLE_OUT && !has_rows(t, dim))) return false;
  }
  for (int i = 0; i < kernel->indices.count; i++)
    if (kernel->indices.at[i]->offsets && uses(kernel->indices.at[i]->extent, dim)) return false;
  for (int i = 0; i < kernel->stmts.count; i++)
    if (!is_by_rows(kernel->stmts.at[i], dim)) return false;
  return true;
}

const ir_dim *ir_chunk_dim(const ir_kernel *kernel) {
  for (int i = 0; i < kernel->tensors.count; i++) {
    const ir_tensor *t = kernel->tensors.at[i];
    if (t->role != IR_ROLE_OUT) continue;
    const ir_dim *dim = t->rank && t->dim[0]->kind == IR_DIM && t->dim[0]->dim->value < 0 ? t->dim[0]->dim : NULL;
    return dim && fits(kernel, dim) ? dim : NULL; /* every result has it: the first one says which */
  }
  return NULL;
}
