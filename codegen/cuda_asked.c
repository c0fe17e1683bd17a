/* cuda_asked.c - where a product of few rows is asked for (kernels/nskip.cuh, nbulk.cuh).
 *
 *     by values    element by element of the matrix that its condition names
 *     by bits      that the epilogue of who makes this matrix has left on the way, strips of a tile's rows; where it could not: by values */
#include "codegen/cuda.h"

const ir_list *cg_asked_list(const ir_stage *stage) {
  const ir_list *list = stage->kind == IR_STAGE_COMPUTE && !stage->when.above ? stage->when.list : NULL;
  return list && list->bits && !list->ids && list->fused ? list : NULL;
}

/* Words of a strip at most; 0: nobody knows. */
static int64_t most_words(const ir_list *list) {
  int64_t columns;
  return ir_size_bound(list->capacity, &columns) && columns <= INT32_MAX ? (columns + 31) / 32 : 0;
}

void cg_asked_use(ir_arena *arena, cg_launch *l, ir_buf *values, bool bits_are_there) {
  const ir_list *list = cg_asked_list(l->stage);
  l->buf_asked = cg_buffer_use(arena, l, values);
  l->ahead = 3;
  if (!list || !bits_are_there || list->tensor != l->asked.tensor || list->strip != l->row->m || list->gran != 1) return;
  if (ir_kernel_brings_rows(l->row) && !most_words(list)) return; /* its threads keep words in registers (kernels/nbulk.cuh) */
  l->buf_asked_bits = cg_buffer_use(arena, l, list->bits);
}

/* ---- what nobody asks for ---------------------------------------------------------------------- */
typedef struct accesses {
  const ir_tensor *tensor;
  int count;
} accesses;

static bool count(void *user, ir_expr *node) {
  accesses *a = user;
  a->count += node->kind == IR_ACCESS && node->tensor == a->tensor;
  return true;
}

static int accesses_of(const ir_stmt *stmt, const ir_tensor *tensor) {
  accesses a = {tensor, 0};
  ir_expr *const parts[] = {stmt->value, stmt->cond, stmt->sample, stmt->support};
  for (int i = 0; i < IR_COUNT(parts); i++)
    if (parts[i]) ir_expr_walk(parts[i], count, &a);
  return a.count;
}

/* It reads the tensor where bits say that somebody has asked, and nowhere else. */
static bool reads_asked_alone(const ir_stage *stage, const ir_tensor *tensor) {
  const ir_list *list = stage->reads.count ? stage->reads.at[0] : NULL;
  const ir_kernel_row *row = stage->row ? ir_kernel_row_named(stage->row) : NULL;
  return list && list->tensor == tensor && list->bits && !list->ids && row && ir_kernel_skips(row) && !ir_kernel_skips_columns(row) &&
         stage->stmts.count == 1 && accesses_of(stage->stmts.at[0], tensor) == 1;
}

/* Somebody reads what the stage does not compute, and takes it for zeros: the caller, or a stage that runs beside it. */
static bool rest_is_read(const ir_kernel *kernel, const ir_stage *stage) {
  const ir_tensor *tensor = stage->stmts.at[0]->target;
  if (tensor->role != IR_ROLE_LET && tensor->role != IR_ROLE_TEMP) return true;
  for (int i = 0; i < kernel->lists.count; i++)
    if (kernel->lists.at[i]->tensor == tensor && (kernel->lists.at[i]->ids || kernel->lists.at[i]->verdict || kernel->lists.at[i] != stage->detects)) return true;
  for (int i = 0; i < kernel->stages.count; i++) {
    const ir_stage *other = kernel->stages.at[i];
    if (other->source == tensor) return true;
    if (other->when.list && other->when.list == stage->when.list && other->when.above) continue; /* of what the dense branch computes */
    for (int n = 0; n < other->stmts.count; n++)
      if (accesses_of(other->stmts.at[n], tensor) && !reads_asked_alone(other, tensor)) return true;
  }
  return false;
}

/* ---- text ---------------------------------------------------------------------------------------- */
static void put_bits(ir_arena *arena, const cg_launch *l, ir_text *out) {
  ir_text_printf(out, "  static constexpr bool asks_bits = %s;\n", l->buf_asked_bits >= 0 ? "true" : "false");
  if (l->buf_asked_bits < 0) return;
  const ir_list *list = cg_asked_list(l->stage);
  int64_t strips;
  const bool few = ir_size_bound(list->strips, &strips) && strips <= 8;
  ir_text_printf(out, "  static constexpr bool asked_by_many = %s; // strips, for all that is known\n", few ? "false" : "true");
  if (ir_kernel_brings_rows(l->row)) ir_text_printf(out, "  static constexpr int asked_most = %d; // words of a strip\n", (int)most_words(list));
  ir_text_printf(out, "  SPC_DEVICE const spc_u32 *asked_bits(const spc_args &args) { return (const spc_u32 *)args.buf[%d]; } // %s\n", l->buf_asked_bits, list->name);
  ir_text_printf(out, "  SPC_DEVICE int asked_words(const spc_args &args) { return (int)(((unsigned)(%s) + 31) / 32); } // of a strip\n", cg_size_text(arena, list->capacity));
}

void cg_asked_print(ir_arena *arena, const ir_kernel *kernel, const cg_launch *l, ir_text *out) {
  const cg_operand *o = &l->asked;
  double step = 0;
  if (l->buf_asked < 0) return;
  const char *type = ir_dtype_rows[o->tensor->dtype].cuda, *by_m = cg_size_text(arena, o->stride_m);
  ir_text_printf(out, "  static constexpr int ahead = %d; // turns whose loads are under way\n", l->ahead);
  ir_text_printf(out, "  SPC_DEVICE bool asked(const spc_args &args, long long m, long long n) { // %s\n", o->tensor->name);
  ir_text_printf(out, "    return spc_get(((const %s *)args.buf[%d])[m * %s + n * %s]) != 0;\n", type, l->buf_asked, by_m, cg_size_text(arena, o->stride_n));
  ir_text_put(out, "  }\n");
  put_bits(arena, l, out);
  ir_text_printf(out, "  static constexpr bool clears = %s; // zeros where nobody asks\n", rest_is_read(kernel, l->stage) ? "true" : "false");
  if (!ir_kernel_brings_rows(l->row)) return;
  ir_text_printf(out, "  using W = %s;\n", type);
  ir_text_printf(out, "  static constexpr bool asked_together = %s; // columns of a row lie side by side\n", ir_const_value(o->stride_n, &step) && step == 1 ? "true" : "false");
  ir_text_printf(out, "  SPC_DEVICE const W *asked_values(const spc_args &args) { return (const W *)args.buf[%d]; }\n", l->buf_asked);
  ir_text_printf(out, "  SPC_DEVICE long long asked_pitch(const spc_args &args) { return %s; }\n", by_m);
}
