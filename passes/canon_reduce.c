/* canon_reduce.c - normal forms of reductions.
 *
 *     sum[i] sum[j] e              sum[i,j] e
 *     sum[k] a[i] * b[i,k]         a[i] * sum[k] b[i,k]       floats: the order of rounding is free
 *     sum[k] b[i,k] / a[i]         sum[k] b[i,k] / a[i]
 *     sum[k] -(a * b)              -(sum[k] a * b)
 *     sum[k] cast[t](a * b)        cast[t](sum[k] a * b)      t: the accumulator's, where products are formed anyway
 *     sum[k] cast[t](a) * cast[t](i)     cast[t](sum[k] a * cast[u](i))     i of 8 bits is exact in u, a's dtype
 * Integers narrower than their accumulator keep their factors inside, where products are formed at
 * the accumulator's width; strict_nan keeps them too, because a sum over nothing is 0 and 0 * Inf
 * is not.  A reduction over a ragged index is not merged with one over its segments. */
#include "passes/canon.h"

/* ---- merging --------------------------------------------------------------------------------- */
static bool binds_segment_of(const ir_expr *outer, const ir_expr *inner) {
  for (int i = 0; i < inner->bound_count; i++)
    for (int j = 0; j < outer->bound_count; j++)
      if (inner->bound[i]->segment == outer->bound[j]) return true;
  return false;
}

static bool binds_twice(const ir_expr *outer, const ir_expr *inner) {
  for (int i = 0; i < inner->bound_count; i++)
    for (int j = 0; j < outer->bound_count; j++)
      if (inner->bound[i] == outer->bound[j]) return true;
  return false;
}

static ir_expr *merge(ir_arena *arena, ir_expr *e) {
  ir_expr *inner = e->args[0];
  if (inner->kind != IR_REDUCE || inner->reducer != e->reducer) return e;
  if (e->reducer == IR_RED_ARGMAX || binds_segment_of(e, inner) || binds_twice(e, inner)) return e;
  int count = e->bound_count + inner->bound_count;
  ir_index **bound = IR_NEW_ARRAY(arena, ir_index *, count);
  for (int i = 0; i < e->bound_count; i++) bound[i] = e->bound[i];
  for (int i = 0; i < inner->bound_count; i++) bound[e->bound_count + i] = inner->bound[i];
  return ir_reduce(arena, e->reducer, bound, count, inner->args[0]);
}

/* ---- factors --------------------------------------------------------------------------------- */
typedef struct factors {
  IR_VEC(ir_expr *) inside, outside, below; /* below: divides */
  bool negative;
} factors;

static bool is_free(const ir_stmt *stmt, const ir_index *index) {
  for (int i = 0; i < stmt->free.count; i++)
    if (stmt->free.at[i] == index) return true;
  return false;
}

/* A segment that follows from the row that is bound here has no value outside. */
static bool depends_on(const ir_stmt *stmt, const ir_expr *e, const ir_expr *reduce) {
  for (int i = 0; i < reduce->bound_count; i++) {
    const ir_index *index = reduce->bound[i], *segment = index->segment;
    if (ir_expr_uses_index(e, index)) return true;
    if (segment && !is_free(stmt, segment) && ir_expr_depends_on(e, segment)) return true;
  }
  return false;
}

static bool is_product(const ir_expr *e) {
  return e->kind == IR_OP && (e->op == IR_OP_MUL || e->op == IR_OP_NEG || e->op == IR_OP_DIV);
}

/* Widens to the accumulator's dtype, exactly: products are formed there with or without it. */
static bool is_widening(const ir_stmt *stmt, const ir_expr *e) {
  if (e->kind != IR_CAST || e->dtype != stmt->acc || !ir_dtype_is_float(e->dtype)) return false;
  ir_dtype narrow = e->args[0]->dtype;
  return ir_dtype_is_float(narrow) && ir_dtype_rows[narrow].bits < ir_dtype_rows[e->dtype].bits;
}

static bool divides_by_steady(const ir_stmt *stmt, const ir_expr *e, const ir_expr *reduce) {
  return e->kind == IR_OP && e->op == IR_OP_DIV && !depends_on(stmt, e->args[1], reduce);
}

static void collect(ir_arena *arena, const ir_stmt *stmt, ir_expr *e, const ir_expr *reduce,
                    factors *out) {
  if (e->kind == IR_OP && e->op == IR_OP_MUL) {
    collect(arena, stmt, e->args[0], reduce, out);
    collect(arena, stmt, e->args[1], reduce, out);
  } else if (e->kind == IR_OP && e->op == IR_OP_NEG) {
    out->negative = !out->negative;
    collect(arena, stmt, e->args[0], reduce, out);
  } else if (ir_dtype_is_float(e->dtype) && divides_by_steady(stmt, e, reduce)) {
    collect(arena, stmt, e->args[0], reduce, out);
    IR_PUSH(arena, &out->below, e->args[1]);
  } else if (is_widening(stmt, e) && is_product(e->args[0])) {
    collect(arena, stmt, e->args[0], reduce, out);
  } else if (depends_on(stmt, e, reduce)) {
    IR_PUSH(arena, &out->inside, e);
  } else {
    IR_PUSH(arena, &out->outside, e);
  }
}

/* Of factors of one dtype. */
static ir_expr *product(ir_arena *arena, ir_dtype dtype, ir_expr **factor, int count) {
  ir_expr *all = ir_cast(arena, dtype, factor[0]);
  for (int i = 1; i < count; i++) all = ir_apply(arena, IR_OP_MUL, all, ir_cast(arena, dtype, factor[i]));
  return all;
}

/* Bytes made floats: exact in every float of 16 bits or more. */
static bool is_byte(const ir_expr *e) { return e->kind == IR_CAST && ir_dtype_is_float(e->dtype) && e->args[0]->dtype == IR_I8; }

/* The float that factors have under their widening, if that is one of 16 bits or more. */
static ir_dtype narrowest(const ir_stmt *stmt, const ir_expr *reduce, const factors *f) {
  ir_dtype dtype = reduce->dtype;
  int floats = 0;
  for (int i = 0; i < f->inside.count; i++) {
    const ir_expr *e = f->inside.at[i];
    if (is_byte(e)) continue;
    ir_dtype own = is_widening(stmt, e) ? e->args[0]->dtype : e->dtype;
    if (floats++ && own != dtype) return reduce->dtype;
    dtype = own;
  }
  bool bytes = floats < f->inside.count, wide = ir_dtype_rows[dtype].bits >= 16;
  return f->inside.count > 1 && floats && (wide || !bytes) ? dtype : reduce->dtype;
}

static ir_expr *narrowed(ir_arena *arena, const ir_stmt *stmt, ir_dtype dtype, ir_expr *e) {
  if (e->dtype == dtype) return e;
  return is_widening(stmt, e) || is_byte(e) ? ir_cast(arena, dtype, e->args[0]) : e;
}

static bool may_hoist(const pass_context *c, const ir_stmt *stmt, const ir_expr *e) {
  if (e->reducer != IR_RED_SUM || c->program->strict_nan) return false;
  if (ir_dtype_is_float(e->dtype)) return true;
  return ir_dtype_is_int(e->dtype) && stmt->acc == e->dtype;
}

static ir_expr *hoist(const pass_context *c, const ir_stmt *stmt, ir_expr *e) {
  factors f = {0};
  if (!may_hoist(c, stmt, e)) return e;
  collect(c->arena, stmt, e->args[0], e, &f);
  if (f.inside.count == 0) return e;
  ir_dtype dtype = narrowest(stmt, e, &f);
  if (f.outside.count == 0 && f.below.count == 0 && !f.negative && dtype == e->dtype) return e;
  for (int i = 0; i < f.inside.count; i++) f.inside.at[i] = narrowed(c->arena, stmt, dtype, f.inside.at[i]);
  ir_expr *body = product(c->arena, dtype, f.inside.at, f.inside.count);
  ir_expr *all = ir_cast(c->arena, e->dtype, ir_reduce(c->arena, IR_RED_SUM, e->bound, e->bound_count, body));
  if (f.negative) all = ir_apply(c->arena, IR_OP_NEG, all, NULL);
  for (int i = 0; i < f.below.count; i++) all = ir_apply(c->arena, IR_OP_DIV, all, ir_cast(c->arena, e->dtype, f.below.at[i]));
  if (f.outside.count == 0) return all;
  return ir_apply(c->arena, IR_OP_MUL, product(c->arena, e->dtype, f.outside.at, f.outside.count), all);
}

typedef struct reduce_job {
  pass_context *context;
  const ir_stmt *stmt;
} reduce_job;

static ir_expr *reduce_node(void *user, ir_expr *e) {
  reduce_job *job = user;
  if (e->kind != IR_REDUCE || e->reducer == IR_RED_ANY) return e; /* stores.c has its own order */
  return hoist(job->context, job->stmt, merge(job->context->arena, e));
}

ir_expr *pass_canon_reduce(pass_context *c, const ir_stmt *stmt, ir_expr *e) {
  reduce_job job = {c, stmt};
  return pass_rewrite(c->arena, e, reduce_node, &job);
}
