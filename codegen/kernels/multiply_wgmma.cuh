// multiply_wgmma.cuh - multiply: a k tile from shared memory by wgmma (sm_90a), f32 sums in registers.
//
// The block's warpgroups cut the tile into warps_m x warps_n parts (here a "warp" of the config is a
// warpgroup), a part is one or more blocks of 64 rows.  The multiply of one k tile runs while a later one is
// loaded: `issue` starts it, `retire` waits until only the newest is under way.  Registers of a block of 64 x N,
// with w the warp in its group, g = lane / 4, t = lane % 4:
//     sum[4 j], sum[4 j + 1] = row 16 w + g, columns 8 j + 2 t, + 1        sum[4 j + 2], [4 j + 3] = row + 8
// f32 operands (wgmma32.cuh) are multiplied as tf32 and want k contiguous; an A whose rows are k goes through registers, and so
// does one that is the sum of two tf32 numbers, of which only the first is in memory.
// A panel has slabs of `slab_bytes`, `width` elements wide: along m or n where its rows are k, along k otherwise.
#pragma once
#include "spc/panel.cuh"
#include "spc/wgmma.cuh"

template <class Config> struct spc_wgmma_sums {
  static constexpr bool asynchronous = true, plain = false;
  using Factor = spc_factor<Config>;
  using Sum = spc_sum<Factor>;
  static constexpr int bytes = (int)sizeof(Factor);
  // The tensor cores keep 14 bits of the sums of 8-bit floats: those of a k tile are added up in f32, while the next
  // tile's are made.
  // So are those of split factors, which would lose in its truncated additions what they keep of the factors.
  // And those of k's that share a scale, which is a factor of their sum.
  static constexpr bool promotes = (bytes == 1 && !spc_sum_type<Factor>::whole) || Config::parts > 1 || Config::group > 0;
  static constexpr bool from_registers = bytes == 4 && (Config::layout_a == 'c' || Config::parts > 1); // A, as does one that is widened
  static constexpr int steps = Config::tile_k * bytes / 32; // of a k tile
  static constexpr int rows = Config::tile_m / Config::warps_m, columns = Config::tile_n / Config::warps_n;
  static constexpr int blocks = rows / 64, count = columns / 2; // of a warpgroup; sums of a thread and block
  // One k tile is under way, not two: sums of two would leave too few registers, to the warpgroup that turns operands or here.
  static constexpr bool alone =
      from_registers || Config::widens || (promotes && (Config::layout_a == 'c' || Config::layout_b == 'r' || 3 * blocks * count > 200));
  static constexpr bool a_transposed = bytes == 2 && Config::layout_a == 'c';
  static constexpr bool b_transposed = bytes == 2 && Config::layout_b == 'r'; // others were turned
  static_assert(rows % 64 == 0, "a warpgroup multiplies 64 rows at a time");
  static_assert(columns == 8 || (columns % 16 == 0 && columns <= 256),
                "a warpgroup multiplies 8 columns, or 16, 32, ... 256");
  static_assert(Config::tile_k * bytes % 128 == 0 || (Config::tile_k % 16 == 0 && a_transposed && b_transposed),
                "a row of a swizzled panel is 128 bytes of k's, unless the rows are k");
  static_assert(!b_transposed || Config::warps_n == 1 || columns % 64 == 0, "a part must start at a slab");
  static_assert(Config::warps_m * Config::warps_n * 128 == (Config::turns ? 128 : Config::workers), "warpgroups and threads disagree");

  static_assert(!from_registers || (blocks == 1 && Config::tile_k == 32), "A goes through registers 64 x 32 at a time");
  static_assert(!Config::widens || blocks == 1, "a warpgroup widens 64 rows");

  Sum sum[blocks][count], part[promotes && !alone ? 2 : 1][promotes ? blocks : 1][promotes ? count : 1];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int b = 0; b < blocks; b++)
#pragma unroll
      for (int i = 0; i < count; i++) sum[b][i] = 0;
  }
  SPC_DEVICE int group() { return (int)threadIdx.x / 128; }
  SPC_DEVICE int group_row() { return Config::turns ? 0 : group() / Config::warps_n * rows; }
  SPC_DEVICE int group_column() { return Config::turns ? 0 : group() % Config::warps_n * columns; }

  // Before the barrier: this thread's copies become visible to the tensor cores.
  __device__ __forceinline__ void publish() { ptx_fence_async_shared(); }

  // Bytes from the start of a panel to row or column `free` of it, and to the k that lies 32 `step` bytes on.
  template <class Panel, bool RowsAreK> SPC_DEVICE int part_at(int free) {
    return RowsAreK ? free / Panel::width * Panel::slab_bytes : free * 128;
  }
  template <class Panel, bool RowsAreK> SPC_DEVICE constexpr int step_at(int step) {
    return RowsAreK ? step * 32 * Panel::width : step / 4 * Panel::slab_bytes + step % 4 * 32;
  }
  // Columns: of the product, the first of the part's.
  template <class PanelA, class PanelB, int Part = 0, int Columns = columns>
  __device__ __forceinline__ void issue(const char *a, const char *b, bool first) {
    spc_u64 da = spc_wgmma_descriptor<PanelA::width * bytes / 2>(spc_shared_address(a + part_at<PanelA, a_transposed>(group_row())), PanelA::slab_bytes);
    spc_u64 db = spc_wgmma_descriptor<PanelB::width * bytes / 2>(spc_shared_address(b + part_at<PanelB, b_transposed>(group_column())), PanelB::slab_bytes);
    ptx_wgmma_fence();
    if constexpr (Config::live) { // several sizes of tiles in one text
#pragma unroll
      for (int k = 0; k < steps; k += 4)
        ptx_wgmma_four<a_transposed, b_transposed, step_at<PanelA, a_transposed>(1) / 16, step_at<PanelB, b_transposed>(1) / 16>(
            into<Part>(0), da + step_at<PanelA, a_transposed>(k) / 16, db + step_at<PanelB, b_transposed>(k) / 16, first && k == 0 ? 0 : 1, Factor());
    } else {
#pragma unroll
      for (int k = 0; k < steps; k++)
#pragma unroll
        for (int m = 0; m < blocks; m++) {
          spc_u64 at_a = da + (step_at<PanelA, a_transposed>(k) + part_at<PanelA, a_transposed>(m * 64)) / 16;
          spc_u64 at_b = db + step_at<PanelB, b_transposed>(k) / 16;
          ptx_wgmma<a_transposed, b_transposed>(leading<Columns>(into<Part>(m)), at_a, at_b, (first || promotes) && k == 0 ? 0 : 1, Factor());
        }
    }
    ptx_wgmma_commit();
  }
  // This lane's part of A in a k tile.  Where the rows are k a lane takes its two k's of a step in an order that spreads banks.
  template <class PanelA> SPC_DEVICE void fetch(spc_u32 (&f)[4][4], const char *panel) {
    int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x / 32 % 4, g = lane / 4, t = lane % 4;
    if constexpr (Config::layout_a == 'c') {
      int m = group_row() + warp * 16 + g;
      const char *slab = panel + m / 32 * 4096 + m % 4 * 4;
#pragma unroll
      for (int h = 0; h < 2; h++) {
        int chunk = m % 32 / 4 + 2 * h, k0 = t + t % 2 * 4, k1 = k0 ^ 4;
        const char *at[2] = {slab + k0 * 128 + (chunk ^ k0) * 16, slab + k1 * 128 + (chunk ^ k1) * 16};
#pragma unroll
        for (int s = 0; s < 4; s++) {
          spc_u32 v0 = *(const spc_u32 *)(at[0] + s * 1024), v1 = *(const spc_u32 *)(at[1] + s * 1024);
          f[s][h] = t % 2 ? v1 : v0, f[s][2 + h] = t % 2 ? v0 : v1;
        }
      }
    } else {
      int row = warp * 16 + (lane & 15);
#pragma unroll
      for (int s = 0; s < 4; s++)
        ptx_load_matrix(f[s], spc_shared_address(panel + (group_row() + row) * 128 + ((2 * s + lane / 16) ^ row % 8) * 16));
    }
  }
  template <class PanelA, class PanelB> __device__ __forceinline__ void issue_from_registers(const char *a, const char *b, bool first) {
    spc_u32 f[4][4];
    fetch<PanelA>(f, a);
    spc_u64 db = spc_wgmma_descriptor<PanelB::width * bytes / 2>(spc_shared_address(b + group_column() * 128), PanelB::slab_bytes);
    spc_u32 rest[Config::parts > 1 ? 4 : 1][4];
    if constexpr (Config::parts > 1)
#pragma unroll
      for (int i = 0; i < 16; i++) rest[i / 4][i % 4] = spc_rest_of_tf32(f[i / 4][i % 4]);
    ptx_wgmma_fence();
#pragma unroll
    for (int k = 0; k < 4; k++) {
      int add = (first || promotes) && k == 0 ? 0 : 1;
      if constexpr (Config::parts > 1) { // the small products first
        ptx_wgmma_tf32(into<0>(0), rest[k], db + k * 2, add);
        ptx_wgmma_tf32(into<0>(0), f[k], db + k * 2 + PanelB::bytes / 16, 1);
        add = 1;
      }
      ptx_wgmma_tf32(into<0>(0), f[k], db + k * 2, add);
    }
    ptx_wgmma_commit();
  }
  // A k tile of an A that is widened, in registers.
  struct widened { spc_u32 step[Config::widens ? steps : 1][4]; };
  SPC_DEVICE void widen(widened &to, const char *a) { spc_widen_rows(to.step, a + group_row() * 128, Factor()); }
  template <class PanelB> __device__ __forceinline__ void issue_widened(const widened &a, const char *b, bool first) {
    spc_u64 db = spc_wgmma_descriptor<PanelB::width * bytes / 2>(spc_shared_address(b + group_column() * 128), PanelB::slab_bytes);
    ptx_wgmma_fence();
#pragma unroll
    for (int k = 0; k < steps; k++)
      ptx_wgmma_wide(into<0>(0), a.step[k], db + step_at<PanelB, false>(k) / 16, (first || promotes) && k == 0 ? 0 : 1, Factor());
    ptx_wgmma_commit();
  }
  template <int Part> __device__ __forceinline__ Sum (&into(int m))[count] {
    if constexpr (promotes) return part[Part][m];
    else return sum[m];
  }
  template <int Columns> SPC_DEVICE Sum (&leading(Sum (&all)[count]))[Columns / 2] {
    if constexpr (Columns == columns) return all;
    else return reinterpret_cast<Sum (&)[Columns / 2]>(all);
  }
  // Of a k tile that has been retired: its sums join the others.
  template <int Part> __device__ __forceinline__ void promote() {
#pragma unroll
    for (int b = 0; b < blocks; b++)
#pragma unroll
      for (int i = 0; i < count; i++) {
        asm volatile("" : "+f"(part[Part][b][i])::"memory"); // nothing of this moves before the wait
        sum[b][i] += part[Part][b][i];
      }
  }
  // The same of one k tile at a time, whose sums have a factor in the lane's first row and one in its second.
  __device__ __forceinline__ void promote_scaled(float first, float second) {
#pragma unroll
    for (int b = 0; b < blocks; b++)
#pragma unroll
      for (int i = 0; i < count; i++) {
        asm volatile("" : "+f"(part[0][b][i])::"memory"); // nothing of this moves before the wait
        sum[b][i] += part[0][b][i] * (i % 4 / 2 ? second : first);
      }
  }
  template <int Pending> __device__ __forceinline__ void retire() { ptx_wgmma_wait<Pending>(); }

  template <class Visit> __device__ __forceinline__ void each(Visit visit) const {
    int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x / 32 % 4;
    int row = group_row() + warp * 16 + lane / 4, column = group_column() + lane % 4 * 2;
#pragma unroll
    for (int b = 0; b < blocks; b++)
#pragma unroll
      for (int i = 0; i < count; i++) {
        visit(row + b * 64 + i % 4 / 2 * 8, column + i / 4 * 8 + i % 2, sum[b][i]);
        if (i % 16 == 15) asm volatile("" ::: "memory"); // a fragment's loads run 16 sums ahead at most: registers
      }
  }
};
