/* Sizes of dims from shapes: solved, compared, promised. */
#include "tests/unit/ir_data_session.h"

static const char *last_message(session *s) {
  return s->sink->diags.at[s->sink->diags.count - 1]->text;
}

static int64_t size_of(session *s, const char *name) {
  for (int d = 0; d < s->program->dims.count; d++)
    if (!strcmp(s->program->dims.at[d]->name, name)) return s->sizes[d];
  return -2;
}

Test(ir_data_sizes, one_unknown_dim_is_solved) {
  session s = session_open(
      "spx 1; dim N: dyn; dim M: dyn; dim K: dyn; kernel k { in a: f32[N+4]; in b: f32[2*M]; in c: "
      "f32[K/8];"
      " out y[i] = a[i]; out z[j] = b[j]; out w[l] = c[l]; out v[q] = 1.0 : f32[K]; }");
  double values[16] = {0};
  session_bind(&s, "a", values, 1, S(9));
  session_bind(&s, "b", values, 1, S(6));
  session_bind(&s, "c", values, 1, S(2));
  cr_assert_eq(session_run(&s), SPC_OK, "%s", session_messages(&s));
  cr_assert(size_of(&s, "N") == 5 && size_of(&s, "M") == 3 && size_of(&s, "K") == 16);
  session_close(&s);
}

Test(ir_data_sizes, what_no_size_makes_is_an_error) {
  static const struct {
    const char *type;
    int64_t size;
    const char *says;
  } cases[] = {
      {"f32[N+4]", 3, "no size of `N` makes `N+4` that"},
      {"f32[2*N]", 5, "no size of `N` makes `2*N` that"},
  };
  for (int c = 0; c < IR_COUNT(cases); c++) {
    ir_arena *a = ir_arena_new();
    session s = session_open(ir_format_text(
        a, "spx 1; dim N: dyn; kernel k { in a: %s; out y[i] = a[i]; }", cases[c].type));
    double values[16] = {0};
    session_bind(&s, "a", values, 1, &cases[c].size);
    cr_assert_eq(session_run(&s), SPC_INVALID_INPUT);
    cr_assert(strstr(last_message(&s), "no size of `N`"), "%s", last_message(&s));
    session_close(&s);
    ir_arena_free(a);
  }
}

Test(ir_data_sizes, promises_of_dims_are_kept) {
  static const struct {
    const char *dim;
    const char *says;
  } cases[] = {{"dyn <= 4", "promises `dyn <= 4`"}, {"dyn % 4", "promises `dyn % 4`"}};
  for (int c = 0; c < IR_COUNT(cases); c++) {
    ir_arena *a = ir_arena_new();
    session s = session_open(ir_format_text(
        a, "spx 1; dim N: %s; kernel k { in a: f32[N]; out y[i] = a[i]; }", cases[c].dim));
    double values[16] = {0};
    session_bind(&s, "a", values, 1, S(6));
    cr_assert_eq(session_run(&s), SPC_INVALID_INPUT);
    cr_assert(strstr(last_message(&s), cases[c].says), "%s", last_message(&s));
    session_close(&s);
    ir_arena_free(a);
  }
}

Test(ir_data_sizes, a_subscript_that_can_leave_its_axis_is_an_error_at_run_time) {
  session s = session_open("spx 1; dim N: dyn; dim Q: dyn; dim M: dyn; kernel k { in x: f32[N]; in "
                           "w: f32[Q]; out y[i] = sum[q] x[i+q]*w[q] : f32[M]; }");
  double values[16] = {0};
  session_bind(&s, "x", values, 1, S(8));
  session_bind(&s, "w", values, 1, S(3));
  s.sizes[2] = 6;
  cr_assert_eq(session_run(&s), SPC_OK, "%s", session_messages(&s));
  s.sizes[2] = 7;
  s.bindings.list.count = 2;
  cr_assert_eq(session_run(&s), SPC_INVALID_INPUT);
  cr_assert_eq(s.sink->diags.at[s.sink->diags.count - 1]->id, IR_DIAG_SUBSCRIPT_LEAVES);
  cr_assert(strstr(last_message(&s), "from 0 to 8") && strstr(last_message(&s), "size 8"), "%s",
            last_message(&s));
  session_close(&s);
}

Test(ir_data_sizes, an_unknown_size_is_named) {
  session s = session_open("spx 1; dim N: dyn; kernel k { out y[i] = 1.0 : f32[N]; }");
  cr_assert_eq(session_run(&s), SPC_INVALID_INPUT);
  cr_assert(strstr(last_message(&s), "`N` is not known"), "%s", last_message(&s));
  session_close(&s);
}
