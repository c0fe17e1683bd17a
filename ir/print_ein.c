/* print_ein.c - tensors, indices and statements as text: the ein dialect.
 *
 * What a pass has found out about a statement follows the statement, a clause a line. */
#include "ir/number.h"
#include "ir/print.h"

/* ---- formats ------------------------------------------------------------------------------- */
static bool is_declared(const ir_program *program, const ir_format *f) {
  for (int i = 0; i < program->formats.count; i++) {
    const ir_format *known = program->formats.at[i];
    if (known->rank == f->rank && !strcmp(known->name, f->name)) return ir_format_equal(known, f);
  }
  return false;
}

static bool is_builtin(ir_arena *arena, const ir_format *f) {
  const char *why;
  const ir_format *built =
      ir_format_builtin(arena, f->name, f->rank, f->argument, f->argument_count, &why);
  return built && ir_format_equal(built, f);
}

static void put_format_name(ir_writer *w, const ir_format *f) {
  ir_put_name(w->out, f->name ? f->name : "levels");
  for (int i = 0; i < f->argument_count; i++)
    ir_text_printf(w->out, "%s%lld", i ? ", " : "(", (long long)f->argument[i]);
  if (f->argument_count) ir_text_put(w->out, ")");
}

/* By name where the name says it all; otherwise the map follows: `odd [i,j] -> [ ... ]`. */
void ir_put_format(ir_writer *w, const ir_program *program, const ir_format *f) {
  put_format_name(w, f);
  if (f->name && ((program && is_declared(program, f)) || is_builtin(w->out->arena, f))) return;
  ir_text_put(w->out, " ");
  ir_format_print_map(f, w->out);
}

/* ---- declarations -------------------------------------------------------------------------- */
static void put_shape(ir_writer *w, const ir_tensor *t) {
  ir_text_put(w->out, "[");
  for (int i = 0; i < t->rank; i++) {
    if (i) ir_text_put(w->out, ", ");
    ir_put_expr(w, t->dim[i]);
  }
  ir_text_put(w->out, "]");
}

static void put_pattern(ir_writer *w, const ir_pattern *p) {
  if (p->zeros == IR_ZEROS_UNKNOWN && p->density_low < 0 && !p->gran_rows && !p->gran_cols &&
      p->axis < 0)
    return;
  ir_text_printf(w->out, " ~ zeros(%s", ir_words_zeros[p->zeros]);
  if (p->density_low >= 0) {
    ir_text_put(w->out, ", density=");
    ir_put_number(w->out, p->density_low);
    if (p->density_high != p->density_low) {
      ir_text_put(w->out, "..");
      ir_put_number(w->out, p->density_high);
    }
  }
  if (p->gran_rows || p->gran_cols)
    ir_text_printf(w->out, ", gran=%dx%d", p->gran_rows, p->gran_cols);
  if (p->axis >= 0) ir_text_printf(w->out, ", axis=%d", p->axis);
  ir_text_put(w->out, ")");
}

static bool is_plus_zero(double value) {
  static const double zero = 0;
  return !memcmp(&value, &zero, sizeof value);
}

static void put_fill(ir_writer *w, double fill) {
  if (is_plus_zero(fill)) return;
  ir_text_put(w->out, " fill ");
  ir_put_number(w->out, fill);
}

static void put_tensor(ir_writer *w, const ir_tensor *t) {
  ir_text_printf(w->out, "  %s ", ir_words_role[t->role]);
  ir_put_name(w->out, t->name);
  ir_text_printf(w->out, " : %s", t->dtype ? ir_dtype_text(t->dtype) : "pattern");
  put_shape(w, t);
  if (t->constant) ir_text_put(w->out, " const");
  if (t->format) {
    ir_text_put(w->out, " as ");
    ir_put_format(w, w->kernel->program, t->format);
  }
  if (t->like) {
    ir_text_put(w->out, " like ");
    ir_put_name(w->out, t->like->name);
  }
  for (int l = 0; l + 1 < t->rank && t->pitch[l]; l++) {
    ir_text_put(w->out, l ? ", " : " pitch ");
    ir_put_name(w->out, t->pitch[l]->dim->name);
  }
  if (t->declared) {
    ir_text_put(w->out, " given ");
    put_shape(w, t->declared);
  }
  if (t->wide) ir_text_put(w->out, " positions i64");
  if (t->by_value) ir_text_put(w->out, " by value");
  put_pattern(w, &t->pattern);
  put_fill(w, t->fill);
  if (t->format_why) {
    ir_text_put(w->out, "\n    why ");
    ir_put_string(w->out, t->format_why);
  }
  ir_text_put(w->out, ";\n");
}

static void put_index(ir_writer *w, const ir_index *index) {
  ir_text_put(w->out, "  index ");
  ir_put_name(w->out, index->name);
  ir_text_put(w->out, " : ");
  ir_put_expr(w, index->extent);
  if (index->offsets) {
    ir_text_put(w->out, " in ");
    ir_put_name(w->out, index->offsets->name);
    ir_text_put(w->out, "[");
    ir_put_name(w->out, index->segment ? index->segment->name : "?");
    ir_text_put(w->out, "]");
  }
  ir_text_put(w->out, ";\n");
}

/* ---- statements ---------------------------------------------------------------------------- */
static void put_combine(ir_writer *w, ir_reducer combine) {
  if (combine == IR_RED_COUNT)
    ir_text_put(w->out, " = ");
  else if (combine == IR_RED_SUM)
    ir_text_put(w->out, " += ");
  else
    ir_text_printf(w->out, " %s= ", ir_reducer_rows[combine].text);
}

void ir_put_assignment(ir_writer *w, const ir_stmt *stmt) {
  ir_put_name(w->out, stmt->target->name);
  ir_text_put(w->out, "[");
  for (int i = 0; i < stmt->target->rank; i++) {
    if (i) ir_text_put(w->out, ", ");
    ir_put_expr(w, stmt->subs[i]);
  }
  ir_text_put(w->out, "]");
  put_combine(w, stmt->combine);
  ir_put_expr(w, stmt->value);
}

static void put_condition(ir_writer *w, const ir_stmt *stmt, const char *before) {
  if (!stmt->cond && is_plus_zero(stmt->fill)) return;
  ir_text_put(w->out, before);
  if (stmt->cond) {
    ir_text_put(w->out, "on ");
    ir_put_expr(w, stmt->cond);
  } else {
    ir_text_put(w->out, "everywhere");
  }
  put_fill(w, stmt->fill);
}

static void put_range(ir_writer *w, const ir_stmt *stmt) {
  ir_text_put(w->out, "\n   ");
  for (int i = 0; i < stmt->free.count; i++) {
    ir_text_put(w->out, i ? ", " : " for ");
    ir_put_name(w->out, stmt->free.at[i]->name);
  }
  ir_text_printf(w->out, " acc %s", ir_dtype_text(stmt->acc));
  if (stmt->race != IR_RACE_NONE) ir_text_printf(w->out, " race %s", ir_words_race[stmt->race]);
}

static void put_axis(ir_writer *w, const ir_axis *axis) {
  ir_text_put(w->out, "\n    axis ");
  ir_put_name(w->out, axis->index->name);
  ir_text_put(w->out, axis->invariant ? " invariant" : " ordered");
  if (axis->reduction) ir_text_put(w->out, " reduction");
  if (axis->why) {
    ir_text_put(w->out, " ");
    ir_put_string(w->out, axis->why);
  }
}

static void put_clause(ir_writer *w, const char *word, const ir_expr *e) {
  if (!e) return;
  ir_text_printf(w->out, "\n    %s ", word);
  ir_put_expr(w, e);
}

static void put_stmt(ir_writer *w, const ir_stmt *stmt) {
  ir_text_put(w->out, "  stmt ");
  ir_put_assignment(w, stmt);
  put_range(w, stmt);
  put_condition(w, stmt, "\n    ");
  put_clause(w, "sample", stmt->sample);
  put_clause(w, "support", stmt->support);
  put_clause(w, "stores", stmt->stores);
  for (int i = 0; i < stmt->axes.count; i++) put_axis(w, &stmt->axes.at[i]);
  if (stmt->fused_why) {
    ir_text_put(w->out, "\n    fused ");
    ir_put_string(w->out, stmt->fused_why);
  }
  ir_text_put(w->out, ";\n");
}

void ir_print_stmt(const ir_stmt *stmt, ir_text *out) {
  ir_writer w = {.out = out};
  ir_put_assignment(&w, stmt);
  if (stmt->cond) put_condition(&w, stmt, " ");
}

/* needs x dim 0 from -1 to N over i multiple 4; */
static void put_need(ir_writer *w, const ir_require *need) {
  ir_text_put(w->out, "  needs ");
  ir_put_name(w->out, need->tensor->name);
  ir_text_printf(w->out, " dim %d", need->dim);
  if (need->least) ir_text_put(w->out, " from ");
  if (need->least) ir_put_expr(w, need->least);
  if (need->most) ir_text_put(w->out, " to ");
  if (need->most) ir_put_expr(w, need->most);
  for (int i = 0; i < need->over.count; i++) {
    ir_text_put(w->out, i ? ", " : " over ");
    ir_put_name(w->out, need->over.at[i]->name);
  }
  if (need->multiple) ir_text_printf(w->out, " multiple %lld", (long long)need->multiple);
  ir_text_put(w->out, ";\n");
}

void ir_put_ein(ir_writer *w) {
  const ir_kernel *kernel = w->kernel;
  for (int i = 0; i < kernel->tensors.count; i++) put_tensor(w, kernel->tensors.at[i]);
  for (int i = 0; i < kernel->indices.count; i++) put_index(w, kernel->indices.at[i]);
  for (int i = 0; i < kernel->needs.count; i++) put_need(w, &kernel->needs.at[i]);
  for (int i = 0; i < kernel->stmts.count; i++) put_stmt(w, kernel->stmts.at[i]);
}
