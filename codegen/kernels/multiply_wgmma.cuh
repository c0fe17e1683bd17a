// multiply_wgmma.cuh - multiply: a k tile from shared memory by wgmma (sm_90a), f32 sums in registers.
//
// The block's warpgroups cut the tile into warps_m x warps_n parts of 64 rows (here a "warp" of the config is a
// warpgroup).  The multiply of one k tile runs while the threads load a later one: `issue` starts it, `retire`
// waits until only the newest is under way.  Registers of a part of 64 x N, with w the warp in its group,
// g = lane / 4, t = lane % 4:
//     sum[4 j], sum[4 j + 1] = row 16 w + g, columns 8 j + 2 t, + 1        sum[4 j + 2], [4 j + 3] = row + 8
#pragma once
#include "spc/panel.cuh"
#include "spc/wgmma.cuh"

template <class Config> struct spc_wgmma_sums {
  static constexpr bool asynchronous = true;
  static constexpr int columns = Config::tile_n / Config::warps_n; // of a warpgroup
  static constexpr int count = columns / 2;
  static constexpr bool a_transposed = Config::layout_a == 'c', b_transposed = Config::layout_b == 'r';
  static_assert(Config::tile_m == 64 * Config::warps_m, "a warpgroup multiplies 64 rows");
  static_assert(columns == 128 || columns == 256, "a warpgroup multiplies 128 or 256 columns");
  static_assert(Config::tile_k == 64, "a row of a swizzled panel is 64 k's");
  static_assert(Config::warps_m * Config::warps_n * 128 == Config::workers, "warpgroups and threads disagree");

  float sum[count];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < count; i++) sum[i] = 0;
  }
  SPC_DEVICE int group() { return (int)threadIdx.x / 128; }
  SPC_DEVICE int group_row() { return group() / Config::warps_n * 64; }
  SPC_DEVICE int group_column() { return group() % Config::warps_n * columns; }

  // Before the barrier: this thread's copies become visible to the tensor cores.
  __device__ __forceinline__ void publish() { ptx_fence_async_shared(); }

  // Bytes from the start of a panel to row or column `free` of it.
  template <bool RowsAreK> SPC_DEVICE int part_at(int free) {
    return RowsAreK ? free / 64 * (Config::tile_k * 128) : free * 128;
  }
  __device__ __forceinline__ void step(spc_u64 a, spc_u64 b, int add, spc_bf16) {
    if constexpr (columns == 256) ptx_wgmma_bf16_n256<a_transposed, b_transposed>(sum, a, b, add);
    else ptx_wgmma_bf16_n128<a_transposed, b_transposed>(sum, a, b, add);
  }
  __device__ __forceinline__ void step(spc_u64 a, spc_u64 b, int add, spc_f16) {
    if constexpr (columns == 256) ptx_wgmma_f16_n256<a_transposed, b_transposed>(sum, a, b, add);
    else ptx_wgmma_f16_n128<a_transposed, b_transposed>(sum, a, b, add);
  }
  template <class PanelA, class PanelB> __device__ __forceinline__ void issue(const char *a, const char *b, bool first) {
    const int slab = Config::tile_k * 128;
    spc_u64 da = spc_wgmma_descriptor(spc_shared_address(a + part_at<a_transposed>(group_row())), slab);
    spc_u64 db = spc_wgmma_descriptor(spc_shared_address(b + part_at<b_transposed>(group_column())), slab);
    ptx_wgmma_fence();
#pragma unroll
    for (int k = 0; k < Config::tile_k / 16; k++)
      step(da + k * (a_transposed ? 2048 : 32) / 16, db + k * (b_transposed ? 2048 : 32) / 16,
           first && k == 0 ? 0 : 1, typename Config::A());
    ptx_wgmma_commit();
  }
  template <int Pending> __device__ __forceinline__ void retire() { ptx_wgmma_wait<Pending>(); }

  template <class Visit> __device__ __forceinline__ void each(Visit visit) const {
    int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x / 32 % 4;
    int row = group_row() + warp * 16 + lane / 4, column = group_column() + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < count; i++) {
      visit(row + i % 4 / 2 * 8, column + i / 4 * 8 + i % 2, sum[i]);
      if (i % 16 == 15) asm volatile("" ::: "memory"); // a fragment's loads run 16 sums ahead at most: registers
    }
  }
};
