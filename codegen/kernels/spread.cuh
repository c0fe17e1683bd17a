// spread.cuh - a whole result of which the columns that a list names lie side by side: each goes to its place, and everything else is filled.
//
//     listed [position][m]   column number `position` of a strip's list, in its rows   ->   T[m][n] = kept(listed or 0)
//
// A block takes some columns of a strip: it counts the strip's bits before them, brings the listed ones to shared memory, turned by the way they
// are read, and writes rows of T.  The condition is asked here, of each element of a listed column: in the others it holds nowhere.
// Config names: T, t, pitch_t, listed, m, n, strip, columns (of a block), bits, bit_words, kept(value, m, n, batch), fill.
#pragma once
#include "spc/detect.cuh"

template <class Config> struct spc_spread_room {
  static constexpr int line = Config::strip + 2; // elements: a word more than whole turns of the banks, or lanes of one row would meet
  static constexpr int words = Config::columns / 32;
  unsigned short value[Config::columns * line];
  unsigned char place[Config::columns]; // of a column, among the listed ones
  spc_u32 word[words];
};

// The columns from n0 on of strip number s.
template <class Config> SPC_DEVICE void spc_spread_columns(const spc_args &args, spc_spread_room<Config> &room, int s, int n0) {
  using room_type = spc_spread_room<Config>;
  using T = typename Config::T;
  const int chunk = 8, words = room_type::words, line = room_type::line, threads = Config::threads; // chunk: elements of 16 bytes
  const int m = (int)Config::m(args), n = (int)Config::n(args), lane = (int)threadIdx.x & 31, all = (int)Config::bit_words(args);
  const int m0 = s * Config::strip, rows = min(Config::strip, m - m0);
  const spc_u32 *bits = Config::bits(args) + (long long)s * all;
  int mine = 0; // entries before the block's columns
#pragma unroll 4
  for (int w = (int)threadIdx.x; w < n0 / 32; w += threads) mine += __popc(bits[w]);
  if (threadIdx.x < words) room.word[threadIdx.x] = n0 / 32 + (int)threadIdx.x < all ? bits[n0 / 32 + threadIdx.x] : 0;
  const int begin = spc_block_sums<Config>({mine, 0}).x; // and everybody sees the words
  int count = 0;
#pragma unroll
  for (int w = 0; w < words; w++) {
    if ((int)threadIdx.x / 32 == w) room.place[w * 32 + lane] = (unsigned char)(count + __popc(room.word[w] & ptx_lanes_below()));
    count += __popc(room.word[w]);
  }
  // A column's rows are side by side, and start at multiples of 16 bytes: who computed them stores by tensor map.
  const int lanes = Config::strip / chunk;
#pragma unroll 4
  for (int i = (int)threadIdx.x; i < count * lanes; i += threads) {
    const int at = i / lanes, r = i % lanes * chunk;
    if (r >= rows) continue;
    const uint4 v = *(const uint4 *)(Config::listed(args) + (long long)(begin + at) * m + m0 + r);
    spc_u32 *to = (spc_u32 *)(room.value + at * line + r);
    to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
  }
  __syncthreads();
  const int across = Config::columns / chunk; // chunks of a row
  const unsigned short fill = spc_put_as<T>::from(Config::fill()).bits;
  const long long pitch = Config::pitch_t(args);
  const bool whole = n % chunk == 0 && (((spc_u64)Config::t(args, 0) | (spc_u64)pitch * sizeof(T)) & 15) == 0;
#pragma unroll 2
  for (int i = (int)threadIdx.x; i < rows * across; i += threads) {
    const int r = i / across, c = i % across * chunk;
    if (n0 + c >= n) continue;
    unsigned short out[chunk];
    const spc_u32 set = room.word[c / 32] >> c % 32 & 255;
#pragma unroll
    for (int e = 0; e < chunk; e++) out[e] = fill;
    if (set)
#pragma unroll
      for (int e = 0; e < chunk; e++) {
        if (!(set >> e & 1)) continue;
        T value = {};
        value.bits = room.value[room.place[c + e] * line + r];
        out[e] = spc_put_as<T>::from(Config::kept(args, spc_get(value), m0 + r, n0 + c + e, 0)).bits;
      }
    unsigned short *to = (unsigned short *)Config::t(args, 0) + (m0 + r) * pitch + n0 + c;
    if (whole) {
      *(uint4 *)to = make_uint4(out[0] | (spc_u32)out[1] << 16, out[2] | (spc_u32)out[3] << 16, out[4] | (spc_u32)out[5] << 16, out[6] | (spc_u32)out[7] << 16);
    } else {
#pragma unroll
      for (int e = 0; e < chunk; e++)
        if (n0 + c + e < n) to[e] = out[e];
    }
  }
}

template <class Config> SPC_DEVICE void spc_spread(const spc_args &args) {
  static_assert(sizeof(typename Config::T) == 2 && Config::columns <= 256 && Config::strip % 8 == 0, "rows of 16-bit elements, in whole chunks");
  __shared__ __align__(16) spc_spread_room<Config> room;
  if (spc_not_meant<Config>(args)) return;
  const spc_u32 strips = (spc_u32)((Config::m(args) + Config::strip - 1) / Config::strip), wide = (spc_u32)((Config::n(args) + Config::columns - 1) / Config::columns);
#pragma unroll 1
  for (spc_u32 i = blockIdx.x; i < strips * wide; i += gridDim.x) {
    spc_spread_columns<Config>(args, room, (int)(i / wide), (int)(i % wide) * Config::columns);
    __syncthreads(); // before the room is filled anew
  }
}
