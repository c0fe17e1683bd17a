/* choose.c - the joint decision: one way a statement, over all layouts of the intermediates.
 *
 * Statements interact through the storage of what one writes and another reads.  There are few such
 * tensors, so every combination of their layouts is tried; under one combination statements are independent
 * and each takes its cheapest way.  Beyond MOST_TURNED tensors the rest stays row-major. */
#include <math.h>

#include "passes/choice.h"

enum { MOST_TURNED = 10, MOST_RUNNERS_UP = 3 };
static const double ASKED_FOR = 1e12; /* microseconds: what a directive asks for wins over any estimate */

typedef struct turned_set {
  ir_tensor *tensor[MOST_TURNED];
  int count;
} turned_set;

static int place_of(const turned_set *set, const ir_tensor *tensor) {
  for (int i = 0; i < set->count; i++)
    if (set->tensor[i] == tensor) return i;
  return -1;
}

static turned_set turnable(const pass_ways *all, int count) {
  turned_set set = {.count = 0};
  for (int s = 0; s < count; s++)
    for (int i = 0; i < all[s].list.count; i++) {
      ir_tensor *tensor = all[s].list.at[i].turned;
      if (tensor && all[s].list.at[i].strip_last && place_of(&set, tensor) < 0 && set.count < MOST_TURNED)
        set.tensor[set.count++] = tensor;
    }
  return set;
}

static bool allowed(const pass_way *way, const turned_set *set, unsigned turned) {
  if (*way->candidate->why || way->struck) return false;
  if (!way->turned) return true;
  int place = place_of(set, way->turned);
  bool is_turned = place >= 0 && turned >> place & 1;
  return is_turned == way->strip_last;
}

/* A sparse way has to win by a margin: it brings launches and a branch. */
static double weight(const pass_context *context, const ir_candidate *candidate) {
  bool listed = candidate->operand && candidate->axis;
  double time = candidate->microseconds * (listed ? 1 + context->profile->guard_margin : 1);
  return candidate->asked ? time - ASKED_FOR : time;
}

static int cheapest(const pass_context *context, const pass_ways *ways, const turned_set *set, unsigned turned) {
  int best = -1;
  for (int i = 0; i < ways->list.count; i++) {
    const pass_way *way = &ways->list.at[i];
    if (!allowed(way, set, turned)) continue;
    if (best < 0 || weight(context, way->candidate) < weight(context, ways->list.at[best].candidate)) best = i;
  }
  return best;
}

static double total(const pass_context *context, const pass_ways *all, int count, const turned_set *set,
                    unsigned turned) {
  double sum = 0;
  for (int s = 0; s < count; s++) {
    int best = cheapest(context, &all[s], set, turned);
    if (best < 0) return INFINITY;
    sum += weight(context, all[s].list.at[best].candidate);
  }
  return sum;
}

/* ---- verdicts ----------------------------------------------------------------------------------- */
/* What a directive asks for and what the estimates say is told apart only where they differ, so that the
 * schedule of a choice, fed back, leaves the same table. */
static const char *chosen_why(pass_context *context, const pass_ways *ways, const ir_candidate *winner) {
  const ir_candidate *next = NULL;
  for (int i = 0; i < ways->list.count; i++) {
    const ir_candidate *other = ways->list.at[i].candidate;
    bool other_kind = (other->operand != NULL) != (winner->operand != NULL);
    if (other != winner && !*other->why && other_kind && (!next || other->microseconds < next->microseconds))
      next = other;
  }
  for (int i = 0; winner->asked && i < ways->list.count; i++) {
    const ir_candidate *other = ways->list.at[i].candidate;
    if (other != winner && !*other->why && weight(context, other) < weight(context, winner) + ASKED_FOR)
      return "the schedule asks for it";
  }
  if (!next) return "the cheapest of its kernels";
  return ir_format_text(context->arena, "%.3g us predicted, against %.3g us for %s", winner->microseconds,
                        next->microseconds, next->label);
}

static const char *lost_why(pass_context *context, const pass_way *way, const ir_candidate *winner,
                            const turned_set *set, unsigned turned) {
  double ratio = way->candidate->microseconds / fmax(1e-9, winner->microseconds);
  if (way->struck && ratio < 1) return way->struck;
  if (!way->struck && !allowed(way, set, turned))
    return ir_format_text(context->arena, "it needs %s, and another statement is faster with the other layout",
                          way->candidate->formats);
  if (ratio < 1) return winner->asked ? "the schedule asks for another"
                                      : "faster on paper, but by less than the margin a guard costs";
  return ir_format_text(context->arena, "%.3g us predicted, %.2f times the chosen one",
                        way->candidate->microseconds, ratio);
}

/* Makes the cheapest candidate that walks the same lists, or none, a runner-up. */
static bool next_best(pass_ways *ways, const turned_set *set, unsigned turned, const ir_candidate *like) {
  ir_candidate *best = NULL;
  for (int i = 0; i < ways->list.count; i++) {
    const pass_way *way = &ways->list.at[i];
    ir_candidate *candidate = way->candidate;
    if (candidate->verdict != IR_REJECTED || !allowed(way, set, turned)) continue;
    if (like ? candidate->operand != like->operand || candidate->strip != like->strip : candidate->operand != NULL)
      continue;
    if (!best || candidate->microseconds < best->microseconds) best = candidate;
  }
  if (best) best->verdict = IR_RUNNER_UP;
  return best != NULL;
}

static void rank(pass_context *context, pass_ways *ways, const turned_set *set, unsigned turned, int winner) {
  ir_candidate *chosen = ways->list.at[winner].candidate;
  chosen->why = chosen_why(context, ways, chosen);
  chosen->verdict = IR_CHOSEN;
  int place = 0;
  if (chosen->operand && next_best(ways, set, turned, NULL)) place++; /* the dense branch */
  while (place < MOST_RUNNERS_UP && next_best(ways, set, turned, chosen)) place++;
  for (int i = 0; i < ways->list.count; i++) {
    ir_candidate *candidate = ways->list.at[i].candidate;
    if (candidate != chosen && !*candidate->why)
      candidate->why = lost_why(context, &ways->list.at[i], chosen, set, turned);
  }
  for (int i = 0; i < ways->list.count; i++) ways->list.at[i].candidate->asked = false;
}

/* ---- taking it ---------------------------------------------------------------------------------- */
static void turn(pass_context *context, const turned_set *set, unsigned turned) {
  for (int i = 0; i < set->count; i++) {
    if (!(turned >> i & 1)) continue;
    const char *why = NULL;
    ir_tensor *tensor = set->tensor[i];
    tensor->format = ir_format_builtin(context->arena, "dense_t", tensor->rank, NULL, 0, &why);
    tensor->format_why = "its consumer gathers it by index lists: the strips lie contiguous, and its producer "
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
  unsigned best = 0;
  double least = total(context, all, count, &set, 0);
  for (unsigned turned = 1; turned < 1u << set.count; turned++) {
    double sum = total(context, all, count, &set, turned);
    if (sum < least) least = sum, best = turned;
  }
  for (int s = 0; s < count; s++) {
    int winner = cheapest(context, &all[s], &set, best);
    if (winner >= 0) rank(context, &all[s], &set, best, winner);
    add_to_table(context, kernel, &all[s]);
  }
  turn(context, &set, best);
}
