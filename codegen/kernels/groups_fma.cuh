// groups_fma.cuh - rows in ragged groups, on plain f32 arithmetic; f32 operands.
#pragma once
#include "spc/groups.cuh"
#include "spc/multiply_fma.cuh"
#include "spc/plain.cuh"

template <class Config> SPC_DEVICE void spc_groups_fma(const spc_args &args) {
  static_assert(sizeof(typename Config::A) == 4 && sizeof(typename Config::B) == 4, "the operands must be f32");
  spc_gemm_groups<Config, spc_fma_sums<Config>>(args);
}
