/* interp_ein.h - the reference interpreter's own data; nobody else includes it.
 *
 * A statement's expressions are compiled to trees of `node` in which tensors, index slots and
 * evaluators are resolved, and evaluated by two mutually recursive functions: node_float for float
 * dtypes (in f64) and node_int for integers, booleans and subscripts (in i64). */
#ifndef SPC_IR_INTERP_EIN_H
#define SPC_IR_INTERP_EIN_H

#include "ir/interp.h"

/* A tensor while the kernel runs: its storage, with the values decoded once. */
typedef struct store {
  ir_tensor *tensor;
  ir_view view;
  double *f;       /* float dtypes: value at each position */
  int64_t *i;      /* integers and b1 */
  double fill;     /* what is not stored */
  ir_view *stored; /* a dense let whose pattern is asked for: what it would store; else NULL */
  bool dense;      /* every level dense and whole: position = sum of coordinate * stride */
  int64_t stride[IR_MAX_RANK];
} store;

/* The segments of one ragged index. */
typedef struct segments {
  ir_index *index;
  int64_t count, extent;
  int64_t *begin, *end; /* clamped into 0..extent */
  int64_t *segment;     /* of each row, -1: in none */
} segments;

typedef struct node node;

/* The values along one row of a softmax or topk, kept while the other indices stand still. */
typedef struct row {
  int along;
  int64_t extent, begin, end;
  double *value;  /* of a row of floats; of integers: */
  int64_t *whole;
  bool valid;
  int key_count;
  int *key_slot;
  int64_t *key;
  void *scratch; /* topk: the row as it is sorted */
} row;

/* One loop of a reduction or a statement. */
typedef struct loop {
  int slot;
  int64_t extent;
  const segments *ragged; /* NULL: 0..extent */
  bool inside; /* the segment is set outside this loop: range over it; else derive the segment */
  int segment_slot;
} loop;

/* A sparse operand whose stored entries a sum visits, instead of every value of its bound indices.
 */
typedef struct drive {
  node *access;
  ir_view view;    /* fixed axes before free ones */
  const double *f; /* values by position in `view`; both NULL for a pattern */
  const int64_t *i;
  loop *axis_loop[IR_MAX_RANK]; /* the loop that an axis sets; NULL: fixed by what stands outside */
  loop *rest[IR_MAX_RANK];      /* loops that no axis sets */
  int rest_count;
} drive;

/* The innermost loop of a sum over a product of dense tensors: every factor is a strided walk or
 * stands still while the loop runs. */
typedef struct dot {
  int count;
  node *factor[6];
  bool moves[6];     /* a walk over a tensor; else the factor stands still */
  int64_t stride[6]; /* of the walk, else 0 */
} dot;

struct node {
  ir_kind kind;
  bool is_float; /* which of the two evaluators owns it */
  bool float_operands;
  bool skips_zero_left; /* a division whose dividend's zeros may be skipped */
  ir_dtype dtype, wrap; /* wrap: integers wrap to it after the operation; IR_NONE: not at all */
  const ir_op_row *row_of_op;
  ir_op op;
  ir_reducer reducer;
  int count;
  node **args;
  double f;
  int64_t i;
  int slot;                     /* IR_INDEX */
  store *tensor;                /* IR_ACCESS */
  int sub_slot[IR_MAX_RANK];    /* a bare index, or -1 */
  bool sub_memory[IR_MAX_RANK]; /* read from memory: out of range is allowed */
  bool driven;                  /* a drive has found its value: driven_f, driven_i */
  double driven_f;
  int64_t driven_i;
  int loop_count;
  loop *loops;
  drive *drive;
  dot *dot;
  row *row;
  const ir_expr *expr;
};

typedef struct interp {
  ir_arena *arena;
  const ir_kernel *kernel;
  const int64_t *sizes;
  const ir_interp_options *options;
  ir_sink *sink;
  ir_bindings *bindings;
  IR_VEC(store *) stores;
  IR_VEC(segments *) ragged;
  int64_t *at;            /* value of each index, by place in kernel->indices; -1: unset */
  bool *known;            /* while compiling: indices that are set at this point */
  ir_dtype acc;           /* of the statement being compiled */
  ir_expr **where_stored; /* by statement; NULL: nobody asks (stores.c) */
  int64_t steps, limit;
  spc_status status; /* set once; evaluation stops soon after */
} interp;

/* interp_ein.c */
int ein_slot(const interp *r, const ir_index *index);
store *ein_store(const interp *r, const ir_tensor *tensor);
store *ein_store_new(interp *r, ir_tensor *tensor, const ir_view *view);
bool ein_step(interp *r); /* counts one evaluated element; false: stop */
void ein_out_of_range(interp *r, const char *format, ...) IR_PRINTF(2, 3);

/* interp_ein_ragged.c */
const segments *ein_segments(interp *r, ir_index *index);
/* Loops over `indices` in order.  Indices not in r->known are set by them (and become known). */
loop *ein_loops(interp *r, ir_index *const *indices, int count);
void ein_loop_range(const interp *r, const loop *l, int64_t *begin, int64_t *end);
/* Sets the loop's index, and the segment that follows from it; false: the row is in no segment. */
bool ein_loop_set(interp *r, const loop *l, int64_t value);

/* interp_ein_expr.c */
node *ein_compile(interp *r, const ir_expr *e);
bool ein_reads_memory(const ir_expr *e); /* an access stands in it */
double node_float(interp *r, node *n);
int64_t node_int(interp *r, node *n);
bool node_true(interp *r, node *n);
/* One or all subscripts of an access; false: out of range, which reads 0 (memory) or stops. */
bool ein_subscript(interp *r, node *n, int axis, int64_t *at);
bool ein_subscripts(interp *r, node *n, int64_t *at);

/* interp_ein_reduce.c */
void ein_compile_reduce(interp *r, node *n, const ir_expr *e);
void ein_compile_row(interp *r, node *n, const ir_expr *e);
double reduce_float(interp *r, node *n);
int64_t reduce_int(interp *r, node *n);
double row_float(interp *r, node *n);
int64_t row_int(interp *r, node *n);

/* interp_ein_dot.c */
void ein_compile_dot(interp *r, node *n);
/* Adds the products over the innermost loop's range; false: this range needs the general way. */
bool ein_dot(interp *r, node *n, int64_t begin, int64_t end, double *sum);

/* interp_ein_drive.c */
void ein_compile_drive(interp *r, node *n);
/* Sets the bound indices to each stored entry in turn and calls visit. */
void ein_drive(interp *r, node *n, void (*visit)(interp *r, void *user), void *user);

/* interp_ein_pattern.c */
/* Coordinates of the target, unique, among which are all where `stores` is true. */
void ein_pattern(interp *r, const ir_stmt *stmt, const ir_expr *stores, const int64_t *dims,
                 ir_entries *out);

/* interp_ein_stmt.c */
spc_status ein_statement(interp *r, const ir_stmt *stmt);

#endif
