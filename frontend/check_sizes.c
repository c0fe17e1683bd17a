/* check_sizes.c - the size of every index and the shape of every tensor (rules 2 and 12).
 *
 * An index gets its size from the first access that uses it bare; every other such access must
 * agree. Shapes of lets and outs follow from their indices, so this runs to a fixed point over the
 * kernel. */
#include "frontend/check.h"

/* ---- sizes as numbers ---------------------------------------------------------------------- */
/* A dyn dim takes a value with many divisors, another one at each sample point. */
static int64_t sample(const ir_dim *dim, int point) {
  const int64_t divisible = 322560;
  return divisible * ir_size_sample(dim->number, point);
}

static bool size_at(const ir_expr *e, int point, int64_t *value) {
  int64_t x = 0, y = 0;
  if (e->kind == IR_CONST) {
    *value = e->i;
    return true;
  }
  if (e->kind == IR_DIM) {
    *value = e->dim->value >= 0 || point < 0 ? e->dim->value : sample(e->dim, point);
    return *value >= 0;
  }
  if (e->kind != IR_OP || e->arg_count != 2) return false;
  if (!size_at(e->args[0], point, &x) || !size_at(e->args[1], point, &y)) return false;
  if ((e->op == IR_OP_DIV || e->op == IR_OP_MOD) && y == 0) return false;
  if (e->op == IR_OP_DIV)
    *value = x / y - (x % y != 0 && (x < 0) != (y < 0));
  else if (e->op == IR_OP_MOD)
    *value = x % y + (x % y != 0 && (x < 0) != (y < 0) ? y : 0);
  else if (e->op == IR_OP_MUL)
    *value = (int64_t)((uint64_t)x * (uint64_t)y);
  else
    *value = (int64_t)(e->op == IR_OP_SUB ? (uint64_t)x - (uint64_t)y : (uint64_t)x + (uint64_t)y);
  return true;
}

bool fe_size_known(const ir_expr *size, int64_t *value) { return size_at(size, -1, value); }

bool fe_size_difference(const ir_expr *a, const ir_expr *b, int64_t *difference) {
  enum { POINTS = 5 };
  for (int point = 0; point < POINTS; point++) {
    int64_t x, y;
    if (!size_at(a, point, &x) || !size_at(b, point, &y)) return false;
    int64_t d = (int64_t)((uint64_t)x - (uint64_t)y);
    if (point && d != *difference) return false;
    *difference = d;
  }
  return true;
}

bool fe_size_same(const ir_expr *a, const ir_expr *b) {
  int64_t difference;
  return ir_expr_equal(a, b) || (fe_size_difference(a, b, &difference) && difference == 0);
}

/* ---- constraints --------------------------------------------------------------------------- */
typedef struct pass {
  fe_check *c;
  fe_stmt *stmt;
  bool changed;
  bool report; /* the last round: compare and say what disagrees */
} pass;

static const char *shown_size(fe_check *c, const ir_expr *size) {
  int64_t value;
  const char *text = fe_size_text(c, size);
  if (size->kind != IR_CONST && fe_size_known(size, &value))
    return ir_format_text(c->arena, "%s = %lld", text, (long long)value);
  return text;
}

/* Said once an index; every statement in which it disagrees is bad. */
static void disagree(fe_check *c, fe_stmt *stmt, fe_symbol *s, const ir_expr *size, ir_span span,
                     const char *of) {
  stmt->bad = true;
  if (s->disagrees) return;
  s->disagrees = true;
  ir_diag *d = fe_error(c, IR_DIAG_INDEX_SIZES, span,
                        "the index `%s` has size %s here (%s), but %s elsewhere", s->name,
                        shown_size(c, size), of, shown_size(c, s->size));
  ir_diag_note(c->sink, d, s->size_span, "%s gives it %s", s->size_of, shown_size(c, s->size));
}

static void constrain(pass *p, fe_symbol *s, ir_expr *size, ir_span span, const char *of) {
  if (s->bad || !size) return;
  if (!s->size) {
    s->size = size;
    s->size_span = span;
    s->size_of = of;
    p->changed = true;
  } else if (p->report && !fe_size_same(s->size, size)) {
    disagree(p->c, p->stmt, s, size, span, of);
  }
}

static bool is_index(const fe_expr *sub) {
  return fe_is_bare_index(sub) && sub->symbol && sub->symbol->kind == FE_SYM_INDEX;
}

static void visit_access(pass *p, const fe_expr *e) {
  const fe_symbol *t = e->symbol;
  if (!t || t->kind != FE_SYM_TENSOR) return;
  for (int i = 0; i < e->args.count; i++) {
    if (!is_index(e->args.at[i])) continue;
    if (!t->shaped && t->bad)
      e->args.at[i]->symbol->bad =
          e->args.at[i]->symbol->size == NULL || e->args.at[i]->symbol->bad;
    if (!t->shaped || e->args.at[i]->symbol->counted == t)
      continue; /* off[e]: e is one short of the axis */
    const char *of = ir_format_text(p->c->arena, "dimension %d of `%s`", i, t->name);
    constrain(p, e->args.at[i]->symbol, t->tensor->dim[i], e->args.at[i]->at, of);
  }
}

static void visit(pass *p, const fe_expr *e) {
  if (e->kind == FE_ACCESS) visit_access(p, e);
  for (int i = 0; i < e->args.count; i++) visit(p, e->args.at[i]);
}

static void visit_target(pass *p, fe_stmt *stmt) {
  fe_symbol *t = stmt->symbol;
  for (int i = 0; i < stmt->target->args.count; i++) visit(p, stmt->target->args.at[i]);
  if (t->shaped) {
    if (!t->bad) visit_access(p, stmt->target);
    return;
  }
  bool all = !t->bad;
  for (int i = 0; i < t->tensor->rank && all; i++) {
    const fe_expr *sub = stmt->target->args.at[i];
    ir_expr *size = is_index(sub) && !sub->symbol->bad ? sub->symbol->size : NULL;
    t->tensor->dim[i] = size;
    all = size != NULL;
  }
  if (!all) return;
  t->shaped = p->changed = true;
}

static void visit_all(pass *p, const fe_kernel *kernel) {
  for (int i = 0; i < kernel->members.count; i++) {
    fe_stmt *stmt = kernel->members.at[i].kind == FE_STMT ? kernel->members.at[i].stmt : NULL;
    if (!stmt || stmt->bad || !stmt->symbol) continue;
    p->stmt = stmt;
    stmt->target->symbol = stmt->symbol;
    visit(p, stmt->value);
    if (stmt->cond) visit(p, stmt->cond);
    visit_target(p, stmt);
  }
}

/* ---- indices without a size ---------------------------------------------------------------- */
static bool text_names(const fe_check *c, ir_span text, const char *name) {
  const fe_tokens *all = &c->file->tokens;
  for (int i = 0; i < all->list.count; i++) {
    const fe_token *t = &all->list.at[i];
    if (t->begin < text.begin || t->end > text.end || t->end - t->begin != strlen(name)) continue;
    if (!memcmp(c->file->text + t->begin, name, strlen(name))) return true;
  }
  return false;
}

/* Could a member that has its own fault have given the size? */
static bool may_be_lost(const fe_check *c, const fe_kernel *kernel, const char *name) {
  for (int i = 0; i < kernel->lost_text.count; i++)
    if (text_names(c, kernel->lost_text.at[i], name)) return true;
  for (int i = 0; i < kernel->members.count; i++) {
    const fe_member *m = &kernel->members.at[i];
    if (m->kind == FE_STMT && m->stmt->bad && text_names(c, m->stmt->span, name)) return true;
  }
  return c->file->broken || kernel->broken;
}

static const char *stated_shape(fe_check *c, const fe_stmt *stmt) {
  ir_text text = ir_text_new(c->arena);
  ir_text_put(&text, stmt->dtype ? "[" : " : f32[");
  for (int i = 0; i < stmt->target->args.count; i++) {
    const fe_expr *sub = stmt->target->args.at[i];
    bool known = is_index(sub) && sub->symbol->size;
    ir_text_printf(&text, "%s%s", i ? "," : "", known ? fe_size_text(c, sub->symbol->size) : "N");
  }
  ir_text_put(&text, "]");
  return text.data;
}

static void no_size(fe_check *c, const fe_stmt *stmt, fe_symbol *s, bool on_left) {
  s->bad = true;
  if (may_be_lost(c, c->syntax, s->name)) return;
  ir_diag *d =
      fe_error(c, IR_DIAG_INDEX_NO_SIZE, s->span, "nothing gives the index `%s` a size", s->name);
  if (!on_left) {
    ir_diag_note(c->sink, d, IR_NOWHERE,
                 "an index takes its size from an access that uses it bare, such as `x[%s]`",
                 s->name);
    return;
  }
  uint32_t at = stmt->dtype ? stmt->dtype_span.end : stmt->value_end;
  ir_diag_fix(c->sink, d, (ir_span){stmt->span.file, at, at}, stated_shape(c, stmt),
              "state the shape of `%s`", stmt->target->name);
}

static void check_bound(fe_check *c, fe_stmt *stmt, const fe_expr *e) {
  for (int i = 0; i < e->over.count; i++) {
    if (!e->over.at[i]->bad && !e->over.at[i]->size) no_size(c, stmt, e->over.at[i], false);
    if (e->over.at[i]->bad) stmt->bad = true;
  }
  for (int i = 0; i < e->args.count; i++) check_bound(c, stmt, e->args.at[i]);
}

static void check_stmt(fe_check *c, fe_stmt *stmt) {
  for (int i = 0; i < stmt->free.count; i++) {
    fe_symbol *s = stmt->free.at[i];
    if (!s->bad && !s->size) no_size(c, stmt, s, !stmt->scatter);
    if (s->bad) stmt->bad = true;
  }
  check_bound(c, stmt, stmt->value);
  if (stmt->cond) check_bound(c, stmt, stmt->cond);
  if (stmt->bad) stmt->symbol->bad = true;
}

/* A ragged index that no statement uses has no size, and the program has no need of it. */
static void drop_unsized(ir_arena *arena, ir_kernel *kernel) {
  ir_map gone = {0};
  for (int i = 0; i < kernel->indices.count; i++)
    if (!kernel->indices.at[i]->extent && kernel->indices.at[i]->offsets)
      ir_map_set(arena, &gone, kernel->indices.at[i], 0);
  if (gone.used) ir_indices_drop(kernel, &gone);
}

void fe_sizes_check(fe_check *c, fe_kernel *kernel) {
  pass p = {.c = c};
  do {
    p.changed = false;
    visit_all(&p, kernel);
  } while (p.changed);
  p.report = true;
  visit_all(&p, kernel);
  for (int i = 0; i < kernel->members.count; i++) {
    fe_stmt *stmt = kernel->members.at[i].kind == FE_STMT ? kernel->members.at[i].stmt : NULL;
    if (stmt && !stmt->bad && stmt->symbol) check_stmt(c, stmt);
    if (stmt && stmt->bad && stmt->symbol) stmt->symbol->bad = true;
  }
  for (int i = 0; i < c->symbols.count; i++)
    if (c->symbols.at[i]->kind == FE_SYM_INDEX)
      c->symbols.at[i]->index->extent = c->symbols.at[i]->size;
  drop_unsized(c->arena, c->kernel);
}
