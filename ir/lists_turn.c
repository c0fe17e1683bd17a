/* lists_turn.c - rows of lists become columns of lists: csr -> csc and back.
 *
 * Entries are counted by column, then taken row by row: each goes to the next place of its column,
 * so that within a column rows rise.  Rows are cut into parts of about as many entries, as many as
 * there are threads: each part counts for itself and has its own next place in every column, behind
 * those of the parts before it. */
#include <stdatomic.h>

#include "ir/lists_parts.h"

enum { MOST_PARTS = 16, LEAST_ENTRIES = 1 << 14 };

typedef struct turn {
  const ir_lists *l;
  int parts;
  int64_t bound[MOST_PARTS + 1]; /* rows */
  int32_t *next;                 /* [parts][columns] */
  int32_t *to;                   /* row numbers, by place */
  void *vals;
  atomic_bool wrong;
} turn;

static bool is_sound(const ir_lists *l) {
  bool rising = l->pos[0] == 0 && l->pos[l->rows] == l->count;
  for (int64_t i = 0; i < l->rows; i++) rising &= l->pos[i] <= l->pos[i + 1];
  return rising;
}

static void cut_rows(turn *t) {
  int64_t i = 0;
  for (int part = 0; part < t->parts; part++) {
    int64_t entries = t->l->count * part / t->parts;
    while (i < t->l->rows && t->l->pos[i] < entries) i++;
    t->bound[part] = i;
  }
  t->bound[t->parts] = t->l->rows;
}

static void count_columns(void *user, int64_t begin, int64_t end) {
  turn *t = user;
  for (int64_t part = begin; part < end; part++) {
    int32_t *count = t->next + part * t->l->columns;
    bool within = true;
    for (int64_t p = t->l->pos[t->bound[part]]; p < t->l->pos[t->bound[part + 1]]; p++) {
      bool inside = (uint32_t)t->l->crd[p] < (uint64_t)t->l->columns;
      count[inside ? t->l->crd[p] : 0]++;
      within &= inside;
    }
    if (!within) atomic_store_explicit(&t->wrong, true, memory_order_relaxed);
  }
}

/* Counts become places; where columns begin is the result's. */
static void place_columns(turn *t, int32_t *pos) {
  int64_t columns = t->l->columns;
  int32_t sum = 0;
  for (int64_t c = 0; c < columns; c++) {
    pos[c] = sum;
    for (int part = 0; part < t->parts; part++) {
      int32_t here = t->next[part * columns + c];
      t->next[part * columns + c] = sum;
      sum += here;
    }
  }
  pos[columns] = sum;
}

#define SIZED(BITS)                                                                                \
  static void turn_##BITS(const turn *t, int64_t part) {                                           \
    const uint##BITS##_t *x = t->l->vals;                                                          \
    uint##BITS##_t *y = t->vals;                                                                   \
    int32_t *next = t->next + part * t->l->columns, *to = t->to;                                   \
    const int32_t *pos = t->l->pos, *crd = t->l->crd;                                              \
    for (int64_t i = t->bound[part]; i < t->bound[part + 1]; i++)                                  \
      for (int32_t p = pos[i]; p < pos[i + 1]; p++) {                                              \
        int32_t q = next[crd[p]]++;                                                                \
        to[q] = (int32_t)i;                                                                        \
        y[q] = x[p];                                                                               \
      }                                                                                            \
  }
SIZED(8)
SIZED(16)
SIZED(32)
SIZED(64)
#undef SIZED

static void turn_pattern(const turn *t, int64_t part) {
  int32_t *next = t->next + part * t->l->columns;
  for (int64_t i = t->bound[part]; i < t->bound[part + 1]; i++)
    for (int32_t p = t->l->pos[i]; p < t->l->pos[i + 1]; p++)
      t->to[next[t->l->crd[p]]++] = (int32_t)i;
}

static void turn_parts(void *user, int64_t begin, int64_t end) {
  const turn *t = user;
  for (int64_t part = begin; part < end; part++)
    switch (t->l->dtype == IR_NONE ? 0 : ir_dtype_bytes(t->l->dtype)) {
    case 0: turn_pattern(t, part); break;
    case 1: turn_8(t, part); break;
    case 2: turn_16(t, part); break;
    case 4: turn_32(t, part); break;
    default: turn_64(t, part); break;
    }
}

/* Several counters a column pay where columns have several entries. */
static int parts_of(const ir_lists *l) {
  if (!l->crew || l->count < LEAST_ENTRIES || l->count < 2 * l->columns) return 1;
  return l->crew->threads < MOST_PARTS ? l->crew->threads : MOST_PARTS;
}

bool ir_lists_turn(ir_lists *l) {
  turn t = {.l = l, .parts = parts_of(l)};
  if (!is_sound(l)) return false;
  if (l->columns == 0 && l->count) return false;
  atomic_init(&t.wrong, false);
  t.next = IR_NEW_ARRAY(l->arena, int32_t, t.parts * l->columns + 1);
  cut_rows(&t);
  if (l->count) ir_crew_for(l->crew, t.parts, ir_lists_ns(l->count), count_columns, &t);
  if (atomic_load(&t.wrong)) return false;
  int32_t *pos = ir_lists_numbers(l, l->columns + 1);
  place_columns(&t, pos);
  t.to = ir_lists_numbers(l, l->count);
  t.vals = ir_array_room(l->arena, l->dtype, l->count).data;
  if (l->count) ir_crew_for(l->crew, t.parts, 4 * ir_lists_ns(l->count), turn_parts, &t);
  *l = (ir_lists){.arena = l->arena,
                  .crew = l->crew,
                  .row = l->column,
                  .column = l->row,
                  .rows = l->columns,
                  .columns = l->rows,
                  .count = l->count,
                  .dtype = l->dtype,
                  .pos = pos,
                  .crd = t.to,
                  .vals = t.vals,
                  .owned = true};
  return true;
}
