/* lower_finger.c - fingers: positions in an operand that follow the coordinates of a loop.
 *
 * A finger stands on the first stored coordinate that the loop has not passed.  Where coordinates
 * repeat (upper levels of coo) it also knows the end of its run; in blocks that are walked element
 * by element, the place in its block; in a bitmap, how many bits of the tile it has passed. */
#include "passes/lower_walk.h"

/* ---- fingers and runs ------------------------------------------------------------------------ */
/* Padding stands at the end of a row: the walk ends before it. */
static ir_expr *without_padding(lower_walk *k, lower_walker *w, ir_expr *lo, ir_expr *hi) {
  lower_state *s = k->s;
  ir_var *end = ir_let(&s->b, pass_walker_name(k, "end", w), IR_I64, hi);
  ir_expr *e = pass_code_ref(s, end), *last = pass_code_sub(s, e, pass_code_int(s, 1));
  ir_expr *inside = pass_code_op(s, IR_OP_LT, lo, e);
  ir_expr *crd = pass_level_coordinate(s, pass_walker_access(k, w), w->level, last, inside);
  ir_expr *padding = pass_code_op(s, IR_OP_LT, crd, pass_code_int(s, 0));
  ir_block *outer;
  ir_open_while(&s->b, pass_code_and(s, inside, padding), &outer);
  ir_set(&s->b, end, last);
  ir_close(&s->b, outer);
  return e;
}

/* Places between the entries of a slot in the rest: the finger stands on none. */
static void skip_places(lower_walk *k, lower_walker *w) {
  lower_state *s = k->s;
  if (!ir_level_has_rest(pass_walker_level(k, w))) return;
  ir_expr *p = pass_code_ref(s, w->p), *inside = pass_finger_inside(k, w);
  ir_expr *crd = pass_level_coordinate(s, pass_walker_access(k, w), w->level, p, inside);
  ir_expr *free = pass_code_op(s, IR_OP_LT, crd, pass_code_int(s, 0));
  ir_block *outer;
  ir_open_while(&s->b, pass_code_and(s, inside, free), &outer);
  ir_set(&s->b, w->p, pass_code_add(s, p, pass_code_int(s, 1)));
  ir_close(&s->b, outer);
}

ir_expr *pass_finger_coordinate(lower_walk *k, lower_walker *w, ir_expr *mask) {
  lower_state *s = k->s;
  ir_expr *crd =
      pass_level_coordinate(s, pass_walker_access(k, w), w->level, pass_code_ref(s, w->p), mask);
  if (!w->place) return crd;
  return pass_code_add(s, pass_code_mul(s, crd, pass_code_int(s, w->factor)),
                       pass_code_ref(s, w->place));
}

void pass_finger_start(lower_walk *k, lower_walker *w) {
  lower_state *s = k->s;
  ir_expr *lo, *hi;
  pass_level_range(s, pass_walker_access(k, w), pass_walker_cursor(k, w), &lo, &hi);
  w->p = ir_let(&s->b, pass_walker_name(k, "p", w), IR_I64, lo);
  if (w->flat)
    w->place = ir_let(&s->b, pass_walker_name(k, "place", w), IR_I64, pass_code_int(s, 0));
  if (pass_walker_is_padded(k, w) && !ir_level_has_rest(pass_walker_level(k, w)))
    w->end = without_padding(k, w, pass_code_ref(s, w->p), hi);
  else
    w->end = pass_code_let(s, pass_walker_name(k, "end", w), hi);
  skip_places(k, w);
}

ir_expr *pass_finger_inside(lower_walk *k, lower_walker *w) {
  return pass_code_op(k->s, IR_OP_LT, pass_code_ref(k->s, w->p), w->end);
}

/* Where coordinates repeat: the end of the run that begins at p. */
void pass_finger_run(lower_walk *k, lower_walker *w, ir_expr *at) {
  lower_state *s = k->s;
  if (pass_walker_level(k, w)->unique) return;
  if (w->place) at = pass_code_op(s, IR_OP_DIV, at, pass_code_int(s, w->factor));
  w->next = ir_let(&s->b, pass_walker_name(k, "run", w), IR_I64, pass_code_ref(s, w->p));
  ir_expr *q = pass_code_ref(s, w->next), *inside = pass_code_op(s, IR_OP_LT, q, w->end);
  ir_expr *same = pass_code_op(
      s, IR_OP_EQ, pass_level_coordinate(s, pass_walker_access(k, w), w->level, q, inside), at);
  ir_block *outer;
  ir_open_while(&s->b, pass_code_and(s, inside, same), &outer);
  ir_set(&s->b, w->next, pass_code_add(s, q, pass_code_int(s, 1)));
  ir_close(&s->b, outer);
}

/* To the next element of the block, or to the next block where this one or the axis ends. */
static void advance_place(lower_walk *k, lower_walker *w) {
  lower_state *s = k->s;
  ir_block *outer, *inner;
  ir_open_if(&s->b, w->flag, &outer);
  ir_set(&s->b, w->place, pass_code_add(s, pass_code_ref(s, w->place), pass_code_int(s, 1)));
  ir_expr *full =
      pass_code_op(s, IR_OP_EQ, pass_code_ref(s, w->place), pass_code_int(s, w->factor));
  ir_expr *behind = pass_code_op(s, IR_OP_GE, pass_finger_coordinate(k, w, NULL), k->index->extent);
  ir_open_if(&s->b, pass_code_or(s, full, behind), &inner);
  ir_expr *after = pass_code_add(s, pass_code_ref(s, w->p), pass_code_int(s, 1));
  ir_set(&s->b, w->p, w->next ? pass_code_ref(s, w->next) : after);
  ir_set(&s->b, w->place, pass_code_int(s, 0));
  skip_places(k, w);
  ir_close(&s->b, inner);
  ir_close(&s->b, outer);
}

void pass_finger_advance(lower_walk *k, lower_walker *w) {
  lower_state *s = k->s;
  ir_expr *p = pass_code_ref(s, w->p);
  if (w->place) {
    advance_place(k, w);
    return;
  }
  if (w->next) {
    ir_set(&s->b, w->p, pass_code_ref(s, w->next));
    return;
  }
  ir_expr *step = pass_code_where(s, w->flag, pass_code_int(s, 1), pass_code_int(s, 0));
  ir_set(&s->b, w->p, pass_code_add(s, p, step));
  skip_places(k, w);
}

/* ---- bitmaps, and whether a finger is on a coordinate ---------------------------------------- */
void pass_finger_bits(lower_walk *k, lower_walker *w) {
  lower_state *s = k->s;
  const lower_access *access = pass_walker_access(k, w);
  lower_cursor *c = pass_walker_cursor(k, w);
  ir_expr *extent = pass_level_extent(s, access, w->level);
  ir_expr *row = c->pos ? pass_code_mul(s, c->pos, extent) : pass_code_int(s, 0);
  w->end = pass_code_let(s, pass_walker_name(k, "row", w), row);
  ir_expr *rank = pass_level_rank(s, access, w->level, pass_code_add(s, w->end, k->lo), c->present);
  w->p = ir_let(&s->b, pass_walker_name(k, "p", w), IR_I64, rank);
}

void pass_finger_flag(lower_walk *k, lower_walker *w, ir_expr *at) {
  lower_state *s = k->s;
  const lower_access *access = pass_walker_access(k, w);
  ir_expr *flag;
  if (pass_walker_is_bitmap(k, w)) {
    ir_expr *present = pass_walker_cursor(k, w)->present;
    flag = pass_level_bit(s, access, w->level, pass_code_add(s, w->end, at), present);
  } else {
    ir_expr *inside = pass_finger_inside(k, w);
    ir_expr *crd = pass_finger_coordinate(k, w, inside);
    flag = pass_code_and(s, inside, pass_code_op(s, IR_OP_EQ, crd, at));
  }
  w->flag = pass_code_let(s, pass_walker_name(k, "in", w), flag);
  if (!pass_walker_is_bitmap(k, w)) pass_finger_run(k, w, at);
}
