// shares.cuh - tiles in the last turn, where they are fewer than blocks: several blocks share a tile, each a part of its k's.
//
// How many tiles a list of columns makes is known on the device alone, so a block finds there how many parts a tile has: as many as give every block
// one.  A block leaves the sums of its part in memory, a float4 a thread side by side.  Who comes last to a tile shares it with those that are
// still there, each some of its boxes: they add up the sums of all parts, in the order of the parts, whoever it is: the same lists and values give the
// same bits.  Who has come earlier waits a little for that; nobody waits until another block comes.
// Config names: share_units (parts of tiles whose sums there is room for; 0: tiles are not shared), share_parts (of a tile, at most), share_steps (k
// tiles of a part, at least), share_saves (k tiles that a block of listed k's is spared, at least), sums_shared, arrived (a counter a part and warpgroup: who makes the list clears them, and who is the last at one).
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

// Where parts of a tile leave their sums: float4's of four columns' sums, a thread's side by side; some of them, a box of 64 columns, at a time.
template <class Config> struct spc_room_of_parts {
  using all = spc_wgmma_sums<Config>;
  static constexpr int groups = Config::workers / 128, quads = all::count / 4, some = quads % 8 == 0 ? 8 : 4;
  static constexpr bool splits = some == 8; // boxes may have several sharers
  static constexpr int patience = 128; // times that who has come asks for the others: 80 us on an H200
  static constexpr spc_u64 apart = (spc_u64)groups * quads * 128; // from one part to the next
  static_assert(all::blocks == 1 && all::count % 4 == 0 && sizeof(typename all::Sum) == 4, "a warpgroup shares 64 rows of f32 sums");
  static_assert(quads % some == 0, "sums are gone through by fours of quads");
  static_assert(Config::share_units < 256 && Config::share_parts <= 8, "a note has 8 bits for a block's number, a counter as many for who waits");
  SPC_DEVICE int used(int columns) { return min(max((columns - all::group_column() + 8 * some - 1) / (8 * some), 0), quads / some); } // of as many columns as the list has from the tile on
  SPC_DEVICE float4 *at(const spc_args &args, const spc_tile_part &mine) {
    return (float4 *)Config::sums_shared(args) + (spc_u64)((mine.unit - (spc_u32)mine.number) * groups + all::group()) * quads * 128 + threadIdx.x % 128;
  }
};

// Who goes on with a tile, of those that have its parts: which of them this block is; of: 0, it does not.
struct spc_sharer {
  int rank, of;
  // Bits of `all` boxes that are this one's, of which `used` have sums; the others hold zeros, and are the last one's.
  __device__ __forceinline__ spc_u32 boxes(int used, int all) const {
    const int begin = rank * used / of, end = rank + 1 == of ? all : (rank + 1) * used / of;
    return ((1u << end) - 1) & ~((1u << begin) - 1);
  }
  // The same of a warp's sixteen rows of each box, where warps go on for themselves: a box may have several sharers then.
  __device__ __forceinline__ spc_u32 boxes_of_warp(int used) const {
    const int warp = (int)threadIdx.x / 32 % 4, begin = rank * used * 4 / of, end = (rank + 1) * used * 4 / of;
    spc_u32 mine = 0;
    for (int b = 0; b < used; b++) mine |= (b * 4 + warp >= begin && b * 4 + warp < end ? 1u : 0u) << b;
    return mine;
  }
};

// A part of a tile's sums is computed, of which so many columns are of use: it is left in memory, and whoever has arrived waits a little for the others.
// Those who are there when the last one comes share what is left to do; nobody waits for long, and the last one never does: a counter a warpgroup,
//
//     bits 0-7 how many have come     8-15 who waits, or is the last     16-23 how many of these have seen that
//
// said: a word of shared memory for each warpgroup.
template <class Config> SPC_DEVICE spc_sharer spc_meet_parts(const spc_wgmma_sums<Config> &sums, const spc_args &args, int columns, const spc_tile_part &mine, int *said) {
  using all = spc_wgmma_sums<Config>;
  using room = spc_room_of_parts<Config>;
  const int group = all::group(), thread = (int)threadIdx.x % 128, used = room::used(columns);
  float4 *to = room::at(args, mine);
#pragma unroll
  for (int at = 0; at < room::quads; at += room::some)
    if (at / room::some < used)
#pragma unroll
      for (int i = at; i < at + room::some; i++)
        to[mine.number * room::apart + i * 128] = make_float4(sums.sum[0][4 * i], sums.sum[0][4 * i + 1], sums.sum[0][4 * i + 2], sums.sum[0][4 * i + 3]);
  __threadfence();
  ptx_sync_group(group);
  if (thread == 0) {
    const bool waits = room::splits && (used > 1 || Config::in_place); // there is something to share
    const spc_u32 bit = 256u << mine.number, parts = (spc_u32)mine.parts;
    spc_u32 *word = Config::arrived(args) + (mine.unit - (spc_u32)mine.number) * room::groups + group;
    spc_u32 seen = atomicAdd(word, waits ? 1 + bit : 1) + 1 + bit;
    if (!waits && (seen & 255) < parts) seen = 0;
    for (int asked = 0; waits && (seen & 255) < parts && asked < room::patience; asked++) seen = *(volatile spc_u32 *)word;
    while (seen && (seen & 255) < parts) { // it goes
      const spc_u32 there = atomicCAS(word, seen, seen & ~bit);
      seen = there == seen ? 0 : there;
    }
    const int of = __popc(seen >> 8 & 255);
    if (seen && (int)(atomicAdd(word, 1u << 16) >> 16 & 255) + 1 == of) *(volatile spc_u32 *)word = 0; // for the next product over this list
    said[group] = __popc(seen & (bit - 1) & ~255u) | of << 8;
    __threadfence();
  }
  ptx_sync_group(group);
  return {said[group] & 255, said[group] >> 8};
}
// The sums of all parts, of this block's boxes (bits).
template <class Config> SPC_DEVICE void spc_add_parts(spc_wgmma_sums<Config> &sums, const spc_args &args, int columns, const spc_tile_part &mine, spc_u32 boxes) {
  using room = spc_room_of_parts<Config>;
  const int used = room::used(columns);
  const float4 *from = room::at(args, mine);
  sums.clear();
#pragma unroll 1
  for (int p = 0; p < mine.parts; p++)
#pragma unroll
    for (int at = 0; at < room::quads; at += room::some)
      if (at / room::some < used && boxes >> (room::splits ? at / room::some : 0) & 1)
#pragma unroll
        for (int i = at; i < at + room::some; i++) {
          const float4 v = __ldcg(from + p * room::apart + i * 128);
          sums.sum[0][4 * i] += v.x, sums.sum[0][4 * i + 1] += v.y, sums.sum[0][4 * i + 2] += v.z, sums.sum[0][4 * i + 3] += v.w;
        }
}
