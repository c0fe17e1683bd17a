/* propagate.c - pass `propagate` (20): where each statement can be non-zero, and where it must be
 * computed.
 *
 * needs:  canonical statements
 * keeps:  the meaning of every output
 * breaks: values of lets and temporaries that no reader looks at (they become zero)
 *
 *     let g[t,f] = relu(sum[d] x[t,d]*Wg[d,f])
 *     let u[t,f] = sum[d] x[t,d]*Wu[d,f]               sample  g[t,f] != 0
 *     out y[t,o] = sum[f] g[t,f]*u[t,f]*Wd[f,o]
 *
 * Forwards: `support` of a value (support.c). A statement with a support is sampled on it.
 * Backwards: a let is needed only where some reader's use of it is not multiplied by zero; the
 * terms that can be said in the let's own indices become its sample. Both are repeated until
 * nothing changes; terms are only ever added, and a term that depends on the let itself is never
 * added. A fill that no reader sees becomes 0, so that the tensor can be stored sparse. Results of
 * relu, step, topk and the like are marked as dynamic zeros, with or without a hint. */
#include "passes/queue.h"
#include "passes/stores.h"
#include "passes/support.h"

enum { MOST_NODES = 100 }; /* of a condition: beyond it, testing costs more than it saves */

static int count_nodes(const ir_expr *e) {
  int count = 1;
  for (int i = 0; i < e->arg_count; i++) count += count_nodes(e->args[i]);
  return count;
}

/* ---- forwards -------------------------------------------------------------------------------- */
static void mark_dynamic(ir_stmt *stmt, const ir_expr *support) {
  ir_tensor *t = stmt->target;
  int64_t extent;
  if (t->pattern.zeros != IR_ZEROS_UNKNOWN || !ir_dtype_is_float(t->dtype)) return;
  if (stmt->fill != 0 || ir_is_scatter(stmt) || !pass_makes_zeros(stmt->value)) return;
  if (pass_rests_on_storage(support)) return; /* those zeros are known from storage */
  t->pattern.zeros = IR_ZEROS_DYNAMIC;
  const ir_expr *value = stmt->value;
  if (value->kind != IR_TOPK || !ir_size_bound(value->bound[0]->extent, &extent)) return;
  if (value->bound[0]->extent->kind != IR_CONST && value->bound[0]->extent->kind != IR_DIM) return;
  if (value->bound[0]->extent->kind == IR_DIM && value->bound[0]->extent->dim->value < 0) return;
  double share = extent > 0 ? (double)value->i / (double)extent : 1;
  t->pattern.density_low = t->pattern.density_high = share < 1 ? share : 1;
}

/* Terms that can be asked of one element: no any[..]. */
static ir_expr *elementwise_terms(ir_arena *arena, ir_expr *condition) {
  pass_terms terms = {0};
  ir_expr *kept = NULL;
  pass_terms_of(arena, condition, &terms);
  for (int i = 0; i < terms.list.count; i++)
    if (pass_is_elementwise(terms.list.at[i])) kept = pass_and(arena, kept, terms.list.at[i]);
  return kept;
}

/* Skipping an element leaves the fill there, or adds nothing to a sum that is scattered. */
static bool may_sample(const ir_stmt *stmt) {
  if (ir_is_scatter(stmt)) return stmt->combine == IR_RED_SUM;
  return stmt->fill == 0;
}

static void add_sample(pass_context *c, pass_uses *uses, ir_stmt *stmt, ir_expr *condition) {
  const ir_expr *before = stmt->sample;
  stmt->sample = pass_and(c->arena, stmt->sample, condition);
  if (stmt->sample != before) pass_uses_refresh(uses, stmt);
}

static void go_forward(pass_context *c, pass_uses *uses, ir_stmt *stmt) {
  ir_expr *inside = pass_support_of(c, stmt, stmt->value);
  if (pass_is_false(inside)) inside = NULL; /* a constant zero: nothing to skip by a list */
  if (inside != NULL && count_nodes(inside) > MOST_NODES) inside = NULL;
  if (stmt->fill == 0 && stmt->cond != NULL) inside = pass_and(c->arena, stmt->cond, inside);
  mark_dynamic(stmt, inside);
  if (stmt->sample == NULL) stmt->sample = stmt->cond;
  if (may_sample(stmt)) add_sample(c, uses, stmt, elementwise_terms(c->arena, inside));
  if (ir_is_scatter(stmt) || stmt->fill != 0) return;
  stmt->support = pass_and(c->arena, inside, stmt->sample);
}

/* ---- backwards ------------------------------------------------------------------------------- */
typedef struct demand {
  pass_context *c;
  pass_uses *uses;
  const ir_tensor *tensor;
  const ir_stmt *reader;
  ir_expr *need; /* so far; meaningful once `found` */
  bool found;
} demand;

/* Terms in the tensor's own indices; the others may be true for some element that reads it. */
static ir_expr *as_seen_by(demand *d, const ir_expr *use, ir_expr *condition) {
  ir_arena *arena = d->c->arena;
  const ir_stmt *def = d->tensor->def;
  ir_index *from[IR_MAX_RANK];
  pass_indices known = {0};
  pass_terms terms = {0};
  ir_expr *kept = NULL;
  if (!pass_bare_access(use) || !pass_plain_subs(def)) return NULL;
  for (int i = 0; i < use->arg_count; i++) {
    from[i] = use->args[i]->index;
    pass_indices_add(arena, &known, from[i]);
  }
  pass_terms_of(arena, pass_terms_within(arena, condition, &known), &terms);
  for (int i = 0; i < terms.list.count; i++) {
    ir_expr *term = terms.list.at[i];
    if (pass_is_elementwise(term) && !pass_uses_depends(d->uses, term, d->tensor))
      kept = pass_and(arena, kept, term);
  }
  return ir_expr_substitute(arena, kept, from, def->subs, use->arg_count);
}

static void add_use(demand *d, const ir_expr *use, ir_expr *when) {
  ir_expr *need = as_seen_by(d, use, when);
  d->need = d->found ? pass_or(d->c->arena, d->need, need) : need;
  if (d->need != NULL && count_nodes(d->need) > MOST_NODES) d->need = NULL;
  d->found = true;
}

static void visit_uses(demand *d, ir_expr *e, ir_expr *when);

static bool is_asked_for(const void *user, const ir_tensor *tensor) {
  return ((const demand *)user)->tensor == tensor;
}

/* The factor matters only where the others are not zero. One that may turn infinite where the
 * tensor was left out (0 * (1 / 0)) matters wherever the reader computes: what the reader asks
 * before it computes an element is its sample, which `when` began with; a product inside of it, one
 * term of a sum, is computed for stored zeros and absent ones too. */
static void visit_factor(demand *d, ir_expr *factor, ir_expr *other, ir_expr *when) {
  if (!ir_expr_uses_tensor(factor, d->tensor)) return;
  if (may_sample(d->reader) && pass_stays_finite(factor, is_asked_for, d))
    when = pass_and(d->c->arena, when, pass_support_of(d->c, d->reader, other));
  visit_uses(d, factor, when);
}

static void visit_where(demand *d, ir_expr *e, ir_expr *when) {
  visit_uses(d, e->args[0], when);
  if (ir_expr_uses_tensor(e->args[1], d->tensor)) {
    ir_expr *yes = pass_condition_support(d->c, d->reader, e->args[0]);
    visit_uses(d, e->args[1], pass_and(d->c->arena, when, yes));
  }
  visit_uses(d, e->args[2], when);
}

static void visit_op(demand *d, ir_expr *e, ir_expr *when) {
  bool trusted = !d->c->program->strict_nan || !ir_dtype_is_float(e->dtype);
  ir_pattern_rule rule = e->arg_count == 2 && trusted ? ir_op_rule(e->op) : IR_RULE_DENSE;
  if (e->op == IR_OP_WHERE) {
    visit_where(d, e, when);
  } else if (rule == IR_RULE_INTERSECT) {
    visit_factor(d, e->args[0], e->args[1], when);
    visit_factor(d, e->args[1], e->args[0], when);
  } else if (rule == IR_RULE_LEFT) {
    visit_uses(d, e->args[0], when);
    visit_factor(d, e->args[1], e->args[0], when);
  } else {
    for (int i = 0; i < e->arg_count; i++) visit_uses(d, e->args[i], when);
  }
}

/* A topk or softmax looks at its whole row, wherever its results are wanted. */
static ir_expr *along_row(demand *d, const ir_expr *e, ir_expr *when) {
  pass_terms terms = {0};
  ir_expr *kept = NULL;
  pass_terms_of(d->c->arena, when, &terms);
  for (int i = 0; i < terms.list.count; i++)
    if (!ir_expr_uses_index(terms.list.at[i], e->bound[0]))
      kept = pass_and(d->c->arena, kept, terms.list.at[i]);
  return kept;
}

static void visit_uses(demand *d, ir_expr *e, ir_expr *when) {
  if (e == NULL) return;
  if (e->kind == IR_TOPK || e->kind == IR_SOFTMAX) when = along_row(d, e, when);
  if (e->kind == IR_ACCESS && e->tensor == d->tensor) add_use(d, e, when);
  if (e->kind == IR_OP) {
    visit_op(d, e, when);
    return;
  }
  for (int i = 0; i < e->arg_count; i++)
    visit_uses(d, e->args[i], e->kind == IR_ACCESS ? NULL : when);
}

/* Where some reader looks at the statement's target; NULL: anywhere. */
static ir_expr *needed_at(pass_context *c, pass_uses *uses, const ir_stmt *stmt) {
  demand d = {.c = c, .uses = uses, .tensor = stmt->target};
  int count;
  if (stmt->target->role == IR_ROLE_OUT || pass_use_of(uses, stmt->target)->structural) return NULL;
  const int *readers = pass_readers_of(uses, stmt->target, &count);
  for (int i = 0; i < count; i++) {
    const ir_stmt *reader = pass_stmt_at(uses, readers[i]);
    if (reader == stmt) continue;
    d.reader = reader;
    bool conditional = ir_expr_uses_tensor(reader->cond, stmt->target) ||
                       ir_expr_uses_tensor(reader->sample, stmt->target) ||
                       pass_stores_reads(reader->stores, stmt->target);
    if (conditional) return NULL;
    visit_uses(&d, reader->value, reader->sample);
    for (int s = 0; s < reader->target->rank; s++) visit_uses(&d, reader->subs[s], NULL);
    if (d.found && d.need == NULL) return NULL;
  }
  return d.found ? d.need : NULL;
}

static bool go_backward(pass_context *c, pass_uses *uses, ir_stmt *stmt) {
  if (ir_is_scatter(stmt)) return false;
  ir_expr *need = needed_at(c, uses, stmt);
  if (need != NULL && stmt->fill != 0 && pass_implies(c->arena, need, stmt->cond)) {
    stmt->fill = stmt->target->fill =
        0; /* nobody sees the fill: what is not computed may as well not be stored */
    return true;
  }
  if (need == NULL || pass_implies(c->arena, stmt->sample, need)) return false;
  add_sample(c, uses, stmt, need);
  if (stmt->fill == 0) stmt->support = pass_and(c->arena, stmt->support, need);
  return true;
}

/* ---- order ----------------------------------------------------------------------------------- */
/* Statements of the kernel that the row reads, itself left out. */
static int count_producers(const pass_uses *uses, int row) {
  const pass_use *use = &uses->list.at[row];
  int count = 0;
  for (int i = 0; i < use->reads.count; i++)
    count += use->reads.at[i] != row && pass_stmt_at(uses, use->reads.at[i]) != NULL;
  return count;
}

/* `done` is in its place: those that waited for it alone are ready. */
static void release_readers(pass_queue *ready, int done, int *missing) {
  int count;
  const int *rows = pass_readers_of(ready->uses, ready->uses->list.at[done].tensor, &count);
  for (int i = 0; i < count; i++)
    if (rows[i] != done && --missing[rows[i]] == 0) pass_queue_add(ready, rows[i]);
}

/* A sample may look at a tensor that stood behind the statement: that one moves before it. Each
 * place is taken by the first statement that reads nothing which is still to come. */
static void order_stmts(pass_uses *uses, ir_kernel *kernel) {
  pass_queue ready = {.uses = uses};
  int *missing = IR_NEW_ARRAY(uses->arena, int, uses->list.count + 1), count = 0;
  bool *placed = IR_NEW_ARRAY(uses->arena, bool, uses->list.count + 1);
  for (int row = uses->first; row >= 0; row = uses->list.at[row].behind)
    if ((missing[row] = count_producers(uses, row)) == 0) pass_queue_add(&ready, row);
  for (int row; (row = pass_queue_take(&ready)) >= 0;) {
    placed[row] = true;
    kernel->stmts.at[count++] = pass_stmt_at(uses, row);
    release_readers(&ready, row, missing);
  }
  for (int row = uses->first; row >= 0; row = uses->list.at[row].behind) /* a circle stays */
    if (!placed[row]) kernel->stmts.at[count++] = pass_stmt_at(uses, row);
}

/* ---- remarks --------------------------------------------------------------------------------- */
/* "g[t, f] is not zero and j <= i" */
static const char *in_words(ir_arena *arena, ir_expr *condition) {
  ir_text text = ir_text_new(arena);
  pass_terms terms = {0};
  pass_terms_of(arena, condition, &terms);
  for (int i = 0; i < terms.list.count; i++) {
    const ir_expr *term = terms.list.at[i];
    bool zero = term->kind == IR_OP && term->op == IR_OP_NE && pass_is_number(term->args[1], 0);
    if (i > 0) ir_text_put(&text, " and ");
    ir_print_expr(zero ? term->args[0] : term, &text);
    if (zero) ir_text_put(&text, " is not zero");
  }
  return text.data;
}

static void remark_sampled(pass_context *c, ir_stmt *stmt) {
  if (pass_implies(c->arena, stmt->cond, stmt->sample) || pass_is_elementwise(stmt->value)) return;
  ir_diag_add(c->sink, IR_DIAG_SAMPLED, stmt->span, "`%s` is computed only where %s",
              stmt->target->name, in_words(c->arena, stmt->sample));
}

static void remark_missed(pass_context *c, const ir_stmt *stmt) {
  const ir_tensor *t = stmt->target;
  if (t->pattern.zeros == IR_ZEROS_UNKNOWN || stmt->support != NULL) return;
  if (pass_makes_zeros(stmt->value)) return;
  ir_op op = pass_zero_loser(stmt->value);
  ir_diag *diag = ir_diag_add(
      c->sink, IR_DIAG_NO_EXACT_ZEROS, stmt->span,
      "`%s` is hinted to be zero in places, but nothing in it makes exact zeros", t->name);
  if (op != IR_OP_COUNT)
    ir_diag_note(c->sink, diag, stmt->span,
                 "%s gives small values, not zeros; relu, topk or "
                 "where(x > limit, x, 0) would make them exact",
                 ir_op_rows[op].mnemonic);
}

spc_status pass_propagate(pass_context *context, ir_kernel *kernel) {
  bool changed = true;
  int count = kernel->stmts.count;
  ir_stmt **stmts = kernel->stmts.at;
  for (int i = 0; i < count; i++) stmts[i]->sample = stmts[i]->support = NULL;
  pass_uses *uses = pass_uses_new(context->arena, kernel);
  for (int round = 0; changed && round <= count; round++) {
    changed = false;
    for (int i = 0; i < count; i++) go_forward(context, uses, stmts[i]);
    if (round == 0)
      for (int i = 0; i < count; i++) remark_missed(context, stmts[i]);
    for (int i = count - 1; i >= 0; i--) changed |= go_backward(context, uses, stmts[i]);
  }
  order_stmts(uses, kernel);
  for (int i = 0; i < count; i++) remark_sampled(context, stmts[i]);
  return SPC_OK;
}
