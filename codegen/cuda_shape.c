/* cuda_shape.c - the shape of a launch: grid, threads, clusters, shared memory; as expressions of sizes. */
#include "codegen/cuda.h"

enum { THREADS_A_UNIT = 2048, REGISTERS_A_UNIT = 65536 };
enum { GROUP_THREADS_A_UNIT = 512 }; /* persistent blocks whose rows come in groups */

/* ---- loops and lists ------------------------------------------------------------------------- */
static bool only_sizes(const ir_expr *e) {
  if (e->kind == IR_CONST || e->kind == IR_DIM) return true;
  if (e->kind != IR_OP) return false;
  for (int i = 0; i < e->arg_count; i++)
    if (!only_sizes(e->args[i])) return false;
  return true;
}

const ir_code *cg_thread_loop(const ir_func *func) {
  for (int i = 0; i < func->body.codes.count; i++) {
    const ir_code *code = func->body.codes.at[i];
    if (code->kind == IR_FOR &&
        (code->run == IR_RUN_THREAD || code->run == IR_RUN_TEAM || code->run == IR_RUN_COLUMNS || code->run == IR_RUN_PARALLEL))
      return code;
  }
  return NULL;
}

bool cg_grid_covers(const ir_code *loop) { return only_sizes(loop->lo) && only_sizes(loop->hi); }

/* A block finds a word, or several, where micro-tiles are long or lie along the rows (detect.cuh);
 * else a warp does. */
bool cg_detects_by_blocks(const ir_list *list) {
  const int64_t long_gran = 8;
  return list->gran >= long_gran || ir_last_dim(list->tensor) == list->axis_dim;
}

/* ---- grids ----------------------------------------------------------------------------------- */
/* At most: every group may end in a tile that is not full, and rows may lie before and behind all. */
static ir_expr *group_tiles(ir_arena *a, const cg_launch *l) {
  const cg_product *p = &l->product;
  ir_expr *rows = ir_apply(a, IR_OP_ADD, ir_ceil_div(a, p->size_m, l->row->m),
                           ir_apply(a, IR_OP_ADD, l->groups.segment->extent, ir_int(a, 2)));
  return ir_apply(a, IR_OP_MUL, rows, ir_ceil_div(a, p->size_n, l->row->n));
}

ir_expr *cg_product_tiles(ir_arena *a, const cg_launch *l) {
  const cg_product *p = &l->product;
  if (l->groups.segment) return group_tiles(a, l);
  ir_expr *blocks = ir_ceil_div(a, p->size_m, l->row->m);
  if (!l->attend.is) blocks = ir_apply(a, IR_OP_MUL, blocks, ir_ceil_div(a, p->size_n, l->row->n));
  for (int i = 0; i < p->batch_count; i++)
    blocks = ir_apply(a, IR_OP_MUL, blocks, p->batch[i]->extent);
  return blocks;
}

static ir_expr *at_least_one(ir_arena *a, ir_expr *e) {
  return ir_apply(a, IR_OP_MAX, e, ir_int(a, 1));
}

/* A warp makes a word of a row's marks, a lane of a block finds a row's place, a block lists a strip's blocks. */
static ir_expr *regrouped_grid(ir_arena *a, const cg_launch *l) {
  const int rows_a_block = 32;
  ir_expr *rows = l->list->strip_index->extent, *words = ir_ceil_div(a, l->list->capacity, 32);
  if (!strcmp(l->part, "detect_rows"))
    return at_least_one(a, ir_ceil_div(a, ir_apply(a, IR_OP_MUL, rows, words), l->threads / 32));
  return at_least_one(a, !strcmp(l->part, "order_rows") ? ir_ceil_div(a, rows, rows_a_block) : l->list->strips);
}

static ir_expr *scatter_grid(ir_arena *a, const cg_launch *l) {
  return at_least_one(a, ir_apply(a, IR_OP_MUL, ir_ceil_div(a, l->scatter.rows, l->row->m),
                                  ir_ceil_div(a, l->scatter.n->extent, l->row->n)));
}

/* Strips, or pairs of them that share a list. */
static ir_expr *lists_of(ir_arena *a, const ir_list *list) { return list->pairs ? ir_ceil_div(a, list->strips, 2) : list->strips; }

/* A block takes a few rows of what shares a list. */
static ir_expr *compact_blocks(ir_arena *a, const cg_launch *l) {
  return ir_apply(a, IR_OP_MUL, lists_of(a, l->list), ir_int(a, (ir_list_rows(l->list) + CG_COMPACT_ROWS - 1) / CG_COMPACT_ROWS));
}

ir_expr *cg_segments(ir_arena *a, const ir_list *list) { return ir_apply(a, IR_OP_MUL, lists_of(a, list), ir_ceil_div(a, list->capacity, CG_SEGMENT)); }

/* A block a strip and some of its columns. */
static ir_expr *spread_grid(ir_arena *a, const cg_launch *l) {
  return at_least_one(a, ir_apply(a, IR_OP_MUL, l->list->strips, ir_ceil_div(a, l->product.size_n, cg_spread_width(l))));
}

/* Where a verdict is written there is a block that does it, however small the operand. */
static ir_expr *own_list_grid(ir_arena *a, const cg_launch *l) {
  const int words_a_block = 32;
  ir_expr *strips = l->list->strips, *words = ir_ceil_div(a, l->list->capacity, 32);
  if (!strcmp(l->part, "lists_of_pairs")) strips = lists_of(a, l->list);
  if (!strcmp(l->part, "detect_lists")) return strips;
  if (l->clears) return ir_int(a, 1);
  if (l->tells && !l->live) return at_least_one(a, cg_segments(a, l->list));
  if (l->compacted) return at_least_one(a, compact_blocks(a, l));
  if (l->cluster) return ir_apply(a, IR_OP_MUL, at_least_one(a, lists_of(a, l->list)), ir_int(a, l->cluster));
  if (l->regroups) return regrouped_grid(a, l);
  if (l->krows) return at_least_one(a, ir_apply(a, IR_OP_MUL, strips, ir_ceil_div(a, ir_tensor_extent(l->list->tensor, l->list->axis_dim), (int)l->list->section))); /* a block a section of each strip */
  if (l->live) return at_least_one(a, words); /* a block a word of rows, a warp a row */
  if (!strcmp(l->part, "detect_bits") && cg_detects_by_blocks(l->list)) return at_least_one(a, ir_apply(a, IR_OP_MUL, strips, words));
  if (!strcmp(l->part, "detect_bits"))
    return at_least_one(a, ir_ceil_div(a, ir_apply(a, IR_OP_MUL, strips, words), l->threads / 32));
  ir_expr *parts = at_least_one(a, ir_ceil_div(a, words, words_a_block));
  return at_least_one(a, ir_apply(a, IR_OP_MUL, strips, parts));
}

/* As many as either of two lists takes. */
static ir_expr *list_grid(ir_arena *a, const cg_launch *l) {
  ir_expr *own = own_list_grid(a, l);
  return l->instead ? ir_apply(a, IR_OP_MAX, own, own_list_grid(a, l->instead)) : own;
}

/* One thread an iteration; persistent when the range is not an expression of sizes, one thread in
 * all when there is no parallel loop. */
static void loop_shape(ir_arena *a, const cg_launch *l, ir_code_image *out) {
  const ir_code *loop = cg_thread_loop(l->func);
  out->blocks_per_sm = 8;
  if (!loop) {
    out->grid[0] = ir_int(a, 1);
  } else if (loop->run == IR_RUN_COLUMNS) {
    int blocks = l->cluster ? l->cluster : 1;
    if (cg_grid_covers(loop))
      out->grid[0] = ir_apply(a, IR_OP_MUL, ir_ceil_div(a, ir_apply(a, IR_OP_SUB, loop->hi, loop->lo), loop->width), ir_int(a, blocks));
  } else if (cg_grid_covers(loop)) {
    int rows = loop->run == IR_RUN_TEAM ? l->threads / loop->width : l->threads; /* of a block */
    out->grid[0] = ir_ceil_div(a, ir_apply(a, IR_OP_SUB, loop->hi, loop->lo), rows);
    out->capped = l->stage->when.list != NULL; /* blocks that have nothing to do take their time too */
    if (out->capped) out->blocks_per_sm = THREADS_A_UNIT / l->threads;
  }
}

/* Kernels of larger tiles would take 0.7 % longer: which tile comes first is then no number that a warp shares. */
bool cg_deals_evenly(const cg_launch *l) {
  return ir_kernel_moves_boxes(l->row) && ir_kernel_is_dense(l->row) && ir_kernel_split(l->row) == 1 && l->row->m * l->row->n <= CG_LARGE_TILE &&
         !l->attend.is && !l->groups.segment;
}

/* Persistent blocks that fit a multiprocessor side by side, by threads and by shared memory. */
static int group_blocks(const cg_launch *l) {
  const int unit_bytes = 227 << 10, reserved = 1 << 10;
  int by_threads = GROUP_THREADS_A_UNIT / l->threads, by_bytes = unit_bytes / (l->shared_bytes + reserved);
  return by_threads < by_bytes ? by_threads : by_bytes > 0 ? by_bytes : 1;
}

void cg_launch_image(ir_arena *arena, const cg_launch *launch, ir_code_image *out) {
  *out = (ir_code_image){.stage = launch->stage,
                         .func = launch->func,
                         .entry = launch->entry,
                         .label = launch->library ? "cuBLASLt"
                                  : launch->spreads ? launch->spread.label
                                  : launch->row   ? launch->row->name
                                                  : "loop",
                         .library = launch->library,
                         .front = launch->sample ? launch->fronted : NULL,
                         .behind = launch->sample ? NULL : launch->fronted,
                         .weighs = launch->weighs,
                         .weighs_too = launch->weighs_too,
                         .clears = launch->clears,
                         .threads = launch->threads,
                         .blocks_per_sm = 1,
                         .shared_bytes = launch->shared_bytes,
                         .registers = -1,
                         .spill_bytes = -1};
  for (int i = 0; i < launch->bufs.count; i++) IR_PUSH(arena, &out->bufs, launch->bufs.at[i]);
  if (launch->library) return;
  if (!launch->row)
    loop_shape(arena, launch, out);
  else if (launch->spreads)
    out->grid[0] = spread_grid(arena, launch), out->capped = !launch->spread.filled, out->blocks_per_sm = CG_BLOCKS_BESIDE; /* not capped: of what is filled already some blocks have little to do */
  else if (launch->attend.takes_notes)
    out->grid[0] = at_least_one(arena, launch->attend.notes->count), out->capped = true, out->blocks_per_sm = CG_BLOCKS_BESIDE;
  else
    out->grid[0] = launch->row->multiply != IR_MULTIPLY_NONE ? cg_product_tiles(arena, launch)
                   : ir_kernel_scatters(launch->row)         ? scatter_grid(arena, launch)
                                                             : list_grid(arena, launch);
  if (launch->part && (!strcmp(launch->part, "detect_bits") || !strcmp(launch->part, "detect_rows")))
    out->capped = true;
  if (launch->cluster) out->capped = true, out->cluster = launch->cluster, out->blocks_per_sm = 2;
  if (launch->groups.segment) {
    out->capped = true;
    out->blocks_per_sm = group_blocks(launch);
  }
  if (launch->row && ir_kernel_brings_rows(launch->row)) out->capped = true;
  if (launch->row && ir_kernel_writes_bsr(launch->row) && !ir_kernel_moves_boxes(launch->row)) out->capped = true, out->blocks_per_sm = 4;
  if (launch->row && ir_kernel_skips(launch->row) && ir_kernel_split(launch->row) > 1)
    out->grid[0] = ir_apply(arena, IR_OP_MUL, out->grid[0], ir_int(arena, ir_kernel_split(launch->row)));
  if (launch->row && ir_kernel_moves_boxes(launch->row)) {
    int split = ir_kernel_split(launch->row);
    out->capped = split == 1;
    out->evenly = cg_deals_evenly(launch);
    if (split > 1) out->grid[0] = ir_apply(arena, IR_OP_MUL, out->grid[0], ir_int(arena, split));
    if (launch->gathers && launch->share_units) out->grid[0] = ir_apply(arena, IR_OP_MUL, out->grid[0], ir_int(arena, IR_SHARED_PARTS)); /* a few tiles are many parts */
    if (launch->attend.is) cg_attend_maps(arena, launch, out);
    else cg_boxes_maps(arena, launch, out);
  }
}

/* ---- what a multiprocessor is to hold side by side ---------------------------------------------- */
bool cg_is_plain(const ir_kernel_row *row) { return row->multiply == IR_MULTIPLY_FMA && !ir_kernel_skips(row); }

static int plain_blocks(const ir_kernel_row *row) {
  const int others = 64; /* registers of a thread beside its sums: two k's of both operands, addresses */
  return REGISTERS_A_UNIT / (row->m * row->n + others * row->threads);
}

/* By mma.sync: as many as registers allow without spilling. */
static int attending_blocks(const cg_launch *l) {
  int longest = l->attend.head > l->attend.head_v ? l->attend.head : l->attend.head_v;
  int most = longest <= 64 ? 4 : longest <= 128 ? 3 : longest <= 192 ? 2 : 1;
  bool crowded = l->attend.asked && most > 2; /* bits beside the sums */
  return ir_kernel_moves_boxes(l->row) ? 1 : crowded ? most - 1 : most;
}

/* The registers of lists_from_bits leave room to start while detect_bits ends; a block that looks at zeros itself waits for memory more than
 * once: another one computes meanwhile, as it does while one of plain multiply-adds waits for its own threads.  Joined stages keep what the
 * first of them needs to keep memory busy. */
int cg_blocks_beside(const cg_launch *l) {
  if (l->cluster) return 2;
  if (l->spreads && l->spread.arrays + l->spread.results <= 2) return CG_BLOCKS_BESIDE + 1; /* with four, and the registers of four, a dense branch behind it takes 8 us longer: measured, not known why */
  if (l->attend.takes_notes || l->spreads) return CG_BLOCKS_BESIDE;
  if (l->attend.is) return attending_blocks(l);
  if (!strcmp(l->part, "lists_from_bits")) return THREADS_A_UNIT / l->threads;
  if (!strcmp(l->part, "lists_of_pairs") || !strcmp(l->part, "list_krows") || (l->compacted && l->row->multiply == IR_MULTIPLY_NONE)) return THREADS_A_UNIT / 2 / l->threads;
  if (ir_kernel_widens(l->row) && !ir_kernel_moves_boxes(l->row)) return l->row->m > 8 ? 2 : 3;
  if (ir_kernel_writes_bsr(l->row)) return ir_kernel_moves_boxes(l->row) ? 1 : 4;
  if (l->next) return 3;
  if (cg_is_plain(l->row)) return plain_blocks(l->row);
  return ir_kernel_skips(l->row) ? ir_kernel_skipping_blocks(l->row) : 1;
}
