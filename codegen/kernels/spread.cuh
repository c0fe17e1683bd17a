// spread.cuh - whole results of which the columns that a list names lie side by side: each goes to its place, and everything else is filled.
//
//     listed[a] [position][m]   column number `position` of a strip's list, in its rows   ->   t[i][m][n] = kept(i, listed.. , m, n) or fill
//
// One array or several over one list, matrices that lie as the results do (`place`), and as many results as are made of them element by element. A
// block takes some columns of a strip: it counts the strip's bits before them, brings the listed ones to shared memory, turned by the way they are
// read, and writes rows. Conditions are asked here, of each element of a listed column: in the others they hold nowhere. Results whose columns are
// summed over later stay side by side too (kept_columns). Where dense is meant the arrays lie whole, as the results do, and are read so.
// Config names: T, arrays, places, results, kept_columns, fills, whole, t, pitch_t, listed, place, pitch_place, array, pitch_array, columns_t, column_of, m, n,
// strip, columns (of a block), bits, bit_words, kept(i, values, m, n), fill, meant.
#pragma once
#include "spc/detect.cuh"
#include "spc/eight.cuh"
#include "spc/fill.cuh"

template <class Config> struct spc_spread_room {
  static constexpr int line = Config::strip + 2; // elements: a word more than whole turns of the banks, or lanes of one row would meet
  static constexpr int words = Config::columns / 32;
  static constexpr int slots = Config::arrays > Config::kept_columns ? Config::arrays : Config::kept_columns;
  unsigned short value[slots][Config::columns * line]; // what is made of a place takes the place of what was read there
  unsigned char place[Config::columns];                // of a column, among the listed ones
  unsigned char chunk[Config::columns / 8];            // chunks of eight columns that are written here, where others are filled already
  int chunks;
  spc_u32 word[words];
};

// Rows that lie as the results do start at multiples of 16 bytes (of bytes: of 8), and end there.
template <class Config> SPC_DEVICE bool spc_spread_aligned(const spc_args &args) {
  spc_u64 all = (spc_u64)Config::n(args) * 2;
#pragma unroll
  for (int t = 0; t < Config::results; t++) all |= (spc_u64)Config::t(args, t) | (spc_u64)Config::pitch_t(args, t) * 2;
#pragma unroll
  for (int p = 0; p < Config::places; p++)
    all |= Config::place_bytes(p) == 1 ? ((spc_u64)Config::place(args, p) | (spc_u64)Config::pitch_place(args, p)) * 2
                                       : (spc_u64)Config::place(args, p) | (spc_u64)Config::pitch_place(args, p) * 2;
#pragma unroll
  for (int a = 0; a < (Config::whole ? Config::arrays : 0); a++) all |= (spc_u64)Config::array(args, a) | (spc_u64)Config::pitch_array(args, a) * 2;
  return (all & 15) == 0;
}

// What is made at row r of the strip from the block's column c on; dense: of arrays that lie whole.
template <class Config, bool dense>
SPC_DEVICE void spc_spread_store(const spc_args &args, spc_spread_room<Config> &room, const spc_spread_places<Config> &at, int m0, int r, int n0, int c, int n, bool aligned) {
  using T = typename Config::T;
  const int line = spc_spread_room<Config>::line, column = n0 + c, count = n - column;
  const long long m = m0 + r;
  spc_eight array[Config::arrays], out[Config::results];
  if (dense)
#pragma unroll
    for (int a = 0; a < Config::arrays; a++) array[a].load((const unsigned short *)Config::array(args, a) + m * Config::pitch_array(args, a) + column, aligned, count);
#pragma unroll
  for (int i = 0; i < 4; i++) { // two neighbours are cast at once
    float made[Config::results][2];
#pragma unroll
    for (int t = 0; t < Config::results; t++) made[t][0] = made[t][1] = Config::fill(t);
#pragma unroll
    for (int e = 2 * i; e < 2 * i + 2; e++) {
      if (dense ? !at.set || e >= count : !(at.set >> e & 1)) continue;
      float values[Config::arrays + Config::places];
#pragma unroll
      for (int a = 0; a < Config::arrays; a++) {
        T value = {};
        value.bits = dense ? array[a].at(e) : room.value[a][room.place[c + e] * line + r];
        values[a] = spc_get(value);
      }
#pragma unroll
      for (int p = 0; p < Config::places; p++) values[Config::arrays + p] = at.value(p, e);
#pragma unroll
      for (int t = 0; t < Config::results; t++) {
        made[t][e % 2] = Config::kept(args, t, values, m, column + e);
        if (!dense && Config::column_of(t) >= 0) room.value[Config::column_of(t)][room.place[c + e] * line + r] = spc_put_as<T>::from(made[t][e % 2]).bits;
      }
    }
#pragma unroll
    for (int t = 0; t < Config::results; t++) out[t].word[i] = spc_pack(made[t][0], made[t][1], T());
  }
#pragma unroll
  for (int t = 0; t < Config::results; t++) {
    const long long pitch = Config::pitch_t(args, t);
    out[t].store(spc_spread_at((unsigned short *)Config::t(args, t) + m0 * pitch, r, pitch, column), aligned, count);
  }
}

// A thread asks for what lies at several places before it stores to the first: memory is far, and the compiler keeps loads behind stores.
template <class Config, bool dense, bool aligned> SPC_DEVICE void spc_spread_rows_of(const spc_args &args, spc_spread_room<Config> &room, int m0, int n0) {
  const bool some = Config::fills && !dense; // of the chunks
  const int across = some ? room.chunks : Config::columns / 8, n = (int)Config::n(args), rows = min(Config::strip, (int)Config::m(args) - m0);
  const int at_once = aligned ? spc_spread_places<Config>::at_once : 1;
  if (some && across == 0) return;
  const int down = Config::threads / across, along = Config::threads - down * across;
  int r = (int)threadIdx.x / across, chunk = (int)threadIdx.x - r * across;
#pragma unroll 1
  while (r < rows) {
    spc_spread_places<Config> at[at_once];
    int where[at_once]; // row, and from bit 0 on the column
#pragma unroll
    for (int j = 0; j < at_once; j++) {
      const int c = (some ? room.chunk[chunk] : chunk) * 8;
      where[j] = r << 8 | c;
      at[j].set = r >= rows || n0 + c >= n ? 0 : dense ? 255 : room.word[c / 32] >> c % 32 & 255;
      at[j].ask(args, m0, r, n0 + c, n - n0 - c, aligned);
      r += down, chunk += along;
      if (chunk >= across) chunk -= across, r++;
    }
#pragma unroll
    for (int j = 0; j < at_once; j++) {
      const int row = where[j] >> 8, c = where[j] & 255;
      if (row < rows && n0 + c < n) spc_spread_store<Config, dense>(args, room, at[j], m0, row, n0, c, n, aligned);
    }
  }
}
template <class Config, bool dense> SPC_DEVICE void spc_spread_rows(const spc_args &args, spc_spread_room<Config> &room, int m0, int n0, bool aligned) {
  if (aligned) spc_spread_rows_of<Config, dense, true>(args, room, m0, n0);
  else spc_spread_rows_of<Config, dense, false>(args, room, m0, n0);
}

// Behind the last of so many columns whoever multiplies them finds zeros to the end of a tile.
SPC_DEVICE int spc_spread_end(int count, int n) {
  const int whole = 64;
  return min((max(count, 1) + whole - 1) / whole * whole, n);
}

// The listed columns, whose rows are side by side; several are asked for before the first is kept.
template <class Config, bool aligned> SPC_DEVICE void spc_spread_bring(const spc_args &args, spc_spread_room<Config> &room, int begin, int count, int m0, int rows, int m) {
  const int chunk = 8, lanes = Config::strip / chunk, line = spc_spread_room<Config>::line, at_once = aligned ? 2 : 1;
#pragma unroll
  for (int a = 0; a < Config::arrays; a++) {
    const unsigned short *from = (const unsigned short *)Config::listed(args, a) + (long long)begin * m + m0;
#pragma unroll 1
    for (int i0 = (int)threadIdx.x; i0 < count * lanes; i0 += at_once * Config::threads) {
      spc_eight v[at_once];
#pragma unroll
      for (int j = 0; j < at_once; j++) {
        const int i = i0 + j * Config::threads, at = i / lanes, r = i % lanes * chunk;
        if (at < count && r < rows) v[j].load(spc_spread_at(from, at, m, r), aligned, rows - r);
      }
#pragma unroll
      for (int j = 0; j < at_once; j++) {
        const int i = i0 + j * Config::threads, at = i / lanes, r = i % lanes * chunk;
        if (at >= count || r >= rows) continue;
        spc_u32 *to = (spc_u32 *)(room.value[a] + at * line + r);
        to[0] = v[j].word[0], to[1] = v[j].word[1], to[2] = v[j].word[2], to[3] = v[j].word[3];
      }
    }
  }
}

// The columns from n0 on of strip number s.
template <class Config> SPC_DEVICE void spc_spread_columns(const spc_args &args, spc_spread_room<Config> &room, int s, int n0, bool aligned) {
  using room_type = spc_spread_room<Config>;
  const int chunk = 8, lanes = Config::strip / chunk, words = room_type::words, line = room_type::line, threads = Config::threads; // chunk: elements of 16 bytes
  const int m = (int)Config::m(args), n = (int)Config::n(args), lane = (int)threadIdx.x & 31, all = (int)Config::bit_words(args);
  const int m0 = s * Config::strip, rows = min(Config::strip, m - m0);
  const spc_u32 *bits = Config::bits(args) + (long long)s * all;
  int mine = 0; // entries before the block's columns
#pragma unroll 4
  for (int w = (int)threadIdx.x; w < n0 / 32; w += threads) mine += __popc(__ldcg(bits + w));
  if (threadIdx.x < words) room.word[threadIdx.x] = n0 / 32 + (int)threadIdx.x < all ? __ldcg(bits + n0 / 32 + threadIdx.x) : 0;
  const int begin = spc_block_sums<Config>({mine, 0}).x; // and everybody sees the words
  int count = 0;
#pragma unroll
  for (int w = 0; w < words; w++) {
    if ((int)threadIdx.x / 32 == w) room.place[w * 32 + lane] = (unsigned char)(count + __popc(room.word[w] & ptx_lanes_below()));
    count += __popc(room.word[w]);
  }
  if (Config::fills && threadIdx.x < 32) { // all chunks, but what who computed has filled
    const int c = lane * chunk;
    const bool fills = spc_fills_rows(Config::t(args, 0), Config::pitch_t(args, 0));
    const bool left = c < Config::columns && n0 + c < n && !(fills && spc_is_filled(room.word[c / 32 % words], n0 + c, n));
    const spc_u32 lefts = ptx_ballot(left);
    if (left) room.chunk[__popc(lefts & ptx_lanes_below())] = (unsigned char)lane;
    if (lane == 0) room.chunks = __popc(lefts);
  }
  if (Config::fills) ptx_wait_grid(); // for the product alone: bits and verdict were there before it let this launch come, and were read past this multiprocessor's cache
  if (m % chunk == 0) spc_spread_bring<Config, true>(args, room, begin, count, m0, rows, m);
  else spc_spread_bring<Config, false>(args, room, begin, count, m0, rows, m);
  __syncthreads();
  spc_spread_rows<Config, false>(args, room, m0, n0, aligned);
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
      spc_eight v = {{0, 0, 0, 0}};
      if (at < count) v.word[0] = from[0], v.word[1] = from[1], v.word[2] = from[2], v.word[3] = from[3];
      v.store((unsigned short *)Config::columns_t(args, a) + (long long)(begin + at) * m + m0 + r, m % chunk == 0, rows - r);
    }
}

template <class Config> SPC_DEVICE void spc_spread(const spc_args &args) {
  static_assert(sizeof(typename Config::T) == 2 && Config::columns <= 256 && Config::strip % 8 == 0, "rows of 16-bit elements, in whole chunks");
  __shared__ __align__(16) spc_spread_room<Config> room;
  if (spc_not_meant<Config>(args)) return;
  ptx_release_grid(); // not before: the dense branch behind a launch that leaves finds all multiprocessors at once
  const bool dense = Config::whole && spc_verdict(Config::meant(args)) > 0, aligned = spc_spread_aligned<Config>(args);
  const spc_u32 strips = (spc_u32)((Config::m(args) + Config::strip - 1) / Config::strip), wide = (spc_u32)((Config::n(args) + Config::columns - 1) / Config::columns);
#pragma unroll 1
  for (spc_u32 i = blockIdx.x; i < strips * wide; i += gridDim.x) {
    const int s = (int)(i / wide), n0 = (int)(i % wide) * Config::columns;
    if (dense) {
      spc_spread_rows<Config, true>(args, room, s * Config::strip, n0, aligned);
      continue;
    }
    spc_spread_columns<Config>(args, room, s, n0, aligned);
    __syncthreads(); // before the room is filled anew
  }
}
