/* Storage in one order becomes storage in another: the same arrays as through a sorted list. */
#include <criterion/criterion.h>

#include "ir/lists.h"
#include "ir/reorder.h"

static uint32_t draw(uint32_t below) {
  static uint64_t state = 11;
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(state >> 33) % below;
}

static const struct {
  const char *name;
  int rank, arguments;
  int64_t argument[2];
} formats[] = {{"csr", 2, 0, {0}},    {"csc", 2, 0, {0}},    {"coo", 2, 0, {0}},
               {"dcsr", 2, 0, {0}},   {"csf", 2, 0, {0}},    {"dense_t", 2, 0, {0}},
               {"bsr", 2, 2, {2, 3}}, {"bsr", 2, 2, {4, 1}}, {"dense", 2, 0, {0}},
               {"csf", 3, 0, {0}},    {"coo", 3, 0, {0}},    {"dense", 3, 0, {0}}};

/* csf with its dimensions in another order: lists under lists. */
static const ir_format turned = {
    .name = "turned",
    .rank = 3,
    .level_count = 3,
    .level = {{.kind = IR_LEVEL_DENSE, .dim = 2, .unique = true},
              {.kind = IR_LEVEL_COMPRESSED, .dim = 0, .unique = true},
              {.kind = IR_LEVEL_COMPRESSED, .dim = 1, .unique = true}}};

static const ir_format *format_of(ir_arena *a, int f) {
  const char *why = NULL;
  if (f == IR_COUNT(formats)) return &turned;
  return ir_format_builtin(a, formats[f].name, formats[f].rank, formats[f].argument,
                           formats[f].arguments, &why);
}

static ir_entries random_entries(ir_arena *a, ir_dtype t, int rank, const int64_t *dims,
                                 int percent) {
  int64_t n = 1, at[IR_MAX_RANK] = {0};
  for (int d = 0; d < rank; d++) n *= dims[d];
  ir_entries e = {.rank = rank};
  e.at = IR_NEW_ARRAY(a, int64_t, n * rank + 1);
  if (ir_dtype_is_float(t)) e.value = IR_NEW_ARRAY(a, double, n + 1);
  if (t != IR_NONE && !e.value) e.int_value = IR_NEW_ARRAY(a, int64_t, n + 1);
  for (int64_t i = 0; i < n; i++) {
    int64_t rest = i;
    for (int d = rank - 1; d >= 0; d--) at[d] = rest % dims[d], rest /= dims[d];
    if ((int)draw(100) >= percent) continue;
    memcpy(e.at + e.count * rank, at, sizeof *at * (size_t)rank);
    if (e.value) e.value[e.count] = (double)draw(4); /* zeros are entries too */
    if (e.int_value) e.int_value[e.count] = draw(2);
    e.count++;
  }
  return e;
}

static void expect_array(const ir_array *got, const ir_array *want, const char *from,
                         const char *to) {
  cr_assert(got->count == want->count, "%s to %s: %lld for %lld", from, to, (long long)got->count,
            (long long)want->count);
  if (got->count)
    cr_assert_arr_eq(got->data, want->data, (size_t)got->count * ir_dtype_bytes(got->dtype),
                     "%s to %s", from, to);
}

static void expect_view(const ir_view *got, const ir_view *want, const char *from) {
  const char *to = want->format->name;
  for (int l = 0; l < want->format->level_count; l++) {
    expect_array(&got->pos[l], &want->pos[l], from, to);
    expect_array(&got->crd[l], &want->crd[l], from, to);
  }
  expect_array(&got->vals, &want->vals, from, to);
}

/* Threads that take the last part of three first. */
static void share(void *pool, int64_t count, int64_t ns, ir_crew_work work, void *user) {
  (void)pool, (void)ns;
  for (int64_t part = 2; part >= 0; part--)
    if (count * part / 3 < count * (part + 1) / 3)
      work(user, count * part / 3, count * (part + 1) / 3);
}

static const ir_crew crew = {.threads = 3, .share = share};
static int by_lists;

/* Where rows are lists on both sides: the same, alone and by a crew. */
static void expect_lists(ir_arena *a, const ir_view *from, const ir_view *want, ir_dtype index) {
  ir_view got;
  for (int by = 0; by < 2; by++)
    if (ir_lists_convert(a, by ? &crew : NULL, from, want->format, index, &got)) {
      expect_view(&got, want, from->format->name);
      by_lists++;
    }
}

static void expect_reordered(ir_arena *a, const ir_view *from, const ir_format *format,
                             ir_dtype index) {
  ir_view got, want;
  ir_entries e;
  const char *why = NULL;
  cr_assert(ir_reorder(a, from, format, index, &got), "%s to %s", from->format->name, format->name);
  cr_assert_eq(ir_view_check(a, &got, &why), SPC_OK, "%s to %s: %s", from->format->name,
               format->name, why);
  ir_view_entries(a, from, &e);
  cr_assert_eq(ir_view_pack(a, from->dtype, from->dim, format, index, &e, &want, &why), SPC_OK,
               "%s", why);
  expect_view(&got, &want, from->format->name);
  expect_lists(a, from, &want, index);
}

Test(ir_data_reorder, counting_and_sorting_lists_give_the_same_arrays) {
  static const ir_dtype dtypes[] = {IR_F64, IR_F32, IR_BF16, IR_I8, IR_NONE};
  static const int64_t shapes[][3] = {{7, 11, 5}, {8, 12, 1},  {1, 9, 4},  {0, 5, 3},
                                      {5, 0, 2},  {13, 20, 7}, {3, 700, 2}};
  for (int f = 0; f <= IR_COUNT(formats); f++)
    for (int to = 0; to <= IR_COUNT(formats); to++)
      for (int s = 0; s < IR_COUNT(shapes); s++)
        for (int percent = 0; percent <= 100; percent += 20) {
          ir_arena *a = ir_arena_new();
          const char *why = NULL;
          const ir_format *format = format_of(a, f), *other = format_of(a, to);
          ir_dtype t = dtypes[draw(IR_COUNT(dtypes))];
          ir_entries e = random_entries(a, t, format->rank, shapes[s], percent);
          ir_view from;
          bool fits = format->rank == other->rank && (t || ir_format_lists_entries(format)) &&
                      (t || ir_format_lists_entries(other));
          if (fits) {
            cr_assert_eq(
                ir_view_pack(a, t, shapes[s], format, draw(2) ? IR_I32 : IR_I64, &e, &from, &why),
                SPC_OK, "%s", why);
            expect_reordered(a, &from, other, draw(2) ? IR_I32 : IR_I64);
          }
          ir_arena_free(a);
        }
  cr_assert_geq(by_lists, 500, "%d by lists", by_lists);
}

/* Enough entries for several counters a column. */
Test(ir_data_reorder, several_threads_give_the_same_arrays) {
  static const int64_t dims[] = {531, 299};
  for (int f = 0; f < 8; f++)
    for (int to = 0; to < 8; to++) {
      ir_arena *a = ir_arena_new();
      const ir_format *format = format_of(a, f), *other = format_of(a, to);
      ir_entries e = random_entries(a, IR_F32, 2, dims, 20);
      ir_view from;
      const char *why = NULL;
      cr_assert_eq(ir_view_pack(a, IR_F32, dims, format, IR_I32, &e, &from, &why), SPC_OK, "%s",
                   why);
      expect_reordered(a, &from, other, IR_I32);
      ir_arena_free(a);
    }
  cr_assert_geq(by_lists, 60, "%d by lists", by_lists);
}

/* Few entries in huge extents are sorted by digits, not by as many counters as there are places. */
Test(ir_data_reorder, coordinates_far_apart) {
  ir_arena *a = ir_arena_new();
  const char *why = NULL;
  int64_t dims[] = {2000000000, 1 << 30};
  const ir_format *rows = ir_format_builtin(a, "dcsr", 2, NULL, 0, &why);
  ir_format columns = *rows;
  columns.level[0].dim = 1, columns.level[1].dim = 0;
  ir_entries e = {.rank = 2, .count = 300};
  e.at = IR_NEW_ARRAY(a, int64_t, 600);
  e.value = IR_NEW_ARRAY(a, double, 300);
  for (int i = 0; i < 300; i++) {
    e.at[2 * i] = (int64_t)i * 6666666;
    e.at[2 * i + 1] = draw(1 << 30);
    e.value[i] = i;
  }
  ir_view from;
  cr_assert_eq(ir_view_pack(a, IR_F32, dims, rows, IR_I32, &e, &from, &why), SPC_OK, "%s", why);
  size_t before = ir_arena_bytes(a);
  ir_view to;
  cr_assert(ir_reorder(a, &from, &columns, IR_I32, &to));
  cr_assert_lt(ir_arena_bytes(a) - before, 4000000, "%zu bytes", ir_arena_bytes(a) - before);
  expect_reordered(a, &from, &columns, IR_I64);
  ir_arena_free(a);
}

Test(ir_data_reorder, what_is_broken_is_left_to_the_general_way) {
  ir_arena *a = ir_arena_new();
  const char *why = NULL;
  int64_t dims[] = {2, 3};
  int32_t pos[] = {0, 2, 3}, crd[] = {0, 2, 1};
  float vals[] = {1, 2, 3};
  ir_view v = {.dtype = IR_F32,
               .rank = 2,
               .format = ir_format_builtin(a, "csr", 2, NULL, 0, &why),
               .dim = {dims[0], dims[1]},
               .pos = {{0}, {pos, 3, IR_I32}},
               .crd = {{0}, {crd, 3, IR_I32}},
               .vals = {vals, 3, IR_F32}};
  const ir_format *columns = ir_format_builtin(a, "csc", 2, NULL, 0, &why);
  ir_view to;
  const ir_format *tuples = ir_format_builtin(a, "coo", 2, NULL, 0, &why);
  cr_assert(ir_reorder(a, &v, columns, IR_I32, &to));
  cr_assert(ir_lists_convert(a, NULL, &v, columns, IR_I32, &to));
  cr_assert(ir_lists_convert(a, &crew, &v, tuples, IR_I32, &to));
  crd[1] = 3;
  cr_assert_not(ir_reorder(a, &v, columns, IR_I32, &to), "a coordinate outside");
  cr_assert_not(ir_lists_convert(a, NULL, &v, columns, IR_I32, &to), "a coordinate outside");
  cr_assert_not(ir_lists_convert(a, &crew, &v, tuples, IR_I32, &to), "a coordinate outside");
  crd[1] = 0;
  cr_assert_not(ir_lists_convert(a, NULL, &v, tuples, IR_I32, &to), "twice the same");
  crd[1] = 2, pos[1] = 4;
  cr_assert_not(ir_reorder(a, &v, columns, IR_I32, &to), "positions that fall");
  cr_assert_not(ir_lists_convert(a, NULL, &v, columns, IR_I32, &to), "positions that fall");
  cr_assert_not(ir_lists_convert(a, &crew, &v, tuples, IR_I32, &to), "positions that fall");
  int64_t width[] = {2};
  cr_assert_not(ir_reorder(a, &v, ir_format_builtin(a, "ell", 2, width, 1, &why), IR_I32, &to));
  ir_arena_free(a);
}
