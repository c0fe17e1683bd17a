/* Comparison with the reference: NaN, infinities, structure, one bad element among many. */
#include <criterion/criterion.h>
#include <math.h>

#include "ir/compare.h"

static ir_view list_of(ir_arena *a, ir_dtype t, int64_t n, const double *values) {
  ir_view v;
  ir_view_dense(a, t, 1, &n, &v);
  for (int64_t i = 0; i < n; i++) ir_dtype_store(t, v.vals.data, i, values[i]);
  return v;
}

Test(ir_data_compare, special_values_equal_themselves) {
  ir_arena *a = ir_arena_new();
  ir_compare_result r;
  ir_view x = list_of(a, IR_F32, 3, (double[]){NAN, INFINITY, -INFINITY});
  ir_view y = list_of(a, IR_F32, 3, (double[]){NAN, INFINITY, INFINITY});
  cr_assert_eq(ir_compare(&x, &x, 0, 0, &r), SPC_OK);
  cr_assert_eq(ir_compare(&x, &y, 0, 0, &r), SPC_MISMATCH);
  cr_assert(r.differing == 1 && r.worst[0] == 2);
  cr_assert(strstr(ir_compare_text(a, &r), "[2]"), "%s", ir_compare_text(a, &r));
  ir_arena_free(a);
}

Test(ir_data_compare, one_wrong_element_among_many_is_found) {
  ir_arena *a = ir_arena_new();
  double values[1000];
  for (int i = 0; i < 1000; i++) values[i] = 1 + i % 3;
  ir_compare_result r;
  ir_view want = list_of(a, IR_BF16, 1000, values);
  values[777] *= 1.5;
  ir_view got = list_of(a, IR_BF16, 1000, values);
  cr_assert_eq(ir_compare(&got, &want, 0.02, 0, &r), SPC_MISMATCH, "norm-wise it is within 2%%");
  cr_assert_eq(r.worst[0], 777);
  values[777] = 1 + 777 % 3;
  got = list_of(a, IR_BF16, 1000, values);
  cr_assert_eq(ir_compare(&got, &want, 0, 0, &r), SPC_OK);
  ir_arena_free(a);
}

Test(ir_data_compare, integers_are_exact_and_shapes_must_agree) {
  ir_arena *a = ir_arena_new();
  ir_compare_result r;
  ir_view x = list_of(a, IR_I32, 2, (double[]){1000000, 5}),
          y = list_of(a, IR_I32, 2, (double[]){1000001, 5});
  ir_view z = list_of(a, IR_I32, 1, (double[]){1});
  cr_assert_eq(ir_compare(&x, &y, 0.1, 0, &r), SPC_MISMATCH);
  cr_assert_eq(ir_compare(&x, &z, 0, 0, &r), SPC_MISMATCH);
  cr_assert_str_eq(r.shape_fault, "the shapes differ");
  ir_arena_free(a);
}

Test(ir_data_compare, sparse_views_by_meaning_and_by_structure) {
  ir_arena *a = ir_arena_new();
  int64_t at[] = {0, 0, 1, 1}, dims[] = {2, 2};
  double value[] = {3, 0};
  ir_entries two = {.rank = 2, .count = 2, .at = at, .value = value},
             one = {.rank = 2, .count = 1, .at = at, .value = value};
  ir_view with, without, coo;
  ir_compare_result r;
  const ir_format *csr = ir_format_builtin(a, "csr", 2, NULL, 0, NULL);
  ir_view_pack(a, IR_F32, dims, csr, IR_I32, &two, &with, NULL);
  ir_view_pack(a, IR_F32, dims, csr, IR_I64, &one, &without, NULL);
  ir_view_pack(a, IR_F32, dims, ir_format_builtin(a, "coo", 2, NULL, 0, NULL), IR_I32, &one, &coo,
               NULL);
  cr_assert_eq(ir_compare(&with, &without, 0, 0, &r), SPC_MISMATCH);
  cr_assert(!r.same_structure && r.differing == 0);
  cr_assert_eq(ir_compare(&without, &with, 0, 0, &r), SPC_MISMATCH);
  cr_assert_eq(ir_compare(&coo, &with, 0, 0, &r), SPC_OK);
  cr_assert_eq(ir_compare(&with, &with, 0, 0, &r), SPC_OK);
  ir_arena_free(a);
}

Test(ir_data_compare, tolerances_grow_with_length_and_shrink_with_precision) {
  cr_assert_eq(ir_tolerance(IR_I32, IR_I32, 1000), 0);
  cr_assert(ir_tolerance(IR_F32, IR_F32, 10000) > ir_tolerance(IR_F32, IR_F32, 100));
  cr_assert(ir_tolerance(IR_BF16, IR_F32, 100) > 1e-3 && ir_tolerance(IR_F64, IR_F64, 100) < 1e-13);
  cr_assert(ir_element_bound(IR_F32, IR_F32, 100, 10, 1) > 10 * ir_dtype_epsilon(IR_F32));
}
