#!/usr/bin/env python3
"""Products whose weights are stored sparse, against PyTorch on one GPU: cuBLASLt on dense weights, cuSPARSE on csr, its own BSR.

Usage: gpu_stored.py LIBRARY [part...]      LIBRARY as for gpu.py; parts: edges blocks ways entries vectors copies
(edges/0 .. edges/3: a quarter of the formats each)
Weights are constant: what depends on them alone (a dense copy, its lists) is made once, before the turns, and its time stands
in a column of its own. What is measured, and how, is gpu.py's; a peer that refuses is `-`."""
import ctypes
import torch
import gpu
from gpu import Program, compare, error, head, lib, pointer, row, section, stage_line

F = torch.nn.functional
TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i8": torch.int8}
FORMATS = ("csr", "csc", "coo", "dcsr", "bsr(4,4)", "bsr(16,8)", "ell(96)", "twell(16,6)", "bitmap(8,8)", "nm(2,4)", "mine")
HEAD = "spx 1; dim T: dyn <= 65536; dim O: dyn <= 65536; dim K: dyn <= 65536;\nformat mine = [i,j] -> [ i/4: dense, j: compressed, i%%4: dense ];\n"
LINEAR = HEAD + "kernel k { in x: %s[T,K]; in W: %s[O,K] as %s %s const; out y[t,o] = sum[k] x[t,k]*W[o,k] : %s acc f32; }"
ACROSS = HEAD + "kernel k { in x: %s[T,K]; in W: %s[K,O] as %s %s const; out y[t,o] = sum[k] x[t,k]*W[k,o] : %s acc f32; }"
ROWS = HEAD + "kernel k { in x: %s[K,T]; in W: %s[O,K] as %s %s const; out y[o,t] = sum[k] W[o,k]*x[k,t] : %s acc f32; }"
VECTOR = HEAD + "kernel k { in x: %s[K]; in W: %s[O,K] as %s %s const; out y[o] = sum[k] W[o,k]*x[k] : %s acc f32; }"


class Stored(Program):
    """A program whose W is packed from a dense matrix of the host."""

    def __init__(self, text, T, O, K):
        super().__init__(text, T=T, O=O, K=K)
        self.dims = (ctypes.c_int64 * 2)(O, K)

    def load(self, W, **tensors):
        self.dims[0], self.dims[1] = W.shape
        torch.cuda.synchronize()
        lib.bench_reset(self.handle)
        bytes, host = ctypes.c_int64(), W.cpu().contiguous()
        self.ask(lib.bench_pack(self.handle, b"W", self.dims, pointer(host.data_ptr()), ctypes.byref(bytes)))
        self.bytes = bytes.value
        self.bind(**tensors)
        lib.bench_share(self.handle, 0)
        self()
        lib.bench_share(self.handle, 1)
        self.once = compare([self])[0][0]
        lib.bench_share(self.handle, 2)
        return self


def text(form, dtype, fmt, hint):
    return form % (dtype, dtype, fmt, hint, dtype)


def zeroed(O, K, kept, dtype, rows=1, columns=1):
    mask = torch.rand(O // rows, 1, K // columns, 1, device="cuda") < kept
    return (torch.randn(O // rows, rows, K // columns, columns, device="cuda") * mask).reshape(O, K).to(dtype)


def peer(make):
    """A peer's run, tried once; None where it refuses."""
    try:
        run = make()
        run()
        torch.cuda.synchronize()
        return run
    except Exception as why:
        print("<!-- refused: %s -->" % str(why).splitlines()[0][:120])
        return None


def sides(ours, *peers):
    """Microseconds of each, `-` for those that are not there."""
    there = [p for p in (ours, *peers) if p]
    times = iter(compare(there))
    return ["%.1f (%.1f)" % tuple(1e3 * x for x in next(times)) if p else "-" for p in (ours, *peers)]


def ran(p):
    return [s for s in p.stages() if s[2]]


def kernels(p):
    return ", ".join("`%s`" % k for s, k, there, c, ms in p.stages() if there and not s.startswith(("W_whole", "detect", "guard")))


WAYS = (("rows", "f32", "walk"), ("linear", "f32", "walk"), ("vector", "f32", "walk"), ("rows", "bf16", "walk"), ("linear", "bf16", "copy"), ("rows", "bf16", "copy"), ("linear", "f32", "copy"))
HINTS = {"walk": "~ zeros(static, density=0.0005)", "copy": "~ zeros(static, density=0.5)"}
FORMS = {"rows": (ROWS, "KT", lambda W, x: W @ x), "linear": (LINEAR, "TK", lambda W, x: x @ W.t()), "vector": (VECTOR, "K", lambda W, x: W @ x)}


def edges(share=None):
    """share, of four: some formats, for processes that run side by side."""
    section("every format, odd sizes, empty rows and columns: the largest error beside the largest value\n")
    head("format", *(" ".join(way) for way in WAYS))
    sizes = dict(O=133, K=92, T=167)
    for fmt in FORMATS[int(share)::4] if share else FORMATS:
        cells = []
        for name, dtype, way in WAYS:
            form, axes, product = FORMS[name]
            W = zeroed(sizes["O"], sizes["K"], 0.2, TYPES[dtype])
            W[::3], W[:, 7] = 0, 0
            if fmt == "nm(2,4)":
                W *= torch.tensor([1, 0, 1, 0], device="cuda").repeat(sizes["K"] // 4)
            x = torch.randn([sizes[a] for a in axes], device="cuda").to(TYPES[dtype])
            want = product(W.double(), x.double())
            y = torch.full(want.shape, float("nan"), device="cuda", dtype=TYPES[dtype])
            p = Stored(text(form, dtype, fmt, HINTS[way]), **sizes)
            p.load(W, x=x, y=y)
            y.fill_(float("nan"))
            p()
            torch.cuda.synchronize()
            worst = ((y.double() - want).abs().max() / want.abs().max()).item()
            cells.append("%.0e%s" % (worst, "" if worst < (2e-2 if dtype == "bf16" else 1e-5) else " WRONG"))
            p.close()
        row(fmt, *cells)


def blocks():
    T, O, K = 2048, 4096, 4096
    section("a linear layer with bsr weights, x[%d,%d] W[%d,%d], bf16; microseconds, weights in MB\n" % (T, K, O, K))
    head("blocks", "zeros", "kernel", "spc (spread)", "once", "torch dense (spread)", "torch BSR (spread)", "dense / spc", "spc stored + kept", "dense", "error")
    x = torch.randn(T, K, device="cuda").bfloat16()
    y = torch.empty(T, O, device="cuda", dtype=torch.bfloat16)
    for size in (64, 128, 32, 16):
        p = Stored(text(LINEAR, "bf16", "bsr(%d,%d)" % (size, size), "~ zeros(static, density=0.1, gran=%dx%d)" % (size, size)), T, O, K)
        for kept in (0.5, 0.25, 0.1, 0.05, 0.01):
            W = zeroed(O, K, kept, torch.bfloat16, size, size)
            p.load(W, x=x, y=y)
            bsr = W.to_sparse_bsr((size, size))
            times = sides(p, lambda: torch.mm(x, W.t()), peer(lambda: lambda: F.linear(x, bsr)))
            whole = 2 * O * K if any(s[0] == "W_whole" for s in p.stages()) else 0
            row("%dx%d" % (size, size), "%g %%" % (100 - 100 * kept), kernels(p), times[0], "%.0f" % (1e3 * p.once), *times[1:], "%.2f" % (float(times[1].split()[0]) / float(times[0].split()[0])),
                "%.1f + %.1f" % (p.bytes / 1e6, whole / 1e6), "%.1f" % (2e-6 * O * K), "%.0e" % error(y, x.float() @ W.float().t()))
        print("<!-- %s -->" % stage_line(p))
        p.close()


def ways():
    """Either factor, either way round, and few rows of the other one."""
    O, K = 4096, 4096
    section("blocks of 64x64, other layouts and few rows, W of %d x %d, bf16; microseconds\n" % (O, K))
    head("product", "T", "stored", "kernel", "spc (spread)", "once", "torch dense (spread)", "dense / spc", "error")
    shapes = {"x Wt": (LINEAR, "TK", "OK", "TO", lambda x, W: torch.mm(x, W.t())), "x W": (ACROSS, "TK", "KO", "TO", torch.mm), "W x": (ROWS, "KT", "OK", "OT", lambda x, W: torch.mm(W, x))}
    for name, T in (("x W", 2048), ("W x", 2048), ("x Wt", 1024), ("x Wt", 256), ("x Wt", 64), ("x Wt", 16)):
        form, at_x, at_w, at_y, product = shapes[name]
        side = dict(T=T, O=O, K=K)
        x, y = torch.randn(*(side[i] for i in at_x), device="cuda").bfloat16(), torch.empty(*(side[i] for i in at_y), device="cuda", dtype=torch.bfloat16)
        for kept in (0.5, 0.1):
            p = Stored(text(form, "bf16", "bsr(64,64)", "~ zeros(static, density=%g, gran=64x64)" % kept), T, O, K)
            W = zeroed(*(side[i] for i in at_w), kept, torch.bfloat16, 64, 64)
            p.load(W, x=x, y=y)
            times = sides(p, lambda: product(x, W))
            row(name, T, "%g %%" % (100 * kept), kernels(p), times[0], "%.0f" % (1e3 * p.once), times[1], "%.2f" % (float(times[1].split()[0]) / float(times[0].split()[0])), "%.0e" % error(y, product(x.float(), W.float())))
            p.close()


def entries():
    T, O, K = 2048, 4096, 4096
    section("csr weights, W[%d,%d], %d columns; microseconds\n" % (O, K, T))
    print("`rows`: W x, x[K,T]; `linear`: x W^T, x[T,K]. Walk and copy are the two ways that the density chooses between, each forced by the hint.\n")
    head("product", "dtype", "zeros", "spc walk (spread)", "spc dense copy (spread)", "copy, once", "torch dense (spread)", "torch csr, cuSPARSE (spread)", "error walk", "error copy")
    for name, form in (("rows", ROWS), ("linear", LINEAR)):
        for dtype in ("f32", "bf16"):
            t = TYPES[dtype]
            x = torch.randn(*((K, T) if name == "rows" else (T, K)), device="cuda").to(t)
            y, z = (torch.empty(*((O, T) if name == "rows" else (T, O)), device="cuda", dtype=t) for _ in range(2))
            walk, copy = (Stored(text(form, dtype, "csr", "~ zeros(static, density=%g)" % d), T, O, K) for d in (0.0002, 0.6))
            for kept in (0.1, 0.05, 0.01, 0.001):
                W = zeroed(O, K, kept, t)
                walk.load(W, x=x, y=y), copy.load(W, x=x, y=z)
                csr = W.to_sparse_csr()
                product = (lambda w: torch.mm(w, x)) if name == "rows" else (lambda w: torch.mm(x, w.t()))
                sparse = peer(lambda: (lambda: torch.mm(csr, x)) if name == "rows" else (lambda: F.linear(x, csr)))
                times = sides(walk, copy, lambda: product(W), sparse)
                want = product(W.float() if dtype == "f32" else W).float()
                row(name, dtype, "%g %%" % (100 - 100 * kept), *times[:2], "%.0f" % (1e3 * copy.once), *times[2:], "%.0e" % error(y, want), "%.0e" % error(z, want))
            print("<!-- walk: %s; copy: %s -->" % (stage_line(walk), stage_line(copy)))
            walk.close(), copy.close()


def vectors():
    O, K = 16384, 16384
    section("a csr matrix and a vector, %dx%d, f32; microseconds\n" % (O, K))
    head("zeros", "spc (spread)", "torch dense (spread)", "torch csr, cuSPARSE (spread)", "GB/s of stored bytes", "error")
    x, y = torch.randn(K, device="cuda"), torch.empty(O, device="cuda")
    p = Stored(text(VECTOR, "f32", "csr", "~ zeros(static, density=0.01)"), 1, O, K)
    for kept in (0.1, 0.01, 0.001):
        W = zeroed(O, K, kept, torch.float32)
        p.load(W, x=x, y=y)
        csr = W.to_sparse_csr()
        times = sides(p, lambda: torch.mv(W, x), peer(lambda: lambda: torch.mv(csr, x)))
        row("%g %%" % (100 - 100 * kept), *times, "%.0f" % (p.bytes / float(times[0].split()[0]) * 1e-3), "%.0e" % error(y, torch.mv(W, x)))
    print("<!-- %s -->" % stage_line(p))
    p.close()


def copies():
    T, O, K = 16, 4096, 4096
    section("what making a dense copy takes, %dx%d bf16, half of it stored; microseconds, and GB/s of stored and dense bytes together\n" % (O, K))
    head("format", "copy", "GB/s")
    x, y = torch.randn(T, K, device="cuda").bfloat16(), torch.empty(T, O, device="cuda", dtype=torch.bfloat16)
    for fmt in ("csr", "csc", "coo", "dcsr", "bsr(16,16)", "bsr(32,32)", "bitmap(8,8)", "nm(2,4)"):
        p = Stored(text(LINEAR, "bf16", fmt, "~ zeros(static, density=0.5)"), T, O, K)
        W = zeroed(O, K, 0.5, torch.bfloat16, *((16, 16) if "16" in fmt else (32, 32) if "32" in fmt else (1, 1)))
        if fmt == "nm(2,4)":
            W = W * torch.tensor([1, 0, 1, 0], device="cuda").repeat(K // 4)
        p.load(W, x=x, y=y)
        made = sum(s[4] for s in p.stages() if s[0] == "W_whole")
        row(fmt, "%.1f" % (1e3 * p.once), "%.0f" % ((p.bytes + 2 * O * K) / p.once * 1e-6))
        print("<!-- %s -->" % stage_line(p))
        p.close()


if __name__ == "__main__":
    gpu.run_parts(edges=edges, blocks=blocks, ways=ways, entries=entries, vectors=vectors, copies=copies)
