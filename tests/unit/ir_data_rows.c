/* Dense rows packed without a list of entries: the same arrays as through one. */
#include <criterion/criterion.h>

#include "ir/rows.h"

static const struct {
  const char *name;
  int rank, arguments;
  int64_t argument[2];
} formats[] = {{"csr", 2, 0, {0}},      {"csc", 2, 0, {0}},      {"ell", 2, 1, {20}},
               {"twell", 2, 2, {4, 1}}, {"twell", 2, 2, {4, 4}}, {"twell", 2, 2, {32, 3}},
               {"twell", 2, 2, {1, 1}}, {"coo", 1, 0, {0}},      {"csf", 1, 0, {0}}};

static uint32_t draw(uint32_t below) {
  static uint64_t state = 9;
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(state >> 33) % below;
}

/* Some zeros, both signs of them in floats. */
static void fill(ir_view *v, int percent) {
  for (int64_t i = 0; i < v->vals.count; i++) {
    double value = (int)draw(100) < percent ? (double)(1 + draw(3)) : draw(2) ? 0.0 : -0.0;
    if (v->dtype == IR_B1) value = value != 0;
    ir_dtype_store(v->dtype, v->vals.data, i, value);
  }
}

static void expect_array(const ir_array *got, const ir_array *want, const char *what) {
  cr_assert(got->count == want->count && got->dtype == want->dtype, "%s: %lld for %lld", what,
            (long long)got->count, (long long)want->count);
  if (got->count)
    cr_assert_arr_eq(got->data, want->data, (size_t)got->count * ir_dtype_bytes(got->dtype), "%s",
                     what);
}

static bool count_zero(void *user, const int64_t *at, int64_t p) {
  (void)at;
  const ir_view *v = user;
  cr_assert_neq(ir_dtype_load(v->dtype, v->vals.data, p), 0.0, "a zero is an entry");
  return true;
}

static void expect_same(ir_arena *a, const ir_view *dense, const ir_format *format,
                        ir_dtype index) {
  ir_view rows, list;
  ir_entries e, kept = {.rank = dense->rank};
  const char *why = NULL;
  cr_assert_eq(ir_view_convert(a, dense, format, index, &rows, &why), SPC_OK, "%s", why);
  cr_assert_eq(ir_view_check(a, &rows, &why), SPC_OK, "%s: %s", format->name, why);
  ir_view_walk(&rows, count_zero, &rows);
  ir_view_entries(a, dense, &e);
  kept = e;
  kept.count = 0;
  for (int64_t i = 0; i < e.count; i++) {
    if (e.value ? e.value[i] == 0 : e.int_value[i] == 0) continue;
    for (int d = 0; d < e.rank; d++) kept.at[kept.count * e.rank + d] = e.at[i * e.rank + d];
    if (e.value) kept.value[kept.count] = e.value[i];
    if (e.int_value) kept.int_value[kept.count] = e.int_value[i];
    kept.count++;
  }
  cr_assert_eq(ir_view_pack(a, dense->dtype, dense->dim, format, index, &kept, &list, &why), SPC_OK,
               "%s", why);
  for (int k = 0; k < format->level_count; k++) {
    expect_array(&rows.pos[k], &list.pos[k], format->name);
    expect_array(&rows.crd[k], &list.crd[k], format->name);
  }
  expect_array(&rows.vals, &list.vals, format->name);
}

Test(ir_data_rows, rows_and_lists_of_entries_give_the_same_arrays) {
  static const ir_dtype dtypes[] = {IR_F64, IR_F32, IR_BF16, IR_F16, IR_F8E4M3,
                                    IR_I64, IR_I32, IR_I16,  IR_I8,  IR_B1};
  static const int64_t shapes[][2] = {{7, 11}, {1, 9}, {9, 1}, {0, 5}, {5, 0}, {13, 20}};
  for (int f = 0; f < IR_COUNT(formats); f++)
    for (int t = 0; t < IR_COUNT(dtypes); t++)
      for (int s = 0; s < IR_COUNT(shapes); s++)
        for (int percent = 0; percent <= 100; percent += 25) {
          ir_arena *a = ir_arena_new();
          const char *why = NULL;
          const ir_format *format = ir_format_builtin(
              a, formats[f].name, formats[f].rank, formats[f].argument, formats[f].arguments, &why);
          ir_view dense;
          ir_view_dense(a, dtypes[t], formats[f].rank, shapes[s] + (2 - formats[f].rank), &dense);
          if (!strcmp(format->name, "csc"))
            dense.format = ir_format_builtin(a, "dense_t", 2, NULL, 0, &why);
          fill(&dense, percent);
          ir_rows rows;
          cr_assert(ir_rows_begin(a, &dense, format, IR_I32, &rows), "%s", format->name);
          expect_same(a, &dense, format, draw(2) ? IR_I32 : IR_I64);
          ir_arena_free(a);
        }
}

/* What is stored in another order, or not listed by its last dimension, goes the general way. */
Test(ir_data_rows, other_formats_are_left_to_the_general_way) {
  ir_arena *a = ir_arena_new();
  int64_t dims[] = {4, 6}, blocks[] = {2, 2};
  const char *why = NULL;
  ir_view dense;
  ir_rows rows;
  ir_view_dense(a, IR_F32, 2, dims, &dense);
  cr_assert_not(
      ir_rows_begin(a, &dense, ir_format_builtin(a, "csc", 2, NULL, 0, &why), IR_I32, &rows));
  cr_assert_not(
      ir_rows_begin(a, &dense, ir_format_builtin(a, "coo", 2, NULL, 0, &why), IR_I32, &rows));
  cr_assert_not(
      ir_rows_begin(a, &dense, ir_format_builtin(a, "bsr", 2, blocks, 2, &why), IR_I32, &rows));
  int64_t width[] = {2};
  const ir_format *ell = ir_format_builtin(a, "ell", 2, width, 1, &why);
  fill(&dense, 100);
  ir_view out;
  cr_assert_eq(ir_view_convert(a, &dense, ell, IR_I32, &out, &why), SPC_INVALID_INPUT);
  cr_assert(strstr(why, "has 6 entries, the capacity of `ell(2)` is 2"), "%s", why);
  ir_arena_free(a);
}
