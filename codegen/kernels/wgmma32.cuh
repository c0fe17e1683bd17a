// wgmma32.cuh - the warpgroup multiply of f32 operands as tf32, of which it reads the upper 19 bits (sm_90a).
//
// As wgmma.cuh, but 8 k's an instruction and operands with k contiguous only; or A from registers, which hold, with
// g = lane / 4 and t = lane % 4 of warp w, rows 16 w + g and + 8 at k's t, then at t + 4.  For the widths that rows have.
#pragma once
#include "spc/wgmma.cuh"

#define SPC_WGMMA32(N, R, P0, P1, P2, P3, P4, P5) \
  template <int, int> SPC_DEVICE void ptx_wgmma(float (&d)[R], spc_u64 a, spc_u64 b, int add, float) { \
    asm volatile("{ .reg .pred add; setp.ne.b32 add, %" #P2 ", 0; " \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k8.f32.tf32.tf32 {" SPC_TEXT_##R "}, %" #P0 ", %" #P1 ", add, 1, 1; }" \
                 : SPC_LIST_##R : "l"(a), "l"(b), "r"(add)); \
  } \
  SPC_DEVICE void ptx_wgmma_tf32(float (&d)[R], const spc_u32 (&a)[4], spc_u64 b, int add) { \
    asm volatile("{ .reg .pred add; setp.ne.b32 add, %" #P5 ", 0; " \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k8.f32.tf32.tf32 {" SPC_TEXT_##R "}, {%" #P0 ", %" #P1 ", %" #P2 \
                 ", %" #P3 "}, %" #P4 ", add, 1, 1; }" \
                 : SPC_LIST_##R : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add)); \
  }
SPC_WGMMA32(16, 8, 8, 9, 10, 11, 12, 13)
SPC_WGMMA32(64, 32, 32, 33, 34, 35, 36, 37)
SPC_WGMMA32(128, 64, 64, 65, 66, 67, 68, 69)
SPC_WGMMA32(256, 128, 128, 129, 130, 131, 132, 133)
#undef SPC_WGMMA32
