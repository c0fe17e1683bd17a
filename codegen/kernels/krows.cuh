// krows.cuh - of each block of k the rows that hold anything in it are listed, and what they hold there is brought side by side.
//
//     counts  i32 [sections][blocks]         how many rows of a section hold anything in a block of 64 k's
//     ids     i32 [blocks][pitch]            of each block, and of each section from its first row's place on: these rows' numbers in the section, ascending
//     packed  [blocks][pitch][64]            what they hold: each row 128 bytes, whose chunks of 16 are swizzled by its number there (panel.cuh)
//
// pitch: rows, up to a multiple of eight.  One launch, a block a section and block of k, unless a sample says that too many pieces of 1 x 64 hold
// something: eight lanes a piece, which stays in registers until its place is known; blocks need nothing from one another.
// Config names: those of detect.cuh, a strip being a block of k; section, rows_packed.
#pragma once
#include "spc/detect.cuh"

SPC_DEVICE spc_u32 spc_krows_pitch(long long rows) { return ((spc_u32)rows + 7) / 8 * 8; }

// Pieces of one row and 64 k's, 16 bytes a lane.
template <class Config> struct spc_row_pieces {
  using V = typename Config::V;
  static constexpr int chunk = 16 / (int)sizeof(V), lanes = 8;
  static_assert(sizeof(V) == 2 && Config::strip == lanes * chunk, "a piece is a memory line");
  const V *from;
  long long pitch;
  int rows, extent;
  bool aligned; // chunks lie inside wholly, or outside

  __device__ __forceinline__ explicit spc_row_pieces(const spc_args &args)
      : from(Config::values(args)), pitch(Config::pitch(args)), rows((int)Config::axis_extent(args)), extent((int)Config::strip_extent(args)) {
    aligned = Config::strip_is_contiguous && extent % chunk == 0 && (((spc_u64)from | (spc_u64)pitch * sizeof(V)) & 15) == 0;
  }
  SPC_DEVICE bool any(uint4 v) { return (((v.x | v.z) & spc_non_zero<V>::even) | ((v.y | v.w) & spc_non_zero<V>::odd)) != 0; }
  __device__ __forceinline__ uint4 at(int row, int k) const { return row < rows && k < extent ? ptx_load_16(from + row * pitch + k) : make_uint4(0, 0, 0, 0); }
  // The same element by element: any alignment.
  __device__ __forceinline__ uint4 at_slowly(const spc_args &args, int row, int k) const {
    union { V element[chunk]; uint4 whole; } v;
    v.whole = make_uint4(0, 0, 0, 0);
#pragma unroll
    for (int e = 0; e < chunk; e++)
      if (row < rows && k + e < extent) v.element[e] = from[row * pitch + (k + e) * Config::strip_pitch(args)];
    return v.whole;
  }
  // Of a vote the eight of this lane's piece.
  SPC_DEVICE bool piece(spc_u32 votes) { return (votes >> (threadIdx.x & 24) & 255) != 0; }
};

// Of one row in each equal share of them a piece; their shares of k go round, so that all of it is looked at.  Every block takes the same sample.  Who goes on
// and finds dense after all has made a list in vain: the sample has to promise more than a tie.
template <class Config> SPC_DEVICE bool spc_pieces_are_many(const spc_args &args, const spc_row_pieces<Config> &pieces) {
  using rows_of = spc_row_pieces<Config>;
  const int looks = 8, samples = Config::threads / rows_of::lanes * looks, at_least = 4 * samples;
  const spc_u32 blocks = ((spc_u32)pieces.extent + Config::strip - 1) / Config::strip;
  if ((spc_u64)(spc_u32)pieces.rows * blocks < at_least) return false;
  const double promise = 0.95, threshold = promise * Config::threshold(args);
  uint4 seen[looks]; // all asked for before the first is waited for
#pragma unroll
  for (int i = 0; i < looks; i++) {
    const spc_u32 number = i * (Config::threads / rows_of::lanes) + threadIdx.x / rows_of::lanes;
    const spc_u32 row = spc_place_in(number, samples, (spc_u32)pieces.rows, spc_hash(number)), block = spc_place_in(number * 61 % samples, samples, blocks, spc_other_hash(number));
    seen[i] = pieces.at((int)row, (int)(block * Config::strip + threadIdx.x % rows_of::lanes * rows_of::chunk));
  }
  int mine = 0; // alike in all lanes of a warp
#pragma unroll
  for (int i = 0; i < looks; i++) {
    const spc_u32 votes = ptx_ballot(rows_of::any(seen[i]));
    mine += __popc(ptx_ballot((threadIdx.x & 7) == 0 && rows_of::piece(votes)));
  }
  return spc_decide<Config>(args, spc_sum_sample<Config>(0, {mine, 0}).x, samples, threshold);
}

// As spc_sample_values (detect.cuh).
template <class Config> SPC_DEVICE bool spc_sample_krows(const spc_args &args) {
  spc_clear_verdict<Config>(args);
  const spc_row_pieces<Config> pieces(args);
  return pieces.aligned && spc_pieces_are_many<Config>(args, pieces);
}

template <class Config> SPC_DEVICE void spc_list_krows(const spc_args &args) {
  using rows_of = spc_row_pieces<Config>;
  const int passes = Config::section * rows_of::lanes / Config::threads, apart = Config::threads / rows_of::lanes, words = Config::section / 32;
  static_assert(Config::section % apart == 0 && Config::threads >= 32 && words <= 32, "a warp counts a section's words");
  __shared__ spc_u32 live[words]; // a bit a row
  __shared__ int before[words];   // rows of the words before
  if (spc_not_meant<Config>(args)) return;
  if constexpr (Config::decides)
    if (spc_asks_first<Config>(args, [&] { return spc_sample_krows<Config>(args); })) return;
  const rows_of pieces(args);
  const int mine = (int)threadIdx.x, chunk = mine % rows_of::lanes, strips = (int)Config::strips(args), section = (int)blockIdx.x / max(strips, 1), block = (int)blockIdx.x - section * strips;
  const int first = section * Config::section + mine / rows_of::lanes, k = block * Config::strip + chunk * rows_of::chunk;
  if (mine < words) live[mine] = 0;
  uint4 v[passes];
  if (pieces.aligned)
#pragma unroll
    for (int p = 0; p < passes; p++) v[p] = pieces.at(first + p * apart, k);
  else
#pragma unroll
    for (int p = 0; p < passes; p++) v[p] = pieces.at_slowly(args, first + p * apart, k);
  __syncthreads();
#pragma unroll
  for (int p = 0; p < passes; p++) {
    const spc_u32 votes = ptx_ballot(rows_of::any(v[p])); // of four rows
    const int row = p * apart + mine / rows_of::lanes;
    spc_u32 four = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) four |= (votes >> 8 * i & 255) ? 1u << i : 0;
    if (mine % 32 == 0 && four) atomicOr(&live[row / 32], four << row % 32);
  }
  __syncthreads();
  if (mine < 32) {
    const int here = mine < words ? __popc(live[mine]) : 0;
    int sum = here;
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
      const int other = __shfl_up_sync(~0u, sum, d);
      if (mine >= d) sum += other;
    }
    if (mine < words) before[mine] = sum - here;
    if (mine == 31 && strips > 0) Config::counts(args)[blockIdx.x] = sum;
  }
  __syncthreads();
  const long long begin = (long long)block * spc_krows_pitch(pieces.rows) + section * Config::section;
#pragma unroll
  for (int p = 0; p < passes; p++) {
    const int row = p * apart + mine / rows_of::lanes;
    const spc_u32 word = live[row / 32];
    if (!(word >> row % 32 & 1)) continue;
    const int at = before[row / 32] + __popc(word & ((1u << row % 32) - 1));
    ((uint4 *)(Config::rows_packed(args) + (begin + at) * Config::strip))[chunk ^ (at & 7)] = v[p];
    if (chunk == 0) Config::ids(args)[begin + at] = row;
  }
}
