// multiply_fma.cuh - multiply: a k tile from shared memory by plain f32 multiply-adds.
//
// Exact f32 products, for operands that the tensor cores would round.  A warp is 4 x 8 threads, a thread holds `high` x `wide`
// sums: 8 x 8 in a tile of 128 x 128 by 256 threads, four loads of 16 bytes a k to 64 multiply-adds.  Rows of both panels are
// k's (plain.cuh), so a load brings four neighbours, and where it lies is a constant behind one address a side:
//
//     columns 4 tx + 32 g + 0..3, rows 4 ty + 16 g + 0..3
//
// Threads are dealt so that of lanes l, l ^ 1 and l ^ 2 two read the same: a load then takes the banks twice, not four times.
#pragma once
#include "spc/ptx.cuh"

// Blocks that share a multiprocessor's registers, 128 a thread with 64 sums.  From sm_100 on the assembler wants more, and spills.
template <int Blocks> struct spc_plain_blocks {
#if __CUDA_ARCH__ >= 1000
  static constexpr int beside = 1;
#else
  static constexpr int beside = Blocks;
#endif
};

template <class Config> struct spc_fma_sums {
  static constexpr bool asynchronous = false, plain = true;
  static constexpr int share = Config::tile_m * Config::tile_n / Config::workers; // sums of a thread
  static constexpr int high = share >= 64 ? 8 : 4, wide = share / high;
  static constexpr int warp_m = 4 * high, warp_n = 8 * wide, warps_n = Config::tile_n / warp_n;
  static_assert(Config::tile_m / warp_m * warps_n * 32 == Config::workers, "warps must cover the tile");
  static_assert(high % 4 == 0 && wide % 4 == 0, "a load brings four");
  float sum[high][wide];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < share; i++) sum[i / wide][i % wide] = 0;
  }
  // A thread's first row and column, and the others from there.
  SPC_DEVICE int row() {
    int lane = (int)threadIdx.x % 32, ty = (lane >> 1 & 1) | (lane >> 3 & 2);
    return (int)threadIdx.x / 32 / warps_n * warp_m + 4 * ty;
  }
  SPC_DEVICE int column() {
    int lane = (int)threadIdx.x % 32, tx = (lane & 1) | (lane >> 1 & 6);
    return (int)threadIdx.x / 32 % warps_n * warp_n + 4 * tx;
  }
  SPC_DEVICE constexpr int row_place(int i) { return i / 4 * 16 + i % 4; }
  SPC_DEVICE constexpr int column_place(int i) { return i / 4 * 32 + i % 4; }

  template <int Count> SPC_DEVICE void fetch(float (&at)[Count], spc_u32 from, int step) {
#pragma unroll
    for (int i = 0; i < Count; i += 4) {
      spc_u32 four[4];
      ptx_load_shared_128(four, from + i / 4 * step);
#pragma unroll
      for (int e = 0; e < 4; e++) at[i + e] = __uint_as_float(four[e]);
    }
  }
  // One k tile; the addresses are of this thread's first row and column.
  template <int PitchA, int PitchB> __device__ __forceinline__ void multiply_tile(spc_u32 a, spc_u32 b) {
#pragma unroll // wholly: places are constants then, and the next loads are under way
    for (int k = 0; k < Config::tile_k; k++) {
      float m[high], n[wide];
      fetch(m, a + k * PitchA, 64);
      fetch(n, b + k * PitchB, 128);
#pragma unroll // two by two: what a multiply-add has in common with the one before need not be read again
      for (int i = 0; i < share; i++) {
        const int r = i / (2 * wide) * 2 + i / 2 % 2, c = i / 4 * 2 % wide + (i % 2 ^ i / 2 % 2);
        sum[r][c] += m[r] * n[c];
      }
    }
  }
  // All of them: the pipeline of gemm.cuh, with little beside a tile's multiply-adds.
  template <class LoaderA, class LoaderB>
  __device__ __forceinline__ void multiply(LoaderA &a, LoaderB &b, int tiles, char *shared) {
    using panel_a = typename LoaderA::panel;
    using panel_b = typename LoaderB::panel;
    const int slot_bytes = panel_a::bytes + panel_b::bytes, ring_bytes = Config::depth * slot_bytes, ahead = Config::depth - 1;
    const spc_u32 ring = spc_shared_address(shared), row_at = ring + row() * 4, column_at = ring + panel_a::bytes + column() * 4;
    const int whole = min(a.whole, b.whole);
    auto load = [&](int i, int slot) {
      const int k0 = i * Config::tile_k;
      if (i >= tiles) return;
      if (k0 <= whole) {
        a.template load<true>(ring + slot, k0);
        b.template load<true>(ring + slot + panel_a::bytes, k0);
      } else {
        a.template load<false>(ring + slot, k0);
        b.template load<false>(ring + slot + panel_a::bytes, k0);
      }
    };
#pragma unroll 1 // a loader is a lot of code
    for (int s = 0; s < ahead; s++) {
      load(s, s * slot_bytes);
      ptx_copy_async_commit();
    }
    int read = 0, write = ahead * slot_bytes;
#pragma unroll 1
    for (int i = 0; i < tiles; i++) {
      ptx_copy_async_wait<Config::depth - 2>();
      __syncthreads();
      load(i + ahead, write);
      ptx_copy_async_commit();
      multiply_tile<panel_a::pitch, panel_b::pitch>(row_at + read, column_at + read);
      write = read; // its slot is free when all have passed the next barrier
      read = read + slot_bytes == ring_bytes ? 0 : read + slot_bytes;
    }
    ptx_copy_async_wait<0>();
    __syncthreads();
  }
  template <class Visit> __device__ __forceinline__ void each(Visit visit) const {
    const int row0 = row(), column0 = column();
#pragma unroll
    for (int i = 0; i < share; i++) visit(row0 + row_place(i / wide), column0 + column_place(i % wide), sum[i / wide][i % wide]);
  }
};
