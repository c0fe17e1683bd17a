"""The command line: exit codes, what goes to stdout and what to stderr, one-line usage errors, hostile input."""
import json, os, re
import numpy as np
from harness_data import *

GOOD = "spx 1; dim N: dyn; kernel k { in x: f32[N]; out y[i] = 2 * x[i]; }\n"
BAD = "spx 1; dim N: dyn; kernel k { in x: f32[N]; out y[i] = x[j]; }\n"
good, bad = write("good.spx", GOOD), write("bad.spx", BAD)
two = write("two.spx", GOOD + GOOD.replace("kernel k", "kernel l").replace("spx 1; dim N: dyn; ", ""))
np.save(path("x.npy"), np.arange(5, dtype=np.float32))
np.save(path("x64.npy"), np.arange(5, dtype=np.float64))
np.save(path("x2.npy"), np.zeros((2, 2), np.float32))
write("torn.npy", open(path("x.npy"), "rb").read()[:70])
write("empty.npy", b"")

EXITS = [
    (0, ["run", good, "--bind", "x=" + path("x.npy")]), (0, ["compile", good]), (0, ["check", good]), (0, ["fmt", good]),
    (0, ["opt", good]), (0, ["explain", good]), (0, ["explain", "E0101"]), (0, ["doctor"]), (0, ["help"]), (0, ["help", "run"]),
    (0, ["cache"]), (0, ["cache", "path"]), (0, ["cache", "ls", "--json"]), (2, ["cache", "cler"]), (2, ["cache", "ls", "more"]),
    (0, ["--version"]), (0, ["--version", "--json"]), (0, ["show", "ops"]), (0, ["show", "format"]), (0, ["show", "format", "bsr(4,4)"]),
    (0, ["completions", "bash"]), (0, ["completions", "zsh"]), (0, ["completions", "fish"]), (0, ["opt", "--list-passes"]),
    (1, ["run", bad]), (1, ["compile", bad]), (1, ["check", bad]), (1, ["run", bad, "--bind", "nothing=here"]),
    (1, ["run", good, "--bind", "x=" + path("x64.npy")]), (1, ["run", good, "--bind", "x=" + path("x2.npy")]),
    (1, ["run", good, "--bind", "x=rand:1"]),
    (2, []), (2, ["run"]), (2, ["nonsense"]), (2, ["run", good]), (2, ["run", good, "--bind", "z=rand:1"]), (2, ["run", good, "--bakend=cpu"]),
    (2, ["run", good, "--backend=gpu", "--bind", "x=" + path("x.npy")]), (2, ["run", two, "--bind", "x=rand:1"]), (2, ["compile", good, "--kernel", "z"]),
    (2, ["compile", good, "--emit=cud"]), (2, ["compile", good, "--target=sm_1"]), (2, ["run", good, "-D", "N"]), (2, ["run", good, "-D", "Q=3"]),
    (2, ["explain", "E9999"]), (2, ["show"]), (2, ["show", "opps"]), (2, ["completions", "tcsh"]), (2, ["help", "nothing"]),
    (2, ["run", good, "--bind", "x=" + path("x.npy"), "--out", "y=" + path("y.txt")]), (2, ["run", good, "--bind", "x=" + path("x.npy"), "--out", "q=" + path("y.npy")]),
    (2, ["run", good, "--bind", "x=" + path("x.npy"), "--out", "y=" + path("y.npz")]),
    (2, ["bench"]), (2, ["bench", good, "--backend=interp"]), (2, ["bench", good, "--candidates=some"]), (2, ["bench", good, "--sweep=0"]),
    (2, ["bench", good, "--sweep=0.1:8"]), (2, ["bench", good, "--sweep=0.1,1.5:1x1"]), (2, ["bench", good, "--seconds=soon"]), (1, ["bench", bad]),
    (5, ["bench", path("absent.spx")]),
    (5, ["run", path("absent.spx")]), (5, ["run", good, "--bind", "x=" + path("absent.npy")]), (5, ["run", good, "--bind", "x=" + path("torn.npy")]),
    (5, ["run", good, "--bind", "x=" + path("empty.npy")]), (5, ["run", TMP]), (5, ["compile", good, "--emit=tile", "-o", path("no/such/folder/f")]),
    (5, ["run", good, "--bind", "x=" + path("x.npy"), "--out", "y=" + path("no/such/y.npy")]),
]
for code, arguments in EXITS:
    r = spc(*arguments)
    check("exit %d: spc %s" % (code, " ".join(arguments)), r.returncode == code, "got %d\n%s%s" % (r.returncode, r.stdout[-400:], r.stderr))
    if code:
        check("a failure says why on stderr: spc %s" % " ".join(arguments), r.stderr.strip() != "")
    if code == 2 and arguments and "Q=3" not in arguments:
        check("a usage error is one line: spc %s" % " ".join(arguments), len(r.stderr.strip().splitlines()) == 1, r.stderr)

# Where the guard has dense computed, a zero that meets an infinity is NaN: the verdict that was asked for is the one that counts.
FORCED = """spx 1; dim T: dyn; dim F: dyn; dim O: dyn;
kernel k { in x: f32[T,F]; in W: f32[F,O]; let h[t,f] = relu(x[t,f]) ~ zeros(dynamic, density=0.1); out y[t,o] = sum[f] h[t,f]*W[f,o]; }
schedule k { compact h axis=f gran=1x1; }
test k { T=1, F=2, O=1;  x = [[1, -1]];  W = [[2], [inf]];  expect y ~= [[2]]; }
"""
for verdict, code in (("sparse", 0), ("dense", 3)):
    r = spc("check", write("forced.spx", FORCED), "--backend=cpu", "--force-guard=" + verdict)
    check("check takes the branch that it is told to: " + verdict, r.returncode == code and ("nan" in r.stderr) == (code == 3), r.stdout + r.stderr)

check("a mistyped option gets a suggestion", "did you mean `--backend`" in spc("run", good, "--bakend=cpu").stderr)
check("a mistyped command gets a suggestion", "did you mean `compile`" in spc("complie", good).stderr)
check("a mistyped input gets a suggestion", "did you mean" in spc("run", write("w.spx", GOOD.replace("x", "weights").replace("spweights", "spx")), "--bind", "weight=rand:1").stderr)
r = spc("compile", bad, "--diagnostics=json")
check("diagnostics as JSON lines", all(json.loads(line)["code"] for line in r.stderr.strip().splitlines()) and r.stdout == "", r.stderr)
r = spc("compile", bad)
check("a diagnostic has place, code, line and caret", "bad.spx:1:" in r.stderr and "error[E" in r.stderr and "^" in r.stderr, r.stderr)
r = spc("compile", "-", stdin=GOOD)
check("`-` is standard input", r.returncode == 0, r.stderr)
r = spc("run", good, "--bind", "x=" + path("x.npy"), "--out", "y=" + path("y.npy"))
check("--out writes and stdout stays empty", r.stdout == "" and np.array_equal(np.load(path("y.npy")), 2 * np.arange(5, dtype=np.float32)), r.stdout + r.stderr)
r = spc("run", good, "--bind", "x=" + path("x.npy"))
check("a summary line has dtype, shape, non-zeros, min, max, norm", all(t in r.stdout for t in ("y: f32[5]", "nonzeros 4", "min 0", "max 8", "norm")), r.stdout)
# ---- --emit into a folder: text of kernels as KERNEL.KIND, code as KERNEL.STAGE.KIND --------------------------
r = spc("compile", two, "--target=cpu", "--emit=ast,ein,tile,loop,dot", "-o", path("emitted") + "/")
want = sorted(k + "." + kind for k in "kl" for kind in ("ast", "ein", "tile", "loop", "dot"))
check("--emit into a folder: one file a kernel", r.returncode == 0 and sorted(os.listdir(path("emitted"))) == want, r.stderr)
for kind in ("ein", "tile", "loop"):
    r = spc("run", path("emitted/l." + kind), "--bind", "x=rand:1", "-D", "N=3")
    check("l.%s is a program of one kernel" % kind, r.returncode == 0, r.stderr)
check("l.ast shows one kernel", "kernel l" in open(path("emitted/l.ast")).read() and "kernel k" not in open(path("emitted/l.ast")).read())
spc("compile", two, "--emit=ast", "--kernel=l", "-o", path("only") + "/")
check("--kernel chooses what is emitted", os.listdir(path("only")) == ["l.ast"])
if found("LLVM"):
    spc("compile", two, "--target=cpu", "--emit=llvm,asm", "-o", path("code") + "/")
    check("code: one file a stage", sorted(os.listdir(path("code"))) == ["k.y.asm", "k.y.llvm", "l.y.asm", "l.y.llvm"], str(os.listdir(path("code"))))
else:
    skip("code of stages: LLVM is not in this build")

r = spc("run", good, "--bind", "x=" + path("x.npy"), "--stats=-")
stats = json.loads(r.stdout[r.stdout.index("{"):])
check("--stats names back end and kernels", stats["stages"] and stats["backend"] in ("cpu", "cuda", "interp"), r.stdout)
check("the version as JSON", json.loads(spc("--version", "--json").stdout)["name"] == "spc")

if found("LLVM"):
    import xml.dom.minidom
    sparse = write("sparse.spx", "spx 1; dim I: dyn; dim K: dyn; dim N: dyn; kernel mm { in A: f32[I,K] as csr; in B: f32[K,N]; out C[i,n] = sum[k] A[i,k]*B[k,n]; }\n"
                   "kernel layer { in x: f32[I,K]; in W: f32[K,N]; in V: f32[N,K]; let h[i,n] = relu(sum[k] x[i,k]*W[k,n]) ~ zeros(dynamic, density=0.1); out y[i,o] = sum[n] h[i,n]*V[n,o]; }\n")
    sizes = ["-D", "I=48", "-D", "K=32", "-D", "N=64"]
    kept = "--measured=" + path("kept")
    r = spc("bench", sparse, *sizes, "--backend=cpu", "--sweep=0.1,1:1x1,4x1", "--seconds=10", "--candidates=all", "--json=" + path("b.json"), "--svg=" + path("b.svg"), kept)
    check("bench of two kernels", r.returncode == 0 and r.stdout.count("right, error") == 8 and "WRONG" not in r.stdout, r.stdout + r.stderr)
    kernels = json.load(open(path("b.json")))
    points = [p for k in kernels for p in k["points"]]
    check("bench: every point in JSON, timed and checked", [k["kernel"] for k in kernels] == ["mm", "layer"] and len(points) == 8 and all(
        p["spc"]["median_ms"] > 0 and p["dense"]["median_ms"] > 0 and p["check"]["right"] for p in points), json.dumps(kernels)[:2000])
    rows = [c for c in kernels[1]["candidates"] if not c["left_out"]]
    check("bench: candidates have predicted and measured times", len(rows) >= 3 and all(c["measured_microseconds"] > 0 and c["predicted_microseconds"] > 0 for c in rows), json.dumps(kernels[1]["candidates"])[:2000])
    check("bench: the chart is XML with a line for each granularity and axis labels", all(t in xml.dom.minidom.parse(path("b.svg")).toxml() for t in ("polyline", "zeros of 4x1", "time, ms", "share that is kept")))
    r = spc("explain", sparse, *sizes, "--target=cpu", kept)
    check("explain shows what was measured", r.stdout.count("  measured: ") == 2 and "by `spc bench`, predicted" in r.stdout, r.stdout)
    r = spc("explain", sparse, *sizes, "--target=cpu", "--json", kept)
    check("explain --json has it too", any(c["measured_microseconds"] for k in json.loads(r.stdout) for c in k["candidates"]), r.stdout[:2000])
    r = spc("explain", sparse, *sizes[:5], "N=65", "--target=cpu", kept)
    check("what was measured at other sizes is not shown", "measured" not in r.stdout, r.stdout)
    r = spc("explain", write("sparse2.spx", open(sparse).read().replace("relu", "relu2")), *sizes, "--target=cpu", kept)
    check("what was measured of another program is not shown", "measured" not in r.stdout, r.stdout)
    write("kept", "point\tnot a record\nnoise\n\n" + open(path("kept")).read() + "candidate\t")
    r = spc("explain", sparse, *sizes, "--target=cpu", kept)
    check("a damaged file of measurements is read as far as it goes", r.returncode == 0 and "measured: " in r.stdout, r.stdout + r.stderr)
    r = spc("bench", sparse, *sizes, "--backend=cpu", "--kernel=mm", "--sweep=0.5:1x1", "--seconds=1", "--measured=" + path("no/such/folder/kept"))
    check("measurements that cannot be kept are no failure", r.returncode == 0 and "not kept" in r.stdout, r.stdout + r.stderr)
    stored = path("stored.spx")
    open(stored, "w").write("spx 1; dim I: dyn; dim K: dyn; dim N: dyn; kernel k { in A: f32[I,K] as csr ~ zeros(static, density=0.2); in B: f32[K,N]; out y[i,n] = sum[k] A[i,k]*B[k,n]; }")
    r = spc("bench", stored, "-D", "I=40", "-D", "K=40", "-D", "N=40", "--backend=cpu", "--sweep=none", "--seconds=1", "--candidates=all", "--measured=" + path("kept.stored"))
    check("bench without a sweep fills what is stored sparse as its hint says", r.returncode == 0 and "20 %" in r.stdout and "written out" in r.stdout and "right" in r.stdout, r.stdout + r.stderr)
    r = spc("tune", "--backend=cpu", "--threads=1", "-o", path("here.profile"))
    mine = open(path("here.profile")).read() if r.returncode == 0 else ""
    figures = dict(re.findall(r"^(\w+) = ([\d.e+-]+)", mine, re.M))
    check("tune: figures that were measured, each with its times", r.returncode == 0 and not r.stdout and float(figures["units"]) == 1 and float(figures["bandwidth_gbs"]) > 0 and
          any(k.startswith("fma") and float(v) > 0 for k, v in figures.items()) and mine.count(" takes ") == r.stderr.count(" takes ") == 2 + mine.count("at least so much"), r.stdout + r.stderr + mine)
    read = write("read.spx", "spx 1; dim M = 16384; dim K = 4096; kernel k { in A: f32[M,K]; in x: f32[K]; out y[m] = sum[k] A[m,k]*x[k]; }\n")
    product = write("product.spx", "spx 1; dim M = 1024; kernel k { in A: f32[M,M]; in B: f32[M,M]; out y[m,n] = sum[k] A[m,k]*B[k,n]; }\n")
    for program, what in ((read, "256 MiB read once"), (product, "f32 1024 x 1024 x 1024")):
        took = re.search(what + r" takes ([\d.]+) (\w+)", mine)
        foretold = re.search(r"([\d.]+) (\w+) predicted", spc("explain", program, "--target=cpu", "--profile=" + path("here.profile")).stdout)
        check("what was tuned predicts what was measured: " + what, bool(took and foretold) and abs(float(took[1]) / float(foretold[1]) - 1) < 0.02 and took[2] == foretold[2], mine)
    r = spc("bench", sparse, *sizes, "--backend=cpu", "--kernel=mm", "--bind", "A=sparse:3:0.2", "--seconds=1", kept)
    check("an operand that is bound is not swept", r.returncode == 0 and "as bound" in r.stdout, r.stdout + r.stderr)

check("tune takes no file", spc("tune", good).returncode == 2)
check("tune has nothing to measure in the interpreter", spc("tune", "--backend=interp").returncode == 2)
check("colour only where asked for", "\x1b[" in spc("compile", bad, "--color=always").stderr and "\x1b[" not in r.stderr)

HOSTILE = {
    "deep": "spx 1; kernel k { in x: f32[]; out y = " + "(" * 100000 + "x" + ")" * 100000 + "; }",
    "long name": "spx 1; dim " + "N" * 200000 + " = 4; kernel k { out y[i] = 1; }",
    "binary": bytes(range(256)) * 40, "nul": b"spx 1;\0kernel k { }", "huge size": "spx 1; dim N = 99999999999999999999; kernel k { in x: f32[N]; out y[i] = x[i]; }",
    "overflow": "spx 1; dim N = 9000000000000000000; dim M = N*4; kernel k { in x: f32[M]; out y[i] = x[i]; }",
    "invalid UTF-8": b"spx 1; // \xff\xfe\nkernel \xc3( { }", "empty": "", "many errors": "spx 1; kernel k { " + "in x: q32[; " * 500 + "}",
    "IR header": "spc.ir 1\nkernel {{{{", "negative": "spx 1; dim N = 1-5; kernel k { in x: f32[N]; out y[i] = x[i]; }",
}
for name, text in HOSTILE.items():
    r = spc("compile", write("hostile.spx", text))
    check("hostile input, %s: an error and exit 1" % name, r.returncode == 1 and r.stderr and len(r.stderr) < 6000, "exit %d, %d bytes\n%s" % (r.returncode, len(r.stderr), r.stderr[:300]))
r = spc("compile", write("five.spx", "spx 1; dim N: dyn;\nkernel k {\n  in x: f33[N];\n  in z: f32[M];\n  out a[i] = q[i];\n  out b[i] = z[i] +;\n  out c[i] = relux(z[i]);\n}\n"))
check("several errors are reported at once", r.stderr.count("error[") >= 3, r.stderr)
close()
