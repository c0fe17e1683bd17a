/* cpu_cast.c - conversions between dtypes, as instructions; ir/dtype.c defines what they give.
 *
 * A smaller float is its bits.  It widens to f32 exactly and is rounded from f32 to nearest even
 * once; from f64 the way leads over an f32 rounded to odd, which makes the second rounding right.
 * f16 uses the hardware where it is there; bf16 is always the integer sequence: the hardware's
 * instruction flushes denormals.  A float becomes an integer by truncation, saturating, NaN -> 0.
 */
#ifdef SPC_HAVE_LLVM
#include "codegen/cpu.h"

typedef struct small_float {
  unsigned mantissa, bias, bits;
  uint32_t largest, overflow, nan; /* without the sign */
  bool infinities;
} small_float;

static small_float small_of(ir_dtype t) {
  switch (t) {
  case IR_F16: return (small_float){10, 15, 16, 0x7bff, 0x7c00, 0x7e00, true};
  case IR_BF16: return (small_float){7, 127, 16, 0x7f7f, 0x7f80, 0x7fc0, true};
  case IR_F8E4M3: return (small_float){3, 7, 8, 0x7e, 0x7e, 0x7f, false};
  default: return (small_float){2, 15, 8, 0x7b, 0x7c, 0x7e, true};
  }
}

static bool is_small_float(ir_dtype t) {
  return ir_dtype_is_float(t) && t != IR_F64 && t != IR_F32;
}

static bool is_signed(ir_dtype t) { return ir_dtype_rows[t].class_ == 'S'; }

/* ---- words of 32 bits ----------------------------------------------------------------------- */
static LLVMValueRef word(cg_cpu *c, LLVMValueRef like, uint32_t value) {
  return cg_cpu_int(c, 32, cg_cpu_lanes(like), value);
}
static LLVMValueRef and_(cg_cpu *c, LLVMValueRef a, uint32_t b) {
  return LLVMBuildAnd(c->builder, a, word(c, a, b), "");
}
static LLVMValueRef plus(cg_cpu *c, LLVMValueRef a, uint32_t b) {
  return LLVMBuildAdd(c->builder, a, word(c, a, b), "");
}
static LLVMValueRef left(cg_cpu *c, LLVMValueRef a, unsigned n) {
  return n ? LLVMBuildShl(c->builder, a, word(c, a, n), "") : a;
}
static LLVMValueRef right(cg_cpu *c, LLVMValueRef a, unsigned n) {
  return n ? LLVMBuildLShr(c->builder, a, word(c, a, n), "") : a;
}
static LLVMValueRef above(cg_cpu *c, LLVMValueRef a, uint32_t b) {
  return LLVMBuildICmp(c->builder, LLVMIntUGT, a, word(c, a, b), "");
}
static LLVMValueRef as_float(cg_cpu *c, LLVMValueRef bits) {
  return LLVMBuildBitCast(c->builder, bits, cg_cpu_type(c, IR_F32, cg_cpu_lanes(bits)), "");
}
static LLVMValueRef as_bits(cg_cpu *c, LLVMValueRef f) {
  return LLVMBuildBitCast(c->builder, f, cg_cpu_int_type(c, 32, cg_cpu_lanes(f)), "");
}

/* ---- small floats to f32 -------------------------------------------------------------------- */
static LLVMTypeRef half_type(cg_cpu *c, int lanes) {
  LLVMTypeRef half = LLVMHalfTypeInContext(c->context);
  return lanes > 1 ? LLVMVectorType(half, (unsigned)lanes) : half;
}

/* Exponent and mantissa are moved to f32's place and the bias made good by a multiplication, which
 * is exact and also gives the denormals. */
static LLVMValueRef widen_by_scale(cg_cpu *c, const small_float *s, LLVMValueRef wide) {
  uint32_t sign_bit = (uint32_t)1 << (s->bits - 1);
  LLVMValueRef magnitude = and_(c, wide, sign_bit - 1);
  LLVMValueRef sign = left(c, and_(c, wide, sign_bit), 32 - s->bits);
  LLVMValueRef scaled = as_float(c, left(c, magnitude, 23 - s->mantissa));
  union {
    uint32_t u;
    float f;
  } factor = {.u = (127 + 127 - s->bias) << 23};
  scaled = LLVMBuildFMul(c->builder, scaled, cg_cpu_like(c, scaled, (double)factor.f), "");
  LLVMValueRef bits = as_bits(c, scaled);
  LLVMValueRef nan = word(c, bits, 0x7fc00000u);
  if (s->infinities) {
    LLVMValueRef inf =
        LLVMBuildICmp(c->builder, LLVMIntEQ, magnitude, word(c, bits, s->overflow), "");
    nan = cg_cpu_select(c, inf, word(c, bits, 0x7f800000u), nan);
  }
  bits = cg_cpu_select(c, above(c, magnitude, s->largest), nan, bits);
  return as_float(c, LLVMBuildOr(c->builder, bits, sign, ""));
}

static LLVMValueRef widen(cg_cpu *c, ir_dtype t, LLVMValueRef v) {
  if (t == IR_F16 && c->machine.half) {
    LLVMValueRef h = LLVMBuildBitCast(c->builder, v, half_type(c, cg_cpu_lanes(v)), "");
    return LLVMBuildFPExt(c->builder, h, cg_cpu_type(c, IR_F32, cg_cpu_lanes(v)), "");
  }
  LLVMValueRef wide = LLVMBuildZExt(c->builder, v, cg_cpu_int_type(c, 32, cg_cpu_lanes(v)), "");
  if (t == IR_BF16) return as_float(c, left(c, wide, 16));
  small_float s = small_of(t);
  return widen_by_scale(c, &s, wide);
}

/* ---- f32 to small floats -------------------------------------------------------------------- */
/* bits + half a unit of the last place kept, minus one, plus that place: to nearest even. */
static LLVMValueRef rounded_off(cg_cpu *c, LLVMValueRef magnitude, unsigned drop) {
  LLVMValueRef odd = and_(c, right(c, magnitude, drop), 1);
  LLVMValueRef sum = plus(c, magnitude, ((uint32_t)1 << (drop - 1)) - 1);
  return right(c, LLVMBuildAdd(c->builder, sum, odd, ""), drop);
}

/* Denormal results: adding a power of two whose last place is the result's lets the FPU round. */
static LLVMValueRef denormal(cg_cpu *c, const small_float *s, LLVMValueRef magnitude) {
  uint32_t magic = (127 + 1 - s->bias + 23 - s->mantissa) << 23;
  union {
    uint32_t u;
    float f;
  } m = {.u = magic};
  LLVMValueRef f = as_float(c, magnitude);
  LLVMValueRef sum = LLVMBuildFAdd(c->builder, f, cg_cpu_like(c, f, (double)m.f), "");
  return plus(c, as_bits(c, sum), 0u - magic);
}

static LLVMValueRef narrow_bits(cg_cpu *c, const small_float *s, LLVMValueRef v) {
  LLVMValueRef bits = as_bits(c, v);
  LLVMValueRef magnitude = and_(c, bits, 0x7fffffffu);
  LLVMValueRef sign = and_(c, right(c, bits, 32 - s->bits), (uint32_t)1 << (s->bits - 1));
  unsigned drop = 23 - s->mantissa;
  LLVMValueRef normal = rounded_off(c, magnitude, drop);
  if (s->bias != 127) {
    normal = plus(c, normal, 0u - ((127 - s->bias) << s->mantissa));
    LLVMValueRef small =
        LLVMBuildICmp(c->builder, LLVMIntULT, magnitude, word(c, bits, (128 - s->bias) << 23), "");
    normal = cg_cpu_select(c, small, denormal(c, s, magnitude), normal);
    normal = cg_cpu_select(c, above(c, normal, s->largest), word(c, bits, s->overflow), normal);
  }
  normal = LLVMBuildOr(c->builder, normal, sign, "");
  return cg_cpu_select(c, above(c, magnitude, 0x7f800000u), word(c, bits, s->nan), normal);
}

static LLVMValueRef narrow(cg_cpu *c, ir_dtype t, LLVMValueRef v) {
  small_float s = small_of(t);
  LLVMTypeRef result = cg_cpu_int_type(c, s.bits, cg_cpu_lanes(v));
  if (t == IR_F16 && c->machine.half) {
    LLVMValueRef h = LLVMBuildFPTrunc(c->builder, v, half_type(c, cg_cpu_lanes(v)), "");
    return LLVMBuildBitCast(c->builder, h, result, "");
  }
  return LLVMBuildTrunc(c->builder, narrow_bits(c, &s, v), result, "");
}

/* f64 to f32 so that the last bit is 1 where anything was lost. */
static LLVMValueRef to_odd(cg_cpu *c, LLVMValueRef d) {
  LLVMValueRef f = LLVMBuildFPTrunc(c->builder, d, cg_cpu_type(c, IR_F32, cg_cpu_lanes(d)), "");
  LLVMValueRef bits = as_bits(c, f), zero = cg_cpu_like(c, d, 0);
  LLVMValueRef back = LLVMBuildFPExt(c->builder, f, LLVMTypeOf(d), "");
  LLVMValueRef lost = LLVMBuildFSub(c->builder, d, back, "");
  LLVMValueRef inexact = LLVMBuildFCmp(c->builder, LLVMRealONE, lost, zero, "");
  LLVMValueRef even = LLVMBuildICmp(c->builder, LLVMIntEQ, and_(c, bits, 1), word(c, bits, 0), "");
  LLVMValueRef more = LLVMBuildFCmp(c->builder, LLVMRealOGT, lost, zero, "");
  LLVMValueRef positive = LLVMBuildFCmp(c->builder, LLVMRealOGT, d, zero, "");
  LLVMValueRef away = LLVMBuildICmp(c->builder, LLVMIntEQ, more, positive, "");
  LLVMValueRef step = cg_cpu_select(c, away, word(c, bits, 1), word(c, bits, 0xffffffffu));
  LLVMValueRef moved = LLVMBuildAdd(c->builder, bits, step, "");
  return as_float(c, cg_cpu_select(c, LLVMBuildAnd(c->builder, inexact, even, ""), moved, bits));
}

static LLVMValueRef float_to_float(cg_cpu *c, ir_dtype from, ir_dtype to, LLVMValueRef v) {
  if (is_small_float(from)) {
    v = widen(c, from, v);
    from = IR_F32;
  }
  if (from == to) return v;
  LLVMTypeRef type = cg_cpu_type(c, to, cg_cpu_lanes(v));
  if (to == IR_F64) return LLVMBuildFPExt(c->builder, v, type, "");
  if (to == IR_F32) return LLVMBuildFPTrunc(c->builder, v, type, "");
  return narrow(c, to, from == IR_F64 ? to_odd(c, v) : v);
}

/* ---- integers ------------------------------------------------------------------------------- */
LLVMValueRef cg_cpu_wrap(cg_cpu *c, ir_dtype t, LLVMValueRef v) {
  LLVMValueRef four = cg_cpu_int(c, 8, cg_cpu_lanes(v), 4);
  if (t == IR_U4) return LLVMBuildAnd(c->builder, v, cg_cpu_int(c, 8, cg_cpu_lanes(v), 15), "");
  if (t != IR_I4) return v;
  return LLVMBuildAShr(c->builder, LLVMBuildShl(c->builder, v, four, ""), four, "");
}

static LLVMValueRef int_to_int(cg_cpu *c, ir_dtype from, ir_dtype to, LLVMValueRef v) {
  if (to == IR_B1)
    return from == IR_B1
               ? v
               : LLVMBuildICmp(c->builder, LLVMIntNE, v, LLVMConstNull(LLVMTypeOf(v)), "");
  LLVMTypeRef type = cg_cpu_type(c, to, cg_cpu_lanes(v));
  LLVMValueRef wide = LLVMBuildIntCast2(c->builder, v, type, is_signed(from), "");
  return cg_cpu_wrap(c, to, wide);
}

static LLVMValueRef int_to_float(cg_cpu *c, ir_dtype from, ir_dtype to, LLVMValueRef v) {
  bool exact_in_f32 = ir_dtype_rows[from].bits <= 16;
  ir_dtype over = to == IR_F32 || to == IR_F64 ? to : exact_in_f32 ? IR_F32 : IR_F64;
  LLVMTypeRef type = cg_cpu_type(c, over, cg_cpu_lanes(v));
  LLVMValueRef f = is_signed(from) ? LLVMBuildSIToFP(c->builder, v, type, "")
                                   : LLVMBuildUIToFP(c->builder, v, type, "");
  return float_to_float(c, over, to, f);
}

static LLVMValueRef float_to_int(cg_cpu *c, ir_dtype from, ir_dtype to, LLVMValueRef v) {
  if (is_small_float(from)) v = widen(c, from, v);
  if (to == IR_B1) return LLVMBuildFCmp(c->builder, LLVMRealUNE, v, cg_cpu_like(c, v, 0), "");
  int lanes = cg_cpu_lanes(v);
  LLVMTypeRef overloads[2] = {cg_cpu_int_type(c, (unsigned)ir_dtype_rows[to].bits, lanes),
                              LLVMTypeOf(v)};
  const char *name = is_signed(to) ? "llvm.fptosi.sat" : "llvm.fptoui.sat";
  LLVMValueRef whole = cg_cpu_intrinsic(c, name, overloads, 2, &v, 1);
  return LLVMBuildIntCast2(c->builder, whole, cg_cpu_type(c, to, lanes), is_signed(to), "");
}

LLVMValueRef cg_cpu_cast(cg_cpu *c, ir_dtype from, ir_dtype to, LLVMValueRef v) {
  if (from == to) return v;
  bool float_from = ir_dtype_is_float(from), float_to = ir_dtype_is_float(to);
  if (float_from) return float_to ? float_to_float(c, from, to, v) : float_to_int(c, from, to, v);
  return float_to ? int_to_float(c, from, to, v) : int_to_int(c, from, to, v);
}
#else
typedef int cg_cpu_cast_without_llvm;
#endif
