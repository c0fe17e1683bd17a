/* tables.c - the tables of the house as Markdown.
 *
 * Columns are padded to their widest cell, so that a table reads well in a terminal too.  A `|` in
 * a cell is escaped. */
#include "ir/tables.h"

#include "ir/diag.h"
#include "ir/format.h"
#include "ir/op.h"

enum { MOST_COLUMNS = 10 };

/* Cells row by row; the first row is the head. */
typedef struct table {
  ir_arena *arena;
  int columns;
  IR_VEC(const char *) cells;
} table;

static table table_new(ir_arena *arena, int columns, const char *const *head) {
  table t = {.arena = arena, .columns = columns};
  for (int i = 0; i < columns; i++) IR_PUSH(arena, &t.cells, head[i]);
  return t;
}

static void add(table *t, const char *cell) {
  ir_text text = ir_text_new(t->arena);
  for (const char *c = cell; *c; c++) {
    if (*c == '|') ir_text_put(&text, "\\");
    ir_text_putn(&text, c, 1);
  }
  IR_PUSH(t->arena, &t->cells, text.data);
}

static void add_code(table *t, const char *cell) {
  add(t, cell[0] ? ir_format_text(t->arena, "`%s`", cell) : "");
}

static void put_cell(ir_text *out, const char *cell, int width) {
  ir_text_printf(out, "| %-*s ", width, cell);
}

static void put_rule(ir_text *out, const int *width, int columns) {
  for (int i = 0; i < columns; i++) {
    ir_text_put(out, "|");
    for (int k = 0; k < width[i] + 2; k++) ir_text_put(out, "-");
  }
  ir_text_put(out, "|\n");
}

static void put_table(ir_text *out, const table *t) {
  int width[MOST_COLUMNS] = {0};
  for (int i = 0; i < t->cells.count; i++) {
    int length = (int)strlen(t->cells.at[i]);
    if (length > width[i % t->columns]) width[i % t->columns] = length;
  }
  for (int i = 0; i < t->cells.count; i++) {
    int column = i % t->columns;
    put_cell(out, t->cells.at[i], width[column]);
    if (column == t->columns - 1) ir_text_put(out, "|\n");
    if (i == t->columns - 1) put_rule(out, width, t->columns);
  }
}

/* ---- ops and reducers ---------------------------------------------------------------------- */
static const char *const rule_names[] = {"keep", "union", "intersect", "left", "right", "dense"};
static const char *const result_names[] = {"same", "b1", "second"};

static const char *zero_text(ir_arena *arena, const ir_op_row *row) {
  static const char *const outcome[] = {"0", "x", "y", "?"};
  if (row->arity != 2) return outcome[row->zero[0]];
  return ir_format_text(arena, "%s %s %s", outcome[row->zero[0]], outcome[row->zero[1]],
                        outcome[row->zero[2]]);
}

static const char *operand_types(const ir_op_row *row) {
  return row->traits & IR_FLOAT_ONLY  ? "floats"
         : row->traits & IR_BOOL_ONLY ? "b1"
         : row->traits & IR_WORD_ONLY ? "i64"
                                      : "any";
}

static void put_ops(ir_text *out) {
  static const char *const head[] = {"op",    "operands", "of",     "result",
                                     "zeros", "pattern",  "meaning"};
  table t = table_new(out->arena, IR_COUNT(head), head);
  for (int op = 0; op < IR_OP_COUNT; op++) {
    const ir_op_row *row = &ir_op_rows[op];
    add_code(&t, row->mnemonic);
    add(&t, ir_format_text(out->arena, "%d", row->arity));
    add(&t, operand_types(row));
    add(&t, result_names[row->result]);
    add(&t, zero_text(out->arena, row));
    add(&t, rule_names[ir_op_rule((ir_op)op)]);
    add(&t, row->meaning);
  }
  put_table(out, &t);
}

static void put_reducers(ir_text *out) {
  static const char *const head[] = {"reducer", "over nothing", "meaning"};
  table t = table_new(out->arena, IR_COUNT(head), head);
  for (int r = 0; r < IR_RED_COUNT; r++) {
    add_code(&t, ir_reducer_rows[r].text);
    add(&t, ir_format_text(out->arena, "%g", ir_reducer_rows[r].identity));
    add(&t, ir_reducer_rows[r].meaning);
  }
  put_table(out, &t);
}

void ir_print_op_table(ir_text *out) {
  put_ops(out);
  ir_text_put(
      out,
      "\nZeros: what comes out when the operands are zero (two operands: both, the right one, the "
      "left one); `?` must be computed.\n\n");
  put_reducers(out);
}

/* ---- dtypes -------------------------------------------------------------------------------- */
void ir_print_dtype_table(ir_text *out) {
  static const char *const head[] = {"dtype",       "bits",     "bytes",
                                     "accumulator", "in files", "meaning"};
  table t = table_new(out->arena, IR_COUNT(head), head);
  for (int i = IR_NONE + 1; i < IR_DTYPE_COUNT; i++) {
    const ir_dtype_row *row = &ir_dtype_rows[i];
    add_code(&t, row->text);
    add(&t, ir_format_text(out->arena, "%d", row->bits));
    add(&t, ir_format_text(out->arena, "%d", row->bytes));
    add_code(&t, ir_dtype_text(row->accumulator));
    add_code(&t, row->npy);
    add(&t, row->meaning);
  }
  put_table(out, &t);
}

/* ---- levels and formats -------------------------------------------------------------------- */
static const char *const array_names[] = {"",    "pos",  "offsets",  "counts",
                                          "crd", "bits", "positions"};

static void put_levels(ir_text *out) {
  static const char *const head[] = {"level", "full", "compact", "arrays", "meaning"};
  table t = table_new(out->arena, IR_COUNT(head), head);
  for (int i = 0; i < IR_LEVEL_COUNT; i++) {
    const ir_level_row *row = &ir_level_rows[i];
    const char *pos = array_names[row->pos], *crd = array_names[row->crd];
    add_code(&t, row->text);
    add(&t, row->full ? "yes" : "no");
    add(&t, row->compact ? "yes" : "no");
    add(&t, ir_format_text(out->arena, "%s%s%s", pos, pos[0] && crd[0] ? ", " : "", crd));
    add(&t, row->meaning);
  }
  put_table(out, &t);
}

void ir_print_level_table(ir_text *out) { put_levels(out); }

/* ---- diagnostics --------------------------------------------------------------------------- */
static const char *const severity_names[] = {"error", "warning", "remark", "missed"};

/* The least code greater than `after`; NULL when there is none. */
static const ir_diag_row *next_by_code(const char *after) {
  const ir_diag_row *next = NULL;
  for (int i = 0; i < IR_DIAG_COUNT; i++) {
    const ir_diag_row *row = &ir_diag_rows[i];
    if (strcmp(row->code, after) > 0 && (!next || strcmp(row->code, next->code) < 0)) next = row;
  }
  return next;
}

void ir_print_diag_table(ir_text *out) {
  static const char *const head[] = {"code", "severity", "title"};
  table t = table_new(out->arena, IR_COUNT(head), head);
  for (const ir_diag_row *row = next_by_code(""); row; row = next_by_code(row->code)) {
    add_code(&t, row->code);
    add(&t, severity_names[row->severity]);
    add(&t, row->title);
  }
  put_table(out, &t);
}
