/* canon_clean.c - one statement for one meaning, none for what nobody reads.
 *
 *     h.0[t] = max[j] p[t,j]     h.1[t] = max[j] p[t,j]      readers of h.1 read h.0
 * Only lets and temporaries are merged or dropped; an output stays whatever it is. */
#include "passes/canon.h"
#include "passes/uses.h"

/* ---- equal definitions ----------------------------------------------------------------------- */
static bool same_pattern(const ir_pattern *a, const ir_pattern *b) {
  return a->zeros == b->zeros && a->axis == b->axis && a->density_low == b->density_low &&
         a->density_high == b->density_high && a->gran_rows == b->gran_rows &&
         a->gran_cols == b->gran_cols;
}

static bool same_storage(const ir_tensor *a, const ir_tensor *b) {
  return a->dtype == b->dtype && a->rank == b->rank && a->format == b->format &&
         a->like == b->like && same_pattern(&a->pattern, &b->pattern);
}

static bool same_definition(const ir_stmt *a, const ir_stmt *b) {
  if (!same_storage(a->target, b->target) || a->combine != b->combine || a->race != b->race)
    return false;
  if (a->acc != b->acc || a->fill != b->fill || a->free.count != b->free.count) return false;
  for (int d = 0; d < a->target->rank; d++)
    if (!ir_expr_equal(a->subs[d], b->subs[d])) return false;
  for (int i = 0; i < a->free.count; i++)
    if (a->free.at[i] != b->free.at[i]) return false;
  return ir_expr_equal(a->value, b->value) && ir_expr_equal(a->cond, b->cond);
}

typedef struct redirect {
  ir_arena *arena;
  ir_tensor *from, *to;
} redirect;

static ir_expr *redirect_node(void *user, ir_expr *e) {
  redirect *r = user;
  return e->kind == IR_ACCESS && e->tensor == r->from ? ir_access(r->arena, r->to, e->args) : e;
}

static void redirect_readers(pass_uses *uses, redirect *r) {
  int count;
  const int *rows = pass_readers_of(uses, r->from, &count);
  for (int i = 0; i < count; i++) {
    ir_stmt *stmt = pass_stmt_at(uses, rows[i]);
    stmt->value = pass_rewrite(r->arena, stmt->value, redirect_node, r);
    stmt->cond = pass_rewrite(r->arena, stmt->cond, redirect_node, r);
    stmt->stores = pass_rewrite(r->arena, stmt->stores, redirect_node, r);
    for (int d = 0; d < stmt->target->rank; d++)
      stmt->subs[d] = pass_rewrite(r->arena, stmt->subs[d], redirect_node, r);
  }
}

/* Statements before the one at hand, by what equal ones have in common. */
typedef struct earlier {
  int *first, *next; /* the last statement with a hash, and the one before it; -1: none */
  int mask;
} earlier;

static earlier earlier_new(ir_arena *arena, int count) {
  earlier e = {.mask = 1};
  while (e.mask < 2 * count) e.mask *= 2;
  e.first = IR_NEW_ARRAY(arena, int, e.mask);
  e.next = IR_NEW_ARRAY(arena, int, count + 1);
  memset(e.first, 0xff, sizeof *e.first * (size_t)e.mask--);
  return e;
}

/* The first statement before i that defines the same.  Where there is none, i is remembered. */
static ir_stmt *same_before(earlier *e, const ir_kernel *kernel, int i) {
  const ir_stmt *stmt = kernel->stmts.at[i];
  uint64_t hash = ir_expr_hash(stmt->value) + ir_expr_hash(stmt->cond) * 3;
  int *bucket = &e->first[(int)(hash & (uint64_t)e->mask)];
  for (int j = *bucket; j >= 0; j = e->next[j])
    if (same_definition(stmt, kernel->stmts.at[j])) return kernel->stmts.at[j];
  e->next[i] = *bucket;
  *bucket = i;
  return NULL;
}

static void merge_equal(pass_context *c, ir_kernel *kernel, pass_uses *uses) {
  earlier before = earlier_new(c->arena, kernel->stmts.count);
  for (int i = 0; i < kernel->stmts.count; i++) {
    ir_tensor *later = kernel->stmts.at[i]->target;
    const ir_stmt *same = ir_tensor_is_inner(later) ? same_before(&before, kernel, i) : NULL;
    if (!same || pass_use_of(uses, later)->structural) continue;
    if (later->role == IR_ROLE_LET && kernel->schedule != NULL)
      continue; /* it may be named there */
    redirect r = {c->arena, later, same->target};
    if (!same->target->def->stores) same->target->def->stores = later->def->stores;
    redirect_readers(uses, &r);
  }
}

/* ---- what nobody reads ----------------------------------------------------------------------- */
static bool has_output(const ir_kernel *kernel) {
  for (int i = 0; i < kernel->tensors.count; i++)
    if (kernel->tensors.at[i]->role == IR_ROLE_OUT) return true;
  return false;
}

/* Readers stand behind what they read, so that one walk backwards finds every dead chain. */
static void drop_unread(pass_context *c, ir_kernel *kernel) {
  if (!has_output(kernel)) return;
  pass_uses *uses = pass_uses_new(c->arena, kernel);
  for (int i = kernel->stmts.count - 1; i >= 0; i--) {
    const pass_use *use = pass_use_of(uses, kernel->stmts.at[i]->target);
    if (ir_tensor_is_inner(use->tensor) && !use->readers && !use->structural)
      pass_uses_drop(uses, kernel->stmts.at[i]);
  }
  pass_uses_settle(uses);
}

void pass_canon_clean(pass_context *c, ir_kernel *kernel) {
  merge_equal(c, kernel, pass_uses_new(c->arena, kernel));
  drop_unread(c, kernel);
}
