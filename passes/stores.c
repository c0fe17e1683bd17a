/* stores.c - see stores.h. */
#include "passes/stores.h"

#include "passes/expr.h"
#include "passes/storage.h"

void pass_stores_note(pass_context *c, ir_kernel *kernel) {
  ir_expr **stores = IR_NEW_ARRAY(c->arena, ir_expr *, kernel->stmts.count + 1);
  ir_stores_of_kernel(c->arena, kernel, stores);
  for (int i = 0; i < kernel->stmts.count; i++) kernel->stmts.at[i]->stores = stores[i];
}

/* ---- asking ---------------------------------------------------------------------------------- */
bool pass_stores_asks(const ir_expr *e, const ir_tensor *tensor) {
  if (e == NULL) return false;
  if (e->kind == IR_STORED && e->args[0]->tensor == tensor) return true;
  for (int i = 0; i < e->arg_count; i++)
    if (pass_stores_asks(e->args[i], tensor)) return true;
  return false;
}

bool pass_stores_reads(const ir_expr *e, const ir_tensor *tensor) {
  if (e == NULL) return false;
  if (e->kind == IR_ACCESS && e->tensor == tensor) return true;
  const ir_expr *of = e->kind == IR_STORED ? e->args[0] : e; /* its subscripts are read */
  for (int i = 0; i < of->arg_count; i++)
    if (pass_stores_reads(of->args[i], tensor)) return true;
  return false;
}

bool pass_stores_any(const ir_expr *e) {
  if (e->kind == IR_STORED) return true;
  for (int i = 0; i < e->arg_count; i++)
    if (pass_stores_any(e->args[i])) return true;
  return false;
}

ir_expr *pass_stores_at(ir_arena *arena, ir_expr *access) {
  ir_expr *e = ir_node_new(arena, IR_STORED, IR_B1, 1, 1);
  e->args[0] = access;
  return e;
}

static bool rounds(const ir_expr *e) {
  if (!ir_dtype_is_float(e->dtype)) return false;
  if (e->kind == IR_SOFTMAX) return true;
  if (e->kind == IR_REDUCE) return e->reducer == IR_RED_SUM || e->reducer == IR_RED_PROD;
  return e->kind == IR_OP && e->op != IR_OP_NEG && e->op != IR_OP_ABS && e->op != IR_OP_MIN &&
         e->op != IR_OP_MAX && e->op != IR_OP_WHERE;
}

bool pass_stores_round(const ir_expr *e) {
  if (e == NULL || e->kind == IR_STORED) return false;
  if (rounds(e)) return true;
  for (int i = 0; i < e->arg_count; i++)
    if (pass_stores_round(e->args[i])) return true;
  return false;
}

/* ---- patterns of conditions --------------------------------------------------------------------
 */
static ir_expr *pattern_of_pair(ir_arena *arena, const ir_expr *e) {
  ir_expr *x = pass_stores_of_condition(arena, e->args[0]);
  ir_expr *y = pass_stores_of_condition(arena, e->args[1]);
  if (e->op == IR_OP_OR) return x && y ? ir_apply(arena, IR_OP_OR, x, y) : NULL;
  return x && y ? ir_apply(arena, IR_OP_AND, x, y) : x ? x : y;
}

ir_expr *pass_stores_of_condition(ir_arena *arena, ir_expr *e) {
  if (e->kind == IR_ACCESS) {
    if (!pass_tensor_is_sparse(e->tensor)) return NULL;
    return e->tensor->dtype == IR_NONE ? e : pass_stores_at(arena, e);
  }
  if (e->kind == IR_CAST) return pass_stores_of_condition(arena, e->args[0]);
  if (e->kind == IR_REDUCE && e->reducer == IR_RED_ANY) {
    ir_expr *body = pass_stores_of_condition(arena, e->args[0]);
    return body ? ir_reduce(arena, IR_RED_ANY, e->bound, e->bound_count, body) : NULL;
  }
  if (e->kind != IR_OP) return NULL;
  if (e->op == IR_OP_AND || e->op == IR_OP_OR) return pattern_of_pair(arena, e);
  return e->op == IR_OP_NE ? pass_stores_of_condition(arena, e->args[0]) : NULL;
}

/* ---- parts ----------------------------------------------------------------------------------- */
typedef struct replacing {
  const ir_expr *from;
  ir_expr *to;
  bool found;
} replacing;

static ir_expr *replace_alike(void *user, ir_expr *e) {
  replacing *r = user;
  if (!ir_expr_alike(e, r->from)) return e;
  r->found = true;
  return r->to;
}

ir_expr *pass_stores_replace(ir_arena *arena, ir_expr *e, const ir_expr *from, ir_expr *to) {
  replacing r = {from, to, false};
  ir_expr *replaced = e && from ? pass_rewrite(arena, e, replace_alike, &r) : NULL;
  return r.found ? replaced : NULL;
}

ir_expr *pass_stores_points(ir_arena *arena, const ir_expr *reduce) {
  ir_expr *e = ir_stores_of(arena, reduce);
  while (e && e->kind == IR_OP && e->op == IR_OP_AND) e = e->args[1];
  bool any = e && e->kind == IR_REDUCE && e->reducer == IR_RED_ANY;
  return any && e->bound_count == reduce->bound_count ? e : NULL;
}

static int count_alike(const ir_expr *e, const ir_expr *pattern) {
  if (ir_expr_alike(e, pattern)) return 1;
  int count = 0;
  for (int i = 0; i < e->arg_count; i++) count += count_alike(e->args[i], pattern);
  return count;
}

ir_expr *pass_stores_replace_sum(ir_arena *arena, ir_expr *e, const ir_expr *reduce, ir_expr *to) {
  const ir_expr *points = pass_stores_points(arena, reduce);
  if (!e || !points) return NULL;
  ir_expr *replaced = pass_stores_replace(arena, e, ir_stores_of(arena, reduce), to);
  if (replaced || count_alike(e, points) != 1) return replaced;
  return pass_stores_replace(arena, e, points, to);
}

/* ---- temporaries ----------------------------------------------------------------------------- */
/* Every index of the access is the statement's, or the pattern's own: it stands where these are
 * bound.  (What stores sum[k] of rows alike stands outside of a sum over the rows.) */
static bool means_there(const ir_stmt *stmt, const ir_expr *pattern, const ir_expr *access) {
  for (int i = 0; i < access->arg_count; i++) {
    const ir_index *index = access->args[i]->index;
    bool known = ir_expr_uses_index(pattern, index);
    for (int f = 0; f < stmt->free.count && !known; f++)
      known = stmt->free.at[f] == index || stmt->free.at[f]->segment == index;
    if (!known) return false;
  }
  return true;
}

ir_expr *pass_stores_name(ir_arena *arena, ir_stmt *stmt, const ir_expr *value, ir_expr *access) {
  ir_expr *pattern = stmt->stores ? ir_stores_of(arena, value) : NULL;
  if (!pattern || pattern->kind == IR_CONST || !means_there(stmt, pattern, access)) return NULL;
  ir_expr *name = pass_stores_at(arena, access);
  ir_expr *named = pass_stores_replace(arena, stmt->stores, pattern, name);
  if (!named) return NULL;
  stmt->stores = named;
  return pattern;
}

/* ---- lets that are read no more -------------------------------------------------------------- */
static bool reads_through_memory(const ir_expr *access) {
  for (int i = 0; i < access->arg_count; i++)
    if (access->args[i]->kind == IR_ACCESS || reads_through_memory(access->args[i])) return true;
  return false;
}

static bool has_row_op(const ir_expr *e) {
  if (e->kind == IR_SOFTMAX || e->kind == IR_TOPK) return true;
  for (int i = 0; i < e->arg_count; i++)
    if (has_row_op(e->args[i])) return true;
  return false;
}

static ir_expr *pattern_of(ir_arena *arena, const ir_stmt *def) {
  ir_expr *pattern = ir_stores_of_stmt(arena, def);
  return pattern ? pattern : ir_const_i(arena, IR_B1, 1);
}

/* A gather that misses reads nothing, rows outside every segment store nothing, a row is gone
 * through along its own index: these are told where the let is computed. */
static bool can_say_at(const ir_stmt *def, const ir_expr *use) {
  if (reads_through_memory(use) || (def->stores && (has_row_op(def->stores) || !pass_segments_stay(def, def->stores, use))))
    return false;
  for (int d = 0; d < def->target->rank; d++) {
    if (def->subs[d]->kind != IR_INDEX) return false;
    const ir_index *index = def->subs[d]->index;
    if (index->offsets && !ir_is_bare(use->args[d], index)) return false;
  }
  return true;
}

bool pass_stores_can_inline(const ir_expr *e, const ir_stmt *def) {
  if (e == NULL) return true;
  if (e->kind == IR_STORED && e->args[0]->tensor == def->target && !can_say_at(def, e->args[0]))
    return false;
  for (int i = 0; i < e->arg_count; i++)
    if (!pass_stores_can_inline(e->args[i], def)) return false;
  return true;
}

static ir_expr *said_at(ir_arena *arena, ir_kernel *kernel, const ir_stmt *def,
                        const ir_expr *use) {
  ir_expr *pattern = pass_fresh_bound(arena, kernel, pattern_of(arena, def));
  return pass_at_access(arena, def, pattern, use);
}

typedef struct inlining {
  ir_arena *arena;
  ir_kernel *kernel;
  const ir_stmt *def;
} inlining;

static ir_expr *inline_node(void *user, ir_expr *e) {
  inlining *in = user;
  bool asks = e->kind == IR_STORED && e->args[0]->tensor == in->def->target;
  return asks ? said_at(in->arena, in->kernel, in->def, e->args[0]) : e;
}

ir_expr *pass_stores_inline(ir_arena *arena, ir_kernel *kernel, ir_expr *e, const ir_stmt *def) {
  return pass_rewrite(arena, e, inline_node, &(inlining){arena, kernel, def});
}

/* ---- what levels tell ------------------------------------------------------------------------ */
/* Every stored position is one entry: no blocks, no places without an element. */
static bool lists_single_entries(const ir_format *f) {
  for (int l = 0; l < f->level_count; l++) {
    ir_level_kind kind = f->level[l].kind;
    bool plain =
        kind == IR_LEVEL_DENSE || kind == IR_LEVEL_COMPRESSED || kind == IR_LEVEL_SINGLETON;
    if (!plain || f->level[l].map != IR_MAP_WHOLE) return false;
  }
  return f->level_count && f->level[f->level_count - 1].kind != IR_LEVEL_DENSE;
}

/* The levels of the tensor that is read hold an entry just where its definition stores one: it was
 * declared so, or it is assembled.  Shared levels may hold more. */
static bool levels_tell(ir_arena *arena, const ir_expr *access) {
  const ir_tensor *t = access->tensor;
  if (!t->def || !t->format_why) return true;
  if (t->by_value) return false;
  if (!t->like) return lists_single_entries(t->format);
  ir_expr *own = pass_stores_at(arena, ir_access(arena, t->like, t->def->subs));
  return ir_expr_equal(ir_stores_of_stmt(arena, t->def), own);
}

typedef struct settling {
  pass_context *c;
  ir_kernel *kernel;
  int at; /* the statement that asks; it moves when one is put before it */
  bool changed;
} settling;

/* `L.stored[i,j]`: what L stores, an element of memory each, in L's own indices. */
static ir_expr *settled(settling *s, ir_expr *e);

static ir_tensor *pattern_tensor(settling *s, const ir_stmt *def) {
  ir_arena *arena = s->c->arena;
  const ir_tensor *let = def->target;
  const char *name = ir_format_text(arena, "%s.stored", let->name);
  ir_tensor *known = ir_tensor_named(s->kernel, name);
  if (known && known->role == IR_ROLE_TEMP && known->dtype == IR_B1) return known;
  const char *why = NULL;
  ir_expr *value = settled(s, pattern_of(arena, def));
  ir_tensor *t = ir_tensor_new(s->kernel, ir_fresh_name(s->kernel, name), IR_ROLE_TEMP, IR_B1);
  t->rank = let->rank;
  memcpy(t->dim, let->dim, sizeof t->dim);
  t->span = let->span;
  t->format = ir_format_builtin(arena, "dense", t->rank, NULL, 0, &why);
  t->format_why = ir_format_text(
      arena, "a sparse result asks where `%s` has entries, and its own storage does not tell",
      let->name);
  ir_stmt *stmt = ir_stmt_new(s->kernel, t);
  memcpy(stmt->subs, def->subs, sizeof stmt->subs);
  stmt->free = def->free;
  stmt->combine = IR_RED_COUNT;
  stmt->acc = IR_B1;
  stmt->span = def->span;
  stmt->value = value;
  IR_PUSH(arena, &s->kernel->stmts, stmt);
  for (int i = s->kernel->stmts.count - 1; i > s->at; i--)
    s->kernel->stmts.at[i] = s->kernel->stmts.at[i - 1];
  s->kernel->stmts.at[s->at++] = stmt;
  return t;
}

static ir_expr *settle_node(void *user, ir_expr *e) {
  settling *s = user;
  ir_arena *arena = s->c->arena;
  if (e->kind != IR_STORED || levels_tell(arena, e->args[0])) return e;
  const ir_stmt *def = e->args[0]->tensor->def;
  ir_expr *said = can_say_at(def, e->args[0])
                      ? said_at(arena, s->kernel, def, e->args[0])
                      : ir_access(arena, pattern_tensor(s, def), e->args[0]->args);
  s->changed = true;
  return said;
}

/* What is said of a let may ask about lets before it. */
static ir_expr *settled(settling *s, ir_expr *e) {
  s->changed = true;
  while (s->changed) {
    s->changed = false;
    e = pass_rewrite(s->c->arena, e, settle_node, s);
  }
  return e;
}

void pass_stores_settle(pass_context *c, ir_kernel *kernel) {
  settling s = {.c = c, .kernel = kernel};
  for (s.at = 0; s.at < kernel->stmts.count; s.at++) {
    ir_stmt *stmt = kernel->stmts.at[s.at];
    if (stmt->stores && pass_stmt_is_assembled(stmt)) stmt->stores = settled(&s, stmt->stores);
  }
  for (int i = 0; i < kernel->stmts.count; i++)
    if (!pass_stmt_is_assembled(kernel->stmts.at[i])) kernel->stmts.at[i]->stores = NULL;
}
