/* tiers.c - a tiered program on a GPU: right at once, while the tuned tier compiles, inside
 * captures that begin before and end after it has come, after spc_plan_prepare has taken it, and in
 * graphs of either tier that are replayed then.  Data are small integers, so results are compared
 * bit by bit. Usage: gpu-tiers [time]; exit 77 without a GPU.  `time`: how long until the first
 * result, beside a program that has one tier. */
#include <stdlib.h>
#include <string.h>

#include "driver/api.h"
#include "ir/dtype.h"

enum { T = 96, D = 64, F = 192 };
static const char text[] =
    "spx 1; dim T: dyn; dim D = 64; dim F = 192;"
    " kernel layer { in x: bf16[T,D]; in W: bf16[D,F]; in V: bf16[F,D];"
    " let h[t,f] = relu(sum[d] x[t,d]*W[d,f]) : bf16 acc f32 ~ zeros(dynamic, density=0.02..0.3);"
    " out y[t,o] = sum[f] h[t,f]*V[f,o] : f32; }";

static const int64_t shapes[4][2] = {{T, D}, {D, F}, {F, D}, {T, D}};
static const char *const names[4] = {"x", "W", "V", "y"};
static uint16_t inputs[3][F * D + T * D];
static float want[T * D], got[T * D];
static int passed, failed;

typedef struct stand {
  spc_context *context;
  spc_program *program;
  spc_plan *plan;
  void *memory[4], *stream;
  spc_tensor host[4], device[4];
  spc_error err;
} stand;

static void check(bool good, const char *what) {
  if (!good) printf("FAIL %s\n", what);
  *(good ? &passed : &failed) += 1;
}

static void must(const stand *s, int status, const char *what) {
  if (!status) return;
  printf("FAIL %s: %s\n%s", what, s->err.message, s->err.diagnostics);
  exit(3);
}

static size_t bytes_of(int i) {
  return (size_t)(shapes[i][0] * shapes[i][1]) * (i == 3 ? sizeof(float) : sizeof(uint16_t));
}

/* A share of the neurons is zero for every token. */
static void fill(stand *s, int kept) {
  static float h[T * F];
  for (int i = 0; i < T * D; i++) ir_dtype_store(IR_BF16, inputs[0], i, i * 7 % 3 == 0);
  for (int i = 0; i < D * F; i++)
    ir_dtype_store(IR_BF16, inputs[1], i, i % F * 37 % 100 < kept ? i % 3 : -(i % 2));
  for (int i = 0; i < F * D; i++) ir_dtype_store(IR_BF16, inputs[2], i, i % 5 - 2);
  memset(h, 0, sizeof h);
  for (int t = 0; t < T; t++)
    for (int f = 0; f < F; f++) {
      for (int d = 0; d < D; d++)
        h[t * F + f] += (float)(ir_dtype_load(IR_BF16, inputs[0], t * D + d) *
                                ir_dtype_load(IR_BF16, inputs[1], d * F + f));
      if (h[t * F + f] < 0) h[t * F + f] = 0;
    }
  for (int t = 0; t < T; t++)
    for (int o = 0; o < D; o++) {
      want[t * D + o] = 0;
      for (int f = 0; f < F; f++)
        want[t * D + o] += h[t * F + f] * (float)ir_dtype_load(IR_BF16, inputs[2], f * D + o);
    }
  for (int i = 0; i < 3; i++)
    must(s, rt_cuda_upload(s->context->cuda, s->memory[i], inputs[i], bytes_of(i)), "uploading");
  must(s, rt_cuda_fill(s->context->cuda, s->memory[3], 0xff, bytes_of(3), NULL), "poisoning");
  must(s, rt_cuda_synchronise(s->context->cuda, NULL), "waiting");
}

static void open_program(stand *s, int tiered) {
  spc_program_options options = {.struct_size = sizeof options, .tiered = tiered};
  must(s, spc_program_from_text(s->context, text, strlen(text), &options, &s->program, &s->err),
       "compiling");
  must(s, spc_plan_new(s->program, NULL, NULL, 0, &s->plan, &s->err), "a plan");
}

static stand open_stand(void) {
  stand s = {.err = SPC_ERROR_INIT};
  spc_context_options options = {
      .struct_size = sizeof options, .backend = "cuda", .compile_threads = 1};
  if (spc_context_new(&options, &s.context, &s.err) == SPC_UNAVAILABLE) {
    printf("%s\n", s.err.message);
    exit(77);
  }
  must(&s, rt_cuda_stream_new(s.context->cuda, &s.stream), "a stream");
  for (int i = 0; i < 4; i++) {
    must(&s, rt_cuda_alloc(s.context->cuda, bytes_of(i) + 256, &s.memory[i]), "memory");
    spc_tensor t = {
        .struct_size = sizeof t, .name = names[i], .dtype = i == 3 ? "f32" : "bf16", .rank = 2};
    memcpy(t.shape, shapes[i], sizeof shapes[i]);
    t.value_count = shapes[i][0] * shapes[i][1];
    s.device[i] = s.host[i] = t;
    s.device[i].values = s.memory[i];
    s.host[i].values = i == 3 ? (void *)got : (void *)inputs[i];
  }
  return s;
}

static void close_stand(stand *s) {
  spc_plan_free(s->plan);
  spc_program_free(s->program);
  for (int i = 0; i < 4; i++) rt_cuda_release(s->context->cuda, s->memory[i]);
  rt_cuda_stream_free(s->context->cuda, s->stream);
  spc_context_free(s->context);
}

static spc_plan_info described(const stand *s) {
  spc_plan_info info = {.struct_size = sizeof info};
  must(s, spc_plan_describe(s->plan, &info, NULL), "the plan");
  return info;
}

/* What lies in the device's result. */
static void compare(stand *s, const char *what) {
  must(s, rt_cuda_synchronise(s->context->cuda, s->stream), what);
  must(s, rt_cuda_download(s->context->cuda, got, s->memory[3], bytes_of(3)), what);
  check(!memcmp(got, want, sizeof got), what);
}

static void enqueue(stand *s, const char *what) {
  must(s, spc_enqueue(s->plan, s->device, 4, NULL, 0, s->stream, &s->err), what);
}

static void *captured(stand *s, const char *what) {
  void *graph = NULL;
  must(s, rt_cuda_capture_begin(s->context->cuda, s->stream), what);
  enqueue(s, what);
  must(s, rt_cuda_capture_end(s->context->cuda, s->stream, &graph), what);
  return graph;
}

static void replay(stand *s, void *graph, int kept, const char *what) {
  fill(s, kept);
  must(s, rt_cuda_graph_launch(s->context->cuda, graph, s->stream), what);
  compare(s, what);
}

static void run(stand *s, const char *what) {
  memset(got, 0xff, sizeof got);
  must(s, spc_run(s->plan, s->host, 4, &s->err), what);
  check(!memcmp(got, want, sizeof got), what);
}

static void prepared(stand *s, const char *what) {
  must(s, spc_plan_prepare(s->plan, &s->err), what);
  must(s, spc_plan_reserve(s->plan, s->device, 4, &s->err), what);
}

static void both_tiers(stand *s) {
  open_program(s, 1);
  check(described(s).tier == SPC_TIER_GENERIC, "it answers with generic code");
  prepared(s, "preparing");
  bool generic = described(s).tier == SPC_TIER_GENERIC;
  fill(s, 10);
  enqueue(s, "at once");
  compare(s, "at once");
  run(s, "spc_run, at once");
  void *first = captured(s, "a capture of the first tier");
  for (int i = 0; !spc_program_tuned(s->program, 500); i++) {
    fill(s, i * 13 % 101);
    enqueue(s, "beside the compile");
    compare(s, "beside the compile");
  }
  fill(s, 25);
  must(s, rt_cuda_capture_begin(s->context->cuda, s->stream), "a capture while it waits");
  check(described(s).tuned_ready == generic, "the tuned tier waits");
  enqueue(s, "a capture while it waits");
  check(described(s).tuned_ready == generic, "and is not taken in a capture");
  void *second;
  must(s, rt_cuda_capture_end(s->context->cuda, s->stream, &second), "the capture is whole");
  replay(s, second, 30, "what was captured while it waited");
  prepared(s, "taking it");
  check(described(s).tier == SPC_TIER_TUNED, "the tuned tier is taken");
  fill(s, 15);
  enqueue(s, "tuned");
  compare(s, "tuned");
  run(s, "spc_run, tuned");
  void *third = captured(s, "a capture of the tuned tier");
  for (int kept = 0; kept <= 100; kept += 25) {
    replay(s, first, kept, "a graph of the first tier, later");
    replay(s, third, kept, "a graph of the tuned tier");
    replay(s, second, kept, "a graph of the first tier, again");
  }
  rt_cuda_graph_free(s->context->cuda, first);
  rt_cuda_graph_free(s->context->cuda, second);
  rt_cuda_graph_free(s->context->cuda, third);
}

static double first_result_ms(stand *s, int tiered, double *all) {
  int64_t begin = rt_now_ns();
  open_program(s, tiered);
  prepared(s, "preparing");
  enqueue(s, "the first");
  must(s, rt_cuda_synchronise(s->context->cuda, s->stream), "waiting");
  double first = (double)(rt_now_ns() - begin) * 1e-6;
  (void)spc_program_tuned(s->program, -1);
  *all = (double)(rt_now_ns() - begin) * 1e-6;
  spc_plan_free(s->plan);
  spc_program_free(s->program);
  s->plan = NULL;
  s->program = NULL;
  return first;
}

int main(int argc, char **argv) {
  setenv("SPC_CACHE", "off", 1); /* what it has is tuned at once */
  stand s = open_stand();
  if (argc > 1 && !strcmp(argv[1], "time")) {
    for (int i = 0; i < 6; i++) {
      double all, first = first_result_ms(&s, i % 2, &all);
      printf("%s: the first result after %.0f ms, tuned after %.0f ms\n",
             i % 2 ? "tiered" : "one tier", first, all);
    }
  } else {
    both_tiers(&s);
    printf("%d passed, %d failed\n", passed, failed);
  }
  close_stand(&s);
  return failed != 0;
}
