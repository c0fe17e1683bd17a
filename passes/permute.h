/* permute.h - the axes of one statement, for passes that rewrite statements after `permute`. */
#ifndef SPC_PASSES_PERMUTE_H
#define SPC_PASSES_PERMUTE_H

#include "ir/ir.h"

void pass_find_axes(ir_arena *arena, ir_stmt *stmt); /* fills stmt->axes anew */

#endif
