// compact_strips.cuh - values to lists and to what these name of each row, side by side, in one launch that reads the values once.
//
//     each block     brings a segment of columns of a strip: most of it to shared memory, the rest to registers; and finds which columns hold anything
//     told           u32 [strips][segments]   then it tells how many do (detect.cuh)
//     each block     waits for what the segments before its own have told; so it knows where its entries go, and moves them from where they are
//
// Two strips that share a list (pairs.cuh) are found by the blocks of one strip that is twice as high.  Each tells how many entries it has of the three kinds,
// and waits for all segments of the pair: a kind begins behind all of the one before.  Of all rows every entry is moved, since the k tiles in which one kind ends
// and the next begins are multiplied by both halves: what a strip has no entry for is zeros there.
//
// All multiprocessors together hold 4096 x 4096 elements.  Blocks begin in the order of their numbers, so that nobody waits for one that waits for room: of pairs
// the blocks before have ended or are there, and a pair has no more blocks than find room together (cuda_readers.c).  Who reads the list decides, from the
// counts (guard.cuh): a sample alone is looked at here, where no front has done that.
// Who multiplies comes when all blocks have left, to find all multiprocessors at once.
// Somebody has cleared what blocks tell: the front, or in its place a launch (spc_clear).
// Config names: those of compact.cuh, without windows; segment, staged (columns, of them in shared memory), told, tells (words that there are).
#pragma once
#include "spc/compact.cuh"

// A block's segment: a thread has some chunks of it, most of them in shared memory.
template <class Config> struct spc_kept_segment {
  using axis = spc_axis_runs<Config>;
  static constexpr int strips = spc_listed_strips<Config>, rows = strips * Config::strip, staged = Config::staged, kept = Config::segment - staged, chunk = axis::chunk, words = Config::segment / 32;
  static constexpr int across = kept / chunk, apart = Config::threads / across, each = rows / apart, parts = staged / kept; // threads a row; rows side by side, of a thread
  static constexpr int of_strip = each / strips; // of a thread's rows
  static_assert(staged % kept == 0 && across % 4 == 0 && 32 % across == 0 && Config::strip % apart == 0, "a thread looks at the same chunk of every part of a segment, four have a word");
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
  template <int I, int End> __device__ __forceinline__ void look_at(uint4 (&sum)[parts + 1]) const {
    ptx_copy_async_wait<each - 1 - I>(); // a thread looks at what it has asked for
#pragma unroll
    for (int part = 0; part < parts; part++) sum[part] = axis::both(sum[part], *(const uint4 *)(room + row(I) * staged + part * kept + column()));
    if constexpr (I + 1 < End) look_at<I + 1, End>(sum);
  }
  // Which columns hold anything in a strip, to a word of bits for each 32 of them: rows as they come.
  template <int Strip> __device__ __forceinline__ void look_at_strip(spc_u32 *word) const {
    const int begin = Strip * of_strip;
    uint4 sum[parts + 1] = {};
    look_at<begin, begin + of_strip>(sum);
#pragma unroll
    for (int i = begin; i < begin + of_strip; i++) sum[parts] = axis::both(sum[parts], held[i]);
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
  __device__ __forceinline__ void look(spc_u32 (&word)[strips][words]) const {
    look_at_strip<0>(word[0]);
    if constexpr (strips > 1) look_at_strip<1>(word[1]);
  }
  // What registers hold to where the others were; nobody reads these any more.
  __device__ __forceinline__ void put_down() const {
#pragma unroll
    for (int i = 0; i < each; i++) *(uint4 *)(room + row(i) * kept + column()) = held[i];
  }
};

// A segment's entries of a kind: how many, those whose columns lie in shared memory among them, the first one's number among the segment's, and its place.
struct spc_moved_kind { int here, in_room, first, begin; };

// Says how many entries of each kind a segment has, hears what the segments before it have said, and where its own begin; of two strips all of the pair's, and how many entries
// there are of each kind.  By a whole warp.
enum { spc_told_bits = 10 }; // of one kind, where there are three
template <class Config, int Kinds> SPC_DEVICE void spc_tell_kinds(int *told, int segment, int segments, spc_moved_kind (&kind)[Kinds], int (&all)[Kinds]) {
  static_assert(Kinds == 1 || Config::segment < 1 << spc_told_bits, "three numbers and a bit are one word");
  const int lane = (int)threadIdx.x & 31;
  spc_u32 mine = 0, sum[Kinds] = {};
#pragma unroll
  for (int c = 0; c < Kinds; c++) mine |= (spc_u32)kind[c].here << c * spc_told_bits;
  if (lane == 0) ptx_store_told(told + segment, (int)mine | spc_is_told);
  const int until = Kinds > 1 ? segments : segment, low = 16; // of two strips: how many before, and how many at all, 16 bits each
#pragma unroll 1
  for (int i = lane; i < until; i += 32) {
    const spc_u32 said = (spc_u32)spc_hear(told + i);
    if constexpr (Kinds == 1) sum[0] += said;
    else
#pragma unroll
      for (int c = 0; c < Kinds; c++) {
        const spc_u32 entries = said >> c * spc_told_bits & ((1u << spc_told_bits) - 1);
        sum[c] += (i < segment ? entries : 0) | entries << low;
      }
  }
  int begin = 0;
#pragma unroll
  for (int c = 0; c < Kinds; c++) {
    sum[c] = __reduce_add_sync(~0u, sum[c]);
    all[c] = Kinds > 1 ? (int)(sum[c] >> low) : (int)sum[c] + kind[c].here;
    kind[c].begin = begin + (int)(Kinds > 1 ? sum[c] & ((1u << low) - 1) : sum[c]);
    begin += all[c];
  }
}

template <class Config> SPC_DEVICE void spc_compact_strips(const spc_args &args) {
  using segment = spc_kept_segment<Config>;
  using V = typename Config::V;
  const int staged = Config::staged, words = segment::words, warps = Config::threads / 32, whole = Config::packed_whole, kinds = spc_listed_kinds<Config>;
  static_assert(sizeof(V) == 2 && Config::gran == 1 && Config::axis_is_contiguous,
                "what is brought side by side is single elements of 16 bits, of rows that lie along the axis");
  static_assert(Config::shared_bytes >= segment::rows * staged * 2, "shared_bytes is less than the segment of a strip's rows");
  static_assert(words <= warps && words <= 32 && Config::segment <= Config::threads, "a warp has a word, a thread an entry");
  extern __shared__ __align__(128) char spc_shared[];
  __shared__ spc_u32 word[segment::strips][words];
  __shared__ unsigned short entry[Config::segment];
  __shared__ spc_moved_kind moved[kinds];
  __shared__ int entries; // of the strip, up to the segment's last; of two strips, of both
  spc_clear_counters<Config>(args);
  if constexpr (Config::decides)
    if (spc_asks_first<Config>(args, [&] { return spc_sample_values<Config>(args); })) return;
  const spc_axis_runs<Config> along(args);
  const int mine = (int)threadIdx.x, warp = mine / 32, lane = mine % 32, segments = (int)((along.extent + Config::segment - 1) / Config::segment);
  const int s = segments ? (int)blockIdx.x / segments : 0, number = segments ? (int)blockIdx.x % segments : 0, lists = spc_lists_of<Config>(args);
  const long long m0 = (long long)s * segment::rows, first = (long long)number * Config::segment;
  const int rows = (int)min(along.rows - m0, (long long)segment::rows), columns = (int)min(along.extent - first, (long long)Config::segment);
  if (s >= lists) return;
  if (segments == 0) {
    if (mine == 0) spc_listed_counts<spc_listed_kinds<Config>>{}.note(Config::counts(args), s, lists);
    return;
  }
  segment kept = {(const unsigned short *)along.from + m0 * along.pitch + first, along.pitch, columns, rows, (unsigned short *)spc_shared, {}};
  if (mine < segment::strips * words) (&word[0][0])[mine] = 0;
  __syncthreads();
  const bool last = number == segments - 1, movable = along.extent % 2 == 0; // else another kernel multiplies, from the values as they lie
  // What the block is handed is asked for before its rows: behind them it would come when they have.
  int *ids = Config::ids(args) + (long long)s * Config::capacity(args), *told = Config::told(args) + s * segments, *counts = Config::counts(args);
  unsigned short *to = (unsigned short *)Config::rows_packed(args) + m0 * along.extent;
  long long extent = along.extent;
  asm volatile("" : "+l"(ids), "+l"(told), "+l"(counts), "+l"(to), "+l"(extent));
  if (along.aligned) {
    kept.bring();
    kept.look(word);
  } else if (warp < words) {
#pragma unroll
    for (int strip = 0; strip < segment::strips; strip++) {
      const spc_u32 bits = spc_find_word<Config>(args, (long long)s * segment::strips + strip, first / 32 + warp);
      if (lane == 0) word[strip][warp] = bits;
    }
  }
  __syncthreads();
  const spc_u32 a = lane < words ? word[0][lane] : 0, b = segment::strips > 1 && lane < words ? word[segment::strips - 1][lane] : 0;
  spc_moved_kind kind[kinds];
  int found = 0;
#pragma unroll
  for (int c = 0; c < kinds; c++) {
    const spc_u32 bits = spc_kind_of<kinds>(a, b, c);
    const int until = spc_scan_warp(__popc(bits)), before = __shfl_sync(~0u, until - __popc(bits), warp & 31);
    const spc_u32 own = __shfl_sync(~0u, bits, warp & 31);
    kind[c] = {__shfl_sync(~0u, until, 31), __shfl_sync(~0u, until, staged / 32 - 1), found, 0};
    if (warp < words && own >> lane & 1) entry[found + before + __popc(own & ptx_lanes_below())] = (unsigned short)(warp * 32 + lane);
    found += kind[c].here;
  }
  if (warp == warps - 1) {
    spc_listed_counts<kinds> all;
    spc_tell_kinds<Config, kinds>(told, number, segments, kind, all.at);
    if (lane == 0) {
#pragma unroll
      for (int c = 0; c < kinds; c++) moved[c] = kind[c];
      entries = all.sum();
      if (last) all.note(counts, s, lists);
    }
  }
  __syncthreads();
  const int end = entries;
#pragma unroll
  for (int c = 0; c < kinds; c++)
    if (mine >= kind[c].first && mine < kind[c].first + kind[c].here) ids[moved[c].begin + mine - kind[c].first] = (int)first + entry[mine];
  if (!movable) return;
  // Zeros follow behind the last entry of all.
  auto limit = [&](int c, const spc_moved_kind &k) { return last && c == kinds - 1 ? (int)min((long long)(end + whole - 1) / whole * whole, extent) : k.begin + k.here; };
  bool more = false;
#pragma unroll 1
  for (int c = 0; c < kinds; c++) {
    const spc_moved_kind k = moved[c];
    if (!along.aligned) {
      spc_move_listed<Config>(kept.from, along.pitch, to, extent, rows, entry + k.first, 0, k.here, k.begin, limit(c, k));
    } else {
      spc_move_listed<Config>(kept.room, staged, to, extent, rows, entry + k.first, 0, k.in_room, k.begin, k.in_room < k.here ? k.begin + k.in_room : limit(c, k));
      more |= k.in_room < k.here;
    }
  }
  if (!more) return;
  __syncthreads();
  kept.put_down();
  __syncthreads();
#pragma unroll 1
  for (int c = 0; c < kinds; c++) {
    const spc_moved_kind k = moved[c];
    if (k.in_room < k.here)
      spc_move_listed<Config>(kept.room, segment::kept, to, extent, rows, entry + k.first + k.in_room, staged, k.here - k.in_room, k.begin + k.in_room, limit(c, k));
  }
}
