// live.cuh - rows that hold anything are listed, and brought side by side.
//
//     bits    u32 [words]           bit i % 32 of word i / 32: row i holds a non-zero
//     counts  i32 [1], ids [rows]   how many rows do, and which, ascending
//     packed  [rows][row]           these rows, one after the other
//
//     detect_live   values -> bits, unless a sample says that too many rows hold something
//     pack_live     bits -> the verdict, ids and packed rows
//
// A row that holds something is known by its first non-zero: only the others are read to their ends.  What is packed moves by
// box afterwards, as fast as a matrix that has no zeros; it is as many bytes as the rows have, twice.
// Config names: those of detect.cuh, a strip being a whole row; rows_packed.
#pragma once
#include "spc/detect.cuh"

// Rows are contiguous: a warp has 16 bytes a lane of one, side by side.
template <class Config> struct spc_whole_rows {
  using V = typename Config::V;
  static constexpr int chunk = 16 / (int)sizeof(V), step = 32 * chunk, batch = 8; // elements of a load; loads under way
  const V *from; // of this lane
  long long pitch;
  int rows, extent;
  bool aligned;

  __device__ __forceinline__ explicit spc_whole_rows(const spc_args &args)
      : pitch(Config::pitch(args)), rows((int)Config::axis_extent(args)), extent((int)Config::strip_extent(args)) {
    from = Config::values(args) + lane() * chunk;
    aligned = Config::strip_is_contiguous && extent % chunk == 0 &&
              (((spc_u64)Config::values(args) | (spc_u64)pitch * sizeof(V)) & 15) == 0;
  }
  SPC_DEVICE int lane() { return (int)threadIdx.x & 31; }
  SPC_DEVICE bool any(uint4 v) {
    return (((v.x | v.z) & spc_non_zero<V>::even) | ((v.y | v.w) & spc_non_zero<V>::odd)) != 0;
  }
  // This lane's part of the load that begins at `column`; zeros outside.
  __device__ __forceinline__ uint4 at(int row, int column) const {
    return row < rows && column + lane() * chunk < extent ? ptx_load_16(from + row * pitch + column) : make_uint4(0, 0, 0, 0);
  }
  // Whether the row holds anything, by a whole warp; `first`: what lies at its beginning.
  __device__ __forceinline__ bool find(int row, uint4 first) const {
    bool found = ptx_ballot(any(first)) != 0;
#pragma unroll 1
    for (int c = step; c < extent && !found; c += batch * step) {
      uint4 v[batch];
      bool some = false;
#pragma unroll
      for (int i = 0; i < batch; i++) v[i] = at(row, c + i * step);
#pragma unroll
      for (int i = 0; i < batch; i++) some |= any(v[i]);
      found = ptx_ballot(some) != 0;
    }
    return found;
  }
  // The same element by element: any alignment, any layout.
  __device__ __forceinline__ bool find_slowly(const spc_args &args, int row) const {
    bool found = false;
#pragma unroll 1
    for (int c = 0; c < extent && !found; c += 32)
      found = ptx_ballot(row < rows && c + lane() < extent && Config::is_set(args, c + lane(), row)) != 0;
    return found;
  }
};

// Of one row in each equal share of them a few places.  Every block takes the same sample.  A row that was found empty may not
// be: dense is not said in vain.
template <class Config> SPC_DEVICE bool spc_rows_are_many(const spc_args &args, const spc_whole_rows<Config> &rows) {
  const int looks = 4, samples = Config::threads / looks, at_least = 4;
  if (rows.rows < samples * at_least || rows.extent < rows.chunk) return false;
  double threshold = Config::threshold(args);
  spc_u32 share = (spc_u32)rows.rows / samples, number = threadIdx.x / looks, row = number * share + __umulhi(spc_hash(number), share);
  spc_u32 column = spc_place_in(threadIdx.x % looks, looks, (spc_u32)rows.extent / rows.chunk, spc_other_hash(number)) * rows.chunk;
  bool found = rows.any(ptx_load_16(Config::values(args) + row * rows.pitch + column));
  spc_u32 votes = ptx_ballot(found) >> (rows.lane() & ~(looks - 1)) & ((1u << looks) - 1);
  int many = __syncthreads_count(threadIdx.x % looks == 0 && votes != 0);
  return spc_decide<Config>(args, many, samples, threshold);
}

// As spc_sample_values (detect.cuh).
template <class Config> SPC_DEVICE bool spc_sample_live(const spc_args &args) {
  spc_clear_verdict<Config>(args);
  spc_whole_rows<Config> rows(args);
  return rows.aligned && spc_rows_are_many<Config>(args, rows);
}

// A warp a row, a block a word of bits.
template <class Config> SPC_DEVICE void spc_detect_live(const spc_args &args) {
  static_assert(Config::threads == 32 * 32, "a block has as many warps as a word has bits");
  __shared__ bool live[32];
  if (spc_not_meant<Config>(args)) return;
  spc_whole_rows<Config> rows(args);
  int warp = (int)threadIdx.x / 32, row = (int)blockIdx.x * 32 + warp;
  uint4 first = rows.aligned ? rows.at(row, 0) : make_uint4(0, 0, 0, 0); // comes while the sample does
  if constexpr (Config::decides)
    if (spc_asks_first<Config>(args, [&] { return spc_sample_live<Config>(args); })) return;
#pragma unroll 1
  for (int word = (int)blockIdx.x; word * 32 < rows.rows; word += (int)gridDim.x, row = word * 32 + warp) {
    if (word != (int)blockIdx.x && rows.aligned) first = rows.at(row, 0);
    bool found = rows.aligned ? rows.find(row, first) : rows.find_slowly(args, row);
    if (rows.lane() == 0) live[warp] = found;
    __syncthreads();
    if (warp == 0) {
      spc_u32 bits = ptx_ballot(live[rows.lane()]);
      if (rows.lane() == 0) Config::bits(args)[word] = bits;
    }
    __syncthreads();
  }
}

// A row to its place among the packed ones, by a warp.
template <class Config> SPC_DEVICE void spc_pack_row(const spc_args &args, const spc_whole_rows<Config> &rows, int row, int at) {
  using V = typename Config::V;
  using whole = spc_whole_rows<Config>;
  V *to = Config::rows_packed(args) + (long long)at * rows.extent;
  if (!rows.aligned) {
#pragma unroll 1
    for (int c = rows.lane(); c < rows.extent; c += 32)
      to[c] = Config::values(args)[row * rows.pitch + c * Config::strip_pitch(args)];
    return;
  }
#pragma unroll 1
  for (int c = 0; c < rows.extent; c += whole::batch * whole::step) {
    uint4 v[whole::batch];
#pragma unroll
    for (int i = 0; i < whole::batch; i++) v[i] = rows.at(row, c + i * whole::step);
#pragma unroll
    for (int i = 0; i < whole::batch; i++) {
      int column = c + i * whole::step + rows.lane() * whole::chunk;
      if (column < rows.extent) *(uint4 *)(to + column) = v[i];
    }
  }
}

// A block a word of bits, which counts those before it; all blocks see the same bits and take the same decision.
template <class Config> SPC_DEVICE void spc_pack_live(const spc_args &args) {
  __shared__ int before_sums[32], all_sums[32], sampled;
  if (spc_not_meant<Config>(args)) return;
  spc_whole_rows<Config> rows(args);
  int warp = (int)threadIdx.x / 32, words = (rows.rows + 31) / 32, mine = (int)blockIdx.x, before = 0, all = 0;
  if constexpr (Config::decides)
    if (threadIdx.x == 0) sampled = spc_says_dense(Config::verdict(args)); // one thread, for another block may write it anew
#pragma unroll 1
  for (int w = (int)threadIdx.x; w < words; w += Config::threads) {
    int set = __popc(Config::bits(args)[w]);
    all += set, before += w < mine ? set : 0;
  }
#pragma unroll
  for (int d = 16; d; d /= 2) before += __shfl_xor_sync(~0u, before, d), all += __shfl_xor_sync(~0u, all, d);
  if (rows.lane() == 0) before_sums[warp] = before, all_sums[warp] = all;
  __syncthreads();
  before = 0, all = 0;
#pragma unroll
  for (int w = 0; w < Config::threads / 32; w++) before += before_sums[w], all += all_sums[w];
  if constexpr (Config::decides) {
    if (sampled) return;
    if (spc_decide<Config>(args, all, rows.rows, Config::threshold(args)) && Config::lists_guarded) return;
  }
  if (mine == 0 && threadIdx.x == 0) Config::counts(args)[0] = all;
  spc_u32 bits = mine < words ? Config::bits(args)[mine] : 0;
  if (!(bits >> warp & 1)) return;
  int at = before + __popc(bits & ((1u << warp) - 1));
  if (rows.lane() == 0) Config::ids(args)[at] = mine * 32 + warp;
  spc_pack_row<Config>(args, rows, mine * 32 + warp, at);
}
