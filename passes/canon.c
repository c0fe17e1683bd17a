/* canon.c - pass `canon` (10): every statement in one of three simple shapes.
 *
 * needs:  checked statements
 * keeps:  the meaning; names of the user's tensors
 * breaks: nothing; adds temporaries `h.0`
 *
 *     before   let h[t,f] = relu(relu(2*3 * sum[d] x[t,d]*W[d,f]*s[t]) + 0)
 *     after    let h[t,f] = relu(6 * (s[t] * sum[d] x[t,d]*W[d,f]))
 *
 * Afterwards a statement's value is (a) elementwise over accesses, (b) an elementwise epilogue
 * around one reduction of an elementwise body, or (c) one topk, at the root, of an elementwise
 * body. A program that promises its bits (reproducible, batch invariant) has scatters in a fixed
 * order only. Where sparse results store an entry is written down first (stores.h). The steps are
 * in canon_fold.c, canon_reduce.c, canon_split.c and canon_clean.c. */
#include "passes/canon.h"
#include "passes/stores.h"

spc_status pass_canon(pass_context *context, ir_kernel *kernel) {
  pass_stores_note(context, kernel);
  for (int i = 0; i < kernel->stmts.count; i++) {
    ir_stmt *stmt = kernel->stmts.at[i];
    ir_expr *folded = pass_canon_fold(context, stmt->value);
    stmt->value = pass_canon_fold(context, pass_canon_reduce(context, stmt, folded));
    stmt->cond = pass_canon_fold(context, stmt->cond);
    folded = pass_canon_fold(context, stmt->stores);
    stmt->stores = pass_canon_fold(context, pass_canon_reduce(context, stmt, folded));
    if (stmt->cond != NULL && pass_is_number(stmt->cond, 1)) stmt->cond = NULL;
    bool promised = context->program->reproducible || context->program->batch_invariant;
    if (promised && stmt->race == IR_RACE_ATOMIC) stmt->race = IR_RACE_FIXED;
  }
  pass_canon_split(context, kernel);
  pass_canon_clean(context, kernel);
  return SPC_OK;
}
