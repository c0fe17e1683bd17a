/* Fuzz target: `.spx` text.  Whatever it is, it compiles or is refused with a reason, the status
 * and the program agree, a compiled program verifies, and the canonical form is one. */
#include <stdlib.h>

#include "frontend/frontend.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds) {
  if (!holds) abort();
}

static ir_text formatted(ir_arena *arena, const char *text, size_t length, spc_status *status) {
  fe_file *file = NULL;
  ir_text out = ir_text_new(arena);
  *status = fe_parse(arena, "fuzz.spx", text, length, NULL, &file);
  if (file) fe_format(file, text, &out);
  return out;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *text = (const char *)data;
  ir_arena *arena = ir_arena_new();
  ir_sink *sink = ir_sink_new(arena);
  ir_program *program = NULL;
  ir_text messages = ir_text_new(arena);
  spc_status status = fe_compile(arena, "fuzz.spx", text, size, NULL, sink, &program), parsed,
             again;
  check((status == SPC_OK) == (program != NULL));
  check((status == SPC_OK) == (sink->errors == 0));
  if (program) check(ir_verify(program, sink) == SPC_OK);
  ir_sink_render(sink, &messages, false);
  ir_text once = formatted(arena, text, size, &parsed);
  if (parsed == SPC_OK) {
    ir_text twice = formatted(arena, once.data, once.length, &again);
    check(again == SPC_OK && !strcmp(once.data, twice.data));
  }
  ir_arena_free(arena);
  return 0;
}
