// gemm_wgmma.cuh - the matrix product on Hopper's warpgroup multiply (sm_90a only); bf16 or f16 operands.
//
// The loaders are the ones of every other product (cp.async, by a warpgroup of its own or by all threads); only the multiply differs, so the
// gather costs what the copy instructions cost and no tensor map is needed.
#pragma once
#include "spc/gemm.cuh"
#include "spc/multiply_wgmma.cuh"
#include "spc/specialised.cuh"

template <class Config> SPC_DEVICE void spc_gemm_wgmma(const spc_args &args) {
  static_assert(sizeof(typename Config::A) == 2 && sizeof(typename Config::B) == 2,
                "wgmma m64nNk16 takes bf16 or f16 operands");
  if constexpr (Config::loaders < Config::threads) spc_gemm_specialised<Config, spc_wgmma_sums<Config>>(args);
  else spc_gemm<Config, spc_wgmma_sums<Config>>(args);
}
