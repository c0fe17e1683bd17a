/* explain_schedule.c - the choices made, as directives: what can be edited and fed back.
 *
 * Only what a directive can say is printed: lists of lets (an input's zeros are a matter of its
 * hint), tiles of composed kernels, dense where lists were possible, and formats that were asked
 * for. Other storage and fusion follow from these again, and so does what runs the temporaries of
 * the compiler. */
#include "ir/tile.h"
#include "passes/choice.h"
#include "passes/explain.h"

static bool is_let(const ir_tensor *tensor) { return tensor->def != NULL; }

/* The compiler's own temporaries have names that the language cannot spell: `y.0`. */
static bool has_name(const ir_tensor *tensor) {
  return tensor->role != IR_ROLE_TEMP && !strchr(tensor->name, '.');
}

static bool had_lists(const ir_kernel *kernel, const ir_tensor *target) {
  for (int i = 0; i < kernel->candidates.count; i++) {
    const ir_candidate *c = kernel->candidates.at[i];
    if (c->target == target && c->operand && c->axis) return true;
  }
  return false;
}

static bool compacted_before(const ir_kernel *kernel, int upto, const ir_tensor *operand) {
  for (int i = 0; i < upto; i++) {
    const ir_candidate *c = kernel->candidates.at[i];
    if (c->verdict == IR_CHOSEN && c->operand == operand && c->axis) return true;
  }
  return false;
}

/* Index names of a let are those of its definition, by dimension of the operand. */
static void put_compact(const ir_kernel *kernel, const ir_candidate *c, ir_text *out) {
  const ir_stmt *def = c->operand->def;
  for (int i = 0; i < kernel->lists.count; i++) {
    const ir_list *list = kernel->lists.at[i];
    if (list->tensor != c->operand || list->axis != c->axis || list->strip != c->strip) continue;
    const ir_expr *axis = def->subs[list->axis_dim];
    long long rows = list->axis_dim == 1 ? list->strip : list->gran;
    long long cols = list->axis_dim == 1 ? list->gran : list->strip;
    if (axis->kind == IR_INDEX)
      ir_text_printf(out, "  compact %s axis=%s gran=%lldx%lld;\n", c->operand->name,
                     axis->index->name, rows, cols);
    return;
  }
}

static void put_tile(const ir_candidate *c, ir_text *out) {
  if (pass_is_library(c)) ir_text_printf(out, "  library %s;\n", c->target->name);
  if (!c->tiles.count || !strcmp(c->row, "loop")) return;
  ir_text_printf(out, "  tile %s", c->target->name);
  for (int i = 0; i < c->tiles.count; i++)
    ir_text_printf(out, " %s=%lld", c->tiles.at[i].index->name, (long long)c->tiles.at[i].size);
  ir_text_put(out, ";\n");
}

/* Storage and precision that the schedule asked for; what is chosen otherwise follows again by
 * itself. */
static void put_asked(const ir_kernel *kernel, ir_text *out) {
  for (int i = 0; kernel->schedule && i < kernel->schedule->directives.count; i++) {
    const ir_directive *d = &kernel->schedule->directives.at[i];
    if (d->kind == IR_DO_PRECISION && d->applied)
      ir_text_printf(out, "  precision %s = %s;\n", d->tensor, ir_precision_text(d->precision));
    if (d->kind != IR_DO_FORMAT || !d->applied) continue;
    ir_text_printf(out, "  format %s = ", d->tensor);
    ir_format_print(d->format, out);
    ir_text_put(out, ";\n");
  }
}

void pass_explain_schedule(const ir_program *program, const ir_kernel *kernel, ir_text *out) {
  ir_text_printf(out, "schedule %s", kernel->name);
  if (program->target && strcmp(program->target, "interp"))
    ir_text_printf(out, " for %s", program->target);
  ir_text_put(out, " {\n");
  put_asked(kernel, out);
  for (int i = 0; i < kernel->candidates.count; i++) {
    const ir_candidate *c = kernel->candidates.at[i];
    if (c->verdict != IR_CHOSEN) continue;
    bool listed = c->operand && c->axis;
    if (listed && !pass_is_krows(c) && is_let(c->operand) && has_name(c->operand) &&
        !compacted_before(kernel, i, c->operand))
      put_compact(kernel, c, out);
    if (!has_name(c->target)) {
      ir_text_printf(out, "  // `%s` is a temporary of the compiler: no directive names it\n",
                     c->target->name);
      continue;
    }
    if (c->regrouped || pass_is_live(c)) ir_text_printf(out, "  regroup %s;\n", c->target->name);
    if (!listed && had_lists(kernel, c->target))
      ir_text_printf(out, "  dense %s;\n", c->target->name);
    put_tile(c, out);
  }
  ir_text_put(out, "}\n");
}
