"""The Python package: from arrays to results in every kind of array, errors with their places, installation by pip."""
import shutil
import numpy as np
from harness_data import *

sys.path.insert(0, os.path.join(ROOT, "python"))
os.environ["SPC_LIBRARY"] = os.path.join(os.path.dirname(SPC), "libspc.so")
if SANITIZED:
    skip("the Python package: a sanitized library cannot be loaded into Python")
    close()
import scipy.sparse as sp
import spc as package

rng = np.random.default_rng(5)
kinds = [b for b in ("interp", "cpu", "cuda") if b in backends()]


def raises(kind, words, work):
    try:
        work()
    except kind as e:
        return check("%s says %s" % (kind.__name__, words), all(w in str(e) for w in words), str(e)) and e
    check("%s is raised: %s" % (kind.__name__, words), False)


def near(what, got, want, bound):
    got, want = np.asarray(got, float), np.asarray(want, float)
    check(what, got.shape == want.shape and np.linalg.norm(got - want) <= bound * max(np.linalg.norm(want), 1e-30), "%s\n%s" % (got, want))


for backend in kinds:
    # ---- the feed-forward layer of the examples ---------------------------------------------------------------
    ffn = package.compile(os.path.join(ROOT, "examples/ffn.spx"), D=64, F=128, backend=backend)
    check("%s: what a kernel is" % backend, (ffn.inputs, ffn.outputs, ffn.backend) == (["x", "W1", "W2"], ["y"], backend), repr(ffn))
    W1, W2 = rng.standard_normal((64, 128)).astype("f4") * 0.1, rng.standard_normal((128, 64)).astype("f4") * 0.1
    for tokens in (5, 0, 33):
        x = rng.standard_normal((tokens, 64)).astype("f4")
        y = ffn(package.bf16(x), W2=package.bf16(W2), W1=package.bf16(W1))
        near("%s: %d tokens" % (backend, tokens), package.f32(y), np.maximum(x @ W1, 0) @ W2, 3e-2)

    # ---- stored operands in SciPy's formats, results of computed and of shared patterns ------------------------
    forms = {"csr": "csr", "csc": "csc", "coo": "coo", "bsr": "bsr(3,2)"}
    for mine in forms:
        for theirs in forms:
            add = package.compile("spx 1; dim N: dyn; dim M: dyn; kernel add { in A: f32[N,M] as %s; in B: f32[N,M] as csr; out C[i,j] = A[i,j] + B[i,j] as %s; }"
                                  % (forms[mine], forms[theirs]), backend=backend) if backend != "cuda" or "bsr" not in (mine, theirs) else None
            if not add:
                continue
            A = sp.random_array((12, 10), density=0.3, dtype="f4", rng=rng, format="coo")
            B = sp.random_array((12, 10), density=0.2, dtype="f4", rng=rng, format="csr")
            C = add(A=A, B=B)
            check("%s: a %s and a csr array make a %s array" % (backend, mine, theirs), C.format == theirs and abs(C - (A + B)).max() == 0, C)
    sddmm = package.compile("spx 1; dim N: dyn; dim M: dyn; dim K: dyn; kernel k { in S: f32[N,M] as csr; in A: f32[N,K]; in B: f32[M,K];"
                            " out C[i,j] = S[i,j] * sum[k] A[i,k]*B[j,k] as like(S); }", backend=backend)
    S, A, B = sp.random_array((9, 11), density=0.3, dtype="f4", rng=rng, format="csr"), rng.random((9, 4), "f4"), rng.random((11, 4), "f4")
    C = sddmm(S, A, B)
    near("%s: a result like an operand" % backend, C.toarray(), S.toarray() * (A @ B.T), 1e-5)
    check("%s: has its pattern" % backend, (C.indices == S.indices).all() and (C.indptr == S.indptr).all())

    # ---- dtypes, several results, numbers, tensors of any order, two kernels -------------------------------------
    for name in ("f64", "f32", "f16", "i64", "i32", "i16", "i8", "u8"):
        dtype = package._arrays.DTYPES[name]
        two = package.compile("spx 1; dim N: dyn; kernel two { in x: %s[N]; in a: %s[]; out y[i] = x[i] + a; out s = max[i] x[i]; }" % (name, name), backend=backend)
        x = rng.integers(0, 50, 7).astype(dtype)
        y, s = two(x, 2)
        check("%s: %s" % (backend, name), y.dtype == dtype and (y == x + 2).all() and s.shape == () and s == x.max(), (x, y, s))
    both = package.Program("spx 1; dim N: dyn; kernel one { in x: f32[N]; out y[i] = 2*x[i]; } kernel three { in x: f32[N,2,3]; out y[c,b,a] = x[a,b,c]; }", backend=backend)
    x = rng.random((4, 2, 3), "f4")
    check("%s: two kernels" % backend, both.kernels == ["one", "three"] and (both["three"](x) == x.transpose()).all() and (both.kernel("one")(x[0, 0]) == 2 * x[0, 0]).all())
    turned = np.asfortranarray(rng.random((4, 6), "f4"))
    rows = package.compile("spx 1; dim N: dyn; dim M: dyn; kernel rows { in x: f32[N,M]; out y[i] = sum[j] x[i,j]; }", backend=backend)
    near("%s: an array of another order" % backend, rows(turned), turned.sum(1), 1e-6)
    near("%s: and every second column" % backend, rows(turned[:, ::2]), turned[:, ::2].sum(1), 1e-6)
    # ---- layouts: what is declared against how the array lies ---------------------------------------------------
    wide = rng.random((9, 14), "f4")
    views = {"rows that lie apart": wide[:5, :7], "rows and an offset": wide[2:7, 3:10], "every second row": wide[:9:2, :7], "another order": np.asfortranarray(wide[:5, :7]),
             "columns that lie apart": np.asfortranarray(wide)[:5, :7], "turned round": wide[:5, :7][::-1], "one row for all": np.broadcast_to(wide[0, :7], (5, 7)),
             "one row": wide[3:4, :7], "no row": wide[:0, :7], "every second element": wide[:5, ::2], "off its alignment": np.frombuffer(b"x" + wide[:5].tobytes(), "u1")[1:].view("f4").reshape(5, 14)[:, :7]}
    W = rng.random((7, 5), "f4")
    for layout in ("dense", "dense_t"):
        product = package.compile("spx 1; dim N: dyn; dim D: dyn; dim O: dyn; kernel k { in x: f32[N,D] as %s; in W: f32[D,O] as %s; out y[i,o] = sum[d] x[i,d]*W[d,o] as %s; out z[i,d] = 2*x[i,d]; }"
                                  % (layout, layout, layout), backend=backend)
        for what, x in views.items():
            y, z = product(x, W)
            check("%s: %s, %s" % (backend, layout, what), y.shape == (len(x), 5) and np.allclose(y, x @ W, 1e-5, 1e-6) and (z == 2 * x).all(), (y, x @ W))
    cube = rng.random((6, 5, 8), "f4")
    turn = package.compile("spx 1; dim A: dyn; dim B: dyn; dim C: dyn; format mine = [i,j,k] -> [k: dense, i: dense, j: dense];"
                           " kernel k { in x: f32[A,B,C] as mine; in u: f32[A,B,C]; out y[i,j,k] = x[i,j,k] - u[i,j,k] as mine; }", backend=backend)
    for what, x in {"whole": cube, "a part": cube[:4, :3, :5], "a padded batch": cube[:, :3, :], "every second": cube[::2, :, ::2], "other axes": cube.transpose(2, 0, 1)}.items():
        y = turn(x, x * 3)
        check("%s: a layout of one's own, %s" % (backend, what), y.shape == x.shape and (y == x - x * 3).all(), y)
    views16 = package.bf16(wide)
    check("%s: rows of bf16 that lie apart" % backend, np.allclose(package.f32(package.compile(
        "spx 1; dim N: dyn; dim D: dyn; kernel k { in x: bf16[N,D]; out y[i,d] = x[i,d] * 2; }", backend=backend)(views16[1:6, 2:9])), 2 * package.f32(views16)[1:6, 2:9]))
    check("%s: a format of one's own" % backend, (package.compile(
        "spx 1; dim N: dyn; dim M: dyn; format mine = [i,j] -> [i: compressed, j: compressed]; kernel k { in A: f32[N,M] as mine; out y[i] = sum[j] A[i,j]; }", backend=backend)(
        package.Sparse((4, 5), np.array([1, 2, 3], "f4"), {0: [0, 2], 1: [0, 2, 3]}, {0: [1, 3], 1: [0, 4, 2]})) == [0, 3, 0, 3]).all())

# ---- what is wrong is said -------------------------------------------------------------------------------------
scale = package.compile("spx 1; dim N: dyn; kernel scale { in x: f32[N]; in z: f32[N]; out y[i] = x[i] + z[i]; }", backend="interp")
x = np.ones(3, "f4")
e = raises(package.Error, ["E0201", "sum[j]", "^"], lambda: package.compile("spx 1; dim N: dyn;\nkernel k { in x: f32[N];\n out y[i] = x[j]; }", backend="interp"))
check("with its place", e and e.span == ("<text>", 3, 15) and e.status == "invalid input", e and e.span)
raises(package.Error, ["/nowhere.spx"], lambda: package.compile("/nowhere.spx", backend="interp"))
raises(package.Error, ["abacus"], lambda: package.compile("spx 1;", backend="abacus"))
raises(package.Error, ["`x`", "size 3", "`z`", "size 4"], lambda: scale(x, np.ones(4, "f4")))
raises(package.Error, ["rank 2, declared 1"], lambda: scale(x, np.ones((3, 1), "f4")))
raises(TypeError, ["`x` is declared f32, the array is f64", "astype"], lambda: scale(x.astype(float), x))
raises(TypeError, ["lacks `z`"], lambda: scale(x))
raises(TypeError, ["has no input `w`", "x, z"], lambda: scale(x, x, w=x))
raises(TypeError, ["has got two `x`"], lambda: scale(x, x=x))
raises(TypeError, ["takes 2 arrays"], lambda: scale(x, x, x))
raises(TypeError, ["as csr", "ndarray"], lambda: package.compile("spx 1; dim N: dyn; kernel k { in A: f32[N,N] as csr; out y[i] = sum[j] A[i,j]; }", backend="interp")(np.eye(3, dtype="f4")))
raises(package.Error, ["breaks its format"], lambda: package.compile("spx 1; dim N: dyn; kernel k { in A: f32[N,N] as csr; out y[i] = sum[j] A[i,j]; }", backend="interp")(
    package.Sparse((3, 3), x, {1: [0, 1, 2, 9]}, {1: [0, 1, 2]})))
bits = np.array([1.0, -0.0, np.inf, np.nan, 1.00390625, 1.01171875, 3.4e38], "f4")
wide = package.f32(package.bf16(bits))
check("bf16 rounds to even and keeps what is not a number", (wide[:3] == bits[:3]).all() and np.isnan(wide[3]) and wide[4] == 1.0 and wide[5] == 1.015625 and np.isinf(wide[6]), wide)

bound = package._arrays.Bound(package.compile("spx 1; dim N: dyn; dim M: dyn; kernel k { in x: f32[N,M]; out y[i] = sum[j] x[i,j]; }", backend="interp")._infos[0])
view = np.ones((8, 16), "f4")[2:6, 4:12]
bound.take(view)
check("rows that lie apart are not copied", (bound.tensor.values, bound.tensor.strides[:2], bound.tensor.value_count) == (view.ctypes.data, [16, 1], 3 * 16 + 8), bound.tensor.strides[:2])
batches = package.compile("spx 1; dim B: dyn; dim N: dyn; dim M: dyn; kernel k { in x: f32[B,N,M]; out y[b,i] = sum[j] x[b,i,j]; }", backend="interp")
heads = np.arange(3 * 4 * 2 * 8, dtype="f4").reshape(3, 4, 2, 8)
for what, view, strides in (("a part of each matrix", heads[:, :2, 1], [64, 16, 1]), ("heads", heads[1].transpose(1, 0, 2), [8, 16, 1]),
                            ("one row for all", np.broadcast_to(heads[0, 0, 0], (2, 3, 8)), [0, 0, 1]), ("one of each", heads[:, :1, 0], [64, 1, 1])):
    bound = package._arrays.Bound(batches._infos[0])
    bound.take(view)
    check("%s is not copied" % what, (bound.tensor.values, bound.tensor.strides[:3]) == (view.ctypes.data, strides) and (batches(view) == view.sum(2)).all(), bound.tensor.strides[:3])
bound.take(heads[0, :, :, ::2])
check("what steps inside a row is copied", bound.tensor.values != heads.ctypes.data)

# ---- an allocator of the caller's ---------------------------------------------------------------------------------
libc, live, asked = package._library.c.CDLL(None), {}, []
libc.aligned_alloc.restype, libc.aligned_alloc.argtypes, libc.free.argtypes = package._library.c.c_void_p, [package._library.c.c_size_t] * 2, [package._library.c.c_void_p]


def allocate(kind, size, alignment):
    asked.append(kind)
    if len(asked) > allocate.most:
        raise MemoryError("no more")
    at = libc.aligned_alloc(alignment, -(-size // alignment) * alignment)
    live[at] = kind
    return at


def release(kind, at):
    assert live.pop(at) == kind
    libc.free(at)


allocate.most, ones = 10 ** 6, np.ones((4, 3), "f4")
allocator = package.Allocator(allocate, release)
counted = package.compile("spx 1; dim N: dyn; dim M: dyn; kernel k { in x: f32[N,M]; out y[i] = sum[j] x[i,j]; }", backend="interp", allocator=allocator)
check("runs take their memory from it", (counted(ones) == 3).all() and set(asked) == {"host"} and 0 < len(live) < len(asked), (asked, live))
allocate.most = len(asked)
raises(package.Error, ["memory"], lambda: counted(ones))
allocate.most = 10 ** 6
check("and run again when there is some", (counted(ones) == 3).all())
del counted
check("what was taken is given back", not live, live)

# ---- memory: what is freed is freed, in any order ---------------------------------------------------------------
for _ in range(200):
    program = package.Program("spx 1; dim N: dyn; kernel scale { in x: f32[N]; out y[i] = x[i] + 1; }", backend="interp")
    one, two = program.kernel(), program.kernel()
    del program
    good = (one(x) == 2).all()
    del one
    good = good and (two(x) == 2).all()
check("handles live as long as something uses them", good)

# ---- PyTorch, where it is; its tensors on a GPU are run in place -------------------------------------------------
try:
    import torch
except ImportError:
    skip("PyTorch's tensors: PyTorch is not here")
else:
    for device in ["cpu"] + (["cuda"] if torch.cuda.is_available() and "cuda" in kinds else []):
        backend = "cuda" if device == "cuda" else kinds[min(1, len(kinds) - 1)] if "cpu" in kinds else "interp"
        ffn = package.compile(os.path.join(ROOT, "examples/ffn.spx"), D=256, F=1024, backend=backend)
        W1, W2 = (torch.randn(s, device=device, dtype=torch.bfloat16) * 0.05 for s in ((256, 1024), (1024, 256)))
        for tokens in (128, 1, 77):
            x = torch.randn(tokens, 256, device=device, dtype=torch.bfloat16)
            y = ffn(x, W1, W2)
            near("PyTorch on %s, %d tokens" % (device, tokens), y.float().cpu().numpy(), (torch.relu(x.float() @ W1.float()) @ W2.float()).cpu().numpy(), 2e-2)
            check("its rows may lie apart, or begin anywhere", all(torch.equal(ffn(v, W1, W2), ffn(v.contiguous(), W1, W2)) for v in
                  (torch.cat([x, x], 1)[:, :256], torch.cat([x, x], 1)[:, 3:259], torch.cat([x, x])[::2], x.t().contiguous().t(), x.new_zeros(1, 256).expand(3, 256))))
            check("its result is a tensor there", y.device.type == device and y.dtype == torch.bfloat16)
    import spc.torch
    turned = package.compile("spx 1; dim N: dyn; dim M: dyn; kernel k { in x: f32[N,M] as dense_t; out y[i,j] = 2*x[i,j] as dense_t; }", backend=backend, padded="x",
                             allocator=spc.torch.caching_allocator)
    x = torch.randn(16, 24, device=device)
    for v in (x, x[:8], x[4:12, 3:], x.t(), x.t()[:8, :8]):
        y = turned(v)
        check("PyTorch on %s: a layout that is declared" % device, torch.equal(y, 2 * v) and y.t().is_contiguous(), (y, v))
    raises(TypeError, ["`x` is declared bf16, the tensor is torch.float32", "x.to(torch.bfloat16)"], lambda: ffn(x, W1, W2))
    if device == "cuda":
        apart = package.compile("spx 1; dim N: dyn; dim M: dyn; kernel k { in x: f32[N,M]; in W: f32[M,M]; out y[i,j] = sum[k] x[i,k]*W[k,j]; }", backend=backend, padded="x, W")
        x, W = torch.randn(40, 64, device=device), torch.randn(48, 64, device=device)
        for v, w in ((x[:, :48], W[:, :48]), (x[:, 4:52], W[:, :48].contiguous()), (x[:8, 2:50], W[:, 1:49]), (x[:, 3:34], W[:31, :31])):
            near("padded rows in place", apart(v, w).cpu().numpy(), (v.double() @ w.double()).cpu().numpy(), 1e-5)
        scores = package.compile("spx 1; dim H: dyn; dim N: dyn; dim D: dyn; kernel k { in q: bf16[H,N,D]; in p: bf16[H,N,D]; out y[h,i,j] = sum[d] q[h,i,d]*p[h,j,d] : f32; }", backend=backend, padded="q, p")
        qkv = torch.randn(80, 3, 4, 64, device=device, dtype=torch.bfloat16)
        q, k = qkv[:, 0].transpose(0, 1), qkv[:, 1].transpose(0, 1)
        for v, w in ((q, k), (q[:, :48], k[:, 16:64]), (q[1:3], k[1:3]), (q.contiguous(), k), (q[:1].expand(4, 80, 64), k)):
            near("heads in place", scores(v, w).cpu().numpy(), (v.double() @ w.double().transpose(1, 2)).cpu().numpy(), 1e-5)
        bound = package._arrays.Bound(scores._infos[0])
        check("heads are not copied", package._torch._in_place(scores, bound, q)[0].data_ptr() == q.data_ptr())
        before = torch.cuda.memory_allocated()
        kept = package.compile("spx 1; dim N: dyn; kernel k { in x: f32[N]; out y[i] = x[i] + 1; }", backend=backend, allocator=spc.torch.caching_allocator)
        check("what a plan keeps is counted by PyTorch", kept(x[0]).equal(x[0] + 1) and torch.cuda.memory_allocated() > before)
        first = package.compile(os.path.join(ROOT, "examples/ffn.spx"), D=256, F=1024, backend=backend, tiered=True)
        x = torch.randn(64, 256, device=device, dtype=torch.bfloat16)
        y = first(x, W1, W2)
        first.tuned(None)
        near("two tiers", first(x, W1, W2).float().cpu().numpy(), y.float().cpu().numpy(), 2e-2)
        raises(TypeError, ["`W2` is not on cuda"], lambda: ffn(x, W1, W2.cpu()))
        raises(TypeError, ["`W2` is declared bf16"], lambda: ffn(x, W1, W2.float()))
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            ys = [ffn(x * k, W1, W2) for k in range(1, 20)]
        stream.synchronize()
        near("on a stream of the caller's", ys[-1].float().cpu().numpy(), (torch.relu(19 * x.float() @ W1.float()) @ W2.float()).cpu().numpy(), 2e-2)
        graph, held = torch.cuda.CUDAGraph(), x.clone()
        with torch.cuda.graph(graph):
            kept = ffn(held, W1, W2)
        for k in range(3):
            held.copy_(x * (k + 1))
            graph.replay()
            near("a captured graph, replay %d" % k, kept.float().cpu().numpy(), (torch.relu(held.float() @ W1.float()) @ W2.float()).cpu().numpy(), 2e-2)

# ---- pip ------------------------------------------------------------------------------------------------------------
built = os.path.join(ROOT, "build/libspc.so")
pip = subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True)
if pip.returncode or not os.path.exists(built):
    skip("pip install .: no pip, or nothing in build/")
else:
    tree = shutil.copytree(ROOT, path("tree"), ignore=lambda folder, names: [n for n in names if n not in ("python", "spc", "setup.py", "pyproject.toml") and not n.endswith(".py") and not n.endswith(".md")])
    os.makedirs(os.path.join(tree, "build"), exist_ok=True)
    shutil.copy(os.path.realpath(built), os.path.join(tree, "build/libspc.so"))
    r = subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "--target", path("site"), tree], capture_output=True, text=True)
    if r.returncode and ("setuptools" in r.stderr or "connection" in r.stderr.lower()):
        skip("pip install .: setuptools cannot be fetched")
    elif check("pip install .", r.returncode == 0, r.stderr):
        env = {k: v for k, v in os.environ.items() if k not in ("SPC_LIBRARY", "PYTHONPATH")}
        one = 'import sys, numpy as np, spc; print(spc.__file__, spc.compile("spx 1; dim N: dyn; kernel k { in x: f32[N]; out y[i] = 2*x[i]; }", backend="interp")(np.arange(3, dtype="f4")))'
        r = subprocess.run([sys.executable, "-c", one], capture_output=True, text=True, cwd=TMP, env=dict(env, PYTHONPATH=path("site")))
        check("and what it installed runs", "site/spc" in r.stdout and "[0. 2. 4.]" in r.stdout, r.stdout + r.stderr)
    r = subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "--target", path("none"), tree], capture_output=True, text=True,
                       env=dict(os.environ, BUILD="nowhere", PATH=TMP))
    if "setuptools" in r.stderr or "connection" in r.stderr.lower():
        skip("pip install . where nothing is built: setuptools cannot be fetched")
    else:
        check("where nothing is built, and nothing to build it with, pip says so", r.returncode and "script/setup" in r.stdout + r.stderr, r.stdout + r.stderr)

# ---- two tiers: generic code first, tuned code when it has come ---------------------------------------------------------
LAYER = ("spx 1; dim T: dyn; dim D: dyn; dim F: dyn; kernel k { in x: f32[T,D]; in W: f32[D,F]; in V: f32[F,D]; "
         "let h[t,f] = relu(sum[d] x[t,d]*W[d,f]); out y[t,o] = sum[f] h[t,f]*V[f,o]; }")
for backend in kinds:
    layer = package.compile(LAYER, backend=backend, tiered=True)
    x, W, V = (rng.integers(-3, 4, shape).astype(np.float32) for shape in ((9, 8), (8, 16), (16, 8)))
    want = np.maximum(x @ W, 0) @ V
    check("the first tier on %s" % backend, np.array_equal(layer(x=x, W=W, V=V), want))
    check("the second tier comes on %s" % backend, layer.tuned(None) is True)
    check("the second tier on %s" % backend, np.array_equal(layer(x=x, W=W, V=V), want))

# ---- several sizes -------------------------------------------------------------------------------------------------------
for backend in kinds:
    layer = package.compile(LAYER, backend=backend, usual={"T": (64, 1)})
    for rows in (1, 5, 9, 100):
        x = rng.integers(-3, 4, (rows, 8)).astype(np.float32)
        check("%d rows by the code for the nearest of two sizes on %s" % (rows, backend), np.array_equal(layer(x=x, W=W, V=V), np.maximum(x @ W, 0) @ V))
raises(package.Error, ["`usual[1]` is of another dim"], lambda: package.compile(LAYER, backend="interp", usual={"T": (1,), "D": (2,)}))

# What was made from a handle is freed before it, in whatever order the collector finds a cycle's members.
import gc
for backwards in (False, True):
    freed = []
    parent = package._Handle("context", freed.append)
    child = package._Handle("plan", freed.append, package._Handle("program", freed.append, parent))
    cycle = [child, parent] if backwards else [parent, child]
    cycle.append(cycle)
    del parent, child, cycle
    gc.collect()
    check("handles are freed from the last to the first", freed == ["plan", "program", "context"], str(freed))

close()
