// gemm_mma64.cuh - the matrix product of f64 operands on mma.sync (sm_80 and later).
#pragma once
#include "spc/gemm.cuh"
#include "spc/multiply_mma64.cuh"

template <class Config> SPC_DEVICE void spc_gemm_mma64(const spc_args &args) {
  static_assert(sizeof(typename Config::A) == 8 && sizeof(typename Config::B) == 8, "the operands must be f64");
  spc_gemm<Config, spc_mma64_sums<Config>>(args);
}
