/* copies.c - mbarriers, and the copy engine: bulk copies and boxes of tensors by their maps.
 *
 * Copies are done when they are started; what waits for one still has to wait rightly, for bytes and arrivals are
 * counted.  An mbarrier lies in its eight bytes as pending 20, expected 20, bytes under way 23 (signed), phase 1. */
#include <stdio.h>
#include <stdlib.h>

#include "emulator.h"

#define HANDLER(NAME) em_outcome em_do_##NAME(em_warp *w, const em_insn *i, uint32_t lanes)

/* ---- mbarriers --------------------------------------------------------------------------------- */
typedef struct counts {
  int pending, expected, bytes, phase;
} counts;

enum { MOST_ARRIVALS = (1 << 20) - 1, MOST_BYTES = 1 << 22 };

static counts unpack(uint64_t bits) {
  return (counts){(int)(bits & MOST_ARRIVALS), (int)(bits >> 20 & MOST_ARRIVALS), (int)((int64_t)(bits << 1) >> 41), (int)(bits >> 63)};
}
static uint64_t pack(counts c) {
  return (uint64_t)c.pending | (uint64_t)c.expected << 20 | ((uint64_t)c.bytes & 0x7fffff) << 40 | (uint64_t)c.phase << 63;
}

static const int nowhere = -1; /* no group of operands */
static int memory_group(const em_insn *i, int which) {
  for (int g = 0; g < i->group_count; g++)
    if (i->groups[g].memory && which-- == 0) return g;
  return nowhere;
}

static uint64_t address_of(em_warp *w, const em_insn *i, int group, int lane) {
  const em_operand *o = em_operand_of(i, group, 0);
  return em_read(w, o)[lane] + (uint64_t)o->offset;
}

/* Adds arrivals and bytes; the phase ends when none of either is missing. */
static bool count_at(em_warp *w, const em_insn *i, int lane, uint64_t address, em_space space, int arrivals, int64_t bytes) {
  uint64_t bits;
  unsigned char *at = em_place(w, i, lane, space, address, sizeof bits, sizeof bits);
  if (!at) return false;
  memcpy(&bits, at, sizeof bits);
  if (bits == ~0ull) return em_fail(w, i, lane, "no mbarrier was made at 0x%llx", (unsigned long long)address), false;
  counts c = unpack(bits);
  if (arrivals > c.pending)
    return em_fail(w, i, lane, "one arrival more than the %d that the mbarrier expects", c.expected), false;
  if (c.bytes + bytes >= MOST_BYTES || c.bytes + bytes <= -MOST_BYTES)
    return em_fail(w, i, lane, "%lld bytes under way are more than an mbarrier counts", (long long)(c.bytes + bytes)), false;
  em_races_count(w, lane, at, bytes < 0);
  c.pending -= arrivals;
  c.bytes += (int)bytes;
  if (!c.pending && !c.bytes) {
    c.pending = c.expected;
    c.phase ^= 1;
    em_races_phase(w, at);
  }
  bits = pack(c);
  memcpy(at, &bits, sizeof bits);
  w->block->machine->events++;
  return true;
}

HANDLER(mbarrier_init) {
  EM_EACH(l, lanes) {
    uint64_t many = em_source(w, i, 1)[l] & 0xffffffff, bits;
    unsigned char *at = em_place(w, i, l, i->space, address_of(w, i, 0, l), sizeof bits, sizeof bits);
    if (!at) return EM_FAULT;
    if (!many || many > MOST_ARRIVALS) return em_fail(w, i, l, "%llu arrivals", (unsigned long long)many);
    bits = pack((counts){.pending = (int)many, .expected = (int)many});
    memcpy(at, &bits, sizeof bits);
  }
  return EM_NEXT;
}
HANDLER(mbarrier_inval) {
  EM_EACH(l, lanes) {
    unsigned char *at = em_place(w, i, l, i->space, address_of(w, i, 0, l), 8, 8);
    if (!at) return EM_FAULT;
    memset(at, 0xff, 8);
  }
  return EM_NEXT;
}
HANDLER(mbarrier_arrive) { /* mode: expects bytes besides */
  int where = memory_group(i, 0);
  bool number = i->group_count > where + 1;
  if (where > 0 && em_operand_of(i, 0, 0)->kind != EM_NOTHING) return em_fail(w, i, em_first(lanes), "states of mbarriers are not emulated");
  EM_EACH(l, lanes) {
    uint32_t n = number ? (uint32_t)em_source(w, i, where + 1)[l] : 1;
    if (!count_at(w, i, l, address_of(w, i, where, l), i->space, i->mode ? 1 : (int)n, i->mode ? (int64_t)n : 0)) return EM_FAULT;
  }
  return EM_NEXT;
}
HANDLER(mbarrier_expect) {
  EM_EACH(l, lanes) {
    if (!count_at(w, i, l, address_of(w, i, 0, l), i->space, 0, (int64_t)(uint32_t)em_source(w, i, 1)[l])) return EM_FAULT;
  }
  return EM_NEXT;
}
HANDLER(mbarrier_wait) { /* by parity; test_wait does not wait */
  uint32_t done = 0;
  if (!i->mode) return em_fail(w, i, em_first(lanes), "states of mbarriers are not emulated");
  EM_EACH(l, lanes) {
    uint64_t bits, address = address_of(w, i, 1, l);
    const unsigned char *at = em_place(w, i, l, i->space, address, sizeof bits, sizeof bits);
    if (!at) return EM_FAULT;
    memcpy(&bits, at, sizeof bits);
    if (bits == ~0ull) return em_fail(w, i, l, "no mbarrier was made at 0x%llx", (unsigned long long)address);
    bool ended = unpack(bits).phase != (int)(em_source(w, i, 2)[l] & 1);
    if (ended) em_races_seen(w, l, at);
    done |= (uint32_t)ended << l;
  }
  if (!done && !i->size[0]) return EM_WAIT;
  em_set_condition(w, em_operand_of(i, 0, 0), lanes, done);
  return done == lanes ? EM_NEXT : EM_YIELD;
}

/* ---- bulk copies ------------------------------------------------------------------------------- */
enum { CHUNK = 16, MAP_BYTES = 128 };

HANDLER(bulk_load) { /* [to], [from], bytes, [mbarrier] */
  EM_EACH(l, lanes) {
    size_t bytes = (size_t)(uint32_t)em_source(w, i, 2)[l];
    if (bytes % CHUNK) return em_fail(w, i, l, "%zu bytes are no multiple of 16", bytes);
    void *to = em_place(w, i, l, EM_SHARED, address_of(w, i, 0, l), bytes, CHUNK);
    const void *from = to ? em_place(w, i, l, EM_GENERIC, address_of(w, i, 1, l), bytes, CHUNK) : NULL;
    if (!from) return EM_FAULT;
    em_races_copy(w, l);
    if (!em_races_copies(w, i, l, to, bytes)) return EM_FAULT;
    memcpy(to, from, bytes);
    if (!count_at(w, i, l, address_of(w, i, 3, l), EM_SHARED, 0, -(int64_t)bytes)) return EM_FAULT;
  }
  return EM_NEXT;
}
HANDLER(bulk_store) { /* [to], [from], bytes */
  EM_EACH(l, lanes) {
    size_t bytes = (size_t)(uint32_t)em_source(w, i, 2)[l];
    if (bytes % CHUNK) return em_fail(w, i, l, "%zu bytes are no multiple of 16", bytes);
    const void *from = em_place(w, i, l, EM_SHARED, address_of(w, i, 1, l), bytes, CHUNK);
    void *to = from ? em_place(w, i, l, EM_GENERIC, address_of(w, i, 0, l), bytes, CHUNK) : NULL;
    if (!to || !em_races_touch(w, i, l, from, bytes, false)) return EM_FAULT;
    memcpy(to, from, bytes);
  }
  w->block->machine->events++;
  return EM_NEXT;
}

/* ---- boxes of tensors -------------------------------------------------------------------------- */
typedef struct box {
  em_tensor_map map;
  int64_t corner[5];
  uint64_t shared; /* address in the window */
  em_space space;
  bool loads;
} box;

enum { ROUNDED = 11 }; /* the element kind of f32 that becomes tf32 on the way */

static int element_bytes(int element) {
  static const int bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
  return element >= 0 && element < (int)(sizeof bytes / sizeof *bytes) ? bytes[element] : 0;
}

/* 16-byte chunks change places inside of eight (four, two) rows of 128 bytes, by the address alone. */
static uint64_t swizzled(const em_tensor_map *map, uint64_t address) {
  int bits = map->swizzle >= 128 ? 3 : map->swizzle >= 64 ? 2 : map->swizzle >= 32 ? 1 : 0;
  return address ^ ((address >> 7 & ((1u << bits) - 1)) << 4);
}

/* Whether row `at` (of all dimensions but the first) lies in the tensor, and where its first element would. */
static bool row_place(const box *b, const int64_t at[5], uint64_t *address) {
  bool inside = true;
  *address = b->map.base;
  for (int d = 1; d < b->map.rank; d++) {
    int64_t x = b->corner[d] + at[d];
    inside &= x >= 0 && x < (int64_t)b->map.extent[d];
    *address += (uint64_t)x * b->map.stride[d - 1];
  }
  return inside;
}

static void round_floats(unsigned char *bytes, size_t count) {
  for (size_t n = 0; n + 4 <= count; n += 4) {
    uint32_t v;
    memcpy(&v, bytes + n, sizeof v);
    if ((v & 0x7f800000u) != 0x7f800000u) v = (v + 0x1000u) & ~0x1fffu;
    memcpy(bytes + n, &v, sizeof v);
  }
}

/* The part of a row that lies in the tensor, between global memory and `room`, which is zero elsewhere. */
static bool move_row(em_warp *w, const em_insn *i, int lane, const box *b, uint64_t address, unsigned char *room) {
  int64_t size = element_bytes(b->map.element), first = b->corner[0] < 0 ? -b->corner[0] : 0;
  int64_t last = (int64_t)b->map.extent[0] - b->corner[0];
  if (last > b->map.box[0]) last = b->map.box[0];
  if (last <= first) return true;
  size_t bytes = (size_t)((last - first) * size);
  void *global = em_place(w, i, lane, EM_GENERIC, address + (uint64_t)((b->corner[0] + first) * size), bytes, 1);
  if (!global) return false;
  memcpy(b->loads ? (void *)(room + first * size) : global, b->loads ? global : (void *)(room + first * size), bytes);
  if (b->loads && b->map.element == ROUNDED) round_floats(room + first * size, bytes);
  return true;
}

static bool move_chunks(em_warp *w, const em_insn *i, int lane, const box *b, uint64_t offset, size_t bytes, unsigned char *room) {
  for (size_t n = 0; n < bytes; n += CHUNK) {
    unsigned char *shared = em_place(w, i, lane, b->space, swizzled(&b->map, b->shared + offset + n), CHUNK, CHUNK);
    if (!shared || !(b->loads ? em_races_copies(w, i, lane, shared, CHUNK) : em_races_touch(w, i, lane, shared, CHUNK, false))) return false;
    memcpy(b->loads ? shared : room + n, b->loads ? room + n : shared, CHUNK);
  }
  return true;
}

static bool move_box(em_warp *w, const em_insn *i, int lane, const box *b) {
  unsigned char room[256 * 8 + CHUNK];
  size_t row = (size_t)(b->map.box[0] * element_bytes(b->map.element));
  int64_t rows = 1, at[5] = {0};
  for (int d = 1; d < b->map.rank; d++) rows *= b->map.box[d];
  for (int64_t r = 0; r < rows; r++) {
    uint64_t address;
    int64_t left = r;
    for (int d = 1; d < b->map.rank; d++) {
      at[d] = left % b->map.box[d];
      left /= b->map.box[d];
    }
    bool inside = row_place(b, at, &address);
    memset(room, 0, row);
    if (b->loads && inside && !move_row(w, i, lane, b, address, room)) return false;
    if (!move_chunks(w, i, lane, b, (uint64_t)r * row, row, room)) return false;
    if (!b->loads && inside && !move_row(w, i, lane, b, address, room)) return false;
  }
  return true;
}

static bool read_box(em_warp *w, const em_insn *i, int lane, int group, box *b) {
  const void *at = em_place(w, i, lane, EM_GENERIC, address_of(w, i, group, lane), MAP_BYTES, 64);
  if (!at) return false;
  memcpy(&b->map, at, sizeof b->map);
  if (b->map.magic != EM_MAP_MAGIC) return em_fail(w, i, lane, "this is no tensor map"), false;
  if (b->map.rank != i->size[0] || i->groups[group].count != i->size[0] + 1)
    return em_fail(w, i, lane, "the map has %d dimensions", b->map.rank), false;
  for (int d = 0; d < i->size[0]; d++) b->corner[d] = (int32_t)em_read(w, em_operand_of(i, group, 1 + d))[lane];
  if (b->shared % 128) return em_fail(w, i, lane, "a box at 0x%llx of shared memory, no multiple of 128", (unsigned long long)b->shared), false;
  return true;
}

static int64_t box_bytes(const em_tensor_map *map) {
  int64_t bytes = element_bytes(map->element);
  for (int d = 0; d < map->rank; d++) bytes *= map->box[d];
  return bytes;
}

/* [to], [map, {corner}], [mbarrier](, mask of the cluster's blocks) */
HANDLER(tensor_load) {
  EM_EACH(l, lanes) {
    box b = {.shared = address_of(w, i, 0, l), .space = EM_SHARED, .loads = true};
    uint64_t barrier = address_of(w, i, 2, l), offset = (1ull << EM_SHARED_RANK_SHIFT) - 1;
    uint32_t mask = i->mode ? (uint32_t)em_source(w, i, 3)[l] & 0xffff : 1;
    if (!read_box(w, i, l, 1, &b)) return EM_FAULT;
    em_races_copy(w, l);
    EM_EACH(rank, mask) {
      if (i->mode) {
        b.shared = (b.shared & offset) | (uint64_t)(rank + 1) << EM_SHARED_RANK_SHIFT;
        barrier = (barrier & offset) | (uint64_t)(rank + 1) << EM_SHARED_RANK_SHIFT;
      }
      if (!move_box(w, i, l, &b) || !count_at(w, i, l, barrier, EM_SHARED, 0, -box_bytes(&b.map))) return EM_FAULT;
    }
  }
  return EM_NEXT;
}
HANDLER(tensor_store) { /* [map, {corner}], [from] */
  EM_EACH(l, lanes) {
    box b = {.shared = address_of(w, i, 1, l), .space = EM_SHARED};
    if (!read_box(w, i, l, 0, &b) || !move_box(w, i, l, &b)) return EM_FAULT;
  }
  w->block->machine->events++;
  return EM_NEXT;
}
