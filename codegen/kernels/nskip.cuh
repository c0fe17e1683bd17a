// nskip.cuh - products of few rows of A whose other columns are zeros: only the rows of B that are asked for are read (skip.cuh).
#pragma once
#include "spc/skip.cuh"

// ---- columns that a row of the result asks for -----------------------------------------------------------------
template <class Config> struct spc_skip_part : Config {
  static constexpr int tile_n = 16; // columns that are multiplied at once
};

// The tile's columns that are asked for, in order; the others are zeros.  Returns how many.
template <class Config> SPC_DEVICE int spc_find_columns(const spc_args &args, const spc_tile_place &place, int *listed) {
  static_assert(Config::tile_n <= Config::threads, "a thread asks about one column");
  __shared__ int counts[Config::threads / 32];
  int column = (int)threadIdx.x, n = place.n0 + column, warp = column / 32, before = 0, all = 0;
  bool inside = column < Config::tile_n && n < place.n, asked = false;
#pragma unroll
  for (int r = 0; r < Config::tile_m; r++)
    if (inside && place.m0 + r < place.m) asked |= Config::asked(args, place.m0 + r, n);
  spc_u32 bits = ptx_ballot(asked);
  if (column % 32 == 0) counts[warp] = __popc(bits);
  if (inside && !asked)
    for (int m = place.m0; m < min(place.m, place.m0 + Config::tile_m); m++) spc_skip_store<Config>(args, place, m, n, 0.0f);
  __syncthreads();
#pragma unroll
  for (int w = 0; w < Config::threads / 32; w++) {
    if (w < warp) before += counts[w];
    all += counts[w];
  }
  if (asked) listed[before + __popc(bits & ((1u << column % 32) - 1))] = n;
  __syncthreads();
  return all;
}

template <class Config> struct spc_nskip_part {
  using part = spc_skip_part<Config>;
  using stream = spc_stream_sums<part>;
  using T = typename Config::A;
  static constexpr int ahead = 8; // turns whose loads are under way: most of the rows that a turn has room for are not there

  // This thread's two rows of B, and its row of A; those behind the last are zeros.
  SPC_DEVICE void load(typename stream::turn &t, const spc_matrix<T> &a, const spc_matrix<T> &b, const spc_tile_place &p,
                       const int (&row)[2], int k, int extent, bool aligned) {
    int g = (int)threadIdx.x % 32 / 4;
#pragma unroll
    for (int i = 0; i < 2; i++)
      stream::fetch(t.b[i], b.origin + (long long)max(row[i], 0) * b.pitch + k, row[i] < 0 ? 0 : extent - k, aligned, false);
    stream::fetch(t.a, a.origin + min(p.m0 + g, p.m - 1) * a.pitch + k, p.m0 + g < p.m ? extent - k : 0, aligned, true);
  }
  template <int Ahead>
  SPC_DEVICE void run(stream &sums, const spc_args &args, const spc_tile_place &place, const int (&row)[2], bool aligned) {
    spc_matrix<T> a = {Config::a(args, place.batch), Config::pitch_a(args)}, b = {Config::b(args, place.batch), Config::pitch_b(args)};
    int extent = (int)Config::k(args), begin = (int)threadIdx.x % 4 * 8;
#pragma unroll 1
    for (int k = (int)threadIdx.x / 32 * 32 + begin; k - begin < extent; k += Ahead * stream::step) {
      typename stream::turn t[Ahead];
#pragma unroll
      for (int i = 0; i < Ahead; i++) load(t[i], a, b, place, row, k + i * stream::step, extent, aligned);
#pragma unroll
      for (int i = 0; i < Ahead; i++) sums.multiply(t[i]);
    }
  }
};

template <class Config> SPC_DEVICE void spc_nskip(const spc_args &args) {
  using skip = spc_nskip_part<Config>;
  using stream = typename skip::stream;
  const int width = skip::part::tile_n, tile = Config::tile_m * width;
  static_assert(Config::shared_bytes >= stream::warps * tile * 4 + Config::tile_n * 4, "the sums and the columns need room");
  extern __shared__ __align__(1024) char spc_shared[];
  float *partial = (float *)spc_shared; // [warp][row][column]
  int *listed = (int *)(partial + stream::warps * tile);
  if (Config::guarded && spc_not_meant(Config::verdict(args), Config::dense_branch)) return;
  spc_tile_place place = spc_place_tile<Config>(args, blockIdx.x);
  int count = spc_find_columns<Config>(args, place, listed), g = (int)threadIdx.x % 32 / 4;
  bool aligned = ((((spc_u64)Config::a(args, place.batch) | (spc_u64)Config::b(args, place.batch)) & 15) |
                  ((Config::pitch_a(args) | Config::pitch_b(args)) & 7)) == 0;
#pragma unroll 1
  for (int first = 0; first < count; first += width) {
    stream sums;
    int row[2];
#pragma unroll
    for (int e = 0; e < 4; e++) sums.sum[e] = 0;
#pragma unroll
    for (int i = 0; i < 2; i++) row[i] = first + g + 8 * i < count ? listed[first + g + 8 * i] : -1;
    if (aligned) skip::template run<skip::ahead>(sums, args, place, row, true);
    else skip::template run<1>(sums, args, place, row, false);
    sums.each([&](int r, int column, float sum) { partial[(int)threadIdx.x / 32 * tile + r * width + column] = sum; });
    __syncthreads();
#pragma unroll 1
    for (int i = (int)threadIdx.x; i < tile; i += Config::threads) {
      int m = place.m0 + i / width, at = first + i % width;
      if (m >= place.m || at >= count) continue;
      float sum = 0;
#pragma unroll
      for (int w = 0; w < stream::warps; w++) sum += partial[w * tile + i];
      spc_skip_store<Config>(args, place, m, listed[at], Config::epilogue(args, sum, m, listed[at], place.batch));
    }
    __syncthreads();
  }
}
