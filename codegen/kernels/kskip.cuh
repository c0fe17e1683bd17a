// kskip.cuh - products of few rows of A that read only the rows of B whose k some row of A has a use for (skip.cuh).
//
//     look       warps take runs of 256 k's by turns, 8 a lane, and note in shared memory which are not zero in all rows of
//                the tile, and A there; as many as there is room for
//     multiply   of 8 rows: a warp takes 64 columns and 16 of the noted k's at a time by mma.sync; where the tile is wider,
//                warps share what all of them noted.  Of one row: eight lanes take 64 columns of a k by multiply-adds
//     the end    sums are added in shared memory in a fixed order, epilogue, store
#pragma once
#include "spc/skip.cuh"

SPC_DEVICE int spc_warp() { return (int)threadIdx.x / 32; }
SPC_DEVICE int spc_lane() { return (int)threadIdx.x % 32; }

// Eight elements, of which the first `valid` are inside; where rows are aligned all are, or none.
template <bool Kept, class T> SPC_DEVICE void spc_fetch(spc_u32 (&to)[4], const T *from, long long valid, bool aligned) {
  if (aligned) {
    if constexpr (Kept) ptx_load_kept_16_if(to, from, valid > 0);
    else ptx_load_16_if(to, from, valid > 0);
  } else {
#pragma unroll
    for (int w = 0; w < 4; w++)
      to[w] = (2 * w < valid ? from[2 * w].bits : 0u) | (2 * w + 1 < valid ? (spc_u32)from[2 * w + 1].bits << 16 : 0u);
  }
}

// ---- look --------------------------------------------------------------------------------------------------------
template <int Rows> struct spc_noted_values { typedef uint4 type; }; // of 8 rows
template <> struct spc_noted_values<1> { typedef unsigned short type; };

template <class Config> struct spc_noted {
  using T = typename Config::A;
  static constexpr int rows = Config::tile_m, warps = Config::threads / 32, step = 16;
  using values_type = typename spc_noted_values<rows>::type;
  static constexpr int run = 256, ahead = rows == 1 ? 4 : 2; // k's that a warp looks at; runs together
  static constexpr int room = 512;                           // k's that a warp has room for
  static constexpr int bytes = warps * room * (4 + rows * 2);
  static_assert(Config::tile_k == run && (rows == 1 || rows == 8), "a warp looks at 256 k's of 1 or 8 rows");
  static_assert(Config::layout_a == 'r' && sizeof(T) == 2, "a lane looks at 8 k's of 16 bits, side by side");

  values_type *values; // [warp][room]: A there
  int *k_of;           // [warp][room]: up to the next sixteen -1, and zeros there
  int *counts;         // [warp]

  __device__ __forceinline__ spc_noted(char *shared, int *counted)
      : values((values_type *)shared), k_of((int *)(shared + warps * room * rows * 2)), counts(counted) {}

  // Bit e: element e is not zero in all rows; -0 is zero.
  SPC_DEVICE int mask_of(const spc_u32 (&chunk)[rows][4]) {
    int mask = 0;
#pragma unroll
    for (int w = 0; w < 4; w++) {
      spc_u32 any = 0;
#pragma unroll
      for (int r = 0; r < rows; r++) any |= chunk[r][w] & 0x7fff7fffu;
      mask |= ((any & 0xffffu ? 1 : 0) | (any >> 16 ? 2 : 0)) << 2 * w;
    }
    return mask;
  }
  // Element e of all rows.
  SPC_DEVICE values_type take(const spc_u32 (&chunk)[rows][4], int e) {
    if constexpr (rows == 1) {
      return (unsigned short)(chunk[0][e / 2] >> e % 2 * 16);
    } else {
      const spc_u32 half = e % 2 ? 0x7632 : 0x5410;
      return make_uint4(__byte_perm(chunk[0][e / 2], chunk[1][e / 2], half), __byte_perm(chunk[2][e / 2], chunk[3][e / 2], half),
                        __byte_perm(chunk[4][e / 2], chunk[5][e / 2], half), __byte_perm(chunk[6][e / 2], chunk[7][e / 2], half));
    }
  }
  // The run's first elements of all lanes, then their second ones, ...; false: there is no room for all.
  __device__ __forceinline__ bool note(const spc_u32 (&chunk)[rows][4], int k, int &count) const {
    int mask = mask_of(chunk), all = 0;
    spc_u32 lanes[8];
#pragma unroll
    for (int e = 0; e < 8; e++) lanes[e] = ptx_ballot(mask >> e & 1), all += __popc(lanes[e]);
    if (count + all > room) return false;
#pragma unroll
    for (int e = 0; e < 8; e++) {
      if (mask >> e & 1) {
        int at = spc_warp() * room + count + __popc(lanes[e] & ((1u << spc_lane()) - 1));
        values[at] = take(chunk, e);
        k_of[at] = k + e;
      }
      count += __popc(lanes[e]);
    }
    return true;
  }
  // Looks from k on until there is no more or no room, and moves k; whether there is more.
  __device__ __forceinline__ bool look(const spc_args &args, const spc_tile_place &place, int &k) const {
    spc_matrix<T> a = {Config::a(args, place.batch), Config::pitch_a(args)};
    bool aligned = spc_matrix<T>::is_aligned(a), more = true, fits = true;
    int extent = (int)Config::k(args), count = 0;
#pragma unroll 1
    while (more && fits) {
      spc_u32 chunk[ahead][rows][4];
#pragma unroll
      for (int i = 0; i < ahead; i++)
#pragma unroll
        for (int r = 0; r < rows; r++) {
          int at = k + i * warps * run;
          spc_fetch<true>(chunk[i][r], a.origin + (place.m0 + r) * a.pitch + at, place.m0 + r < place.m ? extent - at : 0, aligned);
        }
#pragma unroll
      for (int i = 0; i < ahead; i++)
        if (fits && more && (fits = note(chunk[i], k, count))) {
          k += warps * run;
          more = k - spc_lane() * 8 < extent;
        }
    }
    int at = spc_warp() * room + count + spc_lane();
    if (count + spc_lane() < (count + step - 1) / step * step) k_of[at] = -1, values[at] = values_type{};
    if (spc_lane() == 0) counts[spc_warp()] = count;
    return more;
  }
};

// ---- multiply ----------------------------------------------------------------------------------------------------
// 8 rows.  With g = lane / 4 and t = lane % 4 a lane loads the columns 8 g .. 8 g + 7, 16 bytes, of the k's 2 t, 2 t + 1,
// 2 t + 8 and 2 t + 9 among sixteen: what row g of the instruction's first operand wants, for column 8 g + j in its j'th turn,
// lies in the lane's own registers in two rows, and a permutation of bytes puts it together.  Rows of A are its columns.
template <class Config, int Rows = Config::tile_m> struct spc_kskip_sums {
  using T = typename Config::A;
  using noted_k = spc_noted<Config>;
  static constexpr int warps = noted_k::warps, step = noted_k::step, room = noted_k::room;
  static constexpr int width = 64, across = Config::tile_n / width; // columns of a warp, warps side by side
  static constexpr int groups = warps / across, steps = 4;          // warps that share k; steps of loads under way
  static_assert(Config::tile_n % width == 0 && warps % across == 0, "a warp multiplies 64 columns");

  float sum[4][4]; // column j or j + 4 of the lane's eight, rows 2 t and 2 t + 1

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int j = 0; j < 4; j++)
#pragma unroll
      for (int e = 0; e < 4; e++) sum[j][e] = 0;
  }
  // The pair of elements of column c in two rows of B.
  SPC_DEVICE spc_u32 pair(const spc_u32 (&low)[4], const spc_u32 (&high)[4], int c) {
    return __byte_perm(low[c / 2], high[c / 2], c % 2 ? 0x7632 : 0x5410);
  }
  // The pair of row g of A at two noted k's.
  SPC_DEVICE spc_u32 values_at(const noted_k &noted, int at) {
    const unsigned short *from = (const unsigned short *)(noted.values + at) + spc_lane() / 4;
    return from[0] | (spc_u32)from[8] << 16;
  }
  __device__ __forceinline__ void multiply_step(const noted_k &noted, const spc_u32 (&row)[4][4], int at) {
    int first = at + spc_lane() % 4 * 2;
    spc_u32 low = values_at(noted, first), high = values_at(noted, first + 8);
#pragma unroll
    for (int j = 0; j < 4; j++) {
      spc_u32 columns[4] = {pair(row[0], row[1], j), pair(row[0], row[1], j + 4), pair(row[2], row[3], j), pair(row[2], row[3], j + 4)};
      spc_mma(sum[j], columns, low, high, T());
    }
  }
  // What this warp has noted, or where warps lie side by side, every so many'th of them.
  __device__ __forceinline__ void multiply(const noted_k &noted, const spc_args &args, const spc_tile_place &place) {
    spc_matrix<T> b = {Config::b(args, place.batch), Config::pitch_b(args)};
    int t = spc_lane() % 4, n = place.n0 + spc_warp() % across * width + spc_lane() / 4 * 8;
    bool aligned = spc_matrix<T>::is_aligned(b);
    int list = spc_warp() / across, at = 0;
    auto settle = [&] { // at the next step, or past the last list
      while (list < warps && at >= noted.counts[list]) list = across == 1 ? warps : list + groups, at = 0;
    };
    settle();
#pragma unroll 1
    while (list < warps) {
      spc_u32 row[steps][4][4];
      int places[steps];
#pragma unroll
      for (int i = 0; i < steps; i++) {
        bool there = list < warps;
        places[i] = there ? list * room + at : -1;
#pragma unroll
        for (int q = 0; q < 4; q++) {
          int k = there ? noted.k_of[places[i] + 2 * t + q % 2 + q / 2 * 8] : -1;
          spc_fetch<false>(row[i][q], b.origin + (long long)max(k, 0) * b.pitch + n, k < 0 ? 0 : place.n - n, aligned);
        }
        at += step;
        settle();
      }
#pragma unroll
      for (int i = 0; i < steps; i++)
        if (places[i] >= 0) multiply_step(noted, row[i], places[i]);
    }
  }
  __device__ __forceinline__ void leave(float *partial) const { // [group][row][column]
    int column = spc_warp() % across * width + spc_lane() / 4 * 8, first = spc_warp() / across * 8 + spc_lane() % 4 * 2;
#pragma unroll
    for (int j = 0; j < 4; j++)
#pragma unroll
      for (int e = 0; e < 4; e++) partial[(first + e % 2) * Config::tile_n + column + j + e / 2 * 4] = sum[j][e];
  }
};

// One row: four k's at once, each by eight lanes of 8 columns.
template <class Config> struct spc_kskip_sums<Config, 1> {
  using T = typename Config::A;
  using noted_k = spc_noted<Config>;
  static constexpr int across = 1, lanes = 8, at_once = 32 / lanes, groups = noted_k::warps * at_once, loads = 8;
  static_assert(Config::tile_n == 64, "eight lanes multiply 64 columns");

  float sum[8];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int c = 0; c < 8; c++) sum[c] = 0;
  }
  __device__ __forceinline__ void multiply(const noted_k &noted, const spc_args &args, const spc_tile_place &place) {
    spc_matrix<T> b = {Config::b(args, place.batch), Config::pitch_b(args)};
    int n = place.n0 + spc_lane() % lanes * 8, count = noted.counts[spc_warp()], list = spc_warp() * noted_k::room;
    bool aligned = spc_matrix<T>::is_aligned(b);
#pragma unroll 1
    for (int first = 0; first < count; first += loads * at_once) {
      spc_u32 row[loads][4];
      float x[loads];
#pragma unroll
      for (int i = 0; i < loads; i++) {
        int at = first + i * at_once + spc_lane() / lanes, k = at < count ? noted.k_of[list + at] : -1;
        spc_fetch<false>(row[i], b.origin + (long long)max(k, 0) * b.pitch + n, k < 0 ? 0 : place.n - n, aligned);
        x[i] = k < 0 ? 0 : spc_get(T{noted.values[list + at]});
      }
#pragma unroll
      for (int i = 0; i < loads; i++)
#pragma unroll
        for (int c = 0; c < 8; c++) sum[c] += x[i] * spc_get(T{(unsigned short)(row[i][c / 2] >> c % 2 * 16)});
    }
  }
  __device__ __forceinline__ void leave(float *partial) const { // [group][column]
    float *to = partial + (int)threadIdx.x / lanes * Config::tile_n + spc_lane() % lanes * 8;
#pragma unroll
    for (int c = 0; c < 8; c += 4) *(float4 *)(to + c) = make_float4(sum[c], sum[c + 1], sum[c + 2], sum[c + 3]);
  }
};

template <class Config> SPC_DEVICE void spc_kskip(const spc_args &args) {
  using noted_k = spc_noted<Config>;
  using all_sums = spc_kskip_sums<Config>;
  const int all = Config::tile_m * Config::tile_n;
  static_assert(Config::layout_b == 'r', "a row of B is a k");
  static_assert(Config::shared_bytes >= noted_k::bytes && noted_k::bytes >= all_sums::groups * all * 4, "what is noted and the sums need room");
  extern __shared__ __align__(1024) char spc_shared[];
  __shared__ int counts[noted_k::warps];
  if (Config::guarded && spc_not_meant(Config::verdict(args), Config::dense_branch)) return;
  spc_tile_place place = spc_place_tile<Config>(args, blockIdx.x);
  noted_k noted(spc_shared, counts);
  all_sums sums;
  int k = spc_warp() * noted_k::run + spc_lane() * 8;
  sums.clear();
#pragma unroll 1
  for (bool more = true; more;) {
    more = noted.look(args, place, k);
    if (all_sums::across > 1) more = __syncthreads_or(more);
    else __syncwarp();
    sums.multiply(noted, args, place);
    if (all_sums::across > 1) __syncthreads(); // what is noted may be written over
    else __syncwarp();
  }
  __syncthreads();
  float *partial = (float *)spc_shared;
  sums.leave(partial);
  __syncthreads();
#pragma unroll 1
  for (int i = (int)threadIdx.x; i < all; i += Config::threads) {
    int m = place.m0 + i / Config::tile_n, n = place.n0 + i % Config::tile_n;
    if (m >= place.m || n >= place.n) continue;
    float sum = 0;
#pragma unroll
    for (int g = 0; g < all_sums::groups; g++) sum += partial[g * all + i];
    spc_skip_store<Config>(args, place, m, n, Config::epilogue(args, sum, m, n, place.batch));
  }
}
