/* diag.c - the sink: adding diagnostics, notes and fixes; places of spans; the nearest known name.
 *
 * The sink keeps at most MOST_KEPT diagnostics (a hostile file cannot fill the memory with them)
 * but counts all of them.  With `werror` a warning is added as an error.  A call without a sink
 * writes to a scratch diagnostic of the calling thread that nobody reads. */
#include "ir/diag.h"

enum { MOST_KEPT = 500, MOST_NAME = 64 };

const ir_diag_row ir_diag_rows[IR_DIAG_COUNT] = {
#define SPC_DIAG(NAME, CODE, SEVERITY, TITLE, HELP) {#NAME, CODE, SEVERITY, TITLE, HELP},
#include "ir/diag.def"
#undef SPC_DIAG
};

const ir_diag_row *ir_diag_find(const char *code) {
  for (int i = 0; i < IR_DIAG_COUNT; i++)
    if (!strcmp(ir_diag_rows[i].code, code)) return &ir_diag_rows[i];
  return NULL;
}

ir_sink *ir_sink_new(ir_arena *arena) {
  ir_sink *sink = IR_NEW(arena, ir_sink);
  sink->arena = arena;
  return sink;
}

uint32_t ir_sink_source(ir_sink *sink, const char *name, const char *text, size_t length) {
  if (!sink) return 0;
  ir_source source = {ir_strdup(sink->arena, name), ir_strndup(sink->arena, text, length), length};
  IR_PUSH(sink->arena, &sink->sources, source);
  return (uint32_t)sink->sources.count;
}

static ir_diag *scratch(ir_diag_id id) {
  static _Thread_local ir_diag unread;
  unread = (ir_diag){.id = id, .severity = ir_diag_rows[id].severity, .text = ""};
  return &unread;
}

static const char *format_in(ir_arena *arena, const char *format, va_list args) {
  ir_text text = ir_text_new(arena);
  ir_text_vprintf(&text, format, args);
  return text.data;
}

ir_diag *ir_diag_add(ir_sink *sink, ir_diag_id id, ir_span span, const char *format, ...) {
  if (!sink) return scratch(id);
  ir_diag *diag = IR_NEW(sink->arena, ir_diag);
  diag->id = id;
  diag->severity = ir_diag_rows[id].severity;
  if (sink->werror && diag->severity == IR_WARNING) diag->severity = IR_ERROR;
  diag->span = span;
  va_list args;
  va_start(args, format);
  diag->text = format_in(sink->arena, format, args);
  va_end(args);
  sink->errors += diag->severity == IR_ERROR;
  sink->warnings += diag->severity == IR_WARNING;
  if (sink->diags.count < MOST_KEPT) IR_PUSH(sink->arena, &sink->diags, diag);
  return diag;
}

void ir_diag_note(ir_sink *sink, ir_diag *diag, ir_span span, const char *format, ...) {
  if (!sink) return;
  ir_note note = {.span = span};
  va_list args;
  va_start(args, format);
  note.text = format_in(sink->arena, format, args);
  va_end(args);
  IR_PUSH(sink->arena, &diag->notes, note);
}

void ir_diag_fix(ir_sink *sink, ir_diag *diag, ir_span span, const char *code, const char *format,
                 ...) {
  if (!sink) return;
  va_list args;
  va_start(args, format);
  diag->fix_text = format_in(sink->arena, format, args);
  va_end(args);
  diag->fix_code = ir_strdup(sink->arena, code);
  diag->fix_span = span;
}

void ir_span_place(const ir_sink *sink, ir_span span, const char **file, int *line, int *column) {
  *file = NULL;
  *line = *column = 0;
  if (!sink || span.file == 0 || span.file > (uint32_t)sink->sources.count) return;
  const ir_source *source = &sink->sources.at[span.file - 1];
  size_t end = span.begin < source->length ? span.begin : source->length;
  *file = source->name;
  *line = *column = 1;
  for (size_t i = 0; i < end; i++) {
    if (source->text[i] == '\n') {
      ++*line;
      *column = 1;
    } else {
      ++*column;
    }
  }
}

/* ---- the nearest name ---------------------------------------------------------------------- */
static int smaller(int a, int b) { return a < b ? a : b; }

static char lower_case(char c) { return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c; }

static bool same_but_case(const char *a, const char *b) {
  while (*a && lower_case(*a) == lower_case(*b)) a++, b++;
  return *a == *b;
}

/* Edits that turn a into b: insert, delete, replace, swap two neighbours. */
static int edit_distance(const char *a, int n, const char *b, int m) {
  int row[3][MOST_NAME + 1];
  for (int j = 0; j <= m; j++) row[0][j] = j;
  for (int i = 1; i <= n; i++) {
    int *now = row[i % 3], *last = row[(i + 2) % 3], *before = row[(i + 1) % 3];
    now[0] = i;
    for (int j = 1; j <= m; j++) {
      now[j] = smaller(smaller(last[j], now[j - 1]) + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        now[j] = smaller(now[j], before[j - 2] + 1);
    }
  }
  return row[n % 3][m];
}

static int name_distance(const char *a, const char *b) {
  size_t n = strlen(a), m = strlen(b);
  if (n > MOST_NAME || m > MOST_NAME) return MOST_NAME + 1;
  if (same_but_case(a, b)) return 0;
  return edit_distance(a, (int)n, b, (int)m);
}

const char *ir_nearest(const char *name, const char *const *known, int count) {
  size_t length = strlen(name);
  int limit = length < 2 ? 0 : length < 6 ? 1 : length > MOST_NAME ? -1 : (int)(length / 3);
  const char *best = NULL;
  for (int i = 0; i < count; i++) {
    int distance = known[i] ? name_distance(name, known[i]) : MOST_NAME + 1;
    if (distance > limit) continue;
    best = known[i];
    limit = distance - 1;
  }
  return best;
}
