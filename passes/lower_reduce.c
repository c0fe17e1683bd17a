/* lower_reduce.c - reductions inside an expression: an accumulator and a nest over the bound indices.
 *
 *     sum[k] A[i,k] * x[k]     let acc = 0;  for p in pos[i] .. pos[i+1] { acc = acc + vals[p] * x[crd[p]] }
 *
 * A reduction that does not depend on the innermost indices of a statement is computed outside them. */
#include <math.h>

#include "passes/lower.h"

/* ---- reducers -------------------------------------------------------------------------------- */
double pass_reduce_zero(ir_reducer r, ir_dtype t) {
  if (r == IR_RED_ARGMAX) return NAN;
  if (ir_dtype_is_float(t)) return ir_reducer_identity(r, t);
  return (double)ir_reducer_identity_int(r, t);
}

ir_expr *pass_reduce_identity(lower_state *s, ir_reducer r, ir_dtype t) {
  if (r == IR_RED_ARGMAX) return ir_const_i(s->arena, t, -1);
  if (ir_dtype_is_float(t)) return ir_const_f(s->arena, t, ir_reducer_identity(r, t));
  return ir_const_i(s->arena, t, ir_reducer_identity_int(r, t));
}

ir_expr *pass_reduce_combine(lower_state *s, ir_reducer r, ir_dtype t, ir_expr *x, ir_expr *y) {
  return ir_apply(s->arena, ir_reducer_rows[r].combine, x, pass_code_cast(s, t, y));
}

/* ---- one reduction ----------------------------------------------------------------------------- */
typedef struct reduction {
  const ir_expr *node;
  ir_var *acc, *best; /* best: the largest value so far, of argmax */
  ir_var *hit;
} reduction;

static void keep_first_largest(lower_state *s, lower_env *env, reduction *r, ir_expr *value) {
  ir_expr *at = pass_env_find(env, r->node->bound[0])->value;
  ir_expr *best = pass_code_ref(s, r->best), *none = pass_code_op(s, IR_OP_LT, pass_code_ref(s, r->acc), pass_code_int(s, 0));
  ir_expr *is_nan = pass_code_and(s, pass_code_op(s, IR_OP_NE, value, value), pass_code_op(s, IR_OP_EQ, best, best));
  ir_expr *better = pass_code_or(s, pass_code_op(s, IR_OP_GT, value, best), none);
  if (ir_dtype_is_float(value->dtype)) better = pass_code_or(s, better, is_nan);
  ir_block *outer;
  ir_open_if(&s->b, better, &outer);
  ir_set(&s->b, r->best, value);
  ir_set(&s->b, r->acc, at);
  ir_close(&s->b, outer);
}

static void note_hit(lower_state *s, lower_env *env, reduction *r) {
  ir_expr *stored = pass_value_stored(s, env, r->node->args[0]);
  ir_expr *hit = pass_code_or(s, pass_code_ref(s, r->hit), stored);
  ir_set(&s->b, r->hit, hit ? hit : pass_code_bool(s, true));
}

static void accumulate(lower_nest *nest, lower_env *env) {
  lower_state *s = nest->s;
  reduction *r = nest->user;
  if (!s->only_hits) {
    ir_expr *value = pass_value(s, env, r->node->args[0]);
    if (r->best) {
      value = pass_code_let(s, "value", pass_code_cast(s, r->best->dtype, value));
      keep_first_largest(s, env, r, value);
    } else {
      ir_expr *acc = pass_code_ref(s, r->acc);
      ir_set(&s->b, r->acc, pass_reduce_combine(s, r->node->reducer, r->acc->dtype, acc, value));
    }
  }
  if (r->hit) note_hit(s, env, r);
}

static void open_accumulators(lower_state *s, reduction *r) {
  const ir_expr *e = r->node;
  ir_dtype t = pass_value_dtype(s, e->dtype);
  r->acc = ir_let(&s->b, "acc", t, pass_code_cast(s, t, pass_reduce_identity(s, e->reducer, e->dtype)));
  if (e->reducer == IR_RED_ARGMAX) {
    ir_dtype value = pass_value_dtype(s, e->args[0]->dtype);
    r->best = ir_let(&s->b, "best", value, pass_reduce_identity(s, IR_RED_MAX, value));
  }
  if (s->hits) r->hit = ir_let(&s->b, "hit", IR_B1, pass_code_bool(s, false));
}

static lower_loops *loops_of(lower_state *s, lower_env *env, const ir_expr *e) {
  lower_loops *order = IR_NEW(s->arena, lower_loops);
  for (int i = 0; i < e->bound_count; i++) {
    pass_env_forget(s, env, e->bound[i]);
    pass_loops_index(order, e->bound[i]);
  }
  pass_loops_lists(order, s->stage);
  for (int i = 0; i < s->accesses.count; i++) pass_loops_access(order, &s->accesses.at[i]);
  pass_loops_sort(order);
  return order;
}

ir_expr *pass_reduce_value(lower_state *s, lower_env *env, const ir_expr *e) {
  lower_memo *memo = pass_env_memo(env, e);
  if (memo) return memo->value[0];
  lower_env *inner = pass_env_copy(s, env);
  lower_loops *order = loops_of(s, inner, e);
  reduction r = {.node = e};
  open_accumulators(s, &r);
  double identity = pass_reduce_zero(e->reducer, e->args[0]->dtype);
  lower_nest nest = {.s = s, .root = e->args[0], .driver = -1, .target = -1, .index = order->index, .count = order->count,
                     .leaf = accumulate, .user = &r};
  nest.skips = e->reducer != IR_RED_ARGMAX;
  nest.skip = identity;
  pass_nest(&nest, inner);
  ir_expr *result = pass_code_ref(s, r.acc);
  pass_env_keep(env, (lower_memo){e, {result, NULL}, r.hit ? pass_code_ref(s, r.hit) : NULL});
  return result;
}

/* ---- what outer loops can compute ---------------------------------------------------------------- */
static void hoist_row(lower_state *s, lower_env *env, const ir_expr *e) {
  lower_env *row = pass_env_copy(s, env);
  if (pass_env_memo(env, e) || pass_env_find(env, e->bound[0])) return;
  pass_env_bind(row, e->bound[0], pass_code_int(s, 0));
  if (!pass_env_closes(s, row, e)) return;
  if (e->kind == IR_SOFTMAX) pass_softmax_prepare(s, env, e);
  else pass_topk_prepare(s, env, e);
}

void pass_hoist(lower_state *s, lower_env *env, const ir_expr *e) {
  if (e->kind == IR_REDUCE) {
    if (!s->hits && !pass_env_memo(env, e) && pass_env_closes(s, env, e)) pass_reduce_value(s, env, e);
    return;
  }
  if (e->kind == IR_SOFTMAX || e->kind == IR_TOPK) {
    hoist_row(s, env, e);
    return;
  }
  for (int i = 0; i < e->arg_count; i++) pass_hoist(s, env, e->args[i]);
}
