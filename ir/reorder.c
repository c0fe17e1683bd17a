/* reorder.c - see reorder.h.
 *
 *     csr -> csc     entries    row    0 0 1 2      counted by column   pos = 0 1 3 4
 *                               column 1 3 1 0      and put there       crd = 2 0 1 0
 *
 * 1. Every entry gets its coordinates: the levels are unfolded from the outermost in.
 * 2. Entries are sorted by the coordinates of the new levels, least significant first, each time by
 *    counting.  What is in order already is seen in one walk and left as it is: csr -> csc counts
 *    once, coo -> csr never.
 * 3. The new levels are built from the outermost in: a level turns the positions of the level above
 *    into its own. */
#include "ir/reorder.h"

enum { DIGIT_BITS = 16, MOST = INT32_MAX - 1 };

typedef struct reorder {
  ir_arena *arena;
  const ir_view *from;
  ir_view *to;
  int64_t count;
  int32_t *place;                /* by entry: its value in `from`; NULL: the entry's number */
  int32_t *at[IR_MAX_RANK];      /* by dimension and entry */
  int32_t *key[IR_MAX_LEVELS];   /* by new level and entry */
  int64_t extent[IR_MAX_LEVELS]; /* of the new levels */
  int lists;                     /* new levels up to the last one that is not dense */
  ir_dtype index;
} reorder;

static int32_t *numbers(const reorder *r, int64_t count) {
  return IR_NEW_ARRAY(r->arena, int32_t, count + 1);
}

/* ---- which formats --------------------------------------------------------------------------- */
static bool has_plain_levels(const ir_format *f) {
  for (int l = 0; l < f->level_count; l++)
    if (f->level[l].kind != IR_LEVEL_DENSE && f->level[l].kind != IR_LEVEL_COMPRESSED &&
        f->level[l].kind != IR_LEVEL_SINGLETON)
      return false;
  return true;
}

bool ir_reorders(const ir_view *from, const ir_format *format) {
  if (from->rank != format->rank || from->rank == 0) return false;
  for (int d = 0; d < from->rank; d++)
    if (from->dim[d] > MOST) return false;
  size_t bytes = from->dtype == IR_NONE ? 0 : ir_dtype_bytes(from->dtype);
  bool sized = bytes == 0 || bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
  return sized && has_plain_levels(from->format) && has_plain_levels(format);
}

/* ---- 1: coordinates -------------------------------------------------------------------------- */
typedef struct unfolding {
  reorder *r;
  int32_t *at[IR_MAX_LEVELS]; /* by level of `from` and position in the level unfolded last */
  int64_t positions;
} unfolding;

/* Children of parent p are begin .. end - 1. */
typedef struct children {
  const ir_array *pos; /* NULL: as many for each */
  int64_t each;
} children;

static int64_t end_of(const children *c, int64_t p) {
  return c->pos ? ir_array_int(c->pos, p + 1) : (p + 1) * c->each;
}

static int32_t *repeated(const reorder *r, const children *c, const int32_t *at, int64_t parents,
                         int64_t count) {
  int32_t *out = numbers(r, count);
  for (int64_t p = 0, q = 0; p < parents; p++) {
    int64_t end = end_of(c, p);
    int32_t value = at[p];
    for (; q < end; q++) out[q] = value;
  }
  return out;
}

static bool rises(const ir_array *pos, int64_t parents, int64_t last) {
  if (pos->count != parents + 1 || ir_array_int(pos, 0) != 0) return false;
  for (int64_t p = 0; p < parents; p++)
    if (ir_array_int(pos, p) > ir_array_int(pos, p + 1)) return false;
  return ir_array_int(pos, parents) == last;
}

/* Coordinates of a level as i32, all of them within its extent; NULL: some are not. */
static int32_t *listed(const reorder *r, int level) {
  const ir_array *crd = &r->from->crd[level];
  uint32_t extent = (uint32_t)ir_format_extent(r->from->format, level, r->from->dim);
  bool within = true;
  int32_t *at = crd->dtype == IR_I32 ? crd->data : numbers(r, crd->count);
  for (int64_t q = 0; crd->dtype != IR_I32 && q < crd->count; q++) {
    int64_t c = ir_array_int(crd, q);
    at[q] = c == (int32_t)c ? (int32_t)c : -1;
  }
  for (int64_t q = 0; q < crd->count; q++) within &= (uint32_t)at[q] < extent;
  return within ? at : NULL;
}

static int32_t *counted(const reorder *r, int64_t parents, int64_t extent) {
  int32_t *at = numbers(r, parents * extent);
  for (int64_t p = 0, q = 0; p < parents; p++)
    for (int32_t c = 0; c < extent; c++) at[q++] = c;
  return at;
}

static bool unfold(unfolding *u, int level) {
  reorder *r = u->r;
  const ir_view *v = r->from;
  ir_level_kind kind = v->format->level[level].kind;
  int64_t parents = u->positions, extent = ir_format_extent(v->format, level, v->dim);
  children c = {.each = extent};
  if (kind == IR_LEVEL_DENSE) {
    if (extent && parents > MOST / extent) return false;
    u->positions = parents * extent;
    u->at[level] = counted(r, parents, extent);
  } else {
    u->positions = v->crd[level].count;
    if (u->positions > MOST || !(u->at[level] = listed(r, level))) return false;
    if (kind == IR_LEVEL_SINGLETON) return u->positions == parents;
    if (!rises(&v->pos[level], parents, u->positions)) return false;
    c.pos = &v->pos[level];
  }
  for (int l = 0; l < level && parents != u->positions; l++)
    u->at[l] = repeated(r, &c, u->at[l], parents, u->positions);
  if (c.pos && parents == u->positions && level) /* as many, but not one each */
    for (int l = 0; l < level; l++) u->at[l] = repeated(r, &c, u->at[l], parents, u->positions);
  return true;
}

/* Blocks and places in them become coordinates. */
static int32_t *joined(const reorder *r, const int32_t *block, const int32_t *in, int64_t factor) {
  int32_t *at = numbers(r, r->count);
  for (int64_t e = 0; e < r->count; e++) at[e] = (int32_t)(block[e] * factor + in[e]);
  return at;
}

static bool overhangs(const reorder *r) {
  const ir_format *f = r->from->format;
  for (int l = 0; l < f->level_count; l++)
    if (f->level[l].map == IR_MAP_MOD && r->from->dim[f->level[l].dim] % f->level[l].factor)
      return true;
  return false;
}

/* Elements of blocks that lie outside the shape are no entries. */
static void keep_inside(reorder *r) {
  int64_t kept = 0;
  r->place = numbers(r, r->count);
  for (int64_t e = 0; e < r->count; e++) {
    bool inside = true;
    for (int d = 0; d < r->from->rank; d++) inside &= r->at[d][e] < r->from->dim[d];
    for (int d = 0; d < r->from->rank; d++) r->at[d][kept] = r->at[d][e];
    r->place[kept] = (int32_t)e;
    kept += inside;
  }
  r->count = kept;
}

static bool find_coordinates(reorder *r) {
  const ir_format *f = r->from->format;
  unfolding u = {.r = r, .positions = 1};
  for (int l = 0; l < f->level_count; l++)
    if (!unfold(&u, l)) return false;
  if (r->from->dtype != IR_NONE && r->from->vals.count < u.positions) return false;
  r->count = u.positions;
  bool copies = overhangs(r);
  for (int l = 0; l < f->level_count; l++) {
    const ir_level *level = &f->level[l];
    if (level->map == IR_MAP_MOD)
      r->at[level->dim] = joined(r, r->at[level->dim], u.at[l], level->factor);
    else
      r->at[level->dim] = u.at[l];
  }
  for (int d = 0; copies && d < r->from->rank; d++) { /* operands are not written to */
    int32_t *own = numbers(r, r->count);
    memcpy(own, r->at[d], (size_t)r->count * sizeof *own);
    r->at[d] = own;
  }
  if (copies) keep_inside(r);
  return true;
}

static void find_keys(reorder *r, const ir_format *format) {
  for (int l = 0; l < format->level_count; l++) {
    const ir_level *level = &format->level[l];
    int32_t *at = r->at[level->dim], factor = (int32_t)level->factor;
    r->extent[l] = ir_format_extent(format, l, r->from->dim);
    if (level->kind != IR_LEVEL_DENSE) r->lists = l + 1;
    r->key[l] = at;
    if (level->map == IR_MAP_WHOLE) continue;
    r->key[l] = numbers(r, r->count);
    for (int64_t e = 0; e < r->count; e++)
      r->key[l][e] = level->map == IR_MAP_DIV ? at[e] / factor : at[e] % factor;
  }
}

/* ---- 2: order -------------------------------------------------------------------------------- */
/* Two keys, without a branch an entry. */
static bool pairs_in_order(const int32_t *x, const int32_t *y, int64_t count) {
  enum { RUN = 4096 };
  for (int64_t first = 1; first < count; first += RUN) {
    int64_t end = first + RUN < count ? first + RUN : count;
    int wrong = 0;
    for (int64_t e = first; e < end; e++)
      wrong |= (x[e] < x[e - 1]) | ((x[e] == x[e - 1]) & (y[e] < y[e - 1]));
    if (wrong) return false;
  }
  return true;
}

/* The entries lie in the order of levels first .. lists - 1. */
static bool in_order(const reorder *r, int first) {
  if (first + 2 == r->lists) return pairs_in_order(r->key[first], r->key[first + 1], r->count);
  for (int64_t e = 1; e < r->count; e++) {
    int l = first;
    while (l < r->lists && r->key[l][e] == r->key[l][e - 1]) l++;
    if (l < r->lists && r->key[l][e] < r->key[l][e - 1]) return false;
  }
  return true;
}

/* Among entries of the same outermost coordinate those after it rise: sorting by it is enough. */
static bool groups_in_order(const reorder *r) {
  if (r->lists < 2 || r->extent[0] > 2 * r->count + (1 << DIGIT_BITS)) return false;
  int32_t *last = numbers(r, r->extent[0]); /* by coordinate: one more than the entry before */
  for (int64_t e = 0; e < r->count; e++) {
    int64_t before = last[r->key[0][e]] - 1;
    int l = 1;
    while (before >= 0 && l < r->lists && r->key[l][e] == r->key[l][before]) l++;
    if (before >= 0 && l < r->lists && r->key[l][e] < r->key[l][before]) return false;
    last[r->key[0][e]] = (int32_t)e + 1;
  }
  return true;
}

/* Sorts by one digit of a key; order NULL: as they lie. */
static int32_t *by_digit(const reorder *r, const int32_t *key, int shift, uint32_t mask,
                         const int32_t *order) {
  int32_t *start = numbers(r, (int64_t)mask + 1), *out = numbers(r, r->count);
  for (int64_t e = 0; e < r->count; e++) start[(uint32_t)key[e] >> shift & mask]++;
  int32_t sum = 0;
  for (int64_t c = 0; c <= mask; c++) {
    int32_t here = start[c];
    start[c] = sum;
    sum += here;
  }
  for (int64_t i = 0; i < r->count; i++) {
    int32_t e = order ? order[i] : (int32_t)i;
    out[start[(uint32_t)key[e] >> shift & mask]++] = e;
  }
  return out;
}

static int bits_of(int64_t extent) {
  int bits = 0;
  while (bits < 31 && (int64_t)1 << bits < extent) bits++;
  return bits;
}

/* By a whole key: at once where there are about as many entries as values, else by its digits. */
static int32_t *by_key(const reorder *r, int level, int32_t *order) {
  int bits = bits_of(r->extent[level]), most = DIGIT_BITS;
  while (most < bits && (int64_t)1 << most < 2 * r->count) most++;
  for (int shift = 0; shift < bits; shift += most) {
    int width = bits - shift < most ? bits - shift : most;
    order = by_digit(r, r->key[level], shift, ((uint32_t)1 << width) - 1, order);
  }
  return order;
}

static int32_t *gathered(const reorder *r, const int32_t *key, const int32_t *order) {
  int32_t *out = numbers(r, r->count);
  for (int64_t i = 0; i < r->count; i++) out[i] = key[order[i]];
  return out;
}

static void sort(reorder *r) {
  int first = 0;
  int32_t *order = NULL;
  while (first < r->lists && !in_order(r, first) && !(first == 1 && groups_in_order(r))) first++;
  for (int l = first - 1; l >= 0; l--) order = by_key(r, l, order);
  if (!order) return;
  for (int l = 0; l < r->to->format->level_count; l++) r->key[l] = gathered(r, r->key[l], order);
  if (r->place) order = gathered(r, r->place, order);
  r->place = order;
}

/* ---- 3: levels ------------------------------------------------------------------------------- */
typedef struct building {
  reorder *r;
  int32_t *p;        /* by entry: its position in the level built last; NULL: 0 */
  uint8_t *change;   /* by entry: the first level whose coordinate differs from the entry before;
                        NULL: nobody asked */
  int64_t positions; /* of the level built last */
  bool own;          /* p is not another's memory */
} building;

static void find_changes(building *b) {
  reorder *r = b->r;
  b->change = IR_NEW_ARRAY(r->arena, uint8_t, r->count + 1);
  memset(b->change, r->lists, (size_t)r->count);
  for (int l = r->lists - 1; l >= 0; l--)
    for (int64_t e = 1; e < r->count; e++)
      if (r->key[l][e] != r->key[l][e - 1]) b->change[e] = (uint8_t)l;
  b->change[0] = 0;
}

static bool build_dense(building *b, int level) {
  reorder *r = b->r;
  int64_t extent = r->extent[level];
  if (extent && b->positions > MOST / extent) return false;
  b->positions *= extent;
  if (!b->p) {
    b->p = r->key[level];
    return true;
  }
  int32_t *p = b->own ? b->p : numbers(r, r->count);
  for (int64_t e = 0; e < r->count; e++) p[e] = (int32_t)(b->p[e] * extent + r->key[level][e]);
  b->p = p;
  b->own = true;
  return true;
}

static int64_t count_new(building *b, int end) {
  int64_t count = 0;
  if (!b->change) find_changes(b);
  for (int64_t e = 0; e < b->r->count; e++) count += b->change[e] <= end;
  return count;
}

/* One position an entry: coordinates are what the keys are, positions follow from the parents. */
static void list_each(building *b, ir_array *pos, ir_array *crd, const int32_t *key) {
  int64_t count = b->r->count, filled = 0;
  for (int64_t e = 0; b->p && e < count; e++)
    while (filled < b->p[e]) ir_array_put(pos, ++filled, e);
  while (filled + 1 < pos->count) ir_array_put(pos, ++filled, count);
  if (crd->dtype == IR_I32 && count) memcpy(crd->data, key, (size_t)count * sizeof *key);
  for (int64_t e = 0; crd->dtype != IR_I32 && e < count; e++) ir_array_put(crd, e, key[e]);
}

static void list_new(building *b, ir_array *pos, ir_array *crd, const int32_t *key, int end,
                     int32_t *p) {
  int64_t q = -1, filled = 0;
  for (int64_t e = 0; e < b->r->count; e++) {
    if (b->change[e] <= end) {
      q++;
      while (b->p && filled < b->p[e]) ir_array_put(pos, ++filled, q);
      ir_array_put(crd, q, key[e]);
    }
    p[e] = (int32_t)q;
  }
  while (filled + 1 < pos->count) ir_array_put(pos, ++filled, q + 1);
}

static int32_t *entry_numbers(const reorder *r) {
  int32_t *p = numbers(r, r->count);
  for (int64_t e = 0; e < r->count; e++) p[e] = (int32_t)e;
  return p;
}

static void build_compressed(building *b, int level) {
  reorder *r = b->r;
  ir_view *to = r->to;
  int end = ir_format_chain_end(to->format, level);
  bool last = end + 1 == to->format->level_count;
  int64_t stored = last ? r->count : count_new(b, end);
  to->pos[level] = ir_array_new(r->arena, r->index, b->positions + 1);
  to->crd[level] = ir_array_new(r->arena, r->index, stored);
  if (stored == r->count) {
    list_each(b, &to->pos[level], &to->crd[level], r->key[level]);
    b->p = last ? NULL : entry_numbers(r);
    b->own = true;
  } else {
    int32_t *p = numbers(r, r->count);
    list_new(b, &to->pos[level], &to->crd[level], r->key[level], end, p);
    b->p = p;
    b->own = true;
  }
  b->positions = stored;
}

static void build_singleton(building *b, int level) {
  reorder *r = b->r;
  ir_array *crd = &r->to->crd[level];
  *crd = ir_array_new(r->arena, r->index, b->positions);
  for (int64_t e = 0; e < r->count; e++) ir_array_put(crd, b->p ? b->p[e] : e, r->key[level][e]);
}

#define SIZED(BITS)                                                                                \
  static void move_##BITS(const reorder *r, const int32_t *p) {                                    \
    const uint##BITS##_t *x = r->from->vals.data;                                                  \
    uint##BITS##_t *y = r->to->vals.data;                                                          \
    if (p && r->place)                                                                             \
      for (int64_t e = 0; e < r->count; e++) y[p[e]] = x[r->place[e]];                             \
    else if (p)                                                                                    \
      for (int64_t e = 0; e < r->count; e++) y[p[e]] = x[e];                                       \
    else                                                                                           \
      for (int64_t e = 0; e < r->count; e++) y[e] = x[r->place[e]];                                \
  }
SIZED(8)
SIZED(16)
SIZED(32)
SIZED(64)
#undef SIZED

/* p: by entry, the place of its value; NULL: the entry's number. */
static void move_values(const reorder *r, const int32_t *p, int64_t stored) {
  ir_dtype t = r->from->dtype;
  r->to->vals = ir_array_new(r->arena, t, stored);
  if (t == IR_NONE || !r->count) return;
  if (!p && !r->place) {
    memcpy(r->to->vals.data, r->from->vals.data, (size_t)r->count * ir_dtype_bytes(t));
    return;
  }
  switch (ir_dtype_bytes(t)) {
  case 1: move_8(r, p); return;
  case 2: move_16(r, p); return;
  case 4: move_32(r, p); return;
  default: move_64(r, p); return;
  }
}

static bool build(reorder *r) {
  const ir_format *f = r->to->format;
  building b = {.r = r, .positions = 1};
  for (int l = 0; l < f->level_count; l++) {
    switch (f->level[l].kind) {
    case IR_LEVEL_DENSE:
      if (!build_dense(&b, l)) return false;
      break;
    case IR_LEVEL_COMPRESSED: build_compressed(&b, l); break;
    default: build_singleton(&b, l); break;
    }
  }
  move_values(r, b.p, b.positions);
  return true;
}

bool ir_reorder(ir_arena *arena, const ir_view *from, const ir_format *format, ir_dtype index,
                ir_view *to) {
  if (!ir_reorders(from, format)) return false;
  reorder r = {.arena = arena, .from = from, .to = to, .index = index};
  *to = (ir_view){.dtype = from->dtype, .rank = from->rank, .format = format};
  memcpy(to->dim, from->dim, sizeof to->dim);
  if (!find_coordinates(&r)) return false;
  find_keys(&r, format);
  sort(&r);
  return build(&r);
}
