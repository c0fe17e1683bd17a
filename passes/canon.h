/* canon.h - the parts of pass `canon`, in the order they run on a statement. */
#ifndef SPC_PASSES_CANON_H
#define SPC_PASSES_CANON_H

#include "passes/expr.h"
#include "passes/pass.h"

/* canon_fold.c: constants through the op table's evaluators; identities that hold for every value.
 */
ir_expr *pass_canon_fold(pass_context *c, ir_expr *e);
/* canon_reduce.c: nested sums merged, factors that the bound indices do not reach moved out. */
ir_expr *pass_canon_reduce(pass_context *c, const ir_stmt *stmt, ir_expr *e);
/* canon_split.c: leaves kernel->stmts in the three shapes of pass_shape_of (contract.h). */
void pass_canon_split(pass_context *c, ir_kernel *kernel);
/* canon_clean.c: temporaries and lets with the same definition become one; unread ones go. */
void pass_canon_clean(pass_context *c, ir_kernel *kernel);

#endif
