// pairs.cuh - lists that two strips share, made of the bits of both.  An entry is of the first strip, of the second, or of both:
//
//     ids     i32 [pairs][capacity]     | first alone | both | second alone |     ascending in each of the three
//     counts  i32 [pairs]  of all three, then i32 [pairs][2]: of either strip
//
// So the first strip's entries are the first ones, and the second's the last.  Who does not tell the strips apart reads a list of
// one strip that is twice as high.
#pragma once
#include "spc/detect.cuh"

// What either has, by kinds of entries: one, or of two strips three.
template <class Config> constexpr int spc_listed_strips = Config::pairs ? 2 : 1;
template <class Config> constexpr int spc_listed_kinds = Config::pairs ? 3 : 1;
template <int Kinds> SPC_DEVICE spc_u32 spc_kind_of(spc_u32 first, spc_u32 second, int kind) {
  return Kinds == 1 ? first : kind == 0 ? first & ~second : kind == 1 ? first & second : second & ~first;
}
template <class Config> SPC_DEVICE int spc_lists_of(const spc_args &args) { return ((int)Config::strips(args) + spc_listed_strips<Config> - 1) / spc_listed_strips<Config>; }
// How many entries there are of each kind; of three: of the first strip alone, of both, of the second alone.
template <int Kinds> struct spc_listed_counts {
  int at[Kinds];
  __device__ __forceinline__ void add(spc_u32 first, spc_u32 second) {
    if constexpr (Kinds == 1) at[0] += __popc(first);
    else at[0] += __popc(first & ~second), at[1] += __popc(first & second), at[2] += __popc(second & ~first);
  }
  __device__ __forceinline__ int sum() const {
    int all = 0;
#pragma unroll
    for (int c = 0; c < Kinds; c++) all += at[c];
    return all;
  }
  // Of list number s of so many.
  __device__ __forceinline__ void note(int *counts, int s, int lists) const {
    counts[s] = sum();
    if constexpr (Kinds > 1) counts[lists + 2 * s] = at[0] + at[1], counts[lists + 2 * s + 1] = at[1] + at[2];
  }
};
using spc_pair_sums = spc_listed_counts<3>;

// The sums over a block, for all of its threads.
template <class Config> SPC_DEVICE void spc_block_pair_sums(spc_pair_sums &before, spc_pair_sums &all) {
  __shared__ int sums[Config::threads / 32][6];
#pragma unroll
  for (int c = 0; c < 3; c++) {
    before.at[c] = (int)__reduce_add_sync(~0u, (spc_u32)before.at[c]);
    all.at[c] = (int)__reduce_add_sync(~0u, (spc_u32)all.at[c]);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32][c] = before.at[c], sums[threadIdx.x / 32][3 + c] = all.at[c];
  }
  __syncthreads();
  before = {}, all = {};
#pragma unroll
  for (int w = 0; w < Config::threads / 32; w++)
#pragma unroll
    for (int c = 0; c < 3; c++) before.at[c] += sums[w][c], all.at[c] += sums[w][3 + c];
}

// bits -> counts and ids; a block takes 32 words of a pair of strips, and counts all of them.
template <class Config> SPC_DEVICE void spc_lists_of_pairs(const spc_args &args) {
  if (spc_not_meant<Config>(args)) return;
  spc_clear_counters<Config>(args);
  const int warps = Config::threads / 32, lane = (int)threadIdx.x & 31;
  spc_u32 strips = (spc_u32)Config::strips(args), pairs = (strips + 1) / 2, words = (spc_u32)((Config::capacity(args) + 31) / 32);
  spc_u32 parts = words ? (words + 31) / 32 : 1, pair = blockIdx.x / parts, part = blockIdx.x % parts;
  const spc_u32 *first = Config::bits(args) + (spc_u64)pair * 2 * words;
  const bool one = pair < pairs, two = pair * 2 + 1 < strips; // strips that there are
  auto second = [&](spc_u32 w) { return two ? first[words + w] : 0; };
  spc_u32 at = part * 32 + lane, a = one && at < words ? first[at] : 0, b = one && at < words ? second(at) : 0;
  spc_pair_sums before = {}, all = {};
#pragma unroll 2
  for (spc_u32 w = threadIdx.x; one && w < words; w += Config::threads) {
    spc_u32 x = first[w], y = second(w);
    all.add(x, y);
    if (w < part * 32) before.add(x, y);
  }
  if (spc_bits_say_dense<Config>(args, strips * words)) return;
  spc_block_pair_sums<Config>(before, all);
  if (!one) return;
  int *ids = Config::ids(args) + (long long)pair * Config::capacity(args), begin = 0;
#pragma unroll
  for (int c = 0; c < 3; c++) {
    const spc_u32 mine = spc_kind_of<3>(a, b, c);
    int sum = spc_scan_warp(__popc(mine)) - __popc(mine) + begin + before.at[c];
#pragma unroll
    for (int w = (int)threadIdx.x / 32; w < 32; w += warps) {
      spc_u32 word = __shfl_sync(0xffffffffu, mine, w);
      int to = __shfl_sync(0xffffffffu, sum, w) + __popc(word & ptx_lanes_below());
      if (word >> lane & 1) ids[to] = (int)(part * 32 + w) * 32 + lane;
    }
    begin += all.at[c];
  }
  if (part > 0 || threadIdx.x > 0) return;
  int *counts = Config::counts(args);
  counts[pair] = begin;
  counts[pairs + 2 * pair] = all.at[0] + all.at[1], counts[pairs + 2 * pair + 1] = all.at[1] + all.at[2];
}
