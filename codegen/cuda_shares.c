/* cuda_shares.c - tiles of a list that several blocks share (kernels/shares.cuh): the list's workspaces `LIST.sums` and `LIST.arrived`.
 *
 *     who makes the list    clears its counters
 *     who computes over it  leaves a part's sums, counts, and goes on where it is the last
 *
 * A list that is made once and kept serves runs beside each other, which may not share counters: its tiles are not shared. */
#include "codegen/cuda.h"

static const char *const SUMS = "sums", *const ARRIVED = "arrived";

/* Their number is known; NULL: there are none to be used. */
static ir_buf *counters_of(const ir_kernel *kernel, const ir_list *list) {
  ir_buf *arrived = ir_workspace_of_list(kernel, list, ARRIVED);
  return arrived && arrived->count->kind == IR_CONST && !cg_list_made_once(kernel, list) ? arrived : NULL;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

void cg_share_tiles(ir_arena *arena, const ir_kernel *kernel, cg_launch *l) {
  if (!l->list || !(l->samples || l->n_blocks) || !ir_kernel_shares(l->row)) return;
  ir_buf *sums = ir_workspace_of_list(kernel, l->list, SUMS), *arrived = counters_of(kernel, l->list);
  if (!sums || !arrived || sums->count->kind != IR_CONST) return;
  l->share_units = least(sums->count->i / (l->row->m * l->row->n), arrived->count->i / (ir_kernel_workers(l->row) / 128));
  if (!l->share_units) return;
  l->buf_sums = cg_buffer_use(arena, l, sums);
  l->buf_arrived = cg_buffer_use(arena, l, arrived);
}

void cg_clear_shares(ir_arena *arena, const ir_kernel *kernel, cg_launch *l) {
  ir_buf *arrived = counters_of(kernel, l->list);
  if (arrived) l->buf_arrived = cg_buffer_use(arena, l, arrived);
}

static void put_counters(const cg_launch *l, ir_text *out) {
  ir_text_printf(out, "  SPC_DEVICE spc_u32 *arrived(const spc_args &args) { return (spc_u32 *)args.buf[%d]; }\n", l->buf_arrived);
}

void cg_shares_print(const cg_launch *l, ir_text *out) {
  ir_text_printf(out, "  static constexpr int share_units = %d; // there is room for the sums of so many parts of tiles\n", (int)l->share_units);
  if (!l->share_units) return;
  ir_text_printf(out, "  static constexpr int share_strips = %d; // of a list of more none are\n", IR_SHARED_STRIPS);
  ir_text_printf(out, "  SPC_DEVICE float *sums_shared(const spc_args &args) { return (float *)args.buf[%d]; }\n", l->buf_sums);
  put_counters(l, out);
}

void cg_counters_print(const cg_launch *l, ir_text *out) {
  int words = l->buf_arrived < 0 ? 0 : (int)l->bufs.at[l->buf_arrived]->count->i;
  ir_text_printf(out, "  static constexpr int counters = %d; // of tiles that blocks share later\n", words);
  if (words) put_counters(l, out);
}
