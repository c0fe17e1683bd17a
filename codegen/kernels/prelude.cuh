// prelude.cuh - the scalar ops of the language as device functions: the CUDA column of ir/ops.def.
//
// They mean what ir/op_eval.c computes: NaN goes through min, max, relu and sign; integer division floors,
// x / 0 and x % 0 are 0 for integers; comparisons with NaN are false.
#pragma once
#include "spc/abi.h"
#include "spc/dtypes.cuh"

template <class T> SPC_DEVICE T spc_abs(T x) { return x < 0 ? (T)-x : x; }
SPC_DEVICE float spc_abs(float x) { return fabsf(x); }
SPC_DEVICE double spc_abs(double x) { return fabs(x); }
template <class T> SPC_DEVICE T spc_relu(T x) { return x <= 0 ? (T)0 : x; }
template <class T> SPC_DEVICE T spc_relu2(T x) { return x <= 0 ? (T)0 : (T)(x * x); }
template <class T> SPC_DEVICE T spc_step(T x) { return x > 0 ? (T)1 : (T)0; }
template <class T> SPC_DEVICE T spc_sign(T x) { return x > 0 ? (T)1 : x < 0 ? (T)-1 : x; }

SPC_DEVICE float spc_exp(float x) { return expf(x); }
SPC_DEVICE double spc_exp(double x) { return exp(x); }
SPC_DEVICE float spc_log(float x) { return logf(x); }
SPC_DEVICE double spc_log(double x) { return log(x); }
SPC_DEVICE float spc_sqrt(float x) { return sqrtf(x); }
SPC_DEVICE double spc_sqrt(double x) { return sqrt(x); }
SPC_DEVICE float spc_rsqrt(float x) { return 1.0f / sqrtf(x); }
SPC_DEVICE double spc_rsqrt(double x) { return 1.0 / sqrt(x); }
SPC_DEVICE float spc_tanh(float x) { return tanhf(x); }
SPC_DEVICE double spc_tanh(double x) { return tanh(x); }
SPC_DEVICE float spc_sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
SPC_DEVICE double spc_sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }
SPC_DEVICE float spc_silu(float x) { return x / (1.0f + expf(-x)); }
SPC_DEVICE double spc_silu(double x) { return x / (1.0 + exp(-x)); }
SPC_DEVICE float spc_gelu(float x) { return 0.5f * x * erfcf(-x * 0.70710678f); }
SPC_DEVICE double spc_gelu(double x) { return 0.5 * x * erfc(-x * 0.70710678118654752440); }

SPC_DEVICE float spc_div(float x, float y) { return x / y; }
SPC_DEVICE double spc_div(double x, double y) { return x / y; }
SPC_DEVICE float spc_mod(float x, float y) { return x - floorf(x / y) * y; }
SPC_DEVICE double spc_mod(double x, double y) { return x - floor(x / y) * y; }
template <class T> SPC_DEVICE T spc_div(T x, spc_same<T> y) {
  if (y == 0) return 0;
  if (y == (T)-1 && (T)-1 < (T)0) return (T)(0 - (spc_u64)x); // the least number divided by -1 wraps
  return (T)(x / y - (x % y != 0 && (x < 0) != (y < 0)));
}
template <class T> SPC_DEVICE T spc_mod(T x, spc_same<T> y) {
  if (y == 0 || (y == (T)-1 && (T)-1 < (T)0)) return 0;
  T rest = (T)(x % y);
  return rest != 0 && (rest < 0) != (y < 0) ? (T)(rest + y) : rest;
}
// Sizes and indices mostly fit in 32 bits, where a division takes a fifth of the time.
SPC_DEVICE bool spc_is_short(long long x, long long y) { return ((spc_u64)x | (spc_u64)y) >> 32 == 0 && y != 0; }
SPC_DEVICE long long spc_div(long long x, long long y) {
  return spc_is_short(x, y) ? (long long)((spc_u32)x / (spc_u32)y) : spc_div<long long>(x, y);
}
SPC_DEVICE long long spc_mod(long long x, long long y) {
  return spc_is_short(x, y) ? (long long)((spc_u32)x % (spc_u32)y) : spc_mod<long long>(x, y);
}
// Of a row's or a column's number, which fits in 31 bits, by a size that it is counted in: no branch, so that elements of a row share it.
SPC_DEVICE long long spc_short_div(long long x, long long y) { return (spc_u32)x / (spc_u32)y; }
SPC_DEVICE long long spc_short_mod(long long x, long long y) { return (spc_u32)x % (spc_u32)y; }
template <class T> SPC_DEVICE T spc_min(T x, spc_same<T> y) { return y < x ? y : x; }
template <class T> SPC_DEVICE T spc_max(T x, spc_same<T> y) { return y > x ? y : x; }
SPC_DEVICE float spc_min(float x, float y) { return ptx_min_nan(x, y); }
SPC_DEVICE float spc_max(float x, float y) { return ptx_max_nan(x, y); }
SPC_DEVICE double spc_min(double x, double y) { return x != x || y < x ? x != x ? x : y : y != y ? y : x; }
SPC_DEVICE double spc_max(double x, double y) { return x != x || y > x ? x != x ? x : y : y != y ? y : x; }
SPC_DEVICE float spc_pow(float x, float y) { return powf(x, y); }
SPC_DEVICE double spc_pow(double x, double y) { return pow(x, y); }

// Words of 64 bits.
SPC_DEVICE long long spc_band(long long x, long long y) { return x & y; }
SPC_DEVICE long long spc_bor(long long x, long long y) { return x | y; }
SPC_DEVICE long long spc_shl(long long x, long long y) { return (long long)((spc_u64)x << ((spc_u64)y & 63)); }
SPC_DEVICE long long spc_ctz(long long x) { return x == 0 ? 64 : __ffsll(x) - 1; }

// Signed arithmetic that wraps: what the printer writes for i32, whose overflow C++ leaves undefined.
SPC_DEVICE int spc_wrap_neg(int x) { return (int)(0u - (spc_u32)x); }
SPC_DEVICE int spc_wrap_add(int x, int y) { return (int)((spc_u32)x + (spc_u32)y); }
SPC_DEVICE int spc_wrap_sub(int x, int y) { return (int)((spc_u32)x - (spc_u32)y); }
SPC_DEVICE int spc_wrap_mul(int x, int y) { return (int)((spc_u32)x * (spc_u32)y); }

// Of numbers that follow one another: anywhere in 32 bits, the upper ones above all.
SPC_DEVICE spc_u32 spc_hash(spc_u32 number) { return number * 2654435761u; }

// The sum over the lanes up to this one.
SPC_DEVICE int spc_scan_warp(int sum) {
  int lane = (int)threadIdx.x & 31;
#pragma unroll
  for (int d = 1; d < 32; d *= 2) {
    int below = __shfl_up_sync(0xffffffffu, sum, d);
    if (lane >= d) sum += below;
  }
  return sum;
}
