/* lower.c - pass `lower`: every stage of the tile dialect to functions of the loop dialect.
 *
 * Needs: stages and formats (`stage`); every compressed operand in an order that its loops allow, else it
 * is read element by element.  Keeps: meaning; nothing sparse is made dense, no value is dropped.  Breaks:
 * nothing; statements and stages stay beside their functions.
 *
 *     out y[i] = sum[k] A[i,k]*x[k]       for i parallel {
 *     (A csr)                               let acc = 0
 *                                           for p = A.pos1[i] .. A.pos1[i+1] { acc = acc + A.vals[p] * x.vals[A.crd1[p]] }
 *                                           y.vals[i] = acc }
 *
 * A statement becomes one of three things: elements computed whole and stored once (lower_gather.c);
 * combining stores where a sparse operand's order, or a scatter, asks for them (lower_scatter.c); or
 * entries counted and written for a result whose pattern is computed (lower_assemble.c).
 * docs/lowering.md walks through two nests. */
#include "passes/lower.h"
#include "passes/storage.h"

static bool is_loop(const ir_stage *stage) { return !stage->row || !strcmp(stage->row, "loop"); }

static bool is_assembled(lower_state *s) {
  const ir_tensor *target = s->stmt->target;
  if (target->like) return false;
  const ir_format *format = pass_level_format(s, target);
  for (int l = 0; l < format->level_count; l++)
    if (format->level[l].kind != IR_LEVEL_DENSE) return true;
  return false;
}

static void lower_statement(lower_state *s) {
  const ir_expr *hole;
  lower_loops order = {0};
  s->sums = NULL;
  s->part_index = NULL;
  if (is_assembled(s)) {
    s->stage->assembled = true;
    pass_lower_assembled(s);
  } else if (ir_is_scatter(s->stmt)) {
    pass_lower_scatter(s);
  } else if (!s->stmt->target->like && pass_scatter_order(s, &hole, &order)) {
    pass_scatter_reduction(s, hole, &order);
  } else {
    pass_lower_gather(s);
  }
}

static void lower_compute(lower_state *s) {
  const ir_target *target = s->context->options->target;
  for (int i = 0; i < s->stage->stmts.count; i++) {
    s->stmt = s->stage->stmts.at[i];
    if (is_loop(s->stage)) lower_statement(s);
    else if (target && target->kind == IR_TARGET_CUDA) pass_lower_fragment(s);
  }
}

static void lower_stage(lower_state *s) {
  switch (s->stage->kind) {
  case IR_STAGE_COMPUTE: lower_compute(s); return;
  case IR_STAGE_DETECT:
    if (is_loop(s->stage)) pass_lower_detect(s);
    return;
  case IR_STAGE_GUARD:
    if (is_loop(s->stage)) pass_lower_guard(s);
    return;
  case IR_STAGE_CONVERT: return; /* the plan repacks it */
  }
}

spc_status pass_lower(pass_context *context, ir_kernel *kernel) {
  kernel->funcs.count = 0;
  for (int i = 0; i < kernel->stages.count; i++) {
    lower_state s = {.context = context, .kernel = kernel, .stage = kernel->stages.at[i], .arena = context->arena,
                     .target = -1};
    s.stage->funcs.count = 0;
    lower_stage(&s);
  }
  return SPC_OK;
}
