/* verify_ein.c - the rules of tensors, indices and statements. */
#include "ir/verify.h"

static void enter(ir_checker *c, const char *kind, const char *name, ir_span span) {
  c->where = ir_format_text(c->arena, "%s `%s`", kind, name ? name : "?");
  c->span = span;
}

/* ---- names --------------------------------------------------------------------------------- */
static void check_name(ir_checker *c, ir_table *names, const char *name) {
  if (!ir_table_find(&c->dim_names, name) && ir_table_add(c->arena, names, name, c)) return;
  ir_fault(c, c->kernel->span, "two dims, tensors or indices of kernel `%s` are called `%s`",
           c->kernel->name, name);
}

static void check_names(ir_checker *c) {
  const ir_kernel *k = c->kernel;
  ir_table names = {0};
  for (int i = 0; i < k->tensors.count; i++) check_name(c, &names, k->tensors.at[i]->name);
  for (int i = 0; i < k->indices.count; i++) check_name(c, &names, k->indices.at[i]->name);
}

/* ---- tensors ------------------------------------------------------------------------------- */
static void check_like(ir_checker *c, const ir_tensor *t) {
  const ir_tensor *at = t;
  for (int hops = 0; at->like; hops++, at = at->like) {
    if (!ir_owns(c, at->like)) {
      ir_fault(c, t->span, "it is like a tensor that the kernel does not have");
      return;
    }
    if (hops > c->kernel->tensors.count) {
      ir_fault(c, t->span, "it is like itself");
      return;
    }
  }
  if (t->like && t->like->rank != t->rank)
    ir_fault(c, t->span, "it is like a tensor of another rank");
}

static void check_format(ir_checker *c, const ir_tensor *t) {
  if (!t->format) return;
  const char *fault = ir_format_fault(t->format);
  if (fault)
    ir_fault(c, t->span, "its format is not legal: %s", fault);
  else if (t->format->rank != t->rank)
    ir_fault(c, t->span, "its format has %d dimensions, the tensor %d", t->format->rank, t->rank);
}

static void check_pitch(ir_checker *c, const ir_tensor *t) {
  bool callers = t->role == IR_ROLE_IN || t->role == IR_ROLE_OUT;
  if (!t->pitch[0]) return;
  if (!callers || t->rank < 2 || t->like || (t->format && !ir_format_is_dense(t->format)))
    ir_fault(c, t->span, "only a dense input or output with rows has a pitch");
  for (int l = 0; l + 1 < t->rank; l++) {
    if (!t->pitch[l] || t->pitch[l]->kind != IR_DIM)
      ir_fault(c, t->span, "its pitch is not a dim for every axis that lies around its rows");
    if (t->pitch[l]) ir_check_size(c, t->pitch[l], "the pitch");
  }
}

static void check_declared(ir_checker *c, const ir_tensor *t) {
  const ir_tensor *given = t->declared;
  bool callers = t->role == IR_ROLE_IN || t->role == IR_ROLE_OUT;
  if (!given) return;
  if (!callers || t->like || t->pitch[0] || !t->format || !ir_format_is_row_major(t->format) || given->declared) {
    ir_fault(c, t->span, "only a dense, row-major input or output without a pitch is given in another shape");
    return;
  }
  for (int d = 0; d < given->rank; d++) ir_check_size(c, given->dim[d], "the size of a dimension as given");
}

static void check_def(ir_checker *c, const ir_tensor *t) {
  if (t->def && t->role == IR_ROLE_IN) ir_fault(c, t->span, "an input has a statement");
  if (t->def && !ir_owns(c, t->def)) ir_fault(c, t->span, "its statement is not in the kernel");
  if (!t->def && t->role == IR_ROLE_OUT) ir_fault(c, t->span, "no statement computes this output");
}

static void check_tensor(ir_checker *c, const ir_tensor *t) {
  enter(c, "tensor", t->name, t->span);
  if (t->rank < 0 || t->rank > IR_MAX_RANK || (unsigned)t->dtype >= IR_DTYPE_COUNT) {
    ir_fault(c, t->span, "its rank or dtype is out of range");
    return;
  }
  for (int i = 0; i < t->rank; i++) {
    ir_check_size(c, t->dim[i], "the size of a dimension");
    if (t->dim[i] && t->dim[i]->kind == IR_CONST && t->dim[i]->i < 0)
      ir_fault(c, t->span, "its size is negative");
  }
  if (t->pattern.axis >= t->rank) ir_fault(c, t->span, "the axis of its zeros is out of range");
  if (!t->dtype && t->role != IR_ROLE_IN && !t->like && !t->format)
    ir_fault(c, t->span, "a pattern needs a format");
  if (t->by_value && (!t->format || t->like || !t->dtype || t->role == IR_ROLE_IN))
    ir_fault(c, t->span, "only a result with values and a format of its own is stored by value");
  check_format(c, t);
  check_like(c, t);
  check_pitch(c, t);
  check_declared(c, t);
  check_def(c, t);
}

/* ---- indices ------------------------------------------------------------------------------- */
static void check_ragged(ir_checker *c, const ir_index *index) {
  const ir_index *at = index;
  if (!index->offsets || !index->segment || !ir_owns(c, index->offsets)) {
    ir_fault(c, index->span, "a ragged index needs an array of offsets and a segment");
    return;
  }
  if (index->offsets->rank != 1 || !ir_dtype_is_int(index->offsets->dtype))
    ir_fault(c, index->span, "its offsets must be a vector of integers");
  if (index->offsets->role != IR_ROLE_IN) ir_fault(c, index->span, "its offsets must be an input");
  for (int hops = 0; at->segment; hops++, at = at->segment) {
    if (!ir_owns(c, at->segment) || hops > c->kernel->indices.count) {
      ir_fault(c, index->span, "its segment is not an index of the kernel, or itself");
      return;
    }
  }
}

static void check_index(ir_checker *c, const ir_index *index) {
  enter(c, "index", index->name, index->span);
  ir_check_size(c, index->extent, "the extent of an index");
  if (index->offsets || index->segment) check_ragged(c, index);
}

/* ---- statements ---------------------------------------------------------------------------- */
static bool check_free(ir_checker *c, const ir_stmt *s) {
  for (int i = 0; i < s->free.count; i++) {
    if (!ir_owns(c, s->free.at[i])) {
      ir_fault(c, s->span, "it ranges over an index that the kernel does not have");
      return false;
    }
    for (int k = 0; k < i; k++)
      if (s->free.at[k] == s->free.at[i])
        ir_fault(c, s->span, "it ranges twice over `%s`", s->free.at[i]->name);
    IR_PUSH(c->arena, &c->bound, s->free.at[i]);
  }
  return true;
}

/* An assignment's subscripts are the indices that it ranges over, each once. */
static void check_assignment(ir_checker *c, const ir_stmt *s) {
  int rank = s->target->rank;
  for (int i = 0; i < rank; i++) {
    bool bare = s->subs[i]->kind == IR_INDEX;
    for (int k = 0; k < i && bare; k++) bare = !ir_is_bare(s->subs[k], s->subs[i]->index);
    if (!bare) {
      ir_fault(c, s->subs[i]->span,
               "a subscript of an assignment is a bare index, each another; "
               "a scatter says how values combine, as in `+=`");
      return;
    }
  }
  if (s->free.count != rank) ir_fault(c, s->span, "an assignment ranges over its subscripts");
}

static void check_target(ir_checker *c, const ir_stmt *s) {
  int before = c->faults;
  for (int i = 0; i < s->target->rank; i++) ir_check_dtype(c, s->subs[i], IR_I64, "a subscript");
  if (c->faults != before) return;
  if (!ir_is_scatter(s))
    check_assignment(c, s);
  else if ((unsigned)s->combine >= IR_RED_COUNT || s->combine == IR_RED_ARGMAX)
    ir_fault(c, s->span, "a scatter cannot combine values this way");
}

static void check_value(ir_checker *c, const ir_stmt *s) {
  int before = c->faults;
  ir_check_expr(c, s->value);
  if (c->faults != before) return;
  if (ir_dtype_is_float(s->value->dtype) != ir_dtype_is_float(s->target->dtype))
    ir_fault(c, s->value->span, "the value is %s, the tensor %s; it needs a cast",
             ir_dtype_text(s->value->dtype), ir_dtype_text(s->target->dtype));
  if (s->acc <= IR_NONE || s->acc >= IR_DTYPE_COUNT) ir_fault(c, s->span, "it has no accumulator");
}

static void check_axes(ir_checker *c, const ir_stmt *s) {
  for (int i = 0; i < s->axes.count; i++)
    if (!ir_owns(c, s->axes.at[i].index))
      ir_fault(c, s->span, "a finding is about an index that the kernel does not have");
}

/* Sample and support speak of the whole statement: reduced indices may occur in them. */
static void check_findings(ir_checker *c, const ir_stmt *s) {
  c->bound.count = 0;
  c->any_index = true;
  if (s->sample) ir_check_dtype(c, s->sample, IR_B1, "a sample condition");
  if (s->support) ir_check_dtype(c, s->support, IR_B1, "a support condition");
  c->any_index = false;
}

/* ---- order ----------------------------------------------------------------------------------- */
typedef struct reads {
  ir_checker *c;
  ir_map computed; /* by the statements before the one at hand */
} reads;

static bool is_known(const reads *r, const ir_tensor *tensor) {
  return tensor->role == IR_ROLE_IN || ir_map_find(&r->computed, tensor, -1) >= 0;
}

static bool check_read(void *user, ir_expr *e) {
  const reads *r = user;
  if (e->kind == IR_ACCESS && !is_known(r, e->tensor))
    ir_fault(r->c, e->span, "it reads `%s`, which no statement before it computes",
             e->tensor->name);
  return true;
}

/* Statements run as they are listed: what one reads is an input or was computed before. */
static void check_order(reads *r, const ir_stmt *s) {
  enter(r->c, "statement of", s->target->name, s->span);
  for (int i = 0; i < s->target->rank; i++) (void)ir_expr_walk(s->subs[i], check_read, r);
  (void)ir_expr_walk(s->value, check_read, r);
  if (s->cond) (void)ir_expr_walk(s->cond, check_read, r);
  if (s->sample) (void)ir_expr_walk(s->sample, check_read, r);
  if (s->target->like && !is_known(r, s->target->like))
    ir_fault(r->c, s->span, "it is stored like `%s`, which no statement before it computes",
             s->target->like->name);
  ir_map_set(r->c->arena, &r->computed, s->target, 0);
}

static void check_stmt(ir_checker *c, const ir_stmt *s) {
  c->bound.count = 0;
  if (!s->target || !ir_owns(c, s->target)) {
    ir_fault(c, s->span, "a statement computes a tensor that the kernel does not have");
    return;
  }
  enter(c, "statement of", s->target->name, s->span);
  if (s->target->def != s) ir_fault(c, s->span, "it is not the definition of its tensor");
  if (!check_free(c, s)) return;
  check_target(c, s);
  check_value(c, s);
  if (s->cond) ir_check_dtype(c, s->cond, IR_B1, "the condition");
  if (s->stores) ir_check_dtype(c, s->stores, IR_B1, "where a result stores");
  check_axes(c, s);
  check_findings(c, s);
}

static void check_need(ir_checker *c, const ir_require *need) {
  c->where = "a condition on sizes";
  c->span = need->span;
  if (!need->tensor || !ir_owns(c, need->tensor) || need->dim < 0 ||
      need->dim >= need->tensor->rank || need->multiple < 0)
    ir_fault(c, need->span, "it is about no dimension of the kernel");
  if (need->least) ir_check_size(c, need->least, "the least subscript");
  if (need->most) ir_check_size(c, need->most, "the greatest subscript");
  for (int i = 0; i < need->over.count; i++)
    if (!ir_owns(c, need->over.at[i])) ir_fault(c, need->span, "it is about an index of no kernel");
}

void ir_check_ein(ir_checker *c) {
  const ir_kernel *kernel = c->kernel;
  check_names(c);
  for (int i = 0; i < kernel->tensors.count; i++) check_tensor(c, kernel->tensors.at[i]);
  for (int i = 0; i < kernel->indices.count; i++) check_index(c, kernel->indices.at[i]);
  for (int i = 0; i < kernel->needs.count; i++) check_need(c, &kernel->needs.at[i]);
  if (c->faults) return;
  for (int i = 0; i < kernel->stmts.count; i++) check_stmt(c, kernel->stmts.at[i]);
  reads r = {.c = c};
  for (int i = 0; i < kernel->stmts.count && !c->faults; i++) check_order(&r, kernel->stmts.at[i]);
}
