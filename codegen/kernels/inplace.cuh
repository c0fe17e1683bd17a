// inplace.cuh - listed columns of a whole result, which the epilogue that has computed them stores at their places.
//
//     sums --> sixteen rows x 64 listed columns of a warp --> image: whole sixteens of T's columns, what is filled in between --> T
//
// A listed column is two bytes of a row, and memory is written in sectors of 32.  So columns are taken by sixteen: who loads fills those where none is
// listed (fill.cuh), the others are put together here, in shared memory that holds the fill, and are written as they are complete.  One that goes on in
// the next 64 listed columns is taken along; one that goes on in the next tile has the owner of its first listed column write what that one does not.
// A condition is asked of each element of a listed column, unless who made the list found that it holds in all of them (`partial`).
// Config names: in_place, partial, places, place, pitch_place, place_bytes, kept(args, i, values, m, n), whole_t, pitch_whole, fill, bits, bit_words.
#pragma once
#include "spc/eight.cuh"
#include "spc/fill.cuh"
#include "spc/multiply_wgmma.cuh"

// Which columns a warpgroup's part of a tile has, and those of the list on both sides that may be of the same sixteen; -1: none.  Asked for when the
// tile begins, left in shared memory when its sums are done.
template <class Config, bool InPlace = Config::in_place> struct spc_place_window {
  static constexpr int bytes = 0;
  __device__ __forceinline__ void load(const spc_tile_place &, const spc_args &) {}
  __device__ __forceinline__ void leave(spc_u32) const {}
};
template <class Config> struct spc_place_window<Config, true> {
  using sums = spc_wgmma_sums<Config>;
  static constexpr int beside = spc_filled_columns, count = sums::columns + 2 * beside, each = (count + 127) / 128;
  static constexpr int bytes = Config::workers / 128 * count * 4;
  int id[each];
  int partial; // how many of the strip's columns do not hold everywhere

  __device__ __forceinline__ void load(const spc_tile_place &place, const spc_args &args) {
    const int strip = place.m0 / Config::strip, thread = (int)threadIdx.x % 128;
    const int *ids = Config::ids(args) + strip * (long long)Config::capacity(args);
    partial = Config::partial(args, strip);
#pragma unroll
    for (int i = 0; i < each; i++) {
      const int number = thread + i * 128, at = place.n0 + sums::group_column() - beside + number;
      id[i] = number < count && at >= 0 && at < place.n ? ids[at] : -1;
    }
  }
  // Position 0 of the part.
  SPC_DEVICE spc_u32 area(spc_u32 shared) { return shared + (sums::group() * count + beside) * 4; }
  __device__ __forceinline__ void leave(spc_u32 shared) const {
    const int thread = (int)threadIdx.x % 128;
#pragma unroll
    for (int i = 0; i < each; i++)
      if (thread + i * 128 < count) *((int *)__cvta_shared_to_generic(area(shared)) + thread + i * 128 - beside) = id[i];
  }
};

// The place of the bit that has n others below it.
SPC_DEVICE int spc_place_of_bit(spc_u32 bits, int n) {
  int at = 0;
#pragma unroll
  for (int wide = 16; wide; wide /= 2) {
    const int below = __popc(bits >> at & ((1u << wide) - 1));
    if (n >= below) n -= below, at += wide;
  }
  return at;
}

// Of an image, 16 bytes at an address of shared memory.
SPC_DEVICE uint4 spc_image_load(spc_u32 at) { return *(const uint4 *)__cvta_shared_to_generic(at); }
SPC_DEVICE void spc_image_store(spc_u32 at, uint4 v) { *(uint4 *)__cvta_shared_to_generic(at) = v; }

// A warp's image: eight rows of sixteen sixteens.  A row's 16 bytes number c lie at c ^ row, so that those of all rows lie in other banks.  It holds the
// fill when nothing is put together.
template <class Config> struct spc_place_image {
  using T = typename Config::T;
  using sums = spc_wgmma_sums<Config>;
  static constexpr int sixteen = spc_filled_columns, rows = 8, slots = 16, row_bytes = slots * 32, bytes = Config::in_place ? rows * row_bytes : 0;

  const spc_args &args;
  spc_u32 ids;      // of the part's columns, in shared memory
  int from, inside; // those that are this warp's: they follow one another
  int m0, m;        // this warp's first row of sixteen, and behind the result's last
  spc_u32 image, fill;
  bool asks, aligned, whole; // whole: its rows are all there, at multiples of 16 bytes, and nothing is asked
  spc_u32 mine;              // bits of what is written here of the first sixteen and, from bit 16 on, of the last: others may have a share in them
  uint4 taken;               // along, to the next box: two lanes a row

  __device__ __forceinline__ int id_at(int i) const { return *((const int *)__cvta_shared_to_generic(ids) + i); }
  SPC_DEVICE bool alike(int a, int b) { return (spc_u32)(a ^ b) < (spc_u32)sixteen; } // of one sixteen; -1 is of none
  __device__ __forceinline__ uint4 filled() const { return make_uint4(fill, fill, fill, fill); }
  __device__ __forceinline__ spc_place_image(const spc_args &a, spc_u32 images, spc_u32 listed, int begin, int end, int partial, int row, int last_row)
      : args(a), ids(listed), from(begin), inside(end), m0(row), m(last_row), image(images + threadIdx.x / 32 * bytes), asks(partial > 0) {
    const int lane = (int)threadIdx.x & 31;
    const spc_u32 one = spc_put_as<T>::from(Config::fill()).bits;
    fill = one | one << 16;
    aligned = spc_fills_rows(Config::whole_t(args), Config::pitch_whole(args));
    whole = aligned && !asks && m0 + 16 <= m;
    taken = filled();
#pragma unroll
    for (int i = 0; i < bytes / 512; i++) spc_image_store(image + i * 512 + lane * 16, taken);
    mine = ~0u;
    if (inside <= from) return;
    auto bits_of = [&](int at, bool there, int like) { return ptx_any_bits(there && alike(id_at(at), id_at(like)) ? 1u << id_at(at) % sixteen : 0); };
    if (alike(id_at(from), id_at(from - 1))) mine = 0xffff0000u | bits_of(min(from + lane, inside - 1), lane < sixteen && from + lane < inside, from);
    spc_u32 others = bits_of(inside + lane % sixteen, id_at(inside + lane % sixteen) >= 0, inside - 1);
    const int left = (int)Config::n(args) - (id_at(inside - 1) & -sixteen);
    if (left < sixteen) others |= 0xffffu << left;
    mine &= ~(others << 16);
    __syncwarp();
  }
  // Of the eight columns from `column` on, bit e: it is written here.
  __device__ __forceinline__ spc_u32 mine_of(int column) const {
    const bool first = alike(column, id_at(from)), last = alike(column, id_at(inside - 1));
    return ((first ? mine : ~0u) & (last ? mine >> 16 : ~0u)) >> column % sixteen & 0xff;
  }
  __device__ __forceinline__ void store(char *to, uint4 v, spc_u32 these) const {
    if (these == 0xff && aligned) {
      *(uint4 *)to = v;
      return;
    }
    const spc_u32 word[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int e = 0; e < 8; e++)
      if (these >> e & 1) ((unsigned short *)to)[e] = (unsigned short)(word[e / 2] >> e % 2 * 16);
  }
  // What the condition keeps of eight columns of a row.
  __device__ __forceinline__ uint4 kept(uint4 v, spc_u32 set, long long row, int column) const {
    spc_u32 word[4] = {v.x, v.y, v.z, v.w};
    spc_spread_places<Config> here;
    const int left = (int)Config::n(args) - column;
    bool lie = left >= 8; // in whole chunks
#pragma unroll
    for (int p = 0; p < Config::places; p++) {
      const spc_u64 size = (spc_u64)Config::place_bytes(p);
      lie &= (((spc_u64)Config::place(args, p) | (spc_u64)Config::pitch_place(args, p) * size) & (8 * size - 1)) == 0;
    }
    here.set = set;
    here.ask(args, (int)row, 0, column, left, lie);
#pragma unroll
    for (int e = 0; e < 8; e++) {
      if (!(set >> e & 1)) continue;
      float values[1 + Config::places];
      T value = {(unsigned short)(word[e / 2] >> e % 2 * 16)};
      values[0] = spc_get(value);
#pragma unroll
      for (int p = 0; p < Config::places; p++) values[1 + p] = here.value(p, e);
      const spc_u32 bits = spc_put_as<T>::from(Config::kept(args, 0, values, row, column + e)).bits;
      word[e / 2] = (word[e / 2] & (e % 2 ? 0xffffu : 0xffff0000u)) | bits << e % 2 * 16;
    }
    return make_uint4(word[0], word[1], word[2], word[3]);
  }

  // The listed columns of a box: where they are in its sixteens, side by side, and which of these are complete.
  struct columns {
    int of[4][4];          // this lane's four of each step of sixteen, in a row of all of the box's sixteens, bytes; what is past the list: far behind
    spc_u32 starts[2];     // bit i of word w: column 32 w + i begins a sixteen
    int id[2];             // of columns number lane, 32 + lane
    int slots, done;       // sixteens that they touch; of these so many are complete
    // Where sixteen number `slot` begins.
    __device__ __forceinline__ int column(int slot) const {
      const int low = __popc(starts[0]), there = min(slot, slots - 1);
      const int at = there < low ? spc_place_of_bit(starts[0], there) : spc_place_of_bit(starts[1], there - low);
      const int first = __shfl_sync(0xffffffffu, id[0], at), second = __shfl_sync(0xffffffffu, id[1], at);
      return (there < low ? first : second) & -sixteen;
    }
    // Sixteens that begin in the first `steps` steps.
    __device__ __forceinline__ int before(int steps) const {
      return steps < 2 ? __popc(starts[0] & (steps ? 0xffffu : 0)) : __popc(starts[0]) + (steps < 3 ? 0 : __popc(starts[1] & (steps < 4 ? 0xffffu : ~0u)));
    }
  };
  __device__ __forceinline__ columns look(int at) const {
    const int lane = (int)threadIdx.x & 31, count = min(64, inside - at);
    columns c;
    int place[2], before = 0;
#pragma unroll
    for (int w = 0; w < 2; w++) {
      const int number = 32 * w + lane;
      c.id[w] = id_at(at + min(number, count - 1));
      c.starts[w] = ptx_ballot(number < count && (number == 0 || !alike(c.id[w], id_at(at + min(number, count - 1) - 1))));
      place[w] = number < count ? (before + __popc(c.starts[w] & ((2u << lane) - 1)) - 1) * 32 + c.id[w] % sixteen * 2 : 1 << 20;
      before += __popc(c.starts[w]);
    }
#pragma unroll
    for (int s = 0; s < 4; s++)
#pragma unroll
      for (int j = 0; j < 4; j++) c.of[s][j] = __shfl_sync(0xffffffffu, place[s / 2], s % 2 * 16 + lane % 4 * 2 + j / 2 * 8 + j % 2);
    const bool along = at + 64 < inside && alike(id_at(at + 64), id_at(at + 63));
    c.slots = before, c.done = before - (along ? 1 : 0);
    return c;
  }

  // What is complete, of eight rows from `row` on and the sixteens from `slot` on, 16 bytes a lane: to memory, and the fill takes its place.
  __device__ __forceinline__ void write(const columns &c, int slot, int row) const {
    const int lane = (int)threadIdx.x & 31;
    const long long pitch = (long long)Config::pitch_whole(args) * 2;
    char *to = (char *)(Config::whole_t(args) + c.column(slot + lane / 2) + lane % 2 * 8) + row * pitch;
    const spc_u32 here = image + lane * 16;
    if (slot + lane / 2 >= c.done) return;
    uint4 v[rows];
#pragma unroll
    for (int i = 0; i < rows; i++) v[i] = spc_image_load((here ^ i * 16) + i * row_bytes);
#pragma unroll
    for (int i = 0; i < rows; i++) spc_image_store((here ^ i * 16) + i * row_bytes, filled());
#pragma unroll
    for (int i = 0; i < rows; i++) *(uint4 *)(to + i * pitch) = v[i];
  }
  // The same where some of it is another's, rows are at an edge, or something is asked.
  __device__ __forceinline__ void write_some(const columns &c, int slot, int row) const {
    const int lane = (int)threadIdx.x & 31, column = c.column(slot + lane / 2) + lane % 2 * 8;
    const spc_u32 these = slot + lane / 2 < c.done ? mine_of(column) : 0;
    spc_u32 set = 0; // listed
    if (!these) return;
    if (asks) set = Config::bits(args)[m0 / Config::strip * (long long)Config::bit_words(args) + column / 32] >> column % 32 & these;
    char *to = (char *)(Config::whole_t(args) + column) + row * ((long long)Config::pitch_whole(args) * 2);
#pragma unroll 1
    for (int r = 0; r < rows; r++, to += Config::pitch_whole(args) * 2) {
      const spc_u32 here = image + r * row_bytes + (lane ^ r) * 16;
      uint4 v = spc_image_load(here);
      spc_image_store(here, filled());
      if (row + r >= m) continue;
      if (set) v = kept(v, set, row + r, column);
      store(to, v, these);
    }
  }
  // Eight of the warp's rows, from `first` on, and as many sixteens of the box as the image has room for, from `slot` on.
  __device__ __forceinline__ void pass(const columns &c, const spc_u32 (&packed)[4][4], int slot, int first, bool anew, bool simple) {
    const int lane = (int)threadIdx.x & 31, taker = lane / 2 - first; // row of what is taken along
    const spc_u32 row = image + lane / 4 * row_bytes;
    const bool takes = taker >= 0 && taker < rows;
    if (!anew && takes && slot == 0) spc_image_store(image + taker * row_bytes + (lane % 2 ^ taker % 8) * 16, taken);
    __syncwarp();
#pragma unroll
    for (int s = 0; s < 4; s++) {
      if (c.before(s + 1) <= slot || c.before(s) > slot + slots) continue;
#pragma unroll
      for (int j = 0; j < 4; j++) {
        const spc_u32 at = (spc_u32)(c.of[s][j] - slot * 32), to = row + (at ^ lane / 4 * 16);
        if (at >= (spc_u32)row_bytes) continue;
        const spc_u32 pair = first ? packed[s][j / 2 * 2 + 1] : packed[s][j / 2 * 2];
        *(unsigned short *)__cvta_shared_to_generic(to) = (unsigned short)(pair >> j % 2 * 16);
      }
    }
    __syncwarp();
    if (simple) write(c, slot, m0 + first);
    else write_some(c, slot, m0 + first);
    __syncwarp();
    if (takes && slot + slots >= c.slots) {
      const spc_u32 last = image + taker * row_bytes + ((c.slots - 1 - slot) * 2 + lane % 2 ^ taker % 8) * 16;
      taken = filled();
      if (c.done < c.slots) taken = spc_image_load(last), spc_image_store(last, filled());
    }
    __syncwarp();
  }
  // A box: 64 listed columns from position `at` of the part on, of the warp's sixteen rows.  packed[s]: pairs of step s, as the sums have them (store_tma.cuh).
  __device__ __forceinline__ void box(const spc_u32 (&packed)[4][4], int at) {
    if (at < from || at >= inside) return;
    const columns c = look(at);
    const bool simple = whole && (at > from || (mine & 0xffff) == 0xffff) && (at + 64 < inside || mine >> 16 == 0xffff);
#pragma unroll 1
    for (int i = 0; i / 2 * slots < c.slots; i++) // of the upper rows and the lower ones
      pass(c, packed, i / 2 * slots, i % 2 * rows, at == from, simple);
  }
};
