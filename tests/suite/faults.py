"""Diagnostics that only broken machinery gives: dumps edited to ask for what cannot be, kernels that spill, a CUDA
driver that fails at one call.  Every one is a message and a documented exit code, never a crash."""
import re, shutil
import numpy as np
from harness_data import *

MM = write("mm.spx", "spx 1; dim M = 256; dim K = 256; dim N = 256; kernel mm { in A: bf16[M,K]; in B: bf16[K,N]; out C[i,j] = relu(sum[k] A[i,k]*B[k,j]); }\n")
FFN = write("ffn.spx", "spx 1; dim T: dyn; dim D: dyn; dim F: dyn; dim O: dyn; kernel k { in x: f32[T,D]; in W1: f32[D,F]; in W2: f32[F,O]; "
            "let h[t,f] = relu(sum[d] x[t,d]*W1[d,f]) ~ zeros(dynamic); out y[t,o] = sum[f] h[t,f]*W2[f,o]; } schedule k { compact h axis=f gran=4x1; }\n")


def gives(code, exit_codes, r, *words):
    check("%s: %s" % (code, " ".join(words)), r.returncode in exit_codes and code in r.stderr + r.stdout and all(w in r.stderr + r.stdout for w in words),
          "exit %d\n%s" % (r.returncode, r.stderr + r.stdout[-600:]))


# ---- E0510: a directive of an edited dump names what is not there. -------------------------------------
dump = spc("opt", FFN, "--target=cpu", "--stop-after=canon").stdout
for old, new, word in (("compact h axis=f", "compact q axis=f", "`q`"), ("compact h axis=f gran=4x1", "tile y q=4", "`q`"), ("compact h axis=f", "compact h axis=q", "`q`")):
    check("the dump holds `%s`" % old, old in dump, dump[:600])
    gives("E0510", (1,), spc("compile", write("edited.ir", dump.replace(old, new)), "--target=cpu", "--emit=tile"), word)

# ---- E0606: a stage of an edited dump names a kernel that cannot run it. -----------------------------------
dump = spc("opt", MM, "--target=sm_90a", "--stop-after=stage").stdout
def with_row(row, target="sm_90a"):
    return write("row.ir", re.sub(r"\n    row \w+;(?=\n    [^}]*computes)", "\n    row %s;" % row, dump).replace("target sm_90a", "target " + target))
gives("E0606", (1,), spc("compile", with_row("gemm_wgmma_128x256x64", "sm_80"), "--target=sm_80", "--emit=cuda"), "sm_80")
gives("E0606", (1,), spc("compile", with_row("gemm_fma_64x64x16"), "--target=sm_90a", "--emit=cuda"), "cannot run it")
gives("E0606", (1,), spc("compile", with_row("guard"), "--target=sm_90a", "--emit=cuda"), "guard")

# ---- E0912: a function of an edited dump is named like one that emitted code calls. --------------------------------------------------
if found("LLVM"):
    dump = spc("opt", FFN, "--target=cpu", "--stop-after=vectorise").stdout
    sizes = ["-D", "T=5", "-D", "D=3", "-D", "F=8", "-D", "O=2", "--bind", "x=rand:0", "--bind", "W1=rand:1", "--bind", "W2=rand:2"]
    gives("E0912", (1,), spc("run", write("symbol.ir", dump.replace("k.detect.h", "exp")), "--backend=cpu", *sizes), "`exp`", "emitted code calls", "`k.exp`")
    r = spc("run", write("symbol.ir", dump.replace("k.detect.h", "k.exp")), "--backend=cpu", *sizes)
    check("the name that E0912 proposes runs", r.returncode == 0, r.stderr)
else:
    skip("E0912: LLVM is not in this build")

# ---- R0601: a variant that spills is left for the next one. -----------------------------------------------------
if found("NVRTC"):
    shutil.rmtree(path("cuda"), ignore_errors=True)
    os.mkdir(path("cuda"))
    spc("compile", MM, "--target=sm_90a", "--emit=cuda", "-o", path("cuda") + "/")
    emitted = sorted(os.listdir(path("cuda")))
    name = next((n for n in emitted if n.endswith(".cuda") or n.endswith(".cu")), "")
    text = open(os.path.join(path("cuda"), name)).read() if name else ""
    entry = re.search(r"__global__[^(]*?\b(\w+)\(spc_args", text) or re.search(r"\b(\w+)\((?:const )?__grid_constant__ ", text)
    os.mkdir(path("override"))
    for label in {os.path.splitext(n)[0] for n in emitted} | ({entry.group(1)} if entry else set()):
        body = text.rstrip()
        last = body.rfind("{")
        spoiled = body[:last + 1] + " volatile int heap[900]; for (int i = 0; i < 900; i++) heap[(i * 7 + (int)threadIdx.x) % 900] = i; " + body[last + 1:]
        for ending in (".cu", ""):
            with open(os.path.join(path("override"), label + ending), "w") as f:
                f.write(spoiled)
    r = spc("compile", MM, "--target=sm_90a", "--emit=cubin", "-o", path("cubins") + "/", "--override-dir", path("override"))
    gives("R0601", (0,), r, "stack frame")
else:
    skip("R0601: NVRTC is not here")

# ---- E0703: a driver that fails at one call. -----------------------------------------------------------------------
FAKE = """#include <stddef.h>
#include <stdlib.h>
#include <string.h>
static int fails(const char *name) { const char *at = getenv("FAKE_FAILS"); return at && !strcmp(at, name) ? 719 : 0; }
"""
SPECIAL = {
    "cuDriverGetVersion": "*(int *)a = 13000;", "cuDeviceGetCount": "*(int *)a = 1;", "cuDeviceGet": "*(int *)a = 0;",
    "cuDeviceGetName": 'strcpy(a, "none");', "cuDeviceGetAttribute": "long k = (long)b; *(int *)a = k == 75 ? 9 : k == 76 ? 0 : k == 16 ? 132 : 232448;",
    "cuMemAlloc_v2": "*(void **)a = calloc(1, (size_t)b + 64);", "cuMemFree_v2": "free(a);",
    "cuMemcpyHtoD_v2": "memcpy(a, b, (size_t)c);", "cuMemcpyDtoH_v2": "memcpy(a, b, (size_t)c);",
    "cuMemcpyHtoDAsync_v2": "memcpy(a, b, (size_t)c);", "cuMemcpyDtoHAsync_v2": "memcpy(a, b, (size_t)c);",
    "cuGetErrorString": '*(const char **)b = "the fake driver fails";', "cuGetErrorName": '*(const char **)b = "CUDA_ERROR_FAKE";',
    "cuEventElapsedTime": "*(float *)a = 0;",
}
HANDLES = ("cuDevicePrimaryCtxRetain", "cuModuleLoadData", "cuModuleGetFunction", "cuStreamCreate", "cuEventCreate")
names = re.findall(r'F\(\w+, "(\w+)"', open(os.path.join(ROOT, "runtime/cuda_driver.h")).read())
source = FAKE
for n in names:
    body = SPECIAL.get(n, "*(void **)a = (void *)8;" if n in HANDLES else "")
    source += "int %s(void *a, void *b, void *c) { (void)a; (void)b; (void)c; int f = fails(\"%s\"); if (f) return f; %s return 0; }\n" % (n, n, body)
compiler = next((c for c in ("cc", "gcc", "clang") if shutil.which(c)), None)
built = compiler and subprocess.run([compiler, "-shared", "-fPIC", "-w", "-o", path("libfake.so"), write("fake.c", source)]).returncode == 0
if built and found("NVRTC"):
    np.save(path("x.npy"), np.ones(40, np.float32))
    copy = write("copy.spx", "spx 1; dim N: dyn; kernel k { in x: f32[N]; out y[i] = 2*x[i]; }\n")
    command = ["run", copy, "--backend=cuda", "--bind", "x=" + path("x.npy"), "--out", "y=" + path("y.npy")]
    r = spc(*command, env={"SPC_CUDA_LIB": path("libfake.so")})
    check("the fake driver is enough to run", r.returncode == 0, r.stderr)
    for n in ("cuModuleLoadData", "cuModuleGetFunction", "cuLaunchKernel", "cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2", "cuMemAlloc_v2"):
        r = spc(*command, env={"SPC_CUDA_LIB": path("libfake.so"), "FAKE_FAILS": n})
        gives("E0703", (1, 4, 5, 70), r, "the fake driver fails") if n != "cuMemAlloc_v2" else check("a failing %s is a message" % n, 0 < r.returncode < 100 and "error[" in r.stderr, "exit %d %s" % (r.returncode, r.stderr))
    for n in names:
        r = spc(*command, env={"SPC_CUDA_LIB": path("libfake.so"), "FAKE_FAILS": n})
        check("a driver that fails at %s does no harm" % n, 0 <= r.returncode < 100 and (r.returncode == 0 or "error[" in r.stderr), "exit %d %s" % (r.returncode, r.stderr))
else:
    skip("E0703: no C compiler for a fake driver, or no NVRTC")
close()
