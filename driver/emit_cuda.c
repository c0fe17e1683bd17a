/* emit_cuda.c - --emit=cuda, ptx, cubin and sass: one piece a launch.
 *
 * SASS comes from NVIDIA's own disassembler, which is looked for in PATH and in the toolkit's
 * folders and run on a file of its own. */
#define _GNU_SOURCE /* mkstemp, environ */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver/emit.h"

/* ---- the disassembler ------------------------------------------------------------------------ */
static const char *program_in(drv_session *s, const char *folders, const char *name) {
  for (const char *at = folders; *at;) {
    size_t length = strcspn(at, ":");
    const char *path = ir_format_text(s->arena, "%.*s/%s", (int)length, at, name);
    if (length && !access(path, X_OK)) return path;
    at += length + (at[length] == ':');
  }
  return NULL;
}

static const char *find_program(drv_session *s, const char *name) {
  const char *path = getenv("PATH"), *home = getenv("CUDA_HOME");
  const char *found = program_in(s, path ? path : "", name);
  if (!found && home) found = program_in(s, ir_format_text(s->arena, "%s/bin", home), name);
  return found ? found : program_in(s, "/usr/local/cuda/bin", name);
}

static spc_status cannot(drv_session *s, const char *what, const char *why) {
  ir_diag_add(s->sink, IR_DIAG_NO_DISASSEMBLER, IR_NOWHERE, "SASS cannot be printed: %s%s%s", what,
              *why ? ": " : "", why);
  return SPC_UNAVAILABLE;
}

/* Everything that the program writes to stdout; its messages stay on stderr. */
static spc_status run(drv_session *s, char *const *arguments, ir_text *out) {
  int ends[2], exit_status = 0;
  pid_t child;
  char part[4096];
  ssize_t got;
  posix_spawn_file_actions_t actions;
  if (pipe(ends)) return cannot(s, arguments[0], strerror(errno));
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_addclose(&actions, ends[0]);
  posix_spawn_file_actions_addclose(&actions, ends[1]);
  int fault = posix_spawn(&child, arguments[0], &actions, NULL, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  while (!fault && ((got = read(ends[0], part, sizeof part)) > 0 || (got < 0 && errno == EINTR)))
    if (got > 0) ir_text_putn(out, part, (size_t)got);
  close(ends[0]);
  if (fault) return cannot(s, arguments[0], strerror(fault));
  while (waitpid(child, &exit_status, 0) < 0 && errno == EINTR) continue;
  if (exit_status) return cannot(s, arguments[0], "it failed on this cubin");
  return SPC_OK;
}

static spc_status disassemble(drv_session *s, const char *file, ir_text *out) {
  char *nvdisasm = (char *)(uintptr_t)find_program(s, "nvdisasm");
  char *cuobjdump = (char *)(uintptr_t)find_program(s, "cuobjdump");
  char *const one[] = {nvdisasm, "-c", (char *)(uintptr_t)file, NULL};
  char *const other[] = {cuobjdump, "-sass", (char *)(uintptr_t)file, NULL};
  if (nvdisasm) return run(s, one, out);
  if (cuobjdump) return run(s, other, out);
  return cannot(
      s, "neither nvdisasm nor cuobjdump is in PATH, $CUDA_HOME/bin or /usr/local/cuda/bin", "");
}

static spc_status sass_of(drv_session *s, const ir_code_image *code, ir_text *out) {
  const char *folder = getenv("TMPDIR");
  char *path = ir_format_text(s->arena, "%s/spc-XXXXXX", folder && *folder ? folder : "/tmp");
  int file = mkstemp(path);
  if (file < 0) return cannot(s, path, strerror(errno));
  ssize_t put = write(file, code->cubin, code->cubin_bytes);
  const char *why = put == (ssize_t)code->cubin_bytes ? NULL : strerror(errno);
  close(file);
  spc_status status = why ? cannot(s, path, why) : disassemble(s, path, out);
  unlink(path);
  return status;
}

/* ---- one launch ------------------------------------------------------------------------------ */
static spc_status put_code(drv_artefact *a, const ir_target *target, const ir_code_image *code,
                           const char *name) {
  drv_session *s = a->s;
  if (!strcmp(a->kind, "cuda"))
    return drv_put_artefact(a, name, code->source, strlen(code->source));
  if (code->library) return SPC_OK;
  if (!strcmp(a->kind, "cubin")) return drv_put_artefact(a, name, code->cubin, code->cubin_bytes);
  if (!strcmp(a->kind, "sass")) {
    ir_text sass = ir_text_new(s->arena);
    SPC_TRY(sass_of(s, code, &sass));
    return drv_put_artefact(a, name, sass.data, sass.length);
  }
  cg_options options = {.target = target, .line_info = s->options.line_info};
  cg_nvrtc_result ptx = {0};
  SPC_TRY(cg_nvrtc_compile(s->arena, code->entry, code->source, target->name, true, &options,
                           s->sink, &ptx));
  return drv_put_artefact(a, name, ptx.data, ptx.bytes);
}

spc_status drv_emit_cuda(drv_artefact *a, const ir_target *target) {
  drv_session *s = a->s;
  bool text_only = !strcmp(a->kind, "cuda") || !strcmp(a->kind, "ptx");
  for (int k = 0; k < s->program->kernels.count; k++) {
    ir_kernel *kernel = s->program->kernels.at[k];
    ir_image *image;
    if (s->options.kernel && strcmp(s->options.kernel, kernel->name)) continue;
    SPC_TRY(drv_codegen(s, kernel, target, text_only, &image));
    for (int i = 0; i < image->codes.count;
         i++) /* what stands in beside a kernel: in folders only */
      if (a->is_folder || !image->codes.at[i].stands_in)
        SPC_TRY(put_code(a, target, &image->codes.at[i], cg_code_name(s->arena, image, i)));
  }
  return SPC_OK;
}
