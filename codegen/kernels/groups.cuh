// groups.cuh - products whose rows come in ragged groups, each with a B of its own:
//
//     T[r, n] = e(sum[k] A[r, k] * B[g, k, n])      r in offsets[g] .. offsets[g + 1]
//
// Blocks are persistent.  A tile lies in one group: its rows are at most the group's, so that no row is multiplied by
// another group's matrix and a group of few rows costs one tile.  Which group a tile's number falls into every warp finds
// by adding up the tiles of 32 groups at a time; no table is made and nothing is launched before.  Rows in no group, before
// the first or behind the last, are tiles of zeros.  Offsets are not trusted: they are taken into 0 .. m.
// Row r of A may be the one that a vector names for it (Config::row): out of range is zero.
#pragma once
#include "spc/specialised.cuh"

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

// All threads load and multiply.
template <class Config, class Sums> SPC_DEVICE void spc_gemm_groups(const spc_args &args) {
  using operands = spc_operands<Config>;
  static_assert(Config::loaders == Config::threads && Config::workers == Config::threads,
                "every thread of this pipeline loads and multiplies");
  static_assert(Config::shared_bytes >= Config::depth * operands::slot_bytes &&
                    Config::shared_bytes >= spc_staged_tile<Config>::bytes,
                "shared_bytes is less than the pipeline or the staged tile needs");
  extern __shared__ __align__(1024) char spc_shared[];
  if (Config::guarded && spc_not_meant(Config::verdict(args), Config::dense_branch)) return;
  spc_tile_place place;
#pragma unroll 1
  for (spc_u32 number = blockIdx.x; spc_place_in_groups<Config>(args, number, place); number += gridDim.x) {
    if (!spc_is_in_a_group<Config>(args, place)) {
      spc_store_no_group<Config>(place, args);
      continue;
    }
    Sums sums;
    if (!Sums::asynchronous) sums.clear();
    spc_with_loaders<Config>(place, (int)threadIdx.x, args, [&](auto &load_a, auto &load_b, int tiles) {
      spc_pipeline<Config>(sums, load_a, load_b, tiles, spc_shared);
    });
    spc_stage_sums<Config>(spc_shared, sums);
    __syncthreads();
    spc_store_tile<Config>(spc_shared, place, args);
    __syncthreads(); // the staged tile becomes the ring again
  }
}

template <class Config> SPC_DEVICE void spc_end_ring(char *shared) {
  using ring = spc_ring<Config>;
  if (threadIdx.x) return;
  for (int s = 0; s < Config::depth; s++) {
    ptx_barrier_end(ring::full(shared, s));
    ptx_barrier_end(ring::empty(shared, s));
  }
}

template <class Config> SPC_DEVICE void spc_load_groups(char *shared, const spc_args &args) {
  spc_tile_place place;
#pragma unroll 1
  for (spc_u32 number = blockIdx.x; spc_place_in_groups<Config>(args, number, place); number += gridDim.x) {
    if (!spc_is_in_a_group<Config>(args, place)) continue;
    spc_begin_ring<Config>(shared);
    ptx_sync_roles<Config::threads>();
    spc_load_role<Config>(place, shared, args);
    ptx_sync_roles<Config::threads>();
  }
}

template <class Config, class Sums> SPC_DEVICE void spc_work_groups(char *shared, const spc_args &args) {
  spc_tile_place place;
#pragma unroll 1
  for (spc_u32 number = blockIdx.x; spc_place_in_groups<Config>(args, number, place); number += gridDim.x) {
    if (!spc_is_in_a_group<Config>(args, place)) {
      spc_store_no_group<Config>(place, args);
      continue;
    }
    spc_begin_ring<Config>(shared);
    ptx_sync_roles<Config::threads>();
    Sums sums;
    spc_work_role<Config>(sums, place, shared, args);
    ptx_sync_workers<Config::workers>();
    spc_stage_sums<Config>(shared, sums);
    ptx_sync_workers<Config::workers>();
    spc_store_tile<Config>(shared, place, args);
    ptx_sync_roles<Config::threads>();
    spc_end_ring<Config>(shared);
  }
}

// One warpgroup loads, the others multiply; all meet where the ring becomes the staged tile's memory and back.
template <class Config, class Sums> SPC_DEVICE void spc_gemm_groups_specialised(const spc_args &args) {
  using ring = spc_ring<Config>;
  static_assert(Config::loaders == 128 && Config::workers == Config::threads - 128,
                "one warpgroup loads, the others multiply");
  static_assert(Config::shared_bytes >= ring::bytes && Config::shared_bytes >= spc_staged_tile<Config>::bytes,
                "shared_bytes is less than the ring or the staged tile needs");
  extern __shared__ __align__(1024) char spc_shared[];
  if (Config::guarded && spc_not_meant(Config::verdict(args), Config::dense_branch)) return;
  if (threadIdx.x >= Config::workers) {
    ptx_give_registers<72>();
    spc_load_groups<Config>(spc_shared, args);
  } else {
    ptx_take_registers<216>();
    spc_work_groups<Config, Sums>(spc_shared, args);
  }
}
