/* What an engine does to the library for months, in seconds.  Usage: endure WHAT BACKEND [LIBRARY]
 *   runs      10^6 runs of spc_enqueue: the process grows by nothing
 *   contexts  two contexts of one back end at once, their runs interleaved, freed in the other
 * order fork      a child that was forked before first use, and one forked from a process that has
 * used it reload    dlopen, use, dlclose of LIBRARY: no thread is left, and the process stops
 * growing memory    every allocation fails in turn, from the first call to the last: an answer, and
 * no leak threads   many threads, each with a plan of its own of one program, spc_run and
 * spc_enqueue Prints one line of figures; exit code 0: all well. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "spc.h"

/* ---- allocations, counted and made to fail -----------------------------------------------------
 */
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t), __libc_free(void *);
static struct {
  int armed;
  long seen, fails, live; /* fails: the number of the allocation that does */
} heap;

static int refuses(void) { return heap.armed && ++heap.seen == heap.fails; }

#ifndef SANITIZED /* the sanitizer stands here itself */
void *malloc(size_t bytes) {
  if (refuses()) return NULL;
  if (heap.armed) heap.live++;
  return __libc_malloc(bytes);
}
void *calloc(size_t count, size_t bytes) {
  if (refuses()) return NULL;
  if (heap.armed) heap.live++;
  return __libc_calloc(count, bytes);
}
void *realloc(void *old, size_t bytes) {
  if (refuses()) return NULL;
  if (heap.armed) heap.live += !old;
  return __libc_realloc(old, bytes);
}
void *aligned_alloc(size_t alignment, size_t bytes) {
  if (refuses()) return NULL;
  if (heap.armed) heap.live++;
  return __libc_memalign(alignment, bytes);
}
void free(void *at) {
  if (heap.armed) heap.live -= at != NULL;
  __libc_free(at);
}
#endif

/* ---- the library, linked or loaded ----------------------------------------------------------- */
#define CALLS(F)                                                                                   \
  F(spc_context_new)                                                                               \
  F(spc_context_free) F(spc_program_from_text) F(spc_program_free) F(spc_plan_new)                 \
      F(spc_plan_free) F(spc_plan_prepare) F(spc_run) F(spc_workspace) F(spc_enqueue)
typedef struct library {
#define FIELD(name) __typeof__(&name) name;
  CALLS(FIELD)
#undef FIELD
} library;

static library linked(void) {
  library l;
#define LINK(name) l.name = name;
  CALLS(LINK)
#undef LINK
  return l;
}

static int loaded(void *handle, library *l) {
#define LOAD(name)                                                                                 \
  *(void **)&l->name = dlsym(handle, #name);                                                       \
  if (!l->name) return 0;
  CALLS(LOAD)
#undef LOAD
  return 1;
}

/* ---- one engine ------------------------------------------------------------------------------ */
enum { K = 16 };
static const char text[] =
    "spx 1; dim N: dyn; kernel k { in x: f32[N]; in a: f32[]; out y[i] = a * x[i] + 1; }";

typedef struct engine {
  const library *l;
  spc_context *context;
  spc_program *program;
  spc_plan *plan;
  spc_tensor t[3];
  float x[K], a, y[K];
  void *workspace;
  size_t bytes;
  int can_enqueue;
} engine;

static void set(spc_tensor *t, const char *name, int rank, float *values, long count) {
  memset(t, 0, sizeof *t);
  t->struct_size = sizeof *t;
  t->name = name;
  t->dtype = "f32";
  t->rank = rank;
  t->shape[0] = count;
  t->values = values;
  t->value_count = count;
}

static int failed(const char *what, const spc_error *err) {
  printf("%s: %s\n%s\n", what, err->message, err->diagnostics);
  return 0;
}

static int plan_of(engine *e) {
  spc_error err = SPC_ERROR_INIT;
  if (e->l->spc_plan_new(e->program, NULL, NULL, 0, &e->plan, &err)) return failed("plan", &err);
  for (int i = 0; i < K; i++) e->x[i] = (float)i;
  set(&e->t[0], "x", 1, e->x, K);
  set(&e->t[1], "a", 0, &e->a, 1);
  set(&e->t[2], "y", 1, e->y, K);
  e->can_enqueue = !e->l->spc_plan_prepare(e->plan, NULL);
  if (e->can_enqueue && e->l->spc_workspace(e->plan, e->t, 3, &e->bytes, &err))
    return failed("workspace", &err);
  e->workspace = aligned_alloc(256, e->bytes + 256 - e->bytes % 256);
  return 1;
}

static int engine_new(engine *e, const library *l, const char *backend, int threads) {
  spc_error err = SPC_ERROR_INIT;
  spc_context_options options;
  memset(e, 0, sizeof *e);
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.backend = backend;
  options.threads = threads;
  e->l = l;
  if (l->spc_context_new(&options, &e->context, &err)) return failed("context", &err);
  if (l->spc_program_from_text(e->context, text, strlen(text), NULL, &e->program, &err))
    return failed("program", &err);
  return plan_of(e);
}

static void plan_free(engine *e) {
  e->l->spc_plan_free(e->plan);
  free(e->workspace);
}

static void engine_free(engine *e) {
  plan_free(e);
  e->l->spc_program_free(e->program);
  e->l->spc_context_free(e->context);
}

/* Another factor and another size each time; the result is compared. */
static int run(engine *e, long number, int enqueue) {
  spc_error err;
  long size = number % (K + 1);
  err.struct_size = sizeof err;
  e->a = (float)(number % 1000);
  e->t[0].shape[0] = e->t[2].shape[0] = e->t[0].value_count = e->t[2].value_count = size;
  if (enqueue && e->can_enqueue
          ? e->l->spc_enqueue(e->plan, e->t, 3, e->workspace, e->bytes, NULL, &err)
          : e->l->spc_run(e->plan, e->t, 3, &err))
    return failed("a run", &err);
  for (long i = 0; i < size; i++)
    if (e->y[i] != e->a * (float)i + 1) return printf("run %ld is wrong\n", number), 0;
  return 1;
}

/* ---- what is measured ------------------------------------------------------------------------ */
static long resident_kb(void) {
  long pages = 0, resident = 0;
  FILE *f = fopen("/proc/self/statm", "r");
  if (!f || fscanf(f, "%ld %ld", &pages, &resident) != 2) resident = -1;
  if (f) fclose(f);
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

static int entries(const char *folder) {
  DIR *d = opendir(folder);
  int count = -2; /* . and .. */
  while (d && readdir(d)) count++;
  if (d) closedir(d);
  return count;
}

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- tests ----------------------------------------------------------------------------------- */
static int many_runs(const char *backend) {
  enum { RUNS = 1000000, WARM = 50000 };
  library l = linked();
  engine e;
  long before = 0;
  if (!engine_new(&e, &l, backend, 1)) return 0;
  long runs = e.can_enqueue ? RUNS : RUNS / 4;
  double start = seconds();
  for (long i = 0; i < runs; i++) {
    if (i == WARM) before = resident_kb();
    if (!run(&e, i, 1)) return 0;
  }
  double took = seconds() - start;
  long grown = resident_kb() - before;
  printf("%ld runs in %.2f s, grown by %ld kB\n", runs, took, grown);
  engine_free(&e);
  return grown <= 256; /* a quarter of a byte a run; the smallest leak would be 16 */
}

static int two_contexts(const char *backend) {
  library l = linked();
  engine a, b;
  if (!engine_new(&a, &l, backend, 2) || !engine_new(&b, &l, backend, 2)) return 0;
  for (long i = 0; i < 2000; i++)
    if (!run(&a, i, i & 1) || !run(&b, i + 7, i & 2)) return 0;
  engine_free(&a);
  for (long i = 0; i < 2000; i++)
    if (!run(&b, i, i & 1)) return 0;
  engine_free(&b);
  printf("8000 runs of two contexts\n");
  return 1;
}

static int child_runs(const char *backend) {
  pid_t child = fork();
  if (child == 0) {
    library l = linked();
    engine e;
    int good = engine_new(&e, &l, backend, 2);
    for (long i = 0; good && i < 200; i++) good = run(&e, i, i & 1);
    if (good) engine_free(&e);
    _exit(!good);
  }
  int status = 1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static int forked(const char *backend) {
  library l = linked();
  engine e;
  int before = child_runs(backend);
  if (!engine_new(&e, &l, backend, 2)) return 0;
  for (long i = 0; i < 200; i++)
    if (!run(&e, i, 1)) return 0;
  int beside = child_runs(backend); /* a context of its own; the parent's is not touched */
  for (long i = 0; i < 200; i++)
    if (!run(&e, i, 0)) return 0;
  engine_free(&e);
  int after = child_runs(backend);
  printf("children: before use %d, beside a context %d, after it %d\n", before, beside, after);
  return before && beside && after;
}

static int reloaded(const char *backend, const char *path) {
  enum { ROUNDS = 40, WARM = 10 };
  long before = 0;
  int threads = entries("/proc/self/task"), files = entries("/proc/self/fd");
  for (int i = 0; i < ROUNDS; i++) {
    library l;
    engine e;
    if (i == WARM) before = resident_kb();
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle || !loaded(handle, &l)) return printf("%s\n", dlerror()), 0;
    if (!engine_new(&e, &l, backend, 3)) return 0;
    for (long k = 0; k < 50; k++)
      if (!run(&e, k, k & 1)) return 0;
    engine_free(&e);
    dlclose(handle);
    for (int wait = 0; wait < 1000 && entries("/proc/self/task") != threads; wait++) usleep(1000); /* one that was joined is seen a moment longer */
    if (entries("/proc/self/task") != threads) return printf("a thread is left\n"), 0;
    if (entries("/proc/self/fd") != files) return printf("a file is left open\n"), 0;
  }
  long grown = resident_kb() - before;
  printf("%d times loaded and unloaded, grown by %ld kB in the last %d\n", ROUNDS, grown,
         ROUNDS - WARM);
  return grown <= 20 * (ROUNDS - WARM);
}

/* Everything that an engine calls, of the interpreter (LLVM ends the process when it has no
 * memory). */
static spc_status build(spc_context *context, spc_program **program, spc_error *err) {
  spc_builder *b;
  spc_status status = spc_builder_new(context, &b, err);
  if (status) return status;
  spc_build_dyn(b, "N", 0, 0);
  spc_build_kernel(b, "k");
  spc_expr size = spc_build_name(b, "N"), i = spc_build_name(b, "i");
  spc_declaration in = {.struct_size = sizeof in, .name = "x", .dtype = "f32", .rank = 1};
  in.shape = &size;
  spc_build_input(b, &in);
  spc_statement out = {.struct_size = sizeof out, .is_output = 1, .name = "y", .rank = 1};
  out.subscripts = &i;
  out.value = spc_build_access(b, "x", &i, 1);
  spc_build_statement(b, &out);
  status = spc_program_from_builder(b, NULL, program, err);
  spc_builder_free(b);
  return status;
}

static spc_status use_plan(spc_program *program, spc_error *err) {
  spc_plan *plan;
  float x[3] = {1, 2, 3}, y[3] = {0, 0, 0};
  spc_tensor t[2];
  spc_status status = spc_plan_new(program, NULL, NULL, 0, &plan, err);
  if (status) return status;
  set(&t[0], "x", 1, x, 3);
  set(&t[1], "y", 1, y, 3);
  status = spc_plan_shapes(plan, t, 2, err);
  if (!status) status = spc_count(plan, t, 2, err);
  if (!status) status = spc_run(plan, t, 2, err);
  if (!status && y[2] != 3) status = SPC_MISMATCH;
  spc_plan_free(plan);
  return status;
}

static spc_status whole_life(spc_error *err) {
  spc_context *context;
  spc_program *program;
  spc_context_options options = {.struct_size = sizeof options, .backend = "interp"};
  spc_status status = spc_context_new(&options, &context, err);
  if (status) return status;
  status = build(context, &program, err);
  if (!status) {
    status = use_plan(program, err);
    spc_program_free(program);
  }
  spc_context_free(context);
  return status;
}

static int without_memory(void) {
  static spc_error err = SPC_ERROR_INIT;
  long n = 0;
  spc_status status = whole_life(&err);
  if (status) return failed("with memory", &err);
  do {
    heap.seen = heap.live = 0;
    heap.fails = ++n;
    heap.armed = 1;
    status = whole_life(&err);
    heap.armed = 0;
    if (heap.live) return printf("allocation %ld: %ld are left\n", n, heap.live), 0;
    if (status && status != SPC_OUT_OF_MEMORY) {
      printf("allocation %ld: status %d\n", n, status);
      return failed("no memory", &err);
    }
  } while (heap.seen >= n);
  printf("%ld allocations, each failed once\n", n - 1);
  return n > 10;
}

typedef struct worker {
  engine e;
  pthread_t thread;
  int good;
} worker;

static void *work(void *user) {
  worker *w = user;
  w->good = plan_of(&w->e);
  for (long i = 0; w->good && i < 500; i++) w->good = run(&w->e, i, i % 3);
  plan_free(&w->e);
  return NULL;
}

static int many_threads(const char *backend) {
  enum { THREADS = 16 };
  static worker w[THREADS];
  library l = linked();
  engine e;
  int good = engine_new(&e, &l, backend, 2);
  for (int i = 0; good && i < THREADS; i++) {
    w[i].e = e;
    pthread_create(&w[i].thread, NULL, work, &w[i]);
  }
  for (int i = 0; good && i < THREADS; i++) pthread_join(w[i].thread, NULL);
  for (int i = 0; i < THREADS; i++) good = good && w[i].good;
  engine_free(&e);
  printf("%d threads, 500 runs each\n", THREADS);
  return good;
}

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  const char *what = argv[1], *backend = argv[2];
  int good = !strcmp(what, "runs")                  ? many_runs(backend)
             : !strcmp(what, "contexts")            ? two_contexts(backend)
             : !strcmp(what, "fork")                ? forked(backend)
             : !strcmp(what, "threads")             ? many_threads(backend)
             : !strcmp(what, "memory")              ? without_memory()
             : !strcmp(what, "reload") && argc == 4 ? reloaded(backend, argv[3])
                                                    : 0;
  return !good;
}
