"""Every snippet in README and docs is run; every table that comes from the program equals what the program prints."""
import glob, re
from harness_data import *

for f in ["README.md"] + sorted(glob.glob(os.path.join(ROOT, "docs/*.md"))):
    text = open(os.path.join(ROOT, f)).read()
    name = os.path.relpath(os.path.join(ROOT, f), ROOT)
    for n, block in enumerate(re.findall(r"^```(?:spx)?\n(spx 1;.*?)^```", text, re.M | re.S)):
        r = spc("compile", write("snippet.spx", block), "--target=" + ("cpu" if found("LLVM") else "interp"))
        check("snippet %d of %s compiles" % (n + 1, name), r.returncode == 0, block[:300] + r.stderr)
    for command, table in re.findall(r"<!-- `spc ([^`]*)` -->\n(.*?)<!-- end -->", text, re.S):
        r = spc(*command.split())
        check("the table of `spc %s` in %s is the program's" % (command, name), r.stdout.strip() == table.strip(), "script/tables BUILD writes it")
    for path, quote in re.findall(r"<!-- from ([^ ]*) -->\n```\w*\n(.*?)```", text, re.S):
        whole = open(os.path.join(ROOT, path)).read()
        check("%s quotes %s as it is" % (name, path), quote in whole, quote)
    for target in re.findall(r"\]\(([^)#:]+\.md)\)", text):
        check("%s links to %s" % (name, target), os.path.exists(os.path.join(ROOT, os.path.dirname(f) if not f.startswith(ROOT) else os.path.dirname(os.path.relpath(f, ROOT)), target)))
# The keys of a block of the tile program are those that its reader takes.
text, reader = open(os.path.join(ROOT, "docs/ir.md")).read(), open(os.path.join(ROOT, "ir/parse_tile.c")).read()
for block in ("candidate", "list", "stage"):
    fields = re.search(r"%s_fields\[\] = \{(.*?)\};" % block, reader, re.S).group(1)
    taken = {a or b for a, b in re.findall(r'FIELD\(\w+, (\w+),|\{"(\w+)"', fields)}
    told = {key.split()[0] for key in re.findall("`([^`]*)`", re.search(r"^\| `%s .*?` \|(.*)\|$" % block, text, re.M).group(1))}
    check("docs/ir.md tells the keys of a %s" % block, len(taken) > 20 and taken == told, "not told: %s; told: %s" % (sorted(taken - told), sorted(told - taken)))
close()
