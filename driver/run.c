/* run.c - `spc run`: bind, compile, execute, write. */
#include "driver/driver.h"

typedef struct running {
  drv_backend backend;
  rt_cuda *cuda;
  ir_kernel *kernel;
  int64_t *sizes;
  ir_bindings bindings;
  rt_stats stats;
  const ir_image *image; /* its code is gone when statistics are written */
} running;

static bool has_stages(const drv_session *s) { return s->program->after >= 80; }

/* The reference interpreter walks the statements; a dump that already has stages runs as staged. */
static spc_status run_reference(drv_session *s, running *run) {
  ir_interp_options options = {.strict_nan = s->options.strict_nan || s->program->strict_nan};
  double begin = drv_now_ms();
  SPC_TRY(ir_interp_ein(s->arena, run->kernel, run->sizes, &run->bindings, &options, s->sink));
  rt_stage_stats row = {.stage = run->kernel->name,
                        .kernel = "interp",
                        .ran = true,
                        .cover = -1,
                        .milliseconds = drv_now_ms() - begin};
  run->stats.backend = "interp";
  IR_PUSH(s->arena, &run->stats.stages, row);
  return SPC_OK;
}

static spc_status execute_plan(drv_session *s, running *run, const ir_image *image) {
  rt_plan_options options = drv_plan_options(s, run->backend, run->cuda);
  rt_plan *plan = NULL;
  spc_status status = rt_plan_new(image, run->sizes, &options, s->sink, &plan);
  if (!status) status = rt_plan_run(plan, s->arena, &run->bindings, &run->stats, s->sink);
  rt_plan_free(plan);
  rt_pool_free(options.pool);
  return status;
}

static spc_status run_compiled(drv_session *s, running *run) {
  drv_backend target_backend = run->backend == DRV_INTERP ? DRV_CPU : run->backend;
  const ir_target *target = drv_target_of(s, target_backend, run->cuda);
  ir_image *image = NULL;
  if (!target) return SPC_INVALID_ARGUMENT;
  SPC_TRY(drv_run_passes(s, target, run->sizes));
  if (run->backend == DRV_INTERP)
    return execute_plan(s, run, rt_image_interpreted(s->arena, run->kernel));
  SPC_TRY(drv_codegen(s, run->kernel, target, false, &image));
  run->image = image;
  spc_status status = execute_plan(s, run, image);
  if (image->release) image->release(image->owner);
  return status;
}

/* A stage whose kernel is composed has no loops that could be interpreted. */
static const ir_stage *composed_stage(const ir_kernel *kernel) {
  for (int i = 0; i < kernel->stages.count; i++)
    if (kernel->stages.at[i]->row && strcmp(kernel->stages.at[i]->row, "loop") != 0)
      return kernel->stages.at[i];
  return NULL;
}

static spc_status check_target_agrees(drv_session *s, const running *run) {
  const ir_target *target = s->program->target ? ir_target_find(s->program->target) : NULL;
  if (!target) return SPC_OK;
  if (run->backend == DRV_INTERP) {
    const ir_stage *stage = composed_stage(run->kernel);
    if (!stage) return SPC_OK;
    drv_usage_error(s,
                    "stage `%s` of this IR is the kernel %s, which the interpreter cannot run; run it "
                    "with --backend=cuda, or start from the .spx file",
                    stage->name, stage->row);
    return SPC_INVALID_ARGUMENT;
  }
  ir_target_kind wanted = run->backend == DRV_CPU ? IR_TARGET_CPU : IR_TARGET_CUDA;
  if (target->kind == wanted) return SPC_OK;
  drv_usage_error(s, "this IR was made for %s; run it with --backend=%s", target->name,
                  target->kind == IR_TARGET_CPU ? "cpu" : "cuda");
  return SPC_INVALID_ARGUMENT;
}

static bool has_wide_arrays(const ir_view *view) {
  bool wide = false;
  for (int l = 0; view->format && l < view->format->level_count; l++)
    wide = wide || view->pos[l].dtype == IR_I64 || view->crd[l].dtype == IR_I64;
  return wide;
}

/* Positions are what the arrays bound are; on a GPU i32, where they fit. */
static void take_positions(running *run) {
  if (run->backend == DRV_CUDA || run->kernel->funcs.count) return;
  for (int i = 0; i < run->bindings.list.count; i++)
    if (has_wide_arrays(&run->bindings.list.at[i].view))
      ir_widen(run->kernel, run->bindings.list.at[i].tensor);
}

static spc_status run_kernel(drv_session *s, running *run) {
  SPC_TRY(drv_pick_kernel(s, &run->kernel));
  SPC_TRY(drv_set_positions(s));
  run->sizes = IR_NEW_ARRAY(s->arena, int64_t, s->program->dims.count + 1);
  SPC_TRY(drv_sizes_from_defines(s, run->sizes));
  s->options.kernel = run->kernel->name;
  SPC_TRY(drv_check_outs(s, run->kernel));
  SPC_TRY(drv_bind_inputs(s, run->kernel, run->sizes, &run->bindings));
  SPC_TRY(ir_check_sizes(run->kernel, run->sizes, s->sink));
  if (s->options.check_inputs) SPC_TRY(drv_check_inputs(s, run->kernel, &run->bindings));
  SPC_TRY(drv_pick_backend(s, &run->backend, &run->cuda));
  SPC_TRY(check_target_agrees(s, run));
  take_positions(run);
  SPC_TRY(run->backend == DRV_INTERP && !has_stages(s) ? run_reference(s, run)
                                                       : run_compiled(s, run));
  SPC_TRY(drv_write_outputs(s, run->kernel, &run->bindings));
  return s->options.stats ? drv_write_stats(s, run->kernel, &run->stats, run->image) : SPC_OK;
}

int drv_run(drv_session *s) {
  if (s->arguments.items.count != 1)
    return drv_usage_error(s, "run wants one file; see `spc help run`");
  running run = {0};
  spc_status status = drv_load(s, s->arguments.items.at[0]);
  if (!status) status = run_kernel(s, &run);
  if (run.cuda) rt_cuda_close(run.cuda);
  return drv_finish(s, status);
}
