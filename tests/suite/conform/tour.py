"""Every program of the language's tour, as text, with sizes that are multiples of nothing."""
import numpy as np, scipy.sparse as sp
from .harness import *

rng = np.random.default_rng(11)
normal = lambda *shape: rng.normal(size=shape).astype(np.float32)
relu = lambda a: np.maximum(a, 0)
silu = lambda a: a / (1 + np.exp(-a))

FFN = """spx 1;
dim T: dyn <= 8192;  dim D = 4096;  dim F = 16384;
kernel ffn {                                   // the flagship
  in x : bf16[T,D];   in W1: bf16[D,F] const;   in W2: bf16[F,D] const;
  let h[t,f] = relu(sum[d] x[t,d] * W1[d,f]) : bf16 acc f32 ~ zeros(dynamic, density=0.02..0.15);
  out y[t,o] = sum[f] h[t,f] * W2[f,o]       : bf16 acc f32;
}
test ffn { T=7, D=64, F=256;  x = rand(0); W1 = rand(1); W2 = rand(2);  expect y ~= ref, rtol=2e-2; }
"""
SCHEDULE = "schedule ffn for sm_90 { compact h axis=f gran=64x1;  tile y t=128 o=256 f=64;  fuse h into y;  stages 4; }\n"
for T, D, F, shift in ((7, 37, 101, 0.0), (1, 5, 3, 0.0), (65, 33, 131, 2.0), (13, 24, 40, 9.0), (9, 17, 50, -9.0)):
    x, W1, W2 = bf16(normal(T, D)), bf16(normal(D, F)), bf16(normal(F, D))
    x[:, 0], W1[0] = 1, -shift * 3                      # shift: the share of hidden zeros, none to all
    hidden = bf16(relu(f64(x) @ f64(W1)))
    want = f64(hidden) @ f64(W2)
    case("ffn T=%d D=%d F=%d, density %.2f" % (T, D, F, (hidden > 0).mean()), FFN, dict(x=x, W1=W1, W2=W2), dict(y=want), dims=dict(D=D, F=F), rtol=1.6e-2,
         dtypes=dict(y=np.float32))
job("the tour's test block", lambda: check("the tour's test block passes", spc("check", write("ffn.spx", FFN)).returncode == 0))
job("the tour's schedule", lambda: check("the tour's schedule for sm_90 applies", spc("compile", write("ffns.spx", FFN + SCHEDULE), "--target=sm_90a", "--emit=tile").returncode == 0,
                                         spc("compile", path("ffns.spx"), "--target=sm_90a", "--emit=tile").stderr))

GATED = """spx 1;
dim T: dyn <= 8192;  dim D = 4096;  dim F = 16384;
kernel gated_ffn {
  in x: bf16[T,D];  in Wg: bf16[D,F];  in Wu: bf16[D,F];  in Wd: bf16[F,D];
  let g[t,f] = relu(sum[d] x[t,d]*Wg[d,f]) ~ zeros(dynamic);
  let u[t,f] = sum[d] x[t,d]*Wu[d,f]  on g[t,f];      // sampled: computed only where g is non-zero
  out y[t,o] = sum[f] g[t,f]*u[t,f]*Wd[f,o];
}
"""
for T, D, F, shift in ((11, 29, 83, 0.0), (3, 19, 45, 1.5), (33, 8, 9, -9.0), (5, 7, 67, 9.0)):
    x, Wg, Wu, Wd = bf16(normal(T, D)), bf16(normal(D, F)), bf16(normal(D, F)), bf16(normal(F, D))
    x[:, 0], Wg[0] = 1, -shift * 3
    g = bf16(relu(f64(x) @ f64(Wg)))
    u = np.where(g != 0, bf16(f64(x) @ f64(Wu)), 0)
    case("gated_ffn T=%d D=%d F=%d, density %.2f" % (T, D, F, (g > 0).mean()), GATED, dict(x=x, Wg=Wg, Wu=Wu, Wd=Wd), dict(y=(f64(g) * u) @ f64(Wd)), dims=dict(D=D, F=F), rtol=2e-2)

MOE = """spx 1;
dim T: dyn <= 8192;  dim D = 4096;  dim F = 16384;
dim E = 64;  dim R: dyn;
kernel moe {
  in x: bf16[T,D];  in off: i32[E+1];  in perm: i32[R];  in w: f32[R];
  in Wg: bf16[E,D,F];  in Wu: bf16[E,D,F];  in Wd: bf16[E,F,D];
  ragged r in off[e]..off[e+1];                        // rows of expert e
  let h[r,f] = silu(sum[d] x[perm[r],d]*Wg[e,d,f]) * (sum[d] x[perm[r],d]*Wu[e,d,f]);
  out y[perm[r],o] += w[r] * sum[f] h[r,f]*Wd[e,f,o] : bf16[T,D] acc f32  order(fixed);
}
"""
for T, D, F, E, k, tail in ((9, 13, 21, 6, 2, 0), (5, 7, 11, 64, 1, 0), (4, 6, 5, 3, 2, 2), (3, 5, 4, 1, 3, 0)):
    experts = rng.integers(0, E, (T, k))
    experts[experts == E // 2] = 0                      # at least one expert gets no row
    order = np.argsort(experts.ravel(), kind="stable")
    perm = (order // k).astype(np.int32)
    off = np.searchsorted(np.sort(experts.ravel()), np.arange(E + 1)).astype(np.int32)
    off[-1] -= tail                                     # the last rows lie in no segment
    off = np.minimum.accumulate(off[::-1])[::-1].copy()
    x, w = bf16(normal(T, D)), normal(T * k)
    Wg, Wu, Wd = bf16(normal(E, D, F)), bf16(normal(E, D, F)), bf16(normal(E, F, D))
    want = np.zeros((T, D))
    for e in range(E):
        for r in range(off[e], off[e + 1]):
            row = f64(x[perm[r]])
            want[perm[r]] += w[r] * (f64(bf16(silu(row @ f64(Wg[e])) * (row @ f64(Wu[e])))) @ f64(Wd[e]))
    case("moe T=%d E=%d R=%d, %d rows in no segment" % (T, E, T * k, tail), MOE, dict(x=x, off=off, perm=perm, w=w, Wg=Wg, Wu=Wu, Wd=Wd), dict(y=want), dims=dict(D=D, F=F, E=E), rtol=2e-2)

SDDMM = """spx 1; dim I: dyn;  dim J: dyn;  dim K: dyn;
kernel sddmm {
  in S: f32[I,J] as csr;  in A: f32[I,K];  in B: f32[J,K];
  out C[i,j] = S[i,j] * sum[k] A[i,k]*B[j,k]  as like(S);
}
"""
for I, J, K, density in ((17, 23, 9, 0.2), (1, 1, 1, 1.0), (31, 5, 33, 0.0), (7, 66, 3, 1.0), (1, 19, 70, 0.5)):
    S, A, B = sp.random(I, J, density, "csr", np.float32, 3), normal(I, K), normal(J, K)
    if S.nnz > 2:
        S.data[1] = 0                                   # a stored zero keeps its place
    case("sddmm %dx%dx%d density %.1f" % (I, J, K, density), SDDMM, dict(S=S, A=A, B=B), dict(C=S.toarray() * (f64(A) @ f64(B).T)), entries=dict(C=(S.nnz, "csr")))

QLIN = """spx 1; dim T: dyn <= 8192; dim I: dyn;  dim J: dyn;  dim K: dyn;
kernel qlin24 {                                        // n:m storage and dequantisation are arithmetic and format
  in x: f16[T,K];  in q: i8[J,K] as nm(2,4);  in s: f16[J,K/128];  in b: f16[J];
  let W[j,k] = s[j,k/128] * q[j,k];
  out y[t,j] = b[j] + sum[k] x[t,k]*W[j,k];
}
"""
for T, J, K in ((5, 7, 128), (3, 33, 384), (1, 1, 256)):
    x, s, b = (normal(*n).astype(np.float16) for n in ((T, K), (J, K // 128), (J,)))
    q = rng.integers(-9, 10, (J, K)).astype(np.int8)
    rank = np.argsort(rng.random((J, K // 4, 4)), axis=2)
    q[(rank >= 2).reshape(J, K)] = 0                    # two of four are kept
    W = (np.repeat(f64(s), 128, axis=1) * q).astype(np.float16)
    case("qlin24 T=%d J=%d K=%d" % (T, J, K), QLIN, dict(x=x, q=q, s=s, b=b), dict(y=f64(b) + f64(x) @ f64(W).T), rtol=3e-3, dtypes=dict(y=np.float16), says=["R0801"])

BSATTN = """spx 1; dim Nb: dyn;  dim Nh: dyn;  dim Ns: dyn;
kernel bsattn {
  in Q: bf16[Nb,Nh,Ns,128];  in Kx: bf16[Nb,Nh,Ns,128];  in V: bf16[Nb,Nh,Ns,128];  in M: pattern[Ns,Ns] as bsr(64,64);
  let p[b,h,i,j] = 0.08838835 * sum[d] Q[b,h,i,d]*Kx[b,h,j,d]  on M[i,j] and j <= i  fill -inf;
  let a[b,h,i,j] = softmax[j](p[b,h,i,j]);
  out O[b,h,i,d] = sum[j] a[b,h,i,j]*V[b,h,j,d];
}
"""


def attention(Q, K, V, mask):
    out = np.zeros(Q.shape)
    for b, n in np.ndindex(Q.shape[:2]):
        score = np.where(mask, 0.08838835 * (f64(Q[b, n]) @ f64(K[b, n]).T), -np.inf)
        top = np.where(mask.any(1), score.max(1), 0)[:, None]
        weight = np.exp(score - top)
        total = weight.sum(1, keepdims=True)
        out[b, n] = np.where(total > 0, weight / np.where(total > 0, total, 1), 0) @ f64(V[b, n])
    return out


for Nb, Nh, Ns, blocks in ((1, 2, 150, [(0, 0), (2, 0), (2, 2)]), (1, 1, 64, []), (2, 1, 101, [(0, 0), (1, 0), (1, 1)]), (1, 1, 70, [(0, 1), (1, 0)])):
    Q, K, V = (bf16(normal(Nb, Nh, Ns, 128)) for _ in range(3))
    grid = -(-Ns // 64)
    stored = np.zeros((grid * 64, grid * 64), np.float32)
    for bi, bj in blocks:
        stored[bi * 64:bi * 64 + 64, bj * 64:bj * 64 + 64] = 1
    stored = stored[:Ns, :Ns]
    mask = (stored != 0) & (np.arange(Ns)[None, :] <= np.arange(Ns)[:, None])
    case("bsattn Ns=%d blocks %s" % (Ns, blocks), BSATTN, dict(Q=Q, Kx=K, V=V, M=sp.csr_matrix(stored)), dict(O=attention(Q, K, V, mask)), rtol=1.6e-2)

BLOCKS = """spx 1; dim I: dyn; dim J: dyn; dim K: dyn;
format myblocks(bi,bj) = [i,j] -> [ i/bi: dense, j/bj: compressed, i%bi: dense, j%bj: dense ];
kernel k { in A: f32[I,J] as myblocks(4,3); in x: f32[J]; in B: f32[J,K];
  out y[i] = sum[j] A[i,j]*x[j]; out C[i,k] = sum[j] A[i,j]*B[j,k]; out D[i,j] = 2*A[i,j] as like(A); out m[i] = max[j] A[i,j]; }
"""
for I, J, K, density in ((13, 17, 5, 0.1), (4, 3, 1, 1.0), (9, 8, 7, 0.0), (1, 31, 2, 0.4)):
    A, x, B = sp.random(I, J, density, "csr", np.float32, 5), normal(J), normal(J, K)
    d = A.toarray()
    case("myblocks(4,3) %dx%d density %.1f" % (I, J, density), BLOCKS, dict(A=A, x=x, B=B), dict(y=d @ f64(x), C=d @ f64(B), D=2 * d, m=d.max(1)))
