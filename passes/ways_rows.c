/* ways_rows.c - lists of the rows of a factor that hold anything: zeros in whole rows.
 *
 *     C[m,n] = sum[k] A[m,k]*B[k,n]     rows of A that hold nothing make rows of C that are e(0)
 *
 * The listed axis is an index of the result, so sums are whole and nothing is scattered but rows: A's are packed, which
 * moves a small part of one operand once, the product is that of as many rows, and its rows go to their places.  B's columns
 * are the same with m and n exchanged, where they lie each contiguous. */
#include "passes/choice.h"
#include "passes/storage.h"

bool pass_is_live(const ir_candidate *candidate) {
  const ir_kernel_row *row = candidate->row ? ir_kernel_row_named(candidate->row) : NULL;
  return row && candidate->operand && ir_kernel_is_live(row);
}

bool pass_result_ends_in(const ir_stmt *stmt, const ir_index *index) {
  return ir_is_bare(stmt->subs[ir_last_dim(stmt->target)], index);
}

const char *pass_rows_misfit(const pass_ways *ways, const pass_listed *operand) {
  const ir_stmt *stmt = ways->stmt;
  if (stmt->free.count != 2) return "rows are regrouped of one matrix, not of each of a batch";
  if (pass_contiguous_index(operand->access, false) != operand->axis)
    return "the factor is stored with its rows' index contiguous: a row cannot be moved";
  return pass_result_ends_in(stmt, operand->strip_index)
             ? "the result is stored with its rows' index contiguous: a row cannot be moved"
             : NULL;
}

void pass_rows_candidate(pass_context *context, pass_ways *ways, const ir_kernel_row *row, const pass_listed *operand, ir_candidate *candidate) {
  const pass_sum *sum = &ways->sum;
  pass_candidate_tile(context, candidate, candidate->axis, row->m);
  pass_candidate_tile(context, candidate, candidate->axis == sum->m_index ? sum->n_index : sum->m_index, row->n);
  pass_candidate_tile(context, candidate, sum->k, row->k);
  const char *misfit = pass_rows_misfit(ways, operand);
  if (misfit)
    candidate->why = misfit;
  else if (!pass_rows_aligned(sum, row->align))
    candidate->why = pass_alignment_why(context, row);
  else if (ways->stmt->acc == IR_F64)
    candidate->why = "its sums are f32, and the statement's are f64";
  pass_candidate_estimate(context, sum, candidate);
}

/* Rows hold something, nearly always: such lists are shown where the schedule asks for them, or where nobody has told how zeros come and the list would be
 * for one product. */
static bool is_hopeless(const ir_kernel *kernel, const ir_candidate *candidate) {
  const double hopeless = 0.95;
  bool full = pass_is_untold(candidate->operand) ? !pass_reads_alone(kernel, candidate) : candidate->cover > hopeless;
  return full && !pass_schedule_find(kernel, IR_DO_REGROUP, candidate->target->name);
}

static ir_candidate *add(pass_context *context, pass_ways *ways, const ir_kernel_row *row, const pass_listed *operand) {
  ir_candidate *candidate = pass_candidate_new(context, ways, row->name);
  candidate->operand = operand->access->tensor;
  candidate->axis = operand->strip_index;
  candidate->strip = candidate->gran = 1;
  candidate->label = ir_format_text(context->arena, "%s of %s that hold anything, tile %dx%dx%d boxes or smaller",
                                    candidate->axis->name, candidate->operand->name, row->m, row->n, row->k);
  pass_rows_candidate(context, ways, row, operand, candidate);
  if (pass_is_untold(candidate->operand)) { /* what it takes is told of zeros that come so */
    candidate->cover = candidate->density;
    candidate->microseconds = pass_candidate_cost(context, &ways->sum, candidate, candidate->cover, &candidate->index_microseconds);
  }
  return candidate;
}

void pass_ways_rows(pass_context *context, const ir_kernel *kernel, pass_ways *ways, const pass_listed *operand) {
  for (int i = 0; i < ir_kernel_row_count; i++) {
    const ir_kernel_row *row = &ir_kernel_rows[i];
    if (!ir_kernel_is_live(row) || !pass_row_fits(row, pass_target_of(context), &ways->sum)) continue;
    if (is_hopeless(kernel, add(context, ways, row, operand))) ways->list.count--;
  }
}
