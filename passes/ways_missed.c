/* ways_missed.c - products that no kernel for matrices takes because a side is computed on the way in.
 *
 *     C[m,n] = sum[k] A[m,k]*w[k]*B[k,n]       loops: the tensor cores multiply what lies in memory
 *
 * To write the side down first rounds it once more, which is not the compiler's to decide: it is said. */
#include <math.h>

#include "passes/choice.h"
#include "passes/contract.h"
#include "passes/expr.h"
#include "passes/storage.h"

static bool reads_dense(const ir_expr *e) {
  if (e->kind == IR_ACCESS && (!pass_bare_access(e) || pass_tensor_is_sparse(e->tensor))) return false;
  for (int i = 0; i < e->arg_count; i++)
    if (!reads_dense(e->args[i])) return false;
  return true;
}

static bool may_be_matrix(const pass_operand *side) {
  return side->access && side->access->kind == IR_ACCESS && side->indices.list.count >= 2 && reads_dense(side->value) &&
         pass_is_elementwise(side->value);
}

static bool is_large(pass_context *context, const pass_contraction_info *info) {
  const double worth_a_word = 1 << 27; /* multiply-adds */
  double work = 1;
  const pass_indices *all[] = {&info->batch, &info->m, &info->n, &info->k};
  for (int i = 0; i < IR_COUNT(all); i++)
    for (int j = 0; j < all[i]->list.count; j++) work *= pass_index_assumed(context, all[i]->list.at[j]);
  return work >= worth_a_word;
}

/* `let A_1[m,k] = A[m, k] * w[k] : bf16;` */
static const char *as_let(pass_context *context, const pass_operand *side) {
  ir_text text = ir_text_new(context->arena);
  ir_text_printf(&text, "let %s_1[", side->tensor->name);
  for (int i = 0; i < side->indices.list.count; i++) ir_text_printf(&text, "%s%s", i ? "," : "", side->indices.list.at[i]->name);
  ir_text_put(&text, "] = ");
  ir_print_expr(side->value, &text);
  ir_text_printf(&text, " : %s;", ir_dtype_text(side->tensor->dtype));
  return text.data;
}

void pass_ways_missed(pass_context *context, const pass_ways *ways) {
  const ir_stmt *stmt = ways->stmt;
  pass_contraction_info info;
  if (!ways->is_sum || ways->sum.matrices || isfinite(pass_widen_best(context, &ways->sum)) || ir_is_scatter(stmt) || pass_tensor_is_sparse(stmt->target)) return;
  if (!pass_contraction(context->arena, stmt, &info) || info.guard || info.ragged || info.k.list.count != 1) return;
  if (!info.m.list.count || !info.n.list.count || !may_be_matrix(&info.a) || !may_be_matrix(&info.b)) return;
  bool first = !pass_side_is_access(&info.a);
  if (first == !pass_side_is_access(&info.b) || !is_large(context, &info)) return;
  const pass_operand *side = first ? &info.a : &info.b;
  ir_diag_add(context->sink, IR_DIAG_SIDE_COMPUTED, stmt->span,
              "`%s` sums products of a side that is computed on the way in, so generated loops do, far from what a product "
              "of two matrices takes. `%s` in front of it, read in that place, would make it one; it rounds once more",
              stmt->target->name, as_let(context, side));
}
