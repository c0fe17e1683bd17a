/* lower_merge.c - several operands that are walked together: a merge.
 *
 *     A + B    while both have entries {  j = the least coordinate;  in_A, in_B: who stands on it
 *                                         body;  those that stand on it step }
 *              what is left of A;  what is left of B
 *
 * Where all of them are needed (A * B) one walks and the others are looked up, if their places fit
 * in memory that is near (lower_place.c). */
#include "passes/lower_walk.h"

static ir_expr *all_inside(lower_walk *k, bool only_needed) {
  ir_expr *all = NULL;
  for (int i = 0; i < k->count; i++)
    if (k->needed[i] || !only_needed)
      all = pass_code_and(k->s, all, pass_finger_inside(k, &k->w[i]));
  return all;
}

static ir_expr *merge_condition(lower_walk *k) {
  ir_expr *all = all_inside(k, true), *any = pass_code_bool(k->s, false);
  for (int i = 0; i < k->count; i++) any = pass_code_or(k->s, any, pass_finger_inside(k, &k->w[i]));
  return all ? all : any;
}

static ir_expr *smallest_coordinate(lower_walk *k) {
  lower_state *s = k->s;
  ir_expr *least = NULL;
  for (int i = 0; i < k->count; i++) {
    lower_walker *w = &k->w[i];
    ir_expr *inside = k->needed[i] || k->inside ? NULL : pass_finger_inside(k, w);
    ir_expr *crd = pass_finger_coordinate(k, w, inside);
    crd = pass_code_where(s, inside, crd, pass_code_int(s, INT64_MAX));
    w->at = pass_code_let(s, pass_walker_name(k, "at", w), crd);
    least = least ? pass_code_op(s, IR_OP_MIN, least, w->at) : w->at;
  }
  return pass_code_let(s, pass_walk_coordinate_name(k), least);
}

static void merge_while(lower_walk *k, ir_expr *condition, lower_walker *steady, int steady_count) {
  lower_state *s = k->s;
  ir_block *outer;
  ir_open_while(&s->b, condition, &outer);
  ir_expr *at = smallest_coordinate(k);
  for (int i = 0; i < k->count; i++) {
    lower_walker *w = &k->w[i];
    w->flag = pass_code_let(s, pass_walker_name(k, "in", w), pass_code_op(s, IR_OP_EQ, w->at, at));
    pass_finger_run(k, w, at);
  }
  pass_walk_body(k, steady, steady_count, at, true);
  for (int i = 0; i < k->count; i++) pass_finger_advance(k, &k->w[i]);
  ir_close(&s->b, outer);
}

/* The body is short, and most of the merge has entries of every operand ahead: that part is a loop
 * of its own, without questions and branches about ends. */
static bool has_fast_part(const lower_walk *k) {
  bool all_needed = true;
  for (int i = 0; i < k->count; i++) {
    all_needed = all_needed && k->needed[i];
    const ir_level *l = pass_walker_level(k, &k->w[i]);
    if (k->w[i].flat || !l->unique || ir_level_has_rest(l)) return false;
  }
  return !all_needed && k->nest->shallow && k->n + 1 == k->nest->count && !k->factor &&
         k->phase == PHASE_FIRST;
}

/* What one of two operands has left when the other has ended. */
static void walk_rest(lower_walk *k, lower_walker *w, lower_walker *steady, int steady_count) {
  lower_state *s = k->s;
  ir_block *outer;
  lower_walker saved = *w;
  for (int i = 0; i < k->count; i++) k->w[i].flag = pass_code_bool(s, &k->w[i] == w);
  w->p = ir_open_for(&s->b, pass_walker_name(k, "p", w), pass_code_ref(s, w->p), w->end,
                     IR_RUN_SEQUENTIAL, &outer);
  ir_expr *at = pass_code_let(s, pass_walk_coordinate_name(k), pass_finger_coordinate(k, w, NULL));
  pass_walk_body(k, steady, steady_count, at, true);
  ir_close(&s->b, outer);
  *w = saved;
}

static void walk_merged(lower_walk *k, lower_walker *steady, int steady_count) {
  for (int i = 0; i < k->count; i++) pass_finger_start(k, &k->w[i]);
  bool fast = has_fast_part(k);
  if (fast) {
    k->inside = true;
    merge_while(k, all_inside(k, false), steady, steady_count);
    k->inside = false;
  }
  if (!fast || k->count > 2 || !pass_walk_any_will_do(k))
    merge_while(k, merge_condition(k), steady, steady_count);
  else
    for (int i = 0; i < k->count; i++) walk_rest(k, &k->w[i], steady, steady_count);
}

void pass_walk_several(lower_walk *k, lower_walker *steady, int steady_count) {
  ir_block *outer;
  if (!pass_places_serve(k)) {
    walk_merged(k, steady, steady_count);
    return;
  }
  ir_expr *fit = pass_places_fit(k);
  if (!fit) {
    pass_walk_places(k, steady, steady_count);
    return;
  }
  lower_walk saved = *k;
  ir_code *either = ir_open_if(&k->s->b, fit, &outer);
  pass_walk_places(k, steady, steady_count);
  *k = saved;
  ir_open_else(&k->s->b, either);
  walk_merged(k, steady, steady_count);
  ir_close(&k->s->b, outer);
}
