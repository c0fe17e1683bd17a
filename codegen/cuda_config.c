/* cuda_config.c - the middle layer of emitted CUDA: one struct of named constants and one entry.
 *
 * The struct says everything that a skeleton asks for by name (gemm.cuh, detect.cuh); control flow
 * is in the skeletons, fused arithmetic in the fragment.  Every emitted source opens with the
 * statement it computes, the choice that was made and its reason. */
#include "codegen/cuda.h"
#include "ir/attend.h"

typedef struct config {
  ir_arena *arena;
  const ir_kernel *kernel;
  const cg_launch *l;
  ir_text *out;
} config;

static void line(const config *c, const char *format, ...) IR_PRINTF(2, 3);
static void line(const config *c, const char *format, ...) {
  va_list args;
  va_start(args, format);
  ir_text_put(c->out, "  ");
  ir_text_vprintf(c->out, format, args);
  ir_text_put(c->out, "\n");
  va_end(args);
}

static const char *size_text(const config *c, const ir_expr *size) { return cg_size_text(c->arena, size); }

static const char *sample_name(const cg_launch *sample) { return sample->list->replaces ? "Other" : "Sample"; }

static const char *cuda_type(ir_dtype t) { return ir_dtype_rows[t].cuda; }

/* ---- the comment on top ---------------------------------------------------------------------- */
static void put_commented(ir_text *out, const char *text) {
  ir_text_put(out, "// ");
  for (const char *t = text; *t; t++) {
    if (*t != '\n')
      ir_text_putn(out, t, 1);
    else if (t[1])
      ir_text_put(out, "\n//   ");
  }
  ir_text_put(out, "\n");
}

static void put_opening(const config *c) {
  const ir_stage *stage = c->l->stage;
  ir_text_printf(c->out, "// %s, stage %s: %s\n", c->kernel->name, stage->name,
                 c->l->row ? c->l->row->name : "generated loops");
  for (int i = 0; i < stage->stmts.count; i++) {
    ir_text statement = ir_text_new(c->arena);
    ir_print_stmt(stage->stmts.at[i], &statement);
    put_commented(c->out, statement.data);
  }
  const ir_list *list = c->l->list;
  if (list)
    ir_text_printf(c->out, "// list %s: strips of %lld, micro-tiles of %lld along %s\n", list->name,
                   (long long)list->strip, (long long)list->gran, list->axis->name);
  if (stage->why) put_commented(c->out, ir_format_text(c->arena, "because %s", stage->why));
  for (int i = 0; i < c->l->bufs.count; i++)
    ir_text_printf(c->out, "%s%s = buf[%d]", i ? i % 6 ? ", " : "\n//   " : "// ",
                   c->l->bufs.at[i]->name, i);
  ir_text_put(c->out, "\n");
}

/* ---- functions of the struct ----------------------------------------------------------------- */
static void put_size(const config *c, const char *name, const ir_expr *size) {
  line(c, "SPC_DEVICE long long %s(const spc_args &args) { return %s; }", name, size_text(c, size));
}

static void put_pointer(const config *c, const char *name, const char *type, int buf) {
  if (buf < 0) return;
  line(c, "SPC_DEVICE %s *%s(const spc_args &args) { return (%s *)args.buf[%d]; }", type, name, type, buf);
}

/* What a launch behind a front begins with (kernels/guard.cuh). */
const char *cg_leaves_to_front(ir_arena *arena, const cg_launch *l) {
  if (!l->fronted || l->sample) return "";
  return ir_format_text(arena, "  if (spc_leaves_to_front(args, spc_said_in_front(args, (const int *)args.buf[%d]), (const int *)args.buf[%d])) return;\n",
                        l->buf_verdict, l->buf_front);
}

int cg_list_number(const ir_kernel *kernel, const ir_list *list) {
  for (int i = 0; i < kernel->lists.count; i++)
    if (kernel->lists.at[i] == list) return i;
  return -1;
}

/* What who decides asks for.  Where two lists are weighed the one that replaces the other is the second. */
static void put_decision(const config *c) {
  put_pointer(c, "verdict", "int", c->l->buf_verdict);
  line(c, "SPC_DEVICE double threshold(const spc_args &args) { return args.%s; }", c->l->list && c->l->list->replaces ? "other_threshold" : "threshold");
}

/* The other one of two lists of which one guards the stage; who is the dense branch heeds the one that counts. */
static void put_other(const config *c) {
  const ir_list *other = c->l->other;
  bool asks = other && !c->l->sample && (c->l->own_dense || c->l->stage->when.above);
  line(c, "static constexpr int other_list = %d; static constexpr bool asks_other = %s; // of two", other ? cg_list_number(c->kernel, other) : -1, asks ? "true" : "false");
  if (asks) put_pointer(c, "other_verdict", "const int", c->l->buf_other);
  else line(c, "SPC_DEVICE const int *other_verdict(const spc_args &) { return nullptr; }");
}

/* Another statement takes the branch that this one decides for. */
static bool is_heeded(const config *c) {
  const ir_stage *stage = c->l->stage;
  for (int i = 0; i < c->kernel->stages.count; i++) {
    const ir_stage *other = c->kernel->stages.at[i];
    if (other->kind == IR_STAGE_COMPUTE && other->when.list == stage->when.list && other->stmts.at[0] != stage->stmts.at[0]) return true;
  }
  return false;
}

static void put_guard(const config *c) {
  bool guarded = c->l->stage->when.list && c->l->buf_verdict >= 0 && !c->l->own_dense && !c->l->own_lists && !c->l->own_verdict && !c->l->decides && !c->l->sample;
  bool computes = c->l->stage->kind == IR_STAGE_COMPUTE && !(c->l->decides && is_heeded(c));
  line(c, "static constexpr bool guarded = %s, dense_branch = %s;", guarded ? "true" : "false",
       guarded && c->l->stage->when.above ? "true" : "false");
  line(c, "static constexpr int reported = %d; // number of the list", computes ? cg_list_number(c->kernel, c->l->stage->when.list) : -1);
  line(c, "static constexpr bool takes_sample = %s; // of what is asked for or looked at, and decides", c->l->decides ? "true" : "false");
  line(c, "static constexpr bool announces = %s, informed = %s; // who comes behind the verdict, when it comes; may leave by it at once", c->l->announces ? "true" : "false", c->l->informed ? "true" : "false");
  if (c->l->own_lists || c->l->own_verdict || c->l->decides)
    put_decision(c);
  else if (guarded || c->l->own_dense)
    put_pointer(c, "verdict", "const int", c->l->buf_verdict);
  else
    line(c, "SPC_DEVICE const int *verdict(const spc_args &) { return nullptr; }");
  put_other(c);
}

/* Index i of batch number `batch`: they are flattened row-major, and a grid has less than 2^32 of them. */
static const char *batch_index(const config *c, int i) {
  const cg_product *p = &c->l->product;
  ir_text text = ir_text_new(c->arena);
  ir_expr *inner = NULL;
  for (int j = i + 1; j < p->batch_count; j++)
    inner = inner ? ir_apply(c->arena, IR_OP_MUL, inner, p->batch[j]->extent) : p->batch[j]->extent;
  ir_text_printf(&text, "(long long)((spc_u32)batch");
  if (inner) ir_text_printf(&text, " / (spc_u32)(%s)", size_text(c, inner));
  if (i > 0) ir_text_printf(&text, " %% (spc_u32)(%s)", size_text(c, p->batch[i]->extent));
  ir_text_printf(&text, ")");
  return text.data;
}

/* Offset of batch number `batch` in an operand. */
static const char *batch_offset(const config *c, const cg_operand *o) {
  ir_text text = ir_text_new(c->arena);
  for (int i = 0; i < c->l->product.batch_count; i++)
    ir_text_printf(&text, " + %s * (%s)", batch_index(c, i), size_text(c, o->stride_batch[i]));
  return text.data ? text.data : "";
}

static void put_operand(const config *c, const char *name, const char *constant,
                        const cg_operand *o, int buf) {
  const char *type = cuda_type(o->tensor->dtype);
  bool batched = c->l->product.batch_count > 0;
  line(c,
       "SPC_DEVICE %s%s *%s(const spc_args &args, long long%s) { return (%s%s *)args.buf[%d]%s; } "
       "// %s",
       constant, type, name, batched ? " batch" : "", constant, type, buf,
       batched ? batch_offset(c, o) : "", o->tensor->name);
}

/* Vectors that are brought to the fragment: element `at` of number `i`. */
static void put_vectors(const config *c, const char *name, const int *bufs, int count) {
  line(c, "static constexpr int %ss_read = %d;", name, count);
  line(c, "SPC_DEVICE float %s(const spc_args &args, int i, long long at) {", name);
  for (int i = 0; i < count; i++)
    line(c, "  if (i == %d) return spc_get(((const %s *)args.buf[%d])[at]); // %s", i,
         cuda_type(c->l->bufs.at[bufs[i]]->dtype), bufs[i], c->l->bufs.at[bufs[i]]->name);
  line(c, "  return 0;");
  line(c, "}");
}

static void put_batch_index(const config *c) {
  line(c, "SPC_DEVICE long long batch_at(const spc_args &args, long long batch, int d) {");
  for (int i = 0; i < c->l->product.batch_count; i++) line(c, "  if (d == %d) return %s;", i, batch_index(c, i));
  line(c, "  return 0;");
  line(c, "}");
}

/* Whether it stands behind a front: it asks when it has begun, and not first of all as others do (kernels/guard.cuh). */
static void put_behind(const config *c) {
  bool behind = c->l->fronted && !c->l->sample;
  line(c, "static constexpr bool has_front = %s; // before it", behind ? "true" : "false");
  line(c, behind ? "SPC_DEVICE const int *front(const spc_args &args) { return (const int *)args.buf[%d]; }" : "SPC_DEVICE const int *front(const spc_args &) { return nullptr; }",
       c->l->buf_front);
}

/* What only the kernels that move boxes ask for. */
static void put_boxes(const config *c) {
  const cg_launch *l = c->l;
  const cg_brought *b = &l->brought;
  line(c, "static constexpr int store_boxes = %d, split = %d, keepers = %d; // blocks that share a tile, by k, and those that store",
       l->store_boxes, ir_kernel_split(l->row), ir_kernel_keepers(l->row));
  line(c, "static constexpr bool narrow_slabs = %s, stages_place = %s, stages_flags = %s;", l->narrow_slabs ? "true" : "false", l->stages_place ? "true" : "false", l->stages_flags ? "true" : "false");
  line(c, "static constexpr bool reads_place = %s, fragment_reads = %s;", b->place >= 0 ? "true" : "false", b->reads_more ? "true" : "false");
  line(c, "using P = %s; // at T's place",
       cuda_type(b->place >= 0 ? l->bufs.at[b->place]->dtype : l->product.t.tensor->dtype));
  line(c, "static constexpr bool fetches = %s;", b->fetched >= 0 ? "true" : "false");
  if (b->fetched >= 0) {
    const char *type = cuda_type(l->bufs.at[b->fetched]->dtype);
    line(c, "using F = %s; // what threads fetch from T's place", type);
    put_pointer(c, "fetched", ir_format_text(c->arena, "const %s", type), b->fetched);
  }
  put_vectors(c, "column", b->column, b->columns);
  put_vectors(c, "row", b->row, b->rows);
  line(c, "static constexpr bool mixes = %s; // boxes of one operand beside rows of the other",
       l->samples || l->packed || l->regroups || l->groups.segment ? "true" : "false");
  if (l->samples && b->place >= 0) put_pointer(c, "at_place", "const P", b->place);
  put_size(c, "tiles", cg_product_tiles(c->arena, l));
  put_behind(c);
  line(c, "static constexpr bool fills = %s; // of a whole result, what no listed column touches", l->buf_whole >= 0 ? "true" : "false");
  put_pointer(c, "whole_t", "T", l->buf_whole);
  if (l->buf_whole >= 0) put_size(c, "pitch_whole", l->pitch_whole);
  line(c, "static constexpr bool in_place = %s; // listed columns of a whole result are stored where they belong", l->in_place ? "true" : "false");
  if (l->in_place) line(c, l->buf_partial < 0 ? "SPC_DEVICE int partial(const spc_args &, int) { return 1; }" : "SPC_DEVICE int partial(const spc_args &args, int strip) { return ((const int *)args.buf[%d])[strip]; }", l->buf_partial);
  if (l->in_place) cg_spread_print_in_place(c->arena, l, c->out);
  cg_shares_print(l, c->out);
  line(c, "static constexpr int batches_mapped = %d, batches_a = %d, batches_b = %d; // that T, A and B have", l->product.batch_count,
       l->product.a.batches, l->product.b.batches);
  put_batch_index(c);
}

/* ---- products -------------------------------------------------------------------------------- */
/* How warps (of a wgmma row: warpgroups of 64 rows) cut the tile. */
static void warps_of(const ir_kernel_row *row, int *m, int *n) {
  if (row->multiply == IR_MULTIPLY_WGMMA) {
    ir_kernel_groups(row, m, n);
    return;
  }
  int warps = row->threads / 32;
  *m = 1;
  while (warps / *m > 1 && *m * row->n < warps / *m * row->m) *m *= 2;
  if (row->m >= row->n && warps >= 4 && *m < 2) *m = 2;
  *n = warps / *m;
}

static void put_tile(const config *c) {
  const ir_kernel_row *row = c->l->row;
  const cg_product *p = &c->l->product;
  int warps_m, warps_n;
  warps_of(row, &warps_m, &warps_n);
  line(c, "using A = %s; using B = %s; using T = %s;", cuda_type(p->a.tensor->dtype),
       cuda_type(p->b.tensor->dtype), cuda_type(p->t.tensor->dtype));
  line(c, "static constexpr int tile_m = %d, tile_n = %d, tile_k = %d, depth = %d;", row->m, row->n, row->k, c->l->depth);
  line(c, "static constexpr int threads = %d, warps_m = %d, warps_n = %d, shared_bytes = %d;",
       row->threads, warps_m, warps_n, c->l->shared_bytes);
  line(c, "static constexpr int workers = %d, loaders = %d; // threads that multiply, threads that load", ir_kernel_workers(row),
       ir_kernel_workers(row) < row->threads ? row->threads - ir_kernel_workers(row) : row->threads);
  line(c, "static constexpr int parts = %d; // numbers of the tensor cores that a factor is the sum of",
       ir_kernel_precision(row) == IR_PRECISION_TF32X3 ? 2 : 1);
  line(c, "static constexpr int raster = %d; // tiles of m that share columns of B in L2", c->l->gathers ? 32 : 8);
  line(c, "static constexpr bool evenly = %s; // blocks that have a tile lie all over the machine", cg_deals_evenly(c->l) ? "true" : "false");
  line(c, "static constexpr bool turns = %s; // warpgroups have tiles of their own", ir_kernel_takes_turns(row) ? "true" : "false");
  line(c, "static constexpr char layout_a = '%c', layout_b = '%c', layout_t = '%c';", p->a.layout,
       p->b.layout, p->t.layout);
}

static void put_fill(const config *c, float fill) {
  uint32_t bits;
  memcpy(&bits, &fill, sizeof bits);
  line(c, "SPC_DEVICE float fill() { return __uint_as_float(0x%08xu); } // %g: what no list names",
       (unsigned)bits, (double)fill);
}

static void put_lists(const config *c) {
  const cg_launch *l = c->l;
  const ir_list *read = l->gathers || l->samples || l->k_blocks || l->n_blocks || l->live || l->krows ? l->list : NULL;
  const ir_list *made = c->l->detects ? c->l->stage->detects : NULL;
  bool halves = ir_kernel_pairs(l->row), own = read && read->pairs && l->gathers && !halves && read->strip % l->row->m == 0;
  line(c, "static constexpr bool gathers = %s, samples = %s, packed = %s, detects = %s;",
       c->l->gathers ? "true" : "false", c->l->samples ? "true" : "false",
       c->l->packed ? "true" : "false", made ? "true" : "false");
  line(c, "static constexpr int packed_map = %d; // of an A that is packed", l->compacted ? 3 : 0);
  line(c, "static constexpr bool grouped = %s, halves = %s, own_strips = %s;", l->groups.segment ? "true" : "false",
       halves ? "true" : "false", own ? "true" : "false");
  line(c, "static constexpr bool k_blocks = %s, n_blocks = %s, regroups = %s, live = %s, own_dense = %s;",
       l->k_blocks ? "true" : "false", l->n_blocks ? "true" : "false",
       l->regroups || l->live ? "true" : "false", l->live ? "true" : "false", l->own_dense ? "true" : "false");
  line(c, "static constexpr int narrow = %d; // columns of narrower tiles, where there are such", ir_kernel_narrow(l->row));
  line(c, "static constexpr bool own_lists = %s, own_verdict = %s, heeds = %s; // heeds what the launch before says, and does not wait for it then", l->own_lists ? "true" : "false",
       l->own_verdict ? "true" : "false", l->heeds ? "true" : "false");
  put_pointer(c, "order", "const int", l->buf_order);
  if (read) {
    line(c, "static constexpr int strip = %lld, gran = %lld;%s", (long long)read->strip * (read->pairs && !own ? 2 : 1),
         (long long)read->gran, read->pairs && !own ? " // two strips of the list" : "");
    put_pointer(c, "ids", "const int", c->l->buf_ids);
    put_pointer(c, "counts", l->own_lists ? "int" : "const int", l->buf_counts);
    put_size(c, "capacity", read->capacity);
    if (halves || own) put_size(c, "pairs", ir_ceil_div(c->arena, read->strips, 2));
  }
  bool fills = l->buf_whole >= 0 || (l->n_blocks && l->list); /* by its bits */
  if (fills) put_fill(c, (float)l->stage->stmts.at[0]->fill);
  if (made)
    line(c, "static constexpr int detect_strip = %lld, detect_gran = %lld; static constexpr bool detect_across = %s; // strips lie along n",
         (long long)made->strip, (long long)made->gran, l->detects_across ? "true" : "false");
  if (l->own_lists || l->own_verdict || l->krows) put_size(c, "strips", read->strips);
  if (l->krows) put_pointer(c, "rows_packed", "const A", l->buf_packed);
  if (ir_kernel_skips(l->row) && !ir_kernel_skips_columns(l->row)) {
    line(c, "static constexpr bool noted = %s; // bits say where A is not zero", l->noted ? "true" : "false");
    line(c, "static constexpr int strip = %lld;", l->noted ? (long long)l->noted->strip : 1ll);
    line(c, "static constexpr bool own_a = %s; // its memory is the kernel's, rows as long as their pitch", ir_tensor_is_inner(l->product.a.tensor) ? "true" : "false");
  }
  if (l->noted) read = l->noted;
  if (!made && !fills && !l->own_lists && !l->noted && !l->live) return;
  put_pointer(c, "bits", made ? "spc_u32" : "const spc_u32", l->buf_bits);
  put_size(c, "bit_words", ir_ceil_div(c->arena, (made ? made : read)->capacity, 32));
}

/* How A's blocks lie. */
static void put_bsr(const config *c) {
  const cg_bsr *b = &c->l->bsr;
  line(c, "static constexpr bool bsr = %s;", b->tensor ? "true" : "false");
  if (!b->tensor) return;
  line(c, "static constexpr int block_m = %lld, block_k = %lld; // %s", (long long)b->block_m, (long long)b->block_k, b->tensor->name);
  line(c, "static constexpr bool blocks_by_k = %s; // the outer level of blocks is k's", b->by_k ? "true" : "false");
  put_pointer(c, "pos", "const int", b->buf_pos);
  put_pointer(c, "crd", "const int", b->buf_crd);
}

/* How T's blocks lie. */
static void put_sdd(const config *c) {
  const cg_sdd *b = &c->l->sdd;
  line(c, "static constexpr bool sdd = %s;", b->tensor ? "true" : "false");
  if (!b->tensor) return;
  line(c, "static constexpr int strip = %lld, gran = %lld; // %s", (long long)b->block_m, (long long)b->block_n, b->tensor->name);
  put_pointer(c, "pos", "const int", b->buf_pos);
  put_pointer(c, "crd", "const int", b->buf_crd);
}

/* Where a group of rows begins, and which row of A a row of the result is made of. */
static void put_groups(const config *c) {
  const cg_groups *g = &c->l->groups;
  if (!g->segment) return;
  put_size(c, "groups", g->segment->extent);
  line(c, "SPC_DEVICE long long offset(const spc_args &args, int g) { return ((const %s *)args.buf[%d])[g]; } // %s",
       cuda_type(g->offsets->dtype), g->buf_offsets, g->offsets->name);
  if (!g->rows) {
    line(c, "SPC_DEVICE int row(const spc_args &, int m) { return m; }");
    return;
  }
  line(c, "SPC_DEVICE int row(const spc_args &args, int m) { // %s", g->rows->name);
  line(c, "  long long at = ((const %s *)args.buf[%d])[m];", cuda_type(g->rows->dtype), g->buf_rows);
  line(c, "  return at >= 0 && at < (%s) ? (int)at : -1;", size_text(c, g->a_rows));
  line(c, "}");
}

/* The factor that is widened: what is multiplied with it, and what the sums of its groups are scaled by. */
static void put_widening(const config *c) {
  const cg_scales *s = &c->l->scales;
  const cg_product *p = &c->l->product;
  line(c, "static constexpr bool widens = %s;", ir_kernel_widens(c->l->row) ? "true" : "false");
  line(c, "static constexpr int group = %lld; // k's that share a scale", (long long)s->group);
  if (!s->tensor) return;
  cg_operand at = {.tensor = s->tensor};
  memcpy(at.stride_batch, s->stride_batch, sizeof at.stride_batch);
  line(c, "SPC_DEVICE float scale(const spc_args &args, long long%s, long long n, long long g) { // %s", p->batch_count ? " batch" : "",
       s->tensor->name);
  line(c, "  return spc_get(((const %s *)args.buf[%d])[n * %s + g * %s%s]);", cuda_type(s->tensor->dtype), s->buf,
       size_text(c, s->stride_free), size_text(c, s->stride_group), p->batch_count ? batch_offset(c, &at) : "");
  line(c, "}");
}

static void put_epilogue(const config *c) {
  const ir_func *f = c->l->func;
  bool boxes = ir_kernel_moves_boxes(c->l->row) || ir_kernel_writes_bsr(c->l->row);
  const char *brought = boxes ? ", const spc_brought &spc_at" : "";
  ir_dtype operand = ir_kernel_widens(c->l->row) ? IR_F32 : c->l->product.a.tensor->dtype;
  const char *sum = operand == IR_I8 ? "int" : operand == IR_F64 ? "double" : "float";
  if (!f || !f->result || f->params.count < 4) {
    line(c,
         "SPC_DEVICE %s epilogue(const spc_args &, %s acc, long long, long long, long long%s) "
         "{ return acc; }",
         sum, sum, brought);
    return;
  }
  const char *param[4];
  for (int i = 0; i < 4; i++) param[i] = cg_cuda_name(c->arena, f->params.at[i]->name);
  int m = c->l->product.swapped ? 2 : 1;
  line(c,
       "SPC_DEVICE %s epilogue(const spc_args &args, %s %s, long long %s, long long %s, long long "
       "%s%s) {",
       cg_value_type(f->result->dtype), cg_value_type(f->params.at[0]->dtype), param[0], param[m],
       param[3 - m], param[3], brought);
  if (f->params.count > 4) line(c, "  const long long %s = spc_at.place;", cg_cuda_name(c->arena, f->params.at[4]->name));
  cg_printer printer = {.out = c->out, .func = f, .launch = c->l, .depth = 2};
  cg_print_fragment(&printer);
  line(c, "}");
}

static void put_product(const config *c) {
  const cg_product *p = &c->l->product;
  put_tile(c);
  line(c, "// m = %s, n = %s, k = %s", p->m->name, p->n->name, p->k->name);
  put_size(c, "m", p->size_m);
  put_size(c, "n", p->size_n);
  put_size(c, "k", p->size_k);
  put_operand(c, "a", "const ", &p->a, c->l->buf_a);
  put_operand(c, "b", "const ", &p->b, c->l->buf_b);
  put_operand(c, "t", "", &p->t, c->l->buf_t);
  put_size(c, "pitch_a", p->a.pitch);
  put_size(c, "pitch_b", p->b.pitch);
  put_size(c, "pitch_t", p->t.pitch);
  if (ir_kernel_moves_boxes(c->l->row)) put_boxes(c);
  if (ir_kernel_skips(c->l->row))
    line(c, "static constexpr int split = %d, beside = %d; // blocks that share a tile, by k; on a multiprocessor\n"
            "  static constexpr bool joined = %s, holds = %s; // another part of the kernel has waited; who comes behind waits for all to have left",
         ir_kernel_split(c->l->row), cg_blocks_beside(c->l), c->l->joined ? "true" : "false", c->l->holds ? "true" : "false");
  put_lists(c);
  put_bsr(c);
  put_sdd(c);
  put_groups(c);
  put_widening(c);
  cg_asked_print(c->arena, c->kernel, c->l, c->out);
  put_guard(c);
  put_epilogue(c);
}

/* A fragment that only the launch at hand asks for, of its own m and n. */
static void put_function(const config *c, const char *name, const char *type, const ir_func *f) {
  const char *param[4];
  for (int i = 0; i < 4; i++) param[i] = cg_cuda_name(c->arena, f->params.at[i]->name);
  int m = c->l->product.swapped ? 2 : 1;
  line(c, "SPC_DEVICE %s %s(const spc_args &args, float %s, long long %s, long long %s, long long %s) {", type, name, param[0], param[m], param[3 - m], param[3]);
  cg_printer printer = {.out = c->out, .func = f, .launch = c->l, .depth = 2};
  cg_print_fragment(&printer);
  line(c, "}");
}

/* Whole results from listed columns. */
static void put_spread(const config *c) {
  const cg_launch *l = c->l;
  line(c, "using T = %s;", cuda_type(l->product.t.tensor->dtype));
  line(c, "static constexpr int threads = %d, strip = %lld, columns = %d;", l->threads, (long long)l->list->strip, cg_spread_width(l));
  put_size(c, "m", l->product.size_m);
  put_size(c, "n", l->product.size_n);
  put_pointer(c, "bits", "const spc_u32", l->buf_bits);
  put_size(c, "bit_words", ir_ceil_div(c->arena, l->list->capacity, 32));
  put_guard(c);
  cg_spread_print(c->arena, l, c->out);
}

/* ---- attention -------------------------------------------------------------------------------- */
/* Any block that reaches into the tile. */
static void put_visits(const config *c) {
  const cg_attend *t = &c->l->attend;
  int64_t m = cg_attend_step_of(t->visits, 1), n = cg_attend_step_of(t->visits, 2);
  const long long tile_m = c->l->row->m, tile_n = c->l->row->n;
  line(c, "static constexpr bool listed = %s; // tiles are asked for one by one", t->visits->result->kind == IR_CONST ? "false" : "true");
  put_function(c, "block", "long long", t->visits);
  line(c, "SPC_DEVICE bool visits(const spc_args &args, long long m0, long long n0, long long batch) {");
  line(c, "  const long long step_m = %lld, step_n = %lld;", m ? (long long)m : tile_m, n ? (long long)n : tile_n);
  line(c, "  for (long long m1 = m0; m1 < m0 + tile_m; m1 = (m1 / step_m + 1) * step_m)");
  line(c, "    for (long long n1 = n0; n1 < n0 + tile_n; n1 = (n1 / step_n + 1) * step_n)");
  line(c, "      if (m1 < m(args) && n1 < n(args) && block(args, 0, m1, n1, batch)) return true;");
  line(c, "  return false;");
  line(c, "}");
}

static void put_scores(const config *c) {
  const cg_attend *t = &c->l->attend;
  double scale;
  bool linear = cg_attend_is_linear(t->inside, &scale);
  line(c, "static constexpr bool linear = %s, masked = %s;", linear ? "true" : "false", t->masked ? "true" : "false");
  line(c, "static constexpr float scale = %af; // a score, of the sum, where that is all", linear ? (double)(float)scale : 1);
  put_function(c, "score", "float", t->score);
  put_function(c, "inside", "float", t->inside);
  put_function(c, "first", "long long", t->first);
  put_function(c, "behind", "long long", t->behind);
  line(c, "SPC_DEVICE spc_span columns(const spc_args &args, long long m0, long long m1, long long batch) { // that some, and that all of these rows see");
  line(c, "  return {first(args, 0, m0, 0, batch), behind(args, 0, m1 - 1, 0, batch), first(args, 0, m1 - 1, 0, batch), behind(args, 0, m0, 0, batch)};");
  line(c, "}");
  put_visits(c);
  put_function(c, "epilogue", "float", t->epilogue);
}

/* What is asked once, a note a tile and a bit a pair (kernels/tile_mask.cuh). */
static void put_noted(const config *c) {
  const cg_attend *t = &c->l->attend;
  line(c, "static constexpr bool noted = %s; // by the launch before", t->asked ? "true" : "false");
  if (!t->asked) return;
  put_pointer(c, "notes", "unsigned char", cg_buffer_number(c->l, t->notes));
  line(c, "SPC_DEVICE spc_u32 *claims(const spc_args &args) { return (spc_u32 *)args.buf[%d]; }", cg_buffer_number(c->l, t->mask));
  line(c, "SPC_DEVICE spc_u32 *mask(const spc_args &args) { return (spc_u32 *)args.buf[%d] + %d; }", cg_buffer_number(c->l, t->mask), IR_ATTEND_WORDS);
  if (!t->takes_notes) put_function(c, "plane", "long long", t->plane);
}

static bool uses_batch(const ir_func *f) {
  const ir_var *batch = f->params.at[3];
  for (int i = 0; i < f->body.codes.count; i++) {
    const ir_code *code = f->body.codes.at[i];
    if (code->kind != IR_LET && code->kind != IR_COMMENT) return true;
    if (code->kind == IR_LET && ir_expr_uses_var(code->value, batch)) return true;
  }
  return ir_expr_uses_var(f->result, batch);
}

static void put_tile_mask(const config *c) {
  const cg_attend *t = &c->l->attend;
  line(c, "static constexpr int tile_n = %d, threads = %d;", c->l->tile_n, c->l->threads);
  int64_t m = t->step_m->result->i, n = t->step_n->result->i;
  bool whole = m % IR_ATTEND_NOTED == 0 && n % c->l->tile_n == 0;
  line(c, "static constexpr int step_m = %lld; // what is asked is the same for so many rows", (long long)(m ? m : IR_ATTEND_NOTED));
  line(c, "static constexpr bool whole_tiles = %s; // and for all pairs of a tile", whole ? "true" : "false");
  bool bounded = !uses_batch(t->first) && !uses_batch(t->behind);
  line(c, "static constexpr bool bounded = %s; // columns of a row, in all batches alike", bounded ? "true" : "false");
  if (bounded) put_function(c, "first", "long long", t->first);
  if (bounded) put_function(c, "behind", "long long", t->behind);
  put_size(c, "m", c->l->product.size_m);
  put_size(c, "n", c->l->product.size_n);
  put_size(c, "noted_tiles", t->notes->count);
  put_guard(c);
  put_noted(c);
  put_function(c, "asked", "long long", t->asked);
}

static void put_attend(const config *c) {
  const ir_kernel_row *row = c->l->row;
  const cg_product *p = &c->l->product;
  const cg_attend *t = &c->l->attend;
  line(c, "using F = %s; using T = %s;", cuda_type(p->a.tensor->dtype), cuda_type(p->t.tensor->dtype));
  line(c, "static constexpr int tile_m = %d, tile_n = %d, depth = %d;", row->m, row->n, c->l->depth);
  line(c, "static constexpr int threads = %d, workers = %d, shared_bytes = %d;", row->threads, ir_kernel_workers(row), c->l->shared_bytes);
  line(c, "static constexpr int head = %d, head_v = %d; // %s, %s", t->head, t->head_v, p->k->name, t->column->name);
  line(c, "static constexpr int split = %d, store_boxes = %d; // blocks that share a tile, by n", ir_kernel_split(row), c->l->store_boxes);
  line(c, "// m = %s, n = %s", p->m->name, p->n->name);
  put_size(c, "m", p->size_m);
  put_size(c, "n", p->size_n);
  put_size(c, "tiles", cg_product_tiles(c->arena, c->l));
  put_operand(c, "q", "const ", &p->a, c->l->buf_a);
  put_operand(c, "k", "const ", &p->b, c->l->buf_b);
  put_operand(c, "v", "const ", &t->v, t->buf_v);
  put_operand(c, "t", "", &p->t, c->l->buf_t);
  put_size(c, "pitch_q", p->a.pitch);
  put_size(c, "pitch_k", p->b.pitch);
  put_size(c, "pitch_v", t->v.pitch);
  put_size(c, "pitch_t", p->t.pitch);
  line(c, "static constexpr int batches_mapped = %d, batches_q = %d, batches_k = %d, batches_v = %d; // that T, q, k and v have", p->batch_count, p->a.batches,
       p->b.batches, t->v.batches);
  put_batch_index(c);
  put_guard(c);
  put_noted(c);
  put_scores(c);
}

/* ---- scatters -------------------------------------------------------------------------------- */
static void put_value(const config *c) {
  const ir_func *f = c->l->func;
  const char *param[4];
  for (int i = 0; i < 4; i++) param[i] = cg_cuda_name(c->arena, f->params.at[i]->name);
  line(c, "SPC_DEVICE float value(const spc_args &args, long long %s, long long %s) {", param[1], param[2]);
  cg_printer printer = {.out = c->out, .func = f, .launch = c->l, .depth = 2};
  cg_print_fragment(&printer);
  line(c, "}");
}

static void put_ends(const config *c) {
  const cg_scatter *s = &c->l->scatter;
  if (!s->m->offsets) {
    line(c, "SPC_DEVICE long long first(const spc_args &) { return 0; }");
    line(c, "SPC_DEVICE long long last(const spc_args &args) { return m(args); }");
    return;
  }
  const char *type = cuda_type(s->m->offsets->dtype);
  line(c, "SPC_DEVICE long long first(const spc_args &args) { return ((const %s *)args.buf[%d])[0]; } // %s", type,
       s->buf_offsets, s->m->offsets->name);
  line(c, "SPC_DEVICE long long last(const spc_args &args) { return ((const %s *)args.buf[%d])[%s]; }", type,
       s->buf_offsets, size_text(c, s->m->segment->extent));
}

static void put_scatter(const config *c) {
  const cg_scatter *s = &c->l->scatter;
  const ir_kernel_row *row = c->l->row;
  const ir_stmt *stmt = c->l->stage->stmts.at[0];
  bool most = stmt->combine == IR_RED_MAX, least = stmt->combine == IR_RED_MIN;
  line(c, "using T = %s;", cuda_type(stmt->target->dtype));
  line(c, "static constexpr int tile_m = %d, tile_n = %d, threads = %d;", row->m, row->n, row->threads);
  put_size(c, "m", s->m->extent);
  put_size(c, "n", s->n->extent);
  put_size(c, "rows", s->rows);
  put_size(c, "pitch_row", s->stride_row);
  put_size(c, "pitch_column", s->stride_column);
  line(c, "SPC_DEVICE T *t(const spc_args &args) { return (T *)args.buf[%d]; }", c->l->buf_t);
  put_ends(c);
  line(c, "SPC_DEVICE int target(const spc_args &args, int r) { // %s", s->names->name);
  line(c, "  long long at = ((const %s *)args.buf[%d])[r];", cuda_type(s->names->dtype), s->buf_names);
  line(c, "  return at >= 0 && at < rows(args) ? (int)at : -1;");
  line(c, "}");
  line(c, "SPC_DEVICE float identity() { return %s; }",
       most ? "__int_as_float(0xff800000)" : least ? "__int_as_float(0x7f800000)" : "0.0f");
  line(c, "SPC_DEVICE float combine(float a, float b) { return %s; }",
       most ? "spc_max(a, b)" : least ? "spc_min(a, b)" : "a + b");
  put_guard(c);
  put_value(c);
}

/* ---- detection, lists, guard ----------------------------------------------------------------- */
/* The dimension that strips are cut from; of whole rows, along them. */
static int strip_dim(const cg_launch *l) { return l->live ? 1 - l->list->axis_dim : l->list->strip_dim; }

static void put_is_set(const config *c) {
  const ir_list *list = c->l->list;
  ir_expr *stride[IR_MAX_RANK];
  cg_dense_strides(c->arena, list->tensor, stride);
  int across_dim = strip_dim(c->l);
  ir_expr *across = across_dim >= 0 ? stride[across_dim] : ir_int(c->arena, 0);
  ir_expr *along = stride[list->axis_dim];
  bool by_strip = across->kind == IR_CONST && across->i == 1;
  bool by_axis = along->kind == IR_CONST && along->i == 1;
  const char *type = cuda_type(list->tensor->dtype);
  line(c, "using V = %s;", type);
  line(c, "SPC_DEVICE const V *values(const spc_args &args) { return (const V *)args.buf[%d]; }",
       c->l->buf_a);
  put_size(c, "pitch", along);
  put_size(c, "strip_pitch", across);
  line(c, "static constexpr bool strip_is_contiguous = %s, axis_is_contiguous = %s;",
       by_strip ? "true" : "false", by_axis ? "true" : "false");
  line(c, "SPC_DEVICE bool is_set(const spc_args &args, long long strip_at, long long axis_at) {");
  line(c, "  return spc_get(((const %s *)args.buf[%d])[strip_at * %s + axis_at * %s]) != 0;", type,
       c->l->buf_a, size_text(c, across), size_text(c, along));
  line(c, "}");
}

static void put_list_kernel(const config *c) {
  const ir_list *list = c->l->list;
  line(c, "static constexpr int threads = %d, strip = %lld, gran = %lld;", c->l->threads,
       (long long)(list->strip > 0 ? list->strip : 1), (long long)list->gran);
  put_size(c, "strips", list->strips);
  put_size(c, "capacity", list->capacity);
  put_size(c, "strip_extent",
           strip_dim(c->l) >= 0 ? ir_tensor_extent(list->tensor, strip_dim(c->l)) : ir_int(c->arena, 1));
  bool rounded = strip_dim(c->l) >= 0 && ir_tensor_extent(list->tensor, strip_dim(c->l)) != list->tensor->dim[strip_dim(c->l)];
  line(c, "static constexpr bool strip_is_rounded = %s; // a chunk may reach over the end", rounded ? "true" : "false");
  put_size(c, "axis_extent", ir_tensor_extent(list->tensor, list->axis_dim));
  if (c->l->krows) line(c, "static constexpr int section = %lld; // rows that a strip lists for themselves", (long long)list->section);
  if (c->l->cluster || c->l->compacted) line(c, "static constexpr bool pairs = %s; // two strips share a list", list->pairs ? "true" : "false");
  if (c->l->cluster) line(c, "static constexpr int cluster = %d; // blocks that share a strip", c->l->cluster);
  if (c->l->cluster) line(c, "static constexpr bool keeps_bits = %s, tells_partial = %s; // which columns hold everywhere", c->l->buf_bits >= 0 ? "true" : "false",
                         c->l->buf_partial >= 0 ? "true" : "false");
  if (c->l->cluster) put_pointer(c, "partial", "int", c->l->buf_partial);
  if (c->l->compacted)
    line(c, "static constexpr int packed_whole = %d, rows_a_block = %d, shared_bytes = %d; // zeros follow up to a multiple", IR_LIST_PACKED, c->l->tells ? IR_SEGMENT_ROWS : CG_COMPACT_ROWS,
         c->l->shared_bytes);
  if (c->l->compacted && c->l->tells) line(c, "static constexpr int segment = %d, staged = %d; // columns of a block, and in shared memory", CG_SEGMENT, CG_SEGMENT_STAGED);
  else if (c->l->compacted) line(c, "static constexpr int stretch = %d, window = %d, windows = %d; // columns", CG_COMPACT_STRETCH, CG_COMPACT_WINDOW, CG_COMPACT_WINDOWS);
  line(c, "static constexpr bool tells = %s;", c->l->tells ? "true" : "false");
  line(c, "static constexpr bool foretells = %s; // a sample's rows those that it has not seen, where there are registers for it", strcmp(c->l->part, "detect_bits") ? "true" : "false");
  line(c, "static constexpr bool weighed = %s; // its sample against another list's", c->l->sampling && c->l->sample ? "true" : "false");
  if (c->l->tells && c->l->live) line(c, "SPC_DEVICE int *told(const spc_args &args) { return counts(args) + 1; }");
  else if (c->l->tells) put_pointer(c, "told", "int", c->l->buf_bits);
  if (c->l->tells) put_size(c, "told_words", c->l->live ? ir_ceil_div(c->arena, list->capacity, 32) : cg_segments(c->arena, list));
  if (c->l->buf_a >= 0) put_is_set(c);
  put_pointer(c, "bits", "spc_u32", c->l->buf_bits);
  put_pointer(c, "marks", "spc_u32", c->l->buf_marks);
  put_pointer(c, "order", "int", c->l->buf_order);
  put_pointer(c, "rows_packed", "V", c->l->buf_packed);
  put_pointer(c, "ids", "int", c->l->buf_ids);
  put_pointer(c, "counts", "int", c->l->buf_counts);
  cg_counters_print(c->l, c->out);
  bool decides = c->l->weighs != NULL;
  line(c, "static constexpr bool counts_asked = %s; // columns that do not hold in all rows count for more", list->partial && cg_reads_counts(c->kernel, list) ? "true" : "false");
  line(c, "static constexpr bool decides = %s, sampled = %s, lists_guarded = %s;",
       decides ? "true" : "false", c->l->sampled ? "true" : "false",
       c->l->lists_guarded ? "true" : "false");
  if (!decides) {
    put_guard(c);
    return;
  }
  line(c, "static constexpr bool guarded = false, dense_branch = false, informed = false;");
  line(c, "static constexpr int reported = -1; // by who computes");
  line(c, "static constexpr bool heeded = %s; // before it is waited for", c->l->heeded ? "true" : "false");
  if (c->l->sampling) line(c, "static constexpr int list = %d; // its number", cg_list_number(c->kernel, list));
  if (c->l->sampling) line(c, "SPC_DEVICE bool take(const spc_args &args) { return spc_%s<%s>(args); }", c->l->part, sample_name(c->l));
  put_other(c);
  if (c->l->live) line(c, "static constexpr bool rows_may_be_sparse = %s; // nobody has said that zeros come in whole rows", ir_pattern_has_gran(&list->tensor->pattern) ? "false" : "true");
  put_decision(c);
}

/* ---- whole sources --------------------------------------------------------------------------- */
static void put_struct(const config *c, const char *name) {
  ir_text_printf(c->out, "%sstruct %s {\n", strcmp(name, "Config") ? "\n" : "", name);
  if (c->l->attend.takes_notes)
    put_tile_mask(c);
  else if (ir_kernel_attends(c->l->row))
    put_attend(c);
  else if (c->l->spreads)
    put_spread(c);
  else if (c->l->row->multiply != IR_MULTIPLY_NONE)
    put_product(c);
  else if (ir_kernel_scatters(c->l->row))
    put_scatter(c);
  else
    put_list_kernel(c);
  ir_text_put(c->out, "};\n");
}

/* What goes on with the tile that the block has just written. */
static void put_next(const config *c) {
  if (!c->l->next) return;
  ir_text_printf(c->out, "  __syncthreads(); // what this block has written is there for all of its threads\n  spc_%s<Next>(args);\n",
                 c->l->next->part);
}

/* What a kernel begins with.  One that moves boxes waits for the grid before it by itself, once its barriers are there, and one that looks at zeros once
 * its place is known; some let the next one come when they know that they are meant. */
static const char *opening(const cg_launch *l, bool boxes) {
  if (boxes || ir_kernel_skips(l->row) || (l->spreads && l->spread.filled)) return ""; /* it counts bits first */
  bool later = l->spreads || l->compacted;
  if (l->informed) return "  if (spc_leaves_at_once<Config>(args)) return;\n  ptx_follow_grid();\n";
  return later || l->holds ? "  ptx_wait_grid();\n" : "  ptx_follow_grid();\n";
}

static void put_samples_asked(const config *c) {
  ir_text names = ir_text_new(c->arena);
  for (const cg_launch *s = c->l->sample; s; s = s->sample) ir_text_printf(&names, "%s%s", names.length ? ", " : "", sample_name(s));
  ir_text_printf(c->out, "  if (!spc_front_goes_on<%s>(args, maps, (int *)args.buf[%d], %d)) return;\n", names.data, c->l->buf_front, IR_FRONT_BLOCKS);
}

static void put_entry(const config *c) {
  bool boxes = c->l->row->multiply != IR_MULTIPLY_NONE && ir_kernel_moves_boxes(c->l->row);
  bool cluster = ir_kernel_split(c->l->row) > 1, plain = cg_is_plain(c->l->row);
  ir_text_printf(c->out,
                 "\nextern \"C\" __global__ void __launch_bounds__(Config::threads, %s%d%s)%s\n"
                 "%s(const __grid_constant__ spc_args args%s) {\n",
                 plain ? "spc_plain_blocks<" : "", cg_blocks_beside(c->l), plain ? ">::beside" : "",
                 cluster ? " __cluster_dims__(Config::split)" : c->l->cluster ? " __cluster_dims__(Config::cluster)" : "", c->l->entry,
                 boxes ? ",\n    const __grid_constant__ spc_tensor_maps maps" : "");
  if (c->l->sample) put_samples_asked(c);
  else if (!boxes) ir_text_put(c->out, cg_leaves_to_front(c->arena, c->l));
  ir_text_put(c->out, opening(c->l, boxes));
  if (c->l->instead)
    ir_text_printf(c->out, "  if (spc_second_is_meant(args, args.buf[%d], (int *)args.buf[%d])) {\n    spc_%s<Other>(args);\n    return;\n  }\n", c->l->buf_verdict, c->l->instead->buf_verdict, c->l->instead->part);
  ir_text_printf(c->out, "  spc_%s<Config>(args%s);\n", c->l->part, boxes ? ", maps" : "");
  if (c->l->sample) ir_text_printf(c->out, "  spc_front_ends((int *)args.buf[%d]);\n", c->l->buf_front);
  put_next(c);
  ir_text_put(c->out, "}\n");
}

/* Only the instructions of these widths are read by the compiler: half of what there is to read. */
static void put_widths(const config *c) {
  const cg_launch *l = c->l;
  if (l->row->multiply != IR_MULTIPLY_WGMMA) return;
  int warps_m = 1, warps_n = 1, values = (l->attend.head_v + 15) / 16 * 16;
  if (!l->attend.is) warps_of(l->row, &warps_m, &warps_n);
  int columns = l->row->n / warps_n;
  ir_text_printf(c->out, "#define SPC_WIDTHS(n) ((n) == %d", columns);
  if (l->attend.is && values != columns) ir_text_printf(c->out, " || (n) == %d", values);
  if (l->live) ir_text_put(c->out, " || (n) == 128 || (n) == 64");
  if (ir_kernel_narrow(l->row)) ir_text_printf(c->out, " || (n) == %d", ir_kernel_narrow(l->row));
  ir_text_put(c->out, ") // of products by the tensor cores\n");
}

void cg_config_print(ir_arena *arena, const ir_kernel *kernel, const cg_launch *launch,
                     ir_text *out) {
  config c = {arena, kernel, launch, out}, next = {arena, kernel, launch->next, out};
  put_opening(&c);
  if (next.l) put_opening(&next);
  if (!launch->row) {
    cg_loop_print(arena, kernel, launch, out);
    return;
  }
  bool makes = launch->row->multiply == IR_MULTIPLY_NONE;
  const char *file = makes && launch->regroups ? "regroup" : makes && launch->krows ? "krows" : makes && launch->live ? "live" : launch->row->skeleton;
  if (launch->cluster) file = "strips";
  if (launch->part && !strcmp(launch->part, "lists_of_pairs")) file = "pairs";
  if (makes && launch->compacted) file = "compact";
  if (launch->tells && !launch->live) file = "compact_strips";
  put_widths(&c);
  ir_text_printf(out, "#include \"spc/%s.cuh\"\n", file);
  if (next.l) ir_text_printf(out, "#include \"spc/%s.cuh\"\n", next.l->row->skeleton);
  if (launch->instead) ir_text_put(out, "#include \"spc/live.cuh\"\n");
  if (launch->sample) ir_text_put(out, "#include \"spc/front.cuh\"\n");
  for (const cg_launch *s = launch->sample; s; s = s->sample)
    ir_text_printf(out, "#include \"spc/%s.cuh\"\n", s->regroups ? "regroup" : s->krows ? "krows" : s->live ? "live" : "detect");
  ir_text_put(out, "\n");
  for (const cg_launch *s = launch->sample; s; s = s->sample) {
    config sample = {arena, kernel, s, out};
    const char *name = sample_name(s);
    ir_text_printf(out, "struct %s;\ntemplate <> constexpr bool spc_in_front<%s> = true;", name, name);
    put_struct(&sample, name);
  }
  put_struct(&c, "Config");
  if (launch->instead) {
    config instead = {arena, kernel, launch->instead, out};
    put_struct(&instead, "Other");
  }
  if (next.l) put_struct(&next, "Next");
  if (launch->sample) ir_text_put(out, "template <> constexpr bool spc_in_front<Config> = true;\n");
  put_entry(&c);
}
