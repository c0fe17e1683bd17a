/* op.h - the op table and the reducers as data. */
#ifndef SPC_IR_OP_H
#define SPC_IR_OP_H

#include "ir/dtype.h"

typedef enum ir_op {
#define SPC_OP(NAME, MNEMONIC, ARITY, TRAITS, ZERO, CPU, CUDA, RESULT, MEANING) IR_OP_##NAME,
#include "ir/ops.def"
#undef SPC_OP
  IR_OP_COUNT
} ir_op;

typedef enum ir_trait {
  IR_COMMUTES = 1,
  IR_ASSOCIATES = 2,
  IR_IDEMPOTENT = 4,
  IR_FLOAT_ONLY = 8,
  IR_BOOL_ONLY = 16,
  IR_CALLABLE = 32, /* by name in `.spx` */
  IR_WORD_ONLY = 64 /* i64 as 64 bits */
} ir_trait;

/* What an op gives when operands are zero: Z zero, X or Y that operand, F to be computed. */
typedef enum ir_zero { IR_ZERO_Z, IR_ZERO_X, IR_ZERO_Y, IR_ZERO_F } ir_zero;
typedef enum ir_result { IR_RESULT_SAME, IR_RESULT_BOOL, IR_RESULT_RIGHT } ir_result;
/* How the pattern of the result follows from the operands'.  LEFT and RIGHT: zero wherever that
 * operand is, so `div` keeps its left operand's pattern (0 / 0 met by skipped zeros is 0). */
typedef enum ir_pattern_rule {
  IR_RULE_KEEP,
  IR_RULE_UNION,
  IR_RULE_INTERSECT,
  IR_RULE_LEFT,
  IR_RULE_RIGHT,
  IR_RULE_DENSE
} ir_pattern_rule;

typedef struct ir_op_row {
  const char *mnemonic;
  int arity;
  unsigned traits;
  ir_zero zero[3]; /* both (or only) zero; right zero; left zero */
  ir_result result;
  double (*eval)(const double *x);       /* floats; also comparisons and booleans */
  int64_t (*eval_int)(const int64_t *x); /* NULL for IR_FLOAT_ONLY */
  const char *cpu, *cuda, *meaning;
  bool spelled; /* cuda is its definition (op_spelling.h) */
} ir_op_row;
extern const ir_op_row ir_op_rows[IR_OP_COUNT];

ir_op ir_op_find(const char *mnemonic); /* IR_OP_COUNT when unknown */
ir_pattern_rule ir_op_rule(ir_op op);   /* derived from the zero rule */
/* Exactly zero over a whole side of the axis, by its evaluator: relu, relu2, step. */
bool ir_op_makes_zeros(ir_op op);

typedef enum ir_reducer {
#define SPC_REDUCER(NAME, TEXT, OP, IDENTITY, MEANING) IR_RED_##NAME,
#include "ir/reducers.def"
#undef SPC_REDUCER
  IR_RED_COUNT
} ir_reducer;

typedef struct ir_reducer_row {
  const char *text;
  ir_op combine; /* IR_OP_COUNT for argmax, which keeps a pair */
  double identity;
  const char *meaning;
} ir_reducer_row;
extern const ir_reducer_row ir_reducer_rows[IR_RED_COUNT];
ir_reducer ir_reducer_find(const char *text); /* IR_RED_COUNT when unknown */
double ir_reducer_identity(ir_reducer r, ir_dtype t);
int64_t ir_reducer_identity_int(ir_reducer r, ir_dtype t);

#endif
