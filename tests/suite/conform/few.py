"""Layers of few tokens whose products look at zeros themselves: columns that are asked for, brought by bulk copies or by loads, and the rows of the
second product that bits name; sizes that windows, slots and lists have edges at, guards forced either way and by data. On an emulated device with a few
multiprocessors a block takes several strips."""
import numpy as np
from .harness import *

rng = np.random.default_rng(108)
HERE = "sm_90a" in TARGET
GATED = """spx 1; dim T = %d; dim D = %d; dim F = %d; dim E: dyn <= 64;
kernel k { in z: %s[T,E]; in V: %s[F,E]; in x: %s[T,D]; in Wu: %s[F,D]; in Wd: %s[F,D];
  let g[t,f] = relu(sum[e] z[t,e]*V[f,e]) ~ zeros(dynamic, density=0.005);
  let u[t,f] = sum[d] x[t,d]*Wu[f,d] on g[t,f];
  out y[t,o] = sum[f] g[t,f]*u[t,f]*Wd[f,o]; }
"""
FORESEEN = """spx 1; dim T = %d; dim D = %d; dim F = %d;
kernel k { in W: %s[T,F] ~ zeros(dynamic, density=0.005); in x: bf16[T,D]; in Wu: bf16[F,D]; in Wd: bf16[F,D];
  let u[t,f] = relu(sum[d] x[t,d]*Wu[f,d]) on %s;
  out y[t,o] = sum[f] u[t,f]*Wd[f,o]; }
"""
ASKED = """spx 1; dim T = %d; dim D = %d; dim F = %d; dim E: dyn <= 64;
kernel k { in z: bf16[T,E]; in V: bf16[F,E]; in x: bf16[T,D]; in Wu: bf16[F,D];
  let g[t,f] = relu(sum[e] z[t,e]*V[f,e]) ~ zeros(dynamic, density=0.005);
  out u[t,f] = sum[d] x[t,d]*Wu[f,d] on g[t,f]; }
schedule k for sm_90a { %s }
"""
RELU = """spx 1; dim T = %d; dim D = %d; dim F = %d; dim E: dyn <= 64;
kernel k { in z: bf16[T,E]; in V: bf16[F,E]; in Wd: bf16[F,D];
  let g[t,f] = relu(sum[e] z[t,e]*V[f,e]) ~ zeros(dynamic, density=0.005);
  out y[t,o] = sum[f] g[t,f]*Wd[f,o]; }
schedule k for sm_90a { %s tile y t=8 o=%d f=256; }
"""
GIVEN = """spx 1; dim T = %d; dim K = %d; dim N = %d;
kernel k { in x: %s[T,K] ~ zeros(dynamic, density=0.005, gran=8x1); in W: %s[K,N]; out y[t,n] = sum[k] x[t,k]*W[k,n]; }
schedule k for sm_90a { tile y t=8 n=%d k=256; }
"""
BULK, LOADS = ["gemm_nskip_8x32x1024", "gemm_kskip_8x"], ["gemm_nskip_8x", "gemm_kskip_8x"]


def held(m, n, kind):
    return {"a few": lambda: rng.random((m, n)) < 0.02, "a tenth": lambda: rng.random((m, n)) < 0.1, "full": lambda: np.ones((m, n), bool), "empty": lambda: np.zeros((m, n), bool),
            "the last": lambda: (np.arange(m)[:, None] == m - 1) & (np.arange(n) >= n - 3), "one strip": lambda: (np.arange(m)[:, None] // 8 == 1) & (rng.random((m, n)) < 0.3)}[kind]()


def small(shape, dtype="bf16"):
    return ROUND[dtype](rng.integers(-1, 2, shape).astype(np.float64))


# What reads all that is left takes long: a dense kernel stands behind it whatever the sizes.
DEAR = "--profile=" + write("few.profile", "looking_full = 20\nasking_full = 20\n")


def gated(m, d, f, kind, force="", kernels=BULK, dtype="bf16", schedule="", e=0, options=()):
    if left_to_a_gpu(): return
    g = np.where(held(m, f, kind), rng.integers(1, 3, (m, f)), 0).astype(np.float64)
    e = e or (m + 7) // 8 * 8
    x, Wu, Wd = small((m, d), dtype), small((f, d), dtype), small((f, d), dtype)
    u = ROUND[dtype](f64(x) @ f64(Wu).T)
    tiled_case("few: %d tokens, %d x %d, %s, %s%s" % (m, d, f, kind, force or "by data", ", " + schedule if schedule else ""), GATED % ((m, d, f) + (dtype,) * 5) + ("schedule k for sm_90a { %s }\n" % schedule if schedule else ""),
               dict(z=ROUND[dtype](np.eye(m, e)), V=ROUND[dtype](np.pad(g.T, ((0, 0), (0, e - m)))), x=x, Wu=Wu, Wd=Wd), dict(y=f64(ROUND[dtype](g * f64(u))) @ f64(Wd)), rtol=1e-2,
               options=("--library=off", *options) + (("--force-guard=" + force,) if force else ()), kernels=kernels if HERE else [])


def foreseen(m, d, f, kind, dtype, cond, force="sparse", kernels=BULK, options=(), schedule="", ran=()):
    if left_to_a_gpu(): return
    W, x, Wu, Wd = held(m, f, kind), small((m, d)), small((f, d)), small((f, d))
    u = f64(bf16(np.where(W, np.maximum(f64(x) @ f64(Wu).T, 0), 0)))
    tiled_case("few: %d tokens, %d x %d, foreseen by %s, %s" % (m, d, f, dtype, kind), FORESEEN % (m, d, f, dtype, cond) + ("schedule k for sm_90a { %s }\n" % schedule if schedule else ""), dict(W=W if dtype == "b1" else W.astype(np.float32) * 3, x=x, Wu=Wu, Wd=Wd),
               dict(y=u @ f64(Wd)), rtol=1e-2, options=("--library=off", *options) + (("--force-guard=" + force,) if force else ()), kernels=kernels if HERE else [], ran=ran if HERE else [])


def asked(m, d, f, kind, schedule, force="sparse"): # the caller reads the zeros too
    if left_to_a_gpu(): return
    g = held(m, f, kind)
    e = (m + 7) // 8 * 8
    x, Wu = small((m, d)), small((f, d))
    tiled_case("few: %d tokens, %d x %d, %s, %s, columns alone" % (m, d, f, kind, schedule), ASKED % (m, d, f, schedule),
               dict(z=bf16(np.eye(m, e)), V=bf16(np.pad(g.T.astype(np.float64), ((0, 0), (0, e - m)))), x=x, Wu=Wu), dict(u=np.where(g, f64(x) @ f64(Wu).T, 0)), rtol=1e-2,
               options=("--library=off", "--force-guard=" + force), kernels=["gemm_nskip_8x"] if HERE else [])


def given(m, k, n, kind, by, force="", dtype="bf16", wide=64, options=()): # the values that are looked at tell which branch is meant
    if left_to_a_gpu(): return
    x = ROUND[dtype](np.where(held(m, k, kind), rng.integers(1, 3, (m, k)) * rng.choice((-1, 1), (m, k)), 0).astype(np.float64))
    W = small((k, n), dtype)
    tiled_case("few: %d rows that are given, %d x %d, %s, %s %s" % (m, k, n, kind, force or "by data", " ".join(options)), GIVEN % (m, k, n, dtype, dtype, wide), dict(x=x, W=W), dict(y=f64(x) @ f64(W)), rtol=1e-2,
               options=("--library=off", *options) + (("--force-guard=" + force,) if force else ()), ran=[by] if HERE else [])


def relu(m, d, f, kind, by, gate, wide=64, force="", e=0):
    if left_to_a_gpu(): return
    g = np.where(held(m, f, kind), rng.integers(1, 3, (m, f)), 0).astype(np.float64)
    e = e or (m + 7) // 8 * 8
    Wd = small((f, d))
    tiled_case("few: %d tokens of a relu layer, %d x %d, %s, %s %s" % (m, d, f, kind, gate, force or "by data"), RELU % (m, d, f, gate, wide), dict(z=bf16(np.eye(m, e)), V=bf16(np.pad(g.T, ((0, 0), (0, e - m)))), Wd=Wd),
               dict(y=g @ f64(Wd)), rtol=1e-2, options=("--library=off",) + (("--force-guard=" + force,) if force else ()), ran=[by] if HERE else [])


WIDE = "tile y t=8 o=320 f=256;"
for m, wide in ((64, 64), (61, 320), (8, 64), (3, 128)):
    for kind, by in (("a few", "gemm_kskip_8x"), ("full", "gemm_tma"), ("empty", "gemm_kskip_8x"), ("the last", "gemm_kskip_8x")):
        given(m, 1032, 520, kind, by, wide=wide)
given(64, 9000, 264, "a few", "gemm_kskip_8x", "sparse")
given(13, 9000, 264, "full", "gemm_kskip_8x", "sparse")                       # more k's than warps have room for
given(13, 9000, 264, "a few", "gemm_tma", "dense", dtype="f16")
given(40, 1003, 264, "a few", "gemm_kskip_8x")                               # rows of no whole 16 bytes
given(40, 1003, 267, "full", "gemm_tma")
given(9, 24, 64, "full", "gemm_kskip_8x", "sparse")                          # fewer runs than threads look at
given(9, 24, 64, "the last", "gemm_kskip_8x", "sparse")
given(16, 1032, 520, "a few", "gemm_kskip_8x", dtype="f16", options=("--reproducible",))
given(64, 1032, 520, "one strip", "gemm_kskip_8x")
for m, d, f in ((64, 256, 512), (61, 2056, 1000)):
    for kind in ("a few", "full", "empty", "the last", "one strip"):
        gated(m, d, f, kind, "sparse")
    gated(m, d, f, "a few")
    gated(m, d, f, "full")
gated(64, 5120, 264, "a few", "sparse", BULK[:1], dtype="f16", schedule="tile u t=8 f=32 d=1024;") # two pieces of a row
gated(40, 8200, 2048, "a few", "sparse")                                     # more pieces, fewer slots
gated(40, 136, 9000, "full", "sparse", schedule=WIDE)                        # more k's than one list has room for; several windows
gated(64, 648, 2048, "a few", "sparse", BULK[:1] + ["gemm_kskip_8x320"], schedule=WIDE)
gated(57, 252, 516, "a tenth", "sparse", schedule="tile y t=8 o=64 f=256;")   # rows of no whole 16 bytes
gated(64, 256, 500, "a tenth", "sparse", schedule="tile y t=8 o=64 f=256;")   # columns that are asked about one by one
gated(16, 512, 9000, "a few", "sparse", LOADS)
gated(9, 264, 9000, "a tenth", "sparse", LOADS)
foreseen(64, 256, 512, "a tenth", "b1", "W[t,f]", schedule="tile u t=8 f=32 d=1024;")
foreseen(50, 264, 1000, "a few", "f32", "W[t,f] != 0", schedule="tile u t=8 f=32 d=1024;")

# Bits that the gate's epilogue leaves, strips along its rows or across them; tiles that end in the middle of a word, over the edge, or over the tokens'.
GATE, UP = "tile g t=%d f=%d e=%d; ", "tile u t=8 f=32 d=1024; "
for tile in ((16, 64, 128), (32, 64, 128), (64, 64, 128), (64, 176, 64), (128, 64, 64)):
    gated(64, 256, 1032, "a tenth", "sparse", schedule=GATE % tile)
gated(61, 264, 1000, "the last", "sparse", schedule=GATE % (64, 176, 64))
gated(57, 256, 504, "one strip", "sparse", schedule=GATE % (16, 64, 128))
gated(57, 256, 504, "one strip", schedule=GATE % (64, 64, 128))
gated(64, 256, 1000, "full", schedule=GATE % (64, 176, 64))                   # dense is meant
gated(64, 256, 1000, "full", "sparse", schedule=GATE % (128, 64, 64))
gated(64, 256, 1000, "empty", schedule=GATE % (32, 64, 128))
gated(40, 136, 34000, "a few", "sparse", BULK[:1], schedule=GATE % (64, 128, 64) + UP)     # more words a thread than stay in registers
gated(40, 136, 9000, "full", "sparse", BULK[:1], schedule=GATE % (64, 128, 64) + UP)       # several windows
gated(64, 252, 520, "a tenth", "sparse", schedule=GATE % (64, 64, 128))      # rows of no whole 16 bytes
gated(61, 256, 1032, "a tenth", "sparse", schedule=GATE % (64, 176, 64), e=61) # the gate's rows are no whole 16 bytes: its stand-in leaves bits
gated(29, 256, 1032, "full", "", BULK[:1], schedule=GATE % (32, 64, 128) + UP, e=29)
gated(13, 512, 9000, "a tenth", "sparse", LOADS, schedule=GATE % (16, 64, 128))
gated(13, 512, 9000, "a tenth", "", LOADS, schedule=GATE % (16, 128, 128))
gated(24, 264, 4000, "full", "", LOADS[:1], schedule=GATE % (32, 64, 128) + "tile u t=8 f=128 d=256;")
gated(64, 256, 1032, "a tenth", "sparse", BULK[:1], dtype="f16", schedule=GATE % (64, 176, 64))
asked(64, 256, 1032, "a tenth", GATE % (64, 176, 64) + UP)
asked(57, 136, 34000, "a few", GATE % (64, 128, 64) + UP)
asked(61, 252, 1000, "a tenth", GATE % (32, 64, 128) + UP)
asked(13, 256, 1000, "a tenth", GATE % (16, 64, 128) + "tile u t=8 f=128 d=256;")
asked(64, 256, 1032, "one strip", "tile g t=64 f=64 e=32; " + UP)            # values are asked
asked(24, 256, 1032, "a few", "tile g t=64 f=64 e=32; tile u t=8 f=128 d=256;")

# A relu layer: nobody is asked, and values are looked at.
for m, gate in ((64, GATE % (64, 64, 128)), (61, GATE % (64, 176, 64)), (24, GATE % (32, 64, 128)), (13, GATE % (16, 64, 128)), (40, "tile g t=64 f=64 e=32; ")):
    for kind, by in (("the last", "gemm_kskip_8x"), ("full", "gemm_tma"), ("empty", "gemm_kskip_8x")):
        relu(m, 264, 2056, kind, by, gate)
relu(57, 520, 9000, "a tenth", "gemm_kskip_8x", GATE % (64, 64, 128), 320, "sparse")
relu(57, 520, 9000, "full", "gemm_kskip_8x", GATE % (64, 64, 128), 64, "sparse")   # several windows
relu(57, 520, 2056, "a tenth", "gemm_tma", GATE % (64, 64, 128), 64, "dense")
relu(61, 264, 1032, "a tenth", "gemm_kskip_8x", GATE % (64, 176, 64), 128, "sparse", e=61)

# Up to 8 rows: who reads what was asked for takes a sample of its bits, and a mask that the caller gives one of its own.
for m, tile in ((1, "tile y t=1 o=32 f=256;"), (5, "tile y t=8 o=64 f=256;"), (8, "tile y t=8 o=128 f=256;"), (8, "tile y t=8 o=64 f=256;")):
    for kind, by in (("the last", "gemm_kskip_"), ("empty", "gemm_kskip_"), ("full", "gemm_tma_")):
        foreseen(m, 1032, 2056, kind, "b1", "W[t,f]", "", ["gemm_nskip_8x"], (DEAR,), tile, [by])
foreseen(8, 1032, 34000, "full", "b1", "W[t,f]", "", ["gemm_nskip_8x"], (DEAR,), "tile y t=8 o=64 f=256;", ["gemm_tma"])   # more words than the sample looks at
foreseen(8, 1032, 34000, "a few", "b1", "W[t,f]", "sparse", ["gemm_nskip_8x"], (DEAR,), "tile y t=8 o=64 f=256;", ["gemm_kskip_8x"])
foreseen(7, 1032, 2003, "a tenth", "b1", "W[t,f]", "dense", ["gemm_nskip_8x"], (DEAR,), "tile y t=8 o=64 f=256;", ["gemm_tma"])
for kind, by in (("full", "gemm_tma"), ("the last", "gemm_nskip_8x128"), ("empty", "gemm_nskip_8x128")):
    foreseen(8, 1032, 2056, kind, "b1", "W[t,f]", "", [], (DEAR,), "tile u t=8 f=128 d=256;", [by])
    foreseen(3, 1032, 2056, kind, "f32", "W[t,f] != 0", "", [], (DEAR,), "tile u t=8 f=128 d=256;", [by])
