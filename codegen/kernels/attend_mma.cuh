// attend_mma.cuh - attention by mma.sync (sm_80 and later): a row's softmax over scores of pairs, times V, in one kernel.
//
//     s[m,n] = score(sum_d q[m,d] k[n,d])       t[m,e] = epilogue(sum_n exp(s[m,n] - max s) / sum exp * v[n,e])
//
// A block has tile_m rows of q, a warp a share of them, and walks the columns that they see, tile_n at a time (FlashAttention-2,
// Dao 2023).  Scores and weights stay in registers: the sums of the first product are, packed, a factor of the second.
//
//     copies     q, k 0 | v 0             | k 1                  | v 1             ...
//     multiply          | q k 0, score    | softmax, weights v 0 | q k 1, score
//                     barrier           barrier                barrier
//
// Rows of any pitch, alignment and length: in shared memory they are whole chunks, zeros behind, and an odd number of chunks apart,
// so that eight rows of one chunk column lie in eight different bank groups and every ldmatrix has a constant distance from the first.
// The values leave by way of shared memory, in f32, so that the epilogue is a loop's body.
#pragma once
#include "spc/attend_softmax.cuh"
#include "spc/multiply_mma.cuh"

// Rows of `Elements` 16-bit elements in shared memory.
template <int Elements> struct spc_head_panel {
  static constexpr int columns = (Elements + 15) / 16 * 16, chunks = columns / 8; // of a product's steps
  static constexpr int pitch = (chunks + 1) * 16; // bytes
  SPC_DEVICE int chunk_at(int row, int chunk) { return row * pitch + chunk * 16; }
};

// Copies rows of an operand, by all threads; zeros from row `end` on and behind a row's last element.
template <class T, int Elements, int Threads> struct spc_head_loader {
  using panel = spc_head_panel<Elements>;
  static constexpr int wide = panel::chunks % 8 == 0 ? 8 : panel::chunks % 4 == 0 ? 4 : 2; // threads side by side on a row
  static constexpr int slabs = panel::chunks / wide, step = Threads / wide;                // their steps along it; rows at once

  spc_matrix<T> source;
  int grain; // bytes that every row's start is a multiple of, of 16, 8, 4 and 2

  __device__ __forceinline__ spc_head_loader(const T *origin, long long pitch) : source{origin, pitch} {
    int low = (int)((spc_u64)origin | (spc_u64)pitch * sizeof(T)) & 15;
    grain = low ? low & -low : 16;
  }
  template <int Rows> __device__ __forceinline__ void load(char *shared, int row0, int end) const {
    if (Elements % 8 == 0 && (Rows % step == 0 || step % Rows == 0) && grain == 16 && row0 + Rows <= end) {
      int first = (int)threadIdx.x / wide, chunk = (int)threadIdx.x % wide;
      const T *from = source.origin + (row0 + first) * source.pitch + chunk * 8;
      spc_u32 to = spc_shared_address(shared + panel::chunk_at(first, chunk));
      if (step > Rows && first >= Rows) return;
#pragma unroll
      for (int p = 0; p < Rows; p += step, from += step * source.pitch)
#pragma unroll
        for (int s = 0; s < slabs; s++) {
          bool behind = Elements % 16 && s == slabs - 1 && chunk == wide - 1; // the last chunk is no row's
          ptx_copy_async_16(to + panel::chunk_at(p, s * wide), behind ? source.origin : from + s * wide * 8, behind ? 0 : 16);
        }
    } else {
#pragma unroll 1
      for (int i = (int)threadIdx.x; i < Rows * panel::chunks; i += Threads) {
        int row = i / panel::chunks, chunk = i % panel::chunks;
        int valid = row0 + row < end ? min(max(Elements - chunk * 8, 0), 8) : 0;
        const T *from = valid ? source.origin + (row0 + row) * source.pitch + chunk * 8 : source.origin;
        load_chunk(shared + panel::chunk_at(row, chunk), from, valid);
      }
    }
  }
  __device__ __forceinline__ void load_chunk(char *to, const T *from, int valid) const {
    spc_u32 at = spc_shared_address(to);
    if (grain == 16) ptx_copy_async_16(at, from, valid * 2);
    else if (grain == 8)
#pragma unroll
      for (int i = 0; i < 8; i += 4) ptx_copy_async_8(at + i * 2, valid > i ? from + i : from, min(max(valid - i, 0), 4) * 2);
    else if (grain == 4)
#pragma unroll
      for (int i = 0; i < 8; i += 2) ptx_copy_async_4(at + i * 2, valid > i ? from + i : from, min(max(valid - i, 0), 2) * 2);
    else if (valid == 8) *(uint4 *)to = chunk_at_any(from);
    else spc_copy_chunk_slowly(to, from, valid);
  }
  // Eight elements of a row that starts anywhere, by words: of those that begin or end within a word, halves.
  SPC_DEVICE uint4 chunk_at_any(const T *from) {
    bool odd = (spc_u64)from & 2;
    const unsigned short *half = (const unsigned short *)from;
    const spc_u32 *word = (const spc_u32 *)(half + odd);
    spc_u32 before = odd ? (spc_u32)half[0] << 16 : 0, w0 = word[0], w1 = word[1], w2 = word[2], w3 = odd ? half[7] : word[3];
    spc_u32 shift = odd ? 16 : 0;
    return make_uint4(__funnelshift_l(before, w0, shift), __funnelshift_l(w0, w1, shift), __funnelshift_l(w1, w2, shift),
                      __funnelshift_l(w2, w3, shift));
  }
};

template <class Config> struct spc_attend_parts {
  using F = typename Config::F;
  using rows_of_k = spc_head_panel<Config::head>;
  using rows_of_v = spc_head_panel<Config::head_v>;
  using load_k = spc_head_loader<F, Config::head, Config::threads>;
  using load_v = spc_head_loader<F, Config::head_v, Config::threads>;
  static constexpr int rows = Config::tile_m / (Config::threads / 32), blocks = rows / 16; // of a warp
  static constexpr int k_at = Config::tile_m * rows_of_k::pitch, v_at = k_at + Config::tile_n * rows_of_k::pitch;
  static constexpr int loaded_bytes = v_at + Config::tile_n * rows_of_v::pitch;
  static constexpr int staged_pitch = rows_of_v::columns * 4 + 32; // of sums; the pad spreads banks
  static constexpr int staged_bytes = Config::tile_m * staged_pitch;
  static constexpr int shared_bytes = loaded_bytes > staged_bytes ? loaded_bytes : staged_bytes;
  static_assert(sizeof(F) == 2, "mma.sync m16n8k16 takes bf16 or f16 operands");
  static_assert(rows > 0 && rows % 16 == 0 && rows * (Config::threads / 32) == Config::tile_m,
                "a warp's rows must be a multiple of 16");
  static_assert(Config::tile_n % 16 == 0, "a tile's columns must be a multiple of 16");
  static_assert(Config::split == 1, "a tile's columns are one block's");
  static_assert(Config::shared_bytes >= shared_bytes, "shared_bytes is less than the tiles or the staged result need");
};

// A warp's part of a tile.
template <class Config> struct spc_attend_warp {
  using parts = spc_attend_parts<Config>;
  using F = typename Config::F;
  static constexpr int blocks = parts::blocks, columns = Config::tile_n, columns_v = parts::rows_of_v::columns;

  float value[blocks][columns_v / 2]; // sums of the second product; the registers' layout: attend_softmax.cuh
  spc_softmax softmax[blocks];

  SPC_DEVICE int lane() { return (int)threadIdx.x & 31; }
  SPC_DEVICE int row0() { return (int)threadIdx.x / 32 * parts::rows; }
  // The 8 columns that hold register i, of a row of registers.
  template <int Count> SPC_DEVICE float (&block_of(float (&all)[Count], int j))[4] { return (float(&)[4])all[j * 4]; }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int b = 0; b < blocks; b++) {
      softmax[b].clear();
#pragma unroll
      for (int i = 0; i < columns_v / 2; i++) value[b][i] = 0;
    }
  }

  // s = q k
  __device__ __forceinline__ void multiply_qk(float (&s)[blocks][columns / 2], const char *q, const char *k) const {
    using panel = typename parts::rows_of_k;
    int l = lane();
    spc_u32 from_q = spc_shared_address(q + panel::chunk_at(row0() + (l & 15), l >> 4));
    spc_u32 from_k = spc_shared_address(k + panel::chunk_at((l & 7) + (l >> 4) * 8, l >> 3 & 1));
#pragma unroll
    for (int i = 0; i < blocks * columns / 2; i++) s[i / (columns / 2)][i % (columns / 2)] = 0;
#pragma unroll
    for (int d = 0; d < panel::columns; d += 16) {
      spc_u32 a[blocks][4], b[columns / 16][4];
#pragma unroll
      for (int i = 0; i < blocks; i++) ptx_load_matrix(a[i], from_q + panel::chunk_at(i * 16, d / 8));
#pragma unroll
      for (int j = 0; j < columns / 16; j++) ptx_load_matrix(b[j], from_k + panel::chunk_at(j * 16, d / 8));
#pragma unroll
      for (int i = 0; i < blocks; i++)
#pragma unroll
        for (int j = 0; j < columns / 8; j++) spc_mma(block_of(s[i], j), a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1], F());
    }
  }
  // value += weights v
  __device__ __forceinline__ void multiply_v(const float (&s)[blocks][columns / 2], const char *v) {
    using panel = typename parts::rows_of_v;
    int l = lane();
    spc_u32 from = spc_shared_address(v + panel::chunk_at(l & 15, l >> 4));
#pragma unroll
    for (int n = 0; n < columns; n += 16) {
      spc_u32 a[blocks][4];
#pragma unroll
      for (int i = 0; i < blocks * 4; i++) {
        const float *pair = &s[i / 4][n / 2 + i % 4 * 2];
        a[i / 4][i % 4] = spc_pack(pair[0], pair[1], F());
      }
#pragma unroll
      for (int e = 0; e < columns_v; e += 16) {
        spc_u32 b[4];
        ptx_load_matrix_transposed(b, from + panel::chunk_at(n, e / 8));
#pragma unroll
        for (int i = 0; i < blocks; i++) {
          spc_mma(block_of(value[i], e / 8), a[i], b[0], b[1], F());
          spc_mma(block_of(value[i], e / 8 + 1), a[i], b[2], b[3], F());
        }
      }
    }
  }
  __device__ __forceinline__ void score(float (&s)[blocks][columns / 2], const spc_args &args, const spc_attend_place &place,
                                        int n0) const {
#pragma unroll
    for (int b = 0; b < blocks; b++) {
      spc_seen<Config> seen;
      seen.begin(args, place, row0() + b * 16 + lane() / 4);
      seen.fetch(place, n0);
      spc_score_sums<Config, false>(s[b], args, place, row0() + b * 16 + lane() / 4, n0, seen);
    }
  }
  __device__ __forceinline__ void weigh(float (&s)[blocks][columns / 2]) {
    float factor = spc_exponent_factor<Config>();
#pragma unroll
    for (int b = 0; b < blocks; b++) {
      float before[2];
      softmax[b].weigh(s[b], factor, before);
#pragma unroll
      for (int i = 0; i < columns_v / 2; i++) value[b][i] *= before[i / 2 % 2];
    }
  }
  // Means of the warp's rows to where store() looks for them.
  __device__ __forceinline__ void stage(char *shared) const {
    int g = lane() / 4, t = lane() % 4 * 2;
#pragma unroll
    for (int b = 0; b < blocks; b++)
#pragma unroll
      for (int r = 0; r < 2; r++) {
        float share = softmax[b].share(r), *to = (float *)(shared + (row0() + b * 16 + r * 8 + g) * parts::staged_pitch) + t;
#pragma unroll
        for (int j = 0; j < columns_v / 8; j++)
          *(float2 *)(to + j * 8) = make_float2(value[b][j * 4 + r * 2] * share, value[b][j * 4 + r * 2 + 1] * share);
      }
  }
};

// The staged rows of a warp, 16 bytes of the result a lane.
template <class Config> SPC_DEVICE void spc_attend_store(const char *shared, const spc_args &args, const spc_attend_place &place) {
  using parts = spc_attend_parts<Config>;
  using T = typename Config::T;
  const int count = 16 / (int)sizeof(T), chunks = (Config::head_v + count - 1) / count;
  int row0 = (int)threadIdx.x / 32 * parts::rows;
  long long pitch = Config::pitch_t(args);
  T *to = Config::t(args, place.batch) + (place.m0 + row0) * pitch;
  bool aligned = (((spc_u64)to | (spc_u64)pitch * sizeof(T)) & 15) == 0;
#pragma unroll 1
  for (int i = (int)threadIdx.x % 32; i < parts::rows * chunks; i += 32) {
    int row = i / chunks, column = i % chunks * count, m = place.m0 + row0 + row;
    if (m >= place.m1) break;
    const float *from = (const float *)(shared + (row0 + row) * parts::staged_pitch) + column;
    alignas(16) T values[count];
    alignas(16) float means[count];
#pragma unroll
    for (int e = 0; e < count; e += 4) *(float4 *)(means + e) = *(const float4 *)(from + e);
#pragma unroll
    for (int e = 0; e < count; e++)
      values[e] = spc_put_as<T>::from(Config::epilogue(args, means[e], m, min(column + e, Config::head_v - 1), place.batch));
    if (aligned && column + count <= Config::head_v) {
      *(uint4 *)(to + row * pitch + column) = *(const uint4 *)values;
    } else {
#pragma unroll
      for (int e = 0; e < count; e++)
        if (column + e < Config::head_v) to[row * pitch + column + e] = values[e];
    }
  }
}

// Blocks come as others leave: the tiles that have most to do, mostly those of the last rows, come first, of as many batches as the shared cache holds keys
// and values of.
template <class Config> SPC_DEVICE spc_attend_place spc_place_attend(const spc_args &args, spc_u32 tile) {
  const spc_u32 cache = 24u << 20; // bytes
  int m = (int)Config::m(args), n = (int)Config::n(args);
  spc_u32 tiles_m = (spc_u32)(m + Config::tile_m - 1) / Config::tile_m, batches = (spc_u32)Config::tiles(args) / tiles_m;
  spc_u32 kept = n > 0 ? cache / sizeof(typename Config::F) / (Config::head + Config::head_v) / n : batches;
  kept = min(max(kept, 1u), batches);
  spc_u32 first = tile / (kept * tiles_m) * kept, rest = tile % (kept * tiles_m), together = min(kept, batches - first);
  int number = (int)(rest / together);
  return spc_place_rows<Config>(args, (Config::masked ? (int)tiles_m - 1 - number : number) * Config::tile_m, first + rest % together);
}

template <class Config> SPC_DEVICE void spc_attend_mma(const spc_args &args) {
  using parts = spc_attend_parts<Config>;
  using load_k = typename parts::load_k;
  extern __shared__ __align__(1024) char spc_shared[];
  char *q_rows = spc_shared, *k_rows = spc_shared + parts::k_at, *v_rows = spc_shared + parts::v_at;
  ptx_follow_grid();
  spc_u32 tiles = (spc_u32)Config::tiles(args);
#pragma unroll 1
  for (spc_u32 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    spc_attend_place place = spc_place_attend<Config>(args, tile);
    load_k k(Config::k(args, place.batch), Config::pitch_k(args));
    typename parts::load_v v(Config::v(args, place.batch), Config::pitch_v(args));
    spc_attend_warp<Config> warp;
    warp.clear();
    spc_visits<Config> visits;
    visits.begin(args, place);
    int next = visits.next(args, place);
    if (next < place.end) {
      load_k(Config::q(args, place.batch), Config::pitch_q(args)).template load<Config::tile_m>(q_rows, place.m0, place.m1);
      k.template load<Config::tile_n>(k_rows, next, place.end);
      ptx_copy_async_commit();
    }
#pragma unroll 1
    for (int n0 = next; n0 < place.end; n0 = next) {
      float s[parts::blocks][Config::tile_n / 2];
      ptx_copy_async_wait<0>();
      __syncthreads(); // k's are there, all have done with the v's before
      v.template load<Config::tile_n>(v_rows, n0, place.end);
      ptx_copy_async_commit();
      warp.multiply_qk(s, q_rows, k_rows);
      warp.score(s, args, place, n0);
      ptx_copy_async_wait<0>();
      __syncthreads(); // v's are there, all have done with the k's
      next = visits.next(args, place);
      if (next < place.end) k.template load<Config::tile_n>(k_rows, next, place.end);
      ptx_copy_async_commit();
      warp.weigh(s);
      warp.multiply_v(s, v_rows);
    }
    __syncthreads(); // all have done with what was loaded
    warp.stage(spc_shared);
    __syncwarp();
    spc_attend_store<Config>(spc_shared, args, place);
    __syncthreads();
  }
}
