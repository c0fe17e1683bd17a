// spread.cuh - whole results of which the columns that a list names lie side by side: each goes to its place, and everything else is filled.
//
//     listed[a] [position][m]   column number `position` of a strip's list, in its rows   ->   t[i][m][n] = kept(i, listed.. , m, n) or fill
//
// One array or several over one list, and as many results as are made of them element by element. A block takes some columns of a strip: it
// counts the strip's bits before them, brings the listed ones to shared memory, turned by the way they are read, and writes rows. Conditions are
// asked here, of each element of a listed column: in the others they hold nowhere.
// Config names: T, arrays, results, t, pitch_t, listed, m, n, strip, columns (of a block), bits, bit_words, kept(i, values, m, n), fill.
#pragma once
#include "spc/detect.cuh"

template <class Config> struct spc_spread_room {
  static constexpr int line = Config::strip + 2; // elements: a word more than whole turns of the banks, or lanes of one row would meet
  static constexpr int words = Config::columns / 32;
  static constexpr int slots = Config::arrays > Config::kept_columns ? Config::arrays : Config::kept_columns;
  unsigned short value[slots][Config::columns * line]; // what is made of a place takes the place of what was read there
  unsigned char place[Config::columns]; // of a column, among the listed ones
  spc_u32 word[words];
};

// Eight elements, of which the first `count` are there.
SPC_DEVICE uint4 spc_spread_chunk(const unsigned short *from, bool aligned, int count) {
  if (aligned) return *(const uint4 *)from;
  spc_u32 word[4] = {0, 0, 0, 0};
#pragma unroll
  for (int e = 0; e < 8; e++)
    if (e < count) word[e / 2] |= (spc_u32)from[e] << e % 2 * 16;
  return make_uint4(word[0], word[1], word[2], word[3]);
}

SPC_DEVICE void spc_spread_put(unsigned short *to, bool aligned, int count, uint4 v) {
  if (aligned) {
    *(uint4 *)to = v;
    return;
  }
  const spc_u32 word[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
  for (int e = 0; e < 8; e++)
    if (e < count) to[e] = (unsigned short)(word[e / 2] >> e % 2 * 16);
}

// Behind the last of so many columns whoever multiplies them finds zeros to the end of a tile.
SPC_DEVICE int spc_spread_end(int count, int n) {
  const int whole = 64;
  return min((max(count, 1) + whole - 1) / whole * whole, n);
}

// Eight elements of a row of every result, from column n0 + c on.
template <class Config> SPC_DEVICE void spc_spread_row(const spc_args &args, spc_spread_room<Config> &room, int m0, int r, int n0, int c, int n) {
  using T = typename Config::T;
  const int chunk = 8, line = spc_spread_room<Config>::line;
  unsigned short out[Config::results][chunk];
  const spc_u32 set = room.word[c / 32] >> c % 32 & 255;
#pragma unroll
  for (int t = 0; t < Config::results; t++)
#pragma unroll
    for (int e = 0; e < chunk; e++) out[t][e] = spc_put_as<T>::from(Config::fill(t)).bits;
  if (set)
#pragma unroll
    for (int e = 0; e < chunk; e++) {
      if (!(set >> e & 1)) continue;
      float beside[Config::arrays];
#pragma unroll
      for (int a = 0; a < Config::arrays; a++) {
        T value = {};
        value.bits = room.value[a][room.place[c + e] * line + r];
        beside[a] = spc_get(value);
      }
#pragma unroll
      for (int t = 0; t < Config::results; t++) {
        out[t][e] = spc_put_as<T>::from(Config::kept(args, t, beside, m0 + r, n0 + c + e)).bits;
        if (Config::column_of(t) >= 0) room.value[Config::column_of(t)][room.place[c + e] * line + r] = out[t][e];
      }
    }
#pragma unroll
  for (int t = 0; t < Config::results; t++) {
    const long long pitch = Config::pitch_t(args, t);
    unsigned short *to = (unsigned short *)Config::t(args, t) + (m0 + r) * pitch + n0 + c;
    const unsigned short *from = out[t];
    if (n % chunk == 0 && (((spc_u64)Config::t(args, t) | (spc_u64)pitch * sizeof(T)) & 15) == 0) {
      *(uint4 *)to = make_uint4(from[0] | (spc_u32)from[1] << 16, from[2] | (spc_u32)from[3] << 16, from[4] | (spc_u32)from[5] << 16, from[6] | (spc_u32)from[7] << 16);
    } else {
#pragma unroll
      for (int e = 0; e < chunk; e++)
        if (n0 + c + e < n) to[e] = from[e];
    }
  }
}

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
  // A column's rows are side by side.
  const int lanes = Config::strip / chunk;
#pragma unroll
  for (int a = 0; a < Config::arrays; a++)
#pragma unroll 4
    for (int i = (int)threadIdx.x; i < count * lanes; i += threads) {
      const int at = i / lanes, r = i % lanes * chunk;
      if (r >= rows) continue;
      const uint4 v = spc_spread_chunk((const unsigned short *)Config::listed(args, a) + (long long)(begin + at) * m + m0 + r, m % chunk == 0, rows - r);
      spc_u32 *to = (spc_u32 *)(room.value[a] + at * line + r);
      to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
    }
  __syncthreads();
  const int across = Config::columns / chunk; // chunks of a row
#pragma unroll 2
  for (int i = (int)threadIdx.x; i < rows * across; i += threads) {
    const int r = i / across, c = i % across * chunk;
    if (n0 + c < n) spc_spread_row<Config>(args, room, m0, r, n0, c, n);
  }
  if (Config::kept_columns == 0) return;
  __syncthreads();
  const int last = n0 + Config::columns >= n ? spc_spread_end(begin + count, n) - begin : count; // zeros follow the last one
#pragma unroll
  for (int a = 0; a < Config::kept_columns; a++)
#pragma unroll 4
    for (int i = (int)threadIdx.x; i < last * lanes; i += threads) {
      const int at = i / lanes, r = i % lanes * chunk;
      if (r >= rows) continue;
      const spc_u32 *from = (const spc_u32 *)(room.value[a] + at * line + r);
      const uint4 v = at < count ? make_uint4(from[0], from[1], from[2], from[3]) : make_uint4(0, 0, 0, 0);
      spc_spread_put((unsigned short *)Config::columns_t(args, a) + (long long)(begin + at) * m + m0 + r, m % chunk == 0, rows - r, v);
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
