/* ast_print.c - the syntax tree as text: one line a node of the file, expressions in prefix form.
 * Equal text means equal trees; spans and parentheses that change nothing are not part of it. */
#include <math.h>

#include "frontend/ast.h"

/* ---- expressions --------------------------------------------------------------------------- */
static void print_names(const char *open, const fe_name *names, int count, const char *close,
                        ir_text *out) {
  ir_text_put(out, open);
  for (int i = 0; i < count; i++) ir_text_printf(out, "%s%s", i ? "," : "", names[i].text);
  ir_text_put(out, close);
}

static void print_number(const fe_expr *e, ir_text *out) {
  if (e->is_integer)
    ir_text_printf(out, "%lld", (long long)e->integer);
  else if (isnan(e->number))
    ir_text_put(out, "nan");
  else if (isinf(e->number))
    ir_text_put(out, e->number < 0 ? "-inf" : "inf");
  else
    ir_text_printf(out, "%.17g", e->number);
}

static void print_head(const fe_expr *e, ir_text *out) {
  switch (e->kind) {
  case FE_NUMBER: print_number(e, out); break;
  case FE_ACCESS: ir_text_put(out, e->name); break;
  case FE_UNARY:
  case FE_BINARY:
  case FE_CALL: ir_text_put(out, ir_op_rows[e->op].mnemonic); break;
  case FE_REDUCE: ir_text_put(out, ir_reducer_rows[e->reducer].text); break;
  case FE_SOFTMAX: ir_text_put(out, "softmax"); break;
  case FE_TOPK: ir_text_printf(out, "topk %lld", (long long)e->integer); break;
  case FE_CAST: ir_text_printf(out, "cast %s", ir_dtype_text(e->dtype)); break;
  }
  if (e->bound.count) print_names("[", e->bound.at, e->bound.count, "]", out);
}

void fe_print_expr(const fe_expr *e, ir_text *out) {
  bool list = e->args.count > 0 || e->subscripted;
  if (list) ir_text_put(out, "(");
  print_head(e, out);
  for (int i = 0; i < e->args.count; i++) {
    ir_text_put(out, " ");
    fe_print_expr(e->args.at[i], out);
  }
  if (list) ir_text_put(out, ")");
}

static void print_clause(const char *name, const fe_expr *e, ir_text *out) {
  if (!e) return;
  ir_text_printf(out, " %s ", name);
  fe_print_expr(e, out);
}

/* ---- types --------------------------------------------------------------------------------- */
static void print_shape(const fe_shape *shape, ir_text *out) {
  ir_text_put(out, "[");
  for (int i = 0; i < shape->dims.count; i++) {
    if (i) ir_text_put(out, ",");
    fe_print_expr(shape->dims.at[i], out);
  }
  ir_text_put(out, "]");
}

static void print_fmt(const fe_fmt *fmt, ir_text *out) {
  if (!fmt) return;
  ir_text_printf(out, " as %s", fmt->name.text);
  for (int i = 0; i < fmt->args.count; i++)
    ir_text_printf(out, "%s%lld", i ? "," : "(", (long long)fmt->args.at[i]);
  if (fmt->args.count) ir_text_put(out, ")");
}

static void print_pat(const fe_pat *pat, ir_text *out) {
  if (!pat) return;
  ir_text_printf(out, " zeros %s density %.17g %.17g gran %lldx%lld axis %s",
                 pat->is_static ? "static" : "dynamic", pat->low, pat->high, (long long)pat->rows,
                 (long long)pat->cols, pat->axis.text ? pat->axis.text : "-");
}

/* ---- kernels ------------------------------------------------------------------------------- */
static void print_in(const fe_in *in, ir_text *out) {
  ir_text_printf(out, "in %s %s", in->name.text,
                 in->is_pattern ? "pattern" : ir_dtype_text(in->dtype));
  print_shape(&in->shape, out);
  print_fmt(in->format, out);
  print_pat(in->pattern, out);
  print_clause("fill", in->fill, out);
  if (in->constant) ir_text_put(out, " const");
}

static void print_ragged(const fe_ragged *r, ir_text *out) {
  ir_text_printf(out, "ragged %s ", r->name.text);
  fe_print_expr(r->from, out);
  ir_text_put(out, " ");
  fe_print_expr(r->to, out);
}

static void print_stmt(const fe_stmt *s, ir_text *out) {
  ir_text_put(out, s->is_out ? "out " : "let ");
  fe_print_expr(s->target, out);
  ir_text_printf(out, " %s= ", s->combine == IR_RED_COUNT ? "" : ir_reducer_rows[s->combine].text);
  fe_print_expr(s->value, out);
  print_clause("on", s->cond, out);
  print_clause("fill", s->fill, out);
  if (s->dtype) ir_text_printf(out, " : %s", ir_dtype_text(s->dtype));
  if (s->has_shape) print_shape(&s->shape, out);
  if (s->acc) ir_text_printf(out, " acc %s", ir_dtype_text(s->acc));
  print_fmt(s->format, out);
  if (s->like.text) ir_text_printf(out, " like %s", s->like.text);
  print_pat(s->pattern, out);
  if (s->race) ir_text_put(out, s->race == IR_RACE_ATOMIC ? " atomic" : " order fixed");
}

static void print_kernel(const fe_kernel *k, ir_text *out) {
  ir_text_printf(out, "kernel %s\n", k->name.text);
  for (int i = 0; i < k->members.count; i++) {
    const fe_member *m = &k->members.at[i];
    ir_text_put(out, "  ");
    switch (m->kind) {
    case FE_IN: print_in(m->in, out); break;
    case FE_RAGGED: print_ragged(m->ragged, out); break;
    case FE_GRAD:
      print_names(ir_format_text(out->arena, "grad %s wrt ", m->grad->of.text), m->grad->wrt.at,
                  m->grad->wrt.count, "", out);
      break;
    case FE_STMT: print_stmt(m->stmt, out); break;
    }
    ir_text_put(out, "\n");
  }
}

/* ---- formats, schedules, tests ------------------------------------------------------------- */
static void print_format(const fe_format_def *def, ir_text *out) {
  ir_text_printf(out, "format %s", def->name.text);
  print_names("(", def->params.at, def->params.count, ")", out);
  print_names("[", def->dims.at, def->dims.count, "]\n", out);
  for (int i = 0; i < def->levels.count; i++) {
    const fe_level *l = &def->levels.at[i];
    ir_text_printf(out, "  level %s", l->dim.text);
    print_clause(l->map == IR_MAP_DIV ? "/" : "%", l->factor, out);
    ir_text_printf(out, " %s", l->kind.text);
    for (int k = 0; k < l->args.count; k++) print_clause(",", l->args.at[k], out);
    ir_text_put(out, "\n");
  }
}

static void print_directive(const fe_directive *d, ir_text *out) {
  static const char *const names[] = {
      [IR_DO_COMPACT] = "compact", [IR_DO_TILE] = "tile",     [IR_DO_FUSE] = "fuse",
      [IR_DO_FORMAT] = "format",   [IR_DO_SPLIT] = "split",   [IR_DO_DENSE] = "dense",
      [IR_DO_LIBRARY] = "library", [IR_DO_STAGES] = "stages", [IR_DO_WARPS] = "warps",
      [IR_DO_PRECISION] = "precision", [IR_DO_REGROUP] = "regroup"};
  ir_text_printf(out, "  %s", names[d->kind]);
  if (d->tensor.text) ir_text_printf(out, " %s", d->tensor.text);
  if (d->into.text) ir_text_printf(out, " into %s", d->into.text);
  if (d->axis.text)
    ir_text_printf(out, " axis %s gran %lldx%lld", d->axis.text, (long long)d->rows,
                   (long long)d->cols);
  for (int i = 0; i < d->sizes.count; i++)
    ir_text_printf(out, " %s=%lld", d->sizes.at[i].name.text, (long long)d->sizes.at[i].value);
  print_fmt(d->format, out);
  if (d->precision.text) ir_text_printf(out, " %s", d->precision.text);
  if (d->number) ir_text_printf(out, " %lld", (long long)d->number);
  ir_text_put(out, "\n");
}

static void print_schedule(const fe_schedule *s, ir_text *out) {
  ir_text_printf(out, "schedule %s for %s\n", s->kernel.text,
                 s->target.text ? s->target.text : "-");
  for (int i = 0; i < s->directives.count; i++) print_directive(s->directives.at[i], out);
}

static void print_source(const fe_source *s, ir_text *out) {
  if (s->generator) {
    ir_text_put(out, s->generator);
    for (int i = 0; i < s->arg_count && i < IR_COUNT(s->args); i++)
      ir_text_printf(out, " %.17g", s->args[i]);
    return;
  }
  int64_t count = 1;
  for (int i = 0; i < s->literal_rank; i++) count *= s->literal_dim[i];
  ir_text_put(out, "list");
  for (int i = 0; i < s->literal_rank; i++)
    ir_text_printf(out, "[%lld]", (long long)s->literal_dim[i]);
  for (int64_t i = 0; i < count; i++) ir_text_printf(out, " %.17g", s->literal[i]);
}

static void print_test(const fe_test *t, ir_text *out) {
  ir_text_printf(out, "test %s\n", t->kernel);
  for (int i = 0; i < t->sets.count; i++) {
    ir_text_printf(out, "  set %s ", t->sets.at[i].name);
    print_source(&t->sets.at[i].source, out);
    ir_text_put(out, "\n");
  }
  for (int i = 0; i < t->expects.count; i++) {
    const fe_expect *e = &t->expects.at[i];
    ir_text_printf(out, "  expect %s rtol %.17g ", e->name, e->rtol);
    if (e->against_ref)
      ir_text_put(out, "ref");
    else
      print_source(&e->source, out);
    ir_text_put(out, "\n");
  }
}

static void print_dim(const fe_dim *d, ir_text *out) {
  ir_text_printf(out, "dim %s", d->name.text);
  print_clause("=", d->value, out);
  if (!d->value)
    ir_text_printf(out, " dyn %% %lld <= %lld", (long long)d->multiple, (long long)d->bound);
  ir_text_put(out, "\n");
}

/* The kernel that an item belongs to; NULL: to all. */
static const char *kernel_of(const fe_item *item) {
  switch (item->kind) {
  case FE_ITEM_KERNEL: return item->kernel->name.text;
  case FE_ITEM_SCHEDULE: return item->schedule->kernel.text;
  case FE_ITEM_TEST: return item->test->kernel;
  case FE_ITEM_DIM:
  case FE_ITEM_FORMAT: break;
  }
  return NULL;
}

void fe_print_ast(const fe_file *file, const char *kernel, ir_text *out) {
  ir_text_printf(out, "spx %lld\n", (long long)file->version);
  for (int i = 0; i < file->items.count; i++) {
    const fe_item *item = &file->items.at[i];
    const char *owner = kernel_of(item);
    if (kernel && owner && strcmp(owner, kernel)) continue;
    switch (item->kind) {
    case FE_ITEM_DIM: print_dim(item->dim, out); break;
    case FE_ITEM_FORMAT: print_format(item->format, out); break;
    case FE_ITEM_KERNEL: print_kernel(item->kernel, out); break;
    case FE_ITEM_SCHEDULE: print_schedule(item->schedule, out); break;
    case FE_ITEM_TEST: print_test(item->test, out); break;
    }
  }
}
