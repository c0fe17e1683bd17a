/* format_order.c - loop orders that sparse levels ask for, and the copies that settle
 * contradictions.
 *
 * A level that leaves coordinates out can be walked only after the levels above it are known: csr
 * A[i,j] asks for i outside j, csr A[j,i] for the opposite.  One statement has one order of loops,
 * so every operand but one of such a pair is read from a copy whose levels nest the other way.  The
 * largest operand keeps its storage.  A sparse result that is written level by level asks first:
 * what it holds is as much as all that is copied for it, or more.  One that takes tuples asks for
 * nothing.
 */
#include <assert.h>

#include "passes/cost.h"
#include "passes/storage.h"

/* ---- the graph of orders --------------------------------------------------------------------- */
static const ir_index *bare_index(const ir_expr *sub) {
  return sub->kind == IR_INDEX ? sub->index : NULL;
}

static bool reaches(const pass_order *order, const ir_index *from, const ir_index *to, int depth) {
  if (from == to) return true;
  for (int i = 0; depth > 0 && i < order->edges.count; i++)
    if (order->edges.at[i].first == from &&
        reaches(order, order->edges.at[i].second, to, depth - 1))
      return true;
  return false;
}

static bool comes_before(const pass_order *order, const ir_index *a, const ir_index *b) {
  return a != b && reaches(order, a, b, order->edges.count);
}

typedef struct level_order { /* indices of an access in the order of its levels */
  int count;
  const ir_index *index[IR_MAX_LEVELS];
  bool walked[IR_MAX_LEVELS]; /* the level leaves coordinates out */
} level_order;

static level_order levels_of(const ir_expr *access) {
  const ir_format *format = access->tensor->format;
  level_order levels = {0};
  for (int l = 0; l < format->level_count; l++) {
    const ir_index *index = bare_index(access->args[format->level[l].dim]);
    bool walked = !ir_level_rows[format->level[l].kind].full;
    int at = 0;
    while (at < levels.count && levels.index[at] != index) at++;
    if (at < levels.count) {
      levels.walked[at] |= walked && format->level[l].map != IR_MAP_MOD;
    } else if (index) {
      levels.index[levels.count] = index;
      levels.walked[levels.count++] = walked;
    }
  }
  return levels;
}

static bool contradicts(const pass_order *order, const level_order *levels) {
  for (int b = 1; b < levels->count; b++)
    for (int a = 0; levels->walked[b] && a < b; a++)
      if (comes_before(order, levels->index[b], levels->index[a])) return true;
  return false;
}

bool pass_order_add(pass_order *order, const ir_expr *access) {
  level_order levels = levels_of(access);
  if (contradicts(order, &levels)) return false;
  for (int b = 1; b < levels.count; b++)
    for (int a = 0; levels.walked[b] && a < b; a++)
      IR_PUSH(order->arena, &order->edges, ((pass_before){levels.index[a], levels.index[b]}));
  return true;
}

/* ---- a format whose levels nest as the loops do ---------------------------------------------- */
static int dims_in_level_order(const ir_format *format, int dims[IR_MAX_RANK]) {
  int count = 0;
  for (int l = 0; l < format->level_count; l++)
    if (format->level[l].map != IR_MAP_MOD) dims[count++] = format->level[l].dim;
  return count;
}

static bool must_wait(const pass_order *order, const ir_expr *access, int dim, const int *others,
                      int count) {
  const ir_index *index = bare_index(access->args[dim]);
  for (int i = 0; i < count; i++) {
    const ir_index *other = bare_index(access->args[others[i]]);
    if (index && other && comes_before(order, other, index)) return true;
  }
  return false;
}

/* By the order of loops: each place takes the first dim that need not wait for another one, so that
 * what is free stays as it was. */
static void sort_dims(const pass_order *order, const ir_expr *access, int *dims, int count) {
  for (int place = 0; place < count; place++) {
    int at = place;
    while (at < count - 1 && must_wait(order, access, dims[at], dims + place, count - place)) at++;
    int taken = dims[at];
    memmove(dims + place + 1, dims + place, (size_t)(at - place) * sizeof *dims);
    dims[place] = taken;
  }
}

static bool keeps_levels_when_permuted(const ir_format *format) {
  for (int l = 0; l < format->level_count; l++) {
    ir_level_kind kind = format->level[l].kind;
    if (kind != IR_LEVEL_DENSE && kind != IR_LEVEL_COMPRESSED && kind != IR_LEVEL_SINGLETON)
      return false;
  }
  return true;
}

static const ir_level *level_of_dim(const ir_format *format, int dim) {
  for (int l = 0; l < format->level_count; l++)
    if (format->level[l].dim == dim && format->level[l].map != IR_MAP_MOD) return &format->level[l];
  return NULL;
}

static const ir_format *permuted(ir_arena *arena, const ir_format *format, const int *dims) {
  ir_format *copy = IR_NEW(arena, ir_format);
  *copy = *format;
  int next = 0;
  for (int l = 0; l < format->level_count; l++) {
    if (format->level[l].map == IR_MAP_MOD) continue;
    const ir_level *own = level_of_dim(format, dims[next]);
    copy->level[l].dim = dims[next++];
    copy->level[l].map = own->map;
    copy->level[l].factor = own->factor;
  }
  copy->name = "reordered";
  copy->argument_count = 0;
  const char *why = NULL;
  static const char *const named[] = {"csr", "csc", "dcsr"};
  for (int i = 0; format->rank == 2 && i < IR_COUNT(named); i++) {
    const ir_format *known = ir_format_builtin(arena, named[i], 2, NULL, 0, &why);
    if (known && ir_format_equal(known, copy)) return known;
  }
  return copy;
}

static const ir_format *in_loop_order(const pass_order *order, const ir_expr *access,
                                      const ir_format *format) {
  int dims[IR_MAX_RANK];
  int count = dims_in_level_order(format, dims);
  sort_dims(order, access, dims, count);
  return permuted(order->arena, format, dims);
}

const ir_format *pass_order_format(const pass_order *order, const ir_expr *access) {
  const ir_format *format = access->tensor->format;
  const char *why = NULL;
  if (keeps_levels_when_permuted(format)) {
    const ir_format *same_levels = in_loop_order(order, access, format);
    if (!ir_format_fault(same_levels)) return same_levels;
  }
  return in_loop_order(order, access,
                       ir_format_builtin(order->arena, format->rank == 2 ? "csr" : "csf",
                                         format->rank, NULL, 0, &why));
}

/* ---- per statement --------------------------------------------------------------------------- */
typedef struct sparse_accesses {
  IR_VEC(ir_expr *) list;
  ir_arena *arena;
} sparse_accesses;

static bool collect(void *user, ir_expr *node) {
  sparse_accesses *found = user;
  if (node->kind == IR_ACCESS && pass_tensor_is_sparse(node->tensor)) {
    for (int i = 0; i < found->list.count; i++)
      if (ir_expr_equal(found->list.at[i], node)) return true;
    IR_PUSH(found->arena, &found->list, node);
  }
  return true;
}

static double stored_bytes(pass_context *context, const ir_expr *access) {
  return pass_tensor_bytes(context, access->tensor);
}

static void largest_first(pass_context *context, sparse_accesses *found) {
  for (int i = 1; i < found->list.count; i++)
    for (int j = i; j > 0; j--) {
      ir_expr **at = found->list.at;
      if (stored_bytes(context, at[j]) <= stored_bytes(context, at[j - 1])) break;
      ir_expr *swapped = at[j];
      at[j] = at[j - 1];
      at[j - 1] = swapped;
    }
}

static ir_expr *with_tensor(ir_arena *arena, ir_expr *e, const ir_expr *access, ir_tensor *copy) {
  if (!e) return NULL;
  if (e->kind == IR_ACCESS && ir_expr_equal(e, access)) {
    ir_expr *other = ir_copy_with(arena, e, e->args);
    other->tensor = copy;
    return other;
  }
  ir_expr **args = IR_NEW_ARRAY(arena, ir_expr *, e->arg_count + 1);
  bool changed = false;
  for (int i = 0; i < e->arg_count; i++) {
    args[i] = with_tensor(arena, e->args[i], access, copy);
    changed |= args[i] != e->args[i];
  }
  return changed ? ir_copy_with(arena, e, args) : e;
}

void pass_format_read(ir_arena *arena, ir_stmt *stmt, const ir_expr *access, ir_tensor *copy) {
  stmt->value = with_tensor(arena, stmt->value, access, copy);
  stmt->cond = with_tensor(arena, stmt->cond, access, copy);
  stmt->sample = with_tensor(arena, stmt->sample, access, copy);
  stmt->support = with_tensor(arena, stmt->support, access, copy);
  stmt->stores = with_tensor(arena, stmt->stores, access, copy);
}

void pass_format_insert(ir_arena *arena, ir_kernel *kernel, int at, ir_stmt *stmt) {
  IR_PUSH(arena, &kernel->stmts, stmt);
  for (int i = kernel->stmts.count - 1; i > at; i--) kernel->stmts.at[i] = kernel->stmts.at[i - 1];
  kernel->stmts.at[at] = stmt;
}

ir_stmt *pass_format_copy(pass_context *context, ir_kernel *kernel, ir_tensor *source,
                          ir_tensor *copy) {
  ir_stmt *stmt = ir_stmt_new(kernel, copy);
  ir_expr *subs[IR_MAX_RANK] = {0};
  for (int d = 0; d < source->rank; d++) {
    ir_index *index = ir_index_new(kernel, ir_fresh_name(kernel, "c"), source->dim[d]);
    stmt->subs[d] = subs[d] = ir_index_ref(context->arena, index);
    IR_PUSH(context->arena, &stmt->free, index);
  }
  stmt->combine = IR_RED_COUNT;
  stmt->value = ir_access(context->arena, source, subs);
  stmt->acc = source->dtype == IR_NONE ? IR_B1 : source->dtype;
  stmt->span = source->span;
  copy->def = stmt;
  return stmt;
}

static ir_tensor *copy_in(pass_context *context, ir_kernel *kernel, ir_tensor *source,
                          const ir_format *format, int at) {
  for (int i = 0; i < kernel->stmts.count; i++) {
    ir_stmt *stmt = kernel->stmts.at[i];
    if (stmt->target->role == IR_ROLE_TEMP && pass_stmt_converts(stmt) == source &&
        ir_format_equal(stmt->target->format, format) && i < at)
      return stmt->target;
  }
  const char *name = ir_fresh_name(kernel, ir_format_text(context->arena, "%s_t", source->name));
  ir_tensor *copy = ir_tensor_new(kernel, name, IR_ROLE_TEMP, source->dtype);
  copy->rank = source->rank;
  memcpy(copy->dim, source->dim, sizeof copy->dim);
  copy->format = format;
  copy->pattern = source->pattern;
  copy->constant = source->constant;
  copy->format_why = ir_format_text(
      context->arena, "a copy of `%s` with its levels in the order of the loops that read it",
      source->name);
  pass_format_insert(context->arena, kernel, at, pass_format_copy(context, kernel, source, copy));
  return copy;
}

/* Returns how many statements were put in front of this one. */
static int settle(pass_context *context, ir_kernel *kernel, int at) {
  ir_stmt *stmt = kernel->stmts.at[at];
  sparse_accesses found = {.arena = context->arena};
  pass_order order = {.arena = context->arena};
  int before = kernel->stmts.count;
  ir_expr_walk(stmt->value, collect, &found);
  if (stmt->sample) ir_expr_walk(stmt->sample, collect, &found);
  if (stmt->cond) ir_expr_walk(stmt->cond, collect, &found);
  if (stmt->stores) ir_expr_walk(stmt->stores, collect, &found);
  if (pass_stmt_converts(stmt)) return 0;
  largest_first(context, &found);
  if (pass_stmt_appends(context, stmt)) pass_order_result(&order, stmt);
  if (stmt->target->like)
    pass_order_add(&order, ir_access(context->arena, stmt->target, stmt->subs));
  for (int i = 0; i < found.list.count; i++) {
    const ir_expr *access = found.list.at[i];
    if (pass_order_add(&order, access)) continue;
    const ir_format *format = pass_order_format(&order, access);
    ir_tensor *copy =
        copy_in(context, kernel, access->tensor, format, at + kernel->stmts.count - before);
    ir_diag_add(context->sink, IR_DIAG_ORDER_COPY, access->span,
                "`%s` is read across its levels here: the statement walks a copy in another order. "
                "Store it the other way round (csc for csr) to save the copy",
                access->tensor->name);
    pass_format_read(context->arena, stmt, access, copy);
    bool fits = pass_order_add(&order, ir_access(context->arena, copy, access->args));
    assert(fits);
    (void)fits;
  }
  return kernel->stmts.count - before;
}

spc_status pass_format_orders(pass_context *context, ir_kernel *kernel) {
  for (int s = 0; s < kernel->stmts.count; s++) s += settle(context, kernel, s);
  return SPC_OK;
}
