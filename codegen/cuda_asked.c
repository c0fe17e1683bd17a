/* cuda_asked.c - where a product of few rows is asked for (kernels/nskip.cuh, nbulk.cuh).
 *
 *     by values    element by element of the matrix that its condition names
 *     by bits      that the epilogue of who makes this matrix has left on the way, strips of a tile's rows; where it could not: by values */
#include "codegen/cuda.h"

const ir_list *cg_asked_list(const ir_stage *stage) {
  const ir_list *list = stage->kind == IR_STAGE_COMPUTE && !stage->when.above ? stage->when.list : NULL;
  return list && list->bits && !list->ids && list->fused ? list : NULL;
}

void cg_asked_use(ir_arena *arena, cg_launch *l, ir_buf *values, bool bits_are_there) {
  const ir_list *list = cg_asked_list(l->stage);
  l->buf_asked = cg_buffer_use(arena, l, values);
  l->ahead = 3;
  if (list && bits_are_there && list->tensor == l->asked.tensor && list->strip == l->row->m && list->gran == 1)
    l->buf_asked_bits = cg_buffer_use(arena, l, list->bits);
}

static const char *size_text(ir_arena *arena, const ir_expr *size) {
  ir_text text = ir_text_new(arena);
  cg_print_size(arena, size, &text);
  return text.data;
}

static void put_bits(ir_arena *arena, const cg_launch *l, ir_text *out) {
  ir_text_printf(out, "  static constexpr bool asks_bits = %s;\n", l->buf_asked_bits >= 0 ? "true" : "false");
  if (l->buf_asked_bits < 0) return;
  const ir_list *list = cg_asked_list(l->stage);
  ir_text_printf(out, "  SPC_DEVICE const spc_u32 *asked_bits(const spc_args &args) { return (const spc_u32 *)args.buf[%d]; } // %s\n", l->buf_asked_bits, list->name);
  ir_text_printf(out, "  SPC_DEVICE long long asked_words(const spc_args &args) { return %s; } // of a strip\n", size_text(arena, ir_ceil_div(arena, list->capacity, 32)));
}

void cg_asked_print(ir_arena *arena, const cg_launch *l, ir_text *out) {
  const cg_operand *o = &l->asked;
  double step = 0;
  if (l->buf_asked < 0) return;
  const char *type = ir_dtype_rows[o->tensor->dtype].cuda, *by_m = size_text(arena, o->stride_m);
  ir_text_printf(out, "  static constexpr int ahead = %d; // turns whose loads are under way\n", l->ahead);
  ir_text_printf(out, "  SPC_DEVICE bool asked(const spc_args &args, long long m, long long n) { // %s\n", o->tensor->name);
  ir_text_printf(out, "    return spc_get(((const %s *)args.buf[%d])[m * %s + n * %s]) != 0;\n", type, l->buf_asked, by_m, size_text(arena, o->stride_n));
  ir_text_put(out, "  }\n");
  put_bits(arena, l, out);
  if (!ir_kernel_brings_rows(l->row)) return;
  ir_text_printf(out, "  using W = %s;\n", type);
  ir_text_printf(out, "  static constexpr bool asked_together = %s; // columns of a row lie side by side\n", ir_const_value(o->stride_n, &step) && step == 1 ? "true" : "false");
  ir_text_printf(out, "  SPC_DEVICE const W *asked_values(const spc_args &args) { return (const W *)args.buf[%d]; }\n", l->buf_asked);
  ir_text_printf(out, "  SPC_DEVICE long long asked_pitch(const spc_args &args) { return %s; }\n", by_m);
}
