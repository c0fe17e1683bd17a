/* bench.h - shared by the files of `spc bench`, and by `spc tune`.
 *
 *     bench_data.c        operands: random values, another mask for every repetition
 *     bench_steer.c       inputs that give an intermediate (a relu's result) a wanted share of
 * zeros bench_side.c        one compiled program that is timed: the user's, its dense twin, a
 * candidate bench_point.c       repetitions by turns at one density and granularity bench_check.c
 * results against the reference, on some rows where all would take too long bench_candidates.c
 * every candidate of the choice, predicted beside measured bench_table.c, bench_json.c, bench_svg.c
 * what is printed bench.c             the command */
#ifndef SPC_DRIVER_BENCH_H
#define SPC_DRIVER_BENCH_H

#include "driver/driver.h"

/* ---- what is swept --------------------------------------------------------------------------- */
/* A share `density` of the blocks of rows x cols holds values, each block on its own. */
typedef struct bench_mask {
  double density;
  int rows, cols;
} bench_mask;

typedef enum bench_kind {
  BENCH_FIXED,  /* as bound, or random once */
  BENCH_MASKED, /* its own zeros are swept: a sparse format, or dense bytes with a hint */
  BENCH_ROWS,   /* its rows pick the live neurons of an intermediate: new in every repetition */
  BENCH_COLS    /* the other factor of that sum: it holds the threshold */
} bench_kind;

typedef struct bench_operand {
  ir_tensor *tensor; /* of the program as the front end made it */
  bench_kind kind;
  bool bound;              /* by the user */
  bool copied;             /* the stored form is another array than the dense one */
  ir_view dense;           /* row-major; no data until it is needed where the user bound it */
  ir_view stored;          /* in the declared format */
  ir_arena *arena;         /* of the stored form, where copied */
  int row_dim, sum_dim;    /* of BENCH_ROWS and BENCH_COLS: the free index, the summed one */
  const ir_tensor *steers; /* the intermediate */
} bench_operand;

typedef struct bench_random {
  uint64_t state;
} bench_random;
typedef struct bench_pool { /* values that operands are copied from */
  double scale;
  ir_view values;
} bench_pool;
uint64_t bench_bits(bench_random *random);
double bench_uniform(bench_random *random); /* inside (0, 1) */

/* ---- what was found -------------------------------------------------------------------------- */
typedef struct bench_timing { /* of one side, milliseconds */
  int runs;
  double median, low, high, best; /* low, high: quartiles */
  double once;                    /* what const inputs give, made apart: the least; 0: nothing */
  double cover;                   /* of its list; -1: none */
  const char *branch;             /* "sparse", "dense" by its guard; "" without one */
} bench_timing;

typedef struct bench_verdict {
  bool done, right;
  double error;    /* of the whole, relative to its norm */
  const char *how; /* "2 of 512 rows against the interpreter" */
  const char *why; /* not done, or not right */
} bench_verdict;

typedef struct bench_point {
  bench_mask mask;
  bool swept;           /* false: operands as they are bound */
  const char *left_out; /* why it was not measured; NULL: it was */
  bench_timing ours, dense;
  bench_verdict check;
} bench_point;

typedef struct bench_row { /* a candidate */
  const ir_candidate *candidate;
  const char *left_out;
  double predicted; /* microseconds of its statement at the measured cover */
  double measured;  /* microseconds of its stages */
  double whole;     /* microseconds of the kernel */
  double cover;
} bench_row;

typedef struct bench_side bench_side;
typedef struct bench {
  drv_session *s;
  ir_arena *arena;
  jmp_buf *out_of_memory; /* guards every arena of the bench */
  drv_backend backend;
  rt_cuda *cuda;
  rt_pool *pool;
  const ir_target *target;
  void *stream, *evict;
  size_t evict_bytes;
  bool cold;
  double seconds; /* for the kernel */
  int runs;       /* most of a point */
  IR_VEC(double) densities;
  IR_VEC(bench_mask) grans;
  /* of one kernel */
  ir_kernel *kernel;
  int64_t *sizes;
  IR_VEC(bench_operand) operands;
  bench_random random;
  IR_VEC(bench_pool) pools;
  IR_VEC(const char *) notes;
  IR_VEC(bench_point) points;
  IR_VEC(bench_row) rows;
  bench_side *ours, *dense; /* dense NULL: there is none, a note says why */
  double begin;             /* drv_now_ms of the kernel's start */
} bench;

ir_arena *bench_arena(bench *b);
/* Its back end, target, stream and threads, by the session's options. */
spc_status bench_open_machine(bench *b);
void bench_close_machine(bench *b);
void bench_note(bench *b, const char *format, ...) IR_PRINTF(2, 3);

/* ---- operands -------------------------------------------------------------------------------- */
spc_status bench_data_open(bench *b);
void bench_data_close(bench *b);
bool bench_sweeps(const bench *b); /* something's zeros can be swept */
/* New values: all that depend on the mask when it changed, else what is new in every repetition.
 * SPC_INVALID_INPUT with *why when a format cannot hold them. */
spc_status bench_data_fill(bench *b, const bench_mask *mask, bool changed, const char **why);
spc_status bench_data_dense(bench *b, bench_operand *o); /* its dense form, from what was bound */
bench_operand *bench_operand_named(bench *b, const char *name);
/* Values of the operand's dtype in its dense form, times scale. */
void bench_random_values(bench *b, ir_view *view, double scale);

void bench_steer_find(bench *b);
void bench_steer_fill(bench *b, bench_operand *o, const bench_mask *mask, bool changed);

/* ---- sides ----------------------------------------------------------------------------------- */
struct bench_side {
  bench *b;
  const char *label;
  bool densified;
  ir_arena *arena, *run_arena;
  ir_program *program;
  ir_kernel *kernel;
  ir_image *image;
  rt_plan *plan;
  rt_run *run;
  void *graph;
  double once; /* milliseconds of what const inputs give, the least since once_timed was unset */
  bool once_timed;
};
typedef struct bench_want {
  const char *label;
  bool dense;          /* all sparsity off */
  const pass_pin *pin; /* one candidate, whatever its guard would say */
  bool quiet;          /* what it has to say was said */
} bench_want;
spc_status bench_side_open(bench *b, const bench_want *want, bench_side **out);
void bench_side_close(bench_side *side);
spc_status bench_side_bind(bench_side *side);   /* a new run on the operands as they are */
spc_status bench_side_update(bench_side *side); /* the operands have other values */
spc_status bench_side_time(bench_side *side, double *milliseconds);
spc_status bench_side_fetch(bench_side *side, ir_bindings *results, rt_stats *stats);
/* The sizes the estimates took are those of the bench. */
double bench_side_predicted(bench_side *side, const ir_candidate *candidate, double cover);

spc_status bench_point_measure(bench *b, bench_point *point, double seconds);
spc_status bench_check(bench *b, bench_verdict *verdict);
/* The density and granularity that the estimates took, where they took anything. */
bench_mask bench_assumed_mask(const ir_kernel *kernel);
spc_status bench_candidates(bench *b);

/* ---- what is printed ------------------------------------------------------------------------- */
void bench_table_head(bench *b);
void bench_table_point(bench *b, const bench_point *point);
void bench_table_end(bench *b);
void bench_table_candidates(bench *b);
void bench_json(bench *b, ir_text *out); /* one object */
/* A chart of time against density; `place` counts charts from the top; bench_svg_open and _close
 * stand around them. */
void bench_svg_open(ir_text *out, int charts);
void bench_svg(bench *b, int place, ir_text *out);
void bench_svg_close(ir_text *out);
/* Up to which density zeros of this granularity make it faster than dense, by interpolation between
 * points; 0: at none of them, 1: at all (also where fewer than one point was measured). */
double bench_break_even(const bench *b, int rows, int cols);

/* Writes what the bench measured beside the cache (measured.c); says where; a failure is said and
 * is no error. */
void drv_measured_keep(drv_session *s, const bench *b);

#endif
