/* count.c - what results of computed patterns need, without making them.
 *
 * Only stages that such a result depends on run; where its room is counted level by level and
 * nobody reads it later, its entries are not written either.  A stage depends on another when both
 * touch a buffer that is no input: more than need be, never less. */
#include "runtime/run.h"

typedef struct touched {
  ir_arena *arena;
  IR_VEC(const void *) at; /* tensors, and workspaces as buffers */
} touched;

static bool has(const touched *t, const void *one) {
  for (int i = 0; i < t->at.count; i++)
    if (t->at.at[i] == one) return true;
  return false;
}

/* Whether `one` was there; it is added where `adds` says so. */
static bool meets(touched *t, const void *one, bool adds) {
  if (!one || has(t, one)) return one != NULL;
  if (adds) IR_PUSH(t->arena, &t->at, one);
  return false;
}

static bool meets_tensor(touched *t, const ir_tensor *tensor, bool adds) {
  bool met = false;
  for (; tensor; tensor = tensor->like)
    if (tensor->role != IR_ROLE_IN) met = meets(t, tensor, adds) || met;
  return met;
}

static bool meets_buffer(touched *t, const ir_buf *buf, bool adds) {
  return buf->kind == IR_BUF_WORKSPACE ? meets(t, buf, adds) : meets_tensor(t, buf->tensor, adds);
}

/* Whether what is touched meets the stage; with `adds` all that the stage touches is put to it. */
static bool meets_stage(touched *t, const ir_image *image, const ir_stage *stage, bool adds) {
  bool met = meets_tensor(t, stage->source, adds);
  met = meets_tensor(t, stage->dest, adds) || met;
  if (stage->when.list && stage->when.list->verdict)
    met = meets_buffer(t, stage->when.list->verdict, adds) || met;
  for (int i = 0; i < stage->stmts.count; i++)
    met = meets_tensor(t, stage->stmts.at[i]->target, adds) || met;
  for (int i = 0; i < image->codes.count; i++) {
    const ir_code_image *code = &image->codes.at[i];
    if (code->stage != stage) continue;
    int count = image->cuda ? code->bufs.count : code->func->bufs.count;
    for (int b = 0; b < count; b++)
      met = meets_buffer(t, image->cuda ? code->bufs.at[b] : code->func->bufs.at[b], adds) || met;
  }
  return met;
}

static bool is_counted(const ir_tensor *tensor) {
  return tensor->role == IR_ROLE_OUT && !tensor->like && !ir_format_is_dense(tensor->format);
}

static bool counts_any(const ir_kernel *kernel) {
  for (int i = 0; i < kernel->tensors.count; i++)
    if (is_counted(kernel->tensors.at[i])) return true;
  return false;
}

/* Stages that no counted result depends on are left out; those whose results nobody reads count. */
static void choose_stages(rt_run *run, ir_arena *arena) {
  const ir_image *image = run->plan->image;
  const ir_kernel *kernel = image->kernel;
  touched later = {.arena = arena};
  run->left_out = IR_NEW_ARRAY(arena, bool, kernel->stages.count + 1);
  run->counted = IR_NEW_ARRAY(arena, bool, kernel->stages.count + 1);
  for (int i = kernel->stages.count - 1; i >= 0; i--) {
    const ir_stage *stage = kernel->stages.at[i];
    const ir_tensor *result =
        stage->stmts.count ? stage->stmts.at[stage->stmts.count - 1]->target : stage->dest;
    bool read = meets_stage(&later, image, stage, false);
    run->left_out[i] = !read && !(result && is_counted(result));
    run->counted[i] = !read && stage->assembled && stage->stmts.count == 1;
    if (!run->left_out[i]) (void)meets_stage(&later, image, stage, true);
  }
}

static spc_status collect(rt_run *run, ir_arena *arena, ir_bindings *bindings) {
  const ir_kernel *kernel = run->plan->image->kernel;
  for (int i = 0; i < kernel->tensors.count; i++) {
    ir_tensor *tensor = kernel->tensors.at[i];
    if (!is_counted(tensor)) continue;
    const rt_tensor_slots *t = rt_memory_tensor(&run->memory, tensor);
    if (!t->ready) return SPC_INTERNAL;
    ir_binding result = {.tensor = tensor, .view = t->view};
    IR_PUSH(arena, &bindings->list, result);
  }
  return SPC_OK;
}

static spc_status count_steps(rt_run *run, ir_arena *arena, ir_bindings *bindings) {
  choose_stages(run, arena);
  SPC_TRY(rt_run_prepare(run));
  SPC_TRY(rt_run_enqueue(run, NULL, NULL));
  return collect(run, arena, bindings);
}

spc_status rt_plan_count(rt_plan *plan, ir_arena *arena, ir_bindings *bindings, ir_sink *sink) {
  if (!counts_any(plan->image->kernel)) return SPC_OK;
  spc_status status = rt_run_new(plan, arena, bindings, sink, &plan->running);
  if (!status) status = count_steps(plan->running, arena, bindings);
  rt_run_free(plan->running);
  plan->running = NULL;
  return status;
}
