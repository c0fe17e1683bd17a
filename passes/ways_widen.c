/* ways_widen.c - products with a factor of 8-bit integers, which kernels widen on its way to the tensor cores.
 *
 *     y[t,n] = e(sum[k] x[t,k] * q[n,k] * s[n,k/128])      x: bf16; q: i8; s: any float
 *
 * Beside them stands a copy of q in 16 bits, times its scales (format_whole.c), which takes twice the memory and as many bytes of
 * its bandwidth: the better the more rows of x share what is read of q, and for nothing where q is const. */
#include <math.h>

#include "ir/image.h"
#include "passes/choice.h"

/* The k's lie side by side in both factors: the row's first one is q where its load says so. */
static bool takes(pass_context *context, const ir_kernel_row *row, const pass_sum *sum) {
  const ir_target *target = pass_target_of(context);
  if (!ir_kernel_widens(row) || !(row->dtypes & 1u << sum->a->tensor->dtype)) return false;
  if (row->multiply == IR_MULTIPLY_WGMMA && strcmp(target->name, "sm_90a") != 0) return false;
  return target->arch >= row->least_arch && (!row->most_arch || target->arch <= row->most_arch);
}

static const char *misfit(pass_context *context, const pass_sum *sum, const ir_kernel_row *row) {
  if (pass_contiguous_index(sum->a, false) != sum->k || pass_contiguous_index(sum->b, false) != sum->k)
    return "the summed index does not lie side by side in both factors";
  if (sum->group % ir_kernel_group(row))
    return ir_format_text(context->arena, "groups of %lld that share a scale are no multiples of the %d k's that it adds up at once",
                          (long long)sum->group, ir_kernel_group(row));
  if (ir_kernel_moves_boxes(row) && !pass_rows_aligned(sum, row->align)) return pass_alignment_why(context, row);
  if (ir_kernel_moves_boxes(row) && sum->batches > IR_MAP_BATCHES)
    return ir_format_text(context->arena, "it takes %d batch indices at most", IR_MAP_BATCHES);
  if (context->program->batch_invariant && (ir_kernel_split(row) > 1 || !ir_kernel_moves_boxes(row)))
    return "batch invariance: whether k is split would be chosen by the number of rows";
  return "";
}

/* Generated loops widen again for every row of x, and have the scales to find. */
static double loops_cost(pass_context *context, const pass_sum *sum) {
  const pass_profile *p = context->profile;
  const double share = 0.3; /* of what the kernels widen */
  double elements = sum->batch * sum->m * sum->n * sum->k_size;
  return fmax(pass_walk_cost(context, sum), p->launch_us + elements / (share * p->widen_gops * p->units * 1e3));
}

double pass_widen_cost(pass_context *context, const pass_sum *sum, const ir_kernel_row *row) {
  if (!row) return loops_cost(context, sum);
  pass_product q = pass_sum_product(sum, NULL);
  bool wide_first = row->load_a == IR_LOADER_WIDE;
  if (wide_first) {
    double m = q.m;
    q.m = q.n, q.n = m;
    ir_dtype a = q.a;
    q.a = q.b, q.b = a;
  }
  pass_tiling tiling = {.row = row, .m = row->m, .n = row->n, .k = row->k, .cover = 1};
  return pass_cost_widened(context->profile, &q, &tiling);
}

double pass_widen_best(pass_context *context, const pass_sum *sum) {
  double best = INFINITY;
  for (int i = 0; sum->widened && i < ir_kernel_row_count; i++) {
    const ir_kernel_row *row = &ir_kernel_rows[i];
    if (takes(context, row, sum) && !*misfit(context, sum, row)) best = fmin(best, pass_widen_cost(context, sum, row));
  }
  return best;
}

void pass_ways_widen(pass_context *context, pass_ways *ways) {
  const pass_sum *sum = &ways->sum;
  for (int i = 0; i < ir_kernel_row_count; i++) {
    const ir_kernel_row *row = &ir_kernel_rows[i];
    if (!takes(context, row, sum)) continue;
    bool wide_first = row->load_a == IR_LOADER_WIDE;
    int m = wide_first ? row->n : row->m, n = wide_first ? row->m : row->n, split = ir_kernel_split(row);
    ir_candidate *candidate = pass_candidate_new(context, ways, row->name);
    candidate->label = ir_format_text(context->arena, "widened %dx%dx%d%s%s", m, n, row->k, ir_kernel_moves_boxes(row) ? " boxes" : " streamed",
                                      split > 1 ? ir_format_text(context->arena, ", k split in %d", split) : "");
    candidate->why = misfit(context, sum, row);
    pass_candidate_tile(context, candidate, sum->m_index, m);
    pass_candidate_tile(context, candidate, sum->n_index, n);
    pass_candidate_tile(context, candidate, sum->k, row->k);
    pass_candidate_estimate(context, sum, candidate);
  }
}
