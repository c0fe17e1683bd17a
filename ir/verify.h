/* verify.h - what the files that check IR share; private to verify*.c and parse.c.
 *
 * A checker never follows a pointer that it has not compared with what the program owns, so that
 * it can be given what a defective pass left.  It reports at most MOST_FAULTS faults. */
#ifndef SPC_IR_VERIFY_H
#define SPC_IR_VERIFY_H

#include "ir/loop.h"

enum { IR_MOST_FAULTS = 10 };

typedef struct ir_scope { /* locals that are in scope, innermost last */
  IR_VEC(const ir_var *) vars;
  IR_VEC(const ir_buf *) bufs;
} ir_scope;

typedef struct ir_checker {
  const ir_program *program;
  const ir_kernel *kernel;
  ir_arena *arena; /* scratch */
  ir_sink *sink;
  ir_diag_id id; /* IR_DIAG_INTERNAL, or IR_DIAG_IR_RULE for a text that was read */
  ir_map owned;  /* what the kernel has: tensors, indices, statements, workspaces, .. */
  ir_map dims;   /* of the program */
  ir_table dim_names;
  ir_table functions; /* of the program, by name: those that were checked */
  int faults;
  const char *where;        /* "statement of y", "function ffn.y"; NULL outside */
  ir_span span;             /* of it */
  ir_scope *scope;          /* of the function being checked; NULL outside one */
  IR_VEC(ir_index *) bound; /* indices of the statement in scope */
  bool any_index;           /* every index of the kernel is in scope */
} ir_checker;

void ir_fault(ir_checker *c, ir_span span, const char *format, ...) IR_PRINTF(3, 4);
void ir_check_expr(ir_checker *c, const ir_expr *e);
void ir_check_dtype(ir_checker *c, const ir_expr *e, ir_dtype dtype,
                    const char *what);                                 /* and e itself */
void ir_check_size(ir_checker *c, const ir_expr *e, const char *what); /* i64 over dims only */
bool ir_owns(const ir_checker *c, const void *thing); /* the kernel at hand has it */
void ir_check_ein(ir_checker *c);
void ir_check_tile(ir_checker *c);
void ir_check_funcs(ir_checker *c);

spc_status ir_verify_as(const ir_program *program, ir_diag_id id, ir_sink *sink);
void ir_copy_spans(ir_program *to,
                   const ir_program *from); /* of two programs with one printed form */

#endif
