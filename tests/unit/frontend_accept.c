/* Programs that the language allows: the tour of its description, and a few lines for each rule. */
#include "tests/unit/frontend_programs.h"

static void accept(const char *text) {
  compiled c = compile(text);
  cr_assert_eq(c.status, SPC_OK, "%s\n%s", text, messages(&c));
  cr_assert_eq(c.sink->errors + c.sink->warnings, 0, "%s\n%s", text, messages(&c));
  ir_sink *faults = ir_sink_new(c.arena);
  cr_assert_eq(ir_verify(c.program, faults), SPC_OK, "%s\n%s", text, printed(&c));
  ir_program *again = NULL;
  const char *dump = printed(&c);
  cr_assert_eq(ir_parse(c.arena, "dump.ir", dump, strlen(dump), faults, &again), SPC_OK, "%s",
               dump);
  done(&c);
}

Test(frontend_accept, the_tour) { accept(frontend_tour); }

Test(frontend_accept, small_programs) {
  for (int i = 0; i < IR_COUNT(frontend_programs); i++) accept(frontend_programs[i]);
  cr_assert_geq(IR_COUNT(frontend_programs), 60);
}

Test(frontend_accept, a_byte_order_mark_and_windows_line_ends) {
  accept("\xef\xbb\xbfspx 1;\r\ndim N: dyn;\r\nkernel k { in x: f32[N];\r\n  out y[i] = "
         "x[i];\r\n}\r\n");
}

Test(frontend_accept, without_a_sink) {
  ir_arena *arena = ir_arena_new();
  ir_program *program = NULL;
  const char *good = "spx 1; dim N: dyn; kernel k { in x: f32[N]; out y[i] = x[i]; }",
             *bad = "spx 1; kernel k { out y[i] = z[i]; }";
  cr_assert_eq(fe_compile(arena, "a", good, strlen(good), NULL, NULL, &program), SPC_OK);
  cr_assert_not_null(program);
  cr_assert_eq(fe_compile(arena, "a", bad, strlen(bad), NULL, NULL, &program), SPC_INVALID_INPUT);
  cr_assert_null(program);
  ir_arena_free(arena);
}

Test(frontend_accept, defines_replace_fixed_dims) {
  const char *text = "spx 1; dim D = 64; dim F = 4*D; dim T: dyn; kernel k { in x: f32[T,F]; out "
                     "y[t] = sum[f] x[t,f]; }";
  fe_define defines[] = {{"D", 5}, {"T", 3}};
  compiled c = compile_with(text, strlen(text), defines, 2);
  cr_assert_eq(c.status, SPC_OK, "%s", messages(&c));
  cr_assert_eq(c.program->dims.at[0]->value, 5);
  cr_assert_eq(c.program->dims.at[1]->value, 20);
  cr_assert_eq(c.program->dims.at[2]->value, -1);
  done(&c);
}
