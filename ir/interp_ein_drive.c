/* interp_ein_drive.c - a sum over the stored entries of a sparse factor.
 *
 * sum[k] A[i,k]*B[k,j] with a sparse A: where A stores nothing the product is 0 (rule 4), so that
 * only A's entries in row i are visited.  A's entries are packed once more with the axes that stand
 * still outermost, unless its format has them there already. */
#include "ir/interp_ein.h"

/* ---- choosing the factor ------------------------------------------------------------------- */
static loop *loop_of(const node *n, int slot) {
  for (int l = 0; l < n->loop_count; l++)
    if (n->loops[l].slot == slot) return &n->loops[l];
  return NULL;
}

static bool uses_loops(const interp *r, const node *n, const ir_expr *sub) {
  for (int l = 0; l < n->loop_count; l++)
    if (ir_expr_uses_index(sub, r->kernel->indices.at[n->loops[l].slot])) return true;
  return false;
}

/* What the access's entries are: its own, or those that a dense let would store. */
static const ir_view *entries_of(const node *access) {
  return access->tensor->stored ? access->tensor->stored : &access->tensor->view;
}

/* How many axes of the access the loops set; 0: it cannot drive. */
static int driven_axes(const interp *r, const node *n, const node *access, bool asks_stored) {
  int axes = 0;
  bool dense = access->tensor->dense && !(asks_stored && access->tensor->stored);
  if (dense || access->tensor->fill != 0) return 0;
  for (int a = 0; a < access->count; a++) {
    const loop *l = access->sub_slot[a] >= 0 ? loop_of(n, access->sub_slot[a]) : NULL;
    if (!l && uses_loops(r, n, access->expr->args[a])) return 0;
    for (int b = 0; l && b < a; b++)
      if (access->sub_slot[b] == access->sub_slot[a]) return 0;
    axes += l != NULL;
  }
  return axes;
}

static void choose(const interp *r, const node *n, node *factor, node **best, int *most) {
  bool asks_stored = factor->kind == IR_STORED;
  if (factor->kind == IR_OP && (factor->op == IR_OP_MUL || factor->op == IR_OP_AND)) {
    choose(r, n, factor->args[0], best, most);
    choose(r, n, factor->args[1], best, most);
    return;
  }
  while (factor->kind == IR_CAST || factor->kind == IR_STORED) factor = factor->args[0];
  if (factor->kind != IR_ACCESS) return;
  int axes = driven_axes(r, n, factor, asks_stored);
  if (axes <= *most) return;
  *most = axes;
  *best = factor;
}

/* ---- the copy -------------------------------------------------------------------------------- */
static bool fixed_come_first(const drive *d) {
  const ir_format *f = d->view.format;
  bool free_seen = false;
  for (int k = 0; k < f->level_count; k++) {
    bool is_free = d->axis_loop[f->level[k].dim] != NULL;
    if (free_seen && !is_free) return false;
    free_seen |= is_free;
  }
  return true;
}

static const ir_format *fixed_first_format(interp *r, const drive *d) {
  const ir_view *view = &d->view;
  ir_format *f = IR_NEW(r->arena, ir_format);
  f->name = "fixed_first";
  f->rank = view->rank;
  for (int pass = 0; pass < 2; pass++)
    for (int a = 0; a < view->rank; a++)
      if ((d->axis_loop[a] != NULL) == (pass == 1))
        f->level[f->level_count++] = (ir_level){.kind = IR_LEVEL_COMPRESSED, .dim = a};
  if (view->dim[f->level[0].dim] <= 1 << 20) f->level[0].kind = IR_LEVEL_DENSE;
  ir_format_settle(f);
  return f;
}

static void copy_fixed_first(interp *r, drive *d) {
  const store *s = d->access->tensor;
  ir_entries entries;
  const char *why = NULL;
  ir_dtype dtype = s->f ? IR_F64 : s->i ? IR_I64 : IR_NONE;
  if (s->stored) dtype = IR_NONE;
  ir_view from = d->view;
  ir_view_entries(r->arena, &from, &entries);
  if (ir_view_pack(r->arena, dtype, from.dim, fixed_first_format(r, d), IR_I64, &entries, &d->view,
                   &why))
    r->status = SPC_INTERNAL;
  d->f = dtype == IR_F64 ? d->view.vals.data : NULL;
  d->i = dtype == IR_I64 ? d->view.vals.data : NULL;
}

static bool ragged_stands_alone(const node *n) {
  for (int l = 0; l < n->loop_count; l++)
    if (n->loops[l].ragged && loop_of(n, n->loops[l].segment_slot)) return false;
  return true;
}

void ein_compile_drive(interp *r, node *n) {
  node *access = NULL;
  int most = 0;
  bool strict = n->is_float && r->options && r->options->strict_nan;
  if ((n->reducer != IR_RED_SUM && n->reducer != IR_RED_ANY) || strict || !ragged_stands_alone(n))
    return;
  choose(r, n, n->args[0], &access, &most);
  if (!access) return;
  drive *d = IR_NEW(r->arena, drive);
  d->access = access;
  for (int a = 0; a < access->count; a++)
    d->axis_loop[a] = access->sub_slot[a] >= 0 ? loop_of(n, access->sub_slot[a]) : NULL;
  for (int l = 0; l < n->loop_count; l++) {
    bool set = false;
    for (int a = 0; a < access->count; a++) set |= d->axis_loop[a] == &n->loops[l];
    if (!set && d->rest_count < IR_MAX_RANK)
      d->rest[d->rest_count++] = &n->loops[l];
    else if (!set)
      return;
  }
  d->view = *entries_of(access);
  d->f = access->tensor->stored ? NULL : access->tensor->f;
  d->i = access->tensor->stored ? NULL : access->tensor->i;
  if (!fixed_come_first(d)) copy_fixed_first(r, d);
  n->drive = d;
}

/* ---- running --------------------------------------------------------------------------------- */
typedef struct driving {
  interp *r;
  const drive *d;
  void (*visit)(interp *r, void *user);
  void *user;
} driving;

static void rest_loops(driving *v, int depth) {
  if (depth == v->d->rest_count) {
    v->visit(v->r, v->user);
    return;
  }
  int64_t begin, end;
  ein_loop_range(v->r, v->d->rest[depth], &begin, &end);
  for (int64_t x = begin; x < end && !v->r->status; x++)
    if (ein_loop_set(v->r, v->d->rest[depth], x)) rest_loops(v, depth + 1);
}

static bool visit_entry(void *user, const int64_t *at, int64_t position) {
  driving *v = user;
  const drive *d = v->d;
  for (int a = 0; a < d->view.rank; a++)
    if (d->axis_loop[a] &&
        (at[a] >= d->axis_loop[a]->extent || !ein_loop_set(v->r, d->axis_loop[a], at[a])))
      return true;
  if (d->f)
    d->access->driven_f = d->f[position];
  else
    d->access->driven_i = d->i ? d->i[position] : 1;
  d->access->driven = true;
  rest_loops(v, 0);
  d->access->driven = false;
  return v->r->status == SPC_OK;
}

void ein_drive(interp *r, node *n, void (*visit)(interp *r, void *user), void *user) {
  driving v = {r, n->drive, visit, user};
  int64_t fixed[IR_MAX_RANK];
  for (int a = 0; a < n->drive->access->count; a++) {
    fixed[a] = -1;
    if (!n->drive->axis_loop[a] && !ein_subscript(r, n->drive->access, a, &fixed[a])) return;
  }
  ir_view_walk_where(&n->drive->view, fixed, visit_entry, &v);
}
