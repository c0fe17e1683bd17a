// attend_share.cuh - attention of few rows on Hopper: who has the same rows and other columns meets at the end of a tile.
//
// The blocks of a cluster have a stretch of the columns each, two warpgroups of a block tiles by turns (the slots of the ring too: their number is even, so
// that a slot is the same one's as long as a tile of rows lasts).  Each ends with sums of its own over its columns.
#pragma once
#include "spc/attend_group.cuh"

// ---- a cluster's blocks ------------------------------------------------------------------------------------------
// Each of its warpgroups has sums of its own, of all columns of the result, its rows' greatest exponents and its sums of weights.  It keeps a share of the
// columns and sends the rest, to where k and v lay.  Added in one order: the same input gives the same bits.
template <class Config> SPC_DEVICE void spc_attend_store_share(const spc_attend_group<Config> &part, spc_u32 shared, const spc_args &args, const spc_attend_place &place) {
  using room = spc_attend_room<Config>;
  const int columns_v = spc_attend_group<Config>::columns_v;
  const int split = Config::split, senders = split * room::groups, keeping = columns_v % (8 * senders) == 0 ? room::groups : 1, keepers = split * keeping; // of a block; of all
  const int count = columns_v / 2 / keepers, quads = count / 4, line = keeping * 128 * 16;
  static_assert(columns_v % (8 * split) == 0, "a share must be whole columns of eight");
  static_assert(senders * (1 + quads) * line <= Config::depth * (room::k_bytes + room::v_bytes), "there is no room for the others' sums");
  const int block = ptx_cluster_rank(), group = part.group();
  float sums[2] = {spc_quad_sum(part.softmax.sum[0]), spc_quad_sum(part.softmax.sum[1])};
  spc_u32 thread = shared + room::k_at + threadIdx.x % 128 * 16, mine = thread + (block * room::groups + group) * (1 + quads) * line;
  ptx_cluster_sync(); // every block has read its k's and v's
#pragma unroll
  for (int r = 0; r < keepers; r++) {
    spc_u32 there = ptx_cluster_address(mine + r % keeping * 128 * 16, r / keeping);
    ptx_cluster_store_16(there, part.softmax.greatest[0], part.softmax.greatest[1], sums[0], sums[1]);
#pragma unroll
    for (int q = 0; q < quads; q++) {
      const float *from = part.value + r * count + q * 4;
      ptx_cluster_store_16(there + (1 + q) * line, from[0], from[1], from[2], from[3]);
    }
  }
  ptx_cluster_sync(); // everything has come, and nobody writes here any more
  if (group >= keeping) return;
  const char *from = (const char *)__cvta_shared_to_generic(thread + group * 128 * 16);
  float most[2] = {-spc_inf(), -spc_inf()}, all[2] = {0, 0}, mean[count];
#pragma unroll
  for (int r = 0; r < senders; r++) {
    float4 of = *(const float4 *)(from + r * (1 + quads) * line);
    most[0] = fmaxf(most[0], of.x), most[1] = fmaxf(most[1], of.y);
  }
#pragma unroll
  for (int i = 0; i < count; i++) mean[i] = 0;
#pragma unroll
  for (int r = 0; r < senders; r++) {
    float4 of = *(const float4 *)(from + r * (1 + quads) * line);
    float by[2] = {of.x == -spc_inf() ? 0 : ptx_exp2(of.x - most[0]), of.y == -spc_inf() ? 0 : ptx_exp2(of.y - most[1])};
    all[0] += of.z * by[0], all[1] += of.w * by[1];
#pragma unroll
    for (int q = 0; q < quads; q++) {
      float4 v = *(const float4 *)(from + (r * (1 + quads) + 1 + q) * line);
      mean[q * 4] += v.x * by[0], mean[q * 4 + 1] += v.y * by[0], mean[q * 4 + 2] += v.z * by[1], mean[q * 4 + 3] += v.w * by[1];
    }
  }
#pragma unroll
  for (int i = 0; i < count; i++) mean[i] *= all[i / 2 % 2] == 0 ? 0 : __fdividef(1, all[i / 2 % 2]);
  part.template store_registers<count>(mean, (block * keeping + group) * (columns_v / keepers), args, place);
}

// ---- two warpgroups of a block -------------------------------------------------------------------------------------
// Each keeps one half of the columns and leaves the other half in the slot that it alone has read last, `slot`; the other's is `other`.
template <class Config> SPC_DEVICE void spc_attend_store_half(const spc_attend_group<Config> &part, spc_u32 shared, int slot, int other, const spc_args &args, const spc_attend_place &place) {
  using room = spc_attend_room<Config>;
  const int columns_v = spc_attend_group<Config>::columns_v;
  const int count = columns_v / 4, quads = count / 4, line = 128 * 16;
  static_assert((1 + quads) * line <= room::v_bytes, "there is no room for half of the sums");
  const int group = part.group();
  char *base = (char *)__cvta_shared_to_generic(shared + room::v_at + threadIdx.x % 128 * 16);
  float4 *to = (float4 *)(base + slot * room::v_bytes);
  const float sums[2] = {spc_quad_sum(part.softmax.sum[0]), spc_quad_sum(part.softmax.sum[1])};
  float mine[count];
  ptx_sync_group(group); // all of its warps have read the slot
  to[0] = make_float4(part.softmax.greatest[0], part.softmax.greatest[1], sums[0], sums[1]);
#pragma unroll
  for (int g = 0; g < 2; g++)
    if (g == group) {
#pragma unroll
      for (int q = 0; q < quads; q++) {
        const float *from = part.value + (1 - g) * count + q * 4;
        to[(1 + q) * 128] = make_float4(from[0], from[1], from[2], from[3]);
      }
#pragma unroll
      for (int i = 0; i < count; i++) mine[i] = part.value[g * count + i];
    }
  ptx_sync_workers<Config::workers>();
  const float4 *from = (const float4 *)(base + other * room::v_bytes);
  const float4 of = from[0];
  float by[2][2]; // of mine, of the other's; rows
#pragma unroll
  for (int r = 0; r < 2; r++) {
    const float his = r ? of.y : of.x, most = fmaxf(part.softmax.greatest[r], his), shift = most == -spc_inf() ? 0 : most;
    by[0][r] = ptx_exp2(part.softmax.greatest[r] - shift), by[1][r] = ptx_exp2(his - shift);
    const float all = group ? (r ? of.w : of.z) * by[1][r] + sums[r] * by[0][r] : sums[r] * by[0][r] + (r ? of.w : of.z) * by[1][r];
    const float share = all == 0 ? 0 : __fdividef(1, all);
    by[0][r] *= share, by[1][r] *= share;
  }
#pragma unroll
  for (int q = 0; q < quads; q++) {
    const float4 v = from[(1 + q) * 128];
    float *m = mine + q * 4;
    m[0] = m[0] * by[0][0] + v.x * by[1][0], m[1] = m[1] * by[0][0] + v.y * by[1][0];
    m[2] = m[2] * by[0][1] + v.z * by[1][1], m[3] = m[3] * by[0][1] + v.w * by[1][1];
  }
  ptx_fence_async_shared(); // boxes come to both slots again
  ptx_sync_workers<Config::workers>();
  part.template store_registers<count>(mine, group * (columns_v / 2), args, place);
}

// ---- their role ----------------------------------------------------------------------------------------------------
template <class Config> SPC_DEVICE void spc_attend_share_role(spc_u32 shared, const spc_args &args) {
  using room = spc_attend_room<Config>;
  spc_attend_slot q = {0, 0}, k = {0, 0}, v = {0, 0};
  spc_attend_group<Config> part;
  const float factor = spc_exponent_factor<Config>();
  const int group = part.group();
  const bool gives = threadIdx.x % 128 == 0;
  spc_attend_walk<Config> walk(args);
  spc_attend_place place;
#pragma unroll 1
  while (walk.next(args, place)) {
    spc_visits<Config> visits;
    spc_seen<Config> seen;
    int next = spc_attend_first<Config>(args, place, visits), passed = 0, visited = 0; // tiles: that the last step went over, all that were
    // Goes over `count` tiles, as far as there are any.
    auto go = [&](int count) {
      passed = 0;
#pragma unroll
      for (int i = 0; i < count; i++)
        if (next < place.end) next = visits.next(args, place), passed++;
      k.template advance<Config::depth>(passed);
      visited += passed;
    };
    part.clear();
    const bool any = next < place.end;
    if (group > 0) go(group), v.template advance<Config::depth>(passed);
    if (any && next >= place.end) { // the other has them all
      if (gives) ptx_barrier_arrive(room::q_empty(shared, q.at));
      q.template advance<room::q_slots>();
    }
    if (next < place.end) {
      float s[Config::tile_n / 2], before[2];
      int n0 = next;
      bool first = true;
      auto scores_are_there = [&]() { // and the next tile's columns are known
        if (gives) ptx_barrier_arrive(room::k_empty(shared, k.at));
        go(room::groups);
        if (next >= place.end) {
          if (gives) ptx_barrier_arrive(room::q_empty(shared, q.at));
          q.template advance<room::q_slots>();
        }
        spc_score_sums<Config, true>(s, args, place, part.row0(), n0, seen);
        part.softmax.weigh(s, factor, before);
      };
      ptx_barrier_wait(room::q_full(shared, q.at), q.phase);
      ptx_barrier_wait(room::k_full(shared, k.at), k.phase);
      ptx_wgmma_fence();
      part.start_scores(s, shared, q.at, k.at);
      seen.begin(args, place, part.row0());
      seen.fetch(place, n0);
      ptx_wgmma_wait<0>();
      int between = 0;
#pragma unroll 1
      while (true) {
        scores_are_there();
        ptx_wgmma_wait<0>();
        if (!first) { // no values are multiplied beside the first scores
          if (gives) ptx_barrier_arrive(room::v_empty(shared, v.at));
          v.template advance<Config::depth>(between);
        }
        part.scale(before);
        part.pack(s);
        if (next >= place.end) break;
        between = passed;
        n0 = next;
        ptx_barrier_wait(room::k_full(shared, k.at), k.phase);
        ptx_wgmma_fence();
        part.start_scores(s, shared, q.at, k.at);
        ptx_barrier_wait(room::v_full(shared, v.at), v.phase);
        part.start_values(shared, v.at, first);
        seen.fetch(place, n0);
        ptx_wgmma_wait<1>();
        first = false;
      }
      ptx_barrier_wait(room::v_full(shared, v.at), v.phase);
      part.start_values(shared, v.at, first);
      ptx_wgmma_wait<0>();
      if (Config::split == 1 && visited > 1) {
        const int slot = v.at, beside = passed == 1 ? Config::depth - 1 : 1; // the last tile is mine: the other's came before
        spc_attend_store_half<Config>(part, shared, slot, (slot + beside) % Config::depth, args, place);
      }
      if (gives) ptx_barrier_arrive(room::v_empty(shared, v.at));
      v.template advance<Config::depth>(passed);
    }
    if constexpr (Config::split > 1) {
      spc_attend_store_share<Config>(part, shared, args, place);
    } else if (visited < 2) {
      ptx_sync_workers<Config::workers>(); // none is a round of the ring ahead
      const float share[2] = {part.softmax.share(0), part.softmax.share(1)};
      part.scale(share);
      if (group == 0) part.template store_registers<spc_attend_group<Config>::columns_v / 2>(part.value, 0, args, place);
    }
  }
}
