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

typedef struct ir_bindings {
  IR_VEC(ir_binding) list;
  /* Set by the interpreter when a subscript read from memory, or an offset of a ragged index, was
   * out of range (it read 0 and wrote nothing): the first one in words, else NULL. */
  const char *out_of_range;
} ir_bindings;

/* Solves the sizes of dims from the shapes of the tensors that are bound (LANGUAGE rule 2): a size
 * with one unknown dim (`N+4`, `2*N`, `K/128`) is solved for it.  sizes: by dim->number, -1
 * unknown, filled where it can be; what is known already must agree.  A disagreement names both
 * tensors, axes and sizes.  May be called again when more is bound. */
spc_status ir_solve_sizes(const ir_kernel *kernel, ir_bindings *bindings, int64_t *sizes,
                          ir_sink *sink);
/* With all sizes known: every dim that the kernel uses has one and keeps its declaration (`<= N`,
 * `% N`), divisions are exact, and no computed subscript can leave its axis (rule 12). */
spc_status ir_check_sizes(const ir_kernel *kernel, const int64_t *sizes, ir_sink *sink);

/* sizes: by dim->number, all known.  bindings: one an input (in any order, in any legal format); on
 * success one is appended for every let and out, in the format it declares (dense when it declares
 * none, or when the values of a `let` do not fit what it declares).
 * What the interpreter adds to the language's rules, where these leave room:
 *   - without strict_nan a product with a factor that is exactly 0 is 0, whatever the other is, and
 *     0 / y is 0 where the 0 belongs to a sparse or hinted operand; with it, IEEE everywhere;
 *   - integers are exact in 64 bits and wrap at the statement's accumulator at each operation, at
 *     the dtype at the end; float to integer truncates and saturates, NaN gives 0;
 *   - NaN counts as the largest in argmax and topk; softmax of a row with a NaN is NaN;
 *   - the stored pattern of an assembled sparse output is structural (explicit zeros of operands
 *     count as stored); where a result's pattern is full, its non-zero values are stored. */
spc_status ir_interp_ein(ir_arena *arena, const ir_kernel *kernel, const int64_t *sizes,
                         ir_bindings *bindings, const ir_interp_options *options, ir_sink *sink);

/* One function over raw buffers: buffers[i] belongs to func->bufs.at[i]. Bounds are checked.
 * max_steps of statements: 0 has no limit; reached: SPC_CAPACITY. */
spc_status ir_interp_loop(ir_arena *arena, const ir_func *func, const int64_t *sizes,
                          ir_array *buffers, int64_t begin, int64_t end, int64_t max_steps,
                          ir_sink *sink);

/* Generators of test data; counter-based: the same numbers on every machine (TESTING.md, LANGUAGE
 * §3). kind "rand": args seed; "randint": seed, lo, hi; "sparse": seed, density; "offsets": seed
 * (rank 1, monotone, first 0, last = limit, at least one empty segment); "iota"; "eye"; "zeros":
 * density, rows, cols, seed (DENSITY = share of kept rows x cols tiles).  Unknown kind or bad args:
 * SPC_INVALID_INPUT. */
spc_status ir_generate(ir_arena *arena, const char *kind, const double *args, int count,
                       int64_t limit, ir_view *dense);
/* How a generator is written and what it takes, for messages; NULL: there is none of that name. */
const char *ir_generator_wants(const char *kind);

/* A view of the shape that callers give or get (ir_declared) becomes one of the tensor's own, and back; the same arrays.  False: a size
 * is not known. */
bool ir_view_as_computed(const ir_tensor *t, const int64_t *sizes, ir_view *view);
bool ir_view_as_declared(const ir_tensor *t, const int64_t *sizes, ir_view *view);

#endif
