"""Kernels as PyTorch operators: `torch.compile` goes through them, a CUDA graph captures them, `backward` finds theirs.

    import torch, spc.torch
    ffn = spc.torch.compile("examples/ffn.spx", D=256, F=1024)
    x, W1, W2 = (torch.randn(*s).bfloat16() for s in ((64, 256), (256, 1024), (1024, 256)))
    y = ffn(x, W1, W2)

Each kernel is a custom operator of its own (`torch.ops.spc.NAME_...`) with a fake kernel that knows the shapes of its
results.  Tensors on a GPU are run in place, on the current stream, with workspace and results from PyTorch's allocator; on
the CPU their memory is shared.  Operands are dense: `torch.compile` carries no sparse tensors."""
import ctypes
import hashlib
import os
import threading

import torch

from . import Allocator, Program, _torch
from ._arrays import Bound
from ._library import call

__all__ = ["Operator", "caching_allocator", "compile"]
_operators = {}
_pinned = {}  # what keeps PyTorch's pinned memory, by address
_libc = ctypes.CDLL(None)
_libc.aligned_alloc.restype, _libc.aligned_alloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t, ctypes.c_size_t]
_libc.free.argtypes = [ctypes.c_void_p]


def _allocate(kind, size, alignment):
    if kind == "device":
        return torch.cuda.caching_allocator_alloc(size)
    if kind == "host":
        return _libc.aligned_alloc(alignment, (size + alignment - 1) // alignment * alignment)
    memory = torch.empty(size + alignment, dtype=torch.uint8, pin_memory=True)
    at = (memory.data_ptr() + alignment - 1) // alignment * alignment
    _pinned[at] = memory
    return at


def _release(kind, at):
    if kind == "device":
        torch.cuda.caching_allocator_delete(at)
    elif kind == "host":
        _libc.free(at)
    else:
        del _pinned[at]


#: For `allocator=` of spc.compile and spc.torch.compile: what plans keep on a GPU is PyTorch's, so that it is counted in
#: torch.cuda.memory_stats and shares one pool.  Workspaces and results of calls on a GPU are PyTorch's without it.
caching_allocator = Allocator(_allocate, _release)


def _tensor_kinds(kernel):
    for info in kernel._infos:
        if any(info.levels[i] != b"dense" for i in range(info.level_count)) or not info.dtype:
            raise TypeError("`%s` is declared `as %s`: an operator of PyTorch's takes and gives dense tensors; spc.compile runs this kernel"
                            % (info.name.decode(), info.format.decode()))
        if info.dtype.decode() not in _torch._names(torch).values():
            raise TypeError("`%s` is %s, which PyTorch has not" % (info.name.decode(), info.dtype.decode()))


class Operator:
    """A kernel as an operator: called with tensors, in order of declaration or by name.  `op` is PyTorch's side of it."""

    def __init__(self, kernel, key, backward=None):
        _tensor_kinds(kernel)
        self.kernel, self.name, self.inputs, self.outputs = kernel, kernel.name, kernel.inputs, kernel.outputs
        self._lock = threading.Lock()  # PyTorch runs backward on a thread of its own
        dtypes = {name: dtype for dtype, name in _torch._names(torch).items()}
        self._results = [(i, dtypes[i.dtype.decode()]) for i in kernel._infos if i.is_output]
        schema = "(%s) -> %s" % (", ".join("Tensor " + n for n in self.inputs), "Tensor" if len(self.outputs) == 1 else "(%s)" % ", ".join(["Tensor"] * len(self.outputs)))
        self.op = torch.library.custom_op("spc::%s_%s" % (kernel.name, key), self._run, mutates_args=(), schema=schema)
        self.op.register_fake(self._fake)
        self.backward = backward
        if backward is not None:
            self._register_backward()

    def __repr__(self):
        return "<spc operator %s%s>" % (repr(self.kernel)[len("<spc kernel "):-1], ", differentiable" if self.backward else "")

    def __call__(self, *positional, **named):
        given = self.kernel._named(positional, named)
        return self.op(*[given[n] for n in self.inputs])

    # ---- the real one and the fake one ---------------------------------------------------------------------------
    def _run(self, *tensors):
        with self._lock:
            return self.kernel(*tensors)

    def _fake(self, *tensors):
        """Results of the right shapes, sizes that are symbols included."""
        sizes = self._named_sizes(tensors)
        made = []
        for info, dtype in self._results:
            names = [info.dims[d] for d in range(info.rank)]
            shape = [sizes[n] for n in names] if all(n in sizes for n in names) else self._asked_shape(info, tensors)
            made.append(_torch.empty(Bound(info), shape, dtype, tensors[0].device if tensors else "cpu"))
        return made[0] if len(made) == 1 else tuple(made)

    def _named_sizes(self, tensors):
        sizes = {}
        for info, x in zip((i for i in self.kernel._infos if not i.is_output), tensors):
            if info.rank != x.dim():
                raise TypeError("`%s` has rank %d, declared %d" % (info.name.decode(), x.dim(), info.rank))
            for d in range(info.rank):
                if info.dims[d]:
                    sizes.setdefault(info.dims[d], x.shape[d])
        return sizes

    def _asked_shape(self, info, tensors):
        """For shapes like [N/2]: the library computes them, for which the sizes must be numbers."""
        bounds = [Bound(i) for i in self.kernel._infos]
        given = iter(tensors)
        for b in bounds:
            if not b.info.is_output:
                b._shape(tuple(int(n) for n in next(given).shape))
        array = self.kernel.tensors(bounds)
        call("spc_plan_shapes", self.kernel.handle, array, len(bounds))
        i = [b.info.name for b in bounds].index(info.name)
        return list(array[i].shape[:array[i].rank])

    # ---- gradients --------------------------------------------------------------------------------------------------
    def _register_backward(self):
        back, wanted = self.backward, set(self.backward.inputs)
        known = set(self.inputs) | set(self.outputs) | {"d" + n for n in self.outputs}
        if not wanted <= known or not all(n[0] == "d" and n[1:] in self.inputs for n in back.outputs):
            raise TypeError("%s is no backward of %s: it takes inputs, results and d+results of it (%s), and gives d+inputs (%s)"
                            % (back.name, self.name, ", ".join(sorted(wanted - known) or ["as it should"]), ", ".join(back.outputs)))
        saved = [n for n in self.inputs + self.outputs if n in wanted]

        def setup(ctx, inputs, output):
            values = dict(zip(self.inputs, inputs))
            values.update(zip(self.outputs, output if isinstance(output, tuple) else (output,)))
            ctx.save_for_backward(*[values[n] for n in saved])
            ctx.results = [(o.shape, o.dtype, o.device) for o in (output if isinstance(output, tuple) else (output,))]

        def backward(ctx, *gradients):
            values = dict(zip(saved, ctx.saved_tensors))
            for name, g, (shape, dtype, device) in zip(self.outputs, gradients, ctx.results):
                values["d" + name] = torch.zeros(shape, dtype=dtype, device=device) if g is None else g.contiguous()
            made = back.op(*[values[n] for n in back.inputs])
            made = dict(zip(back.outputs, made if isinstance(made, tuple) else (made,)))
            found = tuple(made.get("d" + n) for n in self.inputs)
            return found[0] if len(found) == 1 else found

        self.op.register_autograd(backward, setup_context=setup)


def compile(source, kernel=None, *, backward=None, backend=None, threads=0, reproducible=False, batch_invariant=False, strict_nan=False,
            tiered=False, padded=None, allocator=None, workspace_limit=0, profile=None, usual=None, **dims):
    """As spc.compile, but an operator of PyTorch's.

    backward: the name of the program's kernel that computes gradients; without one KERNEL_backward is it, where the program has
    it.  It takes what it needs of the kernel's inputs, its results, and the results' gradients, all by name (those of `y` is
    `dy`), and gives gradients of inputs (`dx`); the others have none."""
    text = os.fspath(source)
    if "\n" not in text and ";" not in text:
        with open(text, "rb") as f:
            words = f.read()
    else:
        words = text.encode()
    options = (kernel, backward, backend, threads, reproducible, batch_invariant, strict_nan, tiered, padded, id(allocator), workspace_limit, profile, sorted((usual or {}).items()), sorted(dims.items()))
    key = hashlib.sha256(words + repr(options).encode()).hexdigest()[:16]
    if key in _operators:
        return _operators[key]
    program = Program(source, backend, threads, reproducible, batch_invariant, strict_nan, dims, tiered=tiered, padded=padded, allocator=allocator, workspace_limit=workspace_limit, profile=profile,
                      usual=usual)
    if kernel is None:
        forward = [k for k in program.kernels if not k.endswith("_backward") and k != backward]
        kernel = forward[0] if len(forward) == 1 else None
    made = program.kernel(kernel)
    if backward is None and made.name + "_backward" in program.kernels:
        backward = made.name + "_backward"
    gradient = Operator(program.kernel(backward), key) if backward else None
    _operators[key] = Operator(made, key, gradient)
    return _operators[key]
