/* format_turn.c - dense operands that a walk over entries meets across their rows, turned first.
 *
 *     y[t,o] = sum[k] x[t,k]*W[o,k]           x_turned[t,k] = x[t,k]   as dense_t
 *       (W csr; a GPU)                    ->  y[t,o] = sum[k] x_turned[t,k]*W[o,k]
 *
 * A warp stands on consecutive t and follows the entries of one o: of x as it is every lane would take a
 * sector of its own, of x turned all take one line. */
#include "passes/choice.h"
#include "passes/storage.h"

static ir_tensor *turned_copy(pass_context *context, ir_kernel *kernel, ir_tensor *source, int at) {
  ir_arena *arena = context->arena;
  const char *why = "";
  const char *name = ir_fresh_name(kernel, ir_format_text(arena, "%s_turned", source->name));
  ir_tensor *copy = ir_tensor_new(kernel, name, IR_ROLE_TEMP, source->dtype);
  bool rows = !source->format || ir_format_is_row_major(source->format);
  copy->rank = source->rank;
  memcpy(copy->dim, source->dim, sizeof copy->dim);
  copy->format = ir_format_builtin(arena, rows ? "dense_t" : "dense", 2, NULL, 0, &why);
  copy->constant = source->constant;
  copy->format_why = ir_format_text(
      arena, "`%s` turned: lanes that follow the same entries read consecutive elements", source->name);
  pass_format_insert(arena, kernel, at, pass_format_copy(context, kernel, source, copy));
  return copy;
}

static ir_tensor *copy_there(const ir_kernel *kernel, const ir_tensor *source, int at) {
  for (int i = 0; i < at; i++) {
    const ir_stmt *stmt = kernel->stmts.at[i];
    if (stmt->target->role == IR_ROLE_TEMP && pass_stmt_converts(stmt) == source &&
        ir_format_is_dense(stmt->target->format))
      return stmt->target;
  }
  return NULL;
}

void pass_format_turn(pass_context *context, ir_kernel *kernel) {
  for (int s = 0; s < kernel->stmts.count; s++) {
    ir_stmt *stmt = kernel->stmts.at[s];
    pass_sum sum;
    const ir_expr *across = pass_sum_of(context, stmt, &sum) ? pass_turns(context, &sum) : NULL;
    if (!across) continue;
    int before = kernel->stmts.count;
    ir_tensor *copy = copy_there(kernel, across->tensor, s);
    if (!copy) copy = turned_copy(context, kernel, across->tensor, s);
    pass_format_read(context->arena, stmt, across, copy);
    s += kernel->stmts.count - before;
  }
}
