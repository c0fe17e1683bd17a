/* stage_front.c - dense branches that stand in front of their lists.
 *
 *     stage detect.A    the dense branch: takes a sample of A, and goes on where that says dense
 *                       values to bits, bits to a list        (leave at once where it does)
 *     stage C           over the list
 *     stage C.dense     where the cover of the list says dense, which the sample had not
 *
 * Where nothing is zero the launches that make the list, and those that compute over it, have nothing to do; in front of the dense
 * branch each would be waited for.  So the dense branch comes first, once more, with the sample, and the others leave beside its
 * last tiles (kernels/front.cuh).  Where it does not go on it is one launch more: it is worth that where it is long, and they are
 * many.  Of two, one of them the dense branch itself, nothing is saved. */
#include "passes/choice.h"
#include "passes/stage.h"

static ir_stage *stage_behind(const ir_kernel *kernel, const ir_stage *stage, int by) {
  int at = stage->number + by;
  return at < kernel->stages.count ? kernel->stages.at[at] : NULL;
}

static bool uses(const ir_stage *stage, const ir_list *list) {
  if (stage->when.list == list) return true;
  for (int i = 0; i < stage->reads.count; i++)
    if (stage->reads.at[i] == list) return true;
  return false;
}

/* Stages that use the list, beside the one that makes it. */
static int users(const ir_kernel *kernel, const ir_list *list) {
  int count = 0;
  for (int i = 0; i < kernel->stages.count; i++) count += uses(kernel->stages.at[i], list);
  return count;
}

/* Rows or columns of the values lie side by side, in whole pieces of 16 bytes: a sample is taken of no others. */
bool pass_can_be_sampled(pass_context *context, const ir_tensor *x) {
  const double piece = 16;
  int last = x->format ? ir_last_dim(x) : x->rank - 1;
  double bytes = pass_size_assumed(context, x->dim[last]) * (double)ir_dtype_bytes(x->dtype);
  return x->rank == 2 && bytes >= piece && (int64_t)bytes % (int64_t)piece == 0;
}

/* The stages that make the list and use it stand behind one another, and these alone do; between the sparse and the dense one may be that over a list which is
 * made in its place.  The dense one, if it is to stand in front. */
static const ir_stage *dense_behind(pass_context *context, const ir_kernel *kernel, const ir_stage *makes) {
  const ir_list *list = makes->detects;
  const ir_stage *guard = stage_behind(kernel, makes, 1), *sparse = stage_behind(kernel, makes, 2), *dense = stage_behind(kernel, makes, ir_list_instead(kernel, list) ? 4 : 3);
  if (!dense || guard->kind != IR_STAGE_GUARD || guard->reads.at[0] != list || users(kernel, list) != 3) return NULL;
  bool twins = sparse->when.list == list && !sparse->when.above && uses(sparse, list) && dense->when.list == list && dense->when.above &&
               sparse->stmts.count == 1 && dense->stmts.count == 1 && sparse->stmts.at[0] == dense->stmts.at[0] && !dense->beside.count;
  const ir_tensor *target = dense->stmts.count ? dense->stmts.at[0]->target : NULL;
  const ir_candidate *chosen = twins ? pass_chosen(kernel, target) : NULL;
  return chosen && pass_has_front(context, chosen, pass_dense_branch(kernel, target)) ? dense : NULL;
}

void pass_stage_fronts(pass_context *context, ir_kernel *kernel) {
  for (int i = 0; i < kernel->stages.count; i++) {
    ir_stage *makes = kernel->stages.at[i];
    ir_list *list = makes->kind == IR_STAGE_DETECT ? makes->detects : NULL;
    if (!list || list->fused || !list->verdict || ir_list_made_once(kernel, list) || !pass_can_be_sampled(context, list->tensor)) continue;
    const ir_stage *dense = dense_behind(context, kernel, makes);
    if (!dense) continue;
    list->front = pass_workspace_new(context, kernel, ir_format_text(context->arena, "%s.front", list->name), IR_I32, ir_int(context->arena, 1 + IR_FRONT_BLOCKS));
    ir_list *instead = ir_list_instead(kernel, list);
    if (instead) instead->front = list->front;
    makes->why = ir_format_text(context->arena, "%s; %s stands in front, takes %s", makes->why, dense->row,
                                instead ? "a sample of this list and of the one that may be made in its place, and goes on where both say dense" : "a sample, and goes on where that says dense");
  }
}
