/* ways_groups.c - products whose rows come in ragged groups, each with a matrix of its own: experts,
 * batches of sequences, adapters.
 *
 *     h[r,f] = e(sum[d] x[p[r],d] * W[g,d,f])      r in off[g] .. off[g+1]
 *
 * A tile lies in one group.  A row of the table that is high wastes the rest of each group's last
 * tile, one that is low reads the group's matrix more often: the cost decides, groups being taken as
 * equally long (their lengths are not known before they run). */
#include <math.h>

#include "passes/choice.h"

double pass_groups_cost(pass_context *context, const pass_sum *sum, const ir_kernel_row *row) {
  double rows = pass_index_assumed(context, sum->m_index), all = pass_index_assumed(context, sum->segment);
  double groups = fmax(1, fmin(rows, all));
  ir_dtype result = sum->stmt->target->dtype;
  pass_product q = {.batch = groups,
                    .m = ceil(rows / groups),
                    .n = pass_index_assumed(context, sum->n_index),
                    .k = sum->k_size,
                    .a = sum->a->tensor->dtype,
                    .b = sum->b->tensor->dtype,
                    .c = result};
  pass_tiling tiling = {.row = row, .m = row->m, .n = row->n, .k = row->k, .cover = 1};
  return pass_cost_product(context->profile, pass_target_of(context), &q, &tiling);
}

static bool takes(pass_context *context, const ir_kernel_row *row, const pass_sum *sum) {
  return ir_kernel_is_grouped(row) && pass_row_fits(row, pass_target_of(context), sum);
}

/* Rows are stored each contiguous where boxes are loaded. */
static const char *misfit(pass_context *context, const pass_sum *sum, const ir_kernel_row *row) {
  if (!ir_kernel_moves_boxes(row)) return "";
  if (!pass_rows_aligned(sum, row->align))
    return pass_alignment_why(context, row);
  return pass_result_ends_in(sum->stmt, sum->m_index) ? "the result is stored with its rows' index contiguous" : "";
}

void pass_ways_groups(pass_context *context, pass_ways *ways) {
  const pass_sum *sum = &ways->sum;
  if (sum->stmt->acc == IR_F64) return;
  for (int i = 0; i < ir_kernel_row_count; i++) {
    const ir_kernel_row *row = &ir_kernel_rows[i];
    if (!takes(context, row, sum)) continue;
    ir_candidate *candidate = pass_candidate_new(context, ways, row->name);
    candidate->label = ir_format_text(context->arena, "groups of %s, tile %dx%dx%d%s", sum->m_index->name, row->m,
                                      row->n, row->k, ir_kernel_moves_boxes(row) ? " boxes" : "");
    candidate->why = misfit(context, sum, row);
    pass_candidate_tile(context, candidate, sum->m_index, row->m);
    pass_candidate_tile(context, candidate, sum->n_index, row->n);
    pass_candidate_tile(context, candidate, sum->k, row->k);
    pass_candidate_estimate(context, sum, candidate);
  }
}
