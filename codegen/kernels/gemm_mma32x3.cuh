// gemm_mma32x3.cuh - the same where each factor is the sum of two tf32 numbers: three products of four, the last is too small.
#pragma once
#include "spc/mma32.cuh"
#include "spc/gemm.cuh"
#include "spc/multiply_mma.cuh"

template <class Config> SPC_DEVICE void spc_gemm_mma32x3(const spc_args &args) {
  static_assert(sizeof(typename Config::A) == 4 && Config::parts == 2, "the operands must be f32, two tf32 numbers each");
  spc_gemm<Config, spc_mma_sums<Config>>(args);
}
