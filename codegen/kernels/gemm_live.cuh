// gemm_live.cuh - products of the rows of A that hold anything (sm_90a): as many as the device has found (live.cuh).
//
//     packed rows --box--> slot        B --box--> slot        tile --16 bytes a thread--> T[ids[m]][n]        (swrite)
//     rows that are not listed: e(0), by warps that load nothing
//
// How many rows there are is known on the device alone, and so is the tile that keeps it busy: each block takes, of a few, the
// one whose turns take the least time.  A hundred rows in tiles of 128 x 256 would leave most multiprocessors without one, and
// those that have one with all of k.  All tiles sum in the same order, so the choice changes no bit.  Boxes are 64 x 64 for all.
// Where dense is meant (Config::own_dense) A comes as it lies, in the largest tile.
#pragma once
#include "spc/gemm_tma.cuh"

// Tiles of Config's product by `Groups` warpgroups, one above the other; what there is shared memory for.
template <class Config, int M, int N, int K, int Groups> struct spc_live_tile : Config {
  static constexpr int tile_m = M, tile_n = N, tile_k = K, warps_m = Groups, warps_n = 1, workers = Groups * 128;
  static constexpr int depth = Config::depth * (Config::tile_m + Config::tile_n) * Config::tile_k / ((M + N) * K);
  static constexpr int store_boxes = Config::store_boxes < N / 64 ? Config::store_boxes : N / 64;
  SPC_DEVICE long long m(const spc_args &args) {
    if (Config::own_dense && __ldg(Config::verdict(args)) != 0) return Config::m(args);
    return __ldg(Config::counts(args));
  }
  SPC_DEVICE spc_u32 tiles_of(const spc_args &args, long long rows) {
    return (spc_u32)((rows + M - 1) / M) * (spc_u32)((Config::n(args) + N - 1) / N);
  }
  SPC_DEVICE long long tiles(const spc_args &args) { return tiles_of(args, m(args)); }
};
template <class Config> using spc_live_large = spc_live_tile<Config, Config::tile_m, Config::tile_n, Config::tile_k, 2>;
template <class Config> using spc_live_square = spc_live_tile<Config, 128, 128, 64, 2>;
template <class Config> using spc_live_narrow = spc_live_tile<Config, 128, 64, 64, 2>;
template <class Config> using spc_live_small = spc_live_tile<Config, 64, 64, 128, 1>;

enum spc_live_size { spc_large, spc_square, spc_narrow, spc_small };

// Turns times what a tile takes, in the same unit for all: from the rates of dense products in such tiles.
template <class Config> SPC_DEVICE spc_live_size spc_live_choice(const spc_args &args, long long rows) {
  const spc_u32 time[] = {40, 21, 16, 9};
  spc_u32 tiles[] = {spc_live_large<Config>::tiles_of(args, rows), spc_live_square<Config>::tiles_of(args, rows),
                     spc_live_narrow<Config>::tiles_of(args, rows), spc_live_small<Config>::tiles_of(args, rows)};
  int best = 0;
  spc_u32 least = ~0u;
#pragma unroll
  for (int i = 0; i < 4; i++) {
    spc_u32 all = (tiles[i] + gridDim.x - 1) / gridDim.x * time[i];
    if (all < least) least = all, best = i;
  }
  return (spc_live_size)best;
}

// The loads of all tiles, by one thread.
template <class Tile> SPC_DEVICE void spc_live_load_role(spc_u32 shared, const spc_args &args, const spc_tensor_maps &maps, bool all) {
  using ring = spc_box_ring<Tile>;
  const int edge = 64, box = edge * 128; // bytes
  const int steps = max(((int)Tile::k(args) + Tile::tile_k - 1) / Tile::tile_k, 1);
  const spc_tensor_map *rows = &maps.map[all ? 0 : 3];
  static_assert(Tile::layout_a == 'r' && sizeof(typename Tile::A) == 2, "rows of A must be contiguous, of 16 bits");
  ring at = {0, 1};
  spc_tile_walk<Tile> walk(args, all);
  spc_tile_place place;
#pragma unroll 1
  while (walk.next(args, place)) {
#pragma unroll 1
    for (int i = 0; i < steps; i++, at.advance()) {
      spc_u32 slot = shared + at.slot * ring::slot_bytes, full = ring::full(shared, at.slot), b = slot + ring::panel_a::bytes;
      ptx_barrier_wait(ring::empty(shared, at.slot), at.phase);
      ptx_barrier_expect(full, ring::slot_bytes);
#pragma unroll
      for (int kk = 0; kk < Tile::tile_k / edge; kk++) {
        int k = i * Tile::tile_k + kk * edge;
#pragma unroll
        for (int r = 0; r < Tile::tile_m / edge; r++)
          ptx_tma_load<0>(slot + (kk * (Tile::tile_m / edge) + r) * box, rows, full, k, place.m0 + r * edge, {{0, 0}});
#pragma unroll
        for (int s = 0; s < Tile::tile_n / edge; s++) {
          int n = place.n0 + s * edge;
          if constexpr (Tile::layout_b == 'r') ptx_tma_load<0>(b + (s * (Tile::tile_k / edge) + kk) * box, &maps.map[1], full, n, k, {{0, 0}});
          else ptx_tma_load<0>(b + (kk * (Tile::tile_n / edge) + s) * box, &maps.map[1], full, k, n, {{0, 0}});
        }
      }
    }
  }
}

// What the rows that are not listed are: e(0).  A warp a row; `warp` of `warps` in the block.
template <class Config> SPC_DEVICE void spc_fill_rows(const spc_args &args, int warp, int warps) {
  using T = typename Config::T;
  const int chunk = 16 / (int)sizeof(T), lane = (int)threadIdx.x & 31;
  int rows = (int)Config::m(args), n = (int)Config::n(args);
  long long pitch = Config::pitch_t(args);
  bool aligned = (((spc_u64)Config::t(args, 0) | (spc_u64)pitch * sizeof(T)) & 15) == 0;
#pragma unroll 1
  for (int row = (int)blockIdx.x * warps + warp; row < rows; row += (int)gridDim.x * warps) {
    if (__ldg(Config::bits(args) + row / 32) >> row % 32 & 1) continue;
    T *to = Config::t(args, 0) + row * pitch;
    spc_brought brought = {};
#pragma unroll
    for (int i = 0; i < Config::rows_read; i++) brought.row[i] = Config::row(args, i, row);
#pragma unroll 1
    for (int c = lane * chunk; c < n; c += 32 * chunk) {
      alignas(16) T value[chunk];
#pragma unroll
      for (int e = 0; e < chunk; e++) {
        int column = min(c + e, n - 1);
#pragma unroll
        for (int i = 0; i < Config::columns_read; i++) brought.column[i] = Config::column(args, i, column);
        value[e] = spc_put_as<T>::from(Config::epilogue(args, 0.0f, row, column, 0, brought));
      }
      if (aligned && c + chunk <= n) {
        *(uint4 *)(to + c) = *(const uint4 *)value;
      } else {
#pragma unroll
        for (int e = 0; e < chunk; e++)
          if (c + e < n) to[c + e] = value[e];
      }
    }
  }
}

// Calls use(a tile of that size).
template <class Config, class Use> SPC_DEVICE void spc_with_live_tile(spc_live_size size, Use use) {
  if (size == spc_large) use(spc_live_large<Config>());
  else if (size == spc_square) use(spc_live_square<Config>());
  else if (size == spc_narrow) use(spc_live_narrow<Config>());
  else use(spc_live_small<Config>());
}

template <class Config> SPC_DEVICE void spc_gemm_live(const spc_args &args, const spc_tensor_maps &maps) {
  static_assert(Config::shared_bytes >= spc_box_ring<spc_live_large<Config>>::bytes &&
                    Config::shared_bytes >= spc_box_ring<spc_live_square<Config>>::bytes &&
                    Config::shared_bytes >= spc_box_ring<spc_live_narrow<Config>>::bytes &&
                    Config::shared_bytes >= spc_box_ring<spc_live_small<Config>>::bytes,
                "shared_bytes is less than the rings and the staged tiles need");
  static_assert(Config::threads == 384 && Config::workers == 256, "two warpgroups multiply, the last one loads and fills");
  extern __shared__ __align__(1024) char spc_shared[];
  spc_u32 shared = spc_shared_address(spc_shared);
  if (threadIdx.x == Config::workers)
    for (int i = 0; i < 4; i++) ptx_tma_prefetch(&maps.map[i]);
  ptx_follow_grid(); // nothing in global memory was touched before
  if (Config::guarded && spc_not_meant(Config::verdict(args), Config::dense_branch)) return;
  const bool all = Config::own_dense && *(const volatile int *)Config::verdict(args) != 0;
  const spc_live_size size = all ? spc_large : spc_live_choice<Config>(args, __ldg(Config::counts(args)));
  spc_with_live_tile<Config>(size, [&](auto tile) { spc_box_init<decltype(tile)>(shared, false); });
  __syncthreads();
  if (threadIdx.x >= Config::workers) {
    ptx_give_registers<72>();
    int warp = __shfl_sync(0xffffffffu, (int)threadIdx.x / 32, 0) - Config::workers / 32;
    if (warp > 0) {
      if (!all) spc_fill_rows<Config>(args, warp - 1, 3);
    } else if (ptx_elect()) {
      spc_with_live_tile<Config>(size, [&](auto tile) { spc_live_load_role<decltype(tile)>(shared, args, maps, all); });
    }
  } else {
    ptx_take_registers<216>();
    spc_with_live_tile<Config>(size, [&](auto tile) {
      if (threadIdx.x < decltype(tile)::workers) spc_box_work_role<decltype(tile)>(shared, spc_shared, args, maps, all);
    });
  }
}
