"""The diagnostics that the language asks for, each provoked once: code, place, caret, fix; several errors at once."""
import json, re
import numpy as np
from .harness import *



def said(what, text, code, caret, words=(), fix=None, warning=False, options=()):
    """The first message is `code`, its caret stands under `caret` (its occurrence marked by « in the text), words and fix."""
    at = text.index("«")
    text = text.replace("«", "")
    line, column = text.count("\n", 0, at) + 1, at - (text.rfind("\n", 0, at) + 1) + 1
    assert text[at:].startswith(caret), (what, caret)

    def run():
        r = spc("compile", "-", *options, stdin=text)
        first = re.search(r":(\d+):(\d+): (error|warning)\[(\w+)\]", r.stderr)
        check("%s: %s at %d:%d, exit %d" % (what, code, line, column, 0 if warning else 1), first and r.returncode == (0 if warning else 1) and first.group(4) == code and
              (int(first.group(1)), int(first.group(2))) == (line, column) and (first.group(3) == "warning") == warning, r.stderr + text)
        shown = re.search(r"^ *%d \| (.*)\n *\| ( *)(\^~*)" % line, r.stderr, re.M)
        check("%s: the caret stands under `%s`" % (what, caret), shown and shown.group(1)[len(shown.group(2)):].startswith(caret), r.stderr)
        check("%s: its words" % what, all(w in r.stderr for w in words), "%s missing in\n%s" % ([w for w in words if w not in r.stderr], r.stderr))
        if fix:
            check("%s: a fix" % what, re.search(r"fix: .*" + re.escape(fix), r.stderr) or ("fix" in r.stderr and fix in r.stderr), r.stderr)
        check("%s: one message" % what, len(re.findall(r"(?:error|warning)\[", r.stderr)) == 1, r.stderr)
    job(what, run)


K = "spx 1;\ndim N: dyn;\ndim M: dyn;\nkernel k {\n"
said("unbound index", K + "  in x: f32[N,M];  in v: f32[M];\n  out y[i] = x[i,«j]*v[j];\n}\n", "E0201", "j", ["`j`"], "sum[j]")
said("index at two sizes", K + "  in a: f32[N];  in b: f32[M];\n  out y[i] = a[i] + b[«i];\n}\n", "E0202", "i", ["`a`", "N", "M"])
said("index without a size", K + "  in a: f32[2*N];\n  out y[«i] = a[2*i];\n}\n", "E0203", "i", ["`i`"], ": f32[")
said("hidden reduction", K + "  in x: f32[N,M];  in v: f32[M];\n  out y[t] += relu(x[t,«d]*v[d]);\n}\n", "E0204", "d", ["relu", "`d`"], "sum[d]")
said("sparse output without a pattern", K + "  in a: f32[N,M];\n  out y[i,j] = 2*a[i,j] «as csr;\n}\n", "E0401", "as csr", ["`a`"])
said("sparse output with a full pattern", K + "  in a: f32[N,M] as csr;\n  out y[i,j] = exp(a[i,j]) «as csr;\n}\n", "E0401", "as csr", ["exp"], "like(")
said("scatter without a shape", K + "  in a: f32[N];  in p: i32[N];\n  out «y[p[i]] += a[i];\n}\n", "E0207", "y[p[i]]", ["`y`"], ": f32[")
said("fill that is not the identity", K + "  in a: f32[N,M];  in m: pattern[N,M] as csr;\n  let q[i,j] = a[i,j] on m[i,j] fill «-inf;\n  out y[i] = sum[j] q[i,j];\n}\n", "E0402", "-inf", ["sum", "`q`"], "`0`")
said("ragged index outside its segment", "spx 1;\ndim E: dyn;  dim R: dyn;\nkernel k {\n  in x: f32[R];  in w: f32[E];  in off: i32[E+1];\n  ragged r in off[e]..off[e+1];\n  out y[r] = sum[«e] x[r]*w[e];\n}\n", "E0211", "e", ["`e`", "`r`"])
said("n:m axis not a multiple", "spx 1;\ndim N: dyn;\nkernel k {\n  in q: i8[N,6] as «nm(2,4);\n  out y[i] = sum[j] q[i,j] : i32;\n}\n", "E0403", "nm(2,4)", ["6", "4"])
said("gather deeper than one level", K + "  in a: f32[N];  in p: i32[N];  in q: i32[N];\n  out y[i] = a[p[«q[i]]];\n}\n", "E0208", "q", ["let p[i]"])
said("dtype mismatch", K + "  in a: f32[N];  in n: i32[N];\n  out y[i] = a[i]«*n[i];\n}\n", "E0301", "*", ["f32", "i32"], "cast[f32]")
said("accumulator mismatch", K + "  in a: f32[N];\n  out y[] = sum[i] a[i] : f32 acc «i32;\n}\n", "E0302", "i32", ["f32", "i32"])
said("shadowing", K + "  in a: f32[N];  in b: f32[M];\n  out y[i] = a[i]*sum[«i] b[i];\n}\n", "E0206", "i", ["`i`"])
said("unknown name", K + "  in weight: f32[N,M];\n  out y[i,j] = «wieght[i,j];\n}\n", "E0205", "wieght", ["`wieght`"], "`weight`")
said("size overflow", "spx 1;\ndim N = 9000000000000000000;\n«dim M = N*4;\nkernel k { in x: f32[M]; out y[i] = x[i]; }\n".replace("«dim M = N*4", "dim M = N«*4"), "E0110", "*", [])
said("number overflow", "spx 1;\ndim N = «99999999999999999999;\nkernel k { in x: f32[N]; out y[i] = x[i]; }\n", "E0110", "99999999999999999999", [])
said("rank", K + "  in a: f32[N,M];\n  out y[i] = «a[i];\n}\n", "E0210", "a[i]", ["`a`"])
said("reserved word", K + "  in a: f32[N];\n  out «tile[i] = a[i];\n}\n", "E0105", "tile", ["`tile`"])
said("clause order", K + "  in a: f32[N,M] as csr;\n  out y[i,j] = 2*a[i,j] as csr «: f32;\n}\n", "E0106", ":", [])
said("use before definition", K + "  in a: f32[N];\n  out y[i] = «h[i];\n  let h[i] = a[i];\n}\n", "E0213", "h", ["`h`"])
said("defined twice", K + "  in a: f32[N];\n  out y[i] = a[i];\n  out «y[i] = 2*a[i];\n}\n", "E0218", "y", ["`y`"])
said("grad is not there yet", K + "  in a: f32[N];\n  out y[i] = 2*a[i];\n  «grad y wrt a;\n}\n", "E0109", "grad", ["not"])
said("a missing semicolon", K + "  in a: f32[N«]\n  out y[i] = a[i];\n}\n", "E0101", "]", ["`;`"])
said("a condition with a foreign index", K + "  in a: f32[N,M];  in m: pattern[N,M] as csr;\n  out y[i] = sum[j] a[i,j] on m[i,«j];\n}\n", "E0214", "j", ["`j`"])
said("a window that leaves its axis", K.replace("N: dyn", "N = 8") + "  in a: f32[N];  in w: f32[3];\n  out y[i] = sum[q] w[q]*a[«i+q] : f32[N];\n}\n", "E0212", "i+q", ["`a`"])
said("a directive of an unknown tensor", K + "  in a: f32[N,M];\n  let h[i,j] = relu(a[i,j]);\n  out y[i] = sum[j] h[i,j];\n}\nschedule k { dense «hh; }\n", "E0503", "hh", ["`hh`"], "`h`")
said("an unknown schedule target", K + "  in a: f32[N];\n  out y[i] = a[i];\n}\nschedule k for «sm90 { stages 2; }\n", "E0504", "sm90", ["sm90"])


def compact():
    for body, statement in (("let h[i] = relu(x[i]) ~ zeros(dynamic); out y[t] = sum[q] w[q]*h[t+q] : f32[N-2];", "y"), ("let h[i] = relu(x[i]) ~ zeros(dynamic); out y[] = argmax[i] h[i]; out z[j] = w[j];", "y")):
        r = spc("compile", "-", "--target=cpu", stdin="spx 1; dim N: dyn;\nkernel k { in x: f32[N]; in w: f32[3]; %s }\nschedule k { compact h axis=i gran=1x1; }\n" % body)
        check("compact on an axis that is not permutation invariant names the statement", r.returncode == 1 and re.search(r"E05(01|11)", r.stderr) and "`%s`" % statement in r.stderr.replace("'", "`") and "compact" in r.stderr, r.stderr)


job("compact", compact)


def unused():
    r = spc("compile", "-", stdin="spx 1;\ndim N: dyn;\ndim Z: dyn;\nkernel k {\n  in a: f32[N];  in b: f32[N];\n  let h[i] = 2*a[i];\n  out y[i] = a[i];\n}\n")
    lines = sorted(int(l) for l in re.findall(r":(\d+):\d+: warning\[W\d+\]", r.stderr))
    check("an unused dim, input and let are three warnings, exit 0", r.returncode == 0 and lines == [3, 5, 6] and all("`%s`" % n in r.stderr for n in ("Z", "b", "h")), r.stderr)
    r = spc("compile", "-", "--Werror", stdin="spx 1;\ndim N: dyn;\ndim Z: dyn;\nkernel k { in a: f32[N]; out y[i] = a[i]; }\n")
    check("--Werror makes them exit 1", r.returncode == 1, r.stderr)


job("unused", unused)


def five():
    pieces = ["  out a[i] = x[i,j];", "  out b[i] = xx[i,0];", "  out c[i] = v[i]*n[i];", "  out d[p[i]] += v[i];", "  out e[i] = exp(n[i]);", "  out f[i] = sum[i] v[i];", "  out g[i] = v[i,0];",
              "  out h[i] = v[i] +;", "  out l[i] = relux(v[i]);", "  in q: f33[N];", "  out m[i,j] = exp(s[i,j]) as csr;", "  out r[i] = v[i] : f32 acc i32;"]
    head = "spx 1;\ndim N: dyn;  dim M: dyn;\nkernel k {\n  in x: f32[N,M];  in v: f32[N];  in n: i32[N];  in p: i32[N];  in s: f32[N,M] as csr;\n"
    rng = np.random.default_rng(5)
    for k in range(12):
        chosen = rng.choice(len(pieces), 5, replace=False)
        text = head + "\n".join(pieces[c] for c in chosen) + "\n  out ok[i] = v[i]*cast[f32](n[i]) + x[i,0] + s[i,0] + cast[f32](p[i]);\n}\n"
        r = spc("compile", "-", stdin=text)
        lines = [int(l) for l in re.findall(r":(\d+):\d+: error\[", r.stderr)]
        check("five unrelated errors are exactly five, in the order of the text", r.returncode == 1 and lines == [5, 6, 7, 8, 9], "%s\n%s%s" % (lines, r.stderr, text))


job("five", five)


def limits():
    r = spc("compile", "-", stdin="spx 1; kernel k {\n" + "  out y = q;\n" * 100 + "}\n".replace("y", "z"))
    many = "spx 1; kernel k {\n" + "".join("  out y%d = q%d;\n" % (i, i) for i in range(100)) + "}\n"
    r = spc("compile", "-", stdin=many)
    check("at most 20 errors and 4 kB, with a count", r.returncode == 1 and len(re.findall(r"error\[", r.stderr)) <= 20 and len(r.stderr) <= 4200 and re.search(r"\b(80|100)\b|more", r.stderr), "%d bytes\n%s" % (len(r.stderr), r.stderr[-300:]))
    wide = "spx 1; dim N: dyn; kernel k { in x: f32[N]; out y[i] = " + "x[i] + " * 60 + "zz[i] + " + "x[i] + " * 60 + "x[i]; }\n"
    r = spc("compile", "-", stdin=wide)
    check("the source line is cut to 120 columns around the caret", r.returncode == 1 and "zz[i]" in r.stderr and max(map(len, r.stderr.splitlines()[1:])) <= 130, r.stderr)
    r = spc("compile", "-", stdin="spx 1; dim N: dyn; kernel k { in x: f32[N]; out y[i] = \x07\x1b[31m x[i]; }\n")
    check("non-printing bytes are escaped", r.returncode == 1 and "\x1b" not in r.stderr and "\x07" not in r.stderr, repr(r.stderr))
    r = spc("compile", "-", stdin="spx 1; kernel k { in x: f32[]; out y = " + "(" * 5000 + "x" + ")" * 5000 + "; }")
    check("nesting deeper than the limit", r.returncode == 1 and "E0107" in r.stderr and len(re.findall(r"error\[", r.stderr)) == 1, r.stderr[:600])
    r = spc("compile", "-", stdin="spx 2; kernel k { }")
    check("an unknown version", r.returncode == 1 and "E0108" in r.stderr, r.stderr)
    for line in spc("compile", "-", "--diagnostics=json", stdin=many).stderr.strip().splitlines():
        d = json.loads(line)
    check("JSON diagnostics carry place and code", d and {"code", "severity", "message"} <= set(d), d)


job("limits", limits)
