/* flow.c - jumps, barriers of blocks and clusters, and what lanes of a warp tell each other.
 *
 * Which lanes an instruction with a mask needs is what the mask says, less those that have left. */
#include "emulator.h"
#include "modes.h"

#define HANDLER(NAME) em_outcome em_do_##NAME(em_warp *w, const em_insn *i, uint32_t lanes)

/* ---- jumps ----------------------------------------------------------------------------------- */
static uint32_t guarded(const em_warp *w, const em_insn *i, uint32_t lanes) {
  if (i->guard < 0) return lanes;
  uint32_t bits = w->predicates[i->guard];
  return lanes & (i->guard_negated ? ~bits : bits);
}

HANDLER(bra) {
  w->jump = em_operand_of(i, 0, 0)->slot;
  w->jumping = guarded(w, i, lanes);
  return EM_JUMPED;
}
HANDLER(exit) {
  w->jump = -1;
  w->jumping = guarded(w, i, lanes);
  w->alive &= ~w->jumping;
  w->block->alive -= __builtin_popcount(w->jumping);
  w->block->machine->events++;
  return EM_JUMPED;
}
HANDLER(trap) { return em_fail(w, i, em_first(lanes), "the kernel traps"); }
HANDLER(nothing) {
  (void)w, (void)i, (void)lanes;
  return EM_NEXT;
}
HANDLER(meeting) {
  (void)i;
  EM_MEET(w, lanes, ~0u);
  return EM_NEXT;
}

/* ---- barriers of a block: they count whole warps ----------------------------------------------- */
static int living(const em_block *b) {
  int threads = 0;
  for (int n = 0; n < b->warp_count; n++) threads += b->warps[n].alive ? EM_LANES : 0;
  return threads;
}

static void end_phase_if_full(em_block *b, em_barrier *a, int wanted) {
  if (!a->arrived || a->arrived < (wanted >= 0 ? wanted : living(b))) return;
  em_races_end(b, (int)(a - b->barriers), a->phase);
  a->result[a->phase & 1] = a->gathered;
  a->gathered = 0;
  a->arrived = 0;
  a->phase++;
  b->machine->events++;
}

/* wanted: threads, -1 for all that live.  adds: to what bar.red gathers.  EM_NEXT: all have come. */
static em_outcome come_to(em_warp *w, const em_insn *i, uint32_t lanes, uint64_t number, int wanted, uint32_t adds,
                          bool goes_on) {
  em_part *p = em_running(w);
  if (number >= EM_BARRIERS) return em_fail(w, i, em_first(lanes), "there is no barrier %llu", (unsigned long long)number);
  if (wanted >= 0 && (wanted % EM_LANES || wanted > w->block->warp_count * EM_LANES || !wanted))
    return em_fail(w, i, em_first(lanes), "%d threads are no number of the block's warps", wanted);
  em_barrier *a = &w->block->barriers[number];
  if (p->state != EM_ARRIVED) {
    EM_MEET(w, lanes, ~0u);
    p->phase = a->phase;
    p->state = EM_ARRIVED;
    a->arrived += EM_LANES;
    a->gathered += adds;
    em_races_arrive(w, lanes, (int)number);
    w->block->machine->events++;
  }
  if (a->phase == p->phase) end_phase_if_full(w->block, a, wanted);
  if (goes_on) return EM_NEXT;
  if (a->phase == p->phase) return EM_WAIT;
  em_races_leave(w, lanes, (int)number, p->phase);
  return EM_NEXT;
}

static int wanted_of(em_warp *w, const em_insn *i, uint32_t lanes, int group, bool there) {
  return there ? (int)(uint32_t)em_source(w, i, group)[em_first(lanes)] : -1;
}

HANDLER(bar) {
  uint64_t number = em_source(w, i, 0)[em_first(lanes)] & 0xffffffff;
  return come_to(w, i, lanes, number, wanted_of(w, i, lanes, 1, i->group_count > 1), 0, i->mode);
}
HANDLER(barred) { /* mode: popc, and, or */
  uint64_t number = em_source(w, i, 1)[em_first(lanes)] & 0xffffffff;
  bool counted = i->group_count > 3;
  uint32_t bits = em_condition(w, em_operand_of(i, counted ? 3 : 2, 0)) & lanes;
  uint32_t adds = (uint32_t)__builtin_popcount(i->mode == 1 ? lanes & ~bits : bits);
  em_outcome o = come_to(w, i, lanes, number, wanted_of(w, i, lanes, 2, counted), adds, false);
  if (o != EM_NEXT) return o;
  uint32_t result = w->block->barriers[number].result[em_running(w)->phase & 1];
  const em_operand *to = em_operand_of(i, 0, 0);
  if (to->kind == EM_PREDICATE) em_set_condition(w, to, lanes, (i->mode == 1) == (result == 0) ? ~0u : 0);
  else EM_EACH(l, lanes) em_write(w, to)[l] = i->mode == 1 ? !result : i->mode == 2 ? result != 0 : result;
  return EM_NEXT;
}

/* ---- barriers of a cluster --------------------------------------------------------------------- */
static void end_cluster_phase_if_full(em_machine *m, em_cluster *c) {
  for (int n = 0; n < c->count; n++)
    for (int k = 0; k < c->blocks[n]->warp_count; k++) {
      const em_warp *w = &c->blocks[n]->warps[k];
      if (w->alive && w->cluster_phase != c->phase + 1) return;
    }
  c->phase++;
  m->events++;
}

HANDLER(cluster_arrive) {
  em_cluster *c = w->block->cluster;
  EM_MEET(w, lanes, ~0u);
  if (w->cluster_phase == c->phase + 1) return em_fail(w, i, em_first(lanes), "the warp arrives twice");
  w->cluster_phase = c->phase + 1;
  w->block->machine->events++;
  end_cluster_phase_if_full(w->block->machine, c);
  return EM_NEXT;
}
HANDLER(cluster_wait) {
  em_cluster *c = w->block->cluster;
  (void)i;
  EM_MEET(w, lanes, ~0u);
  if (c->phase < w->cluster_phase) end_cluster_phase_if_full(w->block->machine, c);
  return c->phase < w->cluster_phase ? EM_WAIT : EM_NEXT;
}
HANDLER(mapa) {
  uint64_t *to = em_target(w, i, 0);
  const uint64_t *from = em_source(w, i, 1), *rank = em_source(w, i, 2);
  uint64_t most = (1ull << EM_SHARED_RANK_SHIFT) - 1;
  EM_EACH(l, lanes) {
    uint32_t r = (uint32_t)rank[l];
    if (r >= (uint32_t)w->block->cluster->count) return em_fail(w, i, l, "the cluster has no block %u", r);
    to[l] = (from[l] & ~(0xffull << EM_SHARED_RANK_SHIFT) & (i->type == EM_U64 ? ~0ull : most)) |
            (uint64_t)(r + 1) << EM_SHARED_RANK_SHIFT;
  }
  return EM_NEXT;
}
HANDLER(warp_bar) {
  uint32_t needed = 0;
  const uint64_t *mask = em_source(w, i, 0);
  EM_EACH(l, lanes) needed |= (uint32_t)mask[l];
  EM_MEET(w, lanes, needed);
  em_races_lanes_meet(w, lanes);
  return EM_NEXT;
}

/* ---- among lanes ------------------------------------------------------------------------------- */
static uint32_t union_of(const uint64_t *mask, uint32_t lanes) {
  uint32_t all = 0;
  EM_EACH(l, lanes) all |= (uint32_t)mask[l];
  return all;
}

/* Lanes with the same mask as the first of `left`; `left` loses them. */
static uint32_t next_group(const uint64_t *mask, uint32_t *left) {
  uint32_t group = 0, first = (uint32_t)mask[em_first(*left)];
  EM_EACH(l, *left) if ((uint32_t)mask[l] == first) group |= 1u << l;
  *left &= ~group;
  return group;
}

HANDLER(shfl) {
  const uint64_t *x = em_source(w, i, 1), *by = em_source(w, i, 2), *bound = em_source(w, i, 3);
  EM_MEET(w, lanes, union_of(em_source(w, i, 4), lanes));
  uint64_t old[EM_LANES], *to = em_target(w, i, 0);
  uint32_t inside = 0;
  memcpy(old, x, sizeof old);
  EM_EACH(l, lanes) {
    int b = (int)by[l] & 31, segment = (int)(bound[l] >> 8) & 31, clamp = (int)bound[l] & 31;
    int least = l & segment, most = least | (clamp & ~segment & 31), from = l;
    switch (i->mode) {
      case EM_SHUFFLE_up: from = l - b; break;
      case EM_SHUFFLE_down: from = l + b; break;
      case EM_SHUFFLE_bfly: from = l ^ b; break;
      default: from = least | (b & ~segment & 31); break;
    }
    bool good = i->mode == EM_SHUFFLE_up ? from >= most : from <= most;
    if (!good) from = l;
    inside |= (uint32_t)good << l;
    to[l] = lanes >> from & 1 ? old[from] : 0xffffffffu; /* of a lane that is elsewhere: anything */
  }
  if (i->groups[0].count > 1) em_set_condition(w, em_operand_of(i, 0, 1), lanes, inside);
  return EM_NEXT;
}

HANDLER(vote) {
  const uint64_t *mask = em_source(w, i, 2);
  const em_operand *to = em_operand_of(i, 0, 0);
  uint32_t bits = em_condition(w, em_operand_of(i, 1, 0)), left = lanes;
  EM_MEET(w, lanes, union_of(mask, lanes));
  while (left) {
    uint32_t group = next_group(mask, &left), set = bits & group;
    bool answer = i->mode == EM_VOTE_any ? set != 0 : i->mode == EM_VOTE_all ? set == group : set == 0 || set == group;
    if (i->mode == EM_VOTE_ballot) EM_EACH(l, group) em_write(w, to)[l] = set;
    else em_set_condition(w, to, group, answer ? ~0u : 0);
  }
  return EM_NEXT;
}

static uint32_t combined(const em_insn *i, uint32_t a, uint32_t b) {
  bool sign = i->type == EM_S32, less = sign ? (int32_t)a < (int32_t)b : a < b;
  switch (i->mode) {
    case EM_ATOMIC_add: return a + b;
    case EM_ATOMIC_min: return less ? a : b;
    case EM_ATOMIC_max: return less ? b : a;
    case EM_ATOMIC_and: return a & b;
    case EM_ATOMIC_or: return a | b;
    default: return a ^ b;
  }
}
HANDLER(redux) {
  const uint64_t *x = em_source(w, i, 1), *mask = em_source(w, i, 2);
  uint64_t *to = em_target(w, i, 0);
  uint32_t left = lanes;
  EM_MEET(w, lanes, union_of(mask, lanes));
  while (left) {
    uint32_t group = next_group(mask, &left), first = 1u << em_first(group), all = (uint32_t)x[em_first(group)];
    EM_EACH(l, group & ~first) all = combined(i, all, (uint32_t)x[l]);
    EM_EACH(l, group) to[l] = all;
  }
  return EM_NEXT;
}

HANDLER(match) { /* mode: whether all have the same value; else who has one's own */
  const uint64_t *x = em_source(w, i, 1), *mask = em_source(w, i, 2);
  uint64_t old[EM_LANES], cut = em_type_bytes(i->type) == 8 ? ~0ull : 0xffffffffull;
  uint32_t left = lanes;
  EM_MEET(w, lanes, union_of(mask, lanes));
  memcpy(old, x, sizeof old);
  while (left) {
    uint32_t group = next_group(mask, &left);
    EM_EACH(l, group) {
      uint32_t same = 0;
      EM_EACH(other, group) same |= (uint32_t)((old[other] & cut) == (old[l] & cut)) << other;
      em_target(w, i, 0)[l] = !i->mode || same == group ? same : 0;
      if (i->mode && i->groups[0].count > 1) em_set_condition(w, em_operand_of(i, 0, 1), 1u << l, same == group ? ~0u : 0);
    }
  }
  return EM_NEXT;
}

HANDLER(elect) { /* the lowest */
  EM_MEET(w, lanes, union_of(em_source(w, i, 1), lanes));
  int leader = em_first(lanes);
  EM_EACH(l, lanes) em_target(w, i, 0)[l] = (uint64_t)leader;
  if (i->groups[0].count > 1) em_set_condition(w, em_operand_of(i, 0, 1), lanes, 1u << leader);
  return EM_NEXT;
}
HANDLER(activemask) {
  EM_EACH(l, lanes) em_target(w, i, 0)[l] = lanes;
  return EM_NEXT;
}
