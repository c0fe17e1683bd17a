/* storage.c - see storage.h.  Support expressions are b1 trees of `and`, `or`, `any[..]`, accesses
 * and predicates; what is not one of these says nothing about storage. */
#include "passes/storage.h"

#include "passes/contract.h"
#include "passes/stores.h"

bool pass_tensor_is_sparse(const ir_tensor *tensor) {
  if (tensor->like) return true;
  if (!tensor->format) return false;
  for (int l = 0; l < tensor->format->level_count; l++)
    if (!ir_level_rows[tensor->format->level[l].kind].full) return true;
  return false;
}

static bool same_subs_as_target(const ir_stmt *stmt, const ir_expr *access) {
  if (access->arg_count != stmt->target->rank) return false;
  for (int d = 0; d < access->arg_count; d++)
    if (!ir_expr_equal(access->args[d], stmt->subs[d]) || !ir_size_same(access->tensor->dim[d], stmt->target->dim[d]))
      return false;
  return true;
}

ir_tensor *pass_stmt_converts(const ir_stmt *stmt) {
  const ir_expr *value = stmt->value;
  if (value->kind != IR_ACCESS || stmt->cond || ir_is_scatter(stmt)) return NULL;
  for (int i = 0; i < stmt->free.count; i++)
    if (stmt->free.at[i]->segment) return NULL; /* rows in no segment are left out */
  ir_tensor *source = value->tensor;
  if (source->dtype != stmt->target->dtype || !same_subs_as_target(stmt, value)) return NULL;
  if (!source->format || !stmt->target->format || stmt->target->like) return NULL;
  bool packs = pass_tensor_is_sparse(stmt->target) && !pass_tensor_is_sparse(source);
  if (packs && !stmt->target->by_value)
    return NULL; /* repacking leaves zeros out; what is stored is another question */
  return ir_format_equal(source->format, stmt->target->format) ? NULL : source;
}

bool pass_stmt_is_assembled(const ir_stmt *stmt) {
  return pass_tensor_is_sparse(stmt->target) && !stmt->target->like;
}

bool pass_format_appends(const ir_format *format) {
  int l = 0, levels = format->level_count;
  for (int k = 0; k < levels; k++)
    if (format->level[k].map != IR_MAP_WHOLE) return false;
  while (l < levels && format->level[l].kind == IR_LEVEL_DENSE) l++;
  if (l == levels) return false;
  for (; l < levels; l++)
    if (format->level[l].kind != IR_LEVEL_COMPRESSED && format->level[l].kind != IR_LEVEL_SINGLETON)
      return false;
  return true;
}

bool pass_stmt_by_levels(const pass_context *context, const ir_stmt *stmt) {
  const ir_target *target = context->options->target;
  return target && target->kind == IR_TARGET_CPU && pass_stmt_is_assembled(stmt) &&
         pass_plain_subs(stmt) && !pass_stores_round(ir_stores_of_stmt(context->arena, stmt));
}

bool pass_stmt_appends(const pass_context *context, const ir_stmt *stmt) {
  return pass_stmt_by_levels(context, stmt) && pass_format_appends(stmt->target->format);
}

static bool can_be_kept_in_rows(const ir_stmt *stmt, const ir_expr *e) {
  for (int i = 0; i < e->bound_count; i++)
    for (int k = 0; k < stmt->free.count; k++)
      if (e->bound[i] == stmt->free.at[k]) return false;
  return e->reducer == IR_RED_SUM || e->reducer == IR_RED_ANY || e->reducer == IR_RED_MAX ||
         e->reducer == IR_RED_MIN;
}

bool pass_row_sum_of(ir_arena *arena, const ir_stmt *stmt, pass_row_sum *row) {
  ir_expr *reduce = pass_reduction_of(stmt), *stores = ir_stores_of_stmt(arena, stmt);
  bool can = reduce && stores && pass_count_heavy(stmt->value) == 1;
  ir_expr *any =
      can && can_be_kept_in_rows(stmt, reduce) ? pass_stores_points(arena, reduce) : NULL;
  pass_terms terms = {0};
  *row = (pass_row_sum){.reduce = reduce};
  if (any) pass_terms_of(arena, stores, &terms);
  for (int i = 0; i < terms.list.count; i++) {
    ir_expr *term = terms.list.at[i];
    bool is_any = !row->points && ir_expr_alike(term, any);
    if (is_any) row->points = any->args[0];
  }
  for (int i = 0; row->points && i < terms.list.count; i++) {
    ir_expr *term = terms.list.at[i];
    if (pass_is_elementwise(term))
      row->points = pass_and(arena, row->points, term);
    else if (!ir_expr_alike(term, any))
      row->rest = row->rest ? pass_and(arena, row->rest, term) : term;
  }
  return row->points != NULL;
}

static ir_tensor *like_in(const ir_stmt *stmt, const ir_expr *support) {
  if (!support) return NULL;
  if (support->kind == IR_ACCESS)
    return pass_tensor_is_sparse(support->tensor) && same_subs_as_target(stmt, support)
               ? support->tensor
               : NULL;
  if (support->kind == IR_CAST) return like_in(stmt, support->args[0]);
  if (support->kind != IR_OP) return NULL;
  if (support->op == IR_OP_AND) {
    ir_tensor *left = like_in(stmt, support->args[0]);
    return left ? left : like_in(stmt, support->args[1]);
  }
  /* `A != 0`: stored entries bound it. */
  return support->op == IR_OP_NE ? like_in(stmt, support->args[0]) : NULL;
}

ir_tensor *pass_support_like(const ir_stmt *stmt) {
  ir_tensor *model = like_in(stmt, stmt->support);
  return model && model->like ? model->like : model;
}

/* Outside finitely many stored entries that carry this index the support is false. */
static bool bounds(const ir_expr *support, const ir_index *index) {
  if (support->kind == IR_ACCESS)
    return pass_tensor_is_sparse(support->tensor) && ir_expr_uses_index(support, index);
  if (support->kind == IR_CAST || support->kind == IR_REDUCE)
    return bounds(support->args[0], index);
  if (support->kind != IR_OP) return false;
  if (support->op == IR_OP_AND)
    return bounds(support->args[0], index) || bounds(support->args[1], index);
  if (support->op == IR_OP_OR)
    return bounds(support->args[0], index) && bounds(support->args[1], index);
  return support->op == IR_OP_NE && bounds(support->args[0], index);
}

bool pass_support_is_sparse(const ir_stmt *stmt) {
  for (int d = 0; d < stmt->target->rank; d++)
    if (stmt->subs[d]->kind != IR_INDEX || !stmt->support ||
        !bounds(stmt->support, stmt->subs[d]->index))
      return false;
  return stmt->target->rank > 0;
}

bool pass_expr_reads_sparse(const ir_expr *e) {
  if (!e) return false;
  if (e->kind == IR_ACCESS && pass_tensor_is_sparse(e->tensor)) return true;
  for (int i = 0; i < e->arg_count; i++)
    if (pass_expr_reads_sparse(e->args[i])) return true;
  return false;
}
