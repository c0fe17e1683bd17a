/* verify.c - the rules that every program keeps, in every dialect.
 *
 * The pass manager calls ir_verify after each pass: a fault is the compiler's (IR_DIAG_INTERNAL).
 * A text that was read is verified with IR_DIAG_IR_RULE: the fault is the text's. */
#include "ir/target.h"
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

/* ---- what a kernel has ----------------------------------------------------------------------- */
bool ir_owns(const ir_checker *c, const void *thing) {
  return thing && ir_map_find(&c->owned, thing, -1) >= 0;
}

#define OWN(c, vec)                                                                                \
  for (int i_ = 0; i_ < (vec).count; i_++)                                                         \
    if ((vec).at[i_]) ir_map_set((c)->arena, &(c)->owned, (vec).at[i_], 0)

static void own_parts(ir_checker *c, const ir_kernel *kernel) {
  c->owned = (ir_map){0};
  OWN(c, kernel->tensors);
  OWN(c, kernel->indices);
  OWN(c, kernel->stmts);
  OWN(c, kernel->workspaces);
  OWN(c, kernel->candidates);
  OWN(c, kernel->lists);
  OWN(c, kernel->funcs);
}

/* ---- programs -------------------------------------------------------------------------------- */
static void check_dims(ir_checker *c) {
  const ir_program *p = c->program;
  for (int i = 0; i < p->dims.count; i++) {
    const ir_dim *dim = p->dims.at[i];
    c->where = ir_format_text(c->arena, "dim `%s`", dim->name);
    c->span = dim->span;
    ir_map_set(c->arena, &c->dims, dim, i);
    if (!ir_table_add(c->arena, &c->dim_names, dim->name, c))
      ir_fault(c, dim->span, "two dims have this name");
    if (dim->number != i) ir_fault(c, dim->span, "its number is not its place");
    if (dim->value < -1 || dim->multiple < 1 || dim->bound < 0)
      ir_fault(c, dim->span, "its value, multiple or bound is out of range");
  }
}

static void check_kernel(ir_checker *c, const ir_kernel *kernel, ir_table *names) {
  c->kernel = kernel;
  c->where = ir_format_text(c->arena, "kernel `%s`", kernel->name);
  c->span = kernel->span;
  if (!ir_table_add(c->arena, names, kernel->name, c))
    ir_fault(c, kernel->span, "two kernels have this name");
  if (kernel->program != c->program) ir_fault(c, kernel->span, "it belongs to another program");
  c->where = NULL;
  own_parts(c, kernel);
  ir_check_ein(c);
  if (!c->faults) ir_check_tile(c);
  if (!c->faults) ir_check_funcs(c);
}

static void check_target(ir_checker *c) {
  const char *name = c->program->target;
  if (name && !ir_target_find(name))
    ir_fault(c, IR_NOWHERE, "there is no target `%s`; `spc show targets` lists them", name);
}

spc_status ir_verify_as(const ir_program *program, ir_diag_id id, ir_sink *sink) {
  ir_checker c = {.program = program, .arena = program->arena, .sink = sink, .id = id};
  ir_table names = {0};
  check_target(&c);
  check_dims(&c);
  for (int i = 0; i < program->kernels.count && !c.faults; i++)
    check_kernel(&c, program->kernels.at[i], &names);
  if (!c.faults) return SPC_OK;
  return id == IR_DIAG_INTERNAL ? SPC_INTERNAL : SPC_INVALID_INPUT;
}

spc_status ir_verify(const ir_program *program, ir_sink *sink) {
  return ir_verify_as(program, IR_DIAG_INTERNAL, sink);
}
