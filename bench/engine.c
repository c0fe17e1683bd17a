/* engine.c - programs for bench/gpu.py: compiled for the GPU of this process, run on memory and
 * streams of the caller.
 *
 * The caller owns the tensors (it places them), the stream and the clock; a launch of a prepared
 * program is launches alone.  Every function answers 0, or a status whose words bench_error has. */
#include <stdlib.h>
#include <time.h>

#include "codegen/codegen.h"
#include "frontend/frontend.h"
#include "passes/explain.h"
#include "passes/pass.h"
#include "runtime/cublaslt.h"
#include "runtime/plan.h"

typedef struct bench_program {
  ir_arena *arena;
  ir_sink *sink;
  rt_cuda *cuda;
  ir_image *image;
  rt_plan *plan;
  rt_run *run;
  ir_bindings inputs; /* arrays of the host, copied once: stored operands */
  int64_t *sizes;
  rt_report report; /* as a plan of the public interface has one: the device writes to it in every run */
  bool own;                /* the library is no candidate */
  int promise;             /* 1 reproducible, 2 batch invariant */
  int force;               /* 1: guards say sparse, 2: dense */
  pass_pin pin;            /* the candidate of one result that is taken, if any */
  double pass_ms, code_ms; /* front end and passes; code generation with NVRTC */
} bench_program;

/* The symbols that Python calls. */
bench_program *bench_new(void);
void bench_own(bench_program *p);
void bench_promise(bench_program *p, int promise);
void bench_pin(bench_program *p, const char *target, const char *label);
void bench_force(bench_program *p, int verdict);
int bench_compile(bench_program *p, const char *text, int count, const char *const *names,
                  const int64_t *values);
double bench_predicted(bench_program *p, const char *text);
int bench_pack(bench_program *p, const char *tensor, const int64_t *dims, void *dense, int64_t *bytes);
int bench_rows(bench_program *p, const char *tensor, const int64_t *dims, int32_t *pos, int32_t *crd, void *vals);
int bench_place(bench_program *p, const char *tensor, void *device);
int bench_prepare(bench_program *p);
int bench_enqueue(bench_program *p, void *stream);
void bench_share(bench_program *p, int share);
void bench_reset(bench_program *p);
const char *bench_stages(bench_program *p, void *stream);
const char *bench_error(bench_program *p);
double bench_milliseconds(const bench_program *p, int which);
int bench_kernels(const bench_program *p);
void bench_free(bench_program *p);

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

bench_program *bench_new(void) {
  bench_program *p = calloc(1, sizeof *p);
  if (!p) return NULL;
  p->arena = ir_arena_new();
  p->sink = ir_sink_new(p->arena);
  return p;
}

/* Before compiling: kernels of our own alone. */
void bench_own(bench_program *p) { p->own = true; }

/* Before compiling: 1 the same bits for the same input, 2 rows whose bits do not depend on other rows. */
void bench_promise(bench_program *p, int promise) { p->promise = promise; }

/* Before compiling: of `target`, the candidate that `explain` calls so.  The words stay the caller's. */
void bench_pin(bench_program *p, const char *target, const char *label) {
  p->pin = (pass_pin){target, label};
}

/* Before memory is placed: what every guard says, 1 sparse, 2 dense. */
void bench_force(bench_program *p, int verdict) { p->force = verdict; }

static spc_status front(bench_program *p, const char *text, const ir_target *target, int count,
                        const char *const *names, const int64_t *values, ir_program **program) {
  fe_options none = {0};
  SPC_TRY(fe_compile(p->arena, "bench.spx", text, strlen(text), &none, p->sink, program));
  p->sizes = IR_NEW_ARRAY(p->arena, int64_t, (*program)->dims.count + 1);
  for (int d = 0; d < (*program)->dims.count; d++) {
    p->sizes[d] = (*program)->dims.at[d]->value;
    for (int i = 0; i < count; i++)
      if (!strcmp((*program)->dims.at[d]->name, names[i])) p->sizes[d] = values[i];
  }
  pass_options options = {
      .target = target,
      .sizes = p->sizes,
      .pin = p->pin.target ? &p->pin : NULL,
      .reproducible = p->promise == 1,
      .batch_invariant = p->promise == 2,
      .library_missing = p->own ? NULL : rt_cublaslt_missing};
  return pass_pipeline(*program, &options, p->sink);
}

int bench_compile(bench_program *p, const char *text, int count, const char *const *names,
                  const int64_t *values) {
  const char *why = "";
  if (rt_cuda_open(&p->cuda, &why)) return SPC_UNAVAILABLE;
  ir_program *program;
  cg_options code = {.target = ir_target_find(rt_cuda_arch(p->cuda)), .override_dir = getenv("SPC_OVERRIDE_DIR")};
  double begin = now_ms();
  SPC_TRY(front(p, text, code.target, count, names, values, &program));
  double middle = now_ms();
  SPC_TRY(cg_cuda_compile(p->arena, program->kernels.at[0], &code, p->sink, &p->image));
  p->pass_ms = middle - begin;
  p->code_ms = now_ms() - middle;
  return SPC_OK;
}

/* Microseconds that the cost model expects of a program of known sizes, which is not compiled; 0: it does not pass. */
double bench_predicted(bench_program *p, const char *text) {
  const char *why = "";
  ir_program *program;
  if (rt_cuda_open(&p->cuda, &why) || front(p, text, ir_target_find(rt_cuda_arch(p->cuda)), 0, NULL, NULL, &program)) return 0;
  return pass_explain_summary(program, program->kernels.at[0]).expected;
}

static spc_status open_run(bench_program *p) {
  if (!p->report.words) SPC_TRY(rt_report_new(p->cuda, NULL, p->image->kernel, &p->report));
  rt_plan_options options = {.cuda = p->cuda, .report = &p->report, .force_guard = p->force};
  SPC_TRY(rt_plan_new(p->image, p->sizes, &options, p->sink, &p->plan));
  return rt_run_new(p->plan, p->arena, &p->inputs, p->sink, &p->run);
}

/* Before anything is placed: a row-major matrix of the host, packed in the tensor's format; *bytes: of all arrays. */
int bench_pack(bench_program *p, const char *tensor, const int64_t *dims, void *dense, int64_t *bytes) {
  ir_tensor *found = ir_tensor_named(p->image->kernel, tensor);
  const char *why = "";
  if (!found || !found->format || p->run) return SPC_INVALID_ARGUMENT;
  ir_view from = {.dtype = found->dtype, .rank = found->rank};
  from.format = ir_format_builtin(p->arena, "dense", found->rank, NULL, 0, &why);
  int64_t count = 1;
  for (int d = 0; d < found->rank; d++) count *= from.dim[d] = dims[d];
  from.vals = (ir_array){dense, count, found->dtype};
  ir_binding binding = {.tensor = found};
  if (ir_view_convert(p->arena, &from, found->format, IR_I32, &binding.view, &why)) {
    ir_diag_add(p->sink, IR_DIAG_STORAGE, IR_NOWHERE, "`%s`: %s", tensor, why);
    return SPC_INVALID_INPUT;
  }
  const ir_view *v = &binding.view;
  *bytes = v->vals.count * (int64_t)ir_dtype_bytes(v->vals.dtype);
  for (int l = 0; l < found->format->level_count; l++)
    *bytes += v->pos[l].count * (int64_t)ir_dtype_bytes(v->pos[l].dtype) + v->crd[l].count * (int64_t)ir_dtype_bytes(v->crd[l].dtype);
  IR_PUSH(p->arena, &p->inputs.list, binding);
  return SPC_OK;
}

/* The same, of a csr matrix of the host: its rows' ends, columns and values (NULL: a pattern). */
int bench_rows(bench_program *p, const char *tensor, const int64_t *dims, int32_t *pos, int32_t *crd, void *vals) {
  ir_tensor *found = ir_tensor_named(p->image->kernel, tensor);
  if (!found || !found->format || found->format->level_count != 2 || p->run) return SPC_INVALID_ARGUMENT;
  ir_binding binding = {.tensor = found, .view = {.dtype = found->dtype, .rank = 2, .dim = {dims[0], dims[1]}, .format = found->format}};
  binding.view.pos[1] = (ir_array){pos, dims[0] + 1, IR_I32};
  binding.view.crd[1] = (ir_array){crd, pos[dims[0]], IR_I32};
  if (vals) binding.view.vals = (ir_array){vals, pos[dims[0]], found->dtype};
  IR_PUSH(p->arena, &p->inputs.list, binding);
  return SPC_OK;
}

int bench_place(bench_program *p, const char *tensor, void *device) {
  const ir_tensor *found = ir_tensor_named(p->image->kernel, tensor);
  if (!found) return SPC_INVALID_ARGUMENT;
  if (!p->run) SPC_TRY(open_run(p));
  return rt_run_place(p->run, found, device);
}

int bench_prepare(bench_program *p) {
  return rt_run_only_launches(p->run) ? rt_run_prepare(p->run) : SPC_INVALID_ARGUMENT;
}

int bench_enqueue(bench_program *p, void *stream) { return rt_run_enqueue(p->run, stream, NULL); }

/* What is enqueued from now on: 0 every stage, 1 those that depend on const inputs alone, 2 the others. */
void bench_share(bench_program *p, int share) { rt_run_take(p->run, (rt_share)share); }

/* One more run, stage by stage: "name kernel ran cover milliseconds" a line. */
const char *bench_stages(bench_program *p, void *stream) {
  rt_stats stats = {0};
  ir_bindings outputs = {0};
  ir_text text = ir_text_new(p->arena);
  if (rt_run_enqueue(p->run, stream, &stats) || rt_run_fetch(p->run, &outputs, &stats)) return "";
  for (int i = 0; i < stats.stages.count; i++) {
    const rt_stage_stats *s = &stats.stages.at[i];
    ir_text_printf(&text, "%s %s %d %.6f %.6f\n", s->stage, s->kernel, s->ran, s->cover,
                   s->milliseconds);
  }
  return text.data ? text.data : "";
}

/* The program again, with nothing bound. */
void bench_reset(bench_program *p) {
  rt_run_free(p->run);
  rt_plan_free(p->plan);
  p->run = NULL;
  p->plan = NULL;
  p->inputs = (ir_bindings){0};
}

const char *bench_error(bench_program *p) {
  ir_text text = ir_text_new(p->arena);
  ir_sink_render(p->sink, &text, false);
  return text.data ? text.data : p->cuda ? rt_cuda_error(p->cuda) : "no GPU";
}

double bench_milliseconds(const bench_program *p, int which) {
  return which ? p->code_ms : p->pass_ms;
}

int bench_kernels(const bench_program *p) { return p->image->codes.count; }

void bench_free(bench_program *p) {
  if (!p) return;
  rt_run_free(p->run);
  rt_plan_free(p->plan);
  rt_report_free(&p->report);
  if (p->image && p->image->release) p->image->release(p->image->owner);
  rt_cuda_close(p->cuda);
  ir_arena_free(p->arena);
  free(p);
}
