/* Element types: every bit pattern of the small ones, rounding, wrapping, joins. */
#include <criterion/criterion.h>
#include <math.h>

#include "ir/dtype.h"

static uint32_t pattern_count(ir_dtype t) { return ir_dtype_rows[t].bytes == 2 ? 0x10000 : 0x100; }

static void put_bits(ir_dtype t, void *array, uint32_t bits) {
  if (ir_dtype_rows[t].bytes == 2)
    *(uint16_t *)array = (uint16_t)bits;
  else
    *(uint8_t *)array = (uint8_t)bits;
}

static uint32_t get_bits(ir_dtype t, const void *array) {
  return ir_dtype_rows[t].bytes == 2 ? *(const uint16_t *)array : *(const uint8_t *)array;
}

static const ir_dtype small_floats[] = {IR_F16, IR_BF16, IR_F8E4M3, IR_F8E5M2};

Test(ir_dtype, every_small_float_survives_load_and_store) {
  for (int k = 0; k < IR_COUNT(small_floats); k++) {
    ir_dtype t = small_floats[k];
    for (uint32_t bits = 0; bits < pattern_count(t); bits++) {
      uint16_t in = 0, out = 0;
      put_bits(t, &in, bits);
      double value = ir_dtype_load(t, &in, 0);
      ir_dtype_store(t, &out, 0, value);
      if (isnan(value))
        cr_assert(isnan(ir_dtype_load(t, &out, 0)));
      else
        cr_assert_eq(get_bits(t, &out), bits, "%s %x", ir_dtype_text(t), bits);
      cr_assert(isnan(value) || ir_dtype_round(t, value) == value);
    }
  }
}

/* Halfway between neighbours the even mantissa wins; just beside it the nearer one. */
Test(ir_dtype, small_floats_round_to_nearest_even) {
  for (int k = 0; k < IR_COUNT(small_floats); k++) {
    ir_dtype t = small_floats[k];
    for (uint32_t bits = 0; bits + 1 < pattern_count(t) / 2; bits++) {
      uint16_t low_bits = 0, high_bits = 0;
      put_bits(t, &low_bits, bits);
      put_bits(t, &high_bits, bits + 1);
      double low = ir_dtype_load(t, &low_bits, 0), high = ir_dtype_load(t, &high_bits, 0);
      if (!isfinite(low) || !isfinite(high)) continue;
      double middle = low + (high - low) / 2;
      cr_assert_eq(ir_dtype_round(t, middle), bits % 2 ? high : low, "%s %x", ir_dtype_text(t),
                   bits);
      cr_assert_eq(ir_dtype_round(t, nextafter(middle, 0)), low);
      cr_assert_eq(ir_dtype_round(t, nextafter(middle, INFINITY)), high);
      cr_assert_eq(ir_dtype_round(t, -middle), -ir_dtype_round(t, middle));
    }
  }
}

Test(ir_dtype, ends_of_the_ranges) {
  cr_assert_eq(ir_dtype_round(IR_F8E4M3, 448), 448);
  cr_assert_eq(ir_dtype_round(IR_F8E4M3, 1e9), 448);
  cr_assert_eq(ir_dtype_round(IR_F8E4M3, -INFINITY), -448);
  cr_assert(isnan(ir_dtype_round(IR_F8E4M3, NAN)));
  cr_assert_eq(ir_dtype_round(IR_F8E5M2, 57344), 57344);
  cr_assert(isinf(ir_dtype_round(IR_F8E5M2, 61440)));
  cr_assert_eq(ir_dtype_round(IR_F16, 65519.999), 65504);
  cr_assert(isinf(ir_dtype_round(IR_F16, 65520)));
  cr_assert_eq(ir_dtype_round(IR_F16, ldexp(1, -25)), 0);
  cr_assert_eq(ir_dtype_round(IR_F16, ldexp(1.0001, -25)), ldexp(1, -24));
  cr_assert(signbit(ir_dtype_round(IR_BF16, -0.0)));
}

/* Through float first, this value would round twice, and up. */
Test(ir_dtype, rounding_is_done_once) {
  double value = 1 + ldexp(1, -8) + ldexp(1, -40);
  cr_assert_eq(ir_dtype_round(IR_BF16, value), 1 + ldexp(1, -7));
  cr_assert_eq(ir_dtype_round(IR_BF16, 1 + ldexp(1, -8) - ldexp(1, -40)), 1);
}

Test(ir_dtype, integers_wrap) {
  for (int64_t v = -70000; v < 70000; v += 7) {
    cr_assert_eq(ir_dtype_wrap(IR_I8, v), (int8_t)v);
    cr_assert_eq(ir_dtype_wrap(IR_U8, v), (uint8_t)v);
    cr_assert_eq(ir_dtype_wrap(IR_I16, v), (int16_t)v);
    cr_assert_eq(ir_dtype_wrap(IR_U4, v), v & 15);
    cr_assert_eq(ir_dtype_wrap(IR_I4, v), ((v & 15) ^ 8) - 8);
  }
  cr_assert_eq(ir_dtype_wrap(IR_I32, INT64_C(1) << 31), INT32_MIN);
  cr_assert_eq(ir_dtype_wrap(IR_B1, 6), 1);
}

Test(ir_dtype, every_small_integer_survives_load_and_store) {
  static const ir_dtype types[] = {IR_I8, IR_U8, IR_I4, IR_U4, IR_B1, IR_I16};
  for (int k = 0; k < IR_COUNT(types); k++)
    for (int64_t v = -40000; v < 40000; v++) {
      if (ir_dtype_wrap(types[k], v) != v) continue;
      int16_t cell = 0;
      ir_dtype_store_int(types[k], &cell, 0, v);
      cr_assert_eq(ir_dtype_load_int(types[k], &cell, 0), v);
      cr_assert_eq(ir_dtype_load(types[k], &cell, 0), (double)v);
    }
}

Test(ir_dtype, floats_saturate_into_integers) {
  int64_t cell = 0;
  ir_dtype_store(IR_I8, &cell, 0, 300);
  cr_assert_eq(ir_dtype_load_int(IR_I8, &cell, 0), 127);
  ir_dtype_store(IR_U4, &cell, 0, -3.5);
  cr_assert_eq(ir_dtype_load_int(IR_U4, &cell, 0), 0);
  ir_dtype_store(IR_I64, &cell, 0, 1e300);
  cr_assert_eq(cell, INT64_MAX);
  ir_dtype_store(IR_I32, &cell, 0, NAN);
  cr_assert_eq(ir_dtype_load_int(IR_I32, &cell, 0), 0);
  ir_dtype_store(IR_I32, &cell, 0, -2.9);
  cr_assert_eq(ir_dtype_load_int(IR_I32, &cell, 0), -2);
}

Test(ir_dtype, joins) {
  static const struct {
    ir_dtype a, b, join;
  } cases[] = {
      {IR_F16, IR_F32, IR_F32},      {IR_F16, IR_BF16, IR_F32},   {IR_F8E4M3, IR_F8E5M2, IR_F32},
      {IR_F8E4M3, IR_F16, IR_F16},   {IR_I8, IR_F16, IR_F16},     {IR_U8, IR_BF16, IR_BF16},
      {IR_I4, IR_F8E4M3, IR_F8E4M3}, {IR_I8, IR_F8E4M3, IR_NONE}, {IR_I16, IR_F32, IR_NONE},
      {IR_I64, IR_F64, IR_NONE},     {IR_I8, IR_I32, IR_I32},     {IR_U8, IR_I8, IR_I16},
      {IR_U4, IR_I4, IR_I8},         {IR_B1, IR_F32, IR_NONE},    {IR_B1, IR_B1, IR_B1},
      {IR_NONE, IR_F32, IR_NONE}};
  for (int i = 0; i < IR_COUNT(cases); i++) {
    cr_assert_eq(ir_dtype_join(cases[i].a, cases[i].b), cases[i].join, "case %d", i);
    cr_assert_eq(ir_dtype_join(cases[i].b, cases[i].a), cases[i].join, "case %d", i);
  }
}

Test(ir_dtype, names_and_sizes) {
  for (int t = IR_NONE + 1; t < IR_DTYPE_COUNT; t++) {
    const ir_dtype_row *row = &ir_dtype_rows[t];
    cr_assert_eq(ir_dtype_find(row->text), t);
    cr_assert(row->accumulator != IR_NONE && row->bytes * 8 >= row->bits);
  }
  cr_assert_eq(ir_dtype_find("f31"), IR_NONE);
  cr_assert_eq(ir_dtype_epsilon(IR_BF16), ldexp(1, -8));
  cr_assert_eq(ir_dtype_epsilon(IR_I32), 0);
}
