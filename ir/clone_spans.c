/* clone_spans.c - source places of a copy that was made through text.
 *
 * Both programs print alike, so that their parts correspond one to one; the walk goes over both. */
#include "ir/verify.h"

static void copy_expr(ir_expr *to, const ir_expr *from) {
  if (!to || !from) return;
  to->span = from->span;
  for (int i = 0; i < to->arg_count && i < from->arg_count; i++)
    copy_expr(to->args[i], from->args[i]);
}

static void copy_tensor(ir_tensor *to, const ir_tensor *from) {
  to->span = from->span;
  for (int i = 0; i < to->rank; i++) copy_expr(to->dim[i], from->dim[i]);
  for (int i = 0; to->declared && i < to->declared->rank; i++) copy_expr(to->declared->dim[i], from->declared->dim[i]);
}

static void copy_stmt(ir_stmt *to, const ir_stmt *from) {
  to->span = from->span;
  for (int i = 0; i < to->target->rank; i++) copy_expr(to->subs[i], from->subs[i]);
  copy_expr(to->value, from->value);
  copy_expr(to->cond, from->cond);
  copy_expr(to->sample, from->sample);
  copy_expr(to->support, from->support);
  copy_expr(to->stores, from->stores);
}

static void copy_schedule(ir_schedule *to, const ir_schedule *from) {
  to->span = from->span;
  for (int i = 0; i < to->directives.count && i < from->directives.count; i++)
    to->directives.at[i].span = from->directives.at[i].span;
}

static void copy_kernel(ir_kernel *to, const ir_kernel *from) {
  to->span = from->span;
  for (int i = 0; i < to->tensors.count && i < from->tensors.count; i++)
    copy_tensor(to->tensors.at[i], from->tensors.at[i]);
  for (int i = 0; i < to->indices.count && i < from->indices.count; i++)
    to->indices.at[i]->span = from->indices.at[i]->span;
  for (int i = 0; i < to->stmts.count && i < from->stmts.count; i++)
    copy_stmt(to->stmts.at[i], from->stmts.at[i]);
}

void ir_copy_spans(ir_program *to, const ir_program *from) {
  for (int i = 0; i < to->dims.count && i < from->dims.count; i++)
    to->dims.at[i]->span = from->dims.at[i]->span;
  for (int i = 0; i < to->schedules.count && i < from->schedules.count; i++)
    copy_schedule(to->schedules.at[i], from->schedules.at[i]);
  for (int i = 0; i < to->kernels.count && i < from->kernels.count; i++)
    copy_kernel(to->kernels.at[i], from->kernels.at[i]);
}
