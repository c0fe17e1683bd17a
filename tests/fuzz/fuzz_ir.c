/* fuzz_ir.c - any bytes as IR text: reading and verifying never crash; what is accepted prints,
 * reads back to the same text, can be cloned and drawn, and runs interpreted: statements by the
 * reference, stages and functions as they are written. */
#include <setjmp.h>
#include <stdlib.h>

#include "ir/loop.h"
#include "tests/fuzz/run_small.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_round_trip(ir_arena *arena, const ir_program *program) {
  ir_text first = ir_text_new(arena), second = ir_text_new(arena), drawn = ir_text_new(arena);
  ir_program *again = NULL;
  ir_print(program, &first);
  if (ir_parse(arena, "again", first.data, first.length, NULL, &again) != SPC_OK) abort();
  ir_print(again, &second);
  if (strcmp(first.data, second.data)) abort();
  if (!ir_clone(arena, program)) abort();
  ir_print_dot(program, &drawn);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ir_arena *arena = ir_arena_new();
  jmp_buf no_memory;
  if (!arena || setjmp(no_memory)) {
    ir_arena_free(arena);
    return 0;
  }
  ir_arena_guard(arena, &no_memory);
  ir_sink *sink = ir_sink_new(arena);
  ir_program *program = NULL;
  ir_text messages = ir_text_new(arena);
  spc_status status = ir_parse(arena, "fuzz", (const char *)data, size, sink, &program);
  if ((status == SPC_OK) != (sink->errors == 0)) abort();
  if (status == SPC_OK) check_round_trip(arena, program);
  for (int k = 0; status == SPC_OK && k < program->kernels.count; k++)
    (void)run_small(arena, program->kernels.at[k], sink);
  ir_sink_render(sink, &messages, true);
  ir_sink_render_json(sink, &messages);
  ir_arena_free(arena);
  return 0;
}
