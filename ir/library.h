/* library.h - a statement as a library of dense products (cuBLASLt) would compute it.
 *
 *     T[..] = e(alpha * sum[k] A * B  [+ bias]  [+ residual])        e: nothing, or relu
 *
 * Only what means the same there is such a statement: the dtypes that it sums in the statement's
 * own accumulator, no other function, nothing rounded on the way.  bias is a vector along T's
 * contiguous index, residual a matrix that lies as T does, both of T's dtype. */
#ifndef SPC_IR_LIBRARY_H
#define SPC_IR_LIBRARY_H

#include "ir/ir.h"

typedef struct ir_library_product {
  double alpha;
  ir_tensor *bias, *residual; /* NULL: none */
  bool relu;
} ir_library_product;

/* False with *why, a sentence's end, where the statement is none. */
bool ir_library_read(const ir_stmt *stmt, ir_library_product *out, const char **why);

#endif
