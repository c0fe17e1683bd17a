/* Spellings of ops.def: all of them are read and say what the evaluators say; bad ones are refused.
 */
#include <criterion/criterion.h>
#include <math.h>

#include "ir/op_spelling.h"

static bool same(double a, double b) {
  return a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= 1e-15 * fabs(a);
}

Test(ir_spelling, every_row_is_read_and_says_what_its_evaluator_says) {
  static const double samples[] = {-3.5, -1, 0, 0.25, 1, 2};
  for (int op = 0; op < IR_OP_COUNT; op++) {
    const ir_op_row *row = &ir_op_rows[op];
    ir_spelling s;
    const char *fault = ir_spelling_read(row->cuda, &s);
    cr_assert(!fault, "%s: `%s`: %s", row->mnemonic, row->cuda, fault);
    for (int i = 0; i < IR_COUNT(samples); i++)
      for (int k = 0; k < IR_COUNT(samples); k++) {
        double x[3] = {samples[i], samples[k], -1};
        if (row->traits & IR_BOOL_ONLY) x[0] = x[0] > 0, x[1] = x[1] > 0;
        double want = row->eval(x), got = ir_spelling_eval(row->cuda, x);
        cr_assert(same(want, got), "%s(%g, %g) is %g, `%s` says %g", row->mnemonic, x[0], x[1],
                  want, row->cuda, got);
      }
  }
}

Test(ir_spelling, spelled_rows_are_sound) {
  for (int op = 0; op < IR_OP_COUNT; op++) {
    const char *fault = ir_op_rows[op].spelled ? ir_op_spelling_fault((ir_op)op) : NULL;
    cr_expect(!fault, "%s: `%s`: %s", ir_op_rows[op].mnemonic, ir_op_rows[op].cuda, fault);
  }
}

Test(ir_spelling, precedence_is_that_of_C) {
  static const struct {
    const char *text;
    double value;
  } cases[] = {{"1 + 2 * 3", 7},
               {"(1 + 2) * 3", 9},
               {"8 - 4 - 2", 2},
               {"8 / 4 / 2", 1},
               {"-%0 * 2", -10},
               {"%0 < %1 ? 1 : 2", 1},
               {"%0 == 5 && %1 != 5 ? %1 : 0", 7},
               {"!(%0 > 1) || %1 >= 7 ? 0.5 : 0", 0.5},
               {"%0 > 1 ? %1 > 9 ? 1 : 2 : 3", 2},
               {"spc_max(%0, spc_min(%1, 6)) - 0.25", 5.75}};
  for (int i = 0; i < IR_COUNT(cases); i++)
    cr_expect_eq(ir_spelling_eval(cases[i].text, (double[]){5, 7}), cases[i].value, "%s",
                 cases[i].text);
}

Test(ir_spelling, integers_follow_from_the_ops) {
  cr_expect_eq(ir_spelling_eval_int("%0 / %1", (int64_t[]){-7, 2}), -4);
  cr_expect_eq(ir_spelling_eval_int("%0 / %1", (int64_t[]){-7, 0}), 0);
  cr_expect_eq(ir_spelling_eval_int("spc_mod(%0, %1) - 3", (int64_t[]){-7, 4}), -2);
}

Test(ir_spelling, bad_text_is_refused) {
  static const char *const bad[] = {"",
                                    "%3",
                                    "%",
                                    "(%0",
                                    "%0)",
                                    "%0 +",
                                    "%0 %1",
                                    "spc_abs",
                                    "spc_abs()",
                                    "spc_abs(%0, %1)",
                                    "spc_max(%0)",
                                    "spc_nothing(%0)",
                                    "abs(%0)",
                                    "1 ? 2",
                                    "1..2",
                                    "x",
                                    "%0 & %1",
                                    "1e5"};
  ir_spelling s;
  for (int i = 0; i < IR_COUNT(bad); i++)
    cr_expect(ir_spelling_read(bad[i], &s), "`%s` was read", bad[i]);
  char text[400] = "%0";
  for (int i = 0; i < 60; i++) strcat(text, " + %0");
  cr_expect(ir_spelling_read(text, &s));
}

Test(ir_spelling, definitions_are_expressions_over_other_ops) {
  ir_arena *arena = ir_arena_new();
  ir_expr *x = ir_const_f(arena, IR_F32, 3), *y = ir_const_f(arena, IR_F32, -2);
  for (int op = 0; op < IR_OP_COUNT; op++) {
    const ir_op_row *row = &ir_op_rows[op];
    if (row->arity != 2 || (row->traits & IR_BOOL_ONLY)) continue;
    ir_expr *e = ir_op_spelled(arena, (ir_op)op, (ir_expr *[]){x, y});
    cr_expect_eq(e->dtype, row->result == IR_RESULT_BOOL ? IR_B1 : IR_F32, "%s", row->mnemonic);
    cr_expect(row->spelled || (e->kind == IR_OP && e->op == (ir_op)op), "%s", row->mnemonic);
  }
  ir_arena_free(arena);
}
