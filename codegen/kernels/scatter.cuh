// scatter.cuh - T[p[r], n] = the combination, in ascending order of r, of e(r, n) over the r's that p sends there.
//
// A block makes tile_m rows and tile_n columns of T: it looks through all of p for the r's that belong to its rows, keeps
// those of a chunk in a list in shared memory, ascending, and adds their values up in registers, a thread a few columns of
// all rows.  So nothing is sorted, nobody waits for another block, the order is fixed, and every element of T is written
// once.  Each block reads p, 4 or 8 bytes a row, from the L2 cache; the values are read once.
// What p sends out of range is left out.
#pragma once
#include "spc/dtypes.cuh"
#include "spc/guard.cuh"
#include "spc/prelude.cuh"

template <class Config> struct spc_scatter_room {
  static constexpr int at_once = 16, warps = Config::threads / 32, chunk = at_once * Config::threads;
  int found[chunk]; // (r - first of the chunk) * tile_m + which row of the tile
  int count[2][warps];
};

// The r's of a chunk that belong here, in ascending order, and their number.  A warp looks at consecutive r's.
template <class Config>
SPC_DEVICE int spc_find_rows(spc_scatter_room<Config> &room, const spc_args &args, int first, int last, int row0, int turn) {
  using shared = spc_scatter_room<Config>;
  int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x / 32, row[shared::at_once], mine = 0;
  int begin = warp * 32 * shared::at_once + lane;
#pragma unroll
  for (int j = 0; j < shared::at_once; j++) {
    int r = first + begin + j * 32;
    row[j] = r < last ? Config::target(args, r) - row0 : -1;
  }
#pragma unroll
  for (int j = 0; j < shared::at_once; j++) mine += __popc(ptx_ballot(row[j] >= 0 && row[j] < Config::tile_m));
  if (lane == 0) room.count[turn][warp] = mine;
  __syncthreads();
  int at = 0, all = 0;
#pragma unroll
  for (int w = 0; w < shared::warps; w++) {
    if (w == warp) at = all;
    all += room.count[turn][w];
  }
  if (all == 0) return 0;
#pragma unroll
  for (int j = 0; j < shared::at_once; j++) {
    bool here = row[j] >= 0 && row[j] < Config::tile_m;
    spc_u32 those = ptx_ballot(here);
    if (here) room.found[at + __popc(those & ((1u << lane) - 1))] = (begin + j * 32) * Config::tile_m + row[j];
    at += __popc(those);
  }
  __syncthreads();
  return all;
}

template <class Config> struct spc_scatter_sums {
  static constexpr int wide = Config::tile_n / Config::threads; // columns of a thread, Config::threads apart
  float sum[Config::tile_m][wide];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int m = 0; m < Config::tile_m; m++)
#pragma unroll
      for (int c = 0; c < wide; c++) sum[m][c] = Config::identity();
  }
  __device__ __forceinline__ void get(float (&value)[wide], const spc_args &args, int r, long long column, long long n) {
#pragma unroll
    for (int c = 0; c < wide; c++)
      value[c] = column + c * Config::threads < n ? Config::value(args, r, column + c * Config::threads) : 0;
  }
  __device__ __forceinline__ void add(const float (&value)[wide], int row) {
#pragma unroll
    for (int m = 0; m < Config::tile_m; m++)
      if (m == row)
#pragma unroll
        for (int c = 0; c < wide; c++) sum[m][c] = Config::combine(sum[m][c], value[c]);
  }
};

template <class Config> SPC_DEVICE void spc_scatter(const spc_args &args) {
  static_assert(Config::tile_n % Config::threads == 0, "a thread has whole columns");
  __shared__ spc_scatter_room<Config> room;
  if (spc_not_meant<Config>(args)) return;
  long long all = Config::m(args), n = Config::n(args);
  int tiles_n = (int)((n + Config::tile_n - 1) / Config::tile_n), turn = 0;
  int row0 = (int)blockIdx.x / tiles_n * Config::tile_m;
  long long column = (int)blockIdx.x % tiles_n * Config::tile_n + (int)threadIdx.x;
  int first = (int)min(max(Config::first(args), 0ll), all), last = (int)min(max(Config::last(args), 0ll), all);
  spc_scatter_sums<Config> sums;
  sums.clear();
#pragma unroll 1
  for (; first < last; first += spc_scatter_room<Config>::chunk, turn ^= 1) {
    int count = spc_find_rows<Config>(room, args, first, last, row0, turn);
#pragma unroll 1
    for (int i = 0; i < count; i += 2) { // two are asked for together: the sums wait for one another
      float one[sums.wide], two[sums.wide];
      int a = room.found[i], b = room.found[min(i + 1, count - 1)];
      sums.get(one, args, first + a / Config::tile_m, column, n);
      sums.get(two, args, first + b / Config::tile_m, column, n);
      sums.add(one, a % Config::tile_m);
      sums.add(two, i + 1 < count ? b % Config::tile_m : -1);
    }
  }
#pragma unroll
  for (int m = 0; m < Config::tile_m; m++)
#pragma unroll
    for (int c = 0; c < sums.wide; c++)
      if (row0 + m < Config::rows(args) && column + c * Config::threads < n)
        Config::t(args)[(row0 + m) * Config::pitch_row(args) + (column + c * Config::threads) * Config::pitch_column(args)] =
            spc_put_as<typename Config::T>::from(sums.sum[m][c]);
}
