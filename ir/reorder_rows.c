/* reorder_rows.c - rows of lists become columns of lists: csr -> csc and back, the commonest
 * reordering.
 *
 * Entries are counted by column, then taken row by row: each goes to the next place of its column,
 * so that within a column rows rise.  Nothing is kept an entry but what the result holds. */
#include "ir/reorder_rows.h"

static bool is_rows(const ir_format *f) {
  return f->rank == 2 && f->level_count == 2 && f->level[0].kind == IR_LEVEL_DENSE &&
         f->level[1].kind == IR_LEVEL_COMPRESSED && f->level[0].map == IR_MAP_WHOLE &&
         f->level[1].map == IR_MAP_WHOLE;
}

/* Entries before each column, counted; false: a coordinate outside. */
static bool count_columns(const ir_array *crd, int64_t columns, int32_t *next) {
  const int32_t *at = crd->data;
  bool within = true;
  for (int64_t q = 0; q < crd->count; q++) {
    bool inside = (uint32_t)at[q] < (uint64_t)columns;
    next[inside ? at[q] : 0]++;
    within &= inside;
  }
  int32_t sum = 0;
  for (int64_t c = 0; c < columns; c++) {
    int32_t here = next[c];
    next[c] = sum;
    sum += here;
  }
  return within;
}

static bool rises(const int32_t *pos, int64_t rows, int64_t last) {
  bool rising = pos[0] == 0 && pos[rows] == last;
  for (int64_t i = 0; i < rows; i++) rising &= pos[i] <= pos[i + 1];
  return rising;
}

typedef struct turn {
  const int32_t *pos, *crd; /* of the rows */
  int64_t rows;
  int32_t *next; /* by column: the place of its next entry */
  int32_t *to;   /* row numbers, by place */
} turn;

#define SIZED(BITS)                                                                                \
  static void turn_##BITS(const turn *t, const void *from, void *values) {                         \
    const uint##BITS##_t *x = from;                                                                \
    uint##BITS##_t *y = values;                                                                    \
    for (int64_t i = 0; i < t->rows; i++)                                                          \
      for (int32_t p = t->pos[i]; p < t->pos[i + 1]; p++) {                                        \
        int32_t q = t->next[t->crd[p]]++;                                                          \
        t->to[q] = (int32_t)i;                                                                     \
        y[q] = x[p];                                                                               \
      }                                                                                            \
  }
SIZED(8)
SIZED(16)
SIZED(32)
SIZED(64)
#undef SIZED

static void turn_pattern(const turn *t) {
  for (int64_t i = 0; i < t->rows; i++)
    for (int32_t p = t->pos[i]; p < t->pos[i + 1]; p++) t->to[t->next[t->crd[p]]++] = (int32_t)i;
}

static void turn_all(const turn *t, const ir_view *from, ir_view *to) {
  switch (from->dtype == IR_NONE ? 0 : ir_dtype_bytes(from->dtype)) {
  case 0: turn_pattern(t); return;
  case 1: turn_8(t, from->vals.data, to->vals.data); return;
  case 2: turn_16(t, from->vals.data, to->vals.data); return;
  case 4: turn_32(t, from->vals.data, to->vals.data); return;
  default: turn_64(t, from->vals.data, to->vals.data); return;
  }
}

bool ir_reorder_rows(ir_arena *arena, const ir_view *from, const ir_format *format, ir_dtype index,
                     ir_view *to) {
  const ir_array *pos = &from->pos[1], *crd = &from->crd[1];
  if (!is_rows(from->format) || !is_rows(format) || index != IR_I32) return false;
  int64_t rows = from->dim[from->format->level[0].dim], columns = from->dim[format->level[0].dim];
  if (format->level[0].dim != from->format->level[1].dim) return false;
  if (pos->dtype != IR_I32 || crd->dtype != IR_I32 || pos->count != rows + 1 || columns == 0)
    return false;
  if (crd->count > INT32_MAX || (from->dtype && from->vals.count < crd->count)) return false;
  ir_array *ends = &to->pos[1];
  *ends = ir_array_new(arena, IR_I32, columns + 1);
  turn t = {.pos = pos->data, .crd = crd->data, .rows = rows, .next = ends->data};
  if (!rises(t.pos, rows, crd->count) || !count_columns(crd, columns, t.next)) return false;
  to->crd[1] = ir_array_new(arena, IR_I32, crd->count);
  to->vals = ir_array_new(arena, from->dtype, crd->count);
  t.to = to->crd[1].data;
  if (crd->count) turn_all(&t, from, to);
  memmove(t.next + 1, t.next,
          (size_t)columns * sizeof *t.next); /* each stands at its column's end */
  t.next[0] = 0;
  return true;
}
