/* canon_split.c - gives every reduction, softmax and topk that later passes could not see through a
 * statement of its own.
 *
 *     h[t,f] = silu(sum[d] x*Wg) * (sum[d] x*Wu)      h.0[t,f] = sum[d] x*Wg
 *                                                     h.1[t,f] = sum[d] x*Wu
 *                                                     h[t,f]   = silu(h.0[t,f]) * h.1[t,f]
 *     a[i,j] = softmax[j](p[i,j])                     a.0[i]   = max[j] p[i,j]
 *                                                     a.1[i]   = sum[j] exp(p[i,j] - a.0[i])
 *                                                     a[i,j]   = where(a.0[i] == -inf, 0,
 * exp(p[i,j] - a.0[i]) / a.1[i])
 *
 * A statement stays whole when its only reduction uses every free index (the rest is its epilogue).
 * A temporary has the accumulator's dtype, so that it adds no rounding; it is indexed by the
 * indices in scope that its value needs, and keeps the statement's condition where that condition
 * means the same for it. Where the argument of a softmax is -inf outside a condition (`on c fill
 * -inf`), the reductions are written over where(c, .., identity) and the result `on c`: what is
 * masked can be skipped. */
#include <math.h>

#include "passes/canon.h"
#include "passes/contract.h"
#include "passes/stores.h"

typedef struct splitter {
  pass_context *context;
  ir_arena *arena;
  ir_kernel *kernel;
  IR_VEC(ir_stmt *) done; /* finished statements, in an order that can be executed */
} splitter;

/* Where in a statement an expression stands. */
typedef struct place {
  ir_stmt *stmt;
  ir_dtype acc;     /* of the statement as it was written: an argmax in it has one of its own kind */
  const char *stem; /* temporaries are stem.0, stem.1, ... */
  int *next;
  pass_indices scope; /* the statement's free indices, then those bound around this place */
  pass_indices loose; /* ragged ones of the scope whose segment is bound again inside of them */
  ir_expr *cond;      /* what of the statement's condition means the same here */
} place;

static void split_stmt(splitter *s, ir_stmt *stmt, ir_dtype acc, const char *stem, int *next);

/* ---- temporaries ----------------------------------------------------------------------------- */
static bool has_segment(const pass_indices *set, const ir_index *segment) {
  for (int i = 0; i < set->list.count; i++)
    if (set->list.at[i]->segment == segment) return true;
  return false;
}

/* Segments of ragged indices in `rows` that follow from a ragged index in scope: a row that is gone
 * through again inside (softmax[r]) stays in the segment of the row outside. */
static void add_implied_segments(splitter *s, const place *p, const pass_indices *rows,
                                 pass_indices *all) {
  for (int i = 0; i < rows->list.count; i++) {
    ir_index *segment = rows->list.at[i]->segment;
    if (segment != NULL && has_segment(&p->scope, segment))
      pass_indices_add(s->arena, all, segment);
  }
}

/* It is the segment of a row that is bound inside, and of none outside: it follows there. */
static bool follows_inside(const place *p, const pass_indices *bound, const ir_index *index) {
  return has_segment(bound, index) && !pass_indices_has(&p->scope, index) &&
         !has_segment(&p->scope, index);
}

/* The indices that a temporary for e needs: those in scope that it uses, itself or as the segment
 * of a ragged index that it binds; and segments it uses that a ragged index outside determines. */
static pass_indices temporary_indices(splitter *s, const place *p, const pass_indices *loose,
                                      const ir_expr *e) {
  pass_indices used = {0}, bound = {0}, all = {0}, needed = {0};
  pass_indices_of(s->arena, e, &used);
  pass_indices_bound(s->arena, e, &bound);
  add_implied_segments(s, p, &bound, &all);
  for (int i = 0; i < p->scope.list.count; i++) {
    ir_index *index = p->scope.list.at[i];
    if (pass_indices_has(&used, index) || has_segment(&bound, index))
      pass_indices_add(s->arena, &all, index);
  }
  for (int i = 0; i < used.list.count; i++)
    if (!follows_inside(p, &bound, used.list.at[i]))
      pass_indices_add(s->arena, &all, used.list.at[i]);
  for (int i = 0; i < all.list.count; i++)
    if (!has_segment(&all, all.list.at[i]) || has_segment(loose, all.list.at[i]))
      pass_indices_add(s->arena, &needed, all.list.at[i]);
  return needed;
}

/* Wide enough that storing the value rounds no more than keeping it in the accumulator. */
static ir_dtype temporary_dtype(const place *p, const ir_expr *e) {
  ir_dtype t = ir_dtype_rows[e->dtype].accumulator, acc = p->acc;
  if (e->dtype == IR_B1 || (e->kind == IR_REDUCE && e->reducer == IR_RED_ARGMAX)) return e->dtype;
  bool same_class = ir_dtype_is_float(t) == ir_dtype_is_float(acc) && acc != IR_B1;
  return same_class && ir_dtype_rows[acc].bits > ir_dtype_rows[t].bits ? acc : t;
}

static ir_stmt *temporary_stmt(splitter *s, const place *p, const pass_indices *over,
                               ir_expr *value) {
  const char *name = ir_format_text(s->arena, "%s.%d", p->stem, (*p->next)++);
  ir_tensor *tensor = ir_tensor_new(s->kernel, ir_fresh_name(s->kernel, name), IR_ROLE_TEMP,
                                    temporary_dtype(p, value));
  tensor->span = p->stmt->span;
  tensor->rank = over->list.count;
  ir_stmt *stmt = ir_stmt_new(s->kernel, tensor);
  for (int d = 0; d < tensor->rank; d++) {
    tensor->dim[d] = over->list.at[d]->extent;
    stmt->subs[d] = ir_index_ref(s->arena, over->list.at[d]);
    IR_PUSH(s->arena, &stmt->free, over->list.at[d]);
  }
  stmt->value = value;
  stmt->acc = ir_dtype_rows[tensor->dtype].accumulator;
  stmt->cond = pass_terms_within(s->arena, p->cond, over);
  stmt->span = value->span.file != 0 ? value->span : p->stmt->span;
  return stmt;
}

/* Those that the value does not go through again: topk[r] stays in its segment. */
static pass_indices loose_rows(splitter *s, const place *p, const ir_expr *value) {
  pass_indices bound = {0}, loose = {0};
  pass_indices_bound(s->arena, value, &bound);
  for (int i = 0; i < p->loose.list.count; i++)
    if (!pass_indices_has(&bound, p->loose.list.at[i]))
      pass_indices_add(s->arena, &loose, p->loose.list.at[i]);
  return loose;
}

/* softmax[e](x[e,r]) looks at one r beside every segment e, not at its own alone: there r is a plain
 * index. */
static void free_loose_rows(splitter *s, const pass_indices *loose, ir_stmt *stmt) {
  for (int i = 0; i < stmt->free.count; i++) {
    ir_index *row = stmt->free.at[i];
    if (!pass_indices_has(loose, row)) continue;
    ir_index *plain = ir_index_new(s->kernel, ir_fresh_name(s->kernel, row->name), row->extent);
    ir_expr *to = ir_index_ref(s->arena, plain);
    plain->span = row->span;
    stmt->value = ir_expr_substitute(s->arena, stmt->value, &row, &to, 1);
    stmt->cond = ir_expr_substitute(s->arena, stmt->cond, &row, &to, 1);
    stmt->subs[i] = to;
    stmt->free.at[i] = plain;
  }
}

static ir_expr *make_temporary(splitter *s, const place *p, ir_expr *value) {
  pass_indices loose = loose_rows(s, p, value), over = temporary_indices(s, p, &loose, value);
  if (over.list.count > IR_MAX_RANK) return value;
  ir_stmt *stmt = temporary_stmt(s, p, &over, value);
  ir_expr *access = ir_access(s->arena, stmt->target, stmt->subs);
  access->span = value->span;
  stmt->stores = pass_stores_name(s->arena, p->stmt, value, access);
  free_loose_rows(s, &loose, stmt);
  split_stmt(s, stmt, p->acc, p->stem, p->next);
  return access;
}

/* ---- inside a reduction ---------------------------------------------------------------------- */
/* Every reduction, softmax or topk in e becomes a temporary. */
static ir_expr *extract_all(splitter *s, const place *p, ir_expr *e) {
  if (pass_is_heavy(e)) return make_temporary(s, p, e);
  if (pass_is_elementwise(e)) return e;
  ir_expr **args = IR_NEW_ARRAY(s->arena, ir_expr *, e->arg_count);
  for (int i = 0; i < e->arg_count; i++) args[i] = extract_all(s, p, e->args[i]);
  return pass_with_args(s->arena, e, args);
}

/* The terms of a condition that do not use what e binds: below e, those indices mean other
 * elements. */
static ir_expr *cond_below(splitter *s, ir_expr *cond, const ir_expr *e) {
  pass_terms terms = {0};
  ir_expr *kept = NULL;
  pass_terms_of(s->arena, cond, &terms);
  for (int i = 0; i < terms.list.count; i++) {
    bool free = true;
    for (int b = 0; b < e->bound_count; b++)
      free &= !ir_expr_uses_index(terms.list.at[i], e->bound[b]);
    if (free) kept = pass_and(s->arena, kept, terms.list.at[i]);
  }
  return kept;
}

static void add_rows_of(splitter *s, const place *p, const ir_index *segment, pass_indices *rows) {
  for (int i = 0; i < p->scope.list.count; i++)
    if (p->scope.list.at[i]->segment == segment)
      pass_indices_add(s->arena, rows, p->scope.list.at[i]);
}

static place place_below(splitter *s, const place *p, const ir_expr *e) {
  place below = *p;
  below.scope = below.loose = (pass_indices){0};
  for (int i = 0; i < p->loose.list.count; i++)
    pass_indices_add(s->arena, &below.loose, p->loose.list.at[i]);
  for (int i = 0; i < e->bound_count; i++) add_rows_of(s, p, e->bound[i], &below.loose);
  for (int i = 0; i < p->scope.list.count; i++)
    pass_indices_add(s->arena, &below.scope, p->scope.list.at[i]);
  for (int i = 0; i < e->bound_count; i++) pass_indices_add(s->arena, &below.scope, e->bound[i]);
  below.cond = cond_below(s, p->cond, e);
  return below;
}

static ir_expr *with_simple_body(splitter *s, const place *p, ir_expr *e) {
  place below = place_below(s, p, e);
  ir_expr *body = extract_all(s, &below, e->args[0]);
  return body == e->args[0] ? e : pass_with_args(s->arena, e, &body);
}

/* ---- softmax --------------------------------------------------------------------------------- */
static bool is_minus_infinity(const ir_expr *e) { return pass_is_number(e, -INFINITY); }

/* The condition outside of which e is -inf; NULL: none is known. */
static ir_expr *mask_of(splitter *s, const ir_expr *e) {
  if (e->kind == IR_CAST) return mask_of(s, e->args[0]);
  if (e->kind == IR_OP && e->op == IR_OP_WHERE && is_minus_infinity(e->args[2]))
    return pass_and(s->arena, e->args[0], mask_of(s, e->args[1]));
  if (e->kind != IR_ACCESS || e->tensor->def == NULL) return NULL;
  const ir_stmt *def = e->tensor->def;
  if (def->cond == NULL || def->fill != -INFINITY || !pass_plain_subs(def)) return NULL;
  bool elsewhere = pass_captures(s->arena, def->cond, e) || !pass_segments_stay(def, def->cond, e);
  return elsewhere ? NULL : pass_at_access(s->arena, def, def->cond, e);
}

static ir_expr *guarded(ir_arena *arena, ir_expr *mask, ir_expr *value, double otherwise) {
  if (mask == NULL) return value;
  return ir_apply3(arena, IR_OP_WHERE, mask, value, ir_const_f(arena, value->dtype, otherwise));
}

static ir_expr *reduced(splitter *s, const place *p, ir_reducer r, ir_index *along, ir_expr *body) {
  return make_temporary(s, p, ir_reduce(s->arena, r, &along, 1, body));
}

static ir_expr *expand_softmax(splitter *s, const place *p, ir_expr *e, ir_expr **mask) {
  ir_arena *arena = s->arena;
  ir_dtype t = temporary_dtype(p, e);
  ir_expr *x = pass_as_dtype(arena, t, e->args[0]);
  *mask = mask_of(s, e->args[0]);
  ir_expr *most = reduced(s, p, IR_RED_MAX, e->bound[0], guarded(arena, *mask, x, -INFINITY));
  ir_expr *power = ir_apply(arena, IR_OP_EXP, ir_apply(arena, IR_OP_SUB, x, most), NULL);
  ir_expr *total = reduced(s, p, IR_RED_SUM, e->bound[0], guarded(arena, *mask, power, 0));
  ir_expr *empty = ir_apply(arena, IR_OP_EQ, most, ir_const_f(arena, t, -INFINITY));
  return ir_apply3(arena, IR_OP_WHERE, empty, ir_const_f(arena, t, 0),
                   ir_apply(arena, IR_OP_DIV, power, total));
}

/* The statement is zero outside the mask: that is its condition, unless its fill says otherwise. */
static ir_expr *place_softmax(splitter *s, const place *p, ir_expr *e, bool root) {
  ir_expr *mask, *value = expand_softmax(s, p, e, &mask);
  if (mask == NULL) return value;
  if (!root || (p->stmt->cond != NULL && p->stmt->fill != 0))
    return guarded(s->arena, mask, value, 0);
  p->stmt->cond = pass_and(s->arena, p->stmt->cond, mask);
  p->stmt->fill = p->stmt->target->fill = 0;
  return value;
}

/* ---- statements ------------------------------------------------------------------------------ */
/* e is not computed twice for the same numbers: it uses every index of the statement. */
static bool is_whole(splitter *s, const place *p, const ir_expr *e) {
  pass_indices used = {0}, bound = {0};
  pass_indices_of(s->arena, e, &used);
  pass_indices_bound(s->arena, e, &bound);
  for (int i = 0; i < p->stmt->free.count; i++) {
    const ir_index *index = p->stmt->free.at[i];
    if (!pass_indices_has(&used, index) && !has_segment(&bound, index)) return false;
  }
  return true;
}

static ir_expr *open_heavy(splitter *s, const place *p, ir_expr *e, bool only, bool root) {
  bool stays = is_whole(s, p, e) && (e->kind == IR_SOFTMAX || only) && !pass_waits_in_line(p->stmt, e);
  if (!stays || (e->kind == IR_TOPK && !root)) {
    ir_expr *access = make_temporary(s, p, e);
    if (access != e) return access;
  }
  ir_expr *simple = with_simple_body(s, p, e);
  return e->kind == IR_SOFTMAX ? place_softmax(s, p, simple, root) : simple;
}

static ir_expr *open_value(splitter *s, const place *p, ir_expr *e, bool only, bool root) {
  if (pass_is_heavy(e)) return open_heavy(s, p, e, only, root);
  if (pass_is_elementwise(e)) return e;
  ir_expr **args = IR_NEW_ARRAY(s->arena, ir_expr *, e->arg_count);
  for (int i = 0; i < e->arg_count; i++) args[i] = open_value(s, p, e->args[i], only, false);
  return pass_with_args(s->arena, e, args);
}

/* ---- what sparse results store --------------------------------------------------------------- */
/* The statement's condition, and its value, as they were written and as they are now. */
typedef struct opened {
  const ir_expr *cond, *value;
  ir_expr *cond_now, *value_now;
} opened;

/* Conditions are values like others, made once; what is asked of stored entries stays whole.  A
 * topk that is the statement's value is the same one here. */
static ir_expr *open_stores(splitter *s, const place *p, ir_expr *e, const opened *o) {
  if (o->cond != NULL && ir_expr_equal(e, o->cond)) return o->cond_now;
  if (e->kind == IR_STORED || e->arg_count == 0) return e;
  if (pass_is_heavy(e) && !pass_stores_any(e))
    return ir_expr_equal(e, o->value) ? o->value_now : make_temporary(s, p, e);
  place below = e->kind == IR_REDUCE ? place_below(s, p, e) : *p;
  ir_expr **args = IR_NEW_ARRAY(s->arena, ir_expr *, e->arg_count);
  for (int i = 0; i < e->arg_count; i++) args[i] = open_stores(s, &below, e->args[i], o);
  return pass_with_args(s->arena, e, args);
}

static void split_stmt(splitter *s, ir_stmt *stmt, ir_dtype acc, const char *stem, int *next) {
  place p = {.stmt = stmt, .acc = acc, .stem = stem, .next = next};
  opened o = {.cond = stmt->cond, .value = stmt->value};
  for (int i = 0; i < stmt->free.count; i++) pass_indices_add(s->arena, &p.scope, stmt->free.at[i]);
  if (stmt->cond != NULL) stmt->cond = extract_all(s, &p, stmt->cond);
  p.cond = o.cond_now = stmt->cond;
  stmt->value = open_value(s, &p, stmt->value, pass_count_heavy(stmt->value) == 1, true);
  o.value_now = stmt->value;
  if (stmt->stores != NULL) stmt->stores = open_stores(s, &p, stmt->stores, &o);
  IR_PUSH(s->arena, &s->done, stmt);
}

void pass_canon_split(pass_context *c, ir_kernel *kernel) {
  splitter s = {.context = c, .arena = c->arena, .kernel = kernel};
  for (int i = 0; i < kernel->stmts.count; i++) {
    int next = 0;
    ir_stmt *stmt = kernel->stmts.at[i];
    split_stmt(&s, stmt, stmt->acc, stmt->target->name, &next);
  }
  kernel->stmts.at = s.done.at;
  kernel->stmts.count = s.done.count;
  kernel->stmts.capacity = s.done.capacity;
}
