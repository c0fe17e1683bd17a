/* run_small.c - a kernel with data that nobody chose: the reference for statements, interpreted
 * plans for stages and functions.  Bounded in sizes, memory and steps. */
#include "tests/fuzz/run_small.h"

#include "runtime/plan.h"

enum { MOST_ELEMENTS = 4096, MOST_STEPS = 20000 };

static bool choose_sizes(const ir_program *program, int64_t *sizes) {
  for (int d = 0; d < program->dims.count; d++) {
    const ir_dim *dim = program->dims.at[d];
    int64_t multiple = dim->multiple > 0 ? dim->multiple : 1, size = dim->value;
    if (size < 0) size = multiple >= 3 ? multiple : 3 / multiple * multiple;
    if (size > MOST_ELEMENTS || (dim->bound > 0 && size > dim->bound)) return false;
    sizes[dim->number] = size;
  }
  return true;
}

static bool is_small(const ir_expr *count, const int64_t *sizes) {
  int64_t n = 0;
  return !count || (ir_size_value(count, sizes, &n) && n <= MOST_ELEMENTS * 16);
}

static bool locals_are_small(const ir_block *block, const int64_t *sizes) {
  for (int i = 0; i < block->codes.count; i++) {
    const ir_code *code = block->codes.at[i];
    if (code->kind == IR_LOCAL && !is_small(code->buf->count, sizes)) return false;
    if (!locals_are_small(&code->body, sizes) || !locals_are_small(&code->orelse, sizes))
      return false;
  }
  return true;
}

static bool fits_here(const ir_kernel *kernel, const int64_t *sizes) {
  for (int i = 0; i < kernel->tensors.count; i++) {
    const ir_tensor *t = kernel->tensors.at[i];
    int64_t elements = 1, size;
    for (int d = 0; d < t->rank; d++) {
      if (!ir_size_value(t->dim[d], sizes, &size) || size < 0 || size > MOST_ELEMENTS) return false;
      elements *= size;
      if (elements > MOST_ELEMENTS) return false;
    }
    for (int l = 0; t->format && l < t->format->level_count; l++) /* blocks and widths pad */
      if (t->format->level[l].factor > 64 || t->format->level[l].parameter > 64) return false;
  }
  for (int i = 0; i < kernel->workspaces.count; i++)
    if (!is_small(kernel->workspaces.at[i]->count, sizes)) return false;
  for (int i = 0; i < kernel->funcs.count; i++)
    if (!locals_are_small(&kernel->funcs.at[i]->body, sizes)) return false;
  return true;
}

static bool make_view(ir_arena *arena, const ir_tensor *t, const int64_t *sizes, ir_view *out) {
  int64_t dims[IR_MAX_RANK] = {0}, at[IR_MAX_RANK] = {0}, elements = 1;
  const char *why = "";
  for (int d = 0; d < t->rank; d++) {
    if (!ir_size_value(t->dim[d], sizes, &dims[d])) return false;
    elements *= dims[d];
  }
  ir_entries e = {.rank = t->rank, .capacity = elements};
  e.at = IR_NEW_ARRAY(arena, int64_t, elements * t->rank + 1);
  e.value = IR_NEW_ARRAY(arena, double, elements + 1);
  e.int_value = IR_NEW_ARRAY(arena, int64_t, elements + 1);
  bool all = t->dtype != IR_NONE && (!t->format || ir_format_is_dense(t->format));
  for (int64_t i = 0; i < elements; i++) {
    if (all || i % 3 == 0 || i % 7 == 3) {
      memcpy(e.at + e.count * t->rank, at, sizeof *at * (size_t)t->rank);
      e.int_value[e.count] = (i * 5 + 1) % 4;
      e.value[e.count++] = (double)(i % 5) - 1.5;
    }
    for (int k = t->rank; k-- > 0 && ++at[k] == dims[k];) at[k] = 0;
  }
  if (ir_dtype_is_float(t->dtype))
    e.int_value = NULL;
  else
    e.value = NULL;
  if (t->dtype == IR_NONE) e.int_value = NULL;
  const ir_format *format =
      t->format ? t->format : ir_format_builtin(arena, "dense", t->rank, NULL, 0, &why);
  return format && ir_view_pack(arena, t->dtype, dims, format, IR_I32, &e, out, &why) == SPC_OK;
}

static spc_status run_stages(ir_arena *arena, ir_kernel *kernel, const int64_t *sizes,
                             ir_bindings *bindings, ir_sink *sink) {
  rt_plan_options options = {.max_steps = MOST_STEPS};
  rt_plan *plan = NULL;
  rt_stats stats = {0};
  spc_status status =
      rt_plan_new(rt_image_interpreted(arena, kernel), sizes, &options, sink, &plan);
  if (!status) status = rt_plan_run(plan, arena, bindings, &stats, sink);
  rt_plan_free(plan);
  return status;
}

spc_status run_small(ir_arena *arena, ir_kernel *kernel, ir_sink *sink) {
  int64_t *sizes = IR_NEW_ARRAY(arena, int64_t, kernel->program->dims.count + 1);
  ir_interp_options options = {.strict_nan = kernel->program->strict_nan, .max_steps = MOST_STEPS};
  ir_bindings bindings = {0};
  if (!choose_sizes(kernel->program, sizes) || !fits_here(kernel, sizes)) return SPC_OK;
  for (int i = 0; i < kernel->tensors.count; i++) {
    ir_binding b = {.tensor = kernel->tensors.at[i]};
    if (b.tensor->role != IR_ROLE_IN) continue;
    if (!make_view(arena, b.tensor, sizes, &b.view)) return SPC_OK;
    IR_PUSH(arena, &bindings.list, b);
  }
  if (ir_solve_sizes(kernel, &bindings, sizes, sink) || ir_check_sizes(kernel, sizes, sink))
    return SPC_OK;
  return kernel->stages.count ? run_stages(arena, kernel, sizes, &bindings, sink)
                              : ir_interp_ein(arena, kernel, sizes, &bindings, &options, sink);
}
