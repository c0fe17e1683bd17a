/* check_implied.c - indices that neither the left side nor a reducer names (rules 1, 5, 8).
 *
 * With `=` such an index is a fault.  With `+=` each additive term is summed over the unbound
 * indices that it uses (`max=`, `min=`: the whole right side is reduced); that is written into the
 * tree, so that later checks see reducers only.  The segment of a ragged index in scope is implied
 * by it. */
#include "frontend/check.h"

typedef struct unbound {
  fe_symbol *symbol;
  ir_span at;
  const fe_expr *product;  /* the product that the index occurs in */
  const fe_expr *function; /* the non-linear function around it, or NULL */
  bool along;              /* softmax or topk along it */
} unbound;

typedef struct walk {
  fe_check *c;
  fe_stmt *stmt;
  IR_VEC(fe_symbol *) bound;
  IR_VEC(unbound) found;
  bool silent;
} walk;

static bool listed(fe_symbol *const *at, int count, const fe_symbol *s) {
  for (int i = 0; i < count; i++)
    if (at[i] == s) return true;
  return false;
}

static bool names_it(const walk *w, const fe_symbol *s) {
  return listed(w->stmt->free.at, w->stmt->free.count, s) || listed(w->bound.at, w->bound.count, s);
}

static const fe_symbol *ragged_over(fe_symbol *const *at, int count, const fe_symbol *segment) {
  for (int i = 0; i < count; i++)
    if (at[i]->segment == segment) return at[i];
  return NULL;
}

/* The ragged index in scope whose segment this is. */
static const fe_symbol *implied_by(const walk *w, const fe_symbol *segment) {
  const fe_symbol *r = ragged_over(w->stmt->free.at, w->stmt->free.count, segment);
  return r ? r : ragged_over(w->bound.at, w->bound.count, segment);
}

/* ---- uses ---------------------------------------------------------------------------------- */
static void use(walk *w, fe_symbol *s, ir_span at, const fe_expr *product, const fe_expr *function,
                bool along) {
  if (s->kind != FE_SYM_INDEX || names_it(w, s) || implied_by(w, s)) return;
  unbound u = {s, at, product, function, along};
  IR_PUSH(w->c->arena, &w->found, u);
}

static void walk_sub(walk *w, const fe_expr *sub, const fe_expr *product, const fe_expr *function) {
  if (sub->kind == FE_ACCESS && sub->symbol) use(w, sub->symbol, sub->at, product, function, false);
  for (int i = 0; i < sub->args.count; i++) walk_sub(w, sub->args.at[i], product, function);
}

static void walk_expr(walk *w, fe_expr *e, const fe_expr *product, const fe_expr *function);

static void bound_twice(walk *w, const fe_name *name, const fe_symbol *s) {
  bool left = listed(w->stmt->free.at, w->stmt->free.count, s);
  w->stmt->bad = true;
  if (w->silent) return;
  fe_error(w->c, IR_DIAG_SHADOWING, name->span, "`%s` is already %s; take another index",
           name->text, left ? "an index of the left side" : "bound by a reducer here");
}

static void bound_segment(walk *w, const fe_name *name, const fe_symbol *ragged) {
  w->stmt->bad = true;
  if (w->silent) return;
  fe_error(w->c, IR_DIAG_RAGGED_SEGMENT, name->span,
           "`%s` is the segment that `%s` lies in here; it cannot be bound again inside",
           name->text, ragged->name);
}

static void push_bound(walk *w, const fe_expr *e) {
  for (int i = 0; i < e->over.count; i++) {
    fe_symbol *s = e->over.at[i];
    if (names_it(w, s) || listed(e->over.at, i, s))
      bound_twice(w, &e->bound.at[i], s);
    else if (implied_by(w, s))
      bound_segment(w, &e->bound.at[i], implied_by(w, s));
  }
  for (int i = 0; i < e->over.count; i++) IR_PUSH(w->c->arena, &w->bound, e->over.at[i]);
}

static void walk_reduce(walk *w, fe_expr *e, const fe_expr *function) {
  int before = w->bound.count;
  push_bound(w, e);
  bool linear = e->reducer == IR_RED_SUM;
  walk_expr(w, e->args.at[0], NULL, linear ? function : e);
  w->bound.count = before;
}

static void walk_binary(walk *w, fe_expr *e, const fe_expr *product, const fe_expr *function) {
  bool multiplies = e->op == IR_OP_MUL || e->op == IR_OP_DIV || e->op == IR_OP_MOD;
  bool adds = e->op == IR_OP_ADD || e->op == IR_OP_SUB;
  const fe_expr *inside = multiplies ? (product ? product : e) : NULL;
  const fe_expr *left = multiplies || adds ? function : e;
  const fe_expr *right = e->op == IR_OP_DIV || e->op == IR_OP_MOD ? e : left;
  walk_expr(w, e->args.at[0], inside, e->op == IR_OP_MOD ? e : left);
  walk_expr(w, e->args.at[1], inside, right);
}

/* softmax[e] in the scope of a row of segment e: there is one segment here, and no row of them. */
static void along_segment(walk *w, const fe_expr *e, const fe_symbol *ragged) {
  const fe_name *name = &e->bound.at[0];
  const char *op = e->kind == FE_SOFTMAX ? "softmax" : "topk", *r = ragged->name;
  w->stmt->bad = true;
  if (w->silent) return;
  ir_diag *d =
      fe_error(w->c, IR_DIAG_RAGGED_SEGMENT, name->span,
               "`%s` is the segment that `%s` lies in here: `%s[%s]` has one element to look at",
               name->text, r, op, name->text);
  ir_diag_fix(w->c->sink, d, name->span, r, "along the rows of the segment, `%s[%s]`", op, r);
  ir_diag_note(w->c->sink, d, e->span,
               "along all segments: compute it in a `let` whose left side has `%s`, and read that",
               name->text);
}

static void walk_row(walk *w, fe_expr *e, const fe_expr *product) {
  const fe_symbol *along = e->over.at[0];
  const fe_symbol *ragged = names_it(w, along) ? NULL : implied_by(w, along);
  if (ragged)
    along_segment(w, e, ragged);
  else
    use(w, e->over.at[0], e->bound.at[0].span, product, e, true);
  walk_expr(w, e->args.at[0], NULL, e);
}

static void walk_expr(walk *w, fe_expr *e, const fe_expr *product, const fe_expr *function) {
  const fe_expr *inside = product ? product : e;
  switch (e->kind) {
  case FE_NUMBER: break;
  case FE_ACCESS: walk_sub(w, e, inside, function); break;
  case FE_UNARY: walk_expr(w, e->args.at[0], inside, e->op == IR_OP_NOT ? e : function); break;
  case FE_BINARY: walk_binary(w, e, product, function); break;
  case FE_REDUCE: walk_reduce(w, e, function); break;
  case FE_CAST: walk_expr(w, e->args.at[0], NULL, function); break;
  case FE_SOFTMAX:
  case FE_TOPK: walk_row(w, e, inside); break;
  case FE_CALL:
    for (int i = 0; i < e->args.count; i++) walk_expr(w, e->args.at[i], NULL, e);
    break;
  }
}

/* ---- rule 1: `=` --------------------------------------------------------------------------- */
static const char *sum_text(walk *w, const fe_expr *product) {
  ir_text text = ir_text_new(w->c->arena);
  IR_VEC(fe_symbol *) seen = {0};
  ir_text_put(&text, "sum[");
  for (int i = 0; i < w->found.count; i++) {
    const unbound *u = &w->found.at[i];
    if ((product && u->product != product) || u->along || listed(seen.at, seen.count, u->symbol))
      continue;
    ir_text_printf(&text, "%s%s", seen.count ? "," : "", u->symbol->name);
    IR_PUSH(w->c->arena, &seen, u->symbol);
  }
  ir_text_put(&text, "] ");
  return text.data;
}

static bool reduces_ragged(const fe_expr *e, const fe_symbol *segment) {
  if (e->kind == FE_REDUCE && ragged_over(e->over.at, e->over.count, segment)) return true;
  for (int i = 0; i < e->args.count; i++)
    if (reduces_ragged(e->args.at[i], segment)) return true;
  return false;
}

static void report_unbound(walk *w) {
  const unbound *u = &w->found.at[0];
  w->stmt->bad = true;
  if (reduces_ragged(w->stmt->value, u->symbol)) {
    fe_error(w->c, IR_DIAG_RAGGED_SEGMENT, u->at,
             "`%s` is the segment of a ragged index, which is bound by a reducer elsewhere: it has "
             "no value here",
             u->symbol->name);
    return;
  }
  if (u->along) {
    fe_error(w->c, IR_DIAG_UNBOUND_INDEX, u->at,
             "`%s` is bound by nothing: a row operation gives one value for each `%s`, so it "
             "stands on the left or in a reducer around this",
             u->symbol->name, u->symbol->name);
    return;
  }
  const char *code = sum_text(w, u->product);
  ir_span place = {u->product->span.file, u->product->span.begin, u->product->span.begin};
  ir_diag *d =
      fe_error(w->c, IR_DIAG_UNBOUND_INDEX, u->at,
               "the index `%s` is not on the left side and no reducer binds it", u->symbol->name);
  ir_diag_fix(w->c->sink, d, place, code, "did you mean `%s`?", code);
}

/* ---- rule 1: `+=`, `max=`, `min=` ---------------------------------------------------------- */
static const char *function_name(const fe_expr *f) {
  if (f->kind == FE_CALL || f->kind == FE_UNARY || f->kind == FE_BINARY)
    return ir_op_rows[f->op].mnemonic;
  return f->kind == FE_SOFTMAX ? "softmax"
         : f->kind == FE_TOPK  ? "topk"
                               : ir_reducer_rows[f->reducer].text;
}

static bool report_hidden(walk *w) {
  for (int i = 0; i < w->found.count; i++) {
    const unbound *u = &w->found.at[i];
    if (!u->function) continue;
    w->stmt->bad = true;
    if (u->along) {
      report_unbound(w);
      return true;
    }
    const char *code = sum_text(w, u->product);
    const char *name = function_name(u->function);
    ir_span place = {u->product->span.file, u->product->span.begin, u->product->span.begin};
    ir_diag *d = fe_error(w->c, IR_DIAG_HIDDEN_REDUCTION, u->at,
                          "the reduction over `%s` is hidden under `%s`: it is not clear whether "
                          "the sum stands inside or outside",
                          u->symbol->name, name);
    ir_diag_fix(w->c->sink, d, place, code, "if inside, `%s` here", code);
    return true;
  }
  return false;
}

static fe_expr *wrap(fe_check *c, ir_reducer reducer, const walk *w, fe_expr *body) {
  fe_expr *e = fe_expr_new(c->arena, FE_REDUCE, body->span);
  e->reducer = reducer;
  e->height = body->height + 1;
  for (int i = 0; i < w->found.count; i++) {
    fe_symbol *s = w->found.at[i].symbol;
    if (listed(e->over.at, e->over.count, s)) continue;
    fe_name name = {s->name, w->found.at[i].at};
    IR_PUSH(c->arena, &e->over, s);
    IR_PUSH(c->arena, &e->bound, name);
  }
  if (!e->over.count) return body;
  IR_PUSH(c->arena, &e->args, body);
  return e;
}

static fe_expr *sum_terms(fe_check *c, fe_stmt *stmt, fe_expr *e) {
  bool adds = (e->kind == FE_BINARY && (e->op == IR_OP_ADD || e->op == IR_OP_SUB)) ||
              (e->kind == FE_UNARY && e->op == IR_OP_NEG);
  if (adds) {
    for (int i = 0; i < e->args.count; i++) e->args.at[i] = sum_terms(c, stmt, e->args.at[i]);
    return e;
  }
  walk w = {.c = c, .stmt = stmt, .silent = true};
  walk_expr(&w, e, NULL, NULL);
  return wrap(c, IR_RED_SUM, &w, e);
}

static void make_explicit(walk *w) {
  fe_stmt *s = w->stmt;
  s->value =
      s->combine == IR_RED_SUM ? sum_terms(w->c, s, s->value) : wrap(w->c, s->combine, w, s->value);
}

/* ---- rule 5 -------------------------------------------------------------------------------- */
static void check_condition(fe_check *c, fe_stmt *stmt) {
  walk w = {.c = c, .stmt = stmt};
  walk_expr(&w, stmt->cond, NULL, NULL);
  if (!w.found.count) return;
  const unbound *u = &w.found.at[0];
  stmt->bad = true;
  ir_diag *d = fe_error(c, IR_DIAG_COND_INDEX, u->at,
                        "the condition may use only indices of the left side, which `%s` is not",
                        u->symbol->name);
  ir_diag_note(c->sink, d, stmt->target->span, "the left side");
}

void fe_unbound_check(fe_check *c, fe_stmt *stmt) {
  walk w = {.c = c, .stmt = stmt};
  if (stmt->cond) check_condition(c, stmt);
  walk_expr(&w, stmt->value, NULL, NULL);
  if (stmt->bad) return;
  if (w.found.count && stmt->combine == IR_RED_COUNT)
    report_unbound(&w);
  else if (w.found.count && !report_hidden(&w))
    make_explicit(&w);
}
