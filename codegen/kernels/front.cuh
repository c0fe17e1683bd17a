// front.cuh - a dense branch in front of the launches that make a list.
//
//     front i32 [1 + blocks]    how many blocks it has; of each, whether it has computed
//
//     the front        takes a sample.  Where it says dense, it computes, and lets who comes behind begin
//     who comes behind leaves at once then, beside the front's last tiles (guard.cuh)
//     the last of them leaves when all of the front's blocks have computed
//
// In front of the dense branch each launch that has nothing to do would be waited for: 1 us and more.  Behind it the first finds room
// when a block of the front has left, and the others follow.  It begins when all blocks here have let it, and each has written then what
// concerns it, past the caches of multiprocessors.
//
// Several lists may be made of the same values, one where the cover of those before it says dense.  The front asks them in that order, and computes where
// all say so; where one does not, who makes the later ones leaves (guard.cuh).
#pragma once
#include "spc/detect.cuh"
#include "spc/tma.cuh"

// Of lists that are asked one after the other, the samples in that order (a Config each, take() of which takes it): whether all say dense.
template <class Sample> SPC_DEVICE bool spc_ask_in_turn(const spc_args &args) { return Sample::take(args); }
template <class Sample, class Next, class... Others> SPC_DEVICE bool spc_ask_in_turn(const spc_args &args) {
  const bool first = Sample::take(args), speaks = spc_speaks<Sample>();
  if (!first) {
    if (speaks) *Next::verdict(args) = SPC_VERDICT_ELSEWHERE, ((*Others::verdict(args) = SPC_VERDICT_ELSEWHERE), ...);
    return false;
  }
  __syncthreads(); // whoever asked before has read what was counted
  if (spc_ask_in_turn<Next, Others...>(args)) return true;
  if (speaks) *Sample::verdict(args) = (*Sample::verdict(args) & SPC_VERDICT_COVER) | SPC_VERDICT_ASKED; // the front does not compute
  return false;
}

// Whether the samples say dense, first of all, by whole blocks, all alike.
template <class Sample, class... Others> SPC_DEVICE bool spc_front_goes_on(const spc_args &args, const spc_tensor_maps &maps, int *front, int most) {
  if (threadIdx.x == blockDim.x - 1)
    for (int i = 0; i < 2; i++) ptx_tma_prefetch(&maps.map[i]); // they come while the sample does
  ptx_wait_grid();
  spc_clear_told<Sample>(args), (spc_clear_told<Others>(args), ...);
  const bool fits = (int)gridDim.x <= most, dense = fits && spc_ask_in_turn<Sample, Others...>(args), decides = spc_speaks<Sample>();
  if (!fits) spc_clear_verdict<Sample>(args), (spc_clear_verdict<Others>(args), ...);
  if (!dense) {
    if (decides) __threadfence(); // who comes behind has not waited when it reads this verdict: not that of the run before
    return false;
  }
  if (threadIdx.x == blockDim.x - 1) {
    front[1 + blockIdx.x] = 0;
    if (blockIdx.x == 0) front[0] = (int)gridDim.x;
  }
  if (decides) spc_report_now(args, Sample::list, *Sample::verdict(args)), (spc_report_now(args, Others::list, *Others::verdict(args)), ...);
  __syncthreads(); // shared memory is the product's from here on; what the block has written is the last thread's to pass on
  return true;
}

// At the end, by all threads.  The last warp has not had to multiply: it is here early.
SPC_DEVICE void spc_front_ends(int *front) {
  if (threadIdx.x == blockDim.x - 1) {
    __threadfence(); // the verdict, and that this block has not computed
    ptx_release_grid();
  }
  ptx_tma_store_wait(); // what this thread has stored by box
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) ptx_store_release(front + 1 + blockIdx.x, 1);
}
