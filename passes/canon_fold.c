/* canon_fold.c - constant folding and identities, derived from the op table.
 *
 *     2 * 3            6             through the op's evaluator
 *     x * 1, x + 0     x             the neutral element is the identity of the reducer that
 * combines with the op x * 0            0             from the zero rule; not for floats under
 * strict_nan max(x, x)        x             from the trait "idempotent" not not x, --x   x max(x,
 * 0)        relu(x)       one name for one thing, so that later passes know it where(true,a,b)  a
 * A float constant keeps all its bits: the statement is rounded once, when it is complete. */
#include <math.h>

#include "passes/canon.h"

static bool same_number(double a, double b) { return a == b || (isnan(a) && isnan(b)); }

/* ---- evaluation ------------------------------------------------------------------------------ */
static bool all_constant(const ir_expr *e) {
  for (int i = 0; i < e->arg_count; i++)
    if (e->args[i]->kind != IR_CONST || e->args[i]->lanes != 1) return false;
  return e->arg_count > 0;
}

static ir_expr *evaluate_float(ir_arena *arena, const ir_expr *e) {
  double x[3] = {0, 0, 0};
  for (int i = 0; i < e->arg_count; i++) ir_const_value(e->args[i], &x[i]);
  double value = ir_op_rows[e->op].eval(x);
  return e->dtype == IR_B1 ? ir_const_i(arena, IR_B1, value != 0)
                           : ir_const_f(arena, e->dtype, value);
}

static ir_expr *evaluate_int(ir_arena *arena, ir_expr *e) {
  int64_t x[3] = {0, 0, 0};
  if (ir_op_rows[e->op].eval_int == NULL) return e;
  for (int i = 0; i < e->arg_count; i++) x[i] = e->args[i]->i;
  int64_t value = ir_op_rows[e->op].eval_int(x);
  bool boolean = e->dtype == IR_B1;
  bool wraps = !boolean && ir_dtype_wrap(e->dtype, value) != value;
  if (wraps && ir_dtype_rows[e->dtype].accumulator != e->dtype)
    return e; /* it is computed in more bits than it can be written in */
  return ir_const_i(arena, e->dtype, boolean ? value != 0 : ir_dtype_wrap(e->dtype, value));
}

static ir_expr *evaluate(ir_arena *arena, ir_expr *e) {
  bool floats = ir_dtype_is_float(e->dtype);
  for (int i = 0; i < e->arg_count; i++) floats |= ir_dtype_is_float(e->args[i]->dtype);
  return floats ? evaluate_float(arena, e) : evaluate_int(arena, e);
}

static ir_expr *fold_cast(ir_arena *arena, ir_expr *e) {
  ir_expr *x = e->args[0];
  if (x->dtype == e->dtype && x->lanes == e->lanes) return x;
  if (x->kind != IR_CONST || e->lanes != 1) return e;
  bool from_float = ir_dtype_is_float(x->dtype), to_float = ir_dtype_is_float(e->dtype);
  if (to_float)
    return ir_const_f(arena, e->dtype, ir_dtype_round(e->dtype, from_float ? x->f : (double)x->i));
  if (!from_float && ir_dtype_is_int(e->dtype))
    return ir_const_i(arena, e->dtype, ir_dtype_wrap(e->dtype, x->i));
  return e;
}

/* ---- identities ------------------------------------------------------------------------------ */
/* The value that changes nothing: the identity of the reducer that combines with the op. */
static bool neutral_element(ir_op op, double *value) {
  for (int r = 0; r < IR_RED_COUNT; r++)
    if (ir_reducer_rows[r].combine == op) {
      *value = ir_reducer_rows[r].identity;
      return true;
    }
  return false;
}

static bool is_neutral(const ir_expr *e, ir_op op) {
  double neutral, value;
  if (!neutral_element(op, &neutral) || !ir_const_value(e, &value)) return false;
  if (e->dtype == IR_B1 || ir_dtype_is_float(e->dtype) || !isinf(neutral))
    return same_number(value, neutral);
  return false;
}

static ir_expr *zero_of(ir_arena *arena, const ir_expr *e) {
  return ir_dtype_is_float(e->dtype) ? ir_const_f(arena, e->dtype, 0)
                                     : ir_const_i(arena, e->dtype, 0);
}

/* Where the result is zero whenever this operand is: x * 0. A float's 0 * Inf is NaN, which only
 * LANGUAGE rule 4 lets us drop. */
static bool absorbs(const pass_context *c, const ir_expr *e, int operand) {
  const ir_zero *zero = ir_op_rows[e->op].zero;
  if (!pass_is_number(e->args[operand], 0)) return false;
  if (zero[0] != IR_ZERO_Z || zero[operand == 0 ? 2 : 1] != IR_ZERO_Z) return false;
  return !c->program->strict_nan || !ir_dtype_is_float(e->dtype);
}

static ir_expr *fold_binary(const pass_context *c, ir_expr *e) {
  ir_expr *x = e->args[0], *y = e->args[1];
  const ir_op_row *row = &ir_op_rows[e->op];
  if (x->dtype != e->dtype || y->dtype != e->dtype) return e; /* comparisons */
  if (is_neutral(y, e->op)) return x;
  if ((row->traits & IR_COMMUTES) != 0 && is_neutral(x, e->op)) return y;
  if (absorbs(c, e, 0) || absorbs(c, e, 1)) return zero_of(c->arena, e);
  if (pass_is_number(y, 0) && row->zero[0] == IR_ZERO_Z && row->zero[1] == IR_ZERO_X) return x;
  if ((row->traits & IR_IDEMPOTENT) != 0 && ir_expr_equal(x, y)) return x;
  if ((e->op == IR_OP_DIV || e->op == IR_OP_POW) && pass_is_number(y, 1)) return x;
  if (e->op == IR_OP_POW && pass_is_number(y, 2) && x->kind == IR_ACCESS)
    return ir_apply(c->arena, IR_OP_MUL, x, x);
  if (e->op == IR_OP_MAX && pass_is_number(y, 0)) return ir_apply(c->arena, IR_OP_RELU, x, NULL);
  if (e->op == IR_OP_MAX && pass_is_number(x, 0)) return ir_apply(c->arena, IR_OP_RELU, y, NULL);
  return e;
}

static ir_expr *fold_unary(ir_expr *e) {
  ir_expr *x = e->args[0];
  if (x->kind != IR_OP || x->op != e->op) return e;
  if (e->op == IR_OP_NOT || e->op == IR_OP_NEG) return x->args[0];
  return (ir_op_rows[e->op].traits & IR_IDEMPOTENT) != 0 ? x : e;
}

static ir_expr *fold_where(ir_expr *e) {
  double condition;
  if (ir_const_value(e->args[0], &condition)) return e->args[condition != 0 ? 1 : 2];
  return ir_expr_equal(e->args[1], e->args[2]) ? e->args[1] : e;
}

static ir_expr *fold_node(void *user, ir_expr *e) {
  pass_context *c = user;
  if (e->kind == IR_CAST) return fold_cast(c->arena, e);
  if (e->kind != IR_OP || e->lanes != 1) return e;
  if (all_constant(e)) return evaluate(c->arena, e);
  if (e->op == IR_OP_WHERE) return fold_where(e);
  return e->arg_count == 1 ? fold_unary(e) : fold_binary(c, e);
}

ir_expr *pass_canon_fold(pass_context *c, ir_expr *e) {
  return pass_rewrite(c->arena, e, fold_node, c);
}
