// narrow.cuh - which tiles of listed blocks a block takes, where a tile may be as wide as the row says or narrower (`Config::narrow` columns).
//
// How many blocks a strip's list names varies, so its last tile is seldom full, and the last turn seldom too:
//
//     wide tiles first        132 | 112 + 20 narrow ones | 8 narrow ones     they go to who had a narrow one, back and forth
//     few tiles in all        all are narrow, so that more blocks have one
//
// A narrow tile is loaded, multiplied and stored as one: 0.62 of a wide one's time, measured.  All warps of all blocks see the same counts, so all
// take the same decisions.  In the last turn several blocks share a tile by k (shares.cuh), as many as had a narrow one before, if there are some.
// Config names: narrow (0: all tiles are as wide as tile_n), and what shares.cuh wants.
#pragma once
#include "spc/blocks.cuh"
#include "spc/shares.cuh"

// ---- the plan ------------------------------------------------------------------------------------------------------
// Tiles of a list's columns that come first, as wide as a piece, and whether a narrow rest is left.
template <class Config> SPC_DEVICE int spc_pieces(int columns, int piece) { return columns / piece + (columns % piece > Config::narrow ? 1 : 0); }
template <class Config> SPC_DEVICE int spc_has_rest(int columns, int piece) { return columns % piece > 0 && columns % piece <= Config::narrow ? 1 : 0; }

// What a block knows of all tiles: in shared memory, behind the words in which blocks that share a tile meet.
struct spc_narrow_plan {
  int piece, parts; // columns of a list's tiles but the rest; blocks that share a tile of the last turn
  spc_u32 last;     // that turn
  int time;         // that all take, in hundredths of a wide tile's; 0: nobody knows
  __device__ __forceinline__ void write(int *to) const { to[0] = piece << 8 | parts, to[1] = (int)last, to[2] = time; }
  SPC_DEVICE spc_narrow_plan read(const int *from) { return {from[0] >> 8, from[0] & 255, (spc_u32)from[1], from[2]}; }
};
template <class Config> struct spc_box_ring;
template <class Config> SPC_DEVICE int *spc_plan_at() {
  extern __shared__ __align__(1024) char spc_shared[];
  return (int *)(spc_shared + spc_box_ring<Config>::plan_at);
}

// Of a wide tile's time, in hundredths.
enum { spc_wide_time = 100, spc_narrow_time = 62, spc_meeting_time = 20 };
enum { spc_step_time = 650 }; // of a wide k tile, in ns
// `first` tiles as wide as a piece, of which one takes `one`, and so many rests: what all take, and the plan's parts and last turn.
template <class Config> SPC_DEVICE int spc_weigh_tiles(spc_u32 first, spc_u32 rests, int one, int steps, spc_narrow_plan &plan) {
  const spc_u32 grid = gridDim.x, turns = (first + rests) / grid, left = (first + rests) % grid;
  const spc_u32 free = turns && first < turns * grid ? turns * grid - max(first, (turns - 1) * grid) : 0; // blocks that had a rest in the turn before
  const bool hidden = left <= free;
  plan.last = turns, plan.parts = spc_parts_of<Config>(left, steps, hidden ? free : grid);
  if (left == 0) return (int)turns * one;
  int behind = (first > turns * grid ? one : spc_narrow_time) / plan.parts + (plan.parts > 1 ? spc_meeting_time : 0);
  if (hidden) behind = max(behind - (spc_wide_time - spc_narrow_time), 0);
  return (int)turns * one + behind;
}

// By a whole warp, before anybody asks for a tile: one lane weighs wide tiles, another one narrow ones.  all: dense is meant, there may be no list.
template <class Config> SPC_DEVICE void spc_plan_tiles(const spc_args &args, bool all) {
  const int lane = (int)threadIdx.x & 31;
  spc_narrow_plan plan = {lane ? (int)Config::narrow : (int)Config::tile_n, 1, ~0u, 0};
  if (Config::own_dense && all) {
    if (lane == 0) plan.write(spc_plan_at<Config>());
    return;
  }
  int time = lane; // of strips that are too many to be looked at nobody knows how many tiles there are
  if constexpr (Config::share_units > 0) {
    const int m = (int)Config::m(args), strips = (m + Config::strip - 1) / Config::strip, steps = ((int)Config::k(args) + Config::tile_k - 1) / Config::tile_k;
    if (strips <= Config::share_strips) {
      int sum[3] = {0, 0, 0}; // wide ones, their rests, narrow ones
#pragma unroll 1
      for (int strip = lane; strip < strips; strip += 32) {
        const int columns = spc_count_of<Config>(args, strip) * Config::gran, high = spc_tall_of<Config>(strip, m);
        sum[0] += high * spc_pieces<Config>(columns, Config::tile_n), sum[1] += high * spc_has_rest<Config>(columns, Config::tile_n);
        sum[2] += high * ((columns + Config::narrow - 1) / Config::narrow);
      }
#pragma unroll
      for (int i = 0; i < 3; i++) sum[i] = __reduce_add_sync(0xffffffffu, sum[i]);
      time = spc_weigh_tiles<Config>((spc_u32)(lane ? sum[2] : sum[0]), lane ? 0 : (spc_u32)sum[1], lane ? spc_narrow_time : spc_wide_time, steps, plan);
      plan.time = time;
    }
  }
  const int wide = __shfl_sync(0xffffffffu, time, 0), narrow = __shfl_sync(0xffffffffu, time, 1);
  if (lane == (narrow < wide ? 1 : 0)) plan.write(spc_plan_at<Config>());
}

// How long the tiles of all take, in ns, where somebody knows: what no list names is filled meanwhile, or it would keep the first k tiles waiting.
template <class Config> SPC_DEVICE float spc_busy_time(const spc_args &args) {
  const int steps = ((int)Config::k(args) + Config::tile_k - 1) / Config::tile_k;
  return (float)spc_narrow_plan::read(spc_plan_at<Config>()).time / spc_wide_time * (float)steps * spc_step_time;
}

// ---- the walk ------------------------------------------------------------------------------------------------------
template <class Config> struct spc_narrow_walk {
  static_assert(Config::strip % Config::tile_m == 0, "a tile must lie in one strip of the list");
  static_assert(Config::narrow % spc_block_columns == 0 && Config::tile_n == 2 * Config::narrow && Config::warps_n == 1, "a narrow tile is half of a wide one");
  spc_u32 turn, next_tile, before; // tiles in the strips before `first`
  int first;                       // strip of lane 0; of the rests, behind all strips
  spc_narrow_plan plan;
  spc_tile_part mine;
  bool all; // dense is meant: tiles as they lie

  __device__ __forceinline__ spc_narrow_walk(const spc_args &, bool whole)
      : turn(0), next_tile(blockIdx.x), before(0), first(0), plan(spc_narrow_plan::read(spc_plan_at<Config>())), mine{0, 1}, all(Config::own_dense && whole) {}
  static __device__ __forceinline__ auto sizes_of(const spc_narrow_plan &plan) { return decltype(spc_box_ring<Config>::sizes){plan.piece == Config::narrow}; } // of the ring
  __device__ __forceinline__ auto sizes() const { return sizes_of(plan); }
  // Back and forth: who had one of the last tiles of a turn has one of the first of the next.
  __device__ __forceinline__ spc_u32 block_of(spc_u32 at) const { return at % 2 ? gridDim.x - 1 - blockIdx.x : blockIdx.x; }
  // In front of the last turn.
  __device__ __forceinline__ void share() {
    const spc_u32 unit = block_of(turn);
    mine = {(int)(unit % (spc_u32)plan.parts), plan.parts, unit};
    next_tile = turn * gridDim.x + unit / (spc_u32)plan.parts;
  }
  __device__ __forceinline__ bool next(const spc_args &args, spc_tile_place &place) {
    if (all) {
      if ((long long)next_tile >= Config::tiles(args)) return false;
      place = spc_place_tile<Config>(args, next_tile, spc_dense_raster);
      next_tile += gridDim.x;
      return true;
    }
    const int lane = (int)threadIdx.x & 31, m = (int)Config::m(args), strips = (m + Config::strip - 1) / Config::strip, behind = (strips + 31) / 32 * 32;
    if (turn > plan.last) return false;
    if (turn == plan.last) share();
#pragma unroll 1
    for (; first < 2 * behind; first += 32) {
      const bool rests = first >= behind;
      const int strip = (rests ? first - behind : first) + lane, count = strip < strips ? spc_count_of<Config>(args, strip) : 0;
      const int high = strip < strips ? spc_tall_of<Config>(strip, m) : 1, columns = count * Config::gran, whole_ones = spc_pieces<Config>(columns, plan.piece);
      const int mine = (rests ? spc_has_rest<Config>(columns, plan.piece) : whole_ones) * high;
      const int sum = spc_scan_warp(mine);
      const spc_u32 all = (spc_u32)__shfl_sync(0xffffffffu, sum, 31), wanted = next_tile - before;
      if (wanted < all) {
        const int who = __ffs((int)ptx_ballot((spc_u32)sum > wanted)) - 1;
        const int number = (int)wanted - __shfl_sync(0xffffffffu, sum - mine, who), there = __shfl_sync(0xffffffffu, high, who);
        place.m0 = __shfl_sync(0xffffffffu, strip, who) * Config::strip + number % there * Config::tile_m;
        place.n0 = (rests ? __shfl_sync(0xffffffffu, whole_ones, who) : number / there) * plan.piece;
        place.m = m, place.batch = 0;
        place.n = min(spc_listed_columns<Config>(args, __shfl_sync(0xffffffffu, strip, who), __shfl_sync(0xffffffffu, count, who)), place.n0 + plan.piece);
        turn++, next_tile = turn * gridDim.x + block_of(turn);
        return true;
      }
      before += all;
    }
    return false;
  }
};
