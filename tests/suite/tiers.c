/* Two tiers on CUDA: generic code answers at once, a plan takes the tuned kernels in
 * spc_plan_prepare and nowhere else, what the cache has is tuned at once.  On the fake driver,
 * whose launches compute nothing, with NVRTC really compiling: tests/gpu/enqueue.c looks at
 * results. Usage: tiers (SPC_CUDA_LIB, an empty SPC_CACHE_DIR); prints one line; exit code 0: all
 * well. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "matrix.h"

enum { T = 64, D = 256, F = 512, BYTES = 2 }; /* of bf16 */
static const char text[] =
    "spx 1; dim T: dyn; dim D = 256; dim F = 512;"
    " kernel layer { in x: bf16[T,D]; in W: bf16[D,F]; in V: bf16[F,D];"
    " let h[t,f] = relu(sum[d] x[t,d]*W[d,f]) ~ zeros(dynamic, density=0.02..0.3);"
    " out y[t,o] = sum[f] h[t,f]*V[f,o]; }"
    " schedule layer { tile h t=64 f=64 d=32; }";
static _Alignas(256) char x[T * D * BYTES], W[D * F * BYTES], V[F * D * BYTES], y[T * D * BYTES];
static int failed, checked, compiled;

#define EXPECT(CONDITION, ...)                                                                     \
  (checked++, (CONDITION) ? 0                                                                      \
                          : (failed++, printf("FAIL line %d: ", __LINE__), printf(__VA_ARGS__),    \
                             putchar('\n')))

typedef struct stand {
  spc_context *context;
  spc_program *program;
  spc_plan *plan;
  spc_tensor t[4];
  spc_error err;
} stand;

static void must(spc_status status, const stand *s, const char *what) {
  if (!status) return;
  printf("FAIL %s: %s\n%s", what, s->err.message, s->err.diagnostics);
  exit(1);
}

/* "kernel `layer`: 2 pieces of code, 2 compiled, 0 from the cache" */
static void hear(void *user, spc_log_level level, const char *message) {
  int pieces, fresh;
  const char *counts = strstr(message, "`: ");
  (void)user, (void)level;
  if (counts && sscanf(counts, "`: %d pieces of code, %d compiled", &pieces, &fresh) == 2)
    compiled += fresh;
}

static void open_program(stand *s, const char *source) {
  spc_program_options options = {.struct_size = sizeof options, .tiered = 1};
  must(spc_program_from_text(s->context, source, strlen(source), &options, &s->program, &s->err), s,
       "spc_program_from_text");
  must(spc_plan_new(s->program, "layer", NULL, 0, &s->plan, &s->err), s, "spc_plan_new");
}

static stand open_stand(const char *source) {
  stand s = {.err = SPC_ERROR_INIT};
  spc_context_options options = {
      .struct_size = sizeof options, .backend = "cuda", .log = hear, .compile_threads = 1};
  must(spc_context_new(&options, &s.context, &s.err), &s, "spc_context_new");
  s.t[0] = tensor("x", T, D, x);
  s.t[1] = tensor("W", D, F, W);
  s.t[2] = tensor("V", F, D, V);
  s.t[3] = tensor("y", T, D, y);
  open_program(&s, source);
  return s;
}

static void close_stand(stand *s) {
  spc_plan_free(s->plan);
  spc_program_free(s->program);
  spc_context_free(s->context);
}

static spc_plan_info described(const stand *s) {
  spc_plan_info info = {.struct_size = sizeof info};
  must(spc_plan_describe(s->plan, &info, NULL), s, "spc_plan_describe");
  return info;
}

/* Composed kernels are what tuning is; generic code has the library's calls and generated loops, or
 * a small one of them. */
static int launches_of(const stand *s, const char *begin) {
  int count = 0;
  for (int i = 0; i < described(s).launch_count; i++) {
    spc_launch_info info = {.struct_size = sizeof info};
    must(spc_plan_launch(s->plan, i, &info, NULL), s, "spc_plan_launch");
    count += strncmp(info.kernel, begin, strlen(begin)) == 0;
  }
  return count;
}

static void enqueue(stand *s, const char *when) {
  spc_status status = spc_plan_reserve(s->plan, s->t, 4, &s->err);
  if (!status) status = spc_enqueue(s->plan, s->t, 4, NULL, 0, NULL, &s->err);
  EXPECT(!status, "%s: %s", when, s->err.message);
}

/* ---- the tests ------------------------------------------------------------------------------- */
static void first_and_second(void) {
  stand s = open_stand(text);
  int generic_compiles = compiled;
  EXPECT(described(&s).tier == SPC_TIER_GENERIC, "the first tier");
  must(spc_plan_prepare(s.plan, &s.err), &s, "spc_plan_prepare");
  spc_tier first = described(&s).tier; /* the tuned one may have come already */
  enqueue(&s, "at once");
  EXPECT(spc_program_tuned(s.program, -1) == 1, "the tuned tier comes");
  enqueue(&s, "while the tuned tier waits");
  EXPECT(described(&s).tier == first, "an enqueued run changes nothing");
  EXPECT(described(&s).tuned_ready == (first == SPC_TIER_GENERIC), "it says that one waits");
  int generic = launches_of(&s, "gemm_"), loops = launches_of(&s, "loop");
  spc_plan *before = s.plan;
  must(spc_plan_prepare(s.plan, &s.err), &s, "spc_plan_prepare, again");
  EXPECT(s.plan == before && described(&s).tier == SPC_TIER_TUNED && !described(&s).tuned_ready,
         "it is taken");
  if (first == SPC_TIER_GENERIC) {
    EXPECT(launches_of(&s, "gemm_") > generic, "tuned: more composed kernels than %d", generic);
    EXPECT(loops > 0, "generic: %d generated loops", loops);
  }
  EXPECT(compiled > generic_compiles, "the tuned tier was compiled");
  enqueue(&s, "tuned");
  compiled = 0; /* another program of the same text: the cache has its tuned code */
  spc_plan_free(s.plan);
  spc_program_free(s.program);
  open_program(&s, text);
  EXPECT(described(&s).tier == SPC_TIER_TUNED, "what the cache has is tuned at once");
  EXPECT(spc_program_tuned(s.program, 0) == 1 && compiled == 0, "and compiles nothing: %d",
         compiled);
  must(spc_plan_prepare(s.plan, &s.err), &s, "spc_plan_prepare, from the cache");
  enqueue(&s, "from the cache");
  close_stand(&s);
}

typedef struct asking {
  stand *s;
  atomic_bool stop;
  int went_back;
} asking;

static void *ask(void *user) {
  asking *a = user;
  int tuned = 0;
  while (!atomic_load(&a->stop)) {
    spc_plan_info info = {.struct_size = sizeof info};
    (void)spc_plan_describe(a->s->plan, &info, NULL);
    a->went_back += tuned && info.tier == SPC_TIER_GENERIC;
    tuned = info.tier == SPC_TIER_TUNED;
  }
  return NULL;
}

/* Another thread looks while this one runs, prepares after each run, and meets the tuned tier. */
static void while_others_look(const char *source) {
  stand s = open_stand(source);
  asking a = {.s = &s};
  pthread_t other;
  int after = 0, runs = 0;
  must(spc_plan_prepare(s.plan, &s.err), &s, "spc_plan_prepare");
  if (pthread_create(&other, NULL, ask, &a)) exit(1);
  while (after < 20 && !failed) {
    enqueue(&s, "beside the compile");
    must(spc_plan_prepare(s.plan, &s.err), &s, "spc_plan_prepare beside it");
    after += spc_program_tuned(s.program, 1000);
    runs++;
  }
  atomic_store(&a.stop, true);
  pthread_join(other, NULL);
  EXPECT(described(&s).tier == SPC_TIER_TUNED && !a.went_back, "after %d runs", runs);
  close_stand(&s);
}

/* Programs end, and faults are told, whatever the tiers do. */
static void ends_and_faults(void) {
  stand s = open_stand("spx 1; dim T: dyn; kernel layer { in x: bf16[T,256]; in W: bf16[256,512];"
                       " in V: bf16[512,256]; let h[t,f] = sum[d] x[t,d]*W[d,f];"
                       " out y[t,o] = sum[f] h[t,f]*V[f,o]; }");
  close_stand(&s); /* while its second tier compiles */
  s = open_stand(text);
  spc_program *wrong = NULL;
  spc_program_options options = {.struct_size = sizeof options, .tiered = 1};
  const char *faulty =
      "spx 1; dim T: dyn; kernel k { in x: f32[T]; out y[t] = x[t]; } schedule k { library y; }";
  spc_status status =
      spc_program_from_text(s.context, faulty, strlen(faulty), &options, &wrong, &s.err);
  EXPECT(status == SPC_INVALID_INPUT && !wrong && strstr(s.err.message, "library"),
         "a schedule that cannot be: %s", s.err.message);
  close_stand(&s);
}

int main(void) {
  first_and_second();
  while_others_look(
      "spx 1; dim T: dyn; kernel layer { in x: bf16[T,256]; in W: bf16[256,512]; in V: "
      "bf16[512,256];"
      " let h[t,f] = relu(sum[d] x[t,d]*W[d,f]); out y[t,o] = 2*(sum[f] h[t,f]*V[f,o]); }");
  ends_and_faults();
  printf("%d checks, %d failed\n", checked, failed);
  return failed != 0;
}
