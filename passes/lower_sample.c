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
#include <math.h>

#include "passes/expr.h"
#include "passes/lower.h"
#include "passes/storage.h"

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

/* Not every element is computed: it, or what it is a copy of in another order, has a sample. */
static bool is_sampled(const ir_tensor *tensor) {
  const ir_tensor *source = tensor->def ? pass_stmt_converts(tensor->def) : NULL;
  return tensor->def && (tensor->def->sample || (source && is_sampled(source)));
}

static bool reads_sampled(const ir_expr *e) {
  if (e->kind == IR_ACCESS && is_sampled(e->tensor)) return true;
  for (int i = 0; i < e->arg_count; i++)
    if (reads_sampled(e->args[i])) return true;
  return false;
}

/* The op over elements that were not computed, all 0, and any others, of which 1 and -1 stand here.
 */
static bool op_is_finite(const ir_expr *e, double other) {
  double x[3] = {0, 0, 0};
  for (int i = 0; i < e->arg_count; i++) x[i] = reads_sampled(e->args[i]) ? 0 : other;
  return isfinite(ir_op_rows[e->op].eval(x));
}

static bool stays_finite(const ir_expr *e) {
  bool floats = e->kind == IR_OP && ir_dtype_is_float(e->dtype);
  if (!reads_sampled(e)) return true;
  if (floats && !(op_is_finite(e, 1) && op_is_finite(e, -1))) return false;
  for (int i = 0; i < e->arg_count; i++)
    if (!stays_finite(e->args[i])) return false;
  return true;
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

/* A result is 0 where it is not wanted, by itself, as long as its value stays finite; a pattern
 * that is computed is the matter of ir/stores.c, so there the value is asked and not the statement.
 */
ir_stmt *pass_lower_sampled(lower_state *s, bool assembled) {
  ir_stmt *stmt = s->stmt;
  if (!stmt->sample) return stmt;
  bool finite = stays_finite(stmt->value), result = assembled || stmt->target->role == IR_ROLE_OUT;
  if (result && (finite || stmt->fill != 0)) return stmt;
  ir_expr *condition = terms_to_ask(s, !finite || !is_zero_outside(s, stmt->value));
  ir_stmt *copy = IR_NEW(s->arena, ir_stmt);
  *copy = *stmt;
  if (!assembled)
    copy->cond = pass_and(s->arena, stmt->cond, condition);
  else if (condition)
    copy->value = ir_apply3(s->arena, IR_OP_WHERE, condition, stmt->value,
                            ir_const_f(s->arena, stmt->value->dtype, 0));
  return copy;
}
