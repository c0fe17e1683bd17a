// detect.cuh - where the non-zeros are: values to bits, bits to lists, and the guard's verdict on the way.
//
// For each strip of `strip` values of one index and each micro-tile of `gran` values of the axis:
//     bits    u32 [strips][words]       bit i % 32 of word i / 32: micro-tile i holds a non-zero
//     counts  i32 [strips]              how many do
//     ids     i32 [strips][capacity]    which, ascending: a scan gives the order, so results are deterministic
//
//     detect_bits       a sample first: where it is covered enough, dense is meant and nothing else is read
//     lists_from_bits   the cover, from all bits or from many; where it is enough, dense is meant and no list is made
//
// All blocks see the same bits, so all take the same decision and the first one writes it (guard.cuh): nothing is counted in
// memory, nothing waits for another block.
// Config names: is_set(args, strip value, axis value); strip_extent, axis_extent, capacity; V, values, pitch; counts_asked (columns that do not hold in
// all of a strip's rows: their elements are asked one by one).
#pragma once
#include "spc/guard.cuh"

// ---- the guard -----------------------------------------------------------------------------------------------
// Shared memory of a block: in front of a product that of its ring, which is all there is.
template <class Config, class T> SPC_DEVICE T &spc_room() {
  if constexpr (spc_in_front<Config>) {
    extern __shared__ __align__(1024) char spc_shared[];
    static_assert(sizeof(T) <= spc_room_bytes, "a product has more");
    return *(T *)spc_shared;
  } else {
    __shared__ T room;
    return room;
  }
}

// The sums over a block of two numbers, for all of its threads.
struct spc_two { int x, y; };
template <class Config> struct spc_warp_sums { spc_two of_warp[Config::threads / 32]; };
// Of numbers that are alike in all lanes of a warp; nobody reads `room` any more.
template <class Config> SPC_DEVICE spc_two spc_sum_warps(spc_warp_sums<Config> &room, spc_two mine) {
  if ((threadIdx.x & 31) == 0) room.of_warp[threadIdx.x / 32] = mine;
  __syncthreads();
  spc_two all = {0, 0};
#pragma unroll
  for (int w = 0; w < Config::threads / 32; w++) all.x += room.of_warp[w].x, all.y += room.of_warp[w].y;
  return all;
}
template <class Config> SPC_DEVICE spc_two spc_block_sums(spc_two mine) {
  mine = {__reduce_add_sync(~0u, mine.x), __reduce_add_sync(~0u, mine.y)};
  spc_warp_sums<Config> &room = spc_room<Config, spc_warp_sums<Config>>();
  __syncthreads(); // whoever asked before has read them
  return spc_sum_warps<Config>(room, mine);
}
// A sample is counted once or twice, each time in a room of its own.
template <class Config> struct spc_sample_sums { spc_warp_sums<Config> of[2]; };
template <class Config> SPC_DEVICE spc_two spc_sum_sample(int turn, spc_two mine) {
  return spc_sum_warps<Config>(spc_room<Config, spc_sample_sums<Config>>().of[turn], mine);
}

// ---- values to bits ------------------------------------------------------------------------------------------
// Bits of a value that make it a non-zero, in the even and the odd 32-bit words of memory: -0 is zero.
template <class T> struct spc_non_zero { static constexpr spc_u32 even = ~0u, odd = ~0u; };
template <> struct spc_non_zero<double> { static constexpr spc_u32 even = ~0u, odd = 0x7fffffffu; };
template <> struct spc_non_zero<float> { static constexpr spc_u32 even = 0x7fffffffu, odd = even; };
template <> struct spc_non_zero<spc_f16> { static constexpr spc_u32 even = 0x7fff7fffu, odd = even; };
template <> struct spc_non_zero<spc_bf16> { static constexpr spc_u32 even = 0x7fff7fffu, odd = even; };
template <> struct spc_non_zero<spc_f8e4m3> { static constexpr spc_u32 even = 0x7f7f7f7fu, odd = even; };
template <> struct spc_non_zero<spc_f8e5m2> { static constexpr spc_u32 even = 0x7f7f7f7fu, odd = even; };

// A strip's run of one value of the axis, where the strip's index is contiguous: `lanes` chunks of 16 bytes side by
// side, `rows` such runs in one load of a warp.
template <class Config> struct spc_strip_runs {
  using V = typename Config::V;
  static constexpr int chunk = 16 / (int)sizeof(V), lanes = Config::strip / chunk;
  static constexpr bool fit = Config::strip_is_contiguous && Config::strip % chunk == 0 && lanes > 0 && lanes <= 32 &&
                              (lanes & (lanes - 1)) == 0;
  static constexpr int rows = fit ? 32 / lanes : 1, batch = lanes < 8 ? lanes : 8; // batch: loads under way

  const V *from; // of this lane
  long long pitch, strips, extent;
  bool aligned;

  __device__ __forceinline__ explicit spc_strip_runs(const spc_args &args)
      : pitch(Config::pitch(args)), strips(Config::strips(args)), extent(Config::axis_extent(args)) {
    aligned = fit && (((spc_u64)Config::values(args) | (spc_u64)pitch * sizeof(V)) & 15) == 0;
    from = Config::values(args) + lane() % lanes_here() * chunk;
  }
  SPC_DEVICE int lane() { return (int)threadIdx.x & 31; }
  SPC_DEVICE constexpr int lanes_here() { return lanes > 0 ? lanes : 1; }
  // The lane's chunk of strip s, number `at` of the axis.  Rows start at multiples of 16 bytes and have no padding: a chunk lies inside wholly or not at
  // all; or rows were rounded up, and nobody has written what is behind them.
  __device__ __forceinline__ uint4 load(const spc_args &args, long long s, long long at) const {
    long long first = s * Config::strip;
    bool inside = at < extent && first + lane() % lanes_here() * chunk < Config::strip_extent(args);
    uint4 v = inside ? ptx_load_16(from + at * pitch + first) : make_uint4(0, 0, 0, 0);
    if constexpr (Config::strip_is_rounded) {
      const long long left = Config::strip_extent(args) - first - lane() % lanes_here() * chunk;
      auto first_of = [&](spc_u32 word, int number) {
        const int bits = (int)min(left, (long long)chunk) * (int)sizeof(V) * 8 - number * 32;
        return bits >= 32 ? word : bits > 0 ? word & ((1u << bits) - 1) : 0;
      };
      v = make_uint4(first_of(v.x, 0), first_of(v.y, 1), first_of(v.z, 2), first_of(v.w, 3));
    }
    return v;
  }
  SPC_DEVICE bool any(uint4 v) {
    return (((v.x | v.z) & spc_non_zero<V>::even) | ((v.y | v.w) & spc_non_zero<V>::odd)) != 0;
  }
  // Of a vote, bit j: run j of the load.
  SPC_DEVICE bool run(spc_u32 votes, int j) {
    const spc_u32 mask = lanes_here() < 32 ? (1u << lanes_here() % 32) - 1 : ~0u;
    return (votes >> j * lanes_here() % 32 & mask) != 0;
  }
  // Whether micro-tile number `tile` of strip s holds a non-zero: long ones, where a warp has one.
  static constexpr int long_gran = 8;
  __device__ __forceinline__ bool find_tile(const spc_args &args, long long s, long long tile) const {
    bool found = false;
#pragma unroll 1
    for (int r0 = 0; r0 < Config::gran; r0 += 8 * rows) {
      uint4 v[8];
#pragma unroll
      for (int i = 0; i < 8; i++) {
        int r = r0 + i * rows + lane() / lanes_here();
        v[i] = r < Config::gran ? load(args, s, tile * Config::gran + r) : make_uint4(0, 0, 0, 0);
      }
#pragma unroll
      for (int i = 0; i < 8; i++) found |= any(v[i]);
    }
    return ptx_ballot(found) != 0;
  }
  // The word of bits number `word` of strip s.
  __device__ __forceinline__ spc_u32 find(const spc_args &args, long long s, long long word) const {
    const int gran = Config::gran;
    long long first = word * 32 * gran + lane() / lanes_here();
    spc_u32 bits = 0;
#pragma unroll 1
    for (int r0 = 0; r0 < 32 * gran; r0 += batch * rows) {
      uint4 v[batch];
#pragma unroll
      for (int i = 0; i < batch; i++) v[i] = load(args, s, first + r0 + i * rows);
#pragma unroll
      for (int i = 0; i < batch; i++) {
        spc_u32 votes = ptx_ballot(any(v[i]));
#pragma unroll
        for (int j = 0; j < rows; j++) bits |= (run(votes, j) ? 1u : 0u) << (r0 + i * rows + j) / gran;
      }
    }
    return bits;
  }
};

// A strip where the axis is contiguous: a block takes a `unit` of columns, whole loads of a warp and whole words of bits; its
// warps share the rows, a lane keeps what its 16 bytes of all of them hold.
template <class Config> struct spc_axis_runs {
  using V = typename Config::V;
  static constexpr int chunk = 16 / (int)sizeof(V), gran = Config::gran, warps = Config::threads / 32;
  static constexpr int load = 32 * chunk, word = 32 * gran, unit = load > word ? load : word; // columns
  static constexpr int parts = unit / load, words = unit / word;                              // of a unit
  static constexpr int each = gran < chunk ? chunk / gran : 1;                                // micro-tiles of a chunk
  static constexpr bool sampled = !Config::strip_is_contiguous && (gran & (gran - 1)) == 0;
  static constexpr bool fit = sampled && parts <= warps && words <= Config::threads; // a block

  const V *from;
  long long pitch, rows, extent;
  bool aligned;

  __device__ __forceinline__ explicit spc_axis_runs(const spc_args &args)
      : from(Config::values(args)), pitch(Config::strip_pitch(args)), rows(Config::strip_extent(args)),
        extent(Config::axis_extent(args)) {
    aligned = sampled && Config::axis_is_contiguous && extent % chunk == 0 &&
              (((spc_u64)from | (spc_u64)pitch * sizeof(V)) & 15) == 0;
  }
  SPC_DEVICE int lane() { return (int)threadIdx.x & 31; }
  // Rows are whole chunks, and start at multiples of 16 bytes.
  __device__ __forceinline__ uint4 at(long long row, long long last, long long column) const {
    return row < last && column < extent ? ptx_load_16(from + row * pitch + column) : make_uint4(0, 0, 0, 0);
  }
  // What either of two chunks holds: to tell zeros from it takes as long as from one.
  SPC_DEVICE uint4 both(uint4 a, uint4 b) { return make_uint4(a.x | b.x, a.y | b.y, a.z | b.z, a.w | b.w); }
  // Of a chunk, bit i: its micro-tile number i holds a non-zero.
  SPC_DEVICE spc_u32 bits(uint4 v) {
    const int size = (int)sizeof(V), per = each > 1 ? 16 / each : 16; // bytes of a micro-tile here
    spc_u32 word[4] = {v.x & spc_non_zero<V>::even, v.y & spc_non_zero<V>::odd, v.z & spc_non_zero<V>::even, v.w & spc_non_zero<V>::odd};
    spc_u32 found = 0;
    if constexpr (each == 8 && size == 2 && spc_non_zero<V>::even == 0x7fff7fffu) { // two elements at once: a sum's highest bit says so of each
#pragma unroll
      for (int i = 0; i < 4; i++) found |= ((word[i] + 0x7fff7fffu) & 0x80008000u) >> (15 - 2 * i);
      return (found | found >> 15) & 255;
    }
    static_assert(per >= size, "a micro-tile is an element at least");
#pragma unroll
    for (int i = 0; i < each; i++) {
      spc_u32 any = 0;
#pragma unroll
      for (int b = i * per; b < (i + 1) * per; b += per < 4 ? per : 4)
        any |= per < 4 ? word[b / 4] >> b % 4 * 8 & ((1u << per % 4 * 8) - 1) : word[b / 4];
      found |= (any ? 1u : 0u) << i;
    }
    return found;
  }
  // What all of some chunks hold, an element's highest bit: told from zeros one by one.  Of elements of 8 bytes nothing is said to be full.
  SPC_DEVICE spc_u32 full_word(spc_u32 v, spc_u32 mask) {
    const spc_u32 low = sizeof(V) == 1 ? 0x7f7f7f7fu : sizeof(V) == 2 ? 0x7fff7fffu : 0x7fffffffu;
    v &= mask;
    return ((v & low) + low) | v;
  }
  SPC_DEVICE uint4 full_too(uint4 all, uint4 v) {
    const spc_u32 even = spc_non_zero<V>::even, odd = spc_non_zero<V>::odd;
    return make_uint4(all.x & full_word(v.x, even), all.y & full_word(v.y, odd), all.z & full_word(v.z, even), all.w & full_word(v.w, odd));
  }
  SPC_DEVICE spc_u32 full_bits(uint4 all) {
    static_assert(gran == 1, "columns are told apart");
    if (sizeof(V) > 4) return 0;
    const int down = 8 * (int)sizeof(V) - 1;
    const spc_u32 one = sizeof(V) == 1 ? 0x01010101u : sizeof(V) == 2 ? 0x00010001u : 1u;
    return bits(make_uint4(all.x >> down % 32 & one, all.y >> down % 32 & one, all.z >> down % 32 & one, all.w >> down % 32 & one));
  }
  // The words of unit number `u` of strip s into shared memory, by the whole block.
  __device__ __forceinline__ void find(spc_u32 *room, long long s, long long u) const {
    const int batch = 8, step = warps / parts;
    int warp = (int)threadIdx.x / 32, column = warp % parts * load + lane() * chunk;
    long long first = s * Config::strip, last = min(first + Config::strip, rows);
    uint4 sum = make_uint4(0, 0, 0, 0);
    if ((int)threadIdx.x < words) room[threadIdx.x] = 0;
    if (warp / parts < step)
#pragma unroll 1
      for (long long r = first + warp / parts; r < last; r += batch * step) {
        uint4 v[batch];
#pragma unroll
        for (int i = 0; i < batch; i++) v[i] = at(r + i * step, last, u * unit + column);
#pragma unroll
        for (int i = 0; i < batch; i++) sum = both(sum, v[i]);
      }
    spc_u32 found = bits(sum);
    int tile = column / gran;
    __syncthreads();
    if (found) atomicOr(&room[tile / 32], found << tile % 32);
    __syncthreads();
  }
};

// A word of bits for strip s: one warp, one lane a micro-tile.
template <class Config> SPC_DEVICE spc_u32 spc_detect_word(const spc_args &args, long long s, long long word) {
  long long tile = word * 32 + ((int)threadIdx.x & 31);
  long long last = min((s + 1) * Config::strip, Config::strip_extent(args));
  bool any = false;
  for (int c = 0; c < Config::gran; c++) {
    long long at = tile * Config::gran + c;
    if (at >= Config::axis_extent(args)) break;
#pragma unroll 8
    for (long long r = s * Config::strip; r < last; r++) any |= Config::is_set(args, r, at);
  }
  return ptx_ballot(any);
}

// The same where the strip's index is contiguous in memory: lanes along the strip, one micro-tile at a time.
template <class Config>
SPC_DEVICE spc_u32 spc_detect_word_along_strip(const spc_args &args, long long s, long long word) {
  int lane = (int)threadIdx.x & 31;
  long long last = min((s + 1) * Config::strip, Config::strip_extent(args));
  spc_u32 bits = 0;
#pragma unroll 4
  for (int b = 0; b < 32; b++) {
    bool any = false;
    for (int c = 0; c < Config::gran; c++) {
      long long at = (word * 32 + b) * Config::gran + c;
      if (at < Config::axis_extent(args))
        for (long long r = s * Config::strip + lane; r < last; r += 32) any |= Config::is_set(args, r, at);
    }
    bits |= (ptx_ballot(any) != 0 ? 1u : 0u) << b;
  }
  return bits;
}

template <class Config> SPC_DEVICE spc_u32 spc_find_word(const spc_args &args, long long s, long long word) {
  if constexpr (Config::strip_is_contiguous) return spc_detect_word_along_strip<Config>(args, s, word);
  else return spc_detect_word<Config>(args, s, word);
}

// Where a sample looks: place `number` of so many is anywhere in its share of what there is, and two hashes of it have nothing in common.  No division:
// all blocks reckon this before they ask for anything.
enum { spc_most_sampled = 1 << 22 }; // of 2^10 shares, 32 bits
SPC_DEVICE spc_u32 spc_other_hash(spc_u32 number) { return number * 2246822519u + 0x9e3779b9u; }
SPC_DEVICE spc_u32 spc_place_in(spc_u32 number, spc_u32 shares, spc_u32 there, spc_u32 hash) { return (number * there + __umulhi(hash, there)) / shares; }

// A sample of micro-tiles, one from each of as many equal shares of the columns, and of the strips.  Every block
// reads all of it, from the shared cache but for the first.  Returns whether the guard takes it for dense.
template <class Config> SPC_DEVICE bool spc_sample_is_dense(const spc_args &args, const spc_strip_runs<Config> &runs) {
  using strip = spc_strip_runs<Config>;
  const int looks = Config::gran < 2 ? 1 : 2;                                  // of a long one a part
  const int warps = Config::threads / 32, wanted = 256 / looks, at_least = 16; // samples; how many times as much is worth it
  const int loads = wanted > warps * strip::rows ? wanted / (warps * strip::rows) : 1;
  const int samples = loads * warps * strip::rows, apart = 157; // nothing in common with a number of warps
  spc_u64 tiles = (spc_u64)runs.strips * (spc_u64)Config::capacity(args);
  if (tiles < (spc_u64)samples || tiles * Config::gran < (spc_u64)samples * looks * at_least || runs.strips >= spc_most_sampled || Config::capacity(args) >= spc_most_sampled) return false;
  bool set[loads] = {};
  double threshold = Config::threshold(args);
  const spc_u32 strips = (spc_u32)runs.strips, wide = (spc_u32)Config::capacity(args);
#pragma unroll
  for (int l = 0; l < loads; l++) {
    spc_u32 number = (spc_u32)(l * warps + (int)threadIdx.x / 32) * strip::rows + (spc_u32)(strip::lane() / strip::lanes_here());
    const spc_u32 at = spc_place_in(number, samples, wide, spc_hash(number)), s = spc_place_in(number * apart % samples, samples, strips, spc_other_hash(number));
#pragma unroll
    for (int c = 0; c < looks; c++) set[l] |= strip::any(runs.load(args, s, (long long)at * Config::gran + c * (Config::gran / looks)));
  }
  int covered = 0;
#pragma unroll
  for (int l = 0; l < loads; l++) {
    spc_u32 votes = ptx_ballot(set[l]);
#pragma unroll
    for (int j = 0; j < strip::rows; j++) covered += strip::run(votes, j) ? 1 : 0;
  }
  covered = spc_sum_sample<Config>(0, {covered, 0}).x;
  if constexpr (Config::counts_asked) return spc_decide_asked<Config>(args, covered, covered, samples, threshold); // which of them do not hold in all rows nobody has looked at
  else return spc_decide<Config>(args, covered, samples, threshold);
}

// The same where the axis is contiguous and a chunk holds several micro-tiles: two chunks of a strip's rows, a warp's each, so that what is
// found empty is (of strips of more than 128 rows: so many of them).  Two that share a sector take as long as one: to look at so many rows
// takes a cycle each.  Half of the rows come first: where these are enough, or as many more would not be, the others are not looked
// at.  Places are one of each part of the strips and one of each part of the columns: strips may be unlike.
// Columns that do not hold in all rows count for more where the product asks for their elements one by one: rows by turns of sixteen then, so that half
// of them tell.
template <class Config> SPC_DEVICE bool spc_sample_columns(const spc_args &args, const spc_axis_runs<Config> &runs) {
  using axis = spc_axis_runs<Config>;
  const int places = axis::warps > 8 && axis::warps < 16 ? axis::warps : 16, across = 2, turns = (places + axis::warps - 1) / axis::warps, at_least = 64;
  const int rows = Config::strip < 128 ? Config::strip : 128, apart = Config::strip / rows, at_once = 32 / across, loads = (rows + at_once - 1) / at_once;
  const bool few = Config::weighed && rows <= 64; // half of so few rows foretell too little of the others, where the cover is compared with another list's
  const int samples = places * across * axis::each, half = few ? loads : (loads + 1) / 2; // of the loads
  const bool foretells = Config::foretells && !Config::counts_asked && !few && half % 2 == 0;
  const spc_u32 strips = (spc_u32)Config::strips(args), wide = (spc_u32)Config::capacity(args) / (across * axis::each); // in pairs of chunks
  const spc_u64 columns = (spc_u64)strips * wide; // a strip high
  if (columns < (spc_u64)places || columns * across * Config::strip < (spc_u64)places * rows * at_least || columns >> 28) return false; // so many times 16 are 32 bits
  double threshold = Config::threshold(args);
  // A deviation of what so many places find: a list that is made in vain costs more than one that is not made where either branch takes as long.
  if constexpr (!Config::counts_asked) threshold -= 0.03;
  const int chunk = axis::lane() % across;
  const typename axis::V *from[turns]; // of this lane, in its place's first row
  int high[turns];                     // rows of the strip that are there
#pragma unroll
  for (int t = 0; t < turns; t++) {
    const spc_u32 number = t * axis::warps + threadIdx.x / 32;
    // 7 has nothing in common with their number: every part of the columns has its turn
    const spc_u32 strip = spc_place_in(number, places, strips, spc_hash(number)), pair = spc_place_in(number * 7 % places, places, wide, spc_other_hash(number));
    const long long first = (long long)strip * Config::strip, column = (long long)(pair * across + chunk) * axis::chunk;
    from[t] = runs.from + first * runs.pitch + column;
    high[t] = number < places && column < runs.extent ? (int)min((long long)Config::strip, runs.rows - first) : 0;
  }
  auto look = [&](int t, int i) {
    if (Config::counts_asked) i = i < half ? 2 * i : 2 * (i - half) + 1;
    const int number = i * at_once + axis::lane() / across;
    int row = number * apart;
    if (Config::counts_asked) row = min(row, high[t] - 1); // a row that is not there holds what the last one does
    return number < rows && row >= 0 && row < high[t] ? ptx_load_16(from[t] + row * runs.pitch) : make_uint4(0, 0, 0, 0);
  };
  uint4 any[turns] = {}, all[Config::counts_asked ? turns : 1];
  if constexpr (Config::counts_asked)
    for (int t = 0; t < turns; t++) all[t] = make_uint4(~0u, ~0u, ~0u, ~0u);
#pragma unroll 1
  for (int known = 0, until = half;; known = until, until = loads) {
    auto there = [&](int i) { return (loads % 2 == 0 && loads > 1) || known + i < loads; }; // both halves are as long, or the second is shorter
    int set = 0, asked = 0, earlier = 0; // of half of these rows
    uint4 seen[turns][half]; // under way
#pragma unroll
    for (int t = 0; t < turns; t++)
#pragma unroll
      for (int i = 0; i < half; i++) seen[t][i] = there(i) ? look(t, known + i) : make_uint4(0, 0, 0, 0);
#pragma unroll
    for (int t = 0; t < turns; t++) {
#pragma unroll
      for (int i = 0; i < half; i++) {
        if (foretells && i == half / 2) earlier += __popc(ptx_any_bits(axis::bits(any[t]) << chunk * axis::each));
        any[t] = axis::both(any[t], seen[t][i]);
      }
      const spc_u32 held = ptx_any_bits(axis::bits(any[t]) << chunk * axis::each);
      set += __popc(held);
      if constexpr (Config::counts_asked) {
#pragma unroll
        for (int i = 0; i < half; i++)
          if (there(i)) all[t] = axis::full_too(all[t], seen[t][i]);
        asked += __popc(held & ptx_any_bits((~axis::full_bits(all[t]) & ((1u << axis::each) - 1)) << chunk * axis::each));
      }
    }
    if constexpr (Config::counts_asked) {
      const spc_two sums = spc_sum_sample<Config>(known > 0, {set, asked});
      const double wanted = threshold * samples, counted = spc_counted(sums.x, sums.y);
      if (until >= loads || counted >= wanted || counted * loads < wanted * until) return spc_decide_asked<Config>(args, sums.x, sums.y, samples, threshold);
    } else {
      const spc_two sums = spc_sum_sample<Config>(known > 0, {set, earlier});
      const double wanted = threshold * samples, margin = samples * 0.1;
      set = sums.x;
      if (until >= loads || set >= wanted || set * loads < wanted * until) return spc_decide<Config>(args, set, samples, threshold);
      // Rows that were not looked at are twice as many as the later half of those that were: each half leaves the share of what is left that this one has left.
      const double left = samples - set, kept = left / max(samples - sums.y, 1), likely = samples - left * kept * kept;
      if (foretells && likely >= wanted + margin) return spc_decide<Config>(args, likely, samples, threshold);
    }
  }
}

// Where the axis is contiguous and a micro-tile has chunks of its own: of each a few, a lane one of them.  A micro-tile that was found
// empty may not be: the cover is at least what was found, so dense is not said in vain; what the sample misses the bits tell.
template <class Config> SPC_DEVICE bool spc_sample_chunks(const spc_args &args, const spc_axis_runs<Config> &runs) {
  using axis = spc_axis_runs<Config>;
  const int samples = 128, looks = 4, at_least = 64, apart = 79, turns = (samples * looks + Config::threads - 1) / Config::threads;
  const int part = Config::strip > looks ? Config::strip / looks : 1; // of a strip's rows, a look's: its zeros may come in lower blocks
  spc_u32 strips = (spc_u32)Config::strips(args);
  spc_u64 tiles = (spc_u64)strips * (spc_u64)Config::capacity(args);
  spc_u64 chunks = (spc_u64)(axis::gran / axis::chunk) * Config::strip * tiles; // of 16 bytes
  if (tiles < (spc_u64)samples || chunks < (spc_u64)samples * looks * at_least || strips >= spc_most_sampled || Config::capacity(args) >= spc_most_sampled) return false;
  double threshold = Config::threshold(args);
  const spc_u32 wide = (spc_u32)Config::capacity(args), look = threadIdx.x % looks;
  uint4 seen[turns]; // all asked for before the first is waited for
#pragma unroll
  for (int t = 0; t < turns; t++) {
    const spc_u32 number = (t * Config::threads + threadIdx.x) / looks, hash = spc_hash(number), within = hash >> 8;
    const spc_u32 s = spc_place_in(number * apart % samples, samples, strips, spc_other_hash(number));
    const spc_u32 at = spc_place_in(number, samples, wide, hash) * axis::gran + (within + look * 5) % (axis::gran / axis::chunk) * axis::chunk;
    const long long row = (long long)s * Config::strip + (look * part + within % part) % Config::strip;
    seen[t] = number < samples ? runs.at(row, runs.rows, at) : make_uint4(0, 0, 0, 0);
  }
  int covered = 0;
#pragma unroll
  for (int t = 0; t < turns; t++) {
    spc_u32 votes = ptx_ballot(axis::bits(seen[t]) != 0);
    if (look == 0) covered += (votes >> (axis::lane() & ~(looks - 1)) & ((1u << looks) - 1)) != 0;
  }
  covered = spc_sum_sample<Config>(0, {__reduce_add_sync(~0u, covered), 0}).x;
  return spc_decide<Config>(args, covered, samples, threshold);
}

template <class Config> SPC_DEVICE bool spc_sample_is_dense(const spc_args &args, const spc_axis_runs<Config> &runs) {
  if constexpr (spc_axis_runs<Config>::each > 1) return spc_sample_columns<Config>(args, runs);
  else return spc_sample_chunks<Config>(args, runs);
}

// Whether a sample says dense; where none can be taken it does not.  Writes the verdict.
template <class Config> SPC_DEVICE bool spc_sample_values(const spc_args &args) {
  spc_clear_verdict<Config>(args);
  if constexpr (spc_strip_runs<Config>::fit) {
    spc_strip_runs<Config> runs(args);
    if (runs.aligned) return spc_sample_is_dense<Config>(args, runs);
  }
  if constexpr (spc_axis_runs<Config>::sampled) {
    spc_axis_runs<Config> runs(args);
    if (runs.aligned) return spc_sample_is_dense<Config>(args, runs);
  }
  return false;
}

template <class Config>
SPC_DEVICE spc_u32 spc_word_of(const spc_args &args, const spc_strip_runs<Config> &runs, long long s, long long word) {
  if constexpr (spc_strip_runs<Config>::fit)
    if (runs.aligned) return runs.find(args, s, word);
  return spc_find_word<Config>(args, s, word);
}

// A block a unit of a strip, neighbours take neighbouring strips.
template <class Config> SPC_DEVICE void spc_bits_of_units(const spc_args &args, const spc_axis_runs<Config> &runs) {
  using axis = spc_axis_runs<Config>;
  __shared__ spc_u32 room[axis::words];
  spc_u32 words = (spc_u32)((Config::capacity(args) + 31) / 32), strips = (spc_u32)Config::strips(args);
  spc_u32 units = (words + axis::words - 1) / axis::words;
#pragma unroll 1
  for (spc_u32 i = blockIdx.x; i < strips * units; i += gridDim.x) {
    spc_u32 s = i % strips, first = i / strips * axis::words;
    runs.find(room, s, i / strips);
    if (threadIdx.x < axis::words && first + threadIdx.x < words)
      Config::bits(args)[s * words + first + threadIdx.x] = room[threadIdx.x];
    __syncthreads();
  }
}

// A block a word, a warp a bit of it.
template <class Config> SPC_DEVICE void spc_bits_of_tiles(const spc_args &args, const spc_strip_runs<Config> &runs) {
  const int warps = Config::threads / 32;
  __shared__ spc_u32 room;
  spc_u32 words = (spc_u32)((Config::capacity(args) + 31) / 32), strips = (spc_u32)runs.strips;
#pragma unroll 1
  for (spc_u32 i = blockIdx.x; i < strips * words; i += gridDim.x) {
    spc_u32 s = i % strips, word = i / strips;
    if (threadIdx.x == 0) room = 0;
    __syncthreads();
#pragma unroll 1
    for (int b = (int)threadIdx.x / 32; b < 32; b += warps)
      if (runs.find_tile(args, s, (long long)word * 32 + b) && (threadIdx.x & 31) == 0) atomicOr(&room, 1u << b);
    __syncthreads();
    if (threadIdx.x == 0) Config::bits(args)[s * words + word] = room;
  }
}

// values -> bits; one warp a word, neighbours take neighbouring strips.
template <class Config> SPC_DEVICE void spc_detect_bits(const spc_args &args) {
  if (spc_not_meant<Config>(args)) return;
  if constexpr (Config::decides)
    if (spc_asks_first<Config>(args, [&] { return spc_sample_values<Config>(args); })) return;
  spc_strip_runs<Config> runs(args);
  if constexpr (spc_strip_runs<Config>::fit && Config::gran >= spc_strip_runs<Config>::long_gran)
    if (runs.aligned) {
      spc_bits_of_tiles<Config>(args, runs);
      return;
    }
  if constexpr (spc_axis_runs<Config>::fit) {
    spc_axis_runs<Config> along(args);
    if (along.aligned) {
      spc_bits_of_units<Config>(args, along);
      return;
    }
  }
  // 32 bits are enough for a number of words, and their division is no call.
  spc_u32 words = (spc_u32)((Config::capacity(args) + 31) / 32), strips = (spc_u32)runs.strips;
  spc_u32 warp = blockIdx.x * (spc_u32)(Config::threads / 32) + threadIdx.x / 32;
#pragma unroll 1
  for (spc_u32 i = warp; i < strips * words; i += gridDim.x * (spc_u32)(Config::threads / 32)) {
    spc_u32 s = i % strips, word = i / strips, bits = spc_word_of<Config>(args, runs, s, word);
    if ((threadIdx.x & 31) == 0) Config::bits(args)[s * words + word] = bits;
  }
}

// ---- bits to lists -------------------------------------------------------------------------------------------
// The cover of the operand is taken from all of its words of bits, or from every `step`-th of many: `each` a thread, loaded
// at once.
template <class Config> struct spc_looked {
  static constexpr int each = 4;
  spc_u32 all, step, word[each];
  __device__ __forceinline__ spc_looked(const spc_args &args, spc_u32 words) : all(words) {
    const spc_u32 most = Config::threads * each;
    step = max((all + most - 1) / most, 1u);
#pragma unroll
    for (int i = 0; i < each; i++) {
      spc_u32 at = (threadIdx.x + (spc_u32)i * Config::threads) * step;
      word[i] = at < all ? Config::bits(args)[at] : 0;
    }
  }
  __device__ __forceinline__ int set() const {
    int sum = 0;
#pragma unroll
    for (int i = 0; i < each; i++) sum += __popc(word[i]);
    return sum;
  }
  // The share of the words that were looked at.
  __device__ __forceinline__ float share() const { return all ? (float)((all + step - 1) / step) / (float)all : 1; }
};

// Whether the cover calls for dense; a sample may have said so.  By all threads, all blocks alike.  own: of each thread, and then the block's sum of
// these, unless a sample has said dense.
template <class Config> SPC_DEVICE bool spc_bits_say_dense(const spc_args &args, spc_u32 words, int &own) {
  if constexpr (Config::decides) {
    __shared__ int sampled; // one thread reads the verdict, for another block may write it anew
    spc_looked<Config> looked(args, words);
    double threshold = Config::threshold(args);
    if (threadIdx.x == 0) sampled = Config::sampled ? spc_verdict(Config::verdict(args)) : 0;
    spc_two found = spc_block_sums<Config>({own, looked.set()});
    own = found.x;
    if (sampled > 0) return true;
    double all = looked.share() * (double)Config::strips(args) * (double)Config::capacity(args);
    return spc_decide<Config>(args, found.y, all, threshold) && Config::lists_guarded;
  }
  own = spc_block_sums<Config>({own, 0}).x;
  return false;
}
template <class Config> SPC_DEVICE bool spc_bits_say_dense(const spc_args &args, spc_u32 words) {
  int none = 0;
  return Config::decides && spc_bits_say_dense<Config>(args, words, none);
}

// Counters that who computes over the list begins with (shares.cuh).
template <class Config> SPC_DEVICE void spc_clear_counters(const spc_args &args) {
  if constexpr (Config::counters > 0)
    for (int i = (int)threadIdx.x; blockIdx.x == 0 && i < Config::counters; i += Config::threads) Config::arrived(args)[i] = 0;
}

// ---- what blocks tell each other -------------------------------------------------------------------------------
// How many entries each has found: bit 31 beside the number; 0: nobody has said it yet.  Blocks wait for lower numbers, which have begun, or (compact_strips.cuh) for so few
// others that all find room together.
constexpr int spc_is_told = (int)0x80000000u;
SPC_DEVICE int spc_hear(const int *told) {
  int said;
  while ((said = ptx_load_told(told)) == 0) {}
  return said & ~spc_is_told;
}
// The same of who may not have begun: heard is false where others have given up, or after so many looks.
template <class GivenUp> SPC_DEVICE int spc_hear_soon(const int *told, int looks, GivenUp given_up, bool &heard) {
  int said;
  while ((said = ptx_load_told(told)) == 0 && looks > 0) looks = looks % 64 == 0 && given_up() ? 0 : looks - 1;
  heard = heard && said != 0;
  return said & ~spc_is_told;
}
template <class Config> SPC_DEVICE void spc_clear_told(const spc_args &args) {
  if constexpr (Config::tells)
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < Config::told_words(args); i += (long long)gridDim.x * blockDim.x) Config::told(args)[i] = 0;
}
template <class Config> SPC_DEVICE void spc_clear(const spc_args &args) { spc_clear_told<Config>(args); } // a launch of its own, where no front does it

// bits -> counts and ids; a block takes 32 words of a strip, and counts those before them.
template <class Config> SPC_DEVICE void spc_lists_from_bits(const spc_args &args) {
  if (spc_not_meant<Config>(args)) return;
  spc_clear_counters<Config>(args);
  const int warps = Config::threads / 32, lane = (int)threadIdx.x & 31;
  spc_u32 strips = (spc_u32)Config::strips(args), words = (spc_u32)((Config::capacity(args) + 31) / 32);
  spc_u32 parts = words ? (words + 31) / 32 : 1, s = blockIdx.x / parts, part = blockIdx.x % parts;
  const spc_u32 *bits = Config::bits(args) + (spc_u64)s * words;
  spc_u32 mine = s < strips && part * 32 + lane < words ? bits[part * 32 + lane] : 0;
  int verdict = 0; // of the sample
  if constexpr (Config::decides && Config::sampled)
    if (threadIdx.x == 0) verdict = spc_verdict(Config::verdict(args));
  spc_looked<Config> looked(args, Config::decides ? strips * words : 0);
  spc_two found = {0, 0}; // before these words; in all that are looked at
#pragma unroll 4
  for (spc_u32 w = threadIdx.x; s < strips && w < part * 32; w += Config::threads) found.x += __popc(bits[w]);
  if constexpr (Config::decides) {
    __shared__ int sampled; // one thread reads the verdict, for another block may write it anew
    double threshold = Config::threshold(args);
    if (threadIdx.x == 0) sampled = verdict;
    found.y = looked.set();
    found = spc_block_sums<Config>(found);
    if (sampled > 0) return;
    double all = looked.share() * (double)Config::strips(args) * (double)Config::capacity(args);
    if (spc_decide<Config>(args, found.y, all, threshold) && Config::lists_guarded) return;
  } else {
    found = spc_block_sums<Config>(found);
  }
  if (s >= strips) return;
  int sum = spc_scan_warp(__popc(mine)), all = __shfl_sync(0xffffffffu, sum, 31);
  int *ids = Config::ids(args) + (long long)s * Config::capacity(args) + found.x;
  sum -= __popc(mine);
#pragma unroll
  for (int w = (int)threadIdx.x / 32; w < 32; w += warps) {
    spc_u32 word = __shfl_sync(0xffffffffu, mine, w);
    int at = __shfl_sync(0xffffffffu, sum, w) + __popc(word & ptx_lanes_below());
    if (word >> lane & 1) ids[at] = (int)(part * 32 + w) * 32 + lane;
  }
  if (part == parts - 1 && threadIdx.x == 0) Config::counts(args)[s] = found.x + all;
}

// Appends the set bits of one word a thread to the list, in order; returns how many the block found.
template <class Config> SPC_DEVICE int spc_append(int *ids, int count, int first, spc_u32 bits, int *warp_sums) {
  const int warps = Config::threads / 32;
  int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x / 32, mine = __popc(bits), sum = spc_scan_warp(mine);
  if (lane == 31) warp_sums[warp] = sum;
  __syncthreads();
  int before = count, all = 0;
#pragma unroll
  for (int w = 0; w < warps; w++) {
    if (w < warp) before += warp_sums[w];
    all += warp_sums[w];
  }
  __syncthreads();
  for (int at = before + sum - mine; bits; bits &= bits - 1) ids[at++] = first + __ffs((int)bits) - 1;
  return all;
}

// values -> counts and ids without bits in memory; one block a strip.
template <class Config> SPC_DEVICE void spc_detect_lists(const spc_args &args) {
  __shared__ int warp_sums[Config::threads / 32];
  __shared__ spc_u32 found[Config::threads];
  if (spc_not_meant<Config>(args)) return;
  spc_clear_counters<Config>(args);
  long long s = blockIdx.x;
  int words = (int)((Config::capacity(args) + 31) / 32), count = 0;
  int *ids = Config::ids(args) + s * Config::capacity(args);
  for (int w0 = 0; w0 < words; w0 += Config::threads) {
    for (int w = (int)threadIdx.x / 32; w < Config::threads; w += Config::threads / 32) {
      spc_u32 bits = w0 + w < words ? spc_find_word<Config>(args, s, w0 + w) : 0;
      if ((threadIdx.x & 31) == 0) found[w] = bits;
    }
    __syncthreads();
    count += spc_append<Config>(ids, count, (w0 + (int)threadIdx.x) * 32, found[threadIdx.x], warp_sums);
  }
  if (threadIdx.x == 0) Config::counts(args)[s] = count;
}
