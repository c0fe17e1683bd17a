// group_place.cuh - rows in ragged groups: which group and rows tile number i is, found by the warp that asks.
#pragma once
#include "spc/epilogue.cuh"

// Rows of group number g; -1: those before the first group, `groups`: those behind the last.
template <class Config> SPC_DEVICE void spc_group_rows(const spc_args &args, int g, int &first, int &last) {
  int groups = (int)Config::groups(args), m = (int)Config::m(args);
  first = g < 0 ? 0 : min(max((int)min(Config::offset(args, g), (long long)m), 0), m);
  last = g >= groups ? m : min(max((int)min(Config::offset(args, g + 1), (long long)m), 0), m);
}

// Finds tile `number`; the number of its group is the place's batch.  False: there are not so many.  Whole warps call it.
template <class Config> SPC_DEVICE bool spc_place_in_groups(const spc_args &args, spc_u32 number, spc_tile_place &place) {
  int lane = (int)threadIdx.x & 31, groups = (int)Config::groups(args);
  place.n = (int)Config::n(args);
  spc_u32 before = 0, tiles_n = (spc_u32)(place.n + Config::tile_n - 1) / Config::tile_n;
#pragma unroll 1
  for (int g0 = -1; g0 <= groups; g0 += 32) {
    int first = 0, last = 0;
    if (g0 + lane <= groups) spc_group_rows<Config>(args, g0 + lane, first, last);
    spc_u32 tiles = last > first ? (spc_u32)(last - first + Config::tile_m - 1) / Config::tile_m : 0, sum = tiles;
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
      spc_u32 other = __shfl_up_sync(~0u, sum, d);
      if (lane >= d) sum += other;
    }
    spc_u32 reached = ptx_ballot(number < before + sum * tiles_n);
    if (reached) {
      int at = __ffs((int)reached) - 1;
      int tiles_m = (int)__shfl_sync(~0u, tiles, at);
      before += (__shfl_sync(~0u, sum, at) - (spc_u32)tiles_m) * tiles_n;
      place.m0 = __shfl_sync(~0u, first, at), place.m = __shfl_sync(~0u, last, at);
      place.batch = g0 + at;
      int tile = (int)(number - before), group = tile / (Config::raster * (int)tiles_n), top = group * Config::raster;
      int height = min(Config::raster, tiles_m - top), rest = tile - top * (int)tiles_n;
      place.m0 += (top + rest % height) * Config::tile_m;
      place.n0 = rest / height * Config::tile_n;
      return true;
    }
    before += __shfl_sync(~0u, sum, 31) * tiles_n;
  }
  return false;
}

template <class Config> SPC_DEVICE bool spc_is_in_a_group(const spc_args &args, const spc_tile_place &place) {
  return place.batch >= 0 && place.batch < Config::groups(args);
}

// The tile of rows that are in no group: zeros, whatever the fragment makes of them.
template <class Config> SPC_DEVICE void spc_store_no_group(const spc_tile_place &place, const spc_args &args) {
  using T = typename Config::T;
  const bool by_rows = Config::layout_t == 'r';
  int height = min(Config::tile_m, place.m - place.m0), width = min(Config::tile_n, place.n - place.n0);
  long long pitch = Config::pitch_t(args);
  T *to = Config::t(args, 0);
#pragma unroll 1
  for (int i = (int)threadIdx.x; i < height * width; i += Config::workers) {
    long long m = place.m0 + (by_rows ? i / width : i % height), n = place.n0 + (by_rows ? i % width : i / height);
    to[by_rows ? m * pitch + n : n * pitch + m] = spc_put_as<T>::from(0.0f);
  }
}

// The tiles of a block.  Those of rows that are in no group are stored on the way, by the threads that multiply.
template <class Config> struct spc_group_walk {
  spc_u32 next_tile;
  __device__ __forceinline__ spc_group_walk(const spc_args &, bool) : next_tile(blockIdx.x) {}
  __device__ __forceinline__ bool next(const spc_args &args, spc_tile_place &place) {
    while (spc_place_in_groups<Config>(args, next_tile, place)) {
      next_tile += gridDim.x;
      if (spc_is_in_a_group<Config>(args, place)) return true;
      if (threadIdx.x < Config::workers) spc_store_no_group<Config>(place, args);
    }
    return false;
  }
};
