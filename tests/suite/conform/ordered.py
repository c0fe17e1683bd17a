"""Rows that are regrouped: what their order leaves of a matrix's blocks, beside the same rule written down here, and what a sample of it decides."""
import json
import numpy as np
from .harness import *

ORDERED = ordered_profile("ordered.profile")
STRIP, WIDE, COLUMNS, SETS = 128, 64, 64, 16 # rows, elements of a block, columns of a key, sets of them at most


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


def ordered(name, there, cover, dense=None, options=()):
    """cover: how much strips may hold, at most; dense: which branch runs, if nobody says so."""
    m, k, n = there.shape[0], there.shape[1] * WIDE, 64
    rng = np.random.default_rng(m)
    A = bf16(np.repeat(there, WIDE, 1) * rng.integers(1, 4, (m, k)).astype(np.float64))
    B = bf16(rng.integers(-2, 3, (k, n)).astype(np.float64))
    text = """spx 1; dim M = %d; dim N = %d; dim K = %d;
kernel k { in A: bf16[M,K] ~ zeros(dynamic, density=0.02, gran=1x64); in B: bf16[K,N]; out C[m,n] = sum[k] A[m,k]*B[k,n] : bf16 acc f32; }
schedule k for sm_90a { regroup C; }
""" % (m, n, k)
    plan, result = path("ordered_%s.json" % name.replace(" ", "_")), path("ordered_%s.npy" % name.replace(" ", "_"))
    _, args = arguments(text, dict(A=A, B=B), None, (ORDERED, *options))
    r = spc("run", *args, "--backend=cuda", "--stats=" + plan, "--out", "C=" + result)
    stages = json.load(open(plan))["stages"] if r.returncode == 0 else []
    ran, covers = ({stage["stage"]: stage[what] for stage in stages} for what in ("ran", "cover"))
    wrong = "exit %d" % r.returncode if r.returncode else differs(np.load(result), bf16(np.asarray(A, np.float64) @ np.asarray(B, np.float64)), 0)
    check("ordered: " + name, not wrong and (covers.get("C", 1) <= cover if dense is None else ran.get("C.dense") == dense), "%s; cover %s of %.3f, %s\n%s" % (wrong, covers.get("C"), cover, ran, r.stderr))


if "cuda" in BACKENDS and "sm_90a" in TARGET:
    rng = np.random.default_rng(66)
    rows, sparse = 1024, ("--force-guard=sparse",)
    independent = lambda share: rng.random((rows, COLUMNS)) < share
    put = lambda name, *args, **options: job("ordered: " + name, lambda: ordered(name, *args, **options))
    put("eight kinds by turns", np.arange(rows)[:, None] % 8 == np.arange(COLUMNS)[None] // 8, 0.125, options=sparse)
    for name, there in (("two of a hundred blocks", independent(0.02)), ("few rows that hold one block", independent(0.001))):
        put(name, there, covered(there, order(there)) + 0.03, options=sparse)
    put("a sample that says lists", independent(0.03), 1, dense=False)
    put("a sample that says dense", independent(0.2), 1, dense=True)
