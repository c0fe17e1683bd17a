/* memory.c - what the device may touch, and the instructions that touch it.
 *
 * Global memory is the host's own, inside of what was allocated here and nowhere else: an access beyond, or of memory that
 * was given back, is a fault.  So is one at an address that is no multiple of its size. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "emulator.h"
#include "modes.h"

#define HANDLER(NAME) em_outcome em_do_##NAME(em_warp *w, const em_insn *i, uint32_t lanes)

/* ---- allocations, by their addresses ----------------------------------------------------------- */
enum { GONE = 64, ALIGNED = 512 };
typedef struct range {
  uint64_t begin, end;
} range;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static range *ranges, gone[GONE]; /* gone: given back lately, for what a fault says */
static int range_count, range_room, gone_next;
static _Atomic unsigned generation = 1; /* of `ranges` */

/* The last one that begins at or before `address`; -1: none. */
static int range_before(uint64_t address) {
  int low = 0, high = range_count;
  while (low < high) {
    int middle = (low + high) / 2;
    if (ranges[middle].begin <= address) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

static bool enter(range r) {
  if (range_count == range_room) {
    int room = range_room ? 2 * range_room : 64;
    range *more = realloc(ranges, (size_t)room * sizeof *more);
    if (!more) return false;
    ranges = more;
    range_room = room;
  }
  int at = range_before(r.begin) + 1;
  memmove(ranges + at + 1, ranges + at, (size_t)(range_count - at) * sizeof *ranges);
  ranges[at] = r;
  range_count++;
  atomic_fetch_add(&generation, 1);
  return true;
}

void *em_memory_allocate(size_t bytes, int poison) {
  unsigned char *memory = bytes ? aligned_alloc(ALIGNED, (bytes + ALIGNED - 1) / ALIGNED * ALIGNED) : NULL;
  if (!memory) return NULL;
  memset(memory, poison, bytes);
  uint64_t begin = (uint64_t)(uintptr_t)memory;
  pthread_mutex_lock(&lock);
  bool entered = enter((range){begin, begin + bytes});
  pthread_mutex_unlock(&lock);
  if (entered) return memory;
  free(memory);
  return NULL;
}

bool em_memory_release(void *memory) {
  uint64_t begin = (uint64_t)(uintptr_t)memory;
  pthread_mutex_lock(&lock);
  int at = range_before(begin);
  bool ours = at >= 0 && ranges[at].begin == begin;
  if (ours) {
    gone[gone_next++ % GONE] = ranges[at];
    memmove(ranges + at, ranges + at + 1, (size_t)(range_count - at - 1) * sizeof *ranges);
    range_count--;
    atomic_fetch_add(&generation, 1);
  }
  pthread_mutex_unlock(&lock);
  if (ours) free(memory);
  return ours;
}

static bool holds(uint64_t address, size_t bytes, range *found) {
  pthread_mutex_lock(&lock);
  int at = range_before(address);
  bool inside = at >= 0 && address + bytes <= ranges[at].end;
  if (inside) *found = ranges[at];
  pthread_mutex_unlock(&lock);
  return inside;
}

bool em_memory_holds(uint64_t address, size_t bytes) {
  range found;
  return holds(address, bytes, &found);
}

/* The same, with the last few answers kept. */
static bool ask(em_machine *m, uint64_t address, size_t bytes, unsigned now) {
  range found;
  if (m->touched_generation != now) memset(m->touched, 0, sizeof m->touched);
  m->touched_generation = now;
  if (!holds(address, bytes, &found)) return false;
  unsigned at = m->touched_next++ % EM_TOUCHED;
  m->touched[at].begin = found.begin;
  m->touched[at].end = found.end;
  return true;
}
static inline bool may_touch(em_machine *m, uint64_t address, size_t bytes) {
  unsigned now = atomic_load_explicit(&generation, memory_order_relaxed);
  for (int n = 0; n < EM_TOUCHED && m->touched_generation == now; n++)
    if (address >= m->touched[n].begin && address + bytes <= m->touched[n].end) return true;
  return ask(m, address, bytes, now);
}

static const char *why_not(uint64_t address) {
  const char *why = "outside of all that is allocated";
  pthread_mutex_lock(&lock);
  int at = range_before(address);
  for (int n = 0; n < GONE; n++)
    if (address >= gone[n].begin && address < gone[n].end) why = "in memory that was given back";
  if (at >= 0 && address <= ranges[at].end + ALIGNED) why = "beyond the end of an allocation";
  if (at + 1 < range_count && ranges[at + 1].begin - address <= ALIGNED) why = "in front of an allocation";
  pthread_mutex_unlock(&lock);
  return why;
}

/* ---- the address of a lane --------------------------------------------------------------------- */
static void *place_shared(em_warp *w, const em_insn *i, int lane, uint64_t address, size_t bytes) {
  uint32_t at = (uint32_t)address & ((1u << EM_SHARED_RANK_SHIFT) - 1), rank = (uint32_t)address >> EM_SHARED_RANK_SHIFT;
  em_block *b = w->block;
  if (rank) {
    if (rank > (uint32_t)b->cluster->count) {
      em_fail(w, i, lane, "the shared address 0x%llx is of no block", (unsigned long long)address);
      return NULL;
    }
    b = b->cluster->blocks[rank - 1];
    if (!b->alive) {
      em_fail(w, i, lane, "the block of the cluster whose shared memory this is has left");
      return NULL;
    }
  }
  if (at + bytes <= b->machine->shared_whole) return b->shared + at;
  em_fail(w, i, lane, "%zu bytes at 0x%x of shared memory, which has 0x%zx", bytes, at, b->machine->shared_whole);
  return NULL;
}

static void *place_private(em_warp *w, const em_insn *i, int lane, em_space space, uint64_t address, size_t bytes) {
  const em_kernel *k = w->block->machine->kernel;
  uint64_t at = address & ~(0xfull << EM_SPACE_BIT);
  size_t whole = space == EM_LOCAL ? k->local_bytes : k->parameter_bytes;
  if (at + bytes > whole) {
    em_fail(w, i, lane, "%zu bytes at 0x%llx of %s, which has 0x%zx", bytes, (unsigned long long)at,
            space == EM_LOCAL ? "local memory" : "the parameters", whole);
    return NULL;
  }
  return space == EM_LOCAL ? w->local + (size_t)lane * k->local_bytes + at : w->block->machine->parameters + at;
}

void *em_place(em_warp *w, const em_insn *i, int lane, em_space space, uint64_t address, size_t bytes, size_t aligned) {
  if (space == EM_GENERIC || space == EM_PARAM) space = (em_space)(address >> EM_SPACE_BIT); /* what calls hand over is local */
  if (address & (aligned - 1)) {
    em_fail(w, i, lane, "the address 0x%llx is no multiple of %zu", (unsigned long long)address, aligned);
    return NULL;
  }
  if (space == EM_SHARED) return place_shared(w, i, lane, address, bytes);
  if (space != EM_GENERIC) return place_private(w, i, lane, space, address, bytes);
  if (may_touch(w->block->machine, address, bytes)) return (void *)(uintptr_t)address;
  em_fail(w, i, lane, "%zu bytes at 0x%llx, %s", bytes, (unsigned long long)address, why_not(address));
  return NULL;
}

/* The same for what is most often asked for: global memory and the block's own shared memory. */
static inline void *place(em_warp *w, const em_insn *i, int lane, uint64_t address, size_t bytes) {
  em_machine *m = w->block->machine;
  if (!(address & (bytes - 1))) {
    if (i->space == EM_SHARED && (uint32_t)address + bytes <= m->shared_whole) return w->block->shared + (uint32_t)address;
    if (i->space == EM_GENERIC && !(address >> EM_SPACE_BIT) && may_touch(m, address, bytes)) return (void *)(uintptr_t)address;
  }
  return em_place(w, i, lane, i->space, address, bytes, bytes);
}

/* ---- loads and stores -------------------------------------------------------------------------- */
static uint64_t extended(em_type t, uint64_t bits) {
  return t == EM_S8 ? (uint64_t)(int8_t)bits : t == EM_S16 ? (uint64_t)(int16_t)bits : t == EM_S32 ? (uint64_t)(int32_t)bits : bits;
}

static inline uint64_t fetched(em_type t, const unsigned char *at, size_t bytes) {
  uint64_t bits = 0;
  memcpy(&bits, at, bytes);
  return extended(t, bits);
}

HANDLER(ld) {
  const em_operand *from = em_operand_of(i, 1, 0);
  const uint64_t *base = em_read(w, from);
  size_t each = (size_t)em_type_bytes(i->type), bytes = each * (size_t)i->width;
  uint64_t *to[8];
  for (int n = 0; n < i->width; n++) to[n] = em_write(w, em_operand_of(i, 0, n));
  EM_EACH(l, lanes) {
    const unsigned char *at = place(w, i, l, base[l] + (uint64_t)from->offset, bytes);
    if (!at || (!i->mode && !em_races_touch(w, i, l, at, bytes, false))) return EM_FAULT;
    for (int n = 0; n < i->width; n++, at += each)
      to[n][l] = each == 4 ? fetched(i->type, at, 4) : each == 8 ? fetched(i->type, at, 8) : fetched(i->type, at, each);
  }
  return i->mode ? EM_YIELD : EM_NEXT;
}
HANDLER(st) {
  const em_operand *into = em_operand_of(i, 0, 0);
  const uint64_t *base = em_read(w, into), *from[8];
  size_t each = (size_t)em_type_bytes(i->type), bytes = each * (size_t)i->width;
  for (int n = 0; n < i->width; n++) from[n] = em_read(w, em_operand_of(i, 1, n));
  EM_EACH(l, lanes) {
    unsigned char *at = place(w, i, l, base[l] + (uint64_t)into->offset, bytes);
    if (!at || (!i->mode && !em_races_touch(w, i, l, at, bytes, true))) return EM_FAULT;
    for (int n = 0; n < i->width; n++) memcpy(at + each * (size_t)n, &from[n][l], each);
  }
  w->block->machine->events++;
  return EM_NEXT;
}

/* ---- atomics ----------------------------------------------------------------------------------- */
static uint64_t changed_float(const em_insn *i, uint64_t a, uint64_t b) {
  if (i->type == EM_F32) {
    float x = em_f32(a), y = em_f32(b);
    return em_f32_bits(i->mode == EM_ATOMIC_add ? x + y : i->mode == EM_ATOMIC_min ? (x < y ? x : y) : x > y ? x : y);
  }
  if (i->type == EM_F64) {
    double x = em_f64(a), y = em_f64(b);
    return em_f64_bits(i->mode == EM_ATOMIC_add ? x + y : i->mode == EM_ATOMIC_min ? (x < y ? x : y) : x > y ? x : y);
  }
  em_type half = i->type == EM_F16X2 ? EM_F16 : i->type == EM_BF16X2 ? EM_BF16 : i->type;
  uint64_t all = 0;
  for (int n = 0; n < em_type_bytes(i->type) / 2; n++) {
    double sum = (double)em_small_to_f32(half, (uint32_t)(a >> 16 * n) & 0xffff) +
                 (double)em_small_to_f32(half, (uint32_t)(b >> 16 * n) & 0xffff);
    all |= (uint64_t)em_f64_to_small(half, sum, false) << 16 * n;
  }
  return all;
}
static uint64_t changed(const em_insn *i, uint64_t a, uint64_t b, uint64_t c) {
  bool sign = i->type == EM_S32 || i->type == EM_S64;
  bool less = sign ? (int64_t)extended(i->type, a) < (int64_t)extended(i->type, b) : a < b;
  if (i->mode == EM_ATOMIC_exch) return b;
  if (i->mode == EM_ATOMIC_cas) return a == b ? c : a;
  if (i->type >= EM_F16) return changed_float(i, a, b);
  switch (i->mode) {
    case EM_ATOMIC_add: return a + b;
    case EM_ATOMIC_min: return less ? a : b;
    case EM_ATOMIC_max: return less ? b : a;
    case EM_ATOMIC_and: return a & b;
    case EM_ATOMIC_or: return a | b;
    case EM_ATOMIC_xor: return a ^ b;
    case EM_ATOMIC_inc: return a >= b ? 0 : a + 1;
    default: return !a || a > b ? b : a - 1;
  }
}
HANDLER(atom) {
  int first = i->size[0] ? 0 : 1; /* red: without the old value */
  const em_operand *where = em_operand_of(i, first, 0);
  const uint64_t *base = em_read(w, where), *x = em_source(w, i, first + 1);
  const uint64_t *y = i->group_count > first + 2 ? em_source(w, i, first + 2) : x;
  size_t bytes = (size_t)em_type_bytes(i->type);
  uint64_t most = bytes == 8 ? ~0ull : (1ull << 8 * bytes) - 1;
  EM_EACH(l, lanes) {
    uint64_t old = 0, b = x[l] & most, c = y[l] & most;
    unsigned char *at = em_place(w, i, l, i->space, base[l] + (uint64_t)where->offset, bytes, bytes);
    if (!at) return EM_FAULT;
    memcpy(&old, at, bytes);
    uint64_t now = changed(i, old, b, c);
    memcpy(at, &now, bytes);
    if (!i->size[0]) em_target(w, i, 0)[l] = old;
  }
  w->block->machine->events++;
  return EM_NEXT;
}

/* Copies of 4 to 16 bytes to shared memory, at once; what lies behind the source's size is zero. */
HANDLER(cp_async) {
  const em_operand *into = em_operand_of(i, 0, 0), *from = em_operand_of(i, 1, 0);
  const uint64_t *to = em_read(w, into), *at = em_read(w, from), *count = em_source(w, i, 2);
  const uint64_t *some = i->group_count > 3 ? em_source(w, i, 3) : count;
  EM_EACH(l, lanes) {
    size_t bytes = (size_t)(uint32_t)count[l], copied = (size_t)(uint32_t)some[l];
    if (bytes != 4 && bytes != 8 && bytes != 16) return em_fail(w, i, l, "%zu bytes at once", bytes);
    if (copied > bytes) return em_fail(w, i, l, "%zu bytes of %zu", copied, bytes);
    unsigned char *target = em_place(w, i, l, EM_SHARED, to[l] + (uint64_t)into->offset, bytes, bytes);
    const unsigned char *source = NULL;
    if (copied) source = em_place(w, i, l, EM_GENERIC, at[l] + (uint64_t)from->offset, copied, bytes);
    if (!target || (copied && !source) || !em_races_touch(w, i, l, target, bytes, true)) return EM_FAULT;
    memset(target, 0, bytes);
    if (copied) memcpy(target, source, copied);
  }
  w->block->machine->events++;
  return EM_NEXT;
}
