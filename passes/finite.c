/* finite.c - can elements that were not computed make an infinity?
 *
 * What nobody wants is not computed and reads as 0.  That does no harm as a factor or a summand of
 * something finite, but 1 / 0 and log(0) are not finite, and a product with a stored zero does not
 * take them back: 0 * (1 / 0) is NaN. */
#include <math.h>

#include "passes/expr.h"
#include "passes/storage.h"

static bool reads(const ir_expr *e, pass_absent *absent, const void *user) {
  if (e->kind == IR_ACCESS && absent(user, e->tensor)) return true;
  for (int i = 0; i < e->arg_count; i++)
    if (reads(e->args[i], absent, user)) return true;
  return false;
}

bool pass_stays_finite(const ir_expr *e, pass_absent *absent, const void *user) {
  static const double others[] = {1, -1}; /* stand for any other operand */
  bool floats = e->kind == IR_OP && ir_dtype_is_float(e->dtype);
  if (!reads(e, absent, user)) return true;
  for (int n = 0; floats && n < IR_COUNT(others); n++) {
    double x[3] = {0, 0, 0};
    for (int i = 0; i < e->arg_count; i++) x[i] = reads(e->args[i], absent, user) ? 0 : others[n];
    if (!isfinite(ir_op_rows[e->op].eval(x))) return false;
  }
  for (int i = 0; i < e->arg_count; i++)
    if (!pass_stays_finite(e->args[i], absent, user)) return false;
  return true;
}

/* Not every element is computed: it, or what it is a copy of in another order, has a sample. */
static bool is_sampled(const void *user, const ir_tensor *tensor) {
  const ir_tensor *source = tensor->def ? pass_stmt_converts(tensor->def) : NULL;
  return tensor->def && (tensor->def->sample || (source && is_sampled(user, source)));
}

bool pass_is_finite_sampled(const ir_expr *e) { return pass_stays_finite(e, is_sampled, NULL); }
