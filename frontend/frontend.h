/* frontend.h - `.spx` text to the ein dialect.
 *
 * fe_parse makes the syntax tree and reports every syntax error it can recover from; fe_check binds
 * names, infers dtypes and sizes and applies the rules of LANGUAGE.md; fe_lower builds the IR.
 * fe_compile does all three.  Diagnostics go to the sink; the status tells whether to go on. */
#ifndef SPC_FRONTEND_FRONTEND_H
#define SPC_FRONTEND_FRONTEND_H

#include "ir/ir.h"

typedef struct fe_file fe_file; /* the syntax tree (ast.h) */

/* -D NAME=VALUE: overrides a fixed dim before checking, or fixes a dyn one for this compile when
 * `fix_dyn` is set (tests); a run-time size of a dyn dim is not given here. */
typedef struct fe_define {
  const char *name;
  int64_t value;
} fe_define;
typedef struct fe_options {
  const fe_define *defines;
  int define_count;
} fe_options;

spc_status fe_parse(ir_arena *arena, const char *name, const char *text, size_t length,
                    ir_sink *sink, fe_file **out);
spc_status fe_lower(ir_arena *arena, fe_file *file, const fe_options *options, ir_sink *sink,
                    ir_program **out); /* checks, then lowers */
spc_status fe_compile(ir_arena *arena, const char *name, const char *text, size_t length,
                      const fe_options *options, ir_sink *sink, ir_program **out);
void fe_format(const fe_file *file, const char *source,
               ir_text *out); /* canonical text, comments kept */
/* --emit=ast; of one kernel, with the dims and formats of the file, or of all (NULL). */
void fe_print_ast(const fe_file *file, const char *kernel, ir_text *out);

/* `test` blocks as data, for `spc check`. */
typedef struct fe_source { /* a generator or a literal */
  const char *generator;   /* "rand", "iota", ...; NULL: literal */
  double args[4];
  int arg_count;
  double *literal; /* row-major values of a (nested) list or of one number */
  int literal_rank;
  int64_t literal_dim[IR_MAX_RANK];
  ir_span span;
} fe_source;
typedef struct fe_set {
  const char *name;
  bool is_size;
  int64_t size;
  fe_source source;
  ir_span span;
} fe_set;
typedef struct fe_expect {
  const char *name;
  bool against_ref;
  fe_source source;
  double rtol;
  ir_span span;
} fe_expect;
typedef struct fe_test {
  const char *kernel;
  IR_VEC(fe_set) sets;
  IR_VEC(fe_expect) expects;
  bool broken;  /* a line did not parse: what it would have set is unknown */
  ir_span span; /* of the kernel's name */
} fe_test;
int fe_test_count(const fe_file *file);
const fe_test *fe_test_at(const fe_file *file, int i);

#endif
