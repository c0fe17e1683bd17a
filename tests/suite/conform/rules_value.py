"""Rules 3, 4, 6 and 13: dtypes and rounding, zeros and NaN, what functions do to zeros, generators of tests."""
import math
import numpy as np, scipy.sparse as sp
from .harness import *

rng = np.random.default_rng(31)
normal = lambda *shape: rng.normal(size=shape).astype(np.float32)
wrap = lambda a, t: np.asarray(a, np.int64).astype(t)

# ---- 3. integers wrap at their own width
for t, name in ((np.int8, "i8"), (np.uint8, "u8"), (np.int16, "i16"), (np.int32, "i32"), (np.int64, "i64")):
    lo, hi = np.iinfo(t).min, np.iinfo(t).max
    a, b = (rng.integers(max(lo, -2 ** 40), min(hi, 2 ** 40), (5, 7), endpoint=True).astype(t) for _ in range(2))
    a[0, 0], b[0, 0] = hi, hi
    o = lambda f: np.vectorize(f, otypes=[object])(a, b)
    wide = lambda f: np.vectorize(lambda v: (int(v) - int(lo)) % (int(hi) - int(lo) + 1) + int(lo), otypes=[object])(o(f)).astype(t)
    case("3: %s wraps at its width" % name, program("N M", "in a: %s[N,M]; in b: %s[N,M];" % (name, name) + """
  out s[i,j] = a[i,j] + b[i,j];  out d[i,j] = a[i,j] - b[i,j];  out p[i,j] = a[i,j]*b[i,j];  out m[i,j] = -a[i,j];
  out q[i,j] = a[i,j]/b[i,j];  out r[i,j] = a[i,j]%b[i,j];  out hi[i,j] = max(a[i,j], b[i,j]);  out lt[i,j] = a[i,j] < b[i,j];"""),
         dict(a=a, b=b), dict(s=wide(lambda x, y: int(x) + int(y)), d=wide(lambda x, y: int(x) - int(y)), p=wide(lambda x, y: int(x) * int(y)), m=wide(lambda x, y: -int(x)),
                              q=wide(lambda x, y: int(x) // int(y) if y else 0), r=wide(lambda x, y: int(x) % int(y) if y else 0), hi=np.maximum(a, b), lt=a < b) if (b != 0).all() else
         dict(s=wide(lambda x, y: int(x) + int(y)), d=wide(lambda x, y: int(x) - int(y)), p=wide(lambda x, y: int(x) * int(y)), m=wide(lambda x, y: -int(x)), hi=np.maximum(a, b), lt=a < b),
         dtypes=dict(s=t, d=t, p=t, m=t, hi=t, lt=np.bool_))
I = np.array([7, -7, 7, -7, 0, 5], np.int32)
J = np.array([2, 2, -2, -2, 3, 0], np.int32)
case("3: integer division rounds down and gives 0 by 0", program("N", "in a: i32[N]; in b: i32[N]; out q[i] = a[i]/b[i]; out h[i] = a[i]/2; out r[i] = a[i]%4;"),
     dict(a=I, b=J), dict(q=[3, -4, -4, 3, 0, 0], h=I // 2, r=I % 4))
a8, b8 = rng.integers(-128, 128, (6, 70)).astype(np.int8), rng.integers(-128, 128, (70, 5)).astype(np.int8)
exact = a8.astype(np.int64) @ b8.astype(np.int64)
case("3: sums of i8 are kept in i32", program("N M K", """in a: i8[N,K]; in b: i8[K,M];
  out y[i,j] = sum[k] a[i,k]*b[k,j] : i32;  out z[i,j] = sum[k] a[i,k]*b[k,j];  out w[i,j] = sum[k] a[i,k]*b[k,j] : i64;  out h[i] = (sum[k] a[i,k])/2;"""),
     dict(a=a8, b=b8), dict(y=exact, z=wrap(exact, np.int8), w=exact, h=wrap(a8.sum(1, dtype=np.int64) // 2, np.int8)), dtypes=dict(y=np.int32, z=np.int8, w=np.int64))
a4, u4 = rng.integers(-8, 8, (5, 6)).astype(np.int8), rng.integers(0, 16, (5, 6)).astype(np.uint8)
w4 = lambda v, signed: ((v.astype(np.int64) + (8 if signed else 0)) % 16 - (8 if signed else 0))
case("3: i4 and u4 wrap; as int8", program("N M", "in a: i4[N,M]; in u: u4[N,M]; out y[i,j] = a[i,j]*a[i,j]; out z[i,j] = u[i,j] + u[i,j]; out s[i] = sum[j] a[i,j] : i32;"),
     dict(a=a4, u=u4), dict(y=w4(a4.astype(int) ** 2, True), z=w4(u4.astype(int) * 2, False), s=a4.sum(1)))

# ---- 3. which dtype a result has
f, h, b, d = normal(9), normal(9).astype(np.float16), bf16(normal(9)), rng.normal(size=9)
i8 = rng.integers(-100, 100, 9).astype(np.int8)
i32 = rng.integers(-1000, 1000, 9).astype(np.int32)
case("3: the wider dtype wins; f16 with bf16 and the two f8 give f32; small integers become the float beside them", program("N", """
  in f: f32[N]; in h: f16[N]; in b: bf16[N]; in d: f64[N]; in q: i8[N]; in n: i32[N]; in e: f8e4m3[N]; in g: f8e5m2[N]; in l: i64[N];
  out fd[i] = f[i]*d[i];  out hf[i] = h[i]*f[i];  out hb[i] = h[i]*b[i];  out eg[i] = e[i]*g[i];  out he[i] = h[i]*e[i];
  out qh[i] = q[i]*h[i];  out nn[i] = 2*n[i];  out hh[i] = 0.5*h[i];  out nl[i] = n[i]+l[i];  out at[i] = i : i64[N];  out sz[i] = N - i : i64[N];
  out c[i] = cast[f32](n[i])*f[i];  out t[i] = cast[i32](3*f[i]);  out lit[i] = 0.1 : f64[N];  out y[i] = n[i] < 0 and not (q[i] > 3) or f[i] != f[i];"""),
     dict(f=f, h=h, b=b, d=d, q=i8, n=i32, e=np.float32([1, 2, .5, -1, 4, 8, .25, 1, 1]), g=np.float32([1, -2, 4, .5, 1, 2, 1, 1, 16]), l=i32.astype(np.int64) << 33),
     dict(fd=f64(f) * d, hf=f64(h) * f, hb=f64(h) * b, eg=[1, -4, 2, -.5, 4, 16, .25, 1, 16], he=f64(h) * [1, 2, .5, -1, 4, 8, .25, 1, 1], qh=(i8 * f64(h)).astype(np.float16), nn=2 * i32,
          hh=(h / 2), nl=i32 + (i32.astype(np.int64) << 33), at=np.arange(9), sz=9 - np.arange(9), c=i32 * f64(f), t=np.trunc(3 * f64(f)).astype(np.int64), lit=np.full(9, 0.1), y=(i32 < 0) & ~(i8 > 3)),
     dtypes=dict(fd=np.float64, hf=np.float32, hb=np.float32, eg=np.float32, he=np.float16, qh=np.float16, nn=np.int32, hh=np.float16, nl=np.int64, at=np.int64, c=np.float32, t=np.int32, y=np.bool_))
E_ = program("N", "in f: f32[N]; in n: i32[N]; in q: i16[N]; in m: b1[N];\nout y[i] = %s;")
for text, code, words in (("f[i]*n[i]", "E0301", ["cast[f32]"]), ("f[i] + q[i]", "E0301", ["cast[f32]"]), ("0.5*n[i]", "E0303", ["n"]), ("f[i]*i", "E0301", ["cast[f32]"]),
                          ("f[i]*m[i]", "E0301", []), ("exp(n[i])", "E0304", ["cast[f32]"]), ("where(f[i], f[i], 0)", "E0305", ["!= 0"]), ("n[i] + inf", "E0303", [])):
    refuse("3: %s" % text, E_ % text, code, words)
refuse("3: an integer accumulator of a float sum", program("N", "in f: f32[N];\nout y[] = sum[i] f[i] : f32 acc i32;"), "E0302", [], caret="i32")
refuse("3: an accumulator narrower than the result", program("N", "in f: f32[N];\nout y[] = sum[i] f[i] : f32 acc f16;"), "E0302", [], caret="f16")

# ---- 3. sums in the accumulator, one rounding a statement
ones = np.ones((3, 4097), np.float16)
case("3: sums of f16 and bf16 are kept in f32", program("N M", "in h: f16[N,M]; in b: bf16[N,M]; out y[i] = sum[j] h[i,j]; out z[i] = sum[j] b[i,j] : f32; out w[i] = sum[j] b[i,j];"),
     dict(h=ones, b=ones.astype(np.float32)), dict(y=np.float16(4097) * np.ones(3), z=[4097] * 3, w=[4096] * 3), rtol=1e-6)
x = np.float16([60000, 2.0 ** -14, 1, 1.0009765625])
case("3: products are formed in the accumulator, a value is rounded once", program("N", "in x: f16[N]; out y[i] = x[i]*x[i]/x[i]; out z[i] = (x[i] + 60000) - 60000; out o[i] = x[i]*2;"),
     dict(x=x), dict(y=x, z=x.astype(np.float32) + np.float32(60000) - np.float32(60000), o=np.float16([np.inf, 2.0 ** -13, 2, 2.001953125])), rtol=1e-3)
case("3: f32 sums in f64 where asked", program("N", "in x: f32[N]; out y[] = sum[i] x[i] : f32 acc f64; out z[] = sum[i] x[i] : f64;"),
     dict(x=np.float32([1e8, 1, -1e8, 1])), dict(y=2.0, z=2.0))
ties = np.array([[1, 5, 5, 2], [0, 0, 0, 0], [-3, -1, -1, -2]], np.float32)
case("3: argmax gives i64, the first on ties; any and all give b1", program("N M", "in A: f32[N,M]; out a[i] = argmax[j] A[i,j]; out y[i] = any[j] (A[i,j] > 4); out z[i] = all[j] (A[i,j] <= 0);"),
     dict(A=ties), dict(a=ties.argmax(1), y=(ties > 4).any(1), z=(ties <= 0).all(1)), dtypes=dict(a=np.int64, y=np.bool_, z=np.bool_))

# ---- functions
v = np.float32([-3, -1, -0.5, -0.0, 0, 0.25, 1, 2.5, 20, -20])
erf = np.vectorize(math.erf)
F = dict(relu=np.maximum(v, 0), relu2=np.maximum(v, 0) ** 2, abs=abs(v), exp=np.exp(f64(v)), tanh=np.tanh(f64(v)), sigmoid=1 / (1 + np.exp(-f64(v))), silu=f64(v) / (1 + np.exp(-f64(v))),
         gelu=0.5 * f64(v) * (1 + erf(f64(v) / 2 ** 0.5)), step=(v > 0).astype(np.float32), sign=np.sign(v))
case("functions of one argument", program("N", "in x: f32[N];\n" + "\n".join("out %s_[i] = %s(x[i]);" % (k, k) for k in F)), dict(x=v), {k + "_": w for k, w in F.items()}, rtol=1e-5)
p = np.float32([0.25, 1, 3, 1e-3, 100])
case("functions of positive arguments, and of two", program("N", "in x: f32[N]; in y: f32[N]; out l[i] = log(x[i]); out s[i] = sqrt(x[i]); out r[i] = rsqrt(x[i]); out p[i] = pow(x[i], y[i]);\n"
     "out a[i] = min(x[i], y[i]); out b[i] = max(x[i], 1); out w[i] = where(x[i] < 1, x[i], -y[i]);"), dict(x=p, y=p[::-1].copy()),
     dict(l=np.log(f64(p)), s=np.sqrt(f64(p)), r=1 / np.sqrt(f64(p)), p=f64(p) ** f64(p[::-1]), a=np.minimum(p, p[::-1]), b=np.maximum(p, 1), w=np.where(p < 1, p, -p[::-1])), rtol=1e-5)

# ---- 4. zeros
A = sp.csr_matrix(np.float32([[1, 0, 2], [0, 0, 0], [0, 3, 0]]))
inf = np.float32([1, np.inf, np.nan])
D = A.toarray()
SKIP = program("N M", "in A: f32[N,M] as csr; in x: f32[M]; out y[i] = sum[j] A[i,j]*x[j];")
case("4: Inf and NaN met only by skipped zeros do not spread", SKIP, dict(A=A, x=inf), dict(y=[np.nan, 0, np.inf]))
case("4: --strict-nan turns skipping off", SKIP, dict(A=A, x=inf), dict(y=[np.nan, np.nan, np.nan]), options=["--strict-nan"])
case("4: --strict-nan of the hinted FFN", program("T D F", "in x: f32[T,D]; in W: f32[D,F]; in V: f32[F,D]; let h[t,f] = relu(sum[d] x[t,d]*W[d,f]) ~ zeros(dynamic); out y[t,o] = sum[f] h[t,f]*V[f,o];"),
     dict(x=-np.ones((3, 4), np.float32), W=np.ones((4, 5), np.float32), V=np.full((5, 4), np.inf, np.float32)), dict(y=np.full((3, 4), np.nan)), options=["--strict-nan"])
Z = np.float32([[-0.0, 1, 0], [2, -0.0, -0.0]])
for fmt in ("csr", "dense"):
    case("4: -0.0 is a zero, %s" % fmt, program("N M", "in Z: f32[N,M] as %s; out y[i,j] = 1.0 on Z[i,j] : f32; out n[i] = sum[j] where(Z[i,j] != 0, 1, 0) : i32; out s[i,j] = sign(Z[i,j]);" % fmt),
         dict(Z=Z), dict(y=(Z != 0) * 1.0, n=(Z != 0).sum(1), s=np.sign(Z)))

# ---- 6. functions over what is not stored
S = sp.random(9, 14, 0.3, "csr", np.float32, 4)
d = f64(S.toarray())
case("6: functions of stored and missing elements", program("N M", """in S: f32[N,M] as csr;
  out e[i,j] = exp(S[i,j]);  out r[i,j] = relu(S[i,j] - 0.5);  out c[i,j] = S[i,j] + 1;  out t[i,j] = 1/(S[i,j] + 2);  out g[i,j] = sigmoid(S[i,j]);
  out k[i,j] = relu(S[i,j]) as like(S);  out m[i,j] = tanh(S[i,j])*3 as csr;  out x[i] = sum[j] exp(S[i,j]);  out z[i] = sum[j] (S[i,j] - 1)*(S[i,j] - 1);"""), dict(S=S),
     dict(e=np.exp(d), r=np.maximum(d - .5, 0), c=d + 1, t=1 / (d + 2), g=1 / (1 + np.exp(-d)), k=np.maximum(d, 0), m=np.tanh(d) * 3, x=np.exp(d).sum(1), z=((d - 1) ** 2).sum(1)), entries=dict(k=(S.nnz, "csr"), m=(S.nnz, "csr")))
refuse("6: exp fills a sparse result", program("N M", "in S: f32[N,M] as csr;\nout y[i,j] = exp(S[i,j]) as csr;"), "E0401", ["exp", "like("])
refuse("6: a dense operand in a sum", program("N M", "in S: f32[N,M] as csr; in B: f32[N,M];\nout y[i,j] = S[i,j] + B[i,j] as csr;"), "E0401", ["B", "like("])


def missed():
    r = spc("compile", write("silu.spx", program("T D F", "in x: f32[T,D]; in W: f32[D,F]; in V: f32[F,D]; let h[t,f] = silu(sum[d] x[t,d]*W[d,f]) ~ zeros(dynamic); out y[t,o] = sum[f] h[t,f]*V[f,o];")))
    check("6: silu makes no exact zeros: a missed-optimisation remark", r.returncode == 0 and "silu" in r.stderr and "M0" in r.stderr, r.stderr)


job("6: silu", missed)

# ---- 13. tests
TEST = """spx 1; dim N: dyn; dim M: dyn; dim E = 9; dim R: dyn;
kernel k { in x: f32[N]; in A: f32[N,M] as csr; in off: i32[E+1]; in w: f32[R]; in s: f32[]; in q: i32[M]; ragged r in off[e]..off[e+1];
  let h[i] = 2*x[i]; out y[i] = h[i] + s + sum[j] A[i,j]*cast[f32](q[j]); out g[e] = sum[r] w[r]; out l[e] = off[e+1] - off[e]; }
test k { N=5, M=7, R=13, E=4; x = iota; A = sparse(3,0.4); off = offsets(2); w = rand(5); s = 1.5; q = randint(1,-4,5); expect y ~= ref; expect g ~= ref, rtol=1e-6; expect h ~= [0,2,4,6,8]; }
test k { N=3, M=3, R=2, E=1; x = [1,-2,inf]; A = eye; off = [0,2]; w = [1,2]; s = -1; q = [3,4,5]; expect y ~= [4,-1,inf]; expect g ~= [3]; expect l ~= [2]; }
"""


def tests(backend):
    r = spc("check", write("t_%s.spx" % backend, TEST), "--backend=" + backend)
    check("13: every generator and literal, on " + backend, r.returncode == 0 and "2 passed, 0 failed" in r.stdout, r.stdout + r.stderr)
    r = spc("check", write("tb_%s.spx" % backend, TEST.replace("[4,-1,inf]", "[4,-1,7]")), "--backend=" + backend)
    check("13: an expectation that fails is exit 3, on " + backend, r.returncode == 3 and "E0709" in r.stderr and "y" in r.stderr, "exit %d %s%s" % (r.returncode, r.stdout, r.stderr))


for backend in BACKENDS:
    job("13", tests, backend)
refuse("13: an input without a value", TEST.replace("s = 1.5; ", ""), "E0219", ["`s`"])
