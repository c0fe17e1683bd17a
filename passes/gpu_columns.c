/* gpu_columns.c - a row of stored entries times consecutive columns, which all of them meet: the work of a warp, or of a block.
 *
 * A warp takes one row and some columns: lanes stand on consecutive ones, and each lane has several, 32 apart, so that an entry's
 * coordinate and value are read once for all of them and loads are whole lines:
 *
 *     for i parallel { for n { acc = 0                     for point thread { let lane, i, chunk
 *       for p { acc += A.vals[p]*B[crd[p]*N + n] }    ->     let n = chunk*128 + lane
 *       C[i*N + n] = acc } }                                 4 x acc; for p { 4 x acc += .. }; 4 x C = acc }
 *
 * A row may hold any number of entries.  Where more than LONG are possible, a block has a row for each of its warps, and takes the
 * long ones first, by all of its warps together:
 *
 *     columns 32 for point { let lane, chunk, first        the rows first .. first + 8
 *       if entries of all > LONG { shares 8 for share { let row = first + share; any_long |= entries > LONG } }
 *       if any_long { for row in them { if entries > LONG {
 *         4 x acc; shares 8 for share { for p in its eighth of the row { 4 x acc += .. } }; 4 x C = acc } } }
 *       shares 8 for share { let row = first + share; if entries <= LONG { as above } } }
 *
 * (Last of all stands what is mostly done: nothing but its own has to be kept in registers meanwhile.)
 *
 * One thread adds up an element of a short row, in the order of the entries; of a long one eight do, and theirs are added along a
 * tree.  So an element's bits depend on its own row alone. */
#include "passes/gpu_map.h"
#include "passes/gpu_walk.h"
#include "passes/vectorise.h"

enum { WARP = 32, SHARES = 8, LONG = 1024 /* entries of a row that one warp takes at most */ };

typedef struct column_map {
  const gpu_walk *m;
  const ir_block *before; /* names of a row's, ahead of its columns: what dcsr has */
  int at, cols;           /* of the nest: the loop over columns; of a lane: columns */
  ir_expr *extent, *rows; /* how many columns there are, how many rows */
  const ir_code *walk;    /* over a row's entries; NULL: one warp takes them, however many they are */
} column_map;

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

/* for p { let i = crd[p]; for n { .. } }: the loop over columns, where all else names the row; NULL: it is something else. */
static ir_code *columns_behind_names(const ir_code *outer) {
  int count = outer->body.codes.count;
  ir_code *last = count ? outer->body.codes.at[count - 1] : NULL;
  for (int i = 0; i + 1 < count; i++)
    if (outer->body.codes.at[i]->kind != IR_LET && outer->body.codes.at[i]->kind != IR_COMMENT) return NULL;
  return last && last->kind == IR_FOR && gpu_starts_at_zero(last) && gpu_is_size(last->hi) && gpu_is_independent(last) ? last : NULL;
}

static bool uses_names(const ir_expr *e, const ir_block *block) {
  for (int i = 0; i < block->codes.count; i++)
    if (block->codes.at[i]->var && ir_expr_uses_var(e, block->codes.at[i]->var)) return true;
  return false;
}

/* The walk over a row's entries, where that is the row's only loop and can be long, and what it sums can be summed apart. */
static const ir_code *long_walk(const column_map *c) {
  const gpu_walk *m = c->m;
  gpu_rows r = {.context = m->context, .func = m->func, .block = &m->loops[m->count - 1]->body};
  ir_loop_sums sums;
  int at;
  int64_t bound;
  const ir_code *walk = gpu_only_sum(&r, &at, &sums);
  if (!walk || !sums.at.count || walk->run != IR_RUN_SEQUENTIAL || !gpu_steps_by_one(walk)) return NULL;
  for (int i = 0; i < sums.at.count; i++)
    if (sums.at.at[i].best) return NULL;
  const ir_expr *const ends[] = {walk->lo, walk->hi};
  for (int i = 0; i < IR_COUNT(ends); i++)
    if (!pass_vec_reads(ends[i]) || uses_names(ends[i], r.block) || uses_names(ends[i], c->before)) return NULL;
  const ir_expr *places = gpu_places(&r, walk);
  return places && ir_size_bound(places, &bound) && bound <= LONG ? NULL : walk;
}

/* ---- writing ------------------------------------------------------------------------------------ */
static ir_expr *ref(const column_map *c, ir_var *var) { return ir_var_ref(c->m->arena, var); }

static ir_expr *let(const column_map *c, ir_builder *b, const char *name, ir_expr *value) {
  return ref(c, ir_let(b, name, IR_I64, value));
}

/* A row's code for the columns from `first` on, 32 apart. */
static void write_columns(const column_map *c, ir_builder *b, const ir_block *row, ir_expr *first, int cols) {
  const vec_region *g = pass_vec_region(c->m->arena, NULL, c->m->loops[c->at]->var, NULL, row);
  vec_copier k = {.g = g, .b = b, .arena = c->m->arena, .rows = 1, .cols = cols, .lanes = 1,
                  .apart = WARP, .only_row = -1, .col_at = first};
  pass_vec_block(&k, row, NULL);
}

/* By one warp: the last columns of all go one by one. */
static void write_row(const column_map *c, ir_builder *b, const ir_block *row, ir_expr *first) {
  const gpu_walk *m = c->m;
  ir_block *outer, *edge;
  ir_expr *last = apply(m, IR_OP_ADD, first, number(m, (c->cols - 1) * WARP));
  ir_code *test = ir_open_if(b, apply(m, IR_OP_LT, last, c->extent), &outer);
  write_columns(c, b, row, first, c->cols);
  ir_open_else(b, test);
  ir_var *one = ir_open_for(b, "edge", first, c->extent, IR_RUN_SEQUENTIAL, &edge);
  edge->codes.at[edge->codes.count - 1]->step = number(m, WARP);
  write_columns(c, b, row, ref(c, one), 1);
  ir_close(b, edge);
  ir_close(b, outer);
}

static void push(const column_map *c, ir_block *to, const ir_block *from) {
  for (int i = 0; i < from->codes.count; i++) IR_PUSH(c->m->arena, &to->codes, from->codes.at[i]);
}

/* What a row is, by its number among all of them. */
static void name_row(const column_map *c, ir_block *block, ir_expr *row) {
  gpu_bind_nest(c->m, block, row, c->at);
  push(c, block, c->before);
}

static void write_rows(const column_map *c, ir_builder *b, ir_expr *point) {
  const gpu_walk *m = c->m;
  ir_expr *warp = number(m, WARP);
  ir_expr *lane = let(c, b, "lane", apply(m, IR_OP_MOD, point, warp)), *row = let(c, b, "row", apply(m, IR_OP_DIV, point, warp));
  ir_expr *chunk = apply(m, IR_OP_MUL, apply(m, IR_OP_DIV, row, c->rows), number(m, c->cols * WARP));
  ir_expr *first = let(c, b, "column", apply(m, IR_OP_ADD, chunk, lane));
  name_row(c, b->block, apply(m, IR_OP_MOD, row, c->rows));
  write_row(c, b, innermost(m), first);
}

/* ---- long rows ---------------------------------------------------------------------------------- */
/* What a block has: its rows, its first column, a lane's first one. */
typedef struct column_place {
  ir_expr *lane, *first, *chunk, *column;
} column_place;

static ir_block row_of(const column_map *c, ir_expr *row) {
  ir_block body = {{NULL, 0, 0}};
  name_row(c, &body, row);
  push(c, &body, innermost(c->m));
  return body;
}

static ir_expr *of_row(const column_map *c, ir_expr *end, ir_expr *row) {
  ir_block nest = {{NULL, 0, 0}};
  gpu_bind_nest(c->m, &nest, row, c->at);
  for (int i = 0; i < nest.codes.count; i++) end = gpu_with(c->m->arena, end, nest.codes.at[i]->var, nest.codes.at[i]->value);
  return end;
}

static ir_expr *entries_of(const column_map *c, ir_expr *row) {
  return of_row(c, apply(c->m, IR_OP_SUB, c->walk->hi, c->walk->lo), row);
}

/* Entries of a block's rows together, where each row's follow those of the row before; NULL: who knows. */
static ir_expr *entries_of_all(const column_map *c, ir_builder *b, const column_place *at) {
  const gpu_walk *m = c->m;
  ir_expr *one = number(m, 1), *behind = of_row(c, c->walk->lo, apply(m, IR_OP_ADD, at->first, one));
  if (!ir_expr_equal(behind, of_row(c, c->walk->hi, at->first))) return NULL;
  ir_expr *end = apply(m, IR_OP_MIN, c->rows, apply(m, IR_OP_ADD, at->first, number(m, SHARES)));
  return apply(m, IR_OP_SUB, of_row(c, c->walk->lo, let(c, b, "end", end)), of_row(c, c->walk->lo, at->first));
}

static ir_expr *open_shares(const column_map *c, ir_builder *b, ir_block **outer) {
  ir_expr *share = ref(c, ir_open_for(b, "share", number(c->m, 0), number(c->m, SHARES), IR_RUN_SHARES, outer));
  (*outer)->codes.at[(*outer)->codes.count - 1]->width = SHARES;
  return share;
}

/* for p = lo .. hi { .. }   ->   shares 8 for share { let from = lo + share*each; for p = from .. min(hi, from + each) { .. } } */
static void share_walk(const column_map *c, ir_builder *b, ir_code *walk, ir_expr *each) {
  const gpu_walk *m = c->m;
  ir_block *outer;
  ir_expr *from = let(c, b, "from", apply(m, IR_OP_ADD, walk->lo, apply(m, IR_OP_MUL, open_shares(c, b, &outer), each)));
  walk->lo = from;
  walk->hi = apply(m, IR_OP_MIN, walk->hi, apply(m, IR_OP_ADD, from, each));
  IR_PUSH(m->arena, &b->block->codes, walk);
  ir_close(b, outer);
}

static void store_inside(const column_map *c, const ir_block *block, ir_expr *inside) {
  for (int i = 0; i < block->codes.count; i++) {
    ir_code *code = block->codes.at[i];
    if (code->kind == IR_STORE) code->cond = pass_vec_and(c->m->arena, code->cond, inside);
    store_inside(c, &code->body, inside);
    store_inside(c, &code->orelse, inside);
  }
}

/* inside: the column is there, else the last one is taken for it and nothing is stored; NULL: all columns are. */
static void write_shares(const column_map *c, ir_builder *b, const ir_block *row, ir_expr *first, int cols, ir_expr *each, ir_expr *inside) {
  ir_block made = {{NULL, 0, 0}}, *outer = b->block;
  b->block = &made;
  write_columns(c, b, row, first, cols);
  b->block = outer;
  if (inside) store_inside(c, &made, inside);
  for (int i = 0; i < made.codes.count; i++) {
    ir_code *code = made.codes.at[i];
    if (code->kind == IR_FOR) share_walk(c, b, code, each);
    else IR_PUSH(c->m->arena, &outer->codes, code);
  }
}

/* By all warps of a block: what they meet at does not depend on the lane. */
static void write_long_row(const column_map *c, ir_builder *b, const ir_block *row, const column_place *at, ir_expr *each) {
  const gpu_walk *m = c->m;
  ir_block *outer, *edge;
  ir_expr *end = apply(m, IR_OP_ADD, at->chunk, number(m, c->cols * WARP));
  ir_code *test = ir_open_if(b, apply(m, IR_OP_LE, end, c->extent), &outer);
  write_shares(c, b, row, at->column, c->cols, each, NULL);
  ir_open_else(b, test);
  ir_var *some = ir_open_for(b, "edge", at->chunk, c->extent, IR_RUN_SEQUENTIAL, &edge);
  edge->codes.at[edge->codes.count - 1]->step = number(m, WARP);
  ir_expr *column = apply(m, IR_OP_ADD, ref(c, some), at->lane), *last = apply(m, IR_OP_SUB, c->extent, number(m, 1));
  ir_expr *nearest = let(c, b, "column", apply(m, IR_OP_MIN, column, last));
  write_shares(c, b, row, nearest, 1, each, apply(m, IR_OP_LT, column, c->extent));
  ir_close(b, edge);
  ir_close(b, outer);
}

/* Each share has a row, where there are so many. */
static ir_expr *open_own_row(const column_map *c, ir_builder *b, const column_place *at, ir_block **outer) {
  const gpu_walk *m = c->m;
  ir_block *inside;
  ir_expr *share = open_shares(c, b, outer);
  ir_expr *row = let(c, b, "row", apply(m, IR_OP_ADD, at->first, share));
  ir_open_if(b, apply(m, IR_OP_LT, row, c->rows), &inside);
  return row;
}

/* Mostly a block's rows together have not as many entries, and nobody meets to find out. */
static ir_expr *ask_for_long_rows(const column_map *c, ir_builder *b, const column_place *at) {
  const gpu_walk *m = c->m;
  ir_block *outer, *inner;
  ir_var *any = ir_let(b, "any_long", IR_B1, ir_const_i(m->arena, IR_B1, 0));
  ir_expr *all = entries_of_all(c, b, at);
  if (all) ir_open_if(b, apply(m, IR_OP_GT, all, number(m, LONG)), &outer);
  ir_expr *entries = entries_of(c, open_own_row(c, b, at, &inner));
  ir_set(b, any, apply(m, IR_OP_OR, ref(c, any), apply(m, IR_OP_GT, entries, number(m, LONG))));
  ir_close(b, inner);
  if (all) ir_close(b, outer);
  return ref(c, any);
}

static void write_long_rows(const column_map *c, ir_builder *b, const column_place *at) {
  const gpu_walk *m = c->m;
  ir_block *outer, *inner;
  ir_expr *end = apply(m, IR_OP_MIN, c->rows, apply(m, IR_OP_ADD, at->first, number(m, SHARES)));
  ir_expr *row = ref(c, ir_open_for(b, "row", at->first, end, IR_RUN_SEQUENTIAL, &outer));
  ir_expr *entries = let(c, b, "entries", entries_of(c, row));
  ir_open_if(b, apply(m, IR_OP_GT, entries, number(m, LONG)), &inner);
  ir_block code = row_of(c, row);
  write_long_row(c, b, &code, at, let(c, b, "each", ir_ceil_div(m->arena, entries, SHARES)));
  ir_close(b, outer);
}

static void write_short_rows(const column_map *c, ir_builder *b, const column_place *at) {
  ir_block *outer, *inner;
  ir_expr *row = open_own_row(c, b, at, &outer);
  ir_open_if(b, apply(c->m, IR_OP_LE, entries_of(c, row), number(c->m, LONG)), &inner);
  ir_block code = row_of(c, row);
  write_row(c, b, &code, at->column);
  ir_close(b, outer);
}

static void write_blocks(const column_map *c, ir_builder *b, ir_expr *point, ir_expr *blocks) {
  const gpu_walk *m = c->m;
  ir_block *outer;
  ir_expr *warp = number(m, WARP), *shares = number(m, SHARES);
  column_place at = {.lane = let(c, b, "lane", apply(m, IR_OP_MOD, point, warp))};
  ir_expr *block = let(c, b, "block", apply(m, IR_OP_DIV, point, warp));
  at.chunk = let(c, b, "chunk", apply(m, IR_OP_MUL, apply(m, IR_OP_DIV, block, blocks), number(m, c->cols * WARP)));
  at.column = let(c, b, "column", apply(m, IR_OP_ADD, at.chunk, at.lane));
  at.first = let(c, b, "first", apply(m, IR_OP_MUL, apply(m, IR_OP_MOD, block, blocks), shares));
  ir_open_if(b, ask_for_long_rows(c, b, &at), &outer);
  write_long_rows(c, b, &at);
  ir_close(b, outer);
  write_short_rows(c, b, &at);
}

/* ---- the rule ----------------------------------------------------------------------------------- */
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

static void say_so(const gpu_walk *m) {
  const char *why = m->stage->why;
  m->stage->why = ir_format_text(m->arena, "%s%srows of more than %d entries are shared by %d warps", why ? why : "", why ? "; " : "", LONG, SHARES);
}

static bool map_columns(const gpu_walk *m, const ir_block *before) {
  walk_loads found;
  int at = columns_of(m, &found);
  if (at < 0 || pass_size_assumed(m->context, m->loops[at]->hi) < WARP) return false;
  column_map c = {.m = m, .before = before, .at = at, .cols = columns_a_lane(m, m->loops[at], found.bits)};
  c.extent = m->loops[at]->hi, c.rows = gpu_size_of_nest(m, at), c.walk = long_walk(&c);
  ir_expr *chunks = ir_ceil_div(m->arena, c.extent, c.cols * WARP);
  ir_expr *warps = c.walk ? ir_ceil_div(m->arena, c.rows, SHARES) : c.rows; /* of each chunk; or blocks */
  ir_block body = {{NULL, 0, 0}};
  ir_builder b;
  ir_expr *point = gpu_open_points(m, &b, &body, apply(m, IR_OP_MUL, apply(m, IR_OP_MUL, warps, chunks), number(m, WARP)));
  if (c.walk) {
    m->outer->run = IR_RUN_COLUMNS;
    m->outer->width = WARP;
    write_blocks(&c, &b, point, warps);
    say_so(m);
  } else {
    write_rows(&c, &b, point);
  }
  take_several(m, &body, c.cols);
  m->outer->body = body;
  return true;
}

bool gpu_map_columns(const gpu_walk *m) {
  ir_block before = {{NULL, 0, 0}};
  if (map_columns(m, &before)) return true;
  ir_code *columns = m->count == 1 ? columns_behind_names(m->loops[0]) : NULL, *nest[] = {m->loops[0], columns};
  if (!columns) return false;
  for (int i = 0; i + 1 < m->loops[0]->body.codes.count; i++) IR_PUSH(m->arena, &before.codes, m->loops[0]->body.codes.at[i]);
  gpu_walk two = *m;
  two.loops = nest, two.count = IR_COUNT(nest);
  return map_columns(&two, &before);
}
