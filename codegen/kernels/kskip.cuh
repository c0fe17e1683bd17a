// kskip.cuh - products of few rows of A that read only the rows of B whose k some row of A has a use for (skip.cuh).
//
//     look       warps take runs of 256 k's by turns, 8 a lane, and note in shared memory which are not zero in all rows of
//                the tile, and A there; as many as there is room for.  Where bits say which (Config::noted), they take words
//                of them by turns instead, 16 at a time, and A is read at those k's alone; where a block has a tile of 8 rows to
//                itself, its threads take four words each and note one list for all
//     multiply   of 8 rows: a warp takes 64 columns and 16 of the noted k's at a time by mma.sync; where the tile is wider,
//                warps share what all of them noted.  Of one row: eight lanes take 64 columns of a k by multiply-adds
//     the end    sums are added in shared memory in a fixed order, epilogue, store.  Where the tile has a cluster of blocks their warps
//                share k, and each block a part of the adding
#pragma once
#include "spc/cluster.cuh"
#include "spc/skip.cuh"

SPC_DEVICE int spc_warp() { return (int)threadIdx.x / 32; }
SPC_DEVICE int spc_lane() { return (int)threadIdx.x % 32; }
// Among the warps of all blocks that share the tile.
template <class Config> SPC_DEVICE int spc_sharing_warp() {
  return Config::split > 1 ? ptx_cluster_rank() * (Config::threads / 32) + spc_warp() : spc_warp();
}

// Eight elements, of which the first `valid` are inside; where rows are aligned all are, or none.  Which of the two is known
// when it is compiled: loads between branches would wait for one another.
template <bool Aligned, bool Kept, class T> SPC_DEVICE void spc_fetch(spc_u32 (&to)[4], const T *from, long long valid) {
  if constexpr (Aligned) {
    if constexpr (Kept) ptx_load_kept_16_if(to, from, valid > 0);
    else ptx_load_16_if(to, from, valid > 0);
  } else {
#pragma unroll
    for (int w = 0; w < 4; w++)
      to[w] = (2 * w < valid ? from[2 * w].bits : 0u) | (2 * w + 1 < valid ? (spc_u32)from[2 * w + 1].bits << 16 : 0u);
  }
}

// ---- look --------------------------------------------------------------------------------------------------------
template <int Rows> struct spc_noted_values { typedef uint4 type; }; // of 8 rows
template <> struct spc_noted_values<1> { typedef unsigned short type; };

template <class Config> struct spc_noted {
  using T = typename Config::A;
  static constexpr int rows = Config::tile_m, warps = Config::threads / 32, sharing = warps * Config::split, step = 16;
  using values_type = typename spc_noted_values<rows>::type;
  static constexpr int run = 256, runs_ahead = rows == 1 ? 4 : 2; // k's that a warp looks at; runs together
  static constexpr int room = 512;                           // k's that a warp has room for
  static constexpr int all_room = warps * room;
  static constexpr int bytes = all_room * (4 + rows * 2);
  static constexpr bool together = Config::noted && rows == 8 && Config::split == 1; // one list
  static_assert(Config::tile_k == run && (rows == 1 || rows == 8), "a warp looks at 256 k's of 1 or 8 rows");
  static_assert((Config::noted || Config::layout_a == 'r') && sizeof(T) == 2, "a lane looks at 8 k's of 16 bits, side by side");

  values_type *values; // [warp][room]: A there; of one list [all_room]
  int *k_of;           // [warp][room]: up to the next sixteen -1, and zeros there
  int *counts;         // [warp]; of one list the first

  __device__ __forceinline__ spc_noted(char *shared, int *counted)
      : values((values_type *)shared), k_of((int *)(shared + warps * room * rows * 2)), counts(counted) {}

  // Bit e: element e is not zero in all of these rows; -0 is zero.
  template <int Rows> SPC_DEVICE int mask_of(const spc_u32 (&chunk)[Rows][4]) {
    int mask = 0;
#pragma unroll
    for (int w = 0; w < 4; w++) {
      spc_u32 any = 0;
#pragma unroll
      for (int r = 0; r < Rows; r++) any |= chunk[r][w] & 0x7fff7fffu;
      mask |= ((any & 0xffffu ? 1 : 0) | (any >> 16 ? 2 : 0)) << 2 * w;
    }
    return mask;
  }
  // Element e of all rows.
  SPC_DEVICE values_type take(const spc_u32 (&chunk)[rows][4], int e) {
    if constexpr (rows == 1) {
      return (unsigned short)(chunk[0][e / 2] >> e % 2 * 16);
    } else {
      const spc_u32 half = e % 2 ? 0x7632 : 0x5410;
      return make_uint4(__byte_perm(chunk[0][e / 2], chunk[1][e / 2], half), __byte_perm(chunk[2][e / 2], chunk[3][e / 2], half),
                        __byte_perm(chunk[4][e / 2], chunk[5][e / 2], half), __byte_perm(chunk[6][e / 2], chunk[7][e / 2], half));
    }
  }
  // The run's first elements of all lanes, then their second ones, ...; false: there is no room for all.
  __device__ __forceinline__ bool note(const spc_u32 (&chunk)[rows][4], int k, int &count) const {
    int mask = mask_of(chunk), all = 0;
    spc_u32 lanes[8];
#pragma unroll
    for (int e = 0; e < 8; e++) lanes[e] = ptx_ballot(mask >> e & 1), all += __popc(lanes[e]);
    if (count + all > room) return false;
#pragma unroll
    for (int e = 0; e < 8; e++) {
      if (mask >> e & 1) {
        int at = spc_warp() * room + count + __popc(lanes[e] & ((1u << spc_lane()) - 1));
        values[at] = take(chunk, e);
        k_of[at] = k + e;
      }
      count += __popc(lanes[e]);
    }
    return true;
  }
  // A's rows of a k lie in 16 bytes.  Behind the last row there may be room that nobody has filled: the sums that meet it are not stored.
  SPC_DEVICE bool lies_whole(const spc_args &args, const spc_tile_place &place) {
    const long long room = Config::own_a ? Config::pitch_a(args) : place.m;
    return Config::layout_a == 'c' && place.m0 + rows <= room && spc_matrix<T>::is_aligned({Config::a(args, place.batch), Config::pitch_a(args)});
  }
  // A at k, of all rows; Whole: they lie in 16 bytes.
  template <bool Whole> SPC_DEVICE values_type value_of(const spc_args &args, const spc_tile_place &place, int k) {
    long long pitch = Config::pitch_a(args), along = Config::layout_a == 'r' ? 1 : pitch, across = Config::layout_a == 'r' ? pitch : 1;
    const T *from = Config::a(args, place.batch) + k * along + place.m0 * across;
    if constexpr (rows == 1) {
      return from->bits;
    } else if constexpr (Whole) {
      return ptx_load_16(from);
    } else {
      spc_u32 of[rows];
#pragma unroll
      for (int r = 0; r < rows; r++) of[r] = place.m0 + r < place.m ? from[r * across].bits : 0u;
      return make_uint4(of[0] | of[1] << 16, of[2] | of[3] << 16, of[4] | of[5] << 16, of[6] | of[7] << 16);
    }
  }
  // One of them: of few at a time, for want of registers.
  SPC_DEVICE unsigned short element_of(const spc_args &args, const spc_tile_place &place, int row, int k) {
    const long long pitch = Config::pitch_a(args), along = Config::layout_a == 'r' ? 1 : pitch, across = Config::layout_a == 'r' ? pitch : 1;
    return place.m0 + row < place.m ? Config::a(args, place.batch)[k * along + (place.m0 + row) * across].bits : (unsigned short)0;
  }
  // A at what this warp has noted.
  template <bool Whole> __device__ __forceinline__ void take_values(const spc_args &args, const spc_tile_place &place, int count) const {
    const int at_once = Whole || rows == 1 ? 4 : 1;
    int list = spc_warp() * room, last = max(count - 1, 0);
#pragma unroll 1
    for (int first = spc_lane(); first < count; first += 32 * at_once) {
      values_type value[at_once];
#pragma unroll
      for (int i = 0; i < at_once; i++) value[i] = value_of<Whole>(args, place, k_of[list + min(first + 32 * i, last)]);
#pragma unroll
      for (int i = 0; i < at_once; i++)
        if (first + 32 * i < count) values[list + first + 32 * i] = value[i];
    }
  }
  // A word, and which of its bits are k's.
  SPC_DEVICE spc_u32 word_of(const spc_args &args, const spc_tile_place &place, int word) {
    int extent = (int)Config::k(args), words = (extent + 31) / 32;
    if (word >= words) return 0;
    spc_u32 set = Config::bits(args)[place.m0 / Config::strip * Config::bit_words(args) + word];
    return word == words - 1 && extent % 32 ? set & ((1u << extent % 32) - 1) : set;
  }
  // Notes from turn `turn` on until there is no more or no room; whether there is more.
  __device__ __forceinline__ bool look_at_bits(const spc_args &args, const spc_tile_place &place, int &turn) const {
    const int words_a_turn = 16, words = ((int)Config::k(args) + 31) / 32; // a turn's k's always find room
    int count = 0;
    bool more = true, fits = true;
    spc_u32 next = word_of(args, place, (turn * words_a_turn + spc_lane()) * sharing + spc_sharing_warp<Config>());
#pragma unroll 1
    while (more && fits) {
      spc_u32 set = spc_lane() < words_a_turn ? next : 0;
      int word = (turn * words_a_turn + spc_lane()) * sharing + spc_sharing_warp<Config>(), up_to = __popc(set);
      next = word_of(args, place, word + words_a_turn * sharing);
#pragma unroll
      for (int d = 1; d < words_a_turn; d *= 2) {
        int other = __shfl_up_sync(~0u, up_to, d);
        if (spc_lane() >= d) up_to += other;
      }
      int all = __shfl_sync(~0u, up_to, words_a_turn - 1), at = spc_warp() * room + count + up_to - __popc(set);
      fits = count + all <= room;
      if (!fits) continue;
#pragma unroll 1
      for (; set; set &= set - 1) k_of[at++] = word * 32 + __ffs((int)set) - 1;
      count += all, turn++;
      more = turn * words_a_turn * sharing + spc_sharing_warp<Config>() < words;
    }
    end_list(count);
    __syncwarp();
    return more;
  }
  // A at what bits have noted: after the first rows of B have been asked for, which do not wait for it.
  __device__ __forceinline__ void bring_values(const spc_args &args, const spc_tile_place &place) const {
    const bool whole = lies_whole(args, place);
    if (whole) take_values<true>(args, place, counts[spc_warp()]);
    else take_values<false>(args, place, counts[spc_warp()]);
  }
  // This thread's words, of those that a block notes at a time.
  static constexpr int words_each = 4;
  struct words { spc_u32 set[words_each]; };
  SPC_DEVICE words words_from(const spc_args &args, const spc_tile_place &place, int word) {
    words w;
#pragma unroll
    for (int j = 0; j < words_each; j++) w.set[j] = word_of(args, place, word + (int)threadIdx.x * words_each + j);
    return w;
  }
  // Notes the k's of all threads' words, from `word` on, in order, as many words as there is room for; moves `word`, and says whether there is more.
  __device__ __forceinline__ bool note_words(const spc_args &args, const words &w, int &word) const {
    __shared__ int totals[warps], next;
    int mine = 0, all = 0, before = 0;
#pragma unroll
    for (int j = 0; j < words_each; j++) mine += __popc(w.set[j]);
    int up_to = mine;
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
      int other = __shfl_up_sync(~0u, up_to, d);
      if (spc_lane() >= d) up_to += other;
    }
    if (spc_lane() == 31) totals[spc_warp()] = up_to;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < warps; i++) {
      if (i < spc_warp()) before += totals[i];
      all += totals[i];
    }
    int at = before + up_to - mine;
    const int first = word + (int)threadIdx.x * words_each;
    if (at + mine <= all_room) {
#pragma unroll
      for (int j = 0; j < words_each; j++)
#pragma unroll 1
        for (spc_u32 set = w.set[j]; set; set &= set - 1) k_of[at++] = (first + j) * 32 + __ffs((int)set) - 1;
    } else if (at <= all_room) { // the first for whom there is none
      counts[0] = at, next = first;
    }
    if (all <= all_room && threadIdx.x == 0) counts[0] = all, next = word + Config::threads * words_each;
    __syncthreads();
    const int count = counts[0], end = count + (int)threadIdx.x;
    if (end < (count + step - 1) / step * step) k_of[end] = -1, values[end] = values_type{};
    word = next;
    __syncthreads();
    return word * 32 < (int)Config::k(args);
  }
  // The same of one list.  `meanwhile` asks for rows of B: behind values that are copied as they lie, before others.
  template <class Meanwhile> __device__ __forceinline__ void bring_values_of_all(const spc_args &args, const spc_tile_place &place, Meanwhile meanwhile) const {
    const bool whole = lies_whole(args, place);
    const int count = counts[0];
    if (whole) {
#pragma unroll 1
      for (int i = (int)threadIdx.x; i < count; i += Config::threads)
        ptx_copy_async_16(spc_shared_address(&values[i]), Config::a(args, place.batch) + k_of[i] * Config::pitch_a(args) + place.m0, 16);
      ptx_copy_async_commit();
    }
    meanwhile();
    if (whole) {
      ptx_copy_async_wait<0>();
    } else {
#pragma unroll 1
      for (int i = (int)threadIdx.x; i < count * rows; i += Config::threads) ((unsigned short *)values)[i] = element_of(args, place, i % rows, k_of[i / rows]);
    }
    __syncthreads();
  }
  // Zeros up to the next sixteen.
  __device__ __forceinline__ void end_list(int count) const {
    int at = spc_warp() * room + count + spc_lane();
    if (count + spc_lane() < (count + step - 1) / step * step) k_of[at] = -1, values[at] = values_type{};
    if (spc_lane() == 0) counts[spc_warp()] = count;
  }
  // What this warp looks at first, sent for.
  SPC_DEVICE void ask_ahead(const spc_matrix<T> &a, const spc_tile_place &place, int extent) {
    const int in_sector = 16; // elements
    const int k = spc_sharing_warp<Config>() * run + spc_lane() * in_sector / 2;
#pragma unroll
    for (int i = 0; i < runs_ahead; i++)
#pragma unroll
      for (int r = 0; r < rows; r++)
        if (spc_lane() % 2 == 0 && place.m0 + r < place.m && k + i * sharing * run < extent) ptx_prefetch_l2(a.origin + (place.m0 + r) * a.pitch + k + i * sharing * run);
  }
  // Looks from k on until there is no more or no room, and moves k; whether there is more.
  __device__ __forceinline__ bool look(const spc_args &args, const spc_tile_place &place, int &k) const {
    return spc_matrix<T>::is_aligned({Config::a(args, place.batch), Config::pitch_a(args)}) ? look_at_values<true>(args, place, k)
                                                                                            : look_at_values<false>(args, place, k);
  }
  template <bool Aligned>
  __device__ __forceinline__ bool look_at_values(const spc_args &args, const spc_tile_place &place, int &k) const {
    spc_matrix<T> a = {Config::a(args, place.batch), Config::pitch_a(args)};
    const int ahead = Aligned ? runs_ahead : 1;
    bool more = true, fits = true;
    int extent = (int)Config::k(args), count = 0;
#pragma unroll 1
    while (more && fits) {
      spc_u32 chunk[ahead][rows][4];
#pragma unroll
      for (int i = 0; i < ahead; i++)
#pragma unroll
        for (int r = 0; r < rows; r++) {
          int at = k + i * sharing * run;
          spc_fetch<Aligned, true>(chunk[i][r], a.origin + (place.m0 + r) * a.pitch + at, place.m0 + r < place.m ? extent - at : 0);
        }
#pragma unroll
      for (int i = 0; i < ahead; i++)
        if (fits && more && (fits = note(chunk[i], k, count))) {
          k += sharing * run;
          more = k - spc_lane() * 8 < extent;
        }
    }
    end_list(count);
    return more;
  }
};

// ---- multiply ----------------------------------------------------------------------------------------------------
// 8 rows.  With g = lane / 4 and t = lane % 4 a lane loads the columns 8 g .. 8 g + 7, 16 bytes, of the k's 2 t, 2 t + 1,
// 2 t + 8 and 2 t + 9 among sixteen: what row g of the instruction's first operand wants, for column 8 g + j in its j'th turn,
// lies in the lane's own registers in two rows, and a permutation of bytes puts it together.  Rows of A are its columns.
template <class Config, int Rows = Config::tile_m> struct spc_kskip_sums {
  using T = typename Config::A;
  using noted_k = spc_noted<Config>;
  static constexpr int warps = noted_k::warps, step = noted_k::step, room = noted_k::room;
  static constexpr int width = 64, across = Config::tile_n / width; // columns of a warp, warps side by side
  static constexpr int groups = warps / across;                     // warps that share k
  static constexpr int steps = Config::beside == 1 ? 5 : 3;         // of loads under way: more where no other block loads meanwhile
  static_assert(Config::tile_n % width == 0 && warps % across == 0, "a warp multiplies 64 columns");

  float sum[4][4]; // column j or j + 4 of the lane's eight, rows 2 t and 2 t + 1

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int j = 0; j < 4; j++)
#pragma unroll
      for (int e = 0; e < 4; e++) sum[j][e] = 0;
  }
  // The pair of elements of column c in two rows of B.
  SPC_DEVICE spc_u32 pair(const spc_u32 (&low)[4], const spc_u32 (&high)[4], int c) {
    return __byte_perm(low[c / 2], high[c / 2], c % 2 ? 0x7632 : 0x5410);
  }
  // The pair of row g of A at two noted k's.
  SPC_DEVICE spc_u32 values_at(const noted_k &noted, int at) {
    const unsigned short *from = (const unsigned short *)(noted.values + at) + spc_lane() / 4;
    return from[0] | (spc_u32)from[8] << 16;
  }
  __device__ __forceinline__ void multiply_step(const noted_k &noted, const spc_u32 (&row)[4][4], int at) {
    int first = at + spc_lane() % 4 * 2;
    spc_u32 low = values_at(noted, first), high = values_at(noted, first + 8);
#pragma unroll
    for (int j = 0; j < 4; j++) {
      spc_u32 columns[4] = {pair(row[0], row[1], j), pair(row[0], row[1], j + 4), pair(row[2], row[3], j), pair(row[2], row[3], j + 4)};
      spc_mma(sum[j], columns, low, high, T());
    }
  }
  __device__ __forceinline__ void multiply(const noted_k &noted, const spc_args &args, const spc_tile_place &place) {
    spc_matrix<T> b = {Config::b(args, place.batch), Config::pitch_b(args)};
    if (spc_matrix<T>::is_aligned(b)) multiply_lists<true>(noted, args, b, place);
    else multiply_lists<false>(noted, args, b, place);
  }
  // What this warp has noted, or where warps lie side by side, every so many'th of them, one list after the other; of one list steps by turns.
  template <bool Aligned>
  __device__ __forceinline__ void multiply_lists(const noted_k &noted, const spc_args &args, const spc_matrix<T> &b, const spc_tile_place &place) {
    const int ahead = Aligned ? steps : 1;
    int t = spc_lane() % 4, n = place.n0 + spc_warp() % across * width + spc_lane() / 4 * 8, before[across], all = 0;
    if constexpr (noted_k::together) {
      all = ((noted.counts[0] + step - 1) / step - spc_warp() / across + groups - 1) / groups;
    } else {
#pragma unroll
      for (int l = 0; l < across; l++) {
        before[l] = all;
        all += (noted.counts[spc_warp() / across + l * groups] + step - 1) / step;
      }
    }
    spc_u32 row[ahead][4][4];
    auto place_of = [&](int number) { // of a step, among what is noted
      if (noted_k::together) return (number * groups + spc_warp() / across) * step;
      int at = 0;
#pragma unroll
      for (int l = 0; l < across; l++)
        if (number >= before[l]) at = (spc_warp() / across + l * groups) * room + (number - before[l]) * step;
      return at;
    };
    auto load = [&](int i, int number) {
      const int *k_of = noted.k_of + place_of(number) + 2 * t;
#pragma unroll
      for (int q = 0; q < 4; q++) {
        int k = number < all ? k_of[q % 2 + q / 2 * 8] : -1;
        spc_fetch<Aligned, false>(row[i][q], b.origin + (long long)max(k, 0) * b.pitch + n, k < 0 ? 0 : place.n - n);
      }
    };
    auto load_first = [&] {
#pragma unroll
      for (int i = 0; i < ahead; i++) load(i, i);
    };
    if constexpr (noted_k::together) {
      noted.bring_values_of_all(args, place, load_first);
    } else {
      load_first();
      if constexpr (Config::noted) noted.bring_values(args, place);
      if (across > 1) __syncthreads();
      else __syncwarp();
    }
#pragma unroll 1
    for (int number = 0; number < all; number += ahead) {
#pragma unroll
      for (int i = 0; i < ahead; i++) { // a step's registers are loaded again as soon as they are used
        if (number + i < all) multiply_step(noted, row[i], place_of(number + i));
        load(i, number + i + ahead);
      }
    }
  }
  __device__ __forceinline__ void leave(float *partial) const { // [group][row][column]
    int column = spc_warp() % across * width + spc_lane() / 4 * 8, first = spc_warp() / across * 8 + spc_lane() % 4 * 2;
#pragma unroll
    for (int j = 0; j < 4; j++)
#pragma unroll
      for (int e = 0; e < 4; e++) partial[(first + e % 2) * Config::tile_n + column + j + e / 2 * 4] = sum[j][e];
  }
};

// One row: a k is read by as many lanes as the tile has eights of columns.
template <class Config> struct spc_kskip_sums<Config, 1> {
  using T = typename Config::A;
  using noted_k = spc_noted<Config>;
  static constexpr int across = 1, lanes = Config::tile_n / 8, at_once = 32 / lanes, groups = noted_k::warps * at_once, loads = 8;
  static_assert(Config::tile_n == 64 || Config::tile_n == 32, "eight or four lanes multiply the columns");

  float sum[8];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int c = 0; c < 8; c++) sum[c] = 0;
  }
  __device__ __forceinline__ void multiply(const noted_k &noted, const spc_args &args, const spc_tile_place &place) {
    if constexpr (Config::noted) noted.bring_values(args, place);
    __syncwarp();
    spc_matrix<T> b = {Config::b(args, place.batch), Config::pitch_b(args)};
    if (spc_matrix<T>::is_aligned(b)) multiply_list<true>(noted, b, place);
    else multiply_list<false>(noted, b, place);
  }
  template <bool Aligned>
  __device__ __forceinline__ void multiply_list(const noted_k &noted, const spc_matrix<T> &b, const spc_tile_place &place) {
    const int ahead = Aligned ? loads : 1;
    int n = place.n0 + spc_lane() % lanes * 8, count = noted.counts[spc_warp()], list = spc_warp() * noted_k::room;
    spc_u32 row[ahead][4];
    float x[ahead];
    auto load = [&](int i, int at) {
      int k = at < count ? noted.k_of[list + at] : -1;
      spc_fetch<Aligned, false>(row[i], b.origin + (long long)max(k, 0) * b.pitch + n, k < 0 ? 0 : place.n - n);
      x[i] = k < 0 ? 0 : spc_get(T{noted.values[list + at]});
    };
    int mine = spc_lane() / lanes;
#pragma unroll
    for (int i = 0; i < ahead; i++) load(i, mine + i * at_once);
#pragma unroll 1
    for (int first = 0; first < count; first += ahead * at_once)
#pragma unroll
      for (int i = 0; i < ahead; i++) {
#pragma unroll
        for (int c = 0; c < 8; c++) sum[c] += x[i] * spc_get(T{(unsigned short)(row[i][c / 2] >> c % 2 * 16)});
        load(i, first + mine + (i + ahead) * at_once);
      }
  }
  __device__ __forceinline__ void leave(float *partial) const { // [group][column]
    float *to = partial + (int)threadIdx.x / lanes * Config::tile_n + spc_lane() % lanes * 8;
#pragma unroll
    for (int c = 0; c < 8; c += 4) *(float4 *)(to + c) = make_float4(sum[c], sum[c + 1], sum[c + 2], sum[c + 3]);
  }
};

// The blocks' sums are added up in their order, a share of the tile by each of them.
template <class Config> SPC_DEVICE void spc_skip_share(const spc_args &args, const spc_tile_place &place, spc_u32 sums) {
  const int all = Config::tile_m * Config::tile_n;
  ptx_cluster_sync();
#pragma unroll 1
  for (int i = ptx_cluster_rank() * Config::threads + (int)threadIdx.x; i < all; i += Config::split * Config::threads) {
    int m = place.m0 + i / Config::tile_n, n = place.n0 + i % Config::tile_n;
    if (m >= place.m || n >= place.n) continue;
    float sum = 0;
#pragma unroll
    for (int r = 0; r < Config::split; r++) sum += ptx_cluster_load(ptx_cluster_address(sums + i * 4, r));
    spc_skip_store<Config>(args, place, m, n, Config::epilogue(args, sum, m, n, place.batch));
  }
  ptx_cluster_sync(); // nobody reads here any more
}

// ---- whether to look -----------------------------------------------------------------------------------------------
// What a warp has found: k's that hold something, of how many in the upper half.
template <class Config> SPC_DEVICE bool spc_found_says_dense(const spc_args &args, spc_u32 found) {
  const int warps = Config::threads / 32;
  __shared__ spc_u32 sampled[warps];
  if (threadIdx.x % 32 == 0) sampled[threadIdx.x / 32] = found;
  __syncthreads();
  found = 0;
#pragma unroll
  for (int w = 0; w < warps; w++) found += sampled[w];
  return spc_decide<Config>(args, found & 0xffffu, found >> 16, Config::threshold(args));
}
// Whether A holds so much that dense is meant: from runs of 8 k's of a tile's rows, one out of each of as many equal shares of A, four threads a run.
// All blocks look at the same places, so all come to the same verdict and none waits for another; where the values come from memory, what the block
// looks at first comes with them.
template <class Config, bool Aligned> SPC_DEVICE bool spc_values_say_dense(const spc_args &args, const spc_tile_place &place) {
  using noted_k = spc_noted<Config>;
  const int rows = Config::tile_m, run = 8, across = 4, each = rows / across, shares = Config::threads / across;
  const spc_matrix<typename Config::A> a = {Config::a(args, place.batch), Config::pitch_a(args)};
  const int m = (int)Config::m(args), extent = (int)Config::k(args), strips = (m + rows - 1) / rows, wide = (extent + run - 1) / run;
  const spc_u32 all = (spc_u32)strips * (spc_u32)wide, share = threadIdx.x / across;
  const spc_u32 first = (spc_u32)((spc_u64)all * share / shares), last = (spc_u32)((spc_u64)all * (share + 1) / shares);
  const spc_u32 at = first + (last > first ? (spc_hash(share) >> 16) % (last - first) : 0); // anywhere in the share
  const int m0 = (int)(at % (spc_u32)strips) * rows + (int)threadIdx.x % across * each, k = (int)(at / (spc_u32)strips) * run, inside = last > first ? min(run, extent - k) : 0;
  spc_u32 chunk[each][4];
#pragma unroll
  for (int r = 0; r < each; r++) spc_fetch<Aligned, true>(chunk[r], a.origin + (m0 + r) * a.pitch + k, m0 + r < m ? inside : 0);
  if (Aligned) noted_k::ask_ahead(a, place, extent);
  int mask = noted_k::mask_of(chunk);
#pragma unroll
  for (int d = 1; d < across; d *= 2) mask |= __shfl_xor_sync(~0u, mask, d);
  spc_u32 found = __reduce_add_sync(~0u, threadIdx.x % across == 0 ? (spc_u32)__popc((spc_u32)mask) | (spc_u32)inside << 16 : 0u);
  return spc_found_says_dense<Config>(args, found);
}
// The same where bits say which k's there are: of up to four words a thread, which are all of them where the strip is no longer.
template <class Config> SPC_DEVICE bool spc_bits_say_dense(const spc_args &args) {
  const int each = 4, extent = (int)Config::k(args), words = (extent + 31) / 32;
  const spc_u32 all = (spc_u32)(words * (((int)Config::m(args) + Config::strip - 1) / Config::strip)), count = min(all, (spc_u32)(each * Config::threads));
  spc_u32 found = 0;
#pragma unroll
  for (int j = 0; j < each; j++) {
    const spc_u32 number = threadIdx.x + j * Config::threads;
    if (number >= count) continue;
    const spc_u32 at = (spc_u32)((spc_u64)all * number / count);
    const int strip = (int)(at / (spc_u32)words), word = (int)(at % (spc_u32)words), inside = min(32, extent - word * 32);
    const spc_u32 set = Config::bits(args)[strip * Config::bit_words(args) + word];
    found += (spc_u32)__popc(inside < 32 ? set & ((1u << inside) - 1) : set) | (spc_u32)inside << 16;
  }
  return spc_found_says_dense<Config>(args, __reduce_add_sync(~0u, found));
}
template <class Config> SPC_DEVICE bool spc_looks_in_vain(const spc_args &args, const spc_tile_place &place) {
  if constexpr (!Config::takes_sample) return false;
  else if constexpr (Config::noted) return spc_bits_say_dense<Config>(args);
  else if (spc_matrix<typename Config::A>::is_aligned({Config::a(args, place.batch), Config::pitch_a(args)})) return spc_values_say_dense<Config, true>(args, place);
  else return spc_values_say_dense<Config, false>(args, place);
}

template <class Config> SPC_DEVICE bool spc_leaves(const spc_args &args, const spc_tile_place &place) {
  const bool dense = spc_not_meant<Config>(args) || spc_looks_in_vain<Config>(args, place);
  spc_announce<Config>(dense);
  return dense;
}

template <class Config> SPC_DEVICE void spc_kskip(const spc_args &args) {
  using noted_k = spc_noted<Config>;
  using all_sums = spc_kskip_sums<Config>;
  const int all = Config::tile_m * Config::tile_n;
  static_assert(Config::layout_b == 'r', "a row of B is a k");
  static_assert(Config::shared_bytes >= noted_k::bytes && noted_k::bytes >= all_sums::groups * all * 4, "what is noted and the sums need room");
  extern __shared__ __align__(1024) char spc_shared[];
  __shared__ int counts[noted_k::warps];
  spc_tile_place place = spc_place_tile<Config>(args, blockIdx.x / Config::split);
  noted_k noted(spc_shared, counts);
  all_sums sums;
  spc_skip_waits<Config>();
  if constexpr (noted_k::together) {
    typename noted_k::words set = noted.words_from(args, place, 0); // with the verdict
    if (spc_leaves<Config>(args, place)) return;
    int word = 0;
    sums.clear();
#pragma unroll 1
    for (bool more = true; more;) {
      more = noted.note_words(args, set, word);
      sums.multiply(noted, args, place);
      if (!more) continue;
      __syncthreads(); // what is noted may be written over
      set = noted.words_from(args, place, word);
    }
  } else {
    if (spc_leaves<Config>(args, place)) return;
    int at = Config::noted ? 0 : spc_sharing_warp<Config>() * noted_k::run + spc_lane() * 8; // a turn, or a k
    sums.clear();
#pragma unroll 1
    for (bool more = true; more;) {
      if constexpr (Config::noted) more = noted.look_at_bits(args, place, at);
      else more = noted.look(args, place, at);
      if (all_sums::across > 1) more = __syncthreads_or(more);
      else __syncwarp();
      sums.multiply(noted, args, place);
      if (all_sums::across > 1) __syncthreads(); // what is noted may be written over
      else __syncwarp();
    }
  }
  __syncthreads();
  float *partial = (float *)spc_shared;
  sums.leave(partial);
  __syncthreads();
#pragma unroll 1
  for (int i = (int)threadIdx.x; i < all; i += Config::threads) {
    int m = place.m0 + i / Config::tile_n, n = place.n0 + i % Config::tile_n;
    if (m >= place.m || n >= place.n) continue;
    float sum = 0;
#pragma unroll
    for (int g = 0; g < all_sums::groups; g++) sum += partial[g * all + i];
    if (Config::split > 1) partial[i] = sum;
    else spc_skip_store<Config>(args, place, m, n, Config::epilogue(args, sum, m, n, place.batch));
  }
  if constexpr (Config::split > 1) spc_skip_share<Config>(args, place, spc_shared_address(partial));
}
