/* vectorise_copy.c - statements of a loop body written for several rows and columns side by side.
 *
 *     let acc = 0                       let acc = splat(0), acc_2 = ..
 *     for k { acc = acc + x*W }         for k { common = ..; acc = acc + ..; acc_2 = acc_2 + .. }
 *     y[o] = acc                        y[o .. o+16] = acc; y[o+16 .. o+32] = acc_2
 *
 * A statement is written once for every row and column that it depends on.  A branch on the row is
 * taken row by row; a branch on the column becomes a mask. */
#include "passes/vectorise.h"

/* ---- names ----------------------------------------------------------------------------------- */
static vec_name *name_of(const vec_copier *k, const void *key) {
  for (int i = k->names.count - 1; i >= 0; i--)
    if (k->names.at[i].key == key) return &k->names.at[i];
  return NULL;
}

void pass_vec_bind(vec_copier *k, const void *key, int row, int col, void *copy) {
  vec_name *name = name_of(k, key);
  if (!name) {
    vec_name fresh = {key, IR_NEW_ARRAY(k->arena, void *, k->rows * k->cols)};
    IR_PUSH(k->arena, &k->names, fresh);
    name = &k->names.at[k->names.count - 1];
  }
  name->copy[row * k->cols + col] = copy;
}

void *pass_vec_bound(const vec_copier *k, const void *key, int row, int col) {
  const vec_name *name = name_of(k, key);
  const vec_local *l = name ? pass_vec_local(k->g, key) : NULL;
  if (!name) return NULL;
  if (l && !(l->deps & VEC_ROW)) row = 0;
  if (l && !(l->deps & VEC_COL)) col = 0;
  return name->copy[row * k->cols + col];
}

/* Names get the number of locals so far: unique at the first try. */
ir_var *pass_vec_let(ir_builder *b, const char *stem, ir_dtype t, int lanes, ir_expr *value) {
  const char *name = ir_format_text(b->arena, "%s_%d", stem, b->func->vars.count);
  return ir_let_lanes(b, name, t, lanes, value);
}

/* ---- lanes ----------------------------------------------------------------------------------- */
ir_expr *pass_vec_lanes(ir_builder *b, ir_dtype t, int lanes) {
  ir_block *outer;
  ir_buf *buf = ir_local(b, "lanes", t, lanes);
  ir_var *i =
      ir_open_for(b, "l", ir_int(b->arena, 0), ir_int(b->arena, lanes), IR_RUN_UNROLL, &outer);
  ir_store(b, buf, ir_var_ref(b->arena, i), ir_cast(b->arena, t, ir_var_ref(b->arena, i)));
  ir_close(b, outer);
  ir_expr *load = ir_load(b->arena, buf, ir_int(b->arena, 0));
  load->lanes = lanes;
  return ir_var_ref(b->arena, pass_vec_let(b, "lane", t, lanes, load));
}

ir_expr *pass_vec_tail(ir_builder *b, ir_expr *at, ir_expr *hi, int lanes) {
  ir_expr *rest = ir_apply(b->arena, IR_OP_SUB, hi, at);
  rest = ir_apply(b->arena, IR_OP_MIN, rest, ir_int(b->arena, lanes));
  ir_expr *number = ir_splat(b->arena, ir_cast(b->arena, IR_I32, rest), lanes);
  ir_expr *mask = ir_apply(b->arena, IR_OP_LT, pass_vec_lanes(b, IR_I32, lanes), number);
  return ir_var_ref(b->arena, pass_vec_let(b, "mask", IR_B1, lanes, mask));
}

/* ---- copies ---------------------------------------------------------------------------------- */
typedef struct extent {
  int row_lo, row_hi, cols;
} extent;

static extent extent_of(const vec_copier *k, unsigned deps) {
  extent x = {0, 1, deps & VEC_COL ? k->cols : 1};
  if (deps & VEC_ROW) x.row_hi = k->rows;
  if (deps & VEC_ROW && k->only_row >= 0) {
    x.row_lo = k->only_row;
    x.row_hi = k->only_row + 1;
  }
  return x;
}

static ir_expr *value_of(vec_copier *k, const ir_var *var, const ir_expr *e, int row, int col,
                         ir_expr *cond) {
  if (!e) return NULL;
  return pass_vec_is_wide(k, var) ? pass_vec_wide(k, e, row, col, cond)
                                  : pass_vec_scalar(k, e, row, col);
}

static void copy_let(vec_copier *k, const ir_code *code, ir_expr *cond) {
  const ir_var *var = code->var;
  extent x = extent_of(k, pass_vec_local(k->g, var)->deps);
  int lanes = pass_vec_is_wide(k, var) ? k->lanes : var->lanes;
  for (int row = x.row_lo; row < x.row_hi; row++)
    for (int col = 0; col < x.cols; col++) {
      ir_expr *value = value_of(k, var, code->value, row, col, cond);
      pass_vec_bind(k, var, row, col, pass_vec_let(k->b, var->name, var->dtype, lanes, value));
    }
}

static void copy_set(vec_copier *k, const ir_code *code, ir_expr *cond) {
  extent x = extent_of(k, pass_vec_local(k->g, code->var)->deps);
  ir_expr *keep = k->mask_sets ? pass_vec_and(k->arena, k->tail, cond) : cond;
  for (int row = x.row_lo; row < x.row_hi; row++)
    for (int col = 0; col < x.cols; col++) {
      ir_var *target = pass_vec_bound(k, code->var, row, col);
      ir_expr *value = value_of(k, code->var, code->value, row, col, cond);
      if (keep && k->lanes > 1)
        value = ir_apply3(k->arena, IR_OP_WHERE, keep, value, ir_var_ref(k->arena, target));
      ir_set(k->b, target ? target : code->var, value);
    }
}

static void store_scalar(vec_copier *k, const ir_code *code, int row, int col) {
  ir_buf *local = pass_vec_bound(k, code->buf, row, col);
  ir_code *store =
      ir_store(k->b, local ? local : code->buf, pass_vec_scalar(k, code->offset, row, col),
               pass_vec_scalar(k, code->value, row, col));
  store->combine = code->combine;
  if (code->cond) store->cond = pass_vec_scalar(k, code->cond, row, col);
}

static void store_wide(vec_copier *k, const ir_code *code, int row, int col, ir_expr *cond) {
  int64_t stride;
  bool straight = pass_vec_stride(k->g, code->offset, &stride) && stride == 1;
  ir_expr *value = pass_vec_wide(k, code->value, row, col, cond);
  ir_expr *offset = straight ? pass_vec_scalar(k, code->offset, row, col)
                             : pass_vec_wide(k, code->offset, row, col, cond);
  ir_expr *mask = pass_vec_and(k->arena, k->tail, cond);
  if (code->cond) mask = pass_vec_and(k->arena, mask, pass_vec_wide(k, code->cond, row, col, cond));
  ir_code *store = ir_store(k->b, code->buf, offset, value);
  store->combine = code->combine;
  store->cond = mask;
}

/* Every iteration stores, whatever the offset depends on. */
static void copy_store(vec_copier *k, const ir_code *code, ir_expr *cond) {
  unsigned own = pass_vec_deps(k->g, code->offset) | pass_vec_deps(k->g, code->value);
  extent x = extent_of(k, code->buf->kind == IR_BUF_LOCAL ? own : VEC_ROW | VEC_COL);
  for (int row = x.row_lo; row < x.row_hi; row++)
    for (int col = 0; col < x.cols; col++) {
      if (k->lanes > 1)
        store_wide(k, code, row, col, cond);
      else
        store_scalar(k, code, row, col);
    }
}

/* Locals hold what is the same for all copies: lane numbers. */
static void copy_local(vec_copier *k, const ir_code *code) {
  ir_buf *made = ir_local(k->b, code->buf->name, code->buf->dtype, code->buf->count->i);
  for (int row = 0; row < k->rows; row++)
    for (int col = 0; col < k->cols; col++) pass_vec_bind(k, code->buf, row, col, made);
}

/* ---- nested blocks --------------------------------------------------------------------------- */
static void copy_for(vec_copier *k, const ir_code *code, ir_expr *cond) {
  ir_block *outer;
  ir_expr *lo = pass_vec_scalar(k, code->lo, 0, 0), *hi = pass_vec_scalar(k, code->hi, 0, 0);
  ir_var *var = ir_open_for(k->b, code->var->name, lo, hi, code->run, &outer);
  ir_code *loop = outer->codes.at[outer->codes.count - 1];
  if (code->step) loop->step = pass_vec_scalar(k, code->step, 0, 0);
  for (int row = 0; row < k->rows; row++)
    for (int col = 0; col < k->cols; col++) pass_vec_bind(k, code->var, row, col, var);
  pass_vec_block(k, &code->body, cond);
  ir_close(k->b, outer);
}

/* One scalar condition, in the copies that are active. */
static void branch_on(vec_copier *k, const ir_code *code, int row) {
  ir_block *outer;
  ir_code *test = ir_open_if(k->b, pass_vec_scalar(k, code->cond, row, 0), &outer);
  pass_vec_block(k, &code->body, NULL);
  if (code->orelse.codes.count) {
    ir_open_else(k->b, test);
    pass_vec_block(k, &code->orelse, NULL);
  }
  ir_close(k->b, outer);
}

static void branch_by_row(vec_copier *k, const ir_code *code) {
  extent x = extent_of(k, VEC_ROW);
  int all = k->only_row;
  for (int row = x.row_lo; row < x.row_hi; row++) {
    k->only_row = row;
    branch_on(k, code, row);
  }
  k->only_row = all;
}

/* The columns differ: both sides run, masked.  There is one column of copies: see
 * pass_vec_branches. */
static void branch_by_mask(vec_copier *k, const ir_code *code, ir_expr *cond) {
  unsigned deps = pass_vec_deps(k->g, code->cond);
  extent x = extent_of(k, deps);
  int all = k->only_row;
  for (int row = x.row_lo; row < x.row_hi; row++) {
    if (deps & VEC_ROW) k->only_row = row;
    ir_expr *yes = pass_vec_wide(k, code->cond, row, 0, cond);
    yes = ir_var_ref(k->arena, pass_vec_let(k->b, "when", IR_B1, k->lanes, yes));
    pass_vec_block(k, &code->body, pass_vec_and(k->arena, cond, yes));
    ir_expr *no = ir_apply(k->arena, IR_OP_NOT, yes, NULL);
    if (code->orelse.codes.count)
      pass_vec_block(k, &code->orelse, pass_vec_and(k->arena, cond, no));
  }
  k->only_row = all;
}

static void copy_if(vec_copier *k, const ir_code *code, ir_expr *cond) {
  unsigned deps = pass_vec_deps(k->g, code->cond);
  if (cond || (deps & VEC_COL && k->lanes > 1))
    branch_by_mask(k, code, cond);
  else if (deps & VEC_ROW)
    branch_by_row(k, code);
  else
    branch_on(k, code, 0);
}

static bool uses_wide(const vec_copier *k, const ir_expr *e) {
  if (e->kind == IR_VAR && pass_vec_is_wide(k, e->var)) return true;
  for (int i = 0; i < e->arg_count; i++)
    if (uses_wide(k, e->args[i])) return true;
  return false;
}

/* Lines of every column, unless columns lie anywhere; passes ask for them in bodies that they have made, for all rows at once. */
static void copy_prefetch(vec_copier *k, const ir_code *code) {
  if (uses_wide(k, code->offset)) return;
  for (int c = 0; c < k->cols; c++)
    ir_prefetch(k->b, code->buf, pass_vec_scalar(k, code->offset, 0, c))->early = code->early;
}

void pass_vec_block(vec_copier *k, const ir_block *block, ir_expr *cond) {
  for (int i = 0; i < block->codes.count; i++) {
    const ir_code *code = block->codes.at[i];
    k->shared.count = 0;
    switch (code->kind) {
    case IR_LET: copy_let(k, code, cond); break;
    case IR_SET: copy_set(k, code, cond); break;
    case IR_STORE: copy_store(k, code, cond); break;
    case IR_FOR: copy_for(k, code, cond); break;
    case IR_IF: copy_if(k, code, cond); break;
    case IR_LOCAL: copy_local(k, code); break;
    case IR_COMMENT: ir_comment(k->b, "%s", code->text); break;
    case IR_PREFETCH: copy_prefetch(k, code); break;
    case IR_WHILE:
    case IR_BARRIER: break; /* not legal in a region */
    }
    k->shared.count = 0;
  }
}
