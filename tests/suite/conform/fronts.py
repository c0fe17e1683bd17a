"""Dense branches in front of their lists: values of which a sample says dense, others of which it does not and the lists do, and such that are sparse; also where
the front cannot run, because rows are no multiples of 16 bytes. On an emulated device with a few multiprocessors some of them."""
import os
import numpy as np
from .harness import *

rng = np.random.default_rng(93)
FRONT = "rate wgmma = 1\nrate tma_128x256 = %d\nfront_us = 0.01\nexchange_us = 1000\nregroup_us = 0.01\n" # a dense kernel that can stand in front, slower than lists
IN_COLUMNS = columns_profile("fronts.columns", FRONT % 150)
ROW_BY_ROW = "--profile=" + slow_profile("fronts.rows", "(?:tma|[kr]block|w?g?mma)_", FRONT % 150)
WHOLE_ROWS = "--profile=" + slow_profile("fronts.whole", "(?:tma|[kr]block|w?g?mma)_", FRONT % 150 + "regroup_us = 1000\n")
REGROUPED = "--profile=" + slow_profile("fronts.regrouped", "(?:tma|kblock|w?g?mma)_", FRONT % 60)
HERE = "sm_90a" in TARGET
MASKS = {
    "all": lambda shape, blocks: np.ones(shape, bool),
    "nothing": lambda shape, blocks: np.zeros(shape, bool),
    "a tenth": lambda shape, blocks: block_mask(rng, shape, blocks, 0.1, False) > 0,
    "nearly all": lambda shape, blocks: rng.random(shape) < 0.97,
    "more than pays": lambda shape, blocks: block_mask(rng, shape, blocks, 0.88, False) > 0,
    "all but for what no sample sees": lambda shape, blocks: np.arange(shape[0] * shape[1]).reshape(shape) != 77,
}

if "SPC_EMULATED_UNITS" in os.environ:
    MASKS = {name: MASKS[name] for name in ("all", "a tenth", "more than pays")}


def ints(shape):
    return ROUND["bf16"](rng.integers(-4, 5, shape).astype(np.float64))


ASKED = """spx 1; dim M: dyn <= 8192; dim N: dyn <= 8192; dim K: dyn;
kernel k { in A: bf16[M,K]; in B: bf16[N,K]; in W: b1[M,N] ~ zeros(dynamic, density=0.01, gran=%s); out C[m,n] = sum[k] A[m,k]*B[n,k] on W[m,n] fill 2 : bf16 acc f32; }"""


def asked(gran, mask, m, n, k, options=()):
    if left_to_a_gpu(): return
    A, B, W = ints((m, k)), ints((n, k)), MASKS[mask]((m, n), tuple(map(int, gran.split("x"))))
    tiled_case("fronts: a result asked for, %s, %s, %d x %d x %d %s" % (gran, mask, m, n, k, " ".join(options)), ASKED % gran, dict(A=A, B=B, W=W), dict(C=np.where(W, f64(A) @ f64(B).T, 2)), rtol=1e-2,
         options=(IN_COLUMNS, *options), kernels=["gemm_nspread"] if HERE and "dense" not in "".join(options) and n % 16 == 0 and mask in ("nothing", "a tenth") else [])


def of_rows(gran, mask, m, n, k, kernel, options=()):
    if left_to_a_gpu(): return
    text = """spx 1; dim M: dyn <= 8192; dim N: dyn <= 8192; dim K: dyn <= 8192;
kernel k { in A: bf16[M,K] ~ zeros(dynamic, density=0.05, gran=%s); in B: bf16[K,N]; out C[m,n] = sum[k] A[m,k]*B[k,n] : bf16 acc f32; } %s""" % (gran.replace("8192", str(k)), "" if kernel == "gemm_k" else "schedule k for sm_90a { regroup C; }")
    there = MASKS[mask]((m, k), tuple(map(int, gran.replace("8192", str(k)).split("x"))))
    A, B = np.where(there, 1 + np.abs(ints((m, k))), 0).astype(np.float32), ints((k, n))
    A = ROUND["bf16"](A.astype(np.float64))
    tiled_case("fronts: rows, %s, %s, %d x %d x %d %s" % (gran, mask, m, n, k, " ".join(options)), text, dict(A=A, B=B), dict(C=f64(A) @ f64(B)), rtol=2e-2, options=({"1x64": REGROUPED, "1x8192": WHOLE_ROWS}.get(gran, ROW_BY_ROW), *options), kernels=[kernel] if HERE and k % 8 == 0 and "dense" not in "".join(options) else [])


for gran in ("128x1", "64x1"):
    for mask in MASKS:
        asked(gran, mask, 1024, 2048, 40)
    asked(gran, "all", 1016, 2080, 72)
    asked(gran, "all", 1024, 2047, 40) # no front: its boxes do not fit
    for force in ("sparse", "dense"):
        for mask in ("all", "a tenth"):
            asked(gran, mask, 1024, 2048, 40, ("--force-guard=" + force,))
for gran, kernel, m, n, k in (("128x1", "gemm_k", 1024, 264, 1088), ("1x8192", "gemm_live", 4096, 2056, 72), ("1x64", "gemm_rblock", 1024, 264, 1088)):
    for mask in MASKS:
        of_rows(gran, mask, m, n, k, kernel)
    of_rows(gran, "all", m - 24, n, k + 12, kernel) # no front
    for force in ("sparse", "dense"):
        of_rows(gran, "all", m, n, k, kernel, ("--force-guard=" + force,))


def wrong_behind(program, m, n, k):
    """A folder of the kernels behind the front, made wrong."""
    edited = path("behind")
    os.mkdir(edited)
    spc("compile", program, IN_COLUMNS, "-DM=%d" % m, "-DN=%d" % n, "-DK=%d" % k, "--target=sm_90a", "--emit=cuda", "-o", edited)
    for name in os.listdir(edited):
        file = os.path.join(edited, name)
        if name in ("k.C-0.cuda", "k.C.dense.cuda"):
            with open(file) as emitted:
                text = emitted.read()
            with open(file, "w") as wrong:
                wrong.write(text.replace("? acc :", "? 777.0f :").replace("return acc;", "return 777.0f;"))
        else:
            os.remove(file)
    check("fronts: both branches behind the front are there to be edited", sorted(os.listdir(edited)) == ["k.C-0.cuda", "k.C.dense.cuda"], str(os.listdir(edited)))
    return edited


def who_computes():
    """What is right is the front's then, and what is not is theirs."""
    m, n, k = 1024, 2048, 40
    A, B = ints((m, k)), ints((n, k))
    edited = wrong_behind(write("behind.spx", ASKED % "128x1"), m, n, k)
    for mask in ("all", "a tenth"):
        W = MASKS[mask]((m, n), (128, 1))
        number, args = arguments(ASKED % "128x1", dict(A=A, B=B, W=W), None, [IN_COLUMNS, "--backend=cuda"])
        result = path("behind%s.npy" % number)
        r = spc("run", *args, "--override-dir=" + edited, "--out=C=" + result)
        right = r.returncode == 0 and np.array_equal(np.load(result).astype(np.float64), f64(ROUND["bf16"](np.where(W, f64(A) @ f64(B).T, 2))))
        check("fronts: %s is computed by %s" % (mask, "the front" if mask == "all" else "who comes behind it"), r.returncode == 0 and right == (mask == "all"), r.stderr)


if HERE:
    job("who computes", who_computes)
