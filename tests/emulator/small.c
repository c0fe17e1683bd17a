/* small.c - floating-point numbers of 8 and 16 bits. */
#include <math.h>

#include "emulator.h"

typedef struct layout {
  int mantissa, bias, exponents; /* exponents: the largest that is stored */
  bool infinite;                 /* the largest exponent is infinity and NaN; else it is of numbers, but for one */
} layout;

static layout layout_of(em_type t) {
  return t == EM_F16    ? (layout){10, 15, 31, true}
         : t == EM_BF16 ? (layout){7, 127, 255, true}
         : t == EM_E5M2 ? (layout){2, 15, 31, true}
                        : (layout){3, 7, 15, false};
}

float em_small_to_f32(em_type t, uint32_t bits) {
  if (t == EM_BF16) return em_f32(bits << 16);
  layout s = layout_of(t);
  int width = 8 * em_type_bytes(t);
  uint32_t sign = bits >> (width - 1) & 1, mantissa = bits & ((1u << s.mantissa) - 1);
  int exponent = (int)(bits >> s.mantissa) & s.exponents;
  if (exponent == s.exponents) {
    if (s.infinite) return mantissa ? NAN : sign ? -INFINITY : INFINITY;
    if (mantissa == (1u << s.mantissa) - 1) return NAN;
  }
  if (!exponent) { /* subnormal */
    float v = (float)mantissa * em_f32((uint32_t)(127 + 1 - s.bias - s.mantissa) << 23);
    return sign ? -v : v;
  }
  return em_f32(sign << 31 | (uint32_t)(exponent - s.bias + 127) << 23 | mantissa << (23 - s.mantissa));
}

uint32_t em_f64_to_small(em_type t, double value, bool saturates) {
  layout s = layout_of(t);
  int width = 8 * em_type_bytes(t), least = 1 - s.bias, exponent;
  uint32_t sign = signbit(value) ? 1u << (width - 1) : 0;
  uint32_t infinite = s.infinite ? (uint32_t)s.exponents << s.mantissa : (1u << (width - 1)) - 1;
  uint32_t largest = infinite - 1; /* for e4m3: 0x7e */
  if (isnan(value)) return s.infinite ? infinite | ((1u << s.mantissa) - 1) : infinite;
  value = fabs(value);
  if (isinf(value)) return sign | (saturates ? largest : infinite);
  if (value == 0) return sign;
  (void)frexp(value, &exponent); /* value = m * 2^exponent, m in [0.5, 1) */
  exponent = exponent - 1 < least ? least : exponent - 1;
  /* In units of the last place; a carry runs into the exponent by itself. */
  double units = nearbyint(ldexp(value, s.mantissa - exponent));
  uint32_t bits = ((uint32_t)(exponent - least) << s.mantissa) + (uint32_t)units;
  if (bits > largest) bits = saturates ? largest : infinite;
  return sign | bits;
}
