/* support.c - where a value can be non-zero, bottom up over its expression.
 *
 *     S[i,j]  (csr, a hint, or made by relu)      S[i,j] != 0
 *     M[i,j]  (a pattern)                         M[i,j]
 *     a * b                                       support(a) and support(b)      rule INTERSECT
 *     a + b                                       support(a) or support(b)       rule UNION
 *     f(a), f(0) = 0                              support(a)                     rule KEEP
 *     f(a, c), c a constant, f(0, c) = 0          support(a)                     by the evaluator
 *     where(c, a, 0)                              c and support(a)
 *     sum[k] a                                    terms without k, and any[k](the others)
 * The rules come from the op table (ir_op_rule). Under strict_nan a float's product is not zero
 * because one factor is: only conditions and storage remain. */
#include "passes/support.h"
#include "passes/storage.h"

/* ---- tensors --------------------------------------------------------------------------------- */
static ir_expr *access_support(pass_context *c, ir_expr *e) {
  ir_tensor *t = e->tensor;
  if (t->dtype == IR_NONE || (t->dtype == IR_B1 && pass_tensor_is_sparse(t))) return e;
  if (pass_tensor_is_sparse(t) || t->pattern.zeros != IR_ZEROS_UNKNOWN) {
    ir_expr *zero = ir_const_f(c->arena, t->dtype, 0);
    return t->dtype == IR_B1 ? e : ir_apply(c->arena, IR_OP_NE, e, zero);
  }
  const ir_stmt *def = t->def;
  if (def == NULL || def->support == NULL || !pass_plain_subs(def)) return NULL;
  bool elsewhere = pass_captures(c->arena, def->support, e) || !pass_segments_stay(def, def->support, e);
  return elsewhere ? NULL : pass_at_access(c->arena, def, def->support, e);
}

bool pass_rests_on_storage(const ir_expr *support) {
  if (support == NULL) return false;
  if (support->kind == IR_ACCESS)
    return support->tensor->dtype == IR_NONE || pass_tensor_is_sparse(support->tensor);
  for (int i = 0; i < support->arg_count; i++)
    if (pass_rests_on_storage(support->args[i])) return true;
  return false;
}

/* ---- conditions ------------------------------------------------------------------------------ */
static bool is_index_value(const ir_expr *e) {
  if (e->kind == IR_ACCESS || pass_is_heavy(e)) return false;
  for (int i = 0; i < e->arg_count; i++)
    if (!is_index_value(e->args[i])) return false;
  return true;
}

static bool is_known_zeros(const ir_expr *access) {
  const ir_tensor *t = access->tensor;
  return t->dtype == IR_NONE || pass_tensor_is_sparse(t) || t->pattern.zeros != IR_ZEROS_UNKNOWN;
}

static bool is_condition(const ir_expr *e) {
  if (e->kind == IR_ACCESS) return is_known_zeros(e);
  if (e->kind != IR_OP) return e->kind == IR_CONST;
  if (is_index_value(e)) return true;
  if (e->op == IR_OP_NE && e->args[0]->kind == IR_ACCESS && pass_is_number(e->args[1], 0))
    return is_known_zeros(e->args[0]);
  if (e->op != IR_OP_AND && e->op != IR_OP_OR && e->op != IR_OP_NOT) return false;
  for (int i = 0; i < e->arg_count; i++)
    if (!is_condition(e->args[i])) return false;
  return true;
}

ir_expr *pass_condition_support(pass_context *c, const ir_stmt *stmt, ir_expr *condition) {
  if (is_condition(condition)) return condition;
  return pass_support_of(c, stmt, condition);
}

/* ---- ops ------------------------------------------------------------------------------------- */
/* f(x, constant) with f(0, constant) = 0: zero where x is. `operand` is the one that varies. */
static bool zero_with_constant(const ir_expr *e, int operand) {
  double x[3] = {0, 0, 0};
  if (!ir_const_value(e->args[1 - operand], &x[1 - operand])) return false;
  return ir_op_rows[e->op].eval(x) == 0;
}

static bool trusts_zeros(const pass_context *c, const ir_expr *e) {
  return !c->program->strict_nan || !ir_dtype_is_float(e->dtype);
}

static ir_expr *binary_support(pass_context *c, const ir_stmt *stmt, ir_expr *e) {
  ir_pattern_rule rule = ir_op_rule(e->op);
  for (int i = 0; i < 2; i++)
    if (e->args[1 - i]->kind == IR_CONST && zero_with_constant(e, i))
      return pass_support_of(c, stmt, e->args[i]);
  if (rule == IR_RULE_DENSE) return NULL;
  if (rule != IR_RULE_UNION && !trusts_zeros(c, e)) return NULL;
  ir_expr *left = pass_support_of(c, stmt, e->args[0]);
  ir_expr *right = pass_support_of(c, stmt, e->args[1]);
  if (rule == IR_RULE_LEFT) return left;
  if (rule == IR_RULE_RIGHT) return right;
  return rule == IR_RULE_UNION ? pass_or(c->arena, left, right) : pass_and(c->arena, left, right);
}

static ir_expr *where_support(pass_context *c, const ir_stmt *stmt, ir_expr *e) {
  ir_expr *condition = pass_condition_support(c, stmt, e->args[0]);
  ir_expr *yes = pass_and(c->arena, condition, pass_support_of(c, stmt, e->args[1]));
  return pass_or(c->arena, yes, pass_support_of(c, stmt, e->args[2]));
}

static ir_expr *op_support(pass_context *c, const ir_stmt *stmt, ir_expr *e) {
  if (e->dtype == IR_B1 && is_index_value(e)) return e;
  if (e->op == IR_OP_WHERE) return where_support(c, stmt, e);
  if (e->arg_count == 2) return binary_support(c, stmt, e);
  return ir_op_rule(e->op) == IR_RULE_KEEP ? pass_support_of(c, stmt, e->args[0]) : NULL;
}

/* ---- reductions ------------------------------------------------------------------------------ */
static bool is_free(const ir_stmt *stmt, const ir_index *index) {
  for (int i = 0; i < stmt->free.count; i++)
    if (stmt->free.at[i] == index || stmt->free.at[i]->segment == index) return true;
  return false;
}

/* The term has another value at other points of the reduction; those of a segment have its index.
 */
static bool uses_bound(const ir_expr *term, const ir_expr *reduce, const ir_stmt *stmt) {
  for (int i = 0; i < reduce->bound_count; i++) {
    const ir_index *segment = reduce->bound[i]->segment;
    if (ir_expr_uses_index(term, reduce->bound[i])) return true;
    if (segment && !is_free(stmt, segment) && ir_expr_depends_on(term, segment)) return true;
  }
  return false;
}

/* any[..] says something about the statement only when it tells all its elements apart. */
static bool uses_all_free(const ir_expr *e, const ir_stmt *stmt) {
  for (int i = 0; i < stmt->free.count; i++)
    if (!ir_expr_uses_index(e, stmt->free.at[i])) return false;
  return true;
}

static bool binds_again(pass_context *c, const ir_expr *e, const ir_expr *reduce) {
  pass_indices bound = {0};
  pass_indices_bound(c->arena, e, &bound);
  for (int i = 0; i < reduce->bound_count; i++)
    if (pass_indices_has(&bound, reduce->bound[i])) return true;
  return false;
}

static ir_expr *sum_support(pass_context *c, const ir_stmt *stmt, ir_expr *e) {
  pass_terms terms = {0};
  ir_expr *outside = NULL, *inside = NULL;
  ir_expr *body = pass_support_of(c, stmt, e->args[0]);
  pass_terms_of(c->arena, body, &terms);
  for (int i = 0; i < terms.list.count; i++) {
    ir_expr *term = terms.list.at[i];
    if (uses_bound(term, e, stmt))
      inside = pass_and(c->arena, inside, term);
    else
      outside = pass_and(c->arena, outside, term);
  }
  if (inside == NULL || !uses_all_free(inside, stmt) || binds_again(c, inside, e)) return outside;
  return pass_and(c->arena, outside,
                  ir_reduce(c->arena, IR_RED_ANY, e->bound, e->bound_count, inside));
}

ir_expr *pass_support_of(pass_context *c, const ir_stmt *stmt, ir_expr *e) {
  switch (e->kind) {
  case IR_CONST: return pass_is_number(e, 0) ? pass_false(c->arena) : NULL;
  case IR_ACCESS: return access_support(c, e);
  case IR_OP: return op_support(c, stmt, e);
  case IR_CAST:
  case IR_TOPK: return pass_support_of(c, stmt, e->args[0]);
  case IR_REDUCE:
    return e->reducer == IR_RED_SUM || e->reducer == IR_RED_ANY ? sum_support(c, stmt, e) : NULL;
  case IR_DIM:
  case IR_INDEX:
  case IR_SOFTMAX:
  case IR_STORED:
  case IR_VAR:
  case IR_LOAD: break;
  }
  return NULL;
}

/* ---- zeros made by functions ----------------------------------------------------------------- */
static bool made_by_tensor(const ir_expr *e) {
  return e->tensor->pattern.zeros == IR_ZEROS_DYNAMIC;
}

/* Every index in e is one that the condition looks at: it decides element by element. */
static bool decides_all(const ir_expr *condition, const ir_expr *e) {
  if (e->kind == IR_INDEX) return ir_expr_uses_index(condition, e->index);
  for (int i = 0; i < e->arg_count; i++)
    if (e->kind != IR_REDUCE && !decides_all(condition, e->args[i])) return false;
  return true;
}

/* where(x > limit, x, 0); not where(j <= i, ..), whose zeros are known from the indices. */
static bool where_makes_zeros(const ir_expr *e) {
  if (is_index_value(e->args[0]) || !decides_all(e->args[0], e)) return false;
  return pass_makes_zeros(e->args[1]) || pass_makes_zeros(e->args[2]);
}

bool pass_makes_zeros(const ir_expr *e) {
  if (e->kind == IR_ACCESS) return made_by_tensor(e);
  if (e->kind == IR_TOPK) return true;
  if (e->kind == IR_CAST) return pass_makes_zeros(e->args[0]);
  if (e->kind == IR_CONST) return pass_is_number(e, 0);
  if (e->kind != IR_OP || e->dtype == IR_B1) return false;
  if (e->op == IR_OP_WHERE) return where_makes_zeros(e);
  if (e->arg_count == 1 && ir_op_makes_zeros(e->op)) return true;
  switch (ir_op_rule(e->op)) {
  case IR_RULE_KEEP:
  case IR_RULE_LEFT: return pass_makes_zeros(e->args[0]);
  case IR_RULE_RIGHT: return pass_makes_zeros(e->args[1]);
  case IR_RULE_INTERSECT: return pass_makes_zeros(e->args[0]) || pass_makes_zeros(e->args[1]);
  case IR_RULE_UNION: return pass_makes_zeros(e->args[0]) && pass_makes_zeros(e->args[1]);
  case IR_RULE_DENSE: break;
  }
  return false;
}

ir_op pass_zero_loser(const ir_expr *e) {
  if (e->kind == IR_CAST) return pass_zero_loser(e->args[0]);
  if (e->kind != IR_OP) return IR_OP_COUNT;
  if (e->arg_count == 1 && !ir_op_makes_zeros(e->op)) return e->op;
  for (int i = 0; i < e->arg_count; i++) {
    ir_op op = pass_zero_loser(e->args[i]);
    if (op != IR_OP_COUNT) return op;
  }
  return IR_OP_COUNT;
}
