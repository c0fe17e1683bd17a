"""Programs with zeros, drawn at random: which operand has them, in which micro-tiles, how all of them lie, what stands behind the product; sizes about what tiles
and chunks are multiples of; masks that keep the program's promise and masks that do not; rates of kernels, so that the model takes one here and another there; the guard
by data or forced. Values are small integers, so a result has one right rounding, and is compared with it to the bit.
SPC_DRAWN: how many are drawn; SPC_DRAWN_SEED: others; SPC_DRAWN_ONLY: these numbers alone."""
import os
import numpy as np
from .harness import *

SEED, COUNT = int(os.environ.get("SPC_DRAWN_SEED", 1)), int(os.environ.get("SPC_DRAWN", 24))
ONLY = [int(n) for n in os.environ.get("SPC_DRAWN_ONLY", "").split()] or range(COUNT)
GRANS = ("128x1", "64x1", "32x1", "16x1", "8x1", "1x1", "128x2", "128x64", "64x64", "32x64", "64x8", "1x64", "1x0")  # 1x0: whole rows
OTHERS = ("column_tile_us", "in_place_us", "regroup_us", "front_us", "exchange_us", "pass_us")
with open(os.path.join(h.ROOT, "passes", "profile.def")) as rates:
    RATES = re.findall(r'PROFILE_RATE\("([^"]*)"', rates.read())


class Draw:
    def __init__(self, number):
        self.g, self.number, self.binds, self.inputs, self.told = np.random.default_rng((SEED, number)), number, {}, [], []

    def of(self, *choices):
        return choices[self.g.integers(len(choices))]

    def size(self, most):
        step = self.of(1, 8, 16, 64, 128, 128)
        return int(min(most, max(1, step * self.g.integers(1, max(2, most // step + 1)) + self.of(0, 0, 0, 0, 0, 0, 0, 8, 8, -1, 1, 4))))

    def values(self, shape, dtype, most=2):
        return ROUND[dtype](self.g.integers(-most, most + 1, shape).astype(np.float64))

    def hint(self, rows, columns):
        gran = self.of(*GRANS)
        gran = gran.replace("x0", "x%d" % columns)
        self.told.append(gran)
        return " ~ zeros(dynamic, density=%g, gran=%s)" % (self.of(0.3, 0.1, 0.02), gran), tuple(map(int, gran.split("x")))

    def mask(self, shape, gran):
        """Where something is: as was promised, or not."""
        kind, g = self.of("as told", "as told", "as told", "all", "nothing", "one element", "all but one", "elements", "one strip", "rows", "columns", "nearly all"), self.g
        self.told.append(kind)
        at = np.arange(shape[0] * shape[1]).reshape(shape)
        if kind == "as told": return block_mask(g, shape, gran, self.of(0.5, 0.2, 0.05, 0.01), False) > 0
        if kind == "one element": return at == g.integers(at.size)
        if kind == "all but one": return at != g.integers(at.size)
        if kind == "one strip": return at // shape[1] // 128 == g.integers(-(-shape[0] // 128))
        if kind == "rows": return np.broadcast_to(g.random((shape[0], 1)) < 0.2, shape)
        if kind == "columns": return np.broadcast_to(g.random((1, shape[1])) < 0.1, shape)
        return g.random(shape) < {"all": 1.1, "nothing": -1, "elements": 0.03, "nearly all": 0.95}[kind]

    def input(self, name, indices, dtype, array, rest="", turned=False):
        self.binds[name] = array
        self.inputs.append("in %s: %s[%s]%s%s;" % (name, dtype, indices, " as dense_t" if turned else "", rest))

    def zeros(self, name, indices, dtype, shape):
        """An operand that has them, which lies either way."""
        hint, gran = self.hint(*shape)
        there = self.mask(shape, gran)
        self.input(name, indices, dtype, ROUND[dtype](np.where(there, f64(self.g.integers(1, 4, shape) * self.g.choice((-1, 1), shape)), self.of(0.0, 0.0, -0.0))), hint, self.of(False, True))
        return f64(self.binds[name])

    def dense(self, name, indices, dtype, shape, most=2):
        self.input(name, indices, dtype, self.values(shape, dtype, most))
        return f64(self.binds[name])

    def options(self):
        dense = self.of(0.0, 0.5, 1.0, 1.0) # of its kernels that are slow
        slow = [key for key in RATES if self.g.random() < (dense if re.match("(?:tma|w?g?mma)_", key) else 0.3)]
        more = "".join("%s = %s\n" % (what, self.of("0.01", "1000")) for what in OTHERS if self.g.random() < 0.5) + "".join("rate %s = 1\n" % key for key in slow)
        profile = slow_profile("drawn%d.profile" % self.number, "none", more)
        guard = self.of((), (), ("--force-guard=sparse",), ("--force-guard=sparse",), ("--force-guard=dense",))
        return (*self.of((), *4 * [("--profile=" + profile,)]), *guard, *self.of((), (), (), ("--reproducible",), ("--batch-invariant",)), "--library=off")

    def dims(self, **sizes):
        known = self.of(True, False)
        bound = self.of("", " <= 4096")
        return " ".join("dim %s%s;" % (d, " = %d" % n if known else ": dyn" + bound) for d, n in sizes.items()), {} if known else sizes

    def run(self, dims, body, want, dtype):
        text, sizes = dims[0], dims[1]
        text = "spx 1; %s\n%s\nkernel k { %s\n  %s }\n" % (text, "format byk(a,b) = [i,j] -> [ j/b: dense, i/a: compressed, i%a: dense, j%b: dense ];" if "byk" in "".join(self.inputs) else "", " ".join(self.inputs), body)
        bound = {d: n for d, n in sizes.items() if not re.search(r"in \w+: \w+\[[^\]]*\b%s\b" % d, text)}
        tiled_case("drawn %d.%d: %s" % (SEED, self.number, ", ".join(self.told)), text, self.binds, {o: ROUND[dtype](w) for o, w in (want if isinstance(want, dict) else {"y": want}).items()}, bound, rtol=0, options=self.options())


def factor(d, dtype, n, k):
    """B of a product, as [k][n] or [n][k]: how it is written, and its values as [k][n]."""
    if d.of(True, False): return "B[k,n]", d.dense("B", "K,N", dtype, (k, n))
    return "B[n,k]", d.dense("B", "N,K", dtype, (n, k)).T


def product(d):
    """One product: zeros in A, in B, in both, or in the mask of what is asked for."""
    m, n, k = d.size(520), d.size(520), d.size(1100)
    dtype, where = d.of("bf16", "bf16", "f16", "f32"), d.of("A", "A", "A", "B", "both", "W", "W")
    d.told += ["%d x %d x %d" % (m, n, k), dtype, "zeros in " + where]
    a = d.zeros("A", "M,K", dtype, (m, k)) if where in ("A", "both") else d.dense("A", "M,K", dtype, (m, k))
    if where in ("B", "both"): b, named = d.zeros("B", "K,N", dtype, (k, n)), "B[k,n]"
    else: named, b = factor(d, dtype, n, k)
    value, want = "(sum[k] A[m,k]*%s)" % named, a @ b
    behind = d.of("nothing", "nothing", "bias", "residual", "scale", "half")
    if behind == "bias": value, want = value + " + c[n]", want + d.dense("c", "N", d.of(dtype, "f32"), (n,), 9)
    if behind == "residual": value, want = value + " + r[m,n]", want + d.dense("r", "M,N", dtype, (m, n), 9)
    if behind == "scale": value, want = "s[m]*" + value, want * d.dense("s", "M", "f32", (m,))[:, None]
    if behind == "half": value, want = "0.5*" + value, want * 0.5
    if d.of(True, False): value, want = "relu(%s)" % value, np.maximum(want, 0)
    if where == "W" or d.of(False, False, True):
        hint, gran = d.hint(m, n) if where == "W" else ("", (1, 1))
        there, fill = d.mask((m, n), gran), d.of(0, 0, -1, 2.5)
        d.input("W", "M,N", "b1", there, hint)
        value, want = "%s on W[m,n]%s" % (value, " fill %g" % fill if fill else ""), np.where(there, want, fill)
    out = d.of(dtype, dtype, "f32")
    d.run(d.dims(M=m, N=n, K=k), "out y[m,n] = %s : %s acc f32;" % (value, out), want, out)


def live(d, tokens, neurons, dtype):
    """Which neurons are live, by a product: tokens are of a few kinds, each with a pattern of its own."""
    count = d.size(40)
    kind = d.g.integers(0, count, tokens)
    pattern = np.where(d.mask((count, neurons), (1, 1)), d.g.integers(1, 3, (count, neurons)), d.of(0, -1))
    d.input("z", "T,E", dtype, ROUND[dtype](np.eye(count)[kind]))
    d.input("V", "F,E", dtype, ROUND[dtype](f64(pattern.T)))
    return np.maximum(f64(pattern)[kind], 0)


def layer(d):
    """What relu leaves, times weights; with a second product at the same places, or without."""
    t, f, o, dtype = d.of(d.size(24), d.size(520)), d.size(700), d.size(300), d.of("bf16", "f16")
    gated = d.of(True, False)
    d.told += ["layer of %d tokens, %d neurons, %d" % (t, f, o), dtype, "gated" if gated else "relu"]
    h = live(d, t, f, dtype)
    sizes = dict(T=t, F=f, D=o, E=d.binds["z"].shape[1])
    hint = d.hint(t, f)[0]
    body = "let g[t,f] = relu(sum[e] z[t,e]*V[f,e])%s;" % hint
    if gated:
        width = d.of(8, 40, 64, 72)
        x = d.dense("x", "T,C", dtype, (t, width), 1)
        up, w = ("U[f,c]", d.dense("U", "F,C", dtype, (f, width), 1).T) if d.of(True, False) else ("U[c,f]", d.dense("U", "C,F", dtype, (width, f), 1))
        body, h, sizes["C"] = body + "\n  let u[t,f] = sum[c] x[t,c]*%s on g[t,f];" % up, h * np.where(h != 0, x @ w, 0), width
    down, w = ("W[f,d]", d.dense("W", "F,D", dtype, (f, o), 1)) if d.of(True, True, False) else ("W[d,f]", d.dense("W", "D,F", dtype, (o, f), 1).T)
    d.run(d.dims(**sizes), body + "\n  out y[t,d] = sum[f] g[t,f]*%s%s;" % ("u[t,f]*" if gated else "", down), h @ w, dtype)


def backward(d):
    """A gated layer and the gradients of its factors, over one pattern; sizes so small that all lets are exact."""
    t, f, o, width, dtype = d.size(120), d.size(150), d.size(24), d.size(24), "f16"
    d.told += ["gradients of %d tokens, %d neurons, %d, %d" % (t, f, o, width)]
    g = live(d, t, f, dtype)
    sizes, there = dict(T=t, F=f, O=o, C=width, E=d.binds["z"].shape[1]), g != 0
    x, wu, wd, dy = d.dense("x", "T,C", dtype, (t, width), 1), d.dense("U", "F,C", dtype, (f, width), 1), d.dense("W", "F,O", dtype, (f, o), 1), d.dense("q", "T,O", dtype, (t, o), 1)
    u, dh = np.where(there, x @ wu.T, 0), np.where(there, dy @ wd.T, 0)
    du, dg = dh * g, np.where(there, dh * u + 1, 0)
    body = """let g[t,f] = relu(sum[e] z[t,e]*V[f,e])%s;
  let u[t,f] = sum[c] x[t,c]*U[f,c] on g[t,f];
  let p[t,f] = sum[o] q[t,o]*W[f,o] on g[t,f];
  let h[t,f] = g[t,f]*u[t,f] on g[t,f];
  let m[t,f] = p[t,f]*g[t,f] on g[t,f];
  let n[t,f] = p[t,f]*u[t,f] + 1 on g[t,f] : f16;
  out dW[f,o] = sum[t] h[t,f]*q[t,o];
  out dU[f,c] = sum[t] m[t,f]*x[t,c];
  out dV[f,e] = sum[t] n[t,f]*z[t,e];
  out dx[t,c] = sum[f] m[t,f]*U[f,c];""" % d.hint(t, f)[0]
    d.run(d.dims(**sizes), body, dict(dW=(g * u).T @ dy, dU=du.T @ x, dV=dg.T @ f64(d.binds["z"]), dx=du @ wu), dtype)


def largest(d):
    """The largest of each row, of equal ones the first, times weights."""
    m, n, k, dtype = d.size(200), d.size(300), d.size(600), d.of("f16", "f32")
    most = int(d.g.integers(1, min(k, 24) + 1))
    d.told += ["the %d largest of %d x %d, x %d" % (most, m, k, n), dtype]
    x = d.dense("x", "M,K", dtype, (m, k), 9)
    kept = np.zeros((m, k), bool)
    np.put_along_axis(kept, np.argsort(-x, 1, kind="stable")[:, :most], True, 1)
    named, b = factor(d, dtype, n, k)
    d.run(d.dims(M=m, N=n, K=k), "let a[m,k] = topk[k](x[m,k], %d)%s;\n  out y[m,n] = sum[k] a[m,k]*%s;" % (most, d.hint(m, k)[0], named), np.where(kept, x, 0) @ b, dtype)


def asked(d):
    """Values of which a comparison keeps some, times weights."""
    m, n, k, dtype = d.size(400), d.size(400), d.size(900), d.of("bf16", "f16")
    d.told += ["what is above 1, %d x %d x %d" % (m, n, k), dtype]
    hint, gran = d.hint(m, k)
    x = np.where(d.mask((m, k), gran), d.g.integers(2, 4, (m, k)), d.g.integers(-2, 2, (m, k)))
    d.input("x", "M,K", dtype, ROUND[dtype](f64(x)))
    named, b = factor(d, dtype, n, k)
    d.run(d.dims(M=m, N=n, K=k), "let a[m,k] = x[m,k] on x[m,k] > 1%s;\n  out y[m,n] = sum[k] a[m,k]*%s;" % (hint, named), np.where(x > 1, x, 0) @ b, dtype)


STORED = ("csr", "csc", "coo", "dcsr", "bsr(64,64)", "bsr(64,64)", "bsr(128,64)", "bsr(64,128)", "bsr(32,32)", "bsr(16,8)", "bsr(4,3)", "bitmap(8,8)", "byk(64,64)")


def sparse(d, name, indices, dtype, shape, const=False):
    """A stored operand; and where it is."""
    form = d.of(*STORED)
    d.told.append("%s as %s" % (name, form))
    sides = re.findall(r"\d+", form)
    there = d.mask(shape, tuple(map(int, sides)) if sides else (1, 1))
    d.input(name, indices, dtype, ROUND[dtype](np.where(there, f64(d.g.integers(1, 4, shape) * d.g.choice((-1, 1), shape)), 0)), " as " + form + (" const" if const else ""))
    return f64(d.binds[name]), there


def stored(d):
    """A factor that is stored sparse, either way round."""
    m, n, k, dtype = d.size(300), d.size(400), d.size(700), d.of("bf16", "bf16", "f16", "f32")
    d.told += ["%d x %d x %d" % (m, n, k), dtype]
    const = d.of(False, True)
    if d.of(True, False): (w, _), named = sparse(d, "W", "N,K", dtype, (n, k), const), "W[n,k]"
    else: (w, _), named = sparse(d, "W", "K,N", dtype, (k, n), const), "W[k,n]"
    x, other = (d.dense("x", "M,K", dtype, (m, k)), "x[m,k]") if d.of(True, False) else (d.dense("x", "K,M", dtype, (k, m)).T, "x[k,m]")
    value, want = "sum[k] %s*%s" % d.of((other, named), (named, other)), x @ (w.T if named == "W[n,k]" else w)
    if d.of(True, False): value, want = "relu(%s + c[n])" % value, np.maximum(want + d.dense("c", "N", "f32", (n,), 9), 0)
    result = d.of("m,n", "m,n", "n,m")
    d.run(d.dims(M=m, N=n, K=k), "out y[%s] = %s : %s acc f32;" % (result, value, dtype), want if result == "m,n" else want.T, dtype)


def sampled(d):
    """A product at the places of what is stored."""
    m, n, k, dtype = d.size(300), d.size(400), d.size(300), d.of("bf16", "f16", "f32")
    d.told += ["%d x %d x %d" % (m, n, k), dtype, "where it is stored"]
    s, there = sparse(d, "S", "M,N", dtype, (m, n))
    a, (named, b) = d.dense("A", "M,K", dtype, (m, k)), factor(d, dtype, n, k)
    d.run(d.dims(M=m, N=n, K=k), "out y[m,n] = S[m,n] * sum[k] A[m,k]*%s : %s acc f32%s;" % (named, dtype, d.of(" as like(S)", " as like(S)", "")), s * (a @ b), dtype)


def groups(d):
    """Rows in groups of uneven lengths, a matrix each, gathered and sent back."""
    t, e, f, o, dtype = d.size(60), d.size(12), d.size(200), d.size(200), d.of("bf16", "f16")
    r = d.size(300)
    d.told += ["%d rows of %d in %d groups, %d x %d" % (r, t, e, f, o), dtype]
    off = np.sort(d.g.integers(0, r + 1, e + 1)).astype(np.int32)
    if d.of(True, False): off[0], off[-1] = 0, r
    perm = d.g.integers(0, t, r).astype(np.int32)
    x = d.dense("x", "T,D", dtype, (t, f), 1)
    d.input("off", "E+1", "i32", off)
    d.input("perm", "R", "i32", perm)
    w = d.values((e, f, o), dtype, 1)
    turned = d.of(False, True)
    d.input("W", "E,O,D" if turned else "E,D,O", dtype, np.ascontiguousarray(w.transpose(0, 2, 1)) if turned else w)
    d.inputs.append("ragged r in off[e]..off[e+1];")
    rows = np.zeros((r, o))
    for g in range(e): rows[off[g]:off[g + 1]] = f64(x)[perm[off[g]:off[g + 1]]] @ f64(w[g])
    named = "W[e,o,d]" if turned else "W[e,d,o]"
    sizes = d.dims(T=t, E=e, D=f, O=o, R=r)
    if d.of(True, False): return d.run(sizes, "out y[r,o] = relu(sum[d] x[perm[r],d]*%s) : %s acc f32;" % (named, dtype), np.maximum(rows, 0), dtype)
    want = np.zeros((t, o))
    np.add.at(want, perm, rows * (np.arange(r)[:, None] < r))
    d.run(sizes, "out y[perm[r],o] += sum[d] x[perm[r],d]*%s : f32[T,O] acc f32 order(fixed);" % named, want, "f32")


for number in ONLY:
    draw = Draw(number)
    draw.of(product, product, product, layer, layer, backward, largest, asked, stored, stored, sampled, groups)(draw)
