/* passes_a_run.h - small programs through single passes, and what is left of them as text. */
#ifndef SPC_TESTS_PASSES_A_RUN_H
#define SPC_TESTS_PASSES_A_RUN_H

#include "passes/pass.h"

typedef struct a_run {
  ir_arena *arena;
  ir_sink *sink;
  ir_program *program;
  ir_kernel *kernel; /* the first */
  spc_status status;
} a_run;

/* Compiles `.spx` text and runs the named passes ("canon,propagate"; "" for none). */
a_run a_run_passes(const char *text, const char *passes);
a_run a_run_with(const char *text, const pass_options *options);
void a_free(a_run *run);

const char *a_stmt(const a_run *run, const char *tensor);  /* its printed statement, "" when gone */
const char *a_value(const a_run *run, const char *tensor); /* its value alone */
bool a_says(const a_run *run, const char *code); /* a diagnostic with that code was given */
const char *a_rendered(const a_run *run);        /* all diagnostics */

#endif
