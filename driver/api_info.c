/* api_info.c - what a kernel takes and gives, for callers that do not know the program. */
#include <setjmp.h>

#include "driver/api.h"

_Static_assert((int)SPC_MAX_LEVELS == (int)IR_MAX_LEVELS, "levels of the public interface");

static bool is_callers(const ir_tensor *t) {
  return t->role == IR_ROLE_IN || t->role == IR_ROLE_OUT;
}

int spc_plan_tensor_count(const spc_plan *plan) {
  int count = 0;
  for (int i = 0; plan && i < plan->kernel->tensors.count; i++)
    count += is_callers(plan->kernel->tensors.at[i]);
  return count;
}

static const ir_tensor *nth(const ir_kernel *kernel, int n) {
  for (int i = 0; n >= 0 && i < kernel->tensors.count; i++)
    if (is_callers(kernel->tensors.at[i]) && n-- == 0) return kernel->tensors.at[i];
  return NULL;
}

static void describe_format(const ir_format *f, spc_tensor_info *info) {
  info->format = f && f->name ? f->name : "dense";
  if (!f) return;
  info->format_argument_count = f->argument_count;
  memcpy(info->format_arguments, f->argument, sizeof info->format_arguments);
  info->level_count = f->level_count;
  for (int l = 0; l < f->level_count; l++) {
    info->levels[l] = ir_level_rows[f->level[l].kind].text;
    info->level_axis[l] = f->level[l].dim;
  }
}

spc_status spc_plan_tensor(const spc_plan *plan, int i, spc_tensor_info *info, spc_error *err) {
  const ir_tensor *t = plan ? nth(plan->kernel, i) : NULL;
  if (t) t = ir_declared(t);
  if (!t || !info || info->struct_size < sizeof info->struct_size)
    return drv_api_fail(err, SPC_INVALID_ARGUMENT, NULL, "spc_plan_tensor: `%s` is not valid",
                        !plan ? "plan"
                        : !t  ? "i"
                              : "info");
  spc_tensor_info full = {.struct_size = info->struct_size,
                          .name = t->name,
                          .rank = t->rank,
                          .is_output = t->role == IR_ROLE_OUT};
  const ir_tensor *root = ir_tensor_owner(t);
  full.pattern_of = root == t ? NULL : root->name;
  for (int d = 0; d < t->rank; d++)
    if (t->dim[d]->kind == IR_DIM) full.dims[d] = t->dim[d]->dim->name;
  full.dtype = t->dtype == IR_NONE ? NULL : ir_dtype_text(t->dtype);
  describe_format(t->format, &full);
  memcpy(info, &full, full.struct_size < sizeof full ? full.struct_size : sizeof full);
  return SPC_OK;
}

/* ---- shapes of results ----------------------------------------------------------------------- */
typedef struct shaping {
  spc_plan *plan;
  api_tensors given;
  ir_arena *arena;
  ir_sink *sink;
  ir_bindings bindings;
  int64_t *sizes;
} shaping;

static spc_status bind_shapes(shaping *s) {
  const ir_kernel *kernel = s->plan->kernel;
  SPC_TRY(drv_tensor_names(&s->given));
  for (int i = 0; i < kernel->tensors.count; i++) {
    ir_tensor *declared = kernel->tensors.at[i];
    if (declared->role != IR_ROLE_IN) continue;
    spc_tensor *t;
    ir_binding binding = {.tensor = declared};
    SPC_TRY(drv_tensor_find(&s->given, declared, &t));
    drv_tensor_view(&s->given, t, declared, &binding.view);
    IR_PUSH(s->arena, &s->bindings.list, binding);
  }
  return SPC_OK;
}

static spc_status shape_result(shaping *s, const ir_tensor *declared, spc_tensor *t) {
  int64_t count = 1;
  declared = ir_declared(declared);
  t->rank = declared->rank;
  for (int d = 0; d < declared->rank; d++) {
    if (!ir_size_value(declared->dim[d], s->sizes, &t->shape[d]) || t->shape[d] < 0)
      return drv_api_fail(s->given.err, SPC_INVALID_INPUT, NULL,
                          "%s: no input settles the size of axis %d of `%s`; give it to "
                          "spc_plan_new",
                          s->given.call, d, declared->name);
    count = t->shape[d] && count > INT64_MAX / t->shape[d] ? INT64_MAX : count * t->shape[d];
  }
  const ir_tensor *root = ir_tensor_owner(declared);
  const spc_tensor *model = drv_tensor_given(&s->given, root->name);
  if (declared->like)
    t->value_count = model ? model->value_count : 0;
  else if (ir_format_is_dense(declared->format))
    t->value_count = count;
  return SPC_OK;
}

static spc_status shape_all(shaping *s) {
  jmp_buf out_of_memory;
  if (setjmp(out_of_memory))
    return drv_api_fail(s->given.err, SPC_OUT_OF_MEMORY, NULL, "no memory for shapes");
  ir_arena_guard(s->arena, &out_of_memory);
  const ir_kernel *kernel = s->plan->kernel;
  int dims = s->plan->program->ir->dims.count;
  s->sink = ir_sink_new(s->arena);
  s->sizes = IR_NEW_ARRAY(s->arena, int64_t, dims + 1);
  memcpy(s->sizes, s->plan->given, sizeof(int64_t) * (size_t)dims);
  SPC_TRY(bind_shapes(s));
  spc_status status = ir_solve_sizes(kernel, &s->bindings, s->sizes, s->sink);
  if (status) return drv_api_fail(s->given.err, status, s->sink, NULL);
  for (int i = 0; i < kernel->tensors.count; i++) {
    const ir_tensor *declared = kernel->tensors.at[i];
    spc_tensor *t =
        declared->role == IR_ROLE_OUT ? drv_tensor_given(&s->given, declared->name) : NULL;
    if (t) SPC_TRY(shape_result(s, declared, t));
  }
  return SPC_OK;
}

spc_status spc_plan_shapes(spc_plan *plan, spc_tensor *tensors, int count, spc_error *err) {
  if (!plan || count < 0 || (count && !tensors))
    return drv_api_fail(err, SPC_INVALID_ARGUMENT, NULL, "spc_plan_shapes: `%s` is not valid",
                        !plan ? "plan" : "tensors");
  shaping s = {.plan = plan, .arena = ir_arena_new_from(plan->program->context->from)};
  s.given = (api_tensors){"spc_plan_shapes", plan->kernel, tensors, count, err, false};
  if (!s.arena) return drv_api_fail(err, SPC_OUT_OF_MEMORY, NULL, "no memory for shapes");
  spc_status status = shape_all(&s);
  ir_arena_free(s.arena);
  return status;
}
