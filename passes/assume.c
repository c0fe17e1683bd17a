/* assume.c - what estimates take for granted where nothing is known: sizes of dyn dims, densities
 * without a hint.  Nothing here may change what is computed, only which way is chosen;
 * docs/cost-model.md lists it.
 *
 * Ways differ in the order of their sums, and so in a row's last bits.  Under batch invariance nobody
 * therefore hears how many rows there are: a dyn dim is taken as its declaration says, whatever -D or the
 * bindings say of it.  Every choice that weighs sizes (kernels, formats, strips, teams and parts of a GPU's
 * loops) asks here and nowhere else, so one text is compiled the same for every number of rows.  What is
 * left to the run then is whether operands are aligned: pass_rows_aligned sees to that. */
#include <math.h>

#include "passes/cost.h"
#include "passes/expr.h"
#include "passes/storage.h"

static int64_t dim_assumed(const pass_context *context, const ir_dim *dim) {
  if (dim->value >= 0) return dim->value;
  const int64_t *sizes = context->options ? context->options->sizes : NULL;
  if (sizes && sizes[dim->number] >= 0 && !context->program->batch_invariant) return sizes[dim->number];
  int64_t size = (int64_t)context->profile->size_dyn;
  if (dim->bound > 0 && dim->bound < size) size = dim->bound;
  return dim->multiple > 1 ? (size + dim->multiple - 1) / dim->multiple * dim->multiple : size;
}

void pass_dims_assumed(const pass_context *context) {
  for (int i = 0; i < context->program->dims.count; i++) {
    ir_dim *dim = context->program->dims.at[i];
    dim->assumed = dim_assumed(context, dim);
  }
}

double pass_size_assumed(const pass_context *context, const ir_expr *size) {
  const ir_program *program = context->program;
  int64_t *sizes = IR_NEW_ARRAY(context->arena, int64_t, program->dims.count + 1);
  int64_t value;
  for (int i = 0; i < program->dims.count; i++) {
    int number = program->dims.at[i]->number;
    if (number >= 0 && number < program->dims.count)
      sizes[number] = dim_assumed(context, program->dims.at[i]);
  }
  if (size && ir_size_value(size, sizes, &value)) return fmax(1, (double)value);
  return context->profile->size_dyn;
}

double pass_index_assumed(const pass_context *context, const ir_index *index) {
  return pass_size_assumed(context, index->extent);
}

static pass_zeros hinted(const ir_pattern *pattern) {
  pass_zeros zeros = {
      .low = fmax(0, pattern->density_low), .high = pattern->density_high, .known = true};
  if (zeros.high < zeros.low) zeros.high = zeros.low;
  zeros.likely = zeros.low > 0 ? sqrt(zeros.low * zeros.high) : zeros.high / 2;
  return zeros;
}

static pass_zeros assumed(double low, double high) {
  return (pass_zeros){.low = low, .high = high, .likely = sqrt(low * high)};
}

/* What the format itself says of how much it stores: n of every m. */
static double stored_density(const pass_context *context, const ir_tensor *tensor) {
  for (int l = 0; tensor->format && l < tensor->format->level_count; l++) {
    const ir_level *level = &tensor->format->level[l];
    if (level->kind == IR_LEVEL_NM && level->factor > 0)
      return (double)level->parameter / (double)level->factor;
  }
  return context->profile->density_stored;
}

/* Whose hint tells how much of the condition holds, of tensors that it looks at where the statement computes: g[t,f] != 0, or
 * g[t,f] of b1. */
static const ir_tensor *hinted_by(const ir_stmt *stmt, const ir_expr *condition) {
  if (condition->kind == IR_OP && condition->op == IR_OP_AND) {
    const ir_tensor *found = hinted_by(stmt, condition->args[0]);
    return found ? found : hinted_by(stmt, condition->args[1]);
  }
  bool asks = condition->kind == IR_OP && condition->op == IR_OP_NE && pass_is_number(condition->args[1], 0);
  const ir_expr *access = asks ? condition->args[0] : condition;
  if (access->kind != IR_ACCESS || access->tensor == stmt->target || access->arg_count != stmt->target->rank) return NULL;
  for (int d = 0; d < access->arg_count; d++)
    if (!ir_expr_equal(access->args[d], stmt->subs[d])) return NULL;
  return pass_hinted_tensor(access->tensor);
}

const ir_tensor *pass_hinted_tensor(const ir_tensor *tensor) {
  const ir_pattern *pattern = &tensor->pattern;
  bool given = pattern->density_low > 0 || pattern->density_high > 0;
  if (given && pattern->zeros != IR_ZEROS_UNKNOWN) return tensor;
  bool asked = tensor->def && tensor->def->sample && !pass_tensor_is_sparse(tensor);
  return asked ? hinted_by(tensor->def, tensor->def->sample) : NULL;
}

pass_zeros pass_zeros_of(const pass_context *context, const ir_tensor *tensor) {
  const ir_tensor *told = pass_hinted_tensor(tensor);
  const ir_pattern *pattern = told ? &told->pattern : &tensor->pattern;
  pass_zeros zeros;
  if (told)
    zeros = hinted(pattern);
  else if (pass_tensor_is_sparse(tensor))
    zeros = assumed(stored_density(context, tensor), stored_density(context, tensor));
  else
    zeros = assumed(context->profile->density_low, context->profile->density_high);
  zeros.rows = pattern->gran_rows > 0 ? pattern->gran_rows : 1;
  zeros.cols = pattern->gran_cols > 0 ? pattern->gran_cols : 1;
  return zeros;
}

double pass_tensor_bytes(const pass_context *context, const ir_tensor *tensor) {
  double elements = 1, bytes = (double)ir_dtype_bytes(tensor->dtype);
  for (int d = 0; d < tensor->rank; d++) elements *= pass_size_assumed(context, tensor->dim[d]);
  if (!pass_tensor_is_sparse(tensor)) return elements * bytes;
  return elements * pass_zeros_of(context, tensor).likely * (bytes + 4);
}
