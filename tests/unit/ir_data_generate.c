/* Generators of test data: fixed numbers, right distributions, exact shares. */
#include <criterion/criterion.h>
#include <math.h>

#include "ir/interp.h"

static ir_view made(ir_arena *a, ir_dtype t, const char *kind, const double *args, int count,
                    int64_t limit, int rank, const int64_t *dims) {
  ir_view v;
  ir_view_dense(a, t, rank, dims, &v);
  cr_assert_eq(ir_generate(a, kind, args, count, limit, &v), SPC_OK, "%s", kind);
  return v;
}

#define ARGS(...)                                                                                  \
  (const double[]) { __VA_ARGS__ }
#define DIMS(...)                                                                                  \
  (const int64_t[]) { __VA_ARGS__ }

static double value(const ir_view *v, int64_t i) {
  return ir_dtype_load(v->dtype, v->vals.data, i);
}

Test(ir_data_generate, numbers_are_the_same_on_every_machine) {
  static const double first[] = {0.39193934988429113, 0.52788986348031941, -0.28682243698735627,
                                 0.40269503635493903};
  ir_arena *a = ir_arena_new();
  ir_view v = made(a, IR_F64, "rand", ARGS(0), 1, 0, 1, DIMS(4));
  for (int i = 0; i < IR_COUNT(first); i++)
    cr_assert_eq(value(&v, i), first[i], "%d is %.17g", i, value(&v, i));
  ir_arena_free(a);
}

Test(ir_data_generate, rand_is_standard_normal) {
  ir_arena *a = ir_arena_new();
  int64_t count = 200000;
  ir_view v = made(a, IR_F32, "rand", ARGS(7), 1, 0, 1, &count);
  double sum = 0, squares = 0, cubes = 0, fourth = 0, n = (double)count;
  for (int64_t i = 0; i < count; i++) {
    double x = value(&v, i);
    sum += x, squares += x * x, cubes += x * x * x, fourth += x * x * x * x;
  }
  cr_assert(fabs(sum / n) < 0.01 && fabs(squares / n - 1) < 0.02, "%g %g", sum / n, squares / n);
  cr_assert(fabs(cubes / n) < 0.05 && fabs(fourth / n - 3) < 0.15, "%g %g", cubes / n, fourth / n);
  ir_arena_free(a);
}

Test(ir_data_generate, an_element_does_not_depend_on_shape_or_order) {
  ir_arena *a = ir_arena_new();
  ir_view flat = made(a, IR_F32, "rand", ARGS(3), 1, 0, 1, DIMS(12)), t;
  ir_view_dense(a, IR_F32, 2, DIMS(3, 4), &t);
  t.format = ir_format_builtin(a, "dense_t", 2, NULL, 0, NULL);
  cr_assert_eq(ir_generate(a, "rand", ARGS(3), 1, 0, &t), SPC_OK);
  for (int64_t i = 0; i < 12; i++)
    cr_assert_eq(ir_view_value(&t, DIMS(i / 4, i % 4)), value(&flat, i));
  ir_arena_free(a);
}

Test(ir_data_generate, integers_stay_in_their_cut_range) {
  static const struct {
    ir_dtype t;
    double low, high;
  } rows[] = {{IR_I8, -8, 8}, {IR_U8, 0, 8},   {IR_I4, -8, 7},
              {IR_U4, 0, 8},  {IR_I64, -8, 8}, {IR_B1, 0, 1}};
  for (int r = 0; r < IR_COUNT(rows); r++) {
    ir_arena *a = ir_arena_new();
    double low = 99, high = -99;
    ir_view v = made(a, rows[r].t, "rand", ARGS(1), 1, 0, 1, DIMS(2000));
    for (int64_t i = 0; i < 2000; i++)
      low = fmin(low, value(&v, i)), high = fmax(high, value(&v, i));
    cr_assert(low == rows[r].low && high == rows[r].high, "%s: %g..%g", ir_dtype_text(rows[r].t),
              low, high);
    ir_arena_free(a);
  }
}

Test(ir_data_generate, zeros_keeps_the_exact_share_of_tiles) {
  ir_arena *a = ir_arena_new();
  ir_view v = made(a, IR_F32, "zeros", ARGS(0.25, 4, 8, 5), 4, 0, 2, DIMS(64, 64));
  int kept = 0;
  for (int64_t ti = 0; ti < 16; ti++)
    for (int64_t tj = 0; tj < 8; tj++) {
      int nonzero = 0;
      for (int64_t i = 0; i < 4; i++)
        for (int64_t j = 0; j < 8; j++) nonzero += value(&v, (ti * 4 + i) * 64 + tj * 8 + j) != 0;
      cr_assert(nonzero == 0 || nonzero == 32);
      kept += nonzero == 32;
    }
  cr_assert_eq(kept, 32);
  ir_arena_free(a);
}

Test(ir_data_generate, sparse_and_randint_and_the_rest) {
  ir_arena *a = ir_arena_new();
  ir_view v = made(a, IR_I8, "sparse", ARGS(1, 0.1), 2, 0, 1, DIMS(10000));
  int kept = 0;
  for (int64_t i = 0; i < 10000; i++) kept += value(&v, i) != 0;
  cr_assert(kept > 850 && kept < 1150, "%d", kept);
  v = made(a, IR_I32, "randint", ARGS(1, 3, 5), 3, 0, 1, DIMS(1000));
  for (int64_t i = 0; i < 1000; i++) cr_assert(value(&v, i) == 3 || value(&v, i) == 4);
  v = made(a, IR_I64, "iota", NULL, 0, 0, 2, DIMS(2, 3));
  for (int64_t i = 0; i < 6; i++) cr_assert_eq(value(&v, i), (double)i);
  v = made(a, IR_F16, "eye", NULL, 0, 0, 2, DIMS(3, 4));
  for (int64_t i = 0; i < 12; i++) cr_assert_eq(value(&v, i), i / 4 == i % 4);
  cr_assert_eq(ir_generate(a, "random", NULL, 0, 0, &v), SPC_INVALID_INPUT);
  cr_assert_eq(ir_generate(a, "rand", NULL, 0, 0, &v), SPC_INVALID_INPUT);
  cr_assert_eq(ir_generate(a, "sparse", ARGS(0, 1.5), 2, 0, &v), SPC_INVALID_INPUT);
  ir_arena_free(a);
}

Test(ir_data_generate, offsets_are_monotone_with_an_empty_segment) {
  for (int seed = 0; seed < 50; seed++) {
    ir_arena *a = ir_arena_new();
    ir_view v = made(a, IR_I32, "offsets", ARGS(seed), 1, 1000, 1, DIMS(9));
    int empty = 0;
    cr_assert(value(&v, 0) == 0 && value(&v, 8) == 1000);
    for (int64_t i = 1; i < 9; i++) {
      cr_assert_geq(value(&v, i), value(&v, i - 1));
      empty += value(&v, i) == value(&v, i - 1);
    }
    cr_assert_geq(empty, 1);
    ir_arena_free(a);
  }
}
