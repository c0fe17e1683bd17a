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

// Whether some pair of a tile is seen.
template <class Config> SPC_DEVICE bool spc_is_visited(const spc_args &args, const spc_attend_place &place, int n0) {
  if constexpr (Config::listed)
    if (!Config::visits(args, place.m0, n0, place.batch)) return false;
  if constexpr (Config::noted) {
    int notes = 0;
#pragma unroll
    for (int r = 0; r < Config::tile_m; r += SPC_TILE_ROWS)
      if (place.m0 + r < place.m1) notes |= *spc_tile_note<Config>(args, place.plane, place.m0 + r, n0);
    return notes & SPC_TILE_SOME;
  }
  return true;
}

// Walks over the tiles of a place that are to be visited, by whole warps: a lane looks at one of 32.
template <class Config> struct spc_visits {
  static constexpr bool asks = Config::listed || Config::noted;
  int at;         // the next column; where tiles are asked for, of 32 tiles the first one
  spc_u32 tiles; // of those 32 the ones that are left

  __device__ __forceinline__ void look(const spc_args &args, const spc_attend_place &place) {
    int mine = at + ((int)threadIdx.x & 31) * Config::tile_n;
    tiles = __ballot_sync(~0u, mine < place.end && spc_is_visited<Config>(args, place, mine));
  }
  __device__ __forceinline__ void begin(const spc_args &args, const spc_attend_place &place) {
    at = place.begin, tiles = 0;
    if constexpr (asks) look(args, place);
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

// Sums become scores as far as the condition's comparisons, and what is asked pair by pair, tell.
template <class Config, int Count>
SPC_DEVICE void spc_score_bounded(float (&s)[Count], const spc_args &args, const spc_attend_place &place, int row0, int n0) {
  const int columns = Count * 2, t = (int)threadIdx.x % 4 * 2;
  bool full = n0 >= place.full_begin && n0 + columns <= place.full_end;
  if (Config::linear && full) return;
  auto each = [&](auto score_of) {
#pragma unroll
    for (int i = 0; i < Count; i++) {
      int m = min(place.m0 + row0 + i / 2 % 2 * 8, place.m1 - 1), n = n0 + i / 4 * 8 + t + i % 2;
      s[i] = score_of(s[i], m, n);
      if (i % 16 == 15) asm volatile("" ::: "memory"); // registers
    }
  };
  if constexpr (!Config::linear)
    if (full) return each([&](float x, int m, int n) { return Config::inside(args, x, m, n, place.batch); });
  each([&](float x, int m, int n) {
    if (n >= place.end) return -spc_inf();
    if constexpr (Config::linear) return !Config::masked || Config::score(args, 0.0f, m, n, place.batch) != -spc_inf() ? x : -spc_inf();
    else return Config::score(args, x, m, n, place.batch);
  });
}

// What is noted of a warp's 16 rows and a tile's columns: asked for ahead, while the tile is multiplied.
template <class Config, bool = Config::noted> struct spc_seen {
  __device__ __forceinline__ void fetch(const spc_args &, const spc_attend_place &, int, int) {}
  template <int Count> __device__ __forceinline__ void hide(float (&)[Count]) const {}
};
template <class Config> struct spc_seen<Config, true> {
  static constexpr int words = Config::tile_n / 32;
  int note;
  spc_u32 bits[2][words]; // of the lane's two rows
  // row0: the lane's first row, in the tile.
  __device__ __forceinline__ void fetch(const spc_args &args, const spc_attend_place &place, int row0, int n0) {
    const int group = min(place.m0 + row0 / SPC_TILE_ROWS * SPC_TILE_ROWS, (place.m1 - 1) / SPC_TILE_ROWS * SPC_TILE_ROWS);
    note = n0 < place.end ? *spc_tile_note<Config>(args, place.plane, group, n0) : 0;
    const spc_u32 *from = spc_tile_bits<Config>(args, place.plane, group + row0 % SPC_TILE_ROWS, n0); // there is room for rows behind the last
    const int line = spc_mask_line<Config>(args);
#pragma unroll
    for (int r = 0; r < 2; r++)
#pragma unroll
      for (int w = 0; w < words; w++) bits[r][w] = note == SPC_TILE_SOME ? from[r * 8 * line + w] : 0;
  }
  // Scores of pairs that are not seen become -inf.
  template <int Count> __device__ __forceinline__ void hide(float (&s)[Count]) const {
    static_assert(Count * 2 == Config::tile_n, "notes are of whole tiles");
    if (note & SPC_TILE_ALL) return;
#pragma unroll
    for (int r = 0; r < 2; r++)
#pragma unroll
      for (int w = 0; w < words; w++) {
        const spc_u32 seen = bits[r][w] >> (int)threadIdx.x % 4 * 2;
#pragma unroll
        for (int i = w * 16; i < w * 16 + 16; i++)
          if (i / 2 % 2 == r) s[i] = seen >> (i / 4 % 4 * 8 + i % 2) & 1 ? s[i] : -spc_inf();
      }
  }
};

// Sums of the columns from n0 on become scores: sums themselves where they are but scaled, -inf where nobody sees them.  row0: the
// lane's first of two rows, in the tile.
template <class Config, int Count>
SPC_DEVICE void spc_score_sums(float (&s)[Count], const spc_args &args, const spc_attend_place &place, int row0, int n0, const spc_seen<Config> &seen) {
  spc_score_bounded<Config>(s, args, place, row0, n0);
  seen.hide(s);
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

// Two weights as a factor of the second product.
SPC_DEVICE spc_u32 spc_pack_weights(float low, float high, spc_bf16) { return ptx_pack_bf16(low, high); }
SPC_DEVICE spc_u32 spc_pack_weights(float low, float high, spc_f16) { return ptx_pack_f16(low, high); }
