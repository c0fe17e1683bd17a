/* format_value.c - results whose sparse storage is found from their values: `as FORMAT` beside
 * `~ zeros(..)`, and `format X = FORMAT` for a let whose zeros are known at run time only.
 *
 *     out h[t,f] = relu(..)  as twell by value        h.computed[t,f] = relu(..)      dense
 *                                                     h[t,f] = h.computed[t,f]        packed
 *
 * The values are computed once, by whatever is fastest for a dense result, and the conversion keeps
 * those that are not zero. */
#include "passes/choice.h"
#include "passes/storage.h"

static void split(pass_context *context, ir_kernel *kernel, int at) {
  ir_stmt *stmt = kernel->stmts.at[at];
  ir_tensor *packed = stmt->target;
  const char *why = NULL;
  const char *name =
      ir_fresh_name(kernel, ir_format_text(context->arena, "%s.computed", packed->name));
  ir_tensor *dense = ir_tensor_new(kernel, name, IR_ROLE_TEMP, packed->dtype);
  dense->rank = packed->rank;
  memcpy(dense->dim, packed->dim, sizeof dense->dim);
  dense->format = ir_format_builtin(context->arena, "dense", packed->rank, NULL, 0, &why);
  dense->format_why = ir_format_text(
      context->arena, "computed dense; what is not zero is then packed into `%s`", packed->name);
  dense->pattern = packed->pattern;
  dense->span = packed->span;
  dense->def = stmt;
  stmt->target = dense;
  pass_format_insert(context->arena, kernel, at + 1,
                     pass_format_copy(context, kernel, dense, packed));
  pass_schedule_rename(kernel, packed->name, name);
}

void pass_format_by_value(pass_context *context, ir_kernel *kernel) {
  for (int s = 0; s < kernel->stmts.count; s++) {
    const ir_stmt *stmt = kernel->stmts.at[s];
    if (stmt->target->by_value && !pass_stmt_converts(stmt)) split(context, kernel, s++);
  }
}
