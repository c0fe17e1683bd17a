"""Reductions over any axes, by every combiner and in every dtype, over dense and stored operands, on every back end that is
here, against the interpreter: lengths around those of warps, blocks and parts; nothing at all.  Sums of small integers are
exact in any order; of real numbers the same input must give the same bits, and a row's bits must not depend on the others."""
import itertools, sys
from concurrent.futures import ThreadPoolExecutor
import numpy as np
from harness_data import *

FLOATS, INTEGERS = ("f64", "f32", "f16", "bf16", "f8e4m3", "f8e5m2"), ("i64", "i32", "i16", "i8", "u8")
SIZES = [(1, 1), (1, 7), (7, 1), (33, 1000), (1000, 33), (1, 4097), (4097, 1), (3, 20001), (20001, 5), (64, 64), (0, 5), (5, 0), (40, 4097)]
NARROW = {"f16": 1, "bf16": 1, "f8e4m3": 1, "f8e5m2": 1}  # their sums round once, at the end: by at most so many units
ON = backends()
if "cuda" not in ON:
    skip("reductions on cuda: no GPU or NVRTC here")


def kernels(t):
    """name, operands and statements, generators"""
    some, few = "randint(%d,-2,2)" if t != "u8" else "randint(%d,0,2)", "randint(%d,1,2)"
    for red in ("sum", "prod", "min", "max"):
        fill = few if red == "prod" else some
        for axes, out in (("i,j", ""), ("j", "i"), ("i", "j")):
            yield "%s_%s" % (red, out or "all"), "in x: %s[M,N]; out y[%s] = %s[%s] x[i,j];" % (t, out, red, axes), {"x": fill % 1}
    yield "argmax_i", "in x: %s[M,N]; out y[i] = argmax[j] x[i,j];" % t, {"x": some % 2}
    yield "argmax_j", "in x: %s[M,N]; out y[j] = argmax[i] x[i,j];" % t, {"x": some % 3}
    yield "any_all", "in x: %s[M,N]; out y[] = any[i,j] (x[i,j] > 1);" % t, {"x": some % 4}
    yield "all_i", "in x: %s[M,N]; out y[i] = all[j] (x[i,j] < 2);" % t, {"x": some % 5}
    yield "middle", "in x: %s[M,3,N]; out y[i,k] = sum[j] x[i,j,k];" % t, {"x": some % 6}
    yield "outer", "in x: %s[M,3,N]; out y[j] = sum[i,k] x[i,j,k];" % t, {"x": some % 7}
    yield "inner", "in x: %s[3,M,N]; out y[i] = sum[j,k] x[i,j,k];" % t, {"x": some % 8}
    yield "gemv", "in x: %s[M,N]; in v: %s[N]; out y[i] = sum[k] x[i,k]*v[k];" % (t, t), {"x": some % 9, "v": some % 10}
    yield "vecmat", "in x: %s[M,N]; in v: %s[M]; out y[j] = sum[k] v[k]*x[k,j];" % (t, t), {"x": some % 11, "v": some % 12}
    yield "dot", "in x: %s[N]; in v: %s[N]; out y[] = sum[k] x[k]*v[k];" % (t, t), {"x": some % 13, "v": some % 14}
    yield "form", "in x: %s[M,N]; in u: %s[M]; in v: %s[N]; out y[] = sum[i,k] u[i]*x[i,k]*v[k];" % (t, t, t), {"x": some % 15, "u": some % 16, "v": some % 17}
    for f in ("csr", "coo"):
        x = "in x: %s[M,N] as %s; " % (t, f)
        stored = "sparse(%d,0.2)"
        if t not in ("f64", "f32"):
            continue  # sparse() makes real values: wide enough dtypes alone
        yield f + "_all", x + "out y[] = sum[i,j] x[i,j];", {"x": stored % 18}
        yield f + "_i", x + "out y[i] = sum[j] x[i,j];", {"x": stored % 19}
        yield f + "_max", x + "out y[i] = max[j] x[i,j];", {"x": stored % 20}
        yield f + "_argmax", x + "out y[i] = argmax[j] x[i,j];", {"x": stored % 21}
        yield f + "_mv", x + "in v: %s[N]; out y[i] = sum[k] x[i,k]*v[k];" % t, {"x": stored % 22, "v": "rand(23)"}
        yield f + "_form", x + "in u: %s[M]; in v: %s[N]; out y[] = sum[i,k] u[i]*x[i,k]*v[k];" % (t, t), {"x": stored % 24, "u": "rand(25)", "v": "rand(26)"}
    if t in ("f64", "f32", "bf16"):
        yield "soft", "in x: %s[M,N]; out y[i,j] = softmax[j](x[i,j]);" % t, {"x": "rand(27)"}
        yield "norm", "in x: %s[M,N]; out y[i,j] = x[i,j] * rsqrt(1 + sum[k] x[i,k]*x[i,k]);" % t, {"x": "rand(28)"}
        # Rows that are short for certain: the stages that go through them are one launch.
        yield "short_soft", "in x: %s[M,L]; out y[i,j] = softmax[j](x[i,j]);" % t, {"x": "rand(29)"}
        yield "short_soft_heads", "in x: %s[2,M,3,L]; out y[a,b,c,j] = softmax[j](x[a,b,c,j]);" % t, {"x": "rand(30)"}
        yield "short_norm", "in x: %s[M,L]; in g: %s[L]; out y[i,j] = x[i,j] * g[j] * rsqrt(1 + sum[k] x[i,k]*x[i,k]);" % (t, t), {"x": "rand(31)", "g": "rand(32)"}
        yield "short_soft_others", "in x: %s[L,L]; let m[i] = max[j] x[i,j]; out y[i,j] = x[i,j] - m[j];" % t, {"x": "rand(33)"}


def program(t):
    text, tests = ["spx 1; dim M: dyn; dim N: dyn; dim L: dyn <= 4096;"], 0
    for name, body, data in kernels(t):
        used = [d for d in "MNL" if d in body]
        text.append("kernel %s { %s }" % (name, body))
        seen = set()
        for m, n in SIZES:
            sizes = tuple((d, s) for d, s in (("M", m), ("N", n), ("L", n)) if d in used)
            big = "soft" in name or "norm" in name or "3," in body
            if sizes in seen or (big and m * n > 60000) or ("L" in used and (n > 4096 or n * n > 60000 and "L,L" in body)):
                continue
            seen.add(sizes)
            sets = ["%s=%d" % s for s in sizes] + ["%s = %s" % d for d in data.items()]
            real = any("rand(" in g or "sparse" in g for g in data.values())
            exact = not real and "prod" not in name and t not in NARROW
            loose = t == "f64" and real  # the tolerance is that of one order of sums
            text.append("test %s { %s; expect y ~= ref%s; }" % (name, ", ".join(sets), ", rtol=0" if exact else ", rtol=1e-12" if loose else ""))
            tests += 1
    return "\n".join(text) + "\n", tests


def against_the_interpreter(t, backend):
    text, tests = program(t)
    file = write("reduce_%s.spx" % t, text)
    r = spc("check", file, "--backend=" + backend, timeout=900)
    bad = [line for line in r.stdout.splitlines() if not line.startswith("ok ")][:20]
    return t, backend, tests, r.stdout.count("\nok ") + r.stdout.startswith("ok "), "\n".join(bad) + r.stderr[:2000]


jobs = [(t, b) for b in ON if b != "interp" for t in (FLOATS + INTEGERS if b == "cuda" else ("f64", "f32", "bf16", "i8"))]
with ThreadPoolExecutor(max(2, (os.cpu_count() or 2) // 2)) as pool:
    for t, backend, tests, passed, words in pool.map(lambda job: against_the_interpreter(*job), jobs):
        counts["passed"] += passed
        if passed != tests:
            counts["failed"] += tests - passed
            print("FAIL reductions of %s on %s: %d of %d\n%s" % (t, backend, tests - passed, tests, words), flush=True)


# ---- bits ------------------------------------------------------------------------------------------------
def bits(file, arrays, backend):
    binds = []
    for name, a in arrays.items():
        f = path("bits_%s.npy" % name)
        np.save(f, a)
        binds += ["--bind", "%s=%s" % (name, f)]
    out = path("bits_out.npy")
    r = spc("run", file, *binds, "--backend=" + backend, "--out", "y=" + out)
    return np.load(out) if r.returncode == 0 else r.stderr


rng = np.random.default_rng(5)
ROWS = {"gemv": "in x: f32[M,N]; in v: f32[N]; out y[i] = sum[k] x[i,k]*v[k];", "rows": "in x: f32[M,N]; out y[i] = sum[k] x[i,k]; "}
for name, body in ROWS.items():
    file = write("bits_%s.spx" % name, "spx 1; dim M: dyn; dim N: dyn; kernel k { %s }\n" % body)
    for n, backend in itertools.product((1000, 20001), [b for b in ON if b != "interp"]):
        data = {"x": rng.standard_normal((37, n)).astype(np.float32)}
        if name == "gemv":
            data["v"] = rng.standard_normal(n).astype(np.float32)
        first, again = bits(file, data, backend), bits(file, data, backend)
        check("%s of %d on %s: the same bits again" % (name, n, backend), isinstance(first, np.ndarray) and np.array_equal(first, again), first)
        if backend == "cuda":  # rows begin elsewhere in memory here: what is aligned decides nothing
            few = bits(file, dict(data, x=data["x"][5:8].copy()), backend)
            check("%s of %d on %s: three rows as among others" % (name, n, backend), isinstance(few, np.ndarray) and np.array_equal(few, first[5:8]), few)
close()
