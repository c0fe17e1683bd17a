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
#include "spc/group_place.cuh"
#include "spc/specialised.cuh"

// All threads load and multiply.
template <class Config, class Sums> SPC_DEVICE void spc_gemm_groups(const spc_args &args) {
  using operands = spc_operands<Config, Sums::plain>;
  static_assert(Config::loaders == Config::threads && Config::workers == Config::threads,
                "every thread of this pipeline loads and multiplies");
  static_assert(Config::shared_bytes >= Config::depth * operands::slot_bytes &&
                    Config::shared_bytes >= spc_staged_tile<Config>::bytes,
                "shared_bytes is less than the pipeline or the staged tile needs");
  extern __shared__ __align__(1024) char spc_shared[];
  if (spc_not_meant<Config>(args)) return;
  spc_group_walk<Config> walk(args, false);
  spc_tile_place place;
#pragma unroll 1
  while (walk.next(args, place)) {
    Sums sums;
    if (!Sums::asynchronous) sums.clear();
    spc_with_loaders<Config, Sums::plain>(place, (int)threadIdx.x, args, [&](auto &load_a, auto &load_b, int tiles) {
      spc_multiply_tiles<Config>(sums, load_a, load_b, tiles, spc_shared);
    });
    spc_stage_sums<Config>(spc_shared, sums);
    __syncthreads();
    spc_store_tile<Config>(spc_shared, place, args);
    __syncthreads(); // the staged tile becomes the ring again
  }
}

// What a warp stages at a time, behind the ring: 64 columns of its 16 rows of the tile, f32.  Chunks of 16 bytes lie so that
// neither the fragments of the multiply nor lanes that take a pair of chunks each meet in a bank: in long rows the first
// of all pairs before the second, turned by the row.
template <class Config> struct spc_warp_stage {
  static constexpr bool by_rows = Config::layout_t == 'r';
  static constexpr int m = 16, n = 64, bytes = m * n * 4;
  static constexpr int rows = by_rows ? m : n, columns = by_rows ? n : m; // as stored
  SPC_DEVICE float *at(char *warp, int row, int column) {
    int chunk = column / 4, place = by_rows ? (chunk / 2 ^ row % 8) + chunk % 2 * 8 : chunk ^ row / 2 % 4;
    return (float *)(warp + row * columns * 4 + place * 16) + column % 4;
  }
  // Count sums side by side, which a chunk of the result is made of.
  template <int Count> SPC_DEVICE void load(char *warp, int row, int column, float (&sum)[Count]) {
#pragma unroll
    for (int e = 0; e < Count; e += 4) {
      const float *from = at(warp, row, column + e);
      if constexpr (Count % 4 == 0) {
        float4 four = *(const float4 *)from;
        sum[e] = four.x, sum[e + 1] = four.y, sum[e + 2] = four.z, sum[e + 3] = four.w;
      } else {
#pragma unroll
        for (int i = 0; i < Count; i++) sum[i] = from[i];
      }
    }
  }
};

// Stage number `part` of this warp's sums.
template <class Config, class Sums> SPC_DEVICE void spc_stage_part(char *warp, const Sums &sums, int part) {
  using stage = spc_warp_stage<Config>;
  int row = (int)threadIdx.x % 32 / 4, column = (int)threadIdx.x % 4 * 2;
#pragma unroll
  for (int q = 0; q < Sums::columns / stage::n; q++)
    if (q == part)
#pragma unroll
      for (int i = 0; i < stage::n / 2; i += 2) {
        int m = row + i % 4 / 2 * 8, n = column + i / 4 * 8;
        const auto *sum = &sums.sum[0][q * (stage::n / 2) + i];
        if (stage::by_rows) {
          *(float2 *)stage::at(warp, m, n) = make_float2(sum[0], sum[1]);
        } else {
          *stage::at(warp, n, m) = sum[0];
          *stage::at(warp, n + 1, m) = sum[1];
        }
      }
}

// From there to memory, through the fragment: rows and columns from (row0, column0) on, as stored.  Of several chunks
// what the fragment reads is asked for before the first is stored.
template <class Config>
SPC_DEVICE void spc_store_part(char *warp, int row0, int column0, const spc_tile_place &place, const spc_args &args) {
  using stage = spc_warp_stage<Config>;
  using T = typename Config::T;
  using chunk = spc_chunk<T>;
  constexpr int chunks = stage::columns / chunk::count, each = stage::rows * chunks / 32, together = each < 2 ? each : 2;
  static_assert(stage::columns % chunk::count == 0 && each % together == 0, "a warp's lanes share its chunks evenly");
  int rows = stage::by_rows ? place.m : place.n, columns = stage::by_rows ? place.n : place.m;
  long long pitch = Config::pitch_t(args);
  T *to = Config::t(args, place.batch) + row0 * pitch + column0;
  bool aligned = (((spc_u64)to | (spc_u64)pitch * sizeof(T)) & 15) == 0;
#pragma unroll 1
  for (int begin = 0; begin < each; begin += together) {
    chunk values[together];
#pragma unroll
    for (int i = 0; i < together; i++) {
      int number = (begin + i) * 32 + (int)threadIdx.x % 32, row = number / chunks, column = number % chunks * chunk::count;
      float sum[chunk::count];
      stage::load(warp, row, column, sum);
#pragma unroll
      for (int e = 0; e < chunk::count; e++) {
        int m = stage::by_rows ? row0 + row : column0 + column + e, n = stage::by_rows ? column0 + column + e : row0 + row;
        values[i].element[e] = spc_put_as<T>::from(Config::epilogue(args, sum[e], min(m, place.m - 1),
                                                                    min(n, place.n - 1), place.batch));
      }
    }
#pragma unroll
    for (int i = 0; i < together; i++) {
      int number = (begin + i) * 32 + (int)threadIdx.x % 32, row = number / chunks, column = number % chunks * chunk::count;
      if (row0 + row >= rows) continue;
      if (aligned && column0 + column + chunk::count <= columns) {
        *(uint4 *)(to + row * pitch + column) = *(const uint4 *)values[i].element;
      } else {
#pragma unroll
        for (int e = 0; e < chunk::count; e++)
          if (column0 + column + e < columns) to[row * pitch + column + e] = values[i].element[e];
      }
    }
  }
}

template <class Config, class Sums>
SPC_DEVICE void spc_store_by_warps(char *staged, const Sums &sums, const spc_tile_place &place, const spc_args &args) {
  using stage = spc_warp_stage<Config>;
  static_assert(Sums::blocks == 1 && Sums::columns % stage::n == 0, "a warp has 16 rows, and columns by 64");
  char *warp = staged + (int)threadIdx.x / 32 * stage::bytes;
  int m = place.m0 + Sums::group_row() + (int)threadIdx.x / 32 % 4 * stage::m, n = place.n0 + Sums::group_column();
#pragma unroll 1
  for (int part = 0; part < Sums::columns / stage::n && m < place.m; part++, n += stage::n) {
    if (n >= place.n) break;
    spc_stage_part<Config>(warp, sums, part);
    __syncwarp();
    spc_store_part<Config>(warp, stage::by_rows ? m : n, stage::by_rows ? n : m, place, args);
    __syncwarp();
  }
}

template <class Config> SPC_DEVICE void spc_load_groups(char *shared, const spc_args &args) {
  spc_ring<Config> at = {0, 1};
  spc_group_walk<Config> walk(args, false);
  spc_tile_place place;
#pragma unroll 1
  while (walk.next(args, place)) spc_load_tiles<Config>(place, shared, args, at);
  spc_end_loads();
}

template <class Config, class Sums> SPC_DEVICE void spc_work_groups(char *shared, const spc_args &args) {
  using ring = spc_ring<Config>;
  ring at = {0, 0};
  spc_group_walk<Config> walk(args, false);
  spc_tile_place place;
#pragma unroll 1
  while (walk.next(args, place)) {
    Sums sums;
    int tiles = spc_multiply_tiles<Config>(sums, place, shared, args, at);
    if (tiles > 0 && threadIdx.x % 128 == 0) ptx_barrier_arrive(ring::empty(shared, (at.slot + Config::depth - 1) % Config::depth));
    spc_store_by_warps<Config>(shared + ring::bytes, sums, place, args);
  }
}

// One warpgroup loads, the others multiply; loads run on into the next tile while one is stored.
template <class Config, class Sums> SPC_DEVICE void spc_gemm_groups_specialised(const spc_args &args) {
  static_assert(Config::loaders == 128 && Config::workers == Config::threads - 128,
                "one warpgroup loads, the others multiply");
  static_assert(Config::shared_bytes >= spc_ring<Config>::bytes + Config::workers / 32 * spc_warp_stage<Config>::bytes,
                "shared_bytes is less than the ring and what is staged need");
  extern __shared__ __align__(1024) char spc_shared[];
  if (spc_not_meant<Config>(args)) return;
  spc_init_ring<Config>(spc_shared);
  if (threadIdx.x >= Config::workers) {
    ptx_give_registers<72>();
    spc_load_groups<Config>(spc_shared, args);
  } else {
    ptx_take_registers<216>();
    spc_work_groups<Config, Sums>(spc_shared, args);
  }
}
