#!/usr/bin/env python3
"""Gradients of a gated layer with few live neurons beside the same products by PyTorch (cuBLASLt), on one GPU.

Usage: gpu_gradients.py LIBRARY [part...]      LIBRARY as for gpu.py; parts: layer sizes relu few
The program is `gated_backward` of examples/sparse_llm_ffn/gated.spx: eight products, of which the gate alone is dense, and three elementwise results.
torch: eight dense products, relu and elementwise operations in place where that is possible, without its autograd."""
import os, re
import torch
import gpu
from gpu import GatedLayer, Program, bf16, compare, error, head, row, section, stage_line

EXAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples", "sparse_llm_ffn", "gated.spx")


def program(T, D, F, **options):
    text = open(EXAMPLE).read()
    kernel = re.search(r"kernel gated_backward \{.*?\n\}", text, re.S).group(0)
    return Program("spx 1; dim T = %d; dim D = %d; dim F = %d;\n%s" % (T, D, F, kernel), **options)


class Gradients:
    def __init__(self, T, D, F):
        self.layer = GatedLayer(T, D, F)
        self.dy, self.penalty = bf16(T, D), torch.tensor(0.01, device="cuda")
        self.wg = torch.empty(F, D, device="cuda", dtype=torch.bfloat16)
        self.results = {name: torch.empty(shape, device="cuda", dtype=torch.bfloat16) for name, shape in (("dWd", (F, D)), ("dWu", (F, D)), ("dWg", (F, D)), ("dx", (T, D)))}
        self.theirs = {name: torch.empty_like(t) for name, t in self.results.items()}
        self.dh, self.du, self.dg = (torch.empty(T, F, device="cuda", dtype=torch.bfloat16) for _ in range(3))

    def fresh(self, kind, active):
        self.layer.fresh(kind, active)
        self.wg.copy_(self.layer.wg.t())

    def bind(self, p):
        return p.bind(x=self.layer.x, Wg=self.wg, Wu=self.layer.wu, Wd=self.layer.wd, dy=self.dy, penalty=self.penalty, **self.results)

    def torch(self):
        l, out = self.layer, self.theirs
        torch.mm(l.x, self.wg.t(), out=l.g)
        torch.relu_(l.g)
        torch.mm(l.x, l.wu.t(), out=l.u)
        torch.mm(self.dy, l.wd.t(), out=self.dh)
        torch.mul(l.g, l.u, out=l.h)
        torch.mul(self.dh, l.g, out=self.du)
        torch.mul(self.dh, l.u, out=self.dg)
        self.dg.add_(self.penalty)
        self.dg.masked_fill_(l.g == 0, 0)
        torch.mm(l.h.t(), self.dy, out=out["dWd"])
        torch.mm(self.du.t(), l.x, out=out["dWu"])
        torch.mm(self.dg.t(), l.x, out=out["dWg"])
        torch.mm(self.du, l.wu, out=out["dx"])
        out["dx"].addmm_(self.dg, self.wg)

    def errors(self):
        l, f = self.layer, lambda t: t.float()
        g = torch.relu(f(l.x) @ f(self.wg).t()).to(torch.bfloat16).float()
        on = lambda t: torch.where(g != 0, t.to(torch.bfloat16).float(), 0)
        u, dh = on(f(l.x) @ f(l.wu).t()), on(f(self.dy) @ f(l.wd).t())
        h, du, dg = on(g * u), on(dh * g), on(dh * u + f(self.penalty))
        live = (g != 0).float().sum(1).mean().item()
        wrong = {}
        for name, (a, b) in dict(dWd=(h.t(), f(self.dy)), dWu=(du.t(), f(l.x)), dWg=(dg.t(), f(l.x))).items():
            wrong[name] = error(self.results[name], a @ b)
        wrong["dx"] = error(self.results["dx"], du @ f(l.wu) + dg @ f(self.wg))
        return max(wrong.values()), live


def rows(T, D, F, cases, **options):
    both, p = Gradients(T, D, F), program(T, D, F, **options)
    both.bind(p)
    for kind, active in cases:
        both.fresh(kind, active)
        (us, spread), (ref, ref_spread) = compare([p, both.torch], lambda: both.fresh(kind, active))
        for t in both.results.values():
            t.fill_(float("nan"))
        p()
        wrong, live = both.errors()
        stages = p.stages()
        cover = max(s[3] for s in stages)
        dense = [s[:-6] for s, k, ran, c, ms in stages if s.endswith(".dense") and ran]
        row("%d × %d × %d" % (T, D, F), kind, "%.0f" % live, "%.2f" % cover, ", ".join(dense) or "none", "%.0f (%.0f)" % (us * 1e3, spread * 1e3), "%.0f (%.0f)" % (ref * 1e3, ref_spread * 1e3), "%.2f" % (ref / us), "%.1e" % wrong)
        print("<!-- %s -->" % stage_line(p))
    p.close()


def title(what):
    section("gradients of a gated layer, %s, bf16; microseconds\n" % what)
    head("tokens × D × H", "neurons", "live", "greatest cover", "by their dense branch", "spc (spread)", "torch (spread)", "torch / spc", "error spc")


def layer():
    title("by live neurons")
    rows(16384, 2048, 5632, [(kind, active) for kind in ("random", "power law") for active in (15, 29, 60, 120, 240)])


MLP = """spx 1; dim T = %d; dim D = %d; dim F = %d;
kernel mlp_backward { in x: bf16[T,D]; in W: bf16[F,D]; in V: bf16[F,D]; in h: bf16[T,F] ~ zeros(dynamic, density=%s); in dy: bf16[T,D];
  let ds[t,f] = sum[o] dy[t,o]*V[f,o] on h[t,f] != 0 : bf16 acc f32;
  out dV[f,o] = sum[t] h[t,f]*dy[t,o] : bf16 acc f32;
  out dW[f,d] = sum[t] ds[t,f]*x[t,d] : bf16 acc f32;
  out dx[t,d] = sum[f] ds[t,f]*W[f,d] : bf16 acc f32; }"""


def relu():
    """The h that a forward pass has kept; all four products of the backward pass over its pattern."""
    section("gradients of a layer with a relu (mlp_backward of docs/python.md), hinted 0.5 %, bf16; microseconds\n")
    head("tokens × D × H", "neurons", "live", "greatest cover", "by their dense branch", "spc (spread)", "torch (spread)", "torch / spc", "error spc")
    for T, D, F in ((16384, 2048, 8192), (2048, 5120, 20480)):
        x, dy, h = bf16(T, D), bf16(T, D), bf16(T, F)
        full, w, v, ds = h.clone(), bf16(F, D), bf16(F, D), torch.empty_like(h)
        results = {name: torch.empty(shape, device="cuda", dtype=torch.bfloat16) for name, shape in (("dV", (F, D)), ("dW", (F, D)), ("dx", (T, D)))}
        theirs = {name: torch.empty_like(t) for name, t in results.items()}
        p = Program(MLP % (T, D, F, 0.005)).bind(x=x, W=w, V=v, h=h, dy=dy, **results)

        def dense():
            torch.mm(dy, v.t(), out=ds)
            ds.masked_fill_(h == 0, 0)
            torch.mm(h.t(), dy, out=theirs["dV"])
            torch.mm(ds.t(), x, out=theirs["dW"])
            torch.mm(ds, w, out=theirs["dx"])
        for kind, share in ((k, s) for k in ("random", "power law") for s in (0.0025, 0.005, 0.01, 0.05, 0.5)):
            chance = gpu.shares(kind, share * F, F)
            fresh = lambda: torch.mul(full, torch.rand(T, F, device="cuda") < chance, out=h)
            fresh()
            (us, spread), (ref, ref_spread) = compare([p, dense], fresh)
            for t in results.values():
                t.fill_(float("nan"))
            p()
            want = torch.where(h != 0, (dy.float() @ v.float().t()).to(torch.bfloat16).float(), 0)
            wrong = max(error(results["dV"], h.float().t() @ dy.float()), error(results["dW"], want.t() @ x.float()), error(results["dx"], want @ w.float()))
            stages = p.stages()
            left = [s[:-6] for s, k, ran, c, ms in stages if s.endswith(".dense") and ran]
            row("%d × %d × %d" % (T, D, F), kind, "%.0f" % (h != 0).float().sum(1).mean().item(), "%.2f" % max(s[3] for s in stages), ", ".join(left) or "none", "%.0f (%.0f)" % (us * 1e3, spread * 1e3),
                "%.0f (%.0f)" % (ref * 1e3, ref_spread * 1e3), "%.2f" % (ref / us), "%.1e" % wrong)
            if share == 0.005:
                print("<!-- %s -->" % stage_line(p))
        p.close()
        torch.cuda.empty_cache()


def few():
    title("a few cases")
    rows(16384, 2048, 5632, [("random", 29), ("power law", 29), ("random", 120)])


def sizes():
    title("0.5 % live, other sizes")
    for T, D, F in ((1000, 2048, 5632), (16384, 2048, 8192), (16384, 4096, 14336)):
        rows(T, D, F, [("random", 0.00515 * F), ("power law", 0.00515 * F)])
        torch.cuda.empty_cache()


if __name__ == "__main__":
    gpu.run_parts(layer=layer, sizes=sizes, relu=relu, few=few)
