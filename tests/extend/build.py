"""Builds the rooms once more with extra rows; usage: build.py BUILD OUT DEFINE... [FILE.c...].

Only files that see a table's length are compiled again (a row at a table's end moves no other row); every other object is
BUILD's.  Commands are those of BUILD, so its LLVM, its compiler and its sanitizers are too.  OUT gets libspc-rooms.so, the
command `spc`, and the unit tests of the op table where BUILD has them."""
import concurrent.futures, os, re, shlex, subprocess, sys

BUILD, OUT = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DEFINES = [a for a in sys.argv[3:] if a.startswith("-D")]
EXTRA = [os.path.abspath(a) for a in sys.argv[3:] if a.endswith(".c")]
SEES_TABLE = re.compile(r"\bIR_OP_COUNT\b|\bir_op_rows\b|\bpass_rows\b|\bpass_row_count\b|ops\.def|pass\.def|\bpass_next\b")
UNITS = ["ir_op.c", "ir_spelling.c", "codegen_cpu_ops.c", "codegen_cpu_run.c"]


def commands(target):
    text = subprocess.run(["ninja", "-C", BUILD, "-t", "commands", target], capture_output=True, text=True, check=True).stdout
    return [line for line in text.splitlines() if line.strip()]


def run(command):
    result = subprocess.run(command, cwd=BUILD, shell=isinstance(command, str), capture_output=True, text=True)
    if result.returncode:
        sys.exit("%s\n%s" % (command if isinstance(command, str) else shlex.join(command), result.stdout + result.stderr))
    return result.stdout + result.stderr


def compilations(lines):
    """{source: words of its compilation}, and the command that links."""
    found = {}
    for line in lines:
        words = shlex.split(line) if " -c " in line else []
        if words and words[words.index("-c") + 1].endswith(".c"):
            found[words[words.index("-c") + 1]] = words
    return found, lines[-1]


def compile_as(words, source, obj):
    """The command that made another file, for this one: extra rows, no dependency files, little optimisation."""
    words, out = list(words), []
    while words:
        word = words.pop(0)
        if word in ("-MT", "-MF", "-o", "-c"):
            words.pop(0)
        elif word != "-MD":
            out.append(word)
    return out + ["-O0", "-g0", *DEFINES, "-o", obj, "-c", source]


def jobs(sources, model):
    work = []
    for source in sources:
        obj = os.path.join(OUT, os.path.relpath(source, ROOT).replace("/", "_") + ".o")
        work.append((source, obj, compile_as(model[source] if source in model else next(iter(model.values())), source, obj)))
    return work


def build(work):
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for text in pool.map(lambda job: run(job[2]), work):
            sys.stdout.write(text)


def object_of(words):
    return words[words.index("-o") + 1]


def main():
    os.makedirs(OUT, exist_ok=True)
    sources, link = compilations(commands("libspc-rooms.so"))
    again = [s for s in sources if os.path.exists(s) and SEES_TABLE.search(open(s).read())]
    work = jobs(again + EXTRA, sources)
    build(work)
    for source, obj, _ in work:
        old = object_of(sources[source]) if source in sources else None
        link = link.replace(" " + old + " ", " " + obj + " ") if old else link.replace(" -o ", " " + obj + " -o ", 1)
    library = os.path.join(OUT, "libspc-rooms.so")
    run(link.replace("-o libspc-rooms.so", "-o " + library))
    compiler = [w for w in next(iter(sources.values())) if os.path.basename(w) != "ccache"][0]
    flags = [w for w in next(iter(sources.values())) if w.startswith("-fsanitize")]
    where = ["-L" + OUT, "-lspc-rooms", "-Wl,-rpath," + OUT]
    main_source = os.path.join(ROOT, "driver/main/spc.c")
    run([compiler, *flags, "-std=c11", "-D_POSIX_C_SOURCE=200809L", "-I" + ROOT, "-I" + os.path.join(ROOT, "include"),
         main_source, "-o", os.path.join(OUT, "spc"), *where])
    print("compiled %d of %d files again" % (len(work), len(sources)))
    for room in ("ir", "codegen"):
        if os.path.exists(os.path.join(BUILD, "tests", "unit-" + room)):
            units, unit_link = compilations(commands("tests/unit-" + room))
            work = jobs([s for s in units if os.path.basename(s) in UNITS], units)
            build(work)
            libraries = [w for w in shlex.split(unit_link) if "criterion" in w.lower()]
            run([compiler, *flags, *[obj for _, obj, _ in work], "-o", os.path.join(OUT, "unit-" + room), *where, *libraries, "-lm"])


main()
