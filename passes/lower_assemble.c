/* lower_assemble.c - sparse outputs whose pattern is computed, level by level: the same loops
 * twice, in the order in which the result is stored.  The first time they count what each level
 * will hold, for every part of the outermost loop; the plan adds the counts up and gives the levels
 * their memory; the second time each part writes its coordinates, bounds and values from its own
 * start on.
 *
 *     C = A + B as csr     count:  for i parallel { n = 0;  merge over j { n = n + 1 }
 *                                    C.counts[i] = n }
 *                          fill:   for i parallel { n = C.counts[i]
 *                                    merge over j { C.crd1[n] = j;  C.vals[n] = ..;  n = n + 1 }
 *                                    C.pos1[i + 1] = n }
 *
 * Where the operands tell how much a row can hold at most, nothing is counted: `C.room` has that
 * instead of `C.counts`, and the plan closes the gaps between the rows (lower_room.c).
 *
 * An entry is written where the statement stores one (`stores`: stored(A[i,j]) or stored(B[i,j])),
 * whatever its value.  A level of lists that has further levels below it writes a coordinate once
 * something was written below it.  A reduction that has to run outside the last index of the result
 * is summed in a workspace, a row at a time (lower_workspace.c: Gustavson's way of multiplying
 * sparse matrices). */
#include "passes/expr.h"
#include "passes/lower.h"
#include "passes/storage.h"
#include "passes/stores.h"

typedef struct assembly {
  lower_state *s;
  const ir_format *format;
  const ir_expr *value;     /* of an entry */
  ir_expr *stores;          /* where there is one; NULL: everywhere */
  ir_expr *rest;            /* in_row: where a place that was taken is one; NULL: everywhere */
  ir_buf *counts;           /* [lists][parts]; after the plan's sum: where the part starts */
  ir_var *n[IR_MAX_LEVELS]; /* by the first level of a list: positions so far */
  bool fills, in_row;       /* in_row: the last level is written by a row of sums */
  bool roomy;               /* rows get room for what they can hold, and are not counted */
  lower_row row;
} assembly;

/* The loops over one level of the result. */
typedef struct level_loops {
  assembly *a;
  int level;
} level_loops;

static void open_level(assembly *a, lower_env *env, int level);

/* ---- lists of the result ----------------------------------------------------------------------
 */
static bool is_list(const assembly *a, int level) {
  return level < a->format->level_count && a->format->level[level].kind == IR_LEVEL_COMPRESSED;
}

static int list_of(const assembly *a, int level) {
  while (a->format->level[level].kind == IR_LEVEL_SINGLETON) level--;
  return level;
}

static int list_number(const assembly *a, int level) {
  int number = 0;
  for (int l = 0; l < level; l++) number += is_list(a, l);
  return number;
}

static ir_index *index_of(const assembly *a, int level) {
  return a->s->stmt->subs[a->format->level[level].dim]->index;
}

static ir_buf *array_of(assembly *a, ir_buf_kind kind, int level) {
  return pass_code_buffer(a->s, a->s->stmt->target, kind, level);
}

static ir_expr *position(assembly *a, int list) { return pass_code_ref(a->s, a->n[list]); }

/* The coordinates of one more entry of a list, and of the singletons behind it. */
static void put_coordinates(assembly *a, lower_env *env, int list) {
  int end = ir_format_chain_end(a->format, list);
  for (int l = list; l <= end; l++)
    pass_code_store(a->s, array_of(a, IR_BUF_CRD, l), position(a, list),
                    pass_env_find(env, index_of(a, l))->value);
}

static void count_up(assembly *a, int list) {
  ir_set(&a->s->b, a->n[list], pass_code_add(a->s, position(a, list), pass_code_int(a->s, 1)));
}

/* The children of parent position `parent` end here. */
static void put_end(assembly *a, int list, ir_expr *parent) {
  ir_expr *after = pass_code_add(a->s, parent, pass_code_int(a->s, 1));
  pass_code_store(a->s, array_of(a, IR_BUF_POS, list), after, position(a, list));
}

/* ---- parts ------------------------------------------------------------------------------------
 */
static void begin_part(assembly *a, ir_expr *number, ir_expr *parts) {
  lower_state *s = a->s;
  int lists = list_number(a, a->format->level_count);
  ir_expr *room = pass_code_mul(s, parts, pass_code_int(s, a->roomy ? 2 : lists));
  const char *name = s->stmt->target->name, *what = a->roomy ? "room" : "counts";
  a->counts = pass_code_workspace(s, ir_format_text(s->arena, "%s.%s", name, what), IR_I64, room);
  a->counts->tensor = s->stmt->target;
  for (int l = 0; l < a->format->level_count; l++) {
    if (!is_list(a, l)) continue;
    ir_expr *at =
        pass_code_add(s, pass_code_mul(s, parts, pass_code_int(s, list_number(a, l))), number);
    ir_expr *start = a->fills ? pass_code_load(s, a->counts, at, NULL) : pass_code_int(s, 0);
    a->n[l] = ir_let(&s->b, ir_format_text(s->arena, "n%d", l), IR_I64, start);
  }
}

/* Rows that were not counted: where the part starts, then where it ended. */
static void end_part(assembly *a, ir_expr *number, ir_expr *parts) {
  lower_state *s = a->s;
  for (int l = 0; (a->roomy || !a->fills) && l < a->format->level_count; l++) {
    if (!is_list(a, l)) continue;
    ir_expr *before =
        a->fills ? parts : pass_code_mul(s, parts, pass_code_int(s, list_number(a, l)));
    pass_code_store(s, a->counts, pass_code_add(s, before, number), position(a, l));
  }
}

static void part(lower_nest *nest, ir_expr *number, ir_expr *count, bool begins) {
  assembly *a = ((level_loops *)nest->user)->a;
  if (begins)
    begin_part(a, number, count);
  else
    end_part(a, number, count);
}

/* ---- entries ----------------------------------------------------------------------------------
 */
static void put_entry(assembly *a, lower_env *env) {
  int list = list_of(a, a->format->level_count - 1);
  if (a->fills) {
    ir_expr *value = pass_value(a->s, env, a->value);
    put_coordinates(a, env, list);
    pass_code_store(a->s, array_of(a, IR_BUF_VALS, 0), position(a, list), value);
  }
  count_up(a, list);
}

static void entry(void *user, lower_env *env) {
  assembly *a = user;
  lower_state *s = a->s;
  const ir_expr *stores = a->in_row ? a->rest : a->stores;
  ir_expr *here = stores ? pass_value_condition(s, env, stores) : NULL;
  if (here && env->holds && ir_expr_equal(here, env->holds)) here = NULL;
  ir_block *outer = NULL;
  if (here) ir_open_if(&s->b, here, &outer);
  put_entry(a, here ? pass_env_copy(s, env) : env);
  if (here) ir_close(&s->b, outer);
}

/* ---- rows that are summed ---------------------------------------------------------------------
 */
static void sum_row(assembly *a, lower_env *env) {
  a->row.values = a->fills || a->rest;
  a->row.counter = a->row.values ? NULL : a->n[list_of(a, a->format->level_count - 1)];
  pass_row_accumulate(a->s, env, &a->row);
  pass_row_flush(a->s, env, &a->row, a->row.counter ? NULL : entry, a);
}

/* ---- levels -----------------------------------------------------------------------------------
 */
static ir_expr *dense_position(assembly *a, lower_env *env, int level) {
  lower_state *s = a->s;
  ir_expr *at = pass_code_int(s, 0);
  for (int l = 0; l <= level; l++) {
    ir_expr *extent = s->stmt->target->dim[a->format->level[l].dim];
    ir_expr *here = pass_env_find(env, index_of(a, l))->value;
    at = l ? pass_code_add(s, pass_code_mul(s, at, extent), here) : here;
  }
  return at;
}

/* The body of the loop over the index of one level. */
static void level_leaf(lower_nest *nest, lower_env *env) {
  const level_loops *loops = nest->user;
  assembly *a = loops->a;
  lower_state *s = a->s;
  int level = loops->level, below = level + 1;
  if (!is_list(a, below)) { /* singletons, dense levels, the values */
    open_level(a, env, below);
    return;
  }
  if (a->format->level[level].kind == IR_LEVEL_DENSE) {
    open_level(a, env, below);
    if (a->fills) put_end(a, below, dense_position(a, env, level));
    return;
  }
  int list = list_of(a, level);
  ir_block *outer;
  ir_expr *first = pass_code_let(s, "first", position(a, below));
  open_level(a, pass_env_copy(s, env), below);
  ir_open_if(&s->b, pass_code_op(s, IR_OP_GT, position(a, below), first), &outer);
  if (a->fills) {
    put_coordinates(a, env, list);
    put_end(a, below, position(a, list));
  }
  count_up(a, list);
  ir_close(&s->b, outer);
}

/* Counting asks where entries are, filling what they are worth there.  The parts of the outermost
 * loop are the same in both. */
static const ir_expr *root_of(assembly *a, int level) {
  ir_expr *value = (ir_expr *)a->value, *zero = pass_value_const(a->s, value->dtype, 0);
  if (!a->fills && level) return a->stores ? a->stores : pass_code_bool(a->s, true);
  return a->stores ? ir_apply3(a->s->arena, IR_OP_WHERE, a->stores, value, zero) : value;
}

static void make_room(assembly *a, lower_env *env) {
  lower_state *s = a->s;
  int last = a->format->level_count - 1;
  ir_expr *room = pass_room(s, env, a->stores, index_of(a, last));
  ir_set(&s->b, a->n[last], pass_code_add(s, position(a, last), room));
}

static void open_level(assembly *a, lower_env *env, int level) {
  lower_state *s = a->s;
  if (a->roomy && !a->fills && level == a->format->level_count - 1) {
    make_room(a, env);
    return;
  }
  if (a->in_row && level == a->format->level_count - 1) {
    sum_row(a, env);
    return;
  }
  if (level == a->format->level_count) {
    entry(a, env);
    return;
  }
  ir_index *index[2], *own = index_of(a, level);
  int count = 0;
  if (own->segment && !pass_env_find(env, own->segment)) index[count++] = own->segment;
  index[count++] = own;
  level_loops loops = {a, level};
  lower_nest nest = {.s = s,
                     .root = root_of(a, level),
                     .only = a->stores,
                     .driver = -1,
                     .target = -1,
                     .index = index,
                     .count = count,
                     .skips = a->stores != NULL,
                     .spatial = true,
                     .parallel = level == 0,
                     .shallow =
                         level + 1 == a->format->level_count && pass_is_elementwise(a->value),
                     .part = level == 0 ? part : NULL,
                     .leaf = level_leaf,
                     .user = &loops};
  if (level)
    pass_nest_from(&nest, env, 0);
  else
    pass_nest(&nest, env);
}

/* ---- the whole --------------------------------------------------------------------------------
 */
/* The order of loops: as the result is stored, then as the operands ask. */
static void order_loops(assembly *a, lower_loops *order) {
  lower_state *s = a->s;
  int last = a->format->level_count - 1;
  const ir_expr *hole = a->row.hole;
  pass_lower_open(s, order);
  if (a->stores) pass_access_collect(s, a->stores);
  for (int i = 0; hole && i < hole->bound_count; i++) pass_loops_index(order, hole->bound[i]);
  for (int l = 0; l < last; l++)
    for (int i = 0; i < order->count; i++) {
      bool later = order->index[i] != index_of(a, l)->segment;
      for (int k = 0; k < l; k++)
        later = later && order->index[i] != index_of(a, k) &&
                order->index[i] != index_of(a, k)->segment;
      if (later) pass_loops_edge(order, index_of(a, l), order->index[i]);
    }
  for (int i = 0; i < s->accesses.count; i++) pass_loops_access(order, &s->accesses.at[i]);
  pass_loops_rows(order, a->value);
  if (a->stores) pass_loops_rows(order, a->stores);
  pass_loops_sort(order);
}

/* The loops of the levels before the last one, with their segments. */
static bool is_outside_row(const assembly *a, const ir_index *index) {
  for (int l = 0; l + 1 < a->format->level_count; l++)
    if (index == index_of(a, l) || index == index_of(a, l)->segment) return true;
  return false;
}

static bool is_summed(const assembly *a, const ir_index *index) {
  for (int k = 0; k < a->row.hole->bound_count; k++) {
    const ir_index *bound = a->row.hole->bound[k];
    if (index == bound || index == bound->segment) return true;
  }
  return false;
}

/* Where a reduction comes before the last index, all that is inside the other levels is a row. */
static void find_row(assembly *a, lower_loops *order) {
  const ir_index *last = index_of(a, a->format->level_count - 1);
  for (int i = 0; a->row.hole && i < order->count && order->index[i] != last; i++)
    if (is_summed(a, order->index[i]) && order->index[i] != last->segment &&
        !is_outside_row(a, order->index[i]))
      a->in_row = true;
  if (!a->in_row) return;
  a->row.last = last;
  a->row.index = IR_NEW_ARRAY(a->s->arena, ir_index *, order->count);
  for (int i = 0; i < order->count; i++)
    if (!is_outside_row(a, order->index[i])) a->row.index[a->row.index_count++] = order->index[i];
}

/* A row is counted where the last index is open already: its segments are the loop outside. */
static bool rows_have_room(assembly *a) {
  int last = a->format->level_count - 1;
  for (int l = 0; l < last; l++)
    if (a->format->level[l].kind != IR_LEVEL_DENSE || index_of(a, l)->segment == index_of(a, last))
      return false;
  return last > 0 && !a->in_row && is_list(a, last) &&
         pass_room_is_told(a->s, a->stores, index_of(a, last));
}

static void one_pass(assembly *a, bool fills) {
  pass_code_function(a->s, fills ? "fill" : "count");
  a->fills = fills;
  bool one_row = a->in_row && a->format->level_count == 1;
  ir_expr *zero = pass_code_int(a->s, 0), *one = pass_code_int(a->s, 1);
  if (one_row) begin_part(a, zero, one);
  open_level(a, pass_env_new(a->s), 0);
  if (one_row) end_part(a, zero, one);
}

void pass_lower_assembled(lower_state *s) {
  assembly a = {.s = s,
                .format = pass_level_format(s, s->stmt->target),
                .value = s->stmt->value,
                .stores = ir_stores_of_stmt(s->arena, s->stmt)};
  lower_loops order = {0};
  pass_row_sum row;
  if (pass_row_sum_of(s->arena, s->stmt, &row)) {
    a.row.hole = row.reduce;
    a.row.points = row.points;
    a.rest = row.rest;
  }
  order_loops(&a, &order);
  find_row(&a, &order);
  s->memo_room += a.stores ? pass_heavy_nodes(a.stores) : 0;
  if (a.in_row) pass_row_open(s, &a.row);
  a.roomy = rows_have_room(&a);
  one_pass(&a, false);
  one_pass(&a, true);
}
