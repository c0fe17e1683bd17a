/* cuda_bsr.c - products with stored blocks (ir/bsr.h): of which a factor is stored so, read as the kernels of gemm_bsr rows have it (that factor
 * is A), or the result, as those of gemm_sdd rows have it.
 *
 * The strides of such an operand are those inside a block: its pitch is the length of a block's contiguous side. */
#include "codegen/cuda.h"
#include "ir/bsr.h"

bool cg_block_strides(ir_arena *arena, const ir_tensor *tensor, ir_expr **strides) {
  ir_bsr bsr;
  if (!ir_bsr_of(ir_tensor_owner(tensor)->format, &bsr)) return false;
  strides[bsr.last_dim] = ir_int(arena, 1);
  strides[1 - bsr.last_dim] = ir_int(arena, bsr.factor[bsr.last_dim]);
  return true;
}

ir_buf *cg_level_buffer(ir_arena *arena, const ir_tensor *tensor, ir_buf_kind kind, int level) {
  const char *name = ir_format_text(arena, "%s.%s%d", tensor->name, kind == IR_BUF_POS ? "pos" : "crd", level);
  ir_buf *buf = ir_buf_new(arena, name, kind, IR_I32);
  buf->tensor = (ir_tensor *)tensor;
  buf->level = level;
  return buf;
}

const char *cg_bsr_read(cg_product *p, cg_bsr *out) {
  ir_bsr bsr;
  if (p->batch_count) return "blocks have no batch index";
  if (!p->a.tensor->format || ir_format_is_dense(p->a.tensor->format)) cg_product_swap(p);
  bool other = !p->b.tensor->format || ir_format_is_dense(p->b.tensor->format);
  if (!other || !ir_bsr_of(p->a.tensor->format, &bsr)) return "not exactly one of its factors is stored in blocks";
  int k = ir_is_bare(p->a.subs[0], p->k) ? 0 : 1;
  if (ir_bsr_misfit(&bsr, k)) return ir_bsr_misfit(&bsr, k);
  *out = (cg_bsr){.tensor = p->a.tensor, .block_m = bsr.factor[1 - k], .block_k = bsr.factor[k], .by_k = bsr.outer_dim == k, .buf_pos = -1, .buf_crd = -1};
  return NULL;
}

const char *cg_sdd_read(cg_product *p, const ir_kernel_row *row, cg_sdd *out) {
  ir_bsr bsr;
  const ir_tensor *tensor = ir_bsr_result(p->stmt, &bsr);
  if (!tensor || p->batch_count) return "its result has not the stored blocks of an input";
  if (ir_is_bare(p->stmt->subs[bsr.outer_dim], p->n)) cg_product_swap(p);
  if (p->t.layout != 'r') return "the blocks of its result are stored column by column";
  if (bsr.factor[bsr.outer_dim] % row->m) return "a tile of the result is not in one row of blocks";
  *out = (cg_sdd){.tensor = tensor, .block_m = bsr.factor[bsr.outer_dim], .block_n = bsr.factor[1 - bsr.outer_dim], .buf_pos = -1, .buf_crd = -1};
  return ir_bsr_misfit(&bsr, 1 - bsr.outer_dim);
}
