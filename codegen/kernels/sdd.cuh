// sdd.cuh - a result that is stored in blocks: which there are, and where they lie (sampled dense-dense products).
//
//     T[m][n] = e(sum[k] A[m][k] * B[k][n])   in the blocks that `pos` and `crd` name
//
// T's blocks of strip x gran elements follow one another in memory, each whole and row by row; a strip is a row of blocks, whose
// stored columns stand side by side in its tiles (sread of B's columns), and each run of 64 goes where its block lies (swrite).  A
// block that reaches over the matrix's edge is zero there.
#pragma once
#include "spc/place.cuh"

// How many blocks a strip has.
template <class Config> SPC_DEVICE int spc_sdd_count(const spc_args &args, int strip) {
  return Config::pos(args)[strip + 1] - Config::pos(args)[strip];
}
// The number of the block that stored column `at` of the place's strip is in.
template <class Config> SPC_DEVICE int spc_sdd_block(const spc_args &args, const spc_tile_place &place, int at) {
  return Config::pos(args)[place.m0 / Config::strip] + at / Config::gran;
}
// The matrix's column that it is: of a block's padding too.
template <class Config> SPC_DEVICE int spc_sdd_column(const spc_args &args, const spc_tile_place &place, int at) {
  return Config::crd(args)[spc_sdd_block<Config>(args, place, at)] * Config::gran + at % Config::gran;
}
// Where row m's element in it lies among the values; past the last column as the last.
template <class Config> SPC_DEVICE long long spc_sdd_at(const spc_args &args, const spc_tile_place &place, int m, int at) {
  at = min(at, place.n - 1);
  return ((long long)spc_sdd_block<Config>(args, place, at) * Config::strip + m % Config::strip) * Config::gran + at % Config::gran;
}
