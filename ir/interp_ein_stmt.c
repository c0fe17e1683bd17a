/* interp_ein_stmt.c - one statement: what it ranges over, where its results go.
 *
 * Four ways to a result: a dense array, the entries of the tensor it is `like`, an assembled sparse
 * tensor, and a scatter, whose elements are combined in f64 or i64 and rounded once at the end. */
#include "ir/interp_ein.h"

typedef struct work {
  interp *r;
  const ir_stmt *stmt;
  ir_tensor *target;
  int64_t dim[IR_MAX_RANK];
  node *value, *cond;
  const ir_expr *stores; /* where a sparse target has entries; NULL: everywhere */
  int loop_count;
  loop *loops;
  ir_view out;
  node *sub[IR_MAX_RANK]; /* scatter */
  double *total_f;        /* scatter: what has come together so far */
  int64_t *total_i;
} work;

/* ---- indices ------------------------------------------------------------------------------ */
static bool is_along(const ir_expr *e, const ir_index *index) {
  if ((e->kind == IR_SOFTMAX || e->kind == IR_TOPK) && e->bound[0] == index) return true;
  for (int i = 0; i < e->arg_count; i++)
    if (is_along(e->args[i], index)) return true;
  return false;
}

static bool stmt_uses(const ir_stmt *stmt, const ir_index *index) {
  for (int d = 0; d < stmt->target->rank; d++)
    if (ir_expr_uses_index(stmt->subs[d], index)) return true;
  return ir_expr_uses_index(stmt->value, index) ||
         (stmt->cond && ir_expr_uses_index(stmt->cond, index));
}

static bool in_list(ir_index *const *list, int count, const ir_index *index) {
  for (int i = 0; i < count; i++)
    if (list[i] == index) return true;
  return false;
}

/* Indices of an assignment are its left side's, softmax rows innermost so that a row is made once.
 */
static int assigned_indices(const work *w, ir_index **list) {
  int count = 0;
  for (int along = 0; along < 2; along++)
    for (int d = 0; d < w->target->rank; d++)
      if (is_along(w->stmt->value, w->stmt->subs[d]->index) == (along == 1))
        list[count++] = w->stmt->subs[d]->index;
  return count;
}

/* It is the segment of a row that e binds, and follows from it. */
static bool follows_inside(const ir_expr *e, const ir_index *index) {
  for (int i = 0; i < e->bound_count; i++)
    if (e->bound[i]->segment == index) return true;
  for (int i = 0; i < e->arg_count; i++)
    if (follows_inside(e->args[i], index)) return true;
  return false;
}

/* A scatter ranges over every index that it uses free; a segment that follows from its row does not
 * count. */
static int scattered_indices(const work *w, ir_index **list) {
  const ir_kernel *kernel = w->r->kernel;
  int count = 0;
  for (int i = 0; i < w->stmt->free.count; i++) list[count++] = w->stmt->free.at[i];
  for (int i = 0; i < kernel->indices.count; i++) {
    ir_index *index = kernel->indices.at[i];
    if (!in_list(list, count, index) && stmt_uses(w->stmt, index) &&
        !follows_inside(w->stmt->value, index))
      list[count++] = index;
  }
  return count;
}

/* ---- one element ---------------------------------------------------------------------------- */
typedef struct result {
  double f;
  int64_t i;
} result;

static result evaluate(work *w) {
  interp *r = w->r;
  result x = {0, 0};
  ir_dtype t = w->target->dtype;
  if (!ein_step(r)) return x;
  if (w->cond && !node_true(r, w->cond)) {
    x.f = w->stmt->fill;
    ir_dtype_store(IR_I64, &x.i, 0, w->stmt->fill);
  } else if (ir_dtype_is_float(t)) {
    x.f = node_float(r, w->value);
  } else if (t == IR_B1) {
    x.i = node_true(r, w->value);
  } else if (w->value->is_float) {
    ir_dtype_store(t, &x.i, 0, node_float(r, w->value));
    x.i = ir_dtype_load_int(t, &x.i, 0);
  } else {
    x.i = node_int(r, w->value);
  }
  return x;
}

static void put(work *w, int64_t position, result x) {
  if (ir_dtype_is_float(w->target->dtype))
    ir_dtype_store(w->target->dtype, w->out.vals.data, position, x.f);
  else
    ir_dtype_store_int(w->target->dtype, w->out.vals.data, position, x.i);
}

/* Sets the statement's indices to an element; false: a row in no segment, which is not computed. */
static bool set_element(work *w, const int64_t *at) {
  for (int l = 0; l < w->loop_count; l++)
    for (int d = 0; d < w->target->rank; d++)
      if (ein_slot(w->r, w->stmt->subs[d]->index) == w->loops[l].slot &&
          !ein_loop_set(w->r, &w->loops[l], at[d]))
        return false;
  return true;
}

/* ---- dense ----------------------------------------------------------------------------------- */
static bool is_dense_format(const ir_format *f) { return !f || ir_format_is_dense(f); }

static void allocate_dense(work *w, ir_dtype dtype) {
  ir_view_dense(w->r->arena, dtype, w->target->rank, w->dim, &w->out);
  if (w->target->format && ir_format_is_dense(w->target->format)) w->out.format = w->target->format;
}

static void dense_loop(work *w, int depth) {
  interp *r = w->r;
  if (depth < w->loop_count) {
    int64_t begin, end;
    ein_loop_range(r, &w->loops[depth], &begin, &end);
    for (int64_t v = begin; v < end && !r->status; v++)
      if (ein_loop_set(r, &w->loops[depth], v)) dense_loop(w, depth + 1);
    return;
  }
  int64_t at[IR_MAX_RANK];
  for (int d = 0; d < w->target->rank; d++) {
    at[d] = r->at[ein_slot(r, w->stmt->subs[d]->index)];
    if (at[d] >= w->dim[d]) return;
  }
  put(w, ir_view_locate(&w->out, at), evaluate(w));
}

static ir_dtype index_of(const work *w) { return ir_index_dtype(w->r->kernel, w->target); }

/* The values of a `let` may fit no fixed capacity: it stays dense then, its meaning is the same. */
static void store_as_declared(work *w) {
  const char *why = NULL;
  ir_view packed;
  if (is_dense_format(w->target->format)) return;
  if (!ir_view_convert(w->r->arena, &w->out, w->target->format, index_of(w), &packed, &why))
    w->out = packed;
  else if (w->target->role == IR_ROLE_OUT) {
    ir_diag_add(w->r->sink, IR_DIAG_PACK, w->target->span, "`%s`: %s", w->target->name, why);
    w->r->status = SPC_INVALID_INPUT;
  }
}

static void run_dense(work *w) {
  allocate_dense(w, w->target->dtype);
  dense_loop(w, 0);
  if (!w->r->status) store_as_declared(w);
}

/* ---- like, assembled ------------------------------------------------------------------------- */
static bool visit_like(void *user, const int64_t *at, int64_t position) {
  work *w = user;
  if (set_element(w, at)) put(w, position, evaluate(w));
  return w->r->status == SPC_OK;
}

static void run_like(work *w) {
  const store *x = ein_store(w->r, w->target->like);
  ir_view dense = x->view;
  w->out = x->view;
  w->out.dtype = w->target->dtype;
  int64_t count = x->view.vals.count;
  if (x->view.dtype == IR_NONE) { /* a pattern has no values to count */
    ir_entries entries = {0};
    const char *why = NULL;
    ir_view_entries(w->r->arena, &dense, &entries);
    entries.int_value = IR_NEW_ARRAY(w->r->arena, int64_t, entries.count);
    ir_dtype index = IR_I64;
    if (ir_view_pack(w->r->arena, IR_U8, w->dim, x->view.format, index, &entries, &dense, &why))
      w->r->status = SPC_INTERNAL;
    count = dense.vals.count;
  }
  w->out.vals = ir_array_new(w->r->arena, w->target->dtype, count);
  ir_view_walk(&w->out, visit_like, w);
}

/* The elements where the target stores an entry. */
static void stored_elements(work *w, ir_entries *entries) {
  int64_t kept = 0;
  size_t bytes = sizeof(int64_t) * (size_t)w->target->rank;
  ein_pattern(w->r, w->stmt, w->stores, w->dim, entries);
  node *stores = ein_compile(w->r, w->stores);
  for (int64_t e = 0; e < entries->count && !w->r->status; e++) {
    const int64_t *at = entries->at + e * entries->rank;
    if (!set_element(w, at) || !ein_step(w->r) || !node_true(w->r, stores)) continue;
    if (bytes) memmove(entries->at + kept * entries->rank, at, bytes);
    kept++;
  }
  entries->count = kept;
}

static void take_values(work *w, ir_entries *entries) {
  bool floats = ir_dtype_is_float(w->target->dtype);
  entries->value = floats ? ir_array_new(w->r->arena, IR_F64, entries->count).data : NULL;
  entries->int_value = floats ? NULL : ir_array_new(w->r->arena, IR_I64, entries->count).data;
  for (int64_t e = 0; e < entries->count && !w->r->status; e++) {
    if (!set_element(w, entries->at + e * entries->rank)) continue;
    result x = evaluate(w);
    if (floats)
      entries->value[e] = x.f;
    else
      entries->int_value[e] = ir_dtype_wrap(w->target->dtype, x.i);
  }
}

static void run_assembled(work *w) {
  interp *r = w->r;
  ir_entries entries;
  const char *why = NULL;
  stored_elements(w, &entries);
  take_values(w, &entries);
  if (r->status) return;
  if (!ir_view_pack(r->arena, w->target->dtype, w->dim, w->target->format, index_of(w), &entries,
                    &w->out, &why))
    return;
  if (w->target->role != IR_ROLE_OUT) {
    run_dense(w);
    return;
  }
  ir_diag_add(r->sink, IR_DIAG_PACK, w->target->span, "`%s`: %s", w->target->name, why);
  r->status = SPC_INVALID_INPUT;
}

/* What a dense let would store, where a sparse result asks. */
static ir_view *asked_pattern(work *w) {
  ir_entries entries;
  const char *why = NULL;
  ir_view *view = IR_NEW(w->r->arena, ir_view);
  stored_elements(w, &entries);
  const ir_format *list = ir_format_builtin(w->r->arena, "coo", w->target->rank, NULL, 0, &why);
  if (w->r->status ||
      ir_view_pack(w->r->arena, IR_NONE, w->dim, list, IR_I64, &entries, view, &why))
    return NULL;
  return view;
}

/* ---- scatter --------------------------------------------------------------------------------- */
static void combine(work *w, int64_t p, result x) {
  ir_op op = ir_reducer_rows[w->stmt->combine].combine;
  if (w->total_f)
    w->total_f[p] = ir_op_rows[op].eval((double[]){w->total_f[p], x.f});
  else
    w->total_i[p] = ir_op_rows[op].eval_int((int64_t[]){w->total_i[p], x.i});
  if (w->total_i && ir_dtype_is_int(w->stmt->acc))
    w->total_i[p] = ir_dtype_wrap(w->stmt->acc, w->total_i[p]);
}

static bool scatter_place(work *w, int64_t *p) {
  *p = 0;
  for (int d = 0; d < w->target->rank; d++) {
    int64_t c = node_int(w->r, w->sub[d]);
    if (c >= 0 && c < w->dim[d]) {
      *p = *p * w->dim[d] + c;
      continue;
    }
    if (ein_reads_memory(w->stmt->subs[d])) {
      ein_out_of_range(w->r, "`%s` is written at %lld along axis %d, whose size is %lld",
                       w->target->name, (long long)c, d, (long long)w->dim[d]);
    } else {
      ir_diag_add(w->r->sink, IR_DIAG_SUBSCRIPT_LEAVES, w->stmt->span,
                  "`%s` is written at %lld along axis %d, whose size is %lld", w->target->name,
                  (long long)c, d, (long long)w->dim[d]);
      w->r->status = SPC_INVALID_INPUT;
    }
    return false;
  }
  return true;
}

static void scatter_loop(work *w, int depth) {
  interp *r = w->r;
  int64_t begin, end, p;
  if (depth == w->loop_count) {
    if (w->cond && !node_true(r, w->cond)) return;
    if (scatter_place(w, &p)) combine(w, p, evaluate(w));
    return;
  }
  ein_loop_range(r, &w->loops[depth], &begin, &end);
  for (int64_t v = begin; v < end && !r->status; v++)
    if (ein_loop_set(r, &w->loops[depth], v)) scatter_loop(w, depth + 1);
}

static void run_scatter(work *w) {
  interp *r = w->r;
  ir_dtype t = w->target->dtype;
  ir_reducer combiner = w->stmt->combine;
  ir_view_dense(r->arena, t, w->target->rank, w->dim, &w->out);
  int64_t count = w->out.vals.count;
  bool floats = ir_dtype_is_float(t);
  if (floats)
    w->total_f = ir_array_new(r->arena, IR_F64, count).data;
  else
    w->total_i = ir_array_new(r->arena, IR_I64, count).data;
  for (int64_t p = 0; p < count; p++)
    if (floats)
      w->total_f[p] = ir_reducer_rows[combiner].identity;
    else
      w->total_i[p] = ir_reducer_identity_int(combiner, t);
  for (int d = 0; d < w->target->rank; d++) w->sub[d] = ein_compile(r, w->stmt->subs[d]);
  scatter_loop(w, 0);
  for (int64_t p = 0; p < count; p++)
    put(w, p, (result){floats ? w->total_f[p] : 0, floats ? 0 : w->total_i[p]});
  const char *why = NULL;
  ir_view other;
  if (is_dense_format(w->target->format)) {
    if (w->target->format &&
        !ir_view_convert(r->arena, &w->out, w->target->format, IR_I32, &other, &why))
      w->out = other;
  } else {
    store_as_declared(w);
  }
}

/* ---- the statement --------------------------------------------------------------------------- */
static bool prepare(work *w) {
  interp *r = w->r;
  int count = r->kernel->indices.count;
  ir_index **list =
      IR_NEW_ARRAY(r->arena, ir_index *, count + w->target->rank + w->stmt->free.count);
  for (int d = 0; d < w->target->rank; d++)
    (void)ir_size_value(w->target->dim[d], r->sizes, &w->dim[d]);
  memset(r->known, 0, sizeof(bool) * (size_t)count);
  for (int i = 0; i < count; i++) r->at[i] = -1;
  r->acc = w->stmt->acc ? w->stmt->acc : ir_dtype_rows[w->target->dtype].accumulator;
  w->loop_count = ir_is_scatter(w->stmt) ? scattered_indices(w, list) : assigned_indices(w, list);
  w->loops = ein_loops(r, list, w->loop_count);
  w->value = ein_compile(r, w->stmt->value);
  if (w->stmt->cond) w->cond = ein_compile(r, w->stmt->cond);
  return r->status == SPC_OK;
}

/* NULL: everywhere, or nobody asks. */
static const ir_expr *stores_of(const interp *r, const ir_stmt *stmt) {
  int number = 0;
  while (r->kernel->stmts.at[number] != stmt) number++;
  const ir_expr *stores = r->where_stored[number];
  return stores && !(stores->kind == IR_CONST && stores->i) ? stores : NULL;
}

spc_status ein_statement(interp *r, const ir_stmt *stmt) {
  work w = {.r = r, .stmt = stmt, .target = stmt->target, .stores = stores_of(r, stmt)};
  bool is_dense = is_dense_format(stmt->target->format);
  if (!prepare(&w)) return r->status;
  if (ir_is_scatter(stmt))
    run_scatter(&w);
  else if (w.target->like)
    run_like(&w);
  else if (is_dense || w.target->by_value || !w.stores)
    run_dense(&w);
  else
    run_assembled(&w);
  if (r->status) return r->status;
  store *made = ein_store_new(r, w.target, &w.out);
  if (w.stores && made->dense) made->stored = asked_pattern(&w);
  ir_binding binding = {w.target, w.out};
  (void)ir_view_as_declared(w.target, r->sizes, &binding.view); /* its own sizes were known */
  IR_PUSH(r->arena, &r->bindings->list, binding);
  return SPC_OK;
}
