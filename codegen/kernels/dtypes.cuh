// dtypes.cuh - element types in memory and their values in arithmetic.
//
// A narrow float in memory is a struct of its bits; in arithmetic it is a float: spc_get reads it, spc_put_X
// rounds to nearest even and makes its bits.  spc_to_X is the language's cast to dtype X, as ir/dtype.c does it:
// floats round once; a float that becomes an integer is truncated and clamped, NaN gives 0; integers wrap;
// f8e4m3 has no infinity and saturates at 448.  i4, u4 and b1 take one byte an element.
#pragma once
#include "spc/ptx.cuh"

struct spc_f16 { unsigned short bits; };
struct spc_bf16 { unsigned short bits; };
struct spc_f8e4m3 { unsigned char bits; };
struct spc_f8e5m2 { unsigned char bits; };

// What sums of products of T are kept in.
template <class T> struct spc_sum_type { typedef float type; static constexpr bool whole = false; };
template <> struct spc_sum_type<double> { typedef double type; static constexpr bool whole = false; };
template <> struct spc_sum_type<signed char> { typedef int type; static constexpr bool whole = true; };
template <class T> using spc_sum = typename spc_sum_type<T>::type;

// What A is when it is multiplied: as it lies, or widened to what B is.
template <class Config, bool Widens = Config::widens> struct spc_factor_type { typedef typename Config::A type; };
template <class Config> struct spc_factor_type<Config, true> { typedef typename Config::B type; };
template <class Config> using spc_factor = typename spc_factor_type<Config>::type;

// What the tensor cores multiply T as: f32 as a sum of `Parts` tf32 numbers.
template <int Parts> struct spc_tf32 {};
template <class T, int Parts> struct spc_multiplied { typedef T type; };
template <int Parts> struct spc_multiplied<float, Parts> { typedef spc_tf32<Parts> type; };

// What is left of a number without the bits that the tensor cores read.
SPC_DEVICE spc_u32 spc_rest_of_tf32(spc_u32 bits) {
  return __float_as_uint(__uint_as_float(bits) - __uint_as_float(bits & 0xffffe000u));
}

template <class T> struct spc_same_type { typedef T type; };
template <class T> using spc_same = typename spc_same_type<T>::type; // takes no part in deduction

SPC_DEVICE float spc_inf() { return __uint_as_float(0x7f800000u); }
SPC_DEVICE float spc_nan() { return __uint_as_float(0x7fc00000u); }

// ---- 8-bit floats: integer code, the same on every architecture --------------------------------------
// The bits of a magnitude, rounded to `Mantissa` bits with exponent bias `Bias`; subnormals included.
template <int Mantissa, int Bias> SPC_DEVICE spc_u32 spc_round_magnitude(spc_u32 magnitude) {
  const int drop = 23 - Mantissa;
  if (magnitude < (spc_u32)(128 - Bias) << 23) { // below the smallest normal: let an addition round
    const float unit = __uint_as_float((spc_u32)(128 - Bias + drop) << 23);
    return __float_as_uint(__uint_as_float(magnitude) + unit) - __float_as_uint(unit);
  }
  spc_u32 odd = (magnitude >> drop) & 1;
  return ((magnitude + ((1u << (drop - 1)) - 1) + odd) >> drop) - ((spc_u32)(127 - Bias) << Mantissa);
}
SPC_DEVICE spc_f8e4m3 spc_put_f8e4m3(float x) {
  spc_u32 bits = __float_as_uint(x), sign = (bits >> 24) & 0x80, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return {0x7f};
  spc_u32 code = spc_round_magnitude<3, 7>(magnitude);
  return {(unsigned char)(sign | (code > 0x7e ? 0x7e : code))};
}
SPC_DEVICE spc_f8e5m2 spc_put_f8e5m2(float x) {
  spc_u32 bits = __float_as_uint(x), sign = (bits >> 24) & 0x80, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return {0x7e};
  spc_u32 code = spc_round_magnitude<2, 15>(magnitude);
  return {(unsigned char)(sign | (code > 0x7c ? 0x7c : code))};
}
SPC_DEVICE float spc_get(spc_f8e4m3 x) {
  const float scale = __uint_as_float((spc_u32)(127 + 120) << 23); // 2^120, the difference of the biases
  spc_u32 magnitude = x.bits & 0x7f;
  float value = magnitude == 0x7f ? __uint_as_float(0x7fc00000u) : __uint_as_float(magnitude << 20) * scale;
  return x.bits & 0x80 ? -value : value;
}
SPC_DEVICE float spc_get(spc_f8e5m2 x) { return ptx_f16_to_f32((unsigned short)(x.bits << 8)); }

// ---- 16-bit floats --------------------------------------------------------------------------------------
SPC_DEVICE float spc_get(spc_f16 x) { return ptx_f16_to_f32(x.bits); }
SPC_DEVICE float spc_get(spc_bf16 x) { return __uint_as_float((spc_u32)x.bits << 16); }
SPC_DEVICE spc_f16 spc_put_f16(float x) { return {ptx_f32_to_f16(x)}; }
SPC_DEVICE spc_f16 spc_put_f16(double x) { return {ptx_f64_to_f16(x)}; }
SPC_DEVICE spc_bf16 spc_put_bf16(float x) { return {ptx_f32_to_bf16(x)}; }

// ---- everything else is its own value ---------------------------------------------------------------------
SPC_DEVICE double spc_get(double x) { return x; }
SPC_DEVICE float spc_get(float x) { return x; }
SPC_DEVICE long long spc_get(long long x) { return x; }
SPC_DEVICE int spc_get(int x) { return x; }
SPC_DEVICE short spc_get(short x) { return x; }
SPC_DEVICE signed char spc_get(signed char x) { return x; }
SPC_DEVICE unsigned char spc_get(unsigned char x) { return x; }

template <class T> struct spc_put_as {
  template <class V> static __device__ __forceinline__ T from(V x) { return (T)x; }
};
template <> struct spc_put_as<spc_f16> {
  static __device__ __forceinline__ spc_f16 from(float x) { return spc_put_f16(x); }
};
template <> struct spc_put_as<spc_bf16> {
  static __device__ __forceinline__ spc_bf16 from(float x) { return spc_put_bf16(x); }
};
template <> struct spc_put_as<spc_f8e4m3> {
  static __device__ __forceinline__ spc_f8e4m3 from(float x) { return spc_put_f8e4m3(x); }
};
template <> struct spc_put_as<spc_f8e5m2> {
  static __device__ __forceinline__ spc_f8e5m2 from(float x) { return spc_put_f8e5m2(x); }
};

// Two elements of 16 bits, side by side.
SPC_DEVICE spc_u32 spc_pack(float low, float high, spc_bf16) { return ptx_pack_bf16(low, high); }
SPC_DEVICE spc_u32 spc_pack(float low, float high, spc_f16) { return ptx_pack_f16(low, high); }
template <class V, class T> SPC_DEVICE spc_u32 spc_pack(V low, V high, T) {
  return spc_put_as<T>::from(low).bits | (spc_u32)spc_put_as<T>::from(high).bits << 16;
}

// ---- casts ----------------------------------------------------------------------------------------------------
SPC_DEVICE long long spc_truncate(float x, long long least, long long most) {
  long long whole = x != x ? 0 : __float2ll_rz(x); // clamps at the range of 64 bits
  return whole < least ? least : whole > most ? most : whole;
}
SPC_DEVICE long long spc_truncate(double x, long long least, long long most) {
  long long whole = x != x ? 0 : __double2ll_rz(x);
  return whole < least ? least : whole > most ? most : whole;
}
template <class V> SPC_DEVICE double spc_to_f64(V x) { return (double)x; }
template <class V> SPC_DEVICE float spc_to_f32(V x) { return (float)x; }
template <class V> SPC_DEVICE float spc_to_f16(V x) { return spc_get(spc_put_f16((float)x)); }
SPC_DEVICE float spc_to_f16(double x) { return spc_get(spc_put_f16(x)); }
template <class V> SPC_DEVICE float spc_to_bf16(V x) { return spc_get(spc_put_bf16((float)x)); }
template <class V> SPC_DEVICE float spc_to_f8e4m3(V x) { return spc_get(spc_put_f8e4m3((float)x)); }
template <class V> SPC_DEVICE float spc_to_f8e5m2(V x) { return spc_get(spc_put_f8e5m2((float)x)); }

template <class V> SPC_DEVICE long long spc_to_i64(V x) { return (long long)x; }
template <class V> SPC_DEVICE int spc_to_i32(V x) { return (int)x; }
template <class V> SPC_DEVICE short spc_to_i16(V x) { return (short)x; }
template <class V> SPC_DEVICE signed char spc_to_i8(V x) { return (signed char)x; }
template <class V> SPC_DEVICE unsigned char spc_to_u8(V x) { return (unsigned char)x; }
template <class V> SPC_DEVICE signed char spc_to_i4(V x) { return (signed char)(((int)x << 28) >> 28); }
template <class V> SPC_DEVICE unsigned char spc_to_u4(V x) { return (unsigned char)((int)x & 15); }
template <class V> SPC_DEVICE bool spc_to_b1(V x) { return x != 0; }
#define SPC_FLOAT_TO_INT(NAME, TYPE, LEAST, MOST)                                                   \
  SPC_DEVICE TYPE spc_to_##NAME(float x) { return (TYPE)spc_truncate(x, LEAST, MOST); }             \
  SPC_DEVICE TYPE spc_to_##NAME(double x) { return (TYPE)spc_truncate(x, LEAST, MOST); }
SPC_FLOAT_TO_INT(i64, long long, -0x7fffffffffffffffll - 1, 0x7fffffffffffffffll)
SPC_FLOAT_TO_INT(i32, int, -0x80000000ll, 0x7fffffffll)
SPC_FLOAT_TO_INT(i16, short, -32768, 32767)
SPC_FLOAT_TO_INT(i8, signed char, -128, 127)
SPC_FLOAT_TO_INT(u8, unsigned char, 0, 255)
SPC_FLOAT_TO_INT(i4, signed char, -8, 7)
SPC_FLOAT_TO_INT(u4, unsigned char, 0, 15)
#undef SPC_FLOAT_TO_INT
