/* tile.h - the tile dialect: stages, lists, candidates.
 *
 * A stage is what one launch (or a few launches of generated loops) computes: its statements, the
 * kernel row that runs it, tile sizes, the lists it reads.  Lists are PIT's index lists: for each
 * strip of `strip` consecutive values of one index, the ascending micro-tiles of `gran` consecutive
 * values of the axis that hold a non-zero.
 *
 *     strip_index = t, strip = 64, axis = f, gran = 1
 *     counts  i32 [strips]               how many micro-tiles of each strip
 *     ids     i32 [strips][capacity]     ascending micro-tile numbers along the axis
 *     bits    u32 [strips][words]        the same as a bit set; words = ceil(capacity / 32).  Room for what blocks tell each other where no bits are left
 * Strips may be made of rows that are alike, wherever they lie:
 *     marks   u32 [rows][words]          the bits of single rows
 *     order   i32 [rows]                 the row at each place: strip s holds the rows at the places
 *                                        s * strip and following ones
 * A list that has none of these is of a verdict alone: a sample's, or, of a tensor that is stored sparse, one by the share of
 * its elements that is stored, which is known before anything is read:
 *     most    i64                        how many elements it may have for all of them to be written out; 0: any number
 * A list of single values of the axis may bring what it names with it, where the axis is the tensor's contiguous one or there are no strips:
 *     counts  i32 [1 + words]            without strips: behind the count what blocks tell each other, a word a word of bits
 *     packed  [capacity][row]            without strips: the tensor's rows at the ids, one after the other
 *     packed  [rows][axis]               with strips: of each row the elements at its strip's ids, one after the other, and zeros behind them
 *                                        up to a multiple of IR_LIST_PACKED
 *     partial i32 [strips]               how many of a strip's ids hold a zero too: of a list of single elements of the axis
 * Strips may be blocks of the tensor's contiguous axis, and what is listed the rows that hold anything in them, in sections of so many rows:
 *     counts  i32 [sections][strips]     how many of a section's rows
 *     ids     i32 [strips][pitch]        of each section, from its first row's place on, which of its rows; pitch = rows up to a multiple of IR_LIST_ROWS
 *     packed  [strips][pitch][strip]     what they hold there, in pieces of 16 bytes whose order is the kernel's (kernels/krows.cuh)
 * Two strips may share a list that tells them apart: first those of the first strip alone, then of both, then of the second alone,
 * each of the three ascending; so a strip's own ones lie side by side:
 *     counts  i32 [pairs], [pairs][2]    how many of either, and of each of the two strips
 *     ids     i32 [pairs][capacity]      pairs = ceil(strips / 2); bits are of single strips
 * Blocks that share a tile which the list makes, or whose k's it names, each a part of the k's, meet in
 *     sums    f32 [parts][tile]          what a part has computed
 *     arrived i32 [parts][warpgroups]    how many of a tile's parts are there, at its first part; 0 between products
 * Where strips are single rows and micro-tiles single elements, rows may be compressed instead:
 *     starts  i64 [strips]               where the ids of a row begin; IR_LIST_GROUP rows lie one
 *                                        after the other, from the first one's place on
 *     vals    [strips * capacity]        the tensor's elements at the ids
 * A dense branch may stand in front of the launches that make the list.  It takes a sample of the values, and where that says dense computes at
 * once; who comes behind need not wait for it to leave:
 *     front   i32 [1 + IR_FRONT_BLOCKS]  how many blocks it has; of each whether it has computed
 * It may take the samples of two lists of the same values, and leave it to one of them to be made: the second `replaces` the first, and has that front too.
 * capacity = ceil(extent(axis) / gran) is exact: nothing can overflow.
 *
 * `sread`: the loop over the axis becomes a loop over the list, index = ids[s][n]*gran + r.
 * `swrite`: a result whose index is listed goes back to its original position. */
#ifndef SPC_IR_TILE_H
#define SPC_IR_TILE_H

#include "ir/ir.h"

enum { IR_LIST_GROUP = 32, IR_LIST_PACKED = 64, IR_LIST_ROWS = 8, IR_FRONT_BLOCKS = 1024, IR_SEGMENT_ROWS = 128, IR_PAIR_COLUMNS = 16384 };

struct ir_list {
  const char *name;
  ir_tensor *tensor;       /* whose zeros it lists */
  ir_index *strip_index;   /* NULL: one strip, the list is for the whole axis */
  ir_index *axis;          /* both as the stage that reads the list names them */
  int strip_dim, axis_dim; /* the dimensions of `tensor` they stand for; strip_dim -1: one strip */
  int64_t strip, gran, section; /* section: rows that a strip lists for themselves; 0: strips are not blocks of rows */
  ir_expr *strips, *capacity;  /* i64 */
  ir_buf *counts, *ids, *bits; /* workspaces; bits may be NULL; counts and ids are where bits alone are read */
  ir_buf *starts, *vals;       /* of compressed rows; both, or NULL */
  ir_buf *marks, *order;       /* of rows that are regrouped; both, or NULL */
  ir_buf *packed;              /* what the list names of the tensor, side by side; or NULL */
  ir_buf *partial;             /* of strips: how many of the listed columns do not hold in all rows; or NULL */
  ir_buf *sums, *arrived;      /* where blocks that share a tile meet, parts of it and counters; both, or NULL */
  ir_buf *verdict;   /* i32 [1]: above 0 dense, else sparse; on CUDA 1 + the cover in 65536ths, negative where sparse, and 0
                        before it is known, as on the CPU where it is of a verdict alone; written by the guard stage, on CUDA by who makes the list or alone reads it;
                        NULL: no guard */
  ir_buf *threshold; /* f64 [1]: break-even cover, filled by the plan; a run-time argument */
  ir_buf *front;     /* of the dense branch in front of it; NULL: there is none */
  struct ir_list *replaces; /* by other micro-tiles of the same values: made in that one's place where their samples say so; NULL: it stands for itself */
  bool pairs;        /* two strips share a list that tells them apart */
  bool fused;        /* detected in the epilogue of the stage that makes the tensor */
  ir_span span;
  double break_even; /* covered density from which dense is as fast: what the plan writes to
                        `threshold` */
  int64_t most;
};

/* Strips that share a list, and their rows together. */
static inline int ir_list_together(const ir_list *list) { return list->pairs ? 2 : 1; }
static inline int64_t ir_list_rows(const ir_list *list) { return list->strip * ir_list_together(list); }

/* Where the counts of single strips begin among a list's, by the number of strips. */
static inline int64_t ir_list_first_count(const ir_list *list, int64_t strips) {
  return list->pairs ? strips / 2 + strips % 2 : 0;
}

/* How many counts there are, by the numbers of strips and of what each may hold. */
static inline int64_t ir_list_counts(const ir_list *list, int64_t strips, int64_t capacity) {
  return list->section ? strips * (capacity / list->section + !!(capacity % list->section)) : strips;
}

/* It lists rows that hold anything, and packs them: there are no strips. */
static inline bool ir_list_is_of_rows(const ir_list *list) { return list->packed && !list->strip_index; }

/* Where a stage's `when` looks: the measured cover of a list against a break-even. */
typedef struct ir_guard {
  ir_list *list;    /* NULL: always */
  bool above;       /* runs when cover >= threshold (the dense branch), else when below */
  double threshold; /* covered density at which dense is as fast; a run-time argument */
} ir_guard;

typedef enum ir_stage_kind {
  IR_STAGE_COMPUTE, /* statements by a kernel row, or by functions of the loop dialect */
  IR_STAGE_DETECT,  /* builds the list `detects` from its tensor's values, or from its bits when
                       list->fused */
  IR_STAGE_CONVERT, /* target = source in target's format */
  IR_STAGE_GUARD /* measures the cover of reads.at[0] and writes its verdict; `when` stays empty */
} ir_stage_kind;

typedef struct ir_tile_size {
  ir_index *index;
  int64_t size;
} ir_tile_size;

/* An assembled stage has two functions: the first counts, the second writes.
 *   - Level by level, where there is a workspace `T.counts`: i64 [lists][parts], a list being a
 *     compressed level of T.  funcs[0] writes how many positions each part adds to each list (0
 *     where it writes nothing); the plan turns that into where each part starts and gives T's level
 *     arrays their memory; funcs[1] writes them.  `T.pos` of a parent that nothing was written for
 *     is set by the plan.
 *   - As tuples, on CUDA: funcs[0] writes the number of entries to `T.count` (i64 [1]); the plan
 *     provides `T.at` (i64 [count][rank]) and `T.value` (the accumulator's dtype, [count]), whose
 *     count expression is NULL; funcs[1] fills them in any order; the plan sorts, sums duplicates
 *     in order of emission and packs them into T's format. */
struct ir_stage {
  int number;
  const char *name; /* unique in the kernel; "h", "y", "y.dense", "detect.h" */
  ir_stage_kind kind;
  IR_VEC(ir_stmt *) stmts;
  const char *row; /* name of a row of kernels.def; "loop": generated loops */
  IR_VEC(ir_tile_size) tiles;
  IR_VEC(ir_list *) reads;  /* sread / swrite lists */
  ir_list *detects;         /* list made here (kind DETECT, or fused into the epilogue) */
  ir_tensor *source, *dest; /* CONVERT */
  ir_guard when;
  bool whole;     /* as the candidate's */
  bool assembled; /* sparse output whose pattern is computed: see below */
  bool once;      /* depends on `const` inputs alone: what it makes may be kept between runs */
  bool kept;      /* runs only where what is made once is kept; it makes something for that, or reads it */
  bool unkept;    /* runs only where nothing is kept */
  IR_VEC(ir_tensor *) beside; /* results in listed columns that lie side by side, `T.listed`, and nowhere else, unless the list's verdict says dense: this stage alone reads them (ir/beside.h) */
  ir_tensor *strips; /* a copy of the dense operand, laid out as the strips that the stage walks; or NULL */
  ir_tensor *full;   /* a copy of the operand that is stored sparse, written out: read in its place; or NULL */
  int stages_deep, warps;            /* software pipeline depth, warps; 0: the row's own */
  double microseconds;               /* predicted, at the sizes and density assumed */
  IR_VEC(ir_candidate *) runners_up; /* at most three, in order */
  const char *why;                   /* one sentence: why this kernel */
  IR_VEC(ir_func *) funcs; /* after lower: generated functions in order, or the fragment of a row */
  ir_span span;
};

/* The statement whose result others read: the last; what stands before it is computed on the way, and lies nowhere.  Of a stage that reads
 * what lies beside, all are written. */
static inline ir_stmt *ir_stage_stmt(const ir_stage *stage) { return stage->stmts.count ? stage->stmts.at[stage->stmts.count - 1] : NULL; }

/* Of `const` inputs alone: it may be kept between runs, and serve several beside each other. */
static inline bool ir_list_made_once(const ir_kernel *kernel, const ir_list *list) {
  for (int i = 0; i < kernel->stages.count; i++)
    if (kernel->stages.at[i]->detects == list && kernel->stages.at[i]->once) return true;
  return false;
}

/* The list that may be made in place of this one; NULL: there is none. */
static inline ir_list *ir_list_instead(const ir_kernel *kernel, const ir_list *list) {
  for (int i = 0; list && i < kernel->lists.count; i++)
    if (kernel->lists.at[i]->replaces == list) return kernel->lists.at[i];
  return NULL;
}

/* Of two lists the first one; of one that is alone itself.  And the other one of two; NULL: it is alone. */
static inline const ir_list *ir_list_first(const ir_list *list) { return list->replaces ? list->replaces : list; }
static inline const ir_list *ir_list_other(const ir_kernel *kernel, const ir_list *list) { return list->replaces ? list->replaces : ir_list_instead(kernel, list); }

/* IR_INSTEAD: by a list that may be made in place of the chosen one's. */
typedef enum ir_verdict { IR_CHOSEN, IR_INSTEAD, IR_RUNNER_UP, IR_REJECTED } ir_verdict;

/* One row of the table that `microtile` decides on and `explain` prints. */
struct ir_candidate {
  ir_tensor *target;   /* the statement it is for */
  const char *label;   /* "k lists 64x1, 64x128x32" */
  const char *row;     /* kernels.def name, "loop" or "library" */
  const char *fusion;  /* what runs in the same stage, "" when nothing does */
  const char *formats; /* formats of the intermediates it needs, "h=dense_t" */
  ir_tensor *operand;  /* the sparse operand, NULL: dense */
  ir_index *axis, *strip_index;
  int64_t strip, gran;
  IR_VEC(ir_tile_size) tiles;
  double density, cover; /* assumed density of the operand, covered density at this micro-tile */
  double microseconds, index_microseconds; /* predicted whole, and the part that builds lists */
  double measured; /* microseconds, by an earlier `spc bench`; 0: never; not part of the text */
  /* with a list: the guard takes the faster branch, lists included; without: microseconds */
  double expected;                  /* the mean over densities and over how alike rows are */
  double density_low, density_high; /* the ends of the assumed range, 0 without a list */
  double microseconds_low, microseconds_likely,
      microseconds_high; /* expected there and at `density` */
  bool whole;    /* computes every element of a statement with a condition, and asks afterwards */
  bool expanded; /* an operand that is stored sparse is written out first */
  bool regrouped; /* strips are made of rows that are alike, wherever they lie */
  ir_verdict verdict;
  const char *why; /* reason of the verdict, one line */
  bool asked;      /* a directive of the schedule asks for it; cleared once the choice is made */
  /* pass guard, on the chosen candidate: */
  bool guarded;      /* a dense branch stands beside it */
  double break_even; /* covered density from which dense is as fast */
};

#endif
