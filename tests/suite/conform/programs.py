"""Programs of several statements, under the options of a run."""
import numpy as np, scipy.sparse as sp
from numpy.lib.stride_tricks import sliding_window_view
from .harness import *

rng = np.random.default_rng(91)
normal = lambda *shape: rng.normal(size=shape).astype(np.float32)

A, B, d = sp.random(23, 31, 0.2, "csr", np.float32, 1), sp.random(31, 17, 0.2, "csr", np.float32, 2), normal(17, 9)
AB = f64(A.toarray()) @ B.toarray()
R = np.maximum(AB @ d - 0.1, 0)
case("sparse and dense intermediates", program("I J K L", """in A: f32[I,J] as csr; in B: f32[J,K] as csc; in D: f32[K,L];
  let t[i,k] = sum[j] A[i,j]*B[j,k] as csr;  let r[i,l] = relu(sum[k] t[i,k]*D[k,l] - 0.1);  let q[i,l] = r[i,l]*r[i,l];
  out s[i] = sum[l] q[i,l];  out n[i,l] = r[i,l]/(1 + sum[m] r[i,m]);  out w[i,k] = t[i,k]*s[i] as like(t);"""),
     dict(A=A, B=B, D=d), dict(s=(R ** 2).sum(1), n=R / (1 + R.sum(1, keepdims=True)), w=AB * (R ** 2).sum(1)[:, None]))
x = normal(9, 33)
case("norms of rows", program("N D", """in x: f32[N,D]; in g: f32[D];
  let m[i] = (sum[d] x[i,d])/cast[f32](D);  let v[i] = (sum[d] (x[i,d] - m[i])*(x[i,d] - m[i]))/cast[f32](D);  out y[i,d] = (x[i,d] - m[i])*rsqrt(v[i] + 0.00001)*g[d];
  out r[i,d] = x[i,d]*rsqrt((sum[e] x[i,e]*x[i,e])/cast[f32](D) + 0.00001);  out a[i] = argmax[d] abs(x[i,d]);  out l[i] = log(sum[d] exp(x[i,d]));"""),
     dict(x=x, g=x[0].copy()), dict(y=(f64(x) - f64(x).mean(1, keepdims=True)) / np.sqrt(f64(x).var(1, keepdims=True) + 1e-5) * x[0],
                                    r=x / np.sqrt((f64(x) ** 2).mean(1, keepdims=True) + 1e-5), a=abs(x).argmax(1), l=np.log(np.exp(f64(x)).sum(1))))
image, w = normal(2, 3, 8, 9), normal(4, 3, 3, 3)
case("a convolution", program("B C H W O", "in x: f32[B,C,H,W]; in w: f32[O,C,3,3]; out y[b,o,h,v] = sum[c,p,q] w[o,c,p,q]*x[b,c,h+p,v+q] : f32[B,O,H-2,W-2];"),
     dict(x=image, w=w), dict(y=np.einsum("ocpq,bchvpq->bohv", f64(w), sliding_window_view(f64(image), (3, 3), (2, 3)))))
# Products over several indices, side by side and apart; z: with a factor that only some of the left side's indices have.
SIZES = dict(b=2, t=19, u=5, h=3, e=7, d=11, o=6)
for spec in ("td,dhe->the", "td,hed->the", "the,heo->to", "the,ohe->to", "the,oeh->to", "btd,do->bto", "btd,bod->bto", "the,uhe->tuh", "the,uhe->htu", "htu,uhe->the", "bthe,buhe->bhtu", "bhtu,bhue->bthe",
             "bthe,he->bt", "bthe,bthe->he", "hed,thd->teh", "the,e->th", "the,the->t", "bhtu,bhtu->", "th,he,eo->to"):
    sides, left = spec.split("->")
    sides = sides.split(",")
    free, names = sorted(set(spec) & set(SIZES)), "xwv"
    arrays = {names[i]: normal(*(SIZES[c] for c in side)) for i, side in enumerate(sides)}
    summed = sorted(set("".join(sides)) - set(left), key="".join(sides).index)
    product = "sum[%s] %s" % (",".join(summed), "*".join("%s[%s]" % (names[i], ",".join(side)) for i, side in enumerate(sides)))
    text, want = "out y[%s] = %s;" % (",".join(left), product), dict(y=np.einsum(spec, *(f64(a) for a in arrays.values())))
    declared = " ".join("in %s: f32[%s];" % (names[n], ",".join(side.upper())) for n, side in enumerate(sides))
    if left[-1:]:
        arrays["g"] = normal(SIZES[left[-1]])
        declared += " in g: f32[%s];" % left[-1].upper()
        text += " out z[%s] = g[%s] + %s;" % (",".join(left), left[-1], product)
        want["z"] = want["y"] + arrays["g"]
    case("several indices: " + spec, program(" ".join(c.upper() for c in free), declared + "\n" + text.replace("y[]", "y[]")), arrays, want)
# Heads in groups: G is h by the number of heads of a group; scores, values and both with what stands between them, also of one query (i of one, or none).
for spec in ("bhid,bGjd->bhij", "bhij,bGjd->bhid", "bihd,bjGd->bhij", "bhij,bjGd->bihd", "hid,Gjd->hij", "ihd,jGd->ihj", "bhd,bGjd->bhj", "bhj,bGjd->bhd", "bhd,bjGd->bhj", "bhj,bjGd->bhd", "hd,jGd->hj", "ihd,Gdj->hij", "hdi,Gjd->hji", "Gjd,hid->hji",
             "hid,Gd->hi", "hid,Ge->hide"):
    for by, queries in ((4, 13), (3, 1), (7, 65)):
        sizes = dict(b=2, h=2 * by, G=2, i=queries, j=21, d=24, e=5)
        sides, left = spec.split("->")
        sides = sides.split(",")
        q, k = (normal(*(sizes[c] for c in side)) for side in sides)
        whole = [np.repeat(f64(x), by, side.index("G")) if "G" in side else f64(x) for x, side in zip((q, k), sides)]
        summed = sorted(set("".join(sides)) - set(left) - {"G"})
        read = lambda side: ",".join("h/%d" % by if c == "G" else c for c in side)
        declared = " ".join("in %s: f32[%s];" % (name, ",".join("%d*G" % by if c == "h" else c.upper() for c in side)) for name, side in zip("qk", sides))
        at, product = ",".join(left), ("sum[%s] " % ",".join(summed) if summed else "") + "q[%s]*k[%s]" % (read(sides[0]), read(sides[1]))
        text = "out y[%s] = 0.5 * %s;  let u[%s] = %s on h %% 2 == 0;  out z[%s] = u[%s] + cast[f32](h);" % (at, product, at, product, at, at)
        y = np.einsum(spec.replace("G", "h"), *whole)
        heads = np.arange(2 * by).reshape([-1 if c == "h" else 1 for c in left])
        case("heads in groups of %d: %s" % (by, spec), program(" ".join(c.upper() for c in sizes if c in spec and c != "h"), declared + " " + text), dict(q=q, k=k), dict(y=y / 2, z=y * (heads % 2 == 0) + heads))
for where, mask in (("", None), (" on j <= i fill -inf", np.tril(np.ones((17, 17)))), (" on M[i,j] fill -inf", sp.random(17, 17, 0.4, "csr", np.float32, 5))):
    q, k, v = normal(2, 6, 17, 8), normal(2, 2, 17, 8), normal(2, 2, 17, 8)
    on = np.ones((17, 17)) if mask is None else f64(mask.toarray() if sp.issparse(mask) else mask) != 0
    s = np.where(on, np.einsum("bhid,bhjd->bhij", f64(q), np.repeat(f64(k), 3, 1)), -np.inf)
    p = np.nan_to_num(np.exp(s - s.max(-1, keepdims=True)))
    p = np.nan_to_num(p / p.sum(-1, keepdims=True))
    given = "in M: pattern[S,S] as csr; " if "M" in where else ""
    case("attention of grouped heads" + where, program("B G R S D", given + """in q: f32[B,R*G,S,D]; in k: f32[B,G,S,D]; in v: f32[B,G,S,D];
  let s[b,h,i,j] = sum[d] q[b,h,i,d]*k[b,h/R,j,d]%s;  let p[b,h,i,j] = softmax[j](s[b,h,i,j]);  out o[b,i,n,d] = sum[j] p[b,n,i,j]*v[b,n/R,j,d];""" % where),
         dict(q=q, k=k, v=v, **({"M": mask} if given else {})), dict(o=np.einsum("bhij,bhjd->bihd", p, np.repeat(f64(v), 3, 1))))
stored = sp.random(6, 11, 0.4, "csr", np.float32, 3)
x = normal(2, 19, 11)
case("entries beside tensors of three dimensions", program("B T D O", "in x: f32[B,T,D]; in S: f32[O,D] as csr; out y[b,t,o] = sum[d] x[b,t,d]*S[o,d]; out s[o] = sum[d] S[o,d];"), dict(x=x, S=stored), dict(y=np.einsum("btd,od->bto", f64(x), f64(stored.toarray())), s=stored.toarray().sum(1)))
E, at, S = normal(20, 6), rng.integers(0, 20, 15).astype(np.int64), sp.random(15, 20, 0.3, "csr", np.float32, 7)
case("gathers from dense and sparse tensors", program("V D T", """in E: f32[V,D]; in p: i64[T]; in S: f32[T,V] as csr;
  out y[t,d] = E[p[t],d]*2;  out z[t] = S[t,p[t]];  out g[t,d] = sum[v] S[t,v]*E[v,d];  out h[t,v] = S[t,v]*E[p[t],0] as csr;  out k_[p[t]] += S[t,v] : f32[V];"""),
     dict(E=E, p=at, S=S), dict(y=2 * E[at], z=S.toarray()[np.arange(15), at], g=f64(S.toarray()) @ f64(E), h=S.toarray() * E[at, 0][:, None], k_=np.array([f64(S.toarray())[at == v].sum() for v in range(20)])))
off = np.array([0, 3, 3, 8, 14], np.int32)
seg = [slice(off[e], off[e + 1]) for e in range(4)]
T, W, v = sp.random(14, 18, 0.25, "csr", np.float32, 4), normal(4, 18, 5), normal(14)
t = f64(T.toarray())
soft = np.concatenate([np.exp(f64(v[s])) / np.exp(f64(v[s])).sum() for s in seg])
case("sparse rows in segments", program("E R D F", """in off: i32[E+1]; in S: f32[R,D] as csr; in W: f32[E,D,F]; in v: f32[R];  ragged r in off[e]..off[e+1];
  out y[r,f] = sum[d] S[r,d]*W[e,d,f];  out s[e,d] = sum[r] S[r,d];  out m[e] = max[r] v[r];  out g[e,d] = sum[r] S[r,d]*v[r];  let z[e] = sum[r] exp(v[r]);  out p[r] = exp(v[r])/z[e];"""),
     dict(off=off, S=T, W=W, v=v), dict(y=np.concatenate([t[s] @ W[e] for e, s in enumerate(seg)]), s=np.array([t[s].sum(0) for s in seg]), m=np.array([v[s].max(initial=-np.inf) for s in seg]),
                                        g=np.array([f64(v[s]) @ t[s] for s in seg]), p=soft))
P, dist = sp.random(14, 14, 0.3, "csr", np.float32, 9), rng.random(14).astype(np.float32)
edge, length = P.toarray() != 0, P.toarray()
case("shortest paths: min and +, any and all over a pattern", program("N", """in P: pattern[N,N] as csr; in A: f32[N,N] as csr; in d: f32[N];
  let w[i,j] = A[i,j] + d[j] on P[i,j] fill inf;  out y[i] = min[j] w[i,j];  out r[i] = any[j] (P[i,j] and d[j] > 0.5);  out n[i] = sum[j] where(P[i,j], 1, 0) : i32;  out b[i] = all[j] (not P[i,j] or d[j] > 0.1);"""),
     dict(P=P, A=P, d=dist), dict(y=np.where(edge, length + dist, np.inf).min(1), r=(edge & (dist > 0.5)).any(1), n=edge.sum(1), b=(~edge | (dist > 0.1)).all(1)))

X, W1, W2, M = normal(14, 18), normal(18, 30), normal(30, 18), sp.random(14, 18, 0.25, "csr", np.float32, 1)
H = np.maximum(f64(X) @ W1, 0)
soft = np.exp(H - H.max(1, keepdims=True))
for options in ("", "--reproducible", "--batch-invariant", "--strict-nan", "--force-guard=sparse", "--force-guard=dense", "--check-inputs", "--threads=3", "--fallback=dense", "--disable-pass=fuse"):
    case("the same values under `%s`" % options, program("T D F", """in x: f32[T,D]; in W: f32[D,F] const; in V: f32[F,D]; in A: f32[T,D] as csr;
  let h[t,f] = relu(sum[d] x[t,d]*W[d,f]) ~ zeros(dynamic, density=0.05);  out y[t,o] = sum[f] h[t,f]*V[f,o];  out z[t,f] = sum[d] A[t,d]*W[d,f];  out s[t,d] = A[t,d]*x[t,d] as csr;  out a[t,f] = softmax[f](h[t,f]);"""),
         dict(x=X, W=W1, V=W2, A=M), dict(y=H @ W2, z=f64(M.toarray()) @ W1, s=M.toarray() * X, a=soft / soft.sum(1, keepdims=True)), options=options.split(), rtol=1e-4)
x, g, q, h = bf16(normal(96, 512)), bf16(normal(512, 192)), rng.integers(-128, 128, (512, 192)).astype(np.int8), normal(96, 512)
s, r, one = normal(192), 1 + rng.random(96).astype(np.float32), np.float32([3])
X, G, Q = f64(x), f64(g), f64(q)
case("factors that leave a sum, and operands of two dtypes", program("T K N", """in x: bf16[T,K]; in g: bf16[K,N]; in q: i8[K,N] const; in h: f32[T,K]; in s: f32[N]; in r: f32[T]; in c: f32[1];
  out a[t,n] = sum[k] c[0]*x[t,k]*g[k,n] : f32;  out b[t,n] = sum[k] x[t,k]*g[k,n]*s[n]/r[t] : f32;  out d[t,n] = sum[k] x[t,k]*(q[k,n]*s[n]) : f32;
  out e[t,n] = sum[k] x[t,k]*q[k,n] : f32 acc f32;  out f[t,n] = sum[k] h[t,k]*g[k,n] : f32;"""),
     dict(x=x, g=g, q=q, h=h, s=s, r=r, c=one), dict(a=3 * X @ G, b=X @ G * s / r[:, None], d=X @ (Q * s), e=X @ Q, f=f64(h) @ G), rtol=1e-4)
for dtype, kind, limit in (("bf16", bf16, 1e-4), ("f16", np.float16, 1e-4)):
    for T, N, K in ((1, 72, 512), (5, 40, 384), (16, 129, 256), (33, 64, 640), (70, 200, 1024)):
        x, q, s, r, b = kind(normal(T, K)), rng.integers(-128, 128, (N, K)).astype(np.int8), normal(N, K // 128), kind(normal(N, K // 64)), normal(N)
        X, Q, S, R = f64(x), f64(q), np.repeat(f64(s), 128, 1), np.repeat(f64(r), 64, 1)
        case("8-bit factors and their scales, %s, %d x %d x %d" % (dtype, T, N, K), program("T K N", """in x: %s[T,K]; in q: i8[N,K]; in s: f32[N,K/128]; in r: %s[N,K/64]; in b: f32[N];
  let W[n,k] = q[n,k]*s[n,k/128];  let V[n,k] = cast[f32](q[n,k])*r[n,k/64];
  out a[t,n] = relu(b[n] + sum[k] x[t,k]*W[n,k]) : f32;  out c[n,t] = sum[k] q[n,k]*x[t,k] : f32 acc f32;  out d[t,n] = b[n]*sum[k] x[t,k]*V[n,k] : f32;
  out e[t,n] = sum[k] x[t,k]*s[n,k/128]*q[n,k] : f32 acc f32;""" % (dtype, dtype)),
             dict(x=x, q=q, s=s, r=r, b=b), dict(a=np.maximum(b + X @ (Q * S).T, 0), c=Q @ X.T, d=b * (X @ (Q * R).T), e=X @ (Q * S).T), rtol=limit)
x, q, s = bf16(normal(3, 7, 256)), rng.integers(-128, 128, (3, 48, 256)).astype(np.int8), normal(3, 48, 8)
X, Q = f64(x), f64(q)
case("8-bit factors of batches, and groups that no kernel takes", program("B T K N", """in x: bf16[B,T,K]; in q: i8[B,N,K]; in s: f32[B,N,K/32]; in g: f32[B,N,K/128];
  out a[b,t,n] = sum[k] x[b,t,k]*(q[b,n,k]*s[b,n,k/32]) : f32;  out c[b,t,n] = sum[k] x[b,t,k]*(q[b,n,k]*g[b,n,k/128]) : f32;
  out d[b,t,n] = sum[k] x[b,t,k]*(q[0,n,k]*g[0,n,k/128]) : f32;  out e[b,n] = sum[k] x[b,0,k]*q[b,n,k] : f32 acc f32;"""),
     dict(x=x, q=q, s=s, g=s[..., :2].copy()), dict(a=np.einsum("btk,bnk->btn", X, Q * np.repeat(s, 32, 2)), c=np.einsum("btk,bnk->btn", X, Q * np.repeat(s[..., :2], 128, 2)),
     d=np.einsum("btk,nk->btn", X, (Q * np.repeat(s[..., :2], 128, 2))[0]), e=np.einsum("bk,bnk->bn", X[:, 0], Q)), rtol=1e-4)
