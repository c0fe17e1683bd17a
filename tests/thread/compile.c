/* Compiles in the background, by every misuse that threads are capable of: many jobs, waits from
 * several threads, cancels at every moment, contexts that end while jobs wait, compiles beside runs.
 * Plain main: ThreadSanitizer does not start under Criterion. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "spc.h"

static int faults;
#define EXPECT(condition)                                                                          \
  do {                                                                                             \
    if (!(condition)) printf("FAIL %s:%d: %s\n", __FILE__, __LINE__, #condition), faults++;        \
  } while (0)

static const char *const good =
    "spx 1; dim N: dyn; dim M = 8; kernel k { in x: f32[N,M]; in w: f32[M]; let h[i,j] = relu(x[i,j] * w[j]);"
    " out y[i] = sum[j] h[i,j]; } kernel l { in x: f32[N]; out y[i] = 2 * x[i]; }";
static const char *const bad = "spx 1; dim N: dyn; kernel k { in x: f32[N]; out y[i] = x[j]; }";

static spc_context *context_new(const char *backend, int threads) {
  spc_context *context = NULL;
  spc_error err = SPC_ERROR_INIT;
  spc_context_options options = {
      .struct_size = sizeof options, .backend = backend, .threads = 2, .compile_threads = threads};
  if (spc_context_new(&options, &context, &err)) printf("%s\n", err.message), exit(1);
  return context;
}

static void run_l(spc_program *program) {
  spc_plan *plan = NULL;
  float x[3] = {1, 2, 3}, y[3] = {0};
  spc_tensor t[2];
  memset(t, 0, sizeof t);
  for (int i = 0; i < 2; i++) {
    t[i] = (spc_tensor){.struct_size = sizeof *t, .dtype = "f32", .rank = 1, .value_count = 3};
    t[i].shape[0] = 3;
  }
  t[0].name = "x", t[0].values = x, t[1].name = "y", t[1].values = y;
  EXPECT(!spc_plan_new(program, "l", NULL, 0, &plan, NULL));
  EXPECT(!spc_run(plan, t, 2, NULL) && y[2] == 6);
  spc_plan_free(plan);
}

/* A list, half of it wrong; taken in the other order. */
static void lists(const char *backend, int threads, int count) {
  spc_context *context = context_new(backend, threads);
  spc_job **jobs = calloc((size_t)count, sizeof *jobs);
  spc_source *sources = calloc((size_t)count, sizeof *sources);
  for (int i = 0; i < count; i++) {
    char name[2] = "M";
    spc_size fixed = {name, 4 + i};
    spc_program_options options = {.struct_size = sizeof options, .fixed = &fixed, .fixed_count = 1};
    const char *text = i % 2 ? bad : good;
    sources[0] = (spc_source){text, strlen(text), i % 2 ? NULL : &options};
    EXPECT(!spc_program_begin(context, sources, 1, &jobs[i], NULL));
    name[0] = 'Q'; /* names were copied */
  }
  for (int i = count - 1; i >= 0; i--) {
    spc_program *program = NULL;
    spc_error err = SPC_ERROR_INIT;
    EXPECT(spc_job_wait(jobs[i], -1) == 1);
    spc_status status = spc_job_take(jobs[i], &program, &err);
    EXPECT(status == (i % 2 ? SPC_INVALID_INPUT : SPC_OK));
    if (i % 2) {
      EXPECT(err.status == SPC_INVALID_INPUT && strstr(err.diagnostics, "^"));
      EXPECT(err.struct_size == sizeof err);
    } else if (program) {
      spc_program *again = NULL;
      run_l(program);
      EXPECT(spc_job_take(jobs[i], &again, &err) == SPC_INVALID_ARGUMENT && !again);
      EXPECT(strstr(err.message, "taken") != NULL);
    }
    spc_program_free(program);
    if (i % 3) spc_job_free(jobs[i]), jobs[i] = NULL;
  }
  for (int i = 0; i < count; i++) spc_job_free(jobs[i]);
  spc_context_free(context);
  free(jobs);
  free(sources);
}

/* Programs that run while others are compiled. */
static void taken_programs(const char *backend) {
  spc_context *context = context_new(backend, 2);
  spc_source sources[8];
  spc_job *jobs[8];
  spc_program *program[8];
  for (int i = 0; i < 8; i++) sources[i] = (spc_source){good, strlen(good), NULL};
  EXPECT(!spc_program_begin(context, sources, 8, jobs, NULL));
  for (int i = 0; i < 8; i++) {
    while (!spc_job_wait(jobs[i], 500)) continue; /* polls with an end */
    EXPECT(!spc_job_take(jobs[i], &program[i], NULL));
    spc_job_free(jobs[i]);
    run_l(program[i]); /* beside the compiles of the others */
  }
  for (int i = 0; i < 8; i++) spc_program_free(program[i]);
  spc_context_free(context);
}

static void *wait_for(void *job) {
  EXPECT(spc_job_wait(job, -1) == 1);
  return NULL;
}

static void *cancel_it(void *job) {
  spc_job_cancel(job);
  return NULL;
}

/* Waited for and cancelled by other threads, at moments that differ. */
static void cancels(const char *backend, int rounds) {
  spc_context *context = context_new(backend, 2);
  for (int n = 0; n < rounds; n++) {
    spc_source sources[4];
    spc_job *jobs[4];
    pthread_t waiter, canceller;
    for (int i = 0; i < 4; i++) sources[i] = (spc_source){good, strlen(good), NULL};
    EXPECT(!spc_program_begin(context, sources, 4, jobs, NULL));
    nanosleep(&(struct timespec){0, 37000L * n}, NULL);
    EXPECT(!pthread_create(&waiter, NULL, wait_for, jobs[2]));
    EXPECT(!pthread_create(&canceller, NULL, cancel_it, jobs[2]));
    spc_job_cancel(jobs[3]);
    pthread_join(canceller, NULL);
    pthread_join(waiter, NULL);
    for (int i = 2; i < 4; i++) {
      spc_program *program = NULL;
      spc_error err = SPC_ERROR_INIT;
      spc_job_wait(jobs[i], -1);
      spc_status status = spc_job_take(jobs[i], &program, &err);
      EXPECT(status == SPC_OK || (status == SPC_UNAVAILABLE && strstr(err.message, "cancelled")));
      EXPECT(!program == (status != SPC_OK));
      spc_program_free(program);
    }
    for (int i = 0; i < 4; i++) spc_job_free(jobs[i]); /* two of them while they compile */
  }
  spc_context_free(context);
}

/* More than may wait are none; what waits when its owner goes is dropped. */
static void bounds(const char *backend) {
  enum { MANY = 1100 };
  spc_context *context = context_new(backend, 1);
  spc_source *sources = calloc(MANY, sizeof *sources);
  spc_job **jobs = calloc(MANY, sizeof *jobs);
  spc_error err = SPC_ERROR_INIT;
  for (int i = 0; i < MANY; i++) sources[i] = (spc_source){good, strlen(good), NULL};
  EXPECT(spc_program_begin(context, sources, MANY, jobs, &err) == SPC_CAPACITY && !jobs[0]);
  EXPECT(strstr(err.message, "1024") != NULL);
  EXPECT(!spc_program_begin(context, sources, 1000, jobs, &err));
  spc_status more = spc_program_begin(context, sources, 100, jobs + 1000, &err);
  EXPECT(more == SPC_CAPACITY || more == SPC_OK); /* OK: 76 were compiled already */
  for (int i = more == SPC_OK ? 1099 : 999; i >= 0; i--) spc_job_free(jobs[i]);
  EXPECT(!spc_program_begin(context, sources, 0, NULL, &err));
  spc_context_free(context);
  context = context_new(backend, 1); /* ends before its threads have begun */
  EXPECT(!spc_program_begin(context, sources, 3, jobs, &err));
  for (int i = 0; i < 3; i++) spc_job_free(jobs[i]);
  spc_context_free(context);
  free(sources);
  free(jobs);
}

static void misuse(void) {
  spc_context *context = context_new("interp", 1);
  spc_error err = SPC_ERROR_INIT;
  spc_job *job = NULL;
  spc_program *program = NULL;
  spc_source source = {NULL, 3, NULL};
  spc_size nameless = {NULL, 3};
  spc_program_options options = {.struct_size = sizeof options, .fixed = &nameless, .fixed_count = 1};
  EXPECT(spc_program_begin(NULL, &source, 1, &job, &err) == SPC_INVALID_ARGUMENT && strstr(err.message, "`context`"));
  EXPECT(spc_program_begin(context, NULL, 1, &job, &err) == SPC_INVALID_ARGUMENT && strstr(err.message, "`sources`"));
  EXPECT(spc_program_begin(context, &source, 1, NULL, &err) == SPC_INVALID_ARGUMENT && strstr(err.message, "`jobs`"));
  EXPECT(spc_program_begin(context, &source, -1, &job, &err) == SPC_INVALID_ARGUMENT && strstr(err.message, "`count`"));
  EXPECT(spc_program_begin(context, &source, 1, &job, &err) == SPC_INVALID_ARGUMENT && strstr(err.message, "sources[0]: `text`"));
  source = (spc_source){good, strlen(good), &options};
  EXPECT(spc_program_begin(context, &source, 1, &job, &err) == SPC_INVALID_ARGUMENT && strstr(err.message, "fixed[].name"));
  options.struct_size = 0;
  EXPECT(spc_program_begin(context, &source, 1, &job, &err) == SPC_INVALID_ARGUMENT && strstr(err.message, "struct_size"));
  EXPECT(spc_job_take(NULL, &program, &err) == SPC_INVALID_ARGUMENT && strstr(err.message, "`job`"));
  source.options = NULL;
  EXPECT(!spc_program_begin(context, &source, 1, &job, NULL));
  EXPECT(spc_job_take(job, NULL, &err) == SPC_INVALID_ARGUMENT && strstr(err.message, "`program`"));
  spc_job_wait(job, -1);
  spc_job_cancel(job); /* it is over: nothing happens */
  EXPECT(!spc_job_take(job, &program, &err));
  spc_job_free(job);
  spc_job_free(NULL);
  spc_job_cancel(NULL);
  EXPECT(spc_job_wait(NULL, -1) == 1);
  spc_program_free(program);
  spc_context_free(context);
}

/* A thread asks what runs while another runs, prepares, and meets the tuned tier. */
typedef struct watch {
  spc_plan *plan;
  int stops; /* with the lock held */
  pthread_mutex_t lock;
  int tuned;
} watch;

static int told_to_stop(watch *w) {
  pthread_mutex_lock(&w->lock);
  int stops = w->stops;
  pthread_mutex_unlock(&w->lock);
  return stops;
}

static void *watch_tiers(void *user) {
  watch *w = user;
  while (!told_to_stop(w)) {
    spc_plan_info info = {.struct_size = sizeof info};
    spc_launch_info launch = {.struct_size = sizeof launch};
    EXPECT(!spc_plan_describe(w->plan, &info, NULL) && !strcmp(info.kernel, "l"));
    EXPECT(!info.launch_count || !spc_plan_launch(w->plan, 0, &launch, NULL));
    EXPECT(!(w->tuned && info.tier == SPC_TIER_GENERIC)); /* it never goes back */
    w->tuned = info.tier == SPC_TIER_TUNED;
  }
  return NULL;
}

static void tiers(const char *backend, int waits) {
  spc_context *context = context_new(backend, 1);
  spc_program *program = NULL;
  spc_program_options options = {.struct_size = sizeof options, .tiered = 1};
  spc_error err = SPC_ERROR_INIT;
  watch w = {.lock = PTHREAD_MUTEX_INITIALIZER};
  pthread_t thread;
  float x[3] = {1, 2, 3}, y[3] = {0};
  spc_tensor t[2] = {{.struct_size = sizeof *t, .name = "x", .dtype = "f32", .rank = 1},
                     {.struct_size = sizeof *t, .name = "y", .dtype = "f32", .rank = 1}};
  for (int i = 0; i < 2; i++) t[i].shape[0] = t[i].value_count = 3;
  t[0].values = x, t[1].values = y;
  EXPECT(!spc_program_from_text(context, good, strlen(good), &options, &program, &err));
  EXPECT(!spc_plan_new(program, "l", NULL, 0, &w.plan, &err));
  pthread_create(&thread, NULL, watch_tiers, &w);
  for (int after = 0; after < 20 && waits;) {
    after += spc_program_tuned(program, 0); /* some runs after it has come */
    (void)spc_plan_prepare(w.plan, NULL);   /* not the interpreter's */
    EXPECT(!spc_run(w.plan, t, 2, &err) && y[2] == 6);
  }
  pthread_mutex_lock(&w.lock);
  w.stops = 1;
  pthread_mutex_unlock(&w.lock);
  pthread_join(thread, NULL);
  spc_plan_info info = {.struct_size = sizeof info};
  EXPECT(!spc_plan_describe(w.plan, &info, NULL) && (!waits || info.tier == SPC_TIER_TUNED));
  spc_plan_free(w.plan);
  spc_program_free(program);
  spc_context_free(context);
}

int main(int argc, char **argv) {
  const char *backend = argc > 1 ? argv[1] : "interp";
  lists(backend, 1, 6);
  lists(backend, 3, 24);
  taken_programs(backend);
  cancels(backend, 40);
  bounds(backend);
  for (int i = 0; i < 6; i++) tiers(backend, i % 3); /* one of three ends while its second tier compiles */
  misuse();
  if (!faults) printf("background compiles (%s): all is well\n", backend);
  return faults ? 1 : 0;
}
