/* guard_stored.c - an operand that is stored sparse, and of which more or less is stored than its hint says.
 *
 *     in A : f32[I,K] as csr ~ zeros(static, density=0.05)
 *     C[i,n] = sum[k] A[i,k]*B[k,n]         ->   walks A's entries where less than 0.3 of A is stored,
 *                                                else A is written out and multiplied as dense matrices are
 *
 * How much is stored is known before anything is read: the last position.  Both branches are prepared, whichever of them the
 * hint, or the lack of one, has chosen.  All of A needs scratch; where that is more than the profile allows for it there is
 * no such branch, unless it is the one that was chosen. */
#include "passes/choice.h"
#include "passes/stage.h"
#include "passes/storage.h"

ir_candidate *pass_stored_branch(const ir_kernel *kernel, const ir_candidate *chosen) {
  ir_candidate *best = NULL;
  for (int i = 0; i < kernel->candidates.count; i++) {
    ir_candidate *c = kernel->candidates.at[i];
    if (c->target != chosen->target || c->operand || c->verdict != IR_RUNNER_UP || c->expanded == chosen->expanded) continue;
    if (!best || c->microseconds < best->microseconds) best = c;
  }
  return best;
}

bool pass_weighs_store(const ir_list *list) {
  return !list->counts && !list->bits && pass_tensor_is_sparse(list->tensor);
}

ir_expr *pass_stored_operand(const pass_sum *sum) {
  pass_strips fit;
  return pass_stored_fit(sum, &fit) ? fit.stored : NULL;
}

/* Else its sizes say how much of it is stored. */
static bool count_is_data(const ir_tensor *tensor) {
  for (int l = 0; l < tensor->format->level_count; l++) {
    const ir_level *level = &tensor->format->level[l];
    if (level->kind == IR_LEVEL_COMPRESSED || level->kind == IR_LEVEL_BITMAP || ir_level_has_rest(level)) return true;
  }
  return false;
}

static double scratch_mib(const pass_context *context, const ir_tensor *tensor) {
  double bytes = (double)ir_dtype_bytes(tensor->dtype);
  for (int d = 0; d < tensor->rank; d++) bytes *= pass_size_assumed(context, tensor->dim[d]);
  return bytes / (1 << 20);
}

int64_t pass_stored_most(const pass_context *context, const ir_tensor *stored, const ir_candidate *chosen) {
  return chosen->expanded ? 0 : (int64_t)(context->profile->written_mib * (1 << 20) / (double)ir_dtype_bytes(stored->dtype));
}

static double break_even(pass_context *context, const pass_sum *sum, const ir_candidate *walks, const ir_candidate *whole) {
  if (context->options && context->options->force_guard == 1) return 2;
  if (context->options && context->options->force_guard == 2) return 0;
  double more[2];
  for (int density = 0; density < 2; density++)
    more[density] = pass_stored_cost(context, sum, walks, density) - pass_stored_cost(context, sum, whole, density);
  return pass_break_even(more[0], more[1], 0);
}

/* Statements that read the same operand take the same branch. */
static const ir_candidate *guarded_before(pass_context *context, const ir_kernel *kernel, const ir_candidate *chosen,
                                          const ir_tensor *stored) {
  for (int i = 0; kernel->candidates.at[i] != chosen; i++) {
    const ir_candidate *c = kernel->candidates.at[i];
    pass_sum sum;
    if (c->verdict != IR_CHOSEN || c->operand || !c->guarded || !pass_sum_of(context, c->target->def, &sum)) continue;
    ir_expr *other = pass_stored_operand(&sum);
    if (other && other->tensor == stored) return c;
  }
  return NULL;
}

static void refuse(pass_context *context, ir_candidate *whole, double mib) {
  whole->verdict = IR_REJECTED;
  whole->why = ir_format_text(context->arena, "no guard takes it where more is stored than was expected: it needs %.0f MiB of scratch, and %.0f are allowed; %s",
                              mib, context->profile->written_mib, whole->why);
}

void pass_guard_stored(pass_context *context, ir_kernel *kernel, ir_candidate *chosen) {
  pass_sum sum;
  ir_candidate *other = pass_stored_branch(kernel, chosen);
  bool pinned = context->options && context->options->pin;
  if (!other || pinned || !pass_sum_of(context, chosen->target->def, &sum)) return;
  const ir_expr *stored = pass_stored_operand(&sum);
  if (!stored || !count_is_data(stored->tensor)) return;
  const ir_candidate *before = guarded_before(context, kernel, chosen, stored->tensor);
  double even = before             ? before->break_even
                : chosen->expanded ? break_even(context, &sum, other, chosen)
                                   : break_even(context, &sum, chosen, other);
  bool forced = context->options && context->options->force_guard, matters = even > 0 && even < 1;
  double mib = scratch_mib(context, stored->tensor);
  if (!chosen->expanded && mib > context->profile->written_mib) refuse(context, other, mib);
  else if (matters || forced) chosen->guarded = true, chosen->break_even = even;
}
