/* cost.c - the cost model: docs/cost-model.md has the derivation and the measurements it was fitted
 * to.
 *
 *     t = launch + waves * tile flops / rate + bytes of the result / bandwidth     (or the memory
 * bound) rate = min(share * peak, gather bandwidth * 2 S N / ((S + N) * element bytes))
 *
 * S and N are the edges of the dense tile: a tile that is narrow on one side moves more bytes a
 * flop, which is why lists over narrow strips lose although their cover is smaller. */
#include <math.h>

#include "passes/cost.h"

/* ---- cover ----------------------------------------------------------------------------------- */
/* Rows of a strip may be alike; neighbours along the axis need not be. */
static double blocks_touched(const pass_zeros *zeros, double strip, double gran,
                             double correlation) {
  double rows = zeros->rows > 1 ? zeros->rows : 1, cols = zeros->cols > 1 ? zeros->cols : 1;
  return pow(fmax(1, strip / rows), 1 - correlation) * fmax(1, gran / cols);
}

double pass_cover_alike(const pass_zeros *zeros, double density, double strip, double gran,
                        double correlation) {
  if (density <= 0) return 0;
  if (density >= 1) return 1;
  return 1 - pow(1 - density, blocks_touched(zeros, strip, gran, correlation));
}

double pass_cover(const pass_zeros *zeros, double density, double strip, double gran) {
  return pass_cover_alike(zeros, density, strip, gran, 0);
}

double pass_cover_inverse(const pass_zeros *zeros, double cover, double strip, double gran) {
  if (cover <= 0) return 0;
  if (cover >= 1) return 1;
  return 1 - pow(1 - cover, 1 / blocks_touched(zeros, strip, gran, 0));
}

/* ---- products -------------------------------------------------------------------------------- */
static double microseconds_of_bytes(double bytes, double gbs) { return bytes / (gbs * 1e3); }

static double row_peak_tflops(const pass_profile *p, const ir_kernel_row *row, ir_dtype dtype) {
  for (int i = 0; i < p->rates.count; i++)
    if (!strcmp(p->rates.at[i].key, row->profile)) return p->rates.at[i].tflops / p->tile_share;
  if (row->multiply == IR_MULTIPLY_FMA)
    return ir_dtype_rows[dtype].bits > 32 ? p->fma64_tflops : p->fma32_tflops;
  if (ir_dtype_rows[dtype].bits > 32) return p->mma64_tflops;
  if (ir_kernel_precision(row) != IR_PRECISION_FULL)
    return (row->multiply == IR_MULTIPLY_WGMMA ? p->wgmma16_tflops : p->mma16_tflops) /
           (ir_kernel_precision(row) == IR_PRECISION_TF32 ? 2 : 6);
  if (row->multiply == IR_MULTIPLY_WGMMA && p->wgmma16_tflops > 0)
    return ir_dtype_rows[dtype].bits <= 8 ? p->mma8_tflops : p->wgmma16_tflops;
  return ir_dtype_rows[dtype].bits <= 8 ? p->mma8_tflops : p->mma16_tflops;
}

static double core_peak_gflops(const pass_profile *p, const ir_target *t, ir_dtype dtype) {
  double f32 = t->vector_bits >= 512   ? p->fma512_gflops
               : t->vector_bits >= 256 ? p->fma256_gflops
                                       : p->fma128_gflops;
  return ir_dtype_rows[dtype].bits > 32 ? f32 / 2 : f32;
}

static double share_of_peak(const pass_profile *p, const pass_tiling *tiling) {
  bool listed = tiling->strip > 0;
  return p->tile_share * (listed ? p->gather_share : 1);
}

/* GFLOP/s of the whole device on tiles of this shape. */
static double rate_of(const pass_profile *p, const ir_target *t, const pass_product *product,
                      const pass_tiling *tiling) {
  double bytes = fmax(1, (double)ir_dtype_bytes(product->a));
  double peak = tiling->row ? 1e3 * row_peak_tflops(p, tiling->row, product->a)
                            : p->units * core_peak_gflops(p, t, product->a);
  double gbs = product->unaligned && tiling->row ? p->unaligned_gbs : p->gather_gbs;
  double moved = gbs * 2 * tiling->m * tiling->n / ((tiling->m + tiling->n) * bytes);
  return fmin(share_of_peak(p, tiling) * peak, moved);
}

/* Strips have different lists: of the other operand together they read cover * strips, at most all.
 */
static double product_bytes(const pass_product *q, const pass_tiling *tiling, double m,
                            double cover) {
  double strips = tiling->strip > 0 ? ceil(q->m / tiling->strip) : 1;
  if (tiling->columns)
    return q->batch * (q->m * q->k * (double)ir_dtype_bytes(q->a) +
                       fmin(1, cover * strips) * q->k * q->n * (double)ir_dtype_bytes(q->b) +
                       (tiling->whole ? 1 : cover) * m * q->n * (double)ir_dtype_bytes(q->c));
  double read_b = tiling->strip > 0 ? fmin(1, cover * strips) : 1;
  return q->batch * (cover * q->m * q->k * (double)ir_dtype_bytes(q->a) +
                     read_b * q->k * q->n * (double)ir_dtype_bytes(q->b) +
                     m * q->n * (double)ir_dtype_bytes(q->c));
}

static double round_up(double x, double step) { return step > 1 ? ceil(x / step) * step : x; }

/* Full waves, and half of one for the tiles of the last: its blocks have the memory to themselves
 * (measured: 0.4 to 0.6 of a wave).  A single wave takes its whole time. */
static double waves_of(double tiles, double units) {
  double waves = tiles / units, full = floor(waves);
  if (waves <= 1) return 1;
  return waves < 8 && waves > full ? fmax(full + 0.5, waves) : waves;
}

double pass_thread_share(const pass_profile *p, const ir_target *t, double elements) {
  const double threads_a_unit = 1024; /* that it takes to keep one busy */
  if (t->kind != IR_TARGET_CUDA) return 1;
  return fmin(1, fmax(1, elements) / (p->units * threads_a_unit));
}

/* Near a second limit neither is reached: this mean of the two fits what was measured. */
static double both_limits(double compute, double memory) {
  const double sharpness = 4;
  return pow(pow(compute, sharpness) + pow(memory, sharpness), 1 / sharpness);
}

/* Microseconds that a unit takes for a tile of two strips: it multiplies what either has, and fetches what one of them has. */
static double pair_time(const pass_profile *p, const pass_product *q, const pass_tiling *tiling, double own, double both) {
  double bytes = (double)ir_dtype_bytes(q->a), peak = p->tile_share * p->gather_share * row_peak_tflops(p, tiling->row, q->a);
  double flops = 2 * tiling->m * tiling->n * own / (peak * 1e6) * p->units, fetched = (tiling->m * own + tiling->n * both) * bytes;
  double moved = microseconds_of_bytes(fetched, p->pair_gbs / p->units);
  return sqrt(both_limits(flops * flops, moved * moved)); /* closer to the greater one than where memory is the second */
}

/* Tiles side by side; the last of a list is half full, unless it holds one micro-tile. */
static double columns_of(const pass_product *q, const pass_tiling *tiling, double cover) {
  double all = q->n / tiling->n;
  double rest = cover > 0 ? 0.5 * (1 - fmin(1, tiling->gran / tiling->n)) : 0;
  if (tiling->columns && tiling->gran == 1) rest = cover > 0 ? 0.5 : 0;
  return tiling->columns ? fmin(cover * all + rest, ceil(all)) : ceil(all);
}

/* Whether an operand has to be turned in shared memory: the row's B, and of 8 bits its A too. */
static bool turns_operand(const pass_product *q, const pass_tiling *tiling) {
  bool exchanged = tiling->m != tiling->row->m;
  bool a = exchanged ? q->outer_b : q->outer_a, b = exchanged ? q->outer_a : q->outer_b;
  if (ir_kernel_precision(tiling->row) == IR_PRECISION_TF32X3) return false; /* splitting hides it */
  return b || (a && ir_dtype_bytes(q->a) == 1);
}

/* What a unit fetches for a tile narrower than a box of 64: where the narrow operand's rows are k boxes are loaded whole, and their other
 * columns in vain; where few rows are several narrow tiles each fetches the other operand.  0: other things bound it. */
static double narrow_bytes(const pass_product *q, const pass_tiling *tiling, double k) {
  const double box = 64;
  bool exchanged = tiling->m != tiling->row->m, outer = exchanged ? q->k_rows_a : q->k_rows_b;
  bool again = exchanged && q->m > tiling->row->n && q->m <= box;
  if (ir_dtype_bytes(q->a) != 2 || tiling->row->n >= box || (!outer && !again)) return 0;
  return (tiling->row->m + (outer ? box : tiling->row->n)) * k * 2;
}

/* Few rows of a box that has more: the engine writes zeros for the others, more slowly than it fetches.  Of larger tiles the multiply hides it. */
static double outside_time(const pass_profile *p, const pass_product *q, const pass_tiling *tiling, double k) {
  const double narrow = 64;
  double rows = 0;
  if (!q->k_rows_a && tiling->m <= narrow) rows += fmax(0, tiling->m - q->m);
  if (!q->k_rows_b && tiling->n <= narrow) rows += fmax(0, tiling->n - q->n);
  return microseconds_of_bytes(rows * k * (double)ir_dtype_bytes(q->a), p->outside_gbs);
}

/* Lines that a box touches for each of its own width: one, or two where rows are no whole lines.  Boxes of every other tile that is no whole lines wide begin
 * inside one: where k is split that fits what is measured (256 x 5120 x 20480, 160 columns: 114 us), of persistent tiles it does not. */
static double lines_of_box(const pass_tiling *tiling, bool rows_are_k, double extent, double width, double lines) {
  bool inside = ir_kernel_split(tiling->row) > 1 && rows_are_k && extent > width && fmod(extent, width) > 0;
  return fmax(inside ? 2 : 1, lines);
}

/* The boxes of a k tile touch their lines one after the other; where each touches one their tile's rate has it. */
static double lines_time(const pass_profile *p, const pass_product *q, const pass_tiling *tiling, double k) {
  double width = PASS_LINE_BYTES / (double)ir_dtype_bytes(q->a); /* elements */
  double lines_a = lines_of_box(tiling, q->k_rows_a, tiling->m, width, q->lines_a), lines_b = lines_of_box(tiling, q->k_rows_b, tiling->n, width, q->lines_b);
  if (lines_a < 2 && lines_b < 2) return 0;
  double a = q->k_rows_a ? tiling->k * ceil(tiling->m / width) : tiling->m * ceil(tiling->k / width);
  double b = q->k_rows_b ? tiling->k * ceil(tiling->n / width) : tiling->n * ceil(tiling->k / width);
  return ceil(k / tiling->k) * (lines_a * a + lines_b * b) * p->line_ns * 1e-3;
}

static bool is_strip_of_64(const pass_tiling *tiling) {
  return ir_kernel_gathers(tiling->row) && tiling->row->m == 64 && !tiling->pairs;
}

/* Turns of a list's tiles where blocks share those of the last one (kernels/shares.cuh), and what it takes to meet; k: steps of a tile.  expected: how
 * many tiles there are is an expectation, and so is how many blocks share one. */
static double shared_turns(const pass_profile *p, double tiles, double k, bool expected, double *meet) {
  double whole = floor(tiles / p->units), left = tiles - whole * p->units, blocks = p->units / fmax(1, left);
  double parts = fmax(1, fmin(expected ? blocks : floor(blocks), fmin(IR_SHARED_PARTS, floor(k / IR_SHARED_STEPS))));
  if (!expected && k - k / parts < IR_SHARED_SAVES) parts = 1;
  *meet = left > 0 && parts > 1 ? p->share_us : 0;
  return whole + (left > 0 ? 1 / parts : 0);
}

/* Units that blocks in clusters get at once: a cluster lies in one group of units, whose number is no multiple of 4 or 8. */
static double clustered_units(const pass_profile *p, double cluster) {
  const double whole = 0.91; /* of an H200: 30 clusters of 4, 15 of 8, on 132 units; 66 of 2 */
  return cluster > 2 ? floor(whole * p->units / cluster) * cluster : p->units;
}

/* Clusters that have a unit a block. */
static double clusters_at_once(const pass_profile *p, double cluster) { return fmax(1, floor(clustered_units(p, cluster) / cluster)); }

/* Microseconds in which the blocks of a cluster that split k add their sums of an m x n tile up. */
static double exchange_time(const pass_profile *p, const ir_kernel_row *row, double m, double n) {
  double received = 4 * m * n * (ir_kernel_split(row) - 1) / ir_kernel_keepers(row); /* bytes, of a block */
  return p->exchange_us + microseconds_of_bytes(received, p->exchange_gbs);
}

/* Where k is split a cluster shares a tile, and is gone before the next one starts: waves of clusters, each at the limit that it meets.
 * one: of a block's k tiles; rest: what blocks beside each other wait for together. */
static double split_time(const pass_profile *p, const pass_product *q, const pass_tiling *tiling, double tiles, double one, double rest, double memory) {
  const double half_of_unit = 100 * 1024; /* bytes of shared memory: two blocks go beside each other */
  const ir_kernel_row *row = tiling->row;
  double split = ir_kernel_split(row), units = clustered_units(p, split), ring = row->depth * (double)(row->m + row->n) * row->k * (double)ir_dtype_bytes(q->a);
  double at_once = (ring <= half_of_unit ? 2 : 1) * clusters_at_once(p, split), full = floor(tiles / at_once), last = tiles - full * at_once;
  rest += exchange_time(p, row, tiling->m, tiling->n);
  double wave = both_limits(ceil(at_once * split / units) * one + rest, memory * at_once / tiles);
  double end = last > 0 ? both_limits(ceil(last * split / units) * one + rest, memory * last / tiles) : 0;
  return full * wave + end + (ceil(tiles / at_once) - 1) * p->start_us;
}

/* Persistent blocks that move boxes: every tile costs its steps and a moment of its epilogue that
 * nothing hides, and all units are busy as long as the one with the most tiles. */
static double boxes_time(const pass_profile *p, const ir_target *t, const pass_product *q,
                         const pass_tiling *tiling) {
  bool listed = tiling->strip > 0;
  double cover = listed ? tiling->cover : 1;
  double met = tiling->pairs ? tiling->both : cover; /* of a tile's rows */
  double tiles = q->batch * ceil(q->m / tiling->m) * columns_of(q, tiling, met);
  if (tiling->rows) tiles = fmax(1, cover * tiles); /* all of k, or none */
  double rate = (listed ? 1e-3 * rate_of(p, t, q, tiling)
                        : p->tile_share * row_peak_tflops(p, tiling->row, q->a)) /
                p->units; /* of a unit */
  if (turns_operand(q, tiling) && !listed) rate *= p->turn_share;
  int split = ir_kernel_split(tiling->row);
  double k = (tiling->columns || tiling->rows ? q->k : cover * q->k) / split;
  double flops = 2 * tiling->m * tiling->n * round_up(k, tiling->k);
  bool gathers = tiling->columns && !tiling->whole, shares = ir_kernel_shares(tiling->row);
  double rest = gathers              ? p->column_tile_us * tiling->strip / 128
                : tiling->scattered ? p->row_tile_us * tiling->n / 256
                : tiling->pairs     ? p->pair_tile_us
                : is_strip_of_64(tiling) ? p->list_tile_us
                                     : p->tile_us;
  double turns = ceil(tiles / p->units), meet = 0;
  if (ir_kernel_takes_turns(tiling->row) && turns > 1) rest = q->asked ? p->asked_turn_us : 0; /* the other warpgroup multiplies meanwhile */
  const double varies = ir_kernel_narrow(tiling->row) ? 0.2 : 0.5; /* how many tiles a list has; behind wide ones come narrow ones */
  if (tiling->whole) turns = fmax(1, tiles / p->units + varies);
  else if (tiling->columns && !tiling->pairs && shares && q->m <= IR_SHARED_STRIPS * tiling->strip) turns = shared_turns(p, tiles, q->k / tiling->k, true, &meet);
  else if (listed && !tiling->columns && shares) turns = shared_turns(p, tiles, met * q->k / tiling->k, false, &meet);
  double fetched = microseconds_of_bytes(narrow_bytes(q, tiling, k), p->unit_gbs);
  double memory = microseconds_of_bytes(product_bytes(q, tiling, q->m, cover), p->bandwidth_gbs), outside = outside_time(p, q, tiling, k);
  double one = fmax(fmax(flops / (rate * 1e6), fetched), listed ? 0 : lines_time(p, q, tiling, k));
  if (split > 1) return p->launch_us + p->start_us + split_time(p, q, tiling, tiles, one, rest + outside, memory);
  one += outside;
  if (tiling->pairs && tiling->columns) /* tiles of columns that a half has a use for */
    one = pair_time(p, q, tiling, k * fmin(1, columns_of(q, tiling, cover) / columns_of(q, tiling, met)), k);
  else if (tiling->pairs) one = pair_time(p, q, tiling, round_up(k, tiling->k), round_up(met * q->k, tiling->k));
  double compute = turns * (one + rest) + meet;
  return p->launch_us + p->start_us + both_limits(compute, memory);
}

/* Of a row whose tiles may be narrow the device takes what is faster for as many as there are: it is also the row that is as narrow.  So few
 * that four blocks and more share one take less than a turn: 0.72 of it, measured, for what nobody lists is filled meanwhile. */
static double narrow_time(const pass_profile *p, const ir_target *t, const pass_product *q, const pass_tiling *tiling) {
  const double few = 4, less = 0.72;
  double time = boxes_time(p, t, q, tiling), start = p->launch_us + p->start_us;
  pass_tiling narrow = *tiling;
  narrow.n = ir_kernel_narrow(tiling->row);
  for (int i = 0; i < ir_kernel_row_count; i++) {
    narrow.row = &ir_kernel_rows[i];
    if (ir_kernel_n_blocks(narrow.row) && narrow.row->m == tiling->row->m && narrow.row->n == narrow.n) time = fmin(time, boxes_time(p, t, q, &narrow));
  }
  double tiles = q->batch * ceil(q->m / narrow.m) * columns_of(q, &narrow, tiling->cover);
  return few * tiles <= p->units ? start + less * (time - start) : time;
}

/* Packed rows: the device takes, of a few tiles, the one whose turns take the least time for as many as there are. */
static double live_time(const pass_profile *p, const pass_product *q, const pass_tiling *tiling) {
  static const char *const tiles[] = {"gemm_tma_128x256x64", "gemm_tma_128x128x64", "gemm_tma_128x64x64", "gemm_tma_64x64x128"};
  double rows = tiling->cover * q->m, best = INFINITY, bytes = (double)ir_dtype_bytes(q->a);
  for (int i = 0; i < IR_COUNT(tiles); i++) {
    const ir_kernel_row *row = ir_kernel_row_named(tiles[i]);
    double rate = p->tile_share * row_peak_tflops(p, row, q->a) / p->units;
    double turns = ceil(ceil(rows / row->m) * ceil(q->n / row->n) / p->units);
    double flops = 2.0 * row->m * row->n * round_up(q->k, row->k);
    best = fmin(best, turns * (flops / (rate * 1e6) + p->row_tile_us * row->n / 256));
  }
  double moved = bytes * (rows * q->k + (rows > 0 ? q->k * q->n : 0)) + q->m * q->n * (double)ir_dtype_bytes(q->c);
  return p->launch_us + p->start_us + both_limits(best, microseconds_of_bytes(moved, p->bandwidth_gbs));
}

/* Blocks that read B once into registers: all of its bytes as fast as memory, and the units that
 * read, allow.  Each tile of the row's m reads it again. */
static double stream_time(const pass_profile *p, const pass_product *q, const pass_tiling *tiling) {
  bool turned = tiling->m != tiling->row->m;
  double few = turned ? q->n : q->m, many = turned ? q->m : q->n;
  double bytes = (double)ir_dtype_bytes(q->a), passes = ceil(few / tiling->row->m);
  double tiles = q->batch * passes * ceil(many / tiling->row->n);
  double share = p->units / fmin(tiles, p->units); /* few tiles: few units read */
  double gbs = q->operands_unaligned ? p->unaligned_gbs : p->unit_gbs * p->units;
  double all = product_bytes(q, &(pass_tiling){.cover = 1}, q->m, 1);
  double a =
      fmin(few, tiling->row->m) / tiling->row->n; /* what is read of the other operand, from near */
  double moved =
      microseconds_of_bytes((1 + a) * q->batch * passes * many * q->k * bytes, gbs) * share;
  const double crooked = 1.4; /* where its rows are no whole memory lines: measured over 16 rows, which read them twice */
  if ((turned ? q->lines_a : q->lines_b) > 1) moved *= crooked;
  const double blocks_a_unit = 3, block_us = 1.7; /* of a block, however few its k's */
  moved = fmax(moved, tiles / (blocks_a_unit * p->units) * block_us);
  double one = q->k * tiling->row->n * bytes, times = ceil(tiles / (blocks_a_unit * p->units)); /* bytes of a block, and blocks one after the other */
  if (tiling->row->layout_b == 'r') moved = fmax(moved, times * microseconds_of_bytes(one, p->row_gbs)); /* of a row 128 bytes: a block asks for less at a time */
  else if (!q->operands_unaligned && times == 1) moved = fmax(moved, microseconds_of_bytes((1 + a) * one, p->stream_gbs)); /* of more it is memory that is waited for */
  return p->launch_us + p->stream_us +
         both_limits(moved, microseconds_of_bytes(all, p->bandwidth_gbs));
}

/* The same where rows of B come by bulk copies: blocks share the columns evenly, and a unit has one of them. */
static double bulk_time(const pass_profile *p, const pass_product *q, const pass_tiling *tiling) {
  const ir_kernel_row *row = tiling->row;
  double bytes = (double)ir_dtype_bytes(q->a), passes = ceil(q->m / row->m);
  double blocks = fmin(passes * ceil(q->n / row->n), p->units), wanted = tiling->cover * q->n * passes / blocks;
  double parts = ceil((wanted + sqrt(wanted)) / 16); /* of the block that asks for most, one after the other */
  double moved = microseconds_of_bytes((passes * tiling->cover * q->n + row->m * blocks) * q->k * bytes, p->bulk_gbs * blocks);
  double memory = microseconds_of_bytes((fmin(1, passes * tiling->cover) * q->k * q->n + q->m * (q->k + q->n)) * bytes, p->bandwidth_gbs);
  return p->launch_us + p->bulk_us + (parts - 1) * p->part_us + both_limits(moved, memory);
}

/* Few rows of A, and of B what their zeros leave.  Every tile looks at its rows' zeros first; each
 * pass over B reads its rows again, from near. */
static double skip_time(const pass_profile *p, const pass_product *q, const pass_tiling *tiling) {
  const ir_kernel_row *row = tiling->row;
  bool columns = ir_kernel_skips_columns(row);
  /* As registers allow; one alone keeps a part of the loads under way. */
  const double blocks_a_unit = ir_kernel_skipping_blocks(row);
  double bytes = (double)ir_dtype_bytes(q->a), passes = ceil(q->m / row->m), rows = fmin(q->m, row->m);
  double tiles = passes * ceil(q->n / row->n), live = tiling->cover * q->k * q->n;
  double looked = columns ? q->m * q->n : tiles * q->k * (tiling->noted ? 1.0 / 16 + rows * tiling->cover : rows);
  double split = ir_kernel_split(row), meet = split > 1 ? p->meet_us : 0;
  double busy = fmin(tiles * split, p->units), beside = fmin(blocks_a_unit, tiles * split / busy); /* units; blocks in each */
  double pieces = columns || row->m == 1 ? 1 : 1 + 0.15 * log2(row->n / 64.0); /* longer ones take less of memory's time a byte */
  double gbs = (row->m == 1 ? p->unit_gbs : p->skip_gbs) * pieces * busy * sqrt(beside / blocks_a_unit);
  double moved = microseconds_of_bytes((passes * live + looked) * bytes, gbs);
  double turns = tiling->joined ? 1 : ceil(tiles * split / (blocks_a_unit * p->units)); /* others stream meanwhile */
  double wanted = tiling->cover * row->n; /* columns of a tile; of the tile that asks for most, as zeros fall */
  double parts = columns ? fmax(1, fmin(row->n, wanted + 2 * sqrt(wanted)) / 16) : 1; /* of a tile, one after the other */
  double memory = microseconds_of_bytes(
      (fmin(1, passes * tiling->cover) * q->k * q->n + q->m * (q->k + q->n)) * bytes, p->bandwidth_gbs);
  return (tiling->joined ? 0 : p->launch_us) + turns * (p->look_us + meet + (parts - 1) * p->stream_us) +
         both_limits(moved, memory);
}

/* Where a sample of A's values goes before, and a dense branch stands behind: fitted to 1,080 runs of 2 to 64 rows, 7 % off in the mean.  Blocks that are there at once share
 * what the units and the shared cache give; what the last ones have left of it goes to the others. */
static double seek_time(const pass_profile *p, const pass_product *q, const pass_tiling *tiling) {
  const ir_kernel_row *row = tiling->row;
  const double by_rows = 0.25; /* of fewer rows loads are fewer, and wait as long */
  double split = ir_kernel_split(row), passes = ceil(q->m / row->m), beside = ir_kernel_skipping_blocks(row), bytes = (double)ir_dtype_bytes(q->a);
  double blocks = passes * ceil(q->n / row->n) * split, room = split > 1 ? beside * split * (clusters_at_once(p, split) - 1) : beside * p->units; /* of 80 clusters of 3, two blocks a unit, not all fit */
  double looked = row->m * pow(fmin(q->m, row->m) / row->m, by_rows), each = q->k / split * (tiling->cover * fmin(q->n, row->n) + looked) * bytes;
  double full = floor(blocks / room), last = blocks - full * room, near = p->seek_near_gbs, alone = p->seek_gbs * row->threads / 256 * (split > 3 ? 0.7 : 1); /* clusters of 4 come two to a unit where others have none */
  double moved = full > 0 ? full * microseconds_of_bytes(each, fmin(alone / sqrt(beside), near / room)) : 0;
  if (last > 0) moved += microseconds_of_bytes(each, fmin(alone / (last > p->units ? sqrt(beside) : 1), near / last));
  double memory = (fmin(1, passes * tiling->cover) * q->k * q->n + q->m * (q->k + q->n)) * bytes;
  return p->launch_us + p->seek_us + (ceil(blocks / room) - 1) * p->seek_turn_us + (split > 1 ? p->meet_us : 0) + both_limits(moved, microseconds_of_bytes(memory, p->seek_far_gbs));
}

double pass_cost_seek_in_vain(const pass_profile *p, double passes) {
  const double pass_us = 0.06; /* more blocks that leave */
  return p->seek_vain_us + pass_us * ceil(passes);
}

/* A factor of 8 bits comes as it is: half of the bytes.  Where warps share k's, to widen it takes longer than to read it. */
double pass_cost_widened(const pass_profile *p, const pass_product *q, const pass_tiling *tiling) {
  const ir_kernel_row *row = tiling->row;
  int split = ir_kernel_split(row);
  double a = (double)ir_dtype_bytes(q->a), b = (double)ir_dtype_bytes(q->b);
  double tiles = q->batch * ceil(q->m / row->m) * ceil(q->n / row->n), k = round_up(q->k / split, row->k);
  double fetched = (row->m * a + row->n * b) * k, memory = product_bytes(q, &(pass_tiling){.cover = 1}, q->m, 1);
  if (!ir_kernel_moves_boxes(row)) {
    const double alone_us = 0.7, more_rows = 0.15; /* a block's turn where no other computes meanwhile; what 8 more rows add to one */
    double turn = row->n * row->k / (p->widen_gops * 1e3) * (1 + more_rows * (row->m / 8 - 1));
    return p->launch_us + p->stream_us + both_limits(k / row->k * fmax(alone_us, turn * tiles / p->units), microseconds_of_bytes(memory, p->bandwidth_gbs));
  }
  double flops = 2.0 * row->m * row->n * k / (p->tile_share * row_peak_tflops(p, row, q->b) * 1e6) * p->units;
  double turns = ceil(tiles / clusters_at_once(p, split)), one = fmax(flops, microseconds_of_bytes(fetched, p->unit_gbs)) + p->tile_us;
  if (split > 1) one += exchange_time(p, row, row->m, row->n);
  return p->launch_us + p->start_us + both_limits(turns * one, microseconds_of_bytes(memory, p->bandwidth_gbs));
}

/* Persistent blocks whose tile has two runs of rows, each with k tiles of its own: a run is multiplied where it has one, and B fetched where either
 * has.  What is fetched comes from the shared cache as fast as it gives. */
double pass_cost_bsr(const pass_profile *p, const pass_product *q, const pass_tiling *tiling) {
  const ir_kernel_row *row = tiling->row;
  double bytes = (double)ir_dtype_bytes(q->a), tiles = ceil(q->m / row->m) * ceil(q->n / row->n);
  int split = ir_kernel_split(row);
  double own = round_up(tiling->cover * q->k / split, row->k), met = round_up(tiling->both * q->k / split, row->k);
  double rate = p->tile_share * row_peak_tflops(p, row, q->a) / p->units;
  double moved = bytes * (tiling->cover * q->m * q->k + q->k * q->n) + q->m * q->n * (double)ir_dtype_bytes(q->c);
  double memory = microseconds_of_bytes(moved, p->bandwidth_gbs);
  if (!ir_kernel_moves_boxes(row)) {
    const double alone = 2; /* steps, where no other block's loads hide a block's own */
    double one = fmax(2.0 * row->m * row->n * own / (rate * 1e6), own / row->k * alone * p->box_step_us);
    return p->launch_us + p->start_us + both_limits(waves_of(tiles, p->units) * one, memory);
  }
  double flops = 2.0 * row->m * row->n * own / (rate * 1e6), fetched = microseconds_of_bytes((row->m * own + row->n * met) * bytes, p->box_gbs / p->units);
  double turns = ceil(tiles * split / clustered_units(p, split)), one = fmax(fmax(flops, fetched), met / row->k * p->box_step_us) + p->tile_us;
  if (split > 1) one += exchange_time(p, row, row->m, row->n);
  return p->launch_us + p->start_us + both_limits(turns * one, memory);
}

/* Turns of so many tiles, which are told to a share of their number: the mean of what few, as many and more would take. */
static double likely_turns(double tiles, double units, double share) {
  double turns = 0;
  for (int i = -1; i <= 1; i++) turns += fmax(1, ceil(tiles * (1 + i * share) / units)) / 3;
  return turns;
}

/* Persistent blocks whose tiles are runs of 64 stored columns of a strip, the last of each strip half full.  They take about as long as each other:
 * there are whole turns, of as many tiles as blocks happen to be stored. */
double pass_cost_sdd(const pass_profile *p, const pass_product *q, const pass_tiling *tiling, double brought) {
  const ir_kernel_row *row = tiling->row;
  const double least = 0.04; /* no hint of a density is closer */
  double bytes = (double)ir_dtype_bytes(q->a), most = ceil(q->n / row->n), wide = tiling->cover * q->n / row->n;
  double half = wide < most ? 0.5 * (1 - fmin(1, tiling->gran / row->n)) : 0;
  double tiles = ceil(q->m / row->m) * fmin(most, wide + half), k = round_up(q->k, row->k);
  double blocks = fmax(1, q->m / tiling->strip * q->n / tiling->gran), spread = sqrt(fmax(0, 1 - tiling->cover) / fmax(1, tiling->cover * blocks));
  double rate = p->tile_share * row_peak_tflops(p, row, q->a) / p->units;
  double memory = microseconds_of_bytes(bytes * (q->m + q->n) * q->k + tiling->cover * q->m * q->n * ((double)ir_dtype_bytes(q->c) + brought), p->bandwidth_gbs);
  double one = 2.0 * row->m * row->n * k / (rate * 1e6) + p->sdd_tile_us;
  const double alone = 1.5; /* steps, where no other block's loads hide a block's own */
  double first = ir_kernel_moves_boxes(row) ? 0 : k / row->k * alone * p->box_step_us;
  double turns = likely_turns(tiles, p->units, tiling->cover < 1 ? fmax(least, spread) : 0);
  return p->launch_us + p->start_us + both_limits(fmax(turns * one, first), memory);
}

/* Two products and a softmax: what they take a pair of a row and a column adds up, for they only partly overlap.  Blocks of a cluster
 * share a tile's columns. */
double pass_cost_attention(const pass_profile *p, const ir_kernel_row *row, const pass_attention *a) {
  double split = ir_kernel_split(row), tiles = a->batch * ceil(a->m / row->m), columns = round_up(a->share * a->n / split, row->n);
  double rate = p->tile_share * row_peak_tflops(p, row, IR_BF16) / p->units; /* of a unit */
  double one = row->m * columns * (2 * (a->head + a->head_v) / (rate * 1e6) + p->units / (p->softmax_gops * 1e3));
  double turns = fmax(1, waves_of(tiles * split, clustered_units(p, split)));
  bool by_turns = ir_kernel_workers(row) > 2 * row->m; /* warpgroups of a block meet */
  double meet = split > 1 || by_turns ? p->exchange_us + microseconds_of_bytes(4.0 * row->m * a->head_v, p->exchange_gbs) : 0;
  double cached = microseconds_of_bytes(tiles * split * columns * 2 * (a->head + a->head_v), p->walk_gbs); /* keys and values of every tile */
  double compute = fmax(turns * (one + p->tile_us + meet), cached), memory = microseconds_of_bytes(a->bytes, p->bandwidth_gbs);
  double blocks = tiles * split, rounds = blocks / clustered_units(p, split), whole = floor(rounds) / rounds; /* share of the bytes that all units read together */
  double rest = whole < 1 ? microseconds_of_bytes(a->bytes / blocks, p->unit_gbs) : 0;                        /* few blocks: few units read */
  return p->launch_us + p->start_us + both_limits(compute, whole * memory + fmax((1 - whole) * memory, rest));
}

/* Steps of a block of k, of which so many rows of a section hold anything, give or take: one for each 64 that have begun. */
static double krows_steps(double rows, double section) {
  const double a_step = 64;
  double spread = sqrt(fmax(rows * (1 - rows / section), 1e-6)), steps = 1 - exp(-rows);
  for (double full = a_step; full < section; full += a_step) steps += 0.5 * erfc((full + 0.5 - rows) / (spread * sqrt(2)));
  return steps;
}

/* Persistent blocks whose tiles are sections of many rows: what a block of k adds to its rows' sums goes to shared memory, one step after the other. */
static double krows_time(const pass_profile *p, const pass_product *q, const pass_tiling *tiling) {
  const double wide = 64, fixed = 0.46; /* columns; of a step, what does not depend on them */
  double section = fmin(tiling->m, q->m), rows = fmin(1, tiling->cover) * section;
  double turns = ceil(ceil(q->m / tiling->m) * ceil(q->n / tiling->n) / p->units);
  double step = krows_steps(rows, section) * p->krow_step_us * (fixed + (1 - fixed) * tiling->n / wide), add = rows * tiling->n / (p->krow_gsums * 1e3);
  double one = ceil(q->k / tiling->k) * (step + add) + p->krow_tile_us * section * tiling->n / (512 * wide);
  double moved = q->k * q->n * (double)ir_dtype_bytes(q->b) + tiling->cover * q->m * q->k * (double)ir_dtype_bytes(q->a) + q->m * q->n * (double)ir_dtype_bytes(q->c);
  return p->launch_us + p->start_us + both_limits(turns * one, microseconds_of_bytes(moved, p->bandwidth_gbs));
}

double pass_cost_product(const pass_profile *p, const ir_target *t, const pass_product *q,
                         const pass_tiling *tiling) {
  if (tiling->row && ir_kernel_is_live(tiling->row)) return live_time(p, q, tiling);
  if (tiling->row && ir_kernel_is_krows(tiling->row)) return krows_time(p, q, tiling);
  if (tiling->row && ir_kernel_narrow(tiling->row)) return narrow_time(p, t, q, tiling);
  if (tiling->row && ir_kernel_moves_boxes(tiling->row)) return boxes_time(p, t, q, tiling);
  if (tiling->row && ir_kernel_brings_rows(tiling->row)) return bulk_time(p, q, tiling);
  if (tiling->row && ir_kernel_skips(tiling->row)) return tiling->seeks ? seek_time(p, q, tiling) : skip_time(p, q, tiling);
  if (tiling->row && ir_kernel_streams(tiling->row)) return stream_time(p, q, tiling);
  bool listed = tiling->strip > 0 || tiling->rows;
  double cover = listed ? tiling->cover : 1;
  double m = tiling->rows ? cover * q->m : q->m;
  double k = tiling->rows || tiling->columns || !listed ? q->k : cover * q->k;
  if (t->kind == IR_TARGET_CUDA && !tiling->row)
    return pass_cost_loops(p,
                           q->batch * m * q->n * k / pass_thread_share(p, t, q->batch * m * q->n),
                           0, product_bytes(q, tiling, m, cover));
  double tm = fmax(1, fmin(tiling->m, q->m)), tn = fmax(1, fmin(tiling->n, q->n));
  double steps = round_up(k, tiling->k);
  double rate = rate_of(p, t, q, tiling) / p->units;
  double compute;
  if (tiling->row) {
    double tiles = q->batch * ceil(m / tiling->m) * columns_of(q, tiling, cover);
    double one = fmax(2 * tiling->m * tiling->n * steps / (rate * 1e3), listed ? 0 : lines_time(p, q, tiling, k));
    compute = waves_of(tiles, p->units) * one;
    if (listed && tiling->row->multiply == IR_MULTIPLY_MMA) compute = fmax(compute, ceil(steps / 32) * p->gather_step_us);
  } else {
    compute = q->batch * 2 * round_up(m, tm) * round_up(q->n, tn) * steps / (rate * p->units * 1e3);
  }
  double result =
      microseconds_of_bytes(q->batch * m * q->n * (double)ir_dtype_bytes(q->c), p->bandwidth_gbs);
  double memory = microseconds_of_bytes(product_bytes(q, tiling, m, cover), p->bandwidth_gbs);
  if (!tiling->row) return p->launch_us + fmax(compute + result, memory);
  if (listed) return p->launch_us + p->start_us + fmax(compute + result, memory);
  return p->launch_us + p->start_us + both_limits(compute + result, memory);
}

double pass_cost_compact(const pass_profile *p, double bytes, double cover) {
  const double elements = 16, few = 1.0 / 24; /* of a sector; listed elements, where rows are not copied whole */
  const double read = 0.7, written = 0.55;    /* of what the cache and memory give when words of many rows come and go */
  double share = cover < few ? 1 - pow(1 - cover, elements) : 1;
  return p->compact_us + microseconds_of_bytes(bytes * share, read * p->gather_gbs) + microseconds_of_bytes(bytes * fmin(1, cover), written * p->bandwidth_gbs);
}

double pass_cost_move(const pass_profile *p, double bytes, double cover, bool pairs) {
  const double held = 256 * 1024; /* bytes of a unit's two blocks */
  double turns = fmax(1, bytes / (p->units * held));
  return p->move_us + (pairs ? p->pair_list_us * turns : 0) + microseconds_of_bytes(bytes * fmin(1, cover), p->move_gbs);
}

double pass_cost_spread(const pass_profile *p, double bytes, double asked, double cover) {
  const double columns = 16; /* that are written together: memory is, in sectors; others are filled while the product runs */
  double share = fmin(1, cover), written = 1 - pow(1 - share, columns);
  return p->launch_us + p->spread_us + microseconds_of_bytes(bytes * (written + share) + asked * written, p->bandwidth_gbs);
}

double pass_cost_in_place(const pass_profile *p, double m, double n, double cover) {
  const double rows = 128, box = 64, eight = 8, columns = 16, quarter = 4; /* of two warpgroups; listed columns; columns written at once, and as many eights of these; warps of a box */
  double share = fmin(1, fmax(cover, 1e-4)), touched = fmin(eight, eight / (columns * share) * (1 - pow(1 - share, columns)));
  double eights = fmax(1, floor(eight / (touched + 0.5))), boxes = ceil(quarter * m / rows * n * share / box / p->units) / quarter;
  return p->in_place_us + p->pass_us * ceil(eight / eights) * boxes;
}

double pass_cost_beside(const pass_profile *p, double bytes) { return p->launch_us + microseconds_of_bytes(bytes, p->bandwidth_gbs); }

double pass_cost_pack(const pass_profile *p, double bytes) { return microseconds_of_bytes(bytes, p->bandwidth_gbs); }

static double library_tflops(const pass_profile *p, ir_dtype dtype, bool unaligned) {
  int bits = ir_dtype_rows[dtype].bits;
  return bits > 32   ? p->library64_tflops
         : bits > 16 ? p->library32_tflops
         : bits <= 8 ? p->library8_tflops
         : unaligned ? p->library16_unaligned_tflops
                     : p->library16_tflops;
}

double pass_cost_library(const pass_profile *p, const pass_product *q) {
  const pass_tiling whole = {.cover = 1};
  double compute =
      2 * q->batch * q->m * q->n * q->k / (library_tflops(p, q->a, q->unaligned) * 1e6);
  double memory =
      microseconds_of_bytes(product_bytes(q, &whole, q->m, 1), p->bandwidth_gbs * p->library_share);
  return p->launch_us + p->start_us + both_limits(compute, memory);
}

/* ---- everything else ------------------------------------------------------------------------- */
double pass_cost_detect(const pass_profile *p, double rows, double cols, ir_dtype dtype,
                        double strip, double gran, double cover, bool fused) {
  double tiles = ceil(rows / fmax(1, strip)) * ceil(cols / fmax(1, gran));
  const double blocks = 8, highest = 128; /* that share a strip, where there are few */
  double bytes = fused ? tiles / 8 : rows * cols * (double)ir_dtype_bytes(dtype);
  double read = microseconds_of_bytes(bytes, p->bandwidth_gbs * p->detect_share);
  double units = fmin(p->units, blocks * ceil(rows / fmax(1, strip)));
  if (!fused && p->unit_gbs > 0 && strip > 1 && strip <= highest) read = fmax(read, microseconds_of_bytes(bytes, units * p->unit_gbs));
  double write = microseconds_of_bytes(tiles * (cover * 4 + (fused ? 0 : p->detect_scratch)),
                                       p->bandwidth_gbs);
  double scan = tiles / (p->scan_gtiles * 1e3) + tiles * cover / (p->list_gids * 1e3);
  bool two = !fused && p->sample_us > 0; /* values to bits, bits to lists */
  return p->launch_us * (two ? 2 : 1) + read + fmax(write, scan);
}

double pass_cost_compress(const pass_profile *p, double elements, ir_dtype dtype, double cover) {
  double bytes = (double)ir_dtype_bytes(dtype);
  return p->launch_us +
         microseconds_of_bytes(elements * bytes, p->bandwidth_gbs * p->detect_share) +
         microseconds_of_bytes(elements * cover * (bytes + 4), p->bandwidth_gbs);
}

/* The launches that make a list decide on the way where they sample. */
double pass_cost_guard(const pass_profile *p, int skipped_launches) {
  return (p->sample_us > 0 ? p->sample_us : p->launch_us) + p->skipped_us * skipped_launches;
}

double pass_cost_look(const pass_profile *p, double index, bool fused, int skipped_launches) {
  if (p->sample_us <= 0) return index;
  return fmin(index, p->launch_us + (fused ? p->sample_us : p->in_vain_us) + p->skipped_us * skipped_launches);
}

/* Whoever comes behind leaves beside it; all of it is waited for. */
double pass_cost_front(const pass_profile *p, int samples) { return p->in_vain_us * samples + p->skipped_us; }

double pass_cost_loops(const pass_profile *p, double iterations, double sparse_iterations,
                       double bytes) {
  double compute =
      iterations / (p->loop_gops * 1e3) + sparse_iterations / (p->loop_gathered_gops * 1e3);
  return p->launch_us + fmax(compute, microseconds_of_bytes(bytes, p->bandwidth_gbs));
}

double pass_cost_entries(const pass_profile *p, double entries, double length, double bytes) {
  const double beside = 40; /* products that take as long as to find an entry's rows and store its sum */
  double compute = entries * (length + beside) / (p->entry_gops * 1e3);
  return p->launch_us + p->entry_us + fmax(compute, microseconds_of_bytes(bytes, p->bandwidth_gbs));
}

double pass_cost_multiply_adds(const pass_profile *p, const ir_target *t, double count, ir_dtype dtype) {
  return 2 * count / (p->tile_share * p->units * core_peak_gflops(p, t, dtype) * 1e3);
}

double pass_cost_sums(const pass_profile *p, double rows, double length, bool sparse, double bytes) {
  const double threads_a_unit = 1024, of_a_thread = 16, uncut = 16384;
  double share = fmin(1, rows * fmax(1, length / of_a_thread) / (p->units * threads_a_unit));
  double compute = rows * length / ((sparse ? p->loop_gathered_gops : p->sum_gops) * 1e3 * share);
  bool cut = rows < 2 * p->units && length > uncut;
  return p->launch_us * (cut ? 2 : 1) + p->stream_us + fmax(compute, microseconds_of_bytes(bytes, p->bandwidth_gbs));
}

double pass_cost_convert(const pass_profile *p, double bytes) {
  return p->launch_us + microseconds_of_bytes(2 * bytes, p->bandwidth_gbs) +
         microseconds_of_bytes(bytes, p->random_gbs);
}

double pass_break_even(double at_zero, double at_one, double dense) {
  if (at_zero >= dense) return 0;
  if (at_one <= dense) return 1;
  return (dense - at_zero) / (at_one - at_zero);
}

const char *pass_time_text(ir_arena *arena, double microseconds) {
  const char *unit = microseconds < 999.5 ? "us" : microseconds < 999500 ? "ms" : "s";
  double value = microseconds / (microseconds < 999.5 ? 1 : microseconds < 999500 ? 1e3 : 1e6);
  return ir_format_text(arena, "%.*f %s", value < 9.995 ? 2 : value < 99.95 ? 1 : 0, value, unit);
}
