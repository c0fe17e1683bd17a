/* print.c - a whole program as text: header, dims, formats, schedules, kernels.
 *
 * What is printed is what can be read: print(parse(print(p))) == print(p) for every program, after
 * any pass.  docs/ir.md specifies the form. */
#include "ir/print.h"

static void put_header(ir_text *out, const ir_program *program) {
  ir_text_put(out, "spc.ir 1;\n");
  if (program->target) {
    ir_text_put(out, "target ");
    ir_put_name(out, program->target);
    ir_text_put(out, ";\n");
  }
  if (program->after) ir_text_printf(out, "after %d", program->after);
  if (program->after && program->after_name) {
    ir_text_put(out, " ");
    ir_put_name(out, program->after_name);
  }
  if (program->after) ir_text_put(out, ";\n");
  if (program->strict_nan) ir_text_put(out, "strict_nan;\n");
  if (program->reproducible) ir_text_put(out, "reproducible;\n");
  if (program->batch_invariant) ir_text_put(out, "batch_invariant;\n");
  if (program->unpacked) ir_text_put(out, "unpacked;\n");
}

static void put_dim(ir_text *out, const ir_dim *dim) {
  ir_text_put(out, "dim ");
  ir_put_name(out, dim->name);
  if (dim->value >= 0) {
    ir_text_printf(out, " = %lld", (long long)dim->value);
  } else {
    ir_text_put(out, " : dyn");
    if (dim->multiple > 1) ir_text_printf(out, " %% %lld", (long long)dim->multiple);
    if (dim->bound) ir_text_printf(out, " <= %lld", (long long)dim->bound);
  }
  ir_text_put(out, ";\n");
}

static void put_declared_format(ir_writer *w, const ir_format *f) {
  ir_text_put(w->out, "format ");
  ir_put_name(w->out, f->name);
  for (int i = 0; i < f->argument_count; i++)
    ir_text_printf(w->out, "%s%lld", i ? ", " : "(", (long long)f->argument[i]);
  ir_text_put(w->out, f->argument_count ? ") = " : " = ");
  ir_format_print_map(f, w->out);
  ir_text_put(w->out, ";\n");
}

/* ---- schedules ----------------------------------------------------------------------------- */
static void put_directive_sizes(ir_text *out, const ir_directive *d) {
  for (int i = 0; i < d->count; i++) {
    ir_text_put(out, " ");
    ir_put_name(out, d->name[i]);
    ir_text_printf(out, "=%lld", (long long)d->size[i]);
  }
}

static void put_directive_rest(ir_writer *w, const ir_program *program, const ir_directive *d) {
  ir_text *out = w->out;
  if (d->kind == IR_DO_COMPACT) {
    ir_text_put(out, " axis=");
    ir_put_name(out, d->count ? d->name[0] : "?");
    ir_text_printf(out, " gran=%dx%d", d->gran_rows, d->gran_cols);
  } else if (d->kind == IR_DO_FUSE) {
    ir_text_put(out, " into ");
    ir_put_name(out, d->into ? d->into : "?");
  } else if (d->kind == IR_DO_FORMAT && d->format) {
    ir_text_printf(out, " rank %d = ", d->format->rank);
    ir_put_format(w, program, d->format);
  } else if (d->kind == IR_DO_PRECISION) {
    ir_text_printf(out, " = %s", ir_precision_text(d->precision));
  } else {
    put_directive_sizes(out, d);
  }
}

static void put_directive(ir_writer *w, const ir_program *program, const ir_directive *d) {
  ir_text_printf(w->out, "  %s", ir_words_directive[d->kind]);
  if (d->kind == IR_DO_STAGES || d->kind == IR_DO_WARPS) {
    ir_text_printf(w->out, " %lld", (long long)d->number);
  } else {
    ir_text_put(w->out, " ");
    ir_put_name(w->out, d->tensor ? d->tensor : "?");
    put_directive_rest(w, program, d);
  }
  ir_text_put(w->out, d->applied ? " applied;\n" : ";\n");
}

static void put_schedule(ir_writer *w, const ir_program *program, const ir_schedule *s) {
  ir_text_put(w->out, "\nschedule ");
  ir_put_name(w->out, s->kernel);
  if (s->target) {
    ir_text_put(w->out, " for ");
    ir_put_name(w->out, s->target);
  }
  ir_text_put(w->out, " {\n");
  for (int i = 0; i < s->directives.count; i++) put_directive(w, program, &s->directives.at[i]);
  ir_text_put(w->out, "}\n");
}

/* ---- kernels ------------------------------------------------------------------------------- */
static ir_names *workspace_names(ir_arena *arena, const ir_kernel *kernel) {
  ir_names *names = ir_names_new(arena, NULL);
  for (int i = 0; i < kernel->workspaces.count; i++)
    ir_names_add(arena, names, kernel->workspaces.at[i], kernel->workspaces.at[i]->name);
  return names;
}

static void put_kernel_schedule(ir_writer *w) {
  const ir_program *program = w->kernel->program;
  for (int i = 0; i < program->schedules.count; i++)
    if (program->schedules.at[i] == w->kernel->schedule)
      ir_text_printf(w->out, "  schedule %d;\n", i);
}

static void put_kernel(ir_text *out, const ir_kernel *kernel) {
  ir_writer w = {.out = out, .kernel = kernel};
  ir_text_put(out, "\nkernel ");
  ir_put_name(out, kernel->name);
  ir_text_put(out, kernel->wide ? " positions i64 {\n" : " {\n");
  put_kernel_schedule(&w);
  ir_put_ein(&w);
  w.names = workspace_names(out->arena, kernel);
  ir_put_tile(&w);
  ir_put_funcs(&w);
  ir_text_put(out, "}\n");
}

void ir_print(const ir_program *program, ir_text *out) {
  ir_writer w = {.out = out};
  put_header(out, program);
  for (int i = 0; i < program->dims.count; i++) put_dim(out, program->dims.at[i]);
  for (int i = 0; i < program->formats.count; i++) put_declared_format(&w, program->formats.at[i]);
  for (int i = 0; i < program->schedules.count; i++)
    put_schedule(&w, program, program->schedules.at[i]);
  for (int i = 0; i < program->kernels.count; i++) put_kernel(out, program->kernels.at[i]);
}
