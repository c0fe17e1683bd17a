"""The C interface by ctypes: the library, its structs (include/spc.h), statuses as exceptions."""
import ctypes as c
import ctypes.util
import os
import re

MAX_RANK, MAX_LEVELS = 8, 12
OK, CAPACITY, UNAVAILABLE = 0, 6, 4


class Error(Exception):
    """What spc says is wrong.  `status` is its name ("invalid input"), `diagnostics` the rendered messages with source
    lines and carets, `span` = (file, line, column) of the first one, or None where no program is at fault."""

    def __init__(self, status, message, diagnostics=""):
        super().__init__(message + ("\n" + diagnostics.rstrip() if diagnostics else ""))
        self.status, self.message, self.diagnostics = status, message, diagnostics
        place = re.search(r"^(.+?):(\d+):(\d+): error", diagnostics, re.M)
        self.span = (place.group(1), int(place.group(2)), int(place.group(3))) if place else None


class CError(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("status", c.c_int), ("message", c.c_char * 512), ("diagnostics", c.c_char * 4096)]


ALLOCATE = c.CFUNCTYPE(c.c_void_p, c.c_void_p, c.c_int, c.c_size_t, c.c_size_t)
RELEASE = c.CFUNCTYPE(None, c.c_void_p, c.c_int, c.c_void_p)


class AllocatorOptions(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("allocate", ALLOCATE), ("release", RELEASE), ("user", c.c_void_p)]


class ContextOptions(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("backend", c.c_char_p), ("threads", c.c_int), ("log", c.c_void_p), ("trace", c.c_void_p),
                ("user", c.c_void_p), ("load_only", c.c_int), ("compile_threads", c.c_int), ("allocator", c.POINTER(AllocatorOptions))]


class Size(c.Structure):
    _fields_ = [("name", c.c_char_p), ("value", c.c_int64)]


class ProgramOptions(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("fixed", c.POINTER(Size)), ("fixed_count", c.c_int), ("reproducible", c.c_int),
                ("batch_invariant", c.c_int), ("strict_nan", c.c_int), ("positions", c.c_char_p), ("padded", c.c_char_p), ("tiered", c.c_int),
                ("packed", c.c_int), ("workspace_limit", c.c_int64), ("profile", c.c_char_p),
                ("usual", c.POINTER(Size)), ("usual_count", c.c_int)]


class Tensor(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("name", c.c_char_p), ("dtype", c.c_char_p), ("rank", c.c_int),
                ("shape", c.c_int64 * MAX_RANK), ("values", c.c_void_p), ("value_count", c.c_int64),
                ("pos", c.c_void_p * MAX_LEVELS), ("crd", c.c_void_p * MAX_LEVELS),
                ("pos_count", c.c_int64 * MAX_LEVELS), ("crd_count", c.c_int64 * MAX_LEVELS), ("index_dtype", c.c_char_p), ("pitch", c.c_int64),
                ("strides", c.c_int64 * MAX_RANK)]


class TensorInfo(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("name", c.c_char_p), ("dtype", c.c_char_p), ("format", c.c_char_p),
                ("format_arguments", c.c_int64 * 4), ("format_argument_count", c.c_int), ("rank", c.c_int), ("is_output", c.c_int),
                ("level_count", c.c_int), ("levels", c.c_char_p * MAX_LEVELS), ("pattern_of", c.c_char_p), ("dims", c.c_char_p * MAX_RANK),
                ("level_axis", c.c_int * MAX_LEVELS)]


_P, _E = c.c_void_p, c.POINTER(CError)
FUNCTIONS = {
    "spc_version_number": (c.c_int, []),
    "spc_status_name": (c.c_char_p, [c.c_int]),
    "spc_context_new": (c.c_int, [c.POINTER(ContextOptions), c.POINTER(_P), _E]),
    "spc_context_free": (None, [_P]),
    "spc_context_backend": (c.c_char_p, [_P]),
    "spc_program_from_text": (c.c_int, [_P, c.c_char_p, c.c_size_t, c.POINTER(ProgramOptions), c.POINTER(_P), _E]),
    "spc_program_from_file": (c.c_int, [_P, c.c_char_p, c.POINTER(ProgramOptions), c.POINTER(_P), _E]),
    "spc_program_tuned": (c.c_int, [_P, c.c_int64]),
    "spc_program_free": (None, [_P]),
    "spc_program_kernel_count": (c.c_int, [_P]),
    "spc_program_kernel_name": (c.c_char_p, [_P, c.c_int]),
    "spc_plan_new": (c.c_int, [_P, c.c_char_p, c.POINTER(Size), c.c_int, c.POINTER(_P), _E]),
    "spc_plan_free": (None, [_P]),
    "spc_plan_tensor_count": (c.c_int, [_P]),
    "spc_plan_tensor": (c.c_int, [_P, c.c_int, c.POINTER(TensorInfo), _E]),
    "spc_plan_shapes": (c.c_int, [_P, c.POINTER(Tensor), c.c_int, _E]),
    "spc_run": (c.c_int, [_P, c.POINTER(Tensor), c.c_int, _E]),
    "spc_plan_prepare": (c.c_int, [_P, _E]),
    "spc_workspace": (c.c_int, [_P, c.POINTER(Tensor), c.c_int, c.POINTER(c.c_size_t), _E]),
    "spc_enqueue": (c.c_int, [_P, c.POINTER(Tensor), c.c_int, _P, c.c_size_t, _P, _E]),
}
_loaded = None


def _candidates():
    here = os.path.dirname(os.path.abspath(__file__))
    if os.environ.get("SPC_LIBRARY"):
        return [os.environ["SPC_LIBRARY"]]
    return [os.path.join(here, "libspc.so"), os.path.join(here, "..", "..", "build", "libspc.so"),
            ctypes.util.find_library("spc") or "libspc.so.0"]


def library():
    """The loaded library; an Error that lists where it was looked for when there is none."""
    global _loaded
    if _loaded:
        return _loaded
    tried = []
    for path in _candidates():
        if os.path.isabs(path) and not os.path.exists(path):
            tried.append("%s: no such file" % os.path.normpath(path))
            continue
        try:
            found = c.CDLL(path)
            for name, (result, arguments) in FUNCTIONS.items():
                function = getattr(found, name)
                function.restype, function.argtypes = result, arguments
            _loaded = found
            return found
        except (OSError, AttributeError) as why:
            tried.append(str(why))
    raise Error("unavailable", "libspc.so was not found; build it (script/demo) or set SPC_LIBRARY.  Tried: " + "; ".join(tried))


def call(name, *arguments, allowed=()):
    """Calls a function whose last parameter is an error; raises Error unless it answers OK or one of `allowed`."""
    err = CError(struct_size=c.sizeof(CError))
    status = getattr(library(), name)(*arguments, c.byref(err))
    if status == OK or status in allowed:
        return status
    raise Error(library().spc_status_name(status).decode(), err.message.decode("utf-8", "replace"), err.diagnostics.decode("utf-8", "replace"))


def sizes_of(values):
    """A C array of sizes, and what keeps its names alive."""
    array = (Size * max(1, len(values)))()
    for i, (name, value) in enumerate(values.items()):
        array[i] = Size(name.encode(), int(value))
    return array
