// gemm_krows.cuh - products of the rows that hold anything in each block of k (sm_90a); sums stay in shared memory.
//
//     packed rows, their numbers --bulk copies--> slot      B, 64 k's --boxes--> slot             (loading warps, a slot each in turn)
//     slot --wgmma--> sums of up to 64 rows in registers --added--> sums of all rows              (warpgroups in turn)
//     sums --epilogue--> T                                                                       (all warpgroups, at a tile's end)
//
// A tile is a section of rows, many of them, by few columns: all of its sums fit beside the ring.  A block of k is multiplied with the rows that it is not
// zero in, and no others (krows.cuh), so nothing is gained by rows being alike, or lost.  A step is 64 of these rows at most; a block of more takes several,
// each of which brings B once more.  Warpgroups take steps by turns, and add in their order: what a block of k adds to a row has one order, whatever
// else the rows hold.  A row of sums lies in the order of the registers it is added from: of sixteen columns, thread t of four has 2 t, 2 t + 1, 2 t + 8 and
// 2 t + 9 side by side, and odd rows of a warp begin with the other sixteen, so that a quarter of a warp meets no bank twice.
#pragma once
#include "spc/boxes.cuh"
#include "spc/epilogue.cuh"
#include "spc/guard.cuh"
#include "spc/krows.cuh"
#include "spc/wgmma.cuh"

template <class Config> struct spc_krows_ring {
  using panel_b = spc_box_panel<Config, typename Config::B, Config::tile_n, Config::layout_b == 'r', 0>;
  static constexpr int rows = 64, groups = Config::workers / 128, loaders = Config::depth % 4 == 0 ? 4 : Config::depth % 3 == 0 ? 3 : 2; // of a step; warpgroups; warps that load
  static constexpr int sums_bytes = Config::tile_m * Config::tile_n * 4, a_bytes = rows * Config::tile_k * 2, slot_bytes = a_bytes + panel_b::bytes;
  static constexpr int slots_at = sums_bytes, ids_at = slots_at + Config::depth * slot_bytes, notes_at = ids_at + Config::depth * rows * 4;
  static constexpr int barriers_at = notes_at + Config::depth * 16, bytes = barriers_at + Config::depth * 16;
  static_assert(sums_bytes % 1024 == 0 && slot_bytes % 1024 == 0 && Config::tile_k == 64, "panels begin at multiples of 1024 bytes");
  static_assert(Config::depth % loaders == 0 && Config::depth >= groups, "a loading warp comes to each of its slots in every round");
  SPC_DEVICE spc_u32 full(spc_u32 shared, int slot) { return shared + barriers_at + slot * 8; }
  SPC_DEVICE spc_u32 empty(spc_u32 shared, int slot) { return full(shared, Config::depth + slot); }
};

// Who may add to sums: a warpgroup when all others have done their last step, of which the one before it is the latest.  Each tells each other one, so that
// nothing has to be passed on.
template <int Threads> SPC_DEVICE void ptx_wait_step(int group) { asm volatile("bar.sync %0, %1;" ::"r"(1 + group), "n"(Threads) : "memory"); }
template <int Threads> SPC_DEVICE void ptx_tell_step(int group) { asm volatile("bar.arrive %0, %1;" ::"r"(1 + group), "n"(Threads) : "memory"); }
// last: those before have no step more.
template <class Ring, int Threads> SPC_DEVICE void spc_tell_step(int group, bool last) {
#pragma unroll
  for (int d = 1; d < Ring::groups; d++) {
    const int other = (group + d) % Ring::groups;
    if (!last || other > group) ptx_tell_step<Threads>(other);
  }
}

// Sums of four columns, of a row that there is.
SPC_DEVICE void ptx_load_sums(float4 &v, spc_u32 at, bool wanted) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %5, 0; @p ld.shared.v4.f32 {%0, %1, %2, %3}, [%4]; }"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(at), "r"((int)wanted) : "memory");
}
SPC_DEVICE void ptx_store_sums(const float4 &v, spc_u32 at, bool wanted) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %5, 0; @p st.shared.v4.f32 [%4], {%0, %1, %2, %3}; }"
               ::"f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w), "r"(at), "r"((int)wanted) : "memory");
}

template <class Config> SPC_DEVICE int spc_krows_sections(const spc_args &args) { return ((int)Config::m(args) + Config::tile_m - 1) / Config::tile_m; }
template <class Config> SPC_DEVICE int spc_krows_tiles(const spc_args &args) {
  return spc_krows_sections<Config>(args) * (((int)Config::n(args) + Config::tile_n - 1) / Config::tile_n);
}

// The loading warps: every one looks at all counts, and loads the steps that are its own.  Steps are numbered through all tiles of a block; a tile has as
// many as the warpgroups can share evenly, the last ones empty.
template <class Config> SPC_DEVICE void spc_krows_load_role(spc_u32 shared, char *base, const spc_args &args, const spc_tensor_maps &maps, int me) {
  using ring = spc_krows_ring<Config>;
  const int lane = (int)threadIdx.x & 31, sections = spc_krows_sections<Config>(args), tiles = spc_krows_tiles<Config>(args), blocks = (int)Config::strips(args);
  const spc_u32 pitch = spc_krows_pitch(Config::m(args));
  const bool leads = ptx_elect();
  int begun = 0; // steps of the tiles before
#pragma unroll 1
  for (int tile = (int)blockIdx.x; tile < tiles; tile += (int)gridDim.x) {
    const int section = tile % sections, n0 = tile / sections * Config::tile_n;
    const int *counts = Config::counts(args) + section * blocks;
    int padded = 0, number = begun;
#pragma unroll 1
    for (int k = lane; k < blocks; k += 32) padded += (counts[k] + ring::rows - 1) / ring::rows;
    padded = (int)__reduce_add_sync(~0u, (spc_u32)padded);
    padded = begun + max((padded + ring::groups - 1) / ring::groups * ring::groups, ring::groups);
    auto load = [&](int step, int block, int first, int rows) {
      const int slot = step % Config::depth;
      const spc_u32 full = ring::full(shared, slot), to = shared + ring::slots_at + slot * ring::slot_bytes;
      ptx_barrier_wait(ring::empty(shared, slot), ~(step / Config::depth) & 1);
      *(int *)(base + ring::notes_at + slot * 16) = rows | (step >= padded - ring::groups ? 256 : 0); // the last of its warpgroup's
      if (rows == 0) {
        ptx_barrier_arrive(full);
        return;
      }
      const spc_u64 at = (spc_u64)block * pitch + section * Config::tile_m + first;
      const int numbers = (rows * 4 + 15) / 16 * 16;
      ptx_barrier_expect(full, ring::panel_b::bytes + rows * 128 + numbers);
      ring::panel_b::load(to + ring::a_bytes, &maps.map[1], full, n0, block * Config::tile_k, {{0, 0, 0}});
      ptx_bulk_load(to, Config::rows_packed(args) + at * Config::tile_k, rows * 128, full);
      ptx_bulk_load(shared + ring::ids_at + slot * ring::rows * 4, Config::ids(args) + at, numbers, full);
    };
#pragma unroll 1
    for (int k = 0; k < blocks; k += 32) {
      const int mine = k + lane < blocks ? counts[k + lane] : 0, steps = (mine + ring::rows - 1) / ring::rows;
      int before = steps;
#pragma unroll
      for (int d = 1; d < 32; d *= 2) {
        const int other = __shfl_up_sync(~0u, before, d);
        if (lane >= d) before += other;
      }
      const int here = __shfl_sync(~0u, before, 31);
      before += number - steps, number += here;
      const int skipped = (me + ring::loaders - before % ring::loaders) % ring::loaders; // the first of its steps that is this warp's
      spc_u32 live = ptx_ballot(skipped < steps);
#pragma unroll 1
      while (live) {
        const int who = __ffs((int)live) - 1, rows = __shfl_sync(~0u, mine, who), first = __shfl_sync(~0u, before, who), own = __shfl_sync(~0u, skipped, who);
        live &= live - 1;
        if (leads)
#pragma unroll 1
          for (int i = own; i * ring::rows < rows; i += ring::loaders) load(first + i, k + who, i * ring::rows, min(rows - i * ring::rows, ring::rows));
        __syncwarp();
      }
    }
    if (leads)
#pragma unroll 1
      for (; number < padded; number++)
        if (number % ring::loaders == me) load(number, 0, 0, 0);
    __syncwarp();
    begun = padded;
  }
}

// A tile's sums to T, and zeros in their place.  A thread has the same four columns in every row that it takes.
template <class Config> SPC_DEVICE void spc_krows_store(char *base, const spc_args &args, int m0, int n0) {
  using T = typename Config::T;
  static_assert(!Config::fetches && !Config::reads_place, "nothing is brought from the result's own place");
  const int quads = Config::tile_n / 4, t = (int)threadIdx.x % 4, m = (int)Config::m(args), n = (int)Config::n(args);
  const int column = n0 + (int)threadIdx.x % quads / 4 * 16 + 2 * t; // and the next, and both 8 on
  const int stored = n0 + (int)threadIdx.x % quads / 4 * 16 + (t & 1) * 8 + t / 2 * 4; // of two bytes: four side by side
  const long long pitch = Config::pitch_t(args);
  const bool wide = sizeof(T) == 2 && (((spc_u64)Config::t(args, 0) | (spc_u64)pitch * sizeof(T)) & 7) == 0 && n0 + Config::tile_n <= n;
  spc_brought brought[4] = {};
#pragma unroll
  for (int e = 0; e < 4; e++)
#pragma unroll
    for (int i = 0; i < Config::columns_read; i++) brought[e].column[i] = Config::column(args, i, min(column + e / 2 * 8 + e % 2, n - 1));
#pragma unroll 2
  for (int at = (int)threadIdx.x; at < Config::tile_m * quads; at += Config::workers) {
    const int row = m0 + at / quads;
    float4 *sums = (float4 *)base + at;
    const float4 v = *sums;
    *sums = make_float4(0, 0, 0, 0);
    const float sum[4] = {v.x, v.y, v.z, v.w};
    alignas(8) T value[4];
#pragma unroll
    for (int e = 0; e < 4; e++) {
#pragma unroll
      for (int i = 0; i < Config::rows_read; i++) brought[e].row[i] = Config::row(args, i, min(row, m - 1));
      value[e] = spc_put_as<T>::from(Config::epilogue(args, sum[e], min(row, m - 1), min(column + e / 2 * 8 + e % 2, n - 1), 0, brought[e]));
    }
    T *to = Config::t(args, 0) + row * pitch;
    if constexpr (sizeof(T) == 2)
      if (wide) { // lanes in pairs exchange two columns, so that each has four
        const uint2 both = *(const uint2 *)value;
        const spc_u32 other = __shfl_xor_sync(~0u, t & 1 ? both.x : both.y, 1);
        if (row < m) *(uint2 *)(to + stored) = t & 1 ? make_uint2(other, both.y) : make_uint2(both.x, other);
        continue;
      }
#pragma unroll
    for (int e = 0; e < 4; e++)
      if (row < m && column + e / 2 * 8 + e % 2 < n) to[column + e / 2 * 8 + e % 2] = value[e];
  }
}

template <class Config> SPC_DEVICE void spc_krows_work_role(spc_u32 shared, char *base, const spc_args &args) {
  using ring = spc_krows_ring<Config>;
  using panel_b = typename ring::panel_b;
  const int group = __shfl_sync(~0u, (int)threadIdx.x / 128, 0), lane = (int)threadIdx.x & 31, row = (int)threadIdx.x / 32 % 4 * 16 + lane / 4;
  const int sections = spc_krows_sections<Config>(args), tiles = spc_krows_tiles<Config>(args), sixteens = Config::tile_n / 16, odd = lane / 4 & 1;
  const bool transposed = Config::layout_b == 'r';
  const int on_b = transposed ? 32 * panel_b::width / 16 : 2; // 16 k's further, in units of 16 bytes
  int slot = group, phase = 0;
  float d[Config::tile_n / 2];
  for (int other = 0; other < group; other++) ptx_tell_step<Config::workers>(other); // their first step comes before
#pragma unroll 1
  for (int tile = (int)blockIdx.x; tile < tiles; tile += (int)gridDim.x) {
    bool more;
#pragma unroll 1
    do {
      const spc_u32 from = shared + ring::slots_at + slot * ring::slot_bytes;
      ptx_barrier_wait(ring::full(shared, slot), phase);
      const spc_u64 a = spc_wgmma_descriptor<64>(from, ring::a_bytes), b = spc_wgmma_descriptor<panel_b::width>(from + ring::a_bytes, panel_b::slab_bytes);
      ptx_wgmma_fence();
      ptx_wgmma_four<0, transposed, 2, on_b>(d, a, b, 0, spc_factor<Config>());
      ptx_wgmma_commit();
      const int note = *(const int *)(base + ring::notes_at + slot * 16), rows = note & 255;
      const int *ids = (const int *)(base + ring::ids_at) + slot * ring::rows + row;
      const bool first = row < rows, second = row + 8 < rows;
      const spc_u32 at = shared + lane % 4 * 16, to[2] = {at + ids[0] * (Config::tile_n * 4), at + ids[8] * (Config::tile_n * 4)};
      ptx_wgmma_wait<0>();
      ptx_barrier_arrive(ring::empty(shared, slot)); // each, for each has read what the slot says
      ptx_wait_step<Config::workers>(group);
      float4 sum[2][sixteens];
#pragma unroll
      for (int i = 0; i < sixteens; i++) ptx_load_sums(sum[0][i], to[0] + (i ^ odd) * 64, first), ptx_load_sums(sum[1][i], to[1] + (i ^ odd) * 64, second);
#pragma unroll
      for (int i = 0; i < sixteens; i++) {
        auto own = [&](int e) { return odd ? d[8 * (i ^ 1) + e] : d[8 * i + e]; };
        sum[0][i].x += own(0), sum[0][i].y += own(1), sum[0][i].z += own(4), sum[0][i].w += own(5);
        sum[1][i].x += own(2), sum[1][i].y += own(3), sum[1][i].z += own(6), sum[1][i].w += own(7);
        ptx_store_sums(sum[0][i], to[0] + (i ^ odd) * 64, first), ptx_store_sums(sum[1][i], to[1] + (i ^ odd) * 64, second);
      }
      more = !(note & 256);
      spc_tell_step<ring, Config::workers>(group, !more && tile + (int)gridDim.x >= tiles);
      slot += ring::groups;
      if (slot >= Config::depth) slot -= Config::depth, phase ^= 1;
    } while (more);
    ptx_sync_workers<Config::workers>();
    spc_krows_store<Config>(base, args, tile % sections * Config::tile_m, tile / sections * Config::tile_n);
    ptx_sync_workers<Config::workers>();
  }
}

// Of all pieces of rows and blocks of k the share that is listed, against the break-even, by every block for itself; a sample may have said dense before.
template <class Config> SPC_DEVICE bool spc_krows_decide(const spc_args &args, int *room) {
  const int lists = spc_krows_sections<Config>(args) * (int)Config::strips(args);
  int sum = 0;
#pragma unroll 1
  for (int i = (int)threadIdx.x; i < lists; i += Config::threads) sum += Config::counts(args)[i];
  sum = (int)__reduce_add_sync(~0u, (spc_u32)sum);
  if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = sum;
  if (__syncthreads_or(spc_says_dense(Config::verdict(args)))) return true; // and nothing is listed
  long long all = 0;
#pragma unroll 1
  for (int w = 0; w < Config::threads / 32; w++) all += room[w];
  __syncthreads(); // sums are there from here on
  return spc_decide<Config>(args, (double)all, (double)Config::m(args) * (double)Config::strips(args), Config::threshold(args), true);
}

template <class Config> SPC_DEVICE void spc_gemm_krows(const spc_args &args, const spc_tensor_maps &maps) {
  using ring = spc_krows_ring<Config>;
  static_assert(Config::layout_a == 'r' && Config::layout_t == 'r' && sizeof(typename Config::A) == 2, "rows of A and T are contiguous, A's of 16 bits");
  static_assert(Config::shared_bytes >= ring::bytes, "shared_bytes is less than sums and ring need");
  extern __shared__ __align__(1024) char spc_shared[];
  const int said = spc_said_in_front<Config>(args);
  spc_u32 shared = spc_shared_address(spc_shared);
  asm volatile("" : "+r"(shared)); // kept in a register, not made anew for each slot
  if (threadIdx.x < Config::depth) ptx_barrier_init(ring::full(shared, (int)threadIdx.x), 1), ptx_barrier_init(ring::empty(shared, (int)threadIdx.x), 128);
  if (threadIdx.x < 32) ptx_fence_barrier_init();
  if (threadIdx.x == Config::workers) ptx_tma_prefetch(&maps.map[1]);
  if (spc_leaves_to_front<Config>(args, said)) return;
  ptx_wait_grid();
  if (spc_not_meant<Config>(args)) return;
  if constexpr (Config::own_verdict)
    if (spc_krows_decide<Config>(args, (int *)spc_shared)) return; // the kernel behind it is meant
  ptx_release_grid();
#pragma unroll 1
  for (int i = (int)threadIdx.x; i < ring::sums_bytes / 16; i += Config::threads) ((float4 *)spc_shared)[i] = make_float4(0, 0, 0, 0);
  __syncthreads();
  if (threadIdx.x < Config::workers) spc_krows_work_role<Config>(shared, spc_shared, args);
  else {
    const int me = __shfl_sync(~0u, (int)threadIdx.x / 32, 0) - Config::workers / 32;
    if (me < ring::loaders) spc_krows_load_role<Config>(shared, spc_shared, args, maps, me);
  }
}
