/* lower_joined.c - sums over fewer indices: a pair of them (joint.h) is one loop of a CPU.
 *
 *     q[t,h,e] = sum[d] x[t,d]*W[d,h,e]      for t { for h_e in 0 .. H*E { .. x[t*D + d]*W[d*(H*E)
 * + h_e] .. } }
 *
 * Panels, packed operands and vectors are of matrices: a head of 64 columns fills one panel of a
 * thousand columns badly, and sums over two indices end a vector at the end of the second.  Other
 * statements may well ask for the two apart, so tensors stay what they are: the statement reads and
 * writes views of them, the same memory in fewer dimensions. */
#include "passes/expr.h"
#include "passes/lower.h"
#include "passes/joint.h"

typedef struct joining {
  ir_arena *arena;
  IR_VEC(ir_tensor *) views; /* of this pair */
} joining;

static bool same_shape(const ir_tensor *a, const ir_tensor *b) {
  bool same = a->rank == b->rank;
  for (int d = 0; same && d < a->rank; d++) same = ir_size_same(a->dim[d], b->dim[d]);
  return same;
}

static ir_tensor *view_of(pass_joint *p, ir_tensor *t, int at) {
  joining *j = p->user;
  const char *why;
  ir_tensor *view = IR_NEW(j->arena, ir_tensor);
  *view = *t;
  view->view_of = t->view_of ? t->view_of : t;
  pass_joint_dims(view, j->arena, at);
  if (view->format) view->format = ir_format_builtin(j->arena, "dense", view->rank, NULL, 0, &why);
  for (int i = 0; i < j->views.count; i++) /* one object: accesses are compared by it */
    if (j->views.at[i]->view_of == view->view_of && same_shape(j->views.at[i], view))
      return j->views.at[i];
  IR_PUSH(j->arena, &j->views, view);
  return view;
}

/* Two neighbours among the subscripts of an access, that the whole statement has as a pair. */
typedef struct search {
  const lower_state *s;
  const ir_stmt *stmt;
  pass_joint *p;
} search;

static bool find_among(search *f, int rank, ir_expr *const *subs) {
  for (int d = 0; d + 1 < rank; d++) {
    if (subs[d]->kind != IR_INDEX || subs[d + 1]->kind != IR_INDEX) continue;
    f->p->first = subs[d]->index;
    f->p->second = subs[d + 1]->index;
    if (pass_joint_is_free(f->s->kernel, f->p) && pass_joint_in_stmt(f->p, f->stmt)) return true;
  }
  return false;
}

static bool visit(void *user, ir_expr *e) {
  return e->kind != IR_ACCESS || !find_among(user, e->arg_count, e->args);
}

static bool find(search *f) {
  return find_among(f, f->stmt->target->rank, f->stmt->subs) ||
         !ir_expr_walk(f->stmt->value, visit, f);
}

static ir_index *joined_index(ir_arena *arena, const pass_joint *p) {
  ir_index *one = IR_NEW(arena, ir_index);
  *one = *p->second;
  one->name = ir_format_text(arena, "%s_%s", p->first->name, p->second->name);
  one->extent = ir_apply(arena, IR_OP_MUL, p->first->extent, p->second->extent);
  return one;
}

/* Lists, tiles and strips of a stage are of its own indices. */
static bool can_join(const lower_state *s) {
  const ir_target *target = s->context->options->target;
  const ir_stage *stage = s->stage;
  return target && target->kind == IR_TARGET_CPU && !stage->reads.count && !stage->tiles.count &&
         !stage->strips && !stage->detects && !s->stmt->target->like && !ir_is_scatter(s->stmt);
}

ir_stmt *pass_lower_joined(lower_state *s) {
  ir_stmt *stmt = s->stmt;
  if (!can_join(s)) return stmt;
  for (;;) {
    joining j = {.arena = s->arena};
    pass_joint p = {.tensor_of = view_of, .user = &j};
    if (!find(&(search){s, stmt, &p})) return stmt;
    p.one = joined_index(s->arena, &p);
    ir_stmt *copy = IR_NEW(s->arena, ir_stmt);
    *copy = *stmt;
    copy->free.at = IR_NEW_ARRAY(s->arena, ir_index *, stmt->free.count + 1);
    for (int i = 0; i < stmt->free.count; i++) copy->free.at[i] = stmt->free.at[i];
    pass_joint_make(s->arena, &p, copy);
    stmt = copy;
  }
}
