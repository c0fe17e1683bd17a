"""Programs of spc on the CPU, for bench/cpu.py: NumPy and SciPy arrays in and out, timed inside the library."""
import ctypes
import numpy as np
import scipy.sparse as sp

pointer, i64 = ctypes.c_void_p, ctypes.c_int64
lib = None


def load(path):
    global lib
    lib = ctypes.CDLL(path)
    for name in ("bench_host_new", "bench_run_new"):
        getattr(lib, name).restype = pointer
    for name in ("bench_host_line", "bench_host_error", "bench_run_stages"):
        getattr(lib, name).restype = ctypes.c_char_p
    lib.bench_host_milliseconds.restype = lib.bench_host_rtol.restype = lib.bench_run_once.restype = ctypes.c_double


def rtol(dtype, length):
    """The house's bound for results of this dtype after sums of so many terms (ir/compare.h)."""
    return lib.bench_host_rtol(dtype.encode(), i64(length))


def arrays_of(value):
    """Level arrays and values, in the order that the library takes them."""
    if sp.issparse(value):
        return [value.indptr, value.indices, value.data]
    return list(value) if isinstance(value, tuple) else [value]


def matrix_of(form, arrays, shape):
    """A SciPy matrix of level arrays."""
    if form == "coo":
        return sp.coo_matrix((arrays[3], (arrays[1], arrays[2])), shape)
    if form == "dcsr":
        pos = np.zeros(shape[0] + 1, np.int32)
        pos[arrays[1] + 1] = np.diff(arrays[2])
        return sp.csr_matrix((arrays[4], arrays[3], np.cumsum(pos)), shape)
    if form.startswith("bsr"):
        block = tuple(int(x) for x in form[4:-1].split(","))
        return sp.bsr_matrix((arrays[2].reshape((-1,) + block), arrays[1], arrays[0]), shape)
    return (sp.csc_matrix if form == "csc" else sp.csr_matrix)((arrays[2], arrays[1], arrays[0]), shape)


class Program:
    """One compiled text.  Operands are NumPy arrays, SciPy matrices (csr, csc, bsr), or (shape, [arrays])."""

    def __init__(self, text, threads, **sizes):
        self.handle = pointer(lib.bench_host_new())
        names = (ctypes.c_char_p * len(sizes))(*[n.encode() for n in sizes])
        values = (i64 * len(sizes))(*sizes.values())
        self.ask(lib.bench_host_compile(self.handle, text.encode(), len(sizes), names, values, threads, None))
        self.runs = []

    def ask(self, status):
        if status:
            raise RuntimeError("status %d: %s" % (status, lib.bench_host_error(self.handle).decode()))

    def line(self):
        return lib.bench_host_line(self.handle).decode()

    def compile_ms(self):
        return lib.bench_host_milliseconds(self.handle, 0), lib.bench_host_milliseconds(self.handle, 1)

    def bind(self, operands):
        run = Run(self, operands)
        self.runs.append(run)
        return run

    def close(self):
        for run in self.runs:
            lib.bench_run_free(run.handle)
        lib.bench_host_free(self.handle)


class Run:
    def __init__(self, program, operands):
        self.program, self.operands = program, operands
        self.handle = pointer(lib.bench_run_new(program.handle))
        for name, value in operands.items():
            shape, arrays = value if isinstance(value, tuple) else (value.shape, arrays_of(value))
            data = (pointer * len(arrays))(*[a.ctypes.data for a in arrays])
            counts = (i64 * len(arrays))(*[a.size for a in arrays])
            program.ask(lib.bench_run_bind(self.handle, name.encode(), (i64 * len(shape))(*shape), len(arrays), data, counts))
        program.ask(lib.bench_run_prepare(self.handle))
        self.clock = ctypes.c_double()
        self.once = lib.bench_run_once(self.handle)  # seconds: what const operands give, made before anything is timed

    def poison(self):
        self.program.ask(lib.bench_run_poison(self.handle))

    def seconds(self):
        self.program.ask(lib.bench_run_time(self.handle, ctypes.byref(self.clock)))
        return self.clock.value

    def result(self, name, shape, dtype=np.float32, form="csr"):
        """A dense array of this shape, or a matrix when the result has level arrays: those of this format."""
        data, counts = (pointer * 8)(), (i64 * 8)()
        n = lib.bench_run_result(self.handle, name.encode(), 8, data, counts)
        if n < 1:
            raise RuntimeError("no result `%s`" % name)
        kinds = [np.int32] * (n - 1) + [dtype]
        arrays = [np.ctypeslib.as_array(ctypes.cast(data[i], ctypes.POINTER(ctypes.c_uint8)), (max(1, counts[i] * np.dtype(k).itemsize),))
                  [:counts[i] * np.dtype(k).itemsize].view(k) for i, k in enumerate(kinds)]
        return arrays[0].reshape(shape) if n == 1 else matrix_of(form, arrays, shape)

    def stages(self):
        lines = lib.bench_run_stages(self.handle).decode().splitlines()
        return [(s, k, ran == "1", float(c), float(ms)) for s, k, ran, c, ms in (line.split() for line in lines)]
