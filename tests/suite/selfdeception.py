"""Checks that the compiler cannot fool itself: names do not matter, edited dumps run as edited, the model follows the
profile, nothing is densified, emitted code is vector code, statistics agree with explain."""
import json, re, resource, shutil, time
import numpy as np, scipy.sparse as sp
from harness_data import *

FFN = open(os.path.join(ROOT, "examples/ffn.spx")).read()

# 1. Renaming every name gives the same tile IR up to names.
RENAME = {"ffn": "zeta", "W1": "Aa", "W2": "Bb", "x": "qq", "h": "mid", "y": "res", "t": "tt", "d": "dd", "f": "ff", "o": "oo", "T": "TT", "D": "DD", "F": "FF"}
KEEP = {"dyn", "dim", "kernel", "in", "let", "out", "relu", "sum", "bf16", "acc", "f32", "const", "zeros", "dynamic", "density", "test", "expect", "ref", "rtol", "rand", "spx"}
def rename(text, table):
    return re.sub(r"(?<![\w.])[A-Za-z_]\w*", lambda m: table.get(m.group(), m.group()), text)
code = re.sub(r"//.*", "", FFN)
for target in ("cpu", "sm_80", "sm_90a"):
    a = spc("compile", write("a.spx", code), "--target=" + target, "--emit=tile").stdout
    b = spc("compile", write("b.spx", rename(code, RENAME)), "--target=" + target, "--emit=tile").stdout
    check("renaming everything keeps the tile IR for " + target, a and rename(a, RENAME).replace("ffn", "zeta") == b.replace("ffn", "zeta") or
          re.sub(r"[A-Za-z_]\w*", "n", a) == re.sub(r"[A-Za-z_]\w*", "n", b), "\n".join(x + "   |   " + y for x, y in zip(a.splitlines(), b.splitlines()) if re.sub(r"[A-Za-z_]\w*", "n", x) != re.sub(r"[A-Za-z_]\w*", "n", y))[:800])
names = [n for n in os.listdir(os.path.join(ROOT, "examples")) if n.endswith(".spx")]
rooms = "".join(open(os.path.join(ROOT, d, n)).read() for d in ("passes", "codegen", "codegen/kernels") for n in os.listdir(os.path.join(ROOT, d)) if n.endswith((".c", ".h", ".cuh")))
for n in names:
    stem = n[:-4]
    if stem in ("topk", "ragged", "threshold"):  # words of the language and of guards
        continue
    check("no example's name in passes or codegen: " + stem, not re.search(r'"%s"' % stem, rooms))

if "cpu" not in backends():
    skip("everything that runs machine code: LLVM is not in this build")
    close()

# 2. The kernel that explain names is the one that ran; a dump after any pass runs, and runs as edited.
data = ["-D", "T=13", "-D", "D=24", "-D", "F=40", "--bind", "x=rand:0", "--bind", "W1=rand:1", "--bind", "W2=rand:2"]
ref = spc("run", "examples/ffn.spx", *data, "--backend=interp", "--out", "y=" + path("ref.npy"))
stats = json.loads(spc("run", "examples/ffn.spx", *data, "--backend=cpu", "--stats=-", "--out", "y=" + path("y.npy")).stdout)
explained = spc("explain", "examples/ffn.spx", *data[:6], "--target=cpu").stdout
check("explain names every stage that ran", all(s["stage"] in explained for s in stats["stages"]), explained)
check("no stage was interpreted", all(s["backend"] == "cpu" and s["kernel"] != "interp" for s in stats["stages"]), stats)
want = np.load(path("ref.npy"))
close_to = lambda y: np.linalg.norm(y - want) <= 2e-2 * np.linalg.norm(want)
for line in spc("opt", "--list-passes").stdout.splitlines():
    name = line.split()[1]
    dump = spc("opt", "examples/ffn.spx", *data[:6], "--target=cpu", "--stop-after=" + name).stdout
    r = spc("run", write("dump.ir", dump), "-D", "T=13", *data[6:], "--backend=cpu", "--out", "y=" + path("y.npy"))
    check("a dump after %s runs and agrees" % name, r.returncode == 0 and close_to(np.load(path("y.npy"))), r.stderr)
dump = spc("opt", "examples/ffn.spx", *data[:6], "--target=cpu", "--stop-after=propagate").stdout
edited = dump.replace("relu(", "neg(")
r = spc("run", write("edited.ir", edited), "-D", "T=13", *data[6:], "--backend=cpu", "--out", "y=" + path("y.npy"))
check("an edited dump runs as edited", r.returncode == 0 and edited != dump and not close_to(np.load(path("y.npy"))), r.stderr)

# 3. A changed device profile moves the break-even in the predicted direction.
BASE = spc("show", "profile", "--target=sm_90a").stdout
def scaled(figure, factor):
    line = re.compile(r"^%s = (\S+)" % figure, re.M)
    check("the printed profile has " + figure, line.search(BASE), BASE)
    return line.sub(lambda m: "%s = %.9g" % (figure, float(m.group(1)) * factor), BASE)
def explained_with(text, profile):
    r = spc("explain", write("m.spx", text), "--target=sm_90a", "--json", "--profile", write("p", profile))
    check("explain with a profile", r.returncode == 0, r.stderr)
    return json.loads(r.stdout)[0] if r.returncode == 0 else {"lists": [], "candidates": []}
def break_even(kernel):
    return kernel["lists"][0]["break_even_cover"] if kernel["lists"] else 0.0
# Detection reads A: less bandwidth moves the break-even down.  Dearer launches leave it, since either branch takes as many; a small product is not worth its launches at all.
MASKED = "spx 1; dim M = %d; kernel k { in A: bf16[M,M] as dense_t ~ zeros(dynamic, density=0.05, gran=128x1); in B: bf16[M,M]; out C[m,n] = sum[k] A[m,k]*B[k,n] : bf16 acc f32; }"
at = {name: break_even(explained_with(MASKED % 4096, profile)) for name, profile in
      (("base", BASE), ("narrow", scaled("bandwidth_gbs", 0.1)), ("slow", scaled("launch_us", 10)))}
check("lists pay with the built-in profile", 0.2 < at["base"] <= 1, at)
check("a tenth of the bandwidth lowers the break-even", at["narrow"] < at["base"], at)
check("ten times the launch cost does not raise the break-even", 0 < at["slow"] <= at["base"], at)
small = [explained_with(MASKED % 2048, profile) for profile in (BASE, scaled("launch_us", 10))]
check("a small product has lists, and with dearer launches it has none", small[0]["lists"] and not small[1]["lists"], [k["lists"] for k in small])
figures = [explained_with(FFN, profile) for profile in (BASE, scaled("launch_us", 10))]
check("explain expects a gain of the FFN, and dearer launches a smaller one", all(k["expected_microseconds"] < k["dense_microseconds"] for k in figures) and
      figures[0]["dense_microseconds"] / figures[0]["expected_microseconds"] > figures[1]["dense_microseconds"] / figures[1]["expected_microseconds"], figures and [k["expected_microseconds"] for k in figures])
check("--profile is read", spc("explain", "examples/ffn.spx", "--profile", write("p", "nonsense = 1\n")).returncode == 1)

# 4. A csr of 10^6 x 10^6 with 10^6 entries is never densified.
n = 10 ** 6
rng = np.random.default_rng(3)
def big(seed):
    g = np.random.default_rng(seed)
    return sp.csr_matrix((g.normal(size=n).astype(np.float32), (g.integers(0, n, n), g.integers(0, n, n))), shape=(n, n))
A, B, x = big(1), big(2), rng.normal(size=n).astype(np.float32)
A.sum_duplicates(), B.sum_duplicates()
S = (A + B).tocsr()
sp.save_npz(path("S.npz"), S, compressed=False), sp.save_npz(path("A.npz"), A, compressed=False), sp.save_npz(path("B.npz"), B, compressed=False), np.save(path("v.npy"), x)
HEAD = "spx 1; dim N: dyn; kernel k { in A: f32[N,N] as csr; "
CASES = {
    "SpMV": (HEAD + "in x: f32[N]; out y[i] = sum[j] A[i,j]*x[j]; }", ["--bind", "x=" + path("v.npy")], "y.npy", lambda: A @ x),
    "A + B as csr": (HEAD + "in B: f32[N,N] as csr; out y[i,j] = A[i,j] + B[i,j] as csr; }", ["--bind", "B=" + path("B.npz")], "y.npz", lambda: A + B),
    "A ∘ (A + B) as csr": (HEAD + "in S: f32[N,N] as csr; out y[i,j] = A[i,j]*S[i,j] as csr; }", ["--bind", "S=" + path("S.npz")], "y.npz", lambda: A.multiply(S).tocsr()),
    "A * B as csr": (HEAD + "in B: f32[N,N] as csr; out y[i,k] = sum[j] A[i,j]*B[j,k] as csr; }", ["--bind", "B=" + path("B.npz")], "y.npz", lambda: A @ B),
}
for name, (text, binds, out, want) in CASES.items():
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    r = subprocess.run(["python3", "-c", "import resource,subprocess,sys,time\nt=time.time()\nc=subprocess.run(sys.argv[1:],capture_output=True,text=True)\nprint(time.time()-t,resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss,c.returncode)\nprint(c.stderr[:800])",
                        SPC, "run", write("big.spx", text), "--backend=cpu", "--bind", "A=" + path("A.npz"), *binds, "--out", "y=" + path(out)], capture_output=True, text=True, timeout=300)
    seconds, kilobytes, code = r.stdout.split()[:3]
    good = code == "0"
    if good:
        got, w = (np.load(path(out)), want()) if out == "y.npy" else (sp.load_npz(path(out)), want())
        d = np.abs(got - w).max()
        good = d <= 1e-4
    check("%s of 10^6 x 10^6 with 10^6 entries is right" % name, good, r.stdout)
    if SANITIZED:  # shadow memory and checks are not the program's own
        continue
    check("%s takes under 500 MB" % name, int(kilobytes) < 500000, kilobytes + " kB")
    check("%s takes a few seconds with reading and writing (%.1f s)" % (name, float(seconds)), float(seconds) < 8, seconds)
if SANITIZED:
    skip("memory and time of 10^6 x 10^6: the build has sanitizers")

# 5. What a run asks of the system on the host: no file, no thread, no new code, on one thread no lock; memory that does
# not depend on the mask and is given back.  A run on the caller's workspace allocates none at all.
compiler = next((c for c in ("cc", "gcc", "clang") if shutil.which(c)), None)
library = os.path.dirname(SPC)
if SANITIZED or not compiler:
    skip("what a run asks of the system: the build has sanitizers, or there is no C compiler")
else:
    built = subprocess.run([compiler, "-O1", "-rdynamic", "-I" + os.path.join(ROOT, "include"), os.path.join(ROOT, "tests/suite/quiet.c"), "-o", path("quiet"), "-L" + library, "-lspc",
                            "-Wl,-rpath," + library, "-ldl", "-lpthread"], capture_output=True, text=True)
    check("the program that counts builds", built.returncode == 0, built.stderr)
    for backend, threads, call in (("cpu", 1, "run"), ("cpu", 4, "run"), ("interp", 1, "run"), ("cpu", 1, "enqueue"), ("cpu", 4, "enqueue")):
        r = subprocess.run([path("quiet"), backend, str(threads), call], capture_output=True, text=True, timeout=200)
        what = "spc_%s on %s with %d threads: " % (call, backend, threads)
        rows = [(line.split()[0], {k: int(v) for k, v in (part.split("=") for part in line.split()[1:])}) for line in r.stdout.splitlines() if "=" in line]
        if not check(what + "twelve runs are right", r.returncode == 0 and len(rows) == 13, r.stdout + r.stderr):
            continue
        before, runs = rows[0][1], [counts for _, counts in rows[1:]]
        check(what + "the counts are seen (memory, code and threads before the first run)", before["allocations"] > 0 and before["threads"] >= threads - 1 and (before["code"] > 0) == (backend == "cpu"), rows[0])
        for k, asks in (("files", "opens no file"), ("threads", "starts no thread"), ("code", "makes no code"), ("live", "gives all memory back")) + ((("locks", "takes no lock"),) if threads == 1 else ()):
            check(what + "a run " + asks, all(c[k] == 0 for c in runs), rows)
        if call == "enqueue":
            check(what + "a run allocates nothing", all(c["allocations"] == 0 for c in runs), rows)
        check(what + "what is allocated depends on the sizes, not on the mask", all(len({c["allocations"] for w, c in rows if w == size}) == 1 for size in ("large", "small")), rows)

# 7. One huge value in each micro-tile position in turn; results must be exact there.
FFN32 = "spx 1; dim T: dyn; dim K: dyn; dim N: dyn; kernel k { in h: f32[T,K] ~ zeros(dynamic, density=0.05); in W: f32[K,N]; out y[t,o] = sum[f] h[t,f]*W[f,o]; }"
p = write("one.spx", FFN32)
W = rng.integers(-4, 5, (19, 11)).astype(np.float32)
np.save(path("W.npy"), W)
bad = []
for t in range(0, 9, 2):
    for f in range(0, 19, 3):
        h = np.zeros((9, 19), np.float32)
        h[t, f] = 2.0 ** 20
        np.save(path("h.npy"), h)
        r = spc("run", p, "--backend=cpu", "--bind", "h=" + path("h.npy"), "--bind", "W=" + path("W.npy"), "--out", "y=" + path("y.npy"))
        if r.returncode or not np.array_equal(np.load(path("y.npy")), h @ W):
            bad.append((t, f, r.stderr[:200]))
check("a single huge value is found in every micro-tile position", not bad, bad[:3])

# The same through lists: a huge value in each place of a micro-tile, in the first, the last and the ragged strip, alone
# and among others that the lists hold as well.  The stage that walks the list ran, not its dense branch.
LISTED = ("spx 1; dim T: dyn; dim K: dyn; dim N: dyn; kernel k { in x: f32[T,K]; in W: f32[K,N]; let h[t,f] = relu(x[t,f]) ~ zeros(dynamic); out y[t,o] = sum[f] h[t,f]*W[f,o]; }\n"
          "schedule k { compact h axis=f gran=%s; }\n")
for gran, strip in (("4x1", 4), ("8x1", 8), ("4x2", 4)):
    p, bad, ran = write("listed.spx", LISTED % gran), [], []
    for t in sorted({0, 1, strip - 1, strip, 8}):
        for f in (0, 1, 7, 8, 15, 16, 17, 18):
            for others in (0, 1):
                h = (rng.random((9, 19)) < 0.1).astype(np.float32) * others
                h[t, f] = 2.0 ** 20
                np.save(path("h.npy"), h)
                r = spc("run", p, "--backend=cpu", "--force-guard=sparse", "--stats=-", "--bind", "x=" + path("h.npy"), "--bind", "W=" + path("W.npy"), "--out", "y=" + path("y.npy"))
                stats = json.loads(r.stdout) if r.returncode == 0 else {"stages": []}
                ran.append(any(s["stage"] == "y" and s["ran"] and s["cover"] > 0 for s in stats["stages"]) and not any(s["stage"] == "y.dense" and s["ran"] for s in stats["stages"]))
                if r.returncode or not np.array_equal(np.load(path("y.npy")), h @ W):
                    bad.append((t, f, others, r.stderr[:200]))
    check("lists of %s: the stage that walks them ran each time" % gran, all(ran), (len(ran) - sum(ran), r.stdout, r.stderr))
    check("lists of %s: a single huge value is found in every place" % gran, not bad, bad[:3])

# 9. The inner loops of the dense product and the FFN hold packed FMA, for AVX2 and AVX-512.
MM = write("mm.spx", "spx 1; dim M: dyn; dim K: dyn; dim N: dyn; kernel mm { in A: f32[M,K]; in B: f32[K,N]; out C[i,j] = sum[k] A[i,k]*B[k,j]; }")
for what, f in (("the dense product", MM), ("the FFN", "examples/ffn.spx")):
    for cpu, register in (("haswell", "ymm"), ("skylake-avx512", "zmm")):
        asm = spc("compile", f, "--target=cpu", "--mcpu=" + cpu, "--emit=asm").stdout
        check("%s has packed FMA in %s for %s" % (what, register, cpu), re.search(r"vfmadd\d+ps.*%s" % register, asm) is not None, asm[-600:])
close()
