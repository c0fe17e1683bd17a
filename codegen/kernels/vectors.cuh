// vectors.cuh - what a fragment reads by column or by row alone (a bias, a scale): brought before it is needed.
//
// A thread asks for its share when a tile begins, so the loads run under the multiply; what belongs to columns
// goes through shared memory when the sums are done, what belongs to rows stays in the registers of its lanes.
#pragma once
#include "spc/epilogue.cuh"
#include "spc/multiply_wgmma.cuh"
#include "spc/rows.cuh"

template <class Config> struct spc_vectors {
  using sums = spc_wgmma_sums<Config>;
  static constexpr int turns = (sums::columns + 127) / 128;
  static constexpr int group_bytes = Config::columns_read * sums::columns * 4;
  static constexpr int bytes = Config::workers / 128 * group_bytes;
  static_assert(Config::columns_read <= 2 && Config::rows_read <= 2, "a fragment is brought two vectors of a kind");

  float column[2][turns], row[2][sums::blocks * 2];

  // Places outside are read as the last one inside.
  __device__ __forceinline__ void load(const spc_tile_place &place, const spc_args &args, bool all) {
    int thread = (int)threadIdx.x % 128, lane = thread % 32, warp = thread / 32;
#pragma unroll
    for (int i = 0; i < Config::columns_read; i++)
#pragma unroll
      for (int t = 0; t < turns; t++)
        column[i][t] = Config::column(args, i, spc_column<Config>(args, place, min(place.n0 + sums::group_column() + thread + t * 128, place.n - 1)));
#pragma unroll
    for (int i = 0; i < Config::rows_read; i++)
#pragma unroll
      for (int h = 0; h < sums::blocks * 2; h++)
        row[i][h] = Config::row(args, i, spc_row_at<Config>(args, min(place.m0 + sums::group_row() + h / 2 * 64 + warp * 16 +
                                                                         h % 2 * 8 + lane / 4, place.m - 1), all));
  }
  SPC_DEVICE float *area(spc_u32 shared) {
    return (float *)(__cvta_shared_to_generic(shared)) + sums::group() * (group_bytes / 4);
  }
  // Before the warpgroup's barrier; `shared`: where the block's vectors lie.
  __device__ __forceinline__ void leave(spc_u32 shared) const {
    int thread = (int)threadIdx.x % 128;
#pragma unroll
    for (int i = 0; i < Config::columns_read; i++)
#pragma unroll
      for (int t = 0; t < turns; t++)
        if (thread + t * 128 < sums::columns) area(shared)[i * sums::columns + thread + t * 128] = column[i][t];
  }
  // Vector i's at two neighbours: columns `part`, part + 1 of the group's part.
  __device__ __forceinline__ float2 column_pair(spc_u32 shared, int i, int part) const {
    return *(const float2 *)(area(shared) + i * sums::columns + part);
  }
  __device__ __forceinline__ void give_rows(int half, spc_brought (&to)[2]) const {
#pragma unroll
    for (int i = 0; i < Config::rows_read; i++) to[0].row[i] = to[1].row[i] = row[i][half];
  }
  // What is brought to two neighbours; `half`: block * 2 + row / 8.
  __device__ __forceinline__ void give(spc_u32 shared, int part, int half, spc_brought (&to)[2]) const {
#pragma unroll
    for (int i = 0; i < Config::columns_read; i++) {
      float2 pair = column_pair(shared, i, part);
      to[0].column[i] = pair.x, to[1].column[i] = pair.y;
    }
    give_rows(half, to);
  }
};
