"""Tiles that a list makes and that are fewer than a GPU's blocks, or fewer in the last turn: several blocks share one, each a part of long sums, and
the last to come adds them up. Columns, blocks, lists of pairs behind which another product reads; masks with no tile, one, one of some strips."""
import numpy as np
from .harness import *

rng = np.random.default_rng(91)
PROFILE = columns_profile("shares.profile")
PLACED = columns_profile("placed.profile", IN_PLACE)
PACKED = "--profile=" + slow_profile("packed.profile", "ngather_mma_")
IN_BLOCKS = "--profile=" + slow_profile("blocks.profile", "(?:tma|nspread|w?g?mma)_", "column_tile_us = 100\n")
HERE = "sm_90a" in TARGET
SIZES = ((304, 528, 2056), (128, 272, 1032), (72, 144, 4104))  # m, n, k: rows of bytes too are whole chunks
LONG = (136, 1040, 2056)  # lists of several tiles


def masks(m, n, gran):
    element = np.zeros((m, n), bool)
    element[m // 2, n // 2] = True
    return {"one element": element, "a tenth": block_mask(rng, (m, n), gran, 0.1, False) > 0, "empty": np.zeros((m, n), bool), "full": np.ones((m, n), bool),
            "the last strip": (np.arange(m)[:, None] + np.zeros((1, n))) >= m // 64 * 64}


def asked(gran, m, n, k, kind, mask, dtype, options, kernel, low=False):
    """C = A B^T + b where W is set, which has columns of some rows, or blocks."""
    if left_to_a_gpu(): return
    text = """spx 1; dim M: dyn <= 8192; dim N: dyn <= 8192; dim K: dyn;
kernel k { in A: %s[M,K]; in B: %s[N,K]; in W: b1[M,N] ~ zeros(dynamic, density=0.01, gran=%dx%d); in b: f32[N];
  out C[m,n] = (sum[k] A[m,k]*B[n,k]) + b[n] on W[m,n] fill 3 : %s acc f32; }
%s""" % (dtype, dtype, *gran, dtype, "schedule k for sm_90a { tile C m=%d n=256 k=64; }\n" % gran[0] if gran == (128, 1) or low else "")
    A, B, b = (ROUND[dtype](rng.integers(-4, 5, shape).astype(np.float64)) for shape in ((m, k), (n, k), (n,)))
    tiled_case("shares: %dx%d, %d x %d x %d, %s, %s" % (*gran, m, n, k, kind, " ".join(("in place",) * low + options)), text, dict(A=A, B=B, W=mask, b=b.astype(np.float32)),
         dict(C=np.where(mask, f64(A) @ f64(B).T + f64(b), 3)), rtol=1e-2, options=(IN_BLOCKS if "spread" not in kernel else PLACED if gran[0] == 128 or low else PROFILE, *options), kernels=[kernel] if HERE else [])


for gran, kernel in (((128, 1), "gemm_nspread"), ((64, 1), "gemm_nspread"), ((128, 64), "gemm_nblock"), ((64, 64), "gemm_nblock")):
    for m, n, k in SIZES:
        for kind, mask in masks(m, n, gran).items():
            if kind != "empty" or m == SIZES[0][0]: asked(gran, m, n, k, kind, mask, "bf16", ("--force-guard=sparse",), kernel)
    for kind in ("a tenth", "full") if gran[0] == 128 else ():
        asked(gran, *LONG, kind, masks(*LONG[:2], gran)[kind], "bf16", ("--force-guard=sparse",), kernel)
    asked(gran, *SIZES[0], "a tenth", masks(*SIZES[0][:2], gran)["a tenth"], "f16", ("--force-guard=sparse", "--reproducible"), kernel)
    asked(gran, *SIZES[0], "a tenth", masks(*SIZES[0][:2], gran)["a tenth"], "bf16", ("--force-guard=dense",), kernel)

for m, n, k in (*SIZES, LONG):
    for kind in ("one element", "a tenth", "full"):
        asked((64, 1), m, n, k, kind, masks(m, n, (64, 1))[kind], "bf16", ("--force-guard=sparse",), "gemm_nspread", low=True)

# Columns in place that hold in some of their strip's rows alone, in boxes that blocks share.
for gran in ((128, 1), (64, 1)):
    for m, n, k in (*SIZES, LONG):
        asked(gran, m, n, k, "columns of eight rows", block_mask(rng, (m, n), (8, 1), 0.03, False) > 0, "f16" if m == SIZES[0][0] else "bf16", ("--force-guard=sparse",), "gemm_nspread", low=gran[0] == 64)

# The up projection is packed over the list of g, by pairs of strips or by strips; z picks rows of V, so g has the zeros that are drawn.
for m, n, k in ((304, 528, 2056), (264, 1032, 1032)):
    for gran in ("64x1", "128x1"):
        for kind, mask in masks(m, n, (64, 1)).items():
            if left_to_a_gpu(): continue
            text = """spx 1; dim T: dyn <= 8192; dim F: dyn <= 8192; dim D: dyn; dim E: dyn;
kernel k { in z: bf16[T,E]; in V: bf16[F,E]; in x: bf16[T,D]; in Wu: bf16[F,D]; in Wd: bf16[F,D];
  let g[t,f] = relu(sum[e] z[t,e]*V[f,e]) ~ zeros(dynamic, density=0.01);
  let u[t,f] = sum[d] x[t,d]*Wu[f,d] on g[t,f];
  out y[t,o] = sum[f] g[t,f]*u[t,f]*Wd[f,o]; }
schedule k for sm_90a { compact g axis=f gran=%s; tile y t=128 o=256 f=64; }
""" % gran
            x, Wu = (bf16(rng.integers(-1, 2, shape).astype(np.float64)) for shape in ((m, k), (n, k)))
            Wd, g = bf16(rng.integers(-1, 2, (n, k)) * 0.25), bf16(np.where(mask, rng.integers(1, 3, mask.shape), 0).astype(np.float64))
            u = f64(bf16(f64(x) @ f64(Wu).T))
            tiled_case("shares: a gated layer, %s, %d x %d x %d, %s" % (gran, m, n, k, kind), text, dict(z=bf16(np.eye(m)), V=g.T.copy(), x=x, Wu=Wu, Wd=Wd), dict(y=f64(bf16(f64(g) * u)) @ f64(Wd)), rtol=1e-2,
                 options=(PACKED, "--force-guard=sparse"), kernels=["gemm_npair_tma" if gran == "64x1" else "gemm_ngather"] if HERE else [])
