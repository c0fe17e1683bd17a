// gemm_fma.cuh - the matrix product in plain f32 arithmetic: f32 operands, no rounding to tf32.
#pragma once
#include "spc/multiply_fma.cuh"
#include "spc/plain.cuh"

template <class Config> SPC_DEVICE void spc_gemm_fma(const spc_args &args) {
  static_assert(sizeof(typename Config::A) == 4 && sizeof(typename Config::B) == 4, "the operands must be f32");
  spc_gemm<Config, spc_fma_sums<Config>>(args);
}
