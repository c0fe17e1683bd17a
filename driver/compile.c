/* compile.c - `spc compile`: one line a kernel, or the text and code of any stage of the work. */
#include <errno.h>
#include <sys/stat.h>

#include "driver/driver.h"
#include "passes/explain.h"

static const char *const kinds[] = {"ast", "ein",  "tile", "loop",  "llvm",
                                    "asm", "cuda", "ptx",  "cubin", "dot"};

static bool wants_cuda(const char *kind) {
  return !strcmp(kind, "cuda") || !strcmp(kind, "ptx") || !strcmp(kind, "cubin");
}

typedef struct artefact {
  drv_session *s;
  const char *kind;
  bool is_folder, alone; /* alone: the only text that goes to its file or to stdout */
} artefact;

static spc_status write_artefact(artefact *a, const char *kernel, const char *stage,
                                 const void *data, size_t bytes) {
  drv_session *s = a->s;
  if (!a->is_folder) return drv_write_file(s, s->options.output, data, bytes);
  char *name = stage ? ir_format_text(s->arena, "%s.%s.%s", kernel, stage, a->kind)
                     : ir_format_text(s->arena, "%s.%s", kernel, a->kind);
  for (char *at = name; *at; at++) /* quoted names of IR text can be anything */
    if (*at == '/') *at = '_';
  return drv_write_file(s, ir_format_text(s->arena, "%s/%s", s->options.output, name), data, bytes);
}

/* The program as it stands after pass `after` (0: fresh), for the target. */
static spc_status program_after(drv_session *s, const ir_target *target, const char *stop_after) {
  const char *before = s->options.stop_after;
  s->options.stop_after = stop_after;
  spc_status status = drv_run_passes(s, target, NULL);
  s->options.stop_after = before;
  return status;
}

/* ---- kinds that show whole kernels: into a folder, one file a kernel ------------------------- */
static ir_program *program_of(drv_session *s, ir_kernel *kernel) {
  ir_program *one = IR_NEW(s->arena, ir_program);
  *one = *s->program;
  memset(&one->kernels, 0, sizeof one->kernels);
  memset(&one->schedules, 0, sizeof one->schedules);
  IR_PUSH(s->arena, &one->kernels, kernel);
  for (int i = 0; i < s->program->schedules.count; i++) {
    ir_schedule *schedule = s->program->schedules.at[i];
    if (!strcmp(schedule->kernel, kernel->name)) IR_PUSH(s->arena, &one->schedules, schedule);
  }
  return one;
}

/* kernel NULL: all of them. */
static void print_kernels(artefact *a, ir_kernel *kernel, ir_text *out) {
  drv_session *s = a->s;
  const ir_program *program = kernel ? program_of(s, kernel) : s->program;
  if (!strcmp(a->kind, "ast"))
    fe_print_ast(s->file, kernel ? kernel->name : NULL, out);
  else if (!strcmp(a->kind, "dot"))
    ir_print_dot(program, out);
  else
    ir_print(program, out);
}

static spc_status emit_kernels(artefact *a, const ir_target *target) {
  drv_session *s = a->s;
  if (!strcmp(a->kind, "tile")) SPC_TRY(program_after(s, target, "stage"));
  if (!strcmp(a->kind, "loop")) SPC_TRY(program_after(s, target, NULL));
  for (int k = 0; k < (a->is_folder ? s->program->kernels.count : 1); k++) {
    ir_kernel *kernel = a->is_folder ? s->program->kernels.at[k] : NULL;
    ir_text text = ir_text_new(s->arena);
    if (kernel && s->options.kernel && strcmp(s->options.kernel, kernel->name)) continue;
    print_kernels(a, kernel, &text);
    SPC_TRY(write_artefact(a, kernel ? kernel->name : NULL, NULL, text.data, text.length));
  }
  return SPC_OK;
}

/* ---- kinds that are code: one file a stage --------------------------------------------------- */

static spc_status emit_cpu(artefact *a, const ir_target *target) {
  drv_session *s = a->s;
  cg_options options = {.target = target, .mcpu = s->options.mcpu};
  for (int k = 0; k < s->program->kernels.count; k++) {
    ir_kernel *kernel = s->program->kernels.at[k];
    if (s->options.kernel && strcmp(s->options.kernel, kernel->name)) continue;
    for (int i = 0; i < (a->is_folder ? kernel->stages.count : 1); i++) {
      const ir_stage *stage = a->is_folder ? kernel->stages.at[i] : NULL;
      ir_text text = ir_text_new(s->arena);
      if (stage && !stage->funcs.count) continue;
      SPC_TRY(cg_cpu_text(s->arena, kernel, stage, a->kind, &options, s->sink, &text));
      SPC_TRY(write_artefact(a, kernel->name, stage ? stage->name : NULL, text.data, text.length));
    }
  }
  return SPC_OK;
}

static spc_status emit_ptx(artefact *a, const ir_target *target, const ir_code_image *code,
                           const char *kernel, const char *stage) {
  drv_session *s = a->s;
  cg_options options = {.target = target, .line_info = s->options.line_info};
  cg_nvrtc_result ptx = {0};
  SPC_TRY(cg_nvrtc_compile(s->arena, code->entry, code->source, target->name, true, &options,
                           s->sink, &ptx));
  return write_artefact(a, kernel, stage, ptx.data, ptx.bytes);
}

static spc_status emit_cuda(artefact *a, const ir_target *target) {
  drv_session *s = a->s;
  bool text_only = strcmp(a->kind, "cubin") != 0;
  for (int k = 0; k < s->program->kernels.count; k++) {
    ir_kernel *kernel = s->program->kernels.at[k];
    ir_image *image;
    if (s->options.kernel && strcmp(s->options.kernel, kernel->name)) continue;
    SPC_TRY(drv_codegen(s, kernel, target, text_only, &image));
    for (int i = 0; i < image->codes.count; i++) {
      const ir_code_image *code = &image->codes.at[i];
      int part = 0, parts = 0;
      for (int j = 0; j < image->codes.count; j++) {
        parts += image->codes.at[j].stage == code->stage;
        part += j < i && image->codes.at[j].stage == code->stage;
      }
      const char *stage = parts > 1 ? ir_format_text(s->arena, "%s-%d", code->stage->name, part)
                                    : code->stage->name;
      if (!strcmp(a->kind, "ptx"))
        SPC_TRY(emit_ptx(a, target, code, kernel->name, stage));
      else if (!text_only)
        SPC_TRY(write_artefact(a, kernel->name, stage, code->cubin, code->cubin_bytes));
      else
        SPC_TRY(write_artefact(a, kernel->name, stage, code->source, strlen(code->source)));
    }
  }
  return SPC_OK;
}

static spc_status emit_one(artefact *a, const ir_target *target) {
  drv_session *s = a->s;
  if (!strcmp(a->kind, "ast") && !s->file) {
    drv_usage_error(s, "--emit=ast wants a .spx file; `%s` is IR", s->path);
    return SPC_INVALID_ARGUMENT;
  }
  ir_program *kept = s->program;
  s->program = ir_clone(s->arena, kept);
  spc_status status;
  if (!strcmp(a->kind, "llvm") || !strcmp(a->kind, "asm") || wants_cuda(a->kind)) {
    bool cuda = wants_cuda(a->kind);
    if (cuda != (target->kind == IR_TARGET_CUDA)) {
      drv_usage_error(s, "--emit=%s is for %s targets, and the target is %s; give --target",
                      a->kind, cuda ? "CUDA" : "CPU", target->name);
      status = SPC_INVALID_ARGUMENT;
    } else {
      status = program_after(s, target, NULL);
      if (!status) status = cuda ? emit_cuda(a, target) : emit_cpu(a, target);
    }
  } else {
    status = emit_kernels(a, target);
  }
  s->program = kept;
  return status;
}

static spc_status open_folder(drv_session *s, int kind_count, bool *is_folder) {
  struct stat info;
  const char *path = s->options.output;
  *is_folder = false;
  if (!path || !strcmp(path, "-")) return SPC_OK;
  size_t length = strlen(path);
  *is_folder = (!stat(path, &info) && S_ISDIR(info.st_mode)) ||
               (length && path[length - 1] == '/') || kind_count > 1;
  if (*is_folder && mkdir(path, 0777) && errno != EEXIST) {
    ir_diag_add(s->sink, IR_DIAG_FILE_WRITE, IR_NOWHERE, "cannot make the folder `%s`: %s", path,
                strerror(errno));
    return SPC_IO;
  }
  return SPC_OK;
}

static spc_status split_kinds(drv_session *s, drv_list *out) {
  const char *at = s->options.emit;
  while (*at) {
    size_t length = strcspn(at, ",");
    char *kind = ir_strndup(s->arena, at, length);
    bool known = false;
    for (int i = 0; i < IR_COUNT(kinds); i++) known = known || !strcmp(kinds[i], kind);
    if (!known) {
      const char *near = ir_nearest(kind, kinds, IR_COUNT(kinds));
      drv_usage_error(s,
                      "--emit: no kind `%s`%s%s%s; it is one of ast, ein, tile, loop, llvm, asm, "
                      "cuda, ptx, cubin, dot",
                      kind, near ? "; did you mean `" : "", near ? near : "", near ? "`?" : "");
      return SPC_INVALID_ARGUMENT;
    }
    IR_PUSH(s->arena, &out->items, kind);
    at += length + (at[length] == ',');
  }
  return SPC_OK;
}

/* CUDA kinds without --target are made for the GPU here, else for Hopper. */
static const ir_target *emit_target(drv_session *s, const char *kind) {
  if (s->options.target || s->program->target || !wants_cuda(kind))
    return drv_target_of(s, DRV_CPU, NULL);
  return drv_target_of(s, DRV_CUDA, NULL);
}

static spc_status emit_all(drv_session *s) {
  drv_list list = {0};
  artefact a = {.s = s};
  SPC_TRY(split_kinds(s, &list));
  SPC_TRY(open_folder(s, list.items.count, &a.is_folder));
  for (int i = 0; i < list.items.count; i++) {
    a.kind = list.items.at[i];
    const ir_target *target = emit_target(s, a.kind);
    if (!target) return SPC_INVALID_ARGUMENT;
    SPC_TRY(emit_one(&a, target));
  }
  return SPC_OK;
}

static const char *made_how(drv_session *s, const ir_image *image) {
  if (!image->cached) return "compiled";
  if (!image->compiled) return "from the cache";
  return ir_format_text(s->arena, "compiled, %d of %d pieces from the cache,", image->cached,
                        image->cached + image->compiled);
}

static spc_status compile_all(drv_session *s, const ir_target *target) {
  SPC_TRY(drv_run_passes(s, target, NULL));
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
  if (!status && s->options.emit) return drv_finish(s, emit_all(s));
  const ir_target *target = status ? NULL : default_target(s);
  if (!status) status = target ? compile_all(s, target) : SPC_INVALID_ARGUMENT;
  return drv_finish(s, status);
}
