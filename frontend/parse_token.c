/* parse_token.c - looking at tokens, taking them, saying what was expected. */
#include <stdlib.h>

#include "frontend/parse.h"

const fe_token *fe_peek(const fe_parser *p) { return &p->tokens[p->at]; }

const fe_token *fe_peek_next(const fe_parser *p) {
  return &p->tokens[fe_peek(p)->kind == FE_T_END ? p->at : p->at + 1];
}

ir_span fe_token_span(const fe_parser *p, const fe_token *t) {
  return (ir_span){p->file->id, t->begin, t->end};
}

ir_span fe_span_since(const fe_parser *p, ir_span begin) {
  if (p->at > 0 && p->tokens[p->at - 1].end > begin.begin) begin.end = p->tokens[p->at - 1].end;
  return begin;
}

bool fe_at(const fe_parser *p, fe_token_kind kind) { return !p->panic && fe_peek(p)->kind == kind; }

bool fe_at_word(const fe_parser *p, fe_word word) {
  return !p->panic && fe_peek(p)->kind == FE_T_WORD && fe_peek(p)->word == word;
}

void fe_skip(fe_parser *p) {
  if (fe_peek(p)->kind != FE_T_END) p->at++;
}

bool fe_take(fe_parser *p, fe_token_kind kind) {
  if (!fe_at(p, kind)) return false;
  fe_skip(p);
  return true;
}

bool fe_take_word(fe_parser *p, fe_word word) {
  if (!fe_at_word(p, word)) return false;
  fe_skip(p);
  return true;
}

const char *fe_token_text(const fe_parser *p, const fe_token *t) {
  return ir_strndup(p->arena, p->file->text + t->begin, t->end - t->begin);
}

/* ---- faults -------------------------------------------------------------------------------- */
ir_diag *fe_fault(fe_parser *p, ir_diag_id id, ir_span span, const char *format, ...) {
  if (p->panic) return ir_diag_add(NULL, id, span, "%s", "");
  p->panic = true;
  p->errors++;
  ir_text text = ir_text_new(p->arena);
  va_list args;
  va_start(args, format);
  ir_text_vprintf(&text, format, args);
  va_end(args);
  return ir_diag_add(p->sink, id, span, "%s", text.data);
}

static const char *found(const fe_parser *p, const fe_token *t) {
  if (t->kind == FE_T_END) return "the end of the file";
  uint32_t n = t->end - t->begin;
  const char *cut = n > 40 ? "..." : "";
  const char *kind = t->kind == FE_T_WORD ? "the reserved word " : "";
  return ir_format_text(p->arena, "%s`%.*s%s`", kind, (int)(n > 40 ? 40 : n),
                        p->file->text + t->begin, cut);
}

static bool is_misnamed(const fe_parser *p, const fe_token *t) {
  for (int i = 0; i < p->misnamed.count && t->kind == FE_T_WORD; i++)
    if (strlen(p->misnamed.at[i]) == t->end - t->begin &&
        !memcmp(p->misnamed.at[i], p->file->text + t->begin, t->end - t->begin))
      return true;
  return false;
}

/* What the lexer found is said when the parser comes to it, and not while it skips. */
static void lexical_fault(fe_parser *p, const fe_token *t) {
  for (int i = 0; i < p->file->faults.list.count; i++) {
    const fe_lexical *f = &p->file->faults.list.at[i];
    if (f->span.begin == t->begin) fe_fault(p, f->id, f->span, "%s", f->text);
  }
}

void fe_expected(fe_parser *p, const char *what) {
  const fe_token *t = fe_peek(p);
  if (t->kind == FE_T_BAD && !p->panic) lexical_fault(p, t);
  if (is_misnamed(p, t) || (p->at > 0 && is_misnamed(p, t - 1))) p->panic = true;
  if (!p->panic)
    fe_fault(p, IR_DIAG_SYNTAX, fe_token_span(p, t), "expected %s, found %s", what, found(p, t));
}

bool fe_need(fe_parser *p, fe_token_kind kind, const char *what) {
  if (fe_take(p, kind)) return true;
  if (!p->panic) fe_expected(p, what);
  return false;
}

bool fe_need_word(fe_parser *p, fe_word word) {
  if (fe_take_word(p, word)) return true;
  if (!p->panic) fe_expected(p, ir_format_text(p->arena, "`%s`", fe_word_text(word)));
  return false;
}

bool fe_first_on_line(const fe_parser *p, const fe_token *t) {
  for (uint32_t i = t->begin; i > 0; i--) {
    char c = p->file->text[i - 1];
    if (c == '\n') return true;
    if (c != ' ' && c != '\t' && c != '\r') return false;
  }
  return true;
}

static bool begins_something(const fe_token *t) {
  static const fe_word words[] = {FE_W_IN,  FE_W_LET,    FE_W_OUT,      FE_W_RAGGED, FE_W_GRAD,
                                  FE_W_DIM, FE_W_KERNEL, FE_W_SCHEDULE, FE_W_TEST,   FE_W_EXPECT};
  for (int i = 0; i < IR_COUNT(words); i++)
    if (t->word == words[i]) return true;
  return false;
}

/* A missing `;` is reported where it is missing, and the parse goes on as if it were there. */
bool fe_need_semi(fe_parser *p, const char *after) {
  if (p->panic || fe_take(p, FE_T_SEMI)) return !p->panic;
  const fe_token *t = fe_peek(p);
  bool next = begins_something(t) || fe_first_on_line(p, t) || t->kind == FE_T_RBRACE ||
              t->kind == FE_T_END;
  if (t->kind == FE_T_BAD || p->at == 0 || !next) {
    fe_expected(p, ir_format_text(p->arena, "`;` after %s", after));
    return false;
  }
  uint32_t end = p->tokens[p->at - 1].end;
  ir_diag *d = fe_fault(p, IR_DIAG_SYNTAX, (ir_span){p->file->id, end - 1, end},
                        "a `;` is missing after %s", after);
  ir_diag_fix(p->sink, d, (ir_span){p->file->id, end, end}, ";", "end it here");
  p->panic = false;
  return true;
}

/* ---- names, numbers ------------------------------------------------------------------------ */
static bool take_name(fe_parser *p, fe_name *name) {
  const fe_token *t = fe_peek(p);
  *name = (fe_name){fe_token_text(p, t), fe_token_span(p, t)};
  fe_skip(p);
  return true;
}

bool fe_need_name(fe_parser *p, const char *what, fe_name *name) {
  if (p->panic) return false;
  if (fe_at(p, FE_T_NAME)) return take_name(p, name);
  if (is_misnamed(p, fe_peek(p))) {
    p->panic = true;
  } else if (fe_peek(p)->kind == FE_T_WORD) {
    fe_fault(p, IR_DIAG_RESERVED, fe_token_span(p, fe_peek(p)),
             "`%s` is a reserved word and cannot be %s", fe_token_text(p, fe_peek(p)), what);
    IR_PUSH(p->arena, &p->misnamed, fe_token_text(p, fe_peek(p)));
  } else {
    fe_expected(p, what);
  }
  return false;
}

bool fe_need_format_name(fe_parser *p, const char *what, fe_name *name) {
  if (fe_at_word(p, FE_W_DENSE)) return take_name(p, name);
  return fe_need_name(p, what, name);
}

static bool int_value(const char *text, int64_t *value) {
  int64_t n = 0;
  for (; *text; text++) {
    int digit = *text - '0';
    if (n > (INT64_MAX - digit) / 10) return false;
    n = n * 10 + digit;
  }
  *value = n;
  return true;
}

bool fe_need_int(fe_parser *p, const char *what, int64_t *value, ir_span *span) {
  if (p->panic) return false;
  const fe_token *t = fe_peek(p);
  if (t->kind != FE_T_INT) {
    fe_expected(p, what);
    return false;
  }
  ir_span place = fe_token_span(p, t);
  if (span) *span = place;
  if (!int_value(fe_token_text(p, t), value)) {
    fe_fault(p, IR_DIAG_OVERFLOW, place, "this integer does not fit in 64 bits");
    return false;
  }
  fe_skip(p);
  return true;
}

/* strtod without the locale's decimal point: "1.25e3" is read as "125e1". */
static double number_value(const fe_parser *p, const fe_token *t) {
  const char *text = p->file->text;
  ir_text digits = ir_text_new(p->arena);
  int64_t exponent = 0;
  uint32_t i = t->begin, point = 0;
  for (; i < t->end && text[i] != 'e' && text[i] != 'E'; i++) {
    if (text[i] == '.')
      point = i;
    else
      ir_text_putn(&digits, text + i, 1);
  }
  if (point) exponent = -(int64_t)(i - point - 1);
  if (i < t->end) {
    bool negative = text[i + 1] == '-';
    int64_t written = 0;
    for (i += 1 + (negative || text[i + 1] == '+'); i < t->end; i++)
      if (written < 1000000) written = written * 10 + (text[i] - '0');
    exponent += negative ? -written : written;
  }
  ir_text_printf(&digits, "e%lld", (long long)exponent);
  return strtod(digits.data, NULL);
}

bool fe_need_number(fe_parser *p, const char *what, double *value) {
  if (p->panic) return false;
  const fe_token *t = fe_peek(p);
  if (t->kind != FE_T_INT && t->kind != FE_T_NUMBER) {
    fe_expected(p, what);
    return false;
  }
  *value = number_value(p, t);
  fe_skip(p);
  return true;
}

bool fe_need_dtype(fe_parser *p, ir_dtype *dtype, ir_span *span) {
  if (p->panic) return false;
  const fe_token *t = fe_peek(p);
  *dtype = t->kind == FE_T_WORD ? ir_dtype_find(fe_token_text(p, t)) : IR_NONE;
  *span = fe_token_span(p, t);
  if (*dtype != IR_NONE) {
    fe_skip(p);
    return true;
  }
  fe_expected(p, "a dtype such as `f32`");
  return false;
}

bool fe_need_gran(fe_parser *p, int64_t *rows, int64_t *cols, ir_span *span) {
  if (p->panic) return false;
  const fe_token *t = fe_peek(p);
  *span = fe_token_span(p, t);
  if (t->kind != FE_T_RXC) {
    fe_expected(p, "rows x columns in one word, such as `64x1`");
    return false;
  }
  char *text = ir_strndup(p->arena, p->file->text + t->begin, t->end - t->begin);
  char *x = strchr(text, 'x');
  *x = '\0';
  if (!int_value(text, rows) || !int_value(x + 1, cols) || *rows < 1 || *cols < 1 ||
      *rows > INT32_MAX || *cols > INT32_MAX) {
    fe_fault(p, IR_DIAG_NUMBER, *span, "both sizes of a granularity are from 1 to %d", INT32_MAX);
    return false;
  }
  fe_skip(p);
  return true;
}
