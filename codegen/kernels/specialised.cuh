// specialised.cuh - the pipeline of gemm.cuh with roles: the last warpgroup loads, the others multiply.
//
//     loaders     wait empty[s]   copy tile i into slot s, arrive at full[s] when it has landed
//     workers     wait full[s]    issue the multiply of tile i, retire i - 1, arrive at empty[its slot]
//
// Loads run ahead as far as the ring allows and no thread waits for both sides.  Loaders give registers to
// the workers, whose sums need them.  The barriers lie behind the ring.
#pragma once
#include "spc/barrier.cuh"
#include "spc/gemm.cuh"

template <class Config> struct spc_ring {
  static constexpr int slot_bytes = spc_operands<Config>::slot_bytes;
  static constexpr int bytes = Config::depth * (slot_bytes + 16);
  int slot, phase; // of the next tile

  SPC_DEVICE spc_u32 full(char *shared, int s) {
    return spc_shared_address(shared + Config::depth * slot_bytes) + s * 8;
  }
  SPC_DEVICE spc_u32 empty(char *shared, int s) { return full(shared, Config::depth + s); }
  __device__ __forceinline__ void advance() {
    if (++slot == Config::depth) slot = 0, phase ^= 1;
  }
};

template <class Config> SPC_DEVICE void spc_init_ring(char *shared) {
  using ring = spc_ring<Config>;
  if (threadIdx.x == 0) {
    for (int s = 0; s < Config::depth; s++) {
      ptx_barrier_init(ring::full(shared, s), Config::loaders);
      ptx_barrier_init(ring::empty(shared, s), Config::workers / 128);
    }
    ptx_fence_barrier_init();
  }
  __syncthreads();
}

// The k tiles of one tile of the result, into the slots from `at` on.
template <class Config>
SPC_DEVICE void spc_load_tiles(const spc_tile_place &place, char *shared, const spc_args &args, spc_ring<Config> &at) {
  using ring = spc_ring<Config>;
  spc_with_loaders<Config>(place, (int)threadIdx.x - Config::workers, args, [&](auto &a, auto &b, int tiles) {
    bool copies = a.aligned && b.aligned;
#pragma unroll 1
    for (int i = 0; i < tiles; i++, at.advance()) {
      ptx_barrier_wait(ring::empty(shared, at.slot), at.phase);
      a.load(shared + at.slot * ring::slot_bytes);
      b.load(shared + at.slot * ring::slot_bytes + spc_operands<Config>::loader_a::panel::bytes);
      if (copies) {
        ptx_barrier_arrive_after_copies(ring::full(shared, at.slot));
      } else { // plain stores are among them: they must have landed, and be visible to the tensor cores
        ptx_copy_async_commit();
        ptx_copy_async_wait<0>();
        ptx_fence_async_shared();
        ptx_barrier_arrive(ring::full(shared, at.slot));
      }
    }
  });
}
// No thread may leave while its copies are under way.
SPC_DEVICE void spc_end_loads() {
  ptx_copy_async_commit();
  ptx_copy_async_wait<0>();
}

// Multiplies them; the slot of the last one is the caller's to give back.  Returns how many there were.
template <class Config, class Sums>
SPC_DEVICE int spc_multiply_tiles(Sums &sums, const spc_tile_place &place, char *shared, const spc_args &args, spc_ring<Config> &at) {
  using ring = spc_ring<Config>;
  using operands = spc_operands<Config>;
  using panel_a = typename operands::loader_a::panel;
  using panel_b = typename operands::loader_b::panel;
  int tiles = spc_k_tiles<Config>(place, args), before = 0;
#pragma unroll 1
  for (int i = 0; i < tiles; i++) {
    const char *slot = shared + at.slot * ring::slot_bytes;
    ptx_barrier_wait(ring::full(shared, at.slot), at.phase);
    sums.publish();
    sums.template issue<panel_a, panel_b>(slot, slot + panel_a::bytes, i == 0);
    sums.template retire<1>();
    if (i > 0 && threadIdx.x % 128 == 0) ptx_barrier_arrive(ring::empty(shared, before));
    before = at.slot;
    at.advance();
  }
  sums.template retire<0>();
  if (tiles == 0) sums.clear();
  return tiles;
}

template <class Config, class Sums> SPC_DEVICE void spc_gemm_specialised(const spc_args &args) {
  static_assert(!Config::samples, "columns of a list are computed by gemm_mma and gemm_tma");
  static_assert(Config::loaders == 128 && Config::workers == Config::threads - 128,
                "one warpgroup loads, the others multiply");
  static_assert(Config::shared_bytes >= spc_ring<Config>::bytes &&
                    Config::shared_bytes >= spc_staged_tile<Config>::bytes,
                "shared_bytes is less than the ring or the staged tile needs");
  extern __shared__ __align__(1024) char spc_shared[];
  if (spc_not_meant<Config>(args)) return;
  spc_tile_place place = spc_place_tile<Config>(args, blockIdx.x);
  spc_init_ring<Config>(spc_shared);
  if (threadIdx.x >= Config::workers) {
    ptx_give_registers<72>();
    spc_ring<Config> at = {0, 1};
    spc_load_tiles<Config>(place, spc_shared, args, at);
    spc_end_loads();
  } else {
    ptx_take_registers<216>();
    Sums sums;
    spc_ring<Config> at = {0, 0};
    spc_multiply_tiles<Config>(sums, place, spc_shared, args, at);
    ptx_sync_workers<Config::workers>(); // every slot is read: the ring becomes the staged tile
    spc_stage_sums<Config>(spc_shared, sums);
    ptx_sync_workers<Config::workers>();
    spc_store_tile<Config>(spc_shared, place, args);
    if constexpr (Config::detects) {
      ptx_sync_workers<Config::workers>();
      spc_detect_tile<Config>(spc_shared, place, args);
    }
  }
}
