// regroup.cuh - rows that hold values in the same blocks are brought side by side: the m axis is free.
//
//     marks   u32 [rows][words]     bit i % 32 of word i / 32: block i of the row holds a non-zero
//     order   i32 [rows]            the row at each place; strip s holds places s * strip and following ones
//     counts, ids                   of the blocks that any row of a strip holds, as in detect.cuh
//
//     detect_rows     values -> marks, unless a sample says that no order would leave enough blocks out
//     order_rows      marks -> order: rows are sorted by sets of blocks, then by single ones, the rarest first
//     lists_of_rows   marks, order -> lists, and the verdict
//
// Sorted so, rows of one kind lie side by side, and rows with a rare block are apart from those without.  A key has 64 columns: blocks, or runs of them
// where there are more.  Columns, the rarest first, are put into sets, each of which a third of the rows touch, or fewer: a key begins with a bit for
// each set, since rows that touch none of a set's columns leave all of these out; of columns that are independent no single one is worth as much.  Then
// come the columns themselves, the rarest first, and of the others whether there is any: a row that holds nothing comes behind all others.  Bits of sets
// count up as in a Gray code, so that a strip at the seam of two runs holds what one set more does.  The lowest ones are the row's number, so that no two
// keys are equal and the same values give the same order.  Rows are ordered within windows of so many: a place is the count of keys that are greater,
// and every block counts for its own rows.
// Config names: those of detect.cuh; marks, order.
#pragma once
#include "spc/detect.cuh"

enum { spc_order_window = 4096, spc_key_columns = 64, spc_key_sets = 16 };

template <class Config> SPC_DEVICE spc_u32 spc_mark_words(const spc_args &args) {
  return (spc_u32)((Config::capacity(args) + 31) / 32);
}

// ---- columns to sets ---------------------------------------------------------------------------------------------
// How rare a column is that so many of `all` rows hold: those of two sets add up, as if they were independent.
SPC_DEVICE float spc_column_weight(int held, int all) { return -__logf(1 - fminf(((float)held + 0.25f) * (1 / ((float)all + 0.5f)), 0.999f)); }

// Where a column of `count` comes among them, and its set, `sets` of a column that has none; how many sets there are, and how much the columns of one add
// up to.  weight: of each column, at a multiple of 16 bytes.  Four threads find a column's, of those behind them each the last one's.
struct spc_column_place { int before, set, sets; float full; };
SPC_DEVICE int spc_placed_column() { return min((int)threadIdx.x / 4, (int)spc_key_columns - 1); }
SPC_DEVICE spc_column_place spc_place_column(const float *weight, int count) {
  const int column = spc_placed_column(), looks = spc_key_columns / 4, from = (int)threadIdx.x % 4 * looks;
  const float mine = weight[column], often = 0.45f; // a set that 36 % of the rows touch
  float before = 0, all = 0;
  int number = 0;
#pragma unroll 1 // it runs once, and instructions are new to the multiprocessor
  for (int i = from; i < from + looks; i += 4) {
    const float4 four = *(const float4 *)(weight + i);
    const float other[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
    for (int e = 0; e < 4; e++) {
      const bool first = i + e < count && (other[e] < mine || (other[e] == mine && i + e < column));
      number += first ? 1 : 0, before += first ? other[e] : 0, all += i + e < count ? other[e] : 0;
    }
  }
#pragma unroll
  for (int d = 1; d < 4; d *= 2)
    number += __shfl_xor_sync(~0u, number, d), before += __shfl_xor_sync(~0u, before, d), all += __shfl_xor_sync(~0u, all, d);
  const float full = fminf(often, all * (1 / 6.0f)), sets = __fdividef(1, full);
  const int most = min((int)(all * sets) + 1, (int)spc_key_sets);
  return {number, min((int)((before + mine * 0.5f) * sets), most), most, full};
}

// A key whose highest 32 bits count as in a Gray code.
SPC_DEVICE spc_u64 spc_gray_key(spc_u64 key) {
  spc_u32 bits = (spc_u32)(key >> 32);
#pragma unroll
  for (int d = 1; d < 32; d *= 2) bits ^= bits >> d;
  return (spc_u64)bits << 32 | (spc_u32)key;
}

// ---- values to marks -------------------------------------------------------------------------------------------
// A row's run of blocks: `lanes` lanes share one, 16 bytes each; a load of a warp is `each` blocks, a word `lanes` loads.
template <class Config> struct spc_row_runs {
  using V = typename Config::V;
  static constexpr int chunk = 16 / (int)sizeof(V), gran = Config::gran, lanes = gran / chunk, each = lanes > 0 ? 32 / lanes : 1;
  static constexpr bool fit = Config::axis_is_contiguous && gran % chunk == 0 && lanes > 0 && lanes <= 16 && (lanes & (lanes - 1)) == 0;

  const V *from; // of this lane
  long long pitch, extent;
  bool aligned;

  __device__ __forceinline__ explicit spc_row_runs(const spc_args &args)
      : pitch(Config::strip_pitch(args)), extent(Config::axis_extent(args)) {
    from = Config::values(args);
    aligned = fit && extent % chunk == 0 && (((spc_u64)from | (spc_u64)pitch * sizeof(V)) & 15) == 0;
  }
  SPC_DEVICE int lane() { return (int)threadIdx.x & 31; }
  __device__ __forceinline__ uint4 at(long long row, long long column) const {
    return column < extent ? ptx_load_16(from + row * pitch + column) : make_uint4(0, 0, 0, 0);
  }
  SPC_DEVICE bool any(uint4 v) {
    return (((v.x | v.z) & spc_non_zero<V>::even) | ((v.y | v.w) & spc_non_zero<V>::odd)) != 0;
  }
  __device__ __forceinline__ spc_u32 find(long long row, long long word) const {
    const int batch = lanes < 8 ? lanes : 8; // loads under way
    const spc_u32 mask = (1u << lanes) - 1;
    spc_u32 mine = 0;
#pragma unroll 1
    for (int i0 = 0; i0 < lanes; i0 += batch) {
      uint4 v[batch];
#pragma unroll
      for (int i = 0; i < batch; i++) v[i] = at(row, (word * 32 + (i0 + i) * each) * gran + lane() * chunk);
#pragma unroll
      for (int i = 0; i < batch; i++) {
        spc_u32 votes = ptx_ballot(any(v[i]));
        if (lane() / each == i0 + i) mine = votes >> lane() % each * lanes & mask;
      }
    }
    return ptx_ballot(mine != 0);
  }
};

// One lane a block: any alignment, any layout.
template <class Config> SPC_DEVICE spc_u32 spc_mark_elements(const spc_args &args, long long row, long long word) {
  long long first = (word * 32 + ((int)threadIdx.x & 31)) * Config::gran;
  long long last = min(first + Config::gran, Config::axis_extent(args));
  bool any = false;
  for (long long at = first; at < last; at++) any |= Config::is_set(args, row, at);
  return ptx_ballot(any);
}

// Columns of a sample: those that few of its rows hold, which come first in an order, and those that many do.  The first column is
// the highest bit.
struct spc_sampled_columns {
  spc_u64 rare, often;
  float count, tiles, touched; // of blocks those that the columns stand for; the share that some row of a strip holds
};

// The mean over the rows of a sorted sample, a lane one, and those `apart` places on, of what a strip between them holds.
SPC_DEVICE float spc_cover_between(spc_u64 row, const spc_sampled_columns &columns, int apart) {
  int lane = (int)threadIdx.x & 31;
  spc_u64 next = __shfl_sync(~0u, row, (lane + apart) & 31), rare = (row ^ next) & columns.rare, often = (row ^ next) & columns.often;
  spc_u64 before = ~(~0ull >> __clzll((long long)(rare ? rare : often ? often : 1))); // the first in which they differ
  spc_u64 alike = rare ? columns.rare & before : columns.rare | (often ? columns.often & before : columns.often);
  float same = (float)__popcll(alike), live = (float)__popcll(row & alike);
  float cover = rare || often ? (live + (columns.tiles - same) * columns.touched) / columns.tiles : live / columns.count;
  float sum = lane + apart < 32 ? cover : 0;
#pragma unroll
  for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
  return sum / (float)max(32 - apart, 1);
}

struct spc_sample_room {
  alignas(16) float weight[spc_key_columns];
  spc_u64 sorted[32];
  spc_u32 pattern[32][2]; // high word, low word
  int held[64];           // rows that hold the column
};

// What an order would leave, from 32 rows and up to 64 blocks of each, by two ways, of which the better one counts.  Rows may be alike: sorted, those that
// follow each other stand for those between them.  These hold what both hold in the columns before the first in which they differ, and anything in
// the others: in columns that a row of the sample holds, and as many of the rest as the rows that hold a column alone foretell (Chao).  Or columns may be
// sets: of as many strips as there are the first few sets tell all apart, so their columns are held where the set is touched, the others anywhere.
// By all warps of a block; `room` has row i's pattern of `count` columns, out of `tiles`; `apart`: places in the sample that a
// strip takes.  All warps find the same.
template <class Config> SPC_DEVICE float spc_cover_regrouped(spc_sample_room &room, int count, float tiles, int apart) {
  const int warps = Config::threads / 32, many = 8; // of the 32 rows: fewer may be chance
  int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x / 32;
  spc_u64 pattern = (spc_u64)room.pattern[lane][0] << 32 | room.pattern[lane][1];
#pragma unroll
  for (int j = warp; j < 64; j += warps) {
    int held = __popc(ptx_ballot(pattern >> (63 - j) & 1));
    if (lane == 0) room.held[j] = held;
  }
  __syncthreads();
  if (threadIdx.x < spc_key_columns) room.weight[threadIdx.x] = spc_column_weight(room.held[threadIdx.x], 32);
  spc_sampled_columns columns = {0, 0, (float)count, tiles, 0};
  int none = 0, one = 0, two = 0;
#pragma unroll
  for (int j = 0; j < 64; j += 32) { // a lane a column; the first of these is the highest bit
    int held = j + lane < count ? room.held[j + lane] : -1;
    columns.rare = columns.rare << 32 | __brev(ptx_ballot(held >= 0 && held < many));
    columns.often = columns.often << 32 | __brev(ptx_ballot(held >= many));
    none += __popc(ptx_ballot(held == 0)), one += __popc(ptx_ballot(held == 1)), two += __popc(ptx_ballot(held == 2));
  }
  columns.touched = (columns.count - (float)none + fminf((float)none, (float)(one * one) / (float)(2 * (two + 1)))) / columns.count;
#pragma unroll
  for (int r = warp; r < 32; r += warps) { // where row r comes
    spc_u64 mine = __shfl_sync(~0u, pattern, r), a = pattern & columns.rare, b = mine & columns.rare;
    bool before = a > b || (a == b && pattern > mine) || (pattern == mine && lane < r);
    int rank = __popc(ptx_ballot(before));
    if (lane == 0) room.sorted[rank] = mine;
  }
  __syncthreads();
  const int levels = 5 - (31 - __clz(apart)); // so many sets tell all strips apart
  const spc_column_place place = spc_place_column(room.weight, count);
  const float told = (float)__syncthreads_count(threadIdx.x < 4 * spc_key_columns && threadIdx.x % 4 == 0 && spc_placed_column() < count && place.set < levels);
  const float by_sets = (told * (1 - __expf(-place.full)) + (columns.count - told) * columns.touched) / columns.count;
  spc_u64 row = room.sorted[lane];
  const float further = 0.57f; // neighbours in a sample lie nearer than a strip's ends as often as not: of the next but one so much
  const float by_rows = (1 - further) * spc_cover_between(row, columns, apart) + further * spc_cover_between(row, columns, apart + 1);
  const float rows_promise = 1.08f, sets_promise = 1.25f; // more than a tie; by sets it is too low besides
  return fminf(by_rows * rows_promise, by_sets * sets_promise);
}

// Every block takes the same sample.  Of a block in it a quarter is looked at, two lanes one.  Who goes on and finds dense after
// all has read all values and made an order in vain: the sample has to promise more than a tie.
template <class Config> SPC_DEVICE bool spc_rows_are_unlike(const spc_args &args, const spc_row_runs<Config> &runs) {
  using row_runs = spc_row_runs<Config>;
  const int looks = row_runs::lanes < 2 ? row_runs::lanes : 2, most = 64, least = 16 * 1024, beside = most * looks, turns = (32 * beside + Config::threads - 1) / Config::threads;
  static_assert(Config::threads % beside == 0 && turns * Config::threads / beside < 64, "a thread looks at the same columns in each turn");
  spc_sample_room &room = spc_room<Config, spc_sample_room>();
  spc_u32 rows = (spc_u32)Config::strip_extent(args), tiles = (spc_u32)Config::capacity(args);
  if (rows < 64 || (spc_u64)rows * tiles < least) return false;
  double threshold = Config::threshold(args);
  const spc_u32 columns = min(tiles, (spc_u32)most), share = tiles / columns, high = rows / 32, column = threadIdx.x / looks % most;
  const long long first = (column * share + __umulhi(spc_other_hash(column), share)) * (long long)Config::gran;
  auto number = [](int t) { return (spc_u32)(t * Config::threads + threadIdx.x) / beside; };
  uint4 seen[turns]; // all asked for before the first is waited for
#pragma unroll
  for (int t = 0; t < turns; t++) {
    const spc_u32 n = number(t), hash = spc_hash(n * most + column) >> 8, row = n * high + __umulhi(spc_hash(n), high);
    const spc_u32 part = hash % (row_runs::lanes / looks) * looks + threadIdx.x % looks;
    seen[t] = column < columns && n < 32 ? runs.at(row, first + part * row_runs::chunk) : make_uint4(0, 0, 0, 0);
  }
  bool all_set = true; // then no order helps, and nothing has to be put into one
#pragma unroll
  for (int t = 0; t < turns; t++) all_set &= column >= columns || number(t) >= 32 || row_runs::any(seen[t]);
  if (__syncthreads_and(all_set)) return spc_decide<Config>(args, 1, 1, threshold);
  if (threadIdx.x < 64) room.pattern[threadIdx.x / 2][threadIdx.x % 2] = 0;
  __syncthreads();
#pragma unroll
  for (int t = 0; t < turns; t++) {
    spc_u32 votes = ptx_ballot(row_runs::any(seen[t])) >> (row_runs::lane() & ~(looks - 1)) & ((1u << looks) - 1);
    if (votes && number(t) < 32 && threadIdx.x % looks == 0) atomicOr(&room.pattern[number(t)][column / 32], 0x80000000u >> column % 32);
  }
  __syncthreads();
  spc_u32 strips = (spc_u32)Config::strips(args);
  float cover = spc_cover_regrouped<Config>(room, (int)columns, (float)tiles, strips < 32 ? 32 / (int)max(strips, 1u) : 1);
  return spc_decide<Config>(args, fminf(cover, 1.0f), 1, threshold);
}

// As spc_sample_values (detect.cuh).
template <class Config> SPC_DEVICE bool spc_sample_rows(const spc_args &args) {
  spc_clear_verdict<Config>(args);
  if constexpr (Config::sampled && spc_row_runs<Config>::fit) {
    spc_row_runs<Config> runs(args);
    if (runs.aligned) return spc_rows_are_unlike<Config>(args, runs);
  }
  return false;
}

template <class Config> SPC_DEVICE void spc_detect_rows(const spc_args &args) {
  if (spc_not_meant<Config>(args)) return;
  if constexpr (Config::decides)
    if (spc_asks_first<Config>(args, [&] { return spc_sample_rows<Config>(args); })) return;
  spc_row_runs<Config> runs(args);
  spc_u32 words = spc_mark_words<Config>(args), all = (spc_u32)Config::strip_extent(args) * words;
  spc_u32 warp = blockIdx.x * (spc_u32)(Config::threads / 32) + threadIdx.x / 32;
#pragma unroll 1
  for (spc_u32 i = warp; i < all; i += gridDim.x * (spc_u32)(Config::threads / 32)) {
    spc_u32 bits;
    if constexpr (spc_row_runs<Config>::fit)
      bits = runs.aligned ? runs.find(i / words, i % words) : spc_mark_elements<Config>(args, i / words, i % words);
    else bits = spc_mark_elements<Config>(args, i / words, i % words);
    if ((threadIdx.x & 31) == 0) Config::marks(args)[i] = bits;
  }
}

// ---- marks to an order -----------------------------------------------------------------------------------------
// A row's blocks in the columns of a key: one each, or runs of `run` blocks.
SPC_DEVICE spc_u64 spc_fold_marks(const spc_u32 *marks, spc_u32 words, spc_u32 run) {
  if (run == 1) return (words > 0 ? marks[0] : 0) | (words > 1 ? (spc_u64)marks[1] << 32 : 0);
  spc_u64 key = 0;
  for (spc_u32 w = 0; w < words; w++) {
    spc_u32 bits = marks[w];
    while (bits) {
      spc_u32 column = (w * 32 + (spc_u32)__ffs((int)bits) - 1) / run, end = (column + 1) * run - w * 32;
      key |= 1ull << column;
      bits &= end < 32 ? ~0u << end : 0;
    }
  }
  return key;
}

template <class Config> SPC_DEVICE void spc_order_rows(const spc_args &args) {
  const int threads = Config::threads, warps = threads / 32, window = spc_order_window, columns = spc_key_columns;
  const int rows_here = 32, looked = 2 * 256, lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x / 32;
  const int lowest = 12; // bit above the row's number
  __shared__ __align__(16) spc_u64 keys[window];
  __shared__ spc_u64 moved[columns / 4][16]; // four columns of a pattern to their places in the key
  __shared__ int held[columns], greater[warps][32];
  __shared__ __align__(16) float weight[columns];
  __shared__ spc_u64 bits_of[columns]; // of a column in the key
  static_assert(threads >= 4 * columns && window % (2 * warps) == 0 && window == 1 << lowest, "a block makes the whole table at once");
  if (spc_not_meant<Config>(args)) return;
  if constexpr (Config::decides)
    if (spc_says_dense(Config::verdict(args))) return; // of the sample
  spc_u32 tiles = (spc_u32)Config::capacity(args), words = spc_mark_words<Config>(args), run = (tiles + columns - 1) / columns;
  int first = (int)blockIdx.x * rows_here / window * window, rows = min(window, (int)Config::strip_extent(args) - first);
#pragma unroll 4
  for (int r = (int)threadIdx.x; r < window; r += threads)
    keys[r] = r < rows ? spc_fold_marks(Config::marks(args) + (spc_u64)(first + r) * words, words, max(run, 1u)) : 0;
  if (threadIdx.x < columns) held[threadIdx.x] = 0;
  __syncthreads();
  if (threadIdx.x < looked / 2) { // how frequent the columns are, from a row in each share of them
    int low = 0, high = 0;
#pragma unroll 1
    for (int t = 0; t < 2; t++) {
      const spc_u32 number = t * (looked / 2) + threadIdx.x;
      spc_u64 pattern = keys[(number * (spc_u32)rows + __umulhi(spc_hash(number), (spc_u32)rows)) / looked];
#pragma unroll 8
      for (int j = 0; j < 32; j++) {
        int in_low = __popc(ptx_ballot(pattern >> j & 1)), in_high = __popc(ptx_ballot(pattern >> (j + 32) & 1));
        if (lane == j) low += in_low, high += in_high;
      }
    }
    atomicAdd(&held[lane], low);
    atomicAdd(&held[lane + 32], high);
  }
  __syncthreads();
  if (threadIdx.x < columns) weight[threadIdx.x] = spc_column_weight(held[threadIdx.x], looked);
  __syncthreads();
  if (threadIdx.x < 4 * columns) {
    const spc_column_place mine = spc_place_column(weight, run ? (int)((tiles + run - 1) / run) : 0);
    const int at = max(columns - 1 - mine.sets - mine.before, lowest); // the most frequent ones share a bit
    bits_of[spc_placed_column()] = 1ull << at | (mine.set < mine.sets ? 1ull << (columns - 1 - mine.set) : 0);
  }
  __syncthreads();
  if (threadIdx.x < 256) {
    spc_u64 sum = 0;
#pragma unroll
    for (int b = 0; b < 4; b++)
      if (threadIdx.x >> b & 1) sum |= bits_of[threadIdx.x / 16 * 4 + b];
    moved[threadIdx.x / 16][threadIdx.x % 16] = sum;
  }
  __syncthreads();
#pragma unroll 1
  for (int r = (int)threadIdx.x; r < rows; r += threads) {
    spc_u64 pattern = keys[r], key = 0;
#pragma unroll
    for (int n = 0; n < columns / 4; n++) key |= moved[n][pattern >> n * 4 & 15];
    keys[r] = (spc_gray_key(key) & ~(spc_u64)(window - 1)) | (spc_u64)(window - 1 - r);
  }
  __syncthreads();
  int here = (int)blockIdx.x * rows_here % window + lane, count = 0;
  spc_u64 mine = keys[here];
#pragma unroll 8
  for (int i = 0; i < window / warps; i += 2) {
    ulonglong2 two = *(const ulonglong2 *)&keys[warp * (window / warps) + i];
    count += (two.x > mine ? 1 : 0) + (two.y > mine ? 1 : 0);
  }
  greater[warp][lane] = count;
  __syncthreads();
  if (warp > 0 || here >= rows) return;
  int at = 0;
#pragma unroll
  for (int w = 0; w < warps; w++) at += greater[w][lane];
  Config::order(args)[first + at] = first + here;
}

// ---- both to lists ---------------------------------------------------------------------------------------------
// A word of what any row of a strip holds, by a warp.
template <class Config> SPC_DEVICE spc_u32 spc_strip_word(const spc_args &args, spc_u32 strip, spc_u32 word, spc_u32 words) {
  const int lane = (int)threadIdx.x & 31;
  int last = (int)min((long long)(strip + 1) * Config::strip, Config::strip_extent(args));
  spc_u32 bits = 0;
#pragma unroll 4
  for (int at = (int)strip * Config::strip + lane; at < last; at += 32)
    bits |= Config::marks(args)[(spc_u64)(spc_u32)Config::order(args)[at] * words + word];
  return ptx_any_bits(bits);
}

// A block a strip; all take the cover of the same strips, at most 32.
template <class Config> SPC_DEVICE void spc_lists_of_rows(const spc_args &args) {
  const int warps = Config::threads / 32, warp = (int)threadIdx.x / 32, most = 32;
  __shared__ spc_u32 room[Config::threads];
  __shared__ int warp_sums[warps], sampled;
  if (spc_not_meant<Config>(args)) return;
  spc_u32 strips = (spc_u32)Config::strips(args), words = spc_mark_words<Config>(args), s = blockIdx.x;
  bool there = false; // the strip's words, in `room`
  if constexpr (Config::decides) {
    if (threadIdx.x == 0) sampled = spc_says_dense(Config::verdict(args));
    __syncthreads();
    if (sampled) return; // one thread has read it, for another block may write it anew
    double threshold = Config::threshold(args);
    spc_u32 looked = min(strips, (spc_u32)most);
    there = looked == strips && words <= (spc_u32)Config::threads;
    int set = 0;
#pragma unroll 2
    for (spc_u32 i = (spc_u32)warp; i < looked * words; i += warps) {
      spc_u32 strip = i / words * strips / looked, bits = spc_strip_word<Config>(args, strip, i % words, words);
      if ((threadIdx.x & 31) == 0) set += __popc(bits);
      if (there && strip == s) room[i % words] = bits;
    }
    set = spc_block_sums<Config>({set, 0}).x;
    if (spc_decide<Config>(args, set, (double)looked * (double)Config::capacity(args), threshold) && Config::lists_guarded) return;
  }
  if (s >= strips) return;
  int count = 0, *ids = Config::ids(args) + (long long)s * Config::capacity(args);
#pragma unroll 1
  for (spc_u32 w0 = 0; w0 < words; w0 += Config::threads) {
#pragma unroll 1
    for (spc_u32 w = (spc_u32)warp; !there && w < Config::threads && w0 + w < words; w += warps) {
      spc_u32 bits = spc_strip_word<Config>(args, s, w0 + w, words);
      if ((threadIdx.x & 31) == 0) room[w] = bits;
    }
    __syncthreads();
    spc_u32 mine = w0 + threadIdx.x < words ? room[threadIdx.x] : 0;
    count += spc_append<Config>(ids, count, (int)(w0 + threadIdx.x) * 32, mine, warp_sums);
  }
  if (threadIdx.x == 0) Config::counts(args)[s] = count;
}
