/* lower_room.c - how many entries a row of a sparse result can have at most, told by its operands
 * without a look at their coordinates.
 *
 *     stored(A[i,j])                       what row i of A holds
 *     stored(A[i,j]) or stored(B[i,j])     what both rows hold together
 *     stored(A[i,j]) and c                 what the shorter one holds, of those that tell
 *     everywhere                           the extent of j
 *
 * Then nothing is counted: rows are filled with gaps between them, which the plan closes.  One pass
 * over the operands is saved for one over the result. */
#include "passes/lower.h"

/* The access lists its entries along the last index, and all above is known before. */
static bool tells(lower_state *s, const ir_expr *e, const ir_index *last) {
  if (e->kind != IR_STORED) return false;
  const lower_access *access = &s->accesses.at[pass_access_number(s, e->args[0])];
  const ir_format *f = access->format;
  const ir_level *list = &f->level[f->level_count - 1];
  for (int l = 0; l + 1 < f->level_count; l++) {
    const ir_level *level = &f->level[l];
    if (level->map != IR_MAP_WHOLE || !level->unique || ir_level_has_rest(level) ||
        ir_expr_uses_index(access->expr->args[level->dim], last))
      return false;
  }
  return list->kind == IR_LEVEL_COMPRESSED && list->map == IR_MAP_WHOLE &&
         ir_goes_through(access->expr, list->dim, last);
}

static bool is(const ir_expr *e, ir_op op) { return e->kind == IR_OP && e->op == op; }

bool pass_room_is_told(lower_state *s, const ir_expr *stores, const ir_index *last) {
  if (last->offsets) return false;
  if (!stores || tells(s, stores, last)) return true;
  if (!is(stores, IR_OP_AND) && !is(stores, IR_OP_OR)) return false;
  bool x = pass_room_is_told(s, stores->args[0], last);
  bool y = pass_room_is_told(s, stores->args[1], last);
  return is(stores, IR_OP_AND) ? x || y : x && y;
}

static ir_expr *held(lower_state *s, lower_env *env, const ir_expr *access) {
  ir_expr *lo, *hi;
  int number = pass_access_number(s, access);
  pass_level_finish(s, env, number);
  pass_level_range(s, &s->accesses.at[number], &env->cursor[number], &lo, &hi);
  return pass_code_sub(s, hi, lo);
}

static ir_expr *most(lower_state *s, lower_env *env, const ir_expr *stores, const ir_index *last) {
  if (stores->kind == IR_STORED) return held(s, env, stores->args[0]);
  const ir_expr *x = stores->args[0], *y = stores->args[1];
  if (!pass_room_is_told(s, x, last)) return most(s, env, y, last);
  ir_expr *first = most(s, env, x, last);
  if (!pass_room_is_told(s, y, last)) return first;
  ir_expr *second = most(s, env, y, last);
  return is(stores, IR_OP_OR) ? pass_code_add(s, first, second)
                              : pass_code_op(s, IR_OP_MIN, first, second);
}

ir_expr *pass_room(lower_state *s, lower_env *env, const ir_expr *stores, const ir_index *last) {
  if (!stores) return last->extent;
  ir_expr *room = most(s, env, stores, last);
  return stores->kind == IR_STORED ? room : pass_code_op(s, IR_OP_MIN, room, last->extent);
}
