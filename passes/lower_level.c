/* lower_level.c - levels of storage formats: ranges of positions, coordinates, and random access.
 *
 * Invariant: a cursor's position is meaningful only where its `present` holds; loads that depend on
 * it carry that as their mask, so that nothing is read outside an array. */
#include "passes/lower.h"

/* ---- formats --------------------------------------------------------------------------------- */
const ir_format *pass_level_format(lower_state *s, const ir_tensor *tensor) {
  const ir_format *format = ir_tensor_owner(tensor)->format;
  return format ? format : ir_format_builtin(s->arena, "dense", tensor->rank, NULL, 0, NULL);
}

ir_expr *pass_level_extent(lower_state *s, const lower_access *access, int level) {
  const ir_level *l = &access->format->level[level];
  if (l->map == IR_MAP_MOD) return pass_code_int(s, l->factor);
  ir_expr *extent = access->expr->tensor->dim[l->dim];
  return l->map == IR_MAP_DIV ? ir_ceil_div(s->arena, extent, l->factor) : extent;
}

static ir_buf *level_buffer(lower_state *s, const lower_access *access, ir_buf_kind kind,
                            int level) {
  return pass_code_buffer(s, access->expr->tensor, kind, level);
}

static const char *named(lower_state *s, const char *stem, const lower_access *access) {
  return ir_format_text(s->arena, "%s_%s", stem, access->expr->tensor->name);
}

/* ---- ranges and coordinates ------------------------------------------------------------------ */
void pass_level_rest(lower_state *s, const lower_access *access, const lower_cursor *c,
                     lower_rest *out) {
  ir_expr *pos = c->pos ? c->pos : pass_code_int(s, 0), *zero = pass_code_int(s, 0);
  ir_expr *room = pass_code_int(s, access->format->level[c->next].parameter);
  ir_expr *count =
      pass_code_load_int(s, level_buffer(s, access, IR_BUF_POS, c->next), pos, c->present);
  count = pass_code_let(s, named(s, "count", access), count);
  ir_expr *listed = pass_code_op(s, IR_OP_MIN, count, room);
  out->lo = pass_code_mul(s, pos, room);
  out->hi = pass_code_where(s, c->present, pass_code_add(s, out->lo, listed), out->lo);
  out->extent = pass_level_extent(s, access, c->next);
  out->flag = pass_code_op(s, IR_OP_LT, count, zero);
  ir_expr *slot = pass_code_sub(s, pass_code_int(s, -1), count);
  out->first = pass_code_add(s, pass_code_mul(s, pass_level_positions(s, access, c->next), room),
                             pass_code_mul(s, slot, out->extent));
}

/* Both as one range, of which some positions hold no entry. */
static void rest_range(lower_state *s, const lower_access *access, const lower_cursor *c,
                       ir_expr **lo, ir_expr **hi) {
  lower_rest rest;
  pass_level_rest(s, access, c, &rest);
  *lo = pass_code_where(s, rest.flag, rest.first, rest.lo);
  *lo = pass_code_let(s, named(s, "first", access), *lo);
  *hi = pass_code_where(s, rest.flag, pass_code_add(s, *lo, rest.extent), rest.hi);
}

void pass_level_range(lower_state *s, const lower_access *access, const lower_cursor *c,
                      ir_expr **lo, ir_expr **hi) {
  const ir_level *l = &access->format->level[c->next];
  ir_expr *pos = c->pos ? c->pos : pass_code_int(s, 0), *one = pass_code_int(s, 1);
  if (l->kind == IR_LEVEL_COMPRESSED) {
    ir_buf *buf = level_buffer(s, access, IR_BUF_POS, c->next);
    *lo = pass_code_load_int(s, buf, pos, c->present);
    *hi = pass_code_load_int(s, buf, pass_code_add(s, pos, one), c->present);
    return;
  }
  if (l->kind == IR_LEVEL_SINGLETON) {
    *lo = pos;
    *hi = c->end ? c->end : pass_code_add(s, pos, one);
  } else if (ir_level_has_rest(l)) {
    rest_range(s, access, c, lo, hi);
  } else {
    ir_expr *room = pass_code_int(s, l->parameter);
    *lo = pass_code_mul(s, pos, room);
    *hi = pass_code_add(s, *lo, room);
  }
  *hi = pass_code_where(s, c->present, *hi, *lo);
}

ir_expr *pass_level_coordinate(lower_state *s, const lower_access *access, int level, ir_expr *pos,
                               ir_expr *mask) {
  return pass_code_load_int(s, level_buffer(s, access, IR_BUF_CRD, level), pos, mask);
}

/* Of a tensor with padding positions are offsets from its first element; buf: packed, in a layout of its own. */
void pass_level_dense(lower_state *s, const lower_access *access, lower_cursor *c, ir_expr *at) {
  ir_expr *const *pitch = access->expr->tensor->pitch;
  bool padded = pitch[0] && !access->buf, last = c->next + 1 == access->format->level_count;
  if (padded && !last) at = pass_code_mul(s, at, pitch[c->next]);
  if (!padded && c->pos) c->pos = pass_code_mul(s, c->pos, pass_level_extent(s, access, c->next));
  c->pos = c->pos ? pass_code_add(s, c->pos, at) : at;
  c->next++;
}

/* ---- bitmaps --------------------------------------------------------------------------------- */
/* Bits of a tile: the level's extent times those of the i%b dense levels right before it. */
static ir_expr *tile_bits(lower_state *s, const lower_access *access, int level) {
  ir_expr *bits = pass_level_extent(s, access, level);
  const ir_level *l = access->format->level;
  for (int k = level - 1; k >= 0 && l[k].kind == IR_LEVEL_DENSE && l[k].map == IR_MAP_MOD; k--)
    bits = pass_code_mul(s, bits, pass_code_int(s, l[k].factor));
  return bits;
}

/* Bit k of a byte, as (byte / 2^k) % 2. */
static ir_expr *bit_of(lower_state *s, ir_expr *byte, ir_expr *k) {
  ir_expr *power = pass_code_int(s, 128);
  for (int i = 6; i >= 0; i--)
    power = pass_code_where(s, pass_code_op(s, IR_OP_EQ, k, pass_code_int(s, i)),
                            pass_code_int(s, (int64_t)1 << i), power);
  ir_expr *shifted = pass_code_op(s, IR_OP_DIV, byte, power);
  return pass_code_op(s, IR_OP_MOD, shifted, pass_code_int(s, 2));
}

static ir_expr *tile_bytes(lower_state *s, ir_expr *bits) { return ir_ceil_div(s->arena, bits, 8); }

ir_expr *pass_level_bit(lower_state *s, const lower_access *access, int level, ir_expr *flat,
                        ir_expr *mask) {
  ir_expr *bits = tile_bits(s, access, level), *eight = pass_code_int(s, 8);
  ir_expr *tile = pass_code_op(s, IR_OP_DIV, flat, bits),
          *bit = pass_code_op(s, IR_OP_MOD, flat, bits);
  ir_expr *at = pass_code_add(s, pass_code_mul(s, tile, tile_bytes(s, bits)),
                              pass_code_op(s, IR_OP_DIV, bit, eight));
  ir_expr *byte = pass_code_load_int(s, level_buffer(s, access, IR_BUF_CRD, level), at, mask);
  ir_expr *one = bit_of(s, byte, pass_code_op(s, IR_OP_MOD, bit, eight));
  return pass_code_op(s, IR_OP_NE, one, pass_code_int(s, 0));
}

/* pos[tile] plus the set bits of the tile before this one. */
ir_expr *pass_level_rank(lower_state *s, const lower_access *access, int level, ir_expr *flat,
                         ir_expr *mask) {
  ir_expr *bits = tile_bits(s, access, level);
  ir_expr *tile = pass_code_op(s, IR_OP_DIV, flat, bits);
  ir_expr *start = pass_code_let(s, named(s, "start", access), pass_code_mul(s, tile, bits));
  ir_expr *first = pass_code_load_int(s, level_buffer(s, access, IR_BUF_POS, level), tile, mask);
  ir_var *rank = ir_let(&s->b, named(s, "q", access), IR_I64, first);
  ir_block *outer;
  ir_expr *stop = mask ? pass_code_where(s, mask, flat, start) : flat;
  ir_var *k = ir_open_for(&s->b, "bit", start, stop, IR_RUN_SEQUENTIAL, &outer);
  ir_expr *is_set = pass_level_bit(s, access, level, pass_code_ref(s, k), NULL);
  ir_expr *here = pass_code_where(s, is_set, pass_code_int(s, 1), pass_code_int(s, 0));
  ir_set(&s->b, rank, pass_code_add(s, pass_code_ref(s, rank), here));
  ir_close(&s->b, outer);
  return pass_code_ref(s, rank);
}

static void locate_bit(lower_state *s, const lower_access *access, lower_cursor *c, ir_expr *at) {
  ir_expr *row = c->pos ? pass_code_mul(s, c->pos, pass_level_extent(s, access, c->next))
                        : pass_code_int(s, 0);
  ir_expr *flat = pass_code_let(s, named(s, "flat", access), pass_code_add(s, row, at));
  ir_expr *set = pass_code_and(s, c->present, pass_level_bit(s, access, c->next, flat, c->present));
  ir_expr *present = pass_code_let(s, named(s, "in", access), set);
  c->pos = pass_level_rank(s, access, c->next, flat, present);
  c->present = present;
  c->next++;
}

/* ---- random access --------------------------------------------------------------------------- */
/* The first position in [lo, hi) whose coordinate is not below `at`. */
static ir_expr *lower_bound_of(lower_state *s, const lower_access *access, int level, ir_expr *lo,
                               ir_expr *hi, ir_expr *at) {
  ir_var *low = ir_let(&s->b, named(s, "p", access), IR_I64, lo);
  ir_var *high = ir_let(&s->b, named(s, "high", access), IR_I64, hi);
  ir_expr *l = pass_code_ref(s, low), *h = pass_code_ref(s, high);
  ir_block *loop, *branch;
  ir_open_while(&s->b, pass_code_op(s, IR_OP_LT, l, h), &loop);
  ir_expr *half = pass_code_op(s, IR_OP_DIV, pass_code_add(s, l, h), pass_code_int(s, 2));
  ir_expr *mid = pass_code_let(s, named(s, "mid", access), half);
  ir_expr *below =
      pass_code_op(s, IR_OP_LT, pass_level_coordinate(s, access, level, mid, NULL), at);
  ir_code *test = ir_open_if(&s->b, below, &branch);
  ir_set(&s->b, low, pass_code_add(s, mid, pass_code_int(s, 1)));
  ir_open_else(&s->b, test);
  ir_set(&s->b, high, mid);
  ir_close(&s->b, branch);
  ir_close(&s->b, loop);
  return l;
}

static void found_at(lower_state *s, const lower_access *access, lower_cursor *c, ir_expr *pos,
                     ir_expr *hi, ir_expr *at) {
  ir_expr *inside = pass_code_op(s, IR_OP_LT, pos, hi);
  ir_expr *coordinate = pass_level_coordinate(s, access, c->next, pos, inside);
  ir_expr *found = pass_code_and(s, inside, pass_code_op(s, IR_OP_EQ, coordinate, at));
  c->present = pass_code_let(s, named(s, "in", access), found);
  c->pos = pos;
}

static void locate_sorted(lower_state *s, const lower_access *access, lower_cursor *c,
                          ir_expr *at) {
  ir_expr *lo, *hi;
  bool repeats = !access->format->level[c->next].unique;
  pass_level_range(s, access, c, &lo, &hi);
  hi = pass_code_let(s, named(s, "end", access), hi);
  ir_expr *pos = lower_bound_of(s, access, c->next, lo, hi, at);
  ir_expr *end = NULL;
  if (repeats)
    end = lower_bound_of(s, access, c->next, pos, hi, pass_code_add(s, at, pass_code_int(s, 1)));
  found_at(s, access, c, pos, hi, at);
  c->end = end;
  c->next++;
}

/* A few slots in any order: nm and packed. */
static void locate_slot(lower_state *s, const lower_access *access, lower_cursor *c, ir_expr *at) {
  ir_expr *lo, *hi;
  if (ir_level_has_rest(&access->format->level[c->next])) {
    lower_rest rest;
    pass_level_rest(s, access, c, &rest);
    ir_expr *place = pass_code_add(s, rest.first, at);
    lo = pass_code_where(s, rest.flag, place, rest.lo);
    hi = pass_code_where(s, rest.flag, pass_code_add(s, place, pass_code_int(s, 1)), rest.hi);
  } else {
    pass_level_range(s, access, c, &lo, &hi);
  }
  hi = pass_code_let(s, named(s, "end", access), hi);
  ir_var *p = ir_let(&s->b, named(s, "p", access), IR_I64, lo);
  ir_expr *pos = pass_code_ref(s, p), *inside = pass_code_op(s, IR_OP_LT, pos, hi);
  ir_expr *coordinate = pass_level_coordinate(s, access, c->next, pos, inside);
  ir_block *loop;
  ir_open_while(&s->b, pass_code_and(s, inside, pass_code_op(s, IR_OP_NE, coordinate, at)), &loop);
  ir_set(&s->b, p, pass_code_add(s, pos, pass_code_int(s, 1)));
  ir_close(&s->b, loop);
  c->present = pass_code_let(s, named(s, "in", access), inside);
  c->pos = pos;
  c->next++;
}

void pass_level_locate(lower_state *s, const lower_access *access, lower_cursor *c, ir_expr *at) {
  switch (access->format->level[c->next].kind) {
  case IR_LEVEL_DENSE: pass_level_dense(s, access, c, at); return;
  case IR_LEVEL_COMPRESSED:
  case IR_LEVEL_SINGLETON: locate_sorted(s, access, c, at); return;
  case IR_LEVEL_BITMAP: locate_bit(s, access, c, at); return;
  case IR_LEVEL_NM:
  case IR_LEVEL_PACKED: locate_slot(s, access, c, at); return;
  case IR_LEVEL_COUNT: return;
  }
}

/* ---- everything that is known ---------------------------------------------------------------- */
static bool reads_memory(const ir_expr *e) {
  if (e->kind == IR_ACCESS || e->kind == IR_LOAD) return true;
  for (int i = 0; i < e->arg_count; i++)
    if (reads_memory(e->args[i])) return true;
  return false;
}

/* A subscript that can leave its axis: one read from memory, and any but a bare index on the left.
 */
static bool is_checked(const lower_access *access, const ir_expr *sub) {
  return reads_memory(sub) || (access->target && sub->kind != IR_INDEX);
}

static ir_expr *within_axis(lower_state *s, const lower_access *access, const ir_level *l,
                            ir_expr *at) {
  ir_expr *low = pass_code_op(s, IR_OP_GE, at, pass_code_int(s, 0));
  return pass_code_and(s, low, pass_code_op(s, IR_OP_LT, at, access->expr->tensor->dim[l->dim]));
}

static ir_expr *known_coordinate(lower_state *s, lower_env *env, const lower_access *access,
                                 lower_cursor *c) {
  const ir_level *l = &access->format->level[c->next];
  const ir_expr *sub = access->expr->args[l->dim];
  lower_bound *bound = sub->kind == IR_INDEX ? pass_env_find(env, sub->index) : NULL;
  if (bound && bound->factor && bound->factor == l->factor && l->map != IR_MAP_WHOLE)
    return l->map == IR_MAP_DIV ? bound->block : bound->rest;
  ir_expr *at = pass_value_subscript(s, env, sub);
  if (l->map != IR_MAP_MOD && is_checked(access, sub)) {
    at = pass_code_let(s, named(s, "at", access), at);
    ir_expr *within = pass_code_and(s, c->present, within_axis(s, access, l, at));
    c->present = pass_code_let(s, named(s, "in", access), within);
  }
  if (l->map == IR_MAP_WHOLE) return at;
  return pass_code_op(s, l->map == IR_MAP_DIV ? IR_OP_DIV : IR_OP_MOD, at,
                      pass_code_int(s, l->factor));
}

void pass_level_finish(lower_state *s, lower_env *env, int number) {
  const lower_access *access = &s->accesses.at[number];
  lower_cursor *c = &env->cursor[number];
  while (c->next < access->format->level_count) {
    const ir_level *l = &access->format->level[c->next];
    if (!pass_env_closes(s, env, access->expr->args[l->dim])) break;
    ir_expr *at = known_coordinate(s, env, access, c);
    pass_level_locate(s, access, c, at);
  }
}

void pass_level_resolve(lower_state *s, lower_env *env) {
  for (int i = 0; i < s->accesses.count; i++) pass_level_finish(s, env, i);
}

/* ---- how many positions there are --------------------------------------------------------------
 */
ir_expr *pass_level_positions(lower_state *s, const lower_access *access, int levels) {
  ir_expr *count = pass_code_int(s, 1);
  for (int l = 0; l < levels; l++) {
    const ir_level *at = &access->format->level[l];
    ir_expr *extent = pass_level_extent(s, access, l), *rests = NULL;
    if (at->kind == IR_LEVEL_DENSE)
      count = pass_code_mul(s, count, extent);
    else if (at->kind == IR_LEVEL_COMPRESSED)
      count = pass_code_load_int(s, level_buffer(s, access, IR_BUF_POS, l), count, NULL);
    else if (at->kind == IR_LEVEL_BITMAP) {
      ir_expr *bits = pass_code_mul(s, count, extent);
      ir_expr *tiles = pass_code_op(s, IR_OP_DIV, bits, tile_bits(s, access, l));
      count = pass_code_load_int(s, level_buffer(s, access, IR_BUF_POS, l), tiles, NULL);
    } else if (at->kind != IR_LEVEL_SINGLETON) {
      if (ir_level_has_rest(at))
        rests = pass_code_load_int(s, level_buffer(s, access, IR_BUF_POS, l), count, NULL);
      count = pass_code_mul(s, count, pass_code_int(s, at->parameter));
      if (rests) count = pass_code_add(s, count, pass_code_mul(s, rests, extent));
    }
  }
  return count;
}

ir_expr *pass_level_stored(lower_state *s, const ir_tensor *tensor) {
  lower_access access = {.expr = ir_access(s->arena, (ir_tensor *)tensor, (ir_expr **)tensor->dim),
                         .format = pass_level_format(s, tensor)};
  return pass_level_positions(s, &access, access.format->level_count);
}
