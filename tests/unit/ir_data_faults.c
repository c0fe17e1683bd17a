/* Every fault of bindings and sizes is reported under its own code. */
#include "tests/unit/ir_data_session.h"

#define KERNEL                                                                                     \
  "spx 1; dim I: dyn <= 8; dim K: dyn; kernel k { in A: f32[I,K] as csr; in x: f32[K]; "           \
  "out y[i] = sum[k] A[i,k]*x[k]; }"

static ir_diag_id last_id(const session *s) {
  return s->sink->diags.at[s->sink->diags.count - 1]->id;
}

static session opened(int rows, int columns, int length) {
  session s = session_open(KERNEL);
  double values[256] = {0};
  session_bind(&s, "A", values, 2, S(rows, columns));
  session_bind(&s, "x", values, 1, S(length));
  return s;
}

static void expect_fault(session *s, ir_diag_id id) {
  cr_assert_neq(session_run(s), SPC_OK, "%s", ir_diag_rows[id].name);
  cr_assert_eq(last_id(s), id, "%s, not %s", session_messages(s), ir_diag_rows[id].name);
  session_close(s);
}

Test(ir_data_faults, each_has_its_code) {
  session s = opened(2, 3, 4);
  expect_fault(&s, IR_DIAG_SIZE_DISAGREES);
  s = opened(9, 3, 3);
  expect_fault(&s, IR_DIAG_SIZE_PROMISE);
  s = opened(2, 3, 3);
  s.bindings.list.count = 1;
  expect_fault(&s, IR_DIAG_BINDING); /* x is not bound */
  s = opened(2, 3, 3);
  s.bindings.list.at[1].view.dtype = IR_F64;
  expect_fault(&s, IR_DIAG_BINDING);
  s = opened(2, 3, 3);
  ((int32_t *)s.bindings.list.at[0].view.pos[1].data)[2] = 7;
  expect_fault(&s, IR_DIAG_STORAGE);
  s = session_open("spx 1; dim N: dyn; kernel k { out y[i] = 1.0 : f32[N]; }");
  expect_fault(&s, IR_DIAG_SIZE_UNKNOWN);
  s = opened(4, 4, 4);
  s.options.max_steps = 3;
  expect_fault(&s, IR_DIAG_STEP_LIMIT);
}

Test(ir_data_faults, a_result_that_its_format_cannot_hold) {
  session s =
      session_open("spx 1; dim I: dyn; dim J: dyn; kernel k { in A: f32[I,J] as csr; in x: f32[J];"
                   " out y[i,j] = A[i,j] * x[j] as ell(1); }");
  session_bind(&s, "A", D(1, 2), 2, S(1, 2));
  session_bind(&s, "x", D(1, 1), 1, S(2));
  expect_fault(&s, IR_DIAG_PACK);
}
