/* print.h - what the files that print IR text share; private to print*.c.
 *
 * A writer holds the names that are printed: those of the IR, made unique where a pass left two
 * things of one function with the same name. */
#ifndef SPC_IR_PRINT_H
#define SPC_IR_PRINT_H

#include "ir/loop.h"

typedef struct ir_names {
  const struct ir_names *outer; /* names that are taken as well; may be NULL */
  IR_VEC(const char *) texts;
  ir_map places; /* in texts, by what is named */
  ir_table taken;
  ir_stems stems;
} ir_names;

typedef struct ir_writer {
  ir_text *out;
  const ir_kernel *kernel; /* NULL outside one */
  ir_names *names;         /* of locals and buffers; NULL: their own */
} ir_writer;

/* print_names.c */
bool ir_is_plain_name(const char *name); /* can stand without quotes */
void ir_put_name(ir_text *out, const char *name);
void ir_put_string(ir_text *out, const char *text); /* "..." with escapes */
void ir_put_number(ir_text *out, double value);
void ir_put_type(ir_text *out, ir_dtype dtype, int lanes); /* f32, f32x8 */
ir_names *ir_names_new(ir_arena *arena, const ir_names *outer);
void ir_names_add(ir_arena *arena, ir_names *names, const void *key, const char *name);
const char *ir_names_of(const ir_names *names, const void *key, const char *otherwise);

/* print_expr.c */
void ir_put_expr(ir_writer *w, const ir_expr *e);
void ir_put_buf(ir_writer *w, const ir_buf *buf); /* @name */
void ir_put_var(ir_writer *w, const ir_var *var); /* %name */

/* print_ein.c, print_tile.c, print_loop.c */
void ir_put_format(ir_writer *w, const ir_program *program, const ir_format *f);
void ir_put_ein(ir_writer *w);
void ir_put_tile(ir_writer *w);
void ir_put_funcs(ir_writer *w);
void ir_put_assignment(ir_writer *w, const ir_stmt *stmt); /* y[t] = value */
void ir_put_buf_decl(ir_writer *w,
                     const ir_buf *buf); /* @name : i32[count] and its clauses, no `;` */

/* The words of enums, in their order; NULL ends each. */
extern const char *const ir_words_role[],
    *const ir_words_race[], *const ir_words_zeros[], *const ir_words_directive[],
                                                         *const ir_words_stage[],
                                                             *const ir_words_verdict[],
                                                                 *const ir_words_buf[],
                                                                     *const ir_words_run[];

#endif
