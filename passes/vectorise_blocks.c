/* vectorise_blocks.c - the blocks of a product whose operands are packed in panels: which rows and
 * columns are done together, and by which thread.
 *
 *     parallel for part = blocks of rows x strips of columns { one strip: vectorise_panel.c }
 *
 * A strip is packed once for every block of rows. Blocks are as large as the sums' room allows, so
 * that up to PANEL_MOST_ROWS rows pack every column once; threads share the strips. */
#include "passes/vectorise_panel.h"

static void write_few(panel *p, ir_expr *col_hi, vec_shape shape) {
  ir_code row = pass_panel_limited(p->t->row, p->row_lo, p->row_hi),
          col = pass_panel_limited(p->t->col, p->col_lo, col_hi);
  vec_tile few = *p->t;
  few.row = &row;
  few.col = &col;
  few.shape = shape;
  if (few.few) {
    few.body = few.few;
    few.g = pass_vec_region(p->a, row.var, col.var, few.before, few.body);
    few.shape = (vec_shape){PANEL_DOT_ROWS, PANEL_DOT_COLUMNS, 1};
  }
  pass_vec_tile(&few);
}

/* ---- blocks ---------------------------------------------------------------------------------- */
static ir_expr *rows_of(panel *p) {
  return pass_panel_op(p, IR_OP_SUB, p->t->row->hi, p->t->row->lo);
}

static ir_expr *strips_of(panel *p) {
  ir_expr *columns = pass_panel_op(p, IR_OP_SUB, p->t->col->hi, p->t->col->lo);
  return ir_ceil_div(p->a, columns, p->width);
}

static ir_expr *rounded_up(panel *p, ir_expr *x, ir_expr *y) {
  ir_expr *rest = pass_panel_op(p, IR_OP_SUB, y, pass_panel_number(p, 1));
  return pass_panel_op(p, IR_OP_DIV, pass_panel_op(p, IR_OP_ADD, x, rest), y);
}

static ir_expr *tiles_of(panel *p) { return ir_ceil_div(p->a, rows_of(p), p->t->shape.rows); }

/* Blocks of rows: each as large as there is room for, smaller where threads would find too few. */
static ir_expr *blocks_of(panel *p) {
  int64_t tile = p->t->shape.rows;
  ir_expr *most = pass_panel_op(p, IR_OP_MUL, rows_of(p), strips_of(p));
  most = pass_panel_op(p, IR_OP_DIV, most, pass_panel_number(p, tile * PANEL_PARTS));
  most = pass_panel_op(p, IR_OP_MIN, pass_panel_op(p, IR_OP_MAX, most, pass_panel_number(p, 4)),
                       pass_panel_number(p, p->rows / tile));
  return rounded_up(p, tiles_of(p), most);
}

/* As many in each: every block packs all columns, also one of few rows. */
static ir_expr *rows_a_block(panel *p) {
  ir_expr *shares = pass_panel_let(p, "shares", blocks_of(p));
  ir_expr *tiles = rounded_up(p, tiles_of(p), shares);
  return pass_panel_op(p, IR_OP_MUL, tiles, pass_panel_number(p, p->t->shape.rows));
}

static void set_columns(panel *p, ir_expr *strip) {
  ir_expr *first = pass_panel_op(p, IR_OP_MUL, strip, pass_panel_number(p, p->width));
  p->col_lo = pass_panel_let(p, "column", pass_panel_op(p, IR_OP_ADD, p->t->col->lo, first));
  p->col_hi = pass_panel_end(p, p->t->col, p->col_lo, p->width, p->t->col->hi);
}

/* Long pieces of lines are read faster; every thread has one, and sums stay in the first cache. */
static ir_expr *strips_at_once(panel *p) {
  ir_expr *least = pass_panel_number(p, PANEL_FEW_STRIPS);
  if (p->t->few) return least;
  ir_expr *rows = pass_panel_op(p, IR_OP_MAX, rows_of(p), pass_panel_number(p, 1));
  ir_expr *most = pass_panel_op(p, IR_OP_DIV, pass_panel_number(p, PANEL_ONE_STRIPS), rows);
  ir_expr *each = pass_panel_op(p, IR_OP_DIV, strips_of(p), pass_panel_number(p, p->t->units));
  return pass_panel_let(
      p, "at_once", pass_panel_op(p, IR_OP_MAX, pass_panel_op(p, IR_OP_MIN, most, each), least));
}

/* Few rows are done from memory, over several strips at once. */
static void write_few_strips(panel *p, ir_expr *strip, ir_expr *k_lo, ir_expr *k_hi) {
  ir_block *outer;
  int64_t width = p->width;
  ir_expr *strips = strips_at_once(p), *place = pass_panel_op(p, IR_OP_MOD, strip, strips);
  ir_open_if(p->t->b, pass_panel_op(p, IR_OP_EQ, place, pass_panel_number(p, 0)), &outer);
  p->width = (p->t->few ? PANEL_FEW_STRIPS : PANEL_ONE_STRIPS) * width;
  ir_expr *columns = pass_panel_op(p, IR_OP_MUL, strips, pass_panel_number(p, width));
  ir_expr *end = pass_panel_op(p, IR_OP_ADD, p->col_lo, columns), *col_hi = p->col_hi;
  p->col_hi = pass_panel_let(p, "end", pass_panel_op(p, IR_OP_MIN, end, p->t->col->hi));
  if (p->t->few)
    write_few(p, p->col_hi, p->t->shape);
  else
    pass_panel_few(p, k_lo, k_hi);
  p->width = width;
  p->col_hi = col_hi;
  ir_close(p->t->b, outer);
}

static bool reads_narrow_columns(const panel *p, const ir_expr *e) {
  if (!e) return false;
  if (e->kind == IR_LOAD && ir_dtype_bytes(e->dtype) < 4 && pass_vec_deps(p->t->g, e) == VEC_COL)
    return true;
  for (int i = 0; i < e->arg_count; i++)
    if (reads_narrow_columns(p, e->args[i])) return true;
  return false;
}

/* From how many rows on packing pays. */
static int64_t least_rows(const panel *p) {
  bool narrow = false;
  for (int i = 0; i < p->k->body.codes.count; i++)
    narrow = narrow || reads_narrow_columns(p, p->k->body.codes.at[i]->value);
  return !p->t->few ? PANEL_FEWEST_ROWS : narrow ? PANEL_SCATTERED_ROWS : PANEL_FEW_ROWS;
}

static bool always_many(const panel *p) {
  int64_t least = p->t->few ? least_rows(p) : PANEL_FEW_ROWS;
  return pass_vec_trips(p->t->row, 0) >= least;
}

/* Every strip is packed once a block of rows; with up to PANEL_MOST_ROWS rows there is one block.
 */
static void write_parallel(panel *p, ir_expr *k_lo, ir_expr *k_hi) {
  ir_block *outer, *branch;
  ir_builder *b = p->t->b;
  ir_expr *parts = pass_panel_op(p, IR_OP_MUL, blocks_of(p), strips_of(p));
  ir_expr *part =
      pass_panel_ref(p, ir_open_for(b, ir_format_text(p->a, "part_%d", b->func->vars.count),
                                    pass_panel_number(p, 0), parts, IR_RUN_PARALLEL, &outer));
  ir_expr *strips = pass_panel_let(p, "strips", strips_of(p)),
          *rows = pass_panel_let(p, "rows", rows_a_block(p));
  ir_expr *strip = pass_panel_let(p, "strip", pass_panel_op(p, IR_OP_MOD, part, strips));
  ir_expr *first = pass_panel_op(p, IR_OP_MUL, pass_panel_op(p, IR_OP_DIV, part, strips), rows);
  p->row_lo = pass_panel_let(p, "first", pass_panel_op(p, IR_OP_ADD, p->t->row->lo, first));
  p->row_hi = pass_panel_let(
      p, "end",
      pass_panel_op(p, IR_OP_MIN, pass_panel_op(p, IR_OP_ADD, p->row_lo, rows), p->t->row->hi));
  set_columns(p, strip);
  if (always_many(p)) {
    pass_panel_strip(p, k_lo, k_hi);
  } else {
    ir_code *test = ir_open_if(
        b, pass_panel_op(p, IR_OP_LT, rows_of(p), pass_panel_number(p, least_rows(p))), &branch);
    write_few_strips(p, strip, k_lo, k_hi);
    ir_open_else(b, test);
    pass_panel_strip(p, k_lo, k_hi);
    ir_close(b, branch);
  }
  ir_close(b, outer);
}

static void write_strips(panel *p, ir_expr *k_lo, ir_expr *k_hi) {
  ir_block *outer;
  ir_expr *lo = p->t->col->lo, *hi = p->t->col->hi;
  p->col_lo = pass_panel_ref(
      p, pass_vec_open(p->t->b, p->t->col, lo, hi, p->width, IR_RUN_SEQUENTIAL, &outer));
  p->col_hi = pass_panel_end(p, p->t->col, p->col_lo, p->width, hi);
  pass_panel_strip(p, k_lo, k_hi);
  ir_close(p->t->b, outer);
}

/* Rows first .. end of a loop that is not parallel. */
static void write_sequential(panel *p, ir_expr *k_lo, ir_expr *k_hi) {
  ir_block *branch;
  if (always_many(p)) {
    write_strips(p, k_lo, k_hi);
    return;
  }
  ir_expr *rows = pass_panel_op(p, IR_OP_SUB, p->row_hi, p->row_lo);
  ir_code *test =
      ir_open_if(p->t->b,
                 pass_panel_op(p, IR_OP_LT, rows,
                               pass_panel_number(p, p->t->few ? least_rows(p) : PANEL_FEW_ROWS)),
                 &branch);
  p->col_lo = p->t->col->lo;
  vec_shape shape = p->t->shape;
  if (shape.rows > 4) shape.rows = 4;
  write_few(p, p->t->col->hi, shape);
  ir_open_else(p->t->b, test);
  write_strips(p, k_lo, k_hi);
  ir_close(p->t->b, branch);
}

static void write_blocks(panel *p, ir_expr *k_lo, ir_expr *k_hi) {
  ir_block *outer;
  const ir_code *row = p->t->row;
  p->row_lo =
      pass_panel_ref(p, pass_vec_open(p->t->b, row, row->lo, row->hi, p->rows, row->run, &outer));
  ir_expr *end = pass_panel_op(p, IR_OP_ADD, p->row_lo, pass_panel_number(p, p->rows));
  p->row_hi = pass_panel_let(p, "end", pass_panel_op(p, IR_OP_MIN, end, row->hi));
  write_sequential(p, k_lo, k_hi);
  ir_close(p->t->b, outer);
}

/* Rows that are converted on the way in take room of their own. */
static bool packs_rows(const panel *p, const ir_expr *e) {
  if (!e) return false;
  if (pass_vec_deps(p->t->g, e) == VEC_ROW && e->kind == IR_CAST && pass_panel_runs_along_k(p, e))
    return true;
  for (int i = 0; i < e->arg_count; i++)
    if (packs_rows(p, e->args[i])) return true;
  return false;
}

/* What columns alone read is consecutive along k. */
static bool turns(const panel *p, const ir_expr *e) {
  if (!e) return true;
  if (e->kind == IR_LOAD && pass_vec_deps(p->t->g, e) == VEC_COL)
    return pass_panel_runs_along_k(p, e);
  for (int i = 0; i < e->arg_count; i++)
    if (!turns(p, e->args[i])) return false;
  return true;
}

static int64_t most_rows(const panel *p) {
  bool converted = false;
  for (int i = 0; i < p->k->body.codes.count; i++)
    converted = converted || packs_rows(p, p->k->body.codes.at[i]->value);
  int64_t tile = p->t->shape.rows;
  return (converted ? PANEL_MOST_PACKED_ROWS : PANEL_MOST_ROWS) / tile * tile;
}

bool pass_vec_panel_turns(vec_tile *t) {
  panel p = {.t = t, .a = t->b->arena};
  if (!pass_panel_suits(&p)) return false;
  for (int i = 0; i < p.k->body.codes.count; i++)
    if (!turns(&p, p.k->body.codes.at[i]->value)) return false;
  return true;
}

bool pass_vec_panel(vec_tile *t) {
  panel p = {.t = t, .a = t->b->arena};
  if (!pass_panel_suits(&p)) return false;
  int64_t most = pass_vec_most_trips(t->row), tile = t->shape.rows;
  p.width = (int64_t)t->shape.cols * t->shape.lanes;
  p.rows = most_rows(&p);
  if (t->row->run == IR_RUN_PARALLEL) {
    write_parallel(&p, p.k->lo, p.k->hi);
  } else if (most >= 0 && most <= p.rows) {
    p.rows = (most + tile - 1) / tile * tile;
    p.row_lo = pass_panel_let(&p, "first", t->row->lo);
    p.row_hi = pass_panel_let(&p, "end", t->row->hi);
    write_sequential(&p, pass_panel_let(&p, "first", p.k->lo), pass_panel_let(&p, "last", p.k->hi));
  } else {
    write_blocks(&p, pass_panel_let(&p, "first", p.k->lo), pass_panel_let(&p, "last", p.k->hi));
  }
  return true;
}
