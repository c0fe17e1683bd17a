// guard.cuh - what a stage that a guard controls does first: read the verdict and leave if it is not meant.
//
// All branches are enqueued; the device decides (no host in the loop).  Verdict 0: sparse, 1: dense.
#pragma once
#include "spc/prelude.cuh"

// True when this launch must do nothing: `dense` says which branch the kernel is.
SPC_DEVICE bool spc_not_meant(const void *verdict, bool dense) {
  return (*(const volatile int *)verdict != 0) != dense;
}
