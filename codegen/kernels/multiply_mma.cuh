// multiply_mma.cuh - multiply: a k tile from shared memory by mma.sync m16n8, 32 bytes of k, sums in registers.
//
// The block's WarpsM x WarpsN warps cut the tile in equal parts.  Register layout of one 16 x 8 sum, with
// g = lane / 4 and t = lane % 4:
//     c[0], c[1] = row g,     columns 2t, 2t+1        c[2], c[3] = row g + 8, the same columns
// Both layouts of both operands are read with ldmatrix; where the rows of a panel are k, transposed.  8-bit operands
// (mma8.cuh) lie in registers as pairs of them would, so their rows must be along k.
#pragma once
#include "spc/panel.cuh"

SPC_DEVICE void spc_mma(float (&c)[4], const spc_u32 (&a)[4], spc_u32 b0, spc_u32 b1, spc_bf16) {
  ptx_mma_bf16(c, a, b0, b1);
}
SPC_DEVICE void spc_mma(float (&c)[4], const spc_u32 (&a)[4], spc_u32 b0, spc_u32 b1, spc_f16) {
  ptx_mma_f16(c, a, b0, b1);
}

template <class Config> struct spc_mma_sums {
  static constexpr bool asynchronous = false;
  using T = typename Config::A;
  using Sum = spc_sum<T>;
  static constexpr int bytes = (int)sizeof(T), step = 32 / bytes;  // of an element; k's of an instruction
  static constexpr int rows = Config::tile_m / Config::warps_m;    // of a warp
  static constexpr int columns = Config::tile_n / Config::warps_n;
  static constexpr int blocks_m = rows / 16, blocks_n = columns / 8;
  static_assert(rows % 16 == 0 && columns % 16 == 0, "a warp's part must be a multiple of 16 x 16");
  static_assert(Config::tile_k % step == 0, "mma.sync takes 32 bytes of k at a time");
  static_assert(bytes == 2 || (Config::layout_a == 'r' && Config::layout_b == 'c'),
                "8-bit operands must have k contiguous");
  static_assert(Config::warps_m * Config::warps_n * 32 == Config::workers, "warps and threads disagree");

  Sum sum[blocks_m][blocks_n][4];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < blocks_m; i++)
#pragma unroll
      for (int j = 0; j < blocks_n; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) sum[i][j][e] = 0;
  }
  SPC_DEVICE int lane() { return (int)threadIdx.x & 31; }
  SPC_DEVICE int warp_row() { return (int)threadIdx.x / 32 / Config::warps_n * rows; }
  SPC_DEVICE int warp_column() { return (int)threadIdx.x / 32 % Config::warps_n * columns; }

  // A of 16 rows at m and 32 bytes of k's at k: registers of the mma's first operand.
  template <class Panel> SPC_DEVICE void fetch_a(spc_u32 (&r)[4], const char *shared, int m, int k) {
    int l = lane();
    if (Config::layout_a == 'r')
      ptx_load_matrix(r, spc_shared_address(shared + Panel::chunk_at(m + (l & 15), k * bytes / 16 + (l >> 4))));
    else
      ptx_load_matrix_transposed(
          r, spc_shared_address(shared + Panel::chunk_at(k + (l & 7) + (l >> 4) * 8, m / 8 + (l >> 3 & 1))));
  }
  // B of 16 columns at n: r[0], r[1] for the first eight, r[2], r[3] for the others.
  template <class Panel> SPC_DEVICE void fetch_b(spc_u32 (&r)[4], const char *shared, int n, int k) {
    int l = lane();
    if (Config::layout_b == 'c')
      ptx_load_matrix(r, spc_shared_address(shared + Panel::chunk_at(n + (l & 7) + (l >> 4) * 8, k * bytes / 16 + (l >> 3 & 1))));
    else
      ptx_load_matrix_transposed(
          r, spc_shared_address(shared + Panel::chunk_at(k + (l & 15), n / 8 + (l >> 4))));
  }
  template <class PanelA, class PanelB>
  __device__ __forceinline__ void multiply(const char *a, const char *b) {
    int row = warp_row(), column = warp_column();
#pragma unroll
    for (int k = 0; k < Config::tile_k; k += step) {
      spc_u32 fa[blocks_m][4], fb[blocks_n / 2][4];
#pragma unroll
      for (int i = 0; i < blocks_m; i++) fetch_a<PanelA>(fa[i], a, row + i * 16, k);
#pragma unroll
      for (int j = 0; j < blocks_n / 2; j++) fetch_b<PanelB>(fb[j], b, column + j * 16, k);
#pragma unroll
      for (int i = 0; i < blocks_m; i++)
#pragma unroll
        for (int j = 0; j < blocks_n; j++)
          spc_mma(sum[i][j], fa[i], fb[j / 2][j % 2 * 2], fb[j / 2][j % 2 * 2 + 1], T());
    }
  }
  // Calls visit(row, column, sum) for every element of the tile that this thread holds.
  template <class Visit> __device__ __forceinline__ void each(Visit visit) const {
    int row = warp_row() + lane() / 4, column = warp_column() + lane() % 4 * 2;
#pragma unroll
    for (int i = 0; i < blocks_m; i++)
#pragma unroll
      for (int j = 0; j < blocks_n; j++)
#pragma unroll
        for (int e = 0; e < 4; e++)
          visit(row + i * 16 + e / 2 * 8, column + j * 8 + e % 2, sum[i][j][e]);
  }
};
