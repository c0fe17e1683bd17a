"""NumPy and SciPy arrays as tensors of a kernel, and a kernel's results as arrays."""
import ctypes as c

import numpy as np

from ._library import MAX_LEVELS, Tensor

#: NumPy has no 16-bit brain float and no 8-bit floats: fields with these names hold their bits.
BF16 = np.dtype([("bf16", "<u2")])
F8E4M3 = np.dtype([("f8e4m3", "u1")])
F8E5M2 = np.dtype([("f8e5m2", "u1")])
DTYPES = {"f64": np.dtype("f8"), "f32": np.dtype("f4"), "f16": np.dtype("f2"), "bf16": BF16, "f8e4m3": F8E4M3, "f8e5m2": F8E5M2,
          "i64": np.dtype("i8"), "i32": np.dtype("i4"), "i16": np.dtype("i2"), "i8": np.dtype("i1"), "u8": np.dtype("u1"),
          "b1": np.dtype("?")}
SPELT = {"bfloat16": BF16, "float8_e4m3fn": F8E4M3, "float8_e5m2": F8E5M2}  # as ml_dtypes names them


def bf16(x):
    """Rounded to the nearest bf16, ties to even; an array of dtype BF16."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    nan = (bits & 0x7FFFFFFF) > 0x7F800000
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(nan, (bits >> 16) | 0x40, rounded).astype(np.uint16).reshape(np.shape(x)).view(BF16)


def f32(x):
    """The float32 array of a BF16 array, exactly."""
    bits = np.ascontiguousarray(x).view(np.uint16).astype(np.uint32) << 16
    return bits.view(np.float32).reshape(np.shape(x))


class Sparse:
    """A tensor in any format of the language, level by level: `pos` and `crd` map a level's number to its array."""

    def __init__(self, shape, values=None, pos=None, crd=None):
        self.shape, self.values, self.pos, self.crd = tuple(shape), values, dict(pos or {}), dict(crd or {})

    def __repr__(self):
        return "Sparse(%s, %s values)" % ("x".join(map(str, self.shape)), "no" if self.values is None else self.values.size)


def _dense(name, x, dtype):
    array = np.asarray(x)
    if str(array.dtype) in SPELT:
        array = array.view(SPELT[str(array.dtype)])
    if isinstance(x, (int, float)):
        array = array.astype(dtype) if dtype not in (BF16, F8E4M3, F8E5M2) else bf16(array)
    if array.dtype != dtype:
        spelt = {v: k for k, v in DTYPES.items()}
        how = "spc.bf16(x) rounds it" if dtype == BF16 else "x.astype(%r) converts it" % dtype.name if dtype.names is None else "hand in its bits as %s" % dtype.names[0].upper()
        raise TypeError("`%s` is declared %s, the array is %s; %s" % (name, spelt[dtype], spelt.get(array.dtype, array.dtype.name), how))
    return array


def axes_of(info):
    """The axes of a dense tensor as they are stored, outermost first; None where it has other levels."""
    order = [info.level_axis[l] for l in range(info.level_count)] or list(range(info.rank))
    whole = all(info.levels[l] == b"dense" for l in range(info.level_count)) and sorted(order) == list(range(info.rank))
    return order if info.dtype and whole else None


def back(order):
    """The transposition that undoes one."""
    return [order.index(d) for d in range(len(order))]


def span_of(shape, steps):
    """Elements from the first to behind the last, of an array as it is stored; steps: of steps_of."""
    if 0 in shape:
        return 0
    return 1 + sum((n - 1) * step for n, step in zip(shape, steps)) if steps else int(np.prod(shape))


def steps_of(shape, strides):
    """Of an array as it is stored, strides in elements: [] where its elements follow one another, its strides where rows or
    what lies around them are apart, None where the elements of a row are, or lie backwards."""
    step, steps, padded = 1, [1] * len(shape), False
    for d in reversed(range(len(shape))):
        if 0 in shape:
            return []
        if shape[d] > 1:
            if strides[d] < 0 or d == len(shape) - 1 and strides[d] != 1:
                return None
            padded = padded or strides[d] != step
            steps[d] = strides[d]
        step *= shape[d]
    return steps if padded else []


def are_apart(shape, steps):
    """Whether no two elements have one place."""
    span = 1
    for step, n in sorted((step, n) for n, step in zip(shape, steps) if n > 1):
        if step < span:
            return False
        span += (n - 1) * step
    return True


def _from_scipy(name, x, info):
    """SciPy's arrays in the declared format's levels; converted where SciPy's own format is another one."""
    form = info.format.decode()
    if form in ("csr", "csc"):
        x = x.asformat(form).sorted_indices()
        if not x.has_canonical_format:
            x = x.copy()
            x.sum_duplicates()
        return Sparse(x.shape, x.data, {1: x.indptr}, {1: x.indices})
    if form == "coo":
        x = x.tocsr().sorted_indices().tocoo()
        return Sparse(x.shape, x.data, {0: np.array([0, x.nnz], x.row.dtype)}, {0: x.row, 1: x.col})
    if form == "bsr":
        block = tuple(info.format_arguments[i] for i in range(info.format_argument_count))
        x = x.tobsr(blocksize=block).sorted_indices()
        return Sparse(x.shape, x.data.reshape(-1), {1: x.indptr}, {1: x.indices})
    raise TypeError("`%s` is declared `as %s`: SciPy has no such format; hand in a spc.Sparse with its level arrays" % (name, form))


class Bound:
    """One tensor of a call: the C struct, and the arrays that it points to."""

    def __init__(self, info):
        self.info, self.name = info, info.name.decode()
        self.dtype = DTYPES.get(info.dtype.decode()) if info.dtype else None
        if info.dtype and self.dtype is None:
            raise TypeError("`%s` is %s, which has no NumPy array" % (self.name, info.dtype.decode()))
        self.order = axes_of(info)
        self.sparse = self.order is None
        self.kept = []
        self.tensor = Tensor(struct_size=c.sizeof(Tensor), name=info.name, dtype=info.dtype, rank=info.rank)

    def _place(self, array):
        """A dense array in the declared order of axes; rows and what lies around them may be apart, anything else is copied."""
        self._shape(array.shape)
        if array.ndim != self.info.rank:
            return  # the call says so
        array, size = array.transpose(self.order), array.itemsize
        whole = array.flags.aligned and not any(s % size for s in array.strides)
        steps = steps_of(array.shape, [s // size for s in array.strides]) if whole else None
        if steps is None:
            array, steps = np.ascontiguousarray(array), []
        self.lies(array.shape, steps)
        self.tensor.values = self._keep(array)

    def lies(self, shape, steps):
        """Sizes and strides as the array is stored."""
        self.tensor.value_count = span_of(shape, steps)
        for axis, step in zip(self.order, steps):
            self.tensor.strides[axis] = step

    def storage(self, shape):
        """The shape that a dense tensor of this shape has in memory."""
        return tuple(shape[d] for d in self.order)

    def _keep(self, array):
        self.kept.append(array)
        return array.ctypes.data if array.size else None

    def _shape(self, shape):
        self.tensor.rank = len(shape)
        for d, size in enumerate(shape[:8]):
            self.tensor.shape[d] = size

    def take(self, x):
        if not self.sparse:
            array = _dense(self.name, x, self.dtype)
            return self._place(array)
        if not isinstance(x, Sparse):
            if not hasattr(x, "tocsr"):
                raise TypeError("`%s` is declared `as %s`: hand in a SciPy array or a spc.Sparse, not a %s" % (self.name, self.info.format.decode(), type(x).__name__))
            x = _from_scipy(self.name, x, self.info)
        self._shape(x.shape)
        if self.dtype is not None:
            values = np.ascontiguousarray(_dense(self.name, x.values, self.dtype)).reshape(-1)
            self.tensor.values, self.tensor.value_count = self._keep(values), values.size
        wide = any(np.asarray(a).dtype.itemsize == 8 for a in [*x.pos.values(), *x.crd.values()])
        index = np.int64 if wide else np.int32
        self.tensor.index_dtype = b"i64" if wide else b"i32"
        for level in range(self.info.level_count):
            narrow = np.uint8 if self.info.levels[level] in (b"bitmap", b"nm") else index
            if level in x.pos:
                array = np.ascontiguousarray(x.pos[level], index)
                self.tensor.pos[level], self.tensor.pos_count[level] = self._keep(array), array.size
            if level in x.crd:
                array = np.ascontiguousarray(x.crd[level], narrow)
                self.tensor.crd[level], self.tensor.crd_count[level] = self._keep(array), array.size

    # -- results ------------------------------------------------------------------------------------------------
    def make_room(self, index=np.int32):
        """Arrays of the sizes that the struct asks for; positions and coordinates are of dtype `index`."""
        t = self.tensor
        self.kept = []
        t.index_dtype = b"i64" if np.dtype(index).itemsize == 8 else b"i32"
        shape = t.value_count if self.sparse else self.storage(t.shape)
        self.values = np.empty(shape, self.dtype)
        t.values = self._keep(self.values)
        self.pos, self.crd = {}, {}
        for level in range(self.info.level_count if self.sparse and not self.info.pattern_of else 0):
            narrow = np.uint8 if self.info.levels[level] in (b"bitmap", b"nm") else index
            if t.pos_count[level]:
                self.pos[level] = np.empty(t.pos_count[level], index)
                t.pos[level] = self._keep(self.pos[level])
            if t.crd_count[level]:
                self.crd[level] = np.empty(t.crd_count[level], narrow)
                t.crd[level] = self._keep(self.crd[level])

    def result(self, model):
        """The array; a sparse one as SciPy's where it has the format, else a Sparse.  model: whose pattern it shares."""
        if not self.sparse:
            return self.values.transpose(back(self.order))
        shape, form = tuple(self.tensor.shape[:self.tensor.rank]), self.info.format.decode()
        pos, crd = self.pos, self.crd
        if self.info.pattern_of:
            pos, crd = _levels_of(model)
        return _as_scipy(form, shape, self.values, pos, crd, self.info)


def _levels_of(bound):
    pos, crd, arrays = {}, {}, {a.ctypes.data: a for a in bound.kept if a.size}
    for level in range(MAX_LEVELS):
        if bound.tensor.pos[level]:
            pos[level] = arrays[bound.tensor.pos[level]]
        if bound.tensor.crd[level]:
            crd[level] = arrays[bound.tensor.crd[level]]
    return pos, crd


def _as_scipy(form, shape, values, pos, crd, info):
    none = np.zeros(0, np.int32)
    whole = Sparse(shape, values, pos, crd)
    try:
        import scipy.sparse as sp
    except ImportError:
        return whole
    if len(shape) != 2 or values.dtype.names:
        return whole
    if form in ("csr", "csc") and 1 in pos:
        return getattr(sp, form + "_array")((values, crd.get(1, none), pos[1]), shape=shape)
    if form == "coo":
        return sp.coo_array((values, (crd.get(0, none), crd.get(1, none))), shape=shape)
    if form == "bsr" and 1 in pos:
        block = tuple(info.format_arguments[i] for i in range(info.format_argument_count))
        return sp.bsr_array((values.reshape((-1,) + block), crd.get(1, none), pos[1]), shape=shape)
    return whole
