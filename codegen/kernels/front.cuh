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
// Two lists may be made of the same values, by other micro-tiles.  The front takes both samples, and computes where both say dense; else who makes the one that is
// not meant leaves (guard.cuh).
#pragma once
#include "spc/detect.cuh"
#include "spc/tma.cuh"

// Whether the sample says dense; of two lists of the same values: whether both samples do.  Else the one is meant whose cover is further below its break-even, and
// where the first one's is far below it the second is not asked.
template <class Sample> SPC_DEVICE bool spc_samples_say_dense(const spc_args &args) { return Sample::take(args); }
template <class Sample, class Other> SPC_DEVICE bool spc_samples_say_dense(const spc_args &args) {
  const float far_below = 0.4f;
  if (threadIdx.x == 0) spc_cover_here() = 0; // where no sample can be taken
  __syncthreads();
  const bool dense = Sample::take(args), speaks = spc_speaks<Sample>();
  __syncthreads();
  const float first = spc_cover_here() / (float)Sample::threshold(args);
  if (!dense && !(first > far_below)) {
    if (speaks) *Other::verdict(args) = SPC_VERDICT_ELSEWHERE;
    return false;
  }
  __syncthreads(); // all have read it
  const bool other_dense = Other::take(args);
  __syncthreads();
  if (dense && other_dense) return true;
  const bool other = !other_dense && (dense || spc_cover_here() / (float)Other::threshold(args) < first);
  if (speaks) *(other ? Sample::verdict(args) : Other::verdict(args)) = SPC_VERDICT_ELSEWHERE;
  return false;
}

// First of all, by whole blocks, all alike: whether to compute.  Sample, or two of them: how one is taken of a list.
template <class Sample, class... Other> SPC_DEVICE bool spc_front_goes_on(const spc_args &args, const spc_tensor_maps &maps, int *front, int most) {
  if (threadIdx.x == blockDim.x - 1)
    for (int i = 0; i < 2; i++) ptx_tma_prefetch(&maps.map[i]); // they come while the sample does
  ptx_wait_grid();
  spc_clear_told<Sample>(args), (spc_clear_told<Other>(args), ...);
  const bool fits = (int)gridDim.x <= most, dense = fits && spc_samples_say_dense<Sample, Other...>(args), decides = spc_speaks<Sample>();
  if (!fits) {
    spc_clear_verdict<Sample>(args);
    if (decides) ((*Other::verdict(args) = SPC_VERDICT_ELSEWHERE), ...);
  }
  if (!dense) {
    if (decides) __threadfence(); // who comes behind has not waited when it reads this verdict: not that of the run before
    return false;
  }
  if (threadIdx.x == blockDim.x - 1) {
    front[1 + blockIdx.x] = 0;
    if (blockIdx.x == 0) front[0] = (int)gridDim.x;
  }
  if (decides) spc_report_now(args, Sample::list, *Sample::verdict(args)), (spc_report_now(args, Other::list, *Other::verdict(args)), ...);
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
