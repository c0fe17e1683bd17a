// compact.cuh - what a list names of rows that lie along its axis, brought side by side.
//
//     bits -> the verdict, counts, ids and
//     packed  [rows][axis]   of each row the elements at its strip's ids, in their order, then zeros up to a multiple of `whole`
//
// A column of such a matrix is two bytes of every row: nobody gathers that.  What is listed of it moves by box once it lies side by side, as
// fast as a matrix without zeros.  A block takes a few rows of a strip (of two that share a list: pairs.cuh) and counts the entries of the
// whole strip, so it knows where each of them goes; a warp has 64 columns of all its rows under way, and leaves out those that nobody lists.
// Config names: those of detect.cuh; rows_packed, pairs (two strips share a list).
#pragma once
#include "spc/pairs.cuh"

template <class Config> struct spc_listed_places {
  static constexpr int kinds = Config::pairs ? 3 : 1, of = Config::pairs ? 2 : 1; // strips of a list
  static constexpr int warps = Config::threads / 32, each = 2, most = Config::threads * each; // words of a window
  spc_u32 word[of][most];
  int at[kinds][most]; // entries of the kind before the word, in this window
  int sums[warps][kinds];

  __device__ __forceinline__ spc_u32 kind(int c, int w) const {
    spc_u32 a = word[0][w], b = Config::pairs ? word[of - 1][w] : 0;
    return c == 0 ? a & ~b : c == 1 ? a & b : b & ~a;
  }
  // Words from `first` on, by all threads; afterwards `begin` is where the entries behind them go.
  __device__ __forceinline__ void take(const spc_u32 *bits, int first, int words, bool two, int (&window)[3]) {
    const int lane = (int)threadIdx.x & 31, w0 = (int)threadIdx.x * each;
#pragma unroll
    for (int i = 0; i < each; i++) {
      const int w = first + w0 + i;
      word[0][w0 + i] = w < words ? bits[w] : 0;
      if constexpr (Config::pairs) word[1][w0 + i] = two && w < words ? bits[words + w] : 0;
    }
    int before[kinds];
#pragma unroll
    for (int c = 0; c < kinds; c++) {
      int mine = 0;
#pragma unroll
      for (int i = 0; i < each; i++) mine += __popc(kind(c, w0 + i));
      before[c] = spc_scan_warp(mine);
      if (lane == 31) sums[threadIdx.x / 32][c] = before[c];
      before[c] -= mine;
    }
    __syncthreads();
#pragma unroll
    for (int c = 0; c < kinds; c++) {
      window[c] = 0;
#pragma unroll
      for (int w = 0; w < warps; w++) {
        if (w < (int)threadIdx.x / 32) before[c] += sums[w][c];
        window[c] += sums[w][c];
      }
#pragma unroll
      for (int i = 0; i < each; i++) {
        at[c][w0 + i] = before[c];
        before[c] += __popc(kind(c, w0 + i));
      }
    }
    __syncthreads();
  }
  // Where bit number `bit` of word w goes; -1: it is not listed.
  __device__ __forceinline__ int place(const int (&begin)[3], int w, int bit) const {
    int to = -1;
#pragma unroll
    for (int c = 0; c < kinds; c++) {
      const spc_u32 bits = kind(c, w);
      if (bits >> bit & 1) to = begin[c] + at[c][w] + __popc(bits & ((1u << bit) - 1));
    }
    return to;
  }
};

// Rows of a block: those from `m0` on, of which there are `count`.
template <class Config> struct spc_rows_to_compact {
  using V = typename Config::V;
  static constexpr int most = 16;
  const V *from;
  V *to;
  long long pitch, extent;
  int count;
  bool aligned; // else another kernel multiplies, from the values as they lie

  __device__ __forceinline__ spc_rows_to_compact(const spc_args &args, long long m0, int rows)
      : from(Config::values(args) + m0 * Config::strip_pitch(args)), to(Config::rows_packed(args) + m0 * Config::axis_extent(args)),
        pitch(Config::strip_pitch(args)), extent(Config::axis_extent(args)), count(rows) {
    aligned = (((spc_u64)Config::values(args) | (spc_u64)pitch * sizeof(V)) & 3) == 0 && extent % 2 == 0;
  }
  // Two columns, each where it goes.
  __device__ __forceinline__ void move(long long column, const int (&place)[2]) const {
    const bool any = place[0] >= 0 || place[1] >= 0;
    spc_u32 v[most];
#pragma unroll
    for (int r = 0; r < most; r++) v[r] = any && r < count ? *(const spc_u32 *)(from + r * pitch + column) : 0;
#pragma unroll
    for (int r = 0; r < most; r++) {
      unsigned short *row = (unsigned short *)(to + r * extent);
      if (r < count && place[0] >= 0) row[place[0]] = (unsigned short)v[r];
      if (r < count && place[1] >= 0) row[place[1]] = (unsigned short)(v[r] >> 16);
    }
  }
  __device__ __forceinline__ void end(int entries) const {
    const int whole = Config::packed_whole, behind = (whole - entries % whole) % whole;
    for (int i = (int)threadIdx.x; i < count * whole; i += Config::threads) {
      const int at = i % whole;
      if (at < behind && entries + at < extent) ((unsigned short *)to)[i / whole * extent + entries + at] = 0;
    }
  }
};

template <class Config> SPC_DEVICE void spc_compact(const spc_args &args) {
  using places = spc_listed_places<Config>;
  using rows_of = spc_rows_to_compact<Config>;
  static_assert(sizeof(typename Config::V) == 2 && Config::gran == 1 && Config::axis_is_contiguous,
                "what is brought side by side is single elements of 16 bits, of rows that lie along the axis");
  __shared__ places listed;
  if (spc_not_meant<Config>(args)) return;
  const int words = (int)((Config::capacity(args) + 31) / 32), lane = (int)threadIdx.x & 31;
  const spc_u32 strips = (spc_u32)Config::strips(args), tall = Config::strip * places::of, groups = (tall + rows_of::most - 1) / rows_of::most;
  const spc_u32 s = blockIdx.x / groups, group = blockIdx.x % groups;
  const bool one = s * places::of < strips, two = Config::pairs && s * 2 + 1 < strips; // strips that there are
  const spc_u32 *bits = Config::bits(args) + (spc_u64)s * places::of * words;
  spc_pair_sums none = {}, all = {};
#pragma unroll 2
  for (int w = (int)threadIdx.x; one && w < words; w += Config::threads) all.add(bits[w], two ? bits[words + w] : 0);
  if (spc_bits_say_dense<Config>(args, strips * (spc_u32)words)) return;
  spc_block_pair_sums<Config>(none, all);
  if (!one) return;
  int begin[3] = {0, all.at[0], all.at[0] + all.at[1]}, window[3];
  const int entries = begin[2] + all.at[2];
  const long long m0 = (long long)s * tall + group * rows_of::most;
  const long long last = min((long long)(s + 1) * tall, (long long)Config::strip_extent(args));
  const rows_of rows(args, m0, (int)min(last - m0, (long long)rows_of::most));
  int *ids = Config::ids(args) + (long long)s * Config::capacity(args);
#pragma unroll 1
  for (int first = 0; first < words; first += places::most) {
    listed.take(bits, first, words, two, window);
    const int units = (min(words - first, (int)places::most) + 1) / 2;
#pragma unroll 1
    for (int u = (int)threadIdx.x / 32; u < units; u += places::warps) {
      const int w = u * 2 + lane / 16, bit = lane % 16 * 2, place[2] = {listed.place(begin, w, bit), listed.place(begin, w, bit + 1)};
      const int column = (first + w) * 32 + bit;
      if (group == 0 && place[0] >= 0) ids[place[0]] = column;
      if (group == 0 && place[1] >= 0) ids[place[1]] = column + 1;
      if (rows.aligned) rows.move(column, place);
    }
    __syncthreads(); // before the words of the next window
#pragma unroll
    for (int c = 0; c < places::kinds; c++) begin[c] += window[c];
  }
  if (rows.aligned) rows.end(entries);
  if (group > 0 || threadIdx.x > 0) return;
  int *counts = Config::counts(args);
  counts[s] = entries;
  const spc_u32 pairs = (strips + 1) / 2;
  if constexpr (Config::pairs) counts[pairs + 2 * s] = all.at[0] + all.at[1], counts[pairs + 2 * s + 1] = all.at[1] + all.at[2];
}
