/* library.c - dense products that cuBLASLt computes, pinned by `library y`, against the reference.
 *
 * Every array is poisoned and fenced; sizes are those that the library takes and those that it may
 * refuse (then what stands in has to be right).  The first call of all is captured into a graph.
 * Exit 77 where there is no GPU or no library. */
#include <math.h>
#include <stdlib.h>

#include "codegen/codegen.h"
#include "frontend/frontend.h"
#include "ir/compare.h"
#include "ir/interp.h"
#include "passes/pass.h"
#include "runtime/cublaslt.h"
#include "runtime/plan.h"

typedef struct product {
  const char *name, *inputs, *result;
} product;

/* dims: G batches, T rows, D summed, O columns */
static const product products[] = {
    {"bf16", "in x: bf16[T,D]; in w: bf16[D,O];", "y[t,o] = sum[d] x[t,d]*w[d,o] : bf16 acc f32"},
    {"bf16, W [n][k]", "in x: bf16[T,D]; in w: bf16[O,D];",
     "y[t,o] = sum[d] x[t,d]*w[o,d] : bf16 acc f32"},
    {"bf16, A [k][m]", "in x: bf16[D,T]; in w: bf16[D,O];",
     "y[t,o] = sum[d] x[d,t]*w[d,o] : bf16 acc f32"},
    {"bf16, both", "in x: bf16[D,T]; in w: bf16[O,D];",
     "y[t,o] = sum[d] x[d,t]*w[o,d] : bf16 acc f32"},
    {"bf16 to dense_t", "in x: bf16[T,D]; in w: bf16[D,O];",
     "y[t,o] = sum[d] x[t,d]*w[d,o] : bf16 acc f32 as dense_t"},
    {"bf16 to f32", "in x: bf16[T,D]; in w: bf16[D,O];",
     "y[t,o] = sum[d] x[t,d]*w[d,o] : f32 acc f32"},
    {"f16", "in x: f16[T,D]; in w: f16[D,O];", "y[t,o] = sum[d] x[t,d]*w[d,o] : f16 acc f32"},
    {"f32", "in x: f32[T,D]; in w: f32[D,O];", "y[t,o] = sum[d] x[t,d]*w[d,o]"},
    {"f64", "in x: f64[T,D]; in w: f64[D,O];", "y[t,o] = sum[d] x[t,d]*w[d,o]"},
    {"i8", "in x: i8[T,D]; in w: i8[O,D];", "y[t,o] = sum[d] x[t,d]*w[o,d] : i32"},
    {"scaled", "in x: f32[T,D]; in w: f32[D,O];", "y[t,o] = -0.25*sum[d] x[t,d]*w[d,o]"},
    {"bias", "in x: bf16[T,D]; in w: bf16[O,D]; in b: bf16[O];",
     "y[t,o] = b[o] + sum[d] x[t,d]*w[o,d] : bf16 acc f32"},
    {"relu", "in x: bf16[T,D]; in w: bf16[O,D];",
     "y[t,o] = relu(sum[d] x[t,d]*w[o,d]) : bf16 acc f32"},
    {"bias, relu, f32", "in x: f32[T,D]; in w: f32[D,O]; in b: f32[O];",
     "y[t,o] = relu(b[o] + sum[d] x[t,d]*w[d,o])"},
    {"residual", "in x: bf16[T,D]; in w: bf16[D,O]; in r: bf16[T,O];",
     "y[t,o] = r[t,o] + sum[d] x[t,d]*w[d,o] : bf16 acc f32"},
    {"all of it", "in x: f16[T,D]; in w: f16[D,O]; in b: f16[O]; in r: f16[T,O];",
     "y[t,o] = relu(b[o] + 0.5*sum[d] x[t,d]*w[d,o] + r[t,o]) : f16 acc f32"},
    {"batches", "in x: bf16[G,T,D]; in w: bf16[G,D,O];",
     "y[g,t,o] = sum[d] x[g,t,d]*w[g,d,o] : bf16 acc f32"},
    {"batches between", "in x: f32[T,G,D]; in w: f32[D,G,O];",
     "y[t,g,o] = sum[d] x[t,g,d]*w[d,g,o]"},
};

static const int64_t shapes[][4] = {/* G, T, D, O; the first is one that the library takes */
                                    {3, 96, 64, 160}, {1, 1, 256, 128}, {2, 33, 51, 77},
                                    {2, 200, 1, 8},   {1, 5, 3, 1},     {2, 64, 0, 64}};

typedef struct tester {
  rt_cuda *cuda;
  ir_arena *arena;
  ir_sink *sink;
  uint64_t random;
  int checks, failures;
} tester;

static void check(tester *t, bool good, const char *test, const char *what) {
  t->checks++;
  if (good) return;
  t->failures++;
  ir_text text = ir_text_new(t->arena);
  ir_sink_render(t->sink, &text, false);
  printf("FAIL %s: %s\n%s", test, what, text.data ? text.data : "");
}

static double uniform(tester *t) {
  t->random = t->random * 6364136223846793005u + 1442695040888963407u;
  return (double)(t->random >> 11) / 4503599627370496.0 - 1;
}

/* ---- one program ----------------------------------------------------------------------------- */
typedef struct compiled {
  ir_program *program;
  const ir_kernel *kernel;
  ir_image *image;
} compiled;

static bool compile(tester *t, const product *p, compiled *c) {
  const char *text = ir_format_text(
      t->arena,
      "spx 1;\ndim G: dyn; dim T: dyn; dim D: dyn; dim O: dyn;\nkernel k { %s out %s; }\n"
      "schedule k { library y; }\n",
      p->inputs, p->result);
  fe_options none = {0};
  pass_options options = {.target = ir_target_find(rt_cuda_arch(t->cuda)),
                          .library_missing = rt_cublaslt_missing,
                          .verify_each = true};
  cg_options code = {.target = options.target};
  spc_status status =
      fe_compile(t->arena, "product.spx", text, strlen(text), &none, t->sink, &c->program);
  if (!status) status = pass_pipeline(c->program, &options, t->sink);
  if (status) return false;
  c->kernel = c->program->kernels.at[0];
  return !cg_cuda_compile(t->arena, c->kernel, &code, t->sink, &c->image);
}

static void bind(tester *t, const compiled *c, const int64_t *sizes, bool nan, ir_bindings *out) {
  for (int i = 0; i < c->kernel->tensors.count; i++) {
    ir_tensor *tensor = c->kernel->tensors.at[i];
    if (tensor->role != IR_ROLE_IN) continue;
    int64_t count = 1;
    ir_binding b = {.tensor = tensor};
    b.view = (ir_view){.dtype = tensor->dtype, .rank = tensor->rank, .format = tensor->format};
    for (int d = 0; d < tensor->rank; d++) {
      if (!ir_size_value(tensor->dim[d], sizes, &b.view.dim[d])) exit(3);
      count *= b.view.dim[d];
    }
    void *values = ir_alloc(t->arena, (size_t)(count + 1) * 8);
    for (int64_t e = 0; e < count; e++)
      ir_dtype_store(tensor->dtype, values, e,
                     tensor->dtype == IR_I8 ? floor(127 * uniform(t)) : uniform(t));
    if (nan && !strcmp(tensor->name, "x") && count) ir_dtype_store(tensor->dtype, values, 0, NAN);
    b.view.vals = (ir_array){values, count, tensor->dtype};
    IR_PUSH(t->arena, &out->list, b);
  }
}

static const ir_view *result_of(const ir_bindings *bindings) {
  for (int i = 0; i < bindings->list.count; i++)
    if (!strcmp(bindings->list.at[i].tensor->name, "y")) return &bindings->list.at[i].view;
  return NULL;
}

static void compare(tester *t, const compiled *c, const int64_t *sizes, const ir_bindings *inputs,
                    const ir_bindings *got, const char *test) {
  ir_bindings want = {0};
  ir_interp_options options = {.strict_nan = true};
  ir_compare_result result;
  for (int i = 0; i < inputs->list.count; i++) IR_PUSH(t->arena, &want.list, inputs->list.at[i]);
  if (ir_interp_ein(t->arena, c->kernel, sizes, &want, &options, t->sink)) {
    check(t, false, test, "the interpreter failed");
    return;
  }
  bool good = result_of(got) && !ir_compare(result_of(got), result_of(&want), 0, 0, &result);
  check(t, good, test, result_of(got) ? ir_compare_text(t->arena, &result) : "there is no result");
}

/* Calls of the library that were settled by then. */
static int64_t settled(const tester *t) { return rt_cuda_count(t->cuda)->library_settled; }

static void run_shape(tester *t, const product *p, const compiled *c, int shape, bool nan) {
  const int64_t *sizes = shapes[shape];
  const char *test = ir_format_text(t->arena, "%s, shape %d%s", p->name, shape, nan ? ", NaN" : "");
  rt_plan_options options = {.cuda = t->cuda, .fenced = true};
  ir_bindings inputs = {0}, first = {0}, got = {0};
  rt_stats stats = {0};
  rt_plan *plan = NULL;
  int64_t before = 0;
  bind(t, c, sizes, nan, &inputs);
  for (int i = 0; i < inputs.list.count; i++) IR_PUSH(t->arena, &got.list, inputs.list.at[i]);
  for (int i = 0; i < inputs.list.count; i++) IR_PUSH(t->arena, &first.list, inputs.list.at[i]);
  spc_status status = rt_plan_new(c->image, sizes, &options, t->sink, &plan);
  if (!status) status = rt_plan_run(plan, t->arena, &first, &stats, t->sink);
  before = settled(t);
  if (!status) status = rt_plan_run(plan, t->arena, &got, &stats, t->sink);
  if (shape == 0) check(t, settled(t) == before, test, "a second run settled the call again");
  rt_plan_free(plan);
  check(t, !status, test, "the run failed");
  if (status) return;
  const char *ran = stats.stages.at[0].kernel;
  if (shape == 0) check(t, !strcmp(ran, "cuBLASLt"), test, "the library did not run");
  if (!nan) printf("%-28s %s\n", test, ran);
  compare(t, c, sizes, &inputs, &got, test);
}

/* The first call that this process makes is captured; its replay is what is checked. */
static void graph(tester *t, const product *p) {
  const int64_t *sizes = shapes[0];
  rt_plan_options options = {.cuda = t->cuda, .fenced = true};
  ir_bindings inputs = {0}, got = {0};
  rt_plan *plan = NULL;
  rt_run *run = NULL;
  void *stream = NULL, *exec = NULL;
  compiled c;
  if (!compile(t, p, &c)) {
    check(t, false, "graph", "compiling");
    return;
  }
  bind(t, &c, sizes, false, &inputs);
  spc_status status = rt_cuda_stream_new(t->cuda, &stream);
  if (!status) status = rt_plan_new(c.image, sizes, &options, t->sink, &plan);
  if (!status) status = rt_run_new(plan, t->arena, &inputs, t->sink, &run);
  if (!status) status = rt_run_prepare(run);
  check(t, !status, "graph", "preparing");
  int64_t allocations = rt_cuda_count(t->cuda)->allocations;
  if (!status) status = rt_cuda_capture_begin(t->cuda, stream);
  if (!status) status = rt_run_enqueue(run, stream, NULL);
  if (!status) status = rt_cuda_capture_end(t->cuda, stream, &exec);
  check(t, !status, "graph", rt_cuda_error(t->cuda));
  for (int i = 0; !status && i < 3; i++) status = rt_cuda_graph_launch(t->cuda, exec, stream);
  if (!status) status = rt_run_fetch(run, &got, NULL);
  check(t, !status, "graph", "replaying");
  check(t, rt_cuda_count(t->cuda)->allocations == allocations, "graph", "it allocated");
  if (!status) compare(t, &c, sizes, &inputs, &got, "graph");
  rt_run_free(run);
  rt_plan_free(plan);
  rt_cuda_graph_free(t->cuda, exec);
  rt_cuda_stream_free(t->cuda, stream);
}

int main(void) {
  tester t = {.arena = ir_arena_new(), .random = 5};
  const char *why = "";
  t.sink = ir_sink_new(t.arena);
  if (rt_cuda_open(&t.cuda, &why) || (why = rt_cublaslt_missing())) {
    printf("skipped: %s\n", why);
    return 77;
  }
  graph(&t, &products[0]);
  for (int p = 0; p < IR_COUNT(products); p++) {
    compiled c;
    bool good = compile(&t, &products[p], &c);
    check(&t, good, products[p].name, "compiling");
    for (int s = 0; good && s < IR_COUNT(shapes); s++) run_shape(&t, &products[p], &c, s, false);
    if (good && strstr(products[p].result, "relu")) run_shape(&t, &products[p], &c, 0, true);
  }
  rt_cuda_close(t.cuda);
  ir_arena_free(t.arena);
  printf("%d passed, %d failed\n", t.checks - t.failures, t.failures);
  return t.failures != 0;
}
