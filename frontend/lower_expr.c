/* lower_expr.c - checked expressions to IR expressions.
 *
 * `want` is the dtype that the place needs; a value of another dtype is cast; IR_NONE leaves it.
 * Products are formed in the accumulator's dtype: float nodes keep the operands' dtype (every back
 * end computes a statement in its accumulator), while integers are widened here, because they wrap.
 */
#include "frontend/check.h"

static ir_expr *at(ir_expr *e, ir_span span) {
  e->span = span;
  return e;
}

static ir_expr *cast_to(fe_check *c, ir_dtype want, ir_expr *e) {
  if (want == IR_NONE || e->dtype == want) return e;
  ir_span span = e->span;
  return at(ir_cast(c->arena, want, e), span);
}

/* ---- subscripts ---------------------------------------------------------------------------- */
static ir_expr *lower_name(fe_check *c, const fe_symbol *s) {
  if (s->kind == FE_SYM_DIM) return ir_copy_with(c->arena, s->size, s->size->args);
  return ir_index_ref(c->arena, s->index);
}

static ir_expr *lower_access(fe_check *c, const fe_expr *e) {
  ir_expr *subs[IR_MAX_RANK] = {0};
  for (int i = 0; i < e->args.count; i++) subs[i] = fe_sub_lower(c, e->args.at[i]);
  return at(ir_access(c->arena, e->symbol->tensor, subs), e->span);
}

ir_expr *fe_sub_lower(fe_check *c, const fe_expr *sub) {
  if (sub->kind == FE_NUMBER) return at(ir_int(c->arena, sub->integer), sub->span);
  if (sub->kind == FE_ACCESS) {
    if (sub->symbol->kind != FE_SYM_TENSOR) return at(lower_name(c, sub->symbol), sub->span);
    return cast_to(c, IR_I64, lower_access(c, sub));
  }
  return at(ir_apply(c->arena, sub->op, fe_sub_lower(c, sub->args.at[0]),
                     fe_sub_lower(c, sub->args.at[1])),
            sub->span);
}

/* ---- expressions --------------------------------------------------------------------------- */
/* What an integer of this dtype is computed in: the accumulator, or i32 for 8 bits and less beside
 * floats. */
static ir_dtype widened(const fe_stmt *stmt, ir_dtype own) {
  if (!ir_dtype_is_int(own)) return own;
  ir_dtype wide = ir_dtype_is_int(stmt->acc) ? stmt->acc : ir_dtype_rows[own].accumulator;
  return ir_dtype_rows[own].bits < ir_dtype_rows[wide].bits ? wide : own;
}

static ir_expr *lower_number(fe_check *c, const fe_expr *e, ir_dtype want) {
  if (want == IR_NONE) want = e->is_integer ? IR_I64 : IR_F32;
  if (ir_dtype_is_float(want)) return ir_const_f(c->arena, want, e->number);
  return ir_const_i(c->arena, want, e->integer);
}

/* `-2` is a number too. */
static ir_expr *lower_negated(fe_check *c, const fe_expr *e, ir_dtype want) {
  fe_expr number = *e->args.at[0];
  number.number = -number.number;
  number.integer = -number.integer;
  return lower_number(c, &number, want);
}

static ir_expr *lower_leaf(fe_check *c, const fe_stmt *stmt, const fe_expr *e, ir_dtype want) {
  if (e->symbol->kind != FE_SYM_TENSOR)
    return cast_to(c, want, at(lower_name(c, e->symbol), e->span));
  ir_expr *access = lower_access(c, e);
  return cast_to(c, want ? want : widened(stmt, access->dtype), access);
}

/* The dtype in which the operands of e meet. */
static ir_dtype operand_dtype(const fe_stmt *stmt, const fe_expr *e, int first) {
  ir_dtype dtype = IR_NONE;
  for (int i = first; i < e->args.count; i++) {
    ir_dtype own = e->args.at[i]->dtype;
    dtype = dtype == IR_NONE || own == IR_NONE ? (dtype ? dtype : own) : ir_dtype_join(dtype, own);
  }
  return dtype == IR_NONE ? dtype : widened(stmt, dtype);
}

static ir_expr *lower_op(fe_check *c, const fe_stmt *stmt, const fe_expr *e, ir_dtype want) {
  int first = e->op == IR_OP_WHERE;
  ir_dtype meet = operand_dtype(stmt, e, first);
  bool boolean = ir_op_rows[e->op].result == IR_RESULT_BOOL;
  if (meet == IR_NONE) meet = boolean ? IR_NONE : widened(stmt, want);
  if (meet == IR_NONE)
    meet = e->fraction ? IR_F32 : boolean && !e->args.at[0]->fraction ? IR_I64 : IR_F32;
  ir_expr *x[3] = {0};
  for (int i = 0; i < e->args.count; i++)
    x[i] = fe_expr_lower(c, stmt, e->args.at[i], i < first ? IR_B1 : meet);
  ir_expr *out = e->args.count == 3 ? ir_apply3(c->arena, e->op, x[0], x[1], x[2])
                                    : ir_apply(c->arena, e->op, x[0], x[1]);
  return at(out, e->span);
}

static ir_expr *lower_reduce(fe_check *c, const fe_stmt *stmt, const fe_expr *e, ir_dtype want) {
  ir_index **bound = IR_NEW_ARRAY(c->arena, ir_index *, e->over.count);
  for (int i = 0; i < e->over.count; i++) bound[i] = e->over.at[i]->index;
  const fe_expr *body = e->args.at[0];
  ir_dtype inner =
      e->reducer == IR_RED_ARGMAX ? IR_NONE : widened(stmt, body->dtype ? body->dtype : want);
  ir_expr *value = fe_expr_lower(c, stmt, body, inner);
  return at(ir_reduce(c->arena, e->reducer, bound, e->over.count, value), e->span);
}

static ir_expr *lower_row(fe_check *c, const fe_stmt *stmt, const fe_expr *e, ir_dtype want) {
  const fe_expr *body = e->args.at[0];
  ir_expr *value = fe_expr_lower(c, stmt, body,
                                 body->dtype ? widened(stmt, body->dtype)
                                 : want      ? widened(stmt, want)
                                             : IR_F32);
  ir_kind kind = e->kind == FE_SOFTMAX ? IR_SOFTMAX : IR_TOPK;
  return at(
      ir_row_op(c->arena, kind, e->over.at[0]->index, value, e->kind == FE_TOPK ? e->integer : 0),
      e->span);
}

static ir_expr *lower_cast(fe_check *c, const fe_stmt *stmt, const fe_expr *e) {
  const fe_expr *body = e->args.at[0];
  return cast_to(c, e->dtype, fe_expr_lower(c, stmt, body, body->dtype ? IR_NONE : e->dtype));
}

ir_expr *fe_expr_lower(fe_check *c, const fe_stmt *stmt, const fe_expr *e, ir_dtype want) {
  switch (e->kind) {
  case FE_NUMBER: return at(lower_number(c, e, want), e->span);
  case FE_ACCESS: return lower_leaf(c, stmt, e, want);
  case FE_UNARY:
    if (e->op == IR_OP_NEG && e->args.at[0]->kind == FE_NUMBER)
      return at(lower_negated(c, e, want), e->span);
    return cast_to(c, want, lower_op(c, stmt, e, want));
  case FE_BINARY:
  case FE_CALL: return cast_to(c, want, lower_op(c, stmt, e, want));
  case FE_REDUCE: return cast_to(c, want, lower_reduce(c, stmt, e, want));
  case FE_SOFTMAX:
  case FE_TOPK: return cast_to(c, want, lower_row(c, stmt, e, want));
  case FE_CAST: return cast_to(c, want, lower_cast(c, stmt, e));
  }
  return NULL;
}

/* ---- conditions ---------------------------------------------------------------------------- */
static ir_expr *lower_cond(fe_check *c, const fe_stmt *stmt, const fe_expr *e) {
  bool logic =
      (e->kind == FE_BINARY || e->kind == FE_UNARY) && ir_op_rows[e->op].traits & IR_BOOL_ONLY;
  if (logic) {
    ir_expr *y = e->args.count > 1 ? lower_cond(c, stmt, e->args.at[1]) : NULL;
    return at(ir_apply(c->arena, e->op, lower_cond(c, stmt, e->args.at[0]), y), e->span);
  }
  ir_expr *value = fe_expr_lower(c, stmt, e, e->kind == FE_ACCESS ? e->dtype : IR_NONE);
  if (value->dtype == IR_B1) return value;
  ir_expr *zero = ir_dtype_is_float(value->dtype) ? ir_const_f(c->arena, value->dtype, 0)
                                                  : ir_const_i(c->arena, value->dtype, 0);
  return at(ir_apply(c->arena, IR_OP_NE, value, zero), e->span);
}

ir_expr *fe_cond_lower(fe_check *c, const fe_stmt *stmt) { return lower_cond(c, stmt, stmt->cond); }
