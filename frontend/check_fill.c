/* check_fill.c - a written `fill` must not count where the tensor is reduced (rules 5 and 14).
 *
 * The body of each reduction is evaluated with the tensor at its fill: the outcome must be the
 * reducer's identity (for softmax, -inf).  What cannot be told is let through, except a fill that
 * is multiplied or added into something unknown. */
#include <math.h>

#include "frontend/check.h"

typedef enum know { UNKNOWN, KNOWN, MIXED } know; /* MIXED: the fill and something unknown */
typedef struct outcome {
  know know;
  double value;
  bool filled; /* the fill is part of it */
} outcome;

static outcome evaluate(const ir_expr *e, const ir_tensor *t);

static outcome evaluate_op(const ir_expr *e, const ir_tensor *t) {
  double x[3] = {0};
  outcome r = {.know = KNOWN};
  bool zero = false;
  for (int i = 0; i < e->arg_count; i++) {
    outcome a = evaluate(e->args[i], t);
    x[i] = a.value;
    r.filled = r.filled || a.filled;
    if (a.know == UNKNOWN && r.know == KNOWN) r.know = UNKNOWN;
    if (a.know == MIXED) r.know = MIXED;
    zero = zero || (a.know == KNOWN && a.value == 0);
  }
  if (e->op == IR_OP_WHERE || e->dtype == IR_B1) return (outcome){.know = UNKNOWN};
  if (e->op == IR_OP_MUL && zero) return (outcome){KNOWN, 0, r.filled};
  if (r.know == KNOWN && ir_op_rows[e->op].eval) r.value = ir_op_rows[e->op].eval(x);
  if (r.know == UNKNOWN && r.filled) r.know = MIXED;
  return r;
}

static outcome evaluate(const ir_expr *e, const ir_tensor *t) {
  outcome unknown = {.know = UNKNOWN};
  double value;
  if (e->kind == IR_ACCESS) return e->tensor == t ? (outcome){KNOWN, t->fill, true} : unknown;
  if (e->kind == IR_CONST && ir_const_value(e, &value)) return (outcome){KNOWN, value, false};
  if (e->kind == IR_CAST || e->kind == IR_REDUCE) return evaluate(e->args[0], t);
  return e->kind == IR_OP ? evaluate_op(e, t) : unknown;
}

/* ---- accesses of filled tensors below a reduction ------------------------------------------ */
typedef struct search {
  fe_check *c;
  const ir_expr *reduction;
} search;

static bool along(const ir_expr *reduction, const ir_expr *access) {
  for (int i = 0; i < reduction->bound_count; i++)
    if (ir_expr_uses_index(access, reduction->bound[i])) return true;
  return false;
}

static const char *number_text(fe_check *c, double v) {
  return isinf(v) ? (v < 0 ? "-inf" : "inf") : ir_format_text(c->arena, "%g", v);
}

static void report(const search *s, const fe_stmt *def, const ir_expr *access) {
  bool softmax = s->reduction->kind == IR_SOFTMAX;
  const char *name = softmax ? "softmax" : ir_reducer_rows[s->reduction->reducer].text;
  const char *want = number_text(s->c, softmax ? (double)-INFINITY
                                               : ir_reducer_rows[s->reduction->reducer].identity);
  ir_diag *d =
      fe_error(s->c, IR_DIAG_FILL_IDENTITY, def->fill->span,
               "`fill %s` is not the identity of `%s`, so it counts where `%s` is not computed",
               number_text(s->c, def->fill->number), name, access->tensor->name);
  ir_diag_note(s->c->sink, d, s->reduction->span, "it is reduced here");
  ir_diag_fix(s->c->sink, d, def->fill->span, want, "use the identity");
}

static bool visit_access(void *user, ir_expr *e) {
  const search *s = user;
  if (e->kind != IR_ACCESS || e->tensor->role == IR_ROLE_IN || !along(s->reduction, e)) return true;
  const fe_symbol *symbol = fe_symbol_find(s->c, e->tensor->name);
  const fe_stmt *def = symbol && symbol->kind == FE_SYM_TENSOR ? symbol->stmt : NULL;
  bool softmax = s->reduction->kind == IR_SOFTMAX;
  if (!def || !def->cond) return true;
  if (!def->fill) {
    if (softmax && s->reduction->args[0] == e)
      fe_error(s->c, IR_DIAG_SOFTMAX_FILL, e->span,
               "where its condition fails `%s` is 0, which counts in a softmax; `fill -inf` leaves "
               "it out",
               e->tensor->name);
    return true;
  }
  if (!softmax && s->reduction->reducer == IR_RED_ARGMAX) return true;
  outcome o = evaluate(s->reduction->args[0], e->tensor);
  double identity = softmax ? (double)-INFINITY : ir_reducer_rows[s->reduction->reducer].identity;
  if (o.filled && (o.know == MIXED || (o.know == KNOWN && !(o.value == identity))))
    report(s, def, e);
  return true;
}

static bool visit(void *user, ir_expr *e) {
  if (e->kind != IR_REDUCE && e->kind != IR_SOFTMAX) return true;
  search s = {user, e};
  return ir_expr_walk(e->args[0], visit_access, &s);
}

void fe_fill_check(fe_check *c, const fe_stmt *stmt) {
  ir_expr_walk(stmt->lowered->value, visit, c);
}
