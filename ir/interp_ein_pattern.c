/* interp_ein_pattern.c - where a statement's value can be non-zero, from the operands' stored
 * entries.
 *
 * The expression becomes a tree of patterns: stored entries of a sparse operand, intersections,
 * unions, and projections (a reduction forgets its indices).  Enumeration goes down the tree with a
 * list of what is still to be satisfied; an access visits its entries that agree with the indices
 * set so far, and sets the others.  Structural: an explicit zero is an entry.  A reduction that is
 * the same for all elements of a row is a number there, no pattern. */
#include "ir/interp_ein.h"

typedef enum pattern_kind { ALL, NOTHING, ENTRIES, BOTH, EITHER, FORGET, CHECK } pattern_kind;

typedef struct pattern pattern;
struct pattern {
  pattern_kind kind;
  node *access;      /* ENTRIES; CHECK: a condition */
  bool wanted;       /* CHECK: what the condition must be */
  pattern *a, *b;    /* BOTH, EITHER; FORGET has a */
  const ir_expr *of; /* FORGET: the reduction; CHECK: the condition */
};

/* ---- from an expression to its pattern ------------------------------------------------------ */
static pattern *leaf(interp *r, pattern_kind kind) {
  pattern *p = IR_NEW(r->arena, pattern);
  p->kind = kind;
  return p;
}

static pattern *both(interp *r, pattern *a, pattern *b) {
  if (a->kind == ALL || b->kind == NOTHING) return b;
  if (b->kind == ALL || a->kind == NOTHING) return a;
  pattern *p = leaf(r, BOTH);
  p->a = a, p->b = b;
  return p;
}

static pattern *either(interp *r, pattern *a, pattern *b) {
  if (a->kind == ALL || b->kind == NOTHING) return a;
  if (b->kind == ALL || a->kind == NOTHING) return b;
  pattern *p = leaf(r, EITHER);
  p->a = a, p->b = b;
  return p;
}

static pattern *make_pattern(interp *r, const ir_expr *e);

static pattern *check(interp *r, const ir_expr *cond, bool wanted) {
  pattern *p = leaf(r, CHECK);
  p->access = ein_compile(r, cond);
  p->wanted = wanted;
  p->of = cond;
  return p;
}

/* where(c, a, b): a's entries where c is true, b's where it is false. */
static pattern *pattern_of_where(interp *r, const ir_expr *e) {
  pattern *yes = make_pattern(r, e->args[1]), *no = make_pattern(r, e->args[2]);
  if (yes->kind == ALL && no->kind == ALL) return yes;
  if (yes->kind != NOTHING)
    yes = both(r, make_pattern(r, e->args[0]), both(r, yes, check(r, e->args[0], true)));
  if (no->kind != NOTHING) no = both(r, no, check(r, e->args[0], false));
  return either(r, yes, no);
}

/* f(x, c) with a constant c and f(0, c) = 0 keeps x's zeros: x / 2, x > 0. */
static const ir_expr *kept_operand(const ir_expr *e) {
  for (int i = 0; i < 2 && e->arg_count == 2; i++) {
    double x[2] = {0, 0};
    if (ir_const_value(e->args[1 - i], &x[1 - i]) && ir_op_rows[e->op].eval(x) == 0)
      return e->args[i];
  }
  return NULL;
}

static pattern *pattern_of_op(interp *r, const ir_expr *e) {
  ir_pattern_rule rule = ir_op_rule(e->op);
  if (e->op == IR_OP_WHERE) return pattern_of_where(r, e);
  if (kept_operand(e)) return make_pattern(r, kept_operand(e));
  if (rule == IR_RULE_DENSE) return leaf(r, ALL);
  if (rule == IR_RULE_RIGHT) return make_pattern(r, e->args[1]);
  pattern *left = make_pattern(r, e->args[0]);
  if (rule == IR_RULE_KEEP || rule == IR_RULE_LEFT) return left;
  pattern *right = make_pattern(r, e->args[1]);
  return rule == IR_RULE_UNION ? either(r, left, right) : both(r, left, right);
}

static bool pattern_uses(const pattern *p, const ir_index *index) {
  if (p->kind == ENTRIES) return ir_expr_uses_index(p->access->expr, index);
  if (p->kind == CHECK) return ir_expr_uses_index(p->of, index);
  if (p->kind == FORGET) return pattern_uses(p->a, index);
  return (p->kind == BOTH || p->kind == EITHER) &&
         (pattern_uses(p->a, index) || pattern_uses(p->b, index));
}

static bool pattern_uses_all(const pattern *p, const ir_expr *sub) {
  if (sub->kind == IR_INDEX) return pattern_uses(p, sub->index);
  for (int i = 0; i < sub->arg_count; i++)
    if (!pattern_uses_all(p, sub->args[i])) return false;
  return true;
}

/* Elements of the statement whose pattern is made; of a `let` that is seen through an access, the
 * elements of the `let`. */
static bool tells_elements_apart(const interp *r, const pattern *p) {
  for (int d = 0; d < r->assembled->target->rank; d++)
    if (!pattern_uses_all(p, r->through ? r->through->args[d] : r->assembled->subs[d]))
      return false;
  return true;
}

static pattern *pattern_of_reduce(interp *r, const ir_expr *e) {
  if (e->reducer == IR_RED_PROD || e->reducer == IR_RED_ALL || e->reducer == IR_RED_ARGMAX)
    return leaf(r, ALL);
  pattern *body = make_pattern(r, e->args[0]);
  if (body->kind == ALL || body->kind == NOTHING) return body;
  if (!tells_elements_apart(r, body)) return leaf(r, ALL);
  pattern *p = leaf(r, FORGET);
  p->a = body, p->of = e;
  return p;
}

static bool binds_index_of(const ir_expr *inside, const ir_expr *sub) {
  for (int b = 0; b < inside->bound_count; b++)
    if (ir_expr_uses_index(sub, inside->bound[b])) return true;
  for (int i = 0; i < inside->arg_count; i++)
    if (binds_index_of(inside->args[i], sub)) return true;
  return false;
}

static pattern *pattern_of_stmt(interp *r, const ir_stmt *stmt, const ir_expr *at);

/* A dense `let` whose definition has a pattern has that pattern: where it is 0 is known. */
static pattern *pattern_of_dense(interp *r, const ir_expr *e) {
  const ir_stmt *def = e->tensor->def;
  if (!def || ir_is_scatter(def) || e->tensor->fill != 0) return leaf(r, ALL);
  for (int a = 0; a < e->arg_count; a++)
    if (binds_index_of(def->value, e->args[a])) return leaf(r, ALL);
  const ir_stmt *assembled = r->assembled;
  const ir_expr *through = r->through;
  r->assembled = def, r->through = e;
  pattern *p = pattern_of_stmt(r, def, e);
  r->assembled = assembled, r->through = through;
  return p;
}

static pattern *pattern_of_access(interp *r, const ir_expr *e) {
  const store *s = ein_store(r, e->tensor);
  if (s->dense) return pattern_of_dense(r, e);
  if (s->fill != 0) return leaf(r, ALL);
  pattern *p = leaf(r, ENTRIES);
  p->access = ein_compile(r, e);
  return p;
}

static pattern *make_pattern(interp *r, const ir_expr *e) {
  double value;
  switch (e->kind) {
  case IR_CONST: return leaf(r, ir_const_value(e, &value) && value == 0 ? NOTHING : ALL);
  case IR_ACCESS: return pattern_of_access(r, e);
  case IR_OP: return pattern_of_op(r, e);
  case IR_CAST: return make_pattern(r, e->args[0]);
  case IR_TOPK: return both(r, make_pattern(r, e->args[0]), check(r, e, true)); /* what it keeps */
  case IR_REDUCE: return pattern_of_reduce(r, e);
  case IR_DIM:
  case IR_INDEX:
  case IR_SOFTMAX:
  case IR_VAR:
  case IR_LOAD: break;
  }
  return leaf(r, ALL);
}

/* `at`: the access through which the statement is seen; NULL: the statement itself. */
static const ir_expr *seen_through(interp *r, const ir_stmt *stmt, const ir_expr *e,
                                   const ir_expr *at) {
  ir_index *from[IR_MAX_RANK];
  if (!at || !e) return e;
  for (int d = 0; d < stmt->target->rank; d++) from[d] = stmt->subs[d]->index;
  return ir_expr_substitute(r->arena, e, from, at->args, stmt->target->rank);
}

static pattern *pattern_of_stmt(interp *r, const ir_stmt *stmt, const ir_expr *at) {
  if (stmt->cond && stmt->fill != 0) return leaf(r, ALL);
  pattern *value = make_pattern(r, seen_through(r, stmt, stmt->value, at));
  if (!stmt->cond) return value;
  return both(r, make_pattern(r, seen_through(r, stmt, stmt->cond, at)), value);
}

bool ein_has_pattern(interp *r, const ir_stmt *stmt) {
  r->assembled = stmt, r->through = NULL;
  return (stmt->cond && stmt->fill == 0) || pattern_of_stmt(r, stmt, NULL)->kind != ALL;
}

/* ---- enumeration ----------------------------------------------------------------------------- */
typedef struct search {
  interp *r;
  const ir_stmt *stmt;
  node *cond;
  ir_entries *out;
  int64_t *saved; /* indices while a condition is evaluated: its own reductions set theirs */
} search;

/* What is still to be satisfied; `restore` stands for the end of a FORGET: its indices get back the
 * values that they had outside. */
typedef struct pending {
  const pattern *p;
  const struct pending *next;
  const int64_t *restore;
} pending;

static void satisfy(search *s, const pending *todo);

static void push_entry(search *s) {
  ir_entries *out = s->out;
  int rank = out->rank;
  if (out->count == out->capacity) {
    out->capacity = out->capacity ? out->capacity * 2 : 256;
    int64_t *at = ir_array_new(s->r->arena, IR_I64, out->capacity * rank).data;
    if (out->count) memcpy(at, out->at, sizeof(int64_t) * (size_t)(out->count * rank));
    out->at = at;
  }
  for (int d = 0; d < rank; d++)
    out->at[out->count * rank + d] = s->r->at[ein_slot(s->r, s->stmt->subs[d]->index)];
  out->count++;
}

static bool holds(search *s, node *cond) {
  size_t bytes = sizeof(int64_t) * (size_t)s->r->kernel->indices.count;
  memcpy(s->saved, s->r->at, bytes);
  bool is_true = node_true(s->r, cond);
  memcpy(s->r->at, s->saved, bytes);
  return is_true;
}

static bool inside_dims(search *s) {
  for (int d = 0; d < s->out->rank; d++) {
    int64_t size = 0;
    (void)ir_size_value(s->stmt->target->dim[d], s->r->sizes, &size);
    if (s->r->at[ein_slot(s->r, s->stmt->subs[d]->index)] >= size) return false;
  }
  return true;
}

/* Every index of the target is set, or takes all its values here. */
static void emit(search *s, int d) {
  interp *r = s->r;
  if (d == s->out->rank) {
    if (ein_step(r) && inside_dims(s) && (!s->cond || holds(s, s->cond))) push_entry(s);
    return;
  }
  const ir_index *index = s->stmt->subs[d]->index;
  int slot = ein_slot(r, index);
  if (r->at[slot] >= 0) {
    emit(s, d + 1);
    return;
  }
  int64_t extent = 0;
  (void)ir_size_value(index->extent, r->sizes, &extent);
  for (int64_t v = 0; v < extent && !r->status; v++) {
    r->at[slot] = v;
    emit(s, d + 1);
  }
  r->at[slot] = -1;
}

typedef struct entry_visit {
  search *s;
  const pending *next;
  const node *access;
  bool set[IR_MAX_RANK]; /* axes whose index this access sets */
} entry_visit;

static bool visit_entry(void *user, const int64_t *at, int64_t position) {
  (void)position;
  entry_visit *v = user;
  interp *r = v->s->r;
  bool agrees = ein_step(r);
  for (int a = 0; a < v->access->count; a++)
    if (v->set[a]) r->at[v->access->sub_slot[a]] = at[a];
  for (int a = 0; a < v->access->count; a++) /* the same index twice: a diagonal */
    agrees &= v->access->sub_slot[a] < 0 || r->at[v->access->sub_slot[a]] == at[a];
  if (agrees) satisfy(v->s, v->next);
  return r->status == SPC_OK;
}

static ir_index *unset_index(const interp *r, const ir_expr *e) {
  if (e->kind == IR_INDEX) return r->at[ein_slot(r, e->index)] < 0 ? e->index : NULL;
  for (int i = 0; i < e->arg_count; i++) {
    ir_index *index = unset_index(r, e->args[i]);
    if (index) return index;
  }
  return NULL;
}

/* A computed subscript cannot be solved for its index: the index takes all its values. */
static bool set_by_counting(search *s, const pending *todo, const node *access) {
  interp *r = s->r;
  for (int a = 0; a < access->count; a++) {
    ir_index *index = access->sub_slot[a] < 0 ? unset_index(r, access->expr->args[a]) : NULL;
    int64_t extent = 0;
    if (!index) continue;
    (void)ir_size_value(index->extent, r->sizes, &extent);
    for (int64_t v = 0; v < extent && ein_step(r); v++) {
      r->at[ein_slot(r, index)] = v;
      satisfy(s, todo);
    }
    r->at[ein_slot(r, index)] = -1;
    return true;
  }
  return false;
}

static void satisfy_entries(search *s, const pending *todo) {
  node *access = todo->p->access;
  interp *r = s->r;
  int64_t fixed[IR_MAX_RANK];
  entry_visit v = {.s = s, .next = todo->next, .access = access};
  if (set_by_counting(s, todo, access)) return;
  for (int a = 0; a < access->count; a++) {
    fixed[a] = -1;
    v.set[a] = access->sub_slot[a] >= 0 && r->at[access->sub_slot[a]] < 0;
    if (!v.set[a] && !ein_subscript(r, access, a, &fixed[a])) return;
  }
  ir_view_walk_where(&access->tensor->view, fixed, visit_entry, &v);
  for (int a = 0; a < access->count; a++)
    if (v.set[a]) r->at[access->sub_slot[a]] = -1;
}

/* A condition is looked at once all its indices are set. */
static void satisfy_check(search *s, const pending *todo) {
  interp *r = s->r;
  for (int i = 0; i < r->kernel->indices.count; i++) {
    const ir_index *index = r->kernel->indices.at[i];
    int64_t extent = 0;
    if (r->at[i] >= 0 || !ir_expr_uses_index(todo->p->of, index)) continue;
    (void)ir_size_value(index->extent, r->sizes, &extent);
    for (int64_t v = 0; v < extent && ein_step(r); v++) {
      r->at[i] = v;
      satisfy(s, todo);
    }
    r->at[i] = -1;
    return;
  }
  if (holds(s, todo->p->access) == todo->p->wanted) satisfy(s, todo->next);
}

/* The bound indices are unset inside; the `restore` entry after the body gives the outer values
 * back. */
static void satisfy_forget(search *s, const pending *todo) {
  interp *r = s->r;
  const ir_expr *e = todo->p->of;
  int64_t outer[IR_MAX_RANK];
  int count = e->bound_count < IR_MAX_RANK ? e->bound_count : IR_MAX_RANK;
  for (int b = 0; b < count; b++) {
    outer[b] = r->at[ein_slot(r, e->bound[b])];
    r->at[ein_slot(r, e->bound[b])] = -1;
  }
  pending end = {todo->p, todo->next, outer}, body = {todo->p->a, &end, NULL};
  satisfy(s, &body);
  for (int b = 0; b < count; b++) r->at[ein_slot(r, e->bound[b])] = outer[b];
}

static void satisfy_end(search *s, const pending *todo) {
  interp *r = s->r;
  const ir_expr *e = todo->p->of;
  int64_t inner[IR_MAX_RANK];
  int count = e->bound_count < IR_MAX_RANK ? e->bound_count : IR_MAX_RANK;
  for (int b = 0; b < count; b++) {
    int64_t *at = &r->at[ein_slot(r, e->bound[b])];
    inner[b] = *at;
    *at = todo->restore[b];
  }
  satisfy(s, todo->next);
  for (int b = 0; b < count; b++) r->at[ein_slot(r, e->bound[b])] = inner[b];
}

static void satisfy(search *s, const pending *todo) {
  if (s->r->status) return;
  if (!todo) {
    emit(s, 0);
    return;
  }
  const pattern *p = todo->p;
  if (todo->restore) {
    satisfy_end(s, todo);
  } else if (p->kind == ALL) {
    satisfy(s, todo->next);
  } else if (p->kind == ENTRIES) {
    satisfy_entries(s, todo);
  } else if (p->kind == BOTH) {
    pending right = {p->b, todo->next, NULL}, left = {p->a, &right, NULL};
    satisfy(s, &left);
  } else if (p->kind == EITHER) {
    pending one = {p->a, todo->next, NULL}, other = {p->b, todo->next, NULL};
    satisfy(s, &one);
    satisfy(s, &other);
  } else if (p->kind == CHECK) {
    satisfy_check(s, todo);
  } else if (p->kind == FORGET) {
    satisfy_forget(s, todo);
  }
}

void ein_pattern(interp *r, const ir_stmt *stmt, node *cond, const int64_t *dims, ir_entries *out) {
  *out = (ir_entries){.rank = stmt->target->rank};
  for (int i = 0; i < r->kernel->indices.count; i++) r->at[i] = -1;
  r->assembled = stmt, r->through = NULL;
  search s = {r, stmt, cond, out, IR_NEW_ARRAY(r->arena, int64_t, r->kernel->indices.count)};
  pending all = {pattern_of_stmt(r, stmt, NULL), NULL, NULL};
  satisfy(&s, &all);
  const char *why = NULL;
  ir_view view;
  const ir_format *list = ir_format_builtin(r->arena, "coo", out->rank, NULL, 0, &why);
  if (r->status || ir_view_pack(r->arena, IR_NONE, dims, list, IR_I64, out, &view, &why)) return;
  ir_view_entries(r->arena, &view, out);
}
