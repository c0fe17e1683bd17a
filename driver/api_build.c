/* api_build.c - a program put together by calls: dims, kernels, statements, schedules. */
#include <setjmp.h>
#include <stdlib.h>

#include "driver/builder.h"

/* ---- the builder ----------------------------------------------------------------------------- */
static void builder_begin(spc_builder *b) {
  BUILD_GUARD(b, );
  b->out = ir_text_new(b->arena);
  ir_text_put(&b->out, "spx 1;\n");
}

spc_status spc_builder_new(spc_context *context, spc_builder **out, spc_error *err) {
  if (out) *out = NULL;
  if (!context || !out)
    return drv_api_fail(err, SPC_INVALID_ARGUMENT, NULL, "spc_builder_new: `%s` is NULL",
                        context ? "builder" : "context");
  spc_builder *b = calloc(1, sizeof *b);
  if (b) b->arena = ir_arena_new();
  if (b && b->arena) {
    b->context = context;
    builder_begin(b);
  }
  if (b && b->arena && !b->status) {
    *out = b;
    return SPC_OK;
  }
  spc_builder_free(b);
  return drv_api_fail(err, SPC_OUT_OF_MEMORY, NULL, "spc_builder_new: no memory");
}

void spc_builder_free(spc_builder *b) {
  if (!b) return;
  ir_arena_free(b->arena);
  free(b);
}

static void close_block(spc_builder *b) {
  if (b->block != BUILD_TOP) ir_text_put(&b->out, "}\n");
  b->block = BUILD_TOP;
}

const char *spc_builder_text(spc_builder *b) {
  BUILD_GUARD(b, NULL);
  const char *end = b->block == BUILD_TOP ? "" : "}\n";
  return ir_format_text(b->arena, "%s%s", b->out.data, end);
}

spc_status spc_program_from_builder(spc_builder *b, const spc_program_options *options,
                                    spc_program **program, spc_error *err) {
  if (program) *program = NULL;
  if (!b || !program)
    return drv_api_fail(err, SPC_INVALID_ARGUMENT, NULL, "spc_program_from_builder: `%s` is NULL",
                        b ? "program" : "builder");
  const char *text = spc_builder_text(b);
  if (b->status || !text) return drv_api_fail(err, b->status, NULL, "%s", b->message);
  return drv_program_new(b->context, "<builder>", text, strlen(text), options, NULL, program, err);
}

/* ---- parts of declarations ------------------------------------------------------------------- */
static void fault(spc_builder *b, const char *call, const char *what) {
  drv_build_fault(b, SPC_INVALID_ARGUMENT, "%s: %s", call, what);
}

static bool is_struct(spc_builder *b, const char *call, const char *field, const void *given,
                      size_t size) {
  if (given && *(const size_t *)given >= size) return true;
  drv_build_fault(b, SPC_INVALID_ARGUMENT,
                  "%s: `%s` is NULL, or its `struct_size` is less than %zu", call, field, size);
  return false;
}

static bool in_block(spc_builder *b, const char *call, build_block block) {
  if (b->block == block) return true;
  fault(b, call,
        block == BUILD_IN_KERNEL ? "no kernel is open: spc_build_kernel comes first"
                                 : "no schedule is open: spc_build_schedule comes first");
  return false;
}

static bool put_name(spc_builder *b, const char *call, const char *field, const char *before,
                     const char *name, const char *after) {
  if (!drv_build_is_name(b, call, field, name)) return false;
  ir_text_printf(&b->out, "%s%s%s", before, name, after);
  return true;
}

static bool put_format(spc_builder *b, const char *call, const char *before, const char *format,
                       const int64_t *args, int count) {
  if (!format) return true;
  if (count < 0 || (count && !args)) {
    fault(b, call, "`format_arguments` is NULL");
    return false;
  }
  if (!put_name(b, call, "format", before, format, count ? "(" : "")) return false;
  for (int i = 0; i < count; i++)
    ir_text_printf(&b->out, "%s%lld", i ? "," : "", (long long)args[i]);
  if (count) ir_text_put(&b->out, ")");
  return true;
}

static bool put_hint(spc_builder *b, const char *call, const spc_hint *hint) {
  if (!hint) return true;
  if (!is_struct(b, call, "hint", hint, sizeof *hint)) return false;
  ir_text_printf(&b->out, " ~ zeros(%s", hint->is_static ? "static" : "dynamic");
  if (hint->has_density)
    ir_text_printf(&b->out, ", density=%s..%s", drv_build_number(b, hint->density_low),
                   drv_build_number(b, hint->density_high));
  if (hint->rows || hint->columns)
    ir_text_printf(&b->out, ", gran=%lldx%lld", (long long)hint->rows, (long long)hint->columns);
  if (hint->axis && !put_name(b, call, "hint->axis", ", axis=", hint->axis, "")) return false;
  ir_text_put(&b->out, ")");
  return true;
}

static bool put_value(spc_builder *b, const char *call, const char *field, const char *before,
                      spc_expr e) {
  if (!e) return true;
  ir_text_put(&b->out, before);
  return drv_build_put(b, call, field, e, true);
}

/* ---- items ----------------------------------------------------------------------------------- */
void spc_build_dim(spc_builder *b, const char *name, spc_expr size) {
  BUILD_GUARD(b, );
  close_block(b);
  if (put_name(b, "spc_build_dim", "name", "dim ", name, " = ") &&
      drv_build_put(b, "spc_build_dim", "size", size, false))
    ir_text_put(&b->out, ";\n");
}

void spc_build_dyn(spc_builder *b, const char *name, int64_t multiple, int64_t most) {
  BUILD_GUARD(b, );
  close_block(b);
  if (multiple < 0 || most < 0) {
    fault(b, "spc_build_dyn", "`multiple` or `most` is negative");
    return;
  }
  if (!put_name(b, "spc_build_dyn", "name", "dim ", name, ": dyn")) return;
  if (multiple) ir_text_printf(&b->out, " %% %lld", (long long)multiple);
  if (most) ir_text_printf(&b->out, " <= %lld", (long long)most);
  ir_text_put(&b->out, ";\n");
}

void spc_build_kernel(spc_builder *b, const char *name) {
  BUILD_GUARD(b, );
  close_block(b);
  if (put_name(b, "spc_build_kernel", "name", "kernel ", name, " {\n")) b->block = BUILD_IN_KERNEL;
}

void spc_build_schedule(spc_builder *b, const char *kernel, const char *target) {
  BUILD_GUARD(b, );
  close_block(b);
  if (!put_name(b, "spc_build_schedule", "kernel", "schedule ", kernel, "")) return;
  if (target && !put_name(b, "spc_build_schedule", "target", " for ", target, "")) return;
  ir_text_put(&b->out, " {\n");
  b->block = BUILD_IN_SCHEDULE;
}

/* ---- members of a kernel --------------------------------------------------------------------- */
void spc_build_input(spc_builder *b, const spc_declaration *d) {
  static const char call[] = "spc_build_input";
  BUILD_GUARD(b, );
  if (!is_struct(b, call, "declaration", d, sizeof *d) || !in_block(b, call, BUILD_IN_KERNEL) ||
      !put_name(b, call, "name", "  in ", d->name, ": "))
    return;
  if (!d->dtype) ir_text_put(&b->out, "pattern");
  if ((d->dtype && !put_name(b, call, "dtype", "", d->dtype, "")) ||
      !drv_build_put_list(b, call, "shape", d->shape, d->rank) ||
      !put_format(b, call, " as ", d->format, d->format_arguments, d->format_argument_count) ||
      !put_hint(b, call, d->hint) || !put_value(b, call, "fill", " fill ", d->fill))
    return;
  ir_text_put(&b->out, d->is_const ? " const;\n" : ";\n");
}

void spc_build_ragged(spc_builder *b, const char *index, spc_expr from, spc_expr to) {
  static const char call[] = "spc_build_ragged";
  BUILD_GUARD(b, );
  if (!in_block(b, call, BUILD_IN_KERNEL) ||
      !put_name(b, call, "index", "  ragged ", index, " in ") ||
      !drv_build_put(b, call, "from", from, false))
    return;
  ir_text_put(&b->out, " .. ");
  if (drv_build_put(b, call, "to", to, false)) ir_text_put(&b->out, ";\n");
}

void spc_build_grad(spc_builder *b, const char *of, const char *const *wrt, int count) {
  static const char call[] = "spc_build_grad";
  BUILD_GUARD(b, );
  if (count < 1 || !wrt) {
    fault(b, call, "`wrt` is empty");
    return;
  }
  if (!in_block(b, call, BUILD_IN_KERNEL) || !put_name(b, call, "of", "  grad ", of, " wrt "))
    return;
  for (int i = 0; i < count; i++)
    if (!put_name(b, call, "wrt", i ? ", " : "", wrt[i], "")) return;
  ir_text_put(&b->out, ";\n");
}

static bool put_assign(spc_builder *b, const char *call, const char *assign) {
  static const char *const known[] = {"=", "+=", "max=", "min="};
  for (int i = 0; i < IR_COUNT(known); i++)
    if (!strcmp(assign ? assign : "=", known[i])) {
      ir_text_printf(&b->out, " %s ", known[i]);
      return true;
    }
  fault(b, call, "`assign` is =, +=, max= or min=");
  return false;
}

static bool put_result_type(spc_builder *b, const char *call, const spc_statement *s) {
  if (!s->dtype && (s->shape || s->accumulator)) {
    fault(b, call, "`shape` and `accumulator` want `dtype`");
    return false;
  }
  return !s->dtype ||
         (put_name(b, call, "dtype", " : ", s->dtype, "") &&
          (!s->shape || drv_build_put_list(b, call, "shape", s->shape, s->rank)) &&
          (!s->accumulator || put_name(b, call, "accumulator", " acc ", s->accumulator, "")));
}

static bool put_storage(spc_builder *b, const char *call, const spc_statement *s) {
  if (s->like && s->format) {
    fault(b, call, "`format` and `like` are both given");
    return false;
  }
  return (!s->like || put_name(b, call, "like", " as like(", s->like, ")")) &&
         put_format(b, call, " as ", s->format, s->format_arguments, s->format_argument_count);
}

void spc_build_statement(spc_builder *b, const spc_statement *s) {
  static const char call[] = "spc_build_statement";
  BUILD_GUARD(b, );
  if (!is_struct(b, call, "statement", s, sizeof *s) || !in_block(b, call, BUILD_IN_KERNEL) ||
      !put_name(b, call, "name", s->is_output ? "  out " : "  let ", s->name, "") ||
      !drv_build_put_list(b, call, "subscripts", s->subscripts, s->rank) ||
      !put_assign(b, call, s->assign) || !drv_build_put(b, call, "value", s->value, true) ||
      !put_value(b, call, "condition", " on ", s->condition) ||
      !put_value(b, call, "fill", " fill ", s->fill) || !put_result_type(b, call, s) ||
      !put_storage(b, call, s) || !put_hint(b, call, s->hint))
    return;
  ir_text_put(&b->out, s->is_atomic ? " atomic" : s->is_ordered ? " order(fixed)" : "");
  ir_text_put(&b->out, ";\n");
}

/* ---- directives ------------------------------------------------------------------------------ */
static bool put_sizes(spc_builder *b, const char *call, const spc_directive *d) {
  if (d->size_count < 0 || (d->size_count && !d->sizes)) {
    fault(b, call, "`sizes` is NULL");
    return false;
  }
  for (int i = 0; i < d->size_count; i++) {
    if (!put_name(b, call, "sizes", " ", d->sizes[i].name, "")) return false;
    ir_text_printf(&b->out, "=%lld", (long long)d->sizes[i].value);
  }
  return true;
}

void spc_build_directive(spc_builder *b, const spc_directive *d) {
  static const char call[] = "spc_build_directive";
  BUILD_GUARD(b, );
  if (!is_struct(b, call, "directive", d, sizeof *d) || !in_block(b, call, BUILD_IN_SCHEDULE) ||
      !put_name(b, call, "kind", "  ", d->kind, "") ||
      (d->tensor && !put_name(b, call, "tensor", " ", d->tensor, "")) ||
      (d->into && !put_name(b, call, "into", " into ", d->into, "")) ||
      (d->axis && !put_name(b, call, "axis", " axis=", d->axis, "")))
    return;
  if (d->rows || d->columns)
    ir_text_printf(&b->out, " gran=%lldx%lld", (long long)d->rows, (long long)d->columns);
  if (!put_sizes(b, call, d) ||
      !put_format(b, call, " = ", d->format, d->format_arguments, d->format_argument_count))
    return;
  if (d->number) ir_text_printf(&b->out, " %lld", (long long)d->number);
  ir_text_put(&b->out, ";\n");
}
