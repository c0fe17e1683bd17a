/* cost.h - the device profile and the cost model: what a choice would take, in microseconds.
 *
 * Every figure that decides anything comes from a profile (profile.def names them), so that a
 * changed profile moves the choice: less bandwidth makes lists and gathers dearer, dearer launches
 * favour fewer stages.  docs/cost-model.md derives the formulas. */
#ifndef SPC_PASSES_COST_H
#define SPC_PASSES_COST_H

#include "ir/kernels.h"
#include "ir/target.h"
#include "passes/pass.h"

typedef struct pass_rate {
  const char *key;
  double tflops; /* dense 16-bit operands, whole device */
} pass_rate;

struct pass_profile {
  const char *name;
#define PROFILE_FIGURE(NAME, UNIT, H200, CUDA, CPU, MEANING) double NAME;
#include "passes/profile.def"
  IR_VEC(pass_rate) rates;
};

/* profile.c */
const pass_profile *pass_profile_of(ir_arena *arena,
                                    const ir_target *target); /* the built-in one */
/* `name = number` and `rate KEY = number` lines, `#` comments, over the built-in profile of the
 * target. A wrong line is a diagnostic (E0604) with its place; the name is the file's, for
 * messages. */
spc_status pass_profile_parse(ir_arena *arena, const ir_target *target, const char *name,
                              const char *text, size_t length, ir_sink *sink,
                              const pass_profile **out);
/* A CPU's profile with another number of cores: their own rates follow it. */
const pass_profile *pass_profile_for_cores(ir_arena *arena, const pass_profile *profile, double cores);
void pass_profile_print(const pass_profile *profile, ir_text *out); /* parses back */
/* By name, or `rate KEY`. */
bool pass_profile_set(ir_arena *arena, pass_profile *profile, const char *key, double value);
bool pass_profile_get(const pass_profile *profile, const char *key, double *value); /* false: it has none */
void pass_profile_copy(ir_arena *arena, const pass_profile *from, pass_profile *to); /* with rates of its own */
void pass_profile_print_changes(const pass_profile *profile, const pass_profile *before, ir_text *out); /* figures that are others */

/* ---- cover ---------------------------------------------------------------------------------- */
/* Zeros come in blocks of rows x cols; a share `density` of the blocks holds non-zeros. */
typedef struct pass_zeros {
  double low, high;  /* density range; equal when one figure is known */
  double likely;     /* what estimates use: the middle of the range (geometric) */
  bool known;        /* from a hint, not assumed */
  double rows, cols; /* granularity, at least 1 */
} pass_zeros;

/* Share of strip x gran micro-tiles that hold a non-zero: 1 - (1 - density)^n, where n is how many
 * blocks a micro-tile touches on average and the blocks are independent. */
double pass_cover(const pass_zeros *zeros, double density, double strip, double gran);
/* The same where blocks are alike: n^(1 - correlation) of the n count.  0: independent; 1: those of
 * a micro-tile are all alike, and the cover is the density. */
double pass_cover_alike(const pass_zeros *zeros, double density, double strip, double gran,
                        double correlation);
/* The inverse: the density of blocks at which that cover is reached. */
double pass_cover_inverse(const pass_zeros *zeros, double cover, double strip, double gran);

typedef struct pass_covers {
  double one, both; /* of a strip; of two strips together, where a tile tells two apart, else the same */
} pass_covers;

/* A line of a GPU's memory, which is brought as one; what rows that move by box start at multiples of. */
enum { PASS_LINE_BYTES = 128, PASS_BOX_BYTES = 16 };

/* ---- time ----------------------------------------------------------------------------------- */
typedef struct pass_product { /* epilogue(sum[k] A[m,k] * B[k,n]), batch times */
  double batch, m, n, k;
  ir_dtype a, b, c;
  bool unaligned; /* rows are no multiples of 16 bytes: a GPU's tiles copy element by element */
  bool operands_unaligned; /* the same, of A and B alone */
  bool k_rows_a, k_rows_b; /* k is not contiguous: a row of the operand is a k */
  bool asked;              /* bytes or bits at the result's own places say what is wanted */
  int lines_a, lines_b;    /* memory lines that a line's bytes of a row lie in: 2 where rows are known to be no multiples of one; 0 is 1 */
  bool outer_a, outer_b;   /* of 1 or 4 bytes, and k is not contiguous: tensor cores want it so */
} pass_product;

/* How one kernel runs a product.  strip 0: dense.  cover: share of k (or of m rows) that is left.
 */
typedef struct pass_tiling {
  const ir_kernel_row *row; /* NULL: generated loops */
  double m, n, k;           /* dense tile; for loops the register tile */
  double strip, gran, cover;
  double both; /* cover of two strips together */
  bool rows;    /* the list is over m: whole rows */
  bool columns; /* the list is over n: columns of the result */
  bool whole;   /* and what it does not name is filled */
  bool scattered; /* rows of the result go to their places one by one */
  bool joined;  /* blocks of the launch before it go on with it */
  bool pairs;   /* a tile is two strips that are told apart; cover is that of one */
  bool noted;   /* bits say which k's are left: values are read at those alone */
  bool seeks;   /* a sample of the values goes before: a dense branch stands behind */
} pass_tiling;

/* Whether a row's m runs along the product's n (its tiles say so) is told by m and n of the tiling.
 */
double pass_cost_product(const pass_profile *p, const ir_target *t, const pass_product *product,
                         const pass_tiling *tiling);
/* Attention: rows of queries, columns of keys, elements of each of both kinds; the share of pairs that are seen. */
typedef struct pass_attention {
  double batch, m, n, head, head_v, share;
  double bytes; /* of what is read and written once */
} pass_attention;
double pass_cost_attention(const pass_profile *p, const ir_kernel_row *row, const pass_attention *a);
/* Of a row that widens a factor of 8 bits: that is A where the row's is, else B. */
double pass_cost_widened(const pass_profile *p, const pass_product *product, const pass_tiling *tiling);
/* Of which A is stored in blocks: cover: share of k that a run of 64 of its rows has, both: that two of them have together. */
double pass_cost_bsr(const pass_profile *p, const pass_product *product, const pass_tiling *tiling);
/* Into stored blocks of strip x gran, of which there are `cover` of all; brought: bytes an element that the epilogue reads beside it. */
double pass_cost_sdd(const pass_profile *p, const pass_product *product, const pass_tiling *tiling, double brought);
/* By the vendor's library: its rate by dtype, or the memory's. */
double pass_cost_library(const pass_profile *p, const pass_product *product);
/* Lists of a rows x cols operand from its values, or from bits that the producer's epilogue wrote.
 */
double pass_cost_detect(const pass_profile *p, double rows, double cols, ir_dtype dtype,
                        double strip, double gran, double cover, bool fused);
/* What is listed of each of an operand's rows brought side by side: a launch that makes the lists reads the operand once more. */
double pass_cost_compact(const pass_profile *p, double bytes, double cover);
/* The same by the launch that has read them. */
double pass_cost_move(const pass_profile *p, double bytes, double cover, bool pairs);
double pass_cost_in_place(const pass_profile *p, double m, double n, double cover); /* of a result of m x n, above the product of its listed columns */
/* A whole result of so many bytes, and as many of conditions, of which this share was computed side by side. */
double pass_cost_spread(const pass_profile *p, double bytes, double asked, double cover);
/* Elementwise of columns that lie side by side: so many bytes, read and written. */
double pass_cost_beside(const pass_profile *p, double bytes);
/* Rows of so many bytes brought side by side, on the way of making their list. */
double pass_cost_pack(const pass_profile *p, double bytes);
/* Rows compressed, so many elements in all: ids and values of what is not zero. */
double pass_cost_compress(const pass_profile *p, double elements, ir_dtype dtype, double cover);
/* What a dense branch waits for kernels that take a sample of so many times eight rows, and leave. */
double pass_cost_seek_in_vain(const pass_profile *p, double passes);
double pass_cost_guard(const pass_profile *p, int skipped_launches);
/* What a guarded list costs where dense is meant: all of `index` (its lists and guard), or only a
 * sample and launches that leave, on a target that samples. */
double pass_cost_front(const pass_profile *p, int samples); /* what a dense branch in front of a list loses by samples, and by those behind it */
double pass_cost_look(const pass_profile *p, double index, bool fused, int skipped_launches);
/* Generated loops: so many iterations (over sparse levels or not) and so many bytes touched. */
/* Sums of `length` products at entries, a team of threads an entry, whose operands lie along the sum. */
double pass_cost_entries(const pass_profile *p, double entries, double length, double bytes);
double pass_cost_loops(const pass_profile *p, double iterations, double sparse_iterations,
                       double bytes);
/* So many multiply-adds by the vectors of all cores, at the rate of dense products. */
double pass_cost_multiply_adds(const pass_profile *p, const ir_target *t, double count, ir_dtype dtype);
/* Sums of a GPU's loops: so many rows of such a length, shared by the threads of warps and blocks, and
 * cut into parts where there are few. */
double pass_cost_sums(const pass_profile *p, double rows, double length, bool sparse, double bytes);
/* A GPU's loops run one thread an element of the result: what share of it so many elements keep
 * busy.  1 on a CPU. */
double pass_thread_share(const pass_profile *p, const ir_target *t, double elements);
double pass_cost_convert(const pass_profile *p, double bytes);
/* Cover at which the sparse variant (whose cost is affine in cover) costs as much as `dense`;
 * at most 1, 0 when sparse never wins. */
double pass_break_even(double at_zero, double at_one, double dense);

const char *pass_time_text(ir_arena *arena, double microseconds); /* "812 us", "1.02 ms" */

/* ---- sizes and zeros, as assumed ------------------------------------------------------------- */
void pass_dims_assumed(const pass_context *context); /* notes on every dim what estimates take */
double pass_size_assumed(const pass_context *context, const ir_expr *size);
double pass_index_assumed(const pass_context *context, const ir_index *index);
pass_zeros pass_zeros_of(const pass_context *context, const ir_tensor *tensor);
/* Whose hint says how much of the tensor is not zero: its own, or that of what it is computed under at
 * the same place (h[t,f] = .. on g[t,f]).  NULL: nobody's. */
const ir_tensor *pass_hinted_tensor(const ir_tensor *tensor);
double pass_tensor_bytes(const pass_context *context, const ir_tensor *tensor); /* as stored */

#endif
