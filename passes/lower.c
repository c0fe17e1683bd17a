/* lower.c - pass `lower`: every stage of the tile dialect to functions of the loop dialect.
 *
 * Needs: stages and formats (`stage`); every compressed operand in an order that its loops allow,
 * else it is read element by element.  Keeps: meaning; nothing sparse is made dense, no value is
 * dropped.  Breaks: nothing; statements and stages stay beside their functions.
 *
 *     out y[i] = sum[k] A[i,k]*x[k]       for i parallel {
 *     (A csr)                               let acc = 0
 *                                           for p = A.pos1[i] .. A.pos1[i+1] { acc = acc +
 * A.vals[p] * x.vals[A.crd1[p]] } y.vals[i] = acc }
 *
 * A statement becomes one of three things: elements computed whole and stored once
 * (lower_gather.c); combining stores where a sparse operand's order, or a scatter, asks for them
 * (lower_scatter.c); or entries counted and written for a result whose pattern is computed
 * (lower_assemble.c, lower_tuples.c). docs/lowering.md walks through some nests. */
#include "passes/choice.h"
#include "passes/expr.h"
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

/* ---- stages that lowering adds --------------------------------------------------------------- */
static void insert_stmt(lower_state *s, ir_stmt *stmt) {
  int at = 0;
  while (at < s->kernel->stmts.count && s->kernel->stmts.at[at] != s->stmt) at++;
  IR_PUSH(s->arena, &s->kernel->stmts, NULL);
  for (int i = s->kernel->stmts.count - 1; i > at; i--)
    s->kernel->stmts.at[i] = s->kernel->stmts.at[i - 1];
  s->kernel->stmts.at[at] = stmt;
}

static void renumber(lower_state *s, int from) {
  for (int i = from; i < s->kernel->stages.count; i++) s->kernel->stages.at[i]->number = i;
  for (int i = 0; i < s->kernel->workspaces.count; i++) {
    ir_buf *buf = s->kernel->workspaces.at[i];
    if (buf->first >= from) buf->first++;
    if (buf->last >= from) buf->last++;
  }
}

void pass_lower_insert(lower_state *s, ir_stmt *stmt) {
  ir_stage *stage = IR_NEW(s->arena, ir_stage);
  int at = s->stage->number;
  stage->name = stmt->target->name;
  stage->row = "loop";
  stage->when = s->stage->when;
  stage->why = "entries of one place are summed before the epilogue";
  IR_PUSH(s->arena, &stage->stmts, stmt);
  IR_PUSH(s->arena, &s->kernel->stages, NULL);
  for (int i = s->kernel->stages.count - 1; i > at; i--)
    s->kernel->stages.at[i] = s->kernel->stages.at[i - 1];
  s->kernel->stages.at[at] = stage;
  renumber(s, at);
  insert_stmt(s, stmt);
}

/* Before anything is lowered: a stage may turn into two. */
static void split_stage(lower_state *s) {
  if (s->stage->kind != IR_STAGE_COMPUTE || !is_loop(s->stage)) return;
  for (int i = 0; i < s->stage->stmts.count; i++) {
    s->stmt = s->stage->stmts.at[i];
    s->sums = NULL;
    if (is_assembled(s) && !pass_stmt_appends(s->context, s->stmt)) pass_tuples_split(s);
  }
}

/* ---- one stage ------------------------------------------------------------------------------- */
static void lower_statement(lower_state *s) {
  const ir_expr *hole;
  lower_loops order = {0};
  s->sums = NULL;
  s->part_index = NULL;
  if (pass_lower_strips(s)) return;
  if (is_assembled(s)) {
    s->stage->assembled = true;
    if (pass_stmt_appends(s->context, s->stmt))
      pass_lower_assembled(s);
    else
      pass_lower_tuples(s);
  } else if (ir_is_scatter(s->stmt)) {
    pass_lower_scatter(s);
  } else if (!s->stmt->target->like && pass_scatter_order(s, &hole, &order)) {
    pass_scatter_reduction(s, hole, &order);
  } else {
    pass_lower_gather(s);
  }
}

/* Beside a library's product stands a kernel of our own: generated loops where no row computes it,
 * or where they are wanted soon. */
static bool loops_stand_in(const lower_state *s) {
  pass_sum sum;
  if (strcmp(s->stage->row, "library") || !pass_sum_of(s->context, s->stmt, &sum)) return false;
  if (pass_is_quick(s->context)) return true; /* they compile soonest */
  for (int i = 0; i < ir_kernel_row_count; i++) {
    const ir_kernel_row *row = &ir_kernel_rows[i];
    if (ir_kernel_is_dense(row) && !row->align && sum.a &&
        pass_row_fits(row, pass_target_of(s->context), &sum))
      return false;
  }
  return true;
}

/* With the copy that the stage reads in the place of its stored operand. */
static ir_stmt *statement_of(lower_state *s, ir_stmt *stmt) {
  pass_sum sum;
  ir_expr *stored = s->stage->full && pass_sum_of(s->context, stmt, &sum) ? pass_stored_operand(&sum) : NULL;
  if (!stored) return stmt;
  ir_stmt *copy = IR_NEW(s->arena, ir_stmt);
  *copy = *stmt;
  copy->value = pass_replace_node(s->arena, stmt->value, stored, ir_access(s->arena, s->stage->full, stored->args));
  copy->stores = NULL;
  return copy;
}

static void lower_compute(lower_state *s) {
  const ir_target *target = s->context->options->target;
  if (!is_loop(s->stage) && pass_lower_attend(s)) return;
  for (int i = 0; i < s->stage->stmts.count; i++) {
    s->stmt = statement_of(s, s->stage->stmts.at[i]);
    if (is_loop(s->stage) || loops_stand_in(s)) {
      s->stmt = pass_lower_sampled(s, is_assembled(s));
      if (!is_assembled(s)) s->stmt = pass_lower_joined(s);
      lower_statement(s);
    } else if (target && target->kind == IR_TARGET_CUDA)
      pass_lower_fragment(s);
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

static lower_state state_of(pass_context *context, ir_kernel *kernel, int i) {
  return (lower_state){.context = context,
                       .kernel = kernel,
                       .stage = kernel->stages.at[i],
                       .arena = context->arena,
                       .target = -1};
}

spc_status pass_lower(pass_context *context, ir_kernel *kernel) {
  kernel->funcs.count = 0;
  for (int i = 0; i < kernel->stages.count; i++) {
    lower_state s = state_of(context, kernel, i);
    split_stage(&s);
    i = s.stage->number;
  }
  for (int i = 0; i < kernel->stages.count; i++) {
    lower_state s = state_of(context, kernel, i);
    s.stage->funcs.count = 0;
    lower_stage(&s);
  }
  return SPC_OK;
}
