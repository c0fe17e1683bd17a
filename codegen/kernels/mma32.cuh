// mma32.cuh - mma.sync m16n8k8 of f32 operands as tf32, rounded to nearest; where a factor is the sum of two, three products.
#pragma once
#include "spc/dtypes.cuh"

SPC_DEVICE spc_u32 ptx_round_tf32(spc_u32 bits) {
  spc_u32 rounded;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(__uint_as_float(bits)));
  return rounded;
}
SPC_DEVICE void ptx_mma_tf32(float (&c)[4], const spc_u32 (&a)[4], spc_u32 b0, spc_u32 b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// What is left of a number beside its tf32 number, as one.
SPC_DEVICE spc_u32 spc_rest_of(spc_u32 bits, spc_u32 rounded) {
  return ptx_round_tf32(__float_as_uint(__uint_as_float(bits) - __uint_as_float(rounded)));
}
template <int Parts> SPC_DEVICE void spc_mma(float (&c)[4], const spc_u32 (&a)[4], spc_u32 b0, spc_u32 b1, spc_tf32<Parts>) {
  spc_u32 first[4], rest[4], b[2] = {ptx_round_tf32(b0), ptx_round_tf32(b1)};
#pragma unroll
  for (int i = 0; i < 4; i++) first[i] = ptx_round_tf32(a[i]);
  if constexpr (Parts > 1) { // the small products first
#pragma unroll
    for (int i = 0; i < 4; i++) rest[i] = spc_rest_of(a[i], first[i]);
    ptx_mma_tf32(c, rest, b[0], b[1]);
    ptx_mma_tf32(c, first, spc_rest_of(b0, b[0]), spc_rest_of(b1, b[1]));
  }
  ptx_mma_tf32(c, first, b[0], b[1]);
}
