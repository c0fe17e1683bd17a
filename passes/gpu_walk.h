/* gpu_walk.h - walks over stored entries, for warps (gpu_walk.c). */
#ifndef SPC_PASSES_GPU_WALK_H
#define SPC_PASSES_GPU_WALK_H

#include "passes/pass.h"

/* Maps a nest of `count` independent loops, loops[0] the parallel one, whose body walks entries: lanes
 * along the columns that all entries of a row meet, or along the entries that a copy puts in place.
 * False, and nothing is changed, where it is neither. */
bool pass_gpu_walk(pass_context *context, const ir_stage *stage, ir_func *func, ir_code *const *loops,
                   int count);

#endif
