/* tensor_pack.c - a list of entries becomes a tensor in any legal format.
 *
 * Entries are sorted into storage order, then the levels are built from the outermost in: every
 * entry carries its position in the level above, a level turns it into its own and writes its
 * arrays.  After the last level the position is the place of the value.
 *
 *     csr, entries (0,1) (0,3) (2,0):   dense: p = 0 0 2   compressed: p = 0 1 2
 *                                       pos = 0 2 2 3      crd = 1 3 0              */
#include "ir/tensor_pack.h"

typedef struct packer {
  ir_arena *arena;
  ir_view *view;
  const ir_entries *entries;
  ir_sorted sorted;
  int64_t *p;        /* position of each entry in the level built last */
  int64_t positions; /* how many positions that level has */
  ir_dtype index_dtype;
  const char *fault;
} packer;

static const int64_t *coordinates(const packer *k, int64_t e) {
  return k->entries->at + k->sorted.order[e] * k->entries->rank;
}

static int64_t coordinate(const packer *k, int level, int64_t e) {
  return ir_level_coordinate(&k->view->format->level[level], coordinates(k, e));
}

/* Entry e starts a new position at a level whose coordinates end with `level`. */
static bool is_new(const packer *k, int level, int64_t e) {
  return e == 0 || k->sorted.change[e] <= level;
}

static const char *place(const packer *k, int64_t e) {
  ir_text text = ir_text_new(k->arena);
  for (int d = 0; d < k->entries->rank; d++)
    ir_text_printf(&text, "%s%lld", d ? "," : "[", (long long)coordinates(k, e)[d]);
  ir_text_put(&text, "]");
  return text.data;
}

static const char *format_name(const packer *k) {
  ir_text text = ir_text_new(k->arena);
  ir_format_print(k->view->format, &text);
  return text.data;
}

static bool grow(packer *k, int64_t factor) {
  if (factor > 0 && k->positions > (INT64_MAX >> 5) / factor) {
    k->fault = ir_format_text(
        k->arena, "`%s` would need more than 2^58 stored elements for this shape", format_name(k));
    return false;
  }
  k->positions *= factor;
  return true;
}

static bool index_fits(packer *k, int64_t largest, const char *what) {
  if (k->index_dtype == IR_I64 || largest <= INT32_MAX) return true;
  k->fault =
      ir_format_text(k->arena, "%s reach %lld, which does not fit in i32; bind i64 positions", what,
                     (long long)largest);
  return false;
}

/* ---- one function a level kind ----------------------------------------------------------- */
static bool pack_dense(packer *k, int level) {
  int64_t extent = ir_format_extent(k->view->format, level, k->view->dim);
  for (int64_t e = 0; e < k->sorted.count; e++)
    k->p[e] = k->p[e] * extent + coordinate(k, level, e);
  return grow(k, extent);
}

static bool pack_compressed(packer *k, int level) {
  int end = ir_format_chain_end(k->view->format, level);
  int64_t stored = 0, parents = k->positions;
  for (int64_t e = 0; e < k->sorted.count; e++) stored += is_new(k, end, e);
  if (!index_fits(k, stored, "positions")) return false;
  ir_array *pos = &k->view->pos[level], *crd = &k->view->crd[level];
  *pos = ir_array_new(k->arena, k->index_dtype, parents + 1);
  *crd = ir_array_new(k->arena, k->index_dtype, stored);
  int64_t q = -1, filled = 0; /* pos[0..filled] is final */
  for (int64_t e = 0; e < k->sorted.count; e++) {
    if (is_new(k, end, e)) {
      q++;
      while (filled < k->p[e]) ir_array_put(pos, ++filled, q);
      ir_array_put(crd, q, coordinate(k, level, e));
    }
    k->p[e] = q;
  }
  while (filled < parents) ir_array_put(pos, ++filled, stored);
  k->positions = stored;
  return true;
}

static bool pack_singleton(packer *k, int level) {
  ir_array *crd = &k->view->crd[level];
  *crd = ir_array_new(k->arena, k->index_dtype, k->positions);
  for (int64_t e = 0; e < k->sorted.count; e++) ir_array_put(crd, k->p[e], coordinate(k, level, e));
  return true;
}

/* Chooses the n coordinates of one group, stored ones first, then the smallest free; ascending. */
static void nm_choose(uint8_t *crd, const bool *used, int64_t have, int64_t n, int64_t m) {
  int64_t free_left = n - have, slot = 0;
  for (int64_t c = 0; c < m; c++) {
    if (!used[c] && free_left-- <= 0) continue;
    crd[slot++] = (uint8_t)c;
  }
}

static int64_t nm_slot(const uint8_t *crd, int64_t c) {
  int64_t slot = 0;
  while (crd[slot] != c) slot++;
  return slot;
}

static bool nm_fault(packer *k, const ir_level *l, int64_t e, int64_t have) {
  const char *name = format_name(k), *at = place(k, e);
  if (have > l->parameter)
    k->fault = ir_format_text(
        k->arena,
        "%lld elements in the group of %lld that holds %s; `%s` stores %lld of every %lld",
        (long long)have, (long long)l->factor, at, name, (long long)l->parameter,
        (long long)l->factor);
  else
    k->fault =
        ir_format_text(k->arena,
                       "a pattern in `%s` needs exactly %lld entries in every group of %lld; the "
                       "group of %s has %lld",
                       name, (long long)l->parameter, (long long)l->factor, at, (long long)have);
  return false;
}

static bool pack_nm(packer *k, int level) {
  const ir_level *l = &k->view->format->level[level];
  int64_t n = l->parameter, m = l->factor, parents = k->positions, groups = 0;
  if (!grow(k, n)) return false;
  ir_array *crd = &k->view->crd[level];
  *crd = ir_array_new(k->arena, IR_U8, k->positions);
  uint8_t *slots = crd->data;
  for (int64_t i = 0; i < k->positions; i++) slots[i] = (uint8_t)(i % n);
  for (int64_t e = 0, next; e < k->sorted.count; e = next, groups++) {
    bool used[256] = {false};
    int64_t parent = k->p[e], have = 0;
    for (next = e; next < k->sorted.count && k->p[next] == parent; next++) {
      bool *here = &used[coordinate(k, level, next)];
      have += !*here;
      *here = true;
    }
    if (have > n || (have < n && k->view->dtype == IR_NONE)) return nm_fault(k, l, e, have);
    nm_choose(slots + parent * n, used, have, n, m);
    for (int64_t i = e; i < next; i++)
      k->p[i] = parent * n + nm_slot(slots + parent * n, coordinate(k, level, i));
  }
  if (k->view->dtype == IR_NONE && groups < parents) {
    k->fault = ir_format_text(
        k->arena, "a pattern in `%s` needs entries in every group of %lld; %lld groups have none",
        format_name(k), (long long)m, (long long)(parents - groups));
    return false;
  }
  return true;
}

static bool pack_bitmap(packer *k, int level) {
  int64_t extent = ir_format_extent(k->view->format, level, k->view->dim);
  int64_t tile = ir_format_bitmap_tile(k->view->format, level, k->view->dim);
  if (!grow(k, extent)) return false;
  int64_t tiles = tile ? k->positions / tile : 0, bytes = (tile + 7) / 8, stored = 0;
  ir_array *pos = &k->view->pos[level], *crd = &k->view->crd[level];
  *pos = ir_array_new(k->arena, k->index_dtype, tiles + 1);
  *crd = ir_array_new(k->arena, IR_U8, tiles * bytes);
  uint8_t *bits = crd->data;
  int64_t filled = 0;
  for (int64_t e = 0; e < k->sorted.count; e++) {
    int64_t flat = k->p[e] * extent + coordinate(k, level, e), t = flat / tile, bit = flat % tile;
    if (is_new(k, level, e)) {
      while (filled < t) ir_array_put(pos, ++filled, stored);
      bits[t * bytes + bit / 8] |= (uint8_t)(1u << bit % 8);
      stored++;
    }
    k->p[e] = stored - 1;
  }
  while (filled < tiles) ir_array_put(pos, ++filled, stored);
  k->positions = stored;
  return index_fits(k, stored, "positions");
}

/* One past the last entry under the parent of entry e; *have: distinct coordinates among them. */
static int64_t same_parent(const packer *k, int level, int64_t e, int64_t *have) {
  int64_t end = e + 1;
  *have = 1;
  for (; end < k->sorted.count && k->p[end] == k->p[e]; end++) *have += is_new(k, level, end);
  return end;
}

/* How many parents have more entries than the level's capacity: they go to the rest, or, where
 * there is none, the first of them is at fault. */
static bool count_rest(packer *k, int level, int64_t *slots) {
  const ir_level *l = &k->view->format->level[level];
  *slots = 0;
  for (int64_t e = 0, have; e < k->sorted.count;) {
    int64_t first = e;
    e = same_parent(k, level, e, &have);
    if (have <= l->parameter) continue;
    ++*slots;
    if (l->has_pos) continue;
    k->fault = ir_format_text(
        k->arena, "the row or tile of %s has %lld entries, the capacity of `%s` is %lld",
        place(k, first), (long long)have, format_name(k), (long long)l->parameter);
    return false;
  }
  return true;
}

/* Levels below are built in the order of positions, and the rest stands last. */
static void rest_last(packer *k, int64_t rest) {
  int64_t n = k->sorted.count, front = 0;
  int64_t *order = IR_NEW_ARRAY(k->arena, int64_t, n), *p = IR_NEW_ARRAY(k->arena, int64_t, n);
  uint8_t *change = IR_NEW_ARRAY(k->arena, uint8_t, n);
  for (int64_t e = 0; e < n; e++) front += k->p[e] < rest;
  for (int64_t e = 0, here = 0, back = front; e < n; e++) {
    int64_t to = k->p[e] < rest ? here++ : back++;
    order[to] = k->sorted.order[e];
    change[to] = k->sorted.change[e]; /* a parent's first entry differs from any before it */
    p[to] = k->p[e];
  }
  k->sorted.order = order, k->sorted.change = change, k->p = p;
}

static bool pack_packed(packer *k, int level) {
  const ir_level *l = &k->view->format->level[level];
  int64_t capacity = l->parameter, parents = k->positions, next = 0, slots, have;
  int64_t extent = ir_format_extent(k->view->format, level, k->view->dim);
  if (!grow(k, capacity) || !count_rest(k, level, &slots)) return false;
  int64_t rest = k->positions;
  k->positions = slots;
  if (!grow(k, extent)) return false;
  k->positions += rest;
  ir_array *crd = &k->view->crd[level], *counts = &k->view->pos[level];
  *crd = ir_array_new(k->arena, k->index_dtype, k->positions);
  if (l->has_pos) *counts = ir_array_new(k->arena, k->index_dtype, parents + 1);
  if (l->has_pos) ir_array_put(counts, parents, slots);
  if (crd->count) memset(crd->data, 0xff, (size_t)crd->count * ir_dtype_bytes(crd->dtype)); /* -1 */
  for (int64_t e = 0, end; e < k->sorted.count; e = end) {
    int64_t parent = k->p[e], slot = parent * capacity - 1;
    end = same_parent(k, level, e, &have);
    bool fits = have <= capacity;
    if (l->has_pos) ir_array_put(counts, parent, fits ? have : -1 - next);
    int64_t first = fits ? 0 : rest + extent * next++;
    for (int64_t i = e; i < end; i++) {
      slot += i == e || is_new(k, level, i);
      k->p[i] = fits ? slot : first + coordinate(k, level, i);
      ir_array_put(crd, k->p[i], coordinate(k, level, i));
    }
  }
  if (slots && level + 1 < k->view->format->level_count) rest_last(k, rest);
  return true;
}

static bool pack_level(packer *k, int level) {
  switch (k->view->format->level[level].kind) {
  case IR_LEVEL_DENSE: return pack_dense(k, level);
  case IR_LEVEL_COMPRESSED: return pack_compressed(k, level);
  case IR_LEVEL_SINGLETON: return pack_singleton(k, level);
  case IR_LEVEL_NM: return pack_nm(k, level);
  case IR_LEVEL_BITMAP: return pack_bitmap(k, level);
  case IR_LEVEL_PACKED: return pack_packed(k, level);
  case IR_LEVEL_COUNT: break;
  }
  return false;
}

/* ---- the whole ------------------------------------------------------------------------- */
static bool check_entries(packer *k, const int64_t *dims) {
  const ir_entries *entries = k->entries;
  for (int64_t e = 0; e < entries->count; e++)
    for (int d = 0; d < entries->rank; d++) {
      int64_t c = entries->at[e * entries->rank + d];
      if (c >= 0 && c < dims[d]) continue;
      k->fault = ir_format_text(k->arena,
                                "entry %lld has coordinate %lld along axis %d, whose size is %lld",
                                (long long)e, (long long)c, d, (long long)dims[d]);
      return false;
    }
  for (int d = 0; d < entries->rank; d++)
    if (!ir_format_is_dense(k->view->format) && !index_fits(k, dims[d], "coordinates"))
      return false;
  return true;
}

static void pack_values_int(packer *k) {
  const int64_t *values = k->entries->int_value;
  bool b1 = k->view->dtype == IR_B1;
  for (int64_t e = 0, last = 0; e < k->sorted.count; e = last) {
    uint64_t sum = (uint64_t)values[k->sorted.order[e]];
    for (last = e + 1; last < k->sorted.count && k->p[last] == k->p[e]; last++) {
      uint64_t more = (uint64_t)values[k->sorted.order[last]];
      sum = b1 ? (sum | more) : sum + more;
    }
    ir_dtype_store_int(k->view->dtype, k->view->vals.data, k->p[e], b1 ? sum != 0 : (int64_t)sum);
  }
}

static void pack_values(packer *k) {
  ir_view *view = k->view;
  view->vals = ir_array_new(k->arena, view->dtype, k->positions);
  if (view->dtype == IR_NONE) return;
  if (!ir_dtype_is_float(view->dtype)) {
    pack_values_int(k);
    return;
  }
  const double *values = k->entries->value;
  for (int64_t e = 0, last = 0; e < k->sorted.count; e = last) {
    double sum = values[k->sorted.order[e]];
    for (last = e + 1; last < k->sorted.count && k->p[last] == k->p[e]; last++)
      sum += values[k->sorted.order[last]];
    ir_dtype_store(view->dtype, view->vals.data, k->p[e], sum);
  }
}

spc_status ir_view_pack(ir_arena *arena, ir_dtype dtype, const int64_t *dims,
                        const ir_format *format, ir_dtype index_dtype, ir_entries *entries,
                        ir_view *out, const char **why) {
  *out = (ir_view){.dtype = dtype, .rank = format->rank, .format = format};
  for (int d = 0; d < format->rank; d++) out->dim[d] = dims[d];
  packer k = {
      .arena = arena, .view = out, .entries = entries, .positions = 1, .index_dtype = index_dtype};
  bool fits = check_entries(&k, dims);
  if (fits) {
    ir_entries_sort(arena, format, dims, entries, &k.sorted);
    k.p = IR_NEW_ARRAY(arena, int64_t, entries->count);
  }
  for (int level = 0; fits && level < format->level_count; level++) fits = pack_level(&k, level);
  if (fits) pack_values(&k);
  if (!fits && why) *why = k.fault;
  return fits ? SPC_OK : SPC_INVALID_INPUT;
}
