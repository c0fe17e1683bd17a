// place.cuh - which tile of the result a block computes: number to place.
//
// Tiles are walked in groups of `raster` tiles of m before the next n, so that neighbours share B's columns in L2.
#pragma once
#include "spc/abi.h"
#include "spc/ptx.cuh"

// The coordinates of a tile and the extents of the result.  Where a list names the columns (Config::samples), n0 and n
// count those of the strip's list.
struct spc_tile_place {
  int m0, n0, m, n;
  long long batch;
  int run[4]; // of listed blocks whose tiles come with a note (Config::narrow): where each 64 columns lie in the result
};
enum { spc_run_columns = 64, spc_dense_raster = 8 }; // of a run; tiles of m that share columns of B where a list's kernel computes all as they lie
// The result's column that is number `at` of those that the place counts, by its note.
SPC_DEVICE int spc_noted_column(const spc_tile_place &place, int at) {
  const int number = (at - place.n0) / spc_run_columns;
  int begin = place.run[0];
#pragma unroll
  for (int r = 1; r < 4; r++) begin = number == r ? place.run[r] : begin;
  return begin + (at - place.n0) % spc_run_columns;
}

// K tiles of a tile: [begin, end); part number `part` of so many that share it.
struct spc_k_share { int begin, end; };
SPC_DEVICE spc_k_share spc_part_of_k(int steps, int part, int parts) { return {steps * part / parts, steps * (part + 1) / parts}; }

// Of tiles_m x tiles_n tiles of tall x wide elements.
SPC_DEVICE spc_tile_place spc_place_number(spc_u32 number, int m, int n, int tiles_m, int tiles_n, int tall, int wide, int raster) {
  spc_tile_place place;
  place.m = m, place.n = n;
  int tile = (int)(number % (spc_u32)(tiles_m * tiles_n));
  place.batch = number / (spc_u32)(tiles_m * tiles_n);
  int group = tile / (raster * tiles_n), first = group * raster;
  int height = min(raster, tiles_m - first), rest = tile - first * tiles_n;
  place.m0 = (first + rest % height) * tall;
  place.n0 = rest / height * wide;
  return place;
}
template <class Config>
SPC_DEVICE spc_tile_place spc_place_tile(const spc_args &args, spc_u32 number, int raster = Config::raster) {
  int m = (int)Config::m(args), n = (int)Config::n(args);
  int tiles_m = (m + Config::tile_m - 1) / Config::tile_m, tiles_n = (n + Config::tile_n - 1) / Config::tile_n;
  return spc_place_number(number, m, n, tiles_m, tiles_n, Config::tile_m, Config::tile_n, raster);
}
