// attend_softmax.cuh - what the attention kernels share: which rows and columns a tile meets, which tiles are visited, what is a score, and a softmax whose scores come
// a tile at a time (Milakov and Gimelshein 2018, online normalizer).
//
// Of every row the warp keeps the greatest exponent so far and the sum of 2^(exponent - greatest).  A tile with a greater one
// makes all that was summed before smaller, by a factor that weigh() hands out.  Exponents are scores times log2(e).
// Registers are those of the sums of a 16 x n product, g = lane / 4, t = lane % 4:
//     s[4 j + 0], s[4 j + 1] = row g, columns 8 j + 2t, 8 j + 2t + 1        s[4 j + 2], s[4 j + 3] = row g + 8, the same columns
#pragma once
#include "spc/abi.h"
#include "spc/prelude.cuh"
#include "spc/tile_mask.cuh"

// Columns that any row of a tile may see, and a range among them (maybe empty) that all of its rows see.
struct spc_span { long long begin, end, full_begin, full_end; };

// Rows [m0, m1) of a batch, and their columns, inside of the operands.
struct spc_attend_place {
  int m0, m1, begin, end, full_begin, full_end, plane; // plane: of notes
  long long batch;
};

template <class Config> SPC_DEVICE int spc_plane_of(const spc_args &args, long long batch) {
  if constexpr (Config::noted) return (int)Config::plane(args, 0, 0, 0, batch);
  return 0;
}

// Rows from m0 on of a batch, as many as a tile has.
template <class Config> SPC_DEVICE spc_attend_place spc_place_rows(const spc_args &args, int m0, long long batch) {
  spc_attend_place place;
  int m = (int)Config::m(args), n = (int)Config::n(args);
  place.m0 = m0, place.m1 = min(m0 + Config::tile_m, m), place.batch = batch, place.plane = spc_plane_of<Config>(args, batch);
  place.begin = place.full_begin = 0, place.end = place.full_end = n;
  if constexpr (Config::masked) {
    spc_span span = Config::columns(args, place.m0, place.m1, batch);
    auto inside = [](long long at, int least, int most) { return (int)max(min(at, (long long)most), (long long)least); };
    place.begin = inside(span.begin, 0, n) / Config::tile_n * Config::tile_n, place.end = inside(span.end, 0, n);
    place.full_begin = inside(span.full_begin, 0, n), place.full_end = inside(span.full_end, 0, place.end);
  }
  return place;
}

// Walks over the tiles of a place of which some pair is seen, by whole warps: a lane looks at one of 32.
template <class Config> struct spc_visits {
  static constexpr bool asks = Config::listed || Config::noted;
  int at;         // the next column; where tiles are asked for, of 32 tiles the first one
  spc_u32 tiles; // of those 32 the ones that are left
  const unsigned char *notes; // of the place's first rows
  int line;                   // from those of 64 rows to the next

  __device__ __forceinline__ bool is_visited(const spc_args &args, const spc_attend_place &place, int n0) const {
    if constexpr (Config::listed)
      if (!Config::visits(args, place.m0, n0, place.batch)) return false;
    if constexpr (Config::noted) {
      int some = 0;
#pragma unroll
      for (int r = 0; r < Config::tile_m; r += SPC_TILE_ROWS)
        if (place.m0 + r < place.m1) some |= notes[r / SPC_TILE_ROWS * line + n0 / Config::tile_n];
      return some & SPC_TILE_SOME;
    }
    return true;
  }
  __device__ __forceinline__ void look(const spc_args &args, const spc_attend_place &place) {
    int mine = at + ((int)threadIdx.x & 31) * Config::tile_n;
    tiles = __ballot_sync(~0u, mine < place.end && is_visited(args, place, mine));
  }
  __device__ __forceinline__ void begin(const spc_args &args, const spc_attend_place &place) {
    at = place.begin - (asks ? 32 * Config::tile_n : 0), tiles = 0; // next looks
    if constexpr (Config::noted) notes = spc_tile_note<Config>(args, place.plane, place.m0, 0), line = spc_note_line<Config>(args);
  }
  // The next tile's first column; place.end or more: there is none.
  __device__ __forceinline__ int next(const spc_args &args, const spc_attend_place &place) {
    if constexpr (asks) {
#pragma unroll 1
      while (!tiles) {
        at += 32 * Config::tile_n;
        if (at >= place.end) return place.end;
        look(args, place);
      }
      int column = at + (__ffs(tiles) - 1) * Config::tile_n;
      tiles &= tiles - 1;
      return column;
    }
    at += Config::tile_n;
    return at - Config::tile_n;
  }
};

template <int Count> struct alignas(4 * Count) spc_words { spc_u32 at[Count]; };

// What is noted of a warp's 16 rows and a tile's columns: asked for ahead, while the tile is multiplied.
template <class Config, bool = Config::noted> struct spc_seen {
  __device__ __forceinline__ void begin(const spc_args &, const spc_attend_place &, int) {}
  __device__ __forceinline__ void fetch(const spc_attend_place &, int) {}
  __device__ __forceinline__ bool all() const { return true; }
};
template <class Config> struct spc_seen<Config, true> {
  static constexpr int words = Config::tile_n / 32, wide = words % 4 == 0 ? 4 : words % 2 == 0 ? 2 : 1; // that are loaded at once
  static_assert(Config::tile_n % 32 == 0, "notes are of whole words");
  const unsigned char *notes; // of the warp's rows
  const spc_u32 *mask;        // of the lane's first row
  int line;                   // words from a row to the next
  int note;
  spc_u32 bits[2][words]; // of the lane's two rows: the columns that are seen

  // row0: the lane's first row, in the tile.  There is room for rows behind the last.
  __device__ __forceinline__ void begin(const spc_args &args, const spc_attend_place &place, int row0) {
    const int group = min(place.m0 + row0 / SPC_TILE_ROWS * SPC_TILE_ROWS, (place.m1 - 1) / SPC_TILE_ROWS * SPC_TILE_ROWS);
    notes = spc_tile_note<Config>(args, place.plane, group, 0);
    mask = spc_tile_bits<Config>(args, place.plane, group + row0 % SPC_TILE_ROWS, 0), line = spc_mask_line<Config>(args);
  }
  __device__ __forceinline__ void fetch(const spc_attend_place &place, int n0) {
    note = n0 < place.end ? notes[n0 / Config::tile_n] : 0;
    const bool some = note == SPC_TILE_SOME;
#pragma unroll
    for (int r = 0; r < 2; r++)
#pragma unroll
      for (int w = 0; w < words; w += wide) {
        spc_words<wide> mine = {};
        if (some) mine = *(const spc_words<wide> *)(mask + r * 8 * line + n0 / 32 + w);
#pragma unroll
        for (int i = 0; i < wide; i++) bits[r][w + i] = mine.at[i];
      }
  }
  __device__ __forceinline__ bool all() const { return note & SPC_TILE_ALL; }
};

// Bits [from, end) of a word.
SPC_DEVICE spc_u32 spc_bits_between(int from, int end) {
  return (spc_u32)((1ull << min(max(end, 0), 32)) - 1) & ~(spc_u32)((1ull << min(max(from, 0), 32)) - 1);
}

// Columns [from, end) of a tile, of which a row sees none but these.
struct spc_row_span { int from, end; };
template <class Config> SPC_DEVICE spc_row_span spc_row_span_of(const spc_args &args, const spc_attend_place &place, int row, int n0) {
  spc_row_span span = {0, place.end - n0};
  if constexpr (Config::masked) {
    const int m = min(place.m0 + row, place.m1 - 1);
    const long long first = Config::first(args, 0, m, 0, place.batch), behind = Config::behind(args, 0, m, 0, place.batch);
    span.from = (int)min(max(first - n0, 0ll), (long long)Config::tile_n), span.end = (int)max(min(behind - n0, (long long)span.end), 0ll);
  }
  return span;
}

// Scores of pairs that are not seen become -inf.  bounded: by first and behind too.
template <class Config, int Count>
SPC_DEVICE void spc_hide_scores(float (&s)[Count], const spc_args &args, const spc_attend_place &place, int row0, int n0, const spc_seen<Config> &seen, bool bounded) {
  const int words = (Count * 2 + 31) / 32;
  const spc_u32 rest = seen.all() ? ~0u : 0;
  spc_u32 bits[2][words];
#pragma unroll
  for (int i = 0; i < 2 * words; i++) bits[i / words][i % words] = seen.bits[i / words][i % words] | rest;
  if (bounded) {
#pragma unroll
    for (int r = 0; r < 2; r++) {
      const spc_row_span span = spc_row_span_of<Config>(args, place, row0 + r * 8, n0);
#pragma unroll
      for (int w = 0; w < words; w++) bits[r][w] &= spc_bits_between(span.from - w * 32, span.end - w * 32);
    }
  }
#pragma unroll
  for (int r = 0; r < 2; r++)
#pragma unroll
    for (int w = 0; w < words; w++) {
      const spc_u32 mine = bits[r][w] >> (int)threadIdx.x % 4 * 2;
#pragma unroll
      for (int i = w * 16; i < w * 16 + 16 && i < Count; i++)
        if (i / 2 % 2 == r) s[i] = mine >> (i / 4 % 4 * 8 + i % 2) & 1 ? s[i] : -spc_inf();
    }
}
// The same of bounds alone, where nothing is noted.
template <class Config, int Count> SPC_DEVICE void spc_bound_scores(float (&s)[Count], const spc_args &args, const spc_attend_place &place, int row0, int n0) {
#pragma unroll
  for (int r = 0; r < 2; r++) {
    const spc_row_span span = spc_row_span_of<Config>(args, place, row0 + r * 8, n0);
    const int first = (int)threadIdx.x % 4 * 2 - span.from;
    const spc_u32 count = (spc_u32)max(span.end - span.from, 0);
#pragma unroll
    for (int i = 0; i < Count; i++)
      if (i / 2 % 2 == r) s[i] = (spc_u32)(first + i / 4 * 8 + i % 2) < count ? s[i] : -spc_inf();
  }
}

// Sums of the columns from n0 on become scores: sums themselves where they are but scaled, -inf where nobody sees them.  row0: the
// lane's first of two rows, in the tile.  Where a score is but a sum, the bounds of a row's columns are all that its condition is made of, and what is
// noted.  Selects: one of both for every pair; branches take fewer registers.
template <class Config, bool Selects, int Count>
SPC_DEVICE void spc_score_sums(float (&s)[Count], const spc_args &args, const spc_attend_place &place, int row0, int n0, const spc_seen<Config> &seen) {
  const int columns = Count * 2, t = (int)threadIdx.x % 4 * 2;
  const bool full = n0 >= place.full_begin && n0 + columns <= place.full_end;
  auto each = [&](auto score_of) {
#pragma unroll
    for (int i = 0; i < Count; i++) {
      int m = min(place.m0 + row0 + i / 2 % 2 * 8, place.m1 - 1), n = n0 + i / 4 * 8 + t + i % 2;
      s[i] = score_of(s[i], m, n);
      if (i % 16 == 15) asm volatile("" ::: "memory"); // registers
    }
  };
  if constexpr (Config::linear && Config::noted) {
    if (!full || !seen.all()) spc_hide_scores<Config>(s, args, place, row0, n0, seen, !full);
  } else if constexpr (Config::linear) {
    if (full) return;
    if constexpr (Selects) spc_bound_scores<Config>(s, args, place, row0, n0);
    else each([&](float x, int m, int n) { return n < place.end && (!Config::masked || Config::score(args, 0.0f, m, n, place.batch) != -spc_inf()) ? x : -spc_inf(); });
  } else {
    if (full) each([&](float x, int m, int n) { return Config::inside(args, x, m, n, place.batch); });
    else each([&](float x, int m, int n) { return n < place.end ? Config::score(args, x, m, n, place.batch) : -spc_inf(); });
    if constexpr (Config::noted)
      if (!seen.all()) spc_hide_scores<Config>(s, args, place, row0, n0, seen, false);
  }
}

// What a sum (Config::linear) or a score is multiplied with to be an exponent of two.
template <class Config> SPC_DEVICE float spc_exponent_factor() {
  const float log2_e = 1.44269504f;
  return Config::linear ? Config::scale * log2_e : log2_e;
}

SPC_DEVICE float spc_quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
  return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}
SPC_DEVICE float spc_quad_sum(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}

// A lane's two of 16 rows.
struct spc_softmax {
  float greatest[2]; // exponent so far, of the row; -inf: nothing unmasked yet
  float sum[2];      // of this lane's weights

  __device__ __forceinline__ void clear() {
    greatest[0] = greatest[1] = -spc_inf();
    sum[0] = sum[1] = 0;
  }
  // Scores become weights, not more than 1; `before`: what sums over earlier columns are to be multiplied with.
  template <int Count> __device__ __forceinline__ void weigh(float (&s)[Count], float factor, float (&before)[2]) {
    float shift[2], tile[2] = {-spc_inf(), -spc_inf()};
#pragma unroll
    for (int i = 0; i < Count; i++) tile[i / 2 % 2] = fmaxf(tile[i / 2 % 2], s[i]);
#pragma unroll
    for (int r = 0; r < 2; r++) {
      float now = fmaxf(greatest[r], spc_quad_max(tile[r]) * factor);
      shift[r] = now == -spc_inf() ? 0 : now;
      before[r] = ptx_exp2(greatest[r] - shift[r]);
      greatest[r] = now;
      sum[r] *= before[r];
    }
#pragma unroll
    for (int i = 0; i < Count; i++) {
      s[i] = ptx_exp2(fmaf(s[i], factor, -shift[i / 2 % 2]));
      sum[i / 2 % 2] += s[i];
    }
  }
  // What a row's sums are divided by, as a factor; rows with nothing unmasked have sums of 0.
  __device__ __forceinline__ float share(int r) const {
    float all = spc_quad_sum(sum[r]);
    return all == 0 ? 0 : __fdividef(1, all);
  }
};
