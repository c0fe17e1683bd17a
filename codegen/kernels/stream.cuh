// stream.cuh - few rows of A against all of B: memory binds, so B goes straight into the multiply's registers.
//
//     a block    8 rows of A, all of k, which its warps take by turns: 32 k's and 16 columns of B[n][k]; 16 k's and 64 of B[k][n]
//     a warp     16 bytes a lane from B, many loads under way, mma.sync on them as they are; A from the L1 cache
//     the end    sums of the warps are added in shared memory in the order of the warps, epilogue, store
//
// The sum over k has no order that an operand could lie in wrongly: a lane's consecutive k's are dealt to the instruction's
// places, on both operands alike; rows of A are its columns.  With g = lane / 4 and t = lane % 4:
//     B[n][k]    a lane holds the k's 8 t .. 8 t + 7 of the warp's 32; columns g and g + 8 of B are the instruction's 16 rows
//     B[k][n]    the k's 4 t .. 4 t + 3 of 16 and the columns 8 g .. 8 g + 7 of 64: what a row of the instruction wants lies in the
//                lane's own registers, in two rows of B, and a permutation of bytes puts it together
// Rows that are not aligned are loaded element by element.  Nothing is kept for another block: each byte of B is read once.
#pragma once
#include "spc/guard.cuh"
#include "spc/multiply_mma.cuh"
#include "spc/place.cuh"

// Eight elements from `from` on, of which the first `valid` are inside.
template <class T> SPC_DEVICE void spc_stream_fetch(spc_u32 (&to)[4], const T *from, long long valid, bool aligned, bool kept) {
  if (aligned) {
    if (kept) ptx_load_kept_16_if(to, from, valid > 0);
    else ptx_load_16_if(to, from, valid > 0);
  } else {
#pragma unroll
    for (int w = 0; w < 4; w++)
      to[w] = (2 * w < valid ? from[2 * w].bits : 0u) | (2 * w + 1 < valid ? (spc_u32)from[2 * w + 1].bits << 16 : 0u);
  }
}

template <class Config, char LayoutB = Config::layout_b> struct spc_stream_sums {
  using T = typename Config::A;
  static constexpr int own = 32, lane_k = 8;                             // k's of a warp's turn, of a lane's
  static constexpr int warps = Config::threads / 32, step = own * warps; // of all warps' turn
  static constexpr int ahead = 4;                                        // turns whose loads are under way
  static_assert(Config::tile_m == 8 && Config::tile_n == 16 && Config::tile_k == step, "a warp multiplies 8 rows by 16 columns");
  static_assert(Config::layout_a == 'r' && Config::layout_b == 'c' && sizeof(T) == 2, "operands are 16-bit and have k contiguous");
  static_assert(Config::shared_bytes >= warps * Config::tile_m * Config::tile_n * 4, "the warps' sums need room");

  float sum[4];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int e = 0; e < 4; e++) sum[e] = 0;
  }
  // One turn's operands.
  struct turn { spc_u32 a[4], b[2][4]; };

  // Rows and columns beyond the last are computed as the last, and never looked at.
  __device__ __forceinline__ void load(turn &t, const spc_matrix<T> &a, const spc_matrix<T> &b, const spc_tile_place &p,
                                       int k, int extent, bool aligned) {
    int g = (int)threadIdx.x % 32 / 4;
#pragma unroll
    for (int i = 0; i < 2; i++)
      spc_stream_fetch(t.b[i], b.origin + min(p.n0 + g + 8 * i, p.n - 1) * b.pitch + k, extent - k, aligned, false);
    spc_stream_fetch(t.a, a.origin + min(p.m0 + g, p.m - 1) * a.pitch + k, p.m0 < p.m ? extent - k : 0, aligned, true);
  }
  __device__ __forceinline__ void multiply(const turn &t) {
#pragma unroll
    for (int s = 0; s < 2; s++) {
      spc_u32 columns[4] = {t.b[0][2 * s], t.b[1][2 * s], t.b[0][2 * s + 1], t.b[1][2 * s + 1]};
      spc_mma(sum, columns, t.a[2 * s], t.a[2 * s + 1], T());
    }
  }
  // visit(row, column, sum) of the tile for every sum that this thread holds.
  template <class Visit> __device__ __forceinline__ void each(Visit visit) const {
    int g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
#pragma unroll
    for (int e = 0; e < 4; e++) visit(2 * t + e % 2, g + e / 2 * 8, sum[e]);
  }
};

template <class Config> struct spc_stream_sums<Config, 'r'> {
  using T = typename Config::A;
  static constexpr int own = 16, lane_k = 4;                             // k's of a warp's turn, of a lane's
  static constexpr int warps = Config::threads / 32, step = own * warps; // of all warps' turn
  static constexpr int ahead = 2;                                        // turns whose loads are under way
  static_assert(Config::tile_m == 8 && Config::tile_n == 64 && Config::tile_k == step, "a warp multiplies 8 rows by 64 columns");
  static_assert(Config::layout_a == 'r' && sizeof(T) == 2, "operands are 16-bit, and A has k contiguous");
  static_assert(Config::shared_bytes >= warps * Config::tile_m * Config::tile_n * 4, "the warps' sums need room");

  float sum[4][4]; // columns j and j + 4 of the lane's eight

  struct turn { spc_u32 a[2], b[4][4]; };

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < 16; i++) sum[i / 4][i % 4] = 0;
  }
  // Rows beyond the last are computed as the last, and never looked at; columns beyond it, and k's, are zeros.
  __device__ __forceinline__ void load(turn &t, const spc_matrix<T> &a, const spc_matrix<T> &b, const spc_tile_place &p,
                                       int k, int extent, bool aligned) {
    int g = (int)threadIdx.x % 32 / 4, n = p.n0 + 8 * g;
#pragma unroll
    for (int q = 0; q < 4; q++)
      spc_stream_fetch(t.b[q], b.origin + (long long)min(k + q, extent - 1) * b.pitch + n, k + q < extent ? p.n - n : 0, aligned, false);
    const T *row = a.origin + min(p.m0 + g, p.m - 1) * a.pitch + k;
    int inside = p.m0 < p.m ? extent - k : 0;
    if (aligned) {
      ptx_load_kept_8_if(t.a, row, inside > 0);
    } else {
#pragma unroll
      for (int w = 0; w < 2; w++)
        t.a[w] = (2 * w < inside ? row[2 * w].bits : 0u) | (2 * w + 1 < inside ? (spc_u32)row[2 * w + 1].bits << 16 : 0u);
    }
  }
  // The pair of elements of column c in two rows of B.
  SPC_DEVICE spc_u32 pair(const spc_u32 (&low)[4], const spc_u32 (&high)[4], int c) {
    return __byte_perm(low[c / 2], high[c / 2], c % 2 ? 0x7632 : 0x5410);
  }
  __device__ __forceinline__ void multiply(const turn &t) {
#pragma unroll
    for (int j = 0; j < 4; j++) {
      spc_u32 columns[4] = {pair(t.b[0], t.b[1], j), pair(t.b[0], t.b[1], j + 4), pair(t.b[2], t.b[3], j), pair(t.b[2], t.b[3], j + 4)};
      spc_mma(sum[j], columns, t.a[0], t.a[1], T());
    }
  }
  // visit(row, column, sum) of the tile for every sum that this thread holds.
  template <class Visit> __device__ __forceinline__ void each(Visit visit) const {
    int g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < 16; i++) visit(2 * t + i % 2, 8 * g + i / 4 + i % 4 / 2 * 4, sum[i / 4][i % 4]);
  }
};

// This warp's share of k, with `ahead` turns of loads under way.
template <class Config>
SPC_DEVICE void spc_stream_k(spc_stream_sums<Config> &sums, const spc_tile_place &place, const spc_args &args) {
  using stream = spc_stream_sums<Config>;
  using T = typename Config::A;
  spc_matrix<T> a = {Config::a(args, place.batch), Config::pitch_a(args)};
  spc_matrix<T> b = {Config::b(args, place.batch), Config::pitch_b(args)};
  int extent = (int)Config::k(args), lane = (int)threadIdx.x % 4 * stream::lane_k, k = (int)threadIdx.x / 32 * stream::own + lane;
  bool aligned = spc_matrix<T>::is_aligned(a) && spc_matrix<T>::is_aligned(b);
  sums.clear();
  if (!aligned) {
#pragma unroll 1
    for (; k - lane < extent; k += stream::step) {
      typename stream::turn t;
      sums.load(t, a, b, place, k, extent, false);
      sums.multiply(t);
    }
    return;
  }
#pragma unroll 1
  for (; k - lane < extent; k += stream::ahead * stream::step) {
    typename stream::turn t[stream::ahead];
#pragma unroll
    for (int i = 0; i < stream::ahead; i++) sums.load(t[i], a, b, place, k + i * stream::step, extent, true);
#pragma unroll
    for (int i = 0; i < stream::ahead; i++) sums.multiply(t[i]);
  }
}

// What the warps have summed is added up in their order, and stored.
template <class Config, class Stream> SPC_DEVICE void spc_stream_store(const Stream &sums, const spc_tile_place &place, const spc_args &args) {
  using T = typename Config::T;
  const int tile = Config::tile_m * Config::tile_n;
  extern __shared__ __align__(1024) char spc_shared[];
  float *partial = (float *)spc_shared; // [warp][row][column]
  auto at = [](int row, int column) { return row * Config::tile_n + (column ^ (row & 6)); }; // lanes of a warp hold pairs of rows
  sums.each([&](int row, int column, float sum) {
    if (place.m0 + row < place.m) partial[(int)threadIdx.x / 32 * tile + at(row, column)] = sum;
  });
  __syncthreads();
  T *to = Config::t(args, place.batch);
  long long pitch = Config::pitch_t(args);
#pragma unroll 1
  for (int i = (int)threadIdx.x; i < tile; i += Config::threads) {
    int m = place.m0 + i / Config::tile_n, n = place.n0 + i % Config::tile_n;
    if (m >= place.m || n >= place.n) continue;
    float sum = 0;
#pragma unroll
    for (int w = 0; w < Stream::warps; w++) sum += partial[w * tile + at(i / Config::tile_n, i % Config::tile_n)];
    to[Config::layout_t == 'r' ? m * pitch + n : n * pitch + m] =
        spc_put_as<T>::from(Config::epilogue(args, sum, m, n, place.batch));
  }
}

template <class Config> SPC_DEVICE void spc_stream(const spc_args &args) {
  static_assert(!Config::gathers && !Config::detects, "a streaming product has no list and makes no bits");
  if (spc_not_meant<Config>(args)) return;
  spc_tile_place place = spc_place_tile<Config>(args, blockIdx.x);
  spc_stream_sums<Config> sums;
  spc_stream_k<Config>(sums, place, args);
  spc_stream_store<Config>(sums, place, args);
}
