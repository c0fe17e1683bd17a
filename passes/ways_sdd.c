/* ways_sdd.c - products of dense matrices into the stored blocks of an input (sampled dense-dense products: SDDMM by blocks).
 *
 *     C[i,j] = e(sum[k] A[i,k]*B[j,k]) on S[i,j] as like(S)        S: bsr(64,64); of a block row 256 stored columns a tile
 *
 * Which blocks there are is written in S's coordinates: nothing is detected or listed, and no tile is computed that is not stored.  Runs of 64
 * columns of a tile come from wherever their blocks stand, and go where the blocks lie. */
#include <math.h>

#include "ir/bsr.h"
#include "passes/choice.h"

static bool takes(pass_context *context, const ir_kernel_row *row, const pass_sum *sum) {
  return ir_kernel_writes_bsr(row) && pass_row_fits(row, pass_target_of(context), sum);
}

/* The row's m runs along the product's n: blocks are stored by columns of it. */
static bool is_turned(const pass_sum *sum, const ir_bsr *bsr) { return ir_is_bare(sum->stmt->subs[bsr->outer_dim], sum->n_index); }

static const char *misfit(pass_context *context, const pass_sum *sum, const ir_kernel_row *row) {
  ir_bsr bsr;
  if (!ir_bsr_result(sum->stmt, &bsr)) return "its result is not stored in blocks";
  if (bsr.factor[bsr.outer_dim] % row->m) return ir_format_text(context->arena, "its blocks are no multiples of %d high", row->m);
  if (ir_kernel_moves_boxes(row) && ir_dtype_bytes(sum->stmt->target->dtype) != 2) return "its boxes are of 16-bit results";
  return row->align > 1 && !pass_operands_aligned(sum, row->align) ? pass_alignment_why(context, row) : "";
}

bool pass_sdd_is_computed(pass_context *context, const pass_sum *sum) {
  for (int i = 0; i < ir_kernel_row_count; i++)
    if (takes(context, &ir_kernel_rows[i], sum) && !*misfit(context, sum, &ir_kernel_rows[i])) return true;
  return false;
}

double pass_sdd_cost(pass_context *context, const pass_sum *sum, const ir_kernel_row *row) {
  ir_bsr bsr;
  if (!ir_bsr_result(sum->stmt, &bsr)) return INFINITY;
  pass_zeros zeros = pass_zeros_of(context, sum->sdd);
  pass_product q = pass_sum_product(sum, is_turned(sum, &bsr) ? sum->b : NULL);
  /* A hint speaks of elements or of blocks of its own; stored is what holds one of them. */
  double high = (double)bsr.factor[bsr.outer_dim], wide = (double)bsr.factor[1 - bsr.outer_dim];
  if (bsr.outer_dim == 1) {
    double rows = zeros.rows;
    zeros.rows = zeros.cols, zeros.cols = rows;
  }
  pass_tiling tiling = {.row = row, .m = row->m, .n = row->n, .k = row->k, .strip = high, .gran = wide, .cover = pass_cover(&zeros, zeros.likely, high, wide)};
  return pass_cost_sdd(context->profile, &q, &tiling, (double)ir_dtype_bytes(sum->sdd->dtype));
}

void pass_ways_sdd(pass_context *context, pass_ways *ways) {
  const pass_sum *sum = &ways->sum;
  ir_bsr bsr;
  bool turned = ir_bsr_result(sum->stmt, &bsr) && is_turned(sum, &bsr);
  for (int i = 0; i < ir_kernel_row_count; i++) {
    const ir_kernel_row *row = &ir_kernel_rows[i];
    if (!takes(context, row, sum)) continue;
    ir_candidate *candidate = pass_candidate_new(context, ways, row->name);
    candidate->label = ir_format_text(context->arena, "stored blocks of %s, tile %dx%dx%d%s", sum->sdd->name, turned ? row->n : row->m, turned ? row->m : row->n,
                                      row->k, ir_kernel_moves_boxes(row) ? " boxes" : "");
    candidate->why = misfit(context, sum, row);
    candidate->density = pass_zeros_of(context, sum->sdd).likely;
    pass_candidate_tile(context, candidate, turned ? sum->n_index : sum->m_index, row->m);
    pass_candidate_tile(context, candidate, turned ? sum->m_index : sum->n_index, row->n);
    pass_candidate_tile(context, candidate, sum->k, row->k);
    pass_candidate_estimate(context, sum, candidate);
  }
}
