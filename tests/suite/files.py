"""Arrays on disk against NumPy and SciPy: every dtype, order and container in, .npy and .npz out, damage refused."""
import json, struct
import numpy as np, scipy.sparse as sp, scipy.io
from harness_data import *

rng = np.random.default_rng(0)
NP = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "i64": np.int64, "i32": np.int32, "i16": np.int16, "i8": np.int8, "u8": np.uint8, "b1": np.bool_}
np.seterr(all="ignore")


def copy_program(dtype, shape="N,M", fmt="", out=""):
    index = ",".join("ij"[:shape.count(",") + 1]) if shape else ""
    dims = "".join("dim %s: dyn; " % d for d in shape.split(",") if d)
    return write("copy.spx", "spx 1; %skernel k { in x: %s[%s]%s; out y[%s] = x[%s]%s; }\n" % (dims, dtype, shape, fmt, index, index, out))


def run(program, source, name="y.npy"):
    r = spc("run", program, "--backend=interp", "--bind", "x=" + source, "--out", "y=" + path(name))
    return r


def raw_bits(dtype, bits):
    return {"bf16": lambda b: (b.astype(np.uint32) << 16).view(np.float32)}[dtype](bits)


for dtype, t in NP.items():
    a = (rng.integers(-100, 100, (3, 5)) if dtype[0] in "iub" else rng.normal(size=(3, 5)) * 50).astype(t)
    for order in "CF":
        np.save(path("x.npy"), np.asarray(a, order=order))
        r = run(copy_program(dtype), path("x.npy"))
        check("%s in %s order" % (dtype, order), r.returncode == 0 and np.array_equal(np.load(path("y.npy")), a) and np.load(path("y.npy")).dtype == a.dtype, r.stderr)
np.save(path("s.npy"), np.float32(2.5))
r = run(copy_program("f32", ""), path("s.npy"))
check("a scalar is an array of rank 0", r.returncode == 0 and np.load(path("y.npy")).shape == () and np.load(path("y.npy")) == 2.5, r.stderr)
bits = rng.integers(0, 0x7f00, (4, 4)).astype(np.uint16)
np.save(path("x.npy"), bits)
r = run(copy_program("bf16"), path("x.npy"))
check("bf16 from uint16 bits, written as float32", r.returncode == 0 and np.array_equal(np.load(path("y.npy")), raw_bits("bf16", bits)), r.stderr)
a = rng.normal(size=(4, 4)).astype(np.float32)
np.save(path("x.npy"), a)
r = run(copy_program("bf16"), path("x.npy"))
y = np.load(path("y.npy"))
check("bf16 from float32, rounded to nearest", r.returncode == 0 and np.all(np.abs(y - a) <= np.abs(a) * 2.0 ** -8) and np.all(y.view(np.uint32) & 0xffff == 0), r.stderr)
for dtype in ("f8e4m3", "f8e5m2"):
    r = run(copy_program(dtype), path("x.npy"))
    check(dtype + " from float32", r.returncode == 0 and np.all(np.abs(np.load(path("y.npy")) - a) <= np.abs(a) * (0.0626 if dtype == "f8e4m3" else 0.126) + 0.002), r.stderr)
np.save(path("x.npy"), rng.integers(-8, 8, (4, 4)).astype(np.int8))
check("i4 from int8 in range", run(copy_program("i4"), path("x.npy")).returncode == 0 and np.array_equal(np.load(path("y.npy")), np.load(path("x.npy"))))
np.save(path("x.npy"), np.full((4, 4), 9, np.int8))
check("i4 out of range is exit 1", run(copy_program("i4"), path("x.npy")).returncode == 1)
np.save(path("x.npy"), np.array([[0, 1], [7, 0]], np.uint8))
check("b1 from uint8", run(copy_program("b1"), path("x.npy")).returncode == 0 and np.array_equal(np.load(path("y.npy")), [[False, True], [True, False]]))
np.save(path("x.npy"), np.zeros((0, 5), np.float32))
check("an empty array", run(copy_program("f32"), path("x.npy")).returncode == 0 and np.load(path("y.npy")).shape == (0, 5))

# ---- sparse files in, scipy's .npz out
S = sp.random(17, 23, 0.2, random_state=1, dtype=np.float32, format="csr")
S[3] = 0
S.eliminate_zeros()
sources = {"csr": S, "csc": S.tocsc(), "coo": S.tocoo(), "bsr": S.tobsr((1, 1))}
for kind, m in sources.items():
    for compressed in (False, True):
        sp.save_npz(path("x.npz"), m, compressed=compressed)
        for fmt in ("csr", "csc", "coo", "dcsr", "bsr(2,3)", "csf", "ell(23)", "bitmap(4,4)", "twell(8,2)"):
            r = run(copy_program("f32", fmt=" as " + fmt, out=" as like(x)"), path("x.npz"), "y.npz")
            got = sp.load_npz(path("y.npz")) if r.returncode == 0 else None
            good = got is not None and abs(got - S).sum() == 0 and (fmt.split("(")[0] not in ("csr", "csc", "coo") or got.format == fmt)
            if not check("scipy %s%s into %s and back" % (kind, " compressed" if compressed else "", fmt), good, r.stderr):
                break
dense = np.asarray(S.todense())
np.save(path("x.npy"), dense)
r = run(copy_program("f32", fmt=" as csr", out=" as like(x)"), path("x.npy"))
check("a dense .npy for a sparse operand, written dense, with a remark", r.returncode == 0 and np.array_equal(np.load(path("y.npy")), dense) and "remark" in r.stderr, r.stderr)
for symmetry in ("general", "symmetric", "skew-symmetric"):
    m = {"general": S.astype(np.float64), "symmetric": (S[:, :17] + S[:, :17].T).astype(np.float64), "skew-symmetric": (S[:, :17] - S[:, :17].T).astype(np.float64)}[symmetry]
    scipy.io.mmwrite(path("x.mtx"), m, symmetry=symmetry, precision=17)
    r = run(copy_program("f64", fmt=" as csr", out=" as like(x)"), path("x.mtx"))
    check("Matrix Market, " + symmetry, r.returncode == 0 and np.allclose(np.load(path("y.npy")), m.toarray(), rtol=0, atol=0), r.stderr)
scipy.io.mmwrite(path("x.mtx"), dense.astype(np.float64), precision=17)
r = run(copy_program("f64"), path("x.mtx"))
check("Matrix Market array", r.returncode == 0 and np.array_equal(np.load(path("y.npy")), dense.astype(np.float64)), r.stderr)
csr = S.tocsr()
write("x.smtx", "%d, %d, %d\n%s\n%s\n" % (*S.shape, S.nnz, " ".join(map(str, csr.indptr)), " ".join(map(str, csr.indices))))
p = write("pattern.spx", "spx 1; dim N: dyn; dim M: dyn; kernel k { in m: pattern[N,M] as csr; out y[i,j] = where(m[i,j], 1.0, 0.0) : f32; }\n")
r = spc("run", p, "--backend=interp", "--bind", "m=" + path("x.smtx"), "--out", "y=" + path("y.npy"))
check(".smtx as a pattern", r.returncode == 0 and np.array_equal(np.load(path("y.npy")) != 0, dense != 0), r.stderr)
coo3 = [(1, 2, 3, 1.5), (4, 1, 1, -2.0), (2, 2, 2, 3.25)]
write("x.tns", "# a tensor\n" + "".join("%d %d %d %r\n" % e for e in coo3))
p = write("t3.spx", "spx 1; dim A: dyn; dim B: dyn; dim C: dyn; kernel k { in x: f32[A,B,C] as csf; out y[i,j,l] = x[i,j,l]; }\n")
r = spc("run", p, "--backend=interp", "--bind", "x=" + path("x.tns"), "--out", "y=" + path("y.npy"))
want = np.zeros((4, 2, 3), np.float32)
for i, j, k, v in coo3:
    want[i - 1, j - 1, k - 1] = v
check(".tns of three dimensions", r.returncode == 0 and np.array_equal(np.load(path("y.npy")), want), r.stderr)


def safetensors(tensors, name="x.safetensors"):
    header, data = {}, b""
    for key, (dtype, array) in tensors.items():
        b = array.tobytes()
        header[key] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(b)]}
        data += b
    text = json.dumps(dict(header, __metadata__={"format": "pt"})).encode()
    return write(name, struct.pack("<Q", len(text)) + text + data)


f = safetensors({"a.w": ("F32", a), "b": ("BF16", bits)})
r = run(copy_program("f32"), f + ":a.w")
check("safetensors float32", r.returncode == 0 and np.array_equal(np.load(path("y.npy")), a), r.stderr)
r = run(copy_program("bf16"), f + ":b")
check("safetensors bfloat16", r.returncode == 0 and np.array_equal(np.load(path("y.npy")), raw_bits("bf16", bits)), r.stderr)
r = run(copy_program("f32"), f + ":c")
check("a tensor that is not in the file is exit 5 and the names are listed", r.returncode == 5 and "a.w" in r.stderr, r.stderr)
np.save(path("x.npy"), np.array([[1, 2, 3, 4]], np.float32))
r = run(copy_program("f32", fmt=" as nm(2,4)"), path("x.npy"))
check("three of four in nm(2,4) is exit 1", r.returncode == 1, r.stderr)

# ---- positions are as wide as the file has them; coordinates beyond 2^31
wide = S.astype(np.float32).tocsr()
wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
product = write("product.spx", "spx 1; dim N: dyn; dim M: dyn; kernel k { in x: f32[N,M] as csr; in v: f32[M]; out y[i,j] = 2*x[i,j] + x[i,j] as csr; out s[i] = sum[j] x[i,j]*v[j]; }\n")
np.save(path("v.npy"), rng.integers(-8, 9, S.shape[1]).astype(np.float32))
for name, m, want in (("i32", S, np.int32), ("i64", wide, np.int64)):
    sp.save_npz(path("x.npz"), m)
    for backend in ("interp", "cpu"):
        r = spc("run", product, "--backend=" + backend, "--bind", "x=" + path("x.npz"), "--bind", "v=" + path("v.npy"), "--out", "y=" + path("y.npz"), "--out", "s=" + path("s.npy"))
        held = dict(np.load(path("y.npz"))) if r.returncode == 0 else {}
        check("%s positions, %s" % (name, backend), r.returncode == 0 and held["indices"].dtype == want and held["indptr"].dtype == want
              and abs(sp.load_npz(path("y.npz")) - 3 * S).max() < 1e-5 and np.allclose(np.load(path("s.npy")), S @ np.load(path("v.npy")), atol=1e-4), r.stderr)
far = 3_000_000_000
places = np.array([0, 5, 2**31 - 1, 2**31, far - 1])
A = sp.coo_array((np.arange(1, 6, dtype=np.float32), (np.array([0, 0, 1, 3, 3]), places)), shape=(4, far)).tocsr()
B = sp.coo_array((np.full(3, 2, np.float32), (np.array([0, 1, 3]), np.array([5, 2**31, far - 1]))), shape=(4, far)).tocsr()
sp.save_npz(path("a.npz"), A)
sp.save_npz(path("b.npz"), B)
for fmt in ("csr", "coo", "dcsr", "csf"):
    p = write("far.spx", "spx 1; dim N: dyn; dim M: dyn; kernel k { in A: f32[N,M] as %s; in B: f32[N,M] as csr; out C[i,j] = A[i,j] + B[i,j] as csr; out D[i,j] = A[i,j]*B[i,j] as %s; out s[i] = sum[j] A[i,j]; }\n" % (fmt, "csr" if fmt == "csf" else fmt))
    for backend in ("interp", "cpu"):
        r = spc("run", p, "--check-inputs", "--backend=" + backend, *[a for n in "AB" for a in ("--bind", "%s=%s" % (n, path(n.lower() + ".npz")))], *[a for n in ("C=c.npz", "D=d.npz", "s=s.npy") for a in ("--out", n[:2] + path(n[2:]))])
        good = r.returncode == 0 and abs(sp.load_npz(path("c.npz")).tocsr() - (A + B)).max() == 0 and abs(sp.load_npz(path("d.npz")).tocsr() - A.multiply(B)).max() == 0
        check("coordinates beyond 2^31, %s, %s" % (fmt, backend), good and np.array_equal(np.load(path("s.npy")), np.asarray(A.sum(axis=1)).ravel()), r.stderr)
r = spc("run", p, "--positions=i32", "--bind", "A=" + path("a.npz"), "--bind", "B=" + path("b.npz"))
check("do not fit --positions=i32", r.returncode == 1 and "does not fit in i32" in r.stderr, r.stderr)
check("and positions of another width are a usage error", spc("run", p, "--positions=i16").returncode == 2)

# ---- damage: every truncation and many flipped bytes give exit 0 or a clean error, never a crash
sp.save_npz(path("d.npz"), sources["csr"], compressed=True)
scipy.io.mmwrite(path("d.mtx"), S.astype(np.float64))
np.save(path("d.npy"), dense)
victims = {"d.npz": " as csr", "d.mtx": " as csr", "d.npy": ""}
for name, fmt in victims.items():
    blob = open(path(name), "rb").read()
    program = copy_program("f64" if name == "d.mtx" else "f32", fmt=fmt)
    bad = []
    cuts = [blob[:n] for n in sorted({0, 1, 9, 10, 50, 127, 128, len(blob) // 2, len(blob) - 1, len(blob) - 20})]
    flips = []
    for _ in range(30):
        b = bytearray(blob)
        b[rng.integers(0, min(len(b), 400))] ^= 1 << rng.integers(0, 8)
        flips.append(bytes(b))
    for variant in cuts + flips:
        r = run(program, write("broken" + name[1:], variant))
        if r.returncode not in (0, 1, 5) or (r.returncode and not r.stderr):
            bad.append((len(variant), r.returncode, r.stderr[:200]))
    check("damaged %s never crashes" % name, not bad, bad[:3])
check("a big-endian file is refused by name", "big-endian" in (np.save(path("x.npy"), a.astype(">f4")), run(copy_program("f32"), path("x.npy")))[1].stderr)
np.savez(path("x.npz"), a=a)
check("an .npz that scipy did not write is exit 5", run(copy_program("f32", fmt=" as csr"), path("x.npz")).returncode == 5)
close()
