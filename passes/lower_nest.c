/* lower_nest.c - nests of loops over indices: strips and lists, ragged segments, and plain extents.
 *
 * One loop an index, outermost first; when all are open the leaf is written.  A list that the stage
 * reads replaces the loop over its axis:
 *
 *     for s in 0 .. strips, for t in s*64 .. min(s*64 + 64, T)
 *       for n in 0 .. counts[s]:  f = ids[s*capacity + n]
 *
 * Where the strip's index comes last, its strips are opened first of all: what a strip's list names
 * stays near while the other loops run, and they give the rows of register tiles. */
#include "passes/lower.h"
#include "passes/storage.h"

static ir_run run_of(const lower_nest *nest, const lower_env *env) {
  return nest->parallel && pass_env_is_outermost(env) ? IR_RUN_PARALLEL : IR_RUN_SEQUENTIAL;
}

static void next_loop(lower_nest *nest, lower_env *env, int n) {
  pass_level_resolve(nest->s, env);
  pass_nest_from(nest, env, n + 1);
}

/* ---- lists ----------------------------------------------------------------------------------- */
static ir_list *list_by(const lower_nest *nest, const ir_index *index, bool strips) {
  const ir_stage *stage = nest->s->stage;
  for (int i = 0; i < stage->reads.count; i++) {
    ir_list *list = stage->reads.at[i];
    if (list->ids && (strips ? list->strip_index : list->axis) == index) return list;
  }
  return NULL;
}

static void open_rows(lower_nest *nest, lower_env *env, int n, ir_expr *lo, ir_expr *hi) {
  lower_state *s = nest->s;
  const ir_index *t = nest->index[n];
  ir_block *rows;
  ir_var *row = ir_open_for(&s->b, t->name, lo, hi, IR_RUN_SEQUENTIAL, &rows);
  lower_env *inner = pass_env_copy(s, env);
  pass_env_bind(inner, t, pass_code_ref(s, row));
  next_loop(nest, inner, n);
  ir_close(&s->b, rows);
}

/* Rows first .. end of index n, strip by strip; what is nested begins with loop `next`. */
static void open_strips(lower_nest *nest, lower_env *env, int n, int next, const ir_list *list,
                        ir_expr *first, ir_expr *end) {
  lower_state *s = nest->s;
  const ir_index *t = nest->index[n];
  bool whole = first->kind == IR_CONST;
  ir_block *strips;
  ir_expr *size = pass_code_int(s, list->strip);
  ir_expr *from = pass_code_op(s, IR_OP_DIV, first, size);
  ir_expr *to = whole ? list->strips : ir_ceil_div(s->arena, end, list->strip);
  ir_var *strip = ir_open_for(&s->b, ir_format_text(s->arena, "strip_%s", t->name), from, to,
                              run_of(nest, env), &strips);
  ir_expr *lo = pass_code_mul(s, pass_code_ref(s, strip), size), *hi = pass_code_add(s, lo, size);
  if (!whole) lo = pass_code_op(s, IR_OP_MAX, lo, first);
  lower_env *inner = pass_env_copy(s, env);
  inner->strip_index = t;
  inner->strip = list->strip;
  inner->strip_number = pass_code_ref(s, strip);
  inner->strip_lo = lo;
  inner->strip_hi = pass_code_op(s, IR_OP_MIN, hi, end);
  if (next == n)
    open_rows(nest, inner, n, inner->strip_lo, inner->strip_hi);
  else
    pass_nest_from(nest, inner, next);
  ir_close(&s->b, strips);
}

/* The last index, when it is one of strips and none of the loops before it needs it. */
static const ir_list *strips_first(const lower_nest *nest, const lower_env *env, int n) {
  int last = nest->count - 1;
  if (!nest->spatial || n >= last || !pass_env_is_outermost(env)) return NULL;
  if (nest->index[last]->offsets) return NULL;
  const ir_list *list = list_by(nest, nest->index[last], true);
  return list && list->strip > 1 ? list : NULL;
}

/* The number of the strip that the current row lies in; NULL while its index is not known. */
static ir_expr *strip_number(lower_state *s, lower_env *env, const ir_list *list) {
  if (!list->strip_index) return pass_code_int(s, 0);
  if (env->strip_index == list->strip_index && env->strip == list->strip) return env->strip_number;
  lower_bound *bound = pass_env_find(env, list->strip_index);
  return bound ? pass_code_op(s, IR_OP_DIV, bound->value, pass_code_int(s, list->strip)) : NULL;
}

/* What the list was made of is read where its values are kept. */
static void read_compressed(lower_state *s, lower_env *env, const ir_list *list, ir_expr *at) {
  for (int i = 0; i < s->accesses.count; i++) {
    const ir_expr *e = s->accesses.at[i].expr;
    if (s->accesses.at[i].target || e->tensor != list->tensor ||
        !ir_is_bare(e->args[list->strip_dim], list->strip_index) ||
        !ir_is_bare(e->args[list->axis_dim], list->axis))
      continue;
    s->accesses.at[i].buf = list->vals;
    env->cursor[i] = (lower_cursor){.next = s->accesses.at[i].format->level_count, .pos = at};
  }
}

static void open_list(lower_nest *nest, lower_env *env, int n, const ir_list *list,
                      ir_expr *strip) {
  lower_state *s = nest->s;
  const ir_index *f = nest->index[n];
  ir_block *tiles, *places = NULL;
  ir_expr *hi = pass_code_load_int(s, list->counts, strip, NULL);
  ir_var *entry = ir_open_for(&s->b, "n", pass_code_int(s, 0), hi, IR_RUN_SEQUENTIAL, &tiles);
  ir_expr *start = list->starts ? pass_code_load(s, list->starts, strip, NULL)
                                : pass_code_mul(s, strip, list->capacity);
  ir_expr *at = pass_code_add(s, start, pass_code_ref(s, entry));
  ir_expr *id = pass_code_load_int(s, list->ids, at, NULL), *value;
  if (list->gran == 1) {
    value = pass_code_let(s, f->name, id);
  } else {
    ir_expr *gran = pass_code_int(s, list->gran);
    ir_expr *first =
        pass_code_let(s, ir_format_text(s->arena, "tile_%s", f->name), pass_code_mul(s, id, gran));
    ir_expr *end = pass_code_op(s, IR_OP_MIN, pass_code_add(s, first, gran), f->extent);
    value = pass_code_ref(s, ir_open_for(&s->b, f->name, first, end, IR_RUN_SEQUENTIAL, &places));
  }
  lower_env *inner = pass_env_copy(s, env);
  pass_env_bind(inner, f, value);
  if (list->vals) read_compressed(s, inner, list, at);
  next_loop(nest, inner, n);
  if (places) ir_close(&s->b, places);
  ir_close(&s->b, tiles);
}

/* ---- ragged segments ------------------------------------------------------------------------- */
static void open_ragged(lower_nest *nest, lower_env *env, int n, const ir_list *strips) {
  lower_state *s = nest->s;
  const ir_index *r = nest->index[n];
  ir_expr *e = pass_env_find(env, r->segment)->value, *zero = pass_code_int(s, 0);
  ir_buf *offsets = pass_code_buffer(s, r->offsets, IR_BUF_VALS, 0);
  ir_expr *first = pass_code_load_int(s, offsets, e, NULL);
  ir_expr *last = pass_code_load_int(s, offsets, pass_code_add(s, e, pass_code_int(s, 1)), NULL);
  first = pass_code_let(s, "first", pass_code_op(s, IR_OP_MAX, first, zero));
  last = pass_code_let(s, "last", pass_code_op(s, IR_OP_MIN, last, r->extent));
  if (nest->spatial) s->skipped = true;
  if (strips && strips->strip > 1)
    open_strips(nest, env, n, n, strips, first, last);
  else
    pass_walk(nest, env, n, first, last);
}

/* ---- what need not be visited ---------------------------------------------------------------- */
/* An operand that is not there here, and without which nothing is left to do. */
static int decisive_access(const lower_nest *nest, lower_env *env) {
  lower_state *s = nest->s;
  if (nest->target >= 0 && env->cursor[nest->target].present) return nest->target;
  bool *absent = IR_NEW_ARRAY(s->arena, bool, s->accesses.count + 1);
  for (int i = 0; !nest->spatial && i < s->accesses.count; i++) {
    if (!env->cursor[i].present || s->accesses.at[i].target) continue;
    if (!pass_tensor_is_sparse(s->accesses.at[i].expr->tensor)) continue; /* out of range: too rare to ask before a loop */
    absent[i] = true;
    if (pass_nest_skips(nest, env, absent, NULL)) return i;
    absent[i] = false;
  }
  return -1;
}

static bool open_decided(lower_nest *nest, lower_env *env, int n) {
  lower_state *s = nest->s;
  int number = decisive_access(nest, env);
  if (number < 0) return false;
  ir_block *outer;
  ir_open_if(&s->b, env->cursor[number].present, &outer);
  lower_env *inner = pass_env_copy(s, env);
  inner->cursor[number].present = NULL;
  pass_nest_from(nest, inner, n);
  ir_close(&s->b, outer);
  return true;
}

/* ---- one loop after the other ---------------------------------------------------------------- */
void pass_nest_from(lower_nest *nest, lower_env *env, int n) {
  lower_state *s = nest->s;
  if (open_decided(nest, env, n)) return;
  if (n == nest->count) {
    nest->leaf(nest, env);
    return;
  }
  const ir_index *index = nest->index[n];
  if (pass_env_find(env, index)) {
    pass_nest_from(nest, env, n + 1);
    return;
  }
  if (nest->spatial && !pass_env_is_outermost(env)) pass_hoist(s, env, nest->root);
  const ir_list *strips = strips_first(nest, env, n), *list = list_by(nest, index, false);
  if (strips) {
    int last = nest->count - 1;
    open_strips(nest, env, last, n, strips, pass_code_int(s, 0), nest->index[last]->extent);
    return;
  }
  strips = list_by(nest, index, true);
  ir_expr *strip = list ? strip_number(s, env, list) : NULL;
  if (strip) {
    if (nest->spatial) s->skipped = true;
    open_list(nest, env, n, list, strip);
  } else if (index->offsets)
    open_ragged(nest, env, n, strips);
  else if (env->strip_index == index)
    open_rows(nest, env, n, env->strip_lo, env->strip_hi);
  else if (strips && strips->strip > 1)
    open_strips(nest, env, n, n, strips, pass_code_int(s, 0), index->extent);
  else if (index == s->strips.index)
    pass_strips_columns(nest, env, n);
  else if (index == s->part_index)
    pass_walk(nest, env, n, s->part_lo, s->part_hi);
  else
    pass_walk(nest, env, n, pass_code_int(s, 0), index->extent);
}

void pass_nest(lower_nest *nest, lower_env *env) {
  if (!nest->parallel)
    pass_level_resolve(nest->s, env); /* only `let`s stand before a parallel loop */
  pass_nest_from(nest, env, 0);
}
