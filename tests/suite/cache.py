"""The cache of compiled code under torture: many processes at once, disks that are full or read-only, writers killed in
mid-write, damage in every region of an entry, foreign files, other versions, memory that runs out.  NVRTC is played by a
library that counts compiles and writes whatever log it is told to; the CPU's code is real."""
import errno, glob, re, hashlib, random, resource, shutil, signal, struct, time
import numpy as np
from harness_data import *

MM = write("mm.spx", "spx 1; dim M = 256; dim K = 256; dim N = 256; kernel mm { in A: bf16[M,K]; in B: bf16[K,N]; out C[i,j] = relu(sum[k] A[i,k]*B[k,j]); }\n")
TWO = write("two.spx", "spx 1; dim N: dyn; kernel k { in x: f32[N]; in z: f32[N]; out y[i] = 2 * x[i] + z[i]; out s = sum[i] x[i]; }\n")
TRAILER = 96  # bytes behind data and note: magic 16, lengths 8 + 8, key 32, digest 32

FAKE_NVRTC = r"""
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
typedef struct { char *source, *name, log[4096]; } program;
static void tell(const char *what, const char *name) {
  char line[600];
  int file = open(getenv("FAKE_COUNT") ? getenv("FAKE_COUNT") : "/dev/null", O_WRONLY | O_APPEND | O_CREAT, 0666);
  int n = snprintf(line, sizeof line, "%s %s\n", what, name);
  if (file < 0 || write(file, line, n) != n) abort();
  close(file);
}
__attribute__((constructor)) static void loaded(void) { tell("load", "library"); }
int nvrtcVersion(int *major, int *minor) { *major = 13; *minor = getenv("FAKE_MINOR") ? atoi(getenv("FAKE_MINOR")) : 0; return 0; }
int nvrtcCreateProgram(void **out, const char *source, const char *name, int n, const char *const *a, const char *const *b) {
  program *p = calloc(1, sizeof *p);
  if (!p) return 1;
  p->source = strdup(source); p->name = strdup(name); *out = p;
  if (p->source && p->name) return 0;
  free(p->source); free(p->name); free(p); return 1; }
int nvrtcDestroyProgram(void **p) { free(((program *)*p)->source); free(((program *)*p)->name); free(*p); return 0; }
int nvrtcCompileProgram(void *handle, int n, const char *const *options) {
  program *p = handle;
  const char *spill = getenv("FAKE_SPILL"), *ms = getenv("FAKE_MS");
  tell("compile", p->name);
  if (ms) usleep(1000 * atoi(ms));
  if (strstr(p->source, "#error")) { snprintf(p->log, sizeof p->log, "%s(1): error: #error directive\n", p->name); return 6; }
  snprintf(p->log, sizeof p->log, "ptxas info : Used 32 registers, %d bytes spill stores, 0 bytes spill loads\n", spill && strstr(p->source, spill) ? 16 : 0);
  return 0;
}
int nvrtcGetProgramLogSize(void *p, size_t *n) { *n = strlen(((program *)p)->log) + 1; return 0; }
int nvrtcGetProgramLog(void *p, char *to) { strcpy(to, ((program *)p)->log); return 0; }
int nvrtcGetCUBINSize(void *p, size_t *n) { *n = 9000 + strlen(((program *)p)->source); return 0; }
int nvrtcGetCUBIN(void *p, char *to) { memset(to, 'c', 9000); memcpy(to + 9000, ((program *)p)->source, strlen(((program *)p)->source)); return 0; }
int nvrtcGetPTXSize(void *p, size_t *n) { return nvrtcGetCUBINSize(p, n); }
int nvrtcGetPTX(void *p, char *to) { return nvrtcGetCUBIN(p, to); }
"""

# What the kernel of the system does on a bad day, for files of the cache in the making; and memory that runs out.
SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static long left = -1;
ssize_t write(int file, const void *data, size_t bytes) {
  static ssize_t (*real)(int, const void *, size_t);
  char link[64], path[4096];
  if (!real) real = (ssize_t (*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  ssize_t n = readlink(link, path, sizeof path - 1);
  if (n <= 0 || !getenv("SHIM_DISK")) return real(file, data, bytes);
  path[n] = 0;
  if (!strstr(path, "/part-")) return real(file, data, bytes);
  if (left < 0) left = atol(getenv("SHIM_DISK"));
  if ((long)bytes <= left) { left -= bytes; return real(file, data, bytes); }
  if (getenv("SHIM_KILL")) { real(file, data, left); raise(SIGKILL); }
  if (!left) { errno = getenv("SHIM_ERRNO") ? atoi(getenv("SHIM_ERRNO")) : ENOSPC; return -1; }
  n = real(file, data, left); left = 0; return n;
}
static long countdown(void) { static long n = -2; if (n == -2) n = getenv("SHIM_MALLOC") ? atol(getenv("SHIM_MALLOC")) : -1; return n > 0 ? --n : n; }
extern void *__libc_malloc(size_t); extern void *__libc_calloc(size_t, size_t); extern void *__libc_realloc(void *, size_t);
static int armed; __attribute__((constructor)) static void arm(void) { armed = 1; }
static int fails(void) { if (!armed || countdown() != 0) return 0; errno = ENOMEM; return 1; }
void *malloc(size_t n) { return fails() ? NULL : __libc_malloc(n); }
void *calloc(size_t n, size_t m) { return fails() ? NULL : __libc_calloc(n, m); }
void *realloc(void *p, size_t n) { return fails() ? NULL : __libc_realloc(p, n); }
"""


def library(name, source):
    compiler = next((c for c in ("cc", "gcc", "clang") if shutil.which(c)), None)
    made = compiler and subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-w", "-o", path(name), write(name + ".c", source), "-ldl"]).returncode == 0
    return path(name) if made else None


nvrtc, shim = library("libfake_nvrtc.so", FAKE_NVRTC), library("libshim.so", SHIM)
preload = shim
if shim and SANITIZED:  # the sanitizer's library wants to be the first
    preload = re.search(r"\S*libasan\S* => (\S+)", subprocess.run(["ldd", SPC], capture_output=True, text=True).stdout).group(1) + " " + shim
if not nvrtc or not shim:
    skip("the cache under torture: no C compiler")
    close()
serial = [0]


def fresh(**more):
    """An environment with an empty cache of its own, and the file in which the fake NVRTC counts."""
    serial[0] += 1
    env = {"SPC_CACHE_DIR": path("cache%d" % serial[0]), "SPC_CACHE": "on", "SPC_CACHE_SIZE": "", "SPC_NVRTC_LIB": nvrtc, "FAKE_COUNT": path("count%d" % serial[0])}
    env.update(more)
    return env


def counted(env, what="compile"):
    try:
        return sum(line.startswith(what) for line in open(env["FAKE_COUNT"]))
    except FileNotFoundError:
        return 0


def entries(env, kind="*"):
    return sorted(p for p in glob.glob(os.path.join(env["SPC_CACHE_DIR"], "*." + kind)) if not p.endswith(".cu"))


def parts(env):
    return glob.glob(os.path.join(env["SPC_CACHE_DIR"], "part-*"))


def cuda(env, *more, **how):
    return spc("compile", MM, "--target=sm_90a", *more, env=env, **how)


np.save(path("x.npy"), np.arange(9, dtype=np.float32))
np.save(path("z.npy"), np.ones(9, np.float32))
RUN = ["run", TWO, "--bind", "x=" + path("x.npy"), "--bind", "z=" + path("z.npy")]
has_cpu = found("LLVM")


def cpu(env, name="y.npy", **how):
    """Runs on the CPU; (process, statistics, whether the result is right)."""
    stats, out = path(name + ".json"), path(name)
    for old in (stats, out):
        if os.path.exists(old):
            os.remove(old)
    r = spc(*RUN, "--backend=cpu", "--out", "y=" + out, "--stats=" + stats, env=env, **how)
    right = os.path.exists(out) and np.array_equal(np.load(out), 2 * np.arange(9, dtype=np.float32) + 1)
    return r, json.load(open(stats)) if os.path.exists(stats) else None, r.returncode == 0 and right


def cache_of(stats):
    return stats["cache"] if stats else {}


# ---- it works at all: the second process compiles nothing and loads no NVRTC ----------------------------------
env = fresh()
first = cuda(env)
made = counted(env)
check("the first compile compiles", first.returncode == 0 and made > 0 and "compiled in" in first.stdout, first.stdout + first.stderr)
loads = counted(env, "load")
second = cuda(env)
check("the second one compiles nothing", second.returncode == 0 and counted(env) == made and "from the cache" in second.stdout, second.stdout + second.stderr)
check("and does not load NVRTC", counted(env, "load") == loads, open(env["FAKE_COUNT"]).read())
check("readable sources lie beside cubins", all(open(p[:-5] + "cu").read().startswith("//") for p in entries(env, "cubin")) and entries(env, "cubin"))
r = spc("cache", "size", "--json", env=env)
check("spc cache counts them", json.loads(r.stdout)["entries"] == len(entries(env)), r.stdout)
check("spc cache path", spc("cache", "path", env=env).stdout.strip() == env["SPC_CACHE_DIR"])
check("spc cache ls names every entry", len(json.loads(spc("cache", "ls", "--json", env=env).stdout)) >= len(entries(env)))
check("doctor says where", env["SPC_CACHE_DIR"] in spc("doctor", env=env).stdout)
write(os.path.join(env["SPC_CACHE_DIR"], "notes.txt"), "mine")
r = spc("cache", "ls", env=env)
check("spc cache ls is for people", r.stdout.splitlines()[0].split() == ["size", "last", "used", "file"] and "now" in r.stdout and re.search(r"KiB .*\.cubin  mm, stage C: ", r.stdout), r.stdout)
r = spc("cache", "verify", env=env)
check("spc cache verify finds them whole", r.returncode == 0 and "all whole" in r.stdout, r.stdout)
victim = sorted(glob.glob(os.path.join(env["SPC_CACHE_DIR"], "*.cubin")))[0]
with open(victim, "r+b") as f:
    f.write(b"X")
r = spc("cache", "verify", env=env)
check("and one that is not", r.returncode == 3 and os.path.basename(victim) + ": it is damaged" in r.stdout and "1 of" in r.stdout, r.stdout)
check("for machines too", json.loads(spc("cache", "verify", "--json", env=env).stdout)["wrong"] == 1)
r = spc("cache", "prune", env=env)
check("spc cache prune removes it", r.returncode == 0 and "1 damaged and 0 old" in r.stdout and not os.path.exists(victim) and "all whole" in spc("cache", "verify", env=env).stdout, r.stdout)
check("spc cache prune wants a size", spc("cache", "prune", "many", env=env).returncode == 2 and spc("cache", "verify", "now", env=env).returncode == 2)
r = spc("cache", "clear", env=env)
check("clear removes entries and nobody's file", os.listdir(env["SPC_CACHE_DIR"]) == ["notes.txt"] and r.returncode == 0, r.stdout + str(os.listdir(env["SPC_CACHE_DIR"])))
check("after clear it compiles again", cuda(env).returncode == 0 and counted(env) == 2 * made)

# ---- versions and options are part of the key -------------------------------------------------------------------
env = fresh()
cuda(env)
made = counted(env)
cuda(env, "--lineinfo")
check("--lineinfo is another key", counted(env) == 2 * made)
spc("compile", MM, "--target=sm_80", env=env)
more = counted(env)
check("another architecture is another key", more > 2 * made)
touched = path("libfake_other.so")
shutil.copy(nvrtc, touched)
check("the same NVRTC elsewhere is the same key", cuda(dict(env, SPC_NVRTC_LIB=touched)).returncode == 0 and counted(env) == more)
cuda(dict(env, SPC_NVRTC_LIB=touched, FAKE_MINOR="1"))
check("a library that did not change is not asked for its version", counted(env) == more)
shutil.copy(nvrtc, touched + ".new")
os.rename(touched + ".new", touched)
cuda(dict(env, SPC_NVRTC_LIB=touched, FAKE_MINOR="1"))
check("another version is another key", counted(env) == more + made, counted(env))
with open(touched, "ab") as f:
    f.write(b"\0" * 512)
cuda(dict(env, SPC_NVRTC_LIB=touched))
check("another patch release is another key", counted(env) == more + 2 * made, counted(env))
if has_cpu:
    env = fresh()
    cpu(env)
    r, stats, right = cpu(env)
    check("the CPU's code comes from the cache", right and stats["compilations"] == 0 and cache_of(stats)["hits"] > 0, r.stderr + str(stats))
    for mcpu in ("haswell", "x86-64-v2"):
        r = spc("compile", TWO, "--target=cpu", "--mcpu=" + mcpu, env=env)
        check("--mcpu=%s is another key" % mcpu, "compiled in" in r.stdout, r.stdout + r.stderr)
else:
    skip("the CPU's code in the cache: LLVM is not in this build")

# ---- switches -----------------------------------------------------------------------------------------------------
env = fresh(SPC_CACHE="off")
check("SPC_CACHE=off writes nothing", cuda(env).returncode == 0 and not os.path.exists(env["SPC_CACHE_DIR"]) and "SPC_CACHE=off" in spc("doctor", env=env).stdout)
env = fresh()
cuda(env)
made = counted(env)
for p in entries(env):
    os.utime(p, (1e9, 1e9))
before = sorted((p, os.stat(p).st_mtime_ns) for p in entries(env))
r = cuda(dict(env, SPC_CACHE="readonly"))
check("SPC_CACHE=readonly finds", r.returncode == 0 and counted(env) == made)
spc("compile", MM, "--target=sm_80", env=dict(env, SPC_CACHE="readonly"))
check("and changes nothing, not even a time", before == sorted((p, os.stat(p).st_mtime_ns) for p in entries(env)))
cuda(env)
check("a hit renews an entry's time", all(os.stat(p).st_mtime > 1.5e9 for p in entries(env)))
for missing in ({}, {"HOME": ""}):
    r = subprocess.run([SPC, "compile", MM, "--target=sm_90a"], capture_output=True, text=True, env=dict({"PATH": os.environ["PATH"], "SPC_NVRTC_LIB": nvrtc}, **missing))
    check("without HOME it runs, uncached", r.returncode == 0 and "compiled in" in r.stdout, r.stdout + r.stderr)
env = fresh(SPC_CACHE_SIZE="20K")
for target in ("sm_80", "sm_90a", "sm_90", "sm_89"):
    spc("compile", MM, "--target=" + target, env=env)
size = json.loads(spc("cache", "size", "--json", env=env).stdout)
check("the bound holds", 0 < size["bytes"] <= size["limit"] == 20 << 10, size)
check("a size that is none is said", "SPC_CACHE_SIZE" in spc("doctor", env=fresh(SPC_CACHE_SIZE="big")).stdout)

# ---- many processes at once on an empty cache ------------------------------------------------------------------
def at_once(count, arguments, env):
    """Starts count processes that wait for one line, lets them go together; their exits and outputs."""
    gate = ["sh", "-c", 'read line; exec "$0" "$@"', SPC, *arguments]
    started = [subprocess.Popen([a.replace("%d", str(i)) for a in gate], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                cwd=ROOT, env=dict(os.environ, NO_COLOR="1", **env)) for i in range(count)]
    for p in started:
        p.stdin.write("go\n")
        p.stdin.flush()
    return [(p, *p.communicate()) for p in started]


env = fresh(FAKE_MS="30")
done = at_once(12, ["compile", MM, "--target=sm_90a", "--emit=cubin", "-o", path("at%d.cubin")], env)
check("12 processes at once: all succeed", all(p.returncode == 0 for p, _, _ in done), [e for _, _, e in done])
check("with the same cubin", len({hashlib.sha256(open(path("at%d.cubin" % i), "rb").read()).digest() for i in range(12)}) == 1)
compiles = counted(env)
check("and the cache is whole after them", cuda(env).returncode == 0 and counted(env) == compiles and not parts(env), parts(env))
if has_cpu:
    env = fresh()
    done = at_once(8, [*RUN, "--backend=cpu", "--out", "y=" + path("cpu%d.npy")], env)
    check("8 processes at once on the CPU", all(p.returncode == 0 for p, _, _ in done) and all(np.load(path("cpu%d.npy" % i))[3] == 7 for i in range(8)), [e for _, _, e in done])
    r, stats, right = cpu(env)
    check("and its cache is whole after them", right and stats["compilations"] == 0 and not parts(env), str(stats))

# ---- disks that are full or read-only --------------------------------------------------------------------------
for left in (0, 1, 100, 5000, 9100, 9300, 20000):
    env = fresh(LD_PRELOAD=preload, SHIM_DISK=str(left))
    r = cuda(env)
    check("a disk with %d bytes left: it compiles" % left, r.returncode == 0 and "compiled in" in r.stdout, r.stdout + r.stderr)
    check("a disk with %d bytes left: nothing half is left" % left, not parts(env), parts(env))
    made = counted(env)
    after = dict(env, LD_PRELOAD="")
    check("a disk with %d bytes left: what is there is whole" % left, cuda(after).returncode == 0 and cuda(after).returncode == 0 and counted(after) <= 2 * made)
if has_cpu:
    r, stats, right = cpu(fresh(LD_PRELOAD=preload, SHIM_DISK="0"))
    check("a full disk is said in --stats", right and cache_of(stats)["state"] == "readonly" and "space" in cache_of(stats)["why"], str(stats) + r.stderr)
    r, stats, right = cpu(fresh(LD_PRELOAD=preload, SHIM_DISK="10", SHIM_ERRNO=str(errno.EDQUOT)))
    check("a quota too", right and "uota" in cache_of(stats)["why"], str(stats) + r.stderr)
check("a full disk is said by doctor", "space" in spc("doctor", env=fresh(LD_PRELOAD=preload, SHIM_DISK="0")).stdout)
env = fresh()
r = spc("compile", MM, "--target=sm_90a", env=env, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000)))
check("a limit on file sizes does not kill it", r.returncode == 0 and not parts(env), "exit %d %s" % (r.returncode, r.stderr))
for place in (path("mm.spx"), path("mm.spx") + "/cache", "/proc/self/no/such", "/dev/full/cache", "/" + "x" * 5000):
    env = fresh(SPC_CACHE_DIR=place)
    r = cuda(env)
    check("a cache at %.40s: it compiles" % place, r.returncode == 0 and "compiled in" in r.stdout, r.stdout + r.stderr)
env = fresh()
cuda(env)
made = counted(env)
os.chmod(env["SPC_CACHE_DIR"], 0o555)
nobody = {"preexec_fn": lambda: os.setuid(65534)} if os.geteuid() == 0 else {}
os.chmod(TMP, 0o755)
for p in glob.glob(os.path.join(env["SPC_CACHE_DIR"], "*")):
    os.chmod(p, 0o644)
os.chmod(env["FAKE_COUNT"], 0o666)
try:
    probe = subprocess.run([SPC, "--version"], capture_output=True, **nobody)
except PermissionError:  # a folder above it is closed to others
    probe = None
if probe and probe.returncode == 0:
    r = cuda(env, **nobody)
    check("a read-only folder is read", r.returncode == 0 and counted(env) == made, r.stdout + r.stderr)
    r = spc("compile", MM, "--target=sm_80", env=env, **nobody)
    check("and what cannot be kept is compiled", r.returncode == 0 and counted(env) > made, r.stdout + r.stderr)
    check("doctor says that it is only read", "only read" in spc("doctor", env=env, **nobody).stdout, spc("doctor", env=env, **nobody).stdout)
else:
    skip("a read-only folder: another user cannot run %s" % SPC)
os.chmod(env["SPC_CACHE_DIR"], 0o777)
check("a folder that everybody may write to is not used", "compiled in" in cuda(env).stdout and "trusted" in spc("doctor", env=env).stdout)

# ---- kill -9 ------------------------------------------------------------------------------------------------------
for left in (0, 7, 3000, 9050, 9400):
    env = fresh(LD_PRELOAD=preload, SHIM_DISK=str(left), SHIM_KILL="1")
    r = cuda(env)
    check("killed after %d bytes" % left, r.returncode == -signal.SIGKILL, r.returncode)
    alive = dict(env, LD_PRELOAD="")
    r = cuda(alive, "--emit=cubin", "-o", path("killed.cubin"))
    check("the next process compiles", r.returncode == 0 and open(path("killed.cubin"), "rb").read(9000) == b"c" * 9000, r.stderr)
    made = counted(alive)
    check("and the one after finds it", cuda(alive).returncode == 0 and counted(alive) == made)
    for p in parts(alive):
        os.utime(p, (time.time() - 7200,) * 2)
    spc("compile", MM, "--target=sm_80", env=alive)
    check("what the dead one left goes after a while", not parts(alive), parts(alive))
env, chance = fresh(FAKE_MS="3"), random.Random(5)
for i in range(25):
    p = subprocess.Popen([SPC, "compile", MM, "--target=" + chance.choice(("sm_80", "sm_90a", "sm_90"))], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                         cwd=ROOT, env=dict(os.environ, **env))
    time.sleep(chance.random() * 0.06)
    p.kill()
    p.wait()
for target in ("sm_80", "sm_90a", "sm_90"):
    r = spc("compile", MM, "--target=" + target, env=env)
    check("after 25 kills, %s" % target, r.returncode == 0, r.stderr)
made = counted(env)
check("after 25 kills every entry is whole", all(spc("compile", MM, "--target=" + t, env=env).returncode == 0 for t in ("sm_80", "sm_90a", "sm_90")) and counted(env) == made)

# ---- damage: every region of an entry, and every kind of file in its place --------------------------------------
def regions(size, note):
    data = size - TRAILER - note
    return {"the first byte": 0, "the data": data // 2, "the last byte of the data": data - 1, "the magic": size - 96, "the data's length": size - 80,
            "the note's length": size - 72, "the key": size - 64, "the digest": size - 1, **({"the note": data + note // 2} if note else {})}


def hurt(p, at):
    with open(p, "r+b") as f:
        f.seek(at)
        byte = f.read(1)[0]
        f.seek(at)
        f.write(bytes([byte ^ 1]))


def note_of(p):
    return struct.unpack("<Q", open(p, "rb").read()[-72:-64])[0]


env = fresh()
cuda(env)
victim = entries(env, "cubin")[0]
for name, at in regions(os.path.getsize(victim), note_of(victim)).items():
    made = counted(env)
    hurt(victim, at)
    r = cuda(env)
    check("damage in %s: compiled again, once" % name, r.returncode == 0 and counted(env) == made + 1, "%d %d %s" % (made, counted(env), r.stderr))
    check("damage in %s: replaced" % name, cuda(env).returncode == 0 and counted(env) == made + 1)
whole = open(victim, "rb").read()
other = [p for p in entries(env) if p != victim][0]


def folder_there():
    os.remove(victim)
    os.mkdir(victim)


for name, spoil in {"empty": lambda: write(victim, b""), "torn": lambda: write(victim, whole[:len(whole) // 2]), "without its trailer": lambda: write(victim, whole[:-TRAILER]),
                    "longer": lambda: write(victim, whole + b"x"), "another entry": lambda: shutil.copy(other, victim), "text": lambda: write(victim, "hello\n" * 100),
                    "a link to nowhere": lambda: (os.remove(victim), os.symlink("/nowhere", victim)), "a pipe": lambda: (os.remove(victim), os.mkfifo(victim)),
                    "a folder": folder_there}.items():
    made = counted(env)
    spoil()
    r = cuda(env, timeout=60)
    check("an entry that is %s: compiled again" % name, r.returncode == 0 and counted(env) == made + 1, "%d %d %s" % (made, counted(env), r.stderr))
    if name == "a folder":
        os.rmdir(victim)
        cuda(env)
        made = counted(env) - 1
    check("an entry that is %s: replaced" % name, cuda(env).returncode == 0 and counted(env) == made + 1, counted(env))
memo = entries(env, "memo")[0]
for at in (0, os.path.getsize(memo) // 3, os.path.getsize(memo) - 1):
    made = counted(env)
    hurt(memo, at)
    check("a damaged memo costs a look at the library", cuda(env).returncode == 0 and counted(env) == made)
if has_cpu:
    env = fresh()
    cpu(env)
    victim = entries(env, "o")[0]
    for name, at in regions(os.path.getsize(victim), 0).items():
        hurt(victim, at)
        r, stats, right = cpu(env)
        check("damage in %s of machine code: right all the same, and counted" % name, right and stats["compilations"] == 1 and cache_of(stats)["damaged"] == 1, str(stats) + r.stderr)
    r, stats, right = cpu(env)
    check("after all that the cache is whole", right and stats["compilations"] == 0 and cache_of(stats)["damaged"] == 0, str(stats))


# ---- the gate judges what comes from the cache as it judged it the first time -----------------------------------
chosen = re.search(r"stage C: (\w+)", spc("compile", MM, "--target=sm_90a", "--emit=cuda").stdout).group(1)
for spill, words in ((chosen, "trying "), ("extern", "no other candidate is left")):
    env = fresh(FAKE_SPILL=spill)
    first = cuda(env)
    made = counted(env)
    second = cuda(env)
    gate = spc("explain", MM, "--target=sm_90a", env=env)
    check("explain says what the gate said: %s" % words, "as compiled" in gate.stdout and ("%s rejected: registers were spilled" % chosen in gate.stdout or "16 bytes spilled" in gate.stdout), gate.stdout)
    check("a rejected variant is rejected again, from the cache: %s" % words, made > 1 and counted(env) == made and first.stderr == second.stderr and
          "R0601" in first.stderr and words in first.stderr, "%d %d\n%s\n%s" % (made, counted(env), first.stderr, second.stderr))

# ---- memory that runs out while the cache is read and written -------------------------------------------------
env = fresh()
cuda(env)
worst = []
for kind, start in () if SANITIZED else (("hits", env), ("misses", None)):
    for n in [*range(1, 40), *range(40, 400, 9), *range(400, 4000, 301)]:
        here = dict(start or fresh(), LD_PRELOAD=preload, SHIM_MALLOC=str(n))
        r = cuda(here)
        after = dict(here, LD_PRELOAD="")
        if r.returncode not in (0, 1, 4, 5, 70):
            worst.append("%s, allocation %d: exit %d %s" % (kind, n, r.returncode, r.stderr[-200:]))
        elif not start and n % 7 == 0 and (cuda(after).returncode or cuda(after).returncode):
            worst.append("%s, allocation %d: the cache is spoiled" % (kind, n))
if SANITIZED:
    skip("allocations that fail: the sanitizer's own allocator is not replaced")
else:
    check("no allocation that fails does harm", not worst, "\n".join(worst[:20]))
made = counted(env)
check("and afterwards the cache is whole", cuda(env).returncode == 0 and counted(env) == made and not parts(env))
close()
