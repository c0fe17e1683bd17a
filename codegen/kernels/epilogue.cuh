// epilogue.cuh - from sums to memory: the fused fragment, detection of zeros, the store.
//
// The tile is rounded to the result's type in shared memory first (the pipeline's buffers are free by then);
// from there zeros are found and rows are stored in whole 16-byte chunks:
//
//     sums --Config::epilogue--> staged tile --ballot--> bits [strip][word]     (swrite of the pattern)
//                                           \--16 bytes a thread--> T, row-major 'r' or transposed 'c'
//
// Rows and columns beyond the result are staged as zeros and never stored.
#pragma once
#include "spc/panel.cuh"
#include "spc/prelude.cuh"

template <class Config> struct spc_staged_tile {
  using T = typename Config::T;
  static constexpr bool by_rows = Config::layout_t == 'r';
  static constexpr int rows = by_rows ? Config::tile_m : Config::tile_n;    // as stored
  static constexpr int columns = by_rows ? Config::tile_n : Config::tile_m; // contiguous
  static constexpr int pitch = columns * (int)sizeof(T) + 16;               // bytes; the pad spreads banks
  static constexpr int bytes = rows * pitch;

  SPC_DEVICE T *at(char *shared, int m, int n) {
    return (T *)(shared + (by_rows ? m : n) * pitch) + (by_rows ? n : m);
  }
};

// The coordinates of a block's tile and the extents of the result.  Where a list names the columns (Config::samples),
// n0 and n count those of the strip's list.
struct spc_tile_place {
  int m0, n0, m, n;
  long long batch;
};

template <class Config> SPC_DEVICE spc_list spc_list_of(const spc_args &args, int strip, long long extent) {
  return {Config::ids(args) + (long long)strip * Config::capacity(args), Config::counts(args)[strip], (int)extent};
}
// How many columns a strip's list names: its last micro-tile may reach over the edge.
template <class Config> SPC_DEVICE int spc_listed_columns(const spc_args &args, int strip, int count) {
  int columns = count * Config::gran, n = (int)Config::n(args);
  if (Config::gran == 1 || count == 0) return columns;
  int last = __ldg(Config::ids(args) + (long long)strip * Config::capacity(args) + count - 1);
  return columns - max((last + 1) * Config::gran - n, 0);
}
// The result's column that is number `at` of those that the place counts.
template <class Config> SPC_DEVICE int spc_column(const spc_args &args, const spc_tile_place &place, int at) {
  if constexpr (Config::samples)
    return spc_list_of<Config>(args, place.m0 / Config::strip, Config::n(args)).template at<Config::gran>(at);
  else return at;
}

template <class Config, class Sums>
SPC_DEVICE void spc_stage_tile(char *shared, const Sums &sums, const spc_tile_place &place, const spc_args &args) {
  using staged = spc_staged_tile<Config>;
  using T = typename Config::T;
  sums.each([&](int row, int column, auto sum) {
    int m = place.m0 + row, n = place.n0 + column;
    T value = spc_put_as<T>::from(0.0f);
    if (m < place.m && n < place.n)
      value = spc_put_as<T>::from(Config::epilogue(args, sum, m, spc_column<Config>(args, place, n), place.batch));
    *staged::at(shared, row, column) = value;
  });
}

// Which micro-tiles of [detect_strip x detect_gran] hold a non-zero: one warp a word, one lane a micro-tile.
template <class Config>
SPC_DEVICE void spc_detect_tile(char *shared, const spc_tile_place &place, const spc_args &args) {
  using staged = spc_staged_tile<Config>;
  const int strip = Config::detect_strip, gran = Config::detect_gran;
  static_assert(Config::tile_m % Config::detect_strip == 0, "the strip must divide the tile's rows");
  static_assert(Config::tile_n % (32 * Config::detect_gran) == 0, "a tile must make whole words of bits");
  const int words = Config::tile_n / (32 * gran), strips = Config::tile_m / strip;
  int lane = (int)threadIdx.x & 31;
#pragma unroll 1
  for (int w = (int)threadIdx.x / 32; w < words * strips; w += Config::workers / 32) {
    int row0 = w / words * strip, tile0 = w % words * 32 + lane;
    bool any = false;
    for (int c = 0; c < gran; c++)
#pragma unroll 4
      for (int r = 0; r < strip; r++)
        any |= spc_get(*staged::at(shared, row0 + r, tile0 * gran + c)) != 0;
    spc_u32 bits = ptx_ballot(any);
    int at_strip = (place.m0 + row0) / strip, at_word = place.n0 / (32 * gran) + w % words;
    if (lane == 0 && place.m0 + row0 < place.m && at_word * 32 * gran < place.n)
      Config::bits(args)[at_strip * (long long)Config::bit_words(args) + at_word] = bits;
  }
}

template <class Config>
SPC_DEVICE void spc_store_tile(char *shared, const spc_tile_place &place, const spc_args &args) {
  using staged = spc_staged_tile<Config>;
  using T = typename Config::T;
  const int per_chunk = 16 / (int)sizeof(T), chunks = staged::columns / per_chunk;
  int row0 = staged::by_rows ? place.m0 : place.n0, column0 = staged::by_rows ? place.n0 : place.m0;
  int all_n = Config::samples ? (int)Config::n(args) : place.n; // of a list: to the end of the tile, in zeros
  int rows = staged::by_rows ? place.m : all_n, columns = staged::by_rows ? all_n : place.m;
  long long pitch = Config::pitch_t(args);
  T *to = Config::t(args, place.batch) + row0 * pitch + column0;
  bool aligned = (((spc_u64)to | (spc_u64)pitch * sizeof(T)) & 15) == 0;
#pragma unroll 4
  for (int i = (int)threadIdx.x; i < staged::rows * chunks; i += Config::workers) {
    int row = i / chunks, column = i % chunks * per_chunk;
    const T *from = (const T *)(shared + row * staged::pitch) + column;
    if (row0 + row >= rows) continue;
    if (aligned && column0 + column + per_chunk <= columns) {
      *(uint4 *)(to + row * pitch + column) = *(const uint4 *)from;
    } else {
#pragma unroll 1
      for (int e = 0; e < per_chunk && column0 + column + e < columns; e++)
        to[row * pitch + column + e] = from[e];
    }
  }
}
