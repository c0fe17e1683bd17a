// group_rows.cuh - the loading warpgroup's share of A where rows come in ragged groups (sm_90a): each row, or the one that a
// vector names for it, by cp.async, 8 threads for its 128 bytes of a k tile.  B comes by box, the group its batch.
#pragma once
#include "spc/rows.cuh"

template <class Config> struct spc_grouped_rows : spc_row_copies<Config> {
  using copies = spc_row_copies<Config>;
  using copies::chunk, copies::element, copies::passes, copies::step, copies::wide;

  const char *from[passes]; // this thread's chunk in the next k tile; of no row: anywhere
  spc_u32 there;            // bit p: there is a row
  int first, k, extent;

  __device__ __forceinline__ spc_grouped_rows(const spc_args &args, const spc_tile_place &place, int thread) {
    int at = thread / wide, column = thread % wide * chunk;
    const char *a = (const char *)(Config::a(args, 0) + column);
    spc_u64 pitch = (spc_u64)Config::pitch_a(args) * element;
    first = copies::first_of(thread);
    extent = (int)Config::k(args), k = column, there = 0;
#pragma unroll
    for (int p = 0; p < passes; p++) {
      int m = place.m0 + at + p * step, row = m < place.m ? Config::row(args, m) : -1;
      from[p] = a + max(row, 0) * pitch;
      there |= (row >= 0 ? 1u : 0u) << p;
    }
  }
  __device__ __forceinline__ int tiles() const { return max((extent + Config::tile_k - 1) / Config::tile_k, 1); }
  __device__ __forceinline__ int box_k(int i) const { return i * Config::tile_k; }
  __device__ __forceinline__ void begin(int) const {} // with the first
  __device__ __forceinline__ void load(spc_u32 slot) {
    spc_u32 inside = k < extent ? there : 0; // rows start at multiples of 16 bytes: a chunk lies inside wholly or not at all
    int back = k < extent ? 0 : k * element;
#pragma unroll
    for (int p = 0; p < passes; p++) {
      ptx_copy_async_16(slot + first + p * step * 128, from[p] - back, inside >> p & 1 ? 16 : 0);
      from[p] += 128;
    }
    k += Config::tile_k;
  }
};
