/* Every allocation of our own fails in turn, with the back end that compiles: an answer each time, nothing
 * is left, and the next life is whole again.  LLVM ends the process when it has no memory, so its
 * allocations are left alone: those that are ours are told by the place that calls.
 *
 * Usage: nomemory BACKEND sites         prints where the library allocates, one offset in libspc.so a line
 *        nomemory BACKEND OFFSET...     the allocations from these places fail, each in turn
 * tests/suite/endure.sh keeps of the first what lies in our sources (addr2line) and hands it to the second.
 * Prints one line of figures; exit code 0: all well. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define X_PITCH (D + 3)
#include "two_kernels.h"

/* ---- allocations ------------------------------------------------------------------------------- */
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t), __libc_free(void *);

enum { SITES = 4096, BLOCKS = 1 << 16 };
static uintptr_t base, sites[SITES];
static int site_count, recording;
static long seen, fails, live; /* of ours, while armed */
static int armed;
static void *blocks[BLOCKS]; /* ours that are there, by address */

static unsigned slot_of(const void *at) { return (unsigned)((uintptr_t)at / 16 * 2654435761u) % BLOCKS; }

static void add_block(void *at) {
  unsigned i = slot_of(at);
  while (blocks[i]) i = (i + 1) % BLOCKS;
  blocks[i] = at;
  live++;
}

/* Closes the gap, as tables do that probe in a line. */
static int drop_block(const void *at) {
  unsigned i = slot_of(at), hole, next;
  while (blocks[i] && blocks[i] != at) i = (i + 1) % BLOCKS;
  if (!blocks[i]) return 0;
  for (hole = i, next = (i + 1) % BLOCKS; blocks[next]; next = (next + 1) % BLOCKS) {
    unsigned home = slot_of(blocks[next]);
    if ((next - home) % BLOCKS < (next - hole) % BLOCKS) continue;
    blocks[hole] = blocks[next];
    hole = next;
  }
  blocks[hole] = NULL;
  live--;
  return 1;
}

static int is_site(uintptr_t offset) {
  for (int i = 0; i < site_count; i++)
    if (sites[i] == offset) return 1;
  return 0;
}

static int is_ours(const void *caller) {
  uintptr_t offset = (uintptr_t)caller - base;
  if (!armed || (uintptr_t)caller < base) return 0;
  if (!recording) return is_site(offset);
  if (!is_site(offset) && site_count < SITES) sites[site_count++] = offset;
  return 0;
}

/* Stages are compiled on several threads. */
static atomic_flag busy = ATOMIC_FLAG_INIT;
static void enter(void) {
  while (atomic_flag_test_and_set_explicit(&busy, memory_order_acquire)) continue;
}
static void leave(void) { atomic_flag_clear_explicit(&busy, memory_order_release); }

typedef enum asked { THEIRS, OURS, REFUSED } asked;
static asked asks(const void *caller) {
  enter();
  asked who = is_ours(caller) ? OURS : THEIRS;
  if (who == OURS && ++seen == fails) who = REFUSED;
  leave();
  return who;
}
static void *kept(asked who, void *at) {
  enter();
  if (who == OURS && at) add_block(at);
  leave();
  return at;
}
static int dropped(const void *at) {
  enter();
  int was = drop_block(at);
  leave();
  return was;
}
#define CALLER __builtin_extract_return_addr(__builtin_return_address(0))

void *malloc(size_t bytes) {
  asked who = asks(CALLER);
  return who == REFUSED ? NULL : kept(who, __libc_malloc(bytes));
}
void *calloc(size_t count, size_t bytes) {
  asked who = asks(CALLER);
  return who == REFUSED ? NULL : kept(who, __libc_calloc(count, bytes));
}
void *aligned_alloc(size_t alignment, size_t bytes) {
  asked who = asks(CALLER);
  return who == REFUSED ? NULL : kept(who, __libc_memalign(alignment, bytes));
}
void *realloc(void *old, size_t bytes) {
  asked who = asks(CALLER);
  if (who == REFUSED) return NULL;
  int was = old && dropped(old);
  return kept(was ? OURS : who, __libc_realloc(old, bytes));
}
void free(void *at) {
  if (at) dropped(at);
  __libc_free(at);
}

/* ---- one engine's life ------------------------------------------------------------------------- */
static const char text[] = TWO_KERNELS("4");
static const char wrong[] = "spx 1; dim N: dyn; kernel k { in x: f32[N]; out y[i] = z[i]; }";
static spc_error err;

static spc_status use_layer(spc_program *program) {
  spc_plan *plan;
  spc_tensor t[4] = {tensor("x", T, D, x, T * D), tensor("W", D, F, W, D * F),
                     tensor("V", F, D, V, F * D), tensor("y", T, D, y, T * D)};
  t[0].pitch = X_PITCH;
  t[0].value_count = (T - 1) * X_PITCH + D;
  spc_status status = spc_plan_new(program, "layer", NULL, 0, &plan, &err);
  if (status) return status;
  status = spc_plan_shapes(plan, t, 4, &err);
  memset(y, 0xff, sizeof y);
  if (!status) status = spc_run(plan, t, 4, &err);
  if (!status && !layer_is_right()) status = SPC_MISMATCH;
  if (!status) status = spc_plan_prepare(plan, &err);
  if (!status) status = spc_plan_reserve(plan, t, 4, &err);
  memset(y, 0xff, sizeof y);
  if (!status) status = spc_enqueue(plan, t, 4, NULL, 0, NULL, &err);
  if (!status && !layer_is_right()) status = SPC_MISMATCH;
  t[1].shape[0]++; /* a call that fails, for its message */
  if (!status && spc_enqueue(plan, t, 4, NULL, 0, NULL, &err) == SPC_OK) status = SPC_MISMATCH;
  spc_plan_free(plan);
  return status;
}

static spc_status use_add(spc_program *program) {
  spc_plan *plan;
  spc_tensor t[3] = {csr("A", pos, crd, values), csr("B", pos, crd, values),
                     csr("C", sum_pos, sum_crd, sums)};
  spc_status status = spc_plan_new(program, "add", NULL, 0, &plan, &err);
  if (status) return status;
  status = spc_count(plan, t, 3, &err);
  if (!status) status = spc_run(plan, t, 3, &err);
  if (!status && sums[N - 1] != 2 * N) status = SPC_MISMATCH;
  spc_plan_free(plan);
  return status;
}

/* What is wrong with a text is said, or that there was no memory to say it. */
static spc_status use_wrong(spc_context *context) {
  spc_program *program;
  spc_status status = spc_program_from_text(context, wrong, sizeof wrong - 1, NULL, &program, &err);
  return status == SPC_INVALID_INPUT ? SPC_OK : status ? status : SPC_MISMATCH;
}

static spc_status use(spc_context *context) {
  spc_program *program;
  spc_program_options options = {.struct_size = sizeof options, .padded = "x"};
  spc_status status =
      spc_program_from_text(context, text, sizeof text - 1, &options, &program, &err);
  if (status) return status;
  status = use_layer(program);
  if (!status) status = use_add(program);
  spc_program_free(program);
  return status ? status : use_wrong(context);
}

static spc_status life(const char *backend) {
  spc_context *context;
  spc_context_options options = {.struct_size = sizeof options, .backend = backend, .threads = 1};
  err = (spc_error)SPC_ERROR_INIT;
  spc_status status = spc_context_new(&options, &context, &err);
  if (status) return status;
  status = use(context);
  spc_context_free(context);
  return status;
}

/* ---- tests ------------------------------------------------------------------------------------- */
static spc_status watched(const char *backend, long failing) {
  seen = live = 0;
  fails = failing;
  memset(blocks, 0, sizeof blocks);
  armed = 1;
  spc_status status = life(backend);
  armed = 0;
  return status;
}

static int print_sites(const char *backend) {
  recording = 1;
  spc_status status = watched(backend, 0);
  for (int i = 0; i < site_count; i++) printf("%#lx\n", (unsigned long)(sites[i] - 1)); /* the call */
  return status == SPC_OK;
}

static int each_fails(const char *backend) {
  for (long n = 1;; n++) {
    spc_status status = watched(backend, n);
    int whole = seen < n;
    if (live) return printf("allocation %ld: %ld are left: %s\n", n, live, err.message), 0;
    if (status && (whole || (status != SPC_OUT_OF_MEMORY && status != SPC_UNAVAILABLE)))
      return printf("allocation %ld: status %d: %s\n%s\n", n, status, err.message, err.diagnostics), 0;
    if (whole) return printf("%ld allocations, each failed once\n", n - 1), n > 20;
  }
}

int main(int argc, char **argv) {
  Dl_info info;
  if (argc < 3 || !dladdr((void *)(uintptr_t)spc_context_new, &info)) return 2;
  base = (uintptr_t)info.dli_fbase;
  fill();
  if (!strcmp(argv[2], "sites")) return !print_sites(argv[1]);
  for (int i = 2; i < argc && site_count < SITES; i++) sites[site_count++] = strtoul(argv[i], NULL, 0) + 1;
  return !each_fails(argv[1]);
}
