/* frontend_compile.h - compiling a text in a test, and what came of it. */
#ifndef SPC_TESTS_FRONTEND_COMPILE_H
#define SPC_TESTS_FRONTEND_COMPILE_H

#include <criterion/criterion.h>

#include "frontend/frontend.h"

typedef struct compiled {
  ir_arena *arena;
  ir_sink *sink;
  ir_program *program; /* NULL after errors */
  spc_status status;
} compiled;

static inline compiled compile_with(const char *text, size_t length, const fe_define *defines,
                                    int count) {
  compiled c = {.arena = ir_arena_new()};
  fe_options options = {defines, count};
  c.sink = ir_sink_new(c.arena);
  c.status = fe_compile(c.arena, "test.spx", text, length, &options, c.sink, &c.program);
  return c;
}

static inline compiled compile(const char *text) {
  return compile_with(text, strlen(text), NULL, 0);
}

static inline const char *messages(const compiled *c) {
  ir_text text = ir_text_new(c->arena);
  ir_sink_render(c->sink, &text, false);
  return text.data;
}

static inline const char *printed(const compiled *c) {
  ir_text text = ir_text_new(c->arena);
  ir_print(c->program, &text);
  return text.data;
}

static inline void done(compiled *c) { ir_arena_free(c->arena); }

#endif
