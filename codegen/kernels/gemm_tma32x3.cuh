// gemm_tma32x3.cuh - the same where each factor is the sum of two tf32 numbers: three products of four, the last is too small.
#pragma once
#include "spc/wgmma32.cuh" // first, as in gemm_tma32.cuh
#include "spc/gemm_tma.cuh"

template <class Config> SPC_DEVICE void spc_gemm_tma32x3(const spc_args &args, const spc_tensor_maps &maps) {
  static_assert(sizeof(typename Config::A) == 4 && Config::parts == 2, "the operands must be f32, two tf32 numbers each");
  spc_gemm_tma<Config>(args, maps);
}
