/* plan.c - a compiled kernel bound to sizes: its modules, and a whole run as one call.
 *
 * Statistics tell what really ran: the kernel's name of each stage, the measured cover of the list
 * it read, and whether the guard let it run. */
#include "runtime/plan.h"

#include "runtime/run.h"

ir_image *rt_image_interpreted(ir_arena *arena, const ir_kernel *kernel) {
  ir_image *image = IR_NEW(arena, ir_image);
  *image = (ir_image){.arena = arena, .kernel = kernel};
  for (int i = 0; i < kernel->stages.count; i++)
    for (int f = 0; f < kernel->stages.at[i]->funcs.count; f++) {
      ir_func *func = kernel->stages.at[i]->funcs.at[f];
      if (func->kind != IR_FUNC_KERNEL) continue;
      ir_code_image code = {
          .stage = kernel->stages.at[i], .func = func, .label = "interp", .entry = func->name};
      for (int c = 0; c < func->body.codes.count; c++) {
        const ir_code *loop = func->body.codes.at[c];
        if (loop->kind != IR_FOR || loop->run != IR_RUN_PARALLEL) continue;
        code.parallel_lo = loop->lo;
        code.parallel_hi = loop->hi;
      }
      IR_PUSH(arena, &image->codes, code);
    }
  return image;
}

static spc_status load_modules(rt_plan *plan, ir_sink *sink) {
  const ir_image *image = plan->image;
  rt_cuda *cuda = plan->options.cuda;
  for (int i = 0; image->cuda && i < image->codes.count; i++) {
    if (image->codes.at[i].library) continue;
    spc_status status = rt_cuda_load(cuda, &image->codes.at[i], &plan->modules[i]);
    if (!status) continue;
    ir_diag_add(sink, IR_DIAG_CUDA_RUN, IR_NOWHERE, "loading kernel `%s`: %s",
                image->codes.at[i].entry, rt_cuda_error(cuda));
    return status;
  }
  return SPC_OK;
}

static spc_status make(rt_plan *plan, const int64_t *sizes, ir_sink *sink) {
  const spc_allocator *from = plan->options.from;
  size_t dims = (size_t)plan->image->kernel->program->dims.count;
  size_t codes = (size_t)plan->image->codes.count;
  plan->sizes = ir_take(from, (dims + 1) * sizeof *plan->sizes, IR_TAKE_ALIGN);
  plan->modules = ir_take(from, (codes + 1) * sizeof *plan->modules, IR_TAKE_ALIGN);
  plan->work_ns = ir_take(from, (codes + 1) * sizeof *plan->work_ns, IR_TAKE_ALIGN);
  plan->kept = ir_take(from, (codes + 1) * sizeof *plan->kept, IR_TAKE_ALIGN);
  if (!plan->kept || !plan->sizes || !plan->modules || !plan->work_ns) return SPC_OUT_OF_MEMORY;
  memcpy(plan->sizes, sizes, dims * sizeof *sizes);
  return load_modules(plan, sink);
}

spc_status rt_plan_new(const ir_image *image, const int64_t *sizes, const rt_plan_options *options,
                       ir_sink *sink, rt_plan **out) {
  rt_plan *plan = ir_take(options->from, sizeof *plan, IR_TAKE_ALIGN);
  *out = plan;
  if (!plan) return SPC_OUT_OF_MEMORY;
  plan->image = image;
  plan->options = *options;
  spc_status status = make(plan, sizes, sink);
  if (!status) return SPC_OK;
  *out = NULL;
  rt_plan_free(plan);
  return status;
}

void rt_plan_free(rt_plan *plan) {
  if (!plan) return;
  const spc_allocator *from = plan->options.from;
  rt_run_free(plan->running);
  for (int i = 0; plan->modules && plan->image->cuda && i < plan->image->codes.count; i++)
    if (plan->modules[i]) rt_cuda_unload(plan->options.cuda, plan->modules[i]);
  for (int i = 0; plan->kept && i < plan->image->codes.count; i++) rt_cublaslt_free(plan->kept[i]);
  ir_give_back(from, plan->kept);
  ir_give_back(from, plan->modules);
  ir_give_back(from, plan->made);
  ir_give_back(from, plan->sizes);
  ir_give_back(from, plan->work_ns);
  ir_give_back(from, plan);
}

static spc_status run_steps(rt_run *run, ir_bindings *bindings, rt_stats *stats) {
  SPC_TRY(rt_run_prepare(run));
  SPC_TRY(rt_run_enqueue(run, NULL, stats));
  return rt_run_fetch(run, bindings, stats);
}

spc_status rt_plan_run(rt_plan *plan, ir_arena *arena, ir_bindings *bindings, rt_stats *stats,
                       ir_sink *sink) {
  spc_status status = rt_run_new(plan, arena, bindings, sink, &plan->running);
  if (!status) status = run_steps(plan->running, bindings, stats);
  rt_run_free(plan->running);
  plan->running = NULL;
  return status;
}
