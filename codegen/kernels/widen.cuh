// widen.cuh - integers of 8 bits as the tensor cores' second kind of factor: made 16-bit floats in registers, exactly.
//
//     sum[k] x[m,k] * q[n,k] * s[n, k / group]        x: bf16 or f16; q: i8; s: any float, or there is none
//
// All of -128 .. 127 are bf16 and f16 numbers.  A scale that several k's share is a factor of their sum: it meets the sums of
// a k tile, in f32, and is never rounded together with q.  A group is a multiple of the tile's k's.
#pragma once
#include "spc/dtypes.cuh"

// Bytes 0 and 1 of v, each the lower half of 16 bits.
SPC_DEVICE spc_u32 spc_spread_bytes(spc_u32 v) { return __byte_perm(v, 0, 0x4140); }

// Bytes 0 and 2 of v as numbers.  128 + the lower 7 bits is a bf16 whose fraction they are; 128 less than that, or 256 where the sign
// is set, is the value.
SPC_DEVICE spc_u32 spc_widened(spc_u32 bytes, spc_bf16) {
  spc_u32 low = (bytes & 0x007f007fu) | 0x43004300u, less = (bytes & 0x00800080u) | 0xc300c300u, sum; // -128 or -256
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(low), "r"(0x3f803f80u), "r"(less));
  return sum;
}
// The same of an f16, which has room for all 8 bits: 1024 + (value + 128).
SPC_DEVICE spc_u32 spc_widened(spc_u32 bytes, spc_f16) {
  spc_u32 high = ((bytes & 0x00ff00ffu) ^ 0x00800080u) | 0x64006400u, sum;
  asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(sum) : "r"(high), "r"(0x64806480u));
  return sum;
}
