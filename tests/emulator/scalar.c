/* scalar.c - instructions that each lane executes for itself, without memory. */
#include <fenv.h>
#include <math.h>
#include <stdio.h>

#include "emulator.h"
#include "modes.h"

/* ---- lanes ----------------------------------------------------------------------------------- */
#define LANES(...)                                                                                \
  if (lanes == ~0u)                                                                                \
    for (int l = 0; l < EM_LANES; l++) __VA_ARGS__                                                   \
  else                                                                                             \
    EM_EACH(l, lanes) __VA_ARGS__

#define GET(T, FROM) ({ T value_; memcpy(&value_, &(FROM)[l], sizeof value_); value_; })
#define PUT(T, VALUE)                                                                              \
  do {                                                                                             \
    T result_ = (T)(VALUE);                                                                        \
    uint64_t bits_ = 0;                                                                            \
    memcpy(&bits_, &result_, sizeof result_);                                                      \
    to[l] = bits_;                                                                                 \
  } while (0)

#define UNARY(TAG, T, EXPR)                                                                        \
  case TAG:                                                                                        \
    LANES({                                                                                        \
      T a = GET(T, x);                                                                             \
      PUT(T, EXPR);                                                                                \
    })                                                                                             \
    break;
#define BINARY(TAG, T, EXPR)                                                                       \
  case TAG:                                                                                        \
    LANES({                                                                                        \
      T a = GET(T, x), b = GET(T, y);                                                              \
      PUT(T, EXPR);                                                                                \
    })                                                                                             \
    break;
#define TERNARY(TAG, T, EXPR)                                                                      \
  case TAG:                                                                                        \
    LANES({                                                                                        \
      T a = GET(T, x), b = GET(T, y), c = GET(T, z);                                               \
      PUT(T, EXPR);                                                                                \
    })                                                                                             \
    break;

#define OPERANDS_1                                                                                 \
  const uint64_t *x = em_source(w, i, 1), *y = x, *z = x;                                          \
  uint64_t *to = em_target(w, i, 0);                                                               \
  (void)y, (void)z
#define OPERANDS_2                                                                                 \
  const uint64_t *x = em_source(w, i, 1), *y = em_source(w, i, 2), *z = x;                         \
  uint64_t *to = em_target(w, i, 0);                                                               \
  (void)z
#define OPERANDS_3                                                                                 \
  const uint64_t *x = em_source(w, i, 1), *y = em_source(w, i, 2), *z = em_source(w, i, 3);        \
  uint64_t *to = em_target(w, i, 0)
#define HANDLER(NAME) em_outcome em_do_##NAME(em_warp *w, const em_insn *i, uint32_t lanes)
#define UNKNOWN default: return em_fail(w, i, em_first(lanes), "no such type of this instruction is emulated")

/* ---- rounding -------------------------------------------------------------------------------- */
static float flushed(float v) { return fpclassify(v) == FP_SUBNORMAL ? copysignf(0, v) : v; }
static float shaped(const em_insn *i, float v) {
  if (i->flushes) v = flushed(v);
  if (i->saturates) v = v > 0 ? (v < 1 ? v : 1) : 0;
  return v;
}
static float asked(const em_insn *i, float v) { return i->flushes ? flushed(v) : v; }

/* Both halves of a 32-bit register. */
static uint64_t pair(em_type half, float low, float high) {
  return em_f64_to_small(half, (double)low, false) | (uint64_t)em_f64_to_small(half, (double)high, false) << 16;
}
static em_type half_of(em_type t) { return t == EM_F16X2 ? EM_F16 : EM_BF16; }

/* EXPR in f32, f64, and in the 16-bit types by way of f32, which rounds sums and products of them once. */
#define FLOATS(COUNT, EXPR32, EXPR64)                                                              \
  case EM_F32:                                                                                     \
    LANES({                                                                                        \
      float a = asked(i, GET(float, x)), b = COUNT > 1 ? asked(i, GET(float, y)) : 0, c = COUNT > 2 ? asked(i, GET(float, z)) : 0; \
      (void)b, (void)c;                                                                            \
      PUT(float, shaped(i, EXPR32));                                                               \
    })                                                                                             \
    break;                                                                                         \
  case EM_F64:                                                                                     \
    LANES({                                                                                        \
      double a = GET(double, x), b = COUNT > 1 ? GET(double, y) : 0, c = COUNT > 2 ? GET(double, z) : 0; \
      (void)b, (void)c;                                                                            \
      PUT(double, EXPR64);                                                                         \
    })                                                                                             \
    break;                                                                                         \
  case EM_F16:                                                                                     \
  case EM_BF16:                                                                                    \
    LANES({                                                                                        \
      double a = (double)em_small_to_f32(i->type, (uint32_t)x[l] & 0xffff);                        \
      double b = COUNT > 1 ? (double)em_small_to_f32(i->type, (uint32_t)y[l] & 0xffff) : 0;        \
      double c = COUNT > 2 ? (double)em_small_to_f32(i->type, (uint32_t)z[l] & 0xffff) : 0;        \
      (void)b, (void)c;                                                                            \
      to[l] = em_f64_to_small(i->type, EXPR64, false);                                             \
    })                                                                                             \
    break;                                                                                         \
  case EM_F16X2:                                                                                   \
  case EM_BF16X2:                                                                                  \
    LANES({                                                                                        \
      float both[2];                                                                               \
      for (int h = 0; h < 2; h++) {                                                                \
        double a = (double)em_small_to_f32(half_of(i->type), (uint32_t)(x[l] >> 16 * h) & 0xffff); \
        double b = COUNT > 1 ? (double)em_small_to_f32(half_of(i->type), (uint32_t)(y[l] >> 16 * h) & 0xffff) : 0; \
        double c = COUNT > 2 ? (double)em_small_to_f32(half_of(i->type), (uint32_t)(z[l] >> 16 * h) & 0xffff) : 0; \
        (void)b, (void)c;                                                                          \
        both[h] = em_small_to_f32(half_of(i->type), em_f64_to_small(half_of(i->type), EXPR64, false)); \
      }                                                                                            \
      to[l] = pair(half_of(i->type), both[0], both[1]);                                            \
    })                                                                                             \
    break;

#define ROUND if (i->rounding != FE_TONEAREST) fesetround(i->rounding)
#define ROUND_BACK if (i->rounding != FE_TONEAREST) fesetround(FE_TONEAREST)

/* ---- arithmetic ------------------------------------------------------------------------------ */
HANDLER(add) {
  OPERANDS_2;
  ROUND;
  switch (i->type) {
    BINARY(EM_U16, uint16_t, a + b) BINARY(EM_S16, uint16_t, a + b)
    BINARY(EM_U32, uint32_t, a + b) BINARY(EM_U64, uint64_t, a + b)
    BINARY(EM_S64, uint64_t, a + b)
    case EM_S32:
      LANES({
        uint32_t a = GET(uint32_t, x), b = GET(uint32_t, y);
        int64_t sum = (int64_t)(int32_t)a + (int32_t)b;
        if (i->saturates) a = (uint32_t)(sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum), b = 0;
        PUT(uint32_t, a + b);
      })
      break;
    FLOATS(2, a + b, a + b) UNKNOWN;
  }
  ROUND_BACK;
  return EM_NEXT;
}
HANDLER(sub) {
  OPERANDS_2;
  ROUND;
  switch (i->type) {
    BINARY(EM_U16, uint16_t, a - b) BINARY(EM_S16, uint16_t, a - b)
    BINARY(EM_U32, uint32_t, a - b) BINARY(EM_S32, uint32_t, a - b)
    BINARY(EM_U64, uint64_t, a - b) BINARY(EM_S64, uint64_t, a - b)
    FLOATS(2, a - b, a - b) UNKNOWN;
  }
  ROUND_BACK;
  return EM_NEXT;
}

/* Products of numbers of twice the width. */
#define WIDE_PRODUCT(TAG, T, D)                                                                    \
  case TAG:                                                                                        \
    LANES({                                                                                        \
      D product = (D)GET(T, x) * (D)GET(T, y);                                                     \
      PUT(D, product);                                                                             \
    })                                                                                             \
    return EM_NEXT;
HANDLER(mul) {
  OPERANDS_2;
  if (i->wide) switch (i->type) {
      WIDE_PRODUCT(EM_U16, uint16_t, uint32_t) WIDE_PRODUCT(EM_S16, int16_t, int32_t)
      WIDE_PRODUCT(EM_U32, uint32_t, uint64_t) WIDE_PRODUCT(EM_S32, int32_t, int64_t) UNKNOWN;
    }
  if (i->high) switch (i->type) {
      BINARY(EM_U16, uint16_t, (uint32_t)a * b >> 16) BINARY(EM_S16, int16_t, (int32_t)a * b >> 16)
      BINARY(EM_U32, uint32_t, (uint64_t)a * b >> 32) BINARY(EM_S32, int32_t, (int64_t)a * b >> 32)
      BINARY(EM_U64, uint64_t, (uint64_t)((unsigned __int128)a * b >> 64))
      BINARY(EM_S64, int64_t, (int64_t)((__int128)a * b >> 64)) UNKNOWN;
    }
  else {
    ROUND;
    switch (i->type) {
      BINARY(EM_U16, uint16_t, (uint32_t)a * b) BINARY(EM_S16, uint16_t, (uint32_t)a * b)
      BINARY(EM_U32, uint32_t, a * b) BINARY(EM_S32, uint32_t, a * b)
      BINARY(EM_U64, uint64_t, a * b) BINARY(EM_S64, uint64_t, a * b)
      FLOATS(2, a * b, a * b) UNKNOWN;
    }
    ROUND_BACK;
  }
  return EM_NEXT;
}

#define WIDE_SUM(TAG, T, D)                                                                        \
  case TAG:                                                                                        \
    LANES({                                                                                        \
      D sum = (D)((D)GET(T, x) * (D)GET(T, y)) + GET(D, z);                                        \
      PUT(D, sum);                                                                                 \
    })                                                                                             \
    return EM_NEXT;
HANDLER(mad) {
  OPERANDS_3;
  if (i->wide) switch (i->type) {
      WIDE_SUM(EM_U16, uint16_t, uint32_t) WIDE_SUM(EM_U32, uint32_t, uint64_t)
      case EM_S16: LANES({ PUT(uint32_t, (uint32_t)((int32_t)GET(int16_t, x) * GET(int16_t, y)) + GET(uint32_t, z)); }) return EM_NEXT;
      case EM_S32: LANES({ PUT(uint64_t, (uint64_t)((int64_t)GET(int32_t, x) * GET(int32_t, y)) + GET(uint64_t, z)); }) return EM_NEXT;
      UNKNOWN;
    }
  if (i->high) switch (i->type) {
      TERNARY(EM_U32, uint32_t, (uint32_t)((uint64_t)a * b >> 32) + c)
      case EM_S32: LANES({ PUT(uint32_t, (uint32_t)((int64_t)GET(int32_t, x) * GET(int32_t, y) >> 32) + GET(uint32_t, z)); }) break;
      TERNARY(EM_U64, uint64_t, (uint64_t)((unsigned __int128)a * b >> 64) + c) UNKNOWN;
    }
  else {
    ROUND;
    switch (i->type) {
      TERNARY(EM_U16, uint16_t, (uint32_t)a * b + c) TERNARY(EM_S16, uint16_t, (uint32_t)a * b + c)
      TERNARY(EM_U32, uint32_t, a * b + c) TERNARY(EM_S32, uint32_t, a * b + c)
      TERNARY(EM_U64, uint64_t, a * b + c) TERNARY(EM_S64, uint64_t, a * b + c)
      FLOATS(3, fmaf(i->mode & 1 ? -a : a, b, i->mode & 2 ? -c : c), fma(i->mode & 1 ? -a : a, b, i->mode & 2 ? -c : c)) UNKNOWN;
    }
    ROUND_BACK;
  }
  return EM_NEXT;
}

HANDLER(div) { /* by zero: all ones, as the hardware answers */
  OPERANDS_2;
  ROUND;
  switch (i->type) {
    BINARY(EM_U16, uint16_t, b ? a / b : 0xffff) BINARY(EM_S16, int16_t, b ? a / b : -1)
    BINARY(EM_U32, uint32_t, b ? a / b : ~0u)
    BINARY(EM_S32, int32_t, b ? (int32_t)((int64_t)a / b) : -1)
    BINARY(EM_U64, uint64_t, b ? a / b : ~0ull)
    BINARY(EM_S64, int64_t, !b ? -1 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b)
    FLOATS(2, a / b, a / b) UNKNOWN;
  }
  ROUND_BACK;
  return EM_NEXT;
}
HANDLER(rem) {
  OPERANDS_2;
  switch (i->type) {
    BINARY(EM_U16, uint16_t, b ? a % b : a) BINARY(EM_S16, int16_t, b ? a % b : a)
    BINARY(EM_U32, uint32_t, b ? a % b : a) BINARY(EM_S32, int32_t, b ? (int32_t)((int64_t)a % b) : a)
    BINARY(EM_U64, uint64_t, b ? a % b : a) BINARY(EM_S64, int64_t, !b ? a : b == -1 ? 0 : a % b) UNKNOWN;
  }
  return EM_NEXT;
}

/* min and max leave a NaN out; .NaN keeps it. */
static double smaller(double a, double b, int nan) {
  if (nan && (isnan(a) || isnan(b))) return (double)NAN;
  return isnan(a) ? b : isnan(b) ? a : a < b || (a == b && signbit(a)) ? a : b;
}
static double larger(double a, double b, int nan) {
  if (nan && (isnan(a) || isnan(b))) return (double)NAN;
  return isnan(a) ? b : isnan(b) ? a : a > b || (a == b && !signbit(a)) ? a : b;
}
HANDLER(min) {
  OPERANDS_2;
  switch (i->type) {
    BINARY(EM_U16, uint16_t, a < b ? a : b) BINARY(EM_S16, int16_t, a < b ? a : b)
    BINARY(EM_U32, uint32_t, a < b ? a : b) BINARY(EM_S32, int32_t, a < b ? a : b)
    BINARY(EM_U64, uint64_t, a < b ? a : b) BINARY(EM_S64, int64_t, a < b ? a : b)
    FLOATS(2, (float)smaller((double)a, (double)b, i->mode), smaller(a, b, i->mode)) UNKNOWN;
  }
  return EM_NEXT;
}
HANDLER(max) {
  OPERANDS_2;
  switch (i->type) {
    BINARY(EM_U16, uint16_t, a > b ? a : b) BINARY(EM_S16, int16_t, a > b ? a : b)
    BINARY(EM_U32, uint32_t, a > b ? a : b) BINARY(EM_S32, int32_t, a > b ? a : b)
    BINARY(EM_U64, uint64_t, a > b ? a : b) BINARY(EM_S64, int64_t, a > b ? a : b)
    FLOATS(2, (float)larger((double)a, (double)b, i->mode), larger(a, b, i->mode)) UNKNOWN;
  }
  return EM_NEXT;
}
HANDLER(neg) {
  OPERANDS_1;
  switch (i->type) {
    UNARY(EM_S16, uint16_t, 0 - a) UNARY(EM_S32, uint32_t, 0 - a) UNARY(EM_S64, uint64_t, 0 - a)
    FLOATS(1, -a, -a) UNKNOWN;
  }
  return EM_NEXT;
}
HANDLER(abs) {
  OPERANDS_1;
  switch (i->type) {
    UNARY(EM_S16, uint16_t, (int16_t)a < 0 ? 0 - a : a) UNARY(EM_S32, uint32_t, (int32_t)a < 0 ? 0 - a : a)
    UNARY(EM_S64, uint64_t, (int64_t)a < 0 ? 0 - a : a)
    FLOATS(1, fabsf(a), fabs(a)) UNKNOWN;
  }
  return EM_NEXT;
}

/* ---- bits ------------------------------------------------------------------------------------ */
#define BITWISE(NAME, OP)                                                                          \
  HANDLER(NAME) {                                                                                  \
    if (i->type == EM_PRED) {                                                                      \
      uint32_t a = em_condition(w, em_operand_of(i, 1, 0)), b = em_condition(w, em_operand_of(i, 2, 0)); \
      em_set_condition(w, em_operand_of(i, 0, 0), lanes, a OP b);                                  \
      return EM_NEXT;                                                                              \
    }                                                                                              \
    OPERANDS_2;                                                                                    \
    switch (i->type) {                                                                             \
      BINARY(EM_U16, uint16_t, a OP b) BINARY(EM_U32, uint32_t, a OP b)                            \
      BINARY(EM_U64, uint64_t, a OP b) UNKNOWN;                                                    \
    }                                                                                              \
    return EM_NEXT;                                                                                \
  }
BITWISE(and, &)
BITWISE(or, |)
BITWISE(xor, ^)
HANDLER(not) {
  if (i->type == EM_PRED) {
    em_set_condition(w, em_operand_of(i, 0, 0), lanes, ~em_condition(w, em_operand_of(i, 1, 0)));
    return EM_NEXT;
  }
  OPERANDS_1;
  switch (i->type) {
    UNARY(EM_U16, uint16_t, ~a) UNARY(EM_U32, uint32_t, ~a) UNARY(EM_U64, uint64_t, ~a) UNKNOWN;
  }
  return EM_NEXT;
}
/* A shift by the width or more leaves nothing, or the sign. */
#define SHIFT(TAG, T, BITS, INSIDE, BEYOND)                                                        \
  case TAG:                                                                                        \
    LANES({                                                                                        \
      T a = GET(T, x);                                                                             \
      uint32_t by = GET(uint32_t, y);                                                              \
      PUT(T, by < BITS ? (INSIDE) : (BEYOND));                                                     \
    })                                                                                             \
    break;
HANDLER(shl) {
  OPERANDS_2;
  switch (i->type) {
    SHIFT(EM_U16, uint16_t, 16, a << by, 0) SHIFT(EM_U32, uint32_t, 32, a << by, 0)
    SHIFT(EM_U64, uint64_t, 64, a << by, 0) UNKNOWN;
  }
  return EM_NEXT;
}
HANDLER(shr) {
  OPERANDS_2;
  switch (i->type) {
    SHIFT(EM_U16, uint16_t, 16, a >> by, 0) SHIFT(EM_U32, uint32_t, 32, a >> by, 0)
    SHIFT(EM_U64, uint64_t, 64, a >> by, 0) SHIFT(EM_S16, int16_t, 16, a >> by, a < 0 ? -1 : 0)
    SHIFT(EM_S32, int32_t, 32, a >> by, a < 0 ? -1 : 0) SHIFT(EM_S64, int64_t, 64, a >> by, a < 0 ? -1 : 0) UNKNOWN;
  }
  return EM_NEXT;
}
HANDLER(shf) { /* of y:x; the lower half to the right, the upper one to the left */
  OPERANDS_3;
  LANES({
    uint64_t both = (uint64_t)GET(uint32_t, y) << 32 | GET(uint32_t, x);
    uint32_t by = GET(uint32_t, z);
    by = i->size[0] ? by & 31 : by > 32 ? 32 : by;
    PUT(uint32_t, i->mode ? (both << by) >> 32 : both >> by);
  })
  return EM_NEXT;
}
HANDLER(popc) {
  OPERANDS_1;
  LANES({ PUT(uint32_t, i->type == EM_U64 ? __builtin_popcountll(x[l]) : __builtin_popcount(GET(uint32_t, x))); })
  return EM_NEXT;
}
HANDLER(clz) {
  OPERANDS_1;
  LANES({
    uint32_t a = GET(uint32_t, x);
    PUT(uint32_t, i->type == EM_U64 ? (x[l] ? __builtin_clzll(x[l]) : 64) : a ? __builtin_clz(a) : 32);
  })
  return EM_NEXT;
}
HANDLER(bfind) { /* the highest bit that differs from the sign, or the shift that brings it to the top */
  OPERANDS_1;
  LANES({
    bool wide = i->type == EM_U64 || i->type == EM_S64;
    uint64_t a = wide ? x[l] : GET(uint32_t, x);
    if (i->type == EM_S32 && a >> 31) a = ~a & 0xffffffffu;
    if (i->type == EM_S64 && a >> 63) a = ~a;
    int at = a ? 63 - __builtin_clzll(a) : -1;
    PUT(uint32_t, at < 0 ? -1 : i->mode ? (wide ? 63 : 31) - at : at);
  })
  return EM_NEXT;
}
static uint64_t reversed(uint64_t a, int bits) {
  uint64_t r = 0;
  for (int b = 0; b < bits; b++) r |= (a >> b & 1) << (bits - 1 - b);
  return r;
}
HANDLER(brev) {
  OPERANDS_1;
  LANES({ to[l] = i->type == EM_U64 ? reversed(x[l], 64) : reversed(GET(uint32_t, x), 32); })
  return EM_NEXT;
}
HANDLER(bfe) {
  OPERANDS_3;
  LANES({
    bool wide = i->type == EM_U64 || i->type == EM_S64, sign = i->type == EM_S32 || i->type == EM_S64;
    int bits = wide ? 64 : 32, at = (int)(y[l] & 255), count = (int)(z[l] & 255);
    uint64_t a = wide ? x[l] : GET(uint32_t, x), r = 0;
    int top = at + count - 1 < bits - 1 ? at + count - 1 : bits - 1;
    uint64_t fill = sign && count ? a >> top & 1 : 0;
    for (int b = 0; b < bits; b++) r |= (b < count && at + b < bits ? a >> (at + b) & 1 : fill) << b;
    to[l] = r;
  })
  return EM_NEXT;
}
HANDLER(bfi) { /* x into y, at the third, as many bits as the fourth says */
  OPERANDS_3;
  const uint64_t *count_of = em_source(w, i, 4);
  LANES({
    int bits = i->type == EM_U64 ? 64 : 32, at = (int)(z[l] & 255), count = (int)(count_of[l] & 255);
    uint64_t r = i->type == EM_U64 ? y[l] : GET(uint32_t, y);
    for (int b = 0; b < count && at + b < bits; b++)
      r = (r & ~(1ull << (at + b))) | (x[l] >> b & 1) << (at + b);
    to[l] = r;
  })
  return EM_NEXT;
}
HANDLER(prmt) {
  OPERANDS_3;
  LANES({
    uint64_t both = (uint64_t)GET(uint32_t, y) << 32 | GET(uint32_t, x);
    uint32_t r = 0;
    for (int b = 0; b < 4; b++) {
      uint32_t which = (uint32_t)(z[l] >> 4 * b) & 15, byte = (uint32_t)(both >> 8 * (which & 7)) & 255;
      if (which & 8) byte = byte & 128 ? 255 : 0;
      r |= byte << 8 * b;
    }
    to[l] = r;
  })
  return EM_NEXT;
}
HANDLER(lop3) {
  OPERANDS_3;
  const uint64_t *table = em_source(w, i, 4);
  LANES({
    uint32_t a = GET(uint32_t, x), b = GET(uint32_t, y), c = GET(uint32_t, z), r = 0;
    for (int k = 0; k < 8; k++)
      if (table[l] >> k & 1) r |= (k & 4 ? a : ~a) & (k & 2 ? b : ~b) & (k & 1 ? c : ~c);
    to[l] = r;
  })
  return EM_NEXT;
}
HANDLER(dp4a) {
  OPERANDS_3;
  LANES({
    uint32_t sum = GET(uint32_t, z);
    for (int b = 0; b < 4; b++) {
      uint32_t p = (uint32_t)(x[l] >> 8 * b) & 255, q = (uint32_t)(y[l] >> 8 * b) & 255;
      int left = i->type == EM_S32 ? (int8_t)p : (int)p, right = i->from == EM_U32 ? (int)q : (int8_t)q;
      sum += (uint32_t)(left * right);
    }
    to[l] = sum;
  })
  return EM_NEXT;
}

/* ---- functions of one number ----------------------------------------------------------------- */
HANDLER(copysign) { /* the sign of the first, the value of the second */
  OPERANDS_2;
  switch (i->type) {
    FLOATS(2, copysignf(b, a), copysign(b, a)) UNKNOWN;
  }
  return EM_NEXT;
}
#define FUNCTION(NAME, EXPR32, EXPR64)                                                             \
  HANDLER(NAME) {                                                                                  \
    OPERANDS_1;                                                                                    \
    ROUND;                                                                                         \
    switch (i->type) { FLOATS(1, EXPR32, EXPR64) UNKNOWN; }                                        \
    ROUND_BACK;                                                                                    \
    return EM_NEXT;                                                                                \
  }
FUNCTION(sqrt, sqrtf(a), sqrt(a))
FUNCTION(rsqrt, (float)(1 / sqrt((double)a)), 1 / sqrt(a))
FUNCTION(rcp, 1 / a, 1 / a)
FUNCTION(ex2, exp2f(a), exp2(a))
FUNCTION(lg2, log2f(a), log2(a))
FUNCTION(sin, sinf(a), sin(a))
FUNCTION(cos, cosf(a), cos(a))
FUNCTION(tanh, tanhf(a), tanh(a))

/* ---- moves and choices ----------------------------------------------------------------------- */
static uint64_t cut(uint64_t bits, int bytes) { return bytes == 8 ? bits : bits & ((1ull << 8 * bytes) - 1); }

HANDLER(mov) {
  if (i->type == EM_PRED) {
    em_set_condition(w, em_operand_of(i, 0, 0), lanes, em_condition(w, em_operand_of(i, 1, 0)));
    return EM_NEXT;
  }
  int into = i->groups[0].count, of = i->groups[1].count, bytes = em_type_bytes(i->type);
  if (into > 1) { /* apart */
    const uint64_t *x = em_source(w, i, 1);
    LANES({
      uint64_t all = x[l];
      for (int n = 0; n < into; n++)
        if (em_operand_of(i, 0, n)->kind == EM_REGISTER)
          em_write(w, em_operand_of(i, 0, n))[l] = cut(all >> 8 * bytes / into * n, bytes / into);
    })
    return EM_NEXT;
  }
  uint64_t *to = em_target(w, i, 0);
  if (of > 1) { /* together */
    LANES({
      uint64_t all = 0;
      for (int n = 0; n < of; n++)
        all |= cut(em_read(w, em_operand_of(i, 1, n))[l], bytes / of) << 8 * bytes / of * n;
      to[l] = all;
    })
    return EM_NEXT;
  }
  const uint64_t *x = em_source(w, i, 1);
  LANES({ to[l] = cut(x[l], bytes); })
  return EM_NEXT;
}
HANDLER(selp) {
  OPERANDS_2;
  uint32_t chosen = em_condition(w, em_operand_of(i, 3, 0));
  int bytes = em_type_bytes(i->type);
  LANES({ to[l] = cut(chosen >> l & 1 ? x[l] : y[l], bytes); })
  return EM_NEXT;
}

#define COMPARED(T, A, B)                                                                          \
  ({                                                                                               \
    T p = (T)(A), q = (T)(B);                                                                      \
    bool r = false;                                                                                \
    switch (i->mode) {                                                                             \
      case EM_IS_eq: r = p == q; break;                                                            \
      case EM_IS_ne: r = p < q || p > q; break;                                                    \
      case EM_IS_lt: case EM_IS_lo: r = p < q; break;                                              \
      case EM_IS_le: case EM_IS_ls: r = p <= q; break;                                             \
      case EM_IS_gt: case EM_IS_hi: r = p > q; break;                                              \
      case EM_IS_ge: case EM_IS_hs: r = p >= q; break;                                             \
      case EM_IS_equ: r = !(p < q || p > q); break;                                                \
      case EM_IS_neu: r = !(p == q); break;                                                        \
      case EM_IS_ltu: r = !(p >= q); break;                                                        \
      case EM_IS_leu: r = !(p > q); break;                                                         \
      case EM_IS_gtu: r = !(p <= q); break;                                                        \
      case EM_IS_geu: r = !(p < q); break;                                                         \
      case EM_IS_num: r = p == p && q == q; break;                                                 \
      default: r = p != p || q != q; break;                                                        \
    }                                                                                              \
    r;                                                                                             \
  })
#define COMPARE(TAG, T)                                                                            \
  case TAG:                                                                                        \
    LANES({ bits |= (uint32_t)COMPARED(T, GET(T, x), GET(T, y)) << l; })                           \
    break;
HANDLER(setp) {
  const uint64_t *x = em_source(w, i, 1), *y = em_source(w, i, 2);
  uint32_t bits = 0;
  switch (i->type) {
    COMPARE(EM_U16, uint16_t) COMPARE(EM_S16, int16_t) COMPARE(EM_U32, uint32_t) COMPARE(EM_S32, int32_t)
    COMPARE(EM_U64, uint64_t) COMPARE(EM_S64, int64_t) COMPARE(EM_F32, float) COMPARE(EM_F64, double)
    case EM_F16:
    case EM_BF16:
      LANES({ bits |= (uint32_t)COMPARED(float, em_small_to_f32(i->type, (uint32_t)x[l] & 0xffff), em_small_to_f32(i->type, (uint32_t)y[l] & 0xffff)) << l; })
      break;
    UNKNOWN;
  }
  uint32_t other = ~bits;
  if (i->group_count > 3) {
    uint32_t with = em_condition(w, em_operand_of(i, 3, 0));
    bits = i->size[0] == 1 ? bits & with : i->size[0] == 2 ? bits | with : bits ^ with;
    other = i->size[0] == 1 ? other & with : i->size[0] == 2 ? other | with : other ^ with;
  }
  em_set_condition(w, em_operand_of(i, 0, 0), lanes, bits);
  if (i->groups[0].count > 1) em_set_condition(w, em_operand_of(i, 0, 1), lanes, other);
  return EM_NEXT;
}

/* ---- conversions ----------------------------------------------------------------------------- */
static bool is_float(em_type t) { return t >= EM_F16; }
static bool is_signed(em_type t) { return t >= EM_S8 && t <= EM_S64; }

static int64_t as_signed(em_type t, uint64_t bits) {
  switch (em_type_bytes(t)) {
    case 1: return (int8_t)bits;
    case 2: return (int16_t)bits;
    case 4: return (int32_t)bits;
    default: return (int64_t)bits;
  }
}
static double float_of(em_type t, uint64_t bits) {
  return t == EM_F64 ? em_f64(bits) : t == EM_F32 || t == EM_TF32 ? (double)em_f32(bits) : (double)em_small_to_f32(t, (uint32_t)bits);
}

/* To an integer: out of range is the nearest there is, a NaN is zero (for 64 bits the lowest number's bits). */
static uint64_t to_integer(const em_insn *i, double v) {
  int bits = 8 * em_type_bytes(i->type);
  v = i->rounding == FE_TOWARDZERO ? trunc(v) : i->rounding == FE_DOWNWARD ? floor(v) : i->rounding == FE_UPWARD ? ceil(v) : nearbyint(v);
  if (isnan(v)) return bits == 64 ? 1ull << 63 : 0;
  if (is_signed(i->type)) {
    double limit = ldexp(1, bits - 1);
    int64_t most = (int64_t)((1ull << (bits - 1)) - 1);
    return cut((uint64_t)(v >= limit ? most : v < -limit ? -most - 1 : (int64_t)v), bits / 8);
  }
  return v <= 0 ? 0 : v >= ldexp(1, bits) ? cut(~0ull, bits / 8) : (uint64_t)v;
}

/* Between integers; .sat takes the nearest there is. */
static uint64_t integer_to_integer(const em_insn *i, uint64_t bits) {
  int64_t v = is_signed(i->from) ? as_signed(i->from, bits) : (int64_t)cut(bits, em_type_bytes(i->from));
  int width = 8 * em_type_bytes(i->type);
  if (i->saturates && width < 64) {
    bool large = !is_signed(i->from) && v < 0;
    int64_t most = is_signed(i->type) ? (int64_t)((1ull << (width - 1)) - 1) : (int64_t)((1ull << width) - 1);
    int64_t least = is_signed(i->type) ? -most - 1 : 0;
    v = large || v > most ? most : v < least ? least : v;
  }
  return cut((uint64_t)v, width / 8);
}

static uint64_t from_float(const em_insn *i, double v) {
  if (!is_float(i->type)) return to_integer(i, v);
  if (i->wide) v = i->rounding == FE_TOWARDZERO ? trunc(v) : i->rounding == FE_DOWNWARD ? floor(v) : i->rounding == FE_UPWARD ? ceil(v) : nearbyint(v);
  if (i->saturates && (i->type == EM_F32 || i->type == EM_F64)) v = v > 0 ? (v < 1 ? v : 1) : 0;
  if (i->type == EM_F64) return em_f64_bits(v);
  if (i->type == EM_F32) {
    if (i->rounding != FE_TONEAREST && !i->wide) fesetround(i->rounding);
    volatile float f = (float)v;
    fesetround(FE_TONEAREST);
    return em_f32_bits(i->flushes ? flushed(f) : f);
  }
  if (i->type == EM_TF32) { /* nearest, ties away from zero: ten bits of mantissa */
    uint32_t bits = (uint32_t)em_f32_bits((float)v);
    return (bits & 0x7f800000u) == 0x7f800000u ? bits : (bits + 0x1000u) & ~0x1fffu;
  }
  if (i->rounding == FE_TOWARDZERO && i->type == EM_BF16 && !isnan(v)) return em_f32_bits((float)v) >> 16;
  return em_f64_to_small(i->type, v, i->saturates);
}

HANDLER(cvt) {
  uint64_t *to = em_target(w, i, 0);
  const uint64_t *x = em_source(w, i, 1);
  em_type from = i->from ? i->from : i->type;
  if (i->type == EM_F16X2 || i->type == EM_BF16X2 || i->type == EM_E4M3X2 || i->type == EM_E5M2X2) {
    em_type half = i->type == EM_F16X2 ? EM_F16 : i->type == EM_BF16X2 ? EM_BF16 : i->type == EM_E4M3X2 ? EM_E4M3 : EM_E5M2;
    int bits = 8 * em_type_bytes(half);
    if (from == EM_F32) { /* two registers; the first becomes the upper half */
      const uint64_t *y = em_source(w, i, 2);
      LANES({
        uint64_t high = em_f64_to_small(half, (double)em_f32(x[l]), i->saturates);
        to[l] = high << bits | em_f64_to_small(half, (double)em_f32(y[l]), i->saturates);
      })
    } else { /* f16x2 of e4m3x2, or the other way */
      em_type other = from == EM_F16X2 ? EM_F16 : from == EM_E4M3X2 ? EM_E4M3 : EM_E5M2;
      int other_bits = 8 * em_type_bytes(other);
      LANES({
        uint64_t all = 0;
        for (int h = 0; h < 2; h++) {
          uint32_t part = (uint32_t)cut(x[l] >> other_bits * h, other_bits / 8);
          all |= (uint64_t)em_f64_to_small(half, (double)em_small_to_f32(other, part), i->saturates) << bits * h;
        }
        to[l] = all;
      })
    }
    return EM_NEXT;
  }
  if (!is_float(from) && !is_float(i->type) && !i->saturates) {
    int kept = 64 - 8 * em_type_bytes(i->type), has = 64 - 8 * em_type_bytes(from);
    if (is_signed(from)) LANES({ to[l] = (uint64_t)((int64_t)(x[l] << has) >> has) << kept >> kept; })
    else LANES({ to[l] = x[l] << has >> has << kept >> kept; })
  } else if (!is_float(from) && !is_float(i->type)) {
    LANES({ to[l] = integer_to_integer(i, x[l]); })
  } else if (!is_float(from)) {
    LANES({
      int64_t v = is_signed(from) ? as_signed(from, x[l]) : 0;
      uint64_t u = is_signed(from) ? 0 : cut(x[l], em_type_bytes(from));
      if (i->type == EM_F32) {
        fesetround(i->rounding);
        volatile float f = is_signed(from) ? (float)v : (float)u;
        fesetround(FE_TONEAREST);
        to[l] = em_f32_bits(f);
      } else {
        to[l] = from_float(i, is_signed(from) ? (double)v : (double)u);
      }
    })
  } else if (i->type == EM_F32 && from == EM_F32 && !i->wide) { /* .sat, .ftz */
    LANES({ PUT(float, shaped(i, GET(float, x))); })
  } else {
    LANES({ to[l] = from_float(i, float_of(from, x[l])); })
  }
  return EM_NEXT;
}

/* Generic addresses from those of a space, and back. */
HANDLER(cvta) {
  OPERANDS_1;
  uint64_t base = i->space == EM_SHARED || i->space == EM_LOCAL ? EM_GENERIC_BASE(i->space) : 0;
  LANES({ to[l] = i->mode ? x[l] & ~base : x[l] | base; })
  return EM_NEXT;
}
