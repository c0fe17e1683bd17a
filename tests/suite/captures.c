/* Captures of one thread beside what others do with plans: preparing, asking for a workspace, reserving one, freeing.
 * On the fake driver (tests/suite/fake_driver.c), which breaks a capture of the global mode as the real one does; with
 * NVRTC really compiling.  tests/gpu/enqueue.c does the same on a GPU.
 * Usage: captures (SPC_CUDA_LIB); prints one line; exit code 0: all well. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "matrix.h"

enum { T = 64, D = 256, F = 512, BYTES = 2, GLOBAL = 0 };
static const char text[] = "spx 1; dim T: dyn; dim D = 256; dim F = 512;"
                           " kernel layer { in x: bf16[T,D]; in W: bf16[D,F]; in V: bf16[F,D];"
                           " let h[t,f] = relu(sum[d] x[t,d]*W[d,f]) ~ zeros(dynamic, density=0.02..0.3);"
                           " out y[t,o] = sum[f] h[t,f]*V[f,o]; }";
static _Alignas(256) char x[T * D * BYTES], W[D * F * BYTES], V[F * D * BYTES], y[T * D * BYTES];
static spc_tensor tensors[4];
static int failed, checked;

static int (*capture_begin)(void *stream, int mode), (*capture_end)(void *stream, void **graph);
static int (*take_memory)(unsigned long long *address, size_t bytes), (*free_memory)(unsigned long long address);
static int (*exchange)(int *mode);

static void expect(int good, const char *what, const char *more) {
  checked++;
  if (!good) failed++, printf("FAIL %s %s\n", what, more);
}

static void *symbol(const char *name) {
  void *library = dlopen(getenv("SPC_CUDA_LIB"), RTLD_NOW), *at = library ? dlsym(library, name) : NULL;
  if (!at) printf("FAIL the driver has no %s\n", name), exit(1);
  return at;
}

static void find(void *to, const char *name) {
  void *at = symbol(name);
  memcpy(to, &at, sizeof at);
}

/* ---- what another thread does meanwhile ------------------------------------------------------- */
static int memory_alone(spc_program *program, spc_error *err) {
  unsigned long long address;
  (void)program, (void)err;
  return take_memory(&address, 256) || free_memory(address);
}

static int life_of_a_plan(spc_program *program, spc_error *err) {
  spc_plan *plan;
  size_t bytes;
  int status = spc_plan_new(program, NULL, NULL, 0, &plan, err);
  if (!status) status = spc_plan_prepare(plan, err);
  if (!status) status = spc_workspace(plan, tensors, 4, &bytes, err);
  if (!status) status = spc_plan_reserve(plan, tensors, 4, err);
  if (!status) status = spc_enqueue(plan, tensors, 4, NULL, 0, (void *)8, err);
  tensors[0].shape[0] = tensors[3].shape[0] = T / 2; /* and what fails */
  if (!status && spc_enqueue(plan, tensors, 3, NULL, 0, (void *)8, err) != SPC_INVALID_ARGUMENT) status = 1;
  tensors[0].shape[0] = tensors[3].shape[0] = T;
  spc_plan_free(plan);
  return status;
}

typedef struct meanwhile {
  int (*what)(spc_program *program, spc_error *err);
  spc_program *program;
  spc_error err;
  int status, mode;
} meanwhile;

static void *do_it(void *user) {
  meanwhile *m = user;
  m->status = m->what(m->program, &m->err);
  m->mode = GLOBAL;
  (void)exchange(&m->mode);
  return NULL;
}

/* 0: the capture is whole. */
static int captured(meanwhile *m, int own_thread) {
  pthread_t other;
  void *graph;
  expect(!capture_begin((void *)8, GLOBAL), "a capture", "begins");
  if (own_thread)
    do_it(m);
  else if (pthread_create(&other, NULL, do_it, m) || pthread_join(other, NULL))
    exit(1);
  return capture_end((void *)8, &graph);
}

int main(void) {
  spc_context *context;
  spc_program *program;
  spc_error err = SPC_ERROR_INIT;
  spc_context_options options = {.struct_size = sizeof options, .backend = "cuda"};
  tensors[0] = tensor("x", T, D, x), tensors[1] = tensor("W", D, F, W);
  tensors[2] = tensor("V", F, D, V), tensors[3] = tensor("y", T, D, y);
  find(&capture_begin, "cuStreamBeginCapture_v2"), find(&capture_end, "cuStreamEndCapture");
  find(&take_memory, "cuMemAlloc_v2"), find(&free_memory, "cuMemFree_v2");
  find(&exchange, "cuThreadExchangeStreamCaptureMode");
  if (spc_context_new(&options, &context, &err) ||
      spc_program_from_text(context, text, strlen(text), NULL, &program, &err))
    return printf("FAIL %s\n", err.message), 1;
  meanwhile alone = {.what = memory_alone, .err = SPC_ERROR_INIT};
  expect(captured(&alone, 0) != 0 && alone.status, "memory that is taken by a thread that is not relaxed", "breaks it");
  for (int own = 0; own < 2; own++) {
    meanwhile plan = {.what = life_of_a_plan, .program = program, .err = SPC_ERROR_INIT};
    expect(!captured(&plan, own), "the life of a plan", own ? "in the capture's own thread" : "in another thread");
    expect(!plan.status, "its calls succeed:", plan.err.message);
    expect(plan.mode == GLOBAL, "the thread's mode", "is what it was");
  }
  spc_program_free(program);
  spc_context_free(context);
  printf("%d checks, %d failed\n", checked, failed);
  return failed != 0;
}
