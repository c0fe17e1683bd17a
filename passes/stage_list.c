/* stage_list.c - lists and workspaces of the tile program, and how long they live.
 *
 *     h.counts i32 [strips]   h.ids i32 [strips * capacity]   h.bits u32 [strips * words]
 * capacity = ceil(extent(axis) / gran): nothing can overflow. */
#include <assert.h>

#include "ir/loop.h"
#include "passes/choice.h"
#include "passes/stage.h"

ir_buf *pass_workspace_new(pass_context *context, ir_kernel *kernel, const char *name,
                           ir_dtype dtype, ir_expr *count) {
  ir_buf *buf = ir_buf_new(context->arena, name, IR_BUF_WORKSPACE, dtype);
  buf->count = count;
  buf->first = buf->last = -1;
  IR_PUSH(context->arena, &kernel->workspaces, buf);
  return buf;
}

static ir_expr *divided_up(ir_arena *a, ir_expr *size, int64_t step) {
  return step <= 1 ? size : ir_ceil_div(a, size, step);
}

static bool list_name_taken(const ir_kernel *kernel, const char *name) {
  for (int i = 0; i < kernel->lists.count; i++)
    if (!strcmp(kernel->lists.at[i]->name, name)) return true;
  return false;
}

static const char *list_name(pass_context *context, const ir_kernel *kernel,
                             const ir_candidate *candidate) {
  const char *stem = pass_listed_tensor(context, kernel, candidate)->name, *name = stem;
  for (int n = 0; list_name_taken(kernel, name); n++)
    name = n ? ir_format_text(context->arena, "%s.%s%d", stem, candidate->axis->name, n)
             : ir_format_text(context->arena, "%s.%s", stem, candidate->axis->name);
  return name;
}

static ir_buf *part(pass_context *context, ir_kernel *kernel, const ir_list *list,
                    const char *suffix, ir_dtype dtype, ir_expr *count) {
  const char *name = ir_format_text(context->arena, "%s.%s", list->name, suffix);
  return pass_workspace_new(context, kernel, name, dtype, count);
}

/* On a processor the walk of a row reads its values where its ids are, one beside the other. */
static bool keeps_values(pass_context *context, const ir_list *list) {
  return pass_target_of(context)->kind == IR_TARGET_CPU && list->strip_index && list->strip == 1 &&
         list->gran == 1 && list->tensor->rank == 2;
}

/* u32 words: i32 holds the same bits. */
void pass_list_add_bits(pass_context *context, ir_kernel *kernel, ir_list *list) {
  ir_expr *words = divided_up(context->arena, list->capacity, 32);
  list->bits = part(context, kernel, list, "bits", IR_I32, ir_apply(context->arena, IR_OP_MUL, list->strips, words));
}

static ir_expr *elements_of(ir_arena *a, const ir_tensor *tensor) {
  ir_expr *all = tensor->dim[0];
  for (int d = 1; d < tensor->rank; d++) all = ir_apply(a, IR_OP_MUL, all, tensor->dim[d]);
  return all;
}

/* Of each block of k a place for every row; a list of its own in each section. */
static void add_krows(pass_context *context, ir_kernel *kernel, ir_list *list, const ir_candidate *candidate) {
  ir_arena *a = context->arena;
  list->section = ir_kernel_row_named(candidate->row)->m;
  ir_expr *pitch = ir_apply(a, IR_OP_MUL, divided_up(a, list->capacity, IR_LIST_ROWS), ir_int(a, IR_LIST_ROWS)), *places = ir_apply(a, IR_OP_MUL, list->strips, pitch);
  list->counts->count = ir_apply(a, IR_OP_MUL, list->strips, divided_up(a, list->capacity, list->section));
  list->ids->count = places;
  list->packed = part(context, kernel, list, "packed", list->tensor->dtype, ir_apply(a, IR_OP_MUL, places, ir_int(a, list->strip)));
}

static void add_buffers(pass_context *context, ir_kernel *kernel, ir_list *list, bool bits, const ir_candidate *candidate) {
  ir_arena *a = context->arena;
  bool regrouped = candidate->regrouped, packed = pass_is_live(candidate) || pass_is_packing(candidate);
  ir_expr *lists = divided_up(a, list->strips, ir_list_together(list));
  ir_expr *counts = lists;
  if (list->pairs) counts = ir_apply(a, IR_OP_MUL, lists, ir_int(a, 3));
  if (pass_is_live(candidate)) counts = ir_apply(a, IR_OP_ADD, lists, divided_up(a, list->capacity, 32)); /* and what blocks tell each other */
  list->counts = part(context, kernel, list, "counts", IR_I32, counts);
  list->ids = part(context, kernel, list, "ids", IR_I32,
                   ir_apply(a, IR_OP_MUL, lists, list->capacity));
  if (keeps_values(context, list)) {
    list->starts = part(context, kernel, list, "starts", IR_I64, list->strips);
    list->vals = part(context, kernel, list, "values", list->tensor->dtype, list->ids->count);
  }
  if (pass_is_krows(candidate)) {
    add_krows(context, kernel, list, candidate);
    return;
  }
  if (packed) list->packed = part(context, kernel, list, "packed", list->tensor->dtype, elements_of(a, list->tensor));
  if (bits && regrouped) {
    ir_expr *rows = list->strip_index->extent, *words = divided_up(a, list->capacity, 32);
    list->marks = part(context, kernel, list, "marks", IR_I32, ir_apply(a, IR_OP_MUL, rows, words));
    list->order = part(context, kernel, list, "order", IR_I32, rows);
  } else if (bits) {
    pass_list_add_bits(context, kernel, list);
  }
  if (bits && pass_goes_in_place(context, candidate)) list->partial = part(context, kernel, list, "partial", IR_I32, list->strips);
}

/* What is brought side by side, or kept with the list, is the operand's own. */
ir_tensor *pass_listed_tensor(pass_context *context, const ir_kernel *kernel, const ir_candidate *candidate) {
  bool own = pass_target_of(context)->kind != IR_TARGET_CUDA || !candidate->strip_index || candidate->regrouped || pass_is_packing(candidate) || pass_is_krows(candidate);
  ir_tensor *bound = own ? NULL : pass_bound_of(context, kernel, candidate->operand);
  return bound ? bound : candidate->operand;
}

static ir_list *list_new(pass_context *context, ir_kernel *kernel, const ir_candidate *candidate,
                         const ir_stmt *reader) {
  ir_list *list = IR_NEW(context->arena, ir_list);
  list->name = list_name(context, kernel, candidate);
  list->tensor = pass_listed_tensor(context, kernel, candidate);
  list->axis = candidate->axis;
  list->strip_index = candidate->strip_index;
  list->strip = candidate->strip;
  list->gran = candidate->gran;
  list->pairs = pass_is_paired(candidate);
  int ways = pass_list_dims(reader, candidate->operand, list->axis, list->strip_index, &list->axis_dim, &list->strip_dim);
  assert(ways > 0), (void)ways;
  list->strips = list->strip_index
                     ? divided_up(context->arena, list->strip_index->extent, list->strip)
                     : ir_int(context->arena, 1);
  list->capacity = divided_up(context->arena, ir_tensor_extent(list->tensor, list->axis_dim), list->gran); /* of a copy with padded rows: those */
  IR_PUSH(context->arena, &kernel->lists, list);
  return list;
}

ir_list *pass_list_new(pass_context *context, ir_kernel *kernel, const ir_candidate *candidate,
                       bool bits) {
  ir_list *list = list_new(context, kernel, candidate, candidate->target->def);
  add_buffers(context, kernel, list, bits, candidate);
  return list;
}

ir_list *pass_bits_new(pass_context *context, ir_kernel *kernel, const ir_candidate *reader,
                       ir_index *axis, int64_t strip) {
  ir_candidate like = *reader;
  like.axis = axis;
  like.strip = strip;
  ir_list *list = list_new(context, kernel, &like, reader->target->def);
  list->pairs = false;
  list->fused = true;
  pass_list_add_bits(context, kernel, list);
  return list;
}

ir_list *pass_sample_new(pass_context *context, ir_kernel *kernel, const ir_candidate *asks, ir_index *axis) {
  ir_candidate like = *asks;
  like.axis = axis;
  return list_new(context, kernel, &like, asks->target->def);
}

ir_list *pass_stored_list_new(pass_context *context, ir_kernel *kernel, const ir_candidate *chosen, const ir_expr *stored) {
  ir_candidate like = *chosen;
  like.operand = stored->tensor;
  like.strip_index = stored->args[0]->index;
  like.axis = stored->args[1]->index;
  like.strip = like.gran = 1;
  ir_list *list = list_new(context, kernel, &like, chosen->target->def);
  list->most = pass_stored_most(context, stored->tensor, chosen);
  return list;
}

void pass_listed_new(pass_context *context, ir_kernel *kernel, const ir_tensor *target) {
  const char *name = ir_format_text(context->arena, "%s.listed", target->name);
  if (!ir_workspace_of(kernel, target, "listed")) pass_workspace_new(context, kernel, name, target->dtype, elements_of(context->arena, target));
}

/* ---- tiles that blocks share -------------------------------------------------------------------
 * (kernels/shares.cuh).  A list that is made once and kept serves runs beside each other, which may not share counters. */
/* Of a product whose k's the list names there are as many tiles as without it: whether some are left that two blocks and more have time for. */
static bool leaves_few(pass_context *context, const ir_stage *stage, const ir_list *list, const ir_kernel_row *row) {
  pass_sum sum;
  int64_t along, wide, units = (int64_t)context->profile->units;
  if (!pass_sum_of(context, stage->stmts.at[0], &sum) || sum.batches || sum.flattened) return true;
  const ir_index *across = sum.m_index == list->strip_index ? sum.n_index : sum.m_index;
  if (!ir_size_known(list->strip_index->extent, &along) || !ir_size_known(across->extent, &wide)) return true;
  const int64_t tiles = (along + row->m - 1) / row->m * ((wide + row->n - 1) / row->n), left = tiles % units;
  return left > 0 && units / left > 1;
}

static bool may_share(pass_context *context, const ir_kernel *kernel, const ir_stage *stage, const ir_list *list, const ir_kernel_row *row) {
  if (!list->bits || ir_list_made_once(kernel, list)) return false;
  if (ir_kernel_gathers(row)) return leaves_few(context, stage, list, row);
  return list->strips->kind != IR_CONST || list->strips->i / ir_list_together(list) <= IR_SHARED_STRIPS;
}

static ir_buf *room_for(pass_context *context, ir_kernel *kernel, const ir_list *list, ir_buf *buf, const char *suffix, ir_dtype dtype, int64_t count) {
  if (!buf) return part(context, kernel, list, suffix, dtype, ir_int(context->arena, count));
  if (buf->count->i < count) buf->count = ir_int(context->arena, count);
  return buf;
}

void pass_stage_shares(pass_context *context, ir_kernel *kernel) {
  int64_t units = (int64_t)context->profile->units; /* a block of such a kernel is alone on one */
  for (int s = 0; s < kernel->stages.count; s++) {
    const ir_stage *stage = kernel->stages.at[s];
    const ir_kernel_row *row = stage->row ? ir_kernel_row_named(stage->row) : NULL;
    if (stage->kind != IR_STAGE_COMPUTE || !row || !ir_stage_shares(stage, row)) continue;
    ir_list *list = stage->reads.at[0];
    if (!may_share(context, kernel, stage, list, row)) continue;
    list->sums = room_for(context, kernel, list, list->sums, "sums", IR_F32, units * row->m * row->n);
    list->arrived = room_for(context, kernel, list, list->arrived, "arrived", IR_I32, units * ir_kernel_workers(row) / 128); /* of each warpgroup */
  }
}

/* ---- life times ------------------------------------------------------------------------------ */
static void live(ir_buf *buf, int stage) {
  if (!buf) return;
  if (buf->first < 0 || stage < buf->first) buf->first = stage;
  if (stage > buf->last) buf->last = stage;
}

static void live_list(ir_list *list, int stage) {
  if (!list) return;
  live(list->counts, stage);
  live(list->ids, stage);
  live(list->bits, stage);
  live(list->starts, stage);
  live(list->vals, stage);
  live(list->marks, stage);
  live(list->order, stage);
  live(list->packed, stage);
  live(list->partial, stage);
  live(list->arrived, stage);
  live(list->front, stage);
}

/* A front takes the samples of two lists, and clears what their blocks tell each other, where the second one's stage is, which comes first. */
static void live_in_front(ir_list *list, int stage) {
  live(list->counts, stage);
  live(list->bits, stage);
  live(list->verdict, stage);
  live(list->threshold, stage);
  live(list->front, stage);
}

/* Columns side by side: of who writes them, and of who reads them there. */
static void live_listed(ir_kernel *kernel, const ir_stage *stage) {
  for (int i = 0; i < kernel->tensors.count && stage->kind == IR_STAGE_COMPUTE && stage->reads.count; i++) {
    ir_buf *buf = ir_workspace_of(kernel, kernel->tensors.at[i], "listed");
    for (int n = 0; buf && n < stage->stmts.count; n++)
      if (stage->stmts.at[n]->target == kernel->tensors.at[i] || pass_stmt_reads(stage->stmts.at[n], kernel->tensors.at[i])) live(buf, stage->number);
  }
}

static void live_assembled(ir_kernel *kernel, const ir_stage *stage) {
  for (int i = 0; stage->assembled && i < kernel->workspaces.count; i++) {
    ir_buf *buf = kernel->workspaces.at[i];
    if (buf->tensor && buf->tensor == stage->stmts.at[0]->target) live(buf, stage->number);
  }
}

void pass_stage_lifetimes(ir_kernel *kernel) {
  for (int s = 0; s < kernel->stages.count; s++) {
    ir_stage *stage = kernel->stages.at[s];
    live_list(stage->detects, stage->number);
    for (int i = 0; i < stage->reads.count; i++) {
      live_list(stage->reads.at[i], stage->number);
      if (stage->kind == IR_STAGE_COMPUTE) live(stage->reads.at[i]->sums, stage->number); /* nothing stays there from one product to the next */
    }
    if (stage->kind == IR_STAGE_GUARD) {
      live(stage->reads.at[0]->verdict, stage->number);
      live(stage->reads.at[0]->threshold, stage->number);
    }
    if (stage->when.list) live(stage->when.list->verdict, stage->number);
    if (stage->when.list) live(stage->when.list->threshold, stage->number); /* who walks bits decides */
    if (stage->when.list) live(stage->when.list->front, stage->number);
    if (stage->detects) live(stage->detects->verdict, stage->number);
    if (stage->detects) live(stage->detects->threshold, stage->number);
    if (stage->kind == IR_STAGE_DETECT && stage->detects->replaces) live_in_front(stage->detects->replaces, stage->number);
    live_assembled(kernel, stage);
    live_listed(kernel, stage);
  }
}
