"""What Debian has to compare with: OpenBLAS, Eigen, MLIR's sparsifier, SciPy.  A peer that is missing says why.

Every peer is asked for a function that runs a case on one set of operands; the function returns the result."""
import ctypes, glob, os, shutil, subprocess, sys
import numpy as np

here = os.path.dirname(os.path.abspath(__file__))
missing = {}  # name: what to do about it
f32 = ctypes.c_float
CORES = ("SkylakeX", "Haswell", "Zen", "Cooperlake")  # kernels of OpenBLAS that are tried: its own choice is often wrong


def ptr(array):
    return ctypes.c_void_p(array.ctypes.data)


def longs(*values):
    return [ctypes.c_long(v) for v in values]


# ---- OpenBLAS ----------------------------------------------------------------------------------------
PROBE = """
import ctypes, sys, time, numpy as np
b = ctypes.CDLL(sys.argv[1]); b.openblas_set_num_threads(1); n = 768
a = np.random.rand(n, n).astype('f'); c = np.empty_like(a); p = ctypes.c_void_p(a.ctypes.data); best = 9
for i in range(12):
    t = time.perf_counter(); b.cblas_sgemm(101, 111, 111, n, n, n, ctypes.c_float(1), p, n, p, n, ctypes.c_float(0), ctypes.c_void_p(c.ctypes.data), n)
    best = min(best, time.perf_counter() - t)
print(best)
"""


def openblas_path():
    found = [p for d in ("openblas-pthread", "") for p in glob.glob("/usr/lib/*/%s/libopenblas.so.0" % d)]
    return found[0] if found else None


def openblas_core(path):
    """The core type whose kernels are fastest here, each tried in a process of its own."""
    flags = open("/proc/cpuinfo").read()
    times = {}
    for core in CORES:
        if "avx512f" not in flags and core in ("SkylakeX", "Cooperlake") or core == "Cooperlake" and "avx512_bf16" not in flags:
            continue
        env = dict(os.environ, OPENBLAS_CORETYPE=core)
        out = [subprocess.run([sys.executable, "-c", PROBE, path], env=env, capture_output=True, text=True).stdout for _ in range(2)]
        times[core] = min(float(o or 9) for o in out)
    return min(times, key=times.get), times


class OpenBLAS:
    """sgemm of the library, with the core type that the probe found."""
    name = "OpenBLAS"

    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        self.lib.openblas_get_corename.restype = self.lib.openblas_get_config.restype = ctypes.c_char_p
        self.core = self.lib.openblas_get_corename().decode()
        self.text = "%s, kernels for %s" % (self.lib.openblas_get_config().decode().split("NO_")[0].strip(), self.core)

    def threads(self, n):
        self.lib.openblas_set_num_threads(n)

    def gemm(self, a, b, out, turned=False):
        """A function for out = a @ b, or a @ b.T; one row is a product with a vector."""
        m, k = a.shape
        n = b.shape[0] if turned else b.shape[1]
        if m == 1:
            vector = (101, 111 if turned else 112, *b.shape, f32(1), ptr(b), b.shape[1], ptr(a), 1, f32(0), ptr(out), 1)
            return lambda: (self.lib.cblas_sgemv(*vector), out)[1]
        args = (101, 111, 112 if turned else 111, m, n, k, f32(1), ptr(a), k, ptr(b), b.shape[1], f32(0), ptr(out), n)
        call = self.lib.cblas_sgemm
        return lambda: (call(*args), out)[1]


def openblas():
    path = openblas_path()
    if not path:
        missing["OpenBLAS"] = "libopenblas0-pthread is not installed"
        return None
    if "OPENBLAS_CORETYPE" not in os.environ:
        os.environ["OPENBLAS_CORETYPE"], _ = openblas_core(path)
    return OpenBLAS(path)


# ---- Eigen -------------------------------------------------------------------------------------------
class Eigen:
    name = "Eigen"

    def __init__(self, lib):
        self.lib = lib
        self.text = "3, g++ -O3 -march=native -fopenmp"

    def threads(self, n):
        self.lib.eigen_threads(n)

    def gemm(self, a, b, out):
        args = (*longs(a.shape[0], b.shape[1], a.shape[1]), ptr(a), ptr(b), ptr(out))
        return lambda: (self.lib.eigen_gemm(*args), out)[1]

    def stored(self, a):
        return (*longs(a.nnz), ptr(a.indptr), ptr(a.indices), ptr(a.data))

    def spmm(self, a, b, out):
        args = (*longs(a.shape[0], b.shape[1], a.shape[1]), *self.stored(a), ptr(b), ptr(out))
        return lambda: (self.lib.eigen_spmm(*args), out)[1]

    def spmv(self, a, x, out):
        args = (*longs(*a.shape), *self.stored(a), ptr(x), ptr(out))
        return lambda: (self.lib.eigen_spmv(*args), out)[1]

    def sparse(self, which, a, b):
        args = (which, *longs(a.shape[0], b.shape[1], a.shape[1]), *self.stored(a), *self.stored(b))
        return lambda: self.lib.eigen_sparse(*args)

    def sparse_result(self, shape):
        import scipy.sparse as sp
        p = [ctypes.c_void_p() for _ in range(3)]
        n = self.lib.eigen_result(*[ctypes.byref(x) for x in p])
        kinds = ((ctypes.c_int32, shape[0] + 1), (ctypes.c_int32, n), (f32, n))
        pos, crd, vals = [np.ctypeslib.as_array(ctypes.cast(x, ctypes.POINTER(t)), (c,)).copy() for x, (t, c) in zip(p, kinds)]
        return sp.csr_matrix((vals, crd, pos), shape)

    def fused(self, a, b, c, out):
        args = (*longs(a.size), ptr(a), ptr(b), ptr(c), ptr(out))
        return lambda: (self.lib.eigen_fused(*args), out)[1]


def eigen(folder):
    include = "/usr/include/eigen3"
    if not os.path.isdir(include) or not shutil.which("g++"):
        missing["Eigen"] = "libeigen3-dev or g++ is not installed"
        return None
    source, made = os.path.join(here, "peers_eigen.cc"), os.path.join(folder, "peers_eigen.so")
    if not os.path.exists(made) or os.path.getmtime(made) < os.path.getmtime(source):
        subprocess.run(["g++", "-O3", "-march=native", "-DNDEBUG", "-fopenmp", "-shared", "-fPIC", "-I" + include, source, "-o", made], check=True)
    lib = ctypes.CDLL(made)
    lib.eigen_result.restype = ctypes.c_long
    return Eigen(lib)


# ---- MLIR's sparsifier -------------------------------------------------------------------------------
CSR = "#CSR = #sparse_tensor.encoding<{{ map = (d0, d1) -> (d0 : dense, d1 : compressed), posWidth = 32, crdWidth = 32 }}>\n"
STORED = "%pos: tensor<?xi32>, %crd: tensor<?xi32>, %vals: tensor<?xf32>"
ASSEMBLE = "%{0} = sparse_tensor.assemble (%pos, %crd), %vals : (tensor<?xi32>, tensor<?xi32>), tensor<?xf32> to tensor<{1}xf32, #CSR>"
MODULE = CSR + """func.func @kernel({operands}, %out: memref<{out}xf32>) attributes {{llvm.emit_c_interface}} {{
    %zero = arith.constant 0.0 : f32
    linalg.fill ins(%zero : f32) outs(%out : memref<{out}xf32>)
    %Z = bufferization.to_tensor %out restrict writable : memref<{out}xf32>
    {assemble}
    %R = {body}
    bufferization.materialize_in_destination %R in restrict writable %out : (tensor<{out}xf32>, memref<{out}xf32>) -> ()
    return
}}
"""


def function(operands, assemble, body, out):
    return MODULE.format(operands=operands, assemble=assemble, body=body, out=out)


def mlir_spmm(m, n, k):
    return function("%s, %%B: tensor<%dx%dxf32>" % (STORED, k, n), ASSEMBLE.format("A", "%dx%d" % (m, k)),
                    "linalg.matmul ins(%%A, %%B : tensor<%dx%dxf32, #CSR>, tensor<%dx%dxf32>) outs(%%Z : tensor<%dx%dxf32>) -> tensor<%dx%dxf32>" % (m, k, k, n, m, n, m, n), "%dx%d" % (m, n))


def mlir_spmv(m, k):
    return function("%s, %%x: tensor<%dxf32>" % (STORED, k), ASSEMBLE.format("A", "%dx%d" % (m, k)),
                    "linalg.matvec ins(%%A, %%x : tensor<%dx%dxf32, #CSR>, tensor<%dxf32>) outs(%%Z : tensor<%dxf32>) -> tensor<%dxf32>" % (m, k, k, m, m), str(m))


# Sparse results: the arrays are returned; they are the caller's.
ARRAYS = {"positions": "memref<?xi32>", "coordinates": "memref<?xi32>", "values": "memref<?xf32>"}


def sparse_function(operands, assemble, body, out, wanted):
    take = ["%%r%d = sparse_tensor.%s %%R %s : tensor<%sxf32, #CSR> to %s" % (i, w, "" if w == "values" else "{level = 1 : index}", out, ARRAYS[w]) for i, w in enumerate(wanted)]
    kinds = ", ".join(ARRAYS[w] for w in wanted)
    return (CSR.format() + "func.func @kernel(%s) -> (%s) attributes {llvm.emit_c_interface} {\n    %s\n    %%Z = tensor.empty() : tensor<%sxf32, #CSR>\n    %%R = %s\n    %s\n    return %s : %s\n}\n"
            % (operands, kinds, assemble, out, body, "\n    ".join(take), ", ".join("%%r%d" % i for i in range(len(wanted))), kinds))


def generic(maps, kinds, ins, out, args, body):
    return ("linalg.generic { indexing_maps = [%s], iterator_types = [%s] } ins(%s) outs(%%Z : %s) {\n    ^bb0(%s, %%c: f32):\n      %s\n      linalg.yield %%r : f32\n    } -> %s"
            % (", ".join("affine_map<%s>" % m for m in maps), ", ".join('"%s"' % k for k in kinds), ins, out, ", ".join("%%%s: f32" % a for a in args), body, out))


def mlir_sddmm(m, n, k):
    S, out = "tensor<%dx%dxf32, #CSR>" % (m, n), "%dx%d" % (m, n)
    body = generic(("(i,j,k)->(i,j)", "(i,j,k)->(i,k)", "(i,j,k)->(j,k)", "(i,j,k)->(i,j)"), ("parallel", "parallel", "reduction"),
                   "%%S, %%A, %%B : %s, tensor<%dx%dxf32>, tensor<%dx%dxf32>" % (S, m, k, n, k), S, "sab",
                   "%0 = arith.mulf %a, %b : f32\n      %1 = arith.mulf %s, %0 : f32\n      %r = arith.addf %c, %1 : f32")
    return sparse_function("%s, %%A: tensor<%dx%dxf32>, %%B: tensor<%dx%dxf32>" % (STORED, m, k, n, k), ASSEMBLE.format("S", out), body, out, ["values"])


def mlir_pair(which, m, n, k):
    """which: 0 sum, 1 product of matrices, 2 product of elements."""
    left, right, out = "%dx%d" % (m, k if which == 1 else n), "%dx%d" % (k if which == 1 else m, n), "%dx%d" % (m, n)
    operands = ", ".join("%%pos%s: tensor<?xi32>, %%crd%s: tensor<?xi32>, %%vals%s: tensor<?xf32>" % (x, x, x) for x in "AB")
    assemble = "\n    ".join(ASSEMBLE.format(x, s).replace("%pos, %crd", "%pos{0}, %crd{0}".format(x)).replace("%vals", "%vals" + x) for x, s in zip("AB", (left, right)))
    types = "%%A, %%B : tensor<%sxf32, #CSR>, tensor<%sxf32, #CSR>" % (left, right)
    result = "tensor<%sxf32, #CSR>" % out
    if which == 1:
        body = "linalg.matmul ins(%s) outs(%%Z : %s) -> %s" % (types, result, result)
    else:
        body = generic(("(i,j)->(i,j)",) * 3, ("parallel", "parallel"), types, result, "ab", "%%r = arith.%s %%a, %%b : f32" % ("addf" if which == 0 else "mulf"))
    return sparse_function(operands, assemble, body, out, list(ARRAYS))


class Memref(ctypes.Structure):
    """A descriptor of rank 1 or 2, as the C interface takes it."""

    def __init__(self, array):
        r = array.ndim
        self._keep = array
        words = [array.ctypes.data, array.ctypes.data, 0, *array.shape, *[s // array.itemsize for s in array.strides]]
        self.words = (ctypes.c_int64 * len(words))(*words)
        self.at = ctypes.c_void_p(ctypes.addressof(self.words))


class MLIR:
    name = "MLIR"
    text = "19, --sparsifier vl=16, opt -O3, llc -O3 for this processor, one thread"

    def __init__(self, folder, tools):
        self.folder, self.tools, self.built = folder, tools, {}

    def threads(self, n):
        pass  # it emits sequential code

    def build(self, text):
        """Text of a module to the C interface of its function `kernel`, compiled once."""
        if text in self.built:
            return self.built[text]
        base = os.path.join(self.folder, "mlir%d" % len(self.built))
        open(base + ".mlir", "w").write(text)
        t, options = self.tools, "enable-runtime-library=false vl=16 enable-index-optimizations=true reassociate-fp-reductions=true"
        subprocess.run([t["mlir-opt"], base + ".mlir", "--sparsifier=" + options, "-o", base + ".low"], check=True)
        subprocess.run([t["mlir-translate"], "--mlir-to-llvmir", base + ".low", "-o", base + ".ll"], check=True)
        subprocess.run([t["opt"], "-O3", "-mcpu=native", base + ".ll", "-o", base + ".bc"], check=True)
        subprocess.run([t["llc"], "-O3", "-mcpu=native", "-fp-contract=fast", "-relocation-model=pic", "-filetype=obj", base + ".bc", "-o", base + ".o"], check=True)
        subprocess.run(["gcc", "-shared", base + ".o", "-o", base + ".so"], check=True)
        self.built[text] = ctypes.CDLL(base + ".so")._mlir_ciface_kernel
        return self.built[text]

    def call(self, text, arrays, out):
        kernel = self.build(text)
        refs = [Memref(a) for a in (*arrays, out)]
        args = [r.at for r in refs]
        return lambda: (kernel(*args), refs, out)[2]

    def call_sparse(self, text, arrays, kinds):
        """A function whose `arrays` gives copies of the returned arrays; the memory of a call goes with the next."""
        kernel, refs = self.build(text), [Memref(a) for a in arrays]
        results = ((ctypes.c_int64 * 5) * len(kinds))()
        args = [r.at for r in refs]
        free = ctypes.CDLL(None).free
        free.argtypes = [ctypes.c_void_p]

        def release():
            for r in results:
                free(r[0])
                r[0] = 0

        def call():
            kernel(ctypes.byref(results), *args)
            return refs
        call.before = release
        call.arrays = lambda: [np.ctypeslib.as_array(ctypes.cast(r[1], ctypes.POINTER(k)), (r[3],)).copy() for r, k in zip(results, kinds)]
        return call

    def sddmm(self, s, a, b):
        call = self.call_sparse(mlir_sddmm(a.shape[0], b.shape[0], a.shape[1]), (s.indptr, s.indices, s.data, a, b), (f32,))
        call.result = lambda shape: call.arrays()[0]
        return call

    def pair(self, which, a, b):
        import scipy.sparse as sp
        call = self.call_sparse(mlir_pair(which, a.shape[0], b.shape[1], a.shape[1]), (a.indptr, a.indices, a.data, b.indptr, b.indices, b.data),
                                (ctypes.c_int32, ctypes.c_int32, f32))

        def result(shape):
            pos, crd, vals = call.arrays()
            return sp.csr_matrix((vals[:pos[-1]], crd[:pos[-1]], pos), shape)
        call.result = result
        return call

    def spmm(self, a, b, out):
        return self.call(mlir_spmm(a.shape[0], b.shape[1], a.shape[1]), (a.indptr, a.indices, a.data, b), out)

    def spmv(self, a, x, out):
        return self.call(mlir_spmv(*a.shape), (a.indptr, a.indices, a.data, x), out)


def mlir(folder):
    tools = {n: shutil.which(n, path="/usr/lib/llvm-19/bin:" + os.environ.get("PATH", "")) for n in ("mlir-opt", "mlir-translate", "opt", "llc")}
    if not all(tools.values()) or not shutil.which("gcc"):
        missing["MLIR"] = "not installed: " + ", ".join(n for n in tools if not tools[n]) + " (mlir-19-tools, llvm-19)"
        return None
    return MLIR(folder, tools)
