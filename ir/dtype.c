/* dtype.c - element types: rows, joins, and how bytes become numbers.
 *
 * Small floats are rounded to nearest even straight from double, once.  Overflow gives infinity
 * where the type has one; f8e4m3 has none and saturates at 448, infinities too (a NaN stays NaN,
 * 0x7f).  A float that becomes an integer is truncated towards zero and saturates at the integer's
 * range, NaN gives 0; an integer that becomes a narrower integer wraps.  b1: anything but 0 is
 * true. */
#include <math.h>

#include "ir/dtype.h"

#define CLASS_F 'F'
#define CLASS_S 'S'
#define CLASS_U 'U'
#define CLASS_B 'B'
const ir_dtype_row ir_dtype_rows[IR_DTYPE_COUNT] = {
    {"none", 0, 0, '-', IR_NONE, "void", "void", "", "no values: a pattern"},
#define SPC_DTYPE(NAME, TEXT, BITS, CLASS, ACC, C, CUDA, NPY, MEANING)                             \
  {TEXT, BITS, (BITS + 7) / 8, CLASS_##CLASS, IR_##ACC, C, CUDA, NPY, MEANING},
#include "ir/dtype.def"
#undef SPC_DTYPE
};

const char *const ir_words_precision[] = {"full", "tf32", "tf32x3", NULL};

ir_dtype ir_dtype_find(const char *text) {
  for (int t = IR_NONE + 1; t < IR_DTYPE_COUNT; t++)
    if (!strcmp(ir_dtype_rows[t].text, text)) return (ir_dtype)t;
  return IR_NONE;
}

/* ---- small floats -------------------------------------------------------------------------- */
typedef struct layout {
  int mantissa, bias;
  uint32_t largest, infinity, nan, sign; /* bit patterns; infinity 0: there is none */
} layout;

static const layout half = {10, 15, 0x7bff, 0x7c00, 0x7e00, 0x8000};
static const layout brain = {7, 127, 0x7f7f, 0x7f80, 0x7fc0, 0x8000};
static const layout e4m3 = {3, 7, 0x7e, 0, 0x7f, 0x80};
static const layout e5m2 = {2, 15, 0x7b, 0x7c, 0x7e, 0x80};

static const layout *layout_of(ir_dtype t) {
  return t == IR_F16 ? &half : t == IR_BF16 ? &brain : t == IR_F8E4M3 ? &e4m3 : &e5m2;
}

static uint32_t encode_magnitude(const layout *l, double magnitude) {
  uint32_t overflow = l->infinity ? l->infinity : l->largest;
  if (magnitude == 0) return 0;
  if (isinf(magnitude)) return overflow;
  int exponent;
  frexp(magnitude, &exponent);
  exponent--;
  if (exponent < 1 - l->bias) exponent = 1 - l->bias;
  if (exponent > l->bias + 1) return overflow;
  double quantum = nearbyint(ldexp(magnitude, l->mantissa - exponent));
  uint32_t one = (uint32_t)1 << l->mantissa; /* a carry out of the mantissa lands in the exponent */
  uint32_t bits = (uint32_t)(exponent + l->bias - 1) * one + (uint32_t)quantum;
  return bits > l->largest ? overflow : bits;
}

static uint32_t encode(const layout *l, double value) {
  if (isnan(value)) return l->nan;
  return encode_magnitude(l, fabs(value)) | (signbit(value) ? l->sign : 0);
}

static double decode(const layout *l, uint32_t bits) {
  uint32_t magnitude = bits & (l->sign - 1), one = (uint32_t)1 << l->mantissa;
  double value;
  if (magnitude > l->largest) {
    value = magnitude == l->infinity ? (double)INFINITY : (double)NAN;
  } else {
    int exponent = (int)(magnitude >> l->mantissa);
    uint32_t mantissa = magnitude & (one - 1);
    value = exponent ? ldexp((double)(one + mantissa), exponent - l->bias - l->mantissa)
                     : ldexp((double)mantissa, 1 - l->bias - l->mantissa);
  }
  return bits & l->sign ? -value : value;
}

double ir_dtype_round(ir_dtype t, double value) {
  if (t == IR_F64 || !ir_dtype_is_float(t)) return value;
  if (t == IR_F32) return (double)(float)value;
  return decode(layout_of(t), encode(layout_of(t), value));
}

double ir_dtype_epsilon(ir_dtype t) {
  if (!ir_dtype_is_float(t)) return 0;
  if (t == IR_F64) return ldexp(1, -53);
  if (t == IR_F32) return ldexp(1, -24);
  return ldexp(1, -layout_of(t)->mantissa - 1);
}

/* ---- integers ------------------------------------------------------------------------------ */
static int64_t least(ir_dtype t) {
  if (ir_dtype_rows[t].class_ != 'S') return 0;
  return t == IR_I64 ? INT64_MIN : -((int64_t)1 << (ir_dtype_rows[t].bits - 1));
}

static int64_t most(ir_dtype t) {
  if (t == IR_I64) return INT64_MAX;
  int bits = ir_dtype_rows[t].bits - (ir_dtype_rows[t].class_ == 'S');
  return ((int64_t)1 << bits) - 1;
}

int64_t ir_dtype_wrap(ir_dtype t, int64_t value) {
  if (t == IR_B1) return value != 0;
  if (t == IR_I64 || !ir_dtype_is_int(t)) return value;
  uint64_t range = (uint64_t)1 << ir_dtype_rows[t].bits;
  uint64_t low = (uint64_t)value & (range - 1);
  bool negative = ir_dtype_rows[t].class_ == 'S' && low >= range / 2;
  return negative ? (int64_t)low - (int64_t)range : (int64_t)low;
}

static int64_t from_float(ir_dtype t, double value) {
  if (t == IR_B1) return value != 0;
  if (isnan(value)) return 0;
  if (value >= 9223372036854775808.0) return most(t);
  if (value < -9223372036854775808.0) return least(t);
  int64_t whole = (int64_t)value;
  return whole < least(t) ? least(t) : whole > most(t) ? most(t) : whole;
}

/* ---- elements ------------------------------------------------------------------------------ */
static uint32_t small_bits(ir_dtype t, const void *array, int64_t index) {
  return ir_dtype_rows[t].bytes == 2 ? ((const uint16_t *)array)[index]
                                     : ((const uint8_t *)array)[index];
}

static double load_float(ir_dtype t, const void *array, int64_t index) {
  if (t == IR_F64) return ((const double *)array)[index];
  if (t == IR_F32) return (double)((const float *)array)[index];
  return decode(layout_of(t), small_bits(t, array, index));
}

static void store_float(ir_dtype t, void *array, int64_t index, double value) {
  if (t == IR_F64)
    ((double *)array)[index] = value;
  else if (t == IR_F32)
    ((float *)array)[index] = (float)value;
  else if (ir_dtype_rows[t].bytes == 2)
    ((uint16_t *)array)[index] = (uint16_t)encode(layout_of(t), value);
  else
    ((uint8_t *)array)[index] = (uint8_t)encode(layout_of(t), value);
}

static int64_t load_whole(ir_dtype t, const void *array, int64_t index) {
  switch (ir_dtype_rows[t].bytes) {
  case 8: return ((const int64_t *)array)[index];
  case 4: return ((const int32_t *)array)[index];
  case 2: return ((const int16_t *)array)[index];
  case 1: return ir_dtype_wrap(t, ((const int8_t *)array)[index]);
  default: return 0;
  }
}

static void store_whole(ir_dtype t, void *array, int64_t index, int64_t value) {
  int64_t wrapped = ir_dtype_wrap(t, value);
  switch (ir_dtype_rows[t].bytes) {
  case 8: ((int64_t *)array)[index] = wrapped; break;
  case 4: ((int32_t *)array)[index] = (int32_t)wrapped; break;
  case 2: ((int16_t *)array)[index] = (int16_t)wrapped; break;
  case 1: ((uint8_t *)array)[index] = (uint8_t)wrapped; break;
  default: break;
  }
}

double ir_dtype_load(ir_dtype t, const void *array, int64_t index) {
  return ir_dtype_is_float(t) ? load_float(t, array, index) : (double)load_whole(t, array, index);
}

int64_t ir_dtype_load_int(ir_dtype t, const void *array, int64_t index) {
  return ir_dtype_is_float(t) ? from_float(IR_I64, load_float(t, array, index))
                              : load_whole(t, array, index);
}

void ir_dtype_store(ir_dtype t, void *array, int64_t index, double value) {
  if (ir_dtype_is_float(t))
    store_float(t, array, index, value);
  else
    store_whole(t, array, index, from_float(t, value));
}

void ir_dtype_store_int(ir_dtype t, void *array, int64_t index, int64_t value) {
  if (ir_dtype_is_float(t))
    store_float(t, array, index, (double)value);
  else
    store_whole(t, array, index, value);
}

/* ---- joins --------------------------------------------------------------------------------- */
static ir_dtype join_floats(ir_dtype a, ir_dtype b) {
  int bits_a = ir_dtype_rows[a].bits, bits_b = ir_dtype_rows[b].bits;
  return bits_a == bits_b ? IR_F32 : bits_a > bits_b ? a : b;
}

/* The narrowest integer type that holds both. */
static ir_dtype join_ints(ir_dtype a, ir_dtype b) {
  int64_t low = least(a) < least(b) ? least(a) : least(b);
  int64_t high = most(a) > most(b) ? most(a) : most(b);
  ir_dtype best = IR_I64;
  for (int t = IR_NONE + 1; t < IR_DTYPE_COUNT; t++) {
    if (!ir_dtype_is_int((ir_dtype)t) || least((ir_dtype)t) > low || most((ir_dtype)t) < high)
      continue;
    if (ir_dtype_rows[t].bits < ir_dtype_rows[best].bits) best = (ir_dtype)t;
  }
  return best;
}

/* An integer of at most 8 bits takes the float beside it where every value is exact in that. */
static ir_dtype join_mixed(ir_dtype f, ir_dtype i) {
  if (ir_dtype_rows[i].bits > 8) return IR_NONE;
  for (int64_t v = least(i); v <= most(i); v++)
    if (ir_dtype_round(f, (double)v) != (double)v) return IR_NONE;
  return f;
}

ir_dtype ir_dtype_join(ir_dtype a, ir_dtype b) {
  if (a == b) return a;
  bool float_a = ir_dtype_is_float(a), float_b = ir_dtype_is_float(b);
  bool int_a = ir_dtype_is_int(a), int_b = ir_dtype_is_int(b);
  if (float_a && float_b) return join_floats(a, b);
  if (int_a && int_b) return join_ints(a, b);
  if (float_a && int_b) return join_mixed(a, b);
  if (int_a && float_b) return join_mixed(b, a);
  return IR_NONE;
}
