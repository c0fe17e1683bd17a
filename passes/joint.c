/* joint.c - see joint.h. */
#include "passes/joint.h"

#include "passes/expr.h"

static bool is_of(const pass_joint *p, const ir_index *index) {
  return index == p->first || index == p->second;
}

/* ---- whether they are one -------------------------------------------------------------------- */
bool pass_lies_in_rows(const ir_tensor *t) {
  return !t->like && !t->by_value && !t->pitch[0] &&
         (!t->format || ir_format_is_row_major(t->format));
}

int pass_joint_place(const pass_joint *p, const ir_tensor *t, ir_expr *const *subs) {
  int at = -1, uses = 0;
  for (int d = 0; d < t->rank; d++) {
    if (ir_is_bare(subs[d], p->first) && d + 1 < t->rank && ir_is_bare(subs[d + 1], p->second))
      at = d;
    uses += subs[d]->kind == IR_INDEX && is_of(p, subs[d]->index);
  }
  if (!uses) return -1;
  bool whole = at >= 0 && uses == 2 && ir_size_same(t->dim[at], p->first->extent) &&
               ir_size_same(t->dim[at + 1], p->second->extent);
  return whole && pass_lies_in_rows(t) ? at : -2;
}

static bool follows(const pass_joint *p, const ir_expr *e);

static bool subs_follow(const pass_joint *p, const ir_tensor *t, ir_expr *const *subs) {
  int at = pass_joint_place(p, t, subs);
  for (int d = 0; d < t->rank && at > -2; d++)
    if (at < 0 || d < at || d > at + 1) at = follows(p, subs[d]) ? at : -2;
  return at > -2;
}

static bool follows(const pass_joint *p, const ir_expr *e) {
  int bound = 0;
  if (!e) return true;
  if (e->kind == IR_INDEX) return !is_of(p, e->index);
  for (int i = 0; i < e->bound_count; i++) bound += is_of(p, e->bound[i]);
  if (bound == 1 || (bound && (e->kind != IR_REDUCE || e->reducer == IR_RED_ARGMAX))) return false;
  if (e->kind == IR_ACCESS) return subs_follow(p, e->tensor, e->args);
  for (int i = 0; i < e->arg_count; i++)
    if (!follows(p, e->args[i])) return false;
  return true;
}

bool pass_joint_in_stmt(const pass_joint *p, const ir_stmt *stmt) {
  int free = 0;
  for (int i = 0; i < stmt->free.count; i++) free += is_of(p, stmt->free.at[i]);
  return free != 1 && !(free && ir_is_scatter(stmt)) && subs_follow(p, stmt->target, stmt->subs) &&
         follows(p, stmt->value) && follows(p, stmt->cond) && follows(p, stmt->sample) &&
         follows(p, stmt->support) && follows(p, stmt->stores);
}

/* A schedule that speaks of the first means it alone. */
static bool is_scheduled(const ir_schedule *schedule, const ir_index *index) {
  for (int i = 0; schedule && i < schedule->directives.count; i++)
    for (int n = 0; n < schedule->directives.at[i].count; n++)
      if (schedule->directives.at[i].name[n] &&
          !strcmp(schedule->directives.at[i].name[n], index->name))
        return true;
  return false;
}

bool pass_joint_is_free(const ir_kernel *kernel, const pass_joint *p) {
  if (p->first == p->second || p->first->offsets || p->second->offsets ||
      is_scheduled(kernel->schedule, p->first))
    return false;
  for (int i = 0; i < kernel->indices.count; i++) {
    const ir_index *other = kernel->indices.at[i];
    if (other->segment && is_of(p, other->segment)) return false;
  }
  return true;
}

/* ---- making them one ------------------------------------------------------------------------- */
static void drop(ir_expr **at, int place, int count) {
  memmove(at + place, at + place + 1, sizeof *at * (size_t)(count - place - 1));
}

static ir_tensor *tensor_of(pass_joint *p, ir_tensor *t, int at) {
  return p->tensor_of ? p->tensor_of(p, t, at) : t;
}

static ir_expr *joined(ir_arena *a, pass_joint *p, ir_expr *e) {
  if (e && e->kind == IR_INDEX && e->index == p->second) return ir_index_ref(a, p->one);
  if (!e || (!e->arg_count && !e->bound_count)) return e;
  ir_expr **args = IR_NEW_ARRAY(a, ir_expr *, e->arg_count + 1);
  for (int i = 0; i < e->arg_count; i++) args[i] = joined(a, p, e->args[i]);
  int at = e->kind == IR_ACCESS ? pass_joint_place(p, e->tensor, e->args) : -1;
  ir_expr *made = ir_copy_with(a, e, args);
  if (at >= 0) {
    drop(args, at, e->arg_count);
    made->args = args;
    made->arg_count = e->arg_count - 1;
    made->tensor = tensor_of(p, e->tensor, at);
  }
  made->bound = IR_NEW_ARRAY(a, ir_index *, e->bound_count + 1);
  made->bound_count = 0;
  for (int i = 0; i < e->bound_count; i++)
    if (e->bound[i] != p->first)
      made->bound[made->bound_count++] = e->bound[i] == p->second ? p->one : e->bound[i];
  return made;
}

void pass_joint_make(ir_arena *a, pass_joint *p, ir_stmt *stmt) {
  int at = pass_joint_place(p, stmt->target, stmt->subs), kept = 0, rank = stmt->target->rank;
  for (int d = 0; d < rank; d++) stmt->subs[d] = joined(a, p, stmt->subs[d]);
  if (at >= 0) {
    drop(stmt->subs, at, rank);
    stmt->target = tensor_of(p, stmt->target, at);
  }
  for (int i = 0; i < stmt->free.count; i++)
    if (stmt->free.at[i] != p->first)
      stmt->free.at[kept++] = stmt->free.at[i] == p->second ? p->one : stmt->free.at[i];
  stmt->free.count = kept;
  ir_expr **const in[] = {&stmt->value, &stmt->cond, &stmt->sample, &stmt->support, &stmt->stores};
  for (size_t e = 0; e < sizeof in / sizeof *in; e++) *in[e] = joined(a, p, *in[e]);
}

void pass_joint_dims(ir_tensor *t, ir_arena *arena, int at) {
  t->dim[at] = ir_apply(arena, IR_OP_MUL, t->dim[at], t->dim[at + 1]);
  drop(t->dim, at + 1, t->rank);
  t->rank--;
}
