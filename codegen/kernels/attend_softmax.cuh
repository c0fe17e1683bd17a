// attend_softmax.cuh - what the attention kernels share: which rows and columns a tile meets, and a softmax whose scores come
// a tile at a time (Milakov and Gimelshein 2018, online normalizer).
//
// Of every row the warp keeps the greatest exponent so far and the sum of 2^(exponent - greatest).  A tile with a greater one
// makes all that was summed before smaller, by a factor that weigh() hands out.  Exponents are scores times log2(e).
// Registers are those of the sums of a 16 x n product, g = lane / 4, t = lane % 4:
//     s[4 j + 0], s[4 j + 1] = row g, columns 8 j + 2t, 8 j + 2t + 1        s[4 j + 2], s[4 j + 3] = row g + 8, the same columns
#pragma once
#include "spc/abi.h"
#include "spc/prelude.cuh"

// Columns that any row of a tile may see, and a range among them (maybe empty) that all of its rows see.
struct spc_span { long long begin, end, full_begin, full_end; };

// Rows [m0, m1) of a batch, and their columns, inside of the operands.
struct spc_attend_place {
  int m0, m1, begin, end, full_begin, full_end;
  long long batch;
};

// Of masked rows the last ones come first: where rows see what lies before them, those have most to do.
template <class Config> SPC_DEVICE spc_attend_place spc_place_attend(const spc_args &args, spc_u32 tile) {
  spc_attend_place place;
  int m = (int)Config::m(args), n = (int)Config::n(args), tiles_m = (m + Config::tile_m - 1) / Config::tile_m;
  place.batch = tile / (spc_u32)tiles_m;
  int number = (int)(tile % (spc_u32)tiles_m);
  place.m0 = (Config::masked ? tiles_m - 1 - number : number) * Config::tile_m;
  place.m1 = min(place.m0 + Config::tile_m, m);
  place.begin = place.full_begin = 0, place.end = place.full_end = n;
  if constexpr (Config::masked) {
    spc_span span = Config::columns(args, place.m0, place.m1, place.batch);
    auto inside = [](long long at, int least, int most) { return (int)max(min(at, (long long)most), (long long)least); };
    place.begin = inside(span.begin, 0, n), place.end = inside(span.end, 0, n);
    place.full_begin = inside(span.full_begin, 0, n), place.full_end = inside(span.full_end, 0, place.end);
  }
  return place;
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
