/* format.c - `spc fmt`: line breaks are the author's, white space is ours.
 *
 * The formatter walks the tokens, comments included, so that it cannot lose or change anything.
 * Kept: line breaks between and inside statements, one blank line at most.  Set: indentation by
 * two, four more for the continuation of a statement, one space around `=`, `+`, `-` and
 * comparisons of a statement, none around `*`, `/`, `%` nor inside subscripts, two spaces between
 * statements on a line.
 *
 *     let h [ t,f ]=relu( sum[d] x[t,d] * W[d,f])~zeros( dynamic ) ;  in a:f32[N];
 *     let h[t,f] = relu(sum[d] x[t,d]*W[d,f]) ~ zeros(dynamic);  in a: f32[N]; */
#include "frontend/ast.h"

typedef struct formatter {
  const fe_file *file;
  const char *source;
  ir_text *out;
  int at; /* token being written */
  int braces, parens, brackets;
  bool inside;       /* in the middle of a statement */
  fe_word opens;     /* first word of the item (kernel, schedule, ...) */
  fe_word begins;    /* first word of the statement; FE_W_NONE: a name */
  bool assigned;     /* the statement's `=` has been written */
  bool levels;       /* the `->` of a format has been written */
  bool tight_parens; /* numbers of a format or generator: `(2,4)` */
} formatter;

static const fe_token *token(const formatter *f, int i) { return &f->file->tokens.list.at[i]; }

static const fe_token *previous(const formatter *f) { return f->at ? token(f, f->at - 1) : NULL; }

static bool is_kind(const fe_token *t, const fe_token_kind *kinds, int count) {
  for (int i = 0; i < count; i++)
    if (t->kind == kinds[i]) return true;
  return false;
}

/* ---- line breaks --------------------------------------------------------------------------- */
static int breaks_between(const formatter *f, const fe_token *a, const fe_token *b) {
  int n = 0;
  for (uint32_t i = a ? a->end : 0; i < b->begin; i++) n += f->source[i] == '\n';
  return n;
}

/* The `}` of a block that was opened on its own line stands on its own line. */
static bool block_is_flat(const formatter *f, int open) {
  int depth = 0;
  for (int i = open; i < f->file->tokens.list.count; i++) {
    const fe_token *t = token(f, i);
    depth += (t->kind == FE_T_LBRACE) - (t->kind == FE_T_RBRACE);
    if (i > open && breaks_between(f, token(f, i - 1), t)) return false;
    if (depth == 0) return true;
  }
  return true;
}

static int open_of(const formatter *f, int close) {
  int depth = 0;
  for (int i = close; i >= 0; i--) {
    depth += (token(f, i)->kind == FE_T_RBRACE) - (token(f, i)->kind == FE_T_LBRACE);
    if (depth == 0) return i;
  }
  return close;
}

static int wanted_breaks(const formatter *f, const fe_token *a, const fe_token *b) {
  int n = breaks_between(f, a, b);
  if (a->kind == FE_T_COMMENT && n == 0) n = 1;
  if (b->kind == FE_T_COMMENT) return n > 2 ? 2 : a->kind == FE_T_LBRACE && n ? 1 : n;
  if (a->kind == FE_T_LBRACE) return block_is_flat(f, f->at - 1) ? 0 : 1;
  if (b->kind == FE_T_RBRACE) return block_is_flat(f, open_of(f, f->at)) ? 0 : 1;
  if (f->inside) return n ? 1 : 0;
  if (a->kind == FE_T_RBRACE && n == 0) n = 1;
  return n > 2 ? 2 : n;
}

static void new_line(formatter *f, int breaks, const fe_token *t) {
  for (int i = 0; i < breaks; i++) ir_text_put(f->out, "\n");
  int indent = 2 * (f->braces - (t->kind == FE_T_RBRACE && f->braces > 0));
  if (f->inside && t->kind != FE_T_RBRACE) indent += 4;
  for (int i = 0; i < indent; i++) ir_text_put(f->out, " ");
}

/* ---- spaces -------------------------------------------------------------------------------- */
static bool ends_operand(const fe_token *t) {
  static const fe_token_kind kinds[] = {FE_T_NAME, FE_T_INT,    FE_T_NUMBER,
                                        FE_T_RXC,  FE_T_RPAREN, FE_T_RBRACKET};
  return is_kind(t, kinds, IR_COUNT(kinds)) ||
         (t->kind == FE_T_WORD && (t->word == FE_W_INF || t->word == FE_W_NAN));
}

static bool is_sign(const formatter *f, int i) { /* the `-` of a negative number or term */
  return i > 0 && token(f, i)->kind == FE_T_MINUS && !ends_operand(token(f, i - 1));
}

static bool is_tight(const fe_token *t) {
  static const fe_token_kind kinds[] = {FE_T_STAR, FE_T_SLASH, FE_T_PERCENT, FE_T_DOTS};
  return is_kind(t, kinds, IR_COUNT(kinds));
}

static bool is_spaced(const fe_token *t) {
  static const fe_token_kind kinds[] = {FE_T_ARROW, FE_T_NEAR, FE_T_ADD_TO, FE_T_TILDE, FE_T_LT,
                                        FE_T_LE,    FE_T_GT,   FE_T_GE,     FE_T_EQ,    FE_T_NE};
  return is_kind(t, kinds, IR_COUNT(kinds));
}

static bool is_plus(const fe_token *t) { return t->kind == FE_T_PLUS || t->kind == FE_T_MINUS; }

static bool in_statement(const formatter *f) {
  return f->begins == FE_W_LET || f->begins == FE_W_OUT;
}

/* `axis=f`, `t=128`, `density=0.1`, `T=7`; `x = rand(0)` and the `=` of statements are spaced. */
static bool assign_is_tight(const formatter *f, int i) {
  if (f->parens) return true;
  if (f->opens == FE_W_SCHEDULE) return true;
  if (f->opens != FE_W_TEST) return false;
  const fe_token *next = token(f, i + 1), *name = i ? token(f, i - 1) : NULL;
  return next->kind == FE_T_INT || (name && name->word == FE_W_RTOL);
}

/* A product is tight unless its right side is a reducer or a group: `w[r] * sum[f] ...`. */
static bool star_is_spaced(const formatter *f, int i) {
  const fe_token *next = token(f, i + 1);
  if (token(f, i)->kind != FE_T_STAR || f->brackets) return false;
  return next->kind == FE_T_LPAREN ||
         (next->kind == FE_T_WORD && token(f, i + 2)->kind == FE_T_LBRACKET);
}

static bool space_around(const formatter *f, int i) {
  const fe_token *t = token(f, i);
  if (t->kind == FE_T_ASSIGN) return !assign_is_tight(f, i);
  if (t->kind == FE_T_PERCENT && f->opens == FE_W_DIM && !f->assigned) return true;
  if (is_plus(t)) return f->brackets == 0 && !is_sign(f, i);
  return is_spaced(t) || star_is_spaced(f, i);
}

/* `softmax[j](x)` and `cast[f32](x)` are calls, `sum[j] (x + y)` is not. */
static bool bracket_is_call(const formatter *f, int close) {
  int depth = 0;
  for (int i = close; i > 0; i--) {
    depth += (token(f, i)->kind == FE_T_RBRACKET) - (token(f, i)->kind == FE_T_LBRACKET);
    if (depth) continue;
    fe_word word = token(f, i - 1)->word;
    return word == FE_W_SOFTMAX || word == FE_W_TOPK || word == FE_W_CAST;
  }
  return false;
}

static bool space_before_paren(const formatter *f, const fe_token *a) {
  static const fe_word words[] = {FE_W_ON, FE_W_AND, FE_W_OR, FE_W_NOT};
  for (int i = 0; i < IR_COUNT(words); i++)
    if (a->word == words[i]) return true;
  return a->kind == FE_T_RBRACKET && !bracket_is_call(f, f->at - 1);
}

static bool opens_group(const fe_token *t) {
  return t->kind == FE_T_LPAREN || t->kind == FE_T_LBRACKET;
}

static bool closes(const fe_token *t) {
  static const fe_token_kind kinds[] = {FE_T_SEMI, FE_T_COMMA, FE_T_RPAREN, FE_T_RBRACKET};
  return is_kind(t, kinds, IR_COUNT(kinds));
}

static bool space_after_comma(const formatter *f) {
  if (f->levels) return f->parens == 0;
  return f->brackets == 0 && !(f->parens && f->tight_parens);
}

/* Levels of a format are spread: `[ i: dense, j: compressed ]`. */
static bool is_level_bracket(const formatter *f, const fe_token *a, const fe_token *b) {
  return f->levels && f->parens == 0 && (a->kind == FE_T_LBRACKET || b->kind == FE_T_RBRACKET);
}

static bool space_before(const formatter *f, const fe_token *a, const fe_token *b) {
  if (is_level_bracket(f, a, b)) return true;
  if (closes(b)) return false;
  if (b->kind == FE_T_COLON) return in_statement(f) && f->brackets == 0;
  if (opens_group(a)) return false;
  if (a->kind == FE_T_COMMA) return space_after_comma(f);
  if (space_around(f, f->at) || space_around(f, f->at - 1)) return true;
  if (a->kind == FE_T_ASSIGN || b->kind == FE_T_ASSIGN || is_sign(f, f->at - 1) || is_tight(a) ||
      is_tight(b))
    return false;
  if (is_sign(f, f->at)) return true;
  if (is_plus(a) || is_plus(b)) return false;
  if (b->kind == FE_T_LBRACKET) return a->kind != FE_T_NAME && a->kind != FE_T_WORD;
  return b->kind != FE_T_LPAREN || space_before_paren(f, a);
}

static void put_space(formatter *f, const fe_token *a, const fe_token *b) {
  if (b->kind == FE_T_COMMENT)
    ir_text_put(f->out, "  ");
  else if (a->kind == FE_T_SEMI && b->kind != FE_T_RBRACE)
    ir_text_put(f->out, "  ");
  else if (b->kind == FE_T_LBRACE || a->kind == FE_T_LBRACE || b->kind == FE_T_RBRACE)
    ir_text_put(f->out, " ");
  else if (space_before(f, a, b))
    ir_text_put(f->out, " ");
}

/* ---- state --------------------------------------------------------------------------------- */
static void enter(formatter *f, const fe_token *t) {
  if (!f->inside && t->kind != FE_T_RBRACE && t->kind != FE_T_COMMENT) {
    if (f->braces == 0) f->opens = t->word;
    f->begins = t->word;
    f->assigned = f->levels = false;
    f->inside = true;
  }
}

static bool parens_are_tight(const formatter *f) {
  bool after_as = f->at >= 2 && token(f, f->at - 2)->word == FE_W_AS;
  return after_as || f->opens == FE_W_SCHEDULE || f->opens == FE_W_TEST || f->opens == FE_W_FORMAT;
}

static void leave(formatter *f, const fe_token *t) {
  f->brackets += (t->kind == FE_T_LBRACKET) - (t->kind == FE_T_RBRACKET && f->brackets > 0);
  if (t->kind == FE_T_LPAREN && f->parens == 0) f->tight_parens = parens_are_tight(f);
  f->parens += (t->kind == FE_T_LPAREN) - (t->kind == FE_T_RPAREN && f->parens > 0);
  f->braces += (t->kind == FE_T_LBRACE) - (t->kind == FE_T_RBRACE && f->braces > 0);
  f->assigned = f->assigned || t->kind == FE_T_ASSIGN;
  f->levels = f->levels || t->kind == FE_T_ARROW;
  if (t->kind == FE_T_SEMI || t->kind == FE_T_LBRACE || t->kind == FE_T_RBRACE) {
    f->inside = false;
    f->brackets = f->parens = 0;
  }
}

static void put_token(formatter *f, const fe_token *t) {
  const fe_token *a = previous(f);
  int breaks = a ? wanted_breaks(f, a, t) : 0;
  if (breaks)
    new_line(f, breaks, t);
  else if (a)
    put_space(f, a, t);
  enter(f, t);
  ir_text_putn(f->out, f->source + t->begin, t->end - t->begin);
  leave(f, t);
}

void fe_format(const fe_file *file, const char *source, ir_text *out) {
  formatter f = {.file = file, .source = source, .out = out};
  for (; token(&f, f.at)->kind != FE_T_END; f.at++) put_token(&f, token(&f, f.at));
  if (f.at) ir_text_put(out, "\n");
}
