/* vectorise_panel.c - cache blocking of a product: operands packed in panels, sums kept in a tile.
 *
 *     for block of rows {
 *       for f0 step 64 {
 *         sums[row, f] = initial values
 *         for k0 step 256 {
 *           panel[k, f] = W[k0 + k, f0 + f]           consecutive, converted once
 *           sums[row, f] += x[row, k] * panel[k, f]   the register tile
 *         }
 *         the rest of the body reads sums[row, f]
 *       } }
 *
 * The panel is read by every row of the block, so packing it costs a few per cent, and what it
 * saves is most of the time of a large product: misses, conversions, and lines that evict each
 * other. The shape is that of Goto and van de Geijn, Anatomy of High-Performance Matrix
 * Multiplication (2008). */
#include "passes/vectorise_panel.h"

/* ---- whether the body has the form ----------------------------------------------------------- */
static bool uses_inside(const vec_region *g, const ir_expr *e) {
  if (e->kind == IR_VAR) {
    const vec_local *l = pass_vec_local(g, e->var);
    return e->var == g->row || e->var == g->col || (l && l->inside);
  }
  for (int i = 0; i < e->arg_count; i++)
    if (uses_inside(g, e->args[i])) return true;
  return false;
}

static bool add_sum(panel *p, const ir_var *var) {
  for (int i = 0; i < p->sum_count; i++)
    if (p->sums[i].let->var == var) return true;
  for (int i = 0; i < p->pre.codes.count; i++) {
    const ir_code *code = p->pre.codes.at[i];
    if (code->kind != IR_LET || code->var != var) continue;
    if (!code->value || p->sum_count == PANEL_MOST_SUMS) return false;
    p->sums[p->sum_count++] = (panel_sum){.let = code};
    return true;
  }
  return false;
}

static bool is_sum(const panel *p, const ir_var *var) {
  for (int i = 0; i < p->sum_count; i++)
    if (p->sums[i].let->var == var) return true;
  return false;
}

static int reads_of(const ir_expr *e, const ir_var *var) {
  int count = e && e->kind == IR_VAR && e->var == var;
  for (int i = 0; e && i < e->arg_count; i++) count += reads_of(e->args[i], var);
  return count;
}

/* A sum is read by its own assignment alone: what walks along k (a cursor into stored entries) is
 * no sum, and the loop over k cannot be cut into panels. */
static bool only_sums_are_carried(const panel *p) {
  for (int s = 0; s < p->sum_count; s++)
    for (int i = 0; i < p->k->body.codes.count; i++) {
      const ir_code *code = p->k->body.codes.at[i];
      bool own = code->kind == IR_SET && code->var == p->sums[s].let->var;
      if (reads_of(code->value, p->sums[s].let->var) != own) return false;
    }
  return true;
}

/* lets, one loop of lets and sums, then lets and stores */
static bool split_body(panel *p) {
  const ir_block *body = p->t->body;
  for (int i = 0; i < body->codes.count; i++) {
    ir_code *code = body->codes.at[i];
    if (code->kind == IR_FOR && !p->k)
      p->k = code;
    else if (code->kind == IR_LET || code->kind == IR_COMMENT || (code->kind == IR_STORE && p->k))
      IR_PUSH(p->a, p->k ? &p->post.codes : &p->pre.codes, code);
    else
      return false;
  }
  for (int i = 0; p->k && i < p->k->body.codes.count; i++) {
    const ir_code *code = p->k->body.codes.at[i];
    if (code->kind != IR_LET && code->kind != IR_SET && code->kind != IR_COMMENT) return false;
    if (code->kind == IR_SET && !add_sum(p, code->var) &&
        !pass_vec_local(p->t->g, code->var)->inside)
      return false;
  }
  return p->k && p->sum_count > 0 && only_sums_are_carried(p);
}

static bool steps_by_one(const ir_code *loop) {
  return !loop->step || (loop->step->kind == IR_CONST && loop->step->i == 1);
}

static bool packs_anything(panel *p) {
  for (int i = 0; i < p->k->body.codes.count; i++) {
    const ir_code *code = p->k->body.codes.at[i];
    if (code->kind == IR_SET && code->value &&
        pass_vec_deps(p->t->g, code->value) == (VEC_ROW | VEC_COL))
      return true;
  }
  return false;
}

bool pass_panel_suits(panel *p) {
  const vec_tile *t = p->t;
  if (!t->row || t->shape.lanes < 4 || t->shape.rows < 2 || !split_body(p)) return false;
  int64_t rows = pass_vec_most_trips(t->row), depth = pass_vec_trips(p->k, 1 << 20);
  if ((rows >= 0 && rows < 8) || depth < 64 || !steps_by_one(p->k)) return false;
  const ir_expr *const bounds[] = {t->col->lo, t->col->hi, p->k->lo, p->k->hi};
  for (int i = 0; i < IR_COUNT(bounds); i++)
    if (uses_inside(t->g, bounds[i])) return false;
  return packs_anything(p);
}

/* ---- what is packed -------------------------------------------------------------------------- */
/* e changes by one element with each k, and with no `let` of the loop. */
bool pass_panel_runs_along_k(const panel *p, const ir_expr *e) {
  vec_region *g = pass_vec_region(p->a, NULL, p->k->var, NULL, &p->k->body);
  int64_t stride;
  while (e->kind == IR_CAST) e = e->args[0];
  return e->kind == IR_LOAD && e->arg_count == 1 && pass_vec_stride(g, e->args[0], &stride) &&
         stride == 1;
}

static ir_buf *pack_of(panel *p, const ir_expr *e, bool by_row) {
  for (int i = 0; i < p->packed_count; i++)
    if (p->packed[i].by_row == by_row && ir_expr_equal(p->packed[i].e, e)) return p->packed[i].buf;
  if (p->packed_count == PANEL_MOST_PACKED) return NULL;
  int64_t count = PANEL_DEPTH * (by_row ? p->rows : p->width);
  ir_buf *buf = ir_local(p->t->b, by_row ? "rows" : "panel", e->dtype, count);
  p->packed[p->packed_count++] =
      (panel_packed){e, buf, by_row, !by_row && pass_panel_runs_along_k(p, e)};
  return buf;
}

static ir_expr *place(panel *p, ir_expr *major, int64_t width, ir_expr *minor) {
  return pass_panel_op(p, IR_OP_ADD,
                       pass_panel_op(p, IR_OP_MUL, major, pass_panel_number(p, width)), minor);
}
static ir_expr *row_in(panel *p) {
  return pass_panel_op(p, IR_OP_SUB, pass_panel_ref(p, p->t->row->var), p->row_lo);
}
static ir_expr *slot_in(panel *p) {
  return pass_panel_op(p, IR_OP_SUB, pass_panel_ref(p, p->slot ? p->slot : p->t->row->var),
                       p->row_lo);
}
static ir_expr *col_in(panel *p) {
  return pass_panel_op(p, IR_OP_SUB, pass_panel_ref(p, p->t->col->var), p->col_lo);
}
static ir_expr *k_in(panel *p) {
  return pass_panel_op(p, IR_OP_SUB, pass_panel_ref(p, p->k->var), p->k_lo);
}

static ir_expr *panel_place(panel *p, bool by_row) {
  return by_row ? place(p, row_in(p), PANEL_DEPTH, k_in(p))
                : place(p, k_in(p), p->width, col_in(p));
}

/* e with its largest parts that only the columns (or only the rows) change read from panels. */
static ir_expr *from_panels(panel *p, ir_expr *e) {
  unsigned deps = pass_vec_deps(p->t->g, e);
  bool column = deps == VEC_COL && e->kind != IR_VAR && pass_vec_reads(e);
  bool row = deps == VEC_ROW && e->kind == IR_CAST && pass_panel_runs_along_k(p, e);
  ir_buf *buf = column || row ? pack_of(p, e, row) : NULL;
  if (buf) return ir_load(p->a, buf, panel_place(p, row));
  if (!e->arg_count || e->kind == IR_LOAD) return e;
  ir_expr **args = IR_NEW_ARRAY(p->a, ir_expr *, e->arg_count);
  for (int i = 0; i < e->arg_count; i++) args[i] = from_panels(p, e->args[i]);
  return ir_copy_with(p->a, e, args);
}

/* ---- templates: the bodies of the parts ------------------------------------------------------ */
static ir_code *put(panel *p, ir_block *block, ir_code code) {
  ir_code *made = IR_NEW(p->a, ir_code);
  *made = code;
  IR_PUSH(p->a, &block->codes, made);
  return made;
}

static void put_store(panel *p, ir_block *block, ir_buf *buf, ir_expr *offset, ir_expr *value) {
  put(p, block,
      (ir_code){
          .kind = IR_STORE, .buf = buf, .offset = offset, .value = value, .combine = IR_OP_COUNT});
}

/* lets that are not sums; without rows only those that do not need one */
static void put_lets(panel *p, ir_block *block, const ir_block *from, bool rows) {
  for (int i = 0; i < from->codes.count; i++) {
    ir_code *code = from->codes.at[i];
    if (code->kind != IR_LET || is_sum(p, code->var)) continue;
    if (rows || !(pass_vec_local(p->t->g, code->var)->deps & VEC_ROW))
      IR_PUSH(p->a, &block->codes, code);
  }
}

static ir_expr *sum_place(panel *p) { return place(p, slot_in(p), p->width, col_in(p)); }

static void put_sums(panel *p, ir_block *block, bool initial) {
  for (int i = 0; i < p->sum_count; i++) {
    const ir_code *code = p->sums[i].let;
    ir_expr *value = initial ? code->value : ir_load(p->a, p->sums[i].buf, sum_place(p));
    put(p, block,
        (ir_code){.kind = IR_LET, .var = code->var, .value = value, .combine = IR_OP_COUNT});
  }
}

static void put_sum_stores(panel *p, ir_block *block) {
  for (int i = 0; i < p->sum_count; i++)
    put_store(p, block, p->sums[i].buf, sum_place(p), pass_panel_ref(p, p->sums[i].let->var));
}

static ir_code *put_k(panel *p, ir_block *block) {
  ir_code loop = *p->k;
  loop.lo = p->k_lo;
  loop.hi = p->k_hi;
  loop.body = (ir_block){0};
  return put(p, block, loop);
}

/* ---- parts ----------------------------------------------------------------------------------- */
ir_code pass_panel_limited(const ir_code *loop, ir_expr *lo, ir_expr *hi) {
  ir_code copy = *loop;
  copy.run = IR_RUN_SEQUENTIAL;
  copy.lo = lo;
  copy.hi = hi;
  return copy;
}

/* Strips are as wide as a tile: parts begin with one and end with one, or with the last column. */
static bool are_even(const panel *p, vec_shape shape) {
  return pass_vec_divides(p->t->col, (int64_t)shape.cols * shape.lanes) &&
         p->t->shape.cols % shape.cols == 0 && p->t->shape.lanes % shape.lanes == 0;
}

/* rows: of the part, NULL: none */
static void write_part(panel *p, const ir_block *before, const ir_block *body, const ir_code *rows,
                       const ir_code *col, vec_shape shape, bool whole) {
  vec_tile part = {.b = p->t->b,
                   .row = rows,
                   .col = col,
                   .before = before,
                   .body = body,
                   .shape = shape,
                   .whole = whole,
                   .even = col->var == p->t->col->var && are_even(p, shape)};
  part.g = pass_vec_region(p->a, rows ? rows->var : NULL, col->var, before, body);
  pass_vec_tile(&part);
}

static void write_columns(panel *p, const ir_block *body, bool rows, int row_copies) {
  vec_shape shape = p->t->shape;
  ir_block before = {0};
  shape.rows = row_copies;
  if (p->t->before) put_lets(p, &before, p->t->before, rows);
  ir_code row = pass_panel_limited(p->t->row, p->row_lo, p->row_hi),
          col = pass_panel_limited(p->t->col, p->col_lo, p->col_hi);
  write_part(p, &before, body, rows ? &row : NULL, &col, shape, false);
}

/* ---- asking for lines before they are used --------------------------------------------------- */
static const ir_code *let_in(const ir_block *block, const ir_var *var) {
  for (int i = 0; i < block->codes.count; i++)
    if (block->codes.at[i]->kind == IR_LET && block->codes.at[i]->var == var)
      return block->codes.at[i];
  return NULL;
}

/* e with `at` in place of var, written without the names that the block gives. */
static ir_expr *with_var(panel *p, const ir_expr *e, const ir_var *var, ir_expr *at,
                         const ir_block *names) {
  if (e->kind == IR_VAR && e->var == var) return at;
  const ir_code *let = e->kind == IR_VAR && names ? let_in(names, e->var) : NULL;
  if (let) return with_var(p, let->value, var, at, names);
  ir_expr **args = IR_NEW_ARRAY(p->a, ir_expr *, e->arg_count + 1);
  for (int i = 0; i < e->arg_count; i++) args[i] = with_var(p, e->args[i], var, at, names);
  return e->arg_count ? ir_copy_with(p->a, e, args) : (ir_expr *)e;
}

static ir_expr *later(panel *p, const ir_var *var) {
  return pass_panel_op(p, IR_OP_ADD, pass_panel_ref(p, var), pass_panel_number(p, PANEL_AHEAD));
}

/* Lines of the result, which lie a row apart: a store waits for those before it to have theirs.  A
 * few rows' are asked for before their sums are made, those of many while the rows before them are
 * written. */
static bool asks_early(const panel *p) { return p->rows <= PANEL_EARLY_ROWS; }

static void put_result_ahead(panel *p, ir_block *block) {
  const ir_var *row = p->t->row->var;
  ir_expr *at = asks_early(p) ? pass_panel_ref(p, row) : later(p, row);
  for (int i = 0; i < p->post.codes.count; i++) {
    const ir_code *code = p->post.codes.at[i];
    bool rows = code->kind == IR_STORE && code->buf->kind != IR_BUF_LOCAL &&
                pass_vec_deps(p->t->g, code->offset) == (VEC_ROW | VEC_COL);
    ir_expr *offset = rows ? with_var(p, code->offset, row, at, p->t->before) : NULL;
    if (offset && !pass_vec_reads(offset))
      put(p, block,
          (ir_code){
              .kind = IR_PREFETCH, .buf = code->buf, .offset = offset, .combine = IR_OP_COUNT});
  }
}

/* ---- in order -------------------------------------------------------------------------------- */
static void write_initial(panel *p) {
  ir_block body = {0};
  put_lets(p, &body, &p->pre, true);
  if (asks_early(p)) put_result_ahead(p, &body);
  put_sums(p, &body, true);
  put_sum_stores(p, &body);
  write_columns(p, &body, true, 1);
}

/* Along k: vectors of what is consecutive, one row or column after the other. */
static void write_packing_along(panel *p, const panel_packed *one, ir_expr *lo, ir_expr *hi) {
  ir_block body = {0}, before = {0};
  put_store(p, &body, one->buf, panel_place(p, one->by_row), (ir_expr *)one->e);
  if (p->t->before) put_lets(p, &before, p->t->before, one->by_row);
  ir_code line = one->by_row ? pass_panel_limited(p->t->row, p->row_lo, p->row_hi)
                             : pass_panel_limited(p->t->col, p->col_lo, p->col_hi),
          k = pass_panel_limited(p->k, lo, hi);
  write_part(p, &before, &body, &line, &k, (vec_shape){1, 4, p->t->shape.lanes}, false);
}

/* Columns become rows, some steps of k at a time, so that lines stay in the first cache.  Elements
 * that a gather takes come from eight columns at each k (more would share too few sets of that
 * cache where columns are a power of two apart); others are converted along k and scattered. */
static void write_turning(panel *p, const panel_packed *one) {
  ir_block *outer, body = {0}, before = {0};
  ir_expr *from = pass_panel_ref(
      p, pass_vec_open(p->t->b, p->k, p->k_lo, p->k_hi, PANEL_TURN, IR_RUN_SEQUENTIAL, &outer));
  ir_expr *to = pass_panel_end(p, p->k, from, PANEL_TURN, p->k_hi);
  if (one->e->kind == IR_LOAD && ir_dtype_bytes(one->e->dtype) >= 4) {
    put_lets(p, &body, &p->pre, false);
    ir_code *loop = put_k(p, &body);
    loop->lo = from;
    loop->hi = to;
    put_lets(p, &loop->body, &p->k->body, false);
    put_store(p, &loop->body, one->buf, panel_place(p, false), (ir_expr *)one->e);
    if (p->t->before) put_lets(p, &before, p->t->before, false);
    ir_code col = pass_panel_limited(p->t->col, p->col_lo, p->col_hi);
    write_part(p, &before, &body, NULL, &col, (vec_shape){1, 1, PANEL_TURN_COLUMNS}, false);
  } else {
    write_packing_along(p, one, from, to);
  }
  ir_close(p->t->b, outer);
}

/* Rows that a list names are nothing that a core asks for by itself. */
static void put_ahead(panel *p, ir_block *block, const ir_expr *e) {
  if (e->kind == IR_LOAD) {
    ir_expr *last = pass_panel_op(p, IR_OP_SUB, p->k_hi, pass_panel_number(p, 1));
    ir_expr *at = pass_panel_op(p, IR_OP_MIN, later(p, p->k->var), last); /* an entry of the list */
    ir_expr *offset = with_var(p, e->args[0], p->k->var, at, &p->k->body);
    if (pass_vec_deps(p->t->g, e) == VEC_COL && pass_vec_reads(offset))
      put(p, block,
          (ir_code){.kind = IR_PREFETCH, .buf = e->buf, .offset = offset, .combine = IR_OP_COUNT});
    return;
  }
  for (int i = 0; i < e->arg_count; i++) put_ahead(p, block, e->args[i]);
}

static void write_packing(panel *p, const panel_packed *one) {
  ir_block body = {0};
  if (one->turned) {
    write_turning(p, one);
    return;
  }
  if (one->by_row) {
    write_packing_along(p, one, p->k_lo, p->k_hi);
    return;
  }
  put_lets(p, &body, &p->pre, false);
  ir_code *loop = put_k(p, &body);
  put_lets(p, &loop->body, &p->k->body, false);
  put_ahead(p, &loop->body, one->e);
  put_store(p, &loop->body, one->buf, panel_place(p, false), (ir_expr *)one->e);
  write_columns(p, &body, false, 1);
}

/* Whole tiles alone: places for sums go on behind the last row, which is read again for them. */
static void write_product(panel *p, const ir_block *steps) {
  ir_block body = {0}, before = {0};
  vec_tile *t = p->t;
  ir_var *slot = IR_NEW(p->a, ir_var);
  *slot = (ir_var){.name = ir_format_text(p->a, "%s_slot", t->row->var->name), .dtype = IR_I64};
  ir_expr *last = pass_panel_op(p, IR_OP_SUB, p->row_hi, pass_panel_number(p, 1));
  put(p, &before,
      (ir_code){.kind = IR_LET,
                .var = t->row->var,
                .value = pass_panel_op(p, IR_OP_MIN, pass_panel_ref(p, slot), last),
                .combine = IR_OP_COUNT});
  if (t->before) put_lets(p, &before, t->before, true);
  put_lets(p, &body, &p->pre, true);
  p->slot = slot;
  put_sums(p, &body, false);
  put_k(p, &body)->body = *steps;
  put_sum_stores(p, &body);
  p->slot = NULL;
  ir_code row = pass_panel_limited(t->row, p->row_lo, p->row_hi),
          col = pass_panel_limited(t->col, p->col_lo, p->col_hi);
  row.var = slot;
  write_part(p, &before, &body, &row, &col, t->shape, true);
}

static void write_rest(panel *p) {
  ir_block body = {0};
  put_lets(p, &body, &p->pre, true);
  if (!asks_early(p)) put_result_ahead(p, &body);
  put_sums(p, &body, false);
  for (int i = 0; i < p->post.codes.count; i++) IR_PUSH(p->a, &body.codes, p->post.codes.at[i]);
  write_columns(p, &body, true, 1);
}

/* A panel is read from the second cache: its lines are asked for some steps before. */
static void put_prefetches(panel *p, ir_block *steps) {
  for (int i = 0; i < p->packed_count; i++) {
    const panel_packed *one = &p->packed[i];
    if (one->by_row) continue;
    ir_expr *ahead = pass_panel_number(p, PANEL_AHEAD * p->width);
    put(p, steps,
        (ir_code){.kind = IR_PREFETCH,
                  .buf = one->buf,
                  .offset = pass_panel_op(p, IR_OP_ADD, panel_place(p, false), ahead),
                  .combine = IR_OP_COUNT});
  }
}

/* The loop's statements with panels in place of memory; declares the panels. */
static ir_block panel_steps(panel *p) {
  ir_block steps = {0};
  for (int i = 0; i < p->k->body.codes.count; i++) {
    ir_code code = *p->k->body.codes.at[i];
    if (code.value) code.value = from_panels(p, code.value);
    put(p, &steps, code);
  }
  put_prefetches(p, &steps);
  return steps;
}

ir_expr *pass_panel_end(panel *p, const ir_code *loop, ir_expr *from, int64_t step, ir_expr *hi) {
  if (pass_vec_divides(loop, step))
    return pass_panel_op(p, IR_OP_ADD, from, pass_panel_number(p, step));
  return pass_panel_let(p, "end",
                        pass_panel_op(p, IR_OP_MIN,
                                      pass_panel_op(p, IR_OP_ADD, from, pass_panel_number(p, step)),
                                      hi));
}

static void write_depths(panel *p, ir_expr *lo, ir_expr *hi) {
  ir_block *outer;
  p->k_lo = pass_panel_ref(
      p, pass_vec_open(p->t->b, p->k, lo, hi, PANEL_DEPTH, IR_RUN_SEQUENTIAL, &outer));
  p->k_hi = pass_panel_end(p, p->k, p->k_lo, PANEL_DEPTH, hi);
  ir_block steps = panel_steps(p);
  for (int i = 0; i < p->packed_count; i++) write_packing(p, &p->packed[i]);
  write_product(p, &steps);
  ir_close(p->t->b, outer);
}

/* The columns col_lo .. col_hi, one panel wide. */
void pass_panel_strip(panel *p, ir_expr *k_lo, ir_expr *k_hi) {
  for (int i = 0; i < p->sum_count; i++)
    p->sums[i].buf = ir_local(p->t->b, "sums", p->sums[i].let->var->dtype, p->rows * p->width);
  write_initial(p);
  write_depths(p, k_lo, k_hi);
  write_rest(p);
}

/* The same from memory, for the few rows that packing would not pay for: some steps of k at a time
 * over long pieces of their lines, so that memory is read as it lies.  The sums stay in the first
 * cache. */
void pass_panel_few(panel *p, ir_expr *k_lo, ir_expr *k_hi) {
  ir_block *outer, body = {0};
  for (int i = 0; i < p->sum_count; i++)
    p->sums[i].buf =
        ir_local(p->t->b, "sums", p->sums[i].let->var->dtype, PANEL_FEWEST_ROWS * p->width);
  write_initial(p);
  p->k_lo = pass_panel_ref(
      p, pass_vec_open(p->t->b, p->k, k_lo, k_hi, PANEL_FEW_STEPS, IR_RUN_SEQUENTIAL, &outer));
  p->k_hi = pass_panel_end(p, p->k, p->k_lo, PANEL_FEW_STEPS, k_hi);
  put_lets(p, &body, &p->pre, true);
  put_sums(p, &body, false);
  put_k(p, &body)->body = p->k->body;
  put_sum_stores(p, &body);
  write_columns(p, &body, true, 1);
  ir_close(p->t->b, outer);
  write_rest(p);
}
