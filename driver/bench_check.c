/* bench_check.c - the last results of a bench against the reference interpreter.
 *
 * The whole kernel would take the interpreter minutes.  Where a dim only counts rows (it is never
 * summed over, and every subscript of it is bare) the kernel is a map over that dim, and some rows
 * of the operands give the same rows of the results: those are interpreted and compared.  Small
 * kernels are interpreted whole; where neither will do, that is said, and the check against the
 * dense twin is all there is. */
#include "driver/bench.h"
#include "ir/compare.h"

static const double MOST_STEPS = 3e7; /* of the interpreter: about a second */
enum { MOST_ROWS = 16 };

/* ---- a dim that counts rows --------------------------------------------------------------------
 */
typedef struct rows_search {
  const ir_dim *dim;
  bool counts_rows;
} rows_search;

static bool is_dim(const ir_expr *e, const ir_dim *dim) {
  return e->kind == IR_DIM && e->dim == dim;
}

static bool mentions(const ir_expr *e, const ir_dim *dim) {
  if (is_dim(e, dim)) return true;
  for (int i = 0; i < e->arg_count; i++)
    if (mentions(e->args[i], dim)) return true;
  return false;
}

static bool ranges_over(const ir_index *index, const ir_dim *dim) {
  return index->extent && mentions(index->extent, dim);
}

static bool check_access(const ir_expr *e, const ir_dim *dim) {
  for (int d = 0; d < e->arg_count; d++) {
    const ir_expr *sub = e->args[d];
    bool row = sub->kind == IR_INDEX && ranges_over(sub->index, dim);
    if (row != is_dim(e->tensor->dim[d], dim)) return false;
  }
  return true;
}

/* Every use of the dim must be a bare subscript of an axis of that size. */
static void visit(rows_search *search, const ir_expr *e, bool subscript) {
  const ir_dim *dim = search->dim;
  bool bound = false;
  for (int i = 0; i < e->bound_count; i++) bound |= ranges_over(e->bound[i], dim);
  if (is_dim(e, dim) || bound || (e->kind == IR_ACCESS && !check_access(e, dim)) ||
      (e->kind == IR_INDEX && !subscript && ranges_over(e->index, dim)))
    search->counts_rows = false;
  for (int i = 0; i < e->arg_count; i++) visit(search, e->args[i], e->kind == IR_ACCESS);
}

static bool counts_rows(bench *b, const ir_dim *dim) {
  rows_search search = {dim, true};
  const ir_kernel *k = b->kernel;
  bool in_result = false;
  for (int i = 0; i < k->indices.count; i++) {
    const ir_index *index = k->indices.at[i];
    if (ranges_over(index, dim) && (!is_dim(index->extent, dim) || index->offsets)) return false;
    if (index->offsets && index->segment && ranges_over(index->segment, dim)) return false;
  }
  for (int i = 0; i < k->tensors.count; i++)
    for (int d = 0; d < k->tensors.at[i]->rank; d++) {
      const ir_expr *size = k->tensors.at[i]->dim[d];
      if (mentions(size, dim) && !is_dim(size, dim)) return false;
      in_result |= k->tensors.at[i]->role == IR_ROLE_OUT && is_dim(size, dim);
    }
  for (int i = 0; i < k->stmts.count; i++) {
    ir_stmt *stmt = k->stmts.at[i];
    visit(&search, ir_access(b->arena, stmt->target, stmt->subs), false);
    visit(&search, stmt->value, false);
    if (stmt->cond) visit(&search, stmt->cond, false);
  }
  return in_result && search.counts_rows;
}

/* ---- how long it would take --------------------------------------------------------------------
 */
typedef struct extent_walk {
  const bench *b;
  double steps;
} extent_walk;

static double extent_of(const bench *b, const ir_index *index) {
  int64_t value = 1;
  (void)ir_size_value(index->extent, b->sizes, &value);
  return value > 1 ? (double)value : 1;
}

static bool count_bound(void *user, ir_expr *e) {
  extent_walk *walk = user;
  for (int i = 0; i < e->bound_count; i++) walk->steps *= extent_of(walk->b, e->bound[i]);
  return true;
}

static double steps_of(const bench *b) {
  double steps = 0;
  for (int i = 0; i < b->kernel->stmts.count; i++) {
    ir_stmt *stmt = b->kernel->stmts.at[i];
    extent_walk walk = {b, 1};
    (void)ir_expr_walk(stmt->value, count_bound, &walk);
    for (int f = 0; f < stmt->free.count; f++) walk.steps *= extent_of(b, stmt->free.at[f]);
    steps += walk.steps;
  }
  return steps;
}

/* ---- the operands of some rows -----------------------------------------------------------------
 */
typedef struct slice {
  bench *b;
  ir_arena *arena;
  const ir_dim *dim; /* NULL: everything */
  int64_t row[MOST_ROWS], rows;
  int64_t *sizes;
} slice;

static int row_dim(const slice *s, const ir_tensor *tensor) {
  for (int d = 0; s->dim && d < ir_declared(tensor)->rank; d++)
    if (is_dim(ir_declared(tensor)->dim[d], s->dim)) return d;
  return -1;
}

/* The chosen rows of a dense row-major view, along dimension d. */
static void take_rows(const slice *s, const ir_view *from, int d, ir_view *to) {
  int64_t dims[IR_MAX_RANK] = {0}, outer = 1, inner = (int64_t)ir_dtype_bytes(from->dtype);
  for (int i = 0; i < from->rank; i++) {
    dims[i] = i == d ? s->rows : from->dim[i];
    if (i < d) outer *= from->dim[i];
    if (i > d) inner *= from->dim[i];
  }
  ir_view_dense(s->arena, from->dtype, from->rank, dims, to);
  for (int64_t o = 0; o < outer; o++)
    for (int64_t r = 0; r < s->rows; r++)
      memcpy((char *)to->vals.data + (size_t)((o * s->rows + r) * inner),
             (const char *)from->vals.data + (size_t)((o * from->dim[d] + s->row[r]) * inner),
             (size_t)inner);
}

static spc_status slice_operand(const slice *s, bench_operand *o, ir_view *out) {
  int d = row_dim(s, o->tensor);
  const char *why = "";
  *out = o->stored;
  if (d < 0) return SPC_OK;
  SPC_TRY(bench_data_dense(s->b, o));
  ir_view rows;
  take_rows(s, &o->dense, d, &rows);
  *out = rows;
  if (!o->copied) return SPC_OK;
  SPC_TRY(ir_view_convert(s->arena, &rows, o->tensor->format, IR_I32, out, &why));
  if (o->tensor->dtype == IR_NONE) {
    out->dtype = IR_NONE;
    out->vals.data = NULL;
  }
  return SPC_OK;
}

static spc_status interpret(const slice *s, ir_bindings *all) {
  bench *b = s->b;
  for (int i = 0; i < b->operands.count; i++) {
    bench_operand *o = &b->operands.at[i];
    ir_binding binding = {.tensor = o->tensor};
    SPC_TRY(slice_operand(s, o, &binding.view));
    IR_PUSH(s->arena, &all->list, binding);
  }
  ir_interp_options options = {.strict_nan = b->s->options.strict_nan};
  return ir_interp_ein(s->arena, b->kernel, s->sizes, all, &options, b->s->sink);
}

/* ---- the same rows of a result -----------------------------------------------------------------
 */
typedef struct gather {
  ir_view *to;
  const ir_view *from;
  int d;
  int64_t row;
} gather;

static bool gather_entry(void *user, const int64_t *at, int64_t position) {
  gather *g = user;
  int64_t place = 0;
  for (int d = 0; d < g->to->rank; d++)
    place = place * g->to->dim[d] + (d == g->d ? g->row : at[d]);
  double value = ir_dtype_load(g->from->dtype, g->from->vals.data, position);
  ir_dtype_store(g->to->dtype, g->to->vals.data, place, value);
  return true;
}

static void gather_rows(const slice *s, const ir_tensor *tensor, const ir_view *from, ir_view *to) {
  int64_t dims[IR_MAX_RANK] = {0}, fixed[IR_MAX_RANK];
  int d = row_dim(s, tensor);
  for (int i = 0; i < from->rank; i++) {
    dims[i] = i == d ? s->rows : from->dim[i];
    fixed[i] = -1;
  }
  ir_view_dense(s->arena, from->dtype, from->rank, dims, to);
  for (int64_t r = 0; r < (d < 0 ? 1 : s->rows); r++) {
    gather g = {to, from, d, r};
    if (d >= 0) fixed[d] = s->row[r];
    ir_view_walk_where(from, fixed, gather_entry, &g);
  }
}

static void to_dense(const slice *s, const ir_view *from, ir_view *to) {
  slice whole = {.arena = s->arena, .rows = 0};
  ir_tensor any = {.rank = from->rank};
  gather_rows(&whole, &any, from, to);
}

static const ir_view *view_named(const ir_bindings *bindings, const char *name) {
  for (int i = 0; i < bindings->list.count; i++)
    if (!strcmp(bindings->list.at[i].tensor->name, name)) return &bindings->list.at[i].view;
  return NULL;
}

static spc_status compare(const slice *s, const ir_bindings *got, const ir_bindings *want,
                          bool sliced, bench_verdict *verdict) {
  for (int i = 0; i < got->list.count; i++) {
    const ir_tensor *tensor = got->list.at[i].tensor;
    const ir_view *reference = view_named(want, tensor->name);
    ir_view left, right;
    ir_compare_result result;
    if (tensor->role != IR_ROLE_OUT || !reference) continue;
    const ir_tensor *declared = ir_tensor_named(s->b->kernel, tensor->name);
    gather_rows(s, declared, &got->list.at[i].view, &left);
    if (sliced)
      to_dense(s, reference, &right);
    else
      gather_rows(s, declared, reference, &right);
    bool equal = ir_compare(&left, &right, 0, 0, &result) == SPC_OK;
    if (result.relative_norm > verdict->error) verdict->error = result.relative_norm;
    if (equal) continue;
    verdict->right = false;
    verdict->why =
        ir_format_text(s->b->arena, "%s: %s", tensor->name, ir_compare_text(s->arena, &result));
  }
  return SPC_OK;
}

/* ---- all of it ---------------------------------------------------------------------------------
 */
static void choose_slice(slice *s) {
  bench *b = s->b;
  double steps = steps_of(b), best = 0;
  for (int d = 0; d < b->s->program->dims.count && steps > MOST_STEPS; d++) {
    const ir_dim *dim = b->s->program->dims.at[d];
    double extent = (double)s->sizes[d];
    if (extent <= best || !counts_rows(b, dim)) continue;
    best = extent;
    s->dim = dim;
  }
  if (!s->dim) return;
  double rows = MOST_STEPS / (steps / best);
  s->rows = rows < 1 ? 1 : rows > MOST_ROWS ? MOST_ROWS : (int64_t)rows;
  if (s->rows > s->sizes[s->dim->number]) s->rows = s->sizes[s->dim->number];
  for (int64_t r = 0; r < s->rows; r++) /* one in each of as many parts */
    s->row[r] = (int64_t)(((double)r + bench_uniform(&b->random)) * best / (double)s->rows);
  s->sizes[s->dim->number] = s->rows;
}

static spc_status check_ours(slice *s, bench_verdict *verdict) {
  bench *b = s->b;
  ir_bindings got = {0}, want = {0};
  choose_slice(s);
  SPC_TRY(bench_side_fetch(b->ours, &got, NULL));
  verdict->right = true;
  if (s->dim || steps_of(b) <= MOST_STEPS) {
    SPC_TRY(interpret(s, &want));
    verdict->done = true;
    verdict->how = s->dim ? ir_format_text(b->arena, "%lld rows of %s against the interpreter",
                                           (long long)s->rows, s->dim->name)
                          : "against the interpreter";
    return compare(s, &got, &want, s->dim != NULL, verdict);
  }
  verdict->why = "too large for the interpreter, and no dim only counts rows";
  if (!b->dense) return SPC_OK;
  SPC_TRY(bench_side_fetch(b->dense, &want, NULL));
  verdict->done = true;
  verdict->how = "against the dense program: no dim only counts rows";
  return compare(s, &got, &want, false, verdict);
}

spc_status bench_check(bench *b, bench_verdict *verdict) {
  slice s = {.b = b, .arena = bench_arena(b)};
  int dims = b->s->program->dims.count;
  s.sizes = IR_NEW_ARRAY(s.arena, int64_t, dims + 1);
  memcpy(s.sizes, b->sizes, sizeof(int64_t) * (size_t)dims);
  spc_status status = check_ours(&s, verdict);
  ir_arena_free(s.arena);
  return status;
}
