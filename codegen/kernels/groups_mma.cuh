// groups_mma.cuh - rows in ragged groups, on mma.sync tensor cores (sm_80 and later); bf16 or f16 operands.
#pragma once
#include "spc/groups.cuh"
#include "spc/multiply_mma.cuh"

template <class Config> SPC_DEVICE void spc_groups_mma(const spc_args &args) {
  static_assert(sizeof(typename Config::A) == 2 && sizeof(typename Config::B) == 2, "tensor cores take bf16 or f16 operands here");
  spc_gemm_groups<Config, spc_mma_sums<Config>>(args);
}
