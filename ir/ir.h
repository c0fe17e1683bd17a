/* ir.h - the program as data.  Read this page first; tile.h and loop.h continue it.
 *
 * One IR, one textual form, three dialects: `ein` (this file) says what is computed, `tile` how it
 * is cut into kernels, `loop` how each kernel runs.  A kernel carries all that is known so far:
 * statements always, stages once `stage` ran, functions once `lower` ran.  ir/print.c writes every
 * field, ir/parse.c reads it back: a dump after any pass is a program.
 *
 * SEMANTICS, stated once.
 *   - A statement computes every element of its left side's index space.  `order` of statements is
 *     program order; each tensor has one defining statement.
 *   - An expression is evaluated in its own dtype (the reference interpreter: in f64 or exact
 *     integers); sums are kept in the statement's accumulator; the value is rounded to the tensor's
 *     dtype once, when the statement is complete.
 *   - NaN: min, max and relu give NaN when an operand is NaN.  0 * x = 0 is assumed when zeros are
 *     skipped (Inf and NaN met only by skipped zeros do not spread); -0.0 is a zero.
 *   - Integers wrap at their own width; x / 0 and x % 0 are 0 for integers, division floors.
 *   - Order of reduction is free unless a plan asks for `reproducible`; scatters are applied in
 *     ascending order of the free indices unless `atomic`.
 *   - What a sparse format does not store is 0 in every operation.  Stored zeros are values (false
 *     as a condition, true in a pattern).  Duplicates are summed when a tensor is read from a file;
 *     in memory coordinates are sorted and unique.
 *   - A subscript that was read from memory and is out of range reads 0 and writes nothing.
 *   - Sizes and subscripts are i64.
 * Ownership: everything lives in the program's arena; nodes are never freed one by one.
 * Expressions are trees and are treated as immutable: a pass builds a new tree where it changes
 * one. */
#ifndef SPC_IR_IR_H
#define SPC_IR_IR_H

#include "ir/diag.h"
#include "ir/format.h"
#include "ir/op.h"
#include "ir/table.h"

typedef struct ir_program ir_program;
typedef struct ir_kernel ir_kernel;
typedef struct ir_dim ir_dim;
typedef struct ir_index ir_index;
typedef struct ir_tensor ir_tensor;
typedef struct ir_stmt ir_stmt;
typedef struct ir_expr ir_expr;
typedef struct ir_stage ir_stage; /* tile.h */
typedef struct ir_list ir_list;   /* tile.h */
typedef struct ir_func ir_func;   /* loop.h */
typedef struct ir_var ir_var;     /* loop.h */
typedef struct ir_buf ir_buf;     /* loop.h */

/* ---- expressions: one node shape for all three dialects ------------------------------------ */
typedef enum ir_kind {
  IR_CONST,  /* a number: f for floats, i for integers and b1 */
  IR_DIM,    /* the size named by dim (i64) */
  IR_INDEX,  /* the value of an index (i64) */
  IR_ACCESS, /* tensor[args...]; a pattern gives b1; args are i64 subscripts */
  IR_OP,     /* op applied to args, in the dtype of the operands */
  IR_CAST,   /* args[0] converted to dtype */
  IR_REDUCE, /* reducer over bound[] of args[0]; loop dialect: bound none, over the lanes of args[0]
              */
  IR_SOFTMAX, /* softmax along bound[0] of args[0]; all -inf gives zeros */
  IR_TOPK,    /* args[0] where it is among the i largest along bound[0], else 0 */
  IR_STORED,  /* b1: the access args[0] meets a stored entry, zero or not; a let without a format of
                 its own: an entry of what it would store (stores.c) */
  IR_VAR,     /* loop dialect: the value of a local */
  IR_LOAD     /* loop dialect: buf[args[0]]; args[1], when there, is a b1 mask (false reads 0) */
} ir_kind;

struct ir_expr {
  ir_kind kind;
  ir_dtype dtype;
  int lanes; /* 1: a scalar; more: a vector of the loop dialect */
  ir_op op;
  ir_reducer reducer;
  int arg_count, bound_count;
  ir_expr **args;
  ir_index **bound;
  union {
    double f;
    int64_t i; /* also k of IR_TOPK */
    ir_dim *dim;
    ir_index *index;
    ir_tensor *tensor;
    ir_var *var;
    ir_buf *buf;
  };
  ir_span span;
};

/* ---- declarations -------------------------------------------------------------------------- */
struct ir_dim {
  const char *name;
  int number;       /* its place in program->dims, and in the sizes that every kernel is given */
  int64_t value;    /* fixed size, or -1: dyn */
  int64_t bound;    /* dyn <= bound; 0: none */
  int64_t multiple; /* dyn % multiple; at least 1 */
  int64_t assumed;  /* what estimates took; 0: none were made; not part of the text */
  ir_span span;
};

/* An index variable of a kernel.  Ragged: within segment s = the value of `segment`, it ranges over
 * offsets[s] .. offsets[s+1]; `extent` is the size of the whole axis. */
struct ir_index {
  const char *name;
  ir_expr *extent;
  ir_tensor *offsets; /* NULL unless ragged */
  ir_index *segment;
  ir_span span;
};

typedef enum ir_role {
  IR_ROLE_IN,
  IR_ROLE_LET,
  IR_ROLE_OUT,
  IR_ROLE_TEMP
} ir_role; /* TEMP: made by a pass */

/* What is known about zeros: `~ zeros(...)`.  A hint, never a promise. */
typedef enum ir_zeros { IR_ZEROS_UNKNOWN, IR_ZEROS_DYNAMIC, IR_ZEROS_STATIC } ir_zeros;
typedef struct ir_pattern {
  ir_zeros zeros;
  double density_low, density_high; /* share of non-zeros; -1: not given */
  int gran_rows, gran_cols;         /* granularity of the zeros; 0: not given */
  int axis;                         /* dimension of the tensor; -1: not given */
} ir_pattern;
static inline bool ir_pattern_has_gran(const ir_pattern *pattern) { return pattern->gran_rows > 0 || pattern->gran_cols > 0; }

struct ir_tensor {
  const char *name;
  ir_role role;
  ir_dtype dtype; /* IR_NONE: a pattern without values */
  int rank;
  ir_expr *dim[IR_MAX_RANK];
  const ir_format *format; /* NULL: the compiler chooses (pass `format`) */
  ir_expr *pitch[IR_MAX_RANK]; /* dims: elements from a place of a level to the next, but for the last level, whose
                                  places follow one another; pitch[0] NULL: as the sizes say */
  ir_tensor *like; /* as like(X): shares X's level arrays */
  const ir_tensor *declared; /* how callers know it, where dimensions have become one (pass `join`) or two (pass `divide`); NULL: as here */
  const ir_tensor *view_of; /* lowering: whose memory it is, in fewer dimensions; NULL: its own */
  bool by_value;   /* its sparse format stores what is not 0: no operand's storage bounds it */
  bool constant;   /* `const`: values do not change between packings */
  bool wide;       /* an input whose positions and coordinates are i64 in memory */
  double fill;     /* value of what is not stored, in the language's eyes; 0 for operands */
  ir_pattern pattern;
  ir_stmt *def;           /* NULL for inputs */
  const char *format_why; /* pass `format`: the reason, one line */
  ir_span span;
};

/* ---- statements ---------------------------------------------------------------------------- */
typedef enum ir_race { IR_RACE_NONE, IR_RACE_FIXED, IR_RACE_ATOMIC } ir_race;

/* What pass `permute` found out about one index of one statement. */
typedef struct ir_axis {
  ir_index *index;
  bool invariant; /* may be visited in any order (rules L1-L5) */
  bool reduction;
  const char *why; /* one line: the rule that fails, or why it is free */
} ir_axis;

/* target[subs] combine= value on cond (else fill).  When every sub is a bare, distinct index the
 * combiner is IR_RED_COUNT (plain assignment: `+=` with reductions is normalised to `= sum[..]`).
 * Otherwise it is a scatter: free[] are the indices it ranges over, out starts at the identity. */
struct ir_stmt {
  ir_tensor *target;
  ir_expr *subs[IR_MAX_RANK]; /* target->rank of them */
  ir_reducer combine;         /* IR_RED_COUNT: assignment */
  ir_race race;
  IR_VEC(ir_index *) free; /* the indices the statement ranges over, in order of appearance */
  ir_expr *value;
  ir_expr *cond; /* b1, or NULL: everywhere */
  double fill;
  ir_dtype acc;
  ir_span span;
  /* what passes add; NULL or empty before */
  ir_expr *sample; /* propagate: compute only where this is true (cond and inferred) */
  ir_expr
      *support; /* propagate: the value can be non-zero only where this is true; NULL: anywhere */
  ir_expr *stores; /* canon: stored sparse, the target has an entry just where this is true, the
                      condition included (stores.c); `true`: everywhere; NULL: nobody asks */
  IR_VEC(ir_axis) axes;  /* permute */
  const char *fused_why; /* fuse: what was fused into it, or why not */
};

/* What must hold when sizes are bound and could not be decided before (the front end lists it):
 * 0 <= least and most < tensor->dim[dim], unless an index of `over` ranges over nothing;
 * and, where multiple > 0, tensor->dim[dim] % multiple == 0. */
typedef struct ir_require {
  ir_tensor *tensor;
  int dim;
  ir_expr *least,
      *most; /* size expressions: the ends of what a subscript takes; NULL: nothing to check */
  IR_VEC(ir_index *) over;
  int64_t multiple;
  ir_span span;
} ir_require;

/* ---- schedules ----------------------------------------------------------------------------- */
typedef enum ir_directive_kind {
  IR_DO_COMPACT,
  IR_DO_TILE,
  IR_DO_FUSE,
  IR_DO_FORMAT,
  IR_DO_SPLIT,
  IR_DO_DENSE,
  IR_DO_LIBRARY,
  IR_DO_STAGES,
  IR_DO_WARPS,
  IR_DO_PRECISION,
  IR_DO_REGROUP
} ir_directive_kind;

typedef struct ir_directive {
  ir_directive_kind kind;
  const char *tensor, *into; /* fuse: tensor into `into` */
  int count; /* named sizes: compact has its axis in name[0]; tile and split several */
  const char *name[8];
  int64_t size[8];
  int gran_rows, gran_cols;
  const ir_format *format;
  int64_t number; /* stages, warps */
  ir_precision precision;
  bool applied;   /* set by the pass that honoured it */
  ir_span span;
} ir_directive;

typedef struct ir_schedule {
  const char *kernel, *target; /* target NULL: every target */
  IR_VEC(ir_directive) directives;
  ir_span span;
} ir_schedule;

/* ---- kernels and programs ------------------------------------------------------------------ */
typedef struct ir_candidate ir_candidate; /* tile.h */

struct ir_kernel {
  ir_program *program;
  const char *name;
  IR_VEC(ir_tensor *) tensors; /* inputs in order of declaration, then lets, outs, temporaries */
  IR_VEC(ir_index *) indices;
  IR_VEC(ir_stmt *) stmts;     /* in an order that can be executed */
  const ir_schedule *schedule; /* the one that fits the target, or NULL */
  bool wide; /* what the kernel stores itself has i64 positions; so when an input has */
  IR_VEC(ir_require) needs; /* checked when sizes are bound */
  ir_span span;
  /* by name; written by the builders alone */
  ir_table tensors_named, indices_named;
  ir_stems stems;
  /* tile dialect */
  IR_VEC(ir_candidate *) candidates; /* the table of choices, winners and rejected, with costs */
  IR_VEC(ir_list *) lists;
  IR_VEC(ir_buf *) workspaces; /* kind IR_BUF_WORKSPACE */
  IR_VEC(ir_stage *) stages;   /* in order of execution */
  /* loop dialect */
  IR_VEC(ir_func *) funcs;
};

struct ir_program {
  ir_arena *arena;
  const char *target;     /* "cpu", "sm_90a", ...; NULL before the pipeline starts */
  int after;              /* number of the last pass that ran; 0: fresh from the front end */
  const char *after_name; /* its name, for the reader of a dump; may be NULL */
  bool strict_nan, reproducible, batch_invariant;
  bool unpacked; /* what depends on const inputs alone is made in each run: nobody packs it before */
  IR_VEC(ir_dim *) dims;
  IR_VEC(const ir_format *) formats; /* the user's own, for printing */
  IR_VEC(ir_schedule *) schedules;
  IR_VEC(ir_kernel *) kernels;
  ir_table dims_named, kernels_named; /* written by the builders alone */
};

/* ---- building (ir/build.c) ------------------------------------------------------------------ */
ir_program *ir_program_new(ir_arena *arena);
ir_kernel *ir_kernel_new(ir_program *program, const char *name);
ir_dim *ir_dim_new(ir_program *program, const char *name);
ir_index *ir_index_new(ir_kernel *kernel, const char *name, ir_expr *extent);
ir_tensor *ir_tensor_owner(const ir_tensor *tensor); /* whose level arrays it has: follows `like` */
/* i32 or i64: positions and coordinates of a tensor's levels in memory. */
ir_dtype ir_index_dtype(const ir_kernel *kernel, const ir_tensor *tensor);
/* An input, or all of a kernel (NULL), gets i64 positions; before any pass runs. */
void ir_widen(ir_kernel *kernel, ir_tensor *input);
ir_tensor *ir_tensor_new(ir_kernel *kernel, const char *name, ir_role role, ir_dtype dtype);
ir_stmt *ir_stmt_new(ir_kernel *kernel, ir_tensor *target);     /* not yet in kernel->stmts */
const char *ir_fresh_name(ir_kernel *kernel, const char *stem); /* no dim, tensor or index has it */
void ir_tensor_free_name(ir_kernel *kernel, const ir_tensor *tensor); /* it will be dropped */
/* Takes out of the kernel what is a key of `gone`: tensors with the conditions on their sizes;
 * indices. */
void ir_tensors_drop(ir_kernel *kernel, const ir_map *gone);
void ir_indices_drop(ir_kernel *kernel, const ir_map *gone);

ir_expr *ir_const_f(ir_arena *a, ir_dtype t, double value);
ir_expr *ir_const_i(ir_arena *a, ir_dtype t, int64_t value);
ir_expr *ir_int(ir_arena *a, int64_t value); /* an i64 constant */
ir_expr *ir_dim_ref(ir_arena *a, ir_dim *dim);
ir_expr *ir_index_ref(ir_arena *a, ir_index *index);
ir_expr *ir_access(ir_arena *a, ir_tensor *tensor, ir_expr **subs); /* copies rank pointers */
ir_expr *ir_apply(ir_arena *a, ir_op op, ir_expr *x,
                  ir_expr *y); /* y NULL for unary; folds i64 constants */
ir_expr *ir_apply3(ir_arena *a, ir_op op, ir_expr *x, ir_expr *y, ir_expr *z);
ir_expr *ir_ceil_div(ir_arena *a, ir_expr *x,
                     int64_t divisor); /* (x + (divisor-1)) / divisor: i64, rounded up */
ir_expr *ir_round_up(ir_arena *a, ir_expr *x, int64_t step); /* that, times the divisor; not folded, so that it says what was rounded */
ir_expr *ir_cast(ir_arena *a, ir_dtype t, ir_expr *x); /* x itself when it has that dtype */
ir_expr *ir_reduce(ir_arena *a, ir_reducer r, ir_index **bound, int count, ir_expr *body);
ir_expr *ir_row_op(ir_arena *a, ir_kind softmax_or_topk, ir_index *along, ir_expr *body, int64_t k);
/* The parts of the above that decide nothing: a node with room for its args; an op that is not
 * folded. */
ir_expr *ir_node_new(ir_arena *a, ir_kind kind, ir_dtype dtype, int lanes, int arg_count);
ir_expr *ir_op_new(ir_arena *a, ir_op op, ir_expr *const *args, int count);
ir_expr *ir_copy_with(ir_arena *a, const ir_expr *e, ir_expr **args); /* same node, other args */

/* ---- asking (ir/query.c) -------------------------------------------------------------------- */
bool ir_expr_equal(const ir_expr *a, const ir_expr *b); /* structural; spans do not count */
uint64_t ir_expr_hash(const ir_expr *e); /* the same for equal ones; NULL is allowed */
bool ir_expr_alike(const ir_expr *a, const ir_expr *b); /* equal, but for names of bound indices */
bool ir_expr_uses_index(const ir_expr *e, const ir_index *index); /* free uses */
/* It uses the index, or goes along rows of the segment that the index says. */
bool ir_expr_depends_on(const ir_expr *e, const ir_index *index);
bool ir_expr_uses_tensor(const ir_expr *e, const ir_tensor *tensor);
bool ir_expr_uses_dim(const ir_expr *e, const ir_dim *dim);
/* The first matrix of the statement's two free indices that is false, or zero, only where `support`
 * is false; NULL: none. */
const ir_expr *ir_asked_matrix(const ir_stmt *stmt);
bool ir_is_bare(const ir_expr *sub, const ir_index *index); /* sub is just that index */
bool ir_tensor_is_inner(const ir_tensor *tensor); /* a let or a temporary: no caller knows it */
int ir_last_dim(const ir_tensor *tensor); /* the dimension that its innermost level is, along which elements lie side by side */
/* Subscript d of the access is just that index, which is as long as the dimension: it goes through all that is stored along it.
 * x[i+0] of a longer x is bare and does not. */
bool ir_goes_through(const ir_expr *access, int d, const ir_index *index);
ir_expr *ir_tensor_extent(const ir_tensor *t, int d); /* dim[d], of one that this kernel makes before it was rounded up: behind that nobody has written */
const ir_expr *ir_rounded(const ir_expr *size); /* what ir_round_up rounded; NULL: the size is not made so */
/* p[i], casts aside, with p a dense vector of integers: what names a row for each i.  NULL: it is none. */
const ir_expr *ir_row_name(const ir_expr *sub);
bool ir_const_value(const ir_expr *e, double *value);       /* true for numeric constants */
bool ir_is_scatter(const ir_stmt *stmt);
ir_dim *ir_dim_named(const ir_program *program, const char *name);
ir_tensor *ir_tensor_named(const ir_kernel *kernel, const char *name);
ir_index *ir_index_named(const ir_kernel *kernel, const char *name);
ir_kernel *ir_kernel_named(const ir_program *program, const char *name);
/* Replaces free uses of indices (from[i] by to[i]) and rebuilds. */
ir_expr *ir_expr_substitute(ir_arena *a, const ir_expr *e, ir_index *const *from,
                            ir_expr *const *to, int count);
/* Calls visit on every node, parents first; stops early when it returns false. */
bool ir_expr_walk(ir_expr *e, bool (*visit)(void *user, ir_expr *node), void *user);

/* The dynamic size along which the kernel can be run piece by piece (ir/chunk.c): the first dimension of every result, whose rows
 * depend on the same rows of the inputs that have it there, and on inputs that do not have it; all of these are dense.  NULL: there
 * is none. */
const ir_dim *ir_chunk_dim(const ir_kernel *kernel);

/* Where a result stored sparse has an entry (ir/stores.c): a condition over IR_STORED, patterns and
 * what the program's own conditions look at.  NULL: everywhere. */
ir_expr *ir_stores_of(ir_arena *arena, const ir_expr *e);
ir_expr *ir_stores_of_stmt(ir_arena *arena, const ir_stmt *stmt);
/* stores[i] for statement i, `true` for everywhere; NULL where no sparse result asks. */
void ir_stores_of_kernel(ir_arena *arena, const ir_kernel *kernel, ir_expr **stores);

/* The tensor as callers give or get it: names, rank, shape, format. */
static inline const ir_tensor *ir_declared(const ir_tensor *tensor) { return tensor->declared ? tensor->declared : tensor; }
/* The record of how t was declared: as it is now but for shape and format, which is row-major.  For those who join dimensions. */
ir_tensor *ir_declare(ir_arena *a, ir_tensor *t, int rank, ir_expr *const *dims);

/* Value of a size expression for given dim sizes (by dim->number; -1 unknown).  False when a dim is
 * unknown, a division is not exact (but ir_ceil_div's shape rounds up) or it overflows. */
bool ir_size_value(const ir_expr *size, const int64_t *sizes, int64_t *value);
/* The same for the bounds of a loop, as the loop computes them: divisions round down. */
bool ir_count_value(const ir_expr *count, const int64_t *sizes, int64_t *value);
/* A size from 1 to 4093 that stands for the dim of that number when two size expressions are
 * compared by trying points: no two dims have anything to do with each other, nor one dim at two
 * points. */
int64_t ir_size_sample(int dim, int point);
/* The two are one size, whatever the dims are: equal, or equal at a few such points.  False where that cannot be said. */
bool ir_size_same(const ir_expr *a, const ir_expr *b);
/* Upper bound from fixed values and dyn bounds; false when a dim has none. */
bool ir_size_bound(const ir_expr *size, int64_t *value);
/* The size itself, whatever the dyn dims are; false when it depends on them. */
bool ir_size_known(const ir_expr *size, int64_t *value);

/* ---- text (print.c, parse.c), rules (verify.c) --------------------------------------------- */
void ir_print(const ir_program *program, ir_text *out);
void ir_print_expr(const ir_expr *e, ir_text *out);
void ir_print_stmt(const ir_stmt *stmt, ir_text *out);
spc_status ir_parse(ir_arena *arena, const char *name, const char *text, size_t length,
                    ir_sink *sink, ir_program **out);
bool ir_looks_like_ir(const char *text, size_t length); /* begins with the `spc.ir` header */
spc_status ir_verify(const ir_program *program,
                     ir_sink *sink); /* errors are IR_DIAG_INTERNAL unless parsed text */
void ir_print_dot(const ir_program *program, ir_text *out);
/* A deep copy, by print and parse of the same fields, spans included; NULL when the program cannot
 * be printed and read (it does not verify). */
ir_program *ir_clone(ir_arena *arena, const ir_program *program);

#endif
