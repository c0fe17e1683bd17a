/* kernels.h - the table of composed CUDA kernels as data (see kernels.def). */
#ifndef SPC_IR_KERNELS_H
#define SPC_IR_KERNELS_H

#include "ir/dtype.h"

typedef enum ir_load {
  IR_LOADER_NONE,
  IR_LOADER_TILE,
  IR_LOADER_KGATHER,
  IR_LOADER_NGATHER,
  IR_LOADER_KPAIR,
  IR_LOADER_NPAIR,
  IR_LOADER_NSPREAD,
  IR_LOADER_ROWS,
  IR_LOADER_LIVE,
  IR_LOADER_KROWS,
  IR_LOADER_GROUPS,
  IR_LOADER_TMA,
  IR_LOADER_KBLOCK,
  IR_LOADER_NBLOCK,
  IR_LOADER_BSR,
  IR_LOADER_SDD,
  IR_LOADER_PACKED,
  IR_LOADER_WIDE,
  IR_LOADER_SKIP
} ir_load_kind;
typedef enum ir_multiply {
  IR_MULTIPLY_NONE,
  IR_MULTIPLY_MMA,
  IR_MULTIPLY_WGMMA,
  IR_MULTIPLY_FMA
} ir_multiply;

typedef struct ir_kernel_row {
  const char *name, *skeleton;
  ir_load_kind load_a, load_b;
  ir_multiply multiply;
  const char *schedule, *store;
  int m, n, k, depth, threads;
  unsigned dtypes;
  char layout_a, layout_b;
  int align, least_arch, most_arch;
  const char *profile;
} ir_kernel_row;

extern const ir_kernel_row ir_kernel_rows[];
extern const int ir_kernel_row_count;
const ir_kernel_row *ir_kernel_row_named(const char *name); /* NULL when there is none */
bool ir_kernel_is_dense(const ir_kernel_row *row);          /* a product over all of k, no list */
bool ir_kernel_gathers(const ir_kernel_row *row);           /* its k's are those of a list */
bool ir_kernel_samples(const ir_kernel_row *row); /* a list names the columns that it computes */
/* The same, and a launch behind it spreads them: the result is whole, and other than its condition's fill where a list names it alone. */
bool ir_kernel_spreads(const ir_kernel_row *row);
/* Either of these, over lists of two strips whose entries say which of the two they are of (ir/tile.h); a half of the tile is a strip. */
bool ir_kernel_pairs(const ir_kernel_row *row);
/* A gathering row whose listed operand lies along k: the list brings what it names of it side by side. */
bool ir_kernel_packs(const ir_kernel_row *row);
/* Rows of a strip whose list it reads. */
int ir_kernel_strip(const ir_kernel_row *row);
bool ir_kernel_k_blocks(const ir_kernel_row *row); /* its k tiles are those of a list */
bool ir_kernel_regroups(const ir_kernel_row *row); /* and its rows are those of the list's order */
bool ir_kernel_is_live(const ir_kernel_row *row); /* its rows are those of a list, packed; the result's others are filled */
/* Each block of k is multiplied with the rows that a list names for it, and what it adds to them is summed up on chip. */
bool ir_kernel_is_krows(const ir_kernel_row *row);
bool ir_kernel_n_blocks(
    const ir_kernel_row *row); /* a list names the runs of columns that it computes; it fills the
                                  others, and its result is whole */
/* Either of these: what the list does not name of a whole result is filled, by its bits. */
bool ir_kernel_fills(const ir_kernel_row *row);
/* Persistent blocks over tiles that a list makes, or whose k's it names: where tiles are fewer than blocks several can share one, by k. */
bool ir_kernel_shares(const ir_kernel_row *row);
/* Whether it is so in this stage, over the list that it reads: who makes room in the list asks, and whoever uses that. */
struct ir_stage;
bool ir_stage_shares(const struct ir_stage *stage, const ir_kernel_row *row);
/* Columns of the narrower tiles that it takes too, where a list's last one has no more, or tiles are few; 0: all are as wide as the row says. */
int ir_kernel_narrow(const ir_kernel_row *row);
/* A dense row whose tiles are those of a row over a list: one kernel can be both.  Either may be NULL: false. */
bool ir_kernel_is_twin(const ir_kernel_row *row, const ir_kernel_row *dense);
/* Strips of a list of columns whose tiles are shared, at most: all counts are looked at first; parts of a tile at most, and k tiles of one at least: to meet takes as long as a few.
 * Of a tile whose k's are listed, k tiles that a block has to be spared: with fewer it is faster alone. */
enum { IR_SHARED_STRIPS = 64, IR_SHARED_PARTS = 8, IR_SHARED_STEPS = 6, IR_SHARED_SAVES = 13 };
bool ir_kernel_reads_bsr(const ir_kernel_row *row); /* its A is stored in blocks, and multiplied as it lies (ir/bsr.h) */
bool ir_kernel_writes_bsr(const ir_kernel_row *row); /* its result is stored in blocks, which say what is computed (ir/bsr.h) */
bool ir_kernel_moves_boxes(
    const ir_kernel_row *row); /* stores by tensor map, and loads too unless it gathers */
/* Rows come in ragged groups, each multiplied by a matrix of its own; they may be gathered. */
bool ir_kernel_is_grouped(const ir_kernel_row *row);
/* No product: rows are sent to the places that a vector names, and combined there in order. */
bool ir_kernel_scatters(const ir_kernel_row *row);
/* Blocks of a cluster that share a tile, each with a part of k; 1: k is not split. */
int ir_kernel_split(const ir_kernel_row *row);
/* Of those, the ones that store a share of the tile's columns (kernels/split.cuh). */
int ir_kernel_keepers(const ir_kernel_row *row);
/* B goes from memory into registers; its warps share k, and each keeps sums of the whole tile. */
bool ir_kernel_takes_turns(const ir_kernel_row *row); /* each warpgroup has tiles of its own */
bool ir_kernel_streams(const ir_kernel_row *row);
/* One operand is integers of 8 bits (its load is WIDE), which are widened to the other's 16-bit floats in registers. */
bool ir_kernel_widens(const ir_kernel_row *row);
int ir_kernel_group(const ir_kernel_row *row); /* k's that must share a scale there, where there are scales */
/* Two products with a softmax between them (ir/attend.h); `split`: blocks share what is summed over. */
bool ir_kernel_attends(const ir_kernel_row *row);
/* How it multiplies f32 operands (IR_PRECISION_FULL also where it takes none). */
ir_precision ir_kernel_precision(const ir_kernel_row *row);
/* It looks at zeros itself, without a list: reads only the rows of B that it has a use for. */
bool ir_kernel_skips(const ir_kernel_row *row);
bool ir_kernel_skips_columns(const ir_kernel_row *row); /* columns of the result, else k's */
int ir_kernel_skipping_blocks(const ir_kernel_row *row); /* of one that skips, on a multiprocessor: what its loads under way leave room for */
bool ir_kernel_brings_rows(const ir_kernel_row *row);   /* by bulk copies, in blocks that share the columns evenly */
/* Threads that multiply: all, but for the loading warpgroup of a specialised row. */
int ir_kernel_workers(const ir_kernel_row *row);
/* How the warpgroups of a wgmma row that multiply cut its tile. */
void ir_kernel_groups(const ir_kernel_row *row, int *m, int *n);
/* Whether its epilogue can make the bits of lists with strips along the row's m and micro-tiles of
 * `gran` along its n: strips and words of bits must not cross a tile. */
bool ir_kernel_detects(const ir_kernel_row *row, int64_t strip, int64_t gran);
/* The same of strips of 8 and single columns, whichever way round the product is: half words, as it stages its result, of 2 bytes an element. */
bool ir_kernel_detects_steps(const ir_kernel_row *row, int64_t strip, int64_t gran);

#endif
