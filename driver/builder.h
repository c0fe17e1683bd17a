/* builder.h - shared by driver/api_build*.c only: a program that is put together by calls.
 *
 * Expressions are kept as trees until a statement takes them; items are written as canonical text,
 * one statement a line.  The frontend then reads that text: so what is built is checked exactly as
 * what is written, and every diagnostic has a line to point at.  The first misuse is kept and
 * answered at the end. */
#ifndef SPC_DRIVER_BUILDER_H
#define SPC_DRIVER_BUILDER_H

#include "driver/api.h"

typedef enum build_kind {
  BUILD_ATOM,   /* a number or a name */
  BUILD_ACCESS, /* text[args] */
  BUILD_CALL,   /* text(args) */
  BUILD_PREFIX, /* text arg: `-`, `not`, `sum[d]` */
  BUILD_INFIX   /* arg text arg */
} build_kind;

typedef struct build_node {
  build_kind kind;
  const char *text;
  const char *after; /* BUILD_CALL: what follows the arguments, `, 8` of topk */
  spc_expr args[SPC_MAX_RANK];
  int count, height;
} build_node;

typedef enum build_block { BUILD_TOP, BUILD_IN_KERNEL, BUILD_IN_SCHEDULE } build_block;

struct spc_builder {
  spc_context *context;
  ir_arena *arena;
  ir_text out;
  IR_VEC(build_node) nodes; /* number n is nodes.at[n - 1] */
  build_block block;
  spc_status status; /* of the first misuse */
  char message[400];
};

/* Each call that writes is one of these around its work; memory that runs out is a misuse like
 * others. setjmp has to stand in the caller. */
#define BUILD_GUARD(b, failed)                                                                     \
  jmp_buf out_of_memory;                                                                           \
  if (!(b) || (b)->status) return failed;                                                          \
  if (setjmp(out_of_memory)) {                                                                     \
    drv_build_fault(b, SPC_OUT_OF_MEMORY, "no memory for a program");                              \
    return failed;                                                                                 \
  }                                                                                                \
  ir_arena_guard((b)->arena, &out_of_memory)

void drv_build_fault(spc_builder *b, spc_status status, const char *format, ...) IR_PRINTF(3, 4);
/* Whether `text` is a name as the language spells them; a fault with the call and the field if not.
 */
bool drv_build_is_name(spc_builder *b, const char *call, const char *field, const char *text);
/* The shortest decimal that reads back as the same number. */
const char *drv_build_number(spc_builder *b, double value);
/* Writes a value, a subscript or a size; false after a fault. */
bool drv_build_put(spc_builder *b, const char *call, const char *field, spc_expr e, bool is_value);
bool drv_build_put_list(spc_builder *b, const char *call, const char *field, const spc_expr *list,
                        int count);

#endif
