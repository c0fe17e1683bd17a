// tile_mask.cuh - which pairs of a row and a column are seen, asked once: a note a tile, a bit a pair.
//
//     notes  u8  [planes][ceil(m / 64)][ceil(n / 64)]              of 64 rows and tile_n columns: whether some pair is seen, whether all are
//     mask   u32 [planes][ceil(m / 64) 64][4 ceil(n / 128) + 4]    bit n % 32 of word n / 32: the pair is seen; of tiles of which some are and some are not
//
// Batches for which the same is asked have a plane together.  Who reads leaves out tiles of which no pair is seen, asks nothing where all are, and
// else takes the bits.  Columns that are not there count as seen by a note, and their bits are 0.
// Blocks that have a tile of rows at a time take it by claims, u32 [1], where what there is to do is not known before: the count of those taken, 0 after
// this launch.
// Config names: claims, tile_n, threads, m, n, noted_tiles, notes, mask; asked; step_m: the same for so many rows; whole_tiles: for all pairs of a tile; bounded: by first and behind, whatever the
// batch.
#pragma once
#include "spc/prelude.cuh"
#include "spc/ptx.cuh"

enum { SPC_TILE_SOME = 1, SPC_TILE_ALL = 2, SPC_TILE_ROWS = 64 };

template <class Config> SPC_DEVICE long long spc_strip_of(const spc_args &args, long long plane, int m0) {
  return plane * ((Config::m(args) + SPC_TILE_ROWS - 1) / SPC_TILE_ROWS) + m0 / SPC_TILE_ROWS;
}
template <class Config> SPC_DEVICE int spc_note_line(const spc_args &args) { return ((int)Config::n(args) + 63) / 64; }
// Of the 64 rows and the tile of columns that m0 and n0 lie in.
template <class Config> SPC_DEVICE unsigned char *spc_tile_note(const spc_args &args, long long plane, int m0, int n0) {
  return Config::notes(args) + spc_strip_of<Config>(args, plane, m0) * spc_note_line<Config>(args) + n0 / Config::tile_n;
}
template <class Config> SPC_DEVICE int spc_mask_line(const spc_args &args) { return ((int)Config::n(args) + 127) / 128 * 4 + 4; }
// Of a row, from column n0 on, a multiple of 32.
template <class Config> SPC_DEVICE spc_u32 *spc_tile_bits(const spc_args &args, long long plane, int m, int n0) {
  long long row = spc_strip_of<Config>(args, plane, m) * SPC_TILE_ROWS + m % SPC_TILE_ROWS;
  return Config::mask(args) + row * spc_mask_line<Config>(args) + n0 / 32;
}

// Where all pairs of a tile answer alike: a thread a tile.
template <class Config> SPC_DEVICE void spc_note_whole_tiles(const spc_args &args, int m, int n, spc_u32 tiles_m, spc_u32 tiles_n, spc_u32 tiles) {
#pragma unroll 1
  for (spc_u32 tile = blockIdx.x * Config::threads + threadIdx.x; tile < tiles; tile += gridDim.x * Config::threads) {
    const spc_u32 strip = tile / tiles_n;
    const int n0 = (int)(tile % tiles_n) * Config::tile_n, m0 = (int)(strip % tiles_m) * SPC_TILE_ROWS;
    const long long plane = strip / tiles_m;
    *spc_tile_note<Config>(args, plane, m0, n0) = Config::asked(args, 0, m0, n0, plane) ? SPC_TILE_SOME | SPC_TILE_ALL : 0;
  }
}

// A block has a tile at a time, a warp eight of its rows; a lane keeps one of their words.
template <class Config> SPC_DEVICE void spc_tile_mask(const spc_args &args) {
  const int warps = Config::threads / 32, words = Config::tile_n / 32, each = SPC_TILE_ROWS / warps;
  static_assert(Config::tile_n % 32 == 0 && each * warps == SPC_TILE_ROWS && each % 4 == 0 && words * each <= 32, "a lane has a word of a warp's rows");
  const int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x / 32;
  const int m = (int)Config::m(args), n = (int)Config::n(args);
  const spc_u32 tiles_m = (spc_u32)(m + SPC_TILE_ROWS - 1) / SPC_TILE_ROWS, tiles_n = (spc_u32)(n + Config::tile_n - 1) / Config::tile_n;
  if (blockIdx.x == 0 && threadIdx.x == 0) *Config::claims(args) = 0;
  if (m <= 0 || n <= 0) return;
  const spc_u32 strips = (spc_u32)(Config::noted_tiles(args) / ((n + 63) / 64)), tiles = strips * tiles_n;
  if constexpr (Config::whole_tiles) return spc_note_whole_tiles<Config>(args, m, n, tiles_m, tiles_n, tiles);
#pragma unroll 1
  for (spc_u32 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const spc_u32 strip = tile / tiles_n;
    const int n0 = (int)(tile % tiles_n) * Config::tile_n, m0 = (int)(strip % tiles_m) * SPC_TILE_ROWS, first = m0 + warp * each;
    const long long plane = strip / tiles_m;
    if constexpr (Config::bounded)
      if (n0 >= Config::behind(args, 0, min(m0 + SPC_TILE_ROWS, m) - 1, 0, 0) || n0 + Config::tile_n <= Config::first(args, 0, m0, 0, 0)) {
        if (threadIdx.x == 0) *spc_tile_note<Config>(args, plane, m0, n0) = 0;
        continue;
      }
    spc_u32 some = 0, all = ~0u, mine = 0;
    // Asks of `Count` rows at a time, the first is number r of the warp's: all loads are under way before the first answer is voted on.
    auto ask = [&](auto rows, int r, auto whole) {
      bool is[rows()][words];
#pragma unroll
      for (int i = 0; i < rows(); i++) {
        const int row = min(first + r + i, m - 1), asked = row - row % Config::step_m;
#pragma unroll
        for (int w = 0; w < words; w++) {
          const int column = n0 + w * 32 + lane;
          is[i][w] = Config::asked(args, 0, asked, whole() ? column : min(column, n - 1), plane) != 0;
        }
      }
#pragma unroll
      for (int i = 0; i < rows(); i++)
#pragma unroll
        for (int w = 0; w < words; w++) {
          const int valid = whole() ? 32 : min(max(n - n0 - w * 32, 0), 32);
          const spc_u32 there = valid == 32 ? ~0u : (1u << valid) - 1, seen = __ballot_sync(~0u, is[i][w]) & there;
          some |= seen, all &= seen | ~there; // a row that is not there answers as the last one
          if (lane == (r + i) * words + w) mine = seen;
        }
    };
    auto ask_rows = [&](auto whole) {
      if constexpr (Config::step_m == 1) {
        auto four = [] { return 4; };
#pragma unroll 1
        for (int r = 0; r < each; r += 4) ask(four, r, whole);
      } else {
        auto one = [] { return 1; };
#pragma unroll 1
        for (int r = 0; r < each; r++) {
          if (r == 0 || (first + r) % Config::step_m == 0) {
            ask(one, r, whole);
          } else {
            const spc_u32 above = __shfl_up_sync(~0u, mine, words);
            if (lane / words == r) mine = above;
          }
        }
      }
    };
    if (n0 + Config::tile_n <= n) ask_rows([] { return true; });
    else ask_rows([] { return false; });
    const int note = (__syncthreads_or(some != 0) ? SPC_TILE_SOME : 0) | (__syncthreads_and(all == ~0u) ? SPC_TILE_ALL : 0);
    if (threadIdx.x == 0) *spc_tile_note<Config>(args, plane, m0, n0) = (unsigned char)note;
    if (note == SPC_TILE_SOME && lane < each * words) // also of rows that are not there: they are read
      spc_tile_bits<Config>(args, plane, first + lane / words, n0)[lane % words] = mine;
  }
}
