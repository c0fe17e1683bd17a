/* cuda_select.c - a stage to its launches: which kernel, which buffers, how many blocks.
 *
 * The row was chosen by a pass; here it is only fitted: operands in the row's layouts (the roles of
 * m and n are exchanged where the list strips B's index), buffers in the order that the printed
 * config names them.  A row that cannot run its stage is an
 * error, never another result. */
#include "codegen/cuda.h"
#include "ir/beside.h"
#include "runtime/abi.h"

enum { THREADS_A_STRIP = 256, THREADS_TO_COMPACT = 512 }; /* of the kernels whose blocks make lists */
enum { THREADS_IN_A_CLUSTER = 512 }; /* and of a cluster's: two blocks fit a multiprocessor, so that clusters find room */

typedef struct selection {
  ir_arena *arena;
  const ir_kernel *kernel;
  const ir_stage *stage;
  ir_sink *sink;
  cg_launches *out;
  bool bits_are_there; /* that the stage reads: an epilogue has left them */
} selection;

/* ---- launches -------------------------------------------------------------------------------- */
static cg_launch launch_of(const selection *s, const ir_kernel_row *row, const char *part, int threads) {
  cg_launch launch = {.stage = s->stage,
                      .row = row,
                      .part = part,
                      .threads = threads,
                      .depth = row ? row->depth : 0,
                      .brought = {.place = -1, .fetched = -1},
                      .program = s->kernel->program};
  launch.buf_a = launch.buf_b = launch.buf_t = launch.buf_ids = launch.buf_counts = -1;
  launch.buf_marks = launch.buf_order = launch.buf_packed = -1;
  launch.buf_bits = launch.buf_verdict = launch.buf_asked = launch.buf_asked_bits = launch.buf_sums = launch.buf_arrived = launch.buf_front = launch.buf_whole = launch.buf_partial = -1;
  return launch;
}

static cg_launch *launch_new(selection *s, const ir_kernel_row *row, const char *part, int threads) {
  cg_launch launch = launch_of(s, row, part, threads);
  launch.entry =
      cg_cuda_name(s->arena, ir_format_text(s->arena, "%s.%s%s%s", s->kernel->name, s->stage->name,
                                            part && s->out->at.count ? "." : "",
                                            part && s->out->at.count ? part : ""));
  IR_PUSH(s->arena, &s->out->at, launch);
  return &s->out->at.at[s->out->at.count - 1];
}

static int use(selection *s, cg_launch *launch, ir_buf *buf) {
  return cg_buffer_use(s->arena, launch, buf);
}

static int use_values(selection *s, cg_launch *launch, const ir_tensor *tensor) {
  return use(s, launch, cg_values_buffer(s->arena, tensor));
}

/* Who is its own dense branch and decides by itself looks for no front. */
static bool has_front(const selection *s, const ir_list *list) {
  return list && list->front && !cg_is_both(s->kernel, list);
}

/* It is the list's front, or stands behind it; that of two is said to be the first one's. */
static void use_front(selection *s, cg_launch *launch, const ir_list *list) {
  if (!has_front(s, list)) return;
  launch->fronted = ir_list_first(list);
  launch->buf_verdict = use(s, launch, list->verdict);
  launch->buf_front = use(s, launch, list->front);
}

static void use_guard(selection *s, cg_launch *launch) {
  const ir_list *list = s->stage->when.list;
  if (list) launch->buf_verdict = use(s, launch, list->verdict);
  if (list) launch->other = ir_list_other(s->kernel, list);
  if (launch->other) launch->buf_other = use(s, launch, launch->other->verdict);
  use_front(s, launch, s->stage->when.list);
}

static spc_status unfit(selection *s, const char *row, const char *why) {
  ir_diag_add(s->sink, IR_DIAG_KERNEL_UNFIT,
              s->stage->stmts.count ? s->stage->stmts.at[0]->span : IR_NOWHERE,
              "stage `%s` names the kernel `%s`, which cannot run it: %s", s->stage->name, row,
              why);
  return SPC_INVALID_INPUT;
}

/* ---- products -------------------------------------------------------------------------------- */
static int sum_bytes(const cg_launch *l) { return l->product.a.tensor->dtype == IR_F64 ? 8 : 4; }

/* The tile's sums, or its values where these are wider (epilogue.cuh asserts it). */
static int staged_bytes(const cg_launch *l) {
  bool rows = l->product.t.layout == 'r';
  int tall = rows ? l->row->m : l->row->n, wide = rows ? l->row->n : l->row->m;
  int value = (int)ir_dtype_bytes(l->product.t.tensor->dtype), sum = sum_bytes(l);
  return tall * (wide * (value > sum ? value : sum) + (rows ? 32 : 16));
}

/* The ring, and two barriers a slot where a warpgroup of its own loads. */
static int pipeline_bytes(const cg_launch *l) {
  const ir_kernel_row *row = l->row;
  int pads = row->multiply == IR_MULTIPLY_FMA ? 8 : 0; /* spc_plain_panel: 16 bytes a k of each */
  int slot = (row->m + row->n + pads) * row->k * (int)ir_dtype_bytes(l->product.a.tensor->dtype);
  return row->depth * (slot + (ir_kernel_workers(row) < row->threads ? 16 : 0));
}

/* Its loads run on while a tile is stored: each warp stages 16 x 64 sums at a time behind the ring. */
static bool keeps_ring(const ir_kernel_row *row) {
  return ir_kernel_is_grouped(row) && ir_kernel_workers(row) < row->threads;
}

static bool takes(const ir_kernel_row *row, const cg_operand *a, const cg_operand *b) {
  return (row->layout_a == '*' || row->layout_a == a->layout) && (row->layout_b == '*' || row->layout_b == b->layout);
}

static const char *layouts_unfit(selection *s, const cg_product *p, const ir_kernel_row *row) {
  return ir_format_text(s->arena, "it reads A in layout `%c` and B in layout `%c`, but `%s` is `%c` and `%s` is `%c`", row->layout_a,
                        row->layout_b, p->a.tensor->name, p->a.layout, p->b.tensor->name, p->b.layout);
}

static ir_buf *listed_buffer(const selection *s, const cg_launch *l) { return ir_workspace_of(s->kernel, l->product.t.tensor, "listed"); }

/* What a block that skips columns lists, and its sums; what a warp that skips k's has room for (kskip.cuh). */
static int skipping_bytes(const cg_launch *l) {
  const ir_kernel_row *row = l->row;
  const int at_once = 16, room = 512;
  int warps = row->threads / 32;
  if (ir_kernel_brings_rows(row)) return 224 << 10; /* as many slots as there is room for (nbulk.cuh) */
  return ir_kernel_skips_columns(row) ? warps * row->m * at_once * 4 + row->n * 4
                                      : warps * room * (4 + row->m * 2);
}

/* Whether the epilogue of this launch can make the bits of the stage's list; may exchange m and n.
 */
static bool fit_detection(selection *s, cg_launch *l, bool turned) {
  const ir_list *list = s->stage->detects;
  cg_product *p = &l->product;
  if (!list || !list->fused || !list->bits || p->batch_count || list->tensor != p->stmt->target)
    return false;
  if (list->strip_dim < 0 || list->axis_dim < 0) return false;
  const ir_index *strip = p->stmt->subs[list->strip_dim]->index;
  if (ir_kernel_detects_steps(l->row, list->strip, list->gran)) {
    l->detects_across = strip == p->n;
    return (strip == p->m || strip == p->n) && ir_dtype_bytes(p->t.tensor->dtype) == 2;
  }
  if (strip == p->n && !l->list && !turned) {
    cg_product swapped = *p;
    cg_product_swap(&swapped);
    if (!takes(l->row, &swapped.a, &swapped.b)) return false;
    *p = swapped;
  }
  return strip == p->m && ir_kernel_detects(l->row, list->strip, list->gran);
}

/* The tiles that the stage was given say that its n runs along the row's m. */
static bool is_turned(const selection *s, const cg_launch *l) {
  int64_t m = l->row->m, n = l->row->n;
  for (int i = 0; i < s->stage->tiles.count; i++) {
    const ir_tile_size *tile = &s->stage->tiles.at[i];
    if (tile->index == l->product.m) m = tile->size;
    if (tile->index == l->product.n) n = tile->size;
  }
  return m != n && m == l->row->n && n == l->row->m;
}

/* Of what it is asked for, or looks at, no list is there: the first of the kernels that the guard stands before takes a sample. */
static bool decides_itself(const selection *s, const cg_launch *l) {
  const ir_list *list = s->stage->when.list;
  const ir_tensor *looks_at = ir_kernel_skips_columns(l->row) ? l->asked.tensor : ir_kernel_skips(l->row) ? l->product.a.tensor : NULL;
  return list && !s->stage->when.above && !list->ids && list->verdict && list->threshold && looks_at && looks_at == list->tensor;
}

/* Of columns that are spread afterwards: the value without the condition, which is asked there. */
static const ir_func *fragment_of(const selection *s, const ir_kernel_row *row) {
  const ir_stage *stage = s->stage;
  int number = cg_stage_is_listed(s->stage) && !ir_kernel_is_dense(row) ? 2 : 0;
  return stage->funcs.count > number ? stage->funcs.at[number] : NULL;
}

/* Nobody else takes what the launch has computed side by side. */
static bool spreads(const selection *s, const cg_launch *l) { return l->samples && cg_stage_is_listed(s->stage) && !ir_stage_is_aside(s->kernel, s->stage); }

/* Who loads fills meanwhile what no listed column touches. */
static void fill_beside(selection *s, cg_launch *l) {
  l->buf_bits = use(s, l, l->list->bits);
  l->buf_whole = l->in_place ? l->buf_t : use_values(s, l, l->product.t.tensor);
}

/* The epilogue asks the condition where who made the list has found that it does not hold everywhere; of a list that is made otherwise, everywhere. */
static void store_in_place(selection *s, cg_launch *l) {
  if (l->list->partial && cg_reads_counts(s->kernel, l->list)) l->buf_partial = use(s, l, l->list->partial);
  cg_spread_in_place(s->arena, l);
}

/* What was computed side by side goes to its columns. */
static void select_spreading(selection *s, const cg_launch *computes) {
  const cg_launch from = *computes; /* launches move */
  const ir_kernel_row *row = cg_spreading_row();
  cg_launch *l = launch_new(s, row, row->skeleton, row->threads);
  cg_spread_behind(s->arena, s->kernel, &from, l);
  use_guard(s, l);
}

/* The same of several products: what is elementwise of them. */
static spc_status select_beside(selection *s, const ir_kernel_row *row) {
  cg_launch *l = launch_new(s, row, row->skeleton, row->threads);
  const char *why = cg_spread_beside(s->arena, s->kernel, l);
  return why ? unfit(s, row->name, why) : SPC_OK;
}

static spc_status select_product(selection *s, const ir_kernel_row *row) {
  const char *why = NULL;
  cg_product product;
  if (s->stage->stmts.count != 1) return unfit(s, row->name, "it has more than one statement");
  cg_groups groups = {0};
  cg_scales scales = {.buf = -1};
  bool read = ir_kernel_is_grouped(row)
                  ? cg_groups_read(s->arena, s->stage->stmts.at[0], &product, &groups, &why)
              : ir_kernel_widens(row)
                  ? cg_widened_read(s->arena, s->stage->stmts.at[0], row, &product, &scales, &why)
                  : cg_product_read(s->arena, s->stage->stmts.at[0], &product, &why);
  if (!read) return unfit(s, row->name, why);
  cg_bsr bsr = {0};
  cg_sdd sdd = {0};
  if (ir_kernel_reads_bsr(row)) why = cg_bsr_read(&product, &bsr);
  else if (ir_kernel_writes_bsr(row)) why = cg_sdd_read(&product, row, &sdd);
  else why = cg_product_is_dense(&product) ? NULL : "an operand is not stored dense";
  if (why) return unfit(s, row->name, why);
  bool wide_a = row->load_a == IR_LOADER_WIDE;
  ir_dtype dtype = (wide_a ? product.b : product.a).tensor->dtype;
  if ((product.a.tensor->dtype != product.b.tensor->dtype && !ir_kernel_widens(row)) || !(row->dtypes >> dtype & 1))
    return unfit(s, row->name, "the operands' element types are not the kernel's");
  cg_launch *l = launch_new(s, row, row->skeleton, row->threads);
  l->product = product;
  why = cg_fit_lists(s->arena, s->kernel, s->stage, l);
  if (ir_kernel_moves_boxes(row) && product.batch_count > IR_MAP_BATCHES)
    why = ir_format_text(s->arena, "it takes %d batch indices at most", IR_MAP_BATCHES);
  if (ir_kernel_moves_boxes(row) && groups.segment && product.t.layout != 'r')
    why = "the rows of the result are not contiguous";
  if (why) return unfit(s, row->name, why);
  l->groups = groups;
  l->bsr = bsr;
  l->sdd = sdd;
  l->n_blocks |= sdd.tensor && ir_kernel_moves_boxes(row);
  l->scales = scales;
  bool blocks = bsr.tensor || sdd.tensor; /* of an operand or the result, as they are stored */
  bool turned = !l->list && !groups.segment && !blocks && !ir_kernel_widens(row) && is_turned(s, l);
  if (turned) cg_product_swap(&l->product);
  l->detects = !l->n_blocks && !blocks && !groups.segment && !ir_kernel_widens(row) && fit_detection(s, l, turned);
  if (!takes(row, &l->product.a, &l->product.b))
    return unfit(s, row->name, layouts_unfit(s, &l->product, row));
  l->buf_a = l->columns ? use(s, l, l->columns) : use_values(s, l, l->product.a.tensor);
  l->buf_b = use_values(s, l, l->product.b.tensor);
  l->buf_t = l->samples && cg_stage_is_listed(s->stage) && !l->in_place ? use(s, l, listed_buffer(s, l)) : use_values(s, l, l->product.t.tensor);
  if (scales.tensor) l->scales.buf = use_values(s, l, scales.tensor);
  if (bsr.tensor) l->bsr.buf_pos = use(s, l, cg_level_buffer(s->arena, bsr.tensor, IR_BUF_POS, 1));
  if (bsr.tensor) l->bsr.buf_crd = use(s, l, cg_level_buffer(s->arena, bsr.tensor, IR_BUF_CRD, 1));
  if (sdd.tensor) l->sdd.buf_pos = use(s, l, cg_level_buffer(s->arena, sdd.tensor, IR_BUF_POS, 1));
  if (sdd.tensor) l->sdd.buf_crd = use(s, l, cg_level_buffer(s->arena, sdd.tensor, IR_BUF_CRD, 1));
  if (groups.segment) l->groups.buf_offsets = use_values(s, l, groups.offsets);
  if (groups.rows) l->groups.buf_rows = use_values(s, l, groups.rows);
  if (l->list) {
    l->buf_ids = use(s, l, l->list->ids);
    l->buf_counts = use(s, l, l->list->counts);
  }
  if (l->regroups) l->buf_order = use(s, l, l->list->order);
  if (l->compacted || l->krows) l->buf_packed = use(s, l, l->list->packed);
  if (l->live) l->buf_order = l->buf_ids, l->buf_packed = use(s, l, l->list->packed), l->buf_bits = use(s, l, l->list->bits);
  if (l->detects) l->buf_bits = use(s, l, s->stage->detects->bits);
  if (l->n_blocks && l->list) l->buf_bits = use(s, l, l->list->bits);
  if (l->noted) l->buf_bits = use(s, l, l->noted->bits);
  if (l->asked.tensor) cg_asked_use(s->arena, l, cg_values_buffer(s->arena, l->asked.tensor), s->bits_are_there);
  use_guard(s, l);
  l->decides = decides_itself(s, l);
  if (l->decides) l->weighs = s->stage->when.list;
  l->own_dense = ir_kernel_moves_boxes(row) && (l->gathers || l->k_blocks || l->live || ir_kernel_narrow(row)) && (!l->packed || l->compacted) &&
                 !s->stage->detects && cg_has_dense_twin(s->kernel, s->stage, row);
  l->own_lists = l->own_dense && !strcmp(row->name, s->stage->row) && cg_walks_bits(s->kernel, l->list);
  l->own_verdict = ir_kernel_moves_boxes(row) && l->list && (l->krows ? cg_is_guarded(s->kernel, l->list) : cg_reads_counts(s->kernel, l->list));
  if (l->own_lists) l->buf_bits = use(s, l, l->list->bits);
  if (l->own_lists || l->own_verdict) l->weighs = l->list;
  l->func = fragment_of(s, row);
  for (int i = 0; l->func && i < l->func->bufs.count; i++) use(s, l, l->func->bufs.at[i]);
  if (ir_kernel_moves_boxes(row)) {
    cg_boxes_bring(l);
    cg_share_tiles(s->arena, l);
    cg_boxes_share(l);
    if (spreads(s, l)) fill_beside(s, l);
    if (l->in_place) store_in_place(s, l);
    else if (spreads(s, l)) select_spreading(s, l);
    return SPC_OK;
  }
  if (ir_kernel_skips(row)) {
    l->shared_bytes = skipping_bytes(l);
    return SPC_OK;
  }
  if (ir_kernel_streams(row) || ir_kernel_widens(row)) {
    l->shared_bytes = row->threads / 32 * row->m * row->n * sum_bytes(l);
    return SPC_OK;
  }
  int pipeline = pipeline_bytes(l), staged = staged_bytes(l);
  l->shared_bytes = keeps_ring(row) ? pipeline + ir_kernel_workers(row) * 128 : pipeline > staged ? pipeline : staged;
  if (spreads(s, l)) select_spreading(s, l);
  return SPC_OK;
}

/* ---- attention ------------------------------------------------------------------------------- */
/* Before it: which pairs are seen, where more than comparisons tell. */
static void select_tile_mask(selection *s, const ir_kernel_row *reader, const cg_product *product, const cg_attend *attend) {
  const ir_kernel_row *row = ir_kernel_row_named("tile_mask");
  cg_launch *l = launch_new(s, row, row->skeleton, row->threads);
  l->entry = cg_cuda_name(s->arena, ir_format_text(s->arena, "%s.%s.%s", s->kernel->name, s->stage->name, row->skeleton));
  l->product = *product;
  l->attend = *attend;
  l->attend.takes_notes = true;
  l->tile_n = reader->n;
  use(s, l, attend->notes);
  use(s, l, attend->mask);
  const ir_func *asking[] = {attend->asked, attend->first, attend->behind};
  for (int f = 0; f < IR_COUNT(asking); f++)
    for (int i = 0; i < asking[f]->bufs.count; i++) use(s, l, asking[f]->bufs.at[i]);
  use_guard(s, l);
}

static spc_status select_attend(selection *s, const ir_kernel_row *row) {
  cg_product product;
  cg_attend attend;
  const char *why = cg_attend_read(s->arena, s->kernel, s->stage, &product, &attend);
  if (why) return unfit(s, row->name, why);
  ir_dtype dtype = product.a.tensor->dtype;
  if (product.b.tensor->dtype != dtype || attend.v.tensor->dtype != dtype || !(row->dtypes >> dtype & 1))
    return unfit(s, row->name, "the operands' element types are not the kernel's");
  if (ir_kernel_moves_boxes(row) && product.batch_count > IR_MAP_BATCHES) return unfit(s, row->name, "it takes three batch indices at most");
  if (attend.asked) select_tile_mask(s, row, &product, &attend);
  cg_launch *l = launch_new(s, row, row->skeleton, row->threads);
  l->product = product;
  l->attend = attend;
  l->buf_a = use_values(s, l, product.a.tensor);
  l->buf_b = use_values(s, l, product.b.tensor);
  l->buf_t = use_values(s, l, product.t.tensor);
  l->attend.buf_v = use_values(s, l, attend.v.tensor);
  for (int f = 0; f < s->stage->funcs.count; f++)
    for (int i = 0; i < s->stage->funcs.at[f]->bufs.count && s->stage->funcs.at[f] != attend.asked; i++) use(s, l, s->stage->funcs.at[f]->bufs.at[i]);
  use_guard(s, l);
  l->entry = cg_cuda_name(s->arena, ir_format_text(s->arena, "%s.%s", s->kernel->name, s->stage->name));
  return cg_attend_share(l) ? SPC_OK : unfit(s, row->name, "its tiles of such long rows have no room");
}

/* ---- lists ----------------------------------------------------------------------------------- */
static void use_verdict(selection *s, cg_launch *l) {
  l->buf_verdict = use(s, l, l->list->verdict);
  l->weighs = l->list;
}

/* A launch that makes a list decides whether it is meant; where the list has no guard of its own it heeds its stage's. */
static void use_decision(selection *s, cg_launch *l) {
  if (l->list->verdict && l->list->threshold) use_verdict(s, l);
  else use_guard(s, l);
}

/* One of several launches from values to a list. */
static cg_launch *list_launch(selection *s, const ir_kernel_row *row, const char *part) {
  cg_launch *l = launch_new(s, row, part, row->threads);
  l->list = s->stage->detects;
  l->lists_guarded = l->sampled = cg_is_guarded(s->kernel, l->list);
  return l;
}

/* Values to bits; where the list is for nothing when the guard says dense, a sample may say so. */
static void select_values(selection *s, const ir_kernel_row *row) {
  const ir_list *list = s->stage->detects;
  bool strips = cg_reads_counts(s->kernel, list), bits = list->bits != NULL && !strips;
  cg_launch *l = launch_new(s, row, strips ? "detect_strips" : bits ? "detect_bits" : "detect_lists",
                            strips ? THREADS_IN_A_CLUSTER : bits ? row->threads : THREADS_A_STRIP);
  l->list = list;
  l->buf_a = use_values(s, l, list->tensor);
  if (strips) l->cluster = cg_strip_cluster(list), l->sampled = true;
  if (strips && list->partial) l->buf_partial = use(s, l, list->partial);
  if (bits || (strips && cg_keeps_bits(s->kernel, list))) l->buf_bits = use(s, l, list->bits);
  if (!bits) l->buf_ids = use(s, l, list->ids);
  if (!bits) l->buf_counts = use(s, l, list->counts);
  if (!bits) cg_clear_shares(s->arena, l);
  if ((bits || strips) && cg_is_guarded(s->kernel, list))
    use_verdict(s, l);
  else
    use_guard(s, l);
}

static void select_lists(selection *s, const ir_kernel_row *row, bool from_values) {
  const ir_list *list = s->stage->detects;
  cg_launch *l = launch_new(s, row, list->pairs ? "lists_of_pairs" : "lists_from_bits", THREADS_A_STRIP);
  l->list = list;
  l->buf_bits = use(s, l, list->bits);
  l->buf_ids = use(s, l, list->ids);
  l->buf_counts = use(s, l, list->counts);
  cg_clear_shares(s->arena, l);
  l->lists_guarded = cg_is_guarded(s->kernel, list);
  l->sampled = from_values && l->lists_guarded;
  use_decision(s, l);
}

/* Values to marks of rows, marks to an order of rows, both to lists. */
static void select_regrouped(selection *s, const ir_kernel_row *row) {
  static const char *const parts[] = {"detect_rows", "order_rows", "lists_of_rows"};
  const ir_list *list = s->stage->detects;
  for (int i = 0; i < IR_COUNT(parts); i++) {
    cg_launch *l = list_launch(s, row, parts[i]);
    l->regroups = true;
    if (i == 0) l->buf_a = use_values(s, l, list->tensor);
    l->buf_marks = use(s, l, list->marks);
    if (i > 0) l->buf_order = use(s, l, list->order);
    if (i > 1) l->buf_ids = use(s, l, list->ids), l->buf_counts = use(s, l, list->counts);
    use_decision(s, l);
  }
}

/* Words that blocks tell each other, among the buffers of a launch: behind the count of rows, or in the room of bits. */
static void use_told(selection *s, cg_launch *l, cg_launch *launch) {
  l->tells = true, l->live = ir_list_is_of_rows(l->list);
  if (l->live) l->buf_counts = use(s, launch, l->list->counts);
  else l->buf_bits = use(s, launch, l->list->bits);
}

static void select_clear(selection *s, const ir_kernel_row *row) {
  cg_launch *l = launch_new(s, row, "clear", row->threads);
  l->list = s->stage->detects;
  l->clears = true;
  use_told(s, l, l);
}

/* Values to a list of rows and these rows themselves: by l, with the buffers of a launch. */
static void list_rows(selection *s, cg_launch *l, cg_launch *launch) {
  l->buf_a = use_values(s, launch, l->list->tensor);
  l->buf_bits = use(s, launch, l->list->bits), l->buf_ids = use(s, launch, l->list->ids), l->buf_packed = use(s, launch, l->list->packed);
  use_told(s, l, launch);
}

static void select_packing(selection *s, const ir_kernel_row *row) {
  select_clear(s, row);
  cg_launch *l = list_launch(s, row, "list_live");
  list_rows(s, l, l);
  use_decision(s, l);
}

/* By the blocks of the launch that makes the list in whose place this one may be made. */
static void list_instead(selection *s, const ir_kernel_row *row, cg_launch *launch) {
  cg_launch *l = IR_NEW(s->arena, cg_launch);
  *l = launch_of(s, row, "list_live", launch->threads);
  l->list = l->weighs = ir_list_instead(s->kernel, launch->list);
  l->lists_guarded = l->sampled = true;
  list_rows(s, l, launch);
  l->buf_verdict = use(s, launch, l->list->verdict);
  launch->instead = l, launch->weighs_too = l->list;
}

/* Values to a list of the rows of each block, and what they hold there. */
static void select_krows(selection *s, const ir_kernel_row *row) {
  const ir_list *list = s->stage->detects;
  cg_launch *l = list_launch(s, row, "list_krows");
  l->krows = true;
  l->threads = (int)list->section;
  l->buf_a = use_values(s, l, list->tensor);
  l->buf_ids = use(s, l, list->ids), l->buf_counts = use(s, l, list->counts), l->buf_packed = use(s, l, list->packed);
  use_decision(s, l);
}

/* Values to a list and what it names of each row, side by side; or, where others read it or an epilogue has made bits, bits to that. */
static void select_compacted(selection *s, const ir_kernel_row *row, bool values) {
  const ir_list *list = s->stage->detects;
  bool once = values && cg_moves_at_once(s->kernel, list);
  if (once) select_clear(s, row);
  else if (values) select_values(s, row);
  cg_launch *l = launch_new(s, row, once ? "compact_strips" : "compact", THREADS_TO_COMPACT);
  l->list = list;
  l->compacted = true, l->tells = once;
  l->shared_bytes = (once ? IR_SEGMENT_ROWS * CG_SEGMENT_STAGED : CG_COMPACT_WINDOWS * CG_COMPACT_ROWS * CG_COMPACT_WINDOW) * (int)ir_dtype_bytes(list->tensor->dtype);
  l->buf_a = use_values(s, l, list->tensor);
  l->buf_bits = use(s, l, list->bits); /* or what blocks tell */
  l->buf_ids = use(s, l, list->ids);
  l->buf_counts = use(s, l, list->counts);
  l->buf_packed = use(s, l, list->packed);
  cg_clear_shares(s->arena, l);
  l->lists_guarded = cg_is_guarded(s->kernel, list);
  l->sampled = values && l->lists_guarded;
  use_decision(s, l);
  if (ir_list_instead(s->kernel, list)) list_instead(s, row, l);
}

/* What takes a sample of the list's values, as the launches that read them would (kernels/front.cuh). */
static const char *sample_part(const ir_list *list) { return list->order ? "sample_rows" : list->section ? "sample_krows" : ir_list_is_of_rows(list) ? "sample_live" : "sample_values"; }

/* Of what the row's launches would read, in the front's buffers. */
static cg_launch *sample_of(selection *s, const ir_kernel_row *row, const ir_list *list, cg_launch *l) {
  cg_launch *sample = IR_NEW(s->arena, cg_launch);
  *sample = launch_of(s, row, sample_part(list), l->threads);
  sample->sampling = true;
  sample->list = sample->weighs = list;
  sample->regroups = list->order != NULL, sample->krows = list->section > 0;
  sample->lists_guarded = sample->sampled = true;
  sample->buf_a = use_values(s, l, list->tensor);
  sample->buf_verdict = use(s, l, list->verdict);
  if (ir_list_is_of_rows(list) || cg_moves_at_once(s->kernel, list)) use_told(s, sample, l);
  return sample;
}

/* The dense branch in front of the list, or of two. */
static spc_status select_front(selection *s, const ir_kernel_row *row) {
  const ir_list *list = ir_list_first(s->stage->detects);
  selection dense = *s;
  for (int i = 0; i < s->kernel->stages.count; i++)
    if (s->kernel->stages.at[i]->when.list == list && s->kernel->stages.at[i]->when.above) dense.stage = s->kernel->stages.at[i];
  SPC_TRY(select_product(&dense, ir_kernel_row_named(dense.stage->row)));
  cg_launch *l = &s->out->at.at[s->out->at.count - 1];
  l->weighs = list, l->weighs_too = ir_list_instead(s->kernel, list);
  cg_launch *sample = sample_of(s, row, list, l);
  if (l->weighs_too) sample->sample = sample_of(s, row, l->weighs_too, l);
  l->sample = sample;
  l->entry = cg_cuda_name(s->arena, ir_format_text(s->arena, "%s.%s.front", s->kernel->name, s->stage->name));
  return SPC_OK;
}

static spc_status select_detection(selection *s, const ir_kernel_row *row) {
  const ir_list *list = s->stage->detects;
  ir_expr *strides[IR_MAX_RANK];
  if (!list) return unfit(s, row->name, "it makes no list");
  bool values = !s->bits_are_there || !list->fused || !list->bits;
  if (values && !cg_dense_strides(s->arena, list->tensor, strides))
    return unfit(s, row->name,
                 ir_format_text(s->arena, "`%s` is not stored dense", list->tensor->name));
  if (values && list->tensor->rank != (list->strip_dim >= 0 || list->packed ? 2 : 1)) /* of whole rows too */
    return unfit(s, row->name, "the listed tensor has more indices than the strip's and the axis");
  bool rows = list->order || list->section || ir_list_is_of_rows(list);
  if (!rows && list->verdict && (!list->bits || !list->threshold))
    return unfit(s, row->name, "a list with a verdict needs bits and a threshold");
  const ir_list *instead = ir_list_instead(s->kernel, list);
  if (instead && (!cg_moves_at_once(s->kernel, list) || !ir_list_is_of_rows(instead)))
    return unfit(s, row->name, "the list that may be made in its place is not of whole rows, or it is not made by the launch that reads the values");
  if (has_front(s, list) && !instead) SPC_TRY(select_front(s, row)); /* of two in front of the second, which comes first */
  if (list->order) select_regrouped(s, row);
  else if (list->section) select_krows(s, row);
  else if (list->replaces) return SPC_OK; /* made where that one's are */
  else if (rows) select_packing(s, row);
  else if (list->packed) select_compacted(s, row, values);
  else {
    if (values) select_values(s, row);
    if (list->bits && !cg_walks_bits(s->kernel, list) && !cg_reads_counts(s->kernel, list)) select_lists(s, row, values);
  }
  for (int i = 0; i < s->out->at.count; i++) use_front(s, &s->out->at.at[i], list);
  return SPC_OK;
}

/* The verdict is written by the launches that make the list: a stage of its own has none. */
static spc_status select_guard(selection *s, const ir_kernel_row *row) {
  const ir_list *list = s->stage->reads.count ? s->stage->reads.at[0] : NULL;
  if (!list || !list->verdict || !list->threshold)
    return unfit(s, row->name, "its list has no verdict to write");
  if (!list->ids) return SPC_OK; /* the first stage behind it samples */
  for (int i = 0; i < s->kernel->stages.count; i++)
    if (s->kernel->stages.at[i]->kind == IR_STAGE_DETECT &&
        s->kernel->stages.at[i]->detects == list)
      return SPC_OK;
  return unfit(s, row->name, "no stage makes its list");
}

/* ---- generated loops ------------------------------------------------------------------------- */
/* A team that is no part of a warp is a block. */
static int loop_threads(const ir_code *loop) {
  const int threads = 128;
  if (loop && loop->run == IR_RUN_COLUMNS) return ir_shape_of_columns(loop).threads;
  return !loop ? 1 : loop->run == IR_RUN_TEAM && loop->width > threads ? loop->width : threads;
}

static void select_loops(selection *s) {
  for (int i = 0; i < s->stage->funcs.count; i++) {
    const ir_func *func = s->stage->funcs.at[i];
    cg_launch *l = launch_new(s, NULL, NULL, loop_threads(cg_thread_loop(func)));
    l->func = func;
    l->entry = cg_cuda_name(s->arena, func->name);
    const ir_code *loop = cg_thread_loop(func);
    int blocks = loop && loop->run == IR_RUN_COLUMNS ? ir_shape_of_columns(loop).blocks : 1;
    l->cluster = blocks > 1 ? blocks : 0;
    for (int b = 0; b < func->bufs.count; b++) use(s, l, func->bufs.at[b]);
    use_guard(s, l);
  }
}

/* A launch takes spc_args by value, which has room for so many arrays. */
static spc_status check_room(selection *s) {
  for (int i = 0; i < s->out->at.count; i++) {
    int count = s->out->at.at[i].bufs.count;
    if (count <= SPC_ARGS_BUFS) continue;
    ir_diag_add(s->sink, IR_DIAG_KERNEL_UNFIT,
                s->stage->stmts.count ? s->stage->stmts.at[0]->span : IR_NOWHERE,
                "stage `%s` reads and writes %d arrays, and a CUDA launch takes %d: compute a part "
                "in a `let` of its own",
                s->stage->name, count, SPC_ARGS_BUFS);
    return SPC_INVALID_INPUT;
  }
  return SPC_OK;
}

static spc_status select_scatter(selection *s, const ir_kernel_row *row) {
  const ir_stmt *stmt = s->stage->stmts.count == 1 ? s->stage->stmts.at[0] : NULL;
  cg_scatter scatter;
  if (!stmt || !s->stage->funcs.count || !cg_scatter_read(s->arena, stmt, &scatter))
    return unfit(s, row->name, "its rows are not sent where one vector says");
  cg_launch *l = launch_new(s, row, row->skeleton, row->threads);
  l->scatter = scatter;
  l->buf_t = use_values(s, l, stmt->target);
  l->scatter.buf_names = use_values(s, l, scatter.names);
  if (scatter.m->offsets) l->scatter.buf_offsets = use_values(s, l, scatter.m->offsets);
  l->func = s->stage->funcs.at[0];
  for (int i = 0; i < l->func->bufs.count; i++) use(s, l, l->func->bufs.at[i]);
  use_guard(s, l);
  return SPC_OK;
}

static spc_status select_library(selection *s) {
  if (s->stage->stmts.count != 1) return unfit(s, CG_LIBRARY, "it has more than one statement");
  const char *why = cg_library_select(s->arena, s->kernel, launch_new(s, NULL, NULL, 0));
  return why ? unfit(s, CG_LIBRARY, why) : SPC_OK;
}

static spc_status select_launches(selection *s, const char *row_name) {
  const ir_stage *stage = s->stage;
  if (stage->kind == IR_STAGE_CONVERT) return SPC_OK; /* the plan converts */
  const ir_kernel_row *row = row_name ? ir_kernel_row_named(row_name) : NULL;
  if (row_name && !strcmp(row_name, CG_LIBRARY)) return select_library(s);
  if (!row && row_name && strcmp(row_name, "loop"))
    return unfit(s, row_name, "there is no such kernel");
  if (!row) {
    select_loops(s);
    return SPC_OK;
  }
  if (ir_kernel_attends(row)) return select_attend(s, row);
  if (row->multiply != IR_MULTIPLY_NONE) return select_product(s, row);
  if (ir_kernel_scatters(row)) return select_scatter(s, row);
  if (row == cg_spreading_row()) return select_beside(s, row);
  if (!strcmp(row->name, "guard")) return select_guard(s, row);
  return select_detection(s, row);
}

spc_status cg_select_stage(ir_arena *arena, const ir_kernel *kernel, const ir_stage *stage,
                           const char *row_name, bool bits_are_there, ir_sink *sink,
                           cg_launches *out) {
  selection s = {arena, kernel, stage, sink, out, bits_are_there};
  *out = (cg_launches){{0}};
  SPC_TRY(select_launches(&s, row_name));
  return check_room(&s);
}
