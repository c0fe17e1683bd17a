// rows.cuh - products over rows in a list's order (sm_90a): A's rows are gathered, T's are scattered.
//
// The order brings rows side by side that hold values in the same blocks of k (regroup.cuh); a strip of them walks the
// k tiles that its list names (blocks.cuh).  Places in the order are the m of tiles; B comes by box:
//
//     A[order[m]][k tile] --cp.async, 8 threads a row of 128 bytes--> slot        (sread)
//     staged box --16 bytes a thread--> T[order[m]][n]                            (swrite)
//
// A strip whose list is empty has no tiles: its rows are e(0), filled by blocks that have no tile at all, where half of them are such, or by all behind their last one.
// Where dense is meant (Config::own_dense) rows are taken as they lie, by box.
#pragma once
#include "spc/barrier.cuh"
#include "spc/blocks.cuh"
#include "spc/fill_rows.cuh"

// The row at place m.
template <class Config> SPC_DEVICE int spc_row_at(const spc_args &args, int m, bool all) {
  if constexpr (Config::regroups) return all ? m : Config::order(args)[m];
  else return m;
}

// How a warpgroup copies a k tile of A's rows: 8 threads a row, each 16 of its 128 bytes.
template <class Config> struct spc_row_copies {
  using panel = typename spc_boxes<Config>::a;
  static constexpr int wide = 8, step = 128 / wide, passes = Config::tile_m / step;
  static constexpr int element = (int)sizeof(typename Config::A), chunk = 16 / element;
  static_assert(Config::layout_a == 'r' && panel::boxes == 1 && panel::width * element == 128,
                "rows of A must be contiguous, and 128 bytes of each a k tile");
  // Byte of a thread's first chunk in a panel; the next one lies `step` rows on.
  SPC_DEVICE int first_of(int thread) { return thread / wide * 128 + (thread % wide ^ thread / wide % 8) * 16; }
};

// The loading warpgroup's share of A.
template <class Config> struct spc_ordered_rows : spc_row_copies<Config> {
  using copies = spc_row_copies<Config>;
  using copies::chunk, copies::element, copies::passes, copies::step, copies::wide;

  const char *a;
  spc_u64 pitch; // bytes
  int first, column, extent, k, steps;
  int row[passes]; // -1: past the last
  spc_k_order<Config> order;

  __device__ __forceinline__ spc_ordered_rows(const spc_args &args, const spc_tile_place &place, int thread)
      : order(args, place, false) {
    int at = thread / wide;
    column = thread % wide * chunk;
    a = (const char *)(Config::a(args, place.batch) + column);
    pitch = (spc_u64)Config::pitch_a(args) * element;
    first = copies::first_of(thread);
    extent = (int)Config::k(args);
    steps = max(spc_k_tiles<Config>(place, args), 1);
#pragma unroll
    for (int p = 0; p < passes; p++) {
      int m = place.m0 + at + p * step;
      row[p] = m < place.m ? spc_row_at<Config>(args, m, false) : -1;
    }
  }
  // Of an empty list there are no tiles (spc_fill_strips).
  __device__ __forceinline__ int tiles() const { return steps; }
  __device__ __forceinline__ void begin(int) const {} // with the first
  __device__ __forceinline__ int box_k(int i) { return k = order.next(i); }
  __device__ __forceinline__ void load(spc_u32 slot) const {
#pragma unroll
    for (int p = 0; p < passes; p++) {
      bool inside = row[p] >= 0 && k + column < extent;
      const char *from = inside ? a + row[p] * pitch + (spc_u64)k * element : a; // where nothing is read any will do
      ptx_copy_async_16(slot + first + p * step * 128, from, inside ? 16 : 0);
    }
  }
};

// A warpgroup's staged boxes to the rows of the result: eight of its threads share a row of a box, each has the same rows of all.
template <class Config, class Panel> struct spc_row_store {
  using T = typename Config::T;
  static constexpr int chunk = 16 / (int)sizeof(T), wide = 64 / chunk, step = 128 / wide, passes = 64 / step;
  int row[passes]; // -1: past the last

  // What is asked for here is there when the first box is staged.
  __device__ __forceinline__ void look(const spc_args &args, const spc_tile_place &place, int group_row) {
#pragma unroll
    for (int p = 0; p < passes; p++) {
      int m = place.m0 + group_row + p * step + (int)threadIdx.x % 128 / wide;
      row[p] = m < place.m ? spc_row_at<Config>(args, m, false) : -1;
    }
  }
  // Boxes of the same rows side by side, the first at column n; rows of T are whole chunks.
  template <int Boxes> __device__ __forceinline__ void store(const spc_args &args, const spc_tile_place &place, spc_u32 box, int n) const {
    int at = (int)threadIdx.x % wide, first = (int)threadIdx.x % 128 / wide;
    T *to = Config::t(args, place.batch) + n + at * chunk;
    long long pitch = Config::pitch_t(args);
    spc_u32 v[Boxes * passes][4];
#pragma unroll
    for (int i = 0; i < Boxes * passes; i++)
      ptx_load_shared_128(v[i], box + i / passes * Panel::bytes + Panel::chunk_at(i % passes * step + first, at));
#pragma unroll
    for (int i = 0; i < Boxes * passes; i++) {
      int column = i / passes * 64;
      if (row[i % passes] >= 0 && n + column + at * chunk < place.n)
        *(uint4 *)(to + row[i % passes] * pitch + column) = make_uint4(v[i][0], v[i][1], v[i][2], v[i][3]);
    }
  }
};

// Rows of strips whose lists are empty, by the warps that multiply.  Blocks without a tile are the last ones, since strips that have entries come first.
template <class Config> SPC_DEVICE void spc_fill_strips(const spc_args &args, bool all) {
  if (all) return;
  const int warps = Config::workers / 32, lane = (int)threadIdx.x & 31, m = (int)Config::m(args), strips = (m + Config::strip - 1) / Config::strip;
  const int wide = ((int)Config::n(args) + Config::tile_n - 1) / Config::tile_n;
  int empty = 0;
#pragma unroll 1
  for (int s = lane; s < strips; s += 32) empty += __ldg(Config::counts(args) + s) == 0;
  empty = (int)__reduce_add_sync(0xffffffffu, (spc_u32)empty);
  const int tiles = (strips - empty) * (Config::strip / Config::tile_m) * wide, first = 2 * tiles <= (int)gridDim.x ? tiles : 0;
  if (empty == 0 || (int)blockIdx.x < first) return;
  const spc_row_filler<Config> filler(args);
  const int apart = ((int)gridDim.x - first) * warps;
#pragma unroll 1
  for (int at = ((int)blockIdx.x - first) * warps + (int)threadIdx.x / 32; at < m; at += apart)
    if (__ldg(Config::counts(args) + at / Config::strip) == 0) filler.fill(spc_row_at<Config>(args, at, false));
}
