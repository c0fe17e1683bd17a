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
 * or more has zeros that are known at run time only, and the two are a pair (joint.h) in every statement.  On a CPU also where one
 * tensor has three dimensions and another one is stored sparse: entries are walked over strips of a matrix's columns. */
#include "passes/joint.h"
#include "passes/storage.h"

/* ---- every use of a tensor has the pair, or none has ------------------------------------------ */
typedef struct using {
  const pass_joint *p;
  const ir_tensor *tensor;
  int at; /* where the first use has it; -3: there was none */
  bool alike;
} using;

static void note_use(using *u, const ir_tensor *t, ir_expr *const *subs) {
  if (t != u->tensor) return;
  int at = pass_joint_place(u->p, t, subs);
  u->alike = u->alike && (u->at == -3 || u->at == at);
  u->at = at;
}

static bool note_access(void *user, ir_expr *e) {
  if (e->kind == IR_ACCESS) note_use(user, e->tensor, e->args);
  return true;
}

static int pair_in(const ir_kernel *kernel, const pass_joint *p, const ir_tensor *tensor, bool *alike) {
  using u = {.p = p, .tensor = tensor, .at = -3, .alike = true};
  for (int i = 0; i < kernel->stmts.count; i++) {
    ir_stmt *stmt = kernel->stmts.at[i];
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

static bool tensors_follow(const ir_kernel *kernel, const pass_joint *p) {
  for (int i = 0; i < kernel->tensors.count; i++) {
    bool alike;
    int at = pair_in(kernel, p, kernel->tensors.at[i], &alike);
    if (!alike || (at >= 0 && is_leant_on(kernel, kernel->tensors.at[i]))) return false;
  }
  return true;
}

static bool is_one(const ir_kernel *kernel, const pass_joint *p) {
  if (!pass_joint_is_free(kernel, p)) return false;
  for (int i = 0; i < kernel->stmts.count; i++)
    if (!pass_joint_in_stmt(p, kernel->stmts.at[i])) return false;
  return tensors_follow(kernel, p);
}

static bool find(const ir_kernel *kernel, pass_joint *p) {
  for (int i = 0; i < kernel->stmts.count; i++) {
    const ir_stmt *stmt = kernel->stmts.at[i];
    for (int d = 0; d + 1 < stmt->target->rank; d++) {
      if (stmt->subs[d]->kind != IR_INDEX || stmt->subs[d + 1]->kind != IR_INDEX) continue;
      p->first = stmt->subs[d]->index;
      p->second = p->one = stmt->subs[d + 1]->index;
      if (is_one(kernel, p)) return true;
    }
  }
  return false;
}

/* ---- making them one ------------------------------------------------------------------------- */
static void join_tensor(ir_arena *a, ir_tensor *t, int at) {
  bool callers = t->role == IR_ROLE_IN || t->role == IR_ROLE_OUT;
  const char *why;
  if (callers && !t->declared) t->declared = ir_declare(a, t, t->rank, t->dim);
  pass_joint_dims(t, a, at);
  if (t->format || callers) t->format = ir_format_builtin(a, "dense", t->rank, NULL, 0, &why);
  if (t->pattern.axis == at + 1 || t->pattern.axis == at) t->pattern.axis = -1;
  if (t->pattern.axis > at) t->pattern.axis--;
}

static void join(ir_arena *a, ir_kernel *kernel, pass_joint *p) {
  int *at = IR_NEW_ARRAY(a, int, kernel->tensors.count + 1);
  bool alike;
  for (int i = 0; i < kernel->tensors.count; i++) at[i] = pair_in(kernel, p, kernel->tensors.at[i], &alike);
  for (int i = 0; i < kernel->stmts.count; i++) pass_joint_make(a, p, kernel->stmts.at[i]);
  for (int i = 0; i < kernel->tensors.count; i++)
    if (at[i] >= 0) join_tensor(a, kernel->tensors.at[i], at[i]);
  p->second->extent = ir_apply(a, IR_OP_MUL, p->first->extent, p->second->extent);
}

static bool wants_matrices(const ir_kernel *kernel, const ir_target *target) {
  bool cpu = target && target->kind == IR_TARGET_CPU, stored = false, listed = false, deep = false;
  for (int i = 0; i < kernel->tensors.count; i++) {
    const ir_tensor *t = kernel->tensors.at[i];
    stored |= pass_tensor_is_sparse(t);
    deep |= t->rank > 2;
    listed |= t->rank > 2 && t->pattern.zeros == IR_ZEROS_DYNAMIC;
  }
  return listed || (cpu && stored && deep);
}

spc_status pass_join(pass_context *context, ir_kernel *kernel) {
  pass_joint p = {0};
  while (wants_matrices(kernel, context->options->target) && find(kernel, &p)) join(context->arena, kernel, &p);
  return SPC_OK;
}
