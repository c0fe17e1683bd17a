"""Dense products of fewer tiles than a GPU has multiprocessors: from a third to three quarters as many blocks have one each and the others leave.
Counts on both sides of these bounds, of 132 multiprocessors, in every kind of kernel that takes tiles by turns; rows that end within a tile."""
import numpy as np
from .harness import *

rng = np.random.default_rng(132)
HERE = "sm_90a" in TARGET
TILE = "\nschedule k for sm_90a { tile C m=%d n=%d k=%d; %s}"


def dealt(name, dtype, across, tile, tiles, a="m,k", b="k,n", batch=0, precision=""):
    if left_to_a_gpu(): return
    tile_m, tile_n, tile_k = tile
    m, n, k = tile_m - 8, tile_n * tiles - 8, tile_k + 16
    if across:
        m, n = tile_m * tiles - 8, tile_n - 8
    size = dict(m=m, n=n, k=k)
    letter = "q," if batch else ""
    shape = lambda subs: ((batch,) if batch else ()) + tuple(size[i] for i in subs.split(","))
    A, B = (ROUND[dtype](rng.integers(-4, 5, shape(subs)).astype(np.float64)) for subs in (a, b))
    text = """spx 1; dim M: dyn; dim N: dyn; dim K: dyn;%s
kernel k { in A: %s[%s]; in B: %s[%s]; out C[%sm,n] = sum[k] A[%s]*B[%s] : %s acc f32; }
""" % (" dim Q: dyn;" if batch else "", dtype, (letter + a).upper(), dtype, (letter + b).upper(), letter, letter + a, letter + b, dtype)
    want = np.einsum("%s%s,%s%s->%smn" % (letter[:1], a.replace(",", ""), letter[:1], b.replace(",", ""), letter[:1]), f64(A), f64(B))
    case("dealt: %s, %d tiles %s" % (name, tiles * max(batch, 1), "of m" if across else "of n"), text + (TILE % (*tile, precision) if HERE else ""), dict(A=A, B=B), dict(C=want), rtol=1e-2,
         kernels=["gemm_tma"] if HERE else [])


for tiles in (43, 44, 45, 66, 88, 98, 99, 100, 131):
    for across in (False, True):
        dealt("bf16", "bf16", across, (64, 64, 128), tiles)
dealt("b [n][k]", "bf16", False, (64, 64, 128), 88, b="n,k")
dealt("a [k][m]", "f16", False, (64, 64, 128), 88, a="k,m")
dealt("batches", "bf16", False, (64, 64, 128), 22, batch=4)
dealt("two warpgroups", "bf16", True, (128, 64, 64), 60)
dealt("f32", "f32", False, (128, 64, 32), 60, precision="precision C = tf32; ")
dealt("f32, both turned", "f32", False, (128, 64, 32), 60, a="k,m", b="n,k", precision="precision C = tf32; ")
