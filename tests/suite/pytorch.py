"""Kernels as PyTorch operators: results, `opcheck`, `torch.compile` with sizes that change, gradients against PyTorch's own,
streams, graphs and threads.  On the CPU, and on a GPU where one is; a device after the command's path: on that alone."""
import random, re, threading
import numpy as np
from harness_data import *

if SANITIZED:
    skip("PyTorch operators: a sanitized library cannot be loaded into Python")
    close()
try:
    import torch
except ImportError:
    skip("PyTorch operators: PyTorch is not here")
    close()
sys.path.insert(0, os.path.join(ROOT, "python"))
os.environ["SPC_LIBRARY"] = os.path.join(os.path.dirname(SPC), "libspc.so")
import spc.torch as operators
import spc as package

torch.manual_seed(3)
KINDS = [("cpu", "cpu" if found("LLVM") else "interp")] + [("cuda", "cuda")] * ("cuda" in backends() and torch.cuda.is_available())
KINDS = [k for k in KINDS if len(sys.argv) < 3 or k[0] == sys.argv[2]]

# y = relu(x W) V and its gradients, all of it in one program.
MLP = write("mlp.spx", """spx 1;
dim T: dyn;  dim D = 16;  dim F = 32;  dim O = 8;
kernel mlp {
  in x: f32[T,D];  in W: f32[D,F];  in V: f32[F,O];
  out h[t,f] = relu(sum[d] x[t,d]*W[d,f]);
  out y[t,o] = sum[f] h[t,f]*V[f,o];
}
kernel mlp_backward {
  in x: f32[T,D];  in W: f32[D,F];  in V: f32[F,O];  in h: f32[T,F];  in dh: f32[T,F];  in dy: f32[T,O];
  let g[t,f] = where(h[t,f] > 0, dh[t,f] + sum[o] dy[t,o]*V[f,o], 0);
  out dx[t,d] = sum[f] g[t,f]*W[d,f];
  out dW[d,f] = sum[t] x[t,d]*g[t,f];
  out dV[f,o] = sum[t] h[t,f]*dy[t,o];
}
""")
HALF = "spx 1; dim N: dyn % 2; kernel half { in x: f32[N]; out y[i] = x[2*i] + x[2*i+1] : f32[N/2]; out s = sum[j] x[j]; }"


def near(what, got, want, bound=1e-5):
    got, want = got.detach().float().cpu(), want.detach().float().cpu()
    check(what, got.shape == want.shape and float((got - want).norm()) <= bound * max(float(want.norm()), 1e-30), "%s\n%s" % (got, want))


def raises(kind, words, work):
    try:
        work()
    except kind as e:
        return check("%s says %s" % (kind.__name__, words), all(w in str(e) for w in words), str(e))
    except Exception as e:
        return check("%s is raised: %s" % (kind.__name__, words), False, repr(e))
    check("%s is raised: %s" % (kind.__name__, words), False)


def opcheck(what, op, arguments):
    try:
        torch.library.opcheck(op, arguments)
        check("opcheck: " + what, True)
    except Exception as e:
        check("opcheck: " + what, False, str(e)[-1200:])


for device, backend in KINDS:
    say = lambda what: "%s: %s" % (device, what)

    # ---- the feed-forward layer of the README -----------------------------------------------------------------
    ffn = operators.compile(os.path.join(ROOT, "examples/ffn.spx"), D=64, F=128, backend=backend)
    W1, W2 = (torch.randn(s, device=device, dtype=torch.bfloat16) * 0.1 for s in ((64, 128), (128, 64)))
    plain = lambda x: torch.relu(x.float() @ W1.float()) @ W2.float()
    for tokens in (5, 0, 33):
        x = torch.randn(tokens, 64, device=device, dtype=torch.bfloat16)
        y = ffn(x, W2=W2, W1=W1)
        near(say("%d tokens" % tokens), y, plain(x), 2e-2)
        check(say("a result is a tensor there"), y.dtype == torch.bfloat16 and y.device.type == device)
    opcheck(say("a bf16 layer"), ffn.op, (x, W1, W2))
    check(say("the same kernel is one operator"), operators.compile(os.path.join(ROOT, "examples/ffn.spx"), D=64, F=128, backend=backend) is ffn)

    # ---- several results, a rank of 0, a shape that is an expression ----------------------------------------------
    half = operators.compile(HALF, backend=backend)
    v = torch.arange(6.0, device=device)
    y, s = half(v)
    check(say("two results"), y.tolist() == [1.0, 5.0, 9.0] and float(s) == 15.0 and s.shape == ())
    opcheck(say("a shape that is computed"), half.op, (v,))
    turned = torch.randn(64, 12, device=device).bfloat16().t()
    near(say("a tensor of another order"), ffn(turned, W1, W2), plain(turned), 2e-2)
    columns = operators.compile("spx 1; dim N: dyn; dim M: dyn; kernel columns { in x: f32[N,M] as dense_t; out y[i,j] = 2*x[i,j] as dense_t; }", backend=backend, padded="x")
    x = torch.randn(8, 16, device=device)
    check(say("a layout that is declared"), torch.equal(columns(x), 2 * x) and torch.equal(columns(x[:, 4:12]), 2 * x[:, 4:12]) and columns(x).stride() == (1, 8))
    opcheck(say("a layout that is declared"), columns.op, (x,))

    # ---- gradients ---------------------------------------------------------------------------------------------------
    mlp = operators.compile(MLP, backend=backend)
    opcheck(say("without gradients"), mlp.op, tuple(torch.randn(s, device=device) for s in ((5, 16), (16, 32), (32, 8))))
    opcheck(say("with gradients"), mlp.op, tuple(torch.randn(s, device=device, requires_grad=True) for s in ((5, 16), (16, 32), (32, 8))))
    ours = [torch.randn(s, device=device, requires_grad=True) for s in ((7, 16), (16, 32), (32, 8))]
    theirs = [t.detach().clone().requires_grad_() for t in ours]
    weight = torch.randn(7, 8, device=device)
    h, y = mlp(*ours)
    ((y * weight).sum() + (h ** 2).sum()).backward()
    g = torch.relu(theirs[0] @ theirs[1])
    (((g @ theirs[2]) * weight).sum() + (g ** 2).sum()).backward()
    for name, a, b in zip("xWV", ours, theirs):
        near(say("d%s is PyTorch's" % name), a.grad, b.grad)
    check(say("a result that nobody asks the gradient of"), torch.autograd.grad(mlp(*ours)[1].sum(), ours)[0].shape == (7, 16))
    if device == "cpu":
        small = [t.detach().double() for t in ours]
        forward = operators.compile(open(MLP).read().replace("f32", "f64"), backend=backend)
        check("gradients by finite differences", torch.autograd.gradcheck(lambda x, W, V: forward(x, W, V), [t[:3].clone().requires_grad_() if i == 0 else t.clone().requires_grad_() for i, t in enumerate(small)]))

    # ---- torch.compile: one graph, sizes that change, trained -----------------------------------------------------------
    for mode in ("aot_eager", "inductor"):
        counter = torch._dynamo.testing.CompileCounterWithBackend(mode)
        torch._dynamo.reset()
        layer = torch.compile(lambda x: torch.tanh(ffn(x * 2, W1, W2)) + 1, backend=counter, fullgraph=True, dynamic=True)
        for tokens in (4, 9, 30):
            x = torch.randn(tokens, 64, device=device, dtype=torch.bfloat16)
            near(say("torch.compile (%s), %d tokens" % (mode, tokens)), layer(x), torch.tanh(plain(x * 2)) + 1, 2e-2)
        check(say("%s compiled once for all sizes" % mode), counter.frame_count == 1, counter.frame_count)
    step = torch.compile(lambda x, W, V: (mlp(x, W, V)[1] * weight).sum(), backend="aot_eager", fullgraph=True)
    for t in ours + theirs:
        t.grad = None
    step(*ours).backward()
    ((torch.relu(theirs[0] @ theirs[1]) @ theirs[2]) * weight).sum().backward()
    for name, a, b in zip("xWV", ours, theirs):
        near(say("compiled, d%s is PyTorch's" % name), a.grad, b.grad)
    W, V = (torch.nn.Parameter(torch.randn(s, device=device) * 0.2) for s in ((16, 32), (32, 8)))
    optimiser, data = torch.optim.Adam([W, V], lr=0.02), torch.randn(64, 16, device=device)
    goal, losses = torch.sin(data[:, :8]), []
    for _ in range(60):
        optimiser.zero_grad()
        loss = ((mlp(data, W, V)[1] - goal) ** 2).mean()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    check(say("it can be trained"), losses[-1] < 0.6 * losses[0], (losses[0], losses[-1]))

    def whole(shape, dtype=torch.bfloat16, zeros=None):
        x = torch.randn(shape, device=device)
        return (x if zeros is None else x * (torch.rand(shape, device=device) > zeros)).to(dtype)

    # ---- rows that are no multiples of 16 bytes: copies in front of products and behind them, on a GPU ------------------------
    def odd_rows():
        f = lambda t: t.float()
        odd = "spx 1; dim B = 3; dim T = 520; dim D = 1001; dim F = 1023; kernel odd { %s }"
        x, w, v, batch = whole((520, 1001)), whole((1001, 1023)), whole((1023, 1001)), whole((3, 520, 1001))
        bias, rest, few = whole((1023,), torch.float32), whole((520, 1023)), whole((520, 1001), zeros=0.97)
        for what, text, operands, want in (
                ("a product", "in x: bf16[T,D]; in w: bf16[D,F] const; out y[t,f] = sum[d] x[t,d]*w[d,f] : bf16 acc f32;", (x, w), lambda: f(x) @ f(w)),
                ("W turned, in f32", "in x: bf16[T,D]; in v: bf16[F,D]; out y[t,f] = sum[d] x[t,d]*v[f,d] : f32;", (x, v), lambda: f(x) @ f(v).t()),
                ("an epilogue", "in x: bf16[T,D]; in w: bf16[D,F]; in b: f32[F]; in r: bf16[T,F]; out y[t,f] = r[t,f] + relu(b[f] + sum[d] x[t,d]*w[d,f]) : bf16 acc f32;",
                 (x, w, bias, rest), lambda: f(rest) + torch.relu(bias + f(x) @ f(w))),
                ("a matrix by itself", "in x: bf16[T,D]; out y[t,s] = sum[d] x[t,d]*x[s,d] : bf16 acc f32;", (x,), lambda: f(x) @ f(x).t()),
                ("batches", "in x: bf16[B,T,D]; in w: bf16[D,F]; out y[b,t,f] = sum[d] x[b,t,d]*w[d,f] : bf16 acc f32;", (batch, w), lambda: f(batch) @ f(w)),
                ("zeros known at run time", "in x: bf16[T,D] ~ zeros(dynamic, density=0.01..0.05); in w: bf16[D,F]; out y[t,f] = sum[d] x[t,d]*w[d,f] : bf16 acc f32;",
                 (few, w), lambda: f(few) @ f(w)),
                ("a layer", "in x: bf16[T,D]; in w: bf16[D,F]; in v: bf16[F,D]; let h[t,f] = relu(sum[d] x[t,d]*w[d,f]) : bf16 acc f32 ~ zeros(dynamic, density=0.5); "
                 "out y[t,d] = sum[f] h[t,f]*v[f,d] : bf16 acc f32;", (x, w, v), lambda: torch.relu(f(x) @ f(w)).bfloat16().float() @ f(v))):
            near(say("rows of 1001 and 1023 elements, " + what), operators.compile(odd % text, backend=backend)(*operands), want(), 1e-2)

    odd_rows()

    # ---- products of more indices than matrices have ---------------------------------------------------------------------------
    def more_indices():
        f = lambda t: t.float()
        flat = "spx 1; dim B: dyn; dim T: dyn; dim D: dyn %% 8; dim H: dyn; dim E: dyn %% 8; dim O: dyn %% 8; kernel flat { %s }"
        for b_, t_, d_, h_, e_ in ((3, 50, 64, 4, 24), (2, 129, 72, 3, 128), (1, 1, 40, 5, 8), (5, 7, 8, 1, 16), (2, 64, 1000, 2, 64)):
            x3, x2, w3, wo = whole((b_, t_, d_)), whole((t_, d_)), whole((d_, h_, e_)), whole((h_, e_, d_))
            o3, o4, wb = whole((t_, h_, e_)), whole((b_, h_, t_, e_)), whole((b_, d_, h_, e_))
            r3, bias, long = whole((b_, t_, h_ * e_)), whole((h_, e_), torch.float32), whole((d_, h_ * e_))
            n3, near_e = whole((b_, t_), torch.float32), whole((e_,), torch.bfloat16)
            sizes = " (%d, %d, %d, %d, %d)" % (b_, t_, d_, h_, e_)
            for what, text, operands, want in (
                    ("tokens in batches", "in x: bf16[B,T,D]; in w: bf16[D,O]; out y[b,t,o] = sum[d] x[b,t,d]*w[d,o] : bf16 acc f32;", (x3, long), lambda: f(x3) @ f(long)),
                    ("tokens in batches, an epilogue", "in x: bf16[B,T,D]; in w: bf16[D,O]; in r: bf16[B,T,O]; in s: f32[B,T]; "
                     "out y[b,t,o] = r[b,t,o] + relu(s[b,t]*sum[d] x[b,t,d]*w[d,o]) : bf16 acc f32;", (x3, long, r3, n3), lambda: f(r3) + torch.relu(n3[..., None] * (f(x3) @ f(long)))),
                    ("heads side by side", "in x: bf16[T,D]; in w: bf16[D,H,E]; in c: f32[H,E]; out y[t,h,e] = c[h,e] + sum[d] x[t,d]*w[d,h,e] : bf16 acc f32;",
                     (x2, w3, bias), lambda: bias + torch.einsum("td,dhe->the", f(x2), f(w3))),
                    ("a bias that all heads share", "in x: bf16[T,D]; in w: bf16[D,H,E]; in c: bf16[E]; out y[t,h,e] = c[e] + sum[d] x[t,d]*w[d,h,e] : bf16 acc f32;",
                     (x2, w3, near_e), lambda: f(near_e) + torch.einsum("td,dhe->the", f(x2), f(w3))),
                    ("heads in front", "in x: bf16[T,D]; in w: bf16[D,H,E]; in c: f32[H,E]; out y[h,t,e] = c[h,e] + sum[d] x[t,d]*w[d,h,e] : bf16 acc f32;",
                     (x2, w3, bias), lambda: bias[:, None] + torch.einsum("td,dhe->hte", f(x2), f(w3))),
                    ("heads in front of batches", "in x: bf16[B,T,D]; in w: bf16[D,H,E]; out y[h,b,t,e] = sum[d] x[b,t,d]*w[d,h,e] : bf16 acc f32;",
                     (x3, w3), lambda: torch.einsum("btd,dhe->hbte", f(x3), f(w3))),
                    ("heads summed", "in o: bf16[T,H,E]; in w: bf16[H,E,D]; out y[t,d] = sum[h,e] o[t,h,e]*w[h,e,d] : bf16 acc f32;", (o3, wo), lambda: torch.einsum("the,hed->td", f(o3), f(wo))),
                    ("heads summed that lie apart", "in o: bf16[B,H,T,E]; in w: bf16[H,E,D]; out y[b,t,d] = sum[h,e] o[b,h,t,e]*w[h,e,d] : bf16 acc f32;",
                     (o4, wo), lambda: torch.einsum("bhte,hed->btd", f(o4), f(wo))),
                    ("batches of their own", "in x: bf16[B,T,D]; in w: bf16[B,D,H,E]; out y[b,h,t,e] = sum[d] x[b,t,d]*w[b,d,h,e] : bf16 acc f32;",
                     (x3, wb), lambda: torch.einsum("btd,bdhe->bhte", f(x3), f(wb)))):
                near(say(what + sizes), operators.compile(flat % text, backend=backend)(*operands), want(), 1e-2)

        kept = "spx 1; dim B = 2; dim T = 300; dim D = 1024; dim H = 8; dim E = 64; kernel kept { %s }"
        o, w, q = whole((2, 8, 300, 64)), whole((8, 64, 1024)), torch.randint(-128, 128, (1024, 512), device=device, dtype=torch.int8)
        x, s = whole((2, 300, 512)), whole((1024, 4))
        near(say("heads summed that lie apart, copied"), operators.compile(kept % "in o: bf16[B,H,T,E]; in w: bf16[H,E,D]; out y[b,t,d] = sum[h,e] o[b,h,t,e]*w[h,e,d] : bf16 acc f32;",
             backend=backend)(o, w), torch.einsum("bhte,hed->btd", f(o), f(w)), 1e-2)
        near(say("weights summed that lie apart, copied"), operators.compile(kept % "in o: bf16[B,T,H,E]; in w: bf16[E,H,D]; out y[b,t,d] = sum[h,e] o[b,t,h,e]*w[e,h,d] : bf16 acc f32;",
             backend=backend)(o.transpose(1, 2).contiguous(), w.transpose(0, 1).contiguous()), torch.einsum("bhte,hed->btd", f(o), f(w)), 1e-2)
        near(say("quantised weights with scales of groups"), operators.compile(kept % "in x: bf16[B,T,512]; in q: i8[D,512]; in s: bf16[D,4]; let W[d,c] = q[d,c]*s[d,c/128]; "
             "out y[b,t,d] = sum[c] x[b,t,c]*W[d,c] : bf16 acc f32;", backend=backend)(x, q, s), f(x) @ (q.float() * f(s).repeat_interleave(128, 1)).t(), 1e-2)

    more_indices()

    # ---- products of any indices in any order, some of them alone in an operand ------------------------------------------------
    def random_einsums(count):
        f, draw = lambda t: t.float(), random.Random(20 if device == "cpu" else 21)
        for n in range(count):
            roles = [draw.randint(0, 1), draw.randint(1, 2), draw.randint(1, 2), draw.randint(1, 2)]  # batch, m, n, k
            letters = iter("abdefghi")
            batch, m, nn, k = ([next(letters) for _ in range(r)] for r in roles)
            mixed = lambda *lists: (lambda all: draw.sample(all, len(all)) if draw.random() < 0.5 else all)(sum(lists, []))
            a, b, t = mixed(batch, m, k), mixed(batch, k, nn), mixed(batch, m, nn)
            size = {i: draw.choice((1, 3, 8, 16, 24, 40, 64, 130)) for i in batch + m + nn + k}
            dtype, result = draw.choice((("bf16", "bf16"), ("f16", "f16"), ("bf16", "f32"), ("f32", "f32")))
            kind = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
            x, w = whole([size[i] for i in a], kind[dtype]), whole([size[i] for i in b], kind[dtype])
            c, r = whole([size[i] for i in t[-1:]], torch.float32), whole([size[i] for i in t], kind[result])
            shape = lambda names: ",".join("%d" % size[i] for i in names)
            ending = draw.randint(0, 3)
            value = "sum[%s] x[%s]*w[%s]" % (",".join(draw.sample(k, len(k))), ",".join(a), ",".join(b))
            value = (value, "bias[%s] + %s" % (t[-1], value), "rest[%s] + relu(%s)" % (",".join(t), value), "relu(bias[%s] + 0.5*%s) + rest[%s]" % (t[-1], value, ",".join(t)))[ending]
            ins = "in x: %s[%s]; in w: %s[%s];" % (dtype, shape(a), dtype, shape(b)) + " in bias: f32[%s];" % shape(t[-1:]) * (ending in (1, 3)) + " in rest: %s[%s];" % (result, shape(t)) * (ending > 1)
            text = "spx 1; kernel any_order { %s out y[%s] = %s : %s acc f32; }" % (ins, ",".join(t), value, result)
            want = torch.einsum("%s,%s->%s" % ("".join(a), "".join(b), "".join(t)), f(x), f(w))
            want = (lambda: want, lambda: c + want, lambda: f(r) + torch.relu(want), lambda: torch.relu(c + 0.5 * want) + f(r))[ending]()
            near(say(text), operators.compile(text, backend=backend)(*([x, w] + [c] * (ending in (1, 3)) + [r] * (ending > 1))), want, 1e-2 if dtype != "f32" else 1e-4)

    random_einsums(40)

    # ---- weights of 8 bits, any sizes and scales --------------------------------------------------------------------------------
    def quantised(count):
        draw = random.Random(30 if device == "cpu" else 31)
        for n in range(count):
            tokens, out, group, groups = draw.choice((1, 2, 7, 8, 9, 16, 17, 32, 48, 64, 65, 130, 300)), draw.choice((8, 24, 64, 72, 130, 256, 640)), draw.choice((64, 128, 192, 256)), draw.randint(1, 9)
            inner, scaled = group * groups, draw.random() < 0.7
            dtype, result = draw.choice((("bf16", "bf16"), ("bf16", "f32"), ("f16", "f16"), ("f16", "f32")))
            kind = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
            of_scales = draw.choice(("f32", dtype))
            x, q, c = whole((tokens, inner), kind[dtype]), torch.randint(-128, 128, (out, inner), device=device, dtype=torch.int8), whole((out,), torch.float32)
            s = (whole((out, groups), torch.float32) / 64).to(kind[of_scales])
            value = "sum[k] x[t,k]*q[n,k]" if not scaled else "sum[k] x[t,k]*W[n,k]"
            value = draw.choice((value, "b[n] + " + value, "relu(b[n] + %s)" % value))
            once = draw.choice(("", " const"))
            text = "spx 1; kernel quantised { in x: %s[%d,%d]; in q: i8[%d,%d]%s; in s: %s[%d,%d]%s; in b: f32[%d]; let W[n,k] = q[n,k]*s[n,k/%d]; out y[t,n] = %s : %s acc f32; }" % (
                dtype, tokens, inner, out, inner, once, of_scales, out, groups, once, out, group, value, result)
            wide = q.float() * (s.float().repeat_interleave(group, 1) if scaled else 1)
            want = x.float() @ wide.t() + (c if "b[n]" in value else 0)
            want = torch.relu(want) if "relu" in value else want
            if not scaled:
                text = text.replace("let W[n,k] = q[n,k]*s[n,k/%d]; " % group, "").replace("in s: %s[%d,%d]%s; " % (of_scales, out, groups, once), "")
            used = [x, q] + [s] * scaled + [c] * ("b[n]" in value)
            if "b[n]" not in value:
                text = text.replace(" in b: f32[%d];" % out, "")
            if result == "f16" and not scaled:
                continue  # beyond its range
            near(say(text), operators.compile(text, backend=backend)(*used), want, 1e-2)

    quantised(40)

    # ---- threads; what is wrong -------------------------------------------------------------------------------------------
    results = [None] * 4
    def work(i):
        results[i] = [ffn(torch.full((3 + i, 64), 0.01 * i, device=device).bfloat16(), W1, W2).float().sum().item() for _ in range(30)]
    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    check(say("threads that share an operator"), all(r and len(set(r)) == 1 for r in results), results)
    raises(TypeError, ["`x` is declared bf16"], lambda: ffn(x.float(), W1, W2))
    raises(TypeError, ["lacks `W2`"], lambda: ffn(x, W1))
    raises(package.Error, ["size 63"], lambda: ffn(x[:, :63], W1, W2))
    raises(TypeError, ["as csr", "dense tensors"], lambda: operators.compile("spx 1; dim N: dyn; kernel k { in A: f32[N,N] as csr; out y[i] = sum[j] A[i,j]; }", backend=backend))
    raises(TypeError, ["no backward of", "z"], lambda: operators.compile("spx 1; dim N: dyn; kernel k { in x: f32[N]; out y[i] = 2*x[i]; } kernel k_backward { in z: f32[N]; out dx[i] = 2*z[i]; }", backend=backend))
    if device == "cuda":
        raises(TypeError, ["compiled for the interp back end"], lambda: operators.compile(HALF, backend="interp")(v))
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            y = [ffn(x * k, W1, W2) for k in range(1, 20)][-1]
        stream.synchronize()
        near("on the current stream", y, plain(19 * x), 2e-2)
        graph, held = torch.cuda.CUDAGraph(), x.clone()
        with torch.cuda.graph(graph):
            kept = ffn(held, W1, W2)
        for k in range(3):
            held.copy_(x * (k - 1))
            graph.replay()
            near("a captured graph, replay %d" % k, kept, plain(held), 2e-2)
        reduced = torch.compile(lambda x: ffn(x, W1, W2) * 2, mode="reduce-overhead")
        for k in range(4):
            near("torch.compile with graphs of its own, call %d" % k, reduced(x * k), 2 * plain(x * k), 2e-2)

# ---- the README's lines, as they stand there ------------------------------------------------------------------------------
readme = open(os.path.join(ROOT, "README.md")).read()
block = re.search(r"```python\n(import torch, spc.torch\n.*?)```", readme, re.S)
if check("the README has five lines of PyTorch", block and len(block.group(1).strip().splitlines()) <= 5, block and block.group(1)):
    r = subprocess.run([sys.executable, "-c", block.group(1) + "\nprint(y.shape, y.dtype)"], capture_output=True, text=True, cwd=ROOT, env=dict(os.environ, PYTHONPATH="python"))
    check("and they run", r.returncode == 0 and "bfloat16" in r.stdout, r.stdout + r.stderr)
close()
