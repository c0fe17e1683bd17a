/* lexer.c - one pass over the bytes; every token is a byte range.
 *
 * Context matters in one place only: after `gran =`, digits x digits is one token.  A number has a
 * fraction only when a digit follows the point, so `0.02..0.15` is a range.  Text that is not valid
 * UTF-8 is refused before anything else is said about it. */
#include "frontend/ast.h"

static const char *const words[FE_W_COUNT] = {
    [FE_W_NONE] = "",
#define SPC_WORD(NAME, TEXT) [FE_W_##NAME] = TEXT,
#include "frontend/word.def"
#undef SPC_WORD
};

const char *fe_word_text(fe_word word) { return words[word]; }

/* ---- reserved names ------------------------------------------------------------------------ */
static bool is_callable(int op) { return (ir_op_rows[op].traits & IR_CALLABLE) != 0; }

const char *fe_function_name(int i) {
  for (int op = 0; op < IR_OP_COUNT; op++)
    if (is_callable(op) && i-- == 0) return ir_op_rows[op].mnemonic;
  return NULL;
}

ir_op fe_function_find(const char *text) {
  ir_op op = ir_op_find(text);
  return op != IR_OP_COUNT && is_callable((int)op) ? op : IR_OP_COUNT;
}

static bool is_reserved_by_table(const char *text) {
  return ir_dtype_find(text) != IR_NONE || ir_reducer_find(text) != IR_RED_COUNT ||
         fe_function_find(text) != IR_OP_COUNT;
}

static fe_word word_find(const char *text) {
  for (int i = 1; i < FE_W_COUNT; i++)
    if (!strcmp(words[i], text)) return (fe_word)i;
  return FE_W_NONE;
}

/* ---- bytes --------------------------------------------------------------------------------- */
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

static char at(const fe_lex *lex, uint32_t i) { return i < lex->length ? lex->text[i] : '\0'; }

static uint32_t digits_end(const fe_lex *lex, uint32_t i) {
  while (is_digit(at(lex, i))) i++;
  return i;
}

/* Length of the UTF-8 sequence at i, or 0 when it is not one (overlong and surrogates included). */
static uint32_t utf8_length(const fe_lex *lex, uint32_t i) {
  unsigned char c = (unsigned char)lex->text[i];
  if (c < 0x80) return 1;
  uint32_t length = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
  if (c < 0xc2 || c > 0xf4 || i + length > lex->length) return 0;
  for (uint32_t k = 1; k < length; k++)
    if (((unsigned char)lex->text[i + k] & 0xc0) != 0x80) return 0;
  unsigned char d = (unsigned char)lex->text[i + 1];
  if ((c == 0xe0 && d < 0xa0) || (c == 0xed && d > 0x9f) || (c == 0xf0 && d < 0x90) ||
      (c == 0xf4 && d > 0x8f))
    return 0;
  return length;
}

static ir_span span_of(const fe_lex *lex, uint32_t begin, uint32_t end) {
  return (ir_span){lex->file, begin, end};
}

static bool check_utf8(fe_lex *lex) {
  for (uint32_t i = 0, n; i < lex->length; i += n) {
    n = utf8_length(lex, i);
    if (n) continue;
    lex->unreadable = true;
    ir_diag_add(lex->sink, IR_DIAG_ENCODING, span_of(lex, i, i + 1),
                "byte 0x%02x is not valid UTF-8", (unsigned)(unsigned char)lex->text[i]);
    return false;
  }
  return true;
}

IR_PRINTF(4, 5)
static void fault(fe_lex *lex, ir_diag_id id, ir_span span, const char *format, ...) {
  ir_text text = ir_text_new(lex->arena);
  va_list args;
  va_start(args, format);
  ir_text_vprintf(&text, format, args);
  va_end(args);
  fe_lexical f = {id, span, text.data};
  IR_PUSH(lex->arena, &lex->faults.list, f);
}

/* ---- tokens -------------------------------------------------------------------------------- */
static void add(fe_lex *lex, fe_token_kind kind, uint32_t begin, uint32_t end) {
  fe_token token = {kind, FE_W_NONE, begin, end};
  IR_PUSH(lex->arena, &lex->tokens.list, token);
}

static const fe_token *last(const fe_lex *lex, int back) {
  for (int i = lex->tokens.list.count - 1; i >= 0; i--) {
    if (lex->tokens.list.at[i].kind == FE_T_COMMENT) continue;
    if (!back--) return &lex->tokens.list.at[i];
  }
  return NULL;
}

static bool after_gran(const fe_lex *lex) {
  const fe_token *assign = last(lex, 0), *gran = last(lex, 1);
  return assign && gran && assign->kind == FE_T_ASSIGN && gran->word == FE_W_GRAN;
}

static uint32_t lex_name(fe_lex *lex, uint32_t i) {
  uint32_t end = i;
  while (is_letter(at(lex, end)) || is_digit(at(lex, end))) end++;
  const char *text = ir_strndup(lex->arena, lex->text + i, end - i);
  fe_token token = {FE_T_NAME, word_find(text), i, end};
  if (token.word != FE_W_NONE || is_reserved_by_table(text)) token.kind = FE_T_WORD;
  IR_PUSH(lex->arena, &lex->tokens.list, token);
  return end;
}

static uint32_t exponent_end(const fe_lex *lex, uint32_t i) {
  if (at(lex, i) != 'e' && at(lex, i) != 'E') return i;
  uint32_t k = i + 1;
  if (at(lex, k) == '+' || at(lex, k) == '-') k++;
  return is_digit(at(lex, k)) ? digits_end(lex, k) : i;
}

static uint32_t lex_number(fe_lex *lex, uint32_t i) {
  uint32_t end = digits_end(lex, i);
  if (at(lex, end) == 'x' && is_digit(at(lex, end + 1)) && after_gran(lex)) {
    end = digits_end(lex, end + 1);
    add(lex, FE_T_RXC, i, end);
    return end;
  }
  uint32_t whole = end;
  if (at(lex, end) == '.' && is_digit(at(lex, end + 1))) end = digits_end(lex, end + 1);
  end = exponent_end(lex, end);
  if (is_letter(at(lex, end))) {
    uint32_t stop = end;
    while (is_letter(at(lex, stop)) || is_digit(at(lex, stop))) stop++;
    fault(lex, IR_DIAG_NUMBER, span_of(lex, i, stop),
          "`%.*s` is neither a number nor a name; a product is written with `*`, as in `2*x`",
          (int)(stop - i > 40 ? 40 : stop - i), lex->text + i);
    add(lex, FE_T_BAD, i, stop);
    return stop;
  }
  add(lex, end == whole ? FE_T_INT : FE_T_NUMBER, i, end);
  return end;
}

typedef struct symbol {
  const char *text;
  fe_token_kind kind;
} symbol;
static const symbol symbols[] = {/* longer ones first */
                                 {"..", FE_T_DOTS},   {"->", FE_T_ARROW},   {"~=", FE_T_NEAR},
                                 {"+=", FE_T_ADD_TO}, {"<=", FE_T_LE},      {">=", FE_T_GE},
                                 {"==", FE_T_EQ},     {"!=", FE_T_NE},      {";", FE_T_SEMI},
                                 {":", FE_T_COLON},   {",", FE_T_COMMA},    {"(", FE_T_LPAREN},
                                 {")", FE_T_RPAREN},  {"[", FE_T_LBRACKET}, {"]", FE_T_RBRACKET},
                                 {"{", FE_T_LBRACE},  {"}", FE_T_RBRACE},   {"~", FE_T_TILDE},
                                 {"=", FE_T_ASSIGN},  {"+", FE_T_PLUS},     {"-", FE_T_MINUS},
                                 {"*", FE_T_STAR},    {"/", FE_T_SLASH},    {"%", FE_T_PERCENT},
                                 {"<", FE_T_LT},      {">", FE_T_GT}};

static uint32_t lex_unknown(fe_lex *lex, uint32_t i) {
  char c = lex->text[i];
  uint32_t end = i + utf8_length(lex, i);
  ir_span span = span_of(lex, i, end);
  if (c == '.' && is_digit(at(lex, i + 1))) {
    end = digits_end(lex, i + 1);
    fault(lex, IR_DIAG_NUMBER, span_of(lex, i, end),
          "a number needs a digit before its point: write `0%.*s`",
          (int)(end - i > 40 ? 40 : end - i), lex->text + i);
  } else if (c == '.')
    fault(lex, IR_DIAG_CHARACTER, span,
          "a lone `.` has no meaning; a range is written `a..b`, a number `1.0`");
  else if (end - i > 1)
    fault(lex, IR_DIAG_CHARACTER, span,
          "`%.*s` has no meaning here; names are made of ASCII letters, digits and `_`",
          (int)(end - i), lex->text + i);
  else if (c >= 0x21 && c < 0x7f)
    fault(lex, IR_DIAG_CHARACTER, span, "`%c` has no meaning in `.spx`%s", c,
          c == '&'   ? "; write `and`"
          : c == '|' ? "; write `or`"
          : c == '!' ? "; write `not`"
          : c == '#' ? "; a comment begins with `//`"
                     : "");
  else
    fault(lex, IR_DIAG_CHARACTER, span, "control character 0x%02x outside a comment", (unsigned)c);
  add(lex, FE_T_BAD, i, end);
  return end;
}

static uint32_t lex_symbol(fe_lex *lex, uint32_t i) {
  for (int k = 0; k < IR_COUNT(symbols); k++) {
    uint32_t n = (uint32_t)strlen(symbols[k].text);
    if (i + n > lex->length || memcmp(lex->text + i, symbols[k].text, n) != 0) continue;
    add(lex, symbols[k].kind, i, i + n);
    return i + n;
  }
  return lex_unknown(lex, i);
}

static uint32_t lex_comment(fe_lex *lex, uint32_t i) {
  uint32_t end = i;
  while (end < lex->length && lex->text[end] != '\n') end++;
  uint32_t cut = end;
  while (cut > i && is_space(lex->text[cut - 1])) cut--;
  add(lex, FE_T_COMMENT, i, cut);
  return end;
}

void fe_lex_run(fe_lex *lex) {
  uint32_t i = 0;
  if (lex->length >= 3 && !memcmp(lex->text, "\xef\xbb\xbf", 3)) i = 3;
  if (check_utf8(lex))
    while (i < lex->length) {
      char c = lex->text[i];
      if (is_space(c))
        i++;
      else if (c == '/' && at(lex, i + 1) == '/')
        i = lex_comment(lex, i);
      else if (is_letter(c))
        i = lex_name(lex, i);
      else if (is_digit(c))
        i = lex_number(lex, i);
      else
        i = lex_symbol(lex, i);
    }
  add(lex, FE_T_END, lex->length, lex->length);
}
