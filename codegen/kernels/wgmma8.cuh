// wgmma8.cuh - the warpgroup multiply of 8-bit operands: f8e4m3 and f8e5m2 into f32, i8 into i32 (sm_90a).
//
// As wgmma.cuh, but 32 k's an instruction and operands with k contiguous only.  For the widths that rows have.
#pragma once
#include "spc/wgmma.cuh"

#define SPC_WGMMA8_OF(NAME, ELEMENT, TYPES, SUM, SCALES, N, R, P0, P1, P2) \
  template <int, int> SPC_DEVICE void ptx_wgmma(SUM (&d)[R], spc_u64 a, spc_u64 b, int add, ELEMENT) { \
    asm volatile("{ .reg .pred add; setp.ne.b32 add, %" #P2 ", 0; " \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k32." TYPES " {" SPC_TEXT_##R "}, %" #P0 ", %" #P1 ", add" SCALES "; }" \
                 : SPC_LIST_##R : "l"(a), "l"(b), "r"(add)); \
  }
#define SPC_WGMMA8_FLOAT(N, R, P0, P1, P2) \
  SPC_WGMMA8_OF(e4m3, spc_f8e4m3, "f32.e4m3.e4m3", float, ", 1, 1", N, R, P0, P1, P2) \
  SPC_WGMMA8_OF(e5m2, spc_f8e5m2, "f32.e5m2.e5m2", float, ", 1, 1", N, R, P0, P1, P2)
SPC_WGMMA8_FLOAT(16, 8, 8, 9, 10)
SPC_WGMMA8_FLOAT(64, 32, 32, 33, 34)
SPC_WGMMA8_FLOAT(128, 64, 64, 65, 66)
SPC_WGMMA8_FLOAT(192, 96, 96, 97, 98)
#undef SPC_WGMMA8_FLOAT

#undef SPC_FOUR
#define SPC_FOUR(i) "+r"(d[i]), "+r"(d[i + 1]), "+r"(d[i + 2]), "+r"(d[i + 3])
#define SPC_WGMMA8_INT(N, R, P0, P1, P2) SPC_WGMMA8_OF(s8, signed char, "s32.s8.s8", int, "", N, R, P0, P1, P2)
SPC_WGMMA8_INT(16, 8, 8, 9, 10)
SPC_WGMMA8_INT(64, 32, 32, 33, 34)
SPC_WGMMA8_INT(128, 64, 64, 65, 66)
SPC_WGMMA8_INT(256, 128, 128, 129, 130)
#undef SPC_WGMMA8_INT
#undef SPC_WGMMA8_OF
