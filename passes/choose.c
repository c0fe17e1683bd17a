/* choose.c - the joint decision: one way a statement, over all layouts of the intermediates.
 *
 * Statements interact through the storage of what one writes and another reads: row-major, turned,
 * or turned and packed over the list of its strips.  There are few such tensors, so every
 * combination of their layouts is tried; under one combination statements are independent and each
 * takes its cheapest way.  Beyond MOST_TURNED tensors the rest stays row-major. */
#include <math.h>

#include "passes/attend.h"
#include "passes/contract.h"
#include "passes/stage.h"

enum { MOST_TURNED = 10, MOST_RUNNERS_UP = 3, DENSITIES = 6, CORRELATIONS = 5 };
static const double CHEAP_SHARE = 0.03,
                    CHEAP_MICROSECONDS = 3, /* of looking at zeros, whichever is more */
    FAR_FASTER = 2; /* times as fast as the floor: worth whatever looking in vain costs */
static const double ASKED_FOR =
    1e12; /* microseconds: what a directive asks for wins over any estimate */

/* What may be true of a combination, a bit each: a tensor is turned; or, with a writer, the tensor
 * is packed over lists like the writer's. */
typedef struct turned_set {
  ir_tensor *tensor[MOST_TURNED];
  const ir_candidate *writer[MOST_TURNED];
  int count;
} turned_set;

static int place_of(const turned_set *set, const ir_tensor *tensor, const ir_candidate *writer) {
  for (int i = 0; i < set->count; i++) {
    const ir_candidate *other = set->writer[i];
    if (set->tensor[i] != tensor || !other != !writer) continue;
    if (!writer || (other->strip == writer->strip && other->gran == writer->gran && pass_is_paired(other) == pass_is_paired(writer)))
      return i;
  }
  return -1;
}

static void add_bit(turned_set *set, ir_tensor *tensor, const ir_candidate *writer) {
  if (!tensor || set->count == MOST_TURNED || place_of(set, tensor, writer) >= 0) return;
  set->writer[set->count] = writer;
  set->tensor[set->count++] = tensor;
}

static turned_set turnable(const pass_ways *all, int count) {
  turned_set set = {.count = 0};
  for (int s = 0; s < count; s++)
    for (int i = 0; i < all[s].list.count; i++) {
      const pass_way *way = &all[s].list.at[i];
      if (way->strip_last) add_bit(&set, way->turned, NULL);
      if (way->beside_last) add_bit(&set, way->beside, NULL);
      if (pass_is_sampled(way->candidate) && !*way->candidate->why)
        add_bit(&set, way->candidate->target, way->candidate);
    }
  return set;
}

static bool lies_so(const turned_set *set, unsigned turned, const ir_tensor *tensor, bool last) {
  int place = tensor ? place_of(set, tensor, NULL) : -1;
  return !tensor || (place >= 0 && turned >> place & 1) == last;
}

/* Of a packed tensor the writer computes listed columns, and all readers walk that list. */
static bool fits_packed(const pass_way *way, const ir_stmt *stmt, const turned_set *set,
                        unsigned turned) {
  const ir_candidate *c = way->candidate;
  bool writes = false;
  for (int i = 0; i < set->count; i++) {
    if (!set->writer[i] || !(turned >> i & 1)) continue;
    if (c->target == set->tensor[i]) {
      writes = true;
      if (!pass_is_sampled(c) || place_of(set, c->target, c) != i) return false;
    } else if (pass_stmt_reads(stmt, set->tensor[i]) && !pass_reads_packed(c, set->writer[i])) {
      return false;
    }
  }
  return writes || !pass_is_sampled(c);
}

static bool allowed(const pass_way *way, const ir_stmt *stmt, const turned_set *set,
                    unsigned turned) {
  if (*way->candidate->why || way->struck) return false;
  return lies_so(set, turned, way->turned, way->strip_last) &&
         lies_so(set, turned, way->beside, way->beside_last) && fits_packed(way, stmt, set, turned);
}

/* The dense branch beside a sampled product, and beside who reads it, writes and reads it whole. */
static bool stands_behind(const pass_way *way, const turned_set *set, unsigned turned) {
  if (*way->candidate->why || way->struck) return false;
  return lies_so(set, turned, way->turned, way->strip_last) && !way->candidate->operand && !pass_is_attention(way->candidate);
}

/* ---- what a way is worth --------------------------------------------------------------------- */
static bool is_listed(const ir_candidate *candidate) {
  return candidate->operand && candidate->axis;
}

/* NULL: there is none. */
static const ir_candidate *best_dense(const pass_ways *ways) {
  const ir_candidate *best = NULL;
  for (int i = 0; i < ways->list.count; i++) {
    const ir_candidate *candidate = ways->list.at[i].candidate;
    if (!candidate->operand && !pass_is_library(candidate) && !pass_is_attention(candidate) && !*candidate->why &&
        (!best || candidate->microseconds < best->microseconds))
      best = candidate;
  }
  return best;
}

static double time_of(const ir_candidate *candidate) { return candidate ? candidate->microseconds : INFINITY; }

typedef struct forecast {
  pass_context *context;
  const pass_ways *ways;
  const ir_candidate *candidate;
  pass_zeros zeros;
  double dense, look; /* the branch beside it; what is lost when it is taken */
  double behind;      /* or when it is not */
} forecast;

/* The faster of the two branches: with lists and guard, or dense once it is known to be meant. */
static double guarded(const forecast *f, pass_covers covers) {
  double index;
  double time = pass_candidate_time(f->context, f->ways->is_sum ? &f->ways->sum : NULL,
                                    f->candidate, covers, &index);
  return fmin(time + f->behind, fmin(f->look, index) + f->dense);
}

/* The mean over how alike the rows of a strip are: from independent to all alike, evenly. */
static double over_likeness(const forecast *f, double density) {
  double sum = 0;
  for (int i = 0; i < CORRELATIONS; i++)
    sum += guarded(f, pass_candidate_covers(f->context, f->candidate, &f->zeros, density,
                                            (i + 0.5) / CORRELATIONS));
  return sum / CORRELATIONS;
}

/* Lists whole rows of an operand of which nobody has told how its zeros come: in some cases so, which no likeness of rows says. */
static bool hopes_for_rows(const ir_candidate *candidate) { return pass_is_live(candidate) && pass_is_untold(candidate->operand); }

static double at_density(const forecast *f, double density) {
  double rows = hopes_for_rows(f->candidate) ? f->context->profile->untold_rows : 0, time = over_likeness(f, density);
  return rows > 0 ? (1 - rows) * time + rows * guarded(f, (pass_covers){density, density}) : time;
}

/* The mean over densities between low and high, evenly in their logarithm. */
static double over_densities(const forecast *f) {
  double low = fmax(f->zeros.low, 1e-6), sum = 0;
  if (f->zeros.high <= low * 1.01) return at_density(f, f->zeros.likely);
  for (int i = 0; i < DENSITIES; i++)
    sum += at_density(f, low * pow(f->zeros.high / low, (i + 0.5) / DENSITIES));
  return sum / DENSITIES;
}

static void expect_listed(forecast *f, ir_candidate *candidate) {
  candidate->expected = over_densities(f);
  candidate->density_low = f->zeros.low;
  candidate->density_high = f->zeros.high;
  candidate->microseconds_low = at_density(f, f->zeros.low);
  candidate->microseconds_likely = at_density(f, f->zeros.likely);
  candidate->microseconds_high = at_density(f, f->zeros.high);
}

/* Of all candidates that list nothing, the library too. */
static double floor_of(const pass_ways *ways) {
  double floor = INFINITY;
  for (int i = 0; i < ways->list.count; i++) {
    const ir_candidate *candidate = ways->list.at[i].candidate;
    if (!candidate->operand && !pass_is_attention(candidate) && !*candidate->why) floor = fmin(floor, candidate->microseconds);
  }
  return floor;
}

double pass_cheap(double dense) { return fmax(CHEAP_SHARE * dense, CHEAP_MICROSECONDS); }

/* What a list that is expected to take so long, or a kernel that looks, has to save besides: several times what a run in vain takes beyond the floor. */
static double in_vain(pass_context *context, const pass_ways *ways, double expected, double time) {
  double floor = floor_of(ways);
  return expected > floor / FAR_FASTER ? context->profile->floor_odds * fmax(0, time - floor - pass_cheap(floor)) : 0;
}

/* A guard will stand before the kernel, which looks at zeros itself. */
static bool will_be_guarded(const pass_ways *ways, const ir_candidate *candidate) {
  const ir_stmt *def = candidate->operand->def;
  return pass_is_several_tiles(&ways->sum, candidate) || (pass_samples_itself(candidate) && !(def && ir_asked_matrix(def)));
}

/* Rows that look at zeros themselves: a hint that promised zeros which are not there costs what the row takes where nothing is
 * zero.  That counts up to twice what dense takes: worse is avoided by a better hint, not by a row.  Where a guard will stand
 * before them it costs what dense does. */
static double looking(pass_context *context, const pass_ways *ways, const ir_candidate *candidate, double dense) {
  double index, wrong = context->profile->hint_wrong;
  double full = pass_candidate_cost(context, &ways->sum, candidate, 1, &index);
  bool guarded = will_be_guarded(ways, candidate);
  return (1 - wrong) * candidate->microseconds + wrong * fmin(full, (guarded ? 1 : 2) * dense) + (guarded ? context->profile->skipped_us : 0);
}

/* What such a kernel has to save besides where a caller gives what it looks at: its sample, in vain; behind a product that is hidden. */
static double looking_in_vain(pass_context *context, const pass_ways *ways, const ir_candidate *candidate, double dense) {
  if (!pass_looks(candidate) || candidate->operand->role != IR_ROLE_IN || !will_be_guarded(ways, candidate)) return 0;
  return in_vain(context, ways, candidate->expected, dense + pass_cost_seek_in_vain(context->profile, ways->sum.m / ir_kernel_row_named(candidate->row)->m));
}

static void expect_all(pass_context *context, pass_ways *ways) {
  const ir_candidate *branch = best_dense(ways);
  double dense = time_of(branch);
  for (int i = 0; i < ways->list.count; i++) {
    ir_candidate *candidate = ways->list.at[i].candidate;
    forecast f = {.context = context, .ways = ways, .candidate = candidate, .dense = dense};
    candidate->expected = pass_looks(candidate) ? looking(context, ways, candidate, dense) : candidate->microseconds;
    if (!is_listed(candidate)) continue;
    f.zeros = pass_zeros_of(context, candidate->operand);
    f.look = pass_candidate_look(context, candidate, branch);
    f.behind = pass_candidate_behind(context, candidate, branch);
    expect_listed(&f, candidate);
  }
}

static bool is_pinned(const pass_context *context, const pass_ways *ways,
                      const ir_candidate *candidate) {
  const pass_pin *pin = context->options ? context->options->pin : NULL;
  return pin && !strcmp(pin->target, ways->stmt->target->name) &&
         !strcmp(pin->label, candidate->label);
}

/* Looking that is cheap is worth it as soon as it is expected to win; dear looking has to win by a
 * margin, and by what it takes where it is in vain: several times, as far as that is beyond the floor, unless it is
 * expected to be far faster. */
static void weigh_all(pass_context *context, pass_ways *ways) {
  const ir_candidate *branch = best_dense(ways);
  double dense = time_of(branch);
  for (int i = 0; i < ways->list.count; i++) {
    pass_way *way = &ways->list.at[i];
    double look = is_listed(way->candidate) ? pass_candidate_look(context, way->candidate, branch) : 0, expected = way->candidate->expected;
    double dear = look > pass_cheap(dense) ? expected * fmax(context->profile->guard_margin, look / dense) : 0;
    if (look > 0 && branch && !pass_list_is_fused(context, way->candidate)) dear = fmax(dear, in_vain(context, ways, expected, dense + look));
    way->weight = expected + dear + looking_in_vain(context, ways, way->candidate, dense);
    if (pass_is_quick(context)) way->weight = pass_quick_weight(context, way->candidate);
    if (way->candidate->asked) way->weight -= ASKED_FOR;
    if (is_pinned(context, ways, way->candidate)) way->weight -= 2 * ASKED_FOR;
  }
}

static int cheapest(const pass_ways *ways, const turned_set *set, unsigned turned) {
  int best = -1;
  for (int i = 0; i < ways->list.count; i++) {
    const pass_way *way = &ways->list.at[i];
    if (!allowed(way, ways->stmt, set, turned)) continue;
    if (best < 0 || way->weight < ways->list.at[best].weight) best = i;
  }
  return best;
}

/* The operand was written over the list that the candidate walks: the list is there. */
static bool has_its_list(const ir_candidate *candidate, const turned_set *set, unsigned turned) {
  for (int i = 0; i < set->count; i++)
    if (set->writer[i] && turned >> i & 1 && pass_reads_packed(candidate, set->writer[i]))
      return true;
  return false;
}

static double total(const pass_ways *all, int count, const turned_set *set, unsigned turned) {
  double sum = 0;
  for (int s = 0; s < count; s++) {
    int best = cheapest(&all[s], set, turned);
    if (best < 0) return INFINITY;
    const pass_way *way = &all[s].list.at[best];
    sum += way->weight;
    if (has_its_list(way->candidate, set, turned)) sum -= way->candidate->index_microseconds;
  }
  return sum;
}

/* ---- verdicts -------------------------------------------------------------------------------- */
/* What a directive asks for and what the estimates say is told apart only where they differ, so
 * that the schedule of a choice, fed back, leaves the same table. */
static bool only_asked(const pass_ways *ways, const pass_way *winner) {
  for (int i = 0; winner->candidate->asked && i < ways->list.count; i++) {
    const pass_way *other = &ways->list.at[i];
    if (other != winner && !*other->candidate->why && !other->candidate->asked &&
        other->weight < winner->weight + ASKED_FOR)
      return true;
  }
  return false;
}

static const pass_way *nearest_of_other_kind(const pass_ways *ways, const pass_way *winner) {
  const pass_way *next = NULL;
  for (int i = 0; i < ways->list.count; i++) {
    const pass_way *other = &ways->list.at[i];
    bool other_kind = is_listed(other->candidate) != is_listed(winner->candidate);
    if (*other->candidate->why || !other_kind) continue;
    if (!next || other->candidate->expected < next->candidate->expected) next = other;
  }
  return next;
}

static const char *range_text(pass_context *context, const ir_candidate *a, const ir_candidate *b) {
  const ir_candidate *listed = is_listed(a) ? a : b;
  if (listed->density_high <= listed->density_low * 1.01) return "expected";
  return ir_format_text(context->arena, "expected over densities %.3g to %.3g", listed->density_low,
                        listed->density_high);
}

static const char *no_choice_why(pass_context *context, const pass_ways *ways) {
  if (ways->list.count > 1) return "the cheapest of its kernels";
  if (ways->is_sum && ways->sum.not_matrices)
    return ir_format_text(context->arena, "generated for it: %s%s", ways->sum.not_matrices,
                          pass_teams_take_entries(context, &ways->sum) ? "; teams of threads take its entries, however long rows are" : "");
  return "generated for it";
}

static const char *chosen_why(pass_context *context, const pass_ways *ways,
                              const pass_way *winner) {
  const pass_way *next = nearest_of_other_kind(ways, winner);
  if (pass_is_attention(winner->candidate)) return pass_attend_why(context, ways, winner->candidate);
  if (pass_is_quick(context)) return pass_quick_why(context, winner->candidate);
  if (only_asked(ways, winner)) return "the schedule asks for it";
  if (ways->sum.bsr && ir_kernel_row_named(winner->candidate->row))
    return ir_format_text(context->arena, "the blocks of `%s` are multiplied as they lie: nothing is copied, listed or kept", ways->sum.bsr->tensor->name);
  if (ways->sum.sdd && ir_kernel_row_named(winner->candidate->row))
    return ir_format_text(context->arena, "the stored blocks of `%s` alone are computed, and go where its own lie", ways->sum.sdd->name);
  if (!next) return no_choice_why(context, ways);
  const ir_candidate *chosen = winner->candidate, *other = next->candidate;
  return ir_format_text(context->arena, "%s %s, against %s for %s",
                        pass_time_text(context->arena, chosen->expected),
                        range_text(context, chosen, other),
                        pass_time_text(context->arena, other->expected), other->label);
}

/* Attention, or what would stand in its place: the statements before it count. */
static const char *apart_why(pass_context *context, const pass_way *way, double before, const pass_way *winner) {
  const char *time = pass_time_text(context->arena, way->candidate->expected);
  double ratio = (way->candidate->expected + before) / fmax(1e-9, winner->candidate->expected);
  if (!pass_is_attention(way->candidate))
    return ir_format_text(context->arena, "%s, %.2f times the chosen one with what stands before it", time, ratio);
  return ir_format_text(context->arena, "%s, against %s for stages of their own", time,
                        pass_time_text(context->arena, winner->candidate->expected + before));
}

static const char *lost_why(pass_context *context, const pass_way *way, const pass_ways *ways,
                            const pass_way *winner, const turned_set *set, unsigned turned) {
  const ir_stmt *stmt = ways->stmt;
  double ratio = way->candidate->expected / fmax(1e-9, winner->candidate->expected);
  const char *time = pass_time_text(context->arena, way->candidate->expected);
  if (pass_is_attention(way->candidate) != pass_is_attention(winner->candidate) && !way->struck)
    return apart_why(context, way, ways->before, winner);
  if (way->struck && ratio < 1) return way->struck;
  if (!way->struck && ratio < 1 && way->turned &&
      !lies_so(set, turned, way->turned, way->strip_last))
    return ir_format_text(context->arena,
                          "%s, but it needs %s, with which the statements together are slower",
                          time, way->candidate->formats);
  if (!way->struck && ratio < 1 && !allowed(way, stmt, set, turned))
    return ir_format_text(context->arena,
                          "%s, but with its lists the statements together are slower", time);
  if (ratio < 1)
    return pass_is_quick(context) ? pass_quick_why(context, way->candidate)
           : winner->candidate->asked
               ? "the schedule asks for another"
               : "faster on paper, but by less than looking at the zeros costs";
  return ratio < 1.005
             ? time
             : ir_format_text(context->arena, "%s, %.2f times the chosen one", time, ratio);
}

/* Makes the cheapest candidate that walks the same lists, or none, a runner-up. */
static bool next_best(pass_ways *ways, const turned_set *set, unsigned turned,
                      const ir_candidate *like) {
  ir_candidate *best = NULL;
  for (int i = 0; i < ways->list.count; i++) {
    const pass_way *way = &ways->list.at[i];
    ir_candidate *candidate = way->candidate;
    if (candidate->verdict != IR_REJECTED) continue;
    if (like ? !allowed(way, ways->stmt, set, turned) : !stands_behind(way, set, turned)) continue;
    if (pass_is_library(candidate)) continue; /* it never stands in, nor behind a guard */
    if (like && (candidate->operand != like->operand || candidate->strip != like->strip ||
                 candidate->gran != like->gran || candidate->axis != like->axis ||
                 candidate->regrouped != like->regrouped || pass_is_krows(candidate) || pass_is_krows(like) || pass_is_paired(candidate) != pass_is_paired(like) ||
                 pass_is_attention(candidate) != pass_is_attention(like)))
      continue;
    if (!best || candidate->microseconds < best->microseconds) best = candidate;
  }
  if (best) best->verdict = IR_RUNNER_UP;
  return best != NULL;
}

/* Whichever of the two is chosen, a guard may want the other: an operand that is walked, or written out. */
static int stored_branch(pass_ways *ways, const ir_candidate *chosen) {
  for (int i = 0; i < ways->list.count && !chosen->expanded && !chosen->operand; i++) {
    const pass_way *way = &ways->list.at[i];
    if (!way->candidate->expanded || *way->candidate->why || way->struck) continue;
    way->candidate->verdict = IR_RUNNER_UP;
    return 1;
  }
  return 0;
}

static void rank(pass_context *context, pass_ways *ways, const turned_set *set, unsigned turned,
                 int winner) {
  ir_candidate *chosen = ways->list.at[winner].candidate;
  chosen->why = chosen_why(context, ways, &ways->list.at[winner]);
  if (hopes_for_rows(chosen) && !chosen->asked)
    chosen->why = ir_format_text(context->arena, "%s; nobody has told how zeros of `%s` come: in %.0f %% of all cases whole rows of it are taken to be zero", chosen->why,
                                 chosen->operand->name, 100 * context->profile->untold_rows);
  chosen->verdict = IR_CHOSEN;
  int place = stored_branch(ways, chosen);
  if (chosen->operand && next_best(ways, set, turned, NULL)) place++; /* the dense branch */
  while (place < MOST_RUNNERS_UP && next_best(ways, set, turned, chosen)) place++;
  for (int i = 0; i < ways->list.count; i++) {
    ir_candidate *candidate = ways->list.at[i].candidate;
    if (candidate != chosen && !*candidate->why)
      candidate->why =
          lost_why(context, &ways->list.at[i], ways, &ways->list.at[winner], set, turned);
  }
  for (int i = 0; i < ways->list.count; i++) ways->list.at[i].candidate->asked = false;
}

/* A list that is there costs its reader nothing. */
static void drop_lists(ir_candidate *chosen, const turned_set *set, unsigned turned) {
  if (!has_its_list(chosen, set, turned)) return;
  chosen->microseconds -= chosen->index_microseconds;
  chosen->expected -= chosen->index_microseconds;
  chosen->index_microseconds = 0;
}

/* ---- one launch for two statements ------------------------------------------------------------ */
static const pass_way *way_at(const pass_ways *ways, int number) {
  return number >= 0 ? &ways->list.at[number] : NULL;
}

/* The row that streams what says where the next statement is asked for. */
static const ir_kernel_row *streaming_row(const pass_way *way) {
  const ir_kernel_row *row = way ? ir_kernel_row_named(way->candidate->row) : NULL;
  if (!row || !ir_kernel_streams(row) || !way->candidate->tiles.count) return NULL;
  return way->candidate->tiles.at[0].size == row->m ? row : NULL; /* else it is turned */
}

/* Columns that only some rows ask for, with the tile of the launch that finds out which: the same blocks compute both
 * (codegen's cuda_join.c), and there is a launch less.  Whether that is expected to be faster: winner[s] is that way then. */
static bool join(pass_context *context, const pass_ways *all, int *winner, int s, const turned_set *set,
                 unsigned turned) {
  const pass_way *way = way_at(&all[s], winner[s]), *before = s ? way_at(&all[s - 1], winner[s - 1]) : NULL;
  const ir_kernel_row *row = way ? ir_kernel_row_named(way->candidate->row) : NULL;
  const ir_kernel_row *first = streaming_row(before);
  if (!row || !first || !ir_kernel_skips_columns(row) || way->weight < 0 ||
      way->candidate->operand != all[s - 1].stmt->target)
    return false;
  for (int i = 0; i < all[s].list.count; i++) {
    ir_candidate *other = all[s].list.at[i].candidate;
    row = ir_kernel_row_named(other->row);
    if (!row || !ir_kernel_skips_columns(row) || row->m != first->m || row->n != first->n ||
        other->operand != way->candidate->operand || !allowed(&all[s].list.at[i], all[s].stmt, set, turned))
      continue;
    double time = pass_candidate_joined(context, &all[s].sum, other);
    if (time >= way->candidate->expected) continue;
    other->microseconds = other->expected = time;
    winner[s] = i;
    return true;
  }
  return false;
}

static bool is_always_multiple(const ir_expr *extent, int64_t step) {
  if (extent->kind == IR_CONST) return extent->i % step == 0;
  if (extent->kind != IR_DIM) return false;
  return (extent->dim->value >= 0 ? extent->dim->value : extent->dim->multiple) % step == 0;
}

/* An intermediate turned round: on a GPU its rows start at multiples of so many bytes whatever the sizes are, or boxes of it could not be
 * moved, or would touch two lines for one.  What lies behind the last of a row is no element; only sums that are not stored meet it. */
static void lay_turned(pass_context *context, ir_tensor *tensor, int64_t bytes) {
  const char *why = NULL;
  const int64_t step = bytes / (int64_t)ir_dtype_bytes(tensor->dtype);
  tensor->format = ir_format_builtin(context->arena, "dense_t", tensor->rank, NULL, 0, &why);
  if (pass_target_of(context)->kind == IR_TARGET_CUDA && step > 1 && !is_always_multiple(tensor->dim[0], step))
    tensor->dim[0] = ir_round_up(context->arena, tensor->dim[0], step);
}

/* Rows that skip k's behind columns that were asked for: bits say which k's there are (stage.c), and values are read at
 * those alone.  Where nothing else reads it the tensor lies so that the rows of a k are side by side. */
static void settle_noted(pass_context *context, const ir_kernel *kernel, const pass_ways *all, int count,
                         const int *winner, int s) {
  const pass_way *way = way_at(&all[s], winner[s]);
  const ir_kernel_row *row = way ? ir_kernel_row_named(way->candidate->row) : NULL;
  const pass_sum *sum = &all[s].sum;
  if (!row || !ir_kernel_skips(row) || ir_kernel_skips_columns(row) || row->m == 1 || sum->m < row->m) return;
  const ir_candidate *behind = pass_dense_branch(kernel, all[s].stmt->target); /* of one tile it would read 16 bytes at a time */
  if (sum->m <= row->m && behind && pass_one_tile_needs_guard(context, way->candidate, behind->microseconds)) return;
  ir_tensor *tensor = way->candidate->operand;
  int readers = 0;
  bool known = false;
  for (int i = 0; i < kernel->stmts.count; i++) readers += pass_stmt_reads(kernel->stmts.at[i], tensor);
  for (int i = 0; i < count; i++) {
    const pass_way *other = way_at(&all[i], winner[i]);
    const ir_kernel_row *made_by = other ? ir_kernel_row_named(other->candidate->row) : NULL;
    known |= all[i].stmt->target == tensor && made_by && ir_kernel_skips_columns(made_by);
  }
  if (!known || readers != 1 || !pass_layout_is_free(kernel, tensor) || pass_dim_of(sum->a, sum->k) != 1) return;
  lay_turned(context, tensor, PASS_BOX_BYTES);
  tensor->format_why = "its consumer reads it where bits say, all rows of a tile at once";
  way->candidate->formats = ir_format_text(context->arena, "%s=dense_t", tensor->name);
}

static void say_joined(pass_context *context, ir_candidate *chosen) {
  chosen->why = ir_format_text(context->arena, "%s; the blocks that make `%s` go on with it, in one launch", chosen->why,
                               chosen->operand->name);
}

/* ---- taking it ------------------------------------------------------------------------------- */
static void turn(pass_context *context, const turned_set *set, unsigned turned) {
  for (int i = 0; i < set->count; i++) {
    if (!(turned >> i & 1)) continue;
    ir_tensor *tensor = set->tensor[i];
    if (set->writer[i]) {
      tensor->format_why = "packed: its columns are written over the list that its consumer walks";
      continue;
    }
    lay_turned(context, tensor, PASS_LINE_BYTES);
    tensor->format_why =
        "its consumer gathers it by index lists: the strips lie contiguous, and its producer "
        "writes it so for nothing";
  }
}

static void add_to_table(pass_context *context, ir_kernel *kernel, const pass_ways *ways) {
  for (int verdict = IR_CHOSEN; verdict <= IR_REJECTED; verdict++)
    for (int i = 0; i < ways->list.count; i++)
      if (ways->list.at[i].candidate->verdict == (ir_verdict)verdict)
        IR_PUSH(context->arena, &kernel->candidates, ways->list.at[i].candidate);
}

void pass_ways_choose(pass_context *context, ir_kernel *kernel, pass_ways *all, int count) {
  turned_set set = turnable(all, count);
  for (int s = 0; s < count; s++) {
    expect_all(context, &all[s]);
    weigh_all(context, &all[s]);
  }
  pass_attend_weigh(context, kernel, all, count);
  unsigned best = 0;
  double least = total(all, count, &set, 0);
  for (unsigned turned = 1; turned < 1u << set.count; turned++) {
    double sum = total(all, count, &set, turned);
    if (sum < least) least = sum, best = turned;
  }
  int *winner = IR_NEW_ARRAY(context->arena, int, count + 1);
  for (int s = 0; s < count; s++) winner[s] = cheapest(&all[s], &set, best);
  for (int s = 0; s < count; s++) {
    bool joined = join(context, all, winner, s, &set, best);
    if (winner[s] >= 0) pass_ways_instead(context, kernel, &all[s], all[s].list.at[winner[s]].candidate, best_dense(&all[s]));
    if (winner[s] >= 0) rank(context, &all[s], &set, best, winner[s]);
    if (winner[s] >= 0) drop_lists(all[s].list.at[winner[s]].candidate, &set, best);
    if (joined) say_joined(context, all[s].list.at[winner[s]].candidate);
    if (winner[s] >= 0) pass_attend_say_noted(context, kernel, &all[s], all[s].list.at[winner[s]].candidate);
    add_to_table(context, kernel, &all[s]);
  }
  turn(context, &set, best);
  for (int s = 0; s < count; s++) settle_noted(context, kernel, all, count, winner, s);
}
