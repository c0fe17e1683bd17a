/* lower_place.c - lists of which only common coordinates count: one is walked, the others are
 * looked up.
 *
 *     A * B      for q in B[i,:] { place[B.crd[q]] = q + 1 }
 *                for p in A[i,:] { j = A.crd[p];  look = place[j]
 *                                  if look != 0 { .. A.vals[p] * B.vals[look - 1] .. } }
 *                for q in B[i,:] { place[B.crd[q]] = 0 }
 *
 * A merge steps by what it has just read and compared: each step waits for the one before.  Here
 * all steps are independent, and a vector of entries can be looked up at once.
 *
 * The places belong to one thread each (ir_buf.each), zero before and after every list.  They are
 * as many as the index has coordinates: where that is more than LIMIT, lists are merged. */
#include "passes/choice.h"
#include "passes/lower_walk.h"

enum { LIMIT = 1 << 17 }; /* half a megabyte of i32: what a core's own cache holds */

static bool can_be_placed(const lower_walk *k, const lower_walker *w) {
  const ir_level *l = pass_walker_level(k, w);
  bool list = l->kind == IR_LEVEL_COMPRESSED || l->kind == IR_LEVEL_SINGLETON;
  return list && l->unique && l->map == IR_MAP_WHOLE && !w->flat;
}

/* Inside another loop, so that the memory serves many lists; the body is short, as it may be
 * written twice. */
bool pass_places_serve(const lower_walk *k) {
  if (pass_target_of(k->s->context)->kind == IR_TARGET_CUDA || pass_env_is_outermost(k->env) ||
      k->phase != PHASE_FIRST || k->factor || !k->nest->shallow || k->n + 1 != k->nest->count)
    return false;
  for (int i = 0; i < k->count; i++)
    if (!k->needed[i] || !can_be_placed(k, &k->w[i])) return false;
  return k->count > 1;
}

ir_expr *pass_places_fit(lower_walk *k) {
  const ir_expr *extent = k->index->extent;
  int64_t most = extent->kind == IR_CONST  ? extent->i
                 : extent->kind != IR_DIM  ? 0
                 : extent->dim->value >= 0 ? extent->dim->value
                                           : extent->dim->bound;
  if (most > 0 && most <= LIMIT) return NULL;
  return pass_code_op(k->s, IR_OP_LE, k->index->extent, pass_code_int(k->s, LIMIT));
}

static ir_buf *places_of(lower_walk *k, const lower_walker *w) {
  lower_state *s = k->s;
  const ir_tensor *tensor = pass_walker_access(k, w)->expr->tensor;
  /* Of its index: one walk may stand inside another one, along an index of another extent. */
  const char *name = ir_format_text(s->arena, "%s.%s.place%d", s->stmt->target->name, k->index->name, w->number);
  ir_expr *count = pass_code_op(s, IR_OP_MIN, k->index->extent, pass_code_int(s, LIMIT));
  ir_buf *buf = pass_code_workspace(s, name, ir_index_dtype(s->kernel, tensor), count);
  buf->zeroed = buf->each = true;
  buf->tensor = s->stmt->target;
  return buf;
}

/* place[coordinate] = q + 1, or 0, for every entry of the list. */
static void put_places(lower_walk *k, lower_walker *w, ir_buf *places, ir_expr *first,
                       bool clears) {
  lower_state *s = k->s;
  ir_block *outer;
  ir_var *q =
      ir_open_for(&s->b, pass_walker_name(k, "q", w), first, w->end, IR_RUN_SEQUENTIAL, &outer);
  ir_expr *here = pass_code_ref(s, q);
  ir_expr *at = pass_level_coordinate(s, pass_walker_access(k, w), w->level, here, NULL);
  ir_expr *place = clears ? pass_code_int(s, 0) : pass_code_add(s, here, pass_code_int(s, 1));
  pass_code_store(s, places, at, place);
  ir_close(&s->b, outer);
}

/* The walker stands on `at` where it has a place there. */
static void look_up(lower_walk *k, lower_walker *w, ir_buf *places, ir_expr *at) {
  lower_state *s = k->s;
  ir_expr *look = pass_code_load_int(s, places, at, NULL);
  look = pass_code_let(s, pass_walker_name(k, "look", w), look);
  w->p = ir_let(&s->b, pass_walker_name(k, "p", w), IR_I64,
                pass_code_sub(s, look, pass_code_int(s, 1)));
  w->flag = pass_code_let(s, pass_walker_name(k, "in", w),
                          pass_code_op(s, IR_OP_NE, look, pass_code_int(s, 0)));
}

static int walked_one(const lower_walk *k) {
  for (int i = 0; i < k->count; i++)
    if (k->w[i].number == k->nest->driver) return i;
  return 0;
}

void pass_walk_places(lower_walk *k, lower_walker *steady, int steady_count) {
  lower_state *s = k->s;
  ir_block *outer;
  ir_expr *first[MOST_WALKED], *lo, *hi;
  ir_buf *places[MOST_WALKED] = {0};
  int one = walked_one(k);
  for (int i = 0; i < k->count; i++) {
    lower_walker *w = &k->w[i];
    pass_level_range(s, pass_walker_access(k, w), pass_walker_cursor(k, w), &lo, &hi);
    first[i] = pass_code_let(s, pass_walker_name(k, "first", w), lo);
    w->end = pass_code_let(s, pass_walker_name(k, "end", w), hi);
    if (i == one) continue;
    places[i] = places_of(k, w);
    put_places(k, w, places[i], first[i], false);
  }
  lower_walker *w = &k->w[one];
  w->p = ir_open_for(&s->b, pass_walker_name(k, "p", w), first[one], w->end, IR_RUN_SEQUENTIAL,
                     &outer);
  ir_expr *crd =
      pass_level_coordinate(s, pass_walker_access(k, w), w->level, pass_code_ref(s, w->p), NULL);
  ir_expr *at = pass_code_let(s, pass_walk_coordinate_name(k), crd);
  w->flag = pass_code_bool(s, true);
  for (int i = 0; i < k->count; i++)
    if (i != one) look_up(k, &k->w[i], places[i], at);
  k->placed = true;
  pass_walk_body(k, steady, steady_count, at, true);
  k->placed = false;
  ir_close(&s->b, outer);
  for (int i = 0; i < k->count; i++)
    if (i != one) put_places(k, &k->w[i], places[i], first[i], true);
}
