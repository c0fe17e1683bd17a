/* base.h - memory and text for every room: arenas, vectors, a text builder.
 *
 * Arenas have a lifetime (context, compile, pass scratch) and are freed whole.  An allocation
 * never returns NULL: when memory runs out the arena long-jumps to the handler that its owner set
 * with ir_arena_guard (the API's entry points do), so code between needs no checks and a compile
 * that fails leaves nothing behind.  Anything that is not arena memory (files, LLVM objects)
 * is released by its owner before control can return to such a handler.
 * Built with SPC_ARENA_MALLOC, each allocation is its own malloc, so that sanitizers see overruns.
 */
#ifndef SPC_IR_BASE_H
#define SPC_IR_BASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "spc.h"

#if defined(__GNUC__)
#define IR_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#define IR_NORETURN __attribute__((noreturn))
#else
#define IR_PRINTF(fmt, first)
#define IR_NORETURN
#endif

#define IR_COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))
#define SPC_TRY(expr)                                                                              \
  do {                                                                                             \
    spc_status try_status_ = (expr);                                                               \
    if (try_status_ != SPC_OK) return try_status_;                                                 \
  } while (0)

/* ---- memory of the caller's (spc_allocator; NULL: the C library's) ------------------------ */
enum { IR_TAKE_ALIGN = 64 }; /* what caches want; workspaces ask for more */
/* Host memory, zeroed; NULL when there is none.  The allocator outlives it. */
void *ir_take(const spc_allocator *from, size_t bytes, size_t alignment);
/* Of any kind, not zeroed; from is not NULL. */
void *ir_take_kind(const spc_allocator *from, spc_memory kind, size_t bytes, size_t alignment);
void ir_give_back(const spc_allocator *from, void *at); /* host memory; NULL is allowed */

/* ---- arenas ---------------------------------------------------------------------------- */
typedef struct ir_arena ir_arena;

ir_arena *ir_arena_new(void); /* NULL when there is no memory for the arena itself */
ir_arena *ir_arena_new_from(const spc_allocator *from); /* the same of the caller's memory */
void ir_arena_free(ir_arena *arena);                    /* NULL is allowed */
/* NULL: abort (tests, tools).  Returns what was set before. */
jmp_buf *ir_arena_guard(ir_arena *arena, jmp_buf *on_out_of_memory);
/* What is no arena memory and would be lost where no memory ends a call midway: a slot is made
 * before the thing, and what it then points to is released with the arena, the last slot first.
 * NULL: nothing. */
typedef struct ir_deferred {
  struct ir_deferred *next;
  void (*release)(void *user);
  void *user;
} ir_deferred;
ir_deferred *ir_arena_defer(ir_arena *arena, void (*release)(void *user));
size_t ir_arena_bytes(const ir_arena *arena);
void *ir_alloc(ir_arena *arena, size_t bytes); /* zeroed, 16-byte aligned, never NULL */
/* The same of any content: large arrays that are written whole anyway are not cleared first. */
void *ir_alloc_room(ir_arena *arena, size_t bytes);
/* An array that vectors run over: it begins with a cache line, because a vector that crosses two is
 * read twice, and where it is large with a large page, which is asked for: strips of columns touch
 * another small page in every row. */
void *ir_alloc_vectors(ir_arena *arena, size_t bytes);
char *ir_strndup(ir_arena *arena, const char *text, size_t length);
char *ir_strdup(ir_arena *arena, const char *text);
char *ir_format_text(ir_arena *arena, const char *format, ...) IR_PRINTF(2, 3);

#define IR_NEW(arena, type) ((type *)ir_alloc((arena), sizeof(type)))
#define IR_NEW_ARRAY(arena, type, count) ((type *)ir_alloc((arena), sizeof(type) * (size_t)(count)))

/* ---- vectors: IR_VEC(ir_expr *) args; IR_PUSH(arena, &args, e); args.at[i], args.count ---- */
#define IR_VEC(type)                                                                               \
  struct {                                                                                         \
    type *at;                                                                                      \
    int count, capacity;                                                                           \
  }
#define IR_PUSH(arena, vec, value)                                                                 \
  do {                                                                                             \
    if ((vec)->count == (vec)->capacity)                                                           \
      (vec)->at = ir_vec_grow((arena), (vec)->at, &(vec)->capacity, sizeof(*(vec)->at));           \
    (vec)->at[(vec)->count++] = (value);                                                           \
  } while (0)
void *ir_vec_grow(ir_arena *arena, void *old, int *capacity, size_t element_bytes);

/* ---- text builder: grows inside an arena; text is always NUL-terminated ---------------- */
typedef struct ir_text {
  ir_arena *arena;
  char *data;
  size_t length, capacity;
} ir_text;

ir_text ir_text_new(ir_arena *arena);
void ir_text_put(ir_text *text, const char *s);
void ir_text_putn(ir_text *text, const char *s, size_t length);
void ir_text_printf(ir_text *text, const char *format, ...) IR_PRINTF(2, 3);
void ir_text_vprintf(ir_text *text, const char *format, va_list args);
void ir_text_json(ir_text *text, const char *s); /* quoted and escaped */

/* 64-bit content hash (FNV-1a folded); stable across machines.  Not for security. */
uint64_t ir_hash(uint64_t seed, const void *data, size_t length);

#endif
