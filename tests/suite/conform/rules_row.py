"""Rules 14 and 15: storage never changes meaning, reductions of rows, softmax, topk."""
import numpy as np, scipy.sparse as sp
from .harness import *

rng = np.random.default_rng(41)


def softmax(a, axis=1):
    top = a.max(axis, keepdims=True)
    w = np.where(np.isneginf(top), 0, np.exp(a - np.where(np.isneginf(top), 0, top)))
    total = w.sum(axis, keepdims=True)
    return np.where(total > 0, w / np.where(total > 0, total, 1), 0)


def topk(a, k):
    order = np.argsort(-a, axis=1, kind="stable")[:, :k]
    out = np.zeros_like(a)
    np.put_along_axis(out, order, np.take_along_axis(a, order, 1), 1)
    return out


def matrix(kind):
    a = rng.integers(-3, 4, (11, 17)).astype(np.float32)
    a[rng.random(a.shape) < {"sparse": 0.7, "full": 0, "empty": 1}[kind]] = 0
    if kind == "full":
        a[a == 0] = -1
    a[3] = -abs(a[3])                                   # a row that is negative or missing
    a[5] = 0
    return a


ROWS = """in A: f32[N,M] as %s; in x: f32[M];
  out hi[i] = max[j] A[i,j];  out lo[i] = min[j] A[i,j];  out p[i] = prod[j] A[i,j];  out a[i] = argmax[j] A[i,j];  out s[i] = sum[j] A[i,j];
  out any_[i] = any[j] (A[i,j] > 0);  out all_[i] = all[j] (A[i,j] != 0);  out hx[i] = max[j] A[i,j]*x[j];  out col[j] = max[i] A[i,j];  out g[j] = argmax[i] A[i,j];
  out sm[i,j] = softmax[j](A[i,j]);  out sc[i,j] = softmax[i](A[i,j]);  out tk[i,j] = topk[j](A[i,j], 3);  out le[i] = sum[j] where(A[i,j] <= 0, 1, 0) : i32;  out q[] = max[i,j] A[i,j];"""
for fmt in ("csr", "csc", "coo", "dcsr", "bsr(3,4)", "ell(17)", "bitmap(4,4)", "twell(8,2)", "dense", "dense_t"):
    for kind in ("sparse", "full", "empty") if fmt in ("csr", "coo", "bsr(3,4)") else ("sparse",):
        A, x = matrix(kind), rng.normal(size=17).astype(np.float32)
        W = f64(A)
        case("14: reductions over %s rows, %s" % (fmt, kind), program("N M", ROWS % fmt), dict(A=A if "dense" in fmt else sp.csr_matrix(A), x=x),
             dict(hi=A.max(1), lo=A.min(1), p=W.prod(1), a=A.argmax(1), s=W.sum(1), any_=(A > 0).any(1), all_=(A != 0).all(1), hx=(A * x).max(1), col=A.max(0), g=A.argmax(0),
                  sm=softmax(W), sc=softmax(W, 0), tk=topk(A, 3), le=(A <= 0).sum(1), q=A.max()))
# n:m rows
q = rng.integers(-9, 10, (6, 16)).astype(np.int8)
q[(np.argsort(np.argsort(rng.random((6, 4, 4)), 2), 2) >= 2).reshape(6, 16)] = 0
case("14: reductions over nm(2,4) rows", program("N M", "in A: i8[N,M] as nm(2,4); out hi[i] = max[j] A[i,j]; out lo[i] = min[j] A[i,j]; out a[i] = argmax[j] A[i,j]; out p[i] = prod[j] A[i,j]; out s[i] = sum[j] A[i,j] : i32; out c[j] = min[i] A[i,j]; out d[i,j] = A[i,j] + 1;"),
     dict(A=q), dict(hi=q.max(1), lo=q.min(1), a=q.argmax(1), p=np.zeros(6), s=q.sum(1), c=q.min(0), d=q + 1))
# three dimensions
T = np.where(rng.random((4, 5, 6)) < 0.3, rng.integers(-4, 5, (4, 5, 6)), 0).astype(np.float32)
T[2] = 0
for fmt in ("csf", "coo"):
    case("14: reductions over a %s of three dimensions" % fmt, program("N M K", "in A: f32[N,M,K] as %s; out hi[i,j] = max[k] A[i,j,k]; out m[k] = min[i,j] A[i,j,k]; out p[i,k] = prod[j] A[i,j,k]; out s[j] = sum[i,k] A[i,j,k]; out d[k,j,i] = A[i,j,k] - 1;" % fmt),
         dict(A=T), dict(hi=T.max(2), m=T.min((0, 1)), p=f64(T).prod(1), s=f64(T).sum((0, 2)), d=T.transpose(2, 1, 0) - 1))

# softmax
v = rng.normal(size=(5, 9)).astype(np.float32)
m = rng.random((5, 9)) < 0.5
m[2] = False
m[4] = True
case("14: a row that is all -inf has a softmax of zeros", program("N M", "in v: f32[N,M]; in m: pattern[N,M] as csr; in l: f32[N,M]; let p[i,j] = v[i,j] on m[i,j] fill -inf; out a[i,j] = softmax[j](p[i,j]); out b[i,j] = softmax[j](l[i,j]); out c[i] = sum[j] exp(p[i,j]); out h[i] = max[j] p[i,j];"),
     dict(v=v, m=sp.csr_matrix(m.astype(np.float32)), l=np.where(m, v, -np.inf).astype(np.float32)),
     dict(a=softmax(np.where(m, f64(v), -np.inf)), b=softmax(np.where(m, f64(v), -np.inf)), c=np.exp(np.where(m, f64(v), -np.inf)).sum(1), h=np.where(m, v, -np.inf).max(1)))
big = np.float32([[1000, 1000, 0], [-1000, -1000, -1001], [np.inf, 0, 0]])
case("14: softmax does not overflow", program("N M", "in v: f32[N,M]; out a[i,j] = softmax[j](v[i,j]);"), dict(v=big[:2]), dict(a=softmax(f64(big[:2]))))

# duplicates and unsorted rows are sorted and summed by the reader
dup = sp.coo_matrix((np.float32([1, 2, 3, 4, 5]), ([0, 2, 0, 2, 1], [3, 1, 3, 0, 2])), shape=(4, 5))
for fmt in ("csr", "coo", "csc", "dcsr", "bsr(2,2)"):
    case("14: a reader sorts and sums duplicates, %s" % fmt, program("N M", "in A: f32[N,M] as %s; in x: f32[M]; out y[i] = sum[j] A[i,j]*x[j]; out h[i] = max[j] A[i,j]; out B[i,j] = A[i,j] as like(A);" % fmt),
         dict(A=dup, x=np.float32([1, 2, 3, 4, 5])), dict(y=dup.toarray() @ [1, 2, 3, 4, 5.0], h=dup.toarray().max(1), B=dup.toarray()))

# ---- 15. const, topk
ties = np.float32([[1, 3, 3, 3, 2], [0, 0, 0, 0, 0], [-1, -2, -1, -1, -5], [np.inf, 1, np.inf, 2, -np.inf]])
for k in (1, 2, 5, 9):
    case("15: topk keeps the %d largest, the first of ties" % k, program("N M", "in A: f32[N,M] const; out y[i,j] = topk[j](A[i,j], %d); out s[i] = sum[j] topk[j](A[i,j], %d);" % (k, k)),
         dict(A=ties[:3]), dict(y=topk(ties[:3], k), s=topk(f64(ties[:3]), k).sum(1)))
W = rng.normal(size=(5, 7)).astype(np.float32)
case("15: topk of a product, and its product", program("N M K", "in A: f32[N,K]; in B: f32[K,M]; in W: f32[M,K]; let t[i,j] = topk[j](sum[k] A[i,k]*B[k,j], 2) ~ zeros(dynamic); out y[i,k] = sum[j] t[i,j]*W[j,k];"),
     dict(A=ties[:3], B=W, W=W.T.copy()), dict(y=topk(f64(ties[:3]) @ f64(W), 2) @ f64(W.T)))
S = sp.random(6, 12, 0.3, "csr", np.float32, 8)
S.data -= 0.5
whole = np.array([[2**62 + 1, 2**62 + 3, 3, 2**62 + 2], [-2**63, 5, 2**63 - 1, 7]], np.int64)
case("15: topk of integers that no float tells apart", program("N M R E", """
  in A: i64[N,M]; in off: i32[E+1]; in X: i64[R,M]; ragged r in off[e]..off[e+1];
  out y[i,j] = topk[j](A[i,j], 2);  out s[i] = sum[j] topk[j](A[i,j], 1) : i64[N];  out z[e,j] = topk[e](min[r] X[r,j], 2) : i64[E,M];"""),
     dict(A=whole, X=whole, off=np.array([0, 0, 2], np.int32)),
     dict(y=np.array([[0, 2**62 + 3, 0, 2**62 + 2], [0, 0, 2**63 - 1, 7]]), s=np.array([2**62 + 3, 2**63 - 1]), z=np.array([[2**63 - 1] * 4, whole.min(0)])))
rows = sp.csr_matrix(np.array([[3, 0, 5, 0, 7, 0], [2, 6, 4, 1, 9, 0], [1, 2, 0, 0, 8, 7]], np.float32))
segments = np.array([0, 2, 2, 5], np.int32)
inside = (np.arange(6) >= segments[:-1, None]) & (np.arange(6) < segments[1:, None])
largest = np.where(inside, topk(f64(rows.toarray().T), 1).T, 0)
for has in ("csr", "csc", "coo"):
    for gets in ("csr", "csc", "coo", "dense"):
        case("15: topk along what cuts rows in segments, %s to %s" % (has, gets), program("E R", "in X: f32[E,R] as %s; in off: i32[E+1]; ragged r in off[e]..off[e+1]; out y[e,r] = topk[e](X[e,r], 1) as %s;" % (has, gets)),
             dict(X=rows, off=segments), dict(y=largest))
for count in (0, 1):                                    # rows that lie in no segment
    case("8: rows of %d segments, turned" % count, program("E R M", "in X: f32[R,M] as csr; in off: i32[E+1]; ragged r in off[e]..off[e+1]; out y[j,r] = X[r,j] : f32[M,R] as csc;"),
         dict(X=rows, off=np.array([0, 2][:count + 1], np.int32)), dict(y=np.where(np.arange(3) < 2 * count, rows.toarray().T, 0)))
case("15: topk over csr rows sees their zeros", program("N M", "in A: f32[N,M] as csr; out y[i,j] = topk[j](A[i,j], 4);"), dict(A=S), dict(y=topk(S.toarray(), 4)))
