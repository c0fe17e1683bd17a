/* check_bounds.c - subscripts that can leave their axis (rule 12), on the lowered statement.
 *
 * Every affine subscript takes values from `least` to `most`, which are sizes themselves.  Where
 * their distance to the axis is the same for all sizes it is decided here, else it is left in
 * kernel->needs for the time when sizes are bound.  Subscripts read from memory are checked at run
 * time (rule 8). */
#include "frontend/check.h"

typedef struct interval {
  ir_expr *least, *most;
  IR_VEC(ir_index *) over;
  bool unknown; /* read from memory */
} interval;

static interval range_of(fe_check *c, const ir_expr *e);

static interval exactly(ir_expr *value) { return (interval){.least = value, .most = value}; }

static interval range_of_index(fe_check *c, ir_index *index) {
  interval r = {.least = ir_int(c->arena, 0)};
  r.most = ir_apply(c->arena, IR_OP_SUB, index->extent, ir_int(c->arena, 1));
  IR_PUSH(c->arena, &r.over, index);
  return r;
}

static interval range_of_op(fe_check *c, const ir_expr *e) {
  interval x = range_of(c, e->args[0]), y = range_of(c, e->args[1]);
  interval r = {.over = {x.over.at, x.over.count, x.over.capacity},
                .unknown = x.unknown || y.unknown};
  if (r.unknown) return r;
  for (int i = 0; i < y.over.count; i++) IR_PUSH(c->arena, &r.over, y.over.at[i]);
  bool turned = e->op == IR_OP_SUB;
  r.least = ir_apply(c->arena, e->op, x.least, turned ? y.most : y.least);
  r.most = ir_apply(c->arena, e->op, x.most, turned ? y.least : y.most);
  int64_t most, modulus;
  if (e->op == IR_OP_MOD &&
      !(fe_size_known(x.most, &most) && fe_size_known(y.least, &modulus) && most < modulus)) {
    r.least = ir_int(c->arena, 0);
    r.most = ir_apply(c->arena, IR_OP_SUB, y.least, ir_int(c->arena, 1));
  }
  return r;
}

static interval range_of(fe_check *c, const ir_expr *e) {
  if (e->kind == IR_INDEX) return range_of_index(c, e->index);
  if (e->kind == IR_CONST || e->kind == IR_DIM) return exactly((ir_expr *)e);
  if (e->kind == IR_OP && e->arg_count == 2) return range_of_op(c, e);
  return (interval){.unknown = true};
}

static bool is_empty(const interval *r) {
  int64_t size;
  for (int i = 0; i < r->over.count; i++)
    if (fe_size_known(r->over.at[i]->extent, &size) && size == 0) return true;
  return false;
}

static void leaves(fe_check *c, const ir_tensor *tensor, int dim, const ir_expr *sub,
                   const char *how) {
  ir_diag *d = fe_error(c, IR_DIAG_SUBSCRIPT_AXIS, sub->span,
                        "this subscript %s of dimension %d of `%s`, whose size is %s", how, dim,
                        tensor->name, fe_size_text(c, tensor->dim[dim]));
  ir_diag_note(c->sink, d, tensor->span,
               "there is no padding: declare a larger axis, or state a smaller shape on the left");
}

static void check_sub(fe_check *c, ir_tensor *tensor, int dim, const ir_expr *sub) {
  if (sub->kind == IR_INDEX) return;
  interval r = range_of(c, sub);
  if (r.unknown || is_empty(&r)) return;
  int64_t below, above;
  bool least_known = fe_size_difference(r.least, ir_int(c->arena, 0), &below);
  bool most_known = fe_size_difference(r.most, tensor->dim[dim], &above);
  if (least_known && below < 0) {
    leaves(c, tensor, dim, sub,
           ir_format_text(c->arena, "goes down to %lld, below the start", (long long)below));
  } else if (most_known && above >= 0) {
    leaves(c, tensor, dim, sub,
           ir_format_text(c->arena, "reaches %lld past the end", (long long)above + 1));
  } else if (!least_known || !most_known) {
    ir_require need = {
        .tensor = tensor, .dim = dim, .least = r.least, .most = r.most, .span = sub->span};
    for (int i = 0; i < r.over.count; i++) IR_PUSH(c->arena, &need.over, r.over.at[i]);
    IR_PUSH(c->arena, &c->kernel->needs, need);
  }
}

static bool visit(void *user, ir_expr *e) {
  fe_check *c = user;
  for (int i = 0; e->kind == IR_ACCESS && i < e->tensor->rank; i++)
    check_sub(c, e->tensor, i, e->args[i]);
  return true;
}

void fe_bounds_check(fe_check *c, const fe_stmt *stmt) {
  const ir_stmt *s = stmt->lowered;
  for (int i = 0; i < s->target->rank; i++) {
    ir_expr_walk(s->subs[i], visit, c);
    check_sub(c, s->target, i, s->subs[i]);
  }
  ir_expr_walk(s->value, visit, c);
  if (s->cond) ir_expr_walk(s->cond, visit, c);
}
