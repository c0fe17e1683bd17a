/* vectorise_compress.c - a loop that appends what passes a test, a vector at a time.
 *
 *     for f {                              vector for f step 16 {
 *       let value = h[f]                     let value = h[f .. f+16]
 *       if value != 0 {                      let keep = value != 0
 *         ids[first + count] = f             ids[first + count] = f .. f+16 mask keep compressed
 *         vals[first + count] = value        vals[first + count] = value mask keep compressed
 *         count = count + 1                  count = count + sum of keep's lanes
 *       } }                                }                              (the rest under a mask)
 *
 * Only where registers have 512 bits: narrower machines cannot compress one. */
#include "passes/vectorise.h"

static bool is_count(const ir_expr *e, const ir_var *count) {
  return e->kind == IR_VAR && e->var == count;
}

static bool uses(const ir_expr *e, const ir_var *var) {
  if (!e) return false;
  if (is_count(e, var)) return true;
  for (int i = 0; i < e->arg_count; i++)
    if (uses(e->args[i], var)) return true;
  return false;
}

/* count = count + 1 */
static bool counts(const ir_code *code) {
  const ir_expr *e = code->kind == IR_SET ? code->value : NULL;
  return e && e->kind == IR_OP && e->op == IR_OP_ADD && e->dtype == IR_I64 && e->lanes == 1 &&
         is_count(e->args[0], code->var) && e->args[1]->kind == IR_CONST && e->args[1]->i == 1;
}

/* place = something + count, where nothing else changes with the column */
static bool appends(const vec_region *g, const ir_code *store, const ir_var *count) {
  const ir_expr *at = store->kind == IR_STORE ? store->offset : NULL;
  if (!at || store->cond || store->atomic || store->combine != IR_OP_COUNT ||
      store->buf->kind == IR_BUF_LOCAL || uses(store->value, count))
    return false;
  if (is_count(at, count)) return true;
  return at->kind == IR_OP && at->op == IR_OP_ADD && is_count(at->args[1], count) &&
         !uses(at->args[0], count) && !(pass_vec_deps(g, at->args[0]) & VEC_COL);
}

static bool reads_what_it_stores(const vec_region *g, const ir_expr *e) {
  for (int i = 0; e && e->kind == IR_LOAD && i < g->stores.count; i++)
    if (g->stores.at[i]->buf == e->buf) return true;
  for (int i = 0; e && i < e->arg_count; i++)
    if (reads_what_it_stores(g, e->args[i])) return true;
  return false;
}

static bool lets_are_fine(vec_region *g, const ir_block *body, const ir_var *count) {
  for (int i = 0; i < body->codes.count - 1; i++) {
    const ir_code *code = body->codes.at[i];
    if (code->kind != IR_LET || !code->value || uses(code->value, count) ||
        reads_what_it_stores(g, code->value))
      return false;
  }
  return true;
}

static bool body_appends(vec_region *g, const ir_block *body, const ir_code *test) {
  const ir_block *then = &test->body;
  int last = then->codes.count - 1;
  if (last < 1 || test->orelse.codes.count || !counts(then->codes.at[last])) return false;
  const ir_var *count = then->codes.at[last]->var;
  for (int i = 0; i < last; i++)
    if (!appends(g, then->codes.at[i], count) || reads_what_it_stores(g, then->codes.at[i]->value))
      return false;
  return !uses(test->cond, count) && !reads_what_it_stores(g, test->cond) &&
         lets_are_fine(g, body, count);
}

static bool steps_by_one(const ir_code *loop) {
  return !loop->step || (loop->step->kind == IR_CONST && loop->step->i == 1);
}

/* What a vector computes for every lane: the values, under no branch. */
static ir_block values_of(ir_arena *a, const ir_block *body) {
  ir_block flat = {0};
  const ir_code *test = body->codes.at[body->codes.count - 1];
  for (int i = 0; i < body->codes.count - 1; i++) IR_PUSH(a, &flat.codes, body->codes.at[i]);
  for (int i = 0; i < test->body.codes.count - 1; i++) {
    ir_code *value = IR_NEW(a, ir_code);
    *value = *test->body.codes.at[i];
    value->kind = IR_LET;
    value->offset = NULL;
    IR_PUSH(a, &flat.codes, value);
  }
  return flat;
}

bool pass_vec_compresses(ir_arena *a, const ir_code *loop) {
  const ir_block *body = &loop->body;
  int last = body->codes.count - 1;
  if (loop->kind != IR_FOR || loop->run == IR_RUN_PARALLEL || !steps_by_one(loop) || last < 0 ||
      body->codes.at[last]->kind != IR_IF)
    return false;
  const ir_code *test = body->codes.at[last];
  vec_region *g = pass_vec_region(a, NULL, loop->var, NULL, body);
  if (!(pass_vec_deps(g, test->cond) & VEC_COL) || !body_appends(g, body, test)) return false;
  ir_block values = values_of(a, body);
  return pass_vec_legal(g, &values, true, false);
}

/* ---- writing it ------------------------------------------------------------------------------ */
static void write_appending(vec_copier *k, const ir_code *test) {
  ir_arena *a = k->arena;
  const ir_block *then = &test->body;
  ir_expr *keep = pass_vec_and(a, k->tail, pass_vec_wide(k, test->cond, 0, 0, NULL));
  keep = ir_var_ref(a, pass_vec_let(k->b, "keep", IR_B1, k->lanes, keep));
  for (int i = 0; i < then->codes.count - 1; i++) {
    const ir_code *from = then->codes.at[i];
    ir_expr *at = pass_vec_scalar(k, from->offset, 0, 0);
    ir_expr *value = pass_vec_wide(k, from->value, 0, 0, NULL);
    ir_code *store = ir_store(k->b, from->buf, at, value);
    store->cond = keep;
    store->compressed = true;
  }
  ir_var *count = then->codes.at[then->codes.count - 1]->var;
  ir_expr *kept = ir_reduce(a, IR_RED_SUM, NULL, 0, ir_cast(a, IR_I64, keep));
  kept->dtype = IR_I64;
  kept->lanes = 1;
  ir_set(k->b, count, ir_apply(a, IR_OP_ADD, ir_var_ref(a, count), kept));
}

static void write_part(ir_builder *b, const vec_region *g, const ir_code *loop, ir_expr *lo,
                       ir_expr *hi, vec_copier k, bool tail) {
  ir_block *outer, lets = loop->body;
  ir_var *at = ir_open_for(b, loop->var->name, lo, hi, IR_RUN_VECTOR, &outer);
  outer->codes.at[outer->codes.count - 1]->step = ir_int(b->arena, k.lanes);
  k.g = g;
  k.col_at = ir_var_ref(b->arena, at);
  if (tail) k.tail = pass_vec_tail(b, k.col_at, loop->hi, k.lanes);
  lets.codes.count--;
  pass_vec_block(&k, &lets, NULL);
  write_appending(&k, loop->body.codes.at[lets.codes.count]);
  ir_close(b, outer);
}

static ir_expr *once(ir_builder *b, const char *name, ir_expr *e) {
  if (e->kind == IR_CONST || e->kind == IR_DIM || e->kind == IR_VAR) return e;
  return ir_var_ref(b->arena, pass_vec_let(b, name, IR_I64, 1, e));
}

void pass_vec_compress(ir_builder *b, const ir_code *loop) {
  ir_arena *a = b->arena;
  vec_region *g = pass_vec_region(a, NULL, loop->var, NULL, &loop->body);
  ir_code copy = *loop;
  ir_block values = values_of(a, &loop->body);
  int lanes = 512 / pass_vec_bits(g, &values);
  vec_copier k = {.g = g, .b = b, .arena = a, .rows = 1, .cols = 1, .lanes = lanes, .only_row = -1};
  copy.lo = once(b, "first", loop->lo);
  copy.hi = once(b, "end", loop->hi);
  if (pass_vec_block_wants_lanes(g, &loop->body)) k.lane = pass_vec_lanes(b, IR_I64, lanes);
  ir_expr *span = ir_apply(a, IR_OP_MAX, ir_apply(a, IR_OP_SUB, copy.hi, copy.lo), ir_int(a, 0));
  ir_expr *whole =
      ir_apply(a, IR_OP_MUL, ir_apply(a, IR_OP_DIV, span, ir_int(a, lanes)), ir_int(a, lanes));
  ir_expr *rest = once(b, "rest", ir_apply(a, IR_OP_ADD, copy.lo, whole));
  write_part(b, g, &copy, copy.lo, rest, k, false);
  if (!pass_vec_divides(loop, lanes)) write_part(b, g, &copy, rest, copy.hi, k, true);
}
