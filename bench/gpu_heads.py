#!/usr/bin/env python3
"""Grouped heads, whose keys and values are read by a quotient of the head, against PyTorch on one GPU.

Usage: gpu_heads.py LIBRARY [part...]      LIBRARY as for gpu.py; parts: products attention tiles blocks masks
Peers: torch.matmul of the heads of a group as rows of one product (the operands as they lie, no copies asked for), and of heads each
with its keys; for attention every back end of scaled_dot_product_attention that takes
the operands, and flex_attention where the mask is one of blocks.  What is measured, and how, is gpu.py's."""
import torch
import gpu
from gpu import Program, bf16, compare, error, head, rate, row, section, sweep

# (what, scores or values, the layout of the queries' side and of the keys' side: b batch, g group, r head in it, i query, j key, d)
PRODUCTS = (("bgrid,bgjd->bgrij", dict(b=1, g=8, r=4, i=2048, j=2048, d=128)), ("bgrij,bgjd->bgrid", dict(b=1, g=8, r=4, i=2048, j=2048, d=128)),
            ("bigrd,bjgd->bgrij", dict(b=1, g=8, r=4, i=2048, j=2048, d=128)), ("bgrij,bjgd->bigrd", dict(b=1, g=8, r=4, i=2048, j=2048, d=128)),
            ("bgrid,bgjd->bgrij", dict(b=3, g=2, r=7, i=517, j=331, d=64)), ("bgrij,bjgd->bigrd", dict(b=3, g=2, r=7, i=520, j=328, d=64)),
            ("bgrd,bgjd->bgrj", dict(b=32, g=8, r=4, j=4096, d=128)), ("bgrj,bgjd->bgrd", dict(b=32, g=8, r=4, j=4096, d=128)),
            ("bgrd,bjgd->bgrj", dict(b=32, g=8, r=8, j=4096, d=128)), ("bgrj,bjgd->bgrd", dict(b=32, g=8, r=8, j=4096, d=128)),
            ("bigrd,bjgd->bgrij", dict(b=32, g=8, r=8, i=1, j=4096, d=128)))
ATTENTION = """spx 1; dim B = %(b)d; dim G = %(g)d; dim I = %(i)d; dim J = %(j)d; dim N = %(n)d;
kernel k { in q: bf16[B,%(h)s,I,%(d)d]; in k: bf16[B,G,J,%(d)d]; in v: bf16[B,G,J,%(d)d]; %(given)s
  let s[b,h,i,j] = %(scale).8g * sum[d] q[b,h,i,d]*k[b,%(at)s,j,d]%(mask)s : bf16 acc f32;
  let p[b,h,i,j] = softmax[j](s[b,h,i,j]) : bf16 acc f32;
  out o[b,h,i,d] = sum[j] p[b,h,i,j]*v[b,%(at)s,j,d] : bf16 acc f32; }
%(schedule)s"""


def attention_text(b, g, r, i, j, d, mask="", given="", n=1, tile=None):
    return ATTENTION % dict(b=b, g=g, i=i, j=j, d=d, n=n, h="%d*G" % r if r > 1 else "G", at="h/%d" % r if r > 1 else "h", scale=d ** -0.5, given=given,
                            mask=" on %s fill -inf" % mask if mask else "", schedule="schedule k for sm_90a { tile o i=%d j=%d; }" % tile if tile else "")


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
    section("grouped heads, one product; microseconds, L2 cold\n")
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


# (b, groups, heads of one, queries, keys, d, mask)
ATTENDED = ((1, 8, 4, 2048, 2048, 128, ""), (1, 8, 4, 2048, 2048, 128, "causal"), (1, 8, 4, 8192, 8192, 128, ""), (1, 8, 4, 8192, 8192, 128, "causal"), (4, 8, 4, 512, 512, 128, "causal"),
            (2, 16, 1, 4096, 4096, 64, ""), (2, 16, 1, 4096, 4096, 64, "causal"), (1, 8, 1, 4096, 4096, 256, ""), (1, 8, 4, 8192, 8192, 128, "window"),
            (32, 8, 4, 1, 4096, 128, ""), (4, 8, 8, 1, 32768, 128, ""), (1, 8, 4, 1, 16384, 128, ""), (2, 3, 5, 200, 328, 128, ""))
MASKS = {"": "", "causal": "j <= i", "window": "j <= i and i - j < 1024"}


def peers_of(q, k, v, mask):
    """scaled_dot_product_attention by every back end that takes these; a window as a mask of its own, which only some do."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    i, found = torch.arange(q.shape[2], device="cuda"), []
    given = dict(attn_mask=(i[None] <= i[:, None]) & (i[:, None] - i[None] < 1024)) if mask == "window" else dict(is_causal=mask == "causal")
    for name in ("FLASH_ATTENTION", "CUDNN_ATTENTION", "EFFICIENT_ATTENTION"):
        def call(backend=getattr(SDPBackend, name)):
            with sdpa_kernel([backend]):
                return torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=q.shape[1] != k.shape[1], **given)
        try:
            call()
            torch.cuda.synchronize()
            found.append((name.split("_")[0].lower(), call))
        except Exception:
            pass
    return found


def share_of(i, j, mask):
    rows, columns = torch.arange(i)[:, None], torch.arange(j)[None]
    return 1.0 if not mask else ((columns <= rows) & (rows - columns < (1024 if mask == "window" else j))).float().mean().item()


def exact(q, k, v, seen=None):
    """In f32, a head at a time."""
    r, out = q.shape[1] // k.shape[1], torch.empty_like(q, dtype=torch.float32)
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            s = q[b, h].float() @ k[b, h // r].float().T * q.shape[-1] ** -0.5
            out[b, h] = torch.softmax(s if seen is None else s.masked_fill(~seen(b, h), float("-inf")), -1).nan_to_num() @ v[b, h // r].float()
    return out


def seen_by(mask, i, j):
    rows, columns = torch.arange(i, device="cuda")[:, None], torch.arange(j, device="cuda")[None]
    return None if not mask else lambda b, h: (columns <= rows) & (rows - columns < (1024 if mask == "window" else j + i))


def attention(tiles=None):
    section("attention, bf16; microseconds\n")
    head("b × groups × heads of one × i × j, d", "mask", "kernel", "spc (spread)", "TFLOP/s, GB/s", "scaled_dot_product_attention", "against torch", "error")
    for b, g, r, i, j, d, mask in ATTENDED:
        q, k, v, o = bf16(b, g * r, i, d), bf16(b, g, j, d), bf16(b, g, j, d), bf16(b, g * r, i, d)
        want = exact(q, k, v, seen_by(mask, i, j))
        found = peers_of(q, k, v, mask)
        for tile in tiles or (None,):
            try:
                program = Program(attention_text(b, g, r, i, j, d, MASKS[mask], tile=tile)).bind(q=q, k=k, v=v, o=o)
            except SystemExit: # no kernel has this tile
                continue
            times = compare([program, *(call for _, call in found)])
            us, spread = times[0]
            best = min(range(len(found)), key=lambda n: times[n + 1][0]) if found else None
            o.fill_(float("nan"))
            program()
            flops = 4 * share_of(i, j, mask) * b * g * r * i * j * d
            moved = (2 * q.numel() + 2 * k.numel()) * 2
            row("%d × %d × %d × %d × %d, %d" % (b, g, r, i, j, d), mask, " ".join("`%s`" % s[1] for s in program.stages()), "%.1f (%.1f)" % (us * 1e3, spread * 1e3), "%.0f, %.0f" % (rate(flops, us), moved / us / 1e6),
                ", ".join("%s %.1f" % (name, times[n + 1][0] * 1e3) for n, (name, _) in enumerate(found)), "%.2f" % (times[best + 1][0] / us) if found else "", "%.1e" % error(o, want))
            program.close()


def tiles():
    """Every tile where it fits."""
    attention(((128, 128), (192, 128), (128, 64), (64, 128), (64, 64)))


def blocks():
    """A mask of blocks of 128 x 128 that is known at run time only: 16 heads of 16384; the time has all that depends on the mask."""
    section("attention under a mask of blocks, bf16, 16 heads of 16384, D 128; microseconds\n")
    head("blocks that are seen", "spc (spread)", "TFLOP/s of what is seen", "flex_attention", "making its block mask from the blocks", "error")
    b, g, r, i, d, n = 1, 16, 1, 16384, 128, 128
    q, k, v, o = (bf16(b, g, i, d) for _ in range(4))
    program = Program(attention_text(b, g, r, i, i, d, "M[h,i/128,j/128]", "in M: u8[G,N,N];", n))
    try:
        from torch.nn.attention.flex_attention import BlockMask, flex_attention
        flex = torch.compile(flex_attention)
    except ImportError:
        flex = None
    for share in (1.0, 0.5, 0.25, 0.1, 0.05):
        M = (torch.rand(g, n, n, device="cuda") < share).to(torch.uint8)
        program.bind(q=q, k=k, v=v, o=o, M=M)
        calls, made = [program], ""
        if flex:
            def make():
                count = M[None].sum(-1, dtype=torch.int32)
                at = torch.argsort(M[None], dim=-1, descending=True, stable=True).int()
                return BlockMask.from_kv_blocks(torch.zeros_like(count), at, count, at, BLOCK_SIZE=128)
            block_mask = make()
            made = "%.0f" % (compare([make])[0][0] * 1e3)
            calls.append(lambda: flex(q, k, v, block_mask=block_mask))
            calls[1]()
        times = compare(calls)
        us, spread = times[0]
        o.fill_(float("nan"))
        program()
        wide = lambda b_, h: M[h].bool().repeat_interleave(128, 0).repeat_interleave(128, 1)
        some = slice(0, 2)
        want = exact(q[:, some], k[:, some], v[:, some], wide)
        row("%.0f %%" % (100 * share), "%.1f (%.1f)" % (us * 1e3, spread * 1e3), "%.0f" % rate(4 * M.float().mean().item() * g * i * i * d, us), "%.1f" % (times[1][0] * 1e3) if flex else "", made, "%.1e" % error(o[:, some], want))
    program.close()


def lengths_to_documents(n, longest):
    """Documents of 1 to `longest` tokens, one behind the other: the number of each token's."""
    ends = torch.randint(1, longest + 1, (n,), device="cuda").cumsum(0)
    return torch.searchsorted(ends, torch.arange(n, device="cuda"), right=True).int()


def masks():
    """Conditions that are no comparisons, known at run time only: 16 heads; the time has all that depends on the mask."""
    section("attention under masks that are data, bf16, 16 heads, D 128; microseconds\n")
    head("i = j", "mask", "pairs that are seen", "spc (spread)", "TFLOP/s of what is seen", "scaled_dot_product_attention, a mask of bytes", "flex_attention", "making its block mask", "error")
    try:
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention
        flex = torch.compile(flex_attention, dynamic=False)
        make_mask = torch.compile(create_block_mask)
    except ImportError:
        flex = None
    g, d = 16, 128
    for n in (2048, 8192):
        D = lengths_to_documents(n, n // 4)
        bits = lambda share: (torch.rand(n, n, device="cuda") < share).to(torch.uint8)
        blocked = lambda size, share: (torch.rand(n // size, n // size, device="cuda") < share).to(torch.uint8)
        full, half, B64, B32 = bits(1.0), bits(0.5), blocked(64, 0.1), blocked(32, 0.1)
        at = torch.arange(n, device="cuda")
        wide = lambda blocks, size: blocks.bool().repeat_interleave(size, 0).repeat_interleave(size, 1)
        below = at[None] <= at[:, None]
        cases = (("documents, causal", "D[i] == D[j] and j <= i", "in D: i32[I];", dict(D=D), (D[:, None] == D[None]) & below, lambda b, h, i, j: (D[i] == D[j]) & (j <= i)),
                 ("documents", "D[i] == D[j]", "in D: i32[I];", dict(D=D), D[:, None] == D[None], lambda b, h, i, j: D[i] == D[j]),
                 ("bytes, all set", "M[i,j]", "in M: u8[I,J];", dict(M=full), full.bool(), lambda b, h, i, j: full[i, j] != 0),
                 ("bytes, half", "M[i,j]", "in M: u8[I,J];", dict(M=half), half.bool(), lambda b, h, i, j: half[i, j] != 0),
                 ("bytes, half, causal", "M[i,j] and j <= i", "in M: u8[I,J];", dict(M=half), half.bool() & below, lambda b, h, i, j: (half[i, j] != 0) & (j <= i)),
                 ("blocks of 64, a tenth", "M[i/64,j/64]", "in M: u8[I/64,J/64];", dict(M=B64), wide(B64, 64), lambda b, h, i, j: B64[i // 64, j // 64] != 0),
                 ("blocks of 32, a tenth", "M[i/32,j/32]", "in M: u8[I/32,J/32];", dict(M=B32), wide(B32, 32), lambda b, h, i, j: B32[i // 32, j // 32] != 0))
        q, k, v, o = (bf16(1, g, n, d) for _ in range(4))
        for name, mask, given, arrays, seen, mod in cases if n > 4096 else cases[:1] + cases[3:4]:
            program = Program(attention_text(1, g, 1, n, n, d, mask, given)).bind(q=q, k=k, v=v, o=o, **arrays)
            calls, made = [program, lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=seen)], ""
            if flex:
                torch._dynamo.reset()
                block_mask = make_mask(mod, 1, 1, n, n, device="cuda")
                made = "%.0f" % (compare([lambda: make_mask(mod, 1, 1, n, n, device="cuda")])[0][0] * 1e3)
                calls.append(lambda: flex(q, k, v, block_mask=block_mask))
                calls[2]()
            times = compare(calls)
            us, spread = times[0]
            o.fill_(float("nan"))
            program()
            some = slice(0, 2)
            want = exact(q[:, some], k[:, some], v[:, some], lambda b_, h: seen)
            share = seen.float().mean().item()
            row(n, name, "%.1f %%" % (100 * share), "%.1f (%.1f)" % (us * 1e3, spread * 1e3), "%.0f" % rate(4 * share * g * n * n * d, us), "%.1f" % (times[1][0] * 1e3),
                "%.1f" % (times[2][0] * 1e3) if flex else "", made, "%.1e" % error(o[:, some], want))
            program.close()


if __name__ == "__main__":
    gpu.run_parts(products=products, attention=attention, tiles=tiles, blocks=blocks, masks=masks)
