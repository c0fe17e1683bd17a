/* Roles of a product's indices: which are one, which become a batch that one operand lacks, which are no product. */
#include <criterion/criterion.h>

#include "ir/parse.h"
#include "ir/roles.h"

static ir_arena *arena;
static void set_up(void) { arena = ir_arena_new(); }
static void tear_down(void) { ir_arena_free(arena); }
TestSuite(ir_roles, .init = set_up, .fini = tear_down);

/* A kernel over the six dims: B batches, T tokens, D, H heads of E, O. */
static ir_stmt *stmt_of(const char *x, const char *w, const char *y, const char *free, const char *value) {
  ir_text text = ir_text_new(arena);
  ir_text_printf(&text, "spc.ir 1;\n");
  for (const char *d = "BTDHEO"; *d; d++) ir_text_printf(&text, "dim %c : dyn;\n", *d);
  ir_text_printf(&text, "kernel k {\n  in x : f32[%s];\n  in w : f32[%s];\n  out y : f32[%s];\n", x, w, y);
  for (const char *d = "btdheo"; *d; d++) ir_text_printf(&text, "  index %c : %c;\n", *d, *d == 'h' && strchr(x, '4') ? '4' : *d - 32);
  ir_text_printf(&text, "  stmt y[%s] = %s\n    for %s acc f32;\n}\n", free, value, free);
  ir_program *program = NULL;
  cr_assert_eq(ir_parse(arena, "roles.ir", text.data, strlen(text.data), ir_sink_new(arena), &program), SPC_OK, "%s", text.data);
  return program->kernels.at[0]->stmts.at[0];
}

/* "m=..; n=..; k=..; batch=.. (common)", or "none". */
static const char *roles(const char *x, const char *w, const char *y, const char *free, const char *value) {
  ir_stmt *stmt = stmt_of(x, w, y, free, value);
  const ir_expr *sum = stmt->value->kind == IR_OP ? stmt->value->args[1] : stmt->value, *product = sum->args[0]; /* where(c, sum, 0) */
  ir_roles r;
  if (!ir_roles_of(stmt, product->args[0], product->args[1], sum->bound, sum->bound_count, &r)) return "none";
  ir_text out = ir_text_new(arena);
  const ir_flat *all[] = {&r.m, &r.n, &r.k, &r.batch};
  for (int i = 0; i < 4; i++) {
    ir_text_put(&out, i ? " " : "");
    for (int j = 0; j < all[i]->count; j++) ir_text_put(&out, all[i]->at[j]->name);
    if (!all[i]->count) ir_text_put(&out, "-");
  }
  ir_text_printf(&out, " %d", r.common);
  return out.data;
}

Test(ir_roles, what_follows_on_is_one) {
  cr_expect_str_eq(roles("T, D", "D, O", "T, O", "t, o", "sum[d](x[t, d] * w[d, o])"), "t o d - 0");
  cr_expect_str_eq(roles("B, T, D", "D, O", "B, T, O", "b, t, o", "sum[d](x[b, t, d] * w[d, o])"), "bt o d - 0");
  cr_expect_str_eq(roles("T, D", "D, H, E", "T, H, E", "t, h, e", "sum[d](x[t, d] * w[d, h, e])"), "t he d - 0");
  cr_expect_str_eq(roles("T, H, E", "H, E, D", "T, D", "t, d", "sum[e, h](x[t, h, e] * w[h, e, d])"), "t d he - 0");
  cr_expect_str_eq(roles("B, T, D", "B, D, O", "B, T, O", "b, t, o", "sum[d](x[b, t, d] * w[b, d, o])"), "t o d b 1");
}

Test(ir_roles, what_does_not_is_a_batch_that_one_operand_lacks) {
  cr_expect_str_eq(roles("T, D", "D, H, E", "H, T, E", "h, t, e", "sum[d](x[t, d] * w[d, h, e])"), "t e d h 0");
  cr_expect_str_eq(roles("B, H, T, D", "H, D, O", "B, H, T, O", "b, h, t, o", "sum[d](x[b, h, t, d] * w[h, d, o])"), "t o d hb 1");
  cr_expect_str_eq(roles("T, B, D", "D, O", "B, T, O", "b, t, o", "sum[d](x[t, b, d] * w[d, o])"), "t o d b 0");
}

Test(ir_roles, the_longest_where_none_is_nearest) {
  cr_expect_str_eq(roles("T, 4, D", "D, O", "4, T, O", "h, t, o", "sum[d](x[t, h, d] * w[d, o])"), "t o d h 0");
  cr_expect_str_eq(roles("4, T, D", "D, O", "T, 4, O", "t, h, o", "sum[d](x[h, t, d] * w[d, o])"), "t o d h 0");
}

Test(ir_roles, whose_number_is_asked_for_is_alone) {
  cr_expect_str_eq(roles("B, T, D", "D, O", "B, T, O", "b, t, o", "where(o <= t, sum[d](x[b, t, d] * w[d, o]), 0.0_f32)"), "t o d b 0");
  cr_expect_str_eq(roles("T, D", "D, H, E", "T, H, E", "t, h, e", "where(e <= t, sum[d](x[t, d] * w[d, h, e]), 0.0_f32)"), "t e d h 0");
}

Test(ir_roles, no_product_of_matrices) {
  /* summed indices that lie apart in an operand; both operands with a batch of their own; nothing of n */
  cr_expect_str_eq(roles("H, T, E", "H, E, D", "T, D", "t, d", "sum[h, e](x[h, t, e] * w[h, e, d])"), "none");
  cr_expect_str_eq(roles("B, D, T", "H, D, E", "B, H, T, E", "b, h, t, e", "sum[d](x[b, d, t] * w[h, d, e])"), "none");
  cr_expect_str_eq(roles("T, D", "D, O", "T", "t", "sum[d, o](x[t, d] * w[d, o])"), "none");
}

Test(ir_roles, sizes_multiply_and_the_last_is_nearest) {
  ir_stmt *stmt = stmt_of("B, T, D", "D, O", "B, T, O", "b, t, o", "sum[d](x[b, t, d] * w[d, o])");
  const ir_expr *sum = stmt->value, *product = sum->args[0];
  ir_roles r;
  cr_assert(ir_roles_of(stmt, product->args[0], product->args[1], sum->bound, sum->bound_count, &r));
  int64_t sizes[] = {3, 5, 7, 2, 4, 6}, value;
  cr_expect(ir_size_value(ir_flat_size(arena, &r.m), sizes, &value) && value == 15);
  cr_expect_str_eq(ir_flat_last(&r.m)->name, "t");
  ir_flat none = {.count = 0};
  cr_expect(!ir_flat_last(&none) && ir_flat_size(arena, &none)->i == 1);
}
