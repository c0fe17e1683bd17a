/* explain.c - `spc explain`: the decisions of the passes in words an engineer can check.
 *
 * The first lines are the conclusion (explain_summary.c); then every stage with its reasons.
 * Everything printed is read from the kernel: stages, lists, formats, axes, the table of
 * candidates.  Nothing is decided here. */
#include "ir/beside.h"
#include "passes/explain.h"

#include "ir/kernels.h"
#include "ir/loop.h"
#include "passes/choice.h"
#include "passes/stage.h"

static void put_tiles(ir_text *out, const ir_tile_size *tiles, int count) {
  for (int i = 0; i < count; i++)
    ir_text_printf(out, "%s%s=%lld", i ? " " : "", tiles[i].index->name, (long long)tiles[i].size);
}

/* ---- one stage ------------------------------------------------------------------------------- */
static const char *const kinds[] = {"computes", "builds the list of", "converts", "guards"};

static void put_row(const ir_stage *stage, bool unpacked, ir_text *out) {
  const ir_kernel_row *row = ir_kernel_row_named(stage->row);
  ir_text_printf(out, "    kernel    %s",
                 !strcmp(stage->row, "loop")      ? "generated loops"
                 : !strcmp(stage->row, "library") ? "a call of cuBLASLt"
                                                  : stage->row);
  if (stage->tiles.count) {
    ir_text_put(out, ", tile ");
    put_tiles(out, stage->tiles.at, stage->tiles.count);
    if (row && ir_kernel_narrow(row)) ir_text_printf(out, " (%d wide where a list has no more left, or tiles are few)", ir_kernel_narrow(row));
  }
  if (row && row->m)
    ir_text_printf(out, ", %d stages deep, %d threads",
                   stage->stages_deep ? stage->stages_deep : row->depth,
                   stage->warps ? 32 * stage->warps : row->threads);
  if (stage->microseconds > 0)
    ir_text_printf(out, "; predicted %s", pass_time_text(out->arena, stage->microseconds));
  ir_text_put(out, "\n");
  if (stage->once)
    ir_text_printf(out, "    once      it reads `const` inputs alone: spc_plan_pack keeps what it makes; %s\n",
                   unpacked ? "assumed not to be called: the choice counts it in every run" : "assumed to be called");
  if (stage->why) ir_text_printf(out, "    because   %s\n", stage->why);
}

static void put_storage(const ir_stmt *stmt, ir_text *out) {
  const ir_tensor *t = stmt->target;
  if ((!t->format && !t->like) || !t->format_why) return;
  ir_text_printf(out, "    storage   %s: ", t->name);
  if (t->like)
    ir_text_printf(out, "like(%s)", t->like->name);
  else
    ir_format_print(t->format, out);
  ir_text_printf(out, ", %s\n", t->format_why);
}

/* Matrices of a product whose rows cost its boxes twice the memory lines (cost.c). */
typedef struct crooked_rows {
  const ir_tensor *found[2];
  int count;
} crooked_rows;

static bool note_crooked(void *user, ir_expr *node) {
  crooked_rows *c = user;
  if (node->kind != IR_ACCESS || node->tensor->rank < 2 || ir_dtype_bytes(node->tensor->dtype) != 2 || pass_lines_a_row(node) < 2) return true;
  bool again = c->count > 0 && c->found[0] == node->tensor;
  if (c->count < IR_COUNT(c->found) && !again) c->found[c->count++] = node->tensor;
  return true;
}

static bool note_summed(void *user, ir_expr *node) {
  if (node->kind != IR_REDUCE) return true;
  return ir_expr_walk(node->args[0], note_crooked, user), true;
}

static void put_lines(const ir_stage *stage, ir_text *out) {
  const int line = PASS_LINE_BYTES / 2; /* elements */
  const ir_kernel_row *row = ir_kernel_row_named(stage->row);
  crooked_rows c = {{NULL}, 0};
  bool boxes = !strcmp(stage->row, "library") || (row && ir_kernel_is_dense(row) && ir_kernel_moves_boxes(row));
  if (boxes) ir_expr_walk(ir_stage_stmt(stage)->value, note_summed, &c);
  for (int i = 0; i < c.count; i++) {
    const ir_expr *size = c.found[i]->dim[ir_last_dim(c.found[i])];
    int64_t length;
    ir_text_printf(out, "    lines     rows of `%s` are no multiples of %d bytes, so each %d bytes of them lie in two memory lines", c.found[i]->name, PASS_LINE_BYTES, PASS_LINE_BYTES);
    if (ir_size_known(size, &length)) ir_text_printf(out, "; rows of %lld elements in place of %lld would lie in one", (long long)((length + line - 1) / line * line), (long long)length);
    ir_text_put(out, "\n");
  }
}

static void put_axes(const ir_stmt *stmt, ir_text *out) {
  int shown = 0;
  for (int i = 0; i < stmt->axes.count; i++)
    if (stmt->axes.at[i].invariant)
      ir_text_printf(out, "%s%s%s", shown++ ? ", " : "    any order ", stmt->axes.at[i].index->name,
                     stmt->axes.at[i].reduction ? " (summed)" : "");
  if (shown) ir_text_put(out, "\n");
  for (int i = 0; i < stmt->axes.count; i++)
    if (!stmt->axes.at[i].invariant)
      ir_text_printf(out, "    in order  %s: %s\n", stmt->axes.at[i].index->name,
                     stmt->axes.at[i].why ? stmt->axes.at[i].why : "");
}

static void put_list(const ir_list *list, ir_text *out) {
  if (ir_list_is_of_rows(list)) {
    ir_text_printf(out, "    list      %s: each %s of which `%s` holds anything, detected from its values and packed\n",
                   list->name, list->axis->name, list->tensor->name);
    return;
  }
  ir_text_printf(out, "    list      %s: micro-tiles of %lld", list->name, (long long)list->strip);
  if (list->strip_index) ir_text_printf(out, " %s", list->strip_index->name);
  ir_text_printf(
      out, " x %lld %s of `%s`, %s\n", (long long)list->gran, list->axis->name, list->tensor->name,
      !list->ids    ? list->verdict ? "bits alone, made in the epilogue that makes the zeros" : "bits alone, of the kernel that knows where it is asked for"
      : list->fused  ? "bits made in the epilogue that makes the zeros"
      : list->section ? "detected from its values; of each block the rows that hold anything are packed"
      : list->packed ? "detected from its values and brought side by side, row by row"
                     : "detected from its values");
}

static const char *dense_label(const ir_kernel *kernel, const ir_candidate *chosen) {
  const ir_candidate *dense = pass_dense_branch(kernel, chosen->target);
  return dense ? dense->label : "none";
}

/* At the size that estimates took; 0 where they took none. */
static int64_t assumed(const ir_expr *size) {
  if (size && size->kind == IR_CONST) return size->i;
  return size && size->kind == IR_DIM ? size->dim->assumed : 0;
}

/* Tiles over k's of a list that are left for the last turn, where blocks share them (kernels/shares.cuh), at the sizes that estimates took. */
static void put_turns(const ir_stage *stage, ir_text *out) {
  const ir_kernel_row *row = ir_kernel_row_named(stage->row);
  if (!row || !ir_kernel_gathers(row) || !ir_stage_shares(stage, row) || !stage->reads.at[0]->sums) return;
  const ir_list *list = stage->reads.at[0];
  int64_t tiles = 1, units = list->sums->count->i / ((int64_t)row->m * row->n);
  for (int i = 0; i < stage->tiles.count; i++) {
    const ir_tile_size *tile = &stage->tiles.at[i];
    if (strcmp(tile->index->name, list->axis->name)) tiles *= (assumed(tile->index->extent) + tile->size - 1) / tile->size;
  }
  const int64_t left = tiles % units, blocks = left ? units / left : 0;
  if (blocks > 1)
    ir_text_printf(out, "    turns     %lld tiles on %lld multiprocessors; %lld of the last turn %s shared, by up to %lld blocks each, some of the list's %s a block\n", (long long)tiles,
                   (long long)units, (long long)left, left == 1 ? "is" : "are", (long long)(blocks < IR_SHARED_PARTS ? blocks : IR_SHARED_PARTS), list->axis->name);
}

/* Rows of a full strip; of a list of whole rows what one holds, which zeros must leave out together. */
static double strip_rows(const ir_candidate *c) {
  int64_t rows = assumed(c->strip_index ? c->strip_index->extent : NULL), length = 1;
  for (int d = 0; d < c->operand->rank; d++) length *= assumed(c->operand->dim[d]);
  int64_t listed = assumed(c->axis ? c->axis->extent : NULL);
  if (pass_is_live(c)) return listed > 0 && length > listed ? (double)(length / listed) : (double)c->strip;
  return rows > 0 && rows < c->strip ? (double)rows : (double)c->strip;
}

static void put_unit(const ir_candidate *c, ir_text *out) {
  if (pass_is_live(c)) ir_text_printf(out, " of all %s", c->axis->name);
  else ir_text_printf(out, " of the %lldx%lld micro-tiles", (long long)c->strip, (long long)c->gran);
}

/* Of the zeros that its lists leave out, as its strips meet them. */
static pass_zeros granularity(const ir_candidate *c) {
  const ir_tensor *told = pass_hinted_tensor(c->operand);
  const ir_pattern *pattern = told ? &told->pattern : &c->operand->pattern;
  pass_zeros zeros = {.rows = pattern->gran_rows > 0 ? pattern->gran_rows : 1,
                      .cols = pattern->gran_cols > 0 ? pattern->gran_cols : 1};
  return pass_zeros_across(c, &zeros);
}

static void put_percent(ir_text *out, double share) {
  double percent = 100 * share;
  ir_text_printf(out,
                 percent > 99 && percent < 99.95 ? "%.1f %%"
                 : percent < 10                  ? "%.2g %%"
                                                 : "%.0f %%",
                 percent);
}

static void put_density(const ir_candidate *c, ir_text *out) {
  ir_text_printf(out, "    density   ");
  if (c->density_high > c->density_low * 1.01)
    ir_text_printf(out, "%.3g to %.3g, likely ", c->density_low, c->density_high);
  ir_text_printf(out, "%.3g, %s\n", c->density,
                 pass_hinted_tensor(c->operand) ? "by the hint" : "assumed (no hint)");
}

/* How much of the operand lists leave depends on how alike its rows are, which only the guard
 * learns. */
static void put_cover(const ir_candidate *c, ir_text *out) {
  pass_zeros zeros = granularity(c);
  double independent = pass_cover(&zeros, c->density, strip_rows(c), (double)c->gran);
  ir_text_put(out, "    cover     ");
  if (independent <= c->density * 1.001) {
    put_percent(out, independent);
    put_unit(c, out);
    ir_text_put(out, "\n");
    return;
  }
  ir_text_put(out, "independent zeros would cover ");
  put_percent(out, independent);
  put_unit(c, out);
  if (c->regrouped) ir_text_put(out, " as rows lie, less of them in their order");
  ir_text_put(out, ", aligned ones ");
  put_percent(out, c->density);
  ir_text_put(out, c->guarded ? "; the guard measures\n" : "\n");
}

static void put_weighed(const ir_kernel *kernel, const ir_stage *stage, const ir_candidate *chosen, ir_text *out) {
  const ir_candidate *other = pass_stored_branch(kernel, chosen);
  const char *name = stage->when.list->tensor->name;
  ir_text_printf(out, "    guard     where %.3g or more of `%s` is stored it is written out and multiplied as dense; ", stage->when.threshold, name);
  ir_text_printf(out, "as expected %s, and the other branch %s: %s\n", pass_time_text(out->arena, chosen->microseconds),
                 pass_time_text(out->arena, other ? other->microseconds : 0), other ? other->label : "none");
}

static void put_sparse(const ir_kernel *kernel, const ir_candidate *c, ir_text *out) {
  put_density(c, out);
  put_cover(c, out);
  ir_text_printf(
      out, "    time      %s expected; %s at cover %.2g, of which lists and guard %s; dense %s\n",
      pass_time_text(out->arena, c->expected), pass_time_text(out->arena, c->microseconds),
      c->cover, pass_time_text(out->arena, c->index_microseconds),
      pass_time_text(out->arena, pass_explain_dense_time(kernel, c)));
  if (!c->guarded) return;
  ir_text_printf(out, "    guard     break-even cover %.3g", c->break_even);
  pass_zeros zeros = granularity(c);
  if (!c->regrouped) ir_text_printf(out, ", which independent zeros reach at density %.3g", pass_cover_inverse(&zeros, c->break_even, strip_rows(c), (double)c->gran));
  ir_text_printf(out, "; from there on the dense branch runs: %s\n", dense_label(kernel, c));
}

/* Nothing speaks against it but its time. */
static bool is_slower(const ir_candidate *c, ir_arena *arena) {
  const char *time = pass_time_text(arena, c->expected);
  return c->verdict == IR_REJECTED && !strncmp(c->why, time, strlen(time)) &&
         (!c->why[strlen(time)] || strstr(c->why, "times the chosen"));
}

static const char *measured_text(ir_arena *arena, const ir_candidate *c) {
  return c->measured > 0
             ? ir_format_text(arena, ", measured %s", pass_time_text(arena, c->measured))
             : "";
}

static void put_slower(const ir_kernel *kernel, const ir_tensor *target, ir_text *out) {
  int shown = 0;
  for (int i = 0; i < kernel->candidates.count; i++) {
    const ir_candidate *c = kernel->candidates.at[i];
    if (c->target == target && is_slower(c, out->arena))
      ir_text_printf(out, "%s%s (%s%s)", shown++ ? "; " : "    slower    ", c->label,
                     pass_time_text(out->arena, c->expected), measured_text(out->arena, c));
  }
  if (shown) ir_text_put(out, "\n");
}

const char *pass_explain_verdict(ir_verdict verdict) {
  static const char *const words[] = {"chosen", "instead", "runner-up", "rejected"};
  return words[verdict];
}

static void put_other(const ir_candidate *c, ir_text *out) {
  const char *word = c->verdict == IR_RUNNER_UP ? "next" : pass_explain_verdict(c->verdict);
  ir_text_printf(out, "    %-9s %s: %s%s\n", word, c->label, c->why, measured_text(out->arena, c));
}

static double expected(const ir_candidate *c) { return c->expected; }

static void put_others(const ir_kernel *kernel, const ir_tensor *target, ir_text *out) {
  IR_VEC(ir_candidate *) next = {0};
  for (int i = 0; i < kernel->candidates.count; i++) {
    ir_candidate *c = kernel->candidates.at[i];
    if (c->target == target && c->verdict == IR_RUNNER_UP && !is_slower(c, out->arena)) IR_PUSH(out->arena, &next, c);
  }
  pass_rank(next.at, next.count, expected);
  for (int i = 0; i < next.count; i++) put_other(next.at[i], out);
  for (int i = 0; i < kernel->candidates.count; i++) {
    const ir_candidate *c = kernel->candidates.at[i];
    if (c->target == target && c->verdict == IR_REJECTED && !is_slower(c, out->arena)) put_other(c, out);
  }
  put_slower(kernel, target, out);
}

/* Results that lie in no place of their own. */
static void put_aside(const ir_kernel *kernel, const ir_stage *stage, ir_text *out) {
  if (ir_stage_stores_in_place(kernel, stage))
    ir_text_put(out, "    in place  the hint says that a column is asked for in all rows of its strip: the epilogue stores it where it belongs; in strips that break the hint elements are asked one by one, which is slower\n");
  if (ir_stage_is_aside(kernel, stage)) ir_text_put(out, "    aside     its columns stay side by side: what reads them is elementwise, and spreads them\n");
  for (int i = 0; i < stage->beside.count; i++) ir_text_printf(out, i ? ", `%s`" : "    reads     columns side by side of `%s`", stage->beside.at[i]->name);
  if (stage->beside.count) ir_text_put(out, "\n");
}

static void put_compute(const ir_kernel *kernel, const ir_stage *stage, ir_text *out) {
  for (int i = 0; i < stage->stmts.count; i++) {
    ir_text_put(out, "    ");
    ir_print_stmt(stage->stmts.at[i], out);
    if (out->length && out->data[out->length - 1] != '\n') ir_text_put(out, "\n");
  }
  const ir_stmt *stmt = ir_stage_stmt(stage);
  const ir_candidate *chosen = pass_candidate_of(kernel, stage);
  put_row(stage, kernel->program->unpacked, out);
  if (stage->strips || (stage->when.list && stage->when.above)) return;
  if (chosen && chosen->measured > 0)
    ir_text_printf(out, "    measured  %s by `spc bench`, predicted %s\n",
                   pass_time_text(out->arena, chosen->measured),
                   pass_time_text(out->arena, chosen->microseconds));
  put_storage(stmt, out);
  put_lines(stage, out);
  put_axes(stmt, out);
  if (stmt->fused_why) ir_text_printf(out, "    fusion    %s\n", stmt->fused_why);
  for (int i = 0; i < stage->reads.count; i++) put_list(stage->reads.at[i], out);
  put_turns(stage, out);
  put_aside(kernel, stage, out);
  if (chosen && chosen->operand && chosen->axis) put_sparse(kernel, chosen, out);
  if (chosen && stage->when.list && pass_weighs_store(stage->when.list)) put_weighed(kernel, stage, chosen, out);
  if (!chosen || chosen->verdict != IR_INSTEAD) put_others(kernel, stmt->target, out); /* told of the one that is asked first */
}

static void put_stage(const ir_kernel *kernel, const ir_stage *stage, ir_text *out) {
  ir_text_printf(out, "\n  stage %d `%s` %s", stage->number, stage->name, kinds[stage->kind]);
  if (stage->kind == IR_STAGE_DETECT) ir_text_printf(out, " `%s`", stage->detects->tensor->name);
  if (stage->kind == IR_STAGE_CONVERT) {
    ir_text_printf(out, " `%s` into ", stage->source->name);
    ir_format_print(stage->dest->format, out);
  }
  bool weighs = stage->when.list && pass_weighs_store(stage->when.list);
  if (stage->kind == IR_STAGE_GUARD)
    ir_text_printf(out, pass_weighs_store(stage->reads.at[0]) ? " how much of `%s` is stored" : " the list `%s`",
                   pass_weighs_store(stage->reads.at[0]) ? stage->reads.at[0]->tensor->name : stage->reads.at[0]->name);
  if (weighs)
    ir_text_printf(out, ", only where %s %.3g of `%s` is stored", stage->when.above ? "at least" : "less than",
                   stage->when.threshold, stage->when.list->tensor->name);
  else if (stage->when.list)
    ir_text_printf(out, ", only when the cover of `%s` is %s %.3g", stage->when.list->name,
                   stage->when.above ? "at least" : "below", stage->when.threshold);
  if (stage->unkept || stage->strips)
    ir_text_put(out, stage->strips ? ", where spc_plan_pack's memory is there" : ", where nothing is kept");
  ir_text_put(out, "\n");
  if (stage->kind == IR_STAGE_COMPUTE)
    put_compute(kernel, stage, out);
  else
    put_row(stage, kernel->program->unpacked, out);
}

void pass_explain_stages(const ir_kernel *kernel, ir_text *out) {
  if (!kernel->stages.count)
    ir_text_put(out,
                "  nothing was decided: the interpreter computes the statements as they stand\n");
  for (int i = 0; i < kernel->stages.count; i++) put_stage(kernel, kernel->stages.at[i], out);
}

void pass_explain(const ir_program *program, const ir_kernel *kernel, ir_text *out) {
  pass_explain_head(program, kernel, out);
  pass_explain_stages(kernel, out);
}
