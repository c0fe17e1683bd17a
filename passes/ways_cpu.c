/* ways_cpu.c - how a statement can run on the CPU: generated loops, walking everything or index
 * lists.
 *
 * A strip of a few rows shares one list: the wider the strip, the more often a loaded row of the
 * other operand is used, and the more of the axis is covered.  A list of single rows covers nothing
 * else, and keeps the values: its rows are walked as stored ones are.  Stored-sparse operands are
 * walked by their own levels and need no list. */
#include "passes/choice.h"
#include "passes/expr.h"
#include "passes/storage.h"

/* Strips of 8 are left out unless they are asked for: measured, they take longer than those of 4
 * or 16. */
static const int64_t strips[] = {1, 2, 4, 16, 32};

static bool finds_sparse(void *user, ir_expr *node) {
  const ir_tensor **found = user;
  if (node->kind == IR_ACCESS && pass_tensor_is_sparse(node->tensor) && !*found)
    *found = node->tensor;
  return !*found;
}

static void add_loops(pass_context *context, pass_ways *ways) {
  const ir_tensor *sparse = NULL;
  ir_candidate *candidate = pass_candidate_new(context, ways, "loop");
  ir_expr_walk(ways->stmt->value, finds_sparse, &sparse);
  if (ways->stmt->sample) ir_expr_walk(ways->stmt->sample, finds_sparse, &sparse);
  candidate->label =
      sparse ? ir_format_text(context->arena, "loops over the stored entries of %s", sparse->name)
             : "dense loops";
  pass_candidate_estimate(context, ways->is_sum ? &ways->sum : NULL, candidate);
}

/* Where a condition, or what readers look at, says which elements are computed: one by one, or all
 * of them as a plain product that the condition chooses from. */
static void add_conditional(pass_context *context, pass_ways *ways) {
  if (!ways->is_sum || !ways->sum.matrices || !(ways->stmt->cond || ways->stmt->sample)) return;
  ways->list.at[0].candidate->label = "dense loops, element by element where it is asked for";
  ir_candidate *candidate = pass_candidate_new(context, ways, "loop");
  candidate->label = "dense loops, every element";
  candidate->whole = true;
  pass_candidate_estimate(context, &ways->sum, candidate);
}

/* Over strips of columns, the other operand packed; wider ones meet an entry less often.  A strip
 * of one is a vector, and a row's entries are summed by lanes. */
static const int64_t widths[] = {32, 64, 128, 1};

/* Strips add the entries of a row one after the other.  What adds in another order is as right, but
 * how many rows there are would decide between them. */
static void in_other_order(const pass_context *context, ir_candidate *candidate) {
  if (context->program->batch_invariant)
    candidate->why =
        "batch invariance: it sums in another order than strips, and the number of rows "
        "would decide between them";
}

static void add_strips(pass_context *context, pass_ways *ways) {
  pass_strips fit;
  for (int i = 0; i < ways->stmt->free.count; i++) {
    ir_index *columns = ways->stmt->free.at[i];
    if (!pass_strips_fit(&ways->sum, columns, NULL, &fit)) continue;
    in_other_order(context, ways->list.at[0].candidate);
    for (int w = 0; w < IR_COUNT(widths); w++) {
      ir_candidate *candidate = pass_candidate_new(context, ways, "loop");
      candidate->label = ir_format_text(
          context->arena, "stored entries of %s over strips of %lld %s, %s packed",
          fit.stored->tensor->name, (long long)widths[w], columns->name, fit.packed->tensor->name);
      if (widths[w] == 1) in_other_order(context, candidate);
      pass_candidate_tile(context, candidate, columns, widths[w]);
      pass_candidate_estimate(context, &ways->sum, candidate);
    }
  }
}

/* Where most of an operand is stored, all of it is multiplied in less time than its entries are
 * met. */
static void add_expanded(pass_context *context, pass_ways *ways) {
  pass_strips fit;
  if (!pass_stored_fit(&ways->sum, &fit) || fit.stored->tensor->dtype == IR_NONE || context->program->strict_nan) return;
  ir_candidate *candidate = pass_candidate_new(context, ways, "loop");
  candidate->label =
      ir_format_text(context->arena, "%s written out, dense loops", fit.stored->tensor->name);
  candidate->expanded = true;
  in_other_order(context, candidate);
  pass_candidate_estimate(context, &ways->sum, candidate);
}

static ir_candidate *list_new(pass_context *context, pass_ways *ways, const pass_listed *operand,
                              int64_t strip, int64_t gran) {
  ir_candidate *candidate = pass_candidate_new(context, ways, "loop");
  candidate->operand = operand->access->tensor;
  candidate->axis = operand->axis;
  candidate->strip_index = operand->strip_index;
  candidate->strip = strip;
  candidate->gran = gran;
  pass_candidate_tile(context, candidate, operand->strip_index, strip);
  return candidate;
}

static void add_list(pass_context *context, pass_ways *ways, const pass_listed *operand,
                     int64_t strip, int64_t gran) {
  ir_candidate *candidate = list_new(context, ways, operand, strip, gran);
  candidate->label =
      ir_format_text(context->arena, "%s lists of %s, strips of %lld", operand->axis->name,
                     candidate->operand->name, (long long)strip);
  pass_candidate_estimate(context, &ways->sum, candidate);
}

/* The rows of the operand compressed, then walked as if they were stored so. */
static void add_row_lists(pass_context *context, pass_ways *ways, const pass_listed *operand) {
  pass_strips fit;
  const ir_tensor *listed = operand->access->tensor;
  for (int i = 0; i < ways->stmt->free.count; i++) {
    ir_index *columns = ways->stmt->free.at[i];
    if (columns == operand->strip_index || !pass_strips_fit(&ways->sum, columns, listed, &fit))
      continue;
    for (int w = 0; w < IR_COUNT(widths) - 1; w++) {
      ir_candidate *candidate = list_new(context, ways, operand, 1, 1);
      candidate->label = ir_format_text(
          context->arena, "rows of %s compressed, over strips of %lld %s, %s packed", listed->name,
          (long long)widths[w], columns->name, fit.packed->tensor->name);
      pass_candidate_tile(context, candidate, columns, widths[w]);
      pass_candidate_estimate(context, &ways->sum, candidate);
    }
  }
}

static void refuse_list(pass_context *context, pass_ways *ways, const pass_listed *operand) {
  ir_candidate *candidate = pass_candidate_new(context, ways, "loop");
  candidate->operand = operand->access->tensor;
  candidate->label = ir_format_text(context->arena, "lists of %s", candidate->operand->name);
  candidate->why = operand->cannot;
}

static bool is_usual(int64_t strip, int64_t gran) {
  for (int i = 0; i < IR_COUNT(strips); i++)
    if (strip == strips[i] && gran == 1) return true;
  return false;
}

static void lists_of(pass_context *context, ir_kernel *kernel, pass_ways *ways, ir_expr *factor) {
  pass_listed operand = pass_listed_of(context, &ways->sum, factor);
  const ir_directive *asked = pass_schedule_compact(kernel, factor->tensor);
  int64_t strip, gran;
  int axis_dim;
  if (operand.cannot) {
    refuse_list(context, ways, &operand);
    return;
  }
  for (int i = 0; i < IR_COUNT(strips); i++) add_list(context, ways, &operand, strips[i], 1);
  add_row_lists(context, ways, &operand);
  if (asked && pass_compact_shape(asked, factor->tensor, &axis_dim, &strip, &gran) &&
      axis_dim == operand.axis_dim && !is_usual(strip, gran))
    add_list(context, ways, &operand, strip, gran);
}

void pass_ways_cpu(pass_context *context, ir_kernel *kernel, pass_ways *ways) {
  add_loops(context, ways);
  add_conditional(context, ways);
  if (!ways->is_sum) return;
  add_strips(context, ways);
  add_expanded(context, ways);
  for (int i = 0; i < ways->sum.factors.count; i++)
    if (pass_factor_dynamic(kernel, ways->sum.factors.at[i]))
      lists_of(context, kernel, ways, ways->sum.factors.at[i]);
}
