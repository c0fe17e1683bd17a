/* passes_lower_matrix.c - programs x formats x data x dtypes x shapes: loops against the reference.
 */
#include <criterion/criterion.h>

#include "codegen/codegen.h"
#include "passes_lower_run.h"

static const char *const sizes_small[] = {"I=5 J=8 K=7 L=3 T=6", "I=1 J=4 K=1 L=1 T=1",
                                          "I=8 J=4 K=5 L=2 T=3", "I=0 J=4 K=3 L=2 T=2"};

static int failures, ran;

static void check(const lower_case *c) {
  ir_arena *arena = ir_arena_new();
  static const char *last;
  const char *why = lower_check(arena, c);
  bool refused = why && !strncmp(why, "compile:", 8); /* by the language: a full pattern */
  ran += !refused;
  failures += why && !refused;
  if (why && !refused && c->text != last && (last = c->text))
    cr_log_error("%s\n with A=%s B=%s C=%s %s %s data %d pipeline %d: %.400s", c->text,
                 c->format[0] ? c->format[0] : "-", c->format[1] ? c->format[1] : "-",
                 c->format[2] ? c->format[2] : "-", c->dtype ? c->dtype : "f32", c->sizes, c->data,
                 c->pipeline, why);
  ir_arena_free(arena);
}

static void every_data(lower_case c) {
  for (int data = 0; data < LOWER_DATA_COUNT; data++)
    for (int pipeline = 0; pipeline < 2; pipeline++) {
      c.data = data;
      c.pipeline = pipeline;
      c.seed = (unsigned)data;
      check(&c);
    }
}

static void verdict(void) {
  cr_expect(failures == 0, "%d of %d cases differ", failures, ran);
  failures = ran = 0;
}

static const char *const matrices[] = {"dense",      "dense_t",  "csr",    "csc",     "coo",
                                       "dcsr",       "bsr(2,3)", "ell(8)", "nm(2,4)", "bitmap(2,4)",
                                       "twell(4,1)", "odd",      "bcoo",   "ctiles",  "rests",
                                       "rowrest",    "blockrest"};
#define FORMATS                                                                                    \
  "format odd = [i,j] -> [ j: compressed, i: compressed ];"                                        \
  "format bcoo = [i,j] -> [ i/2: compressed, j/2: singleton, i%2: dense, j%2: dense ];"            \
  "format ctiles = [i,j] -> [ j/3: dense, i/2: compressed, j%3: dense, i%2: dense ];"              \
  "format rests = [i,j] -> [ i: dense, j: packed(1,1) ];"                                          \
  "format rowrest = [i,j] -> [ i: packed(2,1), j: compressed ];"                                   \
  "format blockrest = [i,j] -> [ i/2: compressed, j/3: packed(1,1), i%2: dense, j%3: dense ];"
#define OPEN                                                                                       \
  "spx 1; dim I: dyn; dim J: dyn; dim K: dyn; dim L: dyn; dim T: dyn;" FORMATS " kernel k { "

/* ---- one sparse matrix ----------------------------------------------------------------------- */
static const char *const one[] = {
    OPEN "in A: @t[I,J] as @A; in x: @t[J]; out y[i] = sum[j] A[i,j]*x[j]; }",
    OPEN "in A: @t[I,J] as @A; in x: @t[I]; out y[j] = sum[i] A[i,j]*x[i]; }",
    OPEN "in A: @t[I,J] as @A; in B: @t[J,K]; out y[i,k] = sum[j] A[i,j]*B[j,k]; }",
    OPEN "in A: @t[I,J] as @A; in B: @t[I,K]; out y[j,k] = relu(sum[i] A[i,j]*B[i,k]); }",
    OPEN "in A: @t[I,J] as @A; in B: @t[I,J]; out y[i,j] = A[i,j] + B[i,j]; }",
    OPEN "in A: @t[I,J] as @A; in B: @t[I,J]; out y[i,j] = A[i,j] * B[i,j]; }",
    OPEN "in A: @t[I,J] as @A; in B: @t[I,J]; out y[i,j] = A[i,j] * B[i,j] as like(A); }",
    OPEN
    "in A: @t[I,J] as @A; in B: @t[I,J]; out y[i,j] = A[i,j] + 2 * B[i,j] on A[i,j] as like(A); }",
    OPEN "in A: @t[I,J] as @A; in B: @t[I,K]; in C: @t[J,K]; out y[i,j] = A[i,j] * sum[k] "
         "B[i,k]*C[j,k] as like(A); }",
    OPEN "in A: @t[I,J] as @A; out y[i] = max[j] A[i,j]; }",
    OPEN "in A: @t[I,J] as @A; out y[j] = min[i] A[i,j]; }",
    OPEN "in A: @t[I,J] as @A; out y[i] = argmax[j] A[i,j]; }",
    OPEN "in A: @t[I,J] as @A; out y[] = sum[i,j] A[i,j]; }",
    OPEN "in A: @t[I,J] as @A; out y[i] = prod[j] A[i,j]; }",
    OPEN "in A: @t[I,J] as @A; in P: pattern[I,J] as csr; in B: @t[I,J]; out y[i,j] = B[i,j] on "
         "A[i,j] and j <= i fill -1; }",
    OPEN "in A: @t[I,J] as @A; out y[j,i] = A[i,j] * 2; }",
    OPEN "in A: @t[I,J] as @A; out y[j,i] = A[i,j] * 2 as csr; }",
    OPEN "in A: @t[I,J] as @A; out y[i,j] = relu(A[i,j]) as coo; }",
    OPEN "in A: @t[I,J] as @A; in idx: i32[L]; out y[l,j] = A[idx[l],j]; }",
    OPEN "in A: @t[I,J] as @A; out y[i,j] = topk[j](A[i,j], 2); }",
};

Test(passes_lower, one_matrix) {
  for (int p = 0; p < IR_COUNT(one); p++)
    for (int a = 0; a < IR_COUNT(matrices); a++) {
      every_data((lower_case){.text = one[p], .format = {matrices[a]}, .sizes = sizes_small[0]});
      for (int s = 1; s < IR_COUNT(sizes_small); s++)
        check(&(lower_case){
            .text = one[p], .format = {matrices[a]}, .sizes = sizes_small[s], .seed = (unsigned)s});
    }
  verdict();
}

/* ---- two sparse matrices --------------------------------------------------------------------- */
static const char *const two[] = {
    OPEN "in A: @t[I,J] as @A; in B: @t[I,J] as @B; out y[i,j] = A[i,j] + B[i,j]; }",
    OPEN "in A: @t[I,J] as @A; in B: @t[I,J] as @B; out y[i,j] = A[i,j] * B[i,j]; }",
    OPEN "in A: @t[I,J] as @A; in B: @t[I,J] as @B; out y[i,j] = A[i,j] - B[i,j]; }",
    OPEN "in A: @t[I,J] as @A; in B: @t[I,J] as @B; out y[i] = sum[j] A[i,j] * B[i,j]; }",
    OPEN "in A: @t[I,J] as @A; in B: @t[I,J] as @B; out y[i] = max[j] (A[i,j] + B[i,j]); }",
    OPEN "in A: @t[I,J] as @A; in B: @t[J,K] as @B; out y[i,k] = sum[j] A[i,j] * B[j,k]; }",
    OPEN "in A: @t[I,J] as @A; in B: @t[K,J] as @B; out y[i,k] = sum[j] A[i,j] * B[k,j]; }",
    OPEN "in A: @t[I,J] as @A; in B: @t[I,K] as @B; out y[j,k] = sum[i] A[i,j] * B[i,k]; }",
    OPEN "in A: @t[I,J] as @A; in B: @t[I,J] as @B; out y[i,j] = A[i,j] * B[i,j] as like(B); }",
    OPEN "in A: @t[I,J] as @A; in B: @t[I,J] as @B; in C: @t[I,J] as csr; out y[i,j] = A[i,j] * "
         "B[i,j] + C[i,j]; }",
    OPEN "in A: @t[I,J] as @A; in B: @t[I,J] as @B; in C: @t[I,J] as csr; out y[i,j] = (A[i,j] + "
         "B[i,j]) * (A[i,j] + C[i,j]); }",
};

Test(passes_lower, two_matrices) {
  for (int p = 0; p < IR_COUNT(two); p++)
    for (int a = 0; a < IR_COUNT(matrices); a++)
      for (int b = 0; b < IR_COUNT(matrices); b++)
        for (int pipeline = 0; pipeline < 2; pipeline++)
          check(&(lower_case){.text = two[p],
                              .format = {matrices[a], matrices[b]},
                              .sizes = sizes_small[0],
                              .pipeline = pipeline,
                              .seed = (unsigned)(a * 20 + b),
                              .data = (a + b) % 4 == 3 ? LOWER_EXPLICIT : LOWER_SPARSE});
  verdict();
}

/* ---- sparse results -------------------------------------------------------------------------- */
static const char *const results[] = {
    OPEN "in A: @t[I,J] as @A; in B: @t[I,J] as @B; out y[i,j] = A[i,j] + B[i,j] as @C; }",
    OPEN "in A: @t[I,J] as @A; in B: @t[I,J] as @B; out y[i,j] = A[i,j] * B[i,j] as @C; }",
    OPEN "in A: @t[I,J] as @A; in B: @t[J,K] as @B; out y[i,k] = sum[j] A[i,j] * B[j,k] as @C; }",
    OPEN
    "in A: @t[I,J] as @A; in B: @t[J,K] as @B; out y[i,k] = relu(sum[j] A[i,j] * B[j,k]) as @C; }",
    OPEN "in A: @t[I,J] as @A; in B: @t[I,K] as @B; out y[j,k] = sum[i] A[i,j] * B[i,k] as @C; }",
    OPEN "in A: @t[I,J] as @A; in D: @t[I,I]; in B: @t[I,J] as @B; out y[i,j] = 3 * sum[k,l] "
         "A[k,i] * D[k,l] * B[l,j] : f32[J,J] as @C; }",
    OPEN
    "in A: @t[I,J] as @A; in B: @t[I,J] as @B; out y[i,j] = A[i,j] + B[i,j] on j <= i as @C; }",
};
static const char *const operands[] = {"csr", "csc", "coo", "dcsr", "bsr(2,3)", "nm(2,4)"};
static const char *const targets[] = {"csr", "csc", "coo", "dcsr", "bsr(2,2)", "twell(3,1)"};

Test(passes_lower, sparse_results) {
  for (int p = 0; p < IR_COUNT(results); p++)
    for (int a = 0; a < IR_COUNT(operands); a++)
      for (int b = 0; b < IR_COUNT(operands); b++)
        for (int c = 0; c < IR_COUNT(targets); c++)
          check(&(lower_case){.text = results[p],
                              .format = {operands[a], operands[b], targets[c]},
                              .sizes = sizes_small[(a + b) % 3],
                              .pipeline = (a + b + c) % 2,
                              .seed = (unsigned)(a * 7 + b)});
  verdict();
}

/* Rows of more places than are all visited, and than lists are looked up in. */
Test(passes_lower, wide_rows) {
  static const struct {
    int program;
    const char *sizes;
  } wide[] = {{2, "I=2 J=3 K=4097"}, {2, "I=2 J=3 K=40000"}, {1, "I=1 J=131073 K=1"}};
  for (int w = 0; w < IR_COUNT(wide); w++)
    check(&(lower_case){.text = results[wide[w].program],
                        .format = {"csr", "csr", "csr"},
                        .sizes = wide[w].sizes,
                        .pipeline = true,
                        .cpu = true});
  verdict();
}

/* ---- more than two dimensions ---------------------------------------------------------------- */
static const char *const cubes[] = {
    OPEN "in A: @t[I,J,K] as @A; in x: @t[K]; out y[i,j] = sum[k] A[i,j,k]*x[k]; }",
    OPEN "in A: @t[I,J,K] as @A; in B: @t[J,L]; in C: @t[K,L]; out y[i,l] = sum[j,k] "
         "A[i,j,k]*B[j,l]*C[k,l]; }",
    OPEN "in A: @t[I,J,K] as @A; in B: @t[I,L]; out y[j,k,l] = sum[i] A[i,j,k]*B[i,l]; }",
    OPEN "in A: @t[I,J,K] as @A; in B: @t[I,J,K] as @B; out y[i,j,k] = A[i,j,k] + B[i,j,k]; }",
    OPEN
    "in A: @t[I,J,K] as @A; in B: @t[I,J,K] as @B; out y[] = sum[i,j,k] A[i,j,k] * B[i,j,k]; }",
    OPEN "in A: @t[I,J,K] as @A; in B: @t[I,J,K] as @B; out y[i,k] = sum[j] A[i,j,k] * B[i,j,k] as "
         "csr; }",
};
static const char *const three[] = {"dense", "csf", "coo", "nm(2,4)", "mixed"};
#define MIXED "format mixed = [i,j,k] -> [ i: dense, j: compressed, k: singleton ];"

Test(passes_lower, cubes) {
  for (int p = 0; p < IR_COUNT(cubes); p++)
    for (int a = 0; a < IR_COUNT(three); a++)
      for (int b = 0; b < IR_COUNT(three); b++) {
        ir_arena *arena = ir_arena_new();
        const char *text = ir_format_text(arena, "spx 1; " MIXED "%s", cubes[p] + 6);
        every_data((lower_case){
            .text = text, .format = {three[a], three[b]}, .sizes = "I=4 J=3 K=8 L=3", .seed = 3});
        ir_arena_free(arena);
      }
  verdict();
}

/* ---- gathers, scatters, segments, windows, rows ---------------------------------------------- */
static const char *const others[] = {
    "spx 1; dim T: dyn; dim D: dyn; dim R: dyn; kernel k { in x: @t[T,D]; in perm: i32[R]; out "
    "y[r,d] = x[perm[r],d]; }",
    "spx 1; dim T: dyn; dim D: dyn; dim R: dyn; kernel k { in x: @t[R,D]; in perm: i32[R]; out "
    "y[perm[r],d] += x[r,d] : @t[T,D]; }",
    "spx 1; dim T: dyn; dim D: dyn; dim R: dyn; kernel k { in x: @t[R,D]; in perm: i32[R]; out "
    "y[perm[r],d] max= x[r,d] : @t[T,D]; }",
    "spx 1; dim T: dyn; dim D: dyn; dim R: dyn; kernel k { in x: @t[R,D]; in perm: i32[R]; out "
    "y[perm[r],d] += x[r,d] : @t[T,D] atomic; }",
    ("spx 1; dim T: dyn; dim D: dyn; dim E = 5; dim R: dyn; kernel k { in x: @t[R,D]; in W: "
     "@t[E,D,T]; in off: i32[E+1]; ragged r in off[e]..off[e+1];"
     " out y[r,t] = sum[d] x[r,d]*W[e,d,t]; }"),
    "spx 1; dim D: dyn; dim E = 5; dim R: dyn; kernel k { in x: @t[R,D]; in off: i32[E+1]; ragged "
    "r in off[e]..off[e+1]; out y[e,d] = sum[r] x[r,d]; }",
    ("spx 1; dim T: dyn; dim D: dyn; dim F = 3; dim E = 5; dim R: dyn; kernel k { in x: @t[T,D]; "
     "in off: i32[E+1]; in perm: i32[R]; in w: @t[R];"
     " in Wg: @t[E,D,F]; in Wd: @t[E,F,D]; ragged r in off[e]..off[e+1]; let h[r,f] = relu(sum[d] "
     "x[perm[r],d]*Wg[e,d,f]);"
     " out y[perm[r],o] += w[r] * sum[f] h[r,f]*Wd[e,f,o] : @t[T,D]; }"),
    "spx 1; kernel k { in x: @t[12]; in w: @t[3]; out y[i] = sum[q] x[i+q]*w[q] : @t[10]; }",
    "spx 1; dim D: dyn; kernel k { in x: @t[D,8]; in s: @t[D,2]; out y[d,j] = x[d,j]*s[d,j/4]; }",
    "spx 1; dim T: dyn; dim D: dyn; kernel k { in x: @t[T,D]; out y[t,d] = x[t,d] on d <= t and t "
    "!= 2 fill 3; }",
    "spx 1; dim T: dyn; dim D: dyn; kernel k { in x: @t[T,D]; in w: @t[D,T]; out y[t,u] = sum[d] "
    "x[t,d]*w[d,u]  on u <= t fill 3 : @t[T,T]; }",
    "spx 1; dim T: dyn; dim D: dyn; kernel k { in x: @t[T,D]; in w: @t[D,T]; out y[t,u] = sum[d] "
    "x[t,d]*w[d,u]  on u > t and 4 >= u : @t[T,T]; }",
    "spx 1; dim T: dyn; kernel k { in A: @t[T,T] as csr; in x: @t[T,T]; let p[t,u] = A[t,u] + "
    "x[t,u] on u >= t and u < t + 3; out y[t] = sum[u] p[t,u]; }",
    "spx 1; dim T: dyn; dim D: dyn; kernel k { in x: @t[T,D]; out y[t] = argmax[d] x[t,d]; out "
    "m[t] = max[d] x[t,d]; out n[d] = min[t] x[t,d]; }",
    "spx 1; dim T: dyn; dim D: dyn; kernel k { in x: @t[T,D]; out y[t,d] = topk[d](x[t,d], 3); }",
    "spx 1; dim T: dyn; dim D: dyn; kernel k { in x: @t[T,D]; out y[d,t] = topk[d](2*x[t,d], 1) + "
    "x[t,d]; }",
    "spx 1; dim T: dyn; dim D: dyn; kernel k { in x: @t[T,D]; out y[t] = any[d] (x[t,d] > 0); out "
    "z[t] = all[d] (x[t,d] >= 0); }",
    "spx 1; dim T: dyn; dim D: dyn; kernel k { in x: @t[T,D]; in g: @t[T,D]; let u[t,d] = "
    "x[t,d]*x[t,d] on g[t,d]; out y[t] = sum[d] u[t,d]*g[t,d]; }",
    "spx 1; dim T: dyn; dim D: dyn; dim R: dyn; kernel k { in A: @t[R,D] as csr; in perm: i32[R]; "
    "out y[perm[r],d] += A[r,d] : @t[T,D]; }",
    "spx 1; dim T: dyn; dim D: dyn; dim R: dyn; kernel k { in A: @t[T,D] as csr; in perm: i32[R]; "
    "in x: @t[D]; out y[r] = sum[d] A[perm[r],d]*x[d]; }",
    "spx 1; dim T: dyn; kernel k { in A: @t[T,T] as csr; out y[t] = A[t,t]; }",
    "spx 1; dim T: dyn; kernel k { in A: @t[T,T] as csr; in x: @t[T]; out y[t] = sum[u] (A[t,u] + "
    "A[u,t]) * x[u]; }",
    "spx 1; dim T: dyn; kernel k { in A: @t[T,T] as csr; out y[t,u] = A[t,u] + A[u,t] as csr; }",
    "spx 1; dim T: dyn; dim D: dyn; kernel k { in A: @t[T] as csf; in x: @t[T,D]; out y[d] = "
    "sum[t] A[t]*x[t,d]; }",
    "spx 1; dim T: dyn; dim D: dyn; dim R: dyn; kernel k { in A: @t[T,D] as csr; in B: @t[D,R] as "
    "csr; in C: @t[R,T] as csr;"
    " out y[i,l] = sum[j,m] A[i,j]*B[j,m]*C[m,l] as csr; }",
};
static const char *const dtypes[] = {"f32", "f64", "bf16", "f16", "i32", "i8", "i64", "u8"};

Test(passes_lower, others) {
  for (int p = 0; p < IR_COUNT(others); p++)
    for (int t = 0; t < IR_COUNT(dtypes); t++)
      every_data((lower_case){.text = others[p], .dtype = dtypes[t], .sizes = "T=6 D=7 R=9"});
  verdict();
}

/* ---- softmax --------------------------------------------------------------------------------- */
static const char *const rows[] = {
    "spx 1; dim T: dyn; dim D: dyn; kernel k { in x: @t[T,D]; out y[t,d] = softmax[d](x[t,d]); }",
    "spx 1; dim T: dyn; dim D: dyn; kernel k { in x: @t[T,D]; out y[t,d] = softmax[t](x[t,d]); }",
    ("spx 1; dim T: dyn; dim D: dyn; kernel k { in x: @t[T,D]; in M: pattern[T,D] as csr; let "
     "p[t,d] = x[t,d] on M[t,d] and d <= t fill -inf;"
     " let a[t,d] = softmax[d](p[t,d]); out y[t] = sum[d] a[t,d]*x[t,d]; }"),
    "spx 1; dim T: dyn; dim D: dyn; kernel k { in x: @t[T,D] as csr; out y[t,d] = "
    "softmax[d](x[t,d]); }",
};

Test(passes_lower, softmax) {
  for (int p = 0; p < IR_COUNT(rows); p++)
    for (int t = 0; t < 4; t++)
      every_data((lower_case){.text = rows[p], .dtype = dtypes[t], .sizes = "T=6 D=7"});
  verdict();
}

/* ---- dtypes of products ---------------------------------------------------------------------- */
Test(passes_lower, dtypes) {
  static const char *const formats[] = {"dense", "csr", "csc", "bsr(2,3)", "nm(2,4)"};
  static const char *const all[] = {"f64", "f32", "f16", "bf16", "f8e4m3", "f8e5m2", "i64",
                                    "i32", "i16", "i8",  "u8",   "i4",     "u4"};
  static const int programs[] = {0, 1, 3, 4, 6, 9, 16};
  for (int p = 0; p < IR_COUNT(programs); p++)
    for (int a = 0; a < IR_COUNT(formats); a++)
      for (int t = 0; t < IR_COUNT(all); t++)
        every_data((lower_case){.text = one[programs[p]],
                                .format = {formats[a]},
                                .dtype = all[t],
                                .sizes = "I=5 J=8 K=3"});
  verdict();
}

/* ---- whole kernels of the language's tour, small --------------------------------------------- */
static const char *const tour[] = {
    "spx 1; dim T: dyn; dim D = 6; dim F = 12; kernel ffn { in x: @t[T,D]; in W1: @t[D,F] const; "
    "in W2: @t[F,D] const;"
    " let h[t,f] = relu(sum[d] x[t,d] * W1[d,f]) : @t acc f32 ~ zeros(dynamic, density=0.02..0.15);"
    " out y[t,o] = sum[f] h[t,f] * W2[f,o] : @t acc f32; }",
    "spx 1; dim T: dyn; dim D = 6; dim F = 12; kernel ffn { in x: @t[T,D]; in W1: @t[D,F] const; "
    "in W2: @t[F,D] const;"
    " let h[t,f] = relu(sum[d] x[t,d] * W1[d,f]) : @t acc f32 ~ zeros(dynamic, density=0.02..0.15);"
    " out y[t,o] = sum[f] h[t,f] * W2[f,o] : @t acc f32; }"
    " schedule ffn { compact h axis=f gran=4x1; }",
    "spx 1; dim T: dyn; dim D = 6; dim F = 10; kernel ffn { in x: @t[T,D]; in W1: @t[D,F] const; "
    "in W2: @t[F,D] const;"
    " let h[t,f] = relu(sum[d] x[t,d] * W1[d,f]) : @t acc f32 ~ zeros(dynamic, density=0.02..0.15);"
    " out y[t,o] = sum[f] h[t,f] * W2[f,o] : @t acc f32; }"
    " schedule ffn { compact h axis=f gran=2x4; }",
    "spx 1; dim T: dyn; dim D = 6; dim F = 12; kernel gated { in x: @t[T,D]; in Wg: @t[D,F]; in "
    "Wu: @t[D,F]; in Wd: @t[F,D];"
    " let g[t,f] = relu(sum[d] x[t,d]*Wg[d,f]) ~ zeros(dynamic); let u[t,f] = sum[d] "
    "x[t,d]*Wu[d,f] on g[t,f];"
    " out y[t,o] = sum[f] g[t,f]*u[t,f]*Wd[f,o]; }",
    "spx 1; dim T: dyn; dim J = 6; dim K = 256; kernel qlin24 { in x: @t[T,K]; in q: i8[J,K] as "
    "nm(2,4); in s: @t[J,K/128]; in b: @t[J];"
    " let W[j,k] = s[j,k/128] * q[j,k]; out y[t,j] = b[j] + sum[k] x[t,k]*W[j,k]; }",
    "spx 1; dim Nb: dyn; dim Nh: dyn; dim Ns: dyn; kernel bsattn { in Q: @t[Nb,Nh,Ns,4]; in Kx: "
    "@t[Nb,Nh,Ns,4]; in V: @t[Nb,Nh,Ns,4];"
    " in M: pattern[Ns,Ns] as bsr(3,3); let p[b,h,i,j] = 0.5 * sum[d] Q[b,h,i,d]*Kx[b,h,j,d] on "
    "M[i,j] and j <= i fill -inf;"
    " let a[b,h,i,j] = softmax[j](p[b,h,i,j]); out O[b,h,i,d] = sum[j] a[b,h,i,j]*V[b,h,j,d]; }",
    "spx 1; dim T: dyn; dim D = 8; format myblocks(bi,bj) = [i,j] -> [ i/bi: dense, j/bj: "
    "compressed, i%bi: dense, j%bj: dense ];"
    " kernel k { in A: @t[T,D] as myblocks(2,3); in x: @t[D]; out y[t] = sum[d] A[t,d]*x[d]; }",
};

Test(passes_lower, tour) {
  static const char *const floats[] = {"f32", "bf16", "f64", "f16"};
  for (int p = 0; p < IR_COUNT(tour); p++)
    for (int t = 0; t < IR_COUNT(floats); t++) {
      every_data((lower_case){.text = tour[p], .dtype = floats[t], .sizes = "T=7 Nb=2 Nh=2 Ns=7"});
      every_data((lower_case){.text = tour[p], .dtype = floats[t], .sizes = "T=1 Nb=1 Nh=1 Ns=1"});
      every_data((lower_case){
          .text = tour[p], .dtype = floats[t], .sizes = "T=9 Nb=1 Nh=3 Ns=4", .guard = 1 + t % 2});
    }
  verdict();
}

/* ---- machine code: a sample of everything above ---------------------------------------------- */
Test(passes_lower, machine_code) {
  if (!cg_cpu_available()) return;
  static const char *const floats[] = {"f32", "bf16", "f64", "i32", "i8"};
  for (int p = 0; p < IR_COUNT(one); p++)
    for (int a = p % 2; a < IR_COUNT(matrices); a += 2)
      check(&(lower_case){.text = one[p],
                          .format = {matrices[a]},
                          .sizes = "I=19 J=24 K=17 L=5 T=6",
                          .cpu = true,
                          .dtype = floats[(p + a) % 5],
                          .seed = (unsigned)a});
  for (int p = 0; p < IR_COUNT(two); p++)
    for (int a = p % 3; a < IR_COUNT(matrices); a += 3)
      check(&(lower_case){.text = two[p],
                          .format = {matrices[a], matrices[(a * 5 + p) % IR_COUNT(matrices)]},
                          .cpu = true,
                          .sizes = "I=19 J=24 K=17 L=5 T=6",
                          .seed = (unsigned)a});
  for (int p = 0; p < IR_COUNT(results); p++)
    for (int a = 0; a < IR_COUNT(operands); a += 2)
      check(&(lower_case){.text = results[p],
                          .format = {operands[a], operands[(a + p) % 6], targets[(a + p) % 5]},
                          .cpu = true,
                          .sizes = "I=19 J=24 K=16 L=5 T=6",
                          .seed = (unsigned)a});
  for (int p = 0; p < IR_COUNT(others); p++)
    for (int t = 0; t < 5; t += 2)
      check(&(lower_case){.text = others[p],
                          .dtype = floats[t],
                          .sizes = "T=21 D=18 R=30",
                          .cpu = true,
                          .seed = (unsigned)t});
  for (int p = 0; p < IR_COUNT(tour); p++)
    for (int t = 0; t < 3; t++)
      check(&(lower_case){.text = tour[p],
                          .dtype = floats[t],
                          .sizes = "T=37 Nb=2 Nh=2 Ns=17",
                          .cpu = true,
                          .guard = t});
  verdict();
}
