/* The reference interpreter: one program a rule of the language, with results worked out by hand.
 */
#include "tests/unit/ir_data_session.h"

#define DIMS "spx 1; dim I: dyn; dim J: dyn; dim K: dyn; "

Test(ir_data_interp, dense_products_and_epilogues) {
  session s = session_open(DIMS "kernel k { in A: f32[I,K]; in B: f32[K,J]; in c: f32[J];"
                                " out y[i,j] = relu(c[j] + sum[k] A[i,k]*B[k,j]); }");
  session_bind(&s, "A", D(1, 2, 3, 4), 2, S(2, 2));
  session_bind(&s, "B", D(1, 0, -1, 0, 1, -1), 2, S(2, 3));
  session_bind(&s, "c", D(0.5, 0, 1), 1, S(3));
  cr_assert_eq(session_run(&s), SPC_OK, "%s", session_messages(&s));
  session_expect(&s, "y", D(1.5, 2, 0, 3.5, 4, 0));
  session_close(&s);
}

Test(ir_data_interp, a_sparse_operand_in_any_format_gives_the_same_product) {
  static const char *const formats[] = {"dense", "dense_t",  "coo",         "csr",
                                        "csc",   "bsr(2,2)", "ell(4)",      "dcsr",
                                        "csf",   "nm(4,4)",  "bitmap(2,4)", "twell(2,1)"};
  for (int f = 0; f < IR_COUNT(formats); f++) {
    ir_arena *a = ir_arena_new();
    session s = session_open(
        ir_format_text(a,
                       DIMS "kernel k { in A: f32[I,K] as %s; in x: f32[K]; in z: f32[I];"
                            " out y[i] = sum[k] A[i,k]*x[k]; out t[k] = sum[i] A[i,k]*z[i]; }",
                       formats[f]));
    session_bind(&s, "A", D(0, 2, 0, 1, 0, 0, 0, 0, 5, 0, 0, -1), 2, S(3, 4));
    session_bind(&s, "x", D(1, 10, 100, 1000), 1, S(4));
    session_bind(&s, "z", D(1, 2, 3), 1, S(3));
    cr_assert_eq(session_run(&s), SPC_OK, "%s: %s", formats[f], session_messages(&s));
    session_expect(&s, "y", D(1020, 0, -995));
    session_expect(&s, "t", D(15, 2, 0, -2));
    session_close(&s);
    ir_arena_free(a);
  }
}

Test(ir_data_interp, values_are_rounded_once_at_the_end_of_a_statement) {
  session s = session_open(DIMS "kernel k { in x: f16[K]; out y[] = sum[k] x[k] : f16 acc f32; }");
  double x[64];
  for (int i = 0; i < 64; i++) x[i] = i ? 0.25 : 2048; /* an f16 sum would lose every quarter */
  session_bind(&s, "x", x, 1, S(64));
  cr_assert_eq(session_run(&s), SPC_OK, "%s", session_messages(&s));
  session_expect(&s, "y", D(2064)); /* 2063.75 to the nearest f16 */
  session_close(&s);
}

Test(ir_data_interp, integers_wrap_at_their_width) {
  session s = session_open(
      DIMS "kernel k { in x: i8[K]; out y[] = sum[k] x[k]*x[k]; out z[] = sum[k] x[k]*x[k] : i32;"
           " out q[k] = x[k] / 3; out m[k] = x[k] % 3; }");
  session_bind(&s, "x", D(100, -7, 5), 1, S(3));
  cr_assert_eq(session_run(&s), SPC_OK, "%s", session_messages(&s));
  session_expect(&s, "z", D(10074));
  session_expect(&s, "q", D(33, -3, 1));
  session_expect(&s, "m", D(1, 2, 2));
  session_close(&s);
}

Test(ir_data_interp, zero_times_anything_is_zero_unless_strict) {
  for (int strict = 0; strict < 2; strict++) {
    session s = session_open(
        DIMS "kernel k { in A: f32[I,K] as csr; in x: f32[K]; out y[i] = sum[k] A[i,k]*x[k]; }");
    s.options.strict_nan = strict;
    session_bind(&s, "A", D(1, 0), 2, S(1, 2));
    session_bind(&s, "x", D(2, NAN), 1, S(2));
    cr_assert_eq(session_run(&s), SPC_OK, "%s", session_messages(&s));
    session_expect(&s, "y", D(strict ? (double)NAN : 2.0));
    session_close(&s);
  }
}

Test(ir_data_interp, conditions_sample_and_fill) {
  session s =
      session_open(DIMS "kernel k { in x: f32[I,J]; in M: pattern[I,J] as csr; in g: f32[I,J];"
                        " out a[i,j] = x[i,j] on M[i,j] and j <= i fill -inf;"
                        " out b[i,j] = x[i,j] on g[i,j]; }");
  session_bind(&s, "x", D(1, 2, 3, 4), 2, S(2, 2));
  session_bind(&s, "M", D(0, 1, 1, 0), 2, S(2, 2));
  session_bind(&s, "g", D(0, 1, -1, 0), 2, S(2, 2));
  cr_assert_eq(session_run(&s), SPC_OK, "%s", session_messages(&s));
  session_expect(&s, "a", D(-INFINITY, -INFINITY, 3, -INFINITY));
  session_expect(&s, "b", D(0, 2, 3, 0));
  session_close(&s);
}

Test(ir_data_interp, softmax_sees_what_is_not_stored_and_survives_empty_rows) {
  session s = session_open(
      DIMS
      "kernel k { in x: f32[I,J] as csr; in p: f32[I,J]; out a[i,j] = softmax[j](x[i,j]);"
      " out b[i,j] = softmax[j](p[i,j]); out c[i] = max[j] x[i,j]; out d[i] = argmax[j] x[i,j]; }");
  session_bind(&s, "x", D(0, -1, 0, 0, 0, 0), 2, S(3, 2));
  session_bind(&s, "p", D(-INFINITY, -INFINITY, 0, 0, -INFINITY, 3), 2, S(3, 2));
  cr_assert_eq(session_run(&s), SPC_OK, "%s", session_messages(&s));
  double e = exp(-1) / (1 + exp(-1));
  session_expect(&s, "a", D(1 - e, e, 0.5, 0.5, 0.5, 0.5));
  session_expect(&s, "b", D(0, 0, 0.5, 0.5, 0, 1));
  session_expect(&s, "c", D(0, 0, 0));
  session_expect(&s, "d", D(0, 0, 0));
  session_close(&s);
}

Test(ir_data_interp, topk_keeps_the_first_of_equals) {
  session s = session_open(
      DIMS
      "kernel k { in x: f32[I,J]; out y[i,j] = topk[j](x[i,j], 2); out a[i] = argmax[j] x[i,j]; }");
  session_bind(&s, "x", D(1, 3, 1, 1, -4, -1, -2, -1), 2, S(2, 4));
  cr_assert_eq(session_run(&s), SPC_OK, "%s", session_messages(&s));
  session_expect(&s, "y", D(1, 3, 0, 0, 0, -1, 0, -1));
  session_expect(&s, "a", D(1, 1));
  session_close(&s);
}

Test(ir_data_interp, reductions_over_nothing_give_identities) {
  session s = session_open(
      DIMS "kernel k { in x: f32[I,J]; in n: i32[I,J]; out s[i] = sum[j] x[i,j]; out p[i] = "
           "prod[j] x[i,j];"
           " out m[i] = max[j] x[i,j]; out l[i] = min[j] n[i,j]; out a[i] = argmax[j] x[i,j];"
           " out t[i] = all[j] (x[i,j] > 0); }");
  session_bind(&s, "x", D(0), 2, S(1, 0));
  session_bind(&s, "n", D(0), 2, S(1, 0));
  cr_assert_eq(session_run(&s), SPC_OK, "%s", session_messages(&s));
  session_expect(&s, "s", D(0));
  session_expect(&s, "p", D(1));
  session_expect(&s, "m", D(-INFINITY));
  session_expect(&s, "l", D(2147483647));
  session_expect(&s, "a", D(-1));
  session_expect(&s, "t", D(1));
  session_close(&s);
}

#define MOE "dim E: dyn; dim R: dyn; dim T: dyn; "

Test(ir_data_interp, ragged_rows_take_the_segment_they_lie_in) {
  session s = session_open(
      DIMS MOE
      "kernel k { in off: i32[E+1]; in x: f32[R]; in w: f32[E]; ragged r in off[e]..off[e+1];"
      " let h[r] = x[r] * w[e]; out g[r] = h[r]; out y[e] = sum[r] h[r]; }");
  session_bind(&s, "off", D(1, 3, 3, 4), 1, S(4));
  session_bind(&s, "x", D(1, 2, 3, 4, 5), 1, S(5));
  session_bind(&s, "w", D(10, 100, 1000), 1, S(3));
  cr_assert_eq(session_run(&s), SPC_OK, "%s", session_messages(&s));
  session_expect(&s, "g", D(0, 20, 30, 4000, 0));
  session_expect(&s, "y", D(50, 0, 4000));
  cr_assert_null(s.bindings.out_of_range);
  session_close(&s);
}

Test(ir_data_interp, gathers_and_scatters_stay_inside_their_axes) {
  session s =
      session_open(DIMS MOE "kernel k { in perm: i32[R]; in x: f32[T]; in w: f32[R];"
                            " out g[r] = w[r] * x[perm[r]]; out y[perm[r]] += w[r] : f32[T];"
                            " out m[perm[r]] max= w[r] : f32[T]; }");
  session_bind(&s, "perm", D(2, 0, 2, 7), 1, S(4));
  session_bind(&s, "x", D(1, 10, 100), 1, S(3));
  session_bind(&s, "w", D(1, 2, 3, 4), 1, S(4));
  cr_assert_eq(session_run(&s), SPC_OK, "%s", session_messages(&s));
  session_expect(&s, "g", D(100, 2, 300, 0));
  session_expect(&s, "y", D(2, 0, 4));
  session_expect(&s, "m", D(2, -INFINITY, 3));
  cr_assert(strstr(s.bindings.out_of_range, "is 7"), "%s", s.bindings.out_of_range);
  session_close(&s);
}

Test(ir_data_interp, offsets_out_of_range_are_clamped) {
  session s = session_open(DIMS MOE "kernel k { in off: i32[E+1]; in x: f32[R]; ragged r in "
                                    "off[e]..off[e+1]; out y[e] = sum[r] x[r]; }");
  session_bind(&s, "off", D(-3, 1, 99), 1, S(3));
  session_bind(&s, "x", D(1, 2, 4), 1, S(3));
  cr_assert_eq(session_run(&s), SPC_OK, "%s", session_messages(&s));
  session_expect(&s, "y", D(1, 6));
  cr_assert(s.bindings.out_of_range);
  session_close(&s);
}

Test(ir_data_interp, like_shares_the_pattern) {
  session s = session_open(DIMS "kernel k { in S: f32[I,J] as csr; in A: f32[I,K]; in B: f32[J,K];"
                                " out C[i,j] = S[i,j] * sum[k] A[i,k]*B[j,k] as like(S); }");
  session_bind(&s, "S", D(0, 2, 1, 0, 0, 3), 2, S(2, 3));
  session_bind(&s, "A", D(1, 2, 3, 4), 2, S(2, 2));
  session_bind(&s, "B", D(1, 0, 0, 1, 1, 1), 2, S(3, 2));
  cr_assert_eq(session_run(&s), SPC_OK, "%s", session_messages(&s));
  session_expect(&s, "C", D(0, 4, 3, 0, 0, 21));
  cr_assert_eq(session_view(&s, "C")->crd[1].data, session_view(&s, "S")->crd[1].data);
  session_close(&s);
}

Test(ir_data_interp, assembled_patterns_follow_the_operands) {
  session s = session_open(
      DIMS
      "kernel k { in A: f32[I,K] as csr; in B: f32[I,K] as csc; in C: f32[K,J] as csr;"
      " out u[i,k] = A[i,k] + B[i,k] as csr; out n[i,k] = A[i,k] * B[i,k] as coo;"
      " out p[i,j] = sum[k] A[i,k]*C[k,j] as csr; out m[i,k] = max(A[i,k], B[i,k]) as dcsr; }");
  session_bind(&s, "A", D(1, 0, 2, 0, 0, 0), 2, S(2, 3));
  session_bind(&s, "B", D(-1, 5, 0, 0, 0, 7), 2, S(2, 3));
  session_bind(&s, "C", D(1, 0, 0, 1, 3, 0), 2, S(3, 2));
  cr_assert_eq(session_run(&s), SPC_OK, "%s", session_messages(&s));
  session_expect(&s, "u", D(0, 5, 2, 0, 0, 7));
  session_expect(&s, "n", D(-1, 0, 0, 0, 0, 0));
  session_expect(&s, "p", D(7, 0, 0, 0));
  session_expect(&s, "m", D(1, 5, 2, 0, 0, 7));
  cr_assert_eq(session_view(&s, "u")->vals.count, 4, "1 - 1 is stored");
  cr_assert_eq(session_view(&s, "n")->vals.count, 1);
  cr_assert_eq(session_view(&s, "p")->vals.count, 1);
  session_close(&s);
}

Test(ir_data_interp, a_pattern_is_seen_through_a_let) {
  session s = session_open(
      DIMS "kernel k { in A: f32[I,K] as csr; in B: f32[K,J] as csr; in C: f32[J,K] as csr;"
           " let t[i,j] = sum[k] A[i,k]*B[k,j]; out p[i,l] = sum[j] t[i,j]*C[j,l] as csr; }");
  session_bind(&s, "A", D(1, 1, 0, 0), 2, S(2, 2));
  session_bind(&s, "B", D(1, -1), 2, S(2, 1));
  session_bind(&s, "C", D(0, 3), 2, S(1, 2));
  cr_assert_eq(session_run(&s), SPC_OK, "%s", session_messages(&s));
  session_expect(&s, "p", D(0, 0, 0, 0));
  cr_assert_eq(session_view(&s, "p")->vals.count, 1, "1 - 1 is stored in t, and in p");
  session_close(&s);
}

Test(ir_data_interp, blocks_and_dequantisation) {
  session s = session_open(DIMS "kernel k { in q: i8[J,K] as nm(2,4); in s: f16[J,K/4]; in x: "
                                "f16[K]; let W[j,k] = s[j,k/4] * q[j,k];"
                                " out y[j] = sum[k] W[j,k]*x[k]; }");
  session_bind(&s, "q", D(0, 3, 0, -1, 1, 0, 0, 0), 2, S(1, 8));
  session_bind(&s, "s", D(0.5, 2), 2, S(1, 2));
  session_bind(&s, "x", D(1, 1, 1, 1, 1, 1, 1, 1), 1, S(8));
  cr_assert_eq(session_run(&s), SPC_OK, "%s", session_messages(&s));
  session_expect(&s, "y", D(3));
  session_close(&s);
}

Test(ir_data_interp, sizes_disagree_by_name) {
  session s = session_open(
      DIMS "kernel k { in A: f32[I,K]; in x: f32[K]; out y[i] = sum[k] A[i,k]*x[k]; }");
  session_bind(&s, "A", D(1, 2, 3, 4), 2, S(2, 2));
  session_bind(&s, "x", D(1, 2, 3), 1, S(3));
  cr_assert_eq(session_run(&s), SPC_INVALID_INPUT);
  const char *text = s.sink->diags.at[s.sink->diags.count - 1]->text;
  cr_assert(strstr(text, "`x` has size 3 along axis 0") &&
                strstr(text, "`A` has size 2 along axis 1"),
            "%s", text);
  session_close(&s);
}

Test(ir_data_interp, a_limit_of_steps_stops) {
  session s = session_open(DIMS "kernel k { in A: f32[I,K]; out y[i] = sum[k] exp(A[i,k]); }");
  double a[100] = {0};
  session_bind(&s, "A", a, 2, S(10, 10));
  s.options.max_steps = 50;
  cr_assert_eq(session_run(&s), SPC_CAPACITY);
  session_close(&s);
}
