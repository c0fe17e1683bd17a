#!/usr/bin/env python3
"""Products whose zeros come in blocks, known on the device only, against PyTorch (cuBLASLt) on one GPU.

Usage: gpu_blocks.py LIBRARY [--json FILE] [--svg FOLDER] [--repeats N] [part...]      LIBRARY as for gpu.py; parts: edges left right asked columns broken krows regrouped whole untold
A, B and C lie row by row; detection, guard, product and fill are in every time, masks are drawn anew for every turn.
What is measured, and how, is gpu.py's."""
import torch
import gpu
from gpu import Program, bf16, compare, curves, error, head, in_us, predicted, rate, row, section, stage_line, wanted

SIZE = 4096
HINT = "~ zeros(dynamic, density=%g, gran=%dx%d)"
LEFT = """spx 1; dim M = %d; dim K = %d; dim N = %d;
kernel k { in A: bf16[M,K] %s; in B: bf16[K,N]; out C[m,n] = sum[k] A[m,k]*B[k,n] : bf16 acc f32; }"""
RIGHT = """spx 1; dim M = %d; dim K = %d; dim N = %d;
kernel k { in A: bf16[M,K]; in B: bf16[K,N] %s; out C[m,n] = sum[k] A[m,k]*B[k,n] : bf16 acc f32; }"""
ASKED = """spx 1; dim M = %d; dim K = %d; dim N = %d;
kernel k { in A: bf16[M,K]; in B: bf16[N,K]; in W: b1[M,N] %s; out C[m,n] = sum[k] A[m,k]*B[n,k] on W[m,n] : bf16 acc f32; }"""
KEPT = (1.0, 0.5, 0.25, 0.1, 0.05, 0.01, 0.001)


def decision(stages):
    cover = max(s[3] for s in stages)
    return ("no list", "dense") if cover < 0 else ("%.3f" % cover, "dense" if any(s == "C.dense" and ran for s, k, ran, c, ms in stages) else "sparse")


def kernel_of(stages):
    return next((k for s, k, ran, c, ms in stages if s == "C"), "")


def in_blocks(kept, rows, columns, shape):
    """A mask of blocks of rows x columns, each kept with this probability."""
    return torch.rand(shape[0] // rows, 1, shape[1] // columns, 1, device="cuda") < kept


def draw(w, kept, rows, columns):
    """A mask of blocks of rows x columns, anew."""
    mask = in_blocks(kept, rows, columns, w.shape)
    w.view(w.shape[0] // rows, rows, w.shape[1] // columns, columns).copy_(mask.expand(-1, rows, -1, columns))


def apply(full, mask, out):
    blocks = (mask.shape[0], full.shape[0] // mask.shape[0], mask.shape[2], full.shape[1] // mask.shape[2])
    torch.mul(full.view(blocks), mask, out=out.view(blocks))


def operand(title, text, which, cases):
    section("%s, %d³, bf16; microseconds\n" % (title, SIZE))
    head("blocks", "kept", "cover", "branch", "kernel", "spc (spread)", "torch dense (spread)", "spc / torch speed", "predicted", "useful TFLOP/s", "error spc")
    series = {}
    for rows, columns, hint in cases:
        a, b = bf16(SIZE, SIZE), bf16(SIZE, SIZE)
        listed = a if which == "A" else b
        full, c, z = listed.clone(), torch.empty_like(a), torch.empty_like(a)
        p = Program(text % (SIZE, SIZE, SIZE, HINT % (hint, rows, columns))).bind(A=a, B=b, C=c)
        for kept in KEPT:
            fresh = lambda: apply(full, in_blocks(kept, rows, columns, full.shape), listed)
            fresh()
            (us, spread), (ref, ref_spread) = compare([p, lambda: torch.mm(a, b, out=z)], fresh)
            c.fill_(float("nan"))
            p()
            stages, model = p.stages(), predicted(text % (SIZE, SIZE, SIZE, HINT % (kept, rows, columns)))
            if model:
                series.setdefault("%dx%d" % (rows, columns), []).append((kept, us * 1e3, ref * 1e3, model * 1e3))
            row("%dx%d" % (rows, columns), "%g %%" % (100 * kept), *decision(stages), "`%s`" % kernel_of(stages), "%.1f (%.1f)" % (us * 1e3, spread * 1e3),
                "%.1f (%.1f)" % (ref * 1e3, ref_spread * 1e3), "%.2f" % (ref / us), in_us(model), "%.0f" % rate(2 * kept * SIZE ** 3, us), "%.1e" % error(c, a.float() @ b.float()))
            if kept in (1.0, 0.1, 0.01):
                print("<!-- %s -->" % stage_line(p))
        p.close()
    curves("blocks_of_%s" % which.lower(), "%s, 4096³ bf16" % title, series)


def left():
    operand("blocks of A", LEFT, "A", ((128, 64, 0.1), (64, 64, 0.1), (32, 64, 0.1)))


# Rows of one kind that do not lie side by side: which blocks of 64 columns a row holds.
def kinds(count, noise=0.0):
    def mask(rows, blocks):
        mine = (torch.arange(rows, device="cuda") % count)[:, None] == (torch.arange(blocks, device="cuda") * count // blocks)[None]
        return mine | (torch.rand(rows, blocks, device="cuda") < noise) if noise else mine
    return mask


def whole_rows(kept):
    return lambda rows, blocks: (torch.rand(rows, 1, device="cuda") < kept).expand(-1, blocks)


def power_law(kept):
    def mask(rows, blocks):
        share = 1 / (torch.arange(blocks, device="cuda") + 1.0)
        share = (share * kept * blocks / share.sum()).clamp(max=1)[torch.randperm(blocks, device="cuda")]
        return torch.rand(rows, blocks, device="cuda") < share
    return mask


def single(kept):
    return lambda rows, blocks: torch.rand(rows, blocks, device="cuda") < kept


def draw_rows(full, a, mask):
    """Rows that hold `full`'s values in the blocks of 64 columns that the mask says, anew."""
    blocks = SIZE // 64
    torch.mul(full.view(SIZE, blocks, 64), mask(SIZE, blocks)[:, :, None], out=a.view(SIZE, blocks, 64))


REGROUP = " schedule k for sm_90a { regroup C; }"


def rows_table(file, title, hint, cases, schedule=""):
    section("%s, %d³, bf16; microseconds\n" % (title, SIZE))
    head("rows", "hint", "nominal", "cover as they lie", "found", "branch", "kernel", "spc (spread)", "as they lie", "torch dense (spread)", "spc / torch speed", "wanted", "predicted", "error spc")
    series = {}
    a, b = bf16(SIZE, SIZE), bf16(SIZE, SIZE)
    full, c, d, z = a.clone(), torch.empty_like(a), torch.empty_like(a), torch.empty_like(a)
    blocks = SIZE // 64
    p = Program(LEFT % (SIZE, SIZE, SIZE, "~ zeros(dynamic, %s)" % hint) + schedule).bind(A=a, B=b, C=c)
    straight = Program(LEFT % (SIZE, SIZE, SIZE, HINT % (0.1, 128, 64))).bind(A=a, B=b, C=d)
    for name, mask, *aim in cases:
        fresh = lambda: draw_rows(full, a, mask)
        fresh()
        (us, spread), (lying, _), (ref, ref_spread) = compare([p, straight, lambda: torch.mm(a, b, out=z)], fresh)
        c.fill_(float("nan"))
        p()
        live, stages = a.view(SIZE, blocks, 64).ne(0).any(2), p.stages()
        model = predicted(LEFT % (SIZE, SIZE, SIZE, HINT % (aim[1], 1, SIZE if aim[0] == "rows" else 64)) + schedule) if aim else None
        if model:
            series.setdefault(name.rsplit(",", 1)[0], []).append((aim[1], us * 1e3, ref * 1e3, model * 1e3))
        row(name, hint, "%.3f" % live.float().mean().item(), "%.2f" % live.view(-1, 128, blocks).any(1).float().mean().item(), *decision(stages), "`%s`" % kernel_of(stages),
            "%.1f (%.1f)" % (us * 1e3, spread * 1e3), "%.1f" % (lying * 1e3), "%.1f (%.1f)" % (ref * 1e3, ref_spread * 1e3), "%.2f" % (ref / us), wanted(*(aim or ("", 0))), in_us(model), "%.1e" % error(c, a.float() @ b.float()))
        if name.startswith(("8 kinds", "whole rows, 10", "whole rows, 1 ")):
            print("<!-- %s -->" % stage_line(p))
    p.close(), straight.close()
    curves(file, "%s, 4096³ bf16" % title, series)


def pieces(shares):
    return [("1x64, %g %%" % (100 * k), single(k), "1x64", k) for k in shares]


LAW = [("power law, %g %%" % (100 * k), power_law(k)) for k in (0.1, 0.05, 0.01)]
ALIKE = [("8 kinds", kinds(8)), ("8 kinds, 0.2 % besides", kinds(8, 0.002)), ("2 kinds", kinds(2)), ("32 kinds", kinds(32))]


def krows():
    for file, hint in (("krows", 0.1), ("krows_sparser", 0.03)):
        rows_table(file, "rows by blocks of k; blocks of A of 1 x 64", "density=%g, gran=1x64" % hint, pieces((1.0, 0.5, 0.25, 0.15, 0.1, 0.05, 0.03, 0.01, 0.001)) + LAW + ALIKE)


def regrouped():
    rows_table("regrouped", "rows that are alike, wherever they lie; blocks of A of 1 x 64", "density=0.1, gran=1x64", ALIKE + pieces(KEPT) + LAW, REGROUP)


def whole():
    rows_table("whole_rows", "whole rows of A", "density=0.1, gran=1x%d" % SIZE, [("whole rows, %g %%" % (100 * k), whole_rows(k), "rows", k) for k in KEPT])


def strips(rows, kept):
    """Columns of so many rows."""
    return lambda shape: torch.rand(shape[0] // rows, shape[1], device="cuda").lt(kept).repeat_interleave(rows, 0)


def by_64(mask):
    return lambda shape: mask(shape[0], shape[1] // 64).repeat_interleave(64, 1)


UNTOLD = [("100 %", lambda shape: torch.ones(shape, device="cuda", dtype=torch.bool), ""),
          *(("columns of 128 rows, %g %%" % (100 * k), strips(128, k), ", gran=128x1") for k in (0.5, 0.1, 0.01)),
          *(("columns of 32 rows, %g %%" % (100 * k), strips(32, k), ", gran=32x1") for k in (0.25, 0.05)),
          *(("blocks of 128 x 64, %g %%" % (100 * k), by_64(lambda rows, blocks, kept=k: torch.rand(rows // 128, blocks, device="cuda").lt(kept).repeat_interleave(128, 0)), ", gran=128x64") for k in (0.25, 0.1)),
          *(("whole rows, %g %%" % (100 * k), by_64(whole_rows(k)), ", gran=1x%d" % SIZE) for k in (0.75, 0.5, 0.25, 0.1, 0.01)),
          ("the upper half", lambda shape: (torch.arange(shape[0], device="cuda") < shape[0] // 2)[:, None].expand(shape), ", gran=1x%d" % SIZE),
          *(("1x64, %g %%" % (100 * k), by_64(single(k)), ", gran=1x64") for k in (0.5, 0.25, 0.1, 0.05, 0.01, 0.001)),
          *(("single elements, %g %%" % (100 * k), lambda shape, kept=k: torch.rand(shape, device="cuda") < kept, ", gran=1x1") for k in (0.5, 0.1, 0.03, 0.01, 0.001))]


def untold_table(title, text, turned, cases):
    section("zeros of A of which nobody has told how they come, %s, %d³, bf16; microseconds\n" % (title, SIZE))
    print("`told`: a program that is hinted `density=0.1` and the blocks.\n")
    head("zeros", "computed by", "cover of the list that was", "spc (spread)", "told", "torch dense (spread)", "spc / torch speed", "error spc")
    a, b = bf16(SIZE, SIZE), bf16(SIZE, SIZE)
    factor = b.t() if turned else b
    full, c, d, z = a.clone(), torch.empty_like(a), torch.empty_like(a), torch.empty_like(a)
    p, told = Program(text % (SIZE, SIZE, SIZE, "~ zeros(dynamic)")).bind(A=a, B=b, C=c), {}
    for name, mask, hint in cases:
        if hint not in told:
            told[hint] = Program(text % (SIZE, SIZE, SIZE, "~ zeros(dynamic, density=0.1%s)" % hint if hint else "")).bind(A=a, B=b, C=d)
        fresh = lambda: torch.mul(full, mask(full.shape), out=a)
        fresh()
        (us, spread), (hinted, _), (ref, ref_spread) = compare([p, told[hint], lambda: torch.mm(a, factor, out=z)], fresh)
        c.fill_(float("nan"))
        p()
        by = [(k, cover) for s, k, ran, cover, ms in p.stages() if ran and s.startswith("C")]
        row(name, "`%s`" % (by[-1][0] if by else "the front"), "%.3f" % by[-1][1] if by and by[-1][1] >= 0 else "", "%.1f (%.1f)" % (us * 1e3, spread * 1e3), "%.1f" % (hinted * 1e3),
            "%.1f (%.1f)" % (ref * 1e3, ref_spread * 1e3), "%.2f" % (ref / us), "%.1e" % error(c, a.float() @ factor.float()))
    p.close(), [each.close() for each in told.values()]


def untold():
    """One program that is told of zeros and of nothing else, beside one that is told how they come."""
    untold_table("B stored [k][n]", LEFT, False, UNTOLD)
    untold_table("B stored [n][k], as a linear layer's weights are", LEFT.replace("B: bf16[K,N]", "B: bf16[N,K]").replace("B[k,n]", "B[n,k]"), True,
                 [case for case in UNTOLD if case[0].startswith(("100", "whole", "the upper", "1x64, 10", "single elements, 3"))])


def right():
    operand("blocks of B", RIGHT, "B", ((64, 128, 0.1), (64, 64, 0.1)))


def asked():
    mask_table("asked_blocks", "blocks", ((128, 64, 0.1), (64, 64, 0.1), (128, 64, 0.02), (32, 64, 0.1)))


def columns():
    mask_table("asked_columns", "single columns of some rows", ((128, 1, 0.1), (64, 1, 0.1), (32, 1, 0.1), (16, 1, 0.1), (8, 1, 0.1), (1, 1, 0.01)))


def broken():
    """Columns of fewer rows than the program was told of; guards forced both ways beside it."""
    section("single columns that break their hint (128x1, 0.1; mask of bytes), %d³, bf16; microseconds\n" % SIZE)
    print("`in part`: the share of the columns of strips of 128 that hold in some of their rows alone; `sparse`, `dense`: the guard forced.\n")
    head("columns", "kept", "cover", "in part", "branch", "spc (spread)", "sparse", "dense", "torch dense (spread)", "spc / torch speed", "error spc", "error sparse")
    strip = 128
    a, b, w = bf16(SIZE, SIZE), bf16(SIZE, SIZE), torch.empty(SIZE, SIZE, device="cuda", dtype=torch.bool)
    c, z = torch.empty_like(a), torch.empty_like(a)
    ways = [Program(ASKED % (SIZE, SIZE, SIZE, HINT % (0.1, strip, 1)), force=force).bind(A=a, B=b, W=w.view(torch.uint8), C=c) for force in (0, 1, 2)]
    for rows, shares in ((64, (0.5, 0.3, 0.2, 0.1, 0.03, 0.01)), (32, (0.3, 0.2, 0.1, 0.03, 0.01)), (8, (0.1, 0.03, 0.01, 0.001)), (1, (0.1, 0.01, 0.003, 0.001))):
        for kept in shares:
            fresh = lambda: draw(w, kept, rows, 1)
            fresh()
            (us, spread), (sparse, _), (dense, _), (ref, ref_spread) = compare([*ways, lambda: torch.mm(a, b.t(), out=z)], fresh)
            strips, want, errors = w.view(SIZE // strip, strip, SIZE), (a.float() @ b.float().t()) * w, []
            cover = strips.any(1).float().mean().item()
            for p in ways[:2]:
                c.fill_(float("nan"))
                p()
                errors.append("%.1e" % error(c, want))
            row("%dx1" % rows, "%g %%" % (100 * kept), "%.3f" % cover, "%.3f" % (cover - strips.all(1).float().mean().item()), decision(ways[0].stages())[1], "%.1f (%.1f)" % (us * 1e3, spread * 1e3),
                "%.1f" % (sparse * 1e3), "%.1f" % (dense * 1e3), "%.1f (%.1f)" % (ref * 1e3, ref_spread * 1e3), "%.2f" % (ref / us), *errors)
    for p in ways:
        p.close()


def mask_table(file, title, cases):
    section("a result that is asked for in %s (mask of bytes), %d³, bf16; microseconds\n" % (title, SIZE))
    print("torch: the product alone, without the mask; `masked`: and `masked_fill_` after it.\n")
    head("blocks", "kept", "cover", "branch", "kernel", "spc (spread)", "torch dense (spread)", "torch masked", "spc / torch speed", "wanted", "predicted", "useful TFLOP/s", "error spc")
    series = {}
    for rows, columns, hint in cases:
        a, b, w = bf16(SIZE, SIZE), bf16(SIZE, SIZE), torch.empty(SIZE, SIZE, device="cuda", dtype=torch.bool)
        c, z, zm = torch.empty_like(a), torch.empty_like(a), torch.empty_like(a)
        p = Program(ASKED % (SIZE, SIZE, SIZE, HINT % (hint, rows, columns))).bind(A=a, B=b, W=w.view(torch.uint8), C=c)
        def masked():
            torch.mm(a, b.t(), out=zm)
            zm.masked_fill_(~w, 0)
        for kept in KEPT:
            fresh = lambda: draw(w, kept, rows, columns)
            fresh()
            (us, spread), (ref, ref_spread), (both, _) = compare([p, lambda: torch.mm(a, b.t(), out=z), masked], fresh)
            c.fill_(float("nan"))
            p()
            stages, want, model = p.stages(), (a.float() @ b.float().t()) * w, predicted(ASKED % (SIZE, SIZE, SIZE, HINT % (kept, rows, columns)))
            if model and hint > 0.05 or rows * columns == 1:
                series.setdefault("%dx%d" % (rows, columns), []).append((kept, us * 1e3, ref * 1e3, (model or 0) * 1e3))
            row("%dx%d, hint %g" % (rows, columns, hint), "%g %%" % (100 * kept), *decision(stages), "`%s`" % kernel_of(stages), "%.1f (%.1f)" % (us * 1e3, spread * 1e3),
                "%.1f (%.1f)" % (ref * 1e3, ref_spread * 1e3), "%.1f" % (both * 1e3), "%.2f" % (ref / us), wanted("%dx%d" % (rows, columns), kept), in_us(model), "%.0f" % rate(2 * kept * SIZE ** 3, us), "%.1e" % error(c, want))
            if kept in (1.0, 0.1, 0.01):
                print("<!-- %s -->" % stage_line(p))
        p.close()
    curves(file, "a result asked for in %s, 4096³ bf16" % title, series)


def edges():
    """Masks that no hint foresees: right, whatever they are."""
    section("masks at the edges, 4104 x 4072 x 3992: the largest error\n")
    head("listed", "empty", "full", "one element", "one strip", "1 % of elements", "last column")
    M, K, N = 4104, 3992, 4072
    HINTED = {"A by blocks of k": (0.05, 1, 64), "A regrouped": (0.02, 1, 64), "A rows": (0.02, 1, K), "C columns": (0.02, 128, 1)}
    masks = (lambda w: w.zero_(), lambda w: w.fill_(1), lambda w: w.zero_()[w.shape[0] // 2, w.shape[1] // 3].fill_(1),
             lambda w: w.zero_()[:128].fill_(1), lambda w: w.copy_(torch.rand(w.shape, device="cuda") < 0.01), lambda w: w.zero_()[:, -1].fill_(1))
    for name, text in (("A", LEFT), ("A by blocks of k", LEFT), ("A regrouped", LEFT + REGROUP), ("A rows", LEFT), ("B", RIGHT), ("C", ASKED), ("C columns", ASKED)):
        a, c = bf16(M, K), torch.empty(M, N, device="cuda", dtype=torch.bfloat16)
        b, w = (bf16(N, K) if name[0] == "C" else bf16(K, N)), torch.empty(M, N, device="cuda", dtype=torch.uint8)
        listed = {"A": a, "B": b, "C": w}[name[0]]
        full, errors = listed.clone(), []
        p = Program(text % (M, K, N, HINT % HINTED.get(name, (0.02, 128, 128)))).bind(**dict(dict(A=a, B=b, C=c), **({"W": w} if name[0] == "C" else {})))
        for mask in masks:
            kept = torch.empty(listed.shape, device="cuda", dtype=torch.uint8)
            mask(kept)
            listed.copy_(kept if name[0] == "C" else full * kept)
            c.fill_(float("nan"))
            p()
            torch.cuda.synchronize()
            want = (a.float() @ b.float().t()) * w if name[0] == "C" else a.float() @ b.float()
            errors.append("%.1e %s" % ((c.float() - want).abs().max().item(), decision(p.stages())[1]))
        row(name + " `%s`" % kernel_of(p.stages()), *errors)
        p.close()


if __name__ == "__main__":
    gpu.run_parts(edges=edges, left=left, right=right, asked=asked, columns=columns, broken=broken, krows=krows, regrouped=regrouped, whole=whole, untold=untold)
