/* interp_ein_pattern.c - the elements that a sparse result stores.
 *
 * Where an entry is stored is a condition (stores.c).  Looking at every element of a large sparse
 * result would never end, so candidates come first: the condition becomes a tree of stored entries,
 * intersections, unions and projections (any[k] forgets its indices), and enumeration goes down the
 * tree with a list of what is still to be satisfied; an access visits its entries that agree with
 * the indices set so far, and sets the others.  What is no pattern (a comparison, not, all[k])
 * leaves out nothing there.  Each candidate is then asked for, as any condition is. */
#include "ir/interp_ein.h"

typedef enum pattern_kind { ALL, NOTHING, ENTRIES, BOTH, EITHER, FORGET } pattern_kind;

typedef struct pattern pattern;
struct pattern {
  pattern_kind kind;
  node *access;      /* ENTRIES */
  pattern *a, *b;    /* BOTH, EITHER; FORGET has a */
  const ir_expr *of; /* FORGET: the reduction */
};

/* ---- from a condition to its pattern --------------------------------------------------------- */
static pattern *leaf(interp *r, pattern_kind kind) {
  pattern *p = IR_NEW(r->arena, pattern);
  p->kind = kind;
  return p;
}

static pattern *both(interp *r, pattern *a, pattern *b) {
  if (a->kind == ALL || b->kind == NOTHING) return b;
  if (b->kind == ALL || a->kind == NOTHING) return a;
  pattern *p = leaf(r, BOTH);
  p->a = a, p->b = b;
  return p;
}

static pattern *either(interp *r, pattern *a, pattern *b) {
  if (a->kind == ALL || b->kind == NOTHING) return a;
  if (b->kind == ALL || a->kind == NOTHING) return b;
  pattern *p = leaf(r, EITHER);
  p->a = a, p->b = b;
  return p;
}

/* looks: a condition on values is asked where it can be true at all. */
static pattern *make_pattern(interp *r, const ir_expr *e, bool looks);

static pattern *pattern_of_entries(interp *r, const ir_expr *access) {
  const store *s = ein_store(r, access->tensor);
  if (s->dense && !s->stored) return leaf(r, ALL);
  pattern *p = leaf(r, ENTRIES);
  p->access = ein_compile(r, access);
  return p;
}

static pattern *pattern_of_any(interp *r, const ir_expr *e, bool looks) {
  pattern *body = make_pattern(r, e->args[0], looks);
  if (body->kind == ALL || body->kind == NOTHING) return body;
  pattern *p = leaf(r, FORGET);
  p->a = body, p->of = e;
  return p;
}

/* A comparison is false where what it compares is not stored: A[i,j] > 0.  What stores that may
 * hold the comparison itself (topk), so it is looked into once. */
static pattern *pattern_of_condition(interp *r, const ir_expr *e, bool looks) {
  ir_expr *stores = looks ? ir_stores_of(r->arena, e) : NULL;
  return stores ? make_pattern(r, stores, false) : leaf(r, ALL);
}

static pattern *make_pattern(interp *r, const ir_expr *e, bool looks) {
  if (e->kind == IR_CONST) return leaf(r, e->i ? ALL : NOTHING);
  if (e->kind == IR_STORED) return pattern_of_entries(r, e->args[0]);
  if (e->kind == IR_ACCESS && e->tensor->dtype == IR_NONE) return pattern_of_entries(r, e);
  if (e->kind == IR_REDUCE && e->reducer == IR_RED_ANY) return pattern_of_any(r, e, looks);
  if (e->kind == IR_OP && e->op == IR_OP_AND)
    return both(r, make_pattern(r, e->args[0], looks), make_pattern(r, e->args[1], looks));
  if (e->kind == IR_OP && e->op == IR_OP_OR)
    return either(r, make_pattern(r, e->args[0], looks), make_pattern(r, e->args[1], looks));
  return pattern_of_condition(r, e, looks);
}

/* ---- enumeration ----------------------------------------------------------------------------- */
typedef struct search {
  interp *r;
  const ir_stmt *stmt;
  ir_entries *out;
} search;

/* What is still to be satisfied; `restore` stands for the end of a FORGET: its indices get back the
 * values that they had outside. */
typedef struct pending {
  const pattern *p;
  const struct pending *next;
  const int64_t *restore;
} pending;

static void satisfy(search *s, const pending *todo);

static void push_entry(search *s) {
  ir_entries *out = s->out;
  int rank = out->rank;
  if (out->count == out->capacity) {
    out->capacity = out->capacity ? out->capacity * 2 : 256;
    int64_t *at = ir_array_new(s->r->arena, IR_I64, out->capacity * rank).data;
    if (out->count) memcpy(at, out->at, sizeof(int64_t) * (size_t)(out->count * rank));
    out->at = at;
  }
  for (int d = 0; d < rank; d++)
    out->at[out->count * rank + d] = s->r->at[ein_slot(s->r, s->stmt->subs[d]->index)];
  out->count++;
}

static bool inside_dims(search *s) {
  for (int d = 0; d < s->out->rank; d++) {
    int64_t size = 0;
    (void)ir_size_value(s->stmt->target->dim[d], s->r->sizes, &size);
    if (s->r->at[ein_slot(s->r, s->stmt->subs[d]->index)] >= size) return false;
  }
  return true;
}

/* ---- indices that follow from others --------------------------------------------------------- */
/* The segment that a row lies in which is set already; -1: none is set. */
static int64_t implied_segment(interp *r, const ir_index *index) {
  for (int i = 0; i < r->kernel->indices.count; i++) {
    ir_index *ragged = r->kernel->indices.at[i];
    if (ragged->segment == index && r->at[i] >= 0)
      return ein_segments(r, ragged)->segment[r->at[i]];
  }
  return -1;
}

/* What an index that is not set can be: rows of the segment, where that is set. */
static void range_of(interp *r, ir_index *index, int64_t *begin, int64_t *end) {
  int64_t segment = index->segment ? r->at[ein_slot(r, index->segment)] : -1;
  *begin = *end = 0;
  (void)ir_size_value(index->extent, r->sizes, end);
  if (segment < 0) return;
  const segments *g = ein_segments(r, index);
  *begin = segment < g->count ? g->begin[segment] : 0;
  *end = segment < g->count ? g->end[segment] : 0;
}

/* Every index of the target is set, or takes all its values here. */
static void emit(search *s, int d) {
  interp *r = s->r;
  if (d == s->out->rank) {
    if (ein_step(r) && inside_dims(s)) push_entry(s);
    return;
  }
  ir_index *index = s->stmt->subs[d]->index;
  int slot = ein_slot(r, index);
  if (r->at[slot] >= 0) {
    emit(s, d + 1);
    return;
  }
  int64_t begin, end;
  range_of(r, index, &begin, &end);
  for (int64_t v = begin; v < end && !r->status; v++) {
    r->at[slot] = v;
    emit(s, d + 1);
  }
  r->at[slot] = -1;
}

typedef struct entry_visit {
  search *s;
  const pending *next;
  const node *access;
  bool set[IR_MAX_RANK]; /* axes whose index this access sets */
} entry_visit;

static bool visit_entry(void *user, const int64_t *at, int64_t position) {
  (void)position;
  entry_visit *v = user;
  interp *r = v->s->r;
  bool agrees = ein_step(r);
  for (int a = 0; a < v->access->count; a++)
    if (v->set[a]) {
      int64_t end = 0; /* x[i+0] of a longer x: not all of its entries are looked at */
      (void)ir_size_value(r->kernel->indices.at[v->access->sub_slot[a]]->extent, r->sizes, &end);
      r->at[v->access->sub_slot[a]] = at[a];
      agrees &= at[a] < end;
    }
  for (int a = 0; a < v->access->count; a++) /* the same index twice: a diagonal */
    agrees &= v->access->sub_slot[a] < 0 || r->at[v->access->sub_slot[a]] == at[a];
  if (agrees) satisfy(v->s, v->next);
  return r->status == SPC_OK;
}

static ir_index *unset_index(const interp *r, const ir_expr *e) {
  if (e->kind == IR_INDEX) return r->at[ein_slot(r, e->index)] < 0 ? e->index : NULL;
  for (int i = 0; i < e->arg_count; i++) {
    ir_index *index = unset_index(r, e->args[i]);
    if (index) return index;
  }
  return NULL;
}

/* A computed subscript cannot be solved for its index: the index takes all its values. */
static bool set_by_counting(search *s, const pending *todo, const node *access) {
  interp *r = s->r;
  for (int a = 0; a < access->count; a++) {
    ir_index *index = access->sub_slot[a] < 0 ? unset_index(r, access->expr->args[a]) : NULL;
    int64_t begin, end;
    if (!index) continue;
    range_of(r, index, &begin, &end);
    for (int64_t v = begin; v < end && ein_step(r); v++) {
      r->at[ein_slot(r, index)] = v;
      satisfy(s, todo);
    }
    r->at[ein_slot(r, index)] = -1;
    return true;
  }
  return false;
}

static void satisfy_entries(search *s, const pending *todo) {
  node *access = todo->p->access;
  interp *r = s->r;
  int64_t fixed[IR_MAX_RANK];
  entry_visit v = {.s = s, .next = todo->next, .access = access};
  const store *tensor = access->tensor;
  if (set_by_counting(s, todo, access)) return;
  for (int a = 0; a < access->count; a++) {
    int slot = access->sub_slot[a];
    v.set[a] = slot >= 0 && r->at[slot] < 0;
    fixed[a] = v.set[a] ? implied_segment(r, r->kernel->indices.at[slot]) : -1;
    if (!v.set[a] && !ein_subscript(r, access, a, &fixed[a])) return;
  }
  ir_view_walk_where(tensor->stored ? tensor->stored : &tensor->view, fixed, visit_entry, &v);
  for (int a = 0; a < access->count; a++)
    if (v.set[a]) r->at[access->sub_slot[a]] = -1;
}

/* The bound indices are unset inside; the `restore` entry after the body gives the outer values
 * back. */
static void satisfy_forget(search *s, const pending *todo) {
  interp *r = s->r;
  const ir_expr *e = todo->p->of;
  int64_t outer[IR_MAX_RANK];
  int count = e->bound_count < IR_MAX_RANK ? e->bound_count : IR_MAX_RANK;
  for (int b = 0; b < count; b++) {
    outer[b] = r->at[ein_slot(r, e->bound[b])];
    r->at[ein_slot(r, e->bound[b])] = -1;
  }
  pending end = {todo->p, todo->next, outer}, body = {todo->p->a, &end, NULL};
  satisfy(s, &body);
  for (int b = 0; b < count; b++) r->at[ein_slot(r, e->bound[b])] = outer[b];
}

static void satisfy_end(search *s, const pending *todo) {
  interp *r = s->r;
  const ir_expr *e = todo->p->of;
  int64_t inner[IR_MAX_RANK];
  int count = e->bound_count < IR_MAX_RANK ? e->bound_count : IR_MAX_RANK;
  for (int b = 0; b < count; b++) {
    int64_t *at = &r->at[ein_slot(r, e->bound[b])];
    inner[b] = *at;
    *at = todo->restore[b];
  }
  satisfy(s, todo->next);
  for (int b = 0; b < count; b++) r->at[ein_slot(r, e->bound[b])] = inner[b];
}

static void satisfy(search *s, const pending *todo) {
  if (s->r->status) return;
  if (!todo) {
    emit(s, 0);
    return;
  }
  const pattern *p = todo->p;
  if (todo->restore) {
    satisfy_end(s, todo);
  } else if (p->kind == ALL) {
    satisfy(s, todo->next);
  } else if (p->kind == ENTRIES) {
    satisfy_entries(s, todo);
  } else if (p->kind == BOTH) {
    pending right = {p->b, todo->next, NULL}, left = {p->a, &right, NULL};
    satisfy(s, &left);
  } else if (p->kind == EITHER) {
    pending one = {p->a, todo->next, NULL}, other = {p->b, todo->next, NULL};
    satisfy(s, &one);
    satisfy(s, &other);
  } else if (p->kind == FORGET) {
    satisfy_forget(s, todo);
  }
}

void ein_pattern(interp *r, const ir_stmt *stmt, const ir_expr *stores, const int64_t *dims,
                 ir_entries *out) {
  *out = (ir_entries){.rank = stmt->target->rank};
  for (int i = 0; i < r->kernel->indices.count; i++) r->at[i] = -1;
  search s = {r, stmt, out};
  pending all = {make_pattern(r, stores, true), NULL, NULL};
  satisfy(&s, &all);
  const char *why = NULL;
  ir_view view;
  const ir_format *list = ir_format_builtin(r->arena, "coo", out->rank, NULL, 0, &why);
  if (r->status || ir_view_pack(r->arena, IR_NONE, dims, list, IR_I64, out, &view, &why)) return;
  ir_view_entries(r->arena, &view, out);
}
