#!/usr/bin/env python3
"""Few rows whose zeros the device finds: products of what a caller gives or asks for, and relu layers; whether dense is their floor where a hint is wrong.  Beside PyTorch (cuBLASLt) on one GPU.

Usage: gpu_few.py LIBRARY [--json FILE] [--repeats N] [part...]      LIBRARY as for gpu.py; parts: given asked relu
given: y = x W, x hinted by columns of 8 rows, and kept by such columns.  asked: y = x W where a mask of bytes of such columns holds, W stored [n][k].  relu: layers whose neurons are live at random, or alike in 8 tokens.
forced: the same program, told that zeros are worth skipping, whatever there is.  All of them as replayed graphs, L2 cold.  The floor is torch's time, and 3 % or 3 us, whichever is more."""
from concurrent.futures import ThreadPoolExecutor
import torch
from gpu import RELU, Program, bf16, compare, error, graph_of, head, over_the_floor, row, run_parts, section, sweep

SHAPES = ((4096, 4096), (14336, 4096), (20480, 5120))
ROWS = (1, 2, 4, 8, 16, 32, 64)
KEPT = (1.0, 0.5, 0.25, 0.1, 0.05, 0.02)
GIVEN = """spx 1; dim T = %d; dim K = %d; dim N = %d;
kernel k { in x: bf16[T,K] ~ zeros(dynamic, density=%g, gran=8x1); in W: bf16[K,N] const; out y[t,n] = sum[k] x[t,k]*W[k,n] : bf16 acc f32; }"""


ASKED = """spx 1; dim T = %d; dim K = %d; dim N = %d;
kernel k { in x: bf16[T,K]; in W: bf16[N,K] const; in M: b1[T,N] ~ zeros(dynamic, density=%g, gran=8x1); out y[t,n] = sum[k] x[t,k]*W[n,k] on M[t,n] : bf16 acc f32; }"""


def programs(texts):
    with ThreadPoolExecutor(16) as compilers:
        return list(compilers.map(lambda text: (Program(text), Program(text, force=1)), texts))


def computes(p):
    """The cover, the branch, and the kernel of the last stage that ran."""
    stages = p.stages()
    cover, kernel = max(s[3] for s in stages), [k for s, k, ran, c, ms in stages if ran][-1]
    return "%.2f" % cover if cover >= 0 else "no sample", "sparse" if "skip" in kernel else "dense", "`%s`" % kernel.removeprefix("gemm_")


def columns(*names):
    head(*names, "cover", "branch", "kernel", "spc (spread)", "forced", "torch (spread)", "torch / spc", "over the floor", "error spc")


def measure(names, sides, reference, p, y, want):
    (us, spread), (forced, _), (ref, other) = compare([graph_of(side) for side in (*sides, reference)], before=sweep)
    y.fill_(float("nan"))
    p()
    row(*names, *computes(p), "%.1f (%.1f)" % (us * 1e3, spread * 1e3), "%.1f" % (forced * 1e3), "%.1f (%.1f)" % (ref * 1e3, other * 1e3), "%.2f" % (ref / us), over_the_floor(us, ref), "%.1e" % error(y, want))


def given():
    for hint in (0.1, 0.02):
        section("y = x W, x of few rows that the caller gives, bf16, hint `density=%g, gran=8x1`; microseconds, L2 cold\n" % hint)
        columns("M × K × N", "kept")
        cases = [(m, k, n) for k, n in SHAPES for m in ROWS]
        for (m, k, n), (p, forced) in zip(cases, programs([GIVEN % (*case, hint) for case in cases])):
            x, w = torch.empty(m, k, device="cuda", dtype=torch.bfloat16), bf16(k, n)
            y, f, z = (torch.empty(m, n, device="cuda", dtype=torch.bfloat16) for _ in range(3))
            p.bind(x=x, W=w, y=y), forced.bind(x=x, W=w, y=f)
            for kept in KEPT:
                x.copy_(bf16(m, k) * (torch.rand(-(-m // 8), k, device="cuda") < kept).repeat_interleave(8, 0)[:m])
                measure(("%d × %d × %d" % (m, k, n), "%g %%" % (100 * kept)), (p, forced), lambda: torch.mm(x, w, out=z), p, y, x.float() @ w.float())
            p.close(), forced.close()


def asked():
    section("y = x W on M, few rows and a mask that the caller gives, bf16, hint `density=0.02, gran=8x1`; microseconds, L2 cold\n")
    columns("M × K × N", "kept")
    cases = [(m, k, n) for k, n in ((4096, 14336), (2048, 5632), (5120, 20480)) for m in (1, 4, 8, 16, 64)]
    for (m, k, n), (p, forced) in zip(cases, programs([ASKED % (*case, 0.02) for case in cases])):
        x, w, mask = bf16(m, k), bf16(n, k), torch.empty(m, n, device="cuda", dtype=torch.bool)
        y, f, z = (torch.empty(m, n, device="cuda", dtype=torch.bfloat16) for _ in range(3))
        p.bind(x=x, W=w, M=mask.view(torch.uint8), y=y), forced.bind(x=x, W=w, M=mask.view(torch.uint8), y=f)
        for kept in KEPT:
            mask.copy_((torch.rand(-(-m // 8), n, device="cuda") < kept).repeat_interleave(8, 0)[:m])
            measure(("%d × %d × %d" % (m, k, n), "%g %%" % (100 * kept)), (p, forced), lambda: torch.mm(x, w.t(), out=z), p, y, (x.float() @ w.float().t()) * mask)
        p.close(), forced.close()


def relu():
    section("relu layers of few tokens, bf16, one program a size, hint 0.5 %; microseconds, L2 cold\n")
    columns("tokens × D × H", "live", "kind")
    cases = [(t, d, f) for d, f in ((2048, 5632), (5120, 20480)) for t in (2, 8, 16, 64)]
    texts = [RELU % (*case, 0.005) for case in cases]
    for (t, d, f), (p, forced) in zip(cases, programs(texts)):
        x, w1, w2 = bf16(t, d), bf16(f, d, scale=d ** -0.5), bf16(f, d, scale=0.02)
        groups = -(-t // 8)
        x[:, -groups:] = torch.nn.functional.one_hot(torch.arange(t, device="cuda") // 8, groups).to(torch.bfloat16)
        y, g, z = (torch.empty(t, d, device="cuda", dtype=torch.bfloat16) for _ in range(3))
        h = torch.empty(t, f, device="cuda", dtype=torch.bfloat16)
        p.bind(x=x, W1=w1, W2=w2, y=y), forced.bind(x=x, W1=w1, W2=w2, y=g)

        def layer():
            torch.mm(x, w1.t(), out=h)
            torch.relu_(h)
            torch.mm(h, w2, out=z)
        for kind, lives in (("random", (1.0, 0.5, 0.1, 0.05, 0.02, 0.005)), ("alike", (0.1, 0.02))):
            for live in lives:
                if kind == "alike":
                    w1[:, -groups:] = torch.where(torch.rand(f, groups, device="cuda") < live, 6.0, -50.0).to(torch.bfloat16)
                else:
                    w1[:, -groups:] = torch.distributions.Normal(0, 1).icdf(torch.tensor(min(live, 0.9999))).item()
                want = torch.relu(x.float() @ w1.float().t()).to(torch.bfloat16).float() @ w2.float()
                measure(("%d × %d × %d" % (t, d, f), "%g %%" % (100 * live), kind), (p, forced), layer, p, y, want)
        p.close(), forced.close()


if __name__ == "__main__":
    run_parts(given=given, asked=asked, relu=relu)
