// nbulk.cuh - the columns of few rows that are asked for (nskip.cuh), their rows of B brought by bulk copies.
//
//     a block        8 rows of A, an even share of all columns, of which it lists those that are asked for, a window at a time
//     warps 8 to 11  rows of A come to shared memory first, and stay there; 8 listed rows of B by some 2000 k's fill a slot of a ring, a copy
//                    a row of it (the first time with those that store)
//     warps 0 to 7   take 32 k's of a slot by turns, 8 columns by 8 rows, mma.sync, and leave their sums in shared memory
//     warps 12 to 15 two by turns have 8 columns: the warps' sums in their order, epilogue, store
//
// So nobody who brings rows waits for sums that become values.  Copies need rows of whole 16 bytes, and A's eight rows must leave room for
// two slots: else columns are read by loads into registers.  The next launch may come when a block knows that dense is not meant, not before:
// a dense kernel has fewer blocks than there are multiprocessors, and would get those that happen to be left first, which share their paths to
// memory.  A row's pitch in shared memory is 64 bytes more than a multiple of 128: what eight lanes read at once meets no bank twice.
#pragma once
#include "spc/nskip.cuh"
#include "spc/tma.cuh"

// Zeros in column n of the tile, where somebody reads what nobody asks for.
template <class Config> SPC_DEVICE void spc_clear_column(const spc_args &args, const spc_tile_place &place, int n) {
  if (!Config::clears) return;
  using T = typename Config::T;
  int last = min(place.m, place.m0 + Config::tile_m);
  T *to = Config::t(args, place.batch) + n * Config::pitch_t(args) + place.m0;
  if (Config::layout_t == 'c' && Config::tile_m * sizeof(T) == 16 && last - place.m0 == Config::tile_m && ((spc_u64)to & 15) == 0)
    *(uint4 *)to = make_uint4(0, 0, 0, 0);
  else
    for (int m = place.m0; m < last; m++) spc_skip_store<Config>(args, place, m, n, 0.0f);
}

// A block's share of the columns of a tile's rows, one of so many; the part of them that is its own to clear and to leave bits of.
struct spc_bulk_share { int first, end, number, of; };

// Which of them are asked for (nskip.cuh), by the values that say so: a warp looks at 32 of them at a time, four lanes at each of 8 rows, 8 columns each.
template <class T> struct alignas(sizeof(T) < 2 ? 8 : 16) spc_eight_of { T at[8]; };

template <class Config, int Columns, bool Bits = Config::asks_bits> struct spc_bulk_columns {
  using W = typename Config::W;
  static constexpr int warps = Config::threads / 32, words = (Columns + 31) / 32, each = (words + warps - 1) / warps; // of 32 columns; of a warp
  static constexpr int samplers = 8; // warps that take a sample
  static_assert(Config::tile_m == 8 && Config::tile_n % 32 == 0 && samplers <= warps, "a share is words of bits, of 8 rows");

  spc_eight_of<W> values[each + 1] = {}; // of this lane, as asked for; the last of them of the sample
  bool whole;                            // they lie in one piece
  double threshold;
  spc_u32 bits[each]; // this warp's
  int count;          // of all warps together

  SPC_DEVICE spc_u32 up_to(int columns) { return columns >= 32 ? ~0u : columns > 0 ? (1u << columns) - 1 : 0u; }
  SPC_DEVICE int window_end(const spc_tile_place &place, const spc_bulk_share &share) { return min(place.n0 + Columns, share.end); }
  SPC_DEVICE int word(int i) { return i * warps + (int)threadIdx.x / 32; }
  SPC_DEVICE int row() { return (int)threadIdx.x % 32 / 4; }
  SPC_DEVICE int at() { return (int)threadIdx.x % 4 * 8; }

  // Whether so much is asked for that all columns should be computed: eight columns of a tile's rows, one out of each of as many equal shares of the
  // columns as four for each of eight warps, anywhere in the share.  All blocks look at the same, so all come to the same verdict and none waits for another.
  struct sampled { int m, column; spc_u32 inside; };
  SPC_DEVICE bool takes_part() { return threadIdx.x < samplers * 32; }
  SPC_DEVICE sampled sample(const spc_tile_place &place) {
    const spc_u32 runs = samplers * 4, share = threadIdx.x / 32 * 4 + threadIdx.x % 4, wide = (spc_u32)(place.n + 7) / 8, strips = (spc_u32)(place.m + 7) / 8;
    const spc_u32 first = wide * share / runs, last = wide * (share + 1) / runs, spread = spc_hash(share);
    const int column = (int)(first + ((last - first) * (spread >> 16) >> 16)) * 8;
    return {min((int)(strips * (spread & 0xffffu) >> 16) * 8 + row(), place.m - 1), column, last > first ? up_to(min(place.n - column, 8)) : 0};
  }
  // Before anything that does not wait for them, the values that say so.  samples: this is the first time, and a sample says whether dense is meant.
  __device__ __forceinline__ void ask(const spc_args &args, const spc_tile_place &place, const spc_bulk_share &share, bool samples) {
    const int end = window_end(place, share);
    if constexpr (Config::takes_sample)
      if (samples) threshold = Config::threshold(args);
    const W *from = Config::asked_values(args);
    const long long pitch = Config::asked_pitch(args);
    whole = Config::asked_together && place.n % 8 == 0 && (((spc_u64)from | (spc_u64)(pitch * sizeof(W))) & (alignof(spc_eight_of<W>) - 1)) == 0;
    if (!whole) return;
    const W *line = from + min(place.m0 + row(), place.m - 1) * pitch;
#pragma unroll
    for (int i = 0; i < each; i++) {
      const int column = place.n0 + word(i) * 32 + at();
      if (column < end) values[i] = *(const spc_eight_of<W> *)(line + column);
    }
    if (!Config::takes_sample || !samples || !takes_part()) return;
    const sampled run = sample(place);
    values[each] = *(const spc_eight_of<W> *)(from + run.m * pitch + min(run.column, place.n - 8));
  }
  // Which of a lane's eight columns its row asks for, of each of its words and of the sample.
  __device__ __forceinline__ void look(const spc_args &args, const spc_tile_place &place, int end, spc_u32 (&mask)[each + 1]) const {
    if (whole) {
#pragma unroll
      for (int i = 0; i <= each; i++) {
        if (i < each ? place.n0 + word(i) * 32 >= end : !takes_part()) continue; // all lanes alike: what is not there need not be looked at
#pragma unroll
        for (int j = 0; j < 8; j++) mask[i] |= (spc_get(values[i].at[j]) != 0 ? 1u : 0u) << j;
      }
      return;
    }
    const sampled run = sample(place);
#pragma unroll 1
    for (int i = 0; i <= each; i++) { // one text of what is seldom run
      const int m = i < each ? min(place.m0 + row(), place.m - 1) : run.m, column = i < each ? place.n0 + word(i) * 32 + at() : run.column;
      spc_u32 now = 0;
#pragma unroll 1
      for (int j = 0; j < 8; j++) now |= (Config::asked(args, m, min(column + j, place.n - 1)) ? 1u : 0u) << j;
#pragma unroll
      for (int to = 0; to <= each; to++) mask[to] = to == i ? now : mask[to];
    }
  }
  // Those of the share's next window, in order; false: dense is meant, and nothing is stored.
  __device__ __forceinline__ bool find(const spc_args &args, const spc_tile_place &place, const spc_bulk_share &share, int *listed, bool samples) {
    const int all = each * warps, lane = (int)threadIdx.x % 32, end = window_end(place, share);
    __shared__ int counts[all];
    __shared__ spc_u32 sampled_by[samplers];
    spc_u32 mask[each + 1] = {};
    look(args, place, end, mask);
#pragma unroll
    for (int i = 0; i < each; i++) {
      bits[i] = ptx_any_bits(mask[i] << at()) & up_to(end - place.n0 - word(i) * 32);
      if (lane == 0) counts[word(i)] = __popc(bits[i]);
    }
    if (Config::takes_sample && samples && takes_part()) {
      const spc_u32 inside = sample(place).inside, found = __popc(ptx_any_bits((mask[each] & inside) << at())), of = __popc(ptx_any_bits(inside << at()));
      if (lane == 0) sampled_by[threadIdx.x / 32] = found | of << 16;
    }
    __syncthreads();
    if constexpr (Config::takes_sample) {
      const spc_u32 found = samples ? __reduce_add_sync(~0u, lane < samplers ? sampled_by[lane] : 0) : 0;
      if (samples && spc_decide<Config>(args, found & 0xffffu, found >> 16, threshold)) return false;
    }
    int counted[(all + 31) / 32];
    count = 0;
#pragma unroll
    for (int w = 0; w < (all + 31) / 32; w++) counted[w] = w * 32 + lane < all ? counts[w * 32 + lane] : 0, count += counted[w];
    count = (int)__reduce_add_sync(~0u, (spc_u32)count);
#pragma unroll
    for (int i = 0; i < each; i++) {
      int before = 0;
#pragma unroll
      for (int w = 0; w < (all + 31) / 32; w++) before += w * 32 + lane < word(i) ? counted[w] : 0;
      before = (int)__reduce_add_sync(~0u, (spc_u32)before);
      const int n = place.n0 + word(i) * 32;
      if (lane == 0) spc_leave_bits<Config>(args, place, n, end, bits[i]);
      if (bits[i] >> lane & 1) listed[before + __popc(bits[i] & ptx_lanes_below())] = n + lane;
    }
    __syncthreads();
    return true;
  }
  // The others are zeros.
  __device__ __forceinline__ void clear(const spc_args &args, const spc_tile_place &place, const spc_bulk_share &share) const {
#pragma unroll
    for (int i = 0; i < each; i++) {
      const int n = place.n0 + word(i) * 32 + (int)threadIdx.x % 32;
      if (n < window_end(place, share) && !(bits[i] >> threadIdx.x % 32 & 1)) spc_clear_column<Config>(args, place, n);
    }
  }
  __device__ __forceinline__ void leave(const spc_args &, const spc_tile_place &, const spc_bulk_share &, int, int) const {} // who finds them does
  // To the next window, where there is one.
  __device__ __forceinline__ bool advance(const spc_args &args, spc_tile_place &place, const spc_bulk_share &share) {
    if ((place.n0 += Columns) >= share.end) return false;
    ask(args, place, share, false);
    return true;
  }
};

// The same by bits: the warps that multiply look, a thread at words that follow one another, of all columns, and what is asked for is shared evenly, as many
// columns a block.
template <class Config, int Columns> struct spc_bulk_columns<Config, Columns, true> {
  static constexpr int warps = 8, each = (Config::asked_most + warps * 32 - 1) / (warps * 32); // that look; words of a thread
  static constexpr int kept = each < 3 ? each : Config::clears ? 2 : 3; // in registers, of which there are no more; the others are looked at again
  static_assert(Config::tile_m == 8 && Config::tile_n % 32 == 0, "a share is words of bits, of 8 rows");

  spc_u32 set[kept];
  int before, from, last; // columns that earlier threads have found; this block's next, and behind its last
  bool starts;            // a strip: nothing is known yet, or this is its first window
  spc_u32 sampled;
  double threshold;
  int count; // of the window

  SPC_DEVICE int word(int i) { return (int)threadIdx.x * each + i; }
  // Calls use(word's number, word) for this thread's.
  template <class Use> __device__ __forceinline__ void each_word(const spc_args &args, const spc_tile_place &place, Use use) const {
#pragma unroll
    for (int i = 0; i < kept; i++) use(word(i), set[i]);
#pragma unroll 1
    for (int i = kept; i < each; i++) use(word(i), spc_asked_word<Config>(args, place.m0 / Config::tile_m, word(i)));
  }
  SPC_DEVICE bool looks() { return threadIdx.x < warps * 32; }
  __device__ __forceinline__ void ask(const spc_args &args, const spc_tile_place &place, const spc_bulk_share &, bool samples) {
    starts = true;
    if constexpr (Config::takes_sample)
      if (samples) threshold = Config::threshold(args);
    if (!looks()) return;
#pragma unroll
    for (int i = 0; i < kept; i++) set[i] = spc_asked_word<Config>(args, place.m0 / Config::tile_m, word(i));
    if constexpr (Config::takes_sample)
      if (samples) sampled = spc_asked_sample<Config>(args).found_here;
  }
  // Of a strip: how many there are before this thread's; false: dense is meant.
  __device__ __forceinline__ bool counted(const spc_args &args, const spc_tile_place &place, const spc_bulk_share &share, bool samples) {
    __shared__ int totals[warps];
    __shared__ spc_u32 sampled_by[warps];
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    before = 0;
    if (looks()) {
      int mine = 0;
      each_word(args, place, [&](int, spc_u32 set) { mine += __popc(set); });
      before = spc_scan_warp(mine);
      if (lane == 31) totals[warp] = before;
      before -= mine;
      if (Config::takes_sample && samples) {
        const spc_u32 found = __reduce_add_sync(~0u, sampled);
        if (lane == 0) sampled_by[warp] = found;
      }
    }
    __syncthreads();
    if constexpr (Config::takes_sample) {
      const spc_u32 found = samples ? __reduce_add_sync(~0u, lane < warps ? sampled_by[lane] : 0) : 0;
      if (samples && spc_decide<Config>(args, found & 0xffffu, found >> 16, threshold)) return false;
    }
    const int total = lane < warps ? totals[lane] : 0;
    const int all = (int)__reduce_add_sync(~0u, (spc_u32)total);
    before += (int)__reduce_add_sync(~0u, (spc_u32)(lane < warp ? total : 0));
    const float each_share = __fdividef((float)all, (float)share.of); // its end is the next one's beginning, to the bit
    from = (int)((float)share.number * each_share), last = share.number + 1 == share.of ? all : (int)((float)(share.number + 1) * each_share);
    return true;
  }
  __device__ __forceinline__ bool find(const spc_args &args, const spc_tile_place &place, const spc_bulk_share &share, int *listed, bool samples) {
    if (starts && !counted(args, place, share, samples)) return false;
    count = min(Columns, last - from);
    if (looks()) {
      int at = before - from;
      each_word(args, place, [&](int number, spc_u32 left) {
#pragma unroll 1
        for (; left; left &= left - 1, at++)
          if ((spc_u32)at < (spc_u32)count) listed[at] = number * 32 + __ffs((int)left) - 1;
      });
    }
    __syncthreads();
    return true;
  }
  // Bits of its part of the columns, by the warps that store, which have nothing to do yet.  (Behind the first rows that are asked for whatever is fetched
  // waits for them, some 3 us, be it a word, a constant or an instruction.)
  __device__ __forceinline__ void leave(const spc_args &args, const spc_tile_place &place, const spc_bulk_share &share, int mine, int sharing) const {
    if constexpr (Config::detects)
#pragma unroll 1
      for (int n = share.first + mine * 32; n < share.end && starts; n += sharing * 32)
        spc_leave_bits<Config>(args, place, n, share.end, spc_asked_word<Config>(args, place.m0 / Config::tile_m, n / 32));
  }
  // Of its part of the columns, by who has looked at them.
  __device__ __forceinline__ void clear(const spc_args &args, const spc_tile_place &place, const spc_bulk_share &share) const {
    if (!Config::clears || !starts || !looks()) return;
    each_word(args, place, [&](int number, spc_u32 set) {
      const int n = number * 32;
#pragma unroll 1
      for (spc_u32 lanes = ptx_ballot(n >= share.first && n < share.end); lanes; lanes &= lanes - 1) { // of each of them a column a lane
        const int of = __ffs((int)lanes) - 1, column = __shfl_sync(~0u, n, of) + (int)threadIdx.x % 32;
        const spc_u32 asked = __shfl_sync(~0u, set, of);
        if (column < share.end && !(asked >> threadIdx.x % 32 & 1)) spc_clear_column<Config>(args, place, column);
      }
    });
  }
  __device__ __forceinline__ bool advance(const spc_args &, spc_tile_place &, const spc_bulk_share &) {
    starts = false;
    return (from += Columns) < last;
  }
};

template <class Config> struct spc_bulk_part : Config { // of the warps that multiply
  static constexpr int threads = 256, tile_n = 16, tile_k = threads;
};

template <class Config> struct spc_bulk_rows {
  using T = typename Config::A;
  using stream = spc_stream_sums<spc_bulk_part<Config>>;
  static constexpr int workers = stream::warps, loaders = 4, storers = 4; // warps
  static constexpr int width = 8, tile = Config::tile_m * width;          // columns that are multiplied at once
  static constexpr int window = 1536;                                     // columns that are listed at once
  static constexpr int most_slots = 8, longest = 2560, shortest = 512;    // k's of a slot
  static constexpr int sums_bytes = Config::threads / 32 * Config::tile_m * spc_skip_part<Config>::tile_n * 4; // of the warps, by loads into registers
  static constexpr int listed_at = sums_bytes, barriers_at = listed_at + window * 4, a_at = barriers_at + 256;
  static_assert(Config::threads == (workers + loaders + storers) * 32 && Config::tile_m == 8 && tile == 64, "two warps store eight columns");
  static_assert(sums_bytes >= 2 * workers * tile * 4 && sizeof(T) == 2 && longest % stream::step == 0, "all warps have turns of a slot");
  static_assert(a_at % 128 == 0 && (2 * most_slots + 5) * 8 <= 256, "barriers lie before A");

  spc_u32 shared;                // the block's memory
  int k, chunk, a_bytes;         // of a row; of a slot; of A's row in shared memory
  int slots;                     // 0: loads into registers
  int slot, phase;               // that this warp comes to next
  int left, brought;             // eights of columns that were multiplied; times that A has come

  __device__ __forceinline__ spc_bulk_rows(const spc_args &args, char *room) : shared(spc_shared_address(room)), slot(0), phase(0), left(0), brought(0) {
    k = (int)Config::k(args), a_bytes = (k * 2 + 127) / 128 * 128 + 64, chunk = longest, slots = 0;
  }
  // By one warp, for all: how long slots are, and how many there is room for.
  __device__ __forceinline__ void share(bool aligned) {
    const int free = max(Config::shared_bytes - a_at - Config::tile_m * a_bytes, 0);
    if (aligned && k > 0 && k % 8 == 0)
#pragma unroll 1
      for (spc_u32 parts = (k + longest - 1) / longest; slots < 3 && chunk > shortest; parts++) {
        chunk = (int)((k + parts - 1) / parts + stream::step - 1) / stream::step * stream::step;
        slots = min((int)((spc_u32)free / (spc_u32)slot_bytes()), most_slots);
      }
    if (slots < 2) slots = 0;
  }
  __device__ __forceinline__ int row_bytes() const { return chunk * 2 + 64; }
  __device__ __forceinline__ int slot_bytes() const { return width * row_bytes(); }
  __device__ __forceinline__ spc_u32 barrier(int i) const { return shared + barriers_at + i * 8; }
  __device__ __forceinline__ spc_u32 full(int slot) const { return barrier(slot); }
  __device__ __forceinline__ spc_u32 empty(int slot) const { return barrier(most_slots + slot); }
  __device__ __forceinline__ spc_u32 a_full() const { return barrier(2 * most_slots); }
  __device__ __forceinline__ spc_u32 sums_full(int which) const { return barrier(2 * most_slots + 1 + which); }
  __device__ __forceinline__ spc_u32 sums_empty(int which) const { return barrier(2 * most_slots + 3 + which); }
  __device__ __forceinline__ spc_u32 slot_at(int slot) const { return shared + a_at + Config::tile_m * a_bytes + slot * slot_bytes(); }
  __device__ __forceinline__ void pass() {
    if (++slot == slots) slot = 0, phase ^= 1;
  }

  // By one thread, before the others come.
  __device__ __forceinline__ void begin() const {
    for (int i = 0; i < most_slots; i++) ptx_barrier_init(full(i), 1), ptx_barrier_init(empty(i), workers * 32);
    for (int i = 0; i < 2; i++) ptx_barrier_init(sums_full(i), workers * 32), ptx_barrier_init(sums_empty(i), storers / 2 * 32);
    ptx_barrier_init(a_full(), 1);
    ptx_fence_barrier_init();
  }

  // The first thread of a warp that loads: a thread starts one copy after the other, whoever asks for it, so each of the warps has its own.
  __device__ __forceinline__ bool loads() const { return (spc_u32)threadIdx.x / 32 - workers < loaders && threadIdx.x % 32 == 0; }

  // Before anybody knows what is asked for, by the first warp that loads, a row a lane.  Rows of A behind the last are the last, and never looked at.
  __device__ __forceinline__ void bring_a(const spc_args &args, const spc_tile_place &place) const {
    const int lane = (int)threadIdx.x % 32;
    if (lane == 0) ptx_barrier_expect(a_full(), Config::tile_m * k * 2);
    __syncwarp();
    if (lane < Config::tile_m)
      ptx_bulk_load(shared + a_at + lane * a_bytes, Config::a(args, place.batch) + min(place.m0 + lane, place.m - 1) * Config::pitch_a(args), k * 2, a_full());
  }
  __device__ __forceinline__ void await_a() const { ptx_barrier_wait(a_full(), (brought - 1) & 1); }
  // By the first threads of `sharing` warps, of which this is number `mine`; the first of them says how much will come.
  __device__ __forceinline__ void fill(const spc_args &args, const spc_tile_place &place, int to, const int *listed, int there, int at, int mine, int sharing) const {
    const int bytes = min(chunk, k - at) * 2;
    if (mine == 0) ptx_barrier_expect(full(to), there * bytes);
#pragma unroll 1
    for (int r = mine; r < there; r += sharing)
      ptx_bulk_load(slot_at(to) + r * row_bytes(), Config::b(args, place.batch) + listed[r] * Config::pitch_b(args) + at, bytes, full(to));
  }
  // The first time all slots are filled by those that store as well: there are more of them, and they have nothing to do yet.  Those that multiply are on their
  // way meanwhile: what instructions they still miss would wait behind the rows.
  __device__ __forceinline__ void bring_first(const spc_args &args, const spc_tile_place &place, const int *listed, int count) const {
    int to = slot, at = 0, first = 0;
#pragma unroll 1
    for (int number = 0; number < slots && first < count; number++) {
      fill(args, place, to, listed + first, min(width, count - first), at, (int)threadIdx.x / 32 - workers, loaders + storers);
      if (++to == slots) to = 0;
      if ((at += chunk) >= k) at = 0, first += width;
    }
  }
  __device__ __forceinline__ void bring(const spc_args &args, const spc_tile_place &place, const int *listed, int count) {
    int number = 0;
#pragma unroll 1
    for (int first = 0; first < count; first += width)
#pragma unroll 1
      for (int at = 0; at < k; at += chunk, pass()) {
        if (number++ < slots) continue;
        ptx_barrier_wait(empty(slot), phase ^ 1);
        fill(args, place, slot, listed + first, min(width, count - first), at, (int)threadIdx.x / 32 - workers, loaders);
      }
  }
  // The k's of a slot, from `at` on; rows of B that were not brought are multiplied as they lie, and nobody looks.
  __device__ __forceinline__ void multiply(stream (&sums)[2], int at) const {
    const int g = (int)threadIdx.x % 32 / 4, mine = (int)threadIdx.x / 32 * 32 + (int)threadIdx.x % 4 * 8, extent = min(chunk, k - at);
    const spc_u32 a = shared + a_at + g * a_bytes + at * 2, b = slot_at(slot) + g * row_bytes();
#pragma unroll 1
    for (int s = mine; s - mine < extent; s += 2 * stream::step)
#pragma unroll
      for (int i = 0; i < 2; i++) {
        const int from = s + i * stream::step;
        typename stream::turn t = {};
        if (from < extent) {
          ptx_load_shared_128(t.a, a + from * 2);
          ptx_load_shared_128(t.b[0], b + from * 2);
        }
        sums[i].multiply(t);
      }
  }
  __device__ __forceinline__ void multiply_all(int count, float *partial) {
    await_a();
#pragma unroll 1
    for (int first = 0; first < count; first += width, left++) {
      stream sums[2];
      sums[0].clear(), sums[1].clear();
#pragma unroll 1
      for (int at = 0; at < k; at += chunk, pass()) {
        ptx_barrier_wait(full(slot), phase);
        multiply(sums, at);
        ptx_barrier_arrive(empty(slot));
      }
      float *to = partial + (left % 2 * workers + (int)threadIdx.x / 32) * tile;
      ptx_barrier_wait(sums_empty(left % 2), (left / 2 & 1) ^ 1);
#pragma unroll
      for (int e = 0; e < 2; e++) sums[0].sum[e] += sums[1].sum[e];
      sums[0].each([&](int r, int column, float sum) {
        if (column < width) to[r * width + column] = sum;
      });
      ptx_barrier_arrive(sums_full(left % 2));
    }
  }
  // An element a thread.
  __device__ __forceinline__ void store_all(const spc_args &args, const spc_tile_place &place, const int *listed, int count, const float *partial) {
    const int mine = (int)threadIdx.x / 32 - workers - loaders, i = mine % 2 * 32 + (int)threadIdx.x % 32;
    const int row = Config::layout_t == 'r' ? i / width : i % width, column = Config::layout_t == 'r' ? i % width : i / width, m = place.m0 + row;
#pragma unroll 1
    for (int first = 0; first < count; first += width, left++) {
#pragma unroll 1
      for (int at = 0; at < k; at += chunk) pass(); // it fills them too, where a window begins
      if (left % 2 != mine / 2) continue;
      const int at = first + column;
      ptx_barrier_wait(sums_full(left % 2), left / 2 & 1);
      const float *from = partial + left % 2 * workers * tile + row * width + column;
      float sum = 0;
#pragma unroll
      for (int w = 0; w < workers; w++) sum += from[w * tile];
      ptx_barrier_arrive(sums_empty(left % 2));
      if (m < place.m && at < count) spc_skip_store<Config>(args, place, m, listed[at], Config::epilogue(args, sum, m, listed[at], place.batch));
    }
  }
  // The columns of a window.  clear, leave: what is to be done while the first are on their way, by all and by the warps that store.
  template <class Clear, class Leave>
  __device__ __forceinline__ void columns(const spc_args &args, const spc_tile_place &place, const int *listed, int count, float *partial, Clear clear, Leave leave) {
    const int warp = (int)threadIdx.x / 32;
    if (warp >= workers && threadIdx.x % 32 == 0) bring_first(args, place, listed, count);
    if (loads()) bring(args, place, listed, count);
    __syncwarp();
    clear();
    if (warp < workers) multiply_all(count, partial);
    else if (warp >= workers + loaders) leave(), store_all(args, place, listed, count, partial);
    __syncthreads(); // A and the list may be written over
  }
};

// Blocks by turns have the strips of 8 rows and their shares of columns, in words of bits.
template <class Config> SPC_DEVICE void spc_nbulk(const spc_args &args) {
  using rows = spc_bulk_rows<Config>;
  static_assert(Config::tile_n == 32, "a share is words of bits");
  extern __shared__ __align__(1024) char spc_shared[];
  float *partial = (float *)spc_shared; // [warp][row][column]
  int *listed = (int *)(spc_shared + rows::listed_at);
  spc_tile_place place = {0, 0, (int)Config::m(args), (int)Config::n(args), 0};
  const int strips = (int)((spc_u32)(place.m + Config::tile_m - 1) / Config::tile_m), words = (int)((spc_u32)(place.n + 31) / 32);
  const float of_a_strip = __fdividef(1.0f, (float)max(strips, 1)); // of a job's number there is no more than a float tells apart
  const int shares = max(min((int)(((float)gridDim.x + 0.5f) * of_a_strip), words), 1);
  const bool aligned = spc_rows_aligned<Config>(args, place);
  const bool parts = !Config::asks_bits || Config::clears; // a share is a part of the columns too: words of it, and how many shares have one more
  const spc_u32 own = parts ? (spc_u32)words / (spc_u32)shares : 0, more = parts ? (spc_u32)words % (spc_u32)shares : 0;
  auto begin = [&](spc_u32 job) {
    const spc_u32 share = (spc_u32)(((float)job + 0.5f) * of_a_strip), first = share * own + min(share, more);
    place.m0 = (int)(job - share * strips) * Config::tile_m, place.n0 = (int)first * 32;
    const int end = parts ? min((int)(first + own + (share < more ? 1 : 0)) * 32, place.n) : share == 0 ? place.n : 0; // or the first has all
    return spc_bulk_share{place.n0, end, (int)share, shares};
  };
  rows all(args, spc_shared);
  __shared__ int lengths[2]; // there for all when they have met to count
  const bool brings_a = threadIdx.x / 32 == rows::workers;
  if (brings_a) {
    all.share(aligned);
    if (threadIdx.x % 32 == 0) all.begin(), lengths[0] = all.chunk, lengths[1] = all.slots;
    __syncwarp();
  }
  ptx_wait_grid();
  if (spc_not_meant<Config>(args)) return;
  spc_bulk_columns<Config, rows::window> asked;
  bool asks = true; // for the first time
#pragma unroll 1
  for (int job = (int)blockIdx.x; job < strips * shares; job += (int)gridDim.x) {
    const spc_bulk_share share = begin((spc_u32)job);
    asked.ask(args, place, share, asks);
    all.brought++;
    if (brings_a && all.slots) all.bring_a(args, place);
#pragma unroll 1
    for (bool more = true; more; more = asked.advance(args, place, share), asks = false) {
      const bool meant = asked.find(args, place, share, listed, asks);
      if (asks) all.chunk = lengths[0], all.slots = lengths[1];
      if (!meant) {
        if (all.slots) all.await_a(); // nobody leaves before it is there
        return;
      }
      if (asks && Config::takes_sample) spc_pass_on(spc_speaks<Config>()); // the verdict, for who comes and does not wait
      ptx_release_grid();
      const auto clear = [&] { asked.clear(args, place, share); };
      const auto leave = [&] { asked.leave(args, place, share, (int)threadIdx.x % (rows::storers * 32), rows::storers * 32); };
      if (all.slots) {
        all.columns(args, place, listed, asked.count, partial, clear, leave);
      } else {
        clear(), leave();
        spc_nskip_columns<Config>(args, place, listed, asked.count, partial, aligned);
      }
    }
  }
}
