/* op.c - the op table and the reducers, made from ops.def and reducers.def.
 *
 * The pattern rule of an op follows from its zero rule.  The two mixed cases decide first:
 * 0 / y = 0 makes `div` keep its left operand's pattern, although 0 / 0 is NaN for floats (rule 4
 * of the language: what is met only by skipped zeros does not spread). */
#include <math.h>

#include "ir/op_eval.h"
#include "ir/op_spelling.h"

#define ZERO1(at)                                                                                  \
  { IR_ZERO_##at, IR_ZERO_F, IR_ZERO_F }
#define ZERO2(both, right, left)                                                                   \
  { IR_ZERO_##both, IR_ZERO_##right, IR_ZERO_##left }
#define ZERO3(all)                                                                                 \
  { IR_ZERO_##all, IR_ZERO_F, IR_ZERO_F }

/* The IR_FLOAT_ONLY ops have no integer evaluator. */
#define ir_eval_int_exp NULL
#define ir_eval_int_log NULL
#define ir_eval_int_sqrt NULL
#define ir_eval_int_rsqrt NULL
#define ir_eval_int_tanh NULL
#define ir_eval_int_sigmoid NULL
#define ir_eval_int_silu NULL
#define ir_eval_int_gelu NULL
#define ir_eval_int_pow NULL

/* IS_SPELLED(cpu) is 1 where the column says `spelled`, else 0: its probe adds an argument. */
#define PROBE_spelled ~, 1
#define SECOND(first, second, ...) second
#define SECOND_OF(...) SECOND(__VA_ARGS__)
#define IS_SPELLED(cpu) SECOND_OF(PROBE_##cpu, 0, 0)
#define JOIN(a, b) a##b
#define BY_CPU(macro, is_spelled) JOIN(macro, is_spelled)

/* A spelled row gets its evaluators here: its spelling, computed. */
#define EVALUATORS_0(NAME, CUDA)
#define EVALUATORS_1(NAME, CUDA)                                                                   \
  static double spelled_##NAME(const double *x) { return ir_spelling_eval(CUDA, x); }              \
  static int64_t spelled_int_##NAME(const int64_t *x) { return ir_spelling_eval_int(CUDA, x); }
#define SPC_OP(NAME, MNEMONIC, ARITY, TRAITS, ZERO, CPU, CUDA, RESULT, MEANING)                    \
  BY_CPU(EVALUATORS_, IS_SPELLED(CPU))(NAME, CUDA)
#include "ir/ops.def"
#undef SPC_OP

#define EVAL_0(NAME, CPU, TRAITS) ir_eval_##CPU, ir_eval_int_##CPU
#define EVAL_1(NAME, CPU, TRAITS)                                                                  \
  spelled_##NAME, ((TRAITS)&IR_FLOAT_ONLY) ? NULL : spelled_int_##NAME

const ir_op_row ir_op_rows[IR_OP_COUNT] = {
#define SPC_OP(NAME, MNEMONIC, ARITY, TRAITS, ZERO, CPU, CUDA, RESULT, MEANING)                    \
  {MNEMONIC,                                                                                       \
   ARITY,                                                                                          \
   TRAITS,                                                                                         \
   ZERO,                                                                                           \
   IR_RESULT_##RESULT,                                                                             \
   BY_CPU(EVAL_, IS_SPELLED(CPU))(NAME, CPU, TRAITS),                                              \
   #CPU,                                                                                           \
   CUDA,                                                                                           \
   MEANING,                                                                                        \
   IS_SPELLED(CPU)},
#include "ir/ops.def"
#undef SPC_OP
};

const ir_reducer_row ir_reducer_rows[IR_RED_COUNT] = {
#define SPC_REDUCER(NAME, TEXT, OP, IDENTITY, MEANING) {TEXT, OP, IDENTITY, MEANING},
#include "ir/reducers.def"
#undef SPC_REDUCER
};

ir_op ir_op_find(const char *mnemonic) {
  int op = 0;
  while (op < IR_OP_COUNT &&
         (*ir_op_rows[op].mnemonic != *mnemonic || strcmp(ir_op_rows[op].mnemonic, mnemonic)))
    op++;
  return (ir_op)op;
}

static ir_pattern_rule rule_of_two(const ir_zero *zero) {
  bool right = zero[1] == IR_ZERO_Z, left = zero[2] == IR_ZERO_Z;
  if (right && left) return IR_RULE_INTERSECT;
  if (left) return IR_RULE_LEFT;
  if (right) return IR_RULE_RIGHT;
  return zero[0] == IR_ZERO_Z ? IR_RULE_UNION : IR_RULE_DENSE;
}

ir_pattern_rule ir_op_rule(ir_op op) {
  const ir_op_row *row = &ir_op_rows[op];
  if (row->arity == 2) return rule_of_two(row->zero);
  return row->arity == 1 && row->zero[0] == IR_ZERO_Z ? IR_RULE_KEEP : IR_RULE_DENSE;
}

ir_reducer ir_reducer_find(const char *text) {
  int r = 0;
  while (r < IR_RED_COUNT && strcmp(ir_reducer_rows[r].text, text)) r++;
  return (ir_reducer)r;
}

/* A value beyond every range becomes the type's smallest or largest. */
static int64_t extreme(ir_dtype t, double beyond) {
  int64_t value;
  ir_dtype_store(t, &value, 0, beyond);
  return ir_dtype_load_int(t, &value, 0);
}

int64_t ir_reducer_identity_int(ir_reducer r, ir_dtype t) {
  double identity = ir_reducer_rows[r].identity;
  if (!isinf(identity)) return (int64_t)identity;
  return t == IR_B1 ? identity > 0 : extreme(t, identity);
}

double ir_reducer_identity(ir_reducer r, ir_dtype t) {
  if (!ir_dtype_is_float(t)) return (double)ir_reducer_identity_int(r, t);
  return ir_dtype_round(t, ir_reducer_rows[r].identity);
}

bool ir_op_makes_zeros(ir_op op) {
  static const double side[] = {0.5, 1, 1.5, 2};
  const ir_op_row *row = &ir_op_rows[op];
  if (row->arity != 1 || row->result != IR_RESULT_SAME) return false;
  bool low = true, high = true;
  for (int i = 0; i < IR_COUNT(side); i++) {
    double plus = side[i], minus = -side[i];
    low &= row->eval(&minus) == 0;
    high &= row->eval(&plus) == 0;
  }
  return low || high;
}
