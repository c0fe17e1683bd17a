/* driver.h - the command line: options, a session (file, program, messages), exit codes.
 *
 * Each subcommand is one file with one function `int drv_NAME(drv_session *)` that returns an exit
 * code. Artefacts go to stdout, messages to stderr. */
#ifndef SPC_DRIVER_DRIVER_H
#define SPC_DRIVER_DRIVER_H

#include "codegen/codegen.h"
#include "frontend/frontend.h"
#include "ir/interp.h"
#include "passes/pass.h"
#include "runtime/cache.h"
#include "runtime/plan.h"

typedef struct drv_list {
  IR_VEC(const char *) items;
} drv_list;

typedef struct drv_options {
  const char *kernel, *backend, *target, *mcpu, *fallback, *stats, *force_guard, *profile, *emit,
      *output, *override_dir, *passes, *start_at, *stop_after, *disable, *print_before,
      *print_after, *reproducer, *diagnostics, *color, *sweep, *candidates, *json_file, *svg,
      *measured, *library, *positions, *padded, *tier, *packed;
  drv_list defines, binds, outs;
  bool check_inputs, strict_nan, reproducible, batch_invariant, line_info, json, list_passes,
      print_before_all, print_after_all, print_after_change, verify_each, time_report, in_place,
      werror, cold, html;
  int64_t seed, threads, seconds;
} drv_options;

typedef enum drv_kind { DRV_FLAG, DRV_TEXT, DRV_LIST, DRV_NUMBER } drv_kind;
typedef struct drv_option_row {
  const char *name, *commands;
  drv_kind kind;
  size_t field;
  const char *value, *meaning;
} drv_option_row;
extern const drv_option_row drv_option_rows[];
extern const int drv_option_count;

typedef struct drv_session {
  ir_arena *arena;
  ir_sink *sink;
  char command;
  const char *command_name;
  drv_options options;
  drv_list arguments;
  rt_cache *cache;     /* of compiled code */
  int compile_threads; /* 0: by cores */
  bool has_gpu;        /* of the target that is compiled for: drv_target_of */
  /* after drv_load */
  const char *path;
  char *text;
  size_t length;
  fe_file *file; /* NULL when the file is IR text */
  ir_program *program;
  void (*print_pass)(void *user, const char *title, const char *text); /* NULL: to stderr */
  void *print_user;
  const pass_pin *pin; /* `spc bench`: the candidate that the passes shall take */
  const pass_profile *profile; /* `spc tune`: in place of --profile; or NULL */
} drv_session;

typedef int drv_command(drv_session *session);
typedef struct drv_command_row {
  char letter;
  const char *name;
  drv_command *run;
  const char *arguments, *meaning;
} drv_command_row;
extern const drv_command_row drv_command_rows[];
extern const int drv_command_count;

#define SPC_COMMAND(LETTER, NAME, FUNCTION, ARGUMENTS, MEANING) drv_command FUNCTION;
#include "driver/commands.def"
#undef SPC_COMMAND

/* ---- session ------------------------------------------------------------------------------- */
int drv_exit_code(spc_status status);
int drv_usage_error(drv_session *s, const char *format, ...)
    IR_PRINTF(2, 3);             /* one line; returns 2 */
void drv_render(drv_session *s); /* diagnostics so far to stderr, once */
/* What a status means for the user when nothing more can be done: renders, returns the exit code.
 */
int drv_finish(drv_session *s, spc_status status);
spc_status drv_parse_options(drv_session *s, int argc,
                             char **argv); /* SPC_INVALID_ARGUMENT: said already */

/* Reads FILE (or - for stdin), parses and checks it; an IR dump is recognised by its header. */
spc_status drv_load(drv_session *s, const char *path);
/* The same of a text; `shown`: its name in messages. */
spc_status drv_load_text(drv_session *s, const char *shown, const char *text);
spc_status drv_read_file(ir_arena *arena, const char *path, char **text, size_t *length);
spc_status drv_write_file(drv_session *s, const char *path, const void *data,
                          size_t bytes); /* "-": stdout */
/* The kernel of --kernel, or the only one; usage errors are reported. */
spc_status drv_pick_kernel(drv_session *s, ir_kernel **kernel);

/* ---- targets and compiling ------------------------------------------------------------------ */
typedef enum drv_backend { DRV_INTERP, DRV_CPU, DRV_CUDA } drv_backend;
/* The back end of --backend, or the best one here; opens the GPU for DRV_CUDA. */
spc_status drv_pick_backend(drv_session *s, drv_backend *backend, rt_cuda **cuda);
const ir_target *drv_target_of(drv_session *s, drv_backend backend, rt_cuda *cuda);
/* The pipeline with the session's switches (a dump resumes where it stopped). */
spc_status drv_run_passes(drv_session *s, const ir_target *target, const int64_t *sizes);
/* The same with estimates at the sizes that -D gives; a dyn dim stays dyn. */
spc_status drv_run_passes_defined(drv_session *s, const ir_target *target);
/* text_only: CUDA text without NVRTC: of the kernels that stand where an earlier compile told. */
spc_status drv_codegen(drv_session *s, const ir_kernel *kernel, const ir_target *target,
                       bool text_only, ir_image **image);
/* How a plan runs: --force-guard, --fallback=dense, --threads.  Its pool, on a CPU, is the caller's to free. */
rt_plan_options drv_plan_options(const drv_session *s, drv_backend backend, rt_cuda *cuda);
/* --positions=i64: every kernel's positions; before it is bound or a pass runs. */
spc_status drv_set_positions(drv_session *s);
/* --padded=NAME,...: pitches of these tensors become dims (padded.c); before a pass runs.  Twice is
 * once. */
spc_status drv_set_padded(drv_session *s);
void drv_forget_padded(ir_program *program); /* for the interpreter, which reads no padding */
/* CUDA: the image when all of it is in the cache, else SPC_UNAVAILABLE and nothing said. */
spc_status drv_recall(drv_session *s, const ir_kernel *kernel, const ir_target *target,
                      ir_image **image);

/* ---- data ----------------------------------------------------------------------------------- */
/* `NAME=VALUE`: splits at the first '='; false when there is none. */
bool drv_split(drv_session *s, const char *text, const char **name, const char **value);
/* -D of dyn dims into sizes (by number, -1 unknown); others must have been given to the front end.
 */
spc_status drv_sizes_from_defines(drv_session *s, int64_t *sizes);
spc_status drv_bind_inputs(drv_session *s, const ir_kernel *kernel, int64_t *sizes,
                           ir_bindings *out);
/* The same, but inputs without a --bind stay unbound. */
spc_status drv_bind_given(drv_session *s, const ir_kernel *kernel, int64_t *sizes,
                          ir_bindings *out);
/* One --bind of a tensor of any role, results and intermediates as dense ones: to look at. */
spc_status drv_view_of(drv_session *s, const ir_kernel *kernel, const char *text,
                       const int64_t *sizes, ir_tensor **tensor, ir_view *view);
spc_status drv_check_inputs(drv_session *s, const ir_kernel *kernel, const ir_bindings *bindings);
/* A generator's dense data as a view in the tensor's own format. */
spc_status drv_generate(drv_session *s, const ir_tensor *tensor, const char *kind,
                        const double *args, int count, const int64_t *sizes, ir_view *out);
/* The names and endings of every --out, before anything is read or run. */
spc_status drv_check_outs(drv_session *s, const ir_kernel *kernel);
spc_status drv_write_outputs(drv_session *s, const ir_kernel *kernel, const ir_bindings *bindings);
/* image: what ran; NULL when the interpreter did. */
spc_status drv_write_stats(drv_session *s, const ir_kernel *kernel, const rt_stats *stats,
                           const ir_image *image);

/* ---- what `spc bench` measured (measured.c) ----------------------------------------------------
 */
/* The text that records are filed under; from the program before any pass. */
const char *drv_measured_program(drv_session *s, const ir_program *fresh);
/* Fills candidates of a decided kernel with what was measured at its sizes; returns a line about
 * the whole kernel, "" where nothing is known. */
const char *drv_measured_recall(drv_session *s, const char *fresh, ir_kernel *kernel,
                                const ir_target *target);

/* `spc explain --html` (explain_html.c): runs the passes and writes the page.  fresh: as for
 * drv_measured_recall, or NULL. */
spc_status drv_explain_html(drv_session *s, const ir_target *target, int64_t *sizes,
                            const char *fresh);

/* ---- printing ------------------------------------------------------------------------------- */
bool drv_colour(const drv_session *s, FILE *stream);
double drv_now_ms(void);

#endif
