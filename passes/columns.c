/* columns.c - products of which only some columns of each strip are asked for (sampled products).
 *
 *     u[t,f] = e(sum[d] x[t,d]*W[d,f])  on g[t,f] != 0      lists of the f's where a strip of g is
 * not y[t,o] = sum[f] u[t,f]*V[f,o]                         zero: u is computed there, and written
 * in the list's order; y reads it so
 *
 * What is not listed is not written.  So it must not be read: every reader of u sums over f and
 * walks the same list, or stands behind the same guard's dense branch beside a u that is whole. */
#include "passes/choice.h"
#include "passes/contract.h"
#include "passes/expr.h"
#include "passes/storage.h"

/* The matrix whose zeros make the term false. */
static ir_expr *asked_matrix(ir_expr *term) {
  if (term->kind == IR_OP && term->op == IR_OP_NE && pass_is_number(term->args[1], 0))
    term = term->args[0];
  else if (term->kind != IR_ACCESS || term->dtype != IR_B1)
    return NULL;
  while (term->kind == IR_CAST) term = term->args[0];
  bool matrix = term->kind == IR_ACCESS && term->arg_count == 2 && pass_bare_access(term);
  return matrix && term->tensor->dtype != IR_NONE && !pass_tensor_is_sparse(term->tensor) ? term
                                                                                          : NULL;
}

typedef struct zeros_search {
  const ir_tensor *bound;
  bool found;
} zeros_search;

/* Zeros that the bound does not have. */
static bool find_zeros(void *user, ir_expr *e) {
  zeros_search *search = user;
  bool makes = e->kind == IR_TOPK || (e->kind == IR_OP && (e->op == IR_OP_WHERE || (e->arg_count == 1 && ir_op_makes_zeros(e->op))));
  search->found |= makes || (e->kind == IR_ACCESS && e->tensor != search->bound && e->tensor->pattern.zeros == IR_ZEROS_DYNAMIC);
  return !search->found;
}

ir_tensor *pass_bound_of(pass_context *context, const ir_kernel *kernel, const ir_tensor *tensor) {
  const ir_stmt *def = tensor->def;
  pass_terms terms = {0};
  if (!def || def->fill != 0 || tensor->rank != 2 || tensor->pattern.density_low >= 0 || pass_schedule_compact(kernel, tensor)) return NULL;
  pass_terms_of(context->arena, def->cond, &terms);
  for (int i = 0; i < terms.list.count; i++) {
    const ir_expr *access = asked_matrix(terms.list.at[i]);
    bool there = access && pass_factor_dynamic(kernel, access);
    for (int d = 0; there && d < 2; d++) there = def->subs[d]->kind == IR_INDEX && ir_is_bare(access->args[d], def->subs[d]->index);
    zeros_search search = {there ? access->tensor : NULL, false};
    if (there) (void)ir_expr_walk(def->value, find_zeros, &search);
    if (there && !search.found) return access->tensor;
  }
  return NULL;
}

bool pass_stmt_reads(const ir_stmt *stmt, const ir_tensor *tensor) {
  const ir_expr *parts[] = {stmt->value, stmt->cond, stmt->sample};
  for (int i = 0; i < IR_COUNT(parts); i++)
    if (parts[i] && ir_expr_uses_tensor(parts[i], tensor)) return true;
  for (int d = 0; d < stmt->target->rank; d++)
    if (ir_expr_uses_tensor(stmt->subs[d], tensor)) return true;
  return false;
}

/* The dimension of the tensor that a statement sums over, where it reads it as a factor of a
 * product of matrices and nowhere else. */
static int summed_dim(pass_context *context, ir_stmt *stmt, const ir_tensor *tensor) {
  pass_sum sum;
  if (!pass_sum_of(context, stmt, &sum) || !sum.matrices || !sum.k) return -1;
  if (sum.a->tensor == sum.b->tensor) return -1;
  const ir_expr *factor = sum.a->tensor == tensor ? sum.a : sum.b->tensor == tensor ? sum.b : NULL;
  ir_expr *hole = ir_const_f(context->arena, sum.reduce->dtype, 0);
  ir_expr *rest = pass_replace_node(context->arena, stmt->value, sum.reduce, hole);
  if (!factor || ir_expr_uses_tensor(rest, tensor)) return -1;
  if (stmt->cond && ir_expr_uses_tensor(stmt->cond, tensor)) return -1;
  return pass_dim_of(factor, sum.k);
}

/* The dimension that all readers sum over; -1: there is none. */
static int listed_dim(pass_context *context, const ir_kernel *kernel, const ir_tensor *tensor) {
  int dim = -1;
  for (int i = 0; i < kernel->stmts.count; i++) {
    ir_stmt *stmt = kernel->stmts.at[i];
    if (stmt->target == tensor || !pass_stmt_reads(stmt, tensor)) continue;
    int one = summed_dim(context, stmt, tensor);
    if (one < 0 || (dim >= 0 && one != dim)) return -1;
    dim = one;
  }
  return dim;
}

const ir_expr *pass_columns_across(const pass_sum *sum, const pass_listed *listed) {
  const ir_expr *other = pass_dim_of(sum->a, listed->axis) >= 0 ? sum->a : sum->b;
  return pass_contiguous_index(other, false) != sum->k ? other : NULL;
}

const char *pass_columns_misfit(pass_context *context, const pass_sum *sum, const pass_listed *listed) {
  const ir_expr *across = pass_columns_across(sum, listed);
  if (!across) return NULL;
  return ir_format_text(context->arena,
                        "`%s` has %s contiguous: a listed column is two bytes of each row; `as "
                        "%s` would make it a row",
                        across->tensor->name, listed->axis->name,
                        ir_is_bare(across->args[0], sum->k) ? "dense_t" : "dense");
}

static const char *cannot_list(pass_context *context, const pass_sum *sum,
                               const pass_listed *listed) {
  const char *misfit = pass_columns_misfit(context, sum, listed);
  if (context->program->strict_nan) return "strict NaN: no zero may be skipped";
  if (context->program->batch_invariant)
    return "batch invariance: a list is the union of a strip of rows, so a row's bits would depend "
           "on its neighbours";
  if (ir_dtype_bytes(sum->stmt->target->dtype) != 2) return "listed columns are stored in 16 bits";
  if (misfit) return misfit;
  return pass_list_is_ambiguous(context, sum->stmt, listed);
}

bool pass_columns_of(pass_context *context, const ir_kernel *kernel, const pass_sum *sum,
                     pass_listed *out) {
  const ir_stmt *stmt = sum->stmt;
  const ir_tensor *target = stmt->target;
  if (!sum->matrices || sum->flattened || !sum->m_index || !sum->n_index || !ir_tensor_is_inner(target) || stmt->fill != 0) return false;
  int dim = pass_layout_is_free(kernel, target) ? listed_dim(context, kernel, target) : -1;
  if (dim < 0 || stmt->free.count != 2) return false;
  pass_terms terms = {0};
  pass_terms_of(context->arena, stmt->support, &terms);
  *out = (pass_listed){.axis = stmt->subs[dim]->index, .strip_index = stmt->subs[1 - dim]->index};
  for (int i = 0; i < terms.list.count && !out->access; i++) {
    ir_expr *access = asked_matrix(terms.list.at[i]);
    if (!access || !pass_factor_dynamic(kernel, access)) continue;
    out->axis_dim = pass_dim_of(access, out->axis);
    out->strip_dim = pass_dim_of(access, out->strip_index);
    if (out->axis_dim >= 0 && out->strip_dim >= 0) out->access = access;
  }
  if (!out->access) return false;
  out->cannot = cannot_list(context, sum, out);
  return true;
}

/* ---- runs of columns of a whole result ---------------------------------------------------------
 * Elsewhere it is the condition's fill, or 0 where a factor of the value is. */
static const char *cannot_pick(pass_context *context, const pass_sum *sum, const pass_listed *listed) {
  if (context->program->strict_nan) return "strict NaN: no zero may be skipped";
  if (context->program->batch_invariant)
    return "batch invariance: whether a density guard computes a row whole would depend on its "
           "neighbours";
  if (ir_dtype_bytes(sum->stmt->target->dtype) != 2) return "its boxes are of 16-bit results";
  return pass_list_is_ambiguous(context, sum->stmt, listed);
}

bool pass_blocks_of(pass_context *context, const ir_kernel *kernel, const pass_sum *sum,
                    pass_listed *out) {
  const ir_stmt *stmt = sum->stmt;
  const ir_tensor *target = stmt->target;
  if (!sum->matrices || sum->flattened || !sum->m_index || !sum->n_index || stmt->free.count != 2) return false;
  if (target->rank != 2 || target->like || pass_tensor_is_sparse(target)) return false;
  int dim = ir_last_dim(target);
  for (int d = 0; d < 2; d++)
    if (stmt->subs[d]->kind != IR_INDEX) return false;
  *out = (pass_listed){.axis = stmt->subs[dim]->index, .strip_index = stmt->subs[1 - dim]->index};
  ir_expr *condition = stmt->cond ? stmt->cond : stmt->fill == 0 ? stmt->support : NULL;
  pass_terms terms = {0};
  pass_terms_of(context->arena, condition, &terms);
  for (int i = 0; i < terms.list.count && !out->access; i++) {
    ir_expr *access = asked_matrix(terms.list.at[i]);
    if (!access || !pass_factor_dynamic(kernel, access) || access->tensor == target) continue;
    out->axis_dim = pass_dim_of(access, out->axis);
    out->strip_dim = pass_dim_of(access, out->strip_index);
    if (out->axis_dim >= 0 && out->strip_dim >= 0) out->access = access;
  }
  if (!out->access) return false;
  out->cannot = cannot_pick(context, sum, out);
  return true;
}

bool pass_is_sampled(const ir_candidate *candidate) {
  const ir_kernel_row *row = candidate->row ? ir_kernel_row_named(candidate->row) : NULL;
  return row && candidate->operand && ir_kernel_samples(row);
}

bool pass_is_packing(const ir_candidate *candidate) {
  const ir_kernel_row *row = candidate->row ? ir_kernel_row_named(candidate->row) : NULL;
  return row && candidate->operand && ir_kernel_packs(row);
}

bool pass_is_paired(const ir_candidate *candidate) {
  const ir_kernel_row *row = candidate->row ? ir_kernel_row_named(candidate->row) : NULL;
  return row && candidate->operand && ir_kernel_pairs(row);
}

bool pass_reads_packed(const ir_candidate *reader, const ir_candidate *writer) {
  return reader->operand == writer->target && reader->axis && !pass_is_sampled(reader) &&
         reader->strip == writer->strip && reader->gran == writer->gran && pass_is_paired(reader) == pass_is_paired(writer);
}

const ir_candidate *pass_writer_of(const ir_kernel *kernel, const ir_candidate *reader) {
  for (int i = 0; i < kernel->candidates.count; i++) {
    const ir_candidate *writer = kernel->candidates.at[i];
    if (writer->verdict == IR_CHOSEN && pass_is_sampled(writer) &&
        pass_reads_packed(reader, writer))
      return writer;
  }
  return NULL;
}
