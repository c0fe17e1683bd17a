// nskip.cuh - products of few rows of A whose other columns are zeros: only the rows of B that are asked for are read (skip.cuh).
#pragma once
#include "spc/skip.cuh"

// ---- columns that a row of the result asks for -----------------------------------------------------------------
template <class Config> struct spc_skip_part : Config {
  static constexpr int tile_n = 16; // columns that are multiplied at once
  static constexpr int tile_k = Config::threads; // k's of all warps' turn
};

// Zeros in the whole tile, where somebody reads what nobody asks for; by all threads: what is asked for is stored over them when they have met again.
template <class Config> SPC_DEVICE void spc_clear_tile(const spc_args &args, const spc_tile_place &place, int end) {
  if (!Config::clears) return;
#pragma unroll 1
  for (int i = (int)threadIdx.x; i < Config::tile_m * Config::tile_n; i += Config::threads) {
    const bool rows = Config::layout_t == 'r'; // lie side by side: neighbours store neighbours
    const int m = place.m0 + (rows ? i / Config::tile_n : i % Config::tile_m), n = place.n0 + (rows ? i % Config::tile_n : i / Config::tile_m);
    if (m < place.m && n < end) spc_skip_store<Config>(args, place, m, n, 0.0f);
  }
}

// Which of 32 columns from n on, before `end`, are asked for; where a tile is narrower than a word, half of one.
template <class Config> SPC_DEVICE void spc_leave_bits(const spc_args &args, const spc_tile_place &place, int n, int end, spc_u32 bits) {
  if constexpr (Config::detects) {
    static_assert(Config::detect_strip == Config::tile_m && Config::detect_gran == 1, "a bit is a column of the tile's rows");
    if (n >= end) return;
    spc_u32 *words = Config::bits(args) + place.m0 / Config::tile_m * Config::bit_words(args);
    if constexpr (Config::tile_n % 32 == 0) words[n / 32] = bits;
    else ((unsigned short *)words)[n / 16] = (unsigned short)bits;
  }
}

// Where who made the values that ask has left bits (`asks_bits`): 32 columns of a strip; behind the last none is asked for.
template <class Config> SPC_DEVICE spc_u32 spc_asked_word(const spc_args &args, int strip, int word) {
  const int left = (int)Config::n(args) - word * 32;
  const spc_u32 set = left > 0 ? Config::asked_bits(args)[strip * Config::asked_words(args) + word] : 0;
  return left < 32 && left > 0 ? set & ((1u << left) - 1) : set;
}

// Whether so much is asked for that all columns should be computed: from runs of 8 columns of a tile's rows, or words of bits, one out of each of
// as many equal shares of the result.  All blocks ask at the same places, so all come to the same verdict and none waits for another.
template <class Config, bool Bits = Config::asks_bits> struct spc_asked_sample {
  static constexpr int run = 8, runs = Config::threads / run, warps = Config::threads / 32;
  bool inside, asked; // the one column of a tile that this thread looks at

  __device__ __forceinline__ explicit spc_asked_sample(const spc_args &args) {
    const int m = (int)Config::m(args), n = (int)Config::n(args), strips = (m + Config::tile_m - 1) / Config::tile_m, wide = (n + run - 1) / run;
    const spc_u32 all = (spc_u32)strips * (spc_u32)wide, share = threadIdx.x / run, first = (spc_u32)((spc_u64)all * share / runs);
    const spc_u32 last = (spc_u32)((spc_u64)all * (share + 1) / runs), spread = spc_hash(share) >> 16; // anywhere in the share
    const spc_u32 at = first + (last > first ? spread % (last - first) : 0);
    const int m0 = (int)(at % (spc_u32)strips) * Config::tile_m, column = (int)(at / (spc_u32)strips) * run + (int)threadIdx.x % run;
    inside = last > first && column < n, asked = false;
#pragma unroll
    for (int r = 0; r < Config::tile_m; r++) asked |= Config::asked(args, min(m0 + r, m - 1), min(column, n - 1));
    asked &= inside;
  }
  // What a warp has found, for all: how many are asked for, of how many in the upper half.
  __device__ __forceinline__ spc_u32 found() const { return (spc_u32)__popc(ptx_ballot(asked)) | (spc_u32)__popc(ptx_ballot(inside)) << 16; }
};

// Runs of eight words of bits, a word a thread: all blocks come for the same ones at once, and the cache gives 32 bytes as soon as 4.  The next run is the
// next strip's, further on in the columns; of more strips than eight one here and there.
template <class Config> struct spc_asked_sample<Config, true> {
  static constexpr int run = 8, runs = 256 / run; // by the first 256 threads
  static_assert(Config::threads >= run * runs, "a thread looks at one word");
  spc_u32 found_here; // of the one word that this thread looks at: columns that are asked for, and how many there are in the upper half

  __device__ __forceinline__ explicit spc_asked_sample(const spc_args &args) {
    const int n = (int)Config::n(args), strips = ((int)Config::m(args) + Config::tile_m - 1) / Config::tile_m, wide = (n + 32 * run - 1) / (32 * run);
    const int share = (int)threadIdx.x / run, word = share * wide / runs * run + (int)threadIdx.x % run;
    int strip = share % 8;
    if (Config::asked_by_many && strips > 8) strip = share * 5 % runs * strips / runs;
    else if (strip >= strips) strip = max(min(strip - strips, strips - 1), 0);
    const int inside = max(min(32, n - word * 32), 0);
    found_here = share < runs ? (spc_u32)__popc(spc_asked_word<Config>(args, strip, word)) | (spc_u32)inside << 16 : 0;
  }
  __device__ __forceinline__ spc_u32 found() const { return __reduce_add_sync(~0u, found_here); }
};

// What a thread has found of the column that it asks about.
struct spc_found {
  int count;  // of all threads together; -1: dense is meant, and nothing is stored
  bool asked; // this thread's own
};

// Columns of the tile that are asked for, in order.  Where it takes a sample that says whether dense is meant.
template <class Config> SPC_DEVICE spc_found spc_find_columns(const spc_args &args, const spc_tile_place &place, int end, int *listed) {
  static_assert(Config::tile_n == 16 || Config::tile_n % 32 == 0, "a tile is words of bits, or half of one");
  const int warps = Config::threads / 32;
  __shared__ int counts[warps];
  __shared__ spc_u32 sampled[warps];
  double threshold = 0;
  if constexpr (Config::takes_sample) threshold = Config::threshold(args); // with the values: it comes from memory too
  const int n = place.n0 + (int)threadIdx.x, warp = (int)threadIdx.x / 32;
  const bool leads = threadIdx.x % 32 == 0;
  spc_found f = {0, false};
  if constexpr (Config::asks_bits) {
    f.asked = spc_asked_word<Config>(args, place.m0 / Config::tile_m, n / 32) >> n % 32 & 1;
  } else {
#pragma unroll
    for (int r = 0; r < Config::tile_m; r++) // the last row is asked more than once: loads between branches would wait for one another
      f.asked |= Config::asked(args, min(place.m0 + r, place.m - 1), min(n, place.n - 1));
  }
  if constexpr (Config::takes_sample) {
    spc_asked_sample<Config> sample(args);
    spc_u32 found = sample.found();
    if (leads) sampled[warp] = found;
  }
  f.asked &= n < end;
  const spc_u32 bits = ptx_ballot(f.asked);
  if (leads) counts[warp] = __popc(bits);
  __syncthreads();
  if constexpr (Config::takes_sample) {
    spc_u32 found = 0;
#pragma unroll
    for (int w = 0; w < warps; w++) found += sampled[w];
    if (spc_decide<Config>(args, found & 0xffffu, found >> 16, threshold)) {
      f.count = -1;
      return f;
    }
  }
  int before = 0;
#pragma unroll
  for (int w = 0; w < warps; w++) {
    int count = counts[w];
    if (w < warp) before += count;
    f.count += count;
  }
  if (leads) spc_leave_bits<Config>(args, place, n, end, bits);
  if (f.asked) listed[before + __popc(bits & ptx_lanes_below())] = n;
  __syncthreads();
  return f;
}

template <class Config> struct spc_nskip_part {
  using part = spc_skip_part<Config>;
  using stream = spc_stream_sums<part>;
  using T = typename Config::A;

  // This thread's row of A and its two rows of B, from its first k on; those that are not there are zeros.
  struct rows_of {
    const T *a, *b[2];
    bool has_a, has_b[2];
    int left; // k's
  };
  SPC_DEVICE rows_of begin(const spc_args &args, const spc_tile_place &place, const int (&row)[2], int k) {
    int m = place.m0 + (int)threadIdx.x % 32 / 4;
    rows_of r;
    r.a = Config::a(args, place.batch) + min(m, place.m - 1) * Config::pitch_a(args) + k;
    r.has_a = m < place.m;
#pragma unroll
    for (int i = 0; i < 2; i++) {
      r.b[i] = Config::b(args, place.batch) + max(row[i], 0) * Config::pitch_b(args) + k;
      r.has_b[i] = row[i] >= 0;
    }
    r.left = (int)Config::k(args) - k;
    return r;
  }
  SPC_DEVICE void load(typename stream::turn &t, const rows_of &r, int at, bool aligned) {
#pragma unroll
    for (int i = 0; i < 2; i++) spc_stream_fetch(t.b[i], r.b[i] + at, r.has_b[i] ? r.left - at : 0, aligned, false);
    spc_stream_fetch(t.a, r.a + at, r.has_a ? r.left - at : 0, aligned, true);
  }
  SPC_DEVICE void advance(rows_of &r, int k) { r.a += k, r.b[0] += k, r.b[1] += k, r.left -= k; }
  template <int Ahead>
  SPC_DEVICE void run(stream &sums, const spc_args &args, const spc_tile_place &place, const int (&row)[2], bool aligned) {
    int first = (int)threadIdx.x / 32 * 32, extent = (int)Config::k(args) - first;
    rows_of r = begin(args, place, row, first + (int)threadIdx.x % 4 * 8);
    typename stream::turn t[Ahead];
#pragma unroll
    for (int i = 0; i < Ahead; i++) load(t[i], r, i * stream::step, aligned);
#pragma unroll 1
    for (int at = 0; at < extent; at += Ahead * stream::step) {
#pragma unroll
      for (int i = 0; i < Ahead; i++) { // a turn's registers are loaded again as soon as they are used
        sums.multiply(t[i]);
        load(t[i], r, (i + Ahead) * stream::step, aligned);
      }
      advance(r, Ahead * stream::step);
    }
  }
};

// The sums of all warps for the listed columns from `first` on, as many as are multiplied at once, and what becomes of them.
template <class Config>
SPC_DEVICE void spc_store_listed(const spc_args &args, const spc_tile_place &place, const int *listed, int first, int count, const float *partial) {
  const int width = spc_skip_part<Config>::tile_n, tile = Config::tile_m * width, warps = Config::threads / 32;
#pragma unroll 1
  for (int i = (int)threadIdx.x; i < tile; i += Config::threads) {
    int row = Config::layout_t == 'r' ? i / width : i % Config::tile_m, column = Config::layout_t == 'r' ? i % width : i / Config::tile_m;
    int m = place.m0 + row, at = first + column;
    if (m >= place.m || at >= count) continue;
    float sum = 0;
#pragma unroll
    for (int w = 0; w < warps; w++) sum += partial[w * tile + row * width + column];
    spc_skip_store<Config>(args, place, m, listed[at], Config::epilogue(args, sum, m, listed[at], place.batch));
  }
}

template <class Config> SPC_DEVICE bool spc_rows_aligned(const spc_args &args, const spc_tile_place &place) {
  return ((((spc_u64)Config::a(args, place.batch) | (spc_u64)Config::b(args, place.batch)) & 15) |
          ((Config::pitch_a(args) | Config::pitch_b(args)) & 7)) == 0;
}

// The listed columns, one part after the other, by loads into registers; all threads have met since the list was made.
template <class Config>
SPC_DEVICE void spc_nskip_columns(const spc_args &args, const spc_tile_place &place, const int *listed, int count, float *partial, bool aligned) {
  using skip = spc_nskip_part<Config>;
  using stream = typename skip::stream;
  const int width = skip::part::tile_n, tile = Config::tile_m * width, g = (int)threadIdx.x % 32 / 4;
#pragma unroll 1
  for (int first = 0; first < count; first += width) {
    stream sums;
    int row[2];
#pragma unroll
    for (int e = 0; e < 4; e++) sums.sum[e] = 0;
#pragma unroll
    for (int i = 0; i < 2; i++) row[i] = first + g + 8 * i < count ? listed[first + g + 8 * i] : -1;
    if (aligned) skip::template run<Config::ahead>(sums, args, place, row, true);
    else skip::template run<1>(sums, args, place, row, false);
    sums.each([&](int r, int column, float sum) { partial[(int)threadIdx.x / 32 * tile + r * width + column] = sum; });
    __syncthreads();
    spc_store_listed<Config>(args, place, listed, first, count, partial);
    __syncthreads();
  }
}

template <class Config> SPC_DEVICE void spc_nskip(const spc_args &args) {
  using stream = typename spc_nskip_part<Config>::stream;
  const int tile = Config::tile_m * spc_skip_part<Config>::tile_n;
  static_assert(Config::shared_bytes >= stream::warps * tile * 4 + Config::tile_n * 4, "the sums and the columns need room");
  static_assert(Config::tile_n <= Config::threads, "a thread asks about one column");
  extern __shared__ __align__(1024) char spc_shared[];
  float *partial = (float *)spc_shared; // [warp][row][column]
  int *listed = (int *)(partial + stream::warps * tile);
  spc_tile_place place = spc_place_tile<Config>(args, blockIdx.x);
  const int end = min(place.n0 + Config::tile_n, place.n);
  spc_skip_waits<Config>();
  if (spc_not_meant<Config>(args)) return;
  const spc_found found = spc_find_columns<Config>(args, place, end, listed);
  spc_announce<Config>(found.count < 0);
  if (found.count < 0) return;
  spc_clear_tile<Config>(args, place, end);
  spc_nskip_columns<Config>(args, place, listed, found.count, partial, spc_rows_aligned<Config>(args, place));
}
