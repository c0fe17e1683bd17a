/* codegen_cpu_ops.c - every op of ops.def, in every dtype, scalar and vector, against its
 * evaluator. */
#include <criterion/criterion.h>
#include <math.h>

#include "codegen_cpu_run.h"

enum { COUNT = 256, LANES = 8 };

static double special(int i) {
  static const double values[] = {0.0,   -0.0,   1,    -1,    0.5,      -2.5,      88.5, -103.5,
                                  1e-40, -1e-40, 3e38, -3e38, INFINITY, -INFINITY, NAN,  7,
                                  -7,    0.3,    1e-3, -20,   12.25,    -0.7,      5,    2};
  return i < IR_COUNT(values) ? values[i] : sin(i * 1.37) * exp2((double)(i % 13) - 6);
}

static void fill(ir_dtype t, void *array, int shift) {
  for (int i = 0; i < COUNT; i++) {
    int at = (i * 7 + shift * 31) % COUNT;
    if (ir_dtype_is_float(t))
      ir_dtype_store(t, array, i, special(at));
    else
      ir_dtype_store_int(t, array, i,
                         at < 200 ? at % 23 - 11 : (int64_t)((uint64_t)at * 0x123456789abcdefu));
  }
}

static bool applies(const ir_op_row *row, ir_dtype t) {
  if (row->spelled && t == IR_B1 && !(row->traits & IR_BOOL_ONLY)) return false;
  if (row->traits & IR_BOOL_ONLY) return t == IR_B1;
  if (row->traits & IR_WORD_ONLY) return t == IR_I64;
  if (row->traits & IR_FLOAT_ONLY) return ir_dtype_is_float(t);
  return true;
}

/* for i = 0 .. COUNT step lanes { out[i] = op(a[i], b[i], c[i]) } */
static void build(cpu_case *k, ir_op op, ir_dtype t, ir_dtype result, int lanes) {
  const ir_op_row *row = &ir_op_rows[op];
  ir_buf *out = cpu_case_buf(k, "out", result), *in[3];
  ir_expr *x[3] = {NULL, NULL, NULL};
  ir_block *outer;
  ir_var *i = ir_open_for(&k->build, "i", ir_int(k->arena, 0), ir_int(k->arena, COUNT),
                          IR_RUN_SEQUENTIAL, &outer);
  ir_code *loop = outer->codes.at[outer->codes.count - 1];
  loop->step = ir_int(k->arena, lanes);
  for (int a = 0; a < row->arity; a++) {
    in[a] = cpu_case_buf(k,
                         a == 0   ? "a"
                         : a == 1 ? "b"
                                  : "c",
                         op == IR_OP_WHERE && a == 0 ? IR_B1 : t);
    x[a] = cpu_case_load(k, in[a], ir_var_ref(k->arena, i), lanes);
  }
  ir_expr *value = row->arity == 3 ? ir_apply3(k->arena, op, x[0], x[1], x[2])
                                   : ir_apply(k->arena, op, x[0], x[1]);
  value->lanes = lanes;
  ir_store(&k->build, out, ir_var_ref(k->arena, i), value);
  ir_close(&k->build, outer);
}

/* Unit in the last place that an approximate function may be off. */
static double allowed(ir_op op) {
  switch (op) {
  case IR_OP_GELU: return 16;
  case IR_OP_EXP:
  case IR_OP_LOG:
  case IR_OP_SIGMOID:
  case IR_OP_SILU:
  case IR_OP_TANH:
  case IR_OP_RSQRT: return 3;
  default: return 1;
  }
}

static void check_float(ir_op op, ir_dtype t, const void *out, int i, const double *x) {
  double want = ir_op_rows[op].eval(x), got = ir_dtype_load(t, out, i);
  if (op == IR_OP_MOD && t != IR_F64)
    want = (double)((float)x[0] - floorf((float)x[0] / (float)x[1]) * (float)x[1]);
  if (t == IR_F64) {
    bool near =
        got == want || (isnan(got) && isnan(want)) || fabs(got - want) <= 4e-16 * fabs(want) * 4;
    cr_expect(near, "%s f64 %d: %g %g -> %g, want %g", ir_op_rows[op].mnemonic, i, x[0], x[1], got,
              want);
  } else if (t == IR_F32) {
    double ulps = cpu_ulps((float)got, want);
    cr_expect(ulps <= (ir_op_rows[op].spelled ? 3 : allowed(op)),
              "%s f32: %.9g %.9g -> %.9g, want %.9g (%g ulp)", ir_op_rows[op].mnemonic, x[0], x[1],
              got, want, ulps);
  } else {
    double a = ir_dtype_round(t, want), e = ir_dtype_epsilon(t);
    bool near = got == a || (isnan(got) && isnan(a)) || fabs(got - a) <= 2 * e * fabs(a) + 1e-38 ||
                (op == IR_OP_MOD && fabs(got - a) <= 2 * e * fabs(x[1]));
    cr_expect(near, "%s %s: %g %g -> %g, want %g", ir_op_rows[op].mnemonic, ir_dtype_text(t), x[0],
              x[1], got, a);
  }
}

static void check(ir_op op, ir_dtype t, ir_dtype result, const void *out, void *const *in) {
  const ir_op_row *row = &ir_op_rows[op];
  for (int i = 0; i < COUNT; i++) {
    double x[3] = {0, 0, 0};
    int64_t n[3] = {0, 0, 0};
    for (int a = 0; a < row->arity; a++) {
      ir_dtype type = op == IR_OP_WHERE && a == 0 ? IR_B1 : t;
      x[a] = ir_dtype_load(type, in[a], i);
      n[a] = ir_dtype_load_int(type, in[a], i);
    }
    if (ir_dtype_is_float(t) && ir_dtype_is_float(result)) {
      check_float(op, t, out, i, x);
      continue;
    }
    int64_t want =
        ir_dtype_is_float(t) ? row->eval(x) != 0 : ir_dtype_wrap(result, row->eval_int(n));
    int64_t got = ir_dtype_load_int(result, out, i);
    cr_expect_eq(got, want, "%s %s: %lld %lld -> %lld, want %lld", row->mnemonic, ir_dtype_text(t),
                 (long long)n[0], (long long)n[1], (long long)got, (long long)want);
  }
}

static void one(ir_op op, ir_dtype t, int lanes, const char *mcpu) {
  static int64_t out[COUNT], a[COUNT], b[COUNT], c[COUNT];
  ir_dtype result = ir_op_rows[op].result == IR_RESULT_BOOL ? IR_B1 : t;
  void *in[3] = {a, b, c};
  for (int i = 0; i < 3; i++) fill(op == IR_OP_WHERE && i == 0 ? IR_B1 : t, in[i], i);
  cpu_case k = cpu_case_new();
  build(&k, op, t, result, lanes);
  cpu_case_compile(&k, mcpu);
  void *buffers[4] = {out, a, b, c};
  cpu_case_call(&k, buffers, NULL, 0, 1);
  check(op, t, result, out, in);
  cpu_case_free(&k);
}

static void all(int lanes, const char *mcpu) {
  if (!cg_cpu_available()) cr_skip_test("%s", cg_cpu_version());
  for (int op = 0; op < IR_OP_COUNT; op++)
    for (int t = IR_NONE + 1; t < IR_DTYPE_COUNT; t++)
      if (applies(&ir_op_rows[op], (ir_dtype)t)) one((ir_op)op, (ir_dtype)t, lanes, mcpu);
}

Test(codegen_cpu_ops, scalar) { all(1, NULL); }
Test(codegen_cpu_ops, vector) { all(LANES, NULL); }
