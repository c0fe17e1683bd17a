"""Every example on every back end that is here: its test blocks, compile, explain, the schedule fed back."""
import glob, importlib.util, json, os, re, subprocess, sys, tempfile
from harness_data import *

files = sorted(glob.glob(os.path.join(ROOT, "examples/*.spx")) + glob.glob(os.path.join(ROOT, "examples/*/*.spx")))
check("there are examples", len(files) >= 13, files)
cuda = found("NVRTC")


def tile_lines(text):
    """What runs: stages, lists, guards, and the candidates that were taken.  A tile that is named adds others of its size to those that were not."""
    text = re.sub(r"  candidate \d+ for \S+ rejected \{.*?\n  \}\n", "", text, flags=re.S)
    return [l.strip() for l in text.splitlines() if l.strip().startswith(("stage ", "list ", "guard ", "row ", "tile ")) and not l.endswith(" applied;")]


for number, f in enumerate(files):
    name = os.path.relpath(f, ROOT)
    for backend in backends():
        r = spc("check", f, "--backend=" + backend)
        check("%s on %s" % (name, backend), r.returncode == 0 and "passed, 0 failed" in r.stdout, r.stdout + r.stderr)
    for force in ("sparse", "dense"):
        if "cpu" in backends():
            r = spc("check", f, "--backend=cpu", "--force-guard=" + force)
            check("%s with the guard forced to %s" % (name, force), r.returncode == 0, r.stdout + r.stderr)
    r = spc("compile", f)
    check("compile %s" % name, r.returncode == 0 and r.stdout.strip(), r.stderr)
    for target in ["cpu"] + ["sm_80", "sm_90a"]:
        r = spc("explain", f, "--target=" + target)
        check("explain %s for %s" % (name, target), r.returncode == 0 and len(r.stdout) > 100, r.stderr)
        r = spc("explain", f, "--target=" + target, "--json")
        check("explain --json %s for %s" % (name, target), r.returncode == 0 and json.loads(r.stdout), r.stderr + r.stdout[:300])
        schedule = spc("explain", f, "--target=" + target, "--emit=schedule")
        tile = spc("compile", f, "--target=" + target, "--emit=tile")
        text = open(f).read()
        text = "".join(part for part in [text.split("schedule ")[0]]) if "\nschedule " in text else text
        again = spc("compile", write("scheduled.spx", text + "\n" + schedule.stdout), "--target=" + target, "--emit=tile")
        check("the chosen schedule of %s for %s gives the same tile IR" % (name, target), again.returncode == 0 and tile_lines(tile.stdout) == tile_lines(again.stdout),
              again.stderr or schedule.stdout)
        if target != "cpu":
            r = spc("compile", f, "--target=" + target, "--emit=cuda")
            check("CUDA text of %s for %s" % (name, target), r.returncode == 0 and "__global__" in r.stdout, r.stderr)
            if cuda and (target == "sm_90a" or its_turn(number)): # the older target's cubins by turns; its text always
                r = spc("compile", f, "--target=" + target)
                check("%s compiles to cubins for %s" % (name, target), r.returncode == 0, r.stderr)
    r = spc("fmt", f)
    again = spc("fmt", "-", stdin=r.stdout)
    check("fmt of %s is stable" % name, r.returncode == 0 and again.stdout == r.stdout, r.stderr)
    check("%s is in canonical form or opens with its own comment" % name, open(f).read().lstrip().startswith("//"))
try:
    __import__("numpy")
    digits = backends()
except ImportError:
    digits = []
    skip("digits: NumPy is not here")
for backend in digits:
    r = subprocess.run([sys.executable, os.path.join(ROOT, "examples/digits/run.py"), SPC, "--backend=" + backend], capture_output=True, text=True)
    check("digits on %s: accuracy and sparsity" % backend, r.returncode == 0 and "accuracy 91.9 %" in r.stdout and "(4.3 %)" in r.stdout, r.stdout + r.stderr)
few_live = digits and not SANITIZED and ("cpu" in backends() or (found("GPU") and importlib.util.find_spec("torch")))
if few_live:
    plot = os.path.join(tempfile.mkdtemp(), "speed.svg")
    where = dict(os.environ, PYTHONPATH=os.path.join(ROOT, "python"), SPC_LIBRARY=os.path.join(os.path.dirname(SPC), "libspc.so"))
    run = [sys.executable, os.path.join(ROOT, "examples/sparse_llm_ffn/run.py"), "--tokens", "24", "--size", "64", "352", "--live", "3", "20"]
    r = subprocess.run(run + ["--plot", plot], capture_output=True, text=True, env=where)
    check("a layer with few live neurons: results and gradients, table", r.returncode == 0 and len(re.findall(r"^\| (random|power law) \|", r.stdout, re.M)) == 4, r.stdout + r.stderr)
    check("its plot", os.path.exists(plot) and open(plot).read().count("<circle") == 4, r.stderr)
    for tokens in ("1", "7", "64", "1000"):  # rows of a tile, a strip that is not full, several
        r = subprocess.run(run[:2] + ["--tokens", tokens, "--size", "128", "704", "--live", "4", "60", "--check-only"], capture_output=True, text=True, env=where)
        check("its results and gradients, %s tokens" % tokens, r.returncode == 0, r.stdout + r.stderr)
elif digits:
    skip("a layer with few live neurons: no machine code, or a sanitized library")
# Layers of few tokens: of what was chosen nothing is rejected, whatever number of tokens and neurons there is.
FEW = """spx 1; dim T = %d; dim D = %d; dim F = %d;
kernel gated { in x: bf16[T,D]; in Wg: bf16[D,F] as dense_t; in Wu: bf16[D,F] as dense_t; in Wd: bf16[F,D];
  let g[t,f] = relu(sum[d] x[t,d]*Wg[d,f]) : bf16 acc f32 ~ zeros(dynamic, density=0.005);
  let u[t,f] = sum[d] x[t,d]*Wu[d,f] on g[t,f] : bf16 acc f32;
  out %s : bf16 acc f32; }"""
DOWN, ALONE = "y[t,o] = sum[f] g[t,f]*u[t,f]*Wd[f,o]", "v[t,f] = u[t,f]"
LAYERS = [(1, 2048, 5632, DOWN), (7, 5120, 20480, DOWN), (9, 2048, 5632, DOWN), (25, 5120, 20480, DOWN), (57, 4096, 14336, DOWN), (61, 8192, 28672, DOWN), (64, 5120, 20480, DOWN), (40, 4096, 28672, ALONE)]
for layer in LAYERS * cuda:
    r = spc("compile", write("few.spx", FEW % layer), "--target=sm_90a", "--library=off")
    check("a layer of %d tokens, %d x %d, %s: no kernel is rejected" % layer, r.returncode == 0 and "R0601" not in r.stderr, r.stderr)
if not cuda:
    skip("cubins of the examples: NVRTC is not here")
if not found("GPU"):
    skip("examples on cuda: no GPU here")
close()
