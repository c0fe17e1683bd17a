/* passes_a_run.c - see passes_a_run.h. */
#include "frontend/frontend.h"
#include "tests/unit/passes_a_run.h"

a_run a_run_with(const char *text, const pass_options *options) {
  a_run run = {.arena = ir_arena_new()};
  run.sink = ir_sink_new(run.arena);
  fe_options none = {0};
  run.status = fe_compile(run.arena, "test.spx", text, strlen(text), &none, run.sink, &run.program);
  if (run.status != SPC_OK) return run;
  run.kernel = run.program->kernels.at[0];
  if (options->passes == NULL || options->passes[0] != '\0')
    run.status = pass_pipeline(run.program, options, run.sink);
  return run;
}

a_run a_run_passes(const char *text, const char *passes) {
  pass_options options = {.target = ir_target_find("cpu"), .passes = passes};
  return a_run_with(text, &options);
}

void a_free(a_run *run) { ir_arena_free(run->arena); }

static const ir_stmt *find(const a_run *run, const char *tensor) {
  if (run->kernel == NULL) return NULL;
  for (int i = 0; i < run->kernel->stmts.count; i++)
    if (strcmp(run->kernel->stmts.at[i]->target->name, tensor) == 0)
      return run->kernel->stmts.at[i];
  return NULL;
}

const char *a_stmt(const a_run *run, const char *tensor) {
  const ir_stmt *stmt = find(run, tensor);
  ir_text text = ir_text_new(run->arena);
  if (stmt != NULL) ir_print_stmt(stmt, &text);
  return text.data;
}

const char *a_value(const a_run *run, const char *tensor) {
  const ir_stmt *stmt = find(run, tensor);
  ir_text text = ir_text_new(run->arena);
  if (stmt != NULL) ir_print_expr(stmt->value, &text);
  return text.data;
}

bool a_says(const a_run *run, const char *code) {
  for (int i = 0; i < run->sink->diags.count; i++)
    if (strcmp(ir_diag_rows[run->sink->diags.at[i]->id].code, code) == 0) return true;
  return false;
}

const char *a_rendered(const a_run *run) {
  ir_text text = ir_text_new(run->arena);
  ir_sink_render(run->sink, &text, false);
  return text.data;
}
