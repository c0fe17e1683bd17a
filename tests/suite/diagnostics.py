"""The diagnostics of running, files and targets (E07xx, E08xx, E09xx and their remarks), each provoked once, with the
exit code and the words that tell the user what to do."""
import numpy as np, scipy.sparse as sp
from harness_data import *

HEAD = "spx 1; dim N: dyn; dim M: dyn; "
copy = write("copy.spx", HEAD + "kernel k { in x: f32[N,M]; out y[i,j] = x[i,j]; }\n")
csr = write("csr.spx", HEAD + "kernel k { in x: f32[N,M] as csr; out y[i] = sum[j] x[i,j]; }\n")
two = write("two.spx", HEAD + "kernel k { in a: f32[N]; in b: f32[N]; out y[i] = a[i] + b[i]; }\n")
gather = write("gather.spx", HEAD + "kernel k { in x: f32[N]; in p: i32[M]; out y[i] = x[p[i]]; }\n")
ragged = write("ragged.spx", "spx 1; dim E = 3; dim R: dyn; kernel k { in off: i32[E+1]; in x: f32[R]; ragged r in off[e]..off[e+1]; out s[e] = sum[r] x[r]; }\n")
bound = write("bound.spx", "spx 1; dim N: dyn % 4 <= 8; kernel k { in x: f32[N]; out y[i] = x[i]; }\n")
window = write("window.spx", HEAD + "kernel k { in x: f32[N]; in z: f32[M]; out y[i] = z[i] + x[i+1]; }\n")
np.save(path("m.npy"), np.zeros((3, 4), np.float32))
np.save(path("v3.npy"), np.zeros(3, np.float32))
np.save(path("v4.npy"), np.zeros(4, np.float32))
np.save(path("v5.npy"), np.zeros(5, np.float32))
np.save(path("v12.npy"), np.zeros(12, np.float32))
np.save(path("far.npy"), np.array([0, 7], np.int32))
np.save(path("off.npy"), np.array([0, 2, 1, 3], np.int32))
np.save(path("ints.npy"), np.zeros((3, 4), np.int32))
b = lambda name, file: ["--bind", "%s=%s" % (name, path(file))]

CASES = [  # code, exit, arguments, words of the message
    ("E0704", 1, ["run", copy, "--bind", "x=rand:0"], ["-D"]),
    ("E0710", 1, ["run", two, *b("a", "v3.npy"), *b("b", "v4.npy")], ["`a`", "`b`", "3", "4"]),
    ("E0705", 1, ["run", gather, *b("x", "v3.npy"), *b("p", "far.npy"), "--check-inputs"], ["`p`", "7"]),
    ("E0706", 1, ["run", ragged, *b("off", "off.npy"), *b("x", "v3.npy"), "--check-inputs"], ["monotone"]),
    ("E0713", 1, ["run", bound, *b("x", "v3.npy")], ["N"]),
    ("E0713", 1, ["run", bound, *b("x", "v12.npy")], ["8"]),
    ("E0712", 1, ["run", window, *b("x", "v3.npy"), *b("z", "v3.npy")], ["x"]),
    ("E0702", 1, ["run", write("nm.spx", HEAD + "kernel k { in x: f32[N,M] as nm(2,4); out y[i] = sum[j] x[i,j]; }\n"), "-D", "N=3", "-D", "M=8", "--bind", "x=rand:0"], ["nm"]),
    ("E0701", 1, ["run", copy, "-D", "N=9000000000", "-D", "M=9000000000", "--bind", "x=rand:0"], ["large"]),
    ("E0801", 5, ["run", copy, *b("x", "absent.npy")], ["No such file"]),
    ("E0802", 5, ["run", copy, *b("x", "m.npy"), "--out", "y=" + path("no/where.npy")], ["cannot write"]),
    ("E0803", 5, ["run", copy, "--bind", "x=" + write("bad.npy", b"\x93NUMPY\x01\x00")], ["NumPy"]),
    ("E0804", 1, ["run", copy, *b("x", "ints.npy")], ["int32", "f32"]),
    ("R0801", 0, ["run", csr, *b("x", "m.npy")], ["packed"]),
    ("E0709", 3, ["check", write("u.spx", HEAD + "kernel k { in x: f32[N]; out y[i] = 2*x[i]; }\ntest k { x = [1,2]; expect y ~= [2,5]; }\n")], ["worst"]),
    ("E0610", 1, ["explain", copy, "--profile", write("profile", "speed_of_light = 3\n")], ["speed_of_light"]),
]
for code, exit_code, arguments, words in CASES:
    r = spc(*arguments)
    check("%s: spc %s" % (code, " ".join(arguments)), r.returncode == exit_code and code in r.stderr and all(w in r.stderr for w in words),
          "exit %d\n%s" % (r.returncode, r.stderr))
    r = spc("explain", code)
    check("explain " + code, r.returncode == 0 and len(r.stdout) > 60, r.stdout + r.stderr)

A = sp.random(4, 5, 0.5, format="csr", dtype=np.float32, random_state=0)
A.indices[:2] = A.indices[1::-1] + 1
bad = A.copy()
bad.indices = bad.indices[::-1].copy()
sp.save_npz(path("A.npz"), bad)
r = spc("run", csr, *b("x", "A.npz"), "--check-inputs")
check("unsorted rows of a file are sorted when they are read", r.returncode in (0, 5), r.stderr)

# Absent libraries: the same message everywhere, the documented exit code.
none = {"SPC_CUDA_LIB": "/nonexistent/libcuda.so", "SPC_NVRTC_LIB": "/nonexistent/libnvrtc.so"}
r = spc("run", copy, *b("x", "m.npy"), "--backend=cuda", env=none)
check("E0901: no GPU is exit 4 and says what was looked for", r.returncode == 4 and "E0901" in r.stderr, "exit %d %s" % (r.returncode, r.stderr))
r = spc("run", copy, *b("x", "m.npy"), "--backend=cuda", "--fallback=interp", env=none)
check("R0901: --fallback runs elsewhere and says so", r.returncode == 0 and "R0901" in r.stderr, "exit %d %s" % (r.returncode, r.stderr))
r = spc("compile", copy, "--target=sm_90a", "--emit=cubin", "-o", path("c/"), env=none)
check("E0903: no NVRTC is exit 4", r.returncode == 4 and "E0903" in r.stderr, "exit %d %s" % (r.returncode, r.stderr))
r = spc("compile", copy, "--target=sm_90a", env=none)
check("without NVRTC the CUDA text is still made", r.returncode == 0 and "NVRTC is not here" in r.stdout, r.stdout + r.stderr)
if found("LLVM"):
    r = spc("compile", copy, "--target=cpu", "--mcpu=pentium9", "--emit=asm")
    check("E0911: an unknown processor", r.returncode in (1, 2) and "E0911" in r.stderr, "exit %d %s" % (r.returncode, r.stderr))
else:
    r = spc("run", copy, *b("x", "m.npy"), "--backend=cpu")
    check("E0902: no LLVM is exit 4", r.returncode == 4 and "E0902" in r.stderr, r.stderr)
close()
