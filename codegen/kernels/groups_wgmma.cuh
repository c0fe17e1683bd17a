// groups_wgmma.cuh - rows in ragged groups, on Hopper's warpgroup multiply (sm_90a only); bf16 or f16 operands.
#pragma once
#include "spc/groups.cuh"
#include "spc/multiply_wgmma.cuh"

template <class Config> SPC_DEVICE void spc_groups_wgmma(const spc_args &args) {
  static_assert(sizeof(typename Config::A) == 2 && sizeof(typename Config::B) == 2, "tensor cores take bf16 or f16 operands here");
  if constexpr (Config::loaders < Config::threads) spc_gemm_groups_specialised<Config, spc_wgmma_sums<Config>>(args);
  else spc_gemm_groups<Config, spc_wgmma_sums<Config>>(args);
}
