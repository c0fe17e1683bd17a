/* format_directive.c - `format X = fmt` of a schedule: honoured for intermediates, refused with the
 * reason for everything whose storage is said by its type. */
#include "passes/choice.h"
#include "passes/storage.h"
#include "passes/support.h"

static spc_status refuse(pass_context *context, const ir_directive *d, const char *why) {
  ir_diag_add(context->sink, IR_DIAG_DIRECTIVE_FORMAT, d->span, "`format %s`: %s", d->tensor, why);
  return SPC_INVALID_INPUT;
}

static bool leaves_out(const ir_format *format) {
  for (int l = 0; l < format->level_count; l++)
    if (!ir_level_rows[format->level[l].kind].full) return true;
  return false;
}

static spc_status apply(pass_context *context, ir_kernel *kernel, ir_directive *d) {
  ir_tensor *tensor = ir_tensor_named(kernel, d->tensor);
  if (!tensor) return refuse(context, d, "there is no such tensor after fusion");
  if (tensor->role == IR_ROLE_IN || tensor->role == IR_ROLE_OUT)
    return refuse(context, d,
                  "the storage of an input or output is part of its type; write `as` there");
  if ((tensor->format && !ir_format_equal(tensor->format, d->format)) || tensor->like)
    return refuse(context, d, "its declaration says another format");
  if (d->format->rank != tensor->rank)
    return refuse(context, d,
                  ir_format_text(context->arena, "it has %d dimensions and the format is for %d",
                                 tensor->rank, d->format->rank));
  const ir_stmt *def = leaves_out(d->format) ? tensor->def : NULL;
  if (def && def->fill != 0)
    return refuse(context, d,
                  ir_format_text(context->arena,
                                 "where it is not computed its value is %g, and what a sparse "
                                 "format leaves out is 0",
                                 def->fill));
  bool makes_zeros =
      tensor->pattern.zeros != IR_ZEROS_UNKNOWN || (def && pass_makes_zeros(def->value));
  if (def && !def->support && !makes_zeros)
    return refuse(context, d,
                  "every element of it can differ from 0, a sparse format would hold them all; "
                  "where it has zeros at run time, say `~ zeros(dynamic)` in its statement");
  if (def && !pass_rests_on_storage(def->support)) tensor->by_value = true;
  tensor->format = d->format;
  tensor->format_why = "the schedule asks for it";
  d->applied = true;
  return SPC_OK;
}

spc_status pass_format_directives(pass_context *context, ir_kernel *kernel) {
  spc_status status = SPC_OK;
  for (int i = 0; kernel->schedule && i < kernel->schedule->directives.count; i++) {
    ir_directive *directive = &kernel->schedule->directives.at[i];
    if (directive->kind != IR_DO_FORMAT) continue;
    spc_status one = apply(context, kernel, directive);
    if (one) status = one;
  }
  return status;
}
