// ring.cuh - the slots between those who load and those who multiply, in persistent kernels: how long they are, their barriers, what else lies in
// shared memory.
//
//     slots of k tiles | staged boxes of the result | words of detection | vectors, listed columns | full[], empty[] | notes | what blocks tell each other
//
// Who loads waits for empty[s], and fills; who multiplies waits for full[s].  cuda_boxes.c reckons the same bytes.
#pragma once
#include "spc/boxes.cuh"
#include "spc/split.cuh"
#include "spc/store_tma.cuh"
#include "spc/turned.cuh"
#include "spc/vectors.cuh"

// Whether it is known on the device alone how many slots there are and how long they are: B lies first in each then, and A's rows, as many as
// there are, behind it (gemm_live.cuh).
template <class Config> constexpr bool spc_sizes_slots = false;
template <class Config, int Kind = (spc_sizes_slots<Config> ? 1 : Config::narrow > 0 ? 2 : 0)> struct spc_slot_sizes {
  static constexpr int most = Config::depth;
  SPC_DEVICE int slots() { return Config::depth; }
  SPC_DEVICE int bytes() { return spc_boxes<Config>::slot_bytes; }
};
template <class Config> struct spc_slot_sizes<Config, 1> {
  static constexpr int most = Config::most_slots;
  int count, each;
  __device__ __forceinline__ int slots() const { return count; }
  __device__ __forceinline__ int bytes() const { return each; }
};
template <class Config> struct spc_slot_sizes<Config, 2> { // where all tiles are narrow there are more slots
  using boxes = spc_boxes<Config>;
  static constexpr int most = Config::depth * boxes::slot_bytes / boxes::least_bytes;
  bool narrow;
  __device__ __forceinline__ int slots() const { return narrow ? most : Config::depth; }
  __device__ __forceinline__ int bytes() const { return narrow ? boxes::least_bytes : boxes::slot_bytes; }
};

// Who loads by a list of blocks leaves a note of each tile, so that who multiplies need not reckon which one comes next.
template <class Config> constexpr bool spc_notes_places = Config::narrow > 0;

template <class Config> struct spc_box_ring {
  using panel_a = typename spc_boxes<Config>::a;
  using panel_b = typename spc_boxes<Config>::b;
  static constexpr int slot_bytes = spc_boxes<Config>::slot_bytes;
  // Shared memory: slots, staged boxes of the result, words of detection, vectors, barriers.
  static constexpr int staged_at = Config::depth * slot_bytes;
  static constexpr int words_at = staged_at + spc_box_store<spc_kept<Config>>::staged_bytes;
  static constexpr int vectors_at = words_at + spc_box_detect<spc_kept<Config>>::bytes;
  static constexpr int barriers_at = vectors_at + spc_vectors<spc_kept<Config>>::bytes + spc_place_window<spc_kept<Config>>::bytes;
  // Where a list names columns: the place of the tile that begins in a slot; where A is stored in blocks, the stretch of k tiles that does.
  static constexpr int most = spc_slot_sizes<Config>::most;
  static constexpr int note_words = spc_notes_places<Config> ? 2 : 1; // of 16 bytes: the second one, where the tile's runs of columns lie
  static constexpr int notes_at = barriers_at + most * (spc_prepares<Config>::any ? 24 : 16);
  static constexpr int places_at = notes_at + (Config::samples || Config::bsr || spc_notes_places<Config> ? most * note_words * 16 : 0);
  static constexpr int place_barriers = Config::workers / 128 * spc_box_store<spc_kept<Config>>::held; // where what lies there is filled in again
  static constexpr int decision_at = places_at + (spc_refills_place<Config> ? place_barriers * 8 : spc_stages_place<Config> ? 16 : 0);
  static constexpr int said_at = decision_at + (Config::own_lists || Config::own_verdict ? Config::in_place ? 128 : 64 : 0);
  static constexpr int plan_at = said_at + (Config::share_units > 0 ? 16 : 0); // which tiles there are, where some are narrow
  static constexpr int bytes = plan_at + (Config::narrow > 0 ? 16 : 0);

  // Who gives a slot back: one thread of a warpgroup, whose multiplies have ended; of a warp, where warps read A themselves; each, where
  // each read the slot's note (as a warp does).
  static constexpr int giving = Config::samples ? 1 : Config::bsr || Config::widens || spc_wgmma_sums<Config>::from_registers ? 32 : 128;
  static constexpr int givers = (Config::turns ? 128 : Config::workers) / giving;
  SPC_DEVICE bool gives() { return threadIdx.x % giving == 0; }

  // Threads copy into slots, unless dense is meant: who multiplies must make that visible to the tensor cores.
  static constexpr bool by_rows = Config::gathers || Config::samples || (Config::regroups && !Config::live) || Config::grouped;

  int slot, phase; // of the next k tile
  spc_slot_sizes<Config> sizes;

  SPC_DEVICE spc_u32 full(spc_u32 shared, int s) { return shared + barriers_at + s * 8; }
  SPC_DEVICE spc_u32 empty(spc_u32 shared, int s) { return full(shared, most + s); }
  SPC_DEVICE int4 *note(char *base, int s) { return (int4 *)(base + notes_at) + s * note_words; }
  SPC_DEVICE spc_u32 place_full(spc_u32 shared) { return shared + places_at; }
  SPC_DEVICE spc_u32 place_empty(spc_u32 shared) { return place_full(shared) + 8; }
  // Where the loading warpgroup changes what has come: the boxes alone.
  SPC_DEVICE spc_u32 raw(spc_u32 shared, int s) { return full(shared, 2 * Config::depth + s); }
  __device__ __forceinline__ void advance() {
    if (++slot == sizes.slots()) slot = 0, phase ^= 1;
  }
  // Past what is another warpgroup's.
  __device__ __forceinline__ void pass(int slots) {
    slot += slots, phase ^= slot / Config::depth & 1, slot %= Config::depth;
  }
};
