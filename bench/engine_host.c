/* engine_host.c - programs for bench/cpu.py: compiled for the CPU of this process, run on the
 * caller's arrays.
 *
 * A program is compiled once; a run binds it to inputs and may be timed again and again.  The clock
 * stands here, around the stages and nothing else, so that the caller's language does not count.
 * Every function answers 0, or a status whose words bench_host_error has. */
#include <stdlib.h>
#include <time.h>

#include "codegen/codegen.h"
#include "frontend/frontend.h"
#include "ir/compare.h"
#include "passes/explain.h"
#include "passes/pass.h"
#include "runtime/plan.h"

typedef struct host_program {
  ir_arena *arena;
  ir_sink *sink;
  ir_image *image;
  rt_plan *plan;
  rt_pool *pool;
  int64_t *sizes;
  double pass_ms, code_ms; /* front end and passes; code generation */
} host_program;

typedef struct host_run {
  host_program *program;
  ir_arena *arena, *arena_of_result; /* the latter: of the last whole run */
  ir_bindings inputs, results;
  rt_run *run;
  double once; /* seconds: stages that depend on const inputs alone, made before runs are timed */
  bool fresh; /* results of computed pattern: every repetition is a whole run with its own memory */
} host_run;

/* The symbols that Python calls. */
host_program *bench_host_new(void);
int bench_host_compile(host_program *p, const char *text, int count, const char *const *names,
                       const int64_t *values, int threads, const char *mcpu);
const char *bench_host_line(host_program *p);
const char *bench_host_error(host_program *p);
double bench_host_milliseconds(const host_program *p, int which);
void bench_host_free(host_program *p);
host_run *bench_run_new(host_program *p);
int bench_run_bind(host_run *r, const char *tensor, const int64_t *dims, int arrays,
                   void *const *data, const int64_t *counts);
int bench_run_prepare(host_run *r);
double bench_run_once(const host_run *r);
int bench_run_poison(host_run *r);
int bench_run_time(host_run *r, double *seconds);
int bench_run_result(host_run *r, const char *tensor, int arrays, void **data, int64_t *counts);
const char *bench_run_stages(host_run *r);
void bench_run_free(host_run *r);
double bench_host_rtol(const char *dtype, int64_t length);

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- programs ---------------------------------------------------------------------------------
 */
host_program *bench_host_new(void) {
  host_program *p = calloc(1, sizeof *p);
  if (!p) return NULL;
  p->arena = ir_arena_new();
  p->sink = ir_sink_new(p->arena);
  return p;
}

int bench_host_compile(host_program *p, const char *text, int count, const char *const *names,
                       const int64_t *values, int threads, const char *mcpu) {
  fe_options none = {0};
  ir_program *program;
  if (!cg_cpu_available()) return SPC_UNAVAILABLE;
  double begin = now();
  SPC_TRY(fe_compile(p->arena, "bench.spx", text, strlen(text), &none, p->sink, &program));
  p->sizes = IR_NEW_ARRAY(p->arena, int64_t, program->dims.count + 1);
  for (int d = 0; d < program->dims.count; d++) {
    p->sizes[d] = program->dims.at[d]->value;
    for (int i = 0; i < count; i++)
      if (!strcmp(program->dims.at[d]->name, names[i])) p->sizes[d] = values[i];
  }
  ir_target *target = IR_NEW(p->arena, ir_target); /* with the vectors of this machine */
  *target = *ir_target_find("cpu");
  target->vector_bits = cg_cpu_vector_bits(mcpu);
  cg_options code = {.target = target, .mcpu = mcpu};
  pass_options options = {.target = code.target, .sizes = p->sizes};
  SPC_TRY(pass_pipeline(program, &options, p->sink));
  double middle = now();
  SPC_TRY(cg_cpu_compile(p->arena, program->kernels.at[0], &code, p->sink, &p->image));
  p->pass_ms = 1e3 * (middle - begin);
  p->code_ms = 1e3 * (now() - middle);
  if (threads != 1) p->pool = rt_pool_new(threads);
  rt_plan_options plan = {.pool = p->pool};
  return rt_plan_new(p->image, p->sizes, &plan, p->sink, &p->plan);
}

/* What was chosen, in one line. */
const char *bench_host_line(host_program *p) {
  ir_text text = ir_text_new(p->arena);
  pass_explain_line(p->image->kernel->program, p->image->kernel, &text);
  return text.data;
}

const char *bench_host_error(host_program *p) {
  ir_text text = ir_text_new(p->arena);
  ir_sink_render(p->sink, &text, false);
  return text.data ? text.data : cg_cpu_version();
}

double bench_host_milliseconds(const host_program *p, int which) {
  return which ? p->code_ms : p->pass_ms;
}

void bench_host_free(host_program *p) {
  if (!p) return;
  rt_plan_free(p->plan);
  rt_pool_free(p->pool);
  if (p->image && p->image->release) p->image->release(p->image->owner);
  ir_arena_free(p->arena);
  free(p);
}

/* ---- runs -------------------------------------------------------------------------------------
 */
host_run *bench_run_new(host_program *p) {
  host_run *r = calloc(1, sizeof *r);
  if (!r) return NULL;
  r->program = p;
  r->arena = ir_arena_new();
  for (int i = 0; i < p->image->kernel->stages.count; i++) {
    const ir_stage *stage = p->image->kernel->stages.at[i];
    r->fresh |= stage->assembled || stage->kind == IR_STAGE_CONVERT;
  }
  return r;
}

/* The arrays of a tensor in the order of docs/formats.md: of each level positions, then coordinates
 * where it has them, then values; in the shape that callers know.  The caller keeps them. */
static void fill_view(const ir_tensor *tensor, const int64_t *dims, int arrays, void *const *data,
                      const int64_t *counts, ir_view *view) {
  int next = 0;
  tensor = ir_declared(tensor);
  *view = (ir_view){.dtype = tensor->dtype, .rank = tensor->rank, .format = tensor->format};
  for (int d = 0; d < tensor->rank; d++) view->dim[d] = dims[d];
  for (int l = 0; tensor->format && l < tensor->format->level_count; l++) {
    const ir_level_row *row = &ir_level_rows[tensor->format->level[l].kind];
    bool bytes = row->crd == IR_ARRAY_BITS || row->crd == IR_ARRAY_POSITIONS;
    if (row->pos != IR_ARRAY_NONE && next < arrays) {
      view->pos[l] = (ir_array){data[next], counts[next], IR_I32};
      next++;
    }
    if (row->crd != IR_ARRAY_NONE && next < arrays) {
      view->crd[l] = (ir_array){data[next], counts[next], bytes ? IR_U8 : IR_I32};
      next++;
    }
  }
  if (next < arrays) view->vals = (ir_array){data[next], counts[next], tensor->dtype};
}

int bench_run_bind(host_run *r, const char *tensor, const int64_t *dims, int arrays,
                   void *const *data, const int64_t *counts) {
  ir_tensor *found = ir_tensor_named(r->program->image->kernel, tensor);
  ir_binding binding = {.tensor = found};
  const char *why = "";
  if (!found) return SPC_INVALID_ARGUMENT;
  fill_view(found, dims, arrays, data, counts, &binding.view);
  if (ir_view_check(r->arena, &binding.view, &why)) {
    ir_diag_add(r->program->sink, IR_DIAG_STORAGE, IR_NOWHERE, "`%s`: %s", tensor, why);
    return SPC_INVALID_INPUT;
  }
  IR_PUSH(r->arena, &r->inputs.list, binding);
  return SPC_OK;
}

static bool makes_once(const host_run *r) {
  const ir_kernel *kernel = r->program->image->kernel;
  for (int i = 0; i < kernel->stages.count; i++)
    if (kernel->stages.at[i]->once) return true;
  return false;
}

/* As an engine does by spc_plan_pack; timed by itself. */
static spc_status make_once(host_run *r) {
  if (!makes_once(r)) return SPC_OK;
  rt_run_take(r->run, RT_ONCE);
  double begin = now();
  spc_status status = rt_run_enqueue(r->run, NULL, NULL);
  r->once = now() - begin;
  rt_run_take(r->run, RT_EVERY_RUN);
  return status;
}

int bench_run_prepare(host_run *r) {
  if (r->fresh) return SPC_OK;
  host_program *p = r->program;
  SPC_TRY(rt_run_new(p->plan, r->arena, &r->inputs, p->sink, &r->run));
  SPC_TRY(rt_run_prepare(r->run));
  SPC_TRY(rt_run_enqueue(r->run, NULL, NULL)); /* memory is there from now on */
  SPC_TRY(make_once(r));
  return rt_run_fetch(r->run, &r->results, NULL);
}

double bench_run_once(const host_run *r) { return r->once; }

/* Every value of every result: 0xff bytes are a NaN in each float. */
int bench_run_poison(host_run *r) {
  for (int i = 0; !r->fresh && i < r->results.list.count; i++) {
    const ir_array *vals = &r->results.list.at[i].view.vals;
    memset(vals->data, 0xff, (size_t)vals->count * ir_dtype_bytes(vals->dtype));
  }
  return SPC_OK;
}

static spc_status whole_run(host_run *r, double *seconds) {
  host_program *p = r->program;
  ir_bindings all = {0};
  if (r->arena_of_result) ir_arena_free(r->arena_of_result);
  r->arena_of_result = ir_arena_new();
  for (int i = 0; i < r->inputs.list.count; i++)
    IR_PUSH(r->arena_of_result, &all.list, r->inputs.list.at[i]);
  double begin = now();
  spc_status status = rt_plan_run(p->plan, r->arena_of_result, &all, NULL, p->sink);
  *seconds = now() - begin;
  r->results = all;
  return status;
}

int bench_run_time(host_run *r, double *seconds) {
  if (r->fresh) return whole_run(r, seconds);
  double begin = now();
  spc_status status = rt_run_enqueue(r->run, NULL, NULL);
  *seconds = now() - begin;
  return status;
}

/* The arrays of a result, in the order of bench_run_bind; returns their number, -1: no such. */
int bench_run_result(host_run *r, const char *tensor, int arrays, void **data, int64_t *counts) {
  int next = 0;
  for (int i = 0; i < r->results.list.count; i++) {
    const ir_binding *b = &r->results.list.at[i];
    if (strcmp(b->tensor->name, tensor)) continue;
    for (int l = 0; b->view.format && l < b->view.format->level_count; l++) {
      const ir_array *both[2] = {&b->view.pos[l], &b->view.crd[l]};
      for (int k = 0; k < 2; k++)
        if (both[k]->data && next < arrays) {
          data[next] = both[k]->data;
          counts[next++] = both[k]->count;
        }
    }
    if (next < arrays) {
      data[next] = b->view.vals.data;
      counts[next++] = b->view.vals.count;
    }
    return next;
  }
  return -1;
}

/* One more run, stage by stage: "name kernel ran cover milliseconds" a line. */
const char *bench_run_stages(host_run *r) {
  rt_stats stats = {0};
  ir_bindings all = {0};
  ir_text text = ir_text_new(r->arena);
  for (int i = 0; i < r->inputs.list.count; i++) IR_PUSH(r->arena, &all.list, r->inputs.list.at[i]);
  if (rt_plan_run(r->program->plan, r->arena, &all, &stats, r->program->sink)) return "";
  for (int i = 0; i < stats.stages.count; i++) {
    const rt_stage_stats *s = &stats.stages.at[i];
    ir_text_printf(&text, "%s %s %d %.6f %.6f\n", s->stage, s->kernel ? s->kernel : "convert",
                   s->ran, s->cover, s->milliseconds);
  }
  return text.data ? text.data : "";
}

void bench_run_free(host_run *r) {
  if (!r) return;
  rt_run_free(r->run);
  if (r->arena_of_result) ir_arena_free(r->arena_of_result);
  ir_arena_free(r->arena);
  free(r);
}

double bench_host_rtol(const char *dtype, int64_t length) {
  ir_dtype t = ir_dtype_find(dtype);
  return ir_tolerance(t, t, length);
}
