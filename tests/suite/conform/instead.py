"""Zeros of which nobody has told how they come: a list of k's, or of whole rows in its place, as the samples of both say, and dense where neither pays."""
import numpy as np
from .harness import *

rng = np.random.default_rng(2026)
HERE = "sm_90a" in TARGET
# lists of k's are expected to win, by the kernel that has its k's brought side by side; a dense kernel that can stand in front, slower than any list
FIGURES = "rate wgmma = 1\nrate tma_128x256 = 150\nfront_us = 0.01\nexchange_us = 1000\nregroup_us = 1000\n"
PROFILE = "--profile=" + slow_profile("instead", "(?:tma|[kr]block|w?g?mma)_", FIGURES)
IN_ROWS = "--profile=" + slow_profile("instead.rows", "(?:tma|[kr]block|w?g?mma)_", FIGURES + "untold_rows = 1\n")
TEXT = """spx 1; dim M: dyn <= 8192; dim N: dyn <= 8192; dim K: dyn <= 8192;
kernel k { in A: bf16[M,K] ~ zeros(dynamic); in B: bf16[K,N]; out C[m,n] = sum[k] A[m,k]*B[k,n] : bf16 acc f32; }"""


def blocks(shape, of, share): return block_mask(rng, shape, of, share, False) > 0


MASKS = { # and what they are computed by, where samples and lists tell
    "columns": (lambda shape: blocks(shape, (128, 1), 0.1), "gemm_kpack"),
    "rows": (lambda shape: blocks(shape, (1, shape[1]), 0.2), "gemm_live"),
    "runs along rows": (lambda shape: blocks(shape, (1, 64), 0.05), None),
    "all": (lambda shape: np.ones(shape, bool), "gemm_tma"),
    "single elements": (lambda shape: rng.random(shape) < 0.2, "gemm_tma"),
    "nothing": (lambda shape: np.zeros(shape, bool), "gemm_kpack"),
    "one element": (lambda shape: np.arange(shape[0] * shape[1]).reshape(shape) == 12345, "gemm_kpack"),
    "rows, of nearly all columns": (lambda shape: (rng.random((shape[0], 1)) < 0.3) & (np.arange(shape[1]) != 3), "gemm_live"),
    "the upper half": (lambda shape: np.arange(shape[0])[:, None] * np.ones(shape[1]) < shape[0] / 2, "gemm_live"),
}


def product(mask, m, n, k, options=(), kernel=None, turned=False):
    """turned: B is stored [n][k], as a linear layer's weights are: there are no lists of k's, and that of rows stands alone."""
    if left_to_a_gpu(): return
    there, by = MASKS[mask][0]((m, k)), MASKS[mask][1]
    A = ROUND["bf16"](np.where(there, rng.integers(1, 4, (m, k)) * rng.choice((-1, 1), (m, k)), 0).astype(np.float64))
    B = ROUND["bf16"](rng.integers(-2, 3, (k, n)).astype(np.float64))
    by = kernel or (by.replace("kpack", "tma") if turned and by and mask not in ("nothing", "one element") else by)
    text = TEXT.replace("B: bf16[K,N]", "B: bf16[N,K]").replace("B[k,n]", "B[n,k]") if turned else TEXT
    tiled_case("instead: %s, %d x %d x %d %s%s" % (mask, m, n, k, "B turned " if turned else "", " ".join(options)), text, dict(A=A, B=np.ascontiguousarray(B.T) if turned else B), dict(C=ROUND["bf16"](f64(A) @ f64(B))), rtol=0, options=(IN_ROWS if turned else PROFILE, *options), kernels=[by] if HERE and by and k % 8 == 0 and n % 8 == 0 else [])


for mask in MASKS:
    product(mask, 2048, 264, 1088)
for mask in ("columns", "rows", "runs along rows", "all"):
    product(mask, 2000, 256, 1084) # no boxes: no front, and other kernels stand in
product("rows", 200, 264, 136) # no sample: the lists alone tell
product("all", 200, 264, 136)
for mask in ("all", "rows"):
    product(mask, 2048, 264, 1088, ("--force-guard=sparse",), "gemm_kpack")
    product(mask, 2048, 264, 1088, ("--force-guard=dense",), "gemm_tma")
product("runs along rows", 2048, 264, 1088, ("--reproducible",))
for mask in ("columns", "rows", "single elements", "all", "the upper half"):
    product(mask, 4096, 2056, 72, turned=True)
product("nothing", 4096, 2056, 72, kernel="gemm_live", turned=True)
product("rows", 4072, 2056, 84, turned=True) # no front
