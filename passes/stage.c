/* stage.c - pass `stage`: the tile program of a kernel.
 *
 * needs: formats; the chosen candidate of every statement that has a choice, with its guard
 * keeps: the meaning; the order of statements
 * breaks: nothing
 *
 *     h = relu(..);  y = sum[f] h*W2          stage h      loop                      (h detected
 * into list h) candidate y: k lists 8x1, guarded   ->  stage detect.h, guard.h stage y      loop
 * reads h when cover(h) below stage y.dense loop when cover(h) above
 *
 * One statement is one compute stage.  A list is made once and read by every stage that walks the
 * same micro-tiles: what one writes compact the next reads compact. */

#include <math.h>
#include "ir/beside.h"
#include "ir/loop.h"
#include "passes/attend.h"
#include "passes/stage.h"
#include "passes/storage.h"

ir_stage *pass_stage_new(pass_context *context, ir_kernel *kernel, ir_stage_kind kind,
                         const char *name) {
  ir_stage *stage = IR_NEW(context->arena, ir_stage);
  stage->number = kernel->stages.count;
  stage->kind = kind;
  stage->name = name;
  stage->row = "loop";
  IR_PUSH(context->arena, &kernel->stages, stage);
  return stage;
}

const ir_candidate *pass_chosen(const ir_kernel *kernel, const ir_tensor *target) {
  for (int i = 0; i < kernel->candidates.count; i++)
    if (kernel->candidates.at[i]->target == target &&
        kernel->candidates.at[i]->verdict == IR_CHOSEN)
      return kernel->candidates.at[i];
  return NULL;
}

const ir_candidate *pass_instead(const ir_kernel *kernel, const ir_tensor *target) {
  for (int i = 0; i < kernel->candidates.count; i++)
    if (kernel->candidates.at[i]->target == target && kernel->candidates.at[i]->verdict == IR_INSTEAD && kernel->candidates.at[i]->guarded) return kernel->candidates.at[i];
  return NULL;
}

const ir_candidate *pass_candidate_of(const ir_kernel *kernel, const ir_stage *stage) {
  const ir_tensor *target = ir_stage_stmt(stage)->target;
  const ir_list *list = stage->reads.count ? stage->reads.at[0] : NULL;
  return list && list->replaces ? pass_instead(kernel, target) : pass_chosen(kernel, target);
}

/* ---- compute stages -------------------------------------------------------------------------- */
void pass_rank(ir_candidate **candidates, int count, double (*time)(const ir_candidate *)) {
  for (int i = 1; i < count; i++) {
    ir_candidate *moved = candidates[i];
    int to = i;
    for (; to > 0 && time(candidates[to - 1]) > time(moved); to--) candidates[to] = candidates[to - 1];
    candidates[to] = moved;
  }
}

static double predicted(const ir_candidate *c) { return c->microseconds; }

static void take_candidate(pass_context *context, const ir_kernel *kernel, ir_stage *stage,
                           const ir_candidate *candidate) {
  stage->row = candidate->row;
  stage->why = candidate->why;
  stage->whole = candidate->whole;
  stage->microseconds = candidate->microseconds - candidate->index_microseconds;
  for (int i = 0; i < candidate->tiles.count; i++)
    IR_PUSH(context->arena, &stage->tiles, candidate->tiles.at[i]);
  for (int i = 0; i < kernel->candidates.count && stage->runners_up.count < 3; i++) {
    ir_candidate *other = kernel->candidates.at[i];
    if (other != candidate && other->target == candidate->target &&
        other->verdict == IR_RUNNER_UP && other->operand == candidate->operand &&
        other->strip == candidate->strip && other->gran == candidate->gran &&
        other->axis == candidate->axis && other->regrouped == candidate->regrouped && pass_is_krows(other) == pass_is_krows(candidate) &&
        pass_is_paired(other) == pass_is_paired(candidate))
      IR_PUSH(context->arena, &stage->runners_up, other);
  }
  pass_rank(stage->runners_up.at, stage->runners_up.count, predicted);
}

/* Workspaces of a result whose pattern is computed (tile.h). */
static void add_assembly(pass_context *context, ir_kernel *kernel, ir_stage *stage) {
  ir_arena *a = context->arena;
  ir_stmt *stmt = stage->stmts.at[0];
  const char *name = stmt->target->name;
  stage->assembled = true;
  if (!stage->why) stage->why = "its pattern is computed: entries are counted, then written";
  if (pass_stmt_appends(context, stmt)) return; /* `lower` knows what it needs */
  static const char *const parts[] = {"count", "at", "value"};
  ir_dtype dtypes[] = {IR_I64, IR_I64, stmt->acc != IR_NONE ? stmt->acc : stmt->target->dtype};
  for (int i = 0; i < IR_COUNT(parts); i++) {
    if (dtypes[i] == IR_NONE) continue;
    ir_buf *buf = pass_workspace_new(context, kernel, ir_format_text(a, "%s.%s", name, parts[i]),
                                     dtypes[i], i == 0 ? ir_int(a, 1) : NULL);
    buf->tensor = stmt->target;
    buf->zeroed = i == 0;
  }
}

/* The library's own choice of algorithm looks at how much there is; this much serves all of them.
 */
static void add_library_workspace(pass_context *context, ir_kernel *kernel,
                                  const ir_tensor *target) {
  const int64_t bytes = 32 << 20;
  ir_buf *buf = pass_workspace_new(context, kernel,
                                   ir_format_text(context->arena, "%s.library", target->name),
                                   IR_U8, ir_int(context->arena, bytes));
  buf->tensor = NULL;
}

/* What attention computes on its way to the result. */
static void add_on_chip(pass_context *context, const ir_kernel *kernel, ir_stage *stage, ir_stmt *result) {
  ir_attend t;
  const char *why;
  if (!ir_attend_of(context->arena, kernel, result, &t, &why)) return;
  for (int i = 0; i < kernel->stmts.count; i++)
    if (ir_attend_has(&t, kernel->stmts.at[i])) IR_PUSH(context->arena, &stage->stmts, kernel->stmts.at[i]);
}

static ir_stage *compute_stage(pass_context *context, ir_kernel *kernel, ir_stmt *stmt,
                               const ir_candidate *candidate, const char *name) {
  ir_stage *stage = pass_stage_new(context, kernel, IR_STAGE_COMPUTE, name);
  if (candidate && pass_is_attention(candidate)) add_on_chip(context, kernel, stage, stmt);
  IR_PUSH(context->arena, &stage->stmts, stmt);
  if (candidate) take_candidate(context, kernel, stage, candidate);
  if (candidate && pass_is_library(candidate)) add_library_workspace(context, kernel, stmt->target);
  if (candidate && pass_is_spread(candidate) && !pass_goes_in_place(context, candidate)) pass_listed_new(context, kernel, stmt->target);
  if (pass_stays_aside(context, kernel, candidate)) stage->microseconds -= pass_candidate_spread(context, candidate, candidate->cover);
  if (pass_stmt_is_assembled(stmt)) add_assembly(context, kernel, stage);
  if (!stage->why) stage->why = "generated loops";
  return stage;
}

/* ---- lists ----------------------------------------------------------------------------------- */
static bool same_micro_tiles(const ir_list *list, const ir_tensor *listed, const ir_candidate *candidate) {
  return list->tensor == listed && list->strip == candidate->strip &&
         list->gran == candidate->gran && list->pairs == pass_is_paired(candidate) &&
         !list->order == !candidate->regrouped && !list->packed == !(pass_is_live(candidate) || pass_is_packing(candidate) || pass_is_krows(candidate)) &&
         list->section == (pass_is_krows(candidate) ? ir_kernel_row_named(candidate->row)->m : 0) &&
         (list->strip_index == NULL) == (candidate->strip_index == NULL) &&
         list->axis == candidate->axis && list->strip_index == candidate->strip_index;
}

static ir_list *list_there(pass_context *context, const ir_kernel *kernel, const ir_candidate *candidate) {
  const ir_tensor *listed = pass_listed_tensor(context, kernel, candidate);
  for (int i = 0; i < kernel->lists.count; i++)
    if (same_micro_tiles(kernel->lists.at[i], listed, candidate)) return kernel->lists.at[i];
  return NULL;
}

static ir_stage *stage_of(const ir_kernel *kernel, const ir_tensor *target) {
  for (int i = 0; i < kernel->stages.count; i++) {
    ir_stage *stage = kernel->stages.at[i];
    if (stage->kind == IR_STAGE_COMPUTE && !stage->beside.count && ir_stage_stmt(stage)->target == target) return stage;
  }
  return NULL;
}

static int64_t tile_of(const ir_stage *stage, const ir_index *index) {
  for (int i = 0; i < stage->tiles.count; i++)
    if (stage->tiles.at[i].index == index) return stage->tiles.at[i].size;
  return 0;
}

enum { BITS_A_WORD = 32 };

/* The product that makes the list's tensor, whatever the data say, and makes no bits yet; NULL: there is none. */
static ir_stage *free_producer(const pass_context *context, const ir_kernel *kernel, const ir_list *list) {
  if (pass_target_of(context)->kind != IR_TARGET_CUDA || !list->strip_index || list->strip_dim < 0) return NULL;
  ir_stage *producer = stage_of(kernel, list->tensor);
  return producer && !producer->detects && strcmp(producer->row, "loop") && !producer->when.list ? producer : NULL;
}

/* A product's epilogue holds whole tiles: it can make the bits where strips and words of bits do
 * not cross one. */
static bool epilogue_detects(const pass_context *context, const ir_kernel *kernel,
                             const ir_list *list) {
  const ir_stage *producer = free_producer(context, kernel, list);
  if (!producer) return false;
  const ir_expr *strip = producer->stmts.at[0]->subs[list->strip_dim];
  const ir_expr *axis = producer->stmts.at[0]->subs[list->axis_dim];
  if (strip->kind != IR_INDEX || axis->kind != IR_INDEX) return false;
  const ir_kernel_row *row = ir_kernel_row_named(producer->row);
  int64_t rows = tile_of(producer, strip->index), columns = tile_of(producer, axis->index);
  if (row && rows == row->m && columns == row->n)
    return ir_kernel_detects(row, list->strip, list->gran);
  return rows > 0 && columns > 0 && rows % list->strip == 0 &&
         columns % (BITS_A_WORD * list->gran) == 0;
}

static void detect_stage(pass_context *context, ir_kernel *kernel, ir_list *list,
                         const ir_candidate *candidate) {
  ir_stage *stage = pass_stage_new(context, kernel, IR_STAGE_DETECT,
                                   ir_format_text(context->arena, "detect.%s", list->name));
  stage->detects = list;
  stage->microseconds = fmax(0, candidate->index_microseconds - (candidate->guarded ? pass_candidate_guard(context, candidate) : 0));
  bool cuda = pass_target_of(context)->kind == IR_TARGET_CUDA;
  if (cuda) stage->row = list->fused ? "lists_from_bits" : "detect_values";
  stage->why = list->section ? "one read of the values at memory speed; of each block the rows that hold anything are packed"
               : list->packed && list->fused ? "the epilogue that makes the zeros has left bits; what is listed of each row is brought side by side"
               : list->packed && list->strip_index ? "one read of the values at memory speed; what is listed of each row is then brought side by side"
               : list->packed ? "one read of the values at memory speed, of rows that hold anything until that is seen; these are packed"
               : list->order ? "one read of the values at memory speed; rows that are alike are then regrouped"
               : list->fused
                   ? "the epilogue that makes the zeros has left bits: no second read of the values"
                   : "one read of the values at memory speed";
}

static void guard_stage(pass_context *context, ir_kernel *kernel, ir_list *list, const ir_candidate *candidate) {
  double break_even = candidate->break_even;
  ir_arena *a = context->arena;
  list->verdict = pass_workspace_new(context, kernel, ir_format_text(a, "%s.verdict", list->name),
                                     IR_I32, ir_int(a, 1));
  list->threshold = pass_workspace_new(
      context, kernel, ir_format_text(a, "%s.threshold", list->name), IR_F64, ir_int(a, 1));
  list->break_even = break_even;
  ir_stage *stage =
      pass_stage_new(context, kernel, IR_STAGE_GUARD, ir_format_text(a, "guard.%s", list->name));
  IR_PUSH(a, &stage->reads, list);
  if (pass_target_of(context)->kind == IR_TARGET_CUDA) stage->row = "guard";
  bool sampled = !list->ids; /* by the kernel that asks */
  stage->microseconds = sampled ? 0 : pass_candidate_guard(context, candidate);
  stage->why = ir_format_text(a, "%s cover decides: dense from %.3g on", sampled ? "the sampled" : "measured", break_even);
}

/* The list that the operand is written over: swrite and sread cancel. */
static ir_list *list_written_over(pass_context *context, ir_kernel *kernel, const ir_candidate *candidate) {
  const ir_candidate *writer = pass_writer_of(kernel, candidate), *aside = writer ? NULL : pass_aside_writer(context, kernel, candidate);
  if (aside) pass_listed_new(context, kernel, candidate->operand);
  if (aside) return stage_of(kernel, aside->target)->reads.at[0];
  return writer ? stage_of(kernel, writer->target)->reads.at[0] : NULL;
}

static ir_list *list_for(pass_context *context, ir_kernel *kernel, const ir_candidate *candidate) {
  ir_list *list = list_written_over(context, kernel, candidate);
  if (!list) list = list_there(context, kernel, candidate);
  if (list) return list;
  bool cuda = pass_target_of(context)->kind == IR_TARGET_CUDA;
  list = pass_list_new(context, kernel, candidate, cuda);
  list->fused = !list->order && !list->section && epilogue_detects(context, kernel, list);
  if (list->fused) stage_of(kernel, list->tensor)->detects = list;
  detect_stage(context, kernel, list, candidate);
  return list;
}

/* A product of few rows that looks at zeros itself, behind one whose blocks ask where their result is needed: these know,
 * a bit a column, and the reader has no need to look at values. */
static void read_bits(pass_context *context, ir_kernel *kernel, ir_stage *stage, const ir_candidate *candidate) {
  const ir_kernel_row *row = ir_kernel_row_named(stage->row);
  ir_stage *producer = candidate && candidate->operand ? stage_of(kernel, candidate->operand) : NULL;
  const ir_kernel_row *made_by = producer ? ir_kernel_row_named(producer->row) : NULL;
  pass_sum sum;
  if (!row || !made_by || !ir_kernel_skips(row) || ir_kernel_skips_columns(row) || !ir_kernel_skips_columns(made_by) ||
      producer->detects || made_by->m % row->m || !candidate->strip_index ||
      !pass_sum_of(context, stage->stmts.at[0], &sum))
    return;
  if (row->m == 1 && sum.m > 1) return; /* each row would read what all of them have a use for */
  producer->detects = pass_bits_new(context, kernel, candidate, sum.k, made_by->m);
  IR_PUSH(context->arena, &stage->reads, producer->detects);
}

/* The same once more for runs that keep a copy of its packed operand. */
static void kept_stage(pass_context *context, ir_kernel *kernel, ir_stage *stage, ir_tensor *strips) {
  if (!strips) return;
  ir_stage *twin = pass_stage_new(context, kernel, IR_STAGE_COMPUTE,
                                  ir_format_text(context->arena, "%s.kept", stage->name));
  int number = twin->number;
  const char *name = twin->name;
  *twin = *stage;
  twin->number = number;
  twin->name = name;
  twin->strips = strips;
  twin->kept = stage->unkept = true;
  twin->why = ir_format_text(context->arena, "in place of `%s` where a run keeps `%s`: nothing is packed",
                             stage->name, strips->name);
}

static void dense_stage(pass_context *context, ir_kernel *kernel, ir_stmt *stmt, ir_list *list) {
  const char *name = ir_format_text(context->arena, "%s.dense", stmt->target->name);
  ir_stage *twin = compute_stage(context, kernel, stmt, pass_dense_branch(kernel, stmt->target), name);
  twin->when = (ir_guard){list, true, list->break_even};
  twin->why = ir_format_text(
      context->arena, "the dense branch: runs when the measured cover of `%s` is %.3g or more",
      list->tensor->name, list->break_even);
}

/* Its stages stand before those of the list that it replaces, from number `at` on: there is the front of both. */
static ir_list *list_instead(pass_context *context, ir_kernel *kernel, const ir_candidate *candidate, ir_list *first, int at) {
  ir_list *list = pass_list_new(context, kernel, candidate, true);
  list->replaces = first;
  int until = kernel->stages.count;
  detect_stage(context, kernel, list, candidate);
  guard_stage(context, kernel, list, candidate);
  for (int from = until; from < kernel->stages.count; from++, at++)
    for (int i = from; i > at; i--) {
      ir_stage *before = kernel->stages.at[i - 1];
      kernel->stages.at[i - 1] = kernel->stages.at[i], kernel->stages.at[i] = before;
      kernel->stages.at[i - 1]->number = i - 1, before->number = i;
    }
  return list;
}

static void sparse_stage(pass_context *context, ir_kernel *kernel, ir_stmt *stmt, const ir_candidate *candidate, ir_list *list, const char *name, ir_tensor *strips) {
  ir_stage *stage = compute_stage(context, kernel, stmt, candidate, name);
  IR_PUSH(context->arena, &stage->reads, list);
  if (candidate->guarded) stage->when = (ir_guard){list, false, list->break_even};
  kept_stage(context, kernel, stage, strips);
}

static void sparse_stages(pass_context *context, ir_kernel *kernel, ir_stmt *stmt,
                          const ir_candidate *candidate, ir_tensor *strips) {
  const ir_candidate *other = pass_instead(kernel, stmt->target);
  int at = kernel->stages.count;
  ir_list *list = list_for(context, kernel, candidate);
  bool guarded = candidate->guarded;
  if (guarded && !list->verdict) guard_stage(context, kernel, list, candidate);
  ir_list *instead = other ? list_instead(context, kernel, other, list, at) : NULL;
  sparse_stage(context, kernel, stmt, candidate, list, stmt->target->name, strips);
  if (instead) sparse_stage(context, kernel, stmt, other, instead, ir_format_text(context->arena, "%s.instead", stmt->target->name), NULL);
  if (guarded) dense_stage(context, kernel, stmt, list);
}

/* Kernels that look at zeros themselves ask bits, where the epilogue of who makes the values can leave some on the way. */
static void leave_asked_bits(pass_context *context, ir_kernel *kernel, ir_list *list) {
  ir_stage *producer = free_producer(context, kernel, list);
  const ir_kernel_row *row = producer ? ir_kernel_row_named(producer->row) : NULL;
  if (!row || ir_dtype_bytes(list->tensor->dtype) != 2 || !ir_kernel_detects_steps(row, list->strip, list->gran)) return;
  pass_list_add_bits(context, kernel, list);
  list->fused = true;
  producer->detects = list;
}

/* The verdict of who computes what the kernel looks at, and was asked where; NULL: it looks for itself. */
static ir_list *heeded(const ir_kernel *kernel, const ir_candidate *candidate) {
  const ir_stage *writer = stage_of(kernel, candidate->operand);
  const ir_kernel_row *row = writer ? ir_kernel_row_named(writer->row) : NULL;
  return row && ir_kernel_skips_columns(row) ? writer->when.list : NULL;
}

/* The verdict that stands before kernels which look at zeros themselves: of the one that asks, and of those that read what it
 * computes; or of who looks at values. */
static ir_list *sample_for(pass_context *context, ir_kernel *kernel, ir_stmt *stmt, const ir_candidate *candidate) {
  pass_sum sum;
  bool asks = ir_kernel_skips_columns(ir_kernel_row_named(candidate->row));
  ir_list *list = asks ? NULL : heeded(kernel, candidate);
  if (list) return list;
  pass_sum_of(context, stmt, &sum);
  list = pass_sample_new(context, kernel, candidate, asks ? sum.n_index : sum.k);
  if (asks) leave_asked_bits(context, kernel, list);
  guard_stage(context, kernel, list, candidate);
  return list;
}

static void looking_stages(pass_context *context, ir_kernel *kernel, ir_stmt *stmt, const ir_candidate *candidate) {
  ir_list *list = sample_for(context, kernel, stmt, candidate);
  ir_stage *stage = compute_stage(context, kernel, stmt, candidate, stmt->target->name);
  stage->when = (ir_guard){list, false, list->break_even};
  if (list->bits && list->tensor == candidate->operand) IR_PUSH(context->arena, &stage->reads, list);
  read_bits(context, kernel, stage, candidate);
  dense_stage(context, kernel, stmt, list);
}

/* ---- how much of an operand is stored --------------------------------------------------------- */
static ir_list *stored_list(pass_context *context, ir_kernel *kernel, const ir_candidate *chosen, const ir_expr *stored) {
  for (int i = 0; i < kernel->lists.count; i++)
    if (pass_weighs_store(kernel->lists.at[i]) && kernel->lists.at[i]->tensor == stored->tensor) return kernel->lists.at[i];
  ir_list *list = pass_stored_list_new(context, kernel, chosen, stored);
  guard_stage(context, kernel, list, chosen);
  ir_stage *guard = kernel->stages.at[kernel->stages.count - 1];
  guard->microseconds = 0;
  guard->why = ir_format_text(context->arena, "how much of `%s` is stored decides: %.3g and more is written out and multiplied as dense",
                              stored->tensor->name, chosen->break_even);
  return list;
}

static void written_stage(pass_context *context, ir_kernel *kernel, const ir_stmt *stmt, ir_tensor *full, const ir_list *list) {
  ir_stage *stage = compute_stage(context, kernel, full->def, NULL, full->name);
  stage->when = (ir_guard){(ir_list *)list, true, list->break_even};
  stage->why = ir_format_text(context->arena, "`%s` written out, for `%s.dense`", list->tensor->name, stmt->target->name);
}

/* Returns how many statements stand before this one now. */
static int stored_stages(pass_context *context, ir_kernel *kernel, int at, const ir_candidate *chosen, ir_tensor *strips) {
  ir_stmt *stmt = kernel->stmts.at[at];
  pass_sum sum;
  pass_sum_of(context, stmt, &sum);
  const ir_expr *stored = pass_stored_operand(&sum);
  const ir_candidate *other = pass_stored_branch(kernel, chosen);
  ir_list *list = stored_list(context, kernel, chosen, stored);
  ir_tensor *full;
  int made = pass_stage_full(context, kernel, at, stored, list, &full);
  if (made) written_stage(context, kernel, stmt, full, list);
  ir_stage *walks = compute_stage(context, kernel, stmt, chosen->expanded ? other : chosen, stmt->target->name);
  walks->when = (ir_guard){list, false, list->break_even};
  kept_stage(context, kernel, walks, strips);
  ir_stage *twin = compute_stage(context, kernel, stmt, chosen->expanded ? chosen : other,
                                 ir_format_text(context->arena, "%s.dense", stmt->target->name));
  twin->full = full;
  twin->when = (ir_guard){list, true, list->break_even};
  twin->why = ir_format_text(context->arena, "the dense branch: runs where %.3g or more of `%s` is stored, and reads `%s` in its place",
                             list->break_even, stored->tensor->name, full->name);
  return made;
}

/* ---- readers of what lies side by side ------------------------------------------------------- */
static bool is_beside(const ir_stage *stage, const ir_tensor *tensor) {
  for (int i = 0; i < stage->beside.count; i++)
    if (stage->beside.at[i] == tensor) return true;
  return false;
}

/* Nothing behind the stage makes what the statement reads, and there is room for it and for its columns. */
static bool can_join(const ir_kernel *kernel, const ir_stage *stage, const ir_stmt *stmt, const ir_candidate *const *columns, int count) {
  int beside = stage->beside.count;
  for (int i = 0; i < count; i++) beside += !is_beside(stage, columns[i]->target);
  for (int i = stage->number; i < kernel->stages.count; i++) {
    const ir_stage *other = kernel->stages.at[i];
    for (int n = 0; n < other->stmts.count; n++)
      if (pass_stmt_reads(stmt, other->stmts.at[n]->target)) return false;
  }
  return stage->stmts.count < IR_MOST_BESIDE && beside <= IR_MOST_BESIDE;
}

/* That reads such columns of the list already, and can compute the statement too; NULL: there is none. */
static ir_stage *spreading_stage(const ir_kernel *kernel, const ir_stmt *stmt, const ir_list *list, const ir_candidate *const *columns, int count) {
  for (int i = kernel->stages.count - 1; i >= 0; i--) {
    ir_stage *stage = kernel->stages.at[i];
    if (stage->beside.count && stage->reads.at[0] == list && stage->stmts.at[0]->target->dtype == stmt->target->dtype &&
        ir_last_dim(stage->stmts.at[0]->target) == ir_last_dim(stmt->target))
      return can_join(kernel, stage, stmt, columns, count) ? stage : NULL;
  }
  return NULL;
}

static double spread_time(pass_context *context, const ir_stage *stage, double cover) {
  const pass_profile *p = context->profile;
  double listed = pass_tensor_bytes(context, stage->beside.at[0]) * stage->beside.count, written = 0;
  for (int i = 0; i < stage->stmts.count; i++) written += pass_tensor_bytes(context, stage->stmts.at[i]->target);
  return pass_cost_beside(p, pass_tensor_bytes(context, stage->reads.at[0]->tensor) + written + fmin(1, cover) * listed);
}

/* Elementwise, of columns that lie side by side: it and the others of these are one launch, of what lies whole where dense is meant. */
static void aside_stage(pass_context *context, ir_kernel *kernel, ir_stmt *stmt, const ir_candidate *const *columns, int count) {
  ir_list *list = stage_of(kernel, columns[0]->target)->reads.at[0];
  ir_stage *stage = spreading_stage(kernel, stmt, list, columns, count);
  if (stage) {
    IR_PUSH(context->arena, &stage->stmts, stmt);
  } else {
    stage = compute_stage(context, kernel, stmt, NULL, stmt->target->name);
    stage->row = "spread";
    IR_PUSH(context->arena, &stage->reads, list);
  }
  for (int i = 0; i < count; i++) {
    pass_listed_new(context, kernel, columns[i]->target);
    if (!is_beside(stage, columns[i]->target)) IR_PUSH(context->arena, &stage->beside, columns[i]->target);
  }
  stage->why = ir_format_text(context->arena, "what it reads lies side by side in the columns that `%s` lists, which are spread here%s", list->name,
                              ir_beside_may_be_whole(kernel, stage) ? "; or whole, where dense is meant" : "");
  stage->microseconds = spread_time(context, stage, columns[0]->cover);
}

static bool weighs_store(const ir_candidate *candidate) { return candidate && candidate->guarded && !candidate->operand; }

static void plain_stage(pass_context *context, ir_kernel *kernel, ir_stmt *stmt,
                        const ir_candidate *candidate, ir_tensor *strips) {
  ir_stage *stage = compute_stage(context, kernel, stmt, candidate, stmt->target->name);
  read_bits(context, kernel, stage, candidate);
  kept_stage(context, kernel, stage, strips);
}

/* A tensor may be converted twice, into other orders of levels. */
static const char *convert_name(pass_context *context, const ir_kernel *kernel,
                                const ir_tensor *source, const ir_tensor *dest) {
  const char *name = ir_format_text(context->arena, "convert.%s", source->name);
  for (int i = 0; i < kernel->stages.count; i++)
    if (!strcmp(kernel->stages.at[i]->name, name))
      return ir_format_text(context->arena, "%s.%s", name, dest->name);
  return name;
}

static void convert_stage(pass_context *context, ir_kernel *kernel, ir_stmt *stmt,
                          ir_tensor *source) {
  ir_stage *stage = pass_stage_new(context, kernel, IR_STAGE_CONVERT,
                                   convert_name(context, kernel, source, stmt->target));
  stage->source = source;
  stage->dest = stmt->target;
  stage->microseconds = pass_cost_convert(context->profile, pass_tensor_bytes(context, source));
  stage->why = stmt->target->format_why;
}

spc_status pass_stage(pass_context *context, ir_kernel *kernel) {
  pass_context_prepare(context);
  if (kernel->stages.count) {
    ir_diag_add(context->sink, IR_DIAG_PASS_NEEDS, kernel->span,
                "kernel `%s` has stages already, and the file says that it was dumped before pass "
                "`stage`: `after` names the last pass that ran",
                kernel->name);
    return SPC_INVALID_INPUT;
  }
  for (int s = 0; s < kernel->stmts.count; s++) {
    ir_stmt *stmt = kernel->stmts.at[s];
    const ir_candidate *candidate = pass_chosen(kernel, stmt->target);
    if (pass_is_on_chip(context, kernel, stmt)) continue;
    for (int n = pass_stage_expand(context, kernel, s, candidate); n > 0; n--, s++)
      compute_stage(context, kernel, kernel->stmts.at[s], NULL, kernel->stmts.at[s]->target->name);
    ir_tensor *strips, *source = pass_stmt_converts(stmt);
    bool weighs = weighs_store(candidate);
    const ir_candidate *columns[IR_MOST_BESIDE];
    int aside = pass_aside_of(context, kernel, stmt, columns);
    const ir_candidate *walks = weighs && candidate->expanded ? pass_stored_branch(kernel, candidate) : candidate;
    if (pass_stage_strips(context, kernel, s, walks, &strips)) {
      ir_stage *copy = compute_stage(context, kernel, strips->def, NULL, strips->name);
      copy->kept = true;
      copy->why = ir_format_text(context->arena, "`%s` walks strips of it, which lie so one after the other",
                                 stmt->target->name);
      s++;
    }
    if (source && pass_tensor_is_sparse(stmt->target))
      convert_stage(context, kernel, stmt, source);
    else if (aside)
      aside_stage(context, kernel, stmt, columns, aside);
    else if (candidate && candidate->operand && candidate->axis)
      sparse_stages(context, kernel, stmt, candidate, strips);
    else if (weighs)
      s += stored_stages(context, kernel, s, candidate, strips);
    else if (candidate && candidate->guarded)
      looking_stages(context, kernel, stmt, candidate);
    else
      plain_stage(context, kernel, stmt, candidate, strips);
  }
  pass_stage_once(context, kernel);
  pass_stage_shares(context, kernel);
  pass_stage_fronts(context, kernel);
  pass_stage_lifetimes(kernel);
  return SPC_OK;
}
