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

/* ---- where values are needed ----------------------------------------------------------------- */
static bool comes_later(const lower_state *s, const ir_tensor *tensor) {
  if (tensor->role == IR_ROLE_IN) return false;
  for (int i = 0; i < s->kernel->stmts.count && s->kernel->stmts.at[i] != s->stmt; i++)
    if (s->kernel->stmts.at[i]->target == tensor) return false;
  return true;
}

static bool is_computed(const lower_state *s, const ir_expr *e) {
  if (e->kind == IR_ACCESS && comes_later(s, e->tensor)) return false;
  for (int i = 0; i < e->arg_count; i++)
    if (!is_computed(s, e->args[i])) return false;
  return true;
}

static bool reads_tensor_of(const ir_expr *value, const ir_expr *term) {
  if (term->kind == IR_ACCESS && ir_expr_uses_tensor(value, term->tensor)) return true;
  for (int i = 0; i < term->arg_count; i++)
    if (reads_tensor_of(value, term->args[i])) return true;
  return false;
}

/* Where the operands store nothing the value is 0; else the loops cannot be trusted to leave a 0
 * there (exp(0 - 0) / 0, where the sums of a softmax were not needed either). */
static bool is_zero_outside(lower_state *s, const ir_expr *value) {
  s->accesses.count = 0;
  pass_access_collect(s, value);
  lower_fold outside = pass_fold(s, NULL, value, NULL, NULL);
  return outside.known && outside.value == 0;
}

/* Where only some elements of a temporary are looked at, the others are not computed, and are 0.
 * Terms about the statement's own operands are left to the loops, which walk what these store. */
static ir_stmt *sampled(lower_state *s) {
  ir_stmt *stmt = s->stmt;
  if (!stmt->sample || stmt->target->role == IR_ROLE_OUT || is_assembled(s)) return stmt;
  pass_terms terms = {0};
  pass_terms_of(s->arena, stmt->sample, &terms);
  ir_expr *condition = stmt->cond;
  bool walks = is_zero_outside(s, stmt->value);
  for (int i = 0; i < terms.list.count; i++) {
    ir_expr *term = terms.list.at[i];
    bool left = walks && reads_tensor_of(stmt->value, term);
    if (pass_is_elementwise(term) && is_computed(s, term) && !left)
      condition = pass_and(s->arena, condition, term);
  }
  ir_stmt *copy = IR_NEW(s->arena, ir_stmt);
  *copy = *stmt;
  copy->cond = condition;
  return copy;
}

/* ---- one stage ------------------------------------------------------------------------------- */
static void lower_statement(lower_state *s) {
  const ir_expr *hole;
  lower_loops order = {0};
  s->sums = NULL;
  s->part_index = NULL;
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

/* Beside a library's product stands a kernel of our own: generated loops where no row computes it.
 */
static bool loops_stand_in(const lower_state *s) {
  pass_sum sum;
  if (strcmp(s->stage->row, "library") || !pass_sum_of(s->context, s->stmt, &sum)) return false;
  for (int i = 0; i < ir_kernel_row_count; i++) {
    const ir_kernel_row *row = &ir_kernel_rows[i];
    if (ir_kernel_is_dense(row) && !row->align && sum.a &&
        pass_row_fits(row, pass_target_of(s->context), sum.a->tensor->dtype))
      return false;
  }
  return true;
}

static void lower_compute(lower_state *s) {
  const ir_target *target = s->context->options->target;
  for (int i = 0; i < s->stage->stmts.count; i++) {
    s->stmt = s->stage->stmts.at[i];
    if (is_loop(s->stage) || loops_stand_in(s)) {
      s->stmt = sampled(s);
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
