// mma8.cuh - mma.sync m16n8k32 of 8-bit operands, one wrapper an element type.
#pragma once
#include "spc/dtypes.cuh"

#define SPC_MMA8(ELEMENT, TYPES, SUM, C) \
  SPC_DEVICE void spc_mma(SUM (&c)[4], const spc_u32 (&a)[4], spc_u32 b0, spc_u32 b1, ELEMENT) { \
    asm("mma.sync.aligned.m16n8k32.row.col." TYPES " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
        : C(c[0]), C(c[1]), C(c[2]), C(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1)); \
  }
SPC_MMA8(signed char, "s32.s8.s8.s32", int, "+r")
SPC_MMA8(spc_f8e4m3, "f32.e4m3.e4m3.f32", float, "+f")
SPC_MMA8(spc_f8e5m2, "f32.e5m2.e5m2.f32", float, "+f")
#undef SPC_MMA8
