/* diag.h - diagnostics: what a room says about the user's program, collected in a sink.
 *
 * A diagnostic has a stable id (a row of diag.def), a message made for this case, a source span,
 * notes and at most one fix.  Rooms add; only the driver renders.  Every sink pointer in the house
 * may be NULL: then the detail is dropped and the status alone tells. */
#ifndef SPC_IR_DIAG_H
#define SPC_IR_DIAG_H

#include "ir/base.h"

typedef enum ir_severity { IR_ERROR, IR_WARNING, IR_REMARK, IR_MISSED } ir_severity;

typedef enum ir_diag_id {
#define SPC_DIAG(NAME, CODE, SEVERITY, TITLE, HELP) IR_DIAG_##NAME,
#include "ir/diag.def"
#undef SPC_DIAG
  IR_DIAG_COUNT
} ir_diag_id;

typedef struct ir_diag_row {
  const char *name, *code; /* "UNBOUND_INDEX", "E0201" */
  ir_severity severity;
  const char *title, *help; /* one line; the long text of `spc explain E0201` */
} ir_diag_row;
extern const ir_diag_row ir_diag_rows[IR_DIAG_COUNT];
const ir_diag_row *ir_diag_find(const char *code); /* NULL when there is none */

/* A piece of source text: bytes [begin, end) of a file of the sink; file 0 = no place. */
typedef struct ir_span {
  uint32_t file, begin, end;
} ir_span;
static const ir_span IR_NOWHERE = {0, 0, 0};

typedef struct ir_note {
  ir_span span;
  const char *text;
} ir_note;

typedef struct ir_diag {
  ir_diag_id id;
  ir_severity severity;
  ir_span span;
  const char *text;
  IR_VEC(ir_note) notes;
  const char *fix_text, *fix_code; /* "write the sum", "sum[d] " ; NULL when there is no fix */
  ir_span fix_span;                /* the text that fix_code replaces; empty = insertion */
} ir_diag;

typedef struct ir_source {
  const char *name, *text;
  size_t length;
} ir_source;

typedef struct ir_sink {
  ir_arena *arena;
  IR_VEC(ir_source) sources; /* file n is sources.at[n - 1] */
  IR_VEC(ir_diag *) diags;
  int errors, warnings;
  bool werror;
} ir_sink;

ir_sink *ir_sink_new(ir_arena *arena);
uint32_t ir_sink_source(ir_sink *sink, const char *name, const char *text, size_t length);

/* Adds a diagnostic; the result is never NULL (a scratch one when sink is NULL). */
ir_diag *ir_diag_add(ir_sink *sink, ir_diag_id id, ir_span span, const char *format, ...)
    IR_PRINTF(4, 5);
void ir_diag_note(ir_sink *sink, ir_diag *diag, ir_span span, const char *format, ...)
    IR_PRINTF(4, 5);
void ir_diag_fix(ir_sink *sink, ir_diag *diag, ir_span span, const char *code, const char *format,
                 ...) IR_PRINTF(5, 6);

/* Line and column (both from 1, columns in bytes) of a span's start. */
void ir_span_place(const ir_sink *sink, ir_span span, const char **file, int *line, int *column);

/* `file:line:col: error[E0201]: text`, source line cut to 120 columns, caret, notes, fix; at most
 * 20 errors and 4 kB, then a count.  JSON: one object a line, nothing cut. */
void ir_sink_render(const ir_sink *sink, ir_text *out, bool colour);
void ir_sink_render_json(const ir_sink *sink, ir_text *out);

/* The known name nearest to `name` (edit distance at most a third of it), or NULL. */
const char *ir_nearest(const char *name, const char *const *known, int count);

#endif
