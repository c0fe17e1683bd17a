// gemm_sdd.cuh - the matrix product whose result is stored in blocks (sdd.cuh), on mma.sync (sm_80 and later): operands of any alignment.
//
// Blocks by turns compute a box of 64 x 64 of a stored block each, as gemm.cuh computes a tile.  A box's block row is found by bisection.
#pragma once
#include "spc/gemm.cuh"
#include "spc/multiply_mma.cuh"
#include "spc/sdd.cuh"

enum { spc_sdd_box = 64 };

// Of box number `box`: its place in the matrix, and among the values.
template <class Config> struct spc_sdd_place {
  spc_tile_place place;
  long long at; // of its first element; rows are Config::gran apart
  __device__ __forceinline__ spc_sdd_place(const spc_args &args, int box) {
    const int wide = Config::gran / spc_sdd_box, boxes = wide * (Config::strip / spc_sdd_box);
    const int *pos = Config::pos(args);
    int block = box / boxes, part = box % boxes, low = 0, high = ((int)Config::m(args) + Config::strip - 1) / Config::strip;
    while (high - low > 1) { // pos[low] <= block < pos[high]
      int middle = (low + high) / 2;
      if (__ldg(pos + middle) <= block) low = middle;
      else high = middle;
    }
    const int row = part / wide * spc_sdd_box, column = part % wide * spc_sdd_box;
    place = {low * Config::strip + row, __ldg(Config::crd(args) + block) * Config::gran + column, (int)Config::m(args), (int)Config::n(args), 0};
    at = ((long long)block * Config::strip + row) * Config::gran + column;
  }
  __device__ __forceinline__ bool inside() const { return place.m0 < place.m && place.n0 < place.n; }
};

// 16 bytes a thread; what lies outside the matrix is zero.
template <class Config> SPC_DEVICE void spc_sdd_store(char *shared, const spc_sdd_place<Config> &box, const spc_args &args) {
  using staged = spc_staged_tile<Config>;
  using T = typename Config::T;
  using chunk = spc_chunk<T>;
  const spc_tile_place &p = box.place;
  const bool aligned = ((spc_u64)Config::t(args, 0) & 15) == 0;
#pragma unroll 1
  for (int i = (int)threadIdx.x; i < spc_sdd_box * spc_sdd_box / chunk::count; i += Config::threads) {
    const int row = i / (spc_sdd_box / chunk::count), column = i % (spc_sdd_box / chunk::count) * chunk::count;
    const long long at = box.at + (long long)row * Config::gran + column;
    chunk values;
    spc_brought brought;
#pragma unroll
    for (int e = 0; e < chunk::count; e++) {
      const bool there = p.m0 + row < p.m && p.n0 + column + e < p.n;
      brought.place = at + e;
      auto sum = *(const typename staged::Sum *)staged::at(shared, row, column + e);
      values.element[e] = spc_put_as<T>::from(there ? Config::epilogue(args, sum, p.m0 + row, p.n0 + column + e, 0, brought) : 0.0f);
    }
    if (aligned) {
      *(uint4 *)(Config::t(args, 0) + at) = *(const uint4 *)values.element;
    } else {
#pragma unroll
      for (int e = 0; e < chunk::count; e++) Config::t(args, 0)[at + e] = values.element[e];
    }
  }
}

template <class Config> SPC_DEVICE void spc_gemm_sdd(const spc_args &args) {
  using operands = spc_operands<Config>;
  using sums_type = spc_mma_sums<Config>;
  static_assert(Config::tile_m == spc_sdd_box && Config::tile_n == spc_sdd_box && Config::layout_t == 'r', "a tile is a box, stored row by row");
  static_assert(Config::strip % spc_sdd_box == 0 && Config::gran % spc_sdd_box == 0, "a block is whole boxes");
  static_assert(Config::shared_bytes >= Config::depth * operands::slot_bytes && Config::shared_bytes >= spc_staged_tile<Config>::bytes,
                "shared_bytes is less than the pipeline or the staged tile needs");
  extern __shared__ __align__(1024) char spc_shared[];
  if (spc_not_meant<Config>(args)) return;
  const int strips = ((int)Config::m(args) + Config::strip - 1) / Config::strip;
  const int boxes = __ldg(Config::pos(args) + strips) * (Config::strip / spc_sdd_box) * (Config::gran / spc_sdd_box);
#pragma unroll 1
  for (int number = (int)blockIdx.x; number < boxes; number += (int)gridDim.x) {
    const spc_sdd_place<Config> box(args, number);
    sums_type sums;
    sums.clear();
    spc_with_loaders<Config>(box.place, (int)threadIdx.x, args, [&](auto &load_a, auto &load_b, int tiles) {
      spc_pipeline<Config>(sums, load_a, load_b, box.inside() ? tiles : 0, spc_shared);
    });
    spc_stage_sums<Config>(spc_shared, sums);
    __syncthreads();
    spc_sdd_store<Config>(spc_shared, box, args);
    __syncthreads(); // shared memory is the next box's
  }
}
