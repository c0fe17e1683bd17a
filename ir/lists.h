/* lists.h - matrices whose rows or columns are lists, from one such format into another.
 *
 * csr, csc, coo, dcsr and bsr, each by rows or by columns, say the same with other arrays around
 * the same entries: what they are turned into first is one list a row.  Nothing is sorted; work is
 * shared with a crew where there is one (crew.h), with the same result.
 *
 *     bsr(2,2)   block row 0: blocks 1 3      row 0: 2 3 6 7    read block by block, each row's
 *                                             row 1: 2 3 6 7    entries already in order
 *     csr -> csc  counted by column, then taken row by row: each entry to its column's next place
 */
#ifndef SPC_IR_LISTS_H
#define SPC_IR_LISTS_H

#include "ir/tensor.h"

/* The result is the one of ir_view_pack, array by array.  False: another format, positions or
 * coordinates in 64 bits, extents far beyond what is stored, or something that is not sound or not
 * in order: a more general way is to be taken. */
bool ir_lists_convert(ir_arena *arena, const ir_crew *crew, const ir_view *from,
                      const ir_format *format, ir_dtype index, ir_view *to);

#endif
