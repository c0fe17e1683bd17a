// compact_strips.cuh - values to lists and to what these name of each row, side by side, in one launch that reads the values once.
//
//     each block     brings a segment of columns of a strip: most of it to shared memory, the rest to registers; and finds which columns hold anything
//     told           u32 [strips][segments]   then it tells how many do (detect.cuh)
//     each block     waits for what the segments before its own have told; so it knows where its entries go, and moves them from where they are
//
// Two strips that share a list (pairs.cuh) are found by the blocks of one strip that is twice as high.  Each tells how many entries it has of the three kinds,
// and waits for all segments of the pair: a kind begins behind all of the one before.  A strip's rows take its own entries.  K tiles in which one kind ends and the
// next begins are multiplied by both halves: what a strip has no entry for is zeros there, which the last segment's block stores.
//
// All multiprocessors together hold 4096 x 4096 elements.  Blocks begin in the order of their numbers, so that nobody waits for one that waits for room.  Of pairs
// all blocks before are there or have ended, and those of one find room together (cuda_readers.c); where they do not, in a few multiprocessors' share of a
// device, a block waits in vain some time, says dense, and leaves.  Who reads the list decides, from the counts (guard.cuh): a sample alone is looked at here,
// where no front has done that.
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
  static_assert(axis::each == 8 && parts == 3, "a chunk is 8 elements, whose bits are a byte; those of all parts are a word");
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
  __device__ __forceinline__ uint4 staged_chunk(int i, int part) const { return *(const uint4 *)(room + row(i) * staged + part * kept + column()); }
  // What rows [I, End) of a thread hold, each when it has come.
  template <int I, int End> __device__ __forceinline__ void look_at(uint4 (&sum)[parts + 1]) const {
    ptx_copy_async_wait<each - 1 - I>(); // a thread looks at what it has asked for
#pragma unroll
    for (int part = 0; part < parts; part++) sum[part] = axis::both(sum[part], staged_chunk(I, part));
    if constexpr (I + 1 < End) look_at<I + 1, End>(sum);
  }
  // Of chunk c of every part, a byte a part: which of its columns hold anything in strip number Strip.
  template <int Strip> __device__ __forceinline__ void look(spc_u32 *found) const {
    const int begin = Strip * of_strip, end = begin + of_strip;
    uint4 sum[parts + 1] = {};
    look_at<begin, end>(sum);
#pragma unroll
    for (int i = begin; i < end; i++) sum[parts] = axis::both(sum[parts], held[i]);
    spc_u32 bits = 0;
#pragma unroll
    for (int part = 0; part <= parts; part++) bits |= axis::bits(sum[part]) << part * 8;
#pragma unroll
    for (int d = across; d < 32; d *= 2) bits |= __shfl_xor_sync(~0u, bits, d);
    if (threadIdx.x % 32 < across && bits) atomicOr(&found[threadIdx.x % across], bits);
  }
  // The same of word number w of the segment, found by a whole warp.
  SPC_DEVICE void note(spc_u32 *found, int w, spc_u32 bits) {
    const int lane = (int)threadIdx.x & 31;
    if (lane < 4) atomicOr(&found[w % (across / 4) * 4 + lane], (bits >> lane * 8 & 255) << w / (across / 4) * 8);
  }
  // A word of 32 columns.
  SPC_DEVICE spc_u32 word(const spc_u32 *found, int w) {
    const uint4 four = *(const uint4 *)(found + w % (across / 4) * 4);
    const int part = w / (across / 4) * 8;
    return (four.x >> part & 255) | (four.y >> part & 255) << 8 | (four.z >> part & 255) << 16 | (four.w >> part & 255) << 24;
  }
  // What registers hold to where the others were; nobody reads these any more.
  __device__ __forceinline__ void put_down() const {
#pragma unroll
    for (int i = 0; i < each; i++) *(uint4 *)(room + row(i) * kept + column()) = held[i];
  }
};

// A segment's entries of a kind: how many, those whose columns lie in shared memory among them, the first one's number among the segment's, its place, and up to
// which place something is stored: zeros behind the entries.
struct spc_moved_kind {
  int here, in_room, first, begin, limit;
  // Which rows take it: of one kind all, of three the first strip's, all, or the second's.
  template <int Kinds, int Rows> SPC_DEVICE spc_moved_run run(int c, int entry, int count, int begin, int limit) {
    return {entry, count, begin, limit, Kinds > 1 && c == 2 ? Rows / 2 : 0, spc_log(Rows) - (Kinds > 1 && c != 1)};
  }
  // What lies in shared memory at first, and what comes there then.
  template <int Kinds, int Rows> __device__ __forceinline__ spc_moved_run early(int c, int of_them) const {
    return run<Kinds, Rows>(c, first, of_them, begin, of_them < here ? begin + of_them : limit);
  }
  template <int Kinds, int Rows> __device__ __forceinline__ spc_moved_run late(int c) const {
    return run<Kinds, Rows>(c, first + in_room, here - in_room, begin + in_room, in_room < here ? limit : 0);
  }
};

// How many entries there are of each kind, in a word: three numbers of a segment's entries find room beside each other, and their sums do.
enum { spc_kind_bits = 10 };
template <int Kinds> SPC_DEVICE int spc_of_kind(spc_u32 counts, int kind) { return Kinds == 1 ? (int)counts : (int)(counts >> kind * spc_kind_bits & ((1u << spc_kind_bits) - 1)); }

// Whether a block has waited in vain, which lets all others know; where nobody decides they wait on.
template <class Config> SPC_DEVICE bool spc_gave_up(const spc_args &args) {
  if constexpr (Config::decides) {
    const int said = spc_verdict(Config::verdict(args)); // or, for a moment, what the run before has found
    return said > 0 && (said & SPC_VERDICT_VAIN);
  }
  return false;
}

// Says how many entries of each kind a segment has, hears what the segments before it have said, and where its own begin; of two strips all of the pair's, and how many entries
// there are of each kind.  By a whole warp; false: it has waited in vain.
#ifndef SPC_MOST_LOOKS // a test takes fewer (tests/emulator/no_room.sh)
#define SPC_MOST_LOOKS (1 << 20) // at a word that nobody has told, of two strips: more than half a second
#endif
template <class Config, int Kinds>
SPC_DEVICE bool spc_tell_kinds(const spc_args &args, int *told, int segment, int segments, spc_u32 here, spc_moved_kind (&kind)[Kinds], spc_listed_counts<Kinds> &all) {
  const int lane = (int)threadIdx.x & 31;
  spc_u32 sum[Kinds] = {};
  bool heard = true;
  if (lane == 0) ptx_store_told(told + segment, (int)here | spc_is_told);
  const int until = Kinds > 1 ? segments : segment, low = 16; // of two strips: how many before, and how many at all, 16 bits each
#pragma unroll 1
  for (int i = lane; i < until; i += 32) {
    const spc_u32 said = (spc_u32)(Kinds == 1 ? spc_hear(told + i) : spc_hear_soon(told + i, SPC_MOST_LOOKS, [&] { return spc_gave_up<Config>(args); }, heard));
#pragma unroll
    for (int c = 0; c < Kinds; c++) {
      const spc_u32 entries = spc_of_kind<Kinds>(said, c);
      sum[c] += Kinds == 1 ? entries : (i < segment ? entries : 0) | entries << low;
    }
  }
  if (Kinds > 1 && !__all_sync(~0u, heard)) return false;
  int begin = 0;
#pragma unroll
  for (int c = 0; c < Kinds; c++) {
    sum[c] = __reduce_add_sync(~0u, sum[c]);
    const int mine = spc_of_kind<Kinds>(here, c), own = begin + (int)(Kinds > 1 ? sum[c] & ((1u << low) - 1) : sum[c]), found = Kinds > 1 ? (int)(sum[c] >> low) : (int)sum[c] + mine;
    if (lane == 0) kind[c].begin = own, kind[c].limit = own + mine, all.at[c] = found;
    begin += found;
  }
  return true;
}

// What a pair's rows have no entry for in k tiles that both halves multiply, and behind the last: zeros.  A segment's block takes some of the rows, a warp each.
template <class Config>
SPC_DEVICE void spc_clear_between(unsigned short *to, long long extent, int rows, int segment, int segments, const spc_listed_counts<3> &all) {
  const int whole = Config::packed_whole, half = Config::strip, lane = (int)threadIdx.x & 31, warps = Config::threads / 32;
  auto clear = [&](int row, int from, int until) {
    for (int i = from + lane; i < min((long long)until, extent); i += 32) to[row * extent + i] = 0;
  };
  auto up = [&](int n) { return (n + whole - 1) / whole * whole; };
  const int first = all.at[0] + all.at[1], end = all.sum(); // up to the first strip's last entry, up to any
#pragma unroll 1
  for (int row = segment * warps + (int)threadIdx.x / 32; row < rows; row += segments * warps) {
    if (row < half) clear(row, first, up(first));
    else clear(row, all.at[0] / whole * whole, all.at[0]), clear(row, end, up(end));
  }
}

template <class Config> SPC_DEVICE void spc_compact_strips(const spc_args &args) {
  using segment = spc_kept_segment<Config>;
  using V = typename Config::V;
  const int staged = Config::staged, words = segment::words, warps = Config::threads / 32, whole = Config::packed_whole, kinds = spc_listed_kinds<Config>;
  static_assert(sizeof(V) == 2 && Config::gran == 1 && Config::axis_is_contiguous,
                "what is brought side by side is single elements of 16 bits, of rows that lie along the axis");
  static_assert(Config::shared_bytes >= segment::rows * staged * 2, "shared_bytes is less than the segment of a strip's rows");
  static_assert(kinds == 1 || Config::segment < 1 << spc_kind_bits, "three numbers and a bit are one word");
  static_assert(words <= warps && words == 16 && Config::segment <= Config::threads, "a warp has a word, a thread an entry");
  extern __shared__ __align__(128) char spc_shared[];
  __shared__ alignas(16) spc_u32 holds[segment::strips][segment::across]; // which columns hold anything
  __shared__ unsigned short entry[Config::segment];
  __shared__ spc_moved_kind moved[kinds];
  __shared__ spc_listed_counts<kinds> listed; // up to the segment's last entry; of two strips, at all
  __shared__ bool in_vain; // others of the pair have not found room
  spc_clear_counters<Config>(args);
  if constexpr (Config::decides)
    if (spc_asks_first<Config>(args, [&] { return spc_sample_values<Config>(args); })) return;
  const spc_axis_runs<Config> along(args);
  const int mine = (int)threadIdx.x, warp = mine / 32, lane = mine % 32, segments = (int)((along.extent + Config::segment - 1) / Config::segment);
  const int s = segments ? (int)blockIdx.x / segments : 0, number = segments ? (int)blockIdx.x % segments : 0, lists = spc_lists_of<Config>(args);
  const long long m0 = (long long)s * segment::rows, first = (long long)number * Config::segment;
  const int rows = (int)min(along.rows - m0, (long long)segment::rows), columns = (int)min(along.extent - first, (long long)Config::segment);
  if (s >= lists || (kinds > 1 && spc_gave_up<Config>(args))) return;
  if (segments == 0) {
    if (mine == 0) spc_listed_counts<spc_listed_kinds<Config>>{}.note(Config::counts(args), s, lists);
    return;
  }
  segment kept = {(const unsigned short *)along.from + m0 * along.pitch + first, along.pitch, columns, rows, (unsigned short *)spc_shared, {}};
  if (mine < segment::strips * segment::across) (&holds[0][0])[mine] = 0;
  __syncthreads();
  const bool last = number == segments - 1, movable = along.extent % 2 == 0; // else another kernel multiplies, from the values as they lie
  // What the block is handed is asked for before its rows: behind them it would come when they have.
  int *ids = Config::ids(args) + (long long)s * Config::capacity(args), *told = Config::told(args) + s * segments, *counts = Config::counts(args);
  unsigned short *to = (unsigned short *)Config::rows_packed(args) + m0 * along.extent;
  long long extent = along.extent;
  asm volatile("" : "+l"(ids), "+l"(told), "+l"(counts), "+l"(to), "+l"(extent));
  if (along.aligned) {
    kept.bring();
    kept.template look<0>(holds[0]);
    if constexpr (segment::strips > 1) kept.template look<1>(holds[1]);
  } else if (warp < words) {
#pragma unroll
    for (int strip = 0; strip < segment::strips; strip++)
      segment::note(holds[strip], warp, spc_find_word<Config>(args, (long long)s * segment::strips + strip, first / 32 + warp));
  }
  __syncthreads();
  const spc_u32 a = lane < words ? segment::word(holds[0], lane) : 0, b = segment::strips > 1 && lane < words ? segment::word(holds[segment::strips - 1], lane) : 0;
  spc_u32 count = 0; // of each kind
#pragma unroll
  for (int c = 0; c < kinds; c++) count |= (spc_u32)__popc(spc_kind_of<kinds>(a, b, c)) << c * spc_kind_bits;
  const spc_u32 until = (spc_u32)spc_scan_warp((int)count), before = __shfl_sync(~0u, until - count, warp), here = __shfl_sync(~0u, until, 31), in_room = __shfl_sync(~0u, until, staged / 32 - 1);
  const spc_u32 own_a = __shfl_sync(~0u, a, warp), own_b = kinds > 1 ? __shfl_sync(~0u, b, warp) : 0;
  int found = 0;
#pragma unroll
  for (int c = 0; c < kinds; c++) {
    const spc_u32 own = spc_kind_of<kinds>(own_a, own_b, c);
    if (warp < words && own >> lane & 1) entry[found + spc_of_kind<kinds>(before, c) + __popc(own & ptx_lanes_below())] = (unsigned short)(warp * 32 + lane);
    if (mine == Config::threads - 32) moved[c].here = spc_of_kind<kinds>(here, c), moved[c].in_room = spc_of_kind<kinds>(in_room, c), moved[c].first = found;
    found += spc_of_kind<kinds>(here, c);
  }
  if (warp == warps - 1) {
    const bool heard = spc_tell_kinds<Config, kinds>(args, told, number, segments, here, moved, listed);
    if (lane == 0) in_vain = !heard;
    if (lane == 0 && last && heard) {
      if (kinds == 1) moved[0].limit = (int)min((long long)(listed.sum() + whole - 1) / whole * whole, extent); // zeros follow
      listed.note(counts, s, lists);
    }
  }
  __syncthreads();
  if (kinds > 1 && in_vain) {
    if constexpr (Config::decides)
      if (mine == 0) *Config::verdict(args) = (1 + 65536) | SPC_VERDICT_VAIN;
    return;
  }
#pragma unroll 1
  for (int c = 0; c < kinds; c++) {
    const int at = mine - moved[c].first;
    if (at >= 0 && at < moved[c].here) ids[moved[c].begin + at] = (int)first + entry[mine];
  }
  if (!movable) return;
  if constexpr (kinds > 1) spc_clear_between<Config>(to, extent, rows, number, segments, listed);
  auto move = [&](const auto &block, auto run_of) {
    int task = warp;
#pragma unroll 1
    for (int c = 0; c < kinds; c++) spc_move_words<Config>(block, entry, run_of(c), task);
#pragma unroll 1
    for (int c = 0; c < kinds; c++) spc_move_edges<Config>(block, entry, run_of(c));
  };
  if (!along.aligned) {
    move(spc_moved_rows<0>{kept.from, along.pitch, 0, rows, to, extent}, [&](int c) { return moved[c].template early<kinds, segment::rows>(c, moved[c].here); });
    return;
  }
  // First what lies in shared memory, then what registers held.
  move(spc_moved_rows<staged>{kept.room, 0, 0, rows, to, extent}, [&](int c) { return moved[c].template early<kinds, segment::rows>(c, moved[c].in_room); });
  bool more = false;
#pragma unroll
  for (int c = 0; c < kinds; c++) more |= moved[c].in_room < moved[c].here;
  if (!more) return;
  __syncthreads();
  kept.put_down();
  __syncthreads();
  move(spc_moved_rows<segment::kept>{kept.room, 0, staged, rows, to, extent}, [&](int c) { return moved[c].template late<kinds, segment::rows>(c); });
}
