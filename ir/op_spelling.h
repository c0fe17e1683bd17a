/* op_spelling.h - what an op computes, read from its spelling in ops.def.
 *
 * A row whose cpu column is `spelled` has no evaluator and no lowering of its own: its spelling
 * says it in terms of the rows above it.  The language is the part of C that spellings are written
 * in:
 *
 *     %0 %1 %2   1   0.5   ( )   -x   !x   * /   + -   < <= > >= == !=   &&   ||   c ? x : y
 * spc_NAME(x, ..)
 *
 * where NAME is a mnemonic and a sign is the op of ops.def, with its meaning for integers too (`/`
 * floors).  A spelling is read into postfix steps, in the order in which a stack computes them. */
#ifndef SPC_IR_OP_SPELLING_H
#define SPC_IR_OP_SPELLING_H

#include "ir/ir.h"

typedef enum ir_step_kind { IR_STEP_OPERAND, IR_STEP_NUMBER, IR_STEP_OP } ir_step_kind;

typedef struct ir_step {
  ir_step_kind kind;
  int operand;
  double number;
  ir_op op; /* takes as many values from the stack as it has operands */
} ir_step;

enum { IR_MAX_STEPS = 48 }; /* also more than any stack of values needs */

typedef struct ir_spelling {
  int count;
  ir_step step[IR_MAX_STEPS];
} ir_spelling;

/* NULL, or what is wrong with the text. */
const char *ir_spelling_read(const char *text, ir_spelling *out);
double ir_spelling_eval(const char *text, const double *x);
int64_t ir_spelling_eval_int(const char *text, const int64_t *x);

/* Why the row of a spelled op cannot stand in the table: a text that is not read, an operand it
 * does not have, a row below it, a truth value where a number is due, traits that its ops
 * contradict.  NULL: nothing. */
const char *ir_op_spelling_fault(ir_op op);
/* The definition of a spelled op, applied; a number takes the dtype of the operands.  Integers are
 * widened and the value is cut back, so that nothing wraps inside a spelling (as in the
 * evaluators). */
ir_expr *ir_op_spelled(ir_arena *arena, ir_op op, ir_expr *const *operands);

#endif
