// blocks.cuh - products of which a list names blocks (sm_90a): k tiles of both operands, or runs of 64 columns of the result.
// All data moves by box, for a block is as wide as one: any layout of the operands will do.
//
//     k blocks   T[m][n] = e(sum over the k tiles that the strip's list names)
//     n blocks   T[m][n] = e(sum[k] ..) in the columns that the strip's list names, Config::fill everywhere else
//
//     sdd        T[m][n] = e(sum[k] ..) in the blocks that T stores (sdd.cuh)
//
// n blocks, sdd: positions in the list are columns side by side in a tile (sread of B's columns), each run of 64 goes back to
// its own place (swrite).  The loading warpgroup's idle warps store what no list names, from the list's bits.
#pragma once
#include "spc/boxes.cuh"
#include "spc/gemm.cuh"

enum { spc_block_columns = spc_run_columns }; // of a box of the result

// ---- k blocks: from bits, where no list is made -----------------------------------------------------------------
// The cover of all strips against the break-even, by every block for itself: all see the same bits.  `room`: 64 words of shared
// memory.  Returns whether dense is meant; a sample may have said so.
template <class Config> SPC_DEVICE bool spc_decide_from_bits(const spc_args &args, spc_u32 *room) {
  const spc_u32 warps = Config::threads / 32, most = Config::threads * 16;
  spc_u32 strips = (spc_u32)Config::strips(args), words = (spc_u32)Config::bit_words(args), all = strips * words;
  spc_u32 step = max((all + most - 1) / most, 1u), set = 0;
  int sample = threadIdx.x == 0 ? spc_verdict(Config::verdict(args)) : 0; // one thread, for another block may write it anew
  if (threadIdx.x == 0) room[0] = sample > 0;
#pragma unroll 4
  for (spc_u32 i = threadIdx.x * step; i < all; i += Config::threads * step) set += __popc(Config::bits(args)[i]);
#pragma unroll
  for (int d = 16; d; d /= 2) set += __shfl_xor_sync(~0u, set, d);
  if (threadIdx.x % 32 == 0) room[1 + threadIdx.x / 32] = set;
  __syncthreads();
  if (room[0]) {
    spc_report(args, Config::reported, sample);
    return true;
  }
  spc_u32 sum = 0;
#pragma unroll
  for (spc_u32 w = 0; w < warps; w++) sum += room[1 + w];
  double looked = all ? (double)((all + step - 1) / step) / (double)all : 1;
  bool dense = spc_decide<Config>(args, sum, looked * strips * (double)Config::capacity(args), Config::threshold(args));
  if (threadIdx.x == 0) // what a plan reads back
    for (spc_u32 s = blockIdx.x; s < strips; s += gridDim.x) {
      int count = 0;
      for (spc_u32 w = 0; w < words; w++) count += __popc(Config::bits(args)[s * words + w]);
      Config::counts(args)[s] = count;
    }
  return dense;
}

// The blocks of a strip one after the other; past the last one outside.
template <class Config, bool Own = Config::own_lists> struct spc_bits_walk {};
template <class Config> struct spc_bits_walk<Config, true> {
  const spc_u32 *bits;
  spc_u32 now, ahead; // what is left of this word; the next one
  int word, words, none;
  __device__ __forceinline__ void begin(const spc_args &args, int strip) {
    words = (int)Config::bit_words(args), none = (int)Config::capacity(args), word = 0;
    bits = Config::bits(args) + (spc_u64)(spc_u32)strip * (spc_u32)words;
    now = words > 0 ? __ldg(bits) : 0, ahead = words > 1 ? __ldg(bits + 1) : 0;
  }
  __device__ __forceinline__ int next() {
    while (!now && word + 1 < words) {
      now = ahead;
      word++;
      ahead = word + 1 < words ? __ldg(bits + word + 1) : 0;
    }
    if (!now) return none;
    int at = word * 32 + __ffs((int)now) - 1;
    now &= now - 1;
    return at;
  }
};

// ---- k blocks: which k tile is number i of a tile's ------------------------------------------------------------
template <class Config, bool Blocks = Config::k_blocks> struct spc_k_order {
  __device__ __forceinline__ spc_k_order(const spc_args &, const spc_tile_place &, bool) {}
  __device__ __forceinline__ int next(int i) { return i * Config::tile_k; }
};
template <class Config> struct spc_k_order<Config, true> {
  static constexpr int tiles = Config::gran / Config::tile_k; // of a block
  static_assert(Config::gran % Config::tile_k == 0, "a block must be whole k tiles");
  const int *ids;
  int count, id; // blocks; the next one
  bool all;      // dense is meant: one after the other
  spc_bits_walk<Config> walk;
  __device__ __forceinline__ spc_k_order(const spc_args &args, const spc_tile_place &place, bool whole) {
    all = Config::own_dense && whole;
    if (all) return;
    if constexpr (Config::own_lists) {
      walk.begin(args, place.m0 / Config::strip);
      id = walk.next();
      return;
    }
    spc_list list = spc_list_of<Config>(args, place.m0 / Config::strip, 0);
    ids = list.ids, count = list.count;
    id = count > 0 ? __ldg(ids) : (int)Config::capacity(args); // an empty list has one k tile, outside: zeros
  }
  // Called for i = 0, 1, ...: the block that comes next is asked for before it is needed.
  __device__ __forceinline__ int next(int i) {
    if (all) return i * Config::tile_k;
    int at = id * Config::gran + i % tiles * Config::tile_k, block = i / tiles + 1;
    if constexpr (Config::own_lists) {
      if (i % tiles == tiles - 1) id = walk.next();
      return at;
    }
    if (i % tiles == tiles - 1 && block < count) id = __ldg(ids + block);
    return at;
  }
};

// ---- n blocks --------------------------------------------------------------------------------------------------
// The result's column where the box at column `at` of those that the place counts begins; past the list it lies outside.
template <class Config> SPC_DEVICE int spc_find_box_column(const spc_args &args, const spc_tile_place &place, int at) {
  if constexpr (!Config::n_blocks) return at;
  else if (at >= place.n) return (int)Config::n(args);
  else if constexpr (Config::sdd) return spc_sdd_column<Config>(args, place, at);
  else return spc_listed_column<Config>(args, place, at);
}
// The same of a tile at hand: where its note tells, nobody asks memory for the list a second time, box by box.
template <class Config> SPC_DEVICE int spc_box_column_at(const spc_args &args, const spc_tile_place &place, int at) {
  if constexpr (Config::n_blocks && Config::narrow > 0) return spc_noted_column(place, at);
  else return spc_find_box_column<Config>(args, place, at);
}

// B's share of a slot: a box for each run of 64 columns.  Where they begin a whole warp finds out, and one thread asks for them: lanes would do so one
// after the other, each with instructions of its own.
template <class Config> struct spc_listed_boxes {
  using panel = typename spc_boxes<Config>::b;
  static constexpr bool rows_are_k = Config::layout_b == 'r';
  static constexpr int runs = Config::tile_n / spc_block_columns, run_bytes = panel::bytes / runs;
  static_assert(Config::tile_n % spc_block_columns == 0 && Config::gran % spc_block_columns == 0,
                "a tile and a block must be whole boxes");
  static_assert(rows_are_k ? panel::width == spc_block_columns : panel::slabs == 1, "a run must be one box");
  int column[runs], brought; // runs: where a tile may be narrow those alone that it has
  __device__ __forceinline__ int bytes() const { return brought * run_bytes; }
  // all: of columns as they lie.
  __device__ __forceinline__ spc_listed_boxes(const spc_args &args, const spc_tile_place &place, bool all)
      : brought(Config::narrow > 0 ? min(runs, (place.n - place.n0 + spc_block_columns - 1) / spc_block_columns) : runs) {
    const int lane = (int)threadIdx.x & 31, at = place.n0 + lane * spc_block_columns;
    const int mine = lane >= runs ? 0 : Config::own_dense && all ? min(at, (int)Config::n(args)) : spc_find_box_column<Config>(args, place, at);
#pragma unroll
    for (int r = 0; r < runs; r++) column[r] = __shfl_sync(0xffffffffu, mine, r);
  }
  __device__ __forceinline__ void load(spc_u32 to, const spc_tensor_map *map, spc_u32 full, int k) const {
#pragma unroll
    for (int r = 0; r < runs; r++)
      if (r < brought) ptx_tma_load<0>(to + r * run_bytes, map, full, rows_are_k ? column[r] : k, rows_are_k ? k : column[r], {{0, 0, 0}});
  }
};

// What no list names: 16 bytes a lane, rows of 32 blocks by turns of all idle warps of the grid.  meanwhile: ns that others multiply, over the
// greater part of which the turns are spread; 0: at once.
template <class Config> SPC_DEVICE void spc_fill_unlisted(const spc_args &args, int warp, int warps, float meanwhile) {
  const float part = 0.6f, shortest = 100, longest = 2000; // ns of a pause
  using T = typename Config::T;
  const int chunk = 16 / (int)sizeof(T), wide = 32 * Config::gran;
  static_assert(Config::layout_t == 'r', "what is filled must be contiguous along the listed axis");
  spc_u32 words = (spc_u32)Config::bit_words(args), rows = (spc_u32)Config::m(args);
  int n = (int)Config::n(args);
  long long pitch = Config::pitch_t(args);
  alignas(16) T element[chunk];
#pragma unroll
  for (int i = 0; i < chunk; i++) element[i] = spc_put_as<T>::from(Config::fill());
  uint4 fill = *(const uint4 *)element;
  const spc_u32 all = rows * words, step = gridDim.x * (spc_u32)warps, lane = threadIdx.x & 31;
  const float each = part * meanwhile / (float)max((all + step - 1) / step, 1u);
  const spc_u32 pause = each < shortest ? 0 : (spc_u32)fminf(each, longest);
#pragma unroll 1
  for (spc_u32 i0 = blockIdx.x * (spc_u32)warps + (spc_u32)warp; i0 < all; i0 += 32 * step) {
    spc_u32 mine = i0 + lane * step; // a lane asks for the bits of one of the next 32 turns
    spc_u32 bits = mine < all ? Config::bits(args)[mine / words / Config::strip * words + mine % words] : 0;
#pragma unroll 1
    for (spc_u32 turn = 0, i = i0; turn < 32 && i < all; turn++, i += step) {
      spc_u32 listed = __shfl_sync(0xffffffffu, bits, (int)turn);
      if (pause) __nanosleep(pause);
      int first = (int)(i % words) * wide;
      T *to = Config::t(args, 0) + i / words * pitch + first;
#pragma unroll 4
      for (int at = (int)lane * chunk; at < wide; at += 32 * chunk)
        if (first + at < n && !(listed >> at / Config::gran & 1)) *(uint4 *)(to + at) = fill;
    }
  }
}
