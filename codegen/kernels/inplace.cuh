// inplace.cuh - listed columns of a whole result, which the epilogue that has computed them stores at their places.
//
//     sums --> sixteen rows x 64 listed columns of a warp --> image: a ring of whole sixteens of T's columns, what is filled in between --> T
//
// A listed column is two bytes of a row, and memory is written in sectors of 32.  So columns are taken by sixteen: who loads fills those where none is
// listed (fill.cuh), the others are put together here, in shared memory that holds the fill, and are written as they are complete: of eight listed
// columns at a time, or of as many eights as the ring has room for.  One that goes on in what follows stays in the ring; one that goes on in the next
// tile, or in another block's boxes, has the owner of its first listed column write what that one does not.
// A condition is asked of each element of a listed column before that (`keep`), unless who made the list found that it holds in all of them (`partial`).
// Config names: in_place, partial, places, place, pitch_place, place_bytes, kept(args, i, values, m, n), whole_t, pitch_whole, fill, bits, bit_words.
#pragma once
#include "spc/fill.cuh"
#include "spc/multiply_wgmma.cuh"

constexpr int spc_ring_sixteens = 8; // that a warp puts together at a time

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
  static constexpr int rings_at = Config::workers / 128 * count * 4, bytes = rings_at + Config::workers / 32 * spc_ring_sixteens * 4;
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
  // Where the sixteens of a warp's ring begin, in columns of T.
  SPC_DEVICE spc_u32 ring(spc_u32 shared) { return shared + rings_at + threadIdx.x / 32 * spc_ring_sixteens * 4; }
  // Position 0 of the part.
  SPC_DEVICE spc_u32 area(spc_u32 shared) { return shared + (sums::group() * count + beside) * 4; }
  __device__ __forceinline__ void leave(spc_u32 shared) const {
    const int thread = (int)threadIdx.x % 128;
#pragma unroll
    for (int i = 0; i < each; i++)
      if (thread + i * 128 < count) *((int *)__cvta_shared_to_generic(area(shared)) + thread + i * 128 - beside) = id[i];
  }
};

// Of an image, 16 bytes at an address of shared memory.
SPC_DEVICE uint4 spc_image_load(spc_u32 at) { return *(const uint4 *)__cvta_shared_to_generic(at); }
SPC_DEVICE void spc_image_store(spc_u32 at, uint4 v) { *(uint4 *)__cvta_shared_to_generic(at) = v; }
SPC_DEVICE int &spc_image_word(spc_u32 at) { return *(int *)__cvta_shared_to_generic(at); }

// A warp's image: sixteen rows of eight sixteens, sixteen number q at q % 8.  A row's 16 bytes number c lie at c ^ row % 8, so that those of eight rows
// lie in other banks.  It holds the fill where nothing is put together.
template <class Config> struct spc_place_image {
  using T = typename Config::T;
  using sums = spc_wgmma_sums<Config>;
  using window = spc_place_window<Config>;
  static constexpr int sixteen = spc_filled_columns, ring = spc_ring_sixteens, rows = 16, row_bytes = ring * 32, bytes = Config::in_place ? rows * row_bytes : 0;
  static constexpr int passes = rows / 2, at_once = passes / 2; // two rows are read at a time, 16 bytes a lane; so many times before they are stored

  const spc_args &args;
  spc_u32 ids, begins; // of the part's columns, of the ring's sixteens: in shared memory
  int from, inside;    // columns that are this warp's: they follow one another
  int m0, m;           // this warp's first row of sixteen, and behind the result's last
  spc_u32 image, fill;
  bool aligned, whole; // whole: its rows are all there, at multiples of 16 bytes
  spc_u32 mine;              // bits of what is written here of the first sixteen and, from bit 16 on, of the last: others may have a share in them
  int begun, written;        // sixteens

  __device__ __forceinline__ int id_at(int i) const { return spc_image_word(ids + i * 4); }
  SPC_DEVICE bool alike(int a, int b) { return (spc_u32)(a ^ b) < (spc_u32)sixteen; } // of one sixteen; -1 is of none
  __device__ __forceinline__ uint4 filled() const { return make_uint4(fill, fill, fill, fill); }
  __device__ __forceinline__ spc_place_image(const spc_args &a, spc_u32 images, spc_u32 shared, int begin, int end, int row, int last_row)
      : args(a), ids(window::area(shared)), begins(window::ring(shared)), from(begin), inside(end), m0(row), m(last_row), image(images + threadIdx.x / 32 * bytes),
        begun(0), written(0) {
    const int lane = (int)threadIdx.x & 31;
    const spc_u32 one = spc_put_as<T>::from(Config::fill()).bits;
    fill = one | one << 16;
    aligned = spc_fills_rows(Config::whole_t(args), Config::pitch_whole(args));
    whole = aligned && m0 + rows <= m;
#pragma unroll
    for (int i = 0; i < bytes / 512; i++) spc_image_store(image + i * 512 + lane * 16, filled());
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
  // What the condition keeps of a box's elements, from position `at` of the part on, as the sums have them (store_tma.cuh).  Four of a lane's row at a time,
  // the next four asked for ahead.  The text is short, for it runs once a box: where it stands for each of a step's or a box's elements, more of them under
  // way, what is waited for is instructions.
  __device__ __forceinline__ void keep(spc_u32 (&packed)[4][4], int at) const {
    struct four {
      int column[4];
      spc_u32 there[4][Config::places + 1];
    };
    const int lane = (int)threadIdx.x & 31;
    auto ask = [&](int turn, four &of) {
      const int row = m0 + lane / 4 + turn % 2 * 8, first = at + turn / 2 * 16 + lane % 4 * 2;
#pragma unroll
      for (int c = 0; c < 4; c++) of.column[c] = row < m ? id_at(first + c / 2 * 8 + c % 2) : -1;
#pragma unroll
      for (int p = 0; p < Config::places; p++) {
        const char *from = (const char *)Config::place(args, p) + row * (long long)Config::pitch_place(args, p) * Config::place_bytes(p);
#pragma unroll
        for (int c = 0; c < 4; c++)
          of.there[c][p] = of.column[c] < 0 ? 0 : Config::place_bytes(p) == 1 ? (spc_u32)((const unsigned char *)from)[of.column[c]] : (spc_u32)((const unsigned short *)from)[of.column[c]];
      }
    };
    four next;
    ask(0, next);
#pragma unroll 1
    for (int turn = 0; turn < 8; turn++) {
      const four now = next;
      if (turn + 1 < 8) ask(turn + 1, next);
#pragma unroll
      for (int c = 0; c < 4; c++) {
        if (now.column[c] < 0) continue;
        spc_u32 &pair = packed[0][c / 2 * 2];
        float values[1 + Config::places];
        T value = {(unsigned short)(pair >> c % 2 * 16)};
        values[0] = spc_get(value);
#pragma unroll
        for (int p = 0; p < Config::places; p++) {
          T place = {(unsigned short)now.there[c][p]};
          values[1 + p] = Config::place_bytes(p) == 1 ? (float)now.there[c][p] : spc_get(place);
        }
        const spc_u32 bits = spc_put_as<T>::from(Config::kept(args, 0, values, m0 + lane / 4 + turn % 2 * 8, now.column[c])).bits;
        pair = (pair & (c % 2 ? 0xffffu : 0xffff0000u)) | bits << c % 2 * 16;
      }
#pragma unroll
      for (int h = 0; h < 4; h += 2) { // the next row or step comes first, and after eight turns this one: registers have no numbers
        const spc_u32 first = packed[0][h];
#pragma unroll
        for (int q = 0; q < 7; q++) packed[q / 2][h + q % 2] = packed[(q + 1) / 2][h + (q + 1) % 2];
        packed[3][h + 1] = first;
      }
    }
  }

  // The listed columns of a box, which are two of each lane, number lane and 32 + lane, and in which sixteens they are.
  struct columns {
    int count, id[2], slot[2]; // slot: number of its sixteen; -1: it begins none
    int end, done;             // of the eight columns number lane % 8: sixteens begun up to there, and those of them that are complete
    spc_u32 at[4][4];          // where this lane's four of each step of sixteen are in its upper row of the image
  };
  __device__ __forceinline__ columns look(int first) {
    const int lane = (int)threadIdx.x & 31, eighth = lane % 8 + 1;
    columns c;
    c.count = min(64, inside - first);
    spc_u32 starts[2], place[2];
    int before = begun;
#pragma unroll
    for (int w = 0; w < 2; w++) {
      const int number = 32 * w + lane, at = first + min(number, c.count - 1);
      c.id[w] = id_at(at);
      const bool starting = number < c.count && (at == from || !alike(c.id[w], id_at(at - 1)));
      starts[w] = ptx_ballot(starting);
      const int slot = before + __popc(starts[w] & ((2u << lane) - 1)) - 1;
      c.slot[w] = starting ? slot : -1;
      place[w] = (spc_u32)(slot % ring * 32 + c.id[w] % sixteen * 2);
      before += __popc(starts[w]);
    }
    const spc_u32 row = (image + lane / 4 * row_bytes) ^ lane / 4 * 16;
#pragma unroll
    for (int s = 0; s < 4; s++)
#pragma unroll
      for (int j = 0; j < 4; j++) c.at[s][j] = row ^ __shfl_sync(0xffffffffu, place[s / 2], s % 2 * 16 + lane % 4 * 2 + j / 2 * 8 + j % 2);
    const bool upper = eighth > 4;
    const spc_u32 bits = upper ? starts[1] : starts[0], low = (2u << (eighth * 8 - 1) % 32) - 1;
    c.end = begun + (upper ? __popc(starts[0]) : 0) + __popc(bits & low);
    const spc_u32 next = eighth < 4 ? starts[0] >> eighth * 8 : eighth == 4 ? starts[1] : starts[1] >> (eighth * 8 - 32) % 32;
    bool goes_on = eighth * 8 < c.count && (next & 1) == 0;
    if (eighth == 8) goes_on = first + 64 < inside && alike(id_at(min(first + 64, inside - 1)), id_at(first + c.count - 1));
    c.done = c.end - (goes_on ? 1 : 0);
    begun = before;
    return c;
  }

  // Of the rows that a lane reads, every other one from `here` on, number i.
  SPC_DEVICE spc_u32 pair_at(spc_u32 here, int i) { return (here ^ i % 4 * 32) + i * 2 * row_bytes; }
  __device__ __forceinline__ void store_some(char *to, uint4 v, spc_u32 these) const {
    const spc_u32 word[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int e = 0; e < 8; e++)
      if (these >> e & 1) ((unsigned short *)to)[e] = (unsigned short)(word[e / 2] >> e % 2 * 16);
  }
  // Sixteens up to number `end`, all of which are complete, to memory: 16 bytes a lane, of every other row; the fill takes their place.  last: the part's
  // last one is the one before `end`.
  __device__ __forceinline__ void write(int end, bool last) {
    const int lane = (int)threadIdx.x & 31, slot = written + lane / 2 % ring, upper = lane / 16;
    const spc_u32 here = image + upper * row_bytes + ((slot % ring * 2 + lane % 2) * 16 ^ upper * 16);
    const int column = spc_image_word(begins + slot % ring * 4) + lane % 2 * 8;
    const long long pitch = (long long)Config::pitch_whole(args) * 2;
    char *to = (char *)(Config::whole_t(args) + column) + (m0 + upper) * pitch;
    spc_u32 these = slot < end ? 0xff : 0;
    if (slot == 0) these &= mine >> lane % 2 * 8;
    if (last && slot == end - 1) these &= mine >> 16 + lane % 2 * 8;
    if (!whole) {
      write_rows(to, here, these);
    } else {
#pragma unroll
      for (int half = 0; half < passes; half += at_once) { // registers are few
        uint4 v[at_once];
#pragma unroll
        for (int i = 0; i < at_once; i++) v[i] = spc_image_load(pair_at(here, half + i));
        if (these == 0xff) {
#pragma unroll
          for (int i = 0; i < at_once; i++) *(uint4 *)(to + 2 * (half + i) * pitch) = v[i];
        } else if (these) {
#pragma unroll
          for (int i = 0; i < at_once; i++) store_some(to + 2 * (half + i) * pitch, v[i], these);
        }
      }
    }
    if (slot < end) {
#pragma unroll
      for (int i = 0; i < passes; i++) spc_image_store(pair_at(here, i), filled());
    }
    written = end;
  }
  // The same where rows are at an edge, or begin anywhere.
  __device__ __forceinline__ void write_rows(char *to, spc_u32 here, spc_u32 these) const {
    const int row = m0 + ((int)threadIdx.x & 31) / 16;
    if (!these) return;
#pragma unroll 1
    for (int i = 0; i < passes && row + 2 * i < m; i++, to += (long long)Config::pitch_whole(args) * 4) {
      uint4 v = spc_image_load(pair_at(here, i));
      if (these == 0xff && aligned) *(uint4 *)to = v;
      else store_some(to, v, these);
    }
  }
  // A box: 64 listed columns from position `at` of the part on, of the warp's sixteen rows.  packed[s]: pairs of step s, as the sums have them (store_tma.cuh).
  __device__ __forceinline__ void box(const spc_u32 (&packed)[4][4], int at) {
    if (at < from || at >= inside) return;
    const int lane = (int)threadIdx.x & 31;
    const columns c = look(at);
    const int left = c.count - lane % 4 * 2;
#pragma unroll 1
    for (int first = 0; first < 8;) { // of the box's eights
      const spc_u32 fit = ptx_ballot(lane < 8 && c.end - written <= ring), these = fit & -1u << first;
      const int next = 32 - __clz((int)fit), end = __shfl_sync(0xffffffffu, c.done, next - 1);
#pragma unroll
      for (int w = 0; w < 2; w++)
        if ((spc_u32)(c.slot[w] - written) < (spc_u32)ring) spc_image_word(begins + c.slot[w] % ring * 4) = c.id[w] & -sixteen;
#pragma unroll
      for (int g = 0; g < 8; g++) {
        if (!(these >> g & 1)) continue;
#pragma unroll
        for (int j = 0; j < 2; j++)
#pragma unroll
          for (int r = 0; r < 2; r++)
            if (left > g * 8 + j) *(unsigned short *)__cvta_shared_to_generic(c.at[g / 2][g % 2 * 2 + j] + r * 8 * row_bytes) = (unsigned short)(packed[g / 2][g % 2 * 2 + r] >> j * 16);
      }
      __syncwarp();
      if (end > written) write(end, next == 8 && at + 64 >= inside);
      __syncwarp();
      first = next;
    }
  }
};
