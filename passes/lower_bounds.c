/* lower_bounds.c - loops that end where a predicate does.
 *
 *     sum[j] where(j <= i and M, x, 0)      for j = 0 .. J        becomes      for j = 0 .. min(J,
 * i + 1)
 *
 * Only predicates that compare the index with something known outside its loop count, and only
 * where the points behind them need not be visited.  Predicates stay in the body: a bound may be
 * loose. */
#include "passes/expr.h"
#include "passes/lower.h"

typedef struct bounds {
  lower_state *s;
  lower_env *env;
  const ir_index *index;
  ir_expr *lo, *hi;
} bounds;

static ir_op mirrored(ir_op op) {
  return op == IR_OP_LT   ? IR_OP_GT
         : op == IR_OP_LE ? IR_OP_GE
         : op == IR_OP_GT ? IR_OP_LT
         : op == IR_OP_GE ? IR_OP_LE
                          : op;
}

static void at_least(bounds *b, ir_expr *value) {
  b->lo = pass_code_op(b->s, IR_OP_MAX, b->lo, value);
}
static void below(bounds *b, ir_expr *value) {
  b->hi = pass_code_op(b->s, IR_OP_MIN, b->hi, value);
}

static void use_comparison(bounds *b, ir_op op, ir_expr *value) {
  ir_expr *after = pass_code_add(b->s, value, pass_code_int(b->s, 1));
  if (op == IR_OP_LT) below(b, value);
  if (op == IR_OP_LE || op == IR_OP_EQ) below(b, after);
  if (op == IR_OP_GE || op == IR_OP_EQ) at_least(b, value);
  if (op == IR_OP_GT) at_least(b, after);
}

static bool is_known(bounds *b, const ir_expr *e) {
  return e->dtype == IR_I64 && !ir_expr_uses_index(e, b->index) && pass_is_elementwise(e) &&
         pass_env_closes(b->s, b->env, e);
}

/* The term compares the index with what is known outside its loop: index `op` value. */
static bool compares(bounds *b, const ir_expr *term, ir_op *op, const ir_expr **value) {
  if (term->kind != IR_OP || term->arg_count != 2) return false;
  bool left = ir_is_bare(term->args[0], b->index) && is_known(b, term->args[1]);
  if (!left && !(ir_is_bare(term->args[1], b->index) && is_known(b, term->args[0]))) return false;
  *op = left ? term->op : mirrored(term->op);
  *value = term->args[left ? 1 : 0];
  return *op == IR_OP_LT || *op == IR_OP_LE || *op == IR_OP_GT || *op == IR_OP_GE || *op == IR_OP_EQ;
}

static void use_term(bounds *b, const ir_expr *term) {
  ir_op op;
  const ir_expr *value;
  if (compares(b, term, &op, &value)) use_comparison(b, op, pass_value(b->s, b->env, value));
}

/* The condition outside which root is the value that is left out; NULL: none. */
static ir_expr *condition_of(const lower_nest *nest) {
  const ir_expr *root = nest->root;
  double value;
  if (nest->only) return (ir_expr *)nest->only;
  if (!nest->skips || nest->rest || root->kind != IR_OP || root->op != IR_OP_WHERE) return NULL;
  return ir_const_value(root->args[2], &value) && value == nest->skip ? root->args[0] : NULL;
}

/* A triangle: the index on one side of another one.  Twice the elements in whole tiles take less time than half of them alone. */
static bool is_triangle(bounds *b, const pass_terms *terms) {
  int sides = 0;
  for (int i = 0; i < terms->list.count; i++) {
    ir_op op;
    const ir_expr *value;
    if (!compares(b, terms->list.at[i], &op, &value)) continue;
    if (op == IR_OP_EQ || value->kind != IR_INDEX) return false;
    sides++;
  }
  return sides == 1;
}

bool pass_nest_bounds(const lower_nest *nest, lower_env *env, const ir_index *index, ir_expr **lo,
                      ir_expr **hi) {
  ir_expr *condition = condition_of(nest);
  if (!condition || env->bound_count == 0) return false;
  if (nest->spatial && !nest->only && pass_is_elementwise(nest->root))
    return false; /* filling first would cost as much */
  bounds b = {nest->s, env, index, *lo, *hi};
  pass_terms terms = {0};
  pass_terms_of(nest->s->arena, condition, &terms);
  if (nest->spatial && nest->s->stage->whole && is_triangle(&b, &terms)) return false;
  for (int i = 0; i < terms.list.count; i++) use_term(&b, terms.list.at[i]);
  bool tighter = b.lo != *lo || b.hi != *hi;
  *lo = b.lo;
  *hi = b.hi;
  return tighter;
}
