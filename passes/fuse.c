/* fuse.c - pass `fuse` (40): merges statements that one kernel can compute.
 *
 * needs:  propagate, permute
 * keeps:  the meaning of every output; the three shapes of `canon`
 * breaks: lets and temporaries that were merged are gone
 *
 *     let s[t,f] = sum[d] x[t,d]*W[d,f]
 *     let h[t,f] = relu(s[t,f] + b[f])          let h[t,f] = relu((sum[d] x[t,d]*W[d,f]) + b[f])
 *
 *     let u[t,f] = sum[d] x[t,d]*Wu[d,f]        y.0[t,f]   = g[t,f] * sum[d] x[t,d]*Wu[d,f]
 *     out y[t,o] = sum[f] g[t,f]*u[t,f]*W[f,o]  out y[t,o] = sum[f] y.0[t,f]*W[f,o]
 *
 * Three ways: an elementwise reader becomes the epilogue of the reduction it reads; an elementwise
 * producer becomes part of its reader, where it is computed no more often or dequantises a stored
 * operand; factors over the same indices as a reduction become its epilogue, so that the reader
 * contracts one operand. A tensor whose zeros are found at run time stays a tensor: its epilogue
 * makes the index list that the reader uses. `fuse A into B` asks for one of these, the list
 * included; what no rule allows is an error with the rule. stmt->fused_why keeps every decision. */
#include "passes/fuse.h"
#include "passes/permute.h"

/* ---- reasons --------------------------------------------------------------------------------- */
static void note(ir_arena *arena, ir_stmt *stmt, const char *text) {
  if (stmt->fused_why != NULL && strstr(stmt->fused_why, text) != NULL) return;
  stmt->fused_why =
      stmt->fused_why == NULL ? text : ir_format_text(arena, "%s; %s", stmt->fused_why, text);
}

static void note_taken(ir_arena *arena, const pass_pair *p, const char *producer, const char *how) {
  if (p->from->fused_why != NULL) note(arena, p->into, p->from->fused_why);
  note(arena, p->into, ir_format_text(arena, "%s `%s`", how, producer));
}

/* ---- pairs ----------------------------------------------------------------------------------- */
static bool find_pair(pass_fusion *f, ir_stmt *from, pass_pair *out) {
  int count;
  const int *readers = pass_readers_of(f->uses, from->target, &count);
  for (int i = 0; i < count; i++) {
    ir_stmt *reader = pass_stmt_at(f->uses, readers[i]);
    if (reader == from) continue;
    *out = (pass_pair){from, reader, pass_find_access(reader->value, from->target)};
    if (out->use != NULL) return true;
  }
  return false;
}

static const char *how_inlined(const pass_pair *p) {
  if (!pass_is_elementwise(p->from->value)) return "epilogue of";
  return pass_is_elementwise(p->into->value) ? "one pass with" : "prologue";
}

static void do_inline(pass_fusion *f, const pass_pair *p) {
  note_taken(f->c->arena, p, p->from->target->name, how_inlined(p));
  pass_fuse_inline(f, p);
}

static void do_absorb(pass_fusion *f, const pass_pair *p) {
  const char *name = p->from->target->name;
  ir_stmt *stmt = pass_fuse_absorb(f, p);
  note(f->c->arena, stmt,
       ir_format_text(f->c->arena, "factors of `%s` are the epilogue of `%s`",
                      p->into->target->name, name));
}

/* ---- the default ----------------------------------------------------------------------------- */
static void try_fuse(pass_fusion *f, ir_stmt *from) {
  pass_pair pair;
  if (from->target->role == IR_ROLE_OUT || pass_use_of(f->uses, from->target)->readers != 1) return;
  if (!find_pair(f, from, &pair)) return;
  if (pass_fuse_refusal(f, &pair, false) == NULL)
    do_inline(f, &pair);
  else if (pass_absorb_refusal(f, &pair) == NULL)
    do_absorb(f, &pair);
}

static void note_apart(pass_fusion *f, ir_stmt *from) {
  pass_pair pair;
  if (from->target->role == IR_ROLE_OUT || !find_pair(f, from, &pair)) return;
  note(f->c->arena, from,
       ir_format_text(f->c->arena, "not into `%s`: %s", pair.into->target->name,
                      pass_fuse_refusal(f, &pair, false)));
}

/* Statements are tried in order; one that a merge changed, and what it reads, is tried again
 * before those behind it. */
static void fuse_all(pass_fusion *f) {
  for (int row; (row = pass_queue_take(&f->waiting)) >= 0;)
    if (!f->uses->list.at[row].gone) try_fuse(f, pass_stmt_at(f->uses, row));
  pass_uses_settle(f->uses);
  for (int i = 0; i < f->kernel->stmts.count; i++) note_apart(f, f->kernel->stmts.at[i]);
}

/* ---- directives ------------------------------------------------------------------------------ */
static bool refuse(pass_context *c, const ir_directive *d, const char *why) {
  ir_diag_add(c->sink, IR_DIAG_FUSE_REFUSED, d->span, "`%s` cannot be fused into `%s`: %s",
              d->tensor, d->into, why);
  return false;
}

static bool fuse_asked(pass_fusion *f, ir_directive *d) {
  pass_context *c = f->c;
  ir_kernel *kernel = f->kernel;
  ir_tensor *from = ir_tensor_named(kernel, d->tensor), *into = ir_tensor_named(kernel, d->into);
  if (from == NULL || from->def == NULL) return refuse(c, d, "no statement defines the first");
  if (into == NULL || into->def == NULL) return refuse(c, d, "no statement defines the second");
  pass_pair pair = {from->def, into->def, pass_find_access(into->def->value, from)};
  if (pair.use == NULL)
    return refuse(c, d, ir_format_text(c->arena, "`%s` does not read it", d->into));
  d->applied = true;
  const char *why = pass_fuse_refusal(f, &pair, true);
  if (why == NULL) {
    do_inline(f, &pair);
  } else if (pass_absorb_refusal(f, &pair) == NULL) {
    do_absorb(f, &pair);
  } else if (pass_is_listed_by(c->arena, &pair)) {
    note(c->arena, pair.from,
         ir_format_text(c->arena, "its epilogue makes the index list of `%s`", d->into));
  } else {
    d->applied = false;
    return refuse(c, d, why);
  }
  return true;
}

spc_status pass_fuse(pass_context *context, ir_kernel *kernel) {
  bool ok = true;
  pass_fusion f;
  for (int i = 0; i < kernel->stmts.count; i++) kernel->stmts.at[i]->fused_why = NULL;
  pass_fusion_open(&f, context, kernel);
  for (int i = 0; kernel->schedule != NULL && i < kernel->schedule->directives.count; i++) {
    ir_directive *d = &kernel->schedule->directives.at[i];
    if (d->kind == IR_DO_FUSE) ok &= fuse_asked(&f, d);
  }
  if (!ok) return SPC_INVALID_INPUT;
  fuse_all(&f);
  for (int i = 0; i < kernel->stmts.count; i++) pass_find_axes(context->arena, kernel->stmts.at[i]);
  return SPC_OK;
}
