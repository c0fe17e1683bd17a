#!/usr/bin/env python3
"""Feed-forward layers of any number of tokens beside PyTorch's (cuBLASLt), on one GPU: between few tokens (gpu.py decode floor) and many (gpu.py ffn gated).

Usage: gpu_tokens.py LIBRARY [part...]      LIBRARY as for gpu.py; parts: gated relu larger
One program a number of tokens, hinted 0.5 % live neurons (relu: 5 %); the device decides for each mask.  Neurons are live at random, or as 1 / rank (`power law`).
torch: its products, relu, and for gated layers the product of gate and up projection.  The floor is that, and 3 % or 3 us, whichever is more."""
import torch
from gpu import GATED, RELU, GatedLayer, Program, compare, decision, error, head, over_the_floor, row, run_parts, section, stage_line, sweep

D, F, TOKENS = 2048, 5632, (96, 128, 256, 320, 384, 448, 512, 701, 1000, 1500, 2048, 3001, 4096)
LARGER, SOME_TOKENS = ((2048, 8192), (4096, 14336), (5120, 20480)), (64, 128, 256, 512, 1000, 2048, 4096)


def columns():
    head("tokens × D × H", "neurons", "live", "cover", "branch", "spc (spread)", "torch (spread)", "torch / spc", "over the floor", "error spc")


def measure(T, p, layer, fresh, reference, check, kind, share):
    """check: how wrong the result is, and how many neurons are live."""
    D, F = layer.D, layer.F
    fresh(kind, share * F)
    (us, spread), (ref, other) = compare([p, reference], before=sweep)
    layer.y.fill_(float("nan"))
    p()
    wrong, live = check()
    row("%d × %d × %d" % (T, D, F), kind, "%.1f %%" % (100 * live / F), *decision(p.stages()), "%.1f (%.1f)" % (us * 1e3, spread * 1e3), "%.1f (%.1f)" % (ref * 1e3, other * 1e3), "%.2f" % (ref / us),
        over_the_floor(us, ref), "%.1e" % wrong)


def gated_layers(T, D, F, cases):
    layer = GatedLayer(T, D, F)
    p = layer.bind(Program(GATED % (T, D, F, 0.005)), False)
    for kind, shares in cases:
        for share in shares:
            measure(T, p, layer, layer.fresh, layer.layer, lambda: layer.error(False), kind, share)
    print("<!-- %s -->" % stage_line(p))
    p.close()


def gated():
    section("gated layers by tokens and live neurons, bf16, hint 0.5 %; microseconds, L2 cold\n")
    columns()
    for T in TOKENS:
        gated_layers(T, D, F, (("random", (0.0025, 0.005, 0.01, 0.02, 0.1, 0.5)), ("power law", (0.005, 0.01, 0.02))))


def larger():
    section("larger gated layers by tokens and live neurons, bf16, hint 0.5 %; microseconds, L2 cold\n")
    columns()
    for size in LARGER:
        for T in SOME_TOKENS:
            gated_layers(T, *size, (("random", (0.005, 0.01, 0.02, 0.1, 0.5, 0.9)), ("power law", (0.005, 0.02))))


def relu():
    section("layers of relu by tokens and live neurons, bf16, hint 5 %; microseconds, L2 cold\n")
    columns()
    for T in TOKENS:
        layer = GatedLayer(T, D, F)
        w1 = torch.empty(F, D, device="cuda", dtype=torch.bfloat16)
        p = Program(RELU % (T, D, F, 0.05)).bind(x=layer.x, W1=w1, W2=layer.wd, y=layer.y)

        def fresh(kind, active):
            layer.fresh(kind, active)
            w1.copy_(layer.wg.t())

        def reference():
            torch.mm(layer.x, layer.wg, out=layer.g)
            torch.relu_(layer.g)
            torch.mm(layer.g, layer.wd, out=layer.z)

        def check():
            h = torch.relu(layer.x.float() @ layer.wg.float()).to(torch.bfloat16).float()
            return error(layer.y, h @ layer.wd.float()), (h != 0).float().sum(1).mean().item()

        for kind, shares in (("random", (0.005, 0.01, 0.05, 0.3)), ("power law", (0.01, 0.05))):
            for share in shares:
                measure(T, p, layer, fresh, reference, check, kind, share)
        print("<!-- %s -->" % stage_line(p))
        p.close()


if __name__ == "__main__":
    run_parts(gated=gated, relu=relu, larger=larger)
