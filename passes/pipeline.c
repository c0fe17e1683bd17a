/* pipeline.c - the whole compiler between the front end and the code generators.
 *
 *     checked statements (ein)
 *        |
 *        v
 *      canon 10 ──▶ propagate 20 ──▶ permute 30 ──▶ fuse 40        what is computed, and where
 *                                                     |            it can be zero
 *        ┌────────────────────────────────────────────┘
 *        v
 *      format 50 ──▶ microtile 60 ──▶ guard 70 ──▶ stage 80        how it is cut: formats, index
 *                                                     |            lists, tiles, kernels  (tile)
 *        ┌────────────────────────────────────────────┘
 *        v
 *      lower 90 ──┬─▶ vectorise 100 ──▶ cpu_*.c, LLVM              how it runs  (loop)
 *                 └─▶ gpu_map 110 ────▶ CUDA text, NVRTC
 *
 *   canon      puts each statement in one of three shapes: elementwise, an epilogue around one
 *              reduction, or one topk.
 *   divide     makes two of an index that a product reads an operand by the quotient of.
 *   propagate  says of every statement where it can be non-zero and where it needs to be computed.
 *   permute    says of every index whether it may be visited in any order, and why not.
 *   fuse       merges statements that one kernel can compute, and says why others stay apart.
 *   format     gives every intermediate a storage format.
 *   microtile  decides axis, micro-tile, tile and kernel of every statement by covered cost.
 *   guard      adds a dense branch where the measured density decides.
 *   stage      makes the tile program: stages, lists, buffers and their life times.
 *   lower      turns stages into loops, and epilogues into fragments.
 *   vectorise  chooses registers, vectors and unrolling for the CPU.
 *   gpu_map    gives loops to blocks and threads for CUDA.
 *
 * pass.def is this order as data: the loop below runs its rows by number, `vectorise` for the CPU
 * only, `gpu_map` for CUDA only.  The interpreter runs checked statements as they are: for it
 * nothing runs. A program that was read from a dump after pass N goes on behind N. */
#include "passes/pass.h"

spc_status pass_pipeline(ir_program *program, const pass_options *options, ir_sink *sink) {
  pass_manager m;
  ir_target_kind kind = options->target != NULL ? options->target->kind : IR_TARGET_CPU;
  SPC_TRY(pass_manager_open(&m, program, options, sink));
  if (kind == IR_TARGET_INTERP && options->passes == NULL && options->stop_after == NULL)
    return SPC_OK;

  for (const pass_row *row = pass_next(0, kind); row != NULL; row = pass_next(row->number, kind))
    SPC_TRY(pass_manager_run(&m, row->name));
  return pass_manager_close(&m);
}
