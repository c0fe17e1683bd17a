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
#include "spc/fill_rows.cuh"
#include "spc/gemm_tma.cuh"

// Rows [begin, end), in `down` tiles of `tall` rows: 64 (the first warpgroup's alone) or 128.
struct spc_live_part { int begin, end, tall, down; };
SPC_DEVICE spc_live_part spc_live_rows(int begin, int end, int tall) { return {begin, end, tall, (int)((spc_u32)(end - begin + tall - 1) / (spc_u32)tall)}; }

// The part that a block is at, in the last bytes of its shared memory.
template <class Config> SPC_DEVICE spc_live_part *spc_live_now() {
  extern __shared__ __align__(1024) char spc_shared[];
  return (spc_live_part *)(spc_shared + Config::shared_bytes - sizeof(spc_live_part));
}

// Config's product in tiles of another width, by two warpgroups, one above the other; what there is shared memory for.
template <class Config, int Wide> struct spc_live_tile : Config {
  static constexpr int tile_m = 128, tile_n = Wide, tile_k = 64, warps_m = 2, warps_n = 1, workers = 256;
  static constexpr int depth = Config::depth * (Config::tile_m + Config::tile_n) / (tile_m + Wide), most_slots = depth * 3 / 2;
  static_assert(2 * most_slots <= 32, "a lane of a warp begins and ends a barrier");
  static constexpr int store_boxes = Config::store_boxes < Wide / 64 ? Config::store_boxes : Wide / 64;
  static_assert(Config::tile_m == tile_m && Config::tile_k == tile_k && !Config::evenly && Config::split == 1, "all tiles have room for rows of the same number");
  SPC_DEVICE int across(const spc_args &args) { return (int)(((spc_u32)Config::n(args) + Wide - 1) / Wide); }
  SPC_DEVICE long long tiles(const spc_args &args) { return spc_live_now<Config>()->down * across(args); }
  // all: all rows as they lie.
  SPC_DEVICE spc_tile_place place(const spc_args &args, spc_u32 number, bool all) {
    const spc_live_part part = *spc_live_now<Config>();
    spc_tile_place place = spc_place_number(number, part.end, (int)Config::n(args), part.down, across(args), Wide == 64 ? part.tall : tile_m, Wide,
                                            Config::own_dense && all ? spc_dense_raster : Config::raster);
    place.m0 += part.begin;
    return place;
  }
  SPC_DEVICE spc_slot_sizes<spc_live_tile> sizes() { return sizes_of(spc_live_now<Config>()->tall); }
  SPC_DEVICE spc_slot_sizes<spc_live_tile> sizes_of(int tall) {
    if constexpr (Wide == 64) return {tall == 64 ? most_slots : depth, (tall + Wide) * 128};
    return {};
  }
};
template <class Config> using spc_live_large = spc_live_tile<Config, 256>;
template <class Config> using spc_live_square = spc_live_tile<Config, 128>;
template <class Config> using spc_live_narrow = spc_live_tile<Config, 64>; // and small ones, of 64 rows
template <class Config> constexpr bool spc_sizes_slots<spc_live_tile<Config, 64>> = true;
enum spc_live_size { spc_large, spc_square, spc_narrow, spc_small };

// Microseconds of a tile of 4096 k's, its rows sent to their places: measured; what matters is how they compare.
SPC_DEVICE spc_u32 spc_live_time(int size) { return size == spc_large ? 47 : size == spc_square ? 27 : size == spc_narrow ? 19 : 12; }
SPC_DEVICE int spc_live_tall(int size) { return size == spc_small ? 64 : 128; }
SPC_DEVICE int spc_live_wide(int size) { return size == spc_large ? 256 : size == spc_square ? 128 : 64; }

// Rows before `cut` go in large or square tiles, the others in narrow or small ones; a lane a pair of tiles, and whether the first takes
// none, whole turns, or all.  By whole warps.
struct spc_live_choice { int cut, first, second, time; };
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
  return {(int)__shfl_sync(0xffffffffu, cut, who), __shfl_sync(0xffffffffu, first, who), __shfl_sync(0xffffffffu, second, who), (int)(best / 32)};
}

// The loads of all tiles of a part, by one thread.
template <class Tile> SPC_DEVICE void spc_live_load_role(spc_u32 shared, const spc_args &args, const spc_tensor_maps &maps, bool all) {
  using ring = spc_box_ring<Tile>;
  const int edge = 64, box = edge * 128; // bytes
  const int steps = max(((int)Tile::k(args) + edge - 1) / edge, 1), tall = spc_sizes_slots<Tile> ? spc_live_now<Tile>()->tall : Tile::tile_m;
  const spc_tensor_map *rows = &maps.map[all ? 0 : 3];
  static_assert(Tile::layout_a == 'r' && sizeof(typename Tile::A) == 2, "rows of A must be contiguous, of 16 bits");
  ring at = {0, 1, Tile::sizes_of(tall)};
  spc_tile_walk<Tile> walk(args, all);
  spc_tile_place place;
#pragma unroll 1
  while (walk.next(args, place)) {
#pragma unroll 1
    for (int i = 0; i < steps; i++, at.advance()) {
      const spc_u32 slot = shared + at.slot * at.sizes.bytes(), full = ring::full(shared, at.slot);
      const spc_u32 a = slot + (spc_sizes_slots<Tile> ? ring::panel_b::bytes : 0), b = slot + (spc_sizes_slots<Tile> ? 0 : ring::panel_a::bytes);
      ptx_barrier_wait(ring::empty(shared, at.slot), at.phase);
      ptx_barrier_expect(full, at.sizes.bytes());
      ptx_tma_load<0>(a, rows, full, i * edge, place.m0, {{0, 0, 0}});
      if (tall > edge) ptx_tma_load<0>(a + box, rows, full, i * edge, place.m0 + edge, {{0, 0, 0}});
#pragma unroll
      for (int s = 0; s < Tile::tile_n / edge; s++) {
        const int n = place.n0 + s * edge;
        if constexpr (Tile::layout_b == 'r') ptx_tma_load<0>(b + s * box, &maps.map[1], full, n, i * edge, {{0, 0, 0}});
        else ptx_tma_load<0>(b + s * box, &maps.map[1], full, i * edge, n, {{0, 0, 0}});
      }
    }
  }
}

// What the rows that are not listed are: e(0).  A warp a row; `warp` of `warps` in the block.  listed: how many are; meanwhile: ns that the others take, of
// which some lie between rows: stores side by side keep the first k tiles waiting.
template <class Config> SPC_DEVICE void spc_fill_rows(const spc_args &args, int warp, int warps, int listed, float meanwhile) {
  const float part = 0.3f, longest = 2000;
  const spc_row_filler<Config> filler(args);
  const int rows = (int)Config::m(args), all = (int)gridDim.x * warps;
  const spc_u32 pause = (spc_u32)fminf(part * meanwhile * (float)all / (float)max(rows - listed, all), longest);
#pragma unroll 1
  for (int row = (int)blockIdx.x * warps + warp; row < rows; row += all) {
    if (__ldg(Config::bits(args) + row / 32) >> row % 32 & 1) continue;
    __nanosleep(pause);
    filler.fill(row);
  }
}

// Who multiplies and who loads meet between the parts; those that fill go on.
template <class Config> SPC_DEVICE void spc_live_meet() { ptx_sync_roles<Config::workers + 32>(); }

// The barriers of a ring: how many slots there are room for, and where.
struct spc_live_barriers { int most, at; };
template <class Config> SPC_DEVICE spc_live_barriers spc_live_barriers_of(int size) {
  using large = spc_box_ring<spc_live_large<Config>>;
  using square = spc_box_ring<spc_live_square<Config>>;
  using narrow = spc_box_ring<spc_live_narrow<Config>>;
  if (size == spc_large) return {large::most, large::barriers_at};
  if (size == spc_square) return {square::most, square::barriers_at};
  return {narrow::most, narrow::barriers_at};
}
// A part begins, or ends; by a whole warp, a lane a slot.
template <class Config> SPC_DEVICE void spc_live_begin(spc_u32 shared, const spc_live_part &part, const spc_live_barriers &barriers) {
  const int slot = (int)threadIdx.x % 32;
  if (slot == 0) *spc_live_now<Config>() = part;
  if (slot < barriers.most) {
    ptx_barrier_init(shared + barriers.at + slot * 8, 1);
    ptx_barrier_init(shared + barriers.at + (barriers.most + slot) * 8, part.tall / 64); // warpgroups
  }
  ptx_fence_barrier_init();
}
SPC_DEVICE void spc_live_end(spc_u32 shared, const spc_live_barriers &barriers) {
  if ((int)threadIdx.x % 32 < 2 * barriers.most) ptx_barrier_end(shared + barriers.at + threadIdx.x % 32 * 8);
  __syncwarp();
}

template <class Config> SPC_DEVICE void spc_gemm_live(const spc_args &args, const spc_tensor_maps &maps) {
  const int room = Config::shared_bytes - (int)sizeof(spc_live_part);
  static_assert(room % 16 == 0 && room >= spc_box_ring<spc_live_large<Config>>::bytes && room >= spc_box_ring<spc_live_square<Config>>::bytes &&
                    room >= spc_box_ring<spc_live_narrow<Config>>::bytes,
                "shared_bytes is less than the rings and the staged tiles need");
  static_assert(Config::threads == 384 && Config::workers == 256, "two warpgroups multiply, the last one loads and fills");
  extern __shared__ __align__(1024) char spc_shared[];
  spc_u32 shared = spc_shared_address(spc_shared);
  const int said = spc_said_in_front<Config>(args);
  if (threadIdx.x == Config::workers)
    for (int i = 0; i < 4; i++) ptx_tma_prefetch(&maps.map[i]);
  if (spc_leaves_to_front<Config>(args, said)) return;
  ptx_wait_grid(); // nothing else in global memory was touched before
  if (spc_not_meant<Config>(args)) return;
  ptx_release_grid();
  const bool all = spc_dense_is_meant<Config>(args);
  const int rows = all ? (int)Config::m(args) : __ldg(Config::counts(args));
  spc_live_choice choice = {rows, spc_large, spc_small, 0};
  if (!all) choice = spc_choose_live((spc_u32)rows, (spc_u32)Config::n(args));
  const bool first = choice.cut > 0, second = choice.cut < rows;
  auto begin = [&](bool later) {
    const int size = later ? choice.second : choice.first;
    spc_live_begin<Config>(shared, spc_live_rows(later ? choice.cut : 0, later ? rows : choice.cut, spc_live_tall(size)), spc_live_barriers_of<Config>(size));
  };
  if (threadIdx.x < 32) begin(!first);
  __syncthreads();
  if (threadIdx.x >= Config::workers) {
    ptx_give_registers<72>();
    int warp = __shfl_sync(0xffffffffu, (int)threadIdx.x / 32, 0) - Config::workers / 32;
    if (warp > 0) {
      if (!all) spc_fill_rows<Config>(args, warp - 1, 3, rows, (float)choice.time * (float)Config::k(args) * (1000 / 4096.0f));
    } else {
      const bool loads = ptx_elect();
      if (first && loads) {
        if (choice.first == spc_large) spc_live_load_role<spc_live_large<Config>>(shared, args, maps, all);
        else spc_live_load_role<spc_live_square<Config>>(shared, args, maps, false);
      }
      __syncwarp();
      if (first && second) spc_live_meet<Config>(), spc_live_meet<Config>();
      if (second && loads) spc_live_load_role<spc_live_narrow<Config>>(shared, args, maps, false);
    }
  } else {
    ptx_take_registers<216>();
    if (first) {
      if (choice.first == spc_large) spc_box_work_role<spc_live_large<Config>>(shared, spc_shared, args, maps, all);
      else spc_box_work_role<spc_live_square<Config>>(shared, spc_shared, args, maps, false);
    }
    if (first && second) {
      ptx_fence_async_shared(); // what was staged, before boxes come there
      spc_live_meet<Config>();
      if (threadIdx.x < 32) spc_live_end(shared, spc_live_barriers_of<Config>(choice.first)), begin(true);
      spc_live_meet<Config>();
    }
    if (second && (int)threadIdx.x / 128 * 64 < spc_live_tall(choice.second)) spc_box_work_role<spc_live_narrow<Config>>(shared, spc_shared, args, maps, false);
  }
}
