/* compare.c - a result against the reference; see compare.h for the two bounds.
 *
 * Elements that neither view stores are equal by definition, so sparse views are compared over the
 * union of their stored entries and nothing is densified. */
#include <math.h>

#include "ir/compare.h"

/* Small constants over unit roundoff: a rounding of the result, and sqrt(length) of the sums. */
double ir_tolerance(ir_dtype t, ir_dtype acc, int64_t length) {
  if (!ir_dtype_is_float(t)) return 0;
  double terms = sqrt((double)(length > 1 ? length : 1));
  double sums = ir_dtype_is_float(acc) ? ir_dtype_epsilon(acc) : 0;
  return 4 * ir_dtype_epsilon(t) + 2 * terms * sums;
}

double ir_element_bound(ir_dtype t, ir_dtype acc, int64_t length, double sum_of_magnitudes,
                        double value) {
  if (!ir_dtype_is_float(t)) return 0;
  double terms = sqrt((double)(length > 1 ? length : 1)) + 1;
  double sums = ir_dtype_is_float(acc) ? ir_dtype_epsilon(acc) : 0;
  return 2 * terms * sums * sum_of_magnitudes + 2 * ir_dtype_epsilon(t) * fabs(value);
}

typedef struct comparison {
  const ir_view *got, *want;
  ir_compare_result *result;
  bool only_extra;    /* second walk: entries of `got` that `want` lacks */
  double scale;       /* rms of want */
  double error, norm; /* sums of squares */
  double worst;       /* excess over the element's bound */
} comparison;

static bool both_infinite_or_nan(double a, double b) {
  return (isnan(a) && isnan(b)) || (isinf(a) && a == b);
}

static void note_worst(comparison *c, const int64_t *at, double excess, double got, double want) {
  c->result->differing++;
  if (c->worst >= excess) return;
  c->worst = excess;
  for (int d = 0; d < c->want->rank; d++) c->result->worst[d] = at[d];
  c->result->worst_got = got;
  c->result->worst_want = want;
}

static void compare_floats(comparison *c, const int64_t *at, double got, double want) {
  if (both_infinite_or_nan(got, want)) return;
  if (!isfinite(got) || !isfinite(want)) {
    note_worst(c, at, INFINITY, got, want);
    c->result->relative_norm = INFINITY;
    return;
  }
  double difference = fabs(got - want), size = fmax(fabs(want), c->scale);
  double bound = c->result->atol + 4 * c->result->rtol * size;
  c->error += difference * difference;
  c->norm += want * want;
  if (difference > bound) note_worst(c, at, difference - bound, got, want);
}

static void compare_element(comparison *c, const int64_t *at) {
  c->result->compared++;
  if (ir_dtype_is_float(c->want->dtype)) {
    compare_floats(c, at, ir_view_value(c->got, at), ir_view_value(c->want, at));
    return;
  }
  int64_t got = ir_view_value_int(c->got, at), want = ir_view_value_int(c->want, at);
  if (got != want) note_worst(c, at, fabs((double)got - (double)want), (double)got, (double)want);
}

static bool visit_entry(void *user, const int64_t *at, int64_t position) {
  (void)position;
  comparison *c = user;
  if (c->only_extra && ir_view_locate(c->want, at) >= 0) return true;
  compare_element(c, at);
  return true;
}

typedef struct scale_sum {
  const ir_view *view;
  double squares;
} scale_sum;

static bool add_square(void *user, const int64_t *at, int64_t position) {
  (void)at;
  scale_sum *s = user;
  double v = ir_dtype_load(s->view->dtype, s->view->vals.data, position);
  if (isfinite(v)) s->squares += v * v;
  return true;
}

static double rms(const ir_view *view) {
  int64_t elements = ir_view_elements(view);
  scale_sum s = {.view = view};
  if (!ir_dtype_is_float(view->dtype) || elements <= 0) return 0;
  ir_view_walk(view, add_square, &s);
  return sqrt(s.squares / (double)elements);
}

/* ---- structure ------------------------------------------------------------------------- */
typedef struct trace {
  const ir_view *other;
  int64_t count;
  bool same;
} trace;

static bool visit_structure(void *user, const int64_t *at, int64_t position) {
  trace *t = user;
  t->same = ir_view_locate(t->other, at) == position;
  t->count++;
  return t->same;
}

/* The same entries at the same positions. */
static bool same_structure(const ir_view *a, const ir_view *b) {
  if (!ir_format_equal(a->format, b->format) || ir_format_is_dense(a->format)) return true;
  trace forth = {.other = b, .same = true}, back = {.other = a, .same = true};
  ir_view_walk(a, visit_structure, &forth);
  if (!forth.same) return false;
  ir_view_walk(b, visit_structure, &back);
  return back.same && forth.count == back.count;
}

static const char *shape_fault(const ir_view *got, const ir_view *want) {
  if (got->rank != want->rank) return "the numbers of dimensions differ";
  for (int d = 0; d < got->rank; d++)
    if (got->dim[d] != want->dim[d]) return "the shapes differ";
  return got->dtype == want->dtype ? NULL : "the dtypes differ";
}

static spc_status verdict(comparison *c) {
  ir_compare_result *r = c->result;
  if (!isinf(r->relative_norm))
    r->relative_norm = c->norm > 0 ? sqrt(c->error / c->norm) : sqrt(c->error) > 0 ? INFINITY : 0;
  double count = (double)(r->compared ? r->compared : 1);
  bool within = sqrt(c->error) <= r->rtol * sqrt(c->norm) + r->atol * sqrt(count);
  r->equal = within && r->differing == 0 && r->same_structure;
  return r->equal ? SPC_OK : SPC_MISMATCH;
}

static spc_status compare(const ir_view *got, const ir_view *want, double rtol, double atol,
                          bool structure, ir_compare_result *result) {
  double least = ir_tolerance(want->dtype, ir_dtype_rows[want->dtype].accumulator, 4096);
  *result = (ir_compare_result){
      .rank = want->rank, .rtol = rtol > 0 ? rtol : least, .atol = atol, .same_structure = true};
  result->shape_fault = shape_fault(got, want);
  if (result->shape_fault) return SPC_MISMATCH;
  comparison c = {.got = got, .want = want, .result = result, .scale = rms(want), .worst = -1};
  ir_view_walk(want, visit_entry, &c);
  c.only_extra = true;
  if (!ir_format_is_dense(want->format)) ir_view_walk(got, visit_entry, &c);
  result->same_structure = !structure || same_structure(got, want);
  return verdict(&c);
}

spc_status ir_compare(const ir_view *got, const ir_view *want, double rtol, double atol,
                      ir_compare_result *result) {
  return compare(got, want, rtol, atol, true, result);
}

spc_status ir_compare_values(const ir_view *got, const ir_view *want, double rtol, double atol,
                             ir_compare_result *result) {
  return compare(got, want, rtol, atol, false, result);
}

/* ---- text ------------------------------------------------------------------------------ */
const char *ir_compare_text(ir_arena *arena, const ir_compare_result *r) {
  ir_text text = ir_text_new(arena);
  if (r->shape_fault) return r->shape_fault;
  if (r->differing) {
    ir_text_printf(&text, "%lld of %lld elements, worst [", (long long)r->differing,
                   (long long)r->compared);
    for (int d = 0; d < r->rank; d++)
      ir_text_printf(&text, "%s%lld", d ? "," : "", (long long)r->worst[d]);
    ir_text_printf(&text, "]: got %.9g, want %.9g; ", r->worst_got, r->worst_want);
  }
  if (!r->same_structure) ir_text_put(&text, "the stored patterns differ; ");
  ir_text_printf(&text, "relative error of the whole %.3g, allowed %.3g", r->relative_norm,
                 r->rtol);
  return text.data;
}
