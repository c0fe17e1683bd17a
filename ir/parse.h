/* parse.h - the reader of IR text: tokens, names, and what the parse*.c files share; private to
 * them.
 *
 * The first fault is reported and the rest of the text is skipped: after it, the token is the end
 * and every loop stops.  Readers of expressions never return NULL, so that callers need no checks.
 */
#ifndef SPC_IR_PARSE_H
#define SPC_IR_PARSE_H

#include "ir/loop.h"

enum {
  IR_MOST_NESTING = 600,         /* parentheses, blocks */
  IR_MOST_HEIGHT = 1000,         /* of an expression tree */
  IR_MOST_DECLARATIONS = 200000, /* of one kind in one kernel or function */
  IR_MOST_TEXT = 64 << 20,       /* bytes */
  IR_MOST_LANES = 256
};

typedef enum ir_token_kind {
  IR_TOKEN_END,
  IR_TOKEN_NAME,
  IR_TOKEN_QUOTED,
  IR_TOKEN_INT,
  IR_TOKEN_FLOAT,
  IR_TOKEN_MARK
} ir_token_kind;

typedef struct ir_token {
  ir_token_kind kind;
  const char *text; /* NUL-terminated; what a quoted token means */
  ir_span span;
  uint64_t whole;  /* INT */
  double number;   /* INT, FLOAT */
  ir_dtype suffix; /* of a number: `_f32`; IR_NONE: none */
  int lanes;
} ir_token;

/* A name that is used before its declaration: like(X), segments, functions of stages. */
typedef struct ir_later {
  enum { IR_LATER_LIKE, IR_LATER_SEGMENT, IR_LATER_FUNC } kind;
  void *owner; /* the tensor, index or stage */
  const char *name;
  ir_span span;
} ir_later;

typedef struct ir_same_name { /* buffers of functions that have one name */
  IR_VEC(ir_buf *) bufs;
} ir_same_name;

typedef struct ir_reader {
  ir_arena *arena;
  ir_sink *sink;
  const char *text;
  size_t length, at;
  uint32_t file;
  ir_token token;
  bool failed;
  int nesting, height; /* height: of the expression that was read last */
  ir_program *program;
  ir_kernel *kernel; /* NULL outside one */
  ir_func *func;     /* NULL outside one */
  /* of the kernel, by name */
  ir_table workspaces, lists, funcs;
  ir_table bufs;   /* ir_same_name; those of functions, workspaces excluded */
  ir_table locals; /* of the function: variables and parameters */
  IR_VEC(ir_later) later;
} ir_reader;

/* parse_token.c */
void ir_read_token(ir_reader *r); /* to the next one */
void ir_read_fail(ir_reader *r, ir_span span, const char *format, ...) IR_PRINTF(3, 4);
void ir_read_unknown(ir_reader *r, ir_span span, const char *what, const char *name,
                     const char *const *known, int count); /* suggests the nearest */
bool ir_read_at(const ir_reader *r, const char *word_or_mark);
bool ir_read_done(const ir_reader *r, const char *closing); /* at it, or at the end */
bool ir_read_if(ir_reader *r, const char *word_or_mark);
void ir_read_expect(ir_reader *r, const char *word_or_mark);
void ir_read_enter(ir_reader *r); /* one level deeper; fails past IR_MOST_NESTING */
void ir_read_leave(ir_reader *r);
const char *ir_read_name(ir_reader *r); /* "" after a fault */
const char *ir_read_string(ir_reader *r);
int64_t ir_read_int(ir_reader *r, int64_t least, int64_t most);
double ir_read_number(ir_reader *r); /* -0.5, 3, inf */
int ir_read_word(ir_reader *r, const char *const *words,
                 const char *what);              /* its position; 0 after a fault */
ir_dtype ir_read_dtype(ir_reader *r);            /* or `pattern`: IR_NONE */
ir_dtype ir_read_type(ir_reader *r, int *lanes); /* f32x8 */
bool ir_parse_type(const char *text, ir_dtype *dtype, int *lanes);
void ir_read_gran(ir_reader *r, int *rows, int *cols); /* 64x1 */

/* parse_name.c: names to things; NULL after a fault, which is reported */
ir_tensor *ir_read_tensor(ir_reader *r);
ir_index *ir_read_index(ir_reader *r);
ir_list *ir_read_list_name(ir_reader *r);
ir_buf *ir_read_buf(ir_reader *r); /* @name: of the function, else a workspace */
ir_var *ir_read_var(ir_reader *r); /* %name */
ir_expr *ir_read_reference(ir_reader *r, const char *name, ir_span span); /* index or dim */
bool ir_read_is_new(ir_reader *r, const char *name,
                    ir_span span);                       /* no tensor, index or dim has it */
void ir_read_later(ir_reader *r, int kind, void *owner); /* reads the name, remembers it */
void ir_read_resolve(ir_reader *r);                      /* all that were remembered */
bool ir_read_room(ir_reader *r, int count);              /* fails past IR_MOST_DECLARATIONS */

/* parse_expr.c */
ir_expr *ir_read_expr(ir_reader *r);
void ir_read_subs(ir_reader *r, int rank, ir_expr **subs, const char *of,
                  ir_span span); /* [a, b] */

/* parse_format.c, parse_ein.c, parse_tile.c, parse_loop.c */
const ir_format *ir_read_format(ir_reader *r, int rank);
void ir_read_format_declaration(ir_reader *r);
void ir_read_schedule(ir_reader *r);
void ir_read_tensor_line(ir_reader *r, ir_role role);
void ir_read_index_line(ir_reader *r);
void ir_read_need(ir_reader *r);
void ir_read_stmt(ir_reader *r);
void ir_read_candidate(ir_reader *r);
void ir_read_workspace(ir_reader *r);
void ir_read_list(ir_reader *r);
void ir_read_stage(ir_reader *r);
ir_buf *ir_read_buf_rest(ir_reader *r, const char *name); /* : i32[count] kind clauses */
void ir_read_func(ir_reader *r, ir_func_kind kind);

#endif
