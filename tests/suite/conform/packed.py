"""What a list names of rows that lie along its axis, brought side by side by the launch that finds it: a block has a segment of 512 columns of a strip's rows,
384 of them in shared memory. Segments that are whole, cut, several; strips that are cut, empty, full; strips of 64 in pairs, of which the second may lack;
rows that start anywhere; negative zeros; a guard that decides by counts."""
import itertools, os
import numpy as np
from .harness import *

rng = np.random.default_rng(71)
HERE = "sm_90a" in TARGET
OTHERS = "tma|kgather_tma|kblock_tma|rblock_tma|w?g?mma"
LISTS = {128: "--profile=" + slow_profile("packed.profile", "(?:%s)_" % OTHERS), 64: "--profile=" + slow_profile("pairs.profile", "(?:%s|kpack_tma)_" % OTHERS)}
KERNEL = {128: "gemm_kpack_tma", 64: "gemm_kpackpair_tma"}
numbers = itertools.count()


def is_left_out():
    """On an emulated device of few multiprocessors every other one."""
    return left_to_a_gpu() or ("SPC_EMULATED_UNITS" in os.environ and next(numbers) % 2 > 0)


def strips_of(m, k, kind, strip=128):
    """Which elements are there, by rows."""
    strips = -(-m // strip)
    columns = np.zeros((strips, k), bool)
    if kind == "a tenth": columns = rng.random((strips, k)) < 0.1
    if kind == "half": columns = rng.random((strips, k)) < 0.5
    if kind == "full": columns |= True
    if kind == "at the ends": columns[:, [0, k // 2, k - 1]] = True
    if kind == "where segments meet": columns[:, [c for c in (383, 384, 511, 512, 895, 896, 4095, 4096, 8191, 8192) if c < k]] = True
    if kind == "in turns": columns[np.arange(strips)[:, None] % 2 == np.arange(k) % 2] = True # of a pair each column is one strip's
    if kind == "alike": columns |= rng.random(k) < 0.3
    if kind == "the second's": columns[1::2] = rng.random((strips // 2, k)) < 0.2
    if kind == "the first's": columns[::2] = rng.random(((strips + 1) // 2, k)) < 0.2
    if kind == "one element": columns[strips // 2, k // 3] = True
    if kind == "uneven": columns = rng.random((strips, k)) < 0.4 * np.arange(strips)[:, None] / max(strips - 1, 1)
    rows = np.repeat(columns, strip, 0)[:m]
    if kind == "one row of each": # no other row has it
        holder = rng.integers(0, strip, (strips, k))
        rows = (rng.random((m, k)) < 0.2) & (np.arange(m)[:, None] % strip == np.repeat(holder, strip, 0)[:m])
    return rows


def product(m, n, k, kind, dtype="bf16", guard="sparse", negative=False, options=(), strip=128):
    if is_left_out(): return
    text = """spx 1; dim M: dyn <= 8192; dim N: dyn <= 8192; dim K: dyn <= %d;
kernel k { in h: %s[M,K] ~ zeros(dynamic, density=0.05, gran=%dx1); in W: %s[K,N]; out y[m,n] = sum[k] h[m,k]*W[k,n] : %s acc f32; }
schedule k for sm_90a { tile y m=128 n=256 k=64; }
""" % (65536 if strip == 128 else 16384, dtype, strip, dtype, dtype)
    there = strips_of(m, k, kind, strip)
    h = ROUND[dtype](np.where(there, rng.integers(1, 4, (m, k)) * rng.choice((-1, 1), (m, k)), -0.0 if negative else 0.0))
    W = ROUND[dtype](rng.integers(-2, 3, (k, n)).astype(np.float64))
    forced = ("--force-guard=" + guard,) if guard else ()
    tiled_case("packed: %d x %d x %d, %dx1, %s, %s%s %s %s" % (m, n, k, strip, kind, dtype, ", negative zeros" if negative else "", guard, " ".join(options)), text, dict(h=h, W=W), dict(y=f64(h) @ f64(W)),
               rtol=1e-2, options=(LISTS[strip], *forced, *options), kernels=[KERNEL[strip]] if HERE and k % 8 == 0 and k > (8 if strip == 128 else 72) and m > (16 if strip == 128 else 64) else [])


KINDS = ("a tenth", "half", "full", "at the ends", "where segments meet", "one element", "uneven", "one row of each", "nothing")
for kind in KINDS:
    product(300, 264, 4096, kind)
    product(130, 72, 8840, kind)
for k in (8, 72, 1016, 3064, 3072, 3080, 4088, 4104, 8192):
    product(200, 136, k, "half", "f16")
for k in (1030, 4098, 8194): # rows that start at no multiple of 16 bytes
    product(200, 136, k, "a tenth")
for k in (333, 4097): # nor of 4: another kernel takes what is listed as it lies
    product(150, 72, k, "a tenth")
for m in (1, 16, 113, 128, 129, 1000):
    product(m, 136, 520, "a tenth")
product(260, 136, 4104, "a tenth", negative=True)
product(260, 136, 4104, "uneven", options=("--reproducible",))
for guard in ("dense", None):
    for kind in ("a tenth", "full", "uneven", "nothing"):
        product(520, 136, 1032, kind, guard=guard)

# Strips of 64 in pairs: entries of the first alone, of both, of the second alone.
for kind in KINDS + ("in turns", "alike", "the first's", "the second's"):
    product(300, 264, 4096, kind, strip=64)
    product(130, 72, 8840, kind, strip=64)
for k in (8, 72, 504, 512, 520, 1016, 4088, 16384):
    product(200, 136, k, "half", "f16", strip=64)
for k in (1030, 4098, 333):
    product(200, 136, k, "a tenth", strip=64)
for m in (17, 63, 64, 65, 128, 129, 193, 1000):
    product(m, 136, 520, "a tenth", strip=64)
product(260, 136, 4104, "a tenth", negative=True, strip=64)
for guard in ("dense", None):
    for kind in ("a tenth", "full", "uneven", "nothing"):
        product(520, 136, 1032, kind, guard=guard, strip=64)


# Sizes that are known: rows of no multiple of 16 bytes are copied to such, with zeros behind them, and that copy is listed, turned round where that is
# better; behind the ends of rows that were rounded up lies what nobody has written.
def padded(m, k, gran, stored="", made=""):
    if is_left_out(): return
    n = 264
    text = """spx 1; dim M = %d; dim N = %d; dim K = %d;
kernel k { in h: bf16[M,K]%s%s; in W: bf16[K,N]; %s out y[m,n] = sum[k] %s[m,k]*W[k,n] : bf16 acc f32; }
""" % (m, n, k, stored, "" if made else " ~ zeros(dynamic, density=0.05, gran=%s)" % gran, made and made % gran, "g" if made else "h")
    h = ROUND["bf16"](np.where(strips_of(m, k, "a tenth"), rng.integers(1, 4, (m, k)), 0).astype(np.float64))
    W = ROUND["bf16"](rng.integers(-2, 3, (k, n)).astype(np.float64))
    tiled_case("packed: %d x %d x %d that are known, %s%s%s" % (m, n, k, gran, stored, ", of a let" if made else ""), text, dict(h=h, W=W), dict(y=f64(h) @ f64(W)), rtol=1e-2,
               options=(LISTS[128], "--force-guard=sparse"))


for gran in ("128x1", "64x1", "128x2", "64x64", "1x1"):
    padded(260, 1030, gran)
for m, k, stored in ((264, 1027, ""), (256, 1028, ""), (260, 1032, " as dense_t"), (260, 1030, " as dense_t"), (136, 1028, "")):
    padded(m, k, "64x1", stored)
for m, k in ((260, 1032), (100, 1030), (200, 2048)):
    padded(m, k, "64x1", made="let g[m,k] = -h[m,k]*-1.0 : bf16 ~ zeros(dynamic, density=0.05, gran=%s);")
