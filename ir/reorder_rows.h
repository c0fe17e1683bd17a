/* reorder_rows.h - rows of lists into columns of lists; ir/reorder.c alone includes it. */
#ifndef SPC_IR_REORDER_ROWS_H
#define SPC_IR_REORDER_ROWS_H

#include "ir/tensor.h"

/* csr -> csc and the like with i32 positions; `to` has its format and shape.  False: it is not
 * that, or not sound. */
bool ir_reorder_rows(ir_arena *arena, const ir_view *from, const ir_format *format, ir_dtype index,
                     ir_view *to);

#endif
