/* cuda.h - shared by codegen/cuda_*.c only: from stages to CUDA C, from CUDA C to cubins.
 *
 *   cuda_product.c  a statement read as a matrix product: operands, roles of indices, strides
 *   cuda_groups.c   the same of rows that come in ragged groups
 *   cuda_scatter.c  a statement read as rows that are sent to named places
 *   cuda_attend.c   a stage read as attention, its config
 *   cuda_widen.c    the same of a factor of 8-bit integers, and its scales
 *   cuda_bsr.c      the same of a factor, or a result, that is stored in blocks
 *   cuda_select.c   a stage to its launches: kernel row, buffers, threads, shared memory
 *   cuda_fit.c      the list of a product, as its row wants it
 *   cuda_shape.c    the shape of a launch
 *   cuda_boxes.c    boxes, tensor maps and shared memory of the rows that load by tensor map
 *   cuda_join.c     two stages whose blocks are each other's: one launch
 *   cuda_library.c  a stage that a library computes: the call, and a text that says it
 *   cuda_config.c   prints the config struct and the entry of a composed kernel
 *   cuda_print.c    prints loop IR: expressions, statements, functions
 *   cuda_team.c     prints the loops that the threads of a team share
 *   cuda_compile.c  the pool of compiles, the log gate, runners-up
 *   cuda_nvrtc.c    the NVRTC library, one compile, its log
 *   cuda_override.c edited texts in place of emitted ones
 *   cuda_cache.c    cubins from the cache; which NVRTC there is, without loading it
 * CUDA keywords stand in strings of cuda_config.c and cuda_print.c only. */
#ifndef SPC_CODEGEN_CUDA_H
#define SPC_CODEGEN_CUDA_H

#include "codegen/codegen.h"
#include "ir/beside.h"
#include "ir/kernels.h"
#include "ir/roles.h"

/* ---- matrix products (cuda_product.c) -------------------------------------------------------- */
typedef struct cg_operand {
  const ir_tensor *tensor;
  ir_expr *const *subs;                    /* bare indices */
  ir_expr *stride_m, *stride_n, *stride_k; /* elements; NULL where the operand lacks the index */
  ir_expr *stride_batch[IR_MAX_RANK];      /* 0 of a batch index that it lacks */
  int batches;                             /* batch indices that it has: the first ones */
  char layout; /* A: 'r' [m][k], 'c' [k][m]; B: 'r' [k][n], 'c' [n][k]; T: 'r' [m][n], 'c' [n][m] */
  ir_expr *pitch; /* stride of the index that is not contiguous */
} cg_operand;

typedef struct cg_product {
  ir_stmt *stmt;
  ir_index *m, *n, *k;                /* of several that are one (ir/roles.h) the last */
  ir_expr *size_m, *size_n, *size_k;  /* of all of them together */
  int batch_count;
  ir_index *batch[IR_MAX_RANK];       /* those that A and B both have come first */
  cg_operand a, b, t;
  bool swapped; /* the fragment's m and n are ours exchanged */
} cg_product;

/* Reads stmt as a product; false with *why (arena text) when it is none that the kernels compute.
 */
bool cg_product_read(ir_arena *arena, ir_stmt *stmt, cg_product *out, const char **why);
bool cg_product_is_dense(const cg_product *p); /* all of its operands are stored so */
/* The matrix that says where the result is asked for, its strides by m and n; false: none is stored dense. */
bool cg_product_asked(ir_arena *arena, const cg_product *p, cg_operand *out);
/* The same of the product of two accesses that `sum` sums up, in any order. */
bool cg_product_of(ir_arena *arena, ir_stmt *stmt, ir_expr *a, ir_expr *b, const ir_expr *sum, cg_product *out, const char **why);
/* Exchanges the roles of m and n: T transposed = B transposed * A transposed. */
void cg_product_swap(cg_product *p);
/* The stride of the dimension that the index is the bare subscript of; NULL: of none, or there is no index. */
ir_expr *cg_stride_of(ir_expr *const *strides, ir_expr *const *subs, int rank, const ir_index *index);
/* An operand of the product's indices; false when it is stored neither dense nor in blocks (its strides are then those inside one). */
bool cg_operand_read(ir_arena *arena, const cg_product *p, const ir_tensor *tensor, ir_expr *const *subs, cg_operand *out, const char **why);
void cg_take_layouts(cg_product *p); /* layouts and pitches of A, B and T, from their strides */
/* The strides of a dense tensor, by dimension; false when the format is not dense. */
bool cg_dense_strides(ir_arena *arena, const ir_tensor *tensor, ir_expr **strides);

/* Buffers of a fragment that a kernel brings along, by number; a buffer is read in one way only.
 * place: at the result's own place, by box; fetched: there too, by the threads that want it, a box's worth at a time;
 * column, row: element n or m of a vector, kernel's m and n. */
enum { CG_VECTORS = 2 };
typedef struct cg_brought {
  int place, fetched, column[CG_VECTORS], row[CG_VECTORS]; /* place, fetched: -1: none */
  int columns, rows;
  bool reads_more; /* the fragment reads other buffers too */
} cg_brought;

/* Rows that come in ragged groups: m is a ragged index, its segment the batch index that B alone has. */
typedef struct cg_groups {
  const ir_index *segment;
  const ir_tensor *offsets;
  const ir_tensor *rows;  /* names the row of A for each m; NULL: it is m */
  const ir_expr *a_rows;  /* how many A has */
  int buf_offsets, buf_rows;
} cg_groups;
/* cg_product_read of such a statement. */
bool cg_groups_read(ir_arena *arena, ir_stmt *stmt, cg_product *out, cg_groups *groups, const char **why);

/* A factor of 8-bit integers, and what its sums are scaled by. */
typedef struct cg_scales {
  const ir_tensor *tensor;          /* NULL: there are none */
  ir_expr *stride_free, *stride_group, *stride_batch[IR_MAX_RANK];
  int64_t group;                    /* k's that share one */
  int buf;
} cg_scales;
/* cg_product_read of such a statement; the factor is A or B as the row has it. */
bool cg_widened_read(ir_arena *arena, ir_stmt *stmt, const ir_kernel_row *row, cg_product *out, cg_scales *scales, const char **why);

/* An operand stored in blocks (ir/bsr.h): A. */
typedef struct cg_bsr {
  const ir_tensor *tensor; /* NULL: none is */
  int64_t block_m, block_k;
  bool by_k;               /* the outer level of blocks is k's */
  int buf_pos, buf_crd;
} cg_bsr;
/* A result stored in blocks, each row by row, and rows of blocks along m. */
typedef struct cg_sdd {
  const ir_tensor *tensor; /* the input whose blocks it has; NULL: none is */
  int64_t block_m, block_n;
  int buf_pos, buf_crd;
} cg_sdd;
/* Why the product has no such result that the row's tiles fit (its m and n may change places); NULL: it has. */
const char *cg_sdd_read(cg_product *p, const ir_kernel_row *row, cg_sdd *out);
/* The strides inside a block, by dimension; false when the tensor is not stored in blocks. */
bool cg_block_strides(ir_arena *arena, const ir_tensor *tensor, ir_expr **strides);
/* Why the product is none with such an A (its m and n may change places); NULL: it is. */
const char *cg_bsr_read(cg_product *p, cg_bsr *out);
ir_buf *cg_level_buffer(ir_arena *arena, const ir_tensor *tensor, ir_buf_kind kind, int level);

/* Attention: the product's A, B and T are q, k and the result, its m and n their rows, its k is d; T's other index is the column. */
typedef struct cg_attend {
  bool is;
  cg_operand v;            /* its stride_k: from row to row, stride_n: of the column */
  const ir_index *column;
  int head, head_v;        /* elements of a row of q and k, and of v */
  bool masked;             /* there is a condition, besides what is noted before */
  const ir_func *score, *inside, *epilogue, *first, *behind, *visits;
  const ir_func *asked, *plane, *step_m, *step_n; /* of what a launch before notes; NULL: it notes nothing */
  ir_buf *notes, *mask;
  bool takes_notes; /* it is that launch */
  int buf_v;
} cg_attend;
/* The words that say why the stage is none that the kernels compute; NULL: it is. */
const char *cg_attend_read(ir_arena *arena, const ir_kernel *kernel, const ir_stage *stage, cg_product *product, cg_attend *out);

/* T[p[m], n] combine= e(m, n), rows m of one stretch. */
typedef struct cg_scatter {
  const ir_index *m, *n;
  const ir_tensor *names; /* p; NULL: it is none */
  ir_expr *rows, *stride_row, *stride_column; /* of T */
  int buf_names, buf_offsets;
} cg_scatter;
bool cg_scatter_read(ir_arena *arena, const ir_stmt *stmt, cg_scatter *out);

/* Results that are written whole, of columns that lie side by side. */
typedef struct cg_spread {
  int arrays, buf_listed[IR_MOST_BESIDE]; /* what lies side by side */
  int results, buf[IR_MOST_BESIDE], buf_columns[IR_MOST_BESIDE]; /* of a result whose columns stay there too; -1: they do not */
  int columns;                           /* how many of these there are */
  const ir_func *func[IR_MOST_BESIDE];
  ir_expr *pitch[IR_MOST_BESIDE];
  float fill[IR_MOST_BESIDE];
  int places, buf_place[IR_MOST_BESIDE]; /* what lies at the results' place */
  ir_expr *pitch_place[IR_MOST_BESIDE];
  int place_bytes[IR_MOST_BESIDE];       /* of an element: 2, or 1 */
  bool whole;                            /* it is both branches: the arrays lie whole where dense is meant, */
  int buf_whole[IR_MOST_BESIDE];         /* here */
  ir_expr *pitch_whole[IR_MOST_BESIDE];
  bool filled;       /* the launch before has filled what no listed column touches */
  const char *label; /* of the stage's row */
} cg_spread;

/* ---- one launch ------------------------------------------------------------------------------ */
typedef struct cg_launch {
  const ir_stage *stage;
  const ir_kernel_row *row; /* NULL: a generic kernel */
  const ir_func *func;      /* generic: its function; composed: the fragment, or NULL */
  const char *part;         /* device function of the skeleton: "gemm_mma", "detect_bits", ... */
  const ir_list *list;      /* read, made or measured */
  const ir_list *noted;     /* of a row that skips k's: bits that say which */
  cg_product product;       /* of a gemm row */
  bool gathers, detects;
  bool detects_across;          /* its list's strips lie along n */
  bool spreads;                 /* columns that lie side by side, over whole results */
  cg_spread spread;
  int64_t share_units;          /* several blocks share a tile: there is room for the sums of so many parts; 0: none do */
  int buf_sums, buf_arrived;    /* -1: none */
  ir_expr *pitch_whole;         /* of T's rows, where it is computed side by side */
  int buf_whole;                /* T, of which it fills what no listed column touches; -1: it does not */
  bool in_place;                /* listed columns go to their places in the epilogue: no launch behind spreads them */
  bool samples, packed;        /* the list names columns of T; A was written over the list */
  ir_buf *columns;             /* where A lies so, beside its own place; NULL: it does not */
  bool compacted;              /* it is packed, and by the launch that made the list */
  bool own_dense;              /* it is the dense branch of its guard too */
  bool own_lists;              /* and walks bits: it decides, and no list is made */
  bool own_verdict;            /* it decides, from the counts of a list that one launch has made */
  bool tells;                  /* its blocks tell each other how much they have found */
  bool clears;                 /* it only clears the words for that, which else its front does */
  int cluster;                 /* blocks that share a strip, or columns; 0: no cluster */
  bool k_blocks, n_blocks;     /* the list names k tiles, runs of 64 columns of T: all by box */
  bool regroups;               /* rows of A and T are those of the list's order */
  bool live;                   /* rows of A are those that a list has packed, T's others are filled */
  bool krows;                  /* of each block of k they are those that a list names, and has packed; sums stay in shared memory */
  bool lists_guarded, sampled; /* list kernels: all readers are guarded; the values were sampled */
  int shared_bytes, threads, depth;
  bool narrow_slabs; /* of operands whose rows are k: 32 elements wide where 64 would not divide */
  int store_boxes;   /* of a row that stores by tensor map: boxes that a warpgroup stages at once */
  bool stages_place; /* and there waits what lies at their place; of a tile that has more boxes the rest comes through slots */
  bool stages_flags; /* it is only asked whether it is zero: a whole tile's waits, half as long as values, and threads keep what they choose */
  cg_brought brought;
  cg_groups groups;               /* of a row whose m is ragged; segment NULL: it is not */
  cg_scatter scatter;             /* of a row that scatters */
  cg_bsr bsr;
  cg_sdd sdd;
  cg_scales scales;               /* of a row that widens */
  cg_attend attend;               /* of a row that attends */
  int tile_n;                     /* columns of the tiles that it takes notes of */
  const ir_library_call *library; /* NULL: a kernel */
  const ir_program *program;
  const char *entry;
  IR_VEC(ir_buf *) bufs;
  int buf_a, buf_b, buf_t, buf_ids, buf_counts, buf_bits, buf_verdict; /* -1: none */
  const ir_list *weighs; /* it decides whether this list is meant, by the break-even that it is given; NULL: it does not */
  int buf_marks, buf_order, buf_packed, buf_partial;
  cg_operand asked; /* of a row that skips columns: where the result is asked for */
  int buf_asked, ahead; /* turns of loads under way there, as registers allow */
  int buf_asked_bits;   /* the same by bits of a list; -1: there are none */
  const struct cg_launch *sample; /* a dense branch in front of a list, or of two: how it takes a sample of the values, and then for the second (its own `sample`); NULL: it is none */
  bool sampling;                  /* it is such a sample */
  const struct cg_launch *instead; /* how it makes the list that may be made in place of its own; NULL: there is none */
  const ir_list *weighs_too;      /* of a front: of two that it weighs the second; NULL: there is none */
  const ir_list *other;           /* the other one of two lists of which one guards it; NULL: there is none */
  int buf_other;                  /* its verdict */
  const ir_list *fronted;         /* whose front it is, or stands behind; NULL: neither */
  int buf_front;
  bool decides;           /* it takes a sample of what is asked for and writes its guard's verdict */
  bool heeded, heeds;     /* the launch that takes a sample; the kernel behind it, which is both branches, and does not wait where that says dense */
  bool holds;             /* who comes behind it comes when all of its blocks have left */
  bool announces, informed; /* lets the one behind come when the verdict is there; of that one: it may leave by it at once */
  bool joined;            /* it is another launch's `next` */
  struct cg_launch *next; /* what the same blocks compute behind it, with the same buffers; NULL: nothing */
} cg_launch;

enum { CG_LARGE_TILE = 128 * 128 }; /* elements: from so many on it is the tensor cores that are waited for, up to so many memory */
enum { CG_BLOCKS_BESIDE = 4 }; /* of a launch before a kernel, or behind it, on a multiprocessor */
/* Rows that a block brings side by side what is listed of; columns that it lists at a time, and copies; how many such copies it has room for. */
enum { CG_COMPACT_ROWS = 16, CG_COMPACT_STRETCH = 4096, CG_COMPACT_WINDOW = 1024, CG_COMPACT_WINDOWS = 3 };
/* Where one launch does all: columns of a strip that a block has, and how many of them shared memory holds. */
enum { CG_SEGMENT = 512, CG_SEGMENT_STAGED = 384 };
ir_expr *cg_segments(ir_arena *arena, const ir_list *list); /* its blocks, of all strips: each has a word to tell the others */

typedef struct cg_launches {
  IR_VEC(cg_launch) at;
} cg_launches;

/* The launches of a stage with this row (the stage's own or a runner-up's). bits_are_there: for DETECT stages of a
 * fused list, and stages that ask bits, whether the epilogue that was chosen makes them. */
spc_status cg_select_stage(ir_arena *arena, const ir_kernel *kernel, const ir_stage *stage,
                           const char *row, bool bits_are_there, ir_sink *sink, cg_launches *out);
/* ---- shapes (cuda_shape.c) -------------------------------------------------------------------- */
/* The function's outermost loop whose iterations threads share; NULL: there is none. */
const ir_code *cg_thread_loop(const ir_func *func);
bool cg_grid_covers(const ir_code *loop); /* its length is known when it is launched: a grid is as large, unless that is capped */
/* A block finds a word of bits, or several; else a warp does. */
bool cg_detects_by_blocks(const ir_list *list);
/* Tiles that are fewer than multiprocessors are dealt evenly over the machine. */
bool cg_deals_evenly(const cg_launch *launch);
/* Launch shape: grid, threads, shared memory, buffers. */
void cg_launch_image(ir_arena *arena, const cg_launch *launch, ir_code_image *out);
int cg_blocks_beside(const cg_launch *launch); /* what its registers are to leave room for, on a multiprocessor */
bool cg_is_plain(const ir_kernel_row *row);    /* multiply-adds, no tensor cores, all k's */
int cg_buffer_number(const cg_launch *launch, const ir_buf *buf); /* -1: not there */
const char *cg_leaves_to_front(ir_arena *arena, const cg_launch *launch); /* a line of its kernel, or none */
int cg_list_number(const ir_kernel *kernel, const ir_list *list); /* by which the plan's report knows it; -1: none of the kernel's */

int cg_buffer_use(ir_arena *arena, cg_launch *launch, ir_buf *buf); /* its number, added or not */
ir_buf *cg_values_buffer(ir_arena *arena, const ir_tensor *tensor);

/* ---- the list of a product (cuda_fit.c) --------------------------------------------------------- */
/* Fits the launch's product to the list that its stage reads: the words that say why it does not, or NULL. */
const char *cg_fit_lists(ir_arena *arena, const ir_kernel *kernel, const ir_stage *stage, cg_launch *launch);
bool cg_stage_is_listed(const ir_stage *stage); /* what it computes lies side by side first */
const ir_kernel_row *cg_spreading_row(void);    /* the launch that puts such columns where they belong */

/* ---- who reads a list (cuda_readers.c) --------------------------------------------------------- */
bool cg_has_dense_twin(const ir_kernel *kernel, const ir_stage *stage, const ir_kernel_row *row);
bool cg_walks_bits(const ir_kernel *kernel, const ir_list *list);
bool cg_reads_counts(const ir_kernel *kernel, const ir_list *list);
bool cg_moves_at_once(const ir_kernel *kernel, const ir_list *list);
bool cg_keeps_bits(const ir_kernel *kernel, const ir_list *list); /* of a list whose counts are read */
bool cg_is_both(const ir_kernel *kernel, const ir_list *list);
bool cg_is_guarded(const ir_kernel *kernel, const ir_list *list); /* whoever reads it */
int cg_strip_cluster(const ir_list *list); /* blocks that make a list together where its counts are read */

/* ---- where a result is asked for (cuda_asked.c) ------------------------------------------------- */
const ir_list *cg_asked_list(const ir_stage *stage); /* of bits that the stage could ask; NULL: there are none */
void cg_asked_use(ir_arena *arena, cg_launch *launch, ir_buf *values, bool bits_are_there);
void cg_asked_print(ir_arena *arena, const ir_kernel *kernel, const cg_launch *launch, ir_text *out);

/* ---- joined launches (cuda_join.c) ------------------------------------------------------------ */
/* Makes the second stage's launch the first's `next` where blocks need each other's results alone; the second has
 * none then. */
bool cg_join(ir_arena *arena, cg_launches *first, cg_launches *second);

/* ---- columns that are spread (cuda_spread.c) -------------------------------------------------- */
bool cg_spread_takes(const ir_stage *stage, const ir_func *func, int beside); /* a FRAGMENT value of so much beside, what lies at the place, m and n */
void cg_spread_in_place(ir_arena *arena, cg_launch *launch); /* what the epilogue of a product that spreads its columns asks for */
/* Fills the launch behind one that has computed listed columns: all of its result. */
void cg_spread_behind(ir_arena *arena, const ir_kernel *kernel, const cg_launch *computes, cg_launch *launch);
/* Fills the launch of a stage of its own; the words that say why not, or NULL. */
const char *cg_spread_beside(ir_arena *arena, const ir_kernel *kernel, cg_launch *launch);
/* An operand of a k gather that a stage has left side by side too, in the columns of this list: it is read there.  False: neither was. */
bool cg_reads_beside(ir_arena *arena, const ir_kernel *kernel, cg_launch *launch, ir_index **axis, ir_index **strip);
int cg_spread_width(const cg_launch *launch); /* columns that a block takes at a time */
void cg_spread_print_in_place(ir_arena *arena, const cg_launch *launch, ir_text *out);
void cg_spread_print(ir_arena *arena, const cg_launch *launch, ir_text *out); /* arrays and results, in its Config */

/* ---- tiles that blocks share (cuda_shares.c) ----------------------------------------------------- */
void cg_share_tiles(ir_arena *arena, cg_launch *launch); /* where a list makes its tiles */
void cg_clear_shares(ir_arena *arena, cg_launch *launch); /* of a launch that makes a list: it clears their counters */
void cg_shares_print(const cg_launch *launch, ir_text *out); /* in the Config of one, and of the other: */
void cg_counters_print(const cg_launch *launch, ir_text *out);

/* ---- a library (cuda_library.c) -------------------------------------------------------------- */
#define CG_LIBRARY "library" /* the row's name of such a stage */
/* Fills launch->library and its buffers; the words that say why not, or NULL. */
const char *cg_library_select(ir_arena *arena, const ir_kernel *kernel, cg_launch *launch);
void cg_library_print(ir_arena *arena, const cg_launch *launch, ir_text *out);

/* ---- attention (cuda_attend.c) --------------------------------------------------------------- */
bool cg_attend_share(cg_launch *launch); /* sets depth, store_boxes and shared_bytes; false: there is no room */
void cg_attend_maps(ir_arena *arena, const cg_launch *launch, ir_code_image *out); /* of q, k, the result and v */
/* Whether a score is a constant, which is told, times the sum; what all numbers that a fragment divides its parameter by are multiples of. */
bool cg_attend_is_linear(const ir_func *f, double *scale);
int64_t cg_attend_step_of(const ir_func *f, int parameter);

/* ---- boxes (cuda_boxes.c) -------------------------------------------------------------------- */
void cg_boxes_bring(cg_launch *launch); /* sets brought */
void cg_boxes_share(cg_launch *launch); /* sets depth, store_boxes and shared_bytes */
/* Number of tiles of the whole result. */
ir_expr *cg_product_tiles(ir_arena *arena, const cg_launch *launch);
/* Maps of A, B, T and what is read at T's place, or A's packed rows, in this order. */
void cg_boxes_maps(ir_arena *arena, const cg_launch *launch, ir_code_image *out);

/* ---- text ------------------------------------------------------------------------------------ */
void cg_config_print(ir_arena *arena, const ir_kernel *kernel, const cg_launch *launch,
                     ir_text *out);
void cg_loop_print(ir_arena *arena, const ir_kernel *kernel, const cg_launch *launch, ir_text *out);

/* An element that a shared loop's iteration is handed: buf[offset], the first one at buf[start]. */
enum { CG_NEAR = 8 };
typedef struct cg_near {
  const ir_buf *buf;
  ir_expr *offset, *start;
  const char *name;
  bool fixed; /* the same one for all iterations */
} cg_near;

/* Pieces of loop IR.  Sizes are read from `args`; a buffer is args.buf[its number]. */
typedef struct cg_printer {
  ir_text *out;
  const ir_func *func;
  const cg_launch *launch;
  int depth; /* of indentation */
  int team;  /* threads that do a row together; 0: each for itself */
  int shared; /* inside a loop that they share */
  const ir_code *columns; /* inside these */
  cg_near near[CG_NEAR];
  int near_count;
} cg_printer;
/* cuda_print.c */
void cg_print_indent(const cg_printer *p);
void cg_print_expr(const cg_printer *p, const ir_expr *e);
void cg_print_block(cg_printer *p, const ir_block *block);
const char *cg_print_buffer(const cg_printer *p, const ir_buf *buf);
/* cuda_team.c: a loop of lanes, with what its threads have summed combined behind it. */
void cg_print_shared(cg_printer *p, const ir_code *loop);
/* A loop over nothing but one of lanes, by a team of one thread: it has several iterations' elements under way. */
bool cg_is_rows_of_lanes(const cg_printer *p, const ir_code *loop);
void cg_print_rows_of_lanes(cg_printer *p, const ir_code *loop);
/* A sum's loop by one thread, with several of its iterations' loads under way; false: it has none that can be asked for ahead. */
bool cg_print_steps(cg_printer *p, const ir_code *loop);
/* Columns that threads share the sums of, and the shares inside them. */
void cg_print_columns(cg_printer *p, const ir_code *loop);
void cg_print_size(ir_arena *arena, const ir_expr *size, ir_text *out); /* an expression of dims alone */
const char *cg_size_text(ir_arena *arena, const ir_expr *size);         /* the same, by itself */
void cg_print_fragment(cg_printer *p); /* parameters' declarations aside: body and return */
const char *cg_cuda_name(ir_arena *arena, const char *name); /* a C++ identifier, never a keyword */
const char *cg_value_type(ir_dtype t); /* of t in arithmetic: "float" for bf16 */

/* ---- NVRTC ----------------------------------------------------------------------------------- */
typedef struct cg_nvrtc_job {
  const char *name, *source; /* name: of the text, in messages */
  const char *arch;          /* "sm_90a" */
  bool ptx, line_info;
} cg_nvrtc_job;
/* Thread-safe and without arenas: data and log are malloc'ed. */
typedef struct cg_nvrtc_raw {
  void *data;
  size_t bytes;
  char *log;
  bool failed;
  bool cached; /* it came from the cache */
} cg_nvrtc_raw;
void cg_nvrtc_raw_compile(const cg_nvrtc_job *job, cg_nvrtc_raw *out);
enum { CG_NVRTC_OPTIONS = 10 };
/* What NVRTC is told; the first option is written into `arch`.  Returns the count. */
int cg_nvrtc_options(const cg_nvrtc_job *job, char arch[64], const char *list[CG_NVRTC_OPTIONS]);
/* Loads the library: its own number, "13.0", and its file; false when it is not there. */
bool cg_nvrtc_describe(char *number, size_t number_bytes, char *path, size_t path_bytes);

/* Which NVRTC there is, from the cache or by loading it; text from the arena, NULL when it is not
 * there.  Part of every cubin's key. */
const char *cg_nvrtc_identity(ir_arena *arena, const ir_cache *cache);
/* A cubin from the cache, else by NVRTC and into the cache; recall: or none.  Thread-safe. */
void cg_cubin_make(const cg_nvrtc_job *job, const char *identity, const ir_cache *cache,
                   bool recall, cg_nvrtc_raw *out);

/* ---- edited texts (cuda_override.c) ---------------------------------------------------------- */
/* Puts the folder's files in place of emitted texts: code->source, code->path. */
spc_status cg_override(ir_arena *arena, ir_image *image, const char *folder, ir_sink *sink);
/* The error for an edited text that NVRTC rejects. */
spc_status cg_override_failed(const ir_code_image *code, const char *arch, const char *log,
                              ir_sink *sink);
/* What there is to say of one that compiles; fault: of its log, or NULL. */
spc_status cg_override_check(const ir_code_image *code, const char *fault, ir_sink *sink);
void cg_nvrtc_read_log(const char *log, cg_nvrtc_result *out);

#endif
