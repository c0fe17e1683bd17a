// gemm_live.cuh - products of the rows of A that hold anything (sm_90a): as many as the device has found (live.cuh).
//
//     packed rows --box--> slot        B --box--> slot        tile --16 bytes a thread--> T[ids[m]][n]        (swrite)
//     rows that are not listed: e(0), by warps that load nothing
//
// How many rows there are is known on the device alone, and so are the tiles that keep it busy.  A hundred rows in tiles of
// 128 x 256 would leave most multiprocessors without one, and a few rows more than whole turns of them would take a turn more.
// So rows are cut in two: whole turns of one tile, and what is left in another; each block takes, of all pairs of a few tiles, the
// one that takes the least time.  All tiles sum in the same order, so the choice changes no bit.  Boxes are 64 x 64 for all.
// Where dense is meant (Config::own_dense) A comes as it lies, all rows one part of the largest tile: the text is that of listed rows.
#pragma once
#include "spc/gemm_tma.cuh"

// Rows [begin, end).
struct spc_live_part { int begin, end, unused[2]; };

// The part that a block is at, in the last bytes of its shared memory.
template <class Config> SPC_DEVICE spc_live_part *spc_live_now() {
  extern __shared__ __align__(1024) char spc_shared[];
  return (spc_live_part *)(spc_shared + Config::shared_bytes - sizeof(spc_live_part));
}

// Tiles of Config's product by `Groups` warpgroups, one above the other; what there is shared memory for.
template <class Config, int M, int N, int K, int Groups> struct spc_live_tile : Config {
  static constexpr int tile_m = M, tile_n = N, tile_k = K, warps_m = Groups, warps_n = 1, workers = Groups * 128;
  static constexpr int depth = Config::depth * (Config::tile_m + Config::tile_n) * Config::tile_k / ((M + N) * K);
  static constexpr int store_boxes = Config::store_boxes < N / 64 ? Config::store_boxes : N / 64;
  SPC_DEVICE int first_row() { return spc_live_now<Config>()->begin; }
  SPC_DEVICE long long m(const spc_args &) { return spc_live_now<Config>()->end - spc_live_now<Config>()->begin; }
  SPC_DEVICE long long tiles(const spc_args &args) { return ((m(args) + M - 1) / M) * ((Config::n(args) + N - 1) / N); }
};
template <class Config> using spc_live_large = spc_live_tile<Config, Config::tile_m, Config::tile_n, Config::tile_k, 2>;
template <class Config> using spc_live_square = spc_live_tile<Config, 128, 128, 64, 2>;
template <class Config> using spc_live_narrow = spc_live_tile<Config, 128, 64, 64, 2>;
template <class Config> using spc_live_small = spc_live_tile<Config, 64, 64, 128, 1>;
enum spc_live_size { spc_large, spc_square, spc_narrow, spc_small };

// Microseconds of a tile of 4096 k's, its rows sent to their places: measured; what matters is how they compare.
SPC_DEVICE spc_u32 spc_live_time(int size) { return size == spc_large ? 47 : size == spc_square ? 27 : size == spc_narrow ? 19 : 12; }
SPC_DEVICE spc_u32 spc_live_tall(int size) { return size == spc_small ? 64 : 128; }
SPC_DEVICE spc_u32 spc_live_wide(int size) { return size == spc_large ? 256 : size == spc_square ? 128 : 64; }

// Rows before `cut` go in large or square tiles, the others in narrow or small ones; a lane a pair of tiles, and whether the first takes
// none, whole turns, or all.  By whole warps.
struct spc_live_choice { int cut, first, second; };
SPC_DEVICE spc_live_choice spc_choose_live(spc_u32 rows, spc_u32 columns) {
  const spc_u32 change = 2; // from one tile to another
  spc_u32 lane = threadIdx.x & 31, how = lane / 2 % 4;
  int first = lane & 8 ? spc_square : spc_large, second = lane & 1 ? spc_small : spc_narrow;
  spc_u32 tall = spc_live_tall(first), wide = (columns + spc_live_wide(first) - 1) / spc_live_wide(first);
  spc_u32 turns = ((rows + tall - 1) / tall * wide + (how > 1 ? gridDim.x - 1 : 0)) / gridDim.x;
  spc_u32 cut = how == 0 ? 0 : how > 1 ? rows : min(rows, turns * gridDim.x / max(wide, 1u) * tall);
  spc_u32 left = (rows - cut + spc_live_tall(second) - 1) / spc_live_tall(second) * ((columns + spc_live_wide(second) - 1) / spc_live_wide(second));
  spc_u32 time = (cut ? turns : 0) * spc_live_time(first) + (left + gridDim.x - 1) / gridDim.x * spc_live_time(second);
  spc_u32 best = (time + (cut && left ? change : 0)) * 32 + lane % 16;
#pragma unroll
  for (int d = 16; d; d /= 2) best = min(best, __shfl_xor_sync(0xffffffffu, best, d));
  int who = (int)(best % 32);
  return {(int)__shfl_sync(0xffffffffu, cut, who), __shfl_sync(0xffffffffu, first, who), __shfl_sync(0xffffffffu, second, who)};
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
          ptx_tma_load<0>(slot + (kk * (Tile::tile_m / edge) + r) * box, rows, full, k, place.m0 + r * edge, {{0, 0, 0}});
#pragma unroll
        for (int s = 0; s < Tile::tile_n / edge; s++) {
          int n = place.n0 + s * edge;
          if constexpr (Tile::layout_b == 'r') ptx_tma_load<0>(b + (s * (Tile::tile_k / edge) + kk) * box, &maps.map[1], full, n, k, {{0, 0, 0}});
          else ptx_tma_load<0>(b + (kk * (Tile::tile_n / edge) + s) * box, &maps.map[1], full, k, n, {{0, 0, 0}});
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
    auto value = [&](int column) {
#pragma unroll
      for (int i = 0; i < Config::columns_read; i++) brought.column[i] = Config::column(args, i, column);
      return spc_put_as<T>::from(Config::epilogue(args, 0.0f, row, column, 0, brought));
    };
    int whole = aligned ? n / chunk * chunk : 0;
#pragma unroll 1
    for (int c = lane * chunk; c < whole; c += 32 * chunk) {
      alignas(16) T values[chunk];
#pragma unroll
      for (int e = 0; e < chunk; e++) values[e] = value(c + e);
      *(uint4 *)(to + c) = *(const uint4 *)values;
    }
#pragma unroll 1
    for (int c = whole + lane; c < n; c += 32) to[c] = value(c);
  }
}

// Calls use(a tile of that size), of the two that a part has.
template <class Config, class Use> SPC_DEVICE void spc_with_first(int size, Use use) {
  if (size == spc_large) use(spc_live_large<Config>());
  else use(spc_live_square<Config>());
}
template <class Config, class Use> SPC_DEVICE void spc_with_second(int size, Use use) {
  if (size == spc_narrow) use(spc_live_narrow<Config>());
  else use(spc_live_small<Config>());
}

// Who multiplies and who loads meet between the parts; those that fill go on.
template <class Config> SPC_DEVICE void spc_live_meet() { ptx_sync_roles<Config::workers + 32>(); }

template <class Tile> SPC_DEVICE void spc_live_end(spc_u32 shared) {
  for (int s = 0; s < Tile::depth; s++) {
    ptx_barrier_end(spc_box_ring<Tile>::full(shared, s));
    ptx_barrier_end(spc_box_ring<Tile>::empty(shared, s));
  }
}

// A part's rows and barriers, by one thread.
template <class Tile> SPC_DEVICE void spc_live_begin(spc_u32 shared, int begin, int end) {
  if (threadIdx.x > 0) return;
  spc_live_now<Tile>()->begin = begin, spc_live_now<Tile>()->end = end;
  spc_box_init<Tile>(shared, false);
}

template <class Config> SPC_DEVICE void spc_gemm_live(const spc_args &args, const spc_tensor_maps &maps) {
  const int room = Config::shared_bytes - (int)sizeof(spc_live_part);
  static_assert(room % 16 == 0 && room >= spc_box_ring<spc_live_large<Config>>::bytes && room >= spc_box_ring<spc_live_square<Config>>::bytes &&
                    room >= spc_box_ring<spc_live_narrow<Config>>::bytes && room >= spc_box_ring<spc_live_small<Config>>::bytes,
                "shared_bytes is less than the rings and the staged tiles need");
  static_assert(Config::threads == 384 && Config::workers == 256, "two warpgroups multiply, the last one loads and fills");
  extern __shared__ __align__(1024) char spc_shared[];
  spc_u32 shared = spc_shared_address(spc_shared);
  if (threadIdx.x == Config::workers)
    for (int i = 0; i < 4; i++) ptx_tma_prefetch(&maps.map[i]);
  ptx_wait_grid(); // nothing in global memory was touched before
  if (spc_not_meant<Config>(args)) return;
  ptx_release_grid();
  const bool all = spc_dense_is_meant<Config>(args);
  const int rows = all ? (int)Config::m(args) : __ldg(Config::counts(args));
  spc_live_choice choice = {rows, spc_large, spc_small};
  if (!all) choice = spc_choose_live((spc_u32)rows, (spc_u32)Config::n(args));
  const bool first = choice.cut > 0, second = choice.cut < rows;
  if (first) spc_with_first<Config>(choice.first, [&](auto tile) { spc_live_begin<decltype(tile)>(shared, 0, choice.cut); });
  else if (second) spc_with_second<Config>(choice.second, [&](auto tile) { spc_live_begin<decltype(tile)>(shared, 0, rows); });
  __syncthreads();
  if (threadIdx.x >= Config::workers) {
    ptx_give_registers<72>();
    int warp = __shfl_sync(0xffffffffu, (int)threadIdx.x / 32, 0) - Config::workers / 32;
    if (warp > 0) {
      if (!all) spc_fill_rows<Config>(args, warp - 1, 3);
    } else {
      const bool loads = ptx_elect();
      if (first && loads) spc_with_first<Config>(choice.first, [&](auto tile) { spc_live_load_role<decltype(tile)>(shared, args, maps, all); });
      __syncwarp();
      if (first && second) spc_live_meet<Config>(), spc_live_meet<Config>();
      if (second && loads) spc_with_second<Config>(choice.second, [&](auto tile) { spc_live_load_role<decltype(tile)>(shared, args, maps, false); });
    }
  } else {
    ptx_take_registers<216>();
    if (first) spc_with_first<Config>(choice.first, [&](auto tile) { spc_box_work_role<decltype(tile)>(shared, spc_shared, args, maps, all); });
    if (first && second) {
      ptx_fence_async_shared(); // what was staged, before boxes come there
      spc_live_meet<Config>();
      if (threadIdx.x == 0) spc_with_first<Config>(choice.first, [&](auto tile) { spc_live_end<decltype(tile)>(shared); });
      spc_with_second<Config>(choice.second, [&](auto tile) { spc_live_begin<decltype(tile)>(shared, choice.cut, rows); });
      spc_live_meet<Config>();
    }
    if (second)
      spc_with_second<Config>(choice.second, [&](auto tile) {
        if (threadIdx.x < decltype(tile)::workers) spc_box_work_role<decltype(tile)>(shared, spc_shared, args, maps, false);
      });
  }
}
