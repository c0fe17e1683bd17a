// gemm_tma32.cuh - the dense product of Hopper on f32 operands, multiplied as tf32: gemm_tma.cuh with another multiply.
#pragma once
#include "spc/wgmma32.cuh" // first: a template finds overloads of `float` only where it is written
#include "spc/gemm_tma.cuh"

template <class Config> SPC_DEVICE void spc_gemm_tma32(const spc_args &args, const spc_tensor_maps &maps) {
  static_assert(sizeof(typename Config::A) == 4 && Config::parts == 1, "the operands must be f32, one tf32 number each");
  spc_gemm_tma<Config>(args, maps);
}
