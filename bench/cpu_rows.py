"""The rows of bench/cpu.py: what is computed, on which operands, and what each side is asked to do.

A row has sets of operands (another mask each, taken by turns), programs of spc on them, functions of peers, and the
result in float64.  Times of peers include what their user would have to do; making the operands is never timed."""
import itertools

import numpy as np
import scipy.sparse as sp

rng = np.random.default_rng()
SETS = 3


class Row:
    """title; programs: {side: text}, the first is the row's own; peers: {side: function of a set, giving a call};
    want: function of a set; result: name and shape; length: terms of the longest sum; targets: [(side, least ratio)]."""

    def __init__(self, title, sizes, sets, programs, peers, want, result, length, flop=0, bytes=0, targets=(), best=(), operands=None):
        self.__dict__.update(locals())


def random(*shape):
    return rng.standard_normal(shape, dtype=np.float32)


def random_csr(m, k, density):
    """Independent zeros."""
    mask = rng.random((m, k), dtype=np.float32) < density
    return sp.csr_matrix(np.where(mask, random(m, k), np.float32(0)))


def wide_csr(m, k, a_row, band=None):
    """So many entries a row, one in each of a_row equal parts of the row (or of a band around the diagonal)."""
    span = (band or k) // a_row
    crd = (rng.integers(0, span, (m, a_row), dtype=np.int32) + np.arange(a_row, dtype=np.int32) * span)
    if band:
        crd += np.clip(np.arange(m, dtype=np.int32) * (k // m) - band // 2, 0, k - band)[:, None].astype(np.int32)
    pos = np.arange(m + 1, dtype=np.int32) * a_row
    return sp.csr_matrix((random(m * a_row), crd.reshape(-1), pos), (m, k))


def exact(*arrays):
    return [a.astype(np.float64) for a in arrays]


def percent(density):
    return "%g %%" % (100 * (1 - density))


def peers_of(peers, **functions):
    """Those functions whose peer is here: name=function(peer, set)."""
    out = {}
    for name, function in functions.items():
        if name in peers:
            out[name] = lambda s, p=peers[name], f=function: f(p, s)
    return out


# ---- dense -------------------------------------------------------------------------------------------
DENSE = "spx 1; dim M: dyn; dim N: dyn; dim K: dyn;\nkernel k { in A: f32[M,K]; in B: f32[%s]%s; out C[m,n] = sum[k] A[m,k]*B[%s]; }"


def dense(peers):
    cases = [("%d³" % n, n, n, n, False) for n in (512, 1024, 2048)]
    cases += [("linear %d × %d → %d" % (t, k, n), t, n, k, False) for t, k, n in ((1, 1024, 4096), (16, 1024, 4096), (256, 1024, 4096), (256, 4096, 1024))]
    cases += [("linear 256 × 1024 → 4096, W[out,in]", 256, 4096, 1024, True)]
    for title, m, n, k, turned in cases:
        sets = [dict(A=random(m, k), B=random(n, k) if turned else random(k, n), out=np.empty((m, n), np.float32))]
        text = DENSE % (("N,K", " const", "n,k") if turned else ("K,N", " const" if "linear" in title else "", "k,n"))
        yield Row(title, dict(M=m, N=n, K=k), sets, {"spc": text},
                  peers_of(peers, OpenBLAS=lambda p, s: p.gemm(s["A"], s["B"], s["out"], turned),
                           **({} if turned else dict(Eigen=lambda p, s: p.gemm(s["A"], s["B"], s["out"])))),
                  lambda s: np.matmul(*exact(s["A"], s["B"].T if turned else s["B"])), ("C", (m, n)), k, flop=2 * m * n * k, targets=[("OpenBLAS", 0.97)])


# ---- stored sparse -----------------------------------------------------------------------------------
SPMM = "spx 1; dim I: dyn; dim K: dyn; dim N: dyn;\nkernel k { in A: f32[I,K]%s; in B: f32[K,N]; out C[i,n] = sum[k] A[i,k]*B[k,n]; }"
SPMM_TARGETS = {0.1: [("MLIR", 3), ("OpenBLAS", 3)], 0.05: [("MLIR", 3), ("OpenBLAS", 6)], 0.01: [("MLIR", 2), ("OpenBLAS", 14)]}


def spmm(peers):
    for m, n, k, density in [(1024, 1024, 1024, d) for d in (0.5, 0.1, 0.05, 0.01, 0.001)] + [(4096, 128, 4096, d) for d in (0.1, 0.01)]:
        sets = [dict(A=random_csr(m, k, density), B=random(k, n), out=np.empty((m, n), np.float32)) for _ in range(SETS)]
        for s in sets:
            s["full"] = s["A"].toarray()
        yield Row("%d × %d × %d, %s zeros" % (m, k, n, percent(density)), dict(I=m, K=k, N=n), sets,
                  {"spc": SPMM % (" as csr ~ zeros(static, density=%g)" % density), "spc dense": (SPMM % "", dict(A="full"))},
                  peers_of(peers, OpenBLAS=lambda p, s: p.gemm(s["full"], s["B"], s["out"]), MLIR=lambda p, s: p.spmm(s["A"], s["B"], s["out"]),
                           Eigen=lambda p, s: p.spmm(s["A"], s["B"], s["out"]), SciPy=lambda p, s: lambda: s["A"] @ s["B"]),
                  lambda s: s["A"].astype(np.float64) @ s["B"].astype(np.float64), ("C", (m, n)), int(k * density) + 1, flop=2 * m * n * k * density,
                  targets=SPMM_TARGETS.get(density, []) if n == 1024 else [], best=("spc dense", "OpenBLAS", "MLIR"))


HINTS = [(0.05, d) for d in (0.75, 0.5, 0.35, 0.25, 0.05)] + [(0.5, d) for d in (0.25, 0.05, 0.01)] + [(None, 0.5)]


def hints(peers):
    """A hint that is wrong, or none: beside the same program with the right one, and dense."""
    n = 1024
    hint = lambda d: " as csr" + (" ~ zeros(static, density=%g)" % d if d else "")
    for told, density in HINTS:
        sets = [dict(A=random_csr(n, n, density), B=random(n, n), out=np.empty((n, n), np.float32)) for _ in range(SETS)]
        for s in sets:
            s["full"] = s["A"].toarray()
        yield Row("1024³, %s zeros, %s" % (percent(density), "hinted %s" % percent(told) if told else "no hint"), dict(I=n, K=n, N=n), sets,
                  {"spc": SPMM % hint(told), "spc told": SPMM % hint(density), "spc dense": (SPMM % "", dict(A="full"))},
                  peers_of(peers, OpenBLAS=lambda p, s: p.gemm(s["full"], s["B"], s["out"])),
                  lambda s: s["A"].astype(np.float64) @ s["B"].astype(np.float64), ("C", (n, n)), int(n * density) + 1, flop=2 * n ** 3 * density,
                  best=("spc dense", "OpenBLAS"))


ACROSS = ("x[t,k]*W[k,n], csr by k", "x: f32[I,K]; in A: f32[K,N] as csr", "x[i,k]*A[k,n]", False), ("x[t,k]*W[k,n], csc", "x: f32[I,K]; in A: f32[K,N] as csc", "x[i,k]*A[k,n]", True)


def across(peers):
    """Weights whose entries lie along k, or along the columns of the result."""
    n = 1024
    for (title, operands, product, csc), density in itertools.product(ACROSS, (0.5, 0.05)):
        sets = [dict(A=random_csr(n, n, density), x=random(n, n), out=np.empty((n, n), np.float32)) for _ in range(SETS)]
        for s in sets:
            s["full"] = s["A"].toarray()
            s["stored"] = s["A"].tocsc() if csc else s["A"]
        text = "spx 1; dim I: dyn; dim K: dyn; dim N: dyn;\nkernel k { in %s; out C[i,n] = sum[k] %s; }"
        hint = " ~ zeros(static, density=%g)" % density
        yield Row("%s, %s zeros" % (title, percent(density)), dict(I=n, K=n, N=n), sets,
                  {"spc": (text % (operands + hint, product), dict(A="stored")), "spc dense": (text % (operands.split(" as ")[0], product), dict(A="full"))},
                  peers_of(peers, OpenBLAS=lambda p, s: p.gemm(s["x"], s["full"], s["out"]), SciPy=lambda p, s: lambda: s["x"] @ s["A"]),
                  lambda s: s["x"].astype(np.float64) @ s["full"].astype(np.float64), ("C", (n, n)), int(n * density) + 1, flop=2 * n ** 3 * density,
                  best=("spc dense", "OpenBLAS"))


SPMV = "spx 1; dim I: dyn; dim K: dyn;\nkernel k { in A: f32[I,K] as csr; in x: f32[K]; out y[i] = sum[k] A[i,k]*x[k]; }"


def spmv(peers):
    cases = (("200k × 200k, 80 a row, band of 4000", 200000, 200000, 80, 4000), ("200k × 200k, 80 a row, anywhere", 200000, 200000, 80, None),
             ("1M × 1M, 12 a row, band of 4000", 1000000, 1000000, 12, 4000), ("4096 × 4096, 200 a row", 4096, 4096, 200, None))
    for title, m, k, a_row, band in cases:
        sets = [dict(A=wide_csr(m, k, a_row, band), x=random(k), out=np.empty(m, np.float32))]
        moved = sets[0]["A"].nnz * 8 + 8 * m + 4 * k
        yield Row(title, dict(I=m, K=k), sets, {"spc": SPMV},
                  peers_of(peers, MLIR=lambda p, s: p.spmv(s["A"], s["x"], s["out"]), Eigen=lambda p, s: p.spmv(s["A"], s["x"], s["out"]),
                           SciPy=lambda p, s: lambda: s["A"] @ s["x"]),
                  lambda s: s["A"].astype(np.float64) @ s["x"].astype(np.float64), ("y", (m,)), a_row, bytes=moved, targets=[("copy", 0.9)] if m > 100000 else [], best=("MLIR",))


SDDMM = "spx 1; dim I: dyn; dim J: dyn; dim K: dyn;\nkernel k { in S: f32[I,J] as csr; in A: f32[I,K]; in B: f32[J,K]; out C[i,j] = S[i,j] * sum[k] A[i,k]*B[j,k] as like(S); }"


def sddmm(peers):
    m, k = 2048, 128
    for density in (0.1, 0.01):
        sets = []
        for _ in range(SETS):
            S = random_csr(m, m, density)
            row = np.repeat(np.arange(m, dtype=np.int32), np.diff(S.indptr))
            sets.append(dict(S=S, A=random(m, k), B=random(m, k), place=row.astype(np.int64) * m + S.indices, row=row, out=np.empty((m, m), np.float32)))

        def sampled(p, s):
            product = p.gemm(s["A"], s["B"], s["out"], True)
            return lambda: np.multiply(product().reshape(-1).take(s["place"]), s["S"].data)
        yield Row("%d × %d × %d, %s zeros" % (m, m, k, percent(density)), dict(I=m, J=m, K=k), sets, {"spc": SDDMM},
                  peers_of(peers, OpenBLAS=sampled, MLIR=lambda p, s: p.sddmm(s["S"], s["A"], s["B"])),
                  lambda s: s["S"].data.astype(np.float64) * np.matmul(*exact(s["A"], s["B"].T)).reshape(-1)[s["place"]], ("C", None), k, flop=2 * m * m * k * density, best=("OpenBLAS", "MLIR"))


# ---- weights -----------------------------------------------------------------------------------------
LINEAR = "spx 1; dim T: dyn; dim O: dyn; dim K: dyn;\nkernel k { in x: f32[T,K]; in W: f32[O,K]%s const; out y[t,o] = sum[k] x[t,k]*W[o,k]; }"


def linear_row(peers, title, t, o, k, density, weights, form, extra, peer_functions):
    """weights: function giving (what spc is bound to, full matrix, csr matrix)."""
    sets = []
    for _ in range(SETS):
        stored, full = weights()
        x = random(t, k)
        sets.append(dict(x=x, W=stored, full=full, csr=sp.csr_matrix(full), turned=np.ascontiguousarray(x.T), out=np.empty((t, o), np.float32)))
    programs = {"spc": LINEAR % (" as " + form + extra), "spc dense": (LINEAR % "", dict(W="full")),
                "spc csr": (LINEAR % (" as csr ~ zeros(static, density=%g)" % density), dict(W="csr"))}
    return Row(title, dict(T=t, O=o, K=k), sets, programs, peers_of(peers, OpenBLAS=lambda p, s: p.gemm(s["x"], s["full"], s["out"], True), **peer_functions),
               lambda s: np.matmul(*exact(s["x"], s["full"].T)), ("y", (t, o)), int(k * density) + 1, flop=2 * t * o * k * density, best=("spc dense", "spc csr", "OpenBLAS"))


def bsr(peers):
    t, o, k = 256, 1024, 1024
    for b, density in ((16, 0.5), (16, 0.25), (16, 0.1), (16, 0.05), (32, 0.1), (4, 0.1)):
        def weights():
            mask = np.kron(rng.random((o // b, k // b)) < density, np.ones((b, b), bool))
            full = np.where(mask, random(o, k), np.float32(0))
            W = sp.bsr_matrix(full, blocksize=(b, b))
            W.sort_indices()
            return W, full
        yield linear_row(peers, "%d × %d → %d, blocks of %d×%d, %s zero" % (t, k, o, b, b, percent(density)), t, o, k, density, weights, "bsr(%d,%d)" % (b, b),
                         " ~ zeros(static, density=%g, gran=%dx%d)" % (density, b, b), dict(SciPy=lambda p, s: lambda: (s["W"] @ s["turned"]).T))


def nm(peers):
    for n, m, t, o, k in ((2, 4, 256, 1024, 1024), (1, 4, 256, 1024, 1024), (2, 4, 1, 4096, 4096)):
        def weights():
            crd = np.sort(np.argsort(rng.random((o, k // m, m)), axis=2)[:, :, :n], axis=2).astype(np.uint8)
            vals = random(o, k // m, n)
            full = np.zeros((o, k // m, m), np.float32)
            np.put_along_axis(full, crd.astype(np.int64), vals, 2)
            return ((o, k), [crd.reshape(-1), vals.reshape(-1)]), full.reshape(o, k)
        yield linear_row(peers, "%d × %d → %d, %d:%d" % (t, k, o, n, m), t, o, k, n / m, weights, "nm(%d,%d)" % (n, m), "", {})


# ---- dynamic -----------------------------------------------------------------------------------------
DYNAMIC = "spx 1; dim I: dyn; dim K: dyn; dim N: dyn;\nkernel k { in A: f32[I,K]%s; in B: f32[K,N]; out C[i,n] = sum[k] A[i,k]*B[k,n]; }%s"


def dynamic(peers):
    n = 1024
    for (r, c), density in (((1, 1), 0.5), ((1, 1), 0.1), ((1, 1), 0.05), ((1, 1), 0.01), ((32, 1), 0.5), ((32, 1), 0.1), ((32, 1), 0.01), ((1, 64), 0.1), ((64, 64), 0.1)):
        sets = []
        for _ in range(SETS):
            mask = np.kron(rng.random((n // r, n // c)) < density, np.ones((r, c), bool))
            sets.append(dict(A=np.where(mask, random(n, n), np.float32(0)), B=random(n, n), out=np.empty((n, n), np.float32)))
            sets[-1]["csr"] = sp.csr_matrix(sets[-1]["A"])
        yield Row("A %d³, %s zeros of %d×%d" % (n, percent(density), r, c), dict(I=n, K=n, N=n), sets,
                  {"spc": DYNAMIC % (" ~ zeros(dynamic, density=%g, gran=%dx%d)" % (density, r, c), ""), "spc dense": DYNAMIC % ("", ""),
                   "spc csr": (SPMM % (" as csr ~ zeros(static, density=%g)" % density), dict(A="csr"))},
                  peers_of(peers, OpenBLAS=lambda p, s: p.gemm(s["A"], s["B"], s["out"])),
                  lambda s: np.matmul(*exact(s["A"], s["B"])), ("C", (n, n)), n, flop=2 * n ** 3 * density, best=("spc dense", "OpenBLAS"))


LAYOUTS = "spx 1; dim I: dyn; dim K: dyn; dim N: dyn;\nkernel k { in A: f32[%s]%s; in B: f32[%s]%s; out C[%s] = sum[k] A[%s]*B[%s]; }%s"


def layouts(peers):
    """Every way that the three matrices can lie, zeros of either operand in runs of 16 along its free index."""
    i, k, n = 512, 1024, 512
    for a, b, c, which in itertools.product(("i,k", "k,i"), ("k,n", "n,k"), ("i,n", "n,i"), "AB"):
        sets = []
        for _ in range(SETS):
            A, B = random(i, k), random(k, n)
            if which == "A":
                A *= np.kron(rng.random((i // 16, k)) < 0.05, np.ones((16, 1), np.float32))
            else:
                B *= np.kron(rng.random((k, n // 16)) < 0.05, np.ones((1, 16), np.float32))
            A, B = A if a == "i,k" else np.ascontiguousarray(A.T), B if b == "k,n" else np.ascontiguousarray(B.T)
            sets.append(dict(A=A, B=B))

        def want(s, a=a, b=b, c=c):
            A, B = exact(s["A"], s["B"])
            C = (A if a == "i,k" else A.T) @ (B if b == "k,n" else B.T)
            return C if c == "i,n" else C.T

        def text(zeros, schedule, a=a, b=b, c=c, which=which):
            shape = lambda subs: ",".join(x.upper() for x in subs.split(","))
            return LAYOUTS % (shape(a), zeros * (which == "A"), shape(b), zeros * (which == "B"), c, a, b, schedule)
        yield Row("A[%s] B[%s] → C[%s], 95 %% zeros of %s" % (a, b, c, which), dict(I=i, K=k, N=n), sets,
                  {"spc": text(" ~ zeros(dynamic)", ""), "spc dense": text("", "")}, {}, want, ("C", (i, n) if c == "i,n" else (n, i)), k, flop=2 * i * k * n * 0.05,
                  best=("spc dense",))


FFN = """spx 1; dim T: dyn; dim D = 1024; dim F = 4096;
kernel k { in x: f32[T,D]; in W1: f32[D,F] const; in W2: f32[F,D] const;
  let h[t,f] = relu(sum[d] x[t,d]*W1[d,f])%s; out y[t,o] = sum[f] h[t,f]*W2[f,o]; }%s"""
FFN_TARGETS = {0.1: 1.5, 0.05: 1.7, 0.01: 1.85}


def quantile(share):
    """The value that a standard normal variable exceeds with this probability."""
    from statistics import NormalDist
    return NormalDist().inv_cdf(1 - share)


def layer(t, d, f, density, alike):
    """Tokens and weights whose first product is positive in that share: the last entries of a token pick a threshold."""
    x, W1, W2 = random(t, d), random(d, f) * np.float32(d ** -0.5), random(f, d) * np.float32(f ** -0.5)
    groups = t // 32 if alike else 1
    x[:, -groups:] = 0
    for g in range(groups):
        x[g * (t // groups):(g + 1) * (t // groups), d - groups + g] = 1
    if alike:  # strips of 32 tokens share their live neurons
        W1[-groups:] = np.where(rng.random((groups, f)) < density, 6, -50)
    else:
        W1[-1] = -quantile(density)
    return dict(x=x, W1=W1, W2=W2)


def dense_layer(p, s):
    first, second = p.gemm(s["x"], s["W1"], s["h"]), p.gemm(s["h"], s["W2"], s["out"])

    def call():
        np.maximum(first(), 0, out=s["h"])
        return second()
    return call


def ffn(peers):
    d, f = 1024, 4096
    for t, density, alike in [(256, p, False) for p in (0.1, 0.05, 0.01)] + [(256, 0.1, True), (256, 0.5, False), (16, 0.05, False), (1, 0.05, False)]:
        sets = [dict(layer(t, d, f, density, alike), h=np.empty((t, f), np.float32), out=np.empty((t, d), np.float32)) for _ in range(SETS)]
        yield Row("relu layer, %d tokens, 1024 → 4096 → 1024, %s zeros%s" % (t, percent(density), ", shared by 32 tokens" if alike else ""), dict(T=t, D=d, F=f), sets,
                  {"spc": FFN % (" ~ zeros(dynamic, density=%g)" % density, ""), "spc dense": FFN % ("", "\nschedule k { dense y; }")}, peers_of(peers, OpenBLAS=dense_layer),
                  lambda s: np.matmul(np.maximum(np.matmul(*exact(s["x"], s["W1"])), 0), s["W2"].astype(np.float64)), ("y", (t, d)), f, flop=2 * t * d * f * (1 + density),
                  targets=[("OpenBLAS", FFN_TARGETS[density])] if t == 256 and density in FFN_TARGETS and not alike else [], best=("spc dense", "OpenBLAS"))


GATED = """spx 1; dim T: dyn; dim D = 1024; dim F = 4096;
kernel k { in x: f32[T,D]; in Wg: f32[D,F] const; in Wu: f32[D,F] const; in Wd: f32[F,D] const;
  let g[t,f] = relu(sum[d] x[t,d]*Wg[d,f])%s; let u[t,f] = sum[d] x[t,d]*Wu[d,f]%s; out y[t,o] = sum[f] g[t,f]*u[t,f]*Wd[f,o]; }%s"""


def gated_layer(p, s):
    gate, up, down = p.gemm(s["x"], s["W1"], s["h"]), p.gemm(s["x"], s["Wu"], s["u"]), p.gemm(s["h"], s["W2"], s["out"])

    def call():
        np.maximum(gate(), 0, out=s["h"])
        np.multiply(s["h"], up(), out=s["h"])
        return down()
    return call


def gated(peers):
    t, d, f = 256, 1024, 4096
    for density in (0.1, 0.05, 0.01):
        sets = [dict(layer(t, d, f, density, False), Wu=random(d, f) * np.float32(d ** -0.5), h=np.empty((t, f), np.float32), u=np.empty((t, f), np.float32), out=np.empty((t, d), np.float32)) for _ in range(SETS)]
        names = dict(Wg="W1", Wd="W2")
        yield Row("gated layer, %d tokens, 1024 → 4096 → 1024, %s zeros" % (t, percent(density)), dict(T=t, D=d, F=f), sets,
                  {"spc": (GATED % (" ~ zeros(dynamic, density=%g)" % density, " on g[t,f]", ""), names), "spc dense": (GATED % ("", "", "\nschedule k { dense y; }"), names)},
                  peers_of(peers, OpenBLAS=gated_layer),
                  lambda s: np.matmul(np.maximum(np.matmul(*exact(s["x"], s["W1"])), 0) * np.matmul(*exact(s["x"], s["Wu"])), s["W2"].astype(np.float64)),
                  ("y", (t, d)), f, flop=2 * t * d * f * (1 + 2 * density), best=("spc dense", "OpenBLAS"))


# ---- elementwise, sparse with sparse -----------------------------------------------------------------
FUSED = "spx 1; dim N: dyn;\nkernel k { in a: f32[N]; in b: f32[N]; in c: f32[N]; out y[i] = relu(a[i]*b[i] + c[i]); }"


def fused(peers):
    for n in (100000, 8000000):
        sets = [dict(a=random(n), b=random(n), c=random(n), out=np.empty(n, np.float32))]
        yield Row("relu(a·b + c), %d elements" % n, dict(N=n), sets, {"spc": FUSED},
                  peers_of(peers, Eigen=lambda p, s: p.fused(s["a"], s["b"], s["c"], s["out"]),
                           NumPy=lambda p, s: lambda: np.maximum(np.add(np.multiply(s["a"], s["b"], out=s["out"]), s["c"], out=s["out"]), 0, out=s["out"])),
                  lambda s: np.maximum(np.multiply(*exact(s["a"], s["b"])) + s["c"], 0), ("y", (n,)), 1, bytes=16 * n, targets=[("copy", 0.9)] if n > 1000000 else [])


# ---- rows that lie along memory, their length known or not ---------------------------------------------
def softmax(a):
    e = np.exp(a - a.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def by_gemm(p, s):
    call = p.gemm(s["A"], s["x"].reshape(-1, 1), s["out"])
    return lambda: call().reshape(-1)


ALONG = (("matrix times vector", "in A: f32[M,K]; in x: f32[K]; out y[m] = sum[k] A[m,k]*x[k];", lambda a, x: a @ x),
         ("softmax", "in A: f32[M,K]; out y[m,k] = softmax[k](A[m,k]);", lambda a, x: softmax(a)),
         ("rows by their norm", "in A: f32[M,K]; let s[m] = sum[k] A[m,k]*A[m,k]; out y[m,k] = A[m,k] / sqrt(s[m]);", lambda a, x: a / np.sqrt((a * a).sum(1, keepdims=True))))


def along(peers):
    for (title, body, want), (m, k), fixed in itertools.product(ALONG, ((4096, 4096), (64, 4096)), (True, False)):
        vector = "in x" in body
        sets = [dict(A=random(m, k), x=random(k), out=np.empty((m, 1), np.float32))]
        dims = "dim M = %d; dim K = %d;" % (m, k) if fixed else "dim M: dyn; dim K: dyn;"
        functions = dict(NumPy=lambda p, s, want=want: lambda: want(s["A"], s["x"]), **(dict(OpenBLAS=by_gemm) if vector else {}))
        yield Row("%s, %d × %d%s" % (title, m, k, "" if fixed else ", dyn"), dict(M=m, K=k), sets, {"spc": "spx 1; %s\nkernel k { %s }" % (dims, body)}, peers_of(peers, **functions),
                  lambda s, want=want: want(*exact(s["A"], s["x"])), ("y", (m,) if vector else (m, k)), k, bytes=4 * m * k * (1 if vector else 2))


PAIR = "spx 1; dim I: dyn; dim J: dyn; dim K: dyn;\nkernel k { in A: f32[%s] as csr; in B: f32[%s] as csr; out C[i,j] = %s as csr; }"
PAIRS = (("A + B", "I,J", "I,J", "A[i,j] + B[i,j]", 0, lambda a, b: a + b), ("A ∘ B", "I,J", "I,J", "A[i,j] * B[i,j]", 2, lambda a, b: a.multiply(b).tocsr()),
         ("A B", "I,K", "K,J", "sum[k] A[i,k]*B[k,j]", 1, lambda a, b: a @ b))


def pairs(peers):
    for (title, left, right, formula, which, by_scipy), n, density in ((PAIRS[0], 2048, 0.1), (PAIRS[0], 4096, 0.01), (PAIRS[1], 2048, 0.1), (PAIRS[1], 4096, 0.01), (PAIRS[2], 1024, 0.02), (PAIRS[2], 4096, 0.002), (PAIRS[2], 4096, 0.001), (PAIRS[2], 4096, 0.0005)):
        sets = [dict(A=random_csr(n, n, density), B=random_csr(n, n, density)) for _ in range(SETS)]

        def by_eigen(p, s, which=which):
            call = p.sparse(which, s["A"], s["B"])
            call.result = lambda shape: p.sparse_result(shape)
            return call
        text = (PAIR % (left, right, formula)).replace("dim K: dyn;", "dim K: dyn;" if "K" in left else "")
        sizes = dict(I=n, J=n, K=n) if "K" in left else dict(I=n, J=n)
        yield Row("%s, %d², %s zeros" % (title, n, percent(density)), sizes, sets, {"spc": text},
                  peers_of(peers, MLIR=lambda p, s, w=which: p.pair(w, s["A"], s["B"]), Eigen=by_eigen, SciPy=lambda p, s, f=by_scipy: lambda: f(s["A"], s["B"])),
                  lambda s, f=by_scipy: f(s["A"].astype(np.float64), s["B"].astype(np.float64)), ("C", (n, n)), max(1, int(n * density)), best=("MLIR", "Eigen"))


# ---- several indices -----------------------------------------------------------------------------------
PRODUCTS = (("btd,do->bto", dict(b=4, t=128, d=1024, o=1024)), ("td,dhe->the", dict(t=512, d=1024, h=16, e=64)), ("td,hed->the", dict(t=512, d=1024, h=16, e=64)),
            ("the,heo->to", dict(t=512, h=16, e=64, o=1024)), ("the,ohe->to", dict(t=512, h=16, e=64, o=1024)), ("hte,heo->to", dict(t=512, h=16, e=64, o=1024)),
            ("bhte,bhue->bhtu", dict(b=2, h=8, t=256, u=256, e=64)), ("bhtu,bhue->bhte", dict(b=2, h=8, t=256, u=256, e=64)), ("bthe,buhe->bhtu", dict(b=2, h=8, t=256, u=256, e=64)),
            ("bhtu,buhe->bthe", dict(b=2, h=8, t=256, u=256, e=64)), ("the,uhe->tuh", dict(t=256, u=256, h=16, e=64)), ("ilk,jkl->ij", dict(i=512, j=512, k=16, l=32)),
            ("ecab,dbea->cd", dict(a=256, b=16, c=16, d=256, e=16)), ("ade,cea->cd", dict(a=16, c=128, d=256, e=256)))


def by_matrices(p, s, spec, size):
    """What a caller of sgemm does: operands copied into matrices where they do not lie so, a product for each batch, the result put in order."""
    sides, left = spec.split("->")
    x, w = sides.split(",")
    batch, m = [c for c in left if c in x and c in w], [c for c in left if c in x and c not in w]
    n, k = [c for c in left if c in w and c not in x], [c for c in x if c not in left]
    count = lambda letters: int(np.prod([size[c] for c in letters], dtype=int))
    order = "".join(batch + m + n)
    out = np.empty((count(batch), count(m), count(n)), np.float32)
    turned = w == "".join(batch + n + k)  # lies that way already
    shape = (count(batch),) + ((count(n), count(k)) if turned else (count(k), count(n)))

    def call():
        a = np.ascontiguousarray(s["x"].transpose([x.index(c) for c in batch + m + k])).reshape(count(batch), count(m), count(k))
        b = np.ascontiguousarray(s["w"].transpose([w.index(c) for c in (batch + n + k if turned else batch + k + n)])).reshape(shape)
        for i in range(count(batch)):
            p.gemm(a[i], b[i], out[i], turned)()
        return np.ascontiguousarray(out.reshape([size[c] for c in order]).transpose([order.index(c) for c in left]))
    return call


def indices(peers):
    for spec, size in PRODUCTS:
        sides, left = spec.split("->")
        x, w = sides.split(",")
        letters = "".join(dict.fromkeys(x + w))
        dims = " ".join("dim %s: dyn;" % c.upper() for c in letters)
        summed = ",".join(c for c in dict.fromkeys(x + w) if c not in left)
        text = "spx 1; %s\nkernel k { in x: f32[%s]; in w: f32[%s]; out y[%s] = sum[%s] x[%s]*w[%s]; }" % (
            dims, ",".join(x.upper()), ",".join(w.upper()), ",".join(left), summed, ",".join(x), ",".join(w))
        sets = [dict(x=random(*(size[c] for c in x)), w=random(*(size[c] for c in w))) for _ in range(SETS)]
        length = int(np.prod([size[c] for c in letters if c not in left], dtype=int))
        yield Row("%s, %s" % (spec.replace("->", " → "), " ".join("%s %d" % (c, size[c]) for c in letters)), {c.upper(): size[c] for c in letters}, sets, {"spc": text},
                  peers_of(peers, OpenBLAS=lambda p, s, spec=spec, size=size: by_matrices(p, s, spec, size)), lambda s, spec=spec: np.einsum(spec, *exact(s["x"], s["w"]), optimize=True),
                  ("y", tuple(size[c] for c in left)), length, flop=2 * int(np.prod([size[c] for c in letters], dtype=int)), best=("OpenBLAS",))


# Heads h = gr in groups g, whose keys and values are read by h / r; the last four of one query.
GROUPED = [(spec, dict(b=1, g=8, r=4, i=512, j=512, d=128)) for spec in ("bgrid,bgjd->bgrij", "bgrij,bgjd->bgrid", "bigrd,bjgd->bgrij", "bgrij,bjgd->bigrd")] + \
          [(spec, dict(b=8, g=8, r=4, j=2048, d=128)) for spec in ("bgrd,bgjd->bgrj", "bgrj,bgjd->bgrd", "bgrd,bjgd->bgrj", "bgrj,bjgd->bgrd")]


def grouped(peers):
    for spec, size in GROUPED:
        sides, left = spec.split("->")
        x, w = sides.split(",")
        heads = lambda side: side.replace("gr", "h")
        dims = lambda side: ",".join("%d*G" % size["r"] if c == "h" else c.upper() for c in heads(side))
        subscripts = lambda side: ",".join("h/%d" % size["r"] if c == "g" else c for c in heads(side))
        text = "spx 1; %s\nkernel k { in x: f32[%s]; in w: f32[%s]; out y[%s] = sum[%s] x[%s]*w[%s]; }" % (
            " ".join("dim %s: dyn;" % c.upper() for c in size if c != "r"), dims(x), dims(w), subscripts(left), next(c for c in x if c not in left), subscripts(x), subscripts(w))
        shape = lambda side, size: tuple(size[c] for c in side)
        joined = dict(size, h=size["g"] * size["r"])
        sets = [dict(x=random(*shape(heads(x), joined)), w=random(*shape(w, size))) for _ in range(SETS)]
        split = lambda s, x=x, size=size: dict(s, x=s["x"].reshape(shape(x, size)))

        def of_groups(p, s, spec=spec, size=size, split=split, whole=shape(heads(left), joined)):
            call = by_matrices(p, split(s), spec, size)
            return lambda: call().reshape(whole)
        yield Row("%s → %s, %s" % (subscripts(x).replace(",", "") + " " + subscripts(w).replace(",", ""), heads(left), " ".join("%s %d" % (c, joined[c]) for c in dict.fromkeys(heads(x) + w) if c != "g")),
                  {c.upper(): n for c, n in size.items() if c != "r"}, sets, {"spc": text}, peers_of(peers, OpenBLAS=of_groups),
                  lambda s, spec=spec, split=split, heads=heads, left=left: np.einsum(spec, *exact(split(s)["x"], s["w"]), optimize=True).reshape(shape(heads(left), joined)),
                  ("y", shape(heads(left), joined)), size[next(c for c in x if c not in left)], flop=2 * int(np.prod([size[c] for c in size], dtype=int)), best=("OpenBLAS",))


def turned(peers):
    for n in (512, 2000, 2048):
        sets = [dict(x=random(n, n), out=np.empty((n, n), np.float32)) for _ in range(SETS)]
        yield Row("turned, %d²" % n, dict(I=n, J=n), sets, {"spc": "spx 1; dim I: dyn; dim J: dyn;\nkernel k { in x: f32[I,J]; out y[j,i] = x[i,j]; }"},
                  peers_of(peers, NumPy=lambda p, s: lambda: (np.copyto(s["out"], s["x"].T), s["out"])[1]), lambda s: s["x"].T.astype(np.float64), ("y", (n, n)), 1, bytes=8 * n * n, best=("NumPy",))


CONVERT = "spx 1; dim I: dyn; dim J: dyn;\nkernel k { in A: f32[I,J]%s; out C[i,j] = A[i,j]%s; }"


def scattered(n, a_row):
    """So many entries a row, anywhere: columns come in no order, rows do."""
    return wide_csr(n, n, a_row)


def coo_arrays(m):
    coo = m.tocoo()
    return m.shape, [np.array([0, m.nnz], np.int32), coo.row.astype(np.int32), coo.col.astype(np.int32), coo.data]


def blocks(m):
    out = m.tobsr((4, 4))
    out.sort_indices()
    return out


def conversions(peers):
    big, small = lambda: scattered(200000, 10), lambda: random_csr(2048, 2048, 0.1)
    stored = {"csr": lambda m: m, "csc": lambda m: m.tocsc(), "coo": coo_arrays, "bsr(4,4)": blocks, "dense": lambda m: m.toarray()}
    theirs = dict(stored, coo=lambda m: m.tocoo())  # a matrix that a peer holds; into a format: by the peer's own conversion
    into = {"csr": lambda m: m.tocsr(), "csc": lambda m: m.tocsc(), "coo": lambda m: m.tocoo(), "bsr(4,4)": lambda m: m.tobsr((4, 4)), "dense": lambda m: m.toarray()}
    into_dense = {"csr": sp.csr_matrix, "csc": sp.csc_matrix}
    many, some = ("200k², 2M entries", big), ("2048², 90 % zeros", small)
    kinds = [("csr", "csc", many), ("csc", "csr", many), ("csc", "csr", some), ("coo", "csr", many), ("coo", "csc", many), ("csr", "coo", many), ("csr", "dcsr", many),
             ("csr", "bsr(4,4)", many), ("csr", "bsr(4,4)", some), ("coo", "bsr(4,4)", some), ("bsr(4,4)", "csr", some), ("bsr(4,4)", "coo", some), ("bsr(4,4)", "csc", some),
             ("dense", "csr", some), ("dense", "csc", some), ("csr", "dense", some), ("csc", "dense", some), ("bsr(4,4)", "dense", some)]
    for source, dest, (size, make) in kinds:
        sets = [dict(A=stored[source](m), S=theirs[source](m)) for m in (make() for _ in range(SETS))]
        n = sets[0]["S"].shape[0]
        convert = (into_dense if source == "dense" else into).get(dest)
        text = CONVERT % (" as " + source if source != "dense" else "", " as " + dest + " ~ zeros(dynamic, density=0.1)" * (source == "dense") if dest != "dense" else "")
        yield Row("%s → %s, %s" % (source, dest, size), dict(I=n, J=n), sets, {"spc": text}, dict(SciPy=lambda s, f=convert: lambda: f(s["S"])) if convert else {},
                  lambda s, f=convert or into["csr"]: f(s["S"]), ("C", (n, n), dest), 1, best=("SciPy",))


GROUPS = {"dense": (dense, "Dense products"), "spmm": (spmm, "Stored sparse × dense (csr)"), "hints": (hints, "Stored sparse × dense (csr), another share stored than hinted"), "across": (across, "Dense × stored sparse"), "spmv": (spmv, "Stored sparse × vector (csr)"), "sddmm": (sddmm, "Sampled products"),
          "bsr": (bsr, "Block-sparse weights"), "nm": (nm, "n:m weights"), "dynamic": (dynamic, "A dense matrix with zeros that are found at run time"),
          "layouts": (layouts, "The same, however the matrices lie"), "ffn": (ffn, "Feed-forward layers with a relu"),
          "gated": (gated, "Gated layers"), "fused": (fused, "Elementwise"), "along": (along, "Rows that lie along memory"), "indices": (indices, "Products over several indices"), "grouped": (grouped, "Grouped heads"), "turned": (turned, "Transposition"), "pairs": (pairs, "Sparse with sparse, sparse result (csr)"),
          "conversions": (conversions, "Conversions")}
