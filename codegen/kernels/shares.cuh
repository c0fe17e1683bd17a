// shares.cuh - tiles of a list in the last turn, where they are fewer than blocks: several blocks share a tile, each a part of its k's.
//
// How many tiles a list makes is known on the device alone, so a block finds there how many parts a tile has: as many as give every block
// one.  A block leaves the sums of its part in memory, a float4 a thread side by side; who comes last to a tile adds them all up, in the
// order of the parts, whoever it is: the same lists and values give the same bits.  Nobody waits for another block.
// Config names: share_units (parts of tiles whose sums there is room for; 0: tiles are not shared), share_parts (of a tile, at most), share_steps (k
// tiles of a part, at least), sums_shared, arrived (a counter a part and warpgroup: who makes the list clears them, and who is the last at one).
#pragma once
#include "spc/gemm.cuh"
#include "spc/multiply_wgmma.cuh"

// The part of a tile that a block has.  unit: its number among the parts of all tiles of the last turn; those of a tile follow one another.
struct spc_tile_part {
  int number, parts;
  spc_u32 unit = blockIdx.x;
  __device__ __forceinline__ spc_k_share of(int steps) const { return spc_part_of_k(steps, number, parts); }
  // In a word that has room from bit 8 on.
  __device__ __forceinline__ int noted() const { return (int)((spc_u32)number << 8 | (spc_u32)parts << 16 | unit << 24); }
  SPC_DEVICE spc_tile_part read(int word) { return {word >> 8 & 255, max(word >> 16 & 255, 1), (spc_u32)word >> 24}; }
};
// This block's k tiles of the tile at hand: all of them where none are shared.
template <class Config, class Walk> SPC_DEVICE spc_k_share spc_share_at_hand(const Walk &walk, int steps) {
  if constexpr (Config::share_units > 0) return walk.mine.of(steps);
  else return {0, steps};
}

// Parts of every tile, of so many tiles of so many k tiles for so many blocks; by all threads alike.
template <class Config> SPC_DEVICE int spc_parts_of(spc_u32 tiles, int steps, spc_u32 blocks) {
  const spc_u32 units = min((spc_u32)Config::share_units, blocks);
  return max(1, min(tiles > 0 ? (int)(units / tiles) : 1, min(Config::share_parts, steps / Config::share_steps)));
}

// A part of a tile's sums is computed, of which so many columns are of use.  True for the one who goes on with the tile: its sums are all the
// parts' then.  said: a word of shared memory for each warpgroup.
template <class Config> SPC_DEVICE bool spc_meet_parts(spc_wgmma_sums<Config> &sums, const spc_args &args, int columns, const spc_tile_part &mine, int *said) {
  using all = spc_wgmma_sums<Config>;
  const int groups = Config::workers / 128, quads = all::count / 4, group = all::group(), thread = (int)threadIdx.x % 128;
  static_assert(all::blocks == 1 && all::count % 4 == 0 && sizeof(typename all::Sum) == 4, "a warpgroup shares 64 rows of f32 sums");
  const spc_u32 first = mine.unit - (spc_u32)mine.number;
  float4 *room = (float4 *)Config::sums_shared(args) + (spc_u64)(first * groups + group) * quads * 128 + thread;
  const spc_u64 apart = (spc_u64)groups * quads * 128; // from one part to the next
  const int some = quads % 8 == 0 ? 8 : 4, used = (columns - all::group_column() + 8 * some - 1) / (8 * some); // quads: four sums of eight columns; some at a time
  static_assert(quads % some == 0, "sums are gone through by fours of quads");
  static_assert(Config::share_units < 256, "a note has 8 bits for a block's number");
#pragma unroll
  for (int at = 0; at < quads; at += some)
    if (at / some < used)
#pragma unroll
      for (int i = at; i < at + some; i++)
        room[mine.number * apart + i * 128] = make_float4(sums.sum[0][4 * i], sums.sum[0][4 * i + 1], sums.sum[0][4 * i + 2], sums.sum[0][4 * i + 3]);
  __threadfence();
  ptx_sync_group(group);
  if (thread == 0) said[group] = (int)atomicAdd(Config::arrived(args) + first * groups + group, 1u);
  ptx_sync_group(group);
  if (said[group] + 1 < mine.parts) return false;
  if (thread == 0) Config::arrived(args)[first * groups + group] = 0; // for the next product over this list
  __threadfence();
  sums.clear();
#pragma unroll 1
  for (int p = 0; p < mine.parts; p++)
#pragma unroll
    for (int at = 0; at < quads; at += some)
      if (at / some < used)
#pragma unroll
        for (int i = at; i < at + some; i++) {
          const float4 v = __ldcg(room + p * apart + i * 128);
          sums.sum[0][4 * i] += v.x, sums.sum[0][4 * i + 1] += v.y, sums.sum[0][4 * i + 2] += v.z, sums.sum[0][4 * i + 3] += v.w;
        }
  return true;
}
