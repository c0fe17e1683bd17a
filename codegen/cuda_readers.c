/* cuda_readers.c - who reads a list, and what that one decides by itself: then no launch does.
 *
 *     a dense twin    the kernel over the list is the dense branch too
 *     walks bits      it reads the bits of blocks, and no list is made
 *     reads counts    one launch makes bits and list, and the counts tell it the cover */
#include "codegen/cuda.h"

/* The stage behind it computes the same where the guard says dense, by a kernel with the same tile:
 * the kernel of a k list that takes all k's in order is that kernel. */
bool cg_has_dense_twin(const ir_kernel *kernel, const ir_stage *stage, const ir_kernel_row *row) {
  const ir_list *list = stage->when.list;
  int i = 0;
  while (i < kernel->stages.count && kernel->stages.at[i] != stage) i++;
  if (!list || stage->when.above || i + 1 >= kernel->stages.count) return false;
  const ir_stage *other = kernel->stages.at[i + 1];
  const ir_kernel_row *dense = other->row ? ir_kernel_row_named(other->row) : NULL;
  bool same = other->when.list == ir_list_first(list) /* of two: the dense branch of either */ && other->when.above && other->stmts.count == 1 &&
              other->stmts.at[0] == stage->stmts.at[0] && stage->reads.at[0] == list;
  return same && ir_kernel_is_twin(row, dense);
}

/* The stage that alone reads the list, or is guarded by it beside its twin; NULL: there are others. */
static const ir_stage *only_reader(const ir_kernel *kernel, const ir_list *list) {
  const ir_stage *reader = NULL;
  int guarded = 0;
  for (int i = 0; i < kernel->stages.count; i++) {
    const ir_stage *stage = kernel->stages.at[i];
    if (stage->kind != IR_STAGE_COMPUTE) continue;
    guarded += stage->when.list == list;
    for (int r = 0; r < stage->reads.count; r++) {
      if (stage->reads.at[r] != list) continue;
      if (reader) return NULL;
      reader = stage;
    }
  }
  return guarded == 2 ? reader : NULL;
}

/* The stage that alone reads the list that a stage makes of values, and may decide for itself; else NULL: of one that is kept nothing is saved by not making it. */
static const ir_stage *alone_reader(const ir_kernel *kernel, const ir_list *list) {
  const ir_stage *reader = only_reader(kernel, list);
  bool alone = reader && reader->row && !reader->detects && list->bits && !ir_list_is_of_rows(list) && !list->fused && !ir_list_made_once(kernel, list) &&
               list->verdict && list->threshold;
  return alone ? reader : NULL;
}

/* Lists of blocks are short: where one kernel alone reads them, and is its own dense branch, it walks the bits and decides
 * itself.  Another one that could stand in for it would need the list. */
bool cg_walks_bits(const ir_kernel *kernel, const ir_list *list) {
  const ir_stage *reader = alone_reader(kernel, list);
  const ir_kernel_row *row = reader ? ir_kernel_row_named(reader->row) : NULL;
  return row && ir_kernel_k_blocks(row) && !ir_kernel_regroups(row) && !reader->runners_up.count && cg_has_dense_twin(kernel, reader, row);
}

/* Blocks that share a strip, or two that share a list: about one a multiprocessor; large clusters find no room where they are many. */
int cg_strip_cluster(const ir_list *list) {
  const int64_t many = 64, few = 8;
  int64_t strips = 0, shared = ir_size_bound(list->strips, &strips) ? strips / ir_list_together(list) : few + 1;
  return shared >= many ? 2 : shared > few ? 4 : 8;
}

/* The words of two strips that share a list are in a cluster's shared memory at once (kernels/strips.cuh). */
static bool fits_cluster(const ir_list *list) {
  const int64_t words_a_block = 256;
  int64_t capacity;
  return ir_size_bound(list->capacity, &capacity) && capacity <= words_a_block * 32 * cg_strip_cluster(list);
}

/* Few strips are few clusters: wide ones are read sooner by a block each part of them. */
static bool are_few_and_wide(const ir_list *list) {
  const int64_t few = 16, wide = 16384;
  int64_t strips, columns;
  return ir_size_bound(list->strips, &strips) && strips < few && !(ir_size_bound(list->axis->extent, &columns) && columns <= wide);
}

/* Blocks that bring a list's entries side by side have a segment of columns each.  Of two strips each waits for all of them: so few find room together on sixteen
 * multiprocessors, the least that a device of this kind is cut into. */
static bool fits_segments(const ir_list *list) {
  int64_t capacity;
  return ir_size_bound(list->capacity, &capacity) && capacity <= IR_PAIR_COLUMNS;
}

/* A cluster's blocks make a list in the launch that reads the values (kernels/strips.cuh), and the kernel that alone reads it decides, by its
 * counts; what it names of rows is brought side by side there, too (kernels/compact_strips.cuh).  What may run in its place reads the same list, and takes it for meant.
 * Of k's those that lie along the strip, and no narrow strips: these lose by it where much is kept (docs/performance-log.md). */
bool cg_reads_counts(const ir_kernel *kernel, const ir_list *list) {
  const int64_t least_strip = 128;
  const ir_stage *reader = alone_reader(kernel, list);
  const ir_kernel_row *row = reader ? ir_kernel_row_named(reader->row) : NULL;
  if (!row || !ir_kernel_moves_boxes(row)) return false;
  if (list->packed) return ir_kernel_packs(row) && ir_list_rows(list) == IR_SEGMENT_ROWS && (!list->pairs || fits_segments(list));
  if (ir_kernel_fills(row)) return !list->pairs && !are_few_and_wide(list);
  return ir_kernel_gathers(row) && !cg_detects_by_blocks(list) && (list->pairs ? ir_kernel_pairs(row) && fits_cluster(list) : list->strip >= least_strip);
}

/* The launch that reads the values brings side by side what it lists, too. */
bool cg_moves_at_once(const ir_kernel *kernel, const ir_list *list) { return list->packed && cg_reads_counts(kernel, list); }

/* Who reads it wants the bits as well. */
bool cg_keeps_bits(const ir_kernel *kernel, const ir_list *list) {
  const ir_stage *reader = only_reader(kernel, list);
  const ir_kernel_row *row = reader && reader->row ? ir_kernel_row_named(reader->row) : NULL;
  return row && ir_kernel_fills(row);
}

/* Two launches do all: who reads the list decides, and is the dense branch as well. */
bool cg_is_both(const ir_kernel *kernel, const ir_list *list) {
  return cg_walks_bits(kernel, list) || (cg_reads_counts(kernel, list) && !cg_keeps_bits(kernel, list) && !cg_moves_at_once(kernel, list));
}

/* Every stage that reads the list runs only where its guard says sparse. */
bool cg_is_guarded(const ir_kernel *kernel, const ir_list *list) {
  for (int i = 0; i < kernel->stages.count; i++) {
    const ir_stage *stage = kernel->stages.at[i];
    for (int r = 0; r < stage->reads.count && stage->kind == IR_STAGE_COMPUTE; r++)
      if (stage->reads.at[r] == list && (stage->when.list != list || stage->when.above))
        return false;
  }
  return list->verdict && list->threshold;
}
