// live.cuh - rows that hold anything are listed, and brought side by side.
//
//     bits    u32 [words]           bit i % 32 of word i / 32: row i holds a non-zero
//     told    i32 [words]           how many of the word's rows do, as its block tells the others (detect.cuh)
//     counts  i32 [1], ids [rows]   how many rows do, and which, ascending
//     packed  [rows][row]           these rows, one after the other
//
// One launch, unless a sample says that too many rows hold something: a block a word of bits, a warp a row or a few.  A row that holds something is known by its
// first non-zero: only the others are read to their ends, while its own beginning is brought.  When the block knows how many rows the words before it have,
// it knows where its own go.  What is packed moves by box afterwards, as fast as a matrix that has no zeros; it is as many bytes as the rows have, twice.
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
  if constexpr (Config::rows_may_be_sparse) { // a row that holds something here and there would be found empty too often
    const int found_something = __syncthreads_count(found), trusted = looks / 2;
    if (found_something < trusted * many) many = samples;
  }
  return spc_decide<Config>(args, many, samples, threshold);
}

// As spc_sample_values (detect.cuh).
template <class Config> SPC_DEVICE bool spc_sample_live(const spc_args &args) {
  spc_clear_verdict<Config>(args);
  spc_whole_rows<Config> rows(args);
  return rows.aligned && spc_rows_are_many<Config>(args, rows);
}

// A row that holds something, to its place among the packed ones, by a warp: what is brought of it before that is known, by who has one row alone, and the rest.
template <class Config> struct spc_live_row {
  using whole = spc_whole_rows<Config>;
  using V = typename Config::V;
  static constexpr int warps = Config::threads / 32, each = 32 / warps; // rows of a warp
  static constexpr bool alone = each == 1;
  static constexpr int here = alone ? whole::batch * whole::step : 0; // elements that are brought
  static_assert(each * warps == 32, "a block's warps have a word's rows, each as many");
  uint4 begun[alone ? whole::batch : 1];

  __device__ __forceinline__ void bring(const whole &rows, int row) {
    if constexpr (alone)
#pragma unroll
      for (int i = 0; i < whole::batch; i++) begun[i] = rows.at(row, i * whole::step);
#pragma unroll 1
    for (int c = here + rows.lane() * (128 / (int)sizeof(V)); c < rows.extent; c += 32 * 128 / (int)sizeof(V))
      ptx_prefetch_l2(rows.from - rows.lane() * rows.chunk + row * rows.pitch + c);
  }
  static __device__ __forceinline__ void put(const whole &rows, V *to, int column, const uint4 (&v)[whole::batch]) {
#pragma unroll
    for (int i = 0; i < whole::batch; i++) {
      const int at = column + i * whole::step + rows.lane() * whole::chunk;
      if (at < rows.extent) *(uint4 *)(to + at) = v[i];
    }
  }
  __device__ __forceinline__ void move(const spc_args &args, const whole &rows, int row, int at) const {
    V *to = Config::rows_packed(args) + (long long)at * rows.extent;
    if (!rows.aligned) {
#pragma unroll 1
      for (int c = rows.lane(); c < rows.extent; c += 32) to[c] = Config::values(args)[row * rows.pitch + c * Config::strip_pitch(args)];
      return;
    }
    if constexpr (alone) put(rows, to, 0, begun);
#pragma unroll 1
    for (int c = here; c < rows.extent; c += whole::batch * whole::step) {
      uint4 v[whole::batch];
#pragma unroll
      for (int i = 0; i < whole::batch; i++) v[i] = rows.at(row, c + i * whole::step);
      put(rows, to, c, v);
    }
  }
};

template <class Config> SPC_DEVICE void spc_list_live(const spc_args &args) {
  using row_of = spc_live_row<Config>;
  const int each = row_of::each, warps = row_of::warps;
  __shared__ bool live[32];
  __shared__ int before; // rows of the words before this one
  if (spc_not_meant<Config>(args)) return;
  const spc_whole_rows<Config> rows(args);
  const int mine = (int)threadIdx.x, warp = mine / 32, number = (int)blockIdx.x, words = (rows.rows + 31) / 32;
  if (number > max(words - 1, 0)) return; // of a launch that has blocks for another list
  uint4 first = rows.aligned ? rows.at(number * 32 + warp, 0) : make_uint4(0, 0, 0, 0); // comes while the sample does
  if constexpr (Config::decides)
    if (spc_asks_first<Config>(args, [&] { return spc_sample_live<Config>(args); })) return;
  row_of own;
#pragma unroll 1
  for (int i = 0; i < each; i++) {
    const int row = number * 32 + i * warps + warp;
    if (i > 0 && rows.aligned) first = rows.at(row, 0);
    const bool found = rows.aligned ? rows.find(row, first) : rows.find_slowly(args, row);
    if (found && rows.aligned) own.bring(rows, row);
    if (rows.lane() == 0) live[i * warps + warp] = found;
  }
  if (mine == 0) before = 0;
  __syncthreads();
  const spc_u32 bits = ptx_ballot(live[rows.lane()]);
  const int here = __popc(bits);
  int *told = Config::told(args);
  if (mine == 0 && number < words) ptx_store_told(told + number, here | spc_is_told), Config::bits(args)[number] = bits;
  if (warp * 32 < number) {
    int sum = 0;
#pragma unroll 1
    for (int i = mine; i < number; i += Config::threads) sum += spc_hear(told + i);
    sum = (int)__reduce_add_sync(~0u, (spc_u32)sum);
    if (rows.lane() == 0) atomicAdd(&before, sum);
  }
  __syncthreads();
  if (number == max(words - 1, 0) && mine == 0) {
    Config::counts(args)[0] = before + here;
    if constexpr (Config::decides) spc_decide<Config>(args, before + here, rows.rows, Config::threshold(args), false, true);
  }
#pragma unroll 1
  for (int i = 0; i < each; i++) {
    const int bit = i * warps + warp, row = number * 32 + bit, at = before + __popc(bits & ((1u << bit) - 1));
    if (!(bits >> bit & 1)) continue;
    if (rows.lane() == 0) Config::ids(args)[at] = row;
    own.move(args, rows, row, at);
  }
}
