/* driver_open.h - what every test of the public interface begins with: a text made into a plan. */
#ifndef SPC_TESTS_DRIVER_OPEN_H
#define SPC_TESTS_DRIVER_OPEN_H

#include <criterion/criterion.h>
#include <string.h>

#include "spc.h"

/* The plan of a kernel of the text, NULL: the only one; asserts that each step succeeds.  options:
 * NULL, the defaults. */
static inline spc_plan *open_kernel(const char *backend, int threads, const char *text,
                                    const char *kernel, const spc_program_options *options,
                                    spc_context **context, spc_program **program) {
  spc_error err = SPC_ERROR_INIT;
  spc_plan *plan;
  spc_context_options here = {.struct_size = sizeof here, .backend = backend, .threads = threads};
  cr_assert_eq(spc_context_new(&here, context, &err), SPC_OK, "%s", err.message);
  cr_assert_eq(spc_program_from_text(*context, text, strlen(text), options, program, &err), SPC_OK,
               "%s\n%s", err.message, err.diagnostics);
  cr_assert_eq(spc_plan_new(*program, kernel, NULL, 0, &plan, &err), SPC_OK, "%s", err.message);
  return plan;
}

static inline spc_plan *open_plan(const char *backend, int threads, const char *text,
                                  const spc_program_options *options, spc_context **context,
                                  spc_program **program) {
  return open_kernel(backend, threads, text, NULL, options, context, program);
}

static inline spc_tensor f32_matrix(const char *name, float *values, int64_t rows,
                                    int64_t columns) {
  spc_tensor t = {.struct_size = sizeof t, .name = name, .dtype = "f32", .rank = 2};
  t.shape[0] = rows;
  t.shape[1] = columns;
  t.values = values;
  t.value_count = rows * columns;
  return t;
}

static inline void close_plan(spc_plan *plan, spc_program *program, spc_context *context) {
  spc_plan_free(plan);
  spc_program_free(program);
  spc_context_free(context);
}

#endif
