/* instead.c - a second list of the same values, for zeros of which nobody has told how they come.
 *
 *     A ~ zeros(dynamic)       candidate C: k lists of A, 128x1             chosen
 *                         ->   candidate C: m of A that hold anything       instead
 *
 * Lists of k's over strips of rows find nothing where zeros come in whole rows: padding, rows that are sent elsewhere.  Where neither hint nor schedule says
 * how zeros come, the dense branch in front of the list takes the samples of both, and leaves it to the one whose cover is further below its break-even; the
 * other one's launches leave.  Where no dense branch stands in front there is the first list alone. */
#include "passes/choice.h"
#include "passes/stage.h"

/* Of an input that is looked at in every run, and of which nothing is known but that it has zeros. */
static bool is_open(pass_context *context, const ir_tensor *operand) {
  const ir_pattern *pattern = &operand->pattern;
  bool told = pattern->gran_rows > 0 || pattern->gran_cols > 0;
  return operand->role == IR_ROLE_IN && !operand->constant && !told && pass_can_be_sampled(context, operand);
}

/* Two lists are for one reader. */
static bool is_read_alone(const ir_kernel *kernel, const ir_candidate *chosen) {
  for (int i = 0; i < kernel->stmts.count; i++)
    if (kernel->stmts.at[i]->target != chosen->target && pass_stmt_reads(kernel->stmts.at[i], chosen->operand)) return false;
  return true;
}

static bool is_pinned(const pass_context *context) { return context->options && context->options->pin; }

/* The fastest of the kernels, at the density that zeros are taken to have; NULL: none takes the operands as they lie, in a tile that the schedule names. */
static ir_candidate *best_of_rows(pass_context *context, const ir_kernel *kernel, pass_ways *ways, const pass_listed *operand) {
  const ir_directive *tile = pass_schedule_find(kernel, IR_DO_TILE, ways->stmt->target->name);
  ir_candidate *best = NULL;
  for (int i = 0; i < ir_kernel_row_count; i++) {
    const ir_kernel_row *row = &ir_kernel_rows[i];
    if (!ir_kernel_is_live(row) || !pass_row_fits(row, pass_target_of(context), &ways->sum)) continue;
    ir_candidate *candidate = pass_rows_way(context, ways, row, operand);
    if (*candidate->why || (tile && !pass_candidate_has_tile(candidate, tile))) continue;
    candidate->density = candidate->cover = candidate->density_low = candidate->density_high = pass_zeros_of(context, candidate->operand).likely;
    candidate->microseconds = candidate->expected = pass_candidate_cost(context, &ways->sum, candidate, candidate->cover, &candidate->index_microseconds);
    if (!best || candidate->microseconds < best->microseconds) best = candidate;
  }
  return best;
}

void pass_ways_instead(pass_context *context, ir_kernel *kernel, pass_ways *ways, const ir_candidate *chosen) {
  if (pass_is_quick(context) || is_pinned(context) || !pass_is_packing(chosen) || !is_open(context, chosen->operand) || !is_read_alone(kernel, chosen) ||
      !pass_has_front(context, chosen, pass_dense_branch(kernel, chosen->target)))
    return;
  ir_expr *factor = ways->sum.a->tensor == chosen->operand ? ways->sum.a : ways->sum.b;
  pass_listed operand = pass_listed_of(context, &ways->sum, factor);
  ir_candidate *rows = best_of_rows(context, kernel, ways, &operand);
  if (!rows) return;
  rows->verdict = IR_INSTEAD;
  rows->why = ir_format_text(context->arena, "nobody has told how zeros of `%s` come: taken where whole rows of it are zero, by the samples of both lists", chosen->operand->name);
  IR_PUSH(context->arena, &kernel->candidates, rows);
}
