/* plan.c - a compiled kernel bound to sizes: its modules, and a whole run as one call.
 *
 * Statistics tell what really ran: the kernel's name of each stage, the measured cover of the list
 * it read, and whether the guard let it run. */
#include "runtime/plan.h"

#include <stdlib.h>

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

spc_status rt_plan_new(const ir_image *image, const int64_t *sizes, const rt_plan_options *options,
                       ir_sink *sink, rt_plan **out) {
  rt_plan *plan = calloc(1, sizeof *plan);
  size_t dims = (size_t)image->kernel->program->dims.count;
  if (!plan) return SPC_OUT_OF_MEMORY;
  plan->image = image;
  plan->options = *options;
  plan->sizes = calloc(dims + 1, sizeof(int64_t));
  plan->modules = calloc((size_t)image->codes.count + 1, sizeof *plan->modules);
  if (!plan->sizes || !plan->modules) {
    rt_plan_free(plan);
    return SPC_OUT_OF_MEMORY;
  }
  memcpy(plan->sizes, sizes, dims * sizeof(int64_t));
  for (int i = 0; image->cuda && i < image->codes.count; i++) {
    if (image->codes.at[i].library) continue;
    spc_status status = rt_cuda_load(options->cuda, &image->codes.at[i], &plan->modules[i]);
    if (status) {
      ir_diag_add(sink, IR_DIAG_CUDA_RUN, IR_NOWHERE, "loading kernel `%s`: %s",
                  image->codes.at[i].entry, rt_cuda_error(options->cuda));
      rt_plan_free(plan);
      return status;
    }
  }
  *out = plan;
  return SPC_OK;
}

void rt_plan_free(rt_plan *plan) {
  if (!plan) return;
  for (int i = 0; plan->modules && plan->image->cuda && i < plan->image->codes.count; i++)
    if (plan->modules[i]) rt_cuda_unload(plan->options.cuda, plan->modules[i]);
  free(plan->modules);
  free(plan->made);
  free(plan->sizes);
  free(plan);
}

static spc_status run_steps(rt_run *run, ir_bindings *bindings, rt_stats *stats) {
  SPC_TRY(rt_run_prepare(run));
  SPC_TRY(rt_run_enqueue(run, NULL, stats));
  return rt_run_fetch(run, bindings, stats);
}

spc_status rt_plan_run(rt_plan *plan, ir_arena *arena, ir_bindings *bindings, rt_stats *stats,
                       ir_sink *sink) {
  rt_run *run;
  spc_status status = rt_run_new(plan, arena, bindings, sink, &run);
  if (!status) status = run_steps(run, bindings, stats);
  rt_run_free(run);
  return status;
}
