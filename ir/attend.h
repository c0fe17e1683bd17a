/* attend.h - attention: two products with a softmax between them, as five statements that one kernel can compute.
 *
 *     scores   p[.., i, j] = e(sum[d] q[.., i, d] * k[.., j, d])  on c fill -inf
 *     most     r[.., i]    = max[j](where(c, x, -inf))                        x: an expression over p[.., i, j]
 *     total    z[.., i]    = sum[j](where(c, exp(x - r[.., i]), 0))
 *     weights  a[.., i, j] = where(r[.., i] == -inf, 0, exp(x - r[.., i]) / z[.., i])  on c
 *     result   o[.., i, e] = f(sum[j] a[.., i, j] * v[.., j, e])
 *
 * The middle three are what pass `canon` makes of softmax[j](x).  c is a condition, or there is none.  Nobody else reads
 * what lies between q, k, v and o. */
#ifndef SPC_IR_ATTEND_H
#define SPC_IR_ATTEND_H

#include "ir/kernels.h"
#include "ir/roles.h"
#include "ir/tile.h"

/* What a launch before the kernel leaves (kernels/tile_mask.cuh): rows that share a note; words of the mask in front of the bits, which count
 * claims, and what rows of bits are multiples of. */
enum { IR_ATTEND_NOTED = 64, IR_ATTEND_WORDS = 4 };

typedef struct ir_attend {
  ir_stmt *scores, *most, *total, *weights, *result;
  const ir_expr *argument; /* x, as `weights` has it */
  const ir_expr *score;    /* the access of p in it */
  ir_expr *condition;      /* c; NULL: there is none */
  ir_expr *q, *k, *v;      /* accesses of dense tensors by bare indices */
  ir_expr *products, *sum; /* the reductions of scores and result */
  ir_roles roles;          /* of the scores: m is i, n is j, k is d */
  ir_index *column;        /* e */
} ir_attend;

/* The statements that end in `result`; false, with *why where its weights are those of a softmax and nothing but the rest is
 * in the way, else *why is NULL. */
bool ir_attend_of(ir_arena *arena, const ir_kernel *kernel, ir_stmt *result, ir_attend *out, const char **why);
/* The same of a stage that computes all of them. */
bool ir_attend_read(ir_arena *arena, const ir_kernel *kernel, const ir_stage *stage, ir_attend *out);
/* Whether a kernel's tiles of such rows fit shared memory and registers; *bytes is what they take of the former, *boxes how many boxes of 64
 * columns of a 16-bit result a warpgroup stages at once.  The arithmetic is that of kernels/attend.cuh and attend_mma.cuh. */
bool ir_attend_fits(const ir_kernel_row *row, int head, int head_v, ir_dtype result, int *bytes, int *boxes);
bool ir_attend_has(const ir_attend *attend, const ir_stmt *stmt); /* it is one of the four before the result */

#endif
