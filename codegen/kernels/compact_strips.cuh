// compact_strips.cuh - values to lists and to what these name of each row, side by side, in one launch that reads the values once.
//
//     each block     brings a segment of columns of a strip: most of it to shared memory, the rest to registers; and finds which columns hold anything
//     told           u32 [strips][segments]   then it tells how many do (detect.cuh)
//     each block     waits for what the segments before its own have told; so it knows where its entries go, and moves them from where they are
//
// All multiprocessors together hold 4096 x 4096 elements.  Blocks begin in the order of their numbers, so that nobody waits for one that waits for room.  Who
// reads the list decides, from the counts (guard.cuh): a sample alone is looked at here, where no front has done that.
// Who multiplies comes when all blocks have left, to find all multiprocessors at once.
// Somebody has cleared what blocks tell: the front, or in its place a launch (spc_clear).
// Config names: those of compact.cuh, without windows; segment, staged (columns, of them in shared memory), told, tells (words that there are).
#pragma once
#include "spc/compact.cuh"

// A block's segment: a thread has some chunks of it, most of them in shared memory.
template <class Config> struct spc_kept_segment {
  using axis = spc_axis_runs<Config>;
  static constexpr int rows = Config::strip, staged = Config::staged, kept = Config::segment - staged, chunk = axis::chunk, words = Config::segment / 32;
  static constexpr int across = kept / chunk, apart = Config::threads / across, each = rows / apart, parts = staged / kept; // threads a row; rows side by side, of a thread
  static_assert(staged % kept == 0 && across % 4 == 0 && 32 % across == 0 && rows % apart == 0, "a thread looks at the same chunk of every part of a segment, four have a word");
  static_assert(axis::each == 8, "a chunk is 8 elements");
  const unsigned short *from; // the segment's first element
  long long pitch;
  int columns, count; // that there are; rows
  unsigned short *room;
  uint4 held[each];

  __device__ __forceinline__ int row(int i) const { return (int)threadIdx.x / across + i * apart; }
  __device__ __forceinline__ int column() const { return (int)threadIdx.x % across * chunk; }
  // What is not there is zeros.
  __device__ __forceinline__ void bring() {
#pragma unroll
    for (int i = 0; i < each; i++) {
      const unsigned short *at = from + row(i) * pitch + column();
#pragma unroll
      for (int part = 0; part < parts; part++) {
        const bool there = row(i) < count && part * kept + column() < columns;
        ptx_copy_async_16(spc_shared_address(room + row(i) * staged + part * kept + column()), there ? at + part * kept : from, there ? 16 : 0);
      }
      ptx_copy_async_commit();
      held[i] = row(i) < count && staged + column() < columns ? ptx_load_16(at + staged) : make_uint4(0, 0, 0, 0);
    }
  }
  template <int I> __device__ __forceinline__ void look_at(uint4 (&sum)[parts + 1]) const {
    ptx_copy_async_wait<each - 1 - I>(); // a thread looks at what it has asked for
#pragma unroll
    for (int part = 0; part < parts; part++) sum[part] = axis::both(sum[part], *(const uint4 *)(room + row(I) * staged + part * kept + column()));
    if constexpr (I + 1 < each) look_at<I + 1>(sum);
  }
  // Which columns hold anything, to a word of bits for each 32 of them: rows as they come.
  __device__ __forceinline__ void look(spc_u32 *word) const {
    uint4 sum[parts + 1] = {};
    look_at<0>(sum);
#pragma unroll
    for (int i = 0; i < each; i++) sum[parts] = axis::both(sum[parts], held[i]);
#pragma unroll
    for (int part = 0; part <= parts; part++) {
      spc_u32 bits = axis::bits(sum[part]) << threadIdx.x % 4 * 8;
      bits |= __shfl_xor_sync(~0u, bits, 1);
      bits |= __shfl_xor_sync(~0u, bits, 2);
#pragma unroll
      for (int d = across; d < 32; d *= 2) bits |= __shfl_xor_sync(~0u, bits, d);
      if (threadIdx.x % 4 == 0 && threadIdx.x % 32 < across && bits) atomicOr(&word[(part * kept + column()) / 32], bits);
    }
  }
  // What registers hold to where the others were; nobody reads these any more.
  __device__ __forceinline__ void put_down() const {
#pragma unroll
    for (int i = 0; i < each; i++) *(uint4 *)(room + row(i) * kept + column()) = held[i];
  }
};

// What the segments before this one have told, by a whole warp; in front of that this one tells.
SPC_DEVICE int spc_told_before(int *told, int segment, int here) {
  const int lane = (int)threadIdx.x & 31;
  int sum = 0;
  if (lane == 0) ptx_store_told(told + segment, here | spc_is_told);
#pragma unroll 1
  for (int i = lane; i < segment; i += 32) sum += spc_hear(told + i);
  return (int)__reduce_add_sync(~0u, (spc_u32)sum);
}

template <class Config> SPC_DEVICE void spc_compact_strips(const spc_args &args) {
  using segment = spc_kept_segment<Config>;
  using V = typename Config::V;
  const int staged = Config::staged, words = segment::words, warps = Config::threads / 32, whole = Config::packed_whole;
  static_assert(sizeof(V) == 2 && Config::gran == 1 && Config::axis_is_contiguous,
                "what is brought side by side is single elements of 16 bits, of rows that lie along the axis");
  static_assert(Config::shared_bytes >= segment::rows * staged * 2, "shared_bytes is less than the segment of a strip's rows");
  static_assert(words <= warps && words <= 32 && Config::segment <= Config::threads, "a warp has a word, a thread an entry");
  extern __shared__ __align__(128) char spc_shared[];
  __shared__ spc_u32 word[words];
  __shared__ unsigned short entry[Config::segment];
  __shared__ int behind; // entries of the segments before
  spc_clear_counters<Config>(args);
  if constexpr (Config::decides)
    if (spc_asks_first<Config>(args, [&] { return spc_sample_values<Config>(args); })) return;
  const spc_axis_runs<Config> along(args);
  const int mine = (int)threadIdx.x, warp = mine / 32, lane = mine % 32, segments = (int)((along.extent + Config::segment - 1) / Config::segment);
  const int s = segments ? (int)blockIdx.x / segments : 0, number = segments ? (int)blockIdx.x % segments : 0;
  const long long m0 = (long long)s * Config::strip, first = (long long)number * Config::segment;
  const int rows = (int)min(along.rows - m0, (long long)Config::strip), columns = (int)min(along.extent - first, (long long)Config::segment);
  if (s >= (int)Config::strips(args)) return;
  if (segments == 0) {
    if (mine == 0) Config::counts(args)[s] = 0;
    return;
  }
  segment kept = {(const unsigned short *)along.from + m0 * along.pitch + first, along.pitch, columns, rows, (unsigned short *)spc_shared, {}};
  if (mine < words) word[mine] = 0;
  __syncthreads();
  const bool last = number == segments - 1, movable = along.extent % 2 == 0; // else another kernel multiplies, from the values as they lie
  // What the block is handed is asked for before its rows: behind them it would come when they have.
  int *ids = Config::ids(args) + (long long)s * Config::capacity(args), *told = Config::told(args) + s * segments, *counts = Config::counts(args) + s;
  unsigned short *to = (unsigned short *)Config::rows_packed(args) + m0 * along.extent;
  long long extent = along.extent;
  asm volatile("" : "+l"(ids), "+l"(told), "+l"(counts), "+l"(to), "+l"(extent));
  if (along.aligned) {
    kept.bring();
    kept.look(word);
  } else if (warp < words) {
    const spc_u32 bits = spc_find_word<Config>(args, s, first / 32 + warp);
    if (lane == 0) word[warp] = bits;
  }
  __syncthreads();
  const spc_u32 bits = lane < words ? word[lane] : 0;
  const int until = spc_scan_warp(__popc(bits)), here = __shfl_sync(~0u, until, 31), in_room = __shfl_sync(~0u, until, staged / 32 - 1);
  const int before = __shfl_sync(~0u, until - __popc(bits), warp & 31);
  const spc_u32 own = __shfl_sync(~0u, bits, warp & 31);
  if (warp < words && own >> lane & 1) entry[before + __popc(own & ptx_lanes_below())] = (unsigned short)(warp * 32 + lane);
  if (warp == warps - 1) {
    const int sum = spc_told_before(told, number, here);
    if (lane == 0) behind = sum;
  }
  __syncthreads();
  const int begin = behind, end = begin + here;
  if (mine < here) ids[begin + mine] = (int)first + entry[mine];
  if (last && mine == 0) *counts = end;
  if (!movable) return;
  const int limit = last ? (int)min((long long)(end + whole - 1) / whole * whole, extent) : end;
  if (!along.aligned) {
    spc_move_listed<Config>(kept.from, along.pitch, to, extent, rows, entry, 0, here, begin, limit);
    return;
  }
  spc_move_listed<Config>(kept.room, staged, to, extent, rows, entry, 0, in_room, begin, in_room < here ? begin + in_room : limit);
  if (in_room == here) return;
  __syncthreads();
  kept.put_down();
  __syncthreads();
  spc_move_listed<Config>(kept.room, segment::kept, to, extent, rows, entry + in_room, staged, here - in_room, begin + in_room, limit);
}
