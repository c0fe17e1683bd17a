/* vectorise.h - what the files of pass `vectorise` share: what is known about a loop nest, and the
 * copier that writes several iterations of it side by side.
 *
 * A region is the body of one loop, the columns (`col`), and perhaps of one around it, the rows
 * (`row`).  Every local of the body depends on none, one or both of the two. */
#ifndef SPC_PASSES_VECTORISE_H
#define SPC_PASSES_VECTORISE_H

#include "passes/pass.h"

enum { VEC_ROW = 1, VEC_COL = 2 };

typedef struct vec_local {
  const ir_var *var;
  ir_expr *value; /* of its one `let`; NULL for what is set, and for loop variables */
  unsigned deps;  /* VEC_ROW | VEC_COL */
  bool inside;    /* declared in the region */
  bool set;
} vec_local;

typedef struct vec_region {
  ir_arena *arena;
  const ir_var *row, *col; /* row may be NULL */
  vec_local *table;        /* by pointer; capacity is a power of two */
  int count, capacity;
  IR_VEC(const ir_code *) stores;
  IR_VEC(const ir_buf *) locals; /* declared in it */
  int64_t slots; /* vectors of columns begin with a multiple of it; 0: not known */
  int window;    /* most elements that one instruction picks from registers; 0: none */
} vec_region;

/* ---- vectorise_share.c ----------------------------------------------------------------------- */
/* Loops around what a thread computes together, which the parallel one has nothing but, become one with it. */
void pass_vec_share(ir_arena *arena, ir_func *func, int units);
/* 0 .. hi, one after the other, with hi a size. */
bool pass_vec_counts_all(const ir_code *loop);

/* ---- vectorise_lines.c ----------------------------------------------------------------------- */
/* A loop along which operands are consecutive, and the result is not, goes inside by lines. */
void pass_vec_lines(ir_arena *arena, ir_func *func);

/* ---- vectorise_depend.c ---------------------------------------------------------------------- */
/* before: the `let`s between the row loop and the column loop, may be NULL. */
vec_region *pass_vec_region(ir_arena *arena, const ir_var *row, const ir_var *col,
                            const ir_block *before, const ir_block *body);
const vec_local *pass_vec_local(const vec_region *g, const ir_var *var);
unsigned pass_vec_deps(const vec_region *g, const ir_expr *e);
/* e = base + stride * col for a constant stride; false when that is not known. */
bool pass_vec_stride(const vec_region *g, const ir_expr *e, int64_t *stride);
bool pass_vec_reads(const ir_expr *e); /* a load of memory outside the function */

/* Whether iterations over the columns (and rows, when there are) may run side by side; lanes: as
 * vectors.  `reduction`: locals from outside may be accumulated. */
bool pass_vec_legal(const vec_region *g, const ir_block *body, bool lanes, bool reduction);
/* Work of one iteration of the columns when `lanes` of them are done at once, loops weighted. */
double pass_vec_cost(const vec_region *g, const ir_block *body, int lanes);
int64_t pass_vec_trips(const ir_code *loop,
                       int64_t otherwise);                /* constant trip count, or otherwise */
bool pass_vec_divides(const ir_code *loop, int64_t step); /* no edge is left */
int pass_vec_bits(const vec_region *g,
                  const ir_block *body);         /* widest element that varies, at least 32 */
int pass_vec_accumulators(const ir_block *body); /* locals that inner loops change */
bool pass_vec_branches(const vec_region *g, const ir_block *body); /* on the column */

/* ---- vectorise_copy.c, vectorise_expr.c ------------------------------------------------------ */
typedef struct vec_name {
  const void *key; /* variable or local buffer of the original */
  void **copy;     /* rows * cols of them */
} vec_name;

typedef struct vec_shared {
  const ir_expr *e;
  int row, col;
  ir_expr *value;
} vec_shared;

typedef struct vec_copier {
  const vec_region *g;
  ir_builder *b;
  ir_arena *arena;
  int rows, cols, lanes;
  int apart;                /* columns from one copy to the next; 0: as many as there are lanes */
  int only_row;             /* inside a branch that one row takes; -1: all rows */
  ir_expr *row_at, *col_at; /* the new loop variables */
  ir_expr *tail;            /* lanes that exist, b1; NULL: all */
  bool mask_sets;           /* `set` must keep the lanes that do not exist */
  ir_expr *lane;            /* i64: 0, 1, 2 ... */
  ir_expr *place;           /* i32: the same of the elements of a window; NULL: none yet */
  IR_VEC(vec_name) names;
  IR_VEC(vec_shared) shared; /* of the statement in work */
  bool inside_shared;        /* its parts need no names of their own */
} vec_copier;

void pass_vec_block(vec_copier *k, const ir_block *block, ir_expr *cond);
void pass_vec_bind(vec_copier *k, const void *key, int row, int col, void *copy);
void *pass_vec_bound(const vec_copier *k, const void *key, int row, int col);
ir_var *pass_vec_let(ir_builder *b, const char *stem, ir_dtype t, int lanes, ir_expr *value);
/* 0, 1 .. lanes-1 as a vector of t, made by a loop that is unrolled. */
ir_expr *pass_vec_lanes(ir_builder *b, ir_dtype t, int lanes);
ir_expr *pass_vec_tail(ir_builder *b, ir_expr *at, ir_expr *hi, int lanes);

ir_expr *pass_vec_scalar(vec_copier *k, const ir_expr *e, int row, int col);
ir_expr *pass_vec_wide(vec_copier *k, const ir_expr *e, int row, int col, ir_expr *cond);
ir_expr *pass_vec_and(ir_arena *a, ir_expr *x, ir_expr *y); /* masks; NULL is true */
bool pass_vec_block_wants_lanes(const vec_region *g,
                                const ir_block *block); /* wide, it uses lane numbers */
bool pass_vec_is_wide(const vec_copier *k, const ir_var *var);

/* ---- vectorise_groups.c ---------------------------------------------------------------------- */
/* A loop over groups of slots as a loop over positions; *rest (may be NULL): what is left after it,
 * or NULL.  Another loop is itself. */
const ir_code *pass_vec_positions(ir_arena *arena, const ir_code *loop, ir_code **rest);
/* How many places in a group the load may give; 0: it loads something else. */
int64_t pass_vec_places(const ir_expr *e);

/* ---- vectorise_window.c ---------------------------------------------------------------------- */
/* The gathered load of a copy, picked out of registers; NULL: what it reads may lie anywhere. */
ir_expr *pass_vec_window(vec_copier *k, const ir_expr *load, int row, int col);

/* ---- vectorise_tile.c ------------------------------------------------------------------------ */
typedef struct vec_shape {
  int rows, cols, lanes;
} vec_shape;

typedef struct vec_tile {
  ir_builder *b;
  const vec_region *g;
  const ir_code *row, *col; /* the original loops; row may be NULL */
  const ir_block *before, *body;
  const ir_block *few; /* the body with its sums by lanes, for few rows; NULL: rows as they are */
  vec_shape shape;
  int units;  /* threads that parallel loops are shared by */
  bool whole; /* every tile has all its rows, also the last one */
  bool even;  /* columns begin and end at multiples of a tile's, whatever their bounds look like */
} vec_tile;

void pass_vec_tile(vec_tile *t);
int64_t pass_vec_most_trips(const ir_code *loop); /* -1: no bound is known */
ir_var *pass_vec_open(ir_builder *b, const ir_code *like, ir_expr *lo, ir_expr *hi, int64_t step,
                      ir_run run, ir_block **outer);

/* ---- vectorise_panel.c ----------------------------------------------------------------------- */
/* Writes the tile with its operands packed in panels; false when that does not pay or does not fit.
 */
bool pass_vec_panel(vec_tile *t);
/* It would be, and what it packs is consecutive along the sum: columns are turned into rows. */
bool pass_vec_panel_turns(vec_tile *t);

/* ---- vectorise_compress.c -------------------------------------------------------------------- */
/* The loop appends what passes a test, and changes nothing else but the count. */
bool pass_vec_compresses(ir_arena *a, const ir_code *loop);
void pass_vec_compress(ir_builder *b, const ir_code *loop);

/* ---- vectorise_reduce.c ---------------------------------------------------------------------- */
bool pass_vec_reducible(const vec_region *g, const ir_code *loop);
/* Writes the loop with lanes of partial results, `copies` of each. */
void pass_vec_reduce(ir_builder *b, const vec_region *g, const ir_code *loop, int lanes,
                     int copies);

#endif
