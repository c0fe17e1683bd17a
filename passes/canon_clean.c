/* canon_clean.c - one statement for one meaning, none for what nobody reads.
 *
 *     h.0[t] = max[j] p[t,j]     h.1[t] = max[j] p[t,j]      readers of h.1 read h.0
 * Only lets and temporaries are merged or dropped; an output stays whatever it is. */
#include "passes/canon.h"

static bool is_internal(const ir_tensor *tensor) {
  return tensor->role == IR_ROLE_LET || tensor->role == IR_ROLE_TEMP;
}

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

static void redirect_readers(ir_kernel *kernel, redirect *r) {
  for (int i = 0; i < kernel->stmts.count; i++) {
    ir_stmt *stmt = kernel->stmts.at[i];
    stmt->value = pass_rewrite(r->arena, stmt->value, redirect_node, r);
    stmt->cond = pass_rewrite(r->arena, stmt->cond, redirect_node, r);
    for (int d = 0; d < stmt->target->rank; d++)
      stmt->subs[d] = pass_rewrite(r->arena, stmt->subs[d], redirect_node, r);
  }
}

static void merge_equal(pass_context *c, ir_kernel *kernel) {
  for (int i = 0; i < kernel->stmts.count; i++)
    for (int j = 0; j < i; j++) {
      ir_tensor *later = kernel->stmts.at[i]->target, *first = kernel->stmts.at[j]->target;
      if (later->role == IR_ROLE_LET && kernel->schedule != NULL)
        continue; /* it may be named there */
      if (!is_internal(later) || !is_internal(first) || pass_is_structural(kernel, later)) continue;
      if (!same_definition(kernel->stmts.at[i], kernel->stmts.at[j])) continue;
      redirect r = {c->arena, later, first};
      redirect_readers(kernel, &r);
      break;
    }
}

/* ---- what nobody reads ----------------------------------------------------------------------- */
static bool is_read(const ir_kernel *kernel, const ir_tensor *tensor) {
  for (int i = 0; i < kernel->stmts.count; i++)
    if (pass_stmt_reads(kernel->stmts.at[i], tensor)) return true;
  return pass_is_structural(kernel, tensor);
}

static void drop_tensor(ir_kernel *kernel, const ir_tensor *tensor) {
  int kept = 0;
  for (int i = 0; i < kernel->tensors.count; i++)
    if (kernel->tensors.at[i] != tensor) kernel->tensors.at[kept++] = kernel->tensors.at[i];
  kernel->tensors.count = kept;
  kept = 0;
  for (int i = 0; i < kernel->needs.count; i++)
    if (kernel->needs.at[i].tensor != tensor) kernel->needs.at[kept++] = kernel->needs.at[i];
  kernel->needs.count = kept;
}

static bool has_output(const ir_kernel *kernel) {
  for (int i = 0; i < kernel->tensors.count; i++)
    if (kernel->tensors.at[i]->role == IR_ROLE_OUT) return true;
  return false;
}

/* Readers stand behind what they read, so that one walk backwards finds every dead chain. */
void pass_drop_unread(ir_kernel *kernel) {
  if (!has_output(kernel)) return;
  for (int i = kernel->stmts.count - 1; i >= 0; i--) {
    ir_tensor *tensor = kernel->stmts.at[i]->target;
    if (!is_internal(tensor) || is_read(kernel, tensor)) continue;
    for (int j = i + 1; j < kernel->stmts.count; j++) kernel->stmts.at[j - 1] = kernel->stmts.at[j];
    kernel->stmts.count--;
    drop_tensor(kernel, tensor);
  }
}

void pass_canon_clean(pass_context *c, ir_kernel *kernel) {
  merge_equal(c, kernel);
  pass_drop_unread(kernel);
}
