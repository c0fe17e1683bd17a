// gemm_widen.cuh - the product of Hopper with an A of 8-bit integers (widen.cuh): gemm_tma.cuh with another multiply (sm_90a).
//
// Boxes bring A as it is; the warpgroups widen their part of a k tile on its way into registers, from where wgmma reads its first
// operand, with g = lane / 4 and t = lane % 4 of warp w: rows 16 w + g and + 8 at k's 2 t, 2 t + 1, then at both 8 k's on.
#pragma once
#include "spc/widen.cuh" // first: what gemm_tma.cuh is a template over
#include "spc/wgmma.cuh"

#define SPC_WGMMA_WIDE(TYPE, N, R, P0, P1, P2, P3, P4, P5) \
  SPC_DEVICE void ptx_wgmma_wide(float (&d)[R], const spc_u32 (&a)[4], spc_u64 b, int add, spc_##TYPE) { \
    asm volatile("{ .reg .pred add; setp.ne.b32 add, %" #P5 ", 0; " \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." #TYPE "." #TYPE " {" SPC_TEXT_##R "}, {%" #P0 ", %" #P1 ", %" #P2 \
                 ", %" #P3 "}, %" #P4 ", add, 1, 1, 0; }" \
                 : SPC_LIST_##R : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add)); \
  }
#define SPC_WGMMA_WIDES(N, R, P0, P1, P2, P3, P4, P5) \
  SPC_WGMMA_WIDE(bf16, N, R, P0, P1, P2, P3, P4, P5) \
  SPC_WGMMA_WIDE(f16, N, R, P0, P1, P2, P3, P4, P5)
SPC_WGMMA_WIDES(32, 16, 16, 17, 18, 19, 20, 21)
SPC_WGMMA_WIDES(64, 32, 32, 33, 34, 35, 36, 37)
SPC_WGMMA_WIDES(128, 64, 64, 65, 66, 67, 68, 69)
#undef SPC_WGMMA_WIDES
#undef SPC_WGMMA_WIDE

// A lane's part of 64 x 16 Steps elements in rows of 128 bytes (panel.cuh): of each step both rows at k, then 8 k's on.
template <int Steps, class T> SPC_DEVICE void spc_widen_rows(spc_u32 (&f)[Steps][4], const char *rows, T) {
  int lane = (int)threadIdx.x & 31, row = (int)threadIdx.x / 32 % 4 * 16 + lane / 4;
  spc_u32 from = spc_shared_address(rows + row * 128) + lane % 4 * 2;
#pragma unroll
  for (int s = 0; s < Steps; s++)
#pragma unroll
    for (int i = 0; i < 4; i++)
      f[s][i] = ptx_load_shared_16(from + i % 2 * 1024 + (s ^ row % 8) * 16 + i / 2 * 8);
#pragma unroll
  for (int s = 0; s < Steps; s++)
#pragma unroll
    for (int i = 0; i < 4; i++) f[s][i] = spc_widened(spc_spread_bytes(f[s][i]), T());
}

#include "spc/gemm_tma.cuh"

template <class Config> SPC_DEVICE void spc_gemm_widen(const spc_args &args, const spc_tensor_maps &maps) {
  static_assert(sizeof(typename Config::A) == 1 && sizeof(typename Config::B) == 2 && Config::layout_a == 'r' && Config::layout_b == 'c',
                "A must be 8-bit integers and B 16-bit floats, both with k contiguous");
  static_assert(Config::group % Config::tile_k == 0, "a k tile's k's share a scale");
  spc_gemm_tma<Config>(args, maps);
}
