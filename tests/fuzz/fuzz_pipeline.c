/* Fuzz target: a line of switches, then a program (`.spx` or a dump), through the passes and the
 * printers of code.
 *
 * The line is words, as the command line has them: `sm_90a --passes=canon,propagate
 * --disable-pass=fuse
 * --start-at=stage --stop-after=lower --strict-nan --guard=2`; no line: the CPU's pipeline.  Passes
 * never answer an internal error, what they leave verifies, the dump reads back to the same text,
 * and every kernel can be explained.  Programs that came as `.spx` become CUDA text or LLVM IR, and
 * run interpreted, without an internal error: no code that was made reads outside its arrays. */
#include <setjmp.h>
#include <stdlib.h>

#include "codegen/codegen.h"
#include "frontend/frontend.h"
#include "passes/explain.h"
#include "passes/pass.h"
#include "tests/fuzz/run_small.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds) {
  if (!holds) abort();
}

static void read_word(ir_arena *arena, const char *word, pass_options *o, ir_target *target) {
  const char *value = strchr(word, '=');
  value = value ? value + 1 : "";
  if (ir_target_find(word)) *target = *ir_target_find(word);
  if (!strncmp(word, "--passes=", 9)) o->passes = value;
  if (!strncmp(word, "--start-at=", 11)) o->start_at = value;
  if (!strncmp(word, "--stop-after=", 13)) o->stop_after = value;
  if (!strncmp(word, "--disable-pass=", 15)) o->disable = value;
  if (!strcmp(word, "--strict-nan")) o->strict_nan = true;
  if (!strcmp(word, "--reproducible")) o->reproducible = true;
  if (!strcmp(word, "--batch-invariant")) o->batch_invariant = true;
  if (!strncmp(word, "--guard=", 8)) o->force_guard = *value == '1' ? 1 : *value == '2' ? 2 : 0;
  (void)arena;
}

static size_t read_line(ir_arena *arena, const char *text, size_t size, pass_options *o,
                        ir_target *target) {
  const char *newline = memchr(text, '\n', size);
  if (size < 2 || (text[0] != '-' && text[0] != 's' && text[0] != 'c') ||
      !strncmp(text, "spx", size < 3 ? size : 3) || !newline)
    return 0;
  size_t length = (size_t)(newline - text);
  char *line = ir_strndup(arena, text, length);
  for (size_t at = 0; at < length;) {
    size_t n = strcspn(line + at, " ");
    line[at + n] = 0;
    read_word(arena, line + at, o, target);
    at += n + 1;
  }
  return length + 1;
}

static void check_text(ir_arena *arena, const ir_program *program) {
  ir_text first = ir_text_new(arena), second = ir_text_new(arena);
  ir_program *again = NULL;
  ir_print(program, &first);
  check(ir_parse(arena, "again", first.data, first.length, NULL, &again) == SPC_OK);
  ir_print(again, &second);
  check(!strcmp(first.data, second.data));
}

static void explain(ir_arena *arena, const ir_program *program, const ir_kernel *kernel) {
  ir_text text = ir_text_new(arena);
  pass_explain(program, kernel, &text);
  pass_explain_json(program, kernel, &text);
  pass_explain_schedule(program, kernel, &text);
  pass_explain_line(program, kernel, &text);
}

/* Code for the kernel, and on the CPU a run of it. */
static spc_status make_code(ir_arena *arena, ir_kernel *kernel, const ir_target *target,
                            ir_sink *sink) {
  cg_options options = {.target = target, .mcpu = "haswell"};
  ir_image *image;
  ir_text text = ir_text_new(arena);
  if (!kernel->stages.count) return SPC_OK;
  if (target->kind == IR_TARGET_CUDA) return cg_cuda_emit(arena, kernel, &options, sink, &image);
  spc_status status = cg_cpu_available() && kernel->funcs.count
                          ? cg_cpu_text(arena, kernel, NULL, "llvm", &options, sink, &text)
                          : SPC_OK;
  return status ? status : run_small(arena, kernel, sink);
}

static void run(ir_arena *arena, const char *text, size_t size) {
  ir_sink *sink = ir_sink_new(arena);
  ir_program *program = NULL;
  ir_target target = *ir_target_find("cpu");
  pass_options options = {.target = &target, .verify_each = true};
  fe_options none = {0};
  size_t used = read_line(arena, text, size, &options, &target);
  text += used, size -= used;
  bool dump = ir_looks_like_ir(text, size);
  spc_status status = dump ? ir_parse(arena, "fuzz.ir", text, size, sink, &program)
                           : fe_compile(arena, "fuzz.spx", text, size, &none, sink, &program);
  if (!status) status = pass_pipeline(program, &options, sink);
  for (int k = 0; !status && k < program->kernels.count; k++) {
    explain(arena, program, program->kernels.at[k]);
    spc_status made = make_code(arena, program->kernels.at[k], &target, sink);
    if (made == SPC_INTERNAL && !dump) status = made;
  }
  ir_text messages = ir_text_new(arena);
  ir_sink_render(sink, &messages, false);
  if (status == SPC_INTERNAL) fputs(messages.data, stderr);
  check(status != SPC_INTERNAL);
  if (!status) check_text(arena, program);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ir_arena *arena = ir_arena_new();
  jmp_buf no_memory;
  if (arena && !setjmp(no_memory)) {
    ir_arena_guard(arena, &no_memory);
    run(arena, (const char *)data, size);
  }
  ir_arena_free(arena);
  return 0;
}
