/* plan.c - whole plans on a GPU: feed-forward layers whose zeros are made at run time.
 *
 * x is the identity, so that h = relu(W1) holds exactly the mask that a case wants; y is checked
 * against float64.  In the gated layer h says where the product with W3 is computed. Every array is
 * poisoned and fenced, the stream is not the default one,
 * enqueueing is held to launches alone, a captured graph is replayed on other masks, a thousand times for some of
 * them, two threads run plans of their own.
 *
 * Usage: gpu-plan [few | several] [small | bare]
 *   few      layers of few rows alone; several: of those the ones that are several tiles of rows
 *   small    for compute-sanitizer
 *   bare     the same without poison and fences: initcheck sees what is not written.  It takes what the copy engine stores
 *          for unwritten (so a kernel of one such store shows), which leaves out sizes whose results go by box */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "codegen/codegen.h"
#include "frontend/frontend.h"
#include "ir/kernels.h"
#include "passes/cost.h"
#include "passes/pass.h"
#include "runtime/plan.h"

enum { REPLAYS = 5, MANY_REPLAYS = 1000, FEW_REPLAYS = 20 }; /* few: where the device is emulated, or watched */

/* GATED_F8: the gate is a product of 8-bit floats; FEW: few rows, whose kernels look at zeros themselves; JOINED: and two of
 * them are one launch; SEVERAL: of several tiles of rows, with a dense branch; EIGHTS: and what they leave lies
 * column by column; ROWS: lists of rows that hold anything; KROWS: of the rows that do in each block of k */
typedef enum kind { RELU, GATED, GATED_LOW, GATED_F8, REGROUPED, ROWS, KROWS, FEW, JOINED, SEVERAL, EIGHTS } kind;

#define RELU_LAYER(GRAN) RELU_KEPT("0.02..0.15", GRAN)
#define RELU_KEPT(DENSITY, GRAN)                                                                   \
  "spx 1;\ndim T: dyn; dim D: dyn; dim F: dyn; dim O: dyn;\n"                                       \
  "kernel k {\n  in x: bf16[T,D]; in W1: bf16[D,F]; in W2: bf16[F,O];\n"                           \
  "  let h[t,f] = relu(sum[d] x[t,d]*W1[d,f]) : bf16 acc f32 ~ zeros(dynamic, "                    \
  "density=" DENSITY GRAN ");\n"                                                                   \
  "  out y[t,o] = sum[f] h[t,f]*W2[f,o] : bf16 acc f32;\n}\n"

#define RELU_TEXT RELU_LAYER("")

#define GATED_LAYER(LAYOUT) GATED_ROWS("", LAYOUT, "0.02..0.15")
#define GATED_ROWS(STEP, LAYOUT, DENSITY)                                                                   \
  "spx 1;\ndim T: dyn" STEP "; dim D: dyn; dim F: dyn; dim O: dyn;\n"                                       \
  "kernel k {\n  in x: bf16[T,D]; in W1: bf16[D,F]" LAYOUT "; in W2: bf16[F,O]; in W3: bf16[D,F] as " \
  "dense_t;\n"                                                                                     \
  "  let h[t,f] = relu(sum[d] x[t,d]*W1[d,f]) : bf16 acc f32 ~ zeros(dynamic, "                    \
  "density=" DENSITY ");\n"                                                                         \
  "  let u[t,f] = sum[d] x[t,d]*W3[d,f] on h[t,f] : bf16 acc f32;\n"                               \
  "  out y[t,o] = sum[f] h[t,f]*u[t,f]*W2[f,o] : bf16 acc f32;\n}\n"

#define GATED_TEXT GATED_LAYER("")

/* x8 is x; scales are powers of two, so that h is exact. */
#define GATED_F8_TEXT                                                                              \
  "spx 1;\ndim T: dyn; dim D: dyn; dim F: dyn; dim O: dyn;\n"                                       \
  "kernel k {\n  in x: bf16[T,D]; in x8: f8e4m3[T,D]; in W1: f8e4m3[F,D]; in sx: f32[T]; in sw: f32[F];\n" \
  "  in W2: bf16[F,O]; in W3: bf16[D,F] as dense_t;\n"                                             \
  "  let h[t,f] = relu((sum[d] x8[t,d]*W1[f,d])*sx[t]*sw[f]) : bf16 acc f32 ~ zeros(dynamic, density=0.02..0.15);\n" \
  "  let u[t,f] = sum[d] x[t,d]*W3[d,f] on h[t,f] : bf16 acc f32;\n"                               \
  "  out y[t,o] = sum[f] h[t,f]*u[t,f]*W2[f,o] : bf16 acc f32;\n}\n"

static const char *const texts[] = {RELU_TEXT "schedule k { compact h axis=f gran=128x1; }\n",
                                    GATED_TEXT "schedule k { compact h axis=f gran=128x1; }\n",
                                    GATED_TEXT "schedule k { compact h axis=f gran=64x1; }\n",
                                    GATED_F8_TEXT "schedule k { compact h axis=f gran=64x1; }\n",
                                    RELU_KEPT("0.05", ", gran=1x64") "schedule k { regroup y; }\n",
                                    RELU_TEXT "schedule k { regroup y; }\n",
                                    RELU_KEPT("0.02", ", gran=1x64") "schedule k { tile y t=512 o=64 f=64; }\n",
                                    GATED_TEXT, GATED_LAYER(" as dense_t"),
                                    GATED_ROWS("", " as dense_t", "0.005"), GATED_ROWS(" % 8", " as dense_t", "0.005")};

typedef enum mask { EMPTY, ONE, ONE_PERCENT, HALF, FULL, STRIP, KINDS } mask;
static const char *const mask_names[] = {"empty", "one element", "1 %",
                                         "50 %",  "full",        "one full strip", "rows of three kinds"};

typedef struct layer { /* one thread's plan and data */
  rt_cuda *cuda;
  ir_arena *arena;
  ir_sink *sink;
  ir_image *image;
  const ir_kernel *kernel;
  int64_t size[5]; /* T, D, F, O */
  uint16_t *x, *w2, *w3;
  void *w1;                     /* of `gate` */
  unsigned char *x8;            /* beside a gate of 8 bits: x, and scales that are 2 and 1/4 */
  float *sx, *sw;
  ir_dtype gate;
  double *want, *bound; /* y, and how far from it an element may be */
  ir_bindings inputs;
  uint64_t random;
  int checks, failures;
  bool bare, gated;
  bool turned; /* w1 lies [F][D] */
  bool undecided; /* another kernel stands in for the one that decides: it is dense, whatever is meant */
} layer;

static double uniform(layer *l) {
  l->random = l->random * 6364136223846793005u + 1442695040888963407u;
  return (double)(l->random >> 11) / 9007199254740992.0;
}

static void check(layer *l, bool good, const char *test, const char *what) {
  l->checks++;
  if (good) return;
  if (l->failures++ < 20) printf("FAIL %s: %s\n", test, what);
}

static void must(layer *l, spc_status status, const char *what) {
  if (!status) return;
  ir_text text = ir_text_new(l->arena);
  ir_sink_render(l->sink, &text, false);
  printf("FAIL %s: status %d, driver: %s\n%s\n", what, status, rt_cuda_error(l->cuda),
         text.data ? text.data : "");
  exit(3);
}

/* ---- data ------------------------------------------------------------------------------------ */
static void fill_input(layer *l, const char *name, void *values, int64_t rows, int64_t columns) {
  ir_binding b = {.tensor = ir_tensor_named(l->kernel, name)};
  ir_dtype t = b.tensor->dtype;
  b.view =
      (ir_view){.dtype = t, .rank = b.tensor->rank, .format = b.tensor->format, .dim = {rows, columns}};
  b.view.vals = (ir_array){values, rows * columns, t};
  IR_PUSH(l->arena, &l->inputs.list, b);
}

/* Where the gate's weight of a token and a neuron lies, and what the gate lets through there. */
static int64_t gate_place(const layer *l, int64_t t, int64_t f) {
  return l->turned ? f * l->size[1] + t : t * l->size[2] + f;
}
static double gate_value(const layer *l, int64_t t, int64_t f) {
  double value = fmax(0, ir_dtype_load(l->gate, l->w1, gate_place(l, t, f)));
  return l->sx ? value * l->sx[t] * l->sw[f] : value;
}

static bool is_kept(layer *l, mask m, int64_t t, int64_t f) {
  switch (m) {
  case EMPTY: return false;
  case ONE: return t == l->size[0] / 2 && f == l->size[2] / 3;
  case ONE_PERCENT: return uniform(l) < 0.01;
  case HALF: return uniform(l) < 0.5;
  case FULL: return true;
  case STRIP: return t < 128;
  case KINDS: return t % 3 == f * 3 / l->size[2];
  }
  return false;
}

/* W1 of a mask, and what y must be. */
static void fill_mask(layer *l, mask m) {
  int64_t T = l->size[0], F = l->size[2], O = l->size[3];
  memset(l->want, 0, sizeof(double) * (size_t)(T * O));
  memset(l->bound, 0, sizeof(double) * (size_t)(T * O));
  for (int64_t t = 0; t < T; t++)
    for (int64_t f = 0; f < F; f++) {
      double value = is_kept(l, m, t, f) ? 0.25 + uniform(l) : -uniform(l);
      ir_dtype_store(l->gate, l->w1, gate_place(l, t, f), value);
      double h = gate_value(l, t, f);
      double u = l->gated ? ir_dtype_load(IR_BF16, l->w3, f * l->size[1] + t) : 1;
      double rounded = l->gated ? 1.01 * ir_dtype_epsilon(IR_BF16) : 0; /* h*u is stored */
      for (int64_t o = 0; h > 0 && o < O; o++) {
        double product = h * u * ir_dtype_load(IR_BF16, l->w2, f * O + o);
        l->want[t * O + o] += product;
        l->bound[t * O + o] += (4e-6 + rounded) * fabs(product);
      }
    }
}

static void check_result(layer *l, const char *test, const ir_bindings *outputs) {
  const ir_view *y = &outputs->list.at[0].view;
  for (int64_t i = 0; i < l->size[0] * l->size[3]; i++) {
    double got = ir_dtype_load(IR_BF16, y->vals.data, i);
    bool close = fabs(got - l->want[i]) <=
                 l->bound[i] + 1.01 * ir_dtype_epsilon(IR_BF16) * fabs(l->want[i]) + 1e-7;
    if (close) continue;
    check(l, false, test,
          ir_format_text(l->arena, "y at %lld is %g, expected %g", (long long)i, got, l->want[i]));
    return;
  }
  check(l, true, test, "y");
}

/* ---- compiling ------------------------------------------------------------------------------- */
/* With rows that are multiples of 16 bytes and with others; FRONT: so many that a sample is taken of them. */
enum { ODD, ODD_SMALL, EVEN, EVEN_SMALL, FEW_ODD, FEW_EVEN, FEW_ONE, SEVERAL_ODD, SEVERAL_EVEN, NO_BOXES, FRONT };
static const int64_t layer_sizes[][4] = {
    {300, 300, 700, 136}, {140, 140, 200, 40}, {304, 304, 1000, 136}, {136, 136, 200, 40},
    {7, 9, 700, 137},    {40, 64, 1000, 136},  {1, 8, 4000, 72},   {37, 41, 700, 137}, {61, 72, 5000, 264},
    {140, 140, 203, 41}, {512, 512, 2048, 136}};

/* What a gate of 8 bits has beside its weights. */
static void fill_scaled(layer *l) {
  int64_t T = l->size[0], D = l->size[1], F = l->size[2];
  l->x8 = IR_NEW_ARRAY(l->arena, unsigned char, T * D);
  l->sx = IR_NEW_ARRAY(l->arena, float, T);
  l->sw = IR_NEW_ARRAY(l->arena, float, F);
  for (int64_t t = 0; t < T; t++) ir_dtype_store(IR_F8E4M3, l->x8, t * D + t, 1);
  for (int64_t t = 0; t < T; t++) l->sx[t] = t % 2 ? 2 : 0.25f;
  for (int64_t f = 0; f < F; f++) l->sw[f] = f % 3 ? 0.25f : 2;
  fill_input(l, "x8", l->x8, T, D);
  fill_input(l, "sx", l->sx, T, 1);
  fill_input(l, "sw", l->sw, F, 1);
}

static void layer_new(layer *l, uint64_t seed, int which, kind k, bool bare) {
  const char *why = "", *text = texts[k];
  bool gated = k != RELU && k != REGROUPED && k != ROWS && k != KROWS;
  *l = (layer){.arena = ir_arena_new(), .random = seed, .bare = bare, .gated = gated, .turned = k >= JOINED || k == GATED_F8,
               .gate = k == GATED_F8 ? IR_F8E4M3 : IR_BF16};
  l->sink = ir_sink_new(l->arena);
  memcpy(l->size, layer_sizes[which], sizeof layer_sizes[which]);
  l->undecided = k == KROWS && l->size[2] % 8 != 0;
  if (rt_cuda_open(&l->cuda, &why)) {
    printf("skipped: %s\n", why);
    exit(77);
  }
  ir_program *program;
  fe_options none = {0};
  /* As kernels are chosen for a large layer: those that move boxes. */
  static const int64_t large[] = {16384, 2048, 5632, 2048}, few[] = {4, 2048, 5632, 2048}, several[] = {16, 2048, 5632, 2048}, eights[] = {64, 2048, 5632, 2048}, ordered[] = {4096, 1024, 8192, 2048};
  pass_options options = {.target = ir_target_find(rt_cuda_arch(l->cuda)),
                          .verify_each = true,
                          .sizes = k == EIGHTS ? eights : k == SEVERAL ? several : k >= FEW ? few : gated ? large : k == REGROUPED || k == KROWS ? ordered : NULL};
  cg_options code = {.target = options.target};
  pass_profile short_fronts = *pass_profile_of(l->arena, options.target);
  short_fronts.front_us = 0.01;
  if (which == FRONT) options.profile = &short_fronts;
  must(l,
       fe_compile(l->arena, "layer.spx", text, strlen(text), &none, l->sink, &program),
       "the program");
  must(l, pass_pipeline(program, &options, l->sink), "the passes");
  must(l, cg_cuda_compile(l->arena, program->kernels.at[0], &code, l->sink, &l->image),
       "compiling");
  l->kernel = program->kernels.at[0];
  int64_t T = l->size[0], D = l->size[1], F = l->size[2], O = l->size[3];
  l->x = IR_NEW_ARRAY(l->arena, uint16_t, T * D);
  l->w1 = IR_NEW_ARRAY(l->arena, uint16_t, D * F);
  l->w2 = IR_NEW_ARRAY(l->arena, uint16_t, F * O);
  l->w3 = IR_NEW_ARRAY(l->arena, uint16_t, F * D);
  l->want = IR_NEW_ARRAY(l->arena, double, T *O);
  l->bound = IR_NEW_ARRAY(l->arena, double, T *O);
  for (int64_t t = 0; t < T; t++) ir_dtype_store(IR_BF16, l->x, t * D + t, 1);
  for (int64_t i = 0; i < F * O; i++) ir_dtype_store(IR_BF16, l->w2, i, 2 * uniform(l) - 1);
  for (int64_t i = 0; i < F * D; i++) ir_dtype_store(IR_BF16, l->w3, i, 2 * uniform(l) - 1);
  fill_input(l, "x", l->x, T, D);
  fill_input(l, "W1", l->w1, k == GATED_F8 ? F : D, k == GATED_F8 ? D : F);
  fill_input(l, "W2", l->w2, F, O);
  if (gated) fill_input(l, "W3", l->w3, D, F);
  if (k == GATED_F8) fill_scaled(l);
}

static void layer_free(layer *l) {
  rt_cuda_close(l->cuda);
  if (l->image->release) l->image->release(l->image->owner);
  ir_arena_free(l->arena);
}

static const ir_list *guarded_list(const layer *l) {
  for (int i = 0; i < l->kernel->lists.count; i++)
    if (l->kernel->lists.at[i]->verdict) return l->kernel->lists.at[i];
  return NULL;
}

/* The share of micro-tiles, of pieces of rows, or of whole rows, of the mask that W1 holds. */
static double cover_of_mask(const layer *l, const ir_list *list) {
  int64_t T = l->size[0], F = l->size[2], kept = 0, all = 0, strip = list->section ? 1 : list->strip, gran = list->section ? list->strip : list->packed ? F : list->gran;
  for (int64_t t = 0; t < T; t += strip)
    for (int64_t f = 0; f < F; f += gran, all++) {
      bool set = false;
      for (int64_t i = t; i < t + strip && i < T; i++)
        for (int64_t j = f; j < f + gran && j < F; j++)
          set |= gate_value(l, i, j) > 0;
      kept += set;
    }
  return (double)kept / (double)all;
}

/* ---- one run --------------------------------------------------------------------------------- */
typedef struct open_run { /* a plan and a prepared run on a stream */
  rt_plan *plan;
  rt_run *run;
  ir_arena *arena;
  void *stream;
} open_run;

static void run_open(layer *l, int force_guard, open_run *r) {
  rt_plan_options options = {.cuda = l->cuda, .force_guard = force_guard, .fenced = !l->bare};
  r->arena = ir_arena_new();
  must(l, rt_cuda_stream_new(l->cuda, &r->stream), "a stream");
  must(l, rt_plan_new(l->image, l->size, &options, l->sink, &r->plan), "rt_plan_new");
  must(l, rt_run_new(r->plan, r->arena, &l->inputs, l->sink, &r->run), "rt_run_new");
  must(l, rt_run_prepare(r->run), "rt_run_prepare");
}

static void run_close(layer *l, open_run *r) {
  rt_run_free(r->run);
  rt_plan_free(r->plan);
  rt_cuda_stream_free(l->cuda, r->stream);
  ir_arena_free(r->arena);
}

/* Enqueues, and holds the driver's counters to launches alone. */
static void enqueue(layer *l, open_run *r, const char *test) {
  rt_cuda_counters before = *rt_cuda_count(l->cuda);
  must(l, rt_run_enqueue(r->run, r->stream, NULL), "rt_run_enqueue");
  const rt_cuda_counters *after = rt_cuda_count(l->cuda);
  check(l, after->to_host_bytes == before.to_host_bytes, test, "enqueueing copied to the host");
  check(l, after->to_device_bytes == before.to_device_bytes, test,
        "enqueueing copied to the device");
  check(l, after->synchronisations == before.synchronisations, test,
        "enqueueing waited for the device");
  check(l, after->allocations == before.allocations, test, "enqueueing allocated");
  check(l, after->module_loads == before.module_loads, test, "enqueueing loaded code");
  check(l, after->launches > before.launches, test, "nothing was launched");
}

static void fetch(layer *l, open_run *r, const char *test) {
  ir_bindings outputs = {0};
  must(l, rt_run_fetch(r->run, &outputs, NULL), test);
  check_result(l, test, &outputs);
}

/* Of regrouped rows the cover is what was measured: at most that of rows as they lie, and of rows of three kinds that of
 * strips of one kind, or of two at the seams. */
static double check_regrouped(layer *l, const ir_list *list, const rt_stats *stats, mask m, double cover, const char *test) {
  double found = -1;
  for (int i = 0; i < stats->stages.count; i++)
    if (l->kernel->stages.at[i]->when.list == list) found = stats->stages.at[i].cover;
  int64_t strips = (l->size[0] + list->strip - 1) / list->strip, kinds = 3;
  double most = m == KINDS && strips > 1 ? fmin(cover, (double)(strips + kinds - 1) / (double)(strips * kinds) + 0.2) : cover;
  check(l, found >= 0 && found <= most + 1e-4, test, ir_format_text(l->arena, "regrouped cover %g, at most %g", found, most));
  return found;
}

/* ---- tests ----------------------------------------------------------------------------------- */
static void one_mask(layer *l, mask m, int force) {
  static const char *const forces[] = {"by data", "forced sparse", "forced dense"};
  const char *test = ir_format_text(l->arena, "mask %s, guard %s", mask_names[m], forces[force]);
  open_run r;
  fill_mask(l, m);
  run_open(l, force, &r);
  enqueue(l, &r, test);
  fetch(l, &r, test);
  /* Once more with statistics: the verdict is the one that the mask calls for. */
  rt_stats stats = {0};
  ir_bindings outputs = {0};
  must(l, rt_run_enqueue(r.run, r.stream, &stats), test);
  must(l, rt_run_fetch(r.run, &outputs, &stats), test);
  const ir_list *list = guarded_list(l);
  double cover = list ? cover_of_mask(l, list) : 0;
  if (list && list->order) cover = check_regrouped(l, list, &stats, m, cover, test);
  bool sampled = list && !list->counts, near = sampled && !force && fabs(cover - list->break_even) < 0.1;
  bool dense = list && (force == 2 || (force == 0 && cover >= list->break_even));
  for (int i = 0; i < stats.stages.count; i++) {
    const ir_stage *stage = l->kernel->stages.at[i];
    const rt_stage_stats *row = &stats.stages.at[i];
    if (stage->when.list && !near && !l->undecided)
      check(l, row->ran == (stage->when.above == dense), test, "the wrong branch ran");
    if (stage->when.list && !sampled)
      check(l, list->front && dense ? row->cover < cover + 0.1 : fabs(row->cover - cover) < 2e-5, test, /* of a sample, which may miss what a row holds; in 65536ths */
            ir_format_text(l->arena, "cover %g, expected %g", row->cover, cover));
  }
  check(l, stats.sticky == 0, test, "the status word is set");
  run_close(l, &r);
}

static void chain(layer *l, bool small) {
  for (mask m = EMPTY; m <= KINDS; m++)
    for (int force = 0; force < 3; force++)
      if (!small || m == STRIP || (m == HALF && force == 0)) one_mask(l, m, force);
}

/* A captured plan, replayed so often on masks by turns whose densities differ a hundredfold; what they make is kept. */
static void graph(layer *l, int replays) {
  static const mask masks[REPLAYS] = {ONE_PERCENT, FULL, EMPTY, HALF, ONE};
  struct { void *w1; double *want, *bound; } of[REPLAYS];
  int64_t weights = l->size[1] * l->size[2] * (int64_t)ir_dtype_bytes(l->gate), results = l->size[0] * l->size[3];
  void *exec;
  open_run r;
  fill_mask(l, STRIP);
  run_open(l, 0, &r);
  check(l, rt_run_only_launches(r.run), "graph", "the plan is not launches alone");
  must(l, rt_cuda_capture_begin(l->cuda, r.stream), "beginning a capture");
  enqueue(l, &r, "capture");
  must(l, rt_cuda_capture_end(l->cuda, r.stream, &exec), "ending a capture");
  for (int i = 0; i < replays; i++) {
    int m = i % REPLAYS;
    const char *test = ir_format_text(l->arena, "replay %d, mask %s", i + 1, mask_names[masks[m]]);
    if (i < REPLAYS) {
      of[m].w1 = IR_NEW_ARRAY(l->arena, unsigned char, weights);
      of[m].want = IR_NEW_ARRAY(l->arena, double, results);
      of[m].bound = IR_NEW_ARRAY(l->arena, double, results);
    }
    l->w1 = of[m].w1, l->want = of[m].want, l->bound = of[m].bound;
    if (i < REPLAYS) fill_mask(l, masks[m]);
    must(l, rt_run_update(r.run, ir_tensor_named(l->kernel, "W1"), l->w1), test);
    must(l, rt_cuda_graph_launch(l->cuda, exec, r.stream), test);
    fetch(l, &r, test);
  }
  rt_cuda_graph_free(l->cuda, exec);
  run_close(l, &r);
}

static void *thread_main(void *user) {
  layer *l = user;
  open_run r;
  fill_mask(l, HALF);
  run_open(l, 0, &r);
  for (int i = 0; i < 12; i++) {
    fill_mask(l, (mask)((i + (int)(l->random & 1)) % 6));
    must(l, rt_run_update(r.run, ir_tensor_named(l->kernel, "W1"), l->w1), "updating");
    enqueue(l, &r, "two threads");
    fetch(l, &r, "two threads");
  }
  run_close(l, &r);
  return NULL;
}

static void threads(layer *total, bool small) {
  layer pair[2];
  pthread_t thread[2];
  for (int i = 0; i < 2; i++)
    layer_new(&pair[i], 77 + (uint64_t)i, total->bare ? NO_BOXES : small ? ODD_SMALL : ODD, i == 1 ? GATED : RELU, total->bare);
  for (int i = 0; i < 2; i++)
    if (pthread_create(&thread[i], NULL, thread_main, &pair[i])) exit(3);
  for (int i = 0; i < 2; i++) {
    pthread_join(thread[i], NULL);
    total->checks += pair[i].checks;
    total->failures += pair[i].failures;
    layer_free(&pair[i]);
  }
}

static int launches_of(const layer *l, const char *stage) {
  int count = 0;
  for (int i = 0; i < l->image->codes.count; i++) count += !strcmp(l->image->codes.at[i].stage->name, stage);
  return count;
}

/* Lists behind a guard; of few rows, kernels that look at zeros themselves and no list. */
static bool is_as_expected(layer *l, int which, kind k) {
  const ir_list *list = guarded_list(l);
  int skipping = 0;
  if (list)
    printf("strips of %lld, micro-tiles of %lld, dense from cover %.3f on\n", (long long)list->strip,
           (long long)list->gran, list->break_even);
  for (int i = 0; i < l->kernel->stages.count; i++) {
    const ir_stage *stage = l->kernel->stages.at[i];
    const ir_kernel_row *row = ir_kernel_row_named(stage->row);
    skipping += row && ir_kernel_skips(row);
    printf("  %s: %s\n", stage->name, stage->row);
  }
  check(l, k >= FEW || list, "compiling", "no list with a guard was prepared");
  check(l, !list || !list->front == (which != FRONT && k != KROWS), "compiling", "a dense branch stands in front of the list where it is asked for, and nowhere else");
  check(l, !list || !list->packed == (k != ROWS && k != KROWS), "compiling", "whole rows and rows of blocks are packed, other lists are not");
  check(l, !list || !list->order == (k != REGROUPED), "compiling", "rows that are regrouped have an order, others do not");
  check(l, k < FEW || (skipping == 2 && !list == (k < SEVERAL)), "compiling", "few rows, and lists were prepared, or no guard");
  check(l, k < SEVERAL || (list && !list->counts), "compiling", "the guard's list is more than a verdict");
  check(l, k != JOINED || launches_of(l, "y.0") == 0, "compiling", "the gate's launch does not go on");
  return k >= FEW || list;
}

/* One layer, compiled: every mask, a graph. */
static void whole_layer(layer *total, int which, kind k, bool small) {
  layer l;
  bool odd = which == FEW_ODD || which == SEVERAL_ODD;
  if (total->bare && !odd && which != ODD_SMALL) return;
  layer_new(&l, 3, total->bare && !odd ? NO_BOXES : which, k, total->bare);
  if (is_as_expected(&l, which, k)) {
    chain(&l, small);
    graph(&l, REPLAYS);
  }
  total->checks += l.checks;
  total->failures += l.failures;
  layer_free(&l);
}

/* Lists of k's, rows in an order, whole rows behind a front, few rows in several tiles. */
static void a_thousand(layer *total, bool small) {
  static const struct { int which, small; kind k; } of[] = {
      {ODD, ODD_SMALL, GATED}, {EVEN, EVEN_SMALL, REGROUPED}, {FRONT, EVEN_SMALL, ROWS}, {EVEN, EVEN_SMALL, KROWS}, {SEVERAL_ODD, SEVERAL_ODD, SEVERAL}};
  for (int i = 0; i < IR_COUNT(of); i++) {
    layer l;
    layer_new(&l, 5, small ? of[i].small : of[i].which, of[i].k, false);
    graph(&l, small || getenv("SPC_EMULATED_CACHE") ? FEW_REPLAYS : MANY_REPLAYS);
    total->checks += l.checks;
    total->failures += l.failures;
    layer_free(&l);
  }
}

static void many_rows(layer *total, bool small) {
  whole_layer(total, small ? ODD_SMALL : ODD, RELU, small);
  whole_layer(total, small ? ODD_SMALL : ODD, GATED, small);
  whole_layer(total, small ? EVEN_SMALL : EVEN, GATED, small);
  whole_layer(total, small ? ODD_SMALL : ODD, GATED_LOW, small);
  whole_layer(total, small ? ODD_SMALL : ODD, GATED_F8, small);
  whole_layer(total, small ? EVEN_SMALL : EVEN, GATED_F8, small);
  whole_layer(total, small ? EVEN_SMALL : EVEN, REGROUPED, small);
  whole_layer(total, small ? ODD_SMALL : ODD, REGROUPED, small);
  whole_layer(total, small ? EVEN_SMALL : EVEN, ROWS, small);
  whole_layer(total, small ? ODD_SMALL : ODD, ROWS, small);
  whole_layer(total, small ? EVEN_SMALL : EVEN, KROWS, small);
  whole_layer(total, small ? ODD_SMALL : ODD, KROWS, small);
  whole_layer(total, small ? EVEN_SMALL : EVEN, GATED_LOW, small);
  if (!small) whole_layer(total, FRONT, KROWS, small);
  if (!small) whole_layer(total, FRONT, ROWS, small);
  threads(total, small);
}

static bool is_asked(int argc, char **argv, const char *word) {
  for (int i = 1; i < argc; i++)
    if (!strcmp(argv[i], word)) return true;
  return false;
}

int main(int argc, char **argv) {
  bool bare = is_asked(argc, argv, "bare"), small = bare || is_asked(argc, argv, "small");
  bool several = is_asked(argc, argv, "several"), few = several || is_asked(argc, argv, "few");
  layer total = {.bare = bare};
  if (!few) many_rows(&total, small);
  for (int which = FEW_ODD; which <= FEW_ONE && !several; which++) whole_layer(&total, which, FEW, small);
  for (int which = FEW_ODD; which <= FEW_ONE && !several; which++) whole_layer(&total, which, JOINED, small);
  for (int which = FEW_ODD; which <= SEVERAL_EVEN; which++) whole_layer(&total, which, SEVERAL, small);
  whole_layer(&total, FEW_EVEN, EIGHTS, small);
  if (!few && !bare) a_thousand(&total, small);
  printf("%d passed, %d failed\n", total.checks - total.failures, total.failures);
  return total.failures != 0;
}
