#!/usr/bin/env python3
"""A gated feed-forward layer with few live neurons: forward and backward against float64, speed against the dense layer.

Usage: run.py [--tokens N] [--size D F] [--live N ...] [--plot FILE.svg] [--check-only]
Needs NumPy and the package `spc` (PYTHONPATH=python in a checkout that is built); with PyTorch and a GPU it runs there, on
PyTorch's memory and stream, else on the CPU.  The gate's weights are drawn so that a token has the stated number of live
neurons on average: every neuron as often (`random`), or as 1 / rank, at most 60 % (`power law`)."""
import argparse, math, os, sys, time
import numpy as np
import spc

HERE = os.path.dirname(os.path.abspath(__file__))
try:
    import torch
    GPU = torch.cuda.is_available()
except ImportError:
    GPU = False


# ---- data ----------------------------------------------------------------------------------------
def shares(kind, live, neurons):
    """How likely each neuron is to be live."""
    if kind == "random":
        return np.full(neurons, live / neurons)
    ranks, low, high = 1.0 / np.arange(1, neurons + 1), 0.0, float(neurons)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if np.minimum(ranks * middle, 0.6).sum() < live else (low, middle)
    return np.random.default_rng(1).permutation(np.minimum(ranks * low, 0.6))


def normal_quantile(p):
    """x with P(normal < x) = p, by bisection."""
    low, high = np.full(p.shape, -9.0), np.full(p.shape, 9.0)
    for _ in range(50):
        middle = (low + high) / 2
        below = 0.5 * (1 + np.vectorize(math.erf)(middle / 2 ** 0.5)) < p
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return low


def draw(kind, live, T, D, F, seed=0):
    """Operands, rounded to bf16; the last column of x is 1, and that of Wg a neuron's bias."""
    rng = np.random.default_rng(seed)
    values = dict(x=rng.standard_normal((T, D)), Wg=rng.standard_normal((F, D)) * D ** -0.5, Wu=rng.standard_normal((F, D)) * D ** -0.5,
                  Wd=rng.standard_normal((F, D)) * 0.02, dy=rng.standard_normal((T, D)))
    values["x"][:, -1] = 1
    values["Wg"][:, -1] = normal_quantile(shares(kind, live, F))
    return {name: spc.f32(spc.bf16(value.astype(np.float32))) for name, value in values.items()}


# ---- what must come out, in float64 ---------------------------------------------------------------
PENALTY = 0.01


def reference(v):
    v = {name: value.astype(np.float64) for name, value in v.items()}
    rounded = lambda a: spc.f32(spc.bf16(a.astype(np.float32))).astype(np.float64)
    g = rounded(np.maximum(v["x"] @ v["Wg"].T, 0))
    live = g != 0
    u, dh = rounded(v["x"] @ v["Wu"].T * live), rounded(v["dy"] @ v["Wd"].T * live)
    h, du, dg = g * u, dh * g, (dh * u + PENALTY) * live
    return live, dict(y=h @ v["Wd"], dWd=h.T @ v["dy"], dWu=du.T @ v["x"], dWg=dg.T @ v["x"], dx=du @ v["Wu"] + dg @ v["Wg"])


def error(got, want):
    return np.linalg.norm(got.astype(np.float64) - want) / max(np.linalg.norm(want), 1e-30)


# ---- running -------------------------------------------------------------------------------------
def placed(values):
    """The arrays as the back end takes them."""
    if not GPU:
        return {name: spc.bf16(value) for name, value in values.items()}
    return {name: torch.from_numpy(value).cuda().to(torch.bfloat16) for name, value in values.items()}


def fetched(result):
    return result.float().cpu().numpy() if GPU else spc.f32(result)


def timed(calls):
    """Milliseconds of each, by turns; the least of some runs, for other programs run here too."""
    best = [float("inf")] * len(calls)
    for turn in range(12):
        for i, call in enumerate(calls):
            if GPU:
                torch.cuda.synchronize()
            begin = time.perf_counter()
            call()
            if GPU:
                torch.cuda.synchronize()
            if turn >= 2:
                best[i] = min(best[i], (time.perf_counter() - begin) * 1e3)
    return best


def kernels(D, F):
    """The layer, its gradients, and the layer with every zero computed."""
    text = open(os.path.join(HERE, "gated.spx")).read()
    dense = text + "\nschedule gated { dense g; dense u; }\n"
    backend = "cuda" if GPU else "cpu"
    return (spc.compile(text, "gated", backend=backend, D=D, F=F), spc.compile(text, "gated_backward", backend=backend, D=D, F=F),
            spc.compile(dense, "gated", backend=backend, D=D, F=F))


def torch_layer(a):
    return (torch.relu(a["x"] @ a["Wg"].t()) * (a["x"] @ a["Wu"].t())) @ a["Wd"]


def row(kind, live, options, compiled):
    """One row of the table; the last two entries are for the plot."""
    values = draw(kind, live, options.tokens, *options.size)
    (layer, backward, dense), arrays = compiled, placed(values)
    operands = {name: arrays[name] for name in ("x", "Wg", "Wu", "Wd")}
    penalty = torch.tensor(PENALTY, device="cuda") if GPU else np.array(PENALTY, np.float32)
    alive, want = reference(values)
    gradients = backward(**operands, dy=arrays["dy"], penalty=penalty)
    got = dict(zip(("dWd", "dWu", "dWg", "dx"), gradients), y=layer(**operands))
    errors = {name: error(fetched(got[name]), want[name]) for name in want}
    cells = [kind, "%.1f" % alive.sum(1).mean(), "%.1e" % errors["y"], "%.1e" % max(errors[n] for n in errors if n != "y")]
    ratio = 0.0
    if not options.check_only:
        ours, whole, *peer = timed([lambda: layer(**operands), lambda: dense(**operands)] + ([lambda: torch_layer(arrays)] if GPU else []))
        ratio = whole / ours
        cells += ["%.2f" % ours, "%.2f" % whole, "%.2f" % ratio] + ["%.2f" % (ms / ours) for ms in peer]
    print("| " + " | ".join(cells) + " |", flush=True)
    return max(errors.values()) < 2e-2, (kind, alive.sum(1).mean(), ratio)


# ---- the plot ------------------------------------------------------------------------------------
COLOURS = {"random": "#1f5fa8", "power law": "#c0562b"}


def plot(points, path):
    """Times faster than dense over live neurons, as SVG."""
    width, height, left, top = 560, 320, 60, 30
    most_x, most_y = max(p[1] for p in points) * 1.05, max(max(p[2] for p in points) * 1.15, 1.2)
    at = lambda x, y: (left + x / most_x * (width - left - 20), height - 40 - y / most_y * (height - 40 - top))
    out = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">' % (width, height),
           '<rect width="100%" height="100%" fill="white"/>']
    for y in range(int(most_y) + 1):
        a, b = at(0, y), at(most_x, y)
        out.append('<path d="M%.1f %.1fH%.1f" stroke="%s"/><text x="%d" y="%.1f" text-anchor="end">%d</text>' % (*a, b[0], "#555" if y == 1 else "#ddd", left - 8, a[1] + 4, y))
    for number, kind in enumerate(COLOURS):
        line = sorted(p[1:] for p in points if p[0] == kind)
        out.append('<path d="M%s" fill="none" stroke="%s" stroke-width="2"/>' % ("L".join("%.1f %.1f" % at(*p) for p in line), COLOURS[kind]))
        out += ['<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>' % (*at(*p), COLOURS[kind]) for p in line]
        out += ['<text x="%.1f" y="%.1f" text-anchor="middle">%.0f</text>' % (at(x, 0)[0], height - 22, x) for x, _ in line if number == 0]
        out.append('<text x="%d" y="%d" fill="%s">%s</text>' % (width - 110, top + 16 * number, COLOURS[kind], kind))
    out.append('<text x="%d" y="%d" text-anchor="middle">live neurons of a token</text><text x="%d" y="18">times faster than dense</text></svg>' % (width / 2, height - 5, left - 40))
    with open(path, "w") as file:
        file.write("\n".join(out) + "\n")


def main():
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("--tokens", type=int, default=4096 if GPU else 128)
    parse.add_argument("--size", type=int, nargs=2, default=(2048, 5632) if GPU else (256, 1408), metavar=("D", "F"))
    parse.add_argument("--live", type=int, nargs="+", help="live neurons of a token (default: 0.25, 0.5, 1, 2 and 4 %% of F)")
    parse.add_argument("--plot", metavar="FILE.svg")
    parse.add_argument("--check-only", action="store_true")
    options = parse.parse_args()
    D, F = options.size
    compiled, points, good = kernels(D, F), [], True
    print("%d tokens, D %d, %d neurons, bf16, on %s" % (options.tokens, D, F, torch.cuda.get_device_name() if GPU else "the CPU"))
    head = ["neurons", "live", "error of y", "of gradients"] + ([] if options.check_only else ["ms", "dense ms", "times faster"] + (["than PyTorch"] if GPU else []))
    print("| " + " | ".join(head) + " |\n|" + " --- |" * len(head))
    for kind in COLOURS:
        for live in options.live or [max(1, round(share * F)) for share in (0.0025, 0.005, 0.01, 0.02, 0.04)]:
            fine, point = row(kind, live, options, compiled)
            good &= fine
            points.append(point)
    if options.plot and not options.check_only:
        plot(points, options.plot)
    sys.exit(0 if good else "an error is larger than 2e-2")


if __name__ == "__main__":
    main()
