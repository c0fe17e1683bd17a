// A product with 16-bit blocks reads a dense copy of them where tensor cores are faster than a walk over the entries: one copy for two readers, its blocks listed. Single entries are copied above the break-even and walked below it, csc into its own order; a hint of few blocks, sizes that nothing bounds, and the CPU walk the entries.
// RUN: %spc opt %s --target=sm_90a --stop-after=format | FileCheck %s
// RUN: %spc compile %s --target=sm_90a --emit=tile | FileCheck %s --check-prefix=STAGES
// RUN: sed 's/csr ~ zeros(static, density=0.02)/bsr(64,64) ~ zeros(static, density=0.0001)/' %s > %t && %spc opt %t --target=sm_90a --stop-after=format | FileCheck %s --check-prefix=WALK
// RUN: sed 's/csr ~ zeros(static, density=0.02)/csr ~ zeros(static, density=0.05)/' %s > %t.c && %spc opt %t.c --target=sm_90a --stop-after=format | FileCheck %s --check-prefix=COPY
// RUN: sed 's/csr ~ zeros(static, density=0.02)/csc ~ zeros(static, density=0.05)/' %s > %t.t && %spc opt %t.t --target=sm_90a --stop-after=format | FileCheck %s --check-prefix=TURNED
// RUN: sed 's/csr ~ zeros(static, density=0.02)/csr ~ zeros(static, density=0.0005)/' %s > %t.w && %spc opt %t.w --target=sm_90a --stop-after=format | FileCheck %s --check-prefix=WALK
// RUN: sed 's/f32/f32/g; s/csr ~ zeros(static, density=0.02)/csr ~ zeros(static, density=0.5)/' %s > %t.f && %spc opt %t.f --target=sm_90a --stop-after=format | FileCheck %s --check-prefix=FLOAT
// RUN: sed 's/f32/f32/g; s/csr ~ zeros(static, density=0.02)/csr ~ zeros(static, density=0.02)/' %s > %t.g && %spc opt %t.g --target=sm_90a --stop-after=format | FileCheck %s --check-prefix=WALK
// RUN: sed 's/ = [24][0-9]*;/: dyn;/g; s/csr ~ zeros(static, density=0.02)/csr/' %s > %t.d && %spc opt %t.d --target=sm_90a --stop-after=format | FileCheck %s --check-prefix=WALK
// RUN: %spc opt %s --target=cpu --stop-after=format | FileCheck %s --check-prefix=WALK
spx 1;
dim T = 2048; dim K = 4096; dim N = 4096;
kernel t {
  in x: f32[T,K]; in z: f32[T,K]; in W: f32[N,K] as csr ~ zeros(static, density=0.02) const;
  out y[t,n] = sum[k] x[t,k]*W[n,k] : f32 acc f32;
  out u[t,n] = relu(sum[k] W[n,k]*z[t,k]) : f32 acc f32;
}
// CHECK: temp W_whole : f32[N, K] const as dense ~ zeros(dynamic, gran=64x64)
// CHECK: stmt W_whole[
// CHECK: stmt y[t, n] = sum[k](x[t, k] * W_whole[n, k])
// CHECK-NOT: stmt W_whole
// CHECK: stmt u[t, n] = relu(sum[k](W_whole[n, k] * z[t, k]))
// STAGES: once
// STAGES: once
// STAGES: gemm_kblock_tma_128x256x64
// COPY: temp W_whole : f32[N, K] const as dense ~ zeros(dynamic, density=0.05)
// TURNED: temp W_whole : f32[N, K] const as dense_t ~ zeros(dynamic, density=0.05)
// FLOAT: temp W_whole : f32[N, K] const as dense
// WALK-NOT: W_whole
