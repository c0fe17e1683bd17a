/* emit.c - `spc compile --emit`: the text and code of any stage of the work. */
#include "driver/emit.h"

#include <errno.h>
#include <sys/stat.h>

static const char *const kinds[] = {"ast",  "ein", "tile",  "loop", "llvm", "asm",
                                    "cuda", "ptx", "cubin", "sass", "dot"};

static bool wants_cuda(const char *kind) {
  static const char *const of_cuda[] = {"cuda", "ptx", "cubin", "sass"};
  for (int i = 0; i < IR_COUNT(of_cuda); i++)
    if (!strcmp(kind, of_cuda[i])) return true;
  return false;
}

spc_status drv_put_artefact(drv_artefact *a, const char *name, const void *data, size_t bytes) {
  drv_session *s = a->s;
  a->pieces++;
  if (!a->is_folder) {
    ir_text_putn(&a->all, data, bytes);
    return SPC_OK;
  }
  char *file = ir_format_text(s->arena, "%s.%s", name, a->kind);
  for (char *at = file; *at; at++) /* quoted names of IR text can be anything */
    if (*at == '/') *at = '_';
  return drv_write_file(s, ir_format_text(s->arena, "%s/%s", s->options.output, file), data, bytes);
}

/* What was put for one file or for stdout: texts follow each other, machine code cannot. */
static spc_status flush(drv_artefact *a) {
  drv_session *s = a->s;
  if (a->is_folder) return SPC_OK;
  if (!strcmp(a->kind, "cubin") && a->pieces > 1) {
    drv_usage_error(s, "--emit=cubin: this is %d cubins; give -o a folder (-o out/), or %s",
                    a->pieces, s->options.kernel ? "emit cuda, ptx or sass" : "--kernel");
    return SPC_INVALID_ARGUMENT;
  }
  return drv_write_file(s, s->options.output, a->all.data, a->all.length);
}

/* The program as it stands after pass `after` (0: fresh), for the target. */
static spc_status program_after(drv_session *s, const ir_target *target, const char *stop_after) {
  const char *before = s->options.stop_after;
  s->options.stop_after = stop_after;
  spc_status status = drv_run_passes_defined(s, target);
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
static void print_kernels(drv_artefact *a, ir_kernel *kernel, ir_text *out) {
  drv_session *s = a->s;
  const ir_program *program = kernel ? program_of(s, kernel) : s->program;
  if (!strcmp(a->kind, "ast"))
    fe_print_ast(s->file, kernel ? kernel->name : NULL, out);
  else if (!strcmp(a->kind, "dot"))
    ir_print_dot(program, out);
  else
    ir_print(program, out);
}

static spc_status emit_kernels(drv_artefact *a, const ir_target *target) {
  drv_session *s = a->s;
  if (!strcmp(a->kind, "tile")) SPC_TRY(program_after(s, target, "stage"));
  if (!strcmp(a->kind, "loop")) SPC_TRY(program_after(s, target, NULL));
  for (int k = 0; k < (a->is_folder ? s->program->kernels.count : 1); k++) {
    ir_kernel *kernel = a->is_folder ? s->program->kernels.at[k] : NULL;
    ir_text text = ir_text_new(s->arena);
    if (kernel && s->options.kernel && strcmp(s->options.kernel, kernel->name)) continue;
    print_kernels(a, kernel, &text);
    SPC_TRY(drv_put_artefact(a, kernel ? kernel->name : "", text.data, text.length));
  }
  return SPC_OK;
}

/* ---- kinds that are code: one file a stage --------------------------------------------------- */

static spc_status emit_cpu(drv_artefact *a, const ir_target *target) {
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
      const char *name = stage ? ir_format_text(s->arena, "%s.%s", kernel->name, stage->name) : "";
      SPC_TRY(drv_put_artefact(a, name, text.data, text.length));
    }
  }
  return SPC_OK;
}

static spc_status emit_one(drv_artefact *a, const ir_target *target) {
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
      if (!status) status = cuda ? drv_emit_cuda(a, target) : emit_cpu(a, target);
    }
  } else {
    status = emit_kernels(a, target);
  }
  s->program = kept;
  return status ? status : flush(a);
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
                      "cuda, ptx, cubin, sass, dot",
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

spc_status drv_emit(drv_session *s) {
  drv_list list = {0};
  drv_artefact a = {.s = s};
  SPC_TRY(split_kinds(s, &list));
  SPC_TRY(open_folder(s, list.items.count, &a.is_folder));
  for (int i = 0; i < list.items.count; i++) {
    a.kind = list.items.at[i];
    a.all = ir_text_new(s->arena);
    a.pieces = 0;
    const ir_target *target = emit_target(s, a.kind);
    if (!target) return SPC_INVALID_ARGUMENT;
    SPC_TRY(emit_one(&a, target));
  }
  return SPC_OK;
}
