"""`spc explain --html`: well-formed, needing nothing else, saying what `spc explain --json` says, and drawn by a browser
where one is here."""
import glob, re, shutil, struct, xml.etree.ElementTree, zlib
from html.parser import HTMLParser
import numpy as np
from harness_data import *

VOID = {"meta", "br", "hr", "img", "input", "link"}


class Strict(HTMLParser):
    """Every element is closed in order; what is fetched from elsewhere, and every script, is noted."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.faults, self.ids, self.links, self.text, self.count = [], [], [], [], [], {}

    def handle_starttag(self, tag, attributes):
        self.count[tag] = self.count.get(tag, 0) + 1
        given = dict(attributes)
        if len(given) != len(attributes):
            self.faults.append("an attribute twice in <%s>" % tag)
        if tag == "script" or any(k.startswith("on") for k in given) or given.keys() & {"src", "srcset", "data"}:
            self.faults.append("<%s %s> wants more than the page" % (tag, given))
        self.ids += [given["id"]] if "id" in given else []
        self.links += [given["href"]] if "href" in given else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open[-1] != tag:
            self.faults.append("</%s> closes %s (line %d)" % (tag, self.open[-3:], self.getpos()[0]))
        else:
            self.open.pop()

    def handle_data(self, data):
        self.text.append(data)


def page(what, *arguments):
    r = spc("explain", *arguments, "--html")
    if not check("%s: the page is written" % what, r.returncode == 0 and r.stdout.startswith("<!DOCTYPE html>"), r.stderr):
        return None, "", ""
    p = Strict()
    p.feed(r.stdout)
    p.close()
    style = "".join(re.findall(r"<style>(.*?)</style>", r.stdout, re.S))
    check("%s: it is well-formed" % what, not p.faults and not p.open, p.faults[:5] + p.open)
    check("%s: it needs nothing else" % what, not re.search(r"url\(|@import|https?:", style) and all(l.startswith("#") for l in p.links), p.links)
    check("%s: its links lead somewhere" % what, len(set(p.ids)) == len(p.ids) and all(l[1:] in p.ids for l in p.links), (p.ids, p.links))
    for n, svg in enumerate(re.findall(r"<svg.*?</svg>", r.stdout, re.S)):
        try:
            numbers = [float(v) for e in xml.etree.ElementTree.fromstring(svg).iter() for k, v in e.items() if k in ("x", "y", "cx", "cy", "x1", "x2", "y1", "y2")]
            good = all(-60 <= v <= 900 for v in numbers)
            names, dots = [e for e in xml.etree.ElementTree.fromstring(svg).iter() if e.tag.endswith("text") and e.get("class") in ("strong", "label") and e.get("x")], []
            boxes = [(float(e.get("x")) - {"start": 0, "middle": 0.5, "end": 1}[e.get("text-anchor")] * 6.5 * len(e.text), float(e.get("y")), 6.5 * len(e.text), e.text) for e in names]
            dots = [(float(e.get("cx")), float(e.get("cy"))) for e in xml.etree.ElementTree.fromstring(svg).iter() if e.tag.endswith("circle") and e.get("r") == "9"]
            over = [(a[3], b[3]) for i, a in enumerate(boxes) for b in boxes[:i] if a[0] < b[0] + b[2] and b[0] < a[0] + a[2] and abs(a[1] - b[1]) < 10]
            over += [(a, b) for i, a in enumerate(dots) for b in dots[:i] if (a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2 < 18 ** 2]
            check("%s: in plot %d nothing is written over another" % (what, n), not over, over)
        except (xml.etree.ElementTree.ParseError, ValueError) as e:
            good = False
        check("%s: drawing %d is XML, and stays inside" % (what, n), good, svg[:400])
    return p, "".join(p.text).replace("\u00a0", " "), r.stdout


# ---- every example, on every target --------------------------------------------------------------------------------------
for f in sorted(glob.glob(os.path.join(ROOT, "examples/*.spx"))):
    for target in ("sm_90a",) + ("cpu",) * found("LLVM"):
        p, text, html = page("%s for %s" % (os.path.basename(f), target), f, "--target=" + target)
        if not p:
            continue
        data = json.loads(spc("explain", f, "--target=" + target, "--json").stdout)
        for kernel in data:
            check("%s: %s is there" % (os.path.basename(f), kernel["kernel"]), "Kernel " + kernel["kernel"] in text)
            candidates = [c["label"] for c in kernel.get("candidates", [])]
            check("every candidate too", all(text.count(label) >= candidates.count(label) for label in candidates), candidates)
        passes = [l.split("|")[2].strip(" `") for l in spc("show", "passes").stdout.splitlines()[2:]]
        shown = [n for n in passes if re.search(r"<b>%s \(\d+\)</b>" % n, html)]
        wanted = [n for n in passes if n not in ("vectorise" if target != "cpu" else "gpu_map",)]
        check("%s for %s: every pass is shown" % (os.path.basename(f), target), shown == wanted, (shown, wanted))
page("for the interpreter", "examples/ffn.spx", "--target=interp")

# ---- what the page says -----------------------------------------------------------------------------------------------------
rng = np.random.default_rng(3)
h = np.zeros((256, 512), "f4")
h[:, rng.choice(512, 40, replace=False)] = 1.0
h[rng.random((256, 512)) < 0.5] = 0
np.save(path("h.npy"), h)
FFN = ["examples/ffn.spx", "--target=sm_90a"]
p, text, html = page("a mask", *FFN, "-D", "D=2048", "-D", "F=8192", "-D", "T=2048", "--bind", "h=zeros:0.03:32x1:5")
data = json.loads(spc("explain", *FFN, "-D", "D=2048", "-D", "F=8192", "-D", "T=2048", "--json").stdout)[0]
guard = [c for c in data["candidates"] if c.get("break_even_cover") and c["verdict"] == "chosen"]
check("the ring stands at the guard's break-even", guard and re.search(r'class="strong">%.3g</text>' % guard[0]["break_even_cover"], html), guard)
check("the lists' line and the dense one cross there", 'class="sparse"' in html and 'class="dense"' in html)
check("the zeros say which branch runs", guard and re.search(r"density 0\.0\d+\. Of its micro-tiles of %d by %d, [\d.]+ %% hold one: a cover of [\d.]+, below the break-even of [\d.]+, so the sparse branch runs" % (guard[0]["strip"], guard[0]["gran"]), text), text[text.find("density"):][:400])
p, text, html = page("a file", *FFN, "-D", "D=256", "-D", "F=512", "--bind", "h=" + path("h.npy"))
density = np.count_nonzero(h) / h.size
check("a file settles the sizes, and its density is counted", "T = 256 (here)" in text and "256 by 512, %d non-zeros, density %.3g" % (np.count_nonzero(h), density) in text)
cells = re.findall(r'class="cell" x="(\d+)" y="(\d+)"', html)
live = {(c * 128 // 512 * 6, r * 64 // 256 * 6) for r, c in zip(*np.nonzero(h))}
check("its cells are where its non-zeros are", {(int(x), int(y)) for x, y in cells} == live, (len(cells), len(live)))
source = write("odd.spx", 'spx 1; // <b>&"odd"</b>\ndim N: dyn; kernel odd { in x: f32[N]; in z: f32[N]; out y[i] = where(x[i] < z[i] and x[i] > 0, x[i], z[i]); }\n')
p, text, html = page("text that HTML would read", source)
check("it is shown as it stands", re.search(r"x\[i\] < z\[i\]", text), text[-1500:])
check("one kernel of several", page("--kernel", "examples/spmm.spx", "--kernel", json.loads(spc("explain", "examples/spmm.spx", "--json").stdout)[1]["kernel"])[2].count("<section id=\"kernel") == 1)
check("without scripts it reads: details are elements, and the first program is there", p.count.get("details", 0) >= 8 and p.count.get("summary") == p.count.get("details"))
for arguments, code, words in [(["--bind", "q=" + path("h.npy")], 2, "no tensor"), (["--bind", "h=" + path("absent.npy")], 5, "No such file"), (["--bind", "h=zeros:1"], 2, "zeros:DENSITY"),
                               (["-o", path("no/where.html")], 5, "cannot write")]:
    r = spc("explain", *FFN, "-D", "T=4", "-D", "D=64", "-D", "F=64", "--html", *arguments)
    check("%s is answered" % " ".join(arguments)[:30], r.returncode == code and words in r.stderr, "%d %s" % (r.returncode, r.stderr))
check("a file with a mistake has no page", spc("explain", write("bad.spx", "spx 1; kernel k { out y = q; }"), "--html").returncode == 1)

# ---- in a browser -----------------------------------------------------------------------------------------------------------
browser = next((b for b in ("chromium", "chromium-browser", "google-chrome") if shutil.which(b)), None)


def colours(png):
    """How many colours a picture has, and its mean brightness; 8 bits a channel, not interlaced."""
    data, at, body = open(png, "rb").read(), 8, b""
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", data[at + 8:at + 18])
        if kind == b"IDAT":
            body += data[at + 8:at + 8 + size]
        at += size + 12
    channels = {2: 3, 6: 4}[colour]
    rows = np.frombuffer(zlib.decompress(body), np.uint8).reshape(height, 1 + width * channels)
    image, before = np.zeros((height, width, channels), np.uint8), np.zeros((width, channels), np.int64)
    for y in range(height):
        kind, line = rows[y, 0], rows[y, 1:].reshape(width, channels).astype(np.int64)
        if kind == 0: now = line
        elif kind == 2: now = (line + before) & 255
        elif kind == 1: now = np.cumsum(line, axis=0) & 255
        else:
            now, left, corner = np.zeros_like(line), np.zeros(channels, np.int64), np.zeros(channels, np.int64)
            for x in range(width):
                up = before[x]
                if kind == 3: guess = (left + up) // 2
                else:
                    base = left + up - corner
                    a, b, c = abs(base - left), abs(base - up), abs(base - corner)
                    guess = np.where((a <= b) & (a <= c), left, np.where(b <= c, up, corner))
                now[x] = (line[x] + guess) & 255
                left, corner = now[x], up
        image[y], before = now, now
    return len(np.unique(image.reshape(-1, channels), axis=0)), float(image[..., :3].mean())


if not browser:
    skip("the page in a browser: no chromium is here")
else:
    r = spc("explain", *FFN, "-D", "D=2048", "-D", "F=8192", "-D", "T=2048", "--bind", "h=zeros:0.03:32x1:5", "--html", "-o", path("light.html"))
    write("dark.html", open(path("light.html")).read().replace("@media(prefers-color-scheme:dark)", "@media all"))
    for shade in ("light", "dark"):
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--user-data-dir=" + path("profile"), "--window-size=900,1400"]
        try:
            r = subprocess.run(command + ["--screenshot=" + path(shade + ".png"), "file://" + path(shade + ".html")], capture_output=True, text=True, timeout=120)
        except subprocess.TimeoutExpired:
            r = None
        if not r or not os.path.exists(path(shade + ".png")):
            skip("the page in a browser: %s does not start here" % browser)
            break
        count, mean = colours(path(shade + ".png"))
        check("%s: the browser draws it" % shade, count > 60 and (mean > 200 if shade == "light" else mean < 80), (count, mean))
close()
