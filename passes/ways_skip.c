/* ways_skip.c - products of few rows whose kernels look at zeros themselves (kernels/skip.cuh).
 *
 *     y[t,o] = sum[f] h[t,f]*V[f,o]           reads the rows of V where one of a tile's rows of h is not zero
 *     u[t,f] = e(sum[d] x[t,d]*W[d,f]) on g   reads the rows of W that one of a tile's rows of g asks for
 *
 * With few rows the other operand is what takes time, and looking is a small part of reading it:
 * no list, no layout that unaligned rows could spoil.  Of one row it reads at most what dense reads; of several its first blocks
 * take a sample, and a dense branch stands behind (guard.c).  With many rows a tile's rows have
 * other zeros each, lists over strips of tensor cores win, and there are no such candidates. */
#include "passes/choice.h"
#include "passes/contract.h"
#include "passes/expr.h"
#include "passes/storage.h"

bool pass_rows_are_few(pass_context *context, const pass_sum *sum) {
  const double few = 64;
  bool batched = sum->stmt->free.count > 2; /* also where there is one of a batch */
  return sum->m <= few && !batched && !sum->flattened && pass_target_of(context)->kind == IR_TARGET_CUDA;
}

bool pass_readers_look(pass_context *context, const pass_sum *sum) {
  return pass_rows_are_few(context, sum) && ir_dtype_bytes(sum->stmt->target->dtype) == 2;
}

/* Zeros that the value of a result may not depend on. */
static const char *misfit(const pass_context *context, const pass_sum *sum) {
  if (context->program->strict_nan) return "strict NaN: no zero may be skipped";
  if (context->program->batch_invariant)
    return "batch invariance: which terms are left out would depend on a row's neighbours";
  if (pass_contiguous_index(sum->b, false) == sum->k) return "rows of the other operand are not along n";
  return NULL;
}

static ir_candidate *add(pass_context *context, pass_ways *ways, const ir_kernel_row *row,
                         ir_expr *zeros, const char *label) {
  const pass_sum *sum = &ways->sum;
  ir_candidate *candidate = pass_candidate_new(context, ways, row->name);
  candidate->operand = zeros->tensor;
  candidate->strip_index = sum->m_index;
  candidate->strip = row->m;
  candidate->gran = 1;
  const char *cluster = ir_kernel_split(row) > 1 ? ir_format_text(context->arena, ", k split in %d", ir_kernel_split(row)) : "";
  candidate->label = ir_format_text(context->arena, "%s `%s` is not 0, tile %dx%dx%d%s", label,
                                    zeros->tensor->name, row->m, row->n, row->k, cluster);
  pass_candidate_tile(context, candidate, sum->m_index, row->m);
  pass_candidate_tile(context, candidate, sum->n_index, row->n);
  pass_candidate_tile(context, candidate, sum->k, row->k);
  return candidate;
}

/* Rows of A must have k contiguous: an intermediate is stored so where it may be. */
static void settle_rows(pass_context *context, const ir_kernel *kernel, const pass_sum *sum,
                        pass_way *way) {
  ir_tensor *tensor = sum->a->tensor;
  if (pass_layout_is_free(kernel, tensor)) {
    way->turned = tensor;
    way->strip_last = pass_dim_of(sum->a, sum->k) == 0;
    way->candidate->formats = ir_format_text(context->arena, "%s=%s", tensor->name,
                                             way->strip_last ? "dense_t" : "dense");
  } else if (pass_contiguous_index(sum->a, false) != sum->k) {
    way->candidate->why = "the listed operand has the summed axis scattered";
  }
}

static void add_terms(pass_context *context, const ir_kernel *kernel, pass_ways *ways,
                      const ir_kernel_row *row) {
  const pass_sum *sum = &ways->sum;
  if (!pass_factor_dynamic(kernel, sum->a)) return;
  ir_candidate *candidate = add(context, ways, row, sum->a, "rows where");
  const char *why = misfit(context, sum);
  if (why) candidate->why = why;
  else settle_rows(context, kernel, sum, &ways->list.at[ways->list.count - 1]);
  pass_candidate_estimate(context, sum, candidate);
}

static void add_asked(pass_context *context, const ir_kernel *kernel, pass_ways *ways,
                      const ir_kernel_row *row) {
  const pass_sum *sum = &ways->sum;
  const ir_expr *asked = ir_asked_matrix(sum->stmt);
  if (!asked || pass_tensor_is_sparse(asked->tensor) || sum->stmt->fill != 0 ||
      !pass_factor_dynamic(kernel, asked))
    return;
  if (pass_contiguous_index(sum->a, false) != sum->k ||
      pass_contiguous_index(sum->b, false) != sum->k)
    return;
  ir_candidate *candidate = add(context, ways, row, (ir_expr *)asked, "columns where");
  if (context->program->strict_nan) candidate->why = "strict NaN: no zero may be skipped";
  if (context->program->batch_invariant)
    candidate->why = "batch invariance: a row's bits would depend on its neighbours";
  pass_candidate_estimate(context, sum, candidate);
}

void pass_ways_skip(pass_context *context, ir_kernel *kernel, pass_ways *ways) {
  if (!pass_rows_are_few(context, &ways->sum)) return;
  for (int i = 0; i < ir_kernel_row_count; i++) {
    const ir_kernel_row *row = &ir_kernel_rows[i];
    const int tiles_that_share = 3; /* of fewer a block lists a handful of columns, which loads bring as soon */
    bool several = ways->sum.m > row->m;
    if (!ir_kernel_skips(row) || (ir_kernel_brings_rows(row) && ways->sum.m <= tiles_that_share * row->m) || (row->m == 1 && several) || /* each row would read B again */
        (several && ir_kernel_split(row) > 1) || /* clusters are for much that is live, where the guard takes dense */
        !pass_row_fits(row, pass_target_of(context), &ways->sum))
      continue;
    if (ir_kernel_skips_columns(row)) add_asked(context, kernel, ways, row);
    else add_terms(context, kernel, ways, row);
  }
}

bool pass_is_several_tiles(const pass_sum *sum, const ir_candidate *candidate) {
  const ir_kernel_row *row = ir_kernel_row_named(candidate->row);
  return row && ir_kernel_skips(row) && sum->m > row->m;
}

bool pass_looks(const ir_candidate *candidate) {
  const ir_kernel_row *row = ir_kernel_row_named(candidate->row);
  return row && ir_kernel_skips(row);
}

bool pass_samples_itself(const ir_candidate *candidate) {
  const ir_kernel_row *row = ir_kernel_row_named(candidate->row);
  return row && ir_kernel_skips(row) && !ir_kernel_skips_columns(row) && row->m > 1;
}

/* Of what is not looked at by a kernel of its own every branch leaves the whole. */
bool pass_heeds(const ir_candidate *candidate, const ir_candidate *asks) {
  const ir_kernel_row *row = ir_kernel_row_named(candidate->row);
  return candidate->verdict == IR_CHOSEN && candidate->operand == asks->target && row && ir_kernel_skips(row) &&
         !ir_kernel_skips_columns(row);
}
