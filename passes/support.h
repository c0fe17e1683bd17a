/* support.h - where values can be non-zero, from the op table, formats, hints and conditions. */
#ifndef SPC_PASSES_SUPPORT_H
#define SPC_PASSES_SUPPORT_H

#include "passes/expr.h"
#include "passes/pass.h"

/* A condition outside of which e, standing in `stmt`, is zero; NULL: it can be non-zero anywhere.
 */
ir_expr *pass_support_of(pass_context *c, const ir_stmt *stmt, ir_expr *e);
/* A condition as one over storage and indices: itself when it is that, else what bounds it. */
ir_expr *pass_condition_support(pass_context *c, const ir_stmt *stmt, ir_expr *condition);
/* The value is exactly zero for many inputs: relu, step, topk, where(.., 0), and what keeps such
 * zeros. */
bool pass_makes_zeros(const ir_expr *e);
/* The support looks at what a sparse format or a pattern stores. */
bool pass_rests_on_storage(const ir_expr *support);
/* The outermost function that keeps a value from being zero, for a message; IR_OP_COUNT: none. */
ir_op pass_zero_loser(const ir_expr *e);

#endif
