// gemm_bsr.cuh - the matrix product whose A is stored in blocks, on mma.sync (sm_80 and later): operands of any alignment.
//
// As gemm.cuh: one block computes a tile of 64 rows, through a ring of k tiles; of A those that are stored, of B those at their k's.
// Every warp finds them for itself (bsr.cuh), in step.
#pragma once
#include "spc/bsr.cuh"
#include "spc/gemm.cuh"
#include "spc/multiply_mma.cuh"

// The stored k tiles of a strip of 64 rows, one after the other.
template <class Config> struct spc_bsr_steps {
  spc_bsr_walk<Config, 1> walk;
  spc_u32 left; // of the stretch
  int k, at;    // of the one that `next` has found

  __device__ __forceinline__ spc_bsr_steps(const spc_args &args, int m0) : walk(args, m0), left(0), k(0), at(-1) {}
  __device__ __forceinline__ bool next(const spc_args &args) {
    while (!left) {
      if (!walk.more) return false;
      walk.next(args);
      left = ptx_ballot(walk.at[0] >= 0);
    }
    int lane = __ffs((int)left) - 1;
    left &= left - 1;
    k = (walk.first + lane) * spc_run, at = __shfl_sync(0xffffffffu, walk.at[0], lane);
    return true;
  }
};

template <class Config> struct spc_bsr_loader_a {
  using loader = typename spc_operands<Config>::loader_a;
  using panel = typename loader::panel;
  const spc_args &args;
  spc_bsr_steps<Config> &steps;
  int m0;
  __device__ __forceinline__ void load(char *shared) {
    steps.next(args);
    spc_matrix<typename Config::A> block = {Config::a(args, 0) + (long long)spc_bsr_y<Config>(m0, steps.k, steps.at) * Config::pitch_a(args) +
                                                spc_bsr_x<Config>(m0, steps.k),
                                            Config::pitch_a(args)};
    loader(block, spc_run, spc_run, 0, (int)threadIdx.x).load(shared);
  }
};
// Behind A's: at the k that it has found.
template <class Config> struct spc_bsr_loader_b {
  using loader = typename spc_operands<Config>::loader_b;
  using panel = typename loader::panel;
  const spc_args &args;
  const spc_bsr_steps<Config> &steps;
  spc_tile_place place;
  __device__ __forceinline__ void load(char *shared) {
    spc_matrix<typename Config::B> b = {Config::b(args, 0) + steps.k * (Config::layout_b == 'r' ? Config::pitch_b(args) : 1), Config::pitch_b(args)};
    loader(b, (int)Config::k(args) - steps.k, place.n, place.n0, (int)threadIdx.x).load(shared);
  }
};

template <class Config> SPC_DEVICE void spc_gemm_bsr(const spc_args &args) {
  using operands = spc_operands<Config>;
  using sums_type = spc_mma_sums<Config>;
  static_assert(Config::tile_m == spc_run && Config::tile_k == spc_run, "a tile's A is a box");
  static_assert(Config::shared_bytes >= Config::depth * operands::slot_bytes && Config::shared_bytes >= spc_staged_tile<Config>::bytes,
                "shared_bytes is less than the pipeline or the staged tile needs");
  extern __shared__ __align__(1024) char spc_shared[];
  if (spc_not_meant<Config>(args)) return;
  spc_tile_place place = spc_place_tile<Config>(args, blockIdx.x);
  int tiles = 0;
  for (spc_bsr_steps<Config> counted(args, place.m0); counted.next(args);) tiles++;
  spc_bsr_steps<Config> steps(args, place.m0);
  spc_bsr_loader_a<Config> load_a = {args, steps, place.m0};
  spc_bsr_loader_b<Config> load_b = {args, steps, place};
  sums_type sums;
  sums.clear();
  spc_pipeline<Config>(sums, load_a, load_b, tiles, spc_shared);
  spc_stage_sums<Config>(spc_shared, sums);
  __syncthreads();
  spc_store_tile<Config>(spc_shared, place, args);
}
