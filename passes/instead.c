/* instead.c - other lists of the same values, for zeros whose shape nobody has told.
 *
 *     A ~ zeros(dynamic)       candidate C: k lists of A, 128x1    chosen
 *                         ->   candidate C: m of A that hold anything    instead
 *                              candidate C: m of A by blocks of 64 k     instead
 *
 * Lists of k's over strips of rows find nothing where zeros come in whole rows, or in runs along single ones.  Where no hint and no schedule says how zeros
 * come, these are asked one after the other: where the cover of one list says dense, the next is made, and dense is what is left.  A dense branch in front
 * of all of them takes their samples, so that looking costs little more; where none stands in front there is the first list alone. */
#include <math.h>

#include "passes/choice.h"
#include "passes/stage.h"

static const ir_expr *factor_of(const pass_sum *sum, const ir_tensor *tensor) { return sum->a->tensor == tensor ? sum->a : sum->b; }

/* Of an input that is looked at in every run, and of which nothing is known but that it has zeros. */
static bool is_open(const ir_kernel *kernel, const ir_candidate *chosen) {
  const ir_tensor *operand = chosen->operand;
  const ir_pattern *pattern = &operand->pattern;
  bool told = pattern->gran_rows > 0 || pattern->gran_cols > 0, scheduled = pass_schedule_compact(kernel, operand) || pass_schedule_find(kernel, IR_DO_TILE, chosen->target->name);
  return operand->role == IR_ROLE_IN && !operand->constant && !told && !scheduled;
}

static bool is_pinned(const pass_context *context) { return context->options && context->options->pin; }

/* The fastest of the kernels of a kind, at the density that zeros are taken to have; NULL: none takes the operands as they lie. */
typedef ir_candidate *way_of(pass_context *context, pass_ways *ways, const ir_kernel_row *row, const pass_listed *operand);
static ir_candidate *best_of(pass_context *context, pass_ways *ways, const pass_listed *operand, bool (*is)(const ir_kernel_row *row), way_of *way) {
  ir_candidate *best = NULL;
  for (int i = 0; i < ir_kernel_row_count; i++) {
    const ir_kernel_row *row = &ir_kernel_rows[i];
    if (!is(row) || !pass_row_fits(row, pass_target_of(context), &ways->sum)) continue;
    ir_candidate *candidate = way(context, ways, row, operand);
    if (*candidate->why) continue;
    candidate->density = candidate->cover = candidate->density_low = candidate->density_high = pass_zeros_of(context, candidate->operand).likely;
    candidate->microseconds = candidate->expected = pass_candidate_cost(context, &ways->sum, candidate, candidate->cover, &candidate->index_microseconds);
    if (!best || candidate->microseconds < best->microseconds) best = candidate;
  }
  return best;
}

static bool is_live(const ir_kernel_row *row) { return ir_kernel_is_live(row); }
static bool is_krows(const ir_kernel_row *row) { return ir_kernel_is_krows(row); }

static void add(pass_context *context, ir_kernel *kernel, ir_candidate *candidate, const char *how) {
  if (!candidate) return;
  candidate->verdict = IR_INSTEAD;
  candidate->why = ir_format_text(context->arena, "no hint says how zeros of `%s` come: asked where the lists before it say dense, for zeros that come %s", candidate->operand->name, how);
  IR_PUSH(context->arena, &kernel->candidates, candidate);
}

void pass_ways_instead(pass_context *context, ir_kernel *kernel, pass_ways *ways, const ir_candidate *chosen) {
  if (pass_is_quick(context) || is_pinned(context) || !pass_is_packing(chosen) || !is_open(kernel, chosen) ||
      !pass_has_front(context, chosen, pass_dense_branch(kernel, chosen->target)))
    return;
  pass_listed operand = pass_listed_of(context, &ways->sum, (ir_expr *)factor_of(&ways->sum, chosen->operand));
  add(context, kernel, best_of(context, ways, &operand, is_live, pass_rows_way), "in whole rows");
  if (!ways->sum.flattened) add(context, kernel, best_of(context, ways, &operand, is_krows, pass_krows_way), "in runs along single rows");
}
