// epilogue.cuh - from sums to memory: the fused fragment, the store, detection of zeros.
//
// The sums are staged in shared memory as they are (the pipeline's buffers are free by then); from there threads take
// chunks of 16 bytes of the result, so that the fragment is a loop's body and what it reads lies side by side:
//
//     sums --as they are--> staged tile --Config::epilogue, 16 bytes a thread--> T, row-major 'r' or transposed 'c'
//                                \-- values, where zeros are detected --ballot--> bits [strip][word]  (swrite of the pattern)
//
// Rows and columns beyond the result are never stored, and count as zeros.
#pragma once
#include "spc/halves.cuh"
#include "spc/panel.cuh"
#include "spc/place.cuh"
#include "spc/prelude.cuh"
#include "spc/sdd.cuh"

// Of one element: what lies at the result's place (by box; fetched), in its column, in its row; where it is stored (sdd.cuh).
struct spc_brought {
  float here, fetched, column[2], row[2];
  long long place;
};

// A place holds a sum, and later its value.
template <class Config> struct spc_staged_tile {
  using T = typename Config::T;
  using Sum = spc_sum<spc_factor<Config>>;
  static constexpr bool by_rows = Config::layout_t == 'r';
  static constexpr int rows = by_rows ? Config::tile_m : Config::tile_n;    // as stored
  static constexpr int columns = by_rows ? Config::tile_n : Config::tile_m; // contiguous
  static constexpr int place = sizeof(T) > sizeof(Sum) ? sizeof(T) : sizeof(Sum);
  static constexpr int pitch = columns * place + (by_rows ? 32 : 16); // bytes; the pad spreads banks
  static constexpr int bytes = rows * pitch;

  SPC_DEVICE char *at(char *shared, int m, int n) {
    return shared + (by_rows ? m : n) * pitch + (by_rows ? n : m) * place;
  }
};

template <class Config> SPC_DEVICE spc_list spc_list_of(const spc_args &args, int strip, long long extent) {
  long long list = Config::own_strips ? strip / 2 : strip;
  return {Config::ids(args) + list * Config::capacity(args) + spc_own_begin<Config>(args, strip), spc_count_of<Config>(args, strip),
          (int)extent};
}
// Tiles of m in a strip; the last may have fewer, but for blocks that are stored.
template <class Config> SPC_DEVICE int spc_tall_of(int strip, int m) {
  const int tall = Config::strip / Config::tile_m;
  return Config::sdd ? tall : min(tall, (m - strip * Config::strip + Config::tile_m - 1) / Config::tile_m);
}
// How many columns a strip's list names: its last micro-tile may reach over the edge.  Of stored blocks all are.
template <class Config> SPC_DEVICE int spc_listed_columns(const spc_args &args, int strip, int count) {
  int columns = count * Config::gran, n = (int)Config::n(args);
  if constexpr (!Config::sdd) {
    if (Config::gran == 1 || count == 0) return columns;
    int last = __ldg(Config::ids(args) + (long long)strip * Config::capacity(args) + count - 1);
    columns -= max((last + 1) * Config::gran - n, 0);
  }
  return columns;
}
template <class Config> SPC_DEVICE int spc_listed_column(const spc_args &args, const spc_tile_place &place, int at) {
  return spc_list_of<Config>(args, place.m0 / Config::strip, Config::n(args)).template at<Config::gran>(at);
}
// The result's column that is number `at` of those that the place counts.  Asked for every sum: what it reads, as spc_row_at does, it reads plainly, since
// the compiler keeps an __ldg (an assembler's statement) where the fragment has no use for the answer.
template <class Config> SPC_DEVICE int spc_column(const spc_args &args, const spc_tile_place &place, int at) {
  if constexpr (Config::sdd) return min(spc_sdd_column<Config>(args, place, at), (int)Config::n(args) - 1);
  else if constexpr (Config::n_blocks && Config::narrow > 0) return spc_noted_column(place, at);
  else if constexpr (Config::samples || Config::n_blocks) return spc_listed_column<Config>(args, place, at);
  else return at;
}

template <class Config, class Sums> SPC_DEVICE void spc_stage_sums(char *shared, const Sums &sums) {
  using staged = spc_staged_tile<Config>;
  sums.each([&](int row, int column, auto sum) { *(typename staged::Sum *)staged::at(shared, row, column) = sum; });
}

// 16 bytes of a row of the result.
template <class T> struct alignas(16) spc_chunk {
  static constexpr int count = 16 / (int)sizeof(T);
  T element[count];
};

// The values of one chunk of the tile's row, and where zeros are wanted, in the place of the sums.  Columns outside
// are computed as the last one inside; rows behind the listed columns are zeros.
template <class Config, class Chunk>
SPC_DEVICE void spc_make_values(char *from, Chunk &chunk, int row, int column, int columns, const spc_tile_place &place,
                                const spc_args &args) {
  using staged = spc_staged_tile<Config>;
  static_assert(!Config::samples || !staged::by_rows, "listed columns are stored each contiguous");
  if (Config::samples && row >= place.n) {
#pragma unroll
    for (int e = 0; e < Chunk::count; e++) chunk.element[e] = spc_put_as<typename Config::T>::from(0.0f);
    return;
  }
  int listed = staged::by_rows ? 0 : spc_column<Config>(args, place, row);
  // Elements at a time: what groups' fragments are made of stands twice, and what is made moves up.
  const int some = Config::grouped && Chunk::count > 2 ? 2 : Chunk::count;
#pragma unroll 1
  for (int i = 0; i < Chunk::count; i += some) {
#pragma unroll
    for (int e = 0; e + some < Chunk::count; e++) chunk.element[e] = chunk.element[e + some];
#pragma unroll
    for (int e = 0; e < some; e++) {
      int at = min(column + i + e, columns - 1);
      auto sum = *(const typename staged::Sum *)(from + (i + e) * staged::place);
      chunk.element[Chunk::count - some + e] = spc_put_as<typename Config::T>::from(
          Config::epilogue(args, sum, staged::by_rows ? row : at, staged::by_rows ? at : listed, place.batch));
    }
  }
  if constexpr (Config::detects)
#pragma unroll
    for (int e = 0; e < Chunk::count; e++)
      *(typename Config::T *)(from + e * staged::place) = chunk.element[e];
}

template <class Config>
SPC_DEVICE void spc_store_tile(char *shared, const spc_tile_place &place, const spc_args &args) {
  using staged = spc_staged_tile<Config>;
  using T = typename Config::T;
  using chunk = spc_chunk<T>;
  const int chunks = staged::columns / chunk::count;
  int row0 = staged::by_rows ? place.m0 : place.n0, column0 = staged::by_rows ? place.n0 : place.m0;
  int all_n = Config::samples ? (int)Config::n(args) : place.n; // of a list: to the end of the tile, in zeros
  int rows = staged::by_rows ? place.m : all_n, columns = staged::by_rows ? all_n : place.m;
  long long pitch = Config::pitch_t(args);
  T *to = Config::t(args, place.batch) + row0 * pitch + column0;
  bool aligned = (((spc_u64)to | (spc_u64)pitch * sizeof(T)) & 15) == 0;
#pragma unroll 1
  for (int i = (int)threadIdx.x; i < staged::rows * chunks; i += Config::workers) {
    int row = i / chunks, column = i % chunks * chunk::count;
    if (row0 + row >= rows || column0 + column >= columns) continue;
    chunk values;
    spc_make_values<Config>(shared + row * staged::pitch + column * staged::place, values, row0 + row,
                            column0 + column, columns, place, args);
    if (aligned && column0 + column + chunk::count <= columns) {
      *(uint4 *)(to + row * pitch + column) = *(const uint4 *)values.element;
    } else {
#pragma unroll
      for (int e = 0; e < chunk::count; e++)
        if (column0 + column + e < columns) to[row * pitch + column + e] = values.element[e];
    }
  }
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
    int rows = min(strip, place.m - place.m0 - row0), columns = min(gran, place.n - place.n0 - tile0 * gran);
    bool any = false;
    for (int c = 0; c < columns; c++)
#pragma unroll 4
      for (int r = 0; r < rows; r++)
        any |= spc_get(*(const typename Config::T *)staged::at(shared, row0 + r, tile0 * gran + c)) != 0;
    spc_u32 bits = ptx_ballot(any);
    int at_strip = (place.m0 + row0) / strip, at_word = place.n0 / (32 * gran) + w % words;
    if (lane == 0 && place.m0 + row0 < place.m && at_word * 32 * gran < place.n)
      Config::bits(args)[at_strip * (long long)Config::bit_words(args) + at_word] = bits;
  }
}
