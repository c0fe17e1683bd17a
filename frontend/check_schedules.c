/* check_schedules.c - the names in a schedule, and its directives as data.  Whether a directive can
 * be honoured is for the passes; that it speaks of something that exists is checked here (rule 11).
 */
#include "frontend/check.h"

typedef struct planning {
  fe_check *c;
  const ir_kernel *kernel;
  ir_schedule *out;
} planning;

static const ir_stmt *result_named(const ir_kernel *k, const char *name) {
  const ir_tensor *t = ir_tensor_named(k, name);
  return t ? t->def : NULL;
}

static const ir_stmt *find_result(planning *p, const fe_name *name) {
  const ir_stmt *s = result_named(p->kernel, name->text);
  if (s) return s;
  const ir_tensor *input = ir_tensor_named(p->kernel, name->text);
  IR_VEC(const char *) known = {0};
  for (int i = 0; i < p->kernel->tensors.count; i++)
    if (p->kernel->tensors.at[i]->def) IR_PUSH(p->c->arena, &known, p->kernel->tensors.at[i]->name);
  ir_diag *d = input
                   ? fe_error(p->c, IR_DIAG_DIRECTIVE, name->span,
                              "`%s` is an input; a directive is about a `let` or `out`", name->text)
                   : fe_error(p->c, IR_DIAG_DIRECTIVE, name->span,
                              "the kernel `%s` has no `let` or `out` named `%s`", p->kernel->name,
                              name->text);
  const char *nearest = ir_nearest(name->text, known.at, known.count);
  if (nearest) ir_diag_fix(p->c->sink, d, name->span, nearest, "did you mean `%s`?", nearest);
  return NULL;
}

static bool ranges_over(const ir_stmt *s, const ir_index *index) {
  for (int i = 0; i < s->free.count; i++)
    if (s->free.at[i] == index) return true;
  return false;
}

typedef struct binder {
  const ir_index *index;
  bool found;
} binder;
static bool binds(void *user, ir_expr *e) {
  binder *b = user;
  for (int i = 0; i < e->bound_count; i++) b->found = b->found || e->bound[i] == b->index;
  return !b->found;
}

static bool uses_index(const ir_stmt *s, const ir_index *index) {
  binder b = {index, false};
  if (ranges_over(s, index)) return true;
  ir_expr_walk(s->value, binds, &b);
  return b.found;
}

static bool check_index(planning *p, const ir_stmt *s, const fe_name *name) {
  const ir_index *index = ir_index_named(p->kernel, name->text);
  if (index && uses_index(s, index)) return true;
  IR_VEC(const char *) known = {0};
  for (int i = 0; i < p->kernel->indices.count; i++)
    if (uses_index(s, p->kernel->indices.at[i]))
      IR_PUSH(p->c->arena, &known, p->kernel->indices.at[i]->name);
  ir_diag *d = fe_error(p->c, IR_DIAG_DIRECTIVE, name->span,
                        "`%s` is not an index of the statement that defines `%s`", name->text,
                        s->target->name);
  ir_diag_note(p->c->sink, d, s->span, "this statement");
  const char *nearest = ir_nearest(name->text, known.at, known.count);
  if (nearest) ir_diag_fix(p->c->sink, d, name->span, nearest, "did you mean `%s`?", nearest);
  return false;
}

/* ---- one directive ------------------------------------------------------------------------- */
static void add_size(ir_directive *out, const char *name, int64_t size) {
  out->name[out->count] = name;
  out->size[out->count++] = size;
}

static bool check_sizes(planning *p, const ir_stmt *s, const fe_directive *d, ir_directive *out) {
  for (int i = 0; i < d->sizes.count; i++) {
    const fe_size *size = &d->sizes.at[i];
    if (!check_index(p, s, &size->name)) return false;
    bool twice = false;
    for (int k = 0; k < out->count; k++) twice = twice || !strcmp(out->name[k], size->name.text);
    if (twice || out->count == IR_COUNT(out->name) || size->value < 1 || size->value > INT32_MAX) {
      fe_error(p->c, IR_DIAG_DIRECTIVE, size->name.span,
               twice                               ? "`%s` is given twice"
               : out->count == IR_COUNT(out->name) ? "too many sizes at `%s`"
                                                   : "the size of `%s` is from 1 to 2147483647",
               size->name.text);
      return false;
    }
    add_size(out, size->name.text, size->value);
  }
  return true;
}

static bool check_fuse(planning *p, const ir_stmt *s, const fe_directive *d, ir_directive *out) {
  const ir_stmt *into = find_result(p, &d->into);
  if (!into) return false;
  out->into = d->into.text;
  if (ir_expr_uses_tensor(into->value, s->target) ||
      (into->cond && ir_expr_uses_tensor(into->cond, s->target)))
    return true;
  ir_diag *diag = fe_error(p->c, IR_DIAG_DIRECTIVE, d->span,
                           "`%s` cannot be fused into `%s`, which does not read it", d->tensor.text,
                           d->into.text);
  ir_diag_note(p->c->sink, diag, into->span, "this statement");
  return false;
}

static bool check_number(planning *p, const fe_directive *d, ir_directive *out) {
  out->number = d->number;
  if (d->number >= 1 && d->number <= 64) return true;
  fe_error(p->c, IR_DIAG_DIRECTIVE, d->number_span, "this number is from 1 to 64");
  return false;
}

static bool check_precision(planning *p, const fe_directive *d, ir_directive *out) {
  for (int i = IR_PRECISION_FULL; i <= IR_PRECISION_TF32X3; i++)
    if (!strcmp(d->precision.text, ir_precision_text((ir_precision)i))) {
      out->precision = (ir_precision)i;
      return true;
    }
  fe_error(p->c, IR_DIAG_DIRECTIVE, d->precision.span,
           "`%s` is not a precision; there are `tf32`, `tf32x3` and `full`", d->precision.text);
  return false;
}

static bool check_named(planning *p, const ir_stmt *s, const fe_directive *d, ir_directive *out) {
  switch (d->kind) {
  case IR_DO_COMPACT:
    out->gran_rows = (int)d->rows;
    out->gran_cols = (int)d->cols;
    add_size(out, d->axis.text, 0);
    return check_index(p, s, &d->axis);
  case IR_DO_TILE:
  case IR_DO_SPLIT: return check_sizes(p, s, d, out);
  case IR_DO_FUSE: return check_fuse(p, s, d, out);
  case IR_DO_FORMAT:
    return (out->format = fe_format_make(p->c, d->format, s->target->rank)) != NULL;
  case IR_DO_PRECISION: return check_precision(p, d, out);
  case IR_DO_DENSE:
  case IR_DO_LIBRARY:
  case IR_DO_REGROUP:
  case IR_DO_STAGES:
  case IR_DO_WARPS: break;
  }
  return true;
}

static void check_directive(planning *p, const fe_directive *d) {
  ir_directive out = {.kind = d->kind, .tensor = d->tensor.text, .span = d->span};
  bool number = d->kind == IR_DO_STAGES || d->kind == IR_DO_WARPS;
  const ir_stmt *s = number ? NULL : find_result(p, &d->tensor);
  if (number ? check_number(p, d, &out) : s && check_named(p, s, d, &out))
    IR_PUSH(p->c->arena, &p->out->directives, out);
}

/* ---- the schedule -------------------------------------------------------------------------- */
static bool is_target(const char *name) {
  if (!strcmp(name, "cpu")) return true;
  if (strncmp(name, "sm_", 3) != 0) return false;
  size_t digits = strspn(name + 3, "0123456789");
  return (digits == 2 || digits == 3) &&
         (!name[3 + digits] || (strchr("af", name[3 + digits]) && !name[4 + digits]));
}

static bool check_target(fe_check *c, const fe_schedule *s) {
  if (!s->target.text || is_target(s->target.text)) return true;
  fe_error(c, IR_DIAG_SCHEDULE_TARGET, s->target.span,
           "`%s` is not a target; there are `cpu`, `sm_80`, `sm_90` and later ones",
           s->target.text);
  return false;
}

static bool same_text(const char *a, const char *b) { return a == b || (a && b && !strcmp(a, b)); }

static bool check_twice(fe_check *c, const fe_schedule *s) {
  for (int i = 0; i < c->program->schedules.count; i++) {
    const ir_schedule *old = c->program->schedules.at[i];
    if (!same_text(old->kernel, s->kernel.text) || !same_text(old->target, s->target.text))
      continue;
    ir_diag *d = fe_error(c, IR_DIAG_REDEFINED, s->kernel.span,
                          "`%s` has two schedules for the same target", s->kernel.text);
    ir_diag_note(c->sink, d, old->span, "the first one");
    return false;
  }
  return true;
}

const fe_kernel *fe_kernel_syntax(const fe_check *c, const char *name) {
  const fe_item *item = ir_table_find(&c->kernels_named, name);
  return item ? item->kernel : NULL;
}

const ir_kernel *fe_kernel_of(fe_check *c, const char *name, ir_span span) {
  const ir_kernel *k = ir_kernel_named(c->program, name);
  if (k || fe_is_lost(c, name)) return k;
  IR_PUSH(c->arena, &c->missed, name);
  IR_VEC(const char *) known = {0};
  for (int i = 0; i < c->program->kernels.count; i++)
    IR_PUSH(c->arena, &known, c->program->kernels.at[i]->name);
  ir_diag *d = fe_error(c, IR_DIAG_UNKNOWN_NAME, span, "there is no kernel `%s`", name);
  const char *nearest = ir_nearest(name, known.at, known.count);
  if (nearest) ir_diag_fix(c->sink, d, span, nearest, "did you mean `%s`?", nearest);
  return NULL;
}

bool fe_kernel_is_whole(const fe_kernel *k) {
  for (int i = 0; i < k->members.count; i++)
    if (k->members.at[i].kind == FE_STMT && k->members.at[i].stmt->bad) return false;
  return !k->broken && !k->lost.count;
}

void fe_schedule_check(fe_check *c, const fe_schedule *schedule) {
  planning p = {.c = c, .kernel = fe_kernel_of(c, schedule->kernel.text, schedule->kernel.span)};
  if (!p.kernel || !check_target(c, schedule) || !check_twice(c, schedule)) return;
  if (!fe_kernel_is_whole(fe_kernel_syntax(c, schedule->kernel.text))) return;
  p.out = IR_NEW(c->arena, ir_schedule);
  *p.out = (ir_schedule){.kernel = schedule->kernel.text,
                         .target = schedule->target.text,
                         .span = schedule->kernel.span};
  IR_PUSH(c->arena, &c->program->schedules, p.out);
  for (int i = 0; i < schedule->directives.count; i++)
    check_directive(&p, schedule->directives.at[i]);
}
