/* format_blocks.c - dense results that are zero outside the stored blocks of an input: computed in those blocks, then written out (a GPU).
 *
 *     out C[i,j] = S[i,j] * sum[k] A[i,k]*B[j,k]     C_stored[i,j] = S[i,j] * sum[k] A[i,k]*B[j,k] : as like(S)
 *       (S: bsr(64,64); A, B, C dense)               C[i,j] = C_stored[i,j]
 *
 * A product's tiles ask nobody which of their elements are stored; those of a result in blocks are (ways_sdd.c).  The copy
 * writes every element of the result once, zeros too, which what computes them would have to do in its place. */
#include "passes/choice.h"
#include "passes/storage.h"

static bool is_wanted(const ir_stmt *stmt) {
  const ir_tensor *t = stmt->target;
  return t->format && ir_format_is_dense(t->format) && !t->like && t->rank == 2 && stmt->fill == 0 && !ir_is_scatter(stmt);
}

/* Some kernel computes the statement where its result has the blocks of `model`. */
static bool is_computed(pass_context *context, const ir_stmt *stmt, ir_tensor *model) {
  ir_tensor blocks = *stmt->target;
  ir_stmt probe = *stmt;
  pass_sum sum;
  blocks.like = model;
  blocks.format = model->format;
  probe.target = &blocks;
  return pass_sum_of(context, &probe, &sum) && sum.sdd && pass_sdd_is_computed(context, &sum);
}

void pass_format_blocks(pass_context *context, ir_kernel *kernel) {
  if (pass_target_of(context)->kind != IR_TARGET_CUDA) return;
  for (int s = 0; s < kernel->stmts.count; s++) {
    ir_stmt *stmt = kernel->stmts.at[s];
    ir_tensor *target = stmt->target, *model = is_wanted(stmt) ? pass_support_like(stmt) : NULL;
    if (!model || !is_computed(context, stmt, model)) continue;
    const char *why = ir_format_text(context->arena, "the stored blocks of `%s`, where alone `%s` is not zero", model->name, target->name);
    ir_tensor *stored = pass_format_write_as(context, kernel, s++, "stored", model->format, why);
    stored->like = model;
    pass_schedule_rename(kernel, target->name, stored->name);
  }
}
