#!/usr/bin/env python3
"""Sums at listed entries, and attention over them, against PyTorch on one GPU (cuSPARSE, gathered rows, dense and masked).

Usage: gpu_entries.py LIBRARY [part...]      LIBRARY as for gpu.py; parts: edges sampled attention weighed blocks
(sampled/0 .. sampled/6, attention/0 .. attention/2, weighed/0 .. weighed/7, blocks/0 .. blocks/4: one size each)
Patterns are csr, drawn at random: `uniform`, every row has the same number of entries; `power`, rows fall off as 1/rank, the longest
a quarter of all columns.  What is measured, and how, is gpu.py's; a peer that refuses is `-`."""
import ctypes
import torch
import gpu
from gpu import Program, compare, error, head, lib, pointer, row, section
from gpu_stored import TYPES, peer, sides

SAMPLED = """spx 1; dim I = %d; dim J = %d; dim K = %d;
kernel k { in S: f32[I,J] as csr; in A: %s[I,K]; in B: %s[J,K]; out C[i,j] = S[i,j] * (sum[k] A[i,k]*B[j,k]) : f32 acc f32 as like(S); }"""
ATTENTION = """spx 1; dim I = %d; dim J = %d; dim K = %d; dim D = %d;
kernel k { in S: pattern[I,J] as csr; in A: bf16[I,K]; in B: bf16[J,K]; in V: bf16[J,D];
  let p[i,j] = (sum[k] A[i,k]*B[j,k]) on S[i,j] fill -inf : f32 acc f32;
  let a[i,j] = softmax[j](p[i,j]);
  out o[i,d] = sum[j] a[i,j]*V[j,d] : bf16 acc f32; }"""

WEIGHED = """spx 1; dim I = %d; dim J = %d; dim D = %d;
kernel k { in S: f32[I,J] as csr; in B: %s[J,D]; out C[i,d] = sum[j] S[i,j]*B[j,d] : %s acc f32; }"""


class Entries(Program):
    def load(self, S, dims, pattern=False, **tensors):
        lib.bench_reset(self.handle)
        self.host = [x.cpu().contiguous() for x in (S.crow_indices().int(), S.col_indices().int(), S.values().float())]
        pos, crd, vals = (pointer(x.data_ptr()) for x in self.host)
        self.ask(lib.bench_rows(self.handle, b"S", (ctypes.c_int64 * 2)(*dims), pos, crd, None if pattern else vals))
        self.bind(**tensors)
        self()
        return self


def pattern(kind, I, J, degree):
    if kind == "uniform":
        counts = torch.full((I,), degree)
    else:
        rank = torch.randperm(I) + 1.0
        counts = (J / 4) / rank ** 0.8
        counts = (counts * (degree * I / counts.sum())).clamp(0, J // 4).round().long()
    counts = counts.cuda()
    rows = torch.repeat_interleave(torch.arange(I, device="cuda"), counts)
    columns = torch.randint(J, (int(counts.sum()),), device="cuda")
    keys = torch.unique(rows * J + columns)
    values = torch.randn(keys.numel(), device="cuda")
    pos = torch.searchsorted(keys // J, torch.arange(I + 1, device="cuda"))
    return torch.sparse_csr_tensor(pos.int(), (keys % J).int(), values, (I, J))


def parts_of(p):
    return ", ".join("%s %.1f" % (s[0], 1e3 * s[4]) for s in p.stages(queued=True) if s[2])


def gathered(S, A, B):
    rows = torch.repeat_interleave(torch.arange(S.shape[0], device="cuda"), S.crow_indices().diff())
    columns = S.col_indices().long()
    return lambda: (A[rows] * B[columns]).sum(1, dtype=torch.float32) * S.values()


def dots(S, A, B):
    rows = torch.repeat_interleave(torch.arange(S.shape[0], device="cuda"), S.crow_indices().diff())
    columns = S.col_indices().long()
    out = [(A[r].float() * B[c].float()).sum(1) for r, c in zip(rows.split(1 << 22), columns.split(1 << 22))]
    return torch.cat(out) if out else torch.zeros(0, device="cuda")


def edges():
    section("odd sizes, rows without entries, full rows: the largest error beside the largest value\n")
    head("dtype", "I J K", "entries", "error")
    for dtype in ("f32", "bf16", "f16"):
        for I, J, K in ((1, 1, 1), (37, 91, 7), (133, 167, 100), (700, 300, 257), (64, 5000, 64), (5, 3000, 513)):
            mask = torch.rand(I, J, device="cuda") < 0.2
            mask[::3], mask[I // 2] = False, True
            S = (torch.randn(I, J, device="cuda") * mask).to_sparse_csr()
            A, B = (torch.randn(n, K, device="cuda").to(TYPES[dtype]) for n in (I, J))
            C = torch.full((S.values().numel(),), float("nan"), device="cuda")
            p = Entries(SAMPLED % (I, J, K, dtype, dtype)).load(S, (I, J), A=A, B=B, C=C)
            torch.cuda.synchronize()
            want = dots(S, A, B) * S.values()
            worst = ((C - want).abs().max() / want.abs().max()).item()
            row(dtype, "%d %d %d" % (I, J, K), S.values().numel(), "%.0e%s" % (worst, "" if worst < 1e-5 else " WRONG"))
            p.close()


SIZES = (("bf16", 4096, 64), ("bf16", 4096, 128), ("bf16", 4096, 256), ("bf16", 4096, 512), ("f32", 4096, 256), ("bf16", 65536, 128), ("bf16", 65536, 256))
HEADS = ((4096, 256, 128), (4096, 64, 64), (65536, 64, 64))


def sampled(share=None):
    section("C = S * (A B^T) at the entries of S; microseconds\n")
    head("dtype", "I, J", "K", "rows", "entries", "spc (spread)", "TB/s of B's rows", "torch sampled_addmm, f32 (spread)", "torch rows gathered (spread)", "error")
    for dtype, I, K in [SIZES[int(share)]] if share else SIZES:
        p = None
        for kind in ("uniform", "power"):
            for degree in (16, 64, 256) if K == 256 and dtype == "bf16" else (64,):
                A, B = (torch.randn(I, K, device="cuda").to(TYPES[dtype]) for _ in range(2))
                S = pattern(kind, I, I, degree)
                nnz = S.values().numel()
                C = torch.empty(nnz, device="cuda")
                p = p or Entries(SAMPLED % (I, I, K, dtype, dtype))
                p.load(S, (I, I), A=A, B=B, C=C)
                a, b = A.float(), B.float().t().contiguous()
                times = sides(p, peer(lambda: lambda: torch.sparse.sampled_addmm(S, a, b, beta=0)), peer(lambda: gathered(S, A, B)) if nnz * K < 5e8 else None)
                us = float(times[0].split()[0])
                row(dtype, I, K, kind, nnz, times[0], "%.2f" % (nnz * K * A.element_size() / us * 1e-6), *times[1:], "%.0e" % error(C, dots(S, A, B) * S.values()))
        p.close()


def attention(share=None):
    section("scores, softmax and weighted rows at the entries of S, bf16; microseconds\n")
    head("I, J", "K", "D", "rows", "entries", "spc (spread)", "stages", "torch sparse, f32 (spread)", "torch SDPA, masked (spread)", "error")
    for I, K, D in [HEADS[int(share)]] if share else HEADS:
        p = None
        for kind in ("uniform", "power"):
            for degree in (16, 64, 256):
                A, B = (torch.randn(I, K, device="cuda").bfloat16() * K ** -0.25 for _ in range(2))
                V = torch.randn(I, D, device="cuda").bfloat16()
                S = pattern(kind, I, I, degree)
                o = torch.empty(I, D, device="cuda", dtype=torch.bfloat16)
                p = p or Entries(ATTENTION % (I, I, K, D))
                p.load(S, (I, I), pattern=True, A=A, B=B, V=V, o=o)
                torch.cuda.synchronize()
                rows = torch.repeat_interleave(torch.arange(I, device="cuda"), S.crow_indices().diff())
                ones = torch.sparse_csr_tensor(S.crow_indices(), S.col_indices(), torch.zeros_like(S.values()), S.shape)
                a, b, v = A.float(), B.float().t().contiguous(), V.float()

                def sparse():
                    s = torch.sparse.sampled_addmm(ones, a, b).values()
                    top = torch.full((I,), -torch.inf, device="cuda").scatter_reduce_(0, rows, s, "amax")
                    e = torch.exp(s - top[rows])
                    e = e / torch.zeros(I, device="cuda").index_add_(0, rows, e)[rows]
                    return torch.sparse_csr_tensor(S.crow_indices(), S.col_indices(), e, S.shape) @ v

                dense = None
                if I <= 4096:
                    mask = torch.sparse_csr_tensor(S.crow_indices(), S.col_indices(), torch.ones_like(S.values()), S.shape).to_dense() > 0
                    q, k, w = (x[None, None] for x in (A, B, V))
                    dense = peer(lambda: lambda: torch.nn.functional.scaled_dot_product_attention(q, k, w, attn_mask=mask, scale=1.0))
                times = sides(p, peer(lambda: sparse), dense)
                row(I, K, D, kind, S.values().numel(), times[0], parts_of(p), *times[1:], "%.0e" % error(o, sparse()))
        p.close()


ROWS = (("bf16", 65536, 64), ("bf16", 65536, 128), ("f32", 65536, 64), ("f32", 65536, 128), ("bf16", 4096, 256), ("f32", 4096, 128), ("f32", 4096, 100), ("bf16", 8192, 64))


def weighed(share=None):
    """Rows that all hold more entries than one warp takes are the last size's."""
    section("C = S B, S in csr; microseconds\n")
    head("dtype", "I, J", "D", "rows", "entries", "the longest row", "spc (spread)", "torch csr, f32 (spread)", "error")
    for dtype, I, D in [ROWS[int(share)]] if share else ROWS:
        p = None
        for kind in ("uniform", "power"):
            for degree in (512,) if I == 8192 else (16, 64) if I > 4096 else (16, 256):
                S, B = pattern(kind, I, I, degree), torch.randn(I, D, device="cuda").to(TYPES[dtype])
                C, b = torch.full((I, D), float("nan"), device="cuda", dtype=TYPES[dtype]), B.float()
                p = p or Entries(WEIGHED % (I, I, D, dtype, dtype))
                p.load(S, (I, I), B=B, C=C)
                times = sides(p, peer(lambda: lambda: S @ b))
                row(dtype, I, D, kind, S.values().numel(), S.crow_indices().diff().max().item(), *times, "%.0e" % error(C, S.double() @ B.double()))
        p.close()


BLOCKED = """spx 1; dim I = %d; dim J = %d; dim K = %d;
kernel k { in S: bf16[I,J] as bsr(%d,%d) ~ zeros(static, density=%g, gran=%dx%d); in A: bf16[I,K]; in B: bf16[J,K]; out C[i,j] = S[i,j] * (sum[k] A[i,k]*B[j,k]) : bf16 acc f32%s; }"""
BLOCKS = ((4096, 4096, 64, 64), (4096, 4096, 128, 128), (4096, 256, 64, 64), (8192, 1024, 128, 64), (8192, 128, 64, 64))


def blocks(share=None):
    section("C = S * (A B^T) in the stored blocks of S, bf16; microseconds\n")
    head("I, J", "K", "blocks", "stored", "kernel", "spc (spread)", "spc, result dense (spread)", "torch dense, all of A B^T (spread)", "torch dense and S (spread)", "dense / spc", "error")
    for I, K, high, wide in [BLOCKS[int(share)]] if share else BLOCKS:
        for density in (1, 0.5, 0.25, 0.1, 0.05, 0.01):
            there = torch.rand(I // high, I // wide, device="cuda") < density
            S = torch.where(there.repeat_interleave(high, 0).repeat_interleave(wide, 1), torch.randn(I, I, device="cuda"), 0).bfloat16()
            stored = S.to_sparse_bsr((high, wide))
            A, B = (torch.randn(I, K, device="cuda").bfloat16() * K ** -0.25 for _ in range(2))
            host, results, programs = S.cpu().contiguous(), (torch.empty_like(stored.values()), torch.empty_like(S)), []
            for like, C in zip((" as like(S)", ""), results):
                p, bytes = Program(BLOCKED % (I, I, K, high, wide, density, high, wide, like)), ctypes.c_int64()
                p.ask(lib.bench_pack(p.handle, b"S", (ctypes.c_int64 * 2)(I, I), pointer(host.data_ptr()), ctypes.byref(bytes)))
                p.bind(A=A, B=B, C=C)
                p()
                programs.append(p)
            p, dense = programs
            times = sides(p, dense, lambda: A @ B.t(), lambda: (A @ B.t()) * S)
            torch.cuda.synchronize()
            want = torch.where(S != 0, A.float() @ B.float().t() * S.float(), 0)
            errors = error(results[0], want.to_sparse_bsr((high, wide)).values()), error(results[1], want)
            row(I, K, "%dx%d" % (high, wide), "%g %%" % (100 * density), "`%s`" % p.stages(queued=True)[0][1], *times, "%.2f" % (float(times[2].split()[0]) / float(times[0].split()[0])), "%.0e" % max(errors))
            for p in programs:
                p.close()


if __name__ == "__main__":
    gpu.run_parts(edges=edges, sampled=sampled, attention=attention, weighed=weighed, blocks=blocks)
