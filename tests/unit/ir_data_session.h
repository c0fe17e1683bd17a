/* ir_data_session.h - a .spx kernel, its inputs as lists of numbers, and the interpreter over them.
 */
#ifndef SPC_TESTS_IR_DATA_SESSION_H
#define SPC_TESTS_IR_DATA_SESSION_H

#include <criterion/criterion.h>
#include <math.h>

#include "frontend/frontend.h"
#include "ir/compare.h"
#include "ir/interp.h"

typedef struct session {
  ir_arena *arena;
  ir_sink *sink;
  ir_program *program;
  ir_kernel *kernel;
  int64_t sizes[16];
  ir_bindings bindings;
  ir_interp_options options;
} session;

static inline const char *session_messages(session *s) {
  ir_text text = ir_text_new(s->arena);
  ir_sink_render(s->sink, &text, false);
  return text.data;
}

static inline session session_open(const char *text) {
  session s = {.arena = ir_arena_new()};
  s.sink = ir_sink_new(s.arena);
  spc_status status = fe_compile(s.arena, "test.spx", text, strlen(text), NULL, s.sink, &s.program);
  cr_assert_eq(status, SPC_OK, "%s\n%s", text, session_messages(&s));
  s.kernel = s.program->kernels.at[0];
  for (int i = 0; i < 16; i++) s.sizes[i] = -1;
  return s;
}

/* Values row-major; zeros of the list are not stored in a sparse format. */
static inline void session_bind(session *s, const char *name, const double *values, int rank,
                                const int64_t *dims) {
  ir_tensor *tensor = ir_tensor_named(s->kernel, name);
  ir_view dense, view;
  const char *why = "";
  cr_assert(tensor, "%s", name);
  ir_view_dense(s->arena, tensor->dtype ? tensor->dtype : IR_U8, rank, dims, &dense);
  for (int64_t i = 0; i < dense.vals.count; i++)
    ir_dtype_store(dense.dtype, dense.vals.data, i, values[i]);
  cr_assert_eq(ir_view_convert(s->arena, &dense, tensor->format, IR_I32, &view, &why), SPC_OK,
               "%s: %s", name, why);
  if (!tensor->dtype) view.dtype = IR_NONE, view.vals = (ir_array){0};
  ir_binding binding = {tensor, view};
  IR_PUSH(s->arena, &s->bindings.list, binding);
}

static inline spc_status session_run(session *s) {
  spc_status status = ir_solve_sizes(s->kernel, &s->bindings, s->sizes, s->sink);
  return status ? status
                : ir_interp_ein(s->arena, s->kernel, s->sizes, &s->bindings, &s->options, s->sink);
}

static inline ir_view *session_view(session *s, const char *name) {
  for (int i = 0; i < s->bindings.list.count; i++)
    if (!strcmp(s->bindings.list.at[i].tensor->name, name)) return &s->bindings.list.at[i].view;
  cr_assert(false, "no tensor %s", name);
  return NULL;
}

static inline void session_expect(session *s, const char *name, const double *want) {
  ir_view *v = session_view(s, name);
  int64_t at[IR_MAX_RANK] = {0}, n = ir_view_elements(v);
  for (int64_t i = 0; i < n; i++) {
    int64_t rest = i;
    for (int d = v->rank - 1; d >= 0; d--) at[d] = rest % v->dim[d], rest /= v->dim[d];
    double got = ir_view_value(v, at);
    bool same = (isnan(got) && isnan(want[i])) || got == want[i] ||
                fabs(got - want[i]) <= 1e-6 * fabs(want[i]);
    cr_assert(same, "%s[%lld] is %.9g, not %.9g", name, (long long)i, got, want[i]);
  }
}

static inline void session_close(session *s) { ir_arena_free(s->arena); }

#define D(...) ((const double[]){__VA_ARGS__})
#define S(...) ((const int64_t[]){__VA_ARGS__})

#endif
