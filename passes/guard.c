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
 * first, and its readers heed what it found.  Who looks at values and heeds nobody takes a sample of these. */
#include <math.h>

#include "ir/beside.h"
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
  pass_context *context;
  const ir_kernel *kernel;
  const ir_candidate *sparse;
  double dense; /* with looking, and of who reads what is listed */
  double behind; /* of the sparse branch, what a dense one that leaves takes */
  bool aside;   /* the sparse branch leaves its columns side by side */
} branches;

static double without_lists(pass_context *context, const ir_candidate *sparse, double cover,
                            double *index) {
  pass_sum sum;
  bool is_sum = pass_sum_of(context, sparse->target->def, &sum);
  double time = pass_candidate_cost(context, is_sum ? &sum : NULL, sparse, cover, index);
  return time - *index;
}

/* Who reads over the list that a product was written over takes the same branch: its times count,
 * its lists do not. */
static bool is_reader(const branches *b, const ir_candidate *reader) {
  if (pass_is_spread(b->sparse) && reader->verdict == IR_CHOSEN && pass_aside_writer(b->context, b->kernel, reader) == b->sparse) return true;
  return pass_is_sampled(b->sparse) && reader->verdict == IR_CHOSEN && pass_reads_packed(reader, b->sparse);
}

/* Its columns stay side by side: what reads them is computed from these, or from all of it where dense is meant.  Microseconds, of a reader of
 * several its share. */
static double readers_of_columns(const branches *b, double cover) {
  const ir_candidate *shared[IR_MOST_BESIDE];
  const ir_tensor *target = b->sparse->target;
  double written = 0;
  for (int i = 0; i < b->kernel->stmts.count; i++) {
    const ir_stmt *stmt = b->kernel->stmts.at[i];
    int count = stmt->target != target && pass_stmt_reads(stmt, target) ? pass_aside_of(b->context, b->kernel, stmt, shared) : 0;
    if (count) written += pass_tensor_bytes(b->context, stmt->target) / count;
  }
  return pass_cost_beside(b->context->profile, written + fmin(1, cover) * pass_tensor_bytes(b->context, target));
}

static bool branches_of(pass_context *context, const ir_kernel *kernel, const ir_candidate *sparse, const ir_candidate *dense, branches *b) {
  double look = context->profile->sample_us > 0 ? pass_candidate_look(context, sparse, dense) : 0;
  *b = (branches){context, kernel, sparse, dense->microseconds + look, pass_candidate_behind(context, sparse, dense), pass_stays_aside(context, kernel, sparse)};
  if (b->aside) b->dense += readers_of_columns(b, 1);
  for (int i = 0; i < kernel->candidates.count; i++) {
    const ir_candidate *reader = kernel->candidates.at[i];
    if (!is_reader(b, reader)) continue;
    const ir_candidate *whole = pass_dense_branch(kernel, reader->target);
    if (!whole) return false;
    b->dense += whole->microseconds;
  }
  return true;
}

static double sparse_time(const branches *b, double cover) {
  double index, unused, time = without_lists(b->context, b->sparse, cover, &index);
  if (b->aside) time += readers_of_columns(b, cover) - pass_candidate_spread(b->context, b->sparse, cover);
  for (int i = 0; i < b->kernel->candidates.count; i++)
    if (is_reader(b, b->kernel->candidates.at[i])) time += without_lists(b->context, b->kernel->candidates.at[i], cover, &unused);
  return time + index + b->behind;
}

/* The time is no line: of pairs of strips, the more they have the more of it is of both; where few lists make few turns of tiles, and where blocks share a
 * tile, it goes by steps, and may fall.  The first cover from which on dense, what the sparse branch has to be faster than, is. */
static double searched_break_even(const branches *b, double dense) {
  const int steps = 64, halvings = 18;
  double low = 0, high = 0;
  if (sparse_time(b, 0) >= dense) return 0;
  for (int i = 1; i <= steps && high == low; i++) {
    high = (double)i / steps;
    if (sparse_time(b, high) < dense) low = high;
  }
  for (int i = 0; i < halvings && low < high; i++) {
    double middle = (low + high) / 2;
    if (sparse_time(b, middle) < dense) low = middle;
    else high = middle;
  }
  return low;
}

static double break_even(const branches *b) {
  const pass_options *options = b->context->options;
  if (options && options->force_guard == 1) return 2;
  if (options && options->force_guard == 2) return 0;
  if ((pass_is_sampled(b->sparse) && !pass_is_paired(b->sparse)) || pass_is_krows(b->sparse)) return searched_break_even(b, b->dense / (1 + b->context->profile->guard_margin)); /* where a turn more begins, or time climbs with what is listed, they are far apart */
  bool line = pass_target_of(b->context)->kind != IR_TARGET_CUDA || pass_is_live(b->sparse); /* packed rows go in whole turns and smaller tiles */
  if (!line) return searched_break_even(b, b->dense);
  return pass_break_even(sparse_time(b, 0), sparse_time(b, 1), b->dense);
}

/* Beside its readers, which take what was decided for their writer. */
static void guard(pass_context *context, ir_kernel *kernel, ir_candidate *candidate) {
  const ir_candidate *dense = pass_dense_branch(kernel, candidate->target);
  const ir_candidate *writer = pass_writer_of(kernel, candidate);
  if (!writer) writer = pass_aside_writer(context, kernel, candidate);
  if (writer) {
    candidate->guarded = writer->guarded;
    candidate->break_even = writer->break_even;
    return;
  }
  if (!dense) return;
  branches b;
  if (!branches_of(context, kernel, candidate, dense, &b)) return;
  candidate->guarded = true;
  candidate->break_even = break_even(&b);
}

/* ---- few rows -------------------------------------------------------------------------------- */
static bool asks(const ir_candidate *candidate) {
  const ir_kernel_row *row = ir_kernel_row_named(candidate->row);
  return row && ir_kernel_skips_columns(row);
}

/* The kernel that was asked where the values that this one looks at are wanted; NULL: nobody asked. */
static const ir_candidate *heeded_by(const ir_kernel *kernel, const ir_candidate *looks) {
  for (int i = 0; i < kernel->candidates.count; i++) {
    const ir_candidate *other = kernel->candidates.at[i];
    if (other->verdict == IR_CHOSEN && asks(other) && pass_heeds(looks, other)) return other;
  }
  return NULL;
}

/* Microseconds of the kernel that takes the sample and of those that read what it was asked for, at this cover of a tile's rows; negative: one
 * of these has no dense branch.  `dense`: of the branches. */
static double looking_time(pass_context *context, const ir_kernel *kernel, const ir_candidate *looks, double cover, double *dense) {
  double index, time = 0;
  *dense = looks->operand->role == IR_ROLE_IN && pass_samples_itself(looks) ? context->profile->launch_us : 0; /* the sample has been taken, and leaves; behind a product that is hidden */
  for (int i = 0; i < kernel->candidates.count; i++) {
    const ir_candidate *c = kernel->candidates.at[i];
    pass_sum sum;
    if (c != looks && !pass_heeds(c, looks)) continue;
    const ir_candidate *branch = pass_dense_branch(kernel, c->target);
    if (!branch || !pass_sum_of(context, c->target->def, &sum)) return -1;
    time += pass_candidate_cost(context, &sum, c, cover, &index);
    if (c == looks && heeded_by(kernel, looks)) time += (context->profile->looking_full - 1) * cover * branch->microseconds;
    *dense += branch->microseconds;
  }
  return time;
}

static double looking_break_even(pass_context *context, const ir_kernel *kernel, const ir_candidate *looks) {
  const int halvings = 24;
  double low = 0, high = 1, dense;
  if (context->options && context->options->force_guard == 1) return 2;
  if (context->options && context->options->force_guard == 2) return 0;
  if (looking_time(context, kernel, looks, 0, &dense) >= dense) return 0;
  if (looking_time(context, kernel, looks, 1, &dense) <= dense) return 2;
  for (int i = 0; i < halvings; i++) {
    double middle = (low + high) / 2;
    if (looking_time(context, kernel, looks, middle, &dense) < dense) low = middle;
    else high = middle;
  }
  return low;
}

/* Up to 8 rows are one tile: all of the other matrix is read at most once.  By 16 columns a block it is read as fast as by dense kernels, by more, or where bits say
 * which of its rows are wanted, it is not, which counts where there is much to read. */
bool pass_one_tile_needs_guard(const pass_context *context, const ir_candidate *looks, double dense) {
  const double saved = 5; /* microseconds that the kernel that asks is sooner than a dense one, where its launch goes on with the one before */
  const double longer = asks(looks) ? context->profile->asking_full : context->profile->looking_full;
  const int as_fast = 16; /* columns of a block */
  if (asks(looks) && ir_kernel_row_named(looks->row)->n <= as_fast) return false;
  return (longer - 1) * dense > pass_cheap(dense) + (asks(looks) ? 0 : saved);
}

/* `looks`: the kernel that takes the sample. */
static void guard_looking(pass_context *context, ir_kernel *kernel, ir_candidate *looks) {
  pass_sum sum;
  double dense;
  const ir_candidate *heeded = heeded_by(kernel, looks);
  if (!pass_sum_of(context, looks->target->def, &sum) || looking_time(context, kernel, looks, 0, &dense) < 0) return;
  bool several = pass_is_several_tiles(&sum, looks);
  if (heeded && heeded->guarded) return; /* it takes that verdict, and has it */
  bool needs = asks(looks) || heeded ? several || pass_one_tile_needs_guard(context, looks, dense) : pass_samples_itself(looks);
  if (!needs) return;
  double even = looking_break_even(context, kernel, looks);
  for (int i = 0; i < kernel->candidates.count; i++) {
    ir_candidate *c = kernel->candidates.at[i];
    if (c != looks && !pass_heeds(c, looks)) continue;
    c->guarded = true;
    c->break_even = even;
  }
}

spc_status pass_guard(pass_context *context, ir_kernel *kernel) {
  pass_context_prepare(context);
  for (int i = 0; i < kernel->candidates.count; i++) {
    ir_candidate *candidate = kernel->candidates.at[i];
    if (candidate->verdict != IR_CHOSEN && candidate->verdict != IR_INSTEAD) continue;
    if (!candidate->operand) pass_guard_stored(context, kernel, candidate);
    else if (candidate->axis) guard(context, kernel, candidate);
    else if (pass_looks(candidate)) guard_looking(context, kernel, candidate);
  }
  return SPC_OK;
}
