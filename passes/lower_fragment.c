/* lower_fragment.c - the epilogue of a contraction as a scalar function for a composed kernel.
 *
 *     y[t,o] = relu(b[o] + sum[k] x[t,k]*W[k,o])      fragment(acc, m, n, batch) = relu(b[n] + acc)
 *
 * Where the result has the entries of an operand (ir/bsr.h) `at` is the element's place among its values, which is that of what is read of the
 * operand too.  acc is the finished sum, in f32 or i32; m, n and batch number the element, each role's indices
 * flattened row-major (ir/roles.h).  Constant factors and the sign of the sum's
 * body are part of it. */
#include "ir/beside.h"
#include "ir/bsr.h"
#include "ir/kernels.h"
#include "ir/roles.h"
#include "passes/choice.h"
#include "passes/contract.h"
#include "passes/lower.h"

ir_expr *pass_fragment_parameter(lower_state *s, ir_func *func, const char *name, ir_dtype dtype) {
  ir_var *var = IR_NEW(s->arena, ir_var);
  *var = (ir_var){.name = name, .dtype = dtype, .lanes = 1};
  IR_PUSH(s->arena, &func->params, var);
  return pass_code_ref(s, var);
}

void pass_fragment_bind(lower_state *s, lower_env *env, const ir_flat *role, ir_expr *number) {
  for (int i = role->count - 1; i >= 0; i--) {
    const ir_index *index = role->at[i];
    pass_env_bind(env, index, i ? pass_code_op(s, IR_OP_MOD, number, index->extent) : number);
    if (i) number = pass_code_op(s, IR_OP_DIV, number, index->extent);
  }
}

/* The roles by which the kernel is chosen; of rows in ragged groups there are one row, one column and the group. */
static ir_roles roles_of(const lower_state *s, const pass_contraction_info *info) {
  ir_roles roles;
  if (ir_roles_of(s->stmt, info->a.access, info->b.access, info->reduce->bound, info->reduce->bound_count, &roles)) return roles;
  roles = (ir_roles){.common = 0};
  for (int i = 0; i < s->stmt->free.count; i++) {
    ir_index *index = s->stmt->free.at[i];
      ir_flat *role = pass_indices_has(&info->m, index) ? &roles.m : pass_indices_has(&info->n, index) ? &roles.n : &roles.batch;
    role->at[role->count++] = index;
  }
  return roles;
}

/* What the kernels keep sums in: f32, or the integer that narrow ones are widened to. */
static ir_dtype sum_dtype(const pass_contraction_info *info) {
  return ir_dtype_is_float(info->reduce->dtype) ? IR_F32 : info->reduce->dtype;
}

ir_expr *pass_finished_sum(lower_state *s, const pass_contraction_info *info, ir_expr *acc) {
  if (info->factor)
    acc = ir_apply(s->arena, IR_OP_MUL, pass_as_dtype(s->arena, acc->dtype, info->factor), acc);
  return info->negative ? ir_apply(s->arena, IR_OP_NEG, acc, NULL) : acc;
}

lower_env *pass_fragment_open(lower_state *s, const ir_expr *root) {
  s->accesses.count = 0;
  s->memo_room = 0;
  pass_access_collect(s, root);
  return pass_env_new(s);
}

void pass_fragment_close(lower_state *s, lower_env *env, ir_func *func, ir_expr *root) {
  pass_level_resolve(s, env);
  func->result = pass_value(s, env, root);
}

/* Of rows that are sent somewhere: m is the row's number, n the column's. */
static void scatter_fragment(lower_state *s) {
  ir_func *func = pass_code_function(s, "value");
  func->kind = IR_FUNC_FRAGMENT;
  pass_fragment_parameter(s, func, "acc", IR_F32);
  ir_expr *m = pass_fragment_parameter(s, func, "m", IR_I64), *n = pass_fragment_parameter(s, func, "n", IR_I64);
  pass_fragment_parameter(s, func, "batch", IR_I64);
  ir_expr *root = ir_cast(s->arena, IR_F32, s->stmt->value);
  lower_env *env = pass_fragment_open(s, root);
  for (int i = 0; i < s->stmt->free.count; i++) {
    const ir_index *index = s->stmt->free.at[i];
    bool column = ir_is_bare(s->stmt->subs[0], index) || ir_is_bare(s->stmt->subs[1], index);
    pass_env_bind(env, index, column ? n : m);
  }
  pass_fragment_close(s, env, func, root);
}

/* Of operands with the result's entries the one at hand. */
static void stand_at_place(lower_state *s, lower_env *env, ir_func *func) {
  ir_bsr bsr;
  const ir_tensor *owner = ir_bsr_result(s->stmt, &bsr);
  if (!owner) return;
  ir_expr *at = pass_fragment_parameter(s, func, "at", IR_I64);
  for (int i = 0; i < s->accesses.count; i++)
    if (ir_tensor_owner(s->accesses.at[i].expr->tensor) == owner)
      env->cursor[i] = (lower_cursor){.next = s->accesses.at[i].format->level_count, .pos = at, .readable = true};
}

/* A function of a sum and of where it is: the value, under this condition. */
static void write_fragment(lower_state *s, const pass_contraction_info *info, const char *name, ir_expr *condition) {
  ir_func *func = pass_code_function(s, name);
  func->kind = IR_FUNC_FRAGMENT;
  ir_expr *acc = pass_fragment_parameter(s, func, "acc", sum_dtype(info));
  ir_expr *m = pass_fragment_parameter(s, func, "m", IR_I64), *n = pass_fragment_parameter(s, func, "n", IR_I64);
  ir_expr *batch = pass_fragment_parameter(s, func, "batch", IR_I64);
  ir_stmt *stmt = s->stmt, copy = *stmt;
  copy.value = pass_epilogue_with(s->arena, info, pass_finished_sum(s, info, acc));
  copy.cond = condition;
  s->stmt = &copy;
  ir_expr *root = pass_lower_root(s);
  lower_env *env = pass_fragment_open(s, root);
  ir_roles roles = roles_of(s, info);
  pass_fragment_bind(s, env, &roles.m, m);
  pass_fragment_bind(s, env, &roles.n, n);
  pass_fragment_bind(s, env, &roles.batch, batch);
  if (info->ragged) pass_env_bind(env, info->ragged->segment, batch);
  stand_at_place(s, env, func);
  pass_fragment_close(s, env, func, root);
  s->stmt = stmt;
}

/* ---- of columns that lie side by side --------------------------------------------------------- */
typedef struct standing_for {
  ir_arena *arena;
  const ir_stmt *stmt;
  const ir_tensor *beside[IR_MOST_BESIDE], *place[IR_MOST_BESIDE];
  int besides, places;
  ir_expr *value[2 * IR_MOST_BESIDE]; /* of what lies side by side, then of what lies at the place */
} standing_for;

/* All are handed over in f32, which holds what has 16 bits or is a byte. */
static ir_expr *as_read(const standing_for *f, const ir_expr *node, ir_expr *value) {
  ir_dtype dtype = node->tensor->dtype;
  if (dtype == IR_B1) return ir_apply(f->arena, IR_OP_NE, value, ir_const_f(f->arena, IR_F32, 0));
  return dtype == IR_U8 ? ir_cast(f->arena, IR_U8, value) : value;
}

static ir_expr *stand_for(void *user, ir_expr *node) {
  const standing_for *f = user;
  if (node->kind != IR_ACCESS) return node;
  for (int i = 0; i < f->besides; i++)
    if (node->tensor == f->beside[i]) return f->value[i];
  for (int i = 0; i < f->places; i++)
    if (node->tensor == f->place[i] && ir_reads_at_place(f->stmt, node)) return as_read(f, node, f->value[f->besides + i]);
  return node;
}

static void name_values(lower_state *s, ir_func *func, standing_for *of) {
  of->places = ir_stage_places(s->stage, of->place);
  for (int i = 0; i < of->besides + of->places; i++) {
    const ir_tensor *tensor = i < of->besides ? of->beside[i] : of->place[i - of->besides];
    of->value[i] = pass_fragment_parameter(s, func, ir_format_text(s->arena, i < of->besides ? "beside_%s" : "at_place_%s", tensor->name), IR_F32);
  }
}

/* name(beside.., at_place.., m, n): the statement at row m and column n of its result; `behind` a product of the stage, what that one has made of it,
 * under the condition. */
static void beside_fragment(lower_state *s, const char *name, bool behind) {
  ir_func *func = pass_code_function(s, name);
  func->kind = IR_FUNC_FRAGMENT;
  ir_stmt *stmt = s->stmt, copy = *stmt;
  standing_for of = {.arena = s->arena, .stmt = stmt};
  if (behind) of.beside[of.besides++] = stmt->target;
  for (int i = 0; i < s->stage->beside.count; i++) of.beside[of.besides++] = s->stage->beside.at[i];
  name_values(s, func, &of);
  ir_expr *m = pass_fragment_parameter(s, func, "m", IR_I64), *n = pass_fragment_parameter(s, func, "n", IR_I64);
  copy.value = behind ? of.value[0] : pass_rewrite(s->arena, stmt->value, stand_for, &of);
  copy.cond = pass_rewrite(s->arena, stmt->cond, stand_for, &of);
  s->stmt = &copy;
  ir_expr *root = pass_lower_root(s);
  lower_env *env = pass_fragment_open(s, root);
  for (int d = 0; d < 2; d++) pass_env_bind(env, stmt->subs[d]->index, pass_result_ends_in(stmt, stmt->subs[d]->index) ? n : m);
  pass_fragment_close(s, env, func, root);
  s->stmt = stmt;
}

void pass_lower_fragment(lower_state *s) {
  pass_contraction_info info;
  if (s->stage->beside.count) {
    beside_fragment(s, "value", false);
    return;
  }
  if (ir_is_scatter(s->stmt)) {
    scatter_fragment(s);
    return;
  }
  if (!pass_contraction(s->arena, s->stmt, &info)) return;
  if (info.bare && !info.negative && !info.factor && !s->stmt->cond) return;
  write_fragment(s, &info, "epilogue", s->stmt->cond);
  const ir_kernel_row *row = ir_kernel_row_named(s->stage->row);
  if (!row || !ir_kernel_spreads(row)) return;
  beside_fragment(s, "kept", true);
  if (!info.bare || info.negative || info.factor) write_fragment(s, &info, "bare", NULL);
}
