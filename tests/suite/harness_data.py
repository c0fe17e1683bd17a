"""What the suite's Python parts share: running `spc`, counting, closing with the plain line of counts."""
import functools, json, os, subprocess, sys, tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SPC = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else "spc"
counts = {"passed": 0, "failed": 0, "skipped": 0}
_folder = tempfile.TemporaryDirectory()
TMP = _folder.name


def spc(*arguments, stdin=None, env=None, timeout=300, **how):
    return subprocess.run([SPC, *map(str, arguments)], capture_output=True, text=True, errors="replace", input=stdin, cwd=ROOT,
                          timeout=timeout, env=dict(os.environ, NO_COLOR="1", **(env or {})), **how)


def path(name):
    return os.path.join(TMP, name)


def write(name, text):
    with open(path(name), "w" if isinstance(text, str) else "wb") as f:
        f.write(text)
    return path(name)


def its_turn(number):
    """Of cases that are much alike SPC_ALIKE=I/N takes every Nth, from the Ith on; without it all are taken."""
    first, step = map(int, os.environ.get("SPC_ALIKE", "1/1").split("/"))
    return number % step == (first - 1) % step


def check(what, good, detail=""):
    counts["passed" if good else "failed"] += 1
    if not good:
        print("FAIL %s\n     %s" % (what, str(detail).strip().replace("\n", "\n     ")[:1500]), flush=True)
    return good


def skip(why):
    counts["skipped"] += 1
    print("skip: " + why)


_cache = os.path.join(os.path.dirname(SPC), "CMakeCache.txt")
SANITIZED = os.path.exists(_cache) and "SPC_SANITIZE:BOOL=ON" in open(_cache).read()


@functools.cache
def found_here():
    return {f["what"] for f in json.loads(spc("doctor", "--json").stdout) if f["found"]}


def found(what):
    return what in found_here()


def backends():
    """Those that are here; of them the ones that SPC_BACKENDS names (with commas), where a machine's time is dear."""
    here = ["interp"] + ["cpu"] * found("LLVM") + ["cuda"] * (found("GPU") and found("NVRTC"))
    only = os.environ.get("SPC_BACKENDS")
    return [b for b in here if b in only.split(",")] if only else here


def close():
    print("%d passed, %d failed, %d skipped" % (counts["passed"], counts["failed"], counts["skipped"]))
    sys.exit(1 if counts["failed"] else 0)
