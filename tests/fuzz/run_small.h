/* run_small.h - runs whatever IR a fuzz target accepted, interpreted and with small made-up data.
 */
#ifndef SPC_TESTS_FUZZ_RUN_SMALL_H
#define SPC_TESTS_FUZZ_RUN_SMALL_H

#include "ir/ir.h"

/* Dims that are not fixed get the least size above 2 that they may have.  SPC_OK also where the
 * kernel is too large to be run here, or its sizes do not fit; else what running it answered. */
spc_status run_small(ir_arena *arena, ir_kernel *kernel, ir_sink *sink);

#endif
