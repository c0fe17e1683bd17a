/* op_eval.h - the scalar evaluators that the op table points to; private to op.c and op_eval.c. */
#ifndef SPC_IR_OP_EVAL_H
#define SPC_IR_OP_EVAL_H

#include "ir/op.h"

#define SPC_OP(NAME, MNEMONIC, ARITY, TRAITS, ZERO, CPU, CUDA, RESULT, MEANING)                    \
  double ir_eval_##CPU(const double *x);                                                           \
  int64_t ir_eval_int_##CPU(const int64_t *x);
#include "ir/ops.def"
#undef SPC_OP

#endif
