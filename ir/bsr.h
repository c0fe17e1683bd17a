/* bsr.h - matrices that are stored in blocks which lie whole, one after the other: the formats that kernels multiply as they lie.
 *
 *     bsr(64,64)  [i,j] -> [ i/64: dense, j/64: compressed, i%64: dense, j%64: dense ]     outer_dim 0, last_dim 1
 *
 * Either dimension may be the outer level's, and either may be contiguous in a block. */
#ifndef SPC_IR_BSR_H
#define SPC_IR_BSR_H

#include "ir/ir.h"

typedef struct ir_bsr {
  int outer_dim, last_dim; /* of the dense level of blocks; contiguous inside a block */
  int64_t factor[2];       /* extent of a block, by dimension */
} ir_bsr;

bool ir_bsr_of(const ir_format *format, ir_bsr *out); /* false: another format */
/* The one operand of the statement's value that is stored so, if there is no other that is stored sparse, else NULL. */
ir_expr *ir_bsr_operand(const ir_stmt *stmt, ir_bsr *out);
/* The blocks that the statement's result has, which are those of an input: nothing else is asked, and what is read of that input lies at the
 * result's own place.  NULL: it is no such statement. */
const ir_tensor *ir_bsr_result(const ir_stmt *stmt, ir_bsr *out);
enum { IR_BSR_BOX = 64, IR_BSR_MOST = 32 * IR_BSR_BOX }; /* what block extents are multiples of where kernels read them; the longest along k */
const char *ir_bsr_misfit(const ir_bsr *bsr, int k_dim); /* why kernels do not (constant text); NULL: they do */

#endif
