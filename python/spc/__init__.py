"""spc: tensor expressions whose zeros are only known at run time, compiled into kernels made for them.

    import numpy as np, spc
    ffn = spc.compile("examples/ffn.spx", D=256, F=1024)
    y = ffn(x=spc.bf16(x), W1=spc.bf16(W1), W2=spc.bf16(W2))       # a NumPy array; spc.f32(y) widens it

Arrays are NumPy's, SciPy's for stored sparse operands, PyTorch's, or `spc.Sparse` for any other format.  Arrays are
never converted from one dtype to another: an array of another dtype than the declared one is a TypeError that says how.
What the compiler or a run finds wrong is a `spc.Error`, with the message's place in the program as `span`."""
import ctypes as c
import os

import numpy as np

from . import _torch
from ._arrays import BF16, F8E4M3, F8E5M2, Bound, Sparse, bf16, f32
from ._library import (ALLOCATE, CAPACITY, RELEASE, UNAVAILABLE, AllocatorOptions, ContextOptions, Error, ProgramOptions, Size, Tensor, TensorInfo,
                       call, library, sizes_of)

__all__ = ["Allocator", "BF16", "F8E4M3", "F8E5M2", "Error", "Kernel", "Program", "Sparse", "bf16", "compile", "f32"]
_contexts = {}


class _Handle:
    """Something of the library's that is freed with the last Python object that uses it, and after all that was made
    from it: what goes together is finalised in any order (a cycle, the end of the process)."""

    def __init__(self, value, free, *uses):
        self.value, self._free, self._uses, self._users, self._gone = value, free, uses, 0, False
        for used in uses:
            used._users += 1

    def __del__(self):
        self._gone = True
        self._let_go()

    def _let_go(self):
        if not self._gone or self._users or not self.value:
            return
        if self._free:
            self._free(self.value)
        self.value = None
        for used in self._uses:
            used._users -= 1
            used._let_go()


class Allocator:
    """Where plans and runs take their memory: allocate(kind, bytes, alignment) gives an address, or None where there is none;
    release(kind, address) takes it back.  kind: "host", "device" or "pinned"."""
    KINDS = ("host", "device", "pinned")

    def __init__(self, allocate, release):
        def take(_, kind, size, alignment):
            try:
                return allocate(self.KINDS[kind], size, alignment)
            except Exception:  # nothing can be raised through the library: it answers `out of memory`
                return None
        self._options = AllocatorOptions(c.sizeof(AllocatorOptions), ALLOCATE(take), RELEASE(lambda _, kind, at: release(self.KINDS[kind], at)), None)


def _context(backend, threads, allocator):
    """One context a back end, number of threads and allocator, for the life of the process."""
    key = (backend, threads, allocator)
    if key not in _contexts:
        options = ContextOptions(struct_size=c.sizeof(ContextOptions), backend=backend.encode() if backend else None, threads=threads)
        if allocator is not None:
            options.allocator = c.pointer(allocator._options)
        made = c.c_void_p()
        call("spc_context_new", c.byref(options), c.byref(made))
        _contexts[key] = _Handle(made, library().spc_context_free)
    return _contexts[key]


class Kernel:
    """A kernel, ready to be called with its inputs, by name or in order of declaration.  Answers its result, or a tuple
    of them in order of declaration."""

    def __init__(self, program, name, sizes):
        made, given = c.c_void_p(), sizes_of(sizes)
        call("spc_plan_new", program.handle.value, name.encode() if name else None, given, len(sizes), c.byref(made))
        self._plan = _Handle(made, library().spc_plan_free, program.handle)
        self.handle, self.backend, self.index_dtype = made, program.backend, program.index_dtype
        self.name = name or program.kernels[0]
        self._program, self._tuning, self.padded = program, program.tiered, program.padded
        self._infos = []
        self.workspaces = {}  # bytes by shapes, on a GPU
        for i in range(library().spc_plan_tensor_count(made)):
            info = TensorInfo(struct_size=c.sizeof(TensorInfo))
            call("spc_plan_tensor", made, i, c.byref(info))
            self._infos.append(info)
        self.inputs = [i.name.decode() for i in self._infos if not i.is_output]
        self.outputs = [i.name.decode() for i in self._infos if i.is_output]

    def __repr__(self):
        return "<spc kernel %s(%s) -> %s on %s>" % (self.name, ", ".join(self.inputs), ", ".join(self.outputs), self.backend)

    def tensors(self, bounds):
        """The structs of a call in one C array; a Bound's own struct is a view of its element from now on."""
        array = (Tensor * max(1, len(bounds)))()
        for i, b in enumerate(bounds):
            array[i] = b.tensor
            b.tensor = array[i]
        return array

    def _named(self, positional, named):
        if len(positional) > len(self.inputs):
            raise TypeError("%s takes %d arrays, %d are given" % (self.name, len(self.inputs), len(positional)))
        given = dict(zip(self.inputs, positional))
        for name, x in named.items():
            if name not in self.inputs or name in given:
                raise TypeError("%s %s `%s`; it takes %s" % (self.name, "has got two" if name in given else "has no input", name, ", ".join(self.inputs)))
            given[name] = x
        missing = [n for n in self.inputs if n not in given]
        if missing:
            raise TypeError("%s lacks %s" % (self.name, ", ".join("`%s`" % n for n in missing)))
        return given

    def __call__(self, *positional, **named):
        given = self._named(positional, named)
        bounds = [Bound(info) for info in self._infos]
        torch = any(_torch.is_tensor(x) for x in given.values())
        if torch and any(_torch.is_tensor(x) and x.is_cuda for x in given.values()):
            results = _torch.run_on_device(self, bounds, given)
        else:
            infos = {b.name: b.info for b in bounds}
            results = self._run(bounds, {n: _torch.to_numpy(x, infos[n]) if _torch.is_tensor(x) else x for n, x in given.items()})
            if torch:
                results = [_torch.from_numpy(r) if hasattr(r, "dtype") and not hasattr(r, "tocsr") else r for r in results]
        return results[0] if len(results) == 1 else tuple(results)

    def tuned(self, seconds=0):
        """Whether calls run tuned code from now on (program option `tiered`); waits so long for it, None: to the end."""
        if self._tuning and library().spc_program_tuned(self._program.handle.value, -1 if seconds is None else int(seconds * 1e6)):
            call("spc_plan_prepare", self.handle, allowed=(UNAVAILABLE,))  # takes it; some kernels cannot be enqueued
            self.workspaces.clear()  # its are others
            self._tuning = False
        return not self._tuning

    def _run(self, bounds, given):
        self.tuned()
        for b in bounds:
            if not b.info.is_output:
                b.take(given[b.name])
        tensors = self.tensors(bounds)
        results = [b for b in bounds if b.info.is_output]
        call("spc_plan_shapes", self.handle, tensors, len(bounds))
        for b in results:
            b.make_room(self.index_dtype)
        # A result of a computed pattern says how much room it takes; then there is enough.
        while call("spc_run", self.handle, tensors, len(bounds), allowed=(CAPACITY,)) == CAPACITY:
            for b in results:
                b.make_room(self.index_dtype)
        named = {b.info.name: b for b in bounds}
        return [b.result(named.get(b.info.pattern_of)) for b in results]


class Program:
    """A compiled text.  `kernels` are its kernels' names; program[name] or program.kernel(name, N=...) makes one ready."""

    def __init__(self, source, backend=None, threads=0, reproducible=False, batch_invariant=False, strict_nan=False, dims=None, positions="i32", tiered=False,
                 padded=None, allocator=None, workspace_limit=0, profile=None, usual=None):
        context = _context(backend, threads, allocator)
        fixed = sizes_of(dims or {})
        pairs = [(name, size) for name, several in (usual or {}).items() for size in several]
        several = (Size * len(pairs))(*[Size(name.encode(), size) for name, size in pairs])
        options = ProgramOptions(c.sizeof(ProgramOptions), fixed, len(dims or {}), reproducible, batch_invariant, strict_nan, positions.encode(),
                                 padded.encode() if padded else None, tiered, workspace_limit=workspace_limit, profile=os.fsencode(profile) if profile else None,
                                 usual=several, usual_count=len(pairs))
        made, text = c.c_void_p(), os.fspath(source)
        if "\n" in text or ";" in text:
            data = text.encode()
            call("spc_program_from_text", context.value, data, len(data), c.byref(options), c.byref(made))
        else:
            call("spc_program_from_file", context.value, os.fsencode(text), c.byref(options), c.byref(made))
        self.handle, self.tiered = _Handle(made, library().spc_program_free, context), bool(tiered)
        self.padded = {name.split("%")[0].strip() for name in (padded or "").split(",") if name.strip()}
        self.index_dtype = np.dtype({"i32": "i4", "i64": "i8"}[positions])
        self.backend = library().spc_context_backend(context.value).decode()
        self.kernels = [library().spc_program_kernel_name(made, i).decode() for i in range(library().spc_program_kernel_count(made))]

    def kernel(self, name=None, **sizes):
        return Kernel(self, name, sizes)

    __getitem__ = kernel


def compile(source, kernel=None, *, backend=None, threads=0, reproducible=False, batch_invariant=False, strict_nan=False,
            positions="i32", tiered=False, padded=None, allocator=None, workspace_limit=0, profile=None, usual=None, **dims):
    """Compiles `source`, a path or the text of a program, and makes its only kernel (or the one named) ready.

    backend: "cuda", "cpu", "interp", or None for the best that is here.  threads: of the CPU, 0 for one a core.
    positions: "i32", or "i64" for sparse tensors of more than 2**31 - 1 entries or places along an axis (not on a GPU).
    tiered: answers with generic code at once; calls run tuned code when that has come (kernel.tuned()).
    padded: "x, y%8": tensors on a GPU whose rows may lie apart (x[:, :k]): they are run in place, others are copied first.
    workspace_limit: bytes; calls with tensors on a GPU that would take more go by rows, where those do not depend on each other
    (0: half a gigabyte, but 16,384 rows at least).
    profile: a file that `spc tune -o FILE` wrote, for the cost model.
    usual: {"T": (1, 64, 4096)}: sizes that a dim which the program leaves open often has; code is made for each, and calls run that of the nearest.
    allocator: an Allocator; None: the C library's memory, and the driver's (spc.torch.caching_allocator: PyTorch's).
    dims: values for dims of the program that it fixes (D=256)."""
    return Program(source, backend, threads, reproducible, batch_invariant, strict_nan, dims, positions, tiered, padded, allocator, workspace_limit, profile, usual).kernel(kernel)
