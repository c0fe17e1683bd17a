"""`--reproducible`: the same bits in every run, on any number of threads, with any list.  `--batch-invariant`: a row's
bits do not depend on the other rows.  On real values: integers are exact in any order and prove nothing."""
import itertools, re
import numpy as np, scipy.sparse as sp
from harness_data import *

HEAD = "spx 1; dim T: dyn; dim K: dyn; dim N: dyn; dim M: dyn; dim L: dyn; dim R: dyn; dim E = 3; dim P = 128; dim Q = 192; dim S = 40; "
FFN = ("in x: %s[T,K]; in W1: %s[K,N]; in W2: %s[N,M]; let h[t,f] = relu(sum[d] x[t,d]*W1[d,f]) ~ zeros(dynamic, density=0.05); "
       "out y[t,o] = sum[f] h[t,f]*W2[f,o];")
SIZE = {"T": 200, "K": 67, "N": 150, "M": 45, "L": 5000, "E": 3, "P": 128, "Q": 192, "S": 40, "H": 8, "G": 2, "B": 3, "1": 1}
MOE = ("in x: %s[T,%s]; in off: i32[E+1]; in perm: i32[R]; in w: f32[R]; in G: %s[E,%s,%s]; in D: %s[E,%s,%s]; ragged r in off[e]..off[e+1]; "
       "let h[r,f] = silu(sum[d] x[perm[r],d]*G[e,d,f]); out y[perm[r],o] += w[r] * sum[f] h[r,f]*D[e,f,o] : f32[T,%s] order(fixed);")
ATTENTION = ("in x: %s[T,8,P]; in k: %s[S,2,P]; in v: %s[S,2,P]; let s[t,h,j] = 0.1 * sum[d] x[t,h,d]*k[j,h/4,d]; let a[t,h,j] = softmax[j](s[t,h,j]); "
             "out y[t,h,d] = sum[j] a[t,h,j]*v[j,h/4,d];")
PROGRAMS = {  # text, operands by their axes; x has the rows
    "ffn": (FFN % (("f32",) * 3), {"x": "TK", "W1": "KN", "W2": "NM"}),
    "ffn f16": (FFN % (("f16",) * 3), {"x": "TK", "W1": "KN", "W2": "NM"}),
    "gated ffn": ("in x: f32[T,K]; in G: f32[K,N]; in U: f32[K,N]; in D: f32[N,M]; let g[t,f] = relu(sum[d] x[t,d]*G[d,f]) ~ zeros(dynamic, density=0.1); "
                  "let u[t,f] = sum[d] x[t,d]*U[d,f] on g[t,f]; out y[t,o] = sum[f] g[t,f]*u[t,f]*D[f,o];",
                  {"x": "TK", "G": "KN", "U": "KN", "D": "NM"}),
    "masked": ("in x: f32[T,K] ~ zeros(dynamic, density=0.05); in W: f32[K,N]; out y[t,o] = sum[f] x[t,f]*W[f,o];", {"x": "TK", "W": "KN"}),
    "spmm": ("in x: f32[T,K] as csr; in W: f32[K,N]; out y[t,o] = sum[f] x[t,f]*W[f,o];", {"x": "TK", "W": "KN"}),
    "long rows": ("in x: f32[T,L] as csr; in W: f32[L,M]; out y[t,o] = relu(sum[f] x[t,f]*W[f,o]);", {"x": "TL", "W": "LM"}),
    "pruned": ("in x: f32[T,K]; in W: f32[N,K] as csr; out y[t,o] = sum[f] x[t,f]*W[o,f];", {"x": "TK", "W": "NK"}),
    "blocked": ("in x: f32[T,K]; in W: f32[N,K] as bsr(4,4); out y[t,o] = sum[f] x[t,f]*W[o,f];", {"x": "TK", "W": "NK"}),
    "half pruned": ("in x: f32[T,K]; in W: f32[N,K] as csr ~ zeros(static, density=0.7); out y[t,o] = sum[f] x[t,f]*W[o,f];", {"x": "TK", "W": "NK"}),
    "product": ("in x: f32[T,K]; in W: f32[K,N]; out y[t,o] = relu(sum[f] x[t,f]*W[f,o]);", {"x": "TK", "W": "KN"}),
    "softmax": ("in x: f32[T,K]; out y[t,f] = softmax[f](x[t,f]);", {"x": "TK"}),
    "normalised": ("in x: f32[T,K]; let s[t] = sum[f] x[t,f]*x[t,f]; out y[t,f] = x[t,f] * rsqrt(s[t] + 1);", {"x": "TK"}),
    "row sums": ("in x: f32[T,K]; out y[t] = sum[f] exp(x[t,f]);", {"x": "TK"}),
    "column sums": ("in x: f32[T,K] as csr; out y[f] = sum[t] x[t,f];", {"x": "TK"}),
    "total": ("in x: f32[T,K]; out y[] = sum[t,f] x[t,f];", {"x": "TK"}),
    "moe": (MOE % ("f32", "K", "f32", "K", "N", "f32", "N", "M", "M"), {"x": "TK", "G": "EKN", "D": "ENM"}),
    # Kernels that want sizes to be multiples: K, N and M are none.
    "product bf16": ("in x: bf16[T,K]; in W: bf16[K,N]; out y[t,o] = sum[f] x[t,f]*W[f,o];", {"x": "TK", "W": "KN"}),
    "boxes bf16": ("in x: bf16[T,P]; in W: bf16[Q,P]; out y[t,o] = relu(sum[f] x[t,f]*W[o,f]);", {"x": "TP", "W": "QP"}),
    "turned bf16": ("in x: bf16[T,P] as dense_t; in W: bf16[P,Q]; out y[t,o] = sum[f] x[t,f]*W[f,o];", {"x": "TP", "W": "PQ"}),
    "turned result f16": ("in x: f16[T,P]; in W: f16[P,Q]; out y[t,o] = sum[f] x[t,f]*W[f,o] as dense_t;", {"x": "TP", "W": "PQ"}),
    "product f64": ("in x: f64[T,K]; in W: f64[K,N]; out y[t,o] = sum[f] x[t,f]*W[f,o];", {"x": "TK", "W": "KN"}),
    "long product": ("in x: f32[T,L]; in W: f32[L,M]; out y[t,o] = sum[f] x[t,f]*W[f,o];", {"x": "TL", "W": "LM"}),
    "one column": ("in x: bf16[T,L]; in W: bf16[L]; out y[t] = sum[f] x[t,f]*W[f];", {"x": "TL", "W": "L"}),
    "batched": ("in x: bf16[T,3,P]; in W: bf16[3,P,Q]; out y[t,b,o] = sum[f] x[t,b,f]*W[b,f,o];", {"x": "TBP", "W": "BPQ"}),
    "gated ffn bf16": ("in x: bf16[T,P]; in G: bf16[P,Q]; in U: bf16[P,Q]; in D: bf16[Q,P]; let g[t,f] = relu(sum[d] x[t,d]*G[d,f]) ~ zeros(dynamic, density=0.1); "
                       "let u[t,f] = sum[d] x[t,d]*U[d,f] on g[t,f]; out y[t,o] = sum[f] g[t,f]*u[t,f]*D[f,o];",
                       {"x": "TP", "G": "PQ", "U": "PQ", "D": "QP"}),
    "moe bf16": (MOE % ("bf16", "P", "bf16", "P", "Q", "bf16", "Q", "P", "P"), {"x": "TP", "G": "EPQ", "D": "EQP"}),
    "grouped heads bf16": (ATTENTION % (("bf16",) * 3), {"x": "THP", "k": "SGP", "v": "SGP"}),
    "grouped heads f32": (ATTENTION % (("f32",) * 3), {"x": "THP", "k": "SGP", "v": "SGP"}),
    "widened": ("in x: bf16[T,P]; in W: i8[Q,P]; in s: f32[Q,1]; out y[t,o] = sum[f] x[t,f]*(W[o,f]*s[o,f/128]);", {"x": "TP", "W": "QP", "s": "Q1"}),
    "pruned bf16": ("in x: bf16[T,P]; in W: bf16[Q,P] as csr; out y[t,o] = sum[f] x[t,f]*W[o,f];", {"x": "TP", "W": "QP"}),
    "pruned by columns": ("in x: f32[T,K]; in W: f32[N,K] as csc; out y[t,o] = sum[f] x[t,f]*W[o,f];", {"x": "TK", "W": "NK"}),
    "blocked bf16": ("in x: bf16[T,P]; in W: bf16[Q,P] as bsr(16,16); out y[t,o] = sum[f] x[t,f]*W[o,f];", {"x": "TP", "W": "QP"}),
    "two of four": ("in x: f32[T,P]; in W: f32[Q,P] as nm(2,4); out y[t,o] = sum[f] x[t,f]*W[o,f];", {"x": "TP", "W": "QP"}),
    "long softmax": ("in x: f32[T,L]; out y[t,f] = softmax[f](x[t,f]);", {"x": "TL"}),
    "long row sums": ("in x: f16[T,L]; out y[t] = sum[f] exp(x[t,f]);", {"x": "TL"}),
    "turned row sums": ("in x: f32[T,L] as dense_t; out y[t] = sum[f] x[t,f];", {"x": "TL"}),
    "rows of csr": ("in x: f32[T,L] as csr; out y[t] = sum[f] x[t,f];", {"x": "TL"}),
}
BY_ROW = [p for p in PROGRAMS if p not in ("column sums", "total")]
rng = np.random.default_rng(5)
serial = itertools.count()
FILES = {p: write(p.replace(" ", "_") + ".spx", HEAD + "kernel k { " + text + " }\n") for p, (text, _) in PROGRAMS.items()}
ON = [b for b in backends() if b != "interp"]
if "cpu" not in ON:
    skip("reproducibility on the cpu: LLVM is not in this build")
if "cuda" not in ON:
    skip("reproducibility on cuda: no GPU here")


def route(tokens):
    """Every token goes to two of three experts: offsets and tokens, by expert; the weight belongs to the pair."""
    pairs = sorted((e, t) for t in tokens for e in (t % 3, (t + 1 + t // 3 % 2) % 3))
    experts, t = (np.array(c, np.int32) for c in zip(*pairs))
    off = np.searchsorted(experts, np.arange(4)).astype(np.int32)
    return off, t, np.cos(experts * 7.0 + t).astype(np.float32)


DTYPES = {"f16": np.float16, "bf16": np.float32, "f32": np.float32, "f64": np.float64, "i8": np.int8}  # bf16 is rounded as it is read


def operands(name):
    text, axes_of = PROGRAMS[name]
    declared = dict(re.findall(r"in (\w+): (\w+)", text))
    data = {o: rng.normal(size=[SIZE[a] for a in axes]) for o, axes in axes_of.items()}
    if name in ("masked", "spmm", "column sums", "rows of csr"):
        data["x"] *= rng.random(data["x"].shape) < 0.1
    if name == "long rows":  # some hold more entries than one warp takes
        data["x"] *= rng.random(data["x"].shape) < np.where(np.arange(SIZE["T"]) % 7 < 2, 0.25, 0.01)[:, None]
    if name.startswith(("pruned", "blocked")):
        data["W"] *= rng.random(data["W"].shape) < 0.2
    if name == "half pruned":
        data["W"] *= rng.random(data["W"].shape) < 0.7
    if name == "two of four":
        data["W"] *= np.arange(SIZE["P"]) % 4 < 2
    return {o: (9 * a if declared[o] == "i8" else a).astype(DTYPES[declared[o]]) for o, a in data.items()}


def run(name, data, backend, *flags, rows=None):
    """The result of a program, or the message of its failure; rows: which rows of x take part."""
    data, out = dict(data), path("y%d.npy" % next(serial))
    rows = np.arange(SIZE["T"]) if rows is None else rows
    if name.startswith("moe"):
        off, perm, w = route(rows)
        data.update(off=off, perm=np.searchsorted(rows, perm).astype(np.int32), w=w)
    data["x"] = data["x"][rows]
    binds = []
    for o, a in data.items():
        np.save(path("in_%s.npy" % o), a)
        binds += ["--bind", "%s=%s" % (o, path("in_%s.npy" % o))]
    r = spc("run", FILES[name], *binds, "--backend=" + backend, "--out", "y=" + out, *flags)
    return np.load(out) if r.returncode == 0 else "exit %d: %s" % (r.returncode, r.stderr)


def bits_equal(a, b):
    return isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a.shape == b.shape and a.tobytes() == b.tobytes()


def difference(a, b):
    if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray) or a.shape != b.shape:
        return "%s / %s" % (a, b)
    return "%d of %d elements differ, at most by %g" % ((a != b).sum(), a.size, np.abs(a.astype(float) - b).max())


for name, backend in itertools.product(PROGRAMS, ON):
    data = operands(name)
    # 1. Repeated runs, and any number of threads.
    first = run(name, data, backend, "--reproducible", "--threads=1")
    threads = (["--threads=1"], ["--threads=2"], ["--threads=5"], []) if backend == "cpu" else (["--threads=5"], [])
    for flags in threads:
        again = run(name, data, backend, "--reproducible", *flags)
        check("%s --reproducible %s on %s" % (name, " ".join(flags), backend), bits_equal(first, again), difference(first, again))
    if name not in BY_ROW:
        continue
    # 2. Each row alone, in batches of several sizes, at another place, and beside other neighbours.
    whole = run(name, data, backend, "--batch-invariant")
    for rows in (np.arange(1), np.arange(2), np.arange(7), np.arange(64), np.arange(65), np.arange(130, 135), np.array([3, 17, 18, 40, 199])):
        part = run(name, data, backend, "--batch-invariant", rows=rows)
        want = whole[rows] if isinstance(whole, np.ndarray) else whole
        check("%s --batch-invariant, %d rows from %d on %s" % (name, len(rows), rows[0], backend), bits_equal(part, want), difference(part, want))
    other, keep = dict(data), np.arange(0, SIZE["T"], 6)
    other["x"] = rng.normal(size=data["x"].shape).astype(data["x"].dtype)
    other["x"][rng.random(SIZE["T"]) < 0.3] = 0
    other["x"][keep] = data["x"][keep]
    changed = run(name, other, backend, "--batch-invariant")
    got, want = (a[keep] if isinstance(a, np.ndarray) else a for a in (changed, whole))
    check("%s --batch-invariant beside other rows on %s" % (name, backend), bits_equal(got, want), difference(got, want))
    if backend != "cpu":
        continue
    moved = run(name, data, backend, "--batch-invariant", "--threads=5")
    check("%s --batch-invariant on 5 threads on %s" % (name, backend), bits_equal(moved, whole), difference(moved, whole))

# 3. The result does not depend on the order in which a list was built: an ascending list is part of the promise.
for backend in ON:
    data = operands("masked")
    sparse, dense = (run("masked", data, backend, "--reproducible", "--force-guard=" + v) for v in ("sparse", "dense"))
    again = run("masked", data, backend, "--reproducible", "--force-guard=sparse", "--threads=5")
    check("lists are built in one order on " + backend, bits_equal(sparse, again), difference(sparse, again))
    check("both verdicts agree on " + backend, isinstance(sparse, np.ndarray) and np.allclose(sparse, dense, rtol=1e-4, atol=1e-4), difference(sparse, dense))

# 4. A batch-invariant plan has no list, whatever the density: a list is the union of its strip's rows.
for target in ("cpu", "sm_90a"):
    for flag, wanted in (("--verify-each", True), ("--batch-invariant", False), ("--strict-nan", False)):
        tile = spc("compile", FILES["masked"], "--target=" + target, "--emit=tile", flag).stdout
        check("%s for %s: lists %s" % (flag, target, wanted), tile and ("list x {" in tile) == (wanted and target == "cpu"), tile[-800:])

# 5. What the promise costs is printed.
for flag in ("--batch-invariant", "--reproducible"):
    text = spc("explain", "examples/ffn.spx", "--target=cpu", flag).stdout
    check("explain speaks of " + flag, flag.strip("-").replace("-", " ").split()[0] in text.lower(), text[:1500])

# 6. Sparse results and conversions that are large enough to be made by several threads.
ROWS, COLUMNS = 900, 1100
ASSEMBLED = {
    "sum": ("in A: f32[I,J] as csr; in B: f32[I,J] as csr; out C[i,j] = A[i,j] + B[i,j] as csr;", "AB", lambda A, B: A + B),
    "common": ("in A: f32[I,J] as csr; in B: f32[I,J] as csr; out C[i,j] = A[i,j] * B[i,j] as csr;", "AB", lambda A, B: A.multiply(B).tocsr()),
    "product": ("in A: f32[I,J] as csr; in B: f32[I,J] as csr; out C[i,k] = sum[j] A[i,j] * B[k,j] as csr;", "AB", lambda A, B: A @ B.T),
    "columns": ("in A: f32[I,J] as csr; out C[i,j] = A[i,j] as csc;", "A", lambda A, B: A),
    "blocks": ("in A: f32[I,J] as csr; out C[i,j] = A[i,j] as bsr(4,3);", "A", lambda A, B: A),
    "elements": ("in A: f32[I,J] as bsr(4,5); out C[i,j] = A[i,j] as csr;", "A", lambda A, B: A),
}
if "cpu" in ON:
    A = sp.csr_matrix(np.where(rng.random((ROWS, COLUMNS)) < 0.15, rng.integers(1, 9, (ROWS, COLUMNS)), 0).astype(np.float32))
    B = (A + sp.csr_matrix(np.where(rng.random((ROWS, COLUMNS)) < 0.05, rng.integers(1, 9, (ROWS, COLUMNS)), 0).astype(np.float32))).tocsr()
    sp.save_npz(path("A.npz"), A), sp.save_npz(path("B.npz"), B)
    for name, (text, operands_of, want) in ASSEMBLED.items():
        source, out = write("assembled_%s.spx" % name, "spx 1; dim I: dyn; dim J: dyn; kernel k { " + text + " }\n"), path("C.npz")
        for threads in (1, 2, 5):
            r = spc("run", source, *[x for o in operands_of for x in ("--bind", "%s=%s" % (o, path(o + ".npz")))], "--backend=cpu", "--threads=%d" % threads, "--out", "C=" + out)
            got, full = sp.load_npz(out) if r.returncode == 0 else None, want(A, B).toarray()
            good = got is not None and (got.toarray() == full).all() and (name in ("blocks", "elements") or got.nnz == np.count_nonzero(full))
            check("%s by %d threads is what it is" % (name, threads), good, r.stderr)
close()
