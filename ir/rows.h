/* rows.h - a dense tensor packed row by row, without a list of its entries.
 *
 * For formats that store rows whole, in the order in which they lie: the levels above the last
 * dimension dense, then that dimension compressed (csr, csc of a column-major matrix), packed
 * (ell), or packed in tiles (twell).  Rows do not depend on each other in either pass, so that each
 * pass may be cut into ranges of rows and run by several threads. */
#ifndef SPC_IR_ROWS_H
#define SPC_IR_ROWS_H

#include "ir/tensor.h"

typedef struct ir_rows {
  const ir_view *from;
  ir_view to;
  int64_t count;         /* of rows */
  int64_t length, width; /* of a row; of a tile, where rows are cut into tiles, else a row's */
  int64_t tiles;         /* a row */
  int64_t capacity;      /* packed: of a tile; compressed: 0 */
  int64_t rest;          /* packed with counts: first position of the rest */
  int64_t *stored;       /* by tile: values that are not zero */
  int level;             /* that lists them */
  ir_dtype index;
} ir_rows;

/* False: the format is none of those above, and the general way (ir_view_pack) is to be taken. */
bool ir_rows_begin(ir_arena *arena, const ir_view *from, const ir_format *format, ir_dtype index,
                   ir_rows *rows);
void ir_rows_count(ir_rows *rows, int64_t begin, int64_t end);
/* Between the passes: the arrays of `to`.  False: something does not fit (ell's width, i32), and
 * the general way says what. */
bool ir_rows_room(ir_arena *arena, ir_rows *rows);
void ir_rows_fill(ir_rows *rows, int64_t begin, int64_t end);

#endif
