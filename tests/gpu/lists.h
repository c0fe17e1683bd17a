/* lists.h - of parts.c alone: what lists hold, some of them shared by two strips that are told apart, and where rows and columns
 * lie in them. */
#ifndef SPC_TESTS_GPU_LISTS_H
#define SPC_TESTS_GPU_LISTS_H

/* Lists in memory, one a strip or one for two; entries that each has room for; the list of a strip. */
static int64_t lists_there(bench *b, const ir_list *l) { return array_of(b, l->counts)->count / (l->pairs ? 3 : 1); }
static int64_t room_of(bench *b, const ir_list *l) {
  int64_t lists = lists_there(b, l);
  return lists ? array_of(b, l->ids)->count / lists : 0;
}
static int64_t list_of(const ir_list *l, int64_t strip) { return strip / (l->pairs ? 2 : 1); }

/* Any order of the rows. */
static void fill_order(bench *b, const ir_list *l) {
  array *order = array_of(b, l->order);
  int32_t *row = order->host;
  for (int64_t i = 0; i < order->count; i++) row[i] = (int32_t)i;
  for (int64_t i = order->count - 1; i > 0; i--) {
    int64_t other = (int64_t)(uniform(b) * (double)(i + 1));
    int32_t held = row[i];
    row[i] = row[other], row[other] = held;
  }
  for (int64_t i = 0; i < order->count; i++) b->place[row[i]] = i;
}

/* The list of the strip that row m belongs to. */
static int64_t strip_of(const bench *b, const ir_list *l, int64_t m) {
  return list_of(l, (l->order ? b->place[m] : m) / l->strip);
}

/* The column at position `at` of the list of m's strip; -1: past it, the end of the axis included. */
static int64_t listed(bench *b, const ir_list *l, int64_t m, int64_t at) {
  array *counts = array_of(b, l->counts), *ids = array_of(b, l->ids);
  int64_t strip = strip_of(b, l, m), capacity = room_of(b, l);
  if (at / l->gran >= ((int32_t *)counts->host)[strip]) return -1;
  int64_t n = ((int32_t *)ids->host)[strip * capacity + at / l->gran] * l->gran + at % l->gran;
  return n < b->size[CASE_N] ? n : -1;
}

/* Whether the list of m's strip names the block of column n. */
static bool is_picked(bench *b, const ir_list *l, int64_t m, int64_t n) {
  array *counts = array_of(b, l->counts), *ids = array_of(b, l->ids);
  int64_t strip = m / l->strip, capacity = ids->count / counts->count;
  for (int i = 0; i < ((int32_t *)counts->host)[strip]; i++)
    if (((int32_t *)ids->host)[strip * capacity + i] == n / l->gran) return true;
  return false;
}

/* Positions past the list are zeros up to the next multiple of 128, or the last position. */
static bool is_written(bench *b, const ir_list *l, int64_t m, int64_t at) {
  enum { TILE = 128 };
  return listed(b, l, m, at / TILE * TILE) >= 0;
}

/* Which of two strips hold an entry: bit 0, bit 1; in the order of the list. */
static const int orders[] = {1, 3, 2};

/* The ids of a pair; of each order how many. */
static int order_pair(const unsigned char *held, int64_t room, int32_t *ids, int *n) {
  int all = 0;
  for (int o = 0; o < 3; o++)
    for (int64_t t = 0; t < room; t++)
      if (held[t] == orders[o]) ids[all++] = (int32_t)t, n[orders[o]]++;
  return all;
}

static void write_pair(bench *b, const ir_list *l, int64_t pair, const unsigned char *held) {
  int32_t *counts = array_of(b, l->counts)->host;
  int64_t room = room_of(b, l), lists = lists_there(b, l);
  int n[4] = {0, 0, 0, 0};
  counts[pair] = order_pair(held, room, (int32_t *)array_of(b, l->ids)->host + pair * room, n);
  counts[lists + 2 * pair] = n[1] + n[3];
  counts[lists + 2 * pair + 1] = n[2] + n[3];
}

/* What the device made of a pair whose strips hold what `held` says; returns how many entries both have together. */
static int64_t check_pair(bench *b, const ir_stage *s, int64_t pair, const unsigned char *held, bool counted) {
  const ir_list *l = s->detects;
  int64_t room = room_of(b, l), lists = lists_there(b, l);
  const int32_t *ids = (const int32_t *)array_of(b, l->ids)->host + pair * room, *counts = array_of(b, l->counts)->host;
  int32_t *want = calloc((size_t)room + 1, sizeof *want);
  int n[4] = {0, 0, 0, 0}, all = order_pair(held, room, want, n), own[2] = {n[1] + n[3], n[2] + n[3]};
  for (int i = 0; i < all && !counted; i++)
    if (ids[i] != want[i]) fail(b, s, s->row, "id", (double)(pair * room + i), ids[i], want[i]);
  if (counts[pair] != all && !counted) fail(b, s, s->row, "count", (double)pair, counts[pair], all);
  for (int h = 0; h < 2 && !counted; h++)
    if (counts[lists + 2 * pair + h] != own[h])
      fail(b, s, s->row, "count of a strip", (double)(2 * pair + h), counts[lists + 2 * pair + h], own[h]);
  free(want);
  return own[0] + own[1];
}

/* The positions that are written for m's strip: its own, and up to the multiples of 128 around them. */
typedef struct positions { int64_t begin, end; } positions;
static positions written_for(bench *b, const ir_list *l, int64_t m) {
  enum { TILE = 128 };
  const int32_t *counts = array_of(b, l->counts)->host;
  int64_t strip = m / l->strip, all = counts[list_of(l, strip)] * l->gran, own = counts[lists_there(b, l) + strip] * l->gran;
  int64_t begin = strip % 2 ? all - own : 0;
  if (own == 0) return (positions){0, 0};
  return (positions){begin / TILE * TILE, (begin + own + TILE - 1) / TILE * TILE};
}

/* How much a strip of a list keeps.  kind 0: ragged, some strips empty; 1: all empty; 2: all full. */
static double kept(bench *b, int64_t strip, int kind) {
  return kind == 1 || (kind == 0 && strip % 3 == 1) ? 0 : kind == 2 ? 1 : uniform(b);
}

static void fill_list(bench *b, const ir_list *l, int kind) {
  array *counts = array_of(b, l->counts), *ids = array_of(b, l->ids);
  int64_t capacity = counts->count ? ids->count / counts->count : 0;
  for (int64_t s = 0; s < counts->count; s++) {
    double keep = kept(b, s, kind);
    int n = 0;
    uint32_t *bits = l->bits ? array_of(b, l->bits)->host : NULL;
    int64_t words = (capacity + 31) / 32;
    for (int64_t w = 0; bits && w < words; w++) bits[s * words + w] = 0;
    for (int64_t t = 0; t < capacity; t++) {
      if (uniform(b) >= keep) continue;
      ((int32_t *)ids->host)[s * capacity + n++] = (int32_t)t;
      if (bits) bits[s * words + t / 32] |= 1u << t % 32;
    }
    ((int32_t *)counts->host)[s] = n;
  }
}

/* Where a strip has no entry its rows of `a`, x along the strips and y along the axis, are zeros; `packed`: y is a position of the
 * list. */
static void clear_outside(bench *b, const ir_list *l, int64_t strip, const unsigned char *held, array *a, char layout, bool packed) {
  int32_t *ids = array_of(b, l->ids)->host;
  int64_t room = room_of(b, l), pair = list_of(l, strip), M = b->size[CASE_M];
  int64_t count = ((int32_t *)array_of(b, l->counts)->host)[pair], Y = a->count / (M ? M : 1);
  for (int64_t i = 0; i < count; i++) {
    int64_t id = ids[pair * room + i];
    for (int64_t r = 0; r < l->gran; r++) {
      int64_t y = (packed ? i : id) * l->gran + r;
      if (held[id] >> strip % 2 & 1 || y >= Y) continue;
      for (int64_t m = strip * l->strip; m < (strip + 1) * l->strip && m < M; m++)
        ir_dtype_store(a->buf->dtype, a->host, layout == 'r' ? m * Y + y : y * M + m, 0);
    }
  }
}

static void fill_pairs(bench *b, const ir_list *l, const product_case *p, int kind) {
  int64_t room = room_of(b, l), lists = lists_there(b, l), strips = (b->size[CASE_M] + l->strip - 1) / l->strip;
  unsigned char *held = calloc((size_t)room + 1, 1);
  bool columns = cuda_case_samples(p);
  array *values = find(b, columns ? "gate" : "A");
  for (int64_t pair = 0; pair < lists; pair++) {
    for (int64_t t = 0; t < room; t++) held[t] = 0;
    for (int64_t s = 2 * pair; s < 2 * pair + 2 && s < strips; s++) {
      double keep = kept(b, s, kind);
      for (int64_t t = 0; t < room; t++) held[t] |= (unsigned char)((uniform(b) < keep) << s % 2);
    }
    write_pair(b, l, pair, held);
    for (int64_t s = 2 * pair; s < 2 * pair + 2 && s < strips && values; s++)
      clear_outside(b, l, s, held, values, columns ? 'c' : p->layout_a, cuda_case_is_packed(p));
  }
  free(held);
}

#endif
