/* uses.h - who reads what in a kernel: asked in one step instead of a walk over every statement.
 *
 * A tensor and the statement that defines it share a row.  A pass that changes a statement says so
 * with pass_uses_refresh; one that takes it out says pass_uses_drop, and kernel->stmts follows at
 * the end, with pass_uses_settle. */
#ifndef SPC_PASSES_USES_H
#define SPC_PASSES_USES_H

#include "passes/expr.h"

typedef struct pass_use {
  ir_tensor *tensor;
  int structural;      /* tensors `like` it, ragged indices with offsets from it: it cannot go */
  bool sized;          /* a condition on sizes is about it: it must be there */
  bool gone;           /* its statement was dropped */
  int readers;         /* statements that read it, its own included */
  IR_VEC(int) read_by; /* their rows; some may not read it any more */
  IR_VEC(int)
  reads;              /* rows that its statement reads, each once: in value, cond, sample,
                          stores, subs */
  int size, height;   /* of the statement's value: ops and reductions; nodes above one another */
  int64_t place;      /* statements in order have ascending places */
  int before, behind; /* rows of the neighbours in that order; -1: none */
  int ahead;          /* the furthest row that it, or one before it, ever read; or itself */
  bool queued;        /* in a queue (queue.h) */
  bool in_order;      /* read_by is sorted by place */
  int stamp;          /* scratch of a walk */
} pass_use;

typedef struct pass_uses {
  ir_arena *arena;
  ir_kernel *kernel;
  ir_map rows; /* by tensor */
  IR_VEC(pass_use) list;
  int first, last; /* rows of statements */
  int stamp;
} pass_uses;

pass_uses *pass_uses_new(ir_arena *arena, ir_kernel *kernel);
int pass_uses_row(const pass_uses *uses, const ir_tensor *tensor);
pass_use *pass_use_of(const pass_uses *uses, const ir_tensor *tensor);

/* Rows of the statements that read it, in their order; settles read_by. */
const int *pass_readers_of(pass_uses *uses, const ir_tensor *tensor, int *count);
static inline ir_stmt *pass_stmt_at(const pass_uses *uses, int row) {
  return uses->list.at[row].tensor->def;
}

/* e reads the tensor, directly or through other statements. */
bool pass_uses_depends(pass_uses *uses, const ir_expr *e, const ir_tensor *tensor);

void pass_uses_refresh(pass_uses *uses, const ir_stmt *stmt); /* it reads other tensors now */
void pass_uses_drop(pass_uses *uses, const ir_stmt *stmt);
void pass_uses_insert(pass_uses *uses, ir_stmt *stmt, const ir_stmt *before); /* a new tensor's */
/* Takes what was dropped out of the kernel, and puts its statements in order. */
void pass_uses_settle(pass_uses *uses);

#endif
