/* ways_krows.c - lists of the rows that hold anything in each block of k.
 *
 *     C[m,n] = sum[k] A[m,k]*B[k,n]     a block of 64 k's is multiplied with the rows of A that are not zero in it
 *
 * Zeros of single rows that come in runs along k leave no strip of rows a k to spare, and rows need not be alike: of each block
 * of k the rows are listed for themselves.  What a block adds to a row is a part of its sum, so a tile is so many rows that
 * nearly every block has some, and so few columns that the sums of all fit on chip.  B's columns are the same with m and n
 * exchanged, where they lie each contiguous. */
#include "passes/choice.h"

bool pass_is_krows(const ir_candidate *candidate) {
  const ir_kernel_row *row = candidate->row ? ir_kernel_row_named(candidate->row) : NULL;
  return row && candidate->operand && ir_kernel_is_krows(row);
}

static bool is_asked(const ir_kernel *kernel, const ir_candidate *candidate) {
  const ir_directive *tile = pass_schedule_find(kernel, IR_DO_TILE, candidate->target->name);
  for (int i = 0; tile && i < tile->count; i++)
    if (!strcmp(tile->name[i], candidate->axis->name) && tile->size[i] == ir_kernel_row_named(candidate->row)->m) return true;
  return false;
}

/* Only a hint of runs along k says that a block leaves rows out; where rows are alike, or hold nothing at all, others serve.
 * Else such lists are shown where the schedule asks for their tile. */
static bool is_hopeless(const pass_context *context, const ir_kernel *kernel, const ir_candidate *candidate) {
  const double run = 32, alike = 8;
  pass_zeros of = pass_zeros_of(context, candidate->operand), zeros = pass_zeros_across(candidate, &of);
  bool runs = zeros.known && zeros.rows >= run && zeros.rows < pass_index_assumed(context, candidate->strip_index) && zeros.cols <= alike;
  return !runs && !is_asked(kernel, candidate);
}

static void add(pass_context *context, pass_ways *ways, const ir_kernel_row *row, const pass_listed *operand) {
  const pass_sum *sum = &ways->sum;
  ir_candidate *candidate = pass_candidate_new(context, ways, row->name);
  candidate->operand = operand->access->tensor;
  candidate->axis = operand->strip_index;
  candidate->strip_index = sum->k;
  candidate->strip = row->k;
  candidate->gran = 1;
  candidate->label = ir_format_text(context->arena, "%s of %s by blocks of %d %s, tile %dx%dx%d boxes", candidate->axis->name, candidate->operand->name, row->k,
                                    sum->k->name, row->m, row->n, row->k);
  pass_rows_candidate(context, ways, row, operand, candidate);
}

void pass_ways_krows(pass_context *context, const ir_kernel *kernel, pass_ways *ways, const pass_listed *operand) {
  for (int i = 0; i < ir_kernel_row_count; i++) {
    const ir_kernel_row *row = &ir_kernel_rows[i];
    if (!ir_kernel_is_krows(row) || ways->sum.flattened || !pass_row_fits(row, pass_target_of(context), &ways->sum)) continue;
    add(context, ways, row, operand);
    if (is_hopeless(context, kernel, ways->list.at[ways->list.count - 1].candidate)) ways->list.count--;
  }
}
