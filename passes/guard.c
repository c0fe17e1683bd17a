/* guard.c - pass `guard`: a dense branch beside every choice that depends on data.
 *
 * needs: the table of candidates
 * keeps: everything
 * breaks: nothing
 *
 *     candidate y: f lists of h  chosen   ->   .. guarded, break-even cover 0.61, otherwise "dense
 * 128x128x32"
 *
 * A hint is never a promise, so a list that was chosen because of one gets a guard: the measured
 * cover is compared with the cover at which dense would have been as fast, all costs of looking
 * included; where a sample decides, looking is what either branch costs.  A plan that is batch
 * invariant has no lists and therefore no guards. */
#include "passes/choice.h"
#include "passes/stage.h"

ir_candidate *pass_dense_branch(const ir_kernel *kernel, const ir_tensor *target) {
  ir_candidate *best = NULL;
  for (int i = 0; i < kernel->candidates.count; i++) {
    ir_candidate *candidate = kernel->candidates.at[i];
    bool usable =
        candidate->target == target && !candidate->operand && candidate->verdict == IR_RUNNER_UP;
    if (usable && (!best || candidate->microseconds < best->microseconds)) best = candidate;
  }
  return best;
}

static double break_even(pass_context *context, const ir_candidate *sparse,
                         const ir_candidate *dense) {
  pass_sum sum;
  double index;
  bool is_sum = pass_sum_of(context, sparse->target->def, &sum);
  if (context->options && context->options->force_guard == 1) return 2;
  if (context->options && context->options->force_guard == 2) return 0;
  double none = pass_candidate_cost(context, is_sum ? &sum : NULL, sparse, 0, &index);
  double full = pass_candidate_cost(context, is_sum ? &sum : NULL, sparse, 1, &index);
  double look = context->profile->sample_us > 0 ? pass_candidate_look(context, sparse) : 0;
  return pass_break_even(none, full, dense->microseconds + look);
}

spc_status pass_guard(pass_context *context, ir_kernel *kernel) {
  pass_context_prepare(context);
  for (int i = 0; i < kernel->candidates.count; i++) {
    ir_candidate *candidate = kernel->candidates.at[i];
    if (candidate->verdict != IR_CHOSEN || !candidate->operand || !candidate->axis) continue;
    ir_candidate *dense = pass_dense_branch(kernel, candidate->target);
    if (!dense) continue;
    candidate->guarded = true;
    candidate->break_even = break_even(context, candidate, dense);
  }
  return SPC_OK;
}
