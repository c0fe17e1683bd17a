"""Sums at stored entries and what is made of a row of them: sizes that are multiples of nothing, rows without entries, full rows."""
import numpy as np, scipy.sparse as sp
from .harness import *

rng = np.random.default_rng(61)


def pattern(rows, columns, kind):
    at = rng.random((rows, columns)) < dict(some=0.2, none=0, full=1, long=0.02)[kind]
    if kind == "long":  # one row has all columns, most have none
        at[:], at[rows // 2], at[rows - 1, 0] = False, True, True
    if kind == "some":
        at[::3] = False
    return at


for rows, columns, k, kind in ((1, 1, 1, "full"), (9, 11, 13, "some"), (37, 91, 7, "long"), (300, 41, 64, "some"), (70, 66, 257, "long"), (12, 19, 100, "none"), (33, 35, 40, "full"), (3, 517, 130, "full")):
    A, B, bias = (rng.integers(-4, 5, (n, k)).astype(np.float32) for n in (rows, columns, 1))
    bias = bias[0, :1].copy()
    at = pattern(rows, columns, kind)
    S = sp.csr_matrix(np.where(at, rng.integers(1, 5, at.shape), 0).astype(np.float32))
    AB = f64(A) @ f64(B).T
    s = np.where(at, AB / 16, -np.inf)
    e = np.exp(s - np.where(at.any(1), s.max(1, initial=-np.inf), 0)[:, None])
    soft = np.divide(e, e.sum(1, keepdims=True), out=np.zeros_like(e), where=e.sum(1, keepdims=True) > 0)
    for fmt in ("csr", "csc", "coo", "dcsr"):
        case("sums at entries of %s, %dx%dx%d, %s" % (fmt, rows, columns, k, kind), program("I J K", """
  in S: f32[I,J] as %s; in A: f32[I,K]; in B: f32[J,K]; in b: f32[1];
  out c[i,j] = S[i,j] * sum[k] A[i,k]*B[j,k] as like(S);  out d[i,j] = S[i,j] * relu(b[0] + sum[k] A[i,k]*B[j,k]) as like(S);
  out e[i,j] = sum[k] A[i,k]*B[j,k] on S[i,j] fill 3;""" % fmt), dict(S=S, A=A, B=B, b=bias),
             dict(c=S.toarray() * AB, d=S.toarray() * np.maximum(AB + bias, 0), e=np.where(at, AB, 3)), entries=dict(c=(S.nnz, fmt if fmt in ("csr", "csc", "coo") else None), d=(S.nnz, fmt if fmt in ("csr", "csc", "coo") else None)) if fmt != "dcsr" else {})
        case("attention over entries of %s, %dx%dx%d, %s" % (fmt, rows, columns, k, kind), program("I J K", """
  in S: pattern[I,J] as %s; in A: f32[I,K]; in B: f32[J,K];
  let p[i,j] = (sum[k] A[i,k]*B[j,k])*0.0625 on S[i,j] fill -inf;  let a[i,j] = softmax[j](p[i,j]);
  out o[i,d] = sum[j] a[i,j]*B[j,d];  out m[i] = max[j] p[i,j];""" % fmt), dict(S=S, A=A, B=B),
             dict(o=soft @ f64(B), m=s.max(1, initial=-np.inf)), rtol=2e-5)

# One operand several times over: where coordinates of an entry repeat (coo), two indices of a row are pairs of its entries, one index is each entry.
for rows, columns, kind in ((1, 1, "full"), (9, 11, "some"), (37, 61, "long"), (12, 19, "none"), (13, 21, "full")):
    at = pattern(rows, columns, kind)
    S = sp.csr_matrix(np.where(at, rng.integers(1, 5, at.shape), 0).astype(np.float32))
    A = f64(S.toarray())
    for fmt in ("coo", "csr", "csc", "dcsr"):
        case("pairs of a row's entries, %s, %dx%d, %s" % (fmt, rows, columns, kind), program("I J", """
  in S: f32[I,J] as %s;
  out c[j,l] = sum[i] S[i,j] * S[i,l];  out d[i,k] = sum[j] S[i,j] * S[k,j];  out q[i] = sum[j] S[i,j] * S[i,j];
  out w[i] = sum[j] S[i,j] * where(S[i,j] > 2, S[i,j], 1);""" % fmt), dict(S=S),
             dict(c=A.T @ A, d=A @ A.T, q=(A * A).sum(1), w=(A * np.where(A > 2, A, 1)).sum(1)))

# Rows longer than one warp takes (1024 entries), as long, one longer, empty, last; rows and columns that are multiples of nothing.
LENGTHS = (0, 1024, 1025, 3, 2100, 0, 1, 1023, 1026, 40, 0, 2048, 2049, 8, 0, 5, 1032, 2099, 2, 0, 2100)


def long_rows(lengths, columns):
    rows = np.concatenate([np.full(n, i) for i, n in enumerate(lengths)])
    at = np.concatenate([np.sort(rng.permutation(columns)[:n]) for n in lengths])
    return sp.csr_matrix((rng.integers(1, 4, len(at)), (rows, at)), (len(lengths), columns))


for dtype, out, columns in (("f32", "f32", 33), ("f32", "f32", 200), ("f32", "f32", 384), ("bf16", "f32", 64), ("bf16", "bf16", 300), ("f64", "f64", 150), ("i32", "i32", 130)):
    S, acc = long_rows(LENGTHS, 2100), "f32" if out == "bf16" else out
    B, bias = (rng.integers(-3, 4, n).astype(dict(f64=np.float64, i32=np.int32).get(dtype, np.float32)) for n in ((2100, columns), columns))
    SB, most = S.toarray() @ f64(B), np.stack([(row[:, None] * B).max(0) for row in S.toarray()])
    for fmt in ("csr", "dcsr"):
        for value, binds, want in (("sum[k] S[i,k]*B[k,n] : %s acc %s" % (out, acc), {}, SB), ("max[k] S[i,k]*B[k,n] : %s" % dtype, {}, most),
                                   ("relu(b[n] - sum[k] S[i,k]*B[k,n]) : %s acc %s" % (out, acc), dict(b=bias), np.maximum(f64(bias) - SB, 0))):
            case("long rows of %s times %s, %d columns, %s" % (fmt, dtype, columns, value),
                 program("I K N", "in S: %s[I,K] as %s; in B: %s[K,N];%s out c[i,n] = %s;" % (dtype, fmt, dtype, " in b: %s[N];" % dtype if binds else "", value)),
                 dict(S=S.astype(B.dtype), B=B, **binds), dict(c=want), rtol=4e-3 if out == "bf16" else None)
