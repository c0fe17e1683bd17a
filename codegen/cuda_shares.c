/* cuda_shares.c - tiles of a list that several blocks share (kernels/shares.cuh): the list's `sums` and `arrived`.
 *
 *     who makes the list    clears its counters
 *     who computes over it  leaves a part's sums, counts, and goes on where it is the last */
#include "codegen/cuda.h"

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

void cg_share_tiles(ir_arena *arena, cg_launch *l) {
  const ir_list *list = ir_stage_shares(l->stage, l->row) ? l->list : NULL;
  if (!list || !list->sums) return;
  l->share_units = least(list->sums->count->i / (l->row->m * l->row->n), list->arrived->count->i / (ir_kernel_workers(l->row) / 128));
  if (!l->share_units) return;
  l->buf_sums = cg_buffer_use(arena, l, list->sums);
  l->buf_arrived = cg_buffer_use(arena, l, list->arrived);
}

void cg_clear_shares(ir_arena *arena, cg_launch *l) {
  if (l->list->arrived) l->buf_arrived = cg_buffer_use(arena, l, l->list->arrived);
}

static void put_counters(const cg_launch *l, ir_text *out) {
  ir_text_printf(out, "  SPC_DEVICE spc_u32 *arrived(const spc_args &args) { return (spc_u32 *)args.buf[%d]; }\n", l->buf_arrived);
}

void cg_shares_print(const cg_launch *l, ir_text *out) {
  ir_text_printf(out, "  static constexpr int share_units = %d; // there is room for the sums of so many parts of tiles\n", (int)l->share_units);
  if (!l->share_units) return;
  ir_text_printf(out, "  static constexpr int share_strips = %d, share_parts = %d, share_steps = %d, share_saves = %d; // strips and parts at most, k tiles of a part at least, and of listed k's spared\n",
                 IR_SHARED_STRIPS, IR_SHARED_PARTS, IR_SHARED_STEPS, IR_SHARED_SAVES);
  ir_text_printf(out, "  SPC_DEVICE float *sums_shared(const spc_args &args) { return (float *)args.buf[%d]; }\n", l->buf_sums);
  put_counters(l, out);
}

void cg_counters_print(const cg_launch *l, ir_text *out) {
  int words = l->buf_arrived < 0 ? 0 : (int)l->list->arrived->count->i;
  ir_text_printf(out, "  static constexpr int counters = %d; // of tiles that blocks share later\n", words);
  if (words) put_counters(l, out);
}
