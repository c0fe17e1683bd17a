/* roles.h - the indices of a product of two dense tensors, dealt to the roles of a product of matrices.
 *
 *     T[..] = e(sum[k..] A[..] * B[..])
 *
 * An index of A and T alone is of m, one of B and T of n, one of A and B of k, one of all three of batch.  Several m are one
 * where their elements follow one another in A and in T (y[b,t,o] = sum[d] x[b,t,d]*w[d,o]: m is b*T + t), so with n, and
 * with k in A and B.  But where a condition or an epilogue asks for the number of one (on u <= t), the longest of them is taken alone, for
 * a number of both would have to be divided for every element.  What does not follow on (q[h,t,e] = sum[d] x[t,d]*w[d,h,e]: h) becomes an index of batch, which the
 * other operand has no step for. */
#ifndef SPC_IR_ROLES_H
#define SPC_IR_ROLES_H

#include "ir/ir.h"

/* Some indices that are one: flattened row-major, the first the slowest. */
typedef struct ir_flat {
  ir_index *at[IR_MAX_RANK];
  int count;
} ir_flat;

typedef struct ir_roles {
  ir_flat m, n, k;
  ir_flat batch;     /* indices of their own, flattened row-major as well: */
  int common;        /* the first of them are of A, B and T, the others of one operand and T */
} ir_roles;

/* a, b: accesses of dense tensors by bare indices; bound: what is summed over.  False where they are no such product. */
bool ir_roles_of(const ir_stmt *stmt, const ir_expr *a, const ir_expr *b, ir_index *const *bound, int bound_count, ir_roles *out);
/* What is summed over, as one index of both, in the order in which it lies in a; false where it is not. */
bool ir_roles_summed(const ir_expr *a, const ir_expr *b, ir_index *const *bound, int bound_count, ir_flat *out);
/* The last, whose elements lie nearest; NULL: none. */
ir_index *ir_flat_last(const ir_flat *role);
/* The product of their extents; 1 of none. */
ir_expr *ir_flat_size(ir_arena *arena, const ir_flat *role);
bool ir_flat_has(const ir_flat *role, const ir_index *index);

#endif
