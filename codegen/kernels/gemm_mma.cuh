// gemm_mma.cuh - the matrix product on mma.sync tensor cores (sm_80 and later); bf16 or f16 operands.
#pragma once
#include "spc/gemm.cuh"
#include "spc/multiply_mma.cuh"

template <class Config> SPC_DEVICE void spc_gemm_mma(const spc_args &args) {
  static_assert(sizeof(typename Config::A) == 2 && sizeof(typename Config::B) == 2,
                "mma.sync m16n8k16 takes bf16 or f16 operands");
  spc_gemm<Config, spc_mma_sums<Config>>(args);
}
