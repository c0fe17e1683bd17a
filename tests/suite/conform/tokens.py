"""Layers of any number of tokens: intermediates that lists want turned have rows of whole lines whatever that number is, and each tile of strips of 64
rows reads and writes them; guards forced either way, and by data."""
import numpy as np
from .harness import *

rng = np.random.default_rng(77)
OTHERS = "(?:kgather|ngather)_mma_|w?g?mma|tma_|npair_|ngather_tma_128|" # dense kernels, too
PROFILES = {n: "--profile=" + slow_profile("tokens%d.profile" % n, "(?:%s%s)" % (OTHERS, other)) for n, other in ((128, 'ngather_tma_64(?=")'), (256, "ngather_tma_64x"))}
HERE = "sm_90a" in TARGET
GATED = """spx 1; dim T: dyn <= 8192; dim F: dyn <= 8192; dim D: dyn; dim E: dyn;
kernel k { in z: bf16[T,E]; in V: bf16[F,E]; in x: bf16[T,D]; in Wu: bf16[F,D]; in Wd: bf16[F,D];
  let g[t,f] = relu(sum[e] z[t,e]*V[f,e]) ~ zeros(dynamic, density=0.01);
  let u[t,f] = sum[d] x[t,d]*Wu[f,d] on g[t,f];
  out y[t,o] = sum[f] g[t,f]*u[t,f]*Wd[f,o]; }
schedule k for sm_90a { compact g axis=f gran=64x1; tile y t=64 o=%d f=%d; }
"""
RELU = """spx 1; dim T: dyn <= 8192; dim F: dyn <= 8192; dim D: dyn; dim E: dyn;
kernel k { in z: f16[T,E]; in V: f16[F,E]; in Wd: f16[F,D];
  let h[t,f] = relu(sum[e] z[t,e]*V[f,e]) ~ zeros(dynamic, density=0.01);
  out y[t,o] = sum[f] h[t,f]*Wd[f,o]; }
schedule k for sm_90a { compact h axis=f gran=64x1; tile y t=64 o=%d f=%d; }
"""


def live(m, n, kind):
    """z = 1 picks rows of V, so a hidden value is what is drawn: zero, 1 or 2."""
    held = {"a tenth": rng.random((m, n)) < 0.1, "full": np.ones((m, n), bool), "empty": np.zeros((m, n), bool), "the last token": (np.arange(m)[:, None] + np.zeros((1, n))) >= m - 1}[kind]
    return np.where(held, rng.integers(1, 3, (m, n)), 0).astype(np.float64)


for m, n, k in ((131, 528, 264), (67, 272, 520), (201, 264, 136)):
    wide_m = (m + 7) // 8 * 8  # rows of the inputs are whole chunks
    for wide, (o, f) in ((128, (128, 64)), (256, (256, 64)), (128, (512, 32))):
        for kind, force in (("a tenth", "sparse"), ("a tenth", "dense"), ("full", "sparse"), ("empty", "sparse"), ("the last token", "")):
            if left_to_a_gpu(): continue
            options, what = (PROFILES[wide],) + (("--force-guard=" + force,) if force else ()), "%s, %s" % (kind, force or "by data")
            rows = lambda hidden: np.pad(hidden.T.copy(), ((0, 0), (0, wide_m - m)))
            g, x, Wu = bf16(live(m, n, kind)), bf16(rng.integers(-1, 2, (m, k)).astype(np.float64)), bf16(rng.integers(-1, 2, (n, k)).astype(np.float64))
            Wd = bf16(rng.integers(-1, 2, (n, k)) * 0.25)
            u = f64(bf16(f64(x) @ f64(Wu).T))
            tiled_case("tokens: a gated layer, %d x %d x %d, tiles of %d and %d, %s" % (m, n, k, wide, o, what), GATED % (o, f), dict(z=bf16(np.eye(m, wide_m)), V=rows(g), x=x, Wu=Wu, Wd=Wd),
                       dict(y=f64(bf16(f64(g) * u)) @ f64(Wd)), rtol=1e-2, options=options, kernels=["gemm_ngather_tma_64x%d" % wide, "gemm_kgather_tma_64x%d" % o] if HERE and force else [])
            h, Wd = live(m, n, kind).astype(np.float16), Wd.astype(np.float16)
            tiled_case("tokens: a layer of relu, %d x %d x %d, tiles of %d, %s" % (m, n, k, o, what), RELU % (o, f), dict(z=np.eye(m, wide_m).astype(np.float16), V=rows(h), Wd=Wd),
                       dict(y=f64(h) @ f64(Wd)), rtol=1e-2, options=options, kernels=["gemm_kgather_tma_64x%d" % o] if HERE and force else [])
