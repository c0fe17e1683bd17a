// halves.cuh - tiles whose halves of 64 rows are a strip each, over a list that both share (pairs.cuh): which of its entries a half
// has a use for.  A tile that lies in one of the two strips reads its own entries alone (Config::own_strips).
//
//     list       | first alone | both | second alone |        cut into pieces: k tiles, or tiles of listed columns
//     first      [0 ............... end)
//     second                   [begin ............ end)       a warpgroup multiplies the pieces that its half has entries in
#pragma once
#include "spc/abi.h"
#include "spc/place.cuh"
#include "spc/ptx.cuh"
#include "spc/sdd.cuh"

// The pieces of a list that a half takes part in.
struct spc_half {
  int begin, end;
  __device__ __forceinline__ bool has(int piece) const { return piece >= begin && piece < end; }
  // Of the pieces of a share, counted from its first.
  __device__ __forceinline__ spc_half within(const spc_k_share &share) const {
    const int from = min(max(begin, share.begin), share.end) - share.begin;
    return {from, max(min(end, share.end) - share.begin, from)};
  }
};

// per: rows or columns in a piece.
template <class Config> SPC_DEVICE spc_half spc_half_of(const spc_args &args, int pair, int which, int per) {
  const int *counts = Config::counts(args), *own = counts + (int)Config::pairs(args) + 2 * pair;
  int count = __ldg(own + which) * Config::gran, all = __ldg(counts + pair) * Config::gran;
  if (count == 0) return {0, 0};
  return which ? spc_half{(all - count) / per, (all + per - 1) / per} : spc_half{0, (count + per - 1) / per};
}

// Where a strip's own entries begin in the list that it shares.
template <class Config> SPC_DEVICE int spc_own_begin(const spc_args &args, int strip) {
  if constexpr (!Config::own_strips) return 0;
  else return strip % 2 ? Config::counts(args)[strip / 2] - Config::counts(args)[(int)Config::pairs(args) + strip] : 0;
}
// How many entries a strip's list has.
template <class Config> SPC_DEVICE int spc_count_of(const spc_args &args, int strip) {
  if constexpr (Config::sdd) return spc_sdd_count<Config>(args, strip);
  else if constexpr (Config::own_strips) return Config::counts(args)[(int)Config::pairs(args) + strip];
  else return Config::counts(args)[strip];
}
