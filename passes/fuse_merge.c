/* fuse_merge.c - puts one statement's definition into another. */
#include "passes/canon.h"
#include "passes/fuse.h"
#include "passes/stores.h"
#include "passes/support.h"

/* ---- renaming -------------------------------------------------------------------------------- */
/* A reader's index that the producer's reduction binds would be captured. */
static bool collides(ir_arena *arena, const ir_expr *value, const ir_stmt *into) {
  pass_indices bound = {0};
  pass_indices_bound(arena, value, &bound);
  for (int i = 0; i < into->free.count; i++)
    if (pass_indices_has(&bound, into->free.at[i])) return true;
  return false;
}

/* ---- the value, as the reader sees it -------------------------------------------------------- */
/* Rounding to a 16-bit or wider float may be skipped; any other conversion is part of the meaning.
 */
static ir_expr *converted(ir_arena *arena, ir_dtype t, ir_expr *value) {
  if (value->dtype == t) return value;
  bool floats = ir_dtype_is_float(t) && ir_dtype_is_float(value->dtype);
  if (floats && ir_dtype_rows[t].bits >= 16 &&
      ir_dtype_rows[value->dtype].bits >= ir_dtype_rows[t].bits)
    return value;
  return pass_as_dtype(arena, t, value);
}

/* The reader looks at the use only where the condition holds: it has that condition itself, for the
 * same element (a topk reads the whole row). */
static bool reads_within(ir_arena *arena, const ir_stmt *into, ir_expr *cond) {
  if (into->value && into->value->kind == IR_TOPK &&
      ir_expr_uses_index(cond, into->value->bound[0]))
    return false;
  return pass_implies(arena, into->cond, cond);
}

static ir_expr *value_at(pass_context *c, ir_kernel *kernel, const pass_pair *p, ir_expr *use) {
  ir_arena *arena = c->arena;
  ir_expr *value = p->from->value;
  if (pass_captures(arena, value, use) || collides(arena, value, p->into))
    value = pass_fresh_bound(arena, kernel, value);
  value = converted(arena, p->from->target->dtype, pass_at_access(arena, p->from, value, use));
  ir_expr *cond = pass_at_access(arena, p->from, p->from->cond, use);
  if (cond == NULL || reads_within(arena, p->into, cond)) return value;
  return ir_apply3(arena, IR_OP_WHERE, cond, value, ir_const_f(arena, value->dtype, p->from->fill));
}

/* ---- the kernel while it changes ------------------------------------------------------------- */
static void mention(pass_fusion *f, const ir_expr *e, int row) {
  if (e == NULL) return;
  if (e->kind == IR_ACCESS) {
    pass_mentions *m = &f->mentioned.at[pass_uses_row(f->uses, e->tensor)];
    if (m->rows.count == 0 || m->rows.at[m->rows.count - 1] != row)
      IR_PUSH(f->c->arena, &m->rows, row);
  }
  for (int i = 0; i < e->arg_count; i++) mention(f, e->args[i], row);
}

static void mention_findings(pass_fusion *f, const ir_stmt *stmt) {
  int row = pass_uses_row(f->uses, stmt->target);
  while (f->mentioned.count < f->uses->list.count)
    IR_PUSH(f->c->arena, &f->mentioned, (pass_mentions){0});
  mention(f, stmt->sample, row);
  mention(f, stmt->support, row);
}

void pass_fusion_open(pass_fusion *f, pass_context *c, ir_kernel *kernel) {
  *f = (pass_fusion){.c = c, .kernel = kernel, .uses = pass_uses_new(c->arena, kernel)};
  f->waiting.uses = f->uses;
  for (int i = 0; i < kernel->stmts.count; i++) {
    mention_findings(f, kernel->stmts.at[i]);
    pass_queue_add(&f->waiting, pass_uses_row(f->uses, kernel->stmts.at[i]->target));
  }
}

static void wait(pass_fusion *f, int row) {
  const pass_use *use = &f->uses->list.at[row];
  if (!use->gone && use->tensor->def != NULL) pass_queue_add(&f->waiting, row);
}

static void wait_for_read(pass_fusion *f, const ir_stmt *stmt) {
  const pass_use *use = pass_use_of(f->uses, stmt->target);
  for (int i = 0; i < use->reads.count; i++) wait(f, use->reads.at[i]);
}

/* It, and what it reads, may be mergeable now. */
static void changed(pass_fusion *f, const ir_stmt *stmt) {
  wait_for_read(f, stmt);
  pass_uses_refresh(f->uses, stmt);
  wait_for_read(f, stmt);
  wait(f, pass_uses_row(f->uses, stmt->target));
}

static ir_expr *without_terms_of(ir_arena *arena, ir_expr *condition, const ir_tensor *tensor) {
  pass_terms terms = {0};
  ir_expr *kept = NULL;
  pass_terms_of(arena, condition, &terms);
  for (int i = 0; i < terms.list.count; i++)
    if (!ir_expr_uses_tensor(terms.list.at[i], tensor))
      kept = pass_and(arena, kept, terms.list.at[i]);
  return kept;
}

/* A tensor that is not in memory any more cannot say where to compute. */
static void forget(pass_fusion *f, const ir_tensor *tensor) {
  const pass_mentions *m = &f->mentioned.at[pass_uses_row(f->uses, tensor)];
  for (int i = 0; i < m->rows.count; i++) {
    ir_stmt *stmt = pass_stmt_at(f->uses, m->rows.at[i]);
    if (f->uses->list.at[m->rows.at[i]].gone) continue;
    stmt->sample = without_terms_of(f->c->arena, stmt->sample, tensor);
    stmt->support = without_terms_of(f->c->arena, stmt->support, tensor);
    changed(f, stmt);
  }
}

static void drop(pass_fusion *f, const ir_stmt *stmt) {
  pass_uses_drop(f->uses, stmt);
  wait_for_read(f, stmt);
  forget(f, stmt->target);
}

/* ---- inlining -------------------------------------------------------------------------------- */
/* What was known about the producer's zeros is known of a reader that keeps them. */
static void inherit_zeros(ir_tensor *into, const ir_tensor *from, const ir_expr *value) {
  if (into->pattern.zeros != IR_ZEROS_UNKNOWN && into->pattern.density_low >= 0) return;
  if (from->pattern.zeros == IR_ZEROS_UNKNOWN || !pass_makes_zeros(value)) return;
  int axis = into->pattern.axis;
  into->pattern = from->pattern;
  into->pattern.axis = axis;
}

static void widen_acc(ir_stmt *into, const ir_stmt *from) {
  if (!pass_is_elementwise(from->value)) into->acc = from->acc;
}

void pass_fuse_inline(pass_fusion *f, const pass_pair *p) {
  pass_context *c = f->c;
  ir_expr *value = p->into->value;
  inherit_zeros(p->into->target, p->from->target, value);
  widen_acc(p->into, p->from);
  for (ir_expr *use = p->use; use != NULL; use = pass_find_access(value, p->from->target))
    value = pass_replace_node(c->arena, value, use, value_at(c, f->kernel, p, use));
  p->into->value = pass_canon_fold(c, value);
  p->into->stores = pass_stores_inline(c->arena, f->kernel, p->into->stores, p->from);
  changed(f, p->into);
  drop(f, p->from);
}

/* ---- absorbing factors ----------------------------------------------------------------------- */
static void collect_factors(ir_arena *arena, ir_expr *e, pass_terms *factors) {
  if (e->kind == IR_OP && e->op == IR_OP_MUL) {
    collect_factors(arena, e->args[0], factors);
    collect_factors(arena, e->args[1], factors);
  } else {
    IR_PUSH(arena, &factors->list, e);
  }
}

static const ir_expr *without_casts(const ir_expr *e) {
  return e->kind == IR_CAST ? without_casts(e->args[0]) : e;
}

void pass_partners(ir_arena *arena, const pass_pair *p, pass_terms *partners, pass_terms *others) {
  pass_terms factors = {0};
  pass_indices own = {0};
  bool found = false;
  collect_factors(arena, pass_reduction_of(p->into)->args[0], &factors);
  pass_indices_of(arena, p->use, &own);
  for (int i = 0; i < factors.list.count; i++) {
    ir_expr *e = factors.list.at[i];
    pass_indices used = {0};
    if (without_casts(e) == p->use) {
      found = true;
      continue;
    }
    bool inside = pass_is_elementwise(e);
    pass_indices_of(arena, e, &used);
    for (int j = 0; j < used.list.count; j++) inside &= pass_indices_has(&own, used.list.at[j]);
    if (inside && used.list.count > 0)
      IR_PUSH(arena, &partners->list, e);
    else
      IR_PUSH(arena, &others->list, e);
  }
  if (!found) partners->list.count = 0;
}

static ir_expr *product(ir_arena *arena, ir_expr *first, const pass_terms *factors) {
  for (int i = 0; i < factors->list.count; i++) {
    ir_expr *args[2] = {first != NULL ? first : factors->list.at[i], factors->list.at[i]};
    if (first == NULL) {
      first = args[0];
      continue;
    }
    ir_dtype t = ir_dtype_join(args[0]->dtype, args[1]->dtype);
    first = ir_apply(arena, IR_OP_MUL, pass_as_dtype(arena, t, args[0]),
                     pass_as_dtype(arena, t, args[1]));
  }
  return first;
}

static const char *temporary_name(ir_kernel *kernel, const ir_tensor *of) {
  const char *name = NULL;
  for (int n = 0; name == NULL || ir_tensor_named(kernel, name) != NULL; n++)
    name = ir_format_text(kernel->program->arena, "%s.%d", of->name, n);
  return ir_fresh_name(kernel, name);
}

/* A tensor indexed like the use, with the indices that the reader gives it. */
static ir_stmt *product_stmt(pass_context *c, ir_kernel *kernel, const pass_pair *p,
                             const pass_terms *partners) {
  ir_dtype t = p->from->target->dtype;
  for (int i = 0; i < partners->list.count; i++) t = ir_dtype_join(t, partners->list.at[i]->dtype);
  ir_tensor *tensor =
      ir_tensor_new(kernel, temporary_name(kernel, p->into->target), IR_ROLE_TEMP, t);
  tensor->span = p->from->target->span;
  tensor->rank = p->use->arg_count;
  ir_stmt *stmt = ir_stmt_new(kernel, tensor);
  for (int d = 0; d < tensor->rank; d++) {
    tensor->dim[d] = p->from->target->dim[d];
    stmt->subs[d] = p->use->args[d];
    IR_PUSH(c->arena, &stmt->free, p->use->args[d]->index);
  }
  stmt->acc = p->from->acc;
  stmt->span = p->from->span;
  stmt->cond = pass_at_access(c->arena, p->from, p->from->cond, p->use);
  return stmt;
}

ir_stmt *pass_fuse_absorb(pass_fusion *f, const pass_pair *p) {
  pass_context *c = f->c;
  ir_arena *arena = c->arena;
  ir_kernel *kernel = f->kernel;
  pass_terms partners = {0}, others = {0};
  ir_expr *reduce = pass_reduction_of(p->into);
  pass_partners(arena, p, &partners, &others);
  ir_stmt *stmt = product_stmt(c, kernel, p, &partners);
  const pass_pair inner = {p->from, stmt, p->use};
  ir_expr *factors = product(arena, NULL, &partners);
  pass_terms last = {0};
  IR_PUSH(arena, &last.list, value_at(c, kernel, &inner, p->use));
  stmt->value = product(arena, factors, &last);
  stmt->support = pass_and(arena, pass_support_of(c, stmt, factors),
                           pass_at_access(arena, p->from, p->from->support, p->use));
  stmt->sample =
      pass_and(arena, pass_at_access(arena, p->from, p->from->sample, p->use), stmt->support);
  for (int i = 0; i < partners.list.count; i++) {
    ir_expr *access = partners.list.at[i];
    while (access->kind == IR_CAST) access = access->args[0];
    if (access->kind == IR_ACCESS) inherit_zeros(stmt->target, access->tensor, stmt->value);
  }
  ir_expr *body = product(arena, ir_access(arena, stmt->target, stmt->subs), &others);
  ir_expr *sum = ir_reduce(arena, reduce->reducer, reduce->bound, reduce->bound_count, body);
  p->into->value = pass_replace_node(arena, p->into->value, reduce, sum);
  p->into->stores = pass_stores_inline(arena, f->kernel, p->into->stores, p->from);
  pass_uses_insert(f->uses, stmt, p->into);
  mention_findings(f, stmt);
  changed(f, stmt);
  changed(f, p->into);
  drop(f, p->from);
  return stmt;
}
