/* quick.c - which way of a statement is there soonest, for code that serves until better is
 * compiled.
 *
 * A call of the library compiles nothing but the loops beside it; generated loops compile in a
 * quarter of a composed kernel's time and may run a thousand times longer.  So what is compared is
 * the time until a few runs are done.  Lists of zeros want kernels of their own and a dense branch
 * beside them: they are for the tuned code. */
#include <math.h>

#include "passes/choice.h"

static double kernel_ms(const pass_profile *p, const ir_kernel_row *row) {
  double side = sqrt((double)row->m * (double)row->n) / 64;
  return p->jit_tile_ms * (1 + side) / 2;
}

/* On one core: what stands beside it for operands that are not aligned is compiled too. */
static double compile_ms(const pass_context *context, const ir_candidate *candidate) {
  const pass_profile *p = context->profile;
  const ir_kernel_row *row = ir_kernel_row_named(candidate->row);
  if (!row) return p->jit_loops_ms;
  double ms = kernel_ms(p, row) + (row->align ? p->jit_tile_ms : 0);
  bool lists = candidate->operand && candidate->axis;
  return lists ? ms + p->jit_tile_ms + 2 * p->jit_loops_ms : ms;
}

double pass_quick_weight(const pass_context *context, const ir_candidate *candidate) {
  double runs = fmax(context->profile->quick_runs, 1);
  return candidate->expected + 1e3 * compile_ms(context, candidate) / runs;
}

const char *pass_quick_why(const pass_context *context, const ir_candidate *candidate) {
  return ir_format_text(context->arena, "%s, and a compile of %.0f ms",
                        pass_time_text(context->arena, candidate->expected),
                        compile_ms(context, candidate));
}
