/* interp_ein_ragged.c - loops over indices, plain and ragged (LANGUAGE rule 8).
 *
 * Where the segment is set outside, a ragged index ranges over that segment; where it is not, the
 * index ranges over its whole axis and the segment is the one that the row lies in.  Offsets are
 * clamped into 0..extent; of overlapping segments the first owns a row. */
#include "ir/interp_ein.h"

static int64_t clamp(interp *r, const ir_index *index, int64_t s, int64_t value, int64_t extent) {
  if (value >= 0 && value <= extent) return value;
  ein_out_of_range(r, "offset %lld of `%s` is %lld, outside 0..%lld", (long long)s,
                   index->offsets->name, (long long)value, (long long)extent);
  return value < 0 ? 0 : extent;
}

static void own_rows(segments *g) {
  for (int64_t x = 0; x < g->extent; x++) g->segment[x] = -1;
  for (int64_t s = 0; s < g->count; s++)
    for (int64_t x = g->begin[s]; x < g->end[s]; x++)
      if (g->segment[x] < 0) g->segment[x] = s;
}

const segments *ein_segments(interp *r, ir_index *index) {
  for (int i = 0; i < r->ragged.count; i++)
    if (r->ragged.at[i]->index == index) return r->ragged.at[i];
  const store *offsets = ein_store(r, index->offsets);
  segments *g = IR_NEW(r->arena, segments);
  *g = (segments){.index = index, .count = offsets->view.dim[0] > 0 ? offsets->view.dim[0] - 1 : 0};
  (void)ir_size_value(index->extent, r->sizes, &g->extent);
  g->begin = IR_NEW_ARRAY(r->arena, int64_t, g->count);
  g->end = IR_NEW_ARRAY(r->arena, int64_t, g->count);
  g->segment = IR_NEW_ARRAY(r->arena, int64_t, g->extent);
  for (int64_t s = 0; s < g->count; s++) {
    g->begin[s] = clamp(r, index, s, offsets->i[s], g->extent);
    g->end[s] = clamp(r, index, s + 1, offsets->i[s + 1], g->extent);
  }
  own_rows(g);
  IR_PUSH(r->arena, &r->ragged, g);
  return g;
}

static bool is_segment(ir_index *const *indices, int count, const ir_index *index) {
  for (int i = 0; i < count; i++)
    if (indices[i]->offsets && indices[i]->segment == index) return true;
  return false;
}

/* Segments first: a ragged index then ranges over its segment instead of being searched for. */
static ir_index **in_order(interp *r, ir_index *const *indices, int count) {
  ir_index **ordered = IR_NEW_ARRAY(r->arena, ir_index *, count);
  int n = 0;
  for (int pass = 0; pass < 2; pass++)
    for (int i = 0; i < count; i++)
      if (is_segment(indices, count, indices[i]) == (pass == 0)) ordered[n++] = indices[i];
  return ordered;
}

loop *ein_loops(interp *r, ir_index *const *indices, int count) {
  loop *loops = IR_NEW_ARRAY(r->arena, loop, count);
  ir_index **ordered = in_order(r, indices, count);
  for (int i = 0; i < count; i++) {
    ir_index *index = ordered[i];
    loops[i] = (loop){.slot = ein_slot(r, index), .segment_slot = -1};
    (void)ir_size_value(index->extent, r->sizes, &loops[i].extent);
    if (index->offsets) {
      loops[i].ragged = ein_segments(r, index);
      loops[i].segment_slot = ein_slot(r, index->segment);
      loops[i].inside = r->known[loops[i].segment_slot];
      r->known[loops[i].segment_slot] = true;
    }
    r->known[loops[i].slot] = true;
  }
  return loops;
}

void ein_loop_range(const interp *r, const loop *l, int64_t *begin, int64_t *end) {
  *begin = 0;
  *end = l->extent;
  if (!l->ragged || !l->inside) return;
  int64_t s = r->at[l->segment_slot];
  bool there = s >= 0 && s < l->ragged->count;
  *begin = there ? l->ragged->begin[s] : 0;
  *end = there ? l->ragged->end[s] : 0;
}

bool ein_loop_set(interp *r, const loop *l, int64_t value) {
  r->at[l->slot] = value;
  if (!l->ragged) return true;
  int64_t owner = l->ragged->segment[value];
  if (l->inside) return r->at[l->segment_slot] == owner;
  r->at[l->segment_slot] = owner;
  return owner >= 0;
}
