/* ways_spread.c - a whole result of which only some columns of each strip are asked for.
 *
 *     C[m,n] = e(sum[k] A[m,k]*B[n,k])  on W[m,n]      lists of the n's where a strip of W is not zero: C is computed there,
 *                                                      side by side, then spread: all of C is written, row by row
 *
 * What is asked for may be single columns, of any strip of rows: blocks (ways_blocks.c) cover them badly.  The condition is
 * asked where C is written, element by element; what the value reads is a vector's, for its own places are columns apart. */
#include "passes/choice.h"
#include "passes/contract.h"
#include "passes/expr.h"

typedef struct place_search {
  const ir_index *row, *column;
  const ir_tensor *found;
} place_search;

static bool find_matrix(void *user, ir_expr *node) {
  place_search *search = user;
  if (node->kind != IR_ACCESS) return true;
  bool row = false, column = false;
  for (int d = 0; d < node->arg_count; d++) {
    row |= ir_expr_uses_index(node->args[d], search->row);
    column |= ir_expr_uses_index(node->args[d], search->column);
  }
  if (row && column) search->found = node->tensor;
  return true;
}

/* A matrix that the value reads at the result's place. */
static const ir_tensor *read_at_place(pass_context *context, const pass_sum *sum, const pass_listed *listed) {
  place_search search = {listed->strip_index, listed->axis, NULL};
  ir_expr *hole = ir_const_f(context->arena, sum->reduce->dtype, 0);
  ir_expr_walk(pass_replace_node(context->arena, sum->stmt->value, sum->reduce, hole), find_matrix, &search);
  return search.found;
}

static const char *misfit(pass_context *context, const pass_ways *ways, const pass_listed *listed, const ir_kernel_row *row) {
  const ir_expr *across = pass_columns_across(&ways->sum, listed);
  const ir_tensor *beside = read_at_place(context, &ways->sum, listed);
  if (listed->cannot) return listed->cannot;
  if (ways->stmt->acc == IR_F64) return "its sums are f32, and the statement's are f64";
  if (across)
    return ir_format_text(context->arena, "`%s` has %s contiguous: a listed column is two bytes of each row", across->tensor->name, listed->axis->name);
  if (beside)
    return ir_format_text(context->arena, "it reads `%s` where columns are listed one by one: each element is a sector of memory", beside->name);
  return pass_rows_aligned(&ways->sum, row->align) ? NULL : pass_alignment_why(context, row);
}

void pass_ways_spread(pass_context *context, ir_kernel *kernel, pass_ways *ways) {
  pass_listed listed;
  if (!ways->stmt->cond || !pass_blocks_of(context, kernel, &ways->sum, &listed)) return;
  for (int i = 0; i < ir_kernel_row_count; i++) {
    const ir_kernel_row *row = &ir_kernel_rows[i];
    if (!ir_kernel_spreads(row) || !pass_row_fits(row, pass_target_of(context), &ways->sum)) continue;
    ir_candidate *candidate = pass_candidate_new(context, ways, row->name);
    candidate->operand = listed.access->tensor;
    candidate->axis = listed.axis;
    candidate->strip_index = listed.strip_index;
    candidate->strip = row->m;
    candidate->gran = 1;
    pass_candidate_tile(context, candidate, listed.strip_index, row->m);
    pass_candidate_tile(context, candidate, listed.axis, row->n);
    pass_candidate_tile(context, candidate, ways->sum.k, row->k);
    candidate->label = ir_format_text(context->arena, "%s where %s is not 0, %dx1, then spread, tile %dx%dx%d boxes", listed.axis->name,
                                      candidate->operand->name, row->m, row->m, row->n, row->k);
    const char *why = misfit(context, ways, &listed, row);
    if (why) { /* of all tiles */
      candidate->why = why;
      candidate->label = ir_format_text(context->arena, "%s where %s is not 0, then spread", listed.axis->name, candidate->operand->name);
      return;
    }
    pass_way *way = &ways->list.at[ways->list.count - 1];
    if (pass_layout_is_free(kernel, ways->stmt->target)) way->turned = ways->stmt->target, way->strip_last = false;
    pass_candidate_estimate(context, &ways->sum, candidate);
  }
}

bool pass_is_spread(const ir_candidate *candidate) {
  const ir_kernel_row *row = candidate->row ? ir_kernel_row_named(candidate->row) : NULL;
  return row && candidate->operand && ir_kernel_spreads(row);
}
