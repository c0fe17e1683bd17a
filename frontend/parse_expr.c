/* parse_expr.c - value expressions, accesses, subscripts and sizes.
 *
 * Subscripts and sizes share one grammar; a size that holds a gather is refused here.  Every
 * function returns NULL once the parser is in panic.  The height of a tree is limited, so that no
 * later recursion can overflow the stack. */
#include <math.h>

#include "frontend/parse.h"

fe_expr *fe_expr_new(ir_arena *arena, fe_expr_kind kind, ir_span at) {
  fe_expr *e = IR_NEW(arena, fe_expr);
  e->kind = kind;
  e->at = e->span = at;
  e->op = IR_OP_COUNT;
  e->reducer = IR_RED_COUNT;
  e->height = 1;
  return e;
}

ir_span fe_span_join(ir_span a, ir_span b) {
  return (ir_span){a.file, a.begin < b.begin ? a.begin : b.begin, a.end > b.end ? a.end : b.end};
}

bool fe_is_zero(const fe_expr *e) { return e->kind == FE_NUMBER && e->number == 0; }

static fe_expr *too_deep(fe_parser *p, ir_span span) {
  fe_fault(p, IR_DIAG_NESTING, span,
           "this expression nests deeper than %d levels; give parts of it a name with `let`",
           FE_MOST_HEIGHT);
  return NULL;
}

static fe_expr *adopt(fe_parser *p, fe_expr *e, fe_expr *child) {
  if (!child) return NULL;
  IR_PUSH(p->arena, &e->args, child);
  if (child->height >= e->height) e->height = child->height + 1;
  if (e->height > FE_MOST_HEIGHT) return too_deep(p, e->at);
  return e;
}

static fe_expr *binary(fe_parser *p, ir_op op, ir_span at, fe_expr *left, fe_expr *right) {
  if (!left || !right) return NULL;
  fe_expr *e = fe_expr_new(p->arena, FE_BINARY, at);
  e->op = op;
  if (!adopt(p, e, left) || !adopt(p, e, right)) return NULL;
  e->span = fe_span_join(left->span, right->span);
  return e;
}

static fe_expr *number_here(fe_parser *p) {
  const fe_token *t = fe_peek(p);
  fe_expr *e = fe_expr_new(p->arena, FE_NUMBER, fe_token_span(p, t));
  e->is_integer = t->kind == FE_T_INT;
  if (e->is_integer) {
    if (!fe_need_int(p, "a number", &e->integer, NULL)) return NULL;
    e->number = (double)e->integer;
  } else if (!fe_need_number(p, "a number", &e->number)) {
    return NULL;
  } else if (isinf(e->number)) {
    fe_fault(p, IR_DIAG_NUMBER, e->span, "this number is too large; infinity is written `inf`");
    return NULL;
  }
  return e;
}

static fe_expr *infinity_or_nan(fe_parser *p) {
  fe_expr *e = fe_expr_new(p->arena, FE_NUMBER, fe_token_span(p, fe_peek(p)));
  e->number = fe_at_word(p, FE_W_INF) ? (double)INFINITY : (double)NAN;
  fe_skip(p);
  return e;
}

fe_expr *fe_parse_const(fe_parser *p) {
  ir_span begin = fe_token_span(p, fe_peek(p));
  bool negative = fe_take(p, FE_T_MINUS);
  fe_expr *e = NULL;
  if (fe_at(p, FE_T_INT) || fe_at(p, FE_T_NUMBER))
    e = number_here(p);
  else if (fe_at_word(p, FE_W_INF) || fe_at_word(p, FE_W_NAN))
    e = infinity_or_nan(p);
  else
    fe_expected(p, "a constant");
  if (!e) return NULL;
  if (negative) {
    e->number = -e->number;
    e->integer = -e->integer;
  }
  e->span = fe_span_since(p, begin);
  return e;
}

/* ---- subscripts and sizes ------------------------------------------------------------------ */
static fe_expr *parse_sub(fe_parser *p, int gathers);

static fe_expr *parse_atom(fe_parser *p, int gathers) {
  if (fe_at(p, FE_T_INT)) return number_here(p);
  fe_name name;
  if (!fe_need_name(p, gathers ? "an index, a size or an integer" : "a dim or an integer", &name))
    return NULL;
  fe_expr *e = fe_expr_new(p->arena, FE_ACCESS, name.span);
  e->name = name.text;
  if (!fe_at(p, FE_T_LBRACKET)) return e;
  if (!gathers) {
    fe_fault(p, IR_DIAG_SYNTAX, fe_token_span(p, fe_peek(p)),
             "a size is made of dims and integers only");
    return NULL;
  }
  if (gathers > 1) {
    ir_diag *d = fe_fault(p, IR_DIAG_GATHER_DEPTH, name.span,
                          "`%s[...]` is a gather inside a gather; one level is allowed", name.text);
    ir_diag_note(p->sink, d, IR_NOWHERE,
                 "give the inner one a name first: `let p[i] = %s[...] : i32[N];`, then use `p[i]`",
                 name.text);
    return NULL;
  }
  fe_skip(p);
  e->subscripted = true;
  do {
    if (!adopt(p, e, parse_sub(p, gathers + 1))) return NULL;
  } while (fe_take(p, FE_T_COMMA));
  if (!fe_need(p, FE_T_RBRACKET, "`,` or `]`")) return NULL;
  e->span = fe_span_since(p, name.span);
  return e;
}

static ir_op factor_op(const fe_parser *p) {
  return fe_at(p, FE_T_STAR)      ? IR_OP_MUL
         : fe_at(p, FE_T_SLASH)   ? IR_OP_DIV
         : fe_at(p, FE_T_PERCENT) ? IR_OP_MOD
                                  : IR_OP_COUNT;
}

static ir_op term_op(const fe_parser *p) {
  return fe_at(p, FE_T_PLUS) ? IR_OP_ADD : fe_at(p, FE_T_MINUS) ? IR_OP_SUB : IR_OP_COUNT;
}

static ir_span take_op(fe_parser *p) {
  ir_span at = fe_token_span(p, fe_peek(p));
  fe_skip(p);
  return at;
}

static fe_expr *parse_sterm(fe_parser *p, int gathers) {
  fe_expr *left = parse_atom(p, gathers);
  for (ir_op op; left && (op = factor_op(p)) != IR_OP_COUNT;) {
    ir_span at = take_op(p);
    left = binary(p, op, at, left, parse_atom(p, gathers));
  }
  return left;
}

/* gathers: 0 a size, 1 a subscript, 2 the subscript of a gather */
static fe_expr *parse_sub(fe_parser *p, int gathers) {
  if (fe_at(p, FE_T_MINUS) || fe_at(p, FE_T_LPAREN)) {
    fe_expected(p, gathers ? "a subscript: sums of index*2, index/2, index%2, dims and integers, "
                             "without parentheses or a leading minus"
                           : "a size: sums of dims and integers times integers");
    return NULL;
  }
  fe_expr *left = parse_sterm(p, gathers);
  for (ir_op op; left && (op = term_op(p)) != IR_OP_COUNT;) {
    ir_span at = take_op(p);
    left = binary(p, op, at, left, parse_sterm(p, gathers));
  }
  return left;
}

fe_expr *fe_parse_size(fe_parser *p) { return p->panic ? NULL : parse_sub(p, 0); }

static fe_expr *parse_brackets(fe_parser *p, fe_expr *e) {
  e->subscripted = true;
  if (fe_take(p, FE_T_RBRACKET)) return e;
  do {
    if (!adopt(p, e, parse_sub(p, 1))) return NULL;
  } while (fe_take(p, FE_T_COMMA));
  return fe_need(p, FE_T_RBRACKET, "`,` or `]`") ? e : NULL;
}

fe_expr *fe_parse_access(fe_parser *p) {
  fe_name name;
  if (!fe_need_name(p, "a name", &name)) return NULL;
  fe_expr *e = fe_expr_new(p->arena, FE_ACCESS, name.span);
  e->name = name.text;
  if (fe_take(p, FE_T_LBRACKET) && !parse_brackets(p, e)) return NULL;
  e->span = fe_span_since(p, name.span);
  return e;
}

/* ---- primaries ----------------------------------------------------------------------------- */
static fe_expr *parse_term(fe_parser *p);

static bool parse_bound(fe_parser *p, fe_expr *e, bool several) {
  if (!fe_need(p, FE_T_LBRACKET, "`[` and the index")) return false;
  do {
    fe_name name;
    if (!fe_need_name(p, "an index", &name)) return false;
    IR_PUSH(p->arena, &e->bound, name);
  } while (several && fe_take(p, FE_T_COMMA));
  return fe_need(p, FE_T_RBRACKET, "`]`");
}

static fe_expr *parse_reducer(fe_parser *p, ir_reducer reducer) {
  fe_expr *e = fe_expr_new(p->arena, FE_REDUCE, fe_token_span(p, fe_peek(p)));
  e->reducer = reducer;
  fe_skip(p);
  if (!parse_bound(p, e, true) || !adopt(p, e, parse_term(p))) return NULL;
  e->span = fe_span_since(p, e->at);
  return e;
}

static fe_expr *parse_arguments(fe_parser *p, fe_expr *e) {
  if (!fe_need(p, FE_T_LPAREN, "`(`")) return NULL;
  do {
    if (!adopt(p, e, fe_parse_expr(p))) return NULL;
  } while (e->kind == FE_CALL && fe_take(p, FE_T_COMMA));
  if (e->kind == FE_TOPK) {
    ir_span at;
    if (!fe_need(p, FE_T_COMMA, "`,` and how many to keep") ||
        !fe_need_int(p, "how many to keep", &e->integer, &at))
      return NULL;
  }
  if (!fe_need(p, FE_T_RPAREN, e->kind == FE_CALL ? "`,` or `)`" : "`)`")) return NULL;
  e->span = fe_span_since(p, e->at);
  return e;
}

static fe_expr *parse_call(fe_parser *p, ir_op op) {
  fe_expr *e = fe_expr_new(p->arena, FE_CALL, fe_token_span(p, fe_peek(p)));
  e->op = op;
  fe_skip(p);
  return parse_arguments(p, e);
}

static fe_expr *parse_row_op(fe_parser *p, fe_expr_kind kind) {
  fe_expr *e = fe_expr_new(p->arena, kind, fe_token_span(p, fe_peek(p)));
  fe_skip(p);
  return parse_bound(p, e, false) ? parse_arguments(p, e) : NULL;
}

static fe_expr *parse_cast(fe_parser *p) {
  fe_expr *e = fe_expr_new(p->arena, FE_CAST, fe_token_span(p, fe_peek(p)));
  ir_span at;
  fe_skip(p);
  if (!fe_need(p, FE_T_LBRACKET, "`[` and a dtype") || !fe_need_dtype(p, &e->dtype, &at) ||
      !fe_need(p, FE_T_RBRACKET, "`]`"))
    return NULL;
  return parse_arguments(p, e);
}

static fe_expr *parse_parens(fe_parser *p) {
  ir_span begin = fe_token_span(p, fe_peek(p));
  fe_skip(p);
  fe_expr *e = fe_parse_expr(p);
  if (!e || !fe_need(p, FE_T_RPAREN, "`)`")) return NULL;
  e->parens = true;
  e->span = fe_span_since(p, begin);
  return e;
}

static fe_expr *parse_word(fe_parser *p) {
  const fe_token *t = fe_peek(p);
  const char *text = fe_token_text(p, t);
  bool bracket = fe_peek_next(p)->kind == FE_T_LBRACKET;
  switch (t->word) {
  case FE_W_INF:
  case FE_W_NAN: return infinity_or_nan(p);
  case FE_W_SOFTMAX: return parse_row_op(p, FE_SOFTMAX);
  case FE_W_TOPK: return parse_row_op(p, FE_TOPK);
  case FE_W_CAST: return parse_cast(p);
  default: break;
  }
  ir_reducer reducer = ir_reducer_find(text);
  ir_op op = fe_function_find(text);
  if (reducer != IR_RED_COUNT && (bracket || op == IR_OP_COUNT)) return parse_reducer(p, reducer);
  if (op != IR_OP_COUNT) return parse_call(p, op);
  fe_expected(p, "a value");
  return NULL;
}

static const char *nearest_function(fe_parser *p, const char *name, bool bracketed) {
  static const char *const row_words[] = {"softmax", "topk", "cast"};
  IR_VEC(const char *) known = {0};
  for (int i = 0; !bracketed && fe_function_name(i); i++)
    IR_PUSH(p->arena, &known, fe_function_name(i));
  for (int i = 0; bracketed && i < IR_COUNT(row_words); i++)
    IR_PUSH(p->arena, &known, row_words[i]);
  for (int i = 0; bracketed && i < IR_RED_COUNT; i++)
    IR_PUSH(p->arena, &known, ir_reducer_rows[i].text);
  return ir_nearest(name, known.at, known.count);
}

/* An access; a name with arguments is a function that is not there. */
static fe_expr *parse_named(fe_parser *p) {
  fe_expr *e = fe_parse_access(p);
  if (!e || !fe_at(p, FE_T_LPAREN)) return e;
  const char *nearest = nearest_function(p, e->name, e->subscripted);
  ir_diag *d = fe_fault(p, IR_DIAG_UNKNOWN_NAME, e->at, "there is no function `%s`", e->name);
  if (d && nearest) ir_diag_fix(p->sink, d, e->at, nearest, "did you mean `%s`?", nearest);
  return NULL;
}

static fe_expr *parse_primary(fe_parser *p) {
  switch (fe_peek(p)->kind) {
  case FE_T_INT:
  case FE_T_NUMBER: return number_here(p);
  case FE_T_NAME: return parse_named(p);
  case FE_T_LPAREN: return parse_parens(p);
  case FE_T_WORD: return parse_word(p);
  default: fe_expected(p, "a value"); return NULL;
  }
}

/* ---- operators ----------------------------------------------------------------------------- */
static fe_expr *unary(fe_parser *p, ir_op op, ir_span at, fe_expr *operand) {
  fe_expr *e = fe_expr_new(p->arena, FE_UNARY, at);
  e->op = op;
  if (!adopt(p, e, operand)) return NULL;
  e->span = fe_span_join(at, operand->span);
  return e;
}

static fe_expr *parse_unary(fe_parser *p) {
  if (p->panic) return NULL;
  if (!fe_at(p, FE_T_MINUS)) return parse_primary(p);
  ir_span at = take_op(p);
  return unary(p, IR_OP_NEG, at, parse_primary(p));
}

static fe_expr *parse_term(fe_parser *p) {
  fe_expr *left = parse_unary(p);
  for (ir_op op; left && (op = factor_op(p)) != IR_OP_COUNT;) {
    ir_span at = take_op(p);
    left = binary(p, op, at, left, parse_unary(p));
  }
  return left;
}

static fe_expr *parse_sum(fe_parser *p) {
  fe_expr *left = parse_term(p);
  for (ir_op op; left && (op = term_op(p)) != IR_OP_COUNT;) {
    ir_span at = take_op(p);
    left = binary(p, op, at, left, parse_term(p));
  }
  return left;
}

static ir_op compare_op(const fe_parser *p) {
  static const struct {
    fe_token_kind kind;
    ir_op op;
  } ops[] = {{FE_T_LT, IR_OP_LT}, {FE_T_LE, IR_OP_LE}, {FE_T_GT, IR_OP_GT},
             {FE_T_GE, IR_OP_GE}, {FE_T_EQ, IR_OP_EQ}, {FE_T_NE, IR_OP_NE}};
  for (int i = 0; i < IR_COUNT(ops); i++)
    if (fe_at(p, ops[i].kind)) return ops[i].op;
  return IR_OP_COUNT;
}

static fe_expr *parse_compare(fe_parser *p) {
  fe_expr *left = parse_sum(p);
  ir_op op = left ? compare_op(p) : IR_OP_COUNT;
  if (op == IR_OP_COUNT) return left;
  ir_span at = take_op(p);
  fe_expr *e = binary(p, op, at, left, parse_sum(p));
  if (e && compare_op(p) != IR_OP_COUNT) {
    fe_fault(p, IR_DIAG_SYNTAX, fe_token_span(p, fe_peek(p)),
             "comparisons do not chain; write `a < b and b < c`");
    return NULL;
  }
  return e;
}

static fe_expr *parse_not(fe_parser *p) {
  if (!fe_at_word(p, FE_W_NOT)) return parse_compare(p);
  ir_span at = take_op(p);
  return unary(p, IR_OP_NOT, at, parse_compare(p));
}

static fe_expr *parse_and(fe_parser *p) {
  fe_expr *left = parse_not(p);
  while (left && fe_at_word(p, FE_W_AND)) {
    ir_span at = take_op(p);
    left = binary(p, IR_OP_AND, at, left, parse_not(p));
  }
  return left;
}

static fe_expr *parse_or(fe_parser *p) {
  fe_expr *left = parse_and(p);
  while (left && fe_at_word(p, FE_W_OR)) {
    ir_span at = take_op(p);
    left = binary(p, IR_OP_OR, at, left, parse_and(p));
  }
  return left;
}

fe_expr *fe_parse_expr(fe_parser *p) {
  if (p->panic) return NULL;
  if (p->depth >= FE_MOST_HEIGHT) return too_deep(p, fe_token_span(p, fe_peek(p)));
  p->depth++;
  fe_expr *e = parse_or(p);
  p->depth--;
  return e;
}
