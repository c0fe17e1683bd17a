/* explain.c - `spc explain`: the decisions of the passes in words an engineer can check.
 *
 * Everything printed is read from the kernel: stages, lists, formats, axes, the table of candidates.  Nothing
 * is decided or estimated here, so what is explained is what runs. */
#include "passes/explain.h"

#include "ir/kernels.h"
#include "ir/loop.h"
#include "passes/cost.h"
#include "passes/stage.h"

static void put_time(ir_text *out, double microseconds) {
  if (microseconds >= 1e4) ir_text_printf(out, "%.3g ms", microseconds / 1e3);
  else ir_text_printf(out, "%.3g us", microseconds);
}

static void put_tiles(ir_text *out, const ir_tile_size *tiles, int count) {
  for (int i = 0; i < count; i++)
    ir_text_printf(out, "%s%s=%lld", i ? " " : "", tiles[i].index->name, (long long)tiles[i].size);
}

static double dense_time(const ir_kernel *kernel, const ir_candidate *chosen) {
  double least = -1;
  for (int i = 0; i < kernel->candidates.count; i++) {
    const ir_candidate *c = kernel->candidates.at[i];
    bool usable = c->target == chosen->target && !c->operand && c->microseconds > 0 && strcmp(c->row, "library");
    if (usable && (least < 0 || c->microseconds < least)) least = c->microseconds;
  }
  return least < 0 ? chosen->microseconds : least;
}

/* ---- the whole ------------------------------------------------------------------------------------ */
static void put_totals(const ir_kernel *kernel, ir_text *out) {
  double chosen = 0, dense = 0;
  for (int i = 0; i < kernel->candidates.count; i++) {
    const ir_candidate *c = kernel->candidates.at[i];
    if (c->verdict != IR_CHOSEN) continue;
    chosen += c->microseconds;
    dense += dense_time(kernel, c);
  }
  for (int i = 0; i < kernel->stages.count; i++)
    if (kernel->stages.at[i]->kind == IR_STAGE_CONVERT) chosen += kernel->stages.at[i]->microseconds;
  ir_text_put(out, "  predicted: ");
  put_time(out, chosen);
  ir_text_put(out, ", everything dense: ");
  put_time(out, dense);
  ir_text_put(out, "\n");
}

static bool uses_dim(const ir_expr *size, const ir_dim *dim) {
  if (size->kind == IR_DIM && size->dim == dim) return true;
  for (int i = 0; i < size->arg_count; i++)
    if (uses_dim(size->args[i], dim)) return true;
  return false;
}

static bool kernel_uses_dim(const ir_kernel *kernel, const ir_dim *dim) {
  for (int i = 0; i < kernel->tensors.count; i++)
    for (int d = 0; d < kernel->tensors.at[i]->rank; d++)
      if (uses_dim(kernel->tensors.at[i]->dim[d], dim)) return true;
  return false;
}

static void put_sizes(const ir_program *program, const ir_kernel *kernel, ir_text *out) {
  int shown = 0;
  for (int i = 0; i < program->dims.count; i++) {
    const ir_dim *dim = program->dims.at[i];
    if (!kernel_uses_dim(kernel, dim)) continue;
    ir_text_put(out, shown++ ? ", " : "  sizes: ");
    if (dim->value >= 0) ir_text_printf(out, "%s = %lld", dim->name, (long long)dim->value);
    else if (dim->bound > 0) ir_text_printf(out, "%s dyn, at most %lld", dim->name, (long long)dim->bound);
    else ir_text_printf(out, "%s dyn", dim->name);
  }
  if (shown) ir_text_put(out, "\n");
}

/* ---- one stage ------------------------------------------------------------------------------------- */
static const char *const kinds[] = {"computes", "builds the list of", "converts", "guards"};

static void put_row(const ir_stage *stage, ir_text *out) {
  const ir_kernel_row *row = ir_kernel_row_named(stage->row);
  ir_text_printf(out, "    kernel    %s", !strcmp(stage->row, "loop") ? "generated loops" : stage->row);
  if (row && row->m) ir_text_printf(out, " (tile %dx%dx%d, %d stages deep, %d threads)", row->m, row->n, row->k,
                                    stage->stages_deep ? stage->stages_deep : row->depth,
                                    stage->warps ? 32 * stage->warps : row->threads);
  if (stage->tiles.count) {
    ir_text_put(out, ", tile ");
    put_tiles(out, stage->tiles.at, stage->tiles.count);
  }
  if (stage->microseconds > 0) {
    ir_text_put(out, ", predicted ");
    put_time(out, stage->microseconds);
  }
  ir_text_put(out, "\n");
  if (stage->why) ir_text_printf(out, "    because   %s\n", stage->why);
}

static void put_storage(const ir_stmt *stmt, ir_text *out) {
  const ir_tensor *t = stmt->target;
  if (!t->format && !t->like) return;
  ir_text_printf(out, "    storage   %s: ", t->name);
  if (t->like) ir_text_printf(out, "like(%s)", t->like->name);
  else ir_format_print(t->format, out);
  if (t->format_why) ir_text_printf(out, ", %s", t->format_why);
  ir_text_put(out, "\n");
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
  ir_text_printf(out, "    list      %s: micro-tiles of %lld", list->name, (long long)list->strip);
  if (list->strip_index) ir_text_printf(out, " %s", list->strip_index->name);
  ir_text_printf(out, " x %lld %s of `%s`, %s\n", (long long)list->gran, list->axis->name, list->tensor->name,
                 list->fused ? "bits made in the epilogue that makes the zeros" : "detected from its values");
}

static const char *dense_label(const ir_kernel *kernel, const ir_candidate *chosen) {
  const ir_candidate *dense = pass_dense_branch(kernel, chosen->target);
  return dense ? dense->label : "none";
}

static double break_even_density(const ir_candidate *c) {
  const ir_pattern *pattern = &c->operand->pattern;
  pass_zeros zeros = {.rows = pattern->gran_rows > 0 ? pattern->gran_rows : 1,
                      .cols = pattern->gran_cols > 0 ? pattern->gran_cols : 1};
  return pass_cover_inverse(&zeros, c->break_even, (double)c->strip, (double)c->gran);
}

static void put_sparse(const ir_kernel *kernel, const ir_candidate *c, ir_text *out) {
  const ir_pattern *pattern = &c->operand->pattern;
  bool hinted = pattern->density_high > 0;
  ir_text_printf(out, "    density   %.3g %s, so %.3g of the micro-tiles are covered\n", c->density,
                 hinted ? "by the hint" : "assumed (no hint)", c->cover);
  ir_text_put(out, "    sparse    ");
  put_time(out, c->microseconds);
  ir_text_put(out, " of which lists and guard ");
  put_time(out, c->index_microseconds);
  ir_text_put(out, "; dense ");
  put_time(out, dense_time(kernel, c));
  ir_text_put(out, "\n");
  if (!c->guarded) return;
  ir_text_printf(out, "    break-even cover %.3g, which zeros at random reach at density %.3g; from there on the "
                      "dense branch runs: %s\n",
                 c->break_even, break_even_density(c), dense_label(kernel, c));
}

static void put_others(const ir_kernel *kernel, const ir_tensor *target, ir_text *out) {
  static const char *const words[] = {"chosen", "next", "rejected"};
  for (int i = 0; i < kernel->candidates.count; i++) {
    const ir_candidate *c = kernel->candidates.at[i];
    if (c->target == target && c->verdict != IR_CHOSEN)
      ir_text_printf(out, "    %-9s %s: %s\n", words[c->verdict], c->label, c->why);
  }
}

static void put_compute(const ir_kernel *kernel, const ir_stage *stage, ir_text *out) {
  for (int i = 0; i < stage->stmts.count; i++) {
    ir_text_put(out, "    ");
    ir_print_stmt(stage->stmts.at[i], out);
    if (out->length && out->data[out->length - 1] != '\n') ir_text_put(out, "\n");
  }
  const ir_stmt *stmt = stage->stmts.at[0];
  const ir_candidate *chosen = pass_chosen(kernel, stmt->target);
  put_row(stage, out);
  if (stage->when.list && stage->when.above) return;
  put_storage(stmt, out);
  put_axes(stmt, out);
  if (stmt->fused_why) ir_text_printf(out, "    fusion    %s\n", stmt->fused_why);
  for (int i = 0; i < stage->reads.count; i++) put_list(stage->reads.at[i], out);
  if (chosen && chosen->operand && chosen->axis) put_sparse(kernel, chosen, out);
  put_others(kernel, stmt->target, out);
}

static void put_stage(const ir_kernel *kernel, const ir_stage *stage, ir_text *out) {
  ir_text_printf(out, "\n  stage %d `%s` %s", stage->number, stage->name, kinds[stage->kind]);
  if (stage->kind == IR_STAGE_DETECT) ir_text_printf(out, " `%s`", stage->detects->tensor->name);
  if (stage->kind == IR_STAGE_CONVERT) {
    ir_text_printf(out, " `%s` into ", stage->source->name);
    ir_format_print(stage->dest->format, out);
  }
  if (stage->kind == IR_STAGE_GUARD) ir_text_printf(out, " the list `%s`", stage->reads.at[0]->name);
  if (stage->when.list)
    ir_text_printf(out, ", only when the cover of `%s` is %s %.3g", stage->when.list->name,
                   stage->when.above ? "at least" : "below", stage->when.threshold);
  ir_text_put(out, "\n");
  if (stage->kind == IR_STAGE_COMPUTE) put_compute(kernel, stage, out);
  else put_row(stage, out);
}

void pass_explain(const ir_program *program, const ir_kernel *kernel, ir_text *out) {
  ir_text_printf(out, "kernel %s for %s\n", kernel->name, program->target ? program->target : "no target yet");
  put_sizes(program, kernel, out);
  if (!kernel->stages.count) {
    ir_text_put(out, "  nothing was decided: the interpreter computes the statements as they stand\n");
    return;
  }
  put_totals(kernel, out);
  for (int i = 0; i < kernel->stages.count; i++) put_stage(kernel, kernel->stages.at[i], out);
}

void pass_explain_line(const ir_program *program, const ir_kernel *kernel, ir_text *out) {
  ir_text_printf(out, "%s for %s:", kernel->name, program->target ? program->target : "interp");
  int shown = 0;
  for (int i = 0; i < kernel->stages.count; i++) {
    const ir_stage *stage = kernel->stages.at[i];
    if (stage->kind != IR_STAGE_COMPUTE || (stage->when.list && stage->when.above)) continue;
    const ir_candidate *chosen = pass_chosen(kernel, stage->stmts.at[0]->target);
    ir_text_printf(out, "%s %s by %s", shown++ ? ";" : "", stage->name, chosen ? chosen->label : stage->row);
    if (chosen && chosen->guarded) ir_text_printf(out, ", else %s", dense_label(kernel, chosen));
  }
  if (!shown) ir_text_put(out, " interpreted");
}
