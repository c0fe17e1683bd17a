"""Rows by blocks of k: each block of 64 k's is multiplied with the rows that hold anything in it, and what that adds to a row's sums stays on chip.
An emulated device with SPC_EMULATED_UNITS=4 has blocks of several tiles."""
import json
import numpy as np
from .harness import *

WIDE = 64 # elements of a block
TILES = {1024: 32, 512: 64} # rows and columns
TEXT = """spx 1; %s
kernel k { %s out C[m,n] = %s : %s acc f32%s; }
schedule k for sm_90a { tile C %s; }
"""
rng = np.random.default_rng(77)


def values(there, dtype):
    """Small integers, so that each sum has one right value; of a block that holds anything one element at least."""
    rows, columns = there.shape
    held = np.repeat(there, WIDE, 1) & ((rng.random((rows, columns * WIDE)) < 0.5) | (np.arange(columns * WIDE) % WIDE == 5))
    return ROUND[dtype](np.where(held, rng.integers(1, 4, held.shape) * rng.choice((-1, 1), held.shape), np.where(rng.random(held.shape) < 0.5, -0.0, 0.0)).astype(np.float64))


def product(name, there, n, k, tile=1024, dtype="bf16", out=None, more="", b="", fixed=False, turned=False, options=()):
    """C = A B of a matrix that holds something in these blocks; turned: of B's columns instead, C^T = B^T A^T."""
    if left_to_a_gpu(): return
    m = there.shape[0]
    A = np.ascontiguousarray(values(there, dtype)[:, :k])
    B, r = ROUND[dtype](rng.integers(-2, 3, (k, n)).astype(np.float64)), ROUND[dtype](rng.integers(-9, 10, (m, n)).astype(np.float64))
    bias, scale = (rng.integers(-3, 4, size).astype(np.float32) for size in (n, m))
    want = f64(A) @ f64(B)
    extra = {"residual": ("in r: %s[M,N];" % dtype, "(%s) + r[m,n]", dict(r=r), want + f64(r)), "vectors": ("in b: f32[N]; in w: f32[M];", "relu((%s) * w[m] + b[n])", dict(b=bias, w=scale), np.maximum(want * f64(scale)[:, None] + f64(bias), 0))}
    ins, value, bound, want = extra.get(more, ("", "%s", {}, want))
    hint = "~ zeros(dynamic, density=0.05, gran=%s)"
    dims = "dim M = %d; dim N = %d; dim K = %d;" % (m, n, k) if fixed else "dim M: dyn <= 4096; dim N: dyn <= 8192; dim K: dyn <= 8192;"
    if turned:
        ins, value, bound, want = "", "sum[k] B[n,k]*A[k,m]", {}, want.T
        factors, bound = "in B: %s[N,K]; in A: %s[K,M] as dense_t %s;" % (dtype, dtype, hint % "64x1"), dict(A=np.ascontiguousarray(A.T), B=np.ascontiguousarray(B.T))
        text = TEXT.replace("C[m,n]", "C[n,m]") % (dims, factors, value, out or dtype, " as dense_t", "m=%d n=%d k=64" % (tile, TILES[tile]))
    else:
        factors, bound = "in A: %s[M,K] %s; in B: %s[K,N]%s; %s" % (dtype, hint % "1x64", dtype, b, ins), dict(A=A, B=B, **bound)
        text = TEXT % (dims, factors, value % "sum[k] A[m,k]*B[k,n]", out or dtype, "", "m=%d n=%d k=64" % (tile, TILES[tile]))
    fits = "sm_90a" in TARGET and n % 8 == 0 and k % 8 == 0 and m % (8 if turned else 1) == 0
    tiled_case("rows by blocks: %s, %d x %d x %d, %s to %s%s%s" % (name, m, n, k, dtype, out or dtype, b, more and " " + more), text, bound, dict(C=ROUND[out or dtype](want)), rtol=0,
               options=("--force-guard=sparse", *options), kernels=["gemm_krows_tma_%dx%d" % (tile, TILES[tile])] if fits else [])


def blocks(rows, columns, share): return rng.random((rows, columns)) < share


for tile in TILES:
    product("independent", blocks(1100, 5, 0.1), 104, 320, tile)
    product("more than a step's rows", blocks(700, 3, 0.4), 72, 136, tile, out="f32", b=" as dense_t")
product("nothing", blocks(600, 4, 0), 40, 256, more="vectors")
product("all of it", blocks(300, 2, 2), 64, 128, 512, "f16", more="residual")
product("one row", np.arange(1030)[:, None] * np.ones(7)[None] == 1029, 33 * 8, 7 * 64, more="vectors", out="f16", fixed=True, options=("--reproducible",))
product("one block", np.arange(3)[None] * np.ones(90)[:, None] == 1, 24, 190, 512, more="vectors")
product("of B's columns", blocks(520, 4, 0.2), 56, 256, turned=True)
product("rows that are not aligned", blocks(70, 3, 0.2), 19, 131, 512)
