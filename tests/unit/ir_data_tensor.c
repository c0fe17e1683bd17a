/* Tensors: every format round-trips, structure is checked, what does not fit is refused. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "ir/tensor.h"

typedef struct shape_case {
  int rank;
  int64_t dim[IR_MAX_RANK];
} shape_case;

typedef struct format_case {
  const char *name;
  int rank, arguments;
  int64_t argument[2];
} format_case;

static const format_case cases[] = {
    {"dense", 2, 0, {0}},    {"dense_t", 2, 0, {0}},   {"coo", 2, 0, {0}},
    {"csr", 2, 0, {0}},      {"csc", 2, 0, {0}},       {"bsr", 2, 2, {3, 2}},
    {"bsr", 2, 2, {1, 1}},   {"ell", 2, 1, {64}},      {"dcsr", 2, 0, {0}},
    {"csf", 2, 0, {0}},      {"bitmap", 2, 2, {3, 5}}, {"bitmap", 2, 2, {8, 8}},
    {"twell", 2, 2, {4, 4}}, {"twell", 2, 2, {4, 2}},  {"twell", 2, 2, {5, 1}},
    {"twell", 2, 2, {1, 1}}, {"nm", 2, 2, {4, 4}},     {"nm", 2, 2, {8, 8}},
    {"dense", 3, 0, {0}},    {"dense_t", 3, 0, {0}},   {"coo", 3, 0, {0}},
    {"csf", 3, 0, {0}},      {"nm", 3, 2, {2, 2}},     {"coo", 1, 0, {0}},
    {"csf", 1, 0, {0}},      {"dense", 1, 0, {0}},     {"dense", 0, 0, {0}},
    {"csf", 5, 0, {0}},      {"coo", 5, 0, {0}},
};

static const shape_case shapes[] = {
    {0, {0}},
    {1, {1}},
    {1, {13}},
    {1, {0}},
    {2, {7, 11}},
    {2, {1, 9}},
    {2, {9, 1}},
    {2, {0, 5}},
    {2, {5, 0}},
    {2, {17, 33}},
    {3, {3, 4, 5}},
    {3, {1, 1, 1}},
    {5, {2, 3, 1, 2, 3}},
};

static uint64_t state;
static uint32_t draw(uint32_t below) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(state >> 33) % below;
}

static const ir_format *builtin(ir_arena *a, const format_case *c) {
  const char *why = NULL;
  const ir_format *f = ir_format_builtin(a, c->name, c->rank, c->argument, c->arguments, &why);
  cr_assert(f, "%s: %s", c->name, why);
  return f;
}

static void set_coordinates(const shape_case *s, int64_t flat, int64_t *at) {
  for (int d = s->rank - 1; d >= 0; d--) {
    at[d] = flat % s->dim[d];
    flat /= s->dim[d];
  }
}

/* Entries with the given share of the elements; values never repeat. */
static ir_entries random_entries(ir_arena *a, const shape_case *s, int percent, double *dense) {
  ir_view shape = {.rank = s->rank};
  for (int d = 0; d < s->rank; d++) shape.dim[d] = s->dim[d];
  int64_t n = ir_view_elements(&shape);
  ir_entries e = {.rank = s->rank};
  e.at = IR_NEW_ARRAY(a, int64_t, n * s->rank + 1);
  e.value = IR_NEW_ARRAY(a, double, n + 1);
  for (int64_t i = 0; i < n; i++) {
    dense[i] = 0;
    if ((int)draw(100) >= percent) continue;
    dense[i] = (double)(draw(5) ? i + 1 : 0); /* some explicit zeros */
    set_coordinates(s, i, e.at + e.count * s->rank);
    e.value[e.count++] = dense[i];
  }
  for (int64_t i = e.count - 1; i > 0; i--) { /* any order */
    int64_t j = draw((uint32_t)i + 1);
    double v = e.value[i];
    e.value[i] = e.value[j], e.value[j] = v;
    for (int d = 0; d < s->rank; d++) {
      int64_t c = e.at[i * s->rank + d];
      e.at[i * s->rank + d] = e.at[j * s->rank + d], e.at[j * s->rank + d] = c;
    }
  }
  return e;
}

static void expect_values(const ir_view *v, const shape_case *s, const double *dense,
                          const char *name) {
  int64_t at[IR_MAX_RANK] = {0};
  for (int64_t i = 0, n = ir_view_elements(v); i < n; i++) {
    set_coordinates(s, i, at);
    cr_assert_eq(ir_view_value(v, at), dense[i], "%s element %lld", name, (long long)i);
  }
}

Test(ir_data_tensor, every_format_holds_what_was_packed) {
  for (int f = 0; f < IR_COUNT(cases); f++)
    for (int s = 0; s < IR_COUNT(shapes); s++)
      for (int percent = 0; percent <= 100; percent += 25) {
        if (cases[f].rank != shapes[s].rank) continue;
        ir_arena *a = ir_arena_new();
        double dense[1024];
        const char *why = NULL;
        ir_entries e = random_entries(a, &shapes[s], percent, dense);
        ir_view v, back, again;
        const ir_format *format = builtin(a, &cases[f]);
        ir_dtype index = draw(2) ? IR_I32 : IR_I64;
        cr_assert_eq(ir_view_pack(a, IR_F64, shapes[s].dim, format, index, &e, &v, &why), SPC_OK,
                     "%s: %s", cases[f].name, why);
        cr_assert_eq(ir_view_check(a, &v, &why), SPC_OK, "%s: %s", cases[f].name, why);
        expect_values(&v, &shapes[s], dense, cases[f].name);
        const ir_format *plain = ir_format_builtin(a, "dense", v.rank, NULL, 0, NULL);
        cr_assert_eq(ir_view_convert(a, &v, plain, index, &back, &why), SPC_OK);
        expect_values(&back, &shapes[s], dense, "dense");
        cr_assert_eq(ir_view_convert(a, &back, format, index, &again, &why), SPC_OK, "%s: %s",
                     cases[f].name, why);
        expect_values(&again, &shapes[s], dense, "again");
        ir_arena_free(a);
      }
}

Test(ir_data_tensor, formats_of_the_user_hold_what_was_packed) {
  const ir_format mine[] = {
      {.name = "blocks",
       .rank = 2,
       .level_count = 4, /* coo of blocks */
       .level = {{.kind = IR_LEVEL_COMPRESSED, .dim = 0, .map = IR_MAP_DIV, .factor = 3},
                 {.kind = IR_LEVEL_SINGLETON, .dim = 1, .map = IR_MAP_DIV, .factor = 4},
                 {.kind = IR_LEVEL_DENSE, .dim = 0, .map = IR_MAP_MOD, .factor = 3},
                 {.kind = IR_LEVEL_DENSE, .dim = 1, .map = IR_MAP_MOD, .factor = 4}}},
      {.name = "bits",
       .rank = 2,
       .level_count = 2, /* a bitmap under a compressed level */
       .level = {{.kind = IR_LEVEL_COMPRESSED, .dim = 0}, {.kind = IR_LEVEL_BITMAP, .dim = 1}}},
      {.name = "blockbits",
       .rank = 2,
       .level_count = 4, /* a bitmap of blocks */
       .level = {{.kind = IR_LEVEL_DENSE, .dim = 1, .map = IR_MAP_DIV, .factor = 4},
                 {.kind = IR_LEVEL_BITMAP, .dim = 0, .map = IR_MAP_DIV, .factor = 2},
                 {.kind = IR_LEVEL_DENSE, .dim = 1, .map = IR_MAP_MOD, .factor = 4},
                 {.kind = IR_LEVEL_DENSE, .dim = 0, .map = IR_MAP_MOD, .factor = 2}}},
      {.name = "packed_rows",
       .rank = 2,
       .level_count = 2,
       .level = {{.kind = IR_LEVEL_PACKED, .dim = 0, .parameter = 20, .has_pos = true},
                 {.kind = IR_LEVEL_COMPRESSED, .dim = 1}}},
      {.name = "rest_over_rows",
       .rank = 2,
       .level_count = 3, /* levels below a rest */
       .level = {{.kind = IR_LEVEL_DENSE, .dim = 1, .map = IR_MAP_DIV, .factor = 3},
                 {.kind = IR_LEVEL_PACKED, .dim = 0, .parameter = 2, .has_pos = true},
                 {.kind = IR_LEVEL_COMPRESSED, .dim = 1, .map = IR_MAP_MOD, .factor = 3}}},
      {.name = "rest_in_rest",
       .rank = 2,
       .level_count = 2,
       .level = {{.kind = IR_LEVEL_PACKED, .dim = 0, .parameter = 1, .has_pos = true},
                 {.kind = IR_LEVEL_PACKED, .dim = 1, .parameter = 3, .has_pos = true}}},
      {.name = "rest_of_blocks",
       .rank = 2,
       .level_count = 4,
       .level = {{.kind = IR_LEVEL_COMPRESSED, .dim = 0, .map = IR_MAP_DIV, .factor = 2},
                 {.kind = IR_LEVEL_PACKED,
                  .dim = 1,
                  .map = IR_MAP_DIV,
                  .factor = 3,
                  .parameter = 1,
                  .has_pos = true},
                 {.kind = IR_LEVEL_DENSE, .dim = 0, .map = IR_MAP_MOD, .factor = 2},
                 {.kind = IR_LEVEL_DENSE, .dim = 1, .map = IR_MAP_MOD, .factor = 3}}},
      {.name = "tiles",
       .rank = 2,
       .level_count = 4, /* entries inside listed tiles */
       .level = {{.kind = IR_LEVEL_COMPRESSED, .dim = 0, .map = IR_MAP_DIV, .factor = 4},
                 {.kind = IR_LEVEL_COMPRESSED, .dim = 1, .map = IR_MAP_DIV, .factor = 4},
                 {.kind = IR_LEVEL_COMPRESSED, .dim = 0, .map = IR_MAP_MOD, .factor = 4},
                 {.kind = IR_LEVEL_SINGLETON, .dim = 1, .map = IR_MAP_MOD, .factor = 4}}},
  };
  for (int f = 0; f < IR_COUNT(mine); f++)
    for (int s = 0; s < IR_COUNT(shapes); s++)
      for (int percent = 0; percent <= 100; percent += 20) {
        if (shapes[s].rank != 2) continue;
        ir_arena *a = ir_arena_new();
        ir_format format = mine[f];
        double dense[1024];
        const char *why = NULL;
        ir_format_settle(&format);
        cr_assert_null(ir_format_fault(&format));
        ir_entries e = random_entries(a, &shapes[s], percent, dense);
        ir_view v;
        cr_assert_eq(ir_view_pack(a, IR_F64, shapes[s].dim, &format, IR_I32, &e, &v, &why), SPC_OK,
                     "%s: %s", format.name, why);
        cr_assert_eq(ir_view_check(a, &v, &why), SPC_OK, "%s: %s", format.name, why);
        expect_values(&v, &shapes[s], dense, format.name);
        ir_arena_free(a);
      }
}

static ir_view small_csr(ir_arena *a) {
  int64_t at[] = {0, 1, 0, 3, 2, 0, 2, 2};
  double value[] = {1, 2, 3, 4};
  ir_entries e = {.rank = 2, .count = 4, .at = at, .value = value};
  int64_t dims[] = {3, 4};
  ir_view v;
  cr_assert_eq(ir_view_pack(a, IR_F32, dims, ir_format_builtin(a, "csr", 2, NULL, 0, NULL), IR_I32,
                            &e, &v, NULL),
               SPC_OK);
  return v;
}

Test(ir_data_tensor, csr_arrays_are_the_textbook_ones) {
  ir_arena *a = ir_arena_new();
  ir_view v = small_csr(a);
  const int32_t pos[] = {0, 2, 2, 4}, crd[] = {1, 3, 0, 2};
  cr_assert_eq(v.pos[1].count, 4);
  cr_assert_eq(v.crd[1].count, 4);
  cr_assert_arr_eq(v.pos[1].data, pos, sizeof pos);
  cr_assert_arr_eq(v.crd[1].data, crd, sizeof crd);
  ir_arena_free(a);
}

Test(ir_data_tensor, check_finds_every_broken_promise) {
  static const struct {
    bool pos;
    int index;
    int32_t value;
    const char *says;
  } faults[] = {
      {true, 0, 1, "pos[0]"},      {true, 1, 5, "falls"},     {true, 3, 9, "needs"},
      {false, 0, 7, "outside"},    {false, 0, -1, "outside"}, {false, 0, 3, "twice"},
      {false, 2, 3, "not sorted"}, {true, 2, 1, "falls"},
  };
  for (int i = 0; i < IR_COUNT(faults); i++) {
    ir_arena *a = ir_arena_new();
    ir_view v = small_csr(a);
    const char *why = NULL;
    ((int32_t *)(faults[i].pos ? v.pos[1].data : v.crd[1].data))[faults[i].index] = faults[i].value;
    cr_assert_eq(ir_view_check(a, &v, &why), SPC_INVALID_INPUT, "fault %d", i);
    cr_assert(strstr(why, faults[i].says), "fault %d: %s", i, why);
    ir_arena_free(a);
  }
}

Test(ir_data_tensor, what_does_not_fit_is_refused_with_the_place) {
  ir_arena *a = ir_arena_new();
  int64_t at[] = {1, 4, 1, 5, 1, 7, 0, 0};
  double value[] = {1, 2, 3, 4};
  int64_t dims[] = {2, 8}, nm[] = {2, 4}, ell[] = {2};
  ir_entries e = {.rank = 2, .count = 4, .at = at, .value = value};
  const char *why = NULL;
  ir_view v;
  cr_assert_eq(ir_view_pack(a, IR_F32, dims, ir_format_builtin(a, "nm", 2, nm, 2, NULL), IR_I32, &e,
                            &v, &why),
               SPC_INVALID_INPUT);
  cr_assert(strstr(why, "nm(2,4)") && strstr(why, "[1,4]"), "%s", why);
  cr_assert_eq(ir_view_pack(a, IR_F32, dims, ir_format_builtin(a, "ell", 2, ell, 1, NULL), IR_I32,
                            &e, &v, &why),
               SPC_INVALID_INPUT);
  cr_assert(strstr(why, "ell(2)"), "%s", why);
  at[1] = 8;
  cr_assert_eq(ir_view_pack(a, IR_F32, dims, ir_format_builtin(a, "csr", 2, NULL, 0, NULL), IR_I32,
                            &e, &v, &why),
               SPC_INVALID_INPUT);
  cr_assert(strstr(why, "coordinate 8"), "%s", why);
  ir_arena_free(a);
}

static bool count_entry(void *user, const int64_t *at, int64_t position) {
  (void)at, (void)position;
  ++*(int64_t *)user;
  return true;
}

/* Row 0: [. 1 . 2 | 3 4 5 .]; row 1: nothing; row 2: [. . . . | . . 0 6]; in twell(4,2). */
static ir_view small_twell(ir_arena *a, ir_dtype dtype) {
  static int64_t at[] = {0, 6, 0, 1, 0, 3, 0, 4, 0, 5, 2, 6, 2, 7};
  static double value[] = {5, 1, 2, 3, 4, 0, 6};
  int64_t dims[] = {3, 8}, tw[] = {4, 2};
  ir_entries e = {.rank = 2, .count = 7, .at = at, .value = value};
  const char *why = NULL;
  ir_view v;
  cr_assert_eq(ir_view_pack(a, dtype, dims, ir_format_builtin(a, "twell", 2, tw, 2, NULL), IR_I32,
                            &e, &v, &why),
               SPC_OK, "%s", why);
  cr_assert_eq(ir_view_check(a, &v, &why), SPC_OK, "%s", why);
  return v;
}

Test(ir_data_tensor, what_overflows_a_tile_lies_in_the_rest) {
  ir_arena *a = ir_arena_new();
  ir_view v = small_twell(a, IR_F32);
  const int32_t counts[] = {2, -1, 0, 0, 0, 2, 1};
  const int32_t crd[] = {1, 3, -1, -1, -1, -1, -1, -1, -1, -1, 2, 3, 0, 1, 2, -1};
  const float vals[] = {1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 6, 3, 4, 5, 0};
  cr_assert_eq(v.pos[2].count, 7);
  cr_assert_eq(v.vals.count, 16);
  cr_assert_eq(ir_view_positions(&v, 3), 16);
  cr_assert_arr_eq(v.pos[2].data, counts, sizeof counts);
  cr_assert_arr_eq(v.crd[2].data, crd, sizeof crd);
  cr_assert_arr_eq(v.vals.data, vals, sizeof vals);
  int64_t stored[] = {0, 5}, hole[] = {0, 7}, fixed[] = {0, -1}, zero[] = {2, 6};
  cr_assert_eq(ir_view_locate(&v, stored), 13);
  cr_assert_eq(ir_view_locate(&v, hole), -1);
  cr_assert_eq(ir_view_locate(&v, zero), 10, "an explicit zero is an entry");
  ir_entries e, row = {0};
  ir_view_entries(a, &v, &e);
  cr_assert_eq(e.count, 7);
  ir_view_walk_where(&v, fixed, count_entry, &row.count);
  cr_assert_eq(row.count, 5);
  v = small_twell(a, IR_NONE); /* a pattern: the same entries */
  ir_view_entries(a, &v, &e);
  cr_assert_eq(e.count, 7);
  cr_assert_eq(ir_view_locate(&v, hole), -1);
  ir_arena_free(a);
}

Test(ir_data_tensor, a_broken_rest_is_found) {
  static const struct {
    int array, index; /* 0: counts, 1: crd */
    int32_t value;
    const char *says;
  } faults[] = {
      {0, 6, 7, "7 slots for 6"},       {0, 6, -1, "-1 slots"},
      {0, 1, -2, "has 1 slots"},        {0, 6, 0, "has 0 slots"},
      {0, 3, -1, "holds parent 3 and"}, {1, 13, 2, "place 1 of slot 0"},
      {1, 15, 4, "place 3 of slot"},    {0, 6, 2, "the shape needs 20"},
      {0, 0, 3, "the capacity is 2"},
  };
  for (int i = 0; i < IR_COUNT(faults); i++) {
    ir_arena *a = ir_arena_new();
    ir_view v = small_twell(a, IR_F32);
    const char *why = NULL;
    ((int32_t *)(faults[i].array ? v.crd[2].data : v.pos[2].data))[faults[i].index] =
        faults[i].value;
    cr_assert_eq(ir_view_check(a, &v, &why), SPC_INVALID_INPUT, "fault %d", i);
    cr_assert(strstr(why, faults[i].says), "fault %d: %s", i, why);
    ir_arena_free(a);
  }
}

/* Slots may come in any order, and more may be there than are used. */
Test(ir_data_tensor, slots_of_the_rest_have_no_order) {
  ir_arena *a = ir_arena_new();
  int32_t counts[] = {-3, 1, -1, 3}, crd[16] = {-1, -1, -1, 2};
  float vals[16] = {0, 0, 0, 9};
  int64_t tw[] = {3, 1}, at[2];
  ir_view v = {.dtype = IR_F32, .rank = 2, .dim = {3, 3}};
  for (int i = 3; i < 12; i++) crd[i] = (i - 3) % 3, vals[i] = (float)i;
  crd[1] = 2, vals[1] = 7;
  v.format = ir_format_builtin(a, "twell", 2, tw, 2, NULL);
  v.pos[2] = (ir_array){counts, 4, IR_I32};
  v.crd[2] = (ir_array){crd, 16, IR_I32};
  v.vals = (ir_array){vals, 16, IR_F32};
  const char *why = NULL;
  cr_assert_eq(ir_view_check(a, &v, &why), SPC_OK, "%s", why);
  const double want[] = {9, 10, 11, 0, 0, 7, 3, 4, 5};
  for (int i = 0; i < 9; i++) {
    at[0] = i / 3, at[1] = i % 3;
    cr_assert_eq(ir_view_value(&v, at), want[i], "element %d", i);
  }
  ir_view packed;
  cr_assert_eq(
      ir_view_convert(a, &v, ir_format_builtin(a, "csr", 2, NULL, 0, NULL), IR_I32, &packed, &why),
      SPC_OK, "%s", why);
  cr_assert_eq(packed.vals.count, 7);
  ir_arena_free(a);
}

Test(ir_data_tensor, nm_fills_free_slots_in_order) {
  ir_arena *a = ir_arena_new();
  int64_t at[] = {3, 5}, dims[] = {8}, nm[] = {2, 4};
  double value[] = {1, 2};
  const uint8_t positions[] = {0, 3, 0, 1};
  const float values[] = {0, 1, 0, 2};
  ir_entries e = {.rank = 1, .count = 2, .at = at, .value = value};
  ir_view v;
  cr_assert_eq(ir_view_pack(a, IR_F32, dims, ir_format_builtin(a, "nm", 1, nm, 2, NULL), IR_I32, &e,
                            &v, NULL),
               SPC_OK);
  cr_assert_arr_eq(v.crd[1].data, positions, sizeof positions);
  cr_assert_arr_eq(v.vals.data, values, sizeof values);
  const char *why = NULL;
  cr_assert_eq(ir_view_pack(a, IR_NONE, dims, v.format, IR_I32, &e, &v, &why), SPC_INVALID_INPUT);
  cr_assert(strstr(why, "exactly 2"), "%s", why);
  ir_arena_free(a);
}

Test(ir_data_tensor, duplicates_are_summed) {
  ir_arena *a = ir_arena_new();
  int64_t at[] = {1, 1, 0, 0, 1, 1, 1, 1}, dims[] = {2, 2}, corner[] = {1, 1};
  double value[] = {1, 2, 3, 4};
  int64_t whole[] = {1, 2, 250, 6};
  ir_entries e = {.rank = 2, .count = 4, .at = at, .value = value};
  ir_view v;
  cr_assert_eq(ir_view_pack(a, IR_F32, dims, ir_format_builtin(a, "coo", 2, NULL, 0, NULL), IR_I64,
                            &e, &v, NULL),
               SPC_OK);
  cr_assert_eq(v.vals.count, 2);
  cr_assert_eq(ir_view_value(&v, corner), 8.0);
  e.int_value = whole, e.value = NULL;
  cr_assert_eq(ir_view_pack(a, IR_U8, dims, ir_format_builtin(a, "csr", 2, NULL, 0, NULL), IR_I64,
                            &e, &v, NULL),
               SPC_OK);
  cr_assert_eq(ir_view_value_int(&v, corner), 1, "u8 wraps");
  ir_arena_free(a);
}

Test(ir_data_tensor, a_million_entries_in_a_square_of_a_million) {
  ir_arena *a = ir_arena_new();
  int64_t n = 1000000, dims[] = {n, n};
  ir_entries e = {.rank = 2,
                  .count = n,
                  .at = IR_NEW_ARRAY(a, int64_t, 2 * n),
                  .value = IR_NEW_ARRAY(a, double, n)};
  for (int64_t i = 0; i < 2 * n; i++) e.at[i] = draw((uint32_t)n);
  const char *why = NULL;
  ir_view v;
  cr_assert_eq(ir_view_pack(a, IR_F32, dims, ir_format_builtin(a, "csr", 2, NULL, 0, NULL), IR_I32,
                            &e, &v, &why),
               SPC_OK);
  cr_assert_eq(ir_view_check(a, &v, &why), SPC_OK, "%s", why);
  ir_arena_free(a);
}

Test(ir_data_tensor, illegal_formats_are_named) {
  ir_arena *a = ir_arena_new();
  const char *why = NULL;
  int64_t three[] = {5, 4};
  cr_assert_null(ir_format_builtin(a, "csr", 3, NULL, 0, &why));
  cr_assert(strstr(why, "`csr` stores 2 dimensions"), "%s", why);
  cr_assert_null(ir_format_builtin(a, "bsr", 2, NULL, 0, &why));
  cr_assert(strstr(why, "bsr(rows,cols)"), "%s", why);
  cr_assert_null(ir_format_builtin(a, "nm", 2, three, 2, &why));
  cr_assert_null(ir_format_builtin(a, "crs", 2, NULL, 0, &why));
  ir_format bad[] = {
      {.name = "a", .rank = 1, .level_count = 1, .level = {{.kind = IR_LEVEL_SINGLETON}}},
      {.name = "b", .rank = 2, .level_count = 1, .level = {{.kind = IR_LEVEL_DENSE}}},
      {.name = "c",
       .rank = 1,
       .level_count = 2,
       .level = {{.kind = IR_LEVEL_DENSE}, {.kind = IR_LEVEL_DENSE}}},
      {.name = "d",
       .rank = 1,
       .level_count = 1,
       .level = {{.kind = IR_LEVEL_DENSE, .map = IR_MAP_DIV, .factor = 4}}},
      {.name = "e",
       .rank = 1,
       .level_count = 2,
       .level = {{.kind = IR_LEVEL_DENSE, .map = IR_MAP_MOD, .factor = 4},
                 {.kind = IR_LEVEL_DENSE, .map = IR_MAP_DIV, .factor = 4}}},
      {.name = "f",
       .rank = 1,
       .level_count = 2,
       .level = {{.kind = IR_LEVEL_DENSE, .map = IR_MAP_DIV, .factor = 4},
                 {.kind = IR_LEVEL_DENSE, .map = IR_MAP_MOD, .factor = 8}}},
      {.name = "g", .rank = 1, .level_count = 1, .level = {{.kind = IR_LEVEL_NM, .parameter = 2}}},
      {.name = "h", .rank = 1, .level_count = 1, .level = {{.kind = IR_LEVEL_PACKED}}},
  };
  for (int i = 0; i < IR_COUNT(bad); i++) cr_assert(ir_format_fault(&bad[i]), "%s", bad[i].name);
  ir_arena_free(a);
}

Test(ir_data_tensor, maps_print_as_the_language_writes_them) {
  ir_arena *a = ir_arena_new();
  int64_t b[] = {64, 32}, t[] = {256, 8};
  ir_text text = ir_text_new(a);
  ir_format_print(ir_format_builtin(a, "bsr", 2, b, 2, NULL), &text);
  ir_text_put(&text, " ");
  ir_format_print_map(ir_format_builtin(a, "bsr", 2, b, 2, NULL), &text);
  cr_assert_str_eq(
      text.data, "bsr(64,32) [i,j] -> [ i/64: dense, j/32: compressed, i%64: dense, j%32: dense ]");
  text = ir_text_new(a);
  ir_format_print_map(ir_format_builtin(a, "twell", 2, t, 2, NULL), &text);
  cr_assert_str_eq(text.data, "[i,j] -> [ i: dense, j/256: dense, j%256: packed(8,1) ]");
  ir_arena_free(a);
}

static void damage(ir_array *array) {
  if (!array->count || !array->data || draw(3)) return;
  static const int64_t odd[] = {-1, 0, 1, 2, 255, INT32_MAX, INT32_MIN, 7};
  ir_dtype_store_int(array->dtype, array->data, draw((uint32_t)array->count),
                     odd[draw(IR_COUNT(odd))]);
  if (!draw(8)) array->count = draw((uint32_t)array->count + 1);
}

/* Arrays from outside: either the check refuses them, or everything that reads them stays inside.
 */
Test(ir_data_tensor, damaged_arrays_are_refused_or_harmless) {
  int refused = 0;
  for (int round = 0; round < 4000; round++) {
    ir_arena *a = ir_arena_new();
    const format_case *c = &cases[draw(IR_COUNT(cases))];
    const shape_case *s = &shapes[draw(IR_COUNT(shapes))];
    double dense[1024];
    const char *why = NULL;
    ir_view v;
    if (c->rank == s->rank) {
      ir_entries e = random_entries(a, s, 40, dense), list;
      cr_assert_eq(ir_view_pack(a, IR_F32, s->dim, builtin(a, c), IR_I32, &e, &v, &why), SPC_OK,
                   "%s", why);
      for (int k = 0; k < v.format->level_count; k++) {
        damage(&v.pos[k]);
        damage(&v.crd[k]);
      }
      if (ir_view_check(a, &v, &why) == SPC_OK) {
        int64_t count = 0, at[IR_MAX_RANK] = {0};
        ir_view_walk(&v, count_entry, &count);
        ir_view_entries(a, &v, &list);
        for (int64_t i = 0, n = ir_view_elements(&v); i < n; i++) {
          set_coordinates(s, i, at);
          cr_assert(ir_view_locate(&v, at) < v.vals.count);
        }
      } else {
        refused++;
      }
    }
    ir_arena_free(a);
  }
  cr_assert(refused > 100);
}
