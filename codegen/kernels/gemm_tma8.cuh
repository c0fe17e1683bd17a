// gemm_tma8.cuh - the dense product of Hopper on 8-bit operands: gemm_tma.cuh with another multiply.
#pragma once
#include "spc/wgmma8.cuh" // first: a template finds overloads of `signed char` only where it is written
#include "spc/gemm_tma.cuh"

template <class Config> SPC_DEVICE void spc_gemm_tma8(const spc_args &args, const spc_tensor_maps &maps) {
  static_assert(sizeof(typename Config::A) == 1, "the operands must have 8 bits");
  spc_gemm_tma<Config>(args, maps);
}
