// guard.cuh - what a stage that a guard controls does first: read the verdict and leave if it is not meant.
//
// All branches are enqueued; the device decides (no host in the loop).  Verdict 0: sparse, 1: dense.
#pragma once
#include "spc/prelude.cuh"

// True when this launch must do nothing: `dense` says which branch the kernel is.
SPC_DEVICE bool spc_not_meant(const void *verdict, bool dense) {
  return (*(const volatile int *)verdict != 0) != dense;
}

// Whether so many of so many micro-tiles are enough for dense; writes the verdict.
template <class Config> SPC_DEVICE bool spc_decide(const spc_args &args, double covered, double all, double threshold) {
  double cover = all > 0 ? covered / all : 0;
  bool dense = cover >= threshold;
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    spc_u32 measured = 1 + (spc_u32)(fmin(cover, 1.0) * 65536);
    *Config::verdict(args) = dense ? (int)measured : 0;
    if (args.status) args.status[1 + Config::list_number] = measured | (dense ? 0x80000000u : 0);
  }
  return dense;
}
