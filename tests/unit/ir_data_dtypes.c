/* The reference interpreter over dtypes: casts, saturation, wrap-around, booleans, mixed products.
 */
#include "tests/unit/ir_data_session.h"

#define N1 "spx 1; dim N: dyn; "

static void check_one(const char *decl, const char *stmt, const double *x, int64_t n,
                      const double *want) {
  ir_arena *a = ir_arena_new();
  session s = session_open(ir_format_text(a, N1 "kernel k { in x: %s; %s; }", decl, stmt));
  session_bind(&s, "x", x, 1, &n);
  cr_assert_eq(session_run(&s), SPC_OK, "%s: %s", stmt, session_messages(&s));
  session_expect(&s, "y", want);
  session_close(&s);
  ir_arena_free(a);
}

Test(ir_data_dtypes, casts_truncate_and_saturate) {
  check_one("f32[N]", "out y[i] = cast[i8](x[i])", D(1.9, -1.9, 300, -300, NAN), 5,
            D(1, -1, 127, -128, 0));
  check_one("f32[N]", "out y[i] = cast[u8](x[i])", D(1.9, -1.9, 300), 3, D(1, 0, 255));
  check_one("f32[N]", "out y[i] = cast[i4](x[i])", D(9, -9, 3), 3, D(7, -8, 3));
  check_one("i32[N]", "out y[i] = cast[i8](x[i])", D(130, -129, 5), 3, D(-126, 127, 5));
  check_one("i32[N]", "out y[i] = cast[f32](x[i]) / 2", D(3, -1), 2, D(1.5, -0.5));
  check_one("f32[N]", "out y[i] = cast[f8e4m3](x[i])", D(1000, -1000, 1.06, 0.01), 4,
            D(448, -448, 1, 0.009765625));
  check_one("f32[N]", "out y[i] = cast[f8e5m2](x[i])", D(1e9, 1.1), 2, D(INFINITY, 1));
}

Test(ir_data_dtypes, small_types_accumulate_in_wider_ones) {
  double ones[300];
  for (int i = 0; i < 300; i++) ones[i] = 1;
  check_one("i8[N]", "out y[] = sum[i] x[i] : i32", ones, 300, D(300));
  check_one("i8[N]", "out y[] = sum[i] x[i]", ones, 300, D(44)); /* rounded to i8 at the end */
  check_one("bf16[N]", "out y[] = sum[i] x[i]", ones, 300, D(300));
  check_one("i4[N]", "out y[i] = x[i] + x[i]", D(7, -8), 2, D(-2, 0));
  check_one("u4[N]", "out y[i] = x[i] - 1", D(0, 15), 2, D(15, 14));
}

Test(ir_data_dtypes, comparisons_give_booleans) {
  check_one("f32[N]", "out y[i] = x[i] > 0 and not (x[i] == 2)", D(-1, 1, 2, NAN), 4,
            D(0, 1, 0, 0));
  check_one("i32[N]", "out y[] = any[i] (x[i] == 2)", D(1, 2, 3), 3, D(1));
  check_one("i32[N]", "out y[] = all[i] (x[i] > 1)", D(1, 2, 3), 3, D(0));
  check_one("b1[N]", "out y[i] = where(x[i], 1.5, 2.5) : f32", D(1, 0), 2, D(1.5, 2.5));
}

Test(ir_data_dtypes, nan_spreads_through_min_max_relu) {
  check_one("f32[N]", "out y[i] = relu(x[i])", D(NAN, -INFINITY, INFINITY), 3, D(NAN, 0, INFINITY));
  check_one("f32[N]", "out y[] = max[i] x[i]", D(1, NAN, 3), 3, D(NAN));
  check_one("f32[N]", "out y[] = argmax[i] x[i]", D(1, NAN, 3, NAN), 4, D(1));
  check_one("f32[N]", "out y[i] = softmax[i](x[i])", D(1, NAN), 2, D(NAN, NAN));
  check_one("f32[N]", "out y[i] = sign(x[i]) + step(x[i])", D(-2, 0, 3), 3, D(-1, 0, 2));
}

Test(ir_data_dtypes, scatters_of_integers_start_at_the_range_ends) {
  session s = session_open(N1 "dim M = 3; kernel k { in p: i32[N]; in x: i8[N]; out lo[p[i]] min= "
                              "x[i] : i8[M]; out hi[p[i]] max= x[i] : i8[M]; }");
  session_bind(&s, "p", D(0, 2, 0), 1, S(3));
  session_bind(&s, "x", D(5, -6, 7), 1, S(3));
  cr_assert_eq(session_run(&s), SPC_OK, "%s", session_messages(&s));
  session_expect(&s, "lo", D(5, 127, -6));
  session_expect(&s, "hi", D(7, -128, -6));
  session_close(&s);
}

Test(ir_data_dtypes, indices_are_values_and_subscripts_compute) {
  session s = session_open(
      N1 "dim M: dyn; kernel k { in x: f32[N]; in w: f32[M]; out y[i] = x[i] + cast[f32](i*10 + N);"
         " out z[i] = w[i/2] * x[i]; out c[i] = x[i] on i % 2 == 1; }");
  session_bind(&s, "x", D(1, 2, 3), 1, S(3));
  session_bind(&s, "w", D(1, 10), 1, S(2));
  cr_assert_eq(session_run(&s), SPC_OK, "%s", session_messages(&s));
  session_expect(&s, "y", D(4, 15, 26));
  session_expect(&s, "z", D(1, 2, 30));
  session_expect(&s, "c", D(0, 2, 0));
  session_close(&s);
}
