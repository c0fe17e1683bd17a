"""Products whose result is asked for in single columns of strips of rows: on a GPU these are listed, computed side by side and spread over the
whole result, by a launch or by the epilogue; masks, sizes and alignments that lists have edges at, what elements without a reason hold."""
import numpy as np
from .harness import *

rng = np.random.default_rng(66)
PROFILE = columns_profile("columns.profile")
PLACED = columns_profile("placed.profile", IN_PLACE)
SIZES = ((300, 520, 136), (304, 520, 136), (64, 72, 8), (136, 4104, 24), (257, 130, 72), (504, 77, 40))  # m, n, k: strips and windows that are not whole, rows of no 16 bytes
WIDE = "schedule k for sm_90a { tile C m=128 n=256 k=64; }\n"
LOW = "schedule k for sm_90a { tile C m=64 n=256 k=64; }\n"
KERNELS = ["detect_values", "gemm_nspread"] if "sm_90a" in TARGET else []


def asked(name, gran, mask, m, n, k, dtype="bf16", out=None, kind="b1", value="%s", post=lambda ab: ab, cond="W[m,n]", fill=0.0, more="", arrays=None, options=(), kernels=True, turned=False, bound=" <= 8192", profile=None, density=0.01, schedule=""):
    if left_to_a_gpu(): return
    text = "spx 1; dim M: dyn%s; dim N: dyn%s; dim K: dyn;\nkernel k { in A: %s[M,K]; in B: %s[N,K]; in W: %s[M,N] ~ zeros(dynamic, density=%g, gran=%s); %s\n  out C[m,n] = %s on %s fill %g : %s acc f32; }\n%s" % (
        bound, bound, dtype, dtype, kind, density, gran, more, value % ("(sum[k] B[n,k]*A[m,k])" if turned else "(sum[k] A[m,k]*B[n,k])"), cond, fill, out or dtype, schedule)
    A, B = (ROUND[dtype](rng.integers(-4, 5, shape).astype(np.float64)) for shape in ((m, k), (n, k)))
    W = mask if kind == "b1" else ROUND[kind](np.where(mask, rng.integers(1, 5, mask.shape), 0).astype(np.float64))
    boxes = m % 8 == 0 and n % 8 == 0 and k % 8 == 0
    tiled_case("columns: %s" % name, text, dict(A=A, B=B, W=W, **(arrays or {})), dict(C=np.where(mask, post(f64(A) @ f64(B).T), fill)), rtol=1e-2, options=(profile or (PLACED if gran == "128x1" else PROFILE), *options),
         kernels=KERNELS if kernels and boxes else [])


def placed():
    text = "spx 1; dim M: dyn <= 8192; dim N: dyn <= 8192; dim K: dyn;\nkernel k { in A: bf16[M,K]; in B: bf16[N,K]; in W: b1[M,N] ~ zeros(dynamic, density=0.01, gran=128x1); out C[m,n] = sum[k] A[m,k]*B[n,k] on W[m,n] : bf16 acc f32; }\n"
    for profile, says in ((PLACED, "stored in place"), (PROFILE, "then spread")):
        r = spc("explain", write("placed.spx", text), "--target=sm_90a", profile)
        check("columns: %s" % says, r.returncode == 0 and says in r.stdout.split("\n")[0], r.stdout + r.stderr)


job("columns: which way they go", placed)
# So small ones have narrow tiles; others are asked for.
for gran, profile, schedule, sizes in (("128x1", PLACED, WIDE, SIZES), ("128x1", PLACED, "", SIZES[:1]), ("64x1", PLACED, LOW, SIZES), ("64x1", PROFILE, "", SIZES[:4]), ("128x1", PROFILE, "", SIZES[:1])):
    tall = int(gran.split("x")[0])
    for m, n, k in sizes:
        masks = {"a tenth": block_mask(rng, (m, n), (tall, 1), 0.1, False) > 0, "half": block_mask(rng, (m, n), (tall, 1), 0.5, False) > 0, "elements": rng.random((m, n)) < 0.02}
        if (m, n, k) in SIZES[:2]:
            masks.update({"full": np.ones((m, n), bool), "empty": np.zeros((m, n), bool), "one element": np.zeros((m, n), bool), "last column": np.zeros((m, n), bool), "one strip": block_mask(rng, (m, n), (tall, 1), 0.03, False) > 0})
            masks["one element"][m - 1, n // 2] = masks["last column"][:, n - 1] = True
            masks["one strip"][m // 2 // 64 * 64: m // 2 // 64 * 64 + 64] = True
        for kind, mask in masks.items():
            asked("%s, %d x %d x %d, %s%s%s" % (gran, m, n, k, kind, ", in place" if profile == PLACED else "", ", wide tiles" if schedule else ""), gran, mask, m, n, k, profile=profile, schedule=schedule)
m, n, k = 304, 520, 136
mask, bias, scale = block_mask(rng, (m, n), (64, 1), 0.1, False) > 0, rng.integers(-8, 8, n).astype(np.float32), rng.integers(1, 3, m).astype(np.float32)
for force in ("sparse", "dense"):
    asked("forced %s" % force, "128x1", mask, m, n, k, fill=-1, options=("--force-guard=" + force,))
asked("f16, what is filled", "128x1", mask, m, n, k, "f16", fill=-2.5)
asked("a mask of values", "64x1", mask, m, n, k, kind="bf16", cond="W[m,n] != 0")
asked("a mask of values, which breaks its hint", "128x1", rng.random((m, n)) < 0.02, m, n, k, "f16", kind="f16", cond="W[m,n] != 0", fill=-1)
asked("the factors the other way round", "128x1", mask, m, n, k, turned=True)
asked("a bias, a scale, relu", "64x1", mask, m, n, k, value="relu(s[m]*%s + b[n])", post=lambda ab: np.maximum(scale[:, None] * ab + bias, 0), more="in b: f32[N]; in s: f32[M];", arrays=dict(b=bias, s=scale))
asked("minus half of it", "128x1", mask, m, n, k, value="-0.5*%s", post=lambda ab: -0.5 * ab)
asked("no products", "128x1", mask, m, n, 0, kernels=False)
rest = ROUND["bf16"](rng.integers(-8, 8, (m, n)).astype(np.float64))
asked("a matrix at the place: no list of columns", "128x1", mask, m, n, k, value="%s + r[m,n]", post=lambda ab: ab + f64(rest), more="in r: bf16[M,N];", arrays=dict(r=rest), kernels=False)
asked("results in f32", "128x1", mask, m, n, k, out="f32", kernels=False)
asked("strict NaN", "128x1", mask, m, n, k, options=("--strict-nan",), kernels=False)
asked("batch invariance", "128x1", mask, m, n, k, options=("--batch-invariant",), kernels=False)
asked("reproducible", "128x1", mask, m, n, k, options=("--reproducible",))
asked("sizes that nothing bounds", "128x1", mask, m, n, k, bound="")
m, n, k = 456, 41008, 520
for gran, tall in (("128x1", 128), ("64x1", 64)):
    asked("a factor that the cache does not hold: strips take turns, %s" % gran, gran, block_mask(rng, (m, n), (tall, 1), 0.006, False) > 0, m, n, k, bound=" <= 65536")


def broken_hint():
    """Columns that hold in some rows alone cost half as much again in place: so many of them are dense, as many whole ones are not (the break-even is a cover of 1, of the large one 0.75)."""
    small, large = (256, 512, 72), (1024, 4096, 72) # of the large one a sample of 512 columns is taken: it tells before a list is made
    text = "spx 1; dim M = %d; dim N = %d; dim K = %d;\nkernel k { in A: bf16[M,K]; in B: bf16[N,K]; in W: b1[M,N] ~ zeros(dynamic, density=0.01, gran=128x1); out C[m,n] = sum[k] A[m,k]*B[n,k] on W[m,n] : bf16 acc f32; }\n"
    for (m, n, k), eighths in ((small, 6), (large, 5)):
        A, B = (bf16(rng.integers(-4, 5, shape).astype(np.float64)) for shape in ((m, k), (n, k)))
        whole = np.repeat(rng.permutation(n) < n * eighths // 8 - 3, m).reshape(n, m).T # no 512ths
        for name, mask, dense in (("whole columns", whole, False), ("columns of every other row", whole & (np.arange(m)[:, None] % 2 == 0), True)):
            plan = path("broken_%d_%d.json" % (dense, m))
            _, args = arguments(text % (m, n, k), dict(A=A, B=B, W=mask), None, (PLACED,))
            r = spc("run", *args, "--backend=cuda", "--stats=" + plan)
            stages = json.load(open(plan))["stages"] if r.returncode == 0 else []
            ran, cover = ({stage["stage"]: stage[what] for stage in stages} for what in ("ran", "cover"))
            told = (m, n, k) == small or (cover.get("C", 0) * 512).is_integer() == dense # of the sample, or of the counts
            check("columns: %d eighths of %s, %d x %d" % (eighths, name, m, n), ran.get("C.dense") == dense and ran.get("C") == (not dense) and told, "%s %s\n%s" % (ran, cover, r.stderr))


if "cuda" in BACKENDS and "sm_90a" in TARGET: job("columns: a mask that breaks its hint", broken_hint)
