/* races.c - two threads at the same byte of shared memory, one of them writing, and nothing that puts them in order.
 *
 * Asked for by SPC_EMULATED_RACES=1, of blocks that are no part of a larger cluster.  Each thread has a clock of all threads: what it knows
 * to be over.  It learns by `bar.warp.sync` of its lanes, by barriers of the block, by an mbarrier whose phase it has seen end, by the end of a
 * product of four warps; its own time goes on whenever it tells.  The copy engine is a thread of its own for each that starts copies: what it
 * writes is known by the mbarrier that counts its bytes, and by nothing else.  A byte keeps who wrote it last, and who has read it since.
 *
 * Not seen: what `wgmma` and boxes that are stored read (late), `cp.async` that is not waited for, order between the proxies, global memory,
 * clusters, two lanes of a warp that write by one instruction.  Atomics, volatile accesses and mbarriers race with nobody.  Shuffles and votes put
 * nothing in order. */
#include <stdlib.h>

#include "emulator.h"

enum { NOBODY = 0xffff, MOST_MBARRIERS = 256, MOST_GROUPS = 8, MEETINGS = EM_BARRIERS + MOST_MBARRIERS + MOST_GROUPS };

typedef struct cell { /* of a byte */
  uint32_t wrote_at, read_at;
  uint16_t wrote, read;
  int wrote_line, read_line;
  uint32_t *readers; /* by thread, where there are several: when */
} cell;

/* What those tell who arrive; what they have told where a phase has ended: of barriers of a block by its parity. */
typedef struct meeting {
  uint32_t *told, *known[2];
} meeting;

struct em_races {
  int threads, clocks; /* the engine's behind the threads' */
  uint32_t *all;       /* [thread][clock] */
  uint32_t *engine;    /* what the copy that is under way knows */
  uint32_t *started;   /* [thread]: copies */
  uint32_t *room;      /* of all meetings */
  meeting bars[EM_BARRIERS], mbarriers[MOST_MBARRIERS], products[MOST_GROUPS];
  size_t mbarrier_at[MOST_MBARRIERS];
  int mbarrier_count;
  cell *cells;
  size_t bytes;
};

bool em_races_wanted(const em_machine *m) {
  const char *asked = getenv("SPC_EMULATED_RACES");
  return asked && *asked == '1' && m->cluster[0] * m->cluster[1] * m->cluster[2] == 1 && m->shared_whole > 0;
}

em_races *em_races_new(const em_block *b) {
  em_races *r = calloc(1, sizeof *r);
  if (!r) return NULL;
  r->threads = b->warp_count * EM_LANES;
  r->clocks = 2 * r->threads;
  r->bytes = b->machine->shared_whole;
  r->all = calloc((size_t)r->threads * (size_t)r->clocks, sizeof *r->all);
  r->engine = calloc((size_t)r->clocks, sizeof *r->engine);
  r->started = calloc((size_t)r->threads, sizeof *r->started);
  r->room = calloc((size_t)MEETINGS * 3 * (size_t)r->clocks, sizeof *r->room);
  r->cells = calloc(r->bytes, sizeof *r->cells);
  if (r->all && r->engine && r->started && r->room && r->cells) return r;
  em_races_free(r);
  return NULL;
}

void em_races_free(em_races *r) {
  if (!r) return;
  for (size_t n = 0; r->cells && n < r->bytes; n++) free(r->cells[n].readers);
  free(r->all), free(r->engine), free(r->started), free(r->room), free(r->cells), free(r);
}

static int thread_of(const em_warp *w, int lane) { return w->number * EM_LANES + lane; }
static uint32_t *clock_of(em_races *r, int thread) { return r->all + (size_t)thread * (size_t)r->clocks; }

void em_races_start(em_races *r) {
  uint32_t *room = r->room;
  memset(r->all, 0, (size_t)r->threads * (size_t)r->clocks * sizeof *r->all);
  memset(r->started, 0, (size_t)r->threads * sizeof *r->started);
  memset(r->room, 0, (size_t)MEETINGS * 3 * (size_t)r->clocks * sizeof *r->room);
  for (int n = 0; n < MEETINGS; n++) {
    const int behind = n - EM_BARRIERS;
    meeting *m = behind < 0 ? &r->bars[n] : behind < MOST_MBARRIERS ? &r->mbarriers[behind] : &r->products[behind - MOST_MBARRIERS];
    m->told = room, m->known[0] = room + r->clocks, m->known[1] = room + 2 * r->clocks;
    room += 3 * r->clocks;
  }
  r->mbarrier_count = 0;
  for (int t = 0; t < r->threads; t++) clock_of(r, t)[t] = 1;
  for (size_t n = 0; n < r->bytes; n++) {
    free(r->cells[n].readers);
    r->cells[n] = (cell){.wrote = NOBODY, .read = NOBODY};
  }
}

static void learn(const em_races *r, uint32_t *to, const uint32_t *from) {
  for (int n = 0; n < r->clocks; n++) to[n] = to[n] > from[n] ? to[n] : from[n];
}

/* ---- who tells whom ------------------------------------------------------------------------------- */
void em_races_lanes_meet(em_warp *w, uint32_t lanes) {
  em_races *r = w->block->races;
  if (!r) return;
  uint32_t *first = clock_of(r, thread_of(w, em_first(lanes)));
  EM_EACH(l, lanes) learn(r, first, clock_of(r, thread_of(w, l)));
  EM_EACH(l, lanes) {
    int t = thread_of(w, l);
    if (clock_of(r, t) != first) learn(r, clock_of(r, t), first);
  }
  EM_EACH(l, lanes) clock_of(r, thread_of(w, l))[thread_of(w, l)]++;
}

void em_races_arrive(em_warp *w, uint32_t lanes, int barrier) {
  em_races *r = w->block->races;
  if (!r) return;
  EM_EACH(l, lanes) {
    int t = thread_of(w, l);
    learn(r, r->bars[barrier].told, clock_of(r, t));
    clock_of(r, t)[t]++;
  }
}
void em_races_end(em_block *b, int barrier, unsigned phase) {
  em_races *r = b->races;
  if (!r) return;
  meeting *m = &r->bars[barrier];
  uint32_t *known = m->known[phase & 1];
  m->known[phase & 1] = m->told;
  m->told = known;
  memset(known, 0, (size_t)r->clocks * sizeof *known);
}
void em_races_leave(em_warp *w, uint32_t lanes, int barrier, unsigned phase) {
  em_races *r = w->block->races;
  if (!r) return;
  EM_EACH(l, lanes) learn(r, clock_of(r, thread_of(w, l)), r->bars[barrier].known[phase & 1]);
}

/* Four warps multiply together: what one did before it began is over for who has seen the product's end. */
void em_races_product(em_warp *w, bool begins) {
  em_races *r = w->block->races;
  if (!r) return;
  uint32_t *told = r->products[w->number / EM_GROUP_WARPS % MOST_GROUPS].told;
  EM_EACH(l, w->alive) {
    int t = thread_of(w, l);
    learn(r, begins ? told : clock_of(r, t), begins ? clock_of(r, t) : told);
    if (begins) clock_of(r, t)[t]++;
  }
}

static meeting *mbarrier_at(em_races *r, const em_block *b, const void *at) {
  size_t offset = (size_t)((const unsigned char *)at - b->shared);
  if (offset >= r->bytes) return NULL;
  for (int n = 0; n < r->mbarrier_count; n++)
    if (r->mbarrier_at[n] == offset) return &r->mbarriers[n];
  if (r->mbarrier_count == MOST_MBARRIERS) return NULL;
  r->mbarrier_at[r->mbarrier_count] = offset;
  return &r->mbarriers[r->mbarrier_count++];
}
/* engine: not the thread, but what it has had copied. */
void em_races_count(em_warp *w, int lane, const void *at, bool engine) {
  em_races *r = w->block->races;
  meeting *m = r ? mbarrier_at(r, w->block, at) : NULL;
  int t = thread_of(w, lane);
  if (!m) return;
  learn(r, m->told, engine ? r->engine : clock_of(r, t));
  if (!engine) clock_of(r, t)[t]++;
}
void em_races_phase(em_warp *w, const void *at) {
  em_races *r = w->block->races;
  meeting *m = r ? mbarrier_at(r, w->block, at) : NULL;
  if (!m) return;
  learn(r, m->known[0], m->told);
  memset(m->told, 0, (size_t)r->clocks * sizeof *m->told);
}
void em_races_seen(em_warp *w, int lane, const void *at) {
  em_races *r = w->block->races;
  meeting *m = r ? mbarrier_at(r, w->block, at) : NULL;
  if (m) learn(r, clock_of(r, thread_of(w, lane)), m->known[0]);
}

/* ---- bytes ------------------------------------------------------------------------------------------ */
static bool report(em_warp *w, const em_insn *i, int lane, const em_races *r, size_t at, bool writes, int other, bool wrote, int line) {
  bool engine = other >= r->threads;
  em_fail(w, i, lane, "a race: byte 0x%zx of shared memory is %s, and %sthread %d has %s it at line %d; nothing puts them in order", at, writes ? "written" : "read",
          engine ? "a copy of " : "", engine ? other - r->threads : other, wrote ? "written" : "read", line);
  return false;
}

static bool read_byte(em_warp *w, const em_insn *i, int lane, em_races *r, size_t at, int who, const uint32_t *clock) {
  cell *c = &r->cells[at];
  if (c->wrote != NOBODY && c->wrote_at > clock[c->wrote]) return report(w, i, lane, r, at, false, c->wrote, true, c->wrote_line);
  c->read_line = i->line;
  if (!c->readers && c->read != NOBODY && c->read != who && c->read_at > clock[c->read]) {
    c->readers = calloc((size_t)r->threads, sizeof *c->readers);
    if (c->readers) c->readers[c->read] = c->read_at;
  }
  if (c->readers) {
    c->readers[who] = clock[who];
  } else {
    c->read = (uint16_t)who;
    c->read_at = clock[who];
  }
  return true;
}

/* Lanes that write by one instruction are taken to write the same. */
static bool wrote_together(const cell *c, const em_insn *i, int who) { return c->wrote / EM_LANES == who / EM_LANES && c->wrote_line == i->line; }

static bool write_byte(em_warp *w, const em_insn *i, int lane, em_races *r, size_t at, int who, const uint32_t *clock) {
  cell *c = &r->cells[at];
  if (c->wrote != NOBODY && c->wrote_at > clock[c->wrote] && !wrote_together(c, i, who)) return report(w, i, lane, r, at, true, c->wrote, true, c->wrote_line);
  if (!c->readers && c->read != NOBODY && c->read_at > clock[c->read]) return report(w, i, lane, r, at, true, c->read, false, c->read_line);
  for (int t = 0; c->readers && t < r->threads; t++)
    if (c->readers[t] > clock[t]) return report(w, i, lane, r, at, true, t, false, c->read_line);
  free(c->readers);
  *c = (cell){.wrote = (uint16_t)who, .wrote_at = clock[who], .wrote_line = i->line, .read = NOBODY};
  return true;
}

static bool touch(em_warp *w, const em_insn *i, int lane, const void *at, size_t bytes, bool writes, int who, const uint32_t *clock) {
  em_races *r = w->block->races;
  size_t first = (size_t)((const unsigned char *)at - w->block->shared);
  if ((const unsigned char *)at < w->block->shared || first + bytes > r->bytes) return true; /* not of shared memory */
  for (size_t n = first; n < first + bytes; n++)
    if (writes ? !write_byte(w, i, lane, r, n, who, clock) : !read_byte(w, i, lane, r, n, who, clock)) return false;
  return true;
}

bool em_races_touch(em_warp *w, const em_insn *i, int lane, const void *at, size_t bytes, bool writes) {
  em_races *r = w->block->races;
  int t = thread_of(w, lane);
  return !r || touch(w, i, lane, at, bytes, writes, t, clock_of(r, t));
}

/* A copy begins: it knows what the thread knows that starts it. */
void em_races_copy(em_warp *w, int lane) {
  em_races *r = w->block->races;
  if (!r) return;
  int t = thread_of(w, lane);
  memcpy(r->engine, clock_of(r, t), (size_t)r->clocks * sizeof *r->engine);
  r->engine[r->threads + t] = ++r->started[t];
  clock_of(r, t)[t]++;
}
bool em_races_copies(em_warp *w, const em_insn *i, int lane, const void *at, size_t bytes) {
  em_races *r = w->block->races;
  return !r || touch(w, i, lane, at, bytes, true, r->threads + thread_of(w, lane), r->engine);
}
