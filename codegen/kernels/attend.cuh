// attend.cuh - attention on Hopper (sm_90a): boxes by tensor map, both products by wgmma, the softmax beside them.
//
//     s[m,n] = score(sum_d q[m,d] k[n,d])       t[m,e] = epilogue(sum_n exp(s[m,n] - max s) / sum exp * v[n,e])
//
// A block has tile_m rows of q at a time, a warpgroup 64 of them, and walks the columns that they see, tile_n at a time:
//
//     a warp         q | k 0 | k 1 | v 0 | k 2 | v 1 ...       boxes, as slots are given back
//     warpgroups     q k 0, softmax | q k 1 and weights 0 v 0 | softmax 1 while v 0 is multiplied | q k 2 and weights 1 v 1 | ...
//
// Scores and weights stay in registers: the sums of the first product are, packed, the second one's A.  Warpgroups start their products by
// turns, so that one's softmax runs beside another's products (FlashAttention-3, Shah et al. 2024).  Where few rows see many columns the blocks of a
// cluster share them: each has a stretch, and at the end every block a share of the result's columns, for which it gets the others' sums;
// so have two warpgroups of a block that have the same rows and take tiles by turns.
#pragma once
#include "spc/attend_softmax.cuh"
#include "spc/boxes.cuh"
#include "spc/cluster.cuh"
#include "spc/panel.cuh"
#include "spc/wgmma.cuh"

// ---- the instruction: A from registers, B's rows are k ------------------------------------------------------------
#define SPC_WGMMA_WEIGHTS(TYPE, N, R, P0, P1, P2, P3, P4, P5) \
  SPC_DEVICE void ptx_wgmma_weights(float (&d)[R], const spc_u32 (&a)[4], spc_u64 b, int add, spc_##TYPE) { \
    asm volatile("{ .reg .pred add; setp.ne.b32 add, %" #P5 ", 0; " \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." #TYPE "." #TYPE " {" SPC_TEXT_##R "}, {%" #P0 ", %" #P1 ", %" #P2 \
                 ", %" #P3 "}, %" #P4 ", add, 1, 1, 1; }" \
                 : SPC_LIST_##R : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add)); \
  }
#define SPC_WGMMA_BOTH(N, R, P0, P1, P2, P3, P4, P5) \
  SPC_WGMMA_WEIGHTS(bf16, N, R, P0, P1, P2, P3, P4, P5) \
  SPC_WGMMA_WEIGHTS(f16, N, R, P0, P1, P2, P3, P4, P5)
SPC_WGMMA_BOTH(16, 8, 8, 9, 10, 11, 12, 13)
SPC_WGMMA_BOTH(32, 16, 16, 17, 18, 19, 20, 21)
SPC_WGMMA_BOTH(48, 24, 24, 25, 26, 27, 28, 29)
SPC_WGMMA_BOTH(64, 32, 32, 33, 34, 35, 36, 37)
SPC_WGMMA_BOTH(80, 40, 40, 41, 42, 43, 44, 45)
SPC_WGMMA_BOTH(96, 48, 48, 49, 50, 51, 52, 53)
SPC_WGMMA_BOTH(112, 56, 56, 57, 58, 59, 60, 61)
SPC_WGMMA_BOTH(128, 64, 64, 65, 66, 67, 68, 69)
SPC_WGMMA_BOTH(144, 72, 72, 73, 74, 75, 76, 77)
SPC_WGMMA_BOTH(160, 80, 80, 81, 82, 83, 84, 85)
SPC_WGMMA_BOTH(176, 88, 88, 89, 90, 91, 92, 93)
SPC_WGMMA_BOTH(192, 96, 96, 97, 98, 99, 100, 101)
SPC_WGMMA_BOTH(208, 104, 104, 105, 106, 107, 108, 109)
SPC_WGMMA_BOTH(224, 112, 112, 113, 114, 115, 116, 117)
SPC_WGMMA_BOTH(240, 120, 120, 121, 122, 123, 124, 125)
SPC_WGMMA_BOTH(256, 128, 128, 129, 130, 131, 132, 133)
#undef SPC_WGMMA_BOTH
#undef SPC_WGMMA_WEIGHTS

// ---- shared memory --------------------------------------------------------------------------------------------------
// Slabs of 64 elements of a row: q, `depth` tiles of k, as many of v, staged boxes of the result, barriers.
template <class Config> struct spc_attend_room {
  using T = typename Config::T;
  static constexpr int groups = Config::workers / 128, row_groups = Config::tile_m / 64, turns = groups / row_groups; // that have the same rows
  static constexpr int slabs = (Config::head + 63) / 64, slabs_v = (Config::head_v + 63) / 64;
  static constexpr int q_slab = Config::tile_m * 128, slab = Config::tile_n * 128, box = 64 * 128;
  static constexpr int q_bytes = slabs * q_slab, k_bytes = slabs * slab, v_bytes = slabs_v * slab;
  static constexpr int k_at = q_bytes, v_at = k_at + Config::depth * k_bytes, staged_at = v_at + Config::depth * v_bytes;
  static constexpr bool by_engine = sizeof(T) == 2 && Config::split == 1 && turns == 1;
  static constexpr int staged = by_engine ? groups * Config::store_boxes * box : 0;
  static constexpr int barriers_at = staged_at + staged, bytes = barriers_at + 16 + Config::depth * 32;

  SPC_DEVICE spc_u32 q_full(spc_u32 shared) { return shared + barriers_at; }
  SPC_DEVICE spc_u32 q_empty(spc_u32 shared) { return shared + barriers_at + 8; }
  SPC_DEVICE spc_u32 barrier(spc_u32 shared, int kind, int slot) { return shared + barriers_at + 16 + (kind * Config::depth + slot) * 8; }
  SPC_DEVICE spc_u32 k_full(spc_u32 shared, int slot) { return barrier(shared, 0, slot); }
  SPC_DEVICE spc_u32 k_empty(spc_u32 shared, int slot) { return barrier(shared, 1, slot); }
  SPC_DEVICE spc_u32 v_full(spc_u32 shared, int slot) { return barrier(shared, 2, slot); }
  SPC_DEVICE spc_u32 v_empty(spc_u32 shared, int slot) { return barrier(shared, 3, slot); }
};

struct spc_attend_slot {
  int at, phase;
  template <int Depth> __device__ __forceinline__ void advance() {
    if (++at == Depth) at = 0, phase ^= 1;
  }
  template <int Depth> __device__ __forceinline__ void advance(int count) { // no more than there are
    at += count;
    if (at >= Depth) at -= Depth, phase ^= 1;
  }
};

// The tiles of a block, or of a cluster: one of as many as there are blocks, then one of the next so many, counted from the other end.  Where
// what there is to do rises or falls along the tiles, all have about as much in two such rounds.
template <class Config> struct spc_attend_walk {
  spc_attend_order<Config> order;
  spc_u32 first, at, blocks;

  __device__ __forceinline__ spc_attend_walk(const spc_args &args)
      : order(args), first(0), at(blockIdx.x / Config::split), blocks(gridDim.x / Config::split) {}
  // Of a cluster's tile the columns of this block.
  __device__ __forceinline__ bool next(const spc_args &args, spc_attend_place &place) {
    if (first + at >= order.tiles) return false;
    place = order.place(args, first + at);
    if constexpr (Config::split > 1) {
      int tiles = max(place.end - place.begin + Config::tile_n - 1, 0) / Config::tile_n, rank = ptx_cluster_rank(), from = place.begin;
      place.begin = from + tiles * rank / Config::split * Config::tile_n;
      place.end = min(place.end, from + tiles * (rank + 1) / Config::split * Config::tile_n);
    }
    first += blocks, at = blocks - 1 - at;
    return true;
  }
};
template <class Config> SPC_DEVICE spc_box_batch spc_attend_batch(const spc_args &args, const spc_attend_place &place) {
  spc_box_batch g = {{0, 0, 0}};
#pragma unroll
  for (int d = 0; d < Config::batches_mapped; d++) g.at[d] = (int)Config::batch_at(args, place.batch, d);
  return g;
}

// ---- loads ----------------------------------------------------------------------------------------------------------
template <class Config> SPC_DEVICE void spc_attend_load_role(spc_u32 shared, const spc_args &args, const spc_tensor_maps &maps) {
  using room = spc_attend_room<Config>;
  const bool leads = ptx_elect();
  spc_attend_slot k = {0, 1}, v = {0, 1};
  int q_phase = 1;
  spc_attend_walk<Config> walk(args);
  spc_attend_place place;
  auto load_v = [&](int n0, spc_box_batch batch) {
    ptx_barrier_wait(room::v_empty(shared, v.at), v.phase);
    spc_u32 to = shared + room::v_at + v.at * room::v_bytes, full = room::v_full(shared, v.at);
    if (leads) {
      ptx_barrier_expect(full, room::v_bytes);
#pragma unroll
      for (int s = 0; s < room::slabs_v; s++) ptx_tma_load<Config::batches_v>(to + s * room::slab, &maps.map[3], full, s * 64, n0, batch);
    }
    v.template advance<Config::depth>();
  };
#pragma unroll 1
  while (walk.next(args, place)) {
    spc_box_batch batch = spc_attend_batch<Config>(args, place);
    int next = spc_next_visited<Config>(args, place, place.begin), before = -1;
    if (next >= place.end) continue;
    ptx_barrier_wait(room::q_empty(shared), q_phase);
    q_phase ^= 1;
    if (leads) {
      ptx_barrier_expect(room::q_full(shared), room::q_bytes);
#pragma unroll
      for (int s = 0; s < room::slabs; s++)
        ptx_tma_load<Config::batches_q>(shared + s * room::q_slab, &maps.map[0], room::q_full(shared), s * 64, place.m0, batch);
    }
#pragma unroll 1
    while (next < place.end) {
      ptx_barrier_wait(room::k_empty(shared, k.at), k.phase);
      spc_u32 to = shared + room::k_at + k.at * room::k_bytes, full = room::k_full(shared, k.at);
      if (leads) {
        ptx_barrier_expect(full, room::k_bytes);
#pragma unroll
        for (int s = 0; s < room::slabs; s++) ptx_tma_load<Config::batches_k>(to + s * room::slab, &maps.map[1], full, s * 64, next, batch);
      }
      k.template advance<Config::depth>();
      if (before >= 0) load_v(before, batch);
      before = next;
      next = spc_next_visited<Config>(args, place, next + Config::tile_n);
    }
    load_v(before, batch);
  }
}

// ---- a warpgroup's part of a tile -------------------------------------------------------------------------------------
template <class Config> struct spc_attend_group {
  using room = spc_attend_room<Config>;
  using F = typename Config::F;
  using T = typename Config::T;
  static constexpr int columns = Config::tile_n, columns_v = (Config::head_v + 15) / 16 * 16, steps = (Config::head + 15) / 16;
  static_assert(columns % 16 == 0 && columns <= 256, "wgmma takes 16, 32, ... 256 columns");

  float value[columns_v / 2]; // sums of the second product; the registers' layout: attend_softmax.cuh
  spc_u32 weight[columns / 16][4];
  spc_softmax softmax;

  SPC_DEVICE int group() { return __shfl_sync(~0u, (int)threadIdx.x / 128, 0); }
  // The lane's first row, in the tile.
  SPC_DEVICE int row0() { return (int)threadIdx.x / 32 % (room::row_groups * 4) * 16 + (int)threadIdx.x % 32 / 4; }

  // Starts s = q k.
  SPC_DEVICE void start_scores(float (&s)[columns / 2], spc_u32 shared, int slot) {
    spc_u64 q = spc_wgmma_descriptor<64>(shared + group() % room::row_groups * 64 * 128, room::q_slab);
    spc_u64 k = spc_wgmma_descriptor<64>(shared + room::k_at + slot * room::k_bytes, room::slab);
#pragma unroll
    for (int d = 0; d < steps; d++)
      ptx_wgmma<0, 0>(s, q + (d / 4 * room::q_slab + d % 4 * 32) / 16, k + (d / 4 * room::slab + d % 4 * 32) / 16, d > 0, F());
    ptx_wgmma_commit();
  }
  // Starts value += weights v.
  __device__ __forceinline__ void start_values(spc_u32 shared, int slot, bool first) {
    spc_u64 v = spc_wgmma_descriptor<64>(shared + room::v_at + slot * room::v_bytes, room::slab);
#pragma unroll
    for (int i = 0; i < columns_v / 2; i++) asm volatile("" : "+f"(value[i])::"memory"); // scaled in front of the fence
#pragma unroll
    for (int i = 0; i < columns / 4; i++) asm volatile("" : "+r"(weight[i / 4][i % 4])::"memory");
    ptx_wgmma_fence();
#pragma unroll
    for (int n = 0; n < columns / 16; n++) ptx_wgmma_weights(value, weight[n], v + n * 16 * 128 / 16, n > 0 || !first, F());
    ptx_wgmma_commit();
  }
  __device__ __forceinline__ void pack(const float (&s)[columns / 2]) {
#pragma unroll
    for (int i = 0; i < columns / 4; i++) weight[i / 4][i % 4] = spc_pack_weights(s[2 * i], s[2 * i + 1], F());
  }
  __device__ __forceinline__ void clear() {
    softmax.clear();
#pragma unroll
    for (int i = 0; i < columns_v / 2; i++) value[i] = 0;
  }
  __device__ __forceinline__ void scale(const float (&by)[2]) {
#pragma unroll
    for (int i = 0; i < columns_v / 2; i++) value[i] *= by[i / 2 % 2];
  }

  // ---- the result ----
  SPC_DEVICE float end(const spc_args &args, const spc_attend_place &place, float x, int row, int e) {
    return Config::epilogue(args, x, min(place.m0 + row, place.m1 - 1), min(e, Config::head_v - 1), place.batch);
  }
  // In boxes of 64 x 64, `store_boxes` at a time.
  __device__ __forceinline__ void store_boxes(const float (&mean)[columns_v / 2], spc_u32 shared, const spc_args &args, const spc_attend_place &place, const spc_tensor_maps &maps) {
    using panel = spc_panel<T, 64, 64>;
    const int held = Config::store_boxes, lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x / 32 % 4, t = lane % 4 * 2, group = spc_attend_group::group();
    spc_u32 staged = shared + room::staged_at + group * held * room::box;
    spc_box_batch batch = spc_attend_batch<Config>(args, place);
#pragma unroll
    for (int b = 0; b < room::slabs_v; b++) {
      if (b % held == 0) {
        if (spc_leads_group()) ptx_tma_store_wait_read<0>();
        ptx_sync_group(group);
      }
#pragma unroll
      for (int step = 0; step < 4; step++) {
        if (b * 64 + step * 16 >= columns_v) continue;
        const float *v = mean + b * 32 + step * 8;
        spc_u32 packed[4];
#pragma unroll
        for (int p = 0; p < 4; p++) {
          int row = row0() + p % 2 * 8, e = b * 64 + step * 16 + p / 2 * 8 + t;
          packed[p] = (spc_u32)spc_put_as<T>::from(end(args, place, v[2 * p], row, e)).bits |
                      (spc_u32)spc_put_as<T>::from(end(args, place, v[2 * p + 1], row, e + 1)).bits << 16;
        }
        ptx_store_matrix(staged + b % held * room::box + panel::chunk_at(warp * 16 + (lane & 15), step * 2 + (lane >> 4)), packed);
      }
      if (b + 1 < room::slabs_v && (b + 1) % held) continue;
      ptx_fence_async_shared();
      ptx_sync_group(group);
      if (spc_leads_group()) {
#pragma unroll
        for (int j = b / held * held; j <= b; j++)
          ptx_tma_store<Config::batches_mapped>(&maps.map[2], staged + j % held * room::box, j * 64, place.m0 + group * 64, batch);
        ptx_tma_store_commit();
      }
    }
  }
  // From registers: `Count` sums, of the columns from `e0` on.
  template <int Count> SPC_DEVICE void store_registers(const float *mean, int e0, const spc_args &args, const spc_attend_place &place) {
    long long pitch = Config::pitch_t(args);
    T *to = Config::t(args, place.batch);
    bool pairs = (((spc_u64)to | (spc_u64)pitch * sizeof(T)) & (2 * sizeof(T) - 1)) == 0;
#pragma unroll
    for (int i = 0; i < Count; i += 2) {
      int row = row0() + i / 2 % 2 * 8, e = e0 + i / 4 * 8 + (int)threadIdx.x % 4 * 2;
      if (place.m0 + row >= place.m1 || e >= Config::head_v) continue;
      struct alignas(2 * sizeof(T)) pair { T at[2]; } both;
      both.at[0] = spc_put_as<T>::from(end(args, place, mean[i], row, e)), both.at[1] = spc_put_as<T>::from(end(args, place, mean[i + 1], row, e + 1));
      T *at = to + (place.m0 + row) * pitch + e;
      if (pairs && e + 1 < Config::head_v) {
        *(pair *)at = both;
      } else {
        at[0] = both.at[0];
        if (e + 1 < Config::head_v) at[1] = both.at[1];
      }
    }
  }

  // ---- a cluster's blocks ----
  // Each of its warpgroups has sums of its own, of all columns of the result, its rows' greatest exponents and its sums of weights.  It keeps a share of the
  // columns and sends the rest, to where k and v lay.  Added in one order: the same input gives the same bits.
  __device__ __forceinline__ void store_share(spc_u32 shared, const spc_args &args, const spc_attend_place &place) {
    const int split = Config::split, senders = split * room::groups, keeping = columns_v % (8 * senders) == 0 ? room::groups : 1, keepers = split * keeping; // of a block; of all
    const int count = columns_v / 2 / keepers, quads = count / 4, line = keeping * 128 * 16;
    static_assert(split == 1 || (columns_v % (8 * split) == 0 && room::row_groups == 1), "a share must be whole columns of eight");
    static_assert(senders * (1 + quads) * line <= Config::depth * (room::k_bytes + room::v_bytes), "there is no room for the others' sums");
    const int block = ptx_cluster_rank(), group = spc_attend_group::group();
    float sums[2] = {spc_quad_sum(softmax.sum[0]), spc_quad_sum(softmax.sum[1])};
    spc_u32 thread = shared + room::k_at + threadIdx.x % 128 * 16, mine = thread + (block * room::groups + group) * (1 + quads) * line;
    ptx_cluster_sync(); // every block has read its k's and v's
#pragma unroll
    for (int r = 0; r < keepers; r++) {
      spc_u32 there = ptx_cluster_address(mine + r % keeping * 128 * 16, r / keeping);
      ptx_cluster_store_16(there, softmax.greatest[0], softmax.greatest[1], sums[0], sums[1]);
#pragma unroll
      for (int q = 0; q < quads; q++) {
        const float *from = value + r * count + q * 4;
        ptx_cluster_store_16(there + (1 + q) * line, from[0], from[1], from[2], from[3]);
      }
    }
    ptx_cluster_sync(); // everything has come, and nobody writes here any more
    if (group >= keeping) return;
    const char *from = (const char *)__cvta_shared_to_generic(thread + group * 128 * 16);
    float most[2] = {-spc_inf(), -spc_inf()}, all[2] = {0, 0}, mean[count];
#pragma unroll
    for (int r = 0; r < senders; r++) {
      float4 of = *(const float4 *)(from + r * (1 + quads) * line);
      most[0] = fmaxf(most[0], of.x), most[1] = fmaxf(most[1], of.y);
    }
#pragma unroll
    for (int i = 0; i < count; i++) mean[i] = 0;
#pragma unroll
    for (int r = 0; r < senders; r++) {
      float4 of = *(const float4 *)(from + r * (1 + quads) * line);
      float by[2] = {of.x == -spc_inf() ? 0 : ptx_exp2(of.x - most[0]), of.y == -spc_inf() ? 0 : ptx_exp2(of.y - most[1])};
      all[0] += of.z * by[0], all[1] += of.w * by[1];
#pragma unroll
      for (int q = 0; q < quads; q++) {
        float4 v = *(const float4 *)(from + (r * (1 + quads) + 1 + q) * line);
        mean[q * 4] += v.x * by[0], mean[q * 4 + 1] += v.y * by[0], mean[q * 4 + 2] += v.z * by[1], mean[q * 4 + 3] += v.w * by[1];
      }
    }
#pragma unroll
    for (int i = 0; i < count; i++) mean[i] *= all[i / 2 % 2] == 0 ? 0 : __fdividef(1, all[i / 2 % 2]);
    store_registers<count>(mean, (block * keeping + group) * (columns_v / keepers), args, place);
  }

  // ---- two warpgroups that took tiles by turns ----
  // Each keeps one half of the columns and leaves the other half in the slot that it alone has read last, `slot`; the other's is `other`.
  __device__ __forceinline__ void store_half(spc_u32 shared, int slot, int other, const spc_args &args, const spc_attend_place &place) {
    const int count = columns_v / 4, quads = count / 4, line = 128 * 16;
    static_assert(room::turns == 1 || (1 + quads) * line <= room::v_bytes, "there is no room for half of the sums");
    const int group = spc_attend_group::group();
    char *base = (char *)__cvta_shared_to_generic(shared + room::v_at + threadIdx.x % 128 * 16);
    float4 *to = (float4 *)(base + slot * room::v_bytes);
    const float sums[2] = {spc_quad_sum(softmax.sum[0]), spc_quad_sum(softmax.sum[1])};
    float mine[count];
    ptx_sync_group(group); // all of its warps have read the slot
    to[0] = make_float4(softmax.greatest[0], softmax.greatest[1], sums[0], sums[1]);
#pragma unroll
    for (int g = 0; g < 2; g++)
      if (g == group) {
#pragma unroll
        for (int q = 0; q < quads; q++) {
          const float *from = value + (1 - g) * count + q * 4;
          to[(1 + q) * 128] = make_float4(from[0], from[1], from[2], from[3]);
        }
#pragma unroll
        for (int i = 0; i < count; i++) mine[i] = value[g * count + i];
      }
    ptx_sync_workers<Config::workers>();
    const float4 *from = (const float4 *)(base + other * room::v_bytes);
    const float4 of = from[0];
    float by[2][2]; // of mine, of the other's; rows
#pragma unroll
    for (int r = 0; r < 2; r++) {
      const float his = r ? of.y : of.x, most = fmaxf(softmax.greatest[r], his), shift = most == -spc_inf() ? 0 : most;
      by[0][r] = ptx_exp2(softmax.greatest[r] - shift), by[1][r] = ptx_exp2(his - shift);
      const float all = group ? (r ? of.w : of.z) * by[1][r] + sums[r] * by[0][r] : sums[r] * by[0][r] + (r ? of.w : of.z) * by[1][r];
      const float share = all == 0 ? 0 : __fdividef(1, all);
      by[0][r] *= share, by[1][r] *= share;
    }
#pragma unroll
    for (int q = 0; q < quads; q++) {
      const float4 v = from[(1 + q) * 128];
      float *m = mine + q * 4;
      m[0] = m[0] * by[0][0] + v.x * by[1][0], m[1] = m[1] * by[0][0] + v.y * by[1][0];
      m[2] = m[2] * by[0][1] + v.z * by[1][1], m[3] = m[3] * by[0][1] + v.w * by[1][1];
    }
    ptx_fence_async_shared(); // boxes come to both slots again
    ptx_sync_workers<Config::workers>();
    store_registers<count>(mine, group * (columns_v / 2), args, place);
  }
};

// ---- products by turns ------------------------------------------------------------------------------------------------
// A warpgroup starts its products when the one before it in the ring has started its own.  (Those that have the same rows and take tiles by turns have not
// all as many.)
template <class Config> struct spc_attend_turns {
  static constexpr int groups = spc_attend_room<Config>::row_groups, first_barrier = 4;
  SPC_DEVICE void wait(int group) {
    if (groups > 1) asm volatile("bar.sync %0, 256;" ::"r"(first_barrier + group) : "memory");
  }
  SPC_DEVICE void pass(int group) {
    if (groups > 1) asm volatile("bar.arrive %0, 256;" ::"r"(first_barrier + (group + 1 == groups ? 0 : group + 1)) : "memory");
  }
};

template <class Config> SPC_DEVICE void spc_attend_work_role(spc_u32 shared, const spc_args &args, const spc_tensor_maps &maps) {
  using room = spc_attend_room<Config>;
  using turns = spc_attend_turns<Config>;
  spc_attend_slot k = {0, 0}, v = {0, 0};
  spc_attend_group<Config> part;
  const float factor = spc_exponent_factor<Config>();
  const int group = part.group();
  const bool gives = threadIdx.x % 128 == 0;
  int q_phase = 0;
  spc_attend_walk<Config> walk(args);
  spc_attend_place place;
  if (group == turns::groups - 1) turns::pass(group); // the first one's turn
#pragma unroll 1
  while (walk.next(args, place)) {
    int next = spc_next_visited<Config>(args, place, place.begin), passed = 0, visited = 0; // tiles: that the last step went over, all that were
    // Goes over `count` tiles, as far as there are any.
    auto go = [&](int count) {
      passed = 0;
#pragma unroll
      for (int i = 0; i < count; i++)
        if (next < place.end) next = spc_next_visited<Config>(args, place, next + Config::tile_n), passed++;
      k.template advance<Config::depth>(passed);
      visited += passed;
    };
    part.clear();
    const bool any = next < place.end;
    if (room::turns > 1) {
      if (group % room::turns) go(group % room::turns), v.template advance<Config::depth>(passed);
      if (any && next >= place.end) { // the others have them all
        if (gives) ptx_barrier_arrive(room::q_empty(shared));
        q_phase ^= 1;
      }
    }
    if (next < place.end) {
      float s[Config::tile_n / 2], before[2];
      int n0 = next;
      bool first = true;
      auto scores_are_there = [&]() { // and the next tile's columns are known
        if (gives) ptx_barrier_arrive(room::k_empty(shared, k.at));
        go(room::turns);
        if (next >= place.end && gives) ptx_barrier_arrive(room::q_empty(shared));
        spc_score_sums<Config>(s, args, place, part.row0(), n0);
        part.softmax.weigh(s, factor, before);
      };
      ptx_barrier_wait(room::q_full(shared), q_phase);
      q_phase ^= 1;
      ptx_barrier_wait(room::k_full(shared, k.at), k.phase);
      turns::wait(group);
      ptx_wgmma_fence();
      part.start_scores(s, shared, k.at);
      turns::pass(group);
      ptx_wgmma_wait<0>();
      scores_are_there();
      part.pack(s);
#pragma unroll 1
      while (next < place.end) {
        const int between = passed;
        n0 = next;
        ptx_barrier_wait(room::k_full(shared, k.at), k.phase);
        turns::wait(group);
        ptx_wgmma_fence();
        part.start_scores(s, shared, k.at);
        ptx_barrier_wait(room::v_full(shared, v.at), v.phase);
        part.start_values(shared, v.at, first);
        turns::pass(group);
        ptx_wgmma_wait<1>();
        scores_are_there();
        ptx_wgmma_wait<0>();
        if (gives) ptx_barrier_arrive(room::v_empty(shared, v.at));
        v.template advance<Config::depth>(between);
        part.scale(before);
        part.pack(s);
        first = false;
      }
      ptx_barrier_wait(room::v_full(shared, v.at), v.phase);
      part.start_values(shared, v.at, first);
      ptx_wgmma_wait<0>();
      if (room::turns > 1 && Config::split == 1 && visited > 1) {
        const int slot = v.at, beside = passed == 1 ? Config::depth - 1 : 1; // the last tile is mine: the other's came before
        part.store_half(shared, slot, (slot + beside) % Config::depth, args, place);
      }
      if (gives) ptx_barrier_arrive(room::v_empty(shared, v.at));
      v.template advance<Config::depth>(passed);
    }
    if (room::turns > 1 && Config::split == 1 && visited < 2) ptx_sync_workers<Config::workers>(); // nobody is a turn of the slots ahead
    if constexpr (Config::split > 1) {
      part.store_share(shared, args, place);
    } else if (room::turns == 1 || (visited < 2 && group == 0)) {
      const float share[2] = {part.softmax.share(0), part.softmax.share(1)};
      part.scale(share);
      if constexpr (room::by_engine) part.store_boxes(part.value, shared, args, place, maps);
      else part.template store_registers<spc_attend_group<Config>::columns_v / 2>(part.value, 0, args, place);
    }
  }
  if (group == 0) turns::wait(group); // the last one's turn is over
  if (room::by_engine && spc_leads_group()) ptx_tma_store_wait_read<0>(); // shared memory stays until the engine has read it
}

template <class Config> SPC_DEVICE void spc_attend(const spc_args &args, const spc_tensor_maps &maps) {
  using room = spc_attend_room<Config>;
  static_assert(sizeof(typename Config::F) == 2, "q, k and v are of 16 bits");
  static_assert(room::turns >= 1 && room::groups == room::turns * room::row_groups && Config::workers == Config::threads - 128, "a warpgroup has 64 rows; the last one loads");
  static_assert(room::turns == 1 || (room::turns == 2 && room::row_groups == 1 && Config::depth % 2 == 0), "two warpgroups take tiles by turns, each from slots of its own");
  static_assert(Config::shared_bytes >= room::bytes, "shared_bytes is less than the tiles and the staged boxes need");
  extern __shared__ __align__(1024) char spc_shared[];
  spc_u32 shared = spc_shared_address(spc_shared);
  if (threadIdx.x == 0) {
    ptx_barrier_init(room::q_full(shared), 1);
    ptx_barrier_init(room::q_empty(shared), room::groups);
    for (int s = 0; s < Config::depth; s++) {
      ptx_barrier_init(room::k_full(shared, s), 1);
      ptx_barrier_init(room::k_empty(shared, s), room::row_groups);
      ptx_barrier_init(room::v_full(shared, s), 1);
      ptx_barrier_init(room::v_empty(shared, s), room::row_groups);
    }
    ptx_fence_barrier_init();
  }
  if (threadIdx.x == Config::workers) {
#pragma unroll
    for (int i = 0; i < 4; i++)
      if (i != 2 || room::by_engine) ptx_tma_prefetch(&maps.map[i]);
  }
  ptx_follow_grid(); // nothing in global memory was touched before
  __syncthreads();
  const int working = room::groups == 3 ? 160 : 240, loading = room::groups == 3 ? 32 : 24; // registers
  if (threadIdx.x >= Config::workers) {
    if constexpr (room::groups > 1) ptx_give_registers<loading>();
    if (__shfl_sync(~0u, (int)threadIdx.x / 32, 0) == Config::workers / 32) spc_attend_load_role<Config>(shared, args, maps);
  } else {
    if constexpr (room::groups > 1) ptx_take_registers<working>();
    spc_attend_work_role<Config>(shared, args, maps);
  }
}
