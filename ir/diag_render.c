/* diag_render.c - the diagnostics of a sink as text for a person.
 *
 *     ffn.spx:4:21: error[E0201]: index `d` is bound by no reducer
 *        4 |   let h[t,f] = relu(x[t,d] * W1[d,f]);
 *          |                     ^~~~~~
 *       note: it occurs only on the right-hand side
 *       fix: write `sum[d] ` here
 *
 * Errors come first, then the rest, each in the order it was found; remarks take one line.  Output
 * ends after 20 errors or 4 kB with a count of what was left out, so that it fits a terminal and an
 * spc_error. */
#include "ir/diag.h"
#include "ir/diag_escape.h"

enum {
  MOST_ERRORS = 20,
  MOST_BYTES = 4095,
  COUNT_BYTES = 96, /* room kept for the last line */
  MOST_COLUMNS = 120,
  COLUMNS_BEFORE = 76,
  MOST_MESSAGE = 1024
};

typedef struct paint {
  const char *reset, *bold, *severity[4], *caret;
} paint;

static const paint plain = {"", "", {"", "", "", ""}, ""};
static const paint colours = {
    "\033[0m", "\033[1m", {"\033[1;31m", "\033[1;35m", "\033[1;36m", "\033[1;33m"}, "\033[1;32m"};

static const char *const severity_names[] = {"error", "warning", "remark", "missed"};

/* ---- the source line ----------------------------------------------------------------------- */
typedef struct line {
  const char *text;
  size_t begin, end, caret, caret_end; /* byte offsets in text */
} line;

static line line_of(const ir_source *source, ir_span span) {
  line l = {.text = source->text, .caret = span.begin, .caret_end = span.end};
  if (l.caret > source->length) l.caret = source->length;
  l.begin = l.end = l.caret;
  while (l.begin > 0 && l.text[l.begin - 1] != '\n') l.begin--;
  while (l.end < source->length && l.text[l.end] != '\n') l.end++;
  if (l.end > l.begin && l.end > l.caret && l.text[l.end - 1] == '\r') l.end--;
  if (l.caret_end > l.end) l.caret_end = l.end;
  return l;
}

static bool continues_char(char c) { return ((unsigned char)c & 0xc0) == 0x80; }

/* Where the shown part begins: at most COLUMNS_BEFORE columns left of the caret. */
static size_t window_begin(const line *l) {
  size_t at = l->caret;
  for (int columns = 0; at > l->begin;) {
    size_t before = at - 1;
    while (before > l->begin && at - before < 4 && continues_char(l->text[before])) before--;
    ir_shown shown = ir_show_char(l->text + before, at - before);
    if ((size_t)shown.bytes != at - before) before = at - 1; /* stray continuation bytes */
    columns += before == at - 1 ? ir_show_char(l->text + before, 1).columns : shown.columns;
    if (columns > COLUMNS_BEFORE) break;
    at = before;
  }
  return at;
}

typedef struct excerpt {
  ir_text text, marks;
  int columns;
} excerpt;

static void put_many(ir_text *out, char c, int count) {
  for (int i = 0; i < count; i++) ir_text_putn(out, &c, 1);
}

static void show(excerpt *e, const char *text, int columns, char mark) {
  ir_text_put(&e->text, text);
  put_many(&e->marks, mark, columns);
  e->columns += columns;
}

static excerpt make_excerpt(ir_arena *arena, const line *l) {
  excerpt e = {.text = ir_text_new(arena), .marks = ir_text_new(arena)};
  size_t at = window_begin(l);
  if (at > l->begin) show(&e, "...", 3, ' ');
  while (at < l->end) {
    ir_shown shown = ir_show_char(l->text + at, l->end - at);
    if (e.columns + shown.columns > MOST_COLUMNS - 3) {
      ir_text_put(&e.text, "...");
      break;
    }
    char mark = at == l->caret ? '^' : at > l->caret && at < l->caret_end ? '~' : ' ';
    show(&e, shown.text, 1, mark);
    if (shown.columns > 1) {
      put_many(&e.marks, mark == ' ' ? ' ' : '~', shown.columns - 1);
      e.columns += shown.columns - 1;
    }
    at += (size_t)shown.bytes;
  }
  if (l->caret >= l->end) ir_text_put(&e.marks, "^");
  while (e.marks.length && e.marks.data[e.marks.length - 1] == ' ')
    e.marks.data[--e.marks.length] = 0;
  return e;
}

static void put_excerpt(const ir_sink *sink, ir_span span, int number, const paint *p,
                        ir_text *out) {
  line l = line_of(&sink->sources.at[span.file - 1], span);
  excerpt e = make_excerpt(out->arena, &l);
  ir_text_printf(out, "%5d | %s\n      | %s%s%s\n", number, e.text.data, p->caret, e.marks.data,
                 p->reset);
}

/* ---- one diagnostic ------------------------------------------------------------------------ */
static int put_place(const ir_sink *sink, ir_span span, const paint *p, ir_text *out) {
  const char *file;
  int number, column;
  ir_span_place(sink, span, &file, &number, &column);
  if (!file) return 0;
  ir_text_printf(out, "%s%s:%d:%d:%s ", p->bold, ir_show_text(out->arena, file, 256), number,
                 column, p->reset);
  return number;
}

static void put_note(const ir_sink *sink, const ir_note *note, const paint *p, ir_text *out) {
  ir_text_put(out, "  ");
  int number = put_place(sink, note->span, p, out);
  ir_text_printf(out, "note: %s\n", ir_show_text(out->arena, note->text, MOST_MESSAGE));
  if (number) put_excerpt(sink, note->span, number, p, out);
}

static void put_fix(const ir_sink *sink, const ir_diag *diag, const paint *p, ir_text *out) {
  ir_text_put(out, "  ");
  bool elsewhere =
      diag->fix_span.file != diag->span.file || diag->fix_span.begin != diag->span.begin;
  if (elsewhere) put_place(sink, diag->fix_span, p, out);
  ir_text_printf(out, "fix: %s", ir_show_text(out->arena, diag->fix_text, MOST_MESSAGE));
  if (!strstr(diag->fix_text, diag->fix_code))
    ir_text_printf(out, ": `%s`", ir_show_text(out->arena, diag->fix_code, MOST_MESSAGE));
  ir_text_put(out, "\n");
}

/* Remarks say what was done, not what to mend: one line each. */
static void put_rest_of_line(const ir_diag *diag, ir_text *out) {
  for (int i = 0; i < diag->notes.count; i++)
    ir_text_printf(out, "; %s", ir_show_text(out->arena, diag->notes.at[i].text, MOST_MESSAGE));
  if (diag->fix_code)
    ir_text_printf(out, "; fix: %s", ir_show_text(out->arena, diag->fix_text, MOST_MESSAGE));
  ir_text_put(out, "\n");
}

static void put_diag(const ir_sink *sink, const ir_diag *diag, const paint *p, ir_text *out) {
  int number = put_place(sink, diag->span, p, out);
  ir_text_printf(out, "%s%s[%s]:%s %s", p->severity[diag->severity], severity_names[diag->severity],
                 ir_diag_rows[diag->id].code, p->reset,
                 ir_show_text(out->arena, diag->text, MOST_MESSAGE));
  if (diag->severity == IR_REMARK || diag->severity == IR_MISSED) {
    put_rest_of_line(diag, out);
    return;
  }
  ir_text_put(out, "\n");
  if (number) put_excerpt(sink, diag->span, number, p, out);
  for (int i = 0; i < diag->notes.count; i++) put_note(sink, &diag->notes.at[i], p, out);
  if (diag->fix_code) put_fix(sink, diag, p, out);
}

/* ---- all of them --------------------------------------------------------------------------- */
typedef struct rendering {
  const ir_sink *sink;
  const paint *paint;
  ir_text *out;
  size_t limit;
  int errors, others; /* shown */
  bool full;
} rendering;

static void add(rendering *r, const ir_diag *diag) {
  bool is_error = diag->severity == IR_ERROR;
  if (r->full || (is_error && r->errors == MOST_ERRORS)) return;
  ir_text one = ir_text_new(r->out->arena);
  put_diag(r->sink, diag, r->paint, &one);
  r->full = r->out->length + one.length > r->limit && r->errors + r->others > 0;
  if (r->full) return;
  ir_text_putn(r->out, one.data, one.length);
  r->errors += is_error;
  r->others += !is_error;
}

static void add_count(const rendering *r) {
  int total = 0;
  for (int i = 0; i < r->sink->diags.count; i++)
    total += r->sink->diags.at[i]->severity != IR_ERROR;
  int errors = r->sink->errors - r->errors, others = total - r->others;
  if (errors > 0)
    ir_text_printf(r->out, "%d more error%s not shown\n", errors, errors == 1 ? " is" : "s are");
  if (others > 0)
    ir_text_printf(r->out, "%d more warning%s or remark%s not shown\n", others,
                   others == 1 ? "" : "s", others == 1 ? " is" : "s are");
}

void ir_sink_render(const ir_sink *sink, ir_text *out, bool colour) {
  if (!sink) return;
  rendering r = {.sink = sink,
                 .paint = colour ? &colours : &plain,
                 .out = out,
                 .limit = out->length + MOST_BYTES - COUNT_BYTES};
  for (int i = 0; i < sink->diags.count; i++)
    if (sink->diags.at[i]->severity == IR_ERROR) add(&r, sink->diags.at[i]);
  for (int i = 0; i < sink->diags.count; i++)
    if (sink->diags.at[i]->severity != IR_ERROR) add(&r, sink->diags.at[i]);
  add_count(&r);
}
