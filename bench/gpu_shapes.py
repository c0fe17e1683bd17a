#!/usr/bin/env python3
"""Products of many shapes whose zeros the device finds, beside PyTorch (cuBLASLt) on one GPU: whether dense is the floor everywhere, not at 4096³ alone.

Usage: gpu_shapes.py LIBRARY [--json FILE] [--repeats N] [part...]      LIBRARY as for gpu.py; parts: turned along left right asked columns whole krows untold
One program a shape and kind of zeros, hinted `density=0.1` and the kind (`untold`: not hinted); masks are drawn anew for every turn.  dense: our own product without
a hint.  The floor is torch's product, and 3 % or 3 us, whichever is more."""
from concurrent.futures import ThreadPoolExecutor
import torch
from gpu import Program, bf16, compare, error, head, in_us, over_the_floor, predicted, row, run_parts, section
from gpu_blocks import ASKED, HINT, LEFT, RIGHT, decision, kernel_of

SHAPES = ((256, 4096, 4096), (512, 4096, 4096), (1024, 1024, 1024), (1000, 3000, 2000), (1024, 4096, 4096), (2048, 2048, 2048), (2048, 4096, 14336), (2048, 14336, 4096), (16384, 2048, 2048), (8192, 8192, 8192))
KEPT = (1.0, 0.5, 0.25, 0.1, 0.01)
TURNED = LEFT.replace("A: bf16[M,K] %s", "A: bf16[M,K] as dense_t %s")


def mask_of(shape, rows, columns, kept):
    """Of blocks of so many rows and columns, those at the edges cut off."""
    down, across = -(-shape[0] // rows), -(-shape[1] // columns)
    return (torch.rand(down, across, device="cuda") < kept).repeat_interleave(rows, 0)[:shape[0]].repeat_interleave(columns, 1)[:, :shape[1]]


def measure(title, text, listed, rows, columns, hint=HINT):
    """listed: A, B or W; columns 0: the whole row."""
    section("%s, bf16; microseconds\n" % title)
    head("M × K × N", "kept", "cover", "branch", "kernel", "spc (spread)", "dense", "torch (spread)", "torch / spc", "over the floor", "predicted", "error spc")
    asked, turned = listed == "W", "as dense_t" in text
    hinted = lambda m, k, n, share: text % (m, k, n, hint % (share, rows, columns or k) if "%" in hint else hint)
    plainly = lambda m, k, n: (text % (m, k, n, "")).replace("in W: b1[M,N] ;", "").replace(" on W[m,n]", "")
    with ThreadPoolExecutor(16) as compilers:
        programs = list(compilers.map(Program, [hinted(*shape, 0.1) for shape in SHAPES] + [plainly(*shape) for shape in SHAPES]))
    for (m, k, n), p, plain in zip(SHAPES, programs, programs[len(SHAPES):]):
        a, b = bf16(m, k), bf16(*((n, k) if asked else (k, n)))
        c, d, z = (torch.empty(m, n, device="cuda", dtype=torch.bfloat16) for _ in range(3))
        mask = torch.empty(m, n, device="cuda", dtype=torch.bool) if asked else None
        full = None if asked else (a if listed == "A" else b).clone()
        factor, stored = b.t() if asked else b, a.t().contiguous() if turned else a
        p.bind(A=stored, B=b, C=c, **({"W": mask.view(torch.uint8)} if asked else {}))
        plain.bind(A=stored, B=b, C=d)

        def fresh(kept):
            if asked:
                mask.copy_(mask_of((m, n), rows, columns, kept))
            elif listed == "B":
                torch.mul(full, mask_of(full.shape, rows, columns, kept), out=b)
            else:
                torch.mul(full, mask_of(full.shape, rows, columns or k, kept), out=a)
                if turned:
                    stored.copy_(a.t())
        x = stored.t() if turned else a
        for kept in KEPT:
            fresh(kept)
            (us, spread), (own, _), (ref, ref_spread) = compare([p, plain, lambda: torch.mm(x, factor, out=z)], lambda: fresh(kept))
            c.fill_(float("nan"))
            p()
            want = a.float() @ factor.float()
            stages = p.stages()
            row("%d × %d × %d" % (m, k, n), "%g %%" % (100 * kept), *decision(stages), "`%s`" % kernel_of(stages), "%.1f (%.1f)" % (us * 1e3, spread * 1e3), "%.1f" % (own * 1e3),
                "%.1f (%.1f)" % (ref * 1e3, ref_spread * 1e3), "%.2f" % (ref / us), over_the_floor(us, ref), in_us(predicted(hinted(m, k, n, kept))) if "%" in hint else "", "%.1e" % error(c, want * mask if asked else want))
        p.close(), plain.close()


run_parts(turned=lambda: measure("columns of 128 rows of A, stored [k][m]", TURNED, "A", 128, 1), along=lambda: measure("columns of 128 rows of A", LEFT, "A", 128, 1),
          left=lambda: measure("blocks of A of 128 x 64", LEFT, "A", 128, 64), right=lambda: measure("blocks of B of 64 x 128", RIGHT, "B", 64, 128),
          asked=lambda: measure("blocks of the result of 128 x 64, B stored [n][k]", ASKED, "W", 128, 64), columns=lambda: measure("single columns of 128 rows of the result, B stored [n][k]", ASKED, "W", 128, 1),
          whole=lambda: measure("whole rows of A", LEFT, "A", 1, 0), krows=lambda: measure("blocks of A of 1 x 64", LEFT, "A", 1, 64),
          untold=lambda: measure("columns of 128 rows of A, of which nobody has told", LEFT, "A", 128, 1, "~ zeros(dynamic)"))
