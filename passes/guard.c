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
 * invariant has no lists and therefore no guards.
 *
 * An operand that is stored sparse has a guard by how much of it is stored (guard_stored.c).
 *
 * Products of few rows whose kernels look at zeros themselves read the other matrix once for each of their tiles.  Where the
 * rows are several tiles, dense reads it once for all of them: the kernel that asks where its result is wanted takes a sample
 * first, and its readers heed what it found. */
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

typedef struct branches {
  double none, full, dense; /* sparse at a cover of 0 and 1; dense with looking */
} branches;

static double without_lists(pass_context *context, const ir_candidate *sparse, double cover,
                            double *index) {
  pass_sum sum;
  bool is_sum = pass_sum_of(context, sparse->target->def, &sum);
  double time = pass_candidate_cost(context, is_sum ? &sum : NULL, sparse, cover, index);
  return time - *index;
}

static branches branches_of(pass_context *context, const ir_candidate *sparse,
                            const ir_candidate *dense) {
  double index_none, index_full;
  branches b = {.none = without_lists(context, sparse, 0, &index_none),
                .full = without_lists(context, sparse, 1, &index_full)};
  double look = context->profile->sample_us > 0 ? pass_candidate_look(context, sparse) : 0;
  b.none += index_none;
  b.full += index_full;
  b.dense = dense->microseconds + look;
  return b;
}

/* Who reads over the list that a product was written over takes the same branch: its times count,
 * its lists do not. */
static bool add_readers(pass_context *context, const ir_kernel *kernel, const ir_candidate *writer,
                        branches *b) {
  for (int i = 0; i < kernel->candidates.count; i++) {
    const ir_candidate *reader = kernel->candidates.at[i];
    if (reader->verdict != IR_CHOSEN || !pass_reads_packed(reader, writer)) continue;
    const ir_candidate *dense = pass_dense_branch(kernel, reader->target);
    double index;
    if (!dense) return false;
    b->none += without_lists(context, reader, 0, &index);
    b->full += without_lists(context, reader, 1, &index);
    b->dense += dense->microseconds;
  }
  return true;
}

static double break_even(const pass_context *context, const branches *b) {
  if (context->options && context->options->force_guard == 1) return 2;
  if (context->options && context->options->force_guard == 2) return 0;
  return pass_break_even(b->none, b->full, b->dense);
}

/* Beside its readers, which take what was decided for their writer. */
static void guard(pass_context *context, ir_kernel *kernel, ir_candidate *candidate) {
  const ir_candidate *dense = pass_dense_branch(kernel, candidate->target);
  const ir_candidate *writer = pass_writer_of(kernel, candidate);
  if (writer) {
    candidate->guarded = writer->guarded;
    candidate->break_even = writer->break_even;
    return;
  }
  if (!dense) return;
  branches b = branches_of(context, candidate, dense);
  if (pass_is_sampled(candidate) && !add_readers(context, kernel, candidate, &b)) return;
  candidate->guarded = true;
  candidate->break_even = break_even(context, &b);
}

/* ---- few rows -------------------------------------------------------------------------------- */
/* Microseconds of the kernel that asks and of those that read what it has computed, at this cover of a tile's rows; negative: one
 * of these has no dense branch.  `dense`: of the branches. */
static double looking_time(pass_context *context, const ir_kernel *kernel, const ir_candidate *asks, double cover, double *dense) {
  double index, time = 0;
  *dense = 0;
  for (int i = 0; i < kernel->candidates.count; i++) {
    const ir_candidate *c = kernel->candidates.at[i];
    pass_sum sum;
    if (c != asks && !pass_heeds(c, asks)) continue;
    const ir_candidate *branch = pass_dense_branch(kernel, c->target);
    if (!branch || !pass_sum_of(context, c->target->def, &sum)) return -1;
    time += pass_candidate_cost(context, &sum, c, cover, &index);
    *dense += branch->microseconds;
  }
  return time;
}

static double looking_break_even(pass_context *context, const ir_kernel *kernel, const ir_candidate *asks) {
  const int halvings = 24;
  double low = 0, high = 1, dense;
  if (context->options && context->options->force_guard == 1) return 2;
  if (context->options && context->options->force_guard == 2) return 0;
  if (looking_time(context, kernel, asks, 0, &dense) >= dense) return 0;
  if (looking_time(context, kernel, asks, 1, &dense) <= dense) return 2;
  for (int i = 0; i < halvings; i++) {
    double middle = (low + high) / 2;
    if (looking_time(context, kernel, asks, middle, &dense) < dense) low = middle;
    else high = middle;
  }
  return low;
}

static void guard_looking(pass_context *context, ir_kernel *kernel, ir_candidate *asks) {
  pass_sum sum;
  double dense;
  if (!pass_sum_of(context, asks->target->def, &sum) || !pass_is_several_tiles(&sum, asks) ||
      looking_time(context, kernel, asks, 0, &dense) < 0)
    return;
  double even = looking_break_even(context, kernel, asks);
  for (int i = 0; i < kernel->candidates.count; i++) {
    ir_candidate *c = kernel->candidates.at[i];
    if (c != asks && !pass_heeds(c, asks)) continue;
    c->guarded = true;
    c->break_even = even;
  }
}

static bool asks(const ir_candidate *candidate) {
  const ir_kernel_row *row = ir_kernel_row_named(candidate->row);
  return row && ir_kernel_skips_columns(row);
}

spc_status pass_guard(pass_context *context, ir_kernel *kernel) {
  pass_context_prepare(context);
  for (int i = 0; i < kernel->candidates.count; i++) {
    ir_candidate *candidate = kernel->candidates.at[i];
    if (candidate->verdict != IR_CHOSEN) continue;
    if (!candidate->operand) pass_guard_stored(context, kernel, candidate);
    else if (candidate->axis) guard(context, kernel, candidate);
    else if (asks(candidate)) guard_looking(context, kernel, candidate);
  }
  return SPC_OK;
}
