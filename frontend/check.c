/* check.c - fe_lower: the order of checks over a file, symbols, dims and sizes. */
#include <stdlib.h>

#include "frontend/check.h"

/* ---- faults -------------------------------------------------------------------------------- */
ir_diag *fe_error(fe_check *c, ir_diag_id id, ir_span span, const char *format, ...) {
  c->errors += ir_diag_rows[id].severity == IR_ERROR;
  ir_text text = ir_text_new(c->arena);
  va_list args;
  va_start(args, format);
  ir_text_vprintf(&text, format, args);
  va_end(args);
  return ir_diag_add(c->sink, id, span, "%s", text.data);
}

/* ---- symbols ------------------------------------------------------------------------------- */
static fe_symbol *dim_find(const fe_check *c, const char *name) {
  return ir_table_find(&c->dims_named, name);
}

fe_symbol *fe_symbol_find(const fe_check *c, const char *name) {
  fe_symbol *found = ir_table_find(&c->symbols_named, name);
  return found ? found : dim_find(c, name);
}

fe_symbol *fe_symbol_new(fe_check *c, fe_symbol_kind kind, const char *name, ir_span span) {
  fe_symbol *s = IR_NEW(c->arena, fe_symbol);
  s->kind = kind;
  s->name = name;
  s->span = span;
  if (kind == FE_SYM_DIM)
    IR_PUSH(c->arena, &c->dims, s);
  else
    IR_PUSH(c->arena, &c->symbols, s);
  ir_table_add(c->arena, kind == FE_SYM_DIM ? &c->dims_named : &c->symbols_named, name, s);
  return s;
}

void fe_symbols_forget(fe_check *c) {
  c->symbols.count = c->missed.count = 0;
  c->symbols_named = (ir_table){0};
}

static bool names(const char *const *at, int count, const char *name) {
  for (int i = 0; i < count; i++)
    if (!strcmp(at[i], name)) return true;
  return false;
}

bool fe_is_lost(const fe_check *c, const char *name) {
  if (names(c->missed_dims.at, c->missed_dims.count, name) ||
      names(c->missed.at, c->missed.count, name))
    return true;
  if (c->file->broken || (c->syntax && c->syntax->broken)) return true;
  if (names(c->file->lost.at, c->file->lost.count, name)) return true;
  return c->syntax && names(c->syntax->lost.at, c->syntax->lost.count, name);
}

void fe_suggest(fe_check *c, ir_diag *d, ir_span span, const char *name, unsigned kinds) {
  IR_VEC(const char *) known = {0};
  for (int i = 0; i < c->symbols.count; i++)
    if (kinds & 1u << c->symbols.at[i]->kind) IR_PUSH(c->arena, &known, c->symbols.at[i]->name);
  for (int i = 0; i < c->dims.count && kinds & 1u << FE_SYM_DIM; i++)
    IR_PUSH(c->arena, &known, c->dims.at[i]->name);
  const char *nearest = ir_nearest(name, known.at, known.count);
  if (nearest && strcmp(nearest, name) != 0)
    ir_diag_fix(c->sink, d, span, nearest, "did you mean `%s`?", nearest);
}

const fe_format_def *fe_format_find(const fe_check *c, const char *name) {
  const fe_item *item = ir_table_find(&c->formats_named, name);
  return item ? item->format : NULL;
}

/* ---- sizes --------------------------------------------------------------------------------- */
static ir_expr *size_name(fe_check *c, const fe_expr *e) {
  fe_symbol *s = dim_find(c, e->name);
  if (s) {
    s->uses++;
    return s->bad ? NULL : s->size;
  }
  if (fe_is_lost(c, e->name)) return NULL;
  IR_PUSH(c->arena, &c->missed_dims, e->name);
  fe_symbol *other = fe_symbol_find(c, e->name);
  ir_diag *d = other ? fe_error(c, IR_DIAG_UNKNOWN_NAME, e->at,
                                "`%s` is not a dim; a size is made of dims and integers", e->name)
                     : fe_error(c, IR_DIAG_UNKNOWN_NAME, e->at, "there is no dim `%s`", e->name);
  fe_suggest(c, d, e->at, e->name, 1u << FE_SYM_DIM);
  if (!d->fix_code && !other)
    ir_diag_note(c->sink, d, IR_NOWHERE,
                 "declare it before its first use: `dim %s: dyn;` or `dim %s = 64;`", e->name,
                 e->name);
  return NULL;
}

static bool overflows(ir_op op, int64_t x, int64_t y) {
  if (op == IR_OP_ADD) return y > 0 ? x > INT64_MAX - y : x < INT64_MIN - y;
  if (op == IR_OP_SUB) return y < 0 ? x > INT64_MAX + y : x < INT64_MIN + y;
  if (op != IR_OP_MUL || x == 0 || y == 0) return false;
  return llabs(x) > INT64_MAX / llabs(y);
}

static ir_expr *size_known(fe_check *c, const fe_expr *e, int64_t x, int64_t y, ir_expr *l,
                           ir_expr *r) {
  if (overflows(e->op, x, y)) {
    fe_error(c, IR_DIAG_OVERFLOW, e->at, "this size overflows 64 bits");
    return NULL;
  }
  if ((e->op == IR_OP_DIV || e->op == IR_OP_MOD) && y == 0) {
    fe_error(c, IR_DIAG_SIZE, e->at, "a size is divided by zero");
    return NULL;
  }
  if (e->op == IR_OP_DIV && x % y) {
    fe_error(c, IR_DIAG_SIZE, e->span,
             "%lld is not a multiple of %lld; a size that is a quotient must be exact",
             (long long)x, (long long)y);
    return NULL;
  }
  return ir_apply(c->arena, e->op, l, r);
}

ir_expr *fe_size_lower(fe_check *c, const fe_expr *e) {
  ir_expr *out = NULL;
  if (e->kind == FE_NUMBER) {
    out = ir_int(c->arena, e->integer);
  } else if (e->kind == FE_ACCESS) {
    ir_expr *size = size_name(c, e);
    out = size ? ir_copy_with(c->arena, size, size->args) : NULL;
  } else {
    ir_expr *l = fe_size_lower(c, e->args.at[0]), *r = l ? fe_size_lower(c, e->args.at[1]) : NULL;
    int64_t x, y;
    if (!r) return NULL;
    out = fe_size_known(l, &x) && fe_size_known(r, &y) ? size_known(c, e, x, y, l, r)
                                                       : ir_apply(c->arena, e->op, l, r);
  }
  if (out) out->span = e->span;
  return out;
}

const char *fe_size_text(fe_check *c, const ir_expr *size) {
  ir_text text = ir_text_new(c->arena);
  ir_print_expr(size, &text);
  return text.data;
}

/* ---- dims ---------------------------------------------------------------------------------- */
static const fe_define *define_find(const fe_check *c, const char *name) {
  for (int i = c->options ? c->options->define_count - 1 : -1; i >= 0; i--)
    if (!strcmp(c->options->defines[i].name, name)) return &c->options->defines[i];
  return NULL;
}

static ir_dim *dim_new(fe_check *c, const fe_dim *dim, int64_t value) {
  ir_dim *d = ir_dim_new(c->program, dim->name.text);
  d->value = value;
  d->bound = value < 0 ? dim->bound : 0;
  d->multiple = value < 0 && dim->multiple ? dim->multiple : 1;
  d->span = dim->name.span;
  return d;
}

static bool follows_from_dyn(const fe_check *c, const fe_expr *e) {
  const fe_symbol *s = e->kind == FE_ACCESS ? dim_find(c, e->name) : NULL;
  if (s && !s->bad && (!s->dim || s->dim->value < 0)) return true;
  for (int i = 0; i < e->args.count; i++)
    if (follows_from_dyn(c, e->args.at[i])) return true;
  return false;
}

static void dim_fixed(fe_check *c, const fe_dim *dim, fe_symbol *s) {
  const fe_define *define = follows_from_dyn(c, dim->value) ? NULL : define_find(c, s->name);
  s->size = define ? ir_int(c->arena, define->value) : fe_size_lower(c, dim->value);
  int64_t value;
  if (!s->size) {
    s->bad = true;
  } else if (fe_size_known(s->size, &value)) {
    if (value < 0) {
      fe_error(c, IR_DIAG_SIZE, define ? dim->name.span : dim->value->span,
               "the size of `%s` is %lld", s->name, (long long)value);
      s->bad = true;
      return;
    }
    s->dim = dim_new(c, dim, value);
    s->size = ir_dim_ref(c->arena, s->dim);
  }
}

static void dim_check(fe_check *c, const fe_dim *dim) {
  fe_symbol *old = dim_find(c, dim->name.text);
  if (old) {
    ir_diag *d = fe_error(c, IR_DIAG_REDEFINED, dim->name.span, "the dim `%s` is declared twice",
                          dim->name.text);
    ir_diag_note(c->sink, d, old->span, "the first declaration");
    return;
  }
  fe_symbol made = {.kind = FE_SYM_DIM, .name = dim->name.text, .span = dim->name.span};
  if (dim->value) {
    dim_fixed(c, dim, &made);
  } else {
    made.dim = dim_new(c, dim, -1);
    made.size = ir_dim_ref(c->arena, made.dim);
  }
  *fe_symbol_new(c, FE_SYM_DIM, made.name, made.span) = made;
}

/* ---- names of items ------------------------------------------------------------------------ */
static const fe_name *item_name(const fe_item *item) {
  if (item->kind == FE_ITEM_KERNEL) return &item->kernel->name;
  return item->kind == FE_ITEM_FORMAT ? &item->format->name : NULL;
}

static ir_table *names_like(fe_check *c, const fe_item *item) {
  return item->kind == FE_ITEM_KERNEL ? &c->kernels_named : &c->formats_named;
}

static void name_items(fe_check *c) {
  for (int i = 0; i < c->file->items.count; i++) {
    fe_item *item = &c->file->items.at[i];
    const fe_name *name = item_name(item);
    if (name) ir_table_add(c->arena, names_like(c, item), name->text, item);
  }
}

static bool is_first(fe_check *c, const fe_item *item) {
  const fe_name *name = item_name(item);
  const fe_item *first = ir_table_find(names_like(c, item), name->text);
  if (first == item) return true;
  ir_diag *d = fe_error(c, IR_DIAG_REDEFINED, name->span, "the %s `%s` is defined twice",
                        item->kind == FE_ITEM_KERNEL ? "kernel" : "format", name->text);
  ir_diag_note(c->sink, d, item_name(first)->span, "the first definition");
  return false;
}

static void warn_unused(fe_check *c) {
  if (c->file->errors || c->errors) return;
  for (int i = 0; i < c->dims.count; i++)
    if (!c->dims.at[i]->uses)
      fe_error(c, IR_DIAG_UNUSED, c->dims.at[i]->span, "the dim `%s` is never used",
               c->dims.at[i]->name);
}

/* ---- the whole file ------------------------------------------------------------------------ */
static void check_declarations(fe_check *c) {
  for (int i = 0; i < c->file->items.count; i++) {
    const fe_item *item = &c->file->items.at[i];
    if (item->kind == FE_ITEM_DIM) dim_check(c, item->dim);
    if (item->kind == FE_ITEM_KERNEL && is_first(c, item)) fe_kernel_check(c, item->kernel);
    if (item->kind == FE_ITEM_FORMAT) is_first(c, item);
  }
}

static void check_uses_of_kernels(fe_check *c) {
  c->syntax = NULL;
  fe_symbols_forget(c);
  for (int i = 0; i < c->file->items.count; i++) {
    const fe_item *item = &c->file->items.at[i];
    if (item->kind == FE_ITEM_SCHEDULE) fe_schedule_check(c, item->schedule);
    if (item->kind == FE_ITEM_TEST) fe_test_check(c, item->test);
  }
}

static void check_defines(fe_check *c) {
  for (int i = 0; c->options && i < c->options->define_count; i++) {
    const fe_define *define = &c->options->defines[i];
    const fe_symbol *s = dim_find(c, define->name);
    if (s && s->dim) continue;
    if (s && s->bad) continue;
    if (s)
      fe_error(c, IR_DIAG_DEFINE, s->span, "`%s` follows from a dyn dim; give a value to that one",
               define->name);
    else if (!fe_is_lost(c, define->name))
      fe_error(c, IR_DIAG_DEFINE, IR_NOWHERE, "-D %s=%lld: the program has no dim `%s`",
               define->name, (long long)define->value, define->name);
  }
}

/* Diagnostics in the order of the text, so that a reader can follow them down the file. */
static void sort_diags(ir_sink *sink, int from) {
  if (sink && from > sink->diags.count) from = 0; /* rendered and dropped in between */
  for (int i = from + 1; sink && i < sink->diags.count; i++) {
    ir_diag *d = sink->diags.at[i];
    int k = i;
    for (; k > from && sink->diags.at[k - 1]->span.begin > d->span.begin; k--)
      sink->diags.at[k] = sink->diags.at[k - 1];
    sink->diags.at[k] = d;
  }
}

spc_status fe_lower(ir_arena *arena, fe_file *file, const fe_options *options, ir_sink *sink,
                    ir_program **out) {
  fe_check c = {.arena = arena,
                .sink = sink,
                .file = file,
                .options = options,
                .program = ir_program_new(arena)};
  name_items(&c);
  fe_format_check_defs(&c);
  check_declarations(&c);
  check_defines(&c);
  check_uses_of_kernels(&c);
  warn_unused(&c);
  sort_diags(sink, file->first_diag);
  *out = NULL;
  if (c.errors || file->errors) return SPC_INVALID_INPUT;
  *out = c.program;
  return SPC_OK;
}

spc_status fe_compile(ir_arena *arena, const char *name, const char *text, size_t length,
                      const fe_options *options, ir_sink *sink, ir_program **out) {
  fe_file *file = NULL;
  *out = NULL;
  spc_status status = fe_parse(arena, name, text, length, sink, &file);
  if (!file) return status;
  return fe_lower(arena, file, options, sink, out);
}

/* ---- tests --------------------------------------------------------------------------------- */
int fe_test_count(const fe_file *file) { return file->tests.count; }
const fe_test *fe_test_at(const fe_file *file, int i) { return file->tests.at[i]; }
