"""Operands stored in blocks, which a GPU multiplies as they lie: either factor, either way round, blocks of several sizes, at edges that
they hang over, in block rows that are empty, all of them, none."""
import numpy as np
from .harness import *

rng = np.random.default_rng(64)
FORMATS = "format byk(a,b) = [i,j] -> [ j/b: dense, i/a: compressed, i%a: dense, j%b: dense ];\nformat turned(a,b) = [i,j] -> [ i/a: dense, j/b: compressed, j%b: dense, i%a: dense ];\nkernel k"
# what is computed: the stored operand's indices, the other one's, the result's
FORMS = {"x Wt": ("o,k", "t,k", "t,o"), "W x": ("o,k", "k,t", "o,t"), "x W": ("k,o", "t,k", "t,o"), "Wt x": ("k,o", "k,t", "o,t")}


def drawn(shape, factors, kept, empty):
    at = block_mask(rng, shape, factors, kept, empty)
    return (rng.integers(-4, 5, shape) * at).astype(np.float64)


def blocks(name, form="x Wt", fmt="bsr(64,64)", t=37, o=131, k=203, kept=0.4, empty=True, dtype="bf16", out=None, hint=0.4, const=" const", after="%s", post=lambda y: y, tile=None, more="",
           arrays=None, options=()):
    side = dict(t=t, o=o, k=k)
    stored, other, result = FORMS[form]
    shape = lambda at: tuple(side[i] for i in at.split(","))
    factors = [int(n) for n in fmt[fmt.index("(") + 1:-1].split(",")]
    W, x = drawn(shape(stored), factors, kept, empty), rng.integers(-4, 5, shape(other)).astype(np.float64)
    text = program("T O K", "in x: %s[%s]; in W: %s[%s] as %s ~ zeros(static, density=%g, gran=%dx%d)%s; %s out y[%s] = %s : %s acc f32;" % (
        dtype, other.upper(), dtype, stored.upper(), fmt, hint, *factors, const, more, result, after % ("sum[k] x[%s]*W[%s]" % (other, stored)), out or dtype)).replace("kernel k", FORMATS, 1)
    if tile:
        text += "\nschedule k for sm_90 { tile y t=%d o=%d k=64; }" % tile
    want = np.einsum("%s,%s->%s" % (other.replace(",", ""), stored.replace(",", ""), result.replace(",", "")), x, W)
    case("blocks: " + name, text, dict(x=ROUND[dtype](x), W=ROUND[dtype](W), **(arrays or {})), dict(y=post(want)), rtol=1e-2 if dtype == "bf16" else 2e-3, options=options)


for form in FORMS:
    for fmt in ("bsr(64,64)", "bsr(128,64)", "bsr(64,128)", "bsr(192,64)", "byk(64,64)", "turned(64,128)"):
        blocks("%s in %s" % (form, fmt), form, fmt)
        blocks("%s in %s, sizes that boxes take" % (form, fmt), form, fmt, t=40, o=328, k=456)
for n, tile in ((256, (256, 128)), (128, (128, 128)), (64, (64, 128)), (32, (32, 128)), (16, (16, 128))):
    blocks("a tile of %d" % n, t=72, o=264, k=320, tile=tile)
    blocks("a tile of %d, read across, f16" % n, "x W", t=72, o=264, k=320, dtype="f16", tile=tile)
for kept in (0.0, 1.0):
    for form in ("x Wt", "x W"):
        blocks("%s, %g of all" % (form, kept), form, kept=kept, empty=False, t=48, o=200, k=264)
blocks("none that is const, long rows", t=24, o=136, k=4104, kept=0.1, const="", hint=0.1)
blocks("long rows, read across", "x W", t=24, o=136, k=4104, kept=0.1, hint=0.1)
for form in FORMS:
    blocks("%s, few rows and long sums" % form, form, t=24, o=264, k=4104, kept=0.5, hint=0.5, empty=False)
    blocks("%s, few rows, no blocks" % form, form, t=64, o=136, k=2056, kept=0, hint=0.5)
blocks("blocks of 2048 along k", fmt="bsr(64,2048)", t=24, o=136, k=4104, kept=0.5)
blocks("blocks longer than kernels take", fmt="bsr(64,4096)", t=24, o=136, k=4200, kept=0.5, empty=False)
blocks("blocks of 32 are copied", fmt="bsr(32,32)", t=40, o=136, k=200)
blocks("f32 is copied", dtype="f32", t=40, o=136, k=200)
blocks("one element", t=1, o=1, k=1, kept=1, empty=False)
blocks("results in f32", out="f32", t=40, o=136, k=200)
bias, rest = rng.integers(-8, 8, 136).astype(np.float32), bf16(rng.integers(-8, 8, (40, 136)))
blocks("a bias, relu and a residual", t=40, o=136, k=200, more="in b: f32[O]; in r: bf16[T,O];", after="relu(b[o] + %s) + r[t,o]", post=lambda y: np.maximum(y + bias, 0) + f64(rest), arrays=dict(b=bias, r=rest))
blocks("strict NaN", t=40, o=136, k=200, options=("--strict-nan",))
blocks("batch invariance", t=40, o=136, k=200, options=("--batch-invariant",))
blocks("rows of the result, batch invariance", "W x", t=40, o=136, k=200, options=("--batch-invariant",))
