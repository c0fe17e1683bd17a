"""PyTorch tensors: on the CPU as NumPy arrays, on a GPU in place, on PyTorch's current stream and from its allocator."""
import ctypes as c

from . import _arrays
from ._library import call


def is_tensor(x):
    return type(x).__module__.split(".")[0] == "torch" and hasattr(x, "data_ptr")


def _names(torch):
    names = {torch.float64: "f64", torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.int64: "i64",
             torch.int32: "i32", torch.int16: "i16", torch.int8: "i8", torch.uint8: "u8", torch.bool: "b1"}
    for mine, theirs in (("f8e4m3", "float8_e4m3fn"), ("f8e5m2", "float8_e5m2")):
        if hasattr(torch, theirs):
            names[getattr(torch, theirs)] = mine
    return names


def _check_dtype(info, x):
    import torch
    names, declared = _names(torch), info.dtype.decode() if info.dtype else None
    if declared is None or names.get(x.dtype) == declared:
        return
    wanted = next((str(dtype) for dtype, name in names.items() if name == declared), None)
    raise TypeError("`%s` is declared %s, the tensor is %s%s" % (info.name.decode(), declared, x.dtype, "; x.to(%s) converts it" % wanted if wanted else ""))


def to_numpy(x, info):
    import torch
    _check_dtype(info, x)
    x = x.detach()
    name = _names(torch).get(x.dtype)
    if name == "bf16":
        return x.view(torch.int16).numpy().view(_arrays.BF16)
    if name in ("f8e4m3", "f8e5m2"):
        return x.view(torch.uint8).numpy().view(_arrays.DTYPES[name])
    return x.numpy()


def from_numpy(array):
    import torch
    if array.dtype == _arrays.BF16:
        return torch.from_numpy(array.view("i2")).view(torch.bfloat16)
    if array.dtype.names:
        return torch.from_numpy(array.view("u1")).view({"f8e4m3": torch.float8_e4m3fn, "f8e5m2": torch.float8_e5m2}[array.dtype.names[0]])
    return torch.from_numpy(array)


def empty(bound, shape, dtype, device):
    """A dense tensor that lies in memory as it is declared."""
    import torch
    return torch.empty(bound.storage(shape), dtype=dtype, device=device).permute(_arrays.back(bound.order))


def _in_place(plan, b, x):
    """The tensor as it is stored, and its strides: x where kernels can read it as it lies, else a copy."""
    x = x.detach().permute(b.order)
    steps = _arrays.steps_of(tuple(x.shape), x.stride())
    refused = steps and (b.name not in plan.padded or x.shape[-1] * x.element_size() % 16 or not _arrays.are_apart(tuple(x.shape), steps))
    if steps is None or refused or x.data_ptr() % 16:
        return x.clone(memory_format=_contiguous()), []
    return x, steps


def _contiguous():
    import torch
    return torch.contiguous_format


def _workspace(plan, tensors, count, shapes):
    """Bytes for a run of these shapes; asked once, for asking settles the library's calls, which no capture allows."""
    if shapes not in plan.workspaces:
        call("spc_plan_prepare", plan.handle)
        need = c.c_size_t()
        call("spc_workspace", plan.handle, tensors, count, c.byref(need))
        if len(plan.workspaces) >= 256:
            plan.workspaces.clear()
        plan.workspaces[shapes] = need.value
    return plan.workspaces[shapes]


def run_on_device(plan, bounds, given):
    """Enqueues a run on the device of the tensors; the results are theirs as soon as the stream gets there."""
    import torch
    dtypes = {name: dtype for dtype, name in _names(torch).items()}
    if not torch.cuda.is_current_stream_capturing():
        plan.tuned()  # what is captured stays what it is
    device = next(iter(given.values())).device
    if plan.backend != "cuda":
        raise TypeError("%s was compiled for the %s back end, the tensors are on %s" % (plan.name, plan.backend, device))
    for b in bounds:
        if b.sparse:
            raise TypeError("`%s` is declared `as %s`: tensors on a GPU are dense" % (b.name, b.info.format.decode()))
        if b.info.is_output:
            continue
        x = given[b.name]
        if not is_tensor(x) or x.device != device:
            raise TypeError("`%s` is not on %s, where the others are" % (b.name, device))
        _check_dtype(b.info, x)
        b._shape(tuple(x.shape))
        if x.dim() != b.info.rank:
            continue  # the call says so
        x, steps = _in_place(plan, b, x)
        b.kept.append(x)
        b.tensor.values = x.data_ptr()
        b.lies(tuple(x.shape), steps)
    tensors = plan.tensors(bounds)
    call("spc_plan_shapes", plan.handle, tensors, len(bounds))
    results = []
    for i, b in enumerate(bounds):
        if b.info.is_output:
            shape = tuple(tensors[i].shape[:tensors[i].rank])
            results.append(empty(b, shape, dtypes[b.info.dtype.decode()], device))
            tensors[i].values = results[-1].data_ptr()
    need = _workspace(plan, tensors, len(bounds), tuple((*t.shape[:t.rank], *t.strides[:t.rank]) for t in tensors))
    workspace = torch.empty(need + 256, dtype=torch.uint8, device=device)
    at = (workspace.data_ptr() + 255) // 256 * 256
    stream = torch.cuda.current_stream(device).cuda_stream
    call("spc_enqueue", plan.handle, tensors, len(bounds), c.c_void_p(at), c.c_size_t(need), c.c_void_p(stream))
    return results
