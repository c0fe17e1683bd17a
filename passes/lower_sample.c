/* lower_sample.c - elements that nobody looks at are not computed.
 *
 *     let u[i,j] = 1 / s[i,j]            // 0, and not 1 / 0, where A[i,j] is 0
 *     out y[i,j] = A[i,j] * u[i,j]
 *
 * `propagate` says where each statement's values are wanted (its sample).  Mostly the loops need
 * not ask: they walk what the operands store, and a stored zero costs a product with 0.  They must
 * ask where the value of what is not wanted would not be 0: then it is no factor of what the loops
 * walk, or it makes an infinity of elements that were not computed, which read as 0 (0 * (1 / 0) is
 * NaN). */
#include "passes/expr.h"
#include "passes/lower.h"

/* ---- can the condition be asked here? -------------------------------------------------------- */
static bool comes_later(const lower_state *s, const ir_tensor *tensor) {
  if (tensor->role == IR_ROLE_IN) return false;
  for (int i = 0; i < s->kernel->stmts.count && s->kernel->stmts.at[i] != s->stmt; i++)
    if (s->kernel->stmts.at[i]->target == tensor) return false;
  return true;
}

static bool is_computed(const lower_state *s, const ir_expr *e) {
  if (e->kind == IR_ACCESS && comes_later(s, e->tensor)) return false;
  for (int i = 0; i < e->arg_count; i++)
    if (!is_computed(s, e->args[i])) return false;
  return true;
}

/* ---- must it be asked? ----------------------------------------------------------------------- */
static bool reads_tensor_of(const ir_expr *value, const ir_expr *term) {
  if (term->kind == IR_ACCESS && ir_expr_uses_tensor(value, term->tensor)) return true;
  for (int i = 0; i < term->arg_count; i++)
    if (reads_tensor_of(value, term->args[i])) return true;
  return false;
}

/* Where the operands store nothing the value is 0; else the loops cannot be trusted to leave a 0
 * there (exp(0 - 0) / 0, where the sums of a softmax were not needed either). */
static bool is_zero_outside(lower_state *s, const ir_expr *value) {
  s->accesses.count = 0;
  pass_access_collect(s, value);
  lower_fold outside = pass_fold(s, NULL, value, NULL, NULL);
  return outside.known && outside.value == 0;
}

/* ---- the statement --------------------------------------------------------------------------- */
static ir_expr *terms_to_ask(lower_state *s, bool all) {
  pass_terms terms = {0};
  ir_expr *condition = NULL;
  pass_terms_of(s->arena, s->stmt->sample, &terms);
  for (int i = 0; i < terms.list.count; i++) {
    ir_expr *term = terms.list.at[i];
    bool left = !all && reads_tensor_of(s->stmt->value, term);
    if (pass_is_elementwise(term) && is_computed(s, term) && !left)
      condition = pass_and(s->arena, condition, term);
  }
  return condition;
}

/* A statement whose pattern is computed: what has an entry is the matter of ir/stores.c, so the
 * value is asked and not the statement. */
static ir_stmt *with_value_asked(lower_state *s, ir_expr *condition) {
  ir_stmt *stmt = s->stmt, *copy = IR_NEW(s->arena, ir_stmt);
  ir_expr *stores = ir_stores_of_stmt(s->arena, stmt);
  if (stmt->cond && !pass_implies(s->arena, stores, stmt->cond))
    condition = pass_and(s->arena, stmt->cond, condition);
  if (!condition) return stmt;
  *copy = *stmt;
  copy->stores = stores ? stores : pass_code_bool(s, true);
  copy->value = ir_apply3(s->arena, IR_OP_WHERE, condition, stmt->value,
                          pass_value_const(s, stmt->value->dtype, 0));
  return copy;
}

/* A result is 0 where it is not wanted, by itself, as long as its value stays finite. */
ir_stmt *pass_lower_sampled(lower_state *s, bool assembled) {
  ir_stmt *stmt = s->stmt;
  bool finite = pass_is_finite_sampled(stmt->value), result = stmt->target->role == IR_ROLE_OUT;
  ir_expr *terms = NULL;
  if (stmt->sample && !(finite && (assembled || result)))
    terms = terms_to_ask(s, !finite || !is_zero_outside(s, stmt->value));
  if (stmt->fill != 0 && (assembled || result)) return stmt;
  if (assembled) return with_value_asked(s, terms);
  if (!terms) return stmt;
  ir_stmt *copy = IR_NEW(s->arena, ir_stmt);
  *copy = *stmt;
  copy->cond = pass_and(s->arena, stmt->cond, terms);
  return copy;
}
