/* explain.c - `spc explain`: why each kernel is what it is, or the long text of a diagnostic. */
#include <ctype.h>

#include "driver/driver.h"
#include "passes/cost.h"
#include "passes/explain.h"

static bool is_code(const char *text) {
  if (strlen(text) != 5 || !strchr("EWRM", text[0])) return false;
  for (int i = 1; i < 5; i++)
    if (!isdigit((unsigned char)text[i])) return false;
  return true;
}

static int explain_code(drv_session *s, const char *code) {
  const ir_diag_row *row = ir_diag_find(code);
  if (!row) return drv_usage_error(s, "no diagnostic %s; `spc show diagnostics` lists them", code);
  printf("%s: %s\n\n%s\n", row->code, row->title, row->help);
  return 0;
}

/* ---- the price of a promise ------------------------------------------------------------------ */
typedef struct promise {
  ir_program *without; /* the same file, compiled without the promise; NULL: nothing was promised */
  const char *name;
} promise;

/* The sizes that the promise's own estimates took: what is compared is of the same work. */
static const int64_t *sizes_taken(drv_session *s, const int64_t *sizes) {
  const ir_program *program = s->program;
  int64_t *taken = IR_NEW_ARRAY(s->arena, int64_t, program->dims.count + 1);
  for (int d = 0; d < program->dims.count; d++) {
    const ir_dim *dim = program->dims.at[d];
    taken[d] = program->batch_invariant && dim->value < 0 && dim->assumed > 0 ? dim->assumed : sizes[d];
  }
  return taken;
}

/* Compiles the file once more, without promises; what it has to say was said the first time. */
static spc_status compile_without(drv_session *s, const ir_target *target, const int64_t *sizes,
                                  promise *out) {
  ir_program *program = s->program;
  ir_sink *sink = s->sink;
  drv_options options = s->options;
  if (!program->reproducible && !program->batch_invariant) return SPC_OK;
  out->name = !program->batch_invariant ? "reproducible"
              : program->reproducible   ? "reproducible, batch invariant"
                                        : "batch invariant";
  const int64_t *taken = sizes_taken(s, sizes);
  s->sink = ir_sink_new(s->arena);
  s->options.reproducible = s->options.batch_invariant = false;
  spc_status status = drv_load(s, s->arguments.items.at[0]);
  if (!status) s->program->reproducible = s->program->batch_invariant = false;
  if (!status) status = drv_run_passes(s, target, taken);
  if (!status) out->without = s->program;
  s->program = program;
  s->sink = sink;
  s->options = options;
  return SPC_OK;
}

static void put_promise(drv_session *s, const promise *given, int k, ir_text *text) {
  if (!given->without || s->options.json) return;
  double with = pass_explain_summary(s->program, s->program->kernels.at[k]).expected;
  double without = pass_explain_summary(given->without, given->without->kernels.at[k]).expected;
  ir_text_printf(text, "\n  promised %s: ", given->name);
  if (without <= 0 || with <= without * 1.005)
    ir_text_put(text, "it costs nothing here\n");
  else
    ir_text_printf(text, "it costs %s, %.2f times the %s without it\n",
                   pass_time_text(s->arena, with - without), with / without,
                   pass_time_text(s->arena, without));
}

typedef struct recall {
  const char *fresh; /* the program before any pass, as text; NULL: it came as IR */
  const ir_target *target;
} recall;

/* Fills the candidates with what was measured; the line about the kernel stands under its first. */
static void put_kernel(drv_session *s, const recall *known, ir_kernel *kernel, ir_text *out) {
  const char *line =
      known->fresh ? drv_measured_recall(s, known->fresh, kernel, known->target) : "";
  if (s->options.json) {
    pass_explain_json(s->program, kernel, out);
    return;
  }
  pass_explain_head(s->program, kernel, out);
  ir_text_put(out, line);
  pass_explain_stages(kernel, out);
}

/* What the assembler said of each launch, where an earlier compile is in the cache. */
static void put_compiled(drv_session *s, const ir_target *target, const ir_kernel *kernel,
                         ir_text *text) {
  ir_image *image;
  ir_sink *sink = s->sink;
  s->sink = ir_sink_new(s->arena); /* remarks of the compile were given by the compile */
  bool known = !s->options.json && drv_recall(s, kernel, target, &image) == SPC_OK;
  s->sink = sink;
  if (!known) return;
  ir_text_put(text, "\n  as compiled\n");
  for (int i = 0; i < image->rejected.count; i++)
    ir_text_printf(text, "    %-12s %s rejected: %s\n", image->rejected.at[i].stage->name,
                   image->rejected.at[i].label, image->rejected.at[i].why);
  for (int i = 0; i < image->codes.count; i++) {
    const ir_code_image *code = &image->codes.at[i];
    if (code->library) {
      ir_text_printf(text, "    %-12s %s: a call\n", code->stage->name, code->label);
      continue;
    }
    ir_text_printf(text, "    %-12s %s: %d threads, %d registers", code->stage->name,
                   code->path ? code->path : code->label, code->threads, code->registers);
    if (code->shared_bytes) ir_text_printf(text, ", %d bytes of shared memory", code->shared_bytes);
    if (code->spill_bytes > 0) ir_text_printf(text, ", %d bytes spilled", code->spill_bytes);
    ir_text_put(text, "\n");
  }
}

static spc_status explain_kernels(drv_session *s, const ir_target *target, const recall *known,
                                  const promise *given) {
  ir_text text = ir_text_new(s->arena);
  bool schedule = s->options.emit && !strcmp(s->options.emit, "schedule");
  int printed = 0;
  if (s->options.emit && !schedule) {
    drv_usage_error(s, "explain emits only `schedule`, not `%s`", s->options.emit);
    return SPC_INVALID_ARGUMENT;
  }
  if (s->options.json) ir_text_put(&text, "[");
  for (int k = 0; k < s->program->kernels.count; k++) {
    ir_kernel *kernel = s->program->kernels.at[k];
    if (s->options.kernel && strcmp(s->options.kernel, kernel->name)) continue;
    if (printed++) ir_text_put(&text, s->options.json ? ",\n" : "\n");
    if (schedule)
      pass_explain_schedule(s->program, kernel, &text);
    else
      put_kernel(s, known, kernel, &text);
    if (!schedule) put_compiled(s, target, kernel, &text);
    if (!schedule) put_promise(s, given, k, &text);
  }
  if (s->options.json) ir_text_put(&text, "]\n");
  return drv_write_file(s, s->options.output, text.data, text.length);
}

/* Sizes for the estimates: fixed dims, -D, bindings when they are all given. */
static spc_status estimate_sizes(drv_session *s, int64_t **out) {
  int64_t *sizes = IR_NEW_ARRAY(s->arena, int64_t, s->program->dims.count + 1);
  *out = sizes;
  SPC_TRY(drv_sizes_from_defines(s, sizes));
  if (!s->options.binds.items.count || s->options.html)
    return SPC_OK; /* the page's are looked at */
  ir_kernel *kernel;
  ir_bindings bindings = {0};
  SPC_TRY(drv_pick_kernel(s, &kernel));
  return drv_bind_inputs(s, kernel, sizes, &bindings);
}

static const ir_target *explain_target(drv_session *s) {
  rt_cuda *cuda = NULL;
  const char *why;
  const char *backend = s->options.backend;
  bool look = !s->options.target && !s->program->target && (!backend || !strcmp(backend, "cuda"));
  drv_backend kind = DRV_CPU;
  if (look && rt_cuda_open(&cuda, &why) == SPC_OK)
    kind = DRV_CUDA;
  else if (backend && !strcmp(backend, "cuda"))
    kind = DRV_CUDA;
  const ir_target *target = drv_target_of(s, kind, cuda);
  if (cuda) rt_cuda_close(cuda);
  return target;
}

int drv_explain(drv_session *s) {
  if (s->arguments.items.count != 1)
    return drv_usage_error(s, "explain wants a file or the code of a diagnostic (E0201)");
  if (is_code(s->arguments.items.at[0])) return explain_code(s, s->arguments.items.at[0]);
  int64_t *sizes = NULL;
  spc_status status = drv_load(s, s->arguments.items.at[0]);
  if (!status) status = estimate_sizes(s, &sizes);
  const ir_target *target = status ? NULL : explain_target(s);
  if (!status && !target) status = SPC_INVALID_ARGUMENT;
  recall known = {.target = target};
  if (!status && !s->program->after) known.fresh = drv_measured_program(s, s->program);
  if (s->options.html)
    return drv_finish(s, status ? status : drv_explain_html(s, target, sizes, known.fresh));
  if (!status) status = drv_run_passes(s, target, sizes);
  promise given = {0};
  if (!status) status = compile_without(s, target, sizes, &given);
  if (!status) status = explain_kernels(s, target, &known, &given);
  return drv_finish(s, status);
}
