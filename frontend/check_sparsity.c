/* check_sparsity.c - can the pattern of a sparse result be determined (rule 7)?
 *
 * What a result stores follows from its definition (ir/stores.c); one that would store everywhere
 * has no pattern.  Whether hints give it one is asked of the support of its value: EMPTY (always
 * 0), SPARSE (zero in places), FULL, by the zero rules of the op table.  A result that is full only
 * because operands are dense, and whose zeros are hinted, on itself or on all of those operands, is
 * stored by its values; so is a hinted one with a whole axis that no operand's storage bounds.  `as
 * like(X)` asks for more: the value must be zero wherever X stores nothing. */
#include "frontend/check.h"

typedef enum support { EMPTY, SPARSE, FULL } support;
/* Whose zeros count: what formats leave out; those and what `~ zeros` says of operands; those that
 * any dense operand may have, or a function make. */
typedef enum trust { STORAGE, HINTS, ALL } trust;

static support support_of(const ir_expr *e, trust t);

static bool is_full(const ir_format *f) { return !ir_format_lists_entries(f); }

static bool is_zero(const ir_expr *e) {
  double value;
  return ir_const_value(e, &value) && value == 0;
}

/* The format of an input was refused: what it would store is unknown. */
static bool reads_refused(const ir_expr *e) {
  if (!e) return false;
  if (e->kind == IR_ACCESS && e->tensor->role == IR_ROLE_IN && !e->tensor->format) return true;
  for (int i = 0; i < e->arg_count; i++)
    if (reads_refused(e->args[i])) return true;
  return false;
}

/* ---- support ------------------------------------------------------------------------------- */
static support smaller(support a, support b) { return a < b ? a : b; }
static support larger(support a, support b) { return a > b ? a : b; }

static support support_of_stmt(const ir_stmt *s, trust trusted) {
  support value = support_of(s->value, trusted);
  if (ir_is_scatter(s)) return trusted == ALL ? value : FULL;
  if (!s->cond) return value;
  return s->fill == 0 ? smaller(value, support_of(s->cond, trusted)) : FULL;
}

static support support_of_tensor(const ir_tensor *t, trust trusted) {
  if (t->like || (t->format && !is_full(t->format))) return SPARSE;
  if (trusted == ALL || (trusted == HINTS && t->pattern.zeros != IR_ZEROS_UNKNOWN)) return SPARSE;
  if (t->format) return FULL;
  return t->def ? support_of_stmt(t->def, trusted) : SPARSE; /* an input whose format was refused */
}

static bool only_indices(const ir_expr *e) {
  if (e->kind == IR_ACCESS || e->kind == IR_REDUCE || e->kind == IR_SOFTMAX || e->kind == IR_TOPK)
    return false;
  for (int i = 0; i < e->arg_count; i++)
    if (!only_indices(e->args[i])) return false;
  return true;
}

static support support_of_binary(const ir_expr *e, trust trusted) {
  const ir_zero *zero = ir_op_rows[e->op].zero;
  support x = support_of(e->args[0], trusted), y = support_of(e->args[1], trusted);
  if (zero[0] != IR_ZERO_Z && !(zero[1] == IR_ZERO_Z || zero[2] == IR_ZERO_Z)) return FULL;
  bool by_right = zero[1] == IR_ZERO_Z, by_left = zero[2] == IR_ZERO_Z;
  if (by_left && by_right) return smaller(x, y);
  if (by_left || by_right) return by_left ? x : y;
  return larger(x, y);
}

static support support_of_op(const ir_expr *e, trust trusted) {
  if (e->dtype == IR_B1 && ir_op_rows[e->op].arity == 2 && only_indices(e)) return SPARSE;
  if (trusted == ALL && (e->dtype == IR_B1 || ir_op_makes_zeros(e->op))) return SPARSE;
  if (e->arg_count == 1)
    return ir_op_rows[e->op].zero[0] == IR_ZERO_Z ? support_of(e->args[0], trusted) : FULL;
  if (e->arg_count == 2) return support_of_binary(e, trusted);
  support yes = support_of(e->args[1], trusted), no = support_of(e->args[2], trusted);
  return larger(smaller(support_of(e->args[0], trusted), yes), no);
}

static support support_of(const ir_expr *e, trust trusted) {
  switch (e->kind) {
  case IR_CONST: return is_zero(e) ? EMPTY : FULL;
  case IR_ACCESS: return support_of_tensor(e->tensor, trusted);
  case IR_OP: return support_of_op(e, trusted);
  case IR_CAST: return support_of(e->args[0], trusted);
  case IR_TOPK: return trusted == ALL ? SPARSE : support_of(e->args[0], trusted);
  case IR_REDUCE: return e->reducer == IR_RED_ARGMAX ? FULL : support_of(e->args[0], trusted);
  case IR_SOFTMAX: return trusted == ALL ? SPARSE : FULL; /* -inf gives zeros */
  case IR_DIM:
  case IR_INDEX:
  case IR_STORED:
  case IR_VAR:
  case IR_LOAD: break;
  }
  return FULL;
}

/* The part that makes a full value full; a number only where nothing else does. */
static const ir_expr *culprit(const ir_expr *e, trust trusted) {
  const ir_expr *number = NULL;
  for (int i = 0; i < e->arg_count && e->kind != IR_ACCESS; i++) {
    if (support_of(e->args[i], trusted) != FULL ||
        (e->kind == IR_OP && e->op == IR_OP_WHERE && i == 0))
      continue;
    if (e->args[i]->kind != IR_CONST) return culprit(e->args[i], trusted);
    number = e->args[i];
  }
  return number ? number : e;
}

/* ---- zero in given places ------------------------------------------------------------------- */
/* A question about places: is this access zero in all of them? */
typedef struct places places;
struct places {
  bool (*access)(const places *p, const ir_expr *e);
  const ir_tensor *root; /* where this stores nothing, */
  ir_expr *const *subs;  /* at these subscripts; or */
  const ir_index *index; /* where no stored entry carries this value of the index */
};

static bool zero_in(const places *p, const ir_expr *e);

static bool op_zero_in(const places *p, const ir_expr *e) {
  const ir_zero *zero = ir_op_rows[e->op].zero;
  if (e->arg_count == 1) return zero[0] == IR_ZERO_Z && zero_in(p, e->args[0]);
  bool x = zero_in(p, e->args[0]), y = zero_in(p, e->args[1]);
  if (e->arg_count == 3) return (x || y) && zero_in(p, e->args[2]);
  if ((zero[2] == IR_ZERO_Z && x) || (zero[1] == IR_ZERO_Z && y)) return true;
  return zero[0] == IR_ZERO_Z && x && y;
}

static bool zero_in(const places *p, const ir_expr *e) {
  switch (e->kind) {
  case IR_CONST: return is_zero(e);
  case IR_ACCESS: return p->access(p, e);
  case IR_CAST:
  case IR_TOPK: return zero_in(p, e->args[0]);
  case IR_REDUCE: return e->reducer != IR_RED_ARGMAX && zero_in(p, e->args[0]);
  case IR_OP: return op_zero_in(p, e);
  case IR_DIM:
  case IR_INDEX:
  case IR_SOFTMAX:
  case IR_STORED:
  case IR_VAR:
  case IR_LOAD: break;
  }
  return false;
}

static bool stmt_zero_in(const places *p, const ir_stmt *s) {
  return s->fill == 0 && (zero_in(p, s->value) || (s->cond && zero_in(p, s->cond)));
}

/* ---- as like(X) ---------------------------------------------------------------------------- */
static bool same_subs(const places *p, ir_expr *const *subs, int rank) {
  for (int i = 0; i < rank; i++)
    if (!ir_expr_equal(p->subs[i], subs[i])) return false;
  return true;
}

static bool root_access(const places *p, const ir_expr *e) {
  const ir_tensor *t = e->tensor;
  if (t->rank != p->root->rank || !same_subs(p, e->args, t->rank)) return false;
  if (ir_tensor_owner(t) == p->root) return true;
  const ir_stmt *s = t->def;
  return s && !t->format && !ir_is_scatter(s) && same_subs(p, s->subs, t->rank) &&
         stmt_zero_in(p, s);
}

/* ---- a whole axis ------------------------------------------------------------------------- */
static bool axis_bounds(const ir_stmt *s, const ir_index *index);

static bool axis_access(const places *p, const ir_expr *e) {
  const ir_tensor *t = e->tensor;
  bool sparse = t->like || (t->format && !is_full(t->format));
  const ir_stmt *def = sparse || t->format || !t->def || ir_is_scatter(t->def) ? NULL : t->def;
  for (int a = 0; a < e->arg_count; a++)
    if (ir_expr_uses_index(e->args[a], p->index) &&
        (sparse || (def && axis_bounds(def, def->subs[a]->index))))
      return true;
  return false;
}

static bool axis_bounds(const ir_stmt *s, const ir_index *index) {
  places p = {.access = axis_access, .index = index};
  return stmt_zero_in(&p, s);
}

static bool all_bounded(const ir_stmt *s) {
  for (int d = 0; d < s->target->rank; d++)
    if (s->subs[d]->kind != IR_INDEX || !axis_bounds(s, s->subs[d]->index)) return false;
  return true;
}

/* ---- messages ------------------------------------------------------------------------------ */
/* A sparse operand that is read at exactly the elements of the left side. */
static const ir_tensor *model(const ir_stmt *s, const ir_expr *e) {
  if (e->kind == IR_ACCESS && e->tensor->rank == s->target->rank && e->tensor->role == IR_ROLE_IN &&
      support_of(e, STORAGE) == SPARSE) {
    places p = {.root = e->tensor, .subs = s->subs};
    return same_subs(&p, e->args, e->tensor->rank) ? e->tensor : NULL;
  }
  for (int i = 0; i < e->arg_count; i++) {
    const ir_tensor *t = model(s, e->args[i]);
    if (t) return t;
  }
  return NULL;
}

static void no_pattern(fe_check *c, const fe_stmt *stmt, trust trusted) {
  const ir_stmt *s = stmt->lowered;
  const ir_expr *why = s->cond && s->fill != 0 ? s->cond : culprit(s->value, trusted);
  const ir_tensor *like = s->cond ? model(s, s->cond) : NULL;
  if (!like) like = model(s, s->value);
  ir_diag *d =
      fe_error(c, IR_DIAG_SPARSE_OUTPUT, stmt->as_span,
               "no pattern of `%s` can be determined: its value may be non-zero everywhere",
               s->target->name);
  ir_diag_note(c->sink, d, why->span,
               why->kind == IR_ACCESS ? "`%s` is dense"
                                      : "this is not zero where its operands are zero",
               why->kind == IR_ACCESS ? why->tensor->name : "");
  if (trusted != ALL && support_of_stmt(s, ALL) != FULL)
    ir_diag_note(
        c->sink, d, stmt->as_span,
        "where its zeros are known at run time only, say so: with `~ zeros(dynamic)` behind "
        "the format, what is not zero is stored");
  if (like)
    ir_diag_fix(c->sink, d, stmt->as_span, ir_format_text(c->arena, "as like(%s)", like->name),
                "share the positions of `%s`", like->name);
  else
    ir_diag_fix(c->sink, d, stmt->as_span, "as dense", "store it dense");
}

static void not_like(fe_check *c, const fe_stmt *stmt, const ir_tensor *x) {
  const ir_stmt *s = stmt->lowered;
  ir_diag *d =
      fe_error(c, IR_DIAG_LIKE, stmt->as_span,
               "`%s` may be %s where `%s` stores nothing, and those values would be lost",
               s->target->name, s->fill == 0 ? "non-zero" : "other than its fill", x->name);
  ir_diag_note(c->sink, d, x->span,
               "multiply by `%s`, write `on %s[...]`, or choose a format such as `as csr`", x->name,
               x->name);
}

/* ---- like ---------------------------------------------------------------------------------- */
static bool like_fault(fe_check *c, const fe_stmt *stmt, const char *text) {
  fe_error(c, IR_DIAG_LIKE, stmt->like.span, "%s", text);
  return false;
}

static bool like_fits(fe_check *c, const fe_stmt *stmt, const ir_tensor *t, const ir_tensor *x) {
  const char *n = stmt->like.text;
  if (t == x) return like_fault(c, stmt, ir_format_text(c->arena, "`%s` cannot be like itself", n));
  if (!x->format && !x->like)
    return like_fault(
        c, stmt,
        ir_format_text(c->arena,
                       "the storage of `%s` is the compiler's choice; give it a format with `as`",
                       n));
  if (x->rank != t->rank)
    return like_fault(c, stmt,
                      ir_format_text(c->arena, "`%s` has %d dimensions, `%s` has %d", n, x->rank,
                                     t->name, t->rank));
  for (int i = 0; i < t->rank; i++)
    if (!fe_size_same(x->dim[i], t->dim[i]))
      return like_fault(c, stmt,
                        ir_format_text(c->arena, "dimension %d of `%s` has size %s, of `%s` %s", i,
                                       n, fe_size_text(c, x->dim[i]), t->name,
                                       fe_size_text(c, t->dim[i])));
  return true;
}

static void check_like(fe_check *c, fe_stmt *stmt) {
  fe_symbol *x = fe_symbol_find(c, stmt->like.text);
  ir_tensor *t = stmt->symbol->tensor;
  if (!x || x->kind != FE_SYM_TENSOR) {
    if (!x && fe_is_lost(c, stmt->like.text)) return;
    ir_diag *d = fe_error(c, IR_DIAG_UNKNOWN_NAME, stmt->like.span, "there is no tensor `%s`",
                          stmt->like.text);
    fe_suggest(c, d, stmt->like.span, stmt->like.text, 1u << FE_SYM_TENSOR);
    return;
  }
  x->uses++;
  if (x->bad || !like_fits(c, stmt, t, x->tensor)) return;
  t->like = x->tensor;
  t->format = ir_tensor_owner(x->tensor)->format;
  const ir_stmt *s = stmt->lowered;
  places p = {.access = root_access, .root = ir_tensor_owner(x->tensor), .subs = s->subs};
  if (is_full(t->format)) return;
  /* What X does not store has one value there: 0, or the fill. */
  bool fits = stmt_zero_in(&p, s) || (s->cond && zero_in(&p, s->cond));
  if (!fits || ir_is_scatter(s)) not_like(c, stmt, x->tensor);
}

void fe_sparsity_check(fe_check *c, fe_stmt *stmt) {
  ir_tensor *t = stmt->symbol->tensor;
  if (stmt->like.text) {
    check_like(c, stmt);
    return;
  }
  if (!stmt->format || is_full(t->format)) return;
  bool hinted = t->pattern.zeros != IR_ZEROS_UNKNOWN;
  trust trusted = hinted ? ALL : HINTS;
  bool refused = reads_refused(stmt->lowered->value) || reads_refused(stmt->lowered->cond);
  if (refused || ir_stores_of_stmt(c->arena, stmt->lowered)) {
    t->by_value = hinted && !all_bounded(stmt->lowered);
    return;
  }
  bool hints_decide = hinted || support_of_stmt(stmt->lowered, STORAGE) == FULL;
  t->by_value = hints_decide && support_of_stmt(stmt->lowered, trusted) != FULL;
  if (!t->by_value) no_pattern(c, stmt, trusted);
}
