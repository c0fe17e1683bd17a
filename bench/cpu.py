#!/usr/bin/env python3
"""spc on the CPU beside what Debian has: OpenBLAS, Eigen, MLIR's sparsifier, SciPy.  Prints tables, writes JSON.

Usage: bench/cpu.py [--library FILE] [--threads 1,2] [--rounds N] [--seconds S] [--json FILE] [GROUP...]
Groups: dense spmm hints across spmv sddmm bsr nm dynamic layouts ffn gated fused along indices grouped turned pairs conversions; all of them when none is named.
`script/setup bench` installs the peers and builds the library (default build/tests/libspc-bench.so).

How a figure is made: the sides of a row take turns in one process on the same operands; a row stops after N rounds (51),
or after S seconds (6) but not before 9 rounds.  Sparse operands and activations come in three sets with another random mask each, taken by
turns.  Results are filled with NaN before every run and compared with float64 arithmetic for every set.  Times are wall
clock, caches as the round before left them.  What a program makes of `const` operands alone is made before the first round, as
an engine does by spc_plan_pack: `+ 0.9 once` beside its time.  A cell is the median in ms and, in brackets, how many times longer than spc
that side took: the median over the rounds of the ratio within a round."""
import argparse, gc, json, os, platform, statistics, sys, tempfile, time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cpu_peers

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
os.environ.setdefault("GOMP_SPINCOUNT", "10000")          # peers' idle threads must not take the cores from the next side
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "16")
os.environ.setdefault("OMP_NUM_THREADS", str(os.cpu_count()))
LEAST_ROUNDS, PAUSE = 9, 0.002


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--library", default=os.path.join(root, "build/tests/libspc-bench.so"))
    p.add_argument("--threads", default="1,2" if (os.cpu_count() or 1) > 1 else "1")
    p.add_argument("--rounds", type=int, default=51)
    p.add_argument("--seconds", type=float, default=6)
    p.add_argument("--json")
    p.add_argument("--profile-line", action="store_true", help="print what spc chose for every row")
    p.add_argument("groups", nargs="*")
    return p.parse_args()


args = arguments()
openblas = cpu_peers.openblas()  # sets the core type before the library is loaded
import numpy as np
import scipy
import scipy.sparse as sp
import cpu_rows, cpu_spc


# ---- sides -------------------------------------------------------------------------------------------
class Ours:
    def __init__(self, row, program, threads):
        text, names = program if isinstance(program, tuple) else (program, {})
        self.row, self.program = row, cpu_spc.Program(text, threads, **row.sizes)
        inputs = [n for n in names_of(text)]
        self.runs = [self.program.bind({n: s[names.get(n, n)] for n in inputs}) for s in row.sets]
        self.chosen = self.program.line()

    def time(self, i):
        self.runs[i].poison()
        return self.runs[i].seconds()

    def result(self, i):
        name, shape, *form = self.row.result
        if shape is None:  # values of a result that is stored like an operand
            return self.runs[i].result(name, self.row.sets[i]["S"].shape).data
        return self.runs[i].result(name, shape, form=form[0]) if form else self.runs[i].result(name, shape)

    def close(self):
        self.program.close()


def names_of(text):
    import re
    return re.findall(r"\bin (\w+) *:", text)


class Peer:
    chosen = None

    def __init__(self, row, function):
        self.row, self.calls, self.last = row, [function(s) for s in row.sets], [None] * len(row.sets)

    def time(self, i):
        self.last[i] = None
        for name in ("out", "h", "u"):
            if name in self.row.sets[i]:
                self.row.sets[i][name].fill(np.nan)
        getattr(self.calls[i], "before", int)()
        begin = time.perf_counter()
        last = self.calls[i]()
        seconds = time.perf_counter() - begin
        self.last[i] = last
        return seconds

    def result(self, i):
        call = self.calls[i]
        return call.result(self.row.result[1]) if hasattr(call, "result") else self.last[i]

    def close(self):
        pass


# ---- checks ------------------------------------------------------------------------------------------
def error_of(got, want, length):
    """The error of the whole relative to its size, and whether both bounds of ir/compare.h hold."""
    if sp.issparse(want) and sp.issparse(got):
        want, got = want.tocsr(), got.tocsr()
        want.sort_indices()
        if not got.has_sorted_indices:
            got = got.sorted_indices()
        if got.nnz == want.nnz and (got.indices == want.indices).all():  # the entries tell; both dense may not fit
            got, want = got.data, want.data
        else:
            got, want = got.toarray(), want.toarray()
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    if got.shape != want.shape or not np.isfinite(got).all():
        return float("inf"), False
    rtol, norm, difference = cpu_spc.rtol("f32", length), np.linalg.norm(want), np.abs(got - want)
    whole = np.linalg.norm(difference) / norm if norm else np.linalg.norm(difference)
    rms = norm / max(1, want.size) ** 0.5
    return whole, bool(whole <= rtol and (difference <= 4 * rtol * np.maximum(np.abs(want), rms)).all())


# ---- measuring ---------------------------------------------------------------------------------------
def measure(row, threads):
    sides = {name: Ours(row, program, threads) for name, program in row.programs.items()}
    sides.update({name: Peer(row, function) for name, function in row.peers.items()})
    names, times, errors, wrong = list(sides), {n: [] for n in sides}, {n: 0.0 for n in sides}, []
    wants = [row.want(s) for s in row.sets]
    time.sleep(0.05)
    begin, rounds = time.perf_counter(), 0
    while rounds < len(row.sets) + args.rounds:
        i = rounds % len(row.sets)
        for k in range(len(names)):
            name = names[(k + rounds) % len(names)]
            seconds = sides[name].time(i)
            if threads > 1:
                time.sleep(PAUSE)
            if rounds >= len(row.sets):
                times[name].append(seconds)
                continue
            error, good = error_of(sides[name].result(i), wants[i], row.length)  # the first round of every set is unmeasured
            errors[name] = max(errors[name], error)
            if not good:
                wrong.append(name)
        if rounds == len(row.sets):
            begin = time.perf_counter()
        rounds += 1
        if time.perf_counter() - begin > args.seconds and rounds >= len(row.sets) + LEAST_ROUNDS:
            break
    once = {n: max((r.once for r in getattr(s, "runs", [])), default=0) for n, s in sides.items()}
    out = {n: dict(once=once[n], median=statistics.median(t), best=min(t), quartiles=[float(q) for q in np.percentile(t, (25, 75))], rounds=len(t), error=errors[n],
                   right=n not in wrong, ratio=statistics.median(x / o for x, o in zip(t, times[names[0]])), chosen=sides[n].chosen) for n, t in times.items()}
    for side in sides.values():
        side.close()
    return out


def best_of(threads, parts, work):
    from concurrent.futures import ThreadPoolExecutor
    with ThreadPoolExecutor(threads) as pool:
        seconds = []
        for _ in range(9):
            begin = time.perf_counter()
            list(pool.map(work, parts))
            seconds.append(time.perf_counter() - begin)
    return min(seconds)


def memory_rates(threads):
    """Bytes a second by so many threads over 512 MiB: read and written by the C library's copy; read alone, by a maximum."""
    a, b = np.ones(1 << 26, np.int64), np.ones(1 << 26, np.int64)
    pairs = list(zip(np.array_split(a, threads), np.array_split(b, threads)))
    return 2 * a.nbytes / best_of(threads, pairs, lambda p: np.copyto(*p)), a.nbytes / best_of(threads, pairs, lambda p: p[0].max())


# ---- tables ------------------------------------------------------------------------------------------
def cell(result, first):
    ms, text = result["median"] * 1e3, ""
    text = "%.3g" % ms if ms < 100 else "%.0f" % ms
    if result.get("once"):
        text += " + %.2g once" % (result["once"] * 1e3)
    if not first:
        text += " (%.2f)" % result["ratio"]
    return text + ("" if result["right"] else " **WRONG**")


def judge(row, results, copy):
    """Lines about targets that are not met."""
    ours, out = results["spc"], []
    for side, least in row.targets:
        if side == "copy":
            reached = row.bytes / ours["median"] / copy
        elif side in results:
            reached = results[side]["ratio"]
        else:
            continue
        if reached < least:
            out.append("%.2f of %s, target %.2f" % (reached, side, least))
    for side in row.best:
        if side in results and results[side]["ratio"] < 0.95:
            out.append("slower than %s: %.2f" % (side, results[side]["ratio"]))
    return out


def rate_of(row, result, copy):
    if row.flop:
        return "%.3g GFLOP/s" % (row.flop / result["median"] * 1e-9)
    return "%.3g GB/s, %.2f of copy" % (row.bytes / result["median"] * 1e-9, row.bytes / result["median"] / copy) if row.bytes else ""


def table(group, peers, threads, copy):
    function, title = cpu_rows.GROUPS[group]
    print("\n### %s, %s\n" % (title, "one core" if threads == 1 else "%d cores" % threads), flush=True)
    rows, out, columns = function(peers), [], None
    for row in rows:
        try:
            results = measure(row, threads)
        except RuntimeError as fault:
            print("| %s | fault: %s |" % (row.title, str(fault).replace("\n", " ")))
            out.append(dict(group=group, title=row.title, threads=threads, fault=str(fault)))
            continue
        if columns is None:
            columns = list(results)
            print("| row | rate | %s ms | below target |" % " ms | ".join(columns))
            print("| --- " * (len(columns) + 3) + "|")
        below = judge(row, results, copy)
        cells = [cell(results[c], c == columns[0]) if c in results else "" for c in columns]
        print("| %s | %s | %s | %s |" % (row.title, rate_of(row, results["spc"], copy), " | ".join(cells), "; ".join(below)), flush=True)
        if args.profile_line:
            print("  chosen: " + results["spc"]["chosen"])
        out.append(dict(group=group, title=row.title, threads=threads, flop=row.flop, bytes=row.bytes, below=below, sides=results))
        del row
        gc.collect()
    return out


def processor():
    names = [line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    return "%s, %d cores" % (names[0] if names else platform.processor(), os.cpu_count())


def main():
    if not os.path.exists(args.library):
        sys.exit("no %s: script/setup bench builds it" % args.library)
    unknown = [g for g in args.groups if g not in cpu_rows.GROUPS]
    if unknown:
        sys.exit("no group %s; there are: %s" % (", ".join(unknown), " ".join(cpu_rows.GROUPS)))
    cpu_spc.load(args.library)
    folder = os.path.join(tempfile.gettempdir(), "spc-bench-%d" % os.getuid())
    os.makedirs(folder, exist_ok=True)
    found = [p for p in (openblas, cpu_peers.mlir(folder), cpu_peers.eigen(folder)) if p]
    peers = {p.name: p for p in found}
    peers.update(SciPy=None, NumPy=None)
    facts = dict(processor=processor(), load=os.getloadavg(), peers={p.name: p.text for p in found}, missing=cpu_peers.missing)
    facts["peers"].update(SciPy=scipy.__version__ + ", one thread", NumPy=np.__version__)
    print("%s; load %.1f %.1f %.1f" % (facts["processor"], *facts["load"]))
    for name, text in facts["peers"].items():
        print("%s: %s" % (name, text))
    for name, why in cpu_peers.missing.items():
        print("%s: MISSING, its columns are left out: %s (script/setup bench)" % (name, why))
    rows = []
    for threads in [int(t) for t in args.threads.split(",")]:
        for p in found:
            p.threads(threads)
        copy, read = memory_rates(threads)
        facts["copy_%d" % threads] = copy
        print("\ncopy, %d thread%s: %.1f GB/s read and written; reading alone %.1f GB/s" % (threads, "s" if threads > 1 else "", copy * 1e-9, read * 1e-9))
        for group in args.groups or cpu_rows.GROUPS:
            rows += table(group, peers, threads, copy)
    scaling(rows)
    summary(rows)
    facts["load_after"] = os.getloadavg()
    if args.json:
        json.dump(dict(facts=facts, rows=rows), open(args.json, "w"), indent=1)
    wrong = [(r["title"], s) for r in rows for s, v in r.get("sides", {}).items() if not v["right"]]
    sys.exit(1 if any("fault" in r for r in rows) or any(s.startswith("spc") for _, s in wrong) else 0)


def scaling(rows):
    """One core against two, where both were measured; rows under a millisecond have nothing to share."""
    one = {r["title"]: r["sides"] for r in rows if r["threads"] == 1 and "sides" in r}
    two = [(r["title"], r["sides"]) for r in rows if r["threads"] == 2 and "sides" in r and r["title"] in one]
    if not two:
        return

    def gain(title, sides, side):
        if side not in sides or side not in one[title]:
            return None
        return one[title][side]["median"] / sides[side]["median"]
    print("\n### Two cores against one (median time on one core / on two)\n\n| row | spc | OpenBLAS | below target |\n| --- | --- | --- | --- |")
    for title, sides in two:
        ours, theirs = gain(title, sides, "spc"), gain(title, sides, "OpenBLAS")
        least = 1.85 if one[title]["spc"]["median"] > 1e-3 else 1
        print("| %s | %.2f | %s | %s |" % (title, ours, "" if theirs is None else "%.2f" % theirs, "target %.2f" % least if ours < least else ""))


def summary(rows):
    for threads in sorted({r["threads"] for r in rows}):
        mine = [r for r in rows if r["threads"] == threads]
        below = sum(1 for r in mine if r.get("below"))
        print("\n%d of %d rows below a target or a baseline on %d core%s" % (below, len(mine), threads, "s" if threads > 1 else ""))


main()
