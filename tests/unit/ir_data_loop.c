/* The loop interpreter: scalars, vectors, masks, locals, while, combining stores, bounds. */
#include <criterion/criterion.h>

#include "ir/interp.h"

typedef struct setup {
  ir_arena *a;
  ir_program *program;
  ir_kernel *kernel;
  ir_sink *sink;
  ir_func *func;
  ir_builder b;
  ir_buf *x, *y;
} setup;

static setup begin(ir_dtype t) {
  setup s = {.a = ir_arena_new()};
  s.program = ir_program_new(s.a);
  s.kernel = ir_kernel_new(s.program, "k");
  s.sink = ir_sink_new(s.a);
  s.func = ir_func_new(s.kernel, "k.f");
  s.b = (ir_builder){s.a, s.func, &s.func->body};
  s.x = ir_buf_new(s.a, "x.vals", IR_BUF_WORKSPACE, t);
  s.y = ir_buf_new(s.a, "y.vals", IR_BUF_WORKSPACE, t);
  ir_func_use(s.func, s.x);
  ir_func_use(s.func, s.y);
  return s;
}

static spc_status run(setup *s, ir_dtype t, void *x, int64_t xs, void *y, int64_t ys, int64_t lo,
                      int64_t hi) {
  ir_array arrays[] = {{x, xs, t}, {y, ys, t}};
  return ir_interp_loop(s->a, s->func, NULL, arrays, lo, hi, 0, s->sink);
}

static ir_expr *var(setup *s, ir_var *v) { return ir_var_ref(s->a, v); }
static ir_expr *op(setup *s, ir_op o, ir_expr *x, ir_expr *y) { return ir_apply(s->a, o, x, y); }

static ir_expr *load(setup *s, ir_buf *buf, ir_expr *at, int lanes) {
  ir_expr *e = ir_load(s->a, buf, at);
  e->lanes = lanes;
  return e;
}

Test(ir_data_loop, a_part_of_the_parallel_loop) {
  setup s = begin(IR_F32);
  ir_block *outer;
  ir_var *i = ir_open_for(&s.b, "i", ir_int(s.a, 0), ir_int(s.a, 8), IR_RUN_PARALLEL, &outer);
  ir_store(&s.b, s.y, var(&s, i),
           op(&s, IR_OP_ADD, load(&s, s.x, var(&s, i), 1), ir_const_f(s.a, IR_F32, 1)));
  ir_close(&s.b, outer);
  float x[8] = {0, 1, 2, 3, 4, 5, 6, 7}, y[8] = {0}, want[8] = {0, 0, 0, 4, 5, 0, 0, 0};
  cr_assert_eq(run(&s, IR_F32, x, 8, y, 8, 3, 5), SPC_OK);
  cr_assert_arr_eq(y, want, sizeof want);
  ir_arena_free(s.a);
}

Test(ir_data_loop, while_set_and_combining_stores) {
  setup s = begin(IR_I32);
  ir_block *outer;
  ir_var *n = ir_let(&s.b, "n", IR_I64, ir_int(s.a, 0));
  ir_open_while(&s.b, op(&s, IR_OP_LT, var(&s, n), ir_int(s.a, 4)), &outer);
  ir_code *st = ir_store(&s.b, s.y, ir_int(s.a, 0), load(&s, s.x, var(&s, n), 1));
  st->combine = IR_OP_MAX;
  ir_code *sum = ir_store(&s.b, s.y, ir_int(s.a, 1), load(&s, s.x, var(&s, n), 1));
  sum->combine = IR_OP_ADD;
  ir_set(&s.b, n, op(&s, IR_OP_ADD, var(&s, n), ir_int(s.a, 1)));
  ir_close(&s.b, outer);
  int32_t x[4] = {3, 9, -2, 2147483647}, y[2] = {0, 1};
  cr_assert_eq(run(&s, IR_I32, x, 4, y, 2, 0, 1), SPC_OK);
  cr_assert_eq(y[0], 2147483647);
  cr_assert_eq(y[1], (int32_t)(2147483647u + 11u), "i32 wraps");
  ir_arena_free(s.a);
}

Test(ir_data_loop, vectors_masks_and_reductions_over_lanes) {
  setup s = begin(IR_F32);
  ir_expr *mask = ir_splat(s.a, ir_const_i(s.a, IR_B1, 1), 4);
  ir_expr *v = load(&s, s.x, ir_int(s.a, 2), 4);
  ir_expr *args[2] = {v->args[0], op(&s, IR_OP_LT, ir_splat(s.a, ir_const_f(s.a, IR_F32, 0), 4),
                                     ir_splat(s.a, ir_const_f(s.a, IR_F32, 1), 4))};
  (void)mask;
  v->args = args;
  v->arg_count = 2;
  ir_var *w = ir_let_lanes(&s.b, "w", IR_F32, 4,
                           op(&s, IR_OP_MUL, v, ir_splat(s.a, ir_const_f(s.a, IR_F32, 2), 4)));
  ir_store(&s.b, s.y, ir_int(s.a, 0), var(&s, w));
  ir_expr *total = ir_node_new(s.a, IR_REDUCE, IR_F32, 1, 1);
  total->reducer = IR_RED_SUM;
  total->args[0] = var(&s, w);
  ir_store(&s.b, s.y, ir_int(s.a, 4), total);
  float x[6] = {0, 0, 1, 2, 3, 4}, y[5] = {0}, want[5] = {2, 4, 6, 8, 20};
  cr_assert_eq(run(&s, IR_F32, x, 6, y, 5, 0, 1), SPC_OK);
  cr_assert_arr_eq(y, want, sizeof want);
  ir_arena_free(s.a);
}

Test(ir_data_loop, an_offset_outside_names_buffer_and_offset) {
  setup s = begin(IR_F32);
  ir_store(&s.b, s.y, ir_int(s.a, 0), load(&s, s.x, ir_int(s.a, 7), 1));
  float x[4] = {0}, y[1] = {0};
  cr_assert_eq(run(&s, IR_F32, x, 4, y, 1, 0, 1), SPC_INVALID_INPUT);
  cr_assert_eq(s.sink->diags.at[0]->id, IR_DIAG_BUFFER_RANGE);
  const char *text = s.sink->diags.at[0]->text;
  cr_assert(strstr(text, "k.f") && strstr(text, "reads `x.vals` at 7") &&
                strstr(text, "4 elements"),
            "%s", text);
  ir_arena_free(s.a);
}

Test(ir_data_loop, a_local_buffer_read_before_it_is_written_shows) {
  setup s = begin(IR_F32);
  ir_buf *acc = ir_local(&s.b, "acc", IR_F32, 2);
  ir_store(&s.b, s.y, ir_int(s.a, 0), load(&s, acc, ir_int(s.a, 1), 1));
  float x[1] = {0}, y[1] = {0};
  cr_assert_eq(run(&s, IR_F32, x, 1, y, 1, 0, 1), SPC_OK);
  cr_assert_neq(y[0], y[0]);
  ir_arena_free(s.a);
}
