/* gpu_walk.h - walks over stored entries, for warps (gpu_walk.c, gpu_columns.c) and for teams (gpu_entries.c). */
#ifndef SPC_PASSES_GPU_WALK_H
#define SPC_PASSES_GPU_WALK_H

#include "passes/pass.h"

/* Maps a nest of `count` independent loops, loops[0] the parallel one, whose body walks entries: lanes
 * along the columns that all entries of a row meet, or along the entries that a copy puts in place.
 * False, and nothing is changed, where it is neither. */
bool pass_gpu_walk(pass_context *context, ir_stage *stage, ir_func *func, ir_code *const *loops,
                   int count);
/* Each element of the result is stored once, whichever loop meets it: of one that has the entries of another tensor, each entry. */
bool pass_gpu_stores_once(const ir_stage *stage);
/* Maps `rows`, the parallel loop of func's body, whose iterations walk a row's entries and sum something for each: teams take
 * entries.  False, and nothing is changed, where it is none of that kind. */
bool pass_gpu_entries(pass_context *context, const ir_stage *stage, ir_func *func, ir_code *rows);

/* ---- shared by gpu_walk.c and gpu_columns.c -------------------------------------------------- */
typedef struct gpu_walk {
  pass_context *context;
  ir_arena *arena;
  ir_stage *stage;
  ir_func *func;
  ir_code *outer;
  ir_code *const *loops; /* the nest: outer, and the loops that are all there is inside */
  int count;
} gpu_walk;

/* The loop over threads that outer becomes: so many iterations, what is in it goes to `body`. */
ir_expr *gpu_open_points(const gpu_walk *w, ir_builder *b, ir_block *body, ir_expr *iterations);
/* Every loop's variable from a point of them all, the innermost the fastest; `but` is left out. */
ir_expr *gpu_size_of_nest(const gpu_walk *w, int but);
void gpu_bind_nest(const gpu_walk *w, ir_block *block, ir_expr *at, int but);
/* Lanes along the columns that all entries of a row meet (gpu_columns.c); false, and nothing is changed: there are none. */
bool gpu_map_columns(const gpu_walk *w);

#endif
