/* join.c - pass `join` (15): indices that always follow one another become one.
 *
 * needs:  canon
 * keeps:  the meaning; names of tensors, their elements and order in memory
 * breaks: ranks: callers' tensors remember how they were declared (ir_declared)
 *
 *     before   let h[b,t,f] = relu(sum[d] x[b,t,d]*W[f,d]) ~ zeros(dynamic);  out y[b,t,o] = sum[f] h[b,t,f]*V[f,o];
 *     after    let h[t,f]   = relu(sum[d] x[t,d]*W[f,d]) ~ zeros(dynamic);    out y[t,o]   = sum[f] h[t,f]*V[f,o];     t: B*T
 *
 * Lists of zeros, their strips and all kernels that go by them are of matrices, so it is done where a tensor of three dimensions
 * or more has zeros that are known at run time only.  Two indices are one where every subscript with either has both, the second
 * right behind the first, along dimensions that they go through, of dense tensors that lie row by row; nothing else asks for
 * either, and what is summed over one is summed over both. */
#include "passes/expr.h"
#include "passes/pass.h"

typedef struct pair {
  ir_kernel *kernel;
  ir_index *first, *second; /* first goes */
} pair;

static bool is_of(const pair *p, const ir_index *index) { return index == p->first || index == p->second; }

/* ---- whether they are one -------------------------------------------------------------------- */
static bool lies_in_rows(const ir_tensor *t) {
  return !t->like && !t->by_value && !t->pitch[0] && (!t->format || ir_format_is_row_major(t->format));
}

/* Where the pair begins among these subscripts: -1 where neither is one; -2 where they are anything else but one pair. */
static int place_of(const pair *p, const ir_tensor *t, ir_expr *const *subs) {
  int at = -1, uses = 0;
  for (int d = 0; d < t->rank; d++) {
    if (ir_is_bare(subs[d], p->first) && d + 1 < t->rank && ir_is_bare(subs[d + 1], p->second)) at = d;
    uses += subs[d]->kind == IR_INDEX && is_of(p, subs[d]->index);
  }
  if (!uses) return -1;
  bool whole = at >= 0 && uses == 2 && ir_size_same(t->dim[at], p->first->extent) && ir_size_same(t->dim[at + 1], p->second->extent);
  return whole && lies_in_rows(t) ? at : -2;
}

static bool follows(const pair *p, const ir_expr *e);

static bool subs_follow(const pair *p, const ir_tensor *t, ir_expr *const *subs) {
  int at = place_of(p, t, subs);
  for (int d = 0; d < t->rank && at > -2; d++)
    if (at < 0 || d < at || d > at + 1) at = follows(p, subs[d]) ? at : -2;
  return at > -2;
}

static bool follows(const pair *p, const ir_expr *e) {
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

static bool stmt_follows(const pair *p, const ir_stmt *stmt) {
  int free = 0;
  for (int i = 0; i < stmt->free.count; i++) free += is_of(p, stmt->free.at[i]);
  return free != 1 && !(free && ir_is_scatter(stmt)) && subs_follow(p, stmt->target, stmt->subs) && follows(p, stmt->value) &&
         follows(p, stmt->cond) && follows(p, stmt->sample) && follows(p, stmt->support) && follows(p, stmt->stores);
}

/* ---- every use of a tensor has the pair, or none has ------------------------------------------ */
typedef struct using {
  const pair *p;
  const ir_tensor *tensor;
  int at; /* where the first use has it; -3: there was none */
  bool alike;
} using;

static void note_use(using *u, const ir_tensor *t, ir_expr *const *subs) {
  if (t != u->tensor) return;
  int at = place_of(u->p, t, subs);
  u->alike = u->alike && (u->at == -3 || u->at == at);
  u->at = at;
}

static bool note_access(void *user, ir_expr *e) {
  if (e->kind == IR_ACCESS) note_use(user, e->tensor, e->args);
  return true;
}

static int pair_in(const pair *p, const ir_tensor *tensor, bool *alike) {
  using u = {.p = p, .tensor = tensor, .at = -3, .alike = true};
  for (int i = 0; i < p->kernel->stmts.count; i++) {
    ir_stmt *stmt = p->kernel->stmts.at[i];
    ir_expr *const in[] = {stmt->value, stmt->cond, stmt->sample, stmt->support, stmt->stores};
    note_use(&u, stmt->target, stmt->subs);
    for (int d = 0; d < stmt->target->rank; d++) (void)ir_expr_walk(stmt->subs[d], note_access, &u);
    for (size_t e = 0; e < sizeof in / sizeof *in; e++)
      if (in[e]) (void)ir_expr_walk(in[e], note_access, &u);
  }
  *alike = u.alike;
  return u.at;
}

/* Others lean on its shape: tensors like it, ragged indices with offsets from it, what must hold of its sizes. */
static bool is_leant_on(const ir_kernel *kernel, const ir_tensor *t) {
  for (int i = 0; i < kernel->tensors.count; i++)
    if (kernel->tensors.at[i]->like == t) return true;
  for (int i = 0; i < kernel->needs.count; i++)
    if (kernel->needs.at[i].tensor == t) return true;
  return false;
}

static bool tensors_follow(const pair *p) {
  for (int i = 0; i < p->kernel->tensors.count; i++) {
    bool alike;
    int at = pair_in(p, p->kernel->tensors.at[i], &alike);
    if (!alike || (at >= 0 && is_leant_on(p->kernel, p->kernel->tensors.at[i]))) return false;
  }
  return true;
}

/* A schedule that speaks of the first means it alone. */
static bool is_scheduled(const pair *p) {
  const ir_schedule *schedule = p->kernel->schedule;
  for (int i = 0; schedule && i < schedule->directives.count; i++)
    for (int n = 0; n < schedule->directives.at[i].count; n++)
      if (schedule->directives.at[i].name[n] && !strcmp(schedule->directives.at[i].name[n], p->first->name)) return true;
  return false;
}

static bool is_one(const pair *p) {
  if (p->first == p->second || p->first->offsets || p->second->offsets || is_scheduled(p)) return false;
  for (int i = 0; i < p->kernel->indices.count; i++) {
    const ir_index *other = p->kernel->indices.at[i];
    if (other->segment && is_of(p, other->segment)) return false;
  }
  for (int i = 0; i < p->kernel->stmts.count; i++)
    if (!stmt_follows(p, p->kernel->stmts.at[i])) return false;
  return tensors_follow(p);
}

static bool find(pair *p) {
  for (int i = 0; i < p->kernel->stmts.count; i++) {
    const ir_stmt *stmt = p->kernel->stmts.at[i];
    for (int d = 0; d + 1 < stmt->target->rank; d++) {
      if (stmt->subs[d]->kind != IR_INDEX || stmt->subs[d + 1]->kind != IR_INDEX) continue;
      p->first = stmt->subs[d]->index;
      p->second = stmt->subs[d + 1]->index;
      if (is_one(p)) return true;
    }
  }
  return false;
}

/* ---- making them one ------------------------------------------------------------------------- */
static void drop(ir_expr **at, int place, int count) { memmove(at + place, at + place + 1, sizeof *at * (size_t)(count - place - 1)); }

static ir_expr *joined(ir_arena *a, const pair *p, ir_expr *e) {
  if (!e || (!e->arg_count && !e->bound_count)) return e;
  ir_expr **args = IR_NEW_ARRAY(a, ir_expr *, e->arg_count + 1);
  for (int i = 0; i < e->arg_count; i++) args[i] = joined(a, p, e->args[i]);
  int at = e->kind == IR_ACCESS ? place_of(p, e->tensor, e->args) : -1;
  ir_expr *made = ir_copy_with(a, e, args);
  if (at >= 0) {
    drop(args, at, e->arg_count);
    made->args = args;
    made->arg_count = e->arg_count - 1;
  }
  for (int i = 0; i < e->bound_count; i++) {
    if (e->bound[i] != p->first) continue;
    made->bound = IR_NEW_ARRAY(a, ir_index *, e->bound_count);
    made->bound_count = 0;
    for (int b = 0; b < e->bound_count; b++)
      if (b != i) made->bound[made->bound_count++] = e->bound[b];
  }
  return made;
}

static void join_stmt(ir_arena *a, const pair *p, ir_stmt *stmt) {
  int at = place_of(p, stmt->target, stmt->subs), kept = 0;
  for (int d = 0; d < stmt->target->rank; d++) stmt->subs[d] = joined(a, p, stmt->subs[d]);
  if (at >= 0) drop(stmt->subs, at, stmt->target->rank);
  for (int i = 0; i < stmt->free.count; i++)
    if (stmt->free.at[i] != p->first) stmt->free.at[kept++] = stmt->free.at[i];
  stmt->free.count = kept;
  ir_expr **const in[] = {&stmt->value, &stmt->cond, &stmt->sample, &stmt->support, &stmt->stores};
  for (size_t e = 0; e < sizeof in / sizeof *in; e++) *in[e] = joined(a, p, *in[e]);
}

static void join_tensor(ir_arena *a, ir_tensor *t, int at) {
  bool callers = t->role == IR_ROLE_IN || t->role == IR_ROLE_OUT;
  const char *why;
  if (callers && !t->declared) t->declared = ir_declare(a, t, t->rank, t->dim);
  t->dim[at] = ir_apply(a, IR_OP_MUL, t->dim[at], t->dim[at + 1]);
  drop(t->dim, at + 1, t->rank);
  t->rank--;
  if (t->format || callers) t->format = ir_format_builtin(a, "dense", t->rank, NULL, 0, &why);
  if (t->pattern.axis == at + 1 || t->pattern.axis == at) t->pattern.axis = -1;
  if (t->pattern.axis > at) t->pattern.axis--;
}

static void join(ir_arena *a, const pair *p) {
  ir_kernel *kernel = p->kernel;
  int *at = IR_NEW_ARRAY(a, int, kernel->tensors.count + 1);
  bool alike;
  for (int i = 0; i < kernel->tensors.count; i++) at[i] = pair_in(p, kernel->tensors.at[i], &alike);
  for (int i = 0; i < kernel->stmts.count; i++) join_stmt(a, p, kernel->stmts.at[i]);
  for (int i = 0; i < kernel->tensors.count; i++)
    if (at[i] >= 0) join_tensor(a, kernel->tensors.at[i], at[i]);
  p->second->extent = ir_apply(a, IR_OP_MUL, p->first->extent, p->second->extent);
}

static bool wants_matrices(const ir_kernel *kernel) {
  for (int i = 0; i < kernel->tensors.count; i++)
    if (kernel->tensors.at[i]->rank > 2 && kernel->tensors.at[i]->pattern.zeros == IR_ZEROS_DYNAMIC) return true;
  return false;
}

spc_status pass_join(pass_context *context, ir_kernel *kernel) {
  pair p = {.kernel = kernel};
  while (wants_matrices(kernel) && find(&p)) join(context->arena, &p);
  return SPC_OK;
}
