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

# ---- R0602, E0607: a kernel that somebody edited is what runs, and a fault in it is their error. --------------------
if found("NVRTC"):
    edited = path("edited")
    r = spc("compile", MM, "--target=sm_90a", "--emit=cuda", "-o", edited + "/")
    name = os.path.join(edited, "mm.C.cuda")
    check("--emit=cuda writes the files that an override folder takes", sorted(os.listdir(edited)) == ["mm.C-unaligned.cuda", "mm.C.cuda"], r.stderr + str(os.listdir(edited)))
    text = open(name).read()
    last = text.rstrip().rfind("{") + 1
    def edit(new):
        write(name, new)
        return spc("compile", MM, "--target=sm_90a", "--emit=cubin", "-o", path("edited.cubin"), "--override-dir", edited)
    r = edit(text)
    check("an emitted text that was not edited is no override", r.returncode == 0 and "R0602" not in r.stderr, r.stderr)
    plain = open(path("edited.cubin"), "rb").read()
    gives("R0602", (0,), edit(text[:last] + " if (args.size[0] == 77) __trap();" + text[last:]), "mm.C.cuda")
    check("the edited text is what is compiled", open(path("edited.cubin"), "rb").read() != plain)
    spoiled = text[:last] + " volatile int heap[900]; for (int i = 0; i < 900; i++) heap[(i * 7 + (int)threadIdx.x) % 900] = i; " + text[last:]
    r = edit(spoiled)
    gives("R0602", (0,), r, "stack frame", "all the same")
    check("the gate leaves an edited kernel where it is", "R0601" not in r.stderr and "trying" not in r.stderr, r.stderr)
    gives("E0607", (1,), edit(text[:last] + " int x = ;" + text[last:]), "does not compile", "mm.C.cuda(")
    gives("E0607", (1,), edit(text.replace("mm_C(", "mm_D(")), "`mm_C`")
    gives("E0607", (1,), edit(re.sub(r"stage C: \w+", "stage C: gemm_wgmma_128x128x64", text)), "emit it again")
    gives("E0607", (1,), edit(b"\0" + text.encode()), "no text")
    os.rename(name, os.path.join(edited, "mm.D.cuda"))
    os.remove(os.path.join(edited, "mm.C-unaligned.cuda"))
    gives("R0602", (0,), spc("compile", MM, "--target=sm_90a", env={"SPC_OVERRIDE_DIR": edited}), "nothing for kernel `mm`", "mm.C.cuda")
    write(os.path.join(edited, "mm.C.cu"), text + "// more\n")
    gives("R0602", (0,), spc("compile", MM, "--target=sm_90a", env={"SPC_OVERRIDE_DIR": edited}), "mm.C.cu`")
    gives("E0607", (1,), spc("compile", MM, "--target=sm_90a", "--override-dir", path("nowhere")), "no folder")
else:
    skip("R0602, E0607: NVRTC is not here")

# ---- E0904: --emit=sass, with and without a disassembler. ----------------------------------------------------------
if found("NVRTC"):
    os.mkdir(path("bin"))
    tool = {"PATH": path("bin") + ":/usr/bin:/bin", "CUDA_HOME": ""}
    real = any(os.access("/usr/local/cuda/bin/" + n, os.X_OK) for n in ("nvdisasm", "cuobjdump"))
    if not real:
        gives("E0904", (4,), spc("compile", MM, "--target=sm_90a", "--emit=sass", env=tool), "nvdisasm")
    for name, flag in (("cuobjdump", "-sass"), ("nvdisasm", "-c")):
        os.chmod(write("bin/" + name, '#!/bin/sh\n[ "$1" = %s ] && head -c 4 "$2" | grep -q ELF && echo "HGMMA by %s"\n' % (flag, name)), 0o755)
        if not real or name == "nvdisasm":
            r = spc("compile", MM, "--target=sm_90a", "--emit=sass", env=tool)
            check("--emit=sass is what %s prints" % name, r.returncode == 0 and r.stdout == "HGMMA by %s\n" % name, r.stdout + r.stderr)
    write("bin/nvdisasm", "#!/bin/sh\nexit 3\n")
    gives("E0904", (4,), spc("compile", MM, "--target=sm_90a", "--emit=sass", env=tool), "it failed")
    layers = write("layers.spx", open(FFN).read().split("schedule")[0])
    spc("compile", layers, "--target=sm_90a", "--emit=ptx,cubin,cuda", "-o", path("three") + "/")
    kinds = {e: sum(n.endswith("." + e) for n in os.listdir(path("three"))) for e in ("ptx", "cubin", "cuda")}
    check("several kinds into a folder: one file a launch and kind", kinds["ptx"] == kinds["cubin"] == kinds["cuda"] > 1, kinds)
    r = spc("compile", layers, "--target=sm_90a", "--emit=cubin", "-o", path("one.cubin"))
    check("several cubins do not go into one file", r.returncode == 2 and "folder" in r.stderr and not os.path.exists(path("one.cubin")), r.stderr)
    r = spc("compile", layers, "--target=sm_90a", "--emit=ptx")
    check("several texts go to stdout one after the other", r.returncode == 0 and r.stdout.count(".entry") == kinds["ptx"], r.stderr)
else:
    skip("E0904: NVRTC is not here")

# ---- E0703: a driver that fails at one call. -----------------------------------------------------------------------
names = re.findall(r'F\(\w+, "(\w+)"', open(os.path.join(ROOT, "runtime/cuda_driver.h")).read())
compiler = next((c for c in ("cc", "gcc", "clang") if shutil.which(c)), None)
built = compiler and subprocess.run([compiler, "-std=gnu11", "-shared", "-fPIC", "-w", "-I", ROOT, "-I", os.path.join(ROOT, "include"), "-o",
                                     path("libfake.so"), os.path.join(ROOT, "tests/suite/fake_driver.c")]).returncode == 0
if built and found("NVRTC"):
    np.save(path("x.npy"), np.ones(40, np.float32))
    copy = write("copy.spx", "spx 1; dim N: dyn; kernel k { in x: f32[N]; out y[i] = 2*x[i]; }\n")
    command = ["run", copy, "--backend=cuda", "--bind", "x=" + path("x.npy"), "--out", "y=" + path("y.npy")]
    r = spc(*command, env={"SPC_CUDA_LIB": path("libfake.so")})
    check("the fake driver is enough to run", r.returncode == 0, r.stderr)
    for n in ("cuModuleLoadData", "cuModuleGetFunction", "cuLaunchKernelEx", "cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2", "cuMemAlloc_v2"):
        r = spc(*command, env={"SPC_CUDA_LIB": path("libfake.so"), "FAKE_FAILS": n})
        gives("E0703", (1, 4, 5, 70), r, "the fake driver fails") if n != "cuMemAlloc_v2" else check("a failing %s is a message" % n, 0 < r.returncode < 100 and "error[" in r.stderr, "exit %d %s" % (r.returncode, r.stderr))
    for n in names:
        r = spc(*command, env={"SPC_CUDA_LIB": path("libfake.so"), "FAKE_FAILS": n})
        check("a driver that fails at %s does no harm" % n, 0 <= r.returncode < 100 and (r.returncode == 0 or "error[" in r.stderr), "exit %d %s" % (r.returncode, r.stderr))
else:
    skip("E0703: no C compiler for a fake driver, or no NVRTC")
close()
