"""What the GPU benchmarks print: tables as text; with --json FILE all of them as data, with --svg FOLDER curves of what was measured and predicted.

A script's command line is LIBRARY [--json FILE] [--svg FOLDER] [--repeats N] [part...]."""
import atexit, json, math, os, re, sys

OPTIONS = {"--json": None, "--svg": None, "--repeats": None}
words, i = [], 1
while i < len(sys.argv):
    if sys.argv[i] in OPTIONS and i + 1 < len(sys.argv):
        OPTIONS[sys.argv[i]] = sys.argv[i + 1]
        i += 1
    elif sys.argv[i].startswith("--"):
        sys.exit("%s: %s is no option of it; they are %s, with a value each" % (os.path.basename(sys.argv[0]), sys.argv[i], ", ".join(OPTIONS)))
    else:
        words.append(sys.argv[i])
    i += 1
if not words:
    sys.exit("usage: %s LIBRARY [--json FILE] [--svg FOLDER] [--repeats N] [part...]" % os.path.basename(sys.argv[0]))
LIBRARY, PARTS = words[0], words[1:]
tables, facts = [], {"command": " ".join(sys.argv)}


def section(text):
    """Before a table."""
    print("\n### " + text, flush=True)
    tables.append({"title": text.strip(), "columns": [], "rows": []})


def line(cells):
    print("| " + " | ".join(str(c) for c in cells) + " |", flush=True)


def head(*cells):
    if not tables or tables[-1]["columns"]:
        tables.append({"title": "", "columns": [], "rows": []})
    tables[-1]["columns"] = [str(c) for c in cells]
    line(cells), line(["---"] * len(cells))


def row(*cells):
    line(cells)
    tables[-1]["rows"].append([value_of(str(c)) for c in cells])


def value_of(cell):
    """A number where the cell is one, {"value", "spread"} where a spread stands behind it in brackets, else its text."""
    number = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?"
    found = re.fullmatch(r"(%s)(?: \((%s)\))?" % (number, number), cell)
    if not found:
        return cell
    return float(found[1]) if found[2] is None else {"value": float(found[1]), "spread": float(found[2])}


def write_json():
    if OPTIONS["--json"]:
        with open(OPTIONS["--json"], "w") as f:
            json.dump(dict(facts, tables=tables), f, indent=1, ensure_ascii=False)


atexit.register(write_json)

COLOURS = ("#0b6e99", "#c4501b", "#3d8c40", "#8a4fa3", "#b8860b", "#7a5c48", "#4a4a4a", "#d14b8f")


def break_even(points):
    """Of (share kept, microseconds, the library's): the greatest share below which it is always faster, between points in their logarithms."""
    points, found = sorted(points), None
    for (a, us, ref), (b, next_us, next_ref) in zip(points, points[1:]):
        if us > ref:
            return found
        found = b
        if next_us > next_ref:
            low, high = math.log(ref / us), math.log(next_ref / next_us)
            return math.exp(math.log(a) + (math.log(b) - math.log(a)) * low / (low - high))
    return found


def curves(name, heading, series):
    """series: {label: [(share kept, microseconds, the library's, predicted or None)]}.  NAME.svg: both axes logarithmic; measured whole, predicted dashed,
    the library dotted, a break-even where the first meets the last."""
    folder = OPTIONS["--svg"]
    if not folder:
        return
    wide, high, left, top, below, right = 760, 460, 56, 40, 46, 190
    every = [p for points in series.values() for p in points]
    times = [t for p in every for t in (p[1], p[2], *([p[3]] if p[3] else []))]
    least, most = min(times) * 0.9, max(times) * 1.1
    shares = sorted({p[0] for p in every})
    x = lambda share: left + (math.log(share) - math.log(shares[0])) / (math.log(shares[-1]) - math.log(shares[0])) * (wide - left - right)
    y = lambda us: high - below - (math.log(us) - math.log(least)) / (math.log(most) - math.log(least)) * (high - top - below)
    out = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">' % (wide, high), '<rect width="100%" height="100%" fill="#fff"/>',
           '<text x="%d" y="20" font-size="14">%s</text>' % (left, heading), '<text x="%d" y="%d">share kept</text>' % ((left + wide - right) / 2 - 30, high - 8),
           '<text x="8" y="%d">µs</text>' % (top - 4)]
    for share in shares:
        out.append('<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#eee"/><text x="%.1f" y="%d" text-anchor="middle">%g %%</text>' % (x(share), top, x(share), high - below, x(share), high - below + 16, 100 * share))
    for us in (u * 10 ** e for e in range(0, 7) for u in (1, 2, 3, 5, 7)):
        if least <= us <= most:
            out.append('<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#eee"/><text x="%d" y="%.1f" text-anchor="end">%g</text>' % (left, y(us), wide - right, y(us), left - 6, y(us) + 4, us))
    path = lambda points: " ".join("%.1f,%.1f" % (x(a), y(b)) for a, b in sorted(points))
    out.append('<polyline points="%s" fill="none" stroke="#888" stroke-dasharray="2 3"/>' % path([(s, sum(p[2] for p in every if p[0] == s) / sum(p[0] == s for p in every)) for s in shares]))
    out.append('<text x="%d" y="%d" fill="#888">library, dense (dotted)</text>' % (wide - right + 14, top + 6))
    for i, (label, points) in enumerate(series.items()):
        colour, at = COLOURS[i % len(COLOURS)], break_even([p[:3] for p in points])
        out.append('<polyline points="%s" fill="none" stroke="%s" stroke-width="1.8"/>' % (path([p[:2] for p in points]), colour))
        out += ['<circle cx="%.1f" cy="%.1f" r="2.6" fill="%s"/>' % (x(p[0]), y(p[1]), colour) for p in points]
        predicted = [(p[0], p[3]) for p in points if p[3]]
        if len(predicted) > 1:
            out.append('<polyline points="%s" fill="none" stroke="%s" stroke-dasharray="5 4"/>' % (path(predicted), colour))
        says = ", wins below %.2g %%" % (100 * at) if at and at < shares[-1] else ", wins everywhere" if at else ""
        out.append('<text x="%d" y="%d" fill="%s">%s%s</text>' % (wide - right + 14, top + 26 + 18 * i, colour, label, says))
    out.append('<text x="%d" y="%d" fill="#888">dashed: predicted</text></svg>' % (wide - right + 14, top + 30 + 18 * len(series)))
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name + ".svg"), "w") as f:
        f.write("\n".join(out) + "\n")
