/* Builders and questions: folding, equality, free indices, substitution, sizes, names, targets. */
#include <criterion/criterion.h>

#include "ir/kernels.h"
#include "ir/loop.h"
#include "ir/target.h"

static ir_arena *arena;
static ir_program *program;
static ir_kernel *kernel;
static ir_dim *n, *k;
static ir_index *i, *j;
static ir_tensor *x;

static void set_up(void) {
  arena = ir_arena_new();
  program = ir_program_new(arena);
  kernel = ir_kernel_new(program, "kernel");
  n = ir_dim_new(program, "N");
  k = ir_dim_new(program, "K");
  i = ir_index_new(kernel, "i", ir_dim_ref(arena, n));
  j = ir_index_new(kernel, "j", ir_dim_ref(arena, k));
  x = ir_tensor_new(kernel, "x", IR_ROLE_IN, IR_F32);
  x->rank = 2;
  x->dim[0] = ir_dim_ref(arena, n);
  x->dim[1] = ir_dim_ref(arena, k);
}
static void tear_down(void) { ir_arena_free(arena); }
TestSuite(ir_query, .init = set_up, .fini = tear_down);

static ir_expr *at(ir_expr *a, ir_expr *b) { return ir_access(arena, x, (ir_expr *[]){a, b}); }
static ir_expr *num(int64_t v) { return ir_int(arena, v); }
static ir_expr *op(ir_op o, ir_expr *a, ir_expr *b) { return ir_apply(arena, o, a, b); }

Test(ir_query, i64_arithmetic_folds) {
  ir_expr *e = ir_index_ref(arena, i);
  cr_assert(op(IR_OP_ADD, num(2), num(3))->i == 5 && op(IR_OP_DIV, num(-7), num(2))->i == -4);
  cr_assert(op(IR_OP_ADD, e, num(0)) == e && op(IR_OP_MUL, num(1), e) == e &&
            op(IR_OP_DIV, e, num(1)) == e);
  cr_assert_eq(op(IR_OP_MUL, e, num(0))->i, 0);
  cr_assert_eq(op(IR_OP_LT, num(1), num(2))->kind, IR_OP);
  ir_expr *f = ir_const_f(arena, IR_F32, 1);
  cr_assert_eq(op(IR_OP_MUL, f, f)->kind, IR_OP);
}

Test(ir_query, dtypes_of_nodes) {
  ir_expr *e = at(ir_index_ref(arena, i), ir_index_ref(arena, j));
  cr_assert_eq(op(IR_OP_GT, e, e)->dtype, IR_B1);
  cr_assert_eq(ir_apply3(arena, IR_OP_WHERE, op(IR_OP_GT, e, e), e, e)->dtype, IR_F32);
  cr_assert_eq(ir_reduce(arena, IR_RED_ARGMAX, &j, 1, e)->dtype, IR_I64);
  cr_assert(ir_cast(arena, IR_F32, e) == e && ir_cast(arena, IR_F16, e)->dtype == IR_F16);
  cr_assert_eq(ir_splat(arena, e, 8)->lanes, 8);
}

Test(ir_query, equality_is_structural) {
  ir_expr *a = at(ir_index_ref(arena, i), num(1)), *b = at(ir_index_ref(arena, i), num(1));
  b->span.begin = 7;
  cr_assert(ir_expr_equal(a, b));
  cr_assert_not(ir_expr_equal(a, at(ir_index_ref(arena, j), num(1))));
  cr_assert_not(ir_expr_equal(ir_const_f(arena, IR_F32, 0.0), ir_const_f(arena, IR_F32, -0.0)));
}

Test(ir_query, free_indices) {
  ir_expr *e = at(ir_index_ref(arena, i), ir_index_ref(arena, j));
  ir_expr *sum = ir_reduce(arena, IR_RED_SUM, &j, 1, e);
  cr_assert(ir_expr_uses_index(sum, i) && !ir_expr_uses_index(sum, j) && ir_expr_uses_index(e, j));
  cr_assert(ir_expr_uses_index(ir_row_op(arena, IR_SOFTMAX, j, e, 0), j));
  cr_assert(ir_expr_uses_tensor(sum, x));
}

Test(ir_query, substitution_spares_bound_indices) {
  ir_expr *e = at(ir_index_ref(arena, i), ir_index_ref(arena, j));
  ir_expr *both = op(IR_OP_ADD, ir_reduce(arena, IR_RED_SUM, &j, 1, e), e);
  ir_expr *to[] = {num(5), num(6)};
  ir_text out = ir_text_new(arena);
  ir_print_expr(ir_expr_substitute(arena, both, (ir_index *[]){i, j}, to, 2), &out);
  cr_assert_str_eq(out.data, "sum[j](x[5, j]) + x[5, 6]");
  ir_expr *row = ir_row_op(arena, IR_SOFTMAX, j, e, 0), *other = ir_index_ref(arena, i);
  row = ir_expr_substitute(arena, row, &j, &other, 1);
  cr_assert_eq(row->bound[0], i);
}

Test(ir_query, sizes) {
  int64_t sizes[] = {100, -1}, value = 0;
  ir_expr *size = ir_dim_ref(arena, n), *unknown = ir_dim_ref(arena, k);
  cr_assert(ir_size_value(op(IR_OP_DIV, size, num(4)), sizes, &value) && value == 25);
  cr_assert_not(ir_size_value(op(IR_OP_DIV, size, num(64)), sizes, &value));
  cr_assert(ir_size_value(ir_ceil_div(arena, size, 64), sizes, &value) && value == 2);
  cr_assert_not(ir_size_value(op(IR_OP_ADD, size, unknown), sizes, &value));
  cr_assert_not(ir_size_value(op(IR_OP_MUL, size, num(INT64_MAX / 2)), sizes, &value));
  cr_assert_not(ir_size_value(op(IR_OP_DIV, size, op(IR_OP_SUB, size, size)), sizes, &value));
}

Test(ir_query, bounds) {
  int64_t value = 0;
  ir_expr *size = ir_dim_ref(arena, n), *free_size = ir_dim_ref(arena, k);
  n->bound = 1000;
  cr_assert(ir_size_bound(ir_ceil_div(arena, size, 64), &value) && value == 16);
  cr_assert(ir_size_bound(op(IR_OP_SUB, num(2000), size), &value) && value == 2000);
  cr_assert_not(ir_size_bound(op(IR_OP_ADD, size, free_size), &value));
  k->value = 24;
  cr_assert(ir_size_bound(op(IR_OP_MUL, size, free_size), &value) && value == 24000);
}

Test(ir_query, names) {
  cr_assert_str_eq(ir_fresh_name(kernel, "x"), "x_2");
  cr_assert_str_eq(ir_fresh_name(kernel, "N"), "N_2");
  cr_assert_str_eq(ir_fresh_name(kernel, "h"), "h");
  cr_assert(ir_tensor_named(kernel, "x") == x && ir_index_named(kernel, "j") == j);
  cr_assert(ir_kernel_named(program, "kernel") == kernel && !ir_kernel_named(program, "none"));
}

Test(ir_query, targets_and_kernel_rows) {
  for (int t = 0; t < ir_target_count(); t++)
    cr_assert_eq(ir_target_find(ir_target_at(t)->name), ir_target_at(t));
  cr_assert_null(ir_target_find("sm_70"));
  cr_assert_eq(ir_target_find("sm_90a")->shared_bytes, 227 * 1024);
  for (int r = 0; r < ir_kernel_row_count; r++)
    cr_assert_eq(ir_kernel_row_named(ir_kernel_rows[r].name), &ir_kernel_rows[r],
                 "a name is used twice");
  cr_assert_null(ir_kernel_row_named("loop"));
}

Test(ir_query, functions_are_built_in_blocks) {
  ir_func *func = ir_func_new(kernel, "f");
  ir_builder b = {arena, func, &func->body};
  ir_block *outer, *middle;
  ir_buf *buf = ir_buf_new(arena, "x.vals", IR_BUF_VALS, IR_F32);
  buf->tensor = x;
  ir_func_use(func, buf);
  ir_func_use(func, buf);
  ir_var *v = ir_open_for(&b, "p", num(0), ir_dim_ref(arena, n), IR_RUN_SEQUENTIAL, &outer);
  ir_code *branch = ir_open_if(&b, op(IR_OP_LT, ir_var_ref(arena, v), num(3)), &middle);
  ir_store(&b, buf, ir_var_ref(arena, v), ir_const_f(arena, IR_F32, 1));
  ir_open_else(&b, branch);
  ir_comment(&b, "line %d", 1);
  ir_close(&b, middle);
  ir_close(&b, outer);
  cr_assert(func->bufs.count == 1 && func->body.codes.count == 1 && b.block == &func->body);
  cr_assert_eq(branch->orelse.codes.count, 1);
  cr_assert_eq(ir_verify(program, NULL), SPC_OK);
}
