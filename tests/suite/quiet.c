/* What a run through the public interface asks of the system, on the host: this program stands before the C library's
 * functions and counts.  Usage: quiet BACKEND THREADS run|enqueue; one line for what comes before the first run, one line
 * a run.
 * Every run has another mask, the later ones another number of rows, and its result is compared. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "spc.h"

static struct {
  long allocations, live, files, threads, locks, code;
} n;

/* ---- counting -------------------------------------------------------------------------------- */
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t), __libc_free(void *);

void *malloc(size_t bytes) {
  n.allocations++;
  n.live++;
  return __libc_malloc(bytes);
}
void *calloc(size_t count, size_t bytes) {
  n.allocations++;
  n.live++;
  return __libc_calloc(count, bytes);
}
void *realloc(void *old, size_t bytes) {
  n.allocations++;
  n.live += !old;
  return __libc_realloc(old, bytes);
}
void *aligned_alloc(size_t alignment, size_t bytes) {
  n.allocations++;
  n.live++;
  return __libc_memalign(alignment, bytes);
}
void free(void *at) {
  n.live -= at != NULL;
  __libc_free(at);
}

#define REAL(result, name, ...)                          \
  static result (*real)(__VA_ARGS__);                    \
  if (!real) *(void **)&real = dlsym(RTLD_NEXT, name)
#define MODE(flags)                                      \
  va_list list;                                          \
  va_start(list, flags);                                 \
  int mode = flags & O_CREAT ? va_arg(list, int) : 0;    \
  va_end(list)

int open(const char *path, int flags, ...) {
  REAL(int, "open", const char *, int, ...);
  MODE(flags);
  n.files++;
  return real(path, flags, mode);
}
int open64(const char *path, int flags, ...) {
  REAL(int, "open64", const char *, int, ...);
  MODE(flags);
  n.files++;
  return real(path, flags, mode);
}
int openat(int folder, const char *path, int flags, ...) {
  REAL(int, "openat", int, const char *, int, ...);
  MODE(flags);
  n.files++;
  return real(folder, path, flags, mode);
}
FILE *fopen(const char *path, const char *how) {
  REAL(FILE *, "fopen", const char *, const char *);
  n.files++;
  return real(path, how);
}
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *user) {
  REAL(int, "pthread_create", pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
  n.threads++;
  return real(thread, attributes, start, user);
}
int pthread_mutex_lock(pthread_mutex_t *mutex) {
  REAL(int, "pthread_mutex_lock", pthread_mutex_t *);
  n.locks++;
  return real(mutex);
}
void *mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset) {
  REAL(void *, "mmap", void *, size_t, int, int, int, off_t);
  n.code += (protection & PROT_EXEC) != 0;
  return real(at, bytes, protection, flags, file, offset);
}
int mprotect(void *at, size_t bytes, int protection) {
  REAL(int, "mprotect", void *, size_t, int);
  n.code += (protection & PROT_EXEC) != 0;
  return real(at, bytes, protection);
}

static void print_counts(const char *what) {
  char line[300]; /* printf may allocate: the counts are taken first */
  snprintf(line, sizeof line, "%s allocations=%ld live=%ld files=%ld threads=%ld locks=%ld code=%ld", what, n.allocations,
           n.live, n.files, n.threads, n.locks, n.code);
  puts(line);
}

/* ---- runs ------------------------------------------------------------------------------------ */
enum { T = 48, K = 64, N = 32, RUNS = 12 };
static const char text[] =
    "spx 1; dim T: dyn; dim K = 64; dim N = 32;\n"
    "kernel k { in x: f32[T,K]; in W: f32[K,N]; let h[t,f] = relu(x[t,f]) ~ zeros(dynamic); out y[t,o] = sum[f] h[t,f]*W[f,o]; }\n"
    "schedule k { compact h axis=f gran=4x1; }\n";
static float x[T * K], W[K * N], y[T * N];
static _Alignas(256) char workspace[1 << 20];

static int is_right(long rows) {
  for (long r = 0; r < rows; r++)
    for (int o = 0; o < N; o++) {
      double want = 0;
      for (int f = 0; f < K; f++) want += (x[r * K + f] > 0 ? x[r * K + f] : 0) * W[f * N + o];
      if (want != y[r * N + o]) return 0;
    }
  return 1;
}

static int failed(const spc_error *err) {
  printf("%s\n%s\n", err->message, err->diagnostics);
  return 1;
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  int enqueues = !strcmp(argv[3], "enqueue");
  spc_error err = SPC_ERROR_INIT;
  spc_context_options options = {.struct_size = sizeof options, .backend = argv[1], .threads = atoi(argv[2])};
  spc_context *context;
  spc_program *program;
  spc_plan *plan;
  struct {
    const char *name;
    float *values;
    long rows, columns;
  } arrays[3] = {{"x", x, T, K}, {"W", W, K, N}, {"y", y, T, N}};
  spc_tensor tensors[3];
  memset(tensors, 0, sizeof tensors);
  memset(&n, 0, sizeof n);
  if (spc_context_new(&options, &context, &err) || spc_program_from_text(context, text, strlen(text), NULL, &program, &err) ||
      spc_plan_new(program, NULL, NULL, 0, &plan, &err))
    return failed(&err);
  if (enqueues && spc_plan_prepare(plan, &err)) return failed(&err);
  print_counts("before");
  for (int i = 0; i < K * N; i++) W[i] = (float)(i % 7 - 3);
  for (int run = 0; run < RUNS; run++) {
    long rows = run < RUNS / 2 ? T : 31;
    for (int i = 0; i < T * K; i++) x[i] = i % 11 < run ? -1 : (float)(i % 5);
    for (int i = 0; i < 3; i++) {
      long r = i == 1 ? K : rows;
      tensors[i] = (spc_tensor){.struct_size = sizeof *tensors, .name = arrays[i].name, .dtype = "f32", .rank = 2};
      tensors[i].shape[0] = r;
      tensors[i].shape[1] = arrays[i].columns;
      tensors[i].values = arrays[i].values;
      tensors[i].value_count = r * arrays[i].columns;
    }
    size_t bytes = 0;
    if (enqueues && spc_workspace(plan, tensors, 3, &bytes, &err)) return failed(&err);
    if (bytes > sizeof workspace) return printf("%zu bytes of workspace\n", bytes), 1;
    memset(&n, 0, sizeof n);
    if (enqueues ? spc_enqueue(plan, tensors, 3, workspace, bytes, NULL, &err) : spc_run(plan, tensors, 3, &err)) return failed(&err);
    print_counts(rows == T ? "large" : "small");
    if (!is_right(rows)) return printf("run %d is wrong\n", run), 1;
  }
  spc_plan_free(plan);
  spc_program_free(program);
  spc_context_free(context);
  return 0;
}
