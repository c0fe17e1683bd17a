// multiply_fma.cuh - multiply: a k tile from shared memory by plain f32 multiply-adds.
//
// Exact f32 products, for operands that the tensor cores would round.  A warp is 4 x 8 threads, a thread holds `high` x `wide`
// sums: 8 x 8 in a tile of 128 x 128 by 256 threads, four loads of 16 bytes a k to 64 multiply-adds.  Which rows are a thread's
// follows from how they lie in shared memory, so that eight threads side by side read eight different groups of banks:
//
//     rows are k's:  four neighbours a load        columns 4 tx + 32 g + 0..3, rows 4 ty + 16 g + 0..3
//     rows are m's, n's:  four k's of one a load   columns tx + 8 i,           rows ty + 4 i
#pragma once
#include "spc/panel.cuh"

// One side of a thread's sums: `Count` places of `Threads` neighbouring threads of the warp.
template <class Panel, bool RowsAreK, int Threads, int Count> struct spc_fma_side {
  static_assert(Count % 4 == 0, "a load brings four");
  float at[RowsAreK ? 1 : 4][Count]; // of one k, or of four

  // Place number i, from the thread's first.
  SPC_DEVICE constexpr int place(int i) { return RowsAreK ? i / 4 * (4 * Threads) + i % 4 : i * Threads; }
  SPC_DEVICE int first(int thread) { return RowsAreK ? 4 * thread : thread; }
  // What k needs, where rows are not k's the three behind it too; `free`: the thread's first place.
  __device__ __forceinline__ void fetch(const char *shared, int free, int k) {
    if constexpr (RowsAreK) {
#pragma unroll
      for (int i = 0; i < Count; i += 4) {
        float4 four = *(const float4 *)(shared + Panel::element_at(k, free + place(i)));
        at[0][i] = four.x, at[0][i + 1] = four.y, at[0][i + 2] = four.z, at[0][i + 3] = four.w;
      }
    } else if (k % 4 == 0) {
#pragma unroll
      for (int i = 0; i < Count; i++) {
        float4 four = *(const float4 *)(shared + Panel::element_at(free + place(i), k));
        at[0][i] = four.x, at[1][i] = four.y, at[2][i] = four.z, at[3][i] = four.w;
      }
    }
  }
  __device__ __forceinline__ float of(int k, int i) const { return at[RowsAreK ? 0 : k % 4][i]; }
};

template <class Config> struct spc_fma_sums {
  static constexpr bool asynchronous = false;
  static constexpr int share = Config::tile_m * Config::tile_n / Config::workers; // sums of a thread
  static constexpr int high = share >= 64 ? 8 : 4, wide = share / high;
  static constexpr int warp_m = 4 * high, warp_n = 8 * wide, warps_n = Config::tile_n / warp_n;
  static_assert(Config::tile_m / warp_m * warps_n * 32 == Config::workers, "warps must cover the tile");

  template <class Panel> using side_m = spc_fma_side<Panel, Config::layout_a == 'c', 4, high>;
  template <class Panel> using side_n = spc_fma_side<Panel, Config::layout_b == 'r', 8, wide>;
  float sum[high][wide];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < share; i++) sum[i / wide][i % wide] = 0;
  }
  template <class Side> SPC_DEVICE int row() {
    return (int)threadIdx.x / 32 / warps_n * warp_m + Side::first((int)threadIdx.x / 8 % 4);
  }
  template <class Side> SPC_DEVICE int column() {
    return (int)threadIdx.x / 32 % warps_n * warp_n + Side::first((int)threadIdx.x % 8);
  }
  template <class PanelA, class PanelB>
  __device__ __forceinline__ void multiply(const char *a, const char *b) {
    side_m<PanelA> m;
    side_n<PanelB> n;
    const int row0 = row<side_m<PanelA>>(), column0 = column<side_n<PanelB>>();
#pragma unroll // wholly: places are constants then, and the next loads are under way
    for (int k = 0; k < Config::tile_k; k++) {
      m.fetch(a, row0, k);
      n.fetch(b, column0, k);
#pragma unroll
      for (int i = 0; i < share; i++) sum[i / wide][i % wide] += m.of(k, i / wide) * n.of(k, i % wide);
    }
  }
  template <class Visit> __device__ __forceinline__ void each(Visit visit) const {
    using m = side_m<void>;
    using n = side_n<void>;
    const int row0 = row<m>(), column0 = column<n>();
#pragma unroll
    for (int i = 0; i < share; i++) visit(row0 + m::place(i / wide), column0 + n::place(i % wide), sum[i / wide][i % wide]);
  }
};
