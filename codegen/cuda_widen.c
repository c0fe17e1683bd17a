/* cuda_widen.c - a statement read as a product with a factor of 8-bit integers (ir/widened.h). */
#include "codegen/cuda.h"
#include "ir/widened.h"

/* The strides of the scales by the wide factor's own index, by group, and by batch. */
static bool take_scales(ir_arena *arena, const ir_widened *w, const cg_product *p, const ir_index *own, cg_scales *out) {
  ir_expr *strides[IR_MAX_RANK];
  int group = ir_widened_group_dim(w);
  *out = (cg_scales){.buf = -1};
  if (!w->scale) return true;
  if (!cg_dense_strides(arena, w->scale->tensor, strides)) return false;
  *out = (cg_scales){.tensor = w->scale->tensor, .group = w->group, .buf = -1, .stride_group = strides[group]};
  out->stride_free = cg_stride_of(strides, w->scale->args, w->scale->arg_count, own);
  if (!out->stride_free) out->stride_free = ir_int(arena, 0);
  for (int i = 0; i < p->batch_count; i++) {
    ir_expr *stride = cg_stride_of(strides, w->scale->args, w->scale->arg_count, p->batch[i]);
    out->stride_batch[i] = stride ? stride : ir_int(arena, 0);
  }
  return true;
}

bool cg_widened_read(ir_arena *arena, ir_stmt *stmt, const ir_kernel_row *row, cg_product *out, cg_scales *scales, const char **why) {
  ir_widened w;
  *why = "it does not sum products of 16-bit floats with integers of 8 bits";
  ir_roles roles;
  if (ir_is_scatter(stmt) || !ir_widened_of(stmt, &w) || !ir_widened_roles(stmt, &w, &roles) ||
      !cg_product_of(arena, stmt, w.factor, w.wide, w.sum, out, why)) return false;
  const ir_index *own = out->a.tensor == w.wide->tensor ? out->m : out->n;
  *why = "its scales do not lie as its kernel reads them";
  if (!take_scales(arena, &w, out, own, scales)) return false;
  bool first = out->a.tensor == w.wide->tensor;
  if (first != (row->load_a == IR_LOADER_WIDE)) cg_product_swap(out);
  *why = "the scales' groups are no multiples of the k's that the kernel adds up at once";
  return scales->group % ir_kernel_group(row) == 0;
}
