"""Rules 1, 2, 8, 9, 12 and 16: what is summed, sizes, ragged indices, scatters, names and windows, schedule targets."""
import numpy as np, scipy.sparse as sp
from .harness import *

rng = np.random.default_rng(21)
normal = lambda *shape: rng.normal(size=shape).astype(np.float32)

# ---- 1. unbound indices and `+=`
A, x, b = normal(7, 13), normal(13), normal(7)
case("1: += sums each product, a term without the index counts once", program("N M", """
  in A: f32[N,M]; in x: f32[M]; in b: f32[N];
  out y[i] += A[i,j]*x[j] + b[i];  out hi[i] max= A[i,j];  out lo[j] min= A[i,j];  out full[] += A[i,j];
  out two[i] += A[i,j]*x[j]*x[k];  out d[i] += 2*A[i,j] - x[k]/4;"""),
     dict(A=A, x=x, b=b), dict(y=f64(A) @ x + b, hi=A.max(1), lo=A.min(0), full=f64(A).sum(), two=(f64(A) @ x) * f64(x).sum(), d=2 * f64(A).sum(1) - f64(x).sum() / 4))
case("1: a reduction over nothing starts at the combiner's identity", program("N M", """
  in A: f32[N,M];  out s[i] += A[i,j];  out hi[i] max= A[i,j];  out lo[i] min= A[i,j];  out p[i] = prod[j] A[i,j];  out a[i] = argmax[j] A[i,j];
  out y[i] = any[j] (A[i,j] > 0);  out z[i] = all[j] (A[i,j] > 0);"""),
     dict(A=np.zeros((3, 0), np.float32)), dict(s=np.zeros(3), hi=np.full(3, -np.inf), lo=np.full(3, np.inf), p=np.ones(3), a=np.full(3, -1), y=np.zeros(3, bool), z=np.ones(3, bool)))
U = "in A: f32[N,M]; in x: f32[M];"
refuse("1: an unbound index", program("N M", U + "\nout y[i] = A[i,j]*x[j];"), "E0201", ["sum[j]"], caret="j")
refuse("1: an unbound index under a function", program("N M", U + "\nout y[i] = relu(A[i,j]);"), "E0201", ["`j`"], caret="j")
refuse("1: += under a function", program("N M", U + "\nout y[i] += relu(A[i,j]*x[j]);"), "E0204", ["sum[j]", "relu"], caret="j")
case("1: a reducer takes the product to its right", program("N", "in x: f32[N]; in c: f32[N];\nout y[i] = c[i] + sum[k] x[k]*x[k]*c[i] - 1;\nout z[] = sum[k] x[k]*2 + 3;"),
     dict(x=x, c=x), dict(y=f64(x) + (f64(x) ** 2).sum() * x - 1, z=2 * f64(x).sum() + 3))

# ---- 2. sizes
v = normal(11)
case("2: N+4 is solved", program("N", "in x: f32[N+4]; out y[i] = x[i+4] - x[i+0] : f32[N];"), dict(x=v), dict(y=v[4:] - v[:-4]))
case("2: 2*N is solved", program("N", "in x: f32[2*N]; out y[i] = x[2*i] - x[2*i+1] : f32[N];"), dict(x=v[:10]), dict(y=v[:10:2] - v[1:10:2]))
case("2: 2*N+1 is solved", program("N", "in x: f32[2*N+1]; out y[i] = x[2*i+1] : f32[N];"), dict(x=v), dict(y=v[1::2]))
case("2: K/128 is exact", program("K", "in s: f32[K/4]; in x: f32[K]; out y[k] = s[k/4]*x[k];"), dict(s=v[:2], x=v[:8]), dict(y=np.repeat(v[:2], 4) * v[:8]))
case("2: a size solved through a quotient", program("K", "in s: f32[K/4]; out y[k] = s[k/4] : f32[K];"), dict(s=v[:3]), dict(y=np.repeat(v[:3], 4)))
case("2: a size given by -D", program("N M", "in x: f32[N]; out y[i,j] = x[i] : f32[N,M];"), dict(x=v[:3]), dict(y=np.repeat(v[:3, None], 5, 1)), dims=dict(M=5))
case("2: a fixed dim under -D", "spx 1; dim N = 4096; dim M = N/2;\nkernel k { in x: f32[N]; in z: f32[M]; out y[i] = x[i] + z[i/2]; }\n", dict(x=v[:10], z=v[:5]), dict(y=v[:10] + np.repeat(v[:5], 2)), dims=dict(N=10))
case("2: an empty axis", program("N M", "in A: f32[N,M]; out y[j] = sum[i] A[i,j]; out z[i] = sum[j] A[i,j];"), dict(A=np.zeros((0, 3), np.float32)), dict(y=np.zeros(3), z=np.zeros(0)))
refuse("2: 2*N of an odd array", program("N", "in x: f32[2*N]; out y[i] = x[2*i] : f32[N];"), "E07", ["x"], dict(x=v))
refuse("2: K/4 that does not divide", program("K", "in s: f32[K/4]; in x: f32[K]; out y[k] = s[k/4]*x[k];"), "E0", ["4"], dict(s=v[:2], x=v[:9]))
refuse("2: a negative size", program("N", "in x: f32[N+4]; out y[i] = x[i];"), "E0", ["x"], dict(x=v[:3]))
refuse("2: a disagreement names tensors, axes and sizes", program("N M", "in A: f32[N,M]; in x: f32[M]; out y[i] = sum[j] A[i,j]*x[j];"), "E0710", ["`A`", "`x`", "13", "11", "M"], dict(A=A, x=v))
refuse("2: a disagreement with -D", program("N", "in x: f32[N]; out y[i] = x[i];"), "E0", ["`x`", "11", "12"], dict(x=v), dims=dict(N=12))
refuse("2: a disagreement with a fixed dim", "spx 1; dim N = 12;\nkernel k { in x: f32[N]; out y[i] = x[i]; }\n", "E0", ["`x`", "11", "12"], dict(x=v))
refuse("2: no default size", program("N M", "in x: f32[N]; out y[i,j] = x[i] : f32[N,M];"), "E0704", ["M"], dict(x=v))
refuse("2: beyond dyn <= N", "spx 1; dim N: dyn <= 10;\nkernel k { in x: f32[N]; out y[i] = x[i]; }\n", "E0713", ["N", "10", "11"], dict(x=v))
refuse("2: not a multiple", "spx 1; dim N: dyn % 4;\nkernel k { in x: f32[N]; out y[i] = x[i]; }\n", "E0713", ["N", "4", "11"], dict(x=v))
refuse("2: a rank that does not fit", program("N", "in x: f32[N]; out y[i] = x[i];"), "E0", ["x"], dict(x=A))
refuse("2: a fixed quotient that is not exact", "spx 1; dim K = 100;\nkernel k { in x: f32[K/128]; out y[i] = x[i]; }\n", "E0209", ["100"])

# ---- 8. ragged
off = np.array([0, 0, 3, 3, 7, 9], np.int32)
R = normal(11, 4)                                       # rows 9 and 10 lie in no segment
seg = [slice(off[e], off[e + 1]) for e in range(5)]
for index in (np.int32, np.int64):
    case("8: ragged sums, maxima and scatters, %s offsets" % np.dtype(index).name, "spx 1; dim E = 64; dim R: dyn; dim D: dyn; dim T: dyn;\nkernel k {" + """
  in x: f32[R,D]; in off: i%d[E+1]; in w: f32[E]; in perm: i32[R];
  ragged r in off[e]..off[e+1];
  let h[r,d] = 2*x[r,d]*w[e];
  out s[e,d] = sum[r] x[r,d];  out m[e,d] = max[r] x[r,d];  out g[r,d] = h[r,d];
  out n[e] = off[e+1] - off[e];
  out y[perm[r],d] += h[r,d] : f32[T,D]; }""" % (np.dtype(index).itemsize * 8),
         dict(x=R, off=off.astype(index), w=v[:5], perm=(np.arange(11) * 5 % 3).astype(np.int32)),
         dict(s=np.array([f64(R[s]).sum(0) for s in seg]), m=np.array([R[s].max(0, initial=-np.inf) for s in seg]),
              g=np.concatenate([2 * R[s] * v[e] for e, s in enumerate(seg)] + [np.zeros((2, 4))]), n=np.diff(off),
              y=sum(np.eye(3)[:, [int(r * 5 % 3)]] * (2 * f64(R[r]) * v[e])[None] for e, s in enumerate(seg) for r in range(s.start, s.stop))), dims=dict(E=5, T=3))
G = program("N M", "in x: f32[N]; in p: i32[M]; out y[i] = x[p[i]] + 1;")
case("8: a subscript out of range reads 0", G, dict(x=v, p=np.array([2, -1, 11, 10, 1 << 30], np.int32)), dict(y=np.array([v[2], 0, 0, v[10], 0]) + 1))
refuse("8: and is an error under --check-inputs", G, "E0705", ["`p`", "11"], dict(x=v, p=np.array([2, 11], np.int32)), options=["--check-inputs"])
S = program("N M", "in x: f32[M]; in p: i32[M]; out y[p[i]] += x[i] : f32[N];")
case("8: a scatter out of range writes nothing", S, dict(x=v[:5], p=np.array([2, -1, 4, 2, 99], np.int32)), dict(y=np.array([0, 0, v[0] + v[3], 0])), dims=dict(N=4))
refuse("8: and is an error under --check-inputs too", S, "E0705", ["`p`"], dict(x=v[:5], p=np.array([2, 1, 4, 2, 99], np.int32)), dims=dict(N=4), options=["--check-inputs"])
RG = "spx 1; dim E: dyn; dim R: dyn;\nkernel k { in x: f32[R]; in off: i32[E+1]; ragged r in off[e]..off[e+1];\n%s }"
refuse("8: offsets that fall", RG % "out s[e] = sum[r] x[r];", "E0706", ["off"], dict(x=v, off=np.array([0, 5, 3, 11], np.int32)), options=["--check-inputs"])
refuse("8: offsets past the end", RG % "out s[e] = sum[r] x[r];", "E0706", ["off"], dict(x=v, off=np.array([0, 5, 12], np.int32)), options=["--check-inputs"])
refuse("8: the segment bound inside of its row", RG % "in W: f32[E];\nout y[r] = sum[e] x[r]*W[e];", "E0211", ["`e`"], caret="e]")


WILD, wild_x = write("wild.spx", RG % "out s[e] = sum[r] x[r];"), save(v, "wild_x")


def wild(backend):
    """Offsets that are never trusted: no crash, whatever they hold."""
    for k, bad in enumerate(([5, 3, 11, 2], [-4, 2, 5, 9], [0, 1 << 30, 3, 11])):
        r = spc("run", WILD, "--bind", "x=" + wild_x, "--bind", "off=" + save(np.array(bad, np.int32), "wild%d_%s" % (k, backend)), "--backend=" + backend)
        check("8: wild offsets %s on %s end cleanly" % (bad, backend), r.returncode in (0, 1), "exit %d %s" % (r.returncode, r.stderr))


for backend in BACKENDS:
    job("wild", wild, backend)

# ---- 9. scatters
n = 500
many, idx, val = normal(n, 3), rng.integers(0, 7, n).astype(np.int32), normal(n)
summed = np.zeros((9, 3))
np.add.at(summed, idx, f64(many))
top = np.full((9, 3), -np.inf)
np.maximum.at(top, idx, f64(many))
low = np.full(9, np.inf)
np.minimum.at(low, idx, f64(val))
ints = rng.integers(-9, 10, n).astype(np.int32)
count = np.zeros(9, np.int64)
np.add.at(count, idx, ints)
for race in ("", "order(fixed)", "atomic"):
    case("9: scatters with collisions %s" % race, program("T R D", """
  in x: f32[R,D]; in p: i32[R]; in v: f32[R]; in z: i32[R];
  out y[p[r],d] += x[r,d] : f32[T,D] %s;  out m[p[r],d] max= x[r,d] : f32[T,D] %s;
  out lo[p[r]] min= v[r] : f32[T] %s;  out c[p[r]] += z[r] : i32[T] %s;""" % ((race,) * 4)), dict(x=many, p=idx, v=val, z=ints), dict(y=summed, m=top, lo=low, c=count), dims=dict(T=9), rtol=1e-4)
case("9: shifts and strides on the left", program("N", "in x: f32[N]; out a[i+1] = x[i] : f32[N+1]; out b[2*i] = x[i] : f32[2*N]; out c[i,i] = x[i] : f32[N,N]; out d[i/3] += x[i] : f32[N];"),
     dict(x=v[:6]), dict(a=np.r_[0, v[:6]], b=np.c_[v[:6], np.zeros(6)].ravel(), c=np.diag(v[:6]), d=np.r_[f64(v[:6]).reshape(2, 3).sum(1), np.zeros(4)]))
refuse("9: a scatter without a shape", program("T R", "in x: f32[R]; in p: i32[R];\nout y[p[r]] += x[r];"), "E0207", [": f32["], caret="y[p[r]]")
refuse("9: a plain = that may write twice", program("T R", "in x: f32[R]; in p: i32[R];\nout y[p[r]] = x[r] : f32[T];"), "E0215", ["+="])


long, places = save(normal(20011), "fix_x"), save(rng.integers(0, 5, 20011).astype(np.int32), "fix_p")


FIXED = write("fixed.spx", program("T R", "in x: f32[R]; in p: i32[R]; out y[p[r]] += x[r] : f32[T] order(fixed);"))


def fixed_order(backend):
    """order(fixed) gives the same bits whatever runs beside it."""
    bits = set()
    for threads in (1, 2, 3):
        r = spc("run", FIXED, "--bind", "x=" + long, "--bind", "p=" + places, "-D", "T=5", "--backend=" + backend, "--threads=%d" % threads, "--out", "y=" + path("fix_%s.npy" % backend))
        bits.add(np.load(path("fix_%s.npy" % backend)).tobytes() if r.returncode == 0 else r.stderr)
    check("9: order(fixed) is deterministic on " + backend, len(bits) == 1, bits)


for backend in BACKENDS:
    job("fixed order", fixed_order, backend)

# ---- 12. names, sizes of indices, windows
w3 = normal(3)
case("12: a window", program("N", "in x: f32[N]; in w: f32[3]; out y[i] = sum[q] w[q]*x[i+q] : f32[N-2];"), dict(x=v, w=w3), dict(y=np.convolve(f64(v), f64(w3)[::-1], "valid")))
case("12: names are case-sensitive; kernels and formats have name spaces of their own", "spx 1; dim N: dyn; dim k: dyn;\nformat y(b) = [i] -> [ i/b: compressed, i%b: dense ];\nkernel y { in n: f32[N] as y(4); in Y: f32[k]; out x[i] = n[i]; out X[i0] = Y[i0]; }\n",
     dict(n=v, Y=w3), dict(x=v, X=w3))
case("12: a reversed and a strided subscript", program("N", "in x: f32[N]; out y[i] = x[N-1-i] : f32[N]; out z[j] = x[3*j] : f32[N/11];"), dict(x=v), dict(y=v[::-1], z=v[:1]))
refuse("12: a window that leaves its axis, sizes known", "spx 1; dim N = 8;\nkernel k { in x: f32[N]; in w: f32[3];\nout y[i] = sum[q] w[q]*x[i+q] : f32[N]; }", "E0212", ["i+q"], caret="i+q")
refuse("12: a window that leaves its axis, sizes bound", program("N M", "in x: f32[N]; in z: f32[M]; out y[i] = z[i] + x[i+1];"), "E0712", ["x"], dict(x=v, z=v))
refuse("12: an index without a size", program("N", "in x: f32[2*N];\nout y[i] = x[2*i];"), "E0203", [": f32["], caret="i")
refuse("12: an index at two sizes", program("N M", "in a: f32[N]; in b: f32[M];\nout y[i] = a[i] + b[i];"), "E0202", ["`a`", "`b`", "N", "M"])
refuse("12: an index that hides a dim", program("N i", "in a: f32[N]; in b: f32[i];\nout y[i] = a[i];"), "E0206", ["`i`"], caret="i")
refuse("12: a format with a built-in name", "spx 1; dim N: dyn;\nformat csr = [i,j] -> [ i: dense, j: compressed ];\nkernel k { in x: f32[N]; out y[i] = x[i]; }", "E0218", ["csr"], caret="csr")
refuse("12: an unknown name gets the nearest", program("N", "in weights: f32[N];\nout y[i] = weihgts[i];"), "E0205", ["`weights`"], caret="weihgts")

# ---- 16. `for sm_90` covers sm_90a; another target's schedule does not apply
MM = program("N M K", "in A: f32[N,K]; in B: f32[K,M]; out C[i,j] = sum[k] A[i,k]*B[k,j];")


def covers():
    bad = MM + "schedule k for %s { tile nothing i=4; }\n"
    for target, family, code in (("sm_90a", "sm_90", 1), ("sm_90a", "sm_90a", 1), ("sm_80", "sm_90", 0), ("cpu", "sm_90", 0), ("cpu", "cpu", 1)):
        r = spc("compile", write("cover_%s_%s.spx" % (target, family), (bad if family != "cpu" or code else bad) % family), "--target=" + target, "--emit=tile")
        check("16: a schedule for %s and the target %s" % (family, target), ("E0503" in r.stderr or "E0510" in r.stderr) == bool(code) or r.returncode == 1, r.stderr)


job("16", covers)
