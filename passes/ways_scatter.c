/* ways_scatter.c - rows that are sent where a vector of integers says, and combined there in order.
 *
 *     y[p[r],o] += w[r]*z[r,o]
 *
 * Loops keep the order by taking one row after the other. The row of the kernel table turns it round: who
 * makes a row of y looks for the rows that are sent there. That reads p once for every few rows of y, from
 * near, and every value once. */
#include <math.h>

#include "passes/choice.h"
#include "passes/expr.h"
#include "passes/storage.h"

typedef struct scatter {
  const ir_index *row, *column;
} scatter;

static bool scatter_of(const ir_stmt *stmt, scatter *out) {
  if (stmt->target->rank != 2 || stmt->free.count != 2) return false;
  int column = stmt->subs[1]->kind == IR_INDEX ? 1 : 0;
  if (stmt->subs[column]->kind != IR_INDEX) return false;
  const ir_expr *name = ir_row_name(stmt->subs[1 - column]);
  *out = (scatter){name ? name->args[0]->index : NULL, stmt->subs[column]->index};
  return out->row && out->row != out->column && !out->column->offsets;
}

/* Only dense tensors at bare indices, and no segment's number. */
static bool reads_in_place(const ir_expr *e, const scatter *s) {
  if (e->kind == IR_INDEX && e->index != s->row && e->index != s->column) return false;
  if (e->kind == IR_ACCESS && (!pass_bare_access(e) || pass_tensor_is_sparse(e->tensor))) return false;
  for (int i = 0; i < e->arg_count; i++)
    if (!reads_in_place(e->args[i], s)) return false;
  return true;
}

static const char *misfit(const ir_stmt *stmt, const scatter *s) {
  const ir_tensor *t = stmt->target;
  if (stmt->combine != IR_RED_SUM && stmt->combine != IR_RED_MAX && stmt->combine != IR_RED_MIN)
    return "what is sent to one place is not added up";
  if (!ir_dtype_is_float(t->dtype) || ir_dtype_bytes(t->dtype) > 4 || stmt->acc == IR_F64 ||
      !ir_dtype_is_float(stmt->value->dtype))
    return "its sums are f32";
  if (pass_tensor_is_sparse(t) || (t->format && !ir_format_is_dense(t->format))) return "its result is stored sparse";
  if (stmt->cond || stmt->sample) return "a condition says where it is computed";
  if (!pass_is_elementwise(stmt->value) || !reads_in_place(stmt->value, s))
    return "its values are read at computed positions";
  return NULL;
}

double pass_scatter_cost(pass_context *context, const ir_stmt *stmt, const ir_kernel_row *row) {
  const pass_profile *p = context->profile;
  scatter s;
  if (!scatter_of(stmt, &s)) return INFINITY;
  double rows = pass_index_assumed(context, s.row), columns = pass_index_assumed(context, s.column);
  double all = pass_size_assumed(context, stmt->target->dim[0]) * pass_size_assumed(context, stmt->target->dim[1]);
  double tiles = ceil(all / columns / row->m) * ceil(columns / row->n);
  double looked = tiles * rows * 4 / (p->gather_gbs * 1e3);
  double moved = (rows * columns * 4 + pass_tensor_bytes(context, stmt->target)) / (p->bandwidth_gbs * 1e3);
  return p->launch_us + p->start_us + looked + moved;
}

void pass_ways_scatter(pass_context *context, pass_ways *ways) {
  const ir_stmt *stmt = ways->stmt;
  scatter s;
  if (!ir_is_scatter(stmt) || !scatter_of(stmt, &s)) return;
  const char *why = misfit(stmt, &s);
  for (int i = 0; i < ir_kernel_row_count; i++) {
    const ir_kernel_row *row = &ir_kernel_rows[i];
    if (!ir_kernel_scatters(row)) continue;
    ir_candidate *candidate = pass_candidate_new(context, ways, row->name);
    candidate->label = ir_format_text(context->arena, "rows found where they are sent, tile %dx%d", row->m, row->n);
    if (why) candidate->why = why;
    pass_candidate_estimate(context, NULL, candidate);
  }
}
