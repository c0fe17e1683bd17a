// compact.cuh - what a list names of rows that lie along its axis, brought side by side.
//
//     bits -> the verdict, counts, ids and
//     packed  [rows][axis]   of each row the elements at its strip's ids, in their order, then zeros up to a multiple of `whole`
//
// A column of such a matrix is two bytes of every row: nobody gathers that.  What is listed of it moves by box once it lies side by side, as
// fast as a matrix without zeros.  A block takes a few rows of a strip, has a window of them copied to shared memory and lists the window for
// itself meanwhile; then a lane has two entries, which it reads of several rows, and stores whole words.
// Config names: those of detect.cuh; rows_packed, packed_whole, rows_a_block, window (columns).
#pragma once
#include "spc/barrier.cuh"
#include "spc/detect.cuh"
#include "spc/tma.cuh"

template <class Config> struct spc_listed_places {
  static constexpr int warps = Config::threads / 32, most = Config::window / 32; // words of a window
  static_assert(most % 32 == 0 && most <= Config::threads, "a window's words are one a thread, of whole warps");
  unsigned short entry[most * 32]; // columns from the window's first on
  int before[most];                // entries before the word, in this window
  spc_u32 word[most];
  alignas(16) int sums[warps]; // read in whole chunks: what lies before it is written meanwhile

  // A window's words, one a thread: its entries, and how many there are.
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
  spc_clear_counters<Config>(args);
  const int words = (int)((Config::capacity(args) + 31) / 32), lane = (int)threadIdx.x & 31, mine = (int)threadIdx.x;
  const spc_u32 strips = (spc_u32)Config::strips(args), groups = (Config::strip + Config::rows_a_block - 1) / Config::rows_a_block;
  const spc_u32 s = blockIdx.x / groups, group = blockIdx.x % groups;
  const spc_u32 *bits = Config::bits(args) + (spc_u64)s * words;
  int own = 0;
#pragma unroll 1
  for (int w = mine; s < strips && w < words; w += Config::threads) own += __popc(bits[w]);
  if (spc_bits_say_dense<Config>(args, strips * (spc_u32)words)) return;
  ptx_release_grid(); // not before: who multiplies needs a multiprocessor to itself, and had better find them all left at once
  const int entries = spc_block_sums<Config>({own, 0}).x, end = (entries + Config::packed_whole - 1) / Config::packed_whole * Config::packed_whole;
  const long long m0 = (long long)s * Config::strip + group * Config::rows_a_block, pitch = Config::strip_pitch(args), extent = Config::axis_extent(args);
  const int rows = (int)min(min((long long)(s + 1) * Config::strip, (long long)Config::strip_extent(args)) - m0, (long long)Config::rows_a_block);
  if (s >= strips || rows <= 0) return;
  const bool aligned = extent % 2 == 0; // else another kernel multiplies, from the values as they lie
  spc_window_rows<Config> window = {(const unsigned short *)Config::values(args) + m0 * pitch, pitch, extent, (unsigned short *)spc_shared,
                                    spc_shared_address(&barrier), rows, false};
  window.begin(entries);
  int *ids = Config::ids(args) + (long long)s * Config::capacity(args);
  int parity = 0, begin = 0; // places before the window's
#pragma unroll 1
  for (int first = 0; first < words; first += places::most, parity ^= 1) {
    const int w = first + mine, here = min(words - first, (int)places::most);
    const int found = listed.list(mine < here ? bits[w] : 0, here);
    window.wait(parity);
    const bool last = first + places::most >= words;
    const int at0 = begin & ~1, limit = last ? (int)min((long long)end, extent) : begin + found; // whole words
#pragma unroll 1
    for (int i = mine; group == 0 && i < found; i += Config::threads) ids[begin + i] = first * 32 + listed.entry[i];
#pragma unroll 1
    for (int task = mine / 32; aligned && at0 + task / parts * 64 < limit; task += places::warps) {
      const int at = at0 + task / parts * 64 + lane * 2, r = task % parts * at_once, i = at - begin;
      unsigned short *to = (unsigned short *)Config::rows_packed(args) + (m0 + r) * extent;
      if (window.staged) spc_move_entries<at_once>(window.room + r * window.columns, window.columns, to, extent, rows - r, listed.entry, i, found, at, limit);
      else spc_move_entries<at_once>(window.from + r * pitch + first * 32, pitch, to, extent, rows - r, listed.entry, i, found, at, limit);
    }
    begin += found;
    __syncthreads(); // before the entries and the rows of the next window
    if (!last && window.staged && mine == 0) window.bring((first + places::most) * 32);
  }
  if (group == 0 && mine == 0) Config::counts(args)[s] = entries;
}
