/* verify.c - the rules that every program keeps, in every dialect.
 *
 * The pass manager calls ir_verify after each pass: a fault is the compiler's (IR_DIAG_INTERNAL).
 * A text that was read is verified with IR_DIAG_IR_RULE: the fault is the text's. */
#include "ir/verify.h"

void ir_fault(ir_checker *c, ir_span span, const char *format, ...) {
  if (c->faults++ >= IR_MOST_FAULTS) return;
  ir_text text = ir_text_new(c->arena);
  va_list args;
  va_start(args, format);
  ir_text_vprintf(&text, format, args);
  va_end(args);
  if (!span.file) span = c->span;
  ir_diag_add(c->sink, c->id, span, "%s%s%s", c->where ? c->where : "", c->where ? ": " : "",
              text.data);
}

bool ir_owns_tensor(const ir_kernel *kernel, const ir_tensor *tensor) {
  for (int i = 0; i < kernel->tensors.count; i++)
    if (kernel->tensors.at[i] == tensor) return true;
  return false;
}

bool ir_owns_index(const ir_kernel *kernel, const ir_index *index) {
  for (int i = 0; i < kernel->indices.count; i++)
    if (kernel->indices.at[i] == index) return true;
  return false;
}

bool ir_owns_workspace(const ir_kernel *kernel, const ir_buf *buf) {
  for (int i = 0; i < kernel->workspaces.count; i++)
    if (kernel->workspaces.at[i] == buf) return true;
  return false;
}

static void check_dims(ir_checker *c) {
  const ir_program *p = c->program;
  for (int i = 0; i < p->dims.count; i++) {
    const ir_dim *dim = p->dims.at[i];
    c->where = ir_format_text(c->arena, "dim `%s`", dim->name);
    c->span = dim->span;
    if (dim->number != i) ir_fault(c, dim->span, "its number is not its place");
    if (dim->value < -1 || dim->multiple < 1 || dim->bound < 0)
      ir_fault(c, dim->span, "its value, multiple or bound is out of range");
  }
}

static void check_kernel(ir_checker *c, int at) {
  const ir_kernel *kernel = c->program->kernels.at[at];
  c->kernel = kernel;
  c->where = ir_format_text(c->arena, "kernel `%s`", kernel->name);
  c->span = kernel->span;
  for (int i = 0; i < at; i++)
    if (!strcmp(c->program->kernels.at[i]->name, kernel->name))
      ir_fault(c, kernel->span, "two kernels have this name");
  if (kernel->program != c->program) ir_fault(c, kernel->span, "it belongs to another program");
  c->where = NULL;
  ir_check_ein(c);
  if (!c->faults) ir_check_tile(c);
  if (!c->faults) ir_check_funcs(c);
}

spc_status ir_verify_as(const ir_program *program, ir_diag_id id, ir_sink *sink) {
  ir_checker c = {.program = program, .arena = program->arena, .sink = sink, .id = id};
  check_dims(&c);
  for (int i = 0; i < program->kernels.count && !c.faults; i++) check_kernel(&c, i);
  if (!c.faults) return SPC_OK;
  return id == IR_DIAG_INTERNAL ? SPC_INTERNAL : SPC_INVALID_INPUT;
}

spc_status ir_verify(const ir_program *program, ir_sink *sink) {
  return ir_verify_as(program, IR_DIAG_INTERNAL, sink);
}
