/* kernels.c - the table of composed CUDA kernels, made from kernels.def. */
#include "ir/kernels.h"
#include "ir/tile.h"

const ir_kernel_row ir_kernel_rows[] = {
#define SPC_KERNEL(NAME, SKELETON, LOAD_A, LOAD_B, MULTIPLY, SCHEDULE, STORE, M, N, K, DEPTH,      \
                   THREADS, DTYPES, A, B, ALIGN, LEAST, MOST, PROFILE)                             \
  {#NAME,                                                                                          \
   #SKELETON,                                                                                      \
   IR_LOADER_##LOAD_A,                                                                             \
   IR_LOADER_##LOAD_B,                                                                             \
   IR_MULTIPLY_##MULTIPLY,                                                                         \
   #SCHEDULE,                                                                                      \
   #STORE,                                                                                         \
   M,                                                                                              \
   N,                                                                                              \
   K,                                                                                              \
   DEPTH,                                                                                          \
   THREADS,                                                                                        \
   DTYPES,                                                                                         \
   A,                                                                                              \
   B,                                                                                              \
   ALIGN,                                                                                          \
   LEAST,                                                                                          \
   MOST,                                                                                           \
   PROFILE},
#include "ir/kernels.def"
#undef SPC_KERNEL
    {.name = NULL} /* the end; not counted */
};
const int ir_kernel_row_count = IR_COUNT(ir_kernel_rows) - 1;

const ir_kernel_row *ir_kernel_row_named(const char *name) {
  for (int i = 0; i < ir_kernel_row_count; i++)
    if (!strcmp(ir_kernel_rows[i].name, name)) return &ir_kernel_rows[i];
  return NULL;
}

bool ir_kernel_attends(const ir_kernel_row *row) { return !strncmp(row->skeleton, "attend", 6); }

bool ir_kernel_is_dense(const ir_kernel_row *row) {
  return !ir_kernel_attends(row) && row->load_a == row->load_b &&
         (row->load_a == IR_LOADER_TILE || row->load_a == IR_LOADER_TMA) &&
         row->multiply != IR_MULTIPLY_NONE;
}

bool ir_kernel_gathers(const ir_kernel_row *row) {
  return row->load_b == IR_LOADER_KGATHER || row->load_b == IR_LOADER_KPAIR;
}

bool ir_kernel_samples(const ir_kernel_row *row) {
  return row->load_b == IR_LOADER_NGATHER || row->load_b == IR_LOADER_NPAIR;
}

bool ir_kernel_spreads(const ir_kernel_row *row) { return row->load_b == IR_LOADER_NSPREAD; }

bool ir_kernel_pairs(const ir_kernel_row *row) {
  return row->load_b == IR_LOADER_KPAIR || row->load_b == IR_LOADER_NPAIR;
}

bool ir_kernel_packs(const ir_kernel_row *row) { return ir_kernel_gathers(row) && row->load_a == IR_LOADER_PACKED; }

int ir_kernel_strip(const ir_kernel_row *row) { return ir_kernel_pairs(row) ? row->m / 2 : row->m; }

bool ir_kernel_k_blocks(const ir_kernel_row *row) { return row->load_b == IR_LOADER_KBLOCK; }

bool ir_kernel_regroups(const ir_kernel_row *row) { return row->load_a == IR_LOADER_ROWS; }

bool ir_kernel_is_live(const ir_kernel_row *row) { return row->load_a == IR_LOADER_LIVE; }

bool ir_kernel_is_krows(const ir_kernel_row *row) { return row->load_a == IR_LOADER_KROWS; }

bool ir_kernel_n_blocks(const ir_kernel_row *row) { return row->load_b == IR_LOADER_NBLOCK; }

bool ir_kernel_fills(const ir_kernel_row *row) { return ir_kernel_spreads(row) || ir_kernel_n_blocks(row); }

bool ir_kernel_shares(const ir_kernel_row *row) {
  return ir_kernel_moves_boxes(row) && (ir_kernel_samples(row) || ir_kernel_fills(row) || ir_kernel_gathers(row)) && ir_kernel_split(row) == 1;
}

bool ir_stage_shares(const ir_stage *stage, const ir_kernel_row *row) {
  const ir_list *list = stage->reads.count ? stage->reads.at[0] : NULL;
  if (!list || !ir_kernel_shares(row)) return false;
  if (!ir_kernel_gathers(row)) return true;
  const bool apart = list->pairs && !ir_kernel_pairs(row); /* one strip's entries of a list that two share */
  return list->strip_index && !list->order && !apart && !stage->detects;
}

int ir_kernel_narrow(const ir_kernel_row *row) {
  int m, n;
  if (!ir_kernel_n_blocks(row) || row->n != 256) return 0;
  ir_kernel_groups(row, &m, &n);
  return n == 1 ? row->n / 2 : 0;
}

bool ir_kernel_is_twin(const ir_kernel_row *row, const ir_kernel_row *dense) {
  return row && dense && ir_kernel_is_dense(dense) && ir_kernel_moves_boxes(dense) && ir_kernel_split(dense) == 1 && dense->m == row->m && dense->n == row->n && dense->k == row->k;
}

bool ir_kernel_reads_bsr(const ir_kernel_row *row) { return row->load_a == IR_LOADER_BSR; }

bool ir_kernel_writes_bsr(const ir_kernel_row *row) { return row->load_b == IR_LOADER_SDD; }

bool ir_kernel_is_grouped(const ir_kernel_row *row) { return row->load_a == IR_LOADER_GROUPS; }

bool ir_kernel_scatters(const ir_kernel_row *row) { return !strcmp(row->store, "scatter"); }

bool ir_kernel_moves_boxes(const ir_kernel_row *row) { return !strcmp(row->store, "tma"); }

int ir_kernel_split(const ir_kernel_row *row) {
  return strncmp(row->schedule, "split", 5) ? 1 : row->schedule[5] - '0';
}

int ir_kernel_keepers(const ir_kernel_row *row) {
  const int least = 8; /* columns */
  int split = ir_kernel_split(row);
  return split * least <= row->n ? split : row->n / least;
}

bool ir_kernel_streams(const ir_kernel_row *row) { return !strcmp(row->skeleton, "stream"); }

bool ir_kernel_widens(const ir_kernel_row *row) { return row->load_a == IR_LOADER_WIDE || row->load_b == IR_LOADER_WIDE; }

int ir_kernel_group(const ir_kernel_row *row) {
  const int of_a_warp = 64; /* where warps share k's */
  return ir_kernel_moves_boxes(row) ? row->k : of_a_warp;
}

ir_precision ir_kernel_precision(const ir_kernel_row *row) {
  const char *suffix = strstr(row->skeleton, "32");
  if (!suffix) return IR_PRECISION_FULL;
  return suffix[2] ? IR_PRECISION_TF32X3 : IR_PRECISION_TF32;
}

bool ir_kernel_skips(const ir_kernel_row *row) { return row->load_b == IR_LOADER_SKIP; }

bool ir_kernel_skips_columns(const ir_kernel_row *row) {
  return ir_kernel_skips(row) && row->layout_b == 'c';
}

bool ir_kernel_brings_rows(const ir_kernel_row *row) {
  return ir_kernel_skips(row) && !strcmp(row->schedule, "persistent");
}

/* Where rows are brought its shared memory is the multiprocessor's; a wide tile has it to itself. */
int ir_kernel_skipping_blocks(const ir_kernel_row *row) {
  if (ir_kernel_brings_rows(row)) return 1;
  return ir_kernel_skips_columns(row) ? 3 : row->n > 256 ? 1 : 2;
}

int ir_kernel_workers(const ir_kernel_row *row) {
  bool specialised =
      ir_kernel_moves_boxes(row) || (row->multiply == IR_MULTIPLY_WGMMA && row->threads == 384);
  return specialised ? row->threads - 128 : row->threads;
}

bool ir_kernel_takes_turns(const ir_kernel_row *row) { return !strcmp(row->schedule, "turns"); }

void ir_kernel_groups(const ir_kernel_row *row, int *m, int *n) {
  if (ir_kernel_takes_turns(row)) {
    *m = *n = 1;
    return;
  }
  int groups = ir_kernel_workers(row) / 128;
  *m = groups < row->m / 64 ? groups : row->m / 64;
  *n = groups / *m;
}

bool ir_kernel_detects(const ir_kernel_row *row, int64_t strip, int64_t gran) {
  const int64_t word = 32 * gran;
  int m, n;
  if (ir_kernel_skips_columns(row)) return strip == row->m && gran == 1;
  if (strip <= 0 || ir_kernel_n_blocks(row) || ir_kernel_spreads(row) || ir_kernel_regroups(row) || ir_kernel_is_live(row) || ir_kernel_is_krows(row) || ir_kernel_reads_bsr(row) || ir_kernel_writes_bsr(row) || row->m % strip || row->n % word ||
      ir_kernel_streams(row) || ir_kernel_widens(row) || ir_kernel_skips(row) || ir_kernel_is_grouped(row) || ir_kernel_split(row) > 1)
    return false;
  if (!ir_kernel_moves_boxes(row)) return true;
  /* Bits are or'ed over a warp's 16 rows, and over the warps of one block of 64 rows a warpgroup.
   */
  ir_kernel_groups(row, &m, &n);
  return strip % 16 == 0 && row->m == 64 * m && row->n / n % word == 0;
}

bool ir_kernel_detects_steps(const ir_kernel_row *row, int64_t strip, int64_t gran) {
  const int step = 16, most = 16; /* rows and columns of a warp's; a lane stores one of either strip */
  int m, n;
  if (!ir_kernel_is_dense(row) || !ir_kernel_moves_boxes(row) || ir_kernel_is_grouped(row) || ir_kernel_widens(row) || ir_kernel_split(row) > 1) return false;
  ir_kernel_groups(row, &m, &n);
  return strip == 8 && gran == 1 && row->m == 64 * m && row->n / n % step == 0 && row->n / n <= most * step;
}
