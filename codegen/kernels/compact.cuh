// compact.cuh - what a list names of rows that lie along its axis, brought side by side.
//
//     bits -> the verdict, counts, ids and
//     packed  [rows][axis]   of each row the elements at its strip's ids, in their order, then zeros up to a multiple of `whole`
//
// A column of such a matrix is two bytes of every row: nobody gathers that.  What is listed of it moves by box once it lies side by side, as
// fast as a matrix without zeros.  A block takes a few rows of a strip (of two that share a list: pairs.cuh), has a window of them copied to
// shared memory and lists the window for itself meanwhile; then a lane has two entries, which it reads of several rows, and stores whole words.
// Config names: those of detect.cuh; rows_packed, packed_whole, rows_a_block, window (columns), pairs (two strips share a list).
#pragma once
#include "spc/barrier.cuh"
#include "spc/pairs.cuh"
#include "spc/tma.cuh"

template <class Config> struct spc_listed_places {
  static constexpr int kinds = Config::pairs ? 3 : 1, of = Config::pairs ? 2 : 1; // strips of a list
  static constexpr int warps = Config::threads / 32, most = Config::window / 32;   // words of a window
  static_assert(most % 32 == 0 && most <= Config::threads, "a window's words are one a thread, of whole warps");
  unsigned short entry[most * 32]; // columns from the window's first on, the kinds one after the other
  int before[kinds][most];         // entries of the kind before the word, in this window
  spc_u32 word[of][most];
  int sums[warps][kinds];

  SPC_DEVICE spc_u32 kind(int c, spc_u32 a, spc_u32 b) { return c == 0 ? a & ~b : c == 1 ? a & b : b & ~a; }
  // One of three, which stay in registers: a loop over the kinds is not unrolled.
  template <int N> SPC_DEVICE int of_kind(const int (&x)[N], int c) { return kinds == 1 || c == 0 ? x[0] : c == 1 ? x[1] : x[2]; }
  // Whose place it is: `first` of each kind, ascending.
  SPC_DEVICE int kind_at(const int (&first)[4], int place) { return kinds == 1 ? 0 : (place >= first[1] ? 1 : 0) + (place >= first[2] ? 1 : 0); }

  // A window's words, one a thread (a: of the first strip, b: of the second): its entries; found: how many of each kind.
  __device__ __forceinline__ void list(spc_u32 a, spc_u32 b, int words, int (&found)[3]) {
    const int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x / 32;
    int mine[kinds];
    const bool owns = threadIdx.x < most;
    if (owns) word[0][threadIdx.x] = a;
    if constexpr (Config::pairs)
      if (owns) word[1][threadIdx.x] = b;
#pragma unroll
    for (int c = 0; c < kinds; c++) {
      mine[c] = spc_scan_warp(__popc(kind(c, a, b)));
      if (lane == 31) sums[warp][c] = mine[c];
      mine[c] -= __popc(kind(c, a, b));
    }
    __syncthreads();
#pragma unroll
    for (int c = 0; c < kinds; c++) {
      found[c] = 0;
#pragma unroll
      for (int w = 0; w < warps; w++) {
        if (w < warp) mine[c] += sums[w][c];
        found[c] += sums[w][c];
      }
      if (owns) before[c][threadIdx.x] = mine[c];
    }
    __syncthreads();
#pragma unroll 2
    for (int w = warp; w < words; w += warps) {
      const spc_u32 x = word[0][w], y = Config::pairs ? word[of - 1][w] : 0;
      int first = 0;
#pragma unroll
      for (int c = 0; c < kinds; c++) {
        const spc_u32 bits = kind(c, x, y);
        if (bits >> lane & 1) entry[first + before[c][w] + __popc(bits & ptx_lanes_below())] = (unsigned short)(w * 32 + lane);
        first += found[c];
      }
    }
    __syncthreads();
  }
};

// Where a block's rows are read from, a window of columns at a time: as they lie, where few of their elements are listed; else from shared memory,
// whose rows bulk copies fill.
template <class Config> struct spc_window_rows {
  static constexpr int rows = Config::rows_a_block, columns = spc_listed_places<Config>::most * 32;
#if __CUDA_ARCH__ >= 900
  static constexpr bool stages = true;
#else
  static constexpr bool stages = false;
#endif
  const unsigned short *from; // the block's first row
  long long pitch, extent;
  unsigned short *room;
  spc_u32 barrier;
  int count; // rows that there are
  bool staged;

  // By all threads.
  __device__ __forceinline__ void begin(int entries) {
    const int few = 24; // of so many elements one is listed
    staged = stages && (long long)entries * few > extent && extent % 8 == 0 && (((spc_u64)from | (spc_u64)pitch * 2) & 15) == 0;
    if constexpr (stages)
      if (staged && threadIdx.x == 0) {
        ptx_barrier_init(barrier, 1);
        ptx_fence_barrier_init();
        bring(0);
      }
  }
  // The window from column `first` on; by one thread, when nobody reads the one before.
  __device__ __forceinline__ void bring(int first) const {
    if constexpr (stages) {
      const int bytes = (int)min((long long)columns, extent - first) * 2;
      ptx_barrier_expect(barrier, bytes * count);
#pragma unroll 1
      for (int r = 0; r < count; r++) ptx_bulk_load(spc_shared_address(room) + r * columns * 2, from + r * pitch + first, bytes, barrier);
    }
  }
  __device__ __forceinline__ void wait(int parity) const {
    if constexpr (stages)
      if (staged) ptx_barrier_wait(barrier, parity);
  }
};

// So many entries of a window go to consecutive places of each of some rows.  The places `at` (even) and behind it: entries i and i + 1,
// zeros behind the last up to place `end`.
template <int Rows>
SPC_DEVICE void spc_move_entries(const unsigned short *from, long long pitch, unsigned short *to, long long extent, int rows, const unsigned short *entry, int i,
                                 int entries, int at, int end) {
  const bool has[2] = {i >= 0 && i < entries, i + 1 < entries};
  const int column[2] = {has[0] ? entry[i] : 0, has[1] ? entry[i + 1] : 0};
  const bool first = i >= 0 && at < end, second = at + 1 < end;
  spc_u32 low[Rows], high[Rows];
#pragma unroll
  for (int r = 0; r < Rows; r++) {
    low[r] = has[0] && r < rows ? from[r * pitch + column[0]] : 0;
    high[r] = has[1] && r < rows ? from[r * pitch + column[1]] : 0;
  }
#pragma unroll
  for (int r = 0; r < Rows; r++) {
    unsigned short *place = to + r * extent + at;
    if (r >= rows) continue;
    if (first && second) *(spc_u32 *)place = low[r] | high[r] << 16;
    else if (first) place[0] = (unsigned short)low[r];
    else if (second) place[1] = (unsigned short)high[r];
  }
}

template <class Config> SPC_DEVICE void spc_compact(const spc_args &args) {
  using places = spc_listed_places<Config>;
  using V = typename Config::V;
  const int at_once = 8, parts = Config::rows_a_block / at_once; // rows of a warp's task
  static_assert(sizeof(V) == 2 && Config::gran == 1 && Config::axis_is_contiguous,
                "what is brought side by side is single elements of 16 bits, of rows that lie along the axis");
  static_assert(Config::shared_bytes >= Config::rows_a_block * places::most * 64, "shared_bytes is less than a window of the block's rows");
  extern __shared__ __align__(128) char spc_shared[];
  __shared__ places listed;
  __shared__ spc_u64 barrier;
  if (spc_not_meant<Config>(args)) return;
  const int words = (int)((Config::capacity(args) + 31) / 32), lane = (int)threadIdx.x & 31;
  const spc_u32 strips = (spc_u32)Config::strips(args), tall = Config::strip * places::of, groups = (tall + Config::rows_a_block - 1) / Config::rows_a_block;
  const spc_u32 s = blockIdx.x / groups, group = blockIdx.x % groups;
  const bool one = s * places::of < strips, two = Config::pairs && s * 2 + 1 < strips; // strips that there are
  const spc_u32 *bits = Config::bits(args) + (spc_u64)s * places::of * words;
  const int mine = (int)threadIdx.x;
  spc_pair_sums none = {}, all = {};
#pragma unroll 1
  for (int w = mine; one && w < words; w += Config::threads) all.add(bits[w], two ? bits[words + w] : 0);
  if (spc_bits_say_dense<Config>(args, strips * (spc_u32)words)) return;
  spc_block_pair_sums<Config>(none, all);
  if (!one) return;
  int begin[3] = {0, all.at[0], all.at[0] + all.at[1]}, found[3] = {};
  const int entries = begin[2] + all.at[2], end = (entries + Config::packed_whole - 1) / Config::packed_whole * Config::packed_whole;
  const long long m0 = (long long)s * tall + group * Config::rows_a_block, pitch = Config::strip_pitch(args), extent = Config::axis_extent(args);
  const int rows = (int)min(min((long long)(s + 1) * tall, (long long)Config::strip_extent(args)) - m0, (long long)Config::rows_a_block);
  if (rows <= 0) return;
  const bool aligned = extent % 2 == 0; // else another kernel multiplies, from the values as they lie
  spc_window_rows<Config> window = {(const unsigned short *)Config::values(args) + m0 * pitch, pitch, extent, (unsigned short *)spc_shared,
                                    spc_shared_address(&barrier), rows, false};
  window.begin(entries);
  int *ids = Config::ids(args) + (long long)s * Config::capacity(args);
  int parity = 0;
#pragma unroll 1
  for (int first = 0; first < words; first += places::most, parity ^= 1) {
    const int w = first + mine, here = min(words - first, (int)places::most);
    const bool reads = mine < here;
    listed.list(reads ? bits[w] : 0, reads && two ? bits[words + w] : 0, here, found);
    window.wait(parity);
    const bool last = first + places::most >= words;
    // The kinds' entries go to three stretches of a row, each in tasks of 64 places and some rows; warps take the tasks of all three.
    int before[4] = {}, at0[3] = {}, limit[3] = {}, listed_before[4] = {};
#pragma unroll
    for (int c = 0; c < places::kinds; c++) {
      at0[c] = begin[c] & ~1; // whole words
      limit[c] = last && c == places::kinds - 1 ? (int)min((long long)end, extent) : begin[c] + found[c];
      before[c + 1] = before[c] + (aligned ? (max(limit[c] - at0[c], 0) + 63) / 64 * parts : 0);
      listed_before[c + 1] = listed_before[c] + found[c];
    }
#pragma unroll 1
    for (int e = mine; group == 0 && e < listed_before[places::kinds]; e += Config::threads) {
      const int c = places::kind_at(listed_before, e);
      ids[places::of_kind(begin, c) + e - places::of_kind(listed_before, c)] = first * 32 + listed.entry[e];
    }
#pragma unroll 1
    for (int task = mine / 32; task < before[places::kinds]; task += places::warps) {
      const int c = places::kind_at(before, task), own = task - places::of_kind(before, c), r = own % parts * at_once;
      const int at = places::of_kind(at0, c) + own / parts * 64 + lane * 2, i = at - places::of_kind(begin, c);
      const int count = places::of_kind(found, c), until = places::of_kind(limit, c);
      const unsigned short *entry = listed.entry + places::of_kind(listed_before, c);
      unsigned short *to = (unsigned short *)Config::rows_packed(args) + (m0 + r) * extent;
      if (window.staged) spc_move_entries<at_once>(window.room + r * window.columns, window.columns, to, extent, rows - r, entry, i, count, at, until);
      else spc_move_entries<at_once>(window.from + r * pitch + first * 32, pitch, to, extent, rows - r, entry, i, count, at, until);
    }
#pragma unroll
    for (int c = 0; c < places::kinds; c++) begin[c] += found[c];
    __syncthreads(); // before the entries and the rows of the next window
    if (!last && window.staged && mine == 0) window.bring((first + places::most) * 32);
  }
  if (group > 0 || mine > 0) return;
  int *counts = Config::counts(args);
  counts[s] = entries;
  const spc_u32 pairs = (strips + 1) / 2;
  if constexpr (Config::pairs) counts[pairs + 2 * s] = all.at[0] + all.at[1], counts[pairs + 2 * s + 1] = all.at[1] + all.at[2];
}
