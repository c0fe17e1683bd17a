/* compare.h - is a result the reference's?  The one place where tolerances live.
 *
 * Two bounds: norm-wise, |got - want|_2 <= rtol * |want|_2, and per element,
 * |got - want| <= atol + 4 * rtol * max(|want|, rms(want)); integers and patterns must be equal.
 * NaN equals NaN, infinities equal themselves.  Sparse views are compared by meaning, and by
 * structure when both have one format. */
#ifndef SPC_IR_COMPARE_H
#define SPC_IR_COMPARE_H

#include "ir/tensor.h"

typedef struct ir_compare_result {
  bool equal;          /* within both bounds, same structure */
  bool same_structure; /* level arrays agree; true when the formats differ */
  int64_t compared, differing;
  double relative_norm; /* |got - want|_2 / |want|_2 over finite elements */
  double rtol, atol;    /* the bounds that were used */
  int rank;
  int64_t worst[IR_MAX_RANK]; /* the element furthest beyond its bound */
  double worst_got, worst_want;
  const char *shape_fault; /* constant text when dtypes or shapes differ, else NULL */
} ir_compare_result;

/* Default rtol of results of dtype t after sums of `length` terms kept in `acc`. */
double ir_tolerance(ir_dtype t, ir_dtype acc, int64_t length);
/* The bound of one element: sqrt(length) * eps(acc) * sum|a*b| plus the rounding of the result to
 * t. */
double ir_element_bound(ir_dtype t, ir_dtype acc, int64_t length, double sum_of_magnitudes,
                        double value);

/* rtol 0: ir_tolerance of the dtype with a length of 4096.  SPC_MISMATCH when they differ. */
spc_status ir_compare(const ir_view *got, const ir_view *want, double rtol, double atol,
                      ir_compare_result *result);
/* The same for a result that is stored by value: a sum that is 0 on one back end and a rounding
 * away from it on another is an entry of one alone, so that the stored patterns need not be equal.
 */
spc_status ir_compare_values(const ir_view *got, const ir_view *want, double rtol, double atol,
                             ir_compare_result *result);
/* One line: "12 of 64 elements, worst [3,4]: got 1.5, want 1.25 (relative error of the whole 3e-2,
 * allowed 1e-4)". */
const char *ir_compare_text(ir_arena *arena, const ir_compare_result *result);

#endif
