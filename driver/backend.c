/* backend.c - which back end and target, the pipeline with the session's switches, code generation.
 */
#include <stdlib.h>

#include "driver/driver.h"
#include "passes/cost.h"
#include "runtime/cublaslt.h"

static spc_status need_gpu(drv_session *s, const char *why) {
  ir_diag_add(s->sink, IR_DIAG_NO_GPU, IR_NOWHERE, "the cuda back end needs a GPU: %s", why);
  return SPC_UNAVAILABLE;
}

static spc_status open_cuda(drv_session *s, bool demanded, rt_cuda **cuda) {
  const char *why = "";
  spc_status status = rt_cuda_open(cuda, &why);
  if (status) return demanded ? need_gpu(s, why) : status;
  if (cg_nvrtc_found(rt_cache_face(s->cache))) return SPC_OK;
  rt_cuda_close(*cuda);
  *cuda = NULL;
  return demanded ? need_gpu(s, cg_nvrtc_version()) : SPC_UNAVAILABLE;
}

static spc_status need_cpu(drv_session *s) {
  if (cg_cpu_available()) return SPC_OK;
  ir_diag_add(s->sink, IR_DIAG_NO_LLVM, IR_NOWHERE, "the cpu back end is not in this build: %s",
              cg_cpu_version());
  return SPC_UNAVAILABLE;
}

static spc_status named_backend(drv_session *s, const char *name, drv_backend *backend,
                                rt_cuda **cuda) {
  if (!strcmp(name, "interp"))
    *backend = DRV_INTERP;
  else if (!strcmp(name, "cpu"))
    *backend = DRV_CPU;
  else if (!strcmp(name, "cuda"))
    *backend = DRV_CUDA;
  else {
    drv_usage_error(s, "--backend is interp, cpu or cuda, not `%s`", name);
    return SPC_INVALID_ARGUMENT;
  }
  if (*backend == DRV_CPU) return need_cpu(s);
  return *backend == DRV_CUDA ? open_cuda(s, true, cuda) : SPC_OK;
}

/* What --fallback allows when the demanded back end is not there. */
static spc_status fall_back(drv_session *s, spc_status status, drv_backend *backend) {
  const char *to = s->options.fallback;
  if (status != SPC_UNAVAILABLE || !to || !strcmp(to, "dense")) return status;
  *backend = !strcmp(to, "cpu") && cg_cpu_available() ? DRV_CPU : DRV_INTERP;
  s->sink->diags.count = 0;
  s->sink->errors = 0;
  ir_diag_add(s->sink, IR_DIAG_FELL_BACK, IR_NOWHERE,
              "the cuda or cpu back end is not there; running on %s",
              *backend == DRV_CPU ? "cpu" : "interp");
  return SPC_OK;
}

spc_status drv_pick_backend(drv_session *s, drv_backend *backend, rt_cuda **cuda) {
  const char *fallback = s->options.fallback;
  *cuda = NULL;
  if (fallback && strcmp(fallback, "interp") && strcmp(fallback, "cpu") &&
      strcmp(fallback, "dense")) {
    drv_usage_error(s, "--fallback is interp, cpu or dense, not `%s`", fallback);
    return SPC_INVALID_ARGUMENT;
  }
  if (s->options.backend)
    return fall_back(s, named_backend(s, s->options.backend, backend, cuda), backend);
  if (open_cuda(s, false, cuda) == SPC_OK)
    *backend = DRV_CUDA;
  else
    *backend = cg_cpu_available() ? DRV_CPU : DRV_INTERP;
  return SPC_OK;
}

/* The CPU target with the vector width that code will be made for. */
static const ir_target *cpu_target(drv_session *s) {
  ir_target *target = IR_NEW(s->arena, ir_target);
  *target = *ir_target_find("cpu");
  if (cg_cpu_available()) target->vector_bits = cg_cpu_vector_bits(s->options.mcpu);
  return target;
}

const ir_target *drv_target_of(drv_session *s, drv_backend backend, rt_cuda *cuda) {
  const char *name = s->options.target;
  s->has_gpu = false;
  if (!name && s->program && s->program->target) name = s->program->target;
  if (name) {
    const ir_target *target = ir_target_find(name);
    if (!target) {
      const char *known[32];
      for (int i = 0; i < ir_target_count(); i++) known[i] = ir_target_at(i)->name;
      const char *near = ir_nearest(name, known, ir_target_count());
      drv_usage_error(s, "no target `%s`%s%s%s; `spc show targets` lists them", name,
                      near ? "; did you mean `" : "", near ? near : "", near ? "`?" : "");
      return NULL;
    }
    s->has_gpu = cuda && !strcmp(target->name, rt_cuda_arch(cuda));
    return target->kind == IR_TARGET_CPU ? cpu_target(s) : target;
  }
  s->has_gpu = cuda != NULL;
  if (backend == DRV_CUDA) return ir_target_find(cuda ? rt_cuda_arch(cuda) : "sm_90a");
  return backend == DRV_CPU || cg_cpu_available() ? cpu_target(s) : ir_target_find("interp");
}

static void print_ir(void *user, const char *title, const char *text) {
  (void)user;
  fprintf(stderr, "// ---- %s\n%s", title, text);
}

/* What stands beside a measurement is of as many cores as ran; elsewhere a program's bits do not
 * depend on how many threads there are. */
static void set_cores(drv_session *s, pass_options *options) {
  if (s->command != 'b' || s->options.threads <= 0 || options->target->kind != IR_TARGET_CPU) return;
  const pass_profile *whole = pass_profile_of(s->arena, options->target);
  options->profile = pass_profile_for_cores(s->arena, whole, (double)s->options.threads);
}

static spc_status load_profile(drv_session *s, pass_options *options) {
  if (s->profile) return options->profile = s->profile, SPC_OK;
  if (!s->options.profile) {
    set_cores(s, options);
    return SPC_OK;
  }
  char *text;
  size_t length;
  if (drv_read_file(s->arena, s->options.profile, &text, &length)) {
    ir_diag_add(s->sink, IR_DIAG_FILE_READ, IR_NOWHERE, "cannot read the profile `%s`",
                s->options.profile);
    return SPC_IO;
  }
  return pass_profile_parse(s->arena, options->target, s->options.profile, text, length, s->sink,
                            &options->profile);
}

/* The kernel that a place in the file belongs to: the last one named before it. */
static const ir_kernel *kernel_at(const ir_program *program, ir_span span) {
  const ir_kernel *found = NULL;
  for (int k = 0; k < program->kernels.count; k++) {
    const ir_kernel *kernel = program->kernels.at[k];
    bool before = kernel->span.file == span.file && kernel->span.begin <= span.begin;
    if (before && (!found || kernel->span.begin > found->span.begin)) found = kernel;
  }
  return found;
}

/* With --kernel, remarks about the others are not wanted; errors and warnings are. */
static void drop_other_remarks(drv_session *s) {
  int kept = 0;
  for (int i = 0; i < s->sink->diags.count; i++) {
    ir_diag *diag = s->sink->diags.at[i];
    const ir_kernel *kernel = kernel_at(s->program, diag->span);
    bool remark = diag->severity == IR_REMARK || diag->severity == IR_MISSED;
    if (remark && kernel && strcmp(kernel->name, s->options.kernel)) continue;
    s->sink->diags.at[kept++] = diag;
  }
  s->sink->diags.count = kept;
}

static const char *takes_library(void) { return NULL; }

/* `on` takes it as there: code can be looked at where it does not run. */
static spc_status set_library(drv_session *s, pass_options *options) {
  const char *asked = s->options.library ? s->options.library : "auto";
  if (strcmp(asked, "auto") && strcmp(asked, "on") && strcmp(asked, "off")) {
    drv_usage_error(s, "--library is auto, on or off, not `%s`", asked);
    return SPC_INVALID_ARGUMENT;
  }
  if (!strcmp(asked, "on")) options->library_missing = takes_library;
  if (!strcmp(asked, "auto") && s->has_gpu) options->library_missing = rt_cublaslt_missing;
  return SPC_OK;
}

/* Code that is there soon: on the CPU without vectors, which are four fifths of a compile. */
static spc_status set_tier(drv_session *s, pass_options *options) {
  const char *asked = s->options.tier ? s->options.tier : "tuned";
  if (strcmp(asked, "tuned") && strcmp(asked, "generic")) {
    drv_usage_error(s, "--tier is tuned or generic, not `%s`", asked);
    return SPC_INVALID_ARGUMENT;
  }
  if (strcmp(asked, "generic")) return SPC_OK;
  options->quick = options->target->kind == IR_TARGET_CUDA;
  const char *also = options->disable;
  if (options->target->kind == IR_TARGET_CPU)
    options->disable = also && *also ? ir_format_text(s->arena, "%s,vectorise", also) : "vectorise";
  return SPC_OK;
}

spc_status drv_set_positions(drv_session *s) {
  const char *asked = s->options.positions;
  if (asked && strcmp(asked, "auto") && strcmp(asked, "i32") && strcmp(asked, "i64")) {
    drv_usage_error(s, "--positions is auto, i32 or i64, not `%s`", asked);
    return SPC_INVALID_ARGUMENT;
  }
  for (int k = 0; asked && !strcmp(asked, "i64") && k < s->program->kernels.count; k++)
    if (!s->program->kernels.at[k]->funcs.count) ir_widen(s->program->kernels.at[k], NULL);
  return SPC_OK;
}

/* Composed kernels read positions of 32 bits. */
static spc_status check_positions(drv_session *s, const ir_target *target) {
  for (int k = 0; target->kind == IR_TARGET_CUDA && k < s->program->kernels.count; k++)
    if (s->program->kernels.at[k]->wide) {
      ir_diag_add(s->sink, IR_DIAG_POSITIONS, s->program->kernels.at[k]->span,
                  "kernel `%s`: the cuda back end has positions of 32 bits only",
                  s->program->kernels.at[k]->name);
      return SPC_UNAVAILABLE;
    }
  return SPC_OK;
}

spc_status drv_run_passes(drv_session *s, const ir_target *target, const int64_t *sizes) {
  const drv_options *o = &s->options;
  pass_options options = {.target = target,
                          .sizes = sizes,
                          .strict_nan = o->strict_nan,
                          .reproducible = o->reproducible,
                          .batch_invariant = o->batch_invariant,
                          .unpacked = o->packed && !strcmp(o->packed, "no"),
                          .pin = s->pin,
                          .ignore_schedule = s->pin != NULL,
                          .passes = o->passes,
                          .start_at = o->start_at,
                          .stop_after = o->stop_after,
                          .disable = o->disable,
                          .print_before = o->print_before_all ? "all" : o->print_before,
                          .print_after = o->print_after_all ? "all" : o->print_after,
                          .print_after_change = o->print_after_change,
                          .verify_each = o->verify_each,
                          .time_report = o->time_report,
                          .reproducer_dir = o->reproducer,
                          .print = s->print_pass ? s->print_pass : print_ir,
                          .print_user = s->print_user};
  if (o->force_guard && strcmp(o->force_guard, "sparse") && strcmp(o->force_guard, "dense")) {
    drv_usage_error(s, "--force-guard is sparse or dense, not `%s`", o->force_guard);
    return SPC_INVALID_ARGUMENT;
  }
  if (o->packed && strcmp(o->packed, "yes") && strcmp(o->packed, "no")) {
    drv_usage_error(s, "--packed is yes or no, not `%s`", o->packed);
    return SPC_INVALID_ARGUMENT;
  }
  if (o->fallback && !strcmp(o->fallback, "dense")) options.force_guard = 2;
  SPC_TRY(drv_set_positions(s));
  SPC_TRY(drv_set_padded(s));
  SPC_TRY(check_positions(s, target));
  SPC_TRY(set_library(s, &options));
  SPC_TRY(set_tier(s, &options));
  SPC_TRY(load_profile(s, &options));
  spc_status status = pass_pipeline(s->program, &options, s->sink);
  if (o->kernel) drop_other_remarks(s);
  return status;
}

spc_status drv_run_passes_defined(drv_session *s, const ir_target *target) {
  int64_t *sizes = IR_NEW_ARRAY(s->arena, int64_t, s->program->dims.count + 1);
  SPC_TRY(drv_sizes_from_defines(s, sizes));
  return drv_run_passes(s, target, sizes);
}

static cg_options code_options(drv_session *s, const ir_target *target) {
  const char *edited =
      s->options.override_dir ? s->options.override_dir : getenv("SPC_OVERRIDE_DIR");
  return (cg_options){.target = target,
                      .mcpu = s->options.mcpu,
                      .line_info = s->options.line_info,
                      .threads = s->compile_threads,
                      .keep_objects = s->command == 'p',
                      .override_dir = edited && *edited ? edited : NULL,
                      .cache = rt_cache_face(s->cache)};
}

spc_status drv_recall(drv_session *s, const ir_kernel *kernel, const ir_target *target,
                      ir_image **image) {
  cg_options options = code_options(s, target);
  int said = s->sink->diags.count;
  options.recall = true;
  if (target->kind != IR_TARGET_CUDA || !options.cache) return SPC_UNAVAILABLE;
  spc_status status = cg_cuda_compile(s->arena, kernel, &options, s->sink, image);
  if (status == SPC_UNAVAILABLE) s->sink->diags.count = said; /* remarks of an attempt */
  return status;
}

rt_plan_options drv_plan_options(const drv_session *s, drv_backend backend, rt_cuda *cuda) {
  rt_plan_options options = {.cuda = cuda};
  if (s->options.force_guard) options.force_guard = !strcmp(s->options.force_guard, "sparse") ? 1 : 2;
  if (s->options.fallback && !strcmp(s->options.fallback, "dense")) options.force_guard = 2;
  if (backend == DRV_CPU) options.pool = rt_pool_new((int)s->options.threads);
  return options;
}

spc_status drv_codegen(drv_session *s, const ir_kernel *kernel, const ir_target *target,
                       bool text_only, ir_image **image) {
  cg_options options = code_options(s, target);
  if (target->kind == IR_TARGET_CPU)
    return cg_cpu_compile(s->arena, kernel, &options, s->sink, image);
  if (!text_only) return cg_cuda_compile(s->arena, kernel, &options, s->sink, image);
  spc_status status = drv_recall(s, kernel, target, image);
  return status == SPC_UNAVAILABLE ? cg_cuda_emit(s->arena, kernel, &options, s->sink, image)
                                   : status;
}
