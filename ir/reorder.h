/* reorder.h - entries that are stored in one order become storage in another, in linear time.
 *
 * For formats of dense, compressed and singleton levels, blocks included (csr, csc, coo, dcsr, csf,
 * bsr, dense_t).  Entries keep their bits, zeros included; nothing is compared but small integers.
 * The result is the one of ir_view_pack, array by array. */
#ifndef SPC_IR_REORDER_H
#define SPC_IR_REORDER_H

#include "ir/tensor.h"

/* The formats are such: only sizes can still make it false. */
bool ir_reorders(const ir_view *from, const ir_format *format);
/* False: a level of another kind, more than 2^31 entries or elements, or something that does not
 * fit: the general way (ir_view_pack) is to be taken, and says what is wrong. */
bool ir_reorder(ir_arena *arena, const ir_view *from, const ir_format *format, ir_dtype index,
                ir_view *to);

#endif
