/* library.c - recognises what a library of dense products computes, see library.h.
 *
 * Left out on purpose: gelu (the library's is the tanh approximation, the language's is exact),
 * 8-bit floats (the tensor cores keep fewer bits of their sums than f32 has), u8. */
#include "ir/library.h"

static const char NOT_ITS_DTYPES[] = "it has no product of these dtypes with this accumulator",
                  NOT_ITS_EPILOGUE[] = "it has no such epilogue";

/* ---- dtypes ---------------------------------------------------------------------------------- */
static bool has_dtypes(ir_dtype operand, ir_dtype result, ir_dtype acc) {
  switch (operand) {
  case IR_BF16:
  case IR_F16:
  case IR_F32: return acc == IR_F32 && (result == operand || result == IR_F32);
  case IR_F64: return acc == IR_F64 && result == IR_F64;
  case IR_I8: return acc == IR_I32 && result == IR_I32;
  default: return false;
  }
}

static const ir_expr *widened(const ir_expr *e, ir_dtype to) {
  while (e->kind == IR_CAST && e->dtype == to) e = e->args[0];
  return e;
}

static bool is_product(const ir_expr *sum, ir_dtype acc, ir_dtype *operand) {
  if (sum->reducer != IR_RED_SUM || sum->bound_count != 1) return false;
  const ir_expr *body = widened(sum->args[0], acc);
  if (body->kind != IR_OP || body->op != IR_OP_MUL) return false;
  const ir_expr *a = widened(body->args[0], acc), *b = widened(body->args[1], acc);
  *operand = a->dtype;
  return a->kind == IR_ACCESS && b->kind == IR_ACCESS && a->dtype == b->dtype;
}

/* ---- the epilogue ---------------------------------------------------------------------------- */
typedef struct reading {
  const ir_stmt *stmt;
  ir_library_product *out;
  const ir_expr *sum;
} reading;

static bool same_layout(const ir_tensor *a, const ir_tensor *b) {
  if (a->rank != b->rank || ir_last_dim(a) != ir_last_dim(b)) return false;
  for (int l = 0; l + 1 < a->rank && (a->pitch[l] || b->pitch[l]); l++)
    if (!a->pitch[l] || !b->pitch[l] || !ir_expr_equal(a->pitch[l], b->pitch[l])) return false;
  for (int d = 0; d < a->rank; d++)
    if (!ir_expr_equal(a->dim[d], b->dim[d])) return false;
  int levels = a->format && b->format ? a->format->level_count : 0;
  for (int l = 0; l < levels; l++)
    if (a->format->level[l].dim != b->format->level[l].dim) return false;
  return a->rank <= 2 || levels > 0 || (!a->format && !b->format);
}

static bool is_dense(const ir_tensor *t) {
  return !t->like && (!t->format || ir_format_is_dense(t->format));
}

static bool take_access(reading *r, const ir_expr *e) {
  ir_tensor *t = e->tensor, *target = r->stmt->target;
  if (t->dtype != target->dtype || !is_dense(t)) return false;
  if (t->rank == 1 && target->rank > 1 && !r->out->bias &&
      ir_expr_equal(e->args[0], r->stmt->subs[ir_last_dim(target)]) &&
      ir_expr_equal(t->dim[0], target->dim[ir_last_dim(target)])) {
    r->out->bias = t;
    return true;
  }
  if (r->out->residual || t->rank < 2 || !same_layout(t, target)) return false;
  for (int d = 0; d < t->rank; d++)
    if (!ir_expr_equal(e->args[d], r->stmt->subs[d])) return false;
  r->out->residual = t;
  return true;
}

static bool take_sum(reading *r, const ir_expr *e, double factor) {
  double value;
  e = widened(e, r->stmt->acc);
  if (e->kind == IR_OP && e->op == IR_OP_NEG) return take_sum(r, e->args[0], -factor);
  for (int i = 0; e->kind == IR_OP && e->op == IR_OP_MUL && i < 2; i++)
    if (ir_const_value(e->args[i], &value) && (double)(float)value == value)
      return take_sum(r, e->args[1 - i], factor * value);
  if (e->kind != IR_REDUCE || r->sum) return false;
  r->sum = e;
  r->out->alpha = factor;
  return true;
}

static bool take_terms(reading *r, const ir_expr *e) {
  e = widened(e, r->stmt->acc);
  if (e->kind == IR_OP && e->op == IR_OP_ADD)
    return take_terms(r, e->args[0]) && take_terms(r, e->args[1]);
  return e->kind == IR_ACCESS ? take_access(r, e) : take_sum(r, e, 1);
}

bool ir_library_read(const ir_stmt *stmt, ir_library_product *out, const char **why) {
  reading r = {.stmt = stmt, .out = out};
  ir_dtype operand;
  *out = (ir_library_product){.alpha = 1};
  *why = "it computes everywhere";
  if (stmt->cond || ir_is_scatter(stmt)) return false;
  const ir_expr *value = widened(stmt->value, stmt->acc);
  *why = NOT_ITS_EPILOGUE;
  if (value->kind == IR_OP && value->op == IR_OP_RELU) {
    out->relu = true;
    value = value->args[0];
  }
  if (!take_terms(&r, value) || !r.sum) return false;
  *why = NOT_ITS_DTYPES;
  if (!is_product(r.sum, stmt->acc, &operand)) return false;
  if (!has_dtypes(operand, stmt->target->dtype, stmt->acc)) return false;
  *why = "of integers it has the sum alone";
  return operand != IR_I8 || (out->alpha == 1 && !out->relu && !out->bias && !out->residual);
}
