"""Rules 5, 7, 10 and 11: conditions and fills, patterns of sparse results, fallbacks, schedules."""
import json, os, re
import numpy as np, scipy.sparse as sp
from .harness import *

rng = np.random.default_rng(51)
normal = lambda *shape: rng.normal(size=shape).astype(np.float32)
rand = lambda n, m, density, seed: sp.random(n, m, density, "csr", np.float32, seed)

# ---- 5. conditions and fills
N, M, K = 13, 19, 7
A, B, V = normal(N, K), normal(M, K), normal(N, M)
stored = rand(N, M, 0.4, 1)
stored.data[::3] = 0                                    # stored zeros: true in a pattern, false in a numeric tensor
place = np.zeros((N, M), bool)
place[stored.tocoo().row, stored.tocoo().col] = True
value = stored.toarray() != 0
i, j = np.ogrid[:N, :M]
AB = f64(A) @ f64(B).T
on = lambda c, a, fill=0.0: np.where(c, a, fill)
for fmt in ("csr", "coo", "dcsr", "csc"):
    case("5: a pattern is true where stored, a number where it is not zero, %s" % fmt, program("N M K", """
  in A: f32[N,K]; in B: f32[M,K]; in V: f32[N,M]; in P: pattern[N,M] as %s; in S: f32[N,M] as %s;
  out a[i,j] = sum[k] A[i,k]*B[j,k] on P[i,j];  out b[i,j] = sum[k] A[i,k]*B[j,k] on S[i,j] fill -1;
  out c[i,j] = V[i,j] on P[i,j] and j <= i fill 2.5;  out d[i,j] = V[i,j] on not P[i,j];  out e[i,j] = V[i,j] on S[i,j] or j < 3;  out f[i,j] = V[i,j] on i + j < 9 fill inf;
  out g[i] = V[i,2] on any[j] P[i,j];  out h[i,j] = V[i,j] on S[i,j] != 0 and V[i,j] > 0;  out q[i,j] = where(P[i,j], V[i,j], 1);
  out l[i,j] = V[i,j] on V[i,j] fill 7;  out o[i,j] = sum[k] A[i,k]*B[j,k] on j <= i fill 3;""" % (fmt, fmt)),
         dict(A=A, B=B, V=V, P=stored, S=stored),
         dict(a=on(place, AB), b=on(value, AB, -1), c=on(place & (j <= i), V, 2.5), d=on(~place, V), e=on(value | (j < 3), V), f=on(i + j < 9, V, np.inf), g=on(place.any(1), V[:, 2]),
              h=on(value & (V > 0), V), q=on(place, V, 1), l=V, o=on(j <= i, AB, 3)))
for name, mask in (("empty", sp.csr_matrix((N, M), dtype=np.float32)), ("all zeros stored", sp.csr_matrix((np.zeros(N * M, np.float32), np.tile(np.arange(M), N), np.arange(N + 1) * M), (N, M))),
                   ("full", sp.csr_matrix(np.ones((N, M), np.float32))), ("one row", sp.csr_matrix((np.ones(M, np.float32), (np.full(M, 4), np.arange(M))), (N, M)))):
    c = mask.tocoo()
    at = np.zeros((N, M), bool)
    at[c.row, c.col] = True
    nz = mask.toarray() != 0
    p = np.where(at, AB, -np.inf)
    w = np.where(at, np.exp(AB - AB.max(1, keepdims=True)), 0)
    soft = w / np.where(w.sum(1, keepdims=True) > 0, w.sum(1, keepdims=True), 1)
    case("5: the mask is %s" % name, program("N M K", """in A: f32[N,K]; in B: f32[M,K]; in P: pattern[N,M] as csr; in S: f32[N,M] as csr; in W: f32[M,K];
  let p[i,j] = sum[k] A[i,k]*B[j,k] on P[i,j] fill -inf;  let a[i,j] = softmax[j](p[i,j]);  out y[i,k] = sum[j] a[i,j]*W[j,k];
  out c[i,j] = sum[k] A[i,k]*B[j,k] on S[i,j];  out d[i,j] = S[i,j] * sum[k] A[i,k]*B[j,k] as like(S);  out s[i] = sum[j] S[i,j];  out h[i] = max[j] p[i,j];"""),
         dict(A=A, B=B, P=mask, S=mask, W=B), dict(y=soft @ f64(B), c=on(nz, AB), d=mask.toarray() * AB, s=mask.toarray().sum(1), h=p.max(1)), entries=dict(d=(mask.nnz, "csr")))
refuse("5: a condition with a foreign index", program("N M", "in V: f32[N,M]; in P: pattern[N,M] as csr;\nout y[i] = sum[j] V[i,j] on P[i,j];"), "E0214", ["`j`"], caret="j]")
refuse("5: a fill that is not the reduction's identity", program("N M", "in V: f32[N,M]; in P: pattern[N,M] as csr;\nlet p[i,j] = V[i,j] on P[i,j] fill -inf;\nout y[i] = sum[j] p[i,j];"), "E0402", ["identity: `0`"])


def sampled():
    r = spc("compile", write("sampled.spx", program("I J K", "in S: f32[I,J] as csr; in A: f32[I,K]; in B: f32[J,K]; out C[i,j] = S[i,j] * sum[k] A[i,k]*B[j,k];")))
    check("5: sampling by a sparse factor is inferred and reported", r.returncode == 0 and "R0401" in r.stderr and "S[i" in r.stderr, r.stderr)


job("5: sampled", sampled)

# ---- 7. sparse results: union, intersection, product, in every format that has an assembler
X, Y = rand(17, 23, 0.25, 2), rand(17, 23, 0.2, 3)
C = rand(23, 11, 0.2, 4)
X.data[:2], Y.data[1] = 0, 0


def pattern(m):
    p = sp.csr_matrix((np.ones(m.nnz, np.float32), m.indices, m.indptr), m.shape)
    p.sort_indices()
    return p


def stored_in(fmt, p):
    """How many entries a format stores for a pattern: whole blocks in bsr."""
    c = p.tocoo()
    if fmt.startswith("bsr"):
        r, q = map(int, re.findall(r"\d+", fmt))
        return len({(a // r, b // q) for a, b in zip(c.row, c.col)}) * r * q
    return p.nnz


union, both, product = pattern(X) + pattern(Y), pattern(X).multiply(pattern(Y)).tocsr(), (pattern(X) @ pattern(C)).tocsr()
WANT = dict(u=(f64(X.toarray()) + 2 * Y.toarray(), union), n=(f64(X.toarray()) * Y.toarray(), both), p=(f64(X.toarray()) @ C.toarray(), product))
FORMATS = ("csr", "csc", "coo", "dcsr", "bsr(4,3)")
NPZ = {"csr": "csr", "csc": "csc", "coo": "coo", "dcsr": "coo", "bsr(4,3)": "bsr"}
exact = {}
for a, b, o in [(f, f, f) for f in FORMATS] + [("csr", "csc", "csr"), ("coo", "csr", "csc"), ("csc", "dcsr", "coo"), ("dcsr", "coo", "csr"), ("csc", "csc", "csr"), ("bsr(4,3)", "csr", "csr"), ("csr", "csr", "bsr(4,3)"), ("csr", "csr", "dcsr")]:
    plain = not any("bsr" in f for f in (a, b, o))
    entries = {k: (stored_in(o, p), NPZ[o]) if plain else None for k, (_, p) in WANT.items()}
    case("7: union, intersection, product of %s and %s as %s" % (a, b, o), program("I J K", "in A: f32[I,J] as %s; in B: f32[I,J] as %s; in C: f32[J,K] as %s;\n" % (a, b, b) +
         "out u[i,j] = A[i,j] + 2*B[i,j] as %s;  out n[i,j] = A[i,j]*B[i,j] as %s;  out p[i,k] = sum[j] A[i,j]*C[j,k] as %s;" % (o, o, o)),
         dict(A=X, B=Y, C=C), {k: w for k, (w, _) in WANT.items()}, entries=entries)
for density in (0.0, 1.0):
    P, Q = rand(9, 6, density, 5), rand(9, 6, 1 - density, 6)
    case("7: one operand of %g, the other of %g" % (density, 1 - density), program("I J", "in A: f32[I,J] as csr; in B: f32[I,J] as csr; out u[i,j] = A[i,j] + B[i,j] as csr; out n[i,j] = A[i,j]*B[i,j] as csr; out g[i,k] = sum[j] A[i,j]*B[k,j] as csr;"),
         dict(A=P, B=Q), dict(u=(P + Q).toarray(), n=P.multiply(Q).toarray(), g=P.toarray() @ Q.toarray().T), entries=dict(u=(54, "csr"), n=(0, "csr"), g=(0, "csr")))
case("7: restricted by a condition, sampled by a dense factor, of one operand", program("I J", """in A: f32[I,J] as csr; in B: f32[I,J] as csr; in D: f32[I,J]; in s: f32[I];
  out a[i,j] = D[i,j] on A[i,j] as csr;  out b[i,j] = A[i,j]*D[i,j]*s[i] as csr;  out c[i,j] = 2*A[i,j] as csc;  out d[i,j] = max(A[i,j], B[i,j]) as csr;  out e[j,i] = A[i,j] as csr;
  out f[i,j] = A[i,j]*(B[i,j] + D[i,j]) as like(A);  out g[i,j] = A[i,j]*B[i,j] as like(B);  out t[i,j] = A[i,j] on j <= i as csr;"""),
     dict(A=X, B=Y, D=(D := normal(17, 23)), s=(s := normal(17))),
     dict(a=np.where(X.toarray() != 0, D, 0), b=f64(X.toarray()) * D * s[:, None], c=2 * X.toarray(), d=np.maximum(X.toarray(), Y.toarray()), e=X.toarray().T, f=f64(X.toarray()) * (Y.toarray() + D),
          g=f64(X.toarray()) * Y.toarray(), t=np.tril(X.toarray())),
     entries=dict(b=(X.nnz, "csr"), c=(X.nnz, "csc"), d=(union.nnz, "csr"), e=(X.nnz, "csr"), f=(X.nnz, "csr"), g=(Y.nnz, "csr"), a=None, t=None))
refuse("7: a sparse result of dense operands", program("N M", "in A: f32[N,M]; in B: f32[N,M];\nout y[i,j] = A[i,j]*B[i,j] as csr;"), "E0401", [])
refuse("7: like() of another shape", program("N M", "in S: f32[N,M] as csr;\nout y[j,i] = S[i,j] as like(S);"), "E0406", ["`S`"])
refuse("7: like() of a pattern that the value does not have", program("N M", "in S: f32[N,M] as csr; in R: f32[N,M] as csr;\nout y[i,j] = S[i,j] + R[i,j] as like(S);"), "E0406", ["`S`"])

# ---- 10. a back end that cannot run, with and without --fallback
NONE = {"SPC_CUDA_LIB": "/nonexistent/libcuda.so", "SPC_NVRTC_LIB": "/nonexistent/libnvrtc.so"}


def fallback():
    p = write("fall.spx", program("N", "in x: f32[N]; out y[i] = 2*x[i];"))
    x = save(normal(5), "fall_x")
    r = spc("run", p, "--bind", "x=" + x, "--backend=cuda", env=NONE)
    check("10: no device is exit 4", r.returncode == 4 and "E0901" in r.stderr and r.stdout == "", "exit %d %s" % (r.returncode, r.stderr))
    for to in ["interp"] + ["cpu"] * ("cpu" in BACKENDS):
        r = spc("run", p, "--bind", "x=" + x, "--backend=cuda", "--fallback=" + to, "--stats=-", env=NONE)
        check("10: --fallback=%s runs, says so, and is in the statistics" % to, r.returncode == 0 and "R0901" in r.stderr and '"backend":"%s"' % to in r.stdout.replace(" ", ""), r.stdout + r.stderr)


job("10", fallback)

# ---- 11. schedules: each directive applies or is an error that says why; the printed schedule is fed back
FFN = program("T D F", "in x: f32[T,D]; in W: f32[D,F]; in V: f32[F,D];\nlet h[t,f] = relu(sum[d] x[t,d]*W[d,f]) ~ zeros(dynamic, density=0.05);\nout y[t,o] = sum[f] h[t,f]*V[f,o];")
x, W1, W2 = normal(37, 29), normal(29, 70), normal(70, 29)
ffn = np.maximum(f64(x) @ f64(W1), 0) @ f64(W2)
for directives in ("", "compact h axis=f gran=1x8;", "compact h axis=f gran=8x1;", "dense h;", "format h = csr;", "format h = bitmap(8,8);", "format h = bsr(4,4);", "tile y t=8 o=16;", "fuse h into y;", "split y f=16;"):
    def scheduled(directives=directives):
        for backend in BACKENDS:
            n, args = arguments(FFN + "schedule k { %s }\n" % directives, dict(x=x, W=W1, V=W2))
            r = spc("run", *args, "--backend=" + backend, "--out", "y=" + path("s%d%s.npy" % (n, backend)))
            if r.returncode == 0:
                check("11: `%s` on %s" % (directives, backend), differs(np.load(path("s%d%s.npy" % (n, backend))), ffn, 2e-5) is None, differs(np.load(path("s%d%s.npy" % (n, backend))), ffn, 2e-5))
            else:
                check("11: `%s` on %s is refused with a reason" % (directives, backend), r.returncode == 1 and re.search(r"error\[E05\d\d\]", r.stderr) and "^" in r.stderr, "exit %d %s" % (r.returncode, r.stderr))
    job("11", scheduled)
for fmt in ("csr", "csc", "coo", "dcsr", "bsr(4,4)", "bitmap(8,8)", "ell(70)", "twell(16,2)", "twell(16,1)", "dense_t"):
    case("11: `format h = %s` of a let with zeros at run time" % fmt, FFN + "schedule k { format h = %s; }\n" % fmt, dict(x=x, W=W1, V=W2), dict(y=ffn))
refuse("11: a sparse format where nothing makes zeros", FFN.replace("relu", "exp").replace(" ~ zeros(dynamic, density=0.05)", "") + "schedule k { format h = csr; }\n", "E0512", ["can differ from 0", "~ zeros(dynamic)"])
refuse("11: a sparse format with a fill", program("N M", "in x: f32[N,M]; let h[t,f] = relu(x[t,f]) on f <= t fill 2 ~ zeros(dynamic); out y[t,f] = h[t,f] + 1; out z[f,t] = h[t,f];", more="schedule k { format h = csr; }"), "E0512", ["its value is 2"])
refuse("11: lists of what is stored sparse", FFN + "schedule k { format h = csr; compact h axis=f gran=8x1; }\n", "E0515", ["walk the entries"])
for directives, code, words in (("compact q axis=f gran=1x8;", "E0503", ["`q`"]), ("compact h axis=z gran=1x8;", "E0503", ["`z`"]), ("tile y q=8;", "E0503", ["`q`"]), ("fuse y into h;", "E05", ["`y`"]),
                                ("format x = csr;", "E05", ["`x`"]), ("format h = nonsense;", "E0404", ["nonsense"]), ("library h;", "E05", [])):
    refuse("11: `%s`" % directives, FFN + "schedule k { %s }\n" % directives, code, words)
refuse("11: compact on an axis whose order matters", program("N M", "in x: f32[N]; in w: f32[3]; let h[i] = relu(x[i]) : f32 ~ zeros(dynamic);\nout y[i] = sum[q] w[q]*h[q+i] : f32[N];", more="schedule k { compact h axis=i gran=1x1; }\n").replace("h[q+i]", "h[q+i]"), "E0", ["h"])
refuse("11: a schedule for no kernel", FFN + "schedule kk { dense h; }\n", "E0", ["kk"])


def fed_back():
    for target in ("cpu", "sm_90a"):
        r = spc("explain", write("fed.spx", FFN), "--target=" + target, "--emit=schedule")
        again = spc("compile", write("fed2.spx", FFN + "\n" + r.stdout), "--target=" + target, "--emit=tile")
        check("11: the printed schedule for %s is read back" % target, r.returncode == 0 and "schedule k" in r.stdout and again.returncode == 0, r.stdout + r.stderr + again.stderr)


job("11: fed back", fed_back)

# ---- 2. an index that is shorter than the axis it goes along: entries beyond it are not met
W = rand(11, 8, 0.5, 77).toarray()                      # [N+2, M] with N = 9
P, Q, v = normal(8, 5), normal(9, 5), normal(9)
for fmt in ("csr", "csc", "coo", "dcsr", "bsr(4,4)", "bitmap(4,4)", "ell(11)", "twell(8,2)", "dense"):
    case("2: rows of a longer axis, %s" % fmt, program("N M D", """
  in W: f32[N+2,M] as %s; in P: f32[M,D]; in v: f32[N];
  out y[i,d] = sum[j] W[i+0,j]*P[j,d] : f32[N,D];  out t[j,i] = W[i+0,j] : f32[M,N];  out s[j] = sum[i] W[i+0,j]*v[i];""" % fmt),
         dict(W=W, P=P, v=v), dict(y=f64(W[:9]) @ P, t=W[:9].T, s=f64(W[:9]).T @ v))
    case("2: columns of a longer axis, %s" % fmt, program("N M D", """
  in W: f32[M,N+2] as %s; in Q: f32[N,D]; in v: f32[N];
  out y[j,d] = sum[i] W[j,i+0]*Q[i,d] : f32[M,D];  out t[i,j] = W[j,i+0] : f32[N,M];  out s[j] = sum[i] W[j,i+0]*v[i];""" % fmt),
         dict(W=W.T.copy(), Q=Q, v=v), dict(y=f64(W[:9]).T @ Q, t=W[:9], s=f64(W[:9]).T @ v))
for fmt in ("csr", "csc", "coo", "dcsr"):
    case("2: a sparse result of a longer axis, %s" % fmt, program("N M D", """
  in W: f32[N+2,M] as %s; in V: f32[N+2,M] as csc;
  out y[i,j] = W[i+0,j] : f32[N,M] as csr;  out t[j,i] = W[i+0,j] : f32[M,N] as csr;  out a[i,j] = W[i+0,j] + V[i+1,j] : f32[N,M] as csr;""" % fmt),
         dict(W=W, V=W[::-1].copy()), dict(y=W[:9], t=W[:9].T, a=W[:9] + W[::-1][1:10]))

# ---- 2. one tensor that a statement reads in several ways: the list is of the right one
C = np.where(rng.random((9, 9)) < 0.2, normal(9, 9), 0).astype(np.float32)
S9 = normal(9, 7)
case("2: a list of a matrix whose diagonal is read too", program("N M", """
  in C: f32[N,N] ~ zeros(dynamic, density=0.1); in S: f32[N,M];
  out d[i] = max(C[i,i], sum[k] C[k,k]*C[k,i]) : f32[N];  out y[i,j] = sum[k] C[i,k]*S[k,j] : f32[N,M];  out t[i,j] = C[i,i] + sum[k] C[k,i]*S[k,j] : f32[N,M];
  out r[i] = sum[k] C[i,k]*C[k,i] : f32[N];  out w[i,c] = C[i,c] + C[c,i] : f32[N,N];"""),
     dict(C=C, S=S9), dict(d=np.maximum(np.diag(C), f64(C).T @ np.diag(C)), y=f64(C) @ S9, t=np.diag(C)[:, None] + f64(C).T @ S9, r=(f64(C) * C.T).sum(1), w=f64(C) + C.T))

# ---- 2. zeros of more than two dimensions: indices that follow one another are one
x_3, W_3, V_3, s_3 = normal(3, 5, 7), normal(11, 7), normal(11, 7), normal(3, 5)
h3 = np.maximum(f64(x_3) @ f64(W_3).T - 1.5, 0)
u3 = f64(x_3) @ f64(V_3).T
for hint in ("density=0.05", "density=0.9"):
    case("2: zeros of three dimensions, %s" % hint, program("B T D F", """
  in x: f32[B,T,D]; in W: f32[F,D]; in V: f32[F,D]; in s: f32[B,T];
  let h[b,t,f] = relu((sum[d] x[b,t,d]*W[f,d]) - 1.5) ~ zeros(dynamic, %s);  let u[b,t,f] = sum[d] x[b,t,d]*V[f,d] on h[b,t,f];
  out y[b,t,o] = s[b,t] * sum[f] h[b,t,f]*V[f,o];  out n[f] = max[b,t] h[b,t,f];  out r[b,t] = sum[f] h[b,t,f];
  out g[b,t,o] = sum[f] h[b,t,f]*u[b,t,f]*V[f,o];  out dW[f,d] = sum[b,t] h[b,t,f]*x[b,t,d];""" % hint),
         dict(x=x_3, W=W_3, V=V_3, s=s_3), dict(y=f64(s_3)[:, :, None] * (h3 @ V_3), n=h3.max((0, 1)), r=h3.sum(2), g=(h3 * u3) @ V_3, dW=np.einsum("btf,btd->fd", h3, f64(x_3))))
q4 = np.where(rng.random((2, 3, 4, 6)) < 0.3, normal(2, 3, 4, 6), 0).astype(np.float32)
case("2: zeros of four dimensions", program("B H T E O", """
  in q: f32[B,H,T,E] ~ zeros(dynamic); in w: f32[E,O]; in k: f32[B,H,T,E];
  out y[b,h,t,o] = sum[e] q[b,h,t,e]*w[e,o];  out z[b,h,t] = sum[e] q[b,h,t,e]*k[b,h,t,e];  out a[o] = sum[b,h,t,e] q[b,h,t,e]*w[e,o];"""),
     dict(q=q4, w=W_3[:6, :5].copy(), k=normal(2, 3, 4, 6) * 0 + 1), dict(y=f64(q4) @ W_3[:6, :5], z=f64(q4).sum(3), a=(f64(q4) @ W_3[:6, :5]).sum((0, 1, 2))))
case("2: zeros of three dimensions, one product of their own each", program("B T S D", """
  in x: f32[B,T,D] ~ zeros(dynamic); in k: f32[B,S,D];
  out y[b,t,s] = sum[d] x[b,t,d]*k[b,s,d];  out z[b,t] = sum[d] x[b,t,d];"""),
     dict(x=q4[0], k=q4[1, :, :3].copy()), dict(y=np.einsum("btd,bsd->bts", f64(q4[0]), f64(q4[1, :, :3])), z=f64(q4[0]).sum(2)))
case("2: a mask of three dimensions from outside", program("B T D O", """
  in x: f32[B,T,D]; in w: f32[D,O]; in m: b1[B,T,O] ~ zeros(dynamic);
  out y[b,t,o] = sum[d] x[b,t,d]*w[d,o] on m[b,t,o] fill -1;"""),
     dict(x=x_3, w=W_3.T.copy(), m=h3 > 0.5), dict(y=np.where(h3 > 0.5, f64(x_3) @ f64(W_3).T, -1)))

# ---- 8. a sparse result along ragged rows that is summed in a workspace: what is asked of a row's segment
X8, off8 = np.array([[1.5, 0], [0, 2], [3, 4], [0, 0], [5, 0]], np.float32), np.array([0, 0, 1, 1, 4, 5, 5], np.int32)
Q8 = np.arange(1, 7, dtype=np.float32) ** 2
seg8 = np.array([1, 3, 3, 3, 4])
for fmt in ("csc", "csr", "coo", "own(2)"):
    case("8: entries of a row times what its segment has, %s" % fmt, "format own(b) = [i,j] -> [ j/b: compressed, i: compressed, j%b: dense ];\n".join(program("M E R", """
  in X: f32[R,M] as %s; in Q: f32[E]; in off: i32[E+1]; ragged r in off[e]..off[e+1];
  out z[r] = sum[j] X[r,j]*Q[e] : f32[R] as coo;  out m[r] = Q[e] + max[j] X[r,j] : f32[R];""" % fmt).split("kernel k", 1)).replace("];\n {", "];\nkernel k {"),
         dict(X=X8, Q=Q8, off=off8), dict(z=X8.sum(1) * Q8[seg8], m=Q8[seg8] + X8.max(1)))
