// ptx.cuh - the PTX instructions that C++ has no word for, one named wrapper each.
//
// No headers: a kernel that includes this compiles in tens of milliseconds.  Shared memory is addressed by
// its 32-bit window address (spc_shared_address).  "memory" stands only where a compiler must not move
// loads and stores across.  Everything here exists from sm_80 on, or says so.
#pragma once

#define SPC_DEVICE static __device__ __forceinline__

typedef unsigned int spc_u32;
typedef unsigned long long spc_u64;

SPC_DEVICE spc_u32 spc_shared_address(const void *p) {
  return (spc_u32)__cvta_generic_to_shared(p);
}

// ---- grids that follow one another ---------------------------------------------------------------
// Waits until what was launched before has ended and its memory is visible.
SPC_DEVICE void ptx_wait_grid() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// Lets the next one be brought to the multiprocessors, as far as there is room; who leaves does, too (sm_90; else launches wait).
SPC_DEVICE void ptx_release_grid() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
// Every kernel waits before it touches global memory; most let the next one come at once.
SPC_DEVICE void ptx_follow_grid() {
  ptx_wait_grid();
  ptx_release_grid();
}

// What another block has left, and what was written before that; pairs with ptx_store_release.
SPC_DEVICE int ptx_load_acquire(const int *from) {
  int v;
  asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(v) : "l"(from) : "memory");
  return v;
}
SPC_DEVICE void ptx_store_release(int *to, int v) { asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(to), "r"(v) : "memory"); }
// A word that blocks tell each other, and nothing behind it.
SPC_DEVICE int ptx_load_told(const int *from) {
  int v;
  asm volatile("ld.relaxed.gpu.global.s32 %0, [%1];" : "=r"(v) : "l"(from) : "memory");
  return v;
}
SPC_DEVICE void ptx_store_told(int *to, int v) { asm volatile("st.relaxed.gpu.global.s32 [%0], %1;" ::"l"(to), "r"(v) : "memory"); }

// The line there comes to the L2 cache; nobody waits for it.
SPC_DEVICE void ptx_prefetch_l2(const void *from) { asm volatile("prefetch.global.L2 [%0];" ::"l"(from)); }

// ---- loads ----------------------------------------------------------------------------------------
// 16 bytes that nobody writes meanwhile, past L1.
SPC_DEVICE uint4 ptx_load_16(const void *from) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(from));
  return v;
}

// Bytes of a (0 to 3) and b (4 to 7), as the lower four nibbles of `which` say, none above 7: __byte_perm would see to that, an instruction more.
SPC_DEVICE spc_u32 ptx_permute(spc_u32 a, spc_u32 b, spc_u32 which) {
  spc_u32 v;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(v) : "r"(a), "r"(b), "r"(which));
  return v;
}

// base + number * bytes, computed here and nowhere before: no register holds it meanwhile.
SPC_DEVICE const char *ptx_address(const char *base, int number, spc_u32 bytes) {
  spc_u64 at;
  asm volatile("mad.wide.u32 %0, %1, %2, %3;" : "=l"(at) : "r"(number), "r"(bytes), "l"((spc_u64)base));
  return (const char *)at;
}

// This thread's number, read here and nowhere before: nothing that follows from it is held meanwhile.
SPC_DEVICE int ptx_thread() {
  int number;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(number));
  return number;
}
// The same pointer, of which a compiler knows no more: what lies behind it at a constant distance is read from here.
template <class T> SPC_DEVICE const T *ptx_kept(const T *p) {
  asm volatile("" : "+l"(p));
  return p;
}

// 16 bytes where `wanted`, zeros elsewhere; `kept`: by way of L1, where other warps find them again.
#define SPC_LOAD_IF(NAME, KIND) \
  SPC_DEVICE void NAME(spc_u32 (&v)[4], const void *from, bool wanted) { \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %5, 0; mov.u32 %0, 0; mov.u32 %1, 0; mov.u32 %2, 0; mov.u32 %3, 0; " \
                 "@p ld.global" KIND ".v4.u32 {%0, %1, %2, %3}, [%4]; }" \
                 : "=&r"(v[0]), "=&r"(v[1]), "=&r"(v[2]), "=&r"(v[3]) : "l"(from), "r"((int)wanted)); \
  }
SPC_LOAD_IF(ptx_load_16_if, ".L1::no_allocate.L2::128B")
SPC_LOAD_IF(ptx_load_kept_16_if, "")
#undef SPC_LOAD_IF
SPC_DEVICE void ptx_load_kept_8_if(spc_u32 (&v)[2], const void *from, bool wanted) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %3, 0; mov.u32 %0, 0; mov.u32 %1, 0; @p ld.global.v2.u32 {%0, %1}, [%2]; }"
               : "=&r"(v[0]), "=&r"(v[1]) : "l"(from), "r"((int)wanted));
}

// ---- asynchronous copies, global to shared ----------------------------------------------------
// 16 bytes past L1; what lies behind `bytes` (0 or 16) is filled with zeros.
SPC_DEVICE void ptx_copy_async_16(spc_u32 to, const void *from, int bytes) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
// The same by way of L1, of rows that are less aligned: behind `bytes` (0 to 8, 0 to 4) are zeros.
SPC_DEVICE void ptx_copy_async_8(spc_u32 to, const void *from, int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
SPC_DEVICE void ptx_copy_async_4(spc_u32 to, const void *from, int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
SPC_DEVICE void ptx_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Returns when at most `Pending` of this thread's groups are still under way.
template <int Pending> SPC_DEVICE void ptx_copy_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

SPC_DEVICE spc_u32 ptx_load_shared_16(spc_u32 address) {
  unsigned short v;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(v) : "r"(address) : "memory");
  return v;
}
SPC_DEVICE void ptx_load_shared_128(spc_u32 (&v)[4], spc_u32 address) {
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3]) : "r"(address));
}
SPC_DEVICE spc_u32 ptx_load_shared_8(spc_u32 address) {
  spc_u32 v;
  asm volatile("ld.shared.u8 %0, [%1];" : "=r"(v) : "r"(address) : "memory");
  return v;
}

// ---- matrices of 8 x 8 16-bit elements, shared to registers ------------------------------------
SPC_DEVICE void ptx_load_matrix(spc_u32 (&r)[4], spc_u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
}
SPC_DEVICE void ptx_load_matrix_transposed(spc_u32 (&r)[4], spc_u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
}
// Two matrices: addresses from lanes 0 to 15.
SPC_DEVICE void ptx_load_half_matrix_transposed(spc_u32 address, spc_u32 &r0, spc_u32 &r1) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];" : "=r"(r0), "=r"(r1) : "r"(address) : "memory");
}

// The other way (sm_90): no C++ code reads what they store, so loads may move across.
SPC_DEVICE void ptx_store_matrix(spc_u32 address, const spc_u32 (&r)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
               ::"r"(address), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]));
}
SPC_DEVICE void ptx_store_matrix_transposed(spc_u32 address, const spc_u32 (&r)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
               ::"r"(address), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]));
}
SPC_DEVICE void ptx_store_half_matrix_transposed(spc_u32 address, spc_u32 r0, spc_u32 r1) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(address), "r"(r0), "r"(r1));
}

// ---- tensor cores, m16n8k16, f32 sums ------------------------------------------------------------
SPC_DEVICE void ptx_mma_bf16(float (&c)[4], const spc_u32 (&a)[4], spc_u32 b0, spc_u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
SPC_DEVICE void ptx_mma_f16(float (&c)[4], const spc_u32 (&a)[4], spc_u32 b0, spc_u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// ---- conversions ----------------------------------------------------------------------------------
SPC_DEVICE float ptx_f16_to_f32(unsigned short bits) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(bits));
  return f;
}
SPC_DEVICE unsigned short ptx_f32_to_f16(float f) {
  unsigned short bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(f));
  return bits;
}
SPC_DEVICE unsigned short ptx_f64_to_f16(double f) {
  unsigned short bits;
  asm("cvt.rn.f16.f64 %0, %1;" : "=h"(bits) : "d"(f));
  return bits;
}
SPC_DEVICE unsigned short ptx_f32_to_bf16(float f) {
  unsigned short bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(f));
  return bits;
}
// Two at once: `low` in the lower half.
SPC_DEVICE spc_u32 ptx_pack_f16(float low, float high) {
  spc_u32 bits;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}
SPC_DEVICE spc_u32 ptx_pack_bf16(float low, float high) {
  spc_u32 bits;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}
// Smaller and larger of two; NaN when either is.
SPC_DEVICE float ptx_min_nan(float x, float y) {
  float r;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(x), "f"(y));
  return r;
}
SPC_DEVICE float ptx_max_nan(float x, float y) {
  float r;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(x), "f"(y));
  return r;
}

// 2^x, to two units in the last place; less than 2^-126 is 0.
SPC_DEVICE float ptx_exp2(float x) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}

// ---- votes -----------------------------------------------------------------------------------------
SPC_DEVICE spc_u32 ptx_ballot(bool vote) { return __ballot_sync(0xffffffffu, vote); }
SPC_DEVICE spc_u32 ptx_any_bits(spc_u32 bits) { // of all lanes, or'ed
  spc_u32 all;
  asm volatile("redux.sync.or.b32 %0, %1, 0xffffffff;" : "=r"(all) : "r"(bits));
  return all;
}
SPC_DEVICE spc_u32 ptx_lanes_below() {
  spc_u32 mask;
  asm("mov.u32 %0, %%lanemask_lt;" : "=r"(mask));
  return mask;
}
