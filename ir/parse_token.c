/* parse_token.c - tokens of IR text, and reading one small thing: a name, a number, a type.
 *
 * Names may have dots inside (`h.ids`); any name can be quoted, and then is never a keyword.
 * Numbers may carry their type: `0.5_f32`, `1_i32x8`.  Comments run from // to the end of the line.
 */
#include <math.h>

#include "ir/number.h"
#include "ir/parse.h"

static bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }
static char char_at(const ir_reader *r, size_t at) { return at < r->length ? r->text[at] : 0; }

/* ---- faults -------------------------------------------------------------------------------- */
static ir_diag *fail_once(ir_reader *r, ir_span span, const char *text) {
  if (r->failed) return NULL;
  r->failed = true;
  r->at = r->length;
  r->token = (ir_token){.kind = IR_TOKEN_END, .text = "", .span = r->token.span};
  return ir_diag_add(r->sink, IR_DIAG_IR_SYNTAX, span, "%s", text);
}

void ir_read_fail(ir_reader *r, ir_span span, const char *format, ...) {
  if (r->failed) return;
  ir_text text = ir_text_new(r->arena);
  va_list args;
  va_start(args, format);
  ir_text_vprintf(&text, format, args);
  va_end(args);
  fail_once(r, span, text.data);
}

void ir_read_unknown(ir_reader *r, ir_span span, const char *what, const char *name,
                     const char *const *known, int count) {
  const char *near = ir_nearest(name, known, count);
  ir_diag *diag = fail_once(r, span, ir_format_text(r->arena, "no %s is called `%s`", what, name));
  if (diag && near) ir_diag_fix(r->sink, diag, span, near, "did you mean `%s`?", near);
}

/* ---- tokens -------------------------------------------------------------------------------- */
static void skip_space(ir_reader *r) {
  for (;;) {
    while (r->at < r->length && is_space(r->text[r->at])) r->at++;
    if (char_at(r, r->at) != '/' || char_at(r, r->at + 1) != '/') return;
    while (r->at < r->length && r->text[r->at] != '\n') r->at++;
  }
}

static size_t name_end(const ir_reader *r, size_t at) {
  for (;; at++) {
    char c = char_at(r, at), next = char_at(r, at + 1);
    if (is_letter(c) || is_digit(c)) continue;
    if (c == '.' && (is_letter(next) || is_digit(next))) continue;
    return at;
  }
}

static size_t digits_end(const ir_reader *r, size_t at) {
  while (is_digit(char_at(r, at))) at++;
  return at;
}

static bool whole_number(const char *text, size_t length, uint64_t *value) {
  *value = 0;
  for (size_t i = 0; i < length; i++) {
    uint64_t digit = (uint64_t)(text[i] - '0');
    if (*value > (UINT64_MAX - digit) / 10) return false;
    *value = *value * 10 + digit;
  }
  return true;
}

static size_t number_end(const ir_reader *r, size_t at, bool *is_float) {
  at = digits_end(r, at);
  *is_float = char_at(r, at) == '.' && is_digit(char_at(r, at + 1));
  if (*is_float) at = digits_end(r, at + 1);
  char mark = char_at(r, at);
  if (mark != 'e' && mark != 'E') return at;
  size_t exponent = at + 1;
  if (char_at(r, exponent) == '+' || char_at(r, exponent) == '-') exponent++;
  if (!is_digit(char_at(r, exponent))) return at;
  *is_float = true;
  return digits_end(r, exponent);
}

static void read_suffix(ir_reader *r, ir_token *t, size_t *end) {
  if (char_at(r, *end) != '_') return;
  size_t begin = *end + 1;
  *end = begin;
  while (is_letter(char_at(r, *end)) || is_digit(char_at(r, *end))) ++*end;
  const char *type = ir_strndup(r->arena, r->text + begin, *end - begin);
  if (!ir_parse_type(type, &t->suffix, &t->lanes))
    ir_read_fail(r, (ir_span){r->file, (uint32_t)begin, (uint32_t)*end},
                 "`%s` is no type; a number's type is written as in `0.5_f32` or `1_i32x8`", type);
}

static size_t number_token(ir_reader *r, ir_token *t) {
  bool is_float;
  size_t end = number_end(r, r->at, &is_float);
  const char *text = r->text + r->at;
  ir_span span = {r->file, (uint32_t)r->at, (uint32_t)end};
  t->kind = is_float ? IR_TOKEN_FLOAT : IR_TOKEN_INT;
  if (!ir_number_parse(text, end - r->at, &t->number) ||
      (!is_float && !whole_number(text, end - r->at, &t->whole)))
    ir_read_fail(r, span, "this number has too many digits");
  read_suffix(r, t, &end);
  return end;
}

static int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* One escape after a backslash at r->text[at]; appends what it means; the position behind it, 0:
 * none. */
static size_t read_escape(const ir_reader *r, size_t at, ir_text *out) {
  char c = char_at(r, at);
  if (c == '"' || c == '\\') return ir_text_putn(out, &c, 1), at + 1;
  if (c == 'n') return ir_text_put(out, "\n"), at + 1;
  int high = c == 'x' ? hex_digit(char_at(r, at + 1)) : -1, low = hex_digit(char_at(r, at + 2));
  if (high < 0 || low < 0 || high * 16 + low == 0) return 0;
  char byte = (char)(high * 16 + low);
  return ir_text_putn(out, &byte, 1), at + 3;
}

static size_t quoted_token(ir_reader *r, ir_token *t) {
  ir_text out = ir_text_new(r->arena);
  size_t at = r->at + 1;
  t->kind = IR_TOKEN_QUOTED;
  while (char_at(r, at) != '"') {
    ir_span here = {r->file, (uint32_t)at, (uint32_t)at + 1};
    if (at >= r->length || r->text[at] == '\n' || r->text[at] == 0) {
      ir_read_fail(r, here, "a quoted text ends on its own line with `\"`");
      return r->length;
    }
    size_t next = at + 1;
    if (r->text[at] == '\\')
      next = read_escape(r, at + 1, &out);
    else
      ir_text_putn(&out, r->text + at, 1);
    if (!next) {
      ir_read_fail(r, here, "known escapes are \\\" \\\\ \\n and \\xNN");
      return r->length;
    }
    at = next;
  }
  t->text = out.data;
  return at + 1;
}

static size_t mark_end(const ir_reader *r) {
  static const char *const doubles[] = {"..", "<=", ">=", "==", "!=", "+=", "->"};
  for (int i = 0; i < IR_COUNT(doubles); i++)
    if (char_at(r, r->at) == doubles[i][0] && char_at(r, r->at + 1) == doubles[i][1])
      return r->at + 2;
  return r->at + 1;
}

void ir_read_token(ir_reader *r) {
  if (r->failed) return;
  skip_space(r);
  ir_token t = {.kind = IR_TOKEN_MARK, .text = "", .lanes = 1};
  char c = char_at(r, r->at);
  size_t end = r->at;
  t.span = (ir_span){r->file, (uint32_t)r->at, (uint32_t)r->at};
  r->token.span = t.span;
  if (r->at >= r->length)
    t.kind = IR_TOKEN_END;
  else if (is_digit(c))
    end = number_token(r, &t);
  else if (c == '"')
    end = quoted_token(r, &t);
  else if (is_letter(c))
    t.kind = IR_TOKEN_NAME, end = name_end(r, r->at);
  else
    end = mark_end(r);
  if (r->failed) return;
  t.span.end = (uint32_t)end;
  if (t.kind != IR_TOKEN_QUOTED) t.text = ir_strndup(r->arena, r->text + r->at, end - r->at);
  r->at = end;
  r->token = t;
}

bool ir_read_at(const ir_reader *r, const char *word_or_mark) {
  return (r->token.kind == IR_TOKEN_NAME || r->token.kind == IR_TOKEN_MARK) &&
         !strcmp(r->token.text, word_or_mark);
}

bool ir_read_done(const ir_reader *r, const char *closing) {
  return r->token.kind == IR_TOKEN_END || ir_read_at(r, closing);
}

bool ir_read_if(ir_reader *r, const char *word_or_mark) {
  if (!ir_read_at(r, word_or_mark)) return false;
  ir_read_token(r);
  return true;
}

static const char *found(const ir_reader *r) {
  if (r->token.kind == IR_TOKEN_END) return "the end of the text";
  if (r->token.kind == IR_TOKEN_QUOTED) return "a quoted text";
  return ir_format_text(r->arena, "`%s`", r->token.text);
}

void ir_read_expect(ir_reader *r, const char *word_or_mark) {
  if (!ir_read_if(r, word_or_mark))
    ir_read_fail(r, r->token.span, "expected `%s`, found %s", word_or_mark, found(r));
}

void ir_read_enter(ir_reader *r) {
  if (++r->nesting > IR_MOST_NESTING)
    ir_read_fail(r, r->token.span, "nested deeper than %d", IR_MOST_NESTING);
}

void ir_read_leave(ir_reader *r) { r->nesting--; }

/* ---- small things -------------------------------------------------------------------------- */
const char *ir_read_name(ir_reader *r) {
  const char *name = r->token.text;
  bool is_name = r->token.kind == IR_TOKEN_NAME || (r->token.kind == IR_TOKEN_QUOTED && name[0]);
  if (!is_name) {
    ir_read_fail(r, r->token.span, "expected a name, found %s", found(r));
    return "";
  }
  ir_read_token(r);
  return name;
}

const char *ir_read_string(ir_reader *r) {
  const char *text = r->token.text;
  if (r->token.kind == IR_TOKEN_QUOTED) return ir_read_token(r), text;
  ir_read_fail(r, r->token.span, "expected a quoted text, found %s", found(r));
  return "";
}

int64_t ir_read_int(ir_reader *r, int64_t least, int64_t most) {
  ir_span span = r->token.span;
  bool negative = ir_read_if(r, "-");
  uint64_t whole = r->token.whole;
  if (r->token.kind != IR_TOKEN_INT || r->token.suffix) {
    ir_read_fail(r, span, "expected a whole number, found %s", found(r));
    return least;
  }
  ir_read_token(r);
  bool fits = whole <= (uint64_t)INT64_MAX + negative;
  int64_t value = !fits ? 0 : negative ? (int64_t)(0 - whole) : (int64_t)whole;
  if (fits && value >= least && value <= most) return value;
  ir_read_fail(r, span, "this number must lie in %lld..%lld", (long long)least, (long long)most);
  return least;
}

double ir_read_number(ir_reader *r) {
  bool negative = ir_read_if(r, "-");
  double value = r->token.number;
  bool is_number = r->token.kind == IR_TOKEN_INT || r->token.kind == IR_TOKEN_FLOAT;
  if (ir_read_at(r, "inf"))
    value = (double)INFINITY;
  else if (ir_read_at(r, "nan"))
    value = (double)NAN;
  else if (!is_number || r->token.suffix)
    ir_read_fail(r, r->token.span, "expected a number, found %s", found(r));
  ir_read_token(r);
  return negative ? -value : value;
}

int ir_read_word(ir_reader *r, const char *const *words, const char *what) {
  ir_text all = ir_text_new(r->arena);
  for (int i = 0; words[i]; i++) {
    if (ir_read_if(r, words[i])) return i;
    ir_text_printf(&all, "%s%s", i ? ", " : "", words[i]);
  }
  ir_read_fail(r, r->token.span, "expected %s (%s), found %s", what, all.data, found(r));
  return 0;
}

bool ir_parse_type(const char *text, ir_dtype *dtype, int *lanes) {
  *lanes = 1;
  *dtype = ir_dtype_find(text);
  if (*dtype) return true;
  const char *x = strrchr(text, 'x');
  char base[16];
  uint64_t count;
  if (!x || x - text >= (long)sizeof base || strlen(x + 1) > 4) return false;
  for (const char *c = x + 1; *c; c++)
    if (!is_digit(*c)) return false;
  memcpy(base, text, (size_t)(x - text));
  base[x - text] = 0;
  *dtype = ir_dtype_find(base);
  if (!*dtype || !whole_number(x + 1, strlen(x + 1), &count)) return false;
  *lanes = (int)count;
  return count >= 2 && count <= IR_MOST_LANES;
}

ir_dtype ir_read_type(ir_reader *r, int *lanes) {
  ir_dtype dtype = IR_NONE;
  ir_span span = r->token.span;
  const char *name = ir_read_name(r);
  if (!ir_parse_type(name, &dtype, lanes)) {
    ir_read_fail(r, span, "`%s` is no type; types are f32, i64, ... and vectors such as f32x8",
                 name);
    return IR_F32;
  }
  return dtype;
}

ir_dtype ir_read_dtype(ir_reader *r) {
  if (ir_read_if(r, "pattern")) return IR_NONE;
  const char *known[IR_DTYPE_COUNT];
  for (int i = 0; i < IR_DTYPE_COUNT; i++) known[i] = ir_dtype_rows[i].text;
  ir_span span = r->token.span;
  const char *name = ir_read_name(r);
  ir_dtype dtype = ir_dtype_find(name);
  if (!dtype) ir_read_unknown(r, span, "dtype", name, known + 1, IR_DTYPE_COUNT - 1);
  return dtype;
}

void ir_read_gran(ir_reader *r, int *rows, int *cols) {
  uint64_t count = 0;
  *rows = (int)ir_read_int(r, 0, INT32_MAX);
  const char *text = r->token.text;
  size_t length = strlen(text);
  bool shape = r->token.kind == IR_TOKEN_NAME && length > 1 && length < 11 && text[0] == 'x';
  for (size_t i = 1; i < length; i++) shape = shape && is_digit(text[i]);
  if (!shape || !whole_number(text + 1, length - 1, &count) || count > INT32_MAX)
    ir_read_fail(r, r->token.span, "expected a micro-tile such as 64x1");
  *cols = (int)count;
  ir_read_token(r);
}
