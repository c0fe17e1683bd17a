"""Rows that are regrouped: products whatever rows hold, what an order leaves of a matrix's blocks, beside the same rule written down here, and what a sample
of it decides.  An emulated device with SPC_EMULATED_UNITS=4 has blocks of many tiles and, of few, some that have none and fill."""
import json
import numpy as np
from .harness import *

# Rows are regrouped at any size.
ORDERED = "--profile=" + slow_profile("ordered.profile", "(?:tma|kblock|w?g?mma)_", "regroup_us = 0.01\nrate rblock_tma_128x128 = 1\n")
TEXT = """spx 1; %s
kernel k { in A: %s[M,K] ~ zeros(dynamic, density=0.02, gran=1x64); in B: %s[K,N]; %s
  out C[m,n] = (sum[k] A[m,k]*B[k,n])%s : %s acc f32; }
schedule k for sm_90a { regroup C; }
"""
STRIP, WIDE, COLUMNS, SETS = 128, 64, 64, 16 # rows, elements of a block, columns of a key, sets of them at most
rng = np.random.default_rng(66)


def result(size, rows, blocks, dtype="bf16", out=None, more="", options=()):
    """C = A B, A of so many rows that hold values, in some of the blocks of 64: these lie side by side, in a few strips or in many, and the lists of the others are empty."""
    if left_to_a_gpu(): return
    m, n, k = size
    there = np.zeros((m, -(-k // WIDE)), bool)
    live = rng.permutation(m)[:rows]
    there[live] = rng.random((len(live), there.shape[1])) < blocks
    mask = np.repeat(there, WIDE, 1)[:, :k] & (rng.random((m, k)) < 0.9)
    A = ROUND[dtype](np.where(mask, rng.integers(1, 4, (m, k)) * rng.choice((-1, 1), (m, k)), 0).astype(np.float64))
    B, r = ROUND[dtype](rng.integers(-2, 3, (k, n)).astype(np.float64)), ROUND[dtype](rng.integers(-9, 10, (m, n)).astype(np.float64))
    text = TEXT % ("dim M: dyn <= 4096; dim N: dyn <= 8192; dim K: dyn <= 8192;", dtype, dtype, "in r: %s[M,N];" % dtype if more else "", more, out or dtype)
    tiled_case("ordered: %d of %d rows, %g of their blocks, x %d x %d, %s%s %s" % (rows, m, blocks, n, k, out or dtype, more, " ".join(options)), text, dict(A=A, B=B, **({"r": r} if more else {})),
               dict(C=ROUND[out or dtype](f64(A) @ f64(B) + (f64(r) if more else 0))), rtol=0, options=(ORDERED, "--force-guard=sparse", *options),
               kernels=["gemm_rblock_tma_128x256"] if "sm_90a" in TARGET and n % 8 == 0 and k % 8 == 0 else [])


def order(there):
    """Row i holds block j: the rows in their order. How often a column is held is counted over all rows here, where a device counts some."""
    rows, columns = there.shape
    held = there.sum(0)
    weight = -np.log(1 - np.minimum((held + 0.25) / (rows + 0.5), 0.999))
    rare = np.lexsort((np.arange(columns), weight))
    full = min(0.45, weight.sum() / 6)
    sets = min(int(weight.sum() / full) + 1, SETS)
    of = np.minimum(((np.cumsum(weight[rare]) - weight[rare] / 2) / full).astype(int), sets)
    kept = COLUMNS - 13 - sets # columns that have a bit each
    bits = [there[:, rare[of == s]].any(1) for s in range(sets)] + [there[:, c] for c in rare[:kept]] + [there[:, rare[kept:]].any(1)]
    bits[:32] = np.logical_xor.accumulate(bits[:32])
    return np.lexsort([np.arange(rows)] + [~bit for bit in reversed(bits)])


def covered(there, rows):
    return there[rows].reshape(-1, STRIP, there.shape[1]).any(1).mean()


def left(name, there, cover, dense=None, options=()):
    """cover: how much strips may hold, at most; dense: which branch runs, if nobody says so."""
    m, k, n = there.shape[0], there.shape[1] * WIDE, 64
    rng = np.random.default_rng(m)
    A = bf16(np.repeat(there, WIDE, 1) * rng.integers(1, 4, (m, k)).astype(np.float64))
    B = bf16(rng.integers(-2, 3, (k, n)).astype(np.float64))
    text = TEXT % ("dim M = %d; dim N = %d; dim K = %d;" % (m, n, k), "bf16", "bf16", "", "", "bf16")
    plan, made = path("ordered_%s.json" % name.replace(" ", "_")), path("ordered_%s.npy" % name.replace(" ", "_"))
    _, args = arguments(text, dict(A=A, B=B), None, (ORDERED, *options))
    r = spc("run", *args, "--backend=cuda", "--stats=" + plan, "--out", "C=" + made)
    stages = json.load(open(plan))["stages"] if r.returncode == 0 else []
    ran, covers = ({stage["stage"]: stage[what] for stage in stages} for what in ("ran", "cover"))
    wrong = "exit %d" % r.returncode if r.returncode else differs(np.load(made), bf16(f64(A) @ f64(B)), 0)
    check("ordered: " + name, not wrong and (covers.get("C", 1) <= cover if dense is None else ran.get("C.dense") == dense), "%s; cover %s of %.3f, %s\n%s" % (wrong, covers.get("C"), cover, ran, r.stderr))


for rows, blocks in ((60, 0.9), (0, 0), (600, 0.3)):
    result((600, 264, 1032), rows, blocks)
result((600, 264, 1032), 100, 0.9, "f16", more=" + r[m,n]", options=("--reproducible",))

if "cuda" in BACKENDS and "sm_90a" in TARGET:
    rows, sparse = 1024, ("--force-guard=sparse",)
    independent = lambda share: rng.random((rows, COLUMNS)) < share
    put = lambda name, *args, **options: job("ordered: " + name, lambda: left(name, *args, **options))
    put("eight kinds by turns", np.arange(rows)[:, None] % 8 == np.arange(COLUMNS)[None] // 8, 0.125, options=sparse)
    for name, there in (("two of a hundred blocks", independent(0.02)), ("few rows that hold one block", independent(0.001))):
        put(name, there, covered(there, order(there)) + 0.03, options=sparse)
    put("a sample that says lists", independent(0.03), 1, dense=False)
    put("a sample that says dense", independent(0.2), 1, dense=True)
