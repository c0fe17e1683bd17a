/* densify.c - the same program with all sparsity off: what sparse kernels are compared with.
 *
 *     in A: f32[I,K] as csr; out C[i,n] = sum[k] A[i,k]*B[k,n]     ->     in A: f32[I,K]; ..
 *     let u[t,f] = sum[d] x[t,d]*W[d,f] on g[t,f]   ->   let u[t,f] = where(g[t,f] != 0, sum[d] ..,
 * 0)
 *
 * Formats become dense, patterns of storage become booleans, hints and schedules go, `on` becomes a
 * choice after the fact, and zeros are never skipped (strict_nan).  Results agree wherever operands
 * are finite. */
#include "passes/pass.h"
#include "passes/storage.h"

static void make_dense(ir_tensor *tensor) {
  if (pass_tensor_is_sparse(tensor)) tensor->format = NULL;
  tensor->like = NULL;
  if (tensor->dtype == IR_NONE) tensor->dtype = IR_B1;
  tensor->pattern =
      (ir_pattern){.density_low = -1, .density_high = -1, .axis = -1}; /* as without a hint */
}

/* A product keeps the sum a plain product of matrices with an epilogue; another fill needs a
 * choice.
 */
static void make_unconditional(ir_arena *arena, ir_stmt *stmt) {
  if (!stmt->cond || ir_is_scatter(stmt)) return;
  ir_dtype dtype = stmt->value->dtype;
  if (stmt->fill == 0) {
    stmt->value = ir_apply(arena, IR_OP_MUL, ir_cast(arena, dtype, stmt->cond), stmt->value);
    stmt->cond = NULL;
    return;
  }
  ir_expr *fill = ir_dtype_is_float(dtype) ? ir_const_f(arena, dtype, stmt->fill)
                                           : ir_const_i(arena, dtype, (int64_t)stmt->fill);
  stmt->value = ir_apply3(arena, IR_OP_WHERE, stmt->cond, stmt->value, fill);
  stmt->cond = NULL;
}

void pass_densify(ir_program *program) {
  program->strict_nan = true;
  program->schedules.count = 0;
  for (int k = 0; k < program->kernels.count; k++) {
    ir_kernel *kernel = program->kernels.at[k];
    for (int i = 0; i < kernel->tensors.count; i++) make_dense(kernel->tensors.at[i]);
    for (int i = 0; i < kernel->stmts.count; i++)
      make_unconditional(program->arena, kernel->stmts.at[i]);
  }
}
