/* query.c - questions about expressions, statements and sizes. */
#include "ir/ir.h"

/* ---- names --------------------------------------------------------------------------------- */
ir_dim *ir_dim_named(const ir_program *program, const char *name) {
  return ir_table_find(&program->dims_named, name);
}

ir_tensor *ir_tensor_named(const ir_kernel *kernel, const char *name) {
  return ir_table_find(&kernel->tensors_named, name);
}

ir_index *ir_index_named(const ir_kernel *kernel, const char *name) {
  return ir_table_find(&kernel->indices_named, name);
}

ir_kernel *ir_kernel_named(const ir_program *program, const char *name) {
  return ir_table_find(&program->kernels_named, name);
}

/* ---- structure ----------------------------------------------------------------------------- */
static bool same_leaf(const ir_expr *a, const ir_expr *b) {
  switch (a->kind) {
  case IR_CONST: return !memcmp(&a->i, &b->i, sizeof a->i);
  case IR_DIM: return a->dim == b->dim;
  case IR_INDEX: return a->index == b->index;
  case IR_ACCESS: return a->tensor == b->tensor;
  case IR_OP: return a->op == b->op;
  case IR_REDUCE: return a->reducer == b->reducer;
  case IR_TOPK: return a->i == b->i;
  case IR_VAR: return a->var == b->var;
  case IR_LOAD: return a->buf == b->buf;
  case IR_CAST:
  case IR_SOFTMAX:
  case IR_STORED: return true;
  }
  return false;
}

bool ir_expr_equal(const ir_expr *a, const ir_expr *b) {
  if (a == b) return true;
  if (!a || !b || a->kind != b->kind || a->dtype != b->dtype || a->lanes != b->lanes) return false;
  if (a->arg_count != b->arg_count || a->bound_count != b->bound_count) return false;
  if (!same_leaf(a, b)) return false;
  for (int i = 0; i < a->bound_count; i++)
    if (a->bound[i] != b->bound[i]) return false;
  for (int i = 0; i < a->arg_count; i++)
    if (!ir_expr_equal(a->args[i], b->args[i])) return false;
  return true;
}

static uint64_t leaf_hash(const ir_expr *e) {
  switch (e->kind) {
  case IR_OP: return (uint64_t)e->op;
  case IR_REDUCE: return (uint64_t)e->reducer;
  case IR_CAST:
  case IR_SOFTMAX:
  case IR_STORED: return 0;
  case IR_CONST:
  case IR_TOPK: return (uint64_t)e->i;
  case IR_DIM:
  case IR_INDEX:
  case IR_ACCESS:
  case IR_VAR:
  case IR_LOAD: return (uint64_t)(uintptr_t)e->tensor; /* the address of what it names */
  }
  return 0;
}

uint64_t ir_expr_hash(const ir_expr *e) {
  if (!e) return 0;
  uint64_t parts[4] = {(uint64_t)e->kind, (uint64_t)e->dtype, (uint64_t)e->lanes, leaf_hash(e)};
  uint64_t hash = ir_hash((uint64_t)e->arg_count, parts, sizeof parts);
  hash = ir_hash(hash, e->bound, sizeof *e->bound * (size_t)e->bound_count);
  for (int i = 0; i < e->arg_count; i++) {
    uint64_t below = ir_expr_hash(e->args[i]);
    hash = ir_hash(hash, &below, sizeof below);
  }
  return hash;
}

/* Reductions around two expressions, pair by pair. */
typedef struct paired {
  const ir_expr *a, *b;
  const struct paired *outer;
} paired;

static bool is_paired(const paired *p, const ir_index *a, const ir_index *b) {
  for (; p; p = p->outer)
    for (int i = p->a->bound_count; i-- > 0;)
      if (p->a->bound[i] == a || p->b->bound[i] == b)
        return p->a->bound[i] == a && p->b->bound[i] == b;
  return a == b;
}

static bool alike(const ir_expr *a, const ir_expr *b, const paired *outer) {
  paired here = {a, b, outer};
  const paired *p = a->kind == IR_REDUCE ? &here : outer;
  if (a->kind != b->kind || a->dtype != b->dtype || a->lanes != b->lanes) return false;
  if (a->arg_count != b->arg_count || a->bound_count != b->bound_count) return false;
  if (a->kind == IR_INDEX) return is_paired(p, a->index, b->index);
  if (!same_leaf(a, b)) return false;
  for (int i = 0; i < a->bound_count; i++) {
    if (a->kind != IR_REDUCE && !is_paired(p, a->bound[i], b->bound[i])) return false;
    if (a->bound[i]->offsets != b->bound[i]->offsets) return false;
  }
  for (int i = 0; i < a->arg_count; i++)
    if (!alike(a->args[i], b->args[i], p)) return false;
  return true;
}

bool ir_expr_alike(const ir_expr *a, const ir_expr *b) {
  return a == b || (a && b && alike(a, b, NULL));
}

static bool binds(const ir_expr *e, const ir_index *index) {
  for (int i = 0; i < e->bound_count; i++)
    if (e->bound[i] == index) return true;
  return false;
}

bool ir_expr_uses_index(const ir_expr *e, const ir_index *index) {
  if (!e) return false;
  if (e->kind == IR_INDEX) return e->index == index;
  /* A softmax or topk along j still ranges over j outside: j stays free in it. */
  if (e->kind == IR_REDUCE && binds(e, index)) return false;
  if (e->kind != IR_REDUCE && binds(e, index)) return true;
  for (int i = 0; i < e->arg_count; i++)
    if (ir_expr_uses_index(e->args[i], index)) return true;
  return false;
}

bool ir_expr_depends_on(const ir_expr *e, const ir_index *index) {
  if (!e) return false;
  if (e->kind == IR_INDEX) return e->index == index;
  if (e->kind == IR_REDUCE && binds(e, index)) return false;
  for (int i = 0; i < e->bound_count; i++)
    if (e->bound[i]->segment == index || (e->kind != IR_REDUCE && e->bound[i] == index))
      return true;
  for (int i = 0; i < e->arg_count; i++)
    if (ir_expr_depends_on(e->args[i], index)) return true;
  return false;
}

bool ir_expr_uses_tensor(const ir_expr *e, const ir_tensor *tensor) {
  if (!e) return false;
  if (e->kind == IR_ACCESS && e->tensor == tensor) return true;
  for (int i = 0; i < e->arg_count; i++)
    if (ir_expr_uses_tensor(e->args[i], tensor)) return true;
  return false;
}

bool ir_expr_uses_dim(const ir_expr *e, const ir_dim *dim) {
  if (e->kind == IR_DIM) return e->dim == dim;
  for (int i = 0; i < e->arg_count; i++)
    if (ir_expr_uses_dim(e->args[i], dim)) return true;
  return false;
}

bool ir_expr_walk(ir_expr *e, bool (*visit)(void *user, ir_expr *node), void *user) {
  if (!e) return true;
  if (!visit(user, e)) return false;
  for (int i = 0; i < e->arg_count; i++)
    if (!ir_expr_walk(e->args[i], visit, user)) return false;
  return true;
}

const ir_expr *ir_row_name(const ir_expr *sub) {
  while (sub->kind == IR_CAST) sub = sub->args[0];
  if (sub->kind != IR_ACCESS || sub->arg_count != 1 || sub->args[0]->kind != IR_INDEX) return NULL;
  const ir_tensor *names = sub->tensor;
  bool dense = !names->like && (!names->format || ir_format_is_dense(names->format));
  return dense && names->dtype != IR_NONE && !ir_dtype_is_float(names->dtype) ? sub : NULL;
}

bool ir_tensor_is_inner(const ir_tensor *tensor) { return tensor->role == IR_ROLE_LET || tensor->role == IR_ROLE_TEMP; }

int ir_last_dim(const ir_tensor *tensor) {
  const ir_format *format = tensor->format;
  return format && format->level_count ? format->level[format->level_count - 1].dim : tensor->rank - 1;
}

bool ir_is_bare(const ir_expr *sub, const ir_index *index) {
  return sub->kind == IR_INDEX && sub->index == index;
}

bool ir_goes_through(const ir_expr *access, int d, const ir_index *index) {
  return ir_is_bare(access->args[d], index) && ir_size_same(index->extent, access->tensor->dim[d]);
}

const ir_expr *ir_rounded(const ir_expr *size) {
  if (size->kind != IR_OP || size->op != IR_OP_MUL || size->args[1]->kind != IR_CONST) return NULL;
  const ir_expr *steps = size->args[0];
  const int64_t step = size->args[1]->i;
  if (steps->kind != IR_OP || steps->op != IR_OP_DIV || steps->args[1]->kind != IR_CONST || steps->args[1]->i != step) return NULL;
  const ir_expr *sum = steps->args[0];
  return sum->kind == IR_OP && sum->op == IR_OP_ADD && sum->args[1]->kind == IR_CONST && sum->args[1]->i == step - 1 ? sum->args[0] : NULL;
}

ir_expr *ir_tensor_extent(const ir_tensor *t, int d) {
  const ir_expr *rounded = ir_tensor_is_inner(t) ? ir_rounded(t->dim[d]) : NULL;
  return rounded ? (ir_expr *)rounded : t->dim[d];
}

/* A term that is false, or zero, where the value is: `x != 0`, or x itself where it is b1. */
static const ir_expr *asked_by(const ir_stmt *stmt, const ir_expr *term) {
  double zero = 1;
  if (term->kind == IR_OP && term->op == IR_OP_NE && ir_const_value(term->args[1], &zero) && !zero)
    term = term->args[0];
  else if (term->dtype != IR_B1)
    return NULL;
  while (term->kind == IR_CAST) term = term->args[0];
  if (term->kind != IR_ACCESS || term->arg_count != 2 || stmt->free.count != 2) return NULL;
  const ir_index *m = stmt->free.at[0], *n = stmt->free.at[1];
  bool straight = ir_is_bare(term->args[0], m) && ir_is_bare(term->args[1], n);
  return straight || (ir_is_bare(term->args[0], n) && ir_is_bare(term->args[1], m)) ? term : NULL;
}

static const ir_expr *asked_in(const ir_stmt *stmt, const ir_expr *condition) {
  if (!condition || condition->kind != IR_OP || condition->op != IR_OP_AND)
    return condition ? asked_by(stmt, condition) : NULL;
  const ir_expr *found = asked_in(stmt, condition->args[0]);
  return found ? found : asked_in(stmt, condition->args[1]);
}

const ir_expr *ir_asked_matrix(const ir_stmt *stmt) { return asked_in(stmt, stmt->support); }

bool ir_const_value(const ir_expr *e, double *value) {
  if (!e || e->kind != IR_CONST) return false;
  *value = ir_dtype_is_float(e->dtype) ? e->f : (double)e->i;
  return true;
}

bool ir_is_scatter(const ir_stmt *stmt) { return stmt->combine != IR_RED_COUNT; }

/* ---- substitution -------------------------------------------------------------------------- */
typedef struct swap {
  ir_arena *arena;
  ir_index *const *from;
  ir_expr *const *to;
  int count;
} swap;

static ir_expr *replacement(const swap *s, const ir_expr *e) {
  for (int i = 0; i < s->count; i++)
    if (ir_is_bare(e, s->from[i])) return s->to[i];
  return NULL;
}

/* A softmax or topk is along an index of the statement: a replaced one is renamed with it. */
static void rename_along(const swap *s, ir_expr *e) {
  for (int i = 0; i < s->count; i++)
    if (e->bound[0] == s->from[i] && s->to[i]->kind == IR_INDEX) {
      e->bound = IR_NEW_ARRAY(s->arena, ir_index *, 1);
      e->bound[0] = s->to[i]->index;
      return;
    }
}

static bool is_free(const ir_expr *inside, const ir_index *index) {
  return !(inside->kind == IR_REDUCE && binds(inside, index));
}

static ir_expr *substitute(const swap *s, const ir_expr *e);

static ir_expr *substitute_under(const swap *s, const ir_expr *e) {
  ir_expr *copy = ir_copy_with(s->arena, e, e->args);
  for (int i = 0; i < e->arg_count; i++) copy->args[i] = substitute(s, e->args[i]);
  if (e->kind == IR_SOFTMAX || e->kind == IR_TOPK) rename_along(s, copy);
  return copy;
}

/* Under a reducer, the indices that it binds are not replaced. */
static ir_expr *substitute(const swap *s, const ir_expr *e) {
  ir_expr *other = replacement(s, e);
  if (other) return other;
  if (e->kind != IR_REDUCE) return substitute_under(s, e);
  swap outer = *s;
  ir_index **from = IR_NEW_ARRAY(s->arena, ir_index *, s->count + 1);
  ir_expr **to = IR_NEW_ARRAY(s->arena, ir_expr *, s->count + 1);
  outer.from = from, outer.to = to, outer.count = 0;
  for (int i = 0; i < s->count; i++) {
    if (!is_free(e, s->from[i])) continue;
    from[outer.count] = s->from[i];
    to[outer.count++] = s->to[i];
  }
  return substitute_under(&outer, e);
}

ir_expr *ir_expr_substitute(ir_arena *a, const ir_expr *e, ir_index *const *from,
                            ir_expr *const *to, int count) {
  return e ? substitute(&(swap){a, from, to, count}, e) : NULL;
}

/* ---- sizes --------------------------------------------------------------------------------- */
static bool checked_add(int64_t a, int64_t b, int64_t *sum) {
  if ((b > 0 && a > INT64_MAX - b) || (b < 0 && a < INT64_MIN - b)) return false;
  *sum = a + b;
  return true;
}

static bool checked_mul(int64_t a, int64_t b, int64_t *product) {
  if (a != 0 && b != 0) {
    if (a == INT64_MIN || b == INT64_MIN) return false;
    int64_t most = INT64_MAX / (a < 0 ? -a : a);
    if ((b < 0 ? -b : b) > most) return false;
  }
  *product = a * b;
  return true;
}

static bool checked(ir_op op, int64_t a, int64_t b, int64_t *value) {
  if (op == IR_OP_ADD) return checked_add(a, b, value);
  if (op == IR_OP_SUB) return b != INT64_MIN && checked_add(a, -b, value);
  if (op == IR_OP_MUL) return checked_mul(a, b, value);
  if ((op == IR_OP_DIV || op == IR_OP_MOD) && b <= 0) return false;
  if (op != IR_OP_DIV && op != IR_OP_MOD && op != IR_OP_MIN && op != IR_OP_MAX) return false;
  *value = ir_op_rows[op].eval_int((int64_t[]){a, b});
  return true;
}

/* (x + (c - 1)) / c, as ir_ceil_div makes it: rounding up is meant. */
static bool is_ceiling(const ir_expr *e) {
  const ir_expr *sum = e->args[0], *by = e->args[1];
  return by->kind == IR_CONST && sum->kind == IR_OP && sum->op == IR_OP_ADD &&
         sum->args[1]->kind == IR_CONST && sum->args[1]->i == by->i - 1;
}

bool ir_size_value(const ir_expr *e, const int64_t *sizes, int64_t *value) {
  int64_t x, y;
  if (e->kind == IR_CONST) return *value = e->i, true;
  if (e->kind == IR_DIM) return *value = sizes[e->dim->number], *value >= 0;
  if (e->kind != IR_OP || e->arg_count != 2) return false;
  if (!ir_size_value(e->args[0], sizes, &x) || !ir_size_value(e->args[1], sizes, &y)) return false;
  if (!checked(e->op, x, y, value)) return false;
  return e->op != IR_OP_DIV || x % y == 0 || is_ceiling(e);
}

bool ir_count_value(const ir_expr *e, const int64_t *sizes, int64_t *value) {
  int64_t x, y;
  if (e->kind != IR_OP || e->arg_count != 2) return ir_size_value(e, sizes, value);
  if (!ir_count_value(e->args[0], sizes, &x) || !ir_count_value(e->args[1], sizes, &y))
    return false;
  return checked(e->op, x, y, value);
}

int64_t ir_size_sample(int dim,
                       int point) { /* mixed as splitmix64 does (Steele and others, 2014) */
  const uint64_t most = 4093, points = 64;
  uint64_t x = ((uint64_t)dim * points + (uint64_t)point + 1) * 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return (int64_t)(1 + (x ^ (x >> 31)) % most);
}

/* A dyn dim takes a value with many divisors. */
static bool size_at_point(const ir_expr *e, int point, int64_t *value) {
  const int64_t divisible = 322560;
  int64_t x, y;
  if (e->kind == IR_CONST) return *value = e->i, true;
  if (e->kind == IR_DIM) {
    *value = e->dim->value >= 0 ? e->dim->value : divisible * ir_size_sample(e->dim->number, point);
    return true;
  }
  if (e->kind != IR_OP || e->arg_count != 2) return false;
  return size_at_point(e->args[0], point, &x) && size_at_point(e->args[1], point, &y) && checked(e->op, x, y, value);
}

bool ir_size_same(const ir_expr *a, const ir_expr *b) {
  enum { POINTS = 3 };
  if (ir_expr_equal(a, b)) return true;
  for (int point = 0; point < POINTS; point++) {
    int64_t x, y;
    if (!size_at_point(a, point, &x) || !size_at_point(b, point, &y) || x != y) return false;
  }
  return true;
}

typedef struct range {
  int64_t low, high;
} range;

static bool size_range(const ir_expr *e, range *r);

/* Sizes are not negative, so that the ends of each operation are reached at ends of its operands.
 */
static bool range_of_two(const ir_expr *e, range x, range y, range *r) {
  if (e->op == IR_OP_SUB)
    return checked(e->op, x.low, y.high, &r->low) && checked(e->op, x.high, y.low, &r->high);
  if (e->op == IR_OP_DIV)
    return checked(e->op, x.low, y.high, &r->low) &&
           checked(e->op, x.high, y.low > 0 ? y.low : 1, &r->high);
  if (e->op == IR_OP_MOD) return *r = (range){0, x.high < y.high - 1 ? x.high : y.high - 1}, true;
  return checked(e->op, x.low, y.low, &r->low) && checked(e->op, x.high, y.high, &r->high);
}

static bool size_range(const ir_expr *e, range *r) {
  range x, y;
  if (e->kind == IR_CONST) return *r = (range){e->i, e->i}, true;
  if (e->kind == IR_DIM) {
    const ir_dim *dim = e->dim;
    if (dim->value >= 0) return *r = (range){dim->value, dim->value}, true;
    return *r = (range){0, dim->bound}, dim->bound > 0;
  }
  if (e->kind != IR_OP || e->arg_count != 2) return false;
  return size_range(e->args[0], &x) && size_range(e->args[1], &y) && range_of_two(e, x, y, r);
}

bool ir_size_bound(const ir_expr *size, int64_t *value) {
  range r;
  if (!size_range(size, &r)) return false;
  *value = r.high;
  return true;
}

bool ir_size_known(const ir_expr *size, int64_t *value) {
  range r;
  if (!size_range(size, &r) || r.low != r.high) return false;
  *value = r.low;
  return true;
}
