/* ways_bsr.c - products of a matrix with one that is stored in blocks, which kernels multiply as it lies (kernels/bsr.cuh).
 *
 *     y[t,o] = e(sum[k] x[t,k]*W[o,k])        W: bf16, bsr(64,64); 128 o and the k tiles that they have blocks in
 *
 * A stored block is made of boxes of 64 x 64: nothing is copied, listed or kept.  Beside it stands a dense copy (format_whole.c), which takes
 * the memory of the whole matrix; where both are predicted to take as long the blocks stay as they are. */
#include <math.h>

#include "ir/bsr.h"
#include "ir/image.h"
#include "passes/choice.h"
#include "passes/contract.h"
#include "passes/storage.h"

static bool takes(pass_context *context, const ir_kernel_row *row, const pass_sum *sum) {
  return ir_kernel_reads_bsr(row) && pass_row_fits(row, pass_target_of(context), sum);
}

static const char *misfit(pass_context *context, const pass_sum *sum, const ir_kernel_row *row) {
  ir_bsr bsr;
  const ir_tensor *stored = sum->bsr->tensor;
  const char *why = ir_bsr_of(stored->format, &bsr) ? ir_bsr_misfit(&bsr, pass_dim_of(sum->bsr, sum->k)) : NULL;
  if (why) return ir_format_text(context->arena, "`%s` is not read as it lies: %s", stored->name, why);
  if (context->program->strict_nan) return "strict NaN: no zero may be skipped";
  if (context->program->batch_invariant && ir_kernel_split(row) > 1) return "batch invariance: whether k is split would be chosen by the number of rows";
  if (context->program->batch_invariant && sum->bsr == sum->a)
    return "batch invariance: the order of a row's sum would depend on which blocks its neighbours have";
  return row->align > 1 && !pass_beside_aligned(sum, sum->bsr, row->align) ? pass_alignment_why(context, row) : "";
}

double pass_bsr_cost(pass_context *context, const pass_sum *sum, const ir_kernel_row *row) {
  ir_bsr bsr;
  pass_zeros zeros = pass_zeros_of(context, sum->bsr->tensor);
  pass_product q = pass_sum_product(sum, sum->bsr);
  int k = pass_dim_of(sum->bsr, sum->k);
  if (!ir_bsr_of(sum->bsr->tensor->format, &bsr)) return INFINITY;
  /* A hint speaks of elements or of blocks of its own; stored is what holds one of them. */
  zeros.rows = fmax(zeros.rows, (double)bsr.factor[0]), zeros.cols = fmax(zeros.cols, (double)bsr.factor[1]);
  if (k == 0) {
    double rows = zeros.rows;
    zeros.rows = zeros.cols, zeros.cols = rows;
  }
  pass_tiling tiling = {.row = row, .m = row->m, .n = row->n, .k = row->k};
  tiling.cover = pass_cover(&zeros, zeros.likely, IR_BSR_BOX, row->k);
  tiling.both = pass_cover(&zeros, zeros.likely, row->m, row->k);
  return pass_cost_bsr(context->profile, &q, &tiling);
}

double pass_bsr_best(pass_context *context, const pass_sum *sum) {
  double best = INFINITY;
  for (int i = 0; sum->bsr && i < ir_kernel_row_count; i++) {
    const ir_kernel_row *row = &ir_kernel_rows[i];
    if (takes(context, row, sum) && !*misfit(context, sum, row)) best = fmin(best, pass_bsr_cost(context, sum, row));
  }
  return best;
}

bool pass_bsr_has_tile(const pass_sum *sum, const ir_kernel_row *row, const ir_directive *tile) {
  bool turned = sum->bsr == sum->b;
  for (int i = 0; i < tile->count; i++) {
    bool m = !strcmp(tile->name[i], sum->m_index->name), n = !strcmp(tile->name[i], sum->n_index->name);
    int size = m || n ? (m != turned ? row->m : row->n) : !strcmp(tile->name[i], sum->k->name) ? row->k : 0;
    if (size != tile->size[i]) return false;
  }
  return true;
}

const char *pass_bsr_why_not(pass_context *context, const pass_sum *sum) {
  const char *why = NULL;
  for (int i = 0; sum->bsr && i < ir_kernel_row_count; i++) {
    const ir_kernel_row *row = &ir_kernel_rows[i];
    if (!takes(context, row, sum)) continue;
    why = misfit(context, sum, row);
    if (!*why) return NULL;
  }
  return why;
}

void pass_ways_bsr(pass_context *context, pass_ways *ways) {
  const pass_sum *sum = &ways->sum;
  bool turned = sum->bsr == sum->b;
  for (int i = 0; i < ir_kernel_row_count; i++) {
    const ir_kernel_row *row = &ir_kernel_rows[i];
    if (!takes(context, row, sum)) continue;
    ir_candidate *candidate = pass_candidate_new(context, ways, row->name);
    int split = ir_kernel_split(row);
    candidate->label = ir_format_text(context->arena, "stored blocks of %s, tile %dx%dx%d%s%s", sum->bsr->tensor->name, turned ? row->n : row->m,
                                      turned ? row->m : row->n, row->k, ir_kernel_moves_boxes(row) ? " boxes" : "",
                                      split > 1 ? ir_format_text(context->arena, ", k split in %d", split) : "");
    candidate->why = misfit(context, sum, row);
    candidate->density = pass_zeros_of(context, sum->bsr->tensor).likely;
    pass_candidate_tile(context, candidate, turned ? sum->n_index : sum->m_index, row->m);
    pass_candidate_tile(context, candidate, turned ? sum->m_index : sum->n_index, row->n);
    pass_candidate_tile(context, candidate, sum->k, row->k);
    pass_candidate_estimate(context, sum, candidate);
  }
}
