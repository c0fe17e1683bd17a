"""Expressions that sparse compilers find hard, with sparse and dense results, in mixes of formats."""
import numpy as np, scipy.sparse as sp
from .harness import *

rng = np.random.default_rng(61)
n = 19
mats = [sp.random(n, n, density, "csr", np.float64, seed) for seed, density in enumerate((0.15, 0.2, 0.1, 0.3))]
for m in mats:
    m.data = rng.integers(1, 6, m.nnz) * rng.choice([-1.0, 1.0], m.nnz)
    m[7] = 0
    m.eliminate_zeros()
A, B, C, D = (m.toarray() for m in mats)
c, x = 3.0, rng.integers(-4, 5, n).astype(np.float64)
HARD = {  # out: (statement, value)
    "A*B": ("out r[i,k] = sum[j] A[i,j]*B[j,k]", A @ B),
    "A'DA": ("out r[i,j] = sum[k,l] A[k,i]*D[k,l]*A[l,j]", A.T @ D @ A),
    "A'diag(x)A": ("out r[i,j] = sum[k] A[k,i]*x[k]*A[k,j]", A.T @ np.diag(x) @ A),
    "A'A": ("out r[i,j] = sum[k] A[k,i]*A[k,j]", A.T @ A),
    "(cA+B)'(cB'+C)": ("out r[i,j] = sum[k] (c*A[k,i] + B[k,i])*(c*B[j,k] + C[k,j])", (c * A + B).T @ (c * B.T + C)),
    "ABC": ("out r[i,l] = sum[j,k] A[i,j]*B[j,k]*C[k,l]", A @ B @ C),
    "A(BC)": ("let t[j,l] = sum[k] B[j,k]*C[k,l]; out r[i,l] = sum[j] A[i,j]*t[j,l]", A @ B @ C),
    "(A+B)(A+B+C)": ("out r[i,k] = sum[j] (A[i,j] + B[i,j])*(A[j,k] + B[j,k] + C[j,k])", (A + B) @ (A + B + C)),
    "A+A'": ("out r[i,j] = A[i,j] + A[j,i]", A + A.T),
    "A'+B'": ("out r[i,j] = A[j,i] + B[j,i]", A.T + B.T),
    "A+B+C": ("out r[i,j] = A[i,j] + B[i,j] - 2*C[j,i]", A + B - 2 * C.T),
    "A.B+C": ("out r[i,j] = A[i,j]*B[i,j] + C[i,j]*x[j]", A * B + C * x),
    "A.(BC)": ("out r[i,j] = A[i,j] * sum[k] B[i,k]*C[k,j]", A * (B @ C)),
    "A.B'.C": ("out r[i,j] = A[i,j]*B[j,i]*C[i,j]", A * B.T * C),
    "A(B+C')": ("out r[i,k] = sum[j] A[i,j]*(B[j,k] + C[k,j])", A @ (B + C.T)),
}
MIXES = [("csr", "csr", "csr", "csr"), ("csc", "csr", "coo", "dcsr"), ("coo", "csc", "csr", "csc"), ("dcsr", "coo", "bsr(3,4)", "csr"), ("csr", "dense", "csr", "dense"), ("bsr(4,4)", "bsr(4,4)", "bsr(4,4)", "coo")]
RESULTS = ("dense", "csr", "csc", "coo", "dcsr", "bsr(4,4)")
for which, (statement, value) in enumerate(HARD.items()):
    text, want = value
    used = {k: m for k, m in zip("ABCD", mats) if k + "[" in text}
    for k, mix in enumerate(MIXES):
        result = RESULTS[(which + k) % len(RESULTS)]
        if "dense" in mix and result != "dense":
            result = "dense"                            # a dense factor in a sum has no pattern
        decl = " ".join("in %s: f64[N,N] as %s;" % (a, f) for a, f in zip("ABCD", mix) if a in used)
        more = "in x: f64[N]; " * ("x[" in text) + "in c: f64[];" * ("c*" in text)
        binds = dict(used, **({"x": x} if "x[" in text else {}), **({"c": np.float64(c)} if "c*" in text else {}))
        case("%s of %s as %s" % (statement, " ".join(f for a, f in zip("ABCD", mix) if a in used), result), program("N", decl + more + "\n" + text + " as " + result + ";"),
             binds, dict(r=want), rtol=1e-13, entries={} if result == "dense" else dict(r=None))

# ---- three dimensions
T = np.where(rng.random((7, 9, 11)) < 0.15, rng.integers(-5, 6, (7, 9, 11)), 0).astype(np.float64)
T[3] = 0
T[:, 4] = 0
U, V, v, G = rng.normal(size=(9, 5)), rng.normal(size=(11, 5)), rng.normal(size=11), rng.normal(size=(11, 4))
coordinates = np.argwhere(T)


def tns(backend=None):
    return write("T.tns", "".join("%d %d %d %r\n" % (*(p + 1), float(T[tuple(p)])) for p in coordinates))


HEAD = "in T: f64[I,J,K] as %s;"
for fmt in ("csf", "coo", "dense"):
    source = tns() if fmt == "csf" else T
    case("MTTKRP, TTV, TTM, inner products on " + fmt, program("I J K R", HEAD % fmt + """ in U: f64[J,R]; in V: f64[K,R]; in v: f64[K]; in G: f64[K,R];
  out m[i,r] = sum[j,k] T[i,j,k]*U[j,r]*V[k,r];  out y[i,j] = sum[k] T[i,j,k]*v[k];  out z[i,j,r] = sum[k] T[i,j,k]*V[k,r];  out w[j,k] = sum[i] T[i,j,k];
  out q[k,r] = sum[i,j] T[i,j,k]*U[j,r];  out s[] = sum[i,j,k] T[i,j,k]*T[i,j,k];  out p[j,r] = sum[i,k] T[i,j,k]*V[k,r];"""),
         dict(T=source, U=U, V=V, v=v, G=rng.normal(size=(11, 5))),
         dict(m=np.einsum("ijk,jr,kr->ir", T, U, V), y=T @ v, z=T @ V, w=T.sum(0), q=np.einsum("ijk,jr->kr", T, U), s=(T * T).sum(), p=np.einsum("ijk,kr->jr", T, V)), dims=dict(I=7, J=9, K=11) if fmt == "csf" else None, rtol=1e-12)
case("TTV and TTM of csf with sparse results", program("I J K R", HEAD % "csf" + " in v: f64[K]; in V: f64[K,R]; in S: f64[K,R] as csr; out y[i,j] = sum[k] T[i,j,k]*v[k] as csr; out z[i,j,r] = sum[k] T[i,j,k]*S[k,r] as csf; out d[i,j,k] = 2*T[i,j,k] as like(T);"),
     dict(T=T, v=v, V=V, S=sp.random(11, 5, 0.3, "csr", np.float64, 9)), dict(y=T @ v, z=T @ sp.random(11, 5, 0.3, "csr", np.float64, 9).toarray(), d=2 * T), entries=dict(y=None), rtol=1e-12)
case("a sum and a product of csf tensors", program("I J K", "in A: f64[I,J,K] as csf; in B: f64[I,J,K] as csf; out u[i,j,k] = A[i,j,k] + B[i,j,k] as csf; out n[i,j,k] = A[i,j,k]*B[i,j,k] as csf; out d[i,j,k] = A[i,j,k] - B[i,j,k];"),
     dict(A=T, B=T[::-1].copy()), dict(u=T + T[::-1], n=T * T[::-1], d=T - T[::-1]))
