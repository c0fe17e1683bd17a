/* tables.h - the tables of the house as Markdown, for `spc show` and the pages in docs/ (a test
 * compares the pages with what is printed here). */
#ifndef SPC_IR_TABLES_H
#define SPC_IR_TABLES_H

#include "ir/base.h"

void ir_print_op_table(ir_text *out); /* scalar ops, then reducers */
void ir_print_dtype_table(ir_text *out);
void ir_print_level_table(ir_text *out); /* kinds of level */
void ir_print_diag_table(ir_text *out);  /* by code */

#endif
