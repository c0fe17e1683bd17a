/* check_dtypes.c - the dtype of every expression (rule 3), bottom up.
 *
 * IR_NONE stands for numbers alone, which take the dtype of what stands beside them (`fraction`
 * tells that only a float will do), and for a fault that was reported.  Conversions themselves are
 * made by lower_expr.c from what is written here. */
#include <math.h>

#include "frontend/check.h"

typedef struct typing {
  fe_check *c;
  fe_stmt *stmt;
  bool bad;
} typing;

static bool type_expr(typing *t, fe_expr *e);

static bool fault(typing *t) {
  t->bad = true;
  return false;
}

static bool is_number(const fe_expr *e) { return e->dtype == IR_NONE; }

/* ---- two operands -------------------------------------------------------------------------- */
static bool fraction_beside(typing *t, const fe_expr *number, ir_dtype dtype) {
  if (!number->fraction || ir_dtype_is_float(dtype)) return true;
  ir_diag *d = fe_error(t->c, IR_DIAG_FRACTION, number->span,
                        "a fraction stands beside a value of dtype %s", ir_dtype_text(dtype));
  ir_diag_note(t->c->sink, d, IR_NOWHERE, "convert the integer: `cast[f32](...)`");
  return fault(t);
}

static bool mismatch(typing *t, const fe_expr *e, const fe_expr *x, const fe_expr *y) {
  bool x_int = !ir_dtype_is_float(x->dtype);
  const fe_expr *odd = x_int ? x : y;
  const fe_expr *other = x_int ? y : x;
  ir_diag *d = fe_error(t->c, IR_DIAG_DTYPE_MISMATCH, e->at, "%s and %s do not mix without a cast",
                        ir_dtype_text(x->dtype), ir_dtype_text(y->dtype));
  ir_diag_note(t->c->sink, d, x->span, "this is %s", ir_dtype_text(x->dtype));
  ir_diag_note(t->c->sink, d, y->span, "this is %s", ir_dtype_text(y->dtype));
  int n = (int)(odd->span.end - odd->span.begin);
  if (odd->dtype == IR_B1 && other->dtype != IR_B1 && e->op == IR_OP_MUL)
    ir_diag_note(t->c->sink, d, IR_NOWHERE,
                 "a condition is applied with `where(c, x, 0)` or `on c`");
  else if (n <= 60)
    ir_diag_fix(t->c->sink, d, odd->span,
                ir_format_text(t->c->arena, "cast[%s](%.*s)", ir_dtype_text(other->dtype), n,
                               t->c->file->text + odd->span.begin),
                "convert it");
  return fault(t);
}

/* The common dtype of two operands; IR_NONE with *ok when both are numbers. */
static ir_dtype join(typing *t, const fe_expr *e, const fe_expr *x, const fe_expr *y, bool *ok) {
  *ok = true;
  if (is_number(x) && is_number(y)) return IR_NONE;
  if (is_number(x)) return *ok = fraction_beside(t, x, y->dtype), y->dtype;
  if (is_number(y)) return *ok = fraction_beside(t, y, x->dtype), x->dtype;
  ir_dtype dtype = ir_dtype_join(x->dtype, y->dtype);
  if (dtype == IR_NONE) *ok = mismatch(t, e, x, y);
  return dtype;
}

static bool no_bool(typing *t, const fe_expr *e, const char *what) {
  if (e->dtype != IR_B1) return true;
  fe_error(t->c, IR_DIAG_DTYPE_MISMATCH, e->span,
           "%s needs a number, and this is true or false; `where(c, 1, 0)` or `cast[f32](c)` makes "
           "one of it",
           what);
  return fault(t);
}

static bool need_bool(typing *t, const fe_expr *e, const char *what) {
  if (e->dtype == IR_B1) return true;
  ir_diag *d = fe_error(t->c, IR_DIAG_NEEDS_BOOL, e->span, "%s needs a condition, and this is %s",
                        what, is_number(e) ? "a number" : ir_dtype_text(e->dtype));
  int n = (int)(e->span.end - e->span.begin);
  if (!is_number(e) && n <= 60)
    ir_diag_fix(t->c->sink, d, e->span,
                ir_format_text(t->c->arena, "(%.*s != 0)", n, t->c->file->text + e->span.begin),
                "compare it with zero");
  return fault(t);
}

/* ---- operators and functions --------------------------------------------------------------- */
static bool is_compare(ir_op op) {
  return ir_op_rows[op].result == IR_RESULT_BOOL && !(ir_op_rows[op].traits & IR_BOOL_ONLY);
}

static bool type_arith(typing *t, fe_expr *e) {
  fe_expr *x = e->args.at[0], *y = e->args.at[e->args.count - 1];
  const char *what = e->kind == FE_CALL ? ir_op_rows[e->op].mnemonic : "arithmetic";
  if (e->op == IR_OP_EQ || e->op == IR_OP_NE) what = NULL;
  if (what && (!no_bool(t, x, what) || !no_bool(t, y, what))) return false;
  bool ok;
  ir_dtype dtype = join(t, e, x, y, &ok);
  if (!ok) return false;
  e->fraction = x->fraction || y->fraction;
  e->dtype = is_compare(e->op) ? IR_B1 : dtype;
  return true;
}

static bool type_logic(typing *t, fe_expr *e) {
  for (int i = 0; i < e->args.count; i++)
    if (!need_bool(t, e->args.at[i],
                   ir_format_text(t->c->arena, "`%s`", ir_op_rows[e->op].mnemonic)))
      return false;
  e->dtype = IR_B1;
  return true;
}

static bool needs_float(typing *t, fe_expr *e, fe_expr *x) {
  if (!(ir_op_rows[e->op].traits & IR_FLOAT_ONLY)) return true;
  e->fraction = true;
  if (is_number(x) || ir_dtype_is_float(x->dtype)) return true;
  int n = (int)(x->span.end - x->span.begin);
  ir_diag *d = fe_error(t->c, IR_DIAG_NEEDS_FLOAT, x->span, "`%s` is for floats, and this is %s",
                        ir_op_rows[e->op].mnemonic, ir_dtype_text(x->dtype));
  if (n <= 60)
    ir_diag_fix(t->c->sink, d, x->span,
                ir_format_text(t->c->arena, "cast[f32](%.*s)", n, t->c->file->text + x->span.begin),
                "convert it");
  return fault(t);
}

static bool type_where(typing *t, fe_expr *e) {
  bool ok;
  if (!need_bool(t, e->args.at[0], "`where`")) return false;
  e->dtype = join(t, e, e->args.at[1], e->args.at[2], &ok);
  e->fraction = e->args.at[1]->fraction || e->args.at[2]->fraction;
  return ok;
}

static bool type_call(typing *t, fe_expr *e) {
  int arity = ir_op_rows[e->op].arity;
  if (e->args.count != arity) {
    fe_error(t->c, IR_DIAG_ARGUMENTS, e->at, "`%s` takes %d argument%s, not %d",
             ir_op_rows[e->op].mnemonic, arity, arity == 1 ? "" : "s", e->args.count);
    return fault(t);
  }
  if (arity == 3) return type_where(t, e);
  if (!type_arith(t, e)) return false;
  return needs_float(t, e, e->args.at[0]) && (arity == 1 || needs_float(t, e, e->args.at[1]));
}

static bool type_unary(typing *t, fe_expr *e) {
  if (e->op == IR_OP_NOT) return type_logic(t, e);
  e->fraction = e->args.at[0]->fraction;
  e->dtype = e->args.at[0]->dtype;
  return no_bool(t, e->args.at[0], "`-`");
}

/* ---- reductions and rows ------------------------------------------------------------------- */
static bool type_reduce(typing *t, fe_expr *e) {
  const fe_expr *body = e->args.at[0];
  const char *name = ir_format_text(t->c->arena, "`%s`", ir_reducer_rows[e->reducer].text);
  e->fraction = body->fraction;
  e->dtype = body->dtype;
  if (e->reducer == IR_RED_ANY || e->reducer == IR_RED_ALL) return need_bool(t, body, name);
  if (!no_bool(t, body, name)) return false;
  if (e->reducer != IR_RED_ARGMAX) return true;
  e->dtype = IR_I64;
  if (e->bound.count == 1) return true;
  fe_error(t->c, IR_DIAG_ARGUMENTS, e->at, "`argmax` gives a position along one index");
  return fault(t);
}

static bool type_row(typing *t, fe_expr *e) {
  const fe_expr *body = e->args.at[0];
  e->dtype = body->dtype;
  e->fraction = body->fraction || e->kind == FE_SOFTMAX;
  const char *name = e->kind == FE_SOFTMAX ? "softmax" : "topk";
  if (!no_bool(t, body, name)) return false;
  if (e->kind == FE_TOPK && e->integer < 1) {
    fe_error(t->c, IR_DIAG_ARGUMENTS, e->at, "`topk` keeps at least one element of each row");
    return fault(t);
  }
  if (e->kind == FE_TOPK || is_number(body) || ir_dtype_is_float(body->dtype)) return true;
  fe_error(t->c, IR_DIAG_NEEDS_FLOAT, body->span, "`softmax` is for floats, and this is %s",
           ir_dtype_text(body->dtype));
  return fault(t);
}

/* ---- accesses ------------------------------------------------------------------------------ */
static bool type_sub(typing *t, fe_expr *sub) {
  for (int i = 0; i < sub->args.count; i++)
    if (!type_sub(t, sub->args.at[i])) return false;
  sub->dtype = IR_I64;
  if (sub->kind != FE_ACCESS || sub->symbol->kind != FE_SYM_TENSOR) return true;
  ir_dtype dtype = sub->symbol->tensor->dtype;
  if (ir_dtype_is_int(dtype)) return true;
  if (sub->symbol->bad) return fault(t);
  fe_error(t->c, IR_DIAG_GATHER_DTYPE, sub->at,
           "`%s` is %s; a subscript that is read from memory is an integer", sub->name,
           dtype == IR_NONE ? "a pattern" : ir_dtype_text(dtype));
  return fault(t);
}

static bool type_access(typing *t, fe_expr *e) {
  for (int i = 0; i < e->args.count; i++)
    if (!type_sub(t, e->args.at[i])) return false;
  const fe_symbol *s = e->symbol;
  if (!s || s->bad) return fault(t);
  e->dtype = s->kind != FE_SYM_TENSOR      ? IR_I64
             : s->tensor->dtype == IR_NONE ? IR_B1
                                           : s->tensor->dtype;
  return true;
}

static bool type_operator(typing *t, fe_expr *e) {
  return ir_op_rows[e->op].traits & IR_BOOL_ONLY ? type_logic(t, e) : type_arith(t, e);
}

static bool type_expr(typing *t, fe_expr *e) {
  if (e->kind == FE_ACCESS) return type_access(t, e);
  for (int i = 0; i < e->args.count; i++)
    if (!type_expr(t, e->args.at[i])) return false;
  switch (e->kind) {
  case FE_NUMBER: e->fraction = !e->is_integer; return true;
  case FE_UNARY: return type_unary(t, e);
  case FE_BINARY: return type_operator(t, e);
  case FE_REDUCE: return type_reduce(t, e);
  case FE_CALL: return type_call(t, e);
  case FE_SOFTMAX:
  case FE_TOPK: return type_row(t, e);
  case FE_CAST:
  case FE_ACCESS: break;
  }
  return true;
}

/* ---- the statement ------------------------------------------------------------------------- */
/* A condition: logic over comparisons, patterns, and tensors that are true where not zero. */
static bool type_cond(typing *t, fe_expr *e) {
  bool logic =
      (e->kind == FE_BINARY || e->kind == FE_UNARY) && ir_op_rows[e->op].traits & IR_BOOL_ONLY;
  if (logic) {
    for (int i = 0; i < e->args.count; i++)
      if (!type_cond(t, e->args.at[i])) return false;
    e->dtype = IR_B1;
    return true;
  }
  if (!type_expr(t, e)) return false;
  if (e->dtype == IR_B1 || (e->kind == FE_ACCESS && e->symbol->kind == FE_SYM_TENSOR)) return true;
  return need_bool(t, e, "`on`");
}

static bool result_fits(ir_dtype stated, const fe_expr *value) {
  if (is_number(value)) return stated != IR_B1 && (!value->fraction || ir_dtype_is_float(stated));
  if (value->dtype == stated) return true;
  if (ir_dtype_is_float(stated))
    return ir_dtype_is_float(value->dtype) || ir_dtype_join(stated, value->dtype) == stated;
  return ir_dtype_is_int(stated) && ir_dtype_is_int(value->dtype);
}

static bool settle_result(typing *t) {
  fe_stmt *s = t->stmt;
  ir_tensor *tensor = s->symbol->tensor;
  const fe_expr *value = s->value;
  if (!s->dtype) {
    tensor->dtype = !is_number(value) ? value->dtype : value->fraction ? IR_F32 : IR_I64;
    return true;
  }
  tensor->dtype = s->dtype;
  if (result_fits(s->dtype, value)) return true;
  ir_diag *d = fe_error(t->c, IR_DIAG_DTYPE_MISMATCH, s->dtype_span,
                        "`%s` is stated to be %s, but its value is %s", s->target->name,
                        ir_dtype_text(s->dtype),
                        is_number(value) ? "a fraction" : ir_dtype_text(value->dtype));
  ir_diag_note(t->c->sink, d, value->span, "convert it: `cast[%s](...)`", ir_dtype_text(s->dtype));
  return fault(t);
}

static ir_dtype default_acc(const fe_stmt *s) {
  ir_dtype result = s->symbol->tensor->dtype, value = s->value->dtype;
  ir_dtype wider = value ? ir_dtype_join(result, value) : result;
  return ir_dtype_rows[wider ? wider : result].accumulator;
}

static bool settle_acc(typing *t) {
  fe_stmt *s = t->stmt;
  ir_dtype result = s->symbol->tensor->dtype;
  if (!s->acc) {
    s->acc = default_acc(s);
    return true;
  }
  if (ir_dtype_join(s->acc, result) == s->acc && (s->acc == IR_B1) == (result == IR_B1) &&
      ir_dtype_is_float(s->acc) == ir_dtype_is_float(result))
    return true;
  ir_diag *d = fe_error(t->c, IR_DIAG_ACCUMULATOR, s->acc_span,
                        "an accumulator of %s cannot hold what becomes %s", ir_dtype_text(s->acc),
                        ir_dtype_text(result));
  ir_diag_fix(t->c->sink, d, s->acc_span, ir_dtype_text(ir_dtype_rows[result].accumulator),
              "use the default");
  return fault(t);
}

static bool settle_fill(typing *t) {
  const fe_expr *fill = t->stmt->fill;
  ir_dtype dtype = t->stmt->symbol->tensor->dtype;
  if (!fill || fill->is_integer || ir_dtype_is_float(dtype)) return true;
  fe_error(t->c, IR_DIAG_FRACTION, fill->span, "`fill` is a fraction or not finite, but `%s` is %s",
           t->stmt->target->name, ir_dtype_text(dtype));
  return fault(t);
}

static bool settle_combine(typing *t) {
  const fe_stmt *s = t->stmt;
  if (!s->scatter || s->symbol->tensor->dtype != IR_B1) return true;
  fe_error(t->c, IR_DIAG_DTYPE_MISMATCH, s->value->span,
           "values that are scattered are numbers, and this is true or false");
  return fault(t);
}

void fe_dtypes_check(fe_check *c, fe_stmt *stmt) {
  typing t = {c, stmt, false};
  for (int i = 0; i < stmt->target->args.count; i++)
    if (!type_sub(&t, stmt->target->args.at[i])) break;
  if (stmt->cond) type_cond(&t, stmt->cond);
  bool ok = type_expr(&t, stmt->value) && settle_result(&t) && settle_acc(&t) && settle_fill(&t) &&
            settle_combine(&t);
  if (!ok || t.bad) stmt->bad = stmt->symbol->bad = true;
}
