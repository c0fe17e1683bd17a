// gemm_tma.cuh - products in persistent blocks with roles (sm_90a): boxes by tensor map, wgmma.
//
//     one thread     for each tile:  wait empty[s], start the copies of a k tile into slot s           (full[s])
//     (a warpgroup, where a list names k's or columns of the result: rows by cp.async, gathered.cuh, sampled.cuh;
//      where an operand must be turned or split: boxes, then both, turned.cuh; a warp, where A is stored in blocks, bsr.cuh)
//     warpgroups     for each tile:  wait full[s], multiply, arrive at empty[s] | epilogue: stage, store
//
// A block walks tiles number blockIdx.x, + gridDim.x, ...  Its copies run ahead into the next tile while the
// epilogue of the last runs, and warpgroups wait for slots and for nothing else, not for each other: while one
// is in its epilogue another multiplies.  What the fragment reads at the result's own place (a residual) comes to where the
// values are staged while a tile is multiplied, as far as there is room; the rest through the ring, behind the k tiles.
// Rows and columns outside an operand arrive as zeros and are not stored, so m, n and k are free; rows of operands must start
// at multiples of 16 bytes.
// Where k is split (split.cuh), `split` blocks in a cluster share a tile, and there is a cluster for each tile.
#pragma once
#include "spc/blocks.cuh"
#include "spc/bsr.cuh"
#include "spc/fill.cuh"
#include "spc/gathered.cuh"
#include "spc/gemm.cuh"
#include "spc/group_place.cuh"
#include "spc/group_rows.cuh"
#include "spc/ring.cuh"
#include "spc/rows.cuh"
#include "spc/sampled.cuh"
#include "spc/split.cuh"
#include "spc/store_tma.cuh"
#include "spc/turned.cuh"

template <class Config> SPC_DEVICE spc_box_batch spc_batch_of(const spc_args &args, const spc_tile_place &place) {
  spc_box_batch g = {{0, 0, 0}};
#pragma unroll
  for (int d = 0; d < Config::batches_mapped; d++) g.at[d] = (int)Config::batch_at(args, place.batch, d);
  return g;
}

// What the fragment reads at the result's own place, behind the k tiles.
template <class Config>
SPC_DEVICE void spc_box_load_place(spc_u32 shared, const spc_args &args, const spc_tensor_maps &maps,
                                   const spc_tile_place &place, spc_box_batch batch, spc_box_ring<Config> &at) {
  using ring = spc_box_ring<Config>;
  using store = spc_box_store<Config>;
  if constexpr (Config::reads_place && store::place_slots > 0) {
#pragma unroll 1
    for (int i = 0; i < store::place_slots; i++, at.advance()) {
      spc_u32 slot = shared + at.slot * at.sizes.bytes(), full = ring::full(shared, at.slot);
      ptx_barrier_wait(ring::empty(shared, at.slot), at.phase);
      store::load_place(i, slot, &maps.map[3], full, args, place, batch);
    }
  }
}

// The same by a whole warp, one thread of which leads.
template <class Config>
SPC_DEVICE void spc_box_warp_load_place(spc_u32 shared, const spc_args &args, const spc_tensor_maps &maps, const spc_tile_place &place, spc_box_ring<Config> &at,
                                        bool leads) {
  if (leads) spc_box_load_place<Config>(shared, args, maps, place, {{0, 0, 0}}, at);
  else if (Config::reads_place)
    for (int i = 0; i < spc_box_store<Config>::place_slots; i++) at.advance();
  __syncwarp();
}

// What waits where the values will go, and takes no slot.  `parity`: of the tile before.
template <class Config>
SPC_DEVICE void spc_box_load_staged(spc_u32 shared, const spc_args &args, const spc_tensor_maps &maps, const spc_tile_place &place,
                                    spc_box_batch batch, int parity) {
  using ring = spc_box_ring<Config>;
  if constexpr (spc_stages_place<Config>) {
    ptx_barrier_wait(ring::place_empty(shared), parity);
    spc_box_store<Config>::load_staged(shared + ring::staged_at, &maps.map[3], ring::place_full(shared), args, place, batch);
  }
}
// The k tile beside which who multiplies frees the room: of flags later, for nobody is in a hurry, and what was stored last has been read by then.
template <class Config> constexpr int spc_place_freed = spc_stages_flags<Config> ? 5 : 1;
// That behind whose loads what lies at the place is asked for: the room is free by then, so the loads wait for nothing.
template <class Config> SPC_DEVICE int spc_place_behind(int steps) { return min(Config::depth + 1 + spc_place_freed<Config>, steps - 1); }

template <class Config>
SPC_DEVICE void spc_box_load_role(spc_u32 shared, const spc_args &args, const spc_tensor_maps &maps, bool all) {
  using ring = spc_box_ring<Config>;
  int steps = ((int)Config::k(args) + Config::tile_k - 1) / Config::tile_k;
  spc_k_share share = spc_share_of_k<Config>(steps);
  if (Config::split > 1 && share.begin == share.end) share = {steps, steps + 1}; // none: zeros, from outside
  ring at = {0, 1};
  int parity = 1; // of the tile before
  spc_walk_of<Config> walk(args, all);
  spc_tile_place place;
#pragma unroll 1
  for (; walk.next(args, place); parity ^= 1) {
    spc_box_batch batch = spc_batch_of<Config>(args, place);
    spc_k_order<Config> order(args, place, all);
    if constexpr (Config::k_blocks) share.end = max(spc_k_tiles<Config>(place, args, all), 1);
    const int boxes_a = ring::panel_a::inside(place.m - place.m0), boxes_b = ring::panel_b::inside(place.n - place.n0);
    const int brought = boxes_a * ring::panel_a::box_bytes + boxes_b * ring::panel_b::box_bytes;
#pragma unroll 1
    for (int i = share.begin; i < share.end; i++, at.advance()) {
      int k = order.next(i);
      spc_u32 slot = shared + at.slot * ring::slot_bytes, full = ring::full(shared, at.slot);
      ptx_barrier_wait(ring::empty(shared, at.slot), at.phase);
      ptx_barrier_expect(full, brought);
      ring::panel_a::load_inside(boxes_a, slot, &maps.map[0], full, place.m0, k, batch);
      ring::panel_b::load_inside(boxes_b, slot + ring::panel_a::bytes, &maps.map[1], full, place.n0, k, batch);
      if (spc_stages_place<Config> && i == share.begin + spc_place_behind<Config>(share.end - share.begin))
        spc_box_load_staged<Config>(shared, args, maps, place, batch, parity);
    }
    if (spc_stages_place<Config> && share.begin == share.end) spc_box_load_staged<Config>(shared, args, maps, place, batch, parity);
    spc_box_load_place<Config>(shared, args, maps, place, batch, at);
  }
}

// Flags of a tile of listed runs (spc_box_load_staged).
template <class Config>
SPC_DEVICE void spc_box_pick_staged(spc_u32 shared, const spc_tensor_maps &maps, const spc_tile_place &place, const spc_listed_boxes<Config> &listed, int parity) {
  using ring = spc_box_ring<Config>;
  using store = spc_box_store<Config>;
  const spc_u32 full = ring::place_full(shared);
  ptx_barrier_wait(ring::place_empty(shared), parity);
  ptx_barrier_expect(full, listed.brought * store::sharing * store::place_bytes);
#pragma unroll
  for (int r = 0; r < listed.runs; r++)
    for (int group = 0; group < store::sharing && r < listed.brought; group++)
      ptx_tma_load<0>(shared + ring::staged_at + group * store::held * store::panel::bytes + r * store::place_bytes, &maps.map[3], full, listed.column[r], place.m0 + group * 64, {{0, 0, 0}});
}

// The same where a list names the columns of the result: by a whole warp, one thread of which loads.
template <class Config>
SPC_DEVICE void spc_box_pick_role(spc_u32 shared, char *base, const spc_args &args, const spc_tensor_maps &maps, bool all) {
  using ring = spc_box_ring<Config>;
  int steps = max(((int)Config::k(args) + Config::tile_k - 1) / Config::tile_k, 1);
  const bool leads = ptx_elect();
  ring at = {0, 1}; // who leads has it
  spc_walk_of<Config> walk(args, all);
  if constexpr (Config::narrow > 0) at.sizes = walk.sizes();
  int parity = 1; // of the tile before
  spc_tile_place place;
#pragma unroll 1
  for (; walk.next(args, place); parity ^= 1) {
    const spc_listed_boxes<Config> listed(args, place, all);
    const bool wide = Config::own_dense && all && !listed.rows_are_k; // B's rows are one box
    const spc_k_share share = spc_share_at_hand<Config>(walk, steps);
#pragma unroll
    for (int r = 0; r < listed.runs; r++) place.run[r] = listed.column[r];
    if (leads) {
#pragma unroll 1
      for (int i = share.begin; i < share.end; i++, at.advance()) {
        spc_u32 slot = shared + at.slot * at.sizes.bytes(), full = ring::full(shared, at.slot);
        ptx_barrier_wait(ring::empty(shared, at.slot), at.phase);
        if constexpr (spc_notes_places<Config>)
          if (i == share.begin) {
            int4 *note = ring::note(base, at.slot);
            note[0] = make_int4(place.m0, place.n0, place.n, 4 | walk.mine.noted()), note[1] = make_int4(place.run[0], place.run[1], place.run[2], place.run[3]);
          }
        ptx_barrier_expect(full, ring::panel_a::bytes + (wide ? ring::panel_b::bytes : listed.bytes()));
        ring::panel_a::load(slot, &maps.map[0], full, place.m0, i * Config::tile_k, {{0, 0, 0}});
        if (wide) ring::panel_b::load(slot + ring::panel_a::bytes, &maps.map[4], full, place.n0, i * Config::tile_k, {{0, 0, 0}});
        else listed.load(slot + ring::panel_a::bytes, &maps.map[1], full, i * Config::tile_k);
        if constexpr (spc_stages_flags<Config>)
          if (i == share.begin + spc_place_behind<Config>(share.end - share.begin)) spc_box_pick_staged<Config>(shared, maps, place, listed, parity);
      }
    }
    __syncwarp();
    spc_box_warp_load_place<Config>(shared, args, maps, place, at, leads);
  }
  if (spc_notes_places<Config> && leads) { // that there are no more
    ptx_barrier_wait(ring::empty(shared, at.slot), at.phase);
    *ring::note(base, at.slot) = make_int4(0, 0, 0, 0);
    ptx_barrier_arrive(ring::full(shared, at.slot));
  }
}

// The same where A is stored in blocks: by a whole warp, which looks at a stretch of k tiles at once (bsr.cuh).  The two runs of 64 rows have
// blocks of their own: k tiles of a stretch that the first has alone come first, then those of both, then the second's, so that each of the
// two warpgroups multiplies k tiles that follow one another.  How many there are of each, and whether another stretch follows, lies beside
// the stretch's first slot.  Where k is split the blocks of a cluster take a stretch's k tiles by turns.
template <class Config>
SPC_DEVICE void spc_box_blocks_role(spc_u32 shared, char *base, const spc_args &args, const spc_tensor_maps &maps) {
  using ring = spc_box_ring<Config>;
  using panel_a = typename ring::panel_a;
  const bool leads = (threadIdx.x & 31) == 0;
  ring at = {0, 1};
  spc_walk_of<Config> walk(args, false);
  spc_tile_place place;
#pragma unroll 1
  while (walk.next(args, place)) {
    spc_bsr_walk<Config, 2> blocks(args, place.m0);
#pragma unroll 1
    do {
      blocks.next(args);
      spc_u32 first = ptx_ballot(blocks.at[0] >= 0), second = ptx_ballot(blocks.at[1] >= 0);
      if constexpr (Config::split > 1) {
        const int number = __popc((first | second) & ((1u << (threadIdx.x & 31)) - 1));
        const spc_u32 mine = ptx_ballot(number % Config::split == ptx_cluster_rank());
        first &= mine, second &= mine;
      }
      spc_u32 left = first & ~second, then = first & second, last = second & ~first;
      int4 note = make_int4(__popc(left), __popc(then), __popc(last), blocks.more);
      bool noted = false;
#pragma unroll 1
      while (left | then | last | (spc_u32)!noted) { // of nothing too there is a slot
        if (!left) left = then, then = last, last = 0;
        if (!left) left = then, then = 0;
        const int i = left ? __ffs((int)left) - 1 : 0, k = (blocks.first + i) * Config::tile_k;
        const int block[2] = {__shfl_sync(0xffffffffu, blocks.at[0], i), __shfl_sync(0xffffffffu, blocks.at[1], i)};
        left &= left - 1;
        if (leads) {
          spc_u32 slot = shared + at.slot * ring::slot_bytes, full = ring::full(shared, at.slot);
          ptx_barrier_wait(ring::empty(shared, at.slot), at.phase);
          if (!noted) *ring::note(base, at.slot) = note;
          if (block[0] < 0 && block[1] < 0) {
            ptx_barrier_arrive(full);
          } else {
            ptx_barrier_expect(full, ((block[0] >= 0) + (block[1] >= 0)) * panel_a::half_bytes + ring::panel_b::bytes);
#pragma unroll
            for (int r = 0; r < 2; r++) {
              const int m = place.m0 + r * spc_run;
              if (block[r] >= 0)
                ptx_tma_load<0>(slot + r * panel_a::half_bytes, &maps.map[0], full, spc_bsr_x<Config>(m, k), spc_bsr_y<Config>(m, k, block[r]), {{0, 0, 0}});
            }
            ring::panel_b::load(slot + panel_a::bytes, &maps.map[1], full, place.n0, k, {{0, 0, 0}});
          }
        }
        noted = true;
        at.advance();
        __syncwarp();
      }
    } while (blocks.more);
    spc_box_warp_load_place<Config>(shared, args, maps, place, at, leads);
  }
}

// The same where operands are turned or split: the boxes run `ahead` k tiles ahead of that.
template <class Config> struct spc_box_starter {
  using ring = spc_box_ring<Config>;
  ring at;
  spc_walk_of<Config> walk;
  spc_tile_place place;
  int steps, i;
  bool more;

  __device__ __forceinline__ spc_box_starter(const spc_args &args, int k_tiles) : at{0, 1}, walk(args, false), steps(k_tiles), i(0) {
    more = walk.next(args, place);
  }
  // The next k tile; by one thread, the others keep count.
  __device__ __forceinline__ void next(spc_u32 shared, const spc_args &args, const spc_tensor_maps &maps, bool starts) {
    if (!more) return;
    if (starts) {
      spc_u32 slot = shared + at.slot * ring::slot_bytes, raw = ring::raw(shared, at.slot);
      spc_box_batch batch = spc_batch_of<Config>(args, place);
      ptx_barrier_wait(ring::empty(shared, at.slot), at.phase);
      ptx_barrier_expect(raw, spc_boxes<Config>::brought_bytes);
      ring::panel_a::load(slot, &maps.map[0], raw, place.m0, i * Config::tile_k, batch);
      ring::panel_b::load(slot + ring::panel_a::bytes, &maps.map[1], raw, place.n0, i * Config::tile_k, batch);
    }
    at.advance();
    if (++i == steps) i = 0, more = walk.next(args, place);
  }
};

template <class Config> SPC_DEVICE void spc_box_prepare_role(spc_u32 shared, const spc_args &args, const spc_tensor_maps &maps) {
  using ring = spc_box_ring<Config>;
  using prepares = spc_prepares<Config>;
  int thread = (int)threadIdx.x % 64, half = (int)threadIdx.x / 64 % 2, number = 0; // of the k tile among the block's
  int steps = ((int)Config::k(args) + Config::tile_k - 1) / Config::tile_k;
  int left = ((int)Config::tiles(args) - (int)spc_first_tile<Config>(args) + (int)gridDim.x - 1) / (int)gridDim.x * steps;
  spc_box_starter<Config> starter(args, steps);
#pragma unroll 1
  for (int i = 0; i < prepares::ahead; i++) starter.next(shared, args, maps, thread == 0 && i % 2 == half);
  ring at = {0, 0};
#pragma unroll 1
  for (; number < left; number++, at.advance()) {
    bool mine = number % 2 == half;
    if (mine) {
      spc_u32 slot = shared + at.slot * ring::slot_bytes;
      ptx_barrier_wait(ring::raw(shared, at.slot), at.phase);
      using turner_a = spc_turner<Config, typename ring::panel_a>;
      using turner_b = spc_turner<Config, typename ring::panel_b>;
      turner_a::template run<prepares::turns_a, false>(slot, thread, half);
      turner_b::template run<prepares::turns_b, (Config::parts > 1)>(slot + ring::panel_a::bytes, thread, half);
      ptx_fence_async_shared();
      __syncwarp();
      if (thread % 32 == 0) ptx_barrier_arrive(ring::full(shared, at.slot));
    }
    starter.next(shared, args, maps, thread == 0 && mine);
    __syncwarp();
  }
}

// The same where a list names rows: every thread of the warpgroup copies its share of them, and one starts the boxes of
// an operand that has no listed rows, or is packed.
template <class Config, int Which = Config::samples ? 1 : Config::regroups ? 2 : Config::grouped ? 3 : 0> struct spc_rows_of {
  using loader = spc_gathered<Config>;
};
template <class Config> struct spc_rows_of<Config, 1> { using loader = spc_sampled<Config>; };
template <class Config> struct spc_rows_of<Config, 2> { using loader = spc_ordered_rows<Config>; };
template <class Config> struct spc_rows_of<Config, 3> { using loader = spc_grouped_rows<Config>; };

// Of a k tile, bit h: half h of the tile has a use for it.
template <class Config, class Rows> SPC_DEVICE int spc_used_halves(const Rows &rows, int i) {
  if constexpr (Config::halves) return rows.halves(i);
  else return 3;
}

// A's k tile by box beside listed rows of B.
template <class Config, class Rows>
SPC_DEVICE void spc_box_load_listed(spc_u32 slot, const spc_args &args, const spc_tensor_maps &maps, spc_u32 full,
                                    const spc_tile_place &place, int k, const Rows &rows, int i) {
  using panel = typename spc_box_ring<Config>::panel_a;
  if constexpr (Config::halves) {
    const int used = spc_used_halves<Config>(rows, i);
    ptx_barrier_expect(full, __popc((spc_u32)used) * panel::half_bytes);
#pragma unroll
    for (int h = 0; h < 2; h++)
      if (used >> h & 1) panel::load_half(slot, &maps.map[Config::packed_map], full, place.m0, k, h);
  } else {
    ptx_barrier_expect(full, panel::bytes);
    panel::load(slot, &maps.map[Config::packed_map], full, place.m0, k, {{0, 0, 0}});
  }
}

// What the fragment reads at the places of listed columns, behind the k tiles.
template <class Config, int Number, class Rows>
SPC_DEVICE void spc_box_gather_place(spc_u32 shared, const spc_args &args, const spc_tile_place &place, const Rows &rows,
                                     spc_box_ring<Config> &at, bool first_thread) {
  using ring = spc_box_ring<Config>;
  if constexpr (Number < spc_box_store<Config>::place_slots) {
    spc_u32 full = ring::full(shared, at.slot);
    ptx_barrier_wait(ring::empty(shared, at.slot), at.phase);
    rows.template load_place<Number>(shared + at.slot * ring::slot_bytes, args, place);
    ptx_barrier_arrive_after_copies(full);
    if (Config::mixes && first_thread) ptx_barrier_arrive(full);
    at.advance();
    spc_box_gather_place<Config, Number + 1>(shared, args, place, rows, at, first_thread);
  }
}

template <class Config>
SPC_DEVICE void spc_box_gather_role(spc_u32 shared, char *base, const spc_args &args, const spc_tensor_maps &maps) {
  using ring = spc_box_ring<Config>;
  const bool first_thread = threadIdx.x == Config::workers;
  ring at = {0, 1};
  spc_walk_of<Config> walk(args, false);
  spc_filler<Config> filler(args);
  spc_tile_place place;
#pragma unroll 1
  while (walk.next(args, place)) {
    typename spc_rows_of<Config>::loader rows(args, place, (int)threadIdx.x - Config::workers);
    const spc_k_share share = spc_share_at_hand<Config>(walk, rows.tiles());
    rows.begin(share.begin);
    auto load = [&](int i) {
      spc_u32 slot = shared + at.slot * ring::slot_bytes, full = ring::full(shared, at.slot);
      ptx_barrier_wait(ring::empty(shared, at.slot), at.phase);
      const int k = rows.box_k(i);
      if ((Config::regroups || Config::grouped) && first_thread) {
        ptx_barrier_expect(full, ring::panel_b::bytes);
        ring::panel_b::load(slot + ring::panel_a::bytes, &maps.map[1], full, place.n0, k, spc_batch_of<Config>(args, place));
      } else if (Config::mixes && first_thread) {
        if constexpr (Config::samples)
          if (i == share.begin) *ring::note(base, at.slot) = make_int4(place.m0, place.n0, place.n, 4 | spc_used_halves<Config>(rows, i) | walk.mine.noted());
        spc_box_load_listed<Config>(slot, args, maps, full, place, k, rows, i);
      }
      rows.load(slot);
      ptx_barrier_arrive_after_copies(full);
      at.advance();
    };
#pragma unroll 1
    for (int i = share.begin; i < share.end; i++) load(i), filler.some(args);
    if constexpr (Config::samples && Config::reads_place) spc_box_gather_place<Config, 0>(shared, args, place, rows, at, first_thread);
  }
  if constexpr (Config::samples) { // a note that there are no more
    ptx_barrier_wait(ring::empty(shared, at.slot), at.phase);
    if (first_thread) {
      *ring::note(base, at.slot) = make_int4(0, 0, 0, 0);
      ptx_barrier_arrive(ring::full(shared, at.slot));
    }
    ptx_barrier_arrive(ring::full(shared, at.slot));
  }
  filler.rest(args);
  ptx_copy_async_commit();
  ptx_copy_async_wait<0>(); // no thread may leave while its copies are under way
}

// The next tile of those that multiply: reckoned as the loader does, or read from its note.
template <class Config, bool Noted = Config::samples || spc_notes_places<Config>> struct spc_work_walk : spc_walk_of<Config> {
  __device__ __forceinline__ spc_work_walk(const spc_args &args, bool all) : spc_walk_of<Config>(args, all) {}
  __device__ __forceinline__ bool next(const spc_args &args, spc_u32, char *, const spc_box_ring<Config> &, spc_tile_place &place) {
    return spc_walk_of<Config>::next(args, place);
  }
};
template <class Config> struct spc_work_walk<Config, true> {
  using ring = spc_box_ring<Config>;
  int used; // halves
  spc_tile_part mine;
  __device__ __forceinline__ spc_work_walk(const spc_args &, bool) : used(0), mine{0, 1} {}
  __device__ __forceinline__ bool next(const spc_args &args, spc_u32 shared, char *base, const ring &at, spc_tile_place &place) {
    ptx_barrier_wait(ring::full(shared, at.slot), at.phase);
    int4 note = *ring::note(base, at.slot);
    place.m0 = note.x, place.n0 = note.y, place.n = note.z, place.m = (int)Config::m(args), place.batch = 0;
    used = note.w & 3, mine = spc_tile_part::read(note.w);
    if constexpr (spc_notes_places<Config>) {
      const int4 runs = ring::note(base, at.slot)[1];
      place.run[0] = runs.x, place.run[1] = runs.y, place.run[2] = runs.z, place.run[3] = runs.w;
    }
    return note.w != 0;
  }
};

// The k tiles of one tile of the result, from the ring: the slot before is given back while one is multiplied.
template <class Config, int Part, int Columns = spc_wgmma_sums<Config>::columns>
SPC_DEVICE void spc_box_issue(spc_wgmma_sums<Config> &sums, spc_u32 shared, const char *base, spc_box_ring<Config> &at,
                              bool first, bool copied = true) {
  using ring = spc_box_ring<Config>;
  const char *slot = base + at.slot * at.sizes.bytes();
  ptx_barrier_wait(ring::full(shared, at.slot), at.phase);
  if constexpr (ring::by_rows)
    if (copied) sums.publish();
  const int a = spc_sizes_slots<Config> ? ring::panel_b::bytes : 0, b = spc_sizes_slots<Config> ? 0 : ring::panel_a::bytes; // in a slot
  sums.template issue<typename ring::panel_a, typename ring::panel_b, Part, Columns>(slot + a, slot + b, first);
}

// What is done beside a k tile that is multiplied, whose number it is given.
struct spc_nothing_beside { __device__ __forceinline__ void operator()(int) const {} };
// Anew: sums of zeros are begun with the first.  stored: a tile before has been stored, whose staged boxes are free once they are read.
template <class Config, bool Anew = true, int Columns = spc_wgmma_sums<Config>::columns, class Beside = spc_nothing_beside>
SPC_DEVICE void spc_box_multiply(spc_wgmma_sums<Config> &sums, spc_u32 shared, const char *base,
                                 spc_box_ring<Config> &at, int steps, bool copied, bool stored, Beside beside = Beside()) {
  using ring = spc_box_ring<Config>;
  bool gives = ring::gives();
  int before = 0;
  const int frees = spc_stages_place<Config> && stored ? min(spc_place_freed<Config>, steps - 1) : -1;
#pragma unroll 1
  for (int i = 0; i < steps; i++) {
    spc_box_issue<Config, 0, Columns>(sums, shared, base, at, Anew && i == 0, copied);
    if (spc_stages_place<Config> && i == frees && spc_leads_group()) {
      ptx_tma_store_wait_read<0>();
      ptx_barrier_arrive(ring::place_empty(shared));
    }
    beside(i);
    sums.template retire<1>();
    if (i > 0 && gives) ptx_barrier_arrive(ring::empty(shared, before));
    before = at.slot;
    at.advance();
  }
  sums.template retire<0>();
  if (gives && (Anew || steps > 0)) ptx_barrier_arrive(ring::empty(shared, before));
}

// K tiles that the other half of the tile alone has a use for: they are given back as they come.
template <class Config> SPC_DEVICE void spc_box_pass(spc_u32 shared, spc_box_ring<Config> &at, int steps) {
  using ring = spc_box_ring<Config>;
  bool gives = ring::gives();
#pragma unroll 1
  for (int i = 0; i < steps; i++, at.advance()) {
    ptx_barrier_wait(ring::full(shared, at.slot), at.phase);
    if (gives) ptx_barrier_arrive(ring::empty(shared, at.slot));
  }
}

// Stretches of stored k tiles (spc_box_blocks_role): this warpgroup's share of each, its run of 64 rows.
template <class Config>
SPC_DEVICE void spc_box_multiply_blocks(spc_wgmma_sums<Config> &sums, spc_u32 shared, char *base, spc_box_ring<Config> &at) {
  using ring = spc_box_ring<Config>;
  const bool second = __shfl_sync(0xffffffffu, (int)threadIdx.x / 128, 0) > 0;
  bool more;
  sums.clear();
#pragma unroll 1
  do {
    ptx_barrier_wait(ring::full(shared, at.slot), at.phase);
    const int4 note = *ring::note(base, at.slot);
    __syncwarp(); // before the slot is given back
    more = note.w;
    int before = second ? note.x : 0, behind = second ? 0 : note.z;
    if (note.x + note.y + note.z == 0) behind = 1;
    spc_box_pass<Config>(shared, at, before);
    spc_box_multiply<Config, false>(sums, shared, base, at, note.y + (second ? note.z : note.x), false, false);
    spc_box_pass<Config>(shared, at, behind);
  } while (more);
}

// The k tiles that this warpgroup's half of the tile has a use for.
template <class Config, class Walk>
SPC_DEVICE spc_half spc_half_in_work(const spc_args &args, const spc_tile_place &place, const Walk &walk, int steps) {
  const int half = __shfl_sync(0xffffffffu, (int)threadIdx.x / 128, 0);
  if constexpr (Config::samples) return walk.used >> half & 1 ? spc_half{0, steps} : spc_half{0, 0};
  else return spc_half_of<Config>(args, place.m0 / Config::strip, half, Config::tile_k);
}

// The same where the sums of each k tile are promoted: two tiles are under way, and those of the first are added up
// while the second is multiplied.  (The compiler follows a wait for one of two within an iteration, not from one
// iteration to the next.)
template <class Config>
SPC_DEVICE void spc_box_multiply_promoting(spc_wgmma_sums<Config> &sums, spc_u32 shared, const char *base,
                                           spc_box_ring<Config> &at, int steps) {
  using ring = spc_box_ring<Config>;
  bool gives = ring::gives();
  sums.clear();
#pragma unroll 1
  for (int i = 0; i + 1 < steps; i += 2) {
    int before = at.slot;
    spc_box_issue<Config, 0>(sums, shared, base, at, true);
    at.advance();
    spc_box_issue<Config, 1>(sums, shared, base, at, true);
    sums.template retire<1>();
    if (gives) ptx_barrier_arrive(ring::empty(shared, before));
    sums.template promote<0>();
    sums.template retire<0>();
    if (gives) ptx_barrier_arrive(ring::empty(shared, at.slot));
    sums.template promote<1>();
    at.advance();
  }
  if (steps & 1) {
    spc_box_issue<Config, 0>(sums, shared, base, at, true);
    sums.template retire<0>();
    if (gives) ptx_barrier_arrive(ring::empty(shared, at.slot));
    sums.template promote<0>();
    at.advance();
  }
}

// The same with one k tile under way: the other warpgroup multiplies while one reads A into registers, or adds up.
template <class Config>
SPC_DEVICE void spc_box_multiply_alone(spc_wgmma_sums<Config> &sums, spc_u32 shared, const char *base,
                                                spc_box_ring<Config> &at, int steps) {
  using ring = spc_box_ring<Config>;
  bool gives = ring::gives();
  if (sums.promotes) sums.clear();
#pragma unroll 1
  for (int i = 0; i < steps; i++, at.advance()) {
    const char *slot = base + at.slot * ring::slot_bytes;
    if constexpr (spc_wgmma_sums<Config>::from_registers) {
      ptx_barrier_wait(ring::full(shared, at.slot), at.phase);
      sums.template issue_from_registers<typename ring::panel_a, typename ring::panel_b>(slot, slot + ring::panel_a::bytes, i == 0);
    } else {
      spc_box_issue<Config, 0>(sums, shared, base, at, i == 0);
    }
    sums.template retire<0>();
    if (gives) ptx_barrier_arrive(ring::empty(shared, at.slot));
    if constexpr (spc_wgmma_sums<Config>::promotes) sums.template promote<0>();
  }
}

// Factors of the sums of k tiles, where A has such (Config::group k's share one): each quad's lanes keep those of four tiles that
// follow one another, asked for four tiles ahead.
template <class Config, bool Scaled = (Config::group > 0)> struct spc_tile_scales {
  __device__ __forceinline__ spc_tile_scales(const spc_args &, const spc_tile_place &, int) {}
  __device__ __forceinline__ void next(const spc_args &, const spc_tile_place &, int) {}
};
template <class Config> struct spc_tile_scales<Config, true> {
  float now[2], ahead[2];
  int first; // k tile

  __device__ __forceinline__ void ask(const spc_args &args, const spc_tile_place &p, int tile) {
    int row = spc_wgmma_sums<Config>::group_row() + (int)threadIdx.x / 32 % 4 * 16 + (int)threadIdx.x % 32 / 4;
    int last = (int)Config::k(args) - 1, k = min((first + tile + (int)threadIdx.x % 4) * Config::tile_k, last) / Config::group;
#pragma unroll
    for (int i = 0; i < 2; i++) ahead[i] = last < 0 ? 0.0f : Config::scale(args, p.batch, min(p.m0 + row + 8 * i, p.m - 1), k);
  }
  __device__ __forceinline__ spc_tile_scales(const spc_args &args, const spc_tile_place &p, int begin) : first(begin) { ask(args, p, 0); }
  // Before tile number `tile`.
  __device__ __forceinline__ void next(const spc_args &args, const spc_tile_place &p, int tile) {
    if (tile % 4) return;
    now[0] = ahead[0], now[1] = ahead[1];
    ask(args, p, tile + 4);
  }
  // Of the lane's first row (0) or its second, 8 rows on.
  __device__ __forceinline__ float of(int tile, int row) const {
    return __shfl_sync(0xffffffffu, now[row], ((int)threadIdx.x & 28) | (tile & 3));
  }
};

// The same of an A that is widened: that of the next k tile, while one is multiplied.
template <class Config>
SPC_DEVICE void spc_box_multiply_widening(spc_wgmma_sums<Config> &sums, spc_u32 shared, const char *base, spc_box_ring<Config> &at, int steps,
                                          const spc_args &args, const spc_tile_place &place, int begin) {
  using ring = spc_box_ring<Config>;
  using widened = typename spc_wgmma_sums<Config>::widened;
  bool gives = ring::gives();
  spc_tile_scales<Config> scales(args, place, begin);
  if (sums.promotes) sums.clear();
  auto take = [&](widened &a) {
    ptx_barrier_wait(ring::full(shared, at.slot), at.phase);
    sums.widen(a, base + at.slot * ring::slot_bytes);
  };
  // Multiplies tile number i, of which A is there, and gets the next one's.
  auto multiply = [&](int i, const widened &a, widened &next) {
    const int slot = at.slot;
    scales.next(args, place, i);
    sums.template issue_widened<typename ring::panel_b>(a, base + slot * ring::slot_bytes + ring::panel_a::bytes, i == 0);
    at.advance();
    if (i + 1 < steps) take(next);
    sums.template retire<0>();
    if (gives) ptx_barrier_arrive(ring::empty(shared, slot));
    if constexpr (Config::group > 0) sums.promote_scaled(scales.of(i, 0), scales.of(i, 1));
  };
  widened a[2];
  take(a[0]);
#pragma unroll 1
  for (int i = 0; i < steps; i += 2) {
    multiply(i, a[0], a[1]);
    if (i + 1 < steps) multiply(i + 1, a[1], a[0]);
  }
}

template <class Config>
SPC_DEVICE void spc_box_work_role(spc_u32 shared, char *base, const spc_args &args, const spc_tensor_maps &maps, bool all) {
  using ring = spc_box_ring<Config>;
  using kept = spc_kept<Config>;
  using store = spc_box_store<kept>;
  ring at = {0, 0};
  if constexpr (spc_sizes_slots<Config>) at.sizes = Config::sizes();
  spc_wgmma_sums<Config> sums;
  spc_box_epilogue<kept> epilogue = {args, {}, {}, 0, shared + ring::vectors_at, all, ~0u};
  spc_work_walk<Config> walk(args, all);
  if constexpr (Config::narrow > 0) at.sizes = spc_narrow_walk<Config>::sizes_of(spc_narrow_plan::read(spc_plan_at<Config>()));
  bool stored = false;
  int turn = 0;
#pragma unroll 1
  for (; walk.next(args, shared, base, at, epilogue.place); epilogue.parity ^= 1, stored = true) {
    epilogue.batch = spc_batch_of<Config>(args, epilogue.place);
    spc_k_share share = spc_share_of_k<Config>(Config::bsr ? 1 : spc_k_tiles<Config>(epilogue.place, args, all));
    int steps = max(share.end - share.begin, 1);
    if constexpr (Config::share_units > 0) share = walk.mine.of(steps), steps = share.end - share.begin;
    if constexpr (Config::turns) { // every other tile
      const bool mine = turn % 2 == sums.group();
      if (!mine) {
        if (turn == 0) ptx_pass_turn(0);
        at.pass(steps);
      } else {
        epilogue.parity = turn / 2 % 2; // of its own
        if constexpr (spc_refills_place<Config>)
          if (spc_leads_group()) store::template fill<ring>(shared, &maps.map[3], epilogue);
        ptx_wait_turn(turn % 2);
      }
      turn++;
      if (!mine) continue;
    }
    if (Config::split > 1) epilogue.place.n0 += ptx_cluster_rank() * kept::tile_n;
    epilogue.vectors.load(epilogue.place, args, all);
    epilogue.window.load(epilogue.place, args);
    if constexpr (Config::bsr) spc_box_multiply_blocks<Config>(sums, shared, base, at);
    else if constexpr (Config::widens) spc_box_multiply_widening<Config>(sums, shared, base, at, steps, args, epilogue.place, share.begin);
    else if constexpr (spc_wgmma_sums<Config>::alone)
      spc_box_multiply_alone<Config>(sums, shared, base, at, steps);
    else if constexpr (spc_wgmma_sums<Config>::promotes) spc_box_multiply_promoting<Config>(sums, shared, base, at, steps);
    else if constexpr (Config::halves) {
      spc_half half = all ? spc_half{0, steps} : spc_half_in_work<Config>(args, epilogue.place, walk, steps);
      if constexpr (Config::gathers && Config::share_units > 0) half = half.within(share);
      spc_box_pass<Config>(shared, at, half.begin);
      if (Config::samples && half.end == half.begin) { // nobody reads what would be stored
        spc_box_pass<Config>(shared, at, steps + (Config::reads_place ? store::place_slots : 0));
        continue;
      }
      sums.clear();
      spc_box_multiply<Config, false>(sums, shared, base, at, half.end - half.begin, !all, false);
      spc_box_pass<Config>(shared, at, steps - half.end);
    } else if constexpr (Config::turns) {
      const bool more = walk.next_tile < walk.tiles;
      spc_box_multiply<Config>(sums, shared, base, at, steps, !all, stored, [&](int i) {
        if (i + 1 == steps && more) ptx_pass_turn(sums.group() ^ 1);
      });
    } else {
      const int behind = min(2 * Config::depth + 3 + spc_place_freed<Config>, steps - 1); // flags have come by then
      int noted = 0;
      auto beside = [&](int i) { // a box beside each k tile
        if constexpr (spc_stages_flags<Config>) {
          if (i < behind || noted == store::boxes) return;
          if (noted == 0) ptx_barrier_wait(ring::place_full(shared), epilogue.parity);
#pragma unroll 1
          do store::note_flags(shared + ring::staged_at, noted++, epilogue.flags);
          while (i + 1 == steps && noted < store::boxes);
        }
      };
      if constexpr (Config::narrow > 0) {
        sums.clear(); // also what a narrow product leaves alone, or the assembler would have its instructions wait for one another
        if (epilogue.place.n - epilogue.place.n0 <= Config::narrow) spc_box_multiply<Config, false, Config::narrow>(sums, shared, base, at, steps, !all, stored, beside);
        else spc_box_multiply<Config, false>(sums, shared, base, at, steps, !all, stored, beside);
      } else {
        spc_box_multiply<Config>(sums, shared, base, at, steps, !all, stored, beside);
      }
    }
    if constexpr (Config::share_units > 0) {
      epilogue.boxes = ~0u;
      if (walk.mine.parts > 1) {
        const int columns = epilogue.place.n - epilogue.place.n0, used = spc_room_of_parts<Config>::used(columns);
        const spc_sharer sharer = spc_meet_parts<Config>(sums, args, columns, walk.mine, (int *)(base + ring::said_at));
        epilogue.boxes = sharer.of == 0 ? 0 : Config::in_place ? sharer.boxes_of_warp(used) : sharer.boxes(used, store::boxes);
        if (sharer.of == 0 || (!Config::in_place && epilogue.boxes == 0)) {
          spc_box_pass<Config>(shared, at, Config::reads_place ? store::place_slots : 0);
          continue;
        }
        spc_add_parts<Config>(sums, args, columns, walk.mine, epilogue.boxes);
      }
    }
    if constexpr (Config::split > 1) {
      spc_wgmma_sums<kept> ours;
      if (!spc_exchange_sums<Config>(sums, ours, shared)) continue;
      store::run(ours, shared, at, epilogue, maps);
    } else {
      store::run(sums, shared, at, epilogue, maps);
    }
  }
  if (spc_leads_group()) ptx_tma_store_wait_read<0>(); // shared memory stays until the engine has read it
  if constexpr (Config::regroups && !Config::live) spc_fill_strips<Config>(args, all);
}

// Of a ring whose slots are filled by rows (`by_rows`), every thread of the warpgroup arrives; by boxes, the one that starts them.
template <class Config> SPC_DEVICE void spc_box_init(spc_u32 shared, bool by_rows, spc_u32 who = 0) {
  using ring = spc_box_ring<Config>;
  if (threadIdx.x != who) return;
  for (int s = 0; s < ring::most; s++) {
    int arrivals = (by_rows ? 128 : 0) + (Config::mixes || !by_rows ? 1 : 0);
    ptx_barrier_init(ring::full(shared, s), spc_prepares<Config>::any ? 2 : arrivals); // two warps of half a warpgroup
    if (spc_prepares<Config>::any) ptx_barrier_init(ring::raw(shared, s), 1);
    ptx_barrier_init(ring::empty(shared, s), ring::givers);
  }
  if (spc_stages_place<Config>) {
    ptx_barrier_init(ring::place_full(shared), 1);
    ptx_barrier_init(ring::place_empty(shared), Config::workers / 128);
  }
  if (spc_refills_place<Config>)
    for (int b = 0; b < ring::place_barriers; b++) ptx_barrier_init(ring::place_full(shared) + b * 8, 1);
  ptx_fence_barrier_init();
}

template <class Config> SPC_DEVICE void spc_gemm_tma(const spc_args &args, const spc_tensor_maps &maps) {
  using ring = spc_box_ring<Config>;
  static_assert(sizeof(spc_factor<Config>) == sizeof(typename Config::B), "wgmma takes operands of one size");
  static_assert(Config::workers == Config::threads - 128, "the last warpgroup starts the copies");
  static_assert((!Config::gathers && !Config::regroups && !Config::grouped && !spc_prepares<Config>::any) || !Config::reads_place,
                "slots that are gathered into, or turned, hold nothing else");
  static_assert(Config::split == 1 || (!Config::gathers && !Config::samples && !Config::k_blocks && !Config::n_blocks &&
                                       !Config::reads_place && !Config::detects),
                "where k is split the ring holds k tiles of boxes, then sums");
  const bool lists = Config::gathers || Config::samples || Config::regroups || Config::grouped, prepares = spc_prepares<Config>::any;
  static_assert(!spc_stages_place<Config> || (!lists && !prepares && (!Config::n_blocks || (Config::narrow > 0 && spc_stages_flags<Config>)) && !Config::k_blocks &&
                                              !Config::detects && Config::split == 1 && sizeof(typename Config::A) == 2),
                "what lies at the place is staged where k tiles come by box, whole, and sums are not promoted");
  static_assert(!Config::own_dense || !Config::n_blocks || Config::narrow > 0, "tiles of listed blocks are told from others by a note");
  static_assert(Config::share_units == 0 || ((Config::samples || Config::n_blocks || spc_is_dealt<Config>()) && Config::split == 1 && !Config::detects),
                "tiles are shared where a list makes them, or names their k's");
  static_assert(!Config::bsr || (!lists && !prepares && !spc_stages_place<Config> && !Config::detects && Config::tile_m == 128 &&
                                 Config::warps_m == 2 && Config::tile_k == spc_run && sizeof(typename Config::A) == 2),
                "A's blocks come in two runs of 64 rows, one a warpgroup");
  static_assert(!prepares || (!lists && !Config::k_blocks && !Config::n_blocks && Config::split == 1),
                "what is turned or split comes by box, whole");
  static_assert(Config::shared_bytes >= ring::bytes, "shared_bytes is less than the ring and the staged tile need");
  extern __shared__ __align__(1024) char spc_shared[];
  spc_u32 shared = spc_shared_address(spc_shared);
  const int said = spc_said_in_front<Config>(args);
  const bool late = lists && Config::own_dense; // who arrives is known with the verdict
  const bool early = Config::evenly && !prepares && !Config::guarded && !spc_in_front<Config>; // who starts the copies waits for nobody; a front's threads meet in its end as well
  if (!late) spc_box_init<Config>(shared, lists, early ? Config::workers : 0);
  if (threadIdx.x == Config::workers) { // what a map says takes as long to come as what it leads to
    if (!lists || Config::own_dense) ptx_tma_prefetch(&maps.map[0]), ptx_tma_prefetch(&maps.map[1]);
    if (spc_box_store<spc_kept<Config>>::by_engine && !Config::in_place) ptx_tma_prefetch(&maps.map[2]);
    if ((Config::reads_place && !lists) || Config::packed_map == 3) ptx_tma_prefetch(&maps.map[3]);
  }
  if (spc_leaves_to_front<Config>(args, said) || spc_leaves_at_once<Config>(args)) return;
  const bool said_dense = spc_heeds_dense<Config>(args);
  if (!said_dense) ptx_wait_grid(); // nothing else in global memory was touched before
  if (spc_not_meant<Config>(args)) return;
  bool all; // its own dense branch
  if (said_dense) all = true;
  else if constexpr (Config::own_lists) all = spc_decide_from_bits<Config>(args, (spc_u32 *)(spc_shared + ring::decision_at));
  else if constexpr (Config::own_verdict) all = spc_decide_from_counts<Config>(args, (spc_u32 *)(spc_shared + ring::decision_at));
  else all = spc_dense_is_meant<Config>(args);
  if (Config::own_verdict && Config::fills && !Config::in_place && blockIdx.x == 0) spc_pass_on(threadIdx.x == 0); // who spreads asks for the verdict before it waits
  if (Config::own_verdict && !Config::own_dense && all) return; // the kernel behind it is meant
  if (!spc_in_front<Config>) ptx_release_grid(); // not before: whoever comes behind a launch that leaves finds all multiprocessors at once
  if (late) spc_box_init<Config>(shared, !all);
  if constexpr (Config::narrow > 0)
    if (threadIdx.x < 32) spc_plan_tiles<Config>(args, all);
  if constexpr (early) ptx_sync_block<Config::threads>(threadIdx.x < Config::workers);
  else __syncthreads();
  const bool walks = lists || Config::n_blocks || Config::bsr;
  const bool places = Config::samples || Config::grouped; // finds where tiles lie, beside the rows
  const int loading = prepares ? 120 : places ? 72 : walks ? 56 : 40; // registers
  const int working = prepares ? 192 : places ? 216 : walks ? 224 : 232;
  if (threadIdx.x >= Config::workers) {
    if constexpr (Config::workers > 128) ptx_give_registers<loading>();
    int warp = __shfl_sync(0xffffffffu, (int)threadIdx.x / 32, 0) - Config::workers / 32;
    if (said_dense && warp == 3) ptx_wait_grid(); // nobody needs it to load, and this launch ends behind the one before
    if constexpr (Config::n_blocks) {
      if (warp == 0) spc_box_pick_role<Config>(shared, spc_shared, args, maps, all);
      else if (all) {} // nothing is left out
      else if constexpr (Config::narrow > 0) spc_fill_unlisted<Config>(args, warp - 1, 3, spc_busy_time<Config>(args));
      else if constexpr (!Config::sdd) spc_fill_unlisted<Config>(args, warp - 1, 3, 0);
    } else if constexpr (Config::bsr) {
      if (warp == 0) spc_box_blocks_role<Config>(shared, spc_shared, args, maps);
    } else if constexpr (prepares) {
      spc_box_prepare_role<Config>(shared, args, maps);
    } else {
      if constexpr (lists)
        if (!all) spc_box_gather_role<Config>(shared, spc_shared, args, maps);
      if ((!lists || all) && !Config::samples && warp == 0 && ptx_elect()) spc_box_load_role<Config>(shared, args, maps, all);
    }
  } else {
    if constexpr (Config::workers > 128) ptx_take_registers<working>();
    spc_box_work_role<Config>(shared, spc_shared, args, maps, all);
  }
}
