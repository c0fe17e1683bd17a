/* cpu_ops.c - one lowering an op: the `cpu` column of ir/ops.def names the functions of this file.
 *
 * A lowering is given operands of one dtype (`where`: b1, then the values) with equal lanes, and
 * gives the value that ir/op_eval.c defines.  It sees f64, f32, integers and b1 only: smaller
 * floats are widened before and rounded after, in cg_cpu_op.  Integers wrap; x / 0 and x % 0 are 0.
 */
#ifdef SPC_HAVE_LLVM
#include "codegen/cpu.h"
#include "ir/op_spelling.h"

typedef LLVMValueRef lowering(cg_cpu *c, ir_dtype t, LLVMValueRef *x);

static bool is_float(ir_dtype t) { return ir_dtype_is_float(t); }
static bool is_signed(ir_dtype t) { return ir_dtype_rows[t].class_ == 'S'; }

static LLVMValueRef constant(cg_cpu *c, ir_dtype t, LLVMValueRef like, int64_t value) {
  return cg_cpu_const_i(c, t, cg_cpu_lanes(like), value);
}

static LLVMValueRef compare(cg_cpu *c, ir_dtype t, LLVMRealPredicate real,
                            LLVMIntPredicate with_sign, LLVMIntPredicate without, LLVMValueRef a,
                            LLVMValueRef b) {
  if (is_float(t)) return LLVMBuildFCmp(c->builder, real, a, b, "");
  return LLVMBuildICmp(c->builder, is_signed(t) ? with_sign : without, a, b, "");
}

static LLVMValueRef lower_gt(cg_cpu *c, ir_dtype t, LLVMValueRef *x) {
  return compare(c, t, LLVMRealOGT, LLVMIntSGT, LLVMIntUGT, x[0], x[1]);
}
static LLVMValueRef lower_lt(cg_cpu *c, ir_dtype t, LLVMValueRef *x) {
  return compare(c, t, LLVMRealOLT, LLVMIntSLT, LLVMIntULT, x[0], x[1]);
}
static LLVMValueRef lower_le(cg_cpu *c, ir_dtype t, LLVMValueRef *x) {
  return compare(c, t, LLVMRealOLE, LLVMIntSLE, LLVMIntULE, x[0], x[1]);
}
static LLVMValueRef lower_ge(cg_cpu *c, ir_dtype t, LLVMValueRef *x) {
  return compare(c, t, LLVMRealOGE, LLVMIntSGE, LLVMIntUGE, x[0], x[1]);
}
static LLVMValueRef lower_eq(cg_cpu *c, ir_dtype t, LLVMValueRef *x) {
  return compare(c, t, LLVMRealOEQ, LLVMIntEQ, LLVMIntEQ, x[0], x[1]);
}
static LLVMValueRef lower_ne(cg_cpu *c, ir_dtype t, LLVMValueRef *x) {
  return compare(c, t, LLVMRealUNE, LLVMIntNE, LLVMIntNE, x[0], x[1]);
}

static LLVMValueRef above_zero(cg_cpu *c, ir_dtype t, LLVMValueRef v) {
  LLVMValueRef x[2] = {v, constant(c, t, v, 0)};
  return lower_gt(c, t, x);
}
static LLVMValueRef below_zero(cg_cpu *c, ir_dtype t, LLVMValueRef v) {
  LLVMValueRef x[2] = {v, constant(c, t, v, 0)};
  return lower_lt(c, t, x);
}
static LLVMValueRef is_nan(cg_cpu *c, LLVMValueRef v) {
  return LLVMBuildFCmp(c->builder, LLVMRealUNO, v, v, "");
}
static LLVMValueRef to_number(cg_cpu *c, ir_dtype t, LLVMValueRef bit) {
  return cg_cpu_cast(c, IR_B1, t, bit);
}

/* ---- arithmetic ----------------------------------------------------------------------------- */
static LLVMValueRef lower_add(cg_cpu *c, ir_dtype t, LLVMValueRef *x) {
  if (is_float(t)) return LLVMBuildFAdd(c->builder, x[0], x[1], "");
  if (t == IR_B1) return LLVMBuildOr(c->builder, x[0], x[1], "");
  return LLVMBuildAdd(c->builder, x[0], x[1], "");
}
static LLVMValueRef lower_sub(cg_cpu *c, ir_dtype t, LLVMValueRef *x) {
  if (is_float(t)) return LLVMBuildFSub(c->builder, x[0], x[1], "");
  if (t == IR_B1) return LLVMBuildXor(c->builder, x[0], x[1], "");
  return LLVMBuildSub(c->builder, x[0], x[1], "");
}
static LLVMValueRef lower_mul(cg_cpu *c, ir_dtype t, LLVMValueRef *x) {
  if (is_float(t)) return LLVMBuildFMul(c->builder, x[0], x[1], "");
  if (t == IR_B1) return LLVMBuildAnd(c->builder, x[0], x[1], "");
  return LLVMBuildMul(c->builder, x[0], x[1], "");
}

static LLVMValueRef lower_neg(cg_cpu *c, ir_dtype t, LLVMValueRef *x) {
  if (is_float(t)) return LLVMBuildFNeg(c->builder, x[0], "");
  return t == IR_B1 ? x[0] : LLVMBuildNeg(c->builder, x[0], "");
}
static LLVMValueRef lower_abs(cg_cpu *c, ir_dtype t, LLVMValueRef *x) {
  if (is_float(t)) return cg_cpu_unary(c, "llvm.fabs", x[0]);
  if (!is_signed(t)) return x[0];
  return cg_cpu_select(c, below_zero(c, t, x[0]), lower_neg(c, t, x), x[0]);
}

/* `0 > x ? 0 : x` keeps a NaN, and is one maxps. */
static LLVMValueRef lower_relu(cg_cpu *c, ir_dtype t, LLVMValueRef *x) {
  if (!is_float(t) && !is_signed(t)) return x[0];
  LLVMValueRef zero = constant(c, t, x[0], 0), swapped[2] = {zero, x[0]};
  return cg_cpu_select(c, lower_gt(c, t, swapped), zero, x[0]);
}
static LLVMValueRef lower_relu2(cg_cpu *c, ir_dtype t, LLVMValueRef *x) {
  LLVMValueRef r = lower_relu(c, t, x), both[2] = {r, r};
  return lower_mul(c, t, both);
}
static LLVMValueRef lower_step(cg_cpu *c, ir_dtype t, LLVMValueRef *x) {
  return to_number(c, t, above_zero(c, t, x[0]));
}
static LLVMValueRef lower_sign(cg_cpu *c, ir_dtype t, LLVMValueRef *x) {
  LLVMValueRef one = constant(c, t, x[0], 1), minus = lower_neg(c, t, &one);
  LLVMValueRef rest =
      is_signed(t) || is_float(t) ? cg_cpu_select(c, below_zero(c, t, x[0]), minus, x[0]) : x[0];
  return cg_cpu_select(c, above_zero(c, t, x[0]), one, rest);
}

/* ---- division ------------------------------------------------------------------------------- */
static bool power_of_two(LLVMValueRef v, int64_t *shift) {
  if (!LLVMIsAConstantInt(v)) return false;
  int64_t value = LLVMConstIntGetSExtValue(v);
  if (value <= 0 || (value & (value - 1))) return false;
  for (*shift = 0; (int64_t)1 << *shift < value; ++*shift) {}
  return true;
}

/* Divides by 1 instead of 0 and -1, whose results are made good by the caller. */
static LLVMValueRef safe_divisor(cg_cpu *c, ir_dtype t, LLVMValueRef y) {
  LLVMValueRef zero[2] = {y, constant(c, t, y, 0)}, one = constant(c, t, y, 1);
  LLVMValueRef bad = lower_eq(c, t, zero);
  if (is_signed(t)) {
    LLVMValueRef minus[2] = {y, constant(c, t, y, -1)};
    bad = LLVMBuildOr(c->builder, bad, lower_eq(c, t, minus), "");
  }
  return cg_cpu_select(c, bad, one, y);
}

/* Remainder that C gives, and whether flooring moves it: rest != 0 and signs differ. */
static LLVMValueRef needs_floor(cg_cpu *c, ir_dtype t, LLVMValueRef rest, LLVMValueRef y) {
  LLVMValueRef zero[2] = {rest, constant(c, t, rest, 0)};
  LLVMValueRef signs = LLVMBuildXor(c->builder, rest, y, "");
  return LLVMBuildAnd(c->builder, lower_ne(c, t, zero), below_zero(c, t, signs), "");
}

static LLVMValueRef zero_where_zero(cg_cpu *c, ir_dtype t, LLVMValueRef y, LLVMValueRef value) {
  LLVMValueRef zero[2] = {y, constant(c, t, y, 0)};
  return cg_cpu_select(c, lower_eq(c, t, zero), zero[1], value);
}

static LLVMValueRef lower_div(cg_cpu *c, ir_dtype t, LLVMValueRef *x) {
  int64_t shift;
  if (is_float(t)) return LLVMBuildFDiv(c->builder, x[0], x[1], "");
  if (t == IR_B1) return LLVMBuildAnd(c->builder, x[0], x[1], "");
  if (is_signed(t) && power_of_two(x[1], &shift))
    return LLVMBuildAShr(c->builder, x[0], constant(c, t, x[0], shift), "");
  LLVMValueRef by = safe_divisor(c, t, x[1]);
  if (!is_signed(t)) return zero_where_zero(c, t, x[1], LLVMBuildUDiv(c->builder, x[0], by, ""));
  LLVMValueRef q = LLVMBuildSDiv(c->builder, x[0], by, "");
  LLVMValueRef rest = LLVMBuildSRem(c->builder, x[0], by, "");
  LLVMValueRef less = LLVMBuildSub(c->builder, q, constant(c, t, q, 1), "");
  q = cg_cpu_select(c, needs_floor(c, t, rest, by), less, q);
  LLVMValueRef minus[2] = {x[1], constant(c, t, x[1], -1)};
  q = cg_cpu_select(c, lower_eq(c, t, minus), LLVMBuildNeg(c->builder, x[0], ""), q);
  return zero_where_zero(c, t, x[1], q);
}

static LLVMValueRef float_mod(cg_cpu *c, LLVMValueRef *x) {
  LLVMValueRef whole = cg_cpu_unary(c, "llvm.floor", LLVMBuildFDiv(c->builder, x[0], x[1], ""));
  return LLVMBuildFSub(c->builder, x[0], LLVMBuildFMul(c->builder, whole, x[1], ""), "");
}

static LLVMValueRef lower_mod(cg_cpu *c, ir_dtype t, LLVMValueRef *x) {
  int64_t shift;
  if (is_float(t)) return float_mod(c, x);
  if (t == IR_B1) return cg_cpu_int(c, 1, cg_cpu_lanes(x[0]), 0);
  if (is_signed(t) && power_of_two(x[1], &shift))
    return LLVMBuildAnd(c->builder, x[0], constant(c, t, x[0], ((int64_t)1 << shift) - 1), "");
  LLVMValueRef by = safe_divisor(c, t, x[1]);
  if (!is_signed(t)) return zero_where_zero(c, t, x[1], LLVMBuildURem(c->builder, x[0], by, ""));
  LLVMValueRef rest = LLVMBuildSRem(c->builder, x[0], by, "");
  LLVMValueRef more = LLVMBuildAdd(c->builder, rest, by, "");
  return cg_cpu_select(c, needs_floor(c, t, rest, by), more, rest);
}

/* ---- min, max: NaN when either is ------------------------------------------------------------ */
static LLVMValueRef chosen(cg_cpu *c, ir_dtype t, LLVMValueRef take_first, LLVMValueRef *x) {
  LLVMValueRef best = cg_cpu_select(c, take_first, x[0], x[1]);
  return is_float(t) ? cg_cpu_select(c, is_nan(c, x[0]), x[0], best) : best;
}
static LLVMValueRef lower_min(cg_cpu *c, ir_dtype t, LLVMValueRef *x) {
  return chosen(c, t, lower_lt(c, t, x), x);
}
static LLVMValueRef lower_max(cg_cpu *c, ir_dtype t, LLVMValueRef *x) {
  return chosen(c, t, lower_gt(c, t, x), x);
}

/* ---- transcendental ------------------------------------------------------------------------- */
static LLVMValueRef reciprocal(cg_cpu *c, LLVMValueRef v) {
  return LLVMBuildFDiv(c->builder, cg_cpu_like(c, v, 1), v, "");
}
/* e^-|x| does not overflow, so the tails below zero keep their value: numerator / (1 + e^-|x|). */
static LLVMValueRef logistic(cg_cpu *c, LLVMValueRef x, bool times_x) {
  LLVMValueRef size = cg_cpu_unary(c, "llvm.fabs", x), one = cg_cpu_like(c, x, 1);
  LLVMValueRef e = cg_cpu_exp(c, LLVMBuildFNeg(c->builder, size, ""));
  LLVMValueRef below = times_x ? LLVMBuildFMul(c->builder, x, e, "") : e;
  LLVMValueRef negative = LLVMBuildFCmp(c->builder, LLVMRealOLT, x, cg_cpu_like(c, x, 0), "");
  LLVMValueRef above = cg_cpu_select(c, negative, below, times_x ? x : one);
  return LLVMBuildFDiv(c->builder, above, LLVMBuildFAdd(c->builder, one, e, ""), "");
}
static LLVMValueRef lower_exp(cg_cpu *c, ir_dtype t, LLVMValueRef *x) {
  (void)t;
  return cg_cpu_exp(c, x[0]);
}
static LLVMValueRef lower_log(cg_cpu *c, ir_dtype t, LLVMValueRef *x) {
  (void)t;
  return cg_cpu_log(c, x[0]);
}
static LLVMValueRef lower_sqrt(cg_cpu *c, ir_dtype t, LLVMValueRef *x) {
  (void)t;
  return cg_cpu_unary(c, "llvm.sqrt", x[0]);
}
static LLVMValueRef lower_rsqrt(cg_cpu *c, ir_dtype t, LLVMValueRef *x) {
  return reciprocal(c, lower_sqrt(c, t, x));
}
static LLVMValueRef lower_tanh(cg_cpu *c, ir_dtype t, LLVMValueRef *x) {
  (void)t;
  return cg_cpu_tanh(c, x[0]);
}
static LLVMValueRef lower_sigmoid(cg_cpu *c, ir_dtype t, LLVMValueRef *x) {
  (void)t;
  return logistic(c, x[0], false);
}
static LLVMValueRef lower_silu(cg_cpu *c, ir_dtype t, LLVMValueRef *x) {
  (void)t;
  return logistic(c, x[0], true);
}
static LLVMValueRef lower_gelu(cg_cpu *c, ir_dtype t, LLVMValueRef *x) {
  (void)t;
  return cg_cpu_gelu(c, x[0]);
}
static LLVMValueRef lower_pow(cg_cpu *c, ir_dtype t, LLVMValueRef *x) {
  (void)t;
  return cg_cpu_pow(c, x[0], x[1]);
}

/* ---- booleans ------------------------------------------------------------------------------- */
static LLVMValueRef as_bool(cg_cpu *c, ir_dtype t, LLVMValueRef v) {
  return cg_cpu_cast(c, t, IR_B1, v);
}
static LLVMValueRef lower_not(cg_cpu *c, ir_dtype t, LLVMValueRef *x) {
  return LLVMBuildNot(c->builder, as_bool(c, t, x[0]), "");
}
static LLVMValueRef lower_and(cg_cpu *c, ir_dtype t, LLVMValueRef *x) {
  return LLVMBuildAnd(c->builder, as_bool(c, t, x[0]), as_bool(c, t, x[1]), "");
}
static LLVMValueRef lower_or(cg_cpu *c, ir_dtype t, LLVMValueRef *x) {
  return LLVMBuildOr(c->builder, as_bool(c, t, x[0]), as_bool(c, t, x[1]), "");
}
static LLVMValueRef lower_where(cg_cpu *c, ir_dtype t, LLVMValueRef *x) {
  (void)t;
  return cg_cpu_select(c, x[0], x[1], x[2]);
}

/* ---- words of bits -------------------------------------------------------------------------- */
static LLVMValueRef lower_band(cg_cpu *c, ir_dtype t, LLVMValueRef *x) {
  (void)t;
  return LLVMBuildAnd(c->builder, x[0], x[1], "");
}
static LLVMValueRef lower_bor(cg_cpu *c, ir_dtype t, LLVMValueRef *x) {
  (void)t;
  return LLVMBuildOr(c->builder, x[0], x[1], "");
}
static LLVMValueRef lower_shl(cg_cpu *c, ir_dtype t, LLVMValueRef *x) {
  LLVMValueRef by = LLVMBuildAnd(c->builder, x[1], constant(c, t, x[1], 63), "");
  return LLVMBuildShl(c->builder, x[0], by, "");
}
static LLVMValueRef lower_ctz(cg_cpu *c, ir_dtype t, LLVMValueRef *x) {
  (void)t;
  LLVMTypeRef type = LLVMTypeOf(x[0]);
  LLVMValueRef args[2] = {x[0], cg_cpu_int(c, 1, 1, 0)}; /* 0 gives 64 */
  return cg_cpu_intrinsic(c, "llvm.cttz", &type, 1, args, 2);
}

/* ---- the table ------------------------------------------------------------------------------ */
#define lower_spelled NULL
static lowering *const lowerings[IR_OP_COUNT] = {
#define SPC_OP(NAME, MNEMONIC, ARITY, TRAITS, ZERO, CPU, CUDA, RESULT, MEANING) lower_##CPU,
#include "ir/ops.def"
#undef SPC_OP
};

/* A spelled op has no lowering: the ops that its spelling names have theirs. */
static LLVMValueRef spelled(cg_cpu *c, const ir_op_row *row, ir_dtype t, LLVMValueRef *x) {
  ir_spelling s;
  LLVMValueRef value[IR_MAX_STEPS];
  ir_dtype dtype[IR_MAX_STEPS];
  int top = 0, lanes = cg_cpu_lanes(x[0]);
  if (ir_spelling_read(row->cuda, &s)) return NULL;
  for (int i = 0; i < s.count; i++, top++) {
    const ir_step *step = &s.step[i];
    const ir_op_row *of = step->kind == IR_STEP_OP ? &ir_op_rows[step->op] : NULL;
    top -= of ? of->arity : 0;
    dtype[top] = of && of->arity > 1 ? dtype[top + 1] : of ? dtype[top] : t;
    if (of)
      value[top] = cg_cpu_op(c, step->op, dtype[top], &value[top]);
    else if (step->kind == IR_STEP_OPERAND)
      value[top] = x[step->operand];
    else if (is_float(t))
      value[top] = cg_cpu_const_f(c, t, lanes, step->number);
    else
      value[top] = cg_cpu_const_i(c, t, lanes, (int64_t)step->number);
    if (of && of->result == IR_RESULT_BOOL) dtype[top] = IR_B1;
  }
  return value[0];
}

static LLVMValueRef lowered(cg_cpu *c, ir_op op, ir_dtype t, LLVMValueRef *x) {
  const ir_op_row *row = &ir_op_rows[op];
  if (!row->spelled) return lowerings[op](c, t, x);
  if (!ir_dtype_is_int(t)) return spelled(c, row, t, x);
  LLVMValueRef wide[3];
  for (int i = 0; i < row->arity; i++) wide[i] = cg_cpu_cast(c, t, IR_I64, x[i]);
  LLVMValueRef value = spelled(c, row, IR_I64, wide);
  return row->result == IR_RESULT_SAME ? cg_cpu_cast(c, IR_I64, t, value) : value;
}

LLVMValueRef cg_cpu_op(cg_cpu *c, ir_op op, ir_dtype t, LLVMValueRef *x) {
  const ir_op_row *row = &ir_op_rows[op];
  bool narrow = is_float(t) && ir_dtype_rows[t].bits < 32 && row->result != IR_RESULT_RIGHT;
  if (!narrow) {
    LLVMValueRef value = lowered(c, op, t, x);
    return row->result == IR_RESULT_SAME ? cg_cpu_wrap(c, t, value) : value;
  }
  LLVMValueRef wide[3];
  for (int i = 0; i < row->arity; i++) wide[i] = cg_cpu_cast(c, t, IR_F32, x[i]);
  LLVMValueRef value = lowered(c, op, IR_F32, wide);
  return row->result == IR_RESULT_SAME ? cg_cpu_cast(c, IR_F32, t, value) : value;
}
#else
typedef int cg_cpu_ops_without_llvm;
#endif
