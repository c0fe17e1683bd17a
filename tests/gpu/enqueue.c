/* enqueue.c - spc_enqueue on a GPU: the caller's device memory, workspace and stream.
 *
 * Results against the interpreter's over sizes and masks that change from run to run; the driver
 * calls of each run are counted; a captured graph is replayed on other data; a cold plan inside a
 * capture leaves it whole.  The workspace is poisoned before each run.
 * Usage: gpu-enqueue [time | alone] [JOB]: with `time` it prints the host's time of a run, beside the
 * same calls bare and as many launches of a kernel that does nothing; with `alone` no plan is made beside
 * another thread's capture, which a tool that allocates by itself would break; JOB: a part of the names of
 * those that run.  Exit 77 without a GPU. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include <string.h>
#include <time.h>

#include "driver/api.h"
#include "runtime/cuda_driver.h"
#include "ir/dtype.h"
#include "tests/gpu/bare.h"
#include "tests/gpu/empty.h"

enum { MOST = 6, REPLAYS = 20, FEW_REPLAYS = 4 }; /* few: where the device is emulated */

typedef struct product {
  const char *name, *text;
  double bound;       /* relative error of the result */
  const char *padded; /* tensors whose rows are padded where a row is a multiple of 16 bytes */
  int64_t limit;      /* of the workspace; 0: as the library says */
  bool usual;         /* code for several sizes of T */
} product;

static const product jobs[] = {
    {"layer",
     "spx 1; dim T: dyn; dim D: dyn; dim F: dyn; kernel k { in x: bf16[T,D]; in W: bf16[D,F]; in "
     "V: "
     "bf16[F,D]; let h[t,f] = relu(sum[d] x[t,d]*W[d,f]) : bf16 acc f32 ~ zeros(dynamic, "
     "density=0.02..0.15); out y[t,o] = sum[f] h[t,f]*V[f,o] : bf16 acc f32; }"
     " schedule k { compact h axis=f gran=128x1; }",
     2e-2, NULL, 0, false},
    {"padded layer",
     "spx 1; dim T: dyn; dim D: dyn; dim F: dyn; kernel k { in x: bf16[T,D]; in W: bf16[D,F]; in "
     "V: "
     "bf16[F,D]; let h[t,f] = relu(sum[d] x[t,d]*W[d,f]) : bf16 acc f32 ~ zeros(dynamic, "
     "density=0.02..0.15); out y[t,o] = sum[f] h[t,f]*V[f,o] : bf16 acc f32; }"
     " schedule k { compact h axis=f gran=128x1; }",
     2e-2, "x,W,V,y", 0, false},
    {"padded boxes",
     "spx 1; dim T: dyn; dim D: dyn; dim F: dyn; kernel k { in x: bf16[T,D]; in W: bf16[F,D]; in "
     "V: "
     "bf16[D,F]; let h[t,f] = relu(sum[d] x[t,d]*W[f,d]) : bf16 acc f32; out y[t,o] = sum[f] "
     "h[t,f]*V[o,f] : bf16 acc f32; }",
     2e-2, "x,W,V,y", 0, false},
    {"boxes",
     "spx 1; dim T: dyn; dim D: dyn; dim F: dyn; kernel k { in x: bf16[T,D]; in W: bf16[F,D]; in "
     "V: "
     "bf16[D,F]; let h[t,f] = relu(sum[d] x[t,d]*W[f,d]) : bf16 acc f32; out y[t,o] = sum[f] "
     "h[t,f]*V[o,f] : bf16 acc f32; }",
     2e-2, NULL, 0, false},
    {"padded batches",
     "spx 1; dim T: dyn; dim D: dyn; dim F: dyn; kernel k { in x: bf16[2,T,D]; in W: bf16[2,F,D]; in V: bf16[2,D,F]; let "
     "h[b,t,f] = relu(sum[d] x[b,t,d]*W[b,f,d]) : bf16 acc f32; out y[b,t,o] = sum[f] h[b,t,f]*V[b,o,f] : bf16 acc f32; }",
     2e-2, "x,W,V,y", 0, false},
    {"odd batches", /* apart by what is no multiple of 16 bytes */
     "spx 1; dim T: dyn; dim D: dyn; dim F: dyn; kernel k { in x: bf16[2,T,D]; in W: bf16[2,F,D]; in V: bf16[2,D,F]; let "
     "h[b,t,f] = relu(sum[d] x[b,t,d]*W[b,f,d]) : bf16 acc f32; out y[b,t,o] = sum[f] h[b,t,f]*V[b,o,f] : bf16 acc f32; }",
     2e-2, "x,W,V,y", 0, false},
    {"heads", /* rows of the two matrices by turns */
     "spx 1; dim T: dyn; dim D: dyn; dim F: dyn; kernel k { in x: bf16[2,T,D]; in W: bf16[2,F,D]; in V: bf16[2,D,F]; let "
     "h[b,t,f] = relu(sum[d] x[b,t,d]*W[b,f,d]) : bf16 acc f32; out y[b,t,o] = sum[f] h[b,t,f]*V[b,o,f] : bf16 acc f32; }",
     2e-2, "x,W,V,y", 0, false},
    {"a padded library's batches",
     "spx 1; dim T: dyn; dim D: dyn; dim F: dyn; kernel k { in x: f64[2,T,D]; in W: f64[2,D,F]; in V: f64[2,F,D]; let "
     "h[b,t,f] = sum[d] x[b,t,d]*W[b,d,f]; out y[b,t,o] = sum[f] h[b,t,f]*V[b,f,o]; }",
     1e-12, "x,W,V,y", 0, false},
    {"a library's",
     "spx 1; dim T: dyn; dim D: dyn; dim F: dyn; kernel k { in x: f64[T,D]; in W: f64[D,F]; in V: "
     "f64[F,D]; let h[t,f] = sum[d] x[t,d]*W[d,f]; out y[t,o] = sum[f] h[t,f]*V[f,o]; }",
     1e-12, NULL, 0, false},
    {"a padded library's",
     "spx 1; dim T: dyn; dim D: dyn; dim F: dyn; kernel k { in x: f64[T,D]; in W: f64[D,F]; in V: "
     "f64[F,D]; let h[t,f] = sum[d] x[t,d]*W[d,f]; out y[t,o] = sum[f] h[t,f]*V[f,o]; }",
     1e-12, "x,W,V,y", 0, false},
    {"weights", /* lists of W and a maximum of V depend on const inputs alone */
     "spx 1; dim T: dyn; dim D: dyn; dim F: dyn; kernel k { in x: bf16[D,T]; in W: bf16[F,D] as "
     "dense_t ~ zeros(static, density=0.05, gran=128x1) const; in V: bf16[F,D] const; let s[f] = "
     "max[d] V[f,d]; out y[f,t] = sum[d] W[f,d]*x[d,t] + s[f] : bf16 acc f32; }",
     2e-2, NULL, 0, false},
    {"layer by rows",
     "spx 1; dim T: dyn; dim D: dyn; dim F: dyn; kernel k { in x: bf16[T,D]; in W: bf16[D,F]; in V: bf16[F,D]; let h[t,f] = relu(sum[d] "
     "x[t,d]*W[d,f]) : bf16 acc f32 ~ zeros(dynamic, density=0.02..0.15); out y[t,o] = sum[f] h[t,f]*V[f,o] : bf16 acc f32; }"
     " schedule k { compact h axis=f gran=128x1; }",
     2e-2, NULL, 1, false},
    {"padded boxes by rows",
     "spx 1; dim T: dyn; dim D: dyn; dim F: dyn; kernel k { in x: bf16[T,D]; in W: bf16[F,D]; in V: bf16[D,F]; let h[t,f] = relu(sum[d] "
     "x[t,d]*W[f,d]) : bf16 acc f32; out y[t,o] = sum[f] h[t,f]*V[o,f] : bf16 acc f32; }",
     2e-2, "x,W,V,y", 1, false},
    {"a library's by rows",
     "spx 1; dim T: dyn; dim D: dyn; dim F: dyn; kernel k { in x: f64[T,D]; in W: f64[D,F]; in V: f64[F,D]; let h[t,f] = sum[d] "
     "x[t,d]*W[d,f]; out y[t,o] = sum[f] h[t,f]*V[f,o]; }",
     1e-12, NULL, 1, false},
    {"several sizes of a layer",
     "spx 1; dim T: dyn; dim D: dyn; dim F: dyn; kernel k { in x: bf16[T,D]; in W: bf16[D,F]; in V: bf16[F,D]; let h[t,f] = relu(sum[d] "
     "x[t,d]*W[d,f]) : bf16 acc f32 ~ zeros(dynamic, density=0.02..0.15); out y[t,o] = sum[f] h[t,f]*V[f,o] : bf16 acc f32; }",
     2e-2, NULL, 0, true},
    {"weights, several sizes",
     "spx 1; dim T: dyn; dim D: dyn; dim F: dyn; kernel k { in x: bf16[D,T]; in W: bf16[F,D] as dense_t ~ zeros(static, density=0.05, "
     "gran=128x1) const; in V: bf16[F,D] const; let s[f] = max[d] V[f,d]; out y[f,t] = sum[d] W[f,d]*x[d,t] + s[f] : bf16 acc f32; }",
     2e-2, NULL, 0, true},
};

static bool of_weights(const product *job) { return !strncmp(job->name, "weights", 7); }
static const spc_size usual[] = {{"T", 1}, {"T", 64}, {"T", 300}};

static const int64_t shapes[][3] = {
    {300, 96, 384}, {128, 64, 256}, {1, 8, 8}, {77, 33, 65}, {300, 96, 384}};

typedef struct stand {
  const product *job;
  spc_context *context, *reference;
  spc_program *program, *plain;
  spc_plan *plan, *want;
  rt_cuda *cuda;
  void *stream, *workspace;
  size_t room;
  spc_tensor host[4], device[4];
  void *memory[4];
  uint64_t random;
} stand;

static int checks, failures;

static void check(bool good, const char *test, const char *what) {
  checks++;
  if (good) return;
  if (failures++ < 20) printf("FAIL %s: %s\n", test, what);
}

static void must(int status, const spc_error *err, const char *what) {
  if (!status) return;
  printf("FAIL %s: %s\n%s\n", what, err ? err->message : "", err ? err->diagnostics : "");
  exit(3);
}

static double uniform(stand *b) {
  b->random = b->random * 6364136223846793005u + 1442695040888963407u;
  return (double)(b->random >> 11) / 9007199254740992.0 - 0.5;
}

/* ---- setting up ------------------------------------------------------------------------------ */
static spc_plan *plan_of(spc_context *context, const product *job, spc_program **program) {
  spc_error err = SPC_ERROR_INIT;
  spc_plan *plan;
  const char *text = job->text;
  spc_program_options options = {.struct_size = sizeof options, .padded = job->padded, .workspace_limit = job->limit};
  if (job->usual) options.usual = usual, options.usual_count = 3;
  must(spc_program_from_text(context, text, strlen(text), &options, program, &err), &err,
       "compiling");
  must(spc_plan_new(*program, NULL, NULL, 0, &plan, &err), &err, "a plan");
  return plan;
}

enum { PAD = 24 };

static int64_t columns_of(const spc_tensor *t) { return t->shape[t->rank - 1]; }
static int64_t rows_of(const spc_tensor *t) { return t->rank == 3 ? t->shape[0] * t->shape[1] : t->shape[0]; }

/* Where a row of the device's array begins. */
static int64_t row_at(const spc_tensor *t, int64_t row) {
  int64_t length = t->pitch ? t->pitch : columns_of(t);
  if (t->rank == 2 || !t->strides[1]) return row * length;
  return row / t->shape[1] * t->strides[0] + row % t->shape[1] * t->strides[1];
}

/* Elements that the device's array spans, padding behind the last row included. */
static int64_t span(const spc_tensor *t) {
  int64_t most = 0;
  for (int64_t row = 0; row < rows_of(t); row++)
    if (row_at(t, row) > most) most = row_at(t, row);
  return most + columns_of(t) + (t->pitch || t->strides[0] ? PAD : 0);
}

static bool of_batches(const product *job) { return strstr(job->text, "[2,T,D]") != NULL; }

static void lay_batches(const product *job, spc_tensor *t) {
  int64_t row = t->shape[2] + PAD;
  bool heads = !strcmp(job->name, "heads");
  t->strides[0] = heads ? row : t->shape[1] * row + (job->name[0] == 'o' ? 3 : 16);
  t->strides[1] = heads ? 2 * row : row;
  t->strides[2] = 1;
}

static bool has_rows_of_d(const product *job) {
  return strstr(job->text, "W: bf16[F,D]") || strstr(job->text, "W: bf16[2,F,D]");
}

static void set_shapes(stand *b, const int64_t *shape) {
  static const char *const names[4] = {"x", "W", "V", "y"};
  bool nk = has_rows_of_d(b->job);
  const char *dtype = strstr(b->job->text, "f64") ? "f64" : "bf16";
  int64_t t = shape[0], d = shape[1], f = shape[2];
  int64_t sizes[4][2] = {{t, d}, {nk ? f : d, nk ? d : f}, {nk ? d : f, nk ? f : d}, {t, d}};
  int64_t columns[4][2] = {{d, t}, {f, d}, {f, d}, {f, t}};
  if (of_weights(b->job)) memcpy(sizes, columns, sizeof sizes);
  for (int i = 0; i < 4; i++) {
    bool batches = of_batches(b->job);
    spc_tensor one = {.struct_size = sizeof one, .name = names[i], .dtype = dtype, .rank = batches ? 3 : 2};
    one.shape[0] = 2;
    memcpy(one.shape + batches, sizes[i], sizeof sizes[i]);
    one.value_count = rows_of(&one) * columns_of(&one);
    void *kept = b->host[i].values;
    b->host[i] = b->device[i] = one;
    b->host[i].values = kept;
    b->device[i].values = b->memory[i];
    int64_t element = dtype[0] == 'b' ? 2 : 8;
    bool padded = b->job->padded && sizes[i][1] * element % 16 == 0;
    if (padded && batches)
      lay_batches(b->job, &b->device[i]);
    else if (padded)
      b->device[i].pitch = sizes[i][1] + PAD;
    b->device[i].value_count = span(&b->device[i]);
  }
}

static size_t bytes_of(const spc_tensor *t) {
  return (size_t)span(t) * (t->dtype[0] == 'b' ? 2 : 8);
}

/* The values of a host's tensor as the device's has them; padding is NaNs. */
static void *with_padding(const spc_tensor *host, const spc_tensor *device) {
  size_t element = host->dtype[0] == 'b' ? 2 : 8, row = (size_t)columns_of(host) * element;
  char *made = malloc(bytes_of(device) + 8);
  memset(made, 0xff, bytes_of(device));
  for (int64_t r = 0; r < rows_of(host); r++)
    memcpy(made + (size_t)row_at(device, r) * element, (const char *)host->values + (size_t)r * row, row);
  return made;
}

/* A run of all rows takes what one of 128 does. */
static void by_rows(stand *b) {
  spc_error err = SPC_ERROR_INIT;
  size_t few = 0;
  set_shapes(b, (int64_t[]){128, shapes[0][1], shapes[0][2]});
  must(spc_workspace(b->plan, b->device, 4, &few, &err), &err, "the workspace of 128 rows");
  check(few == b->room, b->job->name, "the workspace does not grow with the rows");
  set_shapes(b, shapes[0]);
  must(spc_workspace(b->plan, b->device, 4, &b->room, &err), &err, "the workspace");
}

static void begin(stand *b, const product *job) {
  spc_error err = SPC_ERROR_INIT;
  spc_context_options options = {.struct_size = sizeof options, .backend = "interp"};
  *b = (stand){.job = job, .random = 11};
  must(spc_context_new(&options, &b->reference, &err), &err, "the interpreter");
  options.backend = "cuda";
  if (spc_context_new(&options, &b->context, &err) == SPC_UNAVAILABLE) {
    printf("%s\n", err.message);
    exit(77);
  }
  b->plan = plan_of(b->context, job, &b->program);
  b->want = plan_of(b->reference, job, &b->plain);
  b->cuda = b->context->cuda;
  must(rt_cuda_stream_new(b->cuda, &b->stream), NULL, "a stream");
  set_shapes(b, shapes[0]);
  must(spc_plan_prepare(b->plan, &err), &err, "preparing");
  must(spc_workspace(b->plan, b->device, 4, &b->room, &err), &err, "the workspace");
  if (job->limit) by_rows(b);
  must(rt_cuda_alloc(b->cuda, b->room + 256, &b->workspace), NULL, "memory");
  for (int i = 0; i < 4; i++) {
    must(rt_cuda_alloc(b->cuda, bytes_of(&b->device[i]) + 256, &b->memory[i]), NULL, "memory");
    b->host[i].values = calloc(1, bytes_of(&b->host[i]) + 8);
  }
}

static void end(stand *b) {
  spc_plan_free(b->plan);
  for (int i = 0; i < 4; i++) {
    rt_cuda_release(b->cuda, b->memory[i]);
    free(b->host[i].values);
  }
  rt_cuda_release(b->cuda, b->workspace);
  rt_cuda_stream_free(b->cuda, b->stream);
  spc_program_free(b->program);
  spc_context_free(b->context);
  spc_plan_free(b->want);
  spc_program_free(b->plain);
  spc_context_free(b->reference);
}

/* ---- data ------------------------------------------------------------------------------------ */
/* x is positive: the sign of a column of W decides about a neuron, of every token of it. */
static void fill(stand *b, int kept) {
  for (int i = 0; i < 3; i++) {
    spc_tensor *t = &b->host[i];
    ir_dtype dtype = t->dtype[0] == 'b' ? IR_BF16 : IR_F64;
    bool nk = has_rows_of_d(b->job);
    for (int64_t k = 0; k < t->value_count; k++) {
      double v = uniform(b);
      int64_t neuron = nk ? k / columns_of(t) : k % columns_of(t);
      if (i == 0) v = fabs(v);
      if (i == 1 && of_weights(b->job))
        v = k / t->shape[0] * 37 % 100 < kept ? v
                                              : 0; /* whole columns, which lie one after another */
      else if (i == 1)
        v = neuron * 37 % 100 < kept ? fabs(v) : -fabs(v);
      ir_dtype_store(dtype, t->values, k, v);
    }
    void *padded = with_padding(t, &b->device[i]);
    must(rt_cuda_upload(b->cuda, b->memory[i], padded, bytes_of(&b->device[i])), NULL, "uploading");
    free(padded);
  }
  must(rt_cuda_fill(b->cuda, b->memory[3], 0xff, bytes_of(&b->device[3]), NULL), NULL, "poisoning");
  must(rt_cuda_fill(b->cuda, b->workspace, 0xff, b->room, NULL), NULL, "poisoning");
  must(rt_cuda_synchronise(b->cuda, NULL), NULL, "waiting");
}

/* What the plan says of its last run, which has ended: neurons are zero for all tokens or for none.
 */
static void reported(stand *b, int kept, const char *what) {
  spc_guard_info g = {.struct_size = sizeof g};
  if (!strstr(b->job->name, "layer") || b->job->usual) return; /* the code for few rows has no guard */
  rt_cuda_counters before = *rt_cuda_count(b->cuda), *now = rt_cuda_count(b->cuda);
  must(spc_plan_guard(b->plan, 0, &g, NULL), NULL, "a guard");
  int64_t neurons = b->host[1].shape[1], live = 0;
  for (int64_t f = 0; f < neurons; f++) live += f * 37 % 100 < kept;
  double cover = (double)live / (double)neurons, slack = g.branch == SPC_BRANCH_DENSE ? 0.15 : 2e-5;
  check(fabs(g.cover - cover) <= slack, what, "the cover that is reported");
  check(g.branch == (g.cover >= g.break_even ? SPC_BRANCH_DENSE : SPC_BRANCH_SPARSE), what,
        "the branch that is reported");
  check(!memcmp(&before, now, sizeof before), what, "statistics ask nothing of the driver");
}

static void compare(stand *b, const char *what) {
  spc_error err = SPC_ERROR_INIT;
  spc_tensor *y = &b->host[3];
  ir_dtype dtype = y->dtype[0] == 'b' ? IR_BF16 : IR_F64;
  const spc_tensor *device = &b->device[3];
  int64_t length = columns_of(y);
  unsigned char *got = malloc(bytes_of(device) + 8);
  bool *is_element = calloc((size_t)span(device) + 1, sizeof *is_element);
  double error = 0, norm = 0;
  bool untouched = true;
  must(rt_cuda_synchronise(b->cuda, b->stream), NULL, what);
  must(rt_cuda_download(b->cuda, got, b->memory[3], bytes_of(device)), NULL, what);
  must(spc_run(b->want, b->host, 4, &err), &err, what);
  for (int64_t k = 0; k < y->value_count; k++) {
    int64_t at = row_at(device, k / length) + k % length;
    double w = ir_dtype_load(dtype, y->values, k), d = ir_dtype_load(dtype, got, at) - w;
    is_element[at] = true;
    error += d * d;
    norm += w * w;
  }
  size_t element = (size_t)ir_dtype_bytes(dtype);
  for (size_t k = 0; k < (size_t)span(device) * element; k++)
    untouched = untouched && (is_element[k / element] || got[k] == 0xff);
  check(sqrt(error) <= b->job->bound * sqrt(norm), b->job->name, what); /* a NaN fails */
  check(untouched, b->job->name, "the padding is written");
  free(is_element);
  free(got);
}

/* ---- runs ------------------------------------------------------------------------------------ */
static void changing(stand *b) {
  char what[100];
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
    for (int kept = 0; kept <= 100; kept += kept == 5 ? 45 : kept == 50 ? 50 : 5) {
      spc_error err = SPC_ERROR_INIT;
      set_shapes(b, shapes[s]);
      fill(b, kept);
      rt_cuda_counters before = *rt_cuda_count(b->cuda), *now = rt_cuda_count(b->cuda);
      int status = spc_enqueue(b->plan, b->device, 4, b->workspace, b->room, b->stream, &err);
      must(status, &err, b->job->name);
      check(now->allocations == before.allocations && now->module_loads == before.module_loads &&
                now->synchronisations == before.synchronisations &&
                now->to_host_bytes == before.to_host_bytes &&
                now->to_device_bytes == before.to_device_bytes && now->launches > before.launches,
            b->job->name, "a run is launches alone");
      snprintf(what, sizeof what, "%lld x %lld x %lld, %d %% kept", (long long)shapes[s][0],
               (long long)shapes[s][1], (long long)shapes[s][2], kept);
      compare(b, what);
      reported(b, kept, what);
    }
}

static void captured(stand *b) {
  spc_error err = SPC_ERROR_INIT;
  void *graph;
  spc_plan *cold;
  set_shapes(b, shapes[0]);
  fill(b, 5);
  must(spc_plan_new(b->program, NULL, NULL, 0, &cold, &err), &err, "a second plan");
  must(rt_cuda_capture_begin(b->cuda, b->stream), NULL, "capturing");
  int status = spc_enqueue(cold, b->device, 4, b->workspace, b->room, b->stream, &err);
  check(status == SPC_INVALID_ARGUMENT && strstr(err.message, "spc_plan_prepare"), b->job->name,
        "a cold plan in a capture");
  must(spc_enqueue(b->plan, b->device, 4, b->workspace, b->room, b->stream, &err), &err,
       "in a capture");
  must(rt_cuda_capture_end(b->cuda, b->stream, &graph), NULL, "the capture is whole");
  const int replays = getenv("SPC_EMULATED_CACHE") ? FEW_REPLAYS : REPLAYS;
  for (int r = 0; r < replays; r++) {
    int kept = r * 100 / replays;
    fill(b, kept);
    must(rt_cuda_graph_launch(b->cuda, graph, b->stream), NULL, "a replay");
    compare(b, "a replay on other data");
    reported(b, kept, "a replay on other data");
  }
  rt_cuda_graph_free(b->cuda, graph);
  spc_plan_free(cold);
}

/* ---- beside a capture of another thread's, of the global mode --------------------------------- */
typedef struct meanwhile {
  stand *b;
  spc_error err;
  int status;
} meanwhile;

static void *bare_memory(void *user) {
  meanwhile *m = user;
  cu_address address = 0;
  m->status = rt_cuda_enter(m->b->cuda) || m->b->cuda->driver.allocate(&address, 4096);
  if (address) (void)m->b->cuda->driver.release(address);
  return NULL;
}

static void *life_of_a_plan(void *user) {
  meanwhile *m = user;
  spc_plan *plan;
  size_t bytes;
  m->status = spc_plan_new(m->b->program, NULL, NULL, 0, &plan, &m->err);
  if (!m->status) m->status = spc_plan_prepare(plan, &m->err);
  if (!m->status) m->status = spc_workspace(plan, m->b->device, 4, &bytes, &m->err);
  if (!m->status) m->status = spc_plan_reserve(plan, m->b->device, 4, &m->err);
  spc_plan_free(plan);
  return NULL;
}

static bool is_whole(stand *b, void *(*what)(void *), meanwhile *m, void **graph) {
  enum { GLOBAL = 0 };
  pthread_t other;
  spc_error err = SPC_ERROR_INIT;
  *m = (meanwhile){.b = b, .err = SPC_ERROR_INIT};
  must(b->cuda->driver.capture_begin(b->stream, GLOBAL), NULL, "capturing");
  if (pthread_create(&other, NULL, what, m) || pthread_join(other, NULL)) exit(3);
  int status = spc_enqueue(b->plan, b->device, 4, b->workspace, b->room, b->stream, &err);
  return !rt_cuda_capture_end(b->cuda, b->stream, graph) && !status;
}

static void beside(stand *b) {
  meanwhile m;
  void *graph;
  set_shapes(b, shapes[0]);
  fill(b, 5);
  if (b->job == jobs) check(!is_whole(b, bare_memory, &m, &graph), b->job->name, "bare memory breaks a capture");
  bool whole = is_whole(b, life_of_a_plan, &m, &graph);
  check(!m.status, b->job->name, m.status ? m.err.message : "a plan lives beside a capture");
  check(whole, b->job->name, "a capture beside which a plan lives");
  if (!whole) return;
  fill(b, 50);
  must(rt_cuda_graph_launch(b->cuda, graph, b->stream), NULL, "a replay");
  compare(b, "a replay of what was captured beside it");
  rt_cuda_graph_free(b->cuda, graph);
}

/* Calls of the dense library: at sizes that were asked about, and at no others. */
static void library(stand *b) {
  spc_plan_info info = {.struct_size = sizeof info};
  spc_launch_info launch = {.struct_size = sizeof launch};
  bool calls = false;
  must(spc_plan_describe(b->plan, &info, NULL), NULL, "the plan");
  for (int i = 0; i < info.launch_count; i++) {
    must(spc_plan_launch(b->plan, i, &launch, NULL), NULL, "a launch");
    calls = calls || launch.is_library;
  }
  if (!strstr(b->job->name, "library")) return;
  if (!calls) {
    printf("skip: cuBLASLt is not called here\n");
    return;
  }
  for (int asked = 0; asked < 2; asked++)
    for (size_t s = 1; s < 4; s++) {
      spc_error err = SPC_ERROR_INIT;
      size_t bytes;
      set_shapes(b, shapes[s]);
      fill(b, 50);
      if (asked) must(spc_workspace(b->plan, b->device, 4, &bytes, &err), &err, "the workspace");
      rt_cuda_counters before = *rt_cuda_count(b->cuda), *now = rt_cuda_count(b->cuda);
      must(spc_enqueue(b->plan, b->device, 4, b->workspace, b->room, b->stream, &err), &err,
           "a product of the library's");
      check((now->library_calls > before.library_calls) == (asked != 0), b->job->name,
            asked ? "the library is called" : "the library is not called unasked");
      check(now->allocations == before.allocations &&
                now->synchronisations == before.synchronisations,
            b->job->name, "a call of the library is a launch");
      compare(b, asked ? "by the library" : "by what stands in");
    }
}

/* What const inputs give is made once; runs and replays with other activations use it, and launch
 * less. */
static void packed(stand *b) {
  spc_error err = SPC_ERROR_INIT;
  spc_tensor given[5];
  size_t bytes = 0, rest;
  void *memory, *graph;
  set_shapes(b, shapes[0]);
  must(spc_plan_pack(b->plan, b->device, 4, NULL, &bytes, NULL, &err), &err, "asking");
  check((bytes > 0) == of_weights(b->job), b->job->name, "there is something to keep");
  if (!bytes) return;
  must(rt_cuda_alloc(b->cuda, bytes, &memory), NULL, "memory");
  for (int kept = 5; kept <= 100; kept += 95) { /* lists, then dense */
    fill(b, kept);
    must(rt_cuda_fill(b->cuda, memory, 0xff, bytes, NULL), NULL, "poisoning");
    must(rt_cuda_synchronise(b->cuda, NULL), NULL, "waiting");
    must(spc_plan_pack(b->plan, b->device, 4, memory, &bytes, b->stream, &err), &err, "packing");
    for (int t = 300; t > 0; t -= 99) {
      set_shapes(b, (int64_t[]){t, shapes[0][1], shapes[0][2]});
      memcpy(given, b->device, sizeof b->device);
      given[4] = spc_packed(memory, bytes);
      must(spc_workspace(b->plan, given, 5, &rest, &err), &err, "the rest");
      check(rest < b->room, b->job->name, "the workspace is smaller");
      must(rt_cuda_fill(b->cuda, b->workspace, 0xff, b->room, b->stream), NULL, "poisoning");
      int64_t before = rt_cuda_count(b->cuda)->launches;
      must(spc_enqueue(b->plan, b->device, 4, b->workspace, b->room, b->stream, &err), &err, "all");
      int64_t whole = rt_cuda_count(b->cuda)->launches - before;
      must(rt_cuda_fill(b->cuda, b->workspace, 0xff, b->room, b->stream), NULL, "poisoning");
      before = rt_cuda_count(b->cuda)->launches;
      must(spc_enqueue(b->plan, given, 5, b->workspace, rest, b->stream, &err), &err, "the rest");
      check(rt_cuda_count(b->cuda)->launches - before < whole, b->job->name,
            "launches are left out");
      compare(b, "with what was packed");
    }
  }
  set_shapes(b, shapes[0]);
  fill(b, 5);
  memcpy(given, b->device, sizeof b->device);
  must(rt_cuda_capture_begin(b->cuda, b->stream), NULL, "capturing");
  must(spc_plan_pack(b->plan, b->device, 4, memory, &bytes, b->stream, &err), &err, "packing");
  must(spc_enqueue(b->plan, given, 5, b->workspace, b->room, b->stream, &err), &err, "a run");
  must(rt_cuda_capture_end(b->cuda, b->stream, &graph), NULL, "the capture is whole");
  for (int kept = 0; kept <= 100; kept += 50) {
    fill(b, kept);
    must(rt_cuda_graph_launch(b->cuda, graph, b->stream), NULL, "a replay");
    compare(b, "packing and a run, replayed");
  }
  rt_cuda_graph_free(b->cuda, graph);
  rt_cuda_release(b->cuda, memory);
}

static void misused(stand *b) {
  spc_error err = SPC_ERROR_INIT;
  set_shapes(b, shapes[0]);
  b->device[0].values = (char *)b->memory[0] + 2;
  check(spc_enqueue(b->plan, b->device, 4, b->workspace, b->room, b->stream, &err) ==
                SPC_INVALID_ARGUMENT &&
            strstr(err.message, "`x`") && strstr(err.message, "16 bytes"),
        b->job->name, "an unaligned array");
  b->device[0].values = b->memory[0];
  check(spc_enqueue(b->plan, b->device, 4, b->workspace, b->room - 1, b->stream, &err) ==
            SPC_CAPACITY,
        b->job->name, "a small workspace");
}

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* Of a run on the device, the least of some rounds. */
static double device_us(stand *b) {
  enum { ROUNDS = 20, RUNS = 50 };
  double best = INFINITY, ms;
  for (int r = 0; r < ROUNDS; r++) {
    must(rt_cuda_time_begin(b->cuda, b->stream), NULL, "an event");
    for (int i = 0; i < RUNS; i++)
      (void)spc_enqueue(b->plan, b->device, 4, b->workspace, b->room, b->stream, NULL);
    must(rt_cuda_time_end(b->cuda, b->stream, &ms), NULL, "an event");
    if (ms * 1e3 / RUNS < best) best = ms * 1e3 / RUNS;
  }
  return best;
}

/* The next run makes its launches anew. */
static void forget(stand *b) {
  size_t bytes;
  must(spc_workspace(b->plan, b->device, 4, &bytes, NULL), NULL, "the workspace");
}

/* Of the host, `count` launches of a kernel that does nothing; the least of some rounds. */
static double empty_us(stand *b, int parameters, int shared, int count) {
  enum { ROUNDS = 50, RUNS = 20 };
  double best = INFINITY;
  empty_kernel *kernel = empty_new(b->cuda, parameters, shared);
  for (int r = 0; kernel && r < ROUNDS; r++) {
    double start = now_us();
    for (int i = 0; i < RUNS * count; i++) (void)empty_launch(kernel, b->stream);
    double took = (now_us() - start) / RUNS;
    if (took < best) best = took;
    (void)rt_cuda_synchronise(b->cuda, b->stream);
  }
  empty_free(kernel);
  return best;
}

/* What it costs that a guard's word goes to host memory and not to the device's. */
static void timed_report(stand *b) {
  if (strcmp(b->job->name, "layer") != 0) return;
  void *mapped = b->plan->report.device, *device;
  must(rt_cuda_alloc(b->cuda, 256, &device), NULL, "memory");
  for (int i = 0; i < 2; i++) {
    b->plan->report.device = mapped;
    forget(b);
    double host = device_us(b);
    b->plan->report.device = device;
    forget(b);
    printf("%s: %.2f us a run back to back, %.2f with the report on the device\n", b->job->name,
           host, device_us(b));
  }
  b->plan->report.device = mapped;
  rt_cuda_release(b->cuda, device);
}

/* Of the plan's kernels. */
static int most_shared(const stand *b) {
  const ir_image *image = b->program->images[0];
  int most = 0;
  for (int i = 0; i < image->codes.count; i++)
    if (image->codes.at[i].shared_bytes > most) most = image->codes.at[i].shared_bytes;
  return most;
}

/* One run's calls, made by nobody but this loop. */
static bare_calls *calls_of(stand *b) {
  const ir_program *program = b->program->ir;
  int64_t sizes[SPC_ARGS_SIZES] = {0};
  forget(b);
  bare_calls *calls = bare_listen(b->cuda);
  (void)spc_enqueue(b->plan, b->device, 4, b->workspace, b->room, b->stream, NULL);
  bare_stop(calls);
  for (int d = 0; d < program->dims.count; d++) {
    const char *name = program->dims.at[d]->name;
    sizes[d] = *name == 'T' ? shapes[0][0] : *name == 'D' ? shapes[0][1] : shapes[0][2];
    int64_t row = shapes[0][name[2] == 'W' ? 2 : 1] + PAD, rows = shapes[0][name[2] == 'W' ? 1 : name[2] == 'V' ? 2 : 0];
    if (strstr(name, ".pitch")) sizes[d] = row;
    if (strstr(name, ".stride")) sizes[d] = rows * row + 16;
  }
  bare_add_library(calls, b->program->images[0], sizes);
  return calls;
}

/* By turns, so that both meet the same clock: a run, and its calls alone; the least of the rounds.
 */
static int run_and_calls(stand *b, double *run, double *bare) {
  enum { ROUNDS = 100, RUNS = 20 };
  bare_calls *calls = calls_of(b);
  *run = *bare = INFINITY;
  for (int r = 0; r < ROUNDS; r++) {
    double start = now_us();
    for (int i = 0; i < RUNS; i++)
      (void)spc_enqueue(b->plan, b->device, 4, b->workspace, b->room, b->stream, NULL);
    double took = (now_us() - start) / RUNS;
    if (took < *run) *run = took;
    (void)rt_cuda_synchronise(b->cuda, b->stream);
    start = now_us();
    for (int i = 0; i < RUNS; i++) (void)bare_send(calls, b->stream);
    took = (now_us() - start) / RUNS;
    if (took < *bare) *bare = took;
    (void)rt_cuda_synchronise(b->cuda, b->stream);
  }
  int count = bare_count(calls);
  bare_free(calls);
  return count;
}

static void timed(stand *b) {
  double run, bare;
  set_shapes(b, shapes[0]);
  fill(b, 5);
  int count = run_and_calls(b, &run, &bare);
  double plain = empty_us(b, EMPTY_PLAIN, 0, count), args = empty_us(b, EMPTY_ARGS, 0, count);
  double like = empty_us(b, EMPTY_MAPS, most_shared(b), count);
  printf("%s: %.2f us of the host a run of %d launches; the same calls bare: %.2f us (%+.2f); as "
         "many empty launches: "
         "%.2f us (%.2fx), with our arguments %.2f us (%.2fx), with tensor maps and %d KiB of "
         "shared memory %.2f us "
         "(%.2fx)\n",
         b->job->name, run, count, bare, run - bare, plain, run / plain, args, run / args,
         most_shared(b) >> 10, like, run / like);
  timed_report(b);
}

int main(int argc, char **argv) {
  bool time = argc > 1 && !strcmp(argv[1], "time");
  bool alone = argc > 1 && !strcmp(argv[1], "alone");
  const char *only = argc > 1 + (time || alone) ? argv[1 + (time || alone)] : "";
  for (size_t j = 0; j < sizeof jobs / sizeof *jobs; j++) {
    if (!strstr(jobs[j].name, only)) continue;
    stand b;
    begin(&b, &jobs[j]);
    if (time) {
      timed(&b);
    } else {
      captured(&b); /* first: nothing of the plan has run yet */
      if (!alone) beside(&b);
      library(&b);
      changing(&b);
      packed(&b);
      misused(&b);
    }
    end(&b);
  }
  if (!time) printf("%d passed, %d failed\n", checks - failures, failures);
  return failures ? 1 : 0;
}
