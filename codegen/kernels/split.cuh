// split.cuh - k split among the blocks of a cluster (sm_90a): for products whose tiles are too few for the machine.
//
// The blocks of a cluster compute one tile, each over its share of the k tiles.  Then each keeps a share of the tile's
// columns, of eight at least: the others' sums of them are sent to it, into the ring, which is free by then.  Of a tile
// narrower than that blocks are left which send, and store nothing.
//
//     block q   its k tiles | all have read their rings | send share r to block r, for all r | all has come | add, store
//
// A block's own sums come first and the others' in the order of the blocks: the same input gives the same bits.  No
// memory, no counters, no second launch.
#pragma once
#include "spc/barrier.cuh"
#include "spc/boxes.cuh"
#include "spc/cluster.cuh"
#include "spc/multiply_wgmma.cuh"
#include "spc/place.cuh"

// The part of a tile that one of the `keepers` of a cluster's blocks stores.
template <class Config> struct spc_share_of_tile : Config {
  static constexpr int tile_n = Config::tile_n / Config::keepers;
};
template <class Config, bool Split = (Config::split > 1)> struct spc_kept_tile { typedef Config type; };
template <class Config> struct spc_kept_tile<Config, true> { typedef spc_share_of_tile<Config> type; };
template <class Config> using spc_kept = typename spc_kept_tile<Config>::type;

// The k tiles of this block.
template <class Config> SPC_DEVICE spc_k_share spc_share_of_k(int steps) {
  if (Config::split == 1) return {0, steps};
  return spc_part_of_k(steps, ptx_cluster_rank(), Config::split);
}

// The sums of share r, to this thread's place `there` in block r.
template <class Config> SPC_DEVICE void spc_send_share(const spc_wgmma_sums<Config> &all, int r, spc_u32 there) {
  const int count = spc_wgmma_sums<Config>::count / Config::keepers;
#pragma unroll
  for (int b = 0; b < spc_wgmma_sums<Config>::blocks; b++)
#pragma unroll
    for (int i = 0; i < count; i += 4) {
      const float *from = all.sum[b] + r * count + i;
      ptx_cluster_store_16(there + (b * count + i) * Config::workers * 4, from[0], from[1], from[2], from[3]);
    }
}

// Adds up the cluster's sums; `mine`: those of the columns that this block keeps.  shared: room for the others'.  False:
// it keeps none.
template <class Config>
SPC_DEVICE bool spc_exchange_sums(const spc_wgmma_sums<Config> &all, spc_wgmma_sums<spc_kept<Config>> &mine, spc_u32 shared) {
  using sums = spc_wgmma_sums<Config>;
  const int split = Config::split, keepers = Config::keepers, count = sums::count / keepers, quads = count / 4, sender = sums::blocks * quads * Config::workers * 16;
  static_assert(Config::warps_n == 1 && sums::count % (4 * keepers) == 0, "a share must be whole columns of every part");
  static_assert(sizeof(spc_factor<Config>) == 2, "sums are f32");
  static_assert((split - 1) * sender <= Config::depth * spc_boxes<Config>::slot_bytes, "the ring has no room for the others' sums");
  int rank = ptx_cluster_rank();
  spc_u32 thread = shared + threadIdx.x * 16;
  ptx_cluster_sync(); // every ring has been read
#pragma unroll
  for (int me = 0; me < split; me++) // what is sent needs no register any more when the rest becomes `mine`
    if (me == rank) {
#pragma unroll
      for (int r = 0; r < keepers; r++)
        if (r != me) spc_send_share<Config>(all, r, ptx_cluster_address(thread + (me < r ? me : me - 1) * sender, r));
#pragma unroll
      for (int b = 0; b < sums::blocks && me < keepers; b++)
#pragma unroll
        for (int i = 0; i < count; i++) mine.sum[b][i] = all.sum[b][me * count + i];
    }
  ptx_cluster_sync(); // everything has come, and nobody writes here any more
  if (rank >= keepers) return false;
#pragma unroll
  for (int from = 0; from < split - 1; from++)
#pragma unroll
    for (int b = 0; b < sums::blocks; b++)
#pragma unroll
      for (int q = 0; q < quads; q++) {
        const float4 *at = (const float4 *)__cvta_shared_to_generic(thread + from * sender + (b * quads + q) * Config::workers * 16);
        float4 v = *at;
        mine.sum[b][q * 4] += v.x, mine.sum[b][q * 4 + 1] += v.y, mine.sum[b][q * 4 + 2] += v.z, mine.sum[b][q * 4 + 3] += v.w;
      }
  return true;
}
