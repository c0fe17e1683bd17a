/* stores.c - where a sparse result stores an entry, as a condition.
 *
 *     A[i,j]            (stored sparse)    stored(A[i,j])
 *     L[i,j]            (a let without a format of its own)   what its definition stores
 *     D[i,j]            (dense), s[], 3, i everywhere
 *     f(x), f(0) = 0                       where x does
 *     x * y                                where both do        rule INTERSECT
 *     x + y                                where one does       rule UNION
 *     where(c, x, y)                       where c and x does, or not c and y does
 *     sum[k] x   max, min, any             any[k] of what x stores
 *     prod[k] x  all                       all[k] of what x stores
 *     topk[j](x, n)                        where x does and the element is kept (and not 0)
 *     on c                                 and where c is true
 *
 * It follows from the program as it is written, before any pass: what a pass rewrites, fuses or
 * stores otherwise changes no pattern.  Values are looked at where a condition or topk does.
 * docs/language.md states the same for users. */
#include "ir/ir.h"

/* What was found out about lets on the way: each is looked at once. */
typedef struct seen {
  const ir_tensor *let;
  bool everywhere;
} seen;

typedef struct maker {
  ir_arena *arena;
  const ir_stmt *stmt; /* whose value it is; NULL: not known */
  IR_VEC(seen) lets;
} maker;

static ir_expr *of(maker *m, const ir_expr *e);
static ir_expr *of_stmt(maker *m, const ir_stmt *stmt);

/* NULL is "everywhere", the constant false "nowhere". */
static bool nowhere(const ir_expr *s) { return s && s->kind == IR_CONST && s->i == 0; }
static ir_expr *none(maker *m) { return ir_const_i(m->arena, IR_B1, 0); }

static ir_expr *both(maker *m, ir_expr *x, ir_expr *y) {
  if (!x || nowhere(y)) return y;
  if (!y || nowhere(x) || ir_expr_equal(x, y)) return x;
  return ir_apply(m->arena, IR_OP_AND, x, y);
}

static ir_expr *either(maker *m, ir_expr *x, ir_expr *y) {
  if (!x || !y) return NULL;
  if (nowhere(x) || ir_expr_equal(x, y)) return y;
  return nowhere(y) ? x : ir_apply(m->arena, IR_OP_OR, x, y);
}

/* ---- tensors --------------------------------------------------------------------------------- */
static ir_expr *stored(maker *m, const ir_expr *access) {
  if (access->tensor->dtype == IR_NONE) return (ir_expr *)access;
  ir_expr *e = ir_node_new(m->arena, IR_STORED, IR_B1, 1, 1);
  e->args[0] = (ir_expr *)access;
  return e;
}

static bool is_everywhere(maker *m, const ir_tensor *let) {
  for (int i = 0; i < m->lets.count; i++)
    if (m->lets.at[i].let == let) return m->lets.at[i].everywhere;
  seen found = {let, of_stmt(m, let->def) == NULL};
  IR_PUSH(m->arena, &m->lets, found);
  return found.everywhere;
}

static ir_expr *of_access(maker *m, const ir_expr *e) {
  const ir_tensor *t = e->tensor;
  if (t->fill != 0 || t->rank == 0) return NULL; /* a scalar is a number */
  if (t->like || (t->format && ir_format_lists_entries(t->format))) return stored(m, e);
  if (t->format || !t->def) return NULL;
  return is_everywhere(m, t) ? NULL : stored(m, e);
}

/* ---- conditions ------------------------------------------------------------------------------ */
static bool is_about_indices(const ir_expr *e, bool *uses_one) {
  if (e->kind == IR_INDEX) *uses_one = true;
  if (e->kind != IR_INDEX && e->kind != IR_DIM && e->kind != IR_CONST && e->kind != IR_OP &&
      e->kind != IR_CAST)
    return false;
  for (int i = 0; i < e->arg_count; i++)
    if (!is_about_indices(e->args[i], uses_one)) return false;
  return true;
}

static bool is_predicate(const ir_expr *e) {
  bool uses_one = false;
  return e->dtype == IR_B1 && is_about_indices(e, &uses_one) && uses_one;
}

/* Where c is true and s; a condition on dense values alone is no pattern. */
static ir_expr *within(maker *m, const ir_expr *c, ir_expr *s) {
  if (nowhere(s)) return s;
  return !s && !of(m, c) ? NULL : both(m, (ir_expr *)c, s);
}

static ir_expr *outside(maker *m, const ir_expr *c, ir_expr *s) {
  if (!s || nowhere(s)) return s;
  return both(m, ir_apply(m->arena, IR_OP_NOT, (ir_expr *)c, NULL), s);
}

static ir_expr *of_where(maker *m, const ir_expr *e) {
  ir_expr *yes = of(m, e->args[1]), *no = of(m, e->args[2]);
  if (ir_expr_equal(yes, no)) return yes;
  return either(m, within(m, e->args[0], yes), outside(m, e->args[0], no));
}

/* ---- ops and reductions ---------------------------------------------------------------------- */
/* f(x, c) with a constant c and f(0, c) = 0 is zero where x is: x / 2, x > 0. */
static const ir_expr *kept_operand(const ir_expr *e) {
  for (int i = 0; i < 2 && e->arg_count == 2; i++) {
    double x[2] = {0, 0};
    if (ir_const_value(e->args[1 - i], &x[1 - i]) && ir_op_rows[e->op].eval(x) == 0)
      return e->args[i];
  }
  return NULL;
}

static ir_expr *of_op(maker *m, const ir_expr *e) {
  ir_pattern_rule rule = ir_op_rule(e->op);
  if (is_predicate(e)) return (ir_expr *)e;
  if (e->op == IR_OP_WHERE) return of_where(m, e);
  if (kept_operand(e)) return of(m, kept_operand(e));
  switch (rule) {
  case IR_RULE_KEEP:
  case IR_RULE_LEFT: return of(m, e->args[0]);
  case IR_RULE_RIGHT: return of(m, e->args[1]);
  case IR_RULE_UNION: return either(m, of(m, e->args[0]), of(m, e->args[1]));
  case IR_RULE_INTERSECT: return both(m, of(m, e->args[0]), of(m, e->args[1]));
  case IR_RULE_DENSE: break;
  }
  return NULL;
}

static bool may_be_empty(const ir_expr *e) {
  for (int b = 0; b < e->bound_count; b++)
    if (e->bound[b]->offsets) return true;
  return false;
}

/* ---- any[k]: terms without k stand outside, as factors do (pass canon) ----------------------- */
static bool is_free(const ir_stmt *stmt, const ir_index *index) {
  for (int i = 0; stmt && i < stmt->free.count; i++)
    if (stmt->free.at[i] == index) return true;
  return false;
}

static bool depends_on(const maker *m, const ir_expr *term, const ir_expr *reduce) {
  for (int b = 0; b < reduce->bound_count; b++) {
    const ir_index *index = reduce->bound[b], *segment = index->segment;
    if (ir_expr_uses_index(term, index)) return true;
    if (segment && !is_free(m->stmt, segment) && ir_expr_depends_on(term, segment)) return true;
  }
  return false;
}

static void deal_terms(maker *m, ir_expr *s, const ir_expr *reduce, ir_expr **in, ir_expr **out) {
  if (s->kind == IR_OP && s->op == IR_OP_AND) {
    deal_terms(m, s->args[0], reduce, in, out);
    deal_terms(m, s->args[1], reduce, in, out);
  } else if (depends_on(m, s, reduce)) {
    *in = both(m, *in, s);
  } else {
    *out = both(m, *out, s);
  }
}

static bool binds_segment_of(const ir_expr *outer, const ir_expr *inner) {
  for (int i = 0; i < inner->bound_count; i++)
    for (int o = 0; o < outer->bound_count; o++)
      if (inner->bound[i]->segment == outer->bound[o]) return true;
  return false;
}

/* sum[i] sum[j] x is sum[i,j] x; NULL: `any` is not just the inner one. */
static ir_expr *merged(maker *m, const ir_expr *e, const ir_expr *any) {
  const ir_expr *inner = e->args[0];
  bool same = inner->kind == IR_REDUCE && inner->reducer == e->reducer && any->kind == IR_REDUCE &&
              any->bound_count == inner->bound_count;
  for (int b = 0; same && b < any->bound_count; b++) same = any->bound[b] == inner->bound[b];
  if (!same || binds_segment_of(e, inner)) return NULL;
  int count = e->bound_count + any->bound_count;
  ir_index **bound = IR_NEW_ARRAY(m->arena, ir_index *, count);
  for (int b = 0; b < count; b++)
    bound[b] = b < e->bound_count ? e->bound[b] : any->bound[b - e->bound_count];
  return ir_reduce(m->arena, IR_RED_ANY, bound, count, any->args[0]);
}

static ir_expr *any_of(maker *m, const ir_expr *e, ir_expr *body) {
  ir_expr *in = NULL, *out = NULL, *all = merged(m, e, body);
  if (all) return all;
  deal_terms(m, body, e, &in, &out);
  if (!in) return ir_reduce(m->arena, IR_RED_ANY, e->bound, e->bound_count, body);
  return both(m, out, ir_reduce(m->arena, IR_RED_ANY, e->bound, e->bound_count, in));
}

static ir_expr *of_reduce(maker *m, const ir_expr *e) {
  bool product = e->reducer == IR_RED_PROD || e->reducer == IR_RED_ALL;
  bool extreme = e->reducer == IR_RED_MAX || e->reducer == IR_RED_MIN;
  ir_expr *body = e->reducer == IR_RED_ARGMAX ? NULL : of(m, e->args[0]);
  if (!body || (extreme && may_be_empty(e))) return NULL; /* over nothing, max is not 0 */
  if (nowhere(body) && !product) return body;
  return product ? ir_reduce(m->arena, IR_RED_ALL, e->bound, e->bound_count, body)
                 : any_of(m, e, body);
}

static ir_expr *zero_of(maker *m, ir_dtype t) {
  return ir_dtype_is_float(t) ? ir_const_f(m->arena, t, 0) : ir_const_i(m->arena, t, 0);
}

static ir_expr *of_topk(maker *m, const ir_expr *e) {
  ir_expr *s = of(m, e->args[0]);
  if (!s || nowhere(s)) return s;
  return both(m, s, ir_apply(m->arena, IR_OP_NE, (ir_expr *)e, zero_of(m, e->dtype)));
}

static ir_expr *of(maker *m, const ir_expr *e) {
  double value;
  switch (e->kind) {
  case IR_CONST: return ir_const_value(e, &value) && value == 0 ? none(m) : NULL;
  case IR_ACCESS: return of_access(m, e);
  case IR_OP: return of_op(m, e);
  case IR_CAST: return of(m, e->args[0]);
  case IR_REDUCE: return of_reduce(m, e);
  case IR_TOPK: return of_topk(m, e);
  case IR_STORED: return (ir_expr *)e;
  case IR_DIM:
  case IR_INDEX:
  case IR_SOFTMAX:
  case IR_VAR:
  case IR_LOAD: break;
  }
  return NULL;
}

ir_expr *ir_stores_of(ir_arena *arena, const ir_expr *e) {
  maker m = {.arena = arena};
  return of(&m, e);
}

/* ---- statements ------------------------------------------------------------------------------ */
static bool is_true(const ir_expr *s) { return s->kind == IR_CONST && s->i != 0; }

static ir_expr *of_stmt(maker *m, const ir_stmt *stmt) {
  if (stmt->stores) return is_true(stmt->stores) ? NULL : stmt->stores;
  if (ir_is_scatter(stmt) || (stmt->cond && stmt->fill != 0)) return NULL;
  const ir_stmt *outer = m->stmt;
  m->stmt = stmt;
  ir_expr *value = of(m, stmt->value);
  m->stmt = outer;
  return stmt->cond ? within(m, stmt->cond, value) : value;
}

ir_expr *ir_stores_of_stmt(ir_arena *arena, const ir_stmt *stmt) {
  maker m = {.arena = arena};
  return of_stmt(&m, stmt);
}

static void mark_asked(const ir_kernel *kernel, const ir_expr *e, bool *asked) {
  if (e->kind == IR_STORED)
    for (int i = 0; i < kernel->stmts.count; i++)
      if (kernel->stmts.at[i]->target == e->args[0]->tensor) asked[i] = true;
  for (int i = 0; i < e->arg_count; i++) mark_asked(kernel, e->args[i], asked);
}

/* An output, or a tensor whose positions others share, that is stored sparse; a let with a format
 * of its own may be read by one. */
static bool asks(const ir_tensor *t) {
  return !t->like && !t->by_value && t->format && ir_format_lists_entries(t->format);
}

void ir_stores_of_kernel(ir_arena *arena, const ir_kernel *kernel, ir_expr **stores) {
  bool *asked = IR_NEW_ARRAY(arena, bool, kernel->stmts.count + 1);
  for (int i = kernel->stmts.count - 1; i >= 0; i--) {
    const ir_stmt *stmt = kernel->stmts.at[i];
    stores[i] = NULL;
    if (!asked[i] && !asks(stmt->target)) continue;
    ir_expr *s = ir_stores_of_stmt(arena, stmt);
    stores[i] = s ? s : ir_const_i(arena, IR_B1, 1);
    mark_asked(kernel, stores[i], asked);
  }
}
