// bsr.cuh - an operand that is stored in blocks: which k tiles of a strip of its rows there are, and where they lie.
//
// A's blocks of block_m x block_k elements follow one another in memory, each whole.  Its outer level is dense, along m
// (Config::blocks_by_k false: W[o,k] as bsr) or along k (W[k,o] as bsr); `pos` says where an outer block's stored blocks begin, `crd`
// which ones they are, ascending.  A strip is `Parts` runs of 64 m, and each of them has blocks of its own.
//
//     a warp looks at a stretch of up to 32 k tiles of 64 at once, a lane a k tile:    at[r] = the block of run r, or -1
//
// Nothing is listed before, and nothing kept: the coordinates are read where they stand, a stretch ahead of their use.
#pragma once
#include "spc/abi.h"
#include "spc/dtypes.cuh"

enum { spc_run = 64 }; // rows and k's of a box

template <class Config, int Parts, bool ByK = Config::blocks_by_k> struct spc_bsr_walk;

// Outer blocks along m: of each run's block row the next 32 stored blocks are at hand.
template <class Config, int Parts> struct spc_bsr_walk<Config, Parts, false> {
  static constexpr int per = Config::block_k / spc_run, blocks = 32 / per; // k tiles of a block; blocks in a stretch
  static_assert(Config::block_m % spc_run == 0 && Config::block_k % spc_run == 0 && per <= 32, "a block is whole boxes, a stretch whole blocks");
  static constexpr int none = 0x7fffffff;
  int begin[Parts], end[Parts]; // what is left of the block rows
  int window[Parts];            // block column number `lane` of that
  int at[Parts], first;         // of this lane's k tile; k tile of lane 0
  bool more;                    // stretches behind this one

  __device__ __forceinline__ void look(const spc_args &args, int r) {
    int i = begin[r] + ((int)threadIdx.x & 31);
    window[r] = i < end[r] ? __ldg(Config::crd(args) + i) : none;
  }
  __device__ __forceinline__ spc_bsr_walk(const spc_args &args, int m0) : first(0), more(true) {
#pragma unroll
    for (int r = 0; r < Parts; r++) {
      int row = m0 + r * spc_run;
      bool inside = row < (int)Config::m(args);
      const int *pos = Config::pos(args) + (inside ? row / Config::block_m : 0);
      begin[r] = inside ? __ldg(pos) : 0, end[r] = inside ? __ldg(pos + 1) : 0;
    }
#pragma unroll
    for (int r = 0; r < Parts; r++) look(args, r);
  }
  // The next stretch begins with the next block that any run has; there may be none.
  __device__ __forceinline__ void next(const spc_args &args) {
    const int lane = (int)threadIdx.x & 31, block = lane / per;
    int front = none;
#pragma unroll
    for (int r = 0; r < Parts; r++) front = min(front, __shfl_sync(0xffffffffu, window[r], 0));
    first = front == none ? 0 : front * per, more = false;
    bool inside = block < blocks && (first + lane) * spc_run < (int)Config::k(args);
#pragma unroll
    for (int r = 0; r < Parts; r++) {
      spc_u32 far = (spc_u32)(window[r] - front);
      spc_u32 stored = __reduce_or_sync(0xffffffffu, window[r] != none && far < blocks ? 1u << far : 0u);
      at[r] = inside && (stored >> block & 1) ? begin[r] + __popc(stored & ((1u << block) - 1)) : -1;
      begin[r] += __popc(stored);
      more |= begin[r] < end[r];
      look(args, r);
    }
  }
};

// Outer blocks along k: a lane looks the strip's blocks up in the block row of its k tile.
template <class Config, int Parts> struct spc_bsr_walk<Config, Parts, true> {
  static_assert(Config::block_m % spc_run == 0 && Config::block_k % spc_run == 0, "a block is whole boxes");
  int row, ahead, ahead_at[Parts]; // the strip's first row; k tile of lane 0 of the next stretch, and its blocks
  int at[Parts], first;
  bool more;

  __device__ __forceinline__ spc_bsr_walk(const spc_args &args, int m0) : row(m0), ahead(-32), first(0) { more = seek(args); }
  __device__ __forceinline__ void find(const spc_args &args, int tile) {
    int lo = 0, end = 0, wanted = row / Config::block_m;
    if (tile * spc_run < (int)Config::k(args)) {
      const int *pos = Config::pos(args) + tile * spc_run / Config::block_k;
      lo = __ldg(pos), end = __ldg(pos + 1);
    }
    for (int high = end; lo < high;) {
      int middle = lo + (high - lo) / 2;
      if (__ldg(Config::crd(args) + middle) < wanted) lo = middle + 1;
      else high = middle;
    }
#pragma unroll
    for (int r = 0; r < Parts; r++) {
      int m = row + r * spc_run, block = m / Config::block_m;
      if (lo < end && __ldg(Config::crd(args) + lo) < block) lo++; // runs that follow one another: the next at most
      ahead_at[r] = m < (int)Config::m(args) && lo < end && __ldg(Config::crd(args) + lo) == block ? lo : -1;
    }
  }
  // The next stretch that holds anything.
  __device__ __forceinline__ bool seek(const spc_args &args) {
    for (ahead += 32; ahead * spc_run < (int)Config::k(args); ahead += 32) {
      find(args, ahead + ((int)threadIdx.x & 31));
      bool any = false;
#pragma unroll
      for (int r = 0; r < Parts; r++) any |= ahead_at[r] >= 0;
      if (__any_sync(0xffffffffu, any)) return true;
    }
    return false;
  }
  __device__ __forceinline__ void next(const spc_args &args) {
    first = ahead;
#pragma unroll
    for (int r = 0; r < Parts; r++) at[r] = more ? ahead_at[r] : -1;
    if (more) more = seek(args);
  }
};

// Where a box lies in the matrix of all blocks, whose rows are the contiguous side of a block: of rows from m on, at k.
template <class Config> SPC_DEVICE int spc_bsr_x(int m, int k) {
  return Config::layout_a == 'r' ? k % Config::block_k : m % Config::block_m;
}
template <class Config> SPC_DEVICE int spc_bsr_y(int m, int k, int at) {
  return Config::layout_a == 'r' ? at * Config::block_m + m % Config::block_m : at * Config::block_k + k % Config::block_k;
}
