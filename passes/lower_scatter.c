/* lower_scatter.c - combining stores: scatters, and reductions whose operands are walked in an
 * order that puts a reduction outside an index of the left side.
 *
 *     y[j] = sum[i] A[i,j]*x[i], A csr     y = 0;  for i { for p in pos[i] .. pos[i+1] { y[crd[p]]
 * += .. } }
 *
 * The sums are kept in the accumulator's dtype: in the output itself where it has that dtype and
 * nothing follows, else in a workspace that a last function rounds, or puts through the epilogue.
 */
#include "passes/expr.h"
#include "passes/lower.h"

/* ---- which reductions ------------------------------------------------------------------------ */
static const ir_expr *only_reduction(const ir_expr *e) {
  if (e->kind == IR_REDUCE) return e;
  if (e->kind == IR_SOFTMAX || e->kind == IR_TOPK) return NULL;
  for (int i = 0; i < e->arg_count; i++) {
    const ir_expr *found = only_reduction(e->args[i]);
    if (found) return found;
  }
  return NULL;
}

static bool is_free(const ir_stmt *stmt, const ir_index *index) {
  for (int i = 0; i < stmt->free.count; i++)
    if (stmt->free.at[i] == index) return true;
  return false;
}

static bool is_segment(const ir_stmt *stmt, const ir_index *index) {
  for (int i = 0; i < stmt->free.count; i++)
    if (stmt->free.at[i]->segment == index) return true;
  return false;
}

static bool reduction_comes_first(const lower_state *s, const lower_loops *order) {
  bool met = false;
  for (int i = 0; i < order->count; i++) {
    bool spatial = is_free(s->stmt, order->index[i]);
    if (met && spatial) return true;
    met = met || !(spatial || is_segment(s->stmt, order->index[i]));
  }
  return false;
}

/* Indices of the left side that no sparse operand walks go inside: they are the vectors. */
static void dense_innermost(const lower_state *s, lower_loops *order) {
  lower_loops again = {0};
  for (int inside = 0; inside < 2; inside++)
    for (int i = 0; i < order->count; i++)
      if ((is_free(s->stmt, order->index[i]) && !order->walked[i]) == inside)
        pass_loops_index(&again, order->index[i]);
  pass_loops_lists(&again, s->stage);
  for (int i = 0; i < s->accesses.count; i++) pass_loops_access(&again, &s->accesses.at[i]);
  pass_loops_sort(&again);
  *order = again;
}

/* Rows in no segment are 0 (rule 8): sums may begin there as everywhere, what begins at an infinity
 * may not. */
static bool leaves_rows(const lower_state *s, const ir_expr *hole) {
  bool ragged = false;
  for (int i = 0; i < s->stmt->free.count; i++) ragged |= s->stmt->free.at[i]->segment != NULL;
  return ragged && pass_reduce_zero(hole->reducer, hole->dtype) != 0;
}

bool pass_scatter_order(lower_state *s, const ir_expr **hole, lower_loops *order) {
  pass_lower_open(s, order);
  *hole = only_reduction(s->stmt->value);
  if (!*hole || (*hole)->reducer == IR_RED_ARGMAX || pass_count_heavy(s->stmt->value) != 1)
    return false;
  if (leaves_rows(s, *hole)) return false;
  for (int i = 0; i < (*hole)->bound_count; i++)
    if (is_free(s->stmt, (*hole)->bound[i])) return false;
  for (int i = 0; i < (*hole)->bound_count; i++) pass_loops_index(order, (*hole)->bound[i]);
  pass_loops_lists(order, s->stage);
  for (int i = 0; i < s->accesses.count; i++) pass_loops_access(order, &s->accesses.at[i]);
  pass_loops_sort(order);
  if (!reduction_comes_first(s, order)) return false;
  dense_innermost(s, order);
  return true;
}

/* ---- where the sums are kept ----------------------------------------------------------------- */
/* A tensor of this pass alone: the target's shape, dense, in the accumulator's dtype. */
static void keep_sums_apart(lower_state *s, ir_dtype dtype) {
  const ir_tensor *target = s->stmt->target;
  ir_tensor *sums = IR_NEW(s->arena, ir_tensor);
  *sums = *target;
  sums->name = ir_format_text(s->arena, "%s.acc", target->name);
  sums->role = IR_ROLE_TEMP;
  sums->dtype = dtype;
  sums->like = NULL;
  sums->view_of = NULL;
  memset(sums->pitch, 0, sizeof sums->pitch);
  sums->fill = 0;
  sums->format = ir_format_builtin(s->arena, "dense", target->rank, NULL, 0, NULL);
  ir_expr *count = pass_code_int(s, 1);
  for (int d = 0; d < target->rank; d++) count = pass_code_mul(s, count, target->dim[d]);
  s->sums = sums;
  s->sums_buf = pass_code_workspace(s, sums->name, dtype, count);
}

static bool is_dense(const ir_format *format) {
  for (int l = 0; l < format->level_count; l++)
    if (format->level[l].kind != IR_LEVEL_DENSE) return false;
  return true;
}

/* The sums can be made in the output itself, which is filled as a whole: padding is not ours to
 * write. */
static bool is_direct(lower_state *s, bool plain, ir_dtype dtype) {
  const ir_tensor *target = s->stmt->target;
  return plain && target->dtype == dtype && !target->pitch[0] &&
         is_dense(pass_level_format(s, target));
}

static void open_sums(lower_state *s, bool plain, ir_dtype dtype, ir_reducer reducer,
                      ir_dtype result) {
  s->sums = NULL;
  if (!is_direct(s, plain, dtype)) keep_sums_apart(s, dtype);
  ir_tensor *where = s->sums ? s->sums : s->stmt->target;
  lower_access target = {.expr = ir_access(s->arena, where, s->stmt->subs),
                         .target = true,
                         .format = pass_level_format(s, where)};
  IR_PUSH(s->arena, &s->accesses, target);
  s->target = s->accesses.count - 1;
  pass_code_fill(s, "init", pass_code_buffer(s, where, IR_BUF_VALS, 0), pass_level_stored(s, where),
                 pass_code_cast(s, dtype, pass_reduce_identity(s, reducer, result)));
}

/* ---- the combining loops --------------------------------------------------------------------- */
typedef struct combining {
  const ir_expr *value;
  ir_reducer reducer;
  ir_dtype dtype;
  bool atomic;
} combining;

static void combine_leaf(lower_nest *nest, lower_env *env) {
  lower_state *s = nest->s;
  const combining *c = nest->user;
  pass_level_finish(s, env, s->target);
  const lower_cursor *at = &env->cursor[s->target];
  ir_expr *condition =
      s->stmt->cond && ir_is_scatter(s->stmt) ? pass_value_condition(s, env, s->stmt->cond) : NULL;
  condition =
      pass_code_and(s, condition, at->present); /* present: what the loops have not asked yet */
  ir_block *outer = NULL;
  if (condition) ir_open_if(&s->b, condition, &outer);
  lower_env *inner = condition ? pass_env_copy(s, env) : env;
  ir_expr *value = pass_code_cast(s, c->dtype, pass_value(s, inner, c->value));
  ir_buf *buf = pass_code_buffer(s, s->accesses.at[s->target].expr->tensor, IR_BUF_VALS, 0);
  ir_code *store = pass_code_store(s, buf, at->pos ? at->pos : pass_code_int(s, 0), value);
  store->combine = ir_reducer_rows[c->reducer].combine;
  store->atomic = c->atomic;
  if (condition) ir_close(&s->b, outer);
}

/* ---- parts for threads ----------------------------------------------------------------------- */
static bool heavy_without(const ir_expr *e, const ir_index *index) {
  if (pass_is_heavy(e)) return !ir_expr_uses_index(e, index);
  for (int i = 0; i < e->arg_count; i++)
    if (heavy_without(e->args[i], index)) return true;
  return false;
}

/* A bare index of the left side that nothing else on it depends on: its parts can run in parallel,
 * each adding in the same order as a sequential run. */
static const ir_index *independent_index(lower_state *s, const lower_loops *order,
                                         const ir_expr *value) {
  const ir_stmt *stmt = s->stmt;
  for (int d = stmt->target->rank - 1; d >= 0; d--) {
    if (stmt->subs[d]->kind != IR_INDEX) continue;
    const ir_index *index = stmt->subs[d]->index;
    bool alone = !index->offsets && !heavy_without(value, index);
    for (int e = 0; e < stmt->target->rank; e++)
      if (e != d && ir_expr_uses_index(stmt->subs[e], index)) alone = false;
    for (int i = 0; i < order->count; i++) {
      if (order->index[i]->segment == index) alone = false;
      if (order->index[i] == index && order->walked[i]) alone = false;
    }
    if (alone && !s->stage->reads.count) return index;
  }
  return NULL;
}

enum { PART = 64 };

/* A core takes consecutive ones; of a GPU each thread takes one, and a warp a line. */
static void open_parts(lower_state *s, const ir_index *index, ir_block **outer) {
  const ir_target *target = s->context->options->target;
  int64_t each = target && target->kind == IR_TARGET_CUDA ? 1 : PART;
  ir_expr *parts = ir_ceil_div(s->arena, index->extent, each);
  ir_var *part = ir_open_for(&s->b, ir_format_text(s->arena, "part_%s", index->name),
                             pass_code_int(s, 0), parts, IR_RUN_PARALLEL, outer);
  s->part_index = index;
  s->part_lo = pass_code_mul(s, pass_code_ref(s, part), pass_code_int(s, each));
  s->part_hi = pass_code_op(s, IR_OP_MIN, pass_code_add(s, s->part_lo, pass_code_int(s, each)),
                            index->extent);
}

static void walk_in_parts(lower_state *s, lower_nest *nest, const ir_index *part) {
  ir_block *outer;
  if (part) open_parts(s, part, &outer);
  pass_nest(nest, pass_env_new(s));
  if (part) ir_close(&s->b, outer);
  s->part_index = NULL;
}

/* value is now read from the sums, with what the statement does around them. */
static void finish(lower_state *s, ir_expr *value, ir_expr *condition) {
  ir_stmt *stmt = s->stmt, *last = IR_NEW(s->arena, ir_stmt);
  *last = *stmt;
  last->value = value;
  last->cond = condition;
  last->combine = IR_RED_COUNT;
  s->stmt = last;
  pass_lower_gather(s);
  s->stmt = stmt;
}

void pass_scatter_reduction(lower_state *s, const ir_expr *hole, lower_loops *order) {
  const ir_stmt *stmt = s->stmt;
  combining c = {hole->args[0], hole->reducer, pass_value_dtype(s, hole->dtype), false};
  open_sums(s, stmt->value == hole && !stmt->cond, c.dtype, c.reducer, hole->dtype);
  const ir_index *part =
      is_free(stmt, order->index[0]) ? NULL : independent_index(s, order, hole->args[0]);
  pass_code_function(s, NULL);
  lower_nest nest = {.s = s,
                     .root = hole->args[0],
                     .driver = -1,
                     .index = order->index,
                     .count = order->count,
                     .parallel = is_free(stmt, order->index[0]),
                     .skips = true,
                     .skip = pass_reduce_zero(hole->reducer, hole->args[0]->dtype),
                     .leaf = combine_leaf,
                     .user = &c,
                     .target = s->target};
  walk_in_parts(s, &nest, part);
  if (!s->sums) return;
  ir_expr *total = ir_access(s->arena, s->sums, s->stmt->subs);
  finish(s, pass_replace_node(s->arena, stmt->value, hole, total), stmt->cond);
}

/* ---- scatters -------------------------------------------------------------------------------- */
static void last_of_all(lower_loops *order, const ir_index *index) {
  for (int i = 0; i < order->count; i++)
    if (order->index[i] != index) pass_loops_edge(order, order->index[i], index);
  pass_loops_sort(order);
}

void pass_lower_scatter(lower_state *s) {
  ir_stmt *stmt = s->stmt;
  lower_loops order = {0};
  pass_lower_open(s, &order);
  for (int i = 0; i < s->accesses.count; i++) pass_loops_access(&order, &s->accesses.at[i]);
  pass_loops_sort(&order);
  combining c = {stmt->value, stmt->combine, pass_value_dtype(s, stmt->target->dtype), false};
  open_sums(s, true, c.dtype, c.reducer, stmt->target->dtype);
  c.atomic =
      stmt->race == IR_RACE_ATOMIC && c.reducer == IR_RED_SUM && ir_dtype_rows[c.dtype].bits >= 32;
  const ir_index *part = c.atomic ? NULL : independent_index(s, &order, stmt->value);
  if (part) last_of_all(&order, part);
  pass_code_function(s, NULL);
  lower_nest nest = {.s = s,
                     .root = pass_lower_root(s),
                     .driver = -1,
                     .index = order.index,
                     .count = order.count,
                     .parallel = c.atomic,
                     .skips = true,
                     .spatial = !part,
                     .skip = pass_reduce_zero(stmt->combine, stmt->target->dtype),
                     .leaf = combine_leaf,
                     .user = &c,
                     .target = s->target};
  walk_in_parts(s, &nest, part);
  if (!s->sums) return;
  /* Every element of the output, by indices of its own. */
  ir_expr *subs[IR_MAX_RANK];
  ir_stmt *copy = IR_NEW(s->arena, ir_stmt);
  *copy = (ir_stmt){.target = stmt->target, .combine = IR_RED_COUNT, .acc = stmt->acc};
  for (int d = 0; d < stmt->target->rank; d++) {
    ir_index *index = IR_NEW(s->arena, ir_index);
    *index = (ir_index){.name = ir_format_text(s->arena, "i%d", d), .extent = stmt->target->dim[d]};
    IR_PUSH(s->arena, &copy->free, index);
    copy->subs[d] = subs[d] = ir_index_ref(s->arena, index);
  }
  copy->value = ir_access(s->arena, s->sums, subs);
  s->stmt = copy;
  pass_lower_gather(s);
  s->stmt = stmt;
}
