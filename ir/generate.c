/* generate.c - test data: counter-based, so that element i of a tensor depends on (seed, i) alone
 * and is the same on every machine and in every storage order.
 *
 * Uniform bits are a SplitMix64 finaliser over seed and counter (Steele, Lea, Flood 2014).  The
 * normal quantile is Acklam's rational approximation (relative error 1.2e-9); its tails need a
 * logarithm, which is written out here: only + - * / and sqrt are used, which IEEE fixes to the
 * bit.
 *
 *     rand(seed)                     standard normal; integers uniform in their range cut to -8..8;
 * b1 a coin randint(seed, lo, hi)          uniform integers, lo <= x < hi sparse(seed, density) as
 * rand where kept, else 0; every element is kept with this probability zeros(density, rows, cols,
 * seed)  as rand in exactly the nearest number of rows x cols tiles, else 0 offsets(seed) 0 = o[0]
 * <= o[1] <= ... = limit, with an empty segment where there are two iota 0, 1, 2, ... in row-major
 * order eye                            1 where the last two coordinates are equal */
#include <math.h>
#include <stdlib.h>

#include "ir/interp.h"

/* ---- bits ------------------------------------------------------------------------------ */
static uint64_t mix(uint64_t z) {
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

/* Streams keep the uses of one seed apart: which elements are kept, and what their values are. */
enum { STREAM_VALUE = 1, STREAM_KEEP = 2, STREAM_OFFSET = 3, STREAM_EMPTY = 4 };

static uint64_t bits_at(uint64_t seed, uint64_t stream, int64_t i) {
  uint64_t key = mix(seed + stream * 0x9e3779b97f4a7c15u);
  return mix(key + ((uint64_t)i + 1) * 0x9e3779b97f4a7c15u);
}

static double uniform_at(uint64_t seed, uint64_t stream, int64_t i) { /* inside (0, 1) */
  return ((double)(bits_at(seed, stream, i) >> 12) + 0.5) * (1.0 / 4503599627370496.0);
}

static int64_t below_at(uint64_t seed, uint64_t stream, int64_t i, uint64_t range) {
  return (int64_t)((bits_at(seed, stream, i) >> 11) % range);
}

/* ---- the normal quantile ------------------------------------------------------------------ */
/* log(x) for x in (0, 1): x = m 2^e with m in [1/sqrt 2, sqrt 2), log m by the series of atanh. */
static double log_of(double x) {
  int e = 0;
  while (x < 0.70710678118654752) x *= 2, e--;
  double t = (x - 1) / (x + 1), t2 = t * t, sum = 0;
  for (int k = 21; k >= 1; k -= 2) sum = sum * t2 + 1.0 / k;
  return 2 * t * sum + e * 0.69314718055994531;
}

static double tail(double p) {
  double q = sqrt(-2 * log_of(p));
  double above =
      ((((-7.784894002430293e-03 * q - 3.223964580411365e-01) * q - 2.400758277161838e+00) * q -
        2.549732539343734e+00) *
           q +
       4.374664141464968e+00) *
          q +
      2.938163982698783e+00;
  double under =
      (((7.784695709041462e-03 * q + 3.224671290700398e-01) * q + 2.445134137142996e+00) * q +
       3.754408661907416e+00) *
          q +
      1;
  return above / under;
}

static double centre(double p) {
  double q = p - 0.5, r = q * q;
  double above =
      (((((-3.969683028665376e+01 * r + 2.209460984245205e+02) * r - 2.759285104469687e+02) * r +
         1.383577518672690e+02) *
            r -
        3.066479806614716e+01) *
           r +
       2.506628277459239e+00) *
      q;
  double under =
      ((((-5.447609879822406e+01 * r + 1.615858368580409e+02) * r - 1.556989798598866e+02) * r +
        6.680131188771972e+01) *
           r -
       1.328068155288572e+01) *
          r +
      1;
  return above / under;
}

static double normal_quantile(double p) {
  if (p < 0.02425) return tail(p);
  if (p > 1 - 0.02425) return -tail(1 - p);
  return centre(p);
}

/* ---- one element ------------------------------------------------------------------------- */
typedef struct generator {
  ir_view *view;
  int64_t linear; /* row-major number of the element */
  int64_t at[IR_MAX_RANK];
  int64_t position;
} generator;

static void put(const generator *g, double value) {
  ir_dtype_store(g->view->dtype, g->view->vals.data, g->position, value);
}

static double random_value(ir_dtype t, uint64_t seed, int64_t i) {
  if (ir_dtype_is_float(t)) return normal_quantile(uniform_at(seed, STREAM_VALUE, i));
  if (t == IR_B1) return (double)below_at(seed, STREAM_VALUE, i, 2);
  double low = ir_dtype_rows[t].class_ == 'U' ? 0 : -8, high = t == IR_I4 ? 7 : 8;
  return low + (double)below_at(seed, STREAM_VALUE, i, (uint64_t)(high - low + 1));
}

static double random_nonzero(ir_dtype t, uint64_t seed, int64_t i) {
  double value = random_value(t, seed, i);
  return value == 0 ? 1 : value;
}

/* Moves to the next element in row-major order; false at the end. */
static bool next(generator *g, bool row_major) {
  g->linear++;
  for (int d = g->view->rank - 1; d >= 0; d--) {
    if (++g->at[d] < g->view->dim[d]) {
      g->position = row_major ? g->linear : ir_view_locate(g->view, g->at);
      return true;
    }
    g->at[d] = 0;
  }
  return false;
}

static generator first(ir_view *view) {
  generator g = {.view = view};
  return g;
}

/* ---- the kinds ---------------------------------------------------------------------------- */
typedef spc_status make(ir_arena *arena, const double *args, int64_t limit, ir_view *view);

static bool row_major(const ir_view *view) { return ir_format_is_row_major(view->format); }

static spc_status make_rand(ir_arena *arena, const double *args, int64_t limit, ir_view *view) {
  (void)arena, (void)limit;
  uint64_t seed = (uint64_t)(int64_t)args[0];
  generator g = first(view);
  do put(&g, random_value(view->dtype, seed, g.linear));
  while (next(&g, row_major(view)));
  return SPC_OK;
}

static spc_status make_randint(ir_arena *arena, const double *args, int64_t limit, ir_view *view) {
  (void)arena, (void)limit;
  uint64_t seed = (uint64_t)(int64_t)args[0];
  if (!(args[1] < args[2]) || args[1] != floor(args[1]) || args[2] != floor(args[2]))
    return SPC_INVALID_INPUT;
  if (args[1] < -9e15 || args[2] > 9e15) return SPC_INVALID_INPUT;
  generator g = first(view);
  do
    put(&g,
        args[1] + (double)below_at(seed, STREAM_VALUE, g.linear, (uint64_t)(args[2] - args[1])));
  while (next(&g, row_major(view)));
  return SPC_OK;
}

static spc_status make_sparse(ir_arena *arena, const double *args, int64_t limit, ir_view *view) {
  (void)arena, (void)limit;
  uint64_t seed = (uint64_t)(int64_t)args[0];
  if (!(args[1] >= 0 && args[1] <= 1)) return SPC_INVALID_INPUT;
  generator g = first(view);
  do {
    bool kept = uniform_at(seed, STREAM_KEEP, g.linear) < args[1];
    put(&g, kept ? random_nonzero(view->dtype, seed, g.linear) : 0);
  } while (next(&g, row_major(view)));
  return SPC_OK;
}

static int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0); }

/* Selection sampling (Knuth, TAOCP 2, 3.4.2 S): exactly `want` of `count` tiles. */
static void keep_tiles(uint8_t *kept, int64_t count, int64_t want, uint64_t seed) {
  for (int64_t t = 0; t < count && want > 0; t++) {
    if (uniform_at(seed, STREAM_KEEP, t) * (double)(count - t) >= (double)want) continue;
    kept[t] = 1;
    want--;
  }
}

static spc_status make_zeros(ir_arena *arena, const double *args, int64_t limit, ir_view *view) {
  (void)limit;
  double density = args[0];
  if (!(density >= 0 && density <= 1) || !(args[1] >= 1 && args[1] <= 1e9) ||
      !(args[2] >= 1 && args[2] <= 1e9))
    return SPC_INVALID_INPUT;
  int64_t rows = (int64_t)args[1], cols = (int64_t)args[2];
  int64_t height = view->rank > 1 ? view->dim[view->rank - 2] : 1;
  int64_t width = view->rank > 0 ? view->dim[view->rank - 1] : 1;
  int64_t down = ceil_div(height, rows), across = ceil_div(width, cols);
  int64_t tiles = ir_view_elements(view) / (height * width) * down * across;
  uint8_t *kept = ir_alloc(arena, (size_t)tiles);
  keep_tiles(kept, tiles, (int64_t)(density * (double)tiles + 0.5), (uint64_t)(int64_t)args[3]);
  generator g = first(view);
  do {
    int64_t i = view->rank > 1 ? g.at[view->rank - 2] : 0,
            j = view->rank > 0 ? g.at[view->rank - 1] : 0;
    int64_t matrix = g.linear / (height * width);
    bool keep = kept[(matrix * down + i / rows) * across + j / cols];
    put(&g, keep ? random_nonzero(view->dtype, (uint64_t)(int64_t)args[3], g.linear) : 0);
  } while (next(&g, row_major(view)));
  return SPC_OK;
}

static int compare_offsets(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

static spc_status make_offsets(ir_arena *arena, const double *args, int64_t limit, ir_view *view) {
  uint64_t seed = (uint64_t)(int64_t)args[0];
  if (view->rank != 1 || limit < 0) return SPC_INVALID_INPUT;
  int64_t segments = view->dim[0] - 1;
  if (segments < 1 && limit > 0) return SPC_INVALID_INPUT;
  int64_t *offset = IR_NEW_ARRAY(arena, int64_t, segments + 1);
  for (int64_t i = 1; i < segments; i++)
    offset[i] = below_at(seed, STREAM_OFFSET, i, (uint64_t)limit + 1);
  offset[segments] = limit;
  qsort(offset, (size_t)segments + 1, sizeof *offset, compare_offsets);
  if (segments > 1) {
    int64_t empty = below_at(seed, STREAM_EMPTY, 0, (uint64_t)segments - 1);
    offset[empty + 1] = offset[empty];
  }
  for (int64_t i = 0; i <= segments; i++)
    ir_dtype_store_int(view->dtype, view->vals.data, i, offset[i]);
  return SPC_OK;
}

static spc_status make_iota(ir_arena *arena, const double *args, int64_t limit, ir_view *view) {
  (void)arena, (void)args, (void)limit;
  generator g = first(view);
  do {
    if (ir_dtype_is_float(view->dtype))
      put(&g, (double)g.linear);
    else
      ir_dtype_store_int(view->dtype, view->vals.data, g.position, g.linear);
  } while (next(&g, row_major(view)));
  return SPC_OK;
}

static spc_status make_eye(ir_arena *arena, const double *args, int64_t limit, ir_view *view) {
  (void)arena, (void)args, (void)limit;
  if (view->rank < 2) return SPC_INVALID_INPUT;
  generator g = first(view);
  do put(&g, g.at[view->rank - 2] == g.at[view->rank - 1]);
  while (next(&g, row_major(view)));
  return SPC_OK;
}

static const struct {
  const char *name, *wants;
  int args;
  make *run;
} kinds[] = {
    {"rand", "rand(SEED)", 1, make_rand},
    {"randint", "randint(SEED,LOW,HIGH): whole numbers from LOW to HIGH - 1, LOW < HIGH", 3, make_randint},
    {"sparse", "sparse(SEED,SHARE): what is kept, from 0 to 1", 2, make_sparse},
    {"offsets", "offsets(SEED), for the vector of a ragged index, of one element at least", 1, make_offsets},
    {"iota", "iota", 0, make_iota},
    {"eye", "eye, for a matrix", 0, make_eye},
    {"zeros", "zeros:SHARE:RxC:SEED: what is kept, from 0 to 1, in tiles of R x C", 4, make_zeros},
};

const char *ir_generator_wants(const char *kind) {
  for (int i = 0; i < IR_COUNT(kinds); i++)
    if (!strcmp(kinds[i].name, kind)) return kinds[i].wants;
  return NULL;
}

spc_status ir_generate(ir_arena *arena, const char *kind, const double *args, int count,
                       int64_t limit, ir_view *dense) {
  for (int i = 0; i < IR_COUNT(kinds); i++) {
    if (strcmp(kinds[i].name, kind)) continue;
    if (count != kinds[i].args || !ir_format_is_dense(dense->format) || dense->dtype == IR_NONE)
      return SPC_INVALID_INPUT;
    for (int a = 0; a < count; a++)
      if (!(fabs(args[a]) <= 9.2e18)) return SPC_INVALID_INPUT;
    if (ir_view_elements(dense) == 0) return SPC_OK;
    return kinds[i].run(arena, args, limit, dense);
  }
  return SPC_INVALID_INPUT;
}
