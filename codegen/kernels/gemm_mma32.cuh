// gemm_mma32.cuh - the matrix product of f32 operands on mma.sync tensor cores (sm_80 and later), multiplied as tf32.
#pragma once
#include "spc/mma32.cuh"
#include "spc/gemm.cuh"
#include "spc/multiply_mma.cuh"

template <class Config> SPC_DEVICE void spc_gemm_mma32(const spc_args &args) {
  static_assert(sizeof(typename Config::A) == 4 && Config::parts == 1, "the operands must be f32, one tf32 number each");
  spc_gemm<Config, spc_mma_sums<Config>>(args);
}
