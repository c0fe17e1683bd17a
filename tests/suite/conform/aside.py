"""Results in listed columns whose readers are elementwise: they stay side by side, and one launch makes all that is asked of them; and lists of
one matrix that serve whatever is zero where it is."""
import numpy as np
from .harness import *

rng = np.random.default_rng(77)
PROFILE = columns_profile("aside.profile")
SIZES = ((300, 520, 136), (304, 520, 136), (64, 72, 8), (136, 2056, 24), (257, 130, 72), (504, 77, 40))  # m, n, k
HERE = "sm_90a" in TARGET
BODIES = {  # of u, v: products; G: where they are wanted. What has one reader alone is its epilogue
    "two of one": ("out h[m,n] = 0.5*u[m,n] + G[m,n] on G[m,n] != 0; out p[m,n] = u[m,n]*u[m,n] on G[m,n] != 0;", lambda u, v, G, b: {"h": 0.5 * u + G, "p": u * u}, 0),
    "two of two, filled": ("out h[m,n] = u[m,n]*G[m,n] - v[m,n] on G[m,n] != 0 fill 3; out p[m,n] = u[m,n] + v[m,n] on G[m,n] != 0;", lambda u, v, G, b: {"h": u * G - v, "p": u + v}, 3),
    "three of two": ("out h[m,n] = G[m,n]*u[m,n] on G[m,n] != 0; out p[m,n] = v[m,n]*G[m,n] on G[m,n] != 0; out q[m,n] = v[m,n] + u[m,n] + b[n] on G[m,n] != 0;",
                     lambda u, v, G, b: {"h": G * u, "p": v * G, "q": u + v + b}, 0),
    "a condition more": ("out h[m,n] = u[m,n] + v[m,n] on G[m,n] != 0 and n <= m; out p[m,n] = u[m,n] - v[m,n] on G[m,n] != 0;",
                         lambda u, v, G, b: {"h": np.where(np.arange(G.shape[1]) <= np.arange(G.shape[0])[:, None], u + v, 0), "p": u - v}, 0),
    "one of another": ("let w[m,n] = u[m,n] + v[m,n] on G[m,n] != 0 : bf16; out h[m,n] = w[m,n]*G[m,n] + v[m,n] on G[m,n] != 0; out p[m,n] = w[m,n] - u[m,n] on G[m,n] != 0;",
                       lambda u, v, G, b: {"h": (u + v) * G + v, "p": v}, 0),
}


def asked(name, body, mask, m, n, k, dtype="bf16", gran="128x1", options=(), kernels=("spread",), bound=" <= 8192"):
    text, values, fill = BODIES[body]
    text = re.sub(r"(out \w\[m,n\] = [^;]*);", r"\1 : %s;" % dtype, text)
    source = """spx 1; dim M: dyn%s; dim N: dyn%s; dim K: dyn;
kernel k { in A: %s[M,K]; in B: %s[N,K]; in C: %s[M,K]; in D: %s[N,K]; in G: %s[M,N] ~ zeros(dynamic, density=0.01, gran=%s); in b: f32[N];
  let u[m,n] = sum[k] A[m,k]*B[n,k] on G[m,n] != 0 : %s acc f32;
  let v[m,n] = sum[k] C[m,k]*D[n,k] on G[m,n] != 0 : %s acc f32;
  %s }
""" % (bound, bound, *[dtype] * 5, gran, dtype, dtype, text)
    A, B, C, D = (ROUND[dtype](rng.integers(-1, 2, shape).astype(np.float64)) for shape in ((m, k), (n, k), (m, k), (n, k)))
    G = ROUND[dtype](np.where(mask, rng.integers(1, 3, mask.shape), 0).astype(np.float64))
    b = rng.integers(-3, 4, n).astype(np.float32)
    want = values(f64(A) @ f64(B).T, f64(C) @ f64(D).T, f64(G), b)
    tiled_case("aside: %s" % name, source, dict(A=A, B=B, C=C, D=D, G=G, b=b), {o: np.where(mask, w, fill if o == "h" else 0) for o, w in want.items()}, rtol=1e-2,
         options=(PROFILE, *options), kernels=list(kernels) if HERE else [])


for m, n, k in SIZES:
    for body in BODIES:
        masks = {"a tenth": block_mask(rng, (m, n), (128, 1), 0.1, False) > 0}
        if (m, n, k) == SIZES[0] or body == "three of two":
            masks.update({"elements": rng.random((m, n)) < 0.02, "full": np.ones((m, n), bool), "empty": np.zeros((m, n), bool)})
        for kind, mask in masks.items():
            asked("%s, %d x %d x %d, %s" % (body, m, n, k, kind), body, mask, m, n, k)
m, n, k = 304, 520, 136
mask = block_mask(rng, (m, n), (64, 1), 0.1, False) > 0
for force in ("sparse", "dense"):
    for body in BODIES:
        asked("%s, forced %s" % (body, force), body, mask, m, n, k, options=("--force-guard=" + force,))
asked("strips of 64", "three of two", mask, m, n, k, gran="64x1")
asked("f16", "three of two", mask, m, n, k, dtype="f16")
asked("no products", "three of two", mask, m, n, 0, kernels=())
asked("reproducible", "three of two", mask, m, n, k, options=("--reproducible",))
asked("sizes that nothing bounds", "three of two", mask, m, n, k, bound="")
APART = {  # u is wanted whole by somebody: it is spread, and read as it lies
    "no condition": ("out h[m,n] = u[m,n]*G[m,n] on G[m,n] != 0; out p[m,n] = u[m,n] + 1;", lambda u, G: {"h": u * G, "p": u + 1}),
    "a sum": ("out h[m,n] = u[m,n]*G[m,n] on G[m,n] != 0; out r[m] = sum[n] u[m,n];", lambda u, G: {"h": u * G, "r": u.sum(1)}),
    "another place": ("out h[m,n] = u[m,n] + u[m,0] on G[m,n] != 0;", lambda u, G: {"h": np.where(G != 0, u + u[:, :1], 0)}),
    "a result of its own": ("out h[m,n] = u[m,n]*G[m,n] on G[m,n] != 0; out p[m,n] = u[m,n];", lambda u, G: {"h": u * G, "p": u}),
}
for name, (text, values) in APART.items():
    A, B = (bf16(rng.integers(-1, 2, shape).astype(np.float64)) for shape in ((m, k), (n, k)))
    G = bf16(np.where(mask, rng.integers(1, 3, mask.shape), 0).astype(np.float64))
    source = "spx 1; dim M: dyn <= 8192; dim N: dyn <= 8192; dim K: dyn; kernel k { in A: bf16[M,K]; in B: bf16[N,K]; in G: bf16[M,N] ~ zeros(dynamic, density=0.01, gran=128x1); let u[m,n] = sum[k] A[m,k]*B[n,k] on G[m,n] != 0 : bf16 acc f32; %s }" % text
    tiled_case("aside: read whole, %s" % name, source, dict(A=A, B=B, G=G), values(np.where(mask, f64(A) @ f64(B).T, 0), f64(G)), rtol=1e-2, options=(PROFILE,))

# What is made of them is summed over: its columns stay side by side too, for any tile and any edge; beside it lists along its other dimension.
for m, n, k in SIZES + ((520, 1, 64), (1, 520, 64)):
    for kind, mask in {"a tenth": block_mask(rng, (m, n), (64, 1), 0.1, False) > 0, "empty": np.zeros((m, n), bool), "full": np.ones((m, n), bool), "last column": np.arange(n)[None, :] + np.zeros((m, 1)) == n - 1}.items():
        A, B, C, D = (bf16(rng.integers(-1, 2, shape).astype(np.float64)) for shape in ((m, k), (n, k), (m, k), (n, k)))
        G, V = bf16(np.where(mask, rng.integers(1, 3, mask.shape), 0).astype(np.float64)), bf16(rng.integers(-1, 2, (n, 72)) * 0.25)
        for gran in ("128x1", "64x1"):
            source = """spx 1; dim M: dyn <= 8192; dim N: dyn <= 8192; dim K: dyn; dim O: dyn;
kernel k { in A: bf16[M,K]; in B: bf16[N,K]; in C: bf16[M,K]; in D: bf16[N,K]; in V: bf16[N,O]; in G: bf16[M,N] ~ zeros(dynamic, density=0.01, gran=%s);
  let u[m,n] = sum[k] A[m,k]*B[n,k] on G[m,n] != 0 : bf16 acc f32;
  let v[m,n] = sum[k] C[m,k]*D[n,k] on G[m,n] != 0 : bf16 acc f32;
  let h[s,t] = u[s,t]*G[s,t] on G[s,t] != 0 : bf16 as dense;
  let q[s,t] = v[s,t] + u[s,t] on G[s,t] != 0 : bf16 as dense;
  out p[s,t] = u[s,t] - v[s,t] on G[s,t] != 0 : bf16;
  out y[a,o] = sum[b] h[a,b]*V[b,o] : f32;
  out w[a,o] = relu(sum[b] q[a,b]*V[b,o]) : f32;
  out z[b,c] = sum[a] h[a,b]*C[a,c] : f32; }""" % gran
            u, v = (np.where(mask, f64(bf16(f64(x) @ f64(y).T)), 0) for x, y in ((A, B), (C, D)))
            hh, q = f64(bf16(u * f64(G))), f64(bf16(u + v))
            tiled_case("aside: summed over, %s, %d x %d x %d, %s" % (gran, m, n, k, kind), source, dict(A=A, B=B, C=C, D=D, V=V, G=G), dict(p=u - v, y=hh @ f64(V), w=np.maximum(q @ f64(V), 0), z=hh.T @ f64(C)), rtol=1e-2,
                 options=(PROFILE,), kernels=["spread", "gemm_kgather"] if HERE and m > 1 and n > 1 else [])

# A product in listed columns that is spread as ever, and summed over: its columns stay, with what its condition and its value make of them.
for m, n, k in SIZES + ((520, 1, 64), (1, 520, 64)):
    for kind, mask in {"a tenth": block_mask(rng, (m, n), (64, 1), 0.1, False) > 0, "elements": rng.random((m, n)) < 0.02, "empty": np.zeros((m, n), bool), "full": np.ones((m, n), bool)}.items():
        A, B = (bf16(rng.integers(-1, 2, shape).astype(np.float64)) for shape in ((m, k), (n, k)))
        G, V = bf16(np.where(mask, rng.integers(1, 3, mask.shape), 0).astype(np.float64)), bf16(rng.integers(-1, 2, (n, 72)) * 0.25)
        for gran in ("128x1", "64x1"):
            for force in ("",) if kind != "a tenth" else ("", "sparse", "dense"):
                source = """spx 1; dim M: dyn <= 8192; dim N: dyn <= 8192; dim K: dyn; dim O: dyn;
kernel k { in A: bf16[M,K]; in B: bf16[N,K]; in V: bf16[N,O]; in G: bf16[M,N] ~ zeros(dynamic, density=0.01, gran=%s);
  out u[m,n] = 1 - 0.5*(sum[k] A[m,k]*B[n,k]) on G[m,n] != 0 and m != 3 : bf16 acc f32;
  out y[m,o] = sum[n] u[m,n]*V[n,o] : f32;
  out z[n,c] = sum[m] u[m,n]*A[m,c] : f32; }""" % gran
                u = np.where(mask & (np.arange(m) != 3)[:, None], f64(bf16(1 - 0.5 * (f64(A) @ f64(B).T))), 0)
                tiled_case("aside: spread and summed over, %s, %d x %d x %d, %s%s" % (gran, m, n, k, kind, ", forced " + force if force else ""), source, dict(A=A, B=B, V=V, G=G), dict(u=u, y=u @ f64(V), z=u.T @ f64(A)), rtol=1e-2,
                     options=(PROFILE, *(("--force-guard=" + force,) if force else ())), kernels=["gemm_n", "gemm_kgather"] if HERE and m > 1 and n > 1 else [])

# More columns than one launch reads: of five in one statement, and of five in statements of two.
m, n, k = 304, 520, 72
mask = block_mask(rng, (m, n), (128, 1), 0.1, False) > 0
A = [bf16(rng.integers(-1, 2, (m, k)).astype(np.float64)) for _ in range(5)]
B, G = bf16(rng.integers(-1, 2, (n, k)).astype(np.float64)), bf16(np.where(mask, 1, 0))
u = [np.where(mask, f64(a) @ f64(B).T, 0) for a in A]
lets = " ".join("in A%d: bf16[M,K];" % i for i in range(5)) + " in B: bf16[N,K]; in G: bf16[M,N] ~ zeros(dynamic, density=0.01, gran=128x1); " + " ".join("let c%d[m,n] = sum[k] A%d[m,k]*B[n,k] on G[m,n] != 0 : bf16 acc f32;" % (i, i) for i in range(5))
at = lambda i: "c%d[m,n]" % (i % 5)
FIVE = {"in one statement": (" ".join("out o%d[m,n] = %s on G[m,n] != 0 : bf16;" % (j, " + ".join("%d*%s" % (1 + (i + j) % 3, at(i)) for i in range(5))) for j in range(2)), {"o%d" % j: sum((1 + (i + j) % 3) * u[i] for i in range(5)) for j in range(2)}),
        "in statements of two": (" ".join("out o%d[m,n] = %s - %s on G[m,n] != 0 : bf16;" % (j, at(j), at(j + 1)) for j in range(5)), {"o%d" % j: u[j] - u[(j + 1) % 5] for j in range(5)})}
for name, (text, want) in FIVE.items():
    for force in ("sparse", "dense"):
        tiled_case("aside: five %s, forced %s" % (name, force), "spx 1; dim M: dyn <= 8192; dim N: dyn <= 8192; dim K: dyn; kernel k { %s %s }" % (lets, text), dict(B=B, G=G, **{"A%d" % i: a for i, a in enumerate(A)}), want, rtol=1e-2,
             options=(PROFILE, "--force-guard=" + force), kernels=["spread"] if HERE and "two" in name else [])

# A list of what is zero where a product is, which makes the bits.
for m, n, k in ((300, 520, 136), (257, 136, 72)):
    x, W, V = (bf16(rng.normal(size=shape)) for shape in ((m, k), (n, k), (n, 72)))
    b, scale = (-12 * (rng.random(n) < 0.7)).astype(np.float32), bf16(rng.integers(1, 3, (m, n)) * 0.5)
    g = f64(bf16(np.maximum(f64(x) @ f64(W).T + b, 0)))
    tiled_case("aside: a list of the bound, whose epilogue makes bits, %d x %d x %d" % (m, n, k), """spx 1; dim M: dyn <= 8192; dim N: dyn <= 8192; dim K: dyn; dim O: dyn;
kernel k { in x: bf16[M,K]; in W: bf16[N,K]; in b: f32[N]; in s: bf16[M,N]; in V: bf16[N,O];
  out g[m,n] = relu((sum[k] x[m,k]*W[n,k]) + b[n]) : bf16 acc f32 ~ zeros(dynamic, density=0.05);
  let h[m,n] = g[m,n]*s[m,n] on g[m,n] != 0 : bf16; let q[m,n] = s[m,n] - g[m,n] on g[m,n] != 0 : bf16;
  out y[m,o] = sum[n] h[m,n]*V[n,o] : f32; out z[m,o] = sum[n] q[m,n]*V[n,o] : f32; }""", dict(x=x, W=W, b=b, s=scale, V=V),
         dict(g=g, y=f64(bf16(g * f64(scale))) @ f64(V), z=np.where(g != 0, f64(bf16(f64(scale) - g)), 0) @ f64(V)), rtol=2e-2, options=(PROFILE,))

# Gradients of a gated layer: lists of g for all that is zero where g is, along both of its dimensions; rows that are brought side by side.
LAYER = open(os.path.join(h.ROOT, "examples", "sparse_llm_ffn", "gated.spx")).read()
for T, D, F, share in ((520, 64, 264, 0.02), (333, 40, 200, 0.1), (256, 77, 130, 0.02), (64, 64, 64, 1)):
    x, dy = (bf16(rng.integers(-1, 2, (T, D)).astype(np.float64)) for _ in range(2))
    Wg, Wu, Wd = (bf16(rng.integers(-1, 2, (F, D)) * 0.5) for _ in range(3))
    s = f64(x) @ f64(Wg).T
    live = rng.random((F,)) < share if share < 1 else np.ones(F, bool)
    Wg = bf16(np.where(live[:, None], Wg, -np.abs(f64(Wg))))
    x = bf16(np.abs(f64(x)))
    g = f64(bf16(np.maximum(f64(x) @ f64(Wg).T, 0)))
    on = lambda a: np.where(g != 0, f64(bf16(a)), 0)
    u, dh = on(f64(x) @ f64(Wu).T), on(f64(dy) @ f64(Wd).T)
    hh, du, dg = on(g * u), on(dh * g), on(dh * u + 0.25)
    want = dict(dWd=hh.T @ f64(dy), dWu=du.T @ f64(x), dWg=dg.T @ f64(x), dx=f64(bf16(dg @ f64(Wg))) + du @ f64(Wu))
    for force in ("", "sparse", "dense"):
        tiled_case("aside: gradients, %d x %d x %d%s" % (T, D, F, ", forced " + force if force else ""), LAYER, dict(x=x, Wg=Wg, Wu=Wu, Wd=Wd, dy=dy, penalty=np.float32(0.25).reshape(())), want, rtol=2e-2,
             options=(PROFILE, "--kernel=gated_backward", *(("--force-guard=" + force,) if force else ())), kernels=["gemm_n", "spread", "gemm_k"] if HERE and T > 64 else [])
