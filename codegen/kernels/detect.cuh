// detect.cuh - where the non-zeros are: values to bits, bits to lists, the guard's verdict.
//
// For each strip of `strip` values of one index and each micro-tile of `gran` values of the axis:
//     bits    u32 [strips][words]       bit i % 32 of word i / 32: micro-tile i holds a non-zero
//     counts  i32 [strips]              how many do
//     ids     i32 [strips][capacity]    which, ascending: a scan gives the order, so results are deterministic
// Config names: value(args, strip_value, axis_value) -> is it a non-zero; strip_extent, axis_extent, capacity.
#pragma once
#include "spc/guard.cuh"

// A word of bits for strip s: one warp, one lane a micro-tile.
template <class Config> SPC_DEVICE spc_u32 spc_detect_word(const spc_args &args, long long s, long long word) {
  long long tile = word * 32 + ((int)threadIdx.x & 31);
  long long last = min((s + 1) * Config::strip, Config::strip_extent(args));
  bool any = false;
  for (int c = 0; c < Config::gran; c++) {
    long long at = tile * Config::gran + c;
    if (at >= Config::axis_extent(args)) break;
#pragma unroll 8
    for (long long r = s * Config::strip; r < last; r++) any |= Config::is_set(args, r, at);
  }
  return ptx_ballot(any);
}

// The same where the strip's index is contiguous in memory: lanes along the strip, one micro-tile at a time.
template <class Config>
SPC_DEVICE spc_u32 spc_detect_word_along_strip(const spc_args &args, long long s, long long word) {
  int lane = (int)threadIdx.x & 31;
  long long last = min((s + 1) * Config::strip, Config::strip_extent(args));
  spc_u32 bits = 0;
#pragma unroll 4
  for (int b = 0; b < 32; b++) {
    bool any = false;
    for (int c = 0; c < Config::gran; c++) {
      long long at = (word * 32 + b) * Config::gran + c;
      if (at < Config::axis_extent(args))
        for (long long r = s * Config::strip + lane; r < last; r += 32) any |= Config::is_set(args, r, at);
    }
    bits |= (ptx_ballot(any) != 0 ? 1u : 0u) << b;
  }
  return bits;
}

template <class Config> SPC_DEVICE spc_u32 spc_find_word(const spc_args &args, long long s, long long word) {
  if constexpr (Config::strip_is_contiguous) return spc_detect_word_along_strip<Config>(args, s, word);
  else return spc_detect_word<Config>(args, s, word);
}

// values -> bits; one warp a word.
template <class Config> SPC_DEVICE void spc_detect_bits(const spc_args &args) {
  if (Config::guarded && spc_not_meant(Config::verdict(args), Config::dense_branch)) return;
  // 32 bits are enough for a number of words, and their division is no call.
  spc_u32 words = (spc_u32)((Config::capacity(args) + 31) / 32);
  spc_u32 warp = blockIdx.x * (spc_u32)(Config::threads / 32) + threadIdx.x / 32;
  if (warp >= (spc_u32)Config::strips(args) * words) return;
  spc_u32 bits = spc_find_word<Config>(args, warp / words, warp % words);
  if ((threadIdx.x & 31) == 0) Config::bits(args)[warp] = bits;
}

// Appends the set bits of one word a thread to the list, in order; returns how many the block found.
template <class Config> SPC_DEVICE int spc_append(int *ids, int count, int first, spc_u32 bits, int *warp_sums) {
  const int warps = Config::threads / 32;
  int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x / 32, mine = __popc(bits), sum = mine;
#pragma unroll
  for (int d = 1; d < 32; d *= 2) {
    int below = __shfl_up_sync(0xffffffffu, sum, d);
    if (lane >= d) sum += below;
  }
  if (lane == 31) warp_sums[warp] = sum;
  __syncthreads();
  int before = count, all = 0;
#pragma unroll
  for (int w = 0; w < warps; w++) {
    if (w < warp) before += warp_sums[w];
    all += warp_sums[w];
  }
  __syncthreads();
  for (int at = before + sum - mine; bits; bits &= bits - 1) ids[at++] = first + __ffs((int)bits) - 1;
  return all;
}

// bits -> counts and ids; one block a strip, one word a thread and round.
template <class Config> SPC_DEVICE void spc_lists_from_bits(const spc_args &args) {
  __shared__ int warp_sums[Config::threads / 32];
  if (Config::guarded && spc_not_meant(Config::verdict(args), Config::dense_branch)) return;
  long long s = blockIdx.x;
  int words = (int)((Config::capacity(args) + 31) / 32), count = 0;
  int *ids = Config::ids(args) + s * Config::capacity(args);
  for (int w0 = 0; w0 < words; w0 += Config::threads) {
    int w = w0 + (int)threadIdx.x;
    spc_u32 bits = w < words ? Config::bits(args)[s * words + w] : 0;
    count += spc_append<Config>(ids, count, w * 32, bits, warp_sums);
  }
  if (threadIdx.x == 0) Config::counts(args)[s] = count;
}

// values -> counts and ids without bits in memory; one block a strip.
template <class Config> SPC_DEVICE void spc_detect_lists(const spc_args &args) {
  __shared__ int warp_sums[Config::threads / 32];
  __shared__ spc_u32 found[Config::threads];
  if (Config::guarded && spc_not_meant(Config::verdict(args), Config::dense_branch)) return;
  long long s = blockIdx.x;
  int words = (int)((Config::capacity(args) + 31) / 32), count = 0;
  int *ids = Config::ids(args) + s * Config::capacity(args);
  for (int w0 = 0; w0 < words; w0 += Config::threads) {
    for (int w = (int)threadIdx.x / 32; w < Config::threads; w += Config::threads / 32) {
      spc_u32 bits = w0 + w < words ? spc_find_word<Config>(args, s, w0 + w) : 0;
      if ((threadIdx.x & 31) == 0) found[w] = bits;
    }
    __syncthreads();
    count += spc_append<Config>(ids, count, (w0 + (int)threadIdx.x) * 32, found[threadIdx.x], warp_sums);
  }
  if (threadIdx.x == 0) Config::counts(args)[s] = count;
}

// The guard: covered share of all micro-tiles against the break-even; one block.
template <class Config> SPC_DEVICE void spc_guard(const spc_args &args) {
  __shared__ unsigned long long total;
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  unsigned long long mine = 0;
  for (long long s = threadIdx.x; s < Config::strips(args); s += Config::threads)
    mine += (unsigned long long)Config::counts(args)[s];
  atomicAdd(&total, mine);
  __syncthreads();
  if (threadIdx.x) return;
  double all = (double)Config::strips(args) * (double)Config::capacity(args);
  double cover = all > 0 ? (double)total / all : 0;
  *Config::verdict(args) = cover >= Config::threshold(args) ? 1 : 0;
}
