// compact.cuh - what a list names of rows that lie along its axis, brought side by side.
//
//     bits -> the verdict, counts, ids and
//     packed  [rows][axis]   of each row the elements at its strip's ids, in their order, then zeros up to a multiple of `whole`
//
// A column of such a matrix is two bytes of every row: nobody gathers that.  What is listed of it moves by box once it lies side by side, as
// fast as a matrix without zeros.  A block takes a few rows of a strip and lists a stretch of columns for itself; then windows of its rows are copied
// to shared memory, some ahead of the others.  Then a lane has two entries of a window, which it reads of several rows, and stores whole words.
// Config names: those of detect.cuh; rows_packed, packed_whole, rows_a_block, stretch and window (columns), windows (that there is room for).
#pragma once
#include "spc/barrier.cuh"
#include "spc/detect.cuh"
#include "spc/pairs.cuh"
#include "spc/tma.cuh"

template <class Config> struct spc_listed_places {
  static constexpr int warps = Config::threads / 32, most = Config::stretch / 32; // words of a stretch
  static_assert(most % 32 == 0 && most <= Config::threads, "a stretch's words are one a thread, of whole warps");
  unsigned short entry[most * 32]; // columns from the stretch's first on
  int before[most];                // entries before the word, in this stretch
  spc_u32 word[most];
  alignas(16) int sums[warps]; // read in whole chunks: what lies before it is written meanwhile

  // A stretch's words, one a thread: its entries, and how many there are.
  __device__ __forceinline__ int list(spc_u32 mine, int words) {
    const int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x / 32;
    int here = spc_scan_warp(__popc(mine)), found = 0;
    if (lane == 31) sums[warp] = here;
    here -= __popc(mine);
    __syncthreads();
#pragma unroll
    for (int w = 0; w < warps; w++) {
      if (w < warp) here += sums[w];
      found += sums[w];
    }
    if (threadIdx.x < most) word[threadIdx.x] = mine, before[threadIdx.x] = here;
    __syncthreads();
#pragma unroll 2
    for (int w = warp; w < words; w += warps)
      if (word[w] >> lane & 1) entry[before[w] + __popc(word[w] & ptx_lanes_below())] = (unsigned short)(w * 32 + lane);
    __syncthreads();
    return found;
  }
};

// Where a block's rows are read from, a window of columns at a time: as they lie, where few of their elements are listed; else from shared memory,
// whose rows bulk copies fill.
template <class Config> struct spc_window_rows {
  static constexpr int rows = Config::rows_a_block, columns = Config::window, room_for = Config::windows;
#if __CUDA_ARCH__ >= 900
  static constexpr bool stages = true;
#else
  static constexpr bool stages = false;
#endif
  const unsigned short *from; // the block's first row
  long long pitch, extent;
  unsigned short *room;
  spc_u32 barriers; // one a window that there is room for
  int count;        // rows that there are
  bool staged;

  // By all threads.
  __device__ __forceinline__ void begin(int entries) {
    const int few = 24; // of so many elements one is listed
    staged = stages && (long long)entries * few > extent && extent % 8 == 0 && (((spc_u64)from | (spc_u64)pitch * 2) & 15) == 0;
    if constexpr (stages)
      if (staged && threadIdx.x == 0) {
        for (int i = 0; i < room_for; i++) ptx_barrier_init(barriers + i * 8, 1);
        ptx_fence_barrier_init();
      }
  }
  // Window number n, if there is one; by all warps, a row each, when nobody reads the one that lies there.
  __device__ __forceinline__ void bring(int n) const {
    if constexpr (stages) {
      const long long first = (long long)n * columns;
      if (first >= extent || threadIdx.x % 32 > 0) return;
      const int bytes = (int)min((long long)columns, extent - first) * 2;
      const spc_u32 barrier = barriers + n % room_for * 8;
      if (threadIdx.x == 0) ptx_barrier_expect(barrier, bytes * count);
#pragma unroll 1
      for (int r = (int)threadIdx.x / 32; r < count; r += Config::threads / 32) ptx_bulk_load(spc_shared_address(at(n)) + r * columns * 2, from + r * pitch + first, bytes, barrier);
    }
  }
  __device__ __forceinline__ unsigned short *at(int n) const { return room + n % room_for * rows * columns; }
  __device__ __forceinline__ void wait(int n) const {
    if constexpr (stages) ptx_barrier_wait(barriers + n % room_for * 8, n / room_for & 1);
  }
};

// Entries that go to consecutive places of a run of rows: which, of how many, where the first one goes; behind the last zeros up to place `limit`.
struct spc_moved_run {
  int entry, count, begin, limit, row, rows_log; // rows: a power of two, from number `row` on
  __device__ __forceinline__ int rows() const { return 1 << rows_log; }
};
SPC_DEVICE constexpr int spc_log(int n) { return n > 1 ? 1 + spc_log(n / 2) : 0; }

// A block's rows: where they are read, of which a column is `first` and what lies beside each other `pitch` (known when it is compiled, or 0 and told), where they go, and how many are there.
template <int Pitch> struct spc_moved_rows {
  const unsigned short *from;
  long long told;
  int first, rows;
  unsigned short *to;
  long long extent;
  __device__ __forceinline__ long long pitch() const { return Pitch ? Pitch : told; }
};

// A run's whole words, by all warps: a lane has two entries, of four rows; the halves of words that other runs have a share in are moved one by one, behind that (spc_move_edges).
// task: the warp's first one, and what is left of it for the run behind.
template <class Config, int Pitch> SPC_DEVICE void spc_move_words(const spc_moved_rows<Pitch> &block, const unsigned short *entry, const spc_moved_run &run, int &task) {
  const int at_once = 4, lane = (int)threadIdx.x & 31, first = (run.begin + 1) & ~1, words = max(run.limit / 2 - first / 2, 0);
  const int lanes = words > 16 ? 5 : words > 8 ? 4 : 3, parts = run.rows_log + lanes - 7; // that have words of the same rows, and tasks of the same words: powers of two
  const int tasks = (words + (1 << lanes) - 1) >> lanes << parts;
#pragma unroll 1
  for (; task < tasks; task += Config::threads / 32) {
    const int word = (task >> parts << lanes) + (lane & ((1 << lanes) - 1)), at = first + 2 * word, i = at - run.begin;
    const int r = run.row + ((task & ((1 << parts) - 1)) << (7 - lanes)) + (lane >> lanes) * at_once, rows = word < words ? min(block.rows, run.row + run.rows()) - r : 0;
    if (rows <= 0) continue;
    const bool low = i < run.count, high = i + 1 < run.count;
    const unsigned short *of_low = block.from + r * block.pitch() + (low ? entry[run.entry + i] - block.first : 0), *of_high = block.from + r * block.pitch() + (high ? entry[run.entry + i + 1] - block.first : 0);
    spc_u32 v[at_once];
#pragma unroll
    for (int k = 0; k < at_once; k++) v[k] = k < rows ? of_low[k * block.pitch()] | (spc_u32)of_high[k * block.pitch()] << 16 : 0;
    const spc_u32 kept = (low ? 0xffffu : 0) | (high ? 0xffff0000u : 0);
    spc_u32 *to = (spc_u32 *)(block.to + r * block.extent + at);
#pragma unroll
    for (int k = 0; k < at_once; k++)
      if (k < rows) to[k * (block.extent / 2)] = v[k] & kept;
  }
  task -= tasks;
}

// The run's first place where it is odd, and its last one where that is even, by all threads, a row each.
template <class Config, int Pitch> SPC_DEVICE void spc_move_edges(const spc_moved_rows<Pitch> &block, const unsigned short *entry, const spc_moved_run &run) {
#pragma unroll 1
  for (int n = (int)threadIdx.x; n < 2 * run.rows(); n += Config::threads) {
    const bool last = n >> run.rows_log;
    const int r = run.row + (n & (run.rows() - 1)), at = last ? run.limit - 1 : run.begin, i = at - run.begin;
    if (run.begin < run.limit && at % 2 != (int)last && r < block.rows)
      block.to[r * block.extent + at] = i < run.count ? block.from[r * block.pitch() + entry[run.entry + i] - block.first] : (unsigned short)0;
  }
}

// So many entries of all rows to the places from `begin` on.
template <class Config>
SPC_DEVICE void spc_move_listed(const unsigned short *from, long long pitch, unsigned short *to, long long extent, int rows, const unsigned short *entry, int first_column,
                                int count, int begin, int limit) {
  const spc_moved_rows<0> block = {from, pitch, first_column, rows, to, extent};
  const spc_moved_run run = {0, count, begin, limit, 0, spc_log(Config::rows_a_block)};
  int task = (int)threadIdx.x / 32;
  spc_move_words<Config>(block, entry, run, task);
  spc_move_edges<Config>(block, entry, run);
}

template <class Config> SPC_DEVICE void spc_compact(const spc_args &args) {
  using places = spc_listed_places<Config>;
  using rows_of = spc_window_rows<Config>;
  using V = typename Config::V;
  static_assert(sizeof(V) == 2 && Config::gran == 1 && Config::axis_is_contiguous,
                "what is brought side by side is single elements of 16 bits, of rows that lie along the axis");
  static_assert(Config::shared_bytes >= rows_of::room_for * rows_of::rows * rows_of::columns * 2, "shared_bytes is less than the windows of the block's rows");
  static_assert(Config::stretch % Config::window == 0 && Config::window % 32 == 0, "a stretch is whole windows, a window whole words");
  extern __shared__ __align__(128) char spc_shared[];
  __shared__ places listed;
  __shared__ spc_u64 barriers[rows_of::room_for];
  if (spc_not_meant<Config>(args)) return;
  spc_clear_counters<Config>(args);
  const int words = (int)((Config::capacity(args) + 31) / 32), mine = (int)threadIdx.x, kinds = spc_listed_kinds<Config>, together = spc_listed_strips<Config>;
  const spc_u32 strips = (spc_u32)Config::strips(args), lists = (spc_u32)spc_lists_of<Config>(args), groups = (together * Config::strip + Config::rows_a_block - 1) / Config::rows_a_block;
  const spc_u32 s = blockIdx.x / groups, group = blockIdx.x % groups;
  const spc_u32 *bits = Config::bits(args) + (spc_u64)s * together * words;
  const bool one = s < lists, two = kinds > 1 && 2 * s + 1 < strips; // strips that there are
  auto word_of = [&](int w, int kind) { return one && w < words ? spc_kind_of<kinds>(bits[w], two ? bits[words + w] : 0, kind) : 0; };
  spc_listed_counts<kinds> found = {};
  int entries = 0; // of this thread, then of the list
#pragma unroll 1
  for (int w = mine; one && w < words; w += Config::threads) found.add(bits[w], two ? bits[words + w] : 0);
  entries = found.sum();
  if (spc_bits_say_dense<Config>(args, strips * (spc_u32)words, entries)) return;
  ptx_release_grid(); // not before: who multiplies needs a multiprocessor to itself, and had better find them all left at once
  const int end = (entries + Config::packed_whole - 1) / Config::packed_whole * Config::packed_whole;
  const long long high = (long long)together * Config::strip, m0 = s * high + group * Config::rows_a_block, pitch = Config::strip_pitch(args), extent = Config::axis_extent(args);
  const int rows = (int)min(min((long long)(s + 1) * high, (long long)Config::strip_extent(args)) - m0, (long long)Config::rows_a_block);
  if (!one || rows <= 0) return;
  const bool aligned = extent % 2 == 0; // else another kernel multiplies, from the values as they lie
  rows_of window = {(const unsigned short *)Config::values(args) + m0 * pitch, pitch, extent, (unsigned short *)spc_shared, spc_shared_address(barriers), rows, false};
  if (kinds == 1) window.begin(entries); // windows come once
  int *ids = Config::ids(args) + (long long)s * Config::capacity(args);
  unsigned short *to = (unsigned short *)Config::rows_packed(args) + m0 * extent;
  auto move = [&](const unsigned short *from, long long step, int first_column, int first, int count, int begin, int limit) {
    if (aligned) spc_move_listed<Config>(from, step, to, extent, rows, listed.entry + first, first_column, count, begin, limit);
  };
  int begin = 0; // places before the stretch's
#pragma unroll 1
  for (int c = 0; c < kinds; c++)
#pragma unroll 1
    for (int first = 0; first < words; first += places::most) {
      const int here = min(words - first, (int)places::most), per = Config::window / 32, windows = (here + per - 1) / per;
      const int found = listed.list(mine < here ? word_of(first + mine, c) : 0, here);
      const bool last = first + places::most >= words && c == kinds - 1;
      const int whole = last ? (int)min((long long)end, extent) : begin + found; // the limit of the last window
#pragma unroll 1
      for (int i = mine; group == 0 && i < found; i += Config::threads) ids[begin + i] = first * 32 + listed.entry[i];
      if (window.staged) {
        // Not before the list: instructions and words that come behind so many copies would wait for them.
        for (int i = 0; first == 0 && i < window.room_for; i++) window.bring(i);
#pragma unroll 1
        for (int w = 0; w < windows; w++) {
          const int n = first / per + w, from = listed.before[w * per], to = w + 1 < windows ? listed.before[(w + 1) * per] : found;
          window.wait(n);
          move(window.at(n), window.columns, w * Config::window, from, to - from, begin + from, w + 1 < windows ? begin + to : whole);
          __syncthreads(); // before the entries and the rows of another
          window.bring(n + window.room_for);
        }
      } else {
        move(window.from + first * 32, pitch, 0, 0, found, begin, whole);
        __syncthreads();
      }
      begin += found;
    }
  if (group > 0) return;
  if constexpr (kinds == 1) {
    if (mine == 0) Config::counts(args)[s] = entries;
  } else {
    spc_pair_sums before = {};
    spc_block_pair_sums<Config>(before, found);
    if (mine == 0) found.note(Config::counts(args), s, lists);
  }
}
