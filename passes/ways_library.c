/* ways_library.c - a dense product by the vendor's library, as one more candidate.
 *
 * It is one only where it means the same (ir/library.h) and where nothing is asked of the kernel
 * that the library does not have: bits of zeros, a fixed order of sums, a guard.  Whether it is
 * there is asked last, and only where it would be chosen: loading it takes a tenth of a second. */
#include <math.h>

#include "ir/library.h"
#include "passes/choice.h"

bool pass_is_library(const ir_candidate *candidate) { return !strcmp(candidate->row, "library"); }

static const char *mode_misfit(const pass_context *context) {
  const ir_program *program = context->program;
  if (program->reproducible) return "reproducible: the order of its sums is its own";
  if (program->batch_invariant)
    return "batch invariance: it chooses by the number of rows how a sum is split";
  return NULL;
}

static const char *shape_misfit(pass_context *context, const ir_kernel *kernel,
                                const pass_sum *sum) {
  const ir_tensor *result = sum->stmt->target;
  bool read = result->role != IR_ROLE_OUT && !pass_is_quick(context) &&
              result->pattern.zeros != IR_ZEROS_UNKNOWN && !pass_readers_look(context, sum);
  bool asked = pass_schedule_compact(kernel, result) && !pass_is_quick(context);
  if (read || asked) return "it cannot note where its result is zero, which is asked for";
  if (sum->batches > 1) return "it takes one batch index at most";
  if (sum->a->tensor->dtype == IR_I8 && (pass_contiguous_index(sum->a, false) != sum->k ||
                                         pass_contiguous_index(sum->b, false) != sum->k))
    return "of 8-bit operands it wants the summed index contiguous";
  return NULL;
}

static const char *misfit(pass_context *context, const ir_kernel *kernel, const pass_sum *sum) {
  ir_library_product product;
  const char *why = mode_misfit(context);
  if (why || !ir_library_read(sum->stmt, &product, &why)) return why;
  if (product.bias && sum->flattened) return "of several indices that are one a bias is no vector along all";
  return shape_misfit(context, kernel, sum);
}

static bool is_asked_for(const pass_context *context, const ir_kernel *kernel,
                         const ir_candidate *candidate) {
  const pass_pin *pin = context->options ? context->options->pin : NULL;
  return pass_schedule_find(kernel, IR_DO_LIBRARY, candidate->target->name) ||
         (pin && !strcmp(pin->target, candidate->target->name) &&
          !strcmp(pin->label, candidate->label));
}

static double best_own(const pass_ways *ways) {
  double best = INFINITY;
  for (int i = 0; i < ways->list.count; i++) {
    const ir_candidate *c = ways->list.at[i].candidate;
    if (!*c->why && !pass_is_library(c)) best = fmin(best, c->microseconds);
  }
  return best;
}

void pass_ways_library(pass_context *context, ir_kernel *kernel, pass_ways *ways) {
  ir_candidate *candidate = pass_candidate_new(context, ways, "library");
  const char *why = misfit(context, kernel, &ways->sum);
  candidate->label = "cuBLASLt";
  const char *(*missing)(void) = context->options ? context->options->library_missing : NULL;
  if (!why && !missing)
    why = "no GPU whose library could be called is known here; --library=on takes it as there";
  if (!why) pass_candidate_estimate(context, &ways->sum, candidate);
  if (!why && (pass_is_quick(context) || candidate->microseconds < best_own(ways) ||
               is_asked_for(context, kernel, candidate)))
    why = missing();
  if (why) candidate->why = ir_strdup(context->arena, why);
}
