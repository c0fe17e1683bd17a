// multiply_mma.cuh - multiply: a k tile from shared memory by mma.sync m16n8, 32 bytes of k, sums in registers.
//
// The block's WarpsM x WarpsN warps cut the tile in equal parts.  Register layout of one 16 x 8 sum, with
// g = lane / 4 and t = lane % 4:
//     c[0], c[1] = row g,     columns 2t, 2t+1        c[2], c[3] = row g + 8, the same columns
// Both layouts of both operands are read with ldmatrix; where the rows of a panel are k, transposed: 16-bit elements as they
// are, 8-bit ones (mma8.cuh) as pairs, which a byte permutation parts: the even m's of 16 are then a fragment's upper rows and the
// odd ones its lower rows, and even and odd n's two fragments.  f32 (mma32.cuh) is read element by element there.
#pragma once
#include "spc/panel.cuh"

SPC_DEVICE void spc_mma(float (&c)[4], const spc_u32 (&a)[4], spc_u32 b0, spc_u32 b1, spc_bf16) {
  ptx_mma_bf16(c, a, b0, b1);
}
SPC_DEVICE void spc_mma(float (&c)[4], const spc_u32 (&a)[4], spc_u32 b0, spc_u32 b1, spc_f16) {
  ptx_mma_f16(c, a, b0, b1);
}

template <class Config> struct spc_mma_sums {
  static constexpr bool asynchronous = false, plain = false;
  using T = typename Config::A;
  using Sum = spc_sum<T>;
  static constexpr int bytes = (int)sizeof(T), step = 32 / bytes;  // of an element; k's of an instruction
  static constexpr int rows = Config::tile_m / Config::warps_m;    // of a warp
  static constexpr int columns = Config::tile_n / Config::warps_n;
  static constexpr int blocks_m = rows / 16, blocks_n = columns / 8;
  static_assert(rows % 16 == 0 && columns % 16 == 0, "a warp's part must be a multiple of 16 x 16");
  static_assert(Config::tile_k % step == 0, "mma.sync takes 32 bytes of k at a time");
  static constexpr bool a_parted = bytes == 1 && Config::layout_a == 'c', b_parted = bytes == 1 && Config::layout_b == 'r';
  static_assert(Config::warps_m * Config::warps_n * 32 == Config::workers, "warps and threads disagree");

  static constexpr bool splits = bytes == 4 && Config::parts > 1;

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

  // 32 k's of 16 m's or n's of 8-bit operands: r[0], r[1] are the even ones', lower and upper k's, r[2], r[3] the odd ones'.
  template <class Panel> SPC_DEVICE void fetch_parted(spc_u32 (&r)[4], const char *shared, int free, int k) {
    int l = lane(), row = l / 16 * 16 + l % 8 / 2 * 4 + l / 8 % 2 * 2 + l % 2; // a lane's two rows of two matrices: four k's
    spc_u32 v[4];
    ptx_load_matrix_transposed(v, spc_shared_address(shared + Panel::chunk_at(k + row, free / 16)));
    r[0] = __byte_perm(v[0], v[1], 0x6420), r[1] = __byte_perm(v[2], v[3], 0x6420);
    r[2] = __byte_perm(v[0], v[1], 0x7531), r[3] = __byte_perm(v[2], v[3], 0x7531);
  }
  template <class Panel> SPC_DEVICE spc_u32 word_at(const char *shared, int k, int free) {
    return *(const spc_u32 *)(shared + Panel::element_at(k, free));
  }
  // A of 16 rows at m and 32 bytes of k's at k: registers of the mma's first operand.
  template <class Panel> SPC_DEVICE void fetch_a(spc_u32 (&r)[4], const char *shared, int m, int k) {
    int l = lane();
    if constexpr (a_parted) {
      spc_u32 v[4];
      fetch_parted<Panel>(v, shared, m, k);
      r[0] = v[0], r[1] = v[2], r[2] = v[1], r[3] = v[3];
    } else if constexpr (bytes == 4 && Config::layout_a == 'c') {
#pragma unroll
      for (int i = 0; i < 4; i++) r[i] = word_at<Panel>(shared, k + l % 4 + i / 2 * 4, m + l / 4 + i % 2 * 8);
    } else if constexpr (Config::layout_a == 'r')
      ptx_load_matrix(r, spc_shared_address(shared + Panel::chunk_at(m + (l & 15), k * bytes / 16 + (l >> 4))));
    else
      ptx_load_matrix_transposed(
          r, spc_shared_address(shared + Panel::chunk_at(k + (l & 7) + (l >> 4) * 8, m / 8 + (l >> 3 & 1))));
  }
  // B of 16 columns at n: r[0], r[1] for the first eight, r[2], r[3] for the others.
  template <class Panel> SPC_DEVICE void fetch_b(spc_u32 (&r)[4], const char *shared, int n, int k) {
    int l = lane();
    if constexpr (b_parted) {
      fetch_parted<Panel>(r, shared, n, k);
    } else if constexpr (bytes == 4 && Config::layout_b == 'r') {
#pragma unroll
      for (int i = 0; i < 4; i++) r[i] = word_at<Panel>(shared, k + l % 4 + i % 2 * 4, n + l / 4 + i / 2 * 8);
    } else if constexpr (Config::layout_b == 'c')
      ptx_load_matrix(r, spc_shared_address(shared + Panel::chunk_at(n + (l & 7) + (l >> 4) * 8, k * bytes / 16 + (l >> 3 & 1))));
    else
      ptx_load_matrix_transposed(
          r, spc_shared_address(shared + Panel::chunk_at(k + (l & 15), n / 8 + (l >> 4))));
  }
  template <class PanelA, class PanelB>
  __device__ __forceinline__ void multiply(const char *a, const char *b) {
    int row = warp_row(), column = warp_column();
    Sum part[blocks_m][blocks_n][4]; // of split factors: tensor cores truncate, so long sums are made of short ones
    if constexpr (splits)
#pragma unroll
      for (int i = 0; i < blocks_m * blocks_n * 4; i++) part[i / 4 / blocks_n][i / 4 % blocks_n][i % 4] = 0;
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
          spc_mma(splits ? part[i][j] : sum[i][j], fa[i], fb[j / 2][j % 2 * 2], fb[j / 2][j % 2 * 2 + 1], typename spc_multiplied<T, Config::parts>::type());
    }
    if constexpr (splits)
#pragma unroll
      for (int i = 0; i < blocks_m * blocks_n * 4; i++) {
        int b = i / 4;
        sum[b / blocks_n][b % blocks_n][i % 4] += part[b / blocks_n][b % blocks_n][i % 4];
      }
  }
  // Calls visit(row, column, sum) for every element of the tile that this thread holds.
  template <class Visit> __device__ __forceinline__ void each(Visit visit) const {
    int g = lane() / 4, t = lane() % 4 * 2;
#pragma unroll
    for (int i = 0; i < blocks_m; i++)
#pragma unroll
      for (int j = 0; j < blocks_n; j++)
#pragma unroll
        for (int e = 0; e < 4; e++)
          visit(warp_row() + i * 16 + (a_parted ? 2 * g + e / 2 : g + e / 2 * 8),
                warp_column() + (b_parted ? j / 2 * 16 + (t + e % 2) * 2 + j % 2 : j * 8 + t + e % 2), sum[i][j][e]);
  }
};
