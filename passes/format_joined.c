/* format_joined.c - operands that no kernel of matrices reads as they lie, copied so that one does: indices that are summed
 * together lie apart in them, or runs of memory are along neither index of a matrix.
 *
 *     y[t,d] = sum[h,e] o[h,t,e]*W[h,e,d]      o_joined[t,h,e] = o[h,t,e]
 *       (a GPU)                            ->  y[t,d] = sum[h,e] o_joined[t,h,e]*W[h,e,d]
 *
 * Kernels of matrices sum over one index, or over several that are one in both operands (ir/roles.h).  The copy has the
 * result's indices in front, in the result's order, and then the summed ones as the other operand has them. */
#include "ir/roles.h"
#include "passes/choice.h"
#include "passes/contract.h"
#include "passes/expr.h"
#include "passes/storage.h"

static const double MOST_BYTES = 1 << 30, MARGIN = 1.25;

typedef struct joined {
  pass_context *context;
  ir_stmt *stmt;
  ir_expr *access;         /* what is copied */
  int from[IR_MAX_RANK];   /* dimension of the source, by dimension of the copy */
  ir_tensor *copy;
  double microseconds;
} joined;

/* ---- which copy ------------------------------------------------------------------------------ */
static bool is_plain(const pass_operand *side) {
  const ir_expr *e = side->access;
  return e && e->kind == IR_ACCESS && side->value == e && pass_bare_access(e) && !pass_tensor_is_sparse(e->tensor) && !e->tensor->like &&
         (!e->tensor->format || ir_format_is_row_major(e->tensor->format));
}

static bool place(joined *j, int *rank, const ir_index *index) {
  int d = pass_dim_of(j->access, index);
  if (d >= 0) j->from[(*rank)++] = d;
  return d >= 0;
}

/* The result's indices, then the summed ones in the other operand's order; false: that is how it lies. */
static bool order_of(joined *j, const ir_expr *other, const ir_expr *reduce) {
  int rank = 0;
  bool moved = false;
  for (int d = 0; d < j->stmt->target->rank; d++)
    if (j->stmt->subs[d]->kind == IR_INDEX) place(j, &rank, j->stmt->subs[d]->index);
  for (int d = 0; d < other->arg_count; d++)
    for (int i = 0; i < reduce->bound_count; i++)
      if (ir_is_bare(other->args[d], reduce->bound[i])) place(j, &rank, reduce->bound[i]);
  for (int d = 0; d < rank; d++) moved |= j->from[d] != d;
  return moved && rank == j->access->tensor->rank;
}

static ir_tensor *copy_of(const joined *j) {
  const char *why = "";
  const ir_tensor *source = j->access->tensor;
  ir_tensor *copy = IR_NEW(j->context->arena, ir_tensor);
  copy->role = IR_ROLE_TEMP;
  copy->dtype = source->dtype;
  copy->rank = source->rank;
  copy->pattern = source->pattern;
  for (int d = 0; d < copy->rank; d++) copy->dim[d] = source->dim[j->from[d]];
  copy->format = ir_format_builtin(j->context->arena, "dense", copy->rank, NULL, 0, &why);
  copy->constant = source->constant;
  copy->format_why = ir_format_text(j->context->arena, "`%s` with what is summed side by side: a product of matrices reads runs of that", source->name);
  return copy;
}

static ir_stmt *reading(const joined *j, ir_tensor *copy) {
  ir_arena *arena = j->context->arena;
  ir_expr *args[IR_MAX_RANK];
  ir_stmt *stmt = IR_NEW(arena, ir_stmt);
  *stmt = *j->stmt;
  for (int d = 0; d < copy->rank; d++) args[d] = j->access->args[j->from[d]];
  stmt->value = pass_replace_node(arena, stmt->value, j->access, ir_access(arena, copy, args));
  stmt->support = stmt->stores = NULL;
  return stmt;
}

static bool settle(joined *j, const pass_operand *side, const pass_operand *other, const ir_expr *reduce) {
  pass_sum sum;
  j->access = side->access;
  if (!is_plain(side) || !is_plain(other) || !order_of(j, other->access, reduce)) return false;
  j->copy = copy_of(j);
  double bytes = pass_tensor_bytes(j->context, j->access->tensor);
  if (bytes > MOST_BYTES || !pass_sum_of(j->context, reading(j, j->copy), &sum) || !sum.matrices) return false;
  bool once = j->copy->constant && !j->context->program->unpacked;
  j->microseconds = pass_matrix_cost(j->context, &sum) + (once ? 0 : pass_turn_cost(j->context, j->access->tensor));
  return j->microseconds * MARGIN < pass_loops_cost(j->context, j->stmt);
}

/* ---- rewriting ------------------------------------------------------------------------------- */
static ir_stmt *copying(const joined *j, ir_kernel *kernel, ir_tensor *copy) {
  ir_stmt *stmt = pass_format_copy(j->context, kernel, j->access->tensor, copy), plain = *stmt;
  for (int d = 0; d < copy->rank; d++) {
    stmt->subs[d] = plain.subs[j->from[d]];
    stmt->free.at[d] = stmt->subs[d]->index;
  }
  return stmt;
}

static ir_tensor *make_copy(const joined *j, ir_kernel *kernel, int at) {
  ir_arena *arena = j->context->arena;
  ir_tensor *copy = ir_tensor_new(kernel, ir_fresh_name(kernel, ir_format_text(arena, "%s_joined", j->access->tensor->name)), IR_ROLE_TEMP, j->copy->dtype);
  const char *name = copy->name;
  *copy = *j->copy;
  copy->name = name;
  pass_format_insert(arena, kernel, at, copying(j, kernel, copy));
  return copy;
}

static bool choose(pass_context *context, ir_stmt *stmt, joined *out) {
  pass_sum sum;
  pass_contraction_info info;
  if (ir_is_scatter(stmt) || stmt->sample || !pass_sum_of(context, stmt, &sum) || sum.matrices || sum.grouped || !sum.reduce->bound_count) return false;
  if (!pass_contraction(context->arena, stmt, &info) || info.guard || info.factor || info.ragged) return false;
  if (info.k.list.count != sum.reduce->bound_count || pass_tensor_is_sparse(stmt->target)) return false;
  joined a = {.context = context, .stmt = stmt}, b = a;
  bool by_a = settle(&a, &info.a, &info.b, sum.reduce), by_b = settle(&b, &info.b, &info.a, sum.reduce);
  *out = by_a && (!by_b || a.microseconds <= b.microseconds) ? a : b;
  return by_a || by_b;
}

/* ---- a CPU ------------------------------------------------------------------------------------ */
/* Panels are packed from an operand whose runs of memory are along its columns, or along the one index that is summed; what is
 * copied so is read by as many rows, or columns, of the other operand. */
enum { LEAST_READERS = 16 };

/* A tile of the product reads both as they lie (lower_gather.c orders its loops). */
static bool suits_panels(pass_context *context, const ir_stmt *stmt) {
  pass_contraction_info info;
  const ir_index *row, *column;
  ir_flat summed;
  if (!pass_contraction(context->arena, stmt, &info)) return false;
  if (!pass_tile_of(stmt, &info, &row, &column)) return true;
  const ir_expr *columns = pass_dim_of(info.a.access, column) >= 0 ? info.a.access : info.b.access;
  const ir_index *nearest = pass_contiguous_index(columns, false);
  return nearest && (nearest == column || pass_indices_has(&info.k, nearest)) &&
         ir_roles_summed(info.a.access, info.b.access, info.reduce->bound, info.reduce->bound_count, &summed);
}

static bool copy_for_panels(pass_context *context, ir_stmt *stmt, bool of_a, joined *out) {
  pass_contraction_info info;
  if (!pass_contraction(context->arena, stmt, &info)) return false;
  const pass_operand *side = of_a ? &info.a : &info.b, *other = of_a ? &info.b : &info.a;
  *out = (joined){.context = context, .stmt = stmt, .access = side->access};
  if (pass_indices_size(context, of_a ? &info.n : &info.m) < LEAST_READERS || pass_tensor_bytes(context, side->tensor) > MOST_BYTES) return false;
  if (!order_of(out, other->access, info.reduce)) return false;
  out->copy = copy_of(out);
  return true;
}

static bool is_dense_product(pass_context *context, const ir_stmt *stmt, pass_contraction_info *info) {
  if (ir_is_scatter(stmt) || stmt->sample || stmt->cond || stmt->target->like || pass_tensor_is_sparse(stmt->target) ||
      (stmt->target->format && !ir_format_is_row_major(stmt->target->format)) || !pass_contraction(context->arena, stmt, info))
    return false;
  if (info->guard || info->ragged || info->k.list.count != info->reduce->bound_count || !is_plain(&info->a) || !is_plain(&info->b)) return false;
  return info->a.tensor->pattern.zeros == IR_ZEROS_UNKNOWN && info->b.tensor->pattern.zeros == IR_ZEROS_UNKNOWN;
}

/* One copy, the smaller one that does, or else both. */
static int copies_for_panels(pass_context *context, ir_stmt *stmt, joined *copies) {
  pass_contraction_info info;
  joined one[2];
  bool can[2], does[2];
  if (!is_dense_product(context, stmt, &info) || suits_panels(context, stmt)) return 0;
  for (int i = 0; i < 2; i++) {
    can[i] = copy_for_panels(context, stmt, i == 0, &one[i]);
    does[i] = can[i] && suits_panels(context, reading(&one[i], one[i].copy));
  }
  bool smaller = pass_tensor_bytes(context, info.a.tensor) <= pass_tensor_bytes(context, info.b.tensor);
  int best = does[0] && (!does[1] || smaller) ? 0 : 1;
  if (does[best]) return copies[0] = one[best], 1;
  if (!can[0]) return 0;
  ir_stmt *first = reading(&one[0], one[0].copy);
  if (!copy_for_panels(context, first, false, &one[1]) || !suits_panels(context, reading(&one[1], one[1].copy))) return 0;
  copies[0] = one[0], copies[1] = one[1];
  return 2;
}

static void join_for_panels(pass_context *context, ir_kernel *kernel) {
  for (int s = 0; s < kernel->stmts.count; s++) {
    joined copies[2];
    int count = copies_for_panels(context, kernel->stmts.at[s], copies);
    for (int i = 0; i < count; i++) {
      copies[i].stmt = kernel->stmts.at[s];
      ir_tensor *copy = make_copy(&copies[i], kernel, s++);
      *kernel->stmts.at[s] = *reading(&copies[i], copy);
    }
  }
}

void pass_format_joined(pass_context *context, ir_kernel *kernel) {
  if (pass_target_of(context)->kind == IR_TARGET_CPU) join_for_panels(context, kernel);
  if (pass_target_of(context)->kind != IR_TARGET_CUDA) return;
  for (int s = 0; s < kernel->stmts.count; s++) {
    joined j;
    if (!choose(context, kernel->stmts.at[s], &j)) continue;
    ir_tensor *copy = make_copy(&j, kernel, s++);
    *kernel->stmts.at[s] = *reading(&j, copy);
  }
}
