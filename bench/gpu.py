#!/usr/bin/env python3
"""Composed kernels against PyTorch (cuBLASLt) on one GPU, in one process, on the same memory.

Usage: gpu.py LIBRARY [--json FILE] [--svg FOLDER] [--repeats N] [part...]      LIBRARY: libspc-bench.so of a build with SPC_TESTS;
       parts: machine dense lines epilogue library odd flat quantised precision turned few tiles gather along masks ffn gated sizes decode floor reduce jit
Both sides run by turns on one stream, each behind a delay that lets all launches queue, between two events; the
figure is the median of REPEATS turns (fewer where a turn is long), the spread is the range between the quartiles.  Operands are
random (normal), masks are drawn anew on the device for every turn, results are compared with float32 arithmetic of PyTorch."""
import ctypes, math, statistics, sys, time
import torch
from gpu_lt import Product
from gpu_report import LIBRARY, OPTIONS, PARTS, curves, facts, head, row, section

REPEATS, LONG_REPEATS, LONG = int(OPTIONS["--repeats"] or 51), 21, 0.02  # seconds of a turn
lib = ctypes.CDLL(LIBRARY)
lib.bench_new.restype = ctypes.c_void_p
for name in ("bench_stages", "bench_error"):
    getattr(lib, name).restype = ctypes.c_char_p
lib.bench_milliseconds.restype = lib.bench_predicted.restype = ctypes.c_double
pointer = ctypes.c_void_p


class Program:
    def __init__(self, text, own=False, pin=None, promise=0, force=0, **sizes):
        self.handle = pointer(lib.bench_new())
        lib.bench_promise(self.handle, promise)
        if own:
            lib.bench_own(self.handle)
        if force:
            lib.bench_force(self.handle, force)
        if pin:
            self.pin = [word.encode() for word in pin]
            lib.bench_pin(self.handle, *self.pin)
        names = (ctypes.c_char_p * len(sizes))(*[n.encode() for n in sizes])
        values = (ctypes.c_int64 * len(sizes))(*sizes.values())
        self.ask(lib.bench_compile(self.handle, text.encode(), len(sizes), names, values))

    def ask(self, status):
        if status:
            sys.exit("status %d: %s" % (status, lib.bench_error(self.handle).decode()))

    def bind(self, **tensors):
        for name, tensor in tensors.items():
            self.ask(lib.bench_place(self.handle, name.encode(), pointer(tensor.data_ptr())))
        self.ask(lib.bench_prepare(self.handle))
        self.tensors = tensors
        return self

    def __call__(self):
        self.ask(lib.bench_enqueue(self.handle, pointer(torch.cuda.current_stream().cuda_stream)))

    def stages(self, queued=False):
        """queued: the first stage is launched behind a delay, as whole runs are; later ones wait for the one before, and for their launch."""
        torch.cuda.synchronize()
        if queued:
            torch.cuda._sleep(400000)
        text = lib.bench_stages(self.handle, pointer(torch.cuda.current_stream().cuda_stream)).decode()
        return [(s, k, ran == "1", float(c), float(ms)) for s, k, ran, c, ms in (line.split(" ") for line in text.splitlines())]

    def jit(self):
        return lib.bench_milliseconds(self.handle, 0), lib.bench_milliseconds(self.handle, 1)

    def close(self):
        torch.cuda.synchronize()
        lib.bench_free(self.handle)


swept = []


def sweep():
    """Fills more than the L2 cache with something else."""
    if not swept:
        swept.append(torch.empty(2 ** 26, device="cuda"))
    swept[0].zero_()


def nothing():
    pass


def timed(run, before=nothing):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda._sleep(400000)
    before()
    begin.record()
    run()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


def compare(sides, fresh=nothing, before=nothing):
    """Median and quartile range in ms of each side, by turns.  fresh: before every turn, before: before every run."""
    times, turns, turn = [[] for _ in sides], REPEATS + 3, 0
    while turn < turns:
        fresh()
        begin = time.perf_counter()
        for i in range(len(sides)):
            n = (i + turn) % len(sides)
            ms = timed(sides[n], before)
            if turn >= 3:
                times[n].append(ms)
        if time.perf_counter() - begin > LONG:
            turns = min(turns, LONG_REPEATS + 3)
        turn += 1
    out = []
    for t in times:
        q = statistics.quantiles(t, n=4)
        out.append((statistics.median(t), q[2] - q[0]))
    return out


def over_the_floor(ms, ref):
    """In us; the floor is another side's time, and 3 % or 3 us, whichever is more."""
    return "%+.1f" % ((ms - ref - max(0.03 * ref, 3e-3)) * 1e3)


def bf16(*shape, scale=1.0):
    return (torch.randn(*shape, device="cuda") * scale).to(torch.bfloat16)


def error(got, want):
    return (got.float() - want.float()).norm().item() / max(want.float().norm().item(), 1e-30)


def rate(flop, ms):
    return flop / ms * 1e-9


# ---- parts -------------------------------------------------------------------------------------------
def machine():
    section("machine: %s, torch %s, CUDA %s\n" % (torch.cuda.get_device_name(), torch.__version__, torch.version.cuda))
    a, b = bf16(8192, 8192), bf16(8192, 8192)
    c = torch.empty(8192, 8192, device="cuda", dtype=torch.bfloat16)
    big, copy = torch.randn(2 ** 30, device="cuda"), torch.empty(2 ** 30, device="cuda")
    (product, _), (moved, _) = compare([lambda: torch.mm(a, b, out=c), lambda: copy.copy_(big)])
    head("what", "figure")
    row("torch bf16 product 8192³", "%.0f TFLOP/s" % rate(2 * 8192 ** 3, product))
    row("copy of 4 GiB, read and written", "%.2f TB/s" % (2 * 4 * 2 ** 30 / moved * 1e-9))


DENSE = """spx 1; dim M = %d; dim N = %d; dim K = %d;
kernel k { in A: TYPE[M,K]; in B: TYPE[K,N]LAYOUT; EXTRA out C[m,n] = EPILOGUE : TYPE acc f32; }"""
SUM = "sum[k] A[m,k]*B[k,n]"


def dense_text(m, n, k, dtype="bf16", transposed=False, extra="", epilogue="%s"):
    text = DENSE % (m, n, k)
    for name, value in (("TYPE", dtype), ("LAYOUT", " as dense_t" if transposed else ""), ("EXTRA", extra), ("EPILOGUE", epilogue % SUM)):
        text = text.replace(name, value)
    return text


LINEARS = ((5120, 20480), (4096, 14336), (2048, 5632))


def dense_cases():
    """m, n, k, whether B is stored [n][k]: squares, and the linear layers with their weights stored either way."""
    for size in (4096, 8192):
        yield size, size, size, False
    for transposed in (True, False):
        for k, n in LINEARS:
            for m in (1, 16, 64, 256, 1024, 4096):
                yield m, n, k, transposed
    yield 1024, 1024, 1024, False
    yield 2048, 20480, 5120, False
    yield 2048, 5120, 20480, False


DENSE_COLUMNS = ("M × N × K", "B stored", "kernel", "cold: spc (spread)", "torch", "cuBLASLt: first", "fastest", "of", "speed", "warm: spc", "torch", "fastest", "speed", "graph: spc", "fastest", "speed",
                 "TFLOP/s cold", "error spc", "error torch")


def dense_head(what):
    section(what + ": `spc` against torch and cuBLASLt, microseconds, L2 cold and warm, replayed graphs cold\n")
    print("`first`, `fastest`, `of`: what cuBLASLt's heuristic proposes first, the fastest of all that it proposes (measured beforehand, cold and warm for themselves), and how many these are.\n"
          "`speed`: the fastest of the other sides by `spc`; above 1, `spc` is faster.\n")
    head(*DENSE_COLUMNS)


def products(what, name, dtype, cases):
    """cases: m, n, k, whether B is stored [n][k]."""
    dense_head(what)
    speeds = {"cold": [], "warm": [], "graph": []}
    for m, n, k, transposed in cases:
        dense_row(m, n, k, transposed, name, dtype, speeds)
    means(speeds)


def few():
    """The rows of `dense` that do not fill the machine."""
    products("dense products of few rows, bf16", "bf16", torch.bfloat16, [case for case in dense_cases() if case[0] <= 256 or case[1] <= 1024])


def long():
    """Few rows and a long k: the second products of layers."""
    layers = LINEARS + ((1024, 4096),)
    products("dense products of few rows and a long k, bf16", "bf16", torch.bfloat16, [(m, n, k, transposed) for n, k in layers for m in (1, 16, 32, 64, 128, 256) for transposed in (True, False)])


def deep():
    """Few rows, few columns and a long k: narrow projections."""
    sizes = ((128, 8192), (512, 8192), (1024, 5120), (1024, 8192), (1024, 14336), (1536, 6144), (2048, 8192))
    products("dense products of few rows and columns and a long k, bf16", "bf16", torch.bfloat16, [(m, n, k, transposed) for n, k in sizes for m in (1, 8, 16, 32) for transposed in (True, False)])


def means(speeds):
    print("\nGeometric mean of the speeds: " + ", ".join("%s %.3f" % (s, statistics.geometric_mean(speeds[s])) for s in speeds) +
          "; least: " + ", ".join("%s %.3f" % (s, min(speeds[s])) for s in speeds) + "; %d products." % len(speeds["cold"]))


def dense():
    products("dense products, bf16", "bf16", torch.bfloat16, dense_cases())
    products("dense products, f16", "f16", torch.float16, [case for i, case in enumerate(dense_cases()) if i <= 1 or i % 2 == 0])


def dense_row(m, n, k, transposed, name, dtype, speeds):
    a = torch.randn(m, k, device="cuda").to(dtype)
    stored = torch.randn(*((n, k) if transposed else (k, n)), device="cuda").to(dtype)
    b = stored.t() if transposed else stored
    c, d, e = (torch.full((m, n), float("nan"), device="cuda", dtype=dtype) for _ in range(3))
    p, lt = Program(dense_text(m, n, k, name, transposed)).bind(A=a, B=stored, C=c), Product(a, b, e)
    mm = lambda: torch.mm(a, b, out=d)
    best = {before: lt.fastest(timed, before) for before in (sweep, nothing)}
    cold = compare([p, mm, lambda: lt.run(0), lambda: lt.run(best[sweep])], before=sweep)
    warm = compare([p, mm, lambda: lt.run(best[nothing])])
    graph = compare([graph_of(p), graph_of(lambda: lt.run(best[sweep]))], before=sweep)
    cells = {}
    for kind, times in (("cold", cold), ("warm", warm), ("graph", graph)):
        speeds[kind].append(min(ms for ms, _ in times[1:]) / times[0][0])
        cells[kind] = ["%.1f" % (ms * 1e3) for ms, _ in times]
    want = a.float() @ b.float()
    row("%d × %d × %d" % (m, n, k), "[n][k]" if transposed else "[k][n]", "`%s`" % p.stages()[0][1], "%s (%.1f)" % (cells["cold"][0], cold[0][1] * 1e3), *cells["cold"][1:], len(lt.found),
        "%.3f" % speeds["cold"][-1], *cells["warm"], "%.3f" % speeds["warm"][-1], *cells["graph"], "%.3f" % speeds["graph"][-1],
        "%.0f" % rate(2 * m * n * k, cold[0][0]), "%.1e" % error(c, want), "%.1e" % error(d, want))
    p.close()


def lines():
    """Rows that are no multiples of 128 bytes: what is chosen, our own kernels, the library."""
    section("dense products whose rows are no whole memory lines, bf16; microseconds, L2 cold\n")
    head("M × N × K", "B stored", "chosen", "spc (spread)", "our own kernel", "our own", "cuBLASLt: first", "fastest", "speed", "error spc", "error our own")
    for m, n, k in ((4096, 4096, 4088), (4096, 4088, 4096), (4096, 5640, 2048), (2048, 2040, 2040), (1024, 5632, 2040), (256, 5632, 2040), (256, 4096, 4088), (300, 3000, 1000), (16, 5632, 2040), (1, 4096, 4088)):
        for transposed in (True, False):
            a, stored = bf16(m, k), bf16(*((n, k) if transposed else (k, n)))
            b = stored.t() if transposed else stored
            c, d, e = (torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16) for _ in range(3))
            text, lt = dense_text(m, n, k, "bf16", transposed), Product(a, b, e)
            p, own, best = Program(text).bind(A=a, B=stored, C=c), Program(text, own=True).bind(A=a, B=stored, C=d), lt.fastest(timed, sweep)
            times = compare([p, own, lambda: lt.run(0), lambda: lt.run(best)], before=sweep)
            cell, want = ["%.1f" % (ms * 1e3) for ms, _ in times], a.float() @ b.float()
            row("%d × %d × %d" % (m, n, k), "[n][k]" if transposed else "[k][n]", "`%s`" % p.stages()[0][1], "%s (%.1f)" % (cell[0], times[0][1] * 1e3), "`%s`" % own.stages()[0][1], *cell[1:],
                "%.3f" % (min(times[2][0], times[3][0]) / times[0][0]), "%.1e" % error(c, want), "%.1e" % error(d, want))
            p.close(), own.close()


def epilogue():
    section("what an epilogue costs, bf16: microseconds, L2 cold; in brackets, against the plain product of the same run\n")
    kinds = (("plain", "", "%s"), ("bias", "in b: bf16[N];", "%s + b[n]"), ("relu", "", "relu(%s)"), ("bias, relu", "in b: bf16[N];", "relu(%s + b[n])"),
             ("residual", "in R: bf16[M,N];", "%s + R[m,n]"), ("bias, relu, residual", "in b: bf16[N]; in R: bf16[M,N];", "relu(%s + b[n]) + R[m,n]"))
    head("M × N × K", *(kind[0] for kind in kinds), "torch plain", "torch bias", "torch residual, copied first", "torch residual in place")
    for m, n, k in ((4096, 4096, 4096), (8192, 8192, 8192), (4096, 14336, 4096), (1024, 20480, 5120), (64, 20480, 5120)):
        a, b, bias, r = bf16(m, k), bf16(k, n), bf16(n), bf16(m, n)
        c, d = torch.empty(m, n, device="cuda", dtype=torch.bfloat16), torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
        programs = [Program(dense_text(m, n, k, "bf16", False, extra, text)).bind(A=a, B=b, C=c, **({"b": bias} if "b:" in extra else {}), **({"R": r} if "R:" in extra else {}))
                    for _, extra, text in kinds]
        grown = r.clone()
        peers = [lambda: torch.mm(a, b, out=d), lambda: torch.addmm(bias, a, b, out=d), lambda: torch.addmm(r, a, b, out=d), lambda: torch.addmm(grown, a, b, out=grown)]
        times = compare(programs + peers, before=sweep)
        cell = lambda i, base: "%.1f" % (times[i][0] * 1e3) + ("" if i == base else " (%+.1f %%)" % (100 * (times[i][0] / times[base][0] - 1)))
        row("%d × %d × %d" % (m, n, k), *(cell(i, 0) for i in range(len(kinds))), *(cell(i, len(kinds)) for i in range(len(kinds), len(times))))
        for p in programs:
            p.close()


PLAIN = """spx 1; dim M = %d; dim N = %d; dim K = %d;
kernel k { in A: TYPE[M,K]; in B: TYPE[%s]; out C[m,n] = sum[k] A[m,k]*B[%s] : %s acc %s; }"""


def library():
    """Other dtypes and rows that are no multiples of 16 bytes: what is chosen, our own kernels, PyTorch."""
    section("products of other dtypes, or of rows that are not aligned; microseconds, L2 cold\n")
    head("M × N × K", "dtype", "chosen", "spc (spread)", "our own", "spc", "torch", "against torch", "TFLOP/s", "error")
    cases = [(2048, 2048, 2048, t) for t in ("f32", "f64")] + [(4096, 4096, 4096, "f32")]
    cases += [(m, n, k, t) for t in ("f8e4m3", "i8") for m, n, k in ((4096, 4096, 4096), (8192, 8192, 8192), (32, 14336, 4096), (256, 14336, 4096), (1024, 5632, 2048))]
    kinds = {"f32": (torch.float32, "f32", "f32"), "f64": (torch.float64, "f64", "f64"), "i8": (torch.int8, "i32", "i32"),
             "bf16": (torch.bfloat16, "bf16", "f32"), "f16": (torch.float16, "f16", "f32"),
             "f8e4m3": (torch.float8_e4m3fn, "bf16", "f32")}
    one = torch.ones((), device="cuda")
    for m, n, k, name in cases:
        dtype, result, acc = kinds[name]
        make = lambda *s: torch.randint(-128, 128, s, device="cuda", dtype=dtype) if name == "i8" else torch.randn(*s, device="cuda").to(dtype)
        a, turned = make(m, k), name in ("i8", "f8e4m3")
        stored = make(n, k) if turned else make(k, n)
        b = stored.t() if turned else stored
        c, d, e = (torch.zeros(m, n, device="cuda", dtype={"i8": torch.int32, "f8e4m3": torch.bfloat16}.get(name, dtype)) for _ in range(3))
        text = (PLAIN % (m, n, k, "N,K" if turned else "K,N", "n,k" if turned else "k,n", result, acc)).replace("TYPE", name)
        chosen, own = Program(text).bind(A=a, B=stored, C=c), Program(text, own=True).bind(A=a, B=stored, C=d)
        peer = {"i8": lambda: torch._int_mm(a, b, out=e), "f8e4m3": lambda: torch._scaled_mm(a, b, one, one, out_dtype=torch.bfloat16, out=e)}.get(
            name, lambda: torch.mm(a, b, out=e))
        (us, spread), (ours, _), (ref, _) = compare([chosen, own, peer], before=sweep)
        want = (a.float() if turned else a).double() @ (b.float() if turned else b).double()
        row("%d × %d × %d" % (m, n, k), name, "`%s`" % chosen.stages()[0][1], "%.1f (%.1f)" % (us * 1e3, spread * 1e3), "`%s`" % own.stages()[0][1],
            "%.1f" % (ours * 1e3), "%.1f" % (ref * 1e3), "%.3f" % (ref / us), "%.0f" % rate(2 * m * n * k, us), "%.1e, %.1e" % (error(c, want), error(d, want)))
        chosen.close(), own.close()


ODD = [(4095, 4095, 4095, "bf16", "k,n"), (4095, 4095, 4095, "bf16", "n,k"), (1023, 5631, 2047, "bf16", "k,n"), (1024, 50257, 768, "bf16", "k,n"),
       (1024, 50257, 768, "bf16", "n,k"), (1000, 1001, 2047, "f16", "k,n"), (300, 301, 1023, "f16", "k,n"), (64, 5631, 2047, "bf16", "n,k"),
       (16, 5632, 2046, "f16", "k,n"), (1, 5631, 2047, "bf16", "n,k")]


def odd():
    """Rows that are no multiples of 16 bytes, beside PyTorch; the stages' own times."""
    section("rows that are no multiples of 16 bytes; microseconds, L2 cold\n")
    head("M × N × K", "dtype", "B stored", "kernel", "spc (spread)", "torch", "against torch", "stages", "error")
    for m, n, k, name, lies in ODD:
        dtype = {"bf16": torch.bfloat16, "f16": torch.float16}[name]
        a, stored = torch.randn(m, k, device="cuda").to(dtype), torch.randn(*((k, n) if lies == "k,n" else (n, k)), device="cuda").to(dtype)
        b = stored if lies == "k,n" else stored.t()
        c, e = (torch.zeros(m, n, device="cuda", dtype=dtype) for _ in range(2))
        program = Program((PLAIN % (m, n, k, lies.upper(), lies, name, "f32")).replace("TYPE", name)).bind(A=a, B=stored, C=c)
        (us, spread), (ref, _) = compare([program, lambda: torch.mm(a, b, out=e)], before=sweep)
        stages = program.stages()
        kernel = next((s[1] for s in stages if s[1] != "loop"), stages[0][1])
        row("%d × %d × %d" % (m, n, k), name, "[%s]" % lies, "`%s`" % kernel, "%.1f (%.1f)" % (us * 1e3, spread * 1e3), "%.1f" % (ref * 1e3),
            "%.2f" % (ref / us), ", ".join("%s %.1f" % (s[0], s[4] * 1e3) for s in stages), "%.1e" % error(c, a.double() @ b.double()))
        program.close()


FLAT = [("tokens in batches", "in x: bf16[8,512,D]; in w: bf16[D,4096]; out y[b,t,o] = sum[d] x[b,t,d]*w[d,o] : bf16 acc f32;", "btd,do->bto", (8, 512, 4096), (4096, 4096), (8, 512, 4096)),
        ("one token a batch", "in x: bf16[64,1,D]; in w: bf16[D,4096]; out y[b,t,o] = sum[d] x[b,t,d]*w[d,o] : bf16 acc f32;", "btd,do->bto", (64, 1, 4096), (4096, 4096), (64, 1, 4096)),
        ("heads side by side", "in x: bf16[2048,D]; in w: bf16[D,32,128]; out y[t,h,e] = sum[d] x[t,d]*w[d,h,e] : bf16 acc f32;", "td,dhe->the", (2048, 4096), (4096, 32, 128), (2048, 32, 128)),
        ("heads in front", "in x: bf16[2048,D]; in w: bf16[D,32,128]; out y[h,t,e] = sum[d] x[t,d]*w[d,h,e] : bf16 acc f32;", "td,dhe->hte", (2048, 4096), (4096, 32, 128), (32, 2048, 128)),
        ("heads summed", "in x: bf16[2048,32,128]; in w: bf16[32,128,D]; out y[t,d] = sum[h,e] x[t,h,e]*w[h,e,d] : bf16 acc f32;", "the,hed->td", (2048, 32, 128), (32, 128, 4096), (2048, 4096)),
        ("heads summed that lie apart", "in x: bf16[4,16,1024,128]; in w: bf16[16,128,2048]; out y[b,t,d] = sum[h,e] x[b,h,t,e]*w[h,e,d] : bf16 acc f32;", "bhte,hed->btd",
         (4, 16, 1024, 128), (16, 128, 2048), (4, 1024, 2048))]


def flat():
    """Products of more indices than matrices have, as layers are written; beside torch.einsum."""
    section("products of more than three indices; microseconds, L2 cold\n")
    head("what", "einsum", "kernel", "spc (spread)", "torch.einsum", "against torch", "TFLOP/s", "error")
    for what, text, einsum, *shapes in FLAT:
        x, w, y = (torch.randn(s, device="cuda").bfloat16() for s in shapes)
        program = Program("spx 1; dim D = 4096; kernel k { %s }" % text).bind(x=x, w=w, y=y)
        (us, spread), (ref, _) = compare([program, lambda: torch.einsum(einsum, x, w)], before=sweep)
        summed = math.prod(n for n, i in zip(x.shape, einsum) if i not in einsum.split(">")[1])
        flops, kernel = 2 * x.numel() * w.numel() / summed, next((s[1] for s in program.stages() if s[1] != "loop"), "loop")
        row(what, "`%s`" % einsum, "`%s`" % kernel, "%.1f (%.1f)" % (us * 1e3, spread * 1e3), "%.1f" % (ref * 1e3), "%.2f" % (ref / us),
            "%.0f" % rate(flops, us), "%.1e" % error(y, torch.einsum(einsum, x.double(), w.double())))
        program.close()


def quantised():
    """Weights in i8 with a scale for 128 of a row, activations in bf16; nothing is packed: they are scaled in every run, on both sides."""
    section("i8 weights with scales of groups; microseconds, L2 cold\n")
    head("M × N × K", "spc (spread)", "its stages", "torch, scaling first", "torch, bf16 weights", "of bf16 weights", "error")
    for m, n, k in [(m, n, k) for m in (1, 8, 16, 32, 64, 128, 1024) for n, k in ((14336, 4096), (4096, 14336), (5632, 2048), (2048, 5632))]:
        x, q, s = torch.randn(m, k, device="cuda").bfloat16(), torch.randint(-128, 128, (n, k), device="cuda", dtype=torch.int8), torch.rand(n, k // 128, device="cuda").bfloat16()
        y, wide, z = torch.zeros(m, n, device="cuda", dtype=torch.bfloat16), q.bfloat16() * s.repeat_interleave(128, 1), torch.zeros(m, n, device="cuda", dtype=torch.bfloat16)
        program = Program("spx 1; dim M = %d; dim N = %d; dim K = %d; kernel k { in x: bf16[M,K]; in q: i8[N,K]; in s: bf16[N,K/128]; let W[n,k] = q[n,k]*s[n,k/128]; "
                          "out y[m,n] = sum[k] x[m,k]*W[n,k] : bf16 acc f32; }" % (m, n, k)).bind(x=x, q=q, s=s, y=y)
        scaling = lambda: torch.mm(x, (q.view(n, -1, 128) * s[:, :, None]).view(n, k).t(), out=z)
        (us, spread), (first, _), (ref, _) = compare([program, scaling, lambda: torch.mm(x, wide.t(), out=z)], before=sweep)
        row("%d × %d × %d" % (m, n, k), "%.1f (%.1f)" % (us * 1e3, spread * 1e3), ", ".join("`%s` %.1f" % (s[1], s[4] * 1e3) for s in program.stages()), "%.1f" % (first * 1e3),
            "%.1f" % (ref * 1e3), "%.2f" % (ref / us), "%.1e" % error(y, x.double() @ (q.double() * s.double().repeat_interleave(128, 1)).t()))
        program.close()


def by_tensor_cores(allowed, *operands):
    torch.backends.cuda.matmul.allow_tf32 = allowed
    torch.mm(*operands[:2], out=operands[2])


def precision():
    """f32 products by tensor cores, as a schedule may ask for: tf32, and each factor as two tf32 numbers."""
    section("f32 products whose schedule says `precision C = ..`; microseconds, L2 cold; errors against float64\n")
    head("M × N × K", "B stored", "tf32", "spc (spread)", "torch tf32", "speed", "TFLOP/s", "tf32x3", "spc (spread)", "torch f32", "speed", "TFLOP/s",
         "errors: tf32, torch tf32, tf32x3, torch f32")
    for m, n, k, transposed in ((4096, 4096, 4096, False), (4096, 4096, 4096, True), (8192, 8192, 8192, True), (2048, 2048, 2048, False),
                                (1024, 5632, 2048, True), (64, 14336, 4096, True), (64, 14336, 4096, False)):
        a, stored = torch.randn(m, k, device="cuda"), torch.randn(*((n, k) if transposed else (k, n)), device="cuda")
        b = stored.t() if transposed else stored
        out = [torch.full((m, n), float("nan"), device="cuda") for _ in range(4)]
        text = dense_text(m, n, k, "f32", transposed) + "schedule k for sm_90a { precision C = %s; }"
        ours = [Program(text % p).bind(A=a, B=stored, C=c) for p, c in zip(("tf32", "tf32x3"), out)]
        times = compare([*ours, lambda: by_tensor_cores(True, a, b, out[2]), lambda: by_tensor_cores(False, a, b, out[3])], before=sweep)
        want = a.double() @ b.double()
        cells = []
        for p, mine, peer in zip(ours, times, times[2:]):
            cells += ["`%s`" % p.stages()[0][1], "%.1f (%.1f)" % (mine[0] * 1e3, mine[1] * 1e3), "%.1f" % (peer[0] * 1e3), "%.3f" % (peer[0] / mine[0]), "%.0f" % rate(2 * m * n * k, mine[0])]
        row("%d × %d × %d" % (m, n, k), "[n][k]" if transposed else "[k][n]", *cells, ", ".join("%.1e" % error_of(out[i], want) for i in (0, 2, 1, 3)))
        torch.backends.cuda.matmul.allow_tf32 = False
        for p in ours:
            p.close()


def error_of(got, want):
    return (got.double() - want).norm().item() / want.norm().item()


def turned():
    """8-bit operands whose k is not contiguous: PyTorch is given them as its library wants them, and once has to turn B itself."""
    section("products of 8-bit operands, B stored [k][n]; microseconds, L2 cold\n")
    head("M × N × K", "dtype", "kernel", "spc (spread)", "spc, [n][k]", "torch, [n][k]", "torch, turning B first", "speed", "TFLOP/s", "error")
    one = torch.ones((), device="cuda")
    for name, dtype, result, acc in (("i8", torch.int8, "i32", "i32"), ("f8e4m3", torch.float8_e4m3fn, "bf16", "f32")):
        for m, n, k in ((4096, 4096, 4096), (8192, 8192, 8192), (1024, 5632, 2048), (32, 14336, 4096)):
            make = lambda *s: torch.randint(-128, 128, s, device="cuda", dtype=dtype) if name == "i8" else torch.randn(*s, device="cuda").to(dtype)
            a, b = make(m, k), make(k, n)
            lying = b.t().contiguous()
            c, d, e = (torch.zeros(m, n, device="cuda", dtype=torch.int32 if name == "i8" else torch.bfloat16) for _ in range(3))
            mine = Program((PLAIN % (m, n, k, "K,N", "k,n", result, acc)).replace("TYPE", name)).bind(A=a, B=b, C=c)
            other = Program((PLAIN % (m, n, k, "N,K", "n,k", result, acc)).replace("TYPE", name)).bind(A=a, B=lying, C=d)
            product = (lambda x: torch._int_mm(a, x, out=e)) if name == "i8" else (lambda x: torch._scaled_mm(a, x, one, one, out_dtype=torch.bfloat16, out=e))
            bits = b.view(torch.int8)
            times = compare([mine, other, lambda: product(lying.t()), lambda: product(bits.t().contiguous().view(dtype).t())], before=sweep)
            want = (a.float() if name != "i8" else a).double() @ (b.float() if name != "i8" else b).double()
            us = ["%.1f" % (t[0] * 1e3) for t in times]
            row("%d × %d × %d" % (m, n, k), name, "`%s`" % mine.stages()[0][1], "%s (%.1f)" % (us[0], times[0][1] * 1e3), *us[1:], "%.3f" % (times[3][0] / times[0][0]),
                "%.0f" % rate(2 * m * n * k, times[0][0]), "%.1e" % error_of(c, want))
            mine.close(), other.close()


# Few rows, and products whose tiles do not fill the machine: m, n, k, whether B is stored [n][k], the tiles to be compared.
BOXES = ("dense 16x64x128 boxes", "dense 16x128x128 boxes")
SPLIT = ("dense 64x64x128 boxes", "dense 64x64x128 boxes, k split in 2")
LARGE = ("dense 128x64x64 boxes", "dense 128x96x64 boxes", "dense 128x128x64 boxes", *("dense 128x%dx64 boxes, k split in 2" % n for n in (128, 192, 256)))
TILES = [(m, n, k, True, ("dense 8x16x256 streamed", *BOXES)) for m, n, k in ((1, 5632, 2048), (1, 20480, 5120), (8, 14336, 4096), (16, 2048, 5632))]
TILES += [(m, n, k, t, SPLIT) for m, n, k, t in ((64, 5632, 2048, False), (64, 2048, 5632, True), (64, 5120, 20480, True))]
TILES += [(m, n, k, False, LARGE) for m, n, k in ((1024, 1024, 1024), (256, 5632, 2048), (256, 5120, 20480))]


def tiles():
    section("candidates of one product, each taken in its turn, bf16; microseconds, L2 cold and warm\n")
    head("M × N × K", "B stored", "candidate", "cold (spread)", "warm", "error")
    for m, n, k, transposed, labels in TILES:
        a, stored = bf16(m, k), bf16(*((n, k) if transposed else (k, n)))
        b = stored.t() if transposed else stored
        want, d = a.float() @ b.float(), torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
        results = [torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16) for _ in labels]
        programs = [Program(dense_text(m, n, k, "bf16", transposed), pin=("C", label)).bind(A=a, B=stored, C=c) for label, c in zip(labels, results)]
        sides = [*programs, lambda: torch.mm(a, b, out=d)]
        cold, warm = compare(sides, before=sweep), compare(sides)
        for i, label in enumerate((*labels, "torch")):
            row("%d × %d × %d" % (m, n, k), "[n][k]" if transposed else "[k][n]", label, "%.1f (%.1f)" % (cold[i][0] * 1e3, cold[i][1] * 1e3), "%.1f" % (warm[i][0] * 1e3),
                "%.1e" % error((results + [d])[i], want))
        for p in programs:
            p.close()


GATHER = """spx 1; dim T = %d; dim K = %d; dim N = %d;
kernel k { in h: bf16[T,K]%s ~ zeros(dynamic, density=0.1%s); in W: bf16[K,N] const;
  out y[t,n] = sum[k] h[t,k]*W[k,n] : bf16 acc f32; }"""


def predicted(text):
    """Milliseconds that the cost model expects of a program, or None."""
    handle = pointer(lib.bench_new())
    us = lib.bench_predicted(handle, text.encode())
    lib.bench_free(handle)
    return us * 1e-3 if us > 0 else None


def in_us(ms):
    return "%.1f" % (ms * 1e3) if ms else ""


def stage_line(p):
    return "; ".join("%s `%s` %.0f%s" % (s, k, ms * 1e3, "" if ran else " (left)") for s, k, ran, c, ms in p.stages())


# How many times as fast as the library a product is meant to be, by blocks and the share of them that is kept; 1: as fast, within 3 % or 3 us.
WANTED_AT = (0.5, 0.25, 0.1, 0.05, 0.01, 0.001)
WANTED = {"128x1": (1.5, 2.7, 5, 7, 9, 10), "64x1": (1.3, 2.3, 4.5, 6.5, 9, 10), "32x1": (1, 1.3, 2.7, 4.3, 8, 10), "16x1": (1, 1, 1.5, 2.6, 7, 9), "8x1": (1, 1, 1, 1.5, 4.8, 8),
          "rows": (1.7, 3, 5.5, 7.5, 9, 10.5), "1x64": (1, 1, 1.1, 1.5, 4, 8), "1x1": (1, 1, 1, 1, 1.15, 4.5)}


def wanted(blocks, kept):
    return "%g" % WANTED[blocks][WANTED_AT.index(kept)] if blocks in WANTED and kept in WANTED_AT else ""


def gather_text(by_rows, rows, density=0.1, hint=True):
    return (GATHER % (4096, 4096, 4096, "" if by_rows else " as dense_t", ", gran=%dx1" % rows if hint else "")).replace("density=0.1", "density=%g" % density)


def draw_zeros(full, stored, by_rows, rows, kept, strip=None):
    """Columns of so many rows, of which this share holds `full`'s values; strip: that of 128 rows which holds all of them."""
    size = full.shape[0]
    mask = torch.rand((size // rows, 1, size) if by_rows else (size, size // rows, 1), device="cuda") < kept
    if strip is not None:
        (mask if by_rows else mask.transpose(0, 1))[strip] = True
    shape = (size // rows, rows, size) if by_rows else (size, size // rows, rows)
    torch.mul(full.view(shape), mask, out=stored.view(shape))


def gather(by_rows=False):
    size, series = 4096, {}
    section("a matrix that holds zeros, %d³, bf16, %s: detection from the values, guard, product; microseconds\n" % (size, "row by row" if by_rows else "column by column"))
    print("`kept`: the share of blocks of so many rows x 1 that hold values, independently; `one strip` has a strip of 128 rows full besides, `128x1, no hint` blocks that\n"
          "the program was not told of. One program a kind of block, hinted `density=0.1` and the block; the matrix is stored %s on both sides; masks are drawn anew.\n"
          "`predicted`: by the cost model, of a program that is hinted that share.\n" % ("row by row" if by_rows else "column by column"))
    head("blocks", "kept", "cover", "branch", "spc (spread)", "torch dense (spread)", "spc / torch speed", "wanted", "predicted", "useful TFLOP/s", "error spc")
    for rows, hint, strip in ((128, True, False), (64, True, False), (32, True, False), (16, True, False), (8, True, False), (1, True, False), (128, False, False), (128, True, True)):
        stored, w = bf16(size, size), bf16(size, size)
        full, h = stored.clone(), stored if by_rows else stored.t()
        y, z = torch.empty_like(stored), torch.empty_like(stored)
        p = Program(gather_text(by_rows, rows, 0.1, hint)).bind(h=stored, W=w, y=y)
        for kept in (1.0, *WANTED_AT) if not strip else (0.1, 0.01):
            fresh = lambda: draw_zeros(full, stored, by_rows, rows, kept, 7 if strip else None)
            fresh()
            (us, spread), (ref, ref_spread) = compare([p, lambda: torch.mm(h, w, out=z)], fresh)
            model = None if strip or not hint else predicted(gather_text(by_rows, rows, kept))
            row("%dx1%s" % (rows, ", one strip" if strip else "" if hint else ", no hint"), "%g %%" % (100 * kept), *decision(p.stages()), "%.1f (%.1f)" % (us * 1e3, spread * 1e3),
                "%.1f (%.1f)" % (ref * 1e3, ref_spread * 1e3), "%.2f" % (ref / us), wanted("%dx1" % rows, kept) if hint and not strip else "", in_us(model), "%.0f" % rate(2 * kept * size ** 3, us),
                "%.1e" % error(y, h.float() @ w.float()))
            if model:
                series.setdefault("%dx1" % rows, []).append((kept, us * 1e3, ref * 1e3, model * 1e3))
            if kept in (1.0, 0.5, 0.1, 0.01):
                print("<!-- %s -->" % stage_line(p))
        p.close()
    curves("along" if by_rows else "gather", "zeros of A, %s, 4096³ bf16" % ("row by row" if by_rows else "column by column"), series)


def along():
    """The same along the rows: what is listed of each is brought side by side."""
    gather(True)


def masks():
    """Zeros that do not fall alike everywhere: one program, hinted 128x1 and a tenth."""
    size = 4096
    section("a matrix whose zeros fall unevenly, %d³, bf16, column by column, hinted `density=0.1, gran=128x1`; microseconds\n" % size)
    print("`banded`: columns of a strip near its place on the diagonal; `power law`: a column is kept as 1 / rank, in every strip for itself; `drifting`: what is kept goes from 0 in the first strip to twice the\n"
          "share in the last; `one strip`: one strip of 128 rows full, nothing else; `one element`: one value.\n")
    head("mask", "kept", "cover", "branch", "spc (spread)", "torch dense (spread)", "spc / torch speed", "error spc")
    strips = size // 128
    stored, w = bf16(size, size), bf16(size, size)
    full, y, z = stored.clone(), torch.empty_like(stored), torch.empty_like(stored)
    column, strip = torch.arange(size, device="cuda")[:, None] / size, torch.arange(strips, device="cuda")[None] / strips
    rank = torch.arange(size, device="cuda") + 1.0
    def law(share):
        by_rank = 1 / rank
        for _ in range(40):
            by_rank = (by_rank * share / by_rank.mean()).clamp(max=1)
        return torch.rand(size, strips, device="cuda") < by_rank[torch.randperm(size, device="cuda")][:, None]
    kinds = [("banded", lambda share: (column - strip - 0.5 / strips).abs() < share / 2), ("power law", law), ("drifting", lambda share: torch.rand(size, strips, device="cuda") < 2 * share * strip)]
    p = Program(gather_text(False, 128)).bind(h=stored, W=w, y=y)
    def put(name, share, mask):
        fresh = lambda: torch.mul(full.view(size, strips, 128), mask()[:, :, None], out=stored.view(size, strips, 128))
        fresh()
        h = stored.t()
        (us, spread), (ref, ref_spread) = compare([p, lambda: torch.mm(h, w, out=z)], fresh)
        row(name, share, *decision(p.stages()), "%.1f (%.1f)" % (us * 1e3, spread * 1e3), "%.1f (%.1f)" % (ref * 1e3, ref_spread * 1e3), "%.2f" % (ref / us), "%.1e" % error(y, h.float() @ w.float()))
    for name, mask in kinds:
        for share in (0.5, 0.25, 0.1, 0.01):
            put(name, "%g %%" % (100 * share), lambda: mask(share))
    none = torch.zeros(size, strips, device="cuda", dtype=torch.bool)
    full_strip = none.clone()
    full_strip[:, 7] = True
    put("one strip", "", lambda: full_strip)
    put("all", "", lambda: ~none)
    put("none", "", lambda: none)
    def element():
        stored.zero_()
        stored[1234, 777] = 1
    element()
    h = stored.t()
    (us, spread), (ref, ref_spread) = compare([p, lambda: torch.mm(h, w, out=z)], element)
    row("one element", "", *decision(p.stages()), "%.1f (%.1f)" % (us * 1e3, spread * 1e3), "%.1f (%.1f)" % (ref * 1e3, ref_spread * 1e3), "%.2f" % (ref / us), "%.1e" % error(y, h.float() @ w.float()))
    p.close()


def decision(stages):
    """The measured cover and the branch that ran."""
    cover = max(s[3] for s in stages)
    if cover < 0:
        return "no list", "dense"
    return "%.2f" % cover, "dense" if any(s == "y.dense" and ran for s, k, ran, c, ms in stages) else "sparse"


FFN = """spx 1; dim T = %d; dim D = %d; dim F = %d;
kernel ffn { in x: bf16[T,D]; in W1: bf16[D,F] const; in W2: bf16[F,D] const;
  let h[t,f] = relu(sum[d] x[t,d]*W1[d,f]) : bf16 acc f32 ~ zeros(dynamic, density=%s);
  out y[t,o] = sum[f] h[t,f]*W2[f,o] : bf16 acc f32; }"""


def ffn():
    T, D, F, strip = 2048, 5120, 20480, 128
    strips = T // strip
    section("feed-forward layer, %d tokens, %d → %d → %d, bf16, relu\n" % (T, D, F, D))
    print("`alike`: tokens of a strip of 128 share their live neurons, strips do not; `independent`: each token has its own.\n")
    head("zeros of h", "kind", "cover measured", "branch", "spc µs (spread)", "torch dense µs (spread)", "spc / torch speed", "error spc", "stages, µs each with a pause after it")
    for zeros in (0.95, 0.99):
        for kind in ("alike", "independent"):
            x, w1, w2 = bf16(T, D), bf16(D, F, scale=D ** -0.5), bf16(F, D, scale=0.02)
            x[:, -strips:] = 0
            for s in range(strips):
                x[s * strip:(s + 1) * strip, D - strips + s] = 1
            def fresh():
                if kind == "alike":
                    live = torch.rand(strips, F, device="cuda") < (1 - zeros)
                    w1[-strips:] = torch.where(live, 6.0, -50.0).to(torch.bfloat16)
                else:
                    w1[-strips:] = -torch.distributions.Normal(0, 1).icdf(torch.tensor(zeros)).item()
                    w1[:-strips] = torch.randn(D - strips, F, device="cuda").mul_(D ** -0.5).to(torch.bfloat16)
            fresh()
            y, z = torch.empty(T, D, device="cuda", dtype=torch.bfloat16), torch.empty(T, D, device="cuda", dtype=torch.bfloat16)
            h = torch.empty(T, F, device="cuda", dtype=torch.bfloat16)
            def dense_layer():
                torch.mm(x, w1, out=h)
                torch.relu_(h)
                torch.mm(h, w2, out=z)
            p = Program(FFN % (T, D, F, round(1 - zeros, 4))).bind(x=x, W1=w1, W2=w2, y=y)
            (us, spread), (ref, ref_spread) = compare([p, dense_layer], fresh)
            live = (h != 0).float().mean().item()
            row("%.1f %%" % (100 - 100 * live), kind, *decision(p.stages()), "%.0f (%.0f)" % (us * 1e3, spread * 1e3),
                "%.0f (%.0f)" % (ref * 1e3, ref_spread * 1e3), "%.2f" % (ref / us), "%.1e" % error(y, torch.relu(x.float() @ w1.float()).to(torch.bfloat16).float() @ w2.float()), stage_line(p))
            p.close()


GATED = """spx 1; dim T = %d; dim D = %d; dim F = %d;
kernel gated { in x: bf16[T,D]; in Wg: bf16[D,F] const; in Wu: bf16[D,F] as dense_t const; in Wd: bf16[F,D] const;
  let g[t,f] = relu(sum[d] x[t,d]*Wg[d,f]) : bf16 acc f32 ~ zeros(dynamic, density=%s);
  let u[t,f] = sum[d] x[t,d]*Wu[d,f] on g[t,f] : bf16 acc f32;
  out y[t,o] = sum[f] g[t,f]*u[t,f]*Wd[f,o] : bf16 acc f32; }"""


def shares(kind, active, neurons):
    """How likely each neuron is to be live: all alike, or as 1 / rank, at most 0.6."""
    if kind == "random":
        return torch.full((neurons,), active / neurons, device="cuda")
    ranks = 1.0 / torch.arange(1, neurons + 1, device="cuda")
    low, high = 0.0, float(neurons)
    for _ in range(60):
        low, high = ((low + high) / 2, high) if (ranks * (low + high) / 2).clamp(max=0.6).sum() < active else (low, (low + high) / 2)
    return (ranks * low).clamp(max=0.6)[torch.randperm(neurons, device="cuda")]


def gated_text(T, D, F, share):
    """Of few tokens: the gate's weights are stored [neuron][k]."""
    return (GATED % (T, D, F, share)).replace("Wg: bf16[D,F]", "Wg: bf16[D,F] as dense_t")


def with_f8_gate(text):
    """The gate's product of 8-bit floats, with a scale a token and a scale a neuron."""
    text = text.replace("in Wg: bf16[D,F] const;", "in x8: f8e4m3[T,D]; in Wg: f8e4m3[F,D] const; in sx: f32[T]; in sg: f32[F];")
    return text.replace("relu(sum[d] x[t,d]*Wg[d,f])", "relu((sum[d] x8[t,d]*Wg[f,d])*sx[t]*sg[f])")


class GatedLayer:
    """Weights whose gate has a stated number of live neurons, in bf16 and in 8-bit floats, and PyTorch's layers on them."""
    BIAS = 3  # columns of x that are 1: what is left of a neuron's bias in 8 bits after the first, after two

    def __init__(self, T, D, F):
        self.T, self.D, self.F = T, D, F
        self.x, self.wg, self.wu, self.wd = bf16(T, D), bf16(D, F), bf16(F, D, scale=D ** -0.5), bf16(F, D, scale=0.02)
        self.x[:, -self.BIAS:] = 1
        self.x8, self.wg8 = self.x.to(torch.float8_e4m3fn), torch.empty(F, D, device="cuda", dtype=torch.float8_e4m3fn)
        self.scale = D ** -0.5
        self.sx, self.sg, self.one = torch.ones(T, device="cuda"), torch.full((F,), self.scale, device="cuda"), torch.ones((), device="cuda")
        self.y, self.z = (torch.full((T, D), float("nan"), device="cuda", dtype=torch.bfloat16) for _ in range(2))
        self.g, self.u, self.h = (torch.zeros(T, F, device="cuda", dtype=torch.bfloat16) for _ in range(3))

    def fresh(self, kind, active):
        self.wg.normal_(std=self.scale)
        bias = -torch.distributions.Normal(0, 1).icdf(1 - shares(kind, active, self.F))
        self.wg8.copy_(self.wg.t().float() / self.scale)
        self.wg[-self.BIAS:] = 0
        self.wg[-1] = bias.to(torch.bfloat16)
        left = bias / self.scale
        for i in range(self.BIAS):
            self.wg8[:, -1 - i] = left.to(torch.float8_e4m3fn)
            left = left - self.wg8[:, -1 - i].float()

    def bind(self, program, f8):
        gate = dict(x8=self.x8, Wg=self.wg8, sx=self.sx, sg=self.sg) if f8 else dict(Wg=self.wg)
        return program.bind(x=self.x, Wu=self.wu, Wd=self.wd, y=self.y, **gate)

    def rest(self):
        torch.relu_(self.g)
        torch.mm(self.x, self.wu.t(), out=self.u)
        torch.mul(self.g, self.u, out=self.h)
        torch.mm(self.h, self.wd, out=self.z)

    def layer(self):
        torch.mm(self.x, self.wg, out=self.g)
        self.rest()

    def layer_f8(self):
        torch._scaled_mm(self.x8, self.wg8.t(), self.one, self.one * self.scale, out_dtype=torch.bfloat16, out=self.g)
        self.rest()

    def products(self):
        torch.mm(self.x, self.wg, out=self.g)
        torch.mm(self.x, self.wu.t(), out=self.u)
        torch.mm(self.h, self.wd, out=self.z)

    def want(self, f8=False):
        """The result, and how many neurons a token has live."""
        gate = (self.x8.float() @ self.wg8.float().t()) * self.scale if f8 else self.x.float() @ self.wg.float()
        live = torch.relu(gate).to(torch.bfloat16).float()
        return (live * (self.x.float() @ self.wu.float().t())) @ self.wd.float(), (live != 0).float().sum(1).mean().item()

    def error(self, f8):
        want, live = self.want(f8)
        return error(self.y, want), live


def gated_rows(T, D, F, cases):
    """One program for the sizes, hinted 0.5 %: the guard goes by the cover."""
    layer, text = GatedLayer(T, D, F), GATED % (T, D, F, 0.005)
    programs = [layer.bind(Program(with_f8_gate(text) if f8 else text), f8) for f8 in (False, True)]
    for kind, active in cases:
        layer.fresh(kind, active)
        sides = [*programs, layer.layer, layer.layer_f8, layer.products]
        times = compare(sides, lambda: layer.fresh(kind, active))
        for f8, p in enumerate(programs):
            p()
            wrong, live = layer.error(f8)
            us, ref = times[f8], times[2]
            row("%d × %d × %d" % (T, D, F), kind, "%.0f" % live, "f8" if f8 else "bf16", *decision(p.stages()), "%.0f (%.0f)" % (us[0] * 1e3, us[1] * 1e3), "%.0f (%.0f)" % (ref[0] * 1e3, ref[1] * 1e3),
                "%.0f" % (times[3][0] * 1e3) if f8 else "", "%.0f" % (times[4][0] * 1e3), "%.2f" % (ref[0] / us[0]), "%.2f" % (times[4][0] / us[0]), "%.1e" % wrong)
    for p in programs:
        print("<!-- %s -->" % stage_line(p))
        p.close()


def gated_head():
    head("tokens × D × H", "neurons", "live", "gate", "cover", "branch", "spc (spread)", "torch (spread)", "torch, f8 gate", "products", "torch / spc", "products / spc", "error spc")


def gated():
    section("gated feed-forward layer, bf16, relu gate of bf16 or 8-bit floats; microseconds\n")
    print("`random`: every neuron is live as often, `power law`: as 1 / rank, at most 60 %; tokens are independent. Gate weights are drawn anew. torch: three bf16 products, relu and the\n"
          "product of gate and up projection, f8 gate: the first of the three by torch._scaled_mm; `products`: its three bf16 products alone. Wu lies [neuron][k] on both sides.\n")
    gated_head()
    gated_rows(16384, 2048, 5632, [(k, a) for k in ("random", "power law") for a in (15, 29, 60, 120, 240)])


def gated_sizes():
    """Other sizes of the layer, and many tokens, at 0.5 % live neurons."""
    section("gated feed-forward layer of other sizes, 0.5 % live neurons; microseconds\n")
    gated_head()
    for T, D, F in ((1000, 2048, 5632), (131072, 2048, 5632), (16384, 2048, 8192), (16384, 4096, 14336), (16384, 5120, 20480)):
        gated_rows(T, D, F, [("random", 0.00515 * F), ("power law", 0.00515 * F)])
        torch.cuda.empty_cache()


def graph_of(run):
    """A replay of one run."""
    run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


RELU = """spx 1; dim T = %d; dim D = %d; dim F = %d;
kernel ffn { in x: bf16[T,D]; in W1: bf16[D,F] as dense_t const; in W2: bf16[F,D] const;
  let h[t,f] = relu(sum[d] x[t,d]*W1[d,f]) : bf16 acc f32 ~ zeros(dynamic, density=%s);
  out y[t,o] = sum[f] h[t,f]*W2[f,o] : bf16 acc f32; }"""


def decode():
    """Few tokens, each run a replay of a graph; neurons live at random."""
    section("feed-forward layers of few tokens, bf16, replayed graphs; microseconds, L2 cold and warm\n")
    head("layer", "tokens × D × H", "live", "cold: spc (spread)", "torch", "torch / spc", "warm: spc", "torch", "torch / spc", "products / spc", "error spc", "kernels")
    for D, F in ((2048, 5632), (4096, 14336), (5120, 20480)):
        for T in (1, 7, 64):
            layer = GatedLayer(T, D, F)
            for kind, share in (("gated", 0.005), ("relu", 0.05)):
                if kind == "relu" and T == 7:
                    continue
                layer.fresh("random", share * F)
                wgt = layer.wg.t().contiguous()
                def relu_layer():
                    torch.mm(layer.x, wgt.t(), out=layer.g)
                    torch.relu_(layer.g)
                    torch.mm(layer.g, layer.wd, out=layer.z)
                def relu_products():
                    torch.mm(layer.x, wgt.t(), out=layer.g)
                    torch.mm(layer.h, layer.wd, out=layer.z)
                if kind == "gated":
                    p = Program(gated_text(T, D, F, share)).bind(x=layer.x, Wg=wgt, Wu=layer.wu, Wd=layer.wd, y=layer.y)
                    sides = [p, layer.layer, layer.products]
                else:
                    p = Program(RELU % (T, D, F, share)).bind(x=layer.x, W1=wgt, W2=layer.wd, y=layer.y)
                    sides = [p, relu_layer, relu_products]
                sides = [graph_of(side) for side in sides]
                cold, warm = compare(sides, before=sweep), compare(sides)
                sides[0]()
                live = torch.relu(layer.x.float() @ layer.wg.float()).to(torch.bfloat16).float()
                want = (live * (layer.x.float() @ layer.wu.float().t()) if kind == "gated" else live) @ layer.wd.float()
                row(kind, "%d × %d × %d" % (T, D, F), "%.1f %%" % (100 * (live != 0).float().mean().item()), "%.1f (%.1f)" % (cold[0][0] * 1e3, cold[0][1] * 1e3), "%.1f" % (cold[1][0] * 1e3),
                    "%.2f" % (cold[1][0] / cold[0][0]), "%.1f" % (warm[0][0] * 1e3), "%.1f" % (warm[1][0] * 1e3), "%.2f" % (warm[1][0] / warm[0][0]), "%.2f" % (warm[2][0] / warm[0][0]),
                    "%.1e" % error(layer.y, want), stage_line(p))
                p.close()


def floor():
    """Few tokens at any share of live neurons: a program that is hinted 0.5 %, and the guard's floor."""
    section("gated layers of few tokens by live neurons, bf16, replayed graphs, hint 0.5 %; microseconds, L2 cold\n")
    print("The floor: the library's layer, and 3 % or 3 us, whichever is more.\n")
    head("tokens × D × H", "live", "spc (spread)", "torch (spread)", "torch / spc", "over the floor", "branch", "error spc")
    for D, F, tokens in ((2048, 5632, (1, 2, 8, 9, 16, 31, 32, 64)), (4096, 14336, (8, 64)), (5120, 20480, (1, 8, 64))):
        for T in tokens:
            layer, wgt = GatedLayer(T, D, F), torch.empty(F, D, device="cuda", dtype=torch.bfloat16)
            p = Program(gated_text(T, D, F, 0.005)).bind(x=layer.x, Wg=wgt, Wu=layer.wu, Wd=layer.wd, y=layer.y)
            sides = [graph_of(p), graph_of(layer.layer)]
            for share in (0.005, 0.02, 0.05, 0.1, 0.3, 0.5, 0.9, 1):
                layer.fresh("random", min(share, 0.99999) * F)
                wgt.copy_(layer.wg.t())
                (us, spread), (ref, other) = compare(sides, before=sweep)
                layer.y.fill_(float("nan"))
                sides[0]()
                wrong, live = layer.error(False)
                row("%d × %d × %d" % (T, D, F), "%.1f %%" % (100 * live / F), "%.1f (%.1f)" % (us * 1e3, spread * 1e3), "%.1f (%.1f)" % (ref * 1e3, other * 1e3), "%.2f" % (ref / us),
                    over_the_floor(us, ref), branch_of(p), "%.1e" % wrong)
            print("<!-- %s -->" % stage_line(p))
            p.close()


def branch_of(p):
    """Of a program with one guard: what ran last."""
    return "dense" if any(s.endswith(".dense") and ran for s, k, ran, c, ms in p.stages()) else "sparse"


def jit():
    section("compile time: NVRTC on all cores, nothing cached\n")
    head("program", "kernels", "front end and passes, ms", "code generation and NVRTC, ms")
    tiles = ((128, 256, 64), (128, 128, 64), (128, 128, 32), (64, 64, 32))
    dense_rows = [("dense product, tile %d × %d × %d" % t, dense_text(4096, 4096, 4096) + "schedule k for sm_90a { tile C m=%d n=%d k=%d; }" % t) for t in tiles]
    for name, text in (*dense_rows, ("product of a matrix with zeros", GATHER % (4096, 4096, 4096, " as dense_t", ", gran=128x1")),
                       ("feed-forward layer", FFN % (2048, 5120, 20480, 0.05)),
                       ("row softmax", "spx 1; dim T = 4096; dim N = 4096; kernel k { in x: f32[T,N]; out y[t,n] = softmax[n](x[t,n]); }")):
        runs = []
        for _ in range(3):
            p = Program(text)
            runs.append(p.jit())
            kernels = lib.bench_kernels(p.handle)
            p.close()
        front, code = min(runs, key=sum)
        row(name, kernels, "%.1f" % front, "%.0f" % code)


REDUCTIONS = {
    "sum of all": ("in x: T[M,N]; out y[] = sum[i,j] x[i,j];", lambda x: x.sum()),
    "sums of rows": ("in x: T[M,N]; out y[i] = sum[j] x[i,j];", lambda x: x.sum(1)),
    "sums of columns": ("in x: T[M,N]; out y[j] = sum[i] x[i,j];", lambda x: x.sum(0)),
    "largest of rows": ("in x: T[M,N]; out y[i] = max[j] x[i,j];", lambda x: x.amax(1)),
    "places of the largest": ("in x: T[M,N]; out y[i] = argmax[j] x[i,j];", lambda x: x.argmax(1)),
    "matrix times vector": ("in x: T[M,N]; in v: T[N]; out y[i] = sum[k] x[i,k]*v[k];", lambda x, v: x @ v),
    "vector times matrix": ("in x: T[M,N]; in v: T[M]; out y[j] = sum[k] v[k]*x[k,j];", lambda x, v: v @ x),
    "dot product": ("in x: T[N]; in v: T[N]; out y[] = sum[k] x[k]*v[k];", lambda x, v: x @ v),
    "u x v": ("in x: T[M,N]; in u: T[M]; in v: T[N]; out y[] = sum[i,k] u[i]*x[i,k]*v[k];", lambda x, u, v: u @ x @ v),
    "softmax of rows": ("in x: T[M,N]; out y[i,j] = softmax[j](x[i,j]);", lambda x: torch.softmax(x, 1)),
    "rows by their norms": ("in x: T[M,N]; out y[i,j] = x[i,j] * rsqrt(sum[k] x[i,k]*x[i,k]);", lambda x: torch.nn.functional.normalize(x, dim=1)),
}
REDUCED = [(n, t, s) for n in REDUCTIONS for t, s in (("f32", (4096, 4096)), ("bf16", (8192, 4096)), ("bf16", (64, 4096)))] + [
    ("sum of all", "f32", (2048, 4096)), ("sum of all", "bf16", (1, 1000)), ("sum of all", "i8", (16384, 8192)), ("sum of all", "f64", (4096, 4096)),
    ("sums of rows", "f32", (16, 1048576)), ("sums of rows", "f32", (1048576, 33)), ("sums of rows", "bf16", (4097, 4097)),
    ("sums of columns", "f32", (1048576, 33)), ("sums of columns", "bf16", (64, 1048576)), ("largest of rows", "f32", (1, 16777216)),
    ("matrix times vector", "bf16", (1, 33554432)), ("matrix times vector", "bf16", (4096, 5119))]


def reduce():
    """Reductions: bytes of the operands against the time, and PyTorch's.  A dot product has as many elements as the matrix."""
    section("reductions; microseconds, L2 cold\n")
    head("what", "M × N", "dtype", "spc (spread)", "TB/s", "torch", "against torch", "error")
    types = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "i8": torch.int8}
    for name, t, (m, n) in REDUCED:
        body, peer = REDUCTIONS[name]
        if name == "dot product":
            n = m * n
        make = lambda *s: torch.randint(-8, 9, s, device="cuda", dtype=torch.int8) if t == "i8" else torch.randn(*s, device="cuda", dtype=torch.float32).to(types[t])
        shapes = {"x": (n,) if name == "dot product" else (m, n), "u": (m,), "v": (m,) if name.startswith("vector") else (n,)}
        data = {v: make(*shapes[v]) for v in "xuv" if "in %s:" % v in body}
        dtype = torch.int64 if "argmax" in body else torch.int32 if t == "i8" else types[t]
        out = body[body.index("out y[") + 6:body.index("] =")]
        shape = [dict(i=m, j=n)[a] for a in out.split(",") if a]
        y = torch.zeros(shape, device="cuda", dtype=dtype)
        dims = "dim M = %d; dim N = %d;" % (m, n)
        wide = body.rstrip().rstrip(";") + " : i32;" if t == "i8" else body
        p = Program("spx 1; %s kernel k { %s }" % (dims, wide.replace("T[", t + "["))).bind(y=y, **data)
        ask = lambda: peer(*data.values())
        (us, spread), (ref, _) = compare([p, ask], before=sweep)
        wide = [d.double() if d.is_floating_point() else d.long() for d in data.values()]
        want = data["x"].float().argmax(1) if dtype == torch.int64 else peer(*wide)
        size = sum(d.numel() * d.element_size() for d in data.values()) + y.numel() * y.element_size()
        row(name, "%d × %d" % (m, n), t, "%.1f (%.1f)" % (us * 1e3, spread * 1e3), "%.2f" % (size / us * 1e-9), "%.1f" % (ref * 1e3), "%.2f" % (ref / us),
            "%.1e" % ((y != want).float().mean().item() if dtype == torch.int64 else error(y.double(), want)))
        p.close()


def run_parts(**parts):
    """Those that the command line names, or all; NAME/SHARE runs one share of a part that can be shared."""
    torch.manual_seed(1)
    facts.update(device=torch.cuda.get_device_name(), torch=torch.__version__, cuda=torch.version.cuda, repeats=REPEATS)
    torch.backends.cuda.matmul.allow_tf32 = False
    for name in PARTS or parts:
        name, _, share = name.partition("/")
        parts[name](*[share] if share else [])


def main():
    run_parts(machine=machine, dense=dense, lines=lines, epilogue=epilogue, library=library, odd=odd, flat=flat, quantised=quantised, precision=precision, turned=turned, few=few, long=long, deep=deep, tiles=tiles, gather=gather, along=along, masks=masks, ffn=ffn, gated=gated, sizes=gated_sizes, decode=decode, floor=floor, reduce=reduce, jit=jit)


if __name__ == "__main__":
    main()
