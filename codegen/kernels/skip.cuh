// skip.cuh - few rows against a large B, of which zeros leave little: a block looks at the zeros of its own tile.
//
//     kskip    T[m][n] = e(sum[k] A[m][k] * B[k][n])     rows of B where one of the tile's rows of A is not zero
//     nskip    T[m][n] = e(sum[k] A[m][k] * B[n][k])     rows of B where one of the tile's rows says that T is asked for;
//                                                        what nobody asks for is zero
//
// There is no list in memory: with few rows of A looking is a small part of reading B, and where nothing is zero all of B is read, as it
// would be without looking.  Each tile of rows reads B for itself, though: where there are several a dense branch stands behind them,
// and a sample of what is asked for decides.  The rows that were found keep their order, so the same input gives the
// same bits.
#pragma once
#include "spc/stream.cuh"

// What does not depend on the launch before is reckoned before it has ended.
template <class Config> SPC_DEVICE void spc_skip_waits() {
  if (Config::joined) return;
  if (Config::holds || Config::announces) ptx_wait_grid();
  else ptx_follow_grid();
}

template <class Config> SPC_DEVICE void spc_skip_store(const spc_args &args, const spc_tile_place &place, int m, int n, float value) {
  using T = typename Config::T;
  T *to = Config::t(args, place.batch);
  long long pitch = Config::pitch_t(args);
  to[Config::layout_t == 'r' ? m * pitch + n : n * pitch + m] = spc_put_as<T>::from(value);
}
