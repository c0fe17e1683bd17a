/* ways_spread.c - a whole result of which only some columns of each strip are asked for.
 *
 *     C[m,n] = e(sum[k] A[m,k]*B[n,k])  on W[m,n]      lists of the n's where a strip of W is not zero: C is computed there,
 *                                                      side by side, then spread: all of C is written, row by row
 *
 * Where a hint says that a listed column is asked for in all rows of its strip, a condition is asked nowhere: the epilogue stores columns where they
 * belong, and nothing is behind it.  A column that holds a zero against the hint is told by who makes the list, and asked element by element.
 *
 * What is asked for may be single columns, of any strip of rows: blocks (ways_blocks.c) cover them badly.  The condition is
 * asked where C is written, element by element; what the value reads is a vector's, for its own places are columns apart. */
#include "passes/choice.h"
#include "passes/contract.h"
#include "passes/expr.h"
#include <math.h>

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

static const char *misfit(pass_context *context, const pass_ways *ways, const pass_listed *listed) {
  const char *across = pass_columns_misfit(context, &ways->sum, listed);
  const ir_tensor *beside = read_at_place(context, &ways->sum, listed);
  if (listed->cannot || across) return listed->cannot ? listed->cannot : across;
  return beside ? ir_format_text(context->arena, "it reads `%s` where columns are listed one by one: each element is a sector of memory", beside->name) : "";
}

void pass_ways_spread(pass_context *context, ir_kernel *kernel, pass_ways *ways) {
  pass_listed listed;
  if (!ways->stmt->cond || !pass_blocks_of(context, kernel, &ways->sum, &listed)) return;
  for (int i = 0; i < ir_kernel_row_count; i++) {
    const ir_kernel_row *row = &ir_kernel_rows[i];
    if (!ir_kernel_spreads(row) || !pass_row_fits(row, pass_target_of(context), &ways->sum)) continue;
    ir_candidate *candidate = pass_candidate_over(context, ways, row, &listed, listed.axis, 1);
    candidate->label = ir_format_text(context->arena, "%s where %s is not 0, then spread", listed.axis->name, candidate->operand->name);
    if (!*candidate->why) candidate->why = misfit(context, ways, &listed);
    if (*candidate->why) return; /* no other tile could */
    pass_way_in_rows(kernel, ways);
    pass_candidate_estimate(context, &ways->sum, candidate);
    const char *then = pass_goes_in_place(context, candidate) ? "stored in place" : "then spread";
    candidate->label = ir_format_text(context->arena, "%s where %s is not 0, %dx1, %s, tile %dx%dx%d boxes", listed.axis->name,
                                      candidate->operand->name, row->m, then, row->m, row->n, row->k);
  }
}

bool pass_is_spread(const ir_candidate *candidate) {
  const ir_kernel_row *row = candidate->row ? ir_kernel_row_named(candidate->row) : NULL;
  return row && candidate->operand && ir_kernel_spreads(row);
}

/* The condition is the operand's alone. */
static bool asks_operand(const ir_expr *cond, const ir_tensor *operand) {
  bool compares = cond->kind == IR_OP && cond->op == IR_OP_NE;
  double zero;
  if (compares && (!ir_const_value(cond->args[1], &zero) || zero != 0)) return false;
  const ir_expr *asked = compares ? cond->args[0] : cond;
  return asked->kind == IR_ACCESS && asked->tensor == operand;
}

/* A listed column is asked for in all rows of its strip, says the hint. */
static bool may_go_in_place(const pass_context *context, const ir_candidate *candidate) {
  const ir_tensor *asked = candidate->operand;
  const pass_zeros of = pass_zeros_of(context, asked), zeros = pass_zeros_across(candidate, &of);
  bool whole = zeros.rows >= (double)candidate->strip && fmod(zeros.rows, (double)candidate->strip) == 0;
  return whole && !ir_tensor_is_inner(candidate->target) && !asked->def && !asked->constant && asks_operand(candidate->target->def->cond, asked);
}

bool pass_goes_in_place(const pass_context *context, const ir_candidate *candidate) {
  if (!pass_is_spread(candidate) || !may_go_in_place(context, candidate)) return false;
  const ir_tensor *result = candidate->target;
  double m = pass_index_assumed(context, candidate->strip_index), n = pass_index_assumed(context, candidate->axis);
  double in_place = pass_cost_in_place(context->profile, m, n, candidate->cover);
  return in_place < pass_cost_spread(context->profile, pass_tensor_bytes(context, result), pass_tensor_bytes(context, candidate->operand), candidate->cover);
}
