/* check_names.c - binds every name of a statement and declares the indices that it uses.
 *
 * In a subscript an unknown name is an index; elsewhere it is a fault.  All subscripts of the
 * statement are looked at first, so that `j <= i` may stand before the first `x[j]`. */
#include "frontend/check.h"

bool fe_is_bare_index(const fe_expr *sub) { return sub->kind == FE_ACCESS && !sub->subscripted; }

/* ---- declaring indices --------------------------------------------------------------------- */
static void declare_index(fe_check *c, const char *name, ir_span span) {
  if (fe_symbol_find(c, name) || fe_is_lost(c, name)) return;
  fe_symbol *s = fe_symbol_new(c, FE_SYM_INDEX, name, span);
  s->index = ir_index_new(c->kernel, name, NULL);
  s->index->span = span;
}

static void declare_in_sub(fe_check *c, const fe_expr *sub) {
  if (fe_is_bare_index(sub)) declare_index(c, sub->name, sub->at);
  for (int i = 0; i < sub->args.count; i++) declare_in_sub(c, sub->args.at[i]);
}

static void declare_in_expr(fe_check *c, const fe_expr *e) {
  for (int i = 0; i < e->bound.count; i++)
    declare_index(c, e->bound.at[i].text, e->bound.at[i].span);
  for (int i = 0; i < e->args.count; i++) {
    if (e->kind == FE_ACCESS)
      declare_in_sub(c, e->args.at[i]);
    else
      declare_in_expr(c, e->args.at[i]);
  }
}

/* ---- binding names ------------------------------------------------------------------------- */
static void fail(fe_stmt *stmt) { stmt->bad = true; }

static void unknown(fe_check *c, fe_stmt *stmt, const fe_expr *e) {
  fail(stmt);
  if (fe_is_lost(c, e->name)) return;
  IR_PUSH(c->arena, &c->missed, e->name);
  if (!strcmp(e->name, stmt->target->name)) {
    fe_error(c, IR_DIAG_USE_BEFORE, e->at, "`%s` is used in its own definition", e->name);
    return;
  }
  for (int i = 0; i < c->syntax->members.count; i++) {
    const fe_member *m = &c->syntax->members.at[i];
    const fe_name later = m->kind == FE_STMT ? (fe_name){m->stmt->target->name, m->stmt->target->at}
                          : m->kind == FE_IN ? m->in->name
                                             : (fe_name){"", IR_NOWHERE};
    if (strcmp(later.text, e->name) != 0) continue;
    ir_diag *d =
        fe_error(c, IR_DIAG_USE_BEFORE, e->at, "`%s` is used before it is defined", e->name);
    ir_diag_note(c->sink, d, later.span, "it is defined here; move it up");
    return;
  }
  ir_diag *d = fe_error(c, IR_DIAG_UNKNOWN_NAME, e->at, "there is no `%s` in this kernel", e->name);
  fe_suggest(c, d, e->at, e->name,
             1u << FE_SYM_TENSOR | 1u << FE_SYM_DIM | (e->subscripted ? 0 : 1u << FE_SYM_INDEX));
}

static bool check_rank(fe_check *c, fe_stmt *stmt, const fe_expr *e, fe_symbol *s) {
  int rank = s->tensor->rank;
  if (rank == e->args.count) return true;
  fail(stmt);
  if (s->bad || s->misused) return false;
  s->misused = true;
  ir_diag *d =
      fe_error(c, IR_DIAG_RANK, e->span, "`%s` has %d dimension%s, but %d subscript%s stand%s here",
               e->name, rank, rank == 1 ? "" : "s", e->args.count, e->args.count == 1 ? "" : "s",
               e->args.count == 1 ? "s" : "");
  ir_diag_note(c->sink, d, s->span, "it is declared here");
  return false;
}

static fe_symbol *bind(fe_check *c, fe_stmt *stmt, fe_expr *e) {
  fe_symbol *s = fe_symbol_find(c, e->name);
  if (!s) {
    unknown(c, stmt, e);
    return NULL;
  }
  e->symbol = s;
  s->uses++;
  if (s->bad) fail(stmt);
  if (s->kind == FE_SYM_TENSOR) return check_rank(c, stmt, e, s) ? s : NULL;
  if (!e->subscripted) return s;
  fe_error(c, IR_DIAG_RANK, e->span, "`%s` is %s, not a tensor", e->name,
           s->kind == FE_SYM_DIM ? "a dim" : "an index");
  fail(stmt);
  return NULL;
}

/* ---- subscripts ---------------------------------------------------------------------------- */
static bool is_fixed(const fe_expr *sub) { /* no index and no tensor in it */
  if (sub->kind == FE_ACCESS) return sub->symbol && sub->symbol->kind == FE_SYM_DIM;
  for (int i = 0; i < sub->args.count; i++)
    if (!is_fixed(sub->args.at[i])) return false;
  return true;
}

static void bind_sub(fe_check *c, fe_stmt *stmt, fe_expr *sub, bool in_gather) {
  for (int i = 0; i < sub->args.count; i++)
    bind_sub(c, stmt, sub->args.at[i], in_gather || sub->kind == FE_ACCESS);
  if (sub->kind == FE_ACCESS) {
    const fe_symbol *s = bind(c, stmt, sub);
    if (!s || s->kind != FE_SYM_TENSOR || !in_gather) return;
    fe_error(c, IR_DIAG_GATHER_DEPTH, sub->at,
             "`%s` is read inside another gather; one level is allowed", sub->name);
    fail(stmt);
  }
  if (sub->kind != FE_BINARY || stmt->bad || sub->op == IR_OP_ADD || sub->op == IR_OP_SUB) return;
  bool fits = is_fixed(sub->args.at[1]) || (sub->op == IR_OP_MUL && is_fixed(sub->args.at[0]));
  if (fits) return;
  fe_error(c, IR_DIAG_SUBSCRIPT_FORM, sub->at,
           "in a subscript an index is multiplied or divided by integers and dims only");
  fail(stmt);
}

/* ---- expressions --------------------------------------------------------------------------- */
static bool bind_along(fe_check *c, fe_stmt *stmt, fe_expr *e) {
  int before = c->errors;
  for (int i = 0; i < e->bound.count; i++) {
    const fe_name *name = &e->bound.at[i];
    fe_symbol *s = fe_symbol_find(c, name->text);
    if (s && s->bad) fail(stmt);
    if (s && s->kind == FE_SYM_INDEX) {
      s->uses++;
      IR_PUSH(c->arena, &e->over, s);
      continue;
    }
    fail(stmt);
    if (!s) continue;
    ir_diag *d =
        fe_error(c, IR_DIAG_SHADOWING, name->span, "`%s` is a %s; an index needs a name of its own",
                 name->text, s->kind == FE_SYM_DIM ? "dim" : "tensor");
    ir_diag_note(c->sink, d, s->span, "it is declared here");
  }
  return c->errors == before;
}

static void bind_expr(fe_check *c, fe_stmt *stmt, fe_expr *e) {
  if (!bind_along(c, stmt, e)) return;
  for (int i = 0; i < e->args.count; i++) {
    if (e->kind == FE_ACCESS)
      bind_sub(c, stmt, e->args.at[i], false);
    else
      bind_expr(c, stmt, e->args.at[i]);
  }
  if (e->kind == FE_ACCESS) bind(c, stmt, e);
}

/* ---- the left side ------------------------------------------------------------------------- */
static void add_free(fe_check *c, fe_stmt *stmt, fe_symbol *s) {
  for (int i = 0; i < stmt->free.count; i++)
    if (stmt->free.at[i] == s) return;
  IR_PUSH(c->arena, &stmt->free, s);
}

static void collect_free(fe_check *c, fe_stmt *stmt, const fe_expr *sub) {
  if (sub->kind == FE_ACCESS && sub->symbol && sub->symbol->kind == FE_SYM_INDEX)
    add_free(c, stmt, sub->symbol);
  for (int i = 0; i < sub->args.count; i++) collect_free(c, stmt, sub->args.at[i]);
}

static void bind_target_sub(fe_check *c, fe_stmt *stmt, fe_expr *sub) {
  bind_sub(c, stmt, sub, false);
  if (stmt->bad || !fe_is_bare_index(sub) || sub->symbol->kind == FE_SYM_INDEX) return;
  if (sub->symbol->kind == FE_SYM_TENSOR) return; /* a scalar that is read: a scatter */
  ir_diag *d = fe_error(c, IR_DIAG_SHADOWING, sub->at,
                        "`%s` is a dim; an index needs a name of its own", sub->name);
  ir_diag_note(c->sink, d, sub->symbol->span, "it is declared here");
  fail(stmt);
}

static bool is_scatter(const fe_stmt *stmt) {
  const fe_expr *t = stmt->target;
  for (int i = 0; i < t->args.count; i++) {
    const fe_expr *sub = t->args.at[i];
    if (!fe_is_bare_index(sub) || !sub->symbol || sub->symbol->kind != FE_SYM_INDEX) return true;
    for (int k = 0; k < i; k++)
      if (t->args.at[k]->symbol == sub->symbol) return true;
  }
  return false;
}

/* Each subscript uses at most one index, and no index twice: no two iterations write one element.
 */
static bool is_injective(fe_stmt *stmt) {
  int seen = 0;
  for (int i = 0; i < stmt->target->args.count; i++) {
    const fe_expr *sub = stmt->target->args.at[i];
    const fe_expr *atom = sub;
    while (atom->kind == FE_BINARY) {
      int fixed = is_fixed(atom->args.at[1]) ? 1 : 0;
      if (atom->op == IR_OP_DIV || atom->op == IR_OP_MOD || !is_fixed(atom->args.at[fixed]))
        return false;
      if (atom->op == IR_OP_MUL && fe_is_zero(atom->args.at[fixed])) return false;
      atom = atom->args.at[1 - fixed];
    }
    if (atom->kind == FE_ACCESS && atom->symbol->kind == FE_SYM_TENSOR) return false;
    seen += atom->kind == FE_ACCESS && atom->symbol->kind == FE_SYM_INDEX;
  }
  return seen >= stmt->free.count;
}

static void check_scatter(fe_check *c, fe_stmt *stmt) {
  stmt->scatter = is_scatter(stmt);
  if (!stmt->scatter) {
    if (stmt->race != IR_RACE_NONE && stmt->combine == IR_RED_COUNT)
      fe_error(c, IR_DIAG_RACE, stmt->race_span,
               "nothing can race here: every element is written once");
    return;
  }
  if (!stmt->has_shape) {
    uint32_t at = stmt->dtype ? stmt->dtype_span.end : stmt->value_end;
    ir_span end = {stmt->target->span.file, at, at};
    ir_diag *d =
        fe_error(c, IR_DIAG_SCATTER_SHAPE, stmt->target->span,
                 "a scatter states its shape, which does not follow from `%s`", stmt->target->name);
    ir_text code = ir_text_new(c->arena);
    ir_text_put(&code, stmt->dtype ? "[" : " : f32[");
    for (int i = 0; i < stmt->target->args.count; i++) ir_text_put(&code, i ? ",N" : "N");
    ir_text_put(&code, "]");
    ir_diag_fix(c->sink, d, end, code.data, "state it, with the right sizes");
    fail(stmt);
  } else if (stmt->combine == IR_RED_COUNT && !is_injective(stmt)) {
    ir_diag *d = fe_error(c, IR_DIAG_SCATTER_ASSIGN, stmt->assign,
                          "`=` may write an element of `%s` twice; say how values combine",
                          stmt->target->name);
    ir_diag_fix(c->sink, d, stmt->assign, "+=", "add them");
    fail(stmt);
  }
}

void fe_names_check(fe_check *c, fe_stmt *stmt) {
  for (int i = 0; i < stmt->target->args.count; i++) declare_in_sub(c, stmt->target->args.at[i]);
  declare_in_expr(c, stmt->value);
  if (stmt->cond) declare_in_expr(c, stmt->cond);
  for (int i = 0; i < stmt->target->args.count; i++)
    bind_target_sub(c, stmt, stmt->target->args.at[i]);
  bind_expr(c, stmt, stmt->value);
  if (stmt->cond) bind_expr(c, stmt, stmt->cond);
  if (stmt->bad) return;
  for (int i = 0; i < stmt->target->args.count; i++)
    collect_free(c, stmt, stmt->target->args.at[i]);
  check_scatter(c, stmt);
}
