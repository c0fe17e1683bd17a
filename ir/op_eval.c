/* op_eval.c - what each op computes: on doubles, and on integers where it has them.
 *
 * Integers are evaluated in 64 bits with wrap-around; the caller wraps the result to its type.
 * min, max and relu give NaN when an operand is NaN; comparisons with NaN are false, `ne` true. */
#include <math.h>

#include "ir/op_eval.h"

static double quiet_nan(void) { return (double)NAN; }

/* ---- floats: one operand ------------------------------------------------------------------- */
double ir_eval_neg(const double *x) { return -x[0]; }
double ir_eval_abs(const double *x) { return fabs(x[0]); }
double ir_eval_relu(const double *x) { return x[0] > 0 || isnan(x[0]) ? x[0] : 0; }
double ir_eval_relu2(const double *x) { return x[0] > 0 || isnan(x[0]) ? x[0] * x[0] : 0; }
double ir_eval_exp(const double *x) { return exp(x[0]); }
double ir_eval_log(const double *x) { return log(x[0]); }
double ir_eval_sqrt(const double *x) { return sqrt(x[0]); }
double ir_eval_rsqrt(const double *x) { return 1 / sqrt(x[0]); }
double ir_eval_tanh(const double *x) { return tanh(x[0]); }
double ir_eval_sigmoid(const double *x) { return 1 / (1 + exp(-x[0])); }
double ir_eval_silu(const double *x) { return x[0] / (1 + exp(-x[0])); }
double ir_eval_gelu(const double *x) { return 0.5 * x[0] * erfc(-x[0] * 0.70710678118654752440); }
double ir_eval_step(const double *x) { return x[0] > 0; }
double ir_eval_sign(const double *x) { return x[0] > 0 ? 1 : x[0] < 0 ? -1 : x[0]; }
double ir_eval_not(const double *x) { return x[0] == 0; }

/* ---- floats: two and three operands -------------------------------------------------------- */
double ir_eval_add(const double *x) { return x[0] + x[1]; }
double ir_eval_sub(const double *x) { return x[0] - x[1]; }
double ir_eval_mul(const double *x) { return x[0] * x[1]; }
double ir_eval_div(const double *x) { return x[0] / x[1]; }
double ir_eval_mod(const double *x) { return x[0] - floor(x[0] / x[1]) * x[1]; }
double ir_eval_min(const double *x) {
  return isnan(x[0]) || isnan(x[1]) ? quiet_nan() : x[1] < x[0] ? x[1] : x[0];
}
double ir_eval_max(const double *x) {
  return isnan(x[0]) || isnan(x[1]) ? quiet_nan() : x[1] > x[0] ? x[1] : x[0];
}
double ir_eval_pow(const double *x) { return pow(x[0], x[1]); }
double ir_eval_lt(const double *x) { return x[0] < x[1]; }
double ir_eval_le(const double *x) { return x[0] <= x[1]; }
double ir_eval_gt(const double *x) { return x[0] > x[1]; }
double ir_eval_ge(const double *x) { return x[0] >= x[1]; }
double ir_eval_eq(const double *x) { return x[0] == x[1]; }
double ir_eval_ne(const double *x) { return x[0] != x[1]; }
double ir_eval_and(const double *x) { return x[0] != 0 && x[1] != 0; }
double ir_eval_or(const double *x) { return x[0] != 0 || x[1] != 0; }
double ir_eval_where(const double *x) { return x[0] != 0 ? x[1] : x[2]; }

/* Of the whole numbers that they hold. */
static double of_words(int64_t (*eval)(const int64_t *), const double *x, int count) {
  int64_t n[2] = {(int64_t)x[0], count > 1 ? (int64_t)x[1] : 0};
  return (double)eval(n);
}
double ir_eval_band(const double *x) { return of_words(ir_eval_int_band, x, 2); }
double ir_eval_bor(const double *x) { return of_words(ir_eval_int_bor, x, 2); }
double ir_eval_shl(const double *x) { return of_words(ir_eval_int_shl, x, 2); }
double ir_eval_ctz(const double *x) { return of_words(ir_eval_int_ctz, x, 1); }

/* ---- integers ------------------------------------------------------------------------------ */
static int64_t wrapped(uint64_t value) { return (int64_t)value; }

static int64_t floor_div(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return wrapped(0 - (uint64_t)a);
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t floor_mod(int64_t a, int64_t b) {
  if (b == 0 || b == -1) return 0;
  int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

int64_t ir_eval_int_neg(const int64_t *x) { return wrapped(0 - (uint64_t)x[0]); }
int64_t ir_eval_int_abs(const int64_t *x) { return x[0] < 0 ? ir_eval_int_neg(x) : x[0]; }
int64_t ir_eval_int_relu(const int64_t *x) { return x[0] > 0 ? x[0] : 0; }
int64_t ir_eval_int_relu2(const int64_t *x) {
  return x[0] > 0 ? wrapped((uint64_t)x[0] * (uint64_t)x[0]) : 0;
}
int64_t ir_eval_int_step(const int64_t *x) { return x[0] > 0; }
int64_t ir_eval_int_sign(const int64_t *x) { return (x[0] > 0) - (x[0] < 0); }
int64_t ir_eval_int_not(const int64_t *x) { return x[0] == 0; }
int64_t ir_eval_int_add(const int64_t *x) { return wrapped((uint64_t)x[0] + (uint64_t)x[1]); }
int64_t ir_eval_int_sub(const int64_t *x) { return wrapped((uint64_t)x[0] - (uint64_t)x[1]); }
int64_t ir_eval_int_mul(const int64_t *x) { return wrapped((uint64_t)x[0] * (uint64_t)x[1]); }
int64_t ir_eval_int_div(const int64_t *x) { return floor_div(x[0], x[1]); }
int64_t ir_eval_int_mod(const int64_t *x) { return floor_mod(x[0], x[1]); }
int64_t ir_eval_int_min(const int64_t *x) { return x[0] < x[1] ? x[0] : x[1]; }
int64_t ir_eval_int_max(const int64_t *x) { return x[0] > x[1] ? x[0] : x[1]; }
int64_t ir_eval_int_lt(const int64_t *x) { return x[0] < x[1]; }
int64_t ir_eval_int_le(const int64_t *x) { return x[0] <= x[1]; }
int64_t ir_eval_int_gt(const int64_t *x) { return x[0] > x[1]; }
int64_t ir_eval_int_ge(const int64_t *x) { return x[0] >= x[1]; }
int64_t ir_eval_int_eq(const int64_t *x) { return x[0] == x[1]; }
int64_t ir_eval_int_ne(const int64_t *x) { return x[0] != x[1]; }
int64_t ir_eval_int_and(const int64_t *x) { return x[0] != 0 && x[1] != 0; }
int64_t ir_eval_int_or(const int64_t *x) { return x[0] != 0 || x[1] != 0; }
int64_t ir_eval_int_where(const int64_t *x) { return x[0] != 0 ? x[1] : x[2]; }
int64_t ir_eval_int_band(const int64_t *x) { return x[0] & x[1]; }
int64_t ir_eval_int_bor(const int64_t *x) { return x[0] | x[1]; }
int64_t ir_eval_int_shl(const int64_t *x) {
  return wrapped((uint64_t)x[0] << ((uint64_t)x[1] & 63));
}
int64_t ir_eval_int_ctz(const int64_t *x) {
  int64_t count = 0;
  while (count < 64 && !((uint64_t)x[0] >> count & 1)) count++;
  return count;
}
