/* cuda_buffers.c - the arrays of a launch, by number in the order of their first use, and what they are called. */
#include "codegen/cuda.h"

int cg_buffer_number(const cg_launch *launch, const ir_buf *buf) {
  for (int i = 0; i < launch->bufs.count; i++)
    if (launch->bufs.at[i] == buf) return i;
  return -1;
}

int cg_buffer_use(ir_arena *arena, cg_launch *launch, ir_buf *buf) {
  if (!buf) return -1;
  int number = cg_buffer_number(launch, buf);
  if (number >= 0) return number;
  IR_PUSH(arena, &launch->bufs, buf);
  return launch->bufs.count - 1;
}

ir_buf *cg_values_buffer(ir_arena *arena, const ir_tensor *tensor) {
  ir_buf *buf =
      ir_buf_new(arena, ir_format_text(arena, "%s.vals", tensor->name), IR_BUF_VALS, tensor->dtype);
  buf->tensor = (ir_tensor *)tensor;
  return buf;
}
