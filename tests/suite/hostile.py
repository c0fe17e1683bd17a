"""Hostile input: files that lie about themselves, places that cannot be read or written, libraries that are not there,
text in odd encodings, NaN and Inf.  Each gives the documented exit code and one clear message; nothing crashes and no
half-written file stays behind."""
import io, random, re, struct, zipfile
import numpy as np, scipy.sparse as sp
from harness_data import *

INTERP = "--backend=interp"
DENSE = write("dense.spx", "spx 1; dim N: dyn; dim M: dyn; kernel k { in x: f32[N,M]; out y[i,j] = x[i,j]; }\n")
CSR = write("csr.spx", "spx 1; dim N: dyn; dim M: dyn; kernel k { in x: f32[N,M] as csr; out y[i,j] = x[i,j] as like(x); }\n")
PATTERN = write("pattern.spx", "spx 1; dim N: dyn; dim M: dyn; kernel k { in x: pattern[N,M] as csr; out y[i,j] = where(x[i,j], 1.0, 0.0) : f32; }\n")
INTEGER = write("integer.spx", "spx 1; dim N: dyn; dim M: dyn; kernel k { in x: i32[N,M] as csr; out y[i,j] = x[i,j]; }\n")
CUBE = write("cube.spx", "spx 1; dim A: dyn; dim B: dyn; dim C: dyn; kernel k { in x: f32[A,B,C] as csf; out y[i] = sum[j,l] x[i,j,l]; }\n")
good = np.arange(12, dtype=np.float32).reshape(3, 4)
np.save(path("good.npy"), good)


def said(r):
    """What a program wrote, but for the sanitizer's word that an allocation was refused: that is answered like any other."""
    return "\n".join(l for l in r.stderr.splitlines() if "AddressSanitizer failed to allocate" not in l)


def refused(what, codes, r, *words, most=1):
    """One of the exit codes, one error (at most so many) on stderr that holds the words, and no sanitizer's report."""
    errors = r.stderr.count("error[") + sum(line.startswith("spc: ") for line in r.stderr.splitlines())
    return check(what, r.returncode in codes and 1 <= errors <= most and len(r.stderr) < 4000 and all(w in r.stderr for w in words) and "Sanitizer" not in said(r),
                 "exit %d, wanted %s and %s\n%s" % (r.returncode, codes, words, r.stderr))


def accepted(what, r):
    return check(what, r.returncode == 0, "exit %d\n%s" % (r.returncode, r.stderr))


def read(program, source, *more):
    return spc("run", program, INTERP, "--bind", "x=" + source, *more, timeout=60)


def each(kind, program, table):
    """table: what -> (bytes or text, exit code, words); exit 0 takes the file."""
    for what, (data, code, *words) in table.items():
        r = read(program, write("h" + kind, data) + (":t" if kind == ".safetensors" else ""))
        accepted("%s, %s: is read" % (kind, what), r) if code == 0 else refused("%s, %s: exit %d" % (kind, what, code), (code,), r, *words)


# ---- .npy ---------------------------------------------------------------------------------------------------------
def npy(descr="<f4", shape="(3, 4)", data=b"\0" * 48, order="False", header=None, version=b"\x01\x00", length=None):
    text = ("{'descr': '%s', 'fortran_order': %s, 'shape': %s, }" % (descr, order, shape) if header is None else header).encode()
    text += b" " * (63 - (len(text) + 10) % 64) + b"\n"
    return b"\x93NUMPY" + version + struct.pack("<H", len(text) if length is None else length) + text + data

MALFORMED = {
    "empty": (b"", 5, "malformed"), "the magic alone": (b"\x93NUMPY", 5, "malformed"), "another magic": (b"\x93NUMPX" + npy()[6:], 5, "malformed"),
    "version 9": (npy(version=b"\x09\x00"), 5, "version"), "a header longer than the file": (npy(length=60000), 5, "header"),
    "no dictionary": (npy(header="[1, 2]"), 5, "dictionary"), "no shape": (npy(header="{'descr': '<f4', 'fortran_order': False}"), 5, "shape"),
    "an unknown key": (npy(header="{'descr': '<f4', 'fortran_order': False, 'shape': (3,4), 'q': 1}"), 5, "key"),
    "a negative size": (npy(shape="(-3, 4)"), 5, "shape"), "a size over 64 bits": (npy(shape="(99999999999999999999, 4)"), 5, "shape"),
    "sizes whose product overflows": (npy(shape="(4611686018427387904, 16)"), 5, "overflows"),
    "huge sizes before a 0": (npy(shape="(4611686018427387904, 0)", data=b""), 5, "overflows"), "huge sizes after a 0": (npy(shape="(0, 4611686018427387904)", data=b""), 5, "overflows"),
    "nothing, 1000000 times": (npy(shape="(0, 1000000)", data=b"", order="True"), 0),
    "nine axes": (npy(shape="(1,1,1,1,1,1,1,1,1)"), 5, "8 axes"), "more elements than bytes": (npy(shape="(3, 5)"), 5, "bytes of data"),
    "three axes": (npy(shape="(3, 2, 2)"), 1, "3 axes"), "no axes": (npy(shape="()"), 1, "0 axes"),
    "floats of one byte": (npy("<f1", data=b"\1" * 12), 5, "dtype"), "floats of three bytes": (npy("<f3", data=b"\1" * 36), 5, "dtype"),
    "long doubles": (npy("<f16", data=b"\1" * 192), 1, "float128"), "complex numbers": (npy("<c8", data=b"\1" * 96), 1, "complex64"),
    "dates": (npy("<M8", data=b"\1" * 96), 1, "dates"), "text": (npy("<U1", data=b"\1" * 48), 1, "text"), "objects": (npy("|O", data=b"\1" * 96), 5, "dtype"),
    "a structured dtype": (npy(header="{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (12,)}"), 5, "structured"),
    "big-endian numbers": (npy(">f4"), 5, "big-endian"), "an element of 2^31 bytes": (npy("<f2147483648"), 5, "dtype"),
    "two shapes": (npy(header="{'descr': '<f4', 'fortran_order': False, 'shape': (3,), 'shape': (4,)}"), 5, "twice"),
    "data after the last element": (npy(data=b"\0" * 64), 0),
}
each(".npy", DENSE, MALFORMED)
for what in ("floats of one byte", "floats of three bytes", "long doubles", "complex numbers", "dates", "text"):
    data, code = MALFORMED[what][:2]
    refused("a pattern from .npy, %s" % what, (code,), read(PATTERN, write("h.npy", data)))
holes = np.array([[0, 2, 0], [0, 0, 0], [np.nan, 0, -0.0]], np.float32)
np.save(path("holes.npy"), holes)
r = read(PATTERN, path("holes.npy"), "--out", "y=" + path("y.npy"))
check("a pattern from a dense .npy: its non-zeros", r.returncode == 0 and np.array_equal(np.load(path("y.npy")), holes != 0), r.stderr)


# ---- .npz ---------------------------------------------------------------------------------------------------------
def npz(compressed=False, **members):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED) as z:
        for name, array in members.items():
            one = io.BytesIO()
            np.lib.format.write_array(one, np.asanyarray(array), allow_pickle=False) if not isinstance(array, bytes) else one.write(array)
            z.writestr(name + ".npy", one.getvalue())
    return out.getvalue()

def csr(**changed):
    parts = {"format": np.array(b"csr"), "shape": np.array([3, 4]), "data": np.array([1, 2, 3], np.float32), "indices": np.array([0, 2, 1], np.int32),
             "indptr": np.array([0, 2, 2, 3], np.int32)}
    parts.update(changed)
    return npz(**{k: v for k, v in parts.items() if v is not None})

def patched(blob, signature, offset, form, value):
    """The blob with one field of the first record of that signature set."""
    at = blob.index(signature) + offset
    return blob[:at] + struct.pack(form, value) + blob[at + struct.calcsize(form):]

CENTRAL, END = b"PK\x01\x02", b"PK\x05\x06"
whole = csr()
each(".npz", CSR, {
    "whole": (whole, 0), "empty": (b"", 5, "ZIP"), "no ZIP": (b"PK" * 40, 5, "ZIP"), "no members": (npz(), 5, "format"), "cut in the middle": (whole[:len(whole) // 2], 5),
    "no data": (csr(data=None), 5, "data"), "no indptr": (csr(indptr=None), 5, "indptr"), "another format": (csr(format=np.array(b"dia")), 5, "dia"),
    "a format that is a number": (csr(format=np.array(3)), 5, "format"), "a format that is empty": (csr(format=np.array(b"")), 5),
    "a negative size": (csr(shape=np.array([-3, 4])), 5, "negative"), "sizes near 2^63": (csr(shape=np.array([2 ** 63 - 1, 2 ** 63 - 1])), 5, "disagree"),
    "columns near 2^63": (csr(shape=np.array([3, 2 ** 63 - 1])), 0), "one size": (csr(shape=np.array([3])), 5, "axes"), "nine sizes": (csr(shape=np.ones(9, int)), 5, "1 to 8"),
    "sizes that are floats": (csr(shape=np.array([3.0, 4.0])), 5, "integers"), "an indptr that falls": (csr(indptr=np.array([0, 2, 1, 3])), 5, "monotone"),
    "an indptr that does not begin at 0": (csr(indptr=np.array([1, 2, 2, 3])), 5, "monotone"), "an indptr that is negative": (csr(indptr=np.array([0, -1, 2, 3])), 5, "monotone"),
    "an indptr past the end": (csr(indptr=np.array([0, 2, 2, 2 ** 40])), 5, "monotone"), "an indptr that stops short": (csr(indptr=np.array([0, 2, 2, 2])), 5, "cover"),
    "an indptr that is too short": (csr(indptr=np.array([0, 3])), 5, "disagree"), "an indptr of floats": (csr(indptr=np.array([0.0, 2, 2, 3])), 5, "dtype"),
    "an index out of range": (csr(indices=np.array([0, 4, 1])), 5, "outside"), "a negative index": (csr(indices=np.array([0, -1, 1])), 5, "outside"),
    "fewer indices than values": (csr(indices=np.array([0, 1])), 5, "disagree"), "values that are text": (csr(data=np.array(["a", "b", "c"])), 5, "numeric"),
    "values of one-byte floats": (csr(data=npy("<f1", "(3,)", b"\1\1\1")), 5), "values of two axes": (csr(data=np.ones((3, 1), np.float32)), 5, "rank"),
    "values in f64": (csr(data=np.ones(3)), 1, "float64"), "a bsr of blocks of size 0": (csr(format=np.array(b"bsr"), data=np.ones((3, 0, 4), np.float32)), 5),
    "a bsr of blocks that overflow": (csr(format=np.array(b"bsr"), data=npy("<f4", "(0, 4294967296, 4294967296)", b""), indices=np.zeros(0, int), indptr=np.array([0])), 5),
    "a member that claims 2^40 bytes": (patched(csr(), CENTRAL, 24, "<I", 2 ** 31), 5, "sizes"), "a member past the end": (patched(csr(), CENTRAL, 42, "<I", 2 ** 31), 5, "directory"),
    "a deflated bomb": (patched(npz(True, **{"format": np.array(b"csr")}), CENTRAL, 24, "<I", 2 ** 32 - 2), 5, "expand"),
    "a wrong checksum": (patched(csr(), CENTRAL, 16, "<I", 1), 5, "checksum"), "an encrypted member": (patched(csr(), CENTRAL, 8, "<H", 1), 5, "encrypted"),
    "an unknown compression": (patched(csr(), CENTRAL, 10, "<H", 99), 5, "deflate"), "a directory that is elsewhere": (patched(csr(), END, 16, "<I", 7), 5, "directory"),
    "more members than there are": (patched(csr(indptr=None), END, 10, "<H", 60000), 5, "directory"),
    "coordinates out of range": (npz(format=np.array(b"coo"), shape=np.array([3, 4]), data=np.ones(1, np.float32), row=np.array([3]), col=np.array([0])), 5, "outside"),
    "coordinates of another length": (npz(format=np.array(b"coo"), shape=np.array([3, 4]), data=np.ones(1, np.float32), row=np.array([1, 2]), col=np.array([0])), 5, "disagree"),
})
twice = csr(indices=np.array([2, 2, 1]))
r = read(CSR, write("h.npz", twice), "--out", "y=" + path("y.npz"))
check("duplicate entries are summed", r.returncode == 0 and sp.load_npz(path("y.npz")).toarray()[0, 2] == 3 and sp.load_npz(path("y.npz")).nnz == 2, r.stderr)

# ---- text formats ---------------------------------------------------------------------------------------------------
BANNER = "%%MatrixMarket matrix coordinate real general\n"
each(".mtx", CSR, {
    "whole, with CRLF": ((BANNER + "3 4 2\n1 1 2.5\n3 4 -1e3\n").replace("\n", "\r\n"), 0), "no end of line": (BANNER + "3 4 1\n1 1 2.5", 0), "empty": ("", 5, "MatrixMarket"),
    "the banner alone": (BANNER, 5, "size line"), "complex values": (BANNER.replace("real", "complex") + "1 1 0\n", 5, "complex"), "hermitian": (BANNER.replace("general", "hermitian"), 5, "symmetry"),
    "sizes over 64 bits": (BANNER + "99999999999999999999 4 1\n1 1 1\n", 5, "size line"), "a negative size": (BANNER + "-3 4 1\n1 1 1\n", 5, "negative"),
    "more entries than lines": (BANNER + "3 4 9\n1 1 1\n", 5, "too short"), "one entry too few": (BANNER + "3 4 2\n1 1 1000000\n", 5, "last entry"), "a number of 90 digits": (BANNER + "3 4 1\n1 1 0." + "3" * 90 + "\n", 0), "a count near 2^63": (BANNER + "3 4 9223372036854775000\n1 1 1\n", 5, "too short"),
    "fewer entries than lines": (BANNER + "3 4 1\n1 1 1\n2 2 2\n", 5, "more entries"), "an entry in row 0": (BANNER + "3 4 1\n0 1 1\n", 5, "outside"),
    "an entry past the last column": (BANNER + "3 4 1\n1 5 1\n", 5, "outside"), "a word for a value": (BANNER + "3 4 1\n1 1 one\n", 5, "value"), "half an entry": (BANNER + "3 4 1\n1\n", 5, "row and column"),
    "columns past i32": (BANNER + "3 4294967296 1\n1 4294967296 1\n", 0), "a symmetric matrix that is not square": (BANNER.replace("general", "symmetric") + "3 4 0\n", 5, "square"),
    "an array that is too short": (BANNER.replace("coordinate", "array") + "30000 40000\n1\n", 5, "too short"), "NUL bytes": (BANNER + "3 4 1\n1 1 \0\n", 5),
})
r = read(CSR, write("h.mtx", BANNER + "2 2 3\n1 1 nan\n1 2 -inf\n2 2 1e999\n"), "--out", "y=" + path("y.npy"))
check("NaN and Inf in text are values", r.returncode == 0 and np.array_equal(np.load(path("y.npy")), np.array([[np.nan, -np.inf], [0, np.inf]], np.float32), equal_nan=True), r.stderr)
refused("integers that i32 does not hold", (1,), read(INTEGER, write("h.mtx", BANNER.replace("real", "integer") + "2 2 1\n1 1 3000000000\n")), "i32")
refused("integers over 64 bits", (5,), read(INTEGER, write("h.mtx", BANNER.replace("real", "integer") + "2 2 1\n1 1 99999999999999999999\n")), "value")
each(".smtx", PATTERN, {
    "whole": ("2, 3, 2\n0 1 2\n0 2\n", 0), "empty": ("", 5, "rows, columns"), "a negative size": ("-2, 3, 2\n0 1 2\n0 2\n", 5), "rows near 2^63": ("9223372036854775000, 3, 2\n0 1 2\n0 2\n", 5, "too short"),
    "offsets that fall": ("2, 3, 2\n0 2 1\n0 2\n", 5, "monotone"), "offsets that stop short": ("2, 3, 2\n0 1 1\n0 2\n", 5, "end"), "a column out of range": ("2, 3, 2\n0 1 2\n0 3\n", 5, "outside"),
    "a negative column": ("2, 3, 2\n0 1 2\n0 -1\n", 5, "outside"), "no columns": ("2, 3, 2\n0 1 2\n", 5, "ends"), "more columns": ("2, 3, 2\n0 1 2\n0 2 1\n", 5, "more"),
})
each(".tns", CUBE, {
    "whole": ("1 1 1 2.5\n2 1 3 1\n", 0), "empty": ("", 5, "no entries"), "comments alone": ("# nothing\n", 5, "no entries"), "coordinate 0": ("0 1 1 2\n", 5, "positive"), "half a coordinate": ("1.5 1 1 2\n", 5, "positive"),
    "a coordinate that is NaN": ("nan 1 1 2\n", 5, "positive"), "a coordinate of 1e300": ("1e300 1 1 2\n", 5, "positive"), "a coordinate of 9e15, whose result is dense": ("9e15 1 1 2\n", 70, "out of memory"),
    "lines of different lengths": ("1 1 1 2\n1 1 2\n", 5, "another number"), "ten numbers": ("1 1 1 1 1 1 1 1 1 2\n", 5, "8 coordinates"), "two axes": ("1 1 2\n", 1, "2 axes"), "a word": ("1 one 1 2\n", 5, "malformed"),
})


def safetensors(header, data=b"\0" * 48, length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data

def tensor(**changed):
    return safetensors({"t": dict({"dtype": "F32", "shape": [3, 4], "data_offsets": [0, 48]}, **changed)})

each(".safetensors", DENSE, {
    "whole": (tensor(), 0), "empty": (b"", 5, "shorter"), "a header longer than the file": (safetensors({}, length=2 ** 63), 5, "longer"), "no JSON": (safetensors(b"not JSON"), 5, "JSON"),
    "JSON that ends": (safetensors(b'{"t":{"dtype":"F32"'), 5), "JSON in JSON in JSON": (safetensors(b'{"a":' + b"[" * 100000), 5, "JSON"), "no such tensor": (safetensors({"u": {}}), 5, "it has: u"),
    "an unknown dtype": (tensor(dtype="F33"), 5, "dtype"), "a negative size": (tensor(shape=[-3, 4]), 5, "shape"), "sizes that overflow": (tensor(shape=[2 ** 62, 16]), 5, "overflows"),
    "offsets past the file": (tensor(data_offsets=[0, 4800]), 5, "offsets"), "offsets that fall": (tensor(data_offsets=[48, 0]), 5, "offsets"), "offsets near 2^63": (tensor(data_offsets=[2 ** 63 - 49, 2 ** 63 - 1]), 5, "offsets"),
    "fewer bytes than the shape": (tensor(data_offsets=[0, 44]), 5, "offsets"), "nine axes": (tensor(shape=[1] * 9), 5, "8 axes"), "a shape that is no list": (tensor(shape=3), 5, "list"),
})
refused("safetensors without a tensor's name", (5,), read(DENSE, write("h.safetensors", tensor())), "TENSOR")

# ---- places: folders, pipes, full disks, folders that take nothing ----------------------------------------------------
os.mkdir(path("folder.npy")), os.mkdir(path("folder.spx")), os.mkfifo(path("pipe.npy")), os.mkfifo(path("pipe.npz")), os.symlink("/dev/full", path("full.npy"))
refused("a folder for an array", (5,), read(DENSE, path("folder.npy")), "folder")
refused("a folder for a program", (5,), spc("check", path("folder.spx")), "folder.spx")
refused("a pipe that nobody writes, for an array", (5,), read(DENSE, path("pipe.npy")), "pipe")
refused("a pipe, for a sparse matrix", (5,), read(CSR, path("pipe.npz")), "pipe")
refused("a folder for a result", (5,), read(DENSE, path("good.npy"), "--out", "y=" + path("folder.npy")), "folder.npy")
refused("a full disk for a result", (5,), read(DENSE, path("good.npy"), "--out", "y=" + path("full.npy")), "No space")
refused("a full disk for statistics", (5,), read(DENSE, path("good.npy"), "--stats=/dev/full"), "No space")
refused("a full disk for an artefact", (5,), spc("compile", DENSE, "--emit=tile", "-o", "/dev/full"), "No space")
refused("a file's name where a folder is wanted", (5,), spc("compile", DENSE, "--emit=tile,ein", "-o", path("good.npy")), "good.npy")
refused("an artefact of no name", (2, 5), spc("compile", DENSE, "--emit=tile", "-o", ""))
CLOSED = "/proc/self" if os.geteuid() == 0 else path("closed")
if CLOSED == path("closed"):
    os.mkdir(CLOSED, 0o555)
refused("a folder that takes no files, for a result", (5,), read(DENSE, path("good.npy"), "--out", "y=" + CLOSED + "/y.npy"), "cannot write")
refused("a folder that takes no files, for artefacts", (5,), spc("compile", DENSE, "--emit=tile,ein", "-o", CLOSED + "/out"), "out")


def to_full(*arguments):
    with open("/dev/full", "w") as full:
        return subprocess.run([SPC, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=dict(os.environ, NO_COLOR="1"))

for arguments in (("run", DENSE, INTERP, "--bind", "x=" + path("good.npy")), ("compile", DENSE, "--emit=tile"), ("fmt", DENSE), ("show", "ops"), ("doctor",), ("help",), ("--version",), ("explain", DENSE),
                  ("opt", DENSE), ("completions", "bash")):
    refused("standard output is full: spc " + arguments[0], (5,), to_full(*arguments), "standard output", "No space")


def limited(*arguments):
    """With files cut at 1 KiB: what a disk that fills up does."""
    return subprocess.run(["bash", "-c", 'ulimit -f 1; exec "$@"', "limited", SPC, *arguments], capture_output=True, text=True, cwd=ROOT, env=dict(os.environ, NO_COLOR="1"))

wide = np.ones((40, 40), np.float32)
np.save(path("wide.npy"), wide)
refused("a disk that fills up under a result", (5,), limited("run", DENSE, INTERP, "--bind", "x=" + path("wide.npy"), "--out", "y=" + path("half.npy")), "half.npy")
refused("a disk that fills up under artefacts", (5,), limited("compile", DENSE, "--emit=tile,dot,loop", "-o", path("half") + "/"), "half")
check("no half-written file stays", not os.path.exists(path("half.npy")) and all(os.path.getsize(os.path.join(path("half"), n)) for n in os.listdir(path("half"))) and
      not [n for n in os.listdir(TMP) + os.listdir(path("half")) if ".part" in n], os.listdir(TMP))
long = "spx 1;\ndim N: dyn;\n" + "".join("kernel k%d {   in x: f32[N]; out y[i] = x[i] + %d; }\n" % (i, i) for i in range(60))
for what, r in (("fmt -i", limited("fmt", "-i", write("long.spx", long))),):
    refused("a disk that fills up under %s" % what, (5,), r, "long.spx")
    check("%s leaves the file as it was" % what, open(path("long.spx")).read() == long)
np.save(path("kept.npy"), good)
limited("run", DENSE, INTERP, "--bind", "x=" + path("wide.npy"), "--out", "y=" + path("kept.npy"))
check("the result that was there stays when the new one does not fit", np.array_equal(np.load(path("kept.npy")), good))
os.symlink(path("target.npy"), path("link.npy")), np.save(path("target.npy"), good), os.chmod(path("target.npy"), 0o640)
r = read(DENSE, path("wide.npy"), "--out", "y=" + path("link.npy"))
check("a result goes through a link, and the file keeps its mode", r.returncode == 0 and os.path.islink(path("link.npy")) and np.load(path("target.npy")).shape == (40, 40) and
      os.stat(path("target.npy")).st_mode & 0o777 == 0o640, r.stderr)

# ---- the text of programs ---------------------------------------------------------------------------------------------
TEXT = "spx 1;\ndim N: dyn;\nkernel k { // a comment\n  in x: f32[N];\n  out y[i] = 2 * x[i];\n}\n"
plain = spc("compile", write("t.spx", TEXT), "--emit=ein").stdout
for what, data in (("CRLF", TEXT.replace("\n", "\r\n").encode()), ("a byte order mark", b"\xef\xbb\xbf" + TEXT.encode()), ("no end of line", TEXT.rstrip().encode()), ("tabs", TEXT.replace("  ", "\t").encode())):
    r = spc("compile", write("t.spx", data), "--emit=ein")
    check("a program with %s means the same" % what, r.returncode == 0 and r.stdout == plain, r.stderr)
    check("fmt of a program with %s is canonical" % what, spc("fmt", path("t.spx")).stdout == TEXT.replace("kernel k { // a comment\n", "kernel k {  // a comment\n") or
          spc("fmt", path("t.spx")).stdout == spc("fmt", write("u.spx", TEXT)).stdout, spc("fmt", path("t.spx")).stdout)
for what, data, *words in (("invalid UTF-8 in a comment", TEXT.encode().replace(b"a comment", b"\xff\xfe")), ("invalid UTF-8 in a name", TEXT.encode().replace(b"x", b"\xc3(")), ("UTF-16", TEXT.encode("utf-16")),
                           ("a NUL", TEXT.encode().replace(b"2 *", b"2\0*")), ("nothing at all", b""), ("white space alone", b" \n\t\r\n"), ("an unfinished comment", b"spx 1; /* "),
                           ("an unfinished string", b'spx 1; kernel "k')):
    r = spc("compile", write("t.spx", data))
    check("a program with %s: exit 1 and messages with a place" % what, r.returncode == 1 and "t.spx:" in r.stderr and len(r.stderr) < 6000 and "Sanitizer" not in r.stderr, "exit %d\n%s" % (r.returncode, r.stderr))
r = subprocess.run(["bash", "-c", 'cat "$2" | "$1" compile /dev/stdin --emit=ein', "-", SPC, write("t.spx", TEXT)], capture_output=True, text=True)
check("a program from a pipe", r.returncode == 0 and r.stdout == plain, r.stderr)

# ---- dumps of the IR, edited ------------------------------------------------------------------------------------------------
LISTED = write("listed.spx", "spx 1; dim T: dyn; dim D: dyn; dim F: dyn; dim O: dyn; kernel k { in x: f32[T,D]; in W1: f32[D,F]; in W2: f32[F,O]; "
               "let h[t,f] = relu(sum[d] x[t,d]*W1[d,f]) ~ zeros(dynamic); out y[t,o] = sum[f] h[t,f]*W2[f,o]; } schedule k { compact h axis=f gran=4x1; }\n")
STORED = write("stored.spx", "spx 1; dim N: dyn; dim M: dyn; dim S: dyn; kernel k { in A: f32[N,M] as csr; in x: f32[M]; in off: i32[S+1]; out y[i] = sum[j] A[i,j]*x[j]; out B[i,j] = 2*A[i,j] as like(A); "
               "ragged r in off[s]..off[s+1]; out z[s] = sum[r] y[r]; }\n")
DATA = {LISTED: ["-D", "T=6", "-D", "D=5", "-D", "F=8", "-D", "O=3", "--bind", "x=rand:0", "--bind", "W1=rand:1", "--bind", "W2=rand:2"],
        STORED: ["-D", "N=6", "-D", "M=7", "-D", "S=3", "--bind", "A=sparse:1:0.4", "--bind", "x=rand:1", "--bind", "off=offsets:1"]}
dumps = {(f, p): spc("opt", f, "--target=cpu", "--stop-after=" + p).stdout for f in DATA for p in ("canon", "stage", "lower", "vectorise")}
for (f, p), text in dumps.items():
    accepted("the dump of %s after %s runs as it is" % (os.path.basename(f), p), spc("run", write("d.ir", text), INTERP, *DATA[f]))
    accepted("and with CRLF", spc("run", write("d.ir", text.replace("\n", "\r\n").encode()), INTERP, *DATA[f]))


def edited(what, f, p, old, new, *words, code=1, backend=INTERP, count=1):
    """The first place of `old` (a regular expression) in a dump becomes `new`."""
    text, n = re.subn(old, new, dumps[f, p], count=count)
    check("the dump after %s holds %s" % (p, old), n > 0, dumps[f, p][:1500])
    r = spc("run", write("edited.ir", text), backend, *DATA[f], timeout=60)
    accepted("IR, " + what, r) if code == 0 else refused("IR, %s: exit %d" % (what, code), (code,), r, *words, most=4)


edited("another version", LISTED, "canon", r"spc\.ir 1", "spc.ir 2", "version")
edited("no end", LISTED, "stage", r"\}\s*$", "", "E0604")
edited("a target that nobody knows", LISTED, "canon", "target cpu", "target tpu", "tpu")
edited("stages in a file that says it is earlier", LISTED, "stage", r"after 80 stage;\n", "", "E0603", backend="--backend=cpu" if "cpu" in backends() else INTERP, code=1 if "cpu" in backends() else 0)
edited("functions in a file that says it is earlier", STORED, "lower", r"after 90 lower", "after 80 stage", backend="--backend=cpu" if "cpu" in backends() else INTERP, code=0)
edited("a float where an integer is stored", STORED, "lower", r"parallel for %i = 0 \.\.", "parallel for %i = 0.5_f32 ..", "E060")
edited("a statement of another type", LISTED, "canon", r"in x : f32", "in x : i32", "E0605")
edited("an array of another type than its tensor", STORED, "lower", r"buf @A\.vals : f32", "buf @A.vals : f64", "E0605", "dtype")
edited("positions of a level that has none", STORED, "lower", r"pos of A level 1", "pos of A level 0", "E0605", "level 0")
edited("positions of a level that does not exist", STORED, "lower", r"pos of A level 1", "pos of A level 9", "E060")
edited("coordinates that are floats", STORED, "lower", r"buf @A\.crd1 : i32", "buf @A.crd1 : f32", "E060")
edited("an array that nobody declares", STORED, "lower", r"    buf @x\.vals[^\n]*\n", "", "E060", "x.vals")
edited("a workspace that nobody declares", LISTED, "stage", r"  buf @h\.ids [^\n]*\n", "", "E060", "h.ids")
edited("a list without counts", LISTED, "stage", r"    counts @h\.counts;\n", "", "E0605", "counts")
edited("counts that are floats", LISTED, "stage", r"buf @h\.counts : i32", "buf @h.counts : f32", "E0605")
edited("a list of a tensor that is not there", LISTED, "stage", r"    tensor h;", "    tensor q;", "E060")
edited("a list along an axis that is not there", LISTED, "stage", r"    axis_dim 1;", "    axis_dim 7;", "E0605")
for figure in ("0", "-4", "9223372036854775807"):
    edited("a strip of " + figure, LISTED, "stage", r"(list h \{(?:.|\n)*?)strip 4;", r"\g<1>strip %s;" % figure, code=0 if figure[0] == "9" else 1)
edited("a capacity too small for its axis", LISTED, "stage", r"    capacity F;", "    capacity 1;", "E0605", "capacity is 1", "8")
edited("strips too few for their tensor", LISTED, "stage", r"    strips [^;]*;", "    strips 1;", "E0605", "strips is 1", "2")
edited("ids too few for their list", LISTED, "stage", r"buf @h\.ids : i32\[[^\]]*\]", "buf @h.ids : i32[1]", "E0605", "ids is 1")
edited("strips that cannot be computed", LISTED, "stage", r"    strips [^;]*;", "    strips T / 0;", "E0605")
edited("a workspace of 8 GB that is not touched", LISTED, "stage", r"buf @h\.verdict : i32\[1\]", "buf @h.verdict : i32[2147483648]", code=0)
edited("a workspace of 2^63 - 1 elements", LISTED, "stage", r"buf @h\.verdict : i32\[1\]", "buf @h.verdict : i32[9223372036854775807]", "E0701")
edited("a workspace whose size overflows", LISTED, "stage", r"buf @h\.verdict : i32\[1\]", "buf @h.verdict : i32[T * 9223372036854775807]", "E0701")
edited("a number over 64 bits", LISTED, "stage", r"    strip 4;", "    strip 99999999999999999999;", "E0604")
edited("a vector of 2^31 lanes", STORED, "lower", r"let %acc : f32 =", "let %acc : f32x2147483648 =", "E060")
edited("a local array of 2^62 elements", STORED, "lower", r"    parallel for %i", '    local @big : f32[4611686018427387904] local;\n    parallel for %i', code=1)
edited("a dim of 2^63 - 1", LISTED, "canon", r"dim T : dyn", "dim T = 9223372036854775807", "start from the .spx file", code=2)
edited("a tensor like itself", STORED, "canon", r"as csr like A", "as csr like B", "E060")
edited("tensors like each other", STORED, "canon", r"in A : f32\[N, M\] as csr", "in A : f32[N, M] as csr like B", "E060")
edited("a segment that is itself", STORED, "canon", r"index (\w+) : N in off\[(\w+)\]", r"index \1 : N in off[\1]", "E060")
edited("a tensor that is read before it is computed", LISTED, "canon", r"  stmt h\[(?:.|\n)*?;\n(?=  stmt)", "", "E0605", "`h`")
edited("offsets that are computed", STORED, "canon", r"in off\[", "in y[", "E0605")
edited("a statement of an input", LISTED, "canon", r"stmt h\[t, f\]", "stmt x[t, f]", "E060")
edited("two statements of one tensor", LISTED, "canon", r"(  stmt y\[(?:.|\n)*?;\n)", r"\1\1", "E060")
edited("two kernels of one name", LISTED, "canon", r"(kernel k \{(?:.|\n)*?\n\}\n)", r"\1\1", "E0604", "twice")
edited("two tensors of one name", LISTED, "canon", r"(  in x [^\n]*\n)", r"\1\1", "E060")
edited("two functions of one name", STORED, "lower", r"(  func k\.y \{(?:.|\n)*?\n  \}\n)", r"\1\1", "E060")
edited("a local inside itself", STORED, "lower", r"let %acc : f32 = 0\.0_f32", "let %acc : f32 = %acc", "E060")
edited("a parallel loop inside another", STORED, "lower", r"for %p_A =", "parallel for %p_A =", "E0605", "parallel")
edited("a loop whose step is 0", STORED, "lower", r"(parallel for %i = 0 \.\. \w+)", r"\1 step 0", "E0605", "step")
edited("a read before an array", STORED, "lower", r"@A\.vals\[%p_A\]", "@A.vals[%p_A - 1000]", "E0715", "A.vals")
edited("a read far behind an array", STORED, "lower", r"@A\.vals\[%p_A\]", "@A.vals[%p_A + 9223372036854775807]", "E0715", "A.vals")
edited("a write behind an array", STORED, "lower", r"@y\.vals\[%i\]", "@y.vals[%i + 6]", "E0715", "y.vals")
edited("a range that cannot be computed", STORED, "lower", r"parallel for %i = 0 \.\. N", "parallel for %i = 0 .. N / 0", "E06")
KERNEL = "spc.ir 1;\ntarget cpu;\ndim N : dyn;\nkernel k {\n  in x : f32[N] as dense;\n  out y : f32[N] as dense;\n  index i : N;\n  stmt y[i] = %s for i acc f32;\n}\n"
accepted("IR by hand", spc("compile", write("hand.ir", KERNEL % "x[i]")))
for what, text in (("100000 brackets", KERNEL % ("(" * 100000 + "x[i]" + ")" * 100000)), ("100000 functions in each other", KERNEL % ("neg(" * 100000 + "x[i]" + ")" * 100000)), ("100000 terms", KERNEL % " + ".join(["x[i]"] * 100000)),
                   ("a name of 10^6 letters", KERNEL % ("x" * 1000000 + "[i]")),
                   ("blocks in blocks", KERNEL.replace("stmt y", "func f {" + "if true {" * 50000 + "}" * 50000 + "}\n stmt y") % "x[i]"), ("NUL bytes", KERNEL % "x[i] \0 + x[i]"), ("invalid UTF-8", (KERNEL % "x[i]").encode().replace(b"kernel k", b"kernel \xff\xc3"))):
    refused("IR, " + what, (1,), spc("compile", write("hand.ir", text), timeout=60), "hand.ir:")
accepted("IR, 100000 dims", spc("compile", write("hand.ir", KERNEL.replace("dim N", "".join("dim N%d : dyn;\n" % i for i in range(100000)) + "dim N") % "x[i]"), "--target=cpu", timeout=60))
r = spc("compile", write("hand.ir", (KERNEL % "x[i]").replace("kernel k", 'kernel "../../escaped"')), "--emit=ein", "-o", path("emitted") + "/")
check("a kernel's name leads out of no folder", r.returncode == 0 and len(os.listdir(path("emitted"))) == 1 and not [n for n in os.listdir(os.path.dirname(TMP)) if n.startswith("escaped")], r.stderr)


# Lines left out or doubled, numbers and dtypes changed, anywhere: whatever it means then, it is an answer.
def edits(text):
    lines = text.splitlines(True)
    for i, line in enumerate(lines):
        if not line.strip():
            continue
        yield "without line %d" % i, "".join(lines[:i] + lines[i + 1:])
        yield "with line %d twice" % i, "".join(lines[:i + 1] + lines[i:])
        for m in re.finditer(r"(?<![\w.])\d+(?![\w.])|\b(?:f32|i32|i64|b1|f64)\b", line if "for " not in line and "while" not in line else ""):
            for new in ("0", "-1", "7", "2147483648", "9223372036854775807") if m.group()[0].isdigit() else ("f64", "i32", "b1", "bf16"):
                yield "line %d: %s" % (i, (line[:m.start()] + new + line[m.end():]).strip()[:90]), "".join(lines[:i] + [line[:m.start()] + new + line[m.end():]] + lines[i + 1:])

draw = random.Random(11)
for (f, p), text in dumps.items():
    every, bad = list(edits(text)), []
    for what, variant in draw.sample(every, min(30, len(every))):
        emit = draw.choice(("--emit=loop", "--emit=dot", "--emit=llvm" if "cpu" in backends() else "--emit=tile"))
        for command in (["run", write("e.ir", variant), INTERP, *DATA[f]], ["compile", path("e.ir"), emit]):
            try:
                r = spc(*command, timeout=20 if command[0] == "compile" else 5)
            except subprocess.TimeoutExpired:  # a loop that has lost its end runs as written
                if command[0] == "compile":
                    bad.append((what, command, "it does not end"))
                continue
            if r.returncode not in (0, 1, 2) or (r.returncode and not r.stderr) or "Sanitizer" in r.stderr:
                bad.append((what, r.returncode, r.stderr[:300]))
    check("IR of %s after %s, edited anywhere: an answer each time" % (os.path.basename(f), p), not bad, "\n".join(map(str, bad[:4])))

# ---- more than a launch takes -------------------------------------------------------------------------------------------
def many(arrays, dims=1):
    return write("many.spx", "spx 1; " + "".join("dim N%d: dyn; " % d for d in range(dims)) + "kernel k { " + "".join("in x%d: f32[N%d]; " % (i, 0) for i in range(arrays)) +
                 "".join("in z%d: f32[N%d]; " % (d, d) for d in range(1, dims)) + "out y[i] = " + " + ".join("x%d[i]" % i for i in range(arrays)) + "; }")

accepted("31 arrays and a result on CUDA", spc("compile", many(31), "--target=sm_90a", "--emit=cuda"))
refused("32 arrays and a result on CUDA", (1,), spc("compile", many(32), "--target=sm_90a", "--emit=cuda"), "E0606", "33 arrays", "`let`")
accepted("32 dims on CUDA", spc("compile", many(1, 32), "--target=sm_90a", "--emit=cuda"))
refused("33 dims on CUDA", (1,), spc("compile", many(1, 33), "--target=sm_90a", "--emit=cuda"), "E0606", "33 dims")
if "cpu" in backends():
    accepted("40 arrays and 40 dims on the CPU", spc("compile", many(40, 40), "--target=cpu", "--emit=llvm"))

# ---- libraries that are not there ---------------------------------------------------------------------------------------
broken = write("broken.so", "no library\n")
for what, library in (("absent", path("absent.so")), ("broken", broken), ("a folder", TMP)):
    env = {"SPC_CUDA_LIB": library, "SPC_NVRTC_LIB": library}
    refused("the driver is %s: --backend=cuda" % what, (4,), spc("run", DENSE, "--backend=cuda", "--bind", "x=" + path("good.npy"), env=env), "E0901")
    refused("NVRTC is %s: --emit=cubin" % what, (4,), spc("compile", DENSE, "--target=sm_90a", "--emit=cubin", "-o", path("k.cubin"), env=env), "E0903")
    check("NVRTC is %s: nothing is written" % what, not os.path.exists(path("k.cubin")))
    accepted("NVRTC is %s: the text is printed all the same" % what, spc("compile", DENSE, "--target=sm_90a", "--emit=cuda", env=env))
    accepted("NVRTC is %s: doctor says so" % what, spc("doctor", env=env))
    r = spc("run", DENSE, "--backend=cuda", "--fallback=interp", "--bind", "x=" + path("good.npy"), env=env)
    check("the driver is %s: --fallback runs elsewhere, with a remark" % what, r.returncode == 0 and "R0901" in r.stderr, r.stderr)
if "cpu" not in backends():
    refused("LLVM is not in this build: --backend=cpu", (4,), spc("run", DENSE, "--backend=cpu", "--bind", "x=" + path("good.npy")), "E0902")

# ---- NaN and Inf --------------------------------------------------------------------------------------------------------
rng = np.random.default_rng(5)
A = sp.random(13, 17, 0.3, random_state=2, dtype=np.float32, format="csr")
x = rng.normal(size=17).astype(np.float32)
x[[2, 5, 11]] = np.nan, np.inf, -np.inf
A.data[3] = np.inf
sp.save_npz(path("A.npz"), A), np.save(path("x.npy"), x), np.save(path("D.npy"), A.toarray())
SPMV = "spx 1; dim N: dyn; dim M: dyn; kernel k { in A: f32[N,M]%s; in x: f32[M]; out y[i] = sum[j] A[i,j]*x[j]; }\n"
with np.errstate(all="ignore"):
    strict = (A.toarray().astype(np.float64) * x).sum(1)
    skipping = np.array([sum((float(v) * float(x[j]) for j, v in zip(A.indices[A.indptr[i]:A.indptr[i + 1]], A.data[A.indptr[i]:A.indptr[i + 1]])), 0.0) for i in range(13)])
same = lambda got, want: np.allclose(got, want, rtol=1e-5, atol=1e-5, equal_nan=True)
check("the two meanings differ on this data", not same(strict, skipping))
for backend in backends():
    for fmt, source in ((" as csr", "A.npz"), (" as csc", "A.npz"), (" as bitmap(4,4)", "A.npz"), ("", "D.npy")):
        run = lambda *more: spc("run", write("spmv.spx", SPMV % fmt), "--backend=" + backend, "--bind", "A=" + path(source), "--bind", "x=" + path("x.npy"), "--out", "y=" + path("y.npy"), *more)
        r = run("--strict-nan")
        check("NaN and Inf on %s%s with --strict-nan: IEEE, every zero counts" % (backend, fmt), r.returncode == 0 and same(np.load(path("y.npy")), strict), "%s\n%s\n%s" % (r.stderr, np.load(path("y.npy")), strict))
        r = run()
        got = np.load(path("y.npy"))
        check("NaN and Inf on %s%s: what no stored zero meets spreads as IEEE says" % (backend, fmt), r.returncode == 0 and (same(got, skipping) or (fmt == "" and same(got, strict))), "%s\n%s\n%s" % (r.stderr, got, skipping))

# ---- --check-inputs -------------------------------------------------------------------------------------------------------
GATHER = write("gather.spx", "spx 1; dim R: dyn; dim N: dyn; dim D = 3; kernel k { in x: f32[N,D]; in p: i32[R]; out y[r,d] = x[p[r],d]; }\n")
RAGGED = write("ragged.spx", open(os.path.join(ROOT, "examples/ragged.spx")).read())
np.save(path("table.npy"), np.arange(12, dtype=np.float32).reshape(4, 3) + 1)
for what, values in (("negative", [0, -1, 2]), ("too large", [0, 4, 2]), ("the least i32", [0, -2 ** 31, 2]), ("the largest i32", [2 ** 31 - 1, 0, 1])):
    np.save(path("p.npy"), np.array(values, np.int32))
    want = np.array([(np.load(path("table.npy"))[v] if 0 <= v < 4 else np.zeros(3)) for v in values], np.float32)
    for backend in backends():
        bind = ["run", GATHER, "--backend=" + backend, "--bind", "x=" + path("table.npy"), "--bind", "p=" + path("p.npy")]
        r = spc(*bind, "--out", "y=" + path("y.npy"))
        check("a subscript that is %s reads 0 on %s" % (what, backend), r.returncode == 0 and np.array_equal(np.load(path("y.npy")), want), r.stderr)
        refused("a subscript that is %s, with --check-inputs on %s" % (what, backend), (1,), spc(*bind, "--check-inputs"), "E0705", "`p`")
close()
