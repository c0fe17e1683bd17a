// attend_group.cuh - attention on Hopper, what a warpgroup does: its products by wgmma, weights in registers, where tiles lie in shared memory, and
// how its rows of the result are stored.  The roles and their order: attend.cuh.
#pragma once
#include "spc/attend_softmax.cuh"
#include "spc/boxes.cuh"
#include "spc/cluster.cuh"
#include "spc/panel.cuh"
#include "spc/wgmma.cuh"

// ---- the instruction: A from registers, B's rows are k; four steps as one statement too (wgmma.cuh) ------------------
#define SPC_VALUES_STEP(TYPE, N, R, A0, A1, A2, A3, B, ADD) \
  "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." #TYPE "." #TYPE " {" SPC_TEXT_##R "}, {%" #A0 ", %" #A1 ", %" #A2 ", %" #A3 "}, " B ", " ADD ", 1, 1, 1; "
#define SPC_FOUR_WEIGHTS(i) "r"(a[i][0]), "r"(a[i][1]), "r"(a[i][2]), "r"(a[i][3])
#define SPC_WGMMA_VALUES(TYPE, N, R, P0, P1, P2, P3, P4, P5, P6, P7, P8, P9, P10, P11, P12, P13, P14, P15, P16, P17, P18) \
  SPC_DEVICE void ptx_wgmma_weights(float (&d)[R], const spc_u32 (&a)[4], spc_u64 b, int add, spc_##TYPE) { \
    asm volatile("{ .reg .pred add; setp.ne.b32 add, %" #P5 ", 0; " SPC_VALUES_STEP(TYPE, N, R, P0, P1, P2, P3, "%" #P4, "add") "}" \
                 : SPC_LIST_##R : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add)); \
  } \
  SPC_DEVICE void ptx_wgmma_weights(float (&d)[R], const spc_u32 (*a)[4], spc_u64 b, int add, spc_##TYPE) { \
    asm volatile("{ .reg .pred add; .reg .b64 b; setp.ne.b32 add, %" #P17 ", 0; " SPC_VALUES_STEP(TYPE, N, R, P0, P1, P2, P3, "%" #P16, "add") \
                 "add.s64 b, %" #P16 ", 128; " SPC_VALUES_STEP(TYPE, N, R, P4, P5, P6, P7, "b", "1") \
                 "add.s64 b, %" #P16 ", 256; " SPC_VALUES_STEP(TYPE, N, R, P8, P9, P10, P11, "b", "1") \
                 "add.s64 b, %" #P16 ", 384; " SPC_VALUES_STEP(TYPE, N, R, P12, P13, P14, P15, "b", "1") "}" \
                 : SPC_LIST_##R : SPC_FOUR_WEIGHTS(0), SPC_FOUR_WEIGHTS(1), SPC_FOUR_WEIGHTS(2), SPC_FOUR_WEIGHTS(3), "l"(b), "r"(add)); \
  }
#define SPC_OF_WIDTH(...) SPC_WGMMA_VALUES(bf16, __VA_ARGS__) SPC_WGMMA_VALUES(f16, __VA_ARGS__)
#include "spc/widths.cuh"
#undef SPC_WGMMA_VALUES
#undef SPC_FOUR_WEIGHTS
#undef SPC_VALUES_STEP

// ---- shared memory --------------------------------------------------------------------------------------------------
// Slabs of 64 elements of a row: q, or two tiles of it where there is room; `depth` tiles of k, as many of v; staged boxes of the result; barriers, and notes of what
// lies in q.
template <class Config> struct spc_attend_room {
  using T = typename Config::T;
  static constexpr int groups = Config::workers / 128, row_groups = Config::tile_m / 64;
  static constexpr bool shares = Config::split > 1 || groups > row_groups; // rows of others (attend_share.cuh)
  static constexpr int slabs = (Config::head + 63) / 64, slabs_v = (Config::head_v + 63) / 64;
  static constexpr int q_slab = Config::tile_m * 128, slab = Config::tile_n * 128, box = 64 * 128;
  static constexpr int q_bytes = slabs * q_slab, k_bytes = slabs * slab, v_bytes = slabs_v * slab;
  static constexpr bool by_engine = sizeof(T) == 2 && !shares;
  static constexpr int staged = by_engine ? groups * Config::store_boxes * box : 0;
  static constexpr int least = q_bytes + Config::depth * (k_bytes + v_bytes) + staged + 96 + Config::depth * 32;
  static constexpr int q_slots = Config::shared_bytes >= least + q_bytes ? 2 : 1, bytes = least + (q_slots - 1) * q_bytes;
  static constexpr int k_at = q_slots * q_bytes, v_at = k_at + Config::depth * k_bytes, staged_at = v_at + Config::depth * v_bytes, barriers_at = staged_at + staged;

  SPC_DEVICE int4 *note(spc_u32 shared, int slot) { return (int4 *)__cvta_shared_to_generic(shared + barriers_at + 32 + Config::depth * 32 + slot * 32); }
  SPC_DEVICE spc_u32 q_full(spc_u32 shared, int slot) { return shared + barriers_at + slot * 8; }
  SPC_DEVICE spc_u32 q_empty(spc_u32 shared, int slot) { return shared + barriers_at + 16 + slot * 8; }
  SPC_DEVICE spc_u32 barrier(spc_u32 shared, int kind, int slot) { return shared + barriers_at + 32 + (kind * Config::depth + slot) * 8; }
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

// ---- which tiles ------------------------------------------------------------------------------------------------------
// The order of tiles: as many batches as the shared cache holds keys and values of take turns, so that all of their first rows come first.
// Where rows see what lies before them, say, tiles of the last rows have most to do: what there is to do falls along one group of batches,
// rises along the next, and falls along the last one, so that neighbours have about as much of it and the last tiles have least.
template <class Config> struct spc_attend_order {
  spc_u32 tiles, tiles_m, kept, turned; // batches of a group; 1: the first group begins with its last rows

  __device__ __forceinline__ spc_attend_order(const spc_args &args) : tiles((spc_u32)Config::tiles(args)), turned(0) {
    const spc_u32 cache = 24u << 20, least = Config::masked ? 16 : 1; // bytes; fewer batches are hard to share evenly
    int m = (int)Config::m(args), n = (int)Config::n(args);
    tiles_m = max((spc_u32)(m + Config::tile_m - 1) / Config::tile_m, 1u);
    spc_u32 batches = max(tiles / tiles_m, 1u), fit = n > 0 ? cache / sizeof(typename Config::F) / (Config::head + Config::head_v) / n : batches;
    spc_u32 groups = (batches - 1) / max(fit, least) + 1;
    kept = (batches - 1) / groups + 1;
    if constexpr (Config::masked) {
      if (tiles == 0) return;
      int wide = 0, before; // what the first rows see, then the last ones
#pragma unroll 1 // one text
      for (int i = 0; i < 2; i++) {
        spc_attend_place rows = spc_place_rows<Config>(args, i ? (int)(tiles_m - 1) * Config::tile_m : 0, 0);
        before = wide, wide = rows.end - rows.begin;
      }
      turned = (groups ^ (wide < before)) & 1;
    }
  }
  __device__ __forceinline__ spc_attend_place place(const spc_args &args, spc_u32 tile) const {
    spc_u32 group = tile / (kept * tiles_m), rest = tile % (kept * tiles_m), together = min(kept, tiles / tiles_m - group * kept);
    int number = (int)(rest / together);
    if (Config::masked && ((group ^ turned) & 1)) number = (int)tiles_m - 1 - number;
    return spc_place_rows<Config>(args, number * Config::tile_m, group * kept + rest % together);
  }
};

// The tiles of a block, or of a cluster: one of as many as there are blocks, then one of the next so many, counted from the other end.  Where
// what there is to do rises or falls along the tiles, all have about as much in two such rounds.  Where notes tell how much it is, blocks take the next
// one when they have done with theirs; the claim is on its way meanwhile.
template <class Config> struct spc_attend_walk {
  static constexpr bool claims = Config::noted && !spc_attend_room<Config>::shares;
  spc_attend_order<Config> order;
  spc_u32 first, at, blocks;

  __device__ __forceinline__ spc_attend_walk(const spc_args &args)
      : order(args), first(0), at(blockIdx.x / Config::split), blocks(gridDim.x / Config::split) {}
  // Of a cluster's tile the columns of this block.
  __device__ __forceinline__ bool next(const spc_args &args, spc_attend_place &place) {
    if (claims) at = __shfl_sync(~0u, at, 0);
    if (first + at >= order.tiles) return false;
    place = order.place(args, first + at);
    if constexpr (claims) {
      if (threadIdx.x % 32 == 0) at = blocks + atomicAdd(Config::claims(args), 1u);
      return true;
    }
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
// The columns that rows visit which are nobody's but their own and see none: behind the last one, so that a tile always has a first and a last product.
template <class Config> SPC_DEVICE int spc_attend_none(const spc_args &args) { return (int)Config::n(args); }
// The first columns of a tile that are visited.
template <class Config> SPC_DEVICE int spc_attend_first(const spc_args &args, const spc_attend_place &place, spc_visits<Config> &visits) {
  visits.begin(args, place);
  int first = visits.next(args, place);
  return first < place.end || spc_attend_room<Config>::shares ? first : spc_attend_none<Config>(args);
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
  SPC_DEVICE void start_scores(float (&s)[columns / 2], spc_u32 shared, int q_slot, int slot) {
    spc_u64 q = spc_wgmma_descriptor<64>(shared + q_slot * room::q_bytes + group() % room::row_groups * 64 * 128, room::q_slab);
    spc_u64 k = spc_wgmma_descriptor<64>(shared + room::k_at + slot * room::k_bytes, room::slab);
#pragma unroll
    for (int i = 0; i < steps / 4; i++) ptx_wgmma_four<0, 0, 2, 2>(s, q + i * room::q_slab / 16, k + i * room::slab / 16, i > 0, F());
    if constexpr (steps % 4 > 0)
#pragma unroll
      for (int i = steps / 4 * 4; i < steps; i++)
        ptx_wgmma<0, 0>(s, q + (i / 4 * room::q_slab + i % 4 * 32) / 16, k + (i / 4 * room::slab + i % 4 * 32) / 16, i > 0, F());
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
    const int turns = columns / 16, whole = turns / 4 * 4; // 16 rows of v are 128 units of 16 bytes
#pragma unroll
    for (int i = 0; i < whole; i += 4) ptx_wgmma_weights(value, weight + i, v + i * 128, i > 0 || !first, F());
    if constexpr (turns > whole)
#pragma unroll
      for (int i = whole; i < turns; i++) ptx_wgmma_weights(value, weight[i], v + i * 128, i > 0 || !first, F());
    ptx_wgmma_commit();
  }
  __device__ __forceinline__ void pack(const float (&s)[columns / 2]) {
#pragma unroll
    for (int i = 0; i < columns / 4; i++) weight[i / 4][i % 4] = spc_pack(s[2 * i], s[2 * i + 1], F());
  }
  __device__ __forceinline__ void clear_weights() {
#pragma unroll
    for (int i = 0; i < columns / 4; i++) weight[i / 4][i % 4] = 0;
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
          packed[p] = spc_pack(end(args, place, v[2 * p], row, e), end(args, place, v[2 * p + 1], row, e + 1), T());
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
};
