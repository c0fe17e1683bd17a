// fill.cuh - what no listed column of a whole result touches is filled while the listed ones are computed, by the warps that load: some rows a k
// tile, so that stores come between copies and nobody waits for either.
//
// A listed column is two bytes of a row, and memory is written in sectors of 32.  So the columns of a strip are taken by sixteen: where none is listed
// they are filled here, the others are written by the launch behind (spread.cuh), and both ask spc_is_filled; or by the epilogue (inplace.cuh), which
// leaves none without a listed column to anybody else.
// Config names: fills, in_place, whole_t, pitch_whole, n, m, strip, bits, bit_words, fill.
#pragma once
#include "spc/dtypes.cuh"
#include "spc/ptx.cuh"

constexpr int spc_filled_columns = 16;

// Rows that start at multiples of 16 bytes; of others the launch behind writes everything.
SPC_DEVICE bool spc_fills_rows(const void *t, long long pitch) { return (((spc_u64)t | (spc_u64)pitch * 2) & 15) == 0; }
// The sixteen that a column is of, by the word of bits that it is of.
SPC_DEVICE bool spc_none_listed(spc_u32 word, int column) { return (word >> (column & -spc_filled_columns) % 32 & 0xffff) == 0; }
SPC_DEVICE bool spc_is_filled(spc_u32 word, int column, int n) { return (column & -spc_filled_columns) + spc_filled_columns <= n && spc_none_listed(word, column); }

template <class Config, bool Fills = Config::fills> struct spc_filler {
  __device__ __forceinline__ explicit spc_filler(const spc_args &) {}
  __device__ __forceinline__ void some(const spc_args &) {}
  __device__ __forceinline__ void rest(const spc_args &) {}
};

// A block's loading warpgroup: every so many stretches of a strip's rows by 1024 columns, eight of a thread.  It keeps little, for its registers are the
// rows' that are gathered, and all of its branches are the whole block's: where threads of a warp might part, their copies would take longer.
template <class Config> struct spc_filler<Config, true> {
  using T = typename Config::T;
  static constexpr int wide = Config::loaders * 8, rows = 4; // columns; rows at a time
  static_assert(sizeof(T) == 2, "a thread fills eight elements of 16 bits");
  spc_u32 number; // of the stretch at hand
  int left;       // rows of it
  spc_u32 word;   // bits of this thread's columns

  __device__ __forceinline__ explicit spc_filler(const spc_args &args) : number(blockIdx.x) { ask(args); }
  SPC_DEVICE spc_u32 across(const spc_args &args) { return ((spc_u32)Config::n(args) + wide - 1) / wide; }
  __device__ __forceinline__ int column(const spc_args &args) const { return (int)(number % across(args) * wide + threadIdx.x % Config::loaders * 8); }
  __device__ __forceinline__ int strip(const spc_args &args) const { return (int)(number / across(args)); }
  __device__ __forceinline__ void ask(const spc_args &args) {
    left = max(min(Config::strip, (int)Config::m(args) - strip(args) * Config::strip), 0);
    if (!Config::in_place && !spc_fills_rows(Config::whole_t(args), Config::pitch_whole(args))) left = 0;
    word = left > 0 && column(args) < (int)Config::n(args) ? Config::bits(args)[(long long)strip(args) * (int)Config::bit_words(args) + column(args) / 32] : ~0u;
  }
  __device__ __forceinline__ void some(const spc_args &args) {
    if (left == 0) return;
    const int n = (int)Config::n(args);
    const bool mine = Config::in_place ? spc_none_listed(word, column(args)) : spc_is_filled(word, column(args), n);
    const spc_u32 bits = spc_put_as<T>::from(Config::fill()).bits, both = bits | bits << 16;
    const int end = min((strip(args) + 1) * Config::strip, (int)Config::m(args));
    const long long pitch = Config::pitch_whole(args) * 2;
    char *to = (char *)(Config::whole_t(args) + column(args)) + (end - left) * pitch;
    if (Config::in_place && (n % 8 || !spc_fills_rows(Config::whole_t(args), Config::pitch_whole(args)))) {
#pragma unroll 1
      for (int r = 0; r < rows; r++, to += pitch)
        for (int e = 0; e < min(8, n - column(args)); e++)
          if (mine && r < left) ((unsigned short *)to)[e] = bits;
    } else {
#pragma unroll
      for (int r = 0; r < rows; r++, to += pitch)
        if (mine && r < left) *(uint4 *)to = make_uint4(both, both, both, both);
    }
    left = max(left - rows, 0);
    if (left == 0) number += gridDim.x, ask(args);
  }
  __device__ __forceinline__ void rest(const spc_args &args) {
#pragma unroll 1
    while (left > 0) some(args);
  }
};
