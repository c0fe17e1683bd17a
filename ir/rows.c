/* rows.c - see rows.h.  Two passes over the values: how many of each tile are not zero, then these
 * with their coordinates.  A value is zero when no bit but a float's sign is set. */
#include "ir/rows.h"

/* ---- values of each size --------------------------------------------------------------------- */
static uint64_t value_bits(ir_dtype t) {
  int bits = 8 * (int)ir_dtype_bytes(t);
  uint64_t all = bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
  return ir_dtype_is_float(t) ? all >> 1 : all;
}

typedef struct place {
  void *crd, *vals; /* of the first entry */
  bool wide;        /* crd is i64 */
  bool spread;      /* coordinate c at place c; else one entry after the other */
} place;

static void put_coordinate(const place *to, int64_t q, int64_t c) {
  if (to->wide)
    ((int64_t *)to->crd)[q] = c;
  else
    ((int32_t *)to->crd)[q] = (int32_t)c;
}

#define SIZED(BITS)                                                                                \
  static int64_t count_##BITS(const void *values, int64_t n, uint64_t mask) {                      \
    const uint##BITS##_t *x = values, bits = (uint##BITS##_t)mask;                                 \
    int64_t count = 0;                                                                             \
    for (int64_t c = 0; c < n; c++) count += (x[c] & bits) != 0;                                   \
    return count;                                                                                  \
  }                                                                                                \
  static void list_##BITS(const void *values, int64_t n, uint64_t mask, const place *to) {         \
    const uint##BITS##_t *x = values, bits = (uint##BITS##_t)mask;                                 \
    for (int64_t c = 0, q = 0; c < n; c++) {                                                       \
      if (!(x[c] & bits)) continue;                                                                \
      int64_t at = to->spread ? c : q++;                                                           \
      put_coordinate(to, at, c);                                                                   \
      ((uint##BITS##_t *)to->vals)[at] = x[c];                                                     \
    }                                                                                              \
  }
SIZED(8)
SIZED(16)
SIZED(32)
SIZED(64)
#undef SIZED

static int64_t count_values(ir_dtype t, const void *values, int64_t n) {
  uint64_t mask = value_bits(t);
  switch (ir_dtype_bytes(t)) {
  case 1: return count_8(values, n, mask);
  case 2: return count_16(values, n, mask);
  case 4: return count_32(values, n, mask);
  default: return count_64(values, n, mask);
  }
}

static void list_values(ir_dtype t, const void *values, int64_t n, const place *to) {
  uint64_t mask = value_bits(t);
  switch (ir_dtype_bytes(t)) {
  case 1: list_8(values, n, mask, to); return;
  case 2: list_16(values, n, mask, to); return;
  case 4: list_32(values, n, mask, to); return;
  default: list_64(values, n, mask, to); return;
  }
}

/* ---- which formats --------------------------------------------------------------------------- */
static bool is_whole(const ir_level *l, int dim) { return l->map == IR_MAP_WHOLE && l->dim == dim; }

/* The same dimensions in the same order, dense but for the last. */
static bool rows_alike(const ir_view *from, const ir_format *to) {
  int last = from->rank - 1;
  if (last < 0 || !ir_format_is_dense(from->format) || from->dtype == IR_NONE) return false;
  for (int k = 0; k < last; k++)
    if (to->level[k].kind != IR_LEVEL_DENSE || !is_whole(&to->level[k], from->format->level[k].dim))
      return false;
  const ir_level *l = &to->level[last], *in = l + 1;
  int dim = from->format->level[last].dim;
  if (to->level_count == last + 1)
    return is_whole(l, dim) && (l->kind == IR_LEVEL_COMPRESSED || l->kind == IR_LEVEL_PACKED);
  return to->level_count == last + 2 && l->kind == IR_LEVEL_DENSE && l->map == IR_MAP_DIV &&
         l->dim == dim && in->kind == IR_LEVEL_PACKED && in->map == IR_MAP_MOD;
}

bool ir_rows_begin(ir_arena *arena, const ir_view *from, const ir_format *format, ir_dtype index,
                   ir_rows *rows) {
  if (from->rank != format->rank || format->level_count < 1 || !rows_alike(from, format))
    return false;
  int level = format->level_count - 1;
  *rows = (ir_rows){.from = from, .count = 1, .level = level, .index = index};
  rows->to = (ir_view){.dtype = from->dtype, .rank = from->rank, .format = format};
  for (int d = 0; d < from->rank; d++) rows->to.dim[d] = from->dim[d];
  for (int k = 0; k + 1 < from->rank; k++) rows->count *= from->dim[from->format->level[k].dim];
  rows->length = from->dim[from->format->level[from->rank - 1].dim];
  rows->width = format->level[level].factor ? format->level[level].factor : rows->length;
  rows->tiles = format->level[level].factor ? ir_format_extent(format, level - 1, from->dim) : 1;
  rows->capacity = format->level[level].parameter;
  rows->stored = IR_NEW_ARRAY(arena, int64_t, rows->count * rows->tiles + 1);
  return true;
}

/* ---- the passes ------------------------------------------------------------------------------ */
static const char *tile_values(const ir_rows *r, int64_t row, int64_t tile, int64_t *n) {
  int64_t first = tile * r->width, left = r->length - first;
  *n = left < r->width ? left : r->width;
  return (const char *)r->from->vals.data +
         (size_t)(row * r->length + first) * ir_dtype_bytes(r->to.dtype);
}

void ir_rows_count(ir_rows *r, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; row++)
    for (int64_t tile = 0, n; tile < r->tiles; tile++) {
      const char *values = tile_values(r, row, tile, &n);
      r->stored[row * r->tiles + tile] = count_values(r->to.dtype, values, n);
    }
}

/* Positions of the rows; how many values there are. */
static int64_t scan_compressed(ir_arena *arena, ir_rows *r) {
  int64_t all = 0;
  ir_array *pos = &r->to.pos[r->level];
  *pos = ir_array_new(arena, r->index, r->count + 1);
  for (int64_t row = 0; row < r->count; row++) {
    all += r->stored[row];
    if (all <= INT32_MAX || r->index == IR_I64) ir_array_put(pos, row + 1, all);
  }
  return all;
}

/* Counts, and a slot of the rest for each tile that needs one; -1: there is no rest. */
static int64_t scan_packed(ir_arena *arena, ir_rows *r) {
  int64_t parents = r->count * r->tiles, slots = 0;
  bool has_rest = ir_level_has_rest(&r->to.format->level[r->level]);
  ir_array *counts = &r->to.pos[r->level];
  if (has_rest) *counts = ir_array_new(arena, r->index, parents + 1);
  if (r->capacity > (INT64_MAX >> 5) / (parents + 1)) return -1;
  for (int64_t p = 0; p < parents; p++) {
    bool fits = r->stored[p] <= r->capacity;
    if (!fits && !has_rest) return -1;
    if (has_rest) ir_array_put(counts, p, fits ? r->stored[p] : -1 - slots);
    slots += !fits;
  }
  if (has_rest) ir_array_put(counts, parents, slots);
  r->rest = parents * r->capacity;
  return r->rest + slots * r->width;
}

bool ir_rows_room(ir_arena *arena, ir_rows *r) {
  int64_t all = r->capacity ? scan_packed(arena, r) : scan_compressed(arena, r);
  int64_t largest = r->capacity ? r->count * r->tiles : all;
  if (all < 0 || (r->index == IR_I32 && (largest > INT32_MAX || r->length > INT32_MAX)))
    return false;
  r->to.crd[r->level] = ir_array_new(arena, r->index, all);
  r->to.vals = ir_array_new(arena, r->to.dtype, all);
  return true;
}

/* Marks `room` positions from `first` on as free. */
static void clear(ir_rows *r, int64_t first, int64_t room) {
  ir_array *crd = &r->to.crd[r->level];
  size_t bytes = ir_dtype_bytes(crd->dtype);
  if (room) memset((char *)crd->data + (size_t)first * bytes, 0xff, (size_t)room * bytes); /* -1 */
}

/* The entries of tile p go to positions from `first` on. */
static void fill_tile(ir_rows *r, int64_t p, int64_t first, bool spread) {
  const ir_array *crd = &r->to.crd[r->level];
  int64_t n;
  const char *values = tile_values(r, p / r->tiles, p % r->tiles, &n);
  if (!r->stored[p]) return;
  place to = {.wide = crd->dtype == IR_I64, .spread = spread};
  to.crd = (char *)crd->data + (size_t)first * ir_dtype_bytes(crd->dtype);
  to.vals = (char *)r->to.vals.data + (size_t)first * ir_dtype_bytes(r->to.dtype);
  list_values(r->to.dtype, values, n, &to);
}

void ir_rows_fill(ir_rows *r, int64_t begin, int64_t end) {
  const ir_array *pos = &r->to.pos[r->level];
  for (int64_t p = begin * r->tiles; p < end * r->tiles; p++) {
    int64_t first = r->capacity ? p * r->capacity : ir_array_int(pos, p);
    bool fits = !r->capacity || r->stored[p] <= r->capacity;
    if (r->capacity) clear(r, first, r->capacity);
    if (!fits) {
      first = r->rest + (-1 - ir_array_int(pos, p)) * r->width;
      clear(r, first, r->width);
    }
    fill_tile(r, p, first, !fits);
  }
}
