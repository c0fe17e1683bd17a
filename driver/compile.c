/* compile.c - `spc compile`: one line a kernel, or what --emit asks for (emit.c). */
#include "driver/emit.h"
#include "passes/explain.h"

static const char *made_how(drv_session *s, const ir_image *image) {
  if (!image->cached) return "compiled";
  if (!image->compiled) return "from the cache";
  return ir_format_text(s->arena, "compiled, %d of %d pieces from the cache,", image->cached,
                        image->cached + image->compiled);
}

static spc_status compile_all(drv_session *s, const ir_target *target) {
  SPC_TRY(drv_run_passes_defined(s, target));
  for (int k = 0; k < s->program->kernels.count; k++) {
    ir_kernel *kernel = s->program->kernels.at[k];
    if (s->options.kernel && strcmp(s->options.kernel, kernel->name)) continue;
    double begin = drv_now_ms();
    ir_image *image = NULL;
    bool compiles = target->kind != IR_TARGET_INTERP;
    bool text_only = target->kind == IR_TARGET_CUDA && !cg_nvrtc_found(rt_cache_face(s->cache));
    if (compiles) SPC_TRY(drv_codegen(s, kernel, target, text_only, &image));
    ir_text line = ir_text_new(s->arena);
    pass_explain_line(s->program, kernel, &line);
    printf("%s  [%d kernel%s %s in %.0f ms]\n", line.data, image ? image->codes.count : 0,
           image && image->codes.count == 1 ? "" : "s",
           !compiles   ? "checked"
           : text_only ? "printed, NVRTC is not here"
                       : made_how(s, image),
           drv_now_ms() - begin);
    if (image && image->release) image->release(image->owner);
  }
  return SPC_OK;
}

static const ir_target *default_target(drv_session *s) {
  if (s->options.target || s->program->target) return drv_target_of(s, DRV_CPU, NULL);
  rt_cuda *cuda = NULL;
  const char *why;
  drv_backend backend =
      rt_cuda_open(&cuda, &why) == SPC_OK && cg_nvrtc_found(rt_cache_face(s->cache)) ? DRV_CUDA
                                                                                     : DRV_CPU;
  const ir_target *target = drv_target_of(s, backend, cuda);
  if (cuda) rt_cuda_close(cuda);
  return target;
}

static spc_status check_kernel_name(drv_session *s) {
  ir_kernel *kernel;
  return s->options.kernel ? drv_pick_kernel(s, &kernel) : SPC_OK;
}

int drv_compile(drv_session *s) {
  if (s->arguments.items.count != 1)
    return drv_usage_error(s, "compile wants one file; see `spc help compile`");
  spc_status status = drv_load(s, s->arguments.items.at[0]);
  if (!status) status = check_kernel_name(s);
  if (!status && s->options.emit) return drv_finish(s, drv_emit(s));
  const ir_target *target = status ? NULL : default_target(s);
  if (!status) status = target ? compile_all(s, target) : SPC_INVALID_ARGUMENT;
  return drv_finish(s, status);
}
