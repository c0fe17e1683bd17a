/* frontend_programs.h - valid programs, for tests that want many. */
#ifndef SPC_TESTS_FRONTEND_PROGRAMS_H
#define SPC_TESTS_FRONTEND_PROGRAMS_H

#include "tests/unit/frontend_compile.h"

static const char *const frontend_tour =
    "spx 1;\n"
    "dim T: dyn <= 8192;  dim D = 4096;  dim F = 16384;\n"
    "\n"
    "kernel ffn {                                   // the flagship\n"
    "  in x : bf16[T,D];   in W1: bf16[D,F] const;   in W2: bf16[F,D] const;\n"
    "  let h[t,f] = relu(sum[d] x[t,d] * W1[d,f]) : bf16 acc f32 ~ zeros(dynamic, "
    "density=0.02..0.15);\n"
    "  out y[t,o] = sum[f] h[t,f] * W2[f,o]       : bf16 acc f32;\n"
    "}\n"
    "\n"
    "kernel gated_ffn {\n"
    "  in x: bf16[T,D];  in Wg: bf16[D,F];  in Wu: bf16[D,F];  in Wd: bf16[F,D];\n"
    "  let g[t,f] = relu(sum[d] x[t,d]*Wg[d,f]) ~ zeros(dynamic);\n"
    "  let u[t,f] = sum[d] x[t,d]*Wu[d,f]  on g[t,f];      // sampled: computed only where g is "
    "non-zero\n"
    "  out y[t,o] = sum[f] g[t,f]*u[t,f]*Wd[f,o];\n"
    "}\n"
    "\n"
    "dim E = 64;  dim R: dyn;\n"
    "kernel moe {\n"
    "  in x: bf16[T,D];  in off: i32[E+1];  in perm: i32[R];  in w: f32[R];\n"
    "  in Wg: bf16[E,D,F];  in Wu: bf16[E,D,F];  in Wd: bf16[E,F,D];\n"
    "  ragged r in off[e]..off[e+1];                        // rows of expert e\n"
    "  let h[r,f] = silu(sum[d] x[perm[r],d]*Wg[e,d,f]) * (sum[d] x[perm[r],d]*Wu[e,d,f]);\n"
    "  out y[perm[r],o] += w[r] * sum[f] h[r,f]*Wd[e,f,o] : bf16[T,D] acc f32  order(fixed);\n"
    "}\n"
    "\n"
    "dim I: dyn;  dim J: dyn;  dim K: dyn;\n"
    "kernel sddmm {\n"
    "  in S: f32[I,J] as csr;  in A: f32[I,K];  in B: f32[J,K];\n"
    "  out C[i,j] = S[i,j] * sum[k] A[i,k]*B[j,k]  as like(S);\n"
    "}\n"
    "\n"
    "kernel qlin24 {                                        // n:m storage and dequantisation are "
    "arithmetic and format\n"
    "  in x: f16[T,K];  in q: i8[J,K] as nm(2,4);  in s: f16[J,K/128];  in b: f16[J];\n"
    "  let W[j,k] = s[j,k/128] * q[j,k];\n"
    "  out y[t,j] = b[j] + sum[k] x[t,k]*W[j,k];\n"
    "}\n"
    "\n"
    "dim Nb: dyn;  dim Nh: dyn;  dim Ns: dyn;\n"
    "kernel bsattn {\n"
    "  in Q: bf16[Nb,Nh,Ns,128];  in Kx: bf16[Nb,Nh,Ns,128];  in V: bf16[Nb,Nh,Ns,128];  in M: "
    "pattern[Ns,Ns] as bsr(64,64);\n"
    "  let p[b,h,i,j] = 0.08838835 * sum[d] Q[b,h,i,d]*Kx[b,h,j,d]  on M[i,j] and j <= i  fill "
    "-inf;\n"
    "  let a[b,h,i,j] = softmax[j](p[b,h,i,j]);\n"
    "  out O[b,h,i,d] = sum[j] a[b,h,i,j]*V[b,h,j,d];\n"
    "}\n"
    "\n"
    "format myblocks(bi,bj) = [i,j] -> [ i/bi: dense, j/bj: compressed, i%bi: dense, j%bj: dense "
    "];\n"
    "\n"
    "schedule ffn for sm_90 { compact h axis=f gran=64x1;  tile y t=128 o=256 f=64;  fuse h into "
    "y;  stages 4; }\n"
    "\n"
    "test ffn { T=7, D=64, F=256;  x = rand(0); W1 = rand(1); W2 = rand(2);  expect y ~= ref, "
    "rtol=2e-2; }\n";

static const char *const frontend_programs[] = {
    "spx 1; dim N: dyn; kernel k { in x: f32[N]; out y[i] = x[i]; }",
    "spx 1; kernel k { in x: f32[]; in a: f32[]; out s = x*a[]; }",
    "spx 1; kernel k { in x: f32[]; out s[] = 2*x; }",
    "spx 1; dim N: dyn <= 100; kernel k { in x: f32[N]; out s = sum[i] x[i]; }",
    "spx 1; dim N: dyn % 4; kernel k { in x: f32[N]; out s = sum[i] x[i]; }",
    "spx 1; dim N: dyn % 4 <= 64; kernel k { in x: f32[N]; out s = sum[i] x[i]; }",
    "spx 1; dim N: dyn; dim H = N+1; kernel k { in x: f32[H]; out s = sum[i] x[i]; }",
    "spx 1; dim N = 6; dim H = 4*N/3-1; kernel k { in x: f32[H]; out s = sum[i] x[i]; }",
    "spx 1; dim N: dyn; kernel k { in x: f32[2*N,N+4,N/2]; out y[a,b,c] = x[a,b,c]; }",
    "spx 1; dim N: dyn; dim M = 3; kernel k { in x: f32[N*M]; out s = sum[i] x[i]; }",
    "spx 1; dim N = 0; kernel k { in x: f32[N]; out s = sum[i] x[i]; }",
    "spx 1; dim N: dyn; kernel k { in x: f64[N]; out y[i] = x[i] + x[i]; }",
    "spx 1; dim N: dyn; kernel k { in x: f32[N]; out y[i] = x[i] + x[i]; }",
    "spx 1; dim N: dyn; kernel k { in x: f16[N]; out y[i] = x[i] + x[i]; }",
    "spx 1; dim N: dyn; kernel k { in x: bf16[N]; out y[i] = x[i] + x[i]; }",
    "spx 1; dim N: dyn; kernel k { in x: f8e4m3[N]; out y[i] = x[i] + x[i]; }",
    "spx 1; dim N: dyn; kernel k { in x: f8e5m2[N]; out y[i] = x[i] + x[i]; }",
    "spx 1; dim N: dyn; kernel k { in x: i64[N]; out y[i] = x[i] + x[i]; }",
    "spx 1; dim N: dyn; kernel k { in x: i32[N]; out y[i] = x[i] + x[i]; }",
    "spx 1; dim N: dyn; kernel k { in x: i16[N]; out y[i] = x[i] + x[i]; }",
    "spx 1; dim N: dyn; kernel k { in x: i8[N]; out y[i] = x[i] + x[i]; }",
    "spx 1; dim N: dyn; kernel k { in x: u8[N]; out y[i] = x[i] + x[i]; }",
    "spx 1; dim N: dyn; kernel k { in x: i4[N]; out y[i] = x[i] + x[i]; }",
    "spx 1; dim N: dyn; kernel k { in x: u4[N]; out y[i] = x[i] + x[i]; }",
    "spx 1; dim N: dyn; kernel k { in c: b1[N]; in x: f32[N]; out y[i] = where(c[i], x[i], 0); }",
    "spx 1; dim N: dyn; kernel k { in c: b1[N]; in d: b1[N]; out y[i] = not c[i] and d[i] or c[i] "
    "== d[i]; }",
    "spx 1; dim N: dyn; dim M: dyn; kernel k { in x: f32[N,M] as csr ~ zeros(static, density=0.1, "
    "gran=1x32, axis=M) const; out y[i] += x[i,j]; }",
    "spx 1; dim N: dyn; dim M: dyn; kernel k { in x: f32[N,M] ~ zeros(dynamic, gran=8x8) fill 0; "
    "out y[i] += x[i,j]; }",
    "spx 1; dim N: dyn; dim M: dyn; kernel k { in A: f32[N,M] as dense; in x: f32[M]; out y[i] = "
    "sum[j] A[i,j]*x[j]; }",
    "spx 1; dim N: dyn; dim M: dyn; kernel k { in A: f32[N,M] as dense_t; in x: f32[M]; out y[i] = "
    "sum[j] A[i,j]*x[j]; }",
    "spx 1; dim N: dyn; dim M: dyn; kernel k { in A: f32[N,M] as coo; in x: f32[M]; out y[i] = "
    "sum[j] A[i,j]*x[j]; }",
    "spx 1; dim N: dyn; dim M: dyn; kernel k { in A: f32[N,M] as csr; in x: f32[M]; out y[i] = "
    "sum[j] A[i,j]*x[j]; }",
    "spx 1; dim N: dyn; dim M: dyn; kernel k { in A: f32[N,M] as csc; in x: f32[M]; out y[i] = "
    "sum[j] A[i,j]*x[j]; }",
    "spx 1; dim N: dyn; dim M: dyn; kernel k { in A: f32[N,M] as bsr(2,3); in x: f32[M]; out y[i] "
    "= sum[j] A[i,j]*x[j]; }",
    "spx 1; dim N: dyn; dim M: dyn; kernel k { in A: f32[N,M] as ell(4); in x: f32[M]; out y[i] = "
    "sum[j] A[i,j]*x[j]; }",
    "spx 1; dim N: dyn; dim M: dyn; kernel k { in A: f32[N,M] as dcsr; in x: f32[M]; out y[i] = "
    "sum[j] A[i,j]*x[j]; }",
    "spx 1; dim N: dyn; dim M: dyn; kernel k { in A: f32[N,M] as csf; in x: f32[M]; out y[i] = "
    "sum[j] A[i,j]*x[j]; }",
    "spx 1; dim N: dyn; dim M: dyn; kernel k { in A: f32[N,M] as nm(2,4); in x: f32[M]; out y[i] = "
    "sum[j] A[i,j]*x[j]; }",
    "spx 1; dim N: dyn; dim M: dyn; kernel k { in A: f32[N,M] as bitmap(8,8); in x: f32[M]; out "
    "y[i] = sum[j] A[i,j]*x[j]; }",
    "spx 1; dim N: dyn; dim M: dyn; kernel k { in A: f32[N,M] as twell(16,4); in x: f32[M]; out "
    "y[i] = sum[j] A[i,j]*x[j]; }",
    "spx 1; dim N: dyn; dim M: dyn; dim K: dyn; kernel k { in A: f32[N,M,K] as coo; out y[i] = "
    "sum[j,k] A[i,j,k]; }",
    "spx 1; dim N: dyn; dim M: dyn; dim K: dyn; kernel k { in A: f32[N,M,K] as csf; in B: "
    "f32[M,K]; out y[i] = sum[j,k] A[i,j,k]*B[j,k]; }",
    "spx 1; dim N: dyn; dim M: dyn; kernel k { in A: f32[N,M] as mine(4,8); out y[i] += A[i,j]; } "
    "format mine(b,c) = [i,j] -> [ i/b: dense, j/c: compressed, i%b: dense, j%c: dense ];",
    "spx 1; dim N: dyn; dim M: dyn; format sell(c) = [i,j] -> [ i: dense, j: packed(c,1) ]; kernel "
    "k { in A: f32[N,M] as sell(5); out y[i] += A[i,j]; }",
    "spx 1; dim N: dyn; dim M: dyn; format half(m) = [i,j] -> [ i: dense, j/m: dense, j%m: nm(2) "
    "]; kernel k { in A: f32[N,M] as half(8); out y[i] += A[i,j]; }",
    "spx 1; dim N: dyn; dim M: dyn; kernel k { in x: f32[N,M]; out y[i] = sum[j] x[i,j]; }",
    "spx 1; dim N: dyn; dim M: dyn; kernel k { in x: f32[N,M]; out y[i] = prod[j] x[i,j]; }",
    "spx 1; dim N: dyn; dim M: dyn; kernel k { in x: f32[N,M]; out y[i] = max[j] x[i,j]; }",
    "spx 1; dim N: dyn; dim M: dyn; kernel k { in x: f32[N,M]; out y[i] = min[j] x[i,j]; }",
    "spx 1; dim N: dyn; dim M: dyn; kernel k { in x: f32[N,M]; out y[i] = any[j] (x[i,j] > 0);  }",
    "spx 1; dim N: dyn; dim M: dyn; kernel k { in x: f32[N,M]; out y[i] = all[j] (x[i,j] > 0.5 and "
    "not (x[i,j] > 2)); }",
    "spx 1; dim N: dyn; dim M: dyn; kernel k { in x: f32[N,M]; out y[i] = argmax[j] x[i,j]; }",
    "spx 1; dim N: dyn; kernel k { in x: f32[N]; out y[i] = relu(x[i]); }",
    "spx 1; dim N: dyn; kernel k { in x: f32[N]; out y[i] = relu2(x[i]); }",
    "spx 1; dim N: dyn; kernel k { in x: f32[N]; out y[i] = abs(x[i]); }",
    "spx 1; dim N: dyn; kernel k { in x: f32[N]; out y[i] = exp(x[i]); }",
    "spx 1; dim N: dyn; kernel k { in x: f32[N]; out y[i] = log(x[i]); }",
    "spx 1; dim N: dyn; kernel k { in x: f32[N]; out y[i] = sqrt(x[i]); }",
    "spx 1; dim N: dyn; kernel k { in x: f32[N]; out y[i] = rsqrt(x[i]); }",
    "spx 1; dim N: dyn; kernel k { in x: f32[N]; out y[i] = tanh(x[i]); }",
    "spx 1; dim N: dyn; kernel k { in x: f32[N]; out y[i] = sigmoid(x[i]); }",
    "spx 1; dim N: dyn; kernel k { in x: f32[N]; out y[i] = silu(x[i]); }",
    "spx 1; dim N: dyn; kernel k { in x: f32[N]; out y[i] = gelu(x[i]); }",
    "spx 1; dim N: dyn; kernel k { in x: f32[N]; out y[i] = step(x[i]); }",
    "spx 1; dim N: dyn; kernel k { in x: f32[N]; out y[i] = sign(x[i]); }",
    "spx 1; dim N: dyn; kernel k { in x: f32[N]; in z: f32[N]; out y[i] = min(x[i], max(z[i], 0)) "
    "+ pow(x[i], 2); }",
    "spx 1; dim N: dyn; dim M: dyn; kernel k { in x: f32[N,M]; out y[i,j] = softmax[j](x[i,j] * "
    "0.5); }",
    "spx 1; dim N: dyn; dim M: dyn; dim K: dyn; kernel k { in x: f32[N,M]; in v: f32[M,K]; out "
    "y[i,d] = sum[j] softmax[j](x[i,j])*v[j,d]; }",
    "spx 1; dim N: dyn; dim M: dyn; kernel k { in x: f32[N,M]; out y[i,j] = topk[j](x[i,j], 4); }",
    "spx 1; dim N: dyn; kernel k { in x: f32[N]; out y[i] = -x[i]*x[i] - 1 + 0; }",
    "spx 1; dim N: dyn; kernel k { in x: f32[N]; out y[i] = where(x[i] == inf, 0, x[i]); }",
    "spx 1; dim N: dyn; dim M = 4; kernel k { in x: f32[N,M]; out y[i] = x[i,0] + 2 * sum[j] "
    "x[i,j]*3 + 1; }",
    "spx 1; dim N: dyn; dim M: dyn; kernel k { in A: f32[N,M]; in x: f32[M]; out y[i] += "
    "A[i,j]*x[j]; }",
    "spx 1; dim N: dyn; dim M: dyn; kernel k { in A: f32[N,M]; in x: f32[M]; in b: f32[N]; out "
    "y[i] += A[i,j]*x[j] - 2*b[i]; }",
    "spx 1; dim N: dyn; dim M: dyn; kernel k { in A: f32[N,M]; out y[i] max= A[i,j]; }",
    "spx 1; dim N: dyn; dim M: dyn; kernel k { in A: f32[N,M]; out y[i] min= A[i,j]*A[i,j]; }",
    "spx 1; dim N: dyn; dim M: dyn; kernel k { in A: f32[N,M]; out s += A[i,j]; }",
    "spx 1; dim N: dyn; kernel k { in A: f32[N,N]; out t = sum[i] A[i,i]; }",
    "spx 1; dim N: dyn; kernel k { in q: i8[N]; in s: f16[N]; out y[i] = s[i]*q[i]; }",
    "spx 1; dim N: dyn; dim K: dyn; kernel k { in q: u4[N,K]; in w: i8[K]; out y[i] = sum[k] "
    "q[i,k]*w[k] : i32; }",
    "spx 1; dim N: dyn; dim K: dyn; kernel k { in q: i8[N,K]; in w: i8[K]; out y[i] = sum[k] "
    "q[i,k]*w[k] : f32; }",
    "spx 1; dim N: dyn; kernel k { in x: f16[N]; in z: bf16[N]; out y[i] = x[i] + z[i] : f16 acc "
    "f32; }",
    "spx 1; dim N: dyn; kernel k { in n: i32[N]; in x: f32[N]; out y[i] = cast[f32](n[i])*x[i] + "
    "cast[f32](i) + cast[f32](N); }",
    "spx 1; dim N: dyn; kernel k { in x: f32[N]; out y[i] = where(i < N/2, x[i], 0); }",
    "spx 1; dim N: dyn; kernel k { out y[i] = i*2 + N : i64[N]; }",
    "spx 1; dim N: dyn; kernel k { out y[i] = 0.5 : f16[N]; }",
    "spx 1; dim N: dyn; kernel k { in x: f64[N]; out s = sum[i] x[i]*x[i] : f32 acc f64; }",
    "spx 1; dim N: dyn; kernel k { in x: f32[N,N]; out y[i,j] = x[i,j] on j <= i fill -inf; }",
    "spx 1; dim N: dyn; kernel k { in x: f32[N,N]; in M: pattern[N,N] as csr; out y[i,j] = x[i,j] "
    "on M[i,j] and not (j == i) as like(M); }",
    "spx 1; dim N: dyn; kernel k { in x: f32[N,N]; in g: f32[N]; let p[i,j] = x[i,j] on g[i] fill "
    "1; out y[i] = prod[j] p[i,j]; }",
    "spx 1; dim N: dyn; kernel k { in x: f32[N,N]; in c: b1[N,N]; out y[i] = sum[j] x[i,j] on "
    "any[j] c[i,j]; }",
    "spx 1; dim N: dyn; dim M: dyn; kernel k { in A: f32[N,M] as csr; in B: f32[N,M] as csr; out "
    "C[i,j] = A[i,j] + B[i,j] as csr; }",
    "spx 1; dim N: dyn; dim M: dyn; kernel k { in A: f32[N,M] as csr; in B: f32[N,M]; out C[i,j] = "
    "A[i,j]*B[i,j] as csr; }",
    "spx 1; dim N: dyn; dim M: dyn; dim K: dyn; kernel k { in A: f32[N,M] as csr; in B: f32[M,K] "
    "as csr; out C[i,k] = sum[j] A[i,j]*B[j,k] as csr; }",
    "spx 1; dim N: dyn; dim M: dyn; kernel k { in A: f32[N,M] as csr; let h[i,j] = relu(A[i,j]); "
    "out C[i,j] = h[i,j]*2 as like(A); }",
    "spx 1; dim N: dyn; dim M: dyn; kernel k { in A: f32[N,M] as csr; let h[i,j] = 2*A[i,j] as "
    "like(A); out C[i,j] = h[i,j]/3 as like(h); }",
    "spx 1; dim N: dyn; kernel k { in x: f32[N,N]; out y[i,j] = x[i,j] on j <= i as csr; }",
    "spx 1; dim N: dyn; kernel k { in x: f32[N,N]; in S: f32[N,N] as coo; out y[i,j] = "
    "where(S[i,j] > 0, S[i,j]*x[i,j], 0) as coo; }",
    "spx 1; dim S: dyn; dim R: dyn; kernel k { in off: i32[S+1]; in x: f32[R]; in w: f32[S]; "
    "ragged r in off[e]..off[e+1]; out y[r] = x[r]*w[e]; }",
    "spx 1; dim S: dyn; dim R: dyn; kernel k { in off: i64[S+1]; in x: f32[R]; ragged r in "
    "off[e]..off[e+1]; out y[e] = sum[r] x[r]; }",
    "spx 1; dim S: dyn; dim R: dyn; kernel k { in off: i64[S+1]; in x: f32[R]; ragged r in "
    "off[e]..off[e+1]; out y[e] += x[r]; }",
    "spx 1; dim S: dyn; dim R: dyn; kernel k { in off: i64[S+1]; in x: f32[R]; in w: f32[S]; "
    "ragged r in off[e]..off[e+1]; out y = sum[e] w[e] * sum[r] x[r]; }",
    "spx 1; dim S: dyn; dim R: dyn; kernel k { in off: i64[S+1]; in x: f32[R]; in w: f32[S]; "
    "ragged r in off[e]..off[e+1]; out y = sum[r] x[r]*w[e]; }",
    "spx 1; dim S: dyn; dim R: dyn; kernel k { in off: i64[S]; in x: f32[R]; ragged r in "
    "off[e]..off[e+1]; out y[e] = max[r] x[r]; }",
    "spx 1; dim N: dyn; dim M: dyn; kernel k { in x: f32[N]; in p: i32[N]; out y[p[i]] += x[i] : "
    "f32[M] atomic; }",
    "spx 1; dim N: dyn; dim M: dyn; kernel k { in x: f32[N]; in p: i64[N]; out y[p[i]] max= x[i] : "
    "f32[M] order(fixed); }",
    "spx 1; dim N: dyn; dim M: dyn; dim K: dyn; kernel k { in x: f32[N,K]; in p: u8[N]; out "
    "y[p[i]] += x[i,k]*2 : f32[M]; }",
    "spx 1; dim N: dyn; kernel k { in x: f32[N]; out y[i+2] = x[i] : f32[N+2]; }",
    "spx 1; dim N: dyn; kernel k { in x: f32[N]; out y[2*i] = x[i] : f32[2*N]; }",
    "spx 1; dim N: dyn; kernel k { in x: f32[N]; in at: i32[]; out y[at] += x[i] : f32[8]; }",
    "spx 1; dim N: dyn; kernel k { in x: f32[N]; in w: f32[3]; out y[i] = sum[q] w[q]*x[i+q] : "
    "f32[N-2]; }",
    "spx 1; dim I: dyn; dim Q: dyn; kernel k { in x: f32[I+Q-1]; in w: f32[Q]; out y[i] = sum[q] "
    "w[q]*x[i+q] : f32[I]; }",
    "spx 1; dim N: dyn; dim M: dyn; dim K: dyn; kernel k { in x: f32[N]; in w: f32[M]; out y[i] = "
    "sum[q] w[q]*x[i+q] : f32[K]; }",
    "spx 1; dim N: dyn % 2; kernel k { in x: f32[N]; out y[i] = x[2*i] : f32[N/2]; }",
    "spx 1; dim N: dyn; kernel k { in x: f32[N]; out y[i] = x[i/2] + x[i%4] : f32[N]; }",
    "spx 1; dim N: dyn; dim K: dyn; kernel k { in x: f32[N,K]; in s: f32[N,K/32]; out y[i] = "
    "sum[k] x[i,k]*s[i,k/32]; }",
    "spx 1; dim N: dyn; kernel k { in x: f32[N]; out y[i] = x[N-i-1] : f32[N]; }",
    "spx 1; dim N: dyn; dim M: dyn; dim K: dyn; kernel k { in x: f32[N,M]; in p: i32[K]; out "
    "y[k,j] = x[p[k],j]; }",
    "spx 1; dim N: dyn; dim M: dyn; dim K: dyn; kernel k { in x: f32[N]; in p: i32[M,K]; out "
    "y[a,b] = x[p[a,b]+1]; }",
    "spx 1; dim N: dyn; dim M: dyn; kernel k { in x: f32[N]; in p: i32[M]; out y[j] = x[p[j/2]] : "
    "f32[2*M]; }",
    "spx 1; dim N: dyn; kernel k { in x: f32[N]; in at: i32[]; out y = x[at]; }",
    "spx 1; dim N: dyn; kernel k { in x: f32[N]; let a[i] = x[i] + 1; let b[i] = a[i]*2; out y[i] "
    "= b[i]; out z[i] = y[i] - a[i]; }",
    "spx 1; dim N: dyn; dim M: dyn; kernel k { in A: f32[N,M]; in x: f32[M]; let h[i] = "
    "relu(sum[j] A[i,j]*x[j]); out y[i] = h[i]*2; } schedule k { tile h i=4 j=8; split h j=4; fuse "
    "h into y; format h=dense; dense y; } schedule k for cpu { library h; } schedule k for sm_90a "
    "{ compact h axis=i gran=64x1; stages 3; warps 8; }",
    "spx 1; dim N: dyn; kernel k { in x: f32[N]; in a: f32[]; out y[i] = a*x[i]; } test k { x = "
    "[1,-2.5,inf,nan]; a = 2; expect y ~= [2,-5,inf,nan], rtol=1e-3; } test k { N=3, a=1; x = "
    "iota; expect y ~= iota; } test k { N=3; x = randint(0,-2,2); a = 0.5; expect y ~= ref; }",
    "spx 1; dim N: dyn; kernel k { in A: f32[N,N] as csr; out y[i] += A[i,j]; } test k { N=5; A = "
    "eye; expect y ~= ref; } test k { N=5; A = sparse(1,0.5); expect y ~= ref; }",
    "spx 1; // only a comment and nothing else\n",
    "// a comment before the version\nspx 1;\n",
    "spx 1;",
};

#endif
