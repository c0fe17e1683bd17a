/* permute.c - pass `permute` (30): which indices of a statement may be visited in any order.
 *
 * needs:  canonical statements
 * keeps:  everything; fills stmt->axes
 * breaks: nothing
 *
 *     out y[t,o] = sum[f] h[t,f]*W2[f,o]       axes  t free, o free, f free (sum)
 *     out z[i]   = sum[q] x[i+q]*w[q]          axes  i no, q no: x[i + q] is a window (L1)
 *
 * An axis that is permutation invariant can be gathered by an index list (PIT, SOSP'23): reordering
 * a reduction changes nothing, reordering a free index is undone when results go back to their
 * places. The rules: L1  the index stands alone in every subscript it occurs in (or is the only
 * index there); L2  nothing is carried along it: additions of an ordered scatter are, ties that the
 * first wins are; L3  a reduction along it combines commutatively and associatively (traits of the
 * op table); L4  values computed from the index (j <= i) use the original index, never its place in
 * the list; L5  operands can be gathered at the chosen granularity: pass `microtile` checks it per
 * micro-tile. A `compact` directive on an axis that is not invariant is an error that names the
 * statement. */
#include "passes/expr.h"
#include "passes/pass.h"
#include "passes/permute.h"

typedef struct question {
  ir_arena *arena;
  const ir_stmt *stmt;
  const ir_index *index;
  const char *window; /* the subscript that breaks L1 */
  const char *first;  /* what breaks ties by position */
  ir_reducer reducer; /* that binds the index, or IR_RED_COUNT */
  bool as_value;      /* used outside subscripts */
  bool computed;      /* in a subscript computed from this index alone */
} question;

static const char *text_of(ir_arena *arena, const ir_expr *e) {
  ir_text text = ir_text_new(arena);
  ir_print_expr(e, &text);
  return text.data;
}

/* ---- uses ------------------------------------------------------------------------------------ */
/* Indices that a subscript uses outside the gathers in it. */
static void indices_of_sub(ir_arena *arena, ir_expr *sub, pass_indices *set) {
  if (sub->kind == IR_ACCESS) return;
  if (sub->kind == IR_INDEX) pass_indices_add(arena, set, sub->index);
  for (int i = 0; i < sub->arg_count; i++) indices_of_sub(arena, sub->args[i], set);
}

static void look_at(question *q, ir_expr *e);

static void look_at_gathers(question *q, ir_expr *sub) {
  if (sub->kind == IR_ACCESS) {
    look_at(q, sub);
    return;
  }
  for (int i = 0; i < sub->arg_count; i++) look_at_gathers(q, sub->args[i]);
}

static void look_at_sub(question *q, const ir_expr *access, ir_expr *sub) {
  pass_indices used = {0};
  look_at_gathers(q, sub);
  if (ir_is_bare(sub, q->index)) return;
  indices_of_sub(q->arena, sub, &used);
  if (!pass_indices_has(&used, q->index)) return;
  if (used.list.count > 1)
    q->window = text_of(q->arena, access);
  else
    q->computed = true;
}

static void look_at_binder(question *q, const ir_expr *e) {
  for (int i = 0; i < e->bound_count; i++) {
    if (e->bound[i] != q->index) continue;
    if (e->kind == IR_REDUCE) q->reducer = e->reducer;
    if (e->kind == IR_TOPK) q->first = "topk";
    if (e->kind == IR_REDUCE && e->reducer == IR_RED_ARGMAX) q->first = "argmax";
  }
}

static void look_at(question *q, ir_expr *e) {
  if (e == NULL) return;
  look_at_binder(q, e);
  if (e->kind == IR_INDEX && e->index == q->index) q->as_value = true;
  for (int i = 0; i < e->arg_count; i++)
    if (e->kind == IR_ACCESS)
      look_at_sub(q, e, e->args[i]);
    else
      look_at(q, e->args[i]);
}

/* ---- rules ----------------------------------------------------------------------------------- */
static bool is_free_index(const ir_stmt *stmt, const ir_index *index) {
  for (int i = 0; i < stmt->free.count; i++)
    if (stmt->free.at[i] == index) return true;
  return false;
}

static bool has_trait(ir_op op, unsigned trait) { return (ir_op_rows[op].traits & trait) == trait; }

/* Two iterations of the index may write the same element, and the order of writing shows. */
static bool is_ordered_scatter(const ir_stmt *stmt, const ir_index *index) {
  if (!ir_is_scatter(stmt) || stmt->race == IR_RACE_ATOMIC || !is_free_index(stmt, index))
    return false;
  for (int d = 0; d < stmt->target->rank; d++)
    if (ir_is_bare(stmt->subs[d], index)) return false;
  bool rounds = ir_dtype_is_float(stmt->target->dtype) &&
                !has_trait(ir_reducer_rows[stmt->combine].combine, IR_IDEMPOTENT);
  return rounds;
}

static const char *why_invariant(question *q) {
  const char *what = "spatial: results go back to their own places";
  if (q->index->offsets != NULL) what = "ragged: free within its segment";
  if (q->reducer != IR_RED_COUNT)
    what = ir_format_text(q->arena, "%s commutes and associates (L3)",
                          ir_reducer_rows[q->reducer].text);
  if (!q->as_value && !q->computed) return what;
  return ir_format_text(q->arena, "%s; what depends on the index uses the original one (L4)", what);
}

static ir_axis judge(question *q, bool reduction) {
  ir_axis axis = {.index = (ir_index *)(uintptr_t)q->index, .reduction = reduction};
  ir_op combine = q->reducer == IR_RED_COUNT ? IR_OP_COUNT : ir_reducer_rows[q->reducer].combine;
  if (q->window != NULL)
    axis.why =
        ir_format_text(q->arena, "%s is a window: its subscript mixes indices (L1)", q->window);
  else if (is_ordered_scatter(q->stmt, q->index))
    axis.why = "order(fixed): additions to one element are made in ascending order (L2)";
  else if (q->first != NULL)
    axis.why = ir_format_text(q->arena, "%s takes the first of equal values (L2)", q->first);
  else if (combine != IR_OP_COUNT && !has_trait(combine, IR_COMMUTES | IR_ASSOCIATES))
    axis.why = ir_format_text(q->arena, "%s does not commute and associate (L3)",
                              ir_reducer_rows[q->reducer].text);
  else
    axis.invariant = true;
  if (axis.invariant) axis.why = why_invariant(q);
  return axis;
}

static ir_axis axis_of(ir_arena *arena, ir_stmt *stmt, const ir_index *index) {
  question q = {.arena = arena, .stmt = stmt, .index = index, .reducer = IR_RED_COUNT};
  look_at(&q, stmt->value);
  look_at(&q, stmt->cond);
  look_at(&q, stmt->sample);
  for (int d = 0; d < stmt->target->rank; d++) look_at_gathers(&q, stmt->subs[d]);
  return judge(&q, !is_free_index(stmt, index));
}

void pass_find_axes(ir_arena *arena, ir_stmt *stmt) {
  pass_indices bound = {0};
  stmt->axes.count = 0;
  for (int i = 0; i < stmt->free.count; i++)
    IR_PUSH(arena, &stmt->axes, axis_of(arena, stmt, stmt->free.at[i]));
  pass_indices_bound(arena, stmt->value, &bound);
  for (int i = 0; i < bound.list.count; i++)
    if (!is_free_index(stmt, bound.list.at[i]))
      IR_PUSH(arena, &stmt->axes, axis_of(arena, stmt, bound.list.at[i]));
}

/* ---- compact directives ---------------------------------------------------------------------- */
static const ir_axis *find_axis(const ir_stmt *stmt, const ir_index *index) {
  for (int i = 0; i < stmt->axes.count; i++)
    if (stmt->axes.at[i].index == index) return &stmt->axes.at[i];
  return NULL;
}

static void refuse(pass_context *c, const ir_directive *d, const ir_stmt *stmt, const char *why) {
  ir_diag *diag = ir_diag_add(c->sink, IR_DIAG_COMPACT_ORDER, d->span,
                              "`%s` cannot be compacted along `%s`: the statement of `%s` depends "
                              "on the order: %s",
                              d->tensor, d->name[0], stmt->target->name, why);
  ir_diag_note(c->sink, diag, stmt->span, "this statement");
}

static int dim_named(const ir_stmt *def, const char *name) {
  for (int d = 0; d < def->target->rank; d++)
    if (def->subs[d]->kind == IR_INDEX && strcmp(def->subs[d]->index->name, name) == 0) return d;
  return -1;
}

/* Every use of the tensor's axis in the reader must be by an invariant index. */
static bool reads_in_any_order(pass_context *c, const ir_directive *d, ir_stmt *reader, ir_expr *e,
                               const ir_tensor *tensor, int dim) {
  if (e == NULL) return true;
  if (e->kind == IR_ACCESS && e->tensor == tensor) {
    pass_indices used = {0};
    pass_indices_of(c->arena, e->args[dim], &used);
    for (int i = 0; i < used.list.count; i++) {
      const ir_axis *axis = find_axis(reader, used.list.at[i]);
      if (axis == NULL || axis->invariant) continue;
      refuse(c, d, reader, axis->why);
      return false;
    }
  }
  for (int i = 0; i < e->arg_count; i++)
    if (!reads_in_any_order(c, d, reader, e->args[i], tensor, dim)) return false;
  return true;
}

static bool check_compact(pass_context *c, ir_kernel *kernel, const ir_directive *d) {
  ir_tensor *tensor = ir_tensor_named(kernel, d->tensor);
  if (tensor == NULL || tensor->def == NULL || d->count < 1) return true; /* not ours to report */
  int dim = dim_named(tensor->def, d->name[0]);
  if (dim < 0) return true;
  for (int i = 0; i < kernel->stmts.count; i++)
    if (!reads_in_any_order(c, d, kernel->stmts.at[i], kernel->stmts.at[i]->value, tensor, dim))
      return false;
  return true;
}

spc_status pass_permute(pass_context *context, ir_kernel *kernel) {
  bool ok = true;
  for (int i = 0; i < kernel->stmts.count; i++) pass_find_axes(context->arena, kernel->stmts.at[i]);
  if (kernel->schedule == NULL) return SPC_OK;
  for (int i = 0; i < kernel->schedule->directives.count; i++) {
    const ir_directive *d = &kernel->schedule->directives.at[i];
    if (d->kind == IR_DO_COMPACT) ok &= check_compact(context, kernel, d);
  }
  return ok ? SPC_OK : SPC_INVALID_INPUT;
}
