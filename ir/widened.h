/* widened.h - a product of 16-bit floats with integers of 8 bits, which may have scales of groups.
 *
 *     T[..] = e(sum[k] x[.., k] * q[.., k] * s[.., k / group])
 *
 * q is dense and holds numbers that are widened to what x is, exactly; a scale is a factor of what `group` k's sum up to. */
#ifndef SPC_IR_WIDENED_H
#define SPC_IR_WIDENED_H

#include "ir/roles.h"

typedef struct ir_widened {
  ir_expr *sum;
  ir_expr *factor; /* access of bf16 or f16 */
  ir_expr *wide;   /* access of i8 */
  ir_expr *scale;  /* access of floats, one subscript of which is k / group; NULL: there is none */
  int64_t group;   /* 0 without scales */
} ir_widened;

/* False where the statement is no such sum; the tensors may be of any format and rank. */
bool ir_widened_of(const ir_stmt *stmt, ir_widened *out);
/* Its roles, m being those of x and n those of q; every scale belongs to one n, or to none.  False where it is not one of
 * matrices. */
bool ir_widened_roles(const ir_stmt *stmt, const ir_widened *w, ir_roles *out);
/* The subscript of the scales that says which group; -1: there are none. */
int ir_widened_group_dim(const ir_widened *w);

#endif
