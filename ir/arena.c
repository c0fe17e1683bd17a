/* arena.c - arenas: chunks freed together; see base.h for the out-of-memory contract. */
#define _DEFAULT_SOURCE /* madvise */

#include <stdlib.h>
#include <sys/mman.h>

#include "ir/base.h"

typedef struct chunk {
  struct chunk *next;
  size_t used, size;
} chunk;

struct ir_arena {
  const spc_allocator *from; /* NULL: the C library */
  chunk *chunks;
  jmp_buf *on_out_of_memory;
  ir_deferred *deferred;
  size_t bytes;
};

enum { ALIGN = 16, FIRST_CHUNK = 16 * 1024, HEADER = (sizeof(chunk) + ALIGN - 1) / ALIGN * ALIGN };

ir_arena *ir_arena_new_from(const spc_allocator *from) {
  ir_arena *arena = from ? ir_take(from, sizeof *arena, IR_TAKE_ALIGN) : calloc(1, sizeof *arena);
  if (arena) arena->from = from;
  return arena;
}

ir_arena *ir_arena_new(void) { return ir_arena_new_from(NULL); }

void ir_arena_free(ir_arena *arena) {
  if (!arena) return;
  const spc_allocator *from = arena->from;
  for (ir_deferred *d = arena->deferred; d; d = d->next)
    if (d->user) d->release(d->user);
  for (chunk *c = arena->chunks, *next; c; c = next) {
    next = c->next;
    ir_give_back(from, c);
  }
  ir_give_back(from, arena);
}

jmp_buf *ir_arena_guard(ir_arena *arena, jmp_buf *on_out_of_memory) {
  jmp_buf *before = arena->on_out_of_memory;
  arena->on_out_of_memory = on_out_of_memory;
  return before;
}

size_t ir_arena_bytes(const ir_arena *arena) { return arena->bytes; }

static IR_NORETURN void out_of_memory(ir_arena *arena) {
  if (arena->on_out_of_memory) longjmp(*arena->on_out_of_memory, 1);
  fputs("spc: out of memory\n", stderr);
  abort();
}

static size_t chunk_size(const ir_arena *arena, size_t bytes) {
#ifdef SPC_ARENA_MALLOC
  (void)arena;
  return bytes;
#else
  size_t size = arena->chunks ? arena->chunks->size * 2 : FIRST_CHUNK;
  if (size > (size_t)1 << 20) size = (size_t)1 << 20;
  return size > bytes ? size : bytes;
#endif
}

/* Memory of any content for one chunk; NULL: there is none. */
static chunk *take_room(const spc_allocator *from, size_t bytes) {
  chunk *c = from ? ir_take_kind(from, SPC_MEMORY_HOST, bytes, IR_TAKE_ALIGN) : malloc(bytes);
  return c;
}

static chunk *chunk_new(ir_arena *arena, size_t bytes) {
  size_t size = chunk_size(arena, bytes);
  if (size > SIZE_MAX - HEADER) out_of_memory(arena);
  /* Zeroed; by calloc large ones only where they are touched. */
  chunk *c =
      arena->from ? ir_take(arena->from, HEADER + size, IR_TAKE_ALIGN) : calloc(1, HEADER + size);
  if (!c) out_of_memory(arena);
  *c = (chunk){.next = arena->chunks, .size = size};
  arena->chunks = c;
  return c;
}

void *ir_alloc(ir_arena *arena, size_t bytes) {
  if (bytes > SIZE_MAX - ALIGN) out_of_memory(arena);
  size_t rounded = (bytes + ALIGN - 1) / ALIGN * ALIGN;
#ifdef SPC_ARENA_MALLOC
  chunk *c = chunk_new(arena, bytes ? bytes : 1);
#else
  chunk *c = arena->chunks;
  if (!c || c->size - c->used < rounded) c = chunk_new(arena, rounded);
#endif
  char *at = (char *)c + HEADER + c->used;
  c->used += rounded;
  arena->bytes += rounded;
  return at;
}

enum { LARGE = 1 << 21, PAGE = 4096, LINE = 64 };

/* A hint: a large page is cleared at once, and found with one look. */
static void advise_large_pages(char *at, size_t bytes) {
#ifdef MADV_HUGEPAGE
  size_t ahead = (PAGE - (uintptr_t)at % PAGE) % PAGE;
  (void)madvise(at + ahead, (bytes - ahead) / PAGE * PAGE, MADV_HUGEPAGE);
#else
  (void)at, (void)bytes;
#endif
}

void *ir_alloc_room(ir_arena *arena, size_t bytes) {
  enum { LEAST = 1 << 16 };
  if (bytes < LEAST || !arena->chunks || bytes > SIZE_MAX / 2) return ir_alloc(arena, bytes);
  size_t rounded = (bytes + ALIGN - 1) / ALIGN * ALIGN;
  chunk *c = take_room(arena->from, HEADER + rounded), *first = arena->chunks;
  if (!c) out_of_memory(arena);
  *c = (chunk){.next = first->next, .used = rounded, .size = rounded};
  first->next = c; /* behind the one that small things are taken from */
  arena->bytes += rounded;
  if (rounded >= 2 * LARGE) advise_large_pages((char *)c + HEADER, rounded);
  return (char *)c + HEADER;
}

void *ir_alloc_vectors(ir_arena *arena, size_t bytes) {
  if (bytes < PAGE || bytes > SIZE_MAX / 2) return ir_alloc(arena, bytes ? bytes : 1);
  size_t align = bytes >= LARGE ? LARGE : LINE;
  char *room = ir_alloc(arena, bytes + align - 1);
  room += (align - (uintptr_t)room % align) % align;
  if (bytes >= LARGE) advise_large_pages(room, bytes);
  return room;
}

ir_deferred *ir_arena_defer(ir_arena *arena, void (*release)(void *user)) {
  ir_deferred *d = IR_NEW(arena, ir_deferred);
  *d = (ir_deferred){arena->deferred, release, NULL};
  return arena->deferred = d;
}

void *ir_vec_grow(ir_arena *arena, void *old, int *capacity, size_t element_bytes) {
  int grown = *capacity ? *capacity * 2 : 8;
  void *data = ir_alloc(arena, (size_t)grown * element_bytes);
  if (*capacity) memcpy(data, old, (size_t)*capacity * element_bytes);
  *capacity = grown;
  return data;
}
