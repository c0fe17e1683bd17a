/* op_spelling.c - reads spellings, and computes and builds what they say.
 *
 * One reader, precedence as in C, and a stack machine for each thing a spelling is made into: a
 * double, an integer, an expression (codegen/cpu_ops.c has the fourth, LLVM values).  Nothing is
 * kept: a spelling has a few dozen characters. */
#include "ir/op_spelling.h"

#include <assert.h>
#include <math.h>

#include "ir/loop.h"
#include "ir/number.h"

/* ---- reading --------------------------------------------------------------------------------- */
typedef struct reader {
  const char *at;
  ir_spelling *out;
  const char *fault;
} reader;

typedef struct sign {
  const char *text;
  ir_op op;
} sign;

enum { LEVELS = 5, SIGNS = 6 };
static const sign signs[LEVELS][SIGNS + 1] = {/* loosest first; a sign before its own beginning */
                                              {{"||", IR_OP_OR}},
                                              {{"&&", IR_OP_AND}},
                                              {{"<=", IR_OP_LE},
                                               {">=", IR_OP_GE},
                                               {"==", IR_OP_EQ},
                                               {"!=", IR_OP_NE},
                                               {"<", IR_OP_LT},
                                               {">", IR_OP_GT}},
                                              {{"+", IR_OP_ADD}, {"-", IR_OP_SUB}},
                                              {{"*", IR_OP_MUL}, {"/", IR_OP_DIV}}};

static void read_choice(reader *r);

static void fail(reader *r, const char *fault) {
  if (!r->fault) r->fault = fault;
}

static void emit(reader *r, ir_step step) {
  if (r->out->count == IR_MAX_STEPS)
    fail(r, "it is too long");
  else if (!r->fault)
    r->out->step[r->out->count++] = step;
}

static void emit_op(reader *r, ir_op op) { emit(r, (ir_step){.kind = IR_STEP_OP, .op = op}); }

static bool take(reader *r, const char *text) {
  while (*r->at == ' ') r->at++;
  size_t length = strlen(text);
  if (r->fault || strncmp(r->at, text, length) != 0) return false;
  r->at += length;
  return true;
}

static void expect(reader *r, const char *text, const char *fault) {
  if (!take(r, text)) fail(r, fault);
}

static void read_call(reader *r) {
  char name[32] = "";
  size_t length = 0;
  for (; (*r->at >= 'a' && *r->at <= 'z') || (*r->at >= '0' && *r->at <= '9'); r->at++)
    if (length < sizeof name - 1) name[length++] = *r->at;
  ir_op op = ir_op_find(name);
  if (op == IR_OP_COUNT) {
    fail(r, "what follows `spc_` is no op");
    return;
  }
  expect(r, "(", "an op without its operands");
  for (int i = 0; i < ir_op_rows[op].arity && !r->fault; i++) {
    if (i > 0) expect(r, ",", "too few operands");
    read_choice(r);
  }
  expect(r, ")", "`)` is missing, or there are too many operands");
  emit_op(r, op);
}

static void read_number(reader *r) {
  size_t length = strspn(r->at, "0123456789.");
  double value = 0;
  if (!ir_number_parse(r->at, length, &value))
    fail(r, "a number, an operand, `(` or `spc_` is due");
  r->at += length;
  emit(r, (ir_step){.kind = IR_STEP_NUMBER, .number = value});
}

static void read_primary(reader *r) {
  if (take(r, "(")) {
    read_choice(r);
    expect(r, ")", "`)` is missing");
  } else if (take(r, "spc_")) {
    read_call(r);
  } else if (take(r, "%")) {
    if (*r->at < '0' || *r->at > '2')
      fail(r, "operands are %0, %1 and %2");
    else
      emit(r, (ir_step){.kind = IR_STEP_OPERAND, .operand = *r->at++ - '0'});
  } else {
    read_number(r);
  }
}

static void read_unary(reader *r) {
  bool minus = take(r, "-"), no = !minus && take(r, "!");
  if (!minus && !no) {
    read_primary(r);
    return;
  }
  read_unary(r);
  emit_op(r, minus ? IR_OP_NEG : IR_OP_NOT);
}

static void read_binary(reader *r, int level) {
  if (level == LEVELS) {
    read_unary(r);
    return;
  }
  read_binary(r, level + 1);
  for (int i = 0; signs[level][i].text && !r->fault; i++)
    if (take(r, signs[level][i].text)) {
      read_binary(r, level + 1);
      emit_op(r, signs[level][i].op);
      i = -1;
    }
}

static void read_choice(reader *r) {
  read_binary(r, 0);
  if (!take(r, "?")) return;
  read_choice(r);
  expect(r, ":", "`:` is missing");
  read_choice(r);
  emit_op(r, IR_OP_WHERE);
}

const char *ir_spelling_read(const char *text, ir_spelling *out) {
  reader r = {text, out, NULL};
  out->count = 0;
  read_choice(&r);
  while (*r.at == ' ') r.at++;
  if (*r.at) fail(&r, "something follows its end");
  return r.fault;
}

/* ---- computing ------------------------------------------------------------------------------- */
static void read_sound(const char *text, ir_spelling *s) {
  const char *fault = ir_spelling_read(text, s);
  assert(!fault && "ops.def has a spelling that cannot be read");
  (void)fault;
}

double ir_spelling_eval(const char *text, const double *x) {
  ir_spelling s;
  double value[IR_MAX_STEPS];
  int top = 0;
  read_sound(text, &s);
  for (int i = 0; i < s.count; i++) {
    const ir_step *step = &s.step[i];
    const ir_op_row *row = step->kind == IR_STEP_OP ? &ir_op_rows[step->op] : NULL;
    top -= row ? row->arity : 0;
    value[top] = row                            ? row->eval(&value[top])
                 : step->kind == IR_STEP_NUMBER ? step->number
                                                : x[step->operand];
    top++;
  }
  return value[0];
}

int64_t ir_spelling_eval_int(const char *text, const int64_t *x) {
  ir_spelling s;
  int64_t value[IR_MAX_STEPS];
  int top = 0;
  read_sound(text, &s);
  for (int i = 0; i < s.count; i++) {
    const ir_step *step = &s.step[i];
    const ir_op_row *row = step->kind == IR_STEP_OP ? &ir_op_rows[step->op] : NULL;
    top -= row ? row->arity : 0;
    value[top] = row                            ? row->eval_int(&value[top])
                 : step->kind == IR_STEP_NUMBER ? (int64_t)step->number
                                                : x[step->operand];
    top++;
  }
  return value[0];
}

/* ---- building -------------------------------------------------------------------------------- */
static ir_expr *number(ir_arena *arena, const ir_expr *beside, double value) {
  ir_dtype t = beside->dtype;
  ir_expr *e =
      ir_dtype_is_float(t) ? ir_const_f(arena, t, value) : ir_const_i(arena, t, (int64_t)value);
  return beside->lanes > 1 ? ir_splat(arena, e, beside->lanes) : e;
}

static ir_expr *widened(ir_arena *arena, ir_expr *e) {
  return ir_dtype_is_int(e->dtype) ? ir_cast(arena, IR_I64, e) : e;
}

ir_expr *ir_op_spelled(ir_arena *arena, ir_op op, ir_expr *const *operands) {
  ir_spelling s;
  ir_expr *value[IR_MAX_STEPS], *args[3] = {NULL, NULL, NULL};
  int top = 0;
  read_sound(ir_op_rows[op].cuda, &s);
  for (int i = 0; i < ir_op_rows[op].arity; i++) args[i] = widened(arena, operands[i]);
  for (int i = 0; i < s.count; i++) {
    const ir_step *step = &s.step[i];
    int arity = step->kind == IR_STEP_OP ? ir_op_rows[step->op].arity : 0;
    top -= arity;
    value[top] = step->kind == IR_STEP_OPERAND  ? args[step->operand]
                 : step->kind == IR_STEP_NUMBER ? number(arena, args[0], step->number)
                                                : ir_op_new(arena, step->op, &value[top], arity);
    top++;
  }
  bool same = ir_op_rows[op].result == IR_RESULT_SAME;
  return same ? ir_cast(arena, operands[0]->dtype, value[0]) : value[0];
}

/* ---- the table's self-check ------------------------------------------------------------------ */
typedef struct checker {
  ir_op op;
  const char *fault;
  bool truth[IR_MAX_STEPS]; /* of each value on the stack: a truth value, else a number */
  int top;
} checker;

static void blame(checker *c, bool bad, const char *fault) {
  if (bad && !c->fault) c->fault = fault;
}

static void check_leaf(checker *c, const ir_step *step) {
  const ir_op_row *row = &ir_op_rows[c->op];
  bool operand = step->kind == IR_STEP_OPERAND;
  blame(c, operand && step->operand >= row->arity, "it names an operand that the op does not have");
  blame(c, !operand && step->number != floor(step->number) && !(row->traits & IR_FLOAT_ONLY),
        "a fraction is for floats, and the row is not IR_FLOAT_ONLY");
  c->truth[c->top++] = operand && (row->traits & IR_BOOL_ONLY);
}

static void check_op(checker *c, ir_op op) {
  const ir_op_row *row = &ir_op_rows[op];
  bool logic = (row->traits & IR_BOOL_ONLY) != 0, choice = row->result == IR_RESULT_RIGHT;
  blame(c, op >= c->op, "it uses an op that does not stand above it");
  blame(c, (row->traits & IR_FLOAT_ONLY) && !(ir_op_rows[c->op].traits & IR_FLOAT_ONLY),
        "it uses an op for floats, and the row is not IR_FLOAT_ONLY");
  c->top -= row->arity;
  for (int i = choice; i < row->arity; i++)
    blame(c, !choice && c->truth[c->top + i] != logic,
          logic ? "a number stands where a truth value is due"
                : "a truth value stands where a number is due");
  blame(c, choice && !c->truth[c->top], "a number stands where a truth value is due");
  blame(c, choice && c->truth[c->top + 1] != c->truth[c->top + 2],
        "it gives a number here, a truth value there");
  c->truth[c->top] = choice ? c->truth[c->top + 1] : row->result == IR_RESULT_BOOL;
  c->top++;
}

const char *ir_op_spelling_fault(ir_op op) {
  ir_spelling s;
  checker c = {.op = op, .fault = ir_spelling_read(ir_op_rows[op].cuda, &s)};
  const ir_op_row *row = &ir_op_rows[op];
  blame(&c, row->arity > 2, "it has more than two operands");
  blame(&c, row->result == IR_RESULT_RIGHT, "its result is neither SAME nor BOOL");
  for (int i = 0; i < s.count && !c.fault; i++) {
    if (s.step[i].kind == IR_STEP_OP)
      check_op(&c, s.step[i].op);
    else
      check_leaf(&c, &s.step[i]);
  }
  bool truth = row->result == IR_RESULT_BOOL || (row->traits & IR_BOOL_ONLY) != 0;
  blame(&c, !c.fault && c.truth[0] != truth, "its value is not what the row's result says");
  return c.fault;
}
