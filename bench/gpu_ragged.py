#!/usr/bin/env python3
"""Rows in ragged groups, each with matrices of its own (experts; batches of sequences), against PyTorch on one GPU.

Usage: gpu_ragged.py LIBRARY [part...]      LIBRARY as for gpu.py; parts: experts lengths
Offsets are read on the device by both sides; which tokens take which expert is drawn once a row, by Zipf's law or evenly, so that
lengths are skewed and some groups empty.  Peers: grouped products with the gather, the gate and the scatter that they need
around them (`torch._grouped_mm`), and the same padded to the longest group (`torch.bmm`), which is given its padded rows.
What is measured, and how, is gpu.py's; the weights alone, read once, are the bound that is printed."""
import torch
import gpu
from gpu import Program, bf16, compare, error, head, rate, row, section, stage_line

EXPERTS = """spx 1; dim T: dyn; dim R: dyn; dim D = %d; dim F = %d; dim E = %d;
kernel moe {
  in x: bf16[T,D];  in off: i32[E+1];  in perm: i32[R];  in w: f32[R];
  in Wg: bf16[E,D,F];  in Wu: bf16[E,D,F];  in Wd: bf16[E,F,D];
  ragged r in off[e]..off[e+1];
  let h[r,f] = silu(sum[d] x[perm[r],d]*Wg[e,d,f]) * (sum[d] x[perm[r],d]*Wu[e,d,f]);
  out y[perm[r],o] += w[r] * sum[f] h[r,f]*Wd[e,f,o] : bf16[T,D] acc f32 order(fixed);
}"""
LENGTHS = """spx 1; dim R: dyn; dim D = %d; dim F = %d; dim S = %d;
kernel k { in x: bf16[R,D]; in off: i32[S+1]; in W: bf16[S,D,F]; ragged r in off[s]..off[s+1];
  out y[r,f] = sum[d] x[r,d]*W[s,d,f] : bf16 acc f32; }"""


def routed(tokens, top, experts, skew):
    """Tokens in the order of their experts, where each expert's begin, and weights."""
    likely = torch.arange(1, experts + 1, device="cuda").float() ** -skew
    chosen = torch.multinomial(likely.expand(tokens, -1), top)
    order = torch.argsort(chosen.flatten(), stable=True)
    off = torch.zeros(experts + 1, device="cuda", dtype=torch.int32)
    off[1:] = torch.cumsum(torch.bincount(chosen.flatten(), minlength=experts), 0)
    return off, (order // top).int(), torch.rand(tokens * top, device="cuda")


def grouped(x, off, perm, w, wg, wu, wd, y):
    rows = x.index_select(0, perm)
    h = torch.nn.functional.silu(torch._grouped_mm(rows, wg, offs=off[1:])) * torch._grouped_mm(rows, wu, offs=off[1:])
    z = torch._grouped_mm(h, wd, offs=off[1:])
    y.copy_(torch.zeros(y.shape, device="cuda").index_add_(0, perm, z.float() * w[:, None]))


def padded(x, wg, wu, wd):
    h = torch.nn.functional.silu(torch.bmm(x, wg)) * torch.bmm(x, wu)
    return torch.bmm(h, wd)


def reference(x, off, perm, w, wg, wu, wd):
    y = torch.zeros(x.shape, device="cuda")
    ends = off.tolist()
    for e in range(len(ends) - 1):
        at = slice(ends[e], ends[e + 1])
        rows = x[perm[at].long()].float()
        h = (torch.nn.functional.silu(rows @ wg[e].float()) * (rows @ wu[e].float())).to(torch.bfloat16).float()
        y.index_add_(0, perm[at].long(), (h @ wd[e].float()) * w[at][:, None])
    return y


def try_side(run, says):
    try:
        run()
        torch.cuda.synchronize()
        return True
    except (RuntimeError, AttributeError) as reason:
        print("<!-- %s: %s -->" % (says, str(reason).splitlines()[0]))
        return False


def experts_row(tokens, top, experts, d, f, skew):
    x, y = bf16(tokens, d), torch.empty(tokens, d, device="cuda", dtype=torch.bfloat16)
    wg, wu, wd = bf16(experts, d, f, scale=d ** -0.5), bf16(experts, d, f, scale=d ** -0.5), bf16(experts, f, d, scale=f ** -0.5)
    off, perm, w = routed(tokens, top, experts, skew)
    lengths = (off[1:] - off[:-1]).tolist()
    p = Program(EXPERTS % (d, f, experts), T=tokens, R=tokens * top).bind(x=x, off=off, perm=perm, w=w, Wg=wg, Wu=wu, Wd=wd, y=y)
    out = torch.empty_like(y)
    sides, names = [p], ["spc"]
    group = lambda: grouped(x, off, perm, w, wg, wu, wd, out)
    if try_side(group, "grouped"):
        sides.append(group), names.append("grouped")
    if max(lengths) * experts * max(d, f) * 2 < 8e9:
        rows = bf16(experts, max(lengths), d)
        sides.append(lambda: padded(rows, wg, wu, wd)), names.append("padded")
    times = dict(zip(names, compare(sides)))
    y.fill_(float("nan"))
    p()
    us, spread = times["spc"]
    cell = lambda name: "%.0f | %.2f" % (times[name][0] * 1e3, times[name][0] / us) if name in times else "- | -"
    read = sum(1 for n in lengths if n) * 3 * d * f * 2 / 4.2e12 * 1e6
    row("%d × %d of %d" % (tokens, top, experts), "%d × %d" % (d, f), "%g" % skew, "%d (%d empty)" % (max(lengths), lengths.count(0)),
        "%.0f (%.0f)" % (us * 1e3, spread * 1e3), cell("grouped"), cell("padded"), "%.0f" % rate(6 * tokens * top * d * f, us), "%.0f" % read,
        "%.1e" % error(y, reference(x, off, perm, w, wg, wu, wd)))
    print("<!-- %s -->" % stage_line(p))
    p.close()


def experts():
    section("experts, bf16; microseconds\n")
    head("tokens × taken of experts", "D × F", "Zipf", "longest group", "spc (spread)", "grouped products", "times as long as spc", "padded products",
         "times as long as spc", "TFLOP/s spc", "weights read once", "error spc")
    for case in ((8192, 2, 8, 4096, 14336, 0.5), (4096, 2, 64, 2048, 1408, 0.8), (8192, 6, 64, 2048, 1408, 0.8), (4096, 8, 128, 2048, 768, 0.8),
                 (16, 2, 64, 2048, 1408, 0), (1, 8, 128, 2048, 768, 0)):
        experts_row(*case)


def lengths():
    section("sequences of skewed lengths, a matrix each, bf16; microseconds\n")
    head("sequences", "lengths: sum, longest", "D × F", "spc (spread)", "grouped products", "times as long as spc", "padded dense", "times as long as spc", "TFLOP/s spc", "error spc")
    for count, longest, d, f in ((32, 2048, 1024, 4096), (8, 4096, 4096, 4096), (256, 128, 1024, 1024)):
        length = (longest * torch.rand(count, device="cuda") ** 3).int()
        length[0], length[1] = longest, 0
        off = torch.zeros(count + 1, device="cuda", dtype=torch.int32)
        off[1:] = torch.cumsum(length, 0)
        rows = int(off[-1])
        x, weights = bf16(rows, d), bf16(count, d, f)
        y = torch.empty(rows, f, device="cuda", dtype=torch.bfloat16)
        p = Program(LENGTHS % (d, f, count), R=rows).bind(x=x, off=off, W=weights, y=y)
        pad = bf16(count, longest, d)
        sides = [p, lambda: torch.bmm(pad, weights)]
        group = lambda: torch._grouped_mm(x, weights, offs=off[1:])
        if try_side(group, "grouped"):
            sides.append(group)
        times = compare(sides)
        y.fill_(float("nan"))
        p()
        ends = off.tolist()
        want = torch.cat([x[ends[s]:ends[s + 1]].float() @ weights[s].float() for s in range(count)])
        us = times[0][0]
        row(count, "%d, %d" % (rows, longest), "%d × %d" % (d, f), "%.1f (%.1f)" % (us * 1e3, times[0][1] * 1e3),
            *("%.1f" % (times[2][0] * 1e3), "%.2f" % (times[2][0] / us)) if len(times) > 2 else ("-", "-"),
            "%.1f" % (times[1][0] * 1e3), "%.2f" % (times[1][0] / us), "%.0f" % rate(2 * rows * d * f, us), "%.1e" % error(y, want))
        print("<!-- %s -->" % stage_line(p))
        p.close()


if __name__ == "__main__":
    gpu.run_parts(experts=experts, lengths=lengths)
