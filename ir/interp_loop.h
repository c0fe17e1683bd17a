/* interp_loop.h - the loop interpreter's own data; nobody else includes it.
 *
 * A function is compiled once to nodes in which locals and buffers are pointers, then run.  A value
 * is one cell a lane: f for float dtypes, i for all others. */
#ifndef SPC_IR_INTERP_LOOP_H
#define SPC_IR_INTERP_LOOP_H

#include "ir/interp.h"

enum { LOOP_MAX_LANES = 64 };

typedef union cell {
  double f;
  int64_t i;
} cell;

typedef struct memory { /* a buffer: outside memory or a local */
  const ir_buf *buf;
  ir_array array;
} memory;

typedef struct local { /* a variable */
  const ir_var *var;
  cell *value;
} local;

typedef struct lnode {
  ir_kind kind;
  ir_dtype dtype;
  int lanes, count;
  struct lnode *args[3];
  const ir_op_row *row;
  ir_op op;
  ir_reducer reducer;
  ir_dtype operand; /* dtype of an op's operands */
  cell value;       /* IR_CONST, IR_DIM */
  cell *var;
  memory *memory;
} lnode;

typedef struct lcode lcode;
typedef struct lblock {
  int count;
  lcode *codes;
} lblock;

struct lcode {
  const ir_code *code;
  lnode *lo, *hi, *step, *cond, *value, *offset;
  cell *var;
  memory *memory;
  lblock body, orelse;
};

typedef struct loop_run {
  ir_arena *arena;
  const ir_func *func;
  const int64_t *sizes;
  ir_sink *sink;
  IR_VEC(memory *) memories;
  IR_VEC(local) locals;
  int64_t begin, end, steps, limit;
  int threads; /* depth of loops over threads */
  spc_status status;
} loop_run;

/* interp_loop_compile.c */
lblock loop_compile(loop_run *r, const ir_block *block);
memory *loop_memory_new(loop_run *r, const ir_buf *buf, ir_array array);
void loop_defect(loop_run *r, const char *format, ...) IR_PRINTF(2, 3);

/* interp_loop_expr.c */
void loop_eval(loop_run *r, const lnode *n, cell *out); /* n->lanes cells */
void loop_eval_as(loop_run *r, const lnode *n, int lanes,
                  cell *out); /* splatted where n is a scalar */
int64_t loop_int(loop_run *r, const lnode *n);
cell loop_apply(const ir_op_row *row, ir_dtype operand, ir_dtype result, const cell *x);
cell loop_read(const memory *m, int64_t at);
int64_t loop_lane(const cell *at, int lanes, int l); /* the offset of lane l; wraps */
bool loop_in_range(loop_run *r, const memory *m, int64_t at, const char *verb);

#endif
