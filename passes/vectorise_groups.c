/* vectorise_groups.c - two loops over groups and their slots as one loop over positions.
 *
 *     for b { for p = (x + b)*c .. (x + b)*c + c {     for p = x*c .. (x + K/m)*c { let b = p/c - x
 *       let k = b*m + crd[p]; if k < K { .. } } }        let k = b*m + crd[p]; .. }
 *                                                      for b = K/m .. { as it was }
 *
 * Slots that fill the last group up may lie behind the end: what is before it needs no test. */
#include "passes/vectorise.h"

static bool steps_by_one(const ir_code *loop) {
  return !loop->step || (loop->step->kind == IR_CONST && loop->step->i == 1);
}

static const ir_code *slots_of(const ir_code *loop) {
  const ir_code *in = loop->body.codes.count == 1 ? loop->body.codes.at[0] : NULL;
  return in && in->kind == IR_FOR && steps_by_one(loop) && steps_by_one(in) ? in : NULL;
}

static bool is_op(const ir_expr *e, ir_op op) { return e->kind == IR_OP && e->op == op; }

static bool changes(ir_arena *arena, const ir_code *loop, const ir_expr *e) {
  return pass_vec_deps(pass_vec_region(arena, NULL, loop->var, NULL, &loop->body), e) != 0;
}

/* ---- one loop -------------------------------------------------------------------------------- */
/* x and c of (x + b)*c .. (x + b)*c + c; of x + b .. x + b + 1 c is 1. */
static bool first_group(ir_arena *a, const ir_code *loop, const ir_code *in, ir_expr **x,
                        int64_t *slots) {
  const ir_expr *lo = in->lo, *hi = in->hi;
  if (!is_op(hi, IR_OP_ADD) || !ir_expr_equal(hi->args[0], lo) || hi->args[1]->kind != IR_CONST)
    return false;
  *slots = hi->args[1]->i;
  bool times = is_op(lo, IR_OP_MUL) && lo->args[1]->kind == IR_CONST && lo->args[1]->i == *slots;
  if (*slots < 1 || (*slots > 1 && !times)) return false;
  const ir_expr *at = *slots > 1 ? lo->args[0] : lo;
  if (!is_op(at, IR_OP_ADD) || at->args[1]->kind != IR_VAR || at->args[1]->var != loop->var)
    return false;
  *x = at->args[0];
  return !changes(a, loop, *x);
}

static ir_expr *position(ir_arena *a, ir_expr *x, ir_expr *group, int64_t slots) {
  ir_expr *at = ir_apply(a, IR_OP_ADD, x, group);
  return slots > 1 ? ir_apply(a, IR_OP_MUL, at, ir_int(a, slots)) : at;
}

/* Anything else is left as it is. */
static const ir_code *over_positions(ir_arena *a, const ir_code *loop) {
  const ir_code *in = slots_of(loop);
  ir_expr *x;
  int64_t slots;
  if (!in || !first_group(a, loop, in, &x, &slots)) return loop;
  ir_code *one = IR_NEW(a, ir_code), *group = IR_NEW(a, ir_code);
  ir_expr *number = ir_var_ref(a, in->var);
  if (slots > 1) number = ir_apply(a, IR_OP_DIV, number, ir_int(a, slots));
  *group = (ir_code){.kind = IR_LET,
                     .var = loop->var,
                     .value = ir_apply(a, IR_OP_SUB, number, x),
                     .combine = IR_OP_COUNT};
  *one = *in;
  one->lo = position(a, x, loop->lo, slots);
  one->hi = position(a, x, loop->hi, slots);
  one->body = (ir_block){0};
  IR_PUSH(a, &one->body.codes, group);
  for (int i = 0; i < in->body.codes.count; i++) IR_PUSH(a, &one->body.codes, in->body.codes.at[i]);
  return one;
}

/* ---- the last group -------------------------------------------------------------------------- */
int64_t pass_vec_places(const ir_expr *e) {
  if (e->kind != IR_LOAD || e->arg_count > 1 || e->buf->kind != IR_BUF_CRD || !e->buf->tensor ||
      !e->buf->tensor->format)
    return 0;
  const ir_level *level = &e->buf->tensor->format->level[e->buf->level];
  return level->kind == IR_LEVEL_NM ? level->factor : 0;
}

static const ir_expr *let_of(const ir_block *block, const ir_expr *e) {
  for (int i = 0; e->kind == IR_VAR && i < block->codes.count; i++)
    if (block->codes.at[i]->kind == IR_LET && block->codes.at[i]->var == e->var)
      return block->codes.at[i]->value;
  return e;
}

/* m, where the coordinate is b*m + a place that is stored; 0: another one. */
static int64_t group_size(const ir_code *loop, const ir_block *block, const ir_expr *coordinate) {
  const ir_expr *e = let_of(block, coordinate);
  if (!is_op(e, IR_OP_ADD) || !is_op(e->args[0], IR_OP_MUL)) return 0;
  const ir_expr *times = e->args[0], *place = let_of(block, e->args[1]);
  bool of_group = times->args[0]->kind == IR_VAR && times->args[0]->var == loop->var &&
                  times->args[1]->kind == IR_CONST;
  int64_t places = place->kind == IR_CAST ? pass_vec_places(place->args[0]) : 0;
  return of_group && places == times->args[1]->i ? places : 0;
}

static ir_code *with_range(ir_arena *a, const ir_code *loop, ir_expr *lo, ir_expr *hi) {
  ir_code *copy = IR_NEW(a, ir_code);
  *copy = *loop;
  copy->lo = lo;
  copy->hi = hi;
  return copy;
}

/* What the test keeps stands in its place. */
static const ir_code *without_test(ir_arena *a, const ir_code *loop, ir_expr *hi) {
  ir_code *all = with_range(a, loop, loop->lo, hi), *in = IR_NEW(a, ir_code);
  const ir_block *body = &loop->body.codes.at[0]->body;
  int last = body->codes.count - 1;
  const ir_block *kept = &body->codes.at[last]->body;
  *in = *loop->body.codes.at[0];
  in->body = all->body = (ir_block){0};
  for (int i = 0; i < last; i++) IR_PUSH(a, &in->body.codes, body->codes.at[i]);
  for (int i = 0; i < kept->codes.count; i++) IR_PUSH(a, &in->body.codes, kept->codes.at[i]);
  IR_PUSH(a, &all->body.codes, in);
  return all;
}

/* The groups that lie whole before the end, without the test; *rest: the others. */
static const ir_code *whole_groups(ir_arena *a, const ir_code *loop, ir_code **rest) {
  const ir_code *in = slots_of(loop);
  int count = in ? in->body.codes.count : 0;
  const ir_code *test = count ? in->body.codes.at[count - 1] : NULL;
  if (!test || test->kind != IR_IF || test->orelse.codes.count || !is_op(test->cond, IR_OP_LT))
    return loop;
  ir_expr *end = test->cond->args[1];
  int64_t m = group_size(loop, &in->body, test->cond->args[0]);
  if (!m || (end->kind != IR_DIM && end->kind != IR_CONST)) return loop;
  ir_expr *whole = ir_apply(a, IR_OP_DIV, end, ir_int(a, m));
  *rest = with_range(a, loop, ir_apply(a, IR_OP_MAX, loop->lo, whole), loop->hi);
  return without_test(a, loop, ir_apply(a, IR_OP_MIN, loop->hi, whole));
}

const ir_code *pass_vec_positions(ir_arena *arena, const ir_code *loop, ir_code **rest) {
  ir_code *ignored;
  if (!rest) rest = &ignored;
  *rest = NULL;
  const ir_code *whole = whole_groups(arena, loop, rest), *flat = over_positions(arena, whole);
  if (flat == whole) *rest = NULL;
  return flat == whole ? loop : flat;
}
