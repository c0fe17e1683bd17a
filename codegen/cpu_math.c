/* cpu_math.c - transcendental functions of f32 as straight vector code; of f64 as calls to libm.
 *
 * Range reduction and polynomial coefficients are those of Moshier's Cephes library (expf, logf,
 * tanhf); erfc is the rational-exponential fit of Numerical Recipes (fractional error 1.2e-7), with
 * the square in its exponent split in two words.  Infinities, NaN and denormal results are right:
 * nothing here converts a NaN to an integer, and scaling by 2^n is done in two steps. */
#ifdef SPC_HAVE_LLVM
#include <math.h>

#include "codegen/cpu.h"

static bool is_double(LLVMValueRef x) {
  LLVMTypeRef type = LLVMTypeOf(x);
  if (LLVMGetTypeKind(type) == LLVMVectorTypeKind) type = LLVMGetElementType(type);
  return LLVMGetTypeKind(type) == LLVMDoubleTypeKind;
}

static LLVMValueRef mul(cg_cpu *c, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildFMul(c->builder, a, b, "");
}
static LLVMValueRef add(cg_cpu *c, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildFAdd(c->builder, a, b, "");
}
static LLVMValueRef k(cg_cpu *c, LLVMValueRef like, double value) {
  return cg_cpu_like(c, like, value);
}
static LLVMValueRef less(cg_cpu *c, LLVMValueRef a, double b) {
  return LLVMBuildFCmp(c->builder, LLVMRealOLT, a, k(c, a, b), "");
}
static LLVMValueRef greater(cg_cpu *c, LLVMValueRef a, double b) {
  return LLVMBuildFCmp(c->builder, LLVMRealOGT, a, k(c, a, b), "");
}
static LLVMValueRef word(cg_cpu *c, LLVMValueRef like, uint32_t value) {
  return cg_cpu_int(c, 32, cg_cpu_lanes(like), value);
}
static LLVMValueRef as_bits(cg_cpu *c, LLVMValueRef f) {
  return LLVMBuildBitCast(c->builder, f, cg_cpu_int_type(c, 32, cg_cpu_lanes(f)), "");
}
static LLVMValueRef as_float(cg_cpu *c, LLVMValueRef bits) {
  return LLVMBuildBitCast(c->builder, bits, cg_cpu_type(c, IR_F32, cg_cpu_lanes(bits)), "");
}

/* coefficient[0] x^(count-1) + ... + coefficient[count-1], by Horner. */
static LLVMValueRef polynomial(cg_cpu *c, LLVMValueRef x, const double *coefficient, int count) {
  LLVMValueRef sum = k(c, x, coefficient[0]);
  for (int i = 1; i < count; i++) sum = cg_cpu_fma(c, sum, x, k(c, x, coefficient[i]));
  return sum;
}

/* ---- calls, lane by lane ------------------------------------------------------------------- */
static LLVMValueRef call_one(cg_cpu *c, const char *name, LLVMValueRef *args, int count) {
  LLVMTypeRef type = LLVMTypeOf(args[0]), params[2] = {type, type};
  LLVMTypeRef signature = LLVMFunctionType(type, params, (unsigned)count, 0);
  LLVMValueRef f = LLVMGetNamedFunction(c->module, name);
  if (!f) f = LLVMAddFunction(c->module, name, signature);
  return LLVMBuildCall2(c->builder, signature, f, args, (unsigned)count, "");
}

static LLVMValueRef call(cg_cpu *c, const char *name, LLVMValueRef *args, int count) {
  int lanes = cg_cpu_lanes(args[0]);
  if (lanes == 1) return call_one(c, name, args, count);
  LLVMValueRef result = LLVMGetPoison(LLVMTypeOf(args[0]));
  for (int i = 0; i < lanes; i++) {
    LLVMValueRef one[2] = {NULL, NULL};
    for (int a = 0; a < count; a++) one[a] = cg_cpu_lane(c, args[a], i);
    result = LLVMBuildInsertElement(c->builder, result, call_one(c, name, one, count),
                                    cg_cpu_int(c, 32, 1, (uint64_t)i), "");
  }
  return result;
}

/* ---- f32 ------------------------------------------------------------------------------------ */
/* Adding 1.5 * 2^23 leaves the nearest integer in the low bits. */
static LLVMValueRef scaled_by_power(cg_cpu *c, LLVMValueRef y, LLVMValueRef n) {
  LLVMValueRef half = LLVMBuildAShr(c->builder, n, word(c, n, 1), "");
  LLVMValueRef rest = LLVMBuildSub(c->builder, n, half, "");
  LLVMValueRef powers[2] = {half, rest};
  for (int i = 0; i < 2; i++) {
    LLVMValueRef biased = LLVMBuildAdd(c->builder, powers[i], word(c, n, 127), "");
    y = mul(c, y, as_float(c, LLVMBuildShl(c->builder, biased, word(c, n, 23), "")));
  }
  return y;
}

LLVMValueRef cg_cpu_exp(cg_cpu *c, LLVMValueRef x) {
  static const double terms[] = {1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3,
                                 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1};
  if (is_double(x)) return call(c, "exp", &x, 1);
  LLVMValueRef in = cg_cpu_select(c, less(c, x, -104), k(c, x, -104), x);
  in = cg_cpu_select(c, greater(c, in, 89), k(c, x, 89), in);
  LLVMValueRef magic = k(c, x, 12582912.0);
  LLVMValueRef shifted = cg_cpu_fma(c, in, k(c, x, 1.44269504088896341), magic);
  LLVMValueRef whole = LLVMBuildFSub(c->builder, shifted, magic, "");
  LLVMValueRef n = LLVMBuildSub(c->builder, as_bits(c, shifted), as_bits(c, magic), "");
  LLVMValueRef r = cg_cpu_fma(c, whole, k(c, x, -0.693359375), in);
  r = cg_cpu_fma(c, whole, k(c, x, 2.12194440e-4), r);
  LLVMValueRef y = polynomial(c, r, terms, IR_COUNT(terms));
  y = add(c, cg_cpu_fma(c, y, mul(c, r, r), r), k(c, x, 1));
  return scaled_by_power(c, y, n);
}

/* x = m * 2^e with m in [sqrt(1/2), sqrt(2)); gives m - 1 and e as a float. */
static LLVMValueRef log_reduce(cg_cpu *c, LLVMValueRef x, LLVMValueRef *exponent) {
  LLVMValueRef tiny = less(c, x, 1.17549435e-38);
  LLVMValueRef big = cg_cpu_select(c, tiny, mul(c, x, k(c, x, 8388608.0)), x);
  LLVMValueRef bits = as_bits(c, big);
  LLVMValueRef e = LLVMBuildLShr(c->builder, bits, word(c, bits, 23), "");
  e = LLVMBuildSub(c->builder, e, cg_cpu_select(c, tiny, word(c, e, 149), word(c, e, 126)), "");
  LLVMValueRef m = LLVMBuildAnd(c->builder, bits, word(c, bits, 0x7fffff), "");
  m = as_float(c, LLVMBuildOr(c->builder, m, word(c, bits, 0x3f000000), ""));
  LLVMValueRef low = less(c, m, 0.707106781186547524);
  LLVMValueRef f = LLVMBuildSIToFP(c->builder, e, LLVMTypeOf(x), "");
  *exponent = cg_cpu_select(c, low, add(c, f, k(c, x, -1)), f);
  return add(c, cg_cpu_select(c, low, add(c, m, m), m), k(c, x, -1));
}

LLVMValueRef cg_cpu_log(cg_cpu *c, LLVMValueRef x) {
  static const double terms[] = {7.0376836292e-2,  -1.1514610310e-1, 1.1676998740e-1,
                                 -1.2420140846e-1, 1.4249322787e-1,  -1.6668057665e-1,
                                 2.0000714765e-1,  -2.4999993993e-1, 3.3333331174e-1};
  if (is_double(x)) return call(c, "log", &x, 1);
  LLVMValueRef e, m = log_reduce(c, x, &e);
  LLVMValueRef z = mul(c, m, m);
  LLVMValueRef y = mul(c, mul(c, polynomial(c, m, terms, IR_COUNT(terms)), m), z);
  y = cg_cpu_fma(c, e, k(c, x, -2.12194440e-4), y);
  y = cg_cpu_fma(c, z, k(c, x, -0.5), y);
  y = cg_cpu_fma(c, e, k(c, x, 0.693359375), add(c, m, y));
  LLVMValueRef infinite = greater(c, x, 3.4028234663852886e38);
  LLVMValueRef zero = LLVMBuildFCmp(c->builder, LLVMRealOEQ, x, k(c, x, 0), "");
  LLVMValueRef outside = LLVMBuildFCmp(c->builder, LLVMRealULT, x, k(c, x, 0), "");
  y = cg_cpu_select(c, infinite, x, y);
  y = cg_cpu_select(c, zero, k(c, x, -(double)INFINITY), y);
  return cg_cpu_select(c, outside, k(c, x, (double)NAN), y);
}

LLVMValueRef cg_cpu_tanh(cg_cpu *c, LLVMValueRef x) {
  static const double terms[] = {-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2,
                                 1.33314422036e-1, -3.33332819422e-1};
  if (is_double(x)) return call(c, "tanh", &x, 1);
  LLVMValueRef size = cg_cpu_unary(c, "llvm.fabs", x), z = mul(c, x, x);
  LLVMValueRef near = cg_cpu_fma(c, mul(c, polynomial(c, z, terms, IR_COUNT(terms)), z), x, x);
  LLVMValueRef e = add(c, cg_cpu_exp(c, add(c, size, size)), k(c, x, 1));
  LLVMValueRef far =
      LLVMBuildFSub(c->builder, k(c, x, 1), LLVMBuildFDiv(c->builder, k(c, x, 2), e, ""), "");
  LLVMTypeRef type = LLVMTypeOf(x);
  LLVMValueRef args[2] = {far, x};
  far = cg_cpu_intrinsic(c, "llvm.copysign", &type, 1, args, 2);
  return cg_cpu_select(c, less(c, size, 0.625), near, far);
}

/* erfc(size / sqrt 2), size >= 0: exp(-size^2 / 2) and a fit, size^2 / 2 as q + rest. */
static LLVMValueRef upper_tail(cg_cpu *c, LLVMValueRef size) {
  static const double terms[] = {0.17087277,  -0.82215223, 1.48851587, -1.13520398, 0.27886807,
                                 -0.18628806, 0.09678418,  0.37409196, 1.00002368,  -1.26551223};
  LLVMValueRef near = cg_cpu_select(c, greater(c, size, 15), k(c, size, 15), size);
  LLVMValueRef half = mul(c, near, k(c, size, 0.5)), q = mul(c, half, near);
  LLVMValueRef minus_q = LLVMBuildFNeg(c->builder, q, "");
  LLVMValueRef rest = cg_cpu_fma(c, half, near, minus_q);
  LLVMValueRef t = cg_cpu_fma(c, near, k(c, size, 0.5 * 0.70710678118654752), k(c, size, 1));
  t = LLVMBuildFDiv(c->builder, k(c, size, 1), t, "");
  LLVMValueRef fit = mul(c, t, cg_cpu_exp(c, polynomial(c, t, terms, IR_COUNT(terms))));
  LLVMValueRef tail = mul(c, fit, cg_cpu_exp(c, minus_q));
  return LLVMBuildFSub(c->builder, tail, mul(c, tail, rest), "");
}

LLVMValueRef cg_cpu_gelu(cg_cpu *c, LLVMValueRef x) {
  LLVMValueRef half = mul(c, x, k(c, x, 0.5));
  if (is_double(x)) {
    LLVMValueRef in = mul(c, x, k(c, x, -0.70710678118654752440));
    return mul(c, half, call(c, "erfc", &in, 1));
  }
  LLVMValueRef tail = upper_tail(c, cg_cpu_unary(c, "llvm.fabs", x));
  LLVMValueRef head = LLVMBuildFSub(c->builder, k(c, x, 2), tail, "");
  return mul(c, half, cg_cpu_select(c, less(c, x, 0), tail, head));
}

LLVMValueRef cg_cpu_pow(cg_cpu *c, LLVMValueRef x, LLVMValueRef y) {
  LLVMValueRef args[2] = {x, y};
  return call(c, is_double(x) ? "pow" : "powf", args, 2);
}
#else
typedef int cg_cpu_math_without_llvm;
#endif
