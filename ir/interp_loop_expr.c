/* interp_loop_expr.c - values of the loop dialect: every operation in its own dtype.
 *
 * Floats are computed in f64 and rounded to the node's dtype (for + - * / and sqrt of f32 and
 * smaller that is the correctly rounded result); integers wrap.  A load outside its buffer is a
 * defect, reported with the buffer and the offset; a lane that a mask turns off reads 0. */
#include "ir/interp_loop.h"

bool loop_in_range(loop_run *r, const memory *m, int64_t at, const char *verb) {
  if (at >= 0 && at < m->array.count && m->array.data) return true;
  loop_defect(r, "it %s `%s` at %lld, the buffer has %lld elements", verb, m->buf->name,
              (long long)at, (long long)m->array.count);
  return false;
}

int64_t loop_lane(const cell *at, int lanes, int l) {
  return lanes > 1 ? at[l].i : (int64_t)((uint64_t)at[0].i + (uint64_t)l);
}

cell loop_read(const memory *m, int64_t at) {
  cell c;
  if (ir_dtype_is_float(m->array.dtype))
    c.f = ir_dtype_load(m->array.dtype, m->array.data, at);
  else
    c.i = ir_dtype_load_int(m->array.dtype, m->array.data, at);
  return c;
}

int64_t loop_int(loop_run *r, const lnode *n) {
  cell c[LOOP_MAX_LANES];
  loop_eval(r, n, c);
  return c[0].i;
}

void loop_eval_as(loop_run *r, const lnode *n, int lanes, cell *out) {
  loop_eval(r, n, out);
  for (int l = n->lanes; l < lanes; l++) out[l] = out[0];
}

/* ---- operators ------------------------------------------------------------------------------ */
cell loop_apply(const ir_op_row *row, ir_dtype operand, ir_dtype result, const cell *x) {
  cell out;
  if (ir_dtype_is_float(operand)) {
    double f[3];
    for (int i = 0; i < row->arity; i++) f[i] = x[i].f;
    double value = row->eval(f);
    if (ir_dtype_is_float(result))
      out.f = ir_dtype_round(result, value);
    else
      out.i = value != 0;
  } else {
    int64_t v[3] = {0, 0, 0};
    for (int i = 0; i < row->arity; i++) v[i] = x[i].i;
    out.i = ir_dtype_wrap(result, row->eval_int ? row->eval_int(v) : 0);
  }
  return out;
}

static void eval_where(loop_run *r, const lnode *n, cell *out) {
  cell cond[LOOP_MAX_LANES], yes[LOOP_MAX_LANES], no[LOOP_MAX_LANES];
  loop_eval_as(r, n->args[0], n->lanes, cond);
  if (n->lanes == 1) {
    loop_eval(r, n->args[cond[0].i ? 1 : 2], out);
    return;
  }
  loop_eval_as(r, n->args[1], n->lanes, yes);
  loop_eval_as(r, n->args[2], n->lanes, no);
  for (int l = 0; l < n->lanes; l++) out[l] = cond[l].i ? yes[l] : no[l];
}

/* Scalars: the right operand of `and`, `or` is not touched where the left one decides. */
static bool decided(const lnode *n, const cell *left, cell *out) {
  if (n->lanes > 1 || (n->op != IR_OP_AND && n->op != IR_OP_OR)) return false;
  bool is_true = left->i != 0;
  if (is_true != (n->op == IR_OP_OR)) return false;
  out->i = is_true;
  return true;
}

static void eval_op(loop_run *r, const lnode *n, cell *out) {
  cell x[2][LOOP_MAX_LANES];
  if (n->op == IR_OP_WHERE) {
    eval_where(r, n, out);
    return;
  }
  loop_eval_as(r, n->args[0], n->lanes, x[0]);
  if (decided(n, x[0], out)) return;
  if (n->count > 1) loop_eval_as(r, n->args[1], n->lanes, x[1]);
  for (int l = 0; l < n->lanes; l++) {
    cell pair[2] = {x[0][l], n->count > 1 ? x[1][l] : x[0][l]};
    out[l] = loop_apply(n->row, n->operand, n->dtype, pair);
  }
}

static cell convert(ir_dtype from, ir_dtype to, cell x) {
  cell out;
  int64_t bits = 0;
  if (ir_dtype_is_float(to)) {
    out.f = ir_dtype_round(to, ir_dtype_is_float(from) ? x.f : (double)x.i);
  } else if (ir_dtype_is_float(from)) {
    ir_dtype_store(to, &bits, 0, x.f);
    out.i = ir_dtype_load_int(to, &bits, 0);
  } else {
    out.i = ir_dtype_wrap(to, x.i);
  }
  return out;
}

static void eval_cast(loop_run *r, const lnode *n, cell *out) {
  cell x[LOOP_MAX_LANES];
  loop_eval_as(r, n->args[0], n->lanes, x);
  for (int l = 0; l < n->lanes; l++) out[l] = convert(n->args[0]->dtype, n->dtype, x[l]);
}

/* Across the lanes of a vector, from the first on. */
static void eval_reduce(loop_run *r, const lnode *n, cell *out) {
  cell x[LOOP_MAX_LANES];
  const ir_op combine = ir_reducer_rows[n->reducer].combine;
  loop_eval(r, n->args[0], x);
  out[0] = x[0];
  if (combine == IR_OP_COUNT) {
    loop_defect(r, "`%s` is no reduction over lanes", ir_reducer_rows[n->reducer].text);
    return;
  }
  for (int l = 1; l < n->args[0]->lanes; l++)
    out[0] = loop_apply(&ir_op_rows[combine], n->args[0]->dtype, n->dtype, (cell[]){out[0], x[l]});
}

/* ---- memory ------------------------------------------------------------------------------ */
static void eval_load(loop_run *r, const lnode *n, cell *out) {
  cell at[LOOP_MAX_LANES], mask[LOOP_MAX_LANES];
  loop_eval(r, n->args[0], at);
  if (n->count > 1) loop_eval_as(r, n->args[1], n->lanes, mask);
  for (int l = 0; l < n->lanes; l++) {
    int64_t offset = loop_lane(at, n->args[0]->lanes, l);
    bool on = n->count < 2 || mask[l].i != 0;
    if (on && !r->status && loop_in_range(r, n->memory, offset, "reads"))
      out[l] = loop_read(n->memory, offset);
    else
      out[l] = (cell){0};
  }
}

void loop_eval(loop_run *r, const lnode *n, cell *out) {
  switch (n->kind) {
  case IR_CONST:
  case IR_DIM:
    for (int l = 0; l < n->lanes; l++) out[l] = n->value;
    return;
  case IR_VAR: memcpy(out, n->var, sizeof(cell) * (size_t)n->lanes); return;
  case IR_LOAD: eval_load(r, n, out); return;
  case IR_OP: eval_op(r, n, out); return;
  case IR_CAST: eval_cast(r, n, out); return;
  case IR_REDUCE: eval_reduce(r, n, out); return;
  case IR_INDEX:
  case IR_ACCESS:
  case IR_SOFTMAX:
  case IR_TOPK:
  case IR_STORED: break; /* refused when the function was compiled */
  }
  out[0] = (cell){0};
}
