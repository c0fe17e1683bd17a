/* roles.c - see roles.h. */
#include "ir/roles.h"

/* ---- where an index lies --------------------------------------------------------------------- */
typedef struct matrix {
  const ir_tensor *tensor;
  ir_expr *const *subs;
} matrix;

static int dim_of(const matrix *x, const ir_index *index) {
  for (int d = 0; d < x->tensor->rank; d++)
    if (ir_is_bare(x->subs[d], index)) return d;
  return -1;
}

/* Its place among the dimensions from the slowest to the fastest. */
static int level_of(const matrix *x, const ir_index *index) {
  const ir_format *format = x->tensor->format;
  int d = dim_of(x, index);
  for (int l = 0; d >= 0 && format && l < format->level_count; l++)
    if (format->level[l].dim == d) return l;
  return d;
}

/* What the inner ones reach are whole dimensions, which follow one another. */
static bool follow_on(const matrix *x, ir_index *const *index, int count) {
  if (count > 1 && x->tensor->pitch[0]) return false;
  for (int i = 0; i < count; i++) {
    int d = dim_of(x, index[i]);
    if (d < 0 || level_of(x, index[i]) != level_of(x, index[0]) + i) return false;
    if (i && !ir_expr_equal(index[i]->extent, x->tensor->dim[d])) return false;
  }
  return true;
}

/* ---- roles ----------------------------------------------------------------------------------- */
bool ir_flat_has(const ir_flat *role, const ir_index *index) {
  for (int i = 0; i < role->count; i++)
    if (role->at[i] == index) return true;
  return false;
}

ir_index *ir_flat_last(const ir_flat *role) { return role->count ? role->at[role->count - 1] : NULL; }

ir_expr *ir_flat_size(ir_arena *arena, const ir_flat *role) {
  ir_expr *size = role->count ? role->at[0]->extent : ir_int(arena, 1);
  for (int i = 1; i < role->count; i++) size = ir_apply(arena, IR_OP_MUL, size, role->at[i]->extent);
  return size;
}

static bool has(const matrix *x, const ir_index *index) { return dim_of(x, index) >= 0; }

/* At most; what nothing bounds counts as endless. */
static int64_t length_of(const ir_index *index) {
  int64_t bound;
  return ir_size_bound(index->extent, &bound) ? bound : INT64_MAX;
}

static int longest(const ir_flat *all) {
  int best = all->count - 1;
  for (int i = best - 1; i >= 0; i--)
    if (length_of(all->at[i]) > length_of(all->at[best])) best = i;
  return best;
}

/* The index that must not be left out: the one whose elements lie side by side, in T or else in the operand; else the longest, of
 * several the last. */
static int nearest(const ir_flat *all, const matrix *t, const matrix *operand) {
  for (int i = 0; i < all->count; i++)
    if (level_of(t, all->at[i]) == t->tensor->rank - 1) return i;
  for (int i = 0; i < all->count; i++)
    if (level_of(operand, all->at[i]) == operand->tensor->rank - 1) return i;
  return longest(all);
}

/* Its number is compared or reckoned with, outside of subscripts. */
static bool asks_for(const ir_expr *e, const ir_index *index) {
  if (!e || e->kind == IR_ACCESS) return false;
  if (e->kind == IR_INDEX) return e->index == index;
  for (int i = 0; i < e->arg_count; i++)
    if (asks_for(e->args[i], index)) return true;
  return false;
}

static bool is_asked_for(const ir_stmt *stmt, const ir_flat *role) {
  for (int i = 0; i < role->count; i++)
    if (asks_for(stmt->value, role->at[i]) || asks_for(stmt->cond, role->at[i])) return true;
  return false;
}

/* Keeps of the role what is one index in T and in the operand; the others go to the batch. */
static void keep_one(ir_flat *role, const matrix *t, const matrix *operand, bool alone, ir_flat *batch) {
  int first = nearest(role, t, operand), last = first;
  ir_flat kept = {.count = 0};
  while (!alone && first > 0 && follow_on(t, role->at + first - 1, last - first + 2) && follow_on(operand, role->at + first - 1, last - first + 2)) first--;
  while (!alone && last + 1 < role->count && follow_on(t, role->at + first, last - first + 2) && follow_on(operand, role->at + first, last - first + 2)) last++;
  for (int i = 0; i < role->count; i++) {
    ir_flat *to = i >= first && i <= last ? &kept : batch;
    to->at[to->count++] = role->at[i];
  }
  *role = kept;
}

/* False where both operands would have an index of batch that the other lacks. */
static bool keep_both(const matrix *a, const matrix *b, const matrix *t, bool m_alone, bool n_alone, ir_roles *roles) {
  keep_one(&roles->m, t, a, m_alone, &roles->batch);
  int of_a = roles->batch.count - roles->common;
  keep_one(&roles->n, t, b, n_alone, &roles->batch);
  return !of_a || roles->batch.count == roles->common + of_a;
}

/* In the order in which they lie in A. */
static bool take_summed(ir_index *const *bound, int count, const matrix *a, const matrix *b, ir_flat *k) {
  for (int l = 0; l < a->tensor->rank; l++)
    for (int i = 0; i < count; i++)
      if (has(a, bound[i]) && level_of(a, bound[i]) == l) k->at[k->count++] = bound[i];
  return k->count == count && follow_on(a, k->at, count) && follow_on(b, k->at, count);
}

bool ir_roles_summed(const ir_expr *a, const ir_expr *b, ir_index *const *bound, int bound_count, ir_flat *out) {
  matrix x = {a->tensor, a->args}, y = {b->tensor, b->args};
  *out = (ir_flat){.count = 0};
  return take_summed(bound, bound_count, &x, &y, out);
}

static bool all_bare(const matrix *x) {
  for (int d = 0; d < x->tensor->rank; d++)
    if (x->subs[d]->kind != IR_INDEX || dim_of(x, x->subs[d]->index) != d) return false;
  return true;
}

bool ir_roles_of(const ir_stmt *stmt, const ir_expr *a, const ir_expr *b, ir_index *const *bound, int bound_count, ir_roles *out) {
  matrix x = {a->tensor, a->args}, y = {b->tensor, b->args}, t = {stmt->target, stmt->subs};
  *out = (ir_roles){.common = 0};
  if (a->arg_count != a->tensor->rank || b->arg_count != b->tensor->rank) return false;
  if (!all_bare(&x) || !all_bare(&y) || !all_bare(&t) || !take_summed(bound, bound_count, &x, &y, &out->k)) return false;
  if (ir_flat_last(&out->k) && ir_flat_last(&out->k)->offsets) return false;
  for (int i = 0; i < stmt->free.count; i++) {
    ir_index *index = stmt->free.at[i];
    bool in_a = has(&x, index), in_b = has(&y, index);
    ir_flat *role = in_a && in_b ? &out->batch : in_a ? &out->m : &out->n;
    if ((!in_a && !in_b) || !has(&t, index) || index->offsets || role->count == IR_MAX_RANK) return false;
    role->at[role->count++] = index;
  }
  if (!out->m.count || !out->n.count || out->batch.count + out->m.count + out->n.count > IR_MAX_RANK) return false;
  out->common = out->batch.count;
  if (out->batch.count + out->m.count + out->n.count != t.tensor->rank) return false;
  ir_roles all = *out;
  if (keep_both(&x, &y, &t, is_asked_for(stmt, &all.m), is_asked_for(stmt, &all.n), out)) return true;
  *out = all;
  return keep_both(&x, &y, &t, false, false, out);
}
