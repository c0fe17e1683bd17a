/* format.c - pass `format`: a storage format for every intermediate, with the reason.
 *
 * needs: statements as `fuse` left them, with their support
 * keeps: the meaning; storage never changes what an element is worth
 * breaks: nothing; new statements copy an operand into another order of levels
 *
 *     let u[i,j] = S[i,j] * v[i];             let u : f32[I,J] as like(S)  // its zeros are S's
 *     let y[i,j] = sum[k] A[i,k]*B[k,j]       (A, B csr)   y as csr, assembled
 *     out C[i,j] = A[i,j] + B[j,i]            (both csr)   B_t[j,i] = B[j,i] as csc, C reads B_t
 *     out C[i,j] = S[i,j]*(sum[k] ..)         C_stored as like(S), C = C_stored written out    (S bsr)
 *     out h[t,f] = relu(..) as csr ~ zeros    h.computed = relu(..) dense, h = h.computed packed
 *
 * A dense intermediate starts row-major; pass `microtile` may turn it round (dense_t) when that
 * lets the consumer gather it, because only the joint choice of kernels can tell. */
#include "passes/choice.h"
#include "passes/storage.h"
#include "passes/stores.h"

static const ir_format *builtin(pass_context *context, const char *name, int rank) {
  const char *why = NULL;
  return ir_format_builtin(context->arena, name, rank, NULL, 0, &why);
}

static const ir_format *dense(pass_context *context, int rank) {
  return builtin(context, "dense", rank);
}

enum { SMALL_ELEMENTS = 1 << 20 }; /* assembling less than this costs more than a dense buffer */

static bool bounded_small(const ir_tensor *tensor) {
  int64_t elements = 1, extent;
  for (int d = 0; d < tensor->rank; d++) {
    if (!ir_size_bound(tensor->dim[d], &extent)) return false;
    if (extent > SMALL_ELEMENTS || elements * extent > SMALL_ELEMENTS) return false;
    elements *= extent;
  }
  return true;
}

/* A dense buffer of a product of sparse operands may be larger than memory: unless the sizes are
 * bounded, what can be stored sparse is. */
static bool assembles(const ir_stmt *stmt) {
  return stmt->target->rank >= 2 && stmt->fill == 0 && pass_support_is_sparse(stmt) &&
         !ir_is_scatter(stmt) && !bounded_small(stmt->target);
}

static const char *sampled_why(pass_context *context, const ir_tensor *model) {
  return ir_format_text(
      context->arena,
      "non-zero only where `%s` stores an entry: one value an entry, no dense buffer", model->name);
}

/* A let that is dense as it is written and wanted at few places alone has entries there. */
static void limit_to_wanted(pass_context *context, ir_stmt *stmt) {
  if (!ir_stores_of_stmt(context->arena, stmt))
    stmt->stores = pass_stores_of_condition(context->arena, stmt->support);
}

static void choose(pass_context *context, ir_tensor *tensor) {
  ir_stmt *stmt = tensor->def;
  ir_tensor *model =
      stmt && stmt->fill == 0 && !ir_is_scatter(stmt) ? pass_support_like(stmt) : NULL;
  if (model) {
    tensor->like = model;
    tensor->format = model->format;
    tensor->format_why = sampled_why(context, model);
  } else if (stmt && assembles(stmt)) {
    limit_to_wanted(context, stmt);
    tensor->format = builtin(context, tensor->rank == 2 ? "csr" : "csf", tensor->rank);
    tensor->format_why = "every operand that bounds its pattern is sparse: assembled, never dense";
  }
  if (tensor->format) return;
  tensor->format = dense(context, tensor->rank);
  if (tensor->pattern.zeros != IR_ZEROS_UNKNOWN)
    tensor->format_why = "its zeros are known at run time only: dense bytes, row-major";
  else if (!stmt || !stmt->support)
    tensor->format_why = "every element can be non-zero: dense, row-major";
  else if (stmt->fill != 0)
    tensor->format_why = "what is not computed has a value of its own (fill): dense, row-major";
  else
    tensor->format_why = "what bounds its pattern is dense itself: dense, row-major";
}

spc_status pass_format(pass_context *context, ir_kernel *kernel) {
  pass_context_prepare(context);
  SPC_TRY(pass_format_directives(context, kernel));
  for (int i = 0; i < kernel->tensors.count; i++) {
    ir_tensor *tensor = kernel->tensors.at[i];
    if (tensor->like && !tensor->format) tensor->format = tensor->like->format;
    if (!tensor->format && !ir_tensor_is_inner(tensor)) tensor->format = dense(context, tensor->rank);
  }
  for (int s = 0; s < kernel->stmts.count; s++) {
    ir_tensor *tensor = kernel->stmts.at[s]->target;
    if (!tensor->format && ir_tensor_is_inner(tensor)) choose(context, tensor);
  }
  for (int i = 0; i < kernel->tensors.count; i++)
    if (!kernel->tensors.at[i]->format) choose(context, kernel->tensors.at[i]);
  pass_format_blocks(context, kernel);
  pass_stores_settle(context, kernel);
  pass_format_by_value(context, kernel);
  pass_format_results(context, kernel);
  pass_format_whole(context, kernel);
  pass_format_joined(context, kernel);
  pass_format_padded(context, kernel);
  pass_format_turn(context, kernel);
  return pass_format_orders(context, kernel);
}
