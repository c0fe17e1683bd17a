/* api.c - contexts and programs of the public interface. */
#include <errno.h>
#include <setjmp.h>
#include <stdlib.h>

#include "driver/api.h"
#include "driver/bundle.h"

int spc_version_number(void) { return SPC_VERSION_NUMBER; }

void drv_log(const spc_context *context, spc_log_level level, const char *format, ...) {
  char text[1024];
  va_list args;
  if (!context->log) return;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  context->log(context->user, level, text);
}

/* The first error's own words, when the caller of this function has none. */
static const char *first_error(const ir_sink *sink) {
  for (int i = 0; sink && i < sink->diags.count; i++)
    if (sink->diags.at[i]->severity == IR_ERROR) return sink->diags.at[i]->text;
  return NULL;
}

/* Rendered as far as there is memory for it. */
static void render(spc_error *err, ir_sink *sink) {
  jmp_buf out_of_memory;
  err->diagnostics[0] = 0;
  jmp_buf *volatile before = ir_arena_guard(sink->arena, &out_of_memory);
  if (!setjmp(out_of_memory)) {
    ir_text text = ir_text_new(sink->arena);
    ir_sink_render(sink, &text, false);
    snprintf(err->diagnostics, sizeof err->diagnostics, "%s", text.data);
  }
  ir_arena_guard(sink->arena, before);
}

spc_status drv_api_fail(spc_error *err, spc_status status, ir_sink *sink, const char *format, ...) {
  if (!err || err->struct_size < offsetof(spc_error, diagnostics)) return status;
  va_list args;
  err->status = status;
  err->message[0] = 0;
  if (format) {
    va_start(args, format);
    vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
  } else {
    const char *text = first_error(sink);
    snprintf(err->message, sizeof err->message, "%s", text ? text : spc_status_name(status));
  }
  if (err->struct_size < sizeof(spc_error)) return status;
  err->diagnostics[0] = 0;
  if (sink && sink->diags.count) render(err, sink);
  return status;
}

spc_status drv_take_options(const char *what, const void *given, void *full, size_t size,
                            spc_error *err) {
  size_t length;
  if (!given) return SPC_OK;
  memcpy(&length, given, sizeof length);
  if (length < sizeof length)
    return drv_api_fail(err, SPC_INVALID_ARGUMENT, NULL,
                        "%s: `struct_size` is %zu; set it to the struct's size", what, length);
  for (size_t i = size; i < length; i++)
    if (((const char *)given)[i])
      return drv_api_fail(err, SPC_INVALID_ARGUMENT, NULL,
                          "%s is of a newer header, and sets what this library (%s) does not know",
                          what, SPC_VERSION);
  memcpy(full, given, length < size ? length : size);
  return SPC_OK;
}

/* ---- context --------------------------------------------------------------------------------- */
static spc_status choose(spc_context *context, const spc_context_options *given, const char **why) {
  const char *name = given->backend;
  bool any = !name;
  *why = "";
  if (any || !strcmp(name, "cuda")) {
    if (!given->load_only && !cg_nvrtc_found(rt_cache_face(context->cache)))
      *why = cg_nvrtc_version();
    else if (rt_cuda_open(&context->cuda, why) == SPC_OK)
      return context->backend = DRV_CUDA, SPC_OK;
    if (!any) return SPC_UNAVAILABLE;
  }
  if (any || !strcmp(name, "cpu")) {
    bool runs = given->load_only ? cg_cpu_level_runs("x86-64") : cg_cpu_available();
    if (runs) return context->backend = DRV_CPU, SPC_OK;
    *why = given->load_only ? "this machine is no x86-64" : cg_cpu_version();
    if (!any) return SPC_UNAVAILABLE;
  }
  context->backend = DRV_INTERP;
  return any || !strcmp(name, "interp") ? SPC_OK : SPC_INVALID_ARGUMENT;
}

static void log_choice(const spc_context *context, const spc_context_options *given,
                       const char *why) {
  const char *backend = spc_context_backend(context);
  if (given->backend || !why[0])
    drv_log(context, SPC_LOG_NOTE, "back end: %s", backend);
  else
    drv_log(context, SPC_LOG_NOTE, "back end: %s, for %s", backend, why);
}

static spc_status take_allocator(const spc_allocator *given, spc_allocator *out, spc_error *err) {
  if (!given) return SPC_OK;
  SPC_TRY(drv_take_options("spc_context_new: `allocator`", given, out, sizeof *out, err));
  if (out->allocate && out->release) return SPC_OK;
  return drv_api_fail(err, SPC_INVALID_ARGUMENT, NULL, "spc_context_new: `allocator`: `%s` is NULL",
                      out->allocate ? "release" : "allocate");
}

spc_status spc_context_new(const spc_context_options *options, spc_context **out, spc_error *err) {
  spc_context_options given = {0};
  spc_allocator allocator = {0};
  const char *why;
  if (!out)
    return drv_api_fail(err, SPC_INVALID_ARGUMENT, NULL, "spc_context_new: `context` is NULL");
  *out = NULL;
  SPC_TRY(drv_take_options("spc_context_new: `options`", options, &given, sizeof given, err));
  if (given.threads < 0 || given.compile_threads < 0)
    return drv_api_fail(err, SPC_INVALID_ARGUMENT, NULL, "spc_context_new: `%s` is %d",
                        given.threads < 0 ? "threads" : "compile_threads",
                        given.threads < 0 ? given.threads : given.compile_threads);
  SPC_TRY(take_allocator(given.allocator, &allocator, err));
  spc_context *context = calloc(1, sizeof *context);
  if (!context) return drv_api_fail(err, SPC_OUT_OF_MEMORY, NULL, "no memory for a context");
  context->cache = rt_cache_open();
  context->compile_threads = given.compile_threads;
  spc_status status = choose(context, &given, &why);
  if (status) {
    rt_cache_close(context->cache);
    free(context);
    if (status == SPC_INVALID_ARGUMENT)
      return drv_api_fail(err, status, NULL,
                          "spc_context_new: `backend` is cuda, cpu or interp, not `%s`",
                          given.backend);
    return drv_api_fail(err, status, NULL, "the %s back end is not here: %s", given.backend, why);
  }
  if (context->backend == DRV_CPU) context->pool = rt_pool_new(given.threads);
  context->log = given.log;
  context->trace = given.trace;
  context->user = given.user;
  context->allocator = allocator;
  context->from = given.allocator ? &context->allocator : NULL;
  if (context->cuda) rt_cuda_use_allocator(context->cuda, context->from);
  log_choice(context, &given, why);
  *out = context;
  return SPC_OK;
}

void spc_context_free(spc_context *context) {
  if (!context) return;
  drv_compiler_free(context->compiler);
  rt_pool_free(context->pool);
  rt_cache_close(context->cache);
  if (context->cuda) rt_cuda_close(context->cuda);
  free(context);
}

const char *spc_context_backend(const spc_context *context) {
  if (!context) return "";
  return context->backend == DRV_CUDA ? "cuda" : context->backend == DRV_CPU ? "cpu" : "interp";
}

/* ---- program --------------------------------------------------------------------------------- */
typedef struct api_source {
  const char *name, *text; /* name: for diagnostics */
  size_t length;
  const spc_program_options *options; /* taken and checked */
  const spc_size *usual;              /* the size that estimates take; NULL: none is given */
} api_source;

static spc_status parse(spc_program *p, const api_source *source) {
  const spc_program_options *given = source->options;
  size_t length = source->length;
  fe_define *defines = IR_NEW_ARRAY(p->arena, fe_define, given->fixed_count + 1);
  fe_options options = {.defines = defines, .define_count = given->fixed_count};
  for (int i = 0; i < given->fixed_count; i++)
    defines[i] = (fe_define){given->fixed[i].name, given->fixed[i].value};
  char *copy = ir_strndup(p->arena, source->text, length);
  if (ir_looks_like_ir(copy, length))
    return ir_parse(p->arena, source->name, copy, length, p->sink, &p->ir);
  SPC_TRY(fe_compile(p->arena, source->name, copy, length, &options, p->sink, &p->ir));
  return p->sink->errors ? SPC_INVALID_INPUT : SPC_OK;
}

static spc_status compile(spc_program *p, const api_source *source, const atomic_bool *cancelled) {
  const spc_program_options *given = source->options;
  drv_session session = {
      .arena = p->arena, .sink = p->sink, .program = p->ir, .cache = p->context->cache};
  session.compile_threads = cancelled ? 1 : 0;
  session.options.strict_nan = given->strict_nan != 0;
  session.options.reproducible = given->reproducible != 0;
  session.options.batch_invariant = given->batch_invariant != 0;
  session.options.positions = given->positions; /* checked in program_new */
  session.options.padded = given->padded;
  session.options.profile = given->profile;
  session.options.packed = given->packed ? "yes" : "no";
  session.options.tier = drv_is_generic(p) ? "generic" : "tuned";
  p->strict_nan = given->strict_nan != 0;
  SPC_TRY(drv_set_positions(&session));
  SPC_TRY(drv_set_padded(&session));
  p->ir->unpacked |= !given->packed;
  p->images = IR_NEW_ARRAY(p->arena, ir_image *, p->ir->kernels.count + 1);
  if (p->context->backend == DRV_INTERP) {
    drv_forget_padded(p->ir);
    return SPC_OK;
  }
  const ir_target *target = drv_target_of(&session, p->context->backend, p->context->cuda);
  SPC_TRY(drv_run_passes(&session, target, drv_usual_sizes(p->arena, p->ir, source->usual)));
  for (int k = 0; k < p->ir->kernels.count; k++) {
    const ir_kernel *kernel = p->ir->kernels.at[k];
    if (cancelled && atomic_load(cancelled)) return SPC_UNAVAILABLE;
    SPC_TRY(p->tier == API_RECALLED ? drv_recall(&session, kernel, target, &p->images[k])
                                    : drv_codegen(&session, kernel, target, false, &p->images[k]));
  }
  return SPC_OK;
}

int spc_program_tuned(spc_program *program, int64_t microseconds) {
  return !program || !program->tuning || spc_job_wait(program->tuning, microseconds);
}

void spc_program_free(spc_program *program) {
  if (!program) return;
  spc_job_cancel(program->tuning);
  spc_job_wait(program->tuning, -1);
  spc_job_free(program->tuning);
  spc_program_free(drv_tuned(program));
  for (int i = 0; i < API_MOST_USUAL; i++) spc_program_free(program->usual.program[i]);
  for (int k = 0; program->images && k < program->ir->kernels.count; k++)
    if (program->images[k] && program->images[k]->release)
      program->images[k]->release(program->images[k]->owner);
  ir_arena_free(program->arena);
  free(program);
}

/* What was made, and what is said of it although it is no error. */
static void log_program(const spc_program *p) {
  if (!p->context->log) return;
  for (int i = 0; i < p->sink->diags.count; i++) {
    const ir_diag *d = p->sink->diags.at[i];
    drv_log(p->context, d->severity == IR_WARNING ? SPC_LOG_WARNING : SPC_LOG_NOTE, "%s: %s",
            ir_diag_rows[d->id].code, d->text);
  }
  for (int k = 0; k < p->ir->kernels.count && p->images; k++)
    if (p->images[k])
      drv_log(p->context, SPC_LOG_NOTE,
              "kernel `%s`: %d pieces of code, %d compiled, %d from the cache",
              p->ir->kernels.at[k]->name, p->images[k]->codes.count, p->images[k]->compiled,
              p->images[k]->cached);
}

static spc_status build(spc_program *p, const api_source *source, const atomic_bool *cancelled) {
  const char *name = source->name;
  jmp_buf out_of_memory;
  if (setjmp(out_of_memory)) return SPC_OUT_OF_MEMORY;
  ir_arena_guard(p->arena, &out_of_memory);
  p->sink = ir_sink_new(p->arena);
  drv_trace(p->context, "parse", name, true);
  spc_status status = parse(p, source);
  drv_trace(p->context, "parse", name, false);
  if (!status) {
    drv_trace(p->context, "compile", name, true);
    status = compile(p, source, cancelled);
    drv_trace(p->context, "compile", name, false);
  }
  if (!status) log_program(p);
  ir_arena_guard(p->arena, NULL);
  return status;
}

/* A program of one tier; the second follows the first. */
static spc_status make(spc_context *context, api_tier tier, const api_source *source,
                       const atomic_bool *cancelled, spc_program **out, spc_error *err) {
  spc_program *p = calloc(1, sizeof *p);
  if (!p || !(p->arena = ir_arena_new())) {
    free(p);
    return drv_api_fail(err, SPC_OUT_OF_MEMORY, NULL, "no memory for a program");
  }
  p->context = context;
  p->tier = tier;
  p->workspace_limit = (size_t)source->options->workspace_limit;
  spc_status status = build(p, source, cancelled);
  if (!status) {
    if (drv_is_generic(p) && !drv_tune(p, source->text, source->length, source->options))
      drv_log(context, SPC_LOG_WARNING,
              "the program stays generic: its tuned tier cannot be queued");
    *out = p;
    return SPC_OK;
  }
  bool untold = tier == API_RECALLED && status == SPC_UNAVAILABLE; /* the generic tier follows */
  if (!untold) drv_api_fail(err, status, status == SPC_OUT_OF_MEMORY ? NULL : p->sink, NULL);
  spc_program_free(p);
  return status;
}

/* Once for each usual size; the last of them is the program. */
static spc_status make_sizes(spc_context *context, api_source *source, api_usual *usual, const atomic_bool *cancelled, spc_program **out, spc_error *err) {
  spc_size size = {usual->name, usual->size[usual->count - 1]};
  source->usual = &size;
  SPC_TRY(make(context, API_TUNED, source, cancelled, out, err));
  spc_program *program = *out;
  spc_status status = drv_usual_fits(program, usual, err);
  bool alone = context->backend == DRV_INTERP || source->options->batch_invariant; /* a row's bits must not depend on how many there are */
  if (alone) usual->count = 1;
  program->usual = *usual;
  program->usual.name = NULL;
  for (int i = 0; i + 1 < usual->count && !status; i++) {
    size.value = usual->size[i];
    status = make(context, API_TUNED, source, cancelled, &program->usual.program[i], err);
  }
  if (!status) return SPC_OK;
  spc_program_free(program);
  *out = NULL;
  return status;
}

spc_status drv_program_new(spc_context *context, const char *name, const char *text, size_t length,
                           const spc_program_options *options, const atomic_bool *cancelled,
                           spc_program **out, spc_error *err) {
  spc_program_options given = {0};
  api_source source = {name, text, length, &given, NULL};
  api_usual usual;
  SPC_TRY(drv_take_options("spc_program_options: `options`", options, &given, sizeof given, err));
  if (given.positions && strcmp(given.positions, "i32") && strcmp(given.positions, "i64"))
    return drv_api_fail(err, SPC_INVALID_ARGUMENT, NULL,
                        "spc_program_options: `positions` is i32 or i64, not `%s`",
                        given.positions);
  if (given.fixed_count < 0 || (given.fixed_count && !given.fixed))
    return drv_api_fail(err, SPC_INVALID_ARGUMENT, NULL, "spc_program_options: `%s` is not valid",
                        given.fixed_count < 0 ? "fixed_count" : "fixed");
  if (given.workspace_limit < 0)
    return drv_api_fail(err, SPC_INVALID_ARGUMENT, NULL, "spc_program_options: `workspace_limit` is negative");
  for (int i = 0; i < given.fixed_count; i++)
    if (!given.fixed[i].name)
      return drv_api_fail(err, SPC_INVALID_ARGUMENT, NULL,
                          "spc_program_options: `fixed[%d]` has no name", i);
  SPC_TRY(drv_usual_take(&given, &usual, err));
  if (usual.count) return make_sizes(context, &source, &usual, cancelled, out, err);
  /* On CUDA what is in the cache is the tuned tier at once.  Tiers sum in orders of their own: who was promised a result's
   * bits gets one of them. */
  bool promised = given.reproducible || given.batch_invariant;
  api_tier tier = !given.tiered || promised || context->backend == DRV_INTERP ? API_TUNED
                  : context->backend == DRV_CUDA                  ? API_RECALLED
                                                                  : API_GENERIC;
  spc_status status = make(context, tier, &source, cancelled, out, err);
  if (status != SPC_UNAVAILABLE || tier != API_RECALLED) return status;
  return make(context, API_GENERIC, &source, cancelled, out, err);
}

spc_status spc_program_from_text(spc_context *context, const char *text, size_t length,
                                 const spc_program_options *options, spc_program **program,
                                 spc_error *err) {
  if (program) *program = NULL;
  if (!context || !text || !program)
    return drv_api_fail(err, SPC_INVALID_ARGUMENT, NULL, "spc_program_from_text: `%s` is NULL",
                        !context ? "context"
                        : !text  ? "text"
                                 : "program");
  return drv_program_new(context, "<text>", text, length, options, NULL, program, err);
}

typedef struct file_text {
  ir_arena *arena;
  char *text;
  size_t length;
} file_text;

static spc_status read_file(file_text *file, const char *path) {
  jmp_buf out_of_memory;
  if (setjmp(out_of_memory)) return SPC_OUT_OF_MEMORY;
  ir_arena_guard(file->arena, &out_of_memory);
  spc_status status = drv_read_file(file->arena, path, &file->text, &file->length);
  ir_arena_guard(file->arena, NULL);
  return status;
}

/* Of the options a bundle takes what is asked of runs: it is compiled. */
static spc_status load_bundle(spc_context *context, const char *path, const file_text *file, const spc_program_options *options,
                              spc_program **program, spc_error *err) {
  spc_program_options given = {0};
  SPC_TRY(drv_take_options("spc_program_options: `options`", options, &given, sizeof given, err));
  SPC_TRY(drv_program_load(context, path, file->text, file->length, program, err));
  if (given.workspace_limit > 0) (*program)->workspace_limit = (size_t)given.workspace_limit;
  return SPC_OK;
}

spc_status spc_program_from_file(spc_context *context, const char *path,
                                 const spc_program_options *options, spc_program **program,
                                 spc_error *err) {
  if (program) *program = NULL;
  if (!context || !path || !program)
    return drv_api_fail(err, SPC_INVALID_ARGUMENT, NULL, "spc_program_from_file: `%s` is NULL",
                        !context ? "context"
                        : !path  ? "path"
                                 : "program");
  ir_arena *arena = ir_arena_new();
  if (!arena) return drv_api_fail(err, SPC_OUT_OF_MEMORY, NULL, "no memory to read `%s`", path);
  file_text file = {.arena = arena};
  errno = 0;
  spc_status status = read_file(&file, path);
  if (status)
    drv_api_fail(err, status, NULL, "cannot read `%s`: %s", path,
                 status == SPC_IO ? strerror(errno) : "no memory");
  else if (bundle_looks_like(file.text, file.length))
    status = load_bundle(context, path, &file, options, program, err);
  else
    status = drv_program_new(context, path, file.text, file.length, options, NULL, program, err);
  ir_arena_free(arena);
  return status;
}

int spc_program_kernel_count(const spc_program *program) {
  return program ? program->ir->kernels.count : 0;
}

const char *spc_program_kernel_name(const spc_program *program, int i) {
  return program && i >= 0 && i < program->ir->kernels.count ? program->ir->kernels.at[i]->name
                                                             : NULL;
}
