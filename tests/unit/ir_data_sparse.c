/* Storage never changes meaning: a result in any format equals the same result stored dense. */
#include "tests/unit/ir_data_session.h"

static const char *const formats[] = {"coo",         "csr",        "csc",       "bsr(2,3)",
                                      "ell(8)",      "dcsr",       "csf",       "nm(4,4)",
                                      "bitmap(2,4)", "twell(4,4)", "twell(4,1)"};
static const char *const results[] = {
    "A[i,k] + B[i,k]",
    "A[i,k] - 2*B[i,k]",
    "A[i,k] * B[i,k]",
    "max(A[i,k], B[i,k])",
    "relu(A[i,k]) + abs(B[i,k])",
    "A[i,k] / x[k]",
    "sum[j] A[i,j]*C[j,k]",
    "A[i,k] * (sum[j] B[i,j]*x[j])",
    "(sum[j] A[i,j]*C[j,k]) * (sum[j] B[i,j]*C[j,k])",
    "where(A[i,k] > 0, B[i,k], 0)",
    "x[k] on A[i,k] != 0",
    "A[i,k] * B[i,k] on k <= i",
    "sum[j] A[i,j]*B[j,k] + A[i,k]",
    "A[k,i]",
    "A[i,i] * B[i,k]",
    "L[i,k] * 3",
    "topk[k](A[i,k], 2)",
};

static void bind_random(session *s, const char *name, double seed, int rank, const int64_t *dims) {
  double values[64];
  ir_view v;
  ir_view_dense(s->arena, IR_F32, rank, dims, &v);
  double args[] = {seed, 0.3};
  cr_assert_eq(ir_generate(s->arena, rank == 1 ? "rand" : "sparse", args, rank == 1 ? 1 : 2, 0, &v),
               SPC_OK);
  for (int64_t i = 0; i < v.vals.count; i++)
    values[i] = floor(4 * ir_dtype_load(IR_F32, v.vals.data, i)) + (rank == 1 ? 0.5 : 0);
  session_bind(s, name, values, rank, dims);
}

static void compare_storage(const char *result, const char *in, const char *out, int seed) {
  ir_arena *a = ir_arena_new();
  session s = session_open(ir_format_text(a,
                                          "spx 1; dim N: dyn; kernel k { in A: f32[N,N] as %s; in "
                                          "B: f32[N,N] as %s; in C: f32[N,N] as csr; in x: f32[N];"
                                          " let L[i,k] = A[i,k] * x[k]; out y[i,k] = %s as %s; out "
                                          "z[i,k] = %s; out w[i,k] = L[i,k] + B[i,k]; }",
                                          in, formats[(seed + 3) % IR_COUNT(formats)], result, out,
                                          result));
  bind_random(&s, "A", seed, 2, S(7, 7));
  bind_random(&s, "B", seed + 100, 2, S(7, 7));
  bind_random(&s, "C", seed + 200, 2, S(7, 7));
  bind_random(&s, "x", seed + 300, 1, S(7));
  cr_assert_eq(session_run(&s), SPC_OK, "%s as %s, A as %s: %s", result, out, in,
               session_messages(&s));
  ir_compare_result r;
  const char *why = NULL;
  cr_assert_eq(ir_view_check(s.arena, session_view(&s, "y"), &why), SPC_OK, "%s as %s: %s", result,
               out, why);
  cr_assert_eq(ir_compare(session_view(&s, "y"), session_view(&s, "z"), 1e-6, 0, &r), SPC_OK,
               "%s as %s, A as %s: %s", result, out, in, ir_compare_text(s.arena, &r));
  session_close(&s);
  ir_arena_free(a);
}

Test(ir_data_sparse, every_result_in_every_format) {
  for (int e = 0; e < IR_COUNT(results); e++)
    for (int f = 0; f < IR_COUNT(formats); f++)
      compare_storage(results[e], formats[(f + e) % IR_COUNT(formats)], formats[f], f + e);
}
