"""Tiles of products over lists of k's that are fewer than a GPU's blocks, or fewer in the last turn: several blocks share one, each a part of the list, and
who comes last adds the parts up. A stored either way round, strips of 64 in pairs and alone, results of 16 and 32 bits; lists of no entry, of one, of some
strips: too short to be shared."""
import numpy as np
from .harness import *

rng = np.random.default_rng(53)
HERE = "sm_90a" in TARGET
LISTS = "--profile=" + slow_profile("turns.profile", "(?:tma|kblock_tma|rblock_tma|w?g?mma)_")
PAIRS = "--profile=" + slow_profile("turns_pairs.profile", "(?:tma|kgather_tma|kblock_tma|rblock_tma|w?g?mma)_")
FEW, SOME = (200, 520, 4104), (400, 1096, 2056)  # m, n, k: as many tiles as blocks have time for; a turn of them and some, where there are 16 blocks


def lists_of(m, k, strip):
    """Which k's the rows of a strip have; rows are their own then."""
    strips = -(-m // strip)
    tall = lambda there: np.repeat(there, strip, 0)[:m]
    one = np.zeros((strips, k), bool)
    one[strips // 2, k // 2] = True
    uneven = rng.random((strips, k)) < 0.3 * np.arange(strips)[:, None] / max(strips - 1, 1)
    return {"a fifth": tall(rng.random((strips, k)) < 0.2), "one element": tall(one), "empty": tall(one) & False, "full": tall(one) | True, "uneven": tall(uneven)}


def product(size, kind, tile, strip, stored="", a="bf16", t="bf16", options=(), kernel="gemm_kgather_tma"):
    """y = h W + b, h of strips of rows that have the same k's."""
    if left_to_a_gpu(): return
    m, n, k = size
    text = """spx 1; dim M: dyn <= 8192; dim N: dyn <= 8192; dim K: dyn <= 8192;
kernel k { in h: %s[M,K]%s ~ zeros(dynamic, density=0.05, gran=%dx1); in W: %s[K,N]; in b: f32[N];
  out y[m,n] = (sum[k] h[m,k]*W[k,n]) + b[n] : %s acc f32; }
schedule k for sm_90a { tile y m=%d n=%d k=%d; }
""" % (a, stored, strip, a, t, *tile)
    mask = lists_of(m, k, strip)[kind] & (rng.random((m, k)) < 0.9)
    h = ROUND[a](np.where(mask, rng.integers(1, 4, (m, k)) * rng.choice((-1, 1), (m, k)), 0).astype(np.float64))
    W = ROUND[a](rng.integers(-2, 3, (k, n)).astype(np.float64))
    b = rng.integers(-4, 5, n).astype(np.float32)
    tiled_case("turns: %s of %d x %d x %d, %s%s, %s to %s %s" % ("%dx%d by %s" % (tile[0], tile[1], kernel), m, n, k, kind, stored, a, t, " ".join(options)), text, dict(h=h, W=W, b=b),
               dict(y=f64(h) @ f64(W) + f64(b)), rtol=1e-2, options=(PAIRS if "kpair" in kernel else LISTS, "--force-guard=sparse", *options), kernels=[kernel] if HERE else [])


for size in (FEW, SOME):
    for kind in ("a fifth", "one element", "empty", "full", "uneven"):
        product(size, kind, (128, 256, 64), 128, " as dense_t")
        if size == FEW or kind in ("a fifth", "uneven"):
            product(size, kind, (128, 256, 64), 64, " as dense_t", kernel="gemm_kpair_tma")
            product(size, kind, (128, 256, 64), 128, kernel="gemm_kpack_tma")
for kind in ("a fifth", "uneven"):
    product(FEW, kind, (128, 256, 64), 128, " as dense_t", t="f32")
    product(FEW, kind, (128, 256, 64), 64, " as dense_t", t="f32", kernel="gemm_kpair_tma")
    product(FEW, kind, (128, 256, 64), 128, a="f16", t="f16", options=("--reproducible",), kernel="gemm_kpack_tma")
    product(FEW, kind, (64, 256, 64), 64, " as dense_t", a="f16", t="f16")
    product(FEW, kind, (64, 128, 64), 64, " as dense_t")
    product(FEW, kind, (64, 512, 32), 64, " as dense_t")

# A relu's epilogue leaves the bits, of strips of 64; behind it lies what is packed over the list.
for size in (FEW, (330, 776, 1032)):
    m, n, k = size
    for kind in ("a fifth", "empty", "full", "uneven"):
        if left_to_a_gpu(): continue
        mask = lists_of(m, k, 64)[kind]
        z, h = bf16(np.eye(m)), bf16(np.where(mask, rng.integers(1, 4, (m, k)), rng.integers(-3, 1, (m, k))).astype(np.float64))
        W = bf16(rng.integers(-2, 3, (k, n)).astype(np.float64))
        tiled_case("turns: behind a relu, %d x %d x %d, %s" % (m, n, k, kind), """spx 1; dim T: dyn <= 8192; dim F: dyn <= 8192; dim D: dyn; dim E: dyn;
kernel k { in z: bf16[T,E]; in V: bf16[E,F]; in W: bf16[F,D];
  let h[t,f] = relu(sum[e] z[t,e]*V[e,f]) : bf16 acc f32 ~ zeros(dynamic, density=0.05);
  out y[t,o] = sum[f] h[t,f]*W[f,o] : bf16 acc f32; }
schedule k for sm_90a { compact h axis=f gran=64x1; tile y t=128 o=256 f=64; }
""", dict(z=z, V=h, W=W), dict(y=np.maximum(f64(h), 0) @ f64(W)), rtol=1e-2, options=(LISTS, "--force-guard=sparse"), kernels=["gemm_kpair_tma"] if HERE else [])
