/* expr.c - index sets, rewriting and retyping of expression trees. */
#include "passes/expr.h"

bool pass_indices_has(const pass_indices *set, const ir_index *index) {
  for (int i = 0; i < set->list.count; i++)
    if (set->list.at[i] == index) return true;
  return false;
}

void pass_indices_add(ir_arena *arena, pass_indices *set, ir_index *index) {
  if (!pass_indices_has(set, index)) IR_PUSH(arena, &set->list, index);
}

void pass_indices_of(ir_arena *arena, const ir_expr *e, pass_indices *set) {
  if (e->kind == IR_INDEX) {
    pass_indices_add(arena, set, e->index);
    return;
  }
  if (e->kind != IR_REDUCE) {
    for (int i = 0; i < e->bound_count; i++) pass_indices_add(arena, set, e->bound[i]);
    for (int i = 0; i < e->arg_count; i++) pass_indices_of(arena, e->args[i], set);
    return;
  }
  pass_indices inner = {0}, bound = {0};
  pass_indices_of(arena, e->args[0], &inner);
  for (int i = 0; i < e->bound_count; i++) pass_indices_add(arena, &bound, e->bound[i]);
  for (int i = 0; i < inner.list.count; i++)
    if (!pass_indices_has(&bound, inner.list.at[i])) pass_indices_add(arena, set, inner.list.at[i]);
}

void pass_indices_bound(ir_arena *arena, const ir_expr *e, pass_indices *set) {
  for (int i = 0; i < e->bound_count; i++) pass_indices_add(arena, set, e->bound[i]);
  for (int i = 0; i < e->arg_count; i++) pass_indices_bound(arena, e->args[i], set);
}

/* ---- rewriting ------------------------------------------------------------------------------- */
ir_expr *pass_as_dtype(ir_arena *arena, ir_dtype t, ir_expr *e) {
  if (e->dtype == t) return e;
  if (e->kind == IR_CONST && ir_dtype_is_float(t))
    return ir_const_f(arena, t, ir_dtype_is_float(e->dtype) ? e->f : (double)e->i);
  if (e->kind == IR_CONST && ir_dtype_is_int(t) && ir_dtype_is_int(e->dtype))
    return ir_const_i(arena, t, e->i);
  return ir_cast(arena, t, e);
}

static ir_expr *retype_op(ir_arena *arena, ir_expr *e) {
  int first = e->op == IR_OP_WHERE ? 1 : 0;
  ir_dtype t = e->args[first]->dtype;
  for (int i = first + 1; i < e->arg_count; i++) {
    ir_dtype joined = ir_dtype_join(t, e->args[i]->dtype);
    t = joined == IR_NONE ? t : joined;
  }
  for (int i = first; i < e->arg_count; i++) e->args[i] = pass_as_dtype(arena, t, e->args[i]);
  e->dtype = ir_op_rows[e->op].result == IR_RESULT_BOOL ? IR_B1 : t;
  return e;
}

static ir_expr *retype(ir_arena *arena, ir_expr *e) {
  if (e->kind == IR_OP) return retype_op(arena, e);
  if (e->kind == IR_SOFTMAX || e->kind == IR_TOPK) e->dtype = e->args[0]->dtype;
  if (e->kind == IR_REDUCE && e->reducer != IR_RED_ARGMAX) e->dtype = e->args[0]->dtype;
  return e;
}

ir_expr *pass_with_args(ir_arena *arena, ir_expr *e, ir_expr **args) {
  bool wider = false;
  for (int i = 0; i < e->arg_count; i++) wider |= args[i]->dtype != e->args[i]->dtype;
  ir_expr *copy = ir_copy_with(arena, e, args);
  return wider && e->kind != IR_ACCESS ? retype(arena, copy) : copy;
}

ir_expr *pass_rewrite(ir_arena *arena, ir_expr *e, pass_change *change, void *user) {
  if (e == NULL) return NULL;
  if (e->arg_count == 0) return change(user, e);
  ir_expr **args = IR_NEW_ARRAY(arena, ir_expr *, e->arg_count);
  bool same = true;
  for (int i = 0; i < e->arg_count; i++) {
    args[i] = pass_rewrite(arena, e->args[i], change, user);
    same &= args[i] == e->args[i];
  }
  return change(user, same ? e : pass_with_args(arena, e, args));
}

ir_expr *pass_replace_node(ir_arena *arena, ir_expr *e, const ir_expr *from, ir_expr *to) {
  if (e == from) return to;
  if (e->arg_count == 0) return e;
  ir_expr **args = IR_NEW_ARRAY(arena, ir_expr *, e->arg_count);
  bool same = true;
  for (int i = 0; i < e->arg_count; i++) {
    args[i] = pass_replace_node(arena, e->args[i], from, to);
    same &= args[i] == e->args[i];
  }
  return same ? e : pass_with_args(arena, e, args);
}

/* A reduction in e binds an index that the subscripts of `use` mean otherwise. */
bool pass_captures(ir_arena *arena, const ir_expr *e, const ir_expr *use) {
  pass_indices bound = {0}, used = {0};
  pass_indices_bound(arena, e, &bound);
  for (int i = 0; i < use->arg_count; i++) pass_indices_of(arena, use->args[i], &used);
  for (int i = 0; i < used.list.count; i++)
    if (pass_indices_has(&bound, used.list.at[i])) return true;
  return false;
}

bool pass_segments_stay(const ir_stmt *def, const ir_expr *e, const ir_expr *use) {
  for (int i = 0; e && i < e->bound_count; i++) {
    const ir_index *segment = e->bound[i]->segment;
    bool same = !segment;
    for (int k = 0; k < e->bound_count; k++) same |= e->bound[k] == segment;
    for (int d = 0; d < def->target->rank; d++) same |= ir_is_bare(def->subs[d], segment) && ir_is_bare(use->args[d], segment);
    if (!same) return false;
  }
  for (int i = 0; e && i < e->arg_count; i++)
    if (!pass_segments_stay(def, e->args[i], use)) return false;
  return true;
}

/* Indices that were renamed around an expression, innermost first. */
typedef struct renamed {
  const ir_expr *reduce;
  ir_index **to;
  const struct renamed *outer;
} renamed;

static ir_index *new_name(const renamed *r, ir_index *index) {
  for (; r; r = r->outer)
    for (int i = 0; i < r->reduce->bound_count; i++)
      if (r->reduce->bound[i] == index) return r->to[i];
  return index;
}

static ir_index *renamed_index(ir_kernel *kernel, const ir_index *index) {
  ir_index *fresh = ir_index_new(kernel, ir_fresh_name(kernel, index->name), index->extent);
  fresh->offsets = index->offsets;
  fresh->span = index->span;
  return fresh;
}

static ir_expr *fresh_bound(ir_arena *arena, ir_kernel *kernel, ir_expr *e, const renamed *outer) {
  if (pass_is_elementwise(e)) return e;
  if (e->kind != IR_REDUCE) {
    ir_expr **args = IR_NEW_ARRAY(arena, ir_expr *, e->arg_count);
    for (int i = 0; i < e->arg_count; i++) args[i] = fresh_bound(arena, kernel, e->args[i], outer);
    return ir_copy_with(arena, e, args);
  }
  ir_index **bound = IR_NEW_ARRAY(arena, ir_index *, e->bound_count);
  ir_expr **to = IR_NEW_ARRAY(arena, ir_expr *, e->bound_count);
  const renamed here = {e, bound, outer};
  for (int i = 0; i < e->bound_count; i++) {
    bound[i] = renamed_index(kernel, e->bound[i]);
    to[i] = ir_index_ref(arena, bound[i]);
  }
  for (int i = 0; i < e->bound_count; i++)
    bound[i]->segment = new_name(&here, e->bound[i]->segment);
  ir_expr *body = fresh_bound(arena, kernel, e->args[0], &here);
  body = ir_expr_substitute(arena, body, e->bound, to, e->bound_count);
  ir_expr *copy = ir_reduce(arena, e->reducer, bound, e->bound_count, body);
  copy->span = e->span;
  return copy;
}

ir_expr *pass_fresh_bound(ir_arena *arena, ir_kernel *kernel, ir_expr *e) {
  return fresh_bound(arena, kernel, e, NULL);
}

ir_expr *pass_at_access(ir_arena *arena, const ir_stmt *def, const ir_expr *e, const ir_expr *use) {
  ir_index *from[IR_MAX_RANK];
  ir_expr *to[IR_MAX_RANK];
  int count = 0;
  for (int d = 0; d < def->target->rank; d++)
    if (def->subs[d]->kind == IR_INDEX) {
      from[count] = def->subs[d]->index;
      to[count++] = use->args[d];
    }
  return e == NULL ? NULL : ir_expr_substitute(arena, e, from, to, count);
}

/* ---- asking ---------------------------------------------------------------------------------- */
bool pass_is_heavy(const ir_expr *e) {
  return e->kind == IR_REDUCE || e->kind == IR_SOFTMAX || e->kind == IR_TOPK;
}

int pass_count_heavy(const ir_expr *e) {
  if (pass_is_heavy(e)) return 1;
  int count = 0;
  for (int i = 0; i < e->arg_count; i++) count += pass_count_heavy(e->args[i]);
  return count;
}

bool pass_is_elementwise(const ir_expr *e) { return pass_count_heavy(e) == 0; }

bool pass_is_number(const ir_expr *e, double value) {
  double have;
  return e->kind == IR_CONST && ir_const_value(e, &have) && have == value;
}

int pass_count_accesses(const ir_expr *e, const ir_tensor *tensor) {
  if (e == NULL) return 0;
  int count = e->kind == IR_ACCESS && e->tensor == tensor;
  for (int i = 0; i < e->arg_count; i++) count += pass_count_accesses(e->args[i], tensor);
  return count;
}

ir_expr *pass_find_access(ir_expr *e, const ir_tensor *tensor) {
  if (e == NULL) return NULL;
  if (e->kind == IR_ACCESS && e->tensor == tensor) return e;
  for (int i = 0; i < e->arg_count; i++) {
    ir_expr *found = pass_find_access(e->args[i], tensor);
    if (found != NULL) return found;
  }
  return NULL;
}

static bool distinct_bare(ir_expr *const *subs, int count) {
  for (int i = 0; i < count; i++) {
    if (subs[i]->kind != IR_INDEX) return false;
    for (int j = 0; j < i; j++)
      if (subs[j]->index == subs[i]->index) return false;
  }
  return true;
}

bool pass_plain_subs(const ir_stmt *stmt) {
  return stmt->combine == IR_RED_COUNT && distinct_bare(stmt->subs, stmt->target->rank);
}

bool pass_bare_access(const ir_expr *access) {
  if (!distinct_bare(access->args, access->arg_count)) return false;
  if (access->tensor->role == IR_ROLE_TEMP) return true; /* copies whose rows are padded with zeros */
  for (int d = 0; d < access->arg_count; d++) {
    const ir_index *index = access->args[d]->index;
    if (!ir_goes_through(access, d, index) && !ir_size_same(ir_tensor_extent(access->tensor, d), index->extent)) return false;
  }
  return true;
}
