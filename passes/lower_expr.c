/* lower_expr.c - scalar expressions: from index notation to loads and arithmetic at one point.
 *
 * A statement computes in its accumulator: floats of 16 and 8 bits become f32 (or the wider
 * accumulator) when they are loaded, narrow integers the accumulator's integer, and only the store
 * rounds.  What an operand does not store reads its fill. */
#include <math.h>

#include "ir/op_spelling.h"
#include "passes/lower.h"

ir_dtype pass_value_dtype(lower_state *s, ir_dtype t) {
  ir_dtype acc = s->stmt ? s->stmt->acc : t;
  if (ir_dtype_is_float(t)) {
    ir_dtype computed = ir_dtype_rows[t].bits < 32 ? IR_F32 : t;
    bool wider = ir_dtype_is_float(acc) && ir_dtype_rows[acc].bits > ir_dtype_rows[computed].bits;
    return wider ? acc : computed;
  }
  if (!ir_dtype_is_int(t)) return t;
  bool wider = ir_dtype_is_int(acc) && ir_dtype_rows[acc].bits > ir_dtype_rows[t].bits;
  return wider ? acc : t;
}

ir_expr *pass_value_const(lower_state *s, ir_dtype t, double value) {
  if (ir_dtype_is_float(t)) return ir_const_f(s->arena, t, value);
  return ir_const_i(s->arena, t, isfinite(value) ? (int64_t)value : 0);
}

/* ---- accesses -------------------------------------------------------------------------------- */
/* Levels are located when their coordinates become known; one that is met earlier is done here. */
static lower_cursor *finished_cursor(lower_state *s, lower_env *env, int number) {
  const lower_access *access = &s->accesses.at[number];
  lower_cursor *c = &env->cursor[number];
  if (c->next < access->format->level_count) pass_level_finish(s, env, number);
  return c;
}

static bool is_pattern(const ir_tensor *tensor) { return tensor->dtype == IR_NONE; }

/* stored(A[i,j]): the position exists. */
static ir_expr *stored_value(lower_state *s, lower_env *env, const ir_expr *e) {
  lower_cursor *c = finished_cursor(s, env, pass_access_number(s, e->args[0]));
  return c->present ? c->present : pass_code_bool(s, true);
}

static ir_expr *access_value(lower_state *s, lower_env *env, const ir_expr *e) {
  int number = pass_access_number(s, e);
  lower_cursor *c = finished_cursor(s, env, number);
  if (is_pattern(e->tensor)) return c->present ? c->present : pass_code_bool(s, true);
  ir_dtype t = pass_value_dtype(s, e->tensor->dtype);
  ir_buf *buf = s->accesses.at[number].buf;
  if (!buf) buf = pass_code_buffer(s, e->tensor, IR_BUF_VALS, 0);
  ir_expr *pos = c->pos ? c->pos : pass_code_int(s, 0);
  if (c->present && pass_code_is_false(c->present))
    return pass_value_const(s, t,
                            pass_access_is_sparse(&s->accesses.at[number]) ? e->tensor->fill : 0);
  ir_expr *mask = c->readable ? NULL : c->present;
  ir_expr *value = pass_code_cast(s, t, pass_code_load(s, buf, pos, mask));
  if (c->present && c->readable) /* read in any case: no branch */
    value =
        pass_code_where(s, c->present, pass_code_let(s, "value", value), pass_value_const(s, t, 0));
  if (e->tensor->fill == 0 || !pass_access_is_sparse(&s->accesses.at[number]))
    return value; /* out of range: 0 */
  return pass_code_where(s, c->present, value, pass_value_const(s, t, e->tensor->fill));
}

ir_expr *pass_value_subscript(lower_state *s, lower_env *env, const ir_expr *sub) {
  return pass_code_cast(s, IR_I64, pass_value(s, env, sub));
}

/* ---- casts and ops --------------------------------------------------------------------------- */
/* A conversion that loses bits is made; one that the computing dtype absorbs is not. */
static ir_expr *cast_value(lower_state *s, lower_env *env, const ir_expr *e) {
  ir_expr *x = pass_value(s, env, e->args[0]);
  ir_dtype from = e->args[0]->dtype, to = e->dtype;
  if (to == IR_B1) return pass_code_cast(s, IR_B1, x);
  bool float_to = ir_dtype_is_float(to);
  bool exact =
      from == IR_B1 ||
      (ir_dtype_is_float(from) == float_to && ir_dtype_rows[to].bits >= ir_dtype_rows[from].bits) ||
      (float_to && ir_dtype_is_int(from) && ir_dtype_rows[from].bits <= 8);
  if (!exact) x = pass_code_cast(s, to, x);
  return pass_code_cast(s, pass_value_dtype(s, to), x);
}

static bool is_heavy(const ir_expr *e) {
  if (e->kind == IR_REDUCE || e->kind == IR_SOFTMAX || e->kind == IR_TOPK) return true;
  for (int i = 0; i < e->arg_count; i++)
    if (is_heavy(e->args[i])) return true;
  return false;
}

/* where(c, x, y) whose branches hold reductions: only the one that is taken is computed. */
static ir_expr *branch_value(lower_state *s, lower_env *env, const ir_expr *e, ir_expr *condition) {
  ir_dtype t = pass_value_dtype(s, e->dtype);
  ir_var *result = ir_let(&s->b, "chosen", t, pass_value_const(s, t, 0));
  ir_block *outer;
  ir_code *test = ir_open_if(&s->b, condition, &outer);
  ir_set(&s->b, result, pass_code_cast(s, t, pass_value(s, pass_env_copy(s, env), e->args[1])));
  ir_open_else(&s->b, test);
  ir_set(&s->b, result, pass_code_cast(s, t, pass_value(s, pass_env_copy(s, env), e->args[2])));
  ir_close(&s->b, outer);
  return pass_code_ref(s, result);
}

static ir_expr *where_value(lower_state *s, lower_env *env, const ir_expr *e) {
  ir_expr *condition = pass_value_condition(s, env, e->args[0]);
  ir_dtype t = pass_value_dtype(s, e->dtype);
  if (pass_code_is_false(condition)) return pass_code_cast(s, t, pass_value(s, env, e->args[2]));
  if (!condition) return pass_code_cast(s, t, pass_value(s, env, e->args[1]));
  if (is_heavy(e->args[1]) || is_heavy(e->args[2])) return branch_value(s, env, e, condition);
  ir_expr *x = pass_code_cast(s, t, pass_value(s, env, e->args[1]));
  return pass_code_where(s, condition, x, pass_code_cast(s, t, pass_value(s, env, e->args[2])));
}

/* The dtype that the operands of a node are computed in. */
static ir_dtype operand_dtype(lower_state *s, const ir_expr *e) {
  if (ir_op_rows[e->op].traits & IR_BOOL_ONLY) return IR_B1;
  if (ir_op_rows[e->op].result != IR_RESULT_BOOL) return pass_value_dtype(s, e->dtype);
  ir_dtype x = pass_value_dtype(s, e->args[0]->dtype);
  if (e->arg_count < 2) return x;
  ir_dtype y = pass_value_dtype(s, e->args[1]->dtype), both = ir_dtype_join(x, y);
  return both == IR_NONE ? x : both;
}

/* A spelled op becomes its definition, which may read an operand several times. */
static ir_expr *spelled_value(lower_state *s, ir_op op, ir_expr **args, int count) {
  for (int i = 0; i < count; i++)
    if (args[i]->arg_count && args[i]->kind != IR_LOAD) args[i] = pass_code_let(s, "x", args[i]);
  return ir_op_spelled(s->arena, op, args);
}

static ir_expr *op_value(lower_state *s, lower_env *env, const ir_expr *e) {
  if (e->op == IR_OP_WHERE) return where_value(s, env, e);
  ir_dtype t = operand_dtype(s, e);
  ir_expr *args[3] = {NULL, NULL, NULL};
  for (int i = 0; i < e->arg_count; i++)
    args[i] = pass_code_cast(s, t, pass_value(s, env, e->args[i]));
  if (e->op == IR_OP_AND || e->op == IR_OP_OR) {
    ir_expr *both =
        e->op == IR_OP_AND ? pass_code_and(s, args[0], args[1]) : pass_code_or(s, args[0], args[1]);
    return both ? both : pass_code_bool(s, true);
  }
  if (ir_op_rows[e->op].spelled) return spelled_value(s, e->op, args, e->arg_count);
  return ir_apply(s->arena, e->op, args[0], args[1]);
}

/* ---- everything ------------------------------------------------------------------------------ */
ir_expr *pass_value(lower_state *s, lower_env *env, const ir_expr *e) {
  lower_memo *memo = pass_env_memo(env, e);
  if (memo && (e->kind == IR_REDUCE || e->kind == IR_VAR)) return memo->value[0];
  switch (e->kind) {
  case IR_CONST: {
    ir_dtype t = pass_value_dtype(s, e->dtype);
    return ir_dtype_is_float(t) ? ir_const_f(s->arena, t, e->f) : ir_const_i(s->arena, t, e->i);
  }
  case IR_INDEX: return pass_env_find(env, e->index)->value;
  case IR_ACCESS: return access_value(s, env, e);
  case IR_OP: return op_value(s, env, e);
  case IR_CAST: return cast_value(s, env, e);
  case IR_REDUCE: return pass_reduce_value(s, env, e);
  case IR_SOFTMAX: return pass_softmax_value(s, env, e);
  case IR_TOPK: return pass_topk_value(s, env, e);
  case IR_STORED: return stored_value(s, env, e);
  case IR_DIM:
  case IR_VAR:
  case IR_LOAD: break;
  }
  return (ir_expr *)e;
}

ir_expr *pass_value_condition(lower_state *s, lower_env *env, const ir_expr *e) {
  ir_expr *value = pass_code_cast(s, IR_B1, pass_value(s, env, e));
  return pass_code_and(s, NULL, value);
}
