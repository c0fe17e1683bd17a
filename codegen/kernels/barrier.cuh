// barrier.cuh - what Hopper's specialised warpgroups meet at: mbarriers in shared memory, register budgets.
//
// An mbarrier counts arrivals; when the expected number is there its phase flips.  A waiter names the parity
// of the phase it waits for: the first phase is 0, and waiting for parity 1 on a fresh barrier returns at once.
#pragma once
#include "spc/ptx.cuh"

SPC_DEVICE void ptx_barrier_init(spc_u32 barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
// Its memory may then be anything, a barrier again or not.
SPC_DEVICE void ptx_barrier_end(spc_u32 barrier) {
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}
SPC_DEVICE void ptx_barrier_arrive(spc_u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// Arrives, and makes the phase wait for so many bytes of bulk copies besides.
SPC_DEVICE void ptx_barrier_expect(spc_u32 barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
// Arrives when the cp.async copies that this thread has started are complete.
SPC_DEVICE void ptx_barrier_arrive_after_copies(spc_u32 barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}
SPC_DEVICE void ptx_barrier_wait(spc_u32 barrier, int parity) {
  asm volatile(
      "{ .reg .pred done;\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again; }" ::"r"(barrier), "r"(parity) : "memory");
}
SPC_DEVICE void ptx_fence_barrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

// One lane of a whole warp; the compiler then knows that a single thread goes on.
SPC_DEVICE bool ptx_elect() {
  spc_u32 elected;
  asm volatile("{ .reg .pred one; elect.sync _|one, 0xffffffff; selp.u32 %0, 1, 0, one; }" : "=r"(elected));
  return elected != 0;
}

// One thread of each warpgroup, the same one every time.
SPC_DEVICE bool spc_leads_group() {
  return __shfl_sync(0xffffffffu, (int)threadIdx.x / 32, 0) % 4 == 0 && ptx_elect();
}

template <int Registers> SPC_DEVICE void ptx_take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
}
template <int Registers> SPC_DEVICE void ptx_give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
}
// Barrier number 1 + group, of the 128 threads of a warpgroup.
SPC_DEVICE void ptx_sync_group(int group) { asm volatile("bar.sync %0, 128;" ::"r"(1 + group) : "memory"); }
// Barrier 0, of all threads of the block: who does not wait has made what the others wait for.
template <int Threads> SPC_DEVICE void ptx_sync_block(bool waits) {
  if (waits) asm volatile("bar.sync 0, %0;" ::"n"(Threads) : "memory");
  else asm volatile("bar.arrive 0, %0;" ::"n"(Threads) : "memory");
}
// Barriers 3 and 4: the turn of a warpgroup of two, which the other one passes on to it.
SPC_DEVICE void ptx_wait_turn(int group) { asm volatile("bar.sync %0, 256;" ::"r"(3 + group) : "memory"); }
SPC_DEVICE void ptx_pass_turn(int group) { asm volatile("bar.arrive %0, 256;" ::"r"(3 + group) : "memory"); }
// Barrier 9, of so many threads, where the roles of a block meet in different places of the code.
template <int Threads> SPC_DEVICE void ptx_sync_roles() {
  asm volatile("bar.sync 9, %0;" ::"n"(Threads) : "memory");
}
// Barrier 8, of the first `Threads` threads of the block.
template <int Threads> SPC_DEVICE void ptx_sync_workers() {
  asm volatile("bar.sync 8, %0;" ::"n"(Threads) : "memory");
}
