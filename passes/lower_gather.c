/* lower_gather.c - outputs that are written where they lie: dense ones, and those that share the
 * pattern of another tensor.  Each element of the left side is computed whole, reductions
 * innermost, and stored once; what the loops leave out is filled before.
 *
 *     y[i] = relu(sum[k] A[i,k]*x[k])     for i parallel { acc = 0; for k { .. }  y[i] = relu(acc)
 * }   */
#include "passes/contract.h"
#include "passes/expr.h"
#include "passes/lower.h"

ir_expr *pass_lower_root(lower_state *s) {
  const ir_stmt *stmt = s->stmt;
  if (!stmt->cond) return stmt->value;
  ir_dtype t = stmt->value->dtype;
  double fill = stmt->fill;
  if (ir_is_scatter(stmt)) fill = pass_reduce_zero(stmt->combine, stmt->target->dtype);
  return ir_apply3(s->arena, IR_OP_WHERE, stmt->cond, stmt->value, pass_value_const(s, t, fill));
}

static bool is_like(const lower_state *s) { return s->stmt->target->like != NULL; }

/* An operand whose level arrays are the target's own, read at the same place: its walk is the
 * target's. */
static int walked_with(const lower_state *s) {
  const ir_stmt *stmt = s->stmt;
  for (int i = 0; is_like(s) && i < s->accesses.count; i++) {
    const ir_expr *e = s->accesses.at[i].expr;
    bool same = ir_tensor_owner(e->tensor) == ir_tensor_owner(stmt->target) && !s->accesses.at[i].buf;
    for (int d = 0; same && d < e->arg_count; d++) same = ir_expr_equal(e->args[d], stmt->subs[d]);
    if (same) return i;
  }
  return -1;
}

static void add_target(lower_state *s) {
  s->target = walked_with(s);
  if (s->target >= 0) return;
  lower_access target = {.expr = ir_access(s->arena, s->stmt->target, s->stmt->subs),
                         .target = true,
                         .format = pass_level_format(s, s->stmt->target)};
  IR_PUSH(s->arena, &s->accesses, target);
  s->target = s->accesses.count - 1;
}

/* The left side's indices in the order in which the target is stored, the others behind. */
static void add_indices(lower_state *s, lower_loops *order) {
  const ir_stmt *stmt = s->stmt;
  const ir_format *format = pass_level_format(s, stmt->target);
  for (int l = 0; !ir_is_scatter(stmt) && l < format->level_count; l++) {
    const ir_expr *sub = stmt->subs[format->level[l].dim];
    if (sub->kind == IR_INDEX) pass_loops_index(order, sub->index);
  }
  for (int i = 0; i < stmt->free.count; i++) pass_loops_index(order, stmt->free.at[i]);
}

int pass_heavy_nodes(const ir_expr *e) {
  int count = e && pass_is_heavy(e);
  for (int i = 0; e && i < e->arg_count; i++) count += pass_heavy_nodes(e->args[i]);
  return count;
}

void pass_lower_open(lower_state *s, lower_loops *order) {
  s->accesses.count = 0;
  s->target = -1;
  s->memo_room = pass_heavy_nodes(s->stmt->value) + pass_heavy_nodes(s->stmt->cond);
  add_indices(s, order);
  if (s->stmt->cond) pass_access_collect(s, s->stmt->cond);
  pass_access_collect(s, s->stmt->value);
  for (int d = 0; d < s->stmt->target->rank; d++) pass_access_collect(s, s->stmt->subs[d]);
  pass_loops_lists(order, s->stage);
}

/* ---- the leaf -------------------------------------------------------------------------------- */
static void store_value(lower_state *s, lower_env *env, const ir_expr *value) {
  const lower_cursor *c = &env->cursor[s->target];
  ir_block *outer = NULL;
  if (c->present) ir_open_if(&s->b, c->present, &outer);
  ir_buf *buf = pass_code_buffer(s, s->stmt->target, IR_BUF_VALS, 0);
  pass_code_store(s, buf, c->pos ? c->pos : pass_code_int(s, 0), pass_value(s, env, value));
  if (c->present) ir_close(&s->b, outer);
}

/* Sums of every element, then the choice: loops that nothing interrupts can be tiles. */
static void whole_leaf(lower_state *s, lower_env *env) {
  const ir_stmt *stmt = s->stmt;
  ir_expr *value = pass_value(s, env, stmt->value);
  ir_expr *fill = pass_value_const(s, value->dtype, stmt->fill);
  ir_expr *condition = pass_value_condition(s, env, stmt->cond);
  const lower_cursor *c = &env->cursor[s->target];
  pass_code_store(s, pass_code_buffer(s, stmt->target, IR_BUF_VALS, 0),
                  c->pos ? c->pos : pass_code_int(s, 0),
                  pass_code_where(s, condition, value, fill));
}

static void gather_leaf(lower_nest *nest, lower_env *env) {
  lower_state *s = nest->s;
  pass_level_finish(s, env, s->target);
  if (s->stage->whole && s->stmt->cond && !env->cursor[s->target].present) {
    whole_leaf(s, env);
    return;
  }
  ir_expr *condition = s->stmt->cond ? pass_value_condition(s, env, s->stmt->cond) : NULL;
  if (!condition) {
    store_value(s, env, s->stmt->value);
    return;
  }
  ir_block *outer;
  ir_code *test = ir_open_if(&s->b, condition, &outer);
  store_value(s, pass_env_copy(s, env), s->stmt->value);
  ir_open_else(&s->b, test);
  store_value(s, pass_env_copy(s, env), pass_value_const(s, s->stmt->value->dtype, s->stmt->fill));
  ir_close(&s->b, outer);
}

/* ---- what the loops leave out ---------------------------------------------------------------- */
/* Some stored positions stand for no element: edges of blocks, padding. */
static bool has_padding(const ir_format *format) {
  for (int l = 0; l < format->level_count; l++)
    if (format->level[l].map != IR_MAP_WHOLE || format->level[l].kind == IR_LEVEL_PACKED)
      return true;
  return false;
}

/* Every element of a tensor with padding. */
static void fill_padded(lower_state *s, const ir_tensor *target, ir_expr *constant, ir_run run) {
  const ir_format *format = pass_level_format(s, target);
  ir_block *outer[IR_MAX_RANK];
  ir_expr *at = pass_code_int(s, 0);
  for (int l = 0; l < target->rank; l++) {
    ir_expr *extent = target->dim[format->level[l].dim];
    ir_var *n = ir_open_for(&s->b, "n", pass_code_int(s, 0), extent, l ? IR_RUN_SEQUENTIAL : run, &outer[l]);
    ir_expr *here = pass_code_ref(s, n);
    if (l + 1 < target->rank) here = pass_code_mul(s, here, target->pitch[l]);
    at = pass_code_add(s, at, here);
  }
  pass_code_store(s, pass_code_buffer(s, target, IR_BUF_VALS, 0), at, constant);
  for (int l = target->rank - 1; l >= 0; l--) ir_close(&s->b, outer[l]);
}

/* Every stored position. */
static void fill_places(lower_state *s, const ir_tensor *target, double value) {
  ir_expr *zero = pass_code_int(s, 0), *constant = pass_value_const(s, target->dtype, value);
  ir_buf *buf = pass_code_buffer(s, target, IR_BUF_VALS, 0);
  const ir_target *machine = s->context->options->target;
  bool gpu = machine && machine->kind == IR_TARGET_CUDA; /* a CPU's parts come from sizes alone */
  ir_run run = is_like(s) && !gpu ? IR_RUN_SEQUENTIAL : IR_RUN_PARALLEL;
  if (target->pitch[0]) {
    fill_padded(s, target, constant, run);
    return;
  }
  ir_block *outer;
  ir_var *n = ir_open_for(&s->b, "n", zero, pass_level_stored(s, target), run, &outer);
  pass_code_store(s, buf, pass_code_ref(s, n), constant);
  ir_close(&s->b, outer);
}

static void fill_first(lower_state *s, int first_func, double value) {
  const ir_tensor *target = s->stmt->target;
  ir_builder saved = s->b;
  ir_func *func = pass_code_function(s, "fill");
  fill_places(s, target, value);
  s->b = saved;
  for (int i = s->stage->funcs.count - 1; i > first_func; i--)
    s->stage->funcs.at[i] = s->stage->funcs.at[i - 1];
  s->stage->funcs.at[first_func] = func;
}

/* The loop whose every iteration writes one row of the result, and does nothing else. */
static ir_code *loop_of_rows(lower_state *s, const lower_loops *order) {
  const ir_tensor *target = s->stmt->target;
  const ir_target *machine = s->context->options->target;
  const ir_format *format = pass_level_format(s, target);
  if (!machine || machine->kind != IR_TARGET_CPU || target->rank < 2 || target->pitch[0] ||
      is_like(s) || has_padding(format) || order->count < 1)
    return NULL;
  const ir_expr *row = s->stmt->subs[format->level[0].dim];
  const ir_block *body = &s->b.func->body;
  ir_code *loop = body->codes.count ? body->codes.at[body->codes.count - 1] : NULL;
  if (!loop || loop->kind != IR_FOR || loop->run != IR_RUN_PARALLEL) return NULL;
  bool all = loop->lo->kind == IR_CONST && loop->lo->i == 0 && loop->step->i == 1 &&
             ir_expr_equal(loop->hi, target->dim[format->level[0].dim]);
  return all && ir_is_bare(row, order->index[0]) ? loop : NULL;
}

/* What an iteration leaves out is written before it begins, so that its row waits in the first cache;
 * the next row's lines are on their way meanwhile:
 *
 *     for i parallel { for n in row i + 1 step 16 { ask for C[n] }
 *                      for n in row i { C[n] = 0 }
 *                      for p in A.pos1[i] .. { C[i,A.crd1[p]] = A[p] } } */
enum { LINE_BYTES = 64 };

static void fill_row(lower_state *s, ir_code *loop, double value) {
  const ir_tensor *target = s->stmt->target;
  const ir_format *format = pass_level_format(s, target);
  ir_block *outer = s->b.block, fill = {0};
  ir_expr *length = target->dim[format->level[1].dim], *row = pass_code_ref(s, loop->var);
  for (int l = 2; l < target->rank; l++)
    length = pass_code_mul(s, length, target->dim[format->level[l].dim]);
  ir_expr *first = pass_code_mul(s, row, length), *end = pass_code_add(s, first, length);
  ir_buf *buf = pass_code_buffer(s, target, IR_BUF_VALS, 0);
  ir_block *around;
  s->b.block = &fill;
  int64_t bytes = (int64_t)ir_dtype_bytes(target->dtype);
  ir_expr *behind = pass_code_add(s, end, length);
  ir_var *n = ir_open_for(&s->b, "next", end, behind, IR_RUN_SEQUENTIAL, &around);
  around->codes.at[around->codes.count - 1]->step = pass_code_int(s, bytes ? LINE_BYTES / bytes : 1);
  ir_prefetch(&s->b, buf, pass_code_ref(s, n))->early = true;
  ir_close(&s->b, around);
  n = ir_open_for(&s->b, "n", first, end, IR_RUN_SEQUENTIAL, &around);
  pass_code_store(s, buf, pass_code_ref(s, n), pass_value_const(s, target->dtype, value));
  ir_close(&s->b, around);
  for (int i = 0; i < loop->body.codes.count; i++)
    IR_PUSH(s->arena, &fill.codes, loop->body.codes.at[i]);
  loop->body = fill;
  s->b.block = outer;
}

/* Rows in no segment are 0: no loop visits them, and no condition is asked there. */
static bool leaves_rows(const ir_stmt *stmt) {
  for (int i = 0; i < stmt->free.count; i++)
    if (stmt->free.at[i]->offsets) return true;
  return false;
}

/* ---- products of a CPU ------------------------------------------------------------------------- */
/* A row of one operand and a column of the other innermost: what a tile of sums loads is used in every row and column.  Of
 *
 *     y[t,h,e] = b[e] + sum[d] x[t,d]*W[h,e,d]
 *
 * a tile of h and e would load all of W again for every t.  Where memory runs along a batch (y[f,c,b] = sum[d] x[f,d,b]*w[c,d,b]),
 * its vectors are of that. */
static void order_product(lower_state *s, lower_loops *order) {
  const ir_target *target = s->context->options->target;
  pass_contraction_info info;
  if (!target || target->kind != IR_TARGET_CPU || s->stage->reads.count || s->stage->tiles.count || is_like(s) ||
      ir_is_scatter(s->stmt) || !pass_contraction(s->arena, s->stmt, &info))
    return;
  for (int i = 0; i < s->accesses.count; i++)
    if (pass_access_is_sparse(&s->accesses.at[i])) return;
  const ir_index *row, *column;
  if (!pass_tile_of(s->stmt, &info, &row, &column) || row->offsets || column->offsets) return;
  for (int i = 0; i < s->stmt->free.count; i++)
    if (s->stmt->free.at[i] != row && s->stmt->free.at[i] != column) pass_loops_edge(order, s->stmt->free.at[i], row);
  pass_loops_edge(order, row, column);
}

void pass_lower_gather(lower_state *s) {
  lower_loops order = {0};
  pass_lower_open(s, &order);
  add_target(s);
  if (is_like(s)) pass_loops_access(&order, &s->accesses.at[s->target]);
  for (int i = 0; i < s->accesses.count; i++)
    if (i != s->target) pass_loops_access(&order, &s->accesses.at[i]);
  pass_loops_rows(&order, s->stmt->value);
  order_product(s, &order);
  bool strips = pass_strips_open(s, &order);
  pass_loops_sort(&order);
  int first_func = s->stage->funcs.count;
  pass_code_function(s, NULL);
  const ir_expr *root = pass_lower_root(s);
  lower_nest nest = {.s = s,
                     .root = root,
                     .driver = is_like(s) ? s->target : -1,
                     .index = order.index,
                     .count = order.count,
                     .parallel = true,
                     .spatial = true,
                     .target = s->target,
                     .leaf = gather_leaf};
  lower_fold outside = pass_fold(s, NULL, root, NULL, NULL);
  nest.skips = (outside.known || s->stmt->cond) && !is_like(s);
  nest.skip = outside.known ? outside.value : s->stmt->fill;
  bool rows = leaves_rows(s->stmt);
  if (rows && nest.skip != 0) nest.skips = false; /* what is left out is 0 */
  s->skipped = false;
  if (strips)
    pass_strips_nest(&nest);
  else
    pass_nest(&nest, pass_env_new(s));
  const ir_format *format = pass_level_format(s, s->stmt->target);
  double rest = rows ? 0 : nest.skips ? nest.skip : is_like(s) ? 0 : s->stmt->fill;
  bool fills = is_like(s) ? has_padding(format) : s->skipped || has_padding(format);
  ir_code *rows_loop = fills ? loop_of_rows(s, &order) : NULL;
  if (rows_loop)
    fill_row(s, rows_loop, rest);
  else if (fills)
    fill_first(s, first_func, rest);
}
