/* session.c - files in and out, messages, exit codes, the pipeline with the command line's
 * switches. */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "driver/driver.h"
#include "runtime/files.h"

int drv_exit_code(spc_status status) {
  switch (status) {
  case SPC_OK: return 0;
  case SPC_INVALID_INPUT:
  case SPC_CAPACITY: return 1;
  case SPC_INVALID_ARGUMENT: return 2;
  case SPC_MISMATCH: return 3;
  case SPC_UNAVAILABLE: return 4;
  case SPC_IO: return 5;
  case SPC_OUT_OF_MEMORY:
  case SPC_INTERNAL: return 70;
  }
  return 70;
}

const char *spc_status_name(spc_status status) {
  switch (status) {
  case SPC_OK: return "ok";
  case SPC_INVALID_INPUT: return "invalid input";
  case SPC_INVALID_ARGUMENT: return "invalid argument";
  case SPC_MISMATCH: return "mismatch";
  case SPC_UNAVAILABLE: return "unavailable";
  case SPC_IO: return "file error";
  case SPC_CAPACITY: return "capacity";
  case SPC_OUT_OF_MEMORY: return "out of memory";
  case SPC_INTERNAL: return "internal error";
  }
  return "unknown status";
}

int drv_usage_error(drv_session *s, const char *format, ...) {
  va_list args;
  ir_text text = ir_text_new(s->arena);
  va_start(args, format);
  ir_text_vprintf(&text, format, args);
  va_end(args);
  const int most = 2000; /* an argument or a name can be of any length */
  fprintf(stderr, "spc: %.*s%s\n", most, text.data, text.length > (size_t)most ? " .." : "");
  return drv_exit_code(SPC_INVALID_ARGUMENT);
}

bool drv_colour(const drv_session *s, FILE *stream) {
  if (s->options.color && !strcmp(s->options.color, "always")) return true;
  if (s->options.color && !strcmp(s->options.color, "never")) return false;
  return !getenv("NO_COLOR") && isatty(fileno(stream));
}

void drv_render(drv_session *s) {
  if (!s->sink->diags.count) return;
  ir_text text = ir_text_new(s->arena);
  if (s->options.diagnostics && !strcmp(s->options.diagnostics, "json"))
    ir_sink_render_json(s->sink, &text);
  else
    ir_sink_render(s->sink, &text, drv_colour(s, stderr));
  fflush(stdout);
  fputs(text.data, stderr);
  s->sink->diags.count = 0;
}

int drv_finish(drv_session *s, spc_status status) {
  if (status == SPC_OK && s->sink->errors) status = SPC_INVALID_INPUT;
  if (status == SPC_INTERNAL && !s->sink->diags.count)
    fputs("spc: internal error without a diagnostic; please report the command and the file\n",
          stderr);
  drv_render(s);
  return drv_exit_code(status);
}

static spc_status read_stream(ir_arena *arena, FILE *stream, char **text, size_t *length) {
  ir_text out = ir_text_new(arena);
  char block[65536];
  size_t n;
  while ((n = fread(block, 1, sizeof block, stream)) > 0) ir_text_putn(&out, block, n);
  *text = out.data;
  *length = out.length;
  return ferror(stream) ? SPC_IO : SPC_OK;
}

spc_status drv_read_file(ir_arena *arena, const char *path, char **text, size_t *length) {
  if (!strcmp(path, "-")) return read_stream(arena, stdin, text, length);
  struct stat info;
  FILE *stream = fopen(path, "rb");
  if (!stream) return SPC_IO;
  if (fstat(fileno(stream), &info) || S_ISDIR(info.st_mode)) {
    errno = EISDIR;
    fclose(stream);
    return SPC_IO;
  }
  spc_status status = read_stream(arena, stream, text, length);
  fclose(stream);
  return status;
}

spc_status drv_write_file(drv_session *s, const char *path, const void *data, size_t bytes) {
  if (!path || !strcmp(path, "-")) { /* a failure is said when stdout is closed: command.c */
    fwrite(data, 1, bytes, stdout);
    return SPC_OK;
  }
  int fault = rt_file_save(path, data, bytes);
  if (!fault) return SPC_OK;
  ir_diag_add(s->sink, IR_DIAG_FILE_WRITE, IR_NOWHERE, "cannot write `%s`: %s", path,
              strerror(fault));
  return SPC_IO;
}

bool drv_split(drv_session *s, const char *text, const char **name, const char **value) {
  const char *equal = strchr(text, '=');
  if (!equal || equal == text) return false;
  *name = ir_strndup(s->arena, text, (size_t)(equal - text));
  *value = equal + 1;
  return true;
}

static bool parse_size(const char *text, int64_t *value) {
  char *end;
  errno = 0;
  long long n = strtoll(text, &end, 10);
  *value = n;
  return end != text && !*end && n >= 0 && !errno;
}

static spc_status read_defines(drv_session *s, fe_define **out, int *count) {
  int n = s->options.defines.items.count;
  fe_define *defines = IR_NEW_ARRAY(s->arena, fe_define, n + 1);
  for (int i = 0; i < n; i++) {
    const char *name, *value, *text = s->options.defines.items.at[i];
    if (!drv_split(s, text, &name, &value) || !parse_size(value, &defines[i].value)) {
      drv_usage_error(s, "-D wants DIM=N with a non-negative integer, not `%s`", text);
      return SPC_INVALID_ARGUMENT;
    }
    defines[i].name = name;
  }
  *out = defines;
  *count = n;
  return SPC_OK;
}

/* A wrong -D is a usage error; the file itself has none. */
static bool only_defines_are_wrong(const drv_session *s) {
  for (int i = 0; i < s->sink->diags.count; i++)
    if (s->sink->diags.at[i]->severity == IR_ERROR && s->sink->diags.at[i]->id != IR_DIAG_DEFINE)
      return false;
  return s->sink->errors > 0;
}

static spc_status parse(drv_session *s, const char *shown, const fe_options *options) {
  if (ir_looks_like_ir(s->text, s->length))
    return ir_parse(s->arena, shown, s->text, s->length, s->sink, &s->program);
  spc_status parsed = fe_parse(s->arena, shown, s->text, s->length, s->sink, &s->file);
  if (parsed && !s->file)
    return parsed; /* what did parse is checked as well: one run reports all faults */
  spc_status lowered = fe_lower(s->arena, s->file, options, s->sink, &s->program);
  if (lowered == SPC_OK && s->sink->errors) lowered = SPC_INVALID_INPUT;
  return lowered == SPC_INVALID_INPUT && only_defines_are_wrong(s) ? SPC_INVALID_ARGUMENT : lowered;
}

spc_status drv_load_text(drv_session *s, const char *shown, const char *text) {
  fe_options options = {0};
  s->path = shown;
  s->text = ir_strdup(s->arena, text);
  s->length = strlen(text);
  return parse(s, shown, &options);
}

spc_status drv_load(drv_session *s, const char *path) {
  fe_options options = {0};
  fe_define *defines;
  SPC_TRY(read_defines(s, &defines, &options.define_count));
  options.defines = defines;
  s->path = path;
  if (drv_read_file(s->arena, path, &s->text, &s->length)) {
    ir_diag_add(s->sink, IR_DIAG_FILE_READ, IR_NOWHERE, "cannot read `%s`: %s", path,
                strerror(errno));
    return SPC_IO;
  }
  return parse(s, !strcmp(path, "-") ? "<stdin>" : path, &options);
}

static const char *kernel_names(drv_session *s) {
  ir_text names = ir_text_new(s->arena);
  for (int i = 0; i < s->program->kernels.count; i++)
    ir_text_printf(&names, "%s%s", i ? ", " : "", s->program->kernels.at[i]->name);
  return names.data;
}

spc_status drv_pick_kernel(drv_session *s, ir_kernel **kernel) {
  if (s->options.kernel) {
    *kernel = ir_kernel_named(s->program, s->options.kernel);
    if (*kernel) return SPC_OK;
    drv_usage_error(s, "no kernel `%s` in %s; it has: %s", s->options.kernel, s->path,
                    kernel_names(s));
    return SPC_INVALID_ARGUMENT;
  }
  if (s->program->kernels.count == 1) {
    *kernel = s->program->kernels.at[0];
    return SPC_OK;
  }
  drv_usage_error(s, "%s has %d kernels (%s); choose one with --kernel", s->path,
                  s->program->kernels.count, kernel_names(s));
  return SPC_INVALID_ARGUMENT;
}

spc_status drv_sizes_from_defines(drv_session *s, int64_t *sizes) {
  fe_define *defines;
  int count;
  for (int d = 0; d < s->program->dims.count; d++) sizes[d] = s->program->dims.at[d]->value;
  SPC_TRY(read_defines(s, &defines, &count));
  for (int i = 0; i < count; i++) {
    const ir_dim *dim = ir_dim_named(s->program, defines[i].name);
    if (!dim) {
      drv_usage_error(s, "-D %s: the file has no dim of that name", defines[i].name);
      return SPC_INVALID_ARGUMENT;
    }
    if (dim->value >= 0 && dim->value != defines[i].value) {
      drv_usage_error(s, "-D %s=%lld: this IR was made for %s = %lld; start from the .spx file",
                      dim->name, (long long)defines[i].value, dim->name, (long long)dim->value);
      return SPC_INVALID_ARGUMENT;
    }
    sizes[dim->number] = defines[i].value;
  }
  return SPC_OK;
}

double drv_now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}
