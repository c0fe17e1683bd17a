// nbulk.cuh - the columns of few rows that are asked for (nskip.cuh), their rows of B brought by bulk copies.
//
//     a block    8 rows of A, an even share of all columns, of which it lists those that are asked for, a window at a time
//     rows of A  come to shared memory before the first rows of B, and stay there
//     rows of B  16 listed ones by 1024 k's fill a slot of a ring; a lane a warp starts copies of 2 KB, so all slots are on
//                their way at once, and no register waits for them
//     multiply   warps take 32 k's of a slot by turns, 16 columns by 8 rows, mma.sync; sums in shared memory, in the warps' order
//
// Copies need rows of whole 16 bytes, and A's eight rows must leave room for two slots: else columns are read by loads into
// registers.  The next launch may come when a block knows that dense is not meant, not before: a dense kernel has fewer blocks than there
// are multiprocessors, and would get those that happen to be left first, which share their paths to memory.
// A row's pitch in shared memory is 64 bytes more than a multiple of 128: what eight lanes read at once meets no bank twice.
#pragma once
#include "spc/nskip.cuh"
#include "spc/tma.cuh"

template <class Config> struct spc_bulk_rows {
  using T = typename Config::A;
  using stream = typename spc_nskip_part<Config>::stream;
  static constexpr int width = spc_skip_part<Config>::tile_n, tile = Config::tile_m * width, chunk = Config::tile_k;
  static constexpr int each = 4, window = each * Config::threads; // columns that are listed at once
  static constexpr int row_bytes = chunk * 2 + 64, slot_bytes = width * row_bytes, most_slots = 6;
  static constexpr int listed_at = stream::warps * tile * 4, barriers_at = listed_at + window * 4, a_at = barriers_at + 128;
  static_assert(chunk % stream::step == 0 && sizeof(T) == 2, "all warps have turns of a slot");

  spc_u32 shared;      // the window's address
  int k, chunks;       // of a row
  int a_bytes, slots;  // of a row of A in shared memory; 0: loads into registers
  int filled;          // the slot that is filled next
  int slot, phase;     // that is multiplied next; of its barrier
  int brought;         // times that A has come

  __device__ __forceinline__ spc_bulk_rows(const spc_args &args, char *room, bool aligned) : shared(spc_shared_address(room)), filled(0), slot(0), phase(0), brought(0) {
    k = (int)Config::k(args), chunks = (k + chunk - 1) / chunk, a_bytes = (k * 2 + 127) / 128 * 128 + 64;
    slots = aligned && k > 0 && k % 8 == 0 ? min((Config::shared_bytes - a_at - Config::tile_m * a_bytes) / slot_bytes, most_slots) : 0;
    if (slots < 2) slots = 0;
  }
  __device__ __forceinline__ spc_u32 full(int slot) const { return shared + barriers_at + slot * 8; }
  __device__ __forceinline__ spc_u32 a_full() const { return full(most_slots); }
  __device__ __forceinline__ spc_u32 slot_at(int slot) const { return shared + a_at + Config::tile_m * a_bytes + slot * slot_bytes; }

  // By one thread, before the others come.
  __device__ __forceinline__ void begin() const {
    for (int i = 0; i <= most_slots; i++) ptx_barrier_init(full(i), 1);
    ptx_fence_barrier_init();
  }
  // Rows of A behind the last are the last, and never looked at.  A thread starts one copy after the other: the warps' first ones do.
  __device__ __forceinline__ void bring_a(const spc_args &args, const spc_tile_place &place) const {
    if (threadIdx.x == 0) ptx_barrier_expect(a_full(), Config::tile_m * k * 2);
    if (threadIdx.x % 32) return;
    for (int r = (int)threadIdx.x / 32; r < Config::tile_m; r += stream::warps)
      ptx_bulk_load(shared + a_at + r * a_bytes, Config::a(args, place.batch) + min(place.m0 + r, place.m - 1) * Config::pitch_a(args), k * 2, a_full());
  }
  // The next slot: of the window's columns from `first` on the k's from `at` on.
  struct part { int first, at; };
  __device__ __forceinline__ void bring(const spc_args &args, const spc_tile_place &place, const int *listed, int count, part &p) {
    const int bytes = min(chunk, k - p.at) * 2, there = min(width, count - p.first);
    if (there <= 0) return;
    if (threadIdx.x == 0) ptx_barrier_expect(full(filled), there * bytes);
    if (threadIdx.x % 32 == 0)
      for (int r = (int)threadIdx.x / 32; r < there; r += stream::warps)
        ptx_bulk_load(slot_at(filled) + r * row_bytes, Config::b(args, place.batch) + listed[p.first + r] * Config::pitch_b(args) + p.at, bytes, full(filled));
    if (++filled == slots) filled = 0;
    next(p);
  }
  __device__ __forceinline__ void next(part &p) const {
    p.at += chunk;
    if (p.at >= k) p.at = 0, p.first += width;
  }
  // 1024 k's from `at` on; rows of B that were not brought are multiplied as they lie, and nobody looks.
  __device__ __forceinline__ void multiply(stream &sums, int at) const {
    int g = (int)threadIdx.x % 32 / 4, mine = (int)threadIdx.x / 32 * 32 + (int)threadIdx.x % 4 * 8, extent = min(chunk, k - at);
    spc_u32 a = shared + a_at + g * a_bytes + at * 2, b = slot_at(slot) + g * row_bytes;
#pragma unroll
    for (int s = 0; s < chunk; s += stream::step) {
      typename stream::turn t = {};
      if (s + mine < extent) {
        ptx_load_shared_128(t.a, a + (s + mine) * 2);
#pragma unroll
        for (int i = 0; i < 2; i++) ptx_load_shared_128(t.b[i], b + i * 8 * row_bytes + (s + mine) * 2);
      }
      sums.multiply(t);
    }
  }
  // The columns of a window, of a strip's first one: A comes with them.  clear: what is to be done while the first are on their way.
  template <class Clear>
  __device__ __forceinline__ void columns(const spc_args &args, const spc_tile_place &place, const int *listed, int count, float *partial, bool begins, Clear clear) {
    stream sums;
    part ahead = {0, 0}, now = {0, 0};
    if (begins) bring_a(args, place), brought++;
#pragma unroll 1
    for (int i = 0; i < slots; i++) bring(args, place, listed, count, ahead);
    clear();
    ptx_barrier_wait(a_full(), (brought - 1) & 1);
#pragma unroll 1
    for (bool read = false; now.first < count;) {
      ptx_barrier_wait(full(slot), phase);
      if (read) {
        __syncthreads(); // the slot before has been read by all
        bring(args, place, listed, count, ahead);
      }
      if (now.at == 0) sums.sum[0] = sums.sum[1] = sums.sum[2] = sums.sum[3] = 0;
      multiply(sums, now.at);
      if (++slot == slots) slot = 0, phase ^= 1;
      const int first = now.first;
      next(now);
      read = now.first == first;
      if (read) continue;
      sums.each([&](int r, int column, float sum) { partial[(int)threadIdx.x / 32 * tile + r * width + column] = sum; });
      __syncthreads();
      bring(args, place, listed, count, ahead); // while sums become values
      spc_store_listed<Config>(args, place, listed, first, count, partial);
      if (chunks == 1) __syncthreads(); // else the next slot but one is waited for by all before sums are left again
    }
    __syncthreads(); // slots and list may be filled again
  }
};

// Blocks by turns have the strips of 8 rows and their shares of columns, in words of bits.
template <class Config> SPC_DEVICE void spc_nbulk(const spc_args &args) {
  using rows = spc_bulk_rows<Config>;
  static_assert(Config::tile_n == 32, "a share is words of bits");
  extern __shared__ __align__(1024) char spc_shared[];
  float *partial = (float *)spc_shared; // [warp][row][column]
  int *listed = (int *)(spc_shared + rows::listed_at);
  if (spc_not_meant<Config>(args)) return;
  spc_tile_place place = {0, 0, (int)Config::m(args), (int)Config::n(args), 0};
  const int strips = (place.m + Config::tile_m - 1) / Config::tile_m, words = (place.n + 31) / 32;
  const int shares = max(min((int)gridDim.x / max(strips, 1), words), 1);
  rows all(args, spc_shared, spc_rows_aligned<Config>(args, place));
  if (threadIdx.x == 0) all.begin();
  __syncthreads();
  // A window; false: dense is meant.
  auto run = [&](auto found, int end, bool begins) {
    auto clear = [&] { spc_clear_columns<Config>(args, place, end, found); };
    if (found.count < 0) return false;
    ptx_release_grid();
    if (all.slots) {
      all.columns(args, place, listed, found.count, partial, begins, clear);
    } else {
      clear();
      spc_nskip_columns<Config>(args, place, listed, found.count, partial, spc_rows_aligned<Config>(args, place));
    }
    return true;
  };
  bool asks = true, sparse = true;
#pragma unroll 1
  for (int job = (int)blockIdx.x; job < strips * shares && sparse; job += (int)gridDim.x) {
    const int share = job / strips, end = min((int)((long long)words * (share + 1) / shares) * 32, place.n);
    place.m0 = job % strips * Config::tile_m;
    const int begin = (int)((long long)words * share / shares) * 32;
#pragma unroll 1
    for (place.n0 = begin; place.n0 < end && sparse; place.n0 += rows::window, asks = false) {
      const int until = min(place.n0 + rows::window, end);
      const bool begins = place.n0 == begin;
      sparse = asks ? run(spc_find_columns<Config, rows::each, Config::takes_sample>(args, place, until, listed), until, begins)
                    : run(spc_find_columns<Config, rows::each, false>(args, place, until, listed), until, begins);
    }
  }
}
