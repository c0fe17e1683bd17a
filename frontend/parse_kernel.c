/* parse_kernel.c - kernels: declarations and statements.
 *
 * A member that does not parse leaves the name that it would have declared in kernel->lost, so that
 * its later uses are not reported as well. */
#include "frontend/parse.h"

/* ---- in, ragged, grad ---------------------------------------------------------------------- */
static bool parse_type(fe_parser *p, fe_in *in) {
  ir_span at;
  in->is_pattern = fe_take_word(p, FE_W_PATTERN);
  if (!in->is_pattern && !fe_need_dtype(p, &in->dtype, &at)) return false;
  if (!fe_parse_shape(p, &in->shape)) return false;
  if (fe_take_word(p, FE_W_AS)) {
    if (!(in->format = fe_parse_fmt(p))) return false;
  } else if (in->is_pattern) {
    fe_expected(p, "`as` and a storage format: a pattern is nothing but its stored positions");
    return false;
  }
  if (!in->is_pattern && fe_take(p, FE_T_TILDE) && !(in->pattern = fe_parse_pat(p))) return false;
  if (!in->is_pattern && fe_take_word(p, FE_W_FILL) && !(in->fill = fe_parse_const(p)))
    return false;
  return !p->panic;
}

static fe_in *parse_in(fe_parser *p, fe_name *name) {
  fe_in *in = IR_NEW(p->arena, fe_in);
  if (!fe_need_name(p, "the name of an input", name)) return NULL;
  in->name = *name;
  if (!fe_need(p, FE_T_COLON, "`:` and a type") || !parse_type(p, in)) return NULL;
  in->constant = fe_take_word(p, FE_W_CONST);
  return fe_need_semi(p, "an input") ? in : NULL;
}

static fe_ragged *parse_ragged(fe_parser *p, fe_name *name) {
  fe_ragged *ragged = IR_NEW(p->arena, fe_ragged);
  if (!fe_need_name(p, "the name of an index", name)) return NULL;
  ragged->name = *name;
  if (!fe_need_word(p, FE_W_IN) || !(ragged->from = fe_parse_access(p)) ||
      !fe_need(p, FE_T_DOTS, "`..`"))
    return NULL;
  if (!(ragged->to = fe_parse_access(p))) return NULL;
  return fe_need_semi(p, "a ragged index") ? ragged : NULL;
}

static fe_grad *parse_grad(fe_parser *p, ir_span begin) {
  fe_grad *grad = IR_NEW(p->arena, fe_grad);
  if (!fe_need_name(p, "the name of an output", &grad->of) || !fe_need_word(p, FE_W_WRT))
    return NULL;
  do {
    fe_name name;
    if (!fe_need_name(p, "the name of an input", &name)) return NULL;
    IR_PUSH(p->arena, &grad->wrt, name);
  } while (fe_take(p, FE_T_COMMA));
  grad->span = fe_span_since(p, begin);
  return fe_need_semi(p, "`grad`") ? grad : NULL;
}

/* ---- let, out ------------------------------------------------------------------------------ */
static bool parse_assign(fe_parser *p, fe_stmt *s) {
  s->assign = fe_token_span(p, fe_peek(p));
  s->combine = IR_RED_COUNT;
  if (fe_take(p, FE_T_ASSIGN)) return true;
  if (fe_take(p, FE_T_ADD_TO)) {
    s->combine = IR_RED_SUM;
    return true;
  }
  const fe_token *t = fe_peek(p);
  ir_reducer r = t->kind == FE_T_WORD ? ir_reducer_find(fe_token_text(p, t)) : IR_RED_COUNT;
  if (!p->panic && (r == IR_RED_MAX || r == IR_RED_MIN) && fe_peek_next(p)->kind == FE_T_ASSIGN) {
    s->combine = r;
    fe_skip(p);
    fe_skip(p);
    s->assign = fe_span_since(p, s->assign);
    return true;
  }
  fe_expected(p, "`=`, `+=`, `max=` or `min=`");
  return false;
}

static bool parse_condition(fe_parser *p, fe_stmt *s) {
  if (!fe_take_word(p, FE_W_ON)) return true;
  if (!(s->cond = fe_parse_expr(p))) return false;
  return !fe_take_word(p, FE_W_FILL) || (s->fill = fe_parse_const(p)) != NULL;
}

static bool parse_result_type(fe_parser *p, fe_stmt *s) {
  s->value_end = p->tokens[p->at - 1].end;
  if (!fe_take(p, FE_T_COLON)) return true;
  if (!fe_need_dtype(p, &s->dtype, &s->dtype_span)) return false;
  s->has_shape = fe_at(p, FE_T_LBRACKET);
  if (s->has_shape && !fe_parse_shape(p, &s->shape)) return false;
  return !fe_take_word(p, FE_W_ACC) || fe_need_dtype(p, &s->acc, &s->acc_span);
}

static bool parse_storage(fe_parser *p, fe_stmt *s) {
  s->as_span = fe_token_span(p, fe_peek(p));
  if (!fe_take_word(p, FE_W_AS)) return true;
  if (fe_take_word(p, FE_W_LIKE)) {
    if (!fe_need(p, FE_T_LPAREN, "`(`") || !fe_need_name(p, "the name of a tensor", &s->like) ||
        !fe_need(p, FE_T_RPAREN, "`)`"))
      return false;
  } else if (!(s->format = fe_parse_fmt(p))) {
    return false;
  }
  s->as_span = fe_span_since(p, s->as_span);
  return true;
}

static bool parse_race(fe_parser *p, fe_stmt *s) {
  s->race_span = fe_token_span(p, fe_peek(p));
  if (fe_take_word(p, FE_W_ATOMIC)) {
    s->race = IR_RACE_ATOMIC;
  } else if (fe_take_word(p, FE_W_ORDER)) {
    if (!fe_need(p, FE_T_LPAREN, "`(`") || !fe_need_word(p, FE_W_FIXED) ||
        !fe_need(p, FE_T_RPAREN, "`)`"))
      return false;
    s->race = IR_RACE_FIXED;
  }
  s->race_span = fe_span_since(p, s->race_span);
  return true;
}

/* The clauses of a statement stand in one order; a clause that comes too late is named. */
static bool parse_end(fe_parser *p) {
  static const fe_word clauses[] = {FE_W_ON, FE_W_FILL, FE_W_ACC, FE_W_AS, FE_W_ORDER, FE_W_ATOMIC};
  bool clause = fe_at(p, FE_T_COLON) || fe_at(p, FE_T_TILDE);
  for (int i = 0; i < IR_COUNT(clauses); i++)
    clause = clause || (fe_at_word(p, clauses[i]) && !fe_first_on_line(p, fe_peek(p)));
  if (!clause) return fe_need_semi(p, "a statement");
  const fe_token *t = fe_peek(p);
  fe_fault(p, IR_DIAG_CLAUSE_ORDER, fe_token_span(p, t),
           "`%s` cannot stand here; the clauses of a statement come in this order: on, fill, `: "
           "dtype[shape]`, acc, as, ~, order or atomic",
           fe_token_text(p, t));
  return false;
}

static fe_stmt *parse_stmt(fe_parser *p, bool is_out, ir_span begin, fe_name *name) {
  fe_stmt *s = IR_NEW(p->arena, fe_stmt);
  s->is_out = is_out;
  if (fe_at(p, FE_T_NAME))
    *name = (fe_name){fe_token_text(p, fe_peek(p)), fe_token_span(p, fe_peek(p))};
  if (!(s->target = fe_parse_access(p)) || !parse_assign(p, s) || !(s->value = fe_parse_expr(p)))
    return NULL;
  if (!parse_condition(p, s) || !parse_result_type(p, s) || !parse_storage(p, s)) return NULL;
  if (fe_take(p, FE_T_TILDE) && !(s->pattern = fe_parse_pat(p))) return NULL;
  if (!parse_race(p, s) || !parse_end(p)) return NULL;
  s->span = fe_span_since(p, begin);
  if (s->target->args.count <= IR_MAX_RANK) return s;
  fe_fault(p, IR_DIAG_RANK, s->target->span, "%d dimensions; a tensor has at most %d",
           s->target->args.count, IR_MAX_RANK);
  return NULL;
}

/* ---- the kernel ---------------------------------------------------------------------------- */
static bool parse_member(fe_parser *p, fe_member *m, fe_name *name) {
  ir_span begin = fe_token_span(p, fe_peek(p));
  if (fe_take_word(p, FE_W_IN)) {
    m->kind = FE_IN;
    return (m->in = parse_in(p, name)) != NULL;
  }
  if (fe_take_word(p, FE_W_RAGGED)) {
    m->kind = FE_RAGGED;
    return (m->ragged = parse_ragged(p, name)) != NULL;
  }
  if (fe_take_word(p, FE_W_GRAD)) {
    m->kind = FE_GRAD;
    *name = (fe_name){"", begin}; /* declares nothing */
    return (m->grad = parse_grad(p, begin)) != NULL;
  }
  bool is_out = fe_at_word(p, FE_W_OUT);
  if (fe_take_word(p, FE_W_LET) || fe_take_word(p, FE_W_OUT)) {
    m->kind = FE_STMT;
    return (m->stmt = parse_stmt(p, is_out, begin, name)) != NULL;
  }
  fe_expected(p, "`in`, `ragged`, `let`, `out` or `}`");
  return false;
}

static void parse_members(fe_parser *p, fe_kernel *k) {
  while (!fe_at(p, FE_T_RBRACE) && !fe_at(p, FE_T_END)) {
    if (fe_at_item(p) && fe_first_on_line(p, fe_peek(p))) break;
    fe_member member = {0};
    fe_name name = {NULL, IR_NOWHERE};
    int begin = p->at;
    ir_span text = fe_token_span(p, fe_peek(p));
    if (parse_member(p, &member, &name)) {
      IR_PUSH(p->arena, &k->members, member);
      continue;
    }
    if (name.text)
      IR_PUSH(p->arena, &k->lost, name.text);
    else
      k->broken = true;
    fe_recover(p, true, begin);
    text = fe_span_since(p, text);
    IR_PUSH(p->arena, &k->lost_text, text);
  }
}

static bool at_first_member(const fe_parser *p) {
  return fe_at_word(p, FE_W_IN) || fe_at_word(p, FE_W_LET) || fe_at_word(p, FE_W_OUT) ||
         fe_at_word(p, FE_W_RAGGED);
}

/* A missing `{` is reported, and the members are read as if it were there. */
static bool parse_brace(fe_parser *p) {
  if (fe_take(p, FE_T_LBRACE)) return true;
  fe_expected(p, "`{`");
  bool stray = fe_peek(p)->kind == FE_T_SEMI || fe_peek(p)->kind == FE_T_BAD;
  if (stray && fe_peek_next(p)->kind == FE_T_WORD) fe_skip(p);
  p->panic = false;
  if (at_first_member(p)) return true;
  p->panic = true;
  return false;
}

/* The word `kernel` has been taken. */
fe_kernel *fe_parse_kernel(fe_parser *p) {
  fe_kernel *k = IR_NEW(p->arena, fe_kernel);
  if (!fe_need_name(p, "the name of a kernel", &k->name)) return NULL;
  ir_span brace = fe_token_span(p, fe_peek(p));
  if (!parse_brace(p)) {
    k->broken = true;
    return k;
  }
  parse_members(p, k);
  if (!fe_take(p, FE_T_RBRACE)) {
    ir_diag *d = fe_fault(p, IR_DIAG_SYNTAX, fe_token_span(p, fe_peek(p)),
                          "expected `}` to close the kernel `%s`", k->name.text);
    ir_diag_note(p->sink, d, brace, "it was opened here");
    p->panic = false;
  }
  k->span = fe_span_since(p, k->name.span);
  return k;
}
