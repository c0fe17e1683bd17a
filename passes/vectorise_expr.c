/* vectorise_expr.c - one expression for one copy: for a row and a column, or for a vector of
 * columns.
 *
 * Scalar: the row is row_at + row, the column the first of its lanes.  Wide: what does not change
 * with the columns is splat; a straight i64 is its first lane plus the lane numbers; loads of
 * consecutive elements become vector loads, others gathers.  An operand that several copies have in
 * common is written once, before the statement.  Operands of `where`, `and` and `or` that read
 * memory are masked by the condition: a vector has no branch to hide behind. */
#include "passes/vectorise.h"

ir_expr *pass_vec_and(ir_arena *a, ir_expr *x, ir_expr *y) {
  if (!x) return y;
  return y ? ir_apply(a, IR_OP_AND, x, y) : x;
}

bool pass_vec_is_wide(const vec_copier *k, const ir_var *var) {
  const vec_local *l = pass_vec_local(k->g, var);
  int64_t stride;
  if (k->lanes == 1 || !l || !(l->deps & VEC_COL)) return false;
  return l->set || !l->value || !pass_vec_stride(k->g, l->value, &stride);
}

/* ---- what copies share ----------------------------------------------------------------------- */
static ir_expr *recall(const vec_copier *k, const ir_expr *e, int row, int col) {
  for (int i = 0; i < k->shared.count; i++) {
    const vec_shared *s = &k->shared.at[i];
    if (s->e == e && s->row == row && s->col == col) return s->value;
  }
  return NULL;
}

static ir_expr *keep(vec_copier *k, const ir_expr *e, int row, int col, ir_expr *value) {
  ir_var *var = pass_vec_let(k->b, "common", value->dtype, value->lanes, value);
  vec_shared shared = {e, row, col, ir_var_ref(k->arena, var)};
  IR_PUSH(k->arena, &k->shared, shared);
  return shared.value;
}

static bool is_leaf(const ir_expr *e) {
  return e->kind == IR_CONST || e->kind == IR_DIM || e->kind == IR_VAR;
}

/* ---- scalars --------------------------------------------------------------------------------- */
static ir_expr *plus(vec_copier *k, ir_expr *at, int64_t offset) {
  return offset ? ir_apply(k->arena, IR_OP_ADD, at, ir_int(k->arena, offset)) : at;
}

ir_expr *pass_vec_scalar(vec_copier *k, const ir_expr *e, int row, int col) {
  if (e->kind == IR_VAR) {
    if (e->var == k->g->row) return plus(k, k->row_at, row);
    if (e->var == k->g->col) return plus(k, k->col_at, (int64_t)col * (k->apart ? k->apart : k->lanes));
    ir_var *copy = pass_vec_bound(k, e->var, row, col);
    return ir_var_ref(k->arena, copy ? copy : e->var);
  }
  ir_expr **args = IR_NEW_ARRAY(k->arena, ir_expr *, e->arg_count + 1);
  for (int i = 0; i < e->arg_count; i++) args[i] = pass_vec_scalar(k, e->args[i], row, col);
  if (e->kind == IR_OP && e->dtype == IR_I64 && e->arg_count == 2)
    return ir_apply(k->arena, e->op, args[0], args[1]);
  ir_expr *copy = ir_copy_with(k->arena, e, args);
  ir_buf *local = e->kind == IR_LOAD ? pass_vec_bound(k, e->buf, row, col) : NULL;
  if (local) copy->buf = local;
  return copy;
}

static ir_expr *splat(vec_copier *k, ir_expr *e) { return ir_splat(k->arena, e, k->lanes); }

/* The same for all columns: computed once a row, and splat once. */
static ir_expr *uniform(vec_copier *k, const ir_expr *e, int row, int col, bool share) {
  int by_row = pass_vec_deps(k->g, e) & VEC_ROW ? row : -1;
  if (!share || k->inside_shared || is_leaf(e) || (k->cols == 1 && (by_row >= 0 || k->rows == 1)))
    return splat(k, pass_vec_scalar(k, e, row, col));
  ir_expr *known = recall(k, e, by_row, -1);
  return known ? known : keep(k, e, by_row, -1, splat(k, pass_vec_scalar(k, e, row, col)));
}

/* ---- vectors --------------------------------------------------------------------------------- */
static ir_expr *lane_numbers(vec_copier *k, int64_t stride) {
  if (stride == 1) return k->lane;
  return ir_apply(k->arena, IR_OP_MUL, k->lane, splat(k, ir_int(k->arena, stride)));
}

static ir_expr *wide_load(vec_copier *k, const ir_expr *e, int row, int col, ir_expr *cond) {
  int64_t stride;
  bool straight = pass_vec_stride(k->g, e->args[0], &stride) && stride == 1;
  ir_expr *picked = straight || cond ? NULL : pass_vec_window(k, e, row, col);
  if (picked) return picked;
  ir_expr *offset = straight ? pass_vec_scalar(k, e->args[0], row, col)
                             : pass_vec_wide(k, e->args[0], row, col, cond);
  ir_expr *mask = pass_vec_and(k->arena, k->tail, cond);
  if (e->arg_count > 1)
    mask = pass_vec_and(k->arena, mask, pass_vec_wide(k, e->args[1], row, col, cond));
  ir_expr *load = ir_load(k->arena, e->buf, offset);
  load->lanes = k->lanes;
  if (mask) load->args[load->arg_count++] = mask;
  return load;
}

/* The condition under which argument i of e is looked at at all; NULL where that does not matter.
 */
static ir_expr *arm_condition(vec_copier *k, const ir_expr *e, int i, ir_expr *first,
                              ir_expr *cond) {
  bool lazy = e->op == IR_OP_WHERE || e->op == IR_OP_AND || e->op == IR_OP_OR;
  if (i == 0 || !lazy || !pass_vec_reads(e->args[i])) return cond;
  bool when_false = e->op == IR_OP_OR || (e->op == IR_OP_WHERE && i == 2);
  if (when_false) first = ir_apply(k->arena, IR_OP_NOT, first, NULL);
  return pass_vec_and(k->arena, cond, first);
}

static ir_expr *wide_op(vec_copier *k, const ir_expr *e, int row, int col, ir_expr *cond) {
  ir_expr *args[3] = {NULL, NULL, NULL};
  for (int i = 0; i < e->arg_count; i++)
    args[i] = pass_vec_wide(k, e->args[i], row, col, arm_condition(k, e, i, args[0], cond));
  return ir_op_new(k->arena, e->op, args, e->arg_count);
}

/* A straight i64 that is stored as i32: added in that width, with half of the registers. */
static ir_expr *narrow_line(vec_copier *k, const ir_expr *e, int row, int col) {
  int64_t stride;
  const ir_expr *line = e->args[0];
  if (e->dtype != IR_I32 || line->dtype != IR_I64 || !pass_vec_stride(k->g, line, &stride) ||
      stride == 0)
    return NULL;
  ir_expr *first = ir_cast(k->arena, IR_I32, pass_vec_scalar(k, line, row, col));
  return ir_apply(k->arena, IR_OP_ADD, splat(k, first),
                  ir_cast(k->arena, IR_I32, lane_numbers(k, stride)));
}

static ir_expr *wide_cast(vec_copier *k, const ir_expr *e, int row, int col, ir_expr *cond) {
  ir_expr *narrow = narrow_line(k, e, row, col);
  if (narrow) return narrow;
  return ir_cast(k->arena, e->dtype, pass_vec_wide(k, e->args[0], row, col, cond));
}

/* The same for all columns, looked at where any of them asks for it. */
static ir_expr *asked_once(vec_copier *k, const ir_expr *e, int row, int col, ir_expr *cond) {
  ir_expr *load = ir_load(k->arena, e->buf, pass_vec_scalar(k, e->args[0], row, col));
  load->args[load->arg_count++] = ir_reduce(k->arena, IR_RED_ANY, NULL, 0, cond);
  return splat(k, load);
}

static ir_expr *varying(vec_copier *k, const ir_expr *e, int row, int col, ir_expr *cond) {
  int64_t stride;
  if (e->dtype == IR_I64 && pass_vec_stride(k->g, e, &stride) && stride != 0)
    return ir_apply(k->arena, IR_OP_ADD, splat(k, pass_vec_scalar(k, e, row, col)),
                    lane_numbers(k, stride));
  if (e->kind == IR_VAR) return ir_var_ref(k->arena, pass_vec_bound(k, e->var, row, col));
  if (e->kind == IR_LOAD) return wide_load(k, e, row, col, cond);
  if (e->kind == IR_CAST) return wide_cast(k, e, row, col, cond);
  return wide_op(k, e, row, col, cond);
}

ir_expr *pass_vec_wide(vec_copier *k, const ir_expr *e, int row, int col, ir_expr *cond) {
  unsigned deps = pass_vec_deps(k->g, e);
  if (!(deps & VEC_COL) && !(cond && pass_vec_reads(e))) return uniform(k, e, row, col, !cond);
  if (!(deps & VEC_COL) && e->kind == IR_LOAD && e->arg_count == 1 && e->buf->kind != IR_BUF_LOCAL && !pass_vec_reads(e->args[0]))
    return asked_once(k, e, row, col, cond);
  if (!(deps & VEC_COL) && is_leaf(e)) return splat(k, pass_vec_scalar(k, e, row, col));
  bool share = k->rows > 1 && !(deps & VEC_ROW) && !cond && !is_leaf(e) && !k->inside_shared;
  if (!share) return varying(k, e, row, col, cond);
  ir_expr *known = recall(k, e, -1, col);
  if (known) return known;
  k->inside_shared = true;
  ir_expr *value = varying(k, e, row, col, cond);
  k->inside_shared = false;
  return keep(k, e, -1, col, value);
}

/* ---- whether lane numbers are needed --------------------------------------------------------- */
static bool wants_lanes(const vec_region *g, const ir_expr *e) {
  int64_t stride;
  if (!(pass_vec_deps(g, e) & VEC_COL)) return false;
  if (e->dtype == IR_I64 && pass_vec_stride(g, e, &stride)) return true;
  bool straight = e->kind == IR_LOAD && pass_vec_stride(g, e->args[0], &stride) && stride == 1;
  for (int i = straight ? 1 : 0; i < e->arg_count; i++)
    if (wants_lanes(g, e->args[i])) return true;
  return false;
}

bool pass_vec_block_wants_lanes(const vec_region *g, const ir_block *block) {
  int64_t stride;
  for (int i = 0; i < block->codes.count; i++) {
    const ir_code *code = block->codes.at[i];
    bool line = code->kind == IR_LET && !pass_vec_local(g, code->var)->set && code->value &&
                pass_vec_stride(g, code->value, &stride); /* kept as its first lane */
    if (code->value && !line && wants_lanes(g, code->value)) return true;
    if (code->cond && wants_lanes(g, code->cond)) return true;
    if (code->kind == IR_STORE && !(pass_vec_stride(g, code->offset, &stride) && stride == 1))
      return true;
    if (pass_vec_block_wants_lanes(g, &code->body) || pass_vec_block_wants_lanes(g, &code->orelse))
      return true;
  }
  return false;
}
