/* declared.c - tensors of callers that have other dimensions than they were declared with (passes `join`, `divide`): the same elements in
 * the same order, row by row.  Callers bind and get views of the declared shape; whoever computes has its own. */
#include "ir/interp.h"

ir_tensor *ir_declare(ir_arena *a, ir_tensor *t, int rank, ir_expr *const *dims) {
  const char *why;
  ir_tensor *declared = IR_NEW(a, ir_tensor);
  *declared = *t;
  declared->declared = NULL;
  declared->rank = rank;
  for (int d = 0; d < rank; d++) declared->dim[d] = dims[d];
  declared->format = ir_format_builtin(a, "dense", rank, NULL, 0, &why);
  return declared;
}

static bool take_shape(const ir_tensor *shape, const int64_t *sizes, ir_view *view) {
  view->rank = shape->rank;
  view->format = shape->format;
  for (int d = 0; d < shape->rank; d++)
    if (!ir_size_value(shape->dim[d], sizes, &view->dim[d])) return false;
  return true;
}

bool ir_view_as_computed(const ir_tensor *t, const int64_t *sizes, ir_view *view) { return !t->declared || take_shape(t, sizes, view); }

bool ir_view_as_declared(const ir_tensor *t, const int64_t *sizes, ir_view *view) {
  return !t->declared || take_shape(t->declared, sizes, view);
}
