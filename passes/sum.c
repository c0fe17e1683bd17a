/* sum.c - statements of the form `epilogue(sum[k] product)`: factors, matrix roles, operands with
 * zeros.
 *
 * By meaning, not by name: which index is a row, a column, a batch or summed follows from where it
 * occurs (PIT: L1 asks for bare indices, section A.1 of the lineage notes). */
#include "ir/bsr.h"
#include "ir/roles.h"
#include "ir/widened.h"
#include "passes/choice.h"
#include "passes/contract.h"
#include "passes/storage.h"

static void flatten(ir_arena *arena, ir_expr *e, pass_sum *sum) {
  while (e->kind == IR_CAST) e = e->args[0];
  if (e->kind == IR_OP && e->op == IR_OP_MUL) {
    flatten(arena, e->args[0], sum);
    flatten(arena, e->args[1], sum);
  } else {
    IR_PUSH(arena, &sum->factors, e);
  }
}

static bool is_dense_access(const ir_expr *e) {
  return e && e->kind == IR_ACCESS && pass_bare_access(e) && !pass_tensor_is_sparse(e->tensor) &&
         (!e->tensor->format || ir_format_is_dense(e->tensor->format));
}

double pass_indices_size(pass_context *context, const pass_indices *indices) {
  double size = 1;
  for (int i = 0; i < indices->list.count; i++)
    size *= pass_index_assumed(context, indices->list.at[i]);
  return size;
}

static ir_index *only(const pass_indices *indices) {
  return indices->list.count == 1 ? indices->list.at[0] : NULL;
}

/* A GPU's products of narrow integers widen their operands themselves. */
static bool only_widens(pass_context *context, const pass_operand *side) {
  const ir_expr *e = side->prologue;
  return pass_target_of(context)->kind == IR_TARGET_CUDA && e->kind == IR_CAST &&
         e->args[0] == side->access && side->access->dtype == IR_I8 && e->dtype == IR_I32;
}

static const char *operand_misfit(pass_context *context, const pass_operand *side) {
  if (side->scale || side->factor_count != 1) return "one side is itself a product";
  if (side->prologue && !only_widens(context, side)) return "an operand is computed on the way in";
  if (side->access && side->access->kind == IR_ACCESS &&
      pass_tensor_is_sparse(side->access->tensor))
    return "an operand is stored sparse, and its entries are walked";
  if (is_dense_access(side->access)) return NULL;
  const char *why = pass_quotient_why(context, side->access);
  return why ? why : "an operand is not a dense tensor with bare indices";
}

static const char *statement_misfit(const ir_stmt *stmt) {
  if (ir_is_scatter(stmt) || !pass_plain_subs(stmt)) return "its result is scattered";
  if (pass_expr_reads_sparse(stmt->cond)) return "a sparse operand says where it is computed";
  if (pass_expr_reads_sparse(stmt->value)) return "a sparse operand stands in its epilogue";
  return pass_tensor_is_sparse(stmt->target) ? "its result is stored sparse" : NULL;
}

static void take_roles(pass_context *context, pass_sum *sum, const pass_contraction_info *info) {
  sum->a = info->a.access;
  sum->b = info->b.access;
  sum->batch = pass_indices_size(context, &info->batch);
  sum->m = pass_indices_size(context, &info->m);
  sum->n = pass_indices_size(context, &info->n);
  sum->m_index = only(&info->m);
  sum->n_index = only(&info->n);
  sum->batches = info->batch.list.count;
}

static double role_size(pass_context *context, const ir_flat *role) {
  double size = 1;
  for (int i = 0; i < role->count; i++) size *= pass_index_assumed(context, role->at[i]);
  return size;
}

/* Indices that a GPU's kernels take as one. */
static const char *take_flattened(pass_context *context, pass_sum *sum, const pass_contraction_info *info) {
  ir_roles roles;
  bool several = info->k.list.count != 1, one = info->m.list.count == 1 && info->n.list.count == 1;
  if (!several && one) return NULL;
  if (pass_target_of(context)->kind != IR_TARGET_CUDA || !ir_roles_of(sum->stmt, sum->a, sum->b, sum->reduce->bound, sum->reduce->bound_count, &roles))
    return several ? "it sums over several indices at once, which do not follow one another in both operands" : NULL;
  sum->flattened = true;
  sum->k = ir_flat_last(&roles.k);
  sum->batch = role_size(context, &roles.batch);
  sum->m = role_size(context, &roles.m);
  sum->n = role_size(context, &roles.n);
  sum->m_index = ir_flat_last(&roles.m);
  sum->n_index = ir_flat_last(&roles.n);
  sum->batches = roles.batch.count;
  return NULL;
}

/* The row of A: the ragged index, or what a vector of integers names for it. */
static bool is_row(const ir_expr *sub, const ir_index *ragged) {
  const ir_expr *name = ir_row_name(sub);
  return ir_is_bare(sub, ragged) || (name && ir_is_bare(name->args[0], ragged));
}

static const char *rows_misfit(const pass_operand *a, const ir_index *k, const ir_index *ragged) {
  const ir_expr *access = a->access;
  if (a->scale || a->factor_count != 1) return "one side is itself a product";
  if (a->prologue) return "an operand is computed on the way in";
  if (access->arg_count != 2 || pass_tensor_is_sparse(access->tensor)) return "its rows are not those of a dense matrix";
  int at = pass_dim_of(access, k);
  if (at < 0 || pass_contiguous_index(access, false) != k) return "its rows are not contiguous";
  return is_row(access->args[1 - at], ragged) ? NULL : "its rows are named by more than a vector";
}

static const char *matrices_misfit(const pass_operand *b, const pass_contraction_info *info, const pass_sum *sum) {
  if (b->scale || b->factor_count != 1) return "one side is itself a product";
  if (b->prologue) return "an operand is computed on the way in";
  if (!is_dense_access(b->access) || b->access->arg_count != 3) return "groups have no dense matrix of their own";
  if (pass_dim_of(b->access, info->ragged->segment) < 0) return "groups have no matrix of their own";
  ir_index *last = pass_contiguous_index(b->access, false);
  return last == sum->k || last == only(&info->n) ? NULL : "rows of the groups' matrices are not contiguous";
}

/* Rows in ragged groups: what the kernels of such rows can run. */
static const char *take_groups(pass_context *context, pass_sum *sum, const pass_contraction_info *info) {
  const char *ragged = "its rows come in ragged groups", *misfit = NULL;
  const ir_index *segment = info->ragged->segment;
  if (only(&info->m) != info->ragged || !only(&info->n) || only(&info->batch) != segment)
    return "its rows come in ragged groups, and its indices are not one row, one column and the group";
  const ir_stmt *stmt = sum->stmt;
  ir_index *column = only(&info->n);
  if ((misfit = rows_misfit(&info->a, sum->k, info->ragged)) || (misfit = matrices_misfit(&info->b, info, sum)) ||
      (misfit = statement_misfit(stmt)))
    ;
  else if (stmt->cond || stmt->sample) misfit = "a condition says where it is computed";
  else if (info->a.tensor->dtype != info->b.tensor->dtype) misfit = "the operands have different dtypes";
  else if (stmt->target->rank != 2 || stmt->free.count != 2 || column->offsets) misfit = "its result is no matrix";
  if (misfit) return ir_format_text(context->arena, "%s, and %s", ragged, misfit);
  sum->grouped = true;
  sum->a = info->a.access;
  sum->b = info->b.access;
  sum->m_index = info->ragged;
  sum->n_index = column;
  sum->segment = info->ragged->segment;
  return ragged;
}

/* The kernels read runs of one of a matrix's two indices. */
static const char *runs_misfit(pass_context *context, const pass_sum *sum) {
  const ir_tensor *result = sum->stmt->target;
  if (pass_target_of(context)->kind != IR_TARGET_CUDA || !sum->m_index || !sum->n_index) return NULL;
  const ir_index *a = pass_contiguous_index(sum->a, false), *b = pass_contiguous_index(sum->b, false);
  const ir_tensor *bad = a != sum->m_index && a != sum->k                                ? sum->a->tensor
                         : b != sum->n_index && b != sum->k                              ? sum->b->tensor
                         : !pass_result_ends_in(sum->stmt, sum->m_index) && !pass_result_ends_in(sum->stmt, sum->n_index) ? result
                                                                                         : NULL;
  return bad ? ir_format_text(context->arena, "neither matrix index of `%s` is contiguous in memory", bad->name) : NULL;
}

/* What the kernels that widen a factor can run. */
static bool take_widened(pass_context *context, pass_sum *sum) {
  ir_widened w;
  ir_roles roles;
  const ir_stmt *stmt = sum->stmt;
  if (pass_target_of(context)->kind != IR_TARGET_CUDA || statement_misfit(stmt) || stmt->cond || stmt->sample || stmt->acc != IR_F32) return false;
  if (!ir_widened_of(stmt, &w) || !is_dense_access(w.factor) || !is_dense_access(w.wide) || !ir_widened_roles(stmt, &w, &roles)) return false;
  if (w.factor->tensor->pattern.zeros != IR_ZEROS_UNKNOWN || w.wide->tensor->pattern.zeros != IR_ZEROS_UNKNOWN) return false;
  if (w.scale && w.scale->tensor->format && !ir_format_is_dense(w.scale->tensor->format)) return false;
  sum->a = w.factor;
  sum->b = w.wide;
  sum->group = w.group;
  sum->m = role_size(context, &roles.m);
  sum->n = role_size(context, &roles.n);
  sum->batch = role_size(context, &roles.batch);
  sum->batches = roles.batch.count;
  sum->m_index = ir_flat_last(&roles.m);
  sum->n_index = ir_flat_last(&roles.n);
  return sum->widened = !runs_misfit(context, sum);
}

/* One m and one n, and no others. */
static bool take_two_indices(pass_context *context, pass_sum *sum, const pass_contraction_info *info) {
  take_roles(context, sum, info);
  return !sum->batches && !take_flattened(context, sum, info) && !runs_misfit(context, sum) && sum->m_index && sum->n_index;
}

/* A factor stored in blocks that lie whole, times one that is dense, both of 16 bits. */
static bool take_bsr(pass_context *context, pass_sum *sum, const pass_contraction_info *info) {
  const ir_stmt *stmt = sum->stmt;
  ir_bsr bsr;
  ir_expr *stored = ir_bsr_operand(stmt, &bsr);
  if (!stored || pass_target_of(context)->kind != IR_TARGET_CUDA) return false;
  bool first = info->a.access == stored;
  const pass_operand *other = first ? &info->b : &info->a;
  if ((!first && info->b.access != stored) || !pass_bare_access(stored) || pass_dim_of(stored, sum->k) < 0) return false;
  for (int i = 0; i < 2; i++) {
    const pass_operand *side = i ? &info->b : &info->a;
    if (side->scale || side->factor_count != 1 || side->prologue) return false;
  }
  if (ir_is_scatter(stmt) || !pass_plain_subs(stmt) || stmt->cond || stmt->sample || pass_tensor_is_sparse(stmt->target) || stmt->acc != IR_F32) return false;
  if (!is_dense_access(other->access) || info->a.tensor->dtype != info->b.tensor->dtype || ir_dtype_bytes(stored->tensor->dtype) != 2 || info->k.list.count != 1) return false;
  if (!take_two_indices(context, sum, info)) return false;
  sum->bsr = stored;
  return true;
}

/* Two dense matrices of 16 bits, and a result that has the blocks of an input; NULL: it is nothing of that kind. */
static const char *take_sdd(pass_context *context, pass_sum *sum, const pass_contraction_info *info) {
  const ir_stmt *stmt = sum->stmt;
  ir_bsr bsr;
  const ir_tensor *stored = ir_bsr_result(stmt, &bsr);
  if (!stored || pass_target_of(context)->kind != IR_TARGET_CUDA || ir_is_scatter(stmt) || !pass_plain_subs(stmt) || stmt->acc != IR_F32) return NULL;
  if (operand_misfit(context, &info->a) || operand_misfit(context, &info->b) || stmt->free.count != 2) return NULL;
  if (info->a.tensor->dtype != info->b.tensor->dtype || ir_dtype_bytes(info->a.tensor->dtype) != 2 || info->k.list.count != 1) return NULL;
  const char *misfit = ir_bsr_misfit(&bsr, 1 - bsr.outer_dim);
  if (misfit) return ir_format_text(context->arena, "its result is stored in blocks that are not computed as they lie: %s", misfit);
  if (bsr.last_dim == bsr.outer_dim) return "the blocks of its result are stored column by column, and their rows follow one another";
  if (!take_two_indices(context, sum, info)) return NULL;
  sum->sdd = stored;
  return "its result is stored in blocks, which are computed one by one";
}

static const char *take_matrices(pass_context *context, pass_sum *sum) {
  pass_contraction_info info;
  const char *misfit;
  if (!pass_contraction(context->arena, sum->stmt, &info))
    return "it is not a product of two operands";
  bool cuda = pass_target_of(context)->kind == IR_TARGET_CUDA;
  if (take_widened(context, sum)) return "a factor has 8 bits and the other 16: it is widened on the way in";
  if (!cuda && (!sum->k || info.k.list.count != 1)) return "it sums over several indices at once";
  if (info.k.list.count != sum->reduce->bound_count) return "an index that it sums over is not in both operands";
  if (info.guard || info.factor || info.negative) return "the summand is more than a product";
  if (info.ragged) return take_groups(context, sum, &info);
  if (sum->k && take_bsr(context, sum, &info)) return "an operand is stored in blocks, and multiplied as it lies or walked";
  if (sum->k && (misfit = take_sdd(context, sum, &info))) return misfit;
  if ((misfit = operand_misfit(context, &info.a)) || (misfit = operand_misfit(context, &info.b)))
    return misfit;
  if ((misfit = statement_misfit(sum->stmt))) return misfit;
  if (info.a.tensor->dtype != info.b.tensor->dtype) return "the operands have different dtypes";
  take_roles(context, sum, &info);
  misfit = take_flattened(context, sum, &info);
  return misfit ? misfit : runs_misfit(context, sum);
}

bool pass_sum_of(pass_context *context, ir_stmt *stmt, pass_sum *out) {
  *out = (pass_sum){.stmt = stmt, .batch = 1, .m = 1, .n = 1, .k_size = 1};
  out->reduce = pass_reduction_of(stmt);
  out->precision = pass_schedule_precision(context->program, stmt->target);
  out->any_rows = context->program->batch_invariant;
  if (!out->reduce || out->reduce->reducer != IR_RED_SUM) return false;
  if (out->reduce->bound_count == 1) out->k = out->reduce->bound[0];
  for (int i = 0; i < out->reduce->bound_count; i++)
    out->k_size *= pass_index_assumed(context, out->reduce->bound[i]);
  flatten(context->arena, out->reduce->args[0], out);
  out->not_matrices = take_matrices(context, out);
  out->matrices = !out->not_matrices;
  for (int i = 0; !out->matrices && !out->widened && !out->bsr && !out->sdd && i < stmt->free.count; i++)
    out->n *= pass_index_assumed(context, stmt->free.at[i]);
  return true;
}

pass_product pass_sum_product(const pass_sum *sum, const ir_expr *listed) {
  const ir_stmt *stmt = sum->stmt;
  ir_dtype dtype = stmt->target->dtype;
  pass_product q = {.batch = sum->batch, .m = sum->m, .n = sum->n, .k = sum->k_size, .a = dtype, .b = dtype, .c = dtype};
  if (!sum->matrices && !sum->widened && !sum->bsr && !sum->sdd) return q;
  q.a = sum->a->tensor->dtype;
  q.b = sum->b->tensor->dtype;
  q.unaligned = ir_dtype_bytes(q.a) <= 2 && !pass_rows_aligned(sum, 16);
  q.operands_unaligned = ir_dtype_bytes(q.a) <= 2 && !pass_operands_aligned(sum, 16);
  q.outer_a = ir_dtype_bytes(q.a) != 2 && pass_contiguous_index(sum->a, false) != sum->k;
  q.outer_b = ir_dtype_bytes(q.b) != 2 && pass_contiguous_index(sum->b, false) != sum->k;
  bool turned = listed == sum->b;
  const ir_expr *first = turned ? sum->b : sum->a, *second = turned ? sum->a : sum->b;
  q.k_rows_a = pass_contiguous_index(first, false) != sum->k;
  q.k_rows_b = pass_contiguous_index(second, false) != sum->k;
  q.asked = stmt->sample && stmt->sample->kind == IR_ACCESS;
  q.lines_a = pass_lines_a_row(first);
  q.lines_b = pass_lines_a_row(second);
  if (turned) q.m = sum->n, q.n = sum->m;
  return q;
}

/* ---- operands with zeros --------------------------------------------------------------------- */
bool pass_factor_dynamic(const ir_kernel *kernel, const ir_expr *factor) {
  if (factor->kind != IR_ACCESS || pass_tensor_is_sparse(factor->tensor)) return false;
  const ir_tensor *tensor = factor->tensor;
  if (tensor->pattern.zeros != IR_ZEROS_UNKNOWN || pass_schedule_compact(kernel, tensor))
    return true;
  return tensor->def && tensor->def->sample && tensor->def->fill == 0;
}

static const ir_axis *axis_of(const ir_stmt *stmt, const ir_index *index) {
  for (int i = 0; i < stmt->axes.count; i++)
    if (stmt->axes.at[i].index == index) return &stmt->axes.at[i];
  return NULL;
}

/* ---- which way a list lies ------------------------------------------------------------------- */
typedef struct lying {
  const ir_tensor *tensor;
  const ir_index *axis, *strip;
  int axis_dim, strip_dim, ways;
} lying;

static bool note_way(void *user, ir_expr *e) {
  lying *l = user;
  int axis = -1, strip = -1;
  if (e->kind != IR_ACCESS || e->tensor != l->tensor) return true;
  for (int d = e->arg_count - 1; d >= 0; d--) {
    if (ir_is_bare(e->args[d], l->axis)) axis = d;
    if (l->strip && ir_is_bare(e->args[d], l->strip)) strip = d;
  }
  if (axis < 0 || (l->strip && strip < 0)) return true;
  if (l->ways && l->axis_dim == axis && l->strip_dim == strip) return true;
  if (!l->ways++) l->axis_dim = axis, l->strip_dim = strip;
  return true;
}

int pass_list_dims(const ir_stmt *stmt, const ir_tensor *tensor, const ir_index *axis, const ir_index *strip, int *axis_dim,
                   int *strip_dim) {
  lying l = {.tensor = tensor, .axis = axis, .strip = strip, .axis_dim = -1, .strip_dim = -1};
  ir_expr *const in[] = {stmt->value, stmt->sample, stmt->cond};
  for (size_t i = 0; i < sizeof in / sizeof *in; i++)
    if (in[i]) (void)ir_expr_walk(in[i], note_way, &l);
  *axis_dim = l.axis_dim;
  *strip_dim = l.strip_dim;
  return l.ways;
}

const char *pass_list_is_ambiguous(pass_context *context, const ir_stmt *stmt, const pass_listed *listed) {
  int axis_dim, strip_dim;
  if (pass_list_dims(stmt, listed->access->tensor, listed->axis, listed->strip_index, &axis_dim, &strip_dim) <= 1) return NULL;
  return ir_format_text(context->arena, "`%s` is read along its rows and along its columns: a list would not say which",
                        listed->access->tensor->name);
}

static const char *cannot_list(pass_context *context, const pass_sum *sum,
                               const pass_listed *operand) {
  if (!sum->k) return "the statement sums over several indices at once";
  if (sum->flattened) return "several of the product's indices are one: lists are of a matrix whose rows and columns are an index each";
  if (sum->k->offsets)
    return "the summed index is ragged: a list runs along the whole axis, not along a segment";
  if (!sum->stmt->target->like && pass_tensor_is_sparse(sum->stmt->target))
    return "the result's pattern is found from what operands store, entry by entry";
  const ir_axis *axis = axis_of(sum->stmt, sum->k);
  if (axis && !axis->invariant) return axis->why;
  if (context->program->strict_nan) return "strict NaN: no zero may be skipped";
  if (context->program->batch_invariant)
    return "batch invariance: a list is the union of a strip of rows, so a row's bits would depend "
           "on its neighbours";
  if (!pass_bare_access(operand->access))
    return "a subscript is computed, not a bare index (rule L1)";
  if (operand->axis_dim < 0) return "the operand does not have the summed index";
  if (operand->access->tensor->rank != 2)
    return "index lists are made of matrices; this operand has another rank";
  if (operand->strip_dim < 0) return "no index of the result runs along its strips";
  return pass_list_is_ambiguous(context, sum->stmt, operand);
}

pass_listed pass_listed_of(pass_context *context, const pass_sum *sum, ir_expr *factor) {
  pass_listed operand = {.access = factor, .axis = sum->k, .axis_dim = -1, .strip_dim = -1};
  for (int d = 0; d < factor->arg_count; d++) {
    ir_index *index = factor->args[d]->kind == IR_INDEX ? factor->args[d]->index : NULL;
    if (!index) continue;
    if (index == sum->k)
      operand.axis_dim = d;
    else if (pass_indices_has(&(pass_indices){{sum->stmt->free.at, sum->stmt->free.count, 0}},
                              index)) {
      operand.strip_dim = d;
      operand.strip_index = index;
    }
  }
  operand.cannot = cannot_list(context, sum, &operand);
  return operand;
}
