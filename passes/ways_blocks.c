/* ways_blocks.c - lists of blocks as wide as a box of the copy engine: whole k tiles of a factor, or
 * runs of 64 columns of a result.
 *
 * All data moves by box, so no operand has to lie in a certain way, and nothing is gathered element
 * by element.  They win where zeros come in blocks: single columns cover nearly every one of them.
 * Rows that are alike but do not lie side by side are regrouped first: strips of k blocks are then
 * made of rows in an order that the device finds, A's rows are gathered, T's scattered. */
#include "passes/choice.h"
#include "passes/storage.h"

enum { BOX_COLUMNS = 64 };

ir_candidate *pass_candidate_over(pass_context *context, pass_ways *ways, const ir_kernel_row *row,
                                  const pass_listed *listed, ir_index *across, int64_t gran) {
  ir_candidate *candidate = pass_candidate_new(context, ways, row->name);
  candidate->operand = listed->access->tensor;
  candidate->axis = listed->axis;
  candidate->strip_index = listed->strip_index;
  candidate->strip = row->m;
  candidate->gran = gran;
  pass_candidate_tile(context, candidate, listed->strip_index, row->m);
  pass_candidate_tile(context, candidate, across, row->n);
  pass_candidate_tile(context, candidate, ways->sum.k, row->k);
  if (!pass_rows_aligned(&ways->sum, row->align))
    candidate->why = pass_alignment_why(context, row);
  else if (ways->stmt->acc == IR_F64)
    candidate->why = "its sums are f32, and the statement's are f64";
  return candidate;
}

static bool fits(pass_context *context, const pass_ways *ways, const ir_kernel_row *row) {
  return pass_row_fits(row, pass_target_of(context), &ways->sum);
}

void pass_ways_k_blocks(pass_context *context, pass_ways *ways, const pass_listed *operand) {
  const pass_sum *sum = &ways->sum;
  ir_index *across = operand->strip_index == sum->m_index ? sum->n_index : sum->m_index;
  for (int i = 0; i < ir_kernel_row_count; i++) {
    const ir_kernel_row *row = &ir_kernel_rows[i];
    if (!ir_kernel_k_blocks(row) || !fits(context, ways, row)) continue;
    ir_candidate *candidate = pass_candidate_over(context, ways, row, operand, across, BOX_COLUMNS);
    candidate->regrouped = ir_kernel_regroups(row);
    candidate->label =
        ir_format_text(context->arena, "%s blocks of %s, %dx%d%s, tile %dx%dx%d boxes",
                       operand->axis->name, candidate->operand->name, row->m, BOX_COLUMNS,
                       candidate->regrouped ? ", rows regrouped" : "", row->m, row->n, row->k);
    const char *misfit = candidate->regrouped ? pass_rows_misfit(ways, operand) : NULL;
    if (misfit && !*candidate->why) candidate->why = misfit;
    pass_candidate_estimate(context, sum, candidate);
  }
}

void pass_way_in_rows(const ir_kernel *kernel, pass_ways *ways) {
  pass_way *way = &ways->list.at[ways->list.count - 1];
  if (!pass_layout_is_free(kernel, ways->stmt->target)) return;
  way->turned = ways->stmt->target;
  way->strip_last = false;
}

void pass_ways_n_blocks(pass_context *context, ir_kernel *kernel, pass_ways *ways) {
  pass_listed listed;
  if (!pass_blocks_of(context, kernel, &ways->sum, &listed)) return;
  for (int i = 0; i < ir_kernel_row_count; i++) {
    const ir_kernel_row *row = &ir_kernel_rows[i];
    if (!ir_kernel_n_blocks(row) || !fits(context, ways, row)) continue;
    ir_candidate *candidate = pass_candidate_over(context, ways, row, &listed, listed.axis, BOX_COLUMNS);
    if (listed.cannot && !*candidate->why) candidate->why = listed.cannot;
    candidate->label = ir_format_text(
        context->arena, "blocks where %s is not 0, %dx%d, tile %dx%dx%d boxes",
        candidate->operand->name, row->m, BOX_COLUMNS, row->m, row->n, row->k);
    pass_way_in_rows(kernel, ways);
    pass_candidate_estimate(context, &ways->sum, candidate);
  }
}
