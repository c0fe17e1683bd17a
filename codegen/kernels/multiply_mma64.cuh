// multiply_mma64.cuh - multiply: a k tile of f64 from shared memory by mma.sync, f64 sums in registers.
//
// The block's WarpsM x WarpsN warps cut the tile in equal parts of 16 x 8 sums.  With g = lane / 4, t = lane % 4:
//     c[0], c[1] = row g,     columns 2t, 2t+1        c[2], c[3] = row g + 8, the same columns
// Products and sums are those of f64 arithmetic.
#pragma once
#include "spc/panel.cuh"

// Sums of 16 x 8 over 4 k's: a = rows g and g + 8 at k t, b = column g at k t.
SPC_DEVICE void ptx_mma_f64(double (&c)[4], double a0, double a1, double b) {
#if __CUDA_ARCH__ >= 900
  asm("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3]) : "d"(a0), "d"(a1), "d"(b));
#else
  asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
      : "+d"(c[0]), "+d"(c[1]) : "d"(a0), "d"(b));
  asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
      : "+d"(c[2]), "+d"(c[3]) : "d"(a1), "d"(b));
#endif
}

template <class Config> struct spc_mma64_sums {
  static constexpr bool asynchronous = false, plain = false;
  static constexpr int rows = Config::tile_m / Config::warps_m, columns = Config::tile_n / Config::warps_n; // of a warp
  static constexpr int blocks_m = rows / 16, blocks_n = columns / 8;
  static_assert(rows % 16 == 0 && columns % 8 == 0, "a warp's part must be a multiple of 16 x 8");
  static_assert(Config::tile_k % 4 == 0, "mma.sync takes 4 k's of f64 at a time");
  static_assert(Config::warps_m * Config::warps_n * 32 == Config::workers, "warps and threads disagree");

  double sum[blocks_m][blocks_n][4];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < blocks_m; i++)
#pragma unroll
      for (int j = 0; j < blocks_n; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) sum[i][j][e] = 0;
  }
  SPC_DEVICE int warp_row() { return (int)threadIdx.x / 32 / Config::warps_n * rows; }
  SPC_DEVICE int warp_column() { return (int)threadIdx.x / 32 % Config::warps_n * columns; }
  // Element of a panel at (free, k); its rows are k or free.
  template <class Panel, bool RowsAreK> SPC_DEVICE double fetch(const char *shared, int free, int k) {
    return *(const double *)(shared + (RowsAreK ? Panel::element_at(k, free) : Panel::element_at(free, k)));
  }
  template <class PanelA, class PanelB>
  __device__ __forceinline__ void multiply(const char *a, const char *b) {
    const bool a_rows_are_k = Config::layout_a == 'c', b_rows_are_k = Config::layout_b == 'r';
    int g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
#pragma unroll
    for (int k = 0; k < Config::tile_k; k += 4) {
      double fa[blocks_m][2], fb[blocks_n];
#pragma unroll
      for (int i = 0; i < 2 * blocks_m; i++)
        fa[i / 2][i % 2] = fetch<PanelA, a_rows_are_k>(a, warp_row() + i * 8 + g, k + t);
#pragma unroll
      for (int j = 0; j < blocks_n; j++) fb[j] = fetch<PanelB, b_rows_are_k>(b, warp_column() + j * 8 + g, k + t);
#pragma unroll
      for (int i = 0; i < blocks_m; i++)
#pragma unroll
        for (int j = 0; j < blocks_n; j++) ptx_mma_f64(sum[i][j], fa[i][0], fa[i][1], fb[j]);
    }
  }
  template <class Visit> __device__ __forceinline__ void each(Visit visit) const {
    int row = warp_row() + (int)threadIdx.x % 32 / 4, column = warp_column() + (int)threadIdx.x % 4 * 2;
#pragma unroll
    for (int i = 0; i < blocks_m; i++)
#pragma unroll
      for (int j = 0; j < blocks_n; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) visit(row + i * 16 + e / 2 * 8, column + j * 8 + e % 2, sum[i][j][e]);
  }
};
