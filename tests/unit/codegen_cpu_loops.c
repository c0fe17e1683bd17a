/* codegen_cpu_loops.c - statements of the loop dialect: what each construct computes. */
#include <criterion/criterion.h>

#include "codegen_cpu_run.h"
#include "ir/interp.h"
#include "runtime/plan.h"

#define SKIP_WITHOUT_LLVM()                                                                        \
  if (!cg_cpu_available()) cr_skip_test("%s", cg_cpu_version())

static ir_expr *ref(cpu_case *k, ir_var *v) { return ir_var_ref(k->arena, v); }
static ir_expr *number(cpu_case *k, int64_t n) { return ir_int(k->arena, n); }
static ir_expr *op(cpu_case *k, ir_op o, ir_expr *x, ir_expr *y) {
  return ir_apply(k->arena, o, x, y);
}

/* Compiles for several CPUs and compares every buffer with the interpreter's, byte by byte. */
static void agree(cpu_case *k, ir_array *arrays, int count, const int64_t *sizes, int64_t begin,
                  int64_t end) {
  static const char *const cpus[] = {NULL, "haswell", "x86-64-v2"};
  for (int c = 0; c < IR_COUNT(cpus); c++) {
    void *buffers[8];
    ir_array copies[8];
    for (int i = 0; i < count; i++) {
      size_t bytes = (size_t)arrays[i].count * ir_dtype_bytes(arrays[i].dtype);
      copies[i] = arrays[i];
      copies[i].data = ir_alloc(k->arena, bytes + 64);
      buffers[i] = ir_alloc(k->arena, bytes + 64);
      memcpy(copies[i].data, arrays[i].data, bytes);
      memcpy(buffers[i], arrays[i].data, bytes);
    }
    cr_assert_eq(ir_interp_loop(k->arena, k->func, sizes, copies, begin, end, 0, k->sink), SPC_OK);
    cpu_case_compile(k, cpus[c]);
    cpu_case_call(k, buffers, sizes, begin, end);
    k->image->release(k->image->owner);
    k->image = NULL;
    for (int i = 0; i < count; i++)
      cr_expect_eq(memcmp(buffers[i], copies[i].data,
                          (size_t)arrays[i].count * ir_dtype_bytes(arrays[i].dtype)),
                   0, "buffer %d for %s", i, cpus[c] ? cpus[c] : "this machine");
  }
}

Test(codegen_cpu_loops, while_and_branches) {
  SKIP_WITHOUT_LLVM();
  cpu_case k = cpu_case_new();
  ir_buf *out = cpu_case_buf(&k, "out", IR_I64);
  ir_dim *n = cpu_case_dim(&k, "N");
  ir_block *loop, *test; /* the length of the Collatz sequence of N */
  ir_var *x = ir_let(&k.build, "x", IR_I64, ir_dim_ref(k.arena, n));
  ir_var *count = ir_let(&k.build, "count", IR_I64, number(&k, 0));
  ir_open_while(&k.build, op(&k, IR_OP_GT, ref(&k, x), number(&k, 1)), &loop);
  ir_expr *odd = op(&k, IR_OP_NE, op(&k, IR_OP_MOD, ref(&k, x), number(&k, 2)), number(&k, 0));
  ir_code *branch = ir_open_if(&k.build, odd, &test);
  ir_set(&k.build, x,
         op(&k, IR_OP_ADD, op(&k, IR_OP_MUL, ref(&k, x), number(&k, 3)), number(&k, 1)));
  ir_open_else(&k.build, branch);
  ir_set(&k.build, x, op(&k, IR_OP_DIV, ref(&k, x), number(&k, 2)));
  ir_close(&k.build, test);
  ir_set(&k.build, count, op(&k, IR_OP_ADD, ref(&k, count), number(&k, 1)));
  ir_close(&k.build, loop);
  ir_store(&k.build, out, number(&k, 0), ref(&k, count));
  cpu_case_compile(&k, NULL);
  int64_t size[1] = {27}, result = 0;
  void *buffers[1] = {&result};
  cpu_case_call(&k, buffers, size, 0, 1);
  cr_expect_eq(result, 111);
  cpu_case_free(&k);
}

/* Parts that begin between two steps must neither repeat nor miss an iteration. */
Test(codegen_cpu_loops, parts_of_a_parallel_loop) {
  SKIP_WITHOUT_LLVM();
  enum { MOST = 101 };
  for (int64_t step = 1; step <= 7; step += 2) {
    cpu_case k = cpu_case_new();
    ir_buf *out = cpu_case_buf(&k, "out", IR_I32);
    ir_dim *n = cpu_case_dim(&k, "N");
    ir_block *outer;
    ir_var *i =
        ir_open_for(&k.build, "i", number(&k, 3), ir_dim_ref(k.arena, n), IR_RUN_PARALLEL, &outer);
    outer->codes.at[0]->step = number(&k, step);
    ir_store(&k.build, out, ref(&k, i), ir_const_i(k.arena, IR_I32, 1))->combine = IR_OP_ADD;
    ir_close(&k.build, outer);
    cpu_case_compile(&k, NULL);
    cr_assert(k.image->codes.at[0].parallel_hi);
    for (int64_t size = 0; size <= MOST; size += 7)
      for (int64_t part = 1; part <= 10; part += 3) {
        int32_t seen[MOST + 1] = {0};
        void *buffers[1] = {seen};
        for (int64_t at = 3; at < size; at += part)
          cpu_case_call(&k, buffers, &size, at, at + part < size ? at + part : size);
        for (int64_t e = 0; e <= MOST; e++)
          cr_expect_eq(seen[e], e >= 3 && e < size && (e - 3) % step == 0);
      }
    cpu_case_free(&k);
  }
}

/* `where`, `and` and `or` must not read what the condition forbids. */
Test(codegen_cpu_loops, guards_hide_reads) {
  SKIP_WITHOUT_LLVM();
  cpu_case k = cpu_case_new();
  ir_buf *out = cpu_case_buf(&k, "out", IR_F32), *gone = cpu_case_buf(&k, "gone", IR_F32);
  ir_dim *n = cpu_case_dim(&k, "N");
  ir_expr *there = op(&k, IR_OP_LT, number(&k, 0), ir_dim_ref(k.arena, n));
  ir_expr *read = ir_load(k.arena, gone, number(&k, 0)), *zero = ir_const_f(k.arena, IR_F32, 0);
  ir_expr *both = op(&k, IR_OP_AND, there, op(&k, IR_OP_GT, read, zero));
  ir_store(&k.build, out, number(&k, 0),
           ir_apply3(k.arena, IR_OP_WHERE, there, read, ir_const_f(k.arena, IR_F32, 5)));
  ir_store(&k.build, out, number(&k, 1), ir_cast(k.arena, IR_F32, both));
  ir_expr *masked = ir_load(k.arena, gone, number(&k, 0));
  masked->args[masked->arg_count++] = there;
  ir_store(&k.build, out, number(&k, 2), masked);
  cpu_case_compile(&k, NULL);
  float result[3] = {-1, -1, -1};
  void *buffers[2] = {result, NULL};
  cpu_case_call(&k, buffers, (int64_t[]){0}, 0, 1);
  cr_expect(result[0] == 5 && result[1] == 0 && result[2] == 0);
  cpu_case_free(&k);
}

/* out[i] = sum over four accumulators in a local buffer that unrolled loops fill; masks at the end.
 */
Test(codegen_cpu_loops, local_tiles_and_masks) {
  SKIP_WITHOUT_LLVM();
  cpu_case k = cpu_case_new();
  ir_buf *out = cpu_case_buf(&k, "out", IR_I32), *in = cpu_case_buf(&k, "in", IR_I32);
  ir_block *outer;
  ir_buf *tile = ir_local(&k.build, "tile", IR_I32, 32);
  ir_var *u = ir_open_for(&k.build, "u", number(&k, 0), number(&k, 4), IR_RUN_UNROLL, &outer);
  ir_expr *at = op(&k, IR_OP_MUL, ref(&k, u), number(&k, 8));
  ir_store(&k.build, tile, at, cpu_case_load(&k, in, at, 8));
  ir_close(&k.build, outer);
  ir_var *sum = ir_let_lanes(&k.build, "sum", IR_I32, 8,
                             ir_splat(k.arena, ir_const_i(k.arena, IR_I32, 0), 8));
  u = ir_open_for(&k.build, "u", number(&k, 0), number(&k, 4), IR_RUN_UNROLL, &outer);
  ir_expr *part = cpu_case_load(&k, tile, op(&k, IR_OP_MUL, ref(&k, u), number(&k, 8)), 8);
  ir_set(&k.build, sum, op(&k, IR_OP_ADD, ref(&k, sum), part));
  ir_close(&k.build, outer);
  ir_expr *mask = op(&k, IR_OP_LT, cpu_case_load(&k, in, number(&k, 0), 8),
                     ir_splat(k.arena, ir_const_i(k.arena, IR_I32, 5), 8));
  ir_store(&k.build, out, number(&k, 0), ref(&k, sum))->cond = mask;
  ir_code *more =
      ir_store(&k.build, out, number(&k, 4), ref(&k, sum)); /* combined, overlapping the first */
  more->combine = IR_OP_MAX;
  more->cond = mask;
  ir_expr *all = ir_reduce(k.arena, IR_RED_SUM, NULL, 0, ref(&k, sum));
  ir_store(&k.build, out, number(&k, 15), all);
  int32_t from[32], to[16] = {0};
  for (int i = 0; i < 32; i++) from[i] = i * 3 - 7;
  ir_array arrays[2] = {{to, 16, IR_I32}, {from, 32, IR_I32}};
  agree(&k, arrays, 2, NULL, 0, 1);
  cpu_case_free(&k);
}

Test(codegen_cpu_loops, gather_and_scatter) {
  SKIP_WITHOUT_LLVM();
  static const ir_dtype types[] = {IR_F32, IR_F64, IR_I8, IR_BF16, IR_B1};
  for (int t = 0; t < IR_COUNT(types); t++) {
    cpu_case k = cpu_case_new();
    ir_buf *out = cpu_case_buf(&k, "out", types[t]), *in = cpu_case_buf(&k, "in", types[t]);
    ir_buf *ids = cpu_case_buf(&k, "ids", IR_I32);
    ir_expr *where = cpu_case_cast(&k, IR_I64, cpu_case_load(&k, ids, number(&k, 0), 8));
    ir_expr *mask = op(&k, IR_OP_GE, where, ir_splat(k.arena, number(&k, 0), 8));
    ir_expr *read = ir_load(k.arena, in, where);
    read->args[read->arg_count++] = mask;
    ir_store(&k.build, out, number(&k, 8), read);
    ir_store(&k.build, out, where, read)->cond =
        mask; /* lanes in order: the last of equal ones stays */
    uint64_t from[16] = {0}, to[16] = {0};
    int32_t at[8] = {3, -1, 0, 7, 3, 5, -9, 1};
    for (int i = 0; i < 16; i++) ir_dtype_store(types[t], from, i, i % 5);
    ir_array arrays[3] = {{to, 16, types[t]}, {from, 16, types[t]}, {at, 8, IR_I32}};
    agree(&k, arrays, 3, NULL, 0, 1);
    cpu_case_free(&k);
  }
}

typedef struct shared_sum {
  cpu_case *k;
  void **buffers;
  const int64_t *sizes;
} shared_sum;
static void add_part(void *user, int64_t begin, int64_t end) {
  shared_sum *s = user;
  cpu_case_call(s->k, s->buffers, s->sizes, begin, end);
}

Test(codegen_cpu_loops, atomic_sums_from_threads) {
  SKIP_WITHOUT_LLVM();
  static const ir_dtype types[] = {IR_I32, IR_I64, IR_F32, IR_F64, IR_F16, IR_U8, IR_I4};
  for (int t = 0; t < IR_COUNT(types); t++) {
    cpu_case k = cpu_case_new();
    ir_buf *out = cpu_case_buf(&k, "out", types[t]);
    ir_dim *n = cpu_case_dim(&k, "N");
    ir_block *outer;
    ir_var *i =
        ir_open_for(&k.build, "i", number(&k, 0), ir_dim_ref(k.arena, n), IR_RUN_PARALLEL, &outer);
    ir_expr *one = ir_dtype_is_float(types[t]) ? ir_const_f(k.arena, types[t], 1)
                                               : ir_const_i(k.arena, types[t], 1);
    ir_code *store = ir_store(&k.build, out, op(&k, IR_OP_MOD, ref(&k, i), number(&k, 2)), one);
    store->combine = IR_OP_ADD;
    store->atomic = true;
    ir_close(&k.build, outer);
    cpu_case_compile(&k, NULL);
    uint64_t cells[2] = {0, 0};
    void *buffers[1] = {cells};
    int64_t size = 2000;
    rt_pool *pool = rt_pool_new(4);
    rt_pool_for(pool, 0, size, 1, add_part, &(shared_sum){&k, buffers, &size});
    rt_pool_free(pool);
    double want = ir_dtype_is_float(types[t]) ? 1000 : (double)ir_dtype_wrap(types[t], 1000);
    for (int c = 0; c < 2; c++)
      cr_expect(ir_dtype_load(types[t], cells, c) == want, "%s: %g", ir_dtype_text(types[t]),
                ir_dtype_load(types[t], cells, c));
    cpu_case_free(&k);
  }
}

Test(codegen_cpu_loops, unknown_cpu_is_said) {
  SKIP_WITHOUT_LLVM();
  cpu_case k = cpu_case_new();
  cg_options options = {.target = ir_target_find("cpu"), .mcpu = "hasvell"};
  ir_image *image;
  cr_expect_eq(cg_cpu_compile(k.arena, k.kernel, &options, k.sink, &image), SPC_INVALID_INPUT);
  cr_assert_eq(k.sink->errors, 1);
  cr_expect(strstr(k.sink->diags.at[0]->notes.at[0].text, "haswell"));
  cpu_case_free(&k);
}

/* Sixteen lanes of every width that is stored, kept by a mask that comes from memory. */
static void compressed_case(ir_dtype dtype, int lanes) {
  cpu_case k = cpu_case_new();
  ir_buf *in = cpu_case_buf(&k, "in", dtype), *out = cpu_case_buf(&k, "out", dtype);
  ir_buf *which = cpu_case_buf(&k, "which", IR_I32), *kept = cpu_case_buf(&k, "kept", IR_I64);
  ir_expr *flags = ir_load(k.arena, which, number(&k, 0)), *x = ir_load(k.arena, in, number(&k, 0));
  flags->lanes = x->lanes = lanes;
  ir_expr *mask =
      ir_apply(k.arena, IR_OP_NE, flags, ir_splat(k.arena, ir_const_i(k.arena, IR_I32, 0), lanes));
  mask = ir_var_ref(k.arena, ir_let_lanes(&k.build, "mask", IR_B1, lanes, mask));
  ir_code *store = ir_store(&k.build, out, number(&k, 3), x);
  store->cond = mask;
  store->compressed = true;
  ir_expr *sum = ir_reduce(k.arena, IR_RED_SUM, NULL, 0, ir_cast(k.arena, IR_I64, mask));
  sum->dtype = IR_I64;
  sum->lanes = 1;
  ir_store(&k.build, kept, number(&k, 0), sum);
  for (int pattern = 0; pattern < 4; pattern++) {
    ir_array arrays[] = {ir_array_new(k.arena, dtype, 32), ir_array_new(k.arena, dtype, 40),
                         ir_array_new(k.arena, IR_I32, 32), ir_array_new(k.arena, IR_I64, 1)};
    for (int i = 0; i < 32; i++) {
      memset((char *)arrays[0].data + i * (int)ir_dtype_bytes(dtype), 0x3a + i % 6,
             ir_dtype_bytes(dtype));
      ir_array_put(&arrays[2], i, pattern == 0 ? 0 : pattern == 1 ? 1 : i * 7 / pattern % 3 == 1);
    }
    agree(&k, arrays, 4, NULL, 0, 1);
  }
  cpu_case_free(&k);
}

Test(codegen_cpu_loops, lanes_that_a_mask_keeps_are_stored_one_after_the_other) {
  SKIP_WITHOUT_LLVM();
  static const ir_dtype dtypes[] = {IR_F32, IR_F64, IR_I32, IR_I64, IR_BF16, IR_I8};
  for (int d = 0; d < IR_COUNT(dtypes); d++) {
    compressed_case(dtypes[d], 16);
    compressed_case(dtypes[d], 8);
  }
}
