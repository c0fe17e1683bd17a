/* lower_fold.c - what an expression becomes where some operands store nothing.
 *
 * The zero rules of the op table decide: 0 * x is 0, x + 0 is x, a reduction over its identity is
 * the identity.  A point whose value is known need not be visited; which operands must be walked
 * together, and how, follows from this one question asked for every subset of them. */
#include <math.h>

#include "passes/lower.h"

static const lower_fold unknown = {false, 0};

typedef struct folding {
  lower_state *s;
  lower_env *env;
  const bool *absent;
  const ir_index *at;
} folding;

static lower_fold fold(const folding *f, const ir_expr *e);

static lower_fold known(double value) { return (lower_fold){true, value}; }

static lower_fold fold_access(const folding *f, const ir_expr *e) {
  int number = pass_access_number(f->s, e);
  if (number < 0) return unknown;
  const lower_access *access = &f->s->accesses.at[number];
  bool absent = f->absent ? f->absent[number] : pass_access_is_sparse(access);
  const lower_cursor *c = f->env ? &f->env->cursor[number] : NULL;
  if (c && c->present && pass_code_is_false(c->present)) absent = true;
  if (!absent) return unknown;
  return known(pass_access_is_sparse(access) ? e->tensor->fill
                                             : 0); /* a dense one is absent out of range */
}

static lower_fold evaluate(const ir_expr *e, const lower_fold *x) {
  const ir_op_row *row = &ir_op_rows[e->op];
  double f[3] = {0, 0, 0};
  int64_t n[3] = {0, 0, 0};
  bool integers = row->eval_int != NULL;
  for (int i = 0; i < e->arg_count; i++) {
    f[i] = x[i].value;
    integers = integers && !ir_dtype_is_float(e->args[i]->dtype) && fabs(f[i]) < 1e15;
    if (integers) n[i] = (int64_t)f[i];
  }
  return known(integers ? (double)row->eval_int(n) : row->eval(f));
}

static lower_fold fold_where(const folding *f, const ir_expr *e) {
  lower_fold condition = fold(f, e->args[0]);
  if (condition.known) return fold(f, e->args[condition.value != 0 ? 1 : 2]);
  lower_fold x = fold(f, e->args[1]), y = fold(f, e->args[2]);
  return x.known && y.known && x.value == y.value ? x : unknown;
}

static lower_fold by_rule(ir_zero zero, lower_fold x, lower_fold y) {
  switch (zero) {
  case IR_ZERO_Z: return known(0);
  case IR_ZERO_X: return x;
  case IR_ZERO_Y: return y;
  case IR_ZERO_F: break;
  }
  return unknown;
}

/* 0 * x may be skipped unless zeros must meet Inf and NaN; the logical ops are exact. */
static bool may_assume(const folding *f, const ir_expr *e) {
  bool strict = f->s->kernel->program->strict_nan || f->s->context->options->strict_nan;
  return !strict || (ir_op_rows[e->op].traits & IR_BOOL_ONLY) || !ir_dtype_is_float(e->dtype);
}

static lower_fold fold_op(const folding *f, const ir_expr *e) {
  if (e->op == IR_OP_WHERE) return fold_where(f, e);
  lower_fold x[3] = {unknown, unknown, unknown};
  bool all = true;
  for (int i = 0; i < e->arg_count; i++) {
    x[i] = fold(f, e->args[i]);
    all = all && x[i].known;
  }
  if (all) return evaluate(e, x);
  if (e->arg_count != 2 || !may_assume(f, e)) return unknown;
  const ir_zero *zero = ir_op_rows[e->op].zero;
  if (x[0].known && x[0].value == 0) return by_rule(zero[2], x[0], x[1]);
  if (x[1].known && x[1].value == 0) return by_rule(zero[1], x[0], x[1]);
  return unknown;
}

static bool binds_anew(const folding *f, const ir_expr *e) {
  for (int i = 0; i < e->bound_count; i++)
    if (e->bound[i] == f->at || (f->env && pass_env_find(f->env, e->bound[i]))) return true;
  return false;
}

static lower_fold fold_reduce(const folding *f, const ir_expr *e) {
  if (e->reducer == IR_RED_ARGMAX || (f->absent && binds_anew(f, e))) return unknown;
  lower_fold body = fold(f, e->args[0]);
  bool identity = body.known && body.value == pass_reduce_zero(e->reducer, e->dtype);
  return identity ? body : unknown;
}

/* Of one element of a row: exp(-inf) is 0; a zero stays one whether it is among the largest or not.
 */
static lower_fold fold_row(const folding *f, const ir_expr *e) {
  lower_fold body = fold(f, e->args[0]);
  double gone = e->kind == IR_SOFTMAX ? -INFINITY : 0;
  return body.known && body.value == gone ? known(0) : unknown;
}

static lower_fold fold(const folding *f, const ir_expr *e) {
  double value;
  if (ir_const_value(e, &value)) return known(value);
  if (f->env && e->kind == IR_REDUCE && pass_env_memo(f->env, e)) return unknown;
  switch (e->kind) {
  case IR_ACCESS: return fold_access(f, e);
  case IR_OP: return fold_op(f, e);
  case IR_CAST: {
    lower_fold x = fold(f, e->args[0]);
    return x.known && (x.value == 0 || ir_dtype_is_float(e->dtype)) ? x : unknown;
  }
  case IR_STORED: return fold(f, e->args[0]).known ? known(0) : unknown; /* known: absent here */
  case IR_REDUCE: return fold_reduce(f, e);
  case IR_SOFTMAX:
  case IR_TOPK: return fold_row(f, e);
  case IR_CONST:
  case IR_DIM:
  case IR_INDEX:
  case IR_VAR:
  case IR_LOAD: break;
  }
  return unknown;
}

lower_fold pass_fold(lower_state *s, lower_env *env, const ir_expr *e, const bool *absent,
                     const ir_index *at) {
  return fold(&(folding){s, env, absent, at}, e);
}

/* ---- trees ----------------------------------------------------------------------------------- */
static ir_expr *constant_of(lower_state *s, const ir_expr *e, double value) {
  if (ir_dtype_is_float(e->dtype)) return ir_const_f(s->arena, e->dtype, value);
  return ir_const_i(s->arena, e->dtype, (int64_t)value);
}

static ir_expr *fold_tree(const folding *f, const ir_expr *e) {
  lower_fold value = fold(f, e);
  if (value.known && (isfinite(value.value) || ir_dtype_is_float(e->dtype)))
    return constant_of(f->s, e, value.value);
  bool whole = e->kind == IR_REDUCE && binds_anew(f, e);
  if (whole || e->kind == IR_ACCESS || e->kind == IR_SOFTMAX || e->kind == IR_TOPK)
    return (ir_expr *)e;
  ir_expr *args[3] = {NULL, NULL, NULL};
  for (int i = 0; i < e->arg_count; i++) args[i] = fold_tree(f, e->args[i]);
  return e->arg_count ? ir_copy_with(f->s->arena, e, args) : (ir_expr *)e;
}

ir_expr *pass_fold_tree(lower_state *s, lower_env *env, const ir_expr *e, const bool *absent,
                        const ir_index *at) {
  return fold_tree(&(folding){s, env, absent, at}, e);
}

bool pass_nest_skips(const lower_nest *nest, lower_env *env, const bool *absent,
                     const ir_index *at) {
  if (nest->only) {
    lower_fold only = pass_fold(nest->s, env, nest->only, absent, at);
    return only.known && only.value == 0;
  }
  if (nest->rest)
    return ir_expr_equal(pass_fold_tree(nest->s, env, nest->root, absent, at), nest->rest);
  if (!nest->skips) return false;
  lower_fold value = pass_fold(nest->s, env, nest->root, absent, at);
  return value.known && value.value == nest->skip;
}
