#!/usr/bin/env python3
"""Grouped heads, whose keys and values are read by a quotient of the head, against PyTorch on one GPU.

Usage: gpu_heads.py LIBRARY [part...]      LIBRARY as for gpu.py; parts: products attention
Peers: torch.matmul of the heads of a group as rows of one product (the operands as they lie, no copies asked for), and of heads each
with its keys; for attention scaled_dot_product_attention (enable_gqa).  What is measured, and how, is gpu.py's."""
import torch
import gpu
from gpu import Program, bf16, compare, error, head, rate, row, stage_line, sweep

# (what, scores or values, the layout of the queries' side and of the keys' side: b batch, g group, r head in it, i query, j key, d)
PRODUCTS = (("bgrid,bgjd->bgrij", dict(b=1, g=8, r=4, i=2048, j=2048, d=128)), ("bgrij,bgjd->bgrid", dict(b=1, g=8, r=4, i=2048, j=2048, d=128)),
            ("bigrd,bjgd->bgrij", dict(b=1, g=8, r=4, i=2048, j=2048, d=128)), ("bgrij,bjgd->bigrd", dict(b=1, g=8, r=4, i=2048, j=2048, d=128)),
            ("bgrid,bgjd->bgrij", dict(b=3, g=2, r=7, i=517, j=331, d=64)), ("bgrij,bjgd->bigrd", dict(b=3, g=2, r=7, i=520, j=328, d=64)),
            ("bgrd,bgjd->bgrj", dict(b=32, g=8, r=4, j=4096, d=128)), ("bgrj,bgjd->bgrd", dict(b=32, g=8, r=4, j=4096, d=128)),
            ("bgrd,bjgd->bgrj", dict(b=32, g=8, r=8, j=4096, d=128)), ("bgrj,bjgd->bgrd", dict(b=32, g=8, r=8, j=4096, d=128)),
            ("bigrd,bjgd->bgrij", dict(b=32, g=8, r=8, i=1, j=4096, d=128)))
ATTENTION = """spx 1; dim B = %d; dim G = %d; dim I = %d; dim J = %d;
kernel k { in q: bf16[B,%d*G,I,128]; in k: bf16[B,G,J,128]; in v: bf16[B,G,J,128];
  let s[b,h,i,j] = 0.08838835 * sum[d] q[b,h,i,d]*k[b,h/%d,j,d]%s : bf16 acc f32;
  let p[b,h,i,j] = softmax[j](s[b,h,i,j]) : bf16 acc f32;
  out o[b,h,i,d] = sum[j] p[b,h,i,j]*v[b,h/%d,j,d] : bf16 acc f32; }"""


def text_of(spec, size):
    """The program: h is gr, and a side that has g alone is read by h / r."""
    sides, left = spec.split("->")
    x, w = (side.replace("gr", "h") for side in sides.split(","))
    dims = lambda side: ",".join("%d*G" % size["r"] if c == "h" else c.upper() for c in side)
    at = lambda side: ",".join("h/%d" % size["r"] if c == "g" else c for c in side.replace("gr", "h"))
    return "spx 1; %s kernel k { in x: bf16[%s]; in w: bf16[%s]; out y[%s] = sum[%s] x[%s]*w[%s] : bf16 acc f32; }" % (
        " ".join("dim %s = %d;" % (c.upper(), n) for c, n in size.items() if c != "r"), dims(x), dims(w), at(left), next(c for c in x if c not in "h" + left), at(x), at(w))


def as_matrices(spec, x, w, size):
    """The heads of a group, and its queries, as rows of one product; views where the operands lie so."""
    sides, left = spec.split("->")
    side_x, side_w = sides.split(",")
    summed = next(c for c in side_x if c not in left)
    rows, column = [c for c in left if c in side_x and c not in "bg"], next(c for c in left if c not in side_x)
    a = x.permute(*(side_x.index(c) for c in ["b", "g", *rows, summed])).reshape(size["b"], size["g"], -1, size[summed])
    b = w.permute(*(side_w.index(c) for c in ["b", "g", summed, column]))
    return lambda: torch.matmul(a, b)


def products():
    print("\n### grouped heads, one product; microseconds, L2 cold\n")
    head("product", "sizes", "kernel", "spc (spread)", "torch.matmul by groups", "against torch", "by heads (torch.einsum, keys repeated)", "TFLOP/s", "error")
    for spec, size in PRODUCTS:
        sides, left = spec.split("->")
        x, w, y = (bf16(*(size[c] for c in side)) for side in (*sides.split(","), left))
        program = Program(text_of(spec, size)).bind(x=x, w=w, y=y)
        side_w = sides.split(",")[1]
        repeated = w.repeat_interleave(size["r"], side_w.index("g"))
        heads, shape = spec.replace("gr", "h").replace("g", "h"), [s for c, s in ((c, size[c]) for c in sides.split(",")[0]) if c != "r"]
        at = sides.split(",")[0].index("g")
        shape[at] *= size["r"]
        joined = x.reshape(shape)
        (us, spread), (groups, _), (apart, _) = compare([program, as_matrices(spec, x, w, size), lambda: torch.einsum(heads, joined, repeated)], before=sweep)
        y.fill_(float("nan"))
        program()
        kernel = next((s[1] for s in program.stages() if s[1] != "loop"), "loop")
        flops = 2
        for n in size.values():
            flops *= n
        row("`%s`" % spec, " ".join("%s %d" % item for item in size.items()), "`%s`" % kernel, "%.1f (%.1f)" % (us * 1e3, spread * 1e3), "%.1f" % (groups * 1e3), "%.2f" % (groups / us),
            "%.1f" % (apart * 1e3), "%.0f" % rate(flops, us), "%.1e" % error(y, torch.einsum(spec, x.float(), w.float())))
        program.close()


def attention():
    print("\n### attention of grouped heads, bf16, D 128; microseconds\n")
    head("b × groups × heads of one × i × j", "mask", "spc (spread)", "scaled_dot_product_attention", "against torch", "its stages", "error")
    for b, g, r, i, j, causal in ((1, 8, 4, 2048, 2048, False), (1, 8, 4, 2048, 2048, True), (4, 8, 4, 512, 512, True), (32, 8, 4, 1, 4096, False), (2, 3, 5, 200, 328, False)):
        q, k, v, o = bf16(b, g * r, i, 128), bf16(b, g, j, 128), bf16(b, g, j, 128), bf16(b, g * r, i, 128)
        program = Program(ATTENTION % (b, g, i, j, r, r, " on j <= i fill -inf" if causal else "", r)).bind(q=q, k=k, v=v, o=o)
        peer = lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)
        (us, spread), (ref, _) = compare([program, peer])
        o.fill_(float("nan"))
        program()
        wide = [t.float().repeat_interleave(r, 1) for t in (k, v)]
        want = torch.nn.functional.scaled_dot_product_attention(q.float(), *wide, is_causal=causal)
        row("%d × %d × %d × %d × %d" % (b, g, r, i, j), "causal" if causal else "", "%.1f (%.1f)" % (us * 1e3, spread * 1e3), "%.1f" % (ref * 1e3), "%.2f" % (ref / us),
            ", ".join("`%s` %.0f" % (s[1], s[4] * 1e3) for s in program.stages()), "%.1e" % error(o, want))
        print("<!-- %s -->" % stage_line(program))
        program.close()


if __name__ == "__main__":
    gpu.run_parts(products=products, attention=attention)
