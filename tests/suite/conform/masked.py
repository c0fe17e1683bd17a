"""Masks of bytes that a dense product's epilogue reads at the result's place: values chosen by pairs (kernels/store_tma.cuh), tiles of several widths, k's of
less than a tile and of many; and the kernel of listed blocks where it is its own dense branch. On an emulated device with a few multiprocessors a block has several tiles."""
import numpy as np
from .harness import *

rng = np.random.default_rng(97)
HERE = "sm_90a" in TARGET
DIMS = "spx 1; dim M: dyn <= 16384; dim N: dyn <= 8192; dim K: dyn;\n"
EITHER = "kernel k { in A: %s[M,K]; in B: %s[N,K]; in W: b1[M,N]; in b: %s[N]; out C[m,n] = (sum[k] A[m,k]*B[n,k]) * where(W[m,n], 2, 0.5) + b[n] : %s acc f32; }"
ASKED = "kernel k { in A: %s[M,K]; in B: %s[N,K]; in W: b1[M,N]%s; out C[m,n] = sum[k] A[m,k]*B[n,k] on W[m,n]%s : %s acc f32; }"
TILE = "\nschedule k for sm_90a { tile C m=128 n=256 k=64; }"
BLOCKS = "~ zeros(dynamic, density=0.1, gran=%s)"
MASKS = {
    "all": lambda shape: np.ones(shape, bool),
    "nothing": lambda shape: np.zeros(shape, bool),
    "half": lambda shape: rng.random(shape) < 0.5,
    "one element": lambda shape: np.arange(shape[0] * shape[1]).reshape(shape) == shape[0] * shape[1] - 2,
    "blocks": lambda shape: block_mask(rng, shape, (128, 64), 0.3, False) > 0,
}
BLOCK_MASKS = { # of which a sample says dense, the counts do, neither does
    "nearly all": lambda shape: rng.random(shape) < 0.97,
    "more than pays": lambda shape: block_mask(rng, shape, (128, 64), 0.88, False) > 0,
    "a tenth": lambda shape: block_mask(rng, shape, (128, 64), 0.1, False) > 0,
    "all but for what no sample sees": lambda shape: np.arange(shape[0] * shape[1]).reshape(shape) != 77,
}


BOTH = "--profile=" + slow_profile("masked.both", "(?:tma|nspread|w?g?mma)_", "column_tile_us = 100\nrate wgmma = 1\nrate tma_128x256 = 150\n") # listed blocks, and the dense tile that their kernel has


def fast(tile):
    """A profile where of all dense tiles this one is fast."""
    return "--profile=" + slow_profile("masked.%s" % tile, "(?:tma|nspread|nblock|w?g?mma)_", "rate wgmma = 1\nrate tma_%s = 600\n" % tile)


def operands(m, n, k, dtype):
    return [ROUND[dtype](rng.integers(-4, 5, shape).astype(np.float64)) for shape in ((m, k), (n, k))]


def asked(tile, mask, m, n, k, dtype="bf16", fill=0):
    if left_to_a_gpu(): return
    A, B = operands(m, n, k, dtype)
    W = MASKS[mask]((m, n))
    tiled_case("masked: asked for, %s, %s, %d x %d x %d, %s" % (tile, mask, m, n, k, dtype), DIMS + ASKED % (dtype, dtype, "", " fill %d" % fill if fill else "", dtype), dict(A=A, B=B, W=W),
               dict(C=np.where(W, f64(A) @ f64(B).T, fill)), rtol=1e-2, options=(fast(tile),), kernels=["gemm_tma_%sx64" % tile] if HERE else [])


def either(mask, m, n, k, dtype="bf16"):
    if left_to_a_gpu(): return
    A, B = operands(m, n, k, dtype)
    W, b = MASKS[mask]((m, n)), ROUND[dtype](rng.integers(-4, 5, n).astype(np.float64))
    tiled_case("masked: either, %s, %d x %d x %d, %s" % (mask, m, n, k, dtype), DIMS + EITHER % (dtype, dtype, dtype, dtype), dict(A=A, B=B, W=W, b=b),
               dict(C=f64(A) @ f64(B).T * np.where(W, 2, 0.5) + b), rtol=1e-2, options=(fast("128x256"),), kernels=["gemm_tma_128x256x64"] if HERE else [])


def both(mask, m, n, k, options=(), gran="128x64", fill=0):
    if left_to_a_gpu(): return
    A, B = operands(m, n, k, "bf16")
    W = {**MASKS, **BLOCK_MASKS}[mask]((m, n))
    tiled_case("masked: blocks of %s, %s, %d x %d x %d %s" % (gran, mask, m, n, k, " ".join(options)), DIMS + ASKED % ("bf16", "bf16", BLOCKS % gran, " fill %d" % fill if fill else "", "bf16") + TILE,
               dict(A=A, B=B, W=W), dict(C=np.where(W, f64(A) @ f64(B).T, fill)), rtol=1e-2, options=(BOTH, *options), kernels=["gemm_nblock_tma_128x256x64"] if HERE else [])


TWO = """kernel k { in A: bf16[M,K]; in B: bf16[N,K]; in G: bf16[N,K]; in W: b1[M,N] ~ zeros(dynamic, density=0.1, gran=128x64);
  out C[m,n] = sum[k] A[m,k]*B[n,k] on W[m,n] : bf16 acc f32; out E[m,n] = sum[k] A[m,k]*G[n,k] on W[m,n] : bf16 acc f32; }
schedule k for sm_90a { tile C m=128 n=256 k=64; tile E m=128 n=256 k=64; }"""


def two(mask, m, n, k, options=()):
    """Who reads a list beside others heeds the guard's verdict, and does not decide by counts."""
    if left_to_a_gpu(): return
    A, B, G = (ROUND["bf16"](rng.integers(-4, 5, shape).astype(np.float64)) for shape in ((m, k), (n, k), (n, k)))
    W = MASKS[mask]((m, n))
    tiled_case("masked: two products, %s, %d x %d x %d %s" % (mask, m, n, k, " ".join(options)), DIMS + TWO, dict(A=A, B=B, G=G, W=W),
               dict(C=np.where(W, f64(A) @ f64(B).T, 0), E=np.where(W, f64(A) @ f64(G).T, 0)), rtol=1e-2, options=(BOTH, *options), kernels=["gemm_nblock_tma_128x256x64"] if HERE else [])


for mask in MASKS:
    asked("128x256", mask, 520, 656, 136)
    either(mask, 520, 656, 136)
    both(mask, 520, 656, 136)
for m, n, k in ((1032, 2064, 40), (264, 528, 72), (300, 1040, 392), (640, 272, 264)):
    asked("128x256", "half", m, n, k, fill=3)
    either("half", m, n, k, "f16")
    both("all", m, n, k, fill=3)
for tile in ("128x128", "64x256", "128x192", "256x176"):
    asked(tile, "half", 520, 656, 136, "f16")
for options in (("--force-guard=dense",), ("--force-guard=sparse",), ("--force-guard=dense", "--reproducible")):
    both("half", 520, 656, 136, options)
    both("blocks", 520, 656, 1032, options, gran="64x64")
for mask, options in (("all", ()), ("blocks", ()), ("half", ("--force-guard=dense",)), ("blocks", ("--force-guard=sparse",))):
    two(mask, 520, 656, 136, options)
for mask in ("all", "nothing", *BLOCK_MASKS):
    both(mask, 1024, 2048, 40, fill=2)
both("all", 1016, 2080, 72, fill=2)
