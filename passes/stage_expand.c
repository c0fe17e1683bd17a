/* stage_expand.c - an operand that is stored sparse, written out before a product of dense
 * matrices.
 *
 *     y[t,o] = sum[k] x[t,k]*W[o,k]          W_full[o,k] = W[o,k]             a stage of its own
 *     candidate y: W written out        ->   y[t,o] = sum[k] x[t,k]*W_full[o,k]
 *
 * Statements that want the same operand read one copy; where it is const, spc_plan_pack keeps it
 * (stage_once.c). */
#include "passes/choice.h"
#include "passes/expr.h"
#include "passes/stage.h"
#include "passes/storage.h"

static ir_tensor *copy_there(const ir_kernel *kernel, const ir_tensor *source, int at) {
  for (int i = 0; i < at; i++) {
    const ir_stmt *stmt = kernel->stmts.at[i];
    if (stmt->target->role == IR_ROLE_TEMP && !pass_tensor_is_sparse(stmt->target) &&
        pass_stmt_converts(stmt) == source)
      return stmt->target;
  }
  return NULL;
}

static ir_tensor *full_copy(pass_context *context, ir_kernel *kernel, const ir_tensor *source) {
  const char *why;
  const char *stem = ir_format_text(context->arena, "%s_full", source->name);
  ir_tensor *copy = ir_tensor_new(kernel, ir_fresh_name(kernel, stem), IR_ROLE_TEMP, source->dtype);
  copy->rank = source->rank;
  memcpy(copy->dim, source->dim, sizeof copy->dim);
  copy->format = ir_format_builtin(context->arena, "dense", copy->rank, NULL, 0, &why);
  copy->constant = source->constant;
  copy->format_why =
      ir_format_text(context->arena, "`%s` written out: most of it is stored", source->name);
  return copy;
}

static ir_expr *stored_in(pass_context *context, ir_stmt *stmt) {
  pass_sum sum;
  pass_strips fit;
  if (!pass_sum_of(context, stmt, &sum)) return NULL;
  for (int i = 0; i < stmt->free.count; i++)
    if (pass_strips_fit(&sum, stmt->free.at[i], NULL, &fit)) return fit.stored;
  return NULL;
}

int pass_stage_expand(pass_context *context, ir_kernel *kernel, int at,
                      const ir_candidate *candidate) {
  ir_stmt *stmt = kernel->stmts.at[at];
  ir_expr *stored = candidate && candidate->expanded ? stored_in(context, stmt) : NULL;
  if (!stored) return 0;
  ir_tensor *source = stored->tensor, *copy = copy_there(kernel, source, at);
  bool made = !copy;
  if (made) {
    copy = full_copy(context, kernel, source);
    pass_format_insert(context->arena, kernel, at, pass_format_copy(context, kernel, source, copy));
  }
  ir_expr *access = ir_access(context->arena, copy, stored->args);
  stmt->value = pass_replace_node(context->arena, stmt->value, stored, access);
  stmt->stores = NULL;
  return made;
}
