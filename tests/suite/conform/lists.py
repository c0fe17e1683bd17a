"""Products of a matrix whose zeros are known at run time only: on a GPU lists are made of its values, over strips of every height, and the
device decides which branch runs; sizes, alignments and masks that lists have edges at."""
import numpy as np
from .harness import *

rng = np.random.default_rng(64)
SIZES = ((300, 520, 136), (64, 72, 8), (129, 1064, 264), (1, 40, 16), (257, 130, 72), (500, 640, 40))  # m, k, n: strips that are not whole, one strip of two, rows of no 16 bytes


# Lists are chosen at these sizes, with one tile for both branches: launches take no time, and dense kernels and those of blocks are slow.
TILES = "\nschedule k for sm_90a { tile C m=128 n=256 k=64; }\nschedule k for sm_80 { tile C m=128 n=128 k=32; }"
SLOW = ["--profile=" + slow_profile("slow.profile", "(?:tma|[kr]block)_")]


def listing(layout, m, k):
    """Beginnings of the kernels' names that such a product must have: rows that lie along k want to be multiples of 16 bytes,
    and kernels of few such rows look at zeros themselves."""
    if "sm_90a" not in TARGET or (not layout and (k % 8 or m <= 64)):
        return []
    return ["detect_values", "gemm_k" if layout else "gemm_kpack"]


def products(gran, bound, dtype="bf16", layout=" as dense_t"):
    tall, wide = (int(n) for n in gran.split("x"))
    text = "spx 1; dim M: dyn <= 8192; dim N: dyn; dim K: dyn%s;\nkernel k { in A: %s[M,K]%s ~ zeros(dynamic, density=0.05, gran=%s); in B: %s[K,N];\n  out C[m,n] = sum[k] A[m,k]*B[k,n] : %s acc f32; }\n" % (
        bound, dtype, layout, gran, dtype, dtype) + TILES
    to = {"bf16": bf16, "f16": lambda a: np.asarray(a, np.float16)}[dtype]
    for m, k, n in SIZES:
        kinds = {"a tenth": block_mask(rng, (m, k), (tall, wide), 0.1, False) > 0, "half": block_mask(rng, (m, k), (tall, wide), 0.5, False) > 0, "full": np.ones((m, k), bool), "empty": np.zeros((m, k), bool)}
        kinds["one element"] = kinds["empty"].copy()
        kinds["one element"][m - 1, k // 2] = True
        kinds["one strip"] = block_mask(rng, (m, k), (tall, wide), 0.03, False) > 0
        kinds["one strip"][m // 2 // 64 * 64: m // 2 // 64 * 64 + 64] = True
        for kind in kinds if (m, k, n) == SIZES[0] or (m, k, n) == SIZES[2] else ("a tenth", "one strip"):
            A, B = to(np.where(kinds[kind], rng.normal(size=(m, k)), 0)), to(rng.normal(size=(k, n)))
            case("lists of values, %s%s%s %s, %d x %d x %d, %s" % (gran, bound, layout, dtype, m, k, n, kind), text, dict(A=A, B=B), dict(C=f64(A) @ f64(B)), rtol=2e-2, options=SLOW, kernels=listing(layout, m, k))


for gran in ("128x1", "64x1", "32x1"):
    products(gran, " <= 16384")
products("64x1", "")
products("64x1", " <= 4096", "f16")
for gran in ("128x1", "64x1", "16x1"):
    products(gran, "", layout="")  # along the rows: what is listed is brought side by side
products("128x1", "", "f16", "")

# Of a result that is read on: its epilogue leaves bits, and what is listed is brought side by side.
x, W, V = (bf16(rng.random((300, 136)) + 0.1), bf16(np.where(rng.random(520) < 0.1, 1, -1) * (rng.random((136, 520)) + 0.1)), bf16(rng.normal(size=(520, 264))))
h = bf16(np.maximum(f64(x) @ f64(W), 0))
case("lists of a result that lies along k", "spx 1; dim T: dyn <= 8192; dim D: dyn; dim F: dyn; dim O: dyn;\nkernel k { in x: bf16[T,D]; in W: bf16[D,F]; in V: bf16[F,O];\n"
     "  out h[t,f] = relu(sum[d] x[t,d]*W[d,f]) : bf16 acc f32 ~ zeros(dynamic, density=0.05, gran=128x1); out y[t,o] = sum[f] h[t,f]*V[f,o] : bf16 acc f32; }\n"
     "schedule k for sm_90a { tile h t=128 f=256 d=64; tile y t=128 o=256 f=64; }", dict(x=x, W=W, V=V), dict(h=h, y=f64(h) @ f64(V)), rtol=2e-2, options=SLOW,
     kernels=["lists_from_bits", "gemm_kpack"] if "sm_90a" in TARGET else [])
