/* stage_once.c - which stages depend on `const` inputs alone.
 *
 *     in W : f32[K,N] ~ zeros(static) const;      stage detect.W   once: reads W
 *     y = sum[k] x*W                               stage guard.W    once: reads the list of W
 *                                                  stage y          every run: reads x
 * What such a stage makes is the same in every run until the caller says that W has changed, so the
 * runtime can make it once and keep it (runtime/enqueue.h).  Its sizes follow from those of const
 * inputs: what is kept has its place whatever else is bound. */
#include "ir/loop.h"
#include "passes/stage.h"

typedef struct once {
  const ir_kernel *kernel;
  IR_VEC(const ir_tensor *) made; /* tensors that stages of this kind compute */
  IR_VEC(const ir_list *) lists;  /* lists that they make, or guard */
} once;

/* ---- sizes ----------------------------------------------------------------------------------- */
static bool has_dim(const ir_tensor *tensor, const ir_dim *dim) {
  for (int d = 0; d < tensor->rank; d++)
    if (ir_expr_uses_dim(tensor->dim[d], dim)) return true;
  return false;
}

static bool is_settled(const once *o, const ir_dim *dim) {
  if (dim->value >= 0) return true;
  for (int i = 0; i < o->kernel->tensors.count; i++) {
    const ir_tensor *tensor = o->kernel->tensors.at[i];
    if (tensor->role == IR_ROLE_IN && tensor->constant && has_dim(tensor, dim)) return true;
  }
  return false;
}

static bool size_is_settled(const once *o, const ir_expr *size) {
  if (!size) return false;
  if (size->kind == IR_DIM) return is_settled(o, size->dim);
  for (int i = 0; i < size->arg_count; i++)
    if (!size_is_settled(o, size->args[i])) return false;
  return true;
}

static bool list_is_settled(const once *o, const ir_list *list) {
  return size_is_settled(o, list->strips) && size_is_settled(o, list->capacity);
}

/* ---- what is read ---------------------------------------------------------------------------- */
static bool is_kept(const once *o, const ir_tensor *tensor) {
  if (tensor->role == IR_ROLE_IN) return tensor->constant;
  for (int i = 0; i < o->made.count; i++)
    if (o->made.at[i] == tensor) return true;
  return false;
}

static bool reads_kept(const once *o, const ir_expr *e) {
  if (!e) return true;
  if (e->kind == IR_ACCESS && !is_kept(o, e->tensor)) return false;
  for (int i = 0; i < e->bound_count; i++)
    if (e->bound[i]->offsets && !is_kept(o, e->bound[i]->offsets)) return false;
  for (int i = 0; i < e->arg_count; i++)
    if (!reads_kept(o, e->args[i])) return false;
  return true;
}

static bool list_is_kept(const once *o, const ir_list *list) {
  if (pass_weighs_store(list)) return is_kept(o, list->tensor);
  for (int i = 0; i < o->lists.count; i++)
    if (o->lists.at[i] == list) return true;
  return false;
}

/* ---- stages ---------------------------------------------------------------------------------- */
static bool statement_is_once(const once *o, const ir_stmt *stmt) {
  const ir_tensor *target = stmt->target;
  if (target->role == IR_ROLE_OUT || target->like) return false;
  for (int d = 0; d < target->rank; d++)
    if (!size_is_settled(o, target->dim[d]) || !reads_kept(o, stmt->subs[d])) return false;
  for (int i = 0; i < stmt->free.count; i++)
    if (stmt->free.at[i]->offsets && !is_kept(o, stmt->free.at[i]->offsets)) return false;
  return reads_kept(o, stmt->value) && reads_kept(o, stmt->cond) && reads_kept(o, stmt->sample);
}

static bool stage_is_once(const once *o, const ir_stage *stage) {
  const ir_list *made = stage->detects;
  if (stage->kind == IR_STAGE_CONVERT || stage->assembled) return false;
  if (stage->when.list && !list_is_kept(o, stage->when.list)) return false;
  if (made && !list_is_settled(o, made)) return false;
  if (stage->kind == IR_STAGE_DETECT) return is_kept(o, made->tensor);
  for (int i = 0; i < stage->reads.count; i++)
    if (!list_is_kept(o, stage->reads.at[i])) return false;
  for (int i = 0; i < stage->stmts.count; i++)
    if (!statement_is_once(o, stage->stmts.at[i])) return false;
  return true;
}

void pass_stage_once(pass_context *context, ir_kernel *kernel) {
  once o = {.kernel = kernel};
  for (int s = 0; s < kernel->stages.count; s++) {
    ir_stage *stage = kernel->stages.at[s];
    stage->once = stage_is_once(&o, stage);
    if (!stage->once) continue;
    if (stage->detects) IR_PUSH(context->arena, &o.lists, stage->detects);
    for (int i = 0; i < stage->stmts.count; i++)
      IR_PUSH(context->arena, &o.made, stage->stmts.at[i]->target);
  }
}
