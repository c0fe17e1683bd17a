// scatter.cuh - T[p[r], n] = the combination, in ascending order of r, of e(r, n) over the r's that p sends there.
//
// A block makes tile_m rows and tile_n columns of T: it looks through all of p for the r's that belong to its rows, keeps
// those of 1024 r's at a time in a list in shared memory, ascending, and adds their values up, a thread a column.  So nothing is
// sorted, nobody waits for another block, the order is fixed, and every element of T is written once.  Each block reads p,
// 4 or 8 bytes a row, from the L2 cache; the values are read once.
// What p sends out of range is left out.
#pragma once
#include "spc/dtypes.cuh"
#include "spc/guard.cuh"
#include "spc/prelude.cuh"

template <class Config> struct spc_scatter_room {
  static constexpr int at_once = 4, chunk = at_once * Config::threads, warps = Config::threads / 32;
  float sum[Config::tile_m][Config::tile_n];
  int found[chunk]; // r - first of the chunk, and which row of the tile
  int count[at_once * warps];
};

// The r's of a chunk that belong here, in ascending order; their number.
template <class Config>
SPC_DEVICE int spc_find_rows(spc_scatter_room<Config> &room, const spc_args &args, int first, int last, int row0) {
  using shared = spc_scatter_room<Config>;
  int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x / 32, row[shared::at_once];
  spc_u32 here[shared::at_once];
#pragma unroll
  for (int j = 0; j < shared::at_once; j++) {
    int r = first + j * Config::threads + (int)threadIdx.x;
    row[j] = r < last ? Config::target(args, r) - row0 : -1;
    here[j] = ptx_ballot(row[j] >= 0 && row[j] < Config::tile_m);
    if (lane == 0) room.count[j * shared::warps + warp] = __popc(here[j]);
  }
  __syncthreads();
  int at[shared::at_once], all = 0;
#pragma unroll
  for (int w = 0; w < shared::at_once * shared::warps; w++) {
    if (w % shared::warps == warp) at[w / shared::warps] = all;
    all += room.count[w];
  }
#pragma unroll
  for (int j = 0; j < shared::at_once; j++)
    if (here[j] >> lane & 1)
      room.found[at[j] + __popc(here[j] & ((1u << lane) - 1))] =
          (j * Config::threads + (int)threadIdx.x) * Config::tile_m + row[j];
  __syncthreads();
  return all;
}

template <class Config>
SPC_DEVICE void spc_add_rows(spc_scatter_room<Config> &room, const spc_args &args, int first, int count, int column0) {
  const int ahead = 4;
#pragma unroll 1
  for (int c = (int)threadIdx.x; c < Config::tile_n; c += Config::threads) {
    if (column0 + c >= Config::n(args)) break;
#pragma unroll 1
    for (int i = 0; i < count; i += ahead) {
      float value[ahead];
#pragma unroll
      for (int a = 0; a < ahead; a++) // asked for together: the sums below wait for one another
        if (i + a < count) value[a] = Config::value(args, first + room.found[i + a] / Config::tile_m, column0 + c);
#pragma unroll
      for (int a = 0; a < ahead; a++)
        if (i + a < count) {
          float &sum = room.sum[room.found[i + a] % Config::tile_m][c];
          sum = Config::combine(sum, value[a]);
        }
    }
  }
}

template <class Config> SPC_DEVICE void spc_scatter(const spc_args &args) {
  __shared__ spc_scatter_room<Config> room;
  if (Config::guarded && spc_not_meant(Config::verdict(args), Config::dense_branch)) return;
  int tiles_n = (int)((Config::n(args) + Config::tile_n - 1) / Config::tile_n);
  int row0 = (int)blockIdx.x / tiles_n * Config::tile_m, column0 = (int)blockIdx.x % tiles_n * Config::tile_n;
  float *sum = &room.sum[0][0];
  for (int i = (int)threadIdx.x; i < Config::tile_m * Config::tile_n; i += Config::threads) sum[i] = Config::identity();
  long long all = Config::m(args);
  int first = (int)min(max(Config::first(args), 0ll), all), last = (int)min(max(Config::last(args), 0ll), all);
#pragma unroll 1
  for (; first < last; first += spc_scatter_room<Config>::chunk) {
    int count = spc_find_rows<Config>(room, args, first, last, row0);
    spc_add_rows<Config>(room, args, first, count, column0);
  }
  for (int i = (int)threadIdx.x; i < Config::tile_m * Config::tile_n; i += Config::threads) {
    long long row = row0 + i / Config::tile_n, column = column0 + i % Config::tile_n;
    // a thread's columns are its own: the sums are those that it made
    if (row < Config::rows(args) && column < Config::n(args))
      Config::t(args)[row * Config::pitch_row(args) + column * Config::pitch_column(args)] =
          spc_put_as<typename Config::T>::from(sum[i]);
  }
}
