/* explain.h - why each kernel is what it is, in words, as data, and as a schedule to edit. */
#ifndef SPC_PASSES_EXPLAIN_H
#define SPC_PASSES_EXPLAIN_H

#include "ir/ir.h"

void pass_explain(const ir_program *program, const ir_kernel *kernel, ir_text *out);
void pass_explain_json(const ir_program *program, const ir_kernel *kernel, ir_text *out); /* one object */
/* A `schedule` block that makes the same choices again. */
void pass_explain_schedule(const ir_program *program, const ir_kernel *kernel, ir_text *out);
/* One line, no newline: "ffn: h by gemm_mma_128x128x32; y by f lists of h, 64x1, else dense". */
void pass_explain_line(const ir_program *program, const ir_kernel *kernel, ir_text *out);

#endif
