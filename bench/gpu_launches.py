#!/usr/bin/env python3
"""Where the time of a run goes, launch by launch, on one GPU: when each starts and ends, by CUPTI (PyTorch's profiler).

Usage: gpu_launches.py LIBRARY [--json FILE] [part...]      LIBRARY as for gpu.py; parts: masks zeros rows layers
Launches of a run overlap: who comes behind may begin before who comes before has ended (programmatic launches), and branches that the guard does not mean leave.
Each run stands behind a library's product (masks, zeros, rows) or a sweep of the cache (layers), masks drawn anew; medians of the runs with as many launches as most."""
import collections, re, statistics
import torch
from torch.profiler import ProfilerActivity, profile
import gpu
from gpu import RELU, GatedLayer, Program, bf16, draw_zeros, gated_text, gather_text, head, row, run_parts, section, sweep
from gpu_blocks import ASKED, HINT, LEFT, SIZE, draw, draw_rows, kinds, single, whole_rows

TURNS = 24


def launches(run, fresh, before, ours):
    """Of each run its launches, in the order of their starts: name, start and end in us from the first one's start."""
    for _ in range(3):
        fresh(), before(), run()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        for _ in range(TURNS):
            fresh()
            torch.cuda._sleep(400000)
            before()
            run()
        torch.cuda.synchronize()
    events = sorted((e for e in seen.profiler.kineto_results.events() if e.device_type() == torch.autograd.DeviceType.CUDA), key=lambda e: e.start_ns())
    runs, now = [], []
    for e in [*events, None]:
        if e and e.name().startswith(ours):
            now.append(e)
        elif now:
            first = now[0].start_ns()
            runs.append([(n.name(), (n.start_ns() - first) / 1e3, (n.start_ns() - first + n.duration_ns()) / 1e3) for n in now])
            now = []
    most = collections.Counter(len(r) for r in runs).most_common(1)[0][0]
    return [r for r in runs if len(r) == most]


def case(name, text, p, fresh, before):
    ours = re.search(r"kernel (\w+)", text)[1] + "_"
    runs = launches(p, fresh, before, ours)
    for i, (launch, _, _) in enumerate(runs[0]):
        row(name if i == 0 else "", launch[len(ours):], *("%.1f" % statistics.median(r[i][at] for r in runs) for at in (1, 2)))


def begin(title):
    section(title + "; microseconds from the first launch's start\n")
    head("program", "launch", "starts", "ends")


def masks():
    begin("a result that is asked for, %d³, bf16" % SIZE)
    a, b, w = bf16(SIZE, SIZE), bf16(SIZE, SIZE), torch.empty(SIZE, SIZE, device="cuda", dtype=torch.bool)
    c, z = torch.empty_like(a), torch.empty_like(a)
    for rows, columns, shares in ((128, 1, (1, 0.5, 0.1, 0.05, 0.01, 0.001)), (128, 64, (1, 0.1, 0.01, 0.001))):
        text = ASKED % (SIZE, SIZE, SIZE, HINT % (0.1, rows, columns))
        p = Program(text).bind(A=a, B=b, W=w.view(torch.uint8), C=c)
        for kept in shares:
            case("%dx%d, %g %%" % (rows, columns, 100 * kept), text, p, lambda: draw(w, kept, rows, columns), lambda: torch.mm(a, b.t(), out=z))
        p.close()


def zeros():
    begin("A that holds zeros, columns of 128 rows, %d³, bf16" % SIZE)
    rows = 128
    for by_rows in (False, True):
        stored, w = bf16(SIZE, SIZE), bf16(SIZE, SIZE)
        full, y, z = stored.clone(), torch.empty_like(stored), torch.empty_like(stored)
        text = gather_text(by_rows, rows)
        p = Program(text).bind(h=stored, W=w, y=y)
        for kept in (1, 0.1, 0.01):
            case("%s, %g %%" % ("row by row" if by_rows else "column by column", 100 * kept), text, p, lambda: draw_zeros(full, stored, by_rows, rows, kept), lambda: torch.mm(stored if by_rows else stored.t(), w, out=z))
        p.close()


def rows():
    begin("rows of A, %d³, bf16" % SIZE)
    a, b = bf16(SIZE, SIZE), bf16(SIZE, SIZE)
    full, c, z = a.clone(), torch.empty_like(a), torch.empty_like(a)
    for hint, cases in (("gran=1x%d" % SIZE, [("whole, %g %%" % (100 * k), whole_rows(k)) for k in (1, 0.1, 0.001)]), ("gran=1x64", [("8 kinds", kinds(8)), ("1x64, 0.1 %", single(0.001))])):
        text = LEFT % (SIZE, SIZE, SIZE, "~ zeros(dynamic, density=0.1, %s)" % hint)
        p = Program(text).bind(A=a, B=b, C=c)
        for name, mask in cases:
            case(name, text, p, lambda: draw_rows(full, a, mask), lambda: torch.mm(a, b, out=z))
        p.close()


def layers():
    begin("feed-forward layers, bf16, neurons live at random")
    for T, D, F, shares in ((9, 2048, 5632, (0.005, 0.5)), (64, 2048, 5632, (0.005, 0.5)), (64, 5120, 20480, (0.005,)), (1000, 2048, 5632, (0.005,)), (16384, 2048, 5632, (0.005,))):
        layer, wgt, text = GatedLayer(T, D, F), torch.empty(F, D, device="cuda", dtype=torch.bfloat16), gated_text(T, D, F, 0.005)
        p = Program(text).bind(x=layer.x, Wg=wgt, Wu=layer.wu, Wd=layer.wd, y=layer.y)
        for share in shares:
            layer.fresh("random", share * F)
            wgt.copy_(layer.wg.t())
            case("gated, %d × %d × %d, %g %%" % (T, D, F, 100 * share), text, p, gpu.nothing, sweep)
        p.close()
    for T, D, F in ((2048, 2048, 5632), (2048, 5120, 20480)):
        layer, text = GatedLayer(T, D, F), RELU % (T, D, F, 0.01)
        layer.fresh("random", 0.01 * F)
        wgt = layer.wg.t().contiguous()
        p = Program(text).bind(x=layer.x, W1=wgt, W2=layer.wd, y=layer.y)
        case("relu, %d × %d × %d, 1 %%" % (T, D, F), text, p, gpu.nothing, sweep)
        p.close()


if __name__ == "__main__":
    run_parts(masks=masks, zeros=zeros, rows=rows, layers=layers)
