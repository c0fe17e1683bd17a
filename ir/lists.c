/* lists.c - see lists.h: what formats mean, and those whose entries lie as csr's do. */
#include <stdatomic.h>

#include "ir/lists_parts.h"

/* ---- which formats --------------------------------------------------------------------------- */
typedef enum kind { OTHER, ROWS, LISTED_ROWS, TUPLES, BLOCKS } kind;

static bool is_level(const ir_level *l, ir_level_kind k, ir_level_map map) {
  return l->kind == k && l->map == map;
}

static bool is_blocks(const ir_level *l) {
  return is_level(&l[0], IR_LEVEL_DENSE, IR_MAP_DIV) &&
         is_level(&l[1], IR_LEVEL_COMPRESSED, IR_MAP_DIV) &&
         is_level(&l[2], IR_LEVEL_DENSE, IR_MAP_MOD) &&
         is_level(&l[3], IR_LEVEL_DENSE, IR_MAP_MOD) && l[2].dim == l[0].dim;
}

static kind kind_of(const ir_format *f) {
  const ir_level *l = f->level;
  if (f->rank == 2 && f->level_count == 4 && is_blocks(l)) return BLOCKS;
  if (f->rank != 2 || f->level_count != 2) return OTHER;
  bool lists = is_level(&l[1], IR_LEVEL_COMPRESSED, IR_MAP_WHOLE);
  if (lists && is_level(&l[0], IR_LEVEL_DENSE, IR_MAP_WHOLE)) return ROWS;
  if (!is_level(&l[0], IR_LEVEL_COMPRESSED, IR_MAP_WHOLE)) return OTHER;
  if (lists && l[0].unique) return LISTED_ROWS;
  return is_level(&l[1], IR_LEVEL_SINGLETON, IR_MAP_WHOLE) ? TUPLES : OTHER;
}

static bool is_sized(ir_dtype dtype) {
  size_t bytes = dtype == IR_NONE ? 0 : ir_dtype_bytes(dtype);
  return bytes <= 2 || bytes == 4 || bytes == 8;
}

/* Positions and coordinates are i32, and what is stored can be numbered in it. */
static bool is_narrow(const ir_view *v) {
  for (int k = 0; k < v->format->level_count; k++) {
    const ir_array *pos = &v->pos[k], *crd = &v->crd[k];
    if ((pos->count && pos->dtype != IR_I32) || (crd->count && crd->dtype != IR_I32)) return false;
    if (crd->count >= INT32_MAX) return false;
  }
  return v->vals.count < INT32_MAX;
}

/* Rows and columns get a number each: not where there are far more of them than entries. */
static bool is_worth(const ir_view *v) {
  int64_t stored = v->format->level[1].kind == IR_LEVEL_DENSE ? 0 : v->crd[1].count;
  for (int d = 0; d < 2; d++)
    if (v->dim[d] > 16 * stored + (1 << 20) || v->dim[d] >= INT32_MAX) return false;
  return true;
}

/* ---- lists that are sound and in order ------------------------------------------------------- */
typedef struct check {
  const ir_lists *l;
  atomic_bool wrong;
} check;

enum { PIECE = 64 }; /* of a fixed length, so that compilers take several at a time */

/* The highest bit is set where a coordinate lies outside 0 .. last. */
static uint32_t outside(const int32_t *crd, uint32_t last) {
  uint32_t sign = 0;
  for (int i = 0; i < PIECE; i++) sign |= (uint32_t)crd[i] | (last - (uint32_t)crd[i]);
  return sign;
}

static int32_t falls(const int32_t *crd) {
  int32_t count = 0;
  for (int i = 0; i < PIECE; i++) count += crd[i] <= crd[i - 1];
  return count;
}

/* Where coordinates do not rise a row begins: as often as entries say as rows do. */
static bool rows_rise(const ir_lists *l, int64_t begin, int64_t end) {
  const int32_t *pos = l->pos, *crd = l->crd;
  uint32_t last = (uint32_t)l->columns - 1, sign = 0;
  int64_t starts = 0, fallen = 0, p = pos[begin], stop = pos[end];
  for (int64_t i = begin; i < end; i++)
    if (pos[i] > pos[begin] && pos[i] < pos[i + 1]) starts += crd[pos[i]] <= crd[pos[i] - 1];
  if (p < stop) sign = (uint32_t)crd[p] | (last - (uint32_t)crd[p]);
  for (p++; p + PIECE <= stop; p += PIECE) {
    sign |= outside(crd + p, last);
    fallen += falls(crd + p);
  }
  for (; p < stop; p++) {
    sign |= (uint32_t)crd[p] | (last - (uint32_t)crd[p]);
    fallen += crd[p] <= crd[p - 1];
  }
  return sign >> 31 == 0 && fallen == starts;
}

static void check_rows(void *user, int64_t begin, int64_t end) {
  check *c = user;
  const int32_t *pos = c->l->pos;
  bool rise = true;
  for (int64_t i = begin; i < end; i++)
    rise &= pos[i] >= 0 && pos[i] <= pos[i + 1] && pos[i + 1] <= c->l->count;
  if (!rise || !rows_rise(c->l, begin, end))
    atomic_store_explicit(&c->wrong, true, memory_order_relaxed);
}

bool ir_lists_in_order(const ir_lists *l) {
  check c = {.l = l};
  if (l->pos[0] != 0 || l->pos[l->rows] != l->count) return false;
  atomic_init(&c.wrong, false);
  if (l->rows) ir_crew_for(l->crew, l->rows, ir_lists_ns(l->count) / 4, check_rows, &c);
  return !atomic_load(&c.wrong);
}

/* ---- into lists ------------------------------------------------------------------------------ */
/* Rows that are listed themselves: those between them are empty. */
static bool begin_listed_rows(ir_lists *l, const ir_view *from) {
  const int32_t *row = from->crd[0].data, *at = from->pos[1].data;
  int64_t listed = from->crd[0].count, next = 0;
  if (from->pos[1].count != listed + 1) return false;
  l->pos = ir_lists_numbers(l, l->rows + 1);
  for (int64_t k = 0; k < listed; k++) {
    if (row[k] < next || row[k] >= l->rows) return false;
    while (next <= row[k]) l->pos[next++] = at[k];
  }
  while (next <= l->rows) l->pos[next++] = at[listed];
  return true;
}

typedef struct tuples {
  ir_lists *l;
  const int32_t *row;
  atomic_bool wrong;
} tuples;

/* Entries are in the order of their rows: where the number changes, rows begin. */
static void begin_rows(void *user, int64_t begin, int64_t end) {
  tuples *t = user;
  int32_t *pos = t->l->pos;
  for (int64_t e = begin; e < end; e++) {
    int32_t here = t->row[e], before = e ? t->row[e - 1] : -1;
    if (here == before && e) continue;
    if (here < before || before < -1 || here >= t->l->rows) {
      atomic_store_explicit(&t->wrong, true, memory_order_relaxed);
      return;
    }
    for (int64_t i = (int64_t)before + 1; i <= here; i++) pos[i] = (int32_t)e;
  }
}

static bool begin_tuples(ir_lists *l, const ir_view *from) {
  tuples t = {.l = l, .row = from->crd[0].data};
  const int32_t *all = from->pos[0].data;
  if (from->crd[0].count != l->count || from->pos[0].count != 2) return false;
  if (all[0] != 0 || all[1] != l->count) return false;
  l->pos = ir_lists_numbers(l, l->rows + 1);
  atomic_init(&t.wrong, false);
  if (l->count) ir_crew_for(l->crew, l->count, ir_lists_ns(l->count) / 2, begin_rows, &t);
  if (atomic_load(&t.wrong)) return false;
  for (int64_t i = l->count ? (int64_t)t.row[l->count - 1] + 1 : 0; i <= l->rows; i++)
    l->pos[i] = (int32_t)l->count;
  return true;
}

static bool read_lists(ir_lists *l, const ir_view *from, kind which) {
  if (which == BLOCKS) return ir_lists_unfold(l, from);
  l->crd = from->crd[1].data;
  l->vals = from->vals.data;
  l->count = from->crd[1].count;
  if (from->dtype != IR_NONE && from->vals.count < l->count) return false;
  if (which == LISTED_ROWS) return begin_listed_rows(l, from);
  if (which == TUPLES) return begin_tuples(l, from);
  l->pos = from->pos[1].data;
  return from->pos[1].count == l->rows + 1;
}

/* ---- out of lists ---------------------------------------------------------------------------- */
typedef struct copy {
  const char *from;
  char *to;
} copy;

static void copy_bytes(void *user, int64_t begin, int64_t end) {
  enum { BYTES = 1 << 16 };
  const copy *c = user;
  memcpy(c->to + begin * BYTES, c->from + begin * BYTES, (size_t)(end - begin) * BYTES);
}

/* An array of the result: what is there already where it may be taken, else a copy. */
static ir_array array_of(const ir_lists *l, void *data, int64_t count, ir_dtype dtype) {
  if (l->owned || dtype == IR_NONE)
    return (ir_array){dtype == IR_NONE ? NULL : data, dtype == IR_NONE ? 0 : count, dtype};
  ir_array array = ir_array_room(l->arena, dtype, count);
  int64_t bytes = count * (int64_t)ir_dtype_bytes(dtype), pieces = bytes >> 16;
  copy c = {data, array.data};
  if (pieces) ir_crew_for(l->crew, pieces, bytes / 8, copy_bytes, &c);
  if (bytes > pieces << 16)
    memcpy(c.to + (pieces << 16), c.from + (pieces << 16), (size_t)(bytes - (pieces << 16)));
  return array;
}

static void put_entries(const ir_lists *l, ir_view *to) {
  to->crd[1] = array_of(l, l->crd, l->count, IR_I32);
  to->vals = array_of(l, l->vals, l->count, l->dtype);
}

static void list_rows(const ir_lists *l, ir_view *to) {
  int64_t listed = 0, k = 0;
  for (int64_t i = 0; i < l->rows; i++) listed += l->pos[i] < l->pos[i + 1];
  to->pos[0] = ir_array_new(l->arena, IR_I32, 2);
  to->crd[0] = ir_array_room(l->arena, IR_I32, listed);
  to->pos[1] = ir_array_room(l->arena, IR_I32, listed + 1);
  int32_t *row = to->crd[0].data, *pos = to->pos[1].data;
  for (int64_t i = 0; i < l->rows; i++) {
    if (l->pos[i] == l->pos[i + 1]) continue;
    row[k] = (int32_t)i;
    pos[k++] = l->pos[i];
  }
  pos[listed] = (int32_t)l->count;
  ir_array_put(&to->pos[0], 1, listed);
}

typedef struct numbering {
  const ir_lists *l;
  int32_t *row;
} numbering;

static void number_rows(void *user, int64_t begin, int64_t end) {
  const numbering *n = user;
  const int32_t *pos = n->l->pos;
  for (int64_t i = begin; i < end; i++)
    for (int32_t p = pos[i]; p < pos[i + 1]; p++) n->row[p] = (int32_t)i;
}

static void put_tuples(const ir_lists *l, ir_view *to) {
  to->pos[0] = ir_array_new(l->arena, IR_I32, 2);
  ir_array_put(&to->pos[0], 1, l->count);
  to->crd[0] = ir_array_room(l->arena, IR_I32, l->count);
  numbering n = {l, to->crd[0].data};
  if (l->rows) ir_crew_for(l->crew, l->rows, ir_lists_ns(l->count) / 2, number_rows, &n);
}

static bool write_lists(const ir_lists *l, ir_view *to, kind which) {
  if (which == BLOCKS) return ir_lists_fold(l, to);
  if (which == ROWS) to->pos[1] = array_of(l, l->pos, l->rows + 1, IR_I32);
  if (which == LISTED_ROWS) list_rows(l, to);
  if (which == TUPLES) put_tuples(l, to);
  put_entries(l, to);
  return true;
}

bool ir_lists_convert(ir_arena *arena, const ir_crew *crew, const ir_view *from,
                      const ir_format *format, ir_dtype index, ir_view *to) {
  kind source = kind_of(from->format), dest = kind_of(format);
  if (!source || !dest || index != IR_I32 || !is_sized(from->dtype)) return false;
  if (!is_narrow(from) || !is_worth(from)) return false;
  ir_lists l = {.arena = arena, .crew = crew, .dtype = from->dtype};
  l.row = from->format->level[0].dim;
  l.column = 1 - l.row;
  l.rows = from->dim[l.row];
  l.columns = from->dim[l.column];
  bool turns = format->level[0].dim != l.row; /* in order after that, whatever it was */
  if (!read_lists(&l, from, source)) return false;
  if (!turns && source != BLOCKS && !ir_lists_in_order(&l)) return false;
  if (turns && !ir_lists_turn(&l)) return false;
  *to = (ir_view){.dtype = from->dtype, .rank = from->rank, .format = format};
  memcpy(to->dim, from->dim, sizeof to->dim);
  return write_lists(&l, to, dest);
}
