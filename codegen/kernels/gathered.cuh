// gathered.cuh - the loading warpgroup of a persistent kernel whose k's a list names (sread): one list, both operands.
//
// Rows of A[k][m] and B[k][n] go by cp.async into the slabs that boxes.cuh lays out: 64 elements, 128 bytes wide, the
// chunks of row r stored at  chunk ^ r % 8.  A that was written over the same list (Config::packed: its row p is k number p of
// the list; or the list brought it side by side, row by row) comes by box instead: swrite and sread cancel.  Eight threads share a row of all slabs, so a thread has tile_k / 16 rows
// and asks for as many list entries, two k tiles ahead.  Rows start at multiples of 16 bytes (the plan takes another kernel
// where they do not), so a chunk lies wholly inside its operand or wholly outside.
#pragma once
#include "spc/barrier.cuh"
#include "spc/boxes.cuh"
#include "spc/epilogue.cuh"
#include "spc/panel.cuh"

template <class Config> struct spc_gathered {
  using panel_a = typename spc_boxes<Config>::a;
  using panel_b = typename spc_boxes<Config>::b;
  static constexpr int threads = 128, wide = 8, step = threads / wide, passes = Config::tile_k / step;
  static constexpr int gran = Config::gran, chunk = 8; // elements of 16 bytes
  static constexpr int ahead = 2;                      // k tiles whose entries are asked for before they are copied
  static_assert((Config::layout_a == 'c' || Config::packed_map > 0) && Config::layout_b == 'r',
                "a k list needs A stored [k][m] and B stored [k][n]: a row of the gather must be contiguous");
  static_assert(Config::tile_k % step == 0, "every thread must have the same number of rows");
  static_assert(panel_a::width == 64 && panel_b::width == 64, "a row of a slab is 128 bytes");
  static_assert((gran & (gran - 1)) == 0, "micro-tiles along k must be a power of two long");

  const char *a, *b;           // this thread's first chunk, of row 0
  spc_u32 pitch_a, pitch_b;    // bytes
  spc_list list;
  int line, position;          // this thread's first row in a k tile; in the list, in k's, of the next tile to ask for
  int first, inside;           // byte in a slab; bit j: slab j's chunk
  int asked[ahead][passes];    // entries of the next tiles; -1: past the list
  bool whole;                  // all chunks lie inside
  int first_end, second_begin; // where halves are told apart: k tiles, of the first half and of the second

  __device__ __forceinline__ spc_gathered(const spc_args &args, const spc_tile_place &place, int thread) {
    int row = thread / wide, column = thread % wide * chunk;
    list = spc_list_of<Config>(args, place.m0 / Config::strip, Config::k(args));
    a = (const char *)(Config::a(args, place.batch) + place.m0 + column);
    b = (const char *)(Config::b(args, place.batch) + place.n0 + column);
    pitch_a = (spc_u32)Config::pitch_a(args) * 2, pitch_b = (spc_u32)Config::pitch_b(args) * 2;
    first = row * 128 + (thread % wide ^ row % 8) * 16;
    whole = place.m0 + Config::tile_m <= place.m && place.n0 + Config::tile_n <= place.n;
    inside = 0;
#pragma unroll
    for (int j = 0; j < panel_a::slabs; j++) inside |= (place.m0 + column + j * 64 < place.m ? 1 : 0) << j;
#pragma unroll
    for (int j = 0; j < panel_b::slabs; j++)
      inside |= (place.n0 + column + j * 64 < place.n ? 1 : 0) << (panel_a::slabs + j);
    line = row;
    if constexpr (Config::halves) {
      spc_half second = spc_half_of<Config>(args, place.m0 / Config::strip, 1, Config::tile_k);
      first_end = spc_half_of<Config>(args, place.m0 / Config::strip, 0, Config::tile_k).end;
      second_begin = second.begin < second.end ? second.begin : 0x7fffffff;
    }
  }
  // With this k tile.
  __device__ __forceinline__ void begin(int i) {
    position = line + i * Config::tile_k;
#pragma unroll
    for (int a = 0; a < ahead; a++) look_ahead();
  }
  // Bit h: half h of A has a use for k tile number i.
  __device__ __forceinline__ int halves(int i) const {
    if constexpr (Config::halves) return (i < first_end ? 1 : 0) | (i >= second_begin ? 2 : 0);
    else return 3;
  }
  // k tiles; an empty list has one of zeros: sums that something else than the multiply may write would be kept out
  // of its pipeline.
  __device__ __forceinline__ int tiles() const {
    return max((list.count * gran + Config::tile_k - 1) / Config::tile_k, 1);
  }
  __device__ __forceinline__ void look_ahead() {
#pragma unroll
    for (int p = 0; p < passes; p++) {
#pragma unroll
      for (int i = 0; i + 1 < ahead; i++) asked[i][p] = asked[i + 1][p];
      asked[ahead - 1][p] = list.template ask<gran>(position + p * step);
    }
    position += Config::tile_k;
  }
  // Where the box of a packed A starts in k tile i; that of an empty list lies outside, and is zeros.
  __device__ __forceinline__ int box_k(int i) const { return list.count ? i * Config::tile_k : list.extent; }
  // Starts the copies of a row's chunks, one of each slab; where nothing is read any address will do.
  template <class Panel, bool Whole>
  __device__ __forceinline__ void copy(spc_u32 to, const char *from, bool there, int bits) const {
#pragma unroll
    for (int j = 0; j < Panel::slabs; j++) {
      bool ok = there && (Whole || (bits >> j & 1));
      ptx_copy_async_16(to + j * Panel::slab_bytes, Whole || ok ? from + j * 128 : (const char *)list.ids, ok ? 16 : 0);
    }
  }
  // Slab h of A is half h.
  template <bool Whole> __device__ __forceinline__ void copy_halves(spc_u32 to, const char *from, bool there, int used) const {
#pragma unroll
    for (int h = 0; h < panel_a::slabs; h++) {
      bool ok = there && (Whole || (inside >> h & 1));
      if (used >> h & 1)
        ptx_copy_async_16(to + h * panel_a::slab_bytes, Whole || ok ? from + h * 128 : (const char *)list.ids, ok ? 16 : 0);
    }
  }
  __device__ __forceinline__ void load(spc_u32 slot) {
    if (whole) load_tile<true>(slot);
    else load_tile<false>(slot);
  }
  template <bool Whole> __device__ __forceinline__ void load_tile(spc_u32 slot) {
    int now[passes];
#pragma unroll
    for (int p = 0; p < passes; p++) now[p] = list.template row_of<gran>(asked[0][p], position - ahead * Config::tile_k + p * step);
    look_ahead();
    const int used = halves(position / Config::tile_k - 1 - ahead);
#pragma unroll
    for (int p = 0; p < passes; p++) {
      spc_u64 k = (spc_u32)max(now[p], 0);
      spc_u32 to = slot + first + p * step * 128;
      if constexpr (!Config::packed && Config::halves) copy_halves<Whole>(to, a + k * pitch_a, now[p] >= 0, used);
      else if constexpr (!Config::packed) copy<panel_a, Whole>(to, a + k * pitch_a, now[p] >= 0, inside);
      copy<panel_b, Whole>(to + panel_a::bytes, b + k * pitch_b, now[p] >= 0, inside >> panel_a::slabs);
    }
  }
};
