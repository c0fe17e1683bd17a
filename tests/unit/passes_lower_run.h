/* passes_lower_run.h - runs what `lower` made, in the loop interpreter, against the reference
 * interpreter.
 *
 * A case is a program in .spx with `@A`, `@B`, .. where formats stand, sizes for its dims, and a
 * class of data.  lower_check compiles it, lowers it, runs both, and says the first difference. */
#ifndef PASSES_LOWER_RUN_H
#define PASSES_LOWER_RUN_H

#include "ir/interp.h"
#include "passes/pass.h"

typedef enum lower_data {
  LOWER_SPARSE,
  LOWER_ZERO,
  LOWER_FULL,
  LOWER_EXPLICIT,
  LOWER_HUB,
  LOWER_DATA_COUNT
} lower_data;

typedef struct lower_case {
  const char *text;
  const char *format[4]; /* for @A, @B, @C, @D; NULL: dense */
  const char *dtype;     /* for @t; NULL: f32 */
  const char *sizes;     /* "I=5 J=7" */
  lower_data data;
  bool cpu;      /* the whole pipeline and machine code, where this build has LLVM */
  bool pipeline; /* all passes up to lower; else a stage a statement, nothing else */
  int guard;     /* 1: always sparse, 2: always dense */
  unsigned seed;
} lower_case;

/* NULL when both agree, else what happened (arena text; with the loops when they ran). */
const char *lower_check(ir_arena *arena, const lower_case *c);
/* The text of the kernel's functions after lower. */
const char *lower_text(ir_arena *arena, const lower_case *c);
/* One compute stage a statement, in formats as declared (dense where none is). */
void lower_stages_plainly(ir_kernel *kernel);
/* Runs every stage in the loop interpreter; outputs are appended to bindings. */
spc_status lower_run(ir_arena *arena, const ir_kernel *kernel, const int64_t *sizes,
                     ir_bindings *bindings, int guard, ir_sink *sink);

#endif
