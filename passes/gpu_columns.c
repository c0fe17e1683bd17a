/* gpu_columns.c - a row of stored entries times consecutive columns, which all of them meet: the work of a warp.
 *
 * A warp takes one row and some columns: lanes stand on consecutive ones, and each lane has several, 32 apart, so that an entry's
 * coordinate and value are read once for all of them and loads are whole lines:
 *
 *     for i parallel { for n { acc = 0;                    for point thread { let lane, i, chunk
 *       for p { acc += A.vals[p]*B[crd[p]*N + n] }    ->     let n = chunk*128 + lane
 *       C[i*N + n] = acc } }                                 4 x acc; for p { 4 x acc += .. }; 4 x C = acc }
 *
 * Sums keep their order: one thread adds up an element. */
#include "passes/gpu_map.h"
#include "passes/gpu_walk.h"
#include "passes/vectorise.h"

enum { WARP = 32 };

static ir_expr *number(const gpu_walk *m, int64_t n) { return ir_int(m->arena, n); }

static ir_expr *apply(const gpu_walk *m, ir_op op, ir_expr *x, ir_expr *y) {
  return ir_apply(m->arena, op, x, y);
}

/* ---- what is of this kind ----------------------------------------------------------------------- */
/* Loads inside loops whose length is data: along the columns, across them, at all. */
typedef struct walk_loads {
  const vec_region *g;
  int along, across, walks, bits;
} walk_loads;

static void count_loads(walk_loads *w, const ir_expr *e) {
  int64_t stride;
  if (e->kind == IR_LOAD && pass_vec_deps(w->g, e->args[0]) & VEC_COL) {
    bool along = pass_vec_stride(w->g, e->args[0], &stride) && stride == 1;
    w->along += along;
    w->across += !along;
    if (along) w->bits = ir_dtype_rows[e->buf->dtype].bits;
  }
  for (int i = 0; i < e->arg_count; i++) count_loads(w, e->args[i]);
}

static void look_at(walk_loads *w, const ir_block *block, bool inside) {
  for (int i = 0; i < block->codes.count; i++) {
    const ir_code *c = block->codes.at[i];
    bool walk = c->kind == IR_FOR && (pass_vec_reads(c->lo) || pass_vec_reads(c->hi));
    w->walks += walk;
    if (inside && c->value) count_loads(w, c->value);
    look_at(w, &c->body, inside || c->kind == IR_FOR);
    look_at(w, &c->orelse, inside);
  }
}

static const ir_block *innermost(const gpu_walk *m) { return &m->loops[m->count - 1]->body; }

/* The loop of the nest along which the other operand lies; -1: none, or its iterations differ. */
static int columns_of(const gpu_walk *m, walk_loads *found) {
  for (int i = m->count - 1; i >= 0 && m->count > 1; i--) {
    vec_region *g = pass_vec_region(m->arena, NULL, m->loops[i]->var, NULL, innermost(m));
    *found = (walk_loads){.g = g};
    look_at(found, innermost(m), false);
    bool starts = m->loops[i]->lo->kind == IR_CONST && m->loops[i]->lo->i == 0;
    if (starts && found->walks && found->along && !found->across &&
        pass_vec_legal(g, innermost(m), false, false) && !pass_vec_branches(g, innermost(m)))
      return i;
  }
  return -1;
}

/* How many columns a lane has: as many as fill it, and no more registers than leave room for others. */
static int columns_a_lane(const gpu_walk *m, const ir_code *loop, int bits) {
  double size = pass_size_assumed(m->context, loop->hi);
  int most = bits < 32 ? 8 : 4;
  while (most > 1 && size < most * WARP) most /= 2;
  return most;
}

static void write_columns(const gpu_walk *m, ir_builder *b, const vec_region *g, ir_expr *at, int cols) {
  vec_copier k = {.g = g, .b = b, .arena = m->arena, .rows = 1, .cols = cols, .lanes = 1,
                  .apart = WARP, .only_row = -1, .col_at = at};
  pass_vec_block(&k, innermost(m), NULL);
}

/* Entries of a sum one after the other: a thread has several under way, coordinates and values first, then what they meet. */
static void take_several(const gpu_walk *m, const ir_block *block, int cols) {
  const int most = 8, registers = 32; /* of elements that entries meet */
  for (int i = 0; i < block->codes.count; i++) {
    ir_code *c = block->codes.at[i];
    ir_loop_sums sums;
    if (c->kind == IR_FOR && c->run == IR_RUN_SEQUENTIAL && gpu_steps_by_one(c) && !gpu_is_size(c->hi) && gpu_is_leaf(&c->body) &&
        ir_loop_sums_of(m->arena, c, false, &sums) && sums.at.count) {
      c->run = IR_RUN_UNROLL;
      c->width = registers / cols < most ? registers / cols : most;
    }
    take_several(m, &c->body, cols);
    take_several(m, &c->orelse, cols);
  }
}

bool gpu_map_columns(const gpu_walk *m) {
  walk_loads found;
  int at = columns_of(m, &found);
  if (at < 0 || pass_size_assumed(m->context, m->loops[at]->hi) < WARP) return false;
  int cols = columns_a_lane(m, m->loops[at], found.bits);
  ir_expr *extent = m->loops[at]->hi, *rows = gpu_size_of_nest(m, at), *warp = number(m, WARP);
  ir_expr *chunks = ir_ceil_div(m->arena, extent, cols * WARP);
  ir_block body = {{NULL, 0, 0}}, *outer;
  ir_builder b;
  ir_expr *count = apply(m, IR_OP_MUL, apply(m, IR_OP_MUL, rows, chunks), warp);
  ir_expr *point = gpu_open_points(m, &b, &body, count);
  ir_expr *lane = ir_var_ref(m->arena, ir_let(&b, "lane", IR_I64, apply(m, IR_OP_MOD, point, warp)));
  ir_expr *row = ir_var_ref(m->arena, ir_let(&b, "row", IR_I64, apply(m, IR_OP_DIV, point, warp)));
  ir_expr *chunk = apply(m, IR_OP_MUL, apply(m, IR_OP_DIV, row, rows), number(m, cols * WARP));
  ir_expr *first =
      ir_var_ref(m->arena, ir_let(&b, "column", IR_I64, apply(m, IR_OP_ADD, chunk, lane)));
  gpu_bind_nest(m, b.block, apply(m, IR_OP_MOD, row, rows), at);
  ir_expr *last = apply(m, IR_OP_ADD, first, number(m, (cols - 1) * WARP));
  ir_code *test = ir_open_if(&b, apply(m, IR_OP_LT, last, extent), &outer);
  write_columns(m, &b, found.g, first, cols);
  ir_open_else(&b, test);
  ir_block *edge;
  ir_var *one = ir_open_for(&b, "edge", first, extent, IR_RUN_SEQUENTIAL, &edge);
  edge->codes.at[edge->codes.count - 1]->step = warp;
  write_columns(m, &b, found.g, ir_var_ref(m->arena, one), 1);
  ir_close(&b, edge);
  ir_close(&b, outer);
  take_several(m, &body, cols);
  m->outer->body = body;
  return true;
}
