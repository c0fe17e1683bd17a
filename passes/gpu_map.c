/* gpu_map.c - pass `gpu_map`: parallel loops to threads.
 *
 * needs: functions of the loop dialect (lower)
 * keeps: the meaning
 * breaks: nothing; only CUDA targets are touched
 *
 *     for i in 0 .. M parallel {                for p in 0 .. M*N thread {
 *       for j in 0 .. N {                         let i = p / N
 *         y.vals[i*N + j] = ..          ->        let j = p % N
 *       }                                         y.vals[i*N + j] = ..
 *     }                                         }
 *
 * Rows whose sums are long or few are given to teams of threads, or cut into parts (gpu_team.c).
 * Else the outermost parallel loop becomes a grid-stride loop over threads.  Loops perfectly nested in
 * it join it when their iterations are independent: they are marked parallel, or their body writes
 * memory only through plain stores whose offsets are (invariant + loop variable * positive
 * constant) and reads none of the buffers that it writes.  Scatters in fixed order and reductions
 * stay loops of one thread.  Walks over stored entries get warps (gpu_walk.c, gpu_columns.c),
 * sums of each entry teams (gpu_entries.c). */
#include "passes/choice.h"
#include "passes/gpu_map.h"
#include "passes/gpu_walk.h"

/* ---- questions ------------------------------------------------------------------------------- */
static bool is_positive(const ir_expr *e) {
  return (e->kind == IR_CONST && e->i > 0) || (e->kind == IR_DIM);
}

/* e = something without var + var * positive: different values of var give different values of e.
 */
static bool is_injective(const ir_expr *e, const ir_var *var) {
  if (e->kind == IR_VAR) return e->var == var;
  if (e->kind != IR_OP || e->arg_count != 2) return false;
  bool left = ir_expr_uses_var(e->args[0], var), right = ir_expr_uses_var(e->args[1], var);
  if (left == right) return false;
  const ir_expr *with = e->args[left ? 0 : 1], *without = e->args[left ? 1 : 0];
  if (e->op == IR_OP_ADD) return is_injective(with, var);
  return e->op == IR_OP_MUL && is_positive(without) && is_injective(with, var);
}

static const ir_code *loop_of(const ir_block *block, const ir_var *var) {
  const ir_code *found = NULL;
  for (int i = 0; i < block->codes.count && !found; i++) {
    const ir_code *c = block->codes.at[i];
    if (c->kind == IR_FOR && c->var == var) return c;
    if (c->kind == IR_FOR) found = loop_of(&c->body, var);
  }
  return found;
}

/* rest * N + j, of a loop over all j in 0 .. N inside: which `rest` it is says where all of them lie. */
static const ir_expr *without_inner(const ir_expr *e, const ir_block *whole) {
  while (e->kind == IR_OP && e->op == IR_OP_ADD && e->args[1]->kind == IR_VAR && e->args[0]->kind == IR_OP && e->args[0]->op == IR_OP_MUL) {
    const ir_code *loop = loop_of(whole, e->args[1]->var);
    if (!loop || !gpu_starts_at_zero(loop) || !gpu_steps_by_one(loop) || !ir_expr_equal(e->args[0]->args[1], loop->hi)) break;
    e = e->args[0]->args[0];
  }
  return e;
}

/* Expressions must not reach the loop variable through a local: only offsets without locals made
 * from it count. */
static bool stores_are_private(const ir_block *block, const ir_var *var, const ir_block *whole) {
  for (int i = 0; i < block->codes.count; i++) {
    const ir_code *c = block->codes.at[i];
    if (c->kind == IR_BARRIER) return false;
    if (c->kind == IR_STORE && c->buf->kind != IR_BUF_LOCAL &&
        (c->combine != IR_OP_COUNT || c->atomic || !is_injective(without_inner(c->offset, whole), var) ||
         gpu_block_loads(whole, c->buf)))
      return false;
    if (!stores_are_private(&c->body, var, whole) || !stores_are_private(&c->orelse, var, whole))
      return false;
  }
  return true;
}

/* Nothing is carried from one iteration to the next in locals. */
static bool carries_nothing(const ir_block *block, const ir_block *whole) {
  for (int i = 0; i < block->codes.count; i++) {
    const ir_code *c = block->codes.at[i];
    if (c->kind == IR_SET && !ir_block_declares(whole, c->var)) return false;
    if (c->kind == IR_STORE && c->buf->kind == IR_BUF_LOCAL && !ir_block_declares_buf(whole, c->buf))
      return false;
    if (!carries_nothing(&c->body, whole) || !carries_nothing(&c->orelse, whole)) return false;
  }
  return true;
}

static bool offset_uses_lets(const ir_expr *e, const ir_block *whole) {
  if (e->kind == IR_VAR && ir_block_declares(whole, e->var)) return true;
  for (int i = 0; i < e->arg_count; i++)
    if (offset_uses_lets(e->args[i], whole)) return true;
  return false;
}

static bool offsets_are_plain(const ir_block *block, const ir_block *whole) {
  for (int i = 0; i < block->codes.count; i++) {
    const ir_code *c = block->codes.at[i];
    if (c->kind == IR_STORE && c->buf->kind != IR_BUF_LOCAL && offset_uses_lets(without_inner(c->offset, whole), whole))
      return false;
    if (!offsets_are_plain(&c->body, whole) || !offsets_are_plain(&c->orelse, whole)) return false;
  }
  return true;
}

bool gpu_is_independent(const ir_code *loop) {
  if (!gpu_steps_by_one(loop)) return false;
  if (loop->run == IR_RUN_PARALLEL) return true;
  return stores_are_private(&loop->body, loop->var, &loop->body) &&
         carries_nothing(&loop->body, &loop->body) && offsets_are_plain(&loop->body, &loop->body);
}

bool gpu_starts_at_zero(const ir_code *loop) {
  return loop->lo->kind == IR_CONST && loop->lo->i == 0;
}

/* ---- rewriting ------------------------------------------------------------------------------- */
enum { MOST_LOOPS = 6 };

static int nest_of(ir_code *outer, ir_code **loops) {
  int count = 0;
  loops[count++] = outer;
  while (count < MOST_LOOPS) {
    ir_code *inner = gpu_only_loop(loops[count - 1]);
    if (!inner || !gpu_starts_at_zero(inner) || !gpu_is_size(inner->hi) || !gpu_is_independent(inner)) break;
    loops[count++] = inner;
  }
  return gpu_starts_at_zero(outer) && gpu_is_size(outer->hi) ? count : 1;
}

static ir_code *let_code(ir_arena *a, ir_var *var, ir_expr *value) {
  ir_code *code = IR_NEW(a, ir_code);
  *code = (ir_code){.kind = IR_LET, .var = var, .value = value, .combine = IR_OP_COUNT};
  return code;
}

/* Joins the nest into one loop over points; each index comes back by division. */
static void join(pass_context *context, ir_func *func, ir_code *outer, ir_code **loops, int count) {
  ir_arena *a = context->arena;
  ir_block body = {{NULL, 0, 0}};
  ir_var *point = IR_NEW(a, ir_var);
  *point = (ir_var){ir_format_text(a, "point_%s", outer->var->name), IR_I64, 1};
  IR_PUSH(a, &func->vars, point);
  ir_expr *inner = ir_int(a, 1);
  for (int i = count - 1; i >= 0; i--) {
    ir_expr *value = ir_var_ref(a, point);
    if (i < count - 1) value = ir_apply(a, IR_OP_DIV, value, inner);
    if (i > 0) value = ir_apply(a, IR_OP_MOD, value, loops[i]->hi);
    IR_PUSH(a, &body.codes, let_code(a, loops[i]->var, value));
    inner = ir_apply(a, IR_OP_MUL, loops[i]->hi, inner);
  }
  const ir_block *last = &loops[count - 1]->body;
  for (int i = 0; i < last->codes.count; i++) IR_PUSH(a, &body.codes, last->codes.at[i]);
  outer->var = point;
  outer->hi = inner;
  outer->body = body;
}

/* ---- points without loops of their own --------------------------------------------------------- */
enum { POINTS = 8, LEAST_POINTS = 64, BLOCK = 256 }; /* of a thread; of the innermost index; threads */

bool gpu_is_leaf(const ir_block *block) {
  for (int i = 0; i < block->codes.count; i++) {
    const ir_code *c = block->codes.at[i];
    if (c->kind == IR_FOR || c->kind == IR_WHILE || c->kind == IR_BARRIER || c->kind == IR_LOCAL) return false;
    if (!gpu_is_leaf(&c->body) || !gpu_is_leaf(&c->orelse)) return false;
  }
  return true;
}

bool gpu_is_element_loop(const ir_code *loop) {
  bool stores = false;
  for (int i = 0; i < loop->body.codes.count; i++) {
    const ir_code *c = loop->body.codes.at[i];
    if (c->kind != IR_LET && c->kind != IR_STORE && c->kind != IR_COMMENT) return false;
    stores = stores || c->kind == IR_STORE;
  }
  return stores && gpu_is_independent(loop);
}

/* The innermost index in runs of a team's: nothing is divided at a point, and a thread has several loads under way.
 *
 *     for i, for j in 0 .. N         team for point in 0 .. M * runs { i, run = point / runs, point % runs
 *                                      lanes for j in run * R .. min(N, run * R + R) } */
static bool deal_runs(pass_context *context, ir_func *func, ir_code *outer, ir_code **loops, int count) {
  ir_arena *a = context->arena;
  ir_code *inner = loops[count - 1];
  double points = gpu_is_size(inner->hi) && gpu_starts_at_zero(inner) ? pass_size_assumed(context, inner->hi) : 0;
  if (points < LEAST_POINTS || !gpu_is_leaf(&inner->body) || !gpu_steps_by_one(inner))
    return false;
  int team = 32;
  while (team < BLOCK && team * POINTS < points) team *= 2;
  ir_code *lanes = IR_NEW(a, ir_code), *run = IR_NEW(a, ir_code);
  *lanes = *run = *inner;
  lanes->run = IR_RUN_LANES;
  lanes->width = 1;
  run->var = IR_NEW(a, ir_var);
  *run->var = (ir_var){ir_format_text(a, "run_%s", inner->var->name), IR_I64, 1};
  IR_PUSH(a, &func->vars, run->var);
  ir_expr *length = ir_int(a, team * POINTS), *first = ir_apply(a, IR_OP_MUL, ir_var_ref(a, run->var), length);
  run->hi = ir_ceil_div(a, inner->hi, team * POINTS);
  lanes->lo = first;
  lanes->hi = ir_apply(a, IR_OP_MIN, inner->hi, ir_apply(a, IR_OP_ADD, first, length));
  run->body = (ir_block){{NULL, 0, 0}};
  IR_PUSH(a, &run->body.codes, lanes);
  loops[count - 1] = run;
  if (count > 1) {
    join(context, func, outer, loops, count);
  } else {
    outer->var = run->var;
    outer->hi = run->hi;
    outer->body = run->body;
  }
  outer->run = IR_RUN_TEAM;
  outer->width = team;
  return true;
}

static ir_code *parallel_loop(const ir_func *func) {
  for (int i = 0; i < func->body.codes.count; i++) {
    ir_code *code = func->body.codes.at[i];
    if (code->kind == IR_FOR && code->run == IR_RUN_PARALLEL) return code;
  }
  return NULL;
}

static void map_function(pass_context *context, ir_kernel *kernel, ir_stage *stage, ir_func *func) {
  ir_code *outer = parallel_loop(func), *loops[MOST_LOOPS];
  int count = outer ? nest_of(outer, loops) : 0;
  if (count == 1 && pass_gpu_entries(context, stage, func, outer)) return;
  if (count && pass_gpu_walk(context, stage, func, loops, count)) return;
  if (count && deal_runs(context, func, outer, loops, count)) return;
  if (count > 1) join(context, func, outer, loops, count);
  gpu_rows rows = {.context = context,
                   .kernel = kernel,
                   .stage = stage,
                   .func = func,
                   .loop = outer,
                   .block = outer ? &outer->body : &func->body,
                   .rows = 1};
  if (outer && gpu_is_size(outer->hi)) rows.rows = pass_size_assumed(context, outer->hi);
  if (!gpu_map_rows(&rows) && outer) outer->run = IR_RUN_THREAD;
}

spc_status pass_gpu_map(pass_context *context, ir_kernel *kernel) {
  if (context->options->target->kind != IR_TARGET_CUDA) return SPC_OK;
  pass_context_prepare(context);
  gpu_join_rows(context, kernel);
  for (int s = 0; s < kernel->stages.count; s++) {
    ir_stage *stage = kernel->stages.at[s];
    IR_VEC(ir_func *) funcs = {0};
    for (int i = 0; i < stage->funcs.count; i++) IR_PUSH(context->arena, &funcs, stage->funcs.at[i]);
    for (int i = 0; i < funcs.count; i++)
      if (funcs.at[i]->kind == IR_FUNC_KERNEL) map_function(context, kernel, stage, funcs.at[i]);
  }
  return SPC_OK;
}
