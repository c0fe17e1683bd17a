// guard.cuh - what a stage that a guard controls does first: read the verdict and leave if it is not meant.
//
// All branches are enqueued; the device decides (no host in the loop).  A verdict says what was measured, too:
//
//     0, or minus one less the cover in 65536ths     sparse
//     1 + the cover in 65536ths                      dense; SPC_VERDICT_FRONT beside it where that branch stands in front (front.cuh)
//     SPC_VERDICT_ELSEWHERE                          the verdict of the other one of two lists counts
//
// It goes on to the plan's report, for a host that does not wait (runtime/report.c).  The host's memory is far, and a launch has
// not ended before what it wrote there has arrived: whoever computes reports, early on, and not who decides in front of it.
#pragma once
#include "spc/prelude.cuh"

SPC_DEVICE int spc_verdict(const void *from) { return *(const volatile int *)from; }
SPC_DEVICE bool spc_says_dense(const void *from) { return spc_verdict(from) > 0; }

// ---- behind a front ------------------------------------------------------------------------------------------
// A dense branch in front of a list (front.cuh) has said that it computes: who comes behind leaves, and has not waited for it.  The last of
// them leaves when all blocks of the front have computed, since what comes next waits for no other: front[0] of them, and of each a word.
SPC_DEVICE bool spc_stands_behind(const spc_args &args) { return args.flags & SPC_FLAG_BEHIND; }
// What the front has said; asked for first of all, so that what else has to be done comes meanwhile.
SPC_DEVICE int spc_said_in_front(const spc_args &args, const int *verdict) { return spc_stands_behind(args) ? *(const volatile int *)verdict : 0; }
SPC_DEVICE bool spc_leaves_to_front(const spc_args &args, int said, const int *front) {
  if (said < SPC_VERDICT_FRONT) return false;
  if ((args.flags & SPC_FLAG_LAST) && blockIdx.x == 0) {
    const int blocks = ptx_load_acquire(front); // past the caches of this multiprocessor: nothing was waited for
    for (int b = (int)threadIdx.x; b < blocks; b += (int)blockDim.x)
      while (!ptx_load_acquire(front + 1 + b)) __nanosleep(100);
  }
  return true;
}
template <class Config> SPC_DEVICE int spc_said_in_front(const spc_args &args) {
  return Config::has_front ? spc_said_in_front(args, Config::verdict(args)) : 0;
}
template <class Config> SPC_DEVICE bool spc_leaves_to_front(const spc_args &args, int said) {
  return Config::has_front && spc_leaves_to_front(args, said, Config::front(args));
}
// In front of what a Config makes or computes: a sample says whether to go on.
template <class Config> constexpr bool spc_in_front = false;

// The thread that says what all blocks have found alike: of a front in the last block, which is the one that may have a tile less than the others.
template <class Config> SPC_DEVICE bool spc_speaks() { return threadIdx.x == 0 && blockIdx.x == (spc_in_front<Config> ? gridDim.x - 1 : 0); }

// What a thread of the block has written is there for who comes behind and has not waited, before this block lets it come.
SPC_DEVICE void spc_pass_on(bool mine) {
  if (mine) __threadfence();
  __syncthreads();
}

// ---- verdicts ------------------------------------------------------------------------------------------------

// list: its number in the kernel, -1: somebody else reports.
SPC_DEVICE void spc_report_now(const spc_args &args, int list, int verdict) {
  if (list < 0 || verdict == 0 || !args.status) return;
  args.status[1 + list] = verdict > 0 ? ((spc_u32)verdict & SPC_VERDICT_COVER) | 0x80000000u : (spc_u32)-verdict;
}

SPC_DEVICE void spc_report(const spc_args &args, int list, int verdict) {
  if (blockIdx.x == 0 && threadIdx.x == 0) spc_report_now(args, list, verdict);
}
// Of two lists one has not been measured.  list: -1: there is none.
SPC_DEVICE void spc_report_unasked(const spc_args &args, int list) {
  if (list >= 0 && blockIdx.x == 0 && threadIdx.x == 0 && args.status) args.status[1 + list] = 0;
}

// Nothing is known yet.
template <class Config> SPC_DEVICE void spc_clear_verdict(const spc_args &args) {
  if (spc_speaks<Config>()) *Config::verdict(args) = 0;
}

// Before anything is listed: whether a sample (look) says dense.  Who has not waited reads that as soon as all blocks have left.
template <class Config, class Look> SPC_DEVICE bool spc_asks_first(const spc_args &args, Look look) {
  if (spc_stands_behind(args)) return false;
  const bool dense = look();
  if (Config::heeded && spc_speaks<Config>()) __threadfence();
  return dense;
}

// Of a kernel that is both branches: whether the launch before has said dense, which lists nothing then.
template <class Config> SPC_DEVICE bool spc_heeds_dense(const spc_args &args) {
  if (!Config::heeds) return false;
  const int said = ptx_load_acquire(Config::verdict(args)); // or, later on, what a block here has decided: the same for all
  if (!__syncthreads_or(said > 0)) return false;
  spc_report(args, Config::reported, said);
  return true;
}

// ---- two lists of the same values --------------------------------------------------------------------------------
// A front has taken the samples of both (front.cuh), and said which one counts: to the other one SPC_VERDICT_ELSEWHERE.  Without it the second, which may be made
// in the first one's place, is not made.
SPC_DEVICE bool spc_is_elsewhere(const void *own) { return spc_verdict(own) == SPC_VERDICT_ELSEWHERE; }
// Of the launch that makes either: whether it is to make the second.  The grid before has been waited for; first, second: their verdicts.
SPC_DEVICE bool spc_second_is_meant(const spc_args &args, const void *first, int *second) {
  if (spc_stands_behind(args)) return spc_is_elsewhere(first);
  if (blockIdx.x == 0 && threadIdx.x == 0) *second = SPC_VERDICT_ELSEWHERE;
  return false;
}
// A verdict, and whether it is the other list's: whoever computes where either of two says dense asks the one that counts.
struct spc_said_by { int verdict; bool other; };
template <class Config> SPC_DEVICE spc_said_by spc_verdict_that_counts(const spc_args &args) {
  const int own = spc_verdict(Config::verdict(args));
  const bool other = Config::asks_other && own == SPC_VERDICT_ELSEWHERE;
  return {other ? spc_verdict(Config::other_verdict(args)) : own, other};
}
template <class Config> SPC_DEVICE void spc_report(const spc_args &args, spc_said_by said) {
  spc_report(args, said.other ? Config::other_list : Config::reported, said.verdict);
  spc_report_unasked(args, Config::other_list < 0 ? -1 : said.other ? Config::reported : Config::other_list);
}

// True when this launch must do nothing: `dense` says which branch the kernel is.  Who is meant reports.
SPC_DEVICE bool spc_is_not_meant(int verdict, bool dense) { return (verdict > 0) != dense || verdict == SPC_VERDICT_ELSEWHERE; }
SPC_DEVICE bool spc_not_meant(const spc_args &args, const void *from, bool dense, int list) {
  const int verdict = spc_verdict(from);
  if (spc_is_not_meant(verdict, dense)) return true;
  spc_report(args, list, verdict);
  return false;
}
// Behind a kernel of few rows that lets this launch come when it knows which of them is meant: who is not leaves beside it, and has not waited for it.  The first
// block does wait, since what comes next waits for this launch alone.
template <class Config> SPC_DEVICE bool spc_leaves_at_once(const spc_args &args) {
  if constexpr (!Config::informed) return false;
  else {
    if (ptx_load_acquire(Config::verdict(args)) > 0) return false;
    if (blockIdx.x == 0) ptx_wait_grid();
    return true;
  }
}
// Such a kernel, by all threads, when the verdict is known; a dense branch that wants all units to itself comes when all have left.
template <class Config> SPC_DEVICE void spc_announce(bool dense) {
  if (!Config::announces) return;
  if (Config::takes_sample) spc_pass_on(spc_speaks<Config>());
  if (!dense || !Config::holds) ptx_release_grid();
}

template <class Config> SPC_DEVICE bool spc_not_meant(const spc_args &args) {
  if (!Config::guarded && !Config::asks_other) return false;
  if (Config::informed) { // else it has left
    if (blockIdx.x == 0 && threadIdx.x == 0) spc_report<Config>(args, spc_verdict_that_counts<Config>(args));
    return false;
  }
  const spc_said_by said = spc_verdict_that_counts<Config>(args);
  if (!Config::guarded) return said.other && spc_is_not_meant(said.verdict, true); // it is the dense branch too
  if (spc_is_not_meant(said.verdict, Config::dense_branch)) return true;
  spc_report<Config>(args, said);
  return false;
}

// Of a kernel that is both branches: whether it is to be the dense one.
template <class Config> SPC_DEVICE bool spc_dense_is_meant(const spc_args &args) {
  if (!Config::own_dense) return false;
  const spc_said_by said = spc_verdict_that_counts<Config>(args);
  spc_report<Config>(args, said);
  return said.verdict > 0;
}

// Of a front: what its sample has found, for all of the block's threads, behind the room that samples count in (detect.cuh).
enum { spc_room_bytes = 4096 };
SPC_DEVICE float &spc_cover_here() {
  extern __shared__ __align__(1024) char spc_shared[];
  return *(float *)(spc_shared + spc_room_bytes);
}

// Whether so many of so many micro-tiles are enough for dense; writes the verdict, by the thread that speaks.  leaves: where dense is meant it does not compute.
template <class Config> SPC_DEVICE bool spc_say(const spc_args &args, bool dense, double covered, double all, bool leaves, bool speaks = spc_speaks<Config>()) {
  if (spc_in_front<Config> && threadIdx.x == 0) spc_cover_here() = all > 0 ? (float)covered / (float)all : 0;
  if (speaks) {
    double cover = all > 0 ? covered / all : 0;
    int measured = 1 + (int)(fmin(cover, 1.0) * 65536), verdict = dense ? measured | (spc_in_front<Config> ? SPC_VERDICT_FRONT : 0) : -measured;
    *Config::verdict(args) = verdict;
    if (!dense || !leaves) spc_report(args, Config::reported, verdict), spc_report_unasked(args, Config::other_list);
  }
  return dense;
}
template <class Config> SPC_DEVICE bool spc_decide(const spc_args &args, double covered, double all, double threshold, bool leaves = false, bool speaks = spc_speaks<Config>()) {
  return spc_say<Config>(args, all > 0 ? covered >= threshold * all : 0 >= threshold, covered, all, leaves, speaks); // a division would take longer
}

// The same of columns, of which so many do not hold in all rows, and count half as much again: their elements are asked for one by one (inplace.cuh), which
// takes, measured, 0.2 to 0.6 of the time of another column.
SPC_DEVICE double spc_counted(double covered, double asked) { return covered + 0.5 * asked; }
template <class Config> SPC_DEVICE bool spc_decide_asked(const spc_args &args, double covered, double asked, double all, double threshold, bool leaves = false) {
  return spc_say<Config>(args, all > 0 ? spc_counted(covered, asked) >= threshold * all : 0 >= threshold, covered, all, leaves);
}

// The cover of a list that nobody else reads against the break-even, from the counts of all strips or of every `step`-th: by every
// block for itself.  A sample may have said dense, and made no list then.  `room`: a word a warp, of shared memory; two
// where columns are stored in place.
template <class Config> SPC_DEVICE bool spc_decide_from_counts(const spc_args &args, spc_u32 *room) {
  const spc_u32 warps = Config::threads / 32, each = 2, most = Config::threads * each;
  spc_u32 strips = (spc_u32)Config::strips(args), step = max((strips + most - 1) / most, 1u), set = 0;
  spc_u64 sum = 0;
  const double threshold = Config::threshold(args);
  const int *counts = Config::counts(args);
  if constexpr (Config::halves) counts += Config::pairs(args); // of either strip
  int count[each]; // asked for beside the verdict; nobody has written them where a sample says dense
#pragma unroll
  for (spc_u32 i = 0; i < each; i++) {
    spc_u32 at = (threadIdx.x + i * Config::threads) * step;
    count[i] = at < strips ? counts[at] : 0;
  }
  int sample = spc_verdict(Config::verdict(args)); // or what another block has written anew meanwhile: the same branch
#pragma unroll
  for (spc_u32 i = 0; i < each; i++) set += (spc_u32)count[i];
  set = __reduce_add_sync(~0u, set);
  if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = set;
  if constexpr (Config::in_place) {
    spc_u32 partial = 0;
#pragma unroll
    for (spc_u32 i = 0; i < each; i++) {
      const spc_u32 at = (threadIdx.x + i * Config::threads) * step;
      partial += at < strips ? (spc_u32)Config::partial(args, (int)at) : 0;
    }
    partial = __reduce_add_sync(~0u, partial);
    if (threadIdx.x % 32 == 0) room[warps + threadIdx.x / 32] = partial;
  }
  if (__syncthreads_or(sample > 0)) {
    if (Config::own_dense) spc_report(args, Config::reported, sample);
    return true;
  }
#pragma unroll
  for (spc_u32 w = 0; w < warps; w++) sum += room[w];
  const double all = (double)((strips + step - 1) / step) * (double)Config::capacity(args);
  if constexpr (Config::in_place) {
    spc_u64 asked = 0;
#pragma unroll
    for (spc_u32 w = 0; w < warps; w++) asked += room[warps + w];
    return spc_decide_asked<Config>(args, (double)sum, (double)asked, all, threshold, !Config::own_dense);
  }
  return spc_decide<Config>(args, (double)sum, all, threshold, !Config::own_dense);
}
