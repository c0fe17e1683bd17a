// cluster.cuh - blocks of a cluster: who a block is, the barrier of all, the others' shared memory (sm_90).
#pragma once
#include "spc/ptx.cuh"

SPC_DEVICE int ptx_cluster_rank() {
  spc_u32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return (int)rank;
}
// All threads of the cluster that have not left; what was written to any block's shared memory before the one is visible
// after the other.
SPC_DEVICE void ptx_cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
SPC_DEVICE void ptx_cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
SPC_DEVICE void ptx_cluster_sync() {
  ptx_cluster_arrive();
  ptx_cluster_wait();
}
// The address, in the cluster's window, of another block's shared memory.
SPC_DEVICE spc_u32 ptx_cluster_address(spc_u32 shared, int rank) {
  spc_u32 there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared), "r"(rank));
  return there;
}
SPC_DEVICE void ptx_cluster_store_16(spc_u32 to, float a, float b, float c, float d) {
  asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to), "f"(a), "f"(b), "f"(c), "f"(d) : "memory");
}
SPC_DEVICE void ptx_cluster_store(spc_u32 to, int value) {
  asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(to), "r"(value) : "memory");
}
SPC_DEVICE float ptx_cluster_load(spc_u32 from) {
  float v;
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v) : "r"(from) : "memory");
  return v;
}
