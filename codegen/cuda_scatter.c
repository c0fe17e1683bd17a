/* cuda_scatter.c - a statement read as rows that are sent to named places, and combined there.
 *
 *     T[p[m], n] += e(m, n)          p a vector of integers; m may be ragged: then rows of segments alone */
#include "codegen/cuda.h"

bool cg_scatter_read(ir_arena *arena, const ir_stmt *stmt, cg_scatter *out) {
  ir_expr *strides[IR_MAX_RANK];
  *out = (cg_scatter){.buf_names = -1, .buf_offsets = -1};
  const ir_tensor *t = stmt->target;
  if (t->rank != 2 || !cg_dense_strides(arena, t, strides)) return false;
  int column = stmt->subs[1]->kind == IR_INDEX ? 1 : 0;
  const ir_expr *names = ir_row_name(stmt->subs[1 - column]);
  if (!names || stmt->subs[column]->kind != IR_INDEX) return false;
  out->m = names->args[0]->index;
  out->n = stmt->subs[column]->index;
  out->names = names->tensor;
  out->rows = t->dim[1 - column];
  out->stride_row = strides[1 - column];
  out->stride_column = strides[column];
  return out->m != out->n && stmt->free.count == 2;
}
