/* pass_strength.c - pass `strength` (12): no division by a power of two.
 *
 * needs:  canon (constants are folded)
 * keeps:  everything; the values bit for bit, because 1/c is exact and so scales like c
 * breaks: nothing
 *
 *     before   out y[i] = x[i] / 8
 *     after    out y[i] = x[i] * 0.125
 *
 * Floats only: integers floor.  The range of 2^k is f16's, so that neither constant is rounded. */
#include <math.h>

#include "passes/expr.h"
#include "passes/pass.h"

static bool is_exact_power(double c) {
  int exponent;
  return isfinite(c) && fabs(frexp(c, &exponent)) == 0.5 && exponent > -12 && exponent < 14;
}

static ir_expr *change(void *user, ir_expr *e) {
  double c;
  if (e->kind != IR_OP || e->op != IR_OP_DIV || !ir_dtype_is_float(e->dtype)) return e;
  if (!ir_const_value(e->args[1], &c) || !is_exact_power(c)) return e;
  return ir_apply(user, IR_OP_MUL, e->args[0], ir_const_f(user, e->dtype, 1 / c));
}

spc_status pass_strength(pass_context *context, ir_kernel *kernel) {
  for (int i = 0; i < kernel->stmts.count; i++) {
    ir_stmt *stmt = kernel->stmts.at[i];
    stmt->value = pass_rewrite(context->arena, stmt->value, change, context->arena);
  }
  return SPC_OK;
}
