"""Products over lists of very different lengths: where a block takes many tiles they are dealt longest list first.  A device with few
multiprocessors shows it at small sizes: the emulated one with SPC_EMULATED_UNITS=1."""
import numpy as np
from .harness import *

rng = np.random.default_rng(65)
f64 = lambda a: np.asarray(a, np.float64)
PROFILE = "--profile=" + slow_profile("uneven.profile", "(?:tma|[kr]block)_")
TILES = "\nschedule k for sm_90a { tile C m=128 n=256 k=64; }\nschedule k for sm_80 { tile C m=128 n=128 k=32; }"
TEXT = """spx 1; dim M: dyn <= 16384; dim N: dyn; dim K: dyn <= 4096;
kernel k { in A: bf16[M,K]%s ~ zeros(dynamic, density=0.05, gran=%s); in B: bf16[K,N];
  out C[m,n] = sum[k] A[m,k]*B[k,n] : bf16 acc f32; }""" + TILES


def uneven(name, m, k, n, gran, layout, shares):
    """shares: of the micro-tiles of each strip of 128 rows, over and over."""
    tall, wide = (int(x) for x in gran.split("x"))
    kept = np.array([shares[i * tall // 128 % len(shares)] for i in range(-(-m // tall))])[:, None]
    mask = np.kron(rng.random((len(kept), -(-k // wide))) < kept, np.ones((tall, wide), bool))[:m, :k]
    A, B = bf16(np.where(mask, rng.normal(size=(m, k)), 0)), bf16(rng.normal(size=(k, n)))
    tiled_case("uneven: %s, %s%s, %d x %d x %d" % (name, gran, layout, m, k, n), TEXT % (layout, gran), dict(A=A, B=B), dict(C=f64(A) @ f64(B)), rtol=2e-2, options=(PROFILE, "--force-guard=sparse"),
         kernels=["detect_values", "gemm_k"] if "sm_90a" in TARGET and k % 8 == 0 and n % 8 == 0 else [])


ONE, MANY = (0.02, 0.02, 0.02, 0.9, 0.02), (0.3, 0.01, 0.05, 0.6, 0, 0.02, 1, 0.1)
for gran in ("128x1", "64x1"):
    for layout in (" as dense_t", ""):
        uneven("one long list", 640, 1024, 1792, gran, layout, ONE)
        uneven("lists of all lengths", 1100, 1024, 1000, gran, layout, MANY)
uneven("more lists than are ranked at once", 128 * 67 + 8, 1024, 200, "128x1", " as dense_t", MANY + ONE)
uneven("none but empty lists", 640, 1024, 1792, "128x1", " as dense_t", (0,))
uneven("even lists", 640, 1024, 1792, "128x1", " as dense_t", (0.1,))

# Rows in an order: those that hold anything lie side by side, in a few strips or in many, and the lists of the others are empty.
ORDERED = ordered_profile("uneven_ordered.profile")


def ordered(size, rows, blocks, dtype="bf16", out=None, more="", options=()):
    """y = A B, A of so many rows that hold values, in some of the blocks of 64."""
    if left_to_a_gpu(): return
    m, n, k = size
    there = np.zeros((m, -(-k // 64)), bool)
    live = rng.permutation(m)[:rows]
    there[live] = rng.random((len(live), there.shape[1])) < blocks
    mask = np.repeat(there, 64, 1)[:, :k] & (rng.random((m, k)) < 0.9)
    A = ROUND[dtype](np.where(mask, rng.integers(1, 4, (m, k)) * rng.choice((-1, 1), (m, k)), 0).astype(np.float64))
    B, r = ROUND[dtype](rng.integers(-2, 3, (k, n)).astype(np.float64)), ROUND[dtype](rng.integers(-9, 10, (m, n)).astype(np.float64))
    text = """spx 1; dim M: dyn <= 4096; dim N: dyn <= 8192; dim K: dyn <= 8192;
kernel k { in A: %s[M,K] ~ zeros(dynamic, density=0.02, gran=1x64); in B: %s[K,N]; %s
  out C[m,n] = (sum[k] A[m,k]*B[k,n])%s : %s acc f32; }
schedule k for sm_90a { regroup C; }
""" % (dtype, dtype, "in r: %s[M,N];" % dtype if more else "", more, out or dtype)
    want = f64(A) @ f64(B) + (f64(r) if more else 0)
    tiled_case("uneven: %d of %d rows in an order, %g of their blocks, x %d x %d, %s%s %s" % (rows, m, blocks, n, k, out or dtype, more, " ".join(options)), text, dict(A=A, B=B, **({"r": r} if more else {})),
               dict(C=ROUND[out or dtype](want)), rtol=0, options=(ORDERED, "--force-guard=sparse", *options), kernels=["gemm_rblock_tma_128x256"] if "sm_90a" in TARGET and n % 8 == 0 and k % 8 == 0 else [])


for rows, blocks in ((60, 0.9), (0, 0), (600, 0.3)):
    ordered((600, 264, 1032), rows, blocks)
ordered((600, 264, 1032), 100, 0.9, "f16", more=" + r[m,n]", options=("--reproducible",))
