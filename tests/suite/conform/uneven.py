"""Products over lists of very different lengths: where a block takes many tiles they are dealt longest list first.  A device with few
multiprocessors shows it at small sizes: the emulated one with SPC_EMULATED_UNITS=1."""
import numpy as np
from .harness import *

rng = np.random.default_rng(65)
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
