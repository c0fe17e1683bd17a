// sampled.cuh - the loading warpgroup of a persistent kernel that computes the columns of the result a list names: a list a
// strip (sread of B's rows), the result written over the same list (swrite of its columns).
//
//     T[position][m] = e(sum[k] A[m][k] * B[ids[position]][k])       A by box, rows of B by cp.async, T by box
//
// T is stored transposed and its row p is column ids[p] of the strip: who reads it by the same list reads rows side by side.
// Positions behind the list are zeros up to the end of its last tile.  What the fragment reads at the result's own place
// is gathered too, while k tiles are multiplied, into the boxes that the values then replace.
#pragma once
#include "spc/boxes.cuh"
#include "spc/gemm.cuh"
#include "spc/group_place.cuh"
#include "spc/narrow.cuh"
#include "spc/shares.cuh"
#include "spc/store_tma.cuh"

// ---- which tiles a block takes ---------------------------------------------------------------------------------
// A block's first one.  Of fewer than blocks every so many of these has none: multiprocessors that are neighbours share a way to memory,
// and where the last ways lay idle what comes from the shared cache would take up to a tenth longer.
template <class Config> SPC_DEVICE spc_u32 spc_first_tile(const spc_args &args) {
  const spc_u32 tiles = (spc_u32)Config::tiles(args);
  if (!Config::evenly || tiles >= gridDim.x) return blockIdx.x;
  const spc_u32 first = blockIdx.x * tiles / gridDim.x;
  return (blockIdx.x + 1) * tiles / gridDim.x > first ? first : tiles;
}

// Every gridDim.x'th of them; where k is split a cluster has one.  Called by whole warps.
template <class Config> SPC_DEVICE constexpr bool spc_is_dealt() {
  return !Config::live && (Config::regroups || (Config::gathers && !Config::own_strips && !Config::samples && Config::split == 1));
}
template <class Config, bool Listed = Config::samples || Config::n_blocks, bool Dealt = spc_is_dealt<Config>()> struct spc_tile_walk {
  spc_u32 next_tile, tiles;
  bool all; // of a kernel that is its own dense branch: what the guard says
  __device__ __forceinline__ spc_tile_walk(const spc_args &args, bool whole)
      : next_tile(spc_first_tile<Config>(args)), tiles((spc_u32)Config::tiles(args)), all(whole) {}
  __device__ __forceinline__ bool next(const spc_args &args, spc_tile_place &place) {
    if (next_tile >= tiles) return false;
    if constexpr (Config::live) place = Config::place(args, next_tile, all);
    else place = spc_place_tile<Config>(args, next_tile, Config::own_dense && all ? spc_dense_raster : Config::raster);
    next_tile += gridDim.x;
    return true;
  }
};

// Where lists have very different lengths (rows in an order, neurons by a power law) they are dealt longest first, and back and forth, so that a
// block whose first tile was among the longest has one of the shortest later.  A lane ranks two strips of a window of 64.  Short products are not
// asked: to know of the lists is to wait for memory once more.
template <class Config> struct spc_tile_walk<Config, false, true> {
  static constexpr int lists = 64;
  static constexpr int tall = Config::strip / Config::tile_m; // tiles of m in a strip
  static_assert(Config::strip % Config::tile_m == 0, "a tile must lie in one strip of the list");
  spc_u32 turn;
  int first, rank; // strip of lane 0, -1: none yet; of this lane's two strips in their window, 16 bits each
  int there;       // strips of the window that have entries: the others come last, and of rows in an order have no tiles (rows.cuh)
  bool lies;       // dense is meant, or the lists of the first window are about as long as each other: tiles are taken as they lie
  bool all;        // of a kernel that is its own dense branch: what the guard says
  spc_tile_part mine; // of the tile at hand
  spc_u32 last, left, parts; // the turn whose tiles are shared, how many there are, and in how many parts at most

  __device__ __forceinline__ spc_tile_walk(const spc_args &args, bool whole)
      : turn(0), first(-1), rank(0), there(lists), lies(true), all(Config::own_dense && whole), mine{0, 1}, last(~0u), left(0), parts(1) {
    if constexpr (Config::share_units > 0)
      if (!all) {
        const spc_u32 tiles = (spc_u32)Config::tiles(args);
        left = tiles % gridDim.x, parts = (spc_u32)spc_parts_of<Config>(left, ((int)Config::k(args) + Config::tile_k - 1) / Config::tile_k, gridDim.x);
        if (parts > 1) last = tiles / gridDim.x;
      }
    const long long enough = Config::own_verdict ? 128 : 512; // k tiles of a block, were nothing zero; who has decided by the counts has just seen them
    if (all || (!Config::regroups && Config::tiles(args) / gridDim.x * ((Config::k(args) + 63) / 64) < enough)) return;
    int strips = ((int)Config::m(args) + Config::strip - 1) / Config::strip, here = min(strips, 32), lane = (int)threadIdx.x & 31;
    spc_u32 count = lane < here ? (spc_u32)Config::counts(args)[lane] : 0;
    spc_u32 most = __reduce_max_sync(0xffffffffu, count), sum = __reduce_add_sync(0xffffffffu, count);
    const spc_u32 little = 128; // k's that the longest has more than a list has: less than to deal them takes
    lies = most * (spc_u32)here * 4 <= sum * 5 || (!Config::regroups && (most * (spc_u32)here - sum) * Config::gran < little * (spc_u32)here);
  }
  __device__ __forceinline__ void rank_strips(const spc_args &args, int strips) {
    const int lane = (int)threadIdx.x & 31;
    int count[2];
    rank = 0;
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const int strip = first + i * 32 + lane;
      count[i] = strip < strips ? Config::counts(args)[strip] : -1;
    }
    if constexpr (Config::regroups) there = __popc(__ballot_sync(0xffffffffu, count[0] > 0)) + __popc(__ballot_sync(0xffffffffu, count[1] > 0));
#pragma unroll
    for (int half = 0; half < lists / 32; half++)
#pragma unroll 1 // all of it would be a third of the kernel's text
      for (int j = 0; j < 32; j++) {
        const int other = __shfl_sync(0xffffffffu, count[half], j);
        rank += other > count[0] || (other == count[0] && half * 32 + j < lane) ? 1 : 0;
        rank += other > count[1] || (other == count[1] && half * 32 + j < 32 + lane) ? 0x10000 : 0;
      }
  }
  // Of a short list there are fewer parts, or one, and blocks that have none.
  __device__ __forceinline__ bool has_part(const spc_args &args, const spc_tile_place &place) {
    if constexpr (Config::share_units > 0) {
      const int steps = spc_k_tiles<Config>(place, args);
      mine.parts = max(1, min(mine.parts, steps / Config::share_steps));
      if (steps - steps / mine.parts < Config::share_saves) mine.parts = 1;
    }
    return mine.number < mine.parts;
  }
  __device__ __forceinline__ bool next(const spc_args &args, spc_tile_place &place) {
    const int m = (int)Config::m(args), n = (int)Config::n(args);
    const spc_u32 strips = (spc_u32)(m + Config::strip - 1) / Config::strip, wide = (spc_u32)(n + Config::tile_n - 1) / Config::tile_n;
#pragma unroll 1
    for (;;) {
      spc_u32 number = turn * gridDim.x + (turn % 2 && !lies ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
      const bool shared = Config::share_units > 0 && turn >= last;
      if (shared) {
        if (turn > last || blockIdx.x / parts >= left) return false;
        number = turn * gridDim.x + blockIdx.x / parts, mine = {(int)(blockIdx.x % parts), (int)parts};
      }
      turn++;
      if (lies) {
        if (number >= (spc_u32)Config::tiles(args)) return false;
        place = spc_place_tile<Config>(args, number, Config::own_dense && all ? spc_dense_raster : Config::raster);
        if (Config::regroups && !all && spc_count_of<Config>(args, place.m0 / Config::strip) == 0) continue;
        return !shared || has_part(args, place);
      }
      if (number >= strips * tall * wide) return false;
      int row = (int)(number / wide), window = row / (lists * tall) * lists, within = (row - window * tall) / tall;
      if (window != first) first = window, rank_strips(args, (int)strips);
      if (Config::regroups && within >= there) continue;
      const spc_u32 low = __ballot_sync(0xffffffffu, (rank & 0xffff) == within), high = __ballot_sync(0xffffffffu, rank >> 16 == within);
      const int who = low ? __ffs((int)low) - 1 : 31 + __ffs((int)high);
      place.m0 = (first + who) * Config::strip + row % tall * Config::tile_m, place.n0 = (int)(number % wide) * Config::tile_n;
      place.m = m, place.n = n, place.batch = 0;
      if (place.m0 < m) return !shared || has_part(args, place); // the last strip may have fewer tiles than the others
    }
  }
};

template <class Config> struct spc_only_tile {
  bool taken = false;
  __device__ __forceinline__ spc_only_tile(const spc_args &, bool) {}
  __device__ __forceinline__ bool next(const spc_args &args, spc_tile_place &place) {
    if (taken) return false;
    place = spc_place_tile<Config>(args, blockIdx.x / Config::split);
    return taken = true;
  }
};

// Of a list only the tiles that hold something: a lane a strip counts them.  Lists are about as long as each other, and not all of their
// tiles take as long: where many lists have as many tiles a block moves on in every turn, or it would have the same one of all.
// In the last turn, where they are fewer than blocks, several share one (shares.cuh).
// Where the cache has no room for all of B, strips take turns, some at a time: all first tiles come first, then all second ones.  Lists ascend,
// so what is gathered for these at a time lies in a part of B.
template <class Config> struct spc_tile_walk<Config, true, false> {
  spc_u32 turn, next_tile, before; // number of the next tile; of tiles in the strips before `first`
  int first;                 // strip of lane 0
  static constexpr spc_u32 on = Config::samples ? 41 : 0;     // blocks; of no multiple are there so many tiles in a list
  static constexpr int some = Config::strip < 1024 ? 1024 / Config::strip : 1; // strips that take turns
  static constexpr long long room = 40 << 20;                 // bytes of B that the cache has room for
  int window;                                                 // strips that are counted at a time
  spc_tile_part mine;                                         // of the tile at hand
  spc_u32 last, left;                                         // the turn whose tiles are shared, and how many there are
  static_assert(Config::strip % Config::tile_m == 0, "a tile must lie in one strip of the list");

  __device__ __forceinline__ spc_tile_walk(const spc_args &args, bool)
      : turn(0), next_tile(blockIdx.x), before(0), first(0), window(Config::samples && Config::n(args) * Config::k(args) * 2 > room ? some : 32), mine{0, 1}, last(~0u), left(0) {
    if constexpr (Config::share_units > 0) {
      const spc_u32 all = all_tiles(args);
      if (all != ~0u) last = all / gridDim.x, left = all % gridDim.x;
    }
  }
  // In front of the last turn; false: this block has no part in it.
  __device__ __forceinline__ bool share(const spc_args &args) {
    const int parts = spc_parts_of<Config>(left, ((int)Config::k(args) + Config::tile_k - 1) / Config::tile_k, gridDim.x);
    mine = {(int)(blockIdx.x % (spc_u32)parts), parts};
    next_tile = last * gridDim.x + blockIdx.x / (spc_u32)parts;
    return blockIdx.x / (spc_u32)parts < left;
  }
  // A strip's tiles of so many entries.
  static __device__ __forceinline__ int tiles_of(int count, int high) { return (count * Config::gran + Config::tile_n - 1) / Config::tile_n * high; }
  // Of all strips; where there are more than are looked at none are shared.
  static __device__ __forceinline__ spc_u32 all_tiles(const spc_args &args) {
    const int m = (int)Config::m(args), strips = (m + Config::strip - 1) / Config::strip;
    int sum = 0;
#pragma unroll
    for (int first = 0; first < Config::share_strips; first += 32) {
      const int strip = first + ((int)threadIdx.x & 31);
      if (strip < strips) sum += tiles_of(spc_count_of<Config>(args, strip), spc_tall_of<Config>(strip, m));
    }
    return strips > Config::share_strips ? ~0u : (spc_u32)__reduce_add_sync(0xffffffffu, sum);
  }
  // The strip and which of its tiles, where strips of `mine` tiles each take turns.
  static __device__ __forceinline__ void take_turns(int mine, int wanted, int &who, int &number) {
    int low = 0, high = __reduce_max_sync(0xffffffffu, mine) - 1; // rounds: the last one that begins at or before the tile wanted
#pragma unroll 1
    while (low < high) {
      const int middle = (low + high + 1) / 2;
      if (__reduce_add_sync(0xffffffffu, min(mine, middle)) <= wanted) low = middle;
      else high = middle - 1;
    }
    spc_u32 there = ptx_ballot(mine > low);
#pragma unroll 1
    for (int skip = wanted - __reduce_add_sync(0xffffffffu, min(mine, low)); skip > 0; skip--) there &= there - 1;
    who = __ffs((int)there) - 1, number = low;
  }
  __device__ __forceinline__ bool next(const spc_args &args, spc_tile_place &place) {
    int lane = (int)threadIdx.x & 31, m = (int)Config::m(args), strips = (m + Config::strip - 1) / Config::strip;
    if constexpr (Config::share_units > 0)
      if (turn >= last && (turn > last || !share(args))) return false;
#pragma unroll 1
    for (; first < strips; first += window) {
      int strip = first + lane, count = strip < strips && lane < window ? spc_count_of<Config>(args, strip) : 0;
      int high = spc_tall_of<Config>(strip, m), mine = tiles_of(count, high), sum = spc_scan_warp(mine);
      spc_u32 all = (spc_u32)__shfl_sync(0xffffffffu, sum, 31), wanted = next_tile - before;
      if (wanted < all) {
        int who, number;
        if (Config::samples && window == some) {
          take_turns(mine, (int)wanted, who, number);
        } else {
          who = __ffs((int)ptx_ballot((spc_u32)sum > wanted)) - 1;
          number = (int)wanted - __shfl_sync(0xffffffffu, sum - mine, who);
        }
        high = __shfl_sync(0xffffffffu, high, who);
        count = __shfl_sync(0xffffffffu, count, who);
        place.m0 = (first + who) * Config::strip + number % high * Config::tile_m;
        place.n0 = number / high * Config::tile_n;
        place.m = m, place.n = spc_listed_columns<Config>(args, first + who, count);
        place.batch = 0;
        turn++, next_tile = turn * gridDim.x + (blockIdx.x + turn * on) % gridDim.x;
        return true;
      }
      before += all;
    }
    return false;
  }
};

template <class Config, int Kind = (Config::split > 1 ? 1 : Config::grouped ? 2 : Config::narrow > 0 ? 3 : 0)> struct spc_walk_kind {
  typedef spc_tile_walk<Config> type;
};
template <class Config> struct spc_walk_kind<Config, 1> { typedef spc_only_tile<Config> type; };
template <class Config> struct spc_walk_kind<Config, 2> { typedef spc_group_walk<Config> type; };
template <class Config> struct spc_walk_kind<Config, 3> { typedef spc_narrow_walk<Config> type; };
template <class Config> using spc_walk_of = typename spc_walk_kind<Config>::type;

// ---- what the warpgroup copies -----------------------------------------------------------------------------------
// Eight threads share a row of 64 k's; a thread keeps where its rows are, the same in every k tile.
template <class Config> struct spc_sampled {
  using panel_a = typename spc_boxes<Config>::a;
  using panel_b = typename spc_boxes<Config>::b;
  using store = spc_box_store<Config>;
  using P = typename Config::P;
  static constexpr int threads = 128, wide = 8, step = threads / wide, passes = Config::tile_n / step;
  static constexpr int chunk = 8; // elements of 16 bytes
  static_assert(Config::layout_b == 'c', "a list along n needs B stored [n][k]: a row of the gather must be contiguous");
  static_assert(panel_b::slabs == 1 && panel_b::width == 64, "a k tile is one slab of 64 k's");
  static_assert(Config::tile_n % step == 0 && passes <= 32, "every thread must have the same number of rows, at most 32");

  const char *b;     // this thread's chunk of row 0 in the next k tile
  spc_u32 pitch_b;   // bytes
  int k, extent, first; // k of that chunk; row and byte in a slab
  int row[passes];   // those past the list are 0, and have no bit:
  spc_u32 listed;    // bit i: row i
  int used;          // bit h: half h of the tile has a use for it

  __device__ __forceinline__ spc_sampled(const spc_args &args, const spc_tile_place &place, int thread) {
    int line = thread / wide;
    k = thread % wide * chunk, extent = (int)Config::k(args);
    spc_list list = spc_list_of<Config>(args, place.m0 / Config::strip, Config::n(args));
    listed = 0, used = 3;
    if constexpr (Config::halves) {
      used = 0;
      for (int h = 0; h < 2; h++)
        used |= (spc_half_of<Config>(args, place.m0 / Config::strip, h, Config::tile_n).has(place.n0 / Config::tile_n) ? 1 : 0) << h;
    }
#pragma unroll
    for (int i = 0; i < passes; i++) {
      int at = list.template at<Config::gran>(place.n0 + line + i * step);
      row[i] = max(at, 0);
      listed |= (at >= 0 ? 1u : 0u) << i;
    }
    b = (const char *)(Config::b(args, place.batch) + k);
    pitch_b = (spc_u32)Config::pitch_b(args) * 2;
    first = line * 128 + (thread % wide ^ line % 8) * 16;
  }
  __device__ __forceinline__ int tiles() const { return max((extent + Config::tile_k - 1) / Config::tile_k, 1); }
  __device__ __forceinline__ int box_k(int i) const { return i * Config::tile_k; }
  __device__ __forceinline__ int halves(int) const { return used; }
  __device__ __forceinline__ void begin(int i) { b += i * 128, k += i * Config::tile_k; } // with another k tile than the first
  __device__ __forceinline__ void load(spc_u32 slot) {
    // Rows start at multiples of 16 bytes: a chunk lies inside wholly or not at all.
    spc_u32 there = k < extent ? listed : 0;
    const char *from = k < extent ? b : b - k * 2;
#pragma unroll
    for (int i = 0; i < passes; i++)
      ptx_copy_async_16(slot + panel_a::bytes + first + i * step * 128, ptx_address(from, row[i], pitch_b), there >> i & 1 ? 16 : 0);
    b += 128, k += Config::tile_k;
  }
  // Slot number `number` of what lies at the tile's places, in the boxes of store_tma.cuh.
  template <int Number> __device__ __forceinline__ void load_place(spc_u32 slot, const spc_args &args, const spc_tile_place &place) const {
    static_assert(store::share == 64 && store::columns % 64 == 0 && sizeof(P) == 2, "boxes at the place are 64 x 64");
    spc_u32 pitch = (spc_u32)Config::pitch_t(args) * 2;
#pragma unroll
    for (int i = Number * store::slot_boxes; i < min((Number + 1) * store::slot_boxes, store::boxes); i++)
#pragma unroll
      for (int g = 0; g < store::groups; g++) {
        int m = place.m0 + store::box_row(g, i) + (int)threadIdx.x % wide * chunk; // this thread's chunk, in column 0
        bool inside = m < place.m && (!Config::halves || (used >> g & 1));
        const char *from = (const char *)(Config::at_place(args) + (inside ? m : 0));
        spc_u32 there = inside ? listed : 0;
        spc_u32 to = slot + ((i - Number * store::slot_boxes) * store::groups + g) * store::place_bytes + first;
#pragma unroll
        for (int p = 0; p < 64 / step; p++) {
          const int pass = store::box_column(g, i) / step + p;
          ptx_copy_async_16(to + p * step * 128, ptx_address(from, row[pass], pitch), there >> pass & 1 ? 16 : 0);
        }
        __syncwarp(); // the assembler would reckon all addresses first
      }
  }
};
