/* check_kernel.c - one kernel: its declarations, then its statements through all checks in order.
 */
#include "frontend/check.h"

/* ---- inputs -------------------------------------------------------------------------------- */
static bool check_free_name(fe_check *c, const fe_name *name, const char *what) {
  fe_symbol *old = fe_symbol_find(c, name->text);
  if (!old) return true;
  bool same = old->kind == FE_SYM_TENSOR;
  if (same) old->bad = true; /* which one later uses mean is unknown */
  ir_diag *d =
      same ? fe_error(c, IR_DIAG_REDEFINED, name->span, "`%s` is declared twice", name->text)
           : fe_error(c, IR_DIAG_SHADOWING, name->span,
                      "%s `%s` would hide the %s of that name; the names of a kernel and the dims "
                      "are all different",
                      what, name->text, old->kind == FE_SYM_DIM ? "dim" : "index");
  ir_diag_note(c->sink, d, old->span,
               old->kind == FE_SYM_INDEX ? "the index is first used here"
                                         : "the first declaration");
  return false;
}

static void declare_shape(fe_check *c, fe_symbol *s, const fe_shape *shape) {
  s->tensor->rank = shape->dims.count;
  s->shaped = true;
  for (int i = 0; i < shape->dims.count; i++) {
    s->tensor->dim[i] = fe_size_lower(c, shape->dims.at[i]);
    if (!s->tensor->dim[i]) s->shaped = false;
  }
  if (!s->shaped) s->bad = true;
}

/* The number of elements of dense storage must fit in 64 bits. */
static void check_elements(fe_check *c, fe_symbol *s, ir_span span) {
  if (s->tensor->format && !ir_format_is_dense(s->tensor->format)) return;
  int64_t elements = 1, size;
  for (int i = 0; i < s->tensor->rank; i++) {
    if (!fe_size_known(s->tensor->dim[i], &size)) continue;
    if (size < 0) {
      fe_error(c, IR_DIAG_SIZE, span, "dimension %d of `%s` is %lld", i, s->name, (long long)size);
      s->bad = true;
      return;
    }
    if (size && elements > (INT64_MAX / 16) / size) {
      fe_error(c, IR_DIAG_OVERFLOW, span, "the number of elements of `%s` overflows 64 bits",
               s->name);
      s->bad = true;
      return;
    }
    elements *= size ? size : 1;
  }
}

static void declare_fill(fe_check *c, const fe_in *in, ir_tensor *tensor) {
  if (!in->fill || in->fill->number == 0) return;
  tensor->fill = in->fill->number;
  if (!in->format) return;
  fe_error(c, IR_DIAG_FILL_STORAGE, in->fill->span,
           "an element that `%s` does not store has the value 0; another fill is not supported for "
           "inputs",
           in->format->name.text);
}

static void declare_in(fe_check *c, const fe_in *in) {
  if (!check_free_name(c, &in->name, "the input")) return;
  fe_symbol *s = fe_symbol_new(c, FE_SYM_TENSOR, in->name.text, in->name.span);
  s->in = in;
  s->defined = true;
  s->tensor =
      ir_tensor_new(c->kernel, in->name.text, IR_ROLE_IN, in->is_pattern ? IR_NONE : in->dtype);
  s->tensor->span = in->name.span;
  s->tensor->constant = in->constant;
  declare_shape(c, s, &in->shape);
  if (in->format && s->shaped)
    s->tensor->format = fe_format_make(c, in->format, s->tensor->rank);
  else
    s->tensor->format = ir_format_builtin(c->arena, "dense", s->tensor->rank, NULL, 0, NULL);
  if (s->shaped) {
    check_elements(c, s, in->shape.span);
    fe_format_check_multiple(c, s->tensor, in->format ? in->format->span : in->shape.span);
  }
  if (in->pattern) fe_pattern_make(c, in->pattern, s, &s->tensor->pattern);
  declare_fill(c, in, s->tensor);
}

/* ---- patterns ------------------------------------------------------------------------------ */
static int axis_of_target(const fe_stmt *stmt, const char *name) {
  for (int i = 0; i < stmt->target->args.count; i++)
    if (fe_is_bare_index(stmt->target->args.at[i]) && !strcmp(stmt->target->args.at[i]->name, name))
      return i;
  return -1;
}

static int axis_of_shape(const fe_symbol *tensor, const fe_symbol *dim) {
  for (int i = 0; dim && dim->size && tensor->in && i < tensor->tensor->rank; i++)
    if (tensor->tensor->dim[i] && fe_size_same(tensor->tensor->dim[i], dim->size)) return i;
  return -1;
}

bool fe_pattern_make(fe_check *c, const fe_pat *pat, const fe_symbol *tensor, ir_pattern *out) {
  *out = (ir_pattern){.zeros = pat->is_static ? IR_ZEROS_STATIC : IR_ZEROS_DYNAMIC,
                      .density_low = pat->low,
                      .density_high = pat->high,
                      .gran_rows = (int)pat->rows,
                      .gran_cols = (int)pat->cols,
                      .axis = -1};
  if (!pat->axis.text) return true;
  fe_symbol *dim = fe_symbol_find(c, pat->axis.text);
  if (dim && dim->kind == FE_SYM_DIM) dim->uses++;
  out->axis = tensor->stmt ? axis_of_target(tensor->stmt, pat->axis.text)
                           : axis_of_shape(tensor, dim && dim->kind == FE_SYM_DIM ? dim : NULL);
  if (out->axis >= 0 || tensor->bad || fe_is_lost(c, pat->axis.text)) return true;
  fe_error(c, IR_DIAG_HINT, pat->axis.span, "`%s` is not %s of `%s`", pat->axis.text,
           tensor->stmt ? "an index on the left" : "a dim in the shape", tensor->name);
  return false;
}

/* ---- ragged -------------------------------------------------------------------------------- */
static bool is_next(const fe_expr *from, const fe_expr *to) {
  const fe_expr *e = to->args.at[0];
  return e->kind == FE_BINARY && e->op == IR_OP_ADD && fe_is_bare_index(e->args.at[0]) &&
         !strcmp(e->args.at[0]->name, from->args.at[0]->name) && e->args.at[1]->kind == FE_NUMBER &&
         e->args.at[1]->integer == 1;
}

static bool ragged_form(fe_check *c, const fe_ragged *r) {
  bool fits = r->from->args.count == 1 && r->to->args.count == 1 &&
              fe_is_bare_index(r->from->args.at[0]) && !strcmp(r->from->name, r->to->name) &&
              is_next(r->from, r->to);
  if (fits) return true;
  fe_error(c, IR_DIAG_RAGGED_FORM, fe_span_join(r->from->span, r->to->span),
           "a ragged index is declared as `ragged %s in off[e]..off[e+1];`", r->name.text);
  return false;
}

static fe_symbol *ragged_offsets(fe_check *c, const fe_ragged *r) {
  fe_symbol *s = fe_symbol_find(c, r->from->name);
  if (!s && !fe_is_lost(c, r->from->name)) {
    ir_diag *d =
        fe_error(c, IR_DIAG_UNKNOWN_NAME, r->from->at, "there is no input `%s`", r->from->name);
    fe_suggest(c, d, r->from->at, r->from->name, 1u << FE_SYM_TENSOR);
  }
  if (!s) return NULL;
  s->uses++;
  if (s->bad) return NULL;
  bool fits = s->kind == FE_SYM_TENSOR && s->in && s->tensor->rank == 1 && s->tensor->format &&
              ir_format_is_dense(s->tensor->format) &&
              (s->tensor->dtype == IR_I32 || s->tensor->dtype == IR_I64);
  if (fits) return s;
  fe_error(c, IR_DIAG_RAGGED_FORM, r->from->at,
           "offsets are a dense input of one dimension and dtype i32 or i64, which `%s` is not",
           s->name);
  return NULL;
}

static fe_symbol *index_new(fe_check *c, const char *name, ir_span span) {
  fe_symbol *s = fe_symbol_new(c, FE_SYM_INDEX, name, span);
  s->index = ir_index_new(c->kernel, name, NULL);
  s->index->span = span;
  return s;
}

static ir_expr *one_less(fe_check *c, ir_expr *size) {
  bool one_more = size->kind == IR_OP && size->op == IR_OP_ADD && size->args[1]->kind == IR_CONST &&
                  size->args[1]->i == 1;
  return one_more ? size->args[0] : ir_apply(c->arena, IR_OP_SUB, size, ir_int(c->arena, 1));
}

/* The segment index: its size is one less than the offsets'. */
static fe_symbol *segment_index(fe_check *c, const fe_ragged *r, fe_symbol *offsets) {
  const fe_expr *e = r->from->args.at[0];
  fe_symbol *s = fe_symbol_find(c, e->name);
  if (s && s->kind != FE_SYM_INDEX) {
    ir_diag *d = fe_error(c, IR_DIAG_SHADOWING, e->at, "`%s` is not an index", e->name);
    ir_diag_note(c->sink, d, s->span, "it is declared here");
    return NULL;
  }
  if (!s) s = index_new(c, e->name, e->at);
  if (!offsets)
    s->bad = true;
  else
    s->counted = offsets;
  if (offsets && !s->size) {
    s->size = one_less(c, offsets->tensor->dim[0]);
    s->size_span = r->from->span;
    s->size_of = ir_format_text(c->arena, "`%s` has one offset more than segments", offsets->name);
  }
  return s;
}

static void declare_ragged(fe_check *c, const fe_ragged *r) {
  if (!check_free_name(c, &r->name, "the index")) return;
  if (!ragged_form(c, r)) {
    index_new(c, r->name.text, r->name.span)->bad = true;
    return;
  }
  fe_symbol *offsets = ragged_offsets(c, r), *segment = segment_index(c, r, offsets);
  fe_symbol *s = index_new(c, r->name.text, r->name.span);
  s->offsets = offsets;
  s->segment = segment;
  s->bad = !offsets || !segment;
  if (s->bad) return;
  s->index->offsets = offsets->tensor;
  s->index->segment = segment->index;
}

/* ---- statements ---------------------------------------------------------------------------- */
static void declare_target(fe_check *c, fe_stmt *stmt) {
  const fe_expr *t = stmt->target;
  fe_name name = {t->name, t->at};
  if (!check_free_name(c, &name, "the tensor")) {
    stmt->bad = true;
    return;
  }
  fe_symbol *s = fe_symbol_new(c, FE_SYM_TENSOR, t->name, t->at);
  s->stmt = stmt;
  s->defined = true;
  s->bad = stmt->bad;
  s->tensor =
      ir_tensor_new(c->kernel, t->name, stmt->is_out ? IR_ROLE_OUT : IR_ROLE_LET, stmt->dtype);
  s->tensor->span = t->at;
  s->tensor->rank = t->args.count;
  stmt->symbol = s;
  if (!stmt->has_shape) return;
  if (stmt->shape.dims.count != t->args.count) {
    fe_error(c, IR_DIAG_RANK, stmt->shape.span, "the stated shape has %d dimension%s, `%s` has %d",
             stmt->shape.dims.count, stmt->shape.dims.count == 1 ? "" : "s", t->name,
             t->args.count);
    stmt->bad = s->bad = true;
    return;
  }
  declare_shape(c, s, &stmt->shape);
  if (s->shaped)
    check_elements(c, s, stmt->shape.span);
  else
    stmt->bad = true;
}

static void check_member(fe_check *c, const fe_member *m) {
  switch (m->kind) {
  case FE_IN: declare_in(c, m->in); break;
  case FE_RAGGED: declare_ragged(c, m->ragged); break;
  case FE_GRAD:
    fe_error(c, IR_DIAG_GRAD, m->grad->span,
             "`grad` is reserved: version 1 of the compiler does not derive backward kernels yet");
    break;
  case FE_STMT:
    fe_names_check(c, m->stmt);
    if (!m->stmt->bad) fe_unbound_check(c, m->stmt);
    declare_target(c, m->stmt);
    break;
  }
}

static void check_storage(fe_check *c, fe_stmt *stmt) {
  fe_symbol *s = stmt->symbol;
  if (stmt->bad || !s->shaped) return;
  check_elements(c, s, stmt->target->span);
  if (stmt->format) {
    s->tensor->format = fe_format_make(c, stmt->format, s->tensor->rank);
    if (s->tensor->format)
      fe_format_check_multiple(c, s->tensor, stmt->format->span);
    else
      s->bad = stmt->bad = true;
  } else if (stmt->is_out && !stmt->like.text) {
    s->tensor->format = ir_format_builtin(c->arena, "dense", s->tensor->rank, NULL, 0, NULL);
  }
  if (stmt->pattern) fe_pattern_make(c, stmt->pattern, s, &s->tensor->pattern);
}

static void check_statement(fe_check *c, fe_stmt *stmt) {
  if (!stmt->symbol || stmt->bad) return;
  int before = c->errors;
  fe_dtypes_check(c, stmt);
  check_storage(c, stmt);
  if (c->errors > before || stmt->bad || stmt->symbol->bad) {
    stmt->bad = stmt->symbol->bad = true;
    return;
  }
  fe_stmt_lower(c, stmt);
  fe_bounds_check(c, stmt);
  fe_sparsity_check(c, stmt);
  fe_fill_check(c, stmt);
}

/* ---- the kernel ---------------------------------------------------------------------------- */
static void warn_unused(fe_check *c, const fe_kernel *kernel) {
  bool has_out = false;
  for (int i = 0; i < c->symbols.count; i++) {
    const fe_symbol *s = c->symbols.at[i];
    bool is_out = s->kind == FE_SYM_TENSOR && s->stmt && s->stmt->is_out;
    has_out = has_out || is_out;
    if (s->uses || is_out) continue;
    if (s->kind == FE_SYM_INDEX && !s->offsets) continue;
    fe_error(c, IR_DIAG_UNUSED, s->span, "`%s` is never used", s->name);
  }
  if (!has_out)
    fe_error(c, IR_DIAG_UNUSED, kernel->name.span,
             "the kernel `%s` has no `out`: it computes nothing", kernel->name.text);
}

/* Inputs in order of declaration, then lets, then outs. */
static void sort_tensors(fe_check *c) {
  IR_VEC(ir_tensor *) sorted = {0};
  for (int role = IR_ROLE_IN; role <= IR_ROLE_OUT; role++)
    for (int i = 0; i < c->kernel->tensors.count; i++)
      if ((int)c->kernel->tensors.at[i]->role == role)
        IR_PUSH(c->arena, &sorted, c->kernel->tensors.at[i]);
  for (int i = 0; i < sorted.count; i++) c->kernel->tensors.at[i] = sorted.at[i];
}

void fe_kernel_check(fe_check *c, fe_kernel *kernel) {
  int before = c->errors;
  c->syntax = kernel;
  fe_symbols_forget(c);
  c->kernel = ir_kernel_new(c->program, kernel->name.text);
  c->kernel->span = kernel->name.span;
  for (int i = 0; i < kernel->members.count; i++) check_member(c, &kernel->members.at[i]);
  fe_sizes_check(c, kernel);
  for (int i = 0; i < kernel->members.count; i++)
    if (kernel->members.at[i].kind == FE_STMT) check_statement(c, kernel->members.at[i].stmt);
  sort_tensors(c);
  if (c->errors == before && !c->file->errors) warn_unused(c, kernel);
  fe_symbols_forget(c);
  c->syntax = NULL;
}
