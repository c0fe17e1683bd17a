/* interp.h - the reference interpreter: the meaning of the language, and the oracle of every test.
 *
 * ir_interp_ein walks the checked program, no pass run: f64 (or exact integers) inside a statement,
 * one rounding to the declared dtype at its end.  ir_interp_loop runs the functions of the loop
 * dialect as written, in their own dtypes.  Both are slow on purpose. */
#ifndef SPC_IR_INTERP_H
#define SPC_IR_INTERP_H

#include "ir/loop.h"
#include "ir/tensor.h"

typedef struct ir_binding {
  ir_tensor *tensor;
  ir_view view; /* inputs: given; outputs: filled by the interpreter, arrays from its arena */
} ir_binding;

typedef struct ir_interp_options {
  bool strict_nan;
  int64_t max_steps; /* 0: no limit; for fuzzing. Reached: SPC_CAPACITY */
} ir_interp_options;

/* sizes: by dim->number, all known.  bindings: one an input (in any order); on success one is
 * appended for every let and out, in the format it declares (dense when it declares none). */
typedef struct ir_bindings { IR_VEC(ir_binding) list; } ir_bindings;
spc_status ir_interp_ein(ir_arena *arena, const ir_kernel *kernel, const int64_t *sizes,
                         ir_bindings *bindings, const ir_interp_options *options, ir_sink *sink);

/* One function over raw buffers: buffers[i] belongs to func->bufs.at[i]. Bounds are checked. */
spc_status ir_interp_loop(ir_arena *arena, const ir_func *func, const int64_t *sizes,
                          ir_array *buffers, int64_t begin, int64_t end, ir_sink *sink);

/* Generators of test data; counter-based: the same numbers on every machine (TESTING.md, LANGUAGE §3).
 * kind "rand": args seed; "randint": seed, lo, hi; "sparse": seed, density; "offsets": seed (rank 1,
 * monotone, first 0, last = limit, at least one empty segment); "iota"; "eye"; "zeros": density, rows,
 * cols, seed (DENSITY = share of kept rows x cols tiles).  Unknown kind or bad args: SPC_INVALID_INPUT. */
spc_status ir_generate(ir_arena *arena, const char *kind, const double *args, int count,
                       int64_t limit, ir_view *dense);

#endif
