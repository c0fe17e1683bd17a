"""What the conformance cases share: a program with real arrays, run through the command line on every back end that is
here, compared element by element with a value that NumPy computed from the language's description alone."""
import concurrent.futures, itertools, json, os, re
import numpy as np, scipy.sparse as sp
import harness_data as h
from harness_data import check, path, spc, write

BACKENDS = h.backends()
TILED = [b for b in BACKENDS if b != "interp"] or BACKENDS # where sizes are for tiles: the interpreter has none, and takes longest
TOLERANCE = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 2e-5, np.dtype(np.float16): 3e-3}
_numbers = itertools.count()
_jobs = []
np.seterr(all="ignore")


def bf16(a):
    """The nearest bf16 values, ties to even, as float32."""
    bits = np.ascontiguousarray(a, np.float32).view(np.uint32).astype(np.uint64)
    out = ((bits + 0x7fff + ((bits >> 16) & 1)) >> 16 << 16).astype(np.uint32).view(np.float32)
    return np.where(np.isnan(np.asarray(a, np.float32)), np.float32("nan"), out).reshape(np.shape(a))


def f64(a): return np.asarray(a, np.float64)


ROUND = {"bf16": bf16, "f16": lambda a: np.asarray(a, np.float16), "f32": lambda a: np.asarray(a, np.float32)}


def block_mask(rng, shape, blocks, kept, empty):
    """1 in so many of the blocks, which may hang over the edges; `empty`: some block rows and columns hold none."""
    tiles = [-(-n // b) for n, b in zip(shape, blocks)]
    there = rng.random(tiles) < kept
    if empty:
        there[::3] = False
        there[:, 1::4] = False
    return np.kron(there, np.ones(blocks, int))[:shape[0], :shape[1]]


TARGET = next((row["detail"] for row in json.loads(spc("doctor", "--json").stdout) if row["what"] == "GPU"), "") if "cuda" in BACKENDS else ""


def slow_profile(name, keys, more=""):
    """A profile where launches take no time and kernels whose rates have such keys are slow, as is whoever has none: lists are chosen at any size."""
    with open(os.path.join(h.ROOT, "passes", "profile.def")) as rates:
        slow = re.findall(r'PROFILE_RATE\("(%s[^"]*)"' % keys, rates.read())
    return write(name, "".join("%s_us = 0.01\n" % what for what in ("launch", "start", "sample", "skipped", "compact", "move", "spread", "gather_step")) + "floor_odds = 0\nwgmma16_tflops = 1\nmma16_tflops = 1\n" +
                 "".join("rate %s = 1\n" % key for key in slow) + more)


IN_PLACE = "in_place_us = 0.001\npass_us = 0\n"


def columns_profile(name, more=""):
    """The option of one where single columns are listed at any size, and spread by a launch; with IN_PLACE by the epilogue where their hint allows."""
    return "--profile=" + slow_profile(name, "(?:tma|nblock|w?g?mma)_", "column_tile_us = 0.01\n" + more)


def program(dims, body, name="k", more=""):
    return "spx 1;\n%s\nkernel %s {\n%s\n}\n%s" % (" ".join("dim %s: dyn;" % d for d in dims.split()), name, body, more)


def save(array, stem):
    if isinstance(array, str):
        return array
    if sp.issparse(array):
        sp.save_npz(path(stem + ".npz"), array, compressed=False)
        return path(stem + ".npz")
    np.save(path(stem + ".npy"), array)
    return path(stem + ".npy")


def arguments(text, binds, dims=None, options=()):
    n = next(_numbers)
    args = [write("p%d.spx" % n, text), *options]
    for name, array in binds.items():
        args += ["--bind", "%s=%s" % (name, save(array, "b%d_%s" % (n, name)))]
    for dim, size in (dims or {}).items():
        args += ["-D", "%s=%d" % (dim, size)]
    return n, args


def differs(got, want, rtol):
    """None, or words that say where `got` leaves `want`; integers, infinities and NaN must be equal."""
    if sp.issparse(got):
        if got.shape != want.shape:
            return "shape %s for %s" % (got.shape, want.shape)
        got = np.asarray(got.todense())
    want = np.asarray(want.todense()) if sp.issparse(want) else np.asarray(want)
    if got.shape != want.shape:
        return "shape %s for %s" % (got.shape, want.shape)
    if got.dtype.kind in "iub" or want.dtype.kind in "iub":
        bad = got.astype(np.int64) != want.astype(np.int64)
    else:
        with np.errstate(invalid="ignore"):
            w, g = want.astype(np.float64), got.astype(np.float64)
        finite = np.isfinite(w)
        scale = np.abs(w[finite]).max() if finite.any() else 0.0
        with np.errstate(invalid="ignore"):
            bad = np.where(finite, ~(np.abs(g - w) <= rtol * (np.abs(w) + scale)), ~((g == w) | (np.isnan(g) & np.isnan(w))))
    if not bad.any():
        return None
    at = tuple(int(i) for i in np.argwhere(bad)[0]) if bad.ndim else ()
    return "%d of %d elements; first at %s: %r for %r" % (bad.sum(), bad.size, at, got[at], want[at])


def missing_kernels(file, kernels, ran=()):
    """Words that say which of these beginnings no stage's kernel has, run or left to the guard's other branch; and which of `ran` none that has run."""
    stages = json.load(open(file))["stages"]
    there = {False: [s["kernel"] for s in stages], True: [s["kernel"] for s in stages if s["ran"]]}
    missing = [(k, have) for wanted, have in ((kernels, there[False]), (ran, there[True])) for k in wanted if not any(name.startswith(k) for name in have)]
    return ["no stage runs %s, but %s" % (k, ", ".join(have)) for k, have in missing]


def _run(name, text, binds, want, dims, rtol, options, on, entries, dtypes, says, kernels, ran):
    n, args = arguments(text, binds, dims, options)
    for backend in on or BACKENDS:
        files = {o: path("o%d_%s_%s.%s" % (n, backend, o, "npz" if o in entries else "npy")) for o in want}
        stats = path("s%d_%s.json" % (n, backend))
        r = spc("run", *args, "--backend=" + backend, "--stats=" + stats, *(a for o, f in files.items() for a in ("--out", "%s=%s" % (o, f))))
        label = "%s on %s" % (name, backend)
        if r.returncode or r.stdout or any(w not in r.stderr for w in says):
            check(label, False, "exit %d%s\n%s%s\n%s" % (r.returncode, "" if all(w in r.stderr for w in says) else ", words missing", r.stderr, r.stdout, text))
            continue
        wrong = missing_kernels(stats, kernels, ran) if backend == "cuda" else []
        for o, w in want.items():
            got = sp.load_npz(files[o]) if o in entries else np.load(files[o])
            tolerance = rtol if rtol is not None else TOLERANCE.get(got.dtype, 0)
            d = differs(got, w, tolerance)
            if d:
                wrong.append("%s: %s" % (o, d))
            if o in dtypes and got.dtype != dtypes[o]:
                wrong.append("%s: dtype %s for %s" % (o, got.dtype, np.dtype(dtypes[o])))
            if o in entries and entries[o] is not None and (got.nnz, got.format) != entries[o]:
                wrong.append("%s: %s for %s" % (o, (got.nnz, got.format), entries[o]))
        check(label, not wrong, "; ".join(wrong) + "\n" + text)


def case(name, text, binds, want, dims=None, rtol=None, options=(), on=None, entries=None, dtypes=None, says=(), kernels=(), ran=()):
    """Runs `text` with `binds` (arrays, scipy matrices or SOURCE strings) on every back end; every output in `want` must be
    near it. `kernels`: beginnings of names that stages' kernels must have on a GPU, `ran`: that those which ran must have. `entries`: outputs written as .npz, with (stored entries, scipy's format) or None."""
    _jobs.append((name, _run, (name, text, binds, want, dims, rtol, options, on, entries or {}, dtypes or {}, says, kernels, ran)))


_elsewhere = itertools.count()


def left_to_a_gpu():
    """Of cases about what a GPU makes of a mask that is one mask to every other back end: two of three, where there is no GPU."""
    return "cuda" not in BACKENDS and next(_elsewhere) % 3 > 0


def tiled_case(*args, **options):
    """Of a size that is for tiles, a variant of what is interpreted elsewhere."""
    case(*args, on=TILED, **options)


def _refuse(name, text, code, words, binds, dims, options, exit_code, caret, on):
    n, args = arguments(text, binds or {}, dims, options)
    for backend in on or (BACKENDS if binds is not None else [None]):
        r = spc("run", *args, "--backend=" + backend) if backend else spc("compile", *args)
        good = r.returncode == exit_code and code in r.stderr and all(w in r.stderr for w in words)
        if good and caret:
            good = points_at(r.stderr, text, caret)
        check("%s%s" % (name, " on " + backend if backend else ""), good, "exit %d, wanted %s %s %s\n%s\n%s" % (r.returncode, code, words, caret or "", r.stderr, text))


def refuse(name, text, code, words=(), binds=None, dims=None, options=(), exit_code=1, caret=None, on=None):
    """`spc compile`, or with `binds` `spc run`, must fail with this code and these words; the caret stands under `caret`."""
    _jobs.append((name, _refuse, (name, text, code, words, binds, dims, options, exit_code, caret, on)))


def points_at(stderr, text, what):
    """Does some place FILE:LINE:COLUMN of a message stand at `what` in the text?"""
    import re
    lines = text.split("\n")
    for line, column in re.findall(r"p\d+\.spx:(\d+):(\d+)", stderr):
        if lines[int(line) - 1][int(column) - 1:].startswith(what):
            return True
    return False


def many_alike(before):
    """Of the cases behind the first so many some, as their turn is: one text by sizes, formats and masks."""
    _jobs[before:] = [j for n, j in enumerate(_jobs[before:]) if h.its_turn(n)]


def put_down():
    return len(_jobs)


def job(name, function, *args):
    _jobs.append((name, function, args))


def _guarded(name, function, args):
    try:
        function(*args)
    except Exception as fault:
        check(name, False, "the test itself: %r" % fault)


def finish():
    """Runs what has been put down. SPC_CASES=I/N: every Nth case, from the Ith on."""
    first, step = (int(x) for x in os.environ.get("SPC_CASES", "1/1").split("/"))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        list(pool.map(lambda j: _guarded(*j), _jobs[first - 1::step]))
    if "cuda" not in BACKENDS:
        h.skip("conformance on cuda: no GPU here")
    h.close()
