/* parse_ein.c - tensors, indices and statements of IR text: the ein dialect. */
#include "ir/parse.h"
#include "ir/print.h"

/* ---- tensors ------------------------------------------------------------------------------- */
static void read_shape(ir_reader *r, int *rank, ir_expr **dims) {
  ir_read_expect(r, "[");
  while (!ir_read_done(r, "]")) {
    ir_expr *dim = ir_read_expr(r);
    if (*rank == IR_MAX_RANK) {
      ir_read_fail(r, r->token.span, "a tensor has at most %d dimensions", IR_MAX_RANK);
      return;
    }
    dims[(*rank)++] = dim;
    if (!ir_read_at(r, "]")) ir_read_expect(r, ",");
  }
  ir_read_expect(r, "]");
}

static void read_given(ir_reader *r, ir_tensor *t) {
  ir_expr *dims[IR_MAX_RANK];
  int rank = 0;
  read_shape(r, &rank, dims);
  t->declared = ir_declare(r->arena, t, rank, dims);
}

static void read_density(ir_reader *r, ir_pattern *p) {
  p->density_low = p->density_high = ir_read_number(r);
  if (ir_read_if(r, "..")) p->density_high = ir_read_number(r);
}

static void read_pattern(ir_reader *r, ir_pattern *p) {
  ir_read_expect(r, "zeros");
  ir_read_expect(r, "(");
  p->zeros = (ir_zeros)ir_read_word(r, ir_words_zeros, "what is known of the zeros");
  while (ir_read_if(r, ",")) {
    static const char *const keys[] = {"density", "gran", "axis", NULL};
    int key = ir_read_word(r, keys, "a property of the zeros");
    ir_read_expect(r, "=");
    if (key == 0)
      read_density(r, p);
    else if (key == 1)
      ir_read_gran(r, &p->gran_rows, &p->gran_cols);
    else
      p->axis = (int)ir_read_int(r, 0, IR_MAX_RANK - 1);
  }
  ir_read_expect(r, ")");
}

static void read_tensor_clauses(ir_reader *r, ir_tensor *t) {
  t->constant = ir_read_if(r, "const");
  if (ir_read_if(r, "as")) t->format = ir_read_format(r, t->rank);
  if (ir_read_if(r, "like")) ir_read_later(r, IR_LATER_LIKE, t);
  bool pitch = ir_read_if(r, "pitch");
  for (int l = 0; pitch && l < IR_MAX_RANK; l++) {
    t->pitch[l] = ir_read_expr(r);
    pitch = ir_read_if(r, ",");
  }
  if (ir_read_if(r, "given")) read_given(r, t);
  if (t->role == IR_ROLE_IN && ir_read_if(r, "positions")) {
    ir_read_expect(r, "i64");
    ir_widen(r->kernel, t);
  }
  if (ir_read_if(r, "by")) {
    ir_read_expect(r, "value");
    t->by_value = true;
  }
  if (ir_read_if(r, "~")) read_pattern(r, &t->pattern);
  if (ir_read_if(r, "fill")) t->fill = ir_read_number(r);
  if (ir_read_if(r, "why")) t->format_why = ir_read_string(r);
  ir_read_expect(r, ";");
}

/* in x : bf16[T, D] const as csr ~ zeros(dynamic, density=0.1) fill 0 why "..."; */
void ir_read_tensor_line(ir_reader *r, ir_role role) {
  ir_span span = r->token.span;
  const char *name = ir_read_name(r);
  if (!ir_read_is_new(r, name, span) || !ir_read_room(r, r->kernel->tensors.count)) return;
  ir_read_expect(r, ":");
  ir_dtype dtype = ir_read_dtype(r);
  ir_tensor *t = ir_tensor_new(r->kernel, name, role, dtype);
  t->span = span;
  read_shape(r, &t->rank, t->dim);
  read_tensor_clauses(r, t);
}

/* index r : R in off[e]; */
void ir_read_index_line(ir_reader *r) {
  ir_span span = r->token.span;
  const char *name = ir_read_name(r);
  if (!ir_read_is_new(r, name, span) || !ir_read_room(r, r->kernel->indices.count)) return;
  ir_read_expect(r, ":");
  ir_expr *extent = ir_read_expr(r);
  ir_index *index = ir_index_new(r->kernel, name, extent);
  index->span = span;
  if (ir_read_if(r, "in")) {
    index->offsets = ir_read_tensor(r);
    ir_read_expect(r, "[");
    ir_read_later(r, IR_LATER_SEGMENT, index);
    ir_read_expect(r, "]");
  }
  ir_read_expect(r, ";");
}

static void read_over(ir_reader *r, ir_require *need) {
  do {
    ir_index *index = ir_read_index(r);
    if (index && ir_read_room(r, need->over.count)) IR_PUSH(r->arena, &need->over, index);
  } while (ir_read_if(r, ","));
}

/* needs x dim 0 from -1 to N over i multiple 4; */
void ir_read_need(ir_reader *r) {
  ir_require need = {.span = r->token.span};
  need.tensor = ir_read_tensor(r);
  ir_read_expect(r, "dim");
  need.dim = (int)ir_read_int(r, 0, IR_MAX_RANK - 1);
  if (ir_read_if(r, "from")) need.least = ir_read_expr(r);
  if (ir_read_if(r, "to")) need.most = ir_read_expr(r);
  if (ir_read_if(r, "over")) read_over(r, &need);
  if (ir_read_if(r, "multiple")) need.multiple = ir_read_int(r, 0, INT64_MAX);
  ir_read_expect(r, ";");
  if (need.tensor && ir_read_room(r, r->kernel->needs.count))
    IR_PUSH(r->arena, &r->kernel->needs, need);
}

/* ---- statements ---------------------------------------------------------------------------- */
static ir_reducer read_combine(ir_reader *r) {
  if (ir_read_if(r, "=")) return IR_RED_COUNT;
  if (ir_read_if(r, "+=")) return IR_RED_SUM;
  ir_span span = r->token.span;
  const char *name = ir_read_name(r);
  ir_reducer reducer = ir_reducer_find(name);
  if (reducer == IR_RED_COUNT)
    ir_read_fail(r, span, "expected `=`, `+=`, `max=` or another reducer and `=`");
  ir_read_expect(r, "=");
  return reducer;
}

static void read_free(ir_reader *r, ir_stmt *stmt) {
  do {
    ir_index *index = ir_read_index(r);
    if (index && ir_read_room(r, stmt->free.count)) IR_PUSH(r->arena, &stmt->free, index);
  } while (ir_read_if(r, ","));
}

static void read_axis(ir_reader *r, ir_stmt *stmt) {
  static const char *const words[] = {"ordered", "invariant", NULL};
  ir_axis axis = {.index = ir_read_index(r)};
  axis.invariant = ir_read_word(r, words, "the kind of axis");
  axis.reduction = ir_read_if(r, "reduction");
  if (r->token.kind == IR_TOKEN_QUOTED) axis.why = ir_read_string(r);
  if (axis.index && ir_read_room(r, stmt->axes.count)) IR_PUSH(r->arena, &stmt->axes, axis);
}

static void read_stmt_clauses(ir_reader *r, ir_stmt *stmt) {
  if (ir_read_if(r, "for")) read_free(r, stmt);
  if (ir_read_if(r, "acc")) stmt->acc = ir_read_dtype(r);
  if (ir_read_if(r, "race")) stmt->race = (ir_race)ir_read_word(r, ir_words_race, "a race policy");
  if (ir_read_if(r, "on"))
    stmt->cond = ir_read_expr(r);
  else
    ir_read_if(r, "everywhere");
  if (ir_read_if(r, "fill")) stmt->fill = ir_read_number(r);
  if (ir_read_if(r, "sample")) stmt->sample = ir_read_expr(r);
  if (ir_read_if(r, "support")) stmt->support = ir_read_expr(r);
  if (ir_read_if(r, "stores")) stmt->stores = ir_read_expr(r);
  while (ir_read_if(r, "axis")) read_axis(r, stmt);
  if (ir_read_if(r, "fused")) stmt->fused_why = ir_read_string(r);
}

/* stmt y[t, o] = sum[f](h[t, f] * W[f, o]) for t, o acc f32 ...; */
void ir_read_stmt(ir_reader *r) {
  ir_span span = r->token.span;
  ir_tensor *target = ir_read_tensor(r);
  if (!target || !ir_read_room(r, r->kernel->stmts.count)) return;
  if (target->def) {
    ir_read_fail(r, span, "`%s` has two statements; each tensor has one", target->name);
    return;
  }
  ir_stmt *stmt = ir_stmt_new(r->kernel, target);
  ir_read_subs(r, target->rank, stmt->subs, target->name, span);
  stmt->combine = read_combine(r);
  stmt->value = ir_read_expr(r);
  read_stmt_clauses(r, stmt);
  stmt->span = (ir_span){r->file, span.begin, r->token.span.begin};
  ir_read_expect(r, ";");
  IR_PUSH(r->arena, &r->kernel->stmts, stmt);
}
