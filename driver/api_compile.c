/* api_compile.c - compiles that the caller does not wait for: a queue of texts, a few threads.
 *
 * The threads start with the first job and end with the context.  A job is counted by its owner and
 * by the thread that compiles it, so that either may let go first.  Memory is bounded by the number
 * of threads (one compile each) and of waiting texts. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "driver/api.h"

enum { MOST_WAITING = 1024, MOST_THREADS = 16, USUAL_THREADS = 2 };

typedef enum job_state { WAITING, COMPILING, DONE } job_state;

struct spc_job {
  api_compiler *compiler;
  spc_job *next; /* in the queue */
  job_state state;
  int users;             /* its owner, the thread that compiles it */
  atomic_bool cancelled; /* read by the compile, without the lock */
  char *text;            /* freed when it is compiled */
  size_t length;
  spc_program_options options; /* names and sizes are copies */
  spc_program *program;        /* until it is taken */
  spc_program *serves; /* a tiered one that takes it, in the moment that it is there; NULL: none */
  spc_status status;
  spc_error error;
};

struct api_compiler {
  spc_context *context;
  pthread_mutex_t lock; /* guards all below, and the jobs' state */
  pthread_cond_t given, done;
  spc_job *first, **last;
  int waiting, threads, most;
  bool closing;
  pthread_t thread[MOST_THREADS];
};

/* ---- a job ----------------------------------------------------------------------------------- */
static void forget_sizes(const spc_size **sizes, int count) {
  for (int i = 0; *sizes && i < count; i++) free((char *)(*sizes)[i].name);
  free((spc_size *)*sizes);
  *sizes = NULL;
}

static void forget_source(spc_job *job) {
  free(job->text);
  forget_sizes(&job->options.fixed, job->options.fixed_count);
  forget_sizes(&job->options.usual, job->options.usual_count);
  free((char *)job->options.positions);
  free((char *)job->options.padded);
  free((char *)job->options.profile);
  job->options.positions = job->options.padded = job->options.profile = NULL;
  job->text = NULL;
}

static void job_drop(spc_job *job) {
  forget_source(job);
  spc_program_free(job->program);
  free(job);
}

/* With the lock held. */
static bool let_go(spc_job *job) { return --job->users == 0; }

static char *copy_text(const char *text, size_t length) {
  char *copy = malloc(length + 1);
  if (!copy) return NULL;
  if (length) memcpy(copy, text, length);
  copy[length] = 0;
  return copy;
}

static bool copy_sizes(const spc_size *from, int count, const spc_size **out) {
  spc_size *copy = count ? calloc((size_t)count, sizeof *copy) : NULL;
  *out = copy;
  for (int i = 0; copy && i < count; i++) {
    copy[i].value = from[i].value;
    if (!(copy[i].name = copy_text(from[i].name, strlen(from[i].name)))) return false;
  }
  return copy || !count;
}

/* Names, sizes and words are copies; what is wrong with them was found before. */
static bool copy_options(spc_job *job, const spc_program_options *given) {
  spc_program_options from = {0};
  (void)drv_take_options("", given, &from, sizeof from, NULL);
  job->options = from;
  job->options.tiered = 0; /* what is compiled in the background is the tuned one */
  job->options.struct_size = sizeof job->options;
  job->options.fixed = job->options.usual = NULL;
  job->options.positions = job->options.padded = job->options.profile = NULL;
  const char *const words[] = {from.positions, from.padded, from.profile};
  const char **const copies[] = {&job->options.positions, &job->options.padded, &job->options.profile};
  for (int i = 0; i < IR_COUNT(words); i++)
    if (words[i] && !(*copies[i] = copy_text(words[i], strlen(words[i])))) return false;
  return copy_sizes(from.fixed, from.fixed_count, &job->options.fixed) && copy_sizes(from.usual, from.usual_count, &job->options.usual);
}

static spc_job *job_new(api_compiler *compiler, const spc_source *source) {
  spc_job *job = calloc(1, sizeof *job);
  if (!job) return NULL;
  atomic_init(&job->cancelled, false);
  job->compiler = compiler;
  job->users = 1;
  job->error = (spc_error)SPC_ERROR_INIT;
  job->length = source->length;
  job->text = copy_text(source->text, source->length);
  if (job->text && copy_options(job, source->options)) return job;
  job_drop(job);
  return NULL;
}

/* ---- the threads ----------------------------------------------------------------------------- */
static void publish(spc_job *job) {
  const spc_context *context = job->compiler->context;
  if (job->status) {
    if (job->status != SPC_UNAVAILABLE) /* it was not cancelled */
      drv_log(context, SPC_LOG_WARNING, "the tuned tier did not compile: %s", job->error.message);
    return;
  }
  atomic_store_explicit(&job->serves->tuned, job->program, memory_order_release);
  job->program = NULL;
}

static void finish(spc_job *job, spc_status status) {
  job->status = status;
  if (job->serves) publish(job);
  job->state = DONE;
  forget_source(job);
}

static void cancel_words(spc_job *job) {
  spc_program_free(job->program);
  job->program = NULL;
  drv_api_fail(&job->error, SPC_UNAVAILABLE, NULL, "the compile was cancelled");
}

/* Without the lock: nobody else looks at a job that is compiled. */
static spc_status compile_job(const api_compiler *c, spc_job *job) {
  spc_status status = drv_program_new(c->context, "<text>", job->text, job->length, &job->options,
                                      &job->cancelled, &job->program, &job->error);
  if (!atomic_load(&job->cancelled)) return status;
  cancel_words(job);
  return SPC_UNAVAILABLE;
}

static void *compile_jobs(void *user) {
  api_compiler *c = user;
  pthread_mutex_lock(&c->lock);
  for (;;) {
    while (!c->first && !c->closing) pthread_cond_wait(&c->given, &c->lock);
    spc_job *job = c->first;
    if (!job) break;
    c->first = job->next;
    if (!c->first) c->last = &c->first;
    c->waiting--;
    job->state = COMPILING;
    job->users++;
    pthread_mutex_unlock(&c->lock);
    spc_status status = compile_job(c, job);
    pthread_mutex_lock(&c->lock);
    finish(job, status);
    pthread_cond_broadcast(&c->done);
    if (let_go(job)) job_drop(job);
  }
  pthread_mutex_unlock(&c->lock);
  return NULL;
}

static int thread_count(const spc_context *context) {
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  int wanted = context->compile_threads;
  if (wanted <= 0) wanted = cores < USUAL_THREADS ? 1 : USUAL_THREADS;
  return wanted > MOST_THREADS ? MOST_THREADS : wanted;
}

static api_compiler *compiler_new(spc_context *context) {
  api_compiler *c = calloc(1, sizeof *c);
  pthread_condattr_t attributes;
  if (!c) return NULL;
  c->context = context;
  c->last = &c->first;
  c->most = thread_count(context);
  pthread_mutex_init(&c->lock, NULL);
  pthread_cond_init(&c->given, NULL);
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC); /* waits have an end */
  pthread_cond_init(&c->done, &attributes);
  pthread_condattr_destroy(&attributes);
  return c;
}

/* A job that nobody compiles any more is done, and says so.  With the lock held. */
static void drop_waiting(api_compiler *c) {
  for (spc_job *job = c->first; job; job = job->next) {
    cancel_words(job);
    finish(job, SPC_UNAVAILABLE);
  }
  c->first = NULL;
  c->last = &c->first;
  c->waiting = 0;
}

void drv_compiler_free(api_compiler *c) {
  if (!c) return;
  pthread_mutex_lock(&c->lock);
  c->closing = true;
  drop_waiting(c);
  pthread_cond_broadcast(&c->given);
  pthread_cond_broadcast(&c->done);
  pthread_mutex_unlock(&c->lock);
  for (int i = 0; i < c->threads; i++) pthread_join(c->thread[i], NULL);
  pthread_cond_destroy(&c->given);
  pthread_cond_destroy(&c->done);
  pthread_mutex_destroy(&c->lock);
  free(c);
}

/* ---- the public calls ------------------------------------------------------------------------ */
static spc_status check_source(const spc_source *s, int i, spc_error *err) {
  spc_program_options o = {0};
  api_usual usual;
  const char *what = s->text ? NULL : "text";
  SPC_TRY(drv_take_options("spc_program_begin: `options`", s->options, &o, sizeof o, err));
  if (o.fixed_count < 0 || (o.fixed_count && !o.fixed)) what = "options->fixed";
  for (int n = 0; !what && n < o.fixed_count; n++)
    if (!o.fixed[n].name) what = "options->fixed[].name";
  if (!what) return drv_usual_take(&o, &usual, err);
  return drv_api_fail(err, SPC_INVALID_ARGUMENT, NULL,
                      "spc_program_begin: sources[%d]: `%s` is not valid", i, what);
}

/* Threads as there are jobs, up to the bound.  With the lock held; false when there is none. */
static bool start_threads(api_compiler *c) {
  while (c->threads < c->most && c->threads < c->waiting &&
         !pthread_create(&c->thread[c->threads], NULL, compile_jobs, c))
    c->threads++;
  return c->threads > 0;
}

/* All of them or none.  With the lock held. */
static spc_status queue(api_compiler *c, spc_job **jobs, int count, spc_error *err) {
  if (count > MOST_WAITING - c->waiting)
    return drv_api_fail(err, SPC_CAPACITY, NULL,
                        "spc_program_begin: %d texts wait, and %d are the most", c->waiting,
                        MOST_WAITING);
  c->waiting += count;
  if (!start_threads(c)) {
    c->waiting -= count;
    return drv_api_fail(err, SPC_OUT_OF_MEMORY, NULL,
                        "spc_program_begin: no thread could be started");
  }
  for (int i = 0; i < count; i++) {
    *c->last = jobs[i];
    c->last = &jobs[i]->next;
  }
  pthread_cond_broadcast(&c->given);
  return SPC_OK;
}

spc_status spc_program_begin(spc_context *context, const spc_source *sources, int count,
                             spc_job **jobs, spc_error *err) {
  if (!context || count < 0 || (count && (!sources || !jobs)))
    return drv_api_fail(err, SPC_INVALID_ARGUMENT, NULL, "spc_program_begin: `%s` is not valid",
                        !context    ? "context"
                        : count < 0 ? "count"
                        : !sources  ? "sources"
                                    : "jobs");
  for (int i = 0; i < count; i++) jobs[i] = NULL;
  for (int i = 0; i < count; i++) SPC_TRY(check_source(&sources[i], i, err));
  if (!count) return SPC_OK;
  if (!context->compiler) context->compiler = compiler_new(context);
  spc_status status = SPC_OK;
  for (int i = 0; i < count && !status; i++) {
    jobs[i] = context->compiler ? job_new(context->compiler, &sources[i]) : NULL;
    if (!jobs[i])
      status = drv_api_fail(err, SPC_OUT_OF_MEMORY, NULL, "spc_program_begin: no memory for a job");
  }
  if (!status) {
    pthread_mutex_lock(&context->compiler->lock);
    status = queue(context->compiler, jobs, count, err);
    pthread_mutex_unlock(&context->compiler->lock);
  }
  for (int i = 0; i < count && status; i++) {
    if (jobs[i]) job_drop(jobs[i]);
    jobs[i] = NULL;
  }
  return status;
}

bool drv_tune(spc_program *program, const char *text, size_t length,
              const spc_program_options *options) {
  spc_context *context = program->context;
  spc_source source = {text, length, options};
  if (!context->compiler) context->compiler = compiler_new(context);
  spc_job *job = context->compiler ? job_new(context->compiler, &source) : NULL;
  if (!job) return false;
  job->serves = program;
  pthread_mutex_lock(&context->compiler->lock);
  spc_status status = queue(context->compiler, &job, 1, NULL);
  pthread_mutex_unlock(&context->compiler->lock);
  if (status)
    job_drop(job);
  else
    program->tuning = job;
  return status == SPC_OK;
}

static struct timespec after(int64_t microseconds) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  t.tv_sec += (time_t)(microseconds / 1000000);
  t.tv_nsec += (long)(microseconds % 1000000) * 1000;
  if (t.tv_nsec >= 1000000000) t.tv_sec++, t.tv_nsec -= 1000000000;
  return t;
}

int spc_job_wait(spc_job *job, int64_t microseconds) {
  if (!job) return 1;
  api_compiler *c = job->compiler;
  struct timespec end = after(microseconds < 0 ? 0 : microseconds);
  pthread_mutex_lock(&c->lock);
  while (job->state != DONE && microseconds) {
    int fault = microseconds < 0 ? pthread_cond_wait(&c->done, &c->lock)
                                 : pthread_cond_timedwait(&c->done, &c->lock, &end);
    if (fault) break;
  }
  bool done = job->state == DONE;
  pthread_mutex_unlock(&c->lock);
  return done;
}

/* Out of the queue: a job that waits is done at once. */
static void unqueue(api_compiler *c, spc_job *job) {
  spc_job **at = &c->first;
  while (*at != job) at = &(*at)->next;
  *at = job->next;
  if (!*at) c->last = at;
  c->waiting--;
  cancel_words(job);
  finish(job, SPC_UNAVAILABLE);
  pthread_cond_broadcast(&c->done);
}

void spc_job_cancel(spc_job *job) {
  if (!job) return;
  pthread_mutex_lock(&job->compiler->lock);
  if (job->state == WAITING) unqueue(job->compiler, job);
  if (job->state == COMPILING) atomic_store(&job->cancelled, true);
  pthread_mutex_unlock(&job->compiler->lock);
}

static spc_status take(spc_job *job, spc_program **program, spc_error *err) {
  if (job->state != DONE)
    return drv_api_fail(err, SPC_INVALID_ARGUMENT, NULL,
                        "spc_job_take: the compile is not done; spc_job_wait waits for it");
  if (job->status) {
    size_t bytes = err && err->struct_size < sizeof *err ? err->struct_size : sizeof *err;
    if (err && bytes > sizeof bytes)
      memcpy((char *)err + sizeof bytes, (const char *)&job->error + sizeof bytes,
             bytes - sizeof bytes);
    return job->status;
  }
  if (!job->program)
    return drv_api_fail(err, SPC_INVALID_ARGUMENT, NULL, "spc_job_take: it was taken before");
  *program = job->program;
  job->program = NULL;
  return SPC_OK;
}

spc_status spc_job_take(spc_job *job, spc_program **program, spc_error *err) {
  if (program) *program = NULL;
  if (!job || !program)
    return drv_api_fail(err, SPC_INVALID_ARGUMENT, NULL, "spc_job_take: `%s` is NULL",
                        !job ? "job" : "program");
  pthread_mutex_lock(&job->compiler->lock);
  spc_status status = take(job, program, err);
  pthread_mutex_unlock(&job->compiler->lock);
  return status;
}

void spc_job_free(spc_job *job) {
  if (!job) return;
  spc_job_cancel(job);
  pthread_mutex_t *lock = &job->compiler->lock;
  pthread_mutex_lock(lock);
  bool last = let_go(job);
  pthread_mutex_unlock(lock);
  if (last) job_drop(job);
}
