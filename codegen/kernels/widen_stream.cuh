// widen_stream.cuh - few rows of A against all of B[n][k], integers of 8 bits (widen.cuh): stream.cuh with another B.
//
// A lane's 16 bytes are 16 consecutive k's of a column, a warp's turn 64; as there, they are dealt to the instruction's places on
// both operands alike: of four that follow one another the first and the third share a register, and so do the others, which
// leaves B's bytes where masks find them.  Any alignment: rows that are not aligned, and the last k's, are loaded element by element.
#pragma once
#include "spc/stream.cuh"
#include "spc/widen.cuh"

template <class Config> struct spc_widen_stream_sums {
  using A = typename Config::A;
  static constexpr int own = 64, warps = Config::threads / 32, step = own * warps; // k's of a warp's turn, of all warps' turn
  static constexpr int rows = Config::tile_m / 8, columns = Config::tile_n / 16;    // of the instruction's tiles
  static constexpr int ahead = 2;                                                   // turns whose loads are under way
  static_assert(Config::tile_m % 8 == 0 && Config::tile_n % 16 == 0 && Config::tile_k == step, "a warp multiplies 8 rows by 16 columns at a time");
  static_assert(Config::layout_a == 'r' && Config::layout_b == 'c', "operands have k contiguous");
  static_assert(Config::group % own == 0, "a turn's k's share a scale");
  static_assert(Config::shared_bytes >= warps * Config::tile_m * Config::tile_n * 4, "the warps' sums need room");

  float sum[columns][rows][4];

  struct turn { spc_u32 a[rows][2][4], b[columns][2][4]; float scale[columns][2]; };

  SPC_DEVICE int quad() { return (int)threadIdx.x % 32 / 4; }
  // 16 k's from k on, of which some may lie behind the last.
  template <bool Fast> SPC_DEVICE void fetch_b(spc_u32 (&to)[4], const signed char *from, int inside) {
    if constexpr (Fast) ptx_load_16_if(to, from, true);
    else
#pragma unroll
      for (int w = 0; w < 4; w++) {
        to[w] = 0;
#pragma unroll
        for (int e = 0; e < 4; e++)
          if (w * 4 + e < inside) to[w] |= (spc_u32)(unsigned char)from[w * 4 + e] << e * 8;
      }
  }
  template <bool Fast> SPC_DEVICE void fetch_a(spc_u32 (&to)[2][4], const A *from, int inside) {
    if constexpr (Fast) ptx_load_kept_16_if(to[0], from, true), ptx_load_kept_16_if(to[1], from + 8, true);
    else
#pragma unroll
      for (int w = 0; w < 8; w++)
        to[w / 4][w % 4] = (2 * w < inside ? from[2 * w].bits : 0u) | (2 * w + 1 < inside ? (spc_u32)from[2 * w + 1].bits << 16 : 0u);
  }
  // Rows and columns beyond the last are computed as the last, and never looked at.
  template <bool Fast>
  SPC_DEVICE void load(turn &t, const spc_args &args, const spc_matrix<A> &a, const spc_matrix<signed char> &b, const spc_tile_place &p, int k, int extent) {
#pragma unroll
    for (int i = 0; i < 2 * columns; i++) {
      int n = min(p.n0 + quad() + 8 * i, p.n - 1);
      fetch_b<Fast>(t.b[i / 2][i % 2], b.origin + n * b.pitch + k, extent - k);
      if constexpr (Config::group > 0) t.scale[i / 2][i % 2] = Config::scale(args, p.batch, n, min(k, extent - 1) / Config::group);
    }
#pragma unroll
    for (int i = 0; i < rows; i++) fetch_a<Fast>(t.a[i], a.origin + min(p.m0 + quad() + 8 * i, p.m - 1) * a.pitch + k, extent - k);
  }
  // Step s takes k's 4 s .. 4 s + 3 of each lane.
  __device__ __forceinline__ void multiply(const turn &t) {
    float part[columns][rows][4];
#pragma unroll
    for (int i = 0; i < columns * rows * 4; i++) part[i / 4 / rows][i / 4 % rows][i % 4] = 0;
#pragma unroll
    for (int s = 0; s < 4; s++) {
      spc_u32 b[columns][4], a[rows][2];
#pragma unroll
      for (int i = 0; i < columns * 4; i++) b[i / 4][i % 4] = spc_widened(t.b[i / 4][i % 2][s] >> i % 4 / 2 * 8, A());
#pragma unroll
      for (int i = 0; i < rows * 2; i++)
        a[i / 2][i % 2] = __byte_perm(t.a[i / 2][s / 2][s % 2 * 2], t.a[i / 2][s / 2][s % 2 * 2 + 1], i % 2 ? 0x7632 : 0x5410);
#pragma unroll
      for (int i = 0; i < columns; i++)
#pragma unroll
        for (int j = 0; j < rows; j++) spc_mma(Config::group > 0 ? part[i][j] : sum[i][j], b[i], a[j][0], a[j][1], A());
    }
    if constexpr (Config::group > 0)
#pragma unroll
      for (int i = 0; i < columns * rows * 4; i++) {
        int c = i / 4 / rows;
        sum[c][i / 4 % rows][i % 4] += part[c][i / 4 % rows][i % 4] * t.scale[c][i % 4 / 2];
      }
  }
  // This warp's share of k.
  __device__ __forceinline__ void run(const spc_args &args, const spc_tile_place &place) {
    spc_matrix<A> a = {Config::a(args, place.batch), Config::pitch_a(args)};
    spc_matrix<signed char> b = {Config::b(args, place.batch), Config::pitch_b(args)};
    int extent = (int)Config::k(args), first = (int)threadIdx.x / 32 * own, k = (int)threadIdx.x % 4 * 16;
    bool aligned = spc_matrix<A>::is_aligned(a) && spc_matrix<signed char>::is_aligned(b);
#pragma unroll
    for (int i = 0; i < columns * rows * 4; i++) sum[i / 4 / rows][i / 4 % rows][i % 4] = 0;
    if (aligned)
#pragma unroll 1
      for (; first + (ahead - 1) * step + own <= extent; first += ahead * step) {
        turn t[ahead];
#pragma unroll
        for (int i = 0; i < ahead; i++) load<true>(t[i], args, a, b, place, first + i * step + k, extent);
#pragma unroll
        for (int i = 0; i < ahead; i++) multiply(t[i]);
      }
#pragma unroll 1
    for (; first < extent; first += step) {
      turn t;
      if (aligned && first + own <= extent) load<true>(t, args, a, b, place, first + k, extent);
      else load<false>(t, args, a, b, place, first + k, extent);
      multiply(t);
    }
  }
  // visit(row, column, sum) of the tile for every sum that this thread holds.
  template <class Visit> __device__ __forceinline__ void each(Visit visit) const {
    int g = quad(), t = (int)threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < columns * rows * 4; i++) {
      int c = i / 4 / rows, r = i / 4 % rows, e = i % 4;
      visit(r * 8 + 2 * t + e % 2, c * 16 + g + e / 2 * 8, sum[c][r][e]);
    }
  }
};

template <class Config> SPC_DEVICE void spc_widen_stream(const spc_args &args) {
  if (spc_not_meant<Config>(args)) return;
  spc_tile_place place = spc_place_tile<Config>(args, blockIdx.x);
  spc_widen_stream_sums<Config> sums;
  sums.run(args, place);
  spc_stream_store<Config>(sums, place, args);
}
