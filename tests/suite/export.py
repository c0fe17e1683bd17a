"""Kernels compiled ahead of time: exported, built into a C program with and without LLVM in the library, loaded where
they fit and refused where they do not; bundles that are cut, changed or made up are refused and nothing else happens."""
import glob, hashlib, random, re, struct
import numpy as np
from harness_data import *

BUILD = os.path.dirname(SPC)
EXAMPLE = os.path.join(ROOT, "examples/aot/main.c")
LLVM, NVRTC, GPU = found("LLVM"), found("NVRTC"), found("GPU")
FFN = ["examples/ffn.spx", "-D", "D=64", "-D", "F=256"]
CPU = "x86-64-v2,x86-64-v3,x86-64-v4," if LLVM else ""


def sh(*command, **how):
    return subprocess.run(command, capture_output=True, text=True, errors="replace", cwd=TMP, timeout=600, **how)


def bits(text):
    """bf16 bit patterns as numbers."""
    return (np.array([int(w, 16) for w in text.split()], np.uint32) << 16).view(np.float32)


# ---- the example, linked with this library and with one that has no LLVM in it -----------------------------------------
r = spc("export", *FFN, "--target=%sinterp%s" % (CPU, ",sm_90a,sm_80" * NVRTC), "-o", path("ffn"))
check("the feed-forward layer is exported", r.returncode == 0 and "1 kernel for" in r.stdout, r.stdout + r.stderr)
check("its header says what it computes", "ffn(x: bf16[T,D], W1: bf16[D,F], W2: bf16[F,D]) -> y: bf16[T,D]" in open(path("ffn.h")).read())


def build_without_llvm():
    """libspc.so of this build's objects, but for the code generators, which are compiled without LLVM."""
    os.makedirs(path("off"), exist_ok=True)
    objects = [o for room in ("ir", "frontend", "passes", "runtime", "driver") for o in glob.glob(os.path.join(BUILD, "CMakeFiles/%s.dir/%s/*.o" % (room, room)))]
    sources = glob.glob(os.path.join(ROOT, "codegen/*.c")) + [os.path.join(BUILD, "generated/embedded_kernels.c")]
    return sh("cc", "-O0", "-fPIC", "-shared", "-fvisibility=hidden", "-DSPC_BUILDING", "-D_POSIX_C_SOURCE=200809L", "-std=c11", "-I", ROOT,
              "-I", os.path.join(ROOT, "include"), "-I", os.path.join(BUILD, "generated"), *sources, *objects, "-o", path("off/libspc.so.0"),
              "-Wl,-soname,libspc.so.0", "-Wl,--build-id=sha1", "-lz", "-lpthread", "-lm", "-ldl")


folders = [("this build", BUILD)]
if not SANITIZED:
    r = build_without_llvm()
    if check("a library without LLVM is built", r.returncode == 0, r.stderr):
        folders.append(("a build without LLVM", path("off")))
for name, folder in folders:
    flags = ["-fsanitize=address,undefined"] if SANITIZED else []
    r = sh("cc", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", *flags, "-I", TMP, "-I", os.path.join(ROOT, "include"), EXAMPLE, path("ffn.c"),
           os.path.join(folder, "libspc.so.0"), "-Wl,-rpath," + folder, "-o", path("main"))
    if not check("the example builds with %s" % name, r.returncode == 0, r.stderr):
        continue
    want = sh(path("main"), "interp")
    check("%s: the reference runs" % name, want.returncode == 0 and len(want.stdout.split()) == 12, want.stderr)
    for backend in ["cpu"] * LLVM + ["cuda"] * (GPU and NVRTC):
        got = sh(path("main"), backend)
        good = got.returncode == 0 and np.allclose(bits(got.stdout), bits(want.stdout), rtol=2e-2, atol=1e-3)
        check("%s: %s computes what the interpreter does" % (name, backend), good, got.stdout + got.stderr + want.stdout)
    if not GPU:
        got = sh(path("main"), "cuda")
        check("%s: without a GPU that is what is said" % name, got.returncode == 1 and "cuda" in got.stderr, got.stderr)

# ---- every example, on every back end, as a bundle ----------------------------------------------------------------------
for f in sorted(glob.glob(os.path.join(ROOT, "examples/*.spx"))):
    r = spc("export", f, "--target=%sinterp%s" % (CPU, ",sm_90a" * NVRTC), "-o", path("all.spcb"))
    check("%s is exported, and loads here" % os.path.basename(f), r.returncode == 0, r.stdout + r.stderr)

# ---- usage --------------------------------------------------------------------------------------------------------------
for arguments, code, words in [(["--target=sm_12"], 2, "no target"), (["--target=cpu", "--mcpu=haswell"], 2, "x86-64-v3"), (["--target=,"], 2, "wants names"),
                               (["-o", path("no/where.spcb"), "--target=interp"], 5, "cannot write"), (["-D", "Q=1"], 2, "Q")]:
    r = spc("export", "examples/ffn.spx", *arguments)
    check("export %s is answered" % " ".join(arguments), r.returncode == code and words in r.stderr, "%d %s" % (r.returncode, r.stderr))
check("a file with a mistake is answered as by compile", spc("export", write("bad.spx", "spx 1; kernel k { out y = q; }"), "--target=interp").returncode == 1)
check("one file is wanted", spc("export").returncode == 2 and spc("export", "-").returncode == 2)
if not NVRTC:
    check("without NVRTC there are no cubins", spc("export", "examples/ffn.spx", "--target=sm_90a").returncode == 4)

# ---- loading: what fits, and what is refused ------------------------------------------------------------------------------
if SANITIZED:
    skip("hostile bundles: a sanitized library cannot be loaded into Python (tests/unit/driver_bundle.c loads them)")
    close()
sys.path.insert(0, os.path.join(ROOT, "python"))
os.environ["SPC_LIBRARY"] = os.path.join(BUILD, "libspc.so")
import spc as package

HEAD, KIND = 48, "cpu" if LLVM else "interp"
SCALE = write("scale.spx", "spx 1; dim N: dyn; kernel scale { in x: f32[N]; out y[i] = 2*x[i]; out s = sum[i] x[i]; }\n")


def load(data, backend=KIND):
    return package.Program(write("load.spcb", data), backend=backend)


def refused(what, data, status, words, backend=KIND):
    try:
        load(data, backend)
        check(what, False, "it was loaded")
    except package.Error as e:
        check(what, e.status == status and all(w in str(e) for w in words), "%s: %s" % (e.status, e))


def sealed(body):
    """A bundle whose hash is right, whatever is in it."""
    body = struct.pack("<Q", len(body)) + body
    return b"spc bundle 1\n\0\0\0" + hashlib.sha256(body).digest() + body


def exported(*targets):
    r = spc("export", SCALE, "--target=" + ",".join(targets), "-o", path("x.spcb"))
    check("%s is exported" % "+".join(targets), r.returncode == 0, r.stderr)
    return open(path("x.spcb"), "rb").read()


whole = exported(*([t for t in CPU.split(",") if t] + ["interp"]))
x = np.arange(5, dtype="f4")
y, s = load(whole)["scale"](x)
check("a bundle loads from a file", (y == 2 * x).all() and s == 10)
check("it is the same bytes each time", exported(*([t for t in CPU.split(",") if t] + ["interp"])) == whole)
refused("a bundle without this machine's code says what it has", exported("interp"), "unavailable", ["interp", "this context runs x86-64"], "cpu") if LLVM else None
if NVRTC:
    refused("and one of cubins alone", exported("sm_90a", "sm_80"), "unavailable", ["sm_90a, sm_80"], KIND)
refused("a format of the future", whole[:11] + b"2" + whole[12:], "unavailable", ["format is 2", "format 1"])
refused("an empty bundle", whole[:11], "file error", ["cut off"])
refused("bytes behind its end", whole + b"\0", "file error", ["follow its end"])
rng = random.Random(4)
silent = 0
for cut in sorted(rng.sample(range(HEAD, len(whole)), 60)) + [16, 47, 55, len(whole) - 1]:
    try:
        load(whole[:cut])
    except package.Error as e:
        silent += e.status == "file error"
check("a bundle that is cut anywhere is refused", silent == 64, silent)
silent = 0
for at in rng.sample(range(12, len(whole)), 200):
    try:
        load(whole[:at] + bytes([whole[at] ^ 1 << rng.randrange(8)]) + whole[at + 1:])
    except package.Error as e:
        silent += e.status in ("file error", "unavailable")
check("a bundle with one bit flipped anywhere is refused", silent == 200, silent)
loaded = 0
for _ in range(600):  # the hash is right: lengths, texts, digests, ELF files are what someone made up
    body = bytearray(whole[HEAD + 8:])
    for _ in range(rng.choice((1, 1, 2, 8))):
        at = rng.randrange(len(body))
        body[at:at + rng.choice((1, 1, 1, 8))] = rng.choice((bytes([rng.randrange(256)]), b"\xff" * 8, b"", bytes(body[:rng.randrange(40)])))
    try:
        load(sealed(bytes(body)))
        loaded += 1
    except package.Error as e:
        silent += 1
check("made-up bundles load or are refused", loaded + silent == 800, (loaded, silent))
if LLVM:
    other = sealed(whole[HEAD + 8:].replace(b"2.0_f32 *", b"3.0_f32 *"))
    check("the program's text says twice", other != sealed(whole[HEAD + 8:]))
    refused("code whose launch would differ is refused", other, "unavailable", ["E0805", "export it again"])
    r = spc("explain", "E0805")
    check("E0805 is explained", r.returncode == 0 and "spc export" in r.stdout)
close()
