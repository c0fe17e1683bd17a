// multiply_fma.cuh - multiply: a k tile from shared memory by plain f32 multiply-adds.
//
// A thread holds 4 x 4 sums; exact f32 products, for operands that the tensor cores would round.
#pragma once
#include "spc/panel.cuh"

template <class Config> struct spc_fma_sums {
  static constexpr bool asynchronous = false;
  static constexpr int threads_n = Config::tile_n / 4;
  static_assert(Config::tile_m / 4 * threads_n == Config::workers, "a thread computes 4 x 4 sums");

  float sum[4][4];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < 16; i++) sum[i / 4][i % 4] = 0;
  }
  SPC_DEVICE int row() { return (int)threadIdx.x / threads_n * 4; }
  SPC_DEVICE int column() { return (int)threadIdx.x % threads_n * 4; }

  // Four neighbours at `free`, for one k.
  template <class Panel, bool RowsAreK>
  SPC_DEVICE void fetch(float (&r)[4], const char *shared, int free, int k) {
    if (RowsAreK) {
      float4 four = *(const float4 *)(shared + Panel::element_at(k, free));
      r[0] = four.x, r[1] = four.y, r[2] = four.z, r[3] = four.w;
    } else {
#pragma unroll
      for (int i = 0; i < 4; i++) r[i] = *(const float *)(shared + Panel::element_at(free + i, k));
    }
  }
  template <class PanelA, class PanelB>
  __device__ __forceinline__ void multiply(const char *a, const char *b) {
#pragma unroll
    for (int k = 0; k < Config::tile_k; k++) {
      float fa[4], fb[4];
      fetch<PanelA, Config::layout_a == 'c'>(fa, a, row(), k);
      fetch<PanelB, Config::layout_b == 'r'>(fb, b, column(), k);
#pragma unroll
      for (int i = 0; i < 16; i++) sum[i / 4][i % 4] += fa[i / 4] * fb[i % 4];
    }
  }
  template <class Visit> __device__ __forceinline__ void each(Visit visit) const {
#pragma unroll
    for (int i = 0; i < 16; i++) visit(row() + i / 4, column() + i % 4, sum[i / 4][i % 4]);
  }
};
