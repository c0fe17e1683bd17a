/* docs/ir.md: each program in it parses, keeps the rules, and is printed as it stands there.
 * tables.h: every row of the tables is in what is printed. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "ir/loop.h"
#include "ir/tables.h"

static char *read_page(ir_arena *arena, const char *page) {
  char *path = ir_format_text(arena, "%s/docs/%s", SPC_SOURCE_DIR, page);
  FILE *file = fopen(path, "rb");
  cr_assert_not_null(file, "%s", path);
  char *text = ir_alloc(arena, 1 << 20);
  size_t length = fread(text, 1, (1 << 20) - 1, file);
  fclose(file);
  cr_assert_gt(length, 0);
  return text;
}

Test(ir_docs, programs_print_as_they_stand) {
  ir_arena *arena = ir_arena_new();
  int programs = 0;
  for (char *at = strstr(read_page(arena, "ir.md"), "```ir\n"); at; at = strstr(at, "```ir\n")) {
    char *begin = at + strlen("```ir\n"), *end = strstr(begin, "```");
    char *text = ir_strndup(arena, begin, (size_t)(end - begin));
    ir_program *program = NULL;
    ir_sink *sink = ir_sink_new(arena);
    spc_status status = ir_parse(arena, "docs/ir.md", text, strlen(text), sink, &program);
    ir_text messages = ir_text_new(arena), again = ir_text_new(arena);
    ir_sink_render(sink, &messages, false);
    cr_assert_eq(status, SPC_OK, "%s", messages.data);
    ir_print(program, &again);
    cr_assert_str_eq(again.data, text);
    programs++;
    at = end + 3;
  }
  cr_assert_eq(programs, 3);
  ir_arena_free(arena);
}

static void expect_row(const ir_text *table, const char *name) {
  cr_assert(strstr(table->data, ir_format_text(table->arena, "| `%s` ", name)), "%s", name);
}

Test(ir_docs, tables_have_every_row) {
  ir_arena *arena = ir_arena_new();
  ir_text ops = ir_text_new(arena), types = ir_text_new(arena), levels = ir_text_new(arena),
          diags = ir_text_new(arena);
  ir_print_op_table(&ops);
  ir_print_dtype_table(&types);
  ir_print_level_table(&levels);
  ir_print_diag_table(&diags);
  for (int i = 0; i < IR_OP_COUNT; i++) expect_row(&ops, ir_op_rows[i].mnemonic);
  for (int i = 0; i < IR_RED_COUNT; i++) expect_row(&ops, ir_reducer_rows[i].text);
  for (int i = IR_NONE + 1; i < IR_DTYPE_COUNT; i++) expect_row(&types, ir_dtype_rows[i].text);
  for (int i = 0; i < IR_LEVEL_COUNT; i++) expect_row(&levels, ir_level_rows[i].text);
  for (int i = 0; i < IR_DIAG_COUNT; i++) expect_row(&diags, ir_diag_rows[i].code);
  ir_arena_free(arena);
}
