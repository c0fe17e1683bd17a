/* machine.c - a grid from its first block to its last: clusters, warps by turns, and the parts of a warp whose lanes have
 * gone different ways.
 *
 * One warp runs until it must wait; then the next.  Of a warp's parts the one that is furthest behind goes first, and two
 * that meet at an instruction go on as one.  A cluster starts when those that live cannot go on, or have long not ended:
 * kernels whose blocks wait for each other see as many as a device would hold. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "emulator.h"

enum {
  SLICE = 20000,         /* instructions of a warp before the next one's turn */
  PATIENCE = 64,         /* passes over all warps before one more cluster starts */
  PASSES_IN_VAIN = 2048, /* passes in which nothing happens that anybody could wait for, before one is suspicious */
  MOST_IN_VAIN = 60000,  /* nobody waits for more */
  SHARED_OF_ONE = 233472,
  THREADS_OF_ONE = 2048
};

typedef struct grid {
  em_machine *machine;
  em_cluster **live;
  int live_count, most_live;
  int64_t next, total;
  em_block *spare[2 * EM_MOST_CLUSTER]; /* blocks that have ended, for those to come */
  int spare_count;
} grid;

/* ---- what went wrong ------------------------------------------------------------------------- */
em_outcome em_fail(em_warp *w, const em_insn *i, int lane, const char *format, ...) {
  em_machine *m = w->block->machine;
  va_list list;
  if (m->failed) return EM_FAULT;
  m->failed = true;
  int length = snprintf(m->error, sizeof m->error, "kernel %s, PTX line %d `%s`, block (%d, %d, %d), thread %d: ",
                        m->kernel->name, i->line, i->opcode, w->block->id[0], w->block->id[1], w->block->id[2],
                        w->number * EM_LANES + lane);
  va_start(list, format);
  if (length > 0 && (size_t)length < sizeof m->error)
    vsnprintf(m->error + length, sizeof m->error - (size_t)length, format, list);
  va_end(list);
  return EM_FAULT;
}

/* Where the warps that are left stand; the first few. */
static void report_waiting(grid *g, const char *what) {
  em_machine *m = g->machine;
  size_t at = 0;
  int said = 0;
  m->failed = true;
  at += (size_t)snprintf(m->error, sizeof m->error, "kernel %s: %s", m->kernel->name, what);
  for (int c = 0; c < g->live_count; c++)
    for (int n = 0; n < g->live[c]->count; n++) {
      const em_block *b = g->live[c]->blocks[n];
      for (int k = 0; k < b->warp_count; k++)
        for (int p = 0; p < b->warps[k].part_count && said < 5; p++, said++) {
          const em_part *part = &b->warps[k].parts[p];
          const em_insn *i = &m->kernel->code[part->at];
          if (at < sizeof m->error)
            at += (size_t)snprintf(m->error + at, sizeof m->error - at,
                                   "; block (%d, %d, %d) warp %d lanes %08x at line %d `%s`", b->id[0], b->id[1], b->id[2],
                                   k, part->lanes, i->line, i->opcode);
        }
    }
}

/* ---- special registers ----------------------------------------------------------------------- */
const uint64_t *em_special_value(em_warp *w, int what) {
  const em_machine *m = w->block->machine;
  uint64_t *to = w->scratch[w->scratch_used], same = 0;
  bool differs = true;
  w->scratch_used = (w->scratch_used + 1) % 3;
  switch (what) {
    case EM_TID_X:
    case EM_TID_Y:
    case EM_TID_Z: return w->tid[what - EM_TID_X];
    case EM_LANEID: EM_EACH(l, ~0u) to[l] = (uint64_t)l; break;
    case EM_LANEMASK_LT: EM_EACH(l, ~0u) to[l] = (1ull << l) - 1; break;
    case EM_LANEMASK_LE: EM_EACH(l, ~0u) to[l] = (2ull << l) - 1; break;
    case EM_LANEMASK_GT: EM_EACH(l, ~0u) to[l] = 0xffffffffull & ~((2ull << l) - 1); break;
    case EM_LANEMASK_GE: EM_EACH(l, ~0u) to[l] = 0xffffffffull & ~((1ull << l) - 1); break;
    case EM_LANEMASK_EQ: EM_EACH(l, ~0u) to[l] = 1ull << l; break;
    default: differs = false;
  }
  if (differs) return to;
  if (what >= EM_NTID_X && what <= EM_NTID_Z) same = (uint64_t)m->block[what - EM_NTID_X];
  else if (what >= EM_CTAID_X && what <= EM_CTAID_Z) same = (uint64_t)w->block->id[what - EM_CTAID_X];
  else if (what >= EM_NCTAID_X && what <= EM_NCTAID_Z) same = (uint64_t)m->grid[what - EM_NCTAID_X];
  else if (what == EM_WARPID) same = (uint64_t)w->number;
  else if (what == EM_CLUSTER_CTARANK) same = (uint64_t)w->block->rank;
  else if (what == EM_CLUSTER_NCTARANK) same = (uint64_t)w->block->cluster->count;
  else if (what == EM_CLOCK) same = m->steps;
  for (int l = 0; l < EM_LANES; l++) to[l] = same;
  return to;
}

/* ---- blocks ---------------------------------------------------------------------------------- */
static void free_block(em_block *b) {
  if (!b) return;
  for (int k = 0; b->warps && k < b->warp_count; k++) {
    free(b->warps[k].registers);
    free(b->warps[k].predicates);
    free(b->warps[k].local);
  }
  free(b->warps);
  free(b->shared);
  em_races_free(b->races);
  free(b);
}

static em_block *new_block(em_machine *m) {
  const em_kernel *k = m->kernel;
  em_block *b = calloc(1, sizeof *b);
  if (!b) return NULL;
  b->machine = m;
  b->warp_count = (m->block[0] * m->block[1] * m->block[2] + EM_LANES - 1) / EM_LANES;
  b->warps = calloc((size_t)b->warp_count, sizeof *b->warps);
  b->shared = aligned_alloc(1024, (m->shared_whole + 2047) / 1024 * 1024);
  if (em_races_wanted(m)) b->races = em_races_new(b);
  bool whole = b->warps && b->shared && (b->races || !em_races_wanted(m));
  for (int n = 0; n < b->warp_count && whole; n++) {
    em_warp *w = &b->warps[n];
    w->registers = calloc((size_t)k->registers + 1, EM_LANES * sizeof *w->registers);
    w->predicates = calloc((size_t)k->predicates + 1, sizeof *w->predicates);
    w->local = calloc(EM_LANES, k->local_bytes + 1);
    whole = w->registers && w->predicates && w->local;
  }
  if (whole) return b;
  free_block(b);
  return NULL;
}

static void start_warp(em_block *b, int number, int threads) {
  const int *size = b->machine->block;
  em_warp *w = &b->warps[number];
  int first = number * EM_LANES, left = threads - first;
  w->block = b;
  w->number = number;
  w->alive = left >= EM_LANES ? ~0u : (1u << left) - 1;
  w->part_count = 1;
  w->current = 0;
  w->cluster_phase = 0;
  w->products = w->groups = 0;
  w->parts[0] = (em_part){.lanes = w->alive};
  for (int l = 0; l < EM_LANES; l++) {
    w->tid[0][l] = (uint64_t)((first + l) % size[0]);
    w->tid[1][l] = (uint64_t)((first + l) / size[0] % size[1]);
    w->tid[2][l] = (uint64_t)((first + l) / size[0] / size[1]);
  }
}

/* Shared memory holds what nobody wrote: NaNs, and numbers that are no index. */
static em_block *start_block(grid *g, em_cluster *c, int rank, const int id[3]) {
  em_machine *m = g->machine;
  em_block *b = g->spare_count ? g->spare[--g->spare_count] : new_block(m);
  if (!b) return NULL;
  int threads = m->block[0] * m->block[1] * m->block[2];
  b->cluster = c;
  b->rank = rank;
  b->alive = threads;
  memcpy(b->id, id, sizeof b->id);
  memset(b->barriers, 0, sizeof b->barriers);
  memset(b->shared, 0xff, m->shared_whole);
  if (b->races) em_races_start(b->races);
  for (int n = 0; n < b->warp_count; n++) start_warp(b, n, threads);
  return b;
}

static bool start_cluster(grid *g) {
  em_machine *m = g->machine;
  em_cluster *c = calloc(1, sizeof *c);
  const int *size = m->cluster;
  int64_t number = g->next++;
  int corner[3];
  for (int d = 0; d < 3; d++) {
    int many = m->grid[d] / size[d];
    corner[d] = (int)(number % many) * size[d];
    number /= many;
  }
  for (int rank = 0; c && rank < size[0] * size[1] * size[2]; rank++) {
    const int id[3] = {corner[0] + rank % size[0], corner[1] + rank / size[0] % size[1], corner[2] + rank / size[0] / size[1]};
    c->blocks[rank] = start_block(g, c, rank, id);
    if (!c->blocks[rank]) break;
    c->count++;
  }
  if (c) g->live[g->live_count++] = c;
  if (c && c->count == size[0] * size[1] * size[2]) return true;
  m->failed = true;
  snprintf(m->error, sizeof m->error, "kernel %s: no memory for its blocks", m->kernel->name);
  return false;
}

static bool has_ended(const em_cluster *c) {
  for (int n = 0; n < c->count; n++)
    if (c->blocks[n]->alive) return false;
  return true;
}

static void end_cluster(grid *g, em_cluster *c) {
  for (int n = 0; n < c->count; n++) {
    if (g->spare_count < 2 * EM_MOST_CLUSTER) g->spare[g->spare_count++] = c->blocks[n];
    else free_block(c->blocks[n]);
  }
  free(c);
}

/* ---- parts of a warp ------------------------------------------------------------------------- */
static void add_part(em_warp *w, int at, uint32_t lanes) {
  w->parts[w->part_count++] = (em_part){.at = at, .lanes = lanes};
}

static void remove_part(em_warp *w, int n) {
  w->parts[n] = w->parts[--w->part_count];
  if (w->current == w->part_count) w->current = n;
}

/* Those that stand where the running one does come with it. */
static void merge(em_warp *w) {
  for (int n = w->part_count - 1; n >= 0; n--) {
    em_part *running = em_running(w), *p = &w->parts[n];
    if (p == running || p->at != running->at || p->state == EM_ARRIVED) continue;
    running->lanes |= p->lanes;
    remove_part(w, n);
  }
}

/* The part that is furthest behind of those that were not tried; -1: none. */
static int choose(const em_warp *w) {
  int best = -1;
  for (int n = 0; n < w->part_count; n++)
    if (!w->parts[n].tried && (best < 0 || w->parts[n].at < w->parts[best].at)) best = n;
  return best;
}

static void jump(em_warp *w, em_part *p) {
  uint32_t taken = w->jumping & p->lanes;
  p->state = EM_READY;
  if (taken == p->lanes && w->jump >= 0) {
    p->at = w->jump;
    return;
  }
  p->lanes &= ~taken;
  p->at++;
  if (!p->lanes) remove_part(w, w->current);
  else if (taken && w->jump >= 0) add_part(w, w->jump, taken);
}

/* One instruction of the running part.  False: it goes no further in this slice. */
static inline bool step(em_machine *m, em_warp *w) {
  em_part *p = em_running(w);
  const em_insn *i = &m->kernel->code[p->at];
  uint32_t lanes = p->lanes;
  if (i->guard >= 0 && !i->all) {
    lanes &= i->guard_negated ? ~w->predicates[i->guard] : w->predicates[i->guard];
    if (!lanes) {
      p->at++;
      m->steps++;
      return true;
    }
  }
  switch (i->run(w, i, lanes)) {
    case EM_NEXT:
      p->at++;
      p->state = EM_READY;
      m->steps++;
      return true;
    case EM_JUMPED:
      m->steps++;
      jump(w, p);
      return w->part_count > 0;
    case EM_YIELD:
      p->at++;
      p->state = EM_READY;
      m->steps++;
      p->tried = true;
      return false;
    case EM_WAIT:
      p->tried = true;
      if (lanes == p->lanes) return false;
      add_part(w, p->at + 1, p->lanes & ~lanes); /* whom the guard lets pass does not wait */
      p->lanes = lanes;
      return false;
    case EM_FAULT: break;
  }
  return false;
}

static void run_warp(em_machine *m, em_warp *w) {
  for (int n = 0; n < w->part_count; n++) w->parts[n].tried = false;
  for (int budget = SLICE; budget > 0 && !m->failed;) {
    if (w->part_count == 1) {
      w->current = 0;
      if (w->parts[0].tried) return;
      while (budget-- > 0 && w->part_count == 1 && step(m, w)) {}
    } else {
      w->current = choose(w);
      if (w->current < 0) return; /* none is left, or all wait */
      merge(w);
      budget--;
      step(m, w);
    }
  }
}

/* ---- the grid -------------------------------------------------------------------------------- */
static void run_pass(grid *g) {
  em_machine *m = g->machine;
  for (int c = 0; c < g->live_count; c++)
    for (int n = 0; n < g->live[c]->count; n++) {
      em_block *b = g->live[c]->blocks[n];
      for (int k = 0; k < b->warp_count && !m->failed; k++)
        if (b->warps[k].alive) run_warp(m, &b->warps[k]);
    }
}

static bool take_away_ended(grid *g) {
  int left = 0, before = g->live_count;
  for (int c = 0; c < g->live_count; c++) {
    if (has_ended(g->live[c])) end_cluster(g, g->live[c]);
    else g->live[left++] = g->live[c];
  }
  g->live_count = left;
  return left < before;
}

int em_units(void) {
  const char *text = getenv("SPC_EMULATED_UNITS");
  return text && atoi(text) > 0 ? atoi(text) : 132;
}

/* As many clusters as a device would hold at a time. */
static int most_resident(const em_machine *m) {
  int threads = m->block[0] * m->block[1] * m->block[2];
  int by_threads = THREADS_OF_ONE / threads, by_shared = (int)(SHARED_OF_ONE / (m->shared_whole + 1024));
  int each = by_threads < by_shared ? by_threads : by_shared;
  int most = (each > 0 ? each : 1) * em_units() / (m->cluster[0] * m->cluster[1] * m->cluster[2]);
  return most > 0 ? most : 1;
}

/* ---- who goes round and round ------------------------------------------------------------------
 * Long sums of one thread store nothing for long either.  But while nothing is stored a warp that is where it was before, with
 * the same registers, will be there again.  What is compared is the state of the last pass that has a power of two for its
 * number (R. P. Brent, An improved Monte Carlo factorization algorithm, 1980). */
static uint64_t mixed(uint64_t sum, const void *from, size_t bytes) {
  const unsigned char *at = from;
  uint64_t word;
  for (; bytes >= sizeof word; at += sizeof word, bytes -= sizeof word) {
    memcpy(&word, at, sizeof word);
    sum = (sum ^ word) * 0x9e3779b97f4a7c15ull;
    sum ^= sum >> 29;
  }
  for (; bytes; bytes--) sum = (sum ^ *at++) * 0x100000001b3ull;
  return sum;
}

static uint64_t state_of(const em_kernel *k, const em_warp *w) {
  uint64_t sum = mixed((uint64_t)w->current, w->registers, (size_t)k->registers * EM_LANES * sizeof *w->registers);
  sum = mixed(sum, w->predicates, (size_t)k->predicates * sizeof *w->predicates);
  for (int p = 0; p < w->part_count; p++) {
    const em_part *part = &w->parts[p];
    const unsigned at[] = {(unsigned)part->at, part->lanes, (unsigned)part->state, part->phase};
    sum = mixed(sum, at, sizeof at);
  }
  return sum;
}

static bool all_go_round(const grid *g, int in_vain) {
  bool all = true, noted = !(in_vain & (in_vain - 1));
  for (int c = 0; c < g->live_count; c++)
    for (int n = 0; n < g->live[c]->count; n++)
      for (int k = 0; k < g->live[c]->blocks[n]->warp_count; k++) {
        em_warp *w = &g->live[c]->blocks[n]->warps[k];
        if (!w->alive) continue;
        uint64_t state = state_of(g->machine->kernel, w);
        if (noted) w->noted = state, w->round = false;
        else w->round |= w->noted == state;
        all &= w->round;
      }
  return all;
}

static void run_all(grid *g) {
  em_machine *m = g->machine;
  int passes = 0, in_vain = 0;
  while ((g->live_count || g->next < g->total) && !m->failed) {
    bool more = g->next < g->total && g->live_count < g->most_live;
    if (!g->live_count && !start_cluster(g)) return;
    uint64_t steps = m->steps, events = m->events;
    run_pass(g);
    bool ended = !m->failed && take_away_ended(g);
    bool moved = ended || m->steps != steps || m->events != events;
    passes = ended ? 0 : passes + 1;
    in_vain = ended || m->events != events ? 0 : in_vain + 1;
    if (m->failed || !g->live_count) continue;
    if (more && (!moved || passes > PATIENCE)) {
      passes = in_vain = 0;
      if (!start_cluster(g)) return;
    } else if (!moved) {
      report_waiting(g, "deadlock: no warp can go on");
    } else if (in_vain > MOST_IN_VAIN || (in_vain >= PASSES_IN_VAIN && all_go_round(g, in_vain))) {
      report_waiting(g, "endless: instructions are executed and nothing comes of them");
    }
  }
}

bool em_run(em_machine *m) {
  grid g = {.machine = m, .total = 1};
  for (int d = 0; d < 3; d++) g.total *= m->grid[d] / m->cluster[d];
  m->shared_whole = m->shared_bytes ? m->kernel->dynamic_at + m->shared_bytes : m->kernel->shared_bytes;
  g.most_live = most_resident(m);
  g.live = calloc((size_t)g.most_live + 1, sizeof *g.live);
  if (!g.live) return false;
  run_all(&g);
  for (int c = 0; c < g.live_count; c++) end_cluster(&g, g.live[c]);
  for (int n = 0; n < g.spare_count; n++) free_block(g.spare[n]);
  free(g.live);
  return !m->failed;
}
