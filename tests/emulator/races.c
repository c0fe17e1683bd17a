/* races.c - two threads at the same byte of shared memory, one of them writing, and nothing that puts them in order.
 *
 * Asked for by SPC_EMULATED_RACES=1, of blocks that are no part of a larger cluster.  Each thread has a clock of all threads: what it knows
 * to be over.  It learns by `bar.warp.sync` of its lanes, by barriers of the block, by an mbarrier whose phase it has seen end, by the end of a
 * product of four warps; its own time goes on whenever it tells.  The copy engine is a thread of its own for each that starts copies: what it
 * writes is known by the mbarrier that counts its bytes, and by nothing else.  A word keeps who wrote it last, and who has read it since; its
 * bytes do each for itself once there was an access to a part of it, until it is written whole.
 *
 * Clocks of threads are alike behind a barrier: what is known is shared (`knowledge`) until somebody learns something else, and what has been
 * put together once for a warp's first lane is there for the others.
 *
 * Not seen: what `wgmma` and boxes that are stored read (late), `cp.async` that is not waited for, order between the proxies, global memory,
 * clusters, two lanes of a warp that write by one instruction.  Atomics, volatile accesses and mbarriers race with nobody.  Shuffles and votes put
 * nothing in order. */
#include <stdlib.h>

#include "emulator.h"

enum { NOBODY = 0xffff, MOST_MBARRIERS = 256, MOST_GROUPS = 8, MEETINGS = EM_BARRIERS + MOST_MBARRIERS + MOST_GROUPS, WORD = 4, FEW = 6 };

/* A time of every clock.  Nobody changes what has several holders. */
typedef struct knowledge {
  int holders;
  struct knowledge *next; /* of those that nobody holds */
  uint32_t time[];
} knowledge;

typedef struct reader {
  uint32_t at;
  int who;
} reader;

/* Who has read since the last write, none of them before another; where they are more than FEW: when, by thread. */
typedef struct readers {
  int count;
  bool many;
  struct readers *next; /* of those that are spare */
  reader of[FEW];
  uint32_t all[];
} readers;

typedef struct cell { /* of a word, or a byte of one */
  uint32_t start; /* of a block: if it is another's, nobody was here */
  uint32_t wrote_at, read_at;
  uint16_t wrote, read;
  int wrote_line, read_line;
  readers *several;
  struct cell *bytes; /* of a word: what is known of each of them, in place of this */
} cell;

/* What those tell who arrive; what they have told where a phase has ended: of barriers of a block by its parity. */
typedef struct meeting {
  knowledge *told, *known[2], *last; /* last: what was told last */
} meeting;

struct em_races {
  int threads, clocks; /* the engine's behind the threads' */
  uint32_t *own;       /* [thread]: its time, which is further than what anybody knows of it */
  knowledge **known;   /* [thread]: of the others */
  knowledge *nothing;
  knowledge *engine;    /* what the copy that is under way knows */
  knowledge *spare;
  readers *spare_readers;
  struct {
    knowledge *one, *other, *both;
  } lately; /* what two came to */
  uint32_t *started; /* [thread]: copies */
  meeting meetings[MEETINGS];
  size_t mbarrier_at[MOST_MBARRIERS];
  int mbarrier_count;
  cell *cells; /* [word] */
  size_t bytes;
  uint32_t start;
};

bool em_races_wanted(const em_machine *m) {
  const char *asked = getenv("SPC_EMULATED_RACES");
  return asked && *asked == '1' && m->cluster[0] * m->cluster[1] * m->cluster[2] == 1 && m->shared_whole > 0;
}

/* ---- what is known ---------------------------------------------------------------------------------- */
static size_t times_bytes(const em_races *r) { return (size_t)r->clocks * sizeof(uint32_t); }

static knowledge *hold(knowledge *k) {
  k->holders++;
  return k;
}
static void let_go(em_races *r, knowledge *k) {
  if (!k || --k->holders) return;
  k->next = r->spare;
  r->spare = k;
}
/* The new one is held already. */
static void become(em_races *r, knowledge **to, knowledge *k) {
  let_go(r, *to);
  *to = k;
}

static knowledge *copy_of(em_races *r, const knowledge *from) {
  knowledge *k = r->spare;
  if (k) r->spare = k->next;
  else k = malloc(sizeof *k + times_bytes(r));
  if (!k) abort(); /* a test's program, which has no memory left */
  k->holders = 1;
  memcpy(k->time, from->time, times_bytes(r));
  return k;
}
static uint32_t *changeable(em_races *r, knowledge **k) {
  if ((*k)->holders > 1) become(r, k, copy_of(r, *k));
  return (*k)->time;
}

/* What either knows; one of them, where it knows all. */
static knowledge *together(em_races *r, knowledge *a, knowledge *b) {
  uint32_t more_a = 0, more_b = 0;
  if (a == b) return hold(a);
  for (int n = 0; n < r->clocks; n++) more_a |= a->time[n] > b->time[n], more_b |= b->time[n] > a->time[n];
  if (!more_b) return hold(a);
  if (!more_a) return hold(b);
  knowledge *k = copy_of(r, a);
  for (int n = 0; n < r->clocks; n++) k->time[n] = k->time[n] > b->time[n] ? k->time[n] : b->time[n];
  return k;
}

static void learn(em_races *r, int thread, knowledge *what) {
  knowledge *known = r->known[thread];
  if (known == what) return;
  if (r->lately.one != known || r->lately.other != what) {
    knowledge *both = together(r, known, what);
    become(r, &r->lately.one, hold(known));
    become(r, &r->lately.other, hold(what));
    become(r, &r->lately.both, both);
  }
  become(r, &r->known[thread], hold(r->lately.both));
}

static void tell(em_races *r, meeting *m, knowledge *what) {
  if (m->last == what) return;
  become(r, &m->told, together(r, m->told, what));
  become(r, &m->last, hold(what));
}
static void tell_own(em_races *r, meeting *m, int thread) {
  tell(r, m, r->known[thread]);
  changeable(r, &m->told)[thread] = r->own[thread]++;
}
static void forget_told(em_races *r, meeting *m) {
  become(r, &m->told, hold(r->nothing));
  become(r, &m->last, NULL);
}

/* ---- a block ---------------------------------------------------------------------------------------- */
em_races *em_races_new(const em_block *b) {
  em_races *r = calloc(1, sizeof *r);
  if (!r) return NULL;
  r->threads = b->warp_count * EM_LANES;
  r->clocks = 2 * r->threads;
  r->bytes = b->machine->shared_whole;
  r->own = calloc((size_t)r->threads, sizeof *r->own);
  r->known = calloc((size_t)r->threads, sizeof *r->known);
  r->started = calloc((size_t)r->threads, sizeof *r->started);
  r->nothing = calloc(1, sizeof *r->nothing + times_bytes(r));
  r->cells = calloc(r->bytes / WORD + 1, sizeof *r->cells);
  if (r->nothing) r->nothing->holders = 1;
  if (r->own && r->known && r->started && r->nothing && r->cells) return r;
  em_races_free(r);
  return NULL;
}

static void forget_all(em_races *r) {
  for (int t = 0; r->known && t < r->threads; t++) become(r, &r->known[t], NULL);
  for (int n = 0; n < MEETINGS; n++) {
    meeting *m = &r->meetings[n];
    become(r, &m->told, NULL), become(r, &m->known[0], NULL), become(r, &m->known[1], NULL), become(r, &m->last, NULL);
  }
  become(r, &r->engine, NULL);
  become(r, &r->lately.one, NULL), become(r, &r->lately.other, NULL), become(r, &r->lately.both, NULL);
}

static readers *new_readers(em_races *r) {
  readers *s = r->spare_readers;
  if (s) r->spare_readers = s->next;
  else s = malloc(sizeof *s + (size_t)r->threads * sizeof *s->all);
  if (!s) abort();
  s->count = 0;
  s->many = false;
  return s;
}
static void forget_readers(em_races *r, cell *c) {
  if (!c->several) return;
  c->several->next = r->spare_readers;
  r->spare_readers = c->several;
  c->several = NULL;
}
static void forget_bytes(em_races *r, cell *c) {
  for (int n = 0; c->bytes && n < WORD; n++) forget_readers(r, &c->bytes[n]);
  free(c->bytes);
  c->bytes = NULL;
}

void em_races_free(em_races *r) {
  if (!r) return;
  forget_all(r);
  let_go(r, r->nothing);
  for (knowledge *k = r->spare, *next; k; k = next) next = k->next, free(k);
  for (size_t n = 0; r->cells && r->start && n < r->bytes / WORD + 1; n++) forget_readers(r, &r->cells[n]), forget_bytes(r, &r->cells[n]);
  for (readers *s = r->spare_readers, *next; s; s = next) next = s->next, free(s);
  free(r->own), free(r->known), free(r->started), free(r->cells), free(r);
}

static int thread_of(const em_warp *w, int lane) { return w->number * EM_LANES + lane; }

void em_races_start(em_races *r) {
  forget_all(r);
  memset(r->started, 0, (size_t)r->threads * sizeof *r->started);
  for (int t = 0; t < r->threads; t++) r->known[t] = hold(r->nothing), r->own[t] = 1;
  for (int n = 0; n < MEETINGS; n++) {
    meeting *m = &r->meetings[n];
    m->told = hold(r->nothing), m->known[0] = hold(r->nothing), m->known[1] = hold(r->nothing);
  }
  r->engine = hold(r->nothing);
  r->mbarrier_count = 0;
  r->start++; /* what cells hold is of a block before */
}

/* ---- who tells whom ------------------------------------------------------------------------------- */
void em_races_lanes_meet(em_warp *w, uint32_t lanes) {
  em_races *r = w->block->races;
  if (!r) return;
  knowledge *all = hold(r->known[thread_of(w, em_first(lanes))]), *last = all;
  EM_EACH(l, lanes) {
    knowledge *known = r->known[thread_of(w, l)];
    if (known != last) become(r, &all, together(r, all, known));
    last = known;
  }
  uint32_t *time = lanes & (lanes - 1) ? changeable(r, &all) : NULL;
  EM_EACH(l, lanes) {
    int t = thread_of(w, l);
    if (time) time[t] = r->own[t];
    r->own[t]++;
  }
  EM_EACH(l, lanes) become(r, &r->known[thread_of(w, l)], hold(all));
  let_go(r, all);
}

void em_races_arrive(em_warp *w, uint32_t lanes, int barrier) {
  em_races *r = w->block->races;
  if (!r) return;
  EM_EACH(l, lanes) tell_own(r, &r->meetings[barrier], thread_of(w, l));
}
void em_races_end(em_block *b, int barrier, unsigned phase) {
  em_races *r = b->races;
  if (!r) return;
  meeting *m = &r->meetings[barrier];
  become(r, &m->known[phase & 1], hold(m->told));
  forget_told(r, m);
}
void em_races_leave(em_warp *w, uint32_t lanes, int barrier, unsigned phase) {
  em_races *r = w->block->races;
  if (!r) return;
  EM_EACH(l, lanes) learn(r, thread_of(w, l), r->meetings[barrier].known[phase & 1]);
}

/* Four warps multiply together: what one did before it began is over for who has seen the product's end. */
void em_races_product(em_warp *w, bool begins) {
  em_races *r = w->block->races;
  if (!r) return;
  meeting *m = &r->meetings[EM_BARRIERS + MOST_MBARRIERS + w->number / EM_GROUP_WARPS % MOST_GROUPS];
  EM_EACH(l, w->alive) {
    int t = thread_of(w, l);
    if (begins) tell_own(r, m, t);
    else learn(r, t, m->told);
  }
}

static meeting *mbarrier_at(em_races *r, const em_block *b, const void *at) {
  size_t offset = (size_t)((const unsigned char *)at - b->shared);
  if (offset >= r->bytes) return NULL;
  for (int n = 0; n < r->mbarrier_count; n++)
    if (r->mbarrier_at[n] == offset) return &r->meetings[EM_BARRIERS + n];
  if (r->mbarrier_count == MOST_MBARRIERS) return NULL;
  r->mbarrier_at[r->mbarrier_count] = offset;
  return &r->meetings[EM_BARRIERS + r->mbarrier_count++];
}
/* engine: not the thread, but what it has had copied. */
void em_races_count(em_warp *w, int lane, const void *at, bool engine) {
  em_races *r = w->block->races;
  meeting *m = r ? mbarrier_at(r, w->block, at) : NULL;
  if (!m) return;
  if (engine) tell(r, m, r->engine);
  else tell_own(r, m, thread_of(w, lane));
}
void em_races_phase(em_warp *w, const void *at) {
  em_races *r = w->block->races;
  meeting *m = r ? mbarrier_at(r, w->block, at) : NULL;
  if (!m) return;
  become(r, &m->known[0], together(r, m->known[0], m->told));
  forget_told(r, m);
}
void em_races_seen(em_warp *w, int lane, const void *at) {
  em_races *r = w->block->races;
  meeting *m = r ? mbarrier_at(r, w->block, at) : NULL;
  if (m) learn(r, thread_of(w, lane), m->known[0]);
}

/* ---- words and bytes -------------------------------------------------------------------------------- */
/* Who is at a place, by what instruction, and what it knows: its own time is `now`. */
typedef struct visit {
  em_warp *w;
  const em_insn *i;
  int lane, who;
  uint32_t now;
  const uint32_t *known;
} visit;

static bool is_over(const visit *v, int who, uint32_t at) { return at <= (who == v->who ? v->now : v->known[who]); }

static bool report(const visit *v, size_t at, bool writes, int other, bool wrote, int line) {
  const int threads = v->w->block->races->threads;
  bool engine = other >= threads;
  em_fail(v->w, v->i, v->lane, "a race: byte 0x%zx of shared memory is %s, and %sthread %d has %s it at line %d; nothing puts them in order", at, writes ? "written" : "read",
          engine ? "a copy of " : "", engine ? other - threads : other, wrote ? "written" : "read", line);
  return false;
}

/* One more beside those who have read; who has read before one that knows it need not be kept. */
static void add_reader(const visit *v, readers *s, int threads) {
  int left = 0;
  if (s->many) {
    s->all[v->who] = v->now;
    return;
  }
  for (int n = 0; n < s->count; n++)
    if (!is_over(v, s->of[n].who, s->of[n].at)) s->of[left++] = s->of[n];
  if (left < FEW) {
    s->of[left] = (reader){v->now, v->who};
    s->count = left + 1;
    return;
  }
  s->many = true;
  memset(s->all, 0, (size_t)threads * sizeof *s->all);
  for (int n = 0; n < left; n++) s->all[s->of[n].who] = s->of[n].at;
  s->all[v->who] = v->now;
}

static bool read_cell(const visit *v, em_races *r, cell *c, size_t at) {
  if (c->wrote != NOBODY && !is_over(v, c->wrote, c->wrote_at)) return report(v, at, false, c->wrote, true, c->wrote_line);
  c->read_line = v->i->line;
  if (!c->several && c->read != NOBODY && !is_over(v, c->read, c->read_at)) {
    c->several = new_readers(r);
    c->several->of[c->several->count++] = (reader){c->read_at, c->read};
  }
  if (c->several) {
    add_reader(v, c->several, r->threads);
  } else {
    c->read = (uint16_t)v->who;
    c->read_at = v->now;
  }
  return true;
}

/* Lanes that write by one instruction are taken to write the same. */
static bool wrote_together(const cell *c, const visit *v) { return c->wrote / EM_LANES == v->who / EM_LANES && c->wrote_line == v->i->line; }

static bool write_cell(const visit *v, em_races *r, cell *c, size_t at) {
  const readers *s = c->several;
  if (c->wrote != NOBODY && !is_over(v, c->wrote, c->wrote_at) && !wrote_together(c, v)) return report(v, at, true, c->wrote, true, c->wrote_line);
  if (!s && c->read != NOBODY && !is_over(v, c->read, c->read_at)) return report(v, at, true, c->read, false, c->read_line);
  for (int n = 0; s && !s->many && n < s->count; n++)
    if (!is_over(v, s->of[n].who, s->of[n].at)) return report(v, at, true, s->of[n].who, false, c->read_line);
  for (int t = 0; s && s->many && t < r->threads; t++)
    if (!is_over(v, t, s->all[t])) return report(v, at, true, t, false, c->read_line);
  forget_readers(r, c);
  c->wrote = (uint16_t)v->who, c->wrote_at = v->now, c->wrote_line = v->i->line, c->read = NOBODY;
  return true;
}

static bool visit_cell(const visit *v, em_races *r, cell *c, size_t at, bool writes) { return writes ? write_cell(v, r, c, at) : read_cell(v, r, c, at); }

static cell *word_at(em_races *r, size_t at) {
  cell *c = &r->cells[at / WORD];
  if (c->start == r->start) return c;
  forget_readers(r, c);
  forget_bytes(r, c);
  *c = (cell){.start = r->start, .wrote = NOBODY, .read = NOBODY};
  return c;
}

/* From now on each byte has its own: to begin with, what its word has. */
static void part(em_races *r, cell *c) {
  c->bytes = calloc(WORD, sizeof *c->bytes);
  if (!c->bytes) abort();
  for (int n = 0; n < WORD; n++) {
    cell *b = &c->bytes[n];
    *b = *c;
    b->bytes = NULL;
    if (!c->several) continue;
    b->several = new_readers(r);
    memcpy(b->several, c->several, sizeof *c->several + (c->several->many ? (size_t)r->threads * sizeof *c->several->all : 0));
  }
  forget_readers(r, c);
}

/* The bytes of one word. */
static bool visit_word(const visit *v, em_races *r, size_t first, size_t bytes, bool writes) {
  cell *c = word_at(r, first);
  if (!c->bytes && bytes == WORD) return visit_cell(v, r, c, first, writes);
  if (!c->bytes) part(r, c);
  for (size_t n = first; n < first + bytes; n++)
    if (!visit_cell(v, r, &c->bytes[n % WORD], n, writes)) return false;
  if (bytes < WORD || !writes) return true;
  cell whole = c->bytes[0]; /* all four are alike again */
  forget_bytes(r, c);
  *c = whole;
  return true;
}

static bool touch(const visit *v, const void *at, size_t bytes, bool writes) {
  em_races *r = v->w->block->races;
  const unsigned char *shared = v->w->block->shared;
  size_t first = (size_t)((const unsigned char *)at - shared), end = first + bytes;
  if ((const unsigned char *)at < shared || end > r->bytes) return true; /* not of shared memory */
  for (size_t next; first < end; first = next) {
    next = first / WORD * WORD + WORD;
    if (next > end) next = end;
    if (!visit_word(v, r, first, next - first, writes)) return false;
  }
  return true;
}

bool em_races_touch(em_warp *w, const em_insn *i, int lane, const void *at, size_t bytes, bool writes) {
  em_races *r = w->block->races;
  if (!r) return true;
  int t = thread_of(w, lane);
  const visit v = {w, i, lane, t, r->own[t], r->known[t]->time};
  return touch(&v, at, bytes, writes);
}

/* A copy begins: it knows what the thread knows that starts it. */
void em_races_copy(em_warp *w, int lane) {
  em_races *r = w->block->races;
  if (!r) return;
  int t = thread_of(w, lane);
  become(r, &r->engine, copy_of(r, r->known[t]));
  r->engine->time[t] = r->own[t]++;
  r->engine->time[r->threads + t] = ++r->started[t];
}
bool em_races_copies(em_warp *w, const em_insn *i, int lane, const void *at, size_t bytes) {
  em_races *r = w->block->races;
  if (!r) return true;
  int who = r->threads + thread_of(w, lane);
  const visit v = {w, i, lane, who, r->engine->time[who], r->engine->time};
  return touch(&v, at, bytes, true);
}
