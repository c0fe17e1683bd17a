/* gpu_map.h - shared by the files of pass `gpu_map`. */
#ifndef SPC_PASSES_GPU_MAP_H
#define SPC_PASSES_GPU_MAP_H

#include "passes/cost.h"

/* A kernel function on its way to threads.  A row is what one iteration of its parallel loop does, or, without
 * such a loop, all that it does. */
typedef struct gpu_rows {
  pass_context *context;
  ir_kernel *kernel;
  ir_stage *stage;
  ir_func *func;
  ir_code *loop;   /* NULL: there is one row */
  ir_block *block; /* a row's code */
  double rows;     /* as assumed */
  IR_VEC(ir_code *) shared; /* loops of a row whose iterations may run side by side */
} gpu_rows;

/* ---- questions (gpu_rows.c) ------------------------------------------------------------------ */
bool gpu_is_size(const ir_expr *e); /* of constants and dims alone */
bool gpu_steps_by_one(const ir_code *loop);
bool gpu_block_loads(const ir_block *block, const ir_buf *buf); /* anywhere in it */
ir_code *gpu_only_loop(const ir_code *loop); /* all there is in its body, comments aside; or NULL */
bool gpu_starts_at_zero(const ir_code *loop);
ir_expr *gpu_with(ir_arena *a, ir_expr *e, const ir_var *var, ir_expr *to); /* e, with `to` in place of var */
bool gpu_is_leaf(const ir_block *block); /* no loop in it, nothing kept beside scalars */
bool gpu_is_independent(const ir_code *loop); /* its iterations may run in any order, and at once */
bool gpu_is_element_loop(const ir_code *loop); /* each iteration stores elements of its own, and nothing else is left of it */
bool gpu_is_bounded(const ir_code *loop, int64_t most); /* it is at most so long whatever is bound */
bool gpu_has_rows(const gpu_rows *r, double least);     /* so many there are for certain */
/* The loops of a row that hold its work, each one that can be shared; false where one cannot.  Nests are made one loop
 * where that is the same. */
bool gpu_find_shared(gpu_rows *r);
double gpu_trips(const gpu_rows *r, const ir_code *loop); /* as assumed */
/* Of a row's entries: how many places there are for them, a size; NULL: not known. */
ir_expr *gpu_places(const gpu_rows *r, const ir_code *loop);
double gpu_work(const gpu_rows *r, const ir_block *block); /* innermost iterations, as assumed */
/* The only loop nest of a row, when it is a sum and all beside it is cheap to repeat; its place in the block.  NULL: the
 * row is none of that kind. */
ir_code *gpu_only_sum(const gpu_rows *r, int *at, ir_loop_sums *sums);
/* Whether what the loop reads lies contiguous along it, or along the rows. */
typedef struct gpu_strides {
  bool along_loop, along_rows;
  int64_t bytes, row_bytes; /* of the narrowest element that each iteration loads: along the loop, along the rows */
} gpu_strides;
gpu_strides gpu_strides_of(const gpu_rows *r, const ir_code *shared);

/* ---- one launch for stages that go through the same rows (gpu_join.c) ------------------------- */
void gpu_join_rows(pass_context *context, ir_kernel *kernel);

/* ---- how rows run (gpu_team.c) --------------------------------------------------------------- */
/* Gives the rows to teams of threads, or cuts their sums into parts; false: a thread a row will do. */
bool gpu_map_rows(gpu_rows *r);

/* ---- parts (gpu_parts.c) --------------------------------------------------------------------- */
typedef struct gpu_cut {
  int at;            /* of the nest in the row's block */
  ir_code *nest, *loop; /* the sum; the loop of it that is cut, maybe an inner one */
  ir_loop_sums sums;
  ir_expr *parts;    /* how many, of sizes alone */
  int round;         /* a part is a multiple of so many iterations */
  int team, last_team; /* threads that make a part, that add a row's parts up; 1: a thread */
  bool rows_inner;   /* threads that follow each other make parts of rows that follow each other, else of one row */
  bool rows_last;    /* the parts of all rows lie side by side: [part][row], else [row][part] */
  int wide;          /* consecutive rows that a thread takes together, whose elements it loads as words; 1: one */
  int columns, shares; /* so many such threads side by side, and so many of them for each: one launch; 0: parts */
} gpu_cut;
/* Two functions in place of one: what every part gives, then a row's parts in their order.  Columns that are shared stay one. */
void gpu_cut_rows(gpu_rows *r, const gpu_cut *cut);
/* Gives a function another body, and the arrays that this touches. */
void gpu_finish(ir_func *func, ir_block body);

#endif
