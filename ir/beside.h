/* beside.h - stages that read results in listed columns where these lie side by side, the workspaces `T.listed`, and write whole results of
 * them, element by element (row `spread` of kernels.def).
 *
 *     stage u   columns of x * Wu that list g names, in u.listed          beside u, dh: their stages are `aside`
 *     stage h   h[t,f] = g[t,f]*u[t,f] on g[t,f], du[t,f] = ..            reads g at the results' own place
 *
 * Where the list's verdict says dense the tensors lie whole, in their own memory, and the stage reads them there. */
#ifndef SPC_IR_BESIDE_H
#define SPC_IR_BESIDE_H

#include "ir/tile.h"

enum { IR_MOST_BESIDE = 4 }; /* columns that a stage reads, results that it writes, other matrices that it reads at their place */

/* The stage's result stays side by side, for another stage. */
bool ir_stage_is_aside(const ir_kernel *kernel, const ir_stage *stage);
/* Its listed columns lie side by side nowhere: its kernel stores them where they belong. */
bool ir_stage_stores_in_place(const ir_kernel *kernel, const ir_stage *stage);
/* A stage that computes columns of this list, or reads them, makes the matrix: it leaves it in them too where somebody sums over them. */
bool ir_columns_beside(const ir_kernel *kernel, const ir_tensor *tensor, const ir_list *list);
/* Somebody does. */
bool ir_columns_are_read(const ir_kernel *kernel, const ir_tensor *tensor, const ir_list *list);
/* Where the list's verdict says dense what the stage reads beside is computed whole. */
bool ir_beside_may_be_whole(const ir_kernel *kernel, const ir_stage *stage);
/* Matrices that a stage's statements read at their own place and that lie as the results do, of the same dtype; returns how many. */
int ir_stage_places(const ir_stage *stage, const ir_tensor *out[IR_MOST_BESIDE]);
bool ir_lies_at_place(const ir_stmt *stmt, const ir_expr *access); /* laid out and subscripted as the result is, of any dtype */
bool ir_reads_at_place(const ir_stmt *stmt, const ir_expr *access);
#endif
