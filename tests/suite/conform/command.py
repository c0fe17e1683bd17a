"""The command line: bindings, outputs, generators, summaries, exit codes, statistics, artefacts."""
import glob, json, os, re
import numpy as np, scipy.io, scipy.sparse as sp
import harness_data as h
from .harness import *

rng = np.random.default_rng(71)
normal = lambda *shape: rng.normal(size=shape).astype(np.float32)
COPY = "spx 1; dim N: dyn; dim M: dyn;\nkernel k { in x: %s[N,M]%s; out y[i,j] = x[i,j]%s; }\n"


def run(text, binds, *options, dims=None, backend="interp"):
    _, args = arguments(text, binds, dims, ["--backend=" + backend] if backend else [])
    return spc("run", *args, *options)


# ---- summaries: one line an output, numbers that NumPy agrees with
def summaries(backend):
    S = sp.random(13, 17, 0.3, "csr", np.float32, 1)
    x = normal(13, 17)
    x[0] = 0
    text = program("N M", """in S: f32[N,M] as csr; in x: f32[N,M];
  out a[i,j] = x[i,j]; out b[i,j] = 2*S[i,j] as csr; out c[] = sum[i,j] x[i,j]; out d[i] = argmax[j] x[i,j]; out e[i,j] = x[i,j] > 0; out f[i] = sum[j] x[i,j] : f16; out g[i,j] = S[i,j] as like(S);""")
    r = run(text, dict(S=S, x=x), backend=backend)
    lines = r.stdout.strip().splitlines()
    check("one line an output, nothing else on stdout, on " + backend, r.returncode == 0 and [l.split(":")[0] for l in lines] == list("abcdefg"), r.stdout + r.stderr)
    for line, words in zip(lines, ("f32[13,17]", "f32[13,17] as csr", "f32[]", "i64[13]", "b1[13,17]", "f16[13]", "f32[13,17] as csr")):
        check("the summary `%s` has %s" % (line, words), words in line, line)
    for line, a in ((lines[0], x), (lines[1], 2 * S.toarray())):
        number = lambda word: float(re.search(word + r" +(-?[\d.e+-]+)", line).group(1))
        good = number("nonzeros") == (a != 0).sum() and np.allclose([number("min"), number("max"), number("norm")], [a.min(), a.max(), np.linalg.norm(a)], rtol=1e-4)
        check("non-zeros, min, max and norm of `%s`" % line, good, line)


for backend in BACKENDS:
    job("summaries", summaries, backend)


# ---- dtypes: what is read and what is written
def dtypes():
    cases = [("f64", np.float64), ("f32", np.float32), ("f16", np.float16), ("i64", np.int64), ("i32", np.int32), ("i16", np.int16), ("i8", np.int8), ("u8", np.uint8), ("b1", np.bool_), ("i4", np.int8), ("u4", np.uint8)]
    others = [np.float64, np.float32, np.int32, np.int8, np.uint8, np.bool_, np.uint16]
    also = {"bf16": {np.uint16, np.float32}, "f8e4m3": {np.uint8, np.float32}, "f8e5m2": {np.uint8, np.float32}, "i4": {np.int8, np.uint8}, "u4": {np.int8, np.uint8}, "b1": {np.bool_, np.uint8}}
    written = {"bf16": np.float32, "f8e4m3": np.float32, "f8e5m2": np.float32, "i4": np.int8, "b1": np.bool_}
    for name, own in cases + [("bf16", None), ("f8e4m3", None), ("f8e5m2", None)]:
        for t in dict.fromkeys([own or np.complex64] + others):
            r = run(COPY % (name, "", ""), dict(x=np.ones((2, 3), t)), "--out", "y=" + path("dt.npy"))
            good = t in also.get(name, {own})
            check("%s from %s: %s" % (name, np.dtype(t).name, "read" if good else "refused, exit 1"), r.returncode == (0 if good else 1) and (good or ("E0804" in r.stderr and name in r.stderr)), "exit %d %s" % (r.returncode, r.stderr))
            if r.returncode == 0:
                y = np.load(path("dt.npy"))
                check("%s is written as it should be" % name, y.dtype == np.dtype(written.get(name, own)) or name == "u4" and y.dtype in (np.uint8, np.int8), y.dtype)


job("dtypes", dtypes)
bits8 = np.arange(256, dtype=np.uint8).reshape(16, 16)


def f8(bits, e, m, bias, finite):
    s, x, f = bits >> 7, (bits >> m) & ((1 << e) - 1), bits & ((1 << m) - 1)
    v = np.where(x == 0, f * 2.0 ** (1 - bias - m), (1 + f * 2.0 ** -m) * 2.0 ** (x.astype(int) - bias)) * np.where(s, -1.0, 1.0)
    top = x == (1 << e) - 1
    return np.where(top & (f == (1 << m) - 1), np.nan, v) if finite else np.where(top, np.where(f == 0, np.where(s, -np.inf, np.inf), np.nan), v)


case("f8e4m3 from bits, all 256", COPY % ("f8e4m3", "", ""), dict(x=bits8), dict(y=f8(bits8, 4, 3, 7, True)), dtypes=dict(y=np.float32), rtol=0)
case("f8e5m2 from bits, all 256", COPY % ("f8e5m2", "", ""), dict(x=bits8), dict(y=f8(bits8, 5, 2, 15, False)), dtypes=dict(y=np.float32), rtol=0)
halves = np.arange(65536, dtype=np.uint32).astype(np.uint16)[::17].reshape(8, -1)
case("bf16 from bits", COPY % ("bf16", "", ""), dict(x=halves), dict(y=(halves.astype(np.uint32) << 16).view(np.float32)), dtypes=dict(y=np.float32), rtol=0)
near = np.concatenate([normal(100) * 10.0 ** rng.integers(-30, 30, 100).astype(np.float32), np.float32([1.00390625, 1.01171875, 3.4e38, -3.4e38, 1e-40, np.inf, -0.0])]).astype(np.float32)[None]
case("bf16 from float32, to nearest, ties to even", COPY % ("bf16", "", ""), dict(x=near), dict(y=bf16(near)), rtol=0)
case("Fortran order and a strided file", COPY % ("f32", "", ""), dict(x=(F := np.asfortranarray(normal(5, 7)))), dict(y=F), rtol=0)
case("a scalar of rank 0 in and out", "spx 1;\nkernel k { in a: f32[]; in n: i32[]; out y[] = 2*a; out z = n + a[]*0 ; }\n".replace("n + a[]*0 ", "n*n"), dict(a=np.float32(1.5), n=np.int32(7)), dict(y=np.array(3.0), z=np.array(49)))
refuse("a file of shape (1,) is no scalar", "spx 1;\nkernel k { in a: f32[]; out y[] = 2*a; }\n", "E0", ["a"], dict(a=np.ones(1, np.float32)))

# ---- outputs: .npz in scipy's form of the output's format
NPZ = dict(csr="csr", csc="csc", coo="coo", dcsr="coo", csf="coo")
NPZ.update({"ell(9)": "coo", "bitmap(4,4)": "coo", "twell(8,2)": "coo"})
S = sp.random(7, 9, 0.4, "csr", np.float32, 5)
NPZ["bsr(7,3)"] = "bsr"
NPZ["bsr(2,3)"] = "coo"                                 # scipy's blocks divide the shape
for fmt, form in NPZ.items():
    def form_of(fmt=fmt, form=form):
        for backend in BACKENDS:
            file = path("form_%s_%s.npz" % (backend, re.sub(r"\W", "", fmt)))
            r = run(COPY % ("f32", " as " + fmt, " as like(x)"), dict(x=S), "--out", "y=" + file, backend=backend)
            got = sp.load_npz(file) if r.returncode == 0 else None
            check("an output like(%s) is scipy's %s on %s" % (fmt, form, backend), got is not None and got.format == form and got.shape == S.shape and np.array_equal(got.toarray(), S.toarray()), "%s %s" % (r.stderr, got if got is None else got.format))
    job("form", form_of)


def endings():
    r = run(COPY % ("f32", "", ""), dict(x=normal(2, 3)), "--out", "y=" + path("e.npz"))
    check(".npz of a dense output is exit 2", r.returncode == 2 and "dense" in r.stderr, r.stderr)
    r = run(COPY % ("f32", " as csr", " as like(x)"), dict(x=S), "--out", "y=" + path("e.npy"))
    check(".npy of a sparse output is dense", r.returncode == 0 and np.array_equal(np.load(path("e.npy")), S.toarray()), r.stderr)
    two = "spx 1; dim N: dyn;\nkernel k { in x: f32[N]; out y[i] = x[i]; out z[i] = 2*x[i]; }\n"
    r = run(two, dict(x=normal(3)), "--out", "z=" + path("z.npy"))
    check("one --out of two outputs", r.returncode == 0 and os.path.exists(path("z.npy")), r.stderr)
    check("--out leaves stdout empty", r.stdout == "", r.stdout)


job("endings", endings)

# ---- inputs: every container for every sparse format
dense = S.toarray()
scipy.io.mmwrite(path("in.mtx"), S, precision=9)
scipy.io.mmwrite(path("in64.mtx"), S.astype(np.float64), precision=17)
write("in.tns", "".join("%d %d %.9g\n" % (a + 1, b + 1, v) for a, b, v in zip(*sp.find(S))))
coo = S.tocsr()
write("in.smtx", "%d, %d, %d\n%s\n%s\n" % (7, 9, S.nnz, " ".join(map(str, coo.indptr)), " ".join(map(str, coo.indices))))
for fmt in ("csr", "csc", "coo", "dcsr", "bsr(2,3)", "ell(9)", "bitmap(4,4)", "twell(8,2)", "csf"):
    for source in (S.tocsc(), S.tocoo(), path("in.mtx"), path("in.tns"), dense):
        kind = source if isinstance(source, str) else type(source).__name__
        case("%s for %s" % (os.path.basename(kind), fmt), program("N M", "in A: f32[N,M] as %s; in P: pattern[N,M] as %s; out y[i,j] = 2*A[i,j]; out n[i] = sum[j] where(P[i,j], 1, 0) : i32;" % (fmt, fmt if "bsr" not in fmt else "csr")),
             dict(A=source, P=source), dict(y=2 * dense, n=(dense != 0).sum(1)), on=BACKENDS[-1:], dims=dict(N=7, M=9) if str(kind).endswith("tns") else None)
case(".smtx for a pattern", program("N M", "in P: pattern[N,M] as dcsr; out y[i,j] = 1.0 on P[i,j] : f32;"), dict(P=path("in.smtx")), dict(y=(dense != 0) * 1.0))
P0 = sp.csr_matrix((np.zeros(S.nnz, np.float32), S.indices, S.indptr), S.shape)
case("for a pattern the stored entries count, their values do not", program("N M", "in P: pattern[N,M] as coo; out y[i,j] = 1.0 on P[i,j] : f32;"), dict(P=P0), dict(y=(dense != 0) * 1.0))
case("64-bit positions", program("N M", "in A: f32[N,M] as csr; in x: f32[M]; out y[i] = sum[j] A[i,j]*x[j];"),
     dict(A=(L := sp.csr_matrix((S.data, S.indices.astype(np.int64), S.indptr.astype(np.int64)), S.shape)), x=(xl := normal(9))), dict(y=dense.astype(np.float64) @ xl))
refuse("three of four in nm(2,4)", program("N M", "in q: i8[N,M] as nm(2,4); out y[i] = sum[j] q[i,j] : i32;"), "E0804", ["nm(2,4)", "`q`"], dict(q=np.int8([[1, 2, 3, 0]])))
refuse("a row wider than ell", program("N M", "in q: i8[N,M] as ell(2); out y[i] = sum[j] q[i,j] : i32;"), "E0804", ["ell(2)"], dict(q=np.int8([[1, 2, 3, 0]])))
case("a tile beyond twell's capacity is kept", program("N M", "in q: i8[N,M] as twell(4,2); out y[i] = sum[j] q[i,j] : i32;"), dict(q=np.int8([[1, 2, 3, 0], [0, 0, 0, 4]])), dict(y=np.int32([6, 4])))


def overflow():
    q, V = np.abs(normal(5, 21)), normal(21, 5)
    text = program("N M", "in q: f32[N,M] as csr; in V: f32[M,N]; let h[i,j] = 2*q[i,j] as twell(8,2); out z[i,k] = sum[j] h[i,j]*V[j,k];")
    for backend in BACKENDS:
        r = run(text, dict(q=q, V=V), "--out", "z=" + path("tw_%s.npy" % backend), backend=backend)
        good = r.returncode == 0 and differs(np.load(path("tw_%s.npy" % backend)), 2 * q.astype(np.float64) @ V, 2e-5) is None
        check("what overflows a let's twell is kept on " + backend, good, r.stderr)


job("overflow", overflow)

# ---- generators
def generated(source, dtype="f32", shape=(37, 41), backend="interp", *options):
    name = path("g_%s_%s.npy" % (backend, re.sub(r"\W", "_", source + dtype + "".join(options))))
    r = spc("run", write("gen_%s.spx" % dtype, COPY % (dtype, "", "")), "-D", "N=%d" % shape[0], "-D", "M=%d" % shape[1], "--bind", "x=" + source, "--out", "y=" + name, "--backend=" + backend, *options)
    return np.load(name) if r.returncode == 0 else check("generator %s" % source, False, r.stderr)


def generators():
    for source, dtype in (("rand:3", "f32"), ("rand:3", "bf16"), ("rand:4", "i8"), ("zeros:0.3:4x8:1", "f32"), ("rand:5", "i64"), ("zeros:0.5:1x1:9", "f16")):
        same = [generated(source, dtype, backend=b) for b in BACKENDS]
        check("%s of %s is the same on every back end" % (source, dtype), all(np.array_equal(same[0], s) for s in same))
    a = generated("rand:3", shape=(300, 200)).astype(np.float64)
    check("rand is standard normal", abs(a.mean()) < 0.02 and abs(a.std() - 1) < 0.02 and abs((abs(a) < 1).mean() - 0.6827) < 0.01 and np.unique(a).size > 55000, (a.mean(), a.std()))
    check("another seed, other numbers", not np.array_equal(a, generated("rand:4", shape=(300, 200))))
    check("--seed is added to a generator's seed", np.array_equal(generated("rand:5", "f32", (37, 41), "interp"), generated("rand:3", "f32", (37, 41), "interp", "--seed=2")))
    i = generated("rand:1", "i32", (100, 100))
    check("integers are uniform in -8..8", i.min() == -8 and i.max() == 8 and (np.bincount(i.ravel() + 8, minlength=17) > 400).all(), np.bincount(i.ravel() + 8))
    u = generated("rand:1", "u8", (100, 100))
    check("unsigned ones in 0..8", u.min() == 0 and u.max() == 8, (u.min(), u.max()))
    for density, R, C in ((0.25, 4, 5), (0.0, 2, 2), (1.0, 3, 3), (0.5, 1, 41), (0.1, 8, 8)):
        shape = (37, 41)
        z = generated("zeros:%g:%dx%d:7" % (density, R, C), shape=shape)
        grid = (-(-shape[0] // R), -(-shape[1] // C))
        full = np.zeros((grid[0] * R, grid[1] * C), np.float32)
        full[:shape[0], :shape[1]] = z
        tiles = full.reshape(grid[0], R, grid[1], C).transpose(0, 2, 1, 3)
        kept = (tiles != 0).any((2, 3))
        wanted = density * kept.size
        whole = (z != 0).sum() == sum((np.minimum(R, shape[0] - a * R) * np.minimum(C, shape[1] - b * C)) for a, b in np.argwhere(kept))
        check("zeros:%g:%dx%d keeps that share of the tiles, whole" % (density, R, C), abs(kept.sum() - wanted) <= max(1, 3 * np.sqrt(wanted * (1 - density))) and whole, (kept.sum(), wanted, whole))
    b = spc("check", write("same.spx", COPY % ("f32", "", "") + "test k { N=37, M=41; x = rand(3); expect y ~= ref; }\n"))
    check("a test's rand", b.returncode == 0, b.stderr)
    one = generated("rand:3", shape=(1, 3))
    b = spc("check", write("same3.spx", COPY % ("f32", "", "") + "test k { N=1, M=3; x = rand(3); expect y ~= [[%s]], rtol=1e-6; }\n" % ",".join("%.9g" % v for v in one[0])))
    check("rand:SEED gives the numbers of a test's rand(seed)", b.returncode == 0, b.stderr + b.stdout)


job("generators", generators)


# ---- exit codes and their precedence
def exits():
    good, bad = write("x_good.spx", COPY % ("f32", "", "")), write("x_bad.spx", (COPY % ("f32", "", "")).replace("x[i,j];", "x[i,q];"))
    torn, x64 = write("torn.npy", b"\x93NUMPY\x01"), save(np.ones((2, 3)), "x64")
    fine = save(np.ones((2, 3), np.float32), "x32")
    for code, what, args in (
            (1, "the file's errors come before a binding that does not exist", [bad, "--bind", "nothing=" + torn]),
            (1, "the file's errors come before a missing binding", [bad]),
            (2, "a missing binding", [good]), (2, "an unknown binding", [good, "--bind", "q=" + fine, "--bind", "x=" + fine]), (2, "an unknown binding before a torn file", [good, "--bind", "x=" + torn, "--bind", "q=" + fine]),
            (5, "a torn file", [good, "--bind", "x=" + torn]), (5, "no such file", [good, "--bind", "x=" + path("absent.npy")]), (1, "a dtype that does not fit", [good, "--bind", "x=" + x64]),
            (5, "the program is not there", [path("absent.spx")]), (2, "an unknown kernel", [good, "--kernel", "q", "--bind", "x=" + fine]), (2, "an unknown dim", [good, "-D", "Q=1", "--bind", "x=" + fine]),
            (2, "a binding twice", [good, "--bind", "x=" + fine, "--bind", "x=" + fine]), (2, "an unknown back end", [good, "--backend=tpu", "--bind", "x=" + fine]),
            (5, "an ending that is not known", [good, "--bind", "x=" + write("x.csv", "1,2\n")]), (2, "a generator that does not parse", [good, "--bind", "x=rand:abc", "-D", "N=2", "-D", "M=2"]),
            (2, "a density outside 0..1", [good, "--bind", "x=zeros:2:1x1:0", "-D", "N=2", "-D", "M=2"]), (1, "a generator without sizes", [good, "--bind", "x=rand:1"]), (0, "all well", [good, "--bind", "x=" + fine])):
        r = spc("run", *args)
        check("exit %d: %s" % (code, what), r.returncode == code and (code == 0) == (r.stdout != "") and (code == 0 or r.stderr), "exit %d\n%s%s" % (r.returncode, r.stdout, r.stderr))
    many = write("many.spx", "spx 1; dim N: dyn;\nkernel a { in x: f32[N]; out y[i] = x[i]; }\nkernel b { in x: f32[N]; out y[i] = 2*x[i]; }\n")
    v = save(np.ones(3, np.float32), "v3")
    check("--kernel may not be left out where there are two", spc("run", many, "--bind", "x=" + v).returncode == 2)
    r = spc("run", many, "--kernel", "b", "--bind", "x=" + v, "--out", "y=" + path("b.npy"))
    check("--kernel chooses", r.returncode == 0 and (np.load(path("b.npy")) == 2).all(), r.stderr)
    r = spc("run", bad, "--diagnostics=json")
    check("--diagnostics=json", r.returncode == 1 and r.stdout == "" and all(json.loads(l)["code"] for l in r.stderr.strip().splitlines()), r.stderr)
    r = spc("compile", many, "--emit=tile", "-o", "-", "--target=cpu")
    for kernel, factor in (("a", 1), ("b", 2)):
        again = spc("run", write("many.ir", r.stdout), "--kernel", kernel, "--bind", "x=" + v, "--backend=interp", "--out", "y=" + path("m.npy"))
        check("--kernel of a dump of two", r.returncode == 0 and again.returncode == 0 and (np.load(path("m.npy")) == factor).all(), r.stderr + again.stderr)


job("exits", exits)

# ---- statistics, artefacts and dumps
SPARSE = program("T F O", "in h: f32[T,F] ~ zeros(dynamic, density=0.05); in W: f32[F,O]; let g[t,f] = relu(h[t,f]) ~ zeros(dynamic, density=0.05); out y[t,o] = sum[f] h[t,f]*W[f,o];", more="").replace("let g[t,f] = relu(h[t,f]) ~ zeros(dynamic, density=0.05); ", "")
BIG = dict(T=1024, F=1024, O=512)


def statistics(backend):
    # A GPU gathers a micro-tile of rows in one piece where they lie side by side.  A library's dense product of this size beats
    # lists of f32, where there is one: this is about the guard.
    text = SPARSE.replace("f32[T,F]", "f32[T,F] as dense_t") if backend == "cuda" else SPARSE
    for source, density in (("zeros:0.02:%s:1" % ("64x1" if backend == "cuda" else "8x1"), 0.02), ("zeros:1:1x1:1", 1.0), ("zeros:0:1x1:1", 0.0)):
        r = spc("run", write("stats_%s.spx" % backend, text), *(a for d, n in BIG.items() for a in ("-D", "%s=%d" % (d, n))), "--bind", "h=" + source, "--bind", "W=rand:2", "--backend=" + backend, "--library=off", "--stats=" + path("s_%s.json" % backend))
        s = json.load(open(path("s_%s.json" % backend))) if r.returncode == 0 else {}
        check("statistics have every field on " + backend, {"backend", "stages", "guards", "compilations", "packings", "bytes_to_device", "bytes_to_host", "overflow"} <= set(s) and s["backend"] == backend, s or r.stderr)
        check("stages as executed, none interpreted on " + backend, all(t["backend"] == backend and t["kernel"] != "interp" for t in s.get("stages", [0])), s)
        if s.get("guards"):
            covers = [t["cover"] for t in s["stages"] if t["stage"] == "y"]
            check("the cover is the measured one, %g on %s" % (density, backend), covers and abs(covers[0] - density) < 0.02, s)
            ran = [t["stage"] for t in s["stages"] if t["ran"]]
            check("the guard's verdict decides what runs, %g on %s" % (density, backend), ("y.dense" in ran) == (density == 1.0) and ("y" in ran) == (density < 1), s)
        else:
            check("the hinted product has a guard on " + backend, False, s)


for backend in BACKENDS[1:]:
    job("statistics", statistics, backend)

FFN = "spx 1; dim T: dyn; dim D: dyn; dim F: dyn;\nkernel ffn { in x: f32[T,D]; in W: f32[D,F]; in V: f32[F,D];\n let hid[t,f] = relu(sum[d] x[t,d]*W[d,f]) ~ zeros(dynamic, density=0.05); out y[t,o] = sum[f] hid[t,f]*V[f,o]; }\n"


def artefacts():
    p = write("art.spx", FFN)
    for target, kinds in (("cpu", ("llvm", "asm")), ("sm_90a", ("cuda",) + ("ptx", "cubin") * h.found("NVRTC"))):
        if target == "cpu" and "cpu" not in BACKENDS:
            continue
        stages = set(re.findall(r"^ *stage \d+ (\S+) ", spc("compile", p, "--target=" + target, "--emit=tile", "-o", "-").stdout, re.M))
        if target != "cpu":  # the launch that makes a list decides too
            stages = {s for s in stages if not s.startswith("guard.")}
        for kind in kinds:
            folder = path("art_" + kind)
            r = spc("compile", p, "--target=" + target, "--emit=" + kind, "-o", folder + "/")
            names = sorted(os.path.basename(f) for f in glob.glob(folder + "/*"))
            check("--emit=%s writes KERNEL.STAGE.%s, one a stage" % (kind, kind), r.returncode == 0 and r.stdout == "" and set(names) == {"ffn.%s.%s" % (s, kind) for s in stages}, "%s %s\n%s" % (names, stages, r.stderr))
    x, W, V = normal(9, 21), normal(21, 33), normal(33, 21)
    binds = ["--bind", "x=" + save(x, "ax"), "--bind", "W=" + save(W, "aW"), "--bind", "V=" + save(V, "aV")]
    want = np.maximum(x.astype(np.float64) @ W, 0) @ V
    dumps = [("ein", []), ("tile", []), ("loop", [])] if "cpu" in BACKENDS else [("ein", [])]
    for backend in [b for b in BACKENDS if b != "cuda"]:
        for kind, options in dumps:
            r = spc("compile", p, "--target=cpu", "--emit=" + kind, "-o", path("dump_" + backend + "." + kind))
            again = spc("run", path("dump_" + backend + "." + kind), *binds, "--backend=" + backend, "--out", "y=" + path("dump_%s.npy" % backend))
            check("a dump of %s runs on %s" % (kind, backend), r.returncode == 0 and again.returncode == 0 and differs(np.load(path("dump_%s.npy" % backend)), want, 1e-5) is None, r.stderr + again.stderr)
        for name in [l.split()[1] for l in spc("opt", "--list-passes").stdout.splitlines()]:
            r = spc("opt", p, "--target=cpu", "--stop-after=" + name)
            again = spc("run", write("after_%s.ir" % backend, r.stdout), *binds, "--backend=" + backend, "--out", "y=" + path("dump_%s.npy" % backend))
            check("a dump after %s runs on %s" % (name, backend), again.returncode == 0 and differs(np.load(path("dump_%s.npy" % backend)), want, 1e-5) is None, r.stderr + again.stderr)
    r = spc("compile", p, "--emit=tile", "-o", "-")
    check("-o - is stdout; messages are on stderr", r.returncode == 0 and r.stdout.startswith("spc.ir 1;") and "remark" not in r.stdout, r.stdout[:200])


job("artefacts", artefacts)
