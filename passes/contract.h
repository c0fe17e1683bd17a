/* contract.h - what shape a statement has, and contractions recognised by their meaning.
 *
 * A contraction is
 *
 *     epilogue( sum[k..] A * B )
 *
 * where every factor of the sum's body was put on one of two sides. An index is
 *     m      free, carried by A only        batch  free, carried by both
 *     n      free, carried by B only        k      bound by the sum
 * Names, order of factors, casts, signs and how many indices make up m, n, k do not matter. */
#ifndef SPC_PASSES_CONTRACT_H
#define SPC_PASSES_CONTRACT_H

#include "passes/expr.h"

typedef enum pass_shape {
  PASS_ELEMENTWISE, /* accesses and scalar ops only */
  PASS_REDUCTION,   /* an elementwise epilogue around one reduction of an elementwise body */
  PASS_TOPK,        /* one topk, at the root, of an elementwise body */
  PASS_COMPOUND     /* anything else: not canonical */
} pass_shape;
pass_shape pass_shape_of(const ir_stmt *stmt);
/* The one reduction of the statement, or NULL. */
ir_expr *pass_reduction_of(const ir_stmt *stmt);
/* A scatter whose additions to one place are made in order, and a sum that is better made before them:
 * nothing about the sum has to wait.  False where `reduce` is NULL. */
bool pass_waits_in_line(const ir_stmt *stmt, const ir_expr *reduce);
/* where(c, x, identity) under a reducer: elements outside c need not be visited. True when the body
 * has that form; then *guard is c and *value is x, else NULL and the body. */
bool pass_reduce_guard(const ir_expr *reduce, ir_expr **guard, ir_expr **value);

/* One side of a contraction. */
typedef struct pass_operand {
  ir_expr *value;    /* the whole side: product of its factors, casts included */
  ir_expr *access;   /* its main access: the sparse one, else the one with most indices */
  ir_tensor *tensor; /* of that access */
  ir_expr *scale;    /* product of the side's other factors (dequantisation), or NULL */
  ir_expr *prologue; /* the factor of the main access when it is more than the access itself (a
                        cast, silu(x)), or NULL */
  bool gathered;     /* some subscript of the main access is read from memory */
  int factor_count;
  pass_indices indices;
} pass_operand;

/* The side is its main access, converted at most. */
bool pass_side_is_access(const pass_operand *side);

typedef struct pass_contraction_info {
  ir_expr *reduce;   /* the sum; the hole of the epilogue */
  ir_expr *epilogue; /* the statement's value, which holds `reduce` once */
  bool bare;         /* the epilogue is the hole itself */
  bool negative;     /* the sum is of -(A*B) */
  ir_expr *guard;    /* the body is where(guard, A*B, 0), else NULL */
  ir_expr *factor;   /* constant factors of the body, or NULL */
  pass_operand a, b;
  pass_indices batch, m, n, k;
  ir_index *ragged; /* a free ragged index whose segment the other side carries: grouped product */
} pass_contraction_info;

/* True when the statement is a contraction of two operands; fills *out. */
bool pass_contraction(ir_arena *arena, const ir_stmt *stmt, pass_contraction_info *out);
/* Row and column of a tile of the product: the last of the result's indices, as it is stored, that A alone has, and that B alone has
 * (one of a few elements, that memory does not run along, gives way to a longer one); the later one is the column.  False where a side has none, or memory runs along a batch in all three: then vectors are of that. */
bool pass_tile_of(const ir_stmt *stmt, const pass_contraction_info *info, const ir_index **row, const ir_index **column);
/* The epilogue with `value` in its hole. */
ir_expr *pass_epilogue_with(ir_arena *arena, const pass_contraction_info *info, ir_expr *value);
/* Position of a bare use of index in the access; -1: it has none. */
int pass_dim_of(const ir_expr *access, const ir_index *index);
bool pass_operand_carries(const pass_operand *operand, const ir_index *index);

#endif
