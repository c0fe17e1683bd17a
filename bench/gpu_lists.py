#!/usr/bin/env python3
"""What lists cost to build, products in plain f32, and what promises cost, on one GPU.

Usage: gpu_lists.py LIBRARY [part...]      LIBRARY as for gpu.py; parts: lists plain promises
What is measured, and how, is gpu.py's; single stages are timed between two events each: the first of a program behind a delay, later ones with their launch."""
import statistics
import torch
import gpu
from gpu_launches import launches
from gpu import GATHER, Program, bf16, compare, decision, error, head, rate, row, section

TURNS = 21


def stage_times(p, fresh=lambda: None):
    """Median microseconds of every stage over cold runs."""
    times = {}
    for turn in range(TURNS):
        fresh()
        gpu.sweep()
        for name, kernel, ran, cover, ms in p.stages(queued=True):
            times.setdefault((name, kernel), []).append(ms * 1e3)
    return {key: statistics.median(values) for key, values in times.items()}


def copy_rate(bytes):
    """Bytes a microsecond of a copy of so many, read and written, cold."""
    a, b = torch.empty(bytes, device="cuda", dtype=torch.uint8), torch.empty(bytes, device="cuda", dtype=torch.uint8)
    (ms, _), = compare([lambda: b.copy_(a)], before=gpu.sweep)
    return 2 * bytes / (ms * 1e3)


def kept_blocks(full, out, rows, kept):
    """Columns of `full` [k][m] in runs of `rows`, each kept with this probability."""
    mask = torch.rand(full.shape[0], full.shape[1] // rows, 1, device="cuda") < kept
    torch.mul(full.view(full.shape[0], -1, rows), mask, out=out.view(full.shape[0], -1, rows))


LAYER = """spx 1; dim T = %d; dim D = %d; dim F = %d; dim O = %d;
kernel k { in x: bf16[T,D]; in W1: bf16[D,F]; in W2: bf16[F,O];
  let h[t,f] = relu(sum[d] x[t,d]*W1[d,f]) : bf16 acc f32 ~ zeros(dynamic, density=0.05);
  out y[t,o] = sum[f] h[t,f]*W2[f,o] : bf16 acc f32; }
schedule k { compact h axis=f gran=128x1; }"""
RELU = """spx 1; dim T = %d; dim D = %d; dim F = %d;
kernel k { in x: bf16[T,D]; in W1: bf16[D,F]; out h[t,f] = relu(sum[d] x[t,d]*W1[d,f]) : bf16 acc f32; }"""


def from_values(size):
    stored, w = bf16(size, size), bf16(size, size)
    full, y = stored.clone(), torch.empty_like(stored)
    copied = copy_rate(size * size * 2)
    for rows, kept in ((128, 0.1), (128, 0.01), (32, 0.05)):
        p = Program(GATHER % (size, size, size, " as dense_t", ", gran=%dx1" % rows)).bind(h=stored.t(), W=w, y=y)
        times = stage_times(p, lambda: kept_blocks(full, stored, rows, kept))
        us = next((t for (name, kernel), t in times.items() if name.startswith("detect")), None)
        if us is None:
            row("values, %d²" % size, "%dx1, %g %%" % (rows, 100 * kept), "no list is made", "", "", "")
        else:
            row("values, %d²" % size, "%dx1, %g %%" % (rows, 100 * kept), "%.1f" % us, "%.2f TB/s" % (size * size * 2 / us * 1e-6), "%.2f" % (size * size * 2 / us / copied), "0.85 of a copy's bandwidth")
        p.close()


def from_bits(size):
    """The mask is what a first product leaves; its epilogue has made the bits."""
    for live in (0.1, 0.01):
        x, w1, w2 = bf16(size, 64), bf16(64, size), bf16(size, 64)
        scale = (torch.rand(1, size, device="cuda") < live).to(torch.bfloat16)
        w1 = (w1 * scale).contiguous()
        p = Program(LAYER % (size, 64, size, 64)).bind(x=x, W1=w1, W2=w2, y=torch.empty(size, 64, device="cuda", dtype=torch.bfloat16))
        times = stage_times(p)
        us = next((t for (name, kernel), t in times.items() if kernel == "lists_from_bits"), None)
        row("bits, %d², 128x1" % size, "%g %% of columns" % (100 * live), "no list is made" if us is None else "%.1f" % us, "", "", "5 us")
        if us is not None: # in a run: until the list is there, from the end of the product that has left its bits
            runs = launches(p, lambda: None, gpu.sweep, "k_")
            at = next(i for i, (name, _, _) in enumerate(runs[0]) if "detect" in name)
            row("the same, in a run", "%g %% of columns" % (100 * live), "%.1f" % statistics.median(r[at][2] - r[at - 1][2] for r in runs), "", "", "5 us")
        p.close()


def in_epilogue(size):
    x, w1, w2 = bf16(size, size), bf16(size, size), bf16(size, size)
    h, y = torch.empty(size, size, device="cuda", dtype=torch.bfloat16), torch.empty(size, size, device="cuda", dtype=torch.bfloat16)
    layer, plain = Program(LAYER % (size, size, size, size)).bind(x=x, W1=w1, W2=w2, y=y), Program(RELU % (size, size, size), own=True).bind(x=x, W1=w1, h=h)
    with_bits, without = [], []
    for turn in range(TURNS):
        for p, times in ((layer, with_bits), (plain, without)):
            gpu.sweep()
            times.append(next(ms * 1e3 for name, kernel, ran, cover, ms in p.stages() if name == "h"))
    a, b = statistics.median(with_bits), statistics.median(without)
    row("bits in a product's epilogue, %d³" % size, "relu", "%.1f beside %.1f" % (a, b), "", "%+.1f %%" % (100 * (a / b - 1)), "2 %")
    layer.close(), plain.close()


def lists():
    section("lists: what building them takes, cold, each stage between two events; microseconds\n")
    head("from", "mask", "time", "values read", "share of a copy's bandwidth, or more than without", "wanted")
    for size in (4096, 8192):
        from_values(size)
    from_bits(8192)
    for size in (4096, 8192):
        in_epilogue(size)


PLAIN = """spx 1; dim M = %d; dim K = %d; dim N = %d;
kernel k { in A: f32[M,K] as dense_t%s; in B: f32[K,N]; out C[m,n] = sum[k] A[m,k]*B[k,n]; }"""


def plain():
    size = 4096
    section("plain f32, %d³: blocks of 32x1 (the case that PIT's authors show), whose mask is known on the device only; microseconds\n" % size)
    head("kept", "cover", "branch", "spc (spread)", "torch f32", "torch tf32", "of torch f32", "of torch tf32", "error spc")
    stored, b = torch.randn(size, size, device="cuda"), torch.randn(size, size, device="cuda")
    full, c, z = stored.clone(), torch.empty_like(b), torch.empty_like(b)
    hint = " ~ zeros(dynamic, density=0.05, gran=32x1)"
    p = Program(PLAIN % (size, size, size, hint)).bind(A=stored, B=b, C=c)

    def peer(allowed):
        torch.backends.cuda.matmul.allow_tf32 = allowed
        torch.mm(stored.t(), b, out=z)
    for kept in (1.0, 0.5, 0.25, 0.1, 0.05, 0.01, 0.001):
        fresh = lambda: kept_blocks(full, stored, 32, kept)
        fresh()
        (us, spread), (ref, _), (ref32, _) = compare([p, lambda: peer(False), lambda: peer(True)], fresh)
        c.fill_(float("nan"))
        p()
        row("%g %%" % (100 * kept), *decision([(s.replace("C.dense", "y.dense"), k, r, cv, ms) for s, k, r, cv, ms in p.stages()]), "%.0f (%.0f)" % (us * 1e3, spread * 1e3), "%.0f" % (ref * 1e3), "%.0f" % (ref32 * 1e3),
            "%.2f" % (ref / us), "%.2f" % (ref32 / us), "%.1e" % error(c, stored.t().double() @ b.double()))
    p.close()
    torch.backends.cuda.matmul.allow_tf32 = False


def promises():
    section("promises: the same programs compiled without, as reproducible and as batch invariant, own kernels, by turns; microseconds\n")
    head("program", "none", "reproducible", "batch invariant")
    size = 4096
    a, b = bf16(size, size), bf16(size, size)
    full, stored, y = a.clone(), a.clone(), torch.empty_like(a)

    def line(name, text, tensors, fresh=lambda: None):
        sides = [Program(text, own=True, promise=i).bind(**tensors) for i in range(3)]
        row(name, *["%.1f (%.1f)" % (us * 1e3, spread * 1e3) for us, spread in compare(sides, fresh)])
        for p in sides:
            p.close()
    for m in (size, 16):
        line("dense product, %d x %d x %d" % (m, size, size), gpu.dense_text(m, size, size), {"A": a[:m], "B": b, "C": y[:m]})
    for kept in (0.5, 0.1, 0.01):
        line("A in blocks of 128x1, %g %% kept" % (100 * kept), GATHER % (size, size, size, " as dense_t", ", gran=128x1"), {"h": stored.t(), "W": b, "y": y}, lambda: kept_blocks(full, stored, 128, kept))


if __name__ == "__main__":
    gpu.run_parts(lists=lists, plain=plain, promises=promises)
