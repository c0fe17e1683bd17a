/* The caller's allocator (spc_context_options.allocator): everything that plans and runs take comes
 * from it and goes back, nothing else is asked for memory, spc_enqueue asks for none, and each
 * allocation may fail or be badly aligned.  Usage: allocator BACKEND; `cuda` runs on the fake
 * driver, FAKE_MEMORY=none, which computes nothing: results are compared on the others. Prints one
 * line of figures; exit code 0: all well. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "two_kernels.h"

/* ---- the C library's memory, counted -----------------------------------------------------------
 */
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t), __libc_free(void *);
static long watched, beside; /* what is asked for while a plan lives, past the allocator */

static void count(void) { beside += watched != 0; }
void *malloc(size_t bytes) { return count(), __libc_malloc(bytes); }
void *calloc(size_t n, size_t bytes) { return count(), __libc_calloc(n, bytes); }
void *realloc(void *old, size_t bytes) { return count(), __libc_realloc(old, bytes); }
void *aligned_alloc(size_t alignment, size_t bytes) {
  return count(), __libc_memalign(alignment, bytes);
}

/* ---- an allocator that keeps books -------------------------------------------------------------
 */
enum { KINDS = 3, MOST = 4096, SLACK = 256, POISON = 0xcd };
typedef struct block {
  void *at;
  char *whole;
  spc_memory kind;
} block;
typedef struct books {
  block blocks[MOST];
  long live[KINDS], calls[KINDS], releases, faults;
  long fails, shifts; /* the number of the allocation that fails; that is badly aligned; 0: none */
} books;

static long total(const books *b) {
  return b->calls[SPC_MEMORY_HOST] + b->calls[SPC_MEMORY_DEVICE] + b->calls[SPC_MEMORY_PINNED];
}

static void *take(void *user, spc_memory kind, size_t bytes, size_t alignment) {
  books *b = user;
  int i = 0;
  b->calls[kind]++;
  if (!bytes || alignment < 64 || (alignment & (alignment - 1))) b->faults++;
  if (total(b) == b->fails) return NULL;
  while (i < MOST && b->blocks[i].at) i++;
  if (i == MOST) return NULL;
  char *whole = __libc_memalign(alignment, (bytes + SLACK + alignment - 1) / alignment * alignment);
  if (!whole) return NULL;
  memset(whole, POISON, bytes + SLACK); /* nobody may count on zeros */
  b->blocks[i] = (block){whole + (total(b) == b->shifts ? 8 : 0), whole, kind};
  b->live[kind]++;
  return b->blocks[i].at;
}

static void give(void *user, spc_memory kind, void *at) {
  books *b = user;
  b->releases++;
  for (int i = 0; i < MOST; i++) {
    if (!at || b->blocks[i].at != at) continue;
    if (b->blocks[i].kind != kind) b->faults++;
    __libc_free(b->blocks[i].whole);
    b->blocks[i].at = NULL;
    b->live[kind]--;
    return;
  }
  b->faults++; /* never given, or given back before */
}

/* ---- what an engine does -----------------------------------------------------------------------
 */
enum { RUNS = 50 };
static _Alignas(256) char workspace[1 << 16];
static int on_gpu;

static spc_status use_enqueue(spc_plan *plan, spc_tensor *t, books *b, spc_error *err) {
  size_t bytes;
  spc_status status = spc_plan_prepare(plan, err);
  if (status == SPC_UNAVAILABLE) return SPC_OK; /* the interpreter */
  if (!status) status = spc_workspace(plan, t, 4, &bytes, err);
  if (!status) status = spc_plan_reserve(plan, t, 4, err);
  if (status) return status;
  spc_plan_info info = {.struct_size = sizeof info};
  if (spc_plan_describe(plan, &info, NULL) || info.reserved_bytes != bytes ||
      bytes > sizeof workspace)
    b->faults++;
  long before = total(b), given = b->releases;
  for (int i = 0; i < RUNS && !status; i++) {
    memset(y, 0xff, sizeof y);
    status = spc_enqueue(plan, t, 4, i & 1 ? workspace : NULL, i & 1 ? bytes : 0, NULL, err);
    if (!status && !(on_gpu || layer_is_right())) status = SPC_MISMATCH;
  }
  if (total(b) != before || b->releases != given) b->faults++; /* a run asks for nothing */
  return status;
}

static spc_status use_layer(spc_program *program, books *b, spc_error *err) {
  spc_plan *plan;
  spc_tensor t[4] = {tensor("x", T, D, x, T * D), tensor("W", D, F, W, D * F),
                     tensor("V", F, D, V, F * D), tensor("y", T, D, y, T * D)};
  spc_status status = spc_plan_new(program, "layer", NULL, 0, &plan, err);
  if (status) return status;
  memset(y, 0xff, sizeof y);
  status = spc_plan_shapes(plan, t, 4, err);
  if (!status) status = spc_run(plan, t, 4, err);
  if (!status && !(on_gpu || layer_is_right())) status = SPC_MISMATCH;
  if (!status) status = use_enqueue(plan, t, b, err);
  spc_plan_free(plan);
  return status;
}

static spc_status use_add(spc_program *program, spc_error *err) {
  spc_plan *plan;
  spc_tensor t[3] = {csr("A", pos, crd, values), csr("B", pos, crd, values),
                     csr("C", sum_pos, sum_crd, sums)};
  spc_status status = spc_plan_new(program, "add", NULL, 0, &plan, err);
  if (status) return status;
  status = spc_count(plan, t, 3, err);
  if (!status) status = spc_run(plan, t, 3, err);
  if (!status && !on_gpu && sums[N - 1] != 2 * N) status = SPC_MISMATCH;
  spc_plan_free(plan);
  return status;
}

static spc_status use(spc_program *program, books *b, spc_error *err) {
  watched = 1;
  spc_status status = use_layer(program, b, err);
  if (!status && !on_gpu) status = use_add(program, err); /* the fake driver counts nothing */
  watched = 0;
  return status;
}

/* ---- tests -------------------------------------------------------------------------------------
 */
static int balanced(const books *b, const char *what, long number) {
  long left = b->live[0] + b->live[1] + b->live[2];
  if (!left && !b->faults && !beside) return 1;
  printf("%s %ld: %ld are left, %ld faults, %ld beside the allocator\n", what, number, left,
         b->faults, beside);
  return 0;
}

static int tried(spc_program *program, books *b, spc_status want, const char *what, long number) {
  static spc_error err = SPC_ERROR_INIT;
  memset(b->calls, 0, sizeof b->calls);
  b->releases = 0;
  spc_status status = use(program, b, &err);
  if (!balanced(b, what, number)) return 0;
  if (status == want) return 1;
  printf("%s %ld: status %d: %s\n%s\n", what, number, status, err.message, err.diagnostics);
  return 0;
}

static int each_fails(spc_program *program, books *b, long all) {
  for (long n = 1; n <= all; n++) {
    b->fails = n;
    if (!tried(program, b, SPC_OUT_OF_MEMORY, "failing", n)) return 0;
    b->fails = 0;
    b->shifts = n;
    if (!tried(program, b, SPC_OUT_OF_MEMORY, "badly aligned", n)) return 0;
    b->shifts = 0;
  }
  return tried(program, b, SPC_OK, "after all", all);
}

int main(int argc, char **argv) {
  static books b;
  static spc_error err = SPC_ERROR_INIT;
  if (argc != 2) return 2;
  spc_allocator allocator = {
      .struct_size = sizeof allocator, .allocate = take, .release = give, .user = &b};
  spc_context_options options = {.struct_size = sizeof options, .backend = argv[1], .threads = 2};
  spc_context *context;
  spc_program *program;
  options.allocator = &allocator;
  on_gpu = !strcmp(argv[1], "cuda");
  fill();
  const char *text = on_gpu ? TWO_KERNELS("64") : TWO_KERNELS("4");
  if (spc_context_new(&options, &context, &err) ||
      spc_program_from_text(context, text, strlen(text), NULL, &program, &err))
    return printf("%s\n%s\n", err.message, err.diagnostics), 1;
  memset(&allocator, 0, sizeof allocator); /* it was copied */
  if (total(&b)) return printf("compiling asked the allocator\n"), 1;
  if (!tried(program, &b, SPC_OK, "whole", 0)) return 1;
  long host = b.calls[0], device = b.calls[1], pinned = b.calls[2], all = total(&b);
  int good = each_fails(program, &b, all) && host > 5 && (!on_gpu || (device > 3 && pinned > 0));
  printf("%ld allocations of the host, %ld of the device, %ld pinned; each failed once, each was "
         "badly aligned once\n",
         host, device, pinned);
  spc_program_free(program);
  spc_context_free(context);
  return !(good && balanced(&b, "at the end", 0));
}
