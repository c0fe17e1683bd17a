// gemm_mma8.cuh - the matrix product of 8-bit operands on mma.sync: i8 from sm_80 on, 8-bit floats from sm_89 on.
#pragma once
#include "spc/mma8.cuh" // first: a template finds overloads of `signed char` only where it is written
#include "spc/gemm.cuh"
#include "spc/multiply_mma.cuh"

template <class Config> SPC_DEVICE void spc_gemm_mma8(const spc_args &args) {
  static_assert(sizeof(typename Config::A) == 1 && sizeof(typename Config::B) == 1, "the operands must have 8 bits");
  spc_gemm<Config, spc_mma_sums<Config>>(args);
}
