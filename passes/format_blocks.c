/* format_blocks.c - dense results that are zero outside the stored blocks of an input: computed in those blocks, then written out (a GPU).
 *
 *     out C[i,j] = S[i,j] * sum[k] A[i,k]*B[j,k]     C_blocks[i,j] = S[i,j] * sum[k] A[i,k]*B[j,k] : as like(S)
 *       (S: bsr(64,64); A, B, C dense)               C[i,j] = C_blocks[i,j]
 *
 * A product's tiles ask nobody which of their elements are stored; those of a result in blocks are (ways_sdd.c).  The copy
 * writes every element of the result once, zeros too, which what computes them would have to do in its place. */
#include "ir/bsr.h"
#include "passes/choice.h"
#include "passes/storage.h"

static bool is_wanted(const ir_stmt *stmt) {
  const ir_tensor *t = stmt->target;
  return t->format && ir_format_is_dense(t->format) && !t->like && t->rank == 2 && stmt->fill == 0 && !ir_is_scatter(stmt);
}

/* Some kernel computes the statement with such a target. */
static bool is_computed(pass_context *context, const ir_stmt *stmt, ir_tensor *blocks) {
  ir_stmt probe = *stmt;
  pass_sum sum;
  probe.target = blocks;
  return pass_sum_of(context, &probe, &sum) && sum.sdd && pass_sdd_is_computed(context, &sum);
}

static ir_tensor *in_blocks_of(ir_arena *arena, const ir_tensor *target, ir_tensor *model) {
  ir_tensor *t = IR_NEW(arena, ir_tensor);
  t->role = IR_ROLE_TEMP;
  t->dtype = target->dtype;
  t->rank = target->rank;
  memcpy(t->dim, target->dim, sizeof t->dim);
  t->like = model;
  t->format = model->format;
  t->pattern = target->pattern;
  t->span = target->span;
  t->format_why = ir_format_text(arena, "the stored blocks of `%s`, where alone `%s` is not zero", model->name, target->name);
  return t;
}

void pass_format_blocks(pass_context *context, ir_kernel *kernel) {
  if (pass_target_of(context)->kind != IR_TARGET_CUDA) return;
  for (int s = 0; s < kernel->stmts.count; s++) {
    ir_stmt *stmt = kernel->stmts.at[s];
    ir_tensor *target = stmt->target, *model = is_wanted(stmt) ? pass_support_like(stmt) : NULL;
    ir_bsr bsr;
    if (!model || !ir_bsr_of(model->format, &bsr)) continue;
    ir_tensor *found = in_blocks_of(context->arena, target, model);
    if (!is_computed(context, stmt, found)) continue;
    ir_tensor *blocks = ir_tensor_new(kernel, ir_fresh_name(kernel, ir_format_text(context->arena, "%s_blocks", target->name)), IR_ROLE_TEMP, target->dtype);
    found->name = blocks->name;
    *blocks = *found;
    blocks->def = stmt;
    stmt->target = blocks;
    ir_stmt *out = pass_format_copy(context, kernel, blocks, target);
    pass_format_insert(context->arena, kernel, ++s, out);
    pass_schedule_rename(kernel, target->name, blocks->name);
  }
}
