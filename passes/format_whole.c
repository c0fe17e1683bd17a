/* format_whole.c - stored operands that a GPU reads faster whole: a dense copy in front.
 *
 *     y[t,o] = sum[k] x[t,k]*W[o,k]           W_whole[o,k] = W[o,k]   ~ zeros(dynamic, gran=64x64)
 *       (W bf16, bsr(64,64); sm_90a)      ->  y[t,o] = sum[k] x[t,k]*W_whole[o,k]
 *
 *     y[t,j] = sum[k] x[t,k]*(s[j,k/128]*q[j,k])   ->  q_whole[j,k] = s[j,k/128]*q[j,k]
 *       (q i8, nm(2,4))                                y[t,j] = sum[k] x[t,k]*q_whole[j,k]
 *
 *     y[t,n] = sum[k] x[t,k]*cast[bf16](q[k,n])    q_wide[k,n] = cast[bf16](q[k,n])
 *       (q i8, stored whole; also with scales)       y[t,n] = sum[k] x[t,k]*q_wide[k,n]
 *         where no kernel widens it sooner (ways_widen.c)
 *
 * Blocks that kernels multiply as they lie (ways_bsr.c) are copied only where that is faster.
 * The loops that walk stored entries use no tensor cores, and one operand's entries meet the other
 * operand's rows one by one; nor do the loops that convert on the way in.  The copy is a product of matrices with zeros like any other: its
 * blocks are listed where that pays, and of `const` operands copy and lists are made once
 * (stage_once.c), which counts as nothing where the caller packs (ir_program.unpacked: he does not).  It costs the
 * memory of a dense matrix: one that nothing bounds is copied only
 * where a hint says how dense it is, for there may be very few entries. */
#include <math.h>

#include "passes/choice.h"
#include "passes/contract.h"
#include "passes/expr.h"
#include "passes/storage.h"

static const double MOST_BYTES = 1 << 30, MARGIN = 1.25;

typedef struct whole {
  pass_context *context;
  ir_stmt *stmt;
  pass_sum sum;
  const pass_operand *side, *other; /* what is copied, and what it is multiplied with */
  ir_expr *stored;                  /* the side's operand that leaves elements out */
  ir_tensor *copy;
  bool plain;   /* the side is that operand and nothing else */
  bool widened; /* it leaves nothing out: its dtype is what keeps it from being multiplied as it lies */
} whole;

/* ---- which products -------------------------------------------------------------------------- */
static bool is_copied(ir_dtype dtype) {
  return dtype == IR_BF16 || dtype == IR_F16 || dtype == IR_F32 || dtype == IR_F64;
}

static bool count_stored(void *user, ir_expr *node) {
  int *count = user;
  *count += node->kind == IR_ACCESS && pass_tensor_is_sparse(node->tensor);
  return true;
}

/* Its elements at k and at one index of the result; where nothing is stored it is zero. */
static bool side_fits(const whole *w) {
  const ir_expr *e = w->side->access;
  int stored = 0;
  ir_expr_walk(w->side->value, count_stored, &stored);
  if (e->kind != IR_ACCESS || e->tensor->role != IR_ROLE_IN) return false;
  if (w->widened ? stored != 0 : stored != 1 || !pass_tensor_is_sparse(e->tensor)) return false;
  if (e->arg_count != 2 || !pass_bare_access(e) || pass_dim_of(e, w->sum.k) < 0) return false;
  const ir_index *free = e->args[1 - pass_dim_of(e, w->sum.k)]->index;
  if (free->offsets || e->tensor->dtype == IR_NONE || !pass_is_elementwise(w->side->value)) return false;
  for (int i = 0; i < w->side->indices.list.count; i++)
    if (w->side->indices.list.at[i] != free && w->side->indices.list.at[i] != w->sum.k) return false;
  const ir_expr *f = w->side->prologue;
  return !f || (f->kind == IR_CAST && f->args[0] == e);
}

/* Whole as it is stored, of fewer bits than it is multiplied in: what it is converted to holds all of it, or its values times
 * their scales, as they are where it leaves elements out. */
static bool is_widened(const pass_operand *side) {
  const ir_expr *f = side->prologue;
  return f && f->kind == IR_CAST && (pass_side_is_access(side) || side->scale) && ir_dtype_is_float(f->dtype) &&
         ir_dtype_rows[side->access->dtype].bits < ir_dtype_rows[f->dtype].bits;
}

static bool other_fits(const whole *w) {
  const ir_expr *e = w->other->access;
  return e->kind == IR_ACCESS && w->other->factor_count == 1 && !w->other->prologue &&
         !pass_expr_reads_sparse(w->other->value) && pass_bare_access(e) &&
         e->tensor->dtype == w->side->value->dtype && pass_dim_of(e, w->sum.k) >= 0;
}

static bool fits(whole *w, pass_contraction_info *info) {
  ir_stmt *stmt = w->stmt;
  if (!pass_sum_of(w->context, stmt, &w->sum) || !w->sum.k || w->sum.k->offsets) return false;
  if (ir_is_scatter(stmt) || stmt->target->like || pass_tensor_is_sparse(stmt->target)) return false;
  if (!pass_contraction(w->context->arena, stmt, info)) return false;
  if (info->guard || info->factor || info->negative || info->ragged || info->batch.list.count)
    return false;
  bool first = pass_expr_reads_sparse(info->a.value);
  w->widened = !first && !pass_expr_reads_sparse(info->b.value);
  if (w->widened) first = is_widened(&info->a);
  w->side = first ? &info->a : &info->b;
  w->other = first ? &info->b : &info->a;
  w->stored = w->side->access;
  w->plain = w->side->value == w->stored;
  if (w->widened && !is_widened(w->side)) return false;
  return is_copied(w->side->value->dtype) && side_fits(w) && other_fits(w) &&
         (stmt->acc == IR_F64) == (w->side->value->dtype == IR_F64);
}

/* ---- the copy -------------------------------------------------------------------------------- */
static bool has_level(const ir_format *format, ir_level_kind kind) {
  for (int l = 0; format && l < format->level_count; l++)
    if (format->level[l].kind == kind) return true;
  return false;
}

static bool in_blocks(const ir_format *format) {
  for (int l = 0; format && l < format->level_count; l++)
    if (format->level[l].map == IR_MAP_MOD) return true;
  return false;
}

static bool has_hint(const ir_tensor *tensor) {
  return tensor->pattern.density_low > 0 || tensor->pattern.density_high > 0;
}

/* Dense, its dimensions in the order in which the levels of the source meet them, or turned. */
static const ir_format *dense_format(const whole *w, bool turned) {
  const char *why = "";
  const ir_format *format = w->stored->tensor->format;
  bool crossed = format && format->level[0].dim == 1;
  return ir_format_builtin(w->context->arena, crossed != turned ? "dense_t" : "dense", 2, NULL, 0, &why);
}

/* Whose zeros are worth a look: those that a hint or whole blocks make known. */
static ir_pattern pattern_of(const ir_tensor *source) {
  ir_pattern pattern = source->pattern;
  const ir_format *format = source->format;
  bool blocks = in_blocks(format) && has_level(format, IR_LEVEL_COMPRESSED);
  pattern.zeros = blocks || has_hint(source) ? IR_ZEROS_DYNAMIC : IR_ZEROS_UNKNOWN;
  if (blocks && format->argument_count == 2) {
    pattern.gran_rows = (int)format->argument[0];
    pattern.gran_cols = (int)format->argument[1];
  }
  return pattern;
}

static bool find_variable(void *user, ir_expr *node) {
  if (node->kind == IR_ACCESS && !(node->tensor->role == IR_ROLE_IN && node->tensor->constant))
    *(bool *)user = true;
  return true;
}

static void describe_copy(whole *w, ir_tensor *copy) {
  const ir_tensor *source = w->stored->tensor;
  bool variable = false;
  ir_expr_walk(w->side->value, find_variable, &variable);
  copy->role = IR_ROLE_TEMP;
  copy->dtype = w->side->value->dtype;
  copy->rank = source->rank;
  memcpy(copy->dim, source->dim, sizeof copy->dim);
  copy->pattern = pattern_of(source);
  copy->constant = !variable;
}

static bool is_made_once(const whole *w) {
  return w->copy->constant && !w->context->program->unpacked;
}

static const char *why_copied(const whole *w, double break_even) {
  if (w->widened)
    return ir_format_text(w->context->arena, "`%s`%s in %s%s, made %s: products are of operands of one dtype", w->stored->tensor->name,
                          w->side->scale ? " times its scales" : "", ir_dtype_text(w->copy->dtype),
                          w->side->scale ? "" : ", which holds all of its values", is_made_once(w) ? "once (spc_plan_pack)" : "in every run");
  const char *lies = pass_bsr_why_not(w->context, &w->sum);
  return ir_format_text(w->context->arena,
                        "a dense copy of `%s`, made %s: %s are faster than a walk over its entries, from density %.2g on%s%s",
                        w->stored->tensor->name, is_made_once(w) ? "once (spc_plan_pack)" : "in every run",
                        ir_dtype_bytes(w->copy->dtype) == 2 ? "tensor cores" : "tiles of a whole matrix",
                        fmin(1, break_even), lies ? "; " : "", lies ? lies : "");
}

/* The statement with the copy in the side's place. */
static ir_stmt *reading(const whole *w, ir_tensor *copy) {
  ir_arena *arena = w->context->arena;
  ir_stmt *stmt = IR_NEW(arena, ir_stmt);
  *stmt = *w->stmt;
  if (w->plain) {
    pass_format_read(arena, stmt, w->stored, copy);
    return stmt;
  }
  ir_expr *access = ir_access(arena, copy, w->stored->args), *value = w->other->value;
  bool first = w->sum.factors.at[0] != w->other->access;
  value = first ? ir_apply(arena, IR_OP_MUL, access, value) : ir_apply(arena, IR_OP_MUL, value, access);
  ir_expr *body = pass_as_dtype(arena, w->sum.reduce->args[0]->dtype, value);
  ir_expr *reduce = ir_copy_with(arena, w->sum.reduce, &body);
  stmt->value = pass_replace_node(arena, stmt->value, w->sum.reduce, reduce);
  stmt->support = stmt->stores = NULL;
  return stmt;
}

/* What a schedule says of the two ways: 1: the blocks as they lie, for the tile is one of their kernels'; -1: a copy, as nothing else can do it; 0: nothing. */
static int scheduled(const ir_kernel *kernel, const pass_sum *sum) {
  const char *result = sum->stmt->target->name;
  const ir_directive *tile = pass_schedule_find(kernel, IR_DO_TILE, result);
  if (pass_schedule_find(kernel, IR_DO_DENSE, result) || pass_schedule_find(kernel, IR_DO_LIBRARY, result)) return -1;
  for (int i = 0; tile && i < ir_kernel_row_count; i++)
    if (ir_kernel_reads_bsr(&ir_kernel_rows[i]) && pass_bsr_has_tile(sum, &ir_kernel_rows[i], tile)) return 1;
  return tile ? -1 : 0;
}

/* ---- what it takes --------------------------------------------------------------------------- */
static double elements_of(const whole *w) {
  const ir_tensor *source = w->stored->tensor;
  return pass_size_assumed(w->context, source->dim[0]) * pass_size_assumed(w->context, source->dim[1]);
}

/* Cleared, then its entries put where they belong: sector by sector where the order is another. */
static double copy_cost(const whole *w, bool turned) {
  const pass_profile *p = w->context->profile;
  if (is_made_once(w)) return 0;
  double entries = elements_of(w) * pass_zeros_of(w->context, w->stored->tensor).likely;
  double element = (double)ir_dtype_bytes(w->copy->dtype), sector = 32;
  double moved = 2 * elements_of(w) * element + entries * (element + 4);
  return 2 * p->launch_us + moved / (p->bandwidth_gbs * 1e3) +
         (turned ? entries * sector / (p->random_gbs * 1e3) : 0);
}

/* Copy and product, with the copy's dimensions in one order; infinite where no kernel takes it. */
static double whole_cost(whole *w, bool turned) {
  pass_sum sum;
  w->copy->format = dense_format(w, turned);
  if (!pass_sum_of(w->context, reading(w, w->copy), &sum) || !sum.matrices) return INFINITY;
  return pass_matrix_cost(w->context, &sum) + copy_cost(w, turned);
}

static bool is_bounded(const whole *w) {
  int64_t rows, cols;
  const ir_tensor *source = w->stored->tensor;
  if (!ir_size_bound(source->dim[0], &rows) || !ir_size_bound(source->dim[1], &cols)) return false;
  return (double)rows * (double)cols * (double)ir_dtype_bytes(w->copy->dtype) <= MOST_BYTES;
}

static bool pays(const ir_kernel *kernel, whole *w) {
  const ir_tensor *source = w->stored->tensor;
  if (!w->widened && !has_hint(source) && !in_blocks(source->format) && !is_bounded(w)) return false;
  if (elements_of(w) * (double)ir_dtype_bytes(w->copy->dtype) > MOST_BYTES) return false;
  double turned = whole_cost(w, true), straight = whole_cost(w, false);
  double widened = pass_widen_best(w->context, &w->sum), walked = w->sum.widened ? fmin(pass_widen_cost(w->context, &w->sum, NULL), widened) : pass_walk_cost(w->context, &w->sum);
  double needed = (isfinite(widened) ? 1 : MARGIN) * fmin(straight, turned);
  double lies = pass_bsr_best(w->context, &w->sum), as_long = 1.03; /* what a copy's memory is worth */
  int asked = isfinite(lies) ? scheduled(kernel, &w->sum) : -1;
  if (asked > 0 || (asked == 0 && lies <= as_long * fmin(straight, turned))) return false;
  if (turned < straight) w->copy->format = dense_format(w, true);
  w->copy->format_why = why_copied(w, pass_zeros_of(w->context, source).likely * needed / walked);
  return walked > needed;
}

/* ---- rewriting ------------------------------------------------------------------------------- */
/* The side's two indices as the copy's own. */
typedef struct renaming {
  ir_arena *arena;
  const ir_expr *stored;
  ir_expr *const *subs;
} renaming;

static ir_expr *rename_index(void *user, ir_expr *e) {
  const renaming *r = user;
  for (int d = 0; d < 2; d++)
    if (e->kind == IR_INDEX && e->index == r->stored->args[d]->index) return r->subs[d];
  return e;
}

static ir_stmt *copying(const whole *w, ir_kernel *kernel, ir_tensor *copy) {
  ir_arena *arena = w->context->arena;
  ir_stmt *stmt = pass_format_copy(w->context, kernel, w->stored->tensor, copy);
  renaming names = {arena, w->stored, stmt->subs};
  stmt->value = pass_rewrite(arena, w->side->value, rename_index, &names);
  stmt->acc = copy->dtype;
  return stmt;
}

/* A copy of the same that stands before. */
static ir_tensor *copy_there(const whole *w, const ir_kernel *kernel, int at) {
  const ir_tensor *source = w->stored->tensor;
  for (int i = 0; w->plain && i < at; i++) {
    const ir_stmt *stmt = kernel->stmts.at[i];
    if (stmt->target->role == IR_ROLE_TEMP && pass_stmt_converts(stmt) == source &&
        ir_format_is_dense(stmt->target->format))
      return stmt->target;
  }
  return NULL;
}

static ir_tensor *make_copy(const whole *w, ir_kernel *kernel, int at) {
  ir_arena *arena = w->context->arena;
  const char *name =
      ir_fresh_name(kernel, ir_format_text(arena, w->widened ? "%s_wide" : "%s_whole", w->stored->tensor->name));
  ir_tensor *copy = ir_tensor_new(kernel, name, IR_ROLE_TEMP, w->copy->dtype);
  name = copy->name;
  *copy = *w->copy;
  copy->name = name;
  pass_format_insert(arena, kernel, at, copying(w, kernel, copy));
  return copy;
}

void pass_format_whole(pass_context *context, ir_kernel *kernel) {
  if (pass_target_of(context)->kind != IR_TARGET_CUDA) return;
  for (int s = 0; s < kernel->stmts.count; s++) {
    ir_stmt *stmt = kernel->stmts.at[s];
    pass_contraction_info info;
    whole w = {.context = context, .stmt = stmt};
    if (!fits(&w, &info)) continue;
    w.copy = IR_NEW(context->arena, ir_tensor);
    describe_copy(&w, w.copy);
    if (!pays(kernel, &w)) continue;
    ir_tensor *copy = copy_there(&w, kernel, s);
    int before = kernel->stmts.count;
    if (!copy) copy = make_copy(&w, kernel, s);
    *stmt = *reading(&w, copy);
    s += kernel->stmts.count - before;
  }
}
