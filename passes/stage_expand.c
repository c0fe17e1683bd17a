/* stage_expand.c - an operand that is stored sparse, written out before a product of dense
 * matrices.
 *
 *     y[t,o] = sum[k] x[t,k]*W[o,k]          W_full[o,k] = W[o,k]             a stage of its own
 *     candidate y: W written out        ->   y[t,o] = sum[k] x[t,k]*W_full[o,k]
 *
 * Statements that want the same operand read one copy; where it is const, spc_plan_pack keeps it
 * (stage_once.c).  Where a guard decides between that and walking its entries, two stages compute one
 * statement, and the one that is asked for the dense product names the copy (ir_stage.full). */
#include "passes/choice.h"
#include "passes/expr.h"
#include "passes/stage.h"
#include "passes/storage.h"

/* Whether it is there when this list, or NULL, is asked first. */
static bool is_written(const ir_kernel *kernel, const ir_stmt *stmt, const ir_list *list) {
  for (int i = 0; i < kernel->stages.count; i++) {
    const ir_stage *stage = kernel->stages.at[i];
    if (stage->stmts.count && stage->stmts.at[0] == stmt && (!stage->when.list || stage->when.list == list)) return true;
  }
  return false;
}

static ir_tensor *copy_there(const ir_kernel *kernel, const ir_tensor *source, int at, const ir_list *list) {
  for (int i = 0; i < at; i++) {
    const ir_stmt *stmt = kernel->stmts.at[i];
    if (stmt->target->role == IR_ROLE_TEMP && !pass_tensor_is_sparse(stmt->target) &&
        pass_stmt_converts(stmt) == source && is_written(kernel, stmt, list))
      return stmt->target;
  }
  return NULL;
}

/* Written in the order in which it is read, where it is the operand that a product turns on the way into its panels: the one along
 * the rows of the result. */
static bool is_by_columns(pass_context *context, const ir_stmt *stmt, const ir_expr *stored) {
  const ir_format *format = stored->tensor->format;
  const ir_index *last = pass_contiguous_index(ir_access(context->arena, stmt->target, (ir_expr **)stmt->subs), false);
  bool along = last && (ir_is_bare(stored->args[0], last) || ir_is_bare(stored->args[1], last));
  return along && format->level_count && format->level[0].dim == 1;
}

static ir_tensor *full_copy(pass_context *context, ir_kernel *kernel, const ir_tensor *source, const char *layout) {
  const char *why;
  const char *stem = ir_format_text(context->arena, "%s_full", source->name);
  ir_tensor *copy = ir_tensor_new(kernel, ir_fresh_name(kernel, stem), IR_ROLE_TEMP, source->dtype);
  copy->rank = source->rank;
  memcpy(copy->dim, source->dim, sizeof copy->dim);
  copy->format = ir_format_builtin(context->arena, layout, copy->rank, NULL, 0, &why);
  copy->constant = source->constant;
  copy->format_why =
      ir_format_text(context->arena, "`%s` written out: most of it is stored", source->name);
  return copy;
}

int pass_stage_full(pass_context *context, ir_kernel *kernel, int at, const ir_expr *stored, const ir_list *list, ir_tensor **out) {
  ir_tensor *source = stored->tensor;
  const char *layout = is_by_columns(context, kernel->stmts.at[at], stored) ? "dense_t" : "dense";
  *out = copy_there(kernel, source, at, list);
  if (*out) return 0;
  *out = full_copy(context, kernel, source, layout);
  pass_format_insert(context->arena, kernel, at, pass_format_copy(context, kernel, source, *out));
  return 1;
}

int pass_stage_expand(pass_context *context, ir_kernel *kernel, int at,
                      const ir_candidate *candidate) {
  ir_stmt *stmt = kernel->stmts.at[at];
  pass_sum sum;
  ir_tensor *copy;
  if (!candidate || !candidate->expanded || candidate->guarded || !pass_sum_of(context, stmt, &sum)) return 0;
  const ir_expr *stored = pass_stored_operand(&sum);
  if (!stored) return 0;
  int made = pass_stage_full(context, kernel, at, stored, NULL, &copy);
  ir_expr *access = ir_access(context->arena, copy, stored->args);
  stmt->value = pass_replace_node(context->arena, stmt->value, stored, access);
  stmt->stores = NULL;
  return made;
}
