/* microtile.c - pass `microtile`: decides, for all statements of a kernel at once, what runs them.
 *
 * needs: a format for every tensor, permutation-invariant axes, zeros
 * keeps: everything but the layout of intermediates that `format` left free
 * breaks: nothing
 *
 *     h[t,f] = relu(..) ~ zeros(dynamic, density=0.02)      h as dense_t
 *     y[t,o] = sum[f] h[t,f]*W2[f,o]                   ->   candidate y: f lists of h, 64x1, tile
 * 64x128x32  chosen candidate y: dense 128x128x32                    runner-up candidate y:
 * cuBLASLt                            rejected: ..
 *
 * PIT's rule with covered density: cost(micro-tile) = steps over covered tiles x cost of the dense
 * tile + the cost of the lists.  Dense is always a candidate.  A conversion statement has no
 * choice. */
#include "passes/choice.h"
#include "passes/storage.h"

spc_status pass_microtile(pass_context *context, ir_kernel *kernel) {
  pass_context_prepare(context);
  pass_dims_assumed(context);
  bool cuda = pass_target_of(context)->kind == IR_TARGET_CUDA;
  pass_ways *all = IR_NEW_ARRAY(context->arena, pass_ways, kernel->stmts.count + 1);
  int count = 0;
  for (int s = 0; s < kernel->stmts.count; s++) {
    ir_stmt *stmt = kernel->stmts.at[s];
    if (pass_stmt_converts(stmt) && pass_tensor_is_sparse(stmt->target)) continue;
    pass_ways *ways = &all[count++];
    ways->stmt = stmt;
    ways->is_sum = pass_sum_of(context, stmt, &ways->sum);
    if (cuda)
      pass_ways_cuda(context, kernel, ways);
    else
      pass_ways_cpu(context, kernel, ways);
  }
  if (cuda) pass_ways_attend(context, kernel, all, count);
  if (!cuda || !pass_is_quick(context))
    SPC_TRY(pass_schedule_restrict(context, kernel, all, count));
  pass_ways_choose(context, kernel, all, count);
  pass_aside_settle(context, kernel);
  return SPC_OK;
}
