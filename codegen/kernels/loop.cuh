// loop.cuh - what generic kernels, printed from loop IR, stand on: the thread's share and combining stores.
#pragma once
#include "spc/guard.cuh"

SPC_DEVICE long long spc_first() { return (long long)blockIdx.x * blockDim.x + threadIdx.x; }
SPC_DEVICE long long spc_stride() { return (long long)gridDim.x * blockDim.x; }

// *at = combine(*at, value), indivisibly, for any element of 1, 2, 4 or 8 bytes: compare and swap on the word
// around it.  The order among threads is not fixed.
template <class T, class Combine> SPC_DEVICE void spc_atomic(T *at, Combine combine) {
  if constexpr (sizeof(T) == 8) {
    spc_u64 *word = (spc_u64 *)at, seen = *(volatile spc_u64 *)word, expected;
    do {
      expected = seen;
      union { spc_u64 bits; T value; } u;
      u.bits = expected;
      u.value = combine(u.value);
      seen = atomicCAS(word, expected, u.bits);
    } while (seen != expected);
  } else {
    spc_u32 *word = (spc_u32 *)((spc_u64)at & ~3ull), shift = (spc_u32)((spc_u64)at & 3) * 8;
    const spc_u32 mask = sizeof(T) == 4 ? 0xffffffffu : (1u << (8 * sizeof(T) % 32)) - 1;
    spc_u32 seen = *(volatile spc_u32 *)word, expected;
    do {
      expected = seen;
      union { spc_u32 bits; T value; } u;
      u.bits = expected >> shift & mask;
      u.value = combine(u.value);
      seen = atomicCAS(word, expected, (expected & ~(mask << shift)) | (u.bits & mask) << shift);
    } while (seen != expected);
  }
}
