/* lower_walk.c - one loop over the coordinates of an index: which operands are walked, and how.
 *
 * The operands whose next level is on the index and leaves coordinates out are candidates.  For
 * every subset of them the fold says whether a point where just these are present can be skipped:
 *
 *     nothing can be skipped          every coordinate, with a finger in each operand that has one
 *     one operand is always needed    its positions
 *     several are                     one of them, with the places of the others (lower_place.c),
 *                                     or a merge that ends with the first of them
 *     any of several may do           a merge that ends with the last of them
 *
 * Operands with the entries of one tensor (`like`) are one of them.
 *
 * A format in blocks is walked in two such loops, over blocks and over places in a block; beside
 * one in other blocks or in none, element by element: a position and a place in its block.  What is
 * not walked here is located by its coordinate.  Bodies are written once, operands that are absent
 * at a point read their fill there. */
#include "passes/expr.h"
#include "passes/lower_walk.h"

/* ---- which operands -------------------------------------------------------------------------- */
/* The place in the blocks of this level's dimension leaves coordinates out. */
static bool rest_is_sparse(const ir_format *f, int level) {
  for (int l = level + 1; l < f->level_count; l++)
    if (f->level[l].dim == f->level[level].dim && f->level[l].map == IR_MAP_MOD)
      return !ir_level_rows[f->level[l].kind].full;
  return false;
}

static void add_walker(lower_walk *k, int number) {
  const lower_access *access = &k->s->accesses.at[number];
  int level = k->env->cursor[number].next;
  if (level >= access->format->level_count || k->count == MOST_WALKED) return;
  for (int i = 0; i < k->count; i++)
    if (k->w[i].number == number) return;
  const ir_level *l = &access->format->level[level];
  bool steps = !ir_level_rows[l->kind].full;
  if (!ir_goes_through(access->expr, l->dim, k->index)) return;
  if (k->phase == PHASE_REST) {
    if (!steps || l->map != IR_MAP_MOD || l->factor != k->factor) return;
  } else if (l->map == IR_MAP_MOD ||
             (!steps && !(l->map == IR_MAP_DIV && rest_is_sparse(access->format, level)))) {
    return;
  }
  k->w[k->count++] = (lower_walker){.number = number,
                                    .level = level,
                                    .factor = l->map == IR_MAP_WHOLE ? 0 : l->factor,
                                    .steps = steps};
}

static void find_walkers(lower_walk *k, const ir_expr *e) {
  if (e->kind == IR_ACCESS) add_walker(k, pass_access_number(k->s, e));
  for (int i = 0; e->kind == IR_REDUCE && i < e->bound_count; i++)
    if (e->bound[i] == k->index) return;
  for (int i = 0; i < e->arg_count; i++) find_walkers(k, e->args[i]);
}

static bool same_or_none(const ir_expr *x, const ir_expr *y) { return x && y ? ir_expr_equal(x, y) : !x && !y; }

/* From level l on both are indexed alike: they are at one entry all the way down. */
static bool go_on_together(const lower_access *a, const lower_access *b, int l) {
  for (; l < a->format->level_count; l++) {
    int dim = a->format->level[l].dim;
    if (!ir_expr_equal(a->expr->args[dim], b->expr->args[dim])) return false;
  }
  return true;
}

/* Both have the entries of one tensor, and stand at the same place of it.  Where coordinates repeat (coo), a place is
 * one entry or a run of them: one walker does for both where they want the same entries of a run. */
static bool are_alike(const lower_walk *k, const lower_walker *x, const lower_walker *y) {
  const lower_access *a = pass_walker_access(k, x), *b = pass_walker_access(k, y);
  const lower_cursor *at = pass_walker_cursor(k, x), *there = pass_walker_cursor(k, y);
  if (x->factor || y->factor || x->level != y->level || !x->steps || !y->steps || a->buf || b->buf) return false;
  if (!pass_walker_level(k, x)->unique && !go_on_together(a, b, x->level)) return false;
  return ir_tensor_owner(a->expr->tensor) == ir_tensor_owner(b->expr->tensor) && a->format == b->format &&
         same_or_none(at->pos, there->pos) && same_or_none(at->end, there->end) && same_or_none(at->present, there->present);
}

/* Operands whose entries are the same ones need one walker. */
static void drop_alike(lower_walk *k) {
  int kept = 0;
  for (int i = 0; i < k->count; i++) {
    int first = 0;
    while (first < kept && !are_alike(k, &k->w[first], &k->w[i])) first++;
    if (first == kept) {
      k->w[kept++] = k->w[i];
      continue;
    }
    k->alike[k->alike_count].number = k->w[i].number;
    k->alike[k->alike_count++].of = k->w[first].number;
  }
  k->count = kept;
}

static bool can_skip(lower_walk *k, int present) {
  bool *absent = IR_NEW_ARRAY(k->s->arena, bool, k->s->accesses.count);
  for (int i = 0; i < k->count; i++) {
    if (present >> i & 1) continue;
    absent[k->w[i].number] = true;
    if (k->w[i].number == k->nest->driver) return true;
  }
  for (int i = 0; i < k->alike_count; i++) {
    absent[k->alike[i].number] = absent[k->alike[i].of];
    if (absent[k->alike[i].number] && k->alike[i].number == k->nest->driver) return true;
  }
  return pass_nest_skips(k->nest, k->env, absent, k->index);
}

static void analyse(lower_walk *k) {
  int all = (1 << k->count) - 1;
  for (int set = 0; set <= all; set++) k->skip[set] = can_skip(k, set);
  for (int i = 0; i < k->count; i++) {
    k->needed[i] = true;
    for (int set = 0; set <= all; set++)
      if (!(set >> i & 1) && !k->skip[set]) k->needed[i] = false;
  }
}

/* Keeps the walkers of one block size: those that can be walked together. */
static void keep_factor(lower_walk *k, int64_t factor) {
  int kept = 0;
  for (int i = 0; i < k->count; i++)
    if (k->w[i].factor == factor) k->w[kept++] = k->w[i];
  k->count = kept;
  k->factor = factor;
}

/* Blocks of different sizes, any of which may do: all are walked element by element.  Formats that
 * have every block (nm) would visit everything: then only those without blocks are walked, in a
 * loop over all. */
static void flatten(lower_walk *k) {
  bool all = false;
  for (int i = 0; i < k->count; i++) all = all || !k->w[i].steps;
  if (all) keep_factor(k, 0);
  k->factor = 0;
  for (int i = 0; i < k->count; i++) k->w[i].flat = k->w[i].factor > 0;
}

static void choose_factor(lower_walk *k) {
  bool mixed = false;
  int first = -1;
  for (int i = 0; i < k->count; i++) {
    mixed = mixed || k->w[i].factor != k->w[0].factor;
    if (k->needed[i] && (first < 0 || k->w[i].number == k->nest->driver)) first = i;
  }
  if (mixed && first < 0)
    flatten(k);
  else if (k->count)
    keep_factor(k, k->w[first < 0 ? 0 : first].factor);
}

/* Those whose level here is full (the blocks of nm) step along and are no question in this loop. */
static void drop_steady(lower_walk *k, lower_walker *steady, int *steady_count) {
  int kept = 0;
  *steady_count = 0;
  for (int i = 0; i < k->count; i++) {
    if (k->w[i].steps)
      k->w[kept++] = k->w[i];
    else
      steady[(*steady_count)++] = k->w[i];
  }
  k->count = kept;
}

/* ---- inside the loop ------------------------------------------------------------------------- */
/* The condition on flags under which the body must run: one of the smallest sets that are not
 * skipped. */
static ir_expr *body_condition(lower_walk *k) {
  ir_expr *any = pass_code_bool(k->s, false);
  for (int set = 0; set < 1 << k->count; set++) {
    bool smallest = !k->skip[set];
    for (int i = 0; i < k->count; i++)
      if ((set >> i & 1) && !k->skip[set & ~(1 << i)]) smallest = false;
    if (!smallest) continue;
    ir_expr *all = NULL;
    for (int i = 0; i < k->count; i++)
      if (set >> i & 1) all = pass_code_and(k->s, all, k->w[i].flag);
    any = pass_code_or(k->s, any, all);
  }
  return any;
}

static void descend(lower_walk *k, lower_env *env) {
  pass_level_resolve(k->s, env);
  pass_nest_from(k->nest, env, k->n + 1);
}

static void walk_phase(lower_walk *k);

/* `at` is a block: go on with the places in it. */
static void enter_block(lower_walk *k, lower_env *env, ir_expr *at) {
  lower_state *s = k->s;
  ir_expr *first = pass_code_mul(s, at, pass_code_int(s, k->factor));
  ir_expr *room = pass_code_sub(s, k->index->extent, first);
  lower_walk inner = {.nest = k->nest,
                      .s = s,
                      .env = env,
                      .n = k->n,
                      .index = k->index,
                      .phase = PHASE_REST,
                      .factor = k->factor,
                      .block = at,
                      .lo = pass_code_int(s, 0)};
  inner.hi = pass_code_op(s, IR_OP_MIN, pass_code_int(s, k->factor), room);
  pass_level_resolve(s, env);
  walk_phase(&inner);
}

static bool divides(const lower_walk *k) {
  const ir_expr *extent = k->index->extent;
  if (extent->kind == IR_CONST) return extent->i % k->factor == 0;
  if (extent->kind != IR_DIM) return false;
  return (extent->dim->value >= 0 ? extent->dim->value : extent->dim->multiple) % k->factor == 0;
}

/* Slots of the last block can stand for places behind the end of the axis. */
static bool may_overhang(const lower_walk *k) {
  for (int i = 0; i < k->count; i++)
    if (pass_walker_level(k, &k->w[i])->kind == IR_LEVEL_NM && !divides(k)) return true;
  return false;
}

/* `at` is the coordinate of this phase; the env already holds the walkers' positions. */
static void enter(lower_walk *k, lower_env *env, ir_expr *at) {
  if (k->phase == PHASE_FIRST && k->factor) {
    enter_block(k, env, at);
    return;
  }
  ir_block *outer = NULL;
  if (k->phase == PHASE_FIRST) {
    pass_env_bind(env, k->index, at);
  } else {
    ir_expr *first = pass_code_mul(k->s, k->block, pass_code_int(k->s, k->factor));
    pass_env_bind(env, k->index,
                  pass_code_let(k->s, k->index->name, pass_code_add(k->s, first, at)));
    lower_bound *bound = pass_env_find(env, k->index);
    bound->block = k->block;
    bound->rest = at;
    bound->factor = k->factor;
    if (may_overhang(k))
      ir_open_if(&k->s->b, pass_code_op(k->s, IR_OP_LT, bound->value, k->index->extent), &outer);
  }
  descend(k, env);
  if (outer) ir_close(&k->s->b, outer);
}

const char *pass_walk_coordinate_name(const lower_walk *k) {
  if (k->phase == PHASE_REST) return ir_format_text(k->s->arena, "%s_in", k->index->name);
  return k->factor ? ir_format_text(k->s->arena, "%s_block", k->index->name) : k->index->name;
}

/* Records that the walker stands at its position p, present under flag. */
static void settle(lower_walk *k, lower_env *env, lower_walker *w, ir_expr *flag) {
  lower_cursor *c = &env->cursor[w->number];
  c->pos = pass_code_ref(k->s, w->p);
  c->end = w->next ? pass_code_ref(k->s, w->next) : NULL;
  c->present = pass_code_and(k->s, NULL, flag); /* NULL where it is just true */
  c->next = w->level + 1;
  c->readable = k->inside && c->next == pass_walker_access(k, w)->format->level_count;
  for (int i = 0; i < k->alike_count; i++)
    if (k->alike[i].of == w->number) env->cursor[k->alike[i].number] = *c;
}

static void step_steady(lower_walk *k, lower_env *env, lower_walker *steady, int count,
                        ir_expr *at) {
  for (int i = 0; i < count; i++)
    pass_level_dense(k->s, pass_walker_access(k, &steady[i]), &env->cursor[steady[i].number], at);
}

/* ---- the body under its condition ------------------------------------------------------------ */
bool pass_walk_any_will_do(const lower_walk *k) {
  for (int i = 0; i < k->count; i++)
    if (k->skip[1 << i]) return false;
  return true;
}

void pass_walk_body(lower_walk *k, lower_walker *steady, int steady_count, ir_expr *at,
                    bool some_is) {
  lower_state *s = k->s;
  ir_expr *condition = body_condition(k), *holds = condition;
  ir_block *outer = NULL;
  if (some_is && pass_walk_any_will_do(k)) condition = NULL;
  if (condition) ir_open_if(&s->b, condition, &outer);
  lower_env *inner = pass_env_copy(s, k->env);
  bool masked = k->placed && k->nest->spatial; /* several entries can be appended at once */
  for (int i = 0; i < k->count; i++)
    settle(k, inner, &k->w[i], condition && k->needed[i] && !masked ? NULL : k->w[i].flag);
  if (holds) inner->holds = holds;
  step_steady(k, inner, steady, steady_count, at);
  enter(k, inner, at);
  if (condition) ir_close(&s->b, outer);
}

/* ---- every coordinate ------------------------------------------------------------------------ */
static void walk_every(lower_walk *k, lower_walker *steady, int steady_count) {
  lower_state *s = k->s;
  ir_run run = k->nest->parallel && pass_env_is_outermost(k->env) && k->phase == PHASE_FIRST
                   ? IR_RUN_PARALLEL
                   : IR_RUN_SEQUENTIAL;
  ir_expr *lo = k->lo;
  if (k->phase == PHASE_FIRST && !k->factor &&
      pass_nest_bounds(k->nest, k->env, k->index, &lo, &k->hi) && k->nest->spatial)
    s->skipped = true;
  if (!k->count) k->lo = lo;                /* a finger starts at the first coordinate */
  if (run == IR_RUN_PARALLEL) k->count = 0; /* iterations are independent: operands are located */
  for (int i = 0; i < k->count; i++) {
    if (pass_walker_is_bitmap(k, &k->w[i]))
      pass_finger_bits(k, &k->w[i]);
    else
      pass_finger_start(k, &k->w[i]);
  }
  ir_block *outer;
  ir_expr *at =
      pass_code_ref(s, ir_open_for(&s->b, pass_walk_coordinate_name(k), k->lo, k->hi, run, &outer));
  bool parts = run == IR_RUN_PARALLEL && k->nest->part;
  if (parts) k->nest->part(k->nest, at, k->hi, true);
  for (int i = 0; i < k->count; i++) pass_finger_flag(k, &k->w[i], at);
  if (k->count)
    pass_walk_body(k, steady, steady_count, at, false);
  else {
    lower_env *inner = pass_env_copy(s, k->env);
    step_steady(k, inner, steady, steady_count, at);
    enter(k, inner, at);
  }
  for (int i = 0; i < k->count; i++) pass_finger_advance(k, &k->w[i]);
  if (parts) k->nest->part(k->nest, at, k->hi, false);
  ir_close(&s->b, outer);
}

/* ---- one operand ----------------------------------------------------------------------------- */
static void walk_runs(lower_walk *k, lower_walker *w, lower_walker *steady, int steady_count) {
  lower_state *s = k->s;
  ir_block *outer;
  ir_open_while(&s->b, pass_finger_inside(k, w), &outer);
  ir_expr *crd =
      pass_level_coordinate(s, pass_walker_access(k, w), w->level, pass_code_ref(s, w->p), NULL);
  ir_expr *at = pass_code_let(s, pass_walk_coordinate_name(k), crd);
  pass_finger_run(k, w, at);
  pass_walk_body(k, steady, steady_count, at, false);
  pass_finger_advance(k, w);
  ir_close(&s->b, outer);
}

/* The coordinate of the one entry that the level before stands on. */
static bool is_one_position(const lower_walk *k, const lower_walker *w) {
  return pass_walker_level(k, w)->kind == IR_LEVEL_SINGLETON && !pass_walker_cursor(k, w)->end &&
         !pass_walker_cursor(k, w)->present;
}

static void walk_positions(lower_walk *k, lower_walker *w, lower_walker *steady, int steady_count,
                           ir_expr *lo, ir_expr *hi, bool padded, ir_run run) {
  lower_state *s = k->s;
  ir_block *outer, *stored = NULL;
  bool one = run == IR_RUN_SEQUENTIAL && is_one_position(k, w);
  if (one && lo->kind == IR_VAR)
    w->p = lo->var;
  else if (one)
    w->p = ir_let(&s->b, pass_walker_name(k, "p", w), IR_I64, lo);
  else
    w->p = ir_open_for(&s->b, pass_walker_name(k, "p", w), lo, hi, run, &outer);
  ir_expr *crd =
      pass_level_coordinate(s, pass_walker_access(k, w), w->level, pass_code_ref(s, w->p), NULL);
  ir_expr *at = pass_code_let(s, pass_walk_coordinate_name(k), crd);
  pass_walk_ahead(k, w);
  if (padded) ir_open_if(&s->b, pass_code_op(s, IR_OP_GE, at, pass_code_int(s, 0)), &stored);
  pass_walk_body(k, steady, steady_count, at, false);
  if (stored) ir_close(&s->b, stored);
  if (!one) ir_close(&s->b, outer);
}

/* Entries that are listed, then those of a slot in the rest, where the coordinates are the loop's
 * own: each parent has one or the other. */
static void walk_with_rest(lower_walk *k, lower_walker *w, lower_walker *steady, int steady_count) {
  lower_state *s = k->s;
  lower_rest rest;
  ir_block *outer, *stored;
  pass_level_rest(s, pass_walker_access(k, w), pass_walker_cursor(k, w), &rest);
  walk_positions(k, w, steady, steady_count, rest.lo, rest.hi, false, IR_RUN_SEQUENTIAL);
  ir_expr *zero = pass_code_int(s, 0), *end = k->phase == PHASE_REST ? k->hi : rest.extent;
  ir_expr *at = pass_code_ref(s, ir_open_for(&s->b, pass_walk_coordinate_name(k), zero,
                                             pass_code_where(s, rest.flag, end, zero),
                                             IR_RUN_SEQUENTIAL, &outer));
  w->p = ir_let(&s->b, pass_walker_name(k, "p", w), IR_I64, pass_code_add(s, rest.first, at));
  ir_expr *p = pass_code_ref(s, w->p);
  ir_expr *crd = pass_level_coordinate(s, pass_walker_access(k, w), w->level, p, NULL);
  ir_open_if(&s->b, pass_code_op(s, IR_OP_GE, crd, zero), &stored);
  pass_walk_body(k, steady, steady_count, at, false);
  ir_close(&s->b, stored);
  ir_close(&s->b, outer);
}

/* Parts of a run of positions, for threads: a fixed number of them, whatever the data. */
enum { PARTS = 64 };

static void walk_parts(lower_walk *k, lower_walker *w, lower_walker *steady, int steady_count) {
  lower_state *s = k->s;
  ir_expr *lo, *hi, *parts = pass_code_int(s, PARTS);
  ir_block *outer;
  ir_expr *part = pass_code_ref(
      s, ir_open_for(&s->b, "part", pass_code_int(s, 0), parts, IR_RUN_PARALLEL, &outer));
  pass_level_range(s, pass_walker_access(k, w), pass_walker_cursor(k, w), &lo, &hi);
  ir_expr *length = pass_code_sub(s, hi, lo), *after = pass_code_add(s, part, pass_code_int(s, 1));
  ir_expr *first = pass_code_op(s, IR_OP_DIV, pass_code_mul(s, length, part), parts);
  ir_expr *last = pass_code_op(s, IR_OP_DIV, pass_code_mul(s, length, after), parts);
  first = pass_code_let(s, "first", pass_code_add(s, lo, first));
  last = pass_code_let(s, "last", pass_code_add(s, lo, last));
  if (k->nest->part) k->nest->part(k->nest, part, parts, true);
  walk_positions(k, w, steady, steady_count, first, last, pass_walker_is_padded(k, w),
                 IR_RUN_SEQUENTIAL);
  if (k->nest->part) k->nest->part(k->nest, part, parts, false);
  ir_close(&s->b, outer);
}

static bool is_outermost(const lower_walk *k) {
  return pass_env_is_outermost(k->env) && k->phase == PHASE_FIRST;
}

/* Nothing stands above its positions, and the outermost loop may be parallel. */
static bool is_cuttable(const lower_walk *k) {
  return k->count == 1 && k->nest->parallel && is_outermost(k) &&
         !pass_walker_cursor(k, &k->w[0])->pos;
}

static bool on_gpu(const lower_walk *k) {
  const ir_target *target = k->s->context->options->target;
  return target && target->kind == IR_TARGET_CUDA;
}

/* Each position asks whether a run of equal coordinates begins at it: they are all taken at once.
 */
static void walk_heads(lower_walk *k, lower_walker *w, lower_walker *steady, int steady_count) {
  lower_state *s = k->s;
  ir_expr *lo, *hi, *one = pass_code_int(s, 1);
  ir_block *outer, *head;
  const lower_access *access = pass_walker_access(k, w);
  pass_level_range(s, access, pass_walker_cursor(k, w), &lo, &hi);
  w->p = ir_open_for(&s->b, pass_walker_name(k, "p", w), lo, hi, IR_RUN_PARALLEL, &outer);
  ir_expr *p = pass_code_ref(s, w->p), *follows = pass_code_op(s, IR_OP_GT, p, lo);
  ir_expr *at = pass_code_let(s, pass_walk_coordinate_name(k),
                              pass_level_coordinate(s, access, w->level, p, NULL));
  ir_expr *before = pass_level_coordinate(s, access, w->level, pass_code_sub(s, p, one), follows);
  ir_expr *same = pass_code_and(s, follows, pass_code_op(s, IR_OP_EQ, before, at));
  ir_open_if(&s->b, pass_code_op(s, IR_OP_NOT, same, NULL), &head);
  w->end = pass_code_let(s, pass_walker_name(k, "end", w), hi);
  pass_finger_run(k, w, at);
  pass_walk_body(k, steady, steady_count, at, false);
  ir_close(&s->b, head);
  ir_close(&s->b, outer);
}

/* The leaf is met at every entry: each level from here on has an index of the nest that goes through it, and nothing at the leaf goes
 * through the row once more (topk). */
static bool entries_are_points(const lower_walk *k) {
  const lower_access *access = pass_walker_access(k, &k->w[0]);
  if (!pass_is_elementwise(k->nest->root)) return false;
  for (int l = k->w[0].level; l < access->format->level_count; l++) {
    int dim = access->format->level[l].dim;
    bool found = false;
    for (int i = 0; i < k->nest->count; i++) found |= ir_goes_through(access->expr, dim, k->nest->index[i]);
    if (!found) return false;
  }
  return true;
}

/* Threads are many: each takes positions, however many there are. */
static bool can_spread(const lower_walk *k) {
  return on_gpu(k) && is_cuttable(k) && !k->nest->part && !pass_walker_is_padded(k, &k->w[0]);
}

static bool can_cut(const lower_walk *k) {
  return is_cuttable(k) && pass_walker_level(k, &k->w[0])->unique;
}

/* All that is left of the operand is walked by inner loops of this nest, and nothing stands between them: which entries
 * share a coordinate is not asked. */
static bool is_flat(const lower_walk *k, const lower_walker *w) {
  const lower_access *access = pass_walker_access(k, w);
  if (k->nest->spatial || k->factor || pass_walker_cursor(k, w)->end || !pass_is_elementwise(k->nest->root)) return false;
  for (int l = w->level + 1; l < access->format->level_count; l++) {
    const ir_level *level = &access->format->level[l];
    bool inside = false;
    for (int n = k->n + 1; n < k->nest->count; n++) inside |= ir_goes_through(access->expr, level->dim, k->nest->index[n]);
    if (!inside || level->kind != IR_LEVEL_SINGLETON) return false;
  }
  return true;
}

static void walk_one(lower_walk *k, lower_walker *steady, int steady_count) {
  lower_walker *w = &k->w[0];
  ir_expr *lo, *hi;
  bool spread = can_spread(k);
  w->flag = NULL;
  if (!pass_walker_level(k, w)->unique && spread && !entries_are_points(k)) {
    walk_heads(k, w, steady, steady_count);
  } else if (!pass_walker_level(k, w)->unique && !spread && !is_flat(k, w)) {
    pass_finger_start(k, w);
    walk_runs(k, w, steady, steady_count);
  } else if (can_cut(k) && !spread) {
    walk_parts(k, w, steady, steady_count);
  } else if (ir_level_has_rest(pass_walker_level(k, w))) {
    walk_with_rest(k, w, steady, steady_count);
  } else {
    pass_level_range(k->s, pass_walker_access(k, w), pass_walker_cursor(k, w), &lo, &hi);
    walk_positions(k, w, steady, steady_count, lo, hi, pass_walker_is_padded(k, w),
                   spread ? IR_RUN_PARALLEL : IR_RUN_SEQUENTIAL);
  }
}

/* ---- the choice ------------------------------------------------------------------------------ */
static bool any_bitmap(const lower_walk *k) {
  for (int i = 0; i < k->count; i++)
    if (pass_walker_is_bitmap(k, &k->w[i])) return true;
  return false;
}

/* A GPU looks for the entries of each row: those of long rows are shared then. */
static bool threads_take_rows(const lower_walk *k) {
  return on_gpu(k) && k->nest->parallel && k->nest->count == 1 && is_outermost(k) && k->count == 1 &&
         !k->factor && k->nest->driver < 0 && !k->nest->part && !pass_walker_level(k, &k->w[0])->unique;
}

static void walk_phase(lower_walk *k) {
  if (!k->index->offsets) { /* in a segment, operands are located */
    find_walkers(k, k->nest->root);
    if (k->nest->driver >= 0) add_walker(k, k->nest->driver);
    drop_alike(k);
  }
  if (k->phase == PHASE_FIRST) {
    analyse(k);
    choose_factor(k);
    if (k->factor) k->hi = ir_ceil_div(k->s->arena, k->index->extent, k->factor);
  }
  lower_walker steady[MOST_WALKED];
  int steady_count;
  drop_steady(k, steady, &steady_count);
  analyse(k);
  bool skips = k->count && k->skip[0], every = !skips || any_bitmap(k) || threads_take_rows(k);
  bool whole = k->nest->part && is_outermost(k) && !(every ? k->nest->parallel : can_cut(k));
  if (skips && k->nest->spatial && !threads_take_rows(k)) k->s->skipped = true;
  ir_expr *number = pass_code_int(k->s, 0), *count = pass_code_int(k->s, 1);
  if (whole) k->nest->part(k->nest, number, count, true);
  if (every)
    walk_every(k, steady, steady_count);
  else if (k->count == 1)
    walk_one(k, steady, steady_count);
  else
    pass_walk_several(k, steady, steady_count);
  if (whole) k->nest->part(k->nest, number, count, false);
}

void pass_walk(lower_nest *nest, lower_env *env, int n, ir_expr *lo, ir_expr *hi) {
  lower_walk k = {.nest = nest,
                  .s = nest->s,
                  .env = env,
                  .n = n,
                  .index = nest->index[n],
                  .phase = PHASE_FIRST,
                  .lo = lo,
                  .hi = hi};
  walk_phase(&k);
}
