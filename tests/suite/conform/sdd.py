"""Products into stored blocks, of which a GPU computes what is stored: blocks of several sizes, at edges that they hang over, rows of blocks
that are empty, all of them, none; what is read at an element's own place, in its row, in its column."""
import numpy as np
from .harness import *

rng = np.random.default_rng(65)
FORMATS = "format byj(a,b) = [i,j] -> [ j/b: dense, i/a: compressed, j%b: dense, i%a: dense ];\nformat turned(a,b) = [i,j] -> [ i/a: dense, j/b: compressed, j%b: dense, i%a: dense ];\nkernel k"
OPERANDS = {"A Bt": ("i,k", "j,k"), "A B": ("i,k", "k,j"), "At B": ("k,i", "k,j"), "At Bt": ("k,i", "j,k"), "Bt A": ("i,k", "j,k")}


def drawn(shape, factors, kept, empty):
    """Integers in the blocks, none of them 0, and where they are."""
    at = block_mask(rng, shape, factors, kept, empty)
    return (rng.integers(1, 5, shape) * rng.choice((-1, 1), shape) * at).astype(np.float64), at


def sdd(name, form="A Bt", fmt="bsr(64,64)", i=131, j=203, k=72, kept=0.5, empty=True, dtype="bf16", stored=None, out=None, value="S[i,j] * %s", want=lambda s, at, ab: s * ab, cond="", more="",
        arrays=None, options=(), tile=None, says=(), dense=False):
    side = dict(i=i, j=j, k=k)
    a, b = OPERANDS[form]
    shape = lambda at: tuple(side[n] for n in at.split(","))
    factors = [int(n) for n in fmt[fmt.index("(") + 1:-1].split(",")]
    S, at = drawn((i, j), factors, kept, empty)
    A, B = (rng.integers(-2, 3, shape(n)).astype(np.float64) for n in (a, b))
    ab = np.einsum("%s,%s->ij" % (a.replace(",", ""), b.replace(",", "")), A, B)
    product = "(sum[k] %s)" % "*".join(("B[%s]" % b, "A[%s]" % a) if form == "Bt A" else ("A[%s]" % a, "B[%s]" % b))
    kind = stored or dtype
    text = program("I J K", "in S: %s[I,J] as %s; in A: %s[%s]; in B: %s[%s]; %s out c[i,j] = %s %s : %s%s;" % (
        kind, fmt, dtype, a.upper(), dtype, b.upper(), more, value % product, cond, out or dtype, "" if dense else " as like(S)")).replace("kernel k", FORMATS, 1)
    if tile:
        text += "\nschedule k for sm_90 { tile c i=%d j=%d k=64; }" % tile
    S = np.where(at, S, 0)
    tiled_case("sdd: " + name, text, dict(S=ROUND.get(kind, ROUND["f32"])(S), A=ROUND[dtype](A), B=ROUND[dtype](B), **(arrays or {})), dict(c=want(S, at, ab)),
         rtol=1e-2 if dtype == "bf16" or out == "bf16" else 2e-3, options=options, says=says)


for form in OPERANDS:
    for fmt in ("bsr(64,64)", "bsr(128,64)", "bsr(64,128)", "bsr(128,192)", "bsr(192,64)", "bsr(256,128)", "byj(64,64)", "byj(64,128)", "turned(64,64)"):
        sdd("%s into %s" % (form, fmt), form, fmt)
        sdd("%s into %s, sizes that boxes take" % (form, fmt), form, fmt, i=136, j=328, k=200)
for tile in ((128, 256), (128, 128), (64, 256), (64, 128)):
    sdd("a tile of %dx%d" % tile, fmt="bsr(128,64)", i=264, j=648, k=328, tile=tile)
    sdd("a tile of %dx%d, f16" % tile, "At B", "bsr(128,128)", i=264, j=648, k=328, dtype="f16", tile=tile)
for kept in (0.0, 1.0):
    sdd("%g of all" % kept, kept=kept, empty=False, i=136, j=264, k=72)
    sdd("%g of all, unaligned" % kept, kept=kept, empty=False, k=71)
pattern = dict(stored="pattern", value="%s", cond="on S[i,j]", want=lambda s, at, ab: np.where(s != 0, ab, 0))
bias, rows, rest = rng.integers(-8, 8, 328).astype(np.float32), rng.integers(-8, 8, 136).astype(np.float32), bf16(rng.integers(-8, 8, (136, 328)))
for size in (dict(i=136, j=328, k=200), dict(i=136, j=328, k=71)):
    more = ", k is %d" % size["k"]
    sdd("where a pattern is" + more, **pattern, **size)
    sdd("a constant times it, where a pattern is" + more, **{**pattern, "value": "0.5*%s", "want": lambda s, at, ab: np.where(s != 0, ab / 2, 0)}, **size)
    sdd("where an operand is not 0" + more, value="%s", cond="on S[i,j] != 0", want=lambda s, at, ab: np.where(s != 0, ab, 0), **size)
    sdd("a bias by column, a scale by row, relu" + more, value="S[i,j] * relu(b[j] + r[i]*%s)", more="in b: f32[J]; in r: f32[I];", arrays=dict(b=bias, r=rows),
        want=lambda s, at, ab: s * np.maximum(bias + rows[:, None] * ab, 0), **size)
    sdd("a bias where nothing is multiplied by 0" + more, **{**pattern, "value": "b[j] + %s", "want": lambda s, at, ab: np.where(s != 0, bias + ab, 0)}, more="in b: f32[J];", arrays=dict(b=bias), **size)
    sdd("a dense residual" + more, value="S[i,j] * (%s + R[i,j])", more="in R: bf16[I,J];", arrays=dict(R=rest), want=lambda s, at, ab: s * (ab + f64(rest)), **size)
    sdd("only below the diagonal" + more, **{**pattern, "cond": "on S[i,j] and j <= i", "want": lambda s, at, ab: np.where((s != 0) & (np.arange(328) <= np.arange(136)[:, None]), ab, 0)}, **size)
    sdd("results in f32" + more, out="f32", **size)
    sdd("an f32 operand at the place" + more, stored="f32", **size)
    sdd("an f16 operand at the place" + more, stored="f16", **size)
    sdd("strict NaN" + more, options=("--strict-nan",), **size)
    sdd("batch invariance" + more, options=("--batch-invariant",), **size)
    sdd("reproducible" + more, options=("--reproducible",), **size)
sdd("long rows of blocks", fmt="bsr(64,64)", i=200, j=5128, k=72, kept=0.3)
sdd("tall", fmt="bsr(64,64)", i=2600, j=136, k=72, kept=0.3)
sdd("long sums", fmt="bsr(128,128)", i=264, j=264, k=2056, kept=0.5)
for tile in ((64, 256), (64, 128)):
    sdd("most of it, long sums, a tile of %dx%d" % tile, fmt="bsr(128,64)", i=2312, j=712, k=1032, kept=0.97, empty=False, tile=tile)
sdd("one element", i=1, j=1, k=1, kept=1, empty=False)
sdd("f32", dtype="f32", i=136, j=200)
sdd("blocks of 32", fmt="bsr(32,32)", i=136, j=200)

# A result that is dense, and zero where nothing is stored: in blocks first, then written out.
for form in OPERANDS:
    for fmt in ("bsr(64,64)", "bsr(128,192)", "byj(64,128)", "turned(64,64)", "bsr(32,32)"):
        sdd("a dense result, %s by %s" % (form, fmt), form, fmt, i=136, j=328, k=200, dense=True)
        sdd("a dense result, %s by %s, unaligned" % (form, fmt), form, fmt, dense=True)
for kept in (0.0, 1.0):
    sdd("a dense result, %g of all" % kept, kept=kept, empty=False, i=136, j=264, k=72, dense=True)
for options in ((), ("--strict-nan",), ("--batch-invariant",), ("--reproducible",)):
    sdd("a dense result" + " ".join(options), i=136, j=328, k=200, dense=True, options=options)
sdd("a dense result, a tile of 64x256", i=264, j=648, k=328, tile=(64, 256), dense=True)
sdd("a dense result where a pattern is", **pattern, i=136, j=328, k=200, dense=True)
sdd("a dense result where an operand is not 0", value="%s", cond="on S[i,j] != 0", want=lambda s, at, ab: np.where(s != 0, ab, 0), i=136, j=328, k=200, dense=True)
sdd("a dense result, -3 elsewhere", **{**pattern, "cond": "on S[i,j] fill -3", "want": lambda s, at, ab: np.where(s != 0, ab, -3)}, i=136, j=328, k=200, dense=True)
sdd("a dense result, a bias by column, a scale by row, relu", value="S[i,j] * relu(b[j] + r[i]*%s)", more="in b: f32[J]; in r: f32[I];", arrays=dict(b=bias, r=rows),
    want=lambda s, at, ab: s * np.maximum(bias + rows[:, None] * ab, 0), i=136, j=328, k=200, dense=True)
sdd("a dense result in f32", out="f32", i=136, j=328, k=200, dense=True)
