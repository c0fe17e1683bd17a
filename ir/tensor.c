/* tensor.c - reading a tensor in any legal format: walk every stored entry, find one element.
 *
 * Both go down the levels with the position rule of format.h.  They trust the arrays; what came
 * from outside goes through ir_view_check first. */
#include "ir/tensor_pack.h"

int64_t ir_view_elements(const ir_view *view) {
  int64_t product = 1;
  bool empty = false;
  for (int d = 0; d < view->rank; d++) empty |= view->dim[d] == 0;
  if (empty) return 0;
  for (int d = 0; d < view->rank; d++) {
    if (view->dim[d] < 0 || product > INT64_MAX / view->dim[d]) return -1;
    product *= view->dim[d];
  }
  return product;
}

static const ir_format *dense_format(ir_arena *arena, int rank) {
  return ir_format_builtin(arena, "dense", rank, NULL, 0, NULL);
}

static ir_array array_by(void *(*alloc)(ir_arena *arena, size_t bytes), ir_arena *arena,
                         ir_dtype dtype, int64_t count) {
  if (dtype == IR_NONE) return (ir_array){NULL, 0, IR_NONE};
  size_t bytes = ir_dtype_bytes(dtype);
  if (count < 0 || (uint64_t)count > SIZE_MAX / 2 / bytes)
    ir_alloc(arena, SIZE_MAX); /* no such memory */
  return (ir_array){alloc(arena, (size_t)count * bytes), count, dtype};
}

ir_array ir_array_new(ir_arena *arena, ir_dtype dtype, int64_t count) {
  return array_by(ir_alloc, arena, dtype, count);
}

ir_array ir_array_room(ir_arena *arena, ir_dtype dtype, int64_t count) {
  return array_by(ir_alloc_room, arena, dtype, count);
}

void ir_view_drop_values(ir_view *view) {
  view->dtype = IR_NONE;
  view->vals = (ir_array){.dtype = IR_NONE};
}

void ir_view_dense(ir_arena *arena, ir_dtype dtype, int rank, const int64_t *dims, ir_view *out) {
  *out = (ir_view){.dtype = dtype, .rank = rank, .format = dense_format(arena, rank)};
  for (int d = 0; d < rank; d++) out->dim[d] = dims[d];
  out->vals = ir_array_new(arena, dtype, ir_view_elements(out));
}

int64_t ir_view_positions(const ir_view *view, int level) {
  const ir_format *f = view->format;
  int64_t count = 1;
  for (int k = 0; k < level; k++) {
    const ir_array *pos = &view->pos[k];
    int64_t extent = ir_format_extent(f, k, view->dim), n = f->level[k].parameter;
    switch (f->level[k].kind) {
    case IR_LEVEL_DENSE: count *= extent; break;
    case IR_LEVEL_COMPRESSED: count = ir_array_int(pos, count); break;
    case IR_LEVEL_BITMAP: {
      int64_t tile = ir_format_bitmap_tile(f, k, view->dim);
      count = tile ? ir_array_int(pos, count * extent / tile) : 0;
      break;
    }
    case IR_LEVEL_PACKED:
      count = count * n + (f->level[k].has_pos ? ir_array_int(pos, count) * extent : 0);
      break;
    case IR_LEVEL_NM: count *= n; break;
    case IR_LEVEL_SINGLETON:
    case IR_LEVEL_COUNT: break;
    }
  }
  return count;
}

/* ---- walk ------------------------------------------------------------------------------ */
typedef struct walk {
  const ir_view *view;
  ir_visit *visit;
  void *user;
  int64_t at[IR_MAX_RANK];
  int64_t extent[IR_MAX_LEVELS];
  int64_t tile[IR_MAX_LEVELS];   /* bitmap levels: bits of a tile */
  int64_t rest[IR_MAX_LEVELS];   /* packed levels with a rest: where it begins */
  int64_t wanted[IR_MAX_LEVELS]; /* the only coordinate to visit, or -1: all */
} walk;

static bool walk_level(walk *w, int k, int64_t p);

static bool walk_child(walk *w, int k, int64_t coordinate, int64_t p) {
  if (w->wanted[k] >= 0 && coordinate != w->wanted[k]) return true;
  const ir_level *l = &w->view->format->level[k];
  int64_t before = w->at[l->dim];
  w->at[l->dim] = l->map == IR_MAP_WHOLE ? coordinate
                  : l->map == IR_MAP_DIV ? coordinate * l->factor
                                         : before + coordinate;
  bool on = true;
  if (l->map != IR_MAP_MOD || w->at[l->dim] < w->view->dim[l->dim]) on = walk_level(w, k + 1, p);
  w->at[l->dim] = before;
  return on;
}

static bool walk_bitmap(walk *w, int k, int64_t p) {
  const uint8_t *bits = w->view->crd[k].data;
  int64_t extent = w->extent[k], tile = w->tile[k], bytes = (tile + 7) / 8;
  int64_t t = p * extent / tile, bit = p * extent % tile;
  int64_t q = ir_array_int(&w->view->pos[k], t);
  bits += t * bytes;
  for (int64_t b = 0; b < bit; b++) q += bits[b >> 3] >> (b & 7) & 1;
  for (int64_t c = 0; c < extent; c++, bit++)
    if ((bits[bit >> 3] >> (bit & 7) & 1) && !walk_child(w, k, c, q++)) return false;
  return true;
}

/* The places of one parent in the rest: those that hold an entry. */
static bool walk_rest(walk *w, int k, int64_t slot) {
  int64_t extent = w->extent[k], wanted = w->wanted[k], first = w->rest[k] + slot * extent;
  int64_t begin = wanted < 0 ? 0 : wanted, end = wanted < 0 ? extent : wanted + 1;
  for (int64_t c = begin; c < end; c++)
    if (ir_array_int(&w->view->crd[k], first + c) >= 0 && !walk_child(w, k, c, first + c))
      return false;
  return true;
}

static bool walk_packed(walk *w, int k, int64_t p) {
  const ir_level *l = &w->view->format->level[k];
  int64_t count = l->has_pos ? ir_array_int(&w->view->pos[k], p) : l->parameter;
  if (count < 0) return walk_rest(w, k, -1 - count);
  for (int64_t q = p * l->parameter, end = q + count; q < end; q++) {
    int64_t c = ir_array_int(&w->view->crd[k], q);
    if (c < 0) break;
    if (!walk_child(w, k, c, q)) return false;
  }
  return true;
}

/* First entry of the sorted segment whose coordinate is at least c. */
static int64_t lower_bound(const ir_array *crd, int64_t begin, int64_t end, int64_t c) {
  while (begin < end) {
    int64_t middle = begin + (end - begin) / 2;
    if (ir_array_int(crd, middle) < c)
      begin = middle + 1;
    else
      end = middle;
  }
  return begin;
}

static bool walk_compressed(walk *w, int k, int64_t begin, int64_t end) {
  const ir_array *crd = &w->view->crd[k];
  int64_t wanted = w->wanted[k];
  int64_t q = wanted < 0 ? begin : lower_bound(crd, begin, end, wanted);
  for (; q < end; q++) {
    int64_t c = ir_array_int(crd, q);
    if (wanted >= 0 && c != wanted) break;
    if (!walk_child(w, k, c, q)) return false;
  }
  return true;
}

static bool walk_dense(walk *w, int k, int64_t p) {
  int64_t extent = w->extent[k], wanted = w->wanted[k];
  if (wanted >= 0) return walk_child(w, k, wanted, p * extent + wanted);
  for (int64_t c = 0; c < extent; c++)
    if (!walk_child(w, k, c, p * extent + c)) return false;
  return true;
}

static bool walk_listed(walk *w, int k, int64_t begin, int64_t end) {
  for (int64_t q = begin; q < end; q++)
    if (!walk_child(w, k, ir_array_int(&w->view->crd[k], q), q)) return false;
  return true;
}

static bool walk_level(walk *w, int k, int64_t p) {
  const ir_format *f = w->view->format;
  if (k == f->level_count) return w->visit(w->user, w->at, p);
  const ir_array *pos = &w->view->pos[k];
  int64_t n = f->level[k].parameter;
  switch (f->level[k].kind) {
  case IR_LEVEL_DENSE: return walk_dense(w, k, p);
  case IR_LEVEL_COMPRESSED:
    return walk_compressed(w, k, ir_array_int(pos, p), ir_array_int(pos, p + 1));
  case IR_LEVEL_SINGLETON: return walk_listed(w, k, p, p + 1);
  case IR_LEVEL_NM: return walk_listed(w, k, p * n, p * n + n);
  case IR_LEVEL_BITMAP: return walk_bitmap(w, k, p);
  case IR_LEVEL_PACKED: return walk_packed(w, k, p);
  case IR_LEVEL_COUNT: break;
  }
  return false;
}

void ir_view_walk(const ir_view *view, ir_visit *visit, void *user) {
  static const int64_t anywhere[IR_MAX_RANK] = {-1, -1, -1, -1, -1, -1, -1, -1};
  ir_view_walk_where(view, anywhere, visit, user);
}

void ir_view_walk_where(const ir_view *view, const int64_t *fixed, ir_visit *visit, void *user) {
  walk w = {.view = view, .visit = visit, .user = user};
  for (int d = 0; d < view->rank; d++)
    if (fixed[d] >= view->dim[d]) return;
  for (int k = 0; k < view->format->level_count; k++) {
    const ir_level *l = &view->format->level[k];
    w.wanted[k] = fixed[l->dim] < 0 ? -1 : ir_level_coordinate(l, fixed);
    w.extent[k] = ir_format_extent(view->format, k, view->dim);
    if (l->kind == IR_LEVEL_BITMAP) w.tile[k] = ir_format_bitmap_tile(view->format, k, view->dim);
    if (ir_level_has_rest(l)) w.rest[k] = ir_view_positions(view, k) * l->parameter;
  }
  walk_level(&w, 0, 0);
}

/* ---- locate ---------------------------------------------------------------------------- */
/* Sign of (crd[k..end] at q) - (coordinates), lexicographic over a chain of singletons. */
static int chain_compare(const ir_view *view, int k, int end, int64_t q, const int64_t *at) {
  for (; k <= end; k++) {
    int64_t stored = ir_array_int(&view->crd[k], q);
    int64_t wanted = ir_level_coordinate(&view->format->level[k], at);
    if (stored != wanted) return stored < wanted ? -1 : 1;
  }
  return 0;
}

static int64_t search(const ir_view *view, int k, int end, int64_t low, int64_t high,
                      const int64_t *at) {
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    int order = chain_compare(view, k, end, middle, at);
    if (order == 0) return middle;
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return -1;
}

static int64_t scan_listed(const ir_view *view, int k, int64_t begin, int64_t count, int64_t c) {
  for (int64_t q = begin; q < begin + count; q++)
    if (ir_array_int(&view->crd[k], q) == c) return q;
  return -1;
}

static int64_t locate_bit(const ir_view *view, int k, int64_t p, int64_t extent, int64_t c) {
  int64_t tile = ir_format_bitmap_tile(view->format, k, view->dim), bytes = (tile + 7) / 8;
  int64_t flat = p * extent + c, t = flat / tile, bit = flat % tile;
  const uint8_t *bits = (const uint8_t *)view->crd[k].data + t * bytes;
  if (!(bits[bit >> 3] >> (bit & 7) & 1)) return -1;
  int64_t q = ir_array_int(&view->pos[k], t);
  for (int64_t b = 0; b < bit; b++) q += bits[b >> 3] >> (b & 7) & 1;
  return q;
}

static int64_t locate_packed(const ir_view *view, int k, int64_t p, int64_t extent, int64_t c) {
  const ir_level *l = &view->format->level[k];
  int64_t count = l->has_pos ? ir_array_int(&view->pos[k], p) : l->parameter;
  if (count >= 0) return scan_listed(view, k, p * l->parameter, count, c);
  int64_t q = ir_view_positions(view, k) * l->parameter + (-1 - count) * extent + c;
  return ir_array_int(&view->crd[k], q) == c ? q : -1;
}

static int64_t locate_level(const ir_view *view, int *k, int64_t p, const int64_t *at) {
  const ir_level *l = &view->format->level[*k];
  int64_t c = ir_level_coordinate(l, at), extent = ir_format_extent(view->format, *k, view->dim);
  int level = *k;
  switch (l->kind) {
  case IR_LEVEL_DENSE: return p * extent + c;
  case IR_LEVEL_COMPRESSED:
    *k = ir_format_chain_end(view->format, level);
    return search(view, level, *k, ir_array_int(&view->pos[level], p),
                  ir_array_int(&view->pos[level], p + 1), at);
  case IR_LEVEL_SINGLETON: return ir_array_int(&view->crd[level], p) == c ? p : -1;
  case IR_LEVEL_NM: return scan_listed(view, level, p * l->parameter, l->parameter, c);
  case IR_LEVEL_BITMAP: return locate_bit(view, level, p, extent, c);
  case IR_LEVEL_PACKED: return locate_packed(view, level, p, extent, c);
  case IR_LEVEL_COUNT: break;
  }
  return -1;
}

int64_t ir_view_locate(const ir_view *view, const int64_t *coordinates) {
  int64_t p = 0;
  for (int d = 0; d < view->rank; d++)
    if (coordinates[d] < 0 || coordinates[d] >= view->dim[d]) return -1;
  for (int k = 0; k < view->format->level_count && p >= 0; k++)
    p = locate_level(view, &k, p, coordinates);
  return p;
}

double ir_view_value(const ir_view *view, const int64_t *coordinates) {
  int64_t p = ir_view_locate(view, coordinates);
  if (p < 0) return 0.0;
  return view->dtype == IR_NONE ? 1.0 : ir_dtype_load(view->dtype, view->vals.data, p);
}

int64_t ir_view_value_int(const ir_view *view, const int64_t *coordinates) {
  int64_t p = ir_view_locate(view, coordinates);
  if (p < 0) return 0;
  return view->dtype == IR_NONE ? 1 : ir_dtype_load_int(view->dtype, view->vals.data, p);
}
