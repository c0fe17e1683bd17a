// eight.cuh - eight places of a row at a time: what lies there, in so many registers.
//
// Config names: places, place(i), pitch_place(i), place_bytes(i), arrays, results, T.
#pragma once
#include "spc/dtypes.cuh"
#include "spc/ptx.cuh"

// Eight elements, of which the first `count` are there: of 16 bits, or bytes.
struct spc_eight {
  spc_u32 word[4];
  __device__ __forceinline__ unsigned short at(int e) const { return (unsigned short)(word[e / 2] >> e % 2 * 16); }
  __device__ __forceinline__ unsigned char byte(int e) const { return (unsigned char)(word[e / 4] >> e % 4 * 8); }
  __device__ __forceinline__ void load_bytes(const unsigned char *from, bool aligned, int count) {
    if (aligned) {
      const uint2 v = *(const uint2 *)from;
      word[0] = v.x, word[1] = v.y;
      return;
    }
    word[0] = word[1] = 0;
#pragma unroll
    for (int e = 0; e < 8; e++)
      if (e < count) word[e / 4] |= (spc_u32)from[e] << e % 4 * 8;
  }
  __device__ __forceinline__ void load(const unsigned short *from, bool aligned, int count) {
    if (aligned) {
      const uint4 v = *(const uint4 *)from;
      word[0] = v.x, word[1] = v.y, word[2] = v.z, word[3] = v.w;
      return;
    }
#pragma unroll
    for (int i = 0; i < 4; i++) word[i] = 0;
#pragma unroll
    for (int e = 0; e < 8; e++)
      if (e < count) word[e / 2] |= (spc_u32)from[e] << e % 2 * 16;
  }
  __device__ __forceinline__ void store(unsigned short *to, bool aligned, int count) const {
    if (aligned) {
      *(uint4 *)to = make_uint4(word[0], word[1], word[2], word[3]);
      return;
    }
#pragma unroll
    for (int e = 0; e < 8; e++)
      if (e < count) to[e] = at(e);
  }
};

// Row r of the strip, from column `at` on, of a matrix whose strip begins at `first`.
template <class V> SPC_DEVICE V *spc_spread_at(V *first, int r, long long pitch, int at) { return first + (spc_u64)(spc_u32)r * (spc_u32)pitch + at; }

// Eight places of a row, in every result.
template <class Config> struct spc_spread_places {
  spc_u32 set; // bit e: place e is of a listed column
  spc_eight place[Config::places + 1];
  SPC_DEVICE constexpr int words() { // registers of what lies there
    int sum = 0;
    for (int p = 0; p < Config::places; p++) sum += 2 * Config::place_bytes(p);
    return sum;
  }
  static constexpr int at_once = words() == 0 ? 1 : words() <= 2 ? 3 : words() <= 4 && Config::arrays + Config::results <= 3 ? 2 : 1;

  // What lies at those of the places that are listed, of row r of the strip from row m0 on.
  __device__ __forceinline__ void ask(const spc_args &args, int m0, int r, int at, int count, bool aligned) {
    if (!set) return;
#pragma unroll
    for (int p = 0; p < Config::places; p++) {
      const long long pitch = Config::pitch_place(args, p), first = m0 * pitch;
      if (Config::place_bytes(p) == 1) place[p].load_bytes(spc_spread_at((const unsigned char *)Config::place(args, p) + first, r, pitch, at), aligned, count);
      else place[p].load(spc_spread_at((const unsigned short *)Config::place(args, p) + first, r, pitch, at), aligned, count);
    }
  }
  __device__ __forceinline__ float value(int p, int e) const {
    if (Config::place_bytes(p) == 1) return (float)place[p].byte(e);
    typename Config::T value = {place[p].at(e)};
    return spc_get(value);
  }
};
