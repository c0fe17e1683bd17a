/* vectorise_tile.c - a register tile: loops over rows and columns with their copies and edges.
 *
 *     for row step R { if row + R <= hi { columns of R rows } else { for each row: columns of one }
 * } columns: for col step U*V { if col + U*V <= hi { R x U vectors } else { vectors under a mask }
 * } */
#include "passes/vectorise.h"

/* Rows of a strip: `min(first + 16, T)` from `first`, or `min(16, ..)` from 0. */
int64_t pass_vec_most_trips(const ir_code *loop) {
  int64_t trips = pass_vec_trips(loop, -1);
  const ir_expr *hi = loop->hi;
  if (trips >= 0 || hi->kind != IR_OP || hi->op != IR_OP_MIN) return trips;
  bool from_zero = loop->lo->kind == IR_CONST && loop->lo->i == 0;
  for (int i = 0; i < 2; i++) {
    const ir_expr *sum = hi->args[i];
    if (from_zero && sum->kind == IR_CONST) return sum->i;
    if (sum->kind == IR_OP && sum->op == IR_OP_ADD && sum->args[1]->kind == IR_CONST &&
        ir_expr_equal(sum->args[0], loop->lo))
      return sum->args[1]->i;
  }
  return -1;
}

static ir_expr *add(vec_tile *t, ir_expr *x, int64_t n) {
  return ir_apply(t->b->arena, IR_OP_ADD, x, ir_int(t->b->arena, n));
}

ir_var *pass_vec_open(ir_builder *b, const ir_code *like, ir_expr *lo, ir_expr *hi, int64_t step,
                      ir_run run, ir_block **outer) {
  const char *name = ir_format_text(b->arena, "%s_%d", like->var->name, b->func->vars.count);
  ir_var *var = ir_open_for(b, name, lo, hi, run, outer);
  (*outer)->codes.at[(*outer)->codes.count - 1]->step = ir_int(b->arena, step);
  return var;
}

/* k: rows and their names are set. */
static void write_copies(vec_tile *t, vec_copier *k, ir_expr *at, int cols, ir_expr *tail) {
  k->cols = cols;
  k->col_at = at;
  k->tail = tail;
  k->lane = NULL;
  if (k->lanes > 1 && pass_vec_block_wants_lanes(t->g, t->body))
    k->lane = pass_vec_lanes(k->b, IR_I64, k->lanes);
  k->names.count = 0;
  if (t->before) pass_vec_block(k, t->before, NULL);
  pass_vec_block(k, t->body, NULL);
}

static void write_edge(vec_tile *t, vec_copier *k, ir_expr *from, ir_expr *hi) {
  ir_block *outer;
  ir_var *at = pass_vec_open(t->b, t->col, from, hi, t->shape.lanes, IR_RUN_SEQUENTIAL, &outer);
  ir_expr *ref = ir_var_ref(t->b->arena, at);
  write_copies(t, k, ref, 1,
               t->shape.lanes > 1 ? pass_vec_tail(k->b, ref, hi, t->shape.lanes) : NULL);
  ir_close(t->b, outer);
}

/* Columns lo .. hi, which are no more than one tile of them: no loop, so that what is read lies at
 * constant distances from where the rows' addresses are. */
static void write_only_tile(vec_tile *t, vec_copier *k, ir_expr *lo, ir_expr *hi, int64_t step) {
  ir_block *branch;
  ir_expr *whole = ir_apply(t->b->arena, IR_OP_LE, add(t, lo, step), hi);
  ir_code *test = ir_open_if(t->b, whole, &branch);
  write_copies(t, k, lo, t->shape.cols, NULL);
  ir_open_else(t->b, test);
  write_edge(t, k, lo, hi);
  ir_close(t->b, branch);
}

static bool is_only_tile(const vec_tile *t, ir_run run, int64_t step) {
  int64_t most = pass_vec_most_trips(t->col);
  return run == IR_RUN_SEQUENTIAL && most >= 0 && most <= step && !t->even &&
         !pass_vec_divides(t->col, step);
}

/* Bounds of the column loop may use what stands before it in the row: the same for all rows. */
static void write_columns(vec_tile *t, int rows, ir_expr *row_at) {
  ir_arena *a = t->b->arena;
  int64_t step = (int64_t)t->shape.cols * t->shape.lanes;
  vec_copier k = {.g = t->g,
                  .b = t->b,
                  .arena = a,
                  .rows = rows,
                  .cols = 1,
                  .lanes = t->shape.lanes,
                  .only_row = -1,
                  .row_at = row_at};
  if (t->before) pass_vec_block(&k, t->before, NULL);
  ir_expr *lo = pass_vec_scalar(&k, t->col->lo, 0, 0), *hi = pass_vec_scalar(&k, t->col->hi, 0, 0);
  ir_block *outer, *branch;
  ir_run run = t->row ? IR_RUN_SEQUENTIAL : t->col->run;
  if (is_only_tile(t, run, step)) {
    write_only_tile(t, &k, lo, hi, step);
    return;
  }
  ir_expr *at = ir_var_ref(a, pass_vec_open(t->b, t->col, lo, hi, step, run, &outer));
  if (t->even || pass_vec_divides(t->col, step)) {
    write_copies(t, &k, at, t->shape.cols, NULL);
  } else {
    ir_code *test = ir_open_if(t->b, ir_apply(a, IR_OP_LE, add(t, at, step), hi), &branch);
    write_copies(t, &k, at, t->shape.cols, NULL);
    ir_open_else(t->b, test);
    write_edge(t, &k, at, hi);
    ir_close(t->b, branch);
  }
  ir_close(t->b, outer);
}

void pass_vec_tile(vec_tile *t) {
  ir_arena *a = t->b->arena;
  if (!t->row) {
    write_columns(t, 1, NULL);
    return;
  }
  ir_block *outer, *branch, *single;
  int64_t rows = t->shape.rows;
  ir_expr *at =
      ir_var_ref(a, pass_vec_open(t->b, t->row, t->row->lo, t->row->hi, rows, t->row->run, &outer));
  if (rows == 1 || t->whole || pass_vec_divides(t->row, rows)) {
    write_columns(t, t->shape.rows, at);
  } else {
    ir_code *test = ir_open_if(t->b, ir_apply(a, IR_OP_LE, add(t, at, rows), t->row->hi), &branch);
    write_columns(t, t->shape.rows, at);
    ir_open_else(t->b, test);
    ir_var *one = pass_vec_open(t->b, t->row, at, t->row->hi, 1, IR_RUN_SEQUENTIAL, &single);
    write_columns(t, 1, ir_var_ref(a, one));
    ir_close(t->b, single);
    ir_close(t->b, branch);
  }
  ir_close(t->b, outer);
}
