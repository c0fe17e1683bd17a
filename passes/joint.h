/* joint.h - two indices that follow one another wherever a statement has either, as one.
 *
 *     q[t,h,e] = sum[d] x[t,d]*W[d,h,e]      h and e are one:  q[t,n] = sum[d] x[t,d]*W[d,n] n: H*E
 *
 * Two are one where every subscript with either has both, the second right behind the first, along
 * dimensions that they go through, of dense tensors that lie row by row; nothing else asks for
 * either, and what is summed over one is summed over both. */
#ifndef SPC_PASSES_JOINT_H
#define SPC_PASSES_JOINT_H

#include "passes/pass.h"

typedef struct pass_joint pass_joint;
struct pass_joint {
  ir_index *first, *second;
  ir_index *one; /* what stands for both; may be the second, when its extent is made the product
                    afterwards */
  ir_tensor *(*tensor_of)(pass_joint *p, ir_tensor *t,
                          int at); /* t where its dims `at` and the next are one; NULL: t itself */
  void *user;
};

/* Its elements follow one another row by row, and no other tensor's storage is its own. */
bool pass_lies_in_rows(const ir_tensor *t);
/* Where the pair begins among a tensor's subscripts: -1 where neither is one; -2 where they are
 * anything else but one pair. */
int pass_joint_place(const pass_joint *p, const ir_tensor *t, ir_expr *const *subs);
bool pass_joint_in_stmt(const pass_joint *p, const ir_stmt *stmt); /* or the statement has neither */
/* No segments are theirs, and no schedule speaks of the first. */
bool pass_joint_is_free(const ir_kernel *kernel, const pass_joint *p);
/* Both as one, in place; the expressions are built anew. */
void pass_joint_make(ir_arena *arena, pass_joint *p, ir_stmt *stmt);
/* Two dimensions as one. */
void pass_joint_dims(ir_tensor *t, ir_arena *arena, int at);

#endif
