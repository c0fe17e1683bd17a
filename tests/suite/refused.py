"""What the compiler refuses, against the committed table tests/matrix/refused.txt: every expression of the matrix with every
operand format and every result format.  A refusal that has no row fails, and so does a row that no longer refuses.

A row is `CODE  EXPRESSION : operand format -> result format`, `*` for every sparse result; `--write` prints the table as it
would be now."""
import re
from harness_data import *

TABLE = os.path.join(ROOT, "tests/matrix/refused.txt")
CASES = open(os.path.join(ROOT, "tests/matrix/cases.h")).read()
EXPRESSIONS = re.findall(r'\{"(\w+)", "([^"]+)", "([^"]+)", "\w+", (\d),', CASES)
MATRICES = ["dense"] + [f for f in re.findall(r'"([^"]*)"', re.search(r"matrix_formats2\[\] = \{([^}]*)\}", CASES).group(1)) if f]
RESULTS = ["csr", "csc", "coo", "dcsr", "bsr(2,3)", "ell(40)", "csf", "bitmap(4,4)", "own(2)", "twell(4,1)"]
TARGETS = ["cpu", "sm_90a"]
HEAD = "spx 1; dim N: dyn; dim M: dyn; dim K: dyn; format own(b) = [i,j] -> [ j/b: compressed, i: compressed, j%b: dense ];\n"


def stored_as(rank, form):
    """The format of an operand of this rank, where its matrices are stored as `form`."""
    if form in ("dense", "dense_t"):
        return form if rank == 2 else "dense"
    return form if rank == 2 else "coo" if rank == 1 else "csf"


def kernel(name, expression, form, result):
    _, operands, text, dims = expression
    lines = ""
    for o, shape, places in re.findall(r"(\w+):([^\s:]+)(:\S+)?", operands):
        lines += " in %s: %s[%s] as %s;" % (o, "i32" if places else "f32", shape, "dense" if places else stored_as(shape.count(",") + 1, form))
    if result != "dense" and "$C" in text:
        text = text.replace("$C", " as " + result)
    elif result != "dense" and " as " not in text:
        text = text.rstrip(";") + " as " + result + ";"
    text = text.replace("$C", "").replace("@", "f32")
    return "kernel %s {%s %s }" % (name, lines, text)


def cells(expression):
    for form in MATRICES:
        yield form, "dense"
    for form in ("dense", "csr", "coo", "bsr(2,3)"):
        for result in RESULTS if expression[3] == "2" else ():
            yield form, result


def refusals(target):
    """Code of every refused cell.  Refused kernels are taken out of a file until the rest compiles."""
    found = {}
    for expression in EXPRESSIONS:
        left = list(cells(expression))
        while left:
            text = HEAD + "\n".join(kernel("k%d" % n, expression, *c) for n, c in enumerate(left))
            r = spc("compile", write("cells.spx", text), "--target=" + target, "--emit=loop", "-o", path("loop/"), "--diagnostics=json")
            errors = [d for d in map(json.loads, filter(lambda l: l.startswith("{"), r.stderr.splitlines())) if str(d.get("code", "")).startswith("E")]
            lines = {d["line"] - 2: d["code"] for d in errors if d.get("line", 0) >= 2}
            if r.returncode == 0:
                break
            if not check("%s for %s is compiled or refused with places" % (expression[0], target), lines and r.returncode == 1, r.stderr[:800]):
                break
            for n, code in lines.items():
                found[(expression[0],) + left[n]] = code
            left = [c for n, c in enumerate(left) if n not in lines]
    return found


rows = {}
for line in open(TABLE) if os.path.exists(TABLE) else ():
    m = re.match(r"(E\d{4})\s+(\w+) : (\S+) -> (\S+)$", line.strip())
    for result in RESULTS if m and m.group(4) == "*" else [m.group(4)] if m else []:
        rows[m.group(2), m.group(3), result] = m.group(1)
now = {}
for target in TARGETS:
    for cell, code in refusals(target).items():
        check("%s : %s -> %s is refused alike on every target" % cell, now.get(cell, code) == code, "%s and %s" % (now.get(cell), code))
        now[cell] = code
if "--write" in sys.argv:
    for expression, form in sorted({c[:2] for c in now}):
        codes = {c[2]: code for c, code in now.items() if c[:2] == (expression, form)}
        whole = set(RESULTS) == set(codes) and len(set(codes.values())) == 1
        for result in ["*"] if whole else sorted(codes):
            print("%s  %s : %s -> %s" % (codes.get(result, next(iter(codes.values()))), expression, form, result))
    sys.exit(0)
check("the table has rows", rows, TABLE)
for cell in sorted(set(now) | set(rows)):
    what = "%s : %s -> %s" % cell
    if cell not in rows:
        check(what + " has a row in tests/matrix/refused.txt", False, "it is refused with " + now[cell])
    elif cell not in now:
        check(what + " is still refused", False, "its row says " + rows[cell] + "; take the row out")
    else:
        check(what + " is refused with " + rows[cell], now[cell] == rows[cell], "now with " + now[cell])
close()
