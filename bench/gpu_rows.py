#!/usr/bin/env python3
"""One program for any number of rows, by the Python package on PyTorch's tensors: compiled for several sizes of T (`usual=`), for one, and beside PyTorch (cuBLASLt), on one GPU.

Usage: gpu_rows.py LIBRARY [--json FILE] [--repeats N] [part...]      LIBRARY as for gpu.py; the package takes libspc.so beside it; parts: gated linear
gated: 2048 x 5632, 0.5 % of the neurons live at random; linear: 4096 x 4096 whose rows of x are all there, or a tenth of them in columns of 128 rows.
All of them as replayed graphs, L2 cold."""
import os, sys, time
import torch
from gpu import GatedLayer, bf16, compare, error, gated_text, graph_of, head, over_the_floor, row, run_parts, section, sweep
from gpu_report import LIBRARY
os.environ.setdefault("SPC_LIBRARY", os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(LIBRARY))), "libspc.so"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "python"))
import spc

ROWS = (1, 3, 7, 16, 33, 64, 128, 256, 400, 512, 1000, 2048, 4096, 16384)
USUAL = (1, 8, 32, 64, 256, 512, 1024, 4096)
LINEAR = "spx 1; dim T: dyn <= 16384; kernel k { in x: bf16[T,4096] ~ zeros(dynamic, density=0.1, gran=128x1); in W: bf16[4096,4096] const; out y[t,o] = sum[k] x[t,k]*W[k,o] : bf16 acc f32; }"


def compiled(text):
    """The two of them; how long both take is said."""
    made = []
    for usual in ({"T": USUAL}, None):
        begin = time.perf_counter()
        made.append(spc.compile(text, backend="cuda", usual=usual))
        print("compiled for %s: %.1f s\n" % (", ".join(map(str, USUAL)) if usual else "one size", time.perf_counter() - begin))
    return made


def columns():
    head("rows", "what", "several sizes (spread)", "one size", "torch (spread)", "torch / several", "torch / one", "over the floor", "error")


def measure(rows, what, sides, reference, want):
    wrong = error(sides[0](), want)
    (us, spread), (one, _), (ref, other) = compare([graph_of(side) for side in (*sides, reference)], before=sweep)
    row(rows, what, "%.1f (%.1f)" % (us * 1e3, spread * 1e3), "%.1f" % (one * 1e3), "%.1f (%.1f)" % (ref * 1e3, other * 1e3), "%.2f" % (ref / us), "%.2f" % (ref / one), over_the_floor(us, ref), "%.1e" % wrong)


def gated():
    D, F = 2048, 5632
    section("a gated layer of any number of rows, %d × %d, bf16, one program, hint 0.5 %%; microseconds, L2 cold\n" % (D, F))
    made = compiled(gated_text(0, D, F, 0.005).replace("dim T = 0", "dim T: dyn <= 16384"))
    columns()
    for T in ROWS:
        layer = GatedLayer(T, D, F)
        layer.fresh("random", 0.005 * F)
        gate = layer.wg.t().contiguous()
        sides = [lambda p=p: p(x=layer.x, Wg=gate.t(), Wu=layer.wu.t(), Wd=layer.wd) for p in made]
        measure(T, "0.5 % live", sides, layer.layer, layer.want()[0])


def linear():
    K = 4096
    section("a linear layer of any number of rows, %d × %d, bf16, one program, hint `density=0.1, gran=128x1`; microseconds, L2 cold\n" % (K, K))
    made = compiled(LINEAR)
    columns()
    W = bf16(K, K)
    for T in ROWS:
        full, z = bf16(T, K), torch.empty(T, K, device="cuda", dtype=torch.bfloat16)
        for what, kept in (("nothing zero", 1.0), ("a tenth kept", 0.1)):
            x = full * (torch.rand((T + 127) // 128, K, device="cuda") < kept).repeat_interleave(128, 0)[:T]
            measure(T, what, [lambda p=p: p(x=x, W=W) for p in made], lambda: torch.mm(x, W, out=z), x.float() @ W.float())


run_parts(gated=gated, linear=linear)
