/* The kernels of the language's tour against plain loops written here. */
#include "tests/unit/ir_data_session.h"

/* Data of a generator for one input; the values are also returned as doubles, row-major. */
static const double *fill(session *s, const char *name, const char *kind, const double *args,
                          int count, int rank, const int64_t *dims) {
  ir_tensor *t = ir_tensor_named(s->kernel, name);
  ir_view v;
  ir_view_dense(s->arena, t->dtype ? t->dtype : IR_U8, rank, dims, &v);
  cr_assert_eq(ir_generate(s->arena, kind, args, count, 0, &v), SPC_OK);
  double *values = IR_NEW_ARRAY(s->arena, double, v.vals.count);
  for (int64_t i = 0; i < v.vals.count; i++) values[i] = ir_dtype_load(v.dtype, v.vals.data, i);
  session_bind(s, name, values, rank, dims);
  return values;
}

static const double *normal(session *s, const char *name, double seed, int rank,
                            const int64_t *dims) {
  return fill(s, name, "rand", &seed, 1, rank, dims);
}

static void expect_near(session *s, const char *name, const double *want, double rtol) {
  ir_view *got = session_view(s, name), dense;
  ir_compare_result r;
  ir_view_dense(s->arena, got->dtype, got->rank, got->dim, &dense);
  for (int64_t i = 0; i < dense.vals.count; i++)
    ir_dtype_store(got->dtype, dense.vals.data, i, want[i]);
  cr_assert_eq(ir_compare(got, &dense, rtol, 0, &r), SPC_OK, "%s: %s", name,
               ir_compare_text(s->arena, &r));
}

static double silu(double x) { return x / (1 + exp(-x)); }

Test(ir_data_tour, gated_ffn) {
  enum { T = 5, D = 6, F = 9 };
  session s = session_open("spx 1; dim T: dyn; dim D: dyn; dim F: dyn; kernel gated_ffn {"
                           " in x: f32[T,D]; in Wg: f32[D,F]; in Wu: f32[D,F]; in Wd: f32[F,D];"
                           " let g[t,f] = relu(sum[d] x[t,d]*Wg[d,f]) ~ zeros(dynamic);"
                           " let u[t,f] = sum[d] x[t,d]*Wu[d,f] on g[t,f];"
                           " out y[t,o] = sum[f] g[t,f]*u[t,f]*Wd[f,o]; }");
  const double *x = normal(&s, "x", 1, 2, S(T, D)), *wg = normal(&s, "Wg", 2, 2, S(D, F));
  const double *wu = normal(&s, "Wu", 3, 2, S(D, F)), *wd = normal(&s, "Wd", 4, 2, S(F, D));
  double want[T * D] = {0};
  cr_assert_eq(session_run(&s), SPC_OK, "%s", session_messages(&s));
  for (int t = 0; t < T; t++)
    for (int f = 0; f < F; f++) {
      double g = 0, u = 0;
      for (int d = 0; d < D; d++)
        g += x[t * D + d] * wg[d * F + f], u += x[t * D + d] * wu[d * F + f];
      for (int o = 0; o < D && g > 0; o++) want[t * D + o] += g * u * wd[f * D + o];
    }
  expect_near(&s, "y", want, 1e-5);
  session_close(&s);
}

Test(ir_data_tour, moe) {
  enum { E = 3, R = 7, T = 5, DD = 4, F = 6 };
  session s = session_open(
      "spx 1; dim T: dyn; dim D: dyn; dim F: dyn; dim E: dyn; dim R: dyn; kernel moe {"
      " in x: f32[T,D]; in off: i32[E+1]; in perm: i32[R]; in w: f32[R];"
      " in Wg: f32[E,D,F]; in Wu: f32[E,D,F]; in Wd: f32[E,F,D]; ragged r in off[e]..off[e+1];"
      " let h[r,f] = silu(sum[d] x[perm[r],d]*Wg[e,d,f]) * (sum[d] x[perm[r],d]*Wu[e,d,f]);"
      " out y[perm[r],o] += w[r] * sum[f] h[r,f]*Wd[e,f,o] : f32[T,D] acc f32 order(fixed); }");
  const double off[E + 1] = {0, 4, 4, 7}, perm[R] = {0, 2, 4, 1, 3, 2, 0};
  const double *x = normal(&s, "x", 1, 2, S(T, DD)), *wg = normal(&s, "Wg", 2, 3, S(E, DD, F));
  const double *wu = normal(&s, "Wu", 3, 3, S(E, DD, F)), *wd = normal(&s, "Wd", 4, 3, S(E, F, DD)),
               *w = normal(&s, "w", 5, 1, S(R));
  session_bind(&s, "off", off, 1, S(E + 1));
  session_bind(&s, "perm", perm, 1, S(R));
  double want[T * DD] = {0};
  cr_assert_eq(session_run(&s), SPC_OK, "%s", session_messages(&s));
  for (int e = 0; e < E; e++)
    for (int r = (int)off[e]; r < (int)off[e + 1]; r++)
      for (int f = 0; f < F; f++) {
        const double *row = x + (int)perm[r] * DD;
        double g = 0, u = 0;
        for (int d = 0; d < DD; d++)
          g += row[d] * wg[(e * DD + d) * F + f], u += row[d] * wu[(e * DD + d) * F + f];
        for (int o = 0; o < DD; o++)
          want[(int)perm[r] * DD + o] += w[r] * silu(g) * u * wd[(e * F + f) * DD + o];
      }
  expect_near(&s, "y", want, 1e-5);
  session_close(&s);
}

Test(ir_data_tour, block_sparse_attention) {
  enum { H = 2, N = 10, C = 4 };
  session s = session_open(
      "spx 1; dim H: dyn; dim N: dyn; dim C: dyn; kernel attention {"
      " in Q: f32[H,N,C]; in Kx: f32[H,N,C]; in V: f32[H,N,C]; in M: pattern[N,N] as bsr(2,2);"
      " let p[h,i,j] = 0.5 * sum[d] Q[h,i,d]*Kx[h,j,d] on M[i,j] and j <= i fill -inf;"
      " let a[h,i,j] = softmax[j](p[h,i,j]); out O[h,i,d] = sum[j] a[h,i,j]*V[h,j,d]; }");
  const double *q = normal(&s, "Q", 1, 3, S(H, N, C)), *k = normal(&s, "Kx", 2, 3, S(H, N, C)),
               *v = normal(&s, "V", 3, 3, S(H, N, C));
  double mask[N * N], want[H * N * C] = {0};
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++)
      mask[i * N + j] = (i / 2 + j / 2) % 3 != 1; /* whole blocks; some rows see nothing */
  session_bind(&s, "M", mask, 2, S(N, N));
  cr_assert_eq(session_run(&s), SPC_OK, "%s", session_messages(&s));
  for (int h = 0; h < H; h++)
    for (int i = 0; i < N; i++) {
      double weight[N], sum = 0;
      for (int j = 0; j < N; j++) {
        double dot = 0;
        for (int d = 0; d < C; d++) dot += q[(h * N + i) * C + d] * k[(h * N + j) * C + d];
        weight[j] = mask[i * N + j] != 0 && j <= i ? exp(0.5 * dot) : 0;
        sum += weight[j];
      }
      for (int j = 0; j < N && sum > 0; j++)
        for (int d = 0; d < C; d++)
          want[(h * N + i) * C + d] += weight[j] / sum * v[(h * N + j) * C + d];
    }
  expect_near(&s, "O", want, 1e-5);
  session_close(&s);
}

Test(ir_data_tour, sampled_products_and_quantised_weights) {
  enum { I = 6, J = 8, K = 8 };
  session s =
      session_open("spx 1; dim I: dyn; dim J: dyn; dim K: dyn; kernel both {"
                   " in S: f32[I,J] as csr; in A: f32[I,K]; in B: f32[J,K]; in x: f16[I,K]; in q: "
                   "i8[J,K] as nm(2,4); in s: f16[J,K/4]; in b: f16[J];"
                   " out C[i,j] = S[i,j] * sum[k] A[i,k]*B[j,k] as like(S);"
                   " let W[j,k] = s[j,k/4] * q[j,k]; out y[i,j] = b[j] + sum[k] x[i,k]*W[j,k]; }");
  const double *S_ = fill(&s, "S", "sparse", D(1, 0.3), 2, 2, S(I, J)),
               *A = normal(&s, "A", 2, 2, S(I, K)), *B = normal(&s, "B", 3, 2, S(J, K));
  const double *x = normal(&s, "x", 4, 2, S(I, K)), *sc = normal(&s, "s", 5, 2, S(J, K / 4)),
               *b = normal(&s, "b", 6, 1, S(J));
  double q[J * K], C[I * J], y[I * J];
  for (int i = 0; i < J * K; i++)
    q[i] = i % 4 == i / K % 4 || i % 4 == (i / K + 1) % 4 ? i % 15 - 7 : 0;
  session_bind(&s, "q", q, 2, S(J, K));
  cr_assert_eq(session_run(&s), SPC_OK, "%s", session_messages(&s));
  for (int i = 0; i < I; i++)
    for (int j = 0; j < J; j++) {
      double ab = 0, xw = b[j];
      for (int k = 0; k < K; k++) {
        ab += A[i * K + k] * B[j * K + k];
        xw += x[i * K + k] * ir_dtype_round(IR_F16, sc[j * (K / 4) + k / 4] * q[j * K + k]);
      }
      C[i * J + j] = S_[i * J + j] * ab;
      y[i * J + j] = xw;
    }
  expect_near(&s, "C", C, 1e-5);
  expect_near(&s, "y", y, 1e-2);
  session_close(&s);
}
