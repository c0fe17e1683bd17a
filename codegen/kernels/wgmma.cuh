// wgmma.cuh - the Hopper warpgroup multiply (sm_90a): descriptors of operands in shared memory, the instruction.
//
// A warpgroup of four warps multiplies 64 x 16 by 16 x N from shared memory; the sums stay in registers and
// the work runs asynchronously: fence, issue, commit, and wait before the sums or the operands are touched.
// Operands are swizzled panels (panel.cuh) in slabs whose rows are 128 bytes, 64 elements, or half of that:
//     K-major (rows are m or n)   64 k's wide; next 8 rows 1024 bytes on; 16 k's further are 32 bytes
//     MN-major (rows are k)       next slab of 64 or 32 m or n `slab` bytes on, next 8 k's 8 rows on; 16 k's 16 rows
// `add` 0: the sums start anew, 1: they go on.
#pragma once
#include "spc/dtypes.cuh"

SPC_DEVICE void ptx_wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
SPC_DEVICE void ptx_wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int Pending> SPC_DEVICE void ptx_wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}
// What this thread wrote to shared memory becomes visible to the tensor cores (after a barrier, to all's).
SPC_DEVICE void ptx_fence_async_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Matrix descriptor: address and distances in units of 16 bytes; the swizzle is that of the rows' width.  The
// panel starts at a multiple of 1024 bytes.
template <int Width> SPC_DEVICE spc_u64 spc_wgmma_descriptor(spc_u32 address, int slab_bytes) {
  static_assert(Width == 64 || Width == 32, "rows of a slab are 128 or 64 bytes");
  return (spc_u64)((address & (0x40000 - Width * 16)) >> 4) | // low bits that are known to be 0: steps along k need no carry
         (spc_u64)((spc_u32)slab_bytes >> 4) << 16 |
         (spc_u64)(Width) << 32 | (spc_u64)(Width == 64 ? 1 : 2) << 62; // eight rows: 16 Width bytes
}

// ---- the instruction, for N columns: N / 2 sums a thread -----------------------------------------------------
// Its operands are a list of registers, whose text and C++ side grow here by eight.
#define SPC_TEXT_4 "%0, %1, %2, %3"
#define SPC_TEXT_8 SPC_TEXT_4 ", %4, %5, %6, %7"
#define SPC_TEXT_16 SPC_TEXT_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define SPC_TEXT_24 SPC_TEXT_16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define SPC_TEXT_32 SPC_TEXT_24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define SPC_TEXT_40 SPC_TEXT_32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define SPC_TEXT_48 SPC_TEXT_40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define SPC_TEXT_56 SPC_TEXT_48 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define SPC_TEXT_64 SPC_TEXT_56 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define SPC_TEXT_72 SPC_TEXT_64 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define SPC_TEXT_80 SPC_TEXT_72 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define SPC_TEXT_88 SPC_TEXT_80 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define SPC_TEXT_96 SPC_TEXT_88 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define SPC_TEXT_104 SPC_TEXT_96 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define SPC_TEXT_112 SPC_TEXT_104 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define SPC_TEXT_120 SPC_TEXT_112 ", %112, %113, %114, %115, %116, %117, %118, %119"
#define SPC_TEXT_128 SPC_TEXT_120 ", %120, %121, %122, %123, %124, %125, %126, %127"
#define SPC_FOUR(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define SPC_LIST_4 SPC_FOUR(0)
#define SPC_LIST_8 SPC_LIST_4, SPC_FOUR(4)
#define SPC_LIST_16 SPC_LIST_8, SPC_FOUR(8), SPC_FOUR(12)
#define SPC_LIST_24 SPC_LIST_16, SPC_FOUR(16), SPC_FOUR(20)
#define SPC_LIST_32 SPC_LIST_24, SPC_FOUR(24), SPC_FOUR(28)
#define SPC_LIST_40 SPC_LIST_32, SPC_FOUR(32), SPC_FOUR(36)
#define SPC_LIST_48 SPC_LIST_40, SPC_FOUR(40), SPC_FOUR(44)
#define SPC_LIST_56 SPC_LIST_48, SPC_FOUR(48), SPC_FOUR(52)
#define SPC_LIST_64 SPC_LIST_56, SPC_FOUR(56), SPC_FOUR(60)
#define SPC_LIST_72 SPC_LIST_64, SPC_FOUR(64), SPC_FOUR(68)
#define SPC_LIST_80 SPC_LIST_72, SPC_FOUR(72), SPC_FOUR(76)
#define SPC_LIST_88 SPC_LIST_80, SPC_FOUR(80), SPC_FOUR(84)
#define SPC_LIST_96 SPC_LIST_88, SPC_FOUR(88), SPC_FOUR(92)
#define SPC_LIST_104 SPC_LIST_96, SPC_FOUR(96), SPC_FOUR(100)
#define SPC_LIST_112 SPC_LIST_104, SPC_FOUR(104), SPC_FOUR(108)
#define SPC_LIST_120 SPC_LIST_112, SPC_FOUR(112), SPC_FOUR(116)
#define SPC_LIST_128 SPC_LIST_120, SPC_FOUR(120), SPC_FOUR(124)

// P0 to P6: the operands behind the sums.  Four steps are one statement where there are four: the list of sums stands once for the compiler.  on_a, on_b:
// from one step's factors to the next one's, in units of 16 bytes.
#define SPC_WGMMA_STEP(TYPE, N, R, A, B, ADD, P3, P4) \
  "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." #TYPE "." #TYPE " {" SPC_TEXT_##R "}, " A ", " B ", " ADD ", 1, 1, %" #P3 ", %" #P4 "; "
#define SPC_WGMMA_OF(TYPE, N, R, P0, P1, P2, P3, P4, P5, P6) \
  template <int TransposeA, int TransposeB> SPC_DEVICE void ptx_wgmma(float (&d)[R], spc_u64 a, spc_u64 b, int add, spc_##TYPE) { \
    asm volatile("{ .reg .pred add; setp.ne.b32 add, %" #P2 ", 0; " SPC_WGMMA_STEP(TYPE, N, R, "%" #P0, "%" #P1, "add", P3, P4) "}" \
                 : SPC_LIST_##R : "l"(a), "l"(b), "r"(add), "n"(TransposeA), "n"(TransposeB)); \
  } \
  template <int TransposeA, int TransposeB, int on_a, int on_b> SPC_DEVICE void ptx_wgmma_four(float (&d)[R], spc_u64 a, spc_u64 b, int add, spc_##TYPE) { \
    asm volatile("{ .reg .pred add; .reg .b64 a, b; setp.ne.b32 add, %" #P2 ", 0; " SPC_WGMMA_STEP(TYPE, N, R, "%" #P0, "%" #P1, "add", P3, P4) \
                 "add.s64 a, %" #P0 ", %" #P5 "; add.s64 b, %" #P1 ", %" #P6 "; " SPC_WGMMA_STEP(TYPE, N, R, "a", "b", "1", P3, P4) \
                 "add.s64 a, a, %" #P5 "; add.s64 b, b, %" #P6 "; " SPC_WGMMA_STEP(TYPE, N, R, "a", "b", "1", P3, P4) \
                 "add.s64 a, a, %" #P5 "; add.s64 b, b, %" #P6 "; " SPC_WGMMA_STEP(TYPE, N, R, "a", "b", "1", P3, P4) "}" \
                 : SPC_LIST_##R : "l"(a), "l"(b), "r"(add), "n"(TransposeA), "n"(TransposeB), "n"(on_a), "n"(on_b)); \
  }
#define SPC_OF_WIDTH(N, R, P0, P1, P2, P3, P4, P5, P6, ...) \
  SPC_WGMMA_OF(bf16, N, R, P0, P1, P2, P3, P4, P5, P6) \
  SPC_WGMMA_OF(f16, N, R, P0, P1, P2, P3, P4, P5, P6)
#include "spc/widths.cuh"
#undef SPC_WGMMA_OF
#undef SPC_WGMMA_STEP
