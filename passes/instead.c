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

bool pass_is_untold(const ir_tensor *operand) {
  const ir_pattern *pattern = &operand->pattern;
  return operand->role == IR_ROLE_IN && !operand->constant && pattern->zeros == IR_ZEROS_DYNAMIC && !ir_pattern_has_gran(pattern);
}

bool pass_reads_alone(const ir_kernel *kernel, const ir_candidate *candidate) {
  for (int i = 0; i < kernel->stmts.count; i++)
    if (kernel->stmts.at[i]->target != candidate->target && pass_stmt_reads(kernel->stmts.at[i], candidate->operand)) return false;
  return true;
}

/* The fastest over whole rows; NULL: none takes the operands as they lie, in a tile that the schedule names. */
static ir_candidate *best_of_rows(const pass_ways *ways, const ir_tensor *operand) {
  ir_candidate *best = NULL;
  for (int i = 0; i < ways->list.count; i++) {
    const pass_way *way = &ways->list.at[i];
    bool takes = pass_is_live(way->candidate) && way->candidate->operand == operand && !*way->candidate->why && !way->struck;
    if (takes && (!best || way->candidate->expected < best->expected)) best = way->candidate;
  }
  return best;
}

void pass_ways_instead(pass_context *context, const ir_kernel *kernel, const pass_ways *ways, const ir_candidate *chosen, const ir_candidate *dense) {
  bool pinned = context->options && context->options->pin, open = chosen->operand && pass_is_untold(chosen->operand) && pass_can_be_sampled(context, chosen->operand);
  if (pinned || !open || !pass_is_packing(chosen) || !pass_reads_alone(kernel, chosen) || !pass_has_front(context, chosen, dense)) return;
  ir_candidate *rows = best_of_rows(ways, chosen->operand);
  if (!rows) return;
  rows->verdict = IR_INSTEAD;
  rows->why = ir_format_text(context->arena, "nobody has told how zeros of `%s` come: taken where whole rows of it are zero, by the samples of both lists", chosen->operand->name);
}
