/* codegen_cpu_run.h - a kernel of one function of the loop dialect, compiled and called. */
#ifndef SPC_TESTS_CODEGEN_CPU_RUN_H
#define SPC_TESTS_CODEGEN_CPU_RUN_H

#include "codegen/codegen.h"
#include "ir/target.h"

typedef struct cpu_case {
  ir_arena *arena;
  ir_program *program;
  ir_kernel *kernel;
  ir_stage *stage;
  ir_func *func;
  ir_builder build;
  ir_sink *sink;
  ir_image *image;
} cpu_case;

cpu_case cpu_case_new(void);
ir_buf *cpu_case_buf(cpu_case *c, const char *name,
                     ir_dtype t); /* appended to the function's buffers */
ir_dim *cpu_case_dim(cpu_case *c, const char *name);
void cpu_case_compile(cpu_case *c, const char *mcpu); /* asserts success */
void cpu_case_call(cpu_case *c, void *const *buffers, const int64_t *sizes, int64_t begin,
                   int64_t end);
void cpu_case_free(cpu_case *c);
const char *cpu_case_text(cpu_case *c, const char *kind, const char *mcpu);
/* for i = 0 .. count step lanes { out[i] = value(i) }: the body is built by the caller. */
ir_expr *cpu_case_load(cpu_case *c, ir_buf *buf, ir_expr *at, int lanes);
ir_expr *cpu_case_cast(cpu_case *c, ir_dtype t, ir_expr *e);
/* Distance in units of the last place of f32; 0 when both are NaN or equal. */
double cpu_ulps(float got, double want);

#endif
