/* loop.h - the loop dialect: structured code over flat buffers.
 *
 * A function is a few buffers, the program's sizes, mutable scalar or vector locals, and structured
 * statements; every offset is written out.  It is the CPU's code, the generic CUDA kernels' code
 * and every fused fragment.  Locals are typed and assigned with `set`; there are no pointers.
 *
 * Entry convention on the CPU:
 *     void name(void *const *buf, const int64_t *size, int64_t begin, int64_t end);
 * buf in the order of func->bufs (locals excluded), size by dim->number, [begin, end) a part of the
 * range of the function's top-level parallel loop (0, 1 when it has none).  A function's body is
 * either sequential or exactly one parallel `for` (preceded only by `let`s that are cheap to
 * repeat). On CUDA the same buffers and sizes are fields of the kernel's one argument struct. */
#ifndef SPC_IR_LOOP_H
#define SPC_IR_LOOP_H

#include "ir/tile.h"

typedef enum ir_buf_kind {
  IR_BUF_VALS,
  IR_BUF_POS,
  IR_BUF_CRD,       /* an array of tensor (level for pos and crd) */
  IR_BUF_WORKSPACE, /* bytes the plan provides, count elements */
  IR_BUF_LOCAL      /* registers or stack: count is a constant */
} ir_buf_kind;

struct ir_buf {
  const char *name; /* "x.vals", "S.pos1", "h.ids", "acc" */
  ir_buf_kind kind;
  ir_dtype dtype;
  ir_tensor *tensor;
  int level;
  ir_expr *count;  /* elements; for workspaces an i64 expression of sizes */
  bool zeroed;     /* workspaces: must be zero before the first stage that writes it */
  bool each;       /* workspaces: every part that runs at the same time has its own; where it is
                      zeroed too, functions find it zero and leave it so */
  int first, last; /* stage numbers of its life, inclusive; set by `stage` */
};

struct ir_var {
  const char *name;
  ir_dtype dtype;
  int lanes;
};

typedef enum ir_code_kind {
  IR_FOR,      /* for var = lo .. hi step `step` { body } */
  IR_WHILE,    /* while cond { body } */
  IR_IF,       /* if cond { body } else { orelse } */
  IR_LET,      /* declares var with value */
  IR_SET,      /* var = value */
  IR_LOCAL,    /* declares the local buffer buf */
  IR_STORE,    /* buf[offset] = value, or combined with what is there */
  IR_PREFETCH, /* buf[offset] will be read soon: a hint, offset may lie outside */
  IR_BARRIER,  /* all threads of the block */
  IR_COMMENT   /* a line for the reader: where the code came from */
} ir_code_kind;

typedef enum ir_run {
  IR_RUN_SEQUENTIAL,
  IR_RUN_PARALLEL,
  IR_RUN_VECTOR,
  IR_RUN_UNROLL,
  IR_RUN_GRID_X,
  IR_RUN_GRID_Y,
  IR_RUN_THREAD,
  IR_RUN_TEAM, /* of a function's body: `width` threads run an iteration together */
  IR_RUN_LANES, /* inside a team: its threads share the iterations, `width` consecutive ones at a time */
  IR_RUN_COLUMNS, /* of a function's body: `width` iterations lie side by side, each the work of as many threads as its shares */
  IR_RUN_SHARES   /* inside columns, where all their threads come: `width` threads take the iterations in turn; what they combine in
                     arrays or variables is combined along a tree, and one of them stores what follows */
} ir_run;

typedef struct ir_code ir_code;
typedef struct ir_block {
  IR_VEC(ir_code *) codes;
} ir_block;

struct ir_code {
  ir_code_kind kind;
  ir_run run; /* IR_FOR */
  int width;  /* IR_FOR: of teams and lanes, a power of two; else 0 */
  ir_var *var;
  ir_expr *lo, *hi, *step;
  ir_expr *cond; /* IR_WHILE, IR_IF; IR_STORE: a lane mask or NULL */
  ir_expr *value;
  ir_buf *buf;
  ir_expr *offset; /* elements; a vector value stores `lanes` consecutive ones */
  ir_op combine;   /* IR_STORE: IR_OP_COUNT for a plain store, else buf[o] = op(buf[o], value) */
  bool atomic;
  bool early; /* IR_PREFETCH: into a core's second cache alone, for what is read much later */
  bool compressed; /* IR_STORE: the lanes that the mask keeps go one after the other from offset on
                    */
  ir_block body, orelse;
  const char *text;
  ir_span span; /* when it was read from text */
};

typedef enum ir_func_kind {
  IR_FUNC_KERNEL,
  IR_FUNC_FRAGMENT /* a scalar expression for a skeleton: value of params, `result` */
} ir_func_kind;

struct ir_func {
  const char *name; /* "ffn.y", unique in the program, a C identifier once '.' is '_' */
  ir_func_kind kind;
  IR_VEC(ir_buf *) bufs;   /* outside memory it touches, in the order of the entry convention */
  IR_VEC(ir_var *) params; /* fragments: acc, m, n, batch */
  IR_VEC(ir_var *) vars;   /* all locals */
  IR_VEC(ir_buf *) locals; /* local buffers, in order of declaration */
  ir_block body;
  ir_expr *result; /* fragments */
  ir_arena *arena; /* the program's; set by ir_func_new */
  ir_span span;
};

/* Text of one function with the types and sizes of all its buffers (ir/print_loop.c). */
void ir_print_func(const ir_kernel *kernel, const ir_func *func, ir_text *out);

/* What a loop whose iterations run side by side adds up (ir/loop_sums.c): variables from outside it that every
 * iteration combines a value with and does not read otherwise.  combine IR_OP_COUNT: `var` is the place of the
 * largest value, `best` that value. */
typedef struct ir_loop_sum {
  ir_var *var, *best;
  ir_op combine;
} ir_loop_sum;
typedef struct ir_loop_sums {
  IR_VEC(ir_loop_sum) at;
} ir_loop_sums;
/* False where an iteration depends on another one in any other way.  It may store to memory where `stores` says so: that
 * no two iterations meet there is for the caller to know. */
bool ir_loop_sums_of(ir_arena *a, const ir_code *loop, bool stores, ir_loop_sums *out);
/* The same of arrays: local buffers from outside the loop, each element of which iterations combine a value with, by one op, and do not
 * read otherwise.  False where an iteration depends on another one in any other way, or stores anywhere else. */
typedef struct ir_array_sum {
  const ir_buf *buf;
  ir_op combine;
} ir_array_sum;
typedef struct ir_array_sums {
  IR_VEC(ir_array_sum) at;
} ir_array_sums;
bool ir_array_sums_of(ir_arena *a, const ir_code *loop, ir_array_sums *out);
/* What shares may be: they combine in arrays alone, or in variables, and then store elements of memory that no two of them do. */
bool ir_shares_fit(ir_arena *a, const ir_code *shares);
/* How columns are dealt out: threads of a block, blocks of a cluster (1: none is needed).  NULL in place of a loop of shares: there is
 * none inside, one is inside another, their widths differ, or they are too many or too few. */
typedef struct ir_columns_shape {
  const ir_code *shares; /* one of them: they have one width */
  int threads, blocks;
} ir_columns_shape;
ir_columns_shape ir_shape_of_columns(const ir_code *columns);
/* The value takes the place of the best one: it is larger, the first at all, or the first NaN. */
ir_expr *ir_value_is_better(ir_arena *a, ir_expr *value, ir_expr *best, ir_expr *place);
/* Whether a code of the block is so, at any depth. */
bool ir_block_any(const ir_block *block, bool (*is)(const ir_code *, const void *what), const void *what);
bool ir_block_has_loop(const ir_block *block);
bool ir_block_declares(const ir_block *block, const ir_var *var); /* by `let`, or as a loop's variable */
bool ir_block_declares_buf(const ir_block *block, const ir_buf *buf);
bool ir_block_stores(const ir_block *block, const ir_buf *buf); /* anywhere in it */
bool ir_expr_uses_var(const ir_expr *e, const ir_var *var);

/* Building (ir/loop_build.c).  A builder keeps the block that is open.  Names of locals, parameters
 * and local buffers are unique in a function: the builder appends `_2`, `_3` where they are not. */
typedef struct ir_builder {
  ir_arena *arena;
  ir_func *func;
  ir_block *block;
} ir_builder;

ir_func *ir_func_new(ir_kernel *kernel, const char *name);
ir_buf *ir_workspace_of(const ir_kernel *kernel, const ir_tensor *tensor, const char *suffix); /* the workspace `TENSOR.suffix`; NULL: there is none */
ir_buf *ir_buf_new(ir_arena *a, const char *name, ir_buf_kind kind, ir_dtype dtype);
ir_var *ir_let(ir_builder *b, const char *name, ir_dtype dtype, ir_expr *value);
ir_var *ir_let_lanes(ir_builder *b, const char *name, ir_dtype dtype, int lanes, ir_expr *value);
void ir_set(ir_builder *b, ir_var *var, ir_expr *value);
ir_code *ir_store(ir_builder *b, ir_buf *buf, ir_expr *offset, ir_expr *value);
ir_buf *ir_local(ir_builder *b, const char *name, ir_dtype dtype, int64_t count);
ir_code *ir_prefetch(ir_builder *b, ir_buf *buf, ir_expr *offset);
void ir_comment(ir_builder *b, const char *format, ...) IR_PRINTF(2, 3);
/* open_*: what follows goes inside, until the matching ir_close with the block that was open. */
ir_var *ir_open_for(ir_builder *b, const char *name, ir_expr *lo, ir_expr *hi, ir_run run,
                    ir_block **outer);
void ir_open_while(ir_builder *b, ir_expr *cond, ir_block **outer);
ir_code *ir_open_if(ir_builder *b, ir_expr *cond, ir_block **outer);
void ir_open_else(ir_builder *b, ir_code *the_if);
void ir_close(ir_builder *b, ir_block *outer);
ir_expr *ir_var_ref(ir_arena *a, ir_var *var);
ir_expr *ir_load(ir_arena *a, ir_buf *buf, ir_expr *offset);
ir_expr *ir_splat(ir_arena *a, ir_expr *scalar, int lanes); /* a cast with more lanes */
void ir_func_use(ir_func *func, ir_buf *buf);               /* adds it to bufs unless it is there */
/* Whether a loop variable, parameter or local of func has that name. */
bool ir_func_has_name(const ir_func *func, const char *name);

#endif
