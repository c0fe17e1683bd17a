/* api_sizes.c - one text compiled for several sizes of one dynamic dim.
 *
 *     usual: T = 1, 64, 4096        three codes; a run with 100 rows takes the second
 *
 * Estimates take a dynamic dim to be of one size (passes/assume.c), and what is best for many rows is slow for few.  Each of the sizes
 * has a program of its own, and a plan has a plan of each: a call looks at the shape of one input and goes on with the nearest,
 * by ratio.  All are there before the first run: no size compiles anything. */
#include <stdlib.h>

#include "driver/api.h"

static int by_size(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return x < y ? -1 : x > y;
}

spc_status drv_usual_take(const spc_program_options *given, api_usual *usual, spc_error *err) {
  const spc_size *sizes = given->usual;
  *usual = (api_usual){.dim = -1};
  if (given->usual_count < 0 || (given->usual_count && !sizes))
    return drv_api_fail(err, SPC_INVALID_ARGUMENT, NULL, "spc_program_options: `%s` is not valid", given->usual_count < 0 ? "usual_count" : "usual");
  if (given->usual_count > API_MOST_USUAL)
    return drv_api_fail(err, SPC_INVALID_ARGUMENT, NULL, "spc_program_options: `usual_count` is %d, and %d are the most", given->usual_count, API_MOST_USUAL);
  if (given->usual_count && given->tiered)
    return drv_api_fail(err, SPC_INVALID_ARGUMENT, NULL, "spc_program_options: `usual` and `tiered` do not go together");
  for (int i = 0; i < given->usual_count; i++) {
    if (!sizes[i].name || strcmp(sizes[i].name, sizes[0].name))
      return drv_api_fail(err, SPC_INVALID_ARGUMENT, NULL, "spc_program_options: `usual[%d]` %s", i,
                          sizes[i].name ? "is of another dim than the first: they are sizes of one" : "has no name");
    if (sizes[i].value < 1)
      return drv_api_fail(err, SPC_INVALID_ARGUMENT, NULL, "spc_program_options: `usual[%d]`: `%s` = %lld is no size", i, sizes[i].name, (long long)sizes[i].value);
    usual->size[i] = sizes[i].value;
  }
  qsort(usual->size, (size_t)given->usual_count, sizeof *usual->size, by_size);
  for (int i = 0; i < given->usual_count; i++)
    if (!usual->count || usual->size[i] != usual->size[usual->count - 1]) usual->size[usual->count++] = usual->size[i];
  usual->name = usual->count ? sizes[0].name : NULL;
  return SPC_OK;
}

/* Sizes that were asked for, of a program that was made: what its own text says of the dim. */
spc_status drv_usual_fits(const spc_program *program, api_usual *usual, spc_error *err) {
  const ir_dim *dim = ir_dim_named(program->ir, usual->name);
  if (!dim || dim->value >= 0)
    return drv_api_fail(err, SPC_INVALID_ARGUMENT, NULL, "spc_program_options: `usual`: `%s` %s", usual->name,
                        dim ? "is fixed: only a dim that is `dyn` has several sizes" : "names no dim");
  usual->dim = dim->number;
  int64_t largest = usual->size[usual->count - 1];
  if (dim->bound <= 0 || largest <= dim->bound) return SPC_OK;
  return drv_api_fail(err, SPC_INVALID_ARGUMENT, NULL, "spc_program_options: `usual`: `%s` = %lld is more than its bound, %lld", usual->name, (long long)largest,
                      (long long)dim->bound);
}

const int64_t *drv_usual_sizes(ir_arena *arena, const ir_program *ir, const spc_size *usual) {
  const ir_dim *dim = usual ? ir_dim_named(ir, usual->name) : NULL;
  if (!dim) return NULL;
  int64_t *sizes = IR_NEW_ARRAY(arena, int64_t, ir->dims.count + 1);
  for (int d = 0; d < ir->dims.count; d++) sizes[d] = -1;
  sizes[dim->number] = usual->value;
  return sizes;
}

/* ---- plans ----------------------------------------------------------------------------------- */
static bool shows(const ir_tensor *t, int dim, int *axis) {
  for (*axis = 0; t->role == IR_ROLE_IN && *axis < t->rank; ++*axis)
    if (t->dim[*axis]->kind == IR_DIM && t->dim[*axis]->dim->number == dim) return true;
  return false;
}

spc_status drv_plan_sizes(spc_plan *plan, const spc_size *sizes, int size_count, spc_error *err) {
  const api_usual *usual = &plan->program->usual;
  if (usual->count < 2) return SPC_OK;
  for (int i = 0; i < plan->kernel->tensors.count && !plan->shown_by; i++)
    if (shows(plan->kernel->tensors.at[i], usual->dim, &plan->shown_axis)) plan->shown_by = plan->kernel->tensors.at[i]->name;
  plan->sized_count = usual->count;
  for (int i = 0; i < usual->count; i++) {
    plan->sized[i] = plan;
    if (i + 1 < usual->count) SPC_TRY(spc_plan_new(usual->program[i], plan->kernel->name, sizes, size_count, &plan->sized[i], err));
    plan->sized[i]->sized_at = i;
  }
  return SPC_OK;
}

void drv_plan_sizes_free(spc_plan *plan) {
  for (int i = 0; i < plan->sized_count; i++)
    if (plan->sized[i] != plan) spc_plan_free(plan->sized[i]);
}

/* The size that is given with the plan, or that an input shows; of neither, the largest. */
static double size_of_run(const spc_plan *plan, const spc_tensor *tensors, int count) {
  const api_usual *usual = &plan->program->usual;
  const api_tensors given = {.kernel = plan->kernel, .tensors = (spc_tensor *)tensors, .count = tensors && count > 0 ? count : 0};
  if (plan->given[usual->dim] >= 0) return (double)plan->given[usual->dim];
  const spc_tensor *t = plan->shown_by ? drv_tensor_given(&given, plan->shown_by) : NULL;
  return t && t->rank > plan->shown_axis ? (double)t->shape[plan->shown_axis] : (double)usual->size[usual->count - 1];
}

int drv_sized_for(const spc_plan *plan, const spc_tensor *tensors, int count) {
  const int64_t *usual = plan->program->usual.size;
  double size = size_of_run(plan, tensors, count);
  int at = 0;
  while (at + 1 < plan->sized_count && size * size >= (double)usual[at] * (double)usual[at + 1]) at++; /* of two that are as near the larger */
  return at;
}

spc_plan *drv_plan_for(spc_plan *plan, const spc_tensor *tensors, int count) {
  plan = drv_plan_now(plan);
  if (!plan || !plan->sized_count) return plan;
  spc_plan *taken = plan->sized[drv_sized_for(plan, tensors, count)];
  atomic_store_explicit(&plan->last, taken, memory_order_relaxed);
  return taken;
}

const spc_plan *drv_plan_last(const spc_plan *plan) {
  plan = drv_plan_now(plan);
  const spc_plan *last = plan ? atomic_load_explicit(&((spc_plan *)plan)->last, memory_order_relaxed) : NULL;
  return last ? last : plan;
}
