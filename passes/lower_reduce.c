/* lower_reduce.c - reductions inside an expression: an accumulator and a nest over the bound
 * indices.
 *
 *     sum[k] A[i,k] * x[k]     let acc = 0;  for p in pos[i] .. pos[i+1] { acc = acc + vals[p] *
 * x[crd[p]] }
 *
 * Elements that nothing stores are not visited.  Where they do not give the identity (max over a
 * csr row, a sum of exp(A[i,j])) they all give the same value: it is combined once at the end, as
 * often as points were left out.
 *
 * A reduction that does not depend on the innermost indices of a statement is computed outside
 * them. */
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

/* ---- one reduction --------------------------------------------------------------------------- */
typedef struct reduction {
  const ir_expr *node;
  ir_var *acc, *best;  /* best: the largest value so far, of argmax */
  const ir_expr *rest; /* the value of points that are left out; NULL: the identity */
  ir_var *seen;        /* how many were visited; argmax: the first one that was not */
} reduction;

static void keep_first_largest(lower_state *s, lower_env *env, reduction *r, ir_expr *value) {
  ir_expr *at = pass_env_find(env, r->node->bound[0])->value;
  ir_expr *better = ir_value_is_better(s->arena, value, pass_code_ref(s, r->best), pass_code_ref(s, r->acc));
  ir_block *outer;
  ir_open_if(&s->b, better, &outer);
  ir_set(&s->b, r->best, value);
  ir_set(&s->b, r->acc, at);
  ir_close(&s->b, outer);
}

static void count_point(lower_state *s, lower_env *env, reduction *r) {
  ir_expr *seen = pass_code_ref(s, r->seen), *one = pass_code_int(s, 1);
  if (r->best) {
    ir_expr *next = pass_code_op(s, IR_OP_EQ, pass_env_find(env, r->node->bound[0])->value, seen);
    one = pass_code_where(s, next, one, pass_code_int(s, 0));
  }
  ir_set(&s->b, r->seen, pass_code_add(s, seen, one));
}

static void accumulate(lower_nest *nest, lower_env *env) {
  lower_state *s = nest->s;
  reduction *r = nest->user;
  if (r->seen) count_point(s, env, r);
  ir_expr *value = pass_value(s, env, r->node->args[0]);
  if (r->best) {
    value = pass_code_let(s, "value", pass_code_cast(s, r->best->dtype, value));
    keep_first_largest(s, env, r, value);
  } else {
    ir_expr *acc = pass_code_ref(s, r->acc);
    ir_set(&s->b, r->acc, pass_reduce_combine(s, r->node->reducer, r->acc->dtype, acc, value));
  }
}

/* ---- points that are left out ---------------------------------------------------------------- */
static bool has_sparse(lower_state *s, const ir_expr *e) {
  if (e->kind == IR_ACCESS && pass_access_is_sparse(&s->accesses.at[pass_access_number(s, e)]))
    return true;
  for (int i = 0; i < e->arg_count; i++)
    if (has_sparse(s, e->args[i])) return true;
  return false;
}

static bool on_list(const lower_state *s, const ir_index *index) {
  for (int i = 0; i < s->stage->reads.count; i++)
    if (s->stage->reads.at[i]->ids && s->stage->reads.at[i]->axis == index) return true;
  return false;
}

/* What every point gives where no sparse operand stores anything, when that is not the identity and
 * can be combined at the end. */
static const ir_expr *rest_of(lower_state *s, lower_env *env, const ir_expr *e) {
  if (!has_sparse(s, e->args[0])) return NULL;
  if (e->reducer == IR_RED_ARGMAX && e->bound_count != 1) return NULL;
  for (int i = 0; i < e->bound_count; i++)
    if (e->bound[i]->offsets || on_list(s, e->bound[i])) return NULL;
  const ir_expr *rest = pass_fold_tree(s, NULL, e->args[0], NULL, NULL);
  double value;
  bool constant = ir_const_value(rest, &value);
  if (constant && value == pass_reduce_zero(e->reducer, e->args[0]->dtype)) return NULL;
  if (e->reducer == IR_RED_PROD && !(constant && value == 0)) return NULL;
  return pass_env_closes(s, env, rest) ? rest : NULL;
}

static ir_expr *all_points(lower_state *s, const ir_expr *e) {
  ir_expr *points = pass_code_int(s, 1);
  for (int i = 0; i < e->bound_count; i++) points = pass_code_mul(s, points, e->bound[i]->extent);
  return points;
}

static void combine_gap(lower_state *s, reduction *r, ir_expr *value) {
  ir_expr *best = pass_code_ref(s, r->best), *at = pass_code_ref(s, r->acc),
          *gap = pass_code_ref(s, r->seen);
  ir_expr *earlier =
      pass_code_and(s, pass_code_op(s, IR_OP_EQ, value, best), pass_code_op(s, IR_OP_LT, gap, at));
  ir_expr *none = pass_code_op(s, IR_OP_LT, at, pass_code_int(s, 0));
  ir_expr *better =
      pass_code_or(s, pass_code_op(s, IR_OP_GT, value, best), pass_code_or(s, earlier, none));
  ir_set(&s->b, r->acc, pass_code_where(s, better, gap, at));
}

static void combine_rest(lower_state *s, lower_env *env, reduction *r) {
  ir_expr *left = pass_code_sub(s, all_points(s, r->node), pass_code_ref(s, r->seen));
  ir_dtype t = r->best ? r->best->dtype : r->acc->dtype;
  ir_block *outer;
  ir_open_if(&s->b, pass_code_op(s, IR_OP_GT, left, pass_code_int(s, 0)), &outer);
  ir_expr *value = pass_code_cast(s, t, pass_value(s, pass_env_copy(s, env), r->rest));
  if (r->best) {
    combine_gap(s, r, pass_code_let(s, "rest", value));
  } else {
    if (r->node->reducer == IR_RED_SUM)
      value = ir_apply(s->arena, IR_OP_MUL, pass_code_cast(s, t, left), value);
    ir_set(&s->b, r->acc,
           pass_reduce_combine(s, r->node->reducer, t, pass_code_ref(s, r->acc), value));
  }
  ir_close(&s->b, outer);
}

/* ---- the whole ------------------------------------------------------------------------------- */
static void open_accumulators(lower_state *s, reduction *r) {
  const ir_expr *e = r->node;
  ir_dtype t = pass_value_dtype(s, e->dtype);
  r->acc =
      ir_let(&s->b, "acc", t, pass_code_cast(s, t, pass_reduce_identity(s, e->reducer, e->dtype)));
  if (e->reducer == IR_RED_ARGMAX) {
    ir_dtype value = pass_value_dtype(s, e->args[0]->dtype);
    r->best = ir_let(&s->b, "best", value, pass_reduce_identity(s, IR_RED_MAX, value));
  }
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
  reduction r = {.node = e, .rest = rest_of(s, inner, e)};
  open_accumulators(s, &r);
  if (r.rest)
    r.seen =
        ir_let(&s->b, e->reducer == IR_RED_ARGMAX ? "gap" : "seen", IR_I64, pass_code_int(s, 0));
  double identity = pass_reduce_zero(e->reducer, e->args[0]->dtype);
  lower_nest nest = {.s = s,
                     .root = e->args[0],
                     .driver = -1,
                     .target = -1,
                     .index = order->index,
                     .count = order->count,
                     .shallow = true,
                     .leaf = accumulate,
                     .user = &r};
  nest.rest = r.rest;
  nest.skips = e->reducer != IR_RED_ARGMAX;
  nest.skip = identity;
  pass_nest(&nest, inner);
  if (r.rest) combine_rest(s, inner, &r);
  ir_expr *result = pass_code_ref(s, r.acc);
  pass_env_keep(env, (lower_memo){e, {result, NULL}});
  return result;
}

/* ---- what outer loops can compute ------------------------------------------------------------ */
static void hoist_row(lower_state *s, lower_env *env, const ir_expr *e) {
  lower_env *row = pass_env_copy(s, env);
  const ir_index *segment = e->bound[0]->segment;
  if (pass_env_memo(env, e) || pass_env_find(env, e->bound[0])) return;
  if (segment && !pass_env_find(env, segment)) return;
  pass_env_bind(row, e->bound[0], pass_code_int(s, 0));
  if (!pass_env_closes(s, row, e)) return;
  if (e->kind == IR_SOFTMAX)
    pass_softmax_prepare(s, env, e);
  else
    pass_topk_prepare(s, env, e);
}

void pass_hoist(lower_state *s, lower_env *env, const ir_expr *e) {
  if (e->kind == IR_REDUCE) {
    if (!pass_env_memo(env, e) && pass_env_closes(s, env, e)) pass_reduce_value(s, env, e);
    return;
  }
  if (e->kind == IR_SOFTMAX || e->kind == IR_TOPK) {
    hoist_row(s, env, e);
    return;
  }
  for (int i = 0; i < e->arg_count; i++) pass_hoist(s, env, e->args[i]);
}
