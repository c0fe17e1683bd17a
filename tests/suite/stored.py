"""Products with stored operands on CUDA, against float64: every format, either side, odd sizes, empty rows and columns.

Without a GPU the loops that CUDA gets are interpreted as written (`spc opt` for sm_90a) and the kernels are compiled, where
NVRTC is here; what a composed kernel computes is then skipped.  With one, everything runs on it."""
import concurrent.futures, itertools
import numpy as np
from harness_data import *

rng = np.random.default_rng(5)
serial = itertools.count()
FORMATS = ("csr", "csc", "coo", "dcsr", "bsr(4,4)", "bsr(16,8)", "ell(48)", "twell(16,6)", "bitmap(8,8)", "nm(2,4)", "mine")
OWN = "format mine = [i,j] -> [ i/4: dense, j: compressed, i%4: dense ];\n"
SIZES = ((37, 29, 70), (130, 36, 133), (5, 48, 300), (64, 40, 1))  # O, K, N
FORMS = {  # the other operand, the result, and NumPy's answer
    "rows": ("in B: %s[K,N]; out y[o,n] = sum[k] W[o,k]*B[k,n];", "KN", lambda W, B: W @ B),
    "across": ("in B: %s[N,K]; out y[n,o] = relu(sum[k] B[n,k]*W[o,k]);", "NK", lambda W, B: np.maximum(B @ W.T, 0)),
    "vector": ("in B: %s[K]; out y[o] = sum[k] W[o,k]*B[k];", "K", lambda W, B: W @ B),
    "sampled": ("in B: %s[O,N]; out y[o,k] = W[o,k] * sum[n] B[o,n] as like(W);", "ON", lambda W, B: W * B.sum(1)[:, None]),
    "copy": ("in B: %s[O]; out y[o,k] = W[o,k];", "O", lambda W, B: W),
}
HINTS = {"no hint": "", "few": " ~ zeros(static, density=0.001)", "many": " ~ zeros(static, density=0.5) const"}
TOLERANCE = {"f32": 1e-5, "f16": 4e-3, "bf16": 2e-2}
CUDA = "cuda" in backends()
if not CUDA:
    skip("stored operands on a GPU: there is none; loops are interpreted")


def weights(fmt, O, K):
    W = rng.integers(-4, 5, (O, K)) * (rng.random((O, K)) < 0.2)
    W[:: 3] = 0
    W[:, 5] = 0
    if fmt == "nm(2,4)":
        for o, b in itertools.product(range(O), range(0, K, 4)):
            W[o, b + rng.choice(4, 2, replace=False)[: max(0, min(2, K - b))] % max(1, K - b)] = 0
            live = np.flatnonzero(W[o, b:b + 4])
            W[o, b + live[2:]] = 0
    return W.astype(np.float32)


def numbers(axes, **sizes):
    return rng.integers(-4, 5, [sizes[a] for a in axes]).astype(np.float32)


def as_file(a, dtype):
    f = path("in%d.npy" % next(serial))
    np.save(f, a.astype(np.float16) if dtype == "f16" else a)
    return f


def run(program, W, B, dtype, *flags):
    out = path("out%d.npy" % next(serial))
    r = spc("run", program, "--bind", "W=" + as_file(W, dtype), "--bind", "B=" + as_file(B, dtype), "--out", "y=" + out, *flags)
    return (np.load(out).astype(np.float64), "") if r.returncode == 0 else (None, r.stderr)


def mapped(source):
    """The loops that CUDA gets, as a program of their own; None where a composed kernel takes a stage."""
    dump = spc("opt", source, "--target=sm_90a")
    check("%s goes through the passes" % source, dump.returncode == 0, dump.stderr)
    if " row gemm" in dump.stdout or "    row detect" in dump.stdout:
        return None
    return write("mapped%d.ir" % next(serial), dump.stdout)


def compare(name, source, form, dtype, O, K, N, fmt):
    """What is left to do, with its data; None where there is nothing to run."""
    W, B = weights(fmt, O, K), numbers(FORMS[form][1], O=O, K=K, N=N)
    want = FORMS[form][2](W.astype(np.float64), B.astype(np.float64))
    program = source if CUDA else mapped(source)

    def job():
        got, why = run(program, W, B, dtype, "--backend=" + ("cuda" if CUDA else "interp"))
        near = got is not None and got.shape == want.shape and np.abs(got - want).max() <= TOLERANCE[dtype] * max(1, np.abs(want).max())
        check("%s at %dx%dx%d" % (name, O, K, N), near, why or np.abs(got - want).max())
    return job if program else None


def compiles(name, source):
    for target in ("sm_80", "sm_90a"):
        r = spc("compile", source, "--target=" + target, "-o", path("cubin%d" % next(serial)))
        check("%s compiles for %s" % (name, target), r.returncode == 0, r.stderr)


jobs = []
NVRTC = found("NVRTC")
if not NVRTC:
    skip("what CUDA gets is not compiled: NVRTC is not here")
for fmt, (form, (text, axes, _)) in itertools.product(FORMATS, FORMS.items()):
    for (hint, words), dtype in zip(HINTS.items(), ("f32", "f16", "bf16") if form not in ("copy", "sampled") else ("f32",)):
        if dtype != "f32" and not (CUDA or form == "rows"):
            continue
        head = "spx 1; dim O: dyn; dim K: dyn; dim N: dyn;\n" + OWN
        source = write("s%d.spx" % next(serial), head + "kernel k { in W: %s[O,K] as %s%s; %s }\n" % (dtype, fmt, words, text % dtype))
        if NVRTC and not CUDA and hint == "no hint":
            compiles("%s, %s" % (fmt, form), source)
        for O, K, N in SIZES[: 1 if dtype != "f32" else 2 if CUDA else 4]:
            jobs.append(compare("%s, %s, %s, %s" % (fmt, form, dtype, hint), source, form, dtype, O, K, N, fmt))
jobs = [job for job in jobs if job]
with concurrent.futures.ThreadPoolExecutor(6 if CUDA else 2) as pool: # mostly processes that wait for NVRTC
    list(pool.map(lambda job: job(), jobs))
check("most of it ran", len(jobs) > 60, len(jobs))

# Weights of 8 bits, two of four, with a scale for every 128 of them: what the product reads is one matrix of 16 bits.
QUANTISED = """spx 1; dim N: dyn; dim O: dyn; dim K: dyn % 128;
kernel k { in x: f16[N,K]; in q: i8[O,K] as nm(2,4) const; in s: f16[O,K/128] const; let W[j,k] = s[j,k/128]*q[j,k]; out y[t,j] = sum[k] x[t,k]*W[j,k]; }
"""
if CUDA:
    source = write("quantised.spx", QUANTISED)
    for N, O in ((3, 37), (130, 264)):
        q, s, x = weights("nm(2,4)", O, 256).astype(np.int8), numbers("OG", O=O, G=2).astype(np.float16), numbers("NK", N=N, K=256).astype(np.float16)
        files = {n: path("q%d_%s.npy" % (N, n)) for n in "qsx"}
        for n, a in zip("qsx", (q, s, x)):
            np.save(files[n], a)
        r = spc("run", source, *sum((["--bind", "%s=%s" % (n, f)] for n, f in files.items()), []), "--out", "y=" + path("y.npy"), "--backend=cuda")
        want = x.astype(np.float64) @ (np.repeat(s.astype(np.float64), 128, 1) * q).T
        good = r.returncode == 0 and np.abs(np.load(path("y.npy")).astype(np.float64) - want).max() <= 4e-3 * np.abs(want).max()
        check("quantised weights at %dx%d" % (N, O), good, r.stderr)
close()
