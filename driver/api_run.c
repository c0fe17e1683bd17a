/* api_run.c - plans and copying runs of the public interface: the caller's arrays in, results out.
 */
#include <setjmp.h>

#include "driver/api.h"

static spc_status find_kernel(spc_program *program, const char *name, int *number, spc_error *err) {
  int count = program->ir->kernels.count;
  if (!name && count != 1)
    return drv_api_fail(err, SPC_INVALID_ARGUMENT, NULL,
                        "spc_plan_new: the program has %d kernels; name one", count);
  for (*number = 0; *number < count; ++*number)
    if (!name || !strcmp(program->ir->kernels.at[*number]->name, name)) return SPC_OK;
  return drv_api_fail(err, SPC_INVALID_ARGUMENT, NULL,
                      "spc_plan_new: the program has no kernel `%s`", name);
}

spc_status spc_plan_new(spc_program *program, const char *kernel, const spc_size *sizes,
                        int size_count, spc_plan **out, spc_error *err) {
  int number = 0;
  if (out) *out = NULL;
  if (!program || !out || size_count < 0 || (size_count && !sizes))
    return drv_api_fail(err, SPC_INVALID_ARGUMENT, NULL, "spc_plan_new: `%s` is not valid",
                        !program ? "program"
                        : !out   ? "plan"
                                 : "sizes");
  if (drv_tuned(program)) program = drv_tuned(program);
  SPC_TRY(find_kernel(program, kernel, &number, err));
  int dims = program->ir->dims.count;
  const spc_allocator *from = program->context->from;
  spc_plan *plan = ir_take(from, sizeof *plan, IR_TAKE_ALIGN);
  if (plan) {
    plan->program = program;
    plan->kernel = program->ir->kernels.at[number];
    plan->kernel_number = number;
    plan->given = ir_take(from, sizeof *plan->given * ((size_t)dims + 1), IR_TAKE_ALIGN);
  }
  spc_status status = plan && plan->given ? SPC_OK : SPC_OUT_OF_MEMORY;
  rt_cuda *cuda = program->context->cuda;
  int mode = rt_cuda_relax(cuda);
  if (!status) status = rt_report_new(cuda, from, plan->kernel, &plan->report);
  rt_cuda_restore(cuda, mode);
  if (status) {
    spc_plan_free(plan);
    return drv_api_fail(err, status, NULL, "spc_plan_new: %s",
                        cuda && status != SPC_OUT_OF_MEMORY ? rt_cuda_error(cuda) : "no memory for a plan");
  }
  for (int d = 0; d < dims; d++) plan->given[d] = program->ir->dims.at[d]->value;
  for (int i = 0; i < size_count; i++) {
    const ir_dim *dim = sizes[i].name ? ir_dim_named(program->ir, sizes[i].name) : NULL;
    bool fixed = dim && dim->value >= 0 && dim->value != sizes[i].value;
    if (!dim || fixed || sizes[i].value < 0) {
      spc_plan_free(plan);
      return drv_api_fail(err, SPC_INVALID_ARGUMENT, NULL,
                          "spc_plan_new: sizes[%d]: `%s` = %lld %s", i,
                          sizes[i].name ? sizes[i].name : "(null)", (long long)sizes[i].value,
                          !dim    ? "names no dim"
                          : fixed ? "is another value than the program was compiled for"
                                  : "is negative");
    }
    plan->given[dim->number] = sizes[i].value;
  }
  status = drv_plan_sizes(plan, sizes, size_count, err);
  if (status)
    spc_plan_free(plan);
  else
    *out = plan;
  return status;
}

void spc_plan_free(spc_plan *plan) {
  if (!plan) return;
  const spc_allocator *from = plan->program->context->from;
  spc_plan_free(atomic_load_explicit(&plan->better, memory_order_acquire));
  drv_plan_sizes_free(plan);
  drv_unprepare(plan);
  rt_report_free(&plan->report);
  ir_give_back(from, plan->given);
  ir_give_back(from, plan);
}

/* With the sizes that were given to it. */
spc_status drv_plan_like(const spc_plan *plan, spc_program *program, spc_plan **out,
                         spc_error *err) {
  const ir_program *mine = plan->program->ir;
  spc_size *sizes = ir_take(program->context->from, sizeof *sizes * ((size_t)mine->dims.count + 1),
                            IR_TAKE_ALIGN);
  int count = 0;
  *out = NULL;
  if (!sizes) return drv_api_fail(err, SPC_OUT_OF_MEMORY, NULL, "no memory for a plan");
  for (int d = 0; d < mine->dims.count; d++)
    if (plan->given[d] >= 0) sizes[count++] = (spc_size){mine->dims.at[d]->name, plan->given[d]};
  spc_status status = spc_plan_new(program, plan->kernel->name, sizes, count, out, err);
  ir_give_back(program->context->from, sizes);
  return status;
}

/* ---- tensors in ------------------------------------------------------------------------------ */
typedef struct api_run {
  spc_plan *plan;
  bool counts; /* what results need is asked for, not the results */
  ir_arena *arena;
  ir_sink *sink;
  api_tensors given;
  int64_t *sizes;
  ir_bindings bindings;
  rt_plan *rt; /* NULL until there is one; outlives what ends in the arena's handler */
} api_run;

/* A dense tensor as code or the interpreter reads it: in place where it lies so, else copied. */
static spc_status take_rows(api_run *run, const spc_tensor *t, const ir_tensor *declared, ir_array *values) {
  api_rows given, kept;
  size_t element = ir_dtype_bytes(declared->dtype);
  drv_tensor_rows(t, declared, &given);
  drv_rows_kept(t->shape, declared, &kept);
  SPC_TRY(drv_rows_there(&run->given, t, &given));
  values->count = kept.span;
  if (!given.padded && !kept.padded) return SPC_OK;
  values->data = ir_alloc(run->arena, (size_t)kept.span * element);
  drv_rows_copy(values->data, &kept, t->values, &given, element);
  return SPC_OK;
}

static spc_status bind_input(api_run *run, ir_tensor *declared) {
  spc_tensor *t;
  ir_binding binding = {.tensor = declared};
  const char *why = "";
  SPC_TRY(drv_tensor_find(&run->given, declared, &t));
  drv_tensor_view(&run->given, t, declared, &binding.view);
  if (ir_format_is_dense(declared->format)) {
    int64_t elements = ir_view_elements(&binding.view);
    if (elements && !t->values) return drv_tensor_misuse(&run->given, t, "`values` is NULL");
    binding.view.vals.count = elements;
    if (elements) SPC_TRY(take_rows(run, t, declared, &binding.view.vals));
  } else if (ir_view_check(run->arena, &binding.view, &why)) {
    return drv_api_fail(run->given.err, SPC_INVALID_INPUT, NULL,
                        "tensor `%s` breaks its format: %s", t->name, why);
  }
  IR_PUSH(run->arena, &run->bindings.list, binding);
  return SPC_OK;
}

/* ---- the run ----------------------------------------------------------------------------------
 */
static spc_status execute(api_run *run) {
  spc_plan *plan = run->plan;
  spc_program *program = plan->program;
  const ir_image *image = program->images[plan->kernel_number];
  if (!image) {
    ir_interp_options options = {.strict_nan = program->strict_nan};
    return ir_interp_ein(run->arena, plan->kernel, run->sizes, &run->bindings, &options, run->sink);
  }
  rt_plan_options options = {.pool = program->context->pool,
                             .cuda = program->context->cuda,
                             .from = program->context->from,
                             .report = run->counts ? NULL : &plan->report};
  SPC_TRY(rt_plan_new(image, run->sizes, &options, run->sink, &run->rt));
  return run->counts ? rt_plan_count(run->rt, run->arena, &run->bindings, run->sink)
                     : rt_plan_run(run->rt, run->arena, &run->bindings, NULL, run->sink);
}

/* Positions of assembled results as the caller's arrays hold them. */
static spc_status set_index_dtypes(api_run *run) {
  for (int i = 0; i < run->bindings.list.count; i++) {
    ir_binding *result = &run->bindings.list.at[i];
    const ir_tensor *declared = result->tensor;
    const char *why = "";
    spc_tensor *t = drv_tensor_given(&run->given, declared->name);
    if (declared->role != IR_ROLE_OUT || declared->like || !t) continue;
    ir_dtype index = drv_tensor_index(&run->given, t, declared);
    if (ir_view_index(run->arena, &result->view, index, &why))
      return drv_api_fail(run->given.err, SPC_INVALID_INPUT, NULL, "output `%s`: %s", t->name, why);
  }
  return SPC_OK;
}

static void set_pitches(const ir_kernel *kernel, int64_t *sizes) {
  for (int i = 0; i < kernel->tensors.count; i++) {
    const ir_tensor *t = kernel->tensors.at[i];
    int64_t shape[IR_MAX_RANK];
    api_rows rows;
    for (int d = 0; d < t->rank && t->pitch[0]; d++)
      if (!ir_size_value(t->dim[d], sizes, &shape[d])) shape[d] = 0;
    if (t->pitch[0]) drv_rows_kept(shape, t, &rows);
    for (int l = 0; l + 1 < t->rank && t->pitch[0]; l++) sizes[t->pitch[l]->dim->number] = rows.step[l];
  }
}

static spc_status run_all(api_run *run) {
  const ir_kernel *kernel = run->plan->kernel;
  SPC_TRY(drv_tensor_names(&run->given));
  for (int i = 0; i < kernel->tensors.count; i++)
    if (kernel->tensors.at[i]->role == IR_ROLE_IN) SPC_TRY(bind_input(run, kernel->tensors.at[i]));
  spc_status status = ir_solve_sizes(kernel, &run->bindings, run->sizes, run->sink);
  if (!status) set_pitches(kernel, run->sizes);
  if (!status) status = ir_check_sizes(kernel, run->sizes, run->sink);
  if (status) return drv_api_fail(run->given.err, status, run->sink, NULL);
  if (!run->counts) SPC_TRY(drv_results_expect(&run->given, &run->bindings, run->sizes));
  status = execute(run);
  if (status) return drv_api_fail(run->given.err, status, run->sink, NULL);
  if (run->counts) return drv_results_count(&run->given, &run->bindings);
  SPC_TRY(set_index_dtypes(run));
  return drv_results_write(&run->given, &run->bindings);
}

static spc_status guarded(api_run *run) {
  jmp_buf out_of_memory;
  if (setjmp(out_of_memory))
    return drv_api_fail(run->given.err, SPC_OUT_OF_MEMORY, NULL, "%s: no memory", run->given.call);
  ir_arena_guard(run->arena, &out_of_memory);
  int dims = run->plan->program->ir->dims.count;
  run->sink = ir_sink_new(run->arena);
  run->sizes = IR_NEW_ARRAY(run->arena, int64_t, dims + 1);
  memcpy(run->sizes, run->plan->given, sizeof(int64_t) * (size_t)dims);
  return run_all(run);
}

static spc_status run_or_count(const char *call, bool counts, spc_plan *plan, spc_tensor *tensors,
                               int count, spc_error *err) {
  plan = drv_plan_for(plan, tensors, count);
  if (!plan || count < 0 || (count && !tensors))
    return drv_api_fail(err, SPC_INVALID_ARGUMENT, NULL, "%s: `%s` is not valid", call,
                        !plan       ? "plan"
                        : count < 0 ? "count"
                                    : "tensors");
  api_tensors given = {call, plan->kernel, tensors, count, err, false};
  api_run run = {.plan = plan, .counts = counts, .given = given};
  run.arena = ir_arena_new_from(plan->program->context->from);
  if (!run.arena) return drv_api_fail(err, SPC_OUT_OF_MEMORY, NULL, "%s: no memory", call);
  const spc_context *context = plan->program->context;
  const char *phase = counts ? "count" : "run";
  drv_trace(context, phase, plan->kernel->name, true);
  spc_status status = guarded(&run);
  drv_trace(context, phase, plan->kernel->name, false);
  rt_plan_free(run.rt);
  ir_arena_free(run.arena);
  return status;
}

spc_status spc_run(spc_plan *plan, spc_tensor *tensors, int count, spc_error *err) {
  return run_or_count("spc_run", false, plan, tensors, count, err);
}

spc_status spc_count(spc_plan *plan, spc_tensor *tensors, int count, spc_error *err) {
  return run_or_count("spc_count", true, plan, tensors, count, err);
}
