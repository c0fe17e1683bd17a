/* passes_vectorise.c - nests as `lower` writes them, before and after pass `vectorise`: the
 * interpreter runs the original, the interpreter and the CPU back end run what the pass made of it.
 * Values are small integers, so that every order of additions gives the same bits. */
#include <criterion/criterion.h>
#include <math.h>

#include "codegen/codegen.h"
#include "ir/interp.h"
#include "passes/pass.h"

enum { MOST_BUFS = 6 };

typedef struct nest {
  ir_arena *arena;
  ir_program *program;
  ir_kernel *kernel;
  ir_func *func;
  ir_builder b;
  ir_sink *sink;
  ir_dim *dim[3]; /* T, D, F */
  int64_t size[3];
  int buf_count;
  ir_buf *buf[MOST_BUFS];
  ir_array array[MOST_BUFS];
} nest;

typedef void build(nest *n, ir_dtype t);

/* ---- building -------------------------------------------------------------------------------- */
static ir_expr *ref(nest *n, ir_var *v) { return ir_var_ref(n->arena, v); }
static ir_expr *number(nest *n, int64_t x) { return ir_int(n->arena, x); }
static ir_expr *add(nest *n, ir_expr *x, ir_expr *y) { return ir_apply(n->arena, IR_OP_ADD, x, y); }
static ir_expr *mul(nest *n, ir_expr *x, ir_expr *y) { return ir_apply(n->arena, IR_OP_MUL, x, y); }
static ir_expr *dim(nest *n, int d) { return ir_dim_ref(n->arena, n->dim[d]); }
static ir_expr *at2(nest *n, ir_var *i, int width, ir_var *j) {
  return add(n, mul(n, ref(n, i), dim(n, width)), ref(n, j));
}

static ir_buf *buffer(nest *n, const char *name, ir_dtype t, int64_t count) {
  ir_buf *buf = ir_buf_new(n->arena, name, IR_BUF_WORKSPACE, t);
  ir_array array = {ir_alloc(n->arena, (size_t)(count + 64) * 8), count, t};
  for (int64_t i = 0; i < count; i++) {
    int64_t value = (i * 7 + n->buf_count * 3) % 11 - 5;
    ir_dtype_store(t, array.data, i, (double)(value > 2 || value < -2 ? 0 : value));
  }
  buf->count = ir_int(n->arena, count);
  IR_PUSH(n->arena, &n->kernel->workspaces, buf);
  ir_func_use(n->func, buf);
  n->buf[n->buf_count] = buf;
  n->array[n->buf_count++] = array;
  return buf;
}

static ir_var *loop(nest *n, const char *name, ir_expr *lo, ir_expr *hi, ir_run run,
                    ir_block **outer) {
  return ir_open_for(&n->b, name, lo, hi, run, outer);
}

static ir_dtype accumulator(ir_dtype t) { return ir_dtype_rows[t].accumulator; }
static ir_expr *zero(nest *n, ir_dtype t) {
  return ir_dtype_is_float(t) ? ir_const_f(n->arena, t, 0) : ir_const_i(n->arena, t, 0);
}
static ir_expr *load(nest *n, ir_dtype t, ir_buf *buf, ir_expr *at) {
  return ir_cast(n->arena, t, ir_load(n->arena, buf, at));
}
static void put(nest *n, ir_buf *buf, ir_expr *at, ir_expr *value) {
  ir_store(&n->b, buf, at, ir_cast(n->arena, buf->dtype, value));
}

/* ---- nests ----------------------------------------------------------------------------------- */
static void product_of(nest *n, ir_dtype t, bool by_rows, bool turned) {
  ir_dtype a = accumulator(t);
  ir_buf *y = buffer(n, "y", a, n->size[0] * n->size[2]);
  ir_buf *x = buffer(n, "x", t, n->size[0] * n->size[1]),
         *w = buffer(n, "w", t, n->size[1] * n->size[2]);
  ir_block *o1, *o2, *o3;
  ir_var *i = loop(n, "t", number(n, 0), dim(n, 0), IR_RUN_PARALLEL, &o1);
  ir_var *f = loop(n, "f", number(n, 0), dim(n, 2), IR_RUN_SEQUENTIAL, &o2);
  ir_var *acc = ir_let(&n->b, "acc", a, zero(n, a));
  ir_var *d = loop(n, "d", number(n, 0), dim(n, 1), IR_RUN_SEQUENTIAL, &o3);
  ir_expr *right = load(n, a, w, by_rows ? at2(n, f, 1, d) : at2(n, d, 2, f));
  ir_set(&n->b, acc, add(n, ref(n, acc), mul(n, load(n, a, x, at2(n, i, 1, d)), right)));
  ir_close(&n->b, o3);
  put(n, y, turned ? at2(n, f, 0, i) : at2(n, i, 2, f),
      ir_apply(n->arena, IR_OP_RELU, ref(n, acc), NULL));
  ir_close(&n->b, o2);
  ir_close(&n->b, o1);
}
static void product(nest *n, ir_dtype t) { product_of(n, t, false, false); }
static void product_of_rows(nest *n, ir_dtype t) { product_of(n, t, true, false); }
static void product_turned(nest *n, ir_dtype t) { product_of(n, t, false, true); }

/* out[t,f] = where(x > 0, w[f], x - w[f]) */
static void elementwise(nest *n, ir_dtype t) {
  ir_dtype a = accumulator(t);
  ir_buf *y = buffer(n, "y", t, n->size[0] * n->size[2]);
  ir_buf *x = buffer(n, "x", t, n->size[0] * n->size[2]), *w = buffer(n, "w", t, n->size[2]);
  ir_block *o1, *o2;
  ir_var *i = loop(n, "t", number(n, 0), dim(n, 0), IR_RUN_PARALLEL, &o1);
  ir_var *f = loop(n, "f", number(n, 0), dim(n, 2), IR_RUN_SEQUENTIAL, &o2);
  ir_expr *left = load(n, a, x, at2(n, i, 2, f)), *right = load(n, a, w, ref(n, f));
  ir_expr *positive = ir_apply(n->arena, IR_OP_GT, left, zero(n, a));
  ir_expr *value =
      ir_apply3(n->arena, IR_OP_WHERE, positive, right, ir_apply(n->arena, IR_OP_SUB, left, right));
  put(n, y, at2(n, i, 2, f), value);
  ir_close(&n->b, o2);
  ir_close(&n->b, o1);
}

/* sum and maximum of a row, the sum of positive elements only: a branch in the reduction */
static void row_sums(nest *n, ir_dtype t) {
  ir_dtype a = accumulator(t);
  ir_buf *y = buffer(n, "y", a, n->size[0]), *z = buffer(n, "z", a, n->size[0]);
  ir_buf *x = buffer(n, "x", t, n->size[0] * n->size[1]);
  ir_block *o1, *o2, *o3;
  ir_var *i = loop(n, "t", number(n, 0), dim(n, 0), IR_RUN_PARALLEL, &o1);
  ir_var *acc = ir_let(&n->b, "acc", a, zero(n, a)), *most = ir_let(&n->b, "most", a, zero(n, a));
  ir_var *d = loop(n, "d", number(n, 0), dim(n, 1), IR_RUN_SEQUENTIAL, &o2);
  ir_var *value = ir_let(&n->b, "value", a, load(n, a, x, at2(n, i, 1, d)));
  ir_open_if(&n->b, ir_apply(n->arena, IR_OP_GT, ref(n, value), zero(n, a)), &o3);
  ir_set(&n->b, acc, add(n, ref(n, acc), ref(n, value)));
  ir_close(&n->b, o3);
  ir_set(&n->b, most, ir_apply(n->arena, IR_OP_MAX, ref(n, most), ref(n, value)));
  ir_close(&n->b, o2);
  put(n, y, ref(n, i), ref(n, acc));
  put(n, z, ref(n, i), ref(n, most));
  ir_close(&n->b, o1);
}

/* strips of four rows share a list: rows x columns of accumulators, the list innermost */
static void listed(nest *n, ir_dtype t) {
  ir_dtype a = accumulator(t);
  int64_t strips = (n->size[0] + 3) / 4;
  ir_buf *y = buffer(n, "y", t, n->size[0] * n->size[2]),
         *x = buffer(n, "x", t, n->size[0] * n->size[1]);
  ir_buf *w = buffer(n, "w", t, n->size[1] * n->size[2]);
  ir_buf *counts = buffer(n, "counts", IR_I32, strips),
         *ids = buffer(n, "ids", IR_I32, strips * n->size[1]);
  for (int64_t s = 0; s < strips; s++) {
    int32_t count = 0, *list = (int32_t *)n->array[4].data + s * n->size[1];
    for (int32_t d = 0; d < n->size[1]; d++)
      if ((d * 5 + s) % 3 == 0) list[count++] = d;
    ((int32_t *)n->array[3].data)[s] = s % 3 == 1 ? 0 : count;
  }
  ir_block *o0, *o1, *o2, *o3;
  ir_expr *strip_count = ir_ceil_div(n->arena, dim(n, 0), 4);
  ir_var *s = loop(n, "s", number(n, 0), strip_count, IR_RUN_PARALLEL, &o0);
  ir_expr *first = mul(n, ref(n, s), number(n, 4));
  ir_expr *last = ir_apply(n->arena, IR_OP_MIN, add(n, first, number(n, 4)), dim(n, 0));
  ir_var *i = loop(n, "t", first, last, IR_RUN_SEQUENTIAL, &o1);
  ir_var *f = loop(n, "f", number(n, 0), dim(n, 2), IR_RUN_SEQUENTIAL, &o2);
  ir_var *acc = ir_let(&n->b, "acc", a, zero(n, a));
  ir_var *at =
      loop(n, "n", number(n, 0), load(n, IR_I64, counts, ref(n, s)), IR_RUN_SEQUENTIAL, &o3);
  ir_var *d = ir_let(&n->b, "d", IR_I64, load(n, IR_I64, ids, at2(n, s, 1, at)));
  ir_expr *term = mul(n, load(n, a, x, at2(n, i, 1, d)), load(n, a, w, at2(n, d, 2, f)));
  ir_set(&n->b, acc, add(n, ref(n, acc), term));
  ir_close(&n->b, o3);
  put(n, y, at2(n, i, 2, f), ref(n, acc));
  ir_close(&n->b, o2);
  ir_close(&n->b, o1);
  ir_close(&n->b, o0);
}

/* y[t,f] += for a branch on the column, and lane numbers as values */
static void by_column(nest *n, ir_dtype t) {
  ir_dtype a = accumulator(t);
  ir_buf *y = buffer(n, "y", a, n->size[0] * n->size[2]),
         *x = buffer(n, "x", t, n->size[0] * n->size[2]);
  ir_block *o1, *o2, *o3;
  ir_var *i = loop(n, "t", number(n, 0), dim(n, 0), IR_RUN_PARALLEL, &o1);
  ir_var *f = loop(n, "f", number(n, 0), dim(n, 2), IR_RUN_SEQUENTIAL, &o2);
  ir_var *v = ir_let(&n->b, "v", a, ir_cast(n->arena, a, ref(n, f)));
  ir_code *test = ir_open_if(&n->b, ir_apply(n->arena, IR_OP_LT, ref(n, f), ref(n, i)), &o3);
  ir_set(&n->b, v, load(n, a, x, at2(n, i, 2, f)));
  ir_store(&n->b, y, at2(n, i, 2, f), ref(n, v))->combine = IR_OP_ADD;
  ir_open_else(&n->b, test);
  ir_store(&n->b, y, at2(n, i, 2, f), add(n, ref(n, v), ref(n, v)))->combine = IR_OP_ADD;
  ir_close(&n->b, o3);
  ir_close(&n->b, o2);
  ir_close(&n->b, o1);
}

/* ---- running --------------------------------------------------------------------------------- */
static nest new_nest(const int64_t *size, bool fixed) {
  nest n = {.arena = ir_arena_new()};
  static const char *const names[] = {"T", "D", "F"};
  n.sink = ir_sink_new(n.arena);
  n.program = ir_program_new(n.arena);
  n.kernel = ir_kernel_new(n.program, "k");
  ir_stage *stage = IR_NEW(n.arena, ir_stage);
  stage->name = "s";
  stage->row = "loop";
  IR_PUSH(n.arena, &n.kernel->stages, stage);
  n.func = ir_func_new(n.kernel, "k.s");
  IR_PUSH(n.arena, &stage->funcs, n.func);
  for (int d = 0; d < 3; d++) {
    n.dim[d] = ir_dim_new(n.program, names[d]);
    n.dim[d]->value = fixed && d ? size[d] : -1;
    n.dim[d]->multiple = 1;
    n.size[d] = size[d];
  }
  n.b = (ir_builder){n.arena, n.func, &n.func->body};
  return n;
}

static void copy_arrays(nest *n, ir_array *copies, void **pointers) {
  for (int i = 0; i < n->buf_count; i++) {
    size_t bytes = (size_t)n->array[i].count * ir_dtype_bytes(n->array[i].dtype);
    copies[i] = n->array[i];
    copies[i].data = ir_alloc(n->arena, bytes + 64);
    memcpy(copies[i].data, n->array[i].data, bytes);
    pointers[i] = copies[i].data;
  }
}

static void same(nest *n, const ir_array *want, const ir_array *got, const char *what,
                 const char *who) {
  for (int i = 0; i < n->buf_count; i++)
    for (int64_t e = 0; e < want[i].count; e++) {
      double x = ir_dtype_load(want[i].dtype, want[i].data, e),
             y = ir_dtype_load(got[i].dtype, got[i].data, e);
      cr_assert(x == y, "%s by the %s, %lldx%lldx%lld: buffer %d[%lld] is %g, want %g", what, who,
                (long long)n->size[0], (long long)n->size[1], (long long)n->size[2], i,
                (long long)e, y, x);
    }
}

static void vectorise(nest *n, int bits) {
  ir_target target = *ir_target_find("cpu");
  target.vector_bits = bits;
  pass_options options = {.target = &target};
  pass_context context = {
      .program = n->program, .arena = n->arena, .sink = n->sink, .options = &options};
  cr_assert_eq(pass_vectorise(&context, n->kernel), SPC_OK);
}

/* The end of the parallel loop, whose iterations `vectorise` may have cut anew. */
static int64_t end_of(const nest *n) {
  int64_t end = 0;
  const ir_code *loop = n->func->body.codes.at[n->func->body.codes.count - 1];
  cr_assert(ir_count_value(loop->hi, n->size, &end));
  return end;
}

static void check(build *make, const char *what, ir_dtype t, const int64_t *size, bool fixed,
                  int bits, bool compiled) {
  nest n = new_nest(size, fixed);
  ir_array want[MOST_BUFS], got[MOST_BUFS];
  void *pointers[MOST_BUFS];
  make(&n, t);
  int64_t end = end_of(&n);
  copy_arrays(&n, want, pointers);
  cr_assert_eq(ir_interp_loop(n.arena, n.func, n.size, want, 0, end, 0, n.sink), SPC_OK);
  vectorise(&n, bits);
  end = end_of(&n);
  copy_arrays(&n, got, pointers);
  cr_assert_eq(ir_interp_loop(n.arena, n.func, n.size, got, 0, end, 0, n.sink), SPC_OK, "%s",
               n.sink->diags.count ? n.sink->diags.at[0]->text : "");
  same(&n, want, got, what, "interpreter");
  if (compiled && cg_cpu_available()) {
    cg_options options = {.target = ir_target_find("cpu"), .mcpu = bits == 256 ? "haswell" : NULL};
    ir_image *image;
    cr_assert_eq(cg_cpu_compile(n.arena, n.kernel, &options, n.sink, &image), SPC_OK);
    copy_arrays(&n, got, pointers);
    image->codes.at[0].cpu(pointers, n.size, 0, end);
    image->release(image->owner);
    same(&n, want, got, what, "CPU");
  }
  ir_arena_free(n.arena);
}

static void check_all(build *make, const char *what, const ir_dtype *types, int type_count) {
  static const int64_t sizes[][3] = {{1, 1, 1},   {7, 5, 3},     {6, 64, 64}, {13, 70, 131},
                                     {17, 0, 20}, {40, 300, 80}, {0, 3, 3}};
  for (int s = 0; s < IR_COUNT(sizes); s++)
    for (int t = 0; t < type_count; t++)
      for (int bits = 256; bits <= 512; bits *= 2) {
        bool compiled = s == 3 || (s == 5 && t < 2); /* compiling is what takes the time here */
        check(make, what, types[t], sizes[s], false, bits, compiled);
        if (s == 2 || s == 5) check(make, what, types[t], sizes[s], true, bits, s == 2);
      }
}

static const ir_dtype types[] = {IR_F32, IR_BF16, IR_I8, IR_F64};

Test(passes_vectorise, products) { check_all(product, "product", types, IR_COUNT(types)); }
Test(passes_vectorise, products_of_rows) {
  check_all(product_of_rows, "product of rows", types, IR_COUNT(types));
  check_all(product_turned, "turned product", types, 2);
}
Test(passes_vectorise, elementwise) {
  check_all(elementwise, "elementwise", types, IR_COUNT(types));
}
Test(passes_vectorise, reductions) { check_all(row_sums, "row sums", types, IR_COUNT(types)); }
Test(passes_vectorise, lists) { check_all(listed, "listed", types, IR_COUNT(types)); }
Test(passes_vectorise, branches) { check_all(by_column, "by column", types, IR_COUNT(types)); }

/* What the pass leaves prints, reads back and verifies; other targets are left alone. */
Test(passes_vectorise, text_reads_back) {
  static const int64_t size[3] = {13, 70, 131};
  nest n = new_nest(size, false);
  product(&n, IR_F32);
  const ir_code *before = n.func->body.codes.at[0];
  vectorise(&n, 512);
  cr_expect_neq(n.func->body.codes.at[0], before);
  n.kernel->stages.count = 0; /* the function alone */
  ir_text text = ir_text_new(n.arena), again = ir_text_new(n.arena);
  ir_print(n.program, &text);
  ir_program *read;
  cr_assert_eq(ir_parse(n.arena, "text", text.data, text.length, n.sink, &read), SPC_OK, "%s",
               n.sink->diags.count ? n.sink->diags.at[0]->text : "");
  ir_print(read, &again);
  cr_expect_str_eq(text.data, again.data);
  ir_arena_free(n.arena);
}
