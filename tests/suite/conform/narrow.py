"""Results asked for in blocks, whose tiles are wide where a strip has many blocks and narrow where few are left of it, or in all: lists of all lengths, tiles that
are fewer than a GPU's blocks, about as many, and several turns of them. On an emulated device with a few multiprocessors small sizes do."""
import os
import numpy as np
from .harness import *

rng = np.random.default_rng(92)
PROFILE = "--profile=" + slow_profile("narrow.profile", "(?:tma|nspread|w?g?mma)_", "column_tile_us = 100\n")
TEXT = """spx 1; dim M: dyn <= 16384; dim N: dyn <= 8192; dim K: dyn;
kernel k { in A: %s[M,K]; in B: %s[%s]; in W: b1[M,N] ~ zeros(dynamic, density=0.1, gran=128x64);
  out C[m,n] = %s on W[m,n]%s : %s acc f32; }
schedule k for sm_90a { tile C m=128 n=256 k=64; }"""
HERE = "sm_90a" in TARGET
SMALL = "SPC_EMULATED_UNITS" in os.environ


def narrow(name, m, n, k, kept, stored="N,K", dtype="bf16", fill="", value="sum[k] A[m,k]*B[%s]", options=("--force-guard=sparse",)):
    """kept: blocks of each strip of 128 rows, over and over; a share of them, or how many."""
    if left_to_a_gpu(): return
    there = np.zeros((-(-m // 128), -(-n // 64)), bool)
    for i, row in enumerate(there):
        share = kept[i % len(kept)]
        row[rng.permutation(len(row))[:share if isinstance(share, int) else int(round(share * len(row)))]] = True
    mask = np.kron(there, np.ones((128, 64), bool))[:m, :n]
    A, B = (ROUND[dtype](rng.integers(-4, 5, shape).astype(np.float64)) for shape in ((m, k), (n, k) if stored == "N,K" else (k, n)))
    want = f64(A) @ (f64(B).T if stored == "N,K" else f64(B))
    case("narrow: %s, %d x %d x %d, %s, %s %s" % (name, m, n, k, stored, dtype, " ".join(options)), TEXT % (dtype, dtype, stored, value % stored.lower(), fill, dtype),
         dict(A=A, B=B, W=mask), dict(C=np.where(mask, want, float(fill.split()[1]) if fill else 0)), rtol=1e-2, options=(PROFILE, *options), kernels=["gemm_nblock_tma_128x256x64"] if HERE and "dense" not in options[0] else [])


for stored in ("N,K", "K,N"):
    narrow("lists of 0 to 9 blocks", 1288, 592, 136, (0, 1, 2, 3, 4, 5, 6, 7, 8, 9), stored)
    narrow("one tile", 128, 256, 520, (1,), stored)
    narrow("half of all", 1160, 1104, 200, (0.5,), stored, fill=" fill 3")
narrow("one block a strip", 900, 528, 1032, (1,))
narrow("three blocks a strip", 900, 528, 1032, (3,))
narrow("a list of all, others empty", 640, 1024, 520, (0, 0, 1.0, 0))
narrow("all", 520, 656, 136, (1.0,))
narrow("none", 520, 656, 136, (0,))
narrow("lists of all lengths", 1288, 592, 136, (5, 0, 9, 2), dtype="f16", options=("--force-guard=sparse", "--reproducible"))
narrow("more strips than are looked at", 128 * 65 - 8, 272, 72, (1, 4, 2, 3))
narrow("a tile behind a turn of five, in two parts", 768, 320, 1032, (4,)) # which blocks take back to front
narrow("dense is meant", 520, 656, 136, (0.5,), options=("--force-guard=dense",))
if HERE and not SMALL: # turns of 132 tiles
    for kept in (0.5, 0.25, 0.1, 0.9):
        narrow("turns", 4096, 4096, 392, tuple(max(0, int(64 * kept + d)) for d in (0, 3, -2, 1, -1, 2, -3, 5)))
    narrow("turns, of which the last is shared", 4096, 4096, 1032, tuple(16 + d for d in (0, 3, -2, 1, -1, 2, -3, 5)))
