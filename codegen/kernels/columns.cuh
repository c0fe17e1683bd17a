// columns.cuh - sums along columns: many threads share the k's of a few columns, in one launch.
//
//     Wide threads side by side     a run of consecutive columns each, which it loads as words
//     Shares of such rows           share s has the k's s, s + Shares, ...; a block has `groups` of them, a cluster the rest
//
// What they sum is combined along a binary tree over the number of the share, its lowest bit first: by shuffles, then through the
// block's shared memory, then through the cluster's.  So the bits depend on Shares alone, not on how shares are dealt to blocks.
//
// Long rows of entries are shared the same way: a warp is 32 columns side by side, and a share of the entries (passes/gpu_columns.c).
#pragma once
#include "spc/cluster.cuh"
#include "spc/team.cuh"

template <int Wide, int Shares> struct spc_columns {
  static constexpr int most = 512, threads = Wide * Shares < most ? Wide * Shares : most, blocks = Wide * Shares / threads; // of a cluster
  static constexpr int groups = threads / Wide, side = Wide < 32 ? 32 : Wide, parts = threads / side; // parts: what is left of groups after shuffles
  static_assert(threads % side == 0 && blocks <= 8, "threads that share columns are whole warps, of up to 8 blocks");

  SPC_DEVICE int rank() { return blocks > 1 ? (int)blockIdx.x % blocks : 0; }
  SPC_DEVICE long long first() { return (long long)(blockIdx.x / blocks) * Wide; }
  SPC_DEVICE long long step() { return (long long)(gridDim.x / blocks) * Wide; }
  SPC_DEVICE int lane() { return (int)threadIdx.x % Wide; }
  SPC_DEVICE long long share() { return rank() * groups + (int)threadIdx.x / Wide; }
  // Whether this thread stores what its run of columns comes to.
  SPC_DEVICE bool stores(bool inside) { return inside && rank() == 0 && (int)threadIdx.x < Wide; }

  template <class T> SPC_DEVICE T load(spc_u32 at, int block) {
    static_assert(sizeof(T) % 4 == 0, "sums are whole words");
    union { T value; float word[sizeof(T) / 4]; } u;
    spc_u32 there = ptx_cluster_address(at, block);
#pragma unroll
    for (int i = 0; i < (int)sizeof(T) / 4; i++) u.word[i] = ptx_cluster_load(there + 4 * i);
    return u.value;
  }
  template <int Count, class T, class Combine> SPC_DEVICE T tree(T (&v)[Count], Combine combine) {
#pragma unroll
    for (int apart = 1; apart < Count; apart *= 2)
#pragma unroll
      for (int i = 0; i + apart < Count; i += 2 * apart) v[i] = combine(v[i], v[i + apart]);
    return v[0];
  }
  // Threads of the first block get what all shares come to.  By all threads of a cluster.
  template <int Run, class T, class Combine> SPC_DEVICE void meet(T (&sum)[Run], Combine combine) {
    __shared__ T all[parts][Wide * Run];
    const int thread = (int)threadIdx.x, lane_in_part = thread % side;
#pragma unroll
    for (int apart = Wide; apart < 32; apart *= 2)
#pragma unroll
      for (int i = 0; i < Run; i++) sum[i] = combine(sum[i], __shfl_xor_sync(0xffffffffu, sum[i], apart));
    if (lane_in_part < Wide)
#pragma unroll
      for (int i = 0; i < Run; i++) all[thread / side][lane_in_part * Run + i] = sum[i];
    __syncthreads();
    for (int at = thread; at < Wide * Run; at += threads) {
      T v[parts];
#pragma unroll
      for (int p = 0; p < parts; p++) v[p] = all[p][at];
      all[0][at] = tree(v, combine);
    }
    if constexpr (blocks > 1) {
      ptx_cluster_sync();
      for (int at = thread; at < Wide * Run && rank() == 0; at += threads) {
        T v[blocks];
#pragma unroll
        for (int b = 0; b < blocks; b++) v[b] = load<T>((spc_u32)__cvta_generic_to_shared(&all[0][at]), b);
        all[0][at] = tree(v, combine);
      }
      ptx_cluster_sync(); // nobody's memory is read any more
    } else {
      __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < Run; i++) sum[i] = all[0][lane() * Run + i];
    __syncthreads();
  }
  // The same of variables.
  template <class Combine, class T, class... More> SPC_DEVICE void meet_all(Combine combine, T &first, More &...more) {
    T sum[] = {first, more...};
    meet(sum, combine);
    int i = 0;
    first = sum[i++];
    ((more = sum[i++]), ...);
  }
  // Whether it is true of any share: mostly of none, which one barrier tells.  All threads get it.
  template <class... More> SPC_DEVICE void meet_any(bool &any, More &...more) {
    static_assert(blocks == 1, "what all threads of a cluster decide by has to reach all of its blocks");
    if (__syncthreads_or(any)) meet_all([](bool x, bool y) { return x || y; }, any);
    (meet_any(more), ...);
  }
};
