/* lower_rowops.c - softmax and topk: what depends on a whole row, and the element's share of it.
 *
 * softmax keeps the row's maximum and the sum of exp(x - maximum).  topk keeps the value of the
 * k-th largest element and the position of the last one of that value that is still taken: an
 * element is kept when it is larger, or equal and not behind.  Exactly k elements are kept, ties
 * from the left.
 *
 * The k-th largest is found by bisection between values that occur: each pass counts the elements
 * above the middle and finds the nearest ones on both sides of it, so that the bounds are always
 * elements. */
#include <math.h>

#include "passes/lower.h"

typedef struct row {
  const ir_expr *node;
  ir_dtype dtype;
  void (*each)(lower_state *s, lower_env *env, struct row *r, ir_expr *value);
  ir_var *var[4];
  ir_expr *limit[2];
} row;

static void row_leaf(lower_nest *nest, lower_env *env) {
  row *r = nest->user;
  ir_expr *value = pass_code_cast(nest->s, r->dtype, pass_value(nest->s, env, r->node->args[0]));
  r->each(nest->s, env, r, pass_code_let(nest->s, "value", value));
}

/* Visits the elements of the row in order; those that are certainly `skip` are left out when skips.
 */
static void each_element(lower_state *s, lower_env *env, row *r, bool skips, double skip) {
  lower_env *inner = pass_env_copy(s, env);
  ir_index *along = r->node->bound[0];
  pass_env_forget(s, inner, along);
  lower_nest nest = {.s = s,
                     .root = r->node->args[0],
                     .driver = -1,
                     .target = -1,
                     .index = &along,
                     .count = 1,
                     .leaf = row_leaf,
                     .user = r,
                     .skips = skips,
                     .skip = skip};
  pass_nest(&nest, inner);
}

static void set_op(lower_state *s, ir_var *var, ir_op op, ir_expr *y) {
  ir_set(&s->b, var, ir_apply(s->arena, op, pass_code_ref(s, var), y));
}

/* ---- softmax --------------------------------------------------------------------------------- */
static void take_largest(lower_state *s, lower_env *env, row *r, ir_expr *value) {
  (void)env;
  set_op(s, r->var[0], IR_OP_MAX, value);
}

static ir_expr *shifted(lower_state *s, row *r, ir_expr *value) {
  ir_expr *difference = ir_apply(s->arena, IR_OP_SUB, value, pass_code_ref(s, r->var[1]));
  return ir_apply(s->arena, IR_OP_EXP, difference, NULL);
}

static void add_share(lower_state *s, lower_env *env, row *r, ir_expr *value) {
  (void)env;
  set_op(s, r->var[2], IR_OP_ADD, shifted(s, r, value));
}

/* A row of nothing but -inf: subtracting 0 instead gives exp(-inf) = 0 everywhere. */
static ir_expr *finite_shift(lower_state *s, row *r) {
  ir_expr *largest = pass_code_ref(s, r->var[0]), *gone = pass_value_const(s, r->dtype, -INFINITY);
  return pass_code_where(s, pass_code_op(s, IR_OP_EQ, largest, gone),
                         pass_value_const(s, r->dtype, 0), largest);
}

void pass_softmax_prepare(lower_state *s, lower_env *env, const ir_expr *e) {
  row r = {.node = e, .dtype = pass_value_dtype(s, e->dtype), .each = take_largest};
  r.var[0] = ir_let(&s->b, "largest", r.dtype, pass_value_const(s, r.dtype, -INFINITY));
  each_element(s, env, &r, true, -INFINITY);
  r.var[1] = ir_let(&s->b, "shift", r.dtype, finite_shift(s, &r));
  r.var[2] = ir_let(&s->b, "total", r.dtype, pass_value_const(s, r.dtype, 0));
  r.each = add_share;
  each_element(s, env, &r, true, -INFINITY);
  pass_env_keep(env, (lower_memo){e, {pass_code_ref(s, r.var[1]), pass_code_ref(s, r.var[2])}});
}

ir_expr *pass_softmax_value(lower_state *s, lower_env *env, const ir_expr *e) {
  if (!pass_env_memo(env, e)) pass_softmax_prepare(s, env, e);
  lower_memo *memo = pass_env_memo(env, e);
  ir_dtype t = pass_value_dtype(s, e->dtype);
  ir_expr *value = pass_code_cast(s, t, pass_value(s, env, e->args[0]));
  ir_expr *difference = ir_apply(s->arena, IR_OP_SUB, value, memo->value[0]);
  ir_expr *share = ir_apply(s->arena, IR_OP_EXP, difference, NULL), *total = memo->value[1];
  ir_expr *zero = pass_value_const(s, t, 0);
  ir_expr *none = pass_code_op(s, IR_OP_EQ, total, zero);
  return pass_code_where(s, none, zero, ir_apply(s->arena, IR_OP_DIV, share, total));
}

/* ---- topk: order with NaN above everything --------------------------------------------------- */
static ir_expr *is_nan(lower_state *s, ir_expr *x) { return pass_code_op(s, IR_OP_NE, x, x); }

/* x as an ordered value: NaN counts as +inf. */
static ir_expr *ordered(lower_state *s, ir_expr *x) {
  if (!ir_dtype_is_float(x->dtype)) return x;
  return pass_code_where(s, is_nan(s, x), pass_value_const(s, x->dtype, INFINITY), x);
}

static ir_expr *least_of(lower_state *s, ir_dtype t) {
  return pass_reduce_identity(s, IR_RED_MAX, t);
}
static ir_expr *most_of(lower_state *s, ir_dtype t) {
  return pass_reduce_identity(s, IR_RED_MIN, t);
}

static void take_bounds(lower_state *s, lower_env *env, row *r, ir_expr *value) {
  (void)env;
  set_op(s, r->var[0], IR_OP_MIN, ordered(s, value));
  set_op(s, r->var[1], IR_OP_MAX, ordered(s, value));
}

/* Above the middle: one more, and the smallest of them; else the largest of the rest. */
static void count_above(lower_state *s, lower_env *env, row *r, ir_expr *value) {
  (void)env;
  ir_expr *x = pass_code_let(s, "key", ordered(s, value));
  ir_block *outer;
  ir_code *test = ir_open_if(&s->b, pass_code_op(s, IR_OP_GT, x, r->limit[0]), &outer);
  set_op(s, r->var[0], IR_OP_ADD, pass_code_int(s, 1));
  set_op(s, r->var[1], IR_OP_MIN, x);
  ir_open_else(&s->b, test);
  set_op(s, r->var[2], IR_OP_MAX, x);
  ir_close(&s->b, outer);
}

/* Between low and high without overflow, and below high: the search ends. */
static ir_expr *middle(lower_state *s, ir_dtype t, ir_expr *low, ir_expr *high) {
  if (!ir_dtype_is_float(t)) {
    ir_expr *x = pass_code_cast(s, IR_I64, low), *y = pass_code_cast(s, IR_I64, high),
            *two = pass_code_int(s, 2);
    ir_expr *half =
        pass_code_add(s, pass_code_op(s, IR_OP_DIV, x, two), pass_code_op(s, IR_OP_DIV, y, two));
    half = pass_code_op(s, IR_OP_MAX, half, x);
    return pass_code_cast(s, t, pass_code_where(s, pass_code_op(s, IR_OP_LT, half, y), half, x));
  }
  ir_expr *half = pass_value_const(s, t, 0.5);
  ir_expr *mid = pass_code_add(s, pass_code_mul(s, low, half), pass_code_mul(s, high, half));
  ir_expr *inside =
      pass_code_and(s, pass_code_op(s, IR_OP_GE, mid, low), pass_code_op(s, IR_OP_LT, mid, high));
  return pass_code_where(s, inside, mid, low);
}

/* At least k elements are >= low, fewer than k are > high: low == high is the k-th largest. */
static ir_expr *find_threshold(lower_state *s, lower_env *env, row *r) {
  ir_dtype t = r->dtype;
  ir_var *low = ir_let(&s->b, "low", t, most_of(s, t)),
         *high = ir_let(&s->b, "high", t, least_of(s, t));
  ir_expr *l = pass_code_ref(s, low), *h = pass_code_ref(s, high);
  *r = (row){.node = r->node, .dtype = t, .each = take_bounds, .var = {low, high}};
  each_element(s, env, r, false, 0);
  ir_block *loop, *branch;
  ir_open_while(&s->b, pass_code_op(s, IR_OP_LT, l, h), &loop);
  ir_expr *mid = pass_code_let(s, "mid", middle(s, t, l, h));
  *r = (row){.node = r->node, .dtype = t, .each = count_above, .limit = {mid}};
  r->var[0] = ir_let(&s->b, "above", IR_I64, pass_code_int(s, 0));
  r->var[1] = ir_let(&s->b, "over", t, most_of(s, t));
  r->var[2] = ir_let(&s->b, "under", t, least_of(s, t));
  each_element(s, env, r, false, 0);
  ir_expr *enough =
      pass_code_op(s, IR_OP_GE, pass_code_ref(s, r->var[0]), pass_code_int(s, r->node->i));
  ir_code *test = ir_open_if(&s->b, enough, &branch);
  ir_set(&s->b, low, pass_code_ref(s, r->var[1]));
  ir_open_else(&s->b, test);
  ir_set(&s->b, high, pass_code_ref(s, r->var[2]));
  ir_close(&s->b, branch);
  ir_close(&s->b, loop);
  return l;
}

static void count_larger(lower_state *s, lower_env *env, row *r, ir_expr *value) {
  (void)env;
  ir_expr *larger = pass_code_op(s, IR_OP_GT, ordered(s, value), r->limit[0]);
  set_op(s, r->var[0], IR_OP_SUB,
         pass_code_where(s, larger, pass_code_int(s, 1), pass_code_int(s, 0)));
}

/* The position of the last element equal to the threshold that is still among the k. */
static void take_equal(lower_state *s, lower_env *env, row *r, ir_expr *value) {
  ir_expr *equal = pass_code_op(s, IR_OP_EQ, ordered(s, value), r->limit[0]);
  ir_expr *room = pass_code_op(s, IR_OP_GT, pass_code_ref(s, r->var[0]), pass_code_int(s, 0));
  ir_block *outer;
  ir_open_if(&s->b, pass_code_and(s, equal, room), &outer);
  ir_set(&s->b, r->var[1], pass_env_find(env, r->node->bound[0])->value);
  set_op(s, r->var[0], IR_OP_SUB, pass_code_int(s, 1));
  ir_close(&s->b, outer);
}

void pass_topk_prepare(lower_state *s, lower_env *env, const ir_expr *e) {
  row r = {.node = e, .dtype = pass_value_dtype(s, e->dtype)};
  ir_expr *threshold = find_threshold(s, env, &r);
  r = (row){.node = e, .dtype = r.dtype, .each = count_larger, .limit = {threshold}};
  r.var[0] = ir_let(&s->b, "room", IR_I64, pass_code_int(s, e->i));
  r.var[1] = ir_let(&s->b, "last_equal", IR_I64, pass_code_int(s, -1));
  each_element(s, env, &r, false, 0);
  r.each = take_equal;
  each_element(s, env, &r, false, 0);
  pass_env_keep(env, (lower_memo){e, {threshold, pass_code_ref(s, r.var[1])}});
}

ir_expr *pass_topk_value(lower_state *s, lower_env *env, const ir_expr *e) {
  if (!pass_env_memo(env, e)) pass_topk_prepare(s, env, e);
  lower_memo *memo = pass_env_memo(env, e);
  ir_dtype t = pass_value_dtype(s, e->dtype);
  ir_expr *value = pass_code_let(s, "value", pass_code_cast(s, t, pass_value(s, env, e->args[0])));
  ir_expr *key =
      pass_code_let(s, "key", ordered(s, value)); /* said once: masks repeat conditions */
  ir_expr *at = pass_env_find(env, e->bound[0])->value;
  ir_expr *equal = pass_code_and(s, pass_code_op(s, IR_OP_EQ, key, memo->value[0]),
                                 pass_code_op(s, IR_OP_LE, at, memo->value[1]));
  ir_expr *kept = pass_code_or(s, pass_code_op(s, IR_OP_GT, key, memo->value[0]), equal);
  return pass_code_where(s, kept, value, pass_value_const(s, t, 0));
}
