/* tensor_check.c - does a view keep the promises of its format?  Level by level, from the sizes of
 * the arrays to the order of the coordinates, so that nothing is read that was not checked before.
 *
 * Arrays may be longer than what is stored in them (a caller's capacity), never shorter. */
#include "ir/tensor.h"

typedef struct checker {
  ir_arena *arena;
  const ir_view *view;
  int level;
  int64_t positions; /* of the level above */
  const char *fault;
} checker;

static bool fault(checker *c, const char *format, ...) IR_PRINTF(2, 3);
static bool fault(checker *c, const char *format, ...) {
  ir_text text = ir_text_new(c->arena);
  va_list args;
  va_start(args, format);
  if (c->level < c->view->format->level_count)
    ir_text_printf(&text, "level %d (%s): ", c->level,
                   ir_level_rows[c->view->format->level[c->level].kind].text);
  ir_text_vprintf(&text, format, args);
  va_end(args);
  c->fault = text.data;
  return false;
}

static bool is_index(ir_dtype t) { return t == IR_I32 || t == IR_I64; }

static bool check_array(checker *c, const ir_array *array, const char *name, int64_t least,
                        bool bytes) {
  if (bytes ? array->dtype != IR_U8 : !is_index(array->dtype))
    return fault(c, "%s has dtype %s, not %s", name, ir_dtype_text(array->dtype),
                 bytes ? "u8" : "i32 or i64");
  if (array->count < least)
    return fault(c, "%s has %lld elements, the shape needs %lld", name, (long long)array->count,
                 (long long)least);
  if (least > 0 && !array->data) return fault(c, "%s has no data", name);
  return true;
}

static bool multiply(checker *c, int64_t factor) {
  if (factor > 0 && c->positions > INT64_MAX / factor)
    return fault(c, "the number of positions overflows");
  c->positions *= factor;
  return true;
}

static bool in_range(checker *c, int level, int64_t q, int64_t extent) {
  int64_t at = ir_array_int(&c->view->crd[level], q);
  if (at >= 0 && at < extent) return true;
  return fault(c, "crd[%lld] is %lld, outside 0..%lld", (long long)q, (long long)at,
               (long long)extent - 1);
}

/* Sign of the coordinates at q - 1 against those at q, over levels k..end. */
static int neighbours(const ir_view *view, int k, int end, int64_t q) {
  for (; k <= end; k++) {
    int64_t a = ir_array_int(&view->crd[k], q - 1), b = ir_array_int(&view->crd[k], q);
    if (a != b) return a < b ? -1 : 1;
  }
  return 0;
}

static bool check_segment(checker *c, int level, int end, int64_t begin, int64_t stop) {
  for (int64_t q = begin; q < stop; q++) {
    for (int k = level; k <= end; k++)
      if (!in_range(c, k, q, ir_format_extent(c->view->format, k, c->view->dim))) return false;
    int order = q > begin ? neighbours(c->view, level, end, q) : -1;
    if (order == 0)
      return fault(c, "coordinate %lld is stored twice (entries %lld and %lld)",
                   (long long)ir_array_int(&c->view->crd[level], q), (long long)q - 1,
                   (long long)q);
    if (order > 0) return fault(c, "coordinates are not sorted at entry %lld", (long long)q);
  }
  return true;
}

static bool check_compressed(checker *c, int level) {
  const ir_array *pos = &c->view->pos[level], *crd = &c->view->crd[level];
  int end = ir_format_chain_end(c->view->format, level);
  if (!check_array(c, pos, "pos", c->positions + 1, false)) return false;
  if (ir_array_int(pos, 0) != 0)
    return fault(c, "pos[0] is %lld, not 0", (long long)ir_array_int(pos, 0));
  for (int64_t p = 0; p < c->positions; p++)
    if (ir_array_int(pos, p + 1) < ir_array_int(pos, p))
      return fault(c, "pos falls from %lld to %lld at %lld", (long long)ir_array_int(pos, p),
                   (long long)ir_array_int(pos, p + 1), (long long)p + 1);
  int64_t stored = ir_array_int(pos, c->positions);
  if (!check_array(c, crd, "crd", stored, false)) return false;
  for (int k = level + 1; k <= end; k++)
    if (!check_array(c, &c->view->crd[k], "crd of the singleton level", stored, false))
      return false;
  for (int64_t p = 0; p < c->positions; p++)
    if (!check_segment(c, level, end, ir_array_int(pos, p), ir_array_int(pos, p + 1))) return false;
  c->positions = stored;
  return true;
}

static bool check_nm(checker *c, int level) {
  const ir_level *l = &c->view->format->level[level];
  int64_t n = l->parameter;
  if (!multiply(c, n) || !check_array(c, &c->view->crd[level], "positions", c->positions, true))
    return false;
  for (int64_t g = 0; g < c->positions; g += n)
    if (!check_segment(c, level, level, g, g + n)) return false;
  return true;
}

static bool check_bitmap(checker *c, int level) {
  int64_t extent = ir_format_extent(c->view->format, level, c->view->dim);
  int64_t tile = ir_format_bitmap_tile(c->view->format, level, c->view->dim);
  if (!multiply(c, extent)) return false;
  int64_t tiles = tile ? c->positions / tile : 0, bytes = (tile + 7) / 8, stored = 0;
  const ir_array *pos = &c->view->pos[level], *crd = &c->view->crd[level];
  if (!check_array(c, pos, "offsets", tiles + 1, false) ||
      !check_array(c, crd, "bits", tiles * bytes, true))
    return false;
  const uint8_t *bits = crd->data;
  for (int64_t t = 0; t <= tiles; t++) {
    if (ir_array_int(pos, t) != stored)
      return fault(c, "offsets[%lld] is %lld, the bits before it count %lld", (long long)t,
                   (long long)ir_array_int(pos, t), (long long)stored);
    for (int64_t b = 0; t < tiles && b < bytes * 8; b++) {
      bool set = bits[t * bytes + b / 8] >> (b % 8) & 1;
      if (set && b >= tile)
        return fault(c, "a bit beyond the end of tile %lld is set", (long long)t);
      stored += set;
    }
  }
  c->positions = stored;
  return true;
}

/* The places of the rest behind those of the parents; counts end with the number of its slots. */
static bool check_rest(checker *c, int level, int64_t parents, bool **taken) {
  int64_t slots = ir_array_int(&c->view->pos[level], parents), places = c->positions;
  int64_t extent = ir_format_extent(c->view->format, level, c->view->dim);
  if (slots < 0 || slots > parents)
    return fault(c, "the rest has %lld slots for %lld parents", (long long)slots,
                 (long long)parents);
  c->positions = slots;
  if (!multiply(c, extent) || c->positions > INT64_MAX - places)
    return fault(c, "the number of positions overflows");
  c->positions += places;
  *taken = IR_NEW_ARRAY(c->arena, bool, slots + 1);
  return true;
}

/* A parent in the rest: a slot of its own, in which place c holds coordinate c or nothing. */
static bool check_slot(checker *c, int level, int64_t p, int64_t parents, bool *taken) {
  const ir_array *counts = &c->view->pos[level], *crd = &c->view->crd[level];
  int64_t slot = -1 - ir_array_int(counts, p), slots = ir_array_int(counts, parents);
  int64_t extent = ir_format_extent(c->view->format, level, c->view->dim);
  int64_t first = parents * c->view->format->level[level].parameter + slot * extent;
  if (slot >= slots)
    return fault(c, "counts[%lld] is %lld, but the rest has %lld slots", (long long)p,
                 (long long)-1 - slot, (long long)slots);
  if (taken[slot])
    return fault(c, "slot %lld of the rest holds parent %lld and one before it", (long long)slot,
                 (long long)p);
  taken[slot] = true;
  for (int64_t at = 0; at < extent; at++) {
    int64_t stored = ir_array_int(crd, first + at);
    if (stored != at && stored != -1)
      return fault(c, "place %lld of slot %lld in the rest has crd %lld", (long long)at,
                   (long long)slot, (long long)stored);
  }
  return true;
}

static bool check_packed(checker *c, int level) {
  const ir_level *l = &c->view->format->level[level];
  const ir_array *counts = &c->view->pos[level], *crd = &c->view->crd[level];
  int64_t parents = c->positions, capacity = l->parameter;
  bool *taken = NULL; /* slots of the rest */
  if (l->has_pos && !check_array(c, counts, "counts", parents + 1, false)) return false;
  if (!multiply(c, capacity) || (l->has_pos && !check_rest(c, level, parents, &taken)) ||
      !check_array(c, crd, "crd", c->positions, false))
    return false;
  for (int64_t p = 0; p < parents; p++) {
    int64_t count = 0, begin = p * capacity;
    if (l->has_pos && ir_array_int(counts, p) < 0) {
      if (!check_slot(c, level, p, parents, taken)) return false;
      continue;
    }
    while (count < capacity && ir_array_int(crd, begin + count) >= 0) count++;
    if (l->has_pos && ir_array_int(counts, p) > capacity)
      return fault(c, "counts[%lld] is %lld, the capacity is %lld", (long long)p,
                   (long long)ir_array_int(counts, p), (long long)capacity);
    if (l->has_pos && ir_array_int(counts, p) > count)
      return fault(c, "counts[%lld] is %lld, but entry %lld is padding (-1)", (long long)p,
                   (long long)ir_array_int(counts, p), (long long)count);
    if (l->has_pos) count = ir_array_int(counts, p);
    if (!check_segment(c, level, level, begin, begin + count)) return false;
    for (int64_t q = begin + count; !l->has_pos && q < begin + capacity; q++)
      if (ir_array_int(crd, q) != -1)
        return fault(c, "row %lld has an entry after its padding (-1)", (long long)p);
  }
  return true;
}

static bool check_level(checker *c, int level) {
  switch (c->view->format->level[level].kind) {
  case IR_LEVEL_DENSE: return multiply(c, ir_format_extent(c->view->format, level, c->view->dim));
  case IR_LEVEL_COMPRESSED: return check_compressed(c, level);
  case IR_LEVEL_SINGLETON: return true; /* with the compressed level that it continues */
  case IR_LEVEL_NM: return check_nm(c, level);
  case IR_LEVEL_BITMAP: return check_bitmap(c, level);
  case IR_LEVEL_PACKED: return check_packed(c, level);
  case IR_LEVEL_COUNT: break;
  }
  return false;
}

static bool check_values(checker *c) {
  const ir_array *vals = &c->view->vals;
  if (c->view->dtype == IR_NONE) return true;
  if (vals->dtype != c->view->dtype)
    return fault(c, "values have dtype %s, the tensor has %s", ir_dtype_text(vals->dtype),
                 ir_dtype_text(c->view->dtype));
  if (vals->count < c->positions)
    return fault(c, "values have %lld elements, the format needs %lld", (long long)vals->count,
                 (long long)c->positions);
  return vals->data || c->positions == 0 || fault(c, "values have no data");
}

spc_status ir_view_check(ir_arena *arena, const ir_view *view, const char **why) {
  checker c = {.arena = arena, .view = view, .positions = 1};
  bool good = true;
  for (int d = 0; d < view->rank; d++) {
    c.level = IR_MAX_LEVELS;
    if (view->dim[d] < 0) good = fault(&c, "axis %d has size %lld", d, (long long)view->dim[d]);
  }
  if (good && view->rank != view->format->rank)
    good = fault(&c, "the view has %d dimensions, its format %d", view->rank, view->format->rank);
  for (c.level = 0; good && c.level < view->format->level_count; c.level++)
    good = check_level(&c, c.level);
  if (good) good = check_values(&c);
  if (!good && why) *why = c.fault;
  return good ? SPC_OK : SPC_INVALID_INPUT;
}
