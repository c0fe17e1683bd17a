/* format_result.c - sparse results that loops write level by level (CPU): in which storage they are
 * written, and what that asks of the order of loops.
 *
 * Loops append to lists: every level dense or a list, the dense ones outside, indices in the order
 * of the levels.  A result in another format (blocks, fixed widths, bitmaps) is written as lists
 * and converted; so is one whose operands all nest the other way, which costs one conversion for
 * many.  A sum that something follows which needs more than the sum's own entries is a tensor of
 * its own first.
 *
 *     out C[i,j] = A[i,j] + B[i,j] as bsr(2,2)          C_rows[i,j] = A[i,j] + B[i,j] as csr
 *                                                       C[i,j] = C_rows[i,j]
 *     out C[i,k] = D[i,k] - sum[j] A[i,j]*B[j,k]        C_sum[i,k] = sum[j] A[i,j]*B[j,k] as csr
 *                                                       C[i,k] = D[i,k] - C_sum[i,k]        */
#include "passes/contract.h"
#include "passes/storage.h"
#include "passes/stores.h"

/* ---- what the loops are asked ------------------------------------------------------------------
 */
static ir_index *index_of(const ir_stmt *stmt, const ir_format *format, int level) {
  return stmt->subs[format->level[level].dim]->index;
}

static bool binds(const ir_expr *reduce, const ir_expr *sub) {
  for (int i = 0; i < reduce->bound_count; i++)
    if (ir_expr_uses_index(sub, reduce->bound[i])) return true;
  return false;
}

/* The access walks `index` before any index of the reduction is known. */
static bool walks_early(const ir_expr *access, const ir_expr *reduce, const ir_index *index) {
  const ir_format *f = access->tensor->format;
  for (int l = 0; f && l < f->level_count; l++) {
    const ir_expr *sub = access->args[f->level[l].dim];
    if (binds(reduce, sub)) return false;
    if (ir_is_bare(sub, index) && !ir_level_rows[f->level[l].kind].full) return true;
  }
  return false;
}

typedef struct early {
  const ir_expr *reduce;
  const ir_index *index;
} early;

/* Outside what some access walks early the value is 0. */
static bool bounds_early(const early *q, const ir_expr *e) {
  double value;
  if (ir_const_value(e, &value)) return value == 0;
  if (e->kind == IR_ACCESS) return walks_early(e, q->reduce, q->index);
  if (e->kind == IR_CAST || e->kind == IR_REDUCE || e->kind == IR_STORED)
    return bounds_early(q, e->args[0]);
  if (e->kind != IR_OP) return false;
  bool left = bounds_early(q, e->args[0]), right = e->arg_count > 1 && bounds_early(q, e->args[1]);
  if (e->op == IR_OP_WHERE) return (left || right) && bounds_early(q, e->args[2]);
  switch (ir_op_rule(e->op)) {
  case IR_RULE_KEEP:
  case IR_RULE_LEFT: return left;
  case IR_RULE_RIGHT: return right;
  case IR_RULE_UNION: return left && right;
  case IR_RULE_INTERSECT: return left || right;
  case IR_RULE_DENSE: break;
  }
  return false;
}

/* The reduction goes outside the last index: nothing else says which of its places are stored. */
static bool goes_outside(ir_arena *arena, const ir_stmt *stmt, const ir_format *format,
                         const ir_expr *reduce) {
  const ir_expr *stores = ir_stores_of_stmt(arena, stmt);
  early q = {reduce, index_of(stmt, format, format->level_count - 1)};
  return !stores || !bounds_early(&q, stores);
}

static void ask(pass_order *order, const ir_index *first, const ir_index *second) {
  if (first != second) IR_PUSH(order->arena, &order->edges, ((pass_before){first, second}));
}

static void ask_for_bound(pass_order *order, const ir_expr *e, const ir_index *first) {
  for (int i = 0; e->kind == IR_REDUCE && i < e->bound_count; i++) ask(order, first, e->bound[i]);
  for (int i = 0; i < e->arg_count; i++) ask_for_bound(order, e->args[i], first);
}

void pass_order_result(pass_order *order, const ir_stmt *stmt) {
  const ir_format *format = stmt->target->format;
  int last = format->level_count - 1;
  for (int l = 0; l < last; l++) {
    for (int k = l + 1; k <= last; k++)
      ask(order, index_of(stmt, format, l), index_of(stmt, format, k));
    ask_for_bound(order, stmt->value, index_of(stmt, format, l));
  }
  pass_row_sum row;
  if (!pass_row_sum_of(order->arena, stmt, &row)) return;
  if (!goes_outside(order->arena, stmt, format, row.reduce)) return;
  for (int i = 0; i < row.reduce->bound_count; i++)
    ask(order, row.reduce->bound[i], index_of(stmt, format, last));
}

/* ---- sums that something follows --------------------------------------------------------------
 */
static ir_tensor *temporary(ir_kernel *kernel, const ir_tensor *target, const char *suffix,
                            const ir_format *format, const char *why) {
  ir_arena *arena = kernel->program->arena;
  const char *stem = ir_format_text(arena, "%s_%s", target->name, suffix);
  ir_tensor *t = ir_tensor_new(kernel, ir_fresh_name(kernel, stem), IR_ROLE_TEMP, target->dtype);
  t->rank = target->rank;
  memcpy(t->dim, target->dim, sizeof t->dim);
  t->format = format;
  t->format_why = why;
  t->pattern = target->pattern;
  t->span = target->span;
  return t;
}

static ir_dtype sum_dtype(const ir_stmt *stmt, ir_dtype t) {
  bool alike = ir_dtype_is_float(stmt->acc) == ir_dtype_is_float(t);
  return alike && ir_dtype_rows[stmt->acc].bits > ir_dtype_rows[t].bits ? stmt->acc : t;
}

static ir_stmt *sum_before(ir_kernel *kernel, const ir_stmt *stmt, ir_tensor *sums,
                           ir_expr *reduce) {
  ir_arena *arena = kernel->program->arena;
  ir_stmt *first = ir_stmt_new(kernel, sums);
  memcpy(first->subs, stmt->subs, sizeof first->subs);
  for (int i = 0; i < stmt->free.count; i++) IR_PUSH(arena, &first->free, stmt->free.at[i]);
  first->combine = IR_RED_COUNT;
  first->acc = stmt->acc;
  first->value = reduce;
  first->stores = ir_stores_of(arena, reduce);
  first->span = stmt->span;
  sums->def = first;
  return first;
}

/* Returns whether a statement was put in front. */
static bool split_sum(ir_kernel *kernel, int at, const ir_format *lists) {
  ir_stmt *stmt = kernel->stmts.at[at];
  ir_arena *arena = kernel->program->arena;
  ir_expr *reduce = pass_reduction_of(stmt);
  pass_row_sum row;
  if (!reduce || pass_row_sum_of(arena, stmt, &row) || !goes_outside(arena, stmt, lists, reduce))
    return false;
  ir_stmt probe = *stmt;
  probe.value = reduce;
  probe.cond = probe.stores = NULL;
  if (!pass_row_sum_of(arena, &probe, &row)) return false;
  ir_tensor *sums =
      temporary(kernel, stmt->target, "sum", lists, "a sum that more than its entries follow");
  sums->dtype = sum_dtype(stmt, reduce->dtype);
  ir_stmt *first = sum_before(kernel, stmt, sums, reduce);
  ir_expr *total = ir_access(arena, sums, stmt->subs);
  ir_expr *stores =
      pass_stores_replace_sum(arena, ir_stores_of_stmt(arena, stmt), reduce, pass_stores_at(arena, total));
  if (stores) stmt->stores = stores;
  stmt->value = pass_replace_node(arena, stmt->value, reduce, ir_cast(arena, reduce->dtype, total));
  pass_format_insert(arena, kernel, at, first);
  return true;
}

/* ---- other storage ----------------------------------------------------------------------------
 */
/* The dimensions of a format as lists, in the same order: rows dense where they were. */
static const ir_format *as_lists(pass_context *context, const ir_format *format) {
  ir_format *lists = IR_NEW(context->arena, ir_format);
  *lists = (ir_format){.name = "lists", .rank = format->rank};
  for (int l = 0; l < format->level_count; l++) {
    if (format->level[l].map == IR_MAP_MOD) continue;
    bool dense =
        format->rank > 1 && lists->level_count == 0 && format->level[l].kind == IR_LEVEL_DENSE;
    lists->level[lists->level_count++] = (ir_level){
        .kind = dense ? IR_LEVEL_DENSE : IR_LEVEL_COMPRESSED, .dim = format->level[l].dim};
  }
  ir_format_settle(lists);
  static const char *const named[] = {"csr", "csc", "dcsr", "csf"};
  for (int i = 0; i < IR_COUNT(named); i++) {
    const char *why;
    const ir_format *known =
        ir_format_builtin(context->arena, named[i], format->rank, NULL, 0, &why);
    if (known && ir_format_equal(known, lists)) return known;
  }
  return lists;
}

typedef struct accesses {
  ir_arena *arena;
  IR_VEC(ir_expr *) list;
} accesses;

static bool collect(void *user, ir_expr *node) {
  accesses *found = user;
  if (node->kind != IR_ACCESS || !pass_tensor_is_sparse(node->tensor)) return true;
  for (int i = 0; i < found->list.count; i++)
    if (ir_expr_equal(found->list.at[i], node)) return true;
  IR_PUSH(found->arena, &found->list, node);
  return true;
}

/* Several operands nest in one order, which is not the result's: that order, else NULL. */
static const ir_format *order_of_operands(pass_context *context, ir_stmt *stmt,
                                          const ir_format *lists) {
  accesses found = {.arena = context->arena};
  pass_order operands = {.arena = context->arena}, all = {.arena = context->arena};
  ir_stmt probe = *stmt;
  ir_tensor target = *stmt->target;
  int against = 0;
  target.format = lists;
  probe.target = &target;
  pass_order_result(&all, &probe);
  ir_expr_walk(stmt->value, collect, &found);
  if (stmt->cond) ir_expr_walk(stmt->cond, collect, &found);
  if (stmt->stores) ir_expr_walk(stmt->stores, collect, &found);
  for (int i = 0; i < found.list.count; i++) {
    if (!pass_order_add(&operands, found.list.at[i])) return NULL;
    pass_order one = {.arena = context->arena};
    for (int e = 0; e < all.edges.count; e++) IR_PUSH(context->arena, &one.edges, all.edges.at[e]);
    against += !pass_order_add(&one, found.list.at[i]);
  }
  if (against < 2 || !pass_is_elementwise(stmt->value)) return NULL;
  return pass_order_format(&operands, ir_access(context->arena, &target, stmt->subs));
}

/* topk and softmax need their rows together: the index along them last. */
static const ir_expr *row_op(const ir_expr *e) {
  if (e->kind == IR_TOPK || e->kind == IR_SOFTMAX) return e;
  const ir_expr *found = NULL;
  for (int i = 0; !found && i < e->arg_count; i++) found = row_op(e->args[i]);
  return found;
}

/* A segment is outside of its rows, as its loop is. */
static bool ask_for_segments(pass_order *order, const ir_stmt *stmt, const ir_format *lists) {
  bool against = false;
  for (int l = 0; l < lists->level_count; l++)
    for (int k = 0; k < lists->level_count; k++) {
      if (index_of(stmt, lists, l)->segment != index_of(stmt, lists, k)) continue;
      ask(order, index_of(stmt, lists, k), index_of(stmt, lists, l));
      against |= k > l;
    }
  return against;
}

static const ir_format *along_rows(pass_context *context, ir_stmt *stmt, const ir_format *lists) {
  const ir_expr *e = row_op(stmt->value);
  int last = lists->level_count - 1;
  pass_order order = {.arena = context->arena};
  bool against = ask_for_segments(&order, stmt, lists);
  bool rows = e && index_of(stmt, lists, last) != e->bound[0];
  for (int l = 0; rows && l <= last; l++) ask(&order, index_of(stmt, lists, l), e->bound[0]);
  if (!against && !rows) return NULL;
  ir_tensor target = *stmt->target;
  target.format = lists;
  return pass_order_format(&order, ir_access(context->arena, &target, stmt->subs));
}

ir_tensor *pass_format_write_as(pass_context *context, ir_kernel *kernel, int at, const char *suffix, const ir_format *format, const char *why) {
  ir_stmt *stmt = kernel->stmts.at[at];
  ir_tensor *target = stmt->target, *written = temporary(kernel, target, suffix, format, why);
  stmt->target = written;
  written->def = stmt;
  pass_format_insert(kernel->program->arena, kernel, at + 1, pass_format_copy(context, kernel, written, target));
  return written;
}

/* ---- the whole --------------------------------------------------------------------------------
 */
static void settle(pass_context *context, ir_kernel *kernel, int at) {
  ir_stmt *stmt = kernel->stmts.at[at];
  const ir_format *format = stmt->target->format;
  bool appends = pass_format_appends(format);
  const ir_format *lists = appends ? format : as_lists(context, format);
  if (split_sum(kernel, at, lists)) at++;
  const ir_format *turned = along_rows(context, stmt, lists);
  if (turned) {
    pass_format_write_as(context, kernel, at, "rows", turned, "written row by row, segment by segment, then converted");
    return;
  }
  turned = order_of_operands(context, stmt, lists);
  if (turned)
    pass_format_write_as(context, kernel, at, "rows", turned,
                         "written in the order of its operands, then converted: one copy for several");
  else if (!appends)
    pass_format_write_as(context, kernel, at, "rows", lists, "written as lists, then converted");
}

void pass_format_results(pass_context *context, ir_kernel *kernel) {
  for (int s = 0; s < kernel->stmts.count; s++) {
    const ir_stmt *stmt = kernel->stmts.at[s];
    if (!pass_stmt_by_levels(context, stmt) || pass_stmt_converts(stmt)) continue;
    settle(context, kernel, s);
    while (kernel->stmts.at[s] != stmt) s++;
  }
}
