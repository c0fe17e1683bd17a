/* gpu_walk.h - walks over stored entries, for warps (gpu_walk.c) and for teams (gpu_entries.c). */
#ifndef SPC_PASSES_GPU_WALK_H
#define SPC_PASSES_GPU_WALK_H

#include "passes/pass.h"

/* Maps a nest of `count` independent loops, loops[0] the parallel one, whose body walks entries: lanes
 * along the columns that all entries of a row meet, or along the entries that a copy puts in place.
 * False, and nothing is changed, where it is neither. */
bool pass_gpu_walk(pass_context *context, const ir_stage *stage, ir_func *func, ir_code *const *loops,
                   int count);
/* Each element of the result is stored once, whichever loop meets it: of one that has the entries of another tensor, each entry. */
bool pass_gpu_stores_once(const ir_stage *stage);
/* Maps `rows`, the parallel loop of func's body, whose iterations walk a row's entries and sum something for each: teams take
 * entries.  False, and nothing is changed, where it is none of that kind. */
bool pass_gpu_entries(pass_context *context, const ir_stage *stage, ir_func *func, ir_code *rows);

#endif
