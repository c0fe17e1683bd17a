// attend.cuh - attention on Hopper (sm_90a): boxes by tensor map, both products by wgmma, the softmax beside them.
//
//     s[m,n] = score(sum_d q[m,d] k[n,d])       t[m,e] = epilogue(sum_n exp(s[m,n] - max s) / sum exp * v[n,e])
//
// A block has tile_m rows of q at a time, a warpgroup 64 of them, and walks the columns that they see, tile_n at a time:
//
//     a warp         q | k 0 | k 1 | v 0 | k 2 | v 1 ...       boxes, as slots are given back
//     warpgroups     q k 0, softmax | q k 1 and weights 0 v 0 | softmax 1 while v 0 is multiplied | q k 2 and weights 1 v 1 | ...
//
// Scores and weights stay in registers: the sums of the first product are, packed, the second one's A.  Warpgroups start their products by
// turns, so that one's softmax runs beside another's products (FlashAttention-3, Shah et al. 2024).  Where few rows see many columns the blocks of a
// cluster share them: each has a stretch, and at the end every block a share of the result's columns, for which it gets the others' sums;
// so have two warpgroups of a block that have the same rows and take tiles by turns.
#pragma once
#include "spc/attend_share.cuh"

// ---- loads ----------------------------------------------------------------------------------------------------------
template <class Config> SPC_DEVICE void spc_attend_load_role(spc_u32 shared, const spc_args &args, const spc_tensor_maps &maps) {
  using room = spc_attend_room<Config>;
  const bool leads = ptx_elect();
  spc_attend_slot q = {0, 1}, k = {0, 1}, v = {0, 1};
  spc_attend_walk<Config> walk(args);
  spc_attend_place place;
  auto load_q = [&](spc_box_batch batch) {
    ptx_barrier_wait(room::q_empty(shared, q.at), q.phase);
    spc_u32 to = shared + q.at * room::q_bytes, full = room::q_full(shared, q.at);
    if (leads) {
      int4 *note = room::note(shared, q.at);
      note[0] = make_int4(place.m0, place.m1, place.begin, place.end);
      note[1] = make_int4(place.full_begin, place.full_end, (int)place.batch, 1);
      ptx_barrier_expect(full, room::q_bytes);
#pragma unroll
      for (int s = 0; s < room::slabs; s++) ptx_tma_load<Config::batches_q>(to + s * room::q_slab, &maps.map[0], full, s * 64, place.m0, batch);
    }
    q.template advance<room::q_slots>();
  };
  auto load_k = [&](int n0, spc_box_batch batch) {
    ptx_barrier_wait(room::k_empty(shared, k.at), k.phase);
    spc_u32 to = shared + room::k_at + k.at * room::k_bytes, full = room::k_full(shared, k.at);
    if (leads) {
      ptx_barrier_expect(full, room::k_bytes);
#pragma unroll
      for (int s = 0; s < room::slabs; s++) ptx_tma_load<Config::batches_k>(to + s * room::slab, &maps.map[1], full, s * 64, n0, batch);
    }
    k.template advance<Config::depth>();
  };
  auto load_v = [&](int n0, spc_box_batch batch) {
    ptx_barrier_wait(room::v_empty(shared, v.at), v.phase);
    spc_u32 to = shared + room::v_at + v.at * room::v_bytes, full = room::v_full(shared, v.at);
    if (leads) {
      ptx_barrier_expect(full, room::v_bytes);
#pragma unroll
      for (int s = 0; s < room::slabs_v; s++) ptx_tma_load<Config::batches_v>(to + s * room::slab, &maps.map[3], full, s * 64, n0, batch);
    }
    v.template advance<Config::depth>();
  };
#pragma unroll 1
  while (walk.next(args, place)) {
    spc_box_batch batch = spc_attend_batch<Config>(args, place);
    spc_visits<Config> visits;
    visits.begin(args, place);
    int before = -1; // the columns whose keys came last, and whose values are to come
#pragma unroll 1
    do {
      int next = visits.next(args, place);
      if (before < 0 && next >= place.end) {
        if (room::shares) break;
        next = spc_attend_none<Config>(args);
      }
      const bool there = before < 0 || next < place.end;
      if (there) load_k(next, batch);
      if (before < 0) load_q(batch); // its room is free later
      else load_v(before, batch);
      before = there ? next : -1;
    } while (before >= 0);
  }
  if (room::shares) return;
  ptx_barrier_wait(room::q_empty(shared, q.at), q.phase);
  if (leads) {
    room::note(shared, q.at)[1].w = 0; // there are no more
    ptx_barrier_arrive(room::q_full(shared, q.at));
  }
}

// ---- products by turns ------------------------------------------------------------------------------------------------
// A warpgroup starts its products when the one before it in the ring has started its own.
template <class Config> struct spc_attend_turns {
  static constexpr int groups = spc_attend_room<Config>::groups, first_barrier = 4;
  SPC_DEVICE void wait(int group) {
    if (groups > 1) asm volatile("bar.sync %0, 256;" ::"r"(first_barrier + group) : "memory");
  }
  SPC_DEVICE void pass(int group) {
    if (groups > 1) asm volatile("bar.arrive %0, 256;" ::"r"(first_barrier + (group + 1 == groups ? 0 : group + 1)) : "memory");
  }
};

// The first scores of a tile are computed beside the last values of the one before, and while those are stored.
template <class Config> SPC_DEVICE void spc_attend_work_role(spc_u32 shared, const spc_args &args, const spc_tensor_maps &maps) {
  using room = spc_attend_room<Config>;
  using turns = spc_attend_turns<Config>;
  spc_attend_slot q = {0, 0}, k = {0, 0}, v = {0, 0};
  spc_attend_group<Config> part;
  const float factor = spc_exponent_factor<Config>();
  const int group = part.group();
  const bool gives = threadIdx.x % 128 == 0;
  constexpr bool apart = !Config::masked && !Config::noted; // the first scores have a text of their own: 1 to 5 % faster, where no condition makes it long
  int n0, next; // columns whose scores are computed, and the ones behind
  float s[Config::tile_n / 2], before[2];
  spc_attend_place place;
  spc_visits<Config> visits;
  spc_seen<Config> seen;
  bool more;
  auto start_tile = [&]() { // where there is none, of anything: the assembler wants products that are always under way
    ptx_barrier_wait(room::q_full(shared, q.at), q.phase);
    const int4 *note = room::note(shared, q.at), rows = note[0], rest = note[1];
    more = rest.w != 0;
    if (more) {
      place.m0 = rows.x, place.m1 = rows.y, place.begin = rows.z, place.end = rows.w;
      place.full_begin = rest.x, place.full_end = rest.y, place.batch = rest.z, place.plane = spc_plane_of<Config>(args, rest.z);
      n0 = spc_attend_first<Config>(args, place, visits);
      ptx_barrier_wait(room::k_full(shared, k.at), k.phase);
      turns::wait(group);
    }
    ptx_wgmma_fence();
    part.start_scores(s, shared, q.at, k.at);
    if (more) {
      turns::pass(group);
      seen.begin(args, place, part.row0());
      seen.fetch(place, n0);
    }
  };
  auto scores_are_there = [&]() { // and the next columns are known
    if (gives) ptx_barrier_arrive(room::k_empty(shared, k.at));
    k.template advance<Config::depth>();
    next = visits.next(args, place);
    if (next >= place.end) {
      if (gives) ptx_barrier_arrive(room::q_empty(shared, q.at));
      q.template advance<room::q_slots>();
    }
    spc_score_sums<Config, true>(s, args, place, part.row0(), n0, seen);
    part.softmax.weigh(s, factor, before);
  };
  auto give_values = [&]() {
    if (gives) ptx_barrier_arrive(room::v_empty(shared, v.at));
    v.template advance<Config::depth>();
  };
  if (group == turns::groups - 1) turns::pass(group); // the first one's turn
  start_tile();
  ptx_wgmma_wait<0>();
#pragma unroll 1
  while (more) {
    bool first = true;
    auto scores_are_weights = [&]() {
      scores_are_there();
      ptx_wgmma_wait<0>();
      if (apart || !first) give_values();
      part.scale(before);
      part.pack(s);
    };
    part.clear();
    if constexpr (apart) scores_are_there(), part.pack(s); // no values are multiplied beside the first scores
#pragma unroll 1
    while (true) {
      if constexpr (!apart) scores_are_weights();
      if (next >= place.end) break;
      n0 = next;
      ptx_barrier_wait(room::k_full(shared, k.at), k.phase);
      turns::wait(group);
      ptx_wgmma_fence();
      part.start_scores(s, shared, q.at, k.at);
      ptx_barrier_wait(room::v_full(shared, v.at), v.phase);
      part.start_values(shared, v.at, first);
      turns::pass(group);
      seen.fetch(place, n0);
      ptx_wgmma_wait<1>();
      if constexpr (apart) scores_are_weights();
      first = false;
    }
    ptx_barrier_wait(room::v_full(shared, v.at), v.phase);
    part.start_values(shared, v.at, first);
    const spc_attend_place done = place;
    const float share[2] = {part.softmax.share(0), part.softmax.share(1)};
    start_tile();
    ptx_wgmma_wait<1>();
    give_values();
    part.scale(share);
    if constexpr (room::by_engine) part.store_boxes(part.value, shared, args, done, maps);
    else part.template store_registers<spc_attend_group<Config>::columns_v / 2>(part.value, 0, args, done);
    ptx_wgmma_wait<0>();
  }
  if (group == 0) turns::wait(group); // the last one's turn is over
  if (room::by_engine && spc_leads_group()) ptx_tma_store_wait_read<0>(); // shared memory stays until the engine has read it
}

template <class Config> SPC_DEVICE void spc_attend(const spc_args &args, const spc_tensor_maps &maps) {
  using room = spc_attend_room<Config>;
  static_assert(sizeof(typename Config::F) == 2, "q, k and v are of 16 bits");
  static_assert(room::groups % room::row_groups == 0 && Config::workers == Config::threads - 128, "a warpgroup has 64 rows; the last one loads");
  static_assert(!room::shares || (room::row_groups == 1 && room::groups <= 2 && Config::depth % room::groups == 0),
                "where rows are shared a tile has 64, and two warpgroups take tiles of columns by turns, each from slots of its own");
  static_assert(Config::shared_bytes >= room::bytes, "shared_bytes is less than the tiles and the staged boxes need");
  extern __shared__ __align__(1024) char spc_shared[];
  spc_u32 shared = spc_shared_address(spc_shared);
  if (threadIdx.x == 0) {
    for (int s = 0; s < room::q_slots; s++) {
      ptx_barrier_init(room::q_full(shared, s), 1);
      ptx_barrier_init(room::q_empty(shared, s), room::groups);
    }
    for (int s = 0; s < Config::depth; s++) {
      ptx_barrier_init(room::k_full(shared, s), 1);
      ptx_barrier_init(room::k_empty(shared, s), room::row_groups);
      ptx_barrier_init(room::v_full(shared, s), 1);
      ptx_barrier_init(room::v_empty(shared, s), room::row_groups);
    }
    ptx_fence_barrier_init();
  }
  if (threadIdx.x == Config::workers) {
#pragma unroll
    for (int i = 0; i < 4; i++)
      if (i != 2 || room::by_engine) ptx_tma_prefetch(&maps.map[i]);
  }
  ptx_follow_grid(); // nothing in global memory was touched before
  __syncthreads();
  const int working = room::groups == 3 ? 160 : 240, loading = room::groups == 3 ? 32 : 24; // registers
  if (threadIdx.x >= Config::workers) {
    if constexpr (room::groups > 1) ptx_give_registers<loading>();
    if (__shfl_sync(~0u, (int)threadIdx.x / 32, 0) == Config::workers / 32) spc_attend_load_role<Config>(shared, args, maps);
  } else {
    if constexpr (room::groups > 1) ptx_take_registers<working>();
    if constexpr (room::shares) spc_attend_share_role<Config>(shared, args);
    else spc_attend_work_role<Config>(shared, args, maps);
  }
}
