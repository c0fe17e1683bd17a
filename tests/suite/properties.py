"""Properties of programs on every back end that is here, with NumPy as oracle: permuted axes, extreme masks, dense against
sparse, covers, conversions, linearity and duality, and a bound for every element.  Integer data compares exactly."""
import itertools, json, re
import numpy as np, scipy.sparse as sp
from harness_data import *

HEAD = "spx 1; dim T: dyn; dim K: dyn; dim N: dyn; dim M: dyn; "
rng = np.random.default_rng(11)
serial = itertools.count()


def run(program, data, out, backend, *flags):
    """The output `out` of a program (a path) on arrays; a message where the run fails."""
    binds, result = [], path("out%d.npy" % next(serial))
    for name, a in data.items():
        f = path("in_%s.%s" % (name, "npz" if sp.issparse(a) else "npy"))
        sp.save_npz(f, a, compressed=False) if sp.issparse(a) else np.save(f, a)
        binds += ["--bind", "%s=%s" % (name, f)]
    r = spc("run", program, *binds, "--backend=" + backend, "--out", "%s=%s" % (out, result), *flags)
    return np.load(result) if r.returncode == 0 else "exit %d: %s" % (r.returncode, r.stderr)


def same(got, want):
    return isinstance(got, np.ndarray) and got.shape == want.shape and np.array_equal(got, want)


def integers(*shape, density=1.0, dtype=np.float32):
    return (rng.integers(-4, 5, shape) * (rng.random(shape) < density)).astype(dtype)


# ---- programs: operands by their axes, the result's axes, NumPy's answer ----------------------------
SIZES = {"T": 13, "K": 21, "N": 18, "M": 9}
FFN = ("in x: f32[T,K]; in W1: f32[K,N]; in W2: f32[N,M]; let h[t,f] = relu(sum[d] x[t,d]*W1[d,f]) ~ zeros(dynamic, density=0.1); "
       "out y[t,o] = sum[f] h[t,f]*W2[f,o];")
relu = lambda a: np.maximum(a, 0)
PROGRAMS = {
    "ffn": (FFN, {"x": "TK", "W1": "KN", "W2": "NM"}, "TM", lambda x, W1, W2: relu(x @ W1) @ W2),
    "gated": ("in x: f32[T,K]; in G: f32[K,N]; in U: f32[K,N]; in D: f32[N,M]; let g[t,f] = relu(sum[d] x[t,d]*G[d,f]) ~ zeros(dynamic); "
              "let u[t,f] = sum[d] x[t,d]*U[d,f] on g[t,f]; out y[t,o] = sum[f] g[t,f]*u[t,f]*D[f,o];",
              {"x": "TK", "G": "KN", "U": "KN", "D": "NM"}, "TM", lambda x, G, U, D: (relu(x @ G) * (x @ U)) @ D),
    "masked": ("in h: f32[T,K] ~ zeros(dynamic, density=0.05); in W: f32[K,N]; out y[t,o] = sum[f] h[t,f]*W[f,o];",
               {"h": "TK", "W": "KN"}, "TN", lambda h, W: h @ W),
    "spmm": ("in A: f32[T,K] as csr; in B: f32[K,N]; out y[i,n] = sum[k] A[i,k]*B[k,n];", {"A": "TK", "B": "KN"}, "TN", lambda A, B: A @ B),
    "sddmm": ("in S: f32[T,N] as csr; in A: f32[T,K]; in B: f32[N,K]; out y[i,j] = S[i,j] * sum[k] A[i,k]*B[j,k] as like(S);",
              {"S": "TN", "A": "TK", "B": "NK"}, "TN", lambda S, A, B: S * (A @ B.T)),
    "spgemm": ("in A: f32[T,K] as csr; in B: f32[K,N] as csc; out y[i,j] = sum[k] A[i,k]*B[k,j] as csr;", {"A": "TK", "B": "KN"}, "TN", lambda A, B: A @ B),
    "bsr": ("in A: f32[T,K] as bsr(4,2); in B: f32[K,N]; out y[i,n] = sum[k] A[i,k]*B[k,n];", {"A": "TK", "B": "KN"}, "TN", lambda A, B: A @ B),
    "row max": ("in A: f32[T,K] as csr; out y[i] = max[k] A[i,k];", {"A": "TK"}, "T", lambda A: A.max(1)),
    "ints": ("in A: i32[T,K]; in B: i32[K,N] as coo; out y[i,n] = sum[k] A[i,k]*B[k,n];", {"A": "TK", "B": "KN"}, "TN", lambda A, B: A @ B),
}
DENSITY = {"h": 0.15, "A": 0.3, "S": 0.3, "G": 0.4}
FILES, DATA = {}, {}
for name, (text, operands, _, _) in PROGRAMS.items():
    FILES[name] = write(name.replace(" ", "_") + ".spx", HEAD + "kernel k { " + text + " }\n")
    dtype = np.int32 if name == "ints" else np.float32
    DATA[name] = {o: integers(*(SIZES[a] for a in axes), density=DENSITY.get(o, 1.0), dtype=dtype) for o, axes in operands.items()}
# What walks lists: a GPU's are of operands whose strips are contiguous, and pay from longer sums on.
LISTED = {"cpu": (PROGRAMS["masked"][0], 256), "cuda": (PROGRAMS["masked"][0].replace("h: f32[T,K]", "h: f32[T,K] as dense_t"), 1024)}
LISTED_FILES = {b: write("listed_%s.spx" % b, HEAD + "kernel k { " + text + " }\n") for b, (text, _) in LISTED.items()}
ON = backends()
if "cpu" not in ON:
    skip("properties on the cpu: LLVM is not in this build")
if "cuda" not in ON:
    skip("properties on cuda: no GPU here")

# ---- 1. Permuting an axis of all operands permutes the result along it, and changes nothing else. ----
for name, (text, operands, result, oracle) in PROGRAMS.items():
    want = oracle(*DATA[name].values())
    for backend in ON:
        check("%s on %s is NumPy's answer" % (name, backend), same(run(FILES[name], DATA[name], "y", backend), want))
    for axis in sorted(set("".join(operands.values()))):
        p = rng.permutation(SIZES[axis])
        moved = {o: a.take(p, operands[o].index(axis)) if axis in operands[o] else a for o, a in DATA[name].items()}
        expect = want.take(p, result.index(axis)) if axis in result else want
        for backend in ON:
            got = run(FILES[name], moved, "y", backend)
            check("%s with axis %s permuted on %s" % (name, axis, backend), same(got, expect), got)

# ---- 2. Extreme masks, each verdict of the guard forced. -----------------------------------------------
def mask_cases(t, k):
    yield "empty", np.zeros((t, k))
    yield "full", np.ones((t, k))
    for at in ((0, 0), (t - 1, k - 1), (t // 2, 1)):
        one = np.zeros((t, k))
        one[at] = 1
        yield "one element at %d,%d" % at, one
    strip, column = np.zeros((t, k)), np.zeros((t, k))
    strip[t - 1:], column[:, k - 1] = 1, 1
    yield "one full row of the last strip", strip
    yield "one full column", column
    yield "chequered", np.indices((t, k)).sum(0) % 2
W = integers(256, 512)
for backend in ON[1:]:
    wide = LISTED[backend][1] # large enough that lists are chosen
    np.save(path("W.npy"), integers(wide, 512)), np.save(path("h.npy"), np.zeros((13, wide), np.float32))
    r = spc("run", LISTED_FILES[backend], "--bind", "h=" + path("h.npy"), "--bind", "W=" + path("W.npy"), "--backend=" + backend, "--force-guard=sparse", "--stats=-")
    check("masks go through a list on " + backend, '"stage":"detect.h"' in r.stdout, r.stdout + r.stderr)
for backend in ON[1:]:
    wide = LISTED[backend][1]
    weight = W if wide == len(W) else integers(wide, 512)
    for what, mask in mask_cases(13, wide):
        h = (mask * rng.integers(1, 5, mask.shape)).astype(np.float32)
        for verdict in ("sparse", "dense", None):
            got = run(LISTED_FILES[backend], {"h": h, "W": weight}, "y", backend, *(["--force-guard=" + verdict] if verdict else []))
            check("mask %s on %s, guard %s" % (what, backend, verdict or "free"), same(got, h @ weight), got)
for what, mask in mask_cases(13, 256):
    h = (mask * rng.integers(1, 5, mask.shape)).astype(np.float32)
    for backend in ON[1:] or ON:
        got = run(FILES["spmm"], {"A": h, "B": W}, "y", backend)
        check("mask %s in csr on %s" % (what, backend), same(got, h @ W), got)

# ---- 3. Dense with everything off equals sparse with everything on. ----------------------------------------
OFF = ["--disable-pass=fuse", "--force-guard=dense", "--strict-nan"]
for name in ("ffn", "gated", "masked", "spmm", "sddmm", "spgemm", "bsr"):
    for backend in ON[1:] or ON:
        on, off = (run(FILES[name], DATA[name], "y", backend, *f) for f in ([], OFF))
        check("%s: everything off equals everything on, on %s" % (name, backend), same(on, off) if isinstance(off, np.ndarray) else False, off)
    real = {o: np.where(a != 0, rng.normal(size=a.shape), 0).astype(np.float32) for o, a in DATA[name].items()}
    on, off = (run(FILES[name], real, "y", ON[-1], *f) for f in ([], OFF))
    check("%s: the same on real values" % name, isinstance(on, np.ndarray) and np.allclose(on, off, rtol=1e-4, atol=1e-4), on)

# ---- 4. Covers: the formula of explain, and the measured ones, against a count. ------------------------------
BIG = {"cpu": {"T": 93, "K": 384, "N": 512}, "cuda": {"T": 128, "K": 1024, "N": 512}} # whole strips: the formula is of those
def tiles_of(h, strip):
    rows = -(-h.shape[0] // strip) * strip
    return np.vstack([h, np.zeros((rows - h.shape[0], h.shape[1]))]).reshape(-1, strip, h.shape[1]).any(1)
for density in (0.0, 0.02, 0.05, 0.1):
    for backend, hint in [(b, h) for b in ON[1:] for h in (["", ", gran=16x1"] if b == "cpu" else [""])]:
        big, shape = BIG[backend], (BIG[backend]["T"], BIG[backend]["K"])
        h = (rng.normal(size=shape) * (rng.random(shape) < density)).astype(np.float32)
        np.save(path("h.npy"), h), np.save(path("W.npy"), integers(big["K"], big["N"]))
        data = ["--bind", "h=" + path("h.npy"), "--bind", "W=" + path("W.npy")]
        target = "cpu" if backend == "cpu" else "sm_90a"
        program = write("cover.spx", HEAD.replace("T: dyn", "T = %(T)d" % big).replace("K: dyn", "K = %(K)d" % big).replace("N: dyn", "N = %(N)d" % big) +
                        "kernel k { " + LISTED[backend][0].replace("0.05", str(density or 0.01) + hint) + " }\n")
        tile = spc("compile", program, "--target=" + target, "--emit=tile").stdout
        strips = re.findall(r"list h \{[^}]*?\n\s+strip (\d+);[^}]*?gran (\d+);", tile)
        r = spc("run", program, *data, "--backend=" + backend, "--stats=" + path("stats.json"), "--out", "y=" + path("y.npy"))
        if not check("cover at density %g on %s: a list was chosen and ran" % (density, backend), r.returncode == 0 and strips, r.stderr or tile[-1500:]):
            continue
        strip, gran = map(int, strips[0])
        stats = json.load(open(path("stats.json")))
        covers = [s["cover"] for s in stats["stages"] if s["cover"] is not None]
        want = tiles_of(h, strip).mean() if gran == 1 else None
        check("measured cover at density %g on %s is the counted one" % (density, backend),
              want is None or (covers and abs(covers[0] - want) < (1e-6 if backend == "cpu" else 0.05)), "%s, counted %s" % (covers, want))
        if hint:  # lists over strips of several rows, of zeros that are independent all the same: nothing was predicted of those
            check("cover at density %g on %s with the hint%s: strips of several rows" % (density, backend, hint), strip > 1, tile[-1500:])
            continue
        text = spc("explain", program, "--target=" + target).stdout
        said = re.search(r"independent zeros would cover ([\d.]+) % of the (\d+)x1", text) or re.search(r"cover +([\d.]+) % of the (\d+)x1 micro-tiles", text)
        formula = 100 * (1 - (1 - (density or 0.01)) ** int(said.group(2))) if said else -1
        check("explain's cover at density %g on %s is 1-(1-p)^strip" % (density, backend), said and abs(float(said.group(1)) - formula) <= 0.5 + 0.01 * formula, text)
        check("explain's cover at density %g on %s is near the counted one" % (density, backend),
              density == 0 or gran != 1 or abs(formula / 100 - want) < 0.03, "%s %s" % (formula, want))

# ---- 5. Conversions: through every format and back. ------------------------------------------------------------
A = integers(13, 18, density=0.3)
FORMATS = ["dense", "dense_t", "csr", "csc", "coo", "dcsr", "csf", "bsr(2,3)", "bsr(4,4)", "ell(18)", "bitmap(4,4)", "twell(8,2)"]
RESULTS = ["dense", "csr", "csc", "coo", "dcsr", "twell(4,1)"]
for f in FORMATS:
    for g in RESULTS:
        program = write("convert.spx", HEAD + "kernel k { in x: f32[T,N] as %s; out y[i,j] = x[i,j] as %s; }\n" % (f, g))
        if g != "dense" and f.startswith("dense"):
            continue
        got = run(program, {"x": A}, "y", ON[1] if len(ON) > 1 else "interp")
        check("copy of %s as %s" % (f, g), same(got, A), got)
    like = write("like.spx", HEAD + "kernel k { in x: f32[T,N] as %s; out y[i,j] = x[i,j] as like(x); }\n" % f)
    if not f.startswith("dense"):
        got = run(like, {"x": A}, "y", ON[-1])
        check("copy of %s as its like" % f, same(got, A), got)
nm = np.zeros((6, 16), np.float32)
for i, j in itertools.product(range(6), range(0, 16, 4)):
    nm[i, j + rng.permutation(4)[:2]] = rng.integers(1, 5, 2)
program = write("nm.spx", HEAD + "kernel k { in x: f32[T,N] as nm(2,4); out y[i,j] = x[i,j]; }\n")
for backend in ON:
    got = run(program, {"x": nm}, "y", backend)
    check("copy of nm(2,4) as dense on %s" % backend, same(got, nm), got)
for form in ("csr", "csc", "coo"):
    program = write("file.spx", HEAD + "kernel k { in x: f32[T,N] as %s; out y[i,j] = x[i,j] as %s; }\n" % (form, form))
    sp.save_npz(path("x.npz"), sp.csr_matrix(A).asformat(form))
    r = spc("run", program, "--bind", "x=" + path("x.npz"), "--out", "y=" + path("y.npz"), "--backend=" + ON[-1])
    back = sp.load_npz(path("y.npz")) if r.returncode == 0 else None
    check("a file of %s comes back as %s" % (form, form), back is not None and back.format == form and back.nnz == np.count_nonzero(A) and (back.toarray() == A).all(), r.stderr)

# ---- 6. Linearity, scaling, transposition and the duality of SpMM and SDDMM, on integers. ----------------------
for backend in ON:
    S, B, C = integers(13, 21, density=0.3), integers(21, 18), integers(21, 18)
    f = lambda s, b: run(FILES["spmm"], {"A": s, "B": b}, "y", backend)
    check("A(B + C) = AB + AC on " + backend, same(f(S, B + C), f(S, B) + f(S, C)))
    check("(4A)B = 4(AB) on " + backend, same(f(4 * S, B), 4 * f(S, B)))
    t = write("transposed.spx", HEAD + "kernel k { in A: f32[T,K] as csc; in B: f32[K,N] as dense_t; out y[n,i] = sum[k] A[i,k]*B[k,n]; }\n")
    check("the transposed product on " + backend, same(run(t, {"A": S, "B": B}, "y", backend), f(S, B).T))
    t = write("right.spx", HEAD + "kernel k { in B: f32[N,K]; in A: f32[K,T] as csr; out y[n,i] = sum[k] B[n,k]*A[k,i]; }\n")
    check("(AB)^T = B^T A^T on " + backend, same(run(t, {"A": S.T.copy(), "B": B.T.copy()}, "y", backend), f(S, B).T))
    P, Q = integers(13, 9), integers(18, 9)
    M = integers(13, 18, density=0.3)
    left = run(FILES["sddmm"], {"S": M, "A": P, "B": Q}, "y", backend)
    right = run(FILES["spmm"], {"A": M, "B": Q}, "y", backend)
    check("sum(SDDMM(S; P, Q)) = sum(P * (S Q)) on " + backend, isinstance(left, np.ndarray) and left.sum() == (P * right).sum(), left)

# ---- 7. Every element of a product is within its own bound, sqrt(K) eps sum|ab|, of float64. -------------------------
EPS = {"f32": 2.0 ** -24, "f16": 2.0 ** -11, "bf16": 2.0 ** -8}
def rounded(a, dtype):
    if dtype == "f16":
        return a.astype(np.float16)
    if dtype == "f32":
        return a.astype(np.float32)
    bits = a.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)).view(np.float32)
for dtype, shape in itertools.product(EPS, ((13, 96, 37), (33, 500, 64))):
    t, k, n = shape
    for kind in ("dense", "masked", "csr", "cancelling"):
        a, b = rng.normal(size=(t, k)), rng.normal(size=(k, n))
        if kind in ("masked", "csr"):
            a *= rng.random(a.shape) < 0.05
        if kind == "cancelling":
            a[:, k // 2:2 * (k // 2)], b[k // 2:2 * (k // 2)] = a[:, :k // 2], -b[:k // 2]
        a, b = rounded(a, dtype), rounded(b, dtype)
        decl = {"dense": "", "cancelling": "", "masked": " ~ zeros(dynamic, density=0.05)", "csr": " as csr"}[kind]
        program = write("bound.spx", HEAD + "kernel k { in A: %s[T,K]%s; in B: %s[K,N]; out y[i,n] = sum[k] A[i,k]*B[k,n]; }\n" % (dtype, decl, dtype))
        a64, b64 = a.astype(np.float64), b.astype(np.float64)
        exact, size = a64 @ b64, np.abs(a64) @ np.abs(b64)
        bound = np.sqrt(k) * EPS["f32"] * size + (EPS[dtype] * np.abs(exact) if dtype != "f32" else 0) + 1e-30
        if dtype == "f16":
            bound += 2.0 ** -25
        for backend in ON[1:] or ON:
            got = run(program, {"A": a, "B": b}, "y", backend)
            good = isinstance(got, np.ndarray) and (np.abs(got.astype(np.float64) - exact) <= bound).all()
            worst = (np.abs(got.astype(np.float64) - exact) / bound).max() if isinstance(got, np.ndarray) else got
            check("every element of the %s product in %s, %dx%dx%d, on %s" % ((kind, dtype) + shape + (backend,)), good, worst)
# ---- 8. What a self-consistent mistake would hide: identities, large exponents, subscripts out of range, verdicts. ----
def small(text, data, *flags):
    program = write("small.spx", HEAD + "kernel k { " + text + " }\n")
    for backend in ON:
        yield backend, run(program, data, "y", backend, *flags)
def soft(x):
    with np.errstate(invalid="ignore", over="ignore"):
        e = np.exp(x - np.where(np.isinf(x.max(1)), 0, x.max(1))[:, None])
        return np.where(e.sum(1, keepdims=True) > 0, e / np.maximum(e.sum(1, keepdims=True), 1e-300), 0)
negative = -1 - np.abs(rng.normal(size=(19, 23))).astype(np.float32)
for name, want in (("max", negative.max(1)), ("min", (-negative).min(1)), ("argmax", negative.argmax(1)), ("prod", np.full(19, 2.0 ** 23, np.float32))):
    x = {"max": negative, "min": -negative, "argmax": negative, "prod": np.full_like(negative, 2)}[name]
    for backend, got in small("in x: f32[T,K]; out y[t] = %s[k] x[t,k];" % name, {"x": x}):
        check("%s of rows on one side of zero on %s" % (name, backend), same(got, want), got)
none = {"x": np.zeros((3, 0), np.float32)}
for name, want in (("max", -np.inf), ("min", np.inf), ("sum", 0), ("prod", 1), ("argmax", -1)):
    for backend, got in small("in x: f32[T,K]; out y[t] = %s[k] x[t,k];" % name, none):
        check("%s over nothing is %s on %s" % (name, want, backend), same(got, np.full(3, want)), got)
large = (1000 * rng.normal(size=(17, 29))).astype(np.float32)
large[3], large[5, 4:], large[7] = -np.inf, -np.inf, 1e30
for condition in ("", " on k <= t + 40"):
    for backend, got in small("in x: f32[T,K]; out y[t,k] = softmax[k](x[t,k])%s;" % condition, {"x": large}):
        check("softmax of large values and of -inf%s on %s" % (condition, backend), isinstance(got, np.ndarray) and np.allclose(got, soft(large.astype(np.float64)), rtol=1e-4, atol=1e-6), got)
at = np.array([2, -1, 0, 7, 2, 100000, -100000, 6], np.int32)
v = np.arange(1, 9, dtype=np.float32)
want = np.zeros(7, np.float32)
np.add.at(want, at[(at >= 0) & (at < 7)], v[(at >= 0) & (at < 7)])
for race in ("order(fixed)", "atomic"):
    for backend, got in small("in p: i32[K]; in x: f32[K]; in z: f32[T]; let s[p[k]] += x[k] : f32[T] %s; out y[t] = s[t] + z[t];" % race, {"p": at, "x": v, "z": np.zeros(7, np.float32)}):
        check("a scatter out of range writes nothing, %s, on %s" % (race, backend), same(got, want), got)
for backend, got in small("in p: i32[K]; in x: f32[T]; out y[k] = x[p[k]];", {"p": at, "x": v[:7]}):
    check("a gather out of range reads 0 on " + backend, same(got, np.where((at >= 0) & (at < 7), v[np.clip(at, 0, 6)], 0)), got)
off, r = np.array([0, 3, 3, 8, 9], np.int32), integers(11, 5)
for backend, got in small("in off: i32[N+1]; in x: f32[M,K]; ragged r in off[s]..off[s+1]; out y[s,k] = sum[r] x[r,k];", {"off": off, "x": r}):
    check("sums of ragged segments on " + backend, same(got, np.stack([r[a:b].sum(0) for a, b in zip(off, off[1:])])), got)
# Rows of sums: few words of bits, many; places that are listed, visited one by one, looked for from above; empty rows and full ones.
for n, density in ((64, 0.1), (255, 0.01), (256, 0.01), (1000, 0.003), (1000, 0.2), (4096, 0.001), (4097, 0.001)):
    a, b = integers(40, 60, density=0.15), integers(60, n, density=density)
    a[3], a[5], b[:, n // 2:n // 2 + 64] = 0, 1, integers(60, 64, density=0.5)[:, :b[:, n // 2:n // 2 + 64].shape[1]]
    b[:, n - 1] = 1
    for reducer, want in (("sum", a @ b), ("max", (a[:, :, None] * b[None]).max(1))):
        for backend, got in small("in A: f32[T,K] as csr; in B: f32[K,N] as csr; out y[i,j] = %s[k] A[i,k]*B[k,j] as csr;" % reducer, {"A": a, "B": b}):
            check("a %s of products as csr, %d columns, %g of them, on %s" % (reducer, n, density, backend), same(got, want), got)
inf = np.zeros((5, 256), np.float32), np.full((256, 512), np.inf, np.float32)
for backend in ON:
    got = run(FILES["masked"], {"h": inf[0], "W": inf[1]}, "y", backend, "--strict-nan")
    check("--strict-nan: 0 * inf is NaN on " + backend, isinstance(got, np.ndarray) and np.isnan(got).all(), got)
for backend in ON[1:]:
    text, wide = LISTED[backend]
    program = write("verdict.spx", HEAD.replace("K: dyn", "K = %d" % wide).replace("N: dyn", "N = 512") + "kernel k { " + text + " }\n")
    np.save(path("W.npy"), np.ones((wide, 512), np.float32))
    for what, h in (("sparse", np.zeros((64, wide), np.float32)), ("dense", np.ones((64, wide), np.float32))):
        np.save(path("h.npy"), h)
        r = spc("run", program, "--bind", "h=" + path("h.npy"), "--bind", "W=" + path("W.npy"), "--backend=" + backend, "--stats=" + path("stats.json"))
        stats = json.load(open(path("stats.json"))) if r.returncode == 0 else {}
        check("a mask of %s is found %s on %s" % ("zeros" if what == "sparse" else "ones", what, backend),
              [g["verdict"] for g in stats.get("guards", [])] == [what], r.stderr or stats)
        ran = [s["stage"] for s in stats.get("stages", []) if s["ran"] and s["stage"].startswith("y")]
        check("the stage of that verdict ran on " + backend, ran == (["y"] if what == "sparse" else ["y.dense"]), stats)

# The same of an operand that is stored: its hint, or the lack of one, is no promise.
for backend in ON[1:]:
    if backend != "cpu":
        continue
    for hint in ("", " ~ zeros(static, density=0.05)", " ~ zeros(static, density=0.8)", " const", " ~ zeros(static, density=0.8) const"):
        for form in ("csr", "dcsr", "bsr(4,4)", "bitmap(8,8)", "csc"):
            program = write("stored.spx", HEAD.replace("K: dyn", "K = 256").replace("N: dyn", "N = 512") + "kernel k { in A: f32[T,K] as %s%s; in W: f32[K,N]; out y[t,o] = sum[k] A[t,k]*W[k,o]; }\n" % (form, hint))
            for what, kept in (("sparse", 0.001), ("dense", 0.9)):
                a, w = integers(64, 256, density=kept), integers(256, 512)
                for name, value in (("A", a), ("W", w)):
                    np.save(path(name + ".npy"), value.astype(np.float32))
                r = spc("run", program, *[x for n in "AW" for x in ("--bind", n + "=" + path(n + ".npy"))], "--backend=cpu", "--stats=" + path("stats.json"), "--out", "y=" + path("y.npy"))
                check("%s%s, %g stored: the product" % (form, hint, kept), r.returncode == 0 and same(np.load(path("y.npy")), a @ w), r.stderr)
                stats = json.load(open(path("stats.json"))) if r.returncode == 0 else {}
                guards, ran = stats.get("guards", []), [s["stage"] for s in stats.get("stages", []) if s["ran"] and s["stage"].startswith("y")]
                if form == "csr" or guards:  # entries that are not walked row by row have no strips, and no guard
                    check("%s%s, %g stored: its branch" % (form, hint, kept), [g["verdict"] for g in guards] == [what] and all(("dense" in s) == (what == "dense") for s in ran) and ran, stats)

# One huge value in each micro-tile position in turn: every row of a strip and of the ragged last one.
for backend in ON[1:]:
    for row in range(13):
        wide = LISTED[backend][1]
        h = np.zeros((13, wide), np.float32)
        h[row, (37 * row + wide - 1) % wide] = 2.0 ** 20
        weight = W if wide == len(W) else integers(wide, 512)
        got = run(LISTED_FILES[backend], {"h": h, "W": weight}, "y", backend, "--force-guard=sparse")
        check("a huge value in row %d of the strips on %s" % (row, backend), same(got, h @ weight), got)
close()
