// tma.cuh - bulk copies of boxes between global and shared memory by tensor map (sm_90a).
//
// One thread starts a copy; the engine finds the addresses, swizzles, fills what lies outside the tensor with
// zeros on the way in and leaves it out on the way out.  A load completes on an mbarrier (barrier.cuh), which
// counts its bytes, those outside included; stores complete in groups of the thread that started them.
// A box starts at (x, y): x along the contiguous dimension, y along the other one, then up to three batch indices.
#pragma once
#include "spc/abi.h"
#include "spc/barrier.cuh"

struct spc_box_batch { int at[3]; };

// No box and no map: bytes of global memory to shared memory: both and the length are multiples of 16.
SPC_DEVICE void ptx_bulk_load(spc_u32 to, const void *from, int bytes, spc_u32 barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               ::"r"(to), "l"(from), "r"(bytes), "r"(barrier) : "memory");
}

SPC_DEVICE void ptx_tma_prefetch(const spc_tensor_map *map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

template <int Batches>
SPC_DEVICE void ptx_tma_load(spc_u32 to, const spc_tensor_map *map, spc_u32 barrier, int x, int y, spc_box_batch g) {
  if constexpr (Batches == 0)
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4}], [%2];" ::"r"(to), "l"(map), "r"(barrier), "r"(x), "r"(y) : "memory");
  else if constexpr (Batches == 1)
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5}], [%2];"
                 ::"r"(to), "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(g.at[0]) : "memory");
  else if constexpr (Batches == 2)
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5, %6}], [%2];"
                 ::"r"(to), "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(g.at[0]), "r"(g.at[1]) : "memory");
  else
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5, %6, %7}], [%2];"
                 ::"r"(to), "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(g.at[0]), "r"(g.at[1]), "r"(g.at[2]) : "memory");
}

template <int Batches>
SPC_DEVICE void ptx_tma_store(const spc_tensor_map *map, spc_u32 from, int x, int y, spc_box_batch g) {
  if constexpr (Batches == 0)
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];"
                 ::"l"(map), "r"(from), "r"(x), "r"(y) : "memory");
  else if constexpr (Batches == 1)
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];"
                 ::"l"(map), "r"(from), "r"(x), "r"(y), "r"(g.at[0]) : "memory");
  else if constexpr (Batches == 2)
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];"
                 ::"l"(map), "r"(from), "r"(x), "r"(y), "r"(g.at[0]), "r"(g.at[1]) : "memory");
  else
    asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];"
                 ::"l"(map), "r"(from), "r"(x), "r"(y), "r"(g.at[0]), "r"(g.at[1]), "r"(g.at[2]) : "memory");
}
SPC_DEVICE void ptx_tma_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// Returns when all but `Pending` of this thread's groups of stores have read their shared memory.
template <int Pending> SPC_DEVICE void ptx_tma_store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(Pending) : "memory");
}
// The same until what they store is in memory.
SPC_DEVICE void ptx_tma_store_wait() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
