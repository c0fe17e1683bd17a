"""Storage: every dtype in sparse formats, formats of the user's own, results in every built-in format, empty sizes."""
import numpy as np, scipy.sparse as sp
from .harness import *

rng = np.random.default_rng(81)
normal = lambda *shape: rng.normal(size=shape).astype(np.float32)

# ---- every dtype in sparse formats: small integers, so that every dtype is near exact
TYPES = (("f16", np.float16), ("bf16", np.float32), ("i8", np.int8), ("i16", np.int16), ("i32", np.int32), ("u8", np.uint8), ("f64", np.float64), ("f8e4m3", np.float32))
for name, t in TYPES:
    for fmt in ("csr", "bsr(3,4)", "twell(8,2)") if name in ("f16", "i8") else ("csr",):
        A, B = (np.where(rng.random((11, 13)) < 0.3, rng.integers(1, 4, (11, 13)), 0).astype(t) for _ in range(2))
        case("%s in %s" % (name, fmt), program("N M", "in A: %s[N,M] as %s; in B: %s[N,M] as csr; in D: %s[M,N];" % (name, fmt, name, name) + """
  out s[i,j] = A[i,j] + B[i,j] as csr;  out p[i,j] = A[i,j]*B[i,j] as csr;  out g[i,k] = sum[j] A[i,j]*B[k,j] as csr;  out d[i,k] = sum[j] A[i,j]*D[j,k];
  out m[i] = max[j] A[i,j];  out l[i,j] = 2*A[i,j] as like(A);"""), dict(A=A, B=B, D=np.ascontiguousarray(B.T)),
             dict(s=A + B, p=A * B, g=f64(A) @ f64(B).T, d=f64(A) @ f64(B).T, m=A.max(1), l=2 * A), rtol=6e-2 if "f8" in name else 1e-2)
bools = rng.random((11, 13)) < 0.3
for fmt in ("csr", "bitmap(4,4)"):
    case("b1 in " + fmt, program("N M", "in A: b1[N,M] as %s; in x: f32[M]; out y[i] = sum[j] where(A[i,j], x[j], 0); out a[i] = any[j] A[i,j]; out c[i,j] = not A[i,j];" % fmt),
         dict(A=bools, x=np.arange(13, dtype=np.float32)), dict(y=bools @ np.arange(13.0), a=bools.any(1), c=~bools))

# ---- formats of the user's own, as operands and as results
A, B, C = sp.random(14, 18, 0.25, "csr", np.float32, 1), sp.random(14, 18, 0.25, "csr", np.float32, 2), sp.random(14, 14, 0.2, "csr", np.float32, 3)
d, b, x, D = A.toarray(), B.toarray(), normal(18), normal(18, 5)
READ = """in A: f32[N,M] as own; in B: f32[N,M] as csr; in x: f32[M]; in D: f32[M,K];
  out y[i] = sum[j] A[i,j]*x[j];  out C[i,k] = sum[j] A[i,j]*D[j,k];  out s[i,j] = A[i,j] + B[i,j] as csr;  out m[j] = max[i] A[i,j];  out l[i,j] = 3*A[i,j] as like(A);
  out t[i,h] = sum[j] A[i,j]*B[h,j] as csr;  out z[i,j] = A[i,j]*x[j];"""
MADE = """in A: f32[N,M] as csr; in B: f32[N,M] as csr; in C: f32[N,N] as csr;
  out s[i,j] = A[i,j] + B[i,j] as own;  out p[i,j] = A[i,j]*B[i,j] as own;  out q[i,j] = sum[k] C[i,k]*B[k,j] as own;
  let h[i,j] = 2*A[i,j] as own;  out r[i,j] = h[i,j] + B[i,j];"""
OWN = (("j: dense, i: compressed", True), ("j: compressed, i: compressed", True), ("i: compressed, j: singleton", True), ("j/4: compressed, i: compressed, j%4: dense", True),
       ("i/4: dense, j/8: compressed, i%4: dense, j%8: bitmap", True), ("i: dense, j/6: dense, j%6: nm(6)", False), ("i/2: compressed, j: compressed, i%2: dense", True),
       ("i: dense, j/6: compressed, j%6: packed(2,1)", True), ("i: dense, j: packed(2,1)", True), ("i: packed(3,1), j: compressed", True), ("j/4: dense, i: packed(2,1), j%4: dense", True), ("i: dense, j: packed(18)", False), ("i/8: dense, j: compressed, i%8: dense", True), ("j/5: dense, i/4: compressed, j%5: dense, i%4: dense", True))
for levels, as_result in OWN:
    own = lambda body, dims="N M K": program(dims, body).replace("kernel k", "format own = [i,j] -> [ %s ];\nkernel k" % levels)
    case("own format [ %s ]" % levels, own(READ), dict(A=A, B=B, x=x, D=D), dict(y=d @ f64(x), C=d @ f64(D), s=d + b, m=d.max(0), l=3 * d, t=f64(d) @ b.T, z=d * f64(x)))
    if as_result:
        case("a result in [ %s ]" % levels, own(MADE, "N M"), dict(A=A, B=B, C=C), dict(s=d + b, p=d * b, q=f64(C.toarray()) @ b, r=2 * d + b))
for fmt in ("dcsr", "csf", "ell(18)", "bitmap(4,4)", "twell(6,1)", "twell(5,2)", "dense_t", "bsr(4,3)", "csc"):
    case("results and intermediates in " + fmt, program("N M", "in A: f32[N,M] as csr; in B: f32[N,M] as csc; out s[i,j] = A[i,j] + B[i,j] as %s; out p[i,j] = A[i,j]*B[i,j] as %s; let h[i,j] = A[i,j] - B[i,j] as %s; out t[i] = sum[j] h[i,j]*h[i,j]; out u[j] = max[i] h[i,j];" % (fmt, fmt, fmt)),
         dict(A=A, B=B), dict(s=d + b, p=d * b, t=(f64(d - b) ** 2).sum(1), u=(d - b).max(0)))

# ---- twell: what overflows a tile lies in the dense rest, as an operand, a pattern, an intermediate and a result
def filled(kind, n=14, m=18):
    a = np.zeros((n, m), np.float32)
    if kind == "no tile":
        a[np.arange(n), np.arange(n)] = rng.integers(1, 5, n)
    elif kind == "one row":
        a[n // 2] = rng.integers(1, 5, m)
        a[1, 2] = 7
    else:
        a[:] = rng.integers(1, 5, (n, m))
    return a


for kind in ("no tile", "one row", "all tiles"):
    for fmt in ("twell(4,1)", "twell(5,2)", "twell(18,1)", "twell(64,3)", "twell(1,1)"):
        a, m = filled(kind), C.toarray()
        case("%s of %s overflows" % (kind, fmt), program("N M K", "in A: f32[N,M] as %s; in P: pattern[N,M] as %s; in B: f32[N,M] as csr; in C: f32[N,N] as csr; in x: f32[M]; in D: f32[M,K];" % (fmt, fmt) + """
  out y[i] = sum[j] A[i,j]*x[j];  out p[i,k] = sum[j] A[i,j]*D[j,k];  out s[i,j] = A[i,j] + B[i,j] as csr;  out e[i,j] = A[i,j]*B[i,j];  out u[j] = max[i] A[i,j];  out l[i,j] = 3*A[i,j] as like(A);
  out v[i,j] = B[i,j] - 1.0 on P[i,j];  out w[i,j] = A[i,j] + B[i,j] as %s;  out q[i,j] = sum[g] C[i,g]*A[g,j] as %s;  let h[i,j] = A[i,j] - 2*B[i,j] as %s;  out z[i] = sum[j] h[i,j]*h[i,j];  out c[j,i] = A[i,j] as csr;""" % (fmt, fmt, fmt)),
             dict(A=a, P=a, B=B, C=C, x=x, D=D), dict(y=f64(a) @ x, p=f64(a) @ D, s=a + b, e=a * b, u=a.max(0), l=3 * a, v=np.where(a != 0, b - 1, 0), w=a + b, q=f64(m) @ a, z=((f64(a) - 2 * b) ** 2).sum(1), c=a.T),
             entries=dict(s=(((a != 0) | (b != 0)).sum(), "csr"), c=((a != 0).sum(), "csr")))

# ---- results that are stored by their values: zeros that only the values show
X, W = rng.integers(-3, 4, (14, 9)).astype(np.float32), rng.integers(-3, 4, (9, 18)).astype(np.float32)
R = np.maximum(X @ W - 6, 0)
for fmt in ("csr", "csc", "coo", "dcsr", "csf", "bsr(4,3)", "bitmap(4,4)", "ell(18)", "twell(4,1)", "twell(18,2)", "twell(64,64)"):
    kept = None if fmt[:3] not in ("csr", "csc", "coo") else ((R != 0).sum(), fmt)
    case("by value in " + fmt, program("N K M", "in X: f32[N,K]; in W: f32[K,M]; in D: f32[M,K]; out h[i,j] = relu((sum[k] X[i,k]*W[k,j]) - 6) as %s ~ zeros(dynamic); let g[i,k] = topk[k](X[i,k], 2) as %s ~ zeros(dynamic); out y[i,k] = sum[j] h[i,j]*D[j,k]; out z[i] = sum[k] g[i,k]*g[i,k]; out t[i,j] = h[i,j] + 1;" % (fmt, fmt.replace("18", "9"))),
         dict(X=X, W=W, D=D.astype(np.float32)[:, [0, 1, 2, 3, 4, 0, 1, 2, 3]]), dict(h=R, y=f64(R) @ D[:, [0, 1, 2, 3, 4, 0, 1, 2, 3]], z=(np.sort(X, 1)[:, ::-1][:, :2].astype(np.float64) ** 2).sum(1), t=R + 1), entries=dict(h=kept) if kept else {})
case("by value through hints of the operands", program("N M", "in A: f32[N,M] ~ zeros(dynamic); in B: f32[N,M] as csr; out y[i,j] = 2*A[i,j] as csr; out s[i,j] = A[i,j] + B[i,j] as twell(4,1);"), dict(A=a, B=B), dict(y=2 * a, s=a + b), entries=dict(y=((a != 0).sum(), "csr")))
refuse("a full function is not stored by value", program("N M", "in A: f32[N,M]; out y[i,j] = exp(A[i,j]) as csr ~ zeros(dynamic);"), "E0401", ["not zero where its operands are zero"])
refuse("by value beyond ell's width", program("N M", "in A: f32[N,M] ~ zeros(dynamic); out y[i,j] = 2*A[i,j] as ell(2);"), "E0702", ["`y`", "ell(2)"], dict(A=a))

# ---- sizes of 0 and 1
for n, m in ((0, 0), (0, 5), (5, 0), (1, 1)):
    Z = np.zeros((n, m), np.float32)
    case("sizes %d and %d" % (n, m), program("N M", """in A: f32[N,M] as csr; in D: f32[N,M]; in P: pattern[N,M] as bsr(2,2);
  let t[i,j] = A[i,j]*D[i,j] ~ zeros(dynamic);  out y[i] = sum[j] t[i,j];  out s[i,j] = A[i,j] + t[i,j];  out u[i,j] = 2*A[i,j] as csr;  out q[i,k] = sum[j] A[i,j]*D[k,j];
  out a[i,j] = softmax[j](D[i,j]);  out g[i,k] = sum[j] A[i,j]*A[k,j] as csr;  out z[] = sum[i,j] A[i,j];  out w[i,j] = D[i,j] on P[i,j];  out k_[i,j] = topk[j](D[i,j], 2);  out r[j,i] = A[i,j] as csc;"""),
         dict(A=sp.csr_matrix(Z), D=Z, P=sp.csr_matrix(Z)), dict(y=Z.sum(1), s=Z, u=Z, q=np.zeros((n, n)), a=Z + (n * m == 1), g=np.zeros((n, n)), z=np.float64(0), w=Z, k_=Z, r=Z.T))

# ---- a stored entry of a blocked pattern is its whole block
P, V = sp.csr_matrix((np.ones(3, np.float32), ([0, 5, 8], [1, 6, 0])), shape=(9, 11)), normal(9, 11)
blocks = np.zeros((10, 12), bool)
for i, j in ((0, 1), (5, 6), (8, 0)):
    blocks[i // 5 * 5:i // 5 * 5 + 5, j // 4 * 4:j // 4 * 4 + 4] = True
case("a blocked pattern from single entries", program("N M", "in P: pattern[N,M] as bsr(5,4); in V: f32[N,M]; out y[i,j] = V[i,j] on P[i,j];"), dict(P=P, V=V), dict(y=np.where(blocks[:9, :11], V, 0)))
