// store_tma.cuh - the epilogue of persistent kernels: sums to values, values to staged boxes, boxes to memory.
//
// A warpgroup cuts its part of the result into boxes: 64 rows x `wide` columns where the result is stored
// row-major, `tall` columns x 64 rows where it is stored transposed; the last overlaps the one before where the
// part is no multiple of a box (the same values are stored twice).  It stages `store_boxes` boxes at a time and
// starts their stores; the copy engine reads them while the next boxes are computed, or the next tile is:
//
//     sums --Config::epilogue--> pairs --stmatrix--> swizzled box --copy engine--> T
//                                     \--or over rows--> words of bits (detection)
//
// Steps of 16 columns: with g = lane / 4, t = lane % 4, a lane holds columns 2 t, 2 t + 1 and 8 + 2 t, 9 + 2 t of
// the rows g and g + 8 of its warp's 16.  A result of another size than 2 bytes is stored from the registers.
#pragma once
#include "spc/blocks.cuh"
#include "spc/boxes.cuh"
#include "spc/epilogue.cuh"
#include "spc/inplace.cuh"
#include "spc/multiply_wgmma.cuh"
#include "spc/vectors.cuh"

// Of two elements side by side: 16 bits each, or a byte each.
template <class T> SPC_DEVICE float spc_unpack(spc_u32 pair, int which) {
  if constexpr (sizeof(T) == 1) {
    return (float)(T)(which ? pair >> 8 : pair);
  } else {
    T half = {(unsigned short)(which ? pair >> 16 : pair)};
    return spc_get(half);
  }
}

// ---- detection: words of bits, or'ed over the rows of a strip ------------------------------------------------
// Of narrow strips a step of 16 columns makes half words, which are stored as they are.
template <class Config> constexpr bool spc_detects_steps() {
  if constexpr (Config::detects) return Config::detect_strip == 8;
  else return false;
}

template <class Config, bool Detects = Config::detects, bool Steps = spc_detects_steps<Config>()> struct spc_box_detect {
  static constexpr int bytes = 0;
  __device__ __forceinline__ void note(int, int, int, spc_u32) {}
  __device__ __forceinline__ void step(const spc_u32 *, int, int, int, const spc_tile_place &) {}
  SPC_DEVICE spc_u32 *room(spc_u32, int) { return nullptr; }
  __device__ __forceinline__ void leave(spc_u32 *, int, int) {}
  __device__ __forceinline__ void finish(spc_u32 *, const spc_tile_place &, const spc_args &) {}
};

template <class Config> struct spc_box_detect<Config, true, false> {
  using sums = spc_wgmma_sums<Config>;
  static constexpr int strip = Config::detect_strip, gran = Config::detect_gran, span = 32 * gran; // columns a word
  static constexpr int words = sums::columns / span, warps = Config::workers / 32;
  static constexpr int bytes = 2 * warps * words * 4; // of two tiles: a group may be one ahead
  static_assert(strip % 16 == 0 && Config::tile_m % strip == 0, "a strip must be whole warps of one tile");
  static_assert(sums::columns % span == 0 && span % 8 == 0, "a part must make whole words of bits");
  static_assert(sums::blocks == 1, "detection needs one block of 64 rows a warpgroup");

  spc_u32 word[words] = {};

  // A lane's two columns from `lane_column` on of the eight at `column`: `halves` has a bit set in the lower or
  // upper half where one of its rows holds a non-zero.  `inside`: columns of the part that the result has.
  __device__ __forceinline__ void note(int column, int lane_column, int inside, spc_u32 halves) {
    bool low = halves & 0xffff, high = halves >> 16;
    if (gran > 1) { // of a micro-tile that reaches over the edge
      low = low && column + lane_column < inside;
      high = high && column + lane_column + 1 < inside;
    }
    int first = column % span + lane_column;
    word[column / span] |= (low ? 1u : 0u) << first / gran | (high ? 1u : 0u) << (first + 1) / gran;
  }
  __device__ __forceinline__ void step(const spc_u32 *, int, int, int, const spc_tile_place &) {}
  SPC_DEVICE spc_u32 *room(spc_u32 shared, int parity) {
    return (spc_u32 *)__cvta_shared_to_generic(shared) + parity * warps * words;
  }
  // Warps leave their words side by side, as soon as the columns [begin, end) of a part complete them.
  __device__ __forceinline__ void leave(spc_u32 *all, int begin, int end) {
    int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x / 32;
#pragma unroll
    for (int w = begin / span; w < end / span; w++) {
      spc_u32 bits = ptx_any_bits(word[w]);
      if (lane == 0) all[warp * words + w] = bits;
    }
  }
  // The first warp of a strip in each column part or's the strip's words and stores them.
  __device__ __forceinline__ void finish(spc_u32 *all, const spc_tile_place &place, const spc_args &args) {
    int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x / 32;
    const int high = strip / 16; // warps of a strip
    if (strip > 64) ptx_sync_workers<Config::workers>();
    else ptx_sync_group(warp / 4);
    int row = sums::group_row() + warp % 4 * 16, column = sums::group_column();
    if (row % strip == 0 && lane < words && place.m0 + row < place.m && place.n0 + column + lane * span < place.n) {
      spc_u32 bits = 0;
#pragma unroll
      for (int i = 0; i < high; i++) bits |= all[(warp + i % 4 + i / 4 * 4 * Config::warps_n) * words + lane];
      int left = (place.n - place.n0 - column - lane * span + gran - 1) / gran; // micro-tiles
      if (left < 32) bits &= (1u << left) - 1;
      long long strip_at = (place.m0 + row) / strip, word_at = (place.n0 + column) / span + lane;
      Config::bits(args)[strip_at * (long long)Config::bit_words(args) + word_at] = bits;
    }
  }
};

// Strips of 8 rows, bits of single columns.  A warp's step is 16 rows x 16 columns, so two strips have half a word of it each: a bit is a column's, or
// where strips lie along n (`detect_across`: the product is turned) a row's.  All are told together, while the engine stores the result.
template <class Config> struct spc_box_detect<Config, true, true> : spc_box_detect<Config, false, false> {
  using sums = spc_wgmma_sums<Config>;
  static constexpr int steps = sums::columns / 16;
  static_assert(Config::detect_gran == 1 && sums::columns % 16 == 0 && sums::blocks == 1 && steps <= 16 && sizeof(typename Config::T) == 2,
                "a step is two strips, or half a word; a lane stores one of each");
  spc_u32 found[steps] = {}; // this lane's

  // m, n: of the lane's first pair; of a step four.
  __device__ __forceinline__ void step(const spc_u32 *packed, int part, int m, int n, const spc_tile_place &place) {
    const int lane = (int)threadIdx.x & 31, g = lane / 4, t = lane % 4;
    spc_u32 here = 0;
#pragma unroll
    for (int p = 0; p < 4; p++) {
      const int row = m + p % 2 * 8, column = n + p / 2 * 8;
      const bool low = packed[p] & 0x7fff, high = packed[p] & 0x7fff0000; // -0 is zero
      if constexpr (Config::detect_across) here |= ((low && column < place.n) || (high && column + 1 < place.n) ? 1u : 0u) << (p / 2 * 16 + p % 2 * 8 + g);
      else here |= row < place.m ? ((low ? 1u : 0u) | (high ? 2u : 0u)) << (p % 2 * 16 + p / 2 * 8 + 2 * t) : 0;
    }
    found[part / 16] = here;
  }
  __device__ __forceinline__ void finish(spc_u32 *, const spc_tile_place &place, const spc_args &args) const {
    const int lane = (int)threadIdx.x & 31, at = lane / 2;
    const int row = place.m0 + sums::group_row() + (int)threadIdx.x / 32 % 4 * 16, column = place.n0 + sums::group_column() + at * 16; // of this lane's step
    spc_u32 both = 0;
#pragma unroll
    for (int i = 0; i < steps; i++) {
      const spc_u32 all = ptx_any_bits(found[i]);
      both = at == i ? all : both;
    }
    const int strip = (Config::detect_across ? column : row) / 8 + lane % 2, first = Config::detect_across ? row : column;
    const int left = (Config::detect_across ? place.m : place.n) - first, rows = Config::detect_across ? place.n : place.m;
    const spc_u32 bits = both >> lane % 2 * 16 & (left >= 16 ? 0xffffu : left > 0 ? (1u << left) - 1 : 0u);
    if (at >= steps || left <= 0 || strip * 8 >= rows) return;
    spc_u32 *words = Config::bits(args) + strip * (long long)Config::bit_words(args);
    if (left <= 16 && first % 32 == 0) words[first / 32] = bits; // the last word has no other half
    else ((unsigned short *)words)[first / 16] = (unsigned short)bits;
  }
};

// Two neighbours, stored at once.
template <class T> struct alignas(2 * sizeof(T)) spc_pair { T at[2]; };

// What a thread fetches from the result's own place for the 64 x 64 elements of a box: its pairs, in the order of the sums.
template <class Config, bool Fetches = Config::fetches> struct spc_box_fetch {
  __device__ __forceinline__ void ask(int, int, const spc_tile_place &, const spc_args &) {}
  __device__ __forceinline__ float operator[](int) const { return 0; }
};
template <class Config> struct spc_box_fetch<Config, true> {
  using F = typename Config::F;
  float at[32];
  __device__ __forceinline__ float operator[](int i) const { return at[i]; }
  // m, n: this lane's first element.  Rows and columns outside are read as the last ones inside.
  __device__ __forceinline__ void ask(int m, int n, const spc_tile_place &place, const spc_args &args) {
    long long pitch = Config::pitch_t(args), matrix = Config::t(args, place.batch) - Config::t(args, 0);
    const F *row[2];
#pragma unroll
    for (int h = 0; h < 2; h++) row[h] = Config::fetched(args) + matrix + min(m + h * 8, place.m - 1) * pitch;
    if ((((spc_u64)row[0] | (spc_u64)row[1]) & (2 * sizeof(F) - 1)) == 0) {
#pragma unroll
      for (int i = 0; i < 16; i++) {
        spc_pair<F> pair = *(const spc_pair<F> *)(row[i % 2] + min(n + i / 2 * 8, place.n - 2));
        at[2 * i] = spc_get(pair.at[0]), at[2 * i + 1] = spc_get(pair.at[1]);
      }
    } else {
#pragma unroll
      for (int i = 0; i < 32; i++) at[i] = spc_get(row[i / 2 % 2][min(n + i / 4 * 8 + i % 2, place.n - 1)]);
    }
  }
};

// A box of a result that is stored in blocks: how many of its columns are the matrix's, and where it lies.
template <class Config, bool Stored = Config::sdd> struct spc_stored_box {
  __device__ __forceinline__ spc_stored_box(const spc_args &, const spc_tile_place &, int) {}
  __device__ __forceinline__ int column(int at, int) const { return at; } // as the place counts, and in the box
  __device__ __forceinline__ void give(int, int, spc_brought (&)[2]) const {}
};
template <class Config> struct spc_stored_box<Config, true> {
  int inside, begin;
  long long first; // of the block's row 0, in the box's first column
  __device__ __forceinline__ spc_stored_box(const spc_args &args, const spc_tile_place &place, int at)
      : begin(spc_box_column_at<Config>(args, place, at)), first(0) {
    inside = (int)Config::n(args) - begin;
    if constexpr (Config::fragment_reads) first = spc_sdd_at<Config>(args, place, 0, min(at, place.n - spc_block_columns));
  }
  __device__ __forceinline__ int column(int, int within) const { return begin + within; }
  __device__ __forceinline__ void give(int m, int column, spc_brought (&to)[2]) const {
    if constexpr (Config::fragment_reads)
      for (int i = 0; i < 2; i++) to[i].place = first + (long long)(m % Config::strip) * Config::gran + column + i;
  }
};

// What lies at the result's place is brought to where the values are staged: as many boxes as there is room for, the others to slots.
template <class Config> constexpr bool spc_stages_place = Config::reads_place && Config::stages_place && !Config::turns;
// Bytes of which only is asked whether they are zero wait there all at once, and each thread notes while it multiplies what they choose: the room is
// free then when the values come.  To choose by a bit of each takes two instructions an element, 0.6 us a tile of 128 x 256; so both values of a pair
// are made, of which one is mostly a constant, and one instruction takes the bytes of either.
template <class Config> constexpr bool spc_stages_flags = spc_stages_place<Config> && Config::stages_flags;
template <class Config, bool Stages = spc_stages_flags<Config>> struct spc_box_flags {};
template <class Config> struct spc_box_flags<Config, true> {
  spc_u32 of[8]; // of eights of columns: nibbles for the lane's pair in its first row, and in the one 8 rows on (ptx_permute)
};
template <class Config, bool Stages = spc_stages_flags<Config>> struct spc_place_flags {
  __device__ __forceinline__ spc_box_flags<Config> next() { return {}; }
};
template <class Config> struct spc_place_flags<Config, true> {
  using sums = spc_wgmma_sums<Config>;
  static constexpr int boxes = sums::blocks * ((sums::columns + 63) / 64);
  spc_box_flags<Config> box[boxes]; // of 64 x 64
  // The others move down, for registers have no numbers.
  __device__ __forceinline__ spc_box_flags<Config> next() {
    const spc_box_flags<Config> first = box[0];
#pragma unroll
    for (int b = 0; b + 1 < boxes; b++) box[b] = box[b + 1];
    return first;
  }
};
// Where warpgroups take turns each brings its own tile's: as many boxes as are staged before it multiplies, another into each that it has stored.
template <class Config> constexpr bool spc_refills_place = Config::reads_place && Config::turns;

// What an epilogue is given besides the sums.
template <class Config> struct spc_box_epilogue {
  const spc_args &args;
  spc_tile_place place;
  spc_box_batch batch;
  int parity; // of the tile's number among the block's
  spc_u32 vectors_at; // shared memory
  bool all;           // rows are taken as they lie
  spc_u32 boxes;      // bits: of a tile that blocks share those that are this one's (of in_place this warp's)
  __device__ __forceinline__ bool has(int box) const { return Config::share_units == 0 || (boxes >> box & 1); }
  spc_vectors<Config> vectors;
  spc_place_window<Config> window;
  spc_place_flags<Config> flags;
  __device__ __forceinline__ spc_u32 window_at() const { return vectors_at + spc_vectors<Config>::bytes; }
};

// What a lane's columns of a box are brought: asked for at once, since its steps are stored one after the other, and no load passes a store.
template <class Config> struct spc_box_columns {
  static constexpr bool ahead = Config::columns_read == 1 && !Config::turns;
  float2 at[ahead ? 8 : 1];
  __device__ __forceinline__ spc_box_columns(const spc_box_epilogue<Config> &e, int part, int count) {
    if constexpr (ahead)
#pragma unroll
      for (int j = 0; j < count; j++) at[j] = e.vectors.column_pair(e.vectors_at, 0, part + j * 8);
  }
  // part: of the group; which: eights of columns in the box.
  __device__ __forceinline__ void give(const spc_box_epilogue<Config> &e, int part, int which, int half, spc_brought (&to)[2]) const {
    if constexpr (ahead) {
      to[0].column[0] = at[which].x, to[1].column[0] = at[which].y;
      e.vectors.give_rows(half, to);
    } else {
      e.vectors.give(e.vectors_at, part, half, to);
    }
  }
};

// ---- boxes ----------------------------------------------------------------------------------------------------
template <class Config> struct spc_box_store {
  using T = typename Config::T;
  using sums = spc_wgmma_sums<Config>;
  static constexpr bool by_rows = Config::layout_t == 'r';
  // By the engine where pairs of 2-byte elements fill boxes; two-byte rows of 8 columns are too short for one.
  static constexpr bool by_engine = sizeof(T) == 2 && (!by_rows || sums::columns % 16 == 0);
  static constexpr int columns = sums::columns, share = columns >= 64 ? 64 : columns >= 32 ? 32 : columns >= 16 ? 16 : 8;
  static constexpr int wide = by_rows ? share : 64, tall = by_rows ? 64 : share; // of a box, in elements
  using panel = spc_panel<T, tall, wide>;
  static constexpr int boxes_wide = (columns + share - 1) / share, boxes = sums::blocks * boxes_wide; // of a warpgroup
  static constexpr int groups = Config::workers / 128, sharing = Config::turns ? 1 : groups; // that share a tile
  static constexpr int held = !by_engine ? 0 : Config::store_boxes < boxes ? Config::store_boxes : boxes;
  static constexpr int staged_bytes = Config::in_place ? Config::workers / 32 * spc_place_image<Config>::bytes : groups * held * panel::bytes;
  static_assert(!by_engine || panel::bytes % 1024 == 0, "a staged box must start at a multiple of 1024");
  static_assert(!Config::samples || (by_engine && by_rows == Config::in_place), "listed columns are stored by box, each contiguous, or at their places");
  static_assert(!Config::in_place || (share == 64 && columns % 64 == 0 && sums::blocks == 1 && !Config::reads_place && !Config::detects && !Config::fetches),
                "columns go to their places by a warp's sixteen rows, sixteen at a time");

  // ---- what is read at the result's own place: boxes of the same shape, box number major, group minor ----
  static constexpr int slot_bytes = spc_boxes<Config>::least_bytes;
  static constexpr int place_bytes = wide * tall * (int)sizeof(typename Config::P);
  static constexpr int slot_boxes = slot_bytes / (sharing * place_bytes); // of each group, in one slot
  static constexpr int places_staged = spc_refills_place<Config> || spc_stages_flags<Config> ? boxes : spc_stages_place<Config> ? held : 0; // of each group, where the values go: the first
  static constexpr int place_slots = slot_boxes ? (boxes - places_staged + slot_boxes - 1) / slot_boxes : 0;
  static constexpr int together = spc_refills_place<Config> ? 1 : places_staged == boxes && boxes > 2 && !spc_stages_flags<Config> ? 2 : held; // boxes that are stored at once
  static_assert(!Config::reads_place || (by_engine && (slot_boxes > 0 || places_staged == boxes)), "a slot must hold a box of every warpgroup");
  static_assert(!Config::reads_place || sizeof(typename Config::P) == 2 || (wide == 64 && tall == 64),
                "bytes are read from boxes of 64 x 64");
  static constexpr bool whole = !Config::fragment_reads; // or as good as: nothing is read outside
  static constexpr bool moves_rows = Config::regroups || Config::grouped; // a box of the engine would reach over their end
  static_assert(!moves_rows || !by_engine || (by_rows && share == 64 && sums::blocks == 1 && columns % 64 == 0 && boxes % held == 0),
                "rows of the result go one by one, 128 bytes at a time");
  static_assert(!Config::n_blocks || (by_engine && by_rows && share == spc_block_columns && columns % 64 == 0),
                "listed columns go back to their places in boxes of 64");

  // Where box number i of a group starts in the tile.
  SPC_DEVICE int box_row(int group, int i) { return (Config::turns ? 0 : group / Config::warps_n * sums::rows) + i / boxes_wide * 64; }
  SPC_DEVICE constexpr int box_part(int i) { return i % boxes_wide * share < columns - share ? i % boxes_wide * share : columns - share; } // of the group
  SPC_DEVICE int box_column(int group, int i) { return (Config::turns ? 0 : group % Config::warps_n * columns) + box_part(i); }
  SPC_DEVICE int box_n(const spc_args &args, const spc_tile_place &p, int group, int i) {
    return spc_box_column_at<Config>(args, p, p.n0 + box_column(group, i));
  }
  SPC_DEVICE int box_x(const spc_args &args, const spc_tile_place &p, int group, int i) {
    if constexpr (Config::sdd) { // in the matrix of all blocks; past the last one outside
      int at = p.n0 + box_column(group, i);
      return at < p.n ? at % Config::gran : Config::gran;
    }
    return by_rows ? box_n(args, p, group, i) : p.m0 + box_row(group, i);
  }
  SPC_DEVICE int box_y(const spc_args &args, const spc_tile_place &p, int group, int i) {
    if constexpr (Config::sdd) return (int)(spc_sdd_at<Config>(args, p, p.m0 + box_row(group, i), p.n0 + box_column(group, i)) / Config::gran);
    return by_rows ? p.m0 + box_row(group, i) : box_n(args, p, group, i);
  }
  SPC_DEVICE void load_place(int number, spc_u32 slot, const spc_tensor_map *map, spc_u32 full, const spc_args &args,
                             const spc_tile_place &place, spc_box_batch batch) {
    int first = places_staged + number * slot_boxes, count = min(slot_boxes, boxes - first);
    ptx_barrier_expect(full, count * sharing * place_bytes);
#pragma unroll 1
    for (int i = 0; i < count * sharing; i++)
      ptx_tma_load<Config::batches_mapped>(slot + i * place_bytes, map, full,
                                           box_x(args, place, i % sharing, first + i / sharing),
                                           box_y(args, place, i % sharing, first + i / sharing), batch);
  }

  // A barrier a staged box, of each group.  By the group's first thread, which started the store that has left the box.
  template <class Ring> SPC_DEVICE spc_u32 refilled(spc_u32 shared, int i) { return Ring::place_full(shared) + (sums::group() * held + i % held) * 8; }
  template <class Ring>
  SPC_DEVICE void refill(spc_u32 shared, const spc_tensor_map *map, int i, const spc_box_epilogue<Config> &e) {
    const int group = sums::group();
    const spc_u32 full = refilled<Ring>(shared, i), box = shared + Ring::staged_at + (group * held + i % held) * panel::bytes;
    ptx_barrier_expect(full, panel::bytes);
    ptx_tma_load<Config::batches_mapped>(box, map, full, box_x(e.args, e.place, group, i), box_y(e.args, e.place, group, i), e.batch);
  }
  template <class Ring> SPC_DEVICE void fill(spc_u32 shared, const spc_tensor_map *map, const spc_box_epilogue<Config> &e) {
    static_assert(boxes % held == 0, "each staged box is filled as often");
    ptx_tma_store_wait_read<0>();
#pragma unroll 1
    for (int i = 0; i < held; i++) refill<Ring>(shared, map, i, e);
  }

  static_assert(spc_stages_flags<Config> || !(spc_stages_place<Config> || spc_refills_place<Config>) || sizeof(typename Config::P) == 2, "what is staged is replaced by as many bytes");
  static_assert(!spc_stages_flags<Config> || (sizeof(typename Config::P) == 1 && by_rows && share == 64 && boxes * place_bytes <= held * panel::bytes), "bytes of a whole tile wait in boxes of 64 x 64");
  static constexpr int staged_place_bytes = spc_stages_flags<Config> ? place_bytes : panel::bytes; // of a box
  SPC_DEVICE void load_staged(spc_u32 staged, const spc_tensor_map *map, spc_u32 full, const spc_args &args, const spc_tile_place &place,
                              spc_box_batch batch) {
    ptx_barrier_expect(full, places_staged * groups * staged_place_bytes);
#pragma unroll 1
    for (int i = 0; i < places_staged * groups; i++)
      ptx_tma_load<Config::batches_mapped>(staged + i % groups * held * panel::bytes + i / groups * staged_place_bytes, map, full,
                                           box_x(args, place, i % groups, i / groups), box_y(args, place, i % groups, i / groups), batch);
  }

  // ---- one step of 16 columns ----
  // The lane's address in a box: of matrix q = lane / 8, row lane % 8; rows of a box are n where it is transposed.
  SPC_DEVICE spc_u32 matrix_at(spc_u32 box, int step) {
    int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x / 32 % 4;
    int row = by_rows ? warp * 16 + (lane & 15) : step * 16 + (lane >> 4) * 8 + (lane & 7);
    return box + panel::chunk_at(row, by_rows ? step * 2 + (lane >> 4) : warp * 2 + (lane >> 3 & 1));
  }
  // A step's elements at the result's place: pairs of one row, in the order of the sums.
  SPC_DEVICE void load_here(spc_u32 (&here)[4], spc_u32 box, int step) {
    if constexpr (sizeof(typename Config::P) == 1) {
      int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x / 32 % 4;
#pragma unroll
      for (int p = 0; p < 4; p++) {
        int row = warp * 16 + lane / 4 + p % 2 * 8, column = step * 16 + p / 2 * 8 + lane % 4 * 2;
        here[p] = by_rows ? ptx_load_shared_16(box + byte_at(row, column))
                          : ptx_load_shared_8(box + byte_at(column, row)) |
                                ptx_load_shared_8(box + byte_at(column + 1, row)) << 8;
      }
    } else if constexpr (by_rows) {
      ptx_load_matrix(here, matrix_at(box, step));
    } else {
      ptx_load_matrix_transposed(here, matrix_at(box, step));
    }
  }
  // A lane's of the next box: those of the others move down, so that in the end each has its place.
  SPC_DEVICE void note_flags(spc_u32 staged, int box, spc_place_flags<Config> &flags) {
    const int lane = (int)threadIdx.x & 31, row = (int)threadIdx.x / 32 % 4 * 16 + lane / 4;
    const spc_u32 from = staged + sums::group() * held * panel::bytes + box * place_bytes;
    flags.next();
#pragma unroll
    for (int j = 0; j < 8; j++) {
      const int column = j * 8 + lane % 4 * 2;
      const spc_u32 four = ptx_load_shared_16(from + byte_at(row, column)) | ptx_load_shared_16(from + byte_at(row + 8, column)) << 16;
      const spc_u32 zero = ~(((four & 0x7f7f7f7fu) + 0x7f7f7f7fu) | four) & 0x80808080u; // a byte's highest bit
      flags.box[boxes - 1].of[j] = 0x32103210u | zero >> 1 | zero >> 5; // 4 more: the other pair's bytes
    }
  }
  // In a box of 64 x 64 bytes: the engine's swizzle of rows of 64.
  SPC_DEVICE int byte_at(int row, int column) { return row * 64 + (column / 16 ^ row / 2 % 4) * 16 + column % 16; }
  // Sums to values: the fragment, and nothing outside the result counts as found.  v: sums of a step; part, block:
  // where it starts in the warpgroup's part of the tile, `within` in the box.
  template <bool Whole, class Found>
  SPC_DEVICE void values(const typename sums::Sum *v, int steps8, int block, int part, int within, const spc_u32 *here,
                         const spc_box_fetch<Config> &fetched, spc_u32 *packed, const spc_box_epilogue<Config> &e, Found &found,
                         const spc_stored_box<Config> &stored, const spc_box_columns<Config> &columns_of, const spc_box_flags<Config> &flags = {}) {
    int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x / 32 % 4;
    int m = e.place.m0 + sums::group_row() + block * 64 + warp * 16 + lane / 4;
    int n = e.place.n0 + sums::group_column() + part + lane % 4 * 2;
    const int row[2] = {row_of<Whole>(m, e), row_of<Whole>(m + 8, e)};
    spc_u32 rows = 0;
#pragma unroll
    for (int p = 0; p < 2 * steps8; p++) {
      spc_brought brought[2];
      columns_of.give(e, part + p / 2 * 8 + lane % 4 * 2, within / 8 + p / 2, block * 2 + p % 2, brought);
      if constexpr (spc_stages_flags<Config>)
        for (int i = 0; i < 2; i++) brought[i].here = 1;
      else if constexpr (Config::reads_place)
        for (int i = 0; i < 2; i++) brought[i].here = spc_unpack<typename Config::P>(here[p], i);
      if constexpr (Config::fetches)
        for (int i = 0; i < 2; i++) brought[i].fetched = fetched[within / 2 + 2 * p + i];
      stored.give(p % 2 ? m + 8 : m, within + p / 2 * 8 + lane % 4 * 2, brought);
      const int column = stored.column(n + p / 2 * 8, within + p / 2 * 8 + lane % 4 * 2);
      auto low = value<Whole>(v[2 * p], row[p % 2], column, brought[0], e);
      auto high = value<Whole>(v[2 * p + 1], row[p % 2], column + 1, brought[1], e);
      packed[p] = spc_pack(low, high, T());
      if constexpr (spc_stages_flags<Config>) {
        for (int i = 0; i < 2; i++) brought[i].here = 0;
        const spc_u32 others = spc_pack(value<Whole>(v[2 * p], row[p % 2], column, brought[0], e), value<Whole>(v[2 * p + 1], row[p % 2], column + 1, brought[1], e), T());
        packed[p] = ptx_permute(packed[p], others, flags.of[within / 8 + p / 2] >> p % 2 * 16);
      }
      if constexpr (Config::samples && !Config::in_place) packed[p] &= listed_halves(n + p / 2 * 8, e.place.n);
      if constexpr (Config::sdd) packed[p] &= (p % 2 ? m + 8 : m) < e.place.m ? listed_halves(within + p / 2 * 8 + lane % 4 * 2, stored.inside) : 0;
      rows |= (p % 2 ? m + 8 : m) < e.place.m ? packed[p] : 0;
      if (p % 2) { // -0 is zero
        found.note(part + p / 2 * 8, lane % 4 * 2, e.place.n - e.place.n0 - sums::group_column(), rows & 0x7fff7fff);
        rows = 0;
      }
    }
    if constexpr (spc_detects_steps<Config>()) static_assert(share >= 16, "a step has 16 columns");
    found.step(packed, part, m, n, e.place);
  }
  // Where the fragment reads for itself, places outside (a tile reaches over the edge) are computed as their neighbour
  // inside.  row: the result's, of place m.
  template <bool Whole> SPC_DEVICE int row_of(int m, const spc_box_epilogue<Config> &e) {
    return Whole && !Config::regroups ? m : spc_row_at<Config>(e.args, min(m, e.place.m - 1), e.all);
  }
  template <bool Whole>
  SPC_DEVICE auto value(typename sums::Sum sum, int row, int n, const spc_brought &brought, const spc_box_epilogue<Config> &e) {
    int at_n = Whole ? n : min(n, Config::sdd ? (int)Config::n(e.args) - 1 : e.place.n - 1);
    return Config::epilogue(e.args, sum, row, Config::sdd ? at_n : spc_column<Config>(e.args, e.place, at_n), e.place.batch, brought);
  }
  // Of two neighbours the halves that are on the list; what is past it is zero, for its readers' last k tile.
  SPC_DEVICE spc_u32 listed_halves(int n, int end) { return (n < end ? 0xffffu : 0) | (n + 1 < end ? 0xffff0000u : 0); }
  template <bool Whole, class Found>
  SPC_DEVICE void stage_box(const typename sums::Sum *v, spc_u32 box, spc_u32 here_box, int block, int part,
                            const spc_box_epilogue<Config> &e, Found &found, const spc_box_flags<Config> &flags) {
    spc_box_fetch<Config> fetched;
    const spc_stored_box<Config> stored(e.args, e.place, e.place.n0 + sums::group_column() + part);
    const spc_box_columns<Config> columns_of(e, part + (int)threadIdx.x % 4 * 2, share / 8);
    if constexpr (Config::fetches) {
      static_assert(by_engine && by_rows && share == 64 && columns % 64 == 0, "what is fetched goes into boxes of 64 x 64");
      int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x / 32 % 4;
      fetched.ask(e.place.m0 + sums::group_row() + block * 64 + warp * 16 + lane / 4,
                  e.place.n0 + sums::group_column() + part + lane % 4 * 2, e.place, e.args);
    }
    if constexpr (share == 8) {
      spc_u32 packed[2], here[2];
      if constexpr (Config::reads_place) ptx_load_half_matrix_transposed(matrix_at(here_box, 0), here[0], here[1]);
      values<Whole>(v, 1, block, part, 0, here, fetched, packed, e, found, stored, columns_of);
      ptx_store_half_matrix_transposed(matrix_at(box, 0), packed[0], packed[1]);
    } else {
      const bool ahead = !Config::turns && !spc_stages_flags<Config>; // where warpgroups take turns there are no registers left, and time enough
      spc_u32 here[ahead ? share / 16 : 1][4];
      if constexpr (Config::reads_place && ahead)
#pragma unroll
        for (int step = 0; step < share / 16; step++) load_here(here[step], here_box, step);
#pragma unroll
      for (int step = 0; step < share / 16; step++) {
        spc_u32 packed[4];
        if constexpr (Config::reads_place && !ahead && !spc_stages_flags<Config>) load_here(here[0], here_box, step);
        values<Whole>(v + step * 8, 2, block, part + step * 16, step * 16, here[ahead ? step : 0], fetched, packed, e, found, stored, columns_of, flags);
        if constexpr (by_rows) ptx_store_matrix(matrix_at(box, step), packed);
        else ptx_store_matrix_transposed(matrix_at(box, step), packed);
        // A fragment's own loads run a step ahead at most, or two: registers.  The assembler heeds a real barrier only.
        if (Config::fragment_reads && ((!Whole && !Config::grouped) || step % 2)) __syncwarp();
      }
    }
  }

  // ---- a whole part ----
  template <class Ring>
  SPC_DEVICE void run(sums &all, spc_u32 shared, Ring &at, const spc_box_epilogue<Config> &e,
                      const spc_tensor_maps &maps) {
    spc_box_detect<Config> found;
    spc_u32 *room = found.room(shared + Ring::words_at, e.parity);
    e.vectors.leave(e.vectors_at);
    e.window.leave(e.window_at());
    if constexpr (!by_engine) run_registers(all, e, found, room);
    else if constexpr (Config::in_place) run_in_place<whole>(all, shared + Ring::staged_at, e, found);
    else run_boxes<whole>(all, shared, at, e, maps, found, room);
    found.finish(room, e.place, e.args);
  }
  // ---- box by box ----
  // What a fragment makes of many elements is most of the text there is to compile.  Where that would be much it stands once, for the
  // box whose sums come first: the others' move up behind it, for registers have no numbers.
  static constexpr int piece = by_engine ? share : columns % 64 == 0 ? 64 : columns % 32 == 0 ? 32 : 8; // columns that are gone through at a time
  static constexpr bool much = Config::fetches || Config::fragment_reads || (Config::samples && !Config::reads_place) || (Config::n_blocks && Config::narrow == 0) ||
                               (Config::regroups && !Config::live) || (!by_engine && !Config::grouped);
  static constexpr bool once = much && !Config::detects && columns > piece && columns % piece == 0;
  // Calls use(sums, block, number) for all pieces.
  template <class Use> SPC_DEVICE void each_piece(sums &all, Use use) {
    const int wide = (columns + piece - 1) / piece;
#pragma unroll
    for (int b = 0; b < sums::blocks; b++) {
      if constexpr (once) {
#pragma unroll 1
        for (int i = 0; i < wide; i++) {
          use(all.sum[b], b, b * wide + i);
#pragma unroll
          for (int j = 0; j < sums::count - piece / 2; j++) all.sum[b][j] = all.sum[b][j + piece / 2];
        }
      } else {
#pragma unroll
        for (int i = 0; i < wide; i++) use(all.sum[b] + (by_engine ? box_part(i) : i * piece) / 2, b, b * wide + i);
      }
    }
  }
  // Where what is read at the place is staged a warp replaces what it has read; who multiplies the next tile says when the boxes are
  // free (spc_box_multiply).
  template <bool Whole, class Ring, class Found>
  SPC_DEVICE void run_boxes(sums &all, spc_u32 shared, Ring &at, const spc_box_epilogue<Config> &e,
                            const spc_tensor_maps &maps, Found &found, spc_u32 *room) {
    const int group = sums::group();
    spc_u32 staged = shared + Ring::staged_at + group * held * panel::bytes;
    Ring now = at; // the slot of the box that is read; `at` is the first that is not given back
    const int inside = e.place.n - e.place.n0 - sums::group_column(); // columns; of some lists nobody reads what lies behind
    spc_row_store<Config, panel> rows;
    spc_place_flags<Config> flags = e.flags;
    if (moves_rows && !e.all) rows.look(e.args, e.place, box_row(group, 0));
    each_piece(all, [&](const typename sums::Sum *v, int block, int i) {
      const int i0 = i / together * together, read = i - places_staged; // number of those that are read from slots
      const spc_u32 box = staged + i % held * panel::bytes;
      if constexpr (spc_refills_place<Config>) {
        if (i == 0) ptx_sync_group(group); // the vectors are there
        ptx_barrier_wait(refilled<Ring>(shared, i), (e.parity * (boxes / held) + i / held) & 1);
      } else if (!spc_stages_flags<Config> && i < places_staged) {
        if (i == 0) {
          ptx_sync_group(group); // the vectors are there
          ptx_barrier_wait(Ring::place_full(shared), e.parity);
        }
      } else if (i % held == 0) {
        if (spc_leads_group()) ptx_tma_store_wait_read<0>();
        ptx_sync_group(group);
      }
      spc_u32 here = box;
      const spc_box_flags<Config> chosen = flags.next();
      if constexpr (Config::reads_place && place_slots > 0)
        if (read >= 0) {
          if (read % slot_boxes == 0) {
            if (read > 0) now.advance();
            ptx_barrier_wait(Ring::full(shared, now.slot), now.phase);
          }
          here = shared + now.slot * now.sizes.bytes() + (read % slot_boxes * sharing + (Config::turns ? 0 : group)) * place_bytes;
        }
      if (((Config::narrow == 0 && !Config::fills) || box_part(i) < inside) && e.has(i)) stage_box<Whole>(v, box, here, block, box_part(i), e, found, chosen);
      if (places_staged > 0 && !spc_stages_flags<Config>) __syncwarp(); // the assembler would read what lies at all places first
      found.leave(room, i * share, min((i + 1) * share, columns)); // one block of rows: boxes lie side by side
      if (i + 1 < boxes && i + 1 < i0 + together) return;
      ptx_fence_async_shared();
      ptx_sync_group(group);
      if (moves_rows && !e.all) {
        rows.template store<held>(e.args, e.place, staged, e.place.n0 + box_column(group, i0));
      } else if (spc_leads_group()) {
#pragma unroll
        for (int j = 0; j < together; j++)
          if (i0 + j < boxes && (!Config::fills || box_part(i0 + j) < inside) && e.has(i0 + j))
            ptx_tma_store<Config::batches_mapped>(&maps.map[2], staged + (i0 + j) % held * panel::bytes, box_x(e.args, e.place, group, i0 + j),
                                                  box_y(e.args, e.place, group, i0 + j), e.batch);
        ptx_tma_store_commit();
        if constexpr (spc_refills_place<Config>)
          if (i + held < boxes) {
            ptx_tma_store_wait_read<0>();
            refill<Ring>(shared, &maps.map[3], i + held, e);
          }
      }
      if constexpr (Config::reads_place && place_slots > 0) {
        bool gives = Ring::gives();
        int from = i0 - places_staged, done = i0 + together >= boxes ? place_slots : (from + together) / slot_boxes;
#pragma unroll
        for (int slot = from > 0 ? from / slot_boxes : 0; slot < done; slot++, at.advance())
          if (gives) ptx_barrier_arrive(Ring::empty(shared, at.slot));
      }
    });
  }
  // Listed columns of a whole result, a warp's sixteen rows of them at a time (inplace.cuh).
  template <bool Whole, class Found>
  SPC_DEVICE void run_in_place(sums &all, spc_u32 images, const spc_box_epilogue<Config> &e, Found &found) {
    const int lane = (int)threadIdx.x & 31, row = e.place.m0 + sums::group_row() + (int)threadIdx.x / 32 % 4 * 16, inside = e.place.n - e.place.n0 - sums::group_column();
    ptx_sync_group(sums::group()); // the vectors are there, and which columns these are
    const int begin = Config::share_units == 0 || e.boxes & 1 ? 0 : e.boxes ? (__ffs((int)e.boxes) - 1) * share : columns; // boxes follow one another
    const int end = min(inside, e.has(31) || !e.boxes ? columns : (32 - __clz((int)e.boxes)) * share);
    spc_place_image<Config> image(e.args, images, e.window_at(), begin, end, row, e.place.m);
    each_piece(all, [&](const typename sums::Sum *v, int block, int i) {
      const int part = box_part(i);
      if (part >= inside || !e.has(i)) return;
      const spc_box_columns<Config> columns_of(e, part + lane % 4 * 2, share / 8);
      spc_u32 packed[4][4], here[4];
#pragma unroll
      for (int step = 0; step < 4; step++) values<Whole>(v + step * 8, 2, block, part + step * 16, step * 16, here, {}, packed[step], e, found, {e.args, e.place, 0}, columns_of);
      if (e.window.partial > 0) image.keep(packed, part);
      image.box(packed, part);
    });
    ptx_sync_group(sums::group()); // before the next tile's columns are left
  }
  template <class Found>
  SPC_DEVICE void run_registers(sums &all, const spc_box_epilogue<Config> &e, Found &found, spc_u32 *room) {
    int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x / 32 % 4;
    long long pitch = Config::pitch_t(e.args);
    T *to = Config::t(e.args, e.place.batch);
    static_assert(!spc_detects_steps<Config>(), "bits of a step are made where it is staged");
    bool pairs = by_rows && (((spc_u64)to | (spc_u64)pitch * sizeof(T)) & (2 * sizeof(T) - 1)) == 0;
    ptx_sync_group(sums::group()); // the vectors are there
    each_piece(all, [&](const typename sums::Sum *v, int b, int number) {
      if (!e.has(number * piece / 64)) return;
#pragma unroll
      for (int i = 0; i < piece / 2; i += 2) {
        int part = number % (columns / piece) * piece + i / 4 * 8, m = e.place.m0 + sums::group_row() + b * 64 + warp * 16 + lane / 4 + i % 4 / 2 * 8;
        int n = e.place.n0 + sums::group_column() + part + lane % 4 * 2;
        spc_brought brought[2];
        e.vectors.give(e.vectors_at, part + lane % 4 * 2, b * 2 + i % 4 / 2, brought);
        int at_m = row_of<whole>(m, e);
        T low = spc_put_as<T>::from(value<whole>(v[i], at_m, n, brought[0], e));
        T high = spc_put_as<T>::from(value<whole>(v[i + 1], at_m, n + 1, brought[1], e));
        if (m < e.place.m)
          found.note(part, lane % 4 * 2, e.place.n - e.place.n0 - sums::group_column(),
                     (spc_get(low) != 0 ? 1 : 0) | (spc_get(high) != 0 ? 0x10000 : 0));
        int row = Config::regroups ? spc_row_at<Config>(e.args, min(m, e.place.m - 1), e.all) : m;
        T *at = to + (by_rows ? row * pitch + n : n * pitch + row);
        int inside = m < e.place.m ? e.place.n - n : 0; // columns from here on
        if (pairs && inside > 1) {
          *(spc_pair<T> *)at = {{low, high}};
        } else if (inside > 0) {
          at[0] = low;
          if (inside > 1) at[by_rows ? 1 : pitch] = high;
        }
        if (i % 4 == 2) found.leave(room, part, part + 8);
        if (i % 16 == 14) asm volatile("" ::: "memory");
      }
    });
    ptx_sync_group(sums::group()); // and are read
  }
};
