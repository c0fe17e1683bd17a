/* interp_ein_expr.c - expressions: compiled once a statement, evaluated an element at a time.
 *
 * No memory is taken while evaluating.  Operands of mixed dtypes meet in f64, so that an i8 beside
 * a float is exact (rule 3). */
#include <math.h>

#include "ir/interp_ein.h"

/* ---- compile ----------------------------------------------------------------------------- */
bool ein_reads_memory(const ir_expr *e) {
  if (e->kind == IR_ACCESS) return true;
  for (int i = 0; i < e->arg_count; i++)
    if (ein_reads_memory(e->args[i])) return true;
  return false;
}

/* Integers wrap where the accumulator does; narrower ones first meet their own accumulator. */
static ir_dtype wrap_of(const interp *r, ir_dtype t) {
  if (!ir_dtype_is_int(t)) return IR_NONE;
  ir_dtype wide = ir_dtype_rows[t].accumulator;
  bool acc_holds = ir_dtype_is_int(r->acc) && ir_dtype_rows[r->acc].bits >= ir_dtype_rows[t].bits;
  wide = acc_holds ? r->acc : wide;
  return wide == IR_I64 ? IR_NONE : wide;
}

static void compile_access(interp *r, node *n, const ir_expr *e) {
  n->tensor = ein_store(r, e->tensor);
  n->is_float = ir_dtype_is_float(e->tensor->dtype);
  for (int a = 0; a < e->arg_count; a++) {
    n->sub_slot[a] = e->args[a]->kind == IR_INDEX ? ein_slot(r, e->args[a]->index) : -1;
    n->sub_memory[a] = ein_reads_memory(e->args[a]);
  }
}

/* Whether zeros of e are storage or hint, so that a back end may skip them. */
static bool has_skippable_zeros(const interp *r, const ir_expr *e) {
  if (e->kind == IR_ACCESS)
    return !ein_store(r, e->tensor)->dense || e->tensor->pattern.zeros != IR_ZEROS_UNKNOWN;
  if (e->kind == IR_CAST) return has_skippable_zeros(r, e->args[0]);
  if (e->kind != IR_OP) return false;
  ir_pattern_rule rule = ir_op_rule(e->op);
  bool left = has_skippable_zeros(r, e->args[0]);
  bool right = e->arg_count > 1 && has_skippable_zeros(r, e->args[1]);
  if (rule == IR_RULE_INTERSECT) return left || right;
  if (rule == IR_RULE_UNION) return left && right;
  if (rule == IR_RULE_RIGHT) return right;
  return (rule == IR_RULE_KEEP || rule == IR_RULE_LEFT) && left;
}

static bool is_costly(const ir_expr *e) {
  if (e->kind == IR_REDUCE || e->kind == IR_SOFTMAX || e->kind == IR_TOPK) return true;
  for (int i = 0; i < e->arg_count; i++)
    if (is_costly(e->args[i])) return true;
  return false;
}

/* A product's cheap factor comes first: where it is zero the other is not evaluated. */
static void order_factors(node *n, const ir_expr *e) {
  if (!is_costly(e->args[0]) || is_costly(e->args[1])) return;
  node *costly = n->args[0];
  n->args[0] = n->args[1];
  n->args[1] = costly;
}

static void compile_op(interp *r, node *n, const ir_expr *e) {
  n->row_of_op = &ir_op_rows[e->op];
  n->op = e->op;
  n->float_operands = n->is_float;
  for (int i = 0; i < n->count; i++) n->float_operands |= n->args[i]->is_float;
  if (e->op == IR_OP_WHERE)
    n->float_operands = n->is_float;
  else if (n->row_of_op->result != IR_RESULT_BOOL)
    n->is_float = n->float_operands;
  n->wrap = wrap_of(r, e->dtype);
  if (e->op == IR_OP_MUL) order_factors(n, e);
  n->skips_zero_left = e->op != IR_OP_MUL && n->count == 2 && n->row_of_op->zero[2] == IR_ZERO_Z &&
                       has_skippable_zeros(r, e->args[0]);
}

static void compile_leaf(interp *r, node *n, const ir_expr *e) {
  if (e->kind == IR_CONST) {
    n->f = n->is_float ? e->f : (double)e->i;
    n->i = n->is_float ? 0 : e->i;
  } else if (e->kind == IR_DIM) {
    n->i = r->sizes[e->dim->number];
  } else {
    n->slot = ein_slot(r, e->index);
  }
}

node *ein_compile(interp *r, const ir_expr *e) {
  node *n = IR_NEW(r->arena, node);
  *n = (node){.kind = e->kind,
              .dtype = e->dtype,
              .is_float = ir_dtype_is_float(e->dtype),
              .expr = e,
              .count = e->arg_count};
  if (e->kind == IR_REDUCE) {
    ein_compile_reduce(r, n, e);
    return n;
  }
  if (e->kind == IR_SOFTMAX || e->kind == IR_TOPK) {
    ein_compile_row(r, n, e);
    return n;
  }
  n->args = IR_NEW_ARRAY(r->arena, node *, e->arg_count);
  for (int i = 0; i < e->arg_count; i++) n->args[i] = ein_compile(r, e->args[i]);
  if (e->kind == IR_ACCESS)
    compile_access(r, n, e);
  else if (e->kind == IR_OP)
    compile_op(r, n, e);
  else if (e->kind != IR_CAST && e->kind != IR_STORED)
    compile_leaf(r, n, e);
  return n;
}

/* ---- tensors ----------------------------------------------------------------------------- */
static void subscript_left(interp *r, const node *n, int axis, int64_t c) {
  const ir_view *view = &n->tensor->view;
  if (n->sub_memory[axis]) {
    ein_out_of_range(r, "a subscript of `%s` read from memory is %lld, but axis %d has size %lld",
                     n->tensor->tensor->name, (long long)c, axis, (long long)view->dim[axis]);
    return;
  }
  if (!r->status)
    ir_diag_add(r->sink, IR_DIAG_SUBSCRIPT_LEAVES, n->expr->span,
                "a subscript of `%s` is %lld, but axis %d has size %lld", n->tensor->tensor->name,
                (long long)c, axis, (long long)view->dim[axis]);
  r->status = SPC_INVALID_INPUT;
}

bool ein_subscript(interp *r, node *n, int axis, int64_t *at) {
  *at = n->sub_slot[axis] >= 0 ? r->at[n->sub_slot[axis]] : node_int(r, n->args[axis]);
  if (*at >= 0 && *at < n->tensor->view.dim[axis]) return true;
  subscript_left(r, n, axis, *at);
  return false;
}

bool ein_subscripts(interp *r, node *n, int64_t *at) {
  for (int a = 0; a < n->count; a++)
    if (!ein_subscript(r, n, a, &at[a])) return false;
  return true;
}

/* Position of the element, -1 where it is not stored, -2 where the subscript is out of range. */
static int64_t position(interp *r, node *n) {
  int64_t at[IR_MAX_RANK];
  if (!ein_subscripts(r, n, at)) return -2;
  const store *s = n->tensor;
  if (!s->dense) return ir_view_locate(&s->view, at);
  int64_t p = 0;
  for (int a = 0; a < n->count; a++) p += at[a] * s->stride[a];
  return p;
}

/* Whether the access meets a stored entry; a dense tensor stores them all. */
static bool is_stored(interp *r, node *n) {
  int64_t at[IR_MAX_RANK];
  if (n->driven) return true;
  if (!ein_subscripts(r, n, at)) return false;
  const store *s = n->tensor;
  const ir_view *view = s->stored ? s->stored : &s->view;
  return (s->dense && !s->stored) || ir_view_locate(view, at) >= 0;
}

static double access_float(interp *r, node *n) {
  if (n->driven) return n->driven_f;
  int64_t p = position(r, n);
  return p >= 0 ? n->tensor->f[p] : p == -1 ? n->tensor->fill : 0;
}

static int64_t access_int(interp *r, node *n) {
  if (n->driven) return n->driven_i;
  int64_t p = position(r, n);
  if (n->tensor->view.dtype == IR_NONE) return p >= 0;
  return p >= 0 ? n->tensor->i[p] : p == -1 ? (int64_t)n->tensor->fill : 0;
}

/* ---- operators --------------------------------------------------------------------------- */
static bool strict(const interp *r) { return r->options && r->options->strict_nan; }

static double op_float(interp *r, node *n) {
  double x[3];
  if (n->op == IR_OP_WHERE) return node_float(r, n->args[node_true(r, n->args[0]) ? 1 : 2]);
  x[0] = node_float(r, n->args[0]);
  bool zero = x[0] == 0 && !strict(r);
  if (zero && (n->op == IR_OP_MUL || n->skips_zero_left)) return 0;
  if (n->count > 1) x[1] = node_float(r, n->args[1]);
  if (n->op == IR_OP_MUL) return x[1] == 0 && !strict(r) ? 0 : x[0] * x[1];
  return n->row_of_op->eval(x);
}

static int64_t op_int(interp *r, node *n) {
  int64_t i[3] = {0, 0, 0};
  if (n->op == IR_OP_WHERE) return node_int(r, n->args[node_true(r, n->args[0]) ? 1 : 2]);
  if (n->float_operands) {
    double x[3] = {0, 0, 0};
    for (int a = 0; a < n->count; a++) x[a] = node_float(r, n->args[a]);
    return n->row_of_op->eval(x) != 0;
  }
  i[0] = node_int(r, n->args[0]);
  if (i[0] == 0 && (n->op == IR_OP_MUL || n->op == IR_OP_AND)) return 0;
  for (int a = 1; a < n->count; a++) i[a] = node_int(r, n->args[a]);
  int64_t value = n->row_of_op->eval_int(i);
  return n->wrap ? ir_dtype_wrap(n->wrap, value) : value;
}

static int64_t cast_int(interp *r, node *n) {
  int64_t value;
  if (!n->args[0]->is_float) return ir_dtype_wrap(n->dtype, node_int(r, n->args[0]));
  ir_dtype_store(n->dtype, &value, 0, node_float(r, n->args[0]));
  return ir_dtype_load_int(n->dtype, &value, 0);
}

/* Widening keeps every value; narrowing is asked for, so it rounds. */
static double cast_float(interp *r, node *n) {
  return ir_dtype_round(n->dtype, node_float(r, n->args[0]));
}

double node_float(interp *r, node *n) {
  if (!n->is_float) return (double)node_int(r, n);
  switch (n->kind) {
  case IR_CONST: return n->f;
  case IR_ACCESS: return access_float(r, n);
  case IR_OP: return op_float(r, n);
  case IR_CAST: return cast_float(r, n);
  case IR_REDUCE: return reduce_float(r, n);
  case IR_SOFTMAX:
  case IR_TOPK: return row_float(r, n);
  case IR_DIM:
  case IR_INDEX:
  case IR_STORED:
  case IR_VAR:
  case IR_LOAD: break;
  }
  r->status = SPC_INTERNAL;
  return 0;
}

int64_t node_int(interp *r, node *n) {
  if (n->is_float) {
    double value = node_float(r, n);
    int64_t whole;
    ir_dtype_store(IR_I64, &whole, 0, value);
    return whole;
  }
  switch (n->kind) {
  case IR_CONST:
  case IR_DIM: return n->i;
  case IR_INDEX: return r->at[n->slot];
  case IR_ACCESS: return access_int(r, n);
  case IR_OP: return op_int(r, n);
  case IR_CAST: return cast_int(r, n);
  case IR_STORED: return is_stored(r, n->args[0]);
  case IR_REDUCE: return reduce_int(r, n);
  case IR_TOPK: return row_int(r, n);
  case IR_SOFTMAX:
  case IR_VAR:
  case IR_LOAD: break;
  }
  r->status = SPC_INTERNAL;
  return 0;
}

bool node_true(interp *r, node *n) {
  return n->is_float ? node_float(r, n) != 0 : node_int(r, n) != 0;
}
