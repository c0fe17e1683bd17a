/* storage.c - see storage.h.  Support expressions are b1 trees of `and`, `or`, `any[..]`, accesses
 * and predicates; what is not one of these says nothing about storage. */
#include "passes/storage.h"

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
    if (!ir_expr_equal(access->args[d], stmt->subs[d])) return false;
  return true;
}

ir_tensor *pass_stmt_converts(const ir_stmt *stmt) {
  const ir_expr *value = stmt->value;
  if (value->kind != IR_ACCESS || stmt->cond || ir_is_scatter(stmt)) return NULL;
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
