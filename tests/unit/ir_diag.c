/* Diagnostics: the table, the sink, the nearest name, text and JSON. */
#include <criterion/criterion.h>

#include "ir/diag.h"

static ir_arena *arena;
static void set_up(void) { arena = ir_arena_new(); }
static void tear_down(void) { ir_arena_free(arena); }
TestSuite(ir_diag, .init = set_up, .fini = tear_down);

static ir_span span_of(uint32_t file, const char *text, const char *part) {
  uint32_t begin = (uint32_t)(strstr(text, part) - text);
  return (ir_span){file, begin, begin + (uint32_t)strlen(part)};
}

static const char *rendered(const ir_sink *sink) {
  ir_text out = ir_text_new(arena);
  ir_sink_render(sink, &out, false);
  return out.data;
}

Test(ir_diag, rows) {
  for (int i = 0; i < IR_DIAG_COUNT; i++) {
    const ir_diag_row *row = &ir_diag_rows[i];
    cr_assert_eq(ir_diag_find(row->code), row, "%s: code %s is used twice", row->name, row->code);
    cr_assert(strchr("EWRM", row->code[0]) && strlen(row->code) == 5, "%s", row->code);
    cr_assert_eq("EWRM"[row->severity], row -> code[0], "%s", row->code);
    cr_assert(strlen(row->help) > 20 && strlen(row->title) < 80, "%s", row->code);
  }
  cr_assert_null(ir_diag_find("E9999"));
}

Test(ir_diag, text_with_caret_note_and_fix) {
  const char *text = "spx 1;\nlet h[t,f] = relu(x[t,d]);\n";
  ir_sink *sink = ir_sink_new(arena);
  uint32_t file = ir_sink_source(sink, "ffn.spx", text, strlen(text));
  ir_diag *d = ir_diag_add(sink, IR_DIAG_SYNTAX, span_of(file, text, "x[t,d]"), "index `%s`", "d");
  ir_diag_note(sink, d, IR_NOWHERE, "only on the right");
  ir_diag_fix(sink, d, d->span, "sum[d] ", "write `sum[d] ` here");
  cr_assert_str_eq(rendered(sink), "ffn.spx:2:19: error[E0101]: index `d`\n"
                                   "    2 | let h[t,f] = relu(x[t,d]);\n"
                                   "      |                   ^~~~~~\n"
                                   "  note: only on the right\n"
                                   "  fix: write `sum[d] ` here\n");
}

/* Notes and fixes of a remark follow on its line; a warning has its source line like an error. */
Test(ir_diag, remarks_take_one_line) {
  const char *text = "let h = silu(x);\n";
  ir_sink *sink = ir_sink_new(arena);
  uint32_t file = ir_sink_source(sink, "ffn.spx", text, strlen(text));
  ir_diag *missed =
      ir_diag_add(sink, IR_DIAG_NO_EXACT_ZEROS, span_of(file, text, "h"), "no zeros in `h`");
  ir_diag_note(sink, missed, span_of(file, text, "silu"), "silu gives small values");
  ir_diag_add(sink, IR_DIAG_SAMPLED, span_of(file, text, "h"), "`h` is sampled");
  cr_assert_str_eq(rendered(sink),
                   "ffn.spx:1:5: missed[M0401]: no zeros in `h`; silu gives small values\n"
                   "ffn.spx:1:5: remark[R0401]: `h` is sampled\n");
}

Test(ir_diag, long_lines_are_cut_around_the_caret) {
  char text[2000];
  memset(text, 'a', sizeof text);
  text[1000] = '!';
  ir_sink *sink = ir_sink_new(arena);
  uint32_t file = ir_sink_source(sink, "f", text, sizeof text);
  ir_diag_add(sink, IR_DIAG_SYNTAX, (ir_span){file, 1000, 1001}, "here");
  const char *line = strchr(rendered(sink), '\n') + 1, *marks = strchr(line, '\n') + 1;
  cr_assert_leq(strcspn(line, "\n"), 120 + 8);
  cr_assert_eq(line[strchr(marks, '^') - marks], '!');
}

Test(ir_diag, bytes_that_do_not_print_are_escaped) {
  const char *text = "a\x01\tb\xff\xe2\x80\xae z";
  ir_sink *sink = ir_sink_new(arena);
  uint32_t file = ir_sink_source(sink, "f\x1b[2J", text, strlen(text));
  ir_diag_add(sink, IR_DIAG_SYNTAX, span_of(file, text, "z"), "name `\x07`");
  const char *out = rendered(sink);
  cr_assert(strstr(out, "f\\x1b[2J:1:"));
  cr_assert(strstr(out, "name `\\x07`"));
  cr_assert(strstr(out, "a\\x01 b\\xff\\u{202e} z"));
  const char *line = strchr(out, '\n') + 1, *marks = strchr(line, '\n') + 1;
  cr_assert_eq(line[strchr(marks, '^') - marks], 'z');
}

Test(ir_diag, output_ends_with_a_count) {
  ir_sink *sink = ir_sink_new(arena);
  for (int i = 0; i < 700; i++) ir_diag_add(sink, IR_DIAG_SYNTAX, IR_NOWHERE, "fault %d", i);
  const char *out = rendered(sink);
  cr_assert_eq(sink->errors, 700);
  cr_assert(strstr(out, "fault 19\n") && !strstr(out, "fault 20\n"));
  cr_assert(strstr(out, "680 more errors are not shown\n"));
  sink = ir_sink_new(arena);
  char long_text[800];
  memset(long_text, 'x', sizeof long_text);
  for (int i = 0; i < 10; i++) ir_diag_add(sink, IR_DIAG_SYNTAX, IR_NOWHERE, "%.799s", long_text);
  out = rendered(sink);
  cr_assert_leq(strlen(out), 4095);
  cr_assert(strstr(out, "more errors are not shown\n"));
}

Test(ir_diag, json_lines) {
  const char *text = "let \"x\";";
  ir_sink *sink = ir_sink_new(arena);
  uint32_t file = ir_sink_source(sink, "a\"b", text, strlen(text));
  ir_diag *d = ir_diag_add(sink, IR_DIAG_SYNTAX, (ir_span){file, 4, 7}, "a\nb\x01");
  ir_diag_note(sink, d, IR_NOWHERE, "n");
  ir_text out = ir_text_new(arena);
  ir_sink_render_json(sink, &out);
  cr_assert_str_eq(
      out.data,
      "{\"code\":\"E0101\",\"name\":\"SYNTAX\",\"severity\":\"error\",\"message\":\"a\\nb\\\\x01\","
      "\"file\":\"a\\\"b\",\"line\":1,\"column\":5,\"end_line\":1,\"end_column\":8,\"begin\":4,"
      "\"end\":7,"
      "\"notes\":[{\"message\":\"n\"}]}\n");
}

Test(ir_diag, werror_and_no_sink) {
  ir_diag_id warning = IR_DIAG_COUNT;
  for (int i = 0; i < IR_DIAG_COUNT; i++)
    if (ir_diag_rows[i].severity == IR_WARNING) warning = (ir_diag_id)i;
  cr_assert_neq(warning, IR_DIAG_COUNT);
  ir_sink *sink = ir_sink_new(arena);
  ir_diag_add(sink, warning, IR_NOWHERE, "w");
  cr_assert(sink->warnings == 1 && sink->errors == 0);
  sink->werror = true;
  cr_assert_eq(ir_diag_add(sink, warning, IR_NOWHERE, "w")->severity, IR_ERROR);
  cr_assert(sink->warnings == 1 && sink->errors == 1);
  ir_diag *unread = ir_diag_add(NULL, IR_DIAG_SYNTAX, IR_NOWHERE, "x");
  cr_assert_not_null(unread);
  ir_diag_note(NULL, unread, IR_NOWHERE, "x");
  ir_diag_fix(NULL, unread, IR_NOWHERE, "x", "x");
}

Test(ir_diag, nearest_name) {
  static const char *const known[] = {"relu", "sigmoid", "softmax", "W1", "Wdown", "Tokens"};
  static const struct {
    const char *name, *near;
  } cases[] = {{"rleu", "relu"},
               {"sigmoyd", "sigmoid"},
               {"sofmtax", "softmax"},
               {"W2", "W1"},
               {"tokens", "Tokens"},
               {"completely", NULL},
               {"x", NULL},
               {"", NULL},
               {"wdown", "Wdown"}};
  for (int i = 0; i < IR_COUNT(cases); i++) {
    const char *near = ir_nearest(cases[i].name, known, IR_COUNT(known));
    if (cases[i].near)
      cr_assert_str_eq(near, cases[i].near);
    else
      cr_assert_null(near, "%s", cases[i].name);
  }
}
