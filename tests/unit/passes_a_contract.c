/* passes_a_contract.c - contractions by meaning: index classes, sides, epilogues. */
#include <criterion/criterion.h>

#include "passes/contract.h"
#include "tests/unit/passes_a_run.h"

#define DECLARATIONS                                                                               \
  "spx 1; dim N: dyn; kernel t { in A: bf16[N,N]; in B: bf16[N,N]; in C: bf16[N,N,N]; in D: "      \
  "bf16[N,N,N]; "                                                                                  \
  "in q: i8[N,N]; in s: bf16[N,N/4]; in x: bf16[N]; in p: i32[N]; "                                \
  "out use[i] = A[i,0] + B[i,0] + C[i,0,0] + D[i,0,0] + q[i,0] + s[i,0] + x[i] + "                 \
  "cast[bf16](p[i]); "

typedef struct contract_case {
  const char *statement, *batch, *m, *n, *k, *a, *b;
} contract_case;

static const contract_case cases[] = {
    {"out y[i,j] = sum[k] A[i,k]*B[k,j]", "", "i", "j", "k", "A", "B"},
    {"out y[i,j] = sum[k] B[k,j]*A[i,k]", "", "i", "j", "k", "A", "B"},
    {"out y[j,i] = sum[k] A[i,k]*B[k,j]", "", "j", "i", "k", "B", "A"},
    {"out y[b,i,j] = sum[k] C[b,i,k]*D[b,k,j]", "b", "i", "j", "k", "C", "D"},
    {"out y[i] = sum[k] A[i,k]*x[k]", "", "i", "", "k", "A", "x"},
    {"out y[i] = sum[k,l] C[i,k,l]*A[k,l]", "", "i", "", "k l", "C", "A"},
    {"out y[i,j] = relu((sum[k] A[i,k]*B[k,j]) + x[j])", "", "i", "j", "k", "A", "B"},
    {"out y[i,j] = sum[k] A[i,k]*s[j,k/4]*q[j,k]", "", "i", "j", "k", "A", "q"},
    {"out y[i,j] = sum[k] s[j,k/4]*A[i,k]*q[j,k]", "", "i", "j", "k", "A", "q"},
    {"out y[i,j] = sum[k] A[p[i],k]*B[k,j]", "", "i", "j", "k", "A", "B"},
    {"out y[i] = sum[k] A[i,k]*B[i,k]", "i", "", "", "k", "A", "B"},
    {"out y[i,j] = 2 * sum[k] -A[i,k]*B[k,j]", "", "i", "j", "k", "A", "B"},
};

static const char *names_of(ir_arena *arena, const pass_indices *set) {
  ir_text text = ir_text_new(arena);
  for (int i = 0; i < set->list.count; i++)
    ir_text_printf(&text, "%s%s", i > 0 ? " " : "", set->list.at[i]->name);
  return text.data;
}

Test(contract, recognises) {
  for (int i = 0; i < IR_COUNT(cases); i++) {
    char text[1024];
    pass_contraction_info info;
    snprintf(text, sizeof text, DECLARATIONS "%s; }", cases[i].statement);
    a_run run = a_run_passes(text, "canon");
    cr_assert_eq(run.status, SPC_OK, "%s: %s", cases[i].statement, a_rendered(&run));
    const ir_stmt *stmt = ir_tensor_named(run.kernel, "y")->def;
    cr_assert(pass_contraction(run.arena, stmt, &info), "%s", cases[i].statement);
    cr_expect_str_eq(names_of(run.arena, &info.batch), cases[i].batch, "%s", cases[i].statement);
    cr_expect_str_eq(names_of(run.arena, &info.m), cases[i].m, "%s", cases[i].statement);
    cr_expect_str_eq(names_of(run.arena, &info.n), cases[i].n, "%s", cases[i].statement);
    cr_expect_str_eq(names_of(run.arena, &info.k), cases[i].k, "%s", cases[i].statement);
    cr_expect_str_eq(info.a.tensor->name, cases[i].a, "%s", cases[i].statement);
    cr_expect_str_eq(info.b.tensor->name, cases[i].b, "%s", cases[i].statement);
    a_free(&run);
  }
}

Test(contract, refuses_what_is_none) {
  static const char *const others[] = {
      "out y[i] = sum[k] A[i,k]", "out y[i] = max[k] A[i,k]*B[k,i]", "out y[i,j] = A[i,j]*B[i,j]",
      "out y[i,j] = sum[k,l] A[i,k]*B[l,j]"};
  for (int i = 0; i < IR_COUNT(others); i++) {
    char text[1024];
    pass_contraction_info info;
    snprintf(text, sizeof text, DECLARATIONS "%s; }", others[i]);
    a_run run = a_run_passes(text, "canon");
    cr_assert_eq(run.status, SPC_OK, "%s: %s", others[i], a_rendered(&run));
    cr_expect_not(pass_contraction(run.arena, ir_tensor_named(run.kernel, "y")->def, &info), "%s",
                  others[i]);
    a_free(&run);
  }
}

Test(contract, a_dequantised_side_has_a_scale) {
  pass_contraction_info info;
  a_run run = a_run_passes(DECLARATIONS "out y[i,j] = sum[k] A[i,k]*s[j,k/4]*q[j,k]; }", "canon");
  cr_assert_eq(run.status, SPC_OK, "%s", a_rendered(&run));
  cr_assert(pass_contraction(run.arena, ir_tensor_named(run.kernel, "y")->def, &info));
  cr_expect_not_null(info.b.scale);
  cr_expect_null(info.a.scale);
  cr_expect(info.bare);
  cr_expect_not(info.b.gathered);
  a_free(&run);
}

Test(contract, the_epilogue_has_one_hole) {
  pass_contraction_info info;
  a_run run =
      a_run_passes(DECLARATIONS "out y[i,j] = relu((sum[k] A[p[i],k]*B[k,j]) + x[j]); }", "canon");
  cr_assert_eq(run.status, SPC_OK, "%s", a_rendered(&run));
  cr_assert(pass_contraction(run.arena, ir_tensor_named(run.kernel, "y")->def, &info));
  ir_text text = ir_text_new(run.arena);
  ir_print_expr(pass_epilogue_with(run.arena, &info, ir_const_f(run.arena, IR_BF16, 7)), &text);
  cr_expect_str_eq(text.data, "relu(7.0_bf16 + x[j])");
  cr_expect(info.a.gathered);
  cr_expect_not(info.bare);
  a_free(&run);
}

Test(contract, ragged_rows_group_the_product) {
  pass_contraction_info info;
  a_run run = a_run_passes(
      "spx 1; dim E = 4; dim R: dyn; dim D: dyn; dim F: dyn; kernel t { in x: bf16[R,D]; "
      "in off: i32[E+1]; in W: bf16[E,D,F]; ragged r in off[e]..off[e+1]; "
      "out y[r,f] = sum[d] x[r,d]*W[e,d,f]; }",
      "canon");
  cr_assert_eq(run.status, SPC_OK, "%s", a_rendered(&run));
  cr_assert(pass_contraction(run.arena, ir_tensor_named(run.kernel, "y")->def, &info));
  cr_assert_not_null(info.ragged);
  cr_expect_str_eq(info.ragged->name, "r");
  cr_expect_str_eq(names_of(run.arena, &info.batch), "e");
  cr_expect_str_eq(names_of(run.arena, &info.m), "r");
  a_free(&run);
}
