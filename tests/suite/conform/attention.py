"""Attention: two products with a softmax between them, in the layouts, with the masks and of the sizes that people have.  On a GPU
it is one kernel where q, k and v are of 16 bits; everywhere else it is five statements."""
import numpy as np
from .harness import *

rng = np.random.default_rng(417)
WITHIN = {"bf16": 1e-2, "f16": 2e-3, "f32": 2e-5}


def drawn(dtype, *shape):
    return ROUND[dtype](rng.normal(size=shape))


def attended(s, v):
    """Rows of scores, -inf where masked, by v; a row that sees nothing is 0."""
    top = s.max(-1, keepdims=True, initial=-np.inf)
    p = np.where(np.isneginf(s), 0, np.exp(s - np.where(np.isneginf(top), 0, top)))
    z = p.sum(-1, keepdims=True)
    return np.einsum("bhij,bhje->bhie", p / np.where(z == 0, 1, z), v)


def attention(name, mask="", seen=None, dtype="bf16", b=2, groups=2, by=2, i=37, j=None, d=64, e=None, layout="bhid", scale=0.125, after="%s", post=lambda x: x,
              score="%s", points=lambda s: s, given="", arrays=None, out=None, options=(), dims=None, exact=False, tile=None):
    """`mask`: of the language; `seen`: the same, by b, h, i, j; `score`: what is made of the scaled product; `after`: of the result; `exact`: scores
    are not rounded to 16 bits where they are stored; `tile`: of sm_90a."""
    j, e = i if j is None else j, d if e is None else e
    h = groups * by
    side = {"b": b, "h": h, "i": i, "d": d, "e": e}
    dim = {"b": "B", "h": "%d*G" % by if by > 1 else "G", "i": "I" if i != j else "S", "d": str(d), "e": str(e)}
    keys = layout.replace("i", "j")
    dim["j"], side["j"] = ("J" if i != j else "S"), j
    q = drawn(dtype, *(side[c] for c in layout))
    k, v = (drawn(dtype, *(groups if c == "h" else side[c] for c in at)) for at in (keys, keys.replace("d", "e")))
    shape = lambda at, grouped: "%s[%s]" % (dtype, ",".join("G" if c == "h" and grouped else dim[c] for c in at))
    read = lambda at: ",".join("h/%d" % by if c == "h" and by > 1 else c for c in at)
    left = layout.replace("d", "e")
    text = program("B G " + ("S" if i == j else "I J") + (" " + dims if dims else ""), """in q: %s; in k: %s; in v: %s; %s
  let p[b,h,i,j] = %s%s%s;  let a[b,h,i,j] = softmax[j](p[b,h,i,j]);
  out o[%s] = %s%s;""" % (shape(layout, False), shape(keys, True), shape(keys.replace("d", "e"), True), given, score % ("%g * sum[d] q[%s]*k[%s]" % (scale, ",".join(layout), read(keys))),
                          " on %s fill -inf" % mask if mask else "", " : f32" if exact else "", ",".join(left), after % ("(sum[j] a[b,h,i,j]*v[%s])" % read(keys.replace("d", "e"))), " : " + out if out else ""), more="schedule k for sm_90a { tile o i=%d j=%d; }" % tile if tile else "")
    order = lambda x, at: np.transpose(f64(x), [at.index(c) for c in "bhi" + at[-1]])
    wide = lambda x, at: np.repeat(order(x, at.replace("j", "i")), by, 1)
    s = points(scale * np.einsum("bhid,bhjd->bhij", order(q, layout), wide(k, keys)))
    if seen is not None:
        s = np.where(np.broadcast_to(seen(*np.ogrid[:b, :h, :i, :j]), s.shape), s, -np.inf)
    want = post(attended(s, wide(v, keys.replace("d", "e"))))
    case("attention: " + name, text, dict(q=q, k=k, v=v, **(arrays or {})), dict(o=np.transpose(want, ["bhie".index(c) for c in left])), rtol=WITHIN[dtype], options=options)


causal, below = "j <= i", lambda b, h, i, j: j <= i
for dtype in ("bf16", "f16", "f32"):
    attention("no mask, " + dtype, dtype=dtype)
    attention("causal, " + dtype, causal, below, dtype=dtype)
for i, j in ((1, 1), (1, 131), (3, 257), (130, 64), (131, 129), (257, 1)):
    attention("%d by %d" % (i, j), i=i, j=j)
    attention("causal, %d by %d" % (i, j), causal, below, i=i, j=j)
for d, e in ((16, 16), (24, 40), (80, 80), (96, 96), (128, 128), (64, 128), (128, 64), (192, 128), (256, 256), (17, 33), (264, 264)):
    attention("rows of %d, %d" % (d, e), causal, below, d=d, e=e, i=70, by=1, groups=1, b=1)
for layout in ("bihd", "hbid", "ibhd"):
    attention("stored " + layout, causal, below, layout=layout, i=67)
    attention("stored %s, no group, f16" % layout, layout=layout, i=67, by=1, groups=3, dtype="f16")
attention("a window", "j <= i and i - j < 19", lambda b, h, i, j: (j <= i) & (i - j < 19), i=150)
attention("a window on both sides", "j - i <= 5 and j > i - 40", lambda b, h, i, j: (j - i <= 5) & (j > i - 40), i=150)
attention("queries behind", "j <= i + 30", lambda b, h, i, j: j <= i + 30, i=40, j=70)
attention("nothing seen by some", "j + 20 <= i", lambda b, h, i, j: j + 20 <= i, i=75)
attention("from above", "j >= i", lambda b, h, i, j: j >= i, i=75)
attention("every other", "(i + j) % 2 == 0", lambda b, h, i, j: (i + j) % 2 == 0, i=75)
lengths = np.array([0, 61], np.int32)
attention("lengths", "j < n[b]", lambda b, h, i, j: j < lengths[b], i=75, given="in n: i32[B];", arrays=dict(n=lengths))
attention("lengths and causal", "j < n[b] and j <= i", lambda b, h, i, j: (j < lengths[b]) & (j <= i), i=75, given="in n: i32[B];", arrays=dict(n=lengths))
keep = (rng.random((90, 90)) < 0.3).astype(np.uint8)
attention("any mask", "M[i,j]", lambda b, h, i, j: keep[i, j] != 0, i=90, given="in M: u8[S,S];", arrays=dict(M=keep))
blocks = (rng.random((4, 3, 3)) < 0.5).astype(np.uint8)
for step, more in ((128, ""), (128, " and j <= i"), (130, "")):
    attention("blocks of %d%s" % (step, more), "M[h,i/%d,j/%d]%s" % (step, step, more), lambda b, h, i, j, step=step, more=more: (blocks[h, i // step, j // step] != 0) & ((j <= i) | (not more)), i=300,
              given="in M: u8[2*G,N,N];", arrays=dict(M=blocks), dims="N")
small = (rng.random((4, 10, 5)) < 0.4).astype(np.uint8)
attention("blocks of 32 by 64", "M[h,i/32,j/64]", lambda b, h, i, j: small[h, i // 32, j // 64] != 0, i=300, given="in M: u8[2*G,X,Y];", arrays=dict(M=small), dims="X Y")
live = np.array([1, 0, 1, 1], np.uint8)
attention("heads that are left out", "L[h]", lambda b, h, i, j: live[h] != 0, i=80, given="in L: u8[2*G];", arrays=dict(L=live))
attention("an empty row of blocks", "M[h,i/128,j/128]", lambda b, h, i, j: np.zeros((4, 3, 3))[h, i // 128, j // 128] != 0, i=300, given="in M: u8[2*G,N,N];", arrays=dict(M=np.zeros((4, 3, 3), np.uint8)), dims="N")
# What is no comparison is asked by a launch before: documents, patterns that are stored, any of them beside comparisons.
several = (rng.random((2, 90, 90)) < 0.4).astype(np.uint8)
attention("any mask of each batch", "M[b,i,j]", lambda b, h, i, j: several[b, i, j] != 0, i=90, given="in M: u8[B,S,S];", arrays=dict(M=several))
attention("any mask, later columns", "M[i,j] and j >= i", lambda b, h, i, j: (keep[i, j] != 0) & (j >= i), i=90, given="in M: u8[S,S];", arrays=dict(M=keep))
attention("any mask of capped scores", "M[i,j] and j <= i", lambda b, h, i, j: (keep[i, j] != 0) & (j <= i), i=90, scale=1.0, exact=True, score="20 * tanh(%s / 20)", points=lambda s: 20 * np.tanh(s / 20),
          given="in M: u8[S,S];", arrays=dict(M=keep))
documents = np.sort(rng.integers(0, 4, (2, 210)).astype(np.int32), 1)
for more in ("", " and j <= i"):
    attention("documents" + more, "D[b,i] == D[b,j]" + more, lambda b, h, i, j, more=more: (documents[b, i] == documents[b, j]) & ((j <= i) | (not more)), i=210, given="in D: i32[B,S];", arrays=dict(D=documents))
heads = rng.integers(0, 3, (4, 210)).astype(np.int32)
attention("documents of each head and batch", "D[b,i] == D[b,j] and L[h,i] != L[h,j]", lambda b, h, i, j: (documents[b, i] == documents[b, j]) & (heads[h, i] != heads[h, j]), i=210,
          given="in D: i32[B,S]; in L: i32[2*G,S];", arrays=dict(D=documents, L=heads))
wide = (rng.random((70, 2300)) < 0.2) & (rng.random(2300) < 0.1)[None, :] & (np.arange(2300) // 500 % 2 == 1)[None, :]
attention("tiles that are far apart", "M[i,j]", lambda b, h, i, j: wide[i, j], i=70, j=2300, d=16, b=1, by=1, groups=1, given="in M: u8[I,J];", arrays=dict(M=wide.astype(np.uint8)))
attention("few rows of a mask", "M[i,j]", lambda b, h, i, j: wide[i, j], i=5, j=700, d=64, by=1, given="in M: u8[I,J];", arrays=dict(M=wide[:5, :700].astype(np.uint8)))
attention("blocks of 128 and a mask", "M[h,i/128,j/128] and K2[i,j]", lambda b, h, i, j: (blocks[h, i // 128, j // 128] != 0) & (far[i, j] != 0), i=300, given="in M: u8[2*G,N,N]; in K2: u8[S,S];",
          arrays=dict(M=blocks, K2=(far := (rng.random((300, 300)) < 0.5).astype(np.uint8))), dims="N")
for stored, step in (("bsr(64,64)", 64), ("bsr(32,128)", (32, 128)), ("bsr(48,40)", (48, 40)), ("csr", 1), ("bitmap(8,8)", 1)):
    by_i, by_j = step if isinstance(step, tuple) else (step, step)
    some = np.kron(rng.random((-(-300 // by_i), -(-300 // by_j))) < 0.3, np.ones((by_i, by_j), bool))[:300, :300]
    for more in ("", " and j <= i"):
        attention("a pattern stored %s%s" % (stored, more), "M[i,j]" + more, lambda b, h, i, j, some=some, more=more: some[i, j] & ((j <= i) | (not more)), i=300, given="in M: pattern[S,S] as %s;" % stored,
                  arrays=dict(M=some.astype(np.float32)))
for tile, d in (((128, 128), 128), ((128, 64), 256), ((64, 128), 128), ((64, 96), 64), ((64, 64), 64)):
    at = dict(tile=tile, d=d, i=300, b=1, groups=1)
    attention("bits of a mask, tiles of %d x %d" % tile, "K2[i,j]", lambda b, h, i, j: far[i, j] != 0, given="in K2: u8[S,S];", arrays=dict(K2=far), **at)
    attention("blocks, and below, tiles of %d x %d" % tile, "M[i/64,j/32] and j <= i", lambda b, h, i, j: (nest[i // 64, j // 32] != 0) & (j <= i), given="in M: u8[X,Y];", dims="X Y",
              arrays=dict(M=(nest := (np.random.default_rng(7).random((5, 10)) < 0.4).astype(np.uint8))), **at)

slope, bias = np.array([0.5, 0.25, 0.125, 0.0625], np.float32), drawn("bf16", 75, 75)
attention("slopes", causal, below, i=75, given="in w: f32[2*G];", arrays=dict(w=slope), score="%s - w[h]*cast[f32](i - j)", points=lambda s: s - slope[None, :, None, None] * (np.arange(75)[:, None] - np.arange(75)))
attention("a bias", causal, below, i=75, given="in r: bf16[S,S];", arrays=dict(r=bias), score="%s + r[i,j]", points=lambda s: s + f64(bias))
attention("capped scores", causal, below, i=75, scale=1.0, exact=True, score="20 * tanh(%s / 20)", points=lambda s: 20 * np.tanh(s / 20))
attention("negative scale", causal, below, i=75, scale=-0.25)
attention("large scores", causal, below, i=75, scale=16.0, exact=True)
gate = drawn("bf16", 64)
attention("a gate behind", causal, below, i=75, given="in g: bf16[64];", arrays=dict(g=gate), after="relu(%s) * g[e]", post=lambda x: np.maximum(x, 0) * f64(gate))
attention("an f32 result", causal, below, i=75, out="f32")
attention("reproducible", causal, below, i=75, options=("--reproducible",))
attention("batch invariant", causal, below, i=75, options=("--batch-invariant",))
attention("one query of each head, many keys", "j < n[b]", lambda b, h, i, j: j < lengths[b] * 10, i=1, j=700, by=4, d=128, given="in n: i32[B];", arrays=dict(n=lengths * 10))
